"""Status: what is known of a job, in one value."""

from enum import StrEnum

from ..model import Cause, Observation, Value
from ..model.kinds import Count, Moment
from .record import Kind, Verdict

__all__ = ("Phase", "Status", "WaitingFor")


class Phase(StrEnum):
    """Where a job stands."""

    NEW = "New"
    """Nothing stands for it yet."""
    PENDING = "Pending"
    RUNNING = "Running"
    ENDING = "Ending"
    """Its execution is being ended."""
    WEDGED = "Wedged"
    """It runs in the scheduler's eyes, on a node that is lost."""
    ENDED = "Ended"
    VANISHED = "Vanished"
    """The scheduler knows it no more."""
    DONE = "Done"
    """There is a verdict."""


class WaitingFor(StrEnum):
    """What a job waits for."""

    ACT = "act"
    """An act that may be under way: until it has landed, or cannot any more."""
    POLICY_BACKOFF = "policy_backoff"
    HOLD = "hold"
    ADMIN = "admin"
    """An administrator's hold."""
    OTHER = "other"
    """What somebody else did."""
    CESSATION = "cessation"
    """Proof that every execution has ceased."""
    SCHEDULER = "scheduler"
    LOOK = "look"
    """The scheduler does not answer."""
    DONE = "done"


class Status(Value, frozen=True, kw_only=True):
    """What is known of a job.

    :ivar state: where it stands
    :ivar cause: why
    :ivar evidence_vanished: whether why it ended could not be read any more
    :ivar submission: the number of the object that stands for it; 0 before the first
    :ivar restarts: that object's restart counter
    :ivar held_by: who holds it
    :ivar held_until: until when
    :ivar hold_reason: why
    :ivar ceased: whether every execution of it has provably ceased; ``None`` where no signal tells
    :ivar in_flight: the act that may be under way
    :ivar waiting_for: what it waits for
    :ivar why: what there is to say about that
    :ivar as_of: when the look was begun of which all this speaks
    :ivar complete: whether the scheduler answered
    :ivar chosen: what is seen of the object that stands for it
    :ivar extras: the live objects that do not
    :ivar verdict: what became of it
    """

    state: Phase
    cause: Cause | None = None
    evidence_vanished: bool = False
    submission: Count = 0
    restarts: Count = 0
    held_by: str = ""
    held_until: Moment | None = None
    hold_reason: str = ""
    ceased: bool | None = None
    in_flight: Kind | None = None
    waiting_for: WaitingFor | None = None
    why: str = ""
    as_of: Moment
    complete: bool = True
    chosen: Observation | None = None
    extras: tuple[Observation, ...] = ()
    verdict: Verdict | None = None

    def __str__(self) -> str:
        """One line for a log: where it stands, and what it waits for."""
        if self.verdict:
            said = self.verdict
            return f"{self.state}: {_with(said.state, said.cause)}{said.detail and f', {said.detail}'}"
        line = _with(self.state, self.cause)
        if self.evidence_vanished:
            line += ", its evidence vanished"
        if self.submission:
            line += f", submission {self.submission}"
        if self.restarts:
            line += f", restarts {self.restarts}"
        if self.extras:
            line += f", other live objects: {len(self.extras)}"
        return f"{line}: {self.why}" if self.why else line


def _with(state: StrEnum, cause: Cause | None) -> str:
    return f"{state} ({cause})" if cause else str(state)
