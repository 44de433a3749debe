"""What a call carries beside its ref, and what cessation answers."""

from datetime import timedelta

from .base import Value
from .kinds import Instance, Moment

__all__ = ("HOLD_BASE", "CallMeta", "Cessation", "HoldMeta", "ReleaseMeta")

HOLD_BASE = timedelta(seconds=315_576_000)
"""Ten Julian years: a start-time hold lies this far beyond the submit time, plus its instance in seconds.

A Slurm keeps such a begin time through holds, releases and requeues (``scontrol update StartTime=``, seen on 22.05.8).
"""


class CallMeta(Value, frozen=True):
    """A call's deadline: if its command starts later, it does nothing."""

    deadline: Moment


class HoldMeta(CallMeta, frozen=True, kw_only=True):
    """What a hold carries.

    :ivar deadline: the last moment at which its command may start
    :ivar instance: the number of this hold, in ``[1, EPOCH_BOUND)``: a later hold has a higher one
    :ivar by: who placed it
    :ivar until: until when
    :ivar reason: why
    """

    deadline: Moment
    instance: Instance
    by: str = ""
    until: Moment | None = None
    reason: str = ""


class ReleaseMeta(CallMeta, frozen=True):
    """What a release carries: the instance that it lifts."""

    instance: Instance


class Cessation(Value, frozen=True):
    """Whether executions have provably ceased, and what there is to say about it."""

    ceased: bool
    detail: str = ""
