"""A deliberately naive model of both schedulers: what a call answers, tells and leaves behind.

It knows nothing of the library: states, causes and errors are their texts, a ref is a name, an id and a time,
and a Kubeflow UID is a text of the model's own. Nothing is indexed or kept for speed: every question scans
all objects. Each call is a method whose `match` has the rows of the transition table, by their letters:

* Slurm: G gated, P open, H held, A admin hold, R running, L node lost, X-s / X-p / X-r ending, E ended,
  F forgotten.
* Kubeflow: P pending, H held by us, D deactivated by others, A admin hold, R running, W wedged, E ended,
  Z deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SUBMISSIONS = 1_000_000
HOLD_BASE = timedelta(seconds=315_576_000)
POD_DERIVED = ("NodeLost", "OutOfMemory", "NonZeroExit")
CHANGES = ("start", "open", "stop", "hold", "release", "requeue", "restore_requeue_bit")
BY_REF = ("open", "stop", "hold", "release", "requeue", "restore_requeue_bit")
ENV_READS = ("objects", "calls", "truth")
EVEN_GONE = ("return_node", "fence_node", "omit")
LAST = 1_000_000_000  # the place of what comes after every object


class Ref(NamedTuple):
    """The name of an object; weak without the time."""

    name: str
    id: str
    submitted_at: datetime | None


class Rule(NamedTuple):
    """A rule of a policy, its backoff in seconds."""

    causes: tuple[str, ...]
    action: str
    limit: int | None = None
    backoff: int = 0


class Compiled(NamedTuple):
    """A native policy: what the scheduler is told, the rules that it carries out, and the rest."""

    settings: dict[str, str]
    covered: tuple[int, ...]
    rest: tuple[Rule, ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What of the configuration the model reads."""

    shape: str = "slurm"
    max_job_id: int = 67_043_328
    min_job_age: timedelta = timedelta(minutes=5)
    slurmd_timeout: timedelta = timedelta(minutes=5)
    evidence_window: timedelta = timedelta(minutes=5)
    kill_wait: timedelta = timedelta(0)
    call_bound: timedelta = timedelta(seconds=25)
    accounting_lag: timedelta = timedelta(0)
    history: bool = False
    ceased: bool = False
    ceased_detail: str = ""
    native_restart: bool = False


@dataclass(frozen=True)
class Ask:
    """One call with its arguments; `side` is who makes it: a client's name, or `env`."""

    call: str
    side: str = "backend"
    ref: Ref | None = None
    job: str = ""
    jobs: tuple[str, ...] = ()
    submission: int = 1
    native: tuple[tuple[str, str], ...] | None = None
    rules: tuple[Rule, ...] = ()
    instance: int = 1
    by: str = ""
    until: datetime | None = None
    reason: str = ""
    deadline: datetime | None = None
    started: datetime | None = None
    crash: bool = False
    exit_code: int = 0
    detail: str = ""
    target: str = ""
    error: str = ""
    effect: str = "none"
    after: timedelta | None = None
    times: int = 1
    only_job: str | None = None
    lag: timedelta = timedelta(0)
    view: str | None = None

    def __str__(self) -> str:
        """The call with what differs from the defaults."""
        shown = {
            name: value
            for name, value in vars(self).items()
            if name not in ("call", "side") and value != getattr(Ask, name)
        }
        texts = ", ".join(f"{name}={plain(value)}" for name, value in shown.items())
        return f"{self.side}.{self.call}({texts})"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An observation."""

    ref: Ref
    job_id: str
    submission: int
    state: str
    cause: str | None
    gated: bool
    hold: int | None
    restarts: int
    requeue_bit: bool | None
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime | None
    observed_at: datetime
    from_history: bool = False
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """An execution as the ground truth shows it, without its attempt."""

    epoch: int
    started_at: datetime
    ended_at: datetime | None
    cause: str | None
    exit_code: int | None
    alive: bool


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The ground truth of one object."""

    ref: Ref
    job_id: str
    submission: int
    state: str
    cause: str | None
    gated: bool
    hold: int | None
    start_time: datetime | None
    held_by: str
    held_until: datetime | None
    hold_reason: str
    admin_held: bool
    active: bool
    requeue_bit: bool | None
    restarts: int
    node: str | None
    executions: tuple[Ran, ...]
    gone_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One entry of the call log; `outcome` is the error's class."""

    call: str
    side: str
    at: datetime
    ref: Ref | None
    job_id: str | None
    outcome: str | None
    landed_at: datetime | None


@dataclass(frozen=True)
class Answer:
    """What the caller gets: a value, or the error's class and what a stale hold says of the current one."""

    value: object = None
    error: str | None = None
    current: int | None = None


