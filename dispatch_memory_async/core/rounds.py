"""The rounds: when which of many jobs is looked at again, and how many are brought on at once."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import NamedTuple, Never, TypeVar

import anyio
from anyio.abc import TaskGroup
from ulid import ULID

from ..following import resubscribing
from ..model import Capabilities, Capability, ClosedError, DispatchError, Observation, UnavailableError
from ..model.base import altered
from ..spi import Adapter, MultiFinder, Watcher
from .look import Look, has
from .looker import NO_ANSWER, Looker
from .record import Record
from .records import Records
from .status import Status, WaitingFor
from .steps import Step, Wait

__all__ = ("Made", "Rounds")

_logger = logging.getLogger(__name__)

T = TypeVar("T")
FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=1)
"""How long it waits at first, and at most, while the scheduler is unavailable."""
MOMENT = 0.001
"""What is over after a moment is over a little later, in seconds."""


class Made(NamedTuple):
    """What came of one step, and the version of the record that it knows of."""

    status: Status
    step: Step
    version: int
    refusal: DispatchError | None = None


class Known(NamedTuple):
    """What a job was like when it was last brought on: its record's version, what the look showed, what was done."""

    version: int
    objects: tuple[Observation, ...]
    step: Step | None = None


NEW = Known(0, ())


