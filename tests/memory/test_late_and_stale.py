"""Replies that come late or stale (2.9, LT-1 to LT-4): calls that land late, reads, lists and history that lag."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import anyio
import pytest

from dispatch_memory_async import (
    AmbiguousError,
    Backend,
    CallMeta,
    Capability,
    Cause,
    ClosedError,
    Config,
    DispatchError,
    ExpiredError,
    HoldMeta,
    InvalidError,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    Shape,
    State,
    Support,
    Tristate,
    UnavailableError,
    crash_between_steps,
)
from dispatch_memory_async.memory.past import Past
from tests.support import FAR, MINUTE, SECOND, T0, Clock, backend, job

LOST = OutcomeUnknownError("timed out")
TEN = timedelta(seconds=10)
ACCOUNTING = {Capability.ACCOUNTING_HISTORY: Support(value=Tristate.YES)}


async def late(b: Backend, call: str, made: Coroutine[Any, Any, object], after: timedelta = TEN) -> None:
    """Make a call that lands later."""
    await b.env.fail_calls(call, LOST, effect="late", after=after)
    with pytest.raises(OutcomeUnknownError):
        await made


async def what_happened(b: Backend, call: str) -> list[tuple[type[DispatchError] | None, timedelta | None]]:
    """What the callers of that name saw, and how long after T0 their calls landed."""
    return [
        (type(record.outcome) if record.outcome else None, record.landed_at - T0 if record.landed_at else None)
        for record in await b.env.calls()
        if record.call == call
    ]


def past_of(b: Backend) -> Past | None:
    """What a backend keeps while reads lag."""
    return b._cluster.store.past  # pyright: ignore[reportPrivateUsage]


def looks(b: Backend, order: int) -> list[Observation | None]:
    """What is kept of the object that was started as that one."""
    past = past_of(b)
    assert past is not None
    return [seen for _, seen in past.of(order)]


# LT-1: late landing


async def test_a_late_start_makes_its_object_in_its_moment(shape: Shape, clock: Clock) -> None:
    """LT-1: nobody sees it before; its submit time is that of its landing; `calls` tells when it landed."""
    b = backend(shape, clock)
    await late(b, "start", b.start(job(1), 1))
    clock.advance(9)
    assert await b.find(job(1).id) == ()
    assert await b.env.objects() == ()
    clock.advance(1)
    (found,) = await b.find(job(1).id)
    assert found.ref.submitted_at == T0 + TEN
    assert found.state is State.PENDING
    assert await what_happened(b, "start") == [(OutcomeUnknownError, TEN)]


async def test_a_late_start_that_is_looked_at_later_still_has_its_own_submit_time(shape: Shape, clock: Clock) -> None:
    """LT-1: that of its landing, not of the call that settled it."""
    b = backend(shape, clock)
    await late(b, "start", b.start(job(1), 1))
    clock.advance(MINUTE)
    (found,) = await b.find(job(1).id)
    assert (found.ref.submitted_at, found.observed_at) == (T0 + TEN, T0 + MINUTE)


async def test_a_late_start_takes_its_id_when_it_lands(clock: Clock) -> None:
    """LT-1: one that was made later and lands first has the lower id."""
    b = backend(Shape.SLURM, clock)
    await late(b, "start", b.start(job(1), 1))
    clock.advance(5)
    assert (await b.start(job(2), 1)).id == "1"
    clock.advance(5)
    assert [one.ref.id for one in await b.find(job(1).id)] == ["2"]


async def test_a_late_call_is_settled_with_its_own_moment(shape: Shape, clock: Clock) -> None:
    """LT-1, TM-2: looked at a minute later, it is what it was in its moment, and told with `observed_at` now."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await late(b, "stop", b.stop(ref))
    async with b.watch() as watch:
        await anext(watch)
        clock.advance(MINUTE)
        truth = await b.env.truth(ref)
        told = await anext(watch)
    assert truth.executions[0].ended_at == T0 + TEN
    assert told.observed_at == T0 + MINUTE
    if shape is Shape.SLURM:
        assert (told.state, told.cause, told.ended_at) == (State.CANCELLED, Cause.STOPPED, T0 + TEN)
    else:
        assert (told.state, truth.gone_at) == (State.GONE, T0 + TEN)
    assert await what_happened(b, "stop") == [(OutcomeUnknownError, TEN)]


