"""The looker: how a job is looked at through an adapter, one job or many at once."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

import anyio
from ulid import ULID

from ..model import Capabilities, ClosedError, Observation, OutcomeUnknownError, Support, Tristate, UnavailableError
from ..model.base import altered
from ..spi import INTERFACES, Adapter, CessationSignal, MultiFinder
from .look import Look, has

__all__ = ("Looker",)

_logger = logging.getLogger(__name__)

NO_ANSWER = (UnavailableError, OutcomeUnknownError)
LONG = timedelta(days=1)
UNKNOWN = Capabilities(support={}, rules={}, native={}, call_bound=timedelta(0))
"""What a cluster can do that does not answer; without a complete look nothing depends on it."""


class Looker:
    """Looks at jobs. What the scheduler does not answer makes a look that is not complete.

    :param adapter: the scheduler
    :param clock: gives the time, as an aware datetime
    """

    def __init__(self, adapter: Adapter, clock: Callable[[], datetime]) -> None:
        self._adapter = adapter
        self._clock = clock
        self._lacking = [able for able, interface in INTERFACES.items() if not isinstance(adapter, interface)]

    async def capabilities(self) -> Capabilities:
        """What the cluster can do and the adapter has a call for."""
        said = await self._adapter.capabilities()
        if not any(has(said, able) for able in self._lacking):
            return said
        return altered(said, support={**said.support, **dict.fromkeys(self._lacking, Support(value=Tristate.NO))})

    async def first(self, job_id: ULID) -> tuple[Capabilities, Look]:
        """What the cluster can do, and a look at one job: not a complete one, if either is not answered."""
        try:
            return await self.capabilities(), await self.one(job_id)
        except NO_ANSWER:
            return UNKNOWN, Look(began_at=self._clock(), complete=False)

    async def one(self, job_id: ULID) -> Look:
        """A look at one job's objects."""
        empty = Look(began_at=self._clock())
        try:
            return altered(empty, objects=await self._adapter.find(job_id))
        except NO_ANSWER:
            return altered(empty, complete=False)

    async def many(
        self, job_ids: Sequence[ULID], concurrency: int = 1, patience: timedelta = LONG
    ) -> Mapping[ULID, Look]:
        """A look at each of many jobs: in one call, where the adapter has such a one, else so many at the same time.

        :param patience: how long to wait for one job's answer
        :raises UnavailableError: if the one call is not answered
        """
        empty = Look(began_at=self._clock())
        if isinstance(self._adapter, MultiFinder):
            found: Mapping[ULID, tuple[Observation, ...]] = await self._adapter.find_many(job_ids)
            return {job_id: altered(empty, objects=found[job_id]) for job_id in job_ids}
        looks = dict.fromkeys(job_ids, altered(empty, complete=False))
        limiter = anyio.CapacityLimiter(concurrency)

        async def one(job_id: ULID) -> None:
            async with limiter:
                with anyio.move_on_after(patience.total_seconds()):
                    try:
                        looks[job_id] = await self.one(job_id)
                    except ClosedError:
                        raise
                    except Exception:
                        _logger.exception("job %s cannot be looked at", job_id)

        async with anyio.create_task_group() as group:
            for job_id in job_ids:
                group.start_soon(one, job_id)
        return looks

    async def ask(self, job_id: ULID, look: Look) -> Look:
        """The look with the answer to whether every execution of the job has ceased; the signal must be there."""
        try:
            signal = await cast("CessationSignal", self._adapter).cessation(job_id)
        except NO_ANSWER:
            return altered(look, complete=False)
        return altered(look, ceased=signal.ceased)
