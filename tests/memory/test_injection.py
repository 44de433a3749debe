"""What a caller injects (2.5) and what the environment injects (`fail_calls`, 2.7)."""

import gc
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta, timezone
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from dispatch_memory_async import (
    AlreadyExistsError,
    Backend,
    CallMeta,
    CallRecord,
    CrashedError,
    DispatchError,
    ExpiredError,
    HoldMeta,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PendingError,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    Shape,
    State,
    UnavailableError,
    UnsupportedError,
    View,
    call_start,
    crash_between_steps,
)
from tests.memory.test_calls import ABSENT, SPI, Scene, make, of_both_shapes, ready, rest_of, snapshot_of
from tests.support import FAR, SECOND, T0, Clock, backend, job

MICROSECOND = timedelta(microseconds=1)
NOTHING: Any = "nothing of the kind"

# The calls that carry a deadline, each on an object on which it is allowed.
DEADLINES: dict[str, Callable[[Scene, Any], Coroutine[Any, Any, object]]] = {
    "start": lambda s, d: s.b.start(job(2), 1, deadline=d),
    "open": lambda s, d: s.b.open(s.ref, deadline=d),
    "stop": lambda s, d: s.b.stop(s.ref, deadline=d),
    "hold": lambda s, d: s.b.hold(s.ref, HoldMeta(deadline=d, instance=2)),
    "release": lambda s, d: s.b.release(s.ref, ReleaseMeta(deadline=d, instance=2)),
    "requeue": lambda s, d: s.b.requeue(s.ref, CallMeta(d)),
    "restore_requeue_bit": lambda s, d: s.b.restore_requeue_bit(s.ref, CallMeta(d)),
}


async def expired(scene: Scene, name: str, deadline: object = T0) -> bool:
    """Whether the call was refused for its deadline; nothing was done then."""
    before = await scene.b.env.objects()
    try:
        await DEADLINES[name](scene, deadline)
    except ExpiredError:
        assert await scene.b.env.objects() == before
        return True
    return False


# call_start


