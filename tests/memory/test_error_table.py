"""The errors of 1.2 through the memory adapter: each row by a real call, the order of rows, and nothing but rows."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import combinations
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from dispatch_memory_async import (
    AlreadyExistsError,
    AmbiguousError,
    Backend,
    CallMeta,
    Cause,
    ClosedError,
    CrashedError,
    DispatchError,
    Env,
    ExpiredError,
    FinishedError,
    HeldError,
    HoldMeta,
    InvalidError,
    Job,
    NativePolicy,
    NotFoundError,
    OutcomeUnknownError,
    PendingError,
    Policy,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    RunningError,
    Shape,
    StaleError,
    State,
    UnavailableError,
    UnsupportedError,
    View,
    WrongStateError,
    call_start,
    crash_between_steps,
)
from tests.model.samples import PROPERTY
from tests.support import FAR, MINUTE, SECOND, T0, Clock, backend, job, ulid

LATER = CallMeta(deadline=FAR)


def hold(instance: int, deadline: datetime = FAR) -> HoldMeta:
    return HoldMeta(deadline=deadline, instance=instance)


def release(instance: int, deadline: datetime = FAR) -> ReleaseMeta:
    return ReleaseMeta(deadline=deadline, instance=instance)


def elsewhere(call: Coroutine[Any, Any, object]) -> Awaitable[object]:
    """Make a call in another thread, up to where it first waits."""

    def begin() -> None:
        try:
            call.send(None)
        finally:
            call.close()

    return anyio.to_thread.run_sync(begin)


# Every row of the table, by a real call

Refused = tuple[Awaitable[object], list[str]]
"""A call that is refused, and what its message must name."""
Scene = Callable[[Backend, Clock], Awaitable[Refused]]


@dataclass
class Row:
    error: type[DispatchError]
    scene: Scene
    shape: Shape | None = None
    settings: dict[str, object] = field(default_factory=dict[str, object])
    changes: bool = False


async def bad_number(b: Backend, _: Clock) -> Refused:
    return b.start(job(), 0), ["submission", "0", "[1, 1000000)"]


async def bad_kind(b: Backend, _: Clock) -> Refused:
    return b.find("job 7"), ["job_id", "'job 7'", "ULID"]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def weak_write(b: Backend, _: Clock) -> Refused:
    ref = await b.weaken_identity(await b.start(job(), 1))
    return b.stop(ref), ["ref", str(ref), "weak", "exact"]


async def other_thread(b: Backend, _: Clock) -> Refused:
    return elsewhere(b.start(job(), 1)), ["thread"]


async def no_object(b: Backend, _: Clock) -> Refused:
    return b.get(Ref(name="dj-x", id="4711", submitted_at=T0)), ["dj-x/4711@1772366400"]


async def another_time(b: Backend, clock: Clock) -> Refused:
    ref = await b.start(job(), 1)
    clock.advance(MINUTE)
    wrong = Ref(name=ref.name, id=ref.id, submitted_at=T0 + SECOND)
    return b.get(wrong), [str(wrong), str(ref)]


async def forgotten(b: Backend, clock: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.stop(ref)
    clock.advance(5 * MINUTE)
    return b.get(ref), [str(ref)]


async def name_in_use(b: Backend, _: Clock) -> Refused:
    await b.start(job(), 2)
    return b.start(job(), 2), ["dj-00000000000000000000000001-s2", "in use"]


async def two_under_one_weak_ref(b: Backend, clock: Clock) -> Refused:
    first = await b.start(job(), 1)
    await b.stop(first)
    clock.advance(5 * MINUTE)
    second = await b.start(job(), 2)
    assert (first.name, first.id) == (second.name, second.id)  # the id has wrapped
    weak = await b.weaken_identity(second)
    return b.get(weak), [str(weak), str(first), str(second)]


async def ended(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.open(ref)
    await b.env.run(ref)
    await b.env.finish(ref)
    return b.open(ref), [str(ref), "Succeeded", "ended"]


async def hold_running(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.open(ref)
    await b.env.run(ref)
    return b.hold(ref, hold(1)), [str(ref), "running", "pending"]


async def requeue_ending(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.open(ref)
    await b.env.run(ref)
    await b.stop(ref)
    return b.requeue(ref, LATER), [str(ref), "ending", "Stopped"]


async def requeue_pending(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    return b.requeue(ref, LATER), [str(ref), "pending", "ended"]


async def open_under_an_administrator(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.env.admin_hold(ref)
    return b.open(ref), [str(ref), "administrator"]


async def run_held(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.env.admin_hold(ref)
    return b.env.run(ref), [str(ref), "Pending", "AdminHeld", "eligible"]


async def finish_pending(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    return b.env.finish(ref), [str(ref), "Pending", "running"]


async def lower_instance(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.hold(ref, hold(5))
    return b.hold(ref, hold(3)), [str(ref), "5", "3"]


async def other_instance(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)
    await b.hold(ref, hold(5))
    return b.release(ref, release(7)), [str(ref), "5", "7"]


async def late(b: Backend, clock: Clock) -> Refused:
    ref = await b.start(job(), 1)
    clock.advance(SECOND)
    return b.stop(ref, deadline=T0), ["stop", "2026-03-01T12:00:01", "2026-03-01T12:00:00"]


async def requeue_on_kubeflow(b: Backend, _: Clock) -> Refused:
    return b.requeue(await b.start(job(), 1), LATER), ["requeue", "kubeflow"]


async def bit_on_kubeflow(b: Backend, _: Clock) -> Refused:
    return b.restore_requeue_bit(await b.start(job(), 1), LATER), ["restore_requeue_bit", "kubeflow"]


async def no_id_left(b: Backend, _: Clock) -> Refused:
    for number in (1, 2):
        await b.start(job(), number)
    return b.start(job(), 3), ["2", "ids"]


async def reply_lost(b: Backend, _: Clock) -> Refused:
    await b.env.fail_calls("start", OutcomeUnknownError("start of 1: no reply"), effect="kept")
    return b.start(job(), 1), ["start of 1: no reply"]


async def crashed(b: Backend, _: Clock) -> Refused:
    ref = await b.start(job(), 1)

    async def requeue() -> None:
        with crash_between_steps():
            await b.requeue(ref, LATER)

    return requeue(), [str(ref), "crash", "bit"]


async def read_only(b: Backend, _: Clock) -> Refused:
    return b.view(read_only=True).start(job(), 1), ["read-only", "start"]


async def view_closed(b: Backend, _: Clock) -> Refused:
    view = b.view()
    await view.aclose()
    return view.find(ulid(1)), ["view", "closed"]


async def backend_closed(_: Backend, __: Clock) -> Refused:
    another = Backend()
    await another.aclose()
    return another.find(ulid(1)), ["backend", "closed"]


async def env_closed(_: Backend, __: Clock) -> Refused:
    another = Backend()
    await another.aclose()
    return another.env.objects(), ["backend", "closed"]


async def watch_closed(b: Backend, _: Clock) -> Refused:
    watch = b.watch()
    await watch.aclose()
    return watch.__aenter__(), ["atch", "closed"]


SLURM, KUBEFLOW = Shape.SLURM, Shape.KUBEFLOW
HISTORY: dict[str, object] = {"capabilities": {"AccountingHistory": {"value": "yes"}}, "max_job_id": 1}
ROWS: dict[str, Row] = {
    "InvalidError: a number": Row(InvalidError, bad_number),
    "InvalidError: a kind": Row(InvalidError, bad_kind),
    "InvalidError: a weak ref on a write": Row(InvalidError, weak_write),
    "InvalidError: another thread": Row(InvalidError, other_thread),
    "NotFoundError": Row(NotFoundError, no_object),
    "NotFoundError: another time": Row(NotFoundError, another_time),
    "NotFoundError: forgotten": Row(NotFoundError, forgotten, SLURM),
    "AlreadyExistsError": Row(AlreadyExistsError, name_in_use, KUBEFLOW),
    "AmbiguousError": Row(AmbiguousError, two_under_one_weak_ref, SLURM, HISTORY),
    "WrongStateError: run": Row(WrongStateError, run_held),
    "WrongStateError: finish": Row(WrongStateError, finish_pending),
    "FinishedError": Row(FinishedError, ended),
    "RunningError": Row(RunningError, hold_running, SLURM),
    "RunningError: ending": Row(RunningError, requeue_ending, SLURM, {"kill_wait": MINUTE}),
    "PendingError": Row(PendingError, requeue_pending, SLURM),
    "HeldError": Row(HeldError, open_under_an_administrator, SLURM),
    "StaleError: hold": Row(StaleError, lower_instance),
    "StaleError: release": Row(StaleError, other_instance),
    "ExpiredError": Row(ExpiredError, late),
    "UnsupportedError": Row(UnsupportedError, requeue_on_kubeflow, KUBEFLOW),
    "UnsupportedError: the bit": Row(UnsupportedError, bit_on_kubeflow, KUBEFLOW),
    "UnavailableError": Row(UnavailableError, no_id_left, SLURM, {"max_job_id": 2}),
    "OutcomeUnknownError": Row(OutcomeUnknownError, reply_lost, changes=True),
    "CrashedError": Row(CrashedError, crashed, SLURM, changes=True),
    "ReadOnlyError": Row(ReadOnlyError, read_only),
    "ClosedError: view": Row(ClosedError, view_closed),
    "ClosedError: backend": Row(ClosedError, backend_closed),
    "ClosedError: environment": Row(ClosedError, env_closed),
    "ClosedError: watch": Row(ClosedError, watch_closed),
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, row in ROWS.items() for kind in Shape if row.shape in (None, kind)]
)
async def test_each_row_by_a_real_call(name: str, kind: Shape, clock: Clock) -> None:
    """1.2: exactly this error, a message that names what it is about, and (but for a lost reply) no change."""
    row = ROWS[name]
    b = backend(kind, clock, **row.settings)
    refused, parts = await row.scene(b, clock)
    before = await b.env.objects()
    with pytest.raises(row.error) as refusal:
        await refused
    assert type(refusal.value) is row.error
    for part in parts:
        assert part in str(refusal.value)
    assert (await b.env.objects() != before) is row.changes
    if isinstance(refusal.value, StaleError):
        assert refusal.value.current == 5


def test_no_row_is_missing() -> None:
    """1.2: each error but the two that are never raised bare has its row."""
    told = {row.error for row in ROWS.values()}
    assert told == set(subclasses(DispatchError)) - {DispatchError}


def subclasses(kind: type[DispatchError]) -> Iterator[type[DispatchError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("dispatch_memory_async.model."):
            yield from subclasses(below)


async def test_what_a_lost_reply_and_a_crash_leave_behind(clock: Clock) -> None:
    """1.2, SL-8: the change stays; the crash leaves the bit and nothing else."""
    b = backend(Shape.SLURM, clock)
    await b.env.fail_calls("start", OutcomeUnknownError("no reply"), effect="kept")
    with pytest.raises(OutcomeUnknownError):
        await b.start(job(), 1)
    (seen,) = await b.find(job().id)
    with crash_between_steps(), pytest.raises(CrashedError):
        await b.requeue(seen.ref, LATER)
    after = await b.get(seen.ref)
    assert (after.state, after.cause, after.restarts) == (State.PENDING, Cause.GATED, 0)
    assert after.requeue_bit


# Which one, when several apply

ORDER = (
    "thread",
    "closed",
    "read-only",
    "unsupported",
    "invalid",
    "injected",
    "expired",
    "not found",
    "crash",
    "wrong state",
    "stale",
)
MESSAGES = {"thread": "thread", "closed": "closed", "read-only": "read-only", "injected": "injected"}
ERRORS: Mapping[str, type[DispatchError]] = {
    "thread": InvalidError,
    "closed": ClosedError,
    "read-only": ReadOnlyError,
    "unsupported": UnsupportedError,
    "invalid": InvalidError,
    "injected": UnavailableError,
    "expired": ExpiredError,
    "not found": NotFoundError,
    "crash": CrashedError,
    "wrong state": WrongStateError,
    "stale": StaleError,
}

ALWAYS = ("thread", "closed", "read-only", "invalid", "injected", "expired")
APPLICABLE: dict[tuple[Shape, str], tuple[str, ...]] = {
    (SLURM, "start"): ALWAYS,
    (KUBEFLOW, "start"): ALWAYS,
    (SLURM, "open"): (*ALWAYS, "not found", "wrong state"),
    (KUBEFLOW, "open"): (*ALWAYS, "not found", "wrong state"),
    (SLURM, "stop"): (*ALWAYS, "not found"),
    (KUBEFLOW, "stop"): (*ALWAYS, "not found"),
    (SLURM, "hold"): (*ALWAYS, "not found", "wrong state", "stale"),
    (KUBEFLOW, "hold"): (*ALWAYS, "not found", "wrong state", "stale"),
    (SLURM, "release"): (*ALWAYS, "not found", "wrong state", "stale"),
    (KUBEFLOW, "release"): (*ALWAYS, "not found", "wrong state", "stale"),
    (SLURM, "requeue"): (*ALWAYS, "not found", "crash", "wrong state"),
    (KUBEFLOW, "requeue"): (*ALWAYS, "unsupported", "not found", "crash", "wrong state"),
    (SLURM, "restore_requeue_bit"): (*ALWAYS, "not found", "wrong state"),
    (KUBEFLOW, "restore_requeue_bit"): (*ALWAYS, "unsupported", "not found", "wrong state"),
    (SLURM, "get"): ("thread", "closed", "invalid", "injected", "not found"),
    (KUBEFLOW, "get"): ("thread", "closed", "invalid", "injected", "not found"),
    (SLURM, "cessation"): ("thread", "closed", "invalid", "injected", "not found"),
    (KUBEFLOW, "cessation"): ("thread", "closed", "invalid", "injected", "not found"),
    (SLURM, "find"): ("thread", "closed", "invalid", "injected"),
    (KUBEFLOW, "find"): ("thread", "closed", "invalid", "injected"),
    (SLURM, "run"): ("thread", "closed", "invalid", "not found", "wrong state"),
    (KUBEFLOW, "run"): ("thread", "closed", "invalid", "not found", "wrong state"),
    (SLURM, "finish"): ("thread", "closed", "invalid", "not found", "wrong state"),
    (KUBEFLOW, "finish"): ("thread", "closed", "invalid", "not found", "wrong state"),
    (SLURM, "no_capacity"): ("thread", "closed", "invalid", "not found", "wrong state"),
    (KUBEFLOW, "no_capacity"): ("thread", "closed", "invalid", "not found", "wrong state"),
}
ENV_CALLS = {"run", "finish", "no_capacity"}


def cases() -> Iterator[tuple[Shape, str, tuple[str, ...]]]:
    """Every call, with every two conditions at once, and with all from one on."""
    for (kind, call), names in APPLICABLE.items():
        ordered = sorted(names, key=ORDER.index)
        together = {*combinations(ordered, 1), *combinations(ordered, 2)}
        together |= {tuple(ordered[index:]) for index in range(len(ordered))}
        for conditions in sorted(together, key=lambda each: [ORDER.index(name) for name in each]):
            never_both = kind is KUBEFLOW and {"wrong state", "stale"} <= set(conditions)  # ended ones carry no hold
            only_there = conditions[0] in ("crash", "wrong state") and call in ("requeue", "restore_requeue_bit")
            if not (never_both or (kind is KUBEFLOW and only_there)):
                yield kind, call, conditions


async def prepared(b: Backend, call: str, conditions: tuple[str, ...]) -> Ref:
    """An object on which the call is refused for its state, its instance, or would succeed."""
    ref = await b.start(job(), 1)
    if call in ENV_CALLS:
        await b.open(ref)
        if (call == "finish") is ("wrong state" not in conditions):
            await b.env.run(ref)
        return ref
    if "stale" in conditions:
        await b.hold(ref, hold(5))
    if call == "restore_requeue_bit" or ("wrong state" in conditions) is (call != "requeue"):
        if "wrong state" not in conditions:
            return ref
        if b.config.shape is SLURM:
            await b.stop(ref)
        elif "stale" not in conditions:
            await b.env.run(ref)
            await b.env.finish(ref)
    elif call == "requeue" and b.config.shape is SLURM and "wrong state" not in conditions:
        await b.stop(ref)
    return ref


def asked(client: Any, call: str, ref: Any, *, deadline: datetime, bad: bool, ghost: bool) -> Any:
    """The call, as it is to be refused."""
    if ghost:
        ref = Ref(name=ref.name, id=ref.id, submitted_at=T0 - MINUTE)
    if bad and call not in ("get", "cessation", "find", *ENV_CALLS):
        ref = Ref(name=ref.name, id=ref.id, submitted_at=None)
    match call:
        case "start":
            return client.start(job(), 0 if bad else 2, deadline=deadline)
        case "open" | "stop":
            return getattr(client, call)(ref, deadline=deadline)
        case "hold":
            return client.hold(ref, hold(3, deadline))
        case "release":
            return client.release(ref, release(3, deadline))
        case "requeue" | "restore_requeue_bit":
            return getattr(client, call)(ref, CallMeta(deadline=deadline))
        case "find":
            return client.find("no ulid" if bad else job().id)
        case "finish":
            return client.env.finish(ref, 256 if bad else 0)
        case "no_capacity":
            return client.env.no_capacity(ref, 7 if bad else "full")
        case _:
            return getattr(client.env if call in ENV_CALLS else client, call)("no ref" if bad else ref)


@pytest.mark.parametrize(
    ("kind", "call", "conditions"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}-{'+'.join(case[2])}") for case in cases()],
)
async def test_the_first_that_applies_wins(kind: Shape, call: str, conditions: tuple[str, ...], clock: Clock) -> None:
    """1.2: other thread, closed, read-only, unsupported, invalid, injected, expired, not found, crash, wrong state,
    stale; nothing changed but what a crash leaves.
    """
    b = backend(kind, clock)
    ref = await prepared(b, call, conditions)
    if "injected" in conditions:
        await b.env.fail_calls(call, UnavailableError("injected"))
    client: View = b if call in ENV_CALLS else b.view("read-only" in conditions)
    before = await b.env.objects()
    if "closed" in conditions:
        await client.aclose()
    with crash_between_steps() if "crash" in conditions else nullcontext():
        made = asked(
            client,
            call,
            ref,
            deadline=T0 - SECOND if "expired" in conditions else T0,
            bad="invalid" in conditions,
            ghost="not found" in conditions,
        )
        first = "unsupported" if kind is KUBEFLOW and call.startswith("re") and call != "release" else conditions[0]
        first = min(first, conditions[0], key=ORDER.index)
        with pytest.raises(ERRORS[first], match=MESSAGES.get(first)):
            await (elsewhere(made) if "thread" in conditions else made)
    if not b.closed and first != "crash":
        assert await b.env.objects() == before


async def test_an_injection_is_not_used_up_by_a_call_that_was_refused_before(shape: Shape, clock: Clock) -> None:
    """1.2: what comes before `none` leaves it for the next."""
    b = backend(shape, clock)
    ref = await b.start(job(), 1)
    await b.env.fail_calls("stop", UnavailableError("injected"))
    readonly, closed = b.view(read_only=True), b.view()
    await closed.aclose()
    refused: dict[Awaitable[object], type[DispatchError]] = {
        elsewhere(b.stop(ref)): InvalidError,
        closed.stop(ref): ClosedError,
        readonly.stop(ref): ReadOnlyError,
        b.stop(await b.weaken_identity(ref)): InvalidError,
    }
    for call, error in refused.items():
        with pytest.raises(error):
            await call
    with pytest.raises(UnavailableError, match="injected"):
        await b.stop(Ref(name="n", id="999", submitted_at=T0), deadline=T0 - SECOND)
    await b.stop(ref)


async def test_start_is_refused_for_its_name_or_room_last(shape: Shape, clock: Clock) -> None:
    """1.2: a start that is late is late, also where it could not be served."""
    b = backend(shape, clock, max_job_id=1)
    await b.start(job(), 1)
    with pytest.raises(ExpiredError):
        await b.start(job(), 1, deadline=T0 - SECOND)
    with pytest.raises(AlreadyExistsError if shape is KUBEFLOW else UnavailableError):
        await b.start(job(), 1)


# Nothing but rows


class Broken:
    """Its text, its equality and its hash are errors."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("no equality")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("no iteration")


