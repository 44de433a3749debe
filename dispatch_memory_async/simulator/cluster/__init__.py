"""Cluster mode: a workload run on a modelled cluster in virtual time, so that one sees what a policy does to it.

Jobs come from a trace in the Standard Workload Format, or from a mix that is made up. The real core sees to them,
through the SPI, on the adapter in memory; nodes, queue, failures and preemption are the model's.
"""

from .machine import Cluster, Queueing
from .results import Execution, JobResult, Result, Summary, Table, Waiting
from .running import compare, run_workload
from .swf import SwfJob, SwfReader, Workload, read_swf
from .synthetic import synthetic
from .work import Outcome, Work

__all__ = (
    "Cluster",
    "Execution",
    "JobResult",
    "Outcome",
    "Queueing",
    "Result",
    "Summary",
    "SwfJob",
    "SwfReader",
    "Table",
    "Waiting",
    "Work",
    "Workload",
    "compare",
    "read_swf",
    "run_workload",
    "synthetic",
)
