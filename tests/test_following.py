"""Following a scheduler through any adapter: `resubscribing` (WA-4, ruling 30) and `until` (WA-5)."""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from ulid import ULID

from dispatch_memory_async import (
    Adapter,
    Backend,
    CallMeta,
    Capabilities,
    Cause,
    ClosedError,
    IdentityWeakener,
    InvalidError,
    Job,
    NativePolicy,
    NotFoundError,
    Observation,
    Ref,
    Shape,
    State,
    Support,
    Tristate,
    UnavailableError,
    Watcher,
    resubscribing,
    until,
)
from dispatch_memory_async.following import Resubscribing
from tests.memory.test_calls import ABSENT, Stepped, at_once, taken
from tests.support import FAR, MINUTE, SECOND, T0, Clock, backend, job, loop_clock, run_virtually, ulid


async def started(b: Backend, *numbers: int) -> list[Ref]:
    return [await b.start(job(number), 1) for number in numbers]


async def running(b: Backend, number: int = 1) -> Ref:
    ref = await b.start(job(number), 1)
    await b.open(ref)
    await b.env.run(ref)
    return ref


def subscriptions(b: Backend) -> int:
    return len(attrgetter("_cluster.hub._open")(b))


def shown(seen: Sequence[Observation]) -> list[tuple[int, State]]:
    """Which job, and in which state."""
    known = {ulid(number): number for number in range(100)}
    return [(known[one.job_id], one.state) for one in seen]


PENDING, RUNNING, GONE, CANCELLED = State.PENDING, State.RUNNING, State.GONE, State.CANCELLED


# resubscribing


async def test_a_round_is_the_snapshot_and_then_the_changes_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2)
    async with resubscribing(b) as changes:
        await started(b, 3)
        seen = await taken(changes, 3)
    assert shown(seen) == [(1, PENDING), (2, PENDING), (3, PENDING)]
    assert subscriptions(b) == 0


async def test_after_an_overflow_a_round_begins_with_what_has_gone_ruling_30() -> None:
    """1 was in the snapshot, 3 became known by a change; 2 and 4 live on, 5 is new. One and three go unseen."""
    clock = Clock()
    b = backend(Shape.KUBEFLOW, clock, watch_buffer=2)
    refs = await started(b, 1, 2)
    changes = resubscribing(b)
    seen = await taken(changes, 2)
    refs += await started(b, 3, 4)
    seen += await taken(changes, 2)
    now = clock.advance(SECOND)
    await b.env.run(refs[1])
    await b.env.run(refs[3])
    await b.env.preempt(refs[3])  # this one does not fit
    await b.stop(refs[0])
    await b.stop(refs[2])
    await started(b, 5)
    later = clock.advance(SECOND)
    seen = await taken(changes, 7)
    assert shown(seen) == [
        (2, RUNNING),
        (4, RUNNING),  # what was buffered before the overflow
        (1, GONE),
        (3, GONE),
        (2, RUNNING),
        (4, PENDING),
        (5, PENDING),
    ]
    assert [one.observed_at for one in seen] == [now, now, later, later, later, later, later]
    await started(b, 6)
    assert shown(await taken(changes)) == [(6, PENDING)]
    await changes.aclose()


async def test_what_was_seen_to_go_is_not_told_again_wa_4() -> None:
    b = backend(Shape.KUBEFLOW, Clock(), watch_buffer=1)
    refs = await started(b, 1)
    changes = resubscribing(b)
    await taken(changes)
    await b.stop(refs[0])
    await started(b, 2)  # overflow
    seen = await taken(changes, 2)
    assert shown(seen) == [(1, GONE), (2, PENDING)]


async def test_what_came_and_went_unseen_is_not_told_wa_4() -> None:
    b = backend(Shape.KUBEFLOW, Clock(), watch_buffer=1)
    changes = resubscribing(b)
    async with changes:
        refs = await started(b, 1, 2, 3)
        assert shown(await taken(changes)) == [(1, PENDING)]
        await b.stop(refs[1])
        assert shown(await taken(changes, 2)) == [(1, PENDING), (3, PENDING)]


