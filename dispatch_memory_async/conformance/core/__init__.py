"""The core suite: operators, supervisors and an observer on top of one adapter, under faults."""

from ..checks import Check
from . import acts, ends, holds, others, proof, requeues, starts, stops

__all__ = ("CORE",)

CORE: tuple[Check, ...] = (
    *acts.CHECKS,
    *starts.CHECKS,
    *proof.CHECKS,
    *holds.CHECKS,
    *stops.CHECKS,
    *ends.CHECKS,
    *requeues.CHECKS,
    *others.CHECKS,
)
"""Every check of the suite, in its order."""
