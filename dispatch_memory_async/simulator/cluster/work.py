"""Work: one job of a workload, as it comes, what it asks for, and what would become of it undisturbed."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from ...model import Value
from ...model.kinds import LARGEST, Integer

__all__ = ("AtLeastOne", "Outcome", "Work")

AtLeastOne = Annotated[int, Meta(ge=1, le=LARGEST)]


class Outcome(StrEnum):
    """What becomes of an execution that nothing disturbs: of each one of a job, the same."""

    SUCCEEDS = "succeeds"
    FAILS = "fails"
    """It exits with 1."""
    STOPPED = "stopped"
    """Its user stops the job when it has run so long."""


class Work(Value, frozen=True, kw_only=True):
    """One job of a workload.

    :ivar number: its own, from 1 on
    :ivar submit: how long after the beginning it is submitted
    :ivar nodes: how many nodes it needs, whole
    :ivar runtime: how long it runs; less than a second is taken as a second
    :ivar requested: how long it may run; one that would run longer is timed out then
    :ivar priority: higher goes first, and preempts lower
    :ivar outcome: what becomes of it
    """

    number: AtLeastOne
    submit: timedelta
    nodes: AtLeastOne
    runtime: timedelta
    requested: timedelta
    priority: Integer = 0
    outcome: Outcome = Outcome.SUCCEEDS

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("submit", "runtime", "requested"):
            if getattr(self, name) < timedelta(0):
                self._refuse(name, "expected a length of time of at least 0")
