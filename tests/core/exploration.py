"""A random exploration of one job's life under every fault, with the invariants checked after each step.

Nothing runs by itself: supervisors and operators are coroutines that are sent on by hand, from one park to the next,
so that the seed alone decides who comes when, who is crashed where, and when a call that is on its way lands. A park
is any place where a coroutine yields: before and after each call, each reading and each write of the record.
"""

import types
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal, NoReturn, TypeVar

import msgspec
from ulid import ULID

from dispatch_memory_async import (
    Action,
    Backend,
    CallMeta,
    Capabilities,
    Capability,
    Cause,
    Cessation,
    Config,
    DispatchError,
    FinishedError,
    HoldMeta,
    Job,
    NativePolicy,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Policy,
    Ref,
    ReleaseMeta,
    Rule,
    RunningError,
    Shape,
    StaleError,
    State,
    Support,
    Truth,
    UnavailableError,
    UnmatchedPolicy,
    UnsupportedError,
    WrongStateError,
    call_start,
    crash_between_steps,
)
from dispatch_memory_async.core.operator import Operator
from dispatch_memory_async.core.record import POLICY, EndKey, Kind, Record, WhileRunning
from dispatch_memory_async.core.records import ConflictError, MemoryRecords
from dispatch_memory_async.core.status import Status, WaitingFor
from dispatch_memory_async.core.supervisor import Supervisor
from dispatch_memory_async.model import Tristate
from tests.support import T0, Clock, job

T = TypeVar("T")
Who = Literal["core", "scheduler", "other"]

NO = Support(value=Tristate.NO)
YES = Support(value=Tristate.YES)
LIVE = (State.PENDING, State.RUNNING)
BEGINS = (Kind.START, Kind.OPEN, Kind.REQUEUE, Kind.RELEASE)
RESTS = (WaitingFor.HOLD, WaitingFor.ADMIN, WaitingFor.OTHER, WaitingFor.CESSATION)
ENOUGH = 400
"""More parks than any step has."""
STILL = 14
"""How many steps at rest, of 40 seconds each, show that nothing more comes."""
AFTERWARDS = 15
"""How many steps go on after a verdict."""