class Picture:
    """What a subscriber believes there is, from what it was told."""

    def __init__(self) -> None:
        self.live: dict[str, Observation] = {}

    def add(self, one: Observation) -> None:
        if one.state is GONE:
            del self.live[one.ref.id]  # nothing goes that was not there
        else:
            self.live[one.ref.id] = one

    async def is_true_of(self, b: Backend, changes: Resubscribing) -> bool:
        """Whether it is, once all that is under way has been told: a last object is waited for."""
        (last,) = await started(b, 99)
        while last.id not in self.live:
            self.add(*await taken(changes))
        found = await b.find_many({truth.job.id for truth in await b.env.objects()})
        truth = [one for of_job in found.values() for one in of_job]
        return sorted(map(plain, truth)) == sorted(map(plain, self.live.values()))


def plain(one: Observation) -> tuple[str, str, str]:
    return one.ref.id, one.state, one.cause or ""


async def test_a_subscriber_that_keeps_falling_behind_ends_with_the_truth_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=1)
    changes, picture = resubscribing(b), Picture()
    refs = deque(await started(b, 50, 51))
    for number in range(1, 41):
        refs.append(at_once(b.start(job(number), 1)))
        at_once(b.env.admin_hold(refs[1]))
        at_once(b.stop(refs.popleft()))
        picture.add(*await taken(changes))
    assert await picture.is_true_of(b, changes)
    await changes.aclose()


async def test_a_requeue_unseen_is_no_going_wa_4() -> None:
    """Slurm gives it another submit time; it is the same object."""
    clock = Clock()
    b = backend(Shape.SLURM, clock, watch_buffer=1)
    ref = await running(b)
    changes = resubscribing(b)
    await taken(changes)
    clock.advance(MINUTE)
    await b.requeue(ref, CallMeta(FAR))
    await started(b, 2)  # overflow
    seen = await taken(changes, 3)
    assert shown(seen) == [(1, PENDING), (1, PENDING), (2, PENDING)]
    assert seen[1].ref.submitted_at == T0 + MINUTE


async def test_an_id_that_came_back_unseen_is_another_object_wa_4() -> None:
    """The same job, submission and id, forgotten and started again between two rounds: not a requeue (restarts 0)."""
    clock = Clock()
    b = backend(Shape.SLURM, clock, watch_buffer=1, max_job_id=1)
    (ref,) = await started(b, 1)
    changes = resubscribing(b)
    await taken(changes)
    await b.stop(ref)
    clock.advance(timedelta(minutes=5))
    await started(b, 1)  # its predecessor is forgotten in this call: overflow
    seen = await taken(changes, 3)
    assert shown(seen) == [(1, CANCELLED), (1, GONE), (1, PENDING)]


async def test_a_cancellation_in_between_begins_another_round_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1)
    changes = resubscribing(b)
    await taken(changes)
    with anyio.CancelScope() as scope:
        await Stepped(changes.__anext__(), scope.cancel)
    assert scope.cancelled_caught
    await started(b, 2)
    assert shown(await taken(changes, 2)) == [(1, PENDING), (2, PENDING)]


@pytest.mark.parametrize("stop", range(1, 13))
async def test_a_cancellation_at_any_stop_loses_nothing_wa_4(shape: Shape, stop: int) -> None:
    """Something changes whenever it waits, and at one of these stops it is cancelled: it can go on from there."""
    b = backend(shape, Clock())
    refs = await started(b, 1, 2, 3)
    changes, picture = resubscribing(b), Picture()
    stops = 0

    def change() -> None:
        nonlocal stops
        stops += 1
        if stops > stop:
            return
        at_once(b.env.admin_hold(refs[1]) if stops % 2 else b.env.admin_release(refs[1]))
        if stops == stop:
            scope.cancel()

    with anyio.CancelScope() as scope:
        while True:
            picture.add(await Stepped(changes.__anext__(), change))
    assert stops >= stop
    assert await picture.is_true_of(b, changes)
    await changes.aclose()


