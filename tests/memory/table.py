"""The engine of the transition-table tests: bring one object into a row's condition, make one call, compare.

A condition and a call are written as in the tables: words with an argument after a colon, one public call a word
(`start open run preempt`, `hold:3`). What a cell says is a `Then`: what *changes*. Everything that it does not name
must be as it was, in the observation, in the ground truth and in every execution; a watcher must be told that
change exactly once, and nothing where the observation stays the same.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, TypeAlias, cast

import pytest

from dispatch_memory_async import (
    HOLD_BASE,
    AlreadyExistsError,
    Backend,
    CallMeta,
    Cause,
    Cessation,
    CrashedError,
    DispatchError,
    FinishedError,
    HeldError,
    HoldMeta,
    NativePolicy,
    NotFoundError,
    PendingError,
    Policy,
    Ref,
    ReleaseMeta,
    RunningError,
    Shape,
    StaleError,
    State,
    UnsupportedError,
    WrongStateError,
    crash_between_steps,
    epoch,
)
from tests.support import FAR, T0, Clock, backend, job

# The fields as the spec names them; comparing them one by one says which one is wrong.
OBSERVED = [
    "ref",
    "job_id",
    "submission",
    "state",
    "cause",
    "gated",
    "hold",
    "restarts",
    "requeue_bit",
    "exit_code",
    "started_at",
    "ended_at",
    "observed_at",
    "from_history",
    "detail",
]
TRUE = [
    "ref",
    "job",
    "submission",
    "state",
    "cause",
    "gated",
    "hold",
    "start_time",
    "held_by",
    "held_until",
    "hold_reason",
    "admin_held",
    "active",
    "requeue_bit",
    "restarts",
    "node",
    "executions",
    "gone_at",
]
RAN = ["attempt", "epoch", "env", "started_at", "ended_at", "cause", "exit_code", "alive"]
SHARED = ("ref", "state", "cause", "gated", "hold", "restarts", "requeue_bit")

FIRST = T0 + timedelta(milliseconds=500)  # off the second, so that a cut submit time shows
STEP = timedelta(seconds=10)  # between two steps, so that every moment is its own
KILL_WAIT = timedelta(seconds=60)  # of the rows with `.kw`: an ending outlasts the steps after it
CONFIGURED = "as configured"  # Cessation.detail
FULL = "no room"  # the detail of no_capacity
CODE = 3  # the n of `finish n`

Fields: TypeAlias = dict[str, Any]


class Sign(Enum):
    """What an expected value is, where it depends on the moment or on what was."""

    NOW = auto()  # the moment of the call, or the moment at which it was due
    SECOND = auto()  # that moment, cut to the second
    ONE_MORE = auto()  # than before
    LATEST_START = auto()  # started_at of the latest execution
    BY = auto()  # what the latest hold was given
    UNTIL = auto()
    REASON = auto()


NOW, SECOND, ONE_MORE, LATEST_START = Sign.NOW, Sign.SECOND, Sign.ONE_MORE, Sign.LATEST_START


class OneOf:
    """Equal to any of some values: where the spec leaves it open."""

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def __init__(self, *values: object) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return other in self.values

    def __repr__(self) -> str:
        return f"OneOf{self.values}"


@dataclass(frozen=True, kw_only=True)
class Then:
    """What a cell says."""

    error: type[DispatchError] | None = None
    current: int | None = None  # StaleError.current
    answer: Cessation | None = None
    seen: Mapping[str, object] = field(default_factory=dict[str, object])  # of the observation (and of the truth)
    truth: Mapping[str, object] = field(default_factory=dict[str, object])  # of the truth alone
    last: Mapping[str, object] = field(default_factory=dict[str, object])  # of the execution that was the latest
    older: Mapping[str, object] = field(default_factory=dict[str, object])  # of each one before it
    begins: bool = False  # a new execution begins now
    deleted: bool = False  # the object goes, watchers see Gone (KF-3)
    forgotten: bool = False  # the object goes into history, or nowhere (SL-12)


Cells: TypeAlias = dict[str, Then]  # of one row, by column

SAME = Then()  # the tables' `=`


def raises(error: type[DispatchError], *, current: int | None = None, **seen: object) -> Then:
    return Then(error=error, current=current, seen=seen)


WS = raises(WrongStateError)
FIN = raises(FinishedError)
RUN = raises(RunningError)
PEND = raises(PendingError)
HELD = raises(HeldError)
UNS = raises(UnsupportedError)
NF = raises(NotFoundError)
EXISTS = raises(AlreadyExistsError)
CRASH = raises(CrashedError, requeue_bit=True)


def stale(current: int) -> Then:
    return raises(StaleError, current=current)


def shown(text: str) -> dict[str, object]:
    """`State/Cause` as in the tables; `State/None` has no cause."""
    state, _, cause = text.partition("/")
    return {"state": State(state), "cause": None if cause == "None" else Cause(cause)}


def becomes(text: str = "", *, truth: Mapping[str, object] | None = None, **seen: object) -> Then:
    """Another state or cause, or other fields; no execution is touched."""
    return Then(seen={**(shown(text) if text else {}), **seen}, truth=truth or {})


def only_truth(**truth: object) -> Then:
    """Nothing shown, nothing told; the ground truth changes."""
    return Then(truth=truth)


DIES: Mapping[str, object] = {"alive": False, "ended_at": NOW}
LIVES: Mapping[str, object] = {}  # on, or is dead already: alive and ended_at stay as they are


def ends(
    text: str,
    *,
    cause: Cause | OneOf | None = None,
    process: Mapping[str, object] = DIES,
    exit_code: int | None = None,
    truth: Mapping[str, object] | None = None,
) -> Then:
    """The object ends now, and with it its execution: for the cause shown, unless another is named."""
    what = shown(text)
    code: dict[str, object] = {} if exit_code is None else {"exit_code": exit_code}
    return Then(
        seen={**what, "ended_at": NOW, **code},
        last={"cause": what["cause"] if cause is None else cause, **process, **code},
        truth=truth or {},
    )


def cancelled_pending(*, ran: bool = False) -> Then:
    """Stopped while Pending: no execution is touched, and started_at is that of the latest (ruling 7)."""
    return becomes("Cancelled/Stopped", ended_at=NOW, started_at=LATEST_START if ran else None, detail="")


def back_to_pending(
    text: str,
    *,
    cause: Cause | None = None,
    process: Mapping[str, object] = LIVES,
    truth: Mapping[str, object] | None = None,
    exit_code: int | None = None,
    **seen: object,
) -> Then:
    """Pending again; the execution, where one was current, ends for that cause."""
    code: dict[str, object] = {} if exit_code is None else {"exit_code": exit_code}
    return Then(
        seen={**shown(text), "started_at": None, "ended_at": None, "exit_code": None, **seen},
        last={} if cause is None else {"cause": cause, **process, **code},
        truth=truth or {},
    )


def requeued(
    text: str = "Pending/Requeued",
    *,
    cause: Cause | None = None,
    process: Mapping[str, object] = LIVES,
    truth: Mapping[str, object] | None = None,
    exit_code: int | None = None,
    **seen: object,
) -> Then:
    """SL-7: Pending, ungated, restarts + 1, submitted now (in whole seconds)."""
    return back_to_pending(
        text,
        cause=cause,
        process=process,
        truth=truth,
        exit_code=exit_code,
        gated=False,
        restarts=ONE_MORE,
        submitted_at=SECOND,
        **seen,
    )


def ending(text: str, cause: Cause, **seen: object) -> Then:
    """SL-14: still Running. Whether Execution.cause is there before the end is left open (ruling 10)."""
    return Then(seen={**shown(text), **seen}, last={"cause": OneOf(None, cause)})


RUNS = Then(seen={**shown("Running/None"), "started_at": NOW, "detail": ""}, truth={"node": "up"}, begins=True)


def answers(ceased: bool, detail: str = "") -> Then:
    return Then(answer=Cessation(ceased=ceased, detail=detail))


CEASED = answers(ceased=True)
LIVING = answers(ceased=False, detail=CONFIGURED)
DECLARED = answers(ceased=True, detail=CONFIGURED)


def fields(value: object, names: Iterable[str]) -> Fields:
    return {name: getattr(value, name) for name in names}


@dataclass(frozen=True)
class Look:
    """The object as it is shown (None: not found) and as it is."""

    seen: Fields | None
    truth: Fields
    runs: tuple[Fields, ...]


def at(step: int, later: float = 0) -> datetime:
    """The moment of that step of a row's words (waits do not count as steps), and so many seconds later."""
    return FIRST + step * STEP + timedelta(seconds=later)