class ViolationError(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


def violated(invariant: str, what: str) -> NoReturn:
    raise ViolationError(invariant, what)


@types.coroutine
def park() -> Generator[None]:
    """A place where a coroutine can be left standing."""
    yield


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Send a coroutine on to its end."""
    for _ in range(ENOUGH):
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
    raise AssertionError("a coroutine does not end")


@dataclass
class Options:
    """What is drawn for a seed: the scheduler, the policy, and which faults there are and how often."""

    shape: Shape
    config: Config
    lost: frozenset[Capability]
    policy: Policy
    supervisors: int
    offsets: tuple[timedelta, ...]
    reply_lost: float
    given_up: float
    dropped: float
    landing: float
    refused: float
    crash_between: float
    reads_fail: float
    conflict: float
    whole: float
    crash: float
    clock: float
    env: float
    operator: float
    foreign: float
    nodes: float
    ends_well: float
    person_stops: float
    fenced_at_rest: bool


def _policy(rng: Random) -> Policy:
    causes = [
        Cause.NON_ZERO_EXIT,
        Cause.NODE_LOST,
        Cause.PREEMPTED,
        Cause.UNKNOWN,
        Cause.STOPPED,
        Cause.TIMEOUT,
        Cause.OUT_OF_MEMORY,
        Cause.LAUNCH_FAILED,
    ]
    backoff = timedelta(seconds=rng.choice((0, 0, 0, 20, 90)))
    unmatched = rng.choice(list(UnmatchedPolicy))
    every = frozenset(causes)
    shapes: list[tuple[Rule, ...]] = [
        (Rule(causes=every, action=Action.RESTART, limit=rng.choice((1, 2, 3)), backoff=backoff),),
        (Rule(causes=every, action=Action.RESTART, backoff=backoff),),
        (Rule(causes=every, action=Action.RESTART),),
        (Rule(causes=frozenset({Cause.NODE_LOST, Cause.UNKNOWN}), action=Action.RESTART),),
        (
            Rule(causes=frozenset({Cause.STOPPED, Cause.UNKNOWN}), action=Action.RESTART, limit=2),
            Rule(causes=frozenset({Cause.NON_ZERO_EXIT, Cause.PREEMPTED}), action=Action.RESTART, backoff=backoff),
        ),
        (
            Rule(causes=frozenset({Cause.NON_ZERO_EXIT}), action=Action.FAIL),
            Rule(causes=every, action=Action.RESTART, limit=3),
        ),
        (
            Rule(causes=frozenset({rng.choice(causes)}), action=Action.HOLD),
            Rule(causes=every, action=Action.RESTART),
        ),
    ]
    return Policy(() if rng.random() < 0.08 else rng.choice(shapes), unmatched)


def drawn(shape: Shape, rng: Random) -> Options:
    """The options of a seed."""

    def often(chance: float, most: float) -> float:
        """Off in most seeds, and of any strength in the others."""
        return rng.uniform(0.02, most) if rng.random() < chance else 0.0

    lost: frozenset[Capability] = frozenset()
    if rng.random() < 0.25:
        gone = rng.choice(((Capability.CESSATION,), (Capability.HOLD, Capability.HOLD_RUNNING), (Capability.REQUEUE,)))
        lost = frozenset(gone)
    support = dict.fromkeys(lost, NO)
    if shape is Shape.SLURM and rng.random() < 0.3:
        support[Capability.ACCOUNTING_HISTORY] = YES
    config = Config(
        shape=shape,
        max_job_id=rng.choice((2, 3, 100, 100)),
        min_job_age=timedelta(seconds=rng.choice((60, 300))),
        slurmd_timeout=timedelta(seconds=rng.choice((30, 300))),
        evidence_window=timedelta(seconds=rng.choice((0, 60, 300))),
        kill_wait=timedelta(seconds=rng.choice((0, 0, 30))),
        capabilities=support,
        cessation=Cessation(ceased=rng.random() < 0.2),
    )
    skewed, storm = rng.random() < 0.4, rng.random() < 0.3
    return Options(
        shape=shape,
        config=config,
        lost=lost,
        policy=_policy(rng),
        supervisors=rng.choice((1, 1, 2, 2, 3)),
        offsets=tuple(timedelta(seconds=rng.choice((-0.9, 0, 0.9)) if skewed else 0) for _ in range(4)),
        reply_lost=rng.uniform(0.1, 0.5) if storm else often(0.5, 0.35),
        given_up=rng.uniform(0.2, 0.7) if storm else often(0.5, 0.3),
        dropped=rng.choice((0.0, 0.15, 0.5)),
        landing=rng.choice((0.02, 0.1, 0.2)),
        refused=often(0.4, 0.2),
        crash_between=often(0.3, 0.5),
        reads_fail=often(0.4, 0.2),
        conflict=often(0.3, 0.15),
        whole=rng.choice((0.0, 0.3, 0.6, 0.9)),
        crash=rng.uniform(0.05, 0.2) if storm else often(0.6, 0.08),
        clock=rng.uniform(0.05, 0.3),
        env=rng.uniform(0.1, 0.35),
        operator=often(0.7, 0.1),
        foreign=rng.uniform(0.2, 0.6) if rng.random() < 0.15 else often(0.5, 0.3),
        nodes=often(0.5, 0.4),
        ends_well=rng.uniform(0.01, 0.12),
        person_stops=rng.choice((0.0, 0.05, 0.2)),
        fenced_at_rest=rng.random() < 0.5,
    )


@dataclass
class Intention:
    """An intent as it was written, and what stood in the record then."""

    id: int
    kind: Kind
    submission: int
    instance: int | None
    deadline: datetime
    record: Record
    look: int


@dataclass(eq=False)
class Flight:
    """A call that changes something, on its way."""

    call: str
    of: Intention
    make: Callable[[], Coroutine[Any, Any, Any]]
    started: datetime
    crashes: bool = False
    landed: bool = False
    reply: Any = None
    error: DispatchError | None = None


@dataclass(eq=False)
class Actor:
    """A supervisor's or an operator's coroutine that is under way."""

    name: str
    offset: timedelta
    look: int = 0
    intention: Intention | None = None
    coroutine: Coroutine[Any, Any, Any] | None = None
    answer: Any = None
    error: DispatchError | None = None


class Ledger:
    """The records, as one actor reaches them."""

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor = world, actor

    async def create(self, record: Record) -> Record:
        kept = await self._world.records.create(record)
        self._world.wrote(kept, self._actor)
        return kept

    async def get(self, job_id: ULID) -> Record:
        record = await self._world.records.get(job_id)
        await park()
        return record

    async def put(self, record: Record, if_version: int) -> Record:
        if self._world.chance(self._world.options.conflict):
            raise ConflictError("injected")
        kept = await self._world.records.put(record, if_version)
        self._world.wrote(kept, self._actor)
        await park()
        return kept

    async def list(self) -> tuple[ULID, ...]:
        return await self._world.records.list()

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[ULID]]:
        return self._world.records.watch()


class Probe:
    """The scheduler, as one actor reaches it: each call can be stopped before, in and after."""

    def __init__(self, world: "World", actor: Actor) -> None:
        self._world, self._actor = world, actor
        self._backend = world.backend

    async def capabilities(self) -> Capabilities:
        return self._world.capabilities

    async def aclose(self) -> None:
        pass

    async def get(self, ref: Ref) -> Observation:
        return await self._backend.get(ref)

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        await park()
        self._world.fail_read()
        self._actor.look = self._world.moment()
        found = await self._read(self._backend.find(job_id))
        await park()
        return found

    async def cessation(self, what: Ref | ULID) -> Cessation:
        self._able(Capability.CESSATION)
        await park()
        self._world.fail_read()
        said = await self._read(self._backend.cessation(what))
        await park()
        return said

    async def _read(self, reading: Coroutine[Any, Any, T]) -> T:
        """A reading is made in one moment."""
        answer = run(reading)
        self._world.observe("reading")
        return answer

    def _able(self, capability: Capability) -> None:
        if capability in self._world.options.lost:
            raise UnsupportedError(f"{capability} was taken away")

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        answer = await self._world.send(
            self._actor, "start", lambda: self._backend.start(job, submission, native=native, deadline=deadline)
        )
        assert isinstance(answer, Ref)
        return answer

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._world.send(self._actor, "open", lambda: self._backend.open(ref, deadline=deadline))

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._world.send(self._actor, "stop", lambda: self._backend.stop(ref, deadline=deadline))

    async def hold(self, ref: Ref, meta: HoldMeta) -> None:
        self._able(Capability.HOLD)
        await self._world.send(self._actor, "hold", lambda: self._backend.hold(ref, meta))

    async def release(self, ref: Ref, meta: ReleaseMeta) -> None:
        self._able(Capability.HOLD)
        await self._world.send(self._actor, "release", lambda: self._backend.release(ref, meta))

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        self._able(Capability.REQUEUE)
        await self._world.send(self._actor, "requeue", lambda: self._backend.requeue(ref, meta))

    async def restore_requeue_bit(self, ref: Ref, meta: CallMeta) -> None:
        self._able(Capability.REQUEUE)
        await self._world.send(self._actor, "restore_requeue_bit", lambda: self._backend.restore_requeue_bit(ref, meta))


@dataclass
class Begun:
    """Who made an object eligible, and, if it was the core, the look on which it was decided."""

    who: Who
    look: int


@dataclass
class Known:
    """What the checker has gathered of the ground truth."""

    truths: tuple[Truth, ...] = ()
    eligible: dict[int, Begun] = field(default_factory=dict[int, Begun])
    """By whom each object was last made eligible, by its place in the order of start."""
    touched: dict[int, int] = field(default_factory=dict[int, int])
    """When somebody else last touched each object."""
    bit: dict[int, Begun] = field(default_factory=dict[int, Begun])
    """Who left each object's requeue bit set."""
    begun: dict[str, tuple[Who, int]] = field(default_factory=dict[str, tuple[Who, int]])
    """By whom and when each execution was begun, by its attempt."""
    lost: set[str] = field(default_factory=set[str])
    """The executions whose node was lost."""
    epochs: list[int] = field(default_factory=list[int])
    causes: dict[int, set[Cause | None]] = field(default_factory=dict[int, set[Cause | None]])
    """Every cause that arose, by submission."""


class World:
    """One job, its scheduler, its supervisors, and the seed that decides what happens.

    :param shape: the scheduler's shape
    :param seed: decides everything
    :param focus: options, or settings of the scheduler, that are not left to the seed
    :param trace: whether to keep what happened
    """

    def __init__(self, shape: Shape, seed: int, *, trace: bool = False, **focus: Any) -> None:
        self.rng = Random(f"{shape} {seed}")  # noqa: S311  # a seed is to be played again
        self.options = _focused(drawn(shape, self.rng), focus)
        self.clock = Clock()
        self.backend = Backend(self.options.config, clock=self.clock)
        self.records = MemoryRecords()
        self.work = job()
        self.record: Record | None = None
        self.capabilities = run(self.backend.capabilities())
        self.known = Known()
        self.actors: list[Actor] = []
        self.flights: list[Flight] = []
        self.called: set[int] = set()
        self.restarted: dict[int, set[EndKey]] = {}
        """The ends after which each rule has restarted it: one that nobody could see was restarted again for free."""
        self.acked_by: int = 0
        self.faults = True
        self.log: list[str] | None = [] if trace else None
        self.done: Counter[str] = Counter()
        self._moment = 0
        self._serial = 0

    # small things

    def moment(self) -> int:
        self._moment += 1
        return self._moment

    def chance(self, of: float) -> bool:
        return self.faults and of > 0 and self.rng.random() < of

    def note(self, what: Callable[[], str]) -> None:
        if self.log is not None:
            self.log.append(f"{(self.clock.now - T0).total_seconds():8.1f} #{self._moment} {what()}")

    def fail_read(self) -> None:
        if self.chance(self.options.reads_fail):
            self.note(lambda: "  a reading fails")
            raise self.rng.choice((UnavailableError, OutcomeUnknownError))("injected")

    # the actors

    def actor(self, name: str, offset: timedelta) -> tuple[Actor, Operator, Supervisor]:
        actor = Actor(name, offset)
        ledger, probe = Ledger(self, actor), Probe(self, actor)

        def clock() -> datetime:
            return self.clock.now + offset

        supervisor = Supervisor(probe, ledger, clock=clock)
        return actor, Operator(ledger, supervisor, clock=clock, poll=timedelta(0)), supervisor

    def begin(self, actor: Actor, coroutine: Coroutine[Any, Any, Any]) -> Actor:
        actor.coroutine = coroutine
        self.actors.append(actor)
        self.note(lambda: f"{actor.name} begins")
        return actor

    def advance(self, actor: Actor, parks: int = ENOUGH) -> None:
        """Send an actor on, at most so many parks."""
        for _ in range(parks):
            if actor.coroutine is None:
                return
            try:
                actor.coroutine.send(None)
            except StopIteration as end:
                actor.answer = end.value
            except (FinishedError, RunningError, StaleError, UnavailableError, OutcomeUnknownError) as error:
                actor.error = error
            else:
                continue
            actor.coroutine = None
            self.actors.remove(actor)
            self.note(lambda: f"{actor.name} ends {actor.error or ''}")

    def crash(self, actor: Actor) -> None:
        assert actor.coroutine is not None
        actor.coroutine.close()
        actor.coroutine = None
        self.actors.remove(actor)
        self.note(lambda: f"{actor.name} crashes")

    # calls

    async def send(self, actor: Actor, call: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Make a call: it starts, travels, lands, and is answered, or not."""
        await park()
        if self.chance(self.options.refused):
            self.note(lambda: f"  {actor.name} {call} refused")
            raise UnavailableError("injected")
        flight = self._depart(actor, call, make)
        await park()
        if not flight.landed and self.chance(self.options.given_up):
            self.note(lambda: f"  {actor.name} {call} given up")
            raise OutcomeUnknownError("given up")
        if not flight.landed:
            self.land(flight)
        await park()
        if self.chance(self.options.reply_lost):
            self.note(lambda: f"  {actor.name} {call} reply lost")
            raise OutcomeUnknownError("lost")
        if flight.error:
            raise flight.error
        return flight.reply

    def _depart(self, actor: Actor, call: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> Flight:
        intention = actor.intention
        if intention is None:
            violated("I12", f"{call} without a stored intent")
        if intention.id in self.called:
            violated("I12", f"{call}: the intent {intention.kind} is called twice")
        self.called.add(intention.id)
        flight = Flight(call, intention, make, self.clock.now)
        flight.crashes = call == "requeue" and self.chance(self.options.crash_between)
        standing = self.record is not None and self.record.intent is not None and self.record.intent.id == intention.id
        if standing and flight.started <= intention.deadline:  # else a look has settled it, as idempotent acts can be
            for other in self.flights:
                if other.started <= other.of.deadline and self._can_matter(other):
                    violated("I12", f"{call} while {other.call} is in flight")
        self.flights.append(flight)
        self.note(lambda: f"  {actor.name} {call} starts ({intention.submission})")
        return flight

    def _can_matter(self, flight: Flight) -> bool:
        """Whether a call in flight can still do something that a look did not settle."""
        of = flight.of
        if of.kind in (Kind.START, Kind.REQUEUE):
            return True
        for place, truth in enumerate(self.known.truths):
            if truth.submission == of.submission and truth.gone_at is None and truth.state in LIVE:
                if self.known.touched.get(place, -1) > of.look:
                    return False
                match of.kind:
                    case Kind.OPEN:
                        return truth.gated
                    case Kind.HOLD:
                        return (truth.hold or 0) < (of.instance or 0)
                    case Kind.RELEASE:
                        return truth.hold == of.instance
                    case Kind.RESTORE:
                        return bool(truth.requeue_bit)
                    case _:
                        return truth.cause is not Cause.STOPPED
        return False

    def land(self, flight: Flight) -> None:
        """A call acts at the scheduler."""
        flight.landed = True
        self.flights.remove(flight)
        if not self.faults and flight.crashes:
            flight.crashes = False
        self.observe("before")
        with call_start(flight.started), crash_between_steps() if flight.crashes else nullcontext():
            try:
                flight.reply = run(flight.make())
            except DispatchError as error:
                flight.error = error
        self.note(lambda: f"  {flight.call} lands ({flight.of.submission}) {flight.error or ''}")
        self.done[flight.call + ("!" if flight.error else "")] += 1
        self.observe(flight)

    # time

    def move(self, by: float) -> None:
        """Let time pass; what is in flight lands before its bound."""
        until = self.clock.now + timedelta(seconds=by)
        bound = self.options.config.call_bound
        while due := [flight for flight in self.flights if flight.started + bound <= until]:
            first = min(due, key=lambda flight: flight.started)
            left = (first.started + bound - self.clock.now).total_seconds()
            self.clock.advance(self.rng.choice((left, self.rng.uniform(0, left))))
            if self.chance(self.options.dropped):
                self.flights.remove(first)
                self.note(lambda call=first.call: f"  {call} never arrives")  # type: ignore[misc]
                first.landed, first.error = True, OutcomeUnknownError("never arrived")
            else:
                self.land(first)
        self.clock.now = until
        self.observe("clock")

    # the invariants

    def wrote(self, record: Record, actor: Actor) -> None:
        """A record was written."""
        before, self.record = self.record, record
        if before is None:
            return
        self.note(lambda: f"  {actor.name} writes {_differences(before, record)}")
        if record.intent and (before.intent is None or before.intent.id != record.intent.id):
            wanted = record.intent
            actor.intention = Intention(
                wanted.id, wanted.kind, wanted.submission, wanted.instance, wanted.deadline, record, actor.look
            )
        hold = record.in_force
        if hold and hold.acked and not (before.hold and before.hold.acked):
            self.acked_by = actor.look
        if before.verdict and record.verdict != before.verdict:
            violated("I8", f"the verdict {before.verdict} became {record.verdict}")
        self._check_causes(before, record)
        if record.verdict and not before.verdict:
            self._check_verdict(record)

    def _check_causes(self, before: Record, record: Record) -> None:
        old, new = before.end, record.end
        requeued = before.intent is not None and before.intent.kind is Kind.REQUEUE
        if old is None or new is None or requeued or old.cause in (None, Cause.UNKNOWN):
            return
        same = (old.submission, old.restarts) == (new.submission, new.restarts)
        if same and new.state is not State.SUCCEEDED and new.cause is not old.cause:
            violated("I9", f"the cause {old.cause} became {new.cause}")

    def _check_verdict(self, record: Record) -> None:
        verdict = record.verdict
        assert verdict is not None
        self.done[f"verdict {verdict.state}"] += 1
        executions = [execution for truth in self.known.truths for execution in truth.executions]
        if verdict.state is State.SUCCEEDED and not any(execution.exit_code == 0 for execution in executions):
            violated("I10", "it has succeeded, and no execution exited with 0")
        if record.intent is not None:
            violated("CO-15", f"a verdict with {record.intent.kind} in flight")
        arose = self.known.causes.get(record.chosen.submission, set()) if record.chosen else set[Cause | None]()
        if verdict.cause in arose or verdict.cause is None:
            return
        if verdict.cause is Cause.UNKNOWN and record.end is not None and record.end.cause is Cause.UNKNOWN:
            return
        ours = record.stop is not None or (record.chosen is not None and record.chosen.stopped_for is not None)
        if not (verdict.cause is Cause.STOPPED and ours):
            violated("I9", f"the verdict's cause {verdict.cause} never arose, but {arose}")

    def observe(self, why: Flight | str, place: int | None = None) -> None:
        """Compare the ground truth with what it was before."""
        known, before = self.known, self.known.truths
        now = run(self.backend.env.objects())
        if len(now) == len(before) and all(map(_same, now, before)):
            return
        known.truths = now
        for at, truth in enumerate(now):
            old = before[at] if at < len(before) else None
            if old is not None and _same(truth, old):
                continue
            known.causes.setdefault(truth.submission, set()).update(
                {truth.cause, *(execution.cause for execution in truth.executions)}
            )
            self._follow(why, place, at, old, truth)
        for at, truth in enumerate(now):
            ran = len(before[at].executions) if at < len(before) else 0
            for execution in truth.executions[ran:]:
                self._check_begun(at, execution.attempt, execution.epoch)

    def _follow(self, why: Flight | str, place: int | None, at: int, old: Truth | None, new: Truth) -> None:
        """Who made an object eligible, and whether he may have."""
        if isinstance(why, Flight):
            self._landed(why, at, old, new)
            return
        if old is None:
            return
        back = old.state is State.RUNNING and new.state is State.PENDING and old.cause is not Cause.REQUEUED
        preempted = place == at and why == "preempt" and new.state in LIVE
        if why == "requeue_externally" and place == at:
            self.known.eligible[at] = self.known.bit[at] = Begun("other", 0)
        elif why == "reactivate_externally" and place == at:
            self.known.eligible[at] = Begun("other", 0)
        elif preempted or (back and new.active):
            by_bit = self.known.bit.get(at) if old.requeue_bit else None
            self.known.eligible[at] = by_bit or Begun("scheduler", 0)
        if place == at and why in FOREIGN:
            self.known.touched[at] = self.moment()

    def _landed(self, flight: Flight, at: int, old: Truth | None, new: Truth) -> None:
        """A call of the core has changed an object."""
        of = flight.of
        if flight.started > of.deadline:
            violated("I11", f"{flight.call} did something, and started after its deadline")
        begun = Begun("core", of.look)
        if of.kind is Kind.START:
            if old is not None:
                return
            effective = not new.gated
        elif new.submission != of.submission:
            return
        else:
            effective = of.kind in BEGINS and not flight.crashes and flight.error is None
        if flight.crashes:
            self.known.bit[at] = begun
        if of.kind is Kind.REQUEUE and old is not None and effective:
            alive = [execution.attempt for execution in old.executions if execution.alive]
            if old.state is State.RUNNING and alive and self.known.touched.get(at, -1) <= of.look:
                violated("I17", f"a requeue ended an execution of object {at}")
        if of.kind in BEGINS and of.record.stop is not None:
            violated("I7", f"{of.kind} was intended after a stop")
        restarted = of.kind is Kind.START or (of.kind is Kind.REQUEUE and effective)
        if restarted and of.record.charged and of.record.end and of.record.charged.end == of.record.end.key:
            self._check_charge(of)
        if not effective:
            return
        self.known.eligible[at] = begun
        for other, truth in enumerate(self.known.truths):
            if other == at or truth.gone_at is not None or truth.state not in LIVE:
                continue
            free = not truth.gated and truth.hold is None and truth.active
            if free and self.known.touched.get(other, -1) <= of.look:
                violated("I2", f"{of.kind} of object {at} landed, and object {other} is live")

    def _check_charge(self, of: Intention) -> None:
        record = of.record
        assert record.charged is not None
        assert record.end is not None
        index = record.charged.rule
        if index is None:
            return
        rule = record.policy.rules[index]
        ends = self.restarted.setdefault(index, set())
        ends.add(record.end.key)
        if rule.limit is not None and len(ends) > rule.limit:
            violated("I6", f"rule {index} has restarted it {len(ends)} times")
        if self.clock.now < record.end.seen_at + rule.backoff - timedelta(seconds=2):
            violated("I6", f"rule {index} has restarted it before its backoff was over")
        if record.end.cause not in rule.causes:
            violated("I6", f"rule {index} does not name {record.end.cause}")

    def _check_begun(self, at: int, attempt: str, epoch: int) -> None:
        """An execution has begun."""
        known = self.known
        by = known.eligible.get(at, Begun("other", 0))
        known.begun[attempt] = by.who, self.moment()
        self.done["execution"] += 1
        if epoch in known.epochs:
            violated("I3", f"two executions have epoch {epoch}")
        record = self.record
        chosen = record.chosen if record else None
        of_chosen = chosen is not None and chosen.submission == known.truths[at].submission
        if known.epochs and epoch < max(known.epochs) and (by.who == "core" or (by.who == "scheduler" and of_chosen)):
            violated("I3", f"an execution with epoch {epoch} after {max(known.epochs)}")
        known.epochs.append(epoch)
        if by.who == "core":
            for truth in known.truths:
                for other in truth.executions:
                    if other.attempt != attempt and other.alive and not self._excused(other.attempt, by.look):
                        violated("I1", f"an execution of object {at} began beside {other.epoch}")
        if record is None:
            return
        if record.verdict and by.who == "core":
            violated("I8", f"an execution of object {at} began after the verdict")
        hold = record.in_force
        untouched = by.who != "other" and known.touched.get(at, -1) <= self.acked_by
        over = hold is not None and hold.until is not None and self.clock.now >= hold.until - timedelta(seconds=2)
        if hold and hold.acked and untouched and not over:
            violated("I4", f"an execution of object {at} began under an acknowledged hold")

    def _excused(self, attempt: str, look: int) -> bool:
        who, when = self.known.begun[attempt]
        if who != "core" and when > look:
            return True
        blind = Capability.CESSATION in self.options.lost
        return blind and (attempt in self.known.lost or bool(self.options.config.kill_wait))

    # what happens

    def play(self, steps: int = 120) -> None:
        """Submit the job, let the seed do its worst, then let things come to rest."""
        actor, operator, _ = self.actor("submitter", timedelta(0))
        self.begin(actor, operator.submit(self.work, self.options.policy))
        self.advance(actor)
        over = 0
        for _ in range(steps):
            self._something()
            over += self.record is not None and self.record.verdict is not None
            if over > AFTERWARDS:
                break
        self.rest()

    def _something(self) -> None:
        options, rng = self.options, self.rng
        draw = rng.random()
        if draw < options.clock:
            self.move(rng.choice((0.2, 0.2, 1, 1, 5, 20, 27, 30, 58, 60, 130, 400)))
        elif draw < options.clock + options.env:
            self._env()
        elif draw < options.clock + options.env + options.operator:
            self._operate()
        elif self.flights and rng.random() < options.landing:
            self.land(rng.choice(self.flights))
        else:
            self._bring_on()

    def _bring_on(self) -> None:
        options, rng = self.options, self.rng
        busy = [actor for actor in self.actors if actor.name.startswith("supervisor")]
        if self.actors and self.chance(options.crash):
            self.crash(rng.choice(self.actors))
            return
        if len(busy) < options.supervisors and (not self.actors or rng.random() < 0.5):
            self._serial += 1
            offset = options.offsets[self._serial % len(options.offsets)]
            actor, _, supervisor = self.actor(f"supervisor {self._serial}", offset)
            self.begin(actor, supervisor.step(self.work.id))
        else:
            actor = rng.choice(self.actors)
        self.advance(actor, ENOUGH if rng.random() < options.whole else rng.choice((1, 3, 5, 8, 13)))

    def _operate(self) -> None:
        rng = self.rng
        self._serial += 1
        actor, operator, _ = self.actor(f"operator {self._serial}", self.options.offsets[0])
        mine = self.work.id
        draw = rng.random()
        if draw < self.options.person_stops:
            asked = operator.stop(mine, "ann", "enough")
        elif draw < 0.5:
            until = rng.choice((None, None, self.clock.now + timedelta(seconds=rng.choice((10, 40, 200)))))
            running = rng.choice(list(WhileRunning))
            asked = operator.hold(mine, "ann", until, "lunch", running=running)
        elif draw < 0.85:
            asked = operator.release(mine, "ann")
        else:
            asked = operator.confirm_ceased(mine, "ann", "seen it")
        self.note(lambda: f"operator {self._serial}: {asked!r}")
        if sum(each.name.startswith("operator") for each in self.actors) > 2:
            asked.close()
            return
        self.begin(actor, asked)
        self.advance(actor, 20 if rng.random() < self.options.whole else rng.choice((2, 5, 10)))

    def _env(self) -> None:
        rng, options = self.rng, self.options
        there = [at for at, truth in enumerate(self.known.truths) if truth.gone_at is None]
        nodes = rng.random() < options.nodes
        if nodes and rng.random() < 0.5:
            there = list(range(len(self.known.truths)))
        if not there:
            return
        at = rng.choice((there[-1], rng.choice(there)))
        truth = self.known.truths[at]
        if nodes:
            act = rng.choice(("lose_node", "lose_node", "return_node", "fence_node"))
        elif rng.random() < options.foreign:
            act = rng.choice((*FOREIGN, "admin_hold", "admin_release", "admin_release"))
        elif truth.state is State.PENDING:
            act = rng.choice(("run", "run", "run", "run", "no_capacity"))
        elif rng.random() < options.ends_well:
            act = "finish"
        else:
            act = rng.choice(("fail", "fail", "preempt", "preempt", "out_of_memory", "time_out", "fail_launch"))
        self._do(act, at)

    def _do(self, act: str, at: int) -> None:
        """One act of the environment, if it is possible."""
        env, ref, before = self.backend.env, self.known.truths[at].ref, self.known.truths[at]
        self.observe("before")
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "fail": lambda: env.finish(ref, 1),
            "cancel": lambda: self.backend.stop(ref),
        }
        calling = calls.get(act) or (lambda: getattr(env, act)(ref))
        with suppress(WrongStateError, NotFoundError):
            run(_awaited(calling()))
            self.done[act] += 1
            self.note(lambda: f"{act} of object {at}")
            if act == "lose_node" and before.executions:
                self.known.lost.add(before.executions[-1].attempt)
        self.observe(act, at)

    # rest

    def rest(self) -> None:
        """Faults stop; then the job comes to its verdict, or to rest with a reason."""
        self.faults = False
        self.note(lambda: "faults stop")
        for actor in [*self.actors]:
            self.crash(actor)
        self.move(60)
        status, still = None, 0
        for turn in range(80):
            self._calm()
            self._serial += 1
            actor, _, supervisor = self.actor(f"supervisor {self._serial}", timedelta(0))
            version = self.record.version if self.record else 0
            self.begin(actor, supervisor.step(self.work.id))
            self.advance(actor)
            if actor.error:
                violated("I15", f"it still answers {actor.error!r}")
            status = actor.answer
            assert isinstance(status, Status)
            changed = self.record is None or self.record.version != version
            still = 0 if changed else still + 1
            if status.verdict or still > STILL:
                break
            self.move(1 if changed and turn % 3 else 40)  # what is refused is tried again later
        else:
            violated("I15", f"it never comes to rest: {status and status.why}")
        assert status is not None
        self._check_rest(status)

    def _calm(self) -> None:
        """The scheduler goes about its business."""
        for at, truth in enumerate(self.known.truths):
            if truth.node == "lost" and self.options.fenced_at_rest:
                self._do("fence_node", at)
            if truth.gone_at is None and truth.state is State.PENDING:
                self._do("run", at)
            elif truth.gone_at is None and truth.state is State.RUNNING and truth.node == "up":
                self._do("finish", at)

    def _check_rest(self, status: Status) -> None:
        record, now = self.record, self.clock.now
        assert record is not None
        self.done["rest " + str(status.waiting_for or "")] += 1
        number = record.chosen.submission if record.chosen else None
        alive = any(execution.alive for truth in self.known.truths for execution in truth.executions)
        if record.verdict is None:
            if status.waiting_for not in RESTS:
                violated("I15", f"it waits for {status.waiting_for}: {status.why}")
            blind = Capability.CESSATION in self.options.lost
            if status.waiting_for is WaitingFor.CESSATION and not (alive or blind):
                violated("I15", "it waits for proof, and nothing is alive")
            hold = record.in_force
            if status.waiting_for is WaitingFor.HOLD and (hold is None or (hold.until and hold.until <= now)):
                violated("I15", "it waits for a hold that is over")
            if hold and hold.by != POLICY and not hold.acked and status.waiting_for is WaitingFor.HOLD:
                live = [truth for truth in self.known.truths if truth.gone_at is None and truth.state in LIVE]
                if Capability.HOLD not in self.options.lost or not live:
                    violated("I15", "it waits under a hold that is never acknowledged")
        for at, truth in enumerate(self.known.truths):
            if truth.gone_at is not None or truth.state not in LIVE:
                continue
            if truth.requeue_bit and record.verdict is None and Capability.REQUEUE not in self.options.lost:
                violated("I5", f"object {at} has its requeue bit set")
            if (truth.submission != number or record.verdict) and at not in self.known.touched:
                violated("I14", f"object {at} is live")


FOREIGN = ("cancel", "requeue_externally", "deactivate_externally", "reactivate_externally")


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _same(new: Truth, old: Truth) -> bool:
    return new == old


def _differences(before: Record, after: Record) -> str:
    fields = [name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    return ", ".join(f"{name}={_brief(getattr(after, name))}" for name in fields if name != "version")


def _brief(value: object) -> str:
    return repr(value)[:160]


def _focused(options: Options, focus: Mapping[str, Any]) -> Options:
    given = dict(focus)
    lost = given.setdefault("lost", options.lost)
    settings = {name: given.pop(name) for name in list(given) if name in Config.__struct_fields__}
    support = {able: said for able, said in options.config.capabilities.items() if said != NO}
    settings.setdefault("capabilities", {**support, **dict.fromkeys(lost, NO)})
    return replace(options, **given, config=msgspec.structs.replace(options.config, **settings))


def explore(shape: Shape, seed: int, steps: int = 120, *, trace: bool = False, **focus: Any) -> World:
    """Play a seed. The loop that is current is only asked which it is: nothing is scheduled on it."""
    world = World(shape, seed, trace=trace, **focus)
    try:
        world.play(steps)
    except ViolationError as violation:
        violation.add_note(f"{shape} seed {seed}")
        if world.log is not None:
            violation.add_note("\n".join(world.log))
        raise
    return world
