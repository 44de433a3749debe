"""The backend suite: one adapter, object by object, in the order of an object's life."""

from ..checks import Check
from . import (
    calls,
    capabilities,
    cessation,
    clients,
    ends,
    gate,
    history,
    hold,
    late,
    looking,
    native,
    nodes,
    preemption,
    races,
    requeue,
    start,
    stop,
    told,
    watch,
)

__all__ = ("BACKEND",)

BACKEND: tuple[Check, ...] = (
    *capabilities.CHECKS,
    *start.CHECKS,
    *looking.CHECKS,
    *gate.CHECKS,
    *stop.CHECKS,
    *hold.CHECKS,
    *requeue.CHECKS,
    *ends.CHECKS,
    *preemption.CHECKS,
    *nodes.CHECKS,
    *cessation.CHECKS,
    *history.CHECKS,
    *native.CHECKS,
    *calls.CHECKS,
    *watch.CHECKS,
    *told.CHECKS,
    *clients.CHECKS,
    *races.CHECKS,
    *late.CHECKS,
)
"""Every check of the suite, in its order."""
