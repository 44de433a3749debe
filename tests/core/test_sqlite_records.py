"""Records in an SQLite file (4.1, I13): shared by processes, reopened, of another version, and on files that fail."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from dispatch_memory_async import (
    ClosedError,
    InvalidError,
    UnavailableError,
    UnsupportedError,
)
from dispatch_memory_async.core import SqliteRecords, sqlite
from dispatch_memory_async.model.base import altered
from tests.core.processes import as_nobody, in_processes, open_at_once, race, under_limit
from tests.core.strategies import whole_record
from tests.support import ulid

NO_TIME = timedelta(0)
MORE = "ALTER TABLE records ADD COLUMN note TEXT"
NOTE = "UPDATE records SET note = job"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE", NO_TIME)


def execute(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Do something to the file past the records; the last answer."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return [db.execute(statement).fetchall() for statement in statements][-1]


async def refused(path: Path, error: type[Exception], words: str) -> None:
    """Opening the file is refused with these words, and leaves it as it was."""
    before = read(path)
    with pytest.raises(error, match=words):
        async with SqliteRecords(path):
            pass
    assert read(path) == before


def read(path: Path) -> bytes:
    return path.read_bytes()


def inside(records: SqliteRecords) -> Any:
    """The records, to look at what is not shown to others."""
    return records


async def write(path: Path, *numbers: int) -> None:
    async with SqliteRecords(path) as records:
        for number in numbers:
            await records.create(whole_record(number))


# Durable


async def test_reopening_gives_everything_back(path: Path) -> None:
    """4.1, I13: every record in its last version, the jobs in their order."""
    await write(path, 2, 1)
    async with SqliteRecords(path) as records:
        written = await records.put(whole_record(1), 1)
    async with SqliteRecords(str(path)) as records:
        assert await records.list() == (ulid(2), ulid(1))
        assert await records.get(ulid(1)) == written
        assert await records.get(ulid(2)) == whole_record(2)
        assert await records.put(written, 2) == altered(written, version=3)


async def test_a_write_waits_for_the_disk(path: Path) -> None:
    """4.1, I13: what a power cut takes cannot be shown here; that the disk is waited for can."""
    async with SqliteRecords(path) as records:
        db = inside(records)._connection
        for setting, expected in (("journal_mode", "wal"), ("synchronous", 2), ("fullfsync", 1)):
            assert db.execute(f"PRAGMA {setting}").fetchone() == (expected,)


@pytest.mark.parametrize("place", ["", ":memory:"])
async def test_what_is_no_file_is_refused(place: str) -> None:
    """4.1: SQLite takes these, and keeps nothing of what is written."""
    with pytest.raises((InvalidError, UnsupportedError), match=r"expected the path of a file|nothing is durable"):
        async with SqliteRecords(place):
            pass


# Closed


async def test_after_closing_every_call_is_refused(path: Path) -> None:
    """1.2: also a watch that was open; closing again changes nothing."""
    async with SqliteRecords(path, poll=NO_TIME) as records, records.watch() as changes:
        await records.aclose()
        await records.aclose()
        watch = records.watch()
        for call in (
            records.create(whole_record()),
            records.get(ulid(1)),
            records.put(whole_record(), 1),
            records.list(),
            anext(changes),
            watch.__aenter__(),
            records.__aenter__(),
        ):
            with pytest.raises(ClosedError, match=str(path)):
                await call
    assert repr(records) == f"<SqliteRecords {path}: closed>"
    assert execute(path, "SELECT * FROM records") == []


async def test_closing_waits_for_a_write_under_way(path: Path) -> None:
    """4.1: it is answered, and there afterwards."""
    records = SqliteRecords(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(records.create, whole_record())
        await until_busy(records)
        await records.aclose()
    async with SqliteRecords(path) as again:
        assert await again.get(ulid(1)) == whole_record()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"path": 3}, "path"),
        ({"path": None}, "path"),
        ({"path": b"jobs.db"}, "path"),
        ({"path": "jobs\0.db"}, "path"),
        ({"path": "jobs.db", "poll": 1}, "poll"),
        ({"path": "jobs.db", "poll": timedelta(seconds=-1)}, "poll"),
    ],
)
def test_wrong_settings_are_invalid(arguments: dict[str, Any], name: str) -> None:
    """1.2: the message says which, what was found and what was expected."""
    with pytest.raises(InvalidError, match=f"^{name}: found .*, expected "):
        SqliteRecords(**arguments)


# Shared


def test_of_two_processes_that_race_one_wins(path: Path) -> None:
    """4.1: one wins each round, the other gets `ConflictError`."""
    anyio.run(write, path, 1)
    rounds = 50
    ann, bob = in_processes(race, (path, "ann", rounds), (path, "bob", rounds))
    assert [(one, other) for one, other in zip(ann, bob, strict=True) if one is other] == []

    async def last() -> tuple[int, str]:
        async with SqliteRecords(path) as records:
            record = await records.get(ulid(1))
            assert record.stop
            return record.version, f"{record.stop.by} {record.stop.reason}"

    assert anyio.run(last) == (rounds + 1, f"{'ann' if ann[-1] else 'bob'} round {rounds - 1}")


def test_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """4.1: one makes the schema, none is refused."""
    in_processes(open_at_once, *((tmp_path, name, 20) for name in range(1, 4)))
    for number in range(20):
        assert execute(tmp_path / f"{number}.db", "SELECT count(*) FROM records") == [(3,)]


@pytest.fixture
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """A file with one record in it, while somebody else writes to it and does not end."""
    anyio.run(write, path, 1)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


@pytest.mark.usefixtures("impatient")
async def test_a_file_that_somebody_else_writes_to_for_long_is_unavailable(
    path: Path, locked: sqlite3.Connection
) -> None:
    """1.2, 4.1: nothing changed, it can be read meanwhile, and a later try succeeds."""
    async with SqliteRecords(path) as records:
        assert await records.list() == (ulid(1),)
        with pytest.raises(UnavailableError, match=f"{path} cannot be used now: database is locked"):
            await records.put(whole_record(), 1)
        with pytest.raises(UnavailableError, match="locked"):
            await records.create(whole_record(2))
        locked.execute("ROLLBACK")
        assert await records.list() == (ulid(1),)
        assert (await records.put(whole_record(), 1)).version == 2


async def until_busy(records: SqliteRecords) -> None:
    """Until a call is in the worker thread."""
    while not inside(records)._turn.borrowed_tokens:
        await checkpoint()


async def test_a_write_that_waits_for_somebody_else_can_be_cancelled_in_the_queue(
    path: Path, locked: sqlite3.Connection
) -> None:
    """4.1, CO-1: the one in the thread is whole, the one that waits for its turn ends at once with nothing written."""
    async with SqliteRecords(path) as records, anyio.create_task_group() as tasks:
        first = whole_record(1)
        tasks.start_soon(records.put, first, 1)
        await until_busy(records)
        async with anyio.create_task_group() as queue:
            queue.start_soon(records.create, whole_record(2))
            while not inside(records)._turn.statistics().tasks_waiting:
                await checkpoint()
            queue.cancel_scope.cancel()
        locked.execute("ROLLBACK")
        assert await records.list() == (ulid(1),)
        assert (await records.get(ulid(1))).version == 2


# Versions of the schema


async def test_a_newer_schema_is_refused_with_words(path: Path) -> None:
    """4.1: the schema carries a version; the error names both, and nothing changed."""
    await write(path, 1)
    execute(path, "PRAGMA user_version = 7")
    words = (
        f"schema version 7, expected at most {len(sqlite.MIGRATIONS)}: a newer version of this library has written it"
    )
    await refused(path, UnsupportedError, f"{path} has {words}")


async def test_an_older_schema_is_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4.1: with all that is in it; from then on the older library refuses it."""
    await write(path, 2, 1)
    now = sqlite.MIGRATIONS
    monkeypatch.setattr(sqlite, "MIGRATIONS", (*now, f"{MORE}; {NOTE}"))
    for _ in range(2):
        async with SqliteRecords(path) as records:
            assert await records.list() == (ulid(2), ulid(1))
            assert [await records.get(ulid(number)) for number in (1, 2)] == [whole_record(1), whole_record(2)]
    assert execute(path, "SELECT note FROM records") == [(str(ulid(2)),), (str(ulid(1)),)]
    monkeypatch.setattr(sqlite, "MIGRATIONS", now)
    await refused(path, UnsupportedError, f"schema version {len(now) + 1}, expected at most {len(now)}")


