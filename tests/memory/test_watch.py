"""Section 2.6: a snapshot, then every change, once and in order (WA-1 to WA-3, rulings 9 and 19)."""

import gc
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from operator import attrgetter
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from dispatch_memory_async import (
    Backend,
    CallMeta,
    Cause,
    ClosedError,
    CrashedError,
    HoldMeta,
    Observation,
    PendingError,
    Ref,
    ReleaseMeta,
    Shape,
    State,
    View,
    Watch,
    crash_between_steps,
)
from tests.memory.test_calls import Scene, Stepped, at_once, rest_of, snapshot_of, taken
from tests.support import FAR, MINUTE, SECOND, T0, Clock, backend, job, run_virtually, ulid


async def started(b: View, *numbers: int) -> list[Ref]:
    return [await b.start(job(number), 1) for number in numbers]


async def running(b: Backend, number: int = 1) -> Ref:
    ref = await b.start(job(number), 1)
    await b.open(ref)
    await b.env.run(ref)
    return ref


def subscriptions(b: Backend) -> int:
    return len(attrgetter("_cluster.hub._open")(b))


def numbers(seen: list[Observation]) -> list[int]:
    """Which jobs, in order; `job(3)` is 3."""
    known = {ulid(number): number for number in range(1000)}
    return [known[one.job_id] for one in seen]


# WA-1: the snapshot


async def test_the_snapshot_is_what_is_remembered_in_the_order_of_start_wa_1(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock, min_job_age=MINUTE)
    refs = await started(b, 5, 3, 4, 1)
    await b.stop(refs[1])  # Slurm: remembered for a minute more; Kubeflow: deleted
    await b.env.admin_hold(refs[3])
    clock.advance(59)
    expected = [5, 3, 4, 1] if shape is Shape.SLURM else [5, 4, 1]
    seen = await snapshot_of(b.watch())
    assert numbers(seen) == expected
    assert seen == [observation for number in expected for observation in await b.find(ulid(number))]
    clock.advance(1)
    assert numbers(await snapshot_of(b.watch())) == [5, 4, 1]


async def test_an_empty_snapshot_is_synced_at_once_wa_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    watch = b.watch()
    assert not watch.synced
    await watch.__aenter__()
    assert watch.synced
    await started(b, 1)
    assert watch.synced
    assert numbers(await rest_of(watch)) == [1]


async def test_synced_from_the_return_of_the_last_item_on_wa_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2, 3)
    watch = b.watch()
    await watch.__aenter__()
    synced: list[bool] = []
    for _ in range(3):
        synced.append(watch.synced)
        await anext(watch)
    assert synced == [False, False, False]
    assert watch.synced


@pytest.mark.parametrize("begin", ["enter", "iterate"])
async def test_it_is_taken_at_the_first_iteration_or_on_entering_wa_1(shape: Shape, begin: str) -> None:
    """What is there by then is in it once, whether or not it was when `watch()` was called."""
    b = backend(shape, Clock())
    await started(b, 1)
    watch = b.watch()
    assert subscriptions(b) == 0
    await started(b, 2)
    if begin == "enter":
        await watch.__aenter__()
        await started(b, 3)
        seen = await taken(watch, 3)
    else:
        seen = await taken(watch)
        await started(b, 3)
        seen += await taken(watch, 2)
    assert numbers(seen) == [1, 2, 3]
    assert await rest_of(watch) == []


async def test_iterating_and_then_entering_takes_one_snapshot_wa_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2)
    watch = b.watch()
    first = await taken(watch)
    async with watch:
        assert numbers(first + await taken(watch)) == [1, 2]
        async with watch:
            assert watch.synced
        assert await rest_of(watch) == []


@pytest.mark.parametrize("stops", range(6))
@pytest.mark.parametrize("begin", ["enter", "iterate"])
async def test_nothing_falls_between_the_snapshot_and_the_changes_wa_1(shape: Shape, begin: str, stops: int) -> None:
    """An object is started whenever the watch stops to wait, some before it begins: each is seen once."""
    b = backend(shape, Clock())
    number = 0

    def start() -> None:
        nonlocal number
        if number < 6:
            number += 1
            at_once(b.start(job(number), 1))

    for _ in range(stops):
        start()
    watch = b.watch()
    if begin == "enter":
        await Stepped(watch.__aenter__(), start)
    seen = [await Stepped(watch.__anext__(), start) for _ in range(6)]
    assert numbers(seen) == [1, 2, 3, 4, 5, 6]
    assert await rest_of(watch) == []


