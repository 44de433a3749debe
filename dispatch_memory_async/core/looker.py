"""The looker: how a job is looked at through an adapter, one job or many at once."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import cast

from ulid import ULID

from ..model import Observation, OutcomeUnknownError, UnavailableError
from ..model.base import altered
from ..spi import Adapter, CessationSignal, MultiFinder
from .look import Look

__all__ = ("Looker",)

NO_ANSWER = (UnavailableError, OutcomeUnknownError)


class Looker:
    """Looks at jobs. What the scheduler does not answer makes a look that is not complete.

    :param adapter: the scheduler
    :param clock: gives the time, as an aware datetime
    """

    def __init__(self, adapter: Adapter, clock: Callable[[], datetime]) -> None:
        self._adapter = adapter
        self._clock = clock

    async def one(self, job_id: ULID) -> Look:
        """A look at one job's objects."""
        began_at = self._clock()
        try:
            return Look(began_at=began_at, objects=await self._adapter.find(job_id))
        except NO_ANSWER:
            return Look(began_at=began_at, complete=False)

    async def many(self, job_ids: Sequence[ULID]) -> Mapping[ULID, Look]:
        """A look at each of many jobs: in one call, where the adapter has such a one."""
        if not isinstance(self._adapter, MultiFinder):
            return {job_id: await self.one(job_id) for job_id in job_ids}
        began_at = self._clock()
        try:
            found: Mapping[ULID, tuple[Observation, ...]] = await self._adapter.find_many(job_ids)
        except NO_ANSWER:
            return {job_id: Look(began_at=began_at, complete=False) for job_id in job_ids}
        return {job_id: Look(began_at=began_at, objects=found[job_id]) for job_id in job_ids}

    async def ask(self, job_id: ULID, look: Look) -> Look:
        """The look with the answer to whether every execution of the job has ceased; the signal must be there."""
        try:
            signal = await cast("CessationSignal", self._adapter).cessation(job_id)
        except NO_ANSWER:
            return altered(look, complete=False)
        return altered(look, ceased=signal.ceased)