async def test_a_migration_that_fails_has_changed_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4.1: the older library goes on with the file."""
    await write(path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "MIGRATIONS", (*sqlite.MIGRATIONS, f"{MORE}; DROP TABLE nowhere"))
        with pytest.raises(UnavailableError, match="nowhere"):
            async with SqliteRecords(path):
                pass
    assert not [column for column in execute(path, "PRAGMA table_info(records)") if column[1] == "note"]
    async with SqliteRecords(path) as records:
        assert await records.get(ulid(1)) == whole_record()


async def test_a_record_that_a_newer_library_wrote_is_refused_with_words(path: Path) -> None:
    """4.1, 1.2: what it says is not dropped; the other records can be read."""
    await write(path, 1, 2)
    execute(path, "UPDATE records SET body = json_set(body, '$.colour', 'red') WHERE place = 1")
    async with SqliteRecords(path) as records:
        with pytest.raises(UnsupportedError, match=f"{ulid(1)} in {path} .* newer version .*colour"):
            await records.get(ulid(1))
        assert await records.get(ulid(2)) == whole_record(2)


async def test_a_record_that_is_none_is_refused_with_words(path: Path) -> None:
    """4.1, 1.2: which record of which file."""
    await write(path, 1)
    execute(path, "UPDATE records SET body = substr(body, 1, 50)")
    async with SqliteRecords(path) as records:
        with pytest.raises(InvalidError, match=f"{ulid(1)} in {path} cannot be read"):
            await records.get(ulid(1))


# Files that fail


async def test_a_file_that_is_no_database_is_invalid(path: Path) -> None:
    """1.2: and is left as it was."""
    await anyio.Path(path).write_text("not a database, but something that somebody needs\n" * 100)
    await refused(path, InvalidError, f"{path} holds no records: .*not a database")


@pytest.mark.parametrize(
    "mark", ["CREATE TABLE records (job TEXT)", "PRAGMA user_version = 1", "PRAGMA application_id = 3"]
)
async def test_a_database_of_something_else_is_invalid(path: Path, mark: str) -> None:
    """1.2: and is left as it was."""
    execute(path, mark)
    await refused(path, InvalidError, f"{path} holds no records: it is a database of something else")


async def test_a_damaged_file_is_invalid(path: Path) -> None:
    """1.2: with SQLite's own words for it."""
    await write(path, *range(1, 50))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40960)
    async with SqliteRecords(path) as records:
        with pytest.raises(InvalidError, match=f"{path} holds no records: .*malformed"):
            await records.list()


