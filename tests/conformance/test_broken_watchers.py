"""WA-2: adapters whose watchers are told too early, twice or never, which the backend suite must find and explain."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
import pytest
from anyio.lowlevel import checkpoint

from dispatch_memory_async import (
    Backend,
    CallMeta,
    Cause,
    Config,
    HoldMeta,
    NotFoundError,
    Observation,
    Ref,
    ReleaseMeta,
    Shape,
    State,
)
from dispatch_memory_async.conformance import run_backend
from dispatch_memory_async.conformance.showing import timeless
from dispatch_memory_async.memory.harness import MemoryCluster, MemoryHarness
from dispatch_memory_async.memory.watch import MemoryWatch
from dispatch_memory_async.model.base import altered

SLURM, KUBEFLOW = (Shape.SLURM,), (Shape.KUBEFLOW,)
BOTH = (*SLURM, *KUBEFLOW)


class BrokenHarness(MemoryHarness):
    """A harness of backends that are broken in one way."""

    def __init__(self, config: Config, broken: Callable[..., Backend]) -> None:
        super().__init__(config)
        self.broken = broken

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[MemoryCluster]:
        cluster = MemoryCluster(self.config)
        cluster.adapter = cluster.backend = self.broken(self.config, clock=cluster.now)
        cluster.driver = cluster.backend.env
        async with cluster.backend:
            yield cluster


async def found(broken: Callable[..., Backend], shape: Shape, topic: str = "watch.") -> dict[str, str]:
    """The checks that fail, with what they say."""
    harness = BrokenHarness(Config(shape=shape), broken)
    report = await run_backend(harness, select=lambda one: one.id.startswith(topic))
    return {result.check: result.message for result in report.results if result.outcome == "failed"}


async def test_the_sound_one_passes(shape: Shape) -> None:
    """WA-2: nothing is found in a backend as it is."""
    assert await found(Backend, shape) == {}


# told before it is so


async def turns(number: int) -> None:
    for _ in range(number):
        await checkpoint()


class Hasty(Backend):
    """For whoever looks, a call that was told to watchers has not changed anything until a while later."""

    def __init__(self, *given: Any, hasty: str, pause: Callable[[], Awaitable[None]], **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.hasty = hasty
        self.pause = pause
        self.before: dict[str, Observation] = {}

    async def get(self, ref: Ref) -> Observation:
        await checkpoint()
        before = self.before.get(ref.id)
        if before is None:
            return await super().get(ref)
        if not ref.weak and ref != before.ref:
            raise NotFoundError(f"no object answers to {ref} yet")
        return before

    async def late(self, name: str, ref: Ref, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call, which shows a while later."""
        before = await super().get(ref)
        await call()
        if name == self.hasty:
            self.before[ref.id] = before
            await self.pause()
            del self.before[ref.id]

    async def open(self, ref: Ref, **given: Any) -> None:
        await self.late("open", ref, partial(super().open, ref, **given))

    async def stop(self, ref: Ref, **given: Any) -> None:
        await self.late("stop", ref, partial(super().stop, ref, **given))

    async def hold(self, ref: Ref, meta: HoldMeta) -> None:
        await self.late("hold", ref, partial(super().hold, ref, meta))

    async def release(self, ref: Ref, meta: ReleaseMeta) -> None:
        await self.late("release", ref, partial(super().release, ref, meta))

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        await self.late("requeue", ref, partial(super().requeue, ref, meta))


EARLY = [
    ("open", "watch.open-is-told", SLURM),
    ("stop", "watch.a-stop-is-told", BOTH),
    ("hold", "watch.a-hold-is-told", BOTH),
    ("release", "watch.a-hold-is-told", BOTH),
    ("requeue", "watch.a-requeue-is-told", SLURM),
]


