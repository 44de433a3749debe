"""absorb: what a look proves goes into the record (A1 to A6)."""

from datetime import datetime, timedelta

from ..model import Capabilities, Capability, Cause, Observation, State
from ..model.base import altered
from .look import Look, chosen, ending, extras, has, holdable, wedged
from .record import POLICY, SKEW, Charge, Chosen, End, EndKey, Intent, Kind, Record, Said, WhileRunning

__all__ = ("absorb", "settled_at")


def settled_at(intent: Intent, capabilities: Capabilities, skew: timedelta = SKEW) -> datetime:
    """The moment after which an act has landed or never does."""
    return intent.deadline + capabilities.call_bound + skew


def absorb(record: Record, look: Look, capabilities: Capabilities, now: datetime, *, skew: timedelta = SKEW) -> Record:
    """What a look proves, put into the record.

    :param record: the record, read before the look was begun
    :param look: the look
    :param capabilities: what the cluster can do
    :param now: the time
    :param skew: by how much clocks may differ
    :return: the record as it is to be written; the same if the look proves nothing new
    """
    if record.hold and record.hold.until and now >= record.hold.until:  # A1
        record = altered(record, hold=None)
    if look.complete:
        record = _choose(record, look)
        record = _settle(record, look, capabilities, now, skew)
        record = _follow(record, look, now)
        record = _acknowledge(record, look, capabilities)
    return record


def _choose(record: Record, look: Look) -> Record:
    """A2: the object with the highest number stands for the job, whoever sees it first."""
    if record.chosen and record.chosen.submission == record.submission:
        return record
    for seen in look.objects:
        if seen.submission == record.submission:
            starting = record.intent and record.intent.kind is Kind.START
            return altered(
                record,
                chosen=Chosen(submission=seen.submission, ref=seen.ref),
                end=None,
                intent=None if starting else record.intent,
            )
    return record


def _settle(record: Record, look: Look, capabilities: Capabilities, now: datetime, skew: timedelta) -> Record:
    """A3: the act under way has landed, or cannot land any more."""
    intent = record.intent
    if intent is None:
        return record
    target = next((seen for seen in look.objects if seen.submission == intent.submission), None)
    bounded = look.began_at > settled_at(intent, capabilities, skew)
    if not bounded and not _has_landed(intent, target):
        return record
    record = altered(record, intent=None)
    of = record.chosen
    if of is None or of.submission != intent.submission or target is not None:
        return record
    if intent.kind in (Kind.OPEN, Kind.RELEASE):
        return altered(record, chosen=altered(of, may_have_run=True))
    return altered(record, end=_vanished(of, Cause.UNKNOWN, now)) if intent.kind is Kind.REQUEUE else record


def _has_landed(intent: Intent, target: Observation | None) -> bool:
    """Whether what is seen shows an act's effect; of a start that is A2, a requeue shows none of its own."""
    if intent.kind in (Kind.START, Kind.REQUEUE):
        return False
    if target is None or target.state.ended:
        return True
    match intent.kind:
        case Kind.OPEN:
            return not target.gated
        case Kind.HOLD:
            return target.hold is not None and target.hold >= (intent.instance or 0)
        case Kind.RELEASE:
            return target.hold != intent.instance
        case Kind.RESTORE:
            return not target.requeue_bit
        case _:
            return False


def _vanished(of: Chosen, cause: Cause | None, now: datetime) -> End:
    return End(submission=of.submission, restarts=of.restarts, state=State.GONE, cause=cause, gone=True, seen_at=now)


def _follow(record: Record, look: Look, now: datetime) -> Record:
    """A4, A5: what is seen of the chosen object, and its end."""
    if record.chosen is None:
        return record
    seen = chosen(record, look.objects)
    if seen is None:
        if record.end is not None and not record.end.wedge:
            return record
        cause = record.end.cause if record.end else None
        if cause is None:
            cause = Cause.STOPPED if record.chosen.stopped_for else Cause.UNKNOWN
        return _ended(record, _vanished(record.chosen, cause, now))
    eligible = seen.state is State.PENDING and not seen.gated and seen.hold is None and seen.cause is not Cause.HELD
    ran = seen.state is State.RUNNING or seen.started_at is not None or seen.restarts > 0
    now_chosen = altered(
        record.chosen,
        ref=seen.ref,
        restarts=seen.restarts,
        may_have_run=record.chosen.may_have_run or ran or eligible,
    )
    if seen.state.ended or (wedged(seen) and seen.ended_at is None):
        end = End(
            submission=seen.submission,
            restarts=seen.restarts,
            state=seen.state,
            cause=seen.cause,
            exit_code=seen.exit_code,
            wedge=not seen.state.ended,
            seen_at=now,
        )
        return _ended(altered(record, chosen=now_chosen), end)
    stopping = seen.cause is Cause.STOPPED or (record.intent is not None and record.intent.kind is Kind.STOP)
    if not stopping:
        now_chosen = altered(now_chosen, stopped_for=None)
        if record.end and record.end.wedge:
            record = _unsaid(record, record.end.key)
    return altered(record, chosen=now_chosen, end=None)


def _unsaid(record: Record, key: EndKey) -> Record:
    """A wedge is over; another one of that object would have the same key, and what was said is not of that."""
    return altered(
        record,
        word=None if record.word and record.word.end == key else record.word,
        go_on=None if record.go_on and record.go_on.end == key else record.go_on,
        charged=None if record.charged and record.charged.end == key else record.charged,
    )


def _ended(record: Record, end: End) -> Record:
    """An end goes into the record; what was read, charged and said for it before stays."""
    before = record.end
    if before is None or (before.submission, before.restarts) != (end.submission, end.restarts):
        return altered(record, end=end)
    if before.cause not in (None, Cause.UNKNOWN) and end.state is not State.SUCCEEDED:
        end = altered(end, cause=before.cause, exit_code=before.exit_code if end.exit_code is None else end.exit_code)
    if before.key == end.key:
        return altered(record, end=altered(end, seen_at=before.seen_at))
    charged, word = record.charged, record.word
    if charged and charged.end == before.key:  # the restart has begun: we have ended the wedge
        charged, end = Charge(end.key, charged.rule), altered(end, seen_at=before.seen_at)
        if word and word.end == before.key:
            word = Said(end.key, word.ask)
    return altered(record, end=end, charged=charged, word=word)


def _acknowledge(record: Record, look: Look, capabilities: Capabilities) -> Record:
    """A6: a hold is acknowledged once nothing can begin, or withdrawn from what runs and cannot be held."""
    hold = record.in_force
    if hold is None or hold.acked or record.intent or extras(record, look.objects):
        return record
    seen = chosen(record, look.objects)
    if seen is None or seen.state.ended or seen.hold == hold.instance:
        return altered(record, hold=altered(hold, acked=True))
    if not has(capabilities, Capability.HOLD) and seen.gated:
        return altered(record, hold=altered(hold, acked=True))
    refusable = hold.running is WhileRunning.REFUSE and hold.by != POLICY
    if refusable and seen.state is State.RUNNING and not ending(seen) and not holdable(seen, capabilities):
        return altered(record, hold=altered(hold, refused=True))
    return record
