"""TM-1: a cancellation strikes at the checkpoint, and then the call was never made; or it does not strike at all."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import anyio
import pytest

from dispatch_memory_async import ClosedError, Observation, Shape, State, UnavailableError, View
from tests.memory.test_calls import EVERY, Scene, Stepped, make, of_both_shapes, ready, rest_of, snapshot_of
from tests.support import job

Way = Callable[[Scene, str], Awaitable[None]]


async def before_it_begins(scene: Scene, name: str) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await make(scene, name)
    assert scope.cancelled_caught


async def while_it_is_parked(scene: Scene, name: str) -> None:
    with anyio.CancelScope() as scope:
        await Stepped(make(scene, name), scope.cancel)
    assert scope.cancelled_caught


async def natively_while_it_is_parked(scene: Scene, name: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(asyncio.CancelledError):
        await Stepped(make(scene, name), task.cancel)
    task.uncancel()


BOTH_LOOPS = [before_it_begins, while_it_is_parked]


async def cancelled_call_was_never_made(shape: Shape, name: str, cancel: Way) -> None:
    """The moment of the call has something due, which it must not settle either."""
    scene = await ready(shape, name)
    b = scene.b
    other = await b.start(job(50), 1)
    await b.open(other)
    await b.env.run(other)
    await b.env.fail_launch(other) if shape is Shape.SLURM else await b.env.out_of_memory(other)
    watch = b.watch()
    await snapshot_of(watch)
    before = (await b.env.objects(), await b.env.calls())
    now = scene.clock.now
    scene.clock.advance(timedelta(minutes=5))

    reads = scene.clock.reads
    await cancel(scene, name)
    assert scene.clock.reads == reads

    scene.clock.now = now
    assert (await b.env.objects(), await b.env.calls()) == before
    sentinel = await b.start(job(99), 1)  # an id that the cancelled call used up would show here
    if shape is Shape.SLURM:
        assert int(sentinel.id) == len(before[0]) + 1
    assert [seen.ref for seen in await rest_of(watch)] == [sentinel]
    await b.capabilities()  # nothing was injected


@pytest.mark.parametrize("cancel", BOTH_LOOPS)
@of_both_shapes(EVERY)
async def test_a_cancelled_call_was_never_made_tm_1(shape: Shape, name: str, cancel: Way) -> None:
    await cancelled_call_was_never_made(shape, name, cancel)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@of_both_shapes(EVERY)
async def test_a_natively_cancelled_call_was_never_made_tm_1(shape: Shape, name: str) -> None:
    await cancelled_call_was_never_made(shape, name, natively_while_it_is_parked)


@of_both_shapes(EVERY)
async def test_past_its_checkpoint_a_call_cannot_be_cancelled_tm_1(shape: Shape, name: str) -> None:
    """The cancellation comes while the clock is read, under the lock; it strikes whoever waits next."""
    undisturbed, scene = await ready(shape, name), await ready(shape, name)
    answer = await make(undisturbed, name)
    expected = (await undisturbed.b.env.objects(), await undisturbed.b.env.calls())
    scope = anyio.CancelScope()

    def strike() -> None:
        scene.clock.when_read = lambda: None
        scope.cancel()

    landed = False
    with scope:
        scene.clock.when_read = strike
        assert await make(scene, name) == answer
        landed = True
        await anyio.lowlevel.checkpoint()
    assert landed
    assert scope.cancelled_caught
    assert (await scene.b.env.objects(), await scene.b.env.calls()) == expected


async def test_a_shielded_call_goes_through_tm_1(shape: Shape) -> None:
    """As in a `finally` that stops what it started."""
    scene = await ready(shape, "stop")
    with anyio.CancelScope() as scope:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await make(scene, "stop")
    assert (await scene.b.env.truth(scene.ref)).state is State.CANCELLED


async def test_a_cancelled_call_uses_up_no_injection_2_7(shape: Shape) -> None:
    scene = Scene(shape)
    await scene.b.env.fail_calls("capabilities", UnavailableError("injected"))
    await before_it_begins(scene, "capabilities")
    await while_it_is_parked(scene, "capabilities")
    with pytest.raises(UnavailableError):
        await scene.b.capabilities()


@pytest.mark.parametrize("client", ["backend", "view"])
async def test_a_cancelled_aclose_has_closed_tm_1(shape: Shape, client: str) -> None:
    b = Scene(shape).b
    view = b.view()
    closing: View = b if client == "backend" else view
    watch = view.watch()
    await snapshot_of(watch)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await closing.aclose()
    assert scope.cancelled_caught
    assert view.closed
    assert watch.closed_by == "closed"
    assert [seen async for seen in watch] == []
    with pytest.raises(ClosedError):
        await closing.capabilities()
    if client == "view":
        await b.capabilities()


async def test_a_cancelled_aclose_of_a_watch_has_closed_tm_1(shape: Shape) -> None:
    b = Scene(shape).b
    for begun in (True, False):
        watch = b.watch()
        if begun:
            await snapshot_of(watch)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await watch.aclose()
        assert scope.cancelled_caught
        assert watch.closed_by == "closed"


async def test_leaving_the_backend_cancelled_closes_it_tm_1(shape: Shape) -> None:
    b = Scene(shape).b
    with anyio.CancelScope() as scope:
        async with b:
            scope.cancel()
    assert b.closed


async def test_a_cancelled_snapshot_is_not_taken_wa_1(shape: Shape) -> None:
    """Cancelled at its first checkpoint the watch has ended before it began: it settles nothing and gives nothing."""
    scene = Scene(shape)
    await scene.b.start(job(1), 1)
    reads = scene.clock.reads

    async def first(how: str) -> None:
        watch = scene.b.watch()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await (watch.__aenter__() if how == "enter" else anext(watch))
        assert scope.cancelled_caught
        assert watch.closed_by == "cancelled"
        assert not watch.synced
        assert [seen async for seen in watch] == []

    await first("enter")
    await first("iterate")
    assert scene.clock.reads == reads


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_timeout_around_a_call_leaves_it_whole_tm_1(shape: Shape) -> None:
    """asyncio's own time-out of zero: the call was made and answers, or it was not made."""
    b = Scene(shape).b
    made = False
    try:
        async with asyncio.timeout(0):
            await b.start(job(1), 1)
            made = True
    except TimeoutError:
        pass
    assert bool(await b.env.objects()) is made
    assert len(await b.env.calls()) == made


async def test_a_group_that_is_cancelled_made_all_or_nothing_of_each_call_tm_1(shape: Shape) -> None:
    """Of many calls parked together, the log, the objects and the watch tell the same ones."""
    scene = Scene(shape)
    watch = scene.b.watch()
    await snapshot_of(watch)
    answered: list[str] = []

    async def start(number: int) -> None:
        for _ in range(number):
            await anyio.lowlevel.checkpoint()
        answered.append((await scene.b.start(job(number), 1)).name)

    async with anyio.create_task_group() as group:
        for number in range(1, 9):
            group.start_soon(start, number)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    told: list[Observation] = await rest_of(watch)
    assert 0 < len(answered) < 8
    assert [truth.ref.name for truth in await scene.b.env.objects()] == answered
    assert [seen.ref.name for seen in told] == answered
    assert len(await scene.b.env.calls()) == len(answered)
