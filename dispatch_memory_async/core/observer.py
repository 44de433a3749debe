"""The observer: what is known of jobs, for whoever asks. It changes nothing."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
from ulid import ULID

from ..model import Capability, InvalidError
from ..model.base import altered
from ..model.checks import check_kind
from ..spi import Adapter
from .absorbing import absorb
from .folding import fold
from .look import has
from .looker import Looker
from .record import SKEW
from .records import Records
from .status import Status

__all__ = ("Observer",)


class Observer:
    """What is known of jobs: the record and a look, made into one value. It writes nothing and does nothing.

    :param adapter: the scheduler
    :param records: where the records are kept
    :param clock: gives the time, as an aware datetime
    :param poll: how often :meth:`watch` looks when nothing is written
    :param skew: by how much the clocks of those who share the records may differ
    """

    def __init__(
        self,
        adapter: Adapter,
        records: Records,
        *,
        clock: Callable[[], datetime] = partial(datetime.now, UTC),  # noqa: B008  # read anew at every look
        poll: timedelta = timedelta(seconds=5),
        skew: timedelta = SKEW,
    ) -> None:
        for name, span in (("poll", poll), ("skew", skew)):
            check_kind(name, span, timedelta)
            if span < timedelta(0) or (span == timedelta(0) and name == "poll"):
                raise InvalidError(f"{name}: found {span}, expected more")
        self._records = records
        self._clock = clock
        self._poll = poll
        self._skew = skew
        self._looker = Looker(adapter, clock)

    async def get(self, job_id: ULID) -> Status:
        """What is known of a job.

        :raises NotFoundError: if there is no record of it
        """
        record = await self._records.get(job_id)
        capabilities, look = await self._looker.first(job_id)
        if look.complete and has(capabilities, Capability.CESSATION):
            look = await self._looker.ask(job_id, look)
        now = self._clock()
        absorbed = absorb(record, look, capabilities, now, skew=self._skew)
        return fold(absorbed, look, capabilities, now, skew=self._skew)

    async def list(self) -> tuple[ULID, ...]:
        """All jobs, in the order in which they were submitted."""
        return await self._records.list()

    async def watch(self, job_id: ULID) -> AsyncIterator[Status]:
        """What is known of a job, now and whenever that changes; it ends with the verdict."""
        known: Status | None = None
        while known is None or known.verdict is None:
            async with self._records.watch() as changes:  # begun before the look: nothing falls in between
                status = await self.get(job_id)
                if known is None or _timeless(status) != _timeless(known):
                    known = status
                    yield status
                    continue
                with anyio.move_on_after(self._poll.total_seconds()):
                    async for changed in changes:
                        if changed == job_id:
                            break


def _timeless(status: Status) -> Status:
    """A status without the moments of its look."""
    seen = status.chosen and altered(status.chosen, observed_at=None)
    others = tuple(altered(extra, observed_at=None) for extra in status.extras)
    return altered(status, as_of=None, chosen=seen, extras=others)
