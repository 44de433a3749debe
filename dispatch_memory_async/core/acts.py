"""What goes into the record with an act: the intent before it is called, and what a definite reply says."""

from datetime import datetime

from ..model import (
    AlreadyExistsError,
    Capabilities,
    Capability,
    DispatchError,
    FinishedError,
    InvalidError,
    OutcomeUnknownError,
    ReadOnlyError,
    Ref,
    StaleError,
    UnsupportedError,
)
from ..model.base import altered
from .look import has
from .record import PAST, POLICY, Charge, Chosen, Hold, Intent, Kind, Record
from .steps import Finish, Open, Park, Release, Requeue, Restart, RestoreRequeueBit, Start, Stop, Wait
from .steps import Hold as HoldStep

__all__ = ("Act", "answered", "intended", "remembered", "written")

Act = Start | Open | Stop | Requeue | RestoreRequeueBit | HoldStep | Release
"""A step that calls the scheduler."""

FOR_GOOD = (InvalidError, ReadOnlyError, UnsupportedError)
"""Refusals that trying again does not change."""

_KINDS: dict[type, Kind] = {
    Start: Kind.START,
    Open: Kind.OPEN,
    Stop: Kind.STOP,
    Requeue: Kind.REQUEUE,
    RestoreRequeueBit: Kind.RESTORE,
    HoldStep: Kind.HOLD,
    Release: Kind.RELEASE,
}


def written(record: Record, step: Park | Finish | Wait) -> Record:
    """The record after a step that only writes it."""
    if isinstance(step, Finish):
        return altered(record, verdict=step.verdict)
    return _parked(record, step.reason) if isinstance(step, Park) else record


def _parked(record: Record, reason: str) -> Record:
    instance = record.hold_counter + 1
    return altered(record, hold=Hold(instance=instance, by=POLICY, reason=reason), hold_counter=instance)


def remembered(before: Record, after: Record) -> Record:
    """The record as it is to be written: with the end that it had before, if that stands no more."""
    was, stands = before.end, after.end
    if was is None or (stands is not None and stands.key == was.key):
        return after
    return altered(after, past=(*before.past, was)[-PAST:])


def intended(record: Record, act: Act, version: int, deadline: datetime) -> Record:
    """The record with the intent of an act in it; a restart is charged in the same write.

    :param version: the version in which it is written, which no other intent of the job has
    :param deadline: the act's deadline
    """
    number = act.submission if isinstance(act, Start | Stop) else record.chosen.submission if record.chosen else 1
    intent = Intent(
        id=version,
        kind=_KINDS[type(act)],
        submission=number,
        ref=None if isinstance(act, Start) else act.ref,
        instance=act.instance if isinstance(act, HoldStep | Release) else None,
        deadline=deadline,
    )
    record = altered(record, intent=intent)
    if isinstance(act, Start):
        record = altered(record, submission=act.submission)
    if isinstance(act, Stop) and act.why and record.chosen:
        record = altered(record, chosen=altered(record.chosen, stopped_for=act.why))
    restart = act.restart if isinstance(act, Start | Stop | Requeue) else None
    return _charged(record, restart) if restart else record


def _charged(record: Record, restart: Restart) -> Record:
    if restart.charged or record.end is None:
        return record
    counts = tuple(count + (index == restart.rule) for index, count in enumerate(record.counts))
    return altered(record, counts=counts, charged=Charge(record.end.key, restart.rule))


def answered(record: Record, intent: Intent, reply: Ref | DispatchError | None, capabilities: Capabilities) -> Record:
    """The record after a reply to its intent; unchanged if that tells nothing for certain.

    :param reply: what a start answered, ``None`` for another act that was done, or the error
    """
    if record.intent is None or record.intent.id != intent.id:
        return record
    if isinstance(reply, OutcomeUnknownError | AlreadyExistsError):  # the latter has landed, a look will see it
        return record
    settled = altered(record, intent=None)
    if isinstance(reply, DispatchError):
        return _refused(settled, intent, reply)
    if intent.kind is Kind.START and reply is not None:
        gated = has(capabilities, Capability.GATED_START)
        started = Chosen(submission=intent.submission, ref=reply, may_have_run=not gated)
        return altered(settled, chosen=started, end=None)
    if settled.chosen and intent.kind in (Kind.OPEN, Kind.REQUEUE) and settled.chosen.submission == intent.submission:
        settled = altered(settled, chosen=altered(settled.chosen, may_have_run=True))
    return altered(settled, end=None) if intent.kind is Kind.REQUEUE else settled


def _refused(record: Record, intent: Intent, error: DispatchError) -> Record:
    """After a definite refusal.

    A start gives its number back; if that or an opening can never be done, the job waits for a person. A stale hold
    takes a higher instance. What we could not stop was not stopped by us. What cannot be requeued is submitted anew.
    """
    if intent.kind is Kind.START and record.submission == intent.submission:
        record = altered(record, submission=intent.submission - 1)
    if intent.kind in (Kind.START, Kind.OPEN) and isinstance(error, FOR_GOOD) and record.in_force is None:
        told = str(error).encode(errors="replace").decode()  # what a scheduler prints may be no text
        return _parked(record, f"{intent.kind} is refused: {told}")
    if intent.kind is Kind.HOLD and isinstance(error, StaleError) and record.hold:
        instance = max(record.hold_counter, error.current or 0) + 1
        return altered(record, hold=altered(record.hold, instance=instance), hold_counter=instance)
    if intent.kind is Kind.REQUEUE and isinstance(error, FinishedError | UnsupportedError) and record.chosen:
        return altered(record, chosen=altered(record.chosen, requeueable=False))
    if intent.kind is Kind.STOP and record.chosen and record.chosen.submission == intent.submission:
        return altered(record, chosen=altered(record.chosen, stopped_for=None))
    return record