@pytest.mark.parametrize("stops", range(1, 12))
async def test_closed_at_any_stop_it_ends_wa_4(shape: Shape, stops: int) -> None:
    """Closed while it waits somewhere, in a round or between: what was received is given, then it ends."""
    b = backend(shape, Clock())
    await started(b, 1, 2)
    changes = resubscribing(b)
    left = stops

    def close() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            at_once(changes.aclose())

    seen: list[Observation] = []
    with anyio.fail_after(5):
        for number in range(3, 10):
            try:
                seen.append(await Stepped(changes.__anext__(), close))
            except StopAsyncIteration:
                break
            await started(b, number)
        else:
            await changes.aclose()
            seen += [one async for one in changes]
    assert [number for number, _ in shown(seen)] == list(range(1, len(seen) + 1))
    with pytest.raises(StopAsyncIteration):
        await anext(changes)
    assert subscriptions(b) == 0


async def test_closing_it_lets_a_waiting_consumer_go_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock())
    for waits in range(1, 12):
        changes = resubscribing(b)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(exhaust, changes)
                for _ in range(waits):
                    await checkpoint()
                await changes.aclose()
    assert subscriptions(b) == 0


async def exhaust(changes: Any) -> None:
    async for _ in changes:
        pass


async def test_it_ends_when_the_adapter_is_closed_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock())
    view = b.view()
    changes, unbegun = resubscribing(view), resubscribing(view)
    await started(b, 1)
    await taken(changes)
    await started(b, 2)
    await view.aclose()
    assert shown([seen async for seen in changes]) == [(2, PENDING)]
    assert [seen async for seen in unbegun] == []
    with pytest.raises(ClosedError):
        await resubscribing(view).__aenter__()


async def test_closing_it_twice_changes_nothing_and_leaves_the_adapter_open_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock())
    changes = resubscribing(b)
    for _ in range(2):
        await changes.aclose()
    assert [seen async for seen in changes] == []
    with pytest.raises(ClosedError):
        await changes.__aenter__()
    await started(b, 1)


async def test_left_by_break_it_leaves_no_subscription_2_6(shape: Shape) -> None:
    b = backend(shape, Clock())
    await started(b, 1, 2)
    async for _ in resubscribing(b):
        break
    assert subscriptions(b) == 0


async def test_two_consumers_share_its_items_wa_4(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=2)
    await started(b, 1)
    changes = resubscribing(b)
    seen: list[Observation] = []

    async def consume() -> None:
        async for change in changes:
            seen.append(change)
            await checkpoint()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            group.start_soon(consume)
            for number in range(2, 6):
                await started(b, number)
                for _ in range(12):
                    await checkpoint()
            for number in range(6, 12):
                at_once(b.start(job(number), 1))  # overflow
            for _ in range(120):
                await checkpoint()
            await changes.aclose()
    numbers = [number for number, _ in shown(seen)]
    assert sorted(numbers[:5]) == [1, 2, 3, 4, 5]
    assert set(numbers) == set(range(1, 12))


async def test_only_what_can_be_watched_is_followed_wa_4() -> None:
    for found in (None, "backend", Polled([])):
        with pytest.raises(InvalidError):
            resubscribing(found)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Adapters of others


class Other:
    """What an adapter must have, and no more; each look gives the next of some observations."""

    def __init__(self, looks: Sequence[Observation | Exception]) -> None:
        self.looks = deque(looks)
        self.asked: list[tuple[Ref, float]] = []

    async def get(self, ref: Ref) -> Observation:
        await checkpoint()
        self.asked.append((ref, anyio.current_time()))
        look = self.looks[0] if len(self.looks) == 1 else self.looks.popleft()
        if isinstance(look, Exception):
            raise look
        return look

    async def capabilities(self) -> Capabilities:
        raise NotImplementedError

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        raise NotImplementedError

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        raise NotImplementedError

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        raise NotImplementedError

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        await checkpoint()