class Untouchable:
    """Nothing can be asked of it, not even its class."""

    def __getattribute__(self, _: str) -> Any:
        raise RuntimeError("no attribute")


class RaisingMeta:
    """Its fields are errors."""

    @property
    def deadline(self) -> datetime:
        raise RuntimeError("no deadline")

    instance = id = name = command = settings = submitted_at = rules = deadline


class HalfMeta:
    deadline = "soon"
    instance = 1
    name = id = "1"
    submitted_at = None


class RaisingList(list[Any]):
    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("no iteration")


class BrokenText(str):
    __slots__ = ()

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("no equality")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class UnhashableULID(ULID):
    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class BrokenZone(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta | None:
        raise RuntimeError("no offset")

    def dst(self, _: datetime | None) -> timedelta | None:
        raise RuntimeError("no offset")

    def tzname(self, _: datetime | None) -> str | None:
        raise RuntimeError("no name")


class NoZone(BrokenZone):
    def utcoffset(self, _: datetime | None) -> timedelta | None:
        return None


NAIVE = datetime(2026, 3, 1, 12)  # noqa: DTZ001  # that is the point
REF = Ref(name="dj-1", id="1", submitted_at=T0)
GARBAGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1_000_000, 10**5000, 0.5, float("nan"), 1j, ..., NotImplemented),
    *("", "x", "1", "\ud800", "x" * 10**6, b"", b"x", bytearray(b"x"), str(ulid(1))),
    *((), [], {}, set[int](), range(5), [[[]]], {"a": {"b": []}}, ({},), [None], ["x"], [ulid(1), "x"]),
    *(Broken(), [Broken()], {1: Broken()}, Untouchable(), [Untouchable()], RaisingMeta(), HalfMeta(), object()),
    *(RaisingList([1]), BrokenText("x"), UnhashableULID(bytes(16)), ULID.__new__(ULID), [UnhashableULID(bytes(16))]),
    *(type, Job, Broken, len, lambda: None, InvalidError, InvalidError("x"), ValueError("x"), StaleError("x", 1)),
    *(NAIVE, NAIVE.replace(tzinfo=NoZone()), NAIVE.replace(tzinfo=BrokenZone()), T0.date(), timedelta(1), T0),
    *(ulid(1), job(), REF, Policy(), LATER, hold(1), release(1), State.PENDING, Cause.HELD, Shape.SLURM),
    NativePolicy(settings={"no": "such"}, covered=(), rest=Policy()),
)
"""Whatever a caller may have in hand by mistake, or by malice."""