async def test_a_late_call_acts_in_the_state_of_its_moment(shape: Shape, clock: Clock) -> None:
    """LT-1: a stop of what was pending kills what has begun to run meanwhile."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await late(b, "stop", b.stop(ref))
    clock.advance(5)
    await b.env.run(ref)
    clock.advance(5)
    (run,) = (await b.env.truth(ref)).executions
    assert (run.started_at, run.ended_at, run.cause) == (T0 + 5 * SECOND, T0 + TEN, Cause.STOPPED)


async def test_a_late_call_that_would_be_refused_then_is(shape: Shape, clock: Clock) -> None:
    """LT-1: it changes nothing, nobody is told, and it has not landed."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await late(b, "hold", b.hold(ref, HoldMeta(deadline=FAR, instance=3)))
    await b.env.finish(ref)
    async with b.watch() as watch:
        before = await anext(watch)
        clock.advance(TEN)
        after = await b.get(ref)
        assert (before.state, before.hold) == (after.state, after.hold) == (State.SUCCEEDED, None)
        await b.aclose()
        assert [one async for one in watch] == []


async def test_what_was_refused_in_its_moment_has_not_landed(shape: Shape, clock: Clock) -> None:
    """LT-1: `calls` tells so."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await late(b, "hold", b.hold(ref, HoldMeta(deadline=FAR, instance=3)))
    await b.env.finish(ref)
    clock.advance(TEN)
    assert await what_happened(b, "hold") == [(OutcomeUnknownError, None)]


async def test_what_changes_nothing_has_not_landed(shape: Shape, clock: Clock) -> None:
    """LT-1, 2.7: an open of what is open, a read."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await late(b, "open", b.open(ref))
    await late(b, "get", b.get(ref))
    clock.advance(TEN)
    assert await what_happened(b, "open") == [
        (None, None if shape is Shape.KUBEFLOW else timedelta(0)),
        (OutcomeUnknownError, None),
    ]
    assert await what_happened(b, "get") == [(OutcomeUnknownError, None)]


async def test_the_deadline_is_that_of_the_start_of_the_call(shape: Shape, clock: Clock) -> None:
    """LT-1, 2.5: a call that started in time lands after its deadline, by no more than `call_bound`."""
    b = backend(shape, clock, call_bound=TEN)
    await late(b, "start", b.start(job(1), 1, deadline=T0))
    clock.advance(TEN)
    assert len(await b.find(job(1).id)) == 1


@pytest.mark.parametrize(
    ("effect", "after"),
    [
        ("late", None),
        ("late", timedelta(0)),
        ("late", -SECOND),
        ("late", TEN + timedelta(microseconds=1)),
        ("late", 5),
        ("late", "5s"),
        ("none", SECOND),
        ("kept", SECOND),
    ],
)
async def test_after_lies_within_the_bound(shape: Shape, clock: Clock, effect: Any, after: Any) -> None:
    """LT-1: above 0, at most `call_bound`; only a late one has it."""
    b = backend(shape, clock, call_bound=TEN)
    with pytest.raises(InvalidError, match=r"^after: found "):
        await b.env.fail_calls("start", LOST, effect=effect, after=after)
    await b.start(job(1), 1)


async def test_the_bound_itself_is_taken(shape: Shape, clock: Clock) -> None:
    """LT-1."""
    b = backend(shape, clock, call_bound=TEN)
    await late(b, "start", b.start(job(1), 1), after=TEN)
    clock.advance(TEN)
    assert len(await b.find(job(1).id)) == 1


