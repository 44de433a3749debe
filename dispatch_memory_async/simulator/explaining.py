"""Explaining: what happened in a run that broke an invariant, in words, and the command that plays it again."""

from collections.abc import Iterator

from ..memory import Execution, Truth
from ..model.base import altered
from .config import SimConfig
from .invariants import INVARIANTS
from .run import ERROR, Result, Violation
from .trace import BEGINNING, Kind

__all__ = ("command_of", "explain", "headline", "rule_of")

DEFAULTS = SimConfig(seed=0)


def command_of(config: SimConfig) -> str:
    """The command that plays a run again."""
    words = [f"dispatch-memory replay {config.seed} --shape {config.shape}"]
    for field in ("jobs", "supervisors", "unmatched", "steps", "quiet", "mutant", "stop_at"):
        found = getattr(config, field)
        if found != getattr(DEFAULTS, field):
            words.append(f"--{field.replace('_', '-')} {found}")
    if config.only is not None:
        words.append(f"--only {','.join(map(str, config.only)) or '0'}")
    return " ".join(words)


def headline(violation: Violation, verb: str = "is") -> str:
    """What has happened, in a word."""
    raised = violation.invariant == ERROR
    return "The core has raised an error" if raised else f"{violation.invariant} {verb} broken"


def rule_of(violation: Violation) -> str:
    """The rule that was broken, in words."""
    if violation.invariant == ERROR:
        return "a supervisor raises nothing, and an operator only what a person is to be told."
    return next((each.__doc__ or "" for each in INVARIANTS if each.name == violation.invariant), "")


def explain(result: Result) -> str:
    """Who did what, what the truth was, and which rule broke.

    :param result: a run, best one that was shrunk
    """
    return "\n".join(_explained(result))


def _explained(result: Result) -> Iterator[str]:
    if not result.violations:
        yield "No invariant was broken."
        return
    violation = result.violations[0]
    yield f"{headline(violation)} in step {violation.step}, by job {violation.job}."
    yield f"The rule: {rule_of(violation)}"
    yield f"Seen: {violation.what}."
    yield "\nWhat happened:"
    for entry in result.trace:
        if entry.job in (0, violation.job) and entry.kind is not Kind.ACTOR:
            yield f"  {entry}"
    yield "\nThe truth then:"
    mine = [truth for truth in result.truths if truth.job.id.__int__() == violation.job]
    for number, truth in enumerate(mine, 1):
        yield f"  object {number}: {_object(truth)}"
        for execution in truth.executions:
            yield f"    {_execution(execution)}"
    yield f"\nTo play it again: {command_of(altered(result.config, stop_at=None))}"


def _object(truth: Truth) -> str:
    cause = f" ({truth.cause})" if truth.cause else ""
    marks = [
        "gated" * truth.gated,
        f"held, instance {truth.hold}" if truth.hold is not None else "",
        "held by an administrator" * truth.admin_held,
        "inactive" * (not truth.active),
        "with its requeue bit set" * bool(truth.requeue_bit),
        f"on a node that is {truth.node}" if truth.node and truth.node != "up" else "",
        "gone" * (truth.gone_at is not None),
    ]
    said = "".join(f", {mark}" for mark in marks if mark)
    return f"submission {truth.submission}, {truth.state}{cause}, restarts {truth.restarts}{said}"


def _execution(execution: Execution) -> str:
    began = (execution.started_at - BEGINNING).total_seconds()
    if execution.ended_at is None:
        return f"epoch {execution.epoch}: alive since {began:.1f}s"
    ended = (execution.ended_at - BEGINNING).total_seconds()
    how = f"exit {execution.exit_code}" if execution.exit_code is not None else str(execution.cause or "ended")
    return f"epoch {execution.epoch}: from {began:.1f}s to {ended:.1f}s, {how}"
