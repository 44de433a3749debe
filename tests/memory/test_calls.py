"""Every call once, as a table for other tests too; the call log (rulings 22, 23, 2.7); the thread (1.2).

`SPI` and `ENV` hold each call with what must have been done before it, so that it succeeds and (unless it only
reads) changes something.
"""

import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
import outcome
import pytest

from dispatch_memory_async import (
    Backend,
    CallMeta,
    CallRecord,
    ClosedError,
    Config,
    CrashedError,
    DispatchError,
    ExpiredError,
    FinishedError,
    HoldMeta,
    InvalidError,
    NotFoundError,
    Observation,
    Policy,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    Shape,
    StaleError,
    UnavailableError,
    View,
    Watch,
    crash_between_steps,
)
from tests.support import FAR, SECOND, T0, Clock, backend, job

T = TypeVar("T")

ABSENT = Ref(name="dj-nothing", id="999999", submitted_at=T0)


class CountingClock(Clock):
    """A clock that counts how often it is read, and lets a test look in while it is."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.when_read: Callable[[], object] = lambda: None

    def __call__(self) -> datetime:
        self.reads += 1
        self.when_read()
        return self.now


class Scene:
    """A backend with at most one object of interest, and the client that makes the calls of the SPI."""

    def __init__(self, shape: Shape, **settings: object) -> None:
        self.clock = CountingClock()
        self.b = Backend(Config(shape=shape, **settings), clock=self.clock)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        self.client: View = self.b
        self.job = job(1)
        self.ref: Ref = ABSENT


@dataclass(frozen=True)
class Call:
    given: str
    make: Callable[[Scene], Coroutine[Any, Any, object]]
    only: Shape | None = None
    changes: bool = True


SPI: Mapping[str, Call] = {
    "capabilities": Call("", lambda s: s.client.capabilities(), changes=False),
    "start": Call("", lambda s: s.client.start(s.job, 1)),
    "open": Call("start", lambda s: s.client.open(s.ref)),
    "get": Call("start", lambda s: s.client.get(s.ref), changes=False),
    "find": Call("start", lambda s: s.client.find(s.job.id), changes=False),
    "stop": Call("start open run", lambda s: s.client.stop(s.ref)),
    "hold": Call("start open", lambda s: s.client.hold(s.ref, HoldMeta(deadline=FAR, instance=2))),
    "release": Call("start open hold", lambda s: s.client.release(s.ref, ReleaseMeta(deadline=FAR, instance=2))),
    "requeue": Call("start open run", lambda s: s.client.requeue(s.ref, CallMeta(FAR)), Shape.SLURM),
    "restore_requeue_bit": Call(
        "start open run requeue_externally",  # within the second of the start, so that the ref stays
        lambda s: s.client.restore_requeue_bit(s.ref, CallMeta(FAR)),
        Shape.SLURM,
    ),
    "compile_policy": Call("", lambda s: s.client.compile_policy(Policy()), changes=False),
    "cessation": Call("start open run", lambda s: s.client.cessation(s.ref), changes=False),
    "cessation of a job": Call("start", lambda s: s.client.cessation(s.job.id), changes=False),
    "weaken_identity": Call("start", lambda s: s.client.weaken_identity(s.ref), changes=False),
    "find_many": Call("start", lambda s: s.client.find_many([s.job.id]), changes=False),
}
ENV: Mapping[str, Call] = {
    "run": Call("start open", lambda s: s.b.env.run(s.ref)),
    "finish": Call("start open run", lambda s: s.b.env.finish(s.ref, 3)),
    "out_of_memory": Call("start open run", lambda s: s.b.env.out_of_memory(s.ref)),
    "time_out": Call("start open run", lambda s: s.b.env.time_out(s.ref)),
    "fail_launch": Call("start open run", lambda s: s.b.env.fail_launch(s.ref)),
    "preempt": Call("start open run", lambda s: s.b.env.preempt(s.ref)),
    "lose_node": Call("start open run", lambda s: s.b.env.lose_node(s.ref)),
    "return_node": Call("start open run lose_node", lambda s: s.b.env.return_node(s.ref)),
    "fence_node": Call("start open run lose_node", lambda s: s.b.env.fence_node(s.ref)),
    "admin_hold": Call("start", lambda s: s.b.env.admin_hold(s.ref)),
    "admin_release": Call("start admin_hold", lambda s: s.b.env.admin_release(s.ref)),
    "no_capacity": Call("start open", lambda s: s.b.env.no_capacity(s.ref, "full")),
    "requeue_externally": Call("start open run", lambda s: s.b.env.requeue_externally(s.ref), Shape.SLURM),
    "deactivate_externally": Call("start", lambda s: s.b.env.deactivate_externally(s.ref), Shape.KUBEFLOW),
    "reactivate_externally": Call(
        "start deactivate_externally", lambda s: s.b.env.reactivate_externally(s.ref), Shape.KUBEFLOW
    ),
    "fail_calls": Call("", lambda s: s.b.env.fail_calls("capabilities", UnavailableError("injected"))),
    "truth": Call("start", lambda s: s.b.env.truth(s.ref), changes=False),
    "objects": Call("", lambda s: s.b.env.objects(), changes=False),
    "calls": Call("", lambda s: s.b.env.calls(), changes=False),
}
EVERY: Mapping[str, Call] = {**SPI, **ENV}


async def ready(shape: Shape, name: str, **settings: object) -> Scene:
    """A scene in which everything has been done that must come before the call of that name."""
    scene = Scene(shape, **settings)
    for word in EVERY[name].given.split():
        answer = await make(scene, word)
        if isinstance(answer, Ref):
            scene.ref = answer
    return scene


def make(scene: Scene, name: str) -> Coroutine[Any, Any, object]:
    """The call of that name, not yet awaited."""
    return EVERY[name].make(scene)


def of_both_shapes(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with `shape` and `name`, for every call that the shape has."""
    cells = [(shape, name) for name in names for shape in Shape if EVERY[name].only in (None, shape)]
    return pytest.mark.parametrize(("shape", "name"), cells, ids=[f"{shape}-{name}" for shape, name in cells])