@pytest.mark.parametrize("call", ["none", "bad", "read-only", "expired"])
async def test_what_is_refused_before_it_acts_does_not_use_it_up(shape: Shape, clock: Clock, call: str) -> None:
    """LT-1, ruling 24: `late` comes after the checks."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.env.fail_calls("stop", LOST, effect="late", after=TEN)
    if call == "none":
        await b.env.fail_calls("stop", UnavailableError("down"))
        with pytest.raises(UnavailableError):
            await b.stop(ref)
    elif call == "bad":
        with pytest.raises(InvalidError):
            await b.stop(Ref(name=ref.name, id=ref.id, submitted_at=None))
    elif call == "read-only":
        with pytest.raises(ReadOnlyError):
            await b.view(read_only=True).stop(ref)
    else:
        with pytest.raises(ExpiredError):
            await b.stop(ref, deadline=T0 - SECOND)
    with pytest.raises(OutcomeUnknownError):
        await b.stop(ref)


@pytest.mark.parametrize("first", ["kept", "late"])
async def test_of_a_kept_and_a_late_one_the_first_strikes_first(shape: Shape, clock: Clock, first: str) -> None:
    """Ruling 24: in the order in which they were registered."""
    b = backend(shape, clock)
    faults: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
        "kept": lambda: b.env.fail_calls("start", UnavailableError("kept"), effect="kept", when=lambda _: True),
        "late": lambda: b.env.fail_calls("start", LOST, effect="late", after=TEN),
    }
    for name in (first, *(name for name in faults if name != first)):
        await faults[name]()
    errors: list[type[DispatchError]] = []
    for submission in (1, 2, 3):
        try:
            await b.start(job(1), submission)
        except DispatchError as error:
            errors.append(type(error))
    assert errors == (
        [UnavailableError, OutcomeUnknownError] if first == "kept" else [OutcomeUnknownError, UnavailableError]
    )
    clock.advance(TEN)
    landed = [one.submission for one in await b.find(job(1).id)]
    assert landed == ([1, 3, 2] if first == "kept" else [2, 3, 1])


async def test_times_and_when_hold_for_late_ones_too(shape: Shape, clock: Clock) -> None:
    """LT-1, 2.7: `when` is asked before anything is done."""
    b = backend(shape, clock)
    other = b.view()
    await b.env.fail_calls(
        "start",
        LOST,
        effect="late",
        after=TEN,
        times=2,
        when=lambda record: record.view != "backend" and not record.landed_at,
    )
    await b.start(job(1), 1)
    for submission in (2, 3):
        with pytest.raises(OutcomeUnknownError):
            await other.start(job(1), submission)
    await other.start(job(1), 4)
    clock.advance(TEN)
    assert [one.submission for one in await b.find(job(1).id)] == [1, 4, 2, 3]


async def test_a_when_that_raises_leaves_nothing_behind(shape: Shape, clock: Clock) -> None:
    """LT-1, 1.2: the call is refused, and neither lands nor uses the fault up."""
    b = backend(shape, clock)
    calls: list[int] = []

    def when(_: object) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("broken")
        return True

    await b.env.fail_calls("start", LOST, effect="late", after=TEN, when=when)
    with pytest.raises(InvalidError, match="when"):
        await b.start(job(1), 1)
    with pytest.raises(OutcomeUnknownError):
        await b.start(job(1), 2)
    clock.advance(TEN)
    assert [one.submission for one in await b.find(job(1).id)] == [2]


async def test_a_client_that_closes_does_not_call_back_what_it_sent(shape: Shape, clock: Clock) -> None:
    """LT-1: a command that is under way lands, whatever becomes of who sent it; a closed backend stands still."""
    b = backend(shape, clock)
    other = b.view()
    await late(b, "start", other.start(job(1), 1))
    await other.aclose()
    clock.advance(TEN)
    assert len(await b.find(job(1).id)) == 1


async def test_a_cancelled_call_does_not_land_late(shape: Shape, clock: Clock) -> None:
    """LT-1, TM-1: who sees `Cancelled` knows that nothing was done, and the fault waits for the next."""
    b = backend(shape, clock)
    await b.env.fail_calls("start", LOST, effect="late", after=TEN)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.start(job(1), 1)
    clock.advance(TEN)
    assert await b.find(job(1).id) == ()
    with pytest.raises(OutcomeUnknownError):
        await b.start(job(1), 1)


async def test_a_crash_between_steps_lands_late_as_well(clock: Clock) -> None:
    """LT-1, SL-8: the first step of a requeue, and no more, in its moment."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    with crash_between_steps():
        await late(b, "requeue", b.requeue(ref, CallMeta(FAR)))
    assert not (await b.get(ref)).requeue_bit
    clock.advance(TEN)
    assert (await b.get(ref)).requeue_bit
    assert await what_happened(b, "requeue") == [(OutcomeUnknownError, TEN)]


