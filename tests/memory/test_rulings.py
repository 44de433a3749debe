"""The rulings on what the rules leave open (section 2c), one or more tests each, through the public API alone."""

import pickle
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dispatch_memory_async import (
    HOLD_BASE,
    Action,
    Backend,
    CallMeta,
    Capability,
    Cause,
    Cessation,
    ClosedError,
    Config,
    DispatchError,
    ExpiredError,
    FinishedError,
    HeldError,
    HoldMeta,
    InvalidError,
    NativePolicy,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Policy,
    Ref,
    ReleaseMeta,
    Resources,
    Rule,
    Shape,
    Source,
    State,
    Support,
    Tristate,
    UnavailableError,
    UnmatchedPolicy,
    WrongStateError,
    dec_hook,
    enc_hook,
    resubscribing,
)
from tests.memory.table import CODE, CONFIGURED, FIRST, KILL_WAIT, World, at
from tests.support import FAR, MINUTE, SECOND, T0, Clock, backend, job, ulid

SLURM, KUBEFLOW = Shape.SLURM, Shape.KUBEFLOW
HISTORY = {"capabilities": {"AccountingHistory": {"value": "yes"}}}
CEASED = Cessation(ceased=True)
LIVING = Cessation(ceased=False, detail=CONFIGURED)
DECLARED = Cessation(ceased=True, detail=CONFIGURED)
ENDINGS = {
    "X-s": ("start open run stop", Cause.STOPPED),
    "X-p": ("start open run preempt", Cause.PREEMPTED),
    "X-r": ("start open run requeue", Cause.REQUEUED),
}
ending = pytest.mark.parametrize(("words", "cause"), ENDINGS.values(), ids=ENDINGS)
# Where each of them goes when it is over.
GOES_TO = {
    Cause.STOPPED: (State.CANCELLED, Cause.STOPPED),
    Cause.PREEMPTED: (State.FAILED, Cause.PREEMPTED),
    Cause.REQUEUED: (State.PENDING, Cause.REQUEUED),
}


async def shows(world: World) -> Observation:
    return await world.b.get(world.weak)


async def reached(shape: Shape, words: str, **settings: object) -> World:
    world = World(shape, **settings)
    await world.given(words)
    await world.refresh()  # the last word may have been a requeue
    return world


@ending
async def test_ruling_01_open_of_an_ending_object_under_an_admin_hold(words: str, cause: Cause) -> None:
    """SL-14, SL-4: `open` of an ending object is HeldError while an administrator holds it, else nothing."""
    world = await reached(SLURM, words, kill_wait=KILL_WAIT)
    await world.b.open(world.ref)
    await world.b.env.admin_hold(world.ref)
    with pytest.raises(HeldError):
        await world.b.open(world.ref)
    assert (await shows(world)).cause is cause


@pytest.mark.parametrize("call", ["return_node", "fence_node"])
@pytest.mark.parametrize(
    ("shape", "words", "latest"),
    [
        (SLURM, "start open run lose_node requeue run lose_node requeue", True),
        (SLURM, "start open run lose_node requeue run lose_node requeue run", False),
        (SLURM, "start open run lose_node requeue run lose_node", True),
        (SLURM, "start open run lose_node requeue run lose_node stop", True),
        (SLURM, "start open run lose_node requeue run lose_node stop wait:300", True),
        (KUBEFLOW, "start run lose_node hold:3 release:3 run lose_node hold:4", True),
        (KUBEFLOW, "start run lose_node hold:3 release:3 run lose_node", True),
        (KUBEFLOW, "start run lose_node hold:3 release:3 run lose_node stop", True),
    ],
)
async def test_ruling_02_return_and_fence_act_on_every_lost_node(
    shape: Shape, words: str, latest: bool, call: str
) -> None:
    """2.7: the older ones too, in every row: P, R, L, E, F, H, W and Z here. What goes on is the current one."""
    world = await reached(shape, words)
    env = world.b.env
    assert [run.alive for run in (await env.truth(world.ref)).executions][:2] == [True, True]
    goes_on = call == "return_node" and words.endswith("run lose_node")
    await getattr(env, call)(world.ref)
    truth = await env.truth(world.ref)
    assert [run.alive for run in truth.executions][:2] == [False, goes_on]
    assert truth.executions[0].ended_at == world.clock.now
    assert truth.node == ("fenced" if latest and call == "fence_node" else "up")


@ending
async def test_ruling_03_ending_lost_and_fenced_has_ceased(words: str, cause: Cause) -> None:
    """SL-14, 1.3: lost alone is no proof, fenced is, though the object is still Running."""
    world = await reached(SLURM, f"{words} lose_node", kill_wait=KILL_WAIT)
    assert await world.b.cessation(world.ref) == LIVING
    await world.b.env.fence_node(world.ref)
    assert await world.b.cessation(world.ref) == CEASED
    assert ((await shows(world)).state, (await shows(world)).cause) == (State.RUNNING, cause)