class World:
    """A backend with one job, and the words of the tables as calls on it."""

    def __init__(self, shape: Shape, **settings: object) -> None:
        self.clock = Clock(FIRST)
        settings.setdefault("cessation", Cessation(ceased=False, detail=CONFIGURED))
        self.b: Backend = backend(shape, self.clock, **settings)
        self.job = job(1, env={"MODEL": "small"})
        self.ref: Ref
        self.weak: Ref
        self.meta: HoldMeta | None = None
        self._holds = 0
        self._steps = 0

    async def given(self, words: str) -> None:
        for word in words.split():
            if word.startswith("wait:"):
                self.clock.advance(float(word.removeprefix("wait:")))
                continue
            if self._steps:
                self.clock.advance(STEP)
            self._steps += 1
            if not word.startswith("start"):
                await self.refresh()
            with suppress(CrashedError):  # `crash` is how a row gets its bit
                await self.call(word)

    async def refresh(self) -> None:
        """A requeue gives the object another exact ref; the words always name the present one."""
        with suppress(NotFoundError):
            self.ref = (await self.b.get(self.weak)).ref

    async def start(self, native: Mapping[str, str] | None = None, submission: int = 1) -> Ref:
        policy = None if native is None else NativePolicy(settings=native, covered=(0,), rest=Policy())
        self.ref = await self.b.start(self.job, submission, native=policy)
        self.weak = await self.b.weaken_identity(self.ref)
        return self.ref

    async def call(self, word: str, *, weak: bool = False, deadline: datetime = FAR) -> object:
        """Make the call that a word names; whatever it answers or raises."""
        name, _, argument = word.partition(":")
        ref = self.weak if weak else self.ref if name != "start" else None
        b, env = self.b, self.b.env
        result: object = None
        match name, ref:
            case "start", _:
                natives = {"": None, "requeue": {"requeue": "1"}}
                result = await self.start(natives.get(argument, {"maxRestarts": argument}))
            case "hold", Ref():
                self._holds += 1
                self.meta = HoldMeta(
                    deadline=deadline,
                    instance=int(argument),
                    by=f"user {self._holds}",
                    until=T0 + timedelta(days=self._holds),
                    reason=f"reason {self._holds}",
                )
                await b.hold(ref, self.meta)
            case "release", Ref():
                await b.release(ref, ReleaseMeta(deadline=deadline, instance=int(argument)))
            case "requeue", Ref():
                await b.requeue(ref, CallMeta(deadline=deadline))
            case "crash", Ref():
                with crash_between_steps():
                    await b.requeue(ref, CallMeta(deadline=deadline))
            case "restore_requeue_bit", Ref():
                await b.restore_requeue_bit(ref, CallMeta(deadline=deadline))
            case (("open" | "stop" | "cessation" | "get"), Ref()):
                result = await getattr(b, name)(ref)
            case "finish", Ref():
                await env.finish(ref, int(argument))
            case "no_capacity", Ref():
                await env.no_capacity(ref, argument or FULL)
            case _:
                result = await getattr(env, name)(ref)
        return result

    async def look(self) -> Look:
        """Both sides of the object. It settles what is due, as every call does."""
        seen: Fields | None = None
        with suppress(NotFoundError):
            observation = await self.b.get(self.weak)
            seen = fields(observation, OBSERVED)
            self.ref = observation.ref
        value = await self.b.env.truth(self.ref)
        runs = tuple({**fields(run, RAN), "env": dict(run.env)} for run in value.executions)
        return Look(seen, fields(value, TRUE), runs)

    async def told_by(self, act: Callable[[], Awaitable[object]]) -> list[Fields]:
        """What a watcher is told while something is done."""
        async with self.b.watch() as watch:
            while not watch.synced:
                await anext(watch)
            await act()
            await watch.aclose()
            return [fields(item, OBSERVED) async for item in watch]

    async def outcome(self, word: str, *, weak: bool = False) -> tuple[object, DispatchError | None]:
        """What the call answers, and what it raises."""
        try:
            return await self.call(word, weak=weak), None
        except DispatchError as error:
            return None, error

    def expect(self, before: Look, then: Then, moment: datetime) -> tuple[Look, list[Fields]]:
        """What must be there afterwards, and what must have been told, if it happened at that moment."""

        def value(of: object) -> object:
            match of:
                case Sign.NOW:
                    return moment
                case Sign.SECOND:
                    return moment.replace(microsecond=0)
                case Sign.ONE_MORE:
                    return before.truth["restarts"] + 1
                case Sign.LATEST_START:
                    return before.runs[-1]["started_at"]
                case Sign.BY | Sign.UNTIL | Sign.REASON:
                    assert self.meta is not None
                    return getattr(self.meta, of.name.lower())
                case _:
                    return of

        changes = {name: value(of) for name, of in then.seen.items()}
        if "submitted_at" in changes:
            ref: Ref = before.truth["ref"]
            changes["ref"] = Ref(name=ref.name, id=ref.id, submitted_at=changes.pop("submitted_at"))  # type: ignore[arg-type]
        seen = None if before.seen is None else {**before.seen, **changes, "observed_at": self.clock.now}
        told: list[Fields] = []
        if seen is not None and before.seen is not None:
            if {**before.seen, "observed_at": None} != {**seen, "observed_at": None}:
                told = [seen]
            if then.deleted or then.forgotten:
                # Gone repeats the last observation (WA-2), with the cause Stopped if it was deleted while live.
                told = [{**seen, "state": State.GONE}]
                if then.deleted and not before.seen["state"].ended:
                    told[0].update(cause=Cause.STOPPED, detail="")  # ruling 17: no detail but beside NoCapacity
                seen = None

        runs = [{**run, **{name: value(of) for name, of in then.older.items()}} for run in before.runs[:-1]]
        runs += [{**run, **{name: value(of) for name, of in then.last.items()}} for run in before.runs[-1:]]
        truth: Fields = {**before.truth, **{name: of for name, of in changes.items() if name in SHARED}}
        truth.update({name: value(of) for name, of in then.truth.items()})
        if then.deleted:
            truth["gone_at"] = moment
            if not truth["state"].ended:
                truth.update(shown("Cancelled/Stopped"))
        if then.forgotten:
            truth["gone_at"] = moment
        if then.begins:
            number = truth["restarts"] if truth["requeue_bit"] is not None else len(before.runs)  # SL-13, KF-9
            runs.append(
                {
                    "epoch": epoch(truth["submission"], number),
                    "started_at": moment,
                    "ended_at": None,
                    "cause": None,
                    "exit_code": None,
                    "alive": True,
                }
            )
        truth["start_time"] = start_time(truth)
        return Look(seen, truth, tuple(runs)), told