async def test_a_late_requeue_moves_the_submit_time_to_its_moment(clock: Clock) -> None:
    """LT-1, SL-7."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await late(b, "requeue", b.requeue(ref, CallMeta(FAR)))
    clock.advance(MINUTE)
    (found,) = await b.find(job(1).id)
    assert (found.state, found.cause, found.ref.submitted_at) == (State.PENDING, Cause.REQUEUED, T0 + TEN)


async def test_every_write_can_land_late(clock: Clock) -> None:
    """LT-1: each of the calls that change something, in its moment and not before."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    at = 0

    async def lands(call: str, made: Coroutine[Any, Any, object], **fields: object) -> None:
        nonlocal at
        before = await b.get(ref)
        await late(b, call, made)
        clock.advance(9.5)
        unchanged = await b.get(ref)
        assert {name: getattr(unchanged, name) for name in fields} == {name: getattr(before, name) for name in fields}
        clock.advance(0.5)
        after = await b.get(ref)
        assert {name: getattr(after, name) for name in fields} == fields
        at += 10
        assert (await what_happened(b, call))[-1] == (OutcomeUnknownError, at * SECOND)

    await lands("hold", b.hold(ref, HoldMeta(deadline=FAR, instance=2)), hold=2)
    await lands("release", b.release(ref, ReleaseMeta(deadline=FAR, instance=2)), hold=None)
    await lands("open", b.open(ref), gated=False)
    with crash_between_steps(), suppress(DispatchError):
        await b.requeue(ref, CallMeta(FAR))
    await lands("restore_requeue_bit", b.restore_requeue_bit(ref, CallMeta(FAR)), requeue_bit=False)
    await lands("stop", b.stop(ref), state=State.CANCELLED)


# LT-1 and TM-2: what else is due in that moment


async def test_late_starts_of_one_moment_land_in_the_order_in_which_they_were_made(shape: Shape, clock: Clock) -> None:
    """TM-2: starts, of which neither has a place in the order yet."""
    b = backend(shape, clock)
    await late(b, "start", b.start(job(1), 2), after=TEN)
    clock.advance(5)
    await late(b, "start", b.start(job(1), 1), after=5 * SECOND)
    clock.advance(5)
    assert [one.submission for one in await b.find(job(1).id)] == [2, 1]


async def test_late_calls_of_one_moment_land_in_the_order_of_start(shape: Shape, clock: Clock) -> None:
    """TM-2: the elder object's first, though its call was made second."""
    b = backend(shape, clock)
    first, second = await b.start(job(1), 1), await b.start(job(2), 1)
    await late(b, "hold", b.hold(second, HoldMeta(deadline=FAR, instance=1)))
    await late(b, "hold", b.hold(first, HoldMeta(deadline=FAR, instance=1)))
    async with b.watch() as watch:
        for _ in range(2):
            await anext(watch)
        clock.advance(TEN)
        await b.capabilities()
        assert [(await anext(watch)).ref for _ in range(2)] == [first, second]


async def test_a_late_stop_and_a_nodes_time_out_in_one_moment(clock: Clock) -> None:
    """TM-2, SL-11: of one object, in the order in which they came to be due: the time-out was first."""
    b = backend(Shape.SLURM, clock, slurmd_timeout=TEN)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await b.env.lose_node(ref)
    await late(b, "stop", b.stop(ref))
    clock.advance(TEN)
    found = await b.get(ref)
    assert (found.state, found.cause) == (State.FAILED, Cause.NODE_LOST)
    assert await what_happened(b, "stop") == [(OutcomeUnknownError, None)]


async def test_a_late_stop_is_before_a_nodes_time_out_of_one_moment_if_it_came_first(clock: Clock) -> None:
    """TM-2, SL-11."""
    b = backend(Shape.SLURM, clock, slurmd_timeout=TEN)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await late(b, "stop", b.stop(ref))
    await b.env.lose_node(ref)
    clock.advance(TEN)
    found = await b.get(ref)
    assert (found.state, found.cause) == (State.CANCELLED, Cause.STOPPED)


async def test_a_late_start_in_the_moment_of_a_purge_takes_the_id_that_came_free(clock: Clock) -> None:
    """TM-2, SL-2, SL-12: what is there comes before what is not there yet, so that the only id is free."""
    b = backend(Shape.SLURM, clock, max_job_id=1, min_job_age=TEN)
    await b.env.fail_calls("start", LOST, effect="late", after=TEN, when=lambda record: record.job_id == job(2).id)
    with pytest.raises(OutcomeUnknownError):
        await b.start(job(2), 1)
    ref = await b.start(job(1), 1)
    await b.stop(ref)
    clock.advance(TEN)
    (found,) = await b.find(job(2).id)
    assert found.ref.id == "1"


async def test_a_late_start_for_which_there_is_no_id_is_refused(clock: Clock) -> None:
    """LT-1, SL-2: in its moment, and it uses up none."""
    b = backend(Shape.SLURM, clock, max_job_id=1)
    await late(b, "start", b.start(job(2), 1))
    await b.start(job(1), 1)
    clock.advance(TEN)
    assert await b.find(job(2).id) == ()
    assert (await what_happened(b, "start"))[0] == (OutcomeUnknownError, None)


