"""next_step: the one next act for a job, by the first row of the table that holds."""

from datetime import datetime, timedelta
from enum import StrEnum

from ..model import Action, Capabilities, Capability, Cause, Observation, Ref, State, UnmatchedPolicy, Value
from ..model.kinds import Count, Instance, Moment, Submission
from .absorbing import settled_at
from .look import ending, has, holdable, live
from .moments import after
from .record import SKEW, End, Record, StoppedFor, Verdict, WhileRunning
from .status import Status, WaitingFor

__all__ = (
    "Decision",
    "Finish",
    "Hold",
    "Open",
    "Park",
    "Release",
    "Requeue",
    "Restart",
    "RestoreRequeueBit",
    "Start",
    "Step",
    "Stop",
    "Wait",
    "decide",
    "next_step",
    "proven",
)


class Restart(Value, frozen=True):
    """That an end is followed by a restart.

    :ivar rule: the rule that it is charged to; ``None`` if it is free
    :ivar charged: whether it was charged already
    """

    rule: Count | None = None
    charged: bool = False


class Start(Value, frozen=True):
    """Make the object of a submission."""

    submission: Submission
    restart: Restart | None = None


class Open(Value, frozen=True):
    """Lift the gate."""

    ref: Ref


class Stop(Value, frozen=True):
    """End an object: the one that stands for the job for a reason, another for none."""

    ref: Ref
    submission: Submission
    why: StoppedFor | None = None
    restart: Restart | None = None


class Requeue(Value, frozen=True):
    """Put the object back to wait."""

    ref: Ref
    restart: Restart


class RestoreRequeueBit(Value, frozen=True):
    """Clear the requeue bit."""

    ref: Ref


class Hold(Value, frozen=True):
    """Hold the object back."""

    ref: Ref
    instance: Instance


class Release(Value, frozen=True):
    """Lift a hold."""

    ref: Ref
    instance: Instance


class Park(Value, frozen=True):
    """Hold the job for a person: its policy says so, or says nothing. It is written, not called."""

    reason: str


class Finish(Value, frozen=True):
    """Give the verdict. It is written, not called."""

    verdict: Verdict


class Wait(Value, frozen=True, kw_only=True):
    """Nothing is to be done now.

    :ivar why: what is waited for
    :ivar until: when something is to be done; ``None``: once the scheduler or the record shows something new
    :ivar detail: what there is to say about it
    """

    why: WaitingFor
    until: Moment | None = None
    detail: str = ""


ALIVE = "an execution of it may be alive"
UNPROVEN = Wait(why=WaitingFor.CESSATION, detail=ALIVE)
UNTOLD = Wait(why=WaitingFor.CESSATION, detail=f"{ALIVE}, and no signal tells when it has ceased")

Step = Start | Open | Stop | Requeue | RestoreRequeueBit | Hold | Release | Park | Finish | Wait


class Decision(StrEnum):
    """What a policy says about an end, if it is no restart."""

    HOLD = "hold"
    FAIL = "fail"


def proven(record: Record, status: Status, capabilities: Capabilities) -> bool:
    """Whether every execution of the job has ceased, so that one may be begun."""
    if status.extras:
        return False
    if has(capabilities, Capability.CESSATION):
        return status.ceased is True
    end = record.end
    ran = record.chosen is not None and record.chosen.may_have_run
    if end is None:
        return not ran or not has(capabilities, Capability.HOLD_RUNNING)
    said = record.word is not None and record.word.end == end.key
    return said or (end.state.ended and end.cause is not Cause.NODE_LOST) or (end.gone and not ran)


