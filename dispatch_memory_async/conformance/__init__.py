"""The conformance suite: whether a controller can trust an adapter, rule by rule.

Write a :class:`Harness` for your adapter and run the suite with :func:`run_backend`, as a pytest class
(:class:`~dispatch_memory_async.conformance.pytest_face.BackendConformance`) or on the command line. A second suite
plays faults through a core on top of your adapter: :func:`run_core`, or
:class:`~dispatch_memory_async.conformance.pytest_face.CoreConformance`.
"""

from .backend import BACKEND
from .bed import Bed
from .checks import Check
from .core import CORE
from .findings import CheckFailed
from .harness import ABILITIES, Cluster, Driver, Execution, Fault, Harness, NodeLoss, Preemption, Stop, Timings, Traits
from .report import Report, Result
from .run import SUITE_VERSION, run_backend, run_check, run_core

__all__ = (
    "ABILITIES",
    "BACKEND",
    "CORE",
    "SUITE_VERSION",
    "Bed",
    "Check",
    "CheckFailed",
    "Cluster",
    "Driver",
    "Execution",
    "Fault",
    "Harness",
    "NodeLoss",
    "Preemption",
    "Report",
    "Result",
    "Stop",
    "Timings",
    "Traits",
    "run_backend",
    "run_check",
    "run_core",
)
