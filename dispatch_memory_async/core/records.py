"""Where records are kept: the protocol, and the records of one process, in memory."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, Self

import anyio
from anyio.lowlevel import checkpoint
from ulid import ULID

from ..model import AlreadyExistsError, DispatchError, InvalidError, NotFoundError
from ..model.base import altered
from ..model.checks import check_kind, check_ulid
from ..model.kinds import LARGEST
from ..model.texts import short
from .record import Record

__all__ = ("ConflictError", "MemoryRecords", "Records", "check_version")


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

        A job whose record was written several times between two steps may come once. A step that is cancelled loses
        nothing: the next one goes on.
        """
        ...


class MemoryRecords:
    """Records in memory, for one process and one event loop."""

    def __init__(self) -> None:
        self._records: dict[ULID, Record] = {}
        self._watchers: list[_Changes] = []

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
        check_version(if_version)
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
        changes = _Changes()
        self._watchers.append(changes)
        try:
            yield changes
        finally:
            self._watchers.remove(changes)

    def _find(self, job_id: ULID) -> Record:
        try:
            return self._records[job_id]
        except KeyError:
            raise NotFoundError(f"there is no record of job {job_id}") from None

    def _keep(self, record: Record) -> Record:
        self._records[record.job.id] = record
        for changes in self._watchers:
            changes.add(record.job.id)
        return record


class _Changes:
    """The jobs whose records were written and that have not been told yet. A step that is cancelled has lost none."""

    def __init__(self) -> None:
        self._jobs: dict[ULID, None] = {}
        self._news = anyio.Event()

    def add(self, job_id: ULID) -> None:
        self._jobs[job_id] = None
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ULID:
        while not self._jobs:
            if self._news.is_set():
                self._news = anyio.Event()
            await self._news.wait()
        job_id = next(iter(self._jobs))
        del self._jobs[job_id]
        return job_id


def check_version(found: object) -> None:
    """Refuse what is no record's version.

    :raises InvalidError: if it is none
    """
    if type(found) is not int or not 0 <= found < LARGEST:
        raise InvalidError(f"if_version: found {short(found)}, expected the version of a record")