@of_both_shapes(DEADLINES)
async def test_a_call_started_at_its_deadline_is_in_time_and_later_is_not_2_5(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    scene.clock.now = T0 + MICROSECOND
    assert await expired(scene, name)
    scene = await ready(shape, name)
    assert not await expired(scene, name)


@of_both_shapes(DEADLINES)
async def test_the_start_is_where_call_start_says_past_or_future_2_5(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    with call_start(T0 + MICROSECOND):  # ahead of the clock
        assert await expired(scene, name)
    scene.clock.advance(timedelta(days=1))
    with call_start(T0 + MICROSECOND):
        assert await expired(scene, name)
    with call_start(T0):  # long before the clock
        assert not await expired(scene, name)


async def test_a_start_in_another_zone_is_the_same_moment_2_5(shape: Shape) -> None:
    scene = await ready(shape, "stop")
    east = timezone(timedelta(hours=9))
    with call_start((T0 + MICROSECOND).astimezone(east)):
        assert await expired(scene, "stop")
    with call_start(T0.astimezone(east)):
        assert not await expired(scene, "stop", T0.astimezone(timezone(timedelta(hours=-5))))


async def test_without_a_deadline_nothing_expires_2_5(shape: Shape) -> None:
    scene = await ready(shape, "open")
    with call_start(FAR):
        for name in ("start", "open", "stop"):
            assert not await expired(scene, name, None)


@of_both_shapes([name for name in SPI if name not in DEADLINES])
async def test_calls_without_a_deadline_do_not_read_the_start_2_5(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    with call_start(FAR):
        await make(scene, name)
    assert (await scene.b.env.calls())[-1].at == T0


@pytest.mark.parametrize("found", [T0.replace(tzinfo=None), None, 0, "noon"], ids=repr)
def test_a_naive_start_is_refused_at_call_start_2_5(found: Any) -> None:
    with pytest.raises(InvalidError):
        call_start(found)


@pytest.mark.parametrize("deadline", [T0.replace(tzinfo=None), 0, "noon"], ids=repr)
async def test_a_naive_deadline_is_refused_2_5(shape: Shape, deadline: Any) -> None:
    scene = await ready(shape, "open")
    before = await scene.b.env.objects()
    for name in ("start", "open", "stop"):
        with pytest.raises(InvalidError):
            await DEADLINES[name](scene, deadline)
    assert await scene.b.env.objects() == before


async def started_late(b: Backend) -> bool:
    """Whether a call counts as started after T0, by refusals that change nothing."""
    try:
        await b.stop(ABSENT, deadline=T0)
    except ExpiredError:
        return True
    except NotFoundError:
        return False
    raise AssertionError("there is no such object")


async def test_starts_nest_and_do_not_leak_2_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    assert not await started_late(b)
    with call_start(FAR):
        assert await started_late(b)
        with call_start(T0):
            assert not await started_late(b)
            with call_start(FAR):
                assert await started_late(b)
            assert not await started_late(b)
        assert await started_late(b)
        with suppress(KeyError), call_start(T0):
            raise KeyError
        assert await started_late(b)
    assert not await started_late(b)


async def test_a_start_reaches_the_tasks_begun_inside_and_no_others_2_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    go = anyio.Event()
    late: dict[str, bool] = {}

    async def call(name: str) -> None:
        await go.wait()
        if name == "inside":
            async with anyio.create_task_group() as inner:
                inner.start_soon(call, "grandchild")
        late[name] = await started_late(b)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "before")
        with call_start(FAR):
            group.start_soon(call, "inside")
            await checkpoint()
        group.start_soon(call, "after")
        go.set()  # the one begun inside acts when the block has long been left
    assert late == {"before": False, "inside": True, "grandchild": True, "after": False}


async def test_a_start_set_in_a_task_does_not_leak_into_its_parent_2_5(shape: Shape) -> None:
    b = backend(shape, Clock())
    inside, done = anyio.Event(), anyio.Event()

    async def child() -> None:
        with call_start(FAR):
            inside.set()
            await done.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(child)
        await inside.wait()
        assert not await started_late(b)
        done.set()


# crash_between_steps


async def running(b: Backend, number: int = 1) -> Ref:
    ref = await b.start(job(number), 1)
    await b.open(ref)
    await b.env.run(ref)
    return ref


async def test_a_crash_reaches_requeues_inside_the_block_alone_2_5() -> None:
    clock = Clock()
    b = backend(Shape.SLURM, clock)
    ref = await running(b)
    with crash_between_steps():
        with crash_between_steps(), pytest.raises(CrashedError):
            await b.requeue(ref, CallMeta(FAR))
        with pytest.raises(CrashedError):  # the inner block does not end the outer one
            await b.requeue(ref, CallMeta(FAR))
        await b.env.requeue_externally(ref)  # not the caller's call
    with pytest.raises(PendingError):
        await b.requeue(ref, CallMeta(FAR))


async def test_a_crash_reaches_the_tasks_begun_inside_and_no_others_2_5() -> None:
    b = backend(Shape.SLURM, Clock())
    refs = {name: await running(b, number) for number, name in enumerate(("before", "inside", "parent"), 1)}
    crashed: dict[str, bool] = {}

    async def call(name: str, go: anyio.Event) -> None:
        await go.wait()
        try:
            await b.requeue(refs[name], CallMeta(FAR))
        except CrashedError:
            crashed[name] = True
        else:
            crashed[name] = False

    go = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(call, "before", go)
        await checkpoint()
        with crash_between_steps():
            group.start_soon(call, "inside", go)
            await checkpoint()
        go.set()
        await call("parent", go)
    assert crashed == {"before": False, "inside": True, "parent": False}


async def test_both_injections_at_once_the_deadline_is_looked_at_first_1_2() -> None:
    b = backend(Shape.SLURM, Clock())
    ref = await running(b)
    with crash_between_steps(), call_start(T0 + SECOND):
        with pytest.raises(ExpiredError):
            await b.requeue(ref, CallMeta(T0))
        assert (await b.get(ref)).requeue_bit is False
        with pytest.raises(CrashedError):
            await b.requeue(ref, CallMeta(T0 + SECOND))


async def test_crashing_is_for_those_who_can_requeue_kf_8() -> None:
    b = backend(Shape.KUBEFLOW, Clock())
    ref = await running(b)
    with crash_between_steps(), pytest.raises(UnsupportedError):
        await b.requeue(ref, CallMeta(FAR))


# fail_calls


@of_both_shapes(SPI)
async def test_none_raises_what_was_given_and_nothing_happens_2_7(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    error = UnavailableError("injected")
    await scene.b.env.fail_calls(SPI_NAME[name], error)
    watch = scene.b.watch()
    await snapshot_of(watch)
    objects = await scene.b.env.objects()
    with pytest.raises(UnavailableError) as raised:
        await make(scene, name)
    assert raised.value is error
    assert await scene.b.env.objects() == objects
    record = (await scene.b.env.calls())[-1]
    assert (record.call, type(record.outcome), str(record.outcome)) == (SPI_NAME[name], UnavailableError, "injected")
    assert record.landed_at is None
    assert await rest_of(watch) == []
    await make(scene, name)  # once is the default


@of_both_shapes(SPI)
async def test_kept_raises_what_was_given_and_the_change_stays_2_7(shape: Shape, name: str) -> None:
    undisturbed, scene = await ready(shape, name), await ready(shape, name)
    error = OutcomeUnknownError("the reply is lost")
    await scene.b.env.fail_calls(SPI_NAME[name], error, effect="kept")
    watches = [undisturbed.b.watch(), scene.b.watch()]
    for watch in watches:
        await snapshot_of(watch)
    await make(undisturbed, name)
    with pytest.raises(OutcomeUnknownError) as raised:
        await make(scene, name)
    assert raised.value is error
    assert await scene.b.env.objects() == await undisturbed.b.env.objects()
    expected = (await undisturbed.b.env.calls())[-1]
    record = (await scene.b.env.calls())[-1]
    assert (record.call, record.ref, record.job_id, record.landed_at) == (
        expected.call,
        expected.ref,
        expected.job_id,
        expected.landed_at,
    )
    assert str(record.outcome) == "the reply is lost"
    assert await rest_of(watches[1]) == await rest_of(watches[0])


SPI_NAME = {name: name.partition(" ")[0] for name in SPI}


async def test_a_lost_reply_makes_a_second_object_on_slurm_and_a_refusal_on_kubeflow_sl_1(shape: Shape) -> None:
    b = backend(shape, Clock())
    await b.env.fail_calls("start", OutcomeUnknownError("lost"), effect="kept")
    with pytest.raises(OutcomeUnknownError):
        await b.start(job(1), 1)
    assert len(await b.find(job(1).id)) == 1
    if shape is Shape.SLURM:
        await b.start(job(1), 1)
        assert len(await b.find(job(1).id)) == 2
    else:
        with pytest.raises(AlreadyExistsError):
            await b.start(job(1), 1)


async def test_times_counts_the_calls_that_were_struck_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    await b.env.fail_calls("find", UnavailableError("busy"), times=3)
    struck: list[bool] = []
    for _ in range(5):
        await b.capabilities()  # others pass, and do not count
        try:
            await b.find(job(1).id)
        except UnavailableError:
            struck.append(True)
        else:
            struck.append(False)
    assert struck == [True, True, True, False, False]


async def test_when_chooses_by_the_record_of_the_call_2_7(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    refs = [await b.start(job(number), 1) for number in (1, 2)]
    shown: list[CallRecord] = []

    def second(record: CallRecord) -> bool:
        shown.append(record)
        return record.ref == refs[1]

    await b.env.fail_calls("get", UnavailableError("busy"), when=second)
    clock.advance(SECOND)
    await b.get(refs[0])
    await b.find(job(1).id)  # not asked about
    with pytest.raises(UnavailableError):
        await b.view().get(refs[1])
    await b.get(refs[1])
    expected: dict[str, Any] = {"call": "get", "at": T0 + SECOND, "job_id": None, "outcome": None, "landed_at": None}
    assert shown == [
        CallRecord(view="backend", ref=refs[0], **expected),
        CallRecord(view="view 1", ref=refs[1], **expected),
    ]


async def test_when_of_a_kept_one_sees_whether_it_landed_2_7(clock: Clock) -> None:
    """The reply of the one that changed something is lost, that of the repetition is not."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    await b.env.fail_calls(
        "open", OutcomeUnknownError("lost"), effect="kept", times=2, when=lambda record: record.landed_at is not None
    )
    with pytest.raises(OutcomeUnknownError):
        await b.open(ref)
    await b.open(ref)


async def test_a_call_that_fails_by_itself_does_not_use_up_kept_2_7(shape: Shape) -> None:
    clock = Clock(T0 + SECOND)
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.env.fail_calls("stop", OutcomeUnknownError("lost"), effect="kept")
    with pytest.raises(NotFoundError):
        await b.stop(ABSENT)
    with pytest.raises(ExpiredError):
        await b.stop(ref, deadline=T0)
    with pytest.raises(InvalidError):
        await b.stop(NOTHING)
    with pytest.raises(ReadOnlyError):
        await b.view(read_only=True).stop(ref)
    with pytest.raises(OutcomeUnknownError):
        await b.stop(ref)
    assert (await b.env.truth(ref)).state is State.CANCELLED


async def test_a_crash_is_a_failure_by_itself_2_7() -> None:
    b = backend(Shape.SLURM, Clock())
    ref = await running(b)
    await b.env.fail_calls("requeue", UnavailableError("lost"), effect="kept")
    with crash_between_steps(), pytest.raises(CrashedError):
        await b.requeue(ref, CallMeta(FAR))
    with pytest.raises(UnavailableError):
        await b.requeue(ref, CallMeta(FAR))


async def test_none_comes_after_what_is_bad_in_the_asking_and_before_the_rest_1_2(shape: Shape) -> None:
    clock = Clock(T0 + SECOND)
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    weak = await b.weaken_identity(ref)
    await b.env.fail_calls("stop", UnavailableError("busy"), times=2)
    for bad, error in ((NOTHING, InvalidError), (weak, InvalidError)):
        with pytest.raises(error):
            await b.stop(bad)
    with pytest.raises(ReadOnlyError):
        await b.view(read_only=True).stop(ref)
    with pytest.raises(UnavailableError):  # it comes before expired
        await b.stop(ref, deadline=T0)
    with pytest.raises(UnavailableError):  # and before not found
        await b.stop(ABSENT)
    with pytest.raises(NotFoundError):
        await b.stop(ABSENT)
    if shape is Shape.KUBEFLOW:
        await b.env.fail_calls("requeue", UnavailableError("busy"))
        with pytest.raises(UnsupportedError):
            await b.requeue(ref, CallMeta(FAR))


async def test_two_that_wait_for_one_call_strike_in_the_order_in_which_they_came_ruling_24(shape: Shape) -> None:
    b = backend(shape, Clock())
    for text in ("first", "second"):
        await b.env.fail_calls("find", UnavailableError(text))
    for text in ("first", "second"):
        with pytest.raises(UnavailableError, match=text):
            await b.find(job(1).id)
    await b.find(job(1).id)

    await b.env.fail_calls("find", UnavailableError("of job 2"), when=lambda record: record.job_id == job(2).id)
    await b.env.fail_calls("find", UnavailableError("of any"))
    with pytest.raises(UnavailableError, match="of any"):  # the first one that is meant
        await b.find(job(1).id)
    with pytest.raises(UnavailableError, match="of job 2"):
        await b.find(job(2).id)


async def test_none_is_looked_at_before_the_act_and_kept_after_it_ruling_24(shape: Shape) -> None:
    """Registered the other way round: the call is struck by `none`, and `kept` waits for the next."""
    b = backend(shape, Clock())
    await b.env.fail_calls("start", OutcomeUnknownError("kept"), effect="kept")
    await b.env.fail_calls("start", UnavailableError("none"))
    with pytest.raises(UnavailableError):
        await b.start(job(1), 1)
    assert await b.env.objects() == ()
    with pytest.raises(OutcomeUnknownError):
        await b.start(job(1), 1)
    assert len(await b.env.objects()) == 1


async def test_an_injection_is_for_the_calls_of_every_client_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    clients: list[View] = [b, b.view(), b.view(read_only=True)]
    await clients[1].env.fail_calls("find", UnavailableError("busy"), times=3)
    for client in clients:
        with pytest.raises(UnavailableError):
            await client.find(job(1).id)
    assert [record.view for record in await b.env.calls()] == [client.name for client in clients]


async def test_an_injection_does_not_reach_the_environment_or_a_watch_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    ref = await b.start(job(1), 1)
    for name in SPI_NAME.values():
        await b.env.fail_calls(name, UnavailableError("busy"))
    assert len(await snapshot_of(b.watch())) == 1
    await b.env.admin_hold(ref)
    assert len(await b.env.objects()) == 1


async def test_what_was_due_is_settled_before_an_injection_strikes_tm_2(shape: Shape) -> None:
    clock = Clock()
    b = backend(shape, clock)
    await b.env.out_of_memory(await running(b))
    await b.env.fail_calls("find", UnavailableError("busy"))
    watch = b.watch()
    await snapshot_of(watch)
    clock.advance(timedelta(minutes=5))
    with pytest.raises(UnavailableError):
        await b.find(job(1).id)
    assert len(await rest_of(watch)) == 1
    assert (await b.env.calls())[-1].landed_at is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"call": "watch"},
        {"call": "aclose"},
        {"call": "run"},
        {"call": "view"},
        {"call": ""},
        {"call": None},
        {"call": ["get"]},
        {"error": ValueError("no DispatchError")},
        {"error": UnavailableError},
        {"error": "busy"},
        {"effect": "later"},
        {"effect": None},
        {"effect": ["none"]},
        {"times": 0},
        {"times": -1},
        {"times": True},
        {"times": 1.0},
        {"times": None},
        {"when": "get"},
        {"when": 1},
    ],
    ids=repr,
)
async def test_an_injection_that_could_never_strike_is_refused_2_7(shape: Shape, arguments: dict[str, Any]) -> None:
    b = backend(shape, Clock())
    given: dict[str, Any] = {"call": "get", "error": UnavailableError("busy"), **arguments}
    with pytest.raises(InvalidError):
        await b.env.fail_calls(given.pop("call"), given.pop("error"), **given)
    with pytest.raises(NotFoundError):
        await b.get(ABSENT)


async def test_an_injected_error_of_ones_own_is_put_down_as_such_2_7(shape: Shape) -> None:
    class FullError(UnavailableError):
        def __init__(self, queue: str, room: int) -> None:
            super().__init__(f"{queue}: room for {room}")
            self.room = room

    b = backend(shape, Clock())
    error = FullError("gpu", 3)
    await b.env.fail_calls("start", error)
    with pytest.raises(FullError) as raised:
        await b.start(job(1), 1)
    assert raised.value is error
    outcome = (await b.env.calls())[-1].outcome
    assert isinstance(outcome, FullError)
    assert (str(outcome), outcome.room) == ("gpu: room for 3", 3)


async def test_an_error_that_strikes_again_does_not_grow_a_trace_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    error = UnavailableError("busy")
    await b.env.fail_calls("capabilities", error, times=50)

    def length() -> int:
        trace, found = error.__traceback__, 0
        while trace:
            trace, found = trace.tb_next, found + 1
        return found

    lengths: set[int] = set()
    for _ in range(50):
        with suppress(UnavailableError):
            await b.capabilities()
        lengths.add(length())
    assert len(lengths) == 1


async def test_the_log_holds_no_frame_of_an_injected_call_2_7(shape: Shape) -> None:
    class Local:
        pass

    async def caller(b: Backend) -> weakref.ref[Local]:
        local = Local()
        error: DispatchError = OutcomeUnknownError("lost")
        await b.env.fail_calls("start", error, effect="kept")
        with suppress(OutcomeUnknownError):
            await b.start(job(1), 1)
        return weakref.ref(local)

    b = backend(shape, Clock())
    seen = await caller(b)
    gc.collect()
    assert seen() is None
    assert len(await b.env.calls()) == 1
