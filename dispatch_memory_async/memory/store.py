"""The store: every object, the ways to find one, what is due, and what is to be told. It knows no scheduler.

It is plain and synchronous; whoever holds it holds the lock.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

from ulid import ULID

from ..model import Cause, HoldMeta, Job, Observation, Ref, State
from ..model.base import altered
from .past import BEGINNING, Past
from .truth import Node

__all__ = ("Action", "Ending", "Store", "StoredExecution", "StoredObject")


@dataclass(slots=True, eq=False)
class StoredExecution:
    """One execution: its processes and the node under them."""

    serial: int
    """What its attempt is made from when somebody asks; the text would weigh as much as the rest."""
    epoch: int
    started_at: datetime
    ended_at: datetime | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    node: Node = "up"
    lost_at: datetime | None = None

    @property
    def alive(self) -> bool:
        """Whether its processes live."""
        return self.ended_at is None

    def die(self, at: datetime) -> None:
        """Its processes end; dead ones stay as they are."""
        if self.ended_at is None:
            self.ended_at = at


@dataclass(slots=True)
class Ending:
    """An end under way: where the object will go, why, and when."""

    due: datetime
    state: State
    cause: Cause


@dataclass(slots=True, eq=False)
class StoredObject:
    """One object, in all that any scheduler knows of it.

    ``requeue_bit`` and ``ending`` are Slurm's alone; ``native_restarts``, ``annotations``, ``active`` and ``arose_at``
    are Kubeflow's.
    """

    order: int
    job: Job
    submission: int
    ref: Ref
    shown: Observation
    """What was last told of it."""
    gated: bool = False
    requeue_bit: bool | None = None
    native_restarts: int = 0
    state: State = State.PENDING
    cause: Cause | None = None
    """Why it is running on or has ended."""
    waiting: Cause | None = None
    """Why it waits, where neither a gate nor a hold says so."""
    detail: str = ""
    hold: int | None = None
    annotations: HoldMeta | None = None
    admin_held: bool = False
    active: bool = True
    restarts: int = 0
    executions: tuple[StoredExecution, ...] = ()
    ending: Ending | None = None
    arose_at: datetime | None = None
    """When the cause arose, for as long as it can be read."""
    ended_at: datetime | None = None
    exit_code: int | None = None
    gone_at: datetime | None = None

    @property
    def latest(self) -> StoredExecution | None:
        """The latest execution."""
        return self.executions[-1] if self.executions else None


Action = Callable[..., None]
"""What is to be done at its due moment. It looks whether it still holds."""

Keys = Callable[[Ref], tuple[Hashable, Hashable]]
"""Gives an exact and a weak key for a ref."""

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class Store:
    """Objects, indexes, a heap of what is due, and the observations to be told.

    :param keys: the keys under which a ref's object is found once it is gone: an exact one and a weak one
    :param keep: how many gone objects are kept; ``None`` keeps all
    """

    def __init__(self, keys: Keys, keep: int | None) -> None:
        self._keys = keys
        self._keep = keep
        self._orders = count()
        self._serials = count()
        self._due: list[tuple[Any, ...]] = []
        self._retired: deque[StoredObject] = deque()
        self._gone_count = 0
        self.objects: dict[int, StoredObject] = {}
        """Every object, by its place in the order of start."""
        self.remembered: dict[str, StoredObject] = {}
        """Those that the scheduler knows, by id."""
        self._gone: dict[Hashable, dict[int, StoredObject]] = {}
        self._of_job: dict[ULID, StoredObject | dict[int, StoredObject]] = {}
        self._gone_of_job: dict[ULID, dict[int, StoredObject]] = {}
        self.told: list[Observation] = []
        """What watchers are to be told, in the order in which it happened."""
        self.now: datetime = BEGINNING
        """The time of the call that is under way."""
        self.moment: datetime = self.now
        """The moment at which what is being done takes effect: now, or the due moment of what has come due."""
        self.past: Past | None = None
        """What objects looked like, while reads lag."""

    # finding

    def remembered_of(self, job_id: ULID) -> tuple[StoredObject, ...]:
        """The job's remembered objects, in the order of start."""
        known = self._of_job.get(job_id)
        if known is None:
            return ()
        return (known,) if isinstance(known, StoredObject) else tuple(known.values())

    def all_of(self, job_id: ULID) -> list[StoredObject]:
        """The job's objects, forgotten and deleted ones too, in the order of start."""
        gone = self._gone_of_job.get(job_id, {})
        return sorted((*gone.values(), *self.remembered_of(job_id)), key=_order)

    def gone_for(self, ref: Ref) -> list[StoredObject]:
        """The forgotten and deleted objects that answer to a ref, the newest last."""
        exact, weak = self._keys(ref)
        return list(self._gone.get(weak if ref.weak else exact, {}).values())

    def ever(self, ref: Ref) -> list[StoredObject]:
        """Every object that may at any time have answered to a ref, in the order of start."""
        gone = {item.order: item for key in self._keys(ref) for item in self._gone.get(key, {}).values()}
        present = self.remembered.get(ref.id)
        return sorted((*gone.values(), *((present,) if present else ())), key=_order)

    def as_of(self, item: StoredObject, at: datetime) -> Observation | None:
        """What an object looked like at a moment; ``None`` if it was not remembered then.

        Of one that has changed since, before anything was kept, that is what is known first.
        """
        looks = self.past.of(item.order) if self.past else []
        if not looks:
            looks = [(item.shown.observed_at, item.shown), *([(item.gone_at, None)] if item.gone_at else [])]
        since, first = looks[0]
        if since > at and not (first and self._was_there(item, first, at)):
            return None
        seen = [first, *(seen for moment, seen in looks if moment <= at)][-1]
        return seen and altered(seen, observed_at=at)

    @staticmethod
    def _was_there(item: StoredObject, first: Observation, at: datetime) -> bool:
        """Whether an object had been started at a moment, by its times: the submit time known first moves no more."""
        times = [first.ref.submitted_at, *(run.started_at for run in item.executions)]
        return any(moment is not None and moment <= at for moment in times)

    def remembered_in_order(self) -> Iterator[StoredObject]:
        """Every remembered object, in the order of start."""
        return iter(self.remembered.values())  # put in at its start, never again: an id that comes back is new

    # changing

    def next_order(self) -> int:
        """The place in the order of start for a new object."""
        return next(self._orders)

    def add(self, item: StoredObject) -> None:
        """Take in a new object and tell of it."""
        self.objects[item.order] = item
        self.remembered[item.ref.id] = item
        known = self._of_job.setdefault(item.job.id, item)  # a dict for each job would add 224 bytes to most objects
        if known is not item:
            if isinstance(known, StoredObject):
                known = self._of_job[item.job.id] = {known.order: known}
            known[item.order] = item
        self.told.append(item.shown)
        if self.past is not None:
            self.past.began(item.order, item.shown, self.moment)

    def show(self, item: StoredObject, observation: Observation) -> None:
        """Tell what an object looks like now, if that differs from what was told of it last."""
        if observation != altered(item.shown, observed_at=observation.observed_at):
            if self.past is not None:
                self.past.changed(item.order, item.shown, observation, self.moment)
            item.shown = observation
            self.told.append(observation)

    def forget(self, item: StoredObject, cause: Cause | None) -> None:
        """Let an object leave the scheduler's memory, and tell it."""
        del self.remembered[item.ref.id]
        known = self._of_job[item.job.id]
        if not isinstance(known, StoredObject):
            del known[item.order]
        if not known or known is item:
            del self._of_job[item.job.id]
        for key in self._keys(item.ref):
            self._gone.setdefault(key, {})[item.order] = item
        self._gone_of_job.setdefault(item.job.id, {})[item.order] = item
        item.gone_at = self.moment
        if self.past is not None:
            self.past.changed(item.order, item.shown, None, self.moment)
        self._gone_count += 1
        detail = item.shown.detail if cause is item.shown.cause else ""
        self.told.append(altered(item.shown, state=State.GONE, cause=cause, detail=detail, observed_at=self.now))
        self.retire(item)

    def retire(self, item: StoredObject) -> None:
        """Let a gone object be dropped when its turn comes, once no process of it lives."""
        if self._keep is None or item.gone_at is None:
            return
        if not any(run.alive for run in item.executions):
            self._retired.append(item)
        while self._gone_count > self._keep and self._retired:
            self._drop(self._retired.popleft())

    def _drop(self, item: StoredObject) -> None:
        if self.objects.pop(item.order, None) is None:
            return
        self._gone_count -= 1
        for key in self._keys(item.ref):
            _take_out(self._gone, key, item)
        _take_out(self._gone_of_job, item.job.id, item)
        if self.past is not None:
            self.past.dropped(item.order)

    # time

    def schedule(self, delay: timedelta, order: int, action: Action, *given: Any) -> datetime:
        """Put down what is to happen so much later; answer its due moment.

        :param order: the place in the order of start of the object that it happens to
        """
        due = later(self.moment, delay)
        heappush(self._due, (due, order, next(self._serials), action, *given))
        return due

    def settle(self) -> None:
        """Let everything happen that has come due, in order of its moment, then of start."""
        while self._due and self._due[0][0] <= self.now:
            self.moment, _, _, action, *given = heappop(self._due)
            action(*given)
        self.moment = self.now
        if self.past is not None:
            self.past.trim(self.now)

    def take_told(self) -> Iterator[Observation]:
        """What is to be told, once."""
        told, self.told = self.told, []
        return iter(told)


K = TypeVar("K", bound=Hashable)


def _take_out(index: dict[K, dict[int, StoredObject]], key: K, item: StoredObject) -> None:
    del index[key][item.order]
    if not index[key]:
        del index[key]


def later(moment: datetime, by: timedelta) -> datetime:
    """A later moment, or the end of time if there is none."""
    try:
        return moment + by
    except OverflowError:
        return _END_OF_TIME


def earlier(moment: datetime, by: timedelta) -> datetime:
    """An earlier moment, or the beginning of time if there is none."""
    try:
        return moment - by
    except OverflowError:
        return BEGINNING


def _order(item: StoredObject) -> int:
    return item.order