async def test_a_late_start_under_a_name_in_use_is_refused(clock: Clock) -> None:
    """LT-1, KF-1: the client that looked and submitted again was quicker; on Slurm both run."""
    for shape, objects in ((Shape.KUBEFLOW, 1), (Shape.SLURM, 2)):
        b = backend(shape, clock)
        await late(b, "start", b.start(job(1), 1))
        assert await b.find(job(1).id) == ()
        await b.start(job(1), 1)
        clock.advance(TEN)
        assert len(await b.find(job(1).id)) == objects


# LT-2: reads that lag


async def test_reads_answer_the_state_as_it_stood(shape: Shape, clock: Clock) -> None:
    """LT-2: `get`, `find` and `find_many`, and `observed_at` says of which moment."""
    b = backend(shape, clock)
    await b.env.lag_reads(TEN)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    clock.advance(5)
    await b.env.run(ref)
    for seconds, state in ((10, State.PENDING), (14, State.PENDING), (15, State.RUNNING), (99, State.RUNNING)):
        clock.now = T0 + seconds * SECOND
        found = await b.get(ref)
        assert (found.state, found.observed_at) == (state, clock.now - TEN)
        assert await b.find(job(1).id) == (found,)
        assert await b.find_many([job(1).id]) == {job(1).id: (found,)}


async def test_an_object_started_since_is_not_found(shape: Shape, clock: Clock) -> None:
    """LT-2: by `get`, and left out of lists, until so much time has passed."""
    b = backend(shape, clock)
    await b.env.lag_reads(TEN)
    clock.advance(0.25)
    ref = await b.start(job(1), 1)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            await b.get(ref)
        assert await b.find(job(1).id) == ()
        assert await b.find_many([job(1).id]) == {job(1).id: ()}
        clock.advance(9.999)
        await b.open(ref)
    clock.now = T0 + 10.25 * SECOND
    assert (await b.get(ref)).gated is (shape is Shape.SLURM)


async def test_an_object_that_has_left_since_is_still_seen(shape: Shape, clock: Clock) -> None:
    """LT-2: forgotten or deleted, it is there for as long as reads lag behind that."""
    b = backend(shape, clock, min_job_age=TEN)
    await b.env.lag_reads(MINUTE)
    ref = await b.start(job(1), 1)
    clock.advance(MINUTE)
    await b.stop(ref)
    if shape is Shape.SLURM:
        clock.advance(TEN)
    gone = clock.now
    clock.now = gone + MINUTE - SECOND
    assert (await b.get(ref)).ref == ref
    assert len(await b.find(job(1).id)) == 1
    clock.now = gone + MINUTE
    with pytest.raises(NotFoundError):
        await b.get(ref)
    assert await b.find(job(1).id) == ()


async def test_the_ref_is_matched_as_it_was(clock: Clock) -> None:
    """LT-2, SL-7: after a requeue the old exact ref is found for so long, and the new one only then."""
    b = backend(Shape.SLURM, clock)
    await b.env.lag_reads(TEN)
    old = await b.start(job(1), 1)
    await b.open(old)
    clock.advance(MINUTE)
    await b.env.run(old)
    await b.requeue(old, CallMeta(FAR))
    new = Ref(name=old.name, id=old.id, submitted_at=clock.now)
    weak = Ref(name=old.name, id=old.id, submitted_at=None)
    assert (await b.get(old)).ref == (await b.get(weak)).ref == old
    with pytest.raises(NotFoundError):
        await b.get(new)
    clock.advance(TEN)
    assert (await b.get(new)).ref == (await b.get(weak)).ref == new
    with pytest.raises(NotFoundError):
        await b.get(old)


async def test_what_came_due_is_seen_from_its_moment_on(clock: Clock) -> None:
    """LT-2, TM-2: settled a minute later, a purge was ten seconds after the end."""
    b = backend(Shape.SLURM, clock, min_job_age=TEN)
    await b.env.lag_reads(MINUTE)
    ref = await b.start(job(1), 1)
    await b.stop(ref)
    clock.now = T0 + MINUTE + 9 * SECOND
    assert (await b.get(ref)).state is State.CANCELLED
    clock.advance(1)
    with pytest.raises(NotFoundError):
        await b.get(ref)


async def test_writes_watches_cessation_and_the_environment_see_what_is(shape: Shape, clock: Clock) -> None:
    """LT-2."""
    b = backend(shape, clock)
    await b.env.lag_reads(MINUTE)
    ref = await b.start(job(1), 1)
    async with b.watch() as watch:
        assert (await anext(watch)).observed_at == T0
        await b.open(ref)
        run = await b.env.run(ref)
        assert not (await b.cessation(ref)).ceased
        assert (await b.env.truth(ref)).executions == (run,)
        await b.stop(ref)
        assert (await b.cessation(job(1).id)).ceased


