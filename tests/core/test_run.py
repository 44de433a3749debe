"""4.1: `Supervisor.run` brings many jobs on: woken by the watch and the records, polling, bounded, backing off."""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Self

import anyio
import pytest
from ulid import ULID

from dispatch_memory_async import (
    Action,
    Backend,
    Capabilities,
    Cause,
    ClosedError,
    Config,
    InvalidError,
    Job,
    NativePolicy,
    Observation,
    Policy,
    Ref,
    Rule,
    Shape,
    State,
    Support,
    Tristate,
    UnavailableError,
    UnmatchedPolicy,
    UnsupportedError,
)
from dispatch_memory_async.core import (
    ConflictError,
    MemoryRecords,
    Observer,
    Operator,
    Record,
    Status,
    Supervisor,
    WaitingFor,
)
from dispatch_memory_async.memory.watch import MemoryWatch
from tests.support import MINUTE, SECOND, T0, job, loop_clock, run_virtually, ulid

HOUR = timedelta(hours=1)
AGAIN = Policy((Rule(causes=frozenset({Cause.NON_ZERO_EXIT}), action=Action.RESTART, limit=2, backoff=10 * MINUTE),))


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Plain:
    """An adapter without any optional interface."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.calls: Counter[str] = Counter()

    async def capabilities(self) -> Capabilities:
        return await self.backend.capabilities()

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        self.calls["start"] += 1
        return await self.backend.start(job, submission, native=native, deadline=deadline)

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self.backend.open(ref, deadline=deadline)

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self.backend.stop(ref, deadline=deadline)

    async def get(self, ref: Ref) -> Observation:
        return await self.backend.get(ref)

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        self.calls["find"] += 1
        return await self.backend.find(job_id)

    async def aclose(self) -> None:
        await self.backend.aclose()


def whole(backend: Backend) -> Backend:
    """The adapter with all that it has."""
    return backend


class World:
    """A backend, records, and a supervisor that runs."""

    def __init__(self, shape: Shape, make: Callable[[Backend], Any] = whole, **options: Any) -> None:
        self.backend = Backend(Config(shape=shape), clock=loop_clock)
        self.env = self.backend.env
        self.adapter: Any = make(self.backend)
        self.records = MemoryRecords()
        self.supervisor = Supervisor(self.adapter, self.records, clock=loop_clock, **options)
        self.operator = Operator(self.records, Supervisor(self.adapter, self.records, clock=loop_clock))
        self.observer = Observer(self.adapter, self.records, clock=loop_clock)

    async def status(self, number: int = 1) -> Status:
        return await self.observer.get(ulid(number))

    async def ref(self, number: int = 1) -> Ref:
        (seen,) = await self.backend.find(ulid(number))
        return seen.ref

    async def until(self, holds: Callable[[Status], bool], number: int = 1, every: float = 0.01) -> Status:
        """Wait, in virtual time, until the status is as it should be, looking every so many seconds."""
        with anyio.fail_after(HOUR.total_seconds() * 3):
            while not holds(status := await self.status(number)):  # noqa: ASYNC110  # nothing tells of it
                await anyio.sleep(every)
        return status


@asynccontextmanager
async def running(world: World) -> AsyncGenerator[World]:
    async with anyio.create_task_group() as group:
        group.start_soon(world.supervisor.run)
        yield world
        group.cancel_scope.cancel()


def virtually(loop: str, main: Callable[[], Awaitable[None]]) -> float:
    """Run it; the answer is how many seconds of virtual time it took."""
    took = 0.0

    async def timed() -> None:
        nonlocal took
        await main()
        took = anyio.current_time()

    run_virtually(loop, timed)
    return took


def waits(status: Status) -> bool:
    return status.waiting_for is WaitingFor.SCHEDULER


def done(status: Status) -> bool:
    return status.verdict is not None


async def finished(world: World, number: int = 1) -> None:
    """Let a job run, and succeed."""
    await world.until(waits, number)
    await world.env.run(await world.ref(number))
    await world.env.finish(await world.ref(number))


@pytest.mark.parametrize("make", [whole, Plain], ids=["whole", "plain"])
def test_a_job_is_run_to_its_verdict(loop: str, shape: Shape, make: Callable[[Backend], Any]) -> None:
    """CO-12, CO-13: with every optional interface, and with none."""

    async def main() -> None:
        async with running(World(shape, make)) as world:
            await world.operator.submit(job())
            await finished(world)
            status = await world.until(done)
            assert status.verdict is not None
            assert status.verdict.state is State.SUCCEEDED

    virtually(loop, main)


def test_the_watch_and_the_records_wake_it(loop: str, shape: Shape) -> None:
    """4.1: it does not wait for the next poll, which is a day away."""

    async def main() -> None:
        async with running(World(shape, poll=timedelta(days=1))) as world:
            await anyio.sleep(1)
            await world.operator.submit(job())
            await finished(world)
            await world.until(done)

    assert virtually(loop, main) < 2


def test_polling_is_enough(loop: str, shape: Shape) -> None:
    """4.1: correctness never rests on the watch; without one it is the next poll that sees a change."""

    async def main() -> None:
        async with running(World(shape, Plain, poll=MINUTE)) as world:
            await world.operator.submit(job())
            await finished(world)
            began = loop_clock()
            await world.until(done, every=0.5)
            assert loop_clock() - began <= MINUTE + SECOND

    virtually(loop, main)


def test_jobs_of_before_are_brought_on(loop: str, shape: Shape) -> None:
    """CO-1: what a supervisor has left is gone on with by the next one."""

    async def main() -> None:
        world = World(shape)
        await world.operator.submit(job())
        async with running(world):
            await finished(world)
            await world.until(done)

    virtually(loop, main)


def test_a_wait_is_over_in_time(loop: str, shape: Shape) -> None:
    """CO-8: a backoff of ten minutes, with a poll of an hour: it is restarted when it is over, not before."""

    async def main() -> None:
        async with running(World(shape, poll=HOUR)) as world:
            await world.operator.submit(job(), AGAIN)
            await world.until(waits)
            await world.env.run(await world.ref())
            await world.env.finish(await world.ref(), 1)
            await world.until(lambda status: status.waiting_for is WaitingFor.POLICY_BACKOFF)
            ended = loop_clock()
            await world.until(waits, every=0.5)
            assert 10 * MINUTE <= loop_clock() - ended <= 10 * MINUTE + SECOND

    virtually(loop, main)


def test_a_round_looks_at_all_jobs_at_once(loop: str, shape: Shape) -> None:
    """4.1: for a hundred jobs at rest one look a poll, and no other."""

    async def main() -> None:
        async with running(World(shape, poll=MINUTE)) as world:
            for number in range(1, 101):
                await world.operator.submit(job(number))
            await world.until(waits, 100)
            await anyio.sleep(90)
            before = len(await world.env.calls())
            await anyio.sleep(600)
            calls = Counter(record.call for record in (await world.env.calls())[before:])
            assert calls == {"find_many": 10}

    virtually(loop, main)


class Narrow(Plain):
    """It counts how many starts are under way at the same time; each takes a second."""

    at_once = most = 0

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await anyio.sleep(1)
        self.at_once -= 1
        return await super().start(job, submission, native=native, deadline=deadline)


async def submitted(world: World, *numbers: int) -> None:
    """Put jobs down, and do nothing about them."""
    idle = Supervisor(World(Shape.SLURM).backend, MemoryRecords(), clock=loop_clock)

    async def nothing(_: ULID) -> None: ...

    idle.step = nothing  # type: ignore[method-assign,assignment]
    for number in numbers:
        await Operator(world.records, idle).submit(job(number))


def test_so_many_jobs_are_brought_on_at_once(loop: str, shape: Shape) -> None:
    """4.1: it is bounded in concurrency, and uses what it has."""

    async def main() -> None:
        world = World(shape, Narrow, concurrency=4)
        await submitted(world, *range(1, 21))
        async with running(world):
            for number in range(1, 21):
                await world.until(waits, number)
        assert world.adapter.most == 4
        assert world.adapter.calls["start"] == 20

    assert 5 <= virtually(loop, main) < 10


class Hanging(Plain):
    """The first start of job 1 never answers."""

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        if (job.id, submission) == (ulid(1), 1):
            await anyio.sleep_forever()
        return await super().start(job, submission, native=native, deadline=deadline)


def test_a_call_that_hangs_keeps_no_other_job_waiting(loop: str, shape: Shape) -> None:
    """CO-3: the others go on; that start is given up, looked for, and made again with the next number."""

    async def main() -> None:
        world = World(shape, Hanging)
        await submitted(world, 1, 2)
        async with running(world):
            await world.until(waits, 2)
            assert loop_clock() < T0 + SECOND
            assert (await world.status(1)).waiting_for is WaitingFor.ACT
            assert (await world.until(waits, 1, every=0.5)).submission == 2
            assert len(await world.env.objects()) == 2

    virtually(loop, main)


@pytest.mark.parametrize("call", ["find_many", "start"])
def test_it_backs_off(loop: str, shape: Shape, call: str) -> None:
    """4.1: unavailable for ten minutes: it is asked less and less often, at last every minute; then the job goes on."""

    async def main() -> None:
        world = World(shape)
        await submitted(world, 1)

        def early(_: object) -> bool:
            return loop_clock() < T0 + 10 * MINUTE

        await world.env.fail_calls(call, UnavailableError("no"), times=1000, when=early)
        async with running(world):
            await world.until(waits, every=0.5)
            assert T0 + 10 * MINUTE <= loop_clock() <= T0 + 11 * MINUTE + SECOND
            asked = [record.at for record in await world.env.calls() if isinstance(record.outcome, UnavailableError)]
            # at once, after 5 s, and then after 10, 20, 40, 60, 60, ... more
            assert [(at - T0).total_seconds() for at in asked] == [0, 5, 15, 35, 75, *range(135, 600, 60)]

    virtually(loop, main)


def test_what_can_never_be_started_waits_for_a_person(loop: str, shape: Shape) -> None:
    """CO-12: it comes to rest with a reason, and a person can send it on."""

    async def main() -> None:
        async with running(World(shape)) as world:
            await world.env.fail_calls("start", InvalidError("no such queue"))
            await world.operator.submit(job())
            status = await world.until(lambda status: status.waiting_for is WaitingFor.HOLD)
            assert status.held_by == "policy"
            assert "no such queue" in status.why
            await world.operator.release(ulid(1), "ann")
            assert (await world.until(waits)).submission == 1

    virtually(loop, main)


class Faulty(Plain):
    """It has a fault: it cannot start job 1."""

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        if job.id == ulid(1):
            raise ValueError("a fault of the adapter")
        return await super().start(job, submission, native=native, deadline=deadline)


def test_an_adapter_that_fails_for_one_job_fails_for_that_alone(
    loop: str, shape: Shape, caplog: pytest.LogCaptureFixture
) -> None:
    """4.1: what an adapter must not raise is logged, and the other jobs go on."""

    async def main() -> None:
        world = World(shape, Faulty)
        await submitted(world, 1, 2)
        async with running(world):
            await world.until(waits, 2)
            assert (await world.status(1)).waiting_for is WaitingFor.ACT

    with caplog.at_level(logging.ERROR):
        virtually(loop, main)
    assert [record.getMessage() for record in caplog.records] == [f"job {ulid(1)}: its step failed"]


class Trouble(Plain):
    """What it looks like, or whether it answers at all, depends on the job: 1 is the one with trouble."""

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        if job_id == ulid(1):
            await self.trouble()
        return await super().find(job_id)

    async def trouble(self) -> None:
        raise ValueError("a fault of the adapter")


class Deaf(Trouble):
    async def trouble(self) -> None:
        await anyio.sleep_forever()


@pytest.mark.parametrize("make", [Trouble, Deaf])
def test_a_look_that_fails_or_hangs_fails_for_that_job_alone(
    loop: str, shape: Shape, make: type[Trouble], caplog: pytest.LogCaptureFixture
) -> None:
    """4.1: the others are brought on as fast as without it, at first and later."""

    async def main() -> None:
        world = World(shape, make)
        await submitted(world, *range(1, 6))
        async with running(world):
            for number in range(2, 6):
                await world.until(waits, number)
            assert loop_clock() < T0 + SECOND
            await anyio.sleep(100)
            began = loop_clock()
            await submitted(world, 6)
            await world.until(waits, 6)
            assert loop_clock() < began + SECOND

    with caplog.at_level(logging.CRITICAL):
        virtually(loop, main)


class Slow(Backend):
    """It does not say what it can do, at first: it is not there, or never answers."""

    hangs = False

    async def capabilities(self) -> Capabilities:
        if loop_clock() < T0 + MINUTE:
            if self.hangs:
                await anyio.sleep_forever()
            raise UnavailableError("not yet")
        return await super().capabilities()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_scheduler_that_is_not_there_at_first_is_waited_for(loop: str, shape: Shape, hangs: bool) -> None:
    """4.1: what the cluster can do is asked again, and until then nobody is told an error."""

    def make(_: Backend) -> Slow:
        slow = Slow(Config(shape=shape), clock=loop_clock)
        slow.hangs = hangs
        return slow

    async def main() -> None:
        world = World(shape, make)
        if not hangs:
            status = await world.operator.submit(job())
            assert status.waiting_for is WaitingFor.LOOK
        else:
            await submitted(world, 1)
        async with running(world):
            await anyio.sleep(2 * MINUTE.total_seconds())
            assert waits(await world.status(1))

    virtually(loop, main)


class Forgetting(MemoryRecords):
    """The record of job 1 cannot be read."""

    async def get(self, job_id: ULID) -> Record:
        if job_id == ulid(1):
            raise UnsupportedError("a newer version has written it")
        return await super().get(job_id)


def test_a_record_that_cannot_be_read_keeps_no_other_job_waiting(loop: str, shape: Shape) -> None:
    """4.1: as in an upgrade of one process after the other."""

    async def main() -> None:
        world = World(shape)
        world.records = Forgetting()
        world.supervisor = Supervisor(world.adapter, world.records, clock=loop_clock)
        world.observer = Observer(world.adapter, world.records, clock=loop_clock)
        await submitted(world, 1, 2)
        async with running(world):
            await world.until(waits, 2)

    virtually(loop, main)


class Racing(MemoryRecords):
    """The first write that says a hold is in force loses a race."""

    raced = False

    async def put(self, record: Record, if_version: int) -> Record:
        if record.hold and record.hold.acked and not self.raced:
            self.raced = True
            raise ConflictError("another write came first")
        return await super().put(record, if_version)


def test_who_has_lost_a_race_looks_again(loop: str, shape: Shape) -> None:
    """CO-1: at once, though nobody tells that the record was written; the next poll is a day away."""

    async def main() -> None:
        world = World(shape)
        world.records = records = Racing()
        world.supervisor = Supervisor(world.adapter, world.records, clock=loop_clock, poll=timedelta(days=1))
        world.observer = Observer(world.adapter, world.records, clock=loop_clock)
        await world.records.create(Record(job=job(), policy=Policy((), UnmatchedPolicy.HOLD)))
        async with running(world):
            await world.until(waits)
            await world.env.run(await world.ref())
            await anyio.sleep(1)
            await world.env.finish(await world.ref(), 1)
            await anyio.sleep(1)
            record = await records.get(ulid(1))
            assert (records.raced, record.hold and record.hold.acked) == (True, True)

    virtually(loop, main)


def test_a_policy_that_is_not_compiled_yet_waits_for_an_answer(loop: str, shape: Shape) -> None:
    """4.1: as for every other call, it is made again when the scheduler answers; and a single step raises nothing."""

    async def main() -> None:
        native = {Action.RESTART: Support(value=Tristate.YES)}
        backend = Backend(Config(shape=shape, rules=native, native=native), clock=loop_clock)
        world = World(shape, lambda _: backend)
        await backend.env.fail_calls("compile_policy", UnavailableError("not now"), times=2)
        operator = Operator(world.records, Supervisor(backend, world.records, clock=loop_clock))
        status = await operator.submit(job(), AGAIN, native=True)
        assert (status.waiting_for, status.in_flight, len(await backend.find(ulid(1)))) == (WaitingFor.LOOK, None, 0)
        world.supervisor = Supervisor(backend, world.records, clock=loop_clock)
        async with running(world):
            await anyio.sleep(4)
            assert not await backend.find(ulid(1))
            await anyio.sleep(2)
            assert len(await backend.find(ulid(1))) == 1

    virtually(loop, main)


class Untold(Backend):
    def watch(self) -> MemoryWatch:
        raise ValueError("a fault of the adapter")


def test_a_watch_that_fails_is_only_a_watch(loop: str, shape: Shape) -> None:
    """4.1: correctness never rests on the watch."""

    async def main() -> None:
        async with running(World(shape, lambda _: Untold(Config(shape=shape), clock=loop_clock))) as world:
            await world.operator.submit(job())
            await world.until(waits)

    virtually(loop, main)


def test_it_ends_with_its_adapter(loop: str, shape: Shape) -> None:
    """4.1: a closed adapter will never answer."""

    async def main() -> None:
        world = World(shape)
        await submitted(world, 1)
        await world.backend.aclose()
        with pytest.raises(ClosedError, match="the supervisor ends, as its adapter"):
            await world.supervisor.run()

    virtually(loop, main)


def test_a_clock_that_is_set_back_stops_nothing(loop: str, shape: Shape) -> None:
    """4.1: it waits by the loop's clock."""

    async def main() -> None:
        def clock() -> datetime:
            return loop_clock() - HOUR if anyio.current_time() > 30 else loop_clock()

        world = World(shape)
        world.supervisor = Supervisor(world.backend, world.records, clock=clock, patience=2 * HOUR)
        async with running(world):
            await anyio.sleep(31)
            await submitted(world, 1)
            await anyio.sleep(1)
            (seen,) = await world.backend.find(ulid(1))
            assert not seen.gated

    virtually(loop, main)