@pytest.mark.parametrize(
    ("shape", "words"), [(SLURM, "start open run lose_node stop"), (KUBEFLOW, "start run lose_node hold:3")]
)
async def test_ruling_04_a_fenced_node_stays_lost_until_it_is_returned(shape: Shape, words: str) -> None:
    """Fencing it again changes nothing (the death keeps its moment); it can be returned once."""
    world = await reached(shape, words)
    env = world.b.env
    await env.fence_node(world.ref)
    fenced = await env.truth(world.ref)
    assert fenced.node == "fenced"
    world.clock.advance(MINUTE)
    await env.fence_node(world.ref)
    assert await env.truth(world.ref) == fenced
    await env.return_node(world.ref)
    returned = await env.truth(world.ref)
    assert returned.node == "up"
    assert returned.executions == fenced.executions
    for call in (env.return_node, env.fence_node):
        with pytest.raises(WrongStateError):
            await call(world.ref)


@ending
async def test_ruling_05_finish_of_an_ending_object_on_a_lost_node(words: str, cause: Cause) -> None:
    """SL-14: an execution on a lost node finishes nothing, as in row L."""
    world = await reached(SLURM, f"{words} lose_node", kill_wait=KILL_WAIT)
    before = await world.b.env.truth(world.ref)
    for code in (0, CODE):
        with pytest.raises(WrongStateError) as caught:
            await world.b.env.finish(world.ref, code)
        assert type(caught.value) is WrongStateError
    assert await world.b.env.truth(world.ref) == before
    assert before.cause is cause


@ending
@pytest.mark.parametrize("declared", [False, True], ids=["fenced", "dead at the loss"])
async def test_ruling_06_return_of_an_ending_object_whose_process_is_dead(
    words: str, cause: Cause, declared: bool
) -> None:
    """The object goes at once where it was going; the process's death keeps its own moment."""
    world = await reached(
        SLURM,
        f"{words} lose_node" if declared else f"{words} lose_node fence_node",
        kill_wait=KILL_WAIT,
        cessation=Cessation(ceased=declared),
    )
    died = world.clock.now
    world.clock.advance(SECOND)
    await world.b.env.return_node(world.ref)
    seen, truth = await shows(world), await world.b.env.truth(world.weak)
    assert (seen.state, seen.cause) == GOES_TO[cause]
    assert seen.restarts == (1 if cause is Cause.REQUEUED else 0)
    assert seen.ended_at == (None if cause is Cause.REQUEUED else world.clock.now)
    assert (truth.executions[0].alive, truth.executions[0].ended_at) == (False, died)


async def test_ruling_07_cancelled_while_pending_after_an_earlier_run() -> None:
    """TM-6: `started_at` of the latest execution, `ended_at` the cancellation, no exit code."""
    world = await reached(SLURM, "start open run finish:3 requeue run finish:3 requeue")
    assert (await shows(world)).started_at is None
    await world.given("stop")
    seen = await shows(world)
    assert (seen.state, seen.cause) == (State.CANCELLED, Cause.STOPPED)
    assert (seen.started_at, seen.ended_at, seen.exit_code) == (at(5), world.clock.now, None)


async def test_ruling_08_start_time_after_a_requeue_that_carried_a_hold() -> None:
    """SL-6: from the submit time in force, which the requeue moved."""
    world = await reached(SLURM, "start open hold:3")
    first = (await shows(world)).ref.submitted_at
    assert first is not None
    assert (await world.b.env.truth(world.weak)).start_time == first + HOLD_BASE + timedelta(seconds=3)
    await world.given("stop requeue")
    second = (await shows(world)).ref.submitted_at
    assert second is not None
    assert second > first
    assert (await world.b.env.truth(world.weak)).start_time == second + HOLD_BASE + timedelta(seconds=3)


@pytest.mark.parametrize(
    ("shape", "words", "call"),
    [
        (SLURM, "start open run", "admin_hold"),
        (SLURM, "start open run admin_hold", "admin_release"),
        (SLURM, "start open run", "lose_node"),
        (SLURM, "start open run lose_node", "fence_node"),
        (SLURM, "start open run lose_node", "return_node"),
        (SLURM, "start open no_capacity", "no_capacity"),
        (KUBEFLOW, "start run lose_node", "fence_node"),
        (KUBEFLOW, "start admin_hold", "deactivate_externally"),
        (KUBEFLOW, "start hold:3", "deactivate_externally"),
        (KUBEFLOW, "start hold:3", "hold:3"),
    ],
)
async def test_ruling_09_nothing_is_told_where_only_observed_at_would_differ(
    shape: Shape, words: str, call: str
) -> None:
    """WA-2: what changes the truth alone is no change to a watcher."""
    world = await reached(shape, words)
    world.clock.advance(SECOND)
    assert await world.told_by(lambda: world.call(call)) == []


