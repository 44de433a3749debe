"""Where records are kept: the protocol, and the records of one process, in memory."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint
from ulid import ULID

from ..model import AlreadyExistsError, DispatchError, InvalidError, NotFoundError
from ..model.base import altered
from ..model.checks import check_kind, check_ulid
from .record import Record

__all__ = ("ConflictError", "MemoryRecords", "Records")


class ConflictError(DispatchError):
    """Somebody else has written the record meanwhile."""


class Records(Protocol):
    """Where records are kept. What a call has answered is durable; a call that raised has changed nothing."""

    async def create(self, record: Record) -> Record:
        """Put down a new job.

        :return: the record, with version 1
        :raises AlreadyExistsError: if there is a record of that job
        """
        ...

    async def get(self, job_id: ULID) -> Record:
        """The record of a job.

        :raises NotFoundError: if there is none
        """
        ...

    async def put(self, record: Record, if_version: int) -> Record:
        """Write a record, if it has not been written since it had that version.

        :return: the record, with the next version
        :raises ConflictError: if it has
        :raises NotFoundError: if there is none
        """
        ...

    async def list(self) -> tuple[ULID, ...]:
        """The jobs of which there is a record, in the order in which they were created."""
        ...

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[ULID]]:
        """The jobs whose records are written from entering the context on, created ones among them.

        A job whose record was written several times between two steps may come once.
        """
        ...


class MemoryRecords:
    """Records in memory, for one process and one event loop."""

    def __init__(self) -> None:
        self._records: dict[ULID, Record] = {}
        self._changed: dict[ULID, None] = {}
        self._watchers: list[dict[ULID, None]] = []
        self._news = anyio.Event()

    async def create(self, record: Record) -> Record:
        """Put down a new job, see :meth:`Records.create`."""
        check_kind("record", record, Record)
        await checkpoint()
        if record.job.id in self._records:
            raise AlreadyExistsError(f"there is a record of job {record.job.id}")
        return self._keep(altered(record, version=1))

    async def get(self, job_id: ULID) -> Record:
        """The record of a job, see :meth:`Records.get`."""
        check_ulid("job_id", job_id)
        await checkpoint()
        return self._find(job_id)

    async def put(self, record: Record, if_version: int) -> Record:
        """Write a record, see :meth:`Records.put`."""
        check_kind("record", record, Record)
        if type(if_version) is not int:
            raise InvalidError(f"if_version: found {if_version!r}, expected an integer")
        await checkpoint()
        found = self._find(record.job.id)
        if found.version != if_version:
            raise ConflictError(f"job {record.job.id} has version {found.version}, expected {if_version}")
        return self._keep(altered(record, version=if_version + 1))

    async def list(self) -> tuple[ULID, ...]:
        """The jobs, see :meth:`Records.list`."""
        await checkpoint()
        return tuple(self._records)

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[AsyncIterator[ULID]]:
        """The jobs whose records are written, see :meth:`Records.watch`."""
        changed: dict[ULID, None] = {}
        self._watchers.append(changed)
        try:
            async with aclosing(self._told(changed)) as told:
                yield told
        finally:
            self._watchers[:] = [other for other in self._watchers if other is not changed]

    async def _told(self, changed: dict[ULID, None]) -> AsyncGenerator[ULID]:
        while True:
            news = self._news
            while changed:
                job_id = next(iter(changed))
                del changed[job_id]
                yield job_id
            if self._news is news:
                await news.wait()

    def _find(self, job_id: ULID) -> Record:
        try:
            return self._records[job_id]
        except KeyError:
            raise NotFoundError(f"there is no record of job {job_id}") from None

    def _keep(self, record: Record) -> Record:
        self._records[record.job.id] = record
        for changed in self._watchers:
            changed[record.job.id] = None
        news, self._news = self._news, anyio.Event()
        news.set()
        return record