def start_time(truth: Fields) -> datetime | None:
    """SL-6: a Slurm hold is a start time; Kubeflow's is no such thing."""
    if truth["hold"] is None or truth["requeue_bit"] is None:
        return None
    submitted: datetime = truth["ref"].submitted_at
    return submitted + HOLD_BASE + timedelta(seconds=truth["hold"])


def differences(wanted: object, actual: object) -> list[str]:
    """Which fields differ, in words: pytest explains no assertion of a helper module."""
    match wanted, actual:
        case dict(), dict():
            left, right = cast("Fields", wanted), cast("Fields", actual)
            names = [*left, *(name for name in right if name not in left)]
            return [
                f".{name}{words}"
                for name in names
                for words in differences(left.get(name, "(nothing)"), right.get(name, "(nothing)"))
            ]
        case ((list() | tuple()), (list() | tuple())):
            ours, theirs = cast("list[object]", wanted), cast("list[object]", actual)
            if len(ours) == len(theirs):
                return [
                    f"[{number}]{words}"
                    for number, pair in enumerate(zip(ours, theirs, strict=True))
                    for words in differences(*pair)
                ]
        case _:
            pass
    return [] if wanted == actual else [f": expected {wanted}, seen {actual}"]


def agree(what: str, actual: object, wanted: object) -> None:
    found = differences(wanted, actual)
    assert not found, "; ".join(what + words for words in found)