def test_one_refusal_silences_for_seconds_whatever_the_poll(loop: str, shape: Shape) -> None:
    """4.1: from five seconds to a minute."""

    async def main() -> None:
        async with running(World(shape, poll=HOUR)) as world:
            await world.env.fail_calls("start", UnavailableError("no"))
            await submitted(world, 1)
            await anyio.sleep(1)
            await submitted(world, 2)
            await world.until(waits, 2)
            assert loop_clock() <= T0 + 6 * SECOND

    virtually(loop, main)


def test_a_job_that_waits_for_proof_is_asked_once_a_poll(loop: str, shape: Shape) -> None:
    """4.1: however often its record is written meanwhile."""

    async def main() -> None:
        async with running(World(shape, poll=MINUTE)) as world:
            await world.operator.submit(job(), Policy((Rule(causes=frozenset(Cause), action=Action.RESTART),)))
            await world.until(waits)
            ref = await world.ref()
            await world.env.run(ref)
            await world.env.lose_node(ref)
            await world.until(lambda status: status.waiting_for is WaitingFor.CESSATION, every=1)
            await anyio.sleep(1)  # it has written what it saw
            for _ in range(40):
                record = await world.records.get(ulid(1))
                await world.records.put(record, record.version)
                await anyio.sleep(1)
            before = len(await world.env.calls())
            await anyio.sleep(600)
            asked = [record for record in (await world.env.calls())[before:] if record.call == "cessation"]
            assert 9 <= len(asked) <= 11

    virtually(loop, main)


