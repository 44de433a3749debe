"""The rounds: when which of many jobs is looked at again, and how many are brought on at once."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple, Never

import anyio
from anyio.abc import TaskGroup
from ulid import ULID

from ..following import resubscribing
from ..model import Capabilities, Capability, DispatchError, Observation, UnavailableError
from ..model.base import altered
from ..spi import Adapter, Watcher
from .look import Look, has
from .looker import NO_ANSWER, Looker
from .record import Record
from .records import Records
from .status import Status, WaitingFor
from .steps import Step, Wait

__all__ = ("Made", "Rounds")

_logger = logging.getLogger(__name__)

LONGEST = timedelta(minutes=1)
"""How long it waits at most while the scheduler is unavailable, if it does not poll more seldom anyway."""
MOMENT = timedelta(milliseconds=1)
"""What is over after a moment is over a little later."""


class Made(NamedTuple):
    """What came of one step, and the version of the record that it knows of."""

    status: Status
    step: Step
    version: int
    refusal: DispatchError | None = None


class Known(NamedTuple):
    """What a job was like when it was last brought on: its record's version, and what the look showed."""

    version: int
    objects: tuple[Observation, ...]


NEW = Known(0, ())


class Rounds:
    """Brings on the jobs that something has happened to, and no others.

    A job is due when its record was written, the scheduler shows it otherwise than before, its wait is over, or its
    last step has done something. Those that are due are looked at together, as many as there is room for.
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
        self._later: list[tuple[datetime, ULID]] = []
        self._busy: set[ULID] = set()
        self._news = anyio.Event()
        self._quiet_until = self._calm_at = self._sweep_at = clock()
        self._delay = poll

    async def run(self) -> None:
        """Go on until cancelled."""
        async with self._records.watch() as changes, anyio.create_task_group() as group:
            self._due |= dict.fromkeys(await self._records.list(), True)
            group.start_soon(self._hear_of_records, changes)
            group.start_soon(self._hear_of_objects)
            await self._go_on(group)

    async def _go_on(self, group: TaskGroup) -> Never:
        while True:
            self._news = anyio.Event()
            if self._clock() >= self._quiet_until:
                await self._round(group)
            with anyio.move_on_after(self._pause()):
                await self._news.wait()

    async def _round(self, group: TaskGroup) -> None:
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            self._wake(heappop(self._later)[1])
        if now >= self._sweep_at:
            self._sweep_at = now + self._poll
            await self._sweep()
        batch = [*islice(self._free(), self._concurrency - len(self._busy))]
        if batch:
            await self._begin(batch, group)

    async def _begin(self, batch: list[ULID], group: TaskGroup) -> None:
        """Look at some jobs, and let each be brought on by itself."""
        certain = {job_id for job_id in batch if self._due.pop(job_id)}
        # that was before they are looked at: what happens from here on makes them due again
        try:
            capabilities = await self._looker.capabilities()
            records = [await self._records.get(job_id) for job_id in batch]
            records = [record for record in records if self._is_to_be_seen(record, record.job.id in certain)]
            looks = await self._look([record.job.id for record in records])
        except NO_ANSWER:
            self._be_quiet()
            self._due |= dict.fromkeys(batch, True)
            return
        for record in records:
            job_id = record.job.id
            if job_id in looks:
                self._busy.add(job_id)
                group.start_soon(self._one, record, looks[job_id], capabilities)
            else:
                self._due[job_id] = True

    def _is_to_be_seen(self, record: Record, certain: bool) -> bool:  # a set would say it no better
        job_id = record.job.id
        if record.verdict:
            self._jobs.pop(job_id, None)
            return False
        return certain or self._jobs.get(job_id, NEW).version != record.version

    def _free(self) -> Iterator[ULID]:
        return (job_id for job_id in self._due if job_id not in self._busy)

    def _pause(self) -> float:
        """For how many seconds there is nothing to do, unless something happens."""
        now = self._clock()
        if now < self._quiet_until:
            return (self._quiet_until - now).total_seconds()
        if len(self._busy) < self._concurrency and any(True for _ in self._free()):
            return 0
        return (min([self._sweep_at, *(when for when, _ in self._later[:1])]) - now).total_seconds()

    async def _one(self, record: Record, look: Look, capabilities: Capabilities) -> None:
        job_id = record.job.id
        try:
            with anyio.fail_after((2 * self._patience + capabilities.call_bound).total_seconds()):
                made = await self._bring_on(record, look, capabilities)
            self._note(job_id, look, made)
        except TimeoutError:  # a call hangs: its act is settled by looking
            self._be_quiet()
            self._wake(job_id)
        except Exception:
            _logger.exception("job %s: its step failed", job_id)  # one job must not keep the others from going on
            heappush(self._later, (self._clock() + self._poll, job_id))
        finally:
            self._busy.remove(job_id)
            self._news.set()

    def _note(self, job_id: ULID, look: Look, made: Made) -> None:
        """When a job is looked at again."""
        status, step, version, refusal = made
        self._jobs[job_id] = Known(version, _timeless(look.objects))
        if status.verdict:
            del self._jobs[job_id]
        elif isinstance(refusal, UnavailableError) or status.waiting_for is WaitingFor.LOOK:
            self._be_quiet()
            self._wake(job_id)
        elif refusal or status.waiting_for is WaitingFor.CESSATION:
            heappush(self._later, (self._clock() + self._poll, job_id))
        elif not isinstance(step, Wait):
            self._wake(job_id)
        elif step.until:
            heappush(self._later, (step.until + MOMENT, job_id))

    def _be_quiet(self) -> None:
        """Leave the scheduler alone for a while, twice as long as the last time if that is not long ago."""
        now = self._clock()
        if now < self._quiet_until:
            return
        self._delay = min(2 * self._delay, max(LONGEST, self._poll)) if now < self._calm_at else self._poll
        self._quiet_until = now + self._delay
        self._calm_at = self._quiet_until + 2 * self._delay
        _logger.warning("no answer, the next try is in %s", self._delay)

    # what makes a job due

    def _wake(self, job_id: ULID) -> None:
        self._due[job_id] = True
        self._news.set()

    async def _sweep(self) -> None:
        """Look at all jobs at once: those are due that show something new."""
        looks = await self._look([job_id for job_id in self._jobs if job_id not in self._due])
        for job_id, look in looks.items():
            if job_id in self._jobs and _timeless(look.objects) != self._jobs[job_id].objects:
                self._wake(job_id)

    async def _look(self, job_ids: Sequence[ULID]) -> Mapping[ULID, Look]:
        """A look at each of some jobs that the scheduler answers."""
        if not job_ids:
            return {}
        looks = await self._looker.many(job_ids, patience=self._patience, concurrency=self._concurrency)
        complete = {job_id: look for job_id, look in looks.items() if look.complete}
        if len(complete) < len(job_ids):
            self._be_quiet()
        return complete

    async def _hear_of_records(self, changes: AsyncIterator[ULID]) -> None:
        async for job_id in changes:
            self._due.setdefault(job_id, False)
            self._news.set()

    async def _hear_of_objects(self) -> None:
        adapter = self._adapter
        if not (isinstance(adapter, Watcher) and has(await self._looker.capabilities(), Capability.WATCH)):
            return
        while True:
            try:
                async for seen in resubscribing(adapter):
                    known = self._jobs.get(seen.job_id)
                    if known and _timeless((seen,))[0] not in known.objects:
                        self._wake(seen.job_id)
            except NO_ANSWER:
                pass  # the sweep sees what the watch does not tell
            await anyio.sleep(self._poll.total_seconds())


def _timeless(objects: tuple[Observation, ...]) -> tuple[Observation, ...]:
    """Observations without the moment at which they were made."""
    return tuple([altered(seen, observed_at=None) for seen in objects])
