"""Section 2.2: what every call does, in which order, at what time and at what cost (TM-1 to TM-7)."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import pairwise, product
from operator import attrgetter
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

import dispatch_memory_async
from dispatch_memory_async import (
    Backend,
    CallMeta,
    Cause,
    ClosedError,
    Config,
    DispatchError,
    ExpiredError,
    HoldMeta,
    InvalidError,
    NativePolicy,
    NotFoundError,
    Observation,
    Policy,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    Shape,
    State,
    Support,
    Tristate,
    UnavailableError,
    View,
    Watch,
    WrongStateError,
)
from tests.memory.test_calls import (
    ABSENT,
    EVERY,
    SPI,
    Scene,
    Stepped,
    at_once,
    make,
    of_both_shapes,
    of_one_shape,
    ready,
    rest_of,
    snapshot_of,
)
from tests.support import FAR, MINUTE, SECOND, T0, Clock, backend, job

ROOT = Path(dispatch_memory_async.__file__).parent.parent
MICROSECOND = timedelta(microseconds=1)
WITH_BIT = NativePolicy(settings={"requeue": "1"}, covered=(0,), rest=Policy())


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


async def running(b: Backend, number: int, native: NativePolicy | None = None) -> Ref:
    """An object that runs."""
    ref = await b.start(job(number), 1, native=native)
    await b.open(ref)
    await b.env.run(ref)
    return ref


# TM-1


class WatchedLock:
    """In the place of the backend's lock: says when it is taken and given back."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def __enter__(self) -> Self:
        self._events.append("lock")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._events.append("unlock")


def watched(scene: Scene) -> list[str]:
    """What happens inside a backend from now on, in order."""
    events: list[str] = []
    cluster = attrgetter("_cluster")(scene.b)
    cluster.lock = WatchedLock(events)
    tell = cluster.hub.tell

    def telling(change: Observation) -> None:
        events.append("tell")
        tell(change)

    cluster.hub.tell = telling
    scene.clock.when_read = lambda: events.append("clock")
    return events


