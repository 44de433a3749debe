"""A look at a job: what the scheduler shows of it, and the questions that every decision asks of that."""

from ..model import Capabilities, Capability, Cause, Observation, State, Tristate, Value
from ..model.kinds import Moment
from .record import Record

__all__ = ("Look", "chosen", "ending", "extras", "has", "holdable", "live", "wedged")


class Look(Value, frozen=True, kw_only=True):
    """One reading of the scheduler: the job's objects, then whether its executions have ceased.

    :ivar began_at: when it was begun: what it shows is not older
    :ivar complete: whether all of it was answered
    :ivar objects: the job's objects, in the order of start
    :ivar ceased: whether every execution of the job has provably ceased; ``None`` where no signal tells
    """

    began_at: Moment
    complete: bool = True
    objects: tuple[Observation, ...] = ()
    ceased: bool | None = None


def has(capabilities: Capabilities, capability: Capability) -> bool:
    """Whether the cluster can do something."""
    support = capabilities.support.get(capability)
    return support is not None and support.value is Tristate.YES


def live(seen: Observation | None) -> bool:
    """Whether an object is there, and has not ended."""
    return seen is not None and not seen.state.ended


def ending(seen: Observation) -> bool:
    """Whether an object's execution is being ended by the scheduler."""
    return seen.state is State.RUNNING and seen.cause in (Cause.STOPPED, Cause.PREEMPTED, Cause.REQUEUED)


def wedged(seen: Observation) -> bool:
    """Whether an object runs on in the scheduler's eyes, on a node that is lost."""
    return seen.state is State.RUNNING and seen.cause in (Cause.NODE_LOST, Cause.UNKNOWN)


def holdable(seen: Observation, capabilities: Capabilities) -> bool:
    """Whether a live object can be held."""
    return has(capabilities, Capability.HOLD) and (
        seen.state is State.PENDING or has(capabilities, Capability.HOLD_RUNNING)
    )


def chosen(record: Record, objects: tuple[Observation, ...]) -> Observation | None:
    """The object that stands for the job, if it is there."""
    if record.chosen is None:
        return None
    return next((seen for seen in objects if seen.submission == record.chosen.submission), None)


def extras(record: Record, objects: tuple[Observation, ...]) -> tuple[Observation, ...]:
    """The live objects that do not stand for the job."""
    number = record.chosen.submission if record.chosen else None
    return tuple(seen for seen in objects if live(seen) and seen.submission != number)
