"""The wire: how one actor reaches the scheduler and the records.

It stands still before each call and before its answer, and in between while a call that changes something travels; a
reading is made in one moment.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

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

T = TypeVar("T")


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
            await park()
            world.note(Kind.FAULT, "another write comes first", self._actor)
            raise ConflictError("another write comes first")
        return await self._write(lambda: world.records.put(record, if_version))

    async def list(self) -> tuple[ULID, ...]:
        await park()
        jobs = await self._world.records.list()
        await park()
        return jobs

    def watch(self) -> "Told":
        return Told(self._actor)

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


class Told:
    """What the records tell a supervisor that runs: the jobs that are written, each once however often."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def __aenter__(self) -> Self:
        await park()
        self._actor.written = {}
        await park()
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ULID:
        assert self._actor.written is not None  # noqa: S101  # it was entered
        written = self._actor.written
        await _until(self._actor, lambda: bool(written))
        job_id = next(iter(written))
        del written[job_id]
        return job_id


class Ear:
    """A watch as one actor hears it: in its own time, so that it can fall behind."""

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor = world, actor
        self._watch = world.backend.watch()

    @property
    def synced(self) -> bool:
        return self._watch.synced

    @property
    def closed_by(self) -> Literal["overflow", "cancelled", "closed"] | None:
        return self._watch.closed_by

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Observation:
        await _until(self._actor, lambda: bool(self._watch.behind or self._watch.closed_by))
        try:
            seen = await anext(self._watch)
        except StopAsyncIteration:
            self._world.note(Kind.FAULT, f"the watch ends by {self.closed_by}", self._actor)
            raise
        self._world.note(
            Kind.CALL, f"hears of submission {seen.submission}: {_seen((seen,))}", self._actor, int(seen.job_id)
        )
        return seen

    async def __aenter__(self) -> Self:
        await park()
        await self._watch.__aenter__()
        self._actor.watch = self
        await park()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._watch.aclose()


class Probe:
    """The scheduler, as one actor reaches it."""

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor = world, actor
        self._backend = world.backend

    async def capabilities(self) -> Capabilities:
        return await self._read("capabilities", self._backend.capabilities)

    async def aclose(self) -> None:
        pass

    async def get(self, ref: Ref) -> Observation:
        return await self._read("get", lambda: self._backend.get(ref))

    async def compile_policy(self, policy: Policy) -> NativePolicy:
        return await self._read("compile_policy", lambda: self._backend.compile_policy(policy))

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        def look() -> Coroutine[Any, Any, tuple[Observation, ...]]:
            self._actor.look = self._world.moment()
            return self._backend.find(job_id)

        def says(found: tuple[Observation, ...]) -> str:
            self._actor.found = found
            return f"looks, and sees {_seen(found)}"

        return await self._read("find", look, says)

    async def find_many(self, job_ids: Sequence[ULID]) -> Mapping[ULID, tuple[Observation, ...]]:
        return await self._read("find_many", lambda: self._backend.find_many(job_ids), lambda _: "looks at all jobs")

    def watch(self) -> Ear:
        return Ear(self._world, self._actor)

    async def cessation(self, what: Ref | ULID) -> Cessation:
        self._able(Capability.CESSATION)
        return await self._read(
            "cessation",
            lambda: self._backend.cessation(what),
            lambda said: f"asks, and all has ceased: {'yes' if said.ceased else 'no'}",
        )

    async def _read(
        self, call: str, make: Callable[[], Coroutine[Any, Any, T]], says: Callable[[T], str] | None = None
    ) -> T:
        """Make a call that changes nothing: it is not answered, or is answered by what is so in one moment."""
        world = self._world
        await park()
        if world.chance(world.options.reads_fail):
            world.note(Kind.FAULT, f"{call} is not answered", self._actor)
            raise world.rng.choice((UnavailableError, OutcomeUnknownError))(f"{call}: no answer")
        answer = await make()
        if says:
            world.note(Kind.CALL, says(answer), self._actor)
        await world.observe()
        await park()
        return answer

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


async def _until(actor: Actor, there: Callable[[], bool]) -> None:
    """Stand still, at least once, until there is something."""
    await park()
    while not there():
        actor.idle = True
        await park()
    actor.idle = False


def _seen(found: tuple[Observation, ...]) -> str:
    states = [f"{seen.state} ({seen.cause})" if seen.cause else str(seen.state) for seen in found]
    return ", ".join(states) or "nothing"