def of(*kinds: type) -> Callable[[Any], bool]:
    """Whether something is, by its true class, one of these: then it is no garbage there."""
    return lambda found: issubclass(type(found), kinds)


def aware(found: Any) -> bool:
    return found is None or found is T0


COLLECTIONS = (str, bytes, bytearray, tuple, list, dict, set, range)
TAKES_REF = of(Ref)
CALLS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {  # each parameter, and what is right for it
    "start": {
        "job": of(Job),
        "submission": lambda found: type(found) is int and 1 <= found < 1_000_000,
        "native": of(type(None)),
        "deadline": aware,
    },
    "open": {"ref": TAKES_REF, "deadline": aware},
    "get": {"ref": TAKES_REF},
    "find": {"job_id": of(ULID)},
    "stop": {"ref": TAKES_REF, "deadline": aware},
    "hold": {"ref": TAKES_REF, "meta": of(HoldMeta)},
    "release": {"ref": TAKES_REF, "meta": of(ReleaseMeta)},
    "requeue": {"ref": TAKES_REF, "meta": of(CallMeta)},
    "restore_requeue_bit": {"ref": TAKES_REF, "meta": of(CallMeta)},
    "compile_policy": {"policy": of(Policy)},
    "cessation": {"what": of(Ref, ULID)},
    "weaken_identity": {"ref": TAKES_REF},
    "find_many": {"job_ids": lambda found: type(found) in COLLECTIONS and all(map(of(ULID), found))},
    "capabilities": {},
}
SCALE: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    **{
        name: {"ref": TAKES_REF}
        for name, call in vars(Env).items()
        if inspect.iscoroutinefunction(call) and not name.startswith("_") and name not in ("objects", "calls")
    },
    "finish": {"ref": TAKES_REF, "exit_code": lambda found: type(found) is int and 0 <= found <= 255},
    "no_capacity": {"ref": TAKES_REF, "detail": lambda found: type(found) is str and found.isascii()},
    "fail_calls": {
        "call": lambda found: type(found) is str and found in CALLS,
        "error": of(DispatchError),
        "effect": lambda found: type(found) is str and found in ("none", "kept"),  # a late one wants `after`, too
        "after": lambda found: found is None,
        "times": lambda found: type(found) is int and found >= 1,
        "when": lambda found: found is None or callable_of(found),
    },
    "lag_reads": {
        "by": lambda found: type(found) is timedelta and found >= timedelta(0),
        "view": lambda found: found is None,
    },
    "omit": {"ref": TAKES_REF, "times": lambda found: type(found) is int and found >= 1},
}


