"""The cluster: what all clients of one backend share, and the steps that every call goes through.

A call comes past its checkpoint, then under the lock: the clock is read once, what has come due is settled, the
call acts, and the watchers are told. Nothing in here awaits.
"""

import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from ulid import ULID

from ..model import (
    ClosedError,
    DispatchError,
    ExpiredError,
    InvalidError,
    Observation,
    ReadOnlyError,
    Ref,
    UnsupportedError,
)
from ..model.base import altered
from ..model.checks import as_moment
from ..model.texts import is_a, short
from .config import Config
from .faults import Effect, Fault, without_trace
from .hub import Hub, Subscription
from .injection import started_at
from .past import Past
from .shapes import SHAPES, Scheduler
from .store import Store, earlier
from .truth import CallRecord

__all__ = ("Call", "Client", "Cluster")

T = TypeVar("T")

LAST = sys.maxsize
"""The place in the order of start of what is not there yet."""


class Client(ABC):
    """One client, as the cluster sees it.

    :param cluster: whose client it is
    """

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def is_of(self, cluster: "Cluster") -> bool:
        """Whether it is a client of that cluster."""
        return self._cluster is cluster

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in the log."""

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether every change is to be refused."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it, or the cluster, is closed."""


class Call(msgspec.Struct):
    """One call of the SPI: what is asked, and, once it has been made, what came of it: a line of the call log.

    What a caller gave stands here as it was given, before it was checked.
    """

    name: str
    ref: Any = None
    job_id: Any = None
    writes: bool = False
    deadline: Any = None
    view: str = ""
    at: Any = None
    outcome: DispatchError | None = None
    landed_at: datetime | None = None

    def record(self) -> CallRecord:
        """The value that is handed out."""
        return altered(
            _BLANK,
            call=self.name,
            view=self.view,
            at=self.at,
            ref=self.ref if is_a(self.ref, Ref) else None,
            job_id=self.job_id if is_a(self.job_id, ULID) else None,
            outcome=self.outcome,
            landed_at=self.landed_at,
        )


_BLANK = CallRecord(
    call="", view="", at=datetime.min.replace(tzinfo=UTC), ref=None, job_id=None, outcome=None, landed_at=None
)


