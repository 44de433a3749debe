"""4.1: the observer tells what is known of a job, writes nothing and does nothing."""

from datetime import timedelta
from itertools import pairwise

import anyio
import pytest

from dispatch_memory_async import Backend, Cause, Config, NotFoundError, Shape, State, UnavailableError
from dispatch_memory_async.core import MemoryRecords, Observer, Operator, Phase, Status, Supervisor, WaitingFor
from tests.support import SECOND, Clock, job, loop_clock, run_virtually, ulid

pytestmark = pytest.mark.anyio


class World:
    def __init__(self, shape: Shape, clock: Clock) -> None:
        self.backend = Backend(Config(shape=shape), clock=clock)
        self.records = MemoryRecords()
        self.supervisor = Supervisor(self.backend, self.records, clock=clock)
        self.operator = Operator(self.records, self.supervisor, clock=clock)
        self.observer = Observer(self.backend, self.records, clock=clock)

    async def opened(self) -> None:
        await self.operator.submit(job())
        for _ in range(3):
            await self.supervisor.step(ulid(1))


async def test_it_tells_what_a_look_shows_and_the_record_does_not_have_yet(shape: Shape, clock: Clock) -> None:
    world = World(shape, clock)
    await world.opened()
    (seen,) = await world.backend.find(ulid(1))
    await world.backend.env.run(seen.ref)
    before, calls = await world.records.get(ulid(1)), len(await world.backend.env.calls())
    status = await world.observer.get(ulid(1))
    assert (status.state, status.submission, status.ceased) == (Phase.RUNNING, 1, False)
    assert status.chosen is not None
    assert status.chosen.state is State.RUNNING
    assert await world.records.get(ulid(1)) == before
    made = [record.call for record in (await world.backend.env.calls())[calls:]]
    assert made == ["capabilities", "find", "cessation"]


async def test_what_vanished_is_said_to_have(shape: Shape, clock: Clock) -> None:
    """CO-9: it is no success, and the status says that its evidence vanished."""
    world = World(shape, clock)
    await world.opened()
    (seen,) = await world.backend.find(ulid(1))
    await world.backend.env.run(seen.ref)
    await world.supervisor.step(ulid(1))
    await world.backend.stop(seen.ref)
    clock.advance(timedelta(days=1))
    status = await world.observer.get(ulid(1))
    assert (status.state, status.cause, status.evidence_vanished) == (Phase.VANISHED, Cause.UNKNOWN, True)
    assert status.verdict is None


async def test_a_scheduler_that_does_not_answer_shows(shape: Shape, clock: Clock) -> None:
    world = World(shape, clock)
    await world.opened()
    await world.backend.env.fail_calls("find", UnavailableError("no"))
    status = await world.observer.get(ulid(1))
    assert (status.complete, status.waiting_for, status.submission) == (False, WaitingFor.LOOK, 1)


async def test_jobs_are_listed_and_an_unknown_one_is_none(shape: Shape, clock: Clock) -> None:
    world = World(shape, clock)
    for number in (2, 1):
        await world.operator.submit(job(number))
    assert await world.observer.list() == (ulid(2), ulid(1))
    with pytest.raises(NotFoundError):
        await world.observer.get(ulid(3))


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_watch_tells_each_change_to_the_verdict(shape: Shape, loop: str) -> None:
    """One poll sees what no record tells of; nothing is told twice, and the verdict is the last."""
    told: list[Status] = []

    async def main() -> None:
        backend, records = Backend(Config(shape=shape), clock=loop_clock), MemoryRecords()
        supervisor = Supervisor(backend, records, clock=loop_clock)
        operator = Operator(records, supervisor, clock=loop_clock)
        await operator.submit(job())

        async def follow() -> None:
            watch = Observer(backend, records, clock=loop_clock, poll=SECOND).watch(ulid(1))
            told.extend([status async for status in watch])

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            for _ in range(2):
                await anyio.sleep(10)
                await supervisor.step(ulid(1))
            (seen,) = await backend.find(ulid(1))
            await backend.env.run(seen.ref)  # nobody writes that down
            await anyio.sleep(10)
            await backend.env.finish(seen.ref)
            await anyio.sleep(10)
            await supervisor.step(ulid(1))

    run_virtually(loop, main)
    phases = [status.state for status in told]
    assert phases[-1] is Phase.DONE
    assert phases.index(Phase.PENDING) < phases.index(Phase.RUNNING) < phases.index(Phase.ENDED)
    lines = [str(status) for status in told]
    assert all(line != after for line, after in pairwise(lines)), lines