def callable_of(found: object) -> bool:
    return hasattr(type(found), "__call__")  # noqa: B004  # `callable` asks the object itself on some of these


def right(ref: Ref) -> dict[str, dict[str, object]]:
    """Arguments with which each call is right."""
    written: dict[str, object] = {"ref": ref, "meta": LATER}
    return {
        "start": {"job": job(2), "submission": 1, "native": None, "deadline": None},
        "hold": {"ref": ref, "meta": hold(1)},
        "release": {"ref": ref, "meta": release(1)},
        "requeue": written,
        "restore_requeue_bit": written,
        "fail_calls": {
            "call": "get",
            "error": InvalidError("x"),
            "effect": "none",
            "after": None,
            "times": 1,
            "when": None,
        },
        "lag_reads": {"by": timedelta(0), "view": None},
        "omit": {"ref": ref, "times": 1},
        "finish": {"ref": ref, "exit_code": 0},
        "no_capacity": {"ref": ref, "detail": ""},
    }


def test_every_call_and_parameter_is_in_the_table() -> None:
    """Else the tests below would show less than they say."""
    for kind, table in ((View, CALLS), (Env, SCALE)):
        for name, call in vars(kind).items():
            if inspect.iscoroutinefunction(call) and not name.startswith("_"):
                parameters = list(inspect.signature(call).parameters)[1:]
                if name not in ("aclose", "objects", "calls"):
                    assert list(table[name]) == parameters, name