class Lagging(Backend):
    """A gate that was opened shows as shut for ten seconds."""

    opened_at: datetime | None = None

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        self.opened_at = self.opened_at or loop_clock()
        if loop_clock() >= self.opened_at + 10 * SECOND:
            await super().open(ref, deadline=deadline)
        await anyio.sleep(0.01)


def test_an_act_that_does_not_show_yet_is_not_made_again_and_again(loop: str) -> None:
    """CO-12: once a poll."""

    async def main() -> None:
        world = World(Shape.SLURM, lambda _: Lagging(Config(), clock=loop_clock))
        world.backend = world.adapter
        await submitted(world, 1)
        async with running(world):
            await world.until(waits, every=0.5)
            record = await world.records.get(ulid(1))
            assert record.version < 20

    virtually(loop, main)


def test_two_of_them_do_everything_once(loop: str, shape: Shape) -> None:
    """4.1: several supervisors on the same records are safe: fifty jobs, each with one object and one execution."""

    async def main() -> None:
        world = World(shape)
        await submitted(world, *range(1, 51))
        other = Supervisor(world.backend.view(), world.records, clock=loop_clock)
        async with running(world), anyio.create_task_group() as group:
            group.start_soon(other.run)
            for number in range(1, 51):
                await finished(world, number)
            for number in range(1, 51):
                await world.until(done, number)
            group.cancel_scope.cancel()
        truths = await world.env.objects()
        assert len(truths) == 50
        assert all(len(truth.executions) == 1 for truth in truths)

    virtually(loop, main)