async def test_a_folder_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    """1.2: it says that it is the folder; once it is there, the same records work."""
    path = tmp_path / "nowhere" / "jobs.db"
    records = SqliteRecords(path)
    with pytest.raises(UnavailableError, match=f"{path} cannot be opened, its folder must be there"):
        await records.list()
    path.parent.mkdir()
    async with records:
        assert await records.list() == ()


async def test_a_full_file_is_unavailable(path: Path) -> None:
    """1.2, I13: what was there before is whole, nothing of what was refused is there, and room makes it work again."""
    await write(path, 1)
    async with SqliteRecords(path) as records:
        db = inside(records)._connection
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        big = altered(whole_record(2), job=altered(whole_record(2).job, image="x" * 100_000))
        with pytest.raises(UnavailableError, match=f"{path} cannot be used now: database or disk is full"):
            await records.create(big)
        assert await records.list() == (ulid(1),)
        assert await records.get(ulid(1)) == whole_record()
        db.execute("PRAGMA max_page_count = 1000000")
        assert await records.create(big) == big


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files there")
def test_a_file_that_may_not_grow_is_unavailable(path: Path) -> None:
    """1.2, I13: the system refuses a write in the middle; what was answered is there, and nothing else."""
    ((answered, told),) = in_processes(under_limit, (path, 1_000_000))
    assert answered > 1
    assert told.startswith(f"UnavailableError: {path} cannot be used now: disk I/O error")


def test_a_full_disk_is_unavailable(tmp_path: Path) -> None:
    """1.2, I13: a real one, where a disk of our own can be had."""
    own_disk = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'
    unshare = shutil.which("unshare")
    mounted = [str(unshare), "--user", "--map-root-user", "--mount", "sh", "-c", own_disk, "sh", str(tmp_path)]
    if not unshare or subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("no disk of our own can be mounted")
    path = tmp_path / "jobs.db"
    done = subprocess.run(  # noqa: S603  # our own interpreter, our own module
        [*mounted, sys.executable, "-m", "tests.core.processes", str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answered, told = done.stdout.strip().split(" ", 1)
    assert int(answered) > 1
    assert told == f"UnavailableError: {path} cannot be used now: database or disk is full"


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A file with one record, in a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        anyio.run(write, Path(folder, "jobs.db"), 1)
        yield Path(folder, "jobs.db")


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions there")
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)])
def test_what_cannot_be_written_is_an_error_with_words(for_all: Path, file_mode: int, folder_mode: int) -> None:
    """1.2: a read-only file, a read-only folder, and both; nothing changed."""
    before = for_all.read_bytes()
    for_all.chmod(file_mode)
    for_all.parent.chmod(folder_mode)
    try:
        (told,) = in_processes(as_nobody, (for_all,))
    finally:
        for_all.parent.chmod(0o755)
    assert told[-2:] == [f"ReadOnlyError: {for_all} cannot be written: attempt to write a readonly database"] * 2
    assert for_all.read_bytes() == before