def same(after: Look, wanted: Look) -> None:
    """Compare both sides; a new execution's own attempt is read, and must be new."""
    agree("observation", after.seen, wanted.seen)
    agree("truth", {**after.truth, "executions": None}, {**wanted.truth, "executions": None})
    attempts = [run["attempt"] for run in after.runs]
    assert len(set(attempts)) == len(attempts), attempts
    runs: list[Fields] = []
    for run, expected in zip(after.runs, wanted.runs, strict=False):
        full = {"attempt": run["attempt"], **expected}
        ours = {"DISPATCH_ATTEMPT": run["attempt"], "DISPATCH_EPOCH": str(full["epoch"])}
        runs.append({"env": {**after.truth["job"].env, **ours}, **full})
    assert len(after.runs) == len(wanted.runs), f"{len(after.runs)} executions, expected {len(wanted.runs)}"
    agree("executions", after.runs, runs)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A condition: the words that lead to it, and how it reads when one is there."""

    given: str
    shows: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    seen: Mapping[str, object] = field(default_factory=dict[str, object])  # what differs from a fresh object's
    truth: Mapping[str, object] = field(default_factory=dict[str, object])
    runs: tuple[Mapping[str, object], ...] = ()  # what differs, for each, from a live execution's
    submitted: datetime = FIRST
    gone: bool = False


def row(
    given: str,
    shows: str,
    *runs: Mapping[str, object],
    settings: Mapping[str, object] | None = None,
    truth: Mapping[str, object] | None = None,
    submitted: datetime = FIRST,
    gone: bool = False,
    **seen: object,
) -> Row:
    return Row(
        given=given,
        shows=shows,
        runs=runs,
        settings=settings or {},
        truth=truth or {},
        submitted=submitted,
        gone=gone,
        seen=seen,
    )


def ran(start: datetime, end: datetime | None = None, cause: object = None, exit_code: int | None = None) -> Fields:
    """An execution; without an end its process lives."""
    return {
        "started_at": start,
        "ended_at": end,
        "cause": cause,
        "exit_code": exit_code,
        "alive": end is None,
    }


def settings_of(name: str, row: Row) -> dict[str, object]:
    return {**({"kill_wait": KILL_WAIT} if name.endswith(".kw") else {}), **row.settings}


async def reach(shape: Shape, name: str, row: Row) -> World:
    """The row's condition, one step after its last word."""
    world = World(shape, **settings_of(name, row))
    await world.given(row.given)
    world.clock.advance(STEP)
    return world