def test_what_it_is_given(shape: Shape) -> None:
    """4.1: nothing that would make it spin, or do nothing for ever."""
    world = World(shape)
    wrong: tuple[dict[str, Any], ...] = ({"poll": timedelta(0)}, {"patience": -SECOND}, {"concurrency": 0})
    for given in wrong:
        with pytest.raises(InvalidError, match=f"{next(iter(given))}: found"):
            Supervisor(world.backend, world.records, **given)


DAY = timedelta(days=1)


class Odd(World):
    """A world whose records, or whose whole backend, are of another kind."""

    def __init__(
        self,
        shape: Shape,
        make: Callable[[Backend], Any] = whole,
        records: MemoryRecords | None = None,
        **options: Any,
    ) -> None:
        super().__init__(shape, make, **options)
        if isinstance(self.adapter, Backend):
            self.backend, self.env = self.adapter, self.adapter.env
        self.records = records or self.records
        self.supervisor = Supervisor(self.adapter, self.records, clock=loop_clock, **options)
        self.operator = Operator(self.records, Supervisor(self.adapter, self.records, clock=loop_clock))
        self.observer = Observer(self.adapter, self.records, clock=loop_clock)


async def at_rest(world: World, records: MemoryRecords, policy: Policy | None = None) -> None:
    """Bring job 1 on, step by step, until it waits for the scheduler."""
    supervisor = Supervisor(world.adapter, records, clock=loop_clock)
    status = await Operator(records, supervisor).submit(job(), policy)
    while not waits(status):
        status = await supervisor.step(ulid(1))