async def test_ruling_09_any_other_field_is_a_change() -> None:
    """WA-2: a detail or an instance of its own is told, though state and cause stay."""
    world = await reached(SLURM, "start open no_capacity")
    told = await world.told_by(lambda: world.call("no_capacity:later"))
    assert [one["detail"] for one in told] == ["later"]
    await world.given("hold:3")
    told = await world.told_by(lambda: world.call("hold:4"))
    assert [one["hold"] for one in told] == [4]


@pytest.mark.parametrize(
    ("shape", "words"),
    [(SLURM, "start open run"), (SLURM, "start open run lose_node"), (KUBEFLOW, "start run lose_node")],
)
async def test_ruling_10_cause_of_an_execution_while_it_is_current(shape: Shape, words: str) -> None:
    """None, whatever is known of its node."""
    world = await reached(shape, words)
    assert (await world.b.env.truth(world.weak)).executions[-1].cause is None


@pytest.mark.parametrize(
    ("shape", "words", "cause"),
    [
        (SLURM, "start open run lose_node fence_node wait:300", Cause.NODE_LOST),
        (SLURM, "start open run lose_node fence_node stop", Cause.STOPPED),
        (SLURM, "start open run lose_node fence_node preempt", Cause.PREEMPTED),
        (SLURM, "start open run lose_node fence_node requeue", Cause.REQUEUED),
        (SLURM, "start:requeue open run lose_node fence_node preempt", Cause.PREEMPTED),
        (SLURM, "start open run lose_node fence_node return_node", Cause.NODE_LOST),
        (KUBEFLOW, "start run lose_node fence_node hold:3", Cause.HELD),
        (KUBEFLOW, "start run lose_node fence_node deactivate_externally", Cause.HELD),
        (KUBEFLOW, "start run lose_node fence_node return_node", Cause.NODE_LOST),
        (KUBEFLOW, "start run lose_node fence_node stop", Cause.STOPPED),
    ],
)
async def test_ruling_10_cause_where_the_process_was_dead_before(shape: Shape, words: str, cause: Cause) -> None:
    """The scheduler's cause, though the scheduler ended nothing; the death keeps its moment."""
    world = await reached(shape, words)
    await world.b.find(world.job.id)  # settles what the wait made due
    (execution,) = (await world.b.env.truth(world.ref)).executions
    fenced = words.split().index("fence_node")
    assert (execution.cause, execution.ended_at, execution.alive) == (cause, at(fenced), False)


@pytest.mark.parametrize("words", ["start open run preempt stop", "start open run requeue stop"])
async def test_ruling_10_a_stop_that_takes_over_makes_it_stopped(words: str) -> None:
    """SL-14: the ending is then a stop's, the execution's cause too."""
    world = await reached(SLURM, words, kill_wait=KILL_WAIT)
    world.clock.advance(KILL_WAIT)
    assert (await shows(world)).state is State.CANCELLED
    assert (await world.b.env.truth(world.weak)).executions[0].cause is Cause.STOPPED


@ending
@pytest.mark.parametrize("code", [0, CODE])
async def test_ruling_10_a_finish_while_ending_leaves_it(words: str, cause: Cause, code: int) -> None:
    """SL-14: the exit code is kept on the execution, its cause is what it was ending for."""
    world = await reached(SLURM, f"{words} finish:{code}", kill_wait=KILL_WAIT)
    (execution,) = (await world.b.env.truth(world.weak)).executions
    assert (execution.cause, execution.exit_code) == (cause, code)


async def test_ruling_11_truth_of_a_slurm_object() -> None:
    """`node` is that of the latest execution, None before the first; nothing is written beside a hold."""
    nodes: list[str | None] = []
    world = World(SLURM)
    for words in ("start open", "hold:3", "release:3 run", "lose_node", "requeue", "run"):
        await world.given(words)
        truth = await world.b.env.truth(world.weak)
        nodes.append(truth.node)
        assert truth.active is True
        assert (truth.held_by, truth.held_until, truth.hold_reason) == ("", None, "")
    assert nodes == [None, None, "up", "lost", "lost", "up"]


