"""The rounds: many jobs are looked at and brought on side by side, each within its bounds of time."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from math import inf
from typing import Never, TypeVar

import anyio
from anyio.abc import TaskGroup
from ulid import ULID

from ..following import resubscribing
from ..model import Capabilities, Capability, ClosedError
from ..spi import Adapter, MultiFinder, Watcher
from .agenda import Agenda, Made
from .look import Look, has
from .looker import NO_ANSWER, Looker
from .record import Record
from .records import Records

__all__ = ("Rounds",)

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class Rounds:
    """Brings on the jobs that are due by the agenda, and no others.

    Those that are due are looked at together. How long is waited is measured by the event loop's clock, which nobody
    sets back. Whatever an adapter or the records raise costs no more than a wait: of one job, or of all if nothing is
    answered.
    """

    def __init__(
        self,
        adapter: Adapter,
        records: Records,
        looker: Looker,
        bring_on: Callable[[Record, Look, Capabilities], Awaitable[Made]],
        agenda: Agenda,
        *,
        poll: timedelta,
        concurrency: int,
        patience: timedelta,
    ) -> None:
        self._adapter = adapter
        self._records = records
        self._looker = looker
        self._bring_on = bring_on
        self._agenda = agenda
        self._poll = poll.total_seconds()
        self._concurrency = concurrency
        self._patience = patience
        self._news = anyio.Event()

    async def run(self) -> None:
        """Go on until cancelled.

        :raises ClosedError: if the adapter or the records are closed
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hear_of_records)
                group.start_soon(self._hear_of_objects)
                await self._go_on(group)
        except BaseExceptionGroup as errors:
            if closed := errors.subgroup(ClosedError):
                raise ClosedError("the supervisor ends, as its adapter or its records are closed") from closed
            raise

    async def _go_on(self, group: TaskGroup) -> Never:
        quiet_until = -inf
        while True:
            self._news = anyio.Event()
            if (jobs := self._agenda.sweep()) is not None:
                group.start_soon(self._sweep, jobs)
            if batch := self._agenda.take():
                await self._begin(batch, group)
            if self._agenda.quiet_until > quiet_until:
                quiet_until = self._agenda.quiet_until
                _logger.warning("no answer, the next try is in %g s", self._agenda.delay)
            with anyio.move_on_after(self._agenda.pause()):
                await self._news.wait()

    async def _begin(self, batch: tuple[ULID, ...], group: TaskGroup) -> None:
        """Look at some jobs, and let each be brought on by itself."""
        capabilities = await self._answer(self._looker.capabilities)
        if capabilities is None:
            for job_id in batch:
                self._agenda.unanswered(job_id)
            return
        records = [record for job_id in batch if (record := await self._read(job_id))]
        looks: Mapping[ULID, Look] = {}
        if isinstance(self._adapter, MultiFinder) and records:
            looks = await self._answer(partial(self._looker.many, [record.job.id for record in records])) or {}
        for record in records:
            if record.job.id in looks or not isinstance(self._adapter, MultiFinder):
                group.start_soon(self._one, record, looks.get(record.job.id), capabilities)
            else:
                self._agenda.unanswered(record.job.id)

    async def _read(self, job_id: ULID) -> Record | None:
        try:
            with anyio.fail_after(self._patience.total_seconds()):
                record = await self._records.get(job_id)
        except ClosedError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it is logged
            self._failed(job_id, error)
            return None
        return None if self._agenda.passed(record) else record

    async def _one(self, record: Record, look: Look | None, capabilities: Capabilities) -> None:
        job_id = record.job.id
        try:
            with anyio.fail_after((2 * self._patience + capabilities.call_bound).total_seconds()):
                look = look or await self._looker.one(job_id)
                made = await self._bring_on(record, look, capabilities)
            self._agenda.made(job_id, look, made)
        except ClosedError:
            raise
        except TimeoutError:
            _logger.warning("job %s: a call is not answered; if it was an act, that is settled by looking", job_id)
            self._agenda.failed(job_id)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is logged
            self._failed(job_id, error)
        finally:
            self._news.set()

    def _failed(self, job_id: ULID, error: Exception) -> None:
        """One job must not keep the others from going on."""
        _logger.error("job %s: its step failed", job_id, exc_info=error)
        self._agenda.failed(job_id)

    async def _sweep(self, jobs: list[ULID]) -> None:
        """Look at all jobs at once."""
        looks: Mapping[ULID, Look] = {}
        try:
            if isinstance(self._adapter, MultiFinder):
                looks = (await self._answer(partial(self._looker.many, jobs)) if jobs else None) or {}
            else:
                looks = await self._looker.many(jobs, self._concurrency, self._patience)
        finally:
            if jobs and not any(look.complete for look in looks.values()):
                self._agenda.unswept()
            else:
                self._agenda.swept(looks)
            self._news.set()

    async def _answer(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """What the scheduler answers; if it does not, it is left alone for a while."""
        try:
            with anyio.fail_after(self._patience.total_seconds()):
                return await call()
        except ClosedError:
            raise
        except (*NO_ANSWER, TimeoutError):
            pass
        except Exception:
            _logger.exception("the scheduler cannot be looked at")
        self._agenda.be_quiet()
        return None

    async def _hear_of_records(self) -> Never:
        while True:
            with self._survived("what the records tell"):
                async with self._records.watch() as changes:
                    for job_id in await self._records.list():
                        self._agenda.wake(job_id)
                    self._news.set()
                    async for job_id in changes:
                        self._agenda.written(job_id)
                        self._news.set()
            await anyio.sleep(self._poll)

    async def _hear_of_objects(self) -> None:
        while isinstance(self._adapter, Watcher):
            with self._survived("what the scheduler tells"):
                if not has(await self._looker.capabilities(), Capability.WATCH):
                    return
                async with resubscribing(self._adapter) as changes:
                    self._agenda.listening()
                    self._news.set()
                    async for seen in changes:
                        self._agenda.told(seen)
                        self._news.set()
            await anyio.sleep(self._poll)  # meanwhile the sweep sees what is not told

    @contextmanager
    def _survived(self, what: str) -> Generator[None]:
        """A wake-up only: whatever goes wrong there, the work goes on."""
        try:
            yield
        except ClosedError:
            raise
        except NO_ANSWER as error:
            _logger.warning("%s is not to be had: %s", what, error)
        except Exception:
            _logger.exception("%s is not to be had", what)
