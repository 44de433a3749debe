"""The configuration of the memory adapter: its fields, their defaults and their ranges."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from ..model import (
    Action,
    Capability,
    Cessation,
    InvalidError,
    Support,
    Tristate,
    Value,
    format_duration,
)
from ..model.base import hints
from ..model.kinds import LARGEST

__all__ = ("Config", "Shape", "check_length", "unruled")


class Shape(StrEnum):
    """Which scheduler the adapter behaves like."""

    SLURM = "slurm"
    KUBEFLOW = "kubeflow"


class Config(Value, frozen=True, kw_only=True):
    """How a backend behaves.

    A plain text is taken where an enum is meant, a plain mapping where a value is.

    :ivar shape: which scheduler to behave like
    :ivar max_job_id: Slurm: ids run from 1 to this, then from 1 again, passing over those still remembered
        (``FirstJobId``, ``MaxJobId`` in slurm.conf(5); a real Slurm stops one short of the maximum)
    :ivar min_job_age: Slurm: an ended object is forgotten this long after its end; 0 never forgets (``MinJobAge``)
    :ivar slurmd_timeout: Slurm: a lost node's object ends this long after the loss (``SlurmdTimeout``)
    :ivar evidence_window: Kubeflow: how long a pod-derived cause can be read after it arose; on a cluster until the
        pod is deleted or collected (JobSet's ``ttlSecondsAfterFinished``, ``--terminated-pod-gc-threshold``)
    :ivar kill_wait: how long an execution lives on after the scheduler was told to end it (Slurm's ``KillWait``, a
        pod's ``terminationGracePeriodSeconds``)
    :ivar call_bound: a call lands at most this long after it started
    :ivar watch_buffer: how many undelivered changes a subscriber may fall behind by
    :ivar accounting_lag: Slurm: history knows an object only so long after it was forgotten
    :ivar capabilities: overrides of the shape's own capabilities
    :ivar rules: overrides of the actions that rules may name
    :ivar native: overrides of the actions that the scheduler carries out itself; a yes needs a yes in ``rules``
    :ivar cessation: what the cessation signal answers for an execution on a lost node
    """

    shape: Shape = Shape.SLURM
    max_job_id: Annotated[int, Meta(ge=1, le=67_108_863)] = 67_043_328
    min_job_age: timedelta = timedelta(minutes=5)
    slurmd_timeout: timedelta = timedelta(minutes=5)
    evidence_window: timedelta = timedelta(minutes=5)
    kill_wait: timedelta = timedelta(0)
    call_bound: timedelta = timedelta(seconds=25)
    watch_buffer: Annotated[int, Meta(ge=1, le=LARGEST)] = 64
    accounting_lag: timedelta = timedelta(0)
    capabilities: Mapping[Capability, Support] = {}
    rules: Mapping[Action, Support] = {}
    native: Mapping[Action, Support] = {}
    cessation: Cessation = Cessation(ceased=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in hints(type(self)).items():
            if kind is timedelta:
                try:
                    check_length(getattr(self, name))
                except InvalidError as error:
                    raise InvalidError(f"Config.{name}: {error}") from None
        for action in unruled(self.rules, self.native):
            self._refuse("native", f"expected no yes for {action}, as 'rules' says none")


def check_length(length: timedelta) -> None:
    """Refuse a length of time that is negative, or longer than settings can say."""
    if length < timedelta(0):
        raise InvalidError(f"duration: found {format_duration(length)}, expected at least 0s")
    format_duration(length)


def unruled(rules: Mapping[Action, Support], native: Mapping[Action, Support]) -> list[Action]:
    """The actions that are native although no rule may name them: an absent entry is not a yes."""
    return [
        action
        for action, support in native.items()
        if support.value is Tristate.YES and (action not in rules or rules[action].value is not Tristate.YES)
    ]