def of_one_shape(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with `shape` and `name`, for every call once: where what is shown lies before the shapes."""
    cells = [(EVERY[name].only or Shape.SLURM, name) for name in names]
    return pytest.mark.parametrize(("shape", "name"), cells, ids=list(names))


class Stepped(Generic[T]):
    """Awaits a coroutine, and does something whenever that has stopped to wait."""

    def __init__(self, call: Coroutine[Any, Any, T], when_stopped: Callable[[], object]) -> None:
        self._call = call
        self._when_stopped = when_stopped

    def __await__(self) -> Generator[Any, Any, T]:
        go_on: Callable[[], object] = partial(self._call.send, None)
        while True:
            try:
                trap = go_on()
            except StopIteration as end:
                answer: T = end.value
                return answer
            self._when_stopped()
            try:
                go_on = partial(self._call.send, (yield trap))
            except BaseException as error:  # noqa: BLE001  # it is for the coroutine
                go_on = partial(self._call.throw, error)


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Make a whole call, without letting anybody else come first: for the middle of another call's checkpoint."""
    trap = call.send(None)
    try:
        call.send(None if trap is None else outcome.Value(None))  # what asyncio's and trio's loops answer
    except StopIteration as end:
        answer: T = end.value
        return answer
    raise AssertionError("the call has more than one checkpoint")


async def snapshot_of(watch: Watch) -> list[Observation]:
    """Enter a watch and read its snapshot."""
    await watch.__aenter__()
    seen: list[Observation] = []
    while not watch.synced:
        seen.append(await anext(watch))
    return seen


async def taken(changes: AsyncIterator[Observation], count: int = 1) -> list[Observation]:
    """The next so many; where they do not come, the test fails and does not wait for ever."""
    with anyio.fail_after(5):
        return [await anext(changes) for _ in range(count)]


async def rest_of(watch: Watch) -> list[Observation]:
    """Close a watch and read what it still gives."""
    await watch.aclose()
    return [seen async for seen in watch]


# The log


@of_both_shapes(SPI)
async def test_each_call_is_put_down_once_as_it_was_asked_ruling_23(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    earlier = await scene.b.env.calls()
    scene.clock.advance(SECOND)
    await make(scene, name)
    calls = await scene.b.env.calls()
    by_job = {"start", "find", "cessation of a job"}
    by_ref = {"open", "get", "stop", "hold", "release", "requeue", "restore_requeue_bit", "cessation"}
    assert calls[:-1] == earlier
    assert calls[-1] == CallRecord(
        call=name.partition(" ")[0],
        view="backend",
        at=T0 + SECOND,
        ref=scene.ref if name in by_ref | {"weaken_identity"} else None,
        job_id=scene.job.id if name in by_job else None,
        outcome=None,
        landed_at=T0 + SECOND if SPI[name].changes and not (name == "open" and shape is Shape.KUBEFLOW) else None,
    )


@of_one_shape(ENV)
async def test_a_call_of_the_environment_is_none_of_the_spi_2_7(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    earlier = await scene.b.env.calls()
    await make(scene, name)
    assert await scene.b.env.calls() == earlier


async def test_what_changes_nothing_has_not_landed_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    ref = await b.start(job(1), 1)
    for _ in range(2):
        await b.open(ref)
        await b.hold(ref, HoldMeta(deadline=FAR, instance=3))
    for _ in range(2):
        await b.release(ref, ReleaseMeta(deadline=FAR, instance=3))
    landed = [(record.call, record.landed_at is not None) for record in await b.env.calls()]
    assert landed == [
        ("start", True),
        ("open", shape is Shape.SLURM),  # KF-2: there is no gate
        ("hold", True),
        ("open", False),
        ("hold", False),
        ("release", True),
        ("release", False),
    ]


async def test_what_was_settled_in_a_call_has_not_landed_by_it_2_7(clock: Clock) -> None:
    """The end of a lost node's object falls due in a look, which itself changes nothing."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await b.env.lose_node(ref)
    clock.advance(timedelta(minutes=5))
    assert (await b.get(ref)).state.ended
    assert (await b.env.calls())[-1].landed_at is None


async def test_a_refusal_is_put_down_as_the_caller_saw_it_2_7(shape: Shape) -> None:
    scene = Scene(shape)
    b = scene.b
    ref = await b.start(scene.job, 1)
    weak = await b.weaken_identity(ref)
    await b.hold(ref, HoldMeta(deadline=FAR, instance=5))
    refused: list[tuple[Coroutine[Any, Any, object], type[DispatchError]]] = [
        (b.get(ABSENT), NotFoundError),
        (b.stop(weak), InvalidError),
        (b.open(ref, deadline=T0 - SECOND), ExpiredError),
        (b.hold(ref, HoldMeta(deadline=FAR, instance=4)), StaleError),
        (b.view(read_only=True).stop(ref), ReadOnlyError),
    ]
    before = len(await b.env.calls())
    caught: list[DispatchError] = []
    for call, kind in refused:
        with pytest.raises(kind) as raised:
            await call
        caught.append(raised.value)
    records = (await b.env.calls())[before:]
    assert [record.ref for record in records] == [ABSENT, weak, ref, ref, ref]
    assert [(type(record.outcome), str(record.outcome)) for record in records] == [
        (type(error), str(error)) for error in caught
    ]
    assert [getattr(record.outcome, "current", None) for record in records] == [None, None, None, 5, None]
    assert [record.landed_at for record in records] == [None] * 5


async def test_a_crashed_requeue_has_landed_its_first_step_sl_8(clock: Clock) -> None:
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    for landed_at in (T0 + SECOND, None):  # the second time the bit is set already
        clock.advance(SECOND)
        with crash_between_steps(), pytest.raises(CrashedError):
            await b.requeue(ref, CallMeta(FAR))
        record = (await b.env.calls())[-1]
        assert isinstance(record.outcome, CrashedError)
        assert record.landed_at == landed_at


async def test_a_bad_argument_is_put_down_without_it_ruling_23(shape: Shape) -> None:
    b = backend(shape, Clock())
    with pytest.raises(InvalidError):
        await b.get("no ref")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidError):
        await b.find("no id")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert [(record.call, record.ref, record.job_id) for record in await b.env.calls()] == [
        ("get", None, None),
        ("find", None, None),
    ]


@of_one_shape(SPI)
async def test_a_call_on_a_closed_view_is_not_put_down_and_settles_nothing_ruling_22(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    scene.client = scene.b.view()
    await scene.client.aclose()
    before, reads = await scene.b.env.calls(), scene.clock.reads
    with pytest.raises(ClosedError):
        await make(scene, name)
    assert scene.clock.reads == reads
    assert await scene.b.env.calls() == before


async def test_the_log_does_not_hold_the_callers_frames(shape: Shape) -> None:
    class Local:
        pass

    async def caller(b: Backend) -> weakref.ref[Local]:
        local = Local()
        with suppress(NotFoundError):
            await b.get(ABSENT)
        with suppress(UnavailableError):
            await b.capabilities()
        return weakref.ref(local)

    b = backend(shape, Clock())
    await b.env.fail_calls("capabilities", UnavailableError("injected"))
    seen = await caller(b)
    gc.collect()
    assert seen() is None
    assert [type(record.outcome) for record in await b.env.calls()] == [NotFoundError, UnavailableError]


# Another thread


def elsewhere(act: Callable[[], object]) -> BaseException | None:
    """What another thread gets for it."""
    got: list[BaseException | None] = []

    def attempt() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test looks at it
            got.append(error)
        else:
            got.append(None)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return got[0]


@of_one_shape(EVERY)
async def test_another_thread_is_refused_before_anything_happens_1_2(shape: Shape, name: str) -> None:
    """It is refused before the checkpoint even: no step of any event loop is taken."""
    scene = await ready(shape, name)
    before = (await scene.b.env.objects(), await scene.b.env.calls(), scene.clock.reads)
    refused = elsewhere(lambda: make(scene, name).send(None))
    assert type(refused) is InvalidError
    assert "thread" in str(refused)
    reads = scene.clock.reads
    assert (await scene.b.env.objects(), await scene.b.env.calls(), reads) == before
    await scene.b.capabilities()


async def test_another_thread_is_refused_what_is_no_coroutine_too(shape: Shape) -> None:
    scene = Scene(shape)
    b, view = scene.b, scene.b.view()
    watch, begun = b.watch(), b.watch()
    await begun.__aenter__()
    reads = scene.clock.reads
    acts: list[Callable[[], object]] = [
        b.now,
        b.view,
        b.watch,
        view.watch,
        lambda: b.__aenter__().send(None),
        lambda: b.aclose().send(None),
        lambda: view.aclose().send(None),
        lambda: watch.__aenter__().send(None),
        lambda: watch.__anext__().send(None),
        lambda: begun.__anext__().send(None),
        lambda: watch.aclose().send(None),
        lambda: begun.aclose().send(None),
    ]
    assert [type(elsewhere(act)) for act in acts] == [InvalidError] * len(acts)
    assert scene.clock.reads == reads
    assert not b.closed
    assert not view.closed
    assert (watch.closed_by, begun.closed_by) == (None, None)
    ref = await b.start(job(1), 1)
    assert [seen.ref for seen in await taken(begun)] == [ref]


def test_another_loop_of_the_same_thread_may_go_on_with_it(shape: Shape) -> None:
    b = backend(shape, Clock())
    ref = anyio.run(b.start, job(1), 1)
    assert anyio.run(b.get, ref, backend="trio").ref == ref


def test_the_thread_is_told_before_the_closing_1_2(shape: Shape) -> None:
    b = backend(shape, Clock())
    anyio.run(b.aclose)
    assert type(elsewhere(lambda: b.capabilities().send(None))) is InvalidError
    with pytest.raises(ClosedError):
        anyio.run(b.capabilities)


async def test_what_ended_stays_refused_in_the_log_and_the_answer_alike(clock: Clock) -> None:
    """A refusal by the state: FinishedError, in the log too."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    await b.stop(ref)
    with pytest.raises(FinishedError):
        await b.open(ref)
    assert type((await b.env.calls())[-1].outcome) is FinishedError
