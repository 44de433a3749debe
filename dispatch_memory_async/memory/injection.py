"""What a caller injects into its own calls: when a command started, and a crash between two steps.

Both ride in context variables: they reach the calls made inside the block, and in tasks started inside it.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TypeVar

from ..model.checks import as_moment

__all__ = ("call_start", "crash_between_steps", "crashes", "started_at")

T = TypeVar("T")

_call_start: ContextVar[datetime | None] = ContextVar("call_start", default=None)
_crash: ContextVar[bool] = ContextVar("crash_between_steps", default=False)

started_at: Callable[[], datetime | None] = _call_start.get
crashes: Callable[[], bool] = _crash.get


def call_start(started_at: datetime) -> AbstractContextManager[None]:
    """Let the commands of the calls made inside the block have started at that time, past or future.

    Only calls that carry a deadline look at it.

    :raises InvalidError: if it is no aware datetime
    """
    return _set(_call_start, as_moment("call_start", started_at))


def crash_between_steps() -> AbstractContextManager[None]:
    """Let every requeue made inside the block stop after its first step, as if the caller had crashed.

    The requeue bit stays set, and the call raises
    :class:`~dispatch_memory_async.model.CrashedError`.
    """
    return _set(_crash, True)


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Generator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
