"""The agenda: when each of many jobs is looked at again. It waits for nothing and calls nobody."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import NamedTuple

from ulid import ULID

from ..model import DispatchError, Observation, UnavailableError
from ..model.base import altered
from .look import Look
from .record import Record
from .status import Status, WaitingFor
from .steps import Step, Wait

__all__ = ("Agenda", "Made")

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=1)
"""How long it waits at first, and at most, while the scheduler is unavailable."""
FEW = 100
MOMENT = 0.001
"""What is over after a moment is over a little later, in seconds."""


class Made(NamedTuple):
    """What came of one step.

    :ivar version: the version of the record that it knows of
    :ivar refusal: what its act was answered, if it was not done
    :ivar raced: whether somebody else wrote the record first, so that nothing was done
    """

    status: Status
    step: Step
    version: int
    refusal: DispatchError | None = None
    raced: bool = False


class Known(NamedTuple):
    """What a job was like when it was last brought on: its record's version, what the look showed, what was done."""

    version: int
    objects: tuple[Observation, ...]
    step: Step | None = None


NEW = Known(0, ())


class Agenda:
    """Which jobs are to be brought on, and for how long there is nothing to do.

    A job is due when its record was written, the scheduler shows it otherwise than before, its wait is over, or its
    last step has done something. Whoever takes it says how that ended: by :meth:`made`, :meth:`failed`,
    :meth:`unanswered` or :meth:`passed`.

    :param clock: gives the time by which a job waits, as an aware datetime
    :param time: gives the time in seconds, by a clock that nobody sets back
    :param poll: how often all jobs are looked at
    :param concurrency: how many are brought on at the same time
    """

    def __init__(
        self, *, clock: Callable[[], datetime], time: Callable[[], float], poll: timedelta, concurrency: int
    ) -> None:
        self._clock = clock
        self._time = time
        self._poll = poll.total_seconds()
        self._concurrency = concurrency
        self._jobs: dict[ULID, Known] = {}
        """The jobs without a verdict."""
        self._due: dict[ULID, bool] = {}
        """The jobs that are due; ``False`` if only because their records were written, perhaps by ourselves."""
        self._alarms: dict[ULID, float] = {}
        """When each job that waits is due again."""
        self._later: list[tuple[float, ULID]] = []
        """The same in order; one that is not among the alarms is out of date."""
        self._taken: dict[ULID, bool] = {}
        """The jobs that are being brought on, and whether for more than their records."""
        self._sweeping = False
        self._sweep_at = self._calm_at = -inf
        self.quiet_until: float = -inf
        """Until when the scheduler is left alone, as it did not answer."""
        self._first = min(self._poll, FIRST.total_seconds())
        self.delay: float = self._first
        """For how many seconds."""

    # what makes a job due

    def wake(self, job_id: ULID) -> None:
        """It is due, whatever it waits for."""
        self._due[job_id] = True
        self._alarms.pop(job_id, None)

    def written(self, job_id: ULID) -> None:
        """Its record was written, perhaps by ourselves."""
        self._due.setdefault(job_id, False)

    def told(self, seen: Observation) -> None:
        """The scheduler tells of an object."""
        known = self._jobs.get(seen.job_id)
        looked_at = seen.job_id in self._taken  # perhaps before this
        if looked_at or (known and _timeless((seen,))[0] not in known.objects):
            self.wake(seen.job_id)

    def listening(self) -> None:
        """From here on the scheduler tells of every change: what has changed before is to be looked at."""
        self._sweep_at = -inf

    def sweep(self) -> list[ULID] | None:
        """The jobs that are to be looked at, as it is time to look at all; ``None`` if it is not."""
        now = self._time()
        if now < max(self._sweep_at, self.quiet_until) or self._sweeping:
            return None
        self._ring(now)
        self._sweep_at, self._sweeping = now + self._poll, True
        return [job_id for job_id in self._jobs if job_id not in self._due]

    def swept(self, looks: Mapping[ULID, Look]) -> None:
        """What that look showed: those are due that show something new."""
        self._sweeping = False
        for job_id, look in looks.items():
            if look.complete and job_id in self._jobs and _timeless(look.objects) != self._jobs[job_id].objects:
                self.wake(job_id)

    def unswept(self) -> None:
        """That look was not answered: it is made again once the scheduler is no longer left alone."""
        self._sweeping = False
        self._sweep_at = -inf
        self.be_quiet()

    # who is brought on

    def take(self) -> tuple[ULID, ...]:
        """Those that are due, as many as there is room for. From here on, what happens to them makes them due again."""
        now = self._time()
        if now < self.quiet_until:
            return ()
        self._ring(now)
        batch = tuple(islice(self._free(), self._concurrency - len(self._taken)))
        for job_id in batch:
            self._taken[job_id] = self._due.pop(job_id)
        return batch

    def passed(self, record: Record) -> bool:
        """Whether there is nothing to do for one that was taken, as its record says when it is read.

        Then that was all; one with a verdict is not known any more.
        """
        job_id = record.job.id
        if record.verdict:
            self._jobs.pop(job_id, None)
        elif self._taken[job_id] or self._jobs.get(job_id, NEW).version != record.version:
            return False
        del self._taken[job_id]
        return True

    def pause(self) -> float:
        """For how many seconds there is nothing to do, unless something happens."""
        now = self._time()
        if now < self.quiet_until:
            return self.quiet_until - now
        if len(self._taken) < self._concurrency and any(True for _ in self._free()):
            return 0
        moments = [at for at, _ in self._later[:1]] + [self._sweep_at] * (not self._sweeping)
        return max(min(moments, default=inf) - now, 0)

    def _ring(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            at, job_id = heappop(self._later)
            if self._alarms.get(job_id) == at:
                self.wake(job_id)

    def _free(self) -> Iterator[ULID]:
        return (job_id for job_id in self._due if job_id not in self._taken)

    # how it ended

    def made(self, job_id: ULID, look: Look, made: Made) -> None:
        """It was brought on: that says when it is due again."""
        status, step, version, refusal, raced = made
        before = self._jobs.get(job_id, NEW)
        self._jobs[job_id] = Known(version, _timeless(look.objects), step)
        if status.verdict:
            del self._jobs[job_id]
        elif isinstance(refusal, UnavailableError) or status.waiting_for is WaitingFor.LOOK:
            self.be_quiet()
            self.wake(job_id)
        elif raced:
            self.wake(job_id)
        elif refusal or status.waiting_for is WaitingFor.CESSATION:
            self._put_off(job_id, self._poll)
        elif isinstance(step, Wait):
            if step.until:
                self._put_off(job_id, (step.until - self._clock()).total_seconds() + MOMENT)
        elif step == before.step and look.objects and _timeless(look.objects) == before.objects:
            self._put_off(job_id, self._poll)  # it was done, and does not show yet
        else:
            self.wake(job_id)
        del self._taken[job_id]

    def failed(self, job_id: ULID) -> None:
        """Something went wrong with it: it is tried again after a poll."""
        del self._taken[job_id]
        self._put_off(job_id, self._poll)

    def unanswered(self, job_id: ULID) -> None:
        """The scheduler does not answer: it is still due."""
        del self._taken[job_id]
        self.wake(job_id)

    def be_quiet(self) -> None:
        """Leave the scheduler alone for a while, twice as long as the last time if that is not long ago."""
        now = self._time()
        if now < self.quiet_until:
            return
        self.delay = min(2 * self.delay, LONGEST.total_seconds()) if now < self._calm_at else self._first
        self.quiet_until = now + self.delay
        self._calm_at = self.quiet_until + 2 * self.delay

    def _put_off(self, job_id: ULID, seconds: float) -> None:
        self._alarms[job_id] = at = self._time() + max(seconds, MOMENT)
        if len(self._later) > 2 * len(self._alarms) + FEW:  # most of them are out of date
            self._later = [(at, job_id) for job_id, at in self._alarms.items()]
            heapify(self._later)
        else:
            heappush(self._later, (at, job_id))


def _timeless(objects: tuple[Observation, ...]) -> tuple[Observation, ...]:
    """Observations without the moment at which they were made."""
    return tuple([altered(seen, observed_at=None) for seen in objects])