class Rounds:
    """Brings on the jobs that something has happened to, and no others.

    A job is due when its record was written, the scheduler shows it otherwise than before, its wait is over, or its
    last step has done something. Those that are due are looked at together, as many as there is room for. How long is
    waited is measured by the event loop's clock, which nobody sets back. Whatever an adapter or the records raise costs
    no more than a wait: of one job, or of all if nothing is answered.
    """

    def __init__(
        self,
        adapter: Adapter,
        records: Records,
        looker: Looker,
        bring_on: Callable[[Record, Look, Capabilities], Awaitable[Made]],
        *,
        clock: Callable[[], datetime],
        poll: timedelta,
        concurrency: int,
        patience: timedelta,
    ) -> None:
        self._adapter = adapter
        self._records = records
        self._looker = looker
        self._bring_on = bring_on
        self._clock = clock
        self._poll = poll
        self._concurrency = concurrency
        self._patience = patience
        self._jobs: dict[ULID, Known] = {}
        """The jobs without a verdict."""
        self._due: dict[ULID, bool] = {}
        """The jobs that are due; ``False`` if only because their records were written, perhaps by ourselves."""
        self._alarms: dict[ULID, float] = {}
        """When each job that waits is due again."""
        self._later: list[tuple[float, ULID]] = []
        """The same in order; one that is not among the alarms is out of date."""
        self._busy: set[ULID] = set()
        self._news = anyio.Event()
        self._sweeping = False
        self._sweep_at = self._quiet_until = self._calm_at = -inf
        self._delay = self._first = min(poll, FIRST).total_seconds()

    async def run(self) -> None:
        """Go on until cancelled.

        :raises ClosedError: if the adapter or the records are closed
        """
        try:
            async with self._records.watch() as changes, anyio.create_task_group() as group:
                self._due |= dict.fromkeys(await self._records.list(), True)
                group.start_soon(self._hear_of_records, changes)
                group.start_soon(self._hear_of_objects)
                await self._go_on(group)
        except BaseExceptionGroup as errors:
            if closed := errors.subgroup(ClosedError):
                raise ClosedError("the supervisor ends, as its adapter or its records are closed") from closed
            raise

    async def _go_on(self, group: TaskGroup) -> Never:
        while True:
            self._news = anyio.Event()
            if anyio.current_time() >= self._quiet_until:
                await self._round(group)
            with anyio.move_on_after(self._pause()):
                await self._news.wait()

    async def _round(self, group: TaskGroup) -> None:
        now = anyio.current_time()
        while self._later and self._later[0][0] <= now:
            at, job_id = heappop(self._later)
            if self._alarms.get(job_id) == at:
                self._wake(job_id)
        if now >= self._sweep_at and not self._sweeping:
            self._sweep_at, self._sweeping = now + self._poll.total_seconds(), True
            group.start_soon(self._sweep)
        batch = [*islice(self._free(), self._concurrency - len(self._busy))]
        if batch:
            await self._begin(batch, group)

    async def _begin(self, batch: list[ULID], group: TaskGroup) -> None:
        """Look at some jobs, and let each be brought on by itself."""
        certain = {job_id for job_id in batch if self._due.pop(job_id)}
        # that was before they are looked at: what happens from here on makes them due again
        capabilities = await self._answer(self._looker.capabilities)
        if capabilities is None:
            self._due |= dict.fromkeys(batch, True)
            return
        records = [record for job_id in batch if (record := await self._to_be_seen(job_id, job_id in certain))]
        looks: Mapping[ULID, Look] = {}
        if isinstance(self._adapter, MultiFinder) and records:
            jobs = [record.job.id for record in records]
            looks = await self._answer(partial(self._looker.many, jobs)) or {}
        for record in records:
            job_id = record.job.id
            if job_id in looks or not isinstance(self._adapter, MultiFinder):
                self._busy.add(job_id)
                group.start_soon(self._one, record, looks.get(job_id), capabilities)
            else:
                self._due[job_id] = True

    def _free(self) -> Iterator[ULID]:
        return (job_id for job_id in self._due if job_id not in self._busy)

    def _pause(self) -> float:
        """For how many seconds there is nothing to do, unless something happens."""
        now = anyio.current_time()
        if now < self._quiet_until:
            return self._quiet_until - now
        if len(self._busy) < self._concurrency and any(True for _ in self._free()):
            return 0
        moments = [at for at, _ in self._later[:1]] + [self._sweep_at] * (not self._sweeping)
        return max(min(moments, default=inf) - now, 0)

    async def _to_be_seen(self, job_id: ULID, certain: bool) -> Record | None:
        """The record of a job that is to be looked at."""
        try:
            record = await self._records.get(job_id)
        except ClosedError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it is logged
            self._failed(job_id, error)
            return None
        if record.verdict:
            self._jobs.pop(job_id, None)
            return None
        return record if certain or self._jobs.get(job_id, NEW).version != record.version else None

    async def _one(self, record: Record, look: Look | None, capabilities: Capabilities) -> None:
        job_id = record.job.id
        try:
            with anyio.fail_after((2 * self._patience + capabilities.call_bound).total_seconds()):
                look = look or await self._looker.one(job_id)
                made = await self._bring_on(record, look, capabilities)
            self._note(job_id, look, made)
        except ClosedError:
            raise
        except TimeoutError:
            _logger.warning("job %s: a call is not answered; if it was an act, that is settled by looking", job_id)
            self._put_off(job_id, self._poll.total_seconds())
        except Exception as error:  # noqa: BLE001  # whatever it is, it is logged
            self._failed(job_id, error)
        finally:
            self._busy.remove(job_id)
            self._news.set()

    def _failed(self, job_id: ULID, error: Exception) -> None:
        """One job must not keep the others from going on."""
        _logger.error("job %s: its step failed", job_id, exc_info=error)
        self._put_off(job_id, self._poll.total_seconds())

    def _note(self, job_id: ULID, look: Look, made: Made) -> None:
        """When a job is looked at again."""
        status, step, version, refusal = made
        before = self._jobs.get(job_id, NEW)
        self._jobs[job_id] = Known(version, _timeless(look.objects), step)
        if status.verdict:
            del self._jobs[job_id]
        elif isinstance(refusal, UnavailableError) or status.waiting_for is WaitingFor.LOOK:
            self._be_quiet()
            self._wake(job_id)
        elif refusal or status.waiting_for is WaitingFor.CESSATION:
            self._put_off(job_id, self._poll.total_seconds())
        elif isinstance(step, Wait):
            if step.until:
                self._put_off(job_id, (step.until - self._clock()).total_seconds() + MOMENT)
        elif step == before.step and look.objects and _timeless(look.objects) == before.objects:
            self._put_off(job_id, self._poll.total_seconds())  # it was done, and does not show yet
        else:
            self._wake(job_id)

    def _put_off(self, job_id: ULID, seconds: float) -> None:
        self._alarms[job_id] = at = anyio.current_time() + max(seconds, MOMENT)
        heappush(self._later, (at, job_id))

    def _be_quiet(self) -> None:
        """Leave the scheduler alone for a while, twice as long as the last time if that is not long ago."""
        now = anyio.current_time()
        if now < self._quiet_until:
            return
        self._delay = min(2 * self._delay, LONGEST.total_seconds()) if now < self._calm_at else self._first
        self._quiet_until = now + self._delay
        self._calm_at = self._quiet_until + 2 * self._delay
        _logger.warning("no answer, the next try is in %g s", self._delay)

    # what makes a job due

    def _wake(self, job_id: ULID) -> None:
        self._due[job_id] = True
        self._alarms.pop(job_id, None)
        self._news.set()

    async def _sweep(self) -> None:
        """Look at all jobs at once: those are due that show something new."""
        try:
            jobs = [job_id for job_id in self._jobs if job_id not in self._due]
            looks: Mapping[ULID, Look] = {}
            if isinstance(self._adapter, MultiFinder):
                looks = (await self._answer(partial(self._looker.many, jobs)) if jobs else None) or {}
            else:
                looks = await self._looker.many(jobs, self._concurrency, self._patience)
                if jobs and not any(look.complete for look in looks.values()):
                    self._be_quiet()
            for job_id, look in looks.items():
                if look.complete and job_id in self._jobs and _timeless(look.objects) != self._jobs[job_id].objects:
                    self._wake(job_id)
        finally:
            self._sweeping = False
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
        self._be_quiet()
        return None

    async def _hear_of_records(self, changes: AsyncIterator[ULID]) -> Never:
        while True:
            with self._survived("what the records tell"):
                async for job_id in changes:
                    self._due.setdefault(job_id, False)
                    self._news.set()
            await anyio.sleep(self._poll.total_seconds())

    async def _hear_of_objects(self) -> None:
        adapter = self._adapter
        while isinstance(adapter, Watcher):
            with self._survived("what the scheduler tells"):
                if not has(await self._looker.capabilities(), Capability.WATCH):
                    return
                async for seen in resubscribing(adapter):
                    known = self._jobs.get(seen.job_id)
                    if known and _timeless((seen,))[0] not in known.objects:
                        self._wake(seen.job_id)
            await anyio.sleep(self._poll.total_seconds())  # meanwhile the sweep sees what is not told

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


def _timeless(objects: tuple[Observation, ...]) -> tuple[Observation, ...]:
    """Observations without the moment at which they were made."""
    return tuple([altered(seen, observed_at=None) for seen in objects])
