"""Clocks of others drive the backend: time-machine, a virtual-time asyncio loop, trio's MockClock.

Each story is told under each of them. Nothing happens by itself as time passes: there are no timers, only the
next call finds what has come due.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import anyio
import pytest
import time_machine

from dispatch_memory_async import (
    Backend,
    Cause,
    Config,
    NotFoundError,
    Observation,
    Ref,
    Shape,
    State,
    resubscribing,
    until,
)
from tests.memory.test_calls import rest_of, snapshot_of
from tests.support import SECOND, T0, job, loop_clock, run_virtually

Sleep = Callable[[float], Awaitable[None]]
Story = Callable[[Backend, Sleep], Awaitable[None]]

FIVE_MINUTES = timedelta(minutes=5)


async def running(b: Backend) -> Ref:
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    return ref


async def purge(b: Backend, sleep: Sleep) -> None:
    """SL-12."""
    ref = await running(b)
    await sleep(60)
    await b.env.finish(ref)
    ended_at = b.now()
    watch = b.watch()
    (seen,) = await snapshot_of(watch)
    assert (seen.state, seen.ended_at) == (State.SUCCEEDED, ended_at)
    await sleep(299)
    assert (await b.get(ref)).state is State.SUCCEEDED
    await sleep(1)
    with pytest.raises(NotFoundError):
        await b.get(ref)
    (told,) = await rest_of(watch)
    assert (told.state, told.observed_at) == (State.GONE, ended_at + FIVE_MINUTES)
    assert (await b.env.truth(ref)).gone_at == ended_at + FIVE_MINUTES


async def node_loss(b: Backend, sleep: Sleep) -> None:
    """SL-11, found late: the end is dated when it was due."""
    ref = await running(b)
    await sleep(60)
    await b.env.lose_node(ref)
    lost_at = b.now()
    await sleep(299)
    assert (await b.get(ref)).state is State.RUNNING
    await sleep(201)
    seen = await b.get(ref)
    assert (seen.state, seen.cause, seen.ended_at) == (State.FAILED, Cause.NODE_LOST, lost_at + FIVE_MINUTES)
    assert seen.observed_at == lost_at + timedelta(seconds=500)
    assert (await b.env.truth(ref)).executions[0].alive


async def evidence(b: Backend, sleep: Sleep) -> None:
    """KF-6."""
    ref = await running(b)
    await b.env.finish(ref, 3)
    failed_at = b.now()
    await sleep(299)
    assert ((await b.get(ref)).cause, (await b.get(ref)).exit_code) == (Cause.NON_ZERO_EXIT, 3)
    await sleep(1)
    seen = await b.get(ref)
    assert (seen.state, seen.cause, seen.exit_code) == (State.FAILED, Cause.UNKNOWN, None)
    assert (seen.ended_at, seen.observed_at) == (failed_at, failed_at + FIVE_MINUTES)
    truth = await b.env.truth(ref)
    assert (truth.cause, truth.executions[0].exit_code) == (Cause.NON_ZERO_EXIT, 3)


def under_time_machine(loop: str) -> Callable[[Shape, Story], None]:
    def run(shape: Shape, story: Story) -> None:
        with time_machine.travel(T0, tick=False) as traveller:

            async def sleep(seconds: float) -> None:
                traveller.shift(seconds)

            async def main() -> None:
                async with Backend(Config(shape=shape)) as b:
                    await story(b, sleep)

            anyio.run(main, backend=loop)

    return run


def virtual(loop: str) -> Callable[[Shape, Story], None]:
    def run(shape: Shape, story: Story) -> None:
        async def main() -> None:
            async with Backend(Config(shape=shape), clock=loop_clock) as b:
                await story(b, anyio.sleep)

        run_virtually(loop, main)

    return run


DRIVERS = [
    pytest.param(under_time_machine("asyncio"), id="time-machine, asyncio"),
    pytest.param(under_time_machine("trio"), id="time-machine, trio"),
    pytest.param(virtual("asyncio"), id="looptime"),
    pytest.param(virtual("trio"), id="MockClock"),
]


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize(
    ("shape", "story"), [(Shape.SLURM, purge), (Shape.SLURM, node_loss), (Shape.KUBEFLOW, evidence)]
)
def test_a_foreign_clock_drives_what_comes_due_2(
    drive: Callable[[Shape, Story], None], shape: Shape, story: Story
) -> None:
    drive(shape, story)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_time_machine_may_be_moved_to_any_time_and_back_tm_3(loop: str) -> None:
    """`move_to`, forward and back: the backend's time stands still until the clock has caught up."""

    async def main() -> None:
        b = Backend()
        ref = await running(b)
        await b.env.lose_node(ref)
        traveller.move_to(T0 + FIVE_MINUTES)
        assert (await b.get(ref)).ended_at == T0 + FIVE_MINUTES
        traveller.move_to(T0)
        assert b.now() == T0 + FIVE_MINUTES
        traveller.move_to(T0 + FIVE_MINUTES + SECOND)
        assert b.now() == T0 + FIVE_MINUTES + SECOND

    with time_machine.travel(T0, tick=False) as traveller:
        anyio.run(main, backend=loop)