async def test_ruling_11_truth_of_a_deleted_object_stays_as_it_was() -> None:
    """KF-3, KF-7: also the hold and what was written beside it."""
    world = await reached(KUBEFLOW, "start hold:3")
    before = await world.b.env.truth(world.ref)
    assert (before.hold, before.active, before.held_by) == (3, False, "user 1")
    await world.given("stop")
    after = await world.b.env.truth(world.ref)
    changed = {
        name
        for name in ("gated", "hold", "start_time", "held_by", "held_until", "hold_reason", "active", "node")
        if getattr(before, name) != getattr(after, name)
    }
    assert changed == set()
    assert (after.state, after.cause, after.gone_at) == (State.CANCELLED, Cause.STOPPED, world.clock.now)


async def test_ruling_12_only_a_weak_slurm_ref_compares_the_name(shape: Shape) -> None:
    """SL-2, KF-1: an exact ref is matched by id and time, a weak Kubeflow ref by UID."""
    world = await reached(shape, "start")
    exact = Ref(name="another", id=world.ref.id, submitted_at=world.ref.submitted_at)
    weak = Ref(name="another", id=world.ref.id, submitted_at=None)
    assert (await world.b.get(exact)).ref == world.ref
    if shape is SLURM:
        with pytest.raises(NotFoundError):
            await world.b.get(weak)
    else:
        assert (await world.b.get(weak)).ref == world.ref
    await world.b.stop(exact)


async def test_ruling_12_another_time_is_another_object(shape: Shape) -> None:
    """SL-2, KF-1: the id alone is not enough for an exact ref."""
    world = await reached(shape, "start")
    assert world.ref.submitted_at is not None
    other = Ref(name=world.ref.name, id=world.ref.id, submitted_at=world.ref.submitted_at + SECOND)
    for call in (world.b.get, world.b.stop, world.b.open, world.b.cessation):
        with pytest.raises(NotFoundError):
            await call(other)


def test_ruling_13_a_fraction_of_a_second_is_refused() -> None:
    """1.1: Ref.submitted_at is in whole seconds."""
    for microsecond in (1, 500_000, 999_999):
        with pytest.raises(InvalidError):
            Ref(name="dj", id="1", submitted_at=T0.replace(microsecond=microsecond))


async def test_ruling_13_creation_times_are_cut(shape: Shape) -> None:
    """SL-2, KF-1: both shapes cut to the second, never up."""
    clock = Clock(T0.replace(microsecond=999_999))
    ref = await backend(shape, clock).start(job(), 1)
    assert ref.submitted_at == T0


@pytest.mark.parametrize("call", ["truth", "return_node", "fence_node"])
async def test_ruling_14_a_weak_ref_that_several_objects_ever_matched(call: str) -> None:
    """The remembered one, else the newest gone one: ids wrap, names repeat."""
    world = World(SLURM, max_job_id=1, min_job_age=MINUTE)
    env = world.b.env
    for _ in range(3):
        await world.given("start open run lose_node stop")
        world.clock.advance(MINUTE)
        await world.b.find(world.job.id)
    gone = await env.objects()
    assert {truth.ref.id for truth in gone} == {"1"}
    assert [truth.gone_at is not None for truth in gone] == [True, True, True]

    async def acts_on(expected: int) -> None:
        if call == "truth":
            assert (await env.truth(world.weak)).ref == (await env.objects())[expected].ref
            return
        before = await env.objects()
        await getattr(env, call)(world.weak)
        after = await env.objects()
        assert [old != new for old, new in zip(before, after, strict=True)] == [
            number == expected for number in range(len(before))
        ]

    await acts_on(2)
    await world.given("start open run lose_node")
    await acts_on(3)


async def test_ruling_15_a_slurm_ref_whose_id_is_no_number() -> None:
    """SL-2: nothing answers to it; it is no bad argument."""
    world = await reached(SLURM, "start")
    b, env, ref = world.b, world.b.env, Ref(name=world.ref.name, id="one", submitted_at=world.ref.submitted_at)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: b.get(ref),
        lambda: b.get(Ref(name=ref.name, id="one", submitted_at=None)),
        lambda: b.open(ref),
        lambda: b.stop(ref),
        lambda: b.hold(ref, HoldMeta(deadline=FAR, instance=1)),
        lambda: b.release(ref, ReleaseMeta(deadline=FAR, instance=1)),
        lambda: b.requeue(ref, CallMeta(deadline=FAR)),
        lambda: b.restore_requeue_bit(ref, CallMeta(deadline=FAR)),
        lambda: b.cessation(ref),
        lambda: env.run(ref),
        lambda: env.truth(ref),
    ]
    for call in calls:
        with pytest.raises(NotFoundError):
            await call()