def decide(record: Record, end: End) -> Restart | tuple[Decision, str]:
    """What follows an end: a restart, or a decision with its reason.

    A rule is charged once an end; the scheduler's own rules are not ours to apply again.
    """
    if record.charged and record.charged.end == end.key:
        return Restart(record.charged.rule, charged=True)
    if (record.go_on and record.go_on.end == end.key) or (
        record.chosen and record.chosen.stopped_for is StoppedFor.HOLD
    ):
        return Restart()
    matching = (
        (index, rule)
        for index, rule in enumerate(record.policy.rules)
        if index not in record.covered and end.cause in rule.causes
    )
    why = f"no rule names {end.cause}"
    for index, rule in matching:
        if rule.action is Action.HOLD:
            return Decision.HOLD, f"rule {index + 1} holds it after {end.cause}"
        if rule.action is Action.FAIL:
            return Decision.FAIL, f"rule {index + 1} fails it after {end.cause}"
        if rule.limit is None or record.counts[index] < rule.limit:
            return Restart(index)
        why = f"rule {index + 1} has restarted it {rule.limit} times, now {end.cause}"
        break
    return (Decision.HOLD if record.policy.unmatched is UnmatchedPolicy.HOLD else Decision.FAIL), why


def next_step(
    record: Record, status: Status, capabilities: Capabilities, now: datetime, *, skew: timedelta = SKEW
) -> Step:
    """The one next act, by the first row of the table that holds.

    :param record: the record, after the look was absorbed
    :param status: what is known of the job
    :param capabilities: what the cluster can do
    :param now: the time
    :param skew: by how much clocks may differ
    """
    if record.verdict:  # 1
        return Wait(why=WaitingFor.DONE)
    if not status.complete:  # 2
        return Wait(why=WaitingFor.LOOK, detail="the scheduler does not answer")
    if record.intent:  # 3
        until = settled_at(record.intent, capabilities, skew)
        return Wait(why=WaitingFor.ACT, until=until, detail=f"{record.intent.kind} may be under way")
    for extra in status.extras:  # 4
        if not (ending(extra) and extra.cause is Cause.STOPPED):
            return Stop(extra.ref, extra.submission)
    seen = status.chosen
    clearable = has(capabilities, Capability.REQUEUE)  # else that call is not there (CO-13)
    if seen is not None and live(seen) and seen.requeue_bit and clearable and not record.covered:  # 5
        return RestoreRequeueBit(seen.ref)
    restart = decide(record, record.end) if record.end else None
    concluded = _concluded(record, seen, restart, now)
    if isinstance(concluded, Finish) and status.extras:
        return Wait(why=WaitingFor.SCHEDULER, detail="another object of it is ending")
    return (
        concluded
        or _held(record, seen, capabilities)
        or _begun(record, status, capabilities)
        or _restarted(record, status, capabilities, restart, now)
    )


def _concluded(
    record: Record, seen: Observation | None, decision: Restart | tuple[Decision, str] | None, now: datetime
) -> Step | None:
    """Rows 6 to 13: a stop that was asked for, and ends that need no restart."""
    end = record.end
    if record.stop:
        if seen is not None and live(seen):
            if ending(seen) and seen.cause is Cause.STOPPED:  # 6
                return Wait(why=WaitingFor.SCHEDULER, detail="it is being stopped")
            return Stop(seen.ref, seen.submission, StoppedFor.USER)  # 7
        detail = f"stopped by {record.stop.by}: {record.stop.reason}"
        if end and end.state is State.SUCCEEDED:  # 8
            return Finish(Verdict(state=State.SUCCEEDED, cause=None, at=now))
        cause = (end.cause if end else None) or Cause.STOPPED
        return Finish(Verdict(state=State.CANCELLED, cause=cause, detail=detail, at=now))  # 9
    if end is None:
        return None
    if end.state is State.SUCCEEDED:  # 10
        return Finish(Verdict(state=State.SUCCEEDED, cause=None, at=now))
    stands = seen is not None and live(seen)
    if record.chosen and record.chosen.stopped_for is StoppedFor.FAIL and not stands:  # 11
        return Finish(Verdict(state=State.FAILED, cause=end.cause, at=now))
    if isinstance(decision, tuple) and decision[0] is Decision.FAIL:
        if seen is not None and stands:  # 12
            return Stop(seen.ref, seen.submission, StoppedFor.FAIL)
        state = State.CANCELLED if end.state is State.CANCELLED else State.FAILED
        return Finish(Verdict(state=state, cause=end.cause, detail=decision[1], at=now))  # 13
    return None


