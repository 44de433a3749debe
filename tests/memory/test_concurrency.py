"""Many tasks, two views and three watchers on one backend: what each watcher saw is what was done, in order.

The clock moves on at every reading, so that every call has a moment of its own, and a change says which call made it.
Nothing is awaited between a call's act and its answer, so that the tasks note their calls in the order of the acts.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from dispatch_memory_async import (
    Backend,
    CallMeta,
    CallRecord,
    Cause,
    Config,
    DispatchError,
    ExpiredError,
    HoldMeta,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Ref,
    ReleaseMeta,
    Shape,
    State,
    Truth,
    UnavailableError,
    View,
)
from tests.memory.test_calls import snapshot_of
from tests.support import FAR, T0, Clock, job

TASKS, STEPS = 50, 12
SEEDS = (1, 2, 3)
ASIDE = 40
"""A job that the tasks do not touch: what falls due of it does so in every run."""

OF_ENV = (
    "run",
    "out_of_memory",
    "preempt",
    "lose_node",
    "return_node",
    "admin_hold",
    "admin_release",
    "no_capacity",
    "requeue_externally",
    "deactivate_externally",
    "reactivate_externally",
)


class MovingClock(Clock):
    """Every reading is a millisecond later than the one before."""

    def __call__(self) -> datetime:
        return self.advance(0.001)


@dataclass(frozen=True)
class Note:
    """One call, as the task that made it saw it."""

    at: datetime
    view: str  # "" for the environment
    call: str
    ref: Ref | None
    error: str
    """The name of the error, or nothing."""


class Town:
    """A backend, its clients, and all that many tasks do to it."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.choice = random.Random(seed)  # noqa: S311  # it chooses steps
        self.clock = MovingClock()
        config = Config(
            shape=shape,
            watch_buffer=100_000,
            slurmd_timeout=timedelta(days=99),  # of all that falls due, only a purge and vanishing evidence are left
            min_job_age=timedelta(minutes=5),
            evidence_window=timedelta(minutes=5),
        )
        self.b = Backend(config, clock=self.clock)
        self.clients: list[View] = [self.b.view(), self.b.view(), self.b]
        self.refs: list[Ref] = []
        self.notes: list[Note] = []
        self.cancelled = 0

    async def note(self, view: str, call: str, ref: Ref | None, made: Coroutine[Any, Any, Any]) -> None:
        try:
            answer = await made
        except DispatchError as error:
            self.notes.append(Note(self.clock.now, view, call, ref, type(error).__name__))
        else:
            self.notes.append(Note(self.clock.now, view, call, ref, ""))
            if call == "start":
                self.refs.append(answer)
            if call == "find":
                self.refs += [seen.ref for seen in answer]

    async def step(self) -> None:
        """One call, of any kind, on any object; now and then it is cancelled before it is made."""
        choice = self.choice
        client = choice.choice(self.clients)
        ref = choice.choice(self.refs) if self.refs else None
        number = choice.randint(1, 12)
        spi: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "start": lambda: client.start(job(number), choice.randint(1, 4)),
            "find": lambda: client.find(job(number).id),
        }
        env: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {}
        if ref is not None:
            instance = choice.randint(1, 3)
            spi |= {
                "get": lambda: client.get(ref),
                "open": lambda: client.open(ref),
                "stop": lambda: client.stop(ref, deadline=T0 if instance == 1 else None),
                "hold": lambda: client.hold(ref, HoldMeta(deadline=FAR, instance=instance)),
                "release": lambda: client.release(ref, ReleaseMeta(deadline=FAR, instance=instance)),
                "requeue": lambda: client.requeue(ref, CallMeta(FAR)),
                "restore_requeue_bit": lambda: client.restore_requeue_bit(ref, CallMeta(FAR)),
                "weaken_identity": lambda: client.weaken_identity(ref),
                "cessation": lambda: client.cessation(ref),
            }
            env = {name: partial(getattr(self.b.env, name), ref) for name in OF_ENV}
            env["finish"] = lambda: self.b.env.finish(ref, instance - 1)
        env["lost"] = lambda: self.b.env.fail_calls("open", OutcomeUnknownError("lost"), effect="kept")
        env["busy"] = lambda: self.b.env.fail_calls("hold", UnavailableError("busy"))
        name = choice.choice((*spi, *spi, "start", "start", *env))
        made, view = (spi[name](), client.name) if name in spi else (env[name](), "")
        with anyio.CancelScope() as scope:
            if choice.random() < 0.05:
                scope.cancel()
            asked = ref if name not in ("start", "find") else None
            await self.note(view, name, asked, made)
        self.cancelled += scope.cancelled_caught
        if choice.random() < 0.02:
            self.clock.advance(timedelta(minutes=choice.randint(1, 6)))

    async def citizen(self) -> None:
        for _ in range(STEPS):
            await self.step()
            for _ in range(self.choice.randint(0, 2)):
                await checkpoint()

    def settled(self, change: Observation) -> bool:
        """Whether the change fell due, and was not the call's own."""
        if self.shape is Shape.SLURM:
            return change.state is State.GONE
        return change.cause is Cause.UNKNOWN and change.state is not State.GONE