class Polled(Other):
    """An adapter without a watch."""


Reason = Literal["overflow", "cancelled", "closed"]


class Scripted:
    """A watch that gives a snapshot and some changes, and ends for a reason."""

    def __init__(self, snapshot: Sequence[Observation], changes: Sequence[Observation], reason: Reason) -> None:
        self._left = len(snapshot)
        self._items = deque([*snapshot, *changes])
        self._reason: Reason = reason
        self._entered = False
        self.closed_by: Reason | None = None

    @property
    def synced(self) -> bool:
        return self._entered and self._left <= 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Observation:
        await checkpoint()
        self._entered = True
        if not self._items:
            self.closed_by = self.closed_by or self._reason
            raise StopAsyncIteration
        self._left -= 1
        return self._items.popleft()

    async def __aenter__(self) -> Self:
        await checkpoint()
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.closed_by = self.closed_by or "closed"
        await checkpoint()


class Watched(Other):
    """An adapter with a watch; its refs cannot be weakened."""

    def __init__(self, looks: Sequence[Observation | Exception], watches: Sequence[Scripted]) -> None:
        super().__init__(looks)
        self.watches = deque(watches)

    def watch(self) -> Scripted:
        return self.watches.popleft()


def seen(number: int, state: State, at: timedelta = timedelta(0)) -> Observation:
    return Observation(
        ref=Ref(name=f"job-{number}", id=str(number), submitted_at=T0),
        job_id=ulid(number),
        submission=1,
        state=state,
        observed_at=T0 + at,
    )


def test_the_adapters_here_are_what_they_are_meant_to_be() -> None:
    polled, watched = Polled([]), Watched([], [])
    assert isinstance(polled, Adapter)
    assert not isinstance(polled, Watcher | IdentityWeakener)
    assert isinstance(watched, Watcher)
    assert not isinstance(watched, IdentityWeakener)


async def test_another_adapters_watch_is_followed_the_same_way_wa_4() -> None:
    adapter = Watched(
        [],
        [
            Scripted([seen(1, PENDING), seen(2, PENDING)], [seen(2, RUNNING), seen(3, PENDING)], "overflow"),
            Scripted([seen(2, RUNNING, SECOND)], [seen(2, CANCELLED, MINUTE)], "cancelled"),
            Scripted([], [seen(4, PENDING)], "closed"),
        ],
    )
    told = [one async for one in resubscribing(adapter)]
    assert told == [
        seen(1, PENDING),
        seen(2, PENDING),
        seen(2, RUNNING),
        seen(3, PENDING),
        seen(1, GONE, SECOND),
        seen(3, GONE, SECOND),
        seen(2, RUNNING, SECOND),
        seen(2, CANCELLED, MINUTE),
        msgspec.structs.replace(seen(2, GONE), observed_at=told[8].observed_at),
        seen(4, PENDING),
    ]


# until


async def test_what_is_so_already_is_answered_at_once_wa_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    ref = await running(b)
    assert await until(b, ref, lambda one: one.state is RUNNING) == await b.get(ref)
    assert subscriptions(b) == 0


