"""The line: how one supervisor reaches the scheduler and the records; what it calls is written down."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from ulid import ULID

from ...core import Record, Records
from ...model import (
    CallMeta,
    Capabilities,
    DispatchError,
    ExpiredError,
    Job,
    NativePolicy,
    Observation,
    OutcomeUnknownError,
    Ref,
    Value,
)
from ...model.base import altered
from ...spi import Adapter, CessationSignal, Holder, NativePolicyCompiler, Requeuer
from .mishaps import Mishaps

__all__ = ("OPTIONAL", "Call", "Ledger", "Line")

OPTIONAL: dict[type, tuple[str, ...]] = {
    Holder: ("hold", "release"),
    Requeuer: ("requeue", "restore_requeue_bit"),
    CessationSignal: ("cessation",),
    NativePolicyCompiler: ("compile_policy",),
}
"""What a step may use beside the adapter itself."""

MUCH_LATER = timedelta(days=1)


class Call(Value, frozen=True, kw_only=True):
    """A call that changes something, as it was made.

    :ivar name: its name
    :ivar at: when
    :ivar deadline: its deadline, if it carries one
    :ivar submission: a start's number
    :ivar ref: the object of any other
    :ivar native: what a start was to tell the scheduler of the policy
    :ivar refused: whether it was refused, so that nothing came of it
    """

    name: str
    at: datetime
    deadline: datetime | None
    submission: int | None = None
    ref: Ref | None = None
    native: NativePolicy | None = None
    refused: bool = False


class Line:
    """An adapter that passes all calls on, but for what was made to happen to them.

    :param adapter: the adapter
    :param mishaps: what is to happen
    :param clock: gives the time
    :param log: where the calls go that change something
    :param without: the optional interfaces that are taken away; what the cluster declares stays
    """

    def __init__(
        self,
        adapter: Adapter,
        mishaps: Mishaps,
        clock: Callable[[], datetime],
        log: list[Call],
        without: Collection[type] = (),
    ) -> None:
        self._adapter: Any = adapter
        self._mishaps = mishaps
        self._clock = clock
        self._log = log
        self._late: set[str] = set()
        self._flights: list[Callable[[], Awaitable[object]]] = []
        for interface, calls in OPTIONAL.items():
            if isinstance(adapter, interface) and interface not in without:
                for call in calls:  # protocols are told by what an object has, so it must not have the others
                    setattr(self, call, partial(self._pass if interface in _ASKS else self._send, call))

    def delay(self, call: str) -> None:
        """Let the reply of the next call of that name be given up, while its command is on its way."""
        self._late.add(call)

    async def land(self) -> None:
        """Let the commands that are on their way do what they do; nobody is told how that went."""
        flights, self._flights = self._flights, []
        for flight in flights:
            with suppress(DispatchError):
                await flight()

    async def capabilities(self) -> Capabilities:
        declared: Capabilities = await self._adapter.capabilities()
        return declared

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        ref: Ref = await self._send("start", job, submission, native=native, deadline=deadline)
        return ref

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._send("open", ref, deadline=deadline)

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._send("stop", ref, deadline=deadline)

    async def get(self, ref: Ref) -> Observation:
        seen: Observation = await self._pass("get", ref)
        return seen

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        found: tuple[Observation, ...] = await self._pass("find", job_id)
        return found

    async def aclose(self) -> None:
        await self._adapter.aclose()

    async def _pass(self, name: str, *given: Any) -> Any:
        return await self._mishaps.make(name, lambda: getattr(self._adapter, name)(*given))

    async def _send(self, name: str, *given: Any, **named: Any) -> Any:
        first, *rest = given
        deadline = named.get("deadline")
        for meta in rest:
            if isinstance(meta, CallMeta):
                deadline = meta.deadline
        is_start = name == "start"
        place = len(self._log)
        self._log.append(
            Call(
                name=name,
                at=self._clock(),
                deadline=deadline,
                submission=rest[0] if is_start else None,
                ref=None if is_start else first,
                native=named.get("native"),
            )
        )
        call = getattr(self._adapter, name)
        try:
            return await self._mishaps.make(name, lambda: self._off(name, deadline, call, given, named), changes=True)
        except DispatchError as error:
            self._log[place] = altered(self._log[place], refused=not isinstance(error, OutcomeUnknownError))
            raise

    async def _off(
        self,
        name: str,
        deadline: datetime | None,
        call: Callable[..., Awaitable[Any]],
        given: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        if name not in self._late:
            return await call(*given, **named)
        self._late.remove(name)
        if deadline is not None and self._clock() > deadline:
            raise ExpiredError(f"{name} starts at {self._clock()}, expected no later than {deadline}")
        # its command has started in time: the deadline has nothing more to say about it
        on_its_way = tuple(
            altered(one, deadline=one.deadline + MUCH_LATER) if isinstance(one, CallMeta) else one for one in given
        )
        self._flights.append(lambda: call(*on_its_way, **{key: named[key] for key in named if key != "deadline"}))
        raise OutcomeUnknownError(f"the reply of {name} was given up")


_ASKS = (CessationSignal, NativePolicyCompiler)


class Ledger:
    """Records that pass all calls on, but for what was made to happen to them."""

    def __init__(self, records: Records, mishaps: Mishaps) -> None:
        self._records = records
        self._mishaps = mishaps

    async def create(self, record: Record) -> Record:
        return await self._mishaps.make("records.create", lambda: self._records.create(record), changes=True)

    async def get(self, job_id: ULID) -> Record:
        return await self._mishaps.make("records.get", lambda: self._records.get(job_id))

    async def put(self, record: Record, if_version: int) -> Record:
        return await self._mishaps.make("records.put", lambda: self._records.put(record, if_version), changes=True)

    async def list(self) -> tuple[ULID, ...]:
        return await self._records.list()

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[ULID]]:
        return self._records.watch()