@pytest.mark.parametrize("head_start", range(8))
async def test_nothing_falls_between_two_tasks_wa_1(shape: Shape, head_start: int) -> None:
    b = backend(shape, Clock())
    seen: list[Observation] = []

    async def follow() -> None:
        watch = b.watch()
        seen.extend(await taken(watch, 6))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(started, b, 1, 2, 3, 4, 5, 6)
            for _ in range(head_start):
                await checkpoint()
            group.start_soon(follow)
    assert numbers(seen) == [1, 2, 3, 4, 5, 6]


async def test_subscribing_settles_and_speaks_of_its_own_moment_ruling_19() -> None:
    clock = Clock()
    b = backend(Shape.SLURM, clock)
    await b.env.lose_node(await running(b, 1))
    await started(b, 2)
    earlier = b.watch()
    await snapshot_of(earlier)
    now = clock.advance(timedelta(minutes=5))
    later = b.watch()
    lost, other = await snapshot_of(later)
    assert (lost.state, lost.cause, lost.observed_at, other.observed_at) == (State.FAILED, Cause.NODE_LOST, now, now)
    assert await rest_of(later) == []  # what was settled is in the snapshot, and is not told again
    assert await rest_of(earlier) == [lost]


async def test_subscribing_looks_at_the_clock_once_and_is_not_in_the_log_ruling_19(shape: Shape) -> None:
    scene = Scene(shape)
    await started(scene.b, 1, 2)
    log, reads = await scene.b.env.calls(), scene.clock.reads
    watch = scene.b.watch()
    assert scene.clock.reads == reads
    await snapshot_of(watch)
    assert scene.clock.reads == reads + 1
    assert await scene.b.env.calls() == log


async def test_iterating_settles_nothing_wa_3(shape: Shape) -> None:
    scene = Scene(shape)
    b = scene.b
    ref = await running(b)
    watch = b.watch()
    await snapshot_of(watch)
    await b.env.out_of_memory(ref)
    scene.clock.advance(timedelta(days=1))
    reads = scene.clock.reads
    assert [seen.cause for seen in await taken(watch)] == [Cause.OUT_OF_MEMORY]
    with anyio.CancelScope() as scope:
        await Stepped(watch.__anext__(), scope.cancel)
    assert scene.clock.reads == reads


# WA-2: the changes


async def test_each_change_is_told_once_to_each_in_order_wa_2(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    watches = [client.watch() for client in (b, b.view(), b.view(read_only=True), b)]
    for watch in watches:
        await snapshot_of(watch)
    expected: list[Observation] = []
    ref = (await started(b, 1))[0]
    calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: b.hold(ref, HoldMeta(deadline=FAR, instance=1)),
        lambda: b.env.admin_hold(ref),
        lambda: b.release(ref, ReleaseMeta(deadline=FAR, instance=1)),
        lambda: b.env.admin_release(ref),
        lambda: b.open(ref),
        lambda: b.env.no_capacity(ref, "full"),
        lambda: b.env.run(ref),
        lambda: b.env.finish(ref, 1),
    ]
    expected += await b.find(ulid(1))
    for call in calls:
        clock.advance(SECOND)
        await call()
        (seen,) = await b.find(ulid(1))
        if msgspec.structs.replace(seen, observed_at=expected[-1].observed_at) != expected[-1]:
            expected.append(seen)
    told = [await rest_of(watch) for watch in watches]
    assert told == [expected] * 4
    assert len(expected) >= 8  # Kubeflow has no gate to open


