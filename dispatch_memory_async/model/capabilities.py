"""What a cluster can do, and how that is known."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from .base import Value

__all__ = ("Action", "Capabilities", "Capability", "Source", "Support", "Tristate")


class Tristate(StrEnum):
    """Yes, no, or not known."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Source(StrEnum):
    """How it is known whether something is supported."""

    PROBED = "probed"
    """It was tried, or asked for."""
    DECLARED = "declared"
    """The adapter says so."""
    CONFIGURED = "configured"
    """Whoever set it up said so."""
    ASSUMED = "assumed"
    """Nobody looked."""


class Support(Value, frozen=True, kw_only=True):
    """Whether something is supported, how that is known, and what there is to say about it."""

    value: Tristate
    source: Source = Source.CONFIGURED
    detail: str = ""


class Capability(StrEnum):
    """What an adapter or its cluster may be able to do."""

    ACCOUNTING_HISTORY = "AccountingHistory"
    """Forgotten objects can still be read."""
    GATED_START = "GatedStart"
    """A started object waits for ``open``."""
    HOLD = "Hold"
    """A pending object can be held."""
    HOLD_RUNNING = "HoldRunning"
    """A running object can be held, which ends its execution."""
    REQUEUE = "Requeue"
    """An ended object can be put back to wait."""
    WATCH = "Watch"
    CESSATION = "Cessation"
    """It can be told whether executions have provably ceased."""
    OUTPUT = "Output"


class Action(StrEnum):
    """What a policy's rule does about an end."""

    RESTART = "restart"
    HOLD = "hold"
    FAIL = "fail"


class Capabilities(Value, frozen=True, kw_only=True):
    """What this cluster can do.

    :ivar support: the support of each capability
    :ivar rules: which actions a policy's rules may name here
    :ivar native: which actions the scheduler can carry out itself
    :ivar call_bound: a call lands at most this long after it started
    """

    support: Mapping[Capability, Support]
    rules: Mapping[Action, Support]
    native: Mapping[Action, Support]
    call_bound: timedelta

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.call_bound < timedelta(0):
            self._refuse("call_bound", "expected a length of time of at least 0")
