"""The contract of `Records` (4.1, I13), on those in memory and those in an SQLite file."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from ulid import ULID

from dispatch_memory_async import AlreadyExistsError, InvalidError, NotFoundError
from dispatch_memory_async.core import Ask, ConflictError, MemoryRecords, Record, Records, SqliteRecords
from dispatch_memory_async.model.base import altered
from dispatch_memory_async.model.texts import short
from tests.core.strategies import RECORDS, whole_record
from tests.model.samples import PROPERTY
from tests.support import T0, ulid

NO_TIME = timedelta(0)
GUARD = 30
"""Seconds after which a test that waits for what never comes is over; nothing takes that long."""

Both: TypeAlias = tuple[Records, Records]


@pytest.fixture(params=["memory", "sqlite"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Both]:
    """Records, and those of somebody else who shares them."""
    if request.param == "memory":
        shared = MemoryRecords()
        yield shared, shared
    else:
        path = tmp_path / "jobs.db"
        async with SqliteRecords(path, poll=NO_TIME) as ours, SqliteRecords(path, poll=NO_TIME) as theirs:
            yield ours, theirs


@pytest.fixture
def records(both: Both) -> Records:
    return both[0]


@pytest.fixture
def others(both: Both) -> Records:
    return both[1]


def asked(record: Record, reason: str) -> Record:
    """The record, with another content."""
    return altered(record, stop=Ask("ann", reason, T0))


# What is written is read


def test_the_sample_has_every_field_set() -> None:
    """4.1: else a field that gets lost would not be missed below."""
    plain = Record(job=whole_record().job)
    for name in ("version", *Record.__struct_fields__):
        if name != "job":
            assert getattr(whole_record(), name) != getattr(plain, name), name


async def test_a_record_comes_back_equal_in_every_field(records: Records, others: Records) -> None:
    """4.1: all that the controller remembers of one job, for all who share the records."""
    created = await records.create(whole_record())
    assert created == whole_record()
    assert await records.get(ulid(1)) == created
    assert await others.get(ulid(1)) == created


@PROPERTY
@given(RECORDS)
def test_any_record_comes_back_equal_from_a_file(record: Record) -> None:
    """4.1: whatever is in it."""

    async def there_and_back() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with SqliteRecords(Path(folder, "jobs.db")) as records:
                created = await records.create(record)
                assert created == altered(record, version=1)
                assert await records.get(record.job.id) == created
                assert await records.put(record, 1) == altered(record, version=2)
                assert await records.get(record.job.id) == altered(record, version=2)

    anyio.run(there_and_back)


async def test_the_version_counts_the_writes(records: Records) -> None:
    """4.1: the records count, whatever the record that is given says of itself."""
    created = await records.create(whole_record(version=77))
    assert created.version == 1
    for version in range(1, 4):
        written = await records.put(asked(created, f"write {version}"), version)
        assert written == altered(asked(created, f"write {version}"), version=version + 1)
        assert await records.get(ulid(1)) == written


async def test_jobs_are_listed_in_the_order_of_their_creation(records: Records, others: Records) -> None:
    """4.1: later writes do not change it."""
    assert await records.list() == ()
    for number in (3, 1, 2):
        await records.create(whole_record(number))
    await records.put(whole_record(3), 1)
    assert await records.list() == await others.list() == (ulid(3), ulid(1), ulid(2))


# What is refused has changed nothing


async def test_a_lost_race_is_a_conflict(records: Records, others: Records) -> None:
    """4.1: compare and set; the error says which version was found and which was expected."""
    created = await records.create(whole_record())
    won = await others.put(asked(created, "theirs"), 1)
    for stale in (0, 1, 3, 2**63 - 2):
        with pytest.raises(ConflictError, match=f"{ulid(1)} has version 2, expected {stale}"):
            await records.put(asked(created, "ours"), stale)
    assert await records.get(ulid(1)) == won


async def test_of_many_who_race_in_one_process_one_wins(records: Records, others: Records) -> None:
    """4.1: on one event loop too."""
    created = await records.create(whole_record())
    won: list[Record] = []
    lost: list[str] = []

    async def race(runner: Records, reason: str) -> None:
        try:
            won.append(await runner.put(asked(created, reason), 1))
        except ConflictError:
            lost.append(reason)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(race, (records, others)[number % 2], str(number))
    assert (len(won), len(lost)) == (1, 9)
    assert await records.get(ulid(1)) == won[0]


async def test_a_job_is_created_once(records: Records, others: Records) -> None:
    """4.1, 1.2: the second time it is there already."""
    created = await records.create(whole_record())
    with pytest.raises(AlreadyExistsError, match=str(ulid(1))):
        await others.create(asked(created, "again"))
    assert await records.get(ulid(1)) == created
    assert await records.list() == (ulid(1),)


async def test_a_job_that_was_never_created_is_not_found(records: Records) -> None:
    """4.1, 1.2: neither read nor written."""
    with pytest.raises(NotFoundError, match=str(ulid(1))):
        await records.get(ulid(1))
    for version in (0, 1):
        with pytest.raises(NotFoundError, match=str(ulid(1))):
            await records.put(whole_record(), version)
    assert await records.list() == ()


class Broken:
    """Nothing about it works."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


HUGE = 10**5000  # longer than Python turns into text

Call: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, object]]


def create(records: Any, found: Any) -> Coroutine[Any, Any, object]:
    return records.create(found)  # type: ignore[no-any-return]


def get(records: Any, found: Any) -> Coroutine[Any, Any, object]:
    return records.get(found)  # type: ignore[no-any-return]


