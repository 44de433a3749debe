"""The case: what is known of one job: its record, the ground truth, and by whose authority each execution began."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from ..core import EndKey, Record
from ..memory import Execution, Truth
from ..model import Cause, Job, State
from .actors import Flight
from .config import Options
from .trace import BEGINNING

__all__ = ("FOREIGN", "LIVE", "Begun", "Case", "Change", "Deed")

Who = Literal["core", "scheduler", "other"]
LIVE = (State.PENDING, State.RUNNING)
FOREIGN = ("cancel", "requeue_externally", "deactivate_externally", "reactivate_externally")
"""What somebody else can do to an object, past the core."""


class Begun(NamedTuple):
    """Who made an object eligible; if it was the core, the look on which that was decided."""

    who: Who
    look: int


class Deed(NamedTuple):
    """An act of the environment, and the object that it was done to, by its place in the order of start."""

    act: str
    place: int | None = None


class Change(NamedTuple):
    """An object that has changed."""

    place: int
    old: Truth | None
    new: Truth


@dataclass(eq=False)
class Case:
    """One job.

    :ivar number: its number, from 1
    :ivar options: the options of the run
    :ivar record: its record as it was last written
    :ivar truths: its objects, in the order of start
    :ivar eligible: by whom each object was last made eligible, by its place
    :ivar touched: when somebody else last touched each object
    :ivar bit: who left each object's requeue bit set
    :ivar begun: by whom and when each execution was begun, by its attempt
    :ivar lost: the executions whose node was lost
    :ivar epochs: the epochs of its executions, in the order in which they began
    :ivar causes: every cause that arose, by submission
    :ivar restarted: the ends after which each rule has restarted it
    :ivar called: the intents that were called
    :ivar acked_by: when the look was begun on which the hold was acknowledged
    :ivar flights: the calls that are on their way
    :ivar now: the time
    """

    number: int
    job: Job
    options: Options
    record: Record | None = None
    truths: Sequence[Truth] = ()
    eligible: dict[int, Begun] = field(default_factory=dict[int, Begun])
    touched: dict[int, int] = field(default_factory=dict[int, int])
    bit: dict[int, Begun] = field(default_factory=dict[int, Begun])
    begun: dict[str, Begun] = field(default_factory=dict[str, Begun])
    lost: set[str] = field(default_factory=set[str])
    epochs: list[int] = field(default_factory=list[int])
    causes: dict[int, set[Cause | None]] = field(default_factory=dict[int, set[Cause | None]])
    restarted: dict[int, set[EndKey]] = field(default_factory=dict[int, set[EndKey]])
    called: set[int] = field(default_factory=set[int])
    acked_by: int = 0
    flights: list[Flight] = field(default_factory=list[Flight])
    now: datetime = BEGINNING

    @property
    def executions(self) -> Mapping[str, Execution]:
        """All its executions, by attempt."""
        return {execution.attempt: execution for truth in self.truths for execution in truth.executions}

    def took_in(self, now: Sequence[Truth]) -> list[Change]:
        """Take a newer ground truth in; the answer is what has changed."""
        before, self.truths = self.truths, now
        changes: list[Change] = []
        for place, new in enumerate(now):
            old = before[place] if place < len(before) else None
            if old is None or new != old:
                changes.append(Change(place, old, new))
                arisen = {new.cause, *(execution.cause for execution in new.executions)}
                self.causes.setdefault(new.submission, set()).update(arisen)
        return changes

    def credit(self, why: Deed, change: Change, moment: int) -> None:
        """Who made an object eligible, if it was not a call of the core."""
        place, old, new = change
        if old is None:
            return
        act = why.act if why.place == place else ""
        back = old.state is State.RUNNING and new.state is State.PENDING and old.cause is not Cause.REQUEUED
        if act == "requeue_externally":
            self.eligible[place] = self.bit[place] = Begun("other", 0)
        elif act == "reactivate_externally":
            self.eligible[place] = Begun("other", 0)
        elif (act == "preempt" and new.state in LIVE) or (back and new.active):
            by_bit = self.bit.get(place) if old.requeue_bit else None
            self.eligible[place] = by_bit or Begun("scheduler", 0)
        if act in FOREIGN:
            self.touched[place] = moment

    def untouched(self, place: int, since: int) -> bool:
        """Whether nobody else has touched an object since a moment."""
        return self.touched.get(place, -1) <= since