async def test_ruling_16_a_call_starts_at_the_backends_now(shape: Shape) -> None:
    """2.5, TM-3: while the clock has stepped back, the start is where the backend's time stands still."""
    world = await reached(shape, "start")
    world.clock.advance(MINUTE)
    await world.b.get(world.ref)
    latest = world.clock.now
    world.clock.now = T0
    with pytest.raises(ExpiredError):
        await world.b.hold(world.ref, HoldMeta(deadline=latest - SECOND, instance=1))
    await world.b.hold(world.ref, HoldMeta(deadline=latest, instance=1))
    assert (await world.b.get(world.ref)).observed_at == latest


async def test_ruling_17_the_detail_of_no_capacity_shows_with_its_cause_alone(shape: Shape) -> None:
    """2.7, TM-6: hidden behind a hold or an admin hold, back when they go, cleared by `run`."""
    world = await reached(shape, "start open no_capacity:full")
    details: list[tuple[Cause | None, str]] = []
    for words in ("", "hold:3", "admin_hold", "admin_release", "release:3", "run"):
        await world.given(words)
        seen = await shows(world)
        details.append((seen.cause, seen.detail))
    full = (Cause.NO_CAPACITY, "full")
    held, admin = (Cause.HELD, ""), (Cause.ADMIN_HELD, "")
    assert details == [full, held, admin, held, full, (None, "")]


async def test_ruling_17_another_base_cause_takes_the_detail_with_it() -> None:
    """TM-6: the last written base cause counts; a requeue's has no detail."""
    world = await reached(SLURM, "start open no_capacity:full run requeue")
    seen = await shows(world)
    assert (seen.cause, seen.detail) == (Cause.REQUEUED, "")


async def test_ruling_18_now_raises_the_floor_and_settles_nothing() -> None:
    """TM-3: what `b.now()` has seen does not come back; what is due waits for the next call."""
    world = await reached(SLURM, "start open run stop", kill_wait=KILL_WAIT)
    b, due = world.b, world.clock.now + KILL_WAIT

    async def look_at_the_clock() -> None:
        world.clock.now = due + MINUTE
        assert b.now() == due + MINUTE
        world.clock.now = due - SECOND
        assert b.now() == due + MINUTE

    assert await world.told_by(look_at_the_clock) == []
    observation = await b.get(world.ref)
    assert (observation.observed_at, observation.ended_at) == (due + MINUTE, due)


async def test_ruling_19_subscribing_is_a_call() -> None:
    """WA-1, TM-2: it settles what is due, tells the others, and observes at that moment."""
    world = await reached(SLURM, "start open run stop", kill_wait=KILL_WAIT)

    async def subscribe() -> None:
        world.clock.advance(2 * KILL_WAIT)
        async with world.b.watch() as watch:
            snapshot = await anext(watch)
        assert (snapshot.state, snapshot.observed_at) == (State.CANCELLED, world.clock.now)

    told = await world.told_by(subscribe)
    assert [(one["state"], one["observed_at"]) for one in told] == [(State.CANCELLED, world.clock.now)]


async def test_ruling_20_observed_at_of_an_answer_from_history() -> None:
    """SL-12: the moment of reading; all else is the last observation."""
    world = await reached(SLURM, "start open run finish:3", **HISTORY)
    last = await shows(world)
    for minutes in (5, 60):
        world.clock.advance(minutes * MINUTE)
        wanted = msgspec.structs.replace(last, observed_at=world.clock.now, from_history=True)
        assert await world.b.get(world.ref) == wanted
        assert await world.b.find(world.job.id) == (wanted,)
        assert await world.b.find_many([world.job.id]) == {world.job.id: (wanted,)}


async def test_ruling_21_accounting_on_kubeflow_remembers_nothing_deleted() -> None:
    """KF-3, SL-12: what was deleted stays not found."""
    world = await reached(KUBEFLOW, "start run finish:3 stop", **HISTORY)
    capabilities = await world.b.capabilities()
    assert capabilities.support[Capability.ACCOUNTING_HISTORY].value is Tristate.YES
    for ref in (world.ref, world.weak):
        with pytest.raises(NotFoundError):
            await world.b.get(ref)
    assert await world.b.find(world.job.id) == ()
    assert await world.b.find_many([world.job.id]) == {world.job.id: ()}


async def test_ruling_22_calls_on_a_closed_view_neither_settle_nor_are_recorded() -> None:
    """2.7, 1.2: ClosedError, and nothing else has happened."""
    world = await reached(SLURM, "start open run stop", kill_wait=KILL_WAIT)
    view = world.b.view()
    await view.get(world.ref)
    await view.aclose()
    recorded = await world.b.env.calls()

    async def call() -> None:
        world.clock.advance(2 * KILL_WAIT)
        with pytest.raises(ClosedError):
            await view.get(world.ref)
        with pytest.raises(ClosedError):
            await view.stop(world.ref)

    assert await world.told_by(call) == []
    clients = {record.view for record in recorded if record.call == "get"}
    assert len(clients) == 2  # the backend itself, and the view while it was open
    assert tuple(one for one in await world.b.env.calls() if one.call != "watch") == recorded


