"""The cluster: what all clients of one backend share, and the steps that every call goes through.

A call comes past its checkpoint, then under the lock: the clock is read once, what has come due is settled, the
call acts, and the watchers are told. Nothing in here awaits.
"""

import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypeVar

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
from ..model.base import short
from .config import Config
from .faults import Fault, without_trace
from .hub import Hub, Subscription
from .injection import check_moment, started_at
from .shapes import SHAPES
from .store import Store
from .truth import CallRecord

__all__ = ("Client", "Cluster", "Request")

T = TypeVar("T")


Entry = tuple[str, str, datetime, Ref | None, ULID | None, DispatchError | None, datetime | None]
"""A line of the call log: the fields of a :class:`CallRecord`, which is made only when somebody reads it."""


class Client(Protocol):
    """One client, as the cluster sees it."""

    @property
    def name(self) -> str:
        """What it is called in the log."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether every change is to be refused."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it, or the cluster, is closed."""
        ...


class Request(NamedTuple):
    """What a client asks."""

    call: str
    ref: Any = None
    job_id: Any = None
    writes: bool = False
    deadline: Any = None


class Cluster:
    """One scheduler: its store, its shape, its clock, its watchers and its call log.

    :param config: the configuration
    :param clock: gives the time, as an aware datetime
    :param keep: how many gone objects and how many call records are kept; ``None`` keeps all
    """

    def __init__(self, config: Config, clock: Callable[[], datetime], keep: int | None) -> None:
        self.config = config
        self.store = Store(keep)
        self.scheduler = SHAPES[config.shape](config, self.store)
        self.hub = Hub(config.watch_buffer)
        self.faults: list[Fault] = []
        self.closed = False
        self.lock = threading.RLock()
        self._clock = clock
        self._thread = threading.get_ident()
        self._log: deque[Entry] = deque(maxlen=keep)

    def check_thread(self) -> None:
        """Refuse another thread than the one that made the backend."""
        if threading.get_ident() != self._thread:
            raise InvalidError("this backend belongs to the thread that made it, found a call from another thread")

    def tick(self) -> datetime:
        """Read the clock; the time never goes back."""
        now = self._clock()
        if now.__class__ is not datetime or now.tzinfo is not UTC:
            now = check_moment("clock", now)
        self.store.now = max(self.store.now, now)
        return self.store.now

    def call(self, client: Client, request: Request, check: Callable[[], None] | None, act: Callable[[], T]) -> T:
        """One call of the SPI: checked, done, told and put down. The caller holds the lock.

        :param client: the client
        :param request: what it asks
        :param check: refuses bad arguments
        :param act: what is to be done, in the moment of the call
        """
        if client.closed:
            raise ClosedError(f"{client.name} is closed, expected one that is open")
        now = self.tick()
        outcome: DispatchError | None = None
        landed_at: datetime | None = None
        store = self.store
        try:
            store.settle()
            self._admit(client, request, check, now)
            before = len(store.told)
            try:
                answer = act()
            finally:
                if len(store.told) > before:
                    landed_at = now
                    store.settle()
            if self.faults:
                self._inject("kept", self._record(client, request, now, None, landed_at))
        except DispatchError as error:
            outcome = without_trace(error)
            raise
        else:
            return answer
        finally:
            self._log.append(self._entry(client, request, now, outcome, landed_at))
            if store.told:
                self._tell()

    def _admit(self, client: Client, request: Request, check: Callable[[], None] | None, now: datetime) -> None:
        """Refuse what must not be done, in the order in which refusals come."""
        if request.writes and client.read_only:
            raise ReadOnlyError(f"{client.name} is read-only, {request.call} would change something")
        if request.call in self.scheduler.unsupported:
            raise UnsupportedError(f"{request.call}: the {self.config.shape} shape has no such call")
        if check is not None:
            check()
        if self.faults:
            self._inject("none", self._record(client, request, now, None, None))
        if request.deadline is not None:
            start = started_at() or now
            if start > request.deadline:
                raise ExpiredError(
                    f"{request.call}: started at {short(start)}, expected no later than {short(request.deadline)}"
                )

    def _inject(self, effect: str, record: CallRecord) -> None:
        for fault in self.faults:
            if fault.effect == effect and fault.strikes(record):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                raise fault.error.with_traceback(None)

    def _entry(
        self,
        client: Client,
        request: Request,
        at: datetime,
        outcome: DispatchError | None,
        landed_at: datetime | None,
    ) -> Entry:
        ref, job_id = request.ref, request.job_id
        return (
            request.call,
            client.name,
            at,
            ref if isinstance(ref, Ref) else None,
            job_id if isinstance(job_id, ULID) else None,
            outcome,
            landed_at,
        )

    def _record(
        self,
        client: Client,
        request: Request,
        at: datetime,
        outcome: DispatchError | None,
        landed_at: datetime | None,
    ) -> CallRecord:
        return _as_record(self._entry(client, request, at, outcome, landed_at))

    def records(self) -> tuple[CallRecord, ...]:
        """The call log."""
        return tuple(map(_as_record, self._log))

    def act(self, act: Callable[[], T]) -> T:
        """One step of the environment: done and told. The caller holds the lock."""
        if self.closed:
            raise ClosedError("the backend is closed, expected one that is open")
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


def _as_record(entry: Entry) -> CallRecord:
    call, view, at, ref, job_id, outcome, landed_at = entry
    return CallRecord(call=call, view=view, at=at, ref=ref, job_id=job_id, outcome=outcome, landed_at=landed_at)
