"""The mutants of the core: its protections, each taken back, and the rules beside them that checks stand for."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dispatch_memory_async.core import absorbing, acts, looker, observer, operator, steps, supervisor
from dispatch_memory_async.simulator.protections import PROTECTIONS, Change

__all__ = ("MUTANTS", "CoreMutant", "labelled")


@dataclass(frozen=True)
class CoreMutant:
    """Something of the core taken back.

    :ivar rule: the rule that it breaks, or ``3.3 n`` for the protection of that number
    :ivar what: what is done then
    :ivar changes: the functions, the words taken out and those put in
    """

    rule: str
    what: str
    changes: tuple[Change, ...] = field(repr=False)


def _private(owner: object, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(owner, name)
    return found


ACT, CALL, COMPILED = (_private(supervisor.Supervisor, name) for name in ("_act", "_call", "_compiled"))
CHOOSE, SETTLE, FOLLOW, ENDED, ACKNOWLEDGE = (
    _private(absorbing, name) for name in ("_choose", "_settle", "_follow", "_ended", "_acknowledge")
)
REFUSED = _private(acts, "_refused")
CONCLUDED, HELD, BEGUN, RESTARTED = (_private(steps, name) for name in ("_concluded", "_held", "_begun", "_restarted"))
KEPT = "if before.cause not in"


def _one(rule: str, what: str, function: Callable[..., Any], out: str, put_in: str) -> CoreMutant:
    return CoreMutant(rule, what, ((function, out, put_in),))


PROTECTIVE = tuple(CoreMutant(f"3.3 {number}", one.what, one.changes) for number, one in sorted(PROTECTIONS.items()))

FURTHER = (
    _one("CO-1", "the intent is not written", ACT, "await self._put(before, intending)", "intending"),
    _one(
        "CO-3", "an object that is seen is not adopted", CHOOSE, "if seen.submission == record.submission:", "if False:"
    ),
    _one(
        "CO-3",
        "AlreadyExistsError counts as a refusal",
        acts.answered,
        "OutcomeUnknownError | AlreadyExistsError",
        "OutcomeUnknownError",
    ),
    _one(
        "CO-3",
        "a requeue is made again after a lost reply, without waiting",
        acts.answered,
        "        return record\n    settled",
        "        return altered(record, intent=None) if intent.kind is Kind.REQUEUE else record\n    settled",
    ),
    _one("CO-5", "a refused start spends its number", REFUSED, "submission=intent.submission - 1", "intent=None"),
    _one(
        "CO-5",
        "a restart uses its number again",
        RESTARTED,
        "Start(record.submission + 1, decision)",
        "Start(max(record.submission, 1), decision)",
    ),
    _one(
        "CO-4",
        "a stop does not wait for the act under way",
        steps.next_step,
        "if record.intent:  # 3",
        "if record.intent and not record.stop:  # 3",
    ),
    _one(
        "CO-4",
        "a hold does not wait for the act under way",
        steps.next_step,
        "if record.intent:  # 3",
        "if record.intent and not record.hold:  # 3",
    ),
    _one(
        "CO-2",
        "the first start waits for no proof",
        BEGUN,
        "if certain or (not signal and not status.extras):  # 21",
        "if True:  # 21",
    ),
    CoreMutant(
        "CO-2",
        "what is live beside the chosen object does not count",
        (
            (steps.proven, "if status.extras:", "if False:"),
            (BEGUN, "(not signal and not status.extras):  # 24", "not signal:  # 24"),
        ),
    ),
    _one(
        "CO-2",
        "no answer counts as proof",
        looker.Looker.ask,
        "altered(look, complete=False)",
        "altered(look, ceased=True)",
    ),
    _one("CO-2", "without a signal no end is proof", steps.proven, "(end.state.ended and", "(False and"),
    _one("CO-2", "without a signal a vanished object is proof", steps.proven, "(end.gone and not ran)", "end.gone"),
    _one("CO-2", "without a signal no vanished object is proof", steps.proven, "(end.gone and not ran)", "False"),
    _one(
        "CO-2",
        "without a signal a held run is proof",
        steps.proven,
        "not ran or not has(capabilities, Capability.HOLD_RUNNING)",
        "True",
    ),
    _one("CO-14", "a person's word is no proof", steps.proven, "return said or ", "return "),
    _one(
        "CO-14",
        "a person's word is proof of all that comes",
        steps.proven,
        "record.word is not None and record.word.end == end.key",
        "record.word is not None",
    ),
    _one(
        "CO-14",
        "a person's word is forgotten with the wedge",
        ENDED,
        "if word and word.end == before.key:",
        "if False:",
    ),
    _one(
        "CO-12", "a look without an answer shows nothing there", steps.next_step, "if not status.complete:", "if False:"
    ),
    _one(
        "CO-12",
        "a start that can never be is tried for ever",
        REFUSED,
        "isinstance(error, FOR_GOOD) and",
        "False and",
    ),
    _one("CO-6", "a stale hold keeps its number", REFUSED, "isinstance(error, StaleError)", "False"),
    _one("CO-6", "every hold has the same number", operator.Operator.hold, "record.hold_counter + 1", "1"),
    _one(
        "CO-6",
        "a refused hold counts as in force",
        ACKNOWLEDGE,
        "altered(hold, refused=True)",
        "altered(hold, acked=True)",
    ),
    _one(
        "CO-6",
        "a hold that was lifted is not placed again",
        HELD,
        "seen.hold != hold.instance",
        "seen.hold != hold.instance and not hold.acked",
    ),
    _one(
        "CO-6", "what somebody else runs is always stopped", HELD, "if hold.running is WhileRunning.STOP:", "if True:"
    ),
    _one(
        "CO-6",
        "what somebody else runs is never stopped",
        HELD,
        "if hold.running is WhileRunning.STOP:",
        "if hold.running is WhileRunning.STOP and not hold.acked:",
    ),
    _one(
        "CO-6",
        "no hold is lifted",
        BEGUN,
        "return Release(seen.ref, seen.hold) if certain else",
        "return",
    ),
    _one(
        "CO-6",
        "a gate is no hold",
        ACKNOWLEDGE,
        "if not has(capabilities, Capability.HOLD) and seen.gated:",
        "if False:",
    ),
    _one(
        "CO-6",
        "what can go on does so before it is held",
        steps.next_step,
        "or _held(record, seen, capabilities)\n        or _begun(record, status, capabilities)",
        "or _begun(record, status, capabilities)\n        or _held(record, seen, capabilities)",
    ),
    _one(
        "CO-8",
        "what was never started is started before it is stopped",
        CONCLUDED,
        "if record.stop:",
        "if record.stop and record.chosen:",
    ),
    _one(
        "CO-8",
        "a hold goes before a stop",
        steps.next_step,
        "concluded\n        or _held(record, seen, capabilities)",
        "_held(record, seen, capabilities)\n        or concluded",
    ),
    _one(
        "CO-8", "a restart after a stop for a hold is charged", steps.decide, "is StoppedFor.HOLD", "is StoppedFor.USER"
    ),
    _one("CO-8", "a release after an end is no restart", steps.decide, "(record.go_on and", "(False and"),
    _one(
        "CO-8",
        "a stop after a success cancels",
        CONCLUDED,
        "if end and end.state is State.SUCCEEDED:  # 8",
        "if False:  # 8",
    ),
    _one(
        "CO-8",
        "the last rule that names the cause decides",
        steps.decide,
        "in matching:",
        "in reversed(list(matching)):",
    ),
    _one(
        "CO-8", "a restart that is tried again is charged again", steps.decide, "if record.charged and", "if False and"
    ),
    _one("CO-8", "no backoff", RESTARTED, "if now < then:", "if False:"),
    _one(
        "CO-8", "a backoff begins again with every look", ENDED, "end=altered(end, seen_at=before.seen_at)", "end=end"
    ),
    _one(
        "CO-8", "unmatched is taken the other way", steps.decide, "is UnmatchedPolicy.HOLD", "is UnmatchedPolicy.FAIL"
    ),
    _one("CO-8", "a rule that holds restarts", steps.decide, "if rule.action is Action.HOLD:", "if False:"),
    _one("CO-8", "a rule that fails restarts", steps.decide, "if rule.action is Action.FAIL:", "if False:"),
    _one(
        "CO-8",
        "what the scheduler put back counts as an end",
        FOLLOW,
        "if seen.state.ended or (wedged",
        "if seen.state.ended or seen.cause is Cause.PREEMPTED or (wedged",
    ),
    _one(
        "CO-8",
        "an end that somebody else took back stands",
        FOLLOW,
        "return altered(record, chosen=now_chosen, end=None)",
        "return altered(record, chosen=now_chosen)",
    ),
    _one("CO-8", "the scheduler is told of every policy", COMPILED, "record.native and", "True and"),
    _one("CO-8", "the scheduler is told of no policy", COMPILED, "record.native and", "False and"),
    _one("CO-8", "the scheduler's own rules are applied again", steps.decide, "index not in record.covered", "True"),
    _one("CO-7", "the bit of a native policy is restored", steps.next_step, " and not record.covered:", ":"),
    _one(
        "CO-9",
        "a stop gives its own cause to every end",
        CONCLUDED,
        "(end.cause if end else None) or Cause.STOPPED",
        "Cause.STOPPED",
    ),
    _one(
        "CO-9",
        "an object that we deleted ends of an unknown cause",
        FOLLOW,
        "Cause.STOPPED if record.chosen.stopped_for else Cause.UNKNOWN",
        "Cause.UNKNOWN",
    ),
    _one(
        "CO-9",
        "a failure is an exit",
        CONCLUDED,
        "cause=end.cause, detail=decision[1]",
        "cause=Cause.NON_ZERO_EXIT, detail=decision[1]",
    ),
    CoreMutant(
        "CO-9",
        "the cause of a wedge is forgotten",
        (
            (FOLLOW, "cause = record.end.cause if record.end else None", "cause = None"),
            (ENDED, KEPT, "if False and before.cause not in"),
        ),
    ),
    _one(
        "CO-9",
        "a requeue of what has vanished goes on from the end before",
        SETTLE,
        "if intent.kind is Kind.REQUEUE else record",
        "if False else record",
    ),
    _one(
        "CO-10",
        "what an administrator holds is opened",
        BEGUN,
        "if seen.cause is Cause.ADMIN_HELD:  # 23",
        "if False:  # 23",
    ),
    _one("CO-10", "what somebody else deactivated is not told", BEGUN, "if seen.cause is Cause.HELD:", "if False:"),
    _one(
        "CO-11",
        "a requeue that is refused for good is tried for ever",
        REFUSED,
        "isinstance(error, FinishedError | UnsupportedError)",
        "False",
    ),
    _one(
        "CO-11",
        "no restart is a requeue",
        RESTARTED,
        "if seen is not None and requeueable and",
        "if False and requeueable and",
    ),
    _one(
        "CO-13",
        "what is declared counts, whether the adapter has a call for it or not",
        looker.Looker.capabilities,
        "return altered(said,",
        "return said or altered(said,",
    ),
    _one("CO-13", "a requeue is called that is not there", RESTARTED, " and has(capabilities, Capability.REQUEUE)", ""),
    _one("CO-13", "a bit is restored by a call that is not there", steps.next_step, "and clearable and", "and"),
    _one("CO-12", "a success is not told", CONCLUDED, "if end.state is State.SUCCEEDED:  # 10", "if False:  # 10"),
    CoreMutant(
        "CO-15",
        "steps go on after the verdict",
        (
            (supervisor.Supervisor.step, "if record.verdict:", "if False:"),
            (steps.next_step, "if record.verdict:", "if False:"),
        ),
    ),
    _one(
        "CO-15",
        "people may ask after the verdict",
        _private(operator.Operator, "_write"),
        "if record.verdict:",
        "if False:",
    ),
    _one(
        "CO-15",
        "a verdict while another object is live",
        steps.next_step,
        "in status.extras:",
        "in () if record.end else status.extras:",
    ),
    _one(
        "CO-15",
        "a verdict while the object is live",
        CONCLUDED,
        "if seen is not None and stands:  # 12",
        "if False:  # 12",
    ),
    _one(
        "CO-15", "the observer does not ask the signal", observer.Observer.get, "if look.complete and", "if False and"
    ),
)

MUTANTS = (*PROTECTIVE, *FURTHER)


def labelled() -> dict[str, CoreMutant]:
    """The mutants under the names that the page gives them: the rule, and a number if it has several."""
    several = Counter(mutant.rule for mutant in MUTANTS)
    numbers = {rule: count(1) for rule in several}
    return {
        mutant.rule if several[mutant.rule] == 1 else f"{mutant.rule}/{next(numbers[mutant.rule])}": mutant
        for mutant in MUTANTS
    }