def _held(record: Record, seen: Observation | None, capabilities: Capabilities) -> Step | None:
    """Rows 14 to 18: a hold that was asked for."""
    hold = record.in_force
    if hold is None:
        return None
    if seen is not None and live(seen) and seen.hold != hold.instance:
        if holdable(seen, capabilities):  # 14
            return Hold(seen.ref, hold.instance)
        if ending(seen):  # 15
            return Wait(why=WaitingFor.SCHEDULER, detail="its execution is ending")
        if seen.state is State.RUNNING:
            if hold.running is WhileRunning.STOP:  # 16
                return Stop(seen.ref, seen.submission, StoppedFor.HOLD)
            return Wait(why=WaitingFor.OTHER, detail="it runs, and was begun by somebody else")  # 17
    return Wait(why=WaitingFor.HOLD, until=hold.until, detail=f"held by {hold.by}: {hold.reason}")  # 18


def _begun(record: Record, status: Status, capabilities: Capabilities) -> Step | None:
    """Rows 19 to 26: an object that can go on, or the first one."""
    seen, certain = status.chosen, proven(record, status, capabilities)
    if seen is not None and live(seen) and seen.hold is not None:
        return Release(seen.ref, seen.hold) if certain else _unproven(capabilities)  # 19, 20
    if record.chosen is None:
        signal = has(capabilities, Capability.CESSATION)
        if certain or (not signal and not status.extras):  # 21
            return Start(record.submission + 1)
        return _unproven(capabilities)  # 22
    if seen is None or not live(seen):
        return None
    if seen.gated:
        if seen.cause is Cause.ADMIN_HELD:  # 23
            return Wait(why=WaitingFor.ADMIN, detail="an administrator holds it")
        signal = has(capabilities, Capability.CESSATION)
        if certain or (not signal and not status.extras):  # 24
            return Open(seen.ref)
        return _unproven(capabilities)  # 25
    if record.end is None:  # 26
        if seen.cause is Cause.ADMIN_HELD:
            return Wait(why=WaitingFor.ADMIN, detail="an administrator holds it")
        if seen.cause is Cause.HELD:
            return Wait(why=WaitingFor.OTHER, detail="somebody else holds it")
        return Wait(why=WaitingFor.SCHEDULER)
    return None


def _unproven(capabilities: Capabilities) -> Wait:
    return UNPROVEN if has(capabilities, Capability.CESSATION) else UNTOLD


def _restarted(
    record: Record,
    status: Status,
    capabilities: Capabilities,
    decision: Restart | tuple[Decision, str] | None,
    now: datetime,
) -> Step:
    """Rows 27 to 33: an end that a restart follows, or a person."""
    end, seen = record.end, status.chosen
    if end is None or decision is None:  # what is known of the chosen object has just been absorbed
        return Wait(why=WaitingFor.LOOK)
    if end.wedge and not proven(record, status, capabilities):  # 27
        return _unproven(capabilities)
    if isinstance(decision, tuple):  # 28
        return Park(decision[1])
    backoff = record.policy.rules[decision.rule].backoff if decision.rule is not None else timedelta(0)
    then = after(end.seen_at, backoff)
    if now < then:  # 29
        return Wait(why=WaitingFor.POLICY_BACKOFF, until=then, detail=f"it is restarted at {then:%Y-%m-%dT%H:%M:%SZ}")
    if end.wedge and seen is not None:  # 30
        return Stop(seen.ref, seen.submission, StoppedFor.RESTART, decision)
    if not proven(record, status, capabilities):  # 31
        return _unproven(capabilities)
    requeueable = seen is not None and seen.state.ended and not seen.from_history and not seen.requeue_bit
    refused = record.chosen is not None and not record.chosen.requeueable
    if seen is not None and requeueable and not refused and has(capabilities, Capability.REQUEUE):  # 32
        return Requeue(seen.ref, decision)
    return Start(record.submission + 1, decision)  # 33