@dataclass
class Seen:
    """What was there when all was done: what each watcher saw, the log, the truth, and what is shown."""

    told: list[list[Observation]]
    calls: Sequence[CallRecord] = ()
    objects: Sequence[Truth] = ()
    shown: Sequence[Observation] = ()


async def watcher(client: View, pauses: int, into: list[Observation], ready: anyio.Event) -> None:
    """Reads all there is, more or less slowly."""
    watch = client.watch()
    assert await snapshot_of(watch) == []
    ready.set()
    async for change in watch:
        into.append(change)
        for _ in range(pauses):
            await checkpoint()
    assert watch.closed_by == "closed"


async def lived(town: Town) -> Seen:
    """One watcher reads as it goes, one slowly, one only when all is done."""
    b, seen = town.b, Seen([[], [], []])
    at_the_end = b.watch()
    assert await snapshot_of(at_the_end) == []
    async with anyio.create_task_group() as watchers:
        for number, pauses in ((0, 0), (1, 3)):
            ready = anyio.Event()
            watchers.start_soon(watcher, town.clients[number], pauses, seen.told[number], ready)
            await ready.wait()
        await town.note("backend", "start", None, b.start(job(ASIDE), 1))
        aside = town.refs.pop()
        await town.note("backend", "open", aside, b.open(aside))
        await town.note("", "run", aside, b.env.run(aside))
        await town.note("", "out_of_memory", aside, b.env.out_of_memory(aside))
        async with anyio.create_task_group() as citizens:
            for _ in range(TASKS):
                citizens.start_soon(town.citizen)
        town.clock.advance(timedelta(minutes=5))
        seen.calls, seen.objects = await b.env.calls(), await b.env.objects()
        found = await b.find_many([job(number).id for number in (*range(1, 13), ASIDE)])
        seen.shown = [observation for of_job in found.values() for observation in of_job]
        await b.aclose()
    seen.told[2] = [change async for change in at_the_end]
    return seen


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_each_watcher_saw_is_what_was_done_in_order_2(shape: Shape, seed: int) -> None:
    town = Town(shape, seed)
    seen = await lived(town)
    told, calls, objects = seen.told[0], seen.calls, seen.objects
    assert seen.told == [told] * 3

    # The log has the calls of the SPI, as their callers saw them, in the order of the acts; no cancelled one.
    of_spi = [note for note in town.notes if note.view]
    assert [(call.at, call.view, call.call, call.ref, name_of(call.outcome)) for call in calls] == [
        (note.at, note.view, note.call, note.ref, note.error) for note in of_spi
    ]

    # Each change was told at the moment of one call; what fell due comes first, then at most one of its own.
    by_moment: dict[datetime, list[Observation]] = defaultdict(list)
    for change in told:
        by_moment[change.observed_at].append(change)
    assert list(by_moment) == sorted(by_moment)
    moments = {note.at: note for note in town.notes}
    assert len(moments) == len(town.notes)
    own: dict[datetime, Observation] = {}
    for moment, changes in by_moment.items():
        due = [town.settled(change) for change in changes]
        assert due == sorted(due, reverse=True)
        assert due.count(False) <= 1
        if not due[-1]:
            own[moment] = changes[-1]
            assert moment in moments  # the looks at the end settle, and change nothing

    # A call has landed exactly if a change of its own was told; a change is of the object that was asked for.
    for call in calls:
        assert (call.landed_at is not None) is (call.at in own)
        if call.landed_at is not None:
            assert call.landed_at == call.at
            if call.ref is not None:
                assert own[call.at].ref.id == call.ref.id
            else:
                assert (call.call, own[call.at].job_id) == ("start", call.job_id)
                assert own[call.at].state is State.PENDING
            assert call.outcome is None or isinstance(call.outcome, OutcomeUnknownError)
        if isinstance(call.outcome, NotFoundError | ExpiredError | UnavailableError):
            assert call.landed_at is None

    # Each object's history begins Pending, changes at every step, ends with Gone or with what is so now.
    histories: dict[str, list[Observation]] = defaultdict(list)
    for change in told:
        histories[change.ref.id].append(change)
    assert list(histories) == [truth.ref.id for truth in objects]
    current = {observation.ref.id: observation for observation in seen.shown}
    for truth in objects:
        history = histories[truth.ref.id]
        assert (history[0].state, history[0].restarts) == (State.PENDING, 0)
        for earlier, later in pairwise(history):
            assert msgspec.structs.replace(later, observed_at=earlier.observed_at) != earlier
            assert earlier.state is not State.GONE
            assert earlier.restarts <= later.restarts
        if truth.gone_at is None:
            last = msgspec.structs.replace(history[-1], observed_at=current[truth.ref.id].observed_at)
            assert last == current.pop(truth.ref.id)
            assert (last.state, last.hold, last.restarts) == (truth.state, truth.hold, truth.restarts)
        else:
            assert history[-1].state is State.GONE
    assert current == {}

    # The run did go through all that.
    assert len(objects) > 10
    assert len(own) > 60
    assert any(town.settled(change) for change in told)
    assert town.cancelled > 5
    assert {"", "NotFoundError"} < {note.error for note in town.notes}