def test_a_backend_made_before_the_travel_goes_along_2() -> None:
    """The wall clock is read at every call, not bound when the backend is made."""
    with time_machine.travel(T0, tick=False):
        b = Backend()
    with time_machine.travel(T0 + timedelta(days=400), tick=False):
        assert b.now() == T0 + timedelta(days=400)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_time_alone_tells_a_waiting_watcher_nothing_2(loop: str) -> None:
    """A day of virtual time: the watcher waits on until a call comes along, which finds the loss of long ago."""
    told: list[Observation] = []

    async def main() -> None:
        b = Backend(clock=loop_clock)
        ref = await running(b)
        await b.env.lose_node(ref)
        watch = b.watch()
        await snapshot_of(watch)

        async def follow() -> None:
            told.extend([seen async for seen in watch])

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await anyio.sleep(86_400)
            assert told == []
            await b.capabilities()
            await b.aclose()

    run_virtually(loop, main)
    day = timedelta(days=1)
    assert [(seen.state, seen.ended_at, seen.observed_at) for seen in told] == [
        (State.FAILED, T0 + FIVE_MINUTES, T0 + day),
        (State.GONE, T0 + FIVE_MINUTES, T0 + day),
    ]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_supervisor_runs_for_nine_virtual_hours_2(loop: str) -> None:
    """A service that starts, looks every minute and requeues; the scheduler's side preempts it every hour."""
    seen: list[tuple[State, Cause | None]] = []

    async def scheduler(b: Backend) -> None:
        while True:
            await anyio.sleep(3600)
            for truth in await b.env.objects():
                await b.env.run(truth.ref)
            await anyio.sleep(1800)
            for truth in await b.env.objects():
                await b.env.requeue_externally(truth.ref)

    async def main() -> None:
        async with Backend(clock=loop_clock) as b, anyio.create_task_group() as group:
            await b.open(await b.start(job(1), 1))
            group.start_soon(scheduler, b)

            async def follow() -> None:
                async for change in resubscribing(b):
                    seen.append((change.state, change.cause))  # noqa: PERF401  # a comprehension loses all when cancelled

            group.start_soon(follow)
            with anyio.move_on_after(6 * 5400 + 1):
                while True:
                    await anyio.sleep(60)
                    await b.find(job(1).id)
            group.cancel_scope.cancel()

    run_virtually(loop, main)
    assert seen[0] == (State.PENDING, None)
    assert seen[1:] == [(State.RUNNING, None), (State.PENDING, Cause.REQUEUED)] * 6


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_deadline_under_virtual_time_is_the_backends_2_5(loop: str) -> None:
    async def main() -> None:
        b = Backend(clock=loop_clock)
        ref = await b.start(job(1), 1, deadline=b.now())
        deadline = b.now() + timedelta(seconds=30)
        await anyio.sleep(30)
        await b.open(ref, deadline=deadline)
        await anyio.sleep(0.001)
        with pytest.raises(TimeoutError):
            await b.stop(ref, deadline=deadline)

    run_virtually(loop, main)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_until_times_out_under_virtual_time_wa_5(loop: str) -> None:
    async def main() -> None:
        b = Backend(clock=loop_clock)
        ref = await b.start(job(1), 1)
        began = anyio.current_time()
        with pytest.raises(TimeoutError):
            await until(b, ref, lambda seen: seen.state.ended, timeout=timedelta(hours=1))
        assert anyio.current_time() - began == pytest.approx(3600)

    run_virtually(loop, main)