async def test_ruling_23_what_a_call_record_names() -> None:
    """2.7: `ref` as asked, weak or not; `job_id` for `start`, `find` and a job's cessation."""
    b = backend(SLURM, Clock())
    one = job(1)
    ref = await b.start(one, 1)
    weak = await b.weaken_identity(ref)
    stranger = Ref(name="nobody", id="77", submitted_at=None)
    await b.get(ref)
    await b.get(weak)
    with pytest.raises(NotFoundError):
        await b.get(stranger)
    await b.find(one.id)
    await b.find_many([one.id])
    await b.cessation(ref)
    await b.cessation(one.id)
    await b.stop(ref)
    records = [
        (record.call, record.ref, record.job_id) for record in await b.env.calls() if record.call != "weaken_identity"
    ]
    assert records == [
        ("start", None, one.id),
        ("get", ref, None),
        ("get", weak, None),
        ("get", stranger, None),
        ("find", None, one.id),
        ("find_many", None, None),
        ("cessation", ref, None),
        ("cessation", None, one.id),
        ("stop", ref, None),
    ]


async def test_ruling_23_view_is_a_stable_text() -> None:
    """2.7, TM-5: one text a client, another for another, the same in every run."""

    async def views() -> list[str]:
        b = backend(SLURM, Clock())
        first, second = b.view(), b.view(read_only=True)
        ref = await b.start(job(1), 1)
        for client in (b, first, second, b, first, second):
            await client.get(ref)
        return [record.view for record in await b.env.calls() if record.call == "get"]

    seen = await views()
    assert all(type(text) is str for text in seen)
    assert seen[:3] == seen[3:]
    assert len(set(seen)) == 3
    assert await views() == seen


LOST_REPLY = OutcomeUnknownError("the reply was lost")
BUSY = UnavailableError("busy")
OVERLOADED = UnavailableError("overloaded")


async def outcome(call: Callable[[], Awaitable[object]]) -> DispatchError | None:
    try:
        await call()
    except DispatchError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("injected", "expected"),
    [
        ([("none", BUSY), ("none", OVERLOADED)], [(BUSY, 0), (OVERLOADED, 0), (None, 1)]),
        ([("kept", LOST_REPLY), ("kept", BUSY)], [(LOST_REPLY, 1), (BUSY, 2), (None, 3)]),
        ([("none", BUSY), ("kept", LOST_REPLY)], [(BUSY, 0), (LOST_REPLY, 1), (None, 2)]),
    ],
    ids=["none none", "kept kept", "none kept"],
)
async def test_ruling_24_injections_act_in_the_order_of_registration(
    injected: list[tuple[Any, DispatchError]], expected: list[tuple[DispatchError | None, int]]
) -> None:
    """2.7: `none` before anything happened, `kept` after it did; one call uses up one."""
    world = World(SLURM)
    b = world.b
    for effect, error in injected:
        await b.env.fail_calls("start", error, effect=effect)
    for seen, objects in expected:
        assert await outcome(lambda: b.start(world.job, 1)) is seen
        assert len(await b.env.objects()) == objects


async def test_ruling_24_none_comes_before_the_checks_and_kept_after_them() -> None:
    """1.2, 2.7: `none` hides what the call would have said; a call that fails by itself uses up no `kept`."""
    world = await reached(SLURM, "start stop")
    b = world.b
    await b.env.fail_calls("open", BUSY)
    await b.env.fail_calls("open", LOST_REPLY, effect="kept")
    errors = [await outcome(lambda: b.open(world.ref)) for _ in range(2)]
    assert errors[0] is BUSY
    assert type(errors[1]) is FinishedError
    fresh = await b.start(job(2), 1)
    assert await outcome(lambda: b.open(fresh)) is LOST_REPLY
    assert (await b.get(fresh)).gated is False


async def test_ruling_25_open_takes_no_weak_ref(shape: Shape) -> None:
    """1.3: `open` is a write, also where the weak ref names nothing."""
    world = await reached(shape, "start")
    for ref in (world.weak, Ref(name="nobody", id="77", submitted_at=None)):
        with pytest.raises(InvalidError):
            await world.b.open(ref)
    assert (await shows(world)).gated is (shape is SLURM)


RESTART_YES = {"rules": {"restart": {"value": "yes"}}, "native": {"restart": {"value": "yes"}}}


def restart(*causes: Cause) -> Rule:
    return Rule(causes=frozenset(causes), action=Action.RESTART)


