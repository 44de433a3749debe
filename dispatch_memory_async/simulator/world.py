"""The world: a scheduler, records, jobs, those who bring them on, and the seed that decides who comes when.

Nothing runs by itself: in every step one thing happens, a parked actor goes on, time passes, or the scheduler's side
acts; then the invariants are checked.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

from ulid import ULID

from ..core import (
    Ask,
    Charge,
    Chosen,
    End,
    Hold,
    Intent,
    MemoryRecords,
    Operator,
    Record,
    Said,
    Status,
    Supervisor,
    Verdict,
    WhileRunning,
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
    State,
    WrongStateError,
)
from .actors import Actor, Flight, Intention, send_on
from .case import FOREIGN, Begun, Case, Change, Deed
from .config import Options, SimConfig, drawn
from .invariants import INVARIANTS, ViolationError, effective
from .runners import Runner
from .trace import BEGINNING, Entry, Kind
from .wire import Ledger, Probe

__all__ = ("World",)

ENOUGH = 400
"""More parks than any step of a supervisor has."""
RARELY = 0.2
"""A supervisor that runs crashes with all that it has sent: so much more rarely, to have something to forget."""
STILL = 14
"""How many rounds at rest, of 40 seconds each, show that nothing more comes."""
AFTERWARDS = 15
"""How many steps go on after the last verdict."""
TOLD = (FinishedError, RunningError, StaleError)
"""What a person is told who asks for what cannot be. A supervisor raises nothing."""
MICROSECOND = timedelta(microseconds=1)
SPANS = (0.2, 0.2, 1, 1, 5, 20, 27, 30, 58, 60, 130, 400)
"""How long time passes at once, in seconds: within the same second, and past every bound that there is."""
TIME = Deed("")
"""That time has passed, and nothing else has happened."""


class World:
    """One run.

    :param config: its configuration
    :param focus: options, or settings of the scheduler, that are not left to the seed
    """

    def __init__(self, config: SimConfig, focus: Mapping[str, Any]) -> None:
        self.config: SimConfig = config
        self.rng: Random = self._drawing_of("options")
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
        self._serial = 0

    def _drawing_of(self, what: object) -> Random:
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
        self._serial += 1
        return Actor(f"{role} {self._serial}", job, offset)

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
        self.note(Kind.RECORD, f"writes {_differences(before, record)}", actor)
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
        if len(truths) == len(before) and all(map(_same, truths, before)):
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

    # what happens

    async def play(self, each: Callable[[int], object]) -> None:
        """Submit the jobs, let the seed do its worst, then let things come to rest.

        :param each: is told the number of every step that was played
        :raises ViolationError: if an invariant is broken
        """
        config, only = self.config, self.config.only
        self.capabilities = await self.backend.capabilities()
        for case in self.cases:
            self.rng = self._drawing_of(f"job {case.number}")
            actor = self.actor("submitter", case.number)
            submitted = self.operator(actor).submit(case.job, self.options.policy, native=self.options.native)
            self.begin(actor, submitted, "submit")
            await self.advance(actor)
            await self.stored(case)
            each(self.step)
        over, stop_at = 0, config.stop_at
        for step in range(1, (config.steps if stop_at is None else min(stop_at, config.steps)) + 1):
            if only is not None and step not in only:
                continue
            self.step = step
            self.rng = self._drawing_of(step)
            await self._something()
            each(step)
            over += all(case.record and case.record.verdict for case in self.cases)
            if over > AFTERWARDS:
                break
        if stop_at is None or stop_at > config.steps:
            await self._rest(each)

    async def _something(self) -> None:
        options, rng = self.options, self.rng
        draw = rng.random()
        flights = [flight for case in self.cases for flight in case.flights]
        if draw < options.clock:
            await self.move(rng.choice(SPANS))
        elif draw < options.clock + options.env:
            await self._act(rng.choice(self.cases))
        elif draw < options.clock + options.env + options.operator:
            await self._ask(rng.choice(self.cases))
        elif flights and rng.random() < options.landing:
            await self.land(rng.choice(flights))
        else:
            await self._bring_on()

    async def _bring_on(self) -> None:
        options, rng = self.options, self.rng
        if self.actors and self.chance(options.crash * (RARELY if options.runs else 1)):
            await self.crash(rng.choice(self.actors))
            return
        actor = await self._of_runners() if options.runs else self._of_steps()
        if actor:
            await self.advance(actor, ENOUGH if rng.random() < options.whole else rng.choice((1, 3, 5, 8, 13)))

    def _of_steps(self) -> Actor:
        """Who is sent on, where supervisors make single steps."""
        options, rng = self.options, self.rng
        busy = [actor for actor in self.actors if actor.name.startswith("supervisor")]
        if self.actors and (len(busy) >= options.supervisors or rng.random() >= 0.5):
            return rng.choice(self.actors)
        offset = options.offsets[self._serial % len(options.offsets)]
        actor = self.actor("supervisor", rng.choice(self.cases).number, offset)
        self.begin(actor, self.supervisor(actor).step(self.case_of(actor).job.id))
        return actor

    async def _of_runners(self) -> Actor | None:
        """Who is sent on, where supervisors run; nobody, if nothing is due."""
        options, rng = self.options, self.rng
        if not self.runners or (len(self.runners) < options.supervisors and rng.random() < 0.1):
            self.runners.append(Runner(self, options.offsets[self._serial % len(options.offsets)]))
            self.runners[-1].begin()
        runner = rng.choice(self.runners)
        if rng.random() < options.listens:
            return rng.choice(runner.ears)
        busy = [actor for actor in self.actors if not actor.hears and actor.runner in (None, runner)]
        if not busy or rng.random() < 0.3:
            return rng.choice(sent) if (sent := runner.take()) else None
        actor = rng.choice(busy)
        if actor.limit is None or self.now < actor.limit[0]:
            return actor
        self.note(Kind.FAULT, "is given up after so long", actor)
        await self.break_off(actor)
        actor.limit[1]()
        runner.awake = True
        return None

    async def _ask(self, case: Case) -> None:
        """A person asks for something."""
        rng, mine = self.rng, case.job.id
        if sum(each.name.startswith("operator") for each in self.actors) > 2:
            return
        actor = self.actor("operator", case.number, self.options.offsets[0])
        operator = self.operator(actor)
        draw = rng.random()
        if draw < self.options.person_stops:
            self.begin(actor, operator.stop(mine, "ann", "enough"), "stop")
        elif draw < 0.5:
            until = rng.choice((None, None, self.now + timedelta(seconds=rng.choice((10, 40, 200)))))
            running = rng.choice(tuple(WhileRunning))
            asked = operator.hold(mine, "ann", until, "lunch", running=running)
            self.begin(actor, asked, f"hold, {running} what runs{', for a while' if until else ''}")
        elif draw < 0.85:
            self.begin(actor, operator.release(mine, "ann"), "release")
        else:
            self.begin(actor, operator.confirm_ceased(mine, "ann", "seen it"), "confirm that it has ceased")
        await self.advance(actor, 20 if rng.random() < self.options.whole else rng.choice((2, 5, 10)))

    async def _act(self, case: Case) -> None:
        """The scheduler's side does something, or somebody past the core."""
        rng, options = self.rng, self.options
        there = [place for place, truth in enumerate(case.truths) if truth.gone_at is None]
        nodes = rng.random() < options.nodes
        if nodes and rng.random() < 0.5:
            there = list(range(len(case.truths)))
        if not there:
            return
        place = rng.choice((there[-1], rng.choice(there)))
        truth = case.truths[place]
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
        await self.do(act, case, place)

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

    # rest

    async def _rest(self, each: Callable[[int], object]) -> None:
        """Faults stop; then every job comes to its verdict, or to rest with a reason."""
        if self.options.fenced_at_last:
            for case in self.cases:
                for place, truth in enumerate(case.truths):
                    if truth.node == "lost":
                        await self.do("fence_node", case, place)
        self.faults = False
        self.rng = self._drawing_of("rest")
        self.step = self.config.steps + 1
        self.note(Kind.PHASE, "faults stop")
        runner = self.runners[0] if self.runners else None  # it goes on as it is: it must have forgotten nothing
        while others := [actor for actor in self.actors if not runner or actor.runner is not runner]:
            await self.crash(others[0])
        await self.move(60)
        statuses: dict[int, Status] = {}
        await self._calm_down(runner, statuses, each)
        for case in self.cases:
            if await self._settle(case, statuses) and runner:
                raise ViolationError("I15", f"nobody comes back to it, and there is something to do: {case.record}")
            status = statuses[case.number]
            await self.stored(case)
            self.counts[f"rest {status.waiting_for}"] += 1
            self.note(Kind.PHASE, f"rests: {status}", job=case.number)
            for invariant in INVARIANTS:
                invariant.rested(case, status)

    async def _calm_down(
        self, runner: Runner | None, statuses: dict[int, Status], each: Callable[[int], object]
    ) -> None:
        """Go on until nothing has changed for long, or there is nothing left to do."""
        turn = still = restless = 0
        while True:
            each(self.step)
            before = [case.record for case in self.cases]
            for case in self.cases:
                await self._calm(case)
                if not runner:
                    await self._settle(case, statuses)
            if runner:
                await self._let_run(runner)
            changed = [case for case, record in zip(self.cases, before, strict=True) if case.record is not record]
            still, restless = (0, restless + 1) if changed else (still + 1, restless)
            if still > STILL or all(case.record and case.record.verdict for case in self.cases):
                break
            if restless > self.config.quiet:
                await self._accuse(changed, statuses)
            await self.move(1 if changed and turn % 3 else 40)  # what is refused is tried again later
            turn += 1

    async def _accuse(self, restless: list[Case], statuses: dict[int, Status]) -> None:
        """Say which jobs do not come to rest."""
        for case in restless:
            await self._settle(case, statuses)
        whys = "; ".join(f"job {each.number}: {statuses[each.number]}" for each in restless)
        open_ones = (each for each in restless if each.record and not each.record.verdict)
        self.concerned = next(open_ones, restless[0]).number
        raise ViolationError("I15", f"it never comes to rest: {whys}")

    async def _let_run(self, runner: Runner) -> None:
        """Let a supervisor hear what there is to hear, and bring on what is due, until it waits."""
        for _ in range(ENOUGH * len(self.cases)):
            sent = runner.take()
            for actor in [actor for actor in self.actors if actor.runner is runner]:
                await self.advance(actor)
            if not sent:
                return
        raise ViolationError("I15", "a supervisor that runs never waits")

    async def _settle(self, case: Case, statuses: dict[int, Status]) -> bool:
        """One step of a supervisor; the answer is whether it wrote anything."""
        actor = self.actor("supervisor", case.number)
        before, self.concerned = case.record, case.number
        self.begin(actor, self.supervisor(actor).step(case.job.id))
        await self.advance(actor)
        statuses[case.number] = actor.answer
        return case.record is not before

    async def _calm(self, case: Case) -> None:
        """The scheduler goes about its business."""
        for place, truth in enumerate(case.truths):
            if truth.gone_at is None and truth.state is State.PENDING:
                await self.do("run", case, place)
            elif truth.gone_at is None and truth.state is State.RUNNING and truth.node == "up":
                await self.do("finish", case, place)


def _same(new: object, old: object) -> bool:
    return new == old


def _differences(before: Record, after: Record) -> str:
    fields = [name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    said = [f"{name} {_brief(getattr(after, name))}" for name in fields if name not in ("version", "past")]
    return ", ".join(said) or "nothing new"


def _brief(found: object) -> str:  # noqa: PLR0911  # a line each
    match found:
        case None:
            return "none"
        case Hold():
            marks = "acknowledged " * found.acked + "withdrawn " * found.refused
            return f"{marks}instance {found.instance} by {found.by}"
        case Chosen():
            why = f", stopped for {found.stopped_for}" if found.stopped_for else ""
            return f"submission {found.submission}, restarts {found.restarts}{why}"
        case Intent():
            return str(found.kind)
        case End() | Verdict():
            return f"{found.state} ({found.cause})" if found.cause else str(found.state)
        case Charge():
            return "to no rule" if found.rule is None else f"to rule {found.rule + 1}"
        case Said():
            return f"by {found.ask.by}"
        case Ask():
            return f"by {found.by}"
        case _:
            return str(found)
