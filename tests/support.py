"""What the tests share: a clock that moves when told, virtual time, and short ways to make values."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import looptime
from trio.testing import MockClock
from ulid import ULID

from dispatch_memory_async import Backend, Config, Job, Shape

T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: datetime = T0) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta | float) -> datetime:
        """Move the clock on, by a timedelta or by seconds."""
        self.now += by if isinstance(by, timedelta) else timedelta(seconds=by)
        return self.now


def ulid(number: int) -> ULID:
    """The ULID whose 128 bits are this number: the same in every run."""
    return ULID.from_int(number)


def job(number: int = 1, **fields: object) -> Job:
    """A job with the ULID of that number."""
    return Job(id=ulid(number), **{"command": ("train",), **fields})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def backend(shape: Shape, clock: Clock, **settings: object) -> Backend:
    """A backend of that shape on that clock; the settings are Config's fields."""
    return Backend(Config(shape=shape, **settings), clock=clock)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def loop_clock() -> datetime:
    """The virtual time of the running loop, as a date."""
    return T0 + timedelta(seconds=anyio.current_time())


def _looptime_loop() -> asyncio.AbstractEventLoop:
    return looptime.new_event_loop(start=0)


def run_virtually(loop: str, main: Callable[[], Awaitable[None]]) -> None:
    """Run on one of the event loops, under virtual time: whoever sleeps takes no time."""
    options: dict[str, dict[str, Any]] = {
        "asyncio": {"loop_factory": _looptime_loop},
        "trio": {"clock": MockClock(autojump_threshold=0)},
    }
    anyio.run(main, backend=loop, backend_options=options[loop])
