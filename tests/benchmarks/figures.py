"""What is measured: each function gives the figures of one question, one by one."""

import gc
import random
import threading
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from ulid import ULID

from dispatch_memory_async import (
    Backend,
    CallMeta,
    Cause,
    Config,
    HoldMeta,
    Job,
    NativePolicy,
    Observation,
    Policy,
    Ref,
    ReleaseMeta,
    Resources,
    Shape,
    State,
)
from tests.support import FAR, MINUTE, Clock, job

from .measuring import Arguments, Figure, Side, progress, quiet, versus

__all__ = ("a_call", "a_change", "a_thousand_times_the_objects", "an_object")

MICROSECOND = timedelta(microseconds=1)
ROUNDS = 501
CALLS = 10
"""In a round: so few that a round mostly ends before another process comes in between."""


class Bare(msgspec.Struct, frozen=True, kw_only=True):
    """An observation's fields without its checks."""

    ref: Ref
    job_id: ULID
    submission: int
    state: State
    cause: Cause | None
    gated: bool
    hold: int | None
    restarts: int
    requeue_bit: bool | None
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime | None
    observed_at: datetime
    from_history: bool
    detail: str


async def a_call(loop: str) -> AsyncGenerator[Figure]:
    """``get``, over a coroutine that does the least that a look can do.

    That is one checkpoint, one mutex, one look-up in a dict, one frozen struct made: constructed, or copied with one
    field replaced, which is the cheapest way there is. The backend has the default clock, read at every call.
    """
    lock = threading.Lock()
    fields: dict[str, dict[str, Any]] = {}
    made: dict[str, Bare] = {}

    async def constructs(key: str) -> Bare:
        await checkpoint()
        with lock:
            return Bare(**fields[key])

    async def replaces(key: str) -> Bare:
        await checkpoint()
        with lock:
            return msgspec.structs.replace(made[key], restarts=1)

    for keep in (None, 0):
        backend = Backend(keep_history=keep)
        ref = await backend.start(job(), 1)
        fields[ref.id] = msgspec.structs.asdict(await backend.get(ref))
        made[ref.id] = Bare(**fields[ref.id])
        for bare in (constructs, replaces):
            name = f"get / a bare coroutine that {bare.__name__} ({loop}, keep_history={keep})"
            ours, base = Side(backend.get, _the_same((ref,) * CALLS)), Side(bare, _the_same((ref.id,) * CALLS))
            yield await versus(name, 1.5, ours, base, rounds=ROUNDS)


def _the_same(given: tuple[object, ...]) -> Callable[[], Awaitable[Arguments]]:
    arguments: Arguments = [(one,) for one in given]

    async def prepare() -> Arguments:
        return arguments

    return prepare


class Population:
    """The remembered objects of one backend, one a job, of which some are picked at random."""

    def __init__(self, shape: Shape, size: int) -> None:
        self.clock = Clock()
        self.backend = Backend(Config(shape=shape), clock=self.clock, keep_history=0)
        self.jobs: list[Job] = []
        self.refs: list[Ref] = []
        self.picked: list[int] = []
        self._size = size
        self._random = random.Random(size)  # noqa: S311

    async def fill(self) -> None:
        """Start them all."""
        with quiet():
            for number in progress(f"{self.backend.config.shape}: starting {self._size:,} objects", self._size):
                self.jobs.append(job(number))
                self.refs.append(await self.backend.start(self.jobs[-1], 1))

    def pick(self, how_many: int) -> None:
        """Pick others."""
        self.picked = self._random.sample(range(self._size), how_many)

    async def look(self) -> None:
        """Learn the refs of the picked ones."""
        for index in self.picked:
            (seen,) = await self.backend.find(self.jobs[index].id)
            self.refs[index] = seen.ref

    async def clear(self) -> None:
        """Let the picked ones be stopped and forgotten."""
        for index in self.picked:
            for seen in await self.backend.find(self.jobs[index].id):
                await self.backend.stop(seen.ref)
        self.clock.advance(self.backend.config.min_job_age + MINUTE)
        await self.backend.capabilities()

    async def renew(self, native: NativePolicy | None = None) -> None:
        """New objects for the picked jobs, as they were at first."""
        await self.clear()
        for index in self.picked:
            self.refs[index] = await self.backend.start(self.jobs[index], 1, native=native)

    async def run(self) -> None:
        """Let the picked ones run."""
        for index in self.picked:
            await self.backend.open(self.refs[index])
            await self.backend.env.run(self.refs[index])

    async def hold(self) -> None:
        """Hold the picked ones."""
        for index in self.picked:
            await self.backend.hold(self.refs[index], HOLD)

    async def release(self) -> None:
        """Release them."""
        for index in self.picked:
            await self.backend.release(self.refs[index], RELEASE)

    async def set_bit(self) -> None:
        """Let the picked ones have their requeue bit set."""
        await self.renew(NativePolicy(settings={"requeue": "1"}, covered=(), rest=Policy()))


HOLD = HoldMeta(deadline=FAR, instance=1)
RELEASE = ReleaseMeta(deadline=FAR, instance=1)
META = CallMeta(deadline=FAR)


def _ref(population: Population, index: int) -> tuple[Any, ...]:
    return (population.refs[index],)