async def test_one_client_lags(shape: Shape, clock: Clock) -> None:
    """LT-2: the client that was named, and no other; 0 ends it; for all is for all."""
    b = backend(shape, clock)
    stale, other = b.view(), b.view()
    await b.env.lag_reads(TEN, view=stale)
    ref = await b.start(job(1), 1)

    async def who_sees() -> list[str]:
        return [client.name for client in (b, stale, other) if await client.find(job(1).id)]

    assert await who_sees() == ["backend", other.name]
    await b.env.lag_reads(TEN, view=b)
    assert await who_sees() == [other.name]
    await b.env.lag_reads(timedelta(0), view=stale)
    assert await who_sees() == [stale.name, other.name]
    await b.env.lag_reads(TEN)
    assert await who_sees() == []
    await b.env.lag_reads(timedelta(0), view=other)
    assert await who_sees() == [other.name]
    await b.env.lag_reads(timedelta(0))
    assert await who_sees() == ["backend", stale.name, other.name]
    assert (await stale.get(ref)).observed_at == T0


async def test_a_read_only_client_lags_too(shape: Shape, clock: Clock) -> None:
    """LT-2: and who closes lags no more."""
    b = backend(shape, clock)
    reader = b.view(read_only=True)
    await b.env.lag_reads(TEN, view=reader)
    await b.start(job(1), 1)
    assert await reader.find(job(1).id) == ()
    await reader.aclose()
    with pytest.raises(ClosedError):
        await reader.find(job(1).id)
    assert len(await b.find(job(1).id)) == 1


async def test_two_lags_at_once(shape: Shape, clock: Clock) -> None:
    """LT-2: as much is kept as the larger one needs, also when it is set second."""
    b = backend(shape, clock)
    near, far = b.view(), b.view()
    await b.env.lag_reads(TEN, view=near)
    await b.env.lag_reads(MINUTE, view=far)
    ref = await b.start(job(1), 1)
    for instance in range(1, 7):
        clock.advance(TEN)
        await b.hold(ref, HoldMeta(deadline=FAR, instance=instance))
    assert (await b.get(ref)).hold == 6
    assert (await near.get(ref)).hold == 5
    assert (await far.get(ref)).hold is None
    await b.env.lag_reads(30 * SECOND, view=far)
    assert (await far.get(ref)).hold == 3


async def test_what_changed_before_reads_lagged_is_as_it_is_known(shape: Shape, clock: Clock) -> None:
    """LT-2: nothing is kept while none lags. One that has not changed stood so; one submitted since is not found."""
    b = backend(shape, clock)
    old = await b.start(job(1), 1)
    clock.advance(MINUTE)
    changed = await b.start(job(2), 1)
    clock.advance(MINUTE)
    await b.hold(changed, HoldMeta(deadline=FAR, instance=1))
    clock.advance(MINUTE)
    new = await b.start(job(3), 1)
    await b.env.lag_reads(90 * SECOND)
    found = await b.get(old)
    assert (found.ref, found.observed_at) == (old, T0 + 90 * SECOND)
    found = await b.get(changed)
    assert (found.hold, found.observed_at) == (1, T0 + 90 * SECOND)  # what it was before is not known any more
    with pytest.raises(NotFoundError):
        await b.get(new)
    await b.hold(changed, HoldMeta(deadline=FAR, instance=2))
    assert (await b.get(changed)).hold == 1
    clock.advance(90)
    assert (await b.get(changed)).hold == 2


async def test_what_was_requeued_before_reads_lagged_had_been_there(clock: Clock) -> None:
    """LT-2, SL-7: its submit time has moved, but it ran before."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    clock.advance(600)
    await b.requeue(ref, CallMeta(FAR))
    clock.advance(5)
    await b.env.lag_reads(MINUTE)
    (found,) = await b.find(job(1).id)
    assert (found.ref.submitted_at, found.observed_at) == (T0 + 600 * SECOND, T0 + 545 * SECOND)
    await b.env.lag_reads(timedelta(seconds=606))
    assert await b.find(job(1).id) == ()


async def test_a_requeue_changes_nothing_of_the_past(clock: Clock) -> None:
    """LT-2, SL-7: what was seen of a moment is seen of it again, by the submit time that it had."""
    b = backend(Shape.SLURM, clock)
    ref = await b.start(job(1), 1)
    clock.advance(20)
    await b.stop(ref)
    await b.env.lag_reads(20 * SECOND)
    before = await b.find(job(1).id)
    assert [(seen.ref, seen.observed_at) for seen in before] == [(ref, T0)]
    await b.requeue(ref, CallMeta(FAR))
    assert await b.find(job(1).id) == before


async def test_a_late_read_does_nothing_later(shape: Shape, clock: Clock) -> None:
    """LT-1, LT-3: nobody is there to read it, and no list is left out for it."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.env.omit(ref)
    await late(b, "find", b.find(job(1).id))
    clock.advance(TEN)
    assert [len(await b.find(job(1).id)) for _ in range(2)] == [0, 1]


