"""fold: a record and a look, made into a status."""

from datetime import UTC, datetime, timedelta

from ..model import Capabilities, Cause, Observation, State
from ..model.base import altered
from .look import Look, chosen, ending, extras
from .record import SKEW, Record
from .status import Phase, Status
from .steps import Wait, next_step

__all__ = ("fold",)

BLANK = Status(state=Phase.NEW, as_of=datetime.min.replace(tzinfo=UTC))
"""What is made of values that were checked need not be checked again, and this is done at every step."""


def fold(record: Record, look: Look, capabilities: Capabilities, now: datetime, *, skew: timedelta = SKEW) -> Status:
    """What is known of a job.

    :param record: the record, after the look was absorbed
    :param look: the look
    :param capabilities: what the cluster can do
    :param now: the time
    :param skew: by how much clocks may differ
    """
    seen = chosen(record, look.objects)
    phase, cause = _phase(record, seen)
    hold = record.in_force
    end = record.end
    status = altered(
        BLANK,
        state=phase,
        cause=cause,
        evidence_vanished=end is not None and end.cause is Cause.UNKNOWN,
        submission=record.chosen.submission if record.chosen else 0,
        restarts=record.chosen.restarts if record.chosen else 0,
        held_by=hold.by if hold else "",
        held_until=hold.until if hold else None,
        hold_reason=hold.reason if hold else "",
        ceased=look.ceased,
        in_flight=record.intent.kind if record.intent else None,
        as_of=look.began_at,
        complete=look.complete,
        chosen=seen,
        extras=extras(record, look.objects),
        verdict=record.verdict,
    )
    step = next_step(record, status, capabilities, now, skew=skew)
    return altered(status, waiting_for=step.why, why=step.detail) if isinstance(step, Wait) else status


def _phase(record: Record, seen: Observation | None) -> tuple[Phase, Cause | None]:
    if record.verdict:
        return Phase.DONE, record.verdict.cause
    if record.chosen is None:
        return Phase.NEW, None
    if record.end:
        phase = Phase.WEDGED if record.end.wedge else Phase.VANISHED if record.end.gone else Phase.ENDED
        return phase, record.end.cause
    if seen is None:
        return Phase.VANISHED, None
    if seen.state is State.PENDING:
        return Phase.PENDING, seen.cause
    return (Phase.ENDING if ending(seen) else Phase.RUNNING), seen.cause