@pytest.mark.parametrize(
    ("rules", "covered"),
    [
        ((restart(Cause.PREEMPTED, Cause.NODE_LOST), restart(Cause.OUT_OF_MEMORY)), (0,)),
        ((restart(Cause.OUT_OF_MEMORY), restart(Cause.PREEMPTED, Cause.NODE_LOST)), (1,)),
        ((restart(Cause.PREEMPTED), restart(Cause.TIMEOUT), restart(Cause.NODE_LOST)), (0, 2)),
    ],
)
async def test_ruling_26_unlimited_restarts_for_other_causes_spoil_nothing(
    rules: tuple[Rule, ...], covered: tuple[int, ...]
) -> None:
    """NP-2: they stay with the supervisor, and the bit is still told."""
    b = backend(SLURM, Clock(), **RESTART_YES)
    native = await b.compile_policy(Policy(rules=rules, unmatched=UnmatchedPolicy.FAIL))
    assert native == NativePolicy(
        settings={"requeue": "1"},
        covered=covered,
        rest=Policy(
            rules=tuple(rule for number, rule in enumerate(rules) if number not in covered),
            unmatched=UnmatchedPolicy.FAIL,
        ),
    )


def native(**settings: str) -> NativePolicy:
    return NativePolicy(settings=settings, covered=(0,), rest=Policy())


async def test_ruling_27_native_settings_where_native_is_not_yes() -> None:
    """2.8: accepted on a cluster that did not offer to compile them."""
    slurm, kubeflow = backend(SLURM, Clock()), backend(KUBEFLOW, Clock())
    assert (await slurm.capabilities()).native[Action.RESTART].value is Tristate.NO
    ref = await slurm.start(job(1), 1, native=native(requeue="1"))
    assert (await slurm.get(ref)).requeue_bit is True
    ref = await kubeflow.start(job(1), 1, native=native(maxRestarts="1"))
    await kubeflow.env.run(ref)
    await kubeflow.env.finish(ref, 1)
    assert (await kubeflow.get(ref)).restarts == 1


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        (SLURM, {"requeue": "maybe"}),
        (SLURM, {"requeue": ""}),
        (SLURM, {"maxRestarts": "1"}),
        (SLURM, {"requeue": "1", "other": "1"}),
        (KUBEFLOW, {"maxRestarts": "many"}),
        (KUBEFLOW, {"maxRestarts": "-1"}),
        (KUBEFLOW, {"maxRestarts": ""}),
        (KUBEFLOW, {"requeue": "1"}),
    ],
)
async def test_ruling_27_malformed_native_settings(shape: Shape, settings: dict[str, str]) -> None:
    """1.3: settings or values it does not know are InvalidError, and no object is made."""
    b = backend(shape, Clock())
    with pytest.raises(InvalidError):
        await b.start(job(1), 1, native=native(**settings))
    assert await b.find(job(1).id) == ()


@pytest.mark.parametrize(
    ("words", "declared", "expected"),
    [
        ("start open", False, CEASED),
        ("start open", True, CEASED),
        ("start open run finish:0", True, CEASED),
        ("start open run", False, LIVING),
        ("start open run lose_node", False, LIVING),
        ("start open run lose_node", True, DECLARED),
        ("start open run lose_node fence_node", False, CEASED),
        ("start open run lose_node fence_node", True, CEASED),
        ("start open run lose_node return_node", True, CEASED),
    ],
)
async def test_ruling_28_the_detail_of_a_cessation(words: str, declared: bool, expected: Cessation) -> None:
    """1.3: empty when ceased by itself, else what was configured."""
    configured = Cessation(ceased=declared, detail=CONFIGURED)
    world = await reached(SLURM, words, cessation=configured)
    assert await world.b.cessation(world.ref) == expected
    assert await world.b.cessation(world.job.id) == expected


async def test_ruling_29_keep_history_never_drops_a_live_process() -> None:
    """2.7: bounded memory, but what a job's cessation hangs on is kept until it is dead."""
    b = Backend(Config(shape=KUBEFLOW), clock=Clock(), keep_history=1)
    env = b.env
    alive = await b.start(job(1), 1)
    await env.run(alive)
    await env.lose_node(alive)
    await b.stop(alive)
    for number in range(2, 6):
        ref = await b.start(job(number), 1)
        await env.run(ref)
        await b.stop(ref)
    kept = [truth.job.id for truth in await env.objects()]
    assert ulid(1) in kept
    assert len(kept) <= 2
    assert (await env.truth(alive)).executions[0].alive is True
    assert (await b.cessation(ulid(1))).ceased is False
    await env.fence_node(alive)
    assert (await b.cessation(ulid(1))).ceased is True