async def test_no_more_is_kept_than_the_largest_lag_needs(shape: Shape, clock: Clock) -> None:
    """2.9, cost: the observations younger than it, and the last before; nothing once no read lags."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    assert past_of(b) is None
    await b.env.lag_reads(TEN)
    for instance in range(1, 100):
        clock.advance(1)
        await b.hold(ref, HoldMeta(deadline=FAR, instance=instance))
        assert len(looks(b, 0)) <= 11
    clock.advance(TEN)
    await b.capabilities()
    assert [seen and seen.hold for seen in looks(b, 0)] == [99]
    await b.env.lag_reads(timedelta(0))
    assert past_of(b) is None


async def test_what_is_dropped_from_history_is_kept_no_longer(shape: Shape, clock: Clock) -> None:
    """2.9, cost, 2.7: `keep_history` bounds what is known of gone objects, also while reads lag."""
    b = Backend(Config(shape=shape, min_job_age=SECOND), clock=clock, keep_history=1)
    await b.env.lag_reads(MINUTE)
    for number in range(1, 6):
        await b.stop(await b.start(job(number), 1))
        clock.advance(1)
    await b.capabilities()
    assert [bool(looks(b, order)) for order in range(5)] == [False] * 4 + [True]


@pytest.mark.parametrize("by", [None, 5, -SECOND, "5s", True])
async def test_a_lag_is_a_length_of_time(shape: Shape, clock: Clock, by: Any) -> None:
    """LT-2, 1.2."""
    b = backend(shape, clock)
    with pytest.raises(InvalidError):
        await b.env.lag_reads(by)


async def test_a_view_of_another_backend_is_refused(shape: Shape, clock: Clock) -> None:
    """LT-2, 1.2."""
    b, stranger = backend(shape, clock), backend(shape, clock)
    for view in (stranger, stranger.view(), "view 1", b.env):
        with pytest.raises(InvalidError, match=r"^view: found .*, expected a view of this backend"):
            await b.env.lag_reads(TEN, view=view)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_a_lag_beyond_the_beginning_of_time(shape: Shape, clock: Clock) -> None:
    """LT-2: then there was nothing."""
    b = backend(shape, clock)
    await b.env.lag_reads(timedelta(days=99_999))
    ref = await b.start(job(1), 1)
    with pytest.raises(NotFoundError):
        await b.get(ref)


# LT-3: lists that leave out


async def test_the_next_lists_leave_an_object_out(shape: Shape, clock: Clock) -> None:
    """LT-3: `times` answers of `find` and `find_many` together, of any client, and no error; `get` finds it."""
    b = backend(shape, clock)
    first, second = await b.start(job(1), 1), await b.start(job(1), 2)
    await b.env.omit(first, times=2)
    assert [one.ref for one in await b.find(job(1).id)] == [second]
    assert (await b.get(first)).ref == first
    found = await b.view().find_many([job(1).id, job(1).id])
    assert [one.ref for one in found[job(1).id]] == [second]
    assert [one.ref for one in await b.find(job(1).id)] == [first, second]


async def test_lists_that_would_not_hold_it_do_not_count(shape: Shape, clock: Clock) -> None:
    """LT-3: of another job; of a client whose reads lag; a look that was refused or cancelled."""
    b = backend(shape, clock)
    stale = b.view()
    await b.env.lag_reads(TEN, view=stale)
    ref = await b.start(job(1), 1)
    await b.env.omit(ref)
    await b.find(job(2).id)
    await stale.find(job(1).id)
    await b.env.fail_calls("find", UnavailableError("down"))
    with pytest.raises(UnavailableError):
        await b.find(job(1).id)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.find(job(1).id)
    assert await b.find(job(1).id) == ()
    assert len(await b.find(job(1).id)) == 1


async def test_omitting_it_again_adds_up(shape: Shape, clock: Clock) -> None:
    """LT-3."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.env.omit(ref)
    await b.env.omit(ref, times=2)
    assert [len(await b.find(job(1).id)) for _ in range(4)] == [0, 0, 0, 1]