def name_of(error: DispatchError | None) -> str:
    return type(error).__name__ if error else ""


async def test_two_views_that_start_the_same_submission_at_once_kf_1(shape: Shape) -> None:
    """Fifty of them: Kubeflow knows one name, Slurm gives each an object and an id of its own."""
    b = Backend(Config(shape=shape), clock=MovingClock())
    views = [b.view(), b.view()]
    refs: list[Ref] = []
    refused: list[str] = []

    async def start(view: View) -> None:
        try:
            refs.append(await view.start(job(1), 1))
        except DispatchError as error:
            refused.append(type(error).__name__)

    async with anyio.create_task_group() as group:
        for number in range(TASKS):
            group.start_soon(start, views[number % 2])
    if shape is Shape.KUBEFLOW:
        assert len(refs) == 1
        assert refused == ["AlreadyExistsError"] * (TASKS - 1)
    else:
        assert [ref.id for ref in refs] == [str(number) for number in range(1, TASKS + 1)]
        assert {ref.name for ref in refs} == {f"dj-{job(1).id}"}
    assert [seen.ref for seen in await b.find(job(1).id)] == refs


async def test_holds_of_rising_instances_from_many_tasks_leave_the_highest_sl_6(shape: Shape) -> None:
    b = Backend(Config(shape=shape), clock=MovingClock())
    ref = await b.start(job(1), 1)
    stale = 0

    async def hold(instance: int) -> None:
        nonlocal stale
        for _ in range(instance % 3):
            await checkpoint()
        try:
            await b.hold(ref, HoldMeta(deadline=FAR, instance=instance))
        except DispatchError:
            stale += 1

    async with b.watch() as watch:
        await anext(watch)
        async with anyio.create_task_group() as group:
            for instance in range(1, TASKS + 1):
                group.start_soon(hold, instance)
        await watch.aclose()
        told = [seen.hold or 0 for seen in [change async for change in watch]]
    assert told == sorted(set(told))
    assert told[-1] == TASKS
    assert len(told) + stale == TASKS
