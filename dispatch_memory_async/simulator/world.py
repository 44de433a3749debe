"""The world: a scheduler, records, jobs, those who bring them on, and what is true of all of them.

Nothing runs by itself: a parked actor is sent on, a call lands, time is let pass, or the scheduler's side acts. After
each of these the ground truth is compared with what it was, and the invariants are checked.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from operator import eq
from random import Random
from typing import Any

from ulid import ULID

from ..core import (
    MemoryRecords,
    Operator,
    Record,
    Supervisor,
)
from ..memory import Backend, Execution, Truth, call_start, crash_between_steps
from ..model import (
    Capabilities,
    DispatchError,
    FinishedError,
    Job,
    NotFoundError,
    OutcomeUnknownError,
    RunningError,
    StaleError,
    WrongStateError,
)
from .actors import Actor, Flight, Intention, send_on
from .case import Begun, Case, Change, Deed
from .config import Options, SimConfig, drawn
from .invariants import INVARIANTS, ViolationError, effective
from .runners import Runner
from .trace import BEGINNING, Entry, Kind
from .wire import Ledger, Probe
from .wording import differences

__all__ = ("World",)

ENOUGH = 400
"""More parks than any step of a supervisor has."""
TOLD = (FinishedError, RunningError, StaleError)
"""What a person is told who asks for what cannot be. A supervisor raises nothing."""
MICROSECOND = timedelta(microseconds=1)
TIME = Deed("")
"""That time has passed, and nothing else has happened."""


class World:
    """One run.

    :param config: its configuration
    :param focus: options, or settings of the scheduler, that are not left to the seed
    """

    def __init__(self, config: SimConfig, focus: Mapping[str, Any]) -> None:
        self.config: SimConfig = config
        self.rng: Random = self.drawing_of("options")
        self.options: Options = drawn(config, self.rng, focus)
        self.now: datetime = BEGINNING
        self.backend: Backend = Backend(self.options.config, clock=lambda: self.now)
        self.records: MemoryRecords = MemoryRecords()
        self.cases: list[Case] = [
            Case(number, Job(id=ULID.from_int(number), command=("train",)), self.options)
            for number in range(1, config.jobs + 1)
        ]
        self.capabilities: Capabilities
        self.actors: list[Actor] = []
        self.runners: list[Runner] = []
        self.entries: list[Entry] = []
        self.counts: Counter[str] = Counter()
        self.step: int = 0
        self.concerned: int = 1
        """The number of the job that is being looked into."""
        self.acting: str = ""
        """Who was sent on last."""
        self.faults: bool = True
        self._observed_at: datetime | None = None
        self._moment = 0
        self.serial: int = 0
        """How many actors there were."""

    def drawing_of(self, what: object) -> Random:
        """What a part of the run draws: it depends on no other part, so that those can be left out."""
        return Random(f"{self.config.shape} {self.config.seed} {what}")  # noqa: S311  # a seed is to be played again

    # small things

    def moment(self) -> int:
        """The next moment: things are told apart by more than the clock."""
        self._moment += 1
        return self._moment

    def elapsed(self) -> float:
        """How many seconds the run has taken in its own time."""
        return (self.now - BEGINNING).total_seconds()

    def clock(self, offset: timedelta) -> Callable[[], datetime]:
        """A clock that is wrong by so much."""
        return lambda: self.now + offset

    def chance(self, of: float) -> bool:
        """Whether a fault strikes."""
        return self.faults and of > 0 and self.rng.random() < of

    def note(self, kind: Kind, what: str, actor: Actor | None = None, job: int = 0) -> None:
        """Put a line into the trace."""
        if kind is Kind.FAULT:
            self.counts[f"fault: {what}"] += 1
        at = (self.now - BEGINNING) // MICROSECOND
        who = actor.name if actor else ""
        self.entries.append(Entry(self.step, at, job or (actor.job if actor else 0), who, kind, what))

    def case_of(self, actor: Actor) -> Case:
        """The case that an actor is about."""
        assert actor.job, f"{actor.name} is about no job"  # noqa: S101  # or it would be another's
        return self.cases[actor.job - 1]

    # actors

    def actor(self, role: str, job: int, offset: timedelta = timedelta(0)) -> Actor:
        """Another actor, about a job or, with 0, about all."""
        self.serial += 1
        return Actor(f"{role} {self.serial}", job, offset)

    def supervisor(self, actor: Actor) -> Supervisor:
        """A supervisor by which an actor acts."""
        return Supervisor(Probe(self, actor), Ledger(self, actor), clock=self.clock(actor.offset))

    def operator(self, actor: Actor) -> Operator:
        """An operator by which an actor acts."""
        clock = self.clock(actor.offset)
        return Operator(Ledger(self, actor), self.supervisor(actor), clock=clock, poll=timedelta(0))

    def begin(self, actor: Actor, coroutine: Coroutine[Any, Any, Any], what: str = "") -> None:
        """Let an actor stand at its beginning."""
        actor.coroutine = coroutine
        self.actors.append(actor)
        self.note(Kind.ACTOR, f"begins{what and f': {what}'}", actor)

    async def advance(self, actor: Actor, parks: int = ENOUGH) -> None:
        """Send an actor on, at most so many parks, as long as there is anything for it to do."""
        self.concerned = actor.job or self.concerned
        self.acting = actor.name
        if actor.runner:
            actor.runner.awake = True
        for _ in range(parks):
            if actor.coroutine is None:
                return
            try:
                end = await send_on(actor.coroutine)
                if end is None:
                    if actor.idle:
                        return
                    continue
                actor.answer = end.value
            except TOLD as error:
                if not actor.name.startswith(("operator", "submitter")):
                    raise
                actor.error = error
            actor.coroutine = None
            self.actors.remove(actor)
            self.note(Kind.ACTOR, f"ends{f', {actor.error}' if actor.error else ''}", actor)

    def close(self) -> None:
        """End all actors, wherever they stand."""
        for actor in self.actors:
            if actor.coroutine is not None:
                actor.coroutine.close()

    async def crash(self, actor: Actor) -> None:
        """End an actor where it stands, and if a supervisor that runs has sent it, all that it has sent."""
        self.note(Kind.FAULT if self.faults else Kind.ACTOR, "crashes", actor)
        for each in [each for each in self.actors if each is actor or (actor.runner and each.runner is actor.runner)]:
            await self.break_off(each)
        self.runners = [runner for runner in self.runners if runner is not actor.runner]

    async def break_off(self, actor: Actor) -> None:
        """End an actor where it stands. A write that is under way may be done all the same."""
        if actor.coroutine is not None:
            actor.coroutine.close()
            actor.coroutine = None
        if actor.watch:
            await actor.watch.aclose()
        self.actors.remove(actor)
        if actor.writing and self.chance(0.5):
            with suppress(DispatchError):
                await actor.writing()

    async def submit(self, each: Callable[[int], object]) -> None:
        """Submit the jobs.

        :param each: is told the number of the step, which is 0, after each job
        """
        self.capabilities = await self.backend.capabilities()
        for case in self.cases:
            self.rng = self.drawing_of(f"job {case.number}")
            actor = self.actor("submitter", case.number)
            submitted = self.operator(actor).submit(case.job, self.options.policy, native=self.options.native)
            self.begin(actor, submitted, "submit")
            await self.advance(actor)
            await self.stored(case)
            each(self.step)

    # calls

    def depart(self, flight: Flight, actor: Actor) -> None:
        """A call starts."""
        case = self.case_of(actor)
        self.concerned = case.number
        for invariant in INVARIANTS:
            invariant.departed(case, flight)
        case.called.add(flight.of.id)
        case.flights.append(flight)
        self.note(Kind.CALL, f"{flight.call} starts, for submission {flight.of.submission}", actor)

    async def land(self, flight: Flight) -> None:
        """A call acts at the scheduler."""
        case = self.cases[flight.job - 1]
        flight.landed = True
        case.flights.remove(flight)
        flight.crashes = flight.crashes and self.faults
        await self.observe()
        with call_start(flight.started), crash_between_steps() if flight.crashes else nullcontext():
            try:
                flight.reply = await flight.make()
            except DispatchError as error:
                flight.error = error
        refused = f", refused: {type(flight.error).__name__}" if flight.error else ""
        self.note(Kind.CALL, f"{flight.call} lands, for submission {flight.of.submission}{refused}", job=flight.job)
        self.counts[f"{flight.call} {type(flight.error).__name__ if flight.error else 'done'}"] += 1
        await self.observe(flight)

    # time

    async def move(self, by: float) -> None:
        """Let time pass; what is under way lands before its bound."""
        until = self.now + timedelta(seconds=by)
        bound = self.options.config.call_bound
        while due := [each for case in self.cases for each in case.flights if each.started + bound <= until]:
            first = min(due, key=lambda flight: flight.started)
            left = (first.started + bound - self.now).total_seconds()
            self.now += timedelta(seconds=self.rng.choice((left, self.rng.uniform(0, left))))
            if self.chance(self.options.dropped):
                self.cases[first.job - 1].flights.remove(first)
                first.landed, first.error = True, OutcomeUnknownError("never arrived")
                self.note(Kind.FAULT, f"{first.call} never arrives", job=first.job)
            else:
                await self.land(first)
        self.now = until
        self.note(Kind.CLOCK, f"{by:g} s pass")
        await self.observe()

    # the truth

    def wrote(self, record: Record, actor: Actor) -> None:
        """A record was written."""
        case = self.case_of(actor)
        self.concerned = case.number
        for runner in self.runners:
            runner.tell(case.job.id)
        before, case.record = case.record, record
        if before is None:
            return
        self.note(Kind.RECORD, f"writes {differences(before, record)}", actor)
        if record.intent and (before.intent is None or before.intent.id != record.intent.id):
            of = record.intent
            actor.intention = Intention(
                *(of.id, of.kind, of.submission, of.ref, of.instance, of.deadline), record, actor.look
            )
            self.counts[f"intent {of.kind}"] += 1
        hold = record.in_force
        if hold and hold.acked and not (before.hold and before.hold.acked):
            case.acked_by = actor.look
        if record.counts != before.counts:
            self.counts["restart charged to a rule"] += 1
        if record.verdict and not before.verdict:
            self.counts[f"verdict {record.verdict.state}"] += 1
        case.now = self.now
        for invariant in INVARIANTS:
            invariant.written(case, before, record, actor)

    async def stored(self, case: Case) -> Record:
        """The record of a job, as it is kept: as it was acknowledged last."""
        found: Record | None = None
        with suppress(NotFoundError):
            found = await self.records.get(case.job.id)
        self.concerned = case.number
        for invariant in INVARIANTS:
            invariant.stored(case, found)
        if found is None:
            raise NotFoundError(f"there is no record of job {case.job.id}")
        return found

    async def observe(self, why: Flight | Deed = TIME) -> None:
        """Compare the ground truth with what it was before."""
        if why is TIME and self.now == self._observed_at:
            return  # nothing has happened since
        self._observed_at = self.now
        truths: dict[ULID, list[Truth]] = {case.job.id: [] for case in self.cases}
        for truth in await self.backend.env.objects():
            truths[truth.job.id].append(truth)
        for case in self.cases:
            case.now = self.now
            self._check(case, truths[case.job.id], why)

    def _check(self, case: Case, truths: list[Truth], why: Flight | Deed) -> None:
        before = case.truths
        if len(truths) == len(before) and all(map(eq, truths, before)):
            return
        self.concerned = case.number
        changes = case.took_in(truths)
        for change in changes:
            self._credit(case, why, change)
        for change in changes:
            ran = len(change.old.executions) if change.old else 0
            for execution in change.new.executions[ran:]:
                self._begun(case, change, execution)

    def _credit(self, case: Case, why: Flight | Deed, change: Change) -> None:
        """Whose doing it is that an object has changed."""
        if change.new.cause and not (change.old and change.old.cause is change.new.cause):
            self.counts[f"cause {change.new.cause}"] += 1
        if isinstance(why, Deed):
            case.credit(why, change, self.moment())
            return
        if why.crashes:
            case.bit[change.place] = Begun("core", why.of.look)
        if effective(why, change):
            case.eligible[change.place] = Begun("core", why.of.look)
        for invariant in INVARIANTS:
            invariant.landed(case, why, change)

    def _begun(self, case: Case, change: Change, execution: Execution) -> None:
        if change.place not in case.eligible:
            raise ViolationError("I1", f"an execution of object {change.place + 1} begins, which nobody made eligible")
        by = case.eligible[change.place]
        case.begun[execution.attempt] = Begun(by.who, self.moment())
        self.counts[f"execution by {by.who}"] += 1
        what = f"an execution of submission {change.new.submission} begins, epoch {execution.epoch}"
        self.note(Kind.SCHEDULER, f"{what}, by the {by.who}", job=case.number)
        for invariant in INVARIANTS:
            invariant.begun(case, change, execution, by)
        case.epochs.append(execution.epoch)

    # the scheduler's side

    async def do(self, act: str, case: Case, place: int) -> None:
        """One act of the scheduler's side, if it is possible."""
        env, before = self.backend.env, case.truths[place]
        await self.observe()
        calls: dict[str, Callable[[], Any]] = {
            "fail": lambda: env.finish(before.ref, 1),
            "cancel": lambda: self.backend.stop(before.ref),
        }
        try:
            await (calls.get(act) or (lambda: getattr(env, act)(before.ref)))()
        except (WrongStateError, NotFoundError):
            return
        self.counts[act] += 1
        self.note(Kind.SCHEDULER, f"{act.replace('_', ' ')} of submission {before.submission}", job=case.number)
        if act == "lose_node" and before.executions:
            case.lost.add(before.executions[-1].attempt)
        await self.observe(Deed(act, place))
