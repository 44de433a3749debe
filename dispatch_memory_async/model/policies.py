"""Recovery policies: what is to be done about an end, and which part of that a scheduler does by itself."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from .base import Value
from .capabilities import Action
from .kinds import Count
from .states import Cause

__all__ = ("NativePolicy", "Policy", "Rule", "UnmatchedPolicy")


class UnmatchedPolicy(StrEnum):
    """What becomes of an end that no rule names: it waits for a person, or the job has failed."""

    HOLD = "hold"
    FAIL = "fail"


class Rule(Value, frozen=True, kw_only=True):
    """What to do about an end with one of these causes.

    :ivar causes: the causes that it speaks of
    :ivar action: what to do
    :ivar limit: how often at most; ``None`` is without limit
    :ivar backoff: how long to wait before it is done
    """

    causes: frozenset[Cause]
    action: Action
    limit: Count | None = None
    backoff: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backoff < timedelta(0):
            self._refuse("backoff", "expected a length of time of at least 0")


class Policy(Value, frozen=True):
    """Rules, of which the first that names the cause applies, and what holds where none does."""

    rules: tuple[Rule, ...] = ()
    unmatched: UnmatchedPolicy = UnmatchedPolicy.HOLD


class NativePolicy(Value, frozen=True, kw_only=True):
    """A policy divided between the scheduler and its supervisor.

    :ivar settings: what the scheduler is told, with ``start``
    :ivar covered: the indexes of the rules that the scheduler carries out itself
    :ivar rest: what stays with the supervisor
    """

    settings: Mapping[str, str]
    covered: tuple[Count, ...]
    rest: Policy
