"""How the benchmarks measure: two sides in turn, in many short rounds, and what came of it."""

import gc
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import get_clock_info, perf_counter_ns, thread_time_ns
from typing import Any

__all__ = ("Figure", "Side", "progress", "quiet", "versus")

CLOCK = thread_time_ns if get_clock_info("thread_time").resolution < 1e-6 else perf_counter_ns
"""Neither side waits for anything, so that what other processes do to this one can be left out where it is told."""

Arguments = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    :ivar name: what was measured
    :ivar value: the figure itself, a ratio or a number of bytes
    :ivar aim: what it is meant to be at most
    :ivar ours: microseconds a call of ours; ``None`` where no time was measured
    :ivar base: microseconds a call of what it is held against
    """

    name: str
    value: float
    aim: float
    ours: float | None = None
    base: float | None = None


@dataclass(frozen=True)
class Side:
    """One of the two that are held against each other. Only its calls are timed.

    :ivar call: what is timed
    :ivar prepare: gives the arguments of one round's calls
    :ivar restore: undoes what the round did
    """

    call: Callable[..., Awaitable[object]]
    prepare: Callable[[], Awaitable[Arguments]]
    restore: Callable[[], Awaitable[None]] | None = None

    async def round(self) -> float:
        """Microseconds a call, in one round."""
        call, given = self.call, await self.prepare()
        started = CLOCK()
        for arguments in given:
            await call(*arguments)
        took = CLOCK() - started
        if self.restore:
            await self.restore()
        return took / len(given) / 1000


async def versus(name: str, aim: float, ours: Side, base: Side, *, rounds: int) -> Figure:
    """The ratio of the two sides' medians, their rounds taken in turn, each first in every other pair."""
    times: dict[Side, list[float]] = {ours: [], base: []}
    with quiet():
        for number in range(rounds):
            for side in (ours, base) if number % 2 else (base, ours):
                times[side].append(await side.round())
    mine, other = median(times[ours]), median(times[base])
    return Figure(name, mine / other, aim, mine, other)


@contextmanager
def quiet() -> Generator[None]:
    """No garbage collection meanwhile, on either side."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def progress(what: str, total: int) -> Generator[int]:
    """The numbers from 1 to the total, telling on stderr how far it is: in place on a terminal, else line by line."""
    step, end = (total // 100, "\r") if sys.stderr.isatty() else (total // 4, "\n")
    for number in range(1, total + 1):
        yield number
        if number % step == 0:
            print(f"{what}: {number * 100 // total:3} %", end=end, file=sys.stderr, flush=True)