class Cluster:
    """One scheduler: its store, its shape, its clock, its watchers and its call log.

    :param config: the configuration
    :param clock: gives the time, as an aware datetime
    :param keep: how many gone objects and how many call records are kept; ``None`` keeps all
    """

    def __init__(self, config: Config, clock: Callable[[], datetime], keep: int | None) -> None:
        self.config: Config = config
        shape = SHAPES[config.shape]
        self.store: Store = Store(shape.keys, keep)
        self.scheduler: Scheduler = shape(config, self.store)
        self.hub: Hub = Hub(config.watch_buffer)
        self.faults: list[Fault] = []
        self.lags: dict[Client | None, timedelta] = {}
        """How far the reads of each client lag behind, and of all others (``None``); empty while none does."""
        self.closed: bool = False
        self.lock: AbstractContextManager[bool] = (
            threading.RLock()
        )  # a fault's `when` and the clock are a user's, and may ask for the time
        self._clock = clock
        self._thread = threading.get_ident()
        self._log: deque[Call] = deque(maxlen=keep)

    def check_thread(self) -> None:
        """Refuse another thread than the one that made the backend."""
        if threading.get_ident() != self._thread:
            raise InvalidError("this backend belongs to the thread that made it, found a call from another thread")

    def check_open(self, client: Client | None = None) -> None:
        """Refuse a client that is closed, or any client of a closed backend."""
        if self.closed or (client is not None and client.closed):
            raise ClosedError(f"{client.name if client else 'the backend'} is closed, expected one that is open")

    def tick(self) -> datetime:
        """Read the clock; the time never goes back."""
        now = self._clock()
        if now.__class__ is not datetime or now.tzinfo is not UTC:
            now = as_moment("clock", now)
        if now < self.store.now:
            return self.store.now
        self.store.now = now
        return now

    def call(
        self, client: Client, call: Call, check: Callable[..., object] | None, act: Callable[..., T], *given: Any
    ) -> T:
        """Make one call of the SPI: checked, done, told and put down. The caller holds the lock.

        :param client: the client
        :param call: what it asks
        :param check: refuses bad arguments
        :param act: what is to be done, in the moment of the call
        :param given: what both are called with
        """
        if client.closed:
            self.check_open(client)
        store = self.store
        call.view, call.at = client.name, self.tick()
        try:
            store.settle()
            self._admit(client, call, check, given)
            if self.faults:
                self._put_off(call, act, given)
            before = len(store.told)  # written out here: a frame more would be a tenth of the most frequent call
            try:
                answer = act(*given)
            finally:
                if len(store.told) > before:
                    call.landed_at = store.moment
            if self.faults:
                self._inject("kept", call)
        except DispatchError as error:
            call.outcome = without_trace(error)
            raise
        else:
            return answer
        finally:
            self._log.append(call)
            if store.told:
                self._tell()

    def _admit(self, client: Client, call: Call, check: Callable[..., object] | None, given: tuple[Any, ...]) -> None:
        """Refuse what must not be done, in the order in which refusals come."""
        if call.writes and client.read_only:
            raise ReadOnlyError(f"{client.name} is read-only, {call.name} would change something")
        if call.name in self.scheduler.unsupported:
            raise UnsupportedError(f"{call.name}: the {self.config.shape} shape has no such call")
        if check is not None:
            check(*given)
        if self.faults:
            self._inject("none", call)
        if call.deadline is not None:
            start = started_at() or call.at
            if start > call.deadline:
                raise ExpiredError(
                    f"{call.name}: started at {short(start)}, expected no later than {short(call.deadline)}"
                )

    def _put_off(self, call: Call, act: Callable[..., object], given: tuple[Any, ...]) -> None:
        """Let a call act later (LT-1), if the first fault that strikes it says so."""
        if not any(fault.call == call.name and fault.after for fault in self.faults):
            return
        fault = self._striking(call, "kept", "late")
        if not fault or not fault.after:
            return
        if call.writes:
            item = self.store.remembered.get(call.ref.id) if is_a(call.ref, Ref) else None
            self.store.schedule(fault.after, item.order if item else LAST, self._land, call, act, given)
        raise self._use(fault)

    def _land(self, call: Call, act: Callable[..., object], given: tuple[Any, ...]) -> None:
        before = len(self.store.told)
        with suppress(DispatchError):  # nobody is there to be told
            act(*given)
        if len(self.store.told) > before:
            call.landed_at = self.store.moment

    def _inject(self, effect: Effect, call: Call) -> None:
        fault = self._striking(call, effect)
        if fault:
            raise self._use(fault)

    def _striking(self, call: Call, *effects: Effect) -> Fault | None:
        """The first fault with one of these effects that strikes a call."""
        for fault in self.faults:
            if fault.call == call.name and fault.effect in effects and fault.strikes(call.record()):
                return fault
        return None

    def _use(self, fault: Fault) -> DispatchError:
        """Use a fault once; answer its error."""
        fault.times -= 1
        if not fault.times:
            self.faults.remove(fault)
        return fault.error.with_traceback(None)

    # reads that lag (LT-2)

    def lag_reads(self, by: timedelta, client: Client | None) -> None:
        """Let the reads of a client, or of all, lag behind by so much; 0 ends it."""
        if client is None:
            self.lags.clear()
        self.lags[client] = by
        largest = max(self.lags.values())
        if not largest:
            self.lags.clear()
            self.store.past = None
        elif self.store.past:
            self.store.past.lag = largest
        else:
            self.store.past = Past(largest)

    def as_of(self, client: Client) -> datetime | None:
        """The moment that the reads of a client show, if they lag behind."""
        by = self.lags.get(client, self.lags.get(None))
        return earlier(self.store.now, by) if by else None

    def records(self) -> tuple[CallRecord, ...]:
        """The call log."""
        return tuple(call.record() for call in self._log)

    def act(self, act: Callable[[], T]) -> T:
        """One step of the environment: done and told. The caller holds the lock."""
        self.check_open()
        self.tick()
        try:
            self.store.settle()
            answer = act()
            self.store.settle()
            return answer
        finally:
            self._tell()

    def subscribe(self, client: Client) -> tuple[Subscription, deque[Observation]]:
        """The current observations, and every change from now on."""
        with self.lock:
            self.tick()
            self.store.settle()
            self._tell()
            current = deque(map(self.scheduler.current, self.store.remembered_in_order()))
            return self.hub.subscribe(client), current

    def _tell(self) -> None:
        for change in self.store.take_told():
            self.hub.tell(change)
