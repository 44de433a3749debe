"""What many jobs cost a supervisor: each, all of them at rest, and one that something happens to among many."""

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta

import anyio

from dispatch_memory_async import Backend, Config, Job, NativePolicy, Ref, Shape
from dispatch_memory_async.core import MemoryRecords, Record, Supervisor
from dispatch_memory_async.core.agenda import Agenda
from dispatch_memory_async.core.looker import Looker
from dispatch_memory_async.core.rounds import Rounds
from tests.support import job, ulid

from .measuring import CLOCK, Figure, progress, quiet

__all__ = ("many_jobs",)

NEVER = timedelta(days=1)
ROUNDS = 21


class Counting(Backend):
    """A backend that says when so many jobs may run."""

    def __init__(self, shape: Shape, count: int) -> None:
        super().__init__(Config(shape=shape, watch_buffer=10 * count), keep_history=0)
        self.missing, self.all_free = count, anyio.Event()

    def free(self) -> None:
        self.missing -= 1
        if not self.missing:
            self.all_free.set()

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        ref = await super().start(job, submission, native=native, deadline=deadline)
        if self.config.shape is Shape.KUBEFLOW:
            self.free()
        return ref

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await super().open(ref, deadline=deadline)
        self.free()


async def many_jobs(shape: Shape, count: int) -> AsyncGenerator[Figure]:
    """What a supervisor does for a job among many, over the same among a tenth of them.

    Started: from its record to where the scheduler may run it, with all others. At rest: a look at all jobs that shows
    nothing new, and beside it the same look made bare. One: from its run and its end to its verdict.
    """
    many, few = [await measured(shape, number) for number in (count, count // 10)]
    names = "a job started", "a job at rest, a round", "one job run and ended"
    for name, ours, base in zip(names, many, few, strict=False):
        yield Figure(f"{name}, of {count:,} / of {count // 10:,} ({shape})", ours / base, 1.3, ours, base)
    yield Figure(f"a job at rest, of {count:,}, over the bare look ({shape})", many[1] / many[3], 6, many[1], many[3])


async def measured(shape: Shape, count: int) -> tuple[float, float, float, float]:
    """Microseconds for a job started, one at rest in a round, one that runs and ends, and one in a bare look."""
    backend, records = Counting(shape, count), MemoryRecords()
    for number in progress(f"{shape}: {count:,} jobs", count):
        await records.create(Record(job=job(number)))
    bring_on = Supervisor(backend, records, clock=backend.now)._bring_on  # pyright: ignore[reportPrivateUsage]
    agenda = Agenda(clock=backend.now, time=anyio.current_time, poll=NEVER, concurrency=16)
    looker = Looker(backend, backend.now)
    rounds = Rounds(*(backend, records, looker, bring_on, agenda), poll=NEVER, concurrency=16, patience=NEVER)
    rest = [ulid(number) for number in range(ROUNDS + 1, count + 1)]
    started = swept = one = 0.0
    with quiet():
        async with anyio.create_task_group() as group:
            began = CLOCK()
            group.start_soon(rounds.run)
            await backend.all_free.wait()
            started = CLOCK() - began
            await anyio.wait_all_tasks_blocked()
            one = await ended(backend, records)
            await anyio.wait_all_tasks_blocked()
            began = CLOCK()
            for _ in range(ROUNDS):
                await rounds._sweep(rest)  # pyright: ignore[reportPrivateUsage]
            swept = CLOCK() - began
            group.cancel_scope.cancel()
        began = CLOCK()
        for _ in range(ROUNDS):
            await backend.find_many(rest)
        bare = CLOCK() - began
    await backend.aclose()
    looks = ROUNDS * len(rest) * 1000
    return started / count / 1000, swept / looks, one, bare / looks


async def ended(backend: Backend, records: MemoryRecords) -> float:
    """Microseconds from the run of one job to its verdict."""
    jobs = range(1, ROUNDS + 1)
    took = 0
    for number in jobs:
        (seen,) = await backend.find(ulid(number))
        began = CLOCK()
        async with records.watch() as changes:
            await backend.env.run(seen.ref)
            await backend.env.finish(seen.ref)
            async for _ in changes:
                if (await records.get(ulid(number))).verdict:
                    break
        took += CLOCK() - began
    return took / len(jobs) / 1000