@of_both_shapes(EVERY)
async def test_a_call_is_one_checkpoint_the_lock_one_look_at_the_clock_tm_1(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    events = watched(scene)
    await Stepped(make(scene, name), lambda: events.append("checkpoint"))
    told = events.count("tell")
    assert events == ["checkpoint", "lock", "clock", *["tell"] * told, "unlock"]
    hidden = {"return_node", "fence_node", "fail_calls"} | ({"lose_node"} if shape is Shape.SLURM else {"open"})
    shown_by_kubeflow = {"return_node"} if shape is Shape.KUBEFLOW else set[str]()
    assert told == (EVERY[name].changes and name not in hidden - shown_by_kubeflow)


NOTHING: Any = "nothing of the kind"
REFUSED: list[tuple[type[DispatchError], Callable[[Scene], Coroutine[Any, Any, object]]]] = [
    (ReadOnlyError, lambda s: s.client.stop(s.ref)),
    (InvalidError, lambda s: s.b.find(NOTHING)),
    (UnavailableError, lambda s: s.b.capabilities()),
    (ExpiredError, lambda s: s.b.stop(s.ref, deadline=T0 - SECOND)),
    (NotFoundError, lambda s: s.b.get(ABSENT)),
    (WrongStateError, lambda s: s.b.env.finish(s.ref)),
    (InvalidError, lambda s: s.b.env.finish(s.ref, 256)),
    (InvalidError, lambda s: s.b.env.run(NOTHING)),
    (NotFoundError, lambda s: s.b.env.run(ABSENT)),
    (InvalidError, lambda s: s.b.env.fail_calls("watch", UnavailableError(""))),
]


@pytest.mark.parametrize(("error", "call"), REFUSED)
async def test_a_refused_call_takes_the_same_steps_tm_1(
    error: type[DispatchError], call: Callable[[Scene], Coroutine[Any, Any, object]], shape: Shape
) -> None:
    scene = await ready(shape, "get")
    await scene.b.env.fail_calls("capabilities", UnavailableError("injected"))
    scene.client = scene.b.view(read_only=True)
    events = watched(scene)
    with pytest.raises(error):
        await Stepped(call(scene), lambda: events.append("checkpoint"))
    assert events == ["checkpoint", "lock", "clock", "unlock"]


@of_both_shapes(EVERY)
async def test_every_call_settles_and_tells_that_before_its_own_tm_1_tm_2(shape: Shape, name: str) -> None:
    """An older object's purge (Slurm) or vanishing evidence (Kubeflow) is due."""
    scene = Scene(shape, slurmd_timeout=timedelta(days=1))
    b = scene.b
    older = await running(b, 50)
    await b.env.out_of_memory(older)
    for word in EVERY[name].given.split():
        answer = await make(scene, word)
        scene.ref = answer if isinstance(answer, Ref) else scene.ref
    watch = b.watch()
    await snapshot_of(watch)
    before = await b.env.truth(older)
    now = scene.clock.advance(timedelta(minutes=5))
    await make(scene, name)
    first = (await rest_of(watch))[0]
    assert first.ref == older
    assert first.observed_at == now
    assert (first.state, first.cause) == (
        (State.GONE, Cause.OUT_OF_MEMORY) if shape is Shape.SLURM else (State.FAILED, Cause.UNKNOWN)
    )
    assert before.gone_at is None


@of_one_shape(EVERY)
async def test_others_come_first_at_the_checkpoint_tm_1(shape: Shape, name: str) -> None:
    """Another client's call, begun later, is done before this one acts; both are done."""
    undisturbed, scene = await ready(shape, name), await ready(shape, name)
    b, view = scene.b, scene.b.view()
    await make(undisturbed, name)
    await undisturbed.b.start(job(77), 1)
    await Stepped(make(scene, name), lambda: at_once(view.start(job(77), 1)))
    assert len(await b.env.objects()) == len(await undisturbed.b.env.objects())
    calls = await b.env.calls()
    assert len(calls) == len(await undisturbed.b.env.calls())
    if name in SPI:
        assert (calls[-2].call, calls[-2].view) == ("start", "view 1")
        assert (calls[-1].call, calls[-1].view) == (name.partition(" ")[0], "backend")


async def test_a_call_sees_what_was_done_while_it_was_parked_tm_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    (seen,) = await Stepped(b.find(job(1).id), lambda: at_once(b.start(job(1), 1)))
    held = await Stepped(b.get(seen.ref), lambda: at_once(b.env.admin_hold(seen.ref)))
    assert held.cause is Cause.ADMIN_HELD


async def test_other_tasks_get_to_run_at_every_call_tm_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    turns = 0

    async def spin() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(spin)
        await checkpoint()
        turns = 0
        for _ in range(20):
            await b.capabilities()
        group.cancel_scope.cancel()
    assert turns in (19, 20, 21)  # trio takes the tasks of one turn in any order


@of_one_shape(EVERY)
async def test_a_call_that_is_parked_when_the_backend_closes_is_refused_tm_1(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    watch = scene.b.watch()
    await snapshot_of(watch)
    records = attrgetter("_cluster.records")(scene.b)
    log, reads = records(), scene.clock.reads
    with pytest.raises(ClosedError):
        await Stepped(make(scene, name), lambda: at_once(scene.b.aclose()))
    assert [seen async for seen in watch] == []
    assert records() == log
    assert scene.clock.reads == reads


@of_one_shape(SPI)
async def test_a_call_that_is_parked_when_its_view_closes_is_refused_tm_1(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    scene.client = scene.b.view()
    before = (await scene.b.env.objects(), await scene.b.env.calls())
    with pytest.raises(ClosedError):
        await Stepped(make(scene, name), lambda: at_once(scene.client.aclose()))
    assert (await scene.b.env.objects(), await scene.b.env.calls()) == before


@pytest.mark.parametrize("closing", ["backend", "view", "watch"])
async def test_aclose_closes_first_and_then_comes_its_one_checkpoint_tm_1(shape: Shape, closing: str) -> None:
    b = backend(shape, Clock())
    view = b.view()
    watch = view.watch()
    await snapshot_of(watch)
    closed: list[tuple[bool, bool, str | None]] = []
    closers: dict[str, View | Watch] = {"backend": b, "view": view, "watch": watch}
    await Stepped(closers[closing].aclose(), lambda: closed.append((b.closed, view.closed, watch.closed_by)))
    assert closed == [(closing == "backend", closing != "watch", "closed")]


async def test_aclose_again_changes_nothing_tm_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    view = b.view()
    watch = view.watch()
    for _ in range(2):
        await watch.aclose()
        assert not view.closed
    for _ in range(2):
        await view.aclose()
        assert not b.closed
        await b.capabilities()
    for _ in range(2):
        await b.aclose()
        assert (b.closed, view.closed, watch.closed_by) == (True, True, "closed")


async def test_aclose_reads_no_clock_and_settles_nothing_tm_1() -> None:
    scene = Scene(Shape.SLURM)
    view = scene.b.view()
    watch = scene.b.watch()
    await scene.b.stop(await scene.b.start(job(1), 1))
    await snapshot_of(watch)
    scene.clock.advance(timedelta(days=1))
    reads = scene.clock.reads
    await view.aclose()
    await scene.b.aclose()
    assert scene.clock.reads == reads
    assert [seen async for seen in watch] == []


# TM-2


async def test_what_is_due_in_one_late_call_happens_in_order_and_cascades_tm_2() -> None:
    """A to E, with kill_wait 60 s, slurmd_timeout 300 s and min_job_age 600 s, at so many seconds after T0:

    | | then | due |
    |---|---|---|
    | A | loses its node at 0.5 | 300.5 fails, 900.5 forgotten |
    | B | is preempted at 10.5 | 70.5 fails, 670.5 forgotten |
    | C | loses its node at 20.5, its bit set | 320.5 pending again |
    | D | is stopped at 30.5 | 90.5 cancelled, 690.5 forgotten |
    | E | finishes at 30.5 | 630.5 forgotten |
    """
    clock = Clock(after(0.5))
    b = backend(
        Shape.SLURM,
        clock,
        kill_wait=MINUTE,
        slurmd_timeout=timedelta(seconds=300),
        min_job_age=timedelta(seconds=600),
    )
    refs = {name: await running(b, at, WITH_BIT if name == "C" else None) for at, name in enumerate("ABCDE", 1)}
    await b.env.lose_node(refs["A"])
    clock.advance(10)
    await b.env.preempt(refs["B"])
    clock.advance(10)
    await b.env.lose_node(refs["C"])
    clock.advance(10)
    await b.stop(refs["D"])
    await b.env.finish(refs["E"])

    watch = b.watch()
    await snapshot_of(watch)
    late = after(1000.25)
    clock.now = late
    await b.capabilities()
    told = await rest_of(watch)

    names = {ref.id: name for name, ref in refs.items()}
    assert [(names[seen.ref.id], seen.state, seen.cause, seen.ended_at) for seen in told] == [
        ("B", State.FAILED, Cause.PREEMPTED, after(70.5)),
        ("D", State.CANCELLED, Cause.STOPPED, after(90.5)),
        ("A", State.FAILED, Cause.NODE_LOST, after(300.5)),
        ("C", State.PENDING, Cause.REQUEUED, None),
        ("E", State.GONE, None, after(30.5)),
        ("B", State.GONE, Cause.PREEMPTED, after(70.5)),
        ("D", State.GONE, Cause.STOPPED, after(90.5)),
        ("A", State.GONE, Cause.NODE_LOST, after(300.5)),
    ]
    assert {seen.observed_at for seen in told} == {late}
    assert (told[3].ref.submitted_at, told[3].restarts) == (after(320), 1)
    truths = {names[truth.ref.id]: truth for truth in await b.env.objects()}
    assert {name: truth.gone_at for name, truth in truths.items()} == {
        "A": after(900.5),
        "B": after(670.5),
        "C": None,
        "D": after(690.5),
        "E": after(630.5),
    }
    assert {name: truth.executions[0].ended_at for name, truth in truths.items()} == {
        "A": None,  # nothing that the scheduler does ends a process on a lost node
        "B": after(70.5),
        "C": None,
        "D": after(90.5),
        "E": after(30.5),
    }


async def test_what_is_due_at_one_moment_happens_in_the_order_of_start_tm_2(shape: Shape) -> None:
    """The later ones were set going first."""
    clock = Clock()
    b = backend(shape, clock)
    refs = [await running(b, number) for number in range(1, 6)]
    for ref in reversed(refs):
        await b.env.out_of_memory(ref)
    watch = b.watch()
    await snapshot_of(watch)
    clock.advance(timedelta(minutes=5))
    await b.capabilities()
    assert [seen.ref for seen in await rest_of(watch)] == refs


@pytest.mark.parametrize(
    ("shape", "begin", "delay"),
    [
        (Shape.SLURM, "lose_node", 300),
        (Shape.SLURM, "out_of_memory", 300),
        (Shape.SLURM, "preempt", 60),
        (Shape.KUBEFLOW, "lose_node", 300),
        (Shape.KUBEFLOW, "out_of_memory", 300),
    ],
)
async def test_due_is_from_the_very_moment_on_tm_2(shape: Shape, begin: str, delay: int) -> None:
    clock = Clock()
    b = backend(shape, clock, kill_wait=MINUTE)
    ref = await running(b, 1)
    await getattr(b.env, begin)(ref)
    before = await b.find(job(1).id)
    clock.now = after(delay) - MICROSECOND
    assert [msgspec.structs.replace(seen, observed_at=T0) for seen in await b.find(job(1).id)] == list(before)
    clock.now = after(delay)
    assert [msgspec.structs.replace(seen, observed_at=T0) for seen in await b.find(job(1).id)] != list(before)


async def test_a_delay_of_zero_acts_in_the_same_call_tm_2() -> None:
    clock = Clock()
    zero = timedelta(0)
    slurm = backend(Shape.SLURM, clock, slurmd_timeout=zero, kill_wait=zero, min_job_age=zero)
    lost, stopped, again = [await running(slurm, number, WITH_BIT if number == 3 else None) for number in (1, 2, 3)]
    watch = slurm.watch()
    await snapshot_of(watch)
    await slurm.env.lose_node(lost)
    await slurm.stop(stopped)
    await slurm.env.lose_node(again)
    assert [(seen.ref, seen.state, seen.cause, seen.ended_at) for seen in await rest_of(watch)] == [
        (lost, State.FAILED, Cause.NODE_LOST, T0),
        (stopped, State.CANCELLED, Cause.STOPPED, T0),
        (again, State.PENDING, Cause.REQUEUED, None),
    ]
    clock.advance(timedelta(days=10_000))
    assert (await slurm.get(lost)).state is State.FAILED  # min_job_age 0 never forgets

    kubeflow = backend(Shape.KUBEFLOW, clock, evidence_window=zero, kill_wait=zero)
    failed, lost = [await running(kubeflow, number) for number in (1, 2)]
    watch = kubeflow.watch()
    await snapshot_of(watch)
    await kubeflow.env.finish(failed, 3)
    await kubeflow.env.lose_node(lost)
    assert [(seen.ref, seen.state, seen.cause, seen.exit_code) for seen in await rest_of(watch)] == [
        (failed, State.FAILED, Cause.UNKNOWN, None),
        (lost, State.RUNNING, Cause.UNKNOWN, None),
    ]


@pytest.mark.parametrize(("error", "call"), REFUSED)
async def test_what_was_settled_stays_and_is_told_when_the_act_is_refused_tm_2(
    error: type[DispatchError], call: Callable[[Scene], Coroutine[Any, Any, object]], shape: Shape
) -> None:
    scene = Scene(shape)
    older = await running(scene.b, 50)
    await scene.b.env.out_of_memory(older)
    scene.ref = await scene.b.start(scene.job, 1)
    scene.client = scene.b.view(read_only=True)
    await scene.b.env.fail_calls("capabilities", UnavailableError("injected"))
    watch = scene.b.watch()
    await snapshot_of(watch)
    late = scene.clock.advance(timedelta(minutes=6))
    with pytest.raises(error):
        await call(scene)
    scene.clock.advance(SECOND)
    (told,) = await rest_of(watch)
    assert (told.ref, told.observed_at) == (older, late)


# TM-3


async def test_when_the_clock_steps_back_time_stands_still_until_it_has_caught_up_tm_3(shape: Shape) -> None:
    clock = Clock(after(3600))
    b = backend(shape, clock)
    ref = await running(b, 1)
    moments: list[datetime] = []
    for seconds in (0, 3599, 3600, 3601, 10, 3602):
        clock.now = after(seconds)
        moments += [b.now(), (await b.get(ref)).observed_at]
    assert moments == [after(seconds) for seconds in (3600, 3600, 3600, 3601, 3601, 3602) for _ in range(2)]
    clock.now = T0
    await b.env.finish(ref)
    assert (await b.get(ref)).ended_at == after(3602)
    assert (await b.env.calls())[-1].at == after(3602)


async def test_a_step_back_defers_what_is_due_tm_3(shape: Shape) -> None:
    """What the clock has gone through once it does not go through again."""
    clock = Clock()
    b = backend(shape, clock)
    ref = await running(b, 1)
    await b.env.out_of_memory(ref)
    clock.now = after(-3600)
    assert (await b.get(ref)).cause is Cause.OUT_OF_MEMORY
    clock.now = after(299)
    assert (await b.get(ref)).cause is Cause.OUT_OF_MEMORY
    clock.now = after(300)
    assert [seen.cause for seen in await b.find(job(1).id)] == ([] if shape is Shape.SLURM else [Cause.UNKNOWN])


async def test_a_call_starts_at_the_backends_time_when_the_clock_has_stepped_back_ruling_16(shape: Shape) -> None:
    """By the clock the deadline is still ahead, by the backend's time it has passed."""
    clock = Clock(after(100))
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    clock.now = after(10)
    with pytest.raises(ExpiredError):
        await b.stop(ref, deadline=after(99))
    await b.stop(ref, deadline=after(100))


async def test_now_raises_the_floor_and_settles_nothing_ruling_18(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    ref = await running(b, 1)
    await b.env.out_of_memory(ref)
    watch = b.watch()
    await snapshot_of(watch)
    clock.now = after(400)
    assert b.now() == after(400)
    assert attrgetter("_subscription.receive")(watch).statistics().current_buffer_used == 0
    clock.now = T0
    assert b.now() == after(400)
    await b.capabilities()
    (told,) = await rest_of(watch)
    assert told.observed_at == after(400)
    assert (told.state, told.cause) == (
        (State.GONE, Cause.OUT_OF_MEMORY) if shape is Shape.SLURM else (State.FAILED, Cause.UNKNOWN)
    )


async def test_now_reads_the_clock_once_and_is_put_down_nowhere_tm_1(shape: Shape) -> None:
    scene = Scene(shape)
    events = watched(scene)
    assert scene.b.now() == T0
    assert events == ["lock", "clock", "unlock"]
    assert await scene.b.env.calls() == ()


NAIVE = T0.replace(tzinfo=None)


@of_one_shape(EVERY)
async def test_a_clock_that_gives_a_naive_time_is_refused_tm_3(shape: Shape, name: str) -> None:
    await clock_is_refused(shape, name, NAIVE)


@pytest.mark.parametrize("strange", [None, "noon", 0, T0.date()], ids=repr)
async def test_a_clock_that_gives_no_time_is_refused_tm_3(shape: Shape, strange: Any) -> None:
    await clock_is_refused(shape, "start", strange)


async def clock_is_refused(shape: Shape, name: str, strange: Any) -> None:
    scene = await ready(shape, name)
    b = scene.b
    before = await b.env.objects()
    scene.clock.now = strange
    with pytest.raises(InvalidError, match="clock"):
        await make(scene, name)
    with pytest.raises(InvalidError, match="clock"):
        b.now()
    with pytest.raises(InvalidError, match="clock"):
        await b.watch().__aenter__()
    watch = b.watch()
    with pytest.raises(InvalidError, match="clock"):
        await anext(watch)
    scene.clock.now = T0
    assert await b.env.objects() == before
    assert len(await snapshot_of(watch)) == len(before)
    await make(scene, name)


async def test_a_clock_of_another_zone_tells_the_same_time_tm_3(shape: Shape) -> None:
    b = Backend(Config(shape=shape), clock=lambda: T0.astimezone(timezone(timedelta(hours=9))))
    assert b.now() == T0
    assert b.now().utcoffset() == timedelta(0)
    ref = await b.start(job(1), 1)
    assert ref.submitted_at == T0
    assert (await b.get(ref)).observed_at.utcoffset() == timedelta(0)


async def test_a_clock_at_the_end_of_time_breaks_nothing_tm_3(shape: Shape) -> None:
    """What would fall due after the last moment that there is."""
    last = datetime.max.replace(tzinfo=T0.tzinfo)
    clock = Clock(last - SECOND)
    b = backend(shape, clock, kill_wait=MINUTE)
    ref = await running(b, 1)
    await b.env.lose_node(ref)
    await b.stop(ref)
    other = await b.start(job(2), 1)
    await b.hold(other, HoldMeta(deadline=last, instance=1))
    assert len(await b.env.objects()) == 2


# TM-4


@of_both_shapes(EVERY)
async def test_what_was_handed_out_never_changes_tm_4(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    b = scene.b
    kept: list[tuple[object, bytes]] = []

    def keep(*values: object) -> None:
        kept.extend((value, whole(value)) for value in values)

    watch = b.watch()
    keep(*await snapshot_of(watch), await b.find(scene.job.id), await b.find_many([scene.job.id]))
    keep(await b.env.objects(), await b.env.calls())
    scene.clock.advance(SECOND)
    keep(await make(scene, name))
    scene.clock.advance(timedelta(hours=1))
    keep(await b.start(job(88), 1), *await rest_of(watch))
    await b.env.objects()
    assert [(value, whole(value)) for value, _ in kept] == kept


def whole(value: object) -> bytes:
    """A value with all that it holds."""
    return msgspec.json.encode(list(value.items()) if isinstance(value, Mapping) else value, enc_hook=str)  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType]


async def test_a_caller_cannot_change_the_store_through_what_it_holds_or_gave_tm_4(shape: Shape) -> None:
    b = backend(shape, Clock())
    env = {"LEVEL": "1"}
    given = job(1, env=env)
    asked = [given.id]
    ref = await b.start(given, 1)
    await b.open(ref)
    run = await b.env.run(ref)
    env["LEVEL"] = "2"
    found = await b.find_many(asked)
    asked.clear()
    truth = await b.env.truth(ref)
    holds: list[Any] = [run.env, truth.job.env, truth.executions[0].env, found]
    for mapping in holds:
        with pytest.raises(TypeError):
            mapping["LEVEL"] = "3"
        with pytest.raises(TypeError):
            mapping.clear()
    values: list[Any] = [ref, run, truth, found[given.id][0], (await b.env.calls())[0]]
    for value in values:
        for field in value.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(value, field, None)
    assert dict((await b.env.truth(ref)).executions[0].env)["LEVEL"] == "1"
    assert set(await b.find_many([given.id])) == {given.id}


# TM-5


async def script(shape: Shape, seed: int = 7, steps: int = 250) -> list[str]:
    """Everything that a long run answers, refuses, tells and leaves behind, as text."""
    scene = Scene(shape, kill_wait=timedelta(seconds=7), max_job_id=5, watch_buffer=10_000)
    b = scene.b
    choice = random.Random(seed)  # noqa: S311  # it chooses steps
    watch = b.watch()
    seen: list[object] = list(await snapshot_of(watch))
    refs: list[Ref] = [ABSENT]
    words = [name for name, call in EVERY.items() if call.only in (None, shape)] + ["start", "open", "run"] * 7
    policy = NativePolicy(
        settings={"requeue": "1"} if shape is Shape.SLURM else {"maxRestarts": "2"}, covered=(0,), rest=Policy()
    )
    for _ in range(steps):
        scene.clock.advance(choice.choice((0, 0.25, 1, 40, 400)))
        scene.ref = choice.choice(refs)
        scene.job = job(choice.randint(1, 4), env={"B": "2", "A": "1", "C": "3"})
        word = choice.choice(words)
        try:
            if word == "start":
                answer: object = await b.start(scene.job, choice.randint(1, 3), native=choice.choice((None, policy)))
            else:
                answer = await make(scene, word)
        except DispatchError as error:
            answer = f"{type(error).__name__}: {error}"
        if isinstance(answer, Ref) and not answer.weak:
            refs.append(answer)
        refs += [observation.ref for observation in await b.find(scene.job.id)]  # a requeue gives another
        del refs[:-6]
        seen.append((word, answer))
    seen += [*await rest_of(watch), *await b.env.objects(), *await b.env.calls()]
    seen += [dict(run.env) for truth in await b.env.objects() for run in truth.executions]
    return [repr(item) for item in seen]


async def test_the_same_calls_at_the_same_times_give_the_same_values_tm_5(shape: Shape) -> None:
    first = await script(shape)
    assert await script(shape) == first
    assert len({line for line in first if line.startswith("{'B'")}) > 5  # executions: it does get somewhere


def scripts(loop: str) -> str:
    return "\n".join(line for shape in Shape for line in anyio.run(script, shape, backend=loop))


def test_the_loop_and_the_hash_seed_do_not_matter_tm_5() -> None:
    expected = scripts("trio")
    program = "from tests.memory.test_time import scripts; print(scripts('asyncio'))"
    for hash_seed in ("1", "2"):
        ran = subprocess.run(  # noqa: S603  # our own interpreter, our own program
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        assert ran.stdout.rstrip("\n") == expected


async def test_two_backends_in_one_process_do_not_share_a_counter_tm_5(shape: Shape) -> None:
    attempts: list[list[str]] = []
    refs: list[list[Ref]] = []
    for _ in range(2):
        b = backend(shape, Clock())
        refs.append([await running(b, number) for number in (1, 2, 3)])
        attempts.append([run.attempt for truth in await b.env.objects() for run in truth.executions])
    assert refs[0] == refs[1]
    assert attempts[0] == attempts[1]
    assert len(set(attempts[0])) == 3


# TM-6


PENDING = [
    (shape, base, gate, hold, admin)
    for shape in Shape
    for base in ("", "no_capacity", "back to wait", "no_capacity, back to wait")
    for gate, hold, admin in product((False, True), repeat=3)
    if not gate or (base == "" and shape is Shape.SLURM)  # a gated object has not run, and was refused no room
]


@pytest.mark.parametrize(("shape", "base", "gate", "hold", "admin"), PENDING)
async def test_a_pending_object_shows_the_first_cause_that_applies_tm_6(
    shape: Shape, base: str, gate: bool, hold: bool, admin: bool
) -> None:
    b = backend(shape, Clock())
    ref = await b.start(job(1), 1)
    expected: Cause | None = None
    if not gate:
        await b.open(ref)
    if base.startswith("no_capacity"):
        await b.env.no_capacity(ref, "full")
        expected = Cause.NO_CAPACITY
    if base.endswith("back to wait"):
        await b.env.run(ref)
        assert (await b.get(ref)).cause is None  # `run` clears what was there
        await (b.requeue(ref, CallMeta(FAR)) if shape is Shape.SLURM else b.env.preempt(ref))
        expected = Cause.REQUEUED if shape is Shape.SLURM else Cause.PREEMPTED
    if hold:
        await b.hold(ref, HoldMeta(deadline=FAR, instance=1))
        expected = Cause.HELD
    if gate:
        expected = Cause.GATED
    if admin:
        await b.env.admin_hold(ref)
        expected = Cause.ADMIN_HELD
    seen = await b.get(ref)
    assert (seen.state, seen.cause) == (State.PENDING, expected)
    assert (seen.started_at, seen.ended_at, seen.exit_code) == (None, None, None)
    assert seen.detail == ("full" if expected is Cause.NO_CAPACITY else "")


async def test_an_administrators_hold_on_a_running_object_counts_once_it_is_pending_tm_6(shape: Shape) -> None:
    b = backend(shape, Clock())
    ref = await running(b, 1)
    await b.env.admin_hold(ref)
    assert ((await b.get(ref)).state, (await b.get(ref)).cause) == (State.RUNNING, None)
    await (b.requeue(ref, CallMeta(FAR)) if shape is Shape.SLURM else b.env.preempt(ref))
    assert ((await b.get(ref)).state, (await b.get(ref)).cause) == (State.PENDING, Cause.ADMIN_HELD)
    await b.env.admin_release(ref)
    assert (await b.get(ref)).cause is (Cause.REQUEUED if shape is Shape.SLURM else Cause.PREEMPTED)


# TM-7


class Steps:
    """How many lines of the package were run: what a call costs, whatever the machine does meanwhile."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(str(ROOT / "dispatch_memory_async")):
            return None
        self.count += event == "line"
        return self.trace


@contextmanager
def counted() -> Generator[Steps]:
    steps, before = Steps(), sys.gettrace()
    sys.settrace(steps.trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


async def cost(call: Coroutine[Any, Any, object]) -> int:
    with counted() as steps:
        await call
    return steps.count


async def costs_among(size: int, shape: Shape, jobs: str, **settings: object) -> dict[str, int]:
    """What each call costs in a backend with so many objects, of as many jobs or of one."""
    b = backend(shape, Clock(), **settings)
    one = jobs == "one job"
    refs = [await b.start(job(1 if one else number), number if one else 1) for number in range(1, size + 1)]
    middle = size // 2
    ref, runs, held, stops, again = refs[middle : middle + 5]
    for running_one in (runs, stops):
        await b.open(running_one)
        await b.env.run(running_one)
    await b.hold(held, HoldMeta(deadline=FAR, instance=1))
    costs = {
        "start": await cost(b.start(job(1), 999_999)),
        "open": await cost(b.open(ref)),
        "get": await cost(b.get(ref)),
        "get weak": await cost(b.get(await b.weaken_identity(ref))),
        "hold": await cost(b.hold(ref, HoldMeta(deadline=FAR, instance=1))),
        "release": await cost(b.release(held, ReleaseMeta(deadline=FAR, instance=1))),
        "stop": await cost(b.stop(again)),
        "stop, running": await cost(b.stop(stops)),
    }
    if shape is Shape.SLURM:
        costs["requeue"] = await cost(b.requeue(runs, CallMeta(FAR)))
    if not one:
        costs["find"] = await cost(b.find(job(middle).id))
    return costs


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("jobs", ["own jobs", "one job"])
async def test_a_call_costs_the_same_among_2000_objects_as_among_10_tm_7(shape: Shape, jobs: str) -> None:
    few, many = [await costs_among(size, shape, jobs) for size in (10, 2000)]
    assert few == many
    assert min(few.values()) > 10


HISTORY = {"AccountingHistory": Support(value=Tristate.YES)}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("jobs", ["own jobs", "one job"])
async def test_history_does_not_make_a_call_dearer_tm_7(jobs: str) -> None:
    few, many = [await costs_among(size, Shape.SLURM, jobs, capabilities=HISTORY) for size in (10, 2000)]
    assert few == many


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("weak", [False, True], ids=["exact", "weak"])
async def test_an_id_that_came_back_often_does_not_make_a_look_dearer_tm_7(weak: bool) -> None:
    """With one id in all, each object of another job: the look finds the one that it names among the forgotten."""
    found: list[int] = []
    for size in (10, 500):
        clock = Clock()
        b = backend(Shape.SLURM, clock, max_job_id=1, capabilities=HISTORY)
        ref = ABSENT
        for number in range(1, size + 1):
            ref = await b.start(job(number), 1)
            await b.stop(ref)
            clock.advance(timedelta(minutes=5))
        asked = await b.weaken_identity(ref) if weak else ref
        found.append(await cost(b.get(asked)))
    assert found[0] == found[1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_start_costs_the_same_when_nearly_all_ids_are_in_use_tm_7() -> None:
    found: list[tuple[int, str, int]] = []
    for size in (10, 2000):
        clock = Clock()
        b = backend(Shape.SLURM, clock, max_job_id=size)
        refs = [await b.start(job(number), 1) for number in range(1, size + 1)]
        await b.stop(refs[size // 2])
        clock.advance(timedelta(minutes=5))
        await b.capabilities()
        with counted() as steps:
            ref = await b.start(job(size + 1), 1)
        assert ref.id == refs[size // 2].id
        with counted() as refused, pytest.raises(UnavailableError) as raised:
            await b.start(job(size + 2), 1)
        found.append((steps.count, type(raised.value).__name__, refused.count))
    assert found[0] == found[1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_scheduled_for_later_costs_a_call_nothing_tm_7(shape: Shape) -> None:
    found: list[int] = []
    for size in (10, 1000):
        b = backend(shape, Clock())
        for number in range(1, size + 1):
            await b.env.lose_node(await running(b, number))
        found.append(await cost(b.capabilities()))
    assert found[0] == found[1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_change_costs_one_step_a_subscriber_tm_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    watches = [b.watch() for _ in range(31)]
    found: list[int] = []
    for number, watch in enumerate(watches, 1):
        found.append(await cost(b.start(job(number), 1)))
        await snapshot_of(watch)
    steps = {later - earlier for earlier, later in pairwise(found)}
    assert len(steps) == 1
    assert 0 < steps.pop() < 10
