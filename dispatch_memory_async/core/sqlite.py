"""Records in an SQLite file: durable, and shared by the processes of one machine."""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from os import PathLike, fspath
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

import anyio
import msgspec
from anyio.to_thread import run_sync
from ulid import ULID

from ..model import (
    AlreadyExistsError,
    ClosedError,
    DispatchError,
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
from .record import Record
from .records import ConflictError

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

LAST_WRITE = "SELECT coalesce(max(written), 0) FROM records"
NEXT_WRITE = "(SELECT coalesce(max(written), 0) + 1 FROM records)"
PATIENCE = timedelta(seconds=30)
"""How long a call waits for another process to finish its write."""

_encoder = msgspec.json.Encoder(enc_hook=enc_hook)
_decoder = msgspec.json.Decoder(Record, dec_hook=dec_hook)


class SqliteRecords:
    """Records in an SQLite file, see :class:`~dispatch_memory_async.core.Records`.

    A write is answered once it is on the disk: it outlasts the end of the process and a power cut. Several processes of
    one machine can share the file (not over a network file system). Calls run in a worker thread. ::

        async with SqliteRecords("jobs.db") as records: ...

    :param path: the file; made if it is not there
    :param poll: how often :meth:`watch` looks for what others have written
    """

    def __init__(self, path: str | PathLike[str], *, poll: timedelta = timedelta(milliseconds=500)) -> None:
        self._path = fspath(path)
        self._poll = poll.total_seconds()
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<SqliteRecords {self._path}{': closed' if self._closed else ''}>"

    async def __aenter__(self) -> Self:
        """Open the file.

        :raises UnsupportedError: if a newer version of this library made it
        :raises UnavailableError: if it cannot be opened
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
            await run_sync(self._close)

    async def create(self, record: Record) -> Record:
        """Put down a new job, see :meth:`Records.create <dispatch_memory_async.core.Records.create>`."""
        check_kind("record", record, Record)
        kept = altered(record, version=1)

        def insert(db: sqlite3.Connection) -> Record:
            try:
                with _transaction(db):
                    db.execute(
                        f"INSERT INTO records (job, version, written, body) VALUES (?, 1, {NEXT_WRITE}, ?)",  # noqa: S608
                        (str(record.job.id), _encoder.encode(kept)),
                    )
            except sqlite3.IntegrityError:
                raise AlreadyExistsError(f"there is a record of job {record.job.id}") from None
            return kept

        return await self._run(insert)

    async def get(self, job_id: ULID) -> Record:
        """The record of a job, see :meth:`Records.get <dispatch_memory_async.core.Records.get>`."""
        check_ulid("job_id", job_id)

        def select(db: sqlite3.Connection) -> Record:
            found = db.execute("SELECT body FROM records WHERE job = ?", (str(job_id),)).fetchone()
            if found is None:
                raise NotFoundError(f"there is no record of job {job_id}")
            return _decoder.decode(found[0])

        return await self._run(select)

    async def put(self, record: Record, if_version: int) -> Record:
        """Write a record, see :meth:`Records.put <dispatch_memory_async.core.Records.put>`."""
        check_kind("record", record, Record)
        check_kind("if_version", if_version, int)
        kept = altered(record, version=if_version + 1)

        def update(db: sqlite3.Connection) -> Record:
            job = str(record.job.id)
            with _transaction(db):
                done = db.execute(
                    f"UPDATE records SET version = ?, written = {NEXT_WRITE}, body = ? WHERE job = ? AND version = ?",  # noqa: S608
                    (kept.version, _encoder.encode(kept), job, if_version),
                )
            if done.rowcount:
                return kept
            found = db.execute("SELECT version FROM records WHERE job = ?", (job,)).fetchone()
            if found is None:
                raise NotFoundError(f"there is no record of job {job}")
            raise ConflictError(f"job {job} has version {found[0]}, expected {if_version}")

        return await self._run(update)

    async def list(self) -> tuple[ULID, ...]:
        """The jobs, see :meth:`Records.list <dispatch_memory_async.core.Records.list>`."""
        rows = await self._run(lambda db: db.execute("SELECT job FROM records ORDER BY place").fetchall())
        return tuple(ULID.from_str(job) for (job,) in rows)

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[AsyncIterator[ULID]]:
        """The jobs whose records are written, see :meth:`Records.watch <dispatch_memory_async.core.Records.watch>`."""
        last: int = await self._run(lambda db: db.execute(LAST_WRITE).fetchone()[0])
        async with aclosing(self._written_since(last)) as written:
            yield written

    async def _written_since(self, last: int) -> AsyncGenerator[ULID]:
        while True:
            rows = await self._run(_written_after(last))
            for job, last in rows:  # noqa: B007, PLR1704  # as far as it has been told
                yield ULID.from_str(job)
            if not rows:
                await anyio.sleep(self._poll)

    # in the worker thread

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await run_sync(self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock, self._told():
            return work(self._connection or self._open())

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise ClosedError(f"the records in {self._path} are closed")
        patience = PATIENCE.total_seconds()
        db = sqlite3.connect(self._path, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk
            with _transaction(db):
                self._migrate(db)
        except BaseException:
            db.close()
            raise
        self._connection = db
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        known, (found,) = len(MIGRATIONS), db.execute("PRAGMA user_version").fetchone()
        if found > known:
            newer = "a newer version of this library has written it"
            raise UnsupportedError(f"{self._path} has schema version {found}, expected at most {known}: {newer}")
        for script in MIGRATIONS[found:]:
            for statement in script.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {known}")

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
        except DispatchError:
            raise
        except sqlite3.DatabaseError as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_READONLY"):
                raise ReadOnlyError(f"{self._path} cannot be written: {error}") from error
            if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
                raise InvalidError(f"{self._path} holds no records: {error}") from error
            raise UnavailableError(f"{self._path}: {error}") from error


def _written_after(last: int) -> Callable[[sqlite3.Connection], list[tuple[str, int]]]:
    query = "SELECT job, written FROM records WHERE written > ? ORDER BY written"
    return lambda db: db.execute(query, (last,)).fetchall()


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