@dataclass(frozen=True)
class Case:
    """One call.

    :ivar call: its name
    :ivar given: its arguments, for the object of that index
    :ivar before: brings the picked objects to where the call does something
    :ivar after: brings them back
    :ivar shapes: the shapes that have it
    """

    call: str
    given: Callable[[Population, int], tuple[Any, ...]] = _ref
    before: Callable[[Population], Awaitable[None]] | None = None
    after: Callable[[Population], Awaitable[None]] | None = None
    shapes: tuple[Shape, ...] = tuple(Shape)

    def side(self, population: Population) -> Side:
        """The call on these objects."""

        async def prepare() -> Arguments:
            population.pick(CALLS)
            if self.before:
                await self.before(population)
            return [self.given(population, index) for index in population.picked]

        async def restore() -> None:
            if self.after:
                await self.after(population)

        return Side(getattr(population.backend, self.call), prepare, restore)


SLURM = (Shape.SLURM,)
CASES = (
    Case("get"),
    Case("find", lambda objects, index: (objects.jobs[index].id,)),
    Case("find_many", lambda objects, index: ((objects.jobs[index].id,),)),
    Case("hold", lambda objects, index: (objects.refs[index], HOLD), after=Population.release),
    Case("release", lambda objects, index: (objects.refs[index], RELEASE), before=Population.hold),
    Case("open", after=Population.renew),
    Case("stop", after=Population.renew),
    Case("start", lambda objects, index: (objects.jobs[index], 1), before=Population.clear, after=Population.look),
    Case("cessation", before=Population.run, after=Population.renew),
    Case("requeue", lambda objects, index: (objects.refs[index], META), Population.run, Population.renew, SLURM),
    Case(
        "restore_requeue_bit",
        lambda objects, index: (objects.refs[index], META),
        Population.set_bit,
        Population.renew,
        SLURM,
    ),
)


async def a_thousand_times_the_objects(shape: Shape, largest: int) -> AsyncGenerator[Figure]:
    """Every call among many objects, over the same call among few.

    Both pick their objects at random, so that among many they lie outside the processor's caches. Calls that change an
    object find it as it was started, or (``release``, ``requeue``, ``restore_requeue_bit``, ``cessation``) as it was
    brought there just before.
    """
    many, few = Population(shape, largest), Population(shape, 1_000)
    await many.fill()
    await few.fill()
    for case in CASES:
        if shape in case.shapes:
            name = f"{case.call} at {largest:,} / at 1,000 objects ({shape})"
            yield await versus(name, 1.3, case.side(many), case.side(few), rounds=ROUNDS)


async def an_object(count: int, *, ended: bool) -> AsyncGenerator[Figure]:
    """Bytes that one remembered Slurm object takes, with and without the job that its caller made.

    Every job has a ULID of its own, and shares command and resources; every call has a moment of its own. An ended
    object has run once, and is due to be forgotten. Nobody keeps the refs; nothing is in the call log.
    """
    command, resources = ("python", "train.py", "--resume"), Resources(nodes=4, gpus_per_node=8)
    tracemalloc.start()
    try:
        empty = _traced()
        jobs = [job(number, command=command, resources=resources) for number in range(1, count + 1)]
        held = _traced()
        clock = Clock()
        backend = Backend(clock=clock, keep_history=0)
        kind = "ended" if ended else "started"
        for number in progress(f"slurm: weighing {count:,} {kind} objects", count):
            clock.advance(MICROSECOND)
            ref = await backend.start(jobs[number - 1], 1)
            if ended:
                await backend.open(ref)
                clock.advance(MICROSECOND)
                await backend.env.run(ref)
                clock.advance(MICROSECOND)
                await backend.env.finish(ref)
        full = _traced()
    finally:
        tracemalloc.stop()
    yield Figure(f"bytes of an object, {kind}", (full - held) / count, 1200)
    yield Figure(f"bytes of an object, {kind}, and of its job", (full - empty) / count, 1200)


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def a_change(watchers: int) -> AsyncGenerator[Figure]:
    """One change told to many watchers that are synced, over as many sends into streams of the same kind.

    The change is an administrator's hold, in turn placed and lifted; nothing of the call is taken off. Nobody waits at
    the streams, and nobody falls behind.
    """
    backend = Backend(Config(watch_buffer=1_000_000), keep_history=0)
    ref = await backend.start(job(), 1)
    watches = [backend.watch() for _ in range(watchers)]
    for watch in watches:
        await anext(watch)
        assert watch.synced
    observation = await backend.get(ref)
    pairs = [anyio.create_memory_object_stream[Observation](1_000_000) for _ in range(watchers)]
    senders = [send for send, _ in pairs]

    async def change(held: bool) -> None:
        await (backend.env.admin_hold if held else backend.env.admin_release)(ref)

    async def send_all(_: bool) -> None:
        for sender in senders:
            sender.send_nowait(observation)

    in_turn = _the_same((True, False))
    name = f"a change to {watchers:,} watchers / as many send_nowait"
    yield await versus(name, 1.5, Side(change, in_turn), Side(send_all, in_turn), rounds=ROUNDS)
    await backend.aclose()
    for send, receive in pairs:
        send.close()
        receive.close()