class RefusedError(Exception):
    """The call ends in the library's error of that name."""

    def __init__(self, name: str, current: int | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.current = current


@dataclass
class Execution:
    """One execution; `node` is up, lost or fenced (which is lost still, ruling 4)."""

    epoch: int
    started_at: datetime
    ended_at: datetime | None = None
    cause: str | None = None
    exit_code: int | None = None
    alive: bool = True
    node: str = "up"
    lost_at: datetime | None = None
    dies_at: datetime | None = None

    @property
    def cut_off(self) -> bool:
        """No word from its node: nothing that the scheduler does reaches the process."""
        return self.node != "up"

    def die(self, at: datetime) -> None:
        """The process is gone; dead once is dead for good."""
        if self.alive:
            self.alive = False
            self.ended_at = at
        self.dies_at = None


class Change(NamedTuple):
    """What an object looked like from then on."""

    at: datetime
    seen: Seen


@dataclass
class Thing:
    """One object.

    Reads that lag (LT-2) know of its `changes` those from the index `known_from` on, and with `start_known` that there
    was nothing before. What went, and so long ago that no lag in use reached it, is `forgotten`; unless it
    `went_unseen`, before any read lagged: its last change stays known.
    """

    order: int
    name: str
    id: str
    submitted_at: datetime
    job: str
    submission: int
    gated: bool
    bit: bool | None
    state: str = "Pending"
    end_cause: str | None = None
    base: str | None = None
    detail: str = ""
    hold: int | None = None
    held_by: str = ""
    held_until: datetime | None = None
    hold_reason: str = ""
    admin_held: bool = False
    active: bool = True
    restarts: int = 0
    max_restarts: int = 0
    ending: str | None = None
    ending_due: datetime | None = None
    arose: datetime | None = None
    vanished: bool = False
    executions: list[Execution] = field(default_factory=list[Execution])
    ended_at: datetime | None = None
    exit_code: int | None = None
    gone_at: datetime | None = None
    shown: Seen | None = field(default=None, repr=False)
    former: list[Ref] = field(default_factory=list[Ref], repr=False)
    changes: list[Change] = field(default_factory=list[Change], repr=False)
    known_from: int = field(default=0, repr=False)
    start_known: bool = field(default=True, repr=False)
    forgotten: bool = field(default=False, repr=False)
    went_unseen: bool = field(default=False, repr=False)
    omitted: int = field(default=0, repr=False)

    @property
    def ref(self) -> Ref:
        return Ref(self.name, self.id, self.submitted_at)

    @property
    def latest(self) -> Execution | None:
        return self.executions[-1] if self.executions else None

    @property
    def running_on(self) -> Execution:
        """The execution of a running object."""
        assert self.state == "Running"
        return self.executions[-1]


@dataclass
class Fault:
    """An injected error that waits for its calls."""

    call: str
    error: str
    effect: str
    after: timedelta | None
    times: int
    only_job: str | None


@dataclass
class LateCall:
    """LT-1: a call that is still on its way; `entry` is its place in the log."""

    ask: Ask
    at: datetime
    order: int
    entry: int


class Due(NamedTuple):
    """Something that happens by the clock; `number` says which execution or which late call."""

    at: datetime
    order: int
    what: str
    number: int = -1


def cut(moment: datetime) -> datetime:
    """The whole second."""
    return moment.replace(microsecond=0)


def plain(value: object) -> str:
    """A short text of a value, for the script of a failure."""
    match value:
        case Ref():
            at = "" if value.submitted_at is None else f"@{value.submitted_at:%H:%M:%S}"
            return f"{value.name}/{value.id}{at}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S.%f}"
        case timedelta():
            return f"{value.total_seconds():g}s"
        case tuple():
            items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
            return "(" + ", ".join(plain(item) for item in items) + ")"
        case _:
            return repr(value)


class Model:
    """What both shapes share: time, who may call, the order of the errors, the log, and the watchers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now = datetime(1, 1, 1, tzinfo=UTC)
        self.moment = self.now  # of what happens: a due thing happens at its due time, and is observed now
        self.objects: list[Thing] = []
        self.told: list[Seen] = []
        self.log: list[Logged] = []
        self.landed: list[int] = []  # the entries of the log that late calls have changed
        self.faults: list[Fault] = []
        self.late: list[LateCall] = []
        self.came_due: dict[Due, int] = {}
        self.counter = 0
        self.lag_of_all = timedelta(0)
        self.lag_of_one: dict[str, timedelta] = {}
        self.closed: set[str] = set()
        self.dropped: set[int] = set()  # by keep_history: for the caller to say
        self.last_id = 0

    # Time

    def read_clock(self, clock: datetime) -> datetime:
        """TM-3: the backend's time never steps back."""
        self.now = self.moment = max(self.now, clock)
        return self.now

    def scheduled(self) -> list[Due]:
        """All that will happen by the clock, whenever."""
        late = [Due(late.at, late.order, "late", late.entry) for late in self.late]
        return late + [due for thing in self.remembered() for due in self.scheduled_for(thing)]

    def overdue(self) -> list[Due]:
        """TM-2: by due time, then by start, then as they came to be due."""
        came_due: dict[Due, int] = {}
        for due in sorted(self.scheduled()):
            self.counter += 1
            came_due[due] = self.came_due.get(due, self.counter)
        self.came_due = came_due
        found = [due for due in came_due if due.at <= self.now]
        return sorted(found, key=lambda due: (due.at, due.order, came_due[due]))

    def settle(self) -> None:
        """TM-2: until nothing is due, each thing at its own moment."""
        while due := self.overdue():
            self.moment = due[0].at
            if due[0].what == "late":
                self.land(due[0].number)
            else:
                thing = self.objects[due[0].order]
                self.happen(thing, due[0])
                self.tell(thing)
        self.moment = self.now

    def land(self, entry: int) -> None:
        """LT-1: the call acts, or is refused without anybody being told."""
        late = next(late for late in self.late if late.entry == entry)
        self.late.remove(late)
        before = repr(self.objects)
        with suppress(RefusedError):
            self.spi_act(late.ask)
        if repr(self.objects) != before:
            self.log[entry] = replace(self.log[entry], landed_at=self.moment)
            self.landed.append(entry)
        for thing in self.objects:
            self.tell(thing)

    def moments(self) -> list[datetime]:
        """When something is due, or a read that lags or a look at the history will answer otherwise."""
        lags = {self.lag_of_all, *self.lag_of_one.values()}
        found = {due.at for due in self.scheduled()}
        found |= {change.at + lag for lag in lags if lag for thing in self.objects for change in thing.changes}
        gone = [thing.gone_at for thing in self.objects if thing.gone_at is not None]
        found |= {at + lag + by for at in gone for lag in lags for by in (timedelta(0), self.settings.accounting_lag)}
        return sorted(at for at in found if at > self.now)

    # Calls

    def close(self, side: str) -> None:
        """Its lag is no longer in use; what it has under way lands."""
        self.closed.add(side)
        self.lag_of_one[side] = timedelta(0)

    def ask(self, ask: Ask, clock: datetime) -> Answer:
        """Make the call at that time of the clock."""
        if ask.side in self.closed:
            return Answer(error="ClosedError")
        self.read_clock(clock)
        if ask.call == "now":
            return Answer(self.now)
        self.settle()
        if ask.side == "env":
            return self.ask_env(ask)
        if ask.call == "watch":
            return Answer(self.snapshot())
        return self.ask_spi(ask)

    def ask_env(self, ask: Ask) -> Answer:
        try:
            value = self.env_act(ask)
        except RefusedError as refused:
            return Answer(error=refused.name)
        if ask.call not in ENV_READS:
            self.after_act()
        return Answer(value)

    def ask_spi(self, ask: Ask) -> Answer:
        """An SPI call: the errors in the order of 1.2, and an entry in the log."""
        writes = ask.call in CHANGES
        before = repr(self.objects) if writes else ""
        try:
            self.check(ask)
            self.strike(ask, "none")
            self.in_time(ask)
            self.put_off(ask)
            answer = Answer(self.spi_act(ask))
            self.strike(ask, "kept")
        except RefusedError as refused:
            answer = Answer(error=refused.name, current=refused.current)
        if writes:
            self.after_act()  # after a refusal too: a crash leaves the bit set
        landed = writes and repr(self.objects) != before
        self.log.append(
            Logged(
                call=ask.call,
                side=ask.side,
                at=self.now,
                ref=ask.ref,
                job_id=ask.job or None,
                outcome=answer.error,
                landed_at=self.now if landed else None,
            )
        )
        return answer

    def check(self, ask: Ask) -> None:
        """Read-only, unsupported, invalid: what is wrong before anything is looked up."""
        if ask.side.startswith("reader") and ask.call in CHANGES:
            raise RefusedError("ReadOnlyError")
        if ask.call in ("requeue", "restore_requeue_bit") and self.settings.shape == "kubeflow":
            raise RefusedError("UnsupportedError")
        if ask.call in BY_REF and ask.ref is not None and ask.ref.submitted_at is None:
            raise RefusedError("InvalidError")
        if ask.call == "start" and not 1 <= ask.submission < SUBMISSIONS:
            raise RefusedError("InvalidError")
        if ask.call == "start" and any(key != self.native_key for key, _ in ask.native or ()):
            raise RefusedError("InvalidError")
        if ask.call in ("hold", "release") and not 1 <= ask.instance < SUBMISSIONS:
            raise RefusedError("InvalidError")

    def in_time(self, ask: Ask) -> None:
        """2.5: a command that started at its deadline is in time."""
        if ask.deadline is not None and (ask.started or self.now) > ask.deadline:
            raise RefusedError("ExpiredError")

    def waiting(self, ask: Ask, *effects: str) -> Fault | None:
        """The injected error that was registered first."""
        for fault in self.faults:
            wanted = fault.only_job is None or fault.only_job == ask.job
            if fault.call == ask.call and fault.effect in effects and fault.times > 0 and wanted:
                return fault
        return None

    def strike(self, ask: Ask, effect: str) -> None:
        if fault := self.waiting(ask, effect):
            fault.times -= 1
            raise RefusedError(fault.error)

    def put_off(self, ask: Ask) -> None:
        """LT-1: what it names now gives it its place among what is due in one moment."""
        fault = self.waiting(ask, "kept", "late")
        if fault is None or fault.effect == "kept":
            return
        fault.times -= 1
        if ask.call in CHANGES:
            assert fault.after is not None
            named = [thing for thing in self.remembered() if ask.ref and self.matches(thing.ref, ask.ref)]
            order = named[0].order if named else LAST
            self.late.append(LateCall(ask, self.now + fault.after, order, len(self.log)))
        raise RefusedError(fault.error)

    def after_act(self) -> None:
        """Tell what the act changed, then what has come due at once by it (a delay of 0)."""
        for thing in self.objects:
            self.tell(thing)
        self.settle()

    # Watchers

    def tell(self, thing: Thing) -> None:
        """Tell the watchers, if anything but the moment differs (ruling 9)."""
        if thing.gone_at is not None:
            return  # its Gone was told when it went
        now_seen = self.seen(thing)
        if thing.shown is None or replace(thing.shown, observed_at=self.now) != now_seen:
            if thing.shown is not None and thing.shown.ref != now_seen.ref:
                thing.former.append(thing.shown.ref)
            thing.shown = now_seen
            thing.changes.append(Change(self.moment, now_seen))
            self.told.append(now_seen)

    def tell_gone(self, thing: Thing, *, stopped: bool) -> None:
        """WA-2: the last observation once more, as Gone."""
        assert thing.shown is not None
        gone = replace(thing.shown, state="Gone", observed_at=self.now)
        self.told.append(replace(gone, cause="Stopped", detail="") if stopped else gone)

    def snapshot(self) -> tuple[Seen, ...]:
        return tuple(self.seen(thing) for thing in self.remembered())

    # Looking up

    def remembered(self) -> list[Thing]:
        return [thing for thing in self.objects if thing.gone_at is None]

    def named(self, ref: Ref | None) -> Thing:
        """The remembered object that the ref names."""
        assert ref is not None
        for thing in self.remembered():
            if self.matches(thing.ref, ref):
                return thing
        raise RefusedError("NotFoundError")

    def ever_named(self, ref: Ref | None) -> Thing:
        """Ruling 14: the remembered one, else the newest gone one."""
        assert ref is not None
        found = [thing for thing in self.objects if self.matches(thing.ref, ref)]
        here = [thing for thing in found if thing.gone_at is None]
        if not found:
            raise RefusedError("NotFoundError")
        return (here or found)[-1]

    # SPI, both shapes

    def spi_act(self, ask: Ask) -> object:
        match ask.call:
            case "capabilities":
                return self.capabilities()
            case "compile_policy":
                return self.compile_policy(ask.rules)
            case "weaken_identity":
                assert ask.ref is not None
                return ask.ref._replace(submitted_at=None)
            case "start":
                return self.start(ask)
            case "find":
                return self.find(ask.job, ask.side)
            case "find_many":
                return {job: self.find(job, ask.side) for job in dict.fromkeys(ask.jobs)}
            case "get":
                return self.get(ask.ref, ask.side)
            case "cessation":
                return self.cessation(ask)
            case _:
                thing = self.named(ask.ref)
                act: Callable[[Thing, Ask], object] = getattr(self, ask.call)
                return act(thing, ask)

    def cessation(self, ask: Ask) -> tuple[bool, str]:
        """1.3: every execution of the object, or of every object that the job ever had."""
        of_the_job = [thing for thing in self.objects if thing.job == ask.job]
        things = of_the_job if ask.job else [self.named(ask.ref)]
        by_itself = ceased = True
        for execution in [each for thing in things for each in thing.executions]:
            match execution.node:
                case "up":
                    by_itself = by_itself and not execution.alive
                    ceased = ceased and not execution.alive
                case "lost":
                    by_itself = False
                    ceased = ceased and self.settings.ceased
                case _:  # fenced: ceased
                    pass
        return ceased, "" if by_itself else self.settings.ceased_detail

    def find(self, job: str, side: str) -> tuple[Seen, ...]:
        """LT-3: what is to be left out counts down where it would have been listed."""
        found: list[Seen] = []
        for thing in self.objects:
            seen = self.answer(thing, side) if thing.job == job else None
            if seen is not None and thing.omitted:
                thing.omitted -= 1
            elif seen is not None:
                found.append(seen)
        return tuple(found)

    def get(self, ref: Ref | None, side: str) -> Seen:
        assert ref is not None
        answers = [self.answer(thing, side) for thing in self.objects if thing.id == ref.id]
        found = [seen for seen in answers if seen is not None and self.matches(seen.ref, ref)]
        if not found:
            raise RefusedError("NotFoundError")
        if len(found) > 1:
            raise RefusedError("AmbiguousError")
        return found[0]

    def answer(self, thing: Thing, side: str) -> Seen | None:
        """What a read of that client makes of the object, as far as it was there at that moment."""
        lag = self.lag_of(side)
        at = self.now - lag
        if thing.gone_at is not None and thing.gone_at <= at:
            return self.from_history(thing, at)
        return self.as_it_was(thing, at) if lag else self.seen(thing)

    def from_history(self, thing: Thing, at: datetime) -> Seen | None:
        """LT-4; Kubeflow has no history (ruling 21)."""
        assert thing.gone_at is not None
        if self.settings.shape != "slurm" or not self.settings.history:
            return None
        if at < thing.gone_at + self.settings.accounting_lag:
            return None
        assert thing.shown is not None
        return replace(thing.shown, from_history=True, observed_at=at)

    # Reads that lag

    def lag_of(self, side: str) -> timedelta:
        return self.lag_of_one.get(side, self.lag_of_all)

    def largest_lag(self) -> timedelta:
        return max([self.lag_of_all, *self.lag_of_one.values()])

    def as_it_was(self, thing: Thing, at: datetime) -> Seen | None:
        """LT-2: as it stood then. Where that is not known: the first that is known of it, if it was there by then."""
        if thing.order in self.dropped or thing.forgotten:
            return None
        known = thing.changes[thing.known_from :]
        in_force = [change.seen for change in known if change.at <= at]
        if in_force:
            return replace(in_force[-1], observed_at=at)
        first = known[0].seen
        assert first.ref.submitted_at is not None
        began = [first.ref.submitted_at, *(execution.started_at for execution in thing.executions)]
        absent = thing.start_known or min(began) > at
        return None if absent else replace(first, observed_at=at)

    def lag_reads(self, ask: Ask) -> None:
        if ask.lag < timedelta(0):
            raise RefusedError("InvalidError")
        before = self.largest_lag()
        if ask.view is None:
            self.lag_of_all = ask.lag
            self.lag_of_one.clear()
        else:
            self.lag_of_one[ask.view] = ask.lag
        for thing in self.objects:
            if before:
                self.forget(thing, self.now - before)
            else:
                thing.known_from = len(thing.changes) - 1
                thing.start_known = thing.forgotten = False
                thing.went_unseen = thing.gone_at is not None

    def forget(self, thing: Thing, before: datetime) -> None:
        """Nothing is kept but what was in force at that moment, and what came later."""
        older = [index for index, change in enumerate(thing.changes) if change.at <= before]
        thing.known_from = max([thing.known_from, *older])
        thing.start_known = thing.start_known and not older
        went = thing.gone_at is not None and thing.gone_at <= before
        thing.forgotten = thing.forgotten or (went and not thing.went_unseen)

    # Environment, both shapes

    def env_act(self, ask: Ask) -> object:
        match ask.call:
            case "objects":
                return tuple(self.truth(thing) for thing in self.objects)
            case "calls":
                return tuple(self.log)
            case "fail_calls":
                in_bounds = ask.after is not None and timedelta(0) < ask.after <= self.settings.call_bound
                if ask.effect == "late" and not in_bounds:
                    raise RefusedError("InvalidError")
                self.faults.append(Fault(ask.target, ask.error, ask.effect, ask.after, ask.times, ask.only_job))
                return None
            case "lag_reads":
                self.lag_reads(ask)
                return None
            case "omit" if ask.times < 1:
                raise RefusedError("InvalidError")
            case "finish" if not 0 <= ask.exit_code <= 255:
                raise RefusedError("InvalidError")
            case "truth":
                return self.truth(self.ever_named(ask.ref))
            case _:
                thing = self.ever_named(ask.ref) if ask.call in EVEN_GONE else self.named(ask.ref)
                act: Callable[[Thing, Ask], object] = getattr(self, ask.call)
                return act(thing, ask)

    def omit(self, thing: Thing, ask: Ask) -> None:
        thing.omitted += ask.times

    def fence_node(self, thing: Thing, _ask: Ask) -> None:
        """Every lost node of the object (ruling 2); they stay lost (ruling 4)."""
        lost = [execution for execution in thing.executions if execution.cut_off]
        if not lost:
            raise RefusedError("WrongStateError")
        for execution in lost:
            execution.node = "fenced"
            execution.die(self.moment)

    def return_node(self, thing: Thing, _ask: Ask) -> None:
        """Every lost node of the object; what the object runs on now is the shape's business."""
        lost = [execution for execution in thing.executions if execution.cut_off]
        if not lost:
            raise RefusedError("WrongStateError")
        for execution in lost:
            execution.node = "up"
            execution.lost_at = None
            if thing.gone_at is None and thing.state == "Running" and execution is thing.latest:
                self.node_is_back(thing, execution)
            else:
                execution.die(self.moment)

    def lose(self, execution: Execution) -> None:
        """The node is cut off; where the signal is configured to say ceased, the process died with it."""
        execution.node = "lost"
        execution.lost_at = self.moment
        if self.settings.ceased:
            execution.die(self.moment)

    def begin(self, thing: Thing, restart: int) -> Ran:
        """A new execution."""
        thing.state = "Running"
        thing.base = None
        thing.detail = ""
        execution = Execution(thing.submission * SUBMISSIONS + restart, self.moment)
        thing.executions.append(execution)
        return self.ran(execution)

    def end(self, thing: Thing, state: str, cause: str | None, at: datetime) -> None:
        """The object ends."""
        thing.exit_code = thing.running_on.exit_code if thing.state == "Running" else None
        thing.state = state
        thing.end_cause = cause
        thing.ended_at = at

    def no_capacity(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "P":
                thing.base = "NoCapacity"
                thing.detail = ask.detail
            case _:
                raise RefusedError("WrongStateError")

    def admin_hold(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("WrongStateError")
            case _:  # G P H D A R L X W
                thing.admin_held = True

    def admin_release(self, thing: Thing, _ask: Ask) -> None:
        thing.admin_held = False  # every row, E's "carried one lifted" too

    # What is seen

    def pending_cause(self, thing: Thing) -> str | None:
        """TM-6."""
        if thing.admin_held:
            return "AdminHeld"
        if thing.gated:
            return "Gated"
        if thing.hold is not None or not thing.active:
            return "Held"
        return thing.base

    def true_cause(self, thing: Thing) -> str | None:
        if thing.state == "Pending":
            return self.pending_cause(thing)
        if thing.state == "Running":
            return self.running_cause(thing)
        return thing.end_cause

    def seen(self, thing: Thing) -> Seen:
        cause = self.true_cause(thing)
        exit_code = None if thing.state in ("Pending", "Running") else thing.exit_code
        if thing.vanished and cause in POD_DERIVED:
            cause = "Unknown"
            exit_code = None
        return Seen(
            ref=thing.ref,
            job_id=thing.job,
            submission=thing.submission,
            state=thing.state,
            cause=cause,
            gated=thing.gated,
            hold=thing.hold,
            restarts=thing.restarts,
            requeue_bit=thing.bit,
            exit_code=exit_code,
            started_at=None if thing.state == "Pending" or thing.latest is None else thing.latest.started_at,
            ended_at=None if thing.state in ("Pending", "Running") else thing.ended_at,
            observed_at=self.now,
            detail=thing.detail if cause == "NoCapacity" else "",
        )

    def truth(self, thing: Thing) -> Whole:
        return Whole(
            ref=thing.ref,
            job_id=thing.job,
            submission=thing.submission,
            state=thing.state,
            cause=self.true_cause(thing),
            gated=thing.gated,
            hold=thing.hold,
            start_time=self.start_time(thing),
            held_by=thing.held_by,
            held_until=thing.held_until,
            hold_reason=thing.hold_reason,
            admin_held=thing.admin_held,
            active=thing.active,
            requeue_bit=thing.bit,
            restarts=thing.restarts,
            node=None if thing.latest is None else thing.latest.node,
            executions=tuple(self.ran(execution) for execution in thing.executions),
            gone_at=thing.gone_at,
        )

    def ran(self, execution: Execution) -> Ran:
        return Ran(
            epoch=execution.epoch,
            started_at=execution.started_at,
            ended_at=execution.ended_at,
            cause=execution.cause,
            exit_code=execution.exit_code,
            alive=execution.alive,
        )

    def set_hold(self, thing: Thing, ask: Ask) -> bool:
        """SL-6: the same instance changes nothing, a higher one takes over, a lower one is stale."""
        if thing.hold is not None and ask.instance < thing.hold:
            raise RefusedError("StaleError", thing.hold)
        taken = thing.hold != ask.instance
        thing.hold = ask.instance
        return taken

    def capabilities(self) -> Mapping[str, str]:
        yes = {**self.able, **({"AccountingHistory": "yes configured"} if self.settings.history else {})}
        given = "yes configured" if self.settings.native_restart else "no declared"
        rules = {
            **dict.fromkeys(("rules.restart", "rules.hold", "rules.fail"), "yes declared"),
            **({"rules.restart": given} if self.settings.native_restart else {}),
        }
        natives = {"native.restart": given, "native.hold": "no declared", "native.fail": "no declared"}
        return {**yes, **rules, **natives, "call_bound": plain(self.settings.call_bound)}

    def compilable(self, rules: Sequence[Rule]) -> list[tuple[int, Rule]]:
        """NP-1: the action is native, and no earlier rule names any of its causes; no backoff."""
        if not self.settings.native_restart:
            return []
        found: list[tuple[int, Rule]] = []
        earlier: set[str] = set()
        for index, rule in enumerate(rules):
            if rule.action == "restart" and not earlier & set(rule.causes) and rule.backoff == 0:
                found.append((index, rule))
            earlier |= set(rule.causes)
        return found

    # What each shape has of its own

    native_key: str
    able: Mapping[str, str]

    def condition(self, thing: Thing) -> str:
        raise NotImplementedError

    def scheduled_for(self, thing: Thing) -> list[Due]:
        raise NotImplementedError

    def happen(self, thing: Thing, due: Due) -> None:
        raise NotImplementedError

    def matches(self, own: Ref, ref: Ref) -> bool:
        raise NotImplementedError

    def running_cause(self, thing: Thing) -> str | None:
        raise NotImplementedError

    def node_is_back(self, thing: Thing, execution: Execution) -> None:
        raise NotImplementedError

    def start_time(self, thing: Thing) -> datetime | None:
        raise NotImplementedError

    def start(self, ask: Ask) -> Ref:
        raise NotImplementedError

    def compile_policy(self, rules: Sequence[Rule]) -> Compiled:
        raise NotImplementedError


class SlurmModel(Model):
    """Sections 1 and 2 of the transition table."""

    native_key = "requeue"
    able: Mapping[str, str] = {
        **dict.fromkeys(("GatedStart", "Hold", "Requeue", "Watch", "Cessation"), "yes declared"),
        **dict.fromkeys(("AccountingHistory", "HoldRunning", "Output"), "no declared"),
    }

    def condition(self, thing: Thing) -> str:
        if thing.gone_at is not None:
            return "F"
        if thing.state == "Running":
            if thing.ending is not None:
                return thing.ending
            return "L" if thing.running_on.cut_off else "R"
        if thing.state != "Pending":
            return "E"
        if thing.admin_held:
            return "A"
        if thing.gated:
            return "G"
        return "P" if thing.hold is None else "H"

    def matches(self, own: Ref, ref: Ref) -> bool:
        if ref.submitted_at is None:
            return (own.name, own.id) == (ref.name, ref.id)
        return (own.id, own.submitted_at) == (ref.id, ref.submitted_at)

    def running_cause(self, thing: Thing) -> str | None:
        return {None: None, "X-s": "Stopped", "X-p": "Preempted", "X-r": "Requeued"}[thing.ending]

    def start_time(self, thing: Thing) -> datetime | None:
        if thing.hold is None:
            return None
        return thing.submitted_at + HOLD_BASE + timedelta(seconds=thing.hold)

    # By the clock

    def scheduled_for(self, thing: Thing) -> list[Due]:
        match self.condition(thing):
            case "X-s" | "X-p" | "X-r":
                assert thing.ending_due is not None
                return [Due(thing.ending_due, thing.order, "ending")]
            case "L":
                assert thing.running_on.lost_at is not None
                return [Due(thing.running_on.lost_at + self.settings.slurmd_timeout, thing.order, "timeout")]
            case "E" if self.settings.min_job_age:
                assert thing.ended_at is not None
                return [Due(thing.ended_at + self.settings.min_job_age, thing.order, "purge")]
            case _:
                return []

    def happen(self, thing: Thing, due: Due) -> None:
        match due.what:
            case "ending":
                self.complete(thing, due.at)
            case "timeout":
                self.node_failed(thing, due.at)
            case _:
                thing.gone_at = due.at
                self.tell_gone(thing, stopped=False)

    # Inner steps

    def tell_to_end(self, thing: Thing, ending: str, cause: str) -> None:
        """SL-14; without a kill wait the ending is over at once."""
        thing.ending = ending
        thing.ending_due = self.moment + self.settings.kill_wait
        thing.running_on.cause = cause
        if not self.settings.kill_wait:
            self.complete(thing, self.moment)

    def complete(self, thing: Thing, at: datetime) -> None:
        """The process dies unless its node is lost, and the object goes where it was going."""
        if not thing.running_on.cut_off:
            thing.running_on.die(at)
        match thing.ending:
            case "X-s":
                self.end(thing, "Cancelled", "Stopped", at)
            case "X-p":
                self.end(thing, "Failed", "Preempted", at)
            case _:
                self.back_to_pending(thing, at)
        thing.ending = thing.ending_due = None

    def back_to_pending(self, thing: Thing, at: datetime) -> None:
        """SL-7; a hold and an admin hold stay in force."""
        thing.state = "Pending"
        thing.base = "Requeued"
        thing.gated = False
        thing.restarts += 1
        thing.submitted_at = cut(at)

    def node_failed(self, thing: Thing, at: datetime) -> None:
        """SL-11."""
        thing.running_on.cause = "NodeLost"
        if thing.bit:
            self.back_to_pending(thing, at)
        else:
            self.end(thing, "Failed", "NodeLost", at)

    def node_is_back(self, thing: Thing, execution: Execution) -> None:
        if thing.ending is not None:
            execution.die(self.moment)
            self.complete(thing, self.moment)
        elif not execution.alive:
            self.node_failed(thing, self.moment)

    # SPI

    def start(self, ask: Ask) -> Ref:
        taken = {thing.id for thing in self.remembered()}
        if len(taken) == self.settings.max_job_id:
            raise RefusedError("UnavailableError")
        number = self.last_id % self.settings.max_job_id + 1
        while str(number) in taken:
            number = number % self.settings.max_job_id + 1
        self.last_id = number
        thing = Thing(
            order=len(self.objects),
            name=f"dj-{ask.job}",
            id=str(number),
            submitted_at=cut(self.moment),
            job=ask.job,
            submission=ask.submission,
            gated=True,
            bit=dict(ask.native or ()).get("requeue") == "1",
        )
        self.objects.append(thing)
        return thing.ref

    def open(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("FinishedError")
            case _ if thing.admin_held:  # A, and R, L, X-* under an admin hold (ruling 1)
                raise RefusedError("HeldError")
            case _:  # G; = elsewhere
                thing.gated = False

    def stop(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "G" | "P" | "H" | "A":
                self.end(thing, "Cancelled", "Stopped", self.moment)
            case "R" | "L":
                self.tell_to_end(thing, "X-s", "Stopped")
            case "X-p" | "X-r":
                thing.ending = "X-s"  # the same due time
                thing.running_on.cause = "Stopped"
            case _:  # X-s E
                pass

    def hold(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "G" | "P" | "H" | "A":
                self.set_hold(thing, ask)
            case "E":
                raise RefusedError("FinishedError")
            case _:  # R L X-*
                raise RefusedError("RunningError")

    def release(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("FinishedError")
            case _ if thing.hold is None:
                pass
            case _ if thing.hold != ask.instance:
                raise RefusedError("StaleError", thing.hold)
            case _:  # H, and G and A with a hold
                thing.hold = None

    def requeue(self, thing: Thing, ask: Ask) -> None:
        if ask.crash:  # SL-8: before the second step could refuse
            thing.bit = True
            raise RefusedError("CrashedError")
        match self.condition(thing):
            case "G" | "P" | "H" | "A":
                raise RefusedError("PendingError")
            case "R" | "L":
                self.tell_to_end(thing, "X-r", "Requeued")
            case "E":
                self.back_to_pending(thing, self.moment)
            case _:  # X-*
                raise RefusedError("RunningError")

    def restore_requeue_bit(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("FinishedError")
            case _:
                thing.bit = False

    # Environment

    def run(self, thing: Thing, _ask: Ask) -> Ran:
        match self.condition(thing):
            case "P":
                return self.begin(thing, thing.restarts)
            case _:
                raise RefusedError("WrongStateError")

    def finish(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                thing.running_on.exit_code = ask.exit_code
                if ask.exit_code == 0:
                    self.ends_by_itself(thing, "Succeeded", None)
                else:
                    self.ends_by_itself(thing, "Failed", "NonZeroExit")
            case "X-s" | "X-p" | "X-r" if not thing.running_on.cut_off:  # ruling 5
                thing.running_on.exit_code = ask.exit_code
                self.complete(thing, self.moment)
            case _:
                raise RefusedError("WrongStateError")

    def ends_by_itself(self, thing: Thing, state: str, cause: str | None) -> None:
        thing.running_on.cause = cause
        thing.running_on.die(self.moment)
        self.end(thing, state, cause, self.moment)

    def fails(self, thing: Thing, cause: str) -> None:
        match self.condition(thing):
            case "R":
                self.ends_by_itself(thing, "Failed", cause)
            case _:
                raise RefusedError("WrongStateError")

    def out_of_memory(self, thing: Thing, _ask: Ask) -> None:
        self.fails(thing, "OutOfMemory")

    def time_out(self, thing: Thing, _ask: Ask) -> None:
        self.fails(thing, "Timeout")

    def fail_launch(self, thing: Thing, _ask: Ask) -> None:
        self.fails(thing, "LaunchFailed")

    def preempt(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R" | "L":
                self.tell_to_end(thing, "X-r" if thing.bit else "X-p", "Preempted")
            case _:
                raise RefusedError("WrongStateError")

    def lose_node(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R" | "L" | "X-s" | "X-p" | "X-r":
                if not thing.running_on.cut_off:
                    self.lose(thing.running_on)
            case _:
                raise RefusedError("WrongStateError")

    def requeue_externally(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R" | "L":
                thing.bit = True
                self.tell_to_end(thing, "X-r", "Requeued")
            case "E":
                thing.bit = True
                self.back_to_pending(thing, self.moment)
            case _:
                raise RefusedError("WrongStateError")

    def deactivate_externally(self, _thing: Thing, _ask: Ask) -> None:
        raise RefusedError("WrongStateError")

    def reactivate_externally(self, _thing: Thing, _ask: Ask) -> None:
        raise RefusedError("WrongStateError")

    def compile_policy(self, rules: Sequence[Rule]) -> Compiled:
        """NP-2: one bit for preemption and node loss together; other rules do not spoil it (ruling 26)."""
        both = {"Preempted", "NodeLost"}
        found = [(i, rule) for i, rule in self.compilable(rules) if rule.limit is None and {*rule.causes} <= both]
        if {cause for _, rule in found for cause in rule.causes} != both:
            return Compiled({}, (), tuple(rules))
        covered = tuple(i for i, _ in found)
        rest = tuple(rule for i, rule in enumerate(rules) if i not in covered)
        return Compiled({"requeue": "1"}, covered, rest)


class KubeflowModel(Model):
    """Sections 3 and 4 of the transition table."""

    native_key = "maxRestarts"
    able: Mapping[str, str] = {
        **dict.fromkeys(("Hold", "HoldRunning", "Watch", "Cessation"), "yes declared"),
        **dict.fromkeys(("AccountingHistory", "GatedStart", "Requeue", "Output"), "no declared"),
    }

    def condition(self, thing: Thing) -> str:
        if thing.gone_at is not None:
            return "Z"
        if thing.state == "Running":
            return "W" if thing.running_on.cut_off else "R"
        if thing.state != "Pending":
            return "E"
        if thing.admin_held:
            return "A"
        if thing.hold is not None:
            return "H"
        return "P" if thing.active else "D"

    def matches(self, own: Ref, ref: Ref) -> bool:
        return own.id == ref.id and ref.submitted_at in (None, own.submitted_at)

    def running_cause(self, thing: Thing) -> str | None:
        return "NodeLost" if thing.running_on.cut_off else None

    def start_time(self, thing: Thing) -> datetime | None:  # noqa: ARG002 - a hold is no start time here
        return None

    # By the clock

    def scheduled_for(self, thing: Thing) -> list[Due]:
        if thing.gone_at is None and self.true_cause(thing) in POD_DERIVED and not thing.vanished:
            assert thing.arose is not None
            return [Due(thing.arose + self.settings.evidence_window, thing.order, "evidence")]
        return []

    def scheduled(self) -> list[Due]:
        """Also the deaths of executions told to end, deleted objects' too (KF-10)."""
        deaths = [
            Due(execution.dies_at, thing.order, "death", index)
            for thing in self.objects
            for index, execution in enumerate(thing.executions)
            if execution.dies_at is not None
        ]
        return super().scheduled() + deaths

    def happen(self, thing: Thing, due: Due) -> None:
        if due.what == "evidence":
            thing.vanished = True
        else:
            thing.executions[due.number].die(due.at)

    # Inner steps

    def arise(self, thing: Thing) -> None:
        """Evidence begins to age; with no window it is Unknown from the first reading (KF-6)."""
        thing.arose = self.moment
        thing.vanished = not self.settings.evidence_window

    def let_go(self, thing: Thing, cause: str) -> None:
        """The object moves on from its execution, which may live on for a while (KF-10) or on a lost node."""
        execution = thing.running_on
        execution.cause = cause
        if not execution.cut_off and self.settings.kill_wait:
            execution.dies_at = self.moment + self.settings.kill_wait
        elif not execution.cut_off:
            execution.die(self.moment)

    def deactivate(self, thing: Thing) -> None:
        if thing.state == "Running":
            self.let_go(thing, "Held")
            thing.state = "Pending"
        thing.active = False

    def activate(self, thing: Thing) -> None:
        thing.active = True
        thing.hold = None
        thing.held_by = thing.hold_reason = ""
        thing.held_until = None

    def node_is_back(self, thing: Thing, execution: Execution) -> None:
        if not execution.alive:
            execution.cause = "NodeLost"
            self.end(thing, "Failed", "NodeLost", self.moment)  # the evidence is as old as the loss

    # SPI

    def start(self, ask: Ask) -> Ref:
        name = f"dj-{ask.job.lower()}-s{ask.submission}"
        if any(thing.name == name for thing in self.remembered()):
            raise RefusedError("AlreadyExistsError")
        thing = Thing(
            order=len(self.objects),
            name=name,
            id=f"uid{len(self.objects)}",
            submitted_at=cut(self.moment),
            job=ask.job,
            submission=ask.submission,
            gated=False,
            bit=None,
            max_restarts=int(dict(ask.native or ()).get("maxRestarts", "0")),
        )
        self.objects.append(thing)
        return thing.ref

    def open(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("FinishedError")
            case _:
                pass

    def stop(self, thing: Thing, _ask: Ask) -> None:
        live = thing.state in ("Pending", "Running")
        match self.condition(thing):
            case "R" | "W":
                self.let_go(thing, "Stopped")
            case _:  # P H D A E
                pass
        if live:
            self.end(thing, "Cancelled", "Stopped", self.moment)
        thing.gone_at = self.moment
        self.tell_gone(thing, stopped=live)

    def hold(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("FinishedError")
            case _:  # P H D A R W
                if self.set_hold(thing, ask):
                    thing.held_by, thing.held_until, thing.hold_reason = ask.by, ask.until, ask.reason
                self.deactivate(thing)

    def release(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("FinishedError")
            case _ if thing.hold is None:  # P D R W, and A without a hold of ours
                pass
            case _ if thing.hold != ask.instance:
                raise RefusedError("StaleError", thing.hold)
            case _:
                self.activate(thing)

    # Environment

    def run(self, thing: Thing, _ask: Ask) -> Ran:
        match self.condition(thing):
            case "P":
                return self.begin(thing, len(thing.executions))
            case _:
                raise RefusedError("WrongStateError")

    def finish(self, thing: Thing, ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                thing.running_on.exit_code = ask.exit_code
                if ask.exit_code == 0:
                    self.ends_by_itself(thing, "Succeeded", None)
                else:
                    self.pod_fails(thing, "NonZeroExit")
            case _:
                raise RefusedError("WrongStateError")

    def out_of_memory(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                self.pod_fails(thing, "OutOfMemory")
            case _:
                raise RefusedError("WrongStateError")

    def pod_fails(self, thing: Thing, cause: str) -> None:
        """KF-11: restarted in place until the count is used up, and only then failed."""
        if thing.restarts < thing.max_restarts:
            thing.running_on.cause = cause
            thing.running_on.die(self.moment)
            thing.restarts += 1
            self.begin(thing, len(thing.executions))
        else:
            self.ends_by_itself(thing, "Failed", cause)

    def ends_by_itself(self, thing: Thing, state: str, cause: str | None) -> None:
        thing.running_on.cause = cause
        thing.running_on.die(self.moment)
        self.end(thing, state, cause, self.moment)
        self.arise(thing)

    def time_out(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                self.ends_by_itself(thing, "Failed", "Timeout")
            case _:
                raise RefusedError("WrongStateError")

    def fail_launch(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                self.ends_by_itself(thing, "Failed", "LaunchFailed")
            case _:
                raise RefusedError("WrongStateError")

    def preempt(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                self.let_go(thing, "Preempted")
                thing.state = "Pending"
                thing.base = "Preempted"
            case _:
                raise RefusedError("WrongStateError")

    def lose_node(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "R":
                self.lose(thing.running_on)
                self.arise(thing)
            case "W":
                pass
            case _:
                raise RefusedError("WrongStateError")

    def requeue_externally(self, _thing: Thing, _ask: Ask) -> None:
        raise RefusedError("WrongStateError")

    def deactivate_externally(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("WrongStateError")
            case _:  # P A R W; = in H and D, which are deactivated already
                self.deactivate(thing)

    def reactivate_externally(self, thing: Thing, _ask: Ask) -> None:
        match self.condition(thing):
            case "E":
                raise RefusedError("WrongStateError")
            case _:  # H D A; = in P, R and W
                self.activate(thing)

    def compile_policy(self, rules: Sequence[Rule]) -> Compiled:
        """NP-3: one rule with a limit and exactly these two causes."""
        for i, rule in self.compilable(rules):
            if rule.limit is not None and {*rule.causes} == {"NonZeroExit", "OutOfMemory"}:
                rest = tuple(other for j, other in enumerate(rules) if j != i)
                return Compiled({"maxRestarts": str(rule.limit)}, (i,), rest)
        return Compiled({}, (), tuple(rules))


def model_of(settings: Settings) -> Model:
    """The model of that shape."""
    return SlurmModel(settings) if settings.shape == "slurm" else KubeflowModel(settings)