async def test_it_waits_for_the_first_observation_that_holds_wa_5(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    ref, _ = await started(b, 1, 2)
    asked: list[Observation] = []
    answers: list[Observation] = []

    def ended(one: Observation) -> bool:
        asked.append(one)
        return one.state.ended

    async def wait() -> None:
        answers.append(await until(b, ref, ended))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        for _ in range(20):
            await checkpoint()
        await b.open(ref)
        await b.env.run(ref)
        clock.advance(SECOND)
        await b.env.finish(ref)
        await b.stop(ref)
    (answer,) = answers
    assert (answer.state, answer.observed_at) == (State.SUCCEEDED, T0 + SECOND)
    assert {one.job_id for one in asked} == {ulid(1)}
    assert subscriptions(b) == 0


async def test_a_requeue_does_not_lose_it_wa_5() -> None:
    """The exact ref is lost twice over, before the wait and in it."""
    clock = Clock()
    b = backend(Shape.SLURM, clock)
    ref = await running(b)
    clock.advance(MINUTE)
    await b.requeue(ref, CallMeta(FAR))
    with pytest.raises(NotFoundError):
        await b.get(ref)
    answers: list[Observation] = []

    async def wait() -> None:
        answers.append(await until(b, ref, lambda one: one.restarts == 2))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        for _ in range(20):
            await checkpoint()
        weak = await b.weaken_identity(ref)
        await b.env.run(weak)
        clock.advance(MINUTE)
        await b.env.requeue_externally(weak)
    assert answers[0].ref.submitted_at == T0 + 2 * MINUTE


async def test_an_overflow_does_not_lose_it_wa_5(shape: Shape) -> None:
    b = backend(shape, Clock(), watch_buffer=1)
    (ref,) = await started(b, 1)
    answers: list[Observation] = []

    async def wait() -> None:
        answers.append(await until(b, ref, lambda one: one.cause is Cause.ADMIN_HELD))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        for _ in range(20):
            await checkpoint()
        for number in range(2, 8):
            at_once(b.start(job(number), 1))
        at_once(b.env.admin_hold(ref))
    assert answers[0].ref == ref


@pytest.mark.parametrize("unseen", [False, True])
async def test_what_goes_while_awaited_is_not_found_wa_5(shape: Shape, unseen: bool) -> None:
    """Also where the going itself fell into an overflow."""
    clock = Clock()
    b = backend(shape, clock, watch_buffer=1)
    (ref,) = await started(b, 1)
    refused: list[NotFoundError] = []

    async def wait() -> None:
        with pytest.raises(NotFoundError) as raised:
            await until(b, ref, lambda one: one.state is RUNNING)
        refused.append(raised.value)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            for _ in range(20):
                await checkpoint()
            if unseen:
                for number in range(2, 8):
                    at_once(b.start(job(number), 1))
            at_once(b.stop(ref))
            clock.advance(timedelta(minutes=5))
            at_once(b.capabilities())
    assert len(refused) == 1
    assert subscriptions(b) == 0


async def test_one_can_wait_for_the_going_wa_5(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    (ref,) = await started(b, 1)
    answers: list[Observation] = []

    async def wait() -> None:
        answers.append(await until(b, ref, lambda one: one.state is GONE))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        for _ in range(20):
            await checkpoint()
        await b.stop(ref)
        clock.advance(timedelta(minutes=5))
        await b.capabilities()
    assert (answers[0].state, answers[0].cause) == (GONE, Cause.STOPPED)


async def test_what_is_not_there_is_not_found_wa_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    with pytest.raises(NotFoundError):
        await until(b, ABSENT, lambda _: True)
    assert subscriptions(b) == 0


async def test_what_is_known_from_history_alone_is_not_waited_for_wa_5() -> None:
    clock = Clock()
    b = backend(Shape.SLURM, clock, capabilities={"AccountingHistory": Support(value=Tristate.YES)})
    (ref,) = await started(b, 1)
    await b.stop(ref)
    clock.advance(timedelta(minutes=5))
    assert (await until(b, ref, lambda one: one.state.ended)).from_history
    with pytest.raises(NotFoundError), anyio.fail_after(5):
        await until(b, ref, lambda one: one.state is RUNNING)


async def test_it_ends_with_the_adapter_wa_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    (ref,) = await started(b, 1)
    for waits in range(1, 25):
        view = b.view()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:

                async def wait(view: Any = view) -> None:
                    with pytest.raises(ClosedError):
                        await until(view, ref, lambda one: one.state is RUNNING)

                group.start_soon(wait)
                for _ in range(waits):
                    await checkpoint()
                await view.aclose()
    await b.aclose()
    with pytest.raises(ClosedError):
        await until(b, ref, lambda _: True)


async def test_a_predicate_that_fails_and_a_cancellation_leave_nothing_behind_wa_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    (ref,) = await started(b, 1)

    def fail(_: Observation) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await until(b, ref, fail)
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            with scope:
                await until(b, ref, lambda _: False, timeout=timedelta(days=1))

        group.start_soon(wait)
        for _ in range(20):
            await checkpoint()
        assert subscriptions(b) == 1
        scope.cancel()
    assert scope.cancelled_caught  # a cancellation, no TimeoutError
    assert subscriptions(b) == 0


@pytest.mark.parametrize("patience", [5, 5.0, "5s"])
async def test_a_timeout_is_a_timedelta_wa_5(shape: Shape, patience: Any) -> None:
    b = backend(shape, Clock())
    (ref,) = await started(b, 1)
    with pytest.raises(InvalidError):
        await until(b, ref, lambda _: True, timeout=patience)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_when_time_runs_out_it_says_so_wa_5(loop: str, shape: Shape) -> None:
    """By the loop's clock, whatever else is told meanwhile."""

    async def main() -> None:
        b = backend(shape, Clock())
        (ref,) = await started(b, 1)

        async def chatter() -> None:
            for number in range(2, 1000):
                await anyio.sleep(1)
                await started(b, number)

        async with anyio.create_task_group() as group:
            group.start_soon(chatter)
            began = anyio.current_time()
            with pytest.raises(TimeoutError):
                await until(b, ref, lambda one: one.state is RUNNING, timeout=timedelta(seconds=90.5))
            assert anyio.current_time() - began == pytest.approx(90.5)
            assert subscriptions(b) == 0
            group.cancel_scope.cancel()

    run_virtually(loop, main)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_in_time_is_in_time_wa_5(loop: str) -> None:
    async def main() -> None:
        b = Backend(clock=loop_clock)
        (ref,) = await started(b, 1)

        async def act() -> None:
            await anyio.sleep(3599)
            await b.stop(ref)

        async with anyio.create_task_group() as group:
            group.start_soon(act)
            answer = await until(b, ref, lambda one: one.state.ended, timeout=timedelta(hours=1))
            assert answer.ended_at == T0 + timedelta(seconds=3599)

    run_virtually(loop, main)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_where_there_is_no_watch_it_looks_every_second_wa_5(loop: str) -> None:
    async def main() -> None:
        adapter = Polled([seen(1, PENDING), seen(1, PENDING), seen(1, RUNNING), seen(1, CANCELLED)])
        ref = seen(1, PENDING).ref
        began = anyio.current_time()
        assert await until(adapter, ref, lambda one: one.state is RUNNING) == seen(1, RUNNING)
        assert [asked for asked, _ in adapter.asked] == [ref] * 3
        assert [at - began for _, at in adapter.asked] == pytest.approx([0, 1, 2])

        adapter = Polled([seen(1, PENDING)])
        with pytest.raises(TimeoutError):
            await until(adapter, ref, lambda one: one.state is RUNNING, timeout=timedelta(seconds=9.5))
        assert len(adapter.asked) == 10

    run_virtually(loop, main)


async def test_what_a_look_refuses_comes_through_wa_5() -> None:
    errors: list[Exception] = [NotFoundError("gone"), ClosedError("closed"), UnavailableError("busy")]
    for error in errors:
        for adapter in (Polled([error]), Watched([error], [Scripted([], [], "closed")])):
            with pytest.raises(type(error)):
                await until(adapter, seen(1, PENDING).ref, lambda _: True)


async def test_a_watch_of_another_adapter_is_followed_by_name_and_id_wa_5() -> None:
    """Over an overflow, past other objects, to the first that holds."""
    predicate: Callable[[Observation], bool] = lambda one: one.state is CANCELLED  # noqa: E731
    adapter = Watched(
        [seen(1, PENDING)],
        [
            Scripted([seen(1, PENDING), seen(2, CANCELLED)], [seen(1, RUNNING)], "overflow"),
            Scripted([seen(1, RUNNING)], [seen(2, GONE), seen(1, CANCELLED), seen(1, GONE)], "closed"),
        ],
    )
    assert await until(adapter, seen(1, PENDING).ref, predicate) == seen(1, CANCELLED)