class Late(MemoryRecords):
    """A job is put down just after they were listed for the first time."""

    listed = False

    async def list(self) -> tuple[ULID, ...]:
        found = await super().list()
        if not self.listed:
            self.listed = True
            await self.create(Record(job=job()))
        return found


def test_a_job_that_comes_while_they_are_listed_is_brought_on(loop: str, shape: Shape) -> None:
    """4.1: nothing falls between what there was and what is told."""

    async def main() -> None:
        async with running(Odd(shape, records=Late(), poll=DAY)) as world:
            await anyio.sleep(1)
            assert waits(await world.status())

    virtually(loop, main)


class Stumbling(MemoryRecords):
    """Once, something goes wrong with telling what was written: in listing, in beginning to tell, or in telling."""

    def __init__(self, where: str, error: Exception | None) -> None:
        super().__init__()
        self.where = where
        self.error = error

    def stumble(self, where: str) -> bool:
        if where != self.where:
            return False
        self.where = ""
        if self.error:
            raise self.error
        return True

    async def list(self) -> tuple[ULID, ...]:
        self.stumble("list")
        return await super().list()

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[AsyncIterator[ULID]]:
        self.stumble("begin")
        async with super().watch() as changes:
            yield self.told(changes)

    async def told(self, changes: AsyncIterator[ULID]) -> AsyncGenerator[ULID]:
        async for job_id in changes:
            if self.stumble("tell"):
                return
            yield job_id


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("list", UnavailableError("no")),
        ("list", RuntimeError("a fault of the records")),
        ("begin", OSError("the disk is not there")),
        ("tell", OSError("the disk is not there")),
        ("tell", None),
    ],
    ids=["unlisted", "list fails", "cannot begin", "breaks off", "ends"],
)
def test_records_that_stumble_are_heard_again(
    loop: str, shape: Shape, where: str, error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    """4.1: after a poll: what was not told meanwhile is listed then, and what comes later is told as ever."""

    async def main() -> None:
        world = Odd(shape, records=Stumbling(where, error), poll=MINUTE)
        await submitted(world, 1)
        async with running(world):
            await anyio.sleep(30)  # by now it has stumbled
            await submitted(world, 2)
            await anyio.sleep(31)
            assert waits(await world.status(1))
            assert waits(await world.status(2))
            await submitted(world, 3)
            await anyio.sleep(1)
            assert waits(await world.status(3))

    with caplog.at_level(logging.CRITICAL):
        virtually(loop, main)


class Stuck(MemoryRecords):
    """The record of job 1 is never read to the end."""

    async def get(self, job_id: ULID) -> Record:
        if job_id == ulid(1):
            await anyio.sleep_forever()
        return await super().get(job_id)


def test_a_record_that_hangs_keeps_no_other_job_waiting_for_ever(
    loop: str, shape: Shape, caplog: pytest.LogCaptureFixture
) -> None:
    """4.1: no longer than the patience, which is 30 seconds."""

    async def main() -> None:
        world = Odd(shape, records=Stuck(), poll=HOUR)
        await submitted(world, 1, 2)
        async with running(world):
            await anyio.sleep(31)
            assert waits(await world.status(2))
            await submitted(world, 3)
            await anyio.sleep(1)
            assert waits(await world.status(3))

    with caplog.at_level(logging.CRITICAL):
        virtually(loop, main)


def test_it_backs_off_when_no_job_is_answered_one_by_one(loop: str, shape: Shape) -> None:
    """4.1: as it does where all are found in one call: five jobs at rest, a poll of 5 s, no answer for ten minutes."""

    async def main() -> None:
        world = World(shape, Plain)
        await submitted(world, *range(1, 6))
        async with running(world):
            for number in range(1, 6):
                await world.until(waits, number)
            await anyio.sleep(60)
            await world.env.fail_calls("find", UnavailableError("no"), times=1000)
            await anyio.sleep(10 * MINUTE.total_seconds())
            failed = [call.at for call in await world.env.calls() if isinstance(call.outcome, UnavailableError)]
            asked = Counter(round((at - failed[0]).total_seconds()) for at in failed)
            assert asked == dict.fromkeys([0, 5, 15, 35, 75, *range(135, 600, 60)], 5)

    virtually(loop, main)


class Wide(Plain):
    """It counts how many looks are under way at the same time; each takes a second, once they are counted."""

    counts = False
    at_once = most = 0

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        if self.counts:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await anyio.sleep(1)
            self.at_once -= 1
        return await super().find(job_id)


def test_so_many_jobs_are_looked_at_at_once(loop: str, shape: Shape) -> None:
    """4.1: the poll too is bounded in concurrency where jobs are found one by one, and uses what it has."""

    async def main() -> None:
        world = World(shape, Wide, concurrency=4, poll=MINUTE)
        await submitted(world, *range(1, 21))
        async with running(world):
            for number in range(1, 21):
                await world.until(waits, number)
            world.adapter.counts = True
            before = world.adapter.calls["find"]
            await anyio.sleep(70)
            assert world.adapter.calls["find"] == before + 20
            assert world.adapter.most == 4

    virtually(loop, main)


def test_jobs_that_were_not_answered_for_are_due_after_the_quiet(loop: str, shape: Shape) -> None:
    """4.1: after five seconds, not after a poll, which is a day."""

    async def main() -> None:
        world = World(shape, poll=DAY)
        await submitted(world, 1, 2)
        await world.env.fail_calls("find_many", UnavailableError("no"))
        async with running(world):
            await anyio.sleep(4.9)
            assert not await world.env.objects()
            await anyio.sleep(0.2)
            assert waits(await world.status(1))
            assert waits(await world.status(2))

    virtually(loop, main)


class Lengthy(Plain):
    """The answer of a start, which has landed, takes as long as it may: with a patience of 10 s, 20 s and 25 more."""

    answered = False

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        ref = await super().start(job, submission, native=native, deadline=deadline)
        await anyio.sleep(44)
        self.answered = True
        return ref


def test_a_call_is_waited_for_as_long_as_it_may_take(loop: str, shape: Shape, caplog: pytest.LogCaptureFixture) -> None:
    """CO-4: it may land as late as its deadline and the call bound; to give it up before that tells nothing."""

    async def main() -> None:
        world = World(shape, Lengthy, patience=10 * SECOND)
        await submitted(world, 1)
        async with running(world):
            await anyio.sleep(45)
            assert world.adapter.answered
            assert waits(await world.until(waits))

    with caplog.at_level(logging.WARNING):
        virtually(loop, main)
    assert not caplog.records


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_it_says_for_how_long_it_backs_off(loop: str, shape: Shape, caplog: pytest.LogCaptureFixture) -> None:
    """4.1: once for each time, with the seconds."""

    async def main() -> None:
        world = World(shape)
        await submitted(world, 1, 2)
        await world.env.fail_calls("find_many", UnavailableError("no"), times=6)
        async with running(world):
            await anyio.sleep(200)

    with caplog.at_level(logging.WARNING):
        virtually(loop, main)
    assert warnings(caplog) == [f"no answer, the next try is in {delay} s" for delay in (5, 10, 20, 40, 60, 60)]


class Refusing(Backend):
    """Job 1 is refused a second after it is asked for; a look at job 2 takes ten seconds."""

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        if job.id == ulid(1) and loop_clock() < T0 + MINUTE:
            await anyio.sleep(1)
            raise UnavailableError("no")
        return await super().start(job, submission, native=native, deadline=deadline)

    async def find_many(self, job_ids: Collection[ULID]) -> Mapping[ULID, tuple[Observation, ...]]:
        if ulid(2) in job_ids:
            await anyio.sleep(10)
        return await super().find_many(job_ids)


def test_what_it_says_does_not_depend_on_what_it_does_meanwhile(
    loop: str, shape: Shape, caplog: pytest.LogCaptureFixture
) -> None:
    """4.1: it says for how long it backs off, not how much is left of that when it comes to saying it."""

    async def main() -> None:
        world = Odd(shape, lambda backend: Refusing(backend.config, clock=loop_clock))
        await submitted(world, 1)
        async with running(world):
            await anyio.sleep(0.5)
            await submitted(world, 2)
            await anyio.sleep(11)

    with caplog.at_level(logging.WARNING):
        virtually(loop, main)
    assert warnings(caplog) == ["no answer, the next try is in 5 s"]


class Travelling(Backend):
    """What a look shows is half a second old when it is answered."""

    async def find_many(self, job_ids: Collection[ULID]) -> Mapping[ULID, tuple[Observation, ...]]:
        found = await super().find_many(job_ids)
        await anyio.sleep(0.5)
        return found


def test_what_happens_while_the_first_look_travels_is_noticed(loop: str, shape: Shape) -> None:
    """4.1: the job runs and finishes meanwhile, and nothing more will be told; the next poll is a day away."""

    async def main() -> None:
        world = Odd(shape, lambda backend: Travelling(backend.config, clock=loop_clock), poll=DAY)
        elsewhere = MemoryRecords()
        await at_rest(world, elsewhere)
        async with running(world):
            await anyio.sleep(1)  # it has looked at all when it began to listen
            await world.records.create(await elsewhere.get(ulid(1)))
            await anyio.sleep(0.2)
            await world.env.run(await world.ref())
            await world.env.finish(await world.ref())
            await anyio.sleep(1.8)
            assert done(await world.status())

    virtually(loop, main)


class LateWatch(MemoryWatch):
    async def __aenter__(self) -> Self:
        await anyio.sleep(5)
        return await super().__aenter__()


class LateListener(Backend):
    """Its watch begins five seconds after it was asked for."""

    def watch(self) -> MemoryWatch:
        return LateWatch(self._cluster, self)


@pytest.mark.parametrize("others", [True, False], ids=["others", "alone"])
def test_what_has_gone_before_the_watch_began_is_noticed(loop: str, shape: Shape, others: bool) -> None:
    """4.1: the object was there when its job was looked at, no snapshot shows it, and the next poll is a day away.

    Whether the snapshot tells of another object or of none.
    """

    async def main() -> None:
        config = Config(shape=shape, min_job_age=SECOND)
        world = Odd(shape, lambda _: LateListener(config, clock=loop_clock), poll=DAY)
        await at_rest(world, world.records, Policy((), UnmatchedPolicy.FAIL))
        if others:
            await world.backend.start(job(2), 1)
        async with running(world):
            await anyio.sleep(1)
            await world.backend.stop(await world.ref())
            await anyio.sleep(2)
            assert not await world.backend.find(ulid(1))
            assert not done(await world.status())
            await anyio.sleep(3)
            assert done(await world.status())

    virtually(loop, main)
