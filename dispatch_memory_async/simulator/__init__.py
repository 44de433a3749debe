"""The simulator: the real core on the memory adapter through bad orders drawn from a seed, and each run again from it.

:func:`simulate` plays a run and checks the invariants against the ground truth after every step.
"""

from .config import SimConfig
from .explaining import command_of, explain
from .many import Outcome, finished, simulate_many
from .reporting import report
from .run import Result, Violation, simulate
from .shrinking import shrink
from .trace import Entry, Kind

__all__ = (
    "Entry",
    "Kind",
    "Outcome",
    "Result",
    "SimConfig",
    "Violation",
    "command_of",
    "explain",
    "finished",
    "report",
    "shrink",
    "simulate",
    "simulate_many",
)
