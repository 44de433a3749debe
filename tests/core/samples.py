"""What the tests of the core are made of: capabilities of both shapes, observations, records."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dispatch_memory_async import (
    Action,
    Capabilities,
    Capability,
    Cause,
    Observation,
    Policy,
    Ref,
    Rule,
    State,
    Support,
    UnmatchedPolicy,
)
from dispatch_memory_async.core.record import (
    Ask,
    Chosen,
    End,
    EndKey,
    Hold,
    Intent,
    Kind,
    Record,
    Said,
)
from dispatch_memory_async.model import Tristate
from dispatch_memory_async.model.base import altered
from tests.support import MINUTE, SECOND, T0, job

BOUND = timedelta(seconds=25)
DEADLINE = T0 + MINUTE


def capabilities(*able: Capability) -> Capabilities:
    """A cluster that can do these."""
    support = {each: Support(value=Tristate.YES if each in able else Tristate.NO) for each in Capability}
    return Capabilities(support=support, rules={}, native={}, call_bound=BOUND)


def without(able: Capabilities, *lost: Capability) -> Capabilities:
    """The same cluster, which cannot do these."""
    gone: Mapping[Capability, Support] = {each: Support(value=Tristate.NO) for each in lost}
    return altered(able, support={**able.support, **gone})


SLURM = capabilities(Capability.GATED_START, Capability.HOLD, Capability.REQUEUE, Capability.CESSATION)
KUBEFLOW = capabilities(Capability.HOLD, Capability.HOLD_RUNNING, Capability.CESSATION)
SLURM_BLIND = without(SLURM, Capability.CESSATION)
KUBEFLOW_BLIND = without(KUBEFLOW, Capability.CESSATION)


def ref(number: int = 1, at: int = 0) -> Ref:
    """The exact ref of the object of a submission, submitted so many seconds after the beginning."""
    return Ref(name="dj", id=str(number), submitted_at=T0 + at * SECOND)


def seen(number: int = 1, state: State = State.PENDING, cause: Cause | None = None, **fields: Any) -> Observation:
    """The object of a submission, as a look shows it."""
    times: dict[str, Any] = {"started_at": T0} if state is not State.PENDING else {}
    if state.ended:
        times["ended_at"] = T0
    given: dict[str, Any] = {"ref": ref(number), "observed_at": T0, **times, **fields}
    return Observation(job_id=job().id, submission=number, state=state, cause=cause, **given)


def gated(number: int = 1, **fields: Any) -> Observation:
    """An object behind its gate."""
    return seen(number, cause=fields.pop("cause", Cause.GATED), gated=True, **fields)


def running(number: int = 1, cause: Cause | None = None, **fields: Any) -> Observation:
    """An object that runs."""
    return seen(number, State.RUNNING, cause, **fields)


def failed(number: int = 1, cause: Cause = Cause.NON_ZERO_EXIT, **fields: Any) -> Observation:
    """An object that has failed."""
    return seen(number, State.FAILED, cause, **fields)


def of(number: int = 1, **fields: Any) -> Chosen:
    """The object of a submission, chosen."""
    given: dict[str, Any] = {"submission": number, "ref": ref(number), "may_have_run": True, **fields}
    return Chosen(**given)


def end(cause: Cause | None = Cause.NON_ZERO_EXIT, state: State = State.FAILED, **fields: Any) -> End:
    """An end of the first object, seen at the beginning."""
    given: dict[str, Any] = {"submission": 1, "restarts": 0, "state": state, "cause": cause, "seen_at": T0, **fields}
    return End(**given)


def wedge(cause: Cause | None = Cause.NODE_LOST, **fields: Any) -> End:
    """A wedge of the first object."""
    return end(cause, State.RUNNING, wedge=True, **fields)


def gone(cause: Cause | None = Cause.UNKNOWN, **fields: Any) -> End:
    """The first object's having vanished."""
    return end(cause, State.GONE, gone=True, **fields)


def intent(kind: Kind, number: int = 1, **fields: Any) -> Intent:
    """An act that may be under way."""
    exact = None if kind is Kind.START else ref(number)
    given: dict[str, Any] = {
        "id": 7,
        "kind": kind,
        "submission": number,
        "ref": exact,
        "deadline": DEADLINE,
        **fields,
    }
    return Intent(**given)


def hold(**fields: Any) -> Hold:
    """A hold by a person."""
    given: dict[str, Any] = {"instance": 1, "by": "ann", "reason": "lunch", **fields}
    return Hold(**given)


def restart(*causes: Cause, action: Action = Action.RESTART, **fields: Any) -> Rule:
    """A rule for these causes, or for what the samples end with."""
    named = frozenset(causes or (Cause.NON_ZERO_EXIT, Cause.NODE_LOST, Cause.UNKNOWN, Cause.STOPPED))
    return Rule(causes=named, action=action, **fields)


ASK = Ask("ann", "enough", T0)
RESTART = Policy((restart(),))
FAIL = Policy((), UnmatchedPolicy.FAIL)
PARK = Policy((), UnmatchedPolicy.HOLD)


def record(policy: Policy = RESTART, **fields: Any) -> Record:
    """A record of a job whose first submission is chosen, or, with ``chosen=None``, of a new one."""
    first = fields.get("chosen", of())
    given: dict[str, Any] = {
        "job": job(),
        "version": 1,
        "policy": policy,
        "counts": (0,) * len(policy.rules),
        "chosen": first,
        "submission": 0 if first is None else first.submission,
        **fields,
    }
    if given.get("hold"):
        given.setdefault("hold_counter", given["hold"].instance)
    return Record(**given)


def said(key: EndKey) -> Said:
    """What a person said of an end."""
    return Said(key, Ask("ann", "seen it", T0))