async def refused(b: Backend, ref: Ref, name: str, wrong: Mapping[str, Any]) -> None:
    """The call with some arguments wrong: an `InvalidError`, or that there is no such call here."""
    side = b if name in CALLS else b.env
    arguments = {**right(ref).get(name, {"ref": ref}), **wrong}
    if name in ("find", "find_many", "cessation", "compile_policy"):
        arguments.pop("ref")
    error: type[DispatchError] = InvalidError
    if b.config.shape is KUBEFLOW and name in ("requeue", "restore_requeue_bit"):
        error = UnsupportedError
    with pytest.raises(error) as refusal:
        await getattr(side, name)(**arguments)
    assert type(refusal.value) is error
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for table in (CALLS, SCALE) for name in table for parameter in table[name]],
)
async def test_nothing_else_escapes_on_any_argument(shape: Shape, name: str, parameter: str, clock: Clock) -> None:
    """1.2: `InvalidError` for each wrong thing in each place, the store as it was, nothing told to a watcher."""
    is_right = (CALLS | SCALE)[name][parameter]  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    async with b.watch() as watch:
        await anext(watch)
        before = await b.env.objects()
        for wrong in GARBAGE:
            if not is_right(wrong):
                await refused(b, ref, name, {parameter: wrong})
        assert await b.env.objects() == before
        await b.get(ref)  # no injection was left behind
        await b.aclose()
        assert [change async for change in watch] == []