async def test_a_list_of_the_past_leaves_out_as_well(shape: Shape, clock: Clock) -> None:
    """LT-2 with LT-3."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    await b.env.lag_reads(TEN)
    clock.advance(MINUTE)
    await b.env.omit(ref)
    assert [len(await b.find(job(1).id)) for _ in range(2)] == [0, 1]


async def test_what_is_listed_from_history_can_be_left_out(clock: Clock) -> None:
    """LT-3 with SL-12."""
    b = backend(Shape.SLURM, clock, capabilities=ACCOUNTING, min_job_age=SECOND)
    ref = await b.start(job(1), 1)
    await b.stop(ref)
    clock.advance(MINUTE)
    await b.env.omit(ref)
    assert [len(await b.find(job(1).id)) for _ in range(2)] == [0, 1]


async def test_only_an_object_can_be_left_out(shape: Shape, clock: Clock) -> None:
    """LT-3, 1.2."""
    b = backend(shape, clock)
    ref = await b.start(job(1), 1)
    for times in (0, -1, True, None, "1"):
        with pytest.raises(InvalidError, match=r"^times: found "):
            await b.env.omit(ref, times=times)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(NotFoundError):
        await b.env.omit(Ref(name="no", id="99", submitted_at=T0))
    assert len(await b.find(job(1).id)) == 1


# LT-4: history that lags


async def forgotten(clock: Clock, **settings: object) -> tuple[Backend, Ref]:
    """A Slurm with history that lags half a minute, and an object that it forgot just now."""
    b = backend(Shape.SLURM, clock, capabilities=ACCOUNTING, min_job_age=SECOND, accounting_lag=30 * SECOND, **settings)
    ref = await b.start(job(1), 1)
    await b.stop(ref)
    assert (await b.get(ref)).from_history is False
    clock.advance(1)
    return b, ref


async def test_history_knows_an_object_only_later(clock: Clock) -> None:
    """LT-4: between its being forgotten and that it is nowhere, by its exact ref, by its weak ref and in lists."""
    b, ref = await forgotten(clock)
    weak = await b.weaken_identity(ref)
    for _ in range(2):
        for named in (ref, weak):
            with pytest.raises(NotFoundError):
                await b.get(named)
        assert await b.find(job(1).id) == ()
        clock.advance(29)
    clock.now = T0 + 31 * SECOND
    for named in (ref, weak):
        assert (await b.get(named)).from_history
    assert len(await b.find(job(1).id)) == 1


async def test_one_that_history_does_not_know_yet_makes_nothing_ambiguous(clock: Clock) -> None:
    """LT-4, SL-2: a weak ref is ambiguous only once both are known."""
    b, ref = await forgotten(clock, max_job_id=1)
    new = await b.start(job(1), 1)
    weak = await b.weaken_identity(ref)
    assert (await b.get(weak)).ref == new
    clock.advance(30)
    with pytest.raises(AmbiguousError):
        await b.get(weak)


async def test_reads_that_lag_see_history_as_it_stood(clock: Clock) -> None:
    """LT-2 with LT-4: present, then nowhere, then in history, each ten seconds later than it was so."""
    b, ref = await forgotten(clock)
    stale = b.view()
    await b.env.lag_reads(TEN, view=stale)
    seen_at: dict[int, str] = {}
    for second in range(1, 60):
        clock.now = T0 + second * SECOND
        try:
            found = await stale.get(ref)
            seen_at[second] = "history" if found.from_history else "present"
        except NotFoundError:
            seen_at[second] = "nowhere"
    assert [seen_at[second] for second in (9, 10)] == ["nowhere", "present"]  # it was started ten seconds before
    assert [seen_at[second] for second in (11, 40)] == ["nowhere", "nowhere"]
    assert [seen_at[second] for second in (41, 59)] == ["history", "history"]


async def test_without_history_its_lag_means_nothing(shape: Shape, clock: Clock) -> None:
    """LT-4: nor on Kubeflow."""
    b = backend(shape, clock, min_job_age=SECOND, accounting_lag=30 * SECOND)
    ref = await b.start(job(1), 1)
    await b.stop(ref)
    clock.advance(MINUTE)
    with pytest.raises(NotFoundError):
        await b.get(ref)
