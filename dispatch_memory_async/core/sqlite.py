"""Records in an SQLite file: durable, and shared by the processes of one machine."""

import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from os import PathLike, fspath
from threading import Lock
from time import monotonic, sleep
from types import TracebackType
from typing import Self, TypeVar

import anyio
import msgspec
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from ulid import ULID

from ..model import (
    AlreadyExistsError,
    ClosedError,
    InvalidError,
    NotFoundError,
    ReadOnlyError,
    UnavailableError,
    UnsupportedError,
    dec_hook,
    enc_hook,
)
from ..model.base import altered
from ..model.checks import check_kind, check_ulid
from ..model.texts import short
from .record import Record
from .records import ConflictError, check_version

__all__ = ("SqliteRecords",)

T = TypeVar("T")

MIGRATIONS = (
    """
    CREATE TABLE records (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        job TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        written INTEGER NOT NULL,
        body BLOB NOT NULL
    );
    CREATE INDEX by_write ON records (written);
    """,
)
"""What makes each schema version out of the one before; the first, out of an empty file."""

OURS = 0x444A5243
"""Stands in the file's header, for what is no other program's database (``PRAGMA application_id``)."""

HEADER = """
    SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_user_version, pragma_application_id
"""
"""In one reading: another process may be making the file."""

LAST_WRITE = "SELECT coalesce(max(written), 0) FROM records"
NEXT_WRITE = "(SELECT coalesce(max(written), 0) + 1 FROM records)"

PATIENCE = timedelta(seconds=30)
"""How long a call waits for another process to finish its write."""

BREATH = timedelta(milliseconds=5)
"""How long a process that makes the file waits for another that does, until it tries again."""

_encoder = msgspec.json.Encoder(enc_hook=enc_hook)
_decoder = msgspec.json.Decoder(Record, dec_hook=dec_hook)

Work = Callable[[sqlite3.Connection], T]
"""What is done in the worker thread."""


