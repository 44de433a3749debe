"""The core: the smallest controller that is right under every fault, on any adapter of the SPI.

An :class:`Operator` writes down what people ask for, a :class:`Supervisor` brings the jobs on, an :class:`Observer`
says what is known of them; all that is remembered is a :class:`Record` for each job, in :class:`Records`. What is to be
done is decided in :func:`absorb`, :func:`fold` and :func:`next_step`, which do nothing.
"""

from .absorbing import absorb
from .folding import fold
from .look import Look
from .observer import Observer
from .operator import Operator
from .record import (
    PAST,
    POLICY,
    SKEW,
    Ask,
    Charge,
    Chosen,
    End,
    EndKey,
    Hold,
    Intent,
    Kind,
    Record,
    Said,
    StoppedFor,
    Verdict,
    WhileRunning,
)
from .records import ConflictError, MemoryRecords, Records
from .sqlite import SqliteRecords
from .status import Phase, Status, WaitingFor
from .steps import Step, next_step
from .supervisor import Supervisor

__all__ = (
    "PAST",
    "POLICY",
    "SKEW",
    "Ask",
    "Charge",
    "Chosen",
    "ConflictError",
    "End",
    "EndKey",
    "Hold",
    "Intent",
    "Kind",
    "Look",
    "MemoryRecords",
    "Observer",
    "Operator",
    "Phase",
    "Record",
    "Records",
    "Said",
    "SqliteRecords",
    "Status",
    "Step",
    "StoppedFor",
    "Supervisor",
    "Verdict",
    "WaitingFor",
    "WhileRunning",
    "absorb",
    "fold",
    "next_step",
)