MIXED = st.recursive(
    st.integers(0, len(GARBAGE) - 1).map(GARBAGE.__getitem__) | st.integers() | st.text() | st.binary() | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("which", list(Shape))
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(data=st.data())
@PROPERTY
def test_nothing_else_escapes_on_any_mixture(which: Shape, loop: str, data: st.DataObject) -> None:
    """1.2: several arguments wrong at once, nested, of every call; only `DispatchError`s come out."""

    async def check() -> None:
        b = backend(which, Clock())
        ref = await b.start(job(1), 1)
        async with b.watch() as watch:
            await anext(watch)
            before = await b.env.objects()
            for _ in range(8):
                name = data.draw(st.sampled_from([*CALLS, *SCALE]))
                table = CALLS[name] if name in CALLS else SCALE[name]
                wrong = {parameter: data.draw(MIXED) for parameter in table if data.draw(st.booleans())}
                wrong = {parameter: found for parameter, found in wrong.items() if not table[parameter](found)}
                if wrong:
                    await refused(b, ref, name, wrong)
            assert await b.env.objects() == before
            await b.aclose()
            assert [change async for change in watch] == []

    anyio.run(check, backend=loop)


async def test_a_bad_argument_leaves_a_record_and_nothing_else(shape: Shape, clock: Clock) -> None:
    """1.2, ruling 23: the log says what the caller saw; what was no ref is not kept."""
    b = backend(shape, clock)
    with pytest.raises(InvalidError):
        await b.get(Broken())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (record,) = await b.env.calls()
    assert (record.call, record.ref, record.job_id, record.landed_at) == ("get", None, None, None)
    assert isinstance(record.outcome, InvalidError)


async def test_ids_that_only_look_like_ids(shape: Shape, clock: Clock) -> None:
    """1.2: a ULID that was never filled, or will not be hashed, is refused or found nowhere, and breaks nothing."""
    b = backend(shape, clock)
    await b.start(job(1), 1)
    for odd in (UnhashableULID(bytes(16)), ULID.__new__(ULID)):
        looks: list[tuple[Any, object]] = [(b.find, odd), (b.cessation, odd), (b.find_many, [odd])]
        for look, what in looks:
            with suppress(DispatchError):
                await look(what)
    assert len(await b.find(job(1).id)) == 1


def test_a_start_of_call_is_an_aware_time() -> None:
    """2.5, 1.2: refused at `call_start(...)`, not at the calls inside."""
    for wrong in GARBAGE:
        if wrong is not T0:
            with pytest.raises(InvalidError):
                call_start(wrong)


def test_a_start_of_call_keeps_the_moment() -> None:
    """2.5: any zone."""
    manager: AbstractContextManager[None] = call_start(datetime(2026, 3, 1, 12, tzinfo=UTC))
    with manager:
        pass