async def check_row(shape: Shape, name: str, row: Row) -> None:
    """The condition is what the spec calls it, field by field, and every read says the same."""
    world = await reach(shape, name, row)
    before = await world.look()
    slurm = shape is Shape.SLURM
    ref = Ref(name=world.ref.name, id=world.ref.id, submitted_at=row.submitted.replace(microsecond=0))
    common: Fields = {
        "ref": ref,
        "submission": 1,
        **shown(row.shows),
        "gated": False,
        "hold": None,
        "restarts": 0,
        "requeue_bit": False if slurm else None,
    }
    seen = {
        **common,
        "job_id": world.job.id,
        "exit_code": None,
        "started_at": None,
        "ended_at": None,
        "observed_at": world.clock.now,
        "from_history": False,
        "detail": "",
        **row.seen,
    }
    truth = {
        **common,
        **{key: of for key, of in row.seen.items() if key in SHARED},
        "job": world.job,
        "held_by": "",
        "held_until": None,
        "hold_reason": "",
        "admin_held": False,
        "active": True,
        "node": "up" if row.runs else None,
        "gone_at": None,
        **row.truth,
    }
    truth["start_time"] = start_time(truth)
    first = epoch(1, 0)
    runs = tuple({"epoch": first + number, **run} for number, run in enumerate(row.runs))
    readable = not row.gone or row.seen.get("from_history") is True
    same(before, Look(seen if readable else None, {**truth, "executions": None}, runs))

    async def strongly() -> Any:
        return await world.b.get(world.ref)

    reads: list[Callable[[], Any]] = [strongly, lambda: world.b.get(world.weak)]
    for read in reads:
        if readable:
            agree("get", fields(await read(), OBSERVED), seen)
        else:
            with pytest.raises(NotFoundError):
                await read()
    found = [fields(item, OBSERVED) for item in await world.b.find(world.job.id)]
    agree("find", found, [seen] if readable else [])
    many = await world.b.find_many([world.job.id])
    agree(
        "find_many",
        {key: [fields(item, OBSERVED) for item in items] for key, items in many.items()},
        {world.job.id: found},
    )
    async with world.b.watch() as watch:
        told: list[Fields] = []
        while not watch.synced:
            told.append(fields(await anext(watch), OBSERVED))
    agree("snapshot", told, [] if row.gone else [seen])