@pytest.mark.parametrize("pause", [partial(turns, 3), partial(anyio.sleep, 0.01)], ids=["turns", "milliseconds"])
@pytest.mark.parametrize(
    ("call", "check", "shape"), [(call, check, shape) for call, check, shapes in EARLY for shape in shapes]
)
async def test_what_is_told_before_it_is_so_is_found(
    call: str, check: str, shape: Shape, pause: Callable[[], Awaitable[None]]
) -> None:
    """WA-2: who is told and looks at once must not see the past, whichever call made the change."""
    said = await found(partial(Hasty, hasty=call, pause=pause), shape, check)
    assert said[check].startswith("expected: a look, made when this was told, shows it, or what came later: dj-")


async def test_what_is_told_before_it_is_so_is_found_while_others_call(shape: Shape) -> None:
    """WA-2: also by whoever follows several objects, and so looks at some a little later."""
    pause = partial(anyio.sleep, 0.01)
    said = await found(partial(Hasty, hasty="stop", pause=pause), shape, "watch.told-is-what-get-shows")
    assert said["watch.told-is-what-get-shows"].startswith("expected: a look, made when this was told, shows it")


# told twice, or never

Times = Callable[[Observation | None, Observation], int]
"""How often a change is told, by how the object was told last and how it is told now."""
Change = Callable[[Observation | None, Observation], bool]
"""Whether it is that change, by the same."""


class Retold:
    """A watch that tells some changes twice, or never."""

    def __init__(self, watch: MemoryWatch, times: Times) -> None:
        self.watch = watch
        self.times = times
        self.last: dict[str, Observation] = {}
        self.again: list[Observation] = []

    @property
    def synced(self) -> bool:
        return self.watch.synced

    @property
    def closed_by(self) -> Any:
        return self.watch.closed_by

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Observation:
        while not self.again:
            synced = self.synced
            seen = await anext(self.watch)
            times = self.times(self.last.get(seen.ref.id), seen) if synced else 1
            self.last[seen.ref.id] = seen
            self.again = [seen] * times
        return self.again.pop()

    async def __aenter__(self) -> Self:
        await self.watch.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.watch.aclose()