class SqliteRecords:
    """Records in an SQLite file, see :class:`~dispatch_memory_async.core.Records`.

    A write is answered once it is on the disk: it outlasts the end of the process and a power cut. Several processes of
    one machine can share the file (not over a network file system). Calls run in a worker thread. ::

        async with SqliteRecords("jobs.db") as records: ...

    :param path: the file; made if it is not there, in a folder that is
    :param poll: how often :meth:`watch` looks for what others have written
    :raises InvalidError: if that is no path, or no length of time
    """

    def __init__(self, path: str | PathLike[str], *, poll: timedelta = timedelta(milliseconds=500)) -> None:
        check_kind("path", path, str, PathLike)
        self._path = fspath(path)
        if type(self._path) is not str or not self._path or "\0" in self._path:
            raise InvalidError(f"path: found {short(path)}, expected the path of a file")
        check_kind("poll", poll, timedelta)
        if poll < timedelta(0):
            raise InvalidError(f"poll: found {short(poll)}, expected at least nothing")
        self._poll = poll.total_seconds()
        self._turn = CapacityLimiter(1)
        """Whose call is in the worker thread; whoever waits for it can be cancelled."""
        self._lock = Lock()
        """Held by that thread, which a task that asyncio itself cancels leaves behind."""
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<SqliteRecords {self._path}{': closed' if self._closed else ''}>"

    async def __aenter__(self) -> Self:
        """Open the file.

        :raises InvalidError: if it is something else
        :raises UnsupportedError: if a newer version of this library has written it, or nothing in it would be durable
        :raises ReadOnlyError: if it cannot be written
        :raises UnavailableError: if it cannot be opened, or somebody else writes for too long
        """
        await self._run(lambda _: None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the file. Doing it again changes nothing."""
        with anyio.CancelScope(shield=True):
            await run_sync(self._close, limiter=self._turn)

    async def create(self, record: Record) -> Record:
        """Put down a new job, see :meth:`Records.create <dispatch_memory_async.core.Records.create>`."""
        check_kind("record", record, Record)
        kept = altered(record, version=1)

        def insert(db: sqlite3.Connection) -> Record:
            job = str(record.job.id)
            with _transaction(db):
                if _version(db, job) is not None:
                    raise AlreadyExistsError(f"there is a record of job {job}")
                db.execute(
                    f"INSERT INTO records (job, version, written, body) VALUES (?, 1, {NEXT_WRITE}, ?)",  # noqa: S608
                    (job, _encoder.encode(kept)),
                )
            return kept

        return await self._run(insert)

    async def get(self, job_id: ULID) -> Record:
        """The record of a job, see :meth:`Records.get <dispatch_memory_async.core.Records.get>`."""
        check_ulid("job_id", job_id)

        def select(db: sqlite3.Connection) -> Record:
            found = db.execute("SELECT body FROM records WHERE job = ?", (str(job_id),)).fetchone()
            if found is None:
                raise NotFoundError(f"there is no record of job {job_id}")
            return self._decoded(job_id, found[0])

        return await self._run(select)

    async def put(self, record: Record, if_version: int) -> Record:
        """Write a record, see :meth:`Records.put <dispatch_memory_async.core.Records.put>`."""
        check_kind("record", record, Record)
        check_version(if_version)
        kept = altered(record, version=if_version + 1)

        def update(db: sqlite3.Connection) -> Record:
            job = str(record.job.id)
            with _transaction(db):
                found = _version(db, job)
                if found is None:
                    raise NotFoundError(f"there is no record of job {job}")
                if found != if_version:
                    raise ConflictError(f"job {job} has version {found}, expected {if_version}")
                db.execute(
                    f"UPDATE records SET version = ?, written = {NEXT_WRITE}, body = ? WHERE job = ?",  # noqa: S608
                    (kept.version, _encoder.encode(kept), job),
                )
            return kept

        return await self._run(update)

    async def list(self) -> tuple[ULID, ...]:
        """The jobs, see :meth:`Records.list <dispatch_memory_async.core.Records.list>`."""
        rows = await self._run(lambda db: db.execute("SELECT job FROM records ORDER BY place").fetchall())
        return tuple(ULID.from_str(job) for (job,) in rows)

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[AsyncIterator[ULID]]:
        """The jobs whose records are written, see :meth:`Records.watch <dispatch_memory_async.core.Records.watch>`."""
        last: int = await self._run(lambda db: db.execute(LAST_WRITE).fetchone()[0])
        yield _Changes(self._run, last, self._poll)

    async def _run(self, work: Work[T]) -> T:
        return await run_sync(self._work, work, limiter=self._turn)

    # in the worker thread

    def _work(self, work: Work[T]) -> T:
        with self._lock, self._told():
            return work(self._connection or self._open())

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise ClosedError(f"the records in {self._path} are closed")
        patience = PATIENCE.total_seconds()
        db = sqlite3.connect(self._path, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk
            db.execute("PRAGMA fullfsync = ON")  # without it, a Mac answers before its disk has it
            if self._schema(db) < len(MIGRATIONS):
                self._make(db)
        except BaseException:
            db.close()
            raise
        self._connection = db
        return db

    def _schema(self, db: sqlite3.Connection) -> int:
        """The schema version that the file has; 0 if it is empty."""
        known, (found, program, tables) = len(MIGRATIONS), db.execute(HEADER).fetchone()
        if program != OURS and (program or found or tables):
            raise InvalidError(f"{self._path} holds no records: it is a database of something else")
        if found > known:
            newer = "a newer version of this library has written it"
            raise UnsupportedError(f"{self._path} has schema version {found}, expected at most {known}: {newer}")
        return int(found)

    def _make(self, db: sqlite3.Connection) -> None:
        """Bring the file to the newest schema."""
        if _log_ahead(db) != "wal":
            raise UnsupportedError(f"{self._path} cannot have a write-ahead log, without which nothing is durable")
        with _transaction(db):
            for script in MIGRATIONS[self._schema(db) :]:  # read again: another process may have been first
                for statement in script.split(";"):
                    db.execute(statement)
            db.execute(f"PRAGMA application_id = {OURS}")
            db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _decoded(self, job_id: ULID, body: bytes) -> Record:
        try:
            return _decoder.decode(body)
        except msgspec.ValidationError as error:
            newer = "a newer version of this library may have written it"
            raise UnsupportedError(
                f"the record of job {job_id} in {self._path} says what is not known here, {newer}: {error}"
            ) from error
        except msgspec.DecodeError as error:
            raise InvalidError(f"the record of job {job_id} in {self._path} cannot be read: {error}") from error

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _told(self) -> Generator[None]:
        """Say in the terms of the error table what SQLite has met."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_READONLY"):
                raise ReadOnlyError(f"{self._path} cannot be written: {error}") from error
            if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
                raise InvalidError(f"{self._path} holds no records: {error}") from error
            if name.startswith("SQLITE_CANTOPEN"):
                folder = "its folder must be there, and files be made in it"
                raise UnavailableError(f"{self._path} cannot be opened, {folder}: {error}") from error
            raise UnavailableError(f"{self._path} cannot be used now: {error}") from error


class _Changes:
    """What is written to the file from a write on. A step that is cancelled has lost nothing."""

    def __init__(
        self, run: Callable[[Work[list[tuple[str, int]]]], Awaitable[list[tuple[str, int]]]], last: int, poll: float
    ) -> None:
        self._run = run
        self._last = last
        self._poll = poll
        self._found: deque[tuple[str, int]] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ULID:
        while not self._found:
            self._found.extend(await self._run(_written_after(self._last)))
            if not self._found:
                await anyio.sleep(self._poll)
        job, self._last = self._found.popleft()
        return ULID.from_str(job)


def _written_after(last: int) -> Work[list[tuple[str, int]]]:
    query = "SELECT job, written FROM records WHERE written > ? ORDER BY written"
    return lambda db: db.execute(query, (last,)).fetchall()


def _version(db: sqlite3.Connection, job: str) -> int | None:
    found = db.execute("SELECT version FROM records WHERE job = ?", (job,)).fetchone()
    return found and int(found[0])


def _log_ahead(db: sqlite3.Connection) -> str:
    """Let there be a write-ahead log; the journal that there is."""
    end = monotonic() + PATIENCE.total_seconds()
    while True:
        try:
            return str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() >= end:
                raise
        sleep(BREATH.total_seconds())  # here, unlike elsewhere, SQLite does not wait for others by itself


@contextmanager
def _transaction(db: sqlite3.Connection) -> Generator[None]:
    """All that is done inside is on the disk at the end, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