async def test_what_only_looks_later_is_no_change_ruling_9(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    ref = (await started(b, 1))[0]
    await b.open(ref)
    hold = HoldMeta(deadline=FAR, instance=2)
    await b.hold(ref, hold)
    await b.env.admin_hold(ref)
    watch = b.watch()
    await snapshot_of(watch)
    clock.advance(SECOND)
    await b.open(ref) if shape is Shape.KUBEFLOW else None  # Slurm: an administrator's hold forbids it
    await b.hold(ref, hold)
    await b.env.admin_hold(ref)
    await b.get(ref)
    await b.find(ulid(1))
    assert await rest_of(watch) == []


async def test_a_bit_set_and_restored_is_not_told_wa_2() -> None:
    clock = Clock()
    b = backend(Shape.SLURM, clock)
    ref = await running(b)
    watch = b.watch()
    await snapshot_of(watch)
    await b.requeue(ref, CallMeta(FAR))
    with pytest.raises(PendingError):
        await b.requeue(ref, CallMeta(FAR))
    with crash_between_steps(), pytest.raises(CrashedError):
        await b.requeue(ref, CallMeta(FAR))
    assert [(seen.state, seen.requeue_bit, seen.restarts) for seen in await rest_of(watch)] == [
        (State.PENDING, False, 1),
        (State.PENDING, True, 1),
    ]


async def test_a_stop_on_kubeflow_is_told_as_one_gone_wa_2() -> None:
    clock = Clock()
    b = backend(Shape.KUBEFLOW, clock, kill_wait=MINUTE)
    live, ended = await running(b, 1), await running(b, 2)
    await b.env.finish(ended, 3)
    before = [await b.get(live), await b.get(ended)]
    watch = b.watch()
    await snapshot_of(watch)
    now = clock.advance(SECOND)
    await b.stop(live)
    await b.stop(ended)
    clock.advance(MINUTE)
    await b.capabilities()  # the executions have died meanwhile: nothing to tell
    assert await rest_of(watch) == [
        msgspec.structs.replace(before[0], state=State.GONE, cause=Cause.STOPPED, observed_at=now),
        msgspec.structs.replace(before[1], state=State.GONE, observed_at=now),
    ]


async def test_what_is_forgotten_is_told_as_one_gone_that_repeats_the_last_wa_2() -> None:
    clock = Clock()
    b = backend(Shape.SLURM, clock)
    ref = await running(b)
    await b.env.finish(ref, 7)
    watch = b.watch()
    (last,) = await snapshot_of(watch)
    now = clock.advance(timedelta(hours=1))
    await b.capabilities()
    await b.capabilities()
    assert await rest_of(watch) == [msgspec.structs.replace(last, state=State.GONE, observed_at=now)]


# WA-3: the end


async def test_the_first_change_that_does_not_fit_ends_it_then_wa_3(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=3)
    watch = b.watch()
    await snapshot_of(watch)
    await started(b, 1, 2, 3)
    assert watch.closed_by is None
    await started(b, 4)
    assert watch.closed_by == "overflow"
    await started(b, 5)
    assert numbers([seen async for seen in watch]) == [1, 2, 3]
    assert watch.closed_by == "overflow"
    assert watch.synced


async def test_what_was_taken_makes_room_wa_3(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=2)
    watch = b.watch()
    await snapshot_of(watch)
    seen: list[Observation] = []
    for number in range(1, 20, 2):
        await started(b, number, number + 1)
        seen += await taken(watch, 2)
    assert watch.closed_by is None
    assert numbers(seen) == list(range(1, 21))


async def test_how_far_it_is_behind(shape: Shape) -> None:
    """WA-1, WA-3: of the snapshot, of the changes, and of what an ended watch still gives."""
    b = backend(shape, Clock(), watch_buffer=2)
    await started(b, 1, 2)
    watch = b.watch()
    assert watch.behind == 0
    await anext(watch)
    assert watch.behind == 1
    await started(b, 3, 4)
    assert watch.behind == 3
    await started(b, 5)
    assert (watch.closed_by, watch.behind) == ("overflow", 3)
    assert numbers(await rest_of(watch)) == [2, 3, 4]
    assert watch.behind == 0


async def test_the_snapshot_does_not_count_wa_3(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=1)
    await started(b, *range(1, 11))
    watch = b.watch()
    await watch.__aenter__()
    await started(b, 11)
    assert watch.closed_by is None
    await started(b, 12)
    assert watch.closed_by == "overflow"
    assert not watch.synced
    assert numbers([seen async for seen in watch]) == list(range(1, 12))


async def test_a_change_handed_to_a_waiting_consumer_counts_as_delivered_wa_3(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=1)
    watch = b.watch()
    await snapshot_of(watch)
    seen: list[Observation] = []

    async def consume() -> None:
        seen.extend([change async for change in watch])

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        for _ in range(4):
            await checkpoint()
        at_once(b.start(job(1), 1))  # handed over, though the consumer has not run since
        at_once(b.start(job(2), 1))  # buffered
        assert watch.closed_by is None
        at_once(b.start(job(3), 1))
        assert watch.closed_by == "overflow"
    assert numbers(seen) == [1, 2]


async def test_a_slow_subscriber_disturbs_nobody_wa_3(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=2)
    slow, fast, last = b.watch(), b.watch(), b.view().watch()
    for watch in (slow, fast, last):
        await snapshot_of(watch)
    seen: list[list[Observation]] = [[], []]
    for number in range(1, 11):
        await started(b, number)
        for watch, into in zip((fast, last), seen, strict=True):
            into.extend(await taken(watch))
    assert (slow.closed_by, fast.closed_by, last.closed_by) == ("overflow", None, None)
    assert [numbers(into) for into in seen] == [list(range(1, 11))] * 2
    assert [record.outcome for record in await b.env.calls()] == [None] * 10


async def test_one_call_that_tells_much_can_end_a_watch_and_stands_wa_3() -> None:
    """Ten objects are forgotten in one late call."""
    clock = Clock()
    b = backend(Shape.SLURM, clock, watch_buffer=4)
    refs = await started(b, *range(1, 11))
    for ref in refs:
        await b.stop(ref)
    watch = b.watch()
    await snapshot_of(watch)
    clock.advance(timedelta(minutes=5))
    ref = (await started(b, 11))[0]
    assert watch.closed_by == "overflow"
    seen = [change async for change in watch]
    assert numbers(seen) == [1, 2, 3, 4]
    assert {change.state for change in seen} == {State.GONE}
    assert numbers(await snapshot_of(b.watch())) == [11]
    assert (await b.get(ref)).state is State.PENDING


End = Callable[[Backend, View, Watch], Coroutine[Any, Any, None]]


async def overflow(b: Backend, _: View, __: Watch) -> None:
    await started(b, *range(100, 104))


async def cancel_waiting(_: Backend, __: View, watch: Watch) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(watch)
    assert scope.cancelled_caught


async def leave(_: Backend, __: View, watch: Watch) -> None:
    await watch.__aexit__(None, None, None)


async def close_watch(_: Backend, __: View, watch: Watch) -> None:
    await watch.aclose()


async def close_view(_: Backend, view: View, __: Watch) -> None:
    await view.aclose()


async def close_backend(b: Backend, _: View, __: Watch) -> None:
    await b.aclose()


ENDS: dict[End, str] = {
    overflow: "overflow",
    cancel_waiting: "cancelled",
    leave: "closed",
    close_watch: "closed",
    close_view: "closed",
    close_backend: "closed",
}


@pytest.mark.parametrize("end", ENDS)
async def test_what_was_buffered_is_still_given_then_it_ends_wa_3(shape: Shape, end: End) -> None:
    b = backend(shape, Clock(), watch_buffer=3)
    view = b.view()
    await started(b, 1, 2)
    watch = view.watch()
    await watch.__aenter__()
    await started(b, 3, 4)
    assert watch.closed_by is None
    await end(b, view, watch)
    assert watch.closed_by == ENDS[end]
    assert subscriptions(b) == 0
    more = [100] if end is overflow else []  # of the changes of the overflow itself, the one that fitted
    assert numbers([seen async for seen in watch]) == [1, 2, 3, 4, *more]
    for _ in range(3):
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
    assert watch.synced
    with pytest.raises(ClosedError):
        await watch.__aenter__()


ONE_AFTER_ANOTHER = [
    (first, second)
    for first in ENDS
    for second in ENDS
    if second is not first and (first, second) != (close_backend, overflow)
]


@pytest.mark.parametrize(("first", "second"), ONE_AFTER_ANOTHER)
async def test_the_first_reason_stays_wa_3(shape: Shape, first: End, second: End) -> None:
    b = backend(shape, Clock(), watch_buffer=3)
    view = b.view()
    watch = view.watch()
    await watch.__aenter__()
    await first(b, view, watch)
    await second(b, view, watch)
    assert watch.closed_by == ENDS[first]


@pytest.mark.parametrize("end", [end for end in ENDS if end is not overflow])
async def test_a_watch_can_end_before_it_begins_wa_3(shape: Shape, end: End) -> None:
    b = backend(shape, Clock())
    await started(b, 1)
    view = b.view()
    watch = view.watch()
    await end(b, view, watch)
    assert watch.closed_by == ENDS[end]
    assert not watch.synced
    assert [seen async for seen in watch] == []
    with pytest.raises(ClosedError):
        await watch.__aenter__()
    assert watch.closed_by == ENDS[end]
    assert subscriptions(b) == 0


@pytest.mark.parametrize("end", [close_watch, close_view, close_backend])
async def test_a_waiting_consumer_is_let_go_wa_3(shape: Shape, end: End) -> None:
    b = backend(shape, Clock())
    view = b.view()
    watch = view.watch()
    ended: list[int] = []

    async def consume() -> None:
        async for _ in watch:
            pass
        ended.append(1)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(consume)
            for _ in range(4):
                await checkpoint()
            assert ended == []
            await end(b, view, watch)
    assert ended == [1, 1, 1]


async def test_a_cancellation_in_the_snapshot_ends_it_and_the_rest_is_given_wa_3(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2, 3)
    watch = b.watch()
    assert numbers(await taken(watch)) == [1]
    with anyio.CancelScope() as scope:
        await Stepped(watch.__anext__(), scope.cancel)
    assert scope.cancelled_caught
    assert (watch.closed_by, watch.synced) == ("cancelled", False)
    await started(b, 4)
    assert numbers([seen async for seen in watch]) == [2, 3]


async def test_a_cancelled_waiting_consumer_loses_nothing_wa_3(shape: Shape) -> None:
    """The scope is cancelled before the change is made: the change waits in the buffer, it was not handed over."""
    b = backend(shape, Clock())
    watch = b.watch()
    await snapshot_of(watch)
    scope = anyio.CancelScope()

    async def consume() -> None:
        with scope:
            await anext(watch)

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        for _ in range(4):
            await checkpoint()
        scope.cancel()
        at_once(b.start(job(1), 1))
    assert scope.cancelled_caught
    assert watch.closed_by == "cancelled"
    assert numbers([seen async for seen in watch]) == [1]


async def test_a_change_and_then_a_cancellation_is_a_change_wa_3(shape: Shape) -> None:
    """Handed over first: the consumer has it, and the cancellation strikes later."""
    b = backend(shape, Clock())
    watch = b.watch()
    await snapshot_of(watch)
    seen: list[Observation] = []
    scope = anyio.CancelScope()

    async def consume() -> None:
        with scope:
            seen.append(await anext(watch))
            await anext(watch)

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        for _ in range(4):
            await checkpoint()
        at_once(b.start(job(1), 1))
        scope.cancel()
    assert numbers(seen) == [1]
    assert watch.closed_by == "cancelled"


# Collected


async def first_of(iterator: AsyncIterator[Observation]) -> Observation:
    async for seen in iterator:
        return seen
    raise AssertionError("it gave nothing")


@pytest.mark.parametrize("how", ["break", "unbegun", "buffered", "overflow", "cycle", "closed in a cycle"])
async def test_a_forgotten_watch_is_gone_without_a_warning_2_6(shape: Shape, how: str) -> None:
    b = backend(shape, Clock(), watch_buffer=2)
    await started(b, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watch = b.watch()
        if how != "unbegun":
            await first_of(watch)
            assert subscriptions(b) == 1
        if how == "buffered":
            await started(b, 2)
        if how == "overflow":
            await started(b, 2, 3, 4)
        if how.endswith("cycle"):
            cycle: list[object] = [watch]
            cycle.append(cycle)
            del cycle
        if how == "closed in a cycle":
            await b.aclose()
        del watch
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert subscriptions(b) == 0
    if not b.closed:
        await started(b, 9)


async def test_leaving_a_bare_loop_by_break_leaks_nothing_2_6(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async for _ in b.watch():
            break
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert subscriptions(b) == 0


async def test_a_backend_forgotten_with_its_watches_warns_of_nothing_2_6(shape: Shape) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for backend_first in (True, False):
            b = backend(shape, Clock())
            watch = b.watch()
            await snapshot_of(watch)
            kept: list[object] = [b, watch] if backend_first else [watch, b]
            kept.append(kept)
            del b, watch, kept
            gc.collect()
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.parametrize("collections", [0, 1, 2])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_watch_caught_in_a_kept_error_warns_of_nothing_2_6(shape: Shape, loop: str, collections: int) -> None:
    """As a failed test's error is kept, with the frames in which it waited: whatever order they are collected in."""

    async def main() -> None:
        watch = backend(shape, Clock()).watch()
        with anyio.fail_after(1):
            await anext(watch)

    kept: list[object] = []
    try:
        run_virtually(loop, main)
    except TimeoutError as error:
        kept = [error]
    kept.append(kept)
    for _ in range(collections):
        gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del kept
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


async def test_a_held_watch_keeps_its_subscription_2_6(shape: Shape) -> None:
    """Only the watch holds it: the view it came from may be forgotten."""
    b = backend(shape, Clock())
    watch = b.view().watch()
    await snapshot_of(watch)
    gc.collect()
    await started(b, 1)
    assert numbers(await taken(watch)) == [1]


# Several at once


async def test_two_consumers_of_one_watch_share_its_items_2_6(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2, 3)
    watch = b.watch()
    seen: list[Observation] = []
    shares: list[int] = []

    async def consume() -> None:
        share = 0
        async for change in watch:
            seen.append(change)
            share += 1
            await checkpoint()
        shares.append(share)

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(consume)
        for number in range(4, 10):
            await started(b, number)
            for _ in range(4):
                await checkpoint()
        await watch.aclose()
    assert sorted(numbers(seen)) == list(range(1, 10))
    assert sum(shares) == 9
    assert min(shares) > 0


async def test_two_that_begin_one_watch_at_once_subscribe_once_wa_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2)
    watch = b.watch()
    seen: list[Observation] = []

    async def take(enter: bool) -> None:
        if enter:
            await watch.__aenter__()
        seen.append(await anext(watch))

    async with anyio.create_task_group() as group:
        group.start_soon(take, True)
        group.start_soon(take, False)
    assert subscriptions(b) == 1
    assert sorted(numbers(seen)) == [1, 2]
    assert await rest_of(watch) == []


async def test_a_watch_of_a_closed_client_is_refused_1_2(shape: Shape) -> None:
    b = backend(shape, Clock())
    view = b.view()
    await view.aclose()
    with pytest.raises(ClosedError):
        view.watch()
    b.watch()
    await b.aclose()
    with pytest.raises(ClosedError):
        b.watch()


async def test_a_snapshot_that_meets_the_closing_at_its_checkpoint_is_not_taken_wa_3(shape: Shape) -> None:
    scene = Scene(shape)
    await started(scene.b, 1)
    entering, iterating = scene.b.watch(), scene.b.watch()
    reads = scene.clock.reads
    with pytest.raises(ClosedError):
        await Stepped(entering.__aenter__(), lambda: at_once(scene.b.aclose()))
    with pytest.raises(StopAsyncIteration):
        await iterating.__anext__()
    assert (entering.closed_by, iterating.closed_by) == ("closed", "closed")
    assert scene.clock.reads == reads


async def test_a_change_made_while_the_subscriber_is_told_another_is_told_after_it_wa_2(shape: Shape) -> None:
    """A consumer that writes on hearing of a change."""
    b = backend(shape, Clock())
    told: list[list[int]] = []

    async def echo() -> None:
        async for change in b.watch():
            number = numbers([change])[0]
            if number < 5:
                await started(b, number + 1)
            else:
                await b.aclose()

    other = b.watch()
    await snapshot_of(other)
    async with anyio.create_task_group() as group:
        group.start_soon(echo)
        await started(b, 1)
    told.append(numbers([seen async for seen in other]))
    assert told == [[1, 2, 3, 4, 5]]


async def test_observed_at_of_a_change_is_the_moment_of_its_call_2_6(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    watch = b.watch()
    await snapshot_of(watch)
    for number in range(1, 4):
        clock.advance(SECOND)
        await started(b, number)
    clock.advance(MINUTE)
    assert [seen.observed_at for seen in await rest_of(watch)] == [T0 + number * SECOND for number in (1, 2, 3)]