def put(records: Any, found: Any) -> Coroutine[Any, Any, object]:
    return records.put(found, 1)  # type: ignore[no-any-return]


def put_if(records: Any, found: Any) -> Coroutine[Any, Any, object]:
    return records.put(whole_record(), found)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("call", "name", "found"),
    [
        *((create, "record", found) for found in (None, "record", whole_record().job, Broken())),
        *((put, "record", found) for found in (None, 1, Broken())),
        *((get, "job_id", found) for found in (None, str(ulid(1)), 1, ULID.__new__(ULID), Broken())),
        *((put_if, "if_version", found) for found in (None, True, 1.0, "1", -1, 2**63 - 1, HUGE, Broken())),
    ],
    ids=lambda found: getattr(found, "__name__", None) or short(found),
)
async def test_a_wrong_argument_is_invalid(records: Records, call: Call, name: str, found: object) -> None:
    """1.2: the message says which, what was found and what was expected; nothing else escapes."""
    created = await records.create(whole_record())
    with pytest.raises(InvalidError, match=f"^{name}: found .*, "):
        await call(records, found)
    assert await records.get(ulid(1)) == created


# The watch


async def told(changes: AsyncIterator[ULID], *jobs: ULID) -> None:
    """Each of these comes, and nothing else."""
    waited_for = set(jobs)
    with anyio.fail_after(GUARD):
        while waited_for:
            changed = await anext(changes)
            assert changed in jobs
            waited_for.discard(changed)


async def test_a_watch_tells_what_is_written_from_entering_on(records: Records, others: Records) -> None:
    """4.1: created and written, by us and by others, before the first step and after it; nothing of before."""
    await records.create(whole_record(1))
    await records.create(whole_record(2))
    async with records.watch() as changes:
        await records.create(whole_record(3))
        await others.put(whole_record(2), 1)
        await told(changes, ulid(3), ulid(2))
        await others.create(whole_record(4))
        await told(changes, ulid(4))


async def test_a_watch_that_waits_is_woken(records: Records, others: Records) -> None:
    """4.1: whoever writes."""
    for number, writer in enumerate((records, others), 1):
        async with records.watch() as changes, anyio.create_task_group() as tasks:
            tasks.start_soon(told, changes, ulid(number))
            for _ in range(5):
                await checkpoint()
            await writer.create(whole_record(number))


async def test_a_watch_misses_nothing_that_is_written_while_it_tells(records: Records, others: Records) -> None:
    """4.1: a job that was told and is written again is told again."""
    await records.create(whole_record(1))
    async with records.watch() as changes:
        for version in range(1, 6):
            await others.put(whole_record(1), version)
            await told(changes, ulid(1))


async def test_a_step_of_a_watch_that_is_cancelled_loses_nothing(records: Records, others: Records) -> None:
    """4.1: wherever it is cancelled, the next step goes on."""
    async with records.watch() as changes:

        async def step() -> None:
            pytest.fail(f"told {await anext(changes)}")

        for parks in range(8):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(step)
                for _ in range(parks):
                    await checkpoint()
                tasks.cancel_scope.cancel()
        await others.create(whole_record(1))
        await told(changes, ulid(1))


async def test_every_watch_is_told(records: Records, others: Records) -> None:
    """4.1: one takes nothing away from another, nor does one that has been left."""
    async with records.watch() as first, others.watch() as second:
        async with records.watch() as left:
            await records.create(whole_record(1))
            await told(left, ulid(1))
        await records.create(whole_record(2))
        await told(first, ulid(1), ulid(2))
        await told(second, ulid(1), ulid(2))


async def test_a_watch_in_memory_rests_while_nothing_is_written() -> None:
    """4.1: it has told something before, and goes on when there is more; of one that was left nothing is kept."""
    records = MemoryRecords()
    async with records.watch() as changes:
        await records.create(whole_record(1))
        await told(changes, ulid(1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told, changes, ulid(2))
            with anyio.fail_after(GUARD):
                await anyio.wait_all_tasks_blocked()
            await records.create(whole_record(2))
    kept: Any = records
    assert kept._watchers == []


# Cancellation


@pytest.mark.parametrize("parks", range(12))
async def test_a_cancelled_write_is_whole_or_nothing(records: Records, others: Records, parks: int) -> None:
    """4.1, CO-1: wherever it is cancelled; the records go on working."""
    created = await records.create(whole_record())
    after = altered(asked(created, "cancelled"), version=2)
    answers: list[Record] = []

    async def write() -> None:
        answers.append(await records.put(asked(created, "cancelled"), 1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        for _ in range(parks):
            await checkpoint()
        tasks.cancel_scope.cancel()
    found = await others.get(ulid(1))
    assert found in ([after] if answers else [created, after])
    assert await records.put(asked(found, "next"), found.version) == altered(
        asked(found, "next"), version=found.version + 1
    )


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("parks", range(12))
async def test_a_task_that_asyncio_cancels_writes_all_or_nothing(records: Records, others: Records, parks: int) -> None:
    """4.1, CO-1: asyncio's own cancellation does not wait for the worker thread."""
    created = await records.create(whole_record())
    after = altered(asked(created, "cancelled"), version=2)
    task = asyncio.create_task(records.put(asked(created, "cancelled"), 1))
    for _ in range(parks):
        await checkpoint()
    task.cancel()
    await asyncio.wait([task])
    await records.list()  # comes after what the thread was at
    found = await others.get(ulid(1))
    assert found in ([created, after] if task.cancelled() else [after])
    assert await records.put(found, found.version) == altered(found, version=found.version + 1)