async def test_ruling_30_the_gones_come_first_then_the_snapshot() -> None:
    """WA-4: in the round after an overflow."""
    b = backend(KUBEFLOW, Clock(), watch_buffer=1)
    refs = [await b.start(job(number), 1) for number in (1, 2, 3)]
    async with resubscribing(b) as follow:
        first = [await anext(follow) for _ in refs]
        assert [(one.ref, one.state) for one in first] == [(ref, State.PENDING) for ref in refs]
        await b.env.run(refs[0])  # fits
        await b.env.finish(refs[0])  # overflows
        await b.stop(refs[1])
        await b.stop(refs[2])
        seen = [await anext(follow) for _ in range(4)]
    assert [(one.ref, one.state) for one in seen] == [
        (refs[0], State.RUNNING),
        (refs[1], State.GONE),
        (refs[2], State.GONE),
        (refs[0], State.SUCCEEDED),
    ]


async def test_ruling_31_after_a_kubeflow_stop_only_the_job_shows_that_its_run_lives_on() -> None:
    """KF-3, KF-10: the object's ref is not found; the job's cessation says what is still alive."""
    world = await reached(KUBEFLOW, "start run stop", kill_wait=KILL_WAIT)
    with pytest.raises(NotFoundError):
        await world.b.cessation(world.ref)
    assert (await world.b.cessation(world.job.id)).ceased is False
    world.clock.advance(KILL_WAIT)
    assert await world.b.cessation(world.job.id) == CEASED


async def test_ruling_31_a_late_stop_hits_the_fresh_run_of_the_same_second() -> None:
    """SL-7: a requeue within the very second of the submit leaves the exact ref matching."""
    clock = Clock(FIRST)
    b = backend(SLURM, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    clock.advance(0.125)
    await b.requeue(ref, CallMeta(deadline=FAR))
    await b.env.run(ref)
    await b.stop(ref)
    truth = await b.env.truth(ref)
    assert (truth.state, truth.restarts) == (State.CANCELLED, 1)
    assert [run.cause for run in truth.executions] == [Cause.REQUEUED, Cause.STOPPED]


REF = Ref(name="dj-1", id="1", submitted_at=T0)
VALUES: list[object] = [
    REF,
    Ref(name="dj-1", id="1", submitted_at=None),
    job(
        7,
        image="image",
        env={"A": "1"},
        resources=Resources(nodes=2, gpus_per_node=8),
        time_limit=MINUTE,
        extensions={"dispatch": {"a": "b"}},
    ),
    Observation(
        ref=REF,
        job_id=ulid(7),
        submission=1,
        state=State.FAILED,
        cause=Cause.OUT_OF_MEMORY,
        gated=False,
        hold=None,
        restarts=2,
        requeue_bit=True,
        exit_code=None,
        started_at=T0,
        ended_at=T0 + MINUTE,
        observed_at=datetime(2026, 3, 1, 13, tzinfo=UTC),
    ),
    CallMeta(deadline=T0),
    HoldMeta(deadline=T0, instance=2, by="me", until=FAR, reason="why"),
    ReleaseMeta(deadline=T0, instance=2),
    Cessation(ceased=True, detail="fenced"),
    Support(value=Tristate.YES, source=Source.PROBED, detail="seen"),
    Policy(
        rules=(
            Rule(causes=frozenset({Cause.PREEMPTED}), action=Action.RESTART, limit=3, backoff=MINUTE),
            Rule(causes=frozenset({Cause.TIMEOUT}), action=Action.HOLD),
        )
    ),
    NativePolicy(settings={"requeue": "1"}, covered=(0,), rest=Policy()),
]
values = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)


@values
def test_ruling_32_values_encode_and_decode(value: object) -> None:
    """1.1: with msgspec.json, read-only mappings and all."""
    text = msgspec.json.encode(value, enc_hook=enc_hook)
    again = msgspec.json.decode(text, type=type(value), dec_hook=dec_hook)
    assert again == value
    assert type(again) is type(value)


@values
def test_ruling_32_values_pickle(value: object) -> None:
    """1.1: and come back equal, and as read-only as they went."""
    again = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes
    assert again == value
    assert type(again) is type(value)
    with pytest.raises(AttributeError):
        again.anything = 1  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


async def test_ruling_32_capabilities_encode_and_pickle(shape: Shape) -> None:
    """1.1: what a cluster reports, with its maps."""
    value = await backend(shape, Clock()).capabilities()
    text = msgspec.json.encode(value, enc_hook=enc_hook)
    assert msgspec.json.decode(text, type=type(value), dec_hook=dec_hook) == value
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes


def test_ruling_32_ulids_are_text() -> None:
    """1.1: the usual 26 characters."""
    decoded = msgspec.json.decode(msgspec.json.encode(job(7), enc_hook=enc_hook))
    assert decoded["id"] == str(ulid(7))
