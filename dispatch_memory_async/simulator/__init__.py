"""The simulator: the real core on the memory adapter through bad orders drawn from a seed, and each run again from it.

:func:`simulate` plays a run and checks the invariants against the ground truth after every step.
"""

from .config import SimConfig
from .run import Result, Violation, simulate
from .trace import Entry, Kind

__all__ = ("Entry", "Kind", "Result", "SimConfig", "Violation", "simulate")