class Muddled(Backend):
    """A backend whose watches tell some changes twice, or never."""

    def __init__(self, *given: Any, times: Times, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.times = times

    def watch(self) -> Any:
        return Retold(super().watch(), self.times)


def once(_: Observation | None, __: Observation) -> int:
    return 1


def going_back(last: Observation | None, seen: Observation) -> bool:
    """Whether an object goes back to wait."""
    return seen.state is State.PENDING and last is not None and last.state is not State.PENDING


def another_bit(last: Observation | None, seen: Observation) -> bool:
    """Whether nothing but the requeue bit has changed."""
    if last is None or last.requeue_bit is seen.requeue_bit:
        return False
    return timeless(altered(seen, requeue_bit=last.requeue_bit)) == timeless(last)


def for_a(cause: Cause) -> Change:
    """Whether an object has come to its state for that cause."""
    return lambda _, seen: seen.cause is cause


def no_more_for_a(cause: Cause) -> Change:
    """Whether an object waits for that cause no more."""
    return lambda last, seen: last is not None and last.cause is cause is not seen.cause


CHANGES = [
    (going_back, SLURM, "a-requeue"),
    (going_back, SLURM, "a-requeue-by-somebody-else"),
    (going_back, SLURM, "a-preemption-that-requeues"),
    (going_back, SLURM, "a-lost-node-that-requeues"),
    (going_back, KUBEFLOW, "a-preemption"),
    (going_back, KUBEFLOW, "a-hold-of-a-running-one"),
    (another_bit, SLURM, "a-crash"),
    (another_bit, SLURM, "a-restored-bit"),
    (for_a(Cause.PREEMPTED), BOTH, "a-preemption"),
    (for_a(Cause.OUT_OF_MEMORY), BOTH, "out-of-memory"),
    (for_a(Cause.NODE_LOST), BOTH, "a-lost-node"),
    (for_a(Cause.NODE_LOST), SLURM, "a-node-back"),
    (for_a(Cause.NO_CAPACITY), BOTH, "no-capacity"),
    (for_a(Cause.HELD), BOTH, "a-hold"),
    (for_a(Cause.HELD), KUBEFLOW, "a-deactivation"),
    (no_more_for_a(Cause.HELD), KUBEFLOW, "a-deactivation"),
    (for_a(Cause.ADMIN_HELD), BOTH, "an-admin-hold"),
    (no_more_for_a(Cause.ADMIN_HELD), BOTH, "an-admin-hold"),
    (for_a(Cause.STOPPED), BOTH, "a-stop"),
]


@pytest.mark.parametrize("times", [0, 2], ids=["never", "twice"])
@pytest.mark.parametrize(
    ("change", "shape", "what"), [(change, shape, what) for change, shapes, what in CHANGES for shape in shapes]
)
async def test_what_is_told_twice_or_never_is_found(change: Change, shape: Shape, what: str, times: int) -> None:
    """WA-2: each subscriber sees each change once, whoever made it."""
    check = f"watch.{what}-is-told"
    said = await found(muddled(change, times), shape, check)
    expected, seen, *_ = said[check].splitlines()
    assert expected.startswith("expected: told of dj-")
    assert seen.count(" dj-") == times  # an id drawn by chance may end in "dj" too


def muddled(change: Change, times: int) -> Callable[..., Backend]:
    """A backend whose watches tell such a change so often."""
    return partial(Muddled, times=lambda last, seen: times if change(last, seen) else 1)


# what the suite says of them


@pytest.mark.parametrize(
    "check", ["watch.two-are-told-the-same", "watch.what-is-told-is-frozen", "clients.closing-one-ends-its-own-watches"]
)
async def test_a_stop_that_is_not_told_is_said_so(check: str, shape: Shape) -> None:
    """3.1: what was done, to which object, and what should have been told of it."""
    said = await found(muddled(for_a(Cause.STOPPED), 0), shape, check)
    expected, seen, *_ = said[check].splitlines()
    told = "state=Cancelled, cause=Stopped" if shape is Shape.SLURM else "state=Gone, cause=Stopped"
    assert re.fullmatch(rf"expected: told of dj-\S+ after its stop: {told}", expected)
    assert seen == "seen:     nothing more told of it"


class Endless(Retold):
    """A watch that goes on when it is closed."""

    async def aclose(self) -> None:
        await checkpoint()


class Unending(Muddled):
    """A backend whose watches do not end when they are closed."""

    def watch(self) -> Any:
        return Endless(Backend.watch(self), self.times)


async def test_a_watch_that_does_not_end_is_said_so(shape: Shape) -> None:
    """3.1: after which step, and how many changes had come until then, with the last of them."""
    check = "watch.closing-delivers-what-was-buffered"
    said = await found(partial(Unending, times=once), shape, check)
    expected, seen, last = said[check].splitlines()
    step = r"after dj-\S+ was started and the watch closed; 2 told before"
    assert re.fullmatch(rf"expected: something told, or the watch's end, {step}", expected)
    assert seen == "seen:     nothing in 0:02:00"
    assert last.startswith("object:   Observation(ref=Ref('dj-")


@pytest.mark.parametrize(
    ("check", "highest"), [("races.a-slow-follower", 60), ("watch.watching-again-loses-nothing", 100)]
)
async def test_what_a_follower_knows_wrong_is_said_object_by_object(check: str, highest: int, shape: Shape) -> None:
    """3.1: of the objects and fields that differ, and of no others."""

    def last_hold(_: Observation | None, seen: Observation) -> bool:
        return seen.hold == highest and seen.state is State.PENDING

    class Snapshots(Muddled):
        """A backend whose watches show an earlier hold in their snapshots, too."""

        def watch(self) -> Any:
            return Earlier(Backend.watch(self), self.times)

    class Earlier(Retold):
        async def __anext__(self) -> Observation:
            seen = await super().__anext__()
            return altered(seen, hold=1) if last_hold(None, seen) else seen

    said = await found(partial(Snapshots, times=once), shape, check)
    expected, seen = said[check].splitlines()
    assert re.fullmatch(rf"expected: known in the end, as looks show it: \S+: hold={highest}", expected)
    assert re.fullmatch(r"seen:     known in the end: \S+: hold=1", seen)
