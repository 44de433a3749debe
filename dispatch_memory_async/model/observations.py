"""Observation: what a scheduler shows of one object at one moment."""

from ulid import ULID

from .base import Value
from .kinds import Count, Instance, Integer, Moment, Submission
from .refs import Ref
from .states import Cause, State

__all__ = ("Observation",)


class Observation(Value, frozen=True, kw_only=True):
    """What a scheduler shows of one object at one moment.

    :ivar ref: the object's exact ref
    :ivar job_id: the job that it belongs to
    :ivar submission: the number N of the submission that made it
    :ivar state: where it stands
    :ivar cause: why it stands there; ``None`` where there is nothing to say
    :ivar gated: whether its gate is shut
    :ivar hold: the hold instance in force; of an object that has ended, the one that it still carries, which is in
        force again after a requeue
    :ivar restarts: the restart counter that this scheduler shows
    :ivar requeue_bit: whether the scheduler may requeue it by itself; ``None`` if this scheduler has no such bit
    :ivar exit_code: what the latest execution exited with, if that is known
    :ivar started_at: when the latest execution began; ``None`` while pending
    :ivar ended_at: when the object ended
    :ivar observed_at: the moment that all this speaks of
    :ivar from_history: whether it comes from accounting, the object being forgotten
    :ivar detail: what the scheduler has to add
    """

    ref: Ref
    job_id: ULID
    submission: Submission
    state: State
    cause: Cause | None = None
    gated: bool = False
    hold: Instance | None = None
    restarts: Count = 0
    requeue_bit: bool | None = None
    exit_code: Integer | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    observed_at: Moment
    from_history: bool = False
    detail: str = ""
