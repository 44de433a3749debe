"""The check of what a killed writer leaves behind (I13) can fail, and passes on a writer that is killed for real."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from ulid import ULID

from dispatch_memory_async.core import Ask, SqliteRecords
from dispatch_memory_async.model.base import altered
from tests.kills.killing import LostError, Round, check, killed
from tests.kills.writer import content
from tests.support import T0, ulid

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")

HASTY = """
import sys
print("begun", flush=True)
for version in range(1, 10):
    print("{job}", version, flush=True)
while True:
    pass
"""
"""A writer that answers before it writes."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the first job in version 3 and the second in version 1."""

    async def write() -> None:
        async with SqliteRecords(tmp_path / "jobs.db") as records:
            await records.create(content(ulid(1), 1))
            await records.create(content(ulid(2), 1))
            await records.put(content(ulid(1), 2), 1)
            await records.put(content(ulid(1), 3), 2)

    anyio.run(write)
    return tmp_path / "jobs.db"


ALL = [(ulid(1), 1), (ulid(2), 1), (ulid(1), 2), (ulid(1), 3)]


def test_what_was_answered_is_there(path: Path) -> None:
    """I13: and from then on it is known."""
    known: dict[ULID, int] = {}
    assert check(path, known, ALL) == Round(answered=4, in_flight=False)
    assert known == {ulid(1): 3, ulid(2): 1}
    assert check(path, known, []) == Round(answered=0, in_flight=False)


def test_the_write_under_way_may_be_there(path: Path) -> None:
    """I13: the last one that was answered, or the one in flight."""
    assert check(path, {}, ALL[:-1]) == Round(answered=3, in_flight=True)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([*ALL, (ulid(1), 4)], f"job {ulid(1)}: version 4 was answered, and 3 is there"),
        ([*ALL, (ulid(3), 1)], f"job {ulid(3)}: version 1 was answered, and 0 is there"),
        (ALL[:-2], "2 writes are there that were not answered"),
        ([*ALL, (ulid(2), 3)], f"job {ulid(2)}: version 3 was answered after 1"),
    ],
)
def test_a_lost_write_is_found(path: Path, told: list[tuple[ULID, int]], words: str) -> None:
    """I13: one that was answered and is not there, and one that nobody can have written."""
    with pytest.raises(LostError, match=words):
        check(path, {}, told)


def test_a_record_of_two_writes_is_found(path: Path) -> None:
    """I13: the version of one and the content of another."""

    async def mix() -> None:
        async with SqliteRecords(path) as records:
            await records.put(altered(content(ulid(2), 1), stop=Ask("ann", "mixed", T0)), 1)

    anyio.run(mix)
    with pytest.raises(LostError, match="half written: version 2 holds"):
        check(path, {}, [*ALL, (ulid(2), 2)])


def test_a_torn_record_is_found(path: Path) -> None:
    """I13: one that cannot be decoded."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE records SET body = substr(body, 1, 100) WHERE place = 2")
    with pytest.raises(LostError, match="half written: the record of job"):
        check(path, {}, ALL)


def test_a_damaged_file_is_found(path: Path) -> None:
    """I13: by SQLite's own check."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(LostError, match="damaged"):
        check(path, {}, ALL)


def test_a_writer_that_answers_too_early_is_found_out(path: Path) -> None:
    """I13: killed between its answer and its write."""
    told = killed([sys.executable, "-c", HASTY.format(job=ulid(9))], 5, 0)
    assert len(told) >= 5
    with pytest.raises(LostError, match=f"job {ulid(9)}: version . was answered, and 0 is there"):
        check(path, {ulid(1): 3, ulid(2): 1}, told)


def test_a_killed_writer_has_lost_nothing(tmp_path: Path) -> None:
    """I13: a few rounds here; two hundred are a nox session of their own."""
    path = tmp_path / "jobs.db"
    known: dict[ULID, int] = {}
    for lines in (0, 1, 30):
        told = killed([sys.executable, "-m", "tests.kills.writer", str(path), str(lines)], lines, 1000)
        assert check(path, known, told).answered >= lines
    assert sum(known.values()) >= 31


def test_a_writer_that_ends_by_itself_is_no_round() -> None:
    """I13: nothing was shown by it."""
    with pytest.raises(RuntimeError, match="ended by itself, with 0"):
        killed([sys.executable, "-c", "print('begun')"], 3, 0)
