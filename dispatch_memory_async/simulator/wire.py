"""The wire: how one actor reaches the scheduler and the records, with a park before, in and after each call."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ulid import ULID

from ..core import ConflictError, Record
from ..model import (
    CallMeta,
    Capabilities,
    Capability,
    Cessation,
    HoldMeta,
    Job,
    NativePolicy,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Policy,
    Ref,
    ReleaseMeta,
    UnavailableError,
    UnsupportedError,
)
from .actors import Actor, Flight, park
from .invariants import ViolationError
from .trace import Kind

if TYPE_CHECKING:
    from .world import World

__all__ = ("Ledger", "Probe")


class Ledger:
    """The records, as one actor reaches them."""

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor = world, actor

    async def create(self, record: Record) -> Record:
        return await self._write(lambda: self._world.records.create(record))

    async def get(self, job_id: ULID) -> Record:
        await park()
        record = await self._world.stored(self._world.cases[int(job_id) - 1])
        await park()
        return record

    async def put(self, record: Record, if_version: int) -> Record:
        world = self._world
        if world.chance(world.options.conflict):
            world.note(Kind.FAULT, "another write comes first", self._actor)
            raise ConflictError("another write comes first")

        async def write() -> Record:
            return await world.records.put(record, if_version)

        return await self._write(write)

    async def list(self) -> tuple[ULID, ...]:
        return await self._world.records.list()

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[ULID]]:
        return self._world.records.watch()

    async def _write(self, write: Callable[[], Coroutine[Any, Any, Record]]) -> Record:
        world, actor = self._world, self._actor
        await park()

        async def done() -> Record:
            actor.writing = None
            try:
                kept = await write()
            except NotFoundError:
                await world.stored(world.case_of(actor))  # which says so
                raise
            world.wrote(kept, actor)
            return await world.stored(world.case_of(actor))

        actor.writing = done  # whoever crashes here may have written it or not
        await park()
        kept = await done()
        await park()
        return kept


class Probe:
    """The scheduler, as one actor reaches it. A reading is made in one moment."""

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor = world, actor
        self._backend = world.backend

    async def capabilities(self) -> Capabilities:
        return self._world.capabilities

    async def aclose(self) -> None:
        pass

    async def get(self, ref: Ref) -> Observation:
        return await self._backend.get(ref)

    async def compile_policy(self, policy: Policy) -> NativePolicy:
        return await self._backend.compile_policy(policy)

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        await self._before_reading("find")
        self._actor.look = self._world.moment()
        self._actor.found = await self._backend.find(job_id)
        self._world.note(Kind.CALL, f"looks, and sees {_seen(self._actor.found)}", self._actor)
        await self._world.observe()
        await park()
        return self._actor.found

    async def cessation(self, what: Ref | ULID) -> Cessation:
        self._able(Capability.CESSATION)
        await self._before_reading("cessation")
        said = await self._backend.cessation(what)
        self._world.note(Kind.CALL, f"asks, and all has ceased: {'yes' if said.ceased else 'no'}", self._actor)
        await self._world.observe()
        await park()
        return said

    async def _before_reading(self, call: str) -> None:
        await park()
        world = self._world
        if world.chance(world.options.reads_fail):
            world.note(Kind.FAULT, f"{call} is not answered", self._actor)
            raise world.rng.choice((UnavailableError, OutcomeUnknownError))(f"{call}: no answer")

    def _able(self, capability: Capability) -> None:
        if capability in self._world.options.lost:
            raise UnsupportedError(f"{capability} is not there")

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        answer: Ref = await self._send(
            "start", lambda: self._backend.start(job, submission, native=native, deadline=deadline)
        )
        return answer

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._send("open", lambda: self._backend.open(ref, deadline=deadline))

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._send("stop", lambda: self._backend.stop(ref, deadline=deadline))

    async def hold(self, ref: Ref, meta: HoldMeta) -> None:
        self._able(Capability.HOLD)
        await self._send("hold", lambda: self._backend.hold(ref, meta))

    async def release(self, ref: Ref, meta: ReleaseMeta) -> None:
        self._able(Capability.HOLD)
        await self._send("release", lambda: self._backend.release(ref, meta))

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        self._able(Capability.REQUEUE)
        await self._send("requeue", lambda: self._backend.requeue(ref, meta))

    async def restore_requeue_bit(self, ref: Ref, meta: CallMeta) -> None:
        self._able(Capability.REQUEUE)
        await self._send("restore_requeue_bit", lambda: self._backend.restore_requeue_bit(ref, meta))

    async def _send(self, call: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Make a call that changes something: it starts, travels, lands, and is answered, or not."""
        world, actor, options = self._world, self._actor, self._world.options
        await park()
        if world.chance(options.refused):
            world.note(Kind.FAULT, f"{call} is refused", actor)
            raise UnavailableError(f"{call}: not now")
        if actor.intention is None:
            raise ViolationError("I12", f"{call} has no stored intent")
        crashes = call == "requeue" and world.chance(options.crash_between)
        flight = Flight(call, actor.job, actor.intention, make, world.now, crashes)
        world.depart(flight, actor)
        await park()
        if not flight.landed and world.chance(options.given_up):
            world.note(Kind.FAULT, f"{call} is given up while it is under way", actor)
            raise OutcomeUnknownError(f"{call}: given up")
        if not flight.landed:
            await world.land(flight)
        await park()
        if world.chance(options.reply_lost[call]):
            world.note(Kind.FAULT, f"the reply of {call} is lost", actor)
            raise OutcomeUnknownError(f"{call}: the reply is lost")
        if flight.error:
            raise flight.error
        return flight.reply


def _seen(found: tuple[Observation, ...]) -> str:
    states = [f"{seen.state} ({seen.cause})" if seen.cause else str(seen.state) for seen in found]
    return ", ".join(states) or "nothing"