# The cells whose name is not the call: the argument is part of what the cell is about. Rows with a hold are at 3.
CALLS = {
    "hold": "hold:3",
    "hold.lower": "hold:2",
    "hold.same": "hold:3",
    "hold.higher": "hold:4",
    "release": "release:3",
    "release.lower": "release:2",
    "release.same": "release:3",
    "release.higher": "release:4",
    "requeue.crash": "crash",
    "finish.0": "finish:0",
    "finish.n": f"finish:{CODE}",
}


async def check_cell(shape: Shape, name: str, row: Row, column: str, then: Then) -> None:
    """Make the column's call in the row's condition, and compare all that there is to see."""
    world = await reach(shape, name, row)
    before = await world.look()
    outcomes: list[tuple[object, DispatchError | None]] = []

    async def act() -> None:
        outcomes.append(await world.outcome(CALLS.get(column, column)))

    told = await world.told_by(act)
    ((answer, error),) = outcomes
    after = await world.look()
    agree("error", type(error), then.error or type(None))
    if isinstance(error, StaleError):
        agree("current", error.current, then.current)
    if then.answer is not None:
        agree("answer", answer, then.answer)
    wanted, expected = world.expect(before, then, world.clock.now)
    if row.gone:
        # What is answered from history is told to nobody.
        expected = []
    same(after, wanted)
    agree("told", told, expected)
    if then.begins and column == "run":
        agree("answer", fields(answer, RAN), after.runs[-1])


@dataclass(frozen=True, kw_only=True)
class Later:
    """What the clock brings: from these words on, so many seconds after the last of them."""

    given: str
    due: float
    then: Then
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    history: bool = False  # what is forgotten reads from history


async def check_later(shape: Shape, case: Later, *, late: float) -> None:
    """Nothing a moment before; at the due moment, or late, the same change with the due moment on it."""
    world = World(shape, **case.settings)
    await world.given(case.given)
    before = await world.look()
    due = world.clock.now + timedelta(seconds=case.due)
    world.clock.now = due - timedelta(microseconds=1)
    agree("told before", await world.told_by(world.look), [])
    same(await world.look(), world.expect(before, SAME, due)[0])

    async def pass_on() -> None:
        world.clock.now = due + timedelta(seconds=late)
        await world.look()

    told = await world.told_by(pass_on)
    after = await world.look()
    wanted, expected = world.expect(before, case.then, due)
    if case.history:
        assert before.seen is not None
        remembered = {**before.seen, "observed_at": world.clock.now, "from_history": True}
        wanted = Look(remembered, wanted.truth, wanted.runs)
    same(after, wanted)
    agree("told", told, expected)


def plus(plain: Cells, differs: Cells) -> Cells:
    """The cells of a special case; one with a hold has the three instances in place of the one."""
    taken = {"hold", "release"} if "hold.same" in differs else set[str]()
    return {name: then for name, then in plain.items() if name not in taken} | differs


def cells(table: Mapping[str, Mapping[str, Then]]) -> list[object]:
    """One test item a cell; `R.kw` and `stop` give `R.stop.kw`."""
    items: list[object] = []
    for name, columns in table.items():
        bare = name.removesuffix(".kw")
        kw = ".kw" if bare != name else ""
        items += [pytest.param(name, column, then, id=f"{bare}.{column}{kw}") for column, then in columns.items()]
    return items
