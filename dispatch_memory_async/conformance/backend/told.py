"""Told: what a watch tells of every change, once and not before it is so, and of what it says nothing."""

import copy

import anyio

from ...model import (
    Capability,
    Cause,
    CrashedError,
    ExpiredError,
    NotFoundError,
    Ref,
    StaleError,
    State,
)
from ...model.base import altered
from ...spi import Holder, Requeuer, Watcher
from ..bed import Bed
from ..checks import Check, check
from ..findings import CheckSkipped
from ..harness import Fault, NodeLoss, Preemption, Stop
from ..showing import apart, timeless
from ..watching import Follower, following, nothing_more, tells_every_change, watching

__all__ = ("CHECKS",)

WATCH = (Watcher, Capability.WATCH)
HOLD = (Holder, Capability.HOLD)
REQUEUE = (Requeuer, Capability.REQUEUE)
TASKS, LIVES = 2, 5
"""How many tasks make changes at once, and how many objects each of them starts, opens and stops."""


@check(
    "watch.start-is-told",
    "A start is told once, and not before it is so.",
    rules="WA-2",
    needs=WATCH,
)
async def start_is_told(bed: Bed) -> None:
    async with following(bed) as follower:
        job = bed.job()
        ref = await bed.started(job, 7)
        await follower.once(ref, "its start", job_id=job.id, submission=7, state=State.PENDING)


@check(
    "watch.open-is-told",
    "The opening of a gate is told once, and not before it is so.",
    rules="WA-2 SL-3",
    needs=(*WATCH, Capability.GATED_START),
)
async def open_is_told(bed: Bed) -> None:
    ref = await bed.started()
    async with following(bed) as follower:
        await bed.adapter.open(ref)
        await follower.once(ref, "its gate was opened", state=State.PENDING, gated=False)


@check(
    "watch.a-stop-is-told",
    "A stop is told once, and not before it is so: as what it leaves, or as Gone if that is nothing.",
    rules="WA-2 SL-5 KF-3",
    needs=WATCH,
)
async def a_stop_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    async with following(bed) as follower:
        await bed.adapter.stop(ref)
        await follower.once(ref, "its stop", **bed.a_stop)


@check(
    "watch.a-hold-is-told",
    "A hold and its release are told once each, and not before they are so, also when it is held again.",
    rules="WA-2 SL-6 KF-7",
    needs=(*WATCH, *HOLD),
)
async def a_hold_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    async with following(bed) as follower:
        for instance in (1, 2, 3):
            await bed.holder.hold(ref, bed.held(instance))
            await follower.once(ref, f"hold {instance}", state=State.PENDING, cause=Cause.HELD, hold=instance)
            await bed.holder.release(ref, bed.released(instance))
            await follower.once(ref, f"the release of hold {instance}", state=State.PENDING, hold=None)


@check(
    "watch.a-hold-of-a-running-one-is-told",
    "That a hold puts a running object back to wait is told once, and not before it is so.",
    rules="WA-2 KF-7",
    needs=(*WATCH, *HOLD, Capability.HOLD_RUNNING, "run"),
)
async def a_hold_of_a_running_one_is_told(bed: Bed) -> None:
    ref = await bed.running()
    async with following(bed) as follower:
        await bed.holder.hold(ref, bed.held(1))
        await _in_time(bed, follower, ref, "a hold while it ran", state=State.PENDING, cause=Cause.HELD, hold=1)


@check(
    "watch.an-execution-is-told",
    "That an execution begins, and that it ends, is told once each, and not before it is so.",
    rules="WA-2",
    needs=(*WATCH, "run", "finish"),
)
async def an_execution_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    async with following(bed) as follower:
        await bed.driver.run(ref)
        await follower.once(ref, "it was run", state=State.RUNNING, cause=None)
        await bed.driver.finish(ref, 3)
        await follower.once(ref, "its exit", state=State.FAILED, cause=bed.readable(Cause.NON_ZERO_EXIT))


def failure_is_told(what: str, ability: str, cause: Cause) -> Check:
    """The check for one way to fail."""

    @check(
        f"watch.{what}-is-told",
        f"That an object has failed ({what.replace('-', ' ')}) is told once, and not before it is so.",
        rules="WA-2",
        needs=(*WATCH, "run", ability),
    )
    async def is_told(bed: Bed) -> None:
        ref = await bed.running()
        async with following(bed) as follower:
            await getattr(bed.driver, ability)(ref)
            await follower.once(ref, what.replace("-", " "), state=State.FAILED, cause=bed.readable(cause))

    return is_told


@check(
    "watch.a-requeue-is-told",
    "A requeue, of what has ended and of what runs, is told once, and not before it is so.",
    rules="WA-2 SL-7 SL-8",
    needs=(*WATCH, *REQUEUE, "run", "finish"),
)
async def a_requeue_is_told(bed: Bed) -> None:
    for bring in bed.requeueable:
        ref = await bring()
        async with following(bed) as follower:
            await bed.requeuer.requeue(ref, bed.meta())
            await _in_time(bed, follower, ref, "its requeue", state=State.PENDING, cause=Cause.REQUEUED, restarts=1)


@check(
    "watch.a-requeue-by-somebody-else-is-told",
    "A requeue by somebody else is told once, and not before it is so.",
    rules="WA-2 2.7",
    needs=(*WATCH, "run", "finish", "requeue_externally"),
)
async def a_requeue_by_somebody_else_is_told(bed: Bed) -> None:
    ref = await bed.requeueable[-1]()
    async with following(bed) as follower:
        await bed.driver.requeue_externally(ref)
        after = "somebody else's requeue"
        await _in_time(bed, follower, ref, after, state=State.PENDING, cause=Cause.REQUEUED, restarts=1)


@check(
    "watch.a-crash-is-told",
    "The bit that a requeue leaves set as its caller dies, and that it is restored, are told once each.",
    rules="WA-2 SL-8 SL-9",
    needs=(*WATCH, *REQUEUE, Fault.CRASH_BETWEEN_STEPS),
)
async def a_crash_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.with_a_bit(ref)
    async with following(bed) as follower:
        async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
            await bed.refused(CrashedError, bed.requeuer.requeue(ref, bed.meta()), "a requeue that crashes", ref)
        await follower.once(ref, "a requeue that crashed", state=State.PENDING, requeue_bit=True)
        await bed.requeuer.restore_requeue_bit(ref, bed.meta())
        await follower.once(ref, "its bit was restored", state=State.PENDING, requeue_bit=False)


@check(
    "watch.a-restored-bit-is-told",
    "That a bit is restored which somebody else's requeue has left set is told once, and not before it is so.",
    rules="WA-2 SL-9",
    needs=(*WATCH, *REQUEUE, "run", "requeue_externally"),
)
async def a_restored_bit_is_told(bed: Bed) -> None:
    ref = await bed.left_requeueable()
    async with following(bed) as follower:
        await bed.requeuer.restore_requeue_bit(ref, bed.meta())
        await follower.once(ref, "its bit was restored", state=State.RUNNING, requeue_bit=False)


@check(
    "watch.a-preemption-is-told",
    "A preemption is told once, and not before it is so: as the end of the object, or as its going back to wait.",
    rules="WA-2 SL-10 KF-4",
    needs=(*WATCH, "run", "preempt"),
)
async def a_preemption_is_told(bed: Bed) -> None:
    state = State.FAILED if bed.traits.preemption is Preemption.ENDED else State.PENDING
    ref = await bed.running()
    async with following(bed) as follower:
        await bed.driver.preempt(ref)
        await _in_time(bed, follower, ref, "its preemption", state=state, cause=Cause.PREEMPTED)


@check(
    "watch.a-lost-node-is-told",
    "What a lost node leaves is told once, when it shows, and not before it is so.",
    rules="WA-2 SL-11 KF-5",
    needs=(*WATCH, "run", "lose_node"),
)
async def a_lost_node_is_told(bed: Bed) -> None:
    ref = await bed.running()
    async with following(bed) as follower:
        seen = await bed.lost(ref)
        await follower.once(ref, "the loss of its node", state=seen.state, cause=seen.cause)


@check(
    "watch.a-node-back-is-told",
    "That an object ends because its node is back without its processes is told once, and not before it is so.",
    rules="WA-2 SL-11 KF-5 2.7",
    needs=(*WATCH, "run", "lose_node", "fence_node", "return_node"),
)
async def a_node_back_is_told(bed: Bed) -> None:
    ref = await bed.running()
    async with following(bed) as follower:
        await bed.driver.lose_node(ref)
        await bed.driver.fence_node(ref)
        await bed.driver.return_node(ref)
        cause = bed.readable(Cause.NODE_LOST)
        await follower.once(ref, "its node was lost, fenced and back", state=State.FAILED, cause=cause)


@check(
    "watch.a-preemption-that-requeues-is-told",
    "That the scheduler requeues a preempted object by itself is told once, and not before it is so.",
    rules="WA-2 SL-10",
    needs=(*WATCH, *REQUEUE, "run", "preempt", "requeue_externally"),
)
async def a_preemption_that_requeues_is_told(bed: Bed) -> None:
    ref = await bed.left_requeueable()
    async with following(bed) as follower:
        await bed.driver.preempt(ref)
        after = "its preemption, its bit being set"
        await _in_time(bed, follower, ref, after, state=State.PENDING, cause=Cause.REQUEUED, restarts=2)


@check(
    "watch.a-lost-node-that-requeues-is-told",
    "That the scheduler requeues an object by itself whose node is lost is told once, and not before it is so.",
    rules="WA-2 SL-10 SL-11",
    needs=(*WATCH, *REQUEUE, "run", "lose_node", "requeue_externally"),
)
async def a_lost_node_that_requeues_is_told(bed: Bed) -> None:
    if bed.traits.node_loss is NodeLoss.WEDGED:
        raise CheckSkipped("a lost node ends no object")
    ref = await bed.left_requeueable()
    async with following(bed) as follower:
        await bed.driver.lose_node(ref)
        await bed.cluster.advance(bed.traits.node_timeout)
        after = "the loss of its node, its bit being set"
        await _in_time(bed, follower, ref, after, state=State.PENDING, cause=Cause.REQUEUED, restarts=2)


@check(
    "watch.an-admin-hold-is-told",
    "An administrator's hold, and that it is lifted, are told once each, and not before they are so.",
    rules="WA-2 TM-6",
    needs=(*WATCH, "admin_hold", "admin_release"),
)
async def an_admin_hold_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    async with following(bed) as follower:
        await bed.driver.admin_hold(ref)
        await follower.once(ref, "an administrator's hold", state=State.PENDING, cause=Cause.ADMIN_HELD)
        await bed.driver.admin_release(ref)
        await follower.once(ref, "the end of an administrator's hold", state=State.PENDING, cause=before.cause)


@check(
    "watch.a-deactivation-is-told",
    "That somebody else deactivates an object, and activates it, is told once each, and not before it is so.",
    rules="WA-2 KF-7 2.7",
    needs=(*WATCH, "deactivate_externally", "reactivate_externally"),
)
async def a_deactivation_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    async with following(bed) as follower:
        await bed.driver.deactivate_externally(ref)
        await follower.once(ref, "somebody else's deactivation", state=State.PENDING, cause=Cause.HELD)
        await bed.driver.reactivate_externally(ref)
        await follower.once(ref, "somebody else's activation", state=State.PENDING, cause=before.cause)


@check(
    "watch.no-capacity-is-told",
    "That an object is refused room is told once, and not before it is so.",
    rules="WA-2 TM-6",
    needs=(*WATCH, "no_capacity"),
)
async def no_capacity_is_told(bed: Bed) -> None:
    ref = await bed.pending()
    async with following(bed) as follower:
        await bed.driver.no_capacity(ref)
        await follower.once(ref, "it was refused room", state=State.PENDING, cause=Cause.NO_CAPACITY)


async def _in_time(bed: Bed, follower: Follower, ref: Ref, after: str, **fields: object) -> None:
    """See that a change is told once, when it has come."""
    await bed.see(ref, **fields)
    await follower.once(ref, after, **fields)


@check(
    "watch.every-change-once-in-order",
    "Every change is told once, in the order in which the changes were made.",
    rules="WA-2",
    needs=(*WATCH, *HOLD),
)
async def every_change_once_in_order(bed: Bed) -> None:
    tells_every_change(bed)
    ref, other = await bed.pending(), await bed.pending()
    async with watching(bed) as reader:
        for instance in (1, 2, 3):
            for held in (ref, other):
                await bed.holder.hold(held, bed.held(instance))
                await bed.others_run()
        await bed.holder.release(ref, bed.released(3))
        for instance in (1, 2, 3):
            await reader.next(ref, hold=instance)
            await reader.next(other, hold=instance)
        await reader.next(ref, hold=None)
        nothing_more(bed, await reader.rest(), "after the last change")


@check(
    "watch.told-is-what-get-shows",
    "Who looks at once when told of a change sees it, or a later one, while other tasks go on changing objects.",
    rules="WA-2 TM-1",
    needs=WATCH,
)
async def told_is_what_get_shows(bed: Bed) -> None:
    async def change() -> None:
        for _ in range(LIVES):
            ref = await bed.started()
            for call in (bed.adapter.open, bed.adapter.stop):
                await bed.others_run()
                await call(ref)

    async with following(bed) as follower:
        async with anyio.create_task_group() as changing:
            for _ in range(TASKS):
                changing.start_soon(change)
        told = await follower.rest()
        if follower.watch.closed_by == "overflow":
            raise CheckSkipped(f"a watch falls behind here when {TASKS} tasks make one change after the other")
        changes = TASKS * LIVES * (1 if bed.traits.polled_watch else 2)
        bed.expect(len(told) >= changes, f"told of {changes} starts and stops at least", f"told of {len(told)} changes")
        await follower.agrees()


@check(
    "watch.what-changes-nothing-is-not-told",
    "A call that changes nothing is not told.",
    rules="WA-2",
    needs=WATCH,
)
async def what_changes_nothing_is_not_told(bed: Bed) -> None:
    ref, stopped = await bed.pending(), await bed.pending()
    await bed.adapter.stop(stopped)
    await bed.stopped(stopped)
    async with watching(bed) as reader:
        await bed.cluster.advance(bed.timings.poll)
        await bed.adapter.open(ref)
        if bed.traits.stop is Stop.CANCELLED:
            await bed.adapter.stop(stopped)
        await bed.adapter.get(ref)
        nothing_more(bed, await reader.rest(), "as nothing has changed")


@check(
    "watch.a-hold-again-is-not-told",
    "A hold of the same instance again, and a release of what is not held, are not told.",
    rules="WA-2 SL-6 KF-7",
    needs=(*WATCH, *HOLD),
)
async def a_hold_again_is_not_told(bed: Bed) -> None:
    ref, free = await bed.pending(), await bed.pending()
    await bed.holder.hold(ref, bed.held(1))
    async with watching(bed) as reader:
        await bed.cluster.advance(bed.timings.poll)
        await bed.holder.hold(ref, bed.held(1))
        await bed.holder.release(free, bed.released(1))
        nothing_more(bed, await reader.rest(), "as nothing has changed")


@check(
    "watch.refusals-are-not-told",
    "A call that is refused is not told.",
    rules="WA-2 1.2",
    needs=(*WATCH, *HOLD),
)
async def refusals_are_not_told(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(2))
    async with watching(bed) as reader:
        await bed.refused(StaleError, bed.holder.hold(ref, bed.held(1)), "a lower instance", ref)
        await bed.refused(StaleError, bed.holder.release(ref, bed.released(3)), "another instance", ref)
        for stranger in bed.strangers(ref):
            await bed.refused(NotFoundError, bed.adapter.stop(stranger), "an unknown ref")
        nothing_more(bed, await reader.rest(), "as every call was refused")


@check(
    "watch.late-calls-are-not-told",
    "A call that starts after its deadline is not told.",
    rules="WA-2 2.5",
    needs=(*WATCH, Fault.LATE_CALL),
)
async def late_calls_are_not_told(bed: Bed) -> None:
    ref = await bed.pending()
    async with watching(bed) as reader, bed.inject(Fault.LATE_CALL, "stop"):
        await bed.refused(ExpiredError, bed.adapter.stop(ref, deadline=bed.deadline()), "a late stop", ref)
        nothing_more(bed, await reader.rest(), "as the stop was late")


@check(
    "watch.cancelled-calls-are-not-told",
    "A call that is cancelled at once is not told.",
    rules="WA-2 TM-1",
    needs=WATCH,
)
async def cancelled_calls_are_not_told(bed: Bed) -> None:
    ref = await bed.pending()
    async with watching(bed) as reader:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await bed.adapter.stop(ref)
        nothing_more(bed, await reader.rest(), "as the stop was cancelled")


@check(
    "watch.the-forgotten-is-told-gone",
    "That an ended object leaves the scheduler's memory is told once, as Gone, with what was last told of it.",
    rules="WA-2 SL-12",
    needs=(*WATCH, "run", "finish"),
)
async def the_forgotten_is_told_gone(bed: Bed) -> None:
    if bed.traits.forgets_after is None:
        raise CheckSkipped("the scheduler forgets no object that has ended")
    ref = await bed.ended(exit_code=3)
    last = await bed.get(ref)
    async with watching(bed) as reader:
        await bed.forgotten(ref)
        gone = await reader.next(ref, state=State.GONE)
        same = timeless(altered(gone, state=last.state)) == timeless(last)
        bed.expect(same, f"what was last told of it: {last}", f"{gone}", gone)
        nothing_more(bed, await reader.rest(), "after Gone")


@check(
    "watch.two-are-told-the-same",
    "Two watches are told the same.",
    rules="WA-2",
    needs=WATCH,
)
async def two_are_told_the_same(bed: Bed) -> None:
    async with watching(bed) as reader, watching(bed) as other:
        for _ in range(3):
            ref = await bed.started()
            for told in (reader, other):
                await told.next(ref, "its start", state=State.PENDING)
            await bed.adapter.stop(ref)
            for told in (reader, other):
                await told.next(ref, "its stop", **bed.a_stop)
        first, second = ({f"change {at}": seen for at, seen in enumerate(one.told)} for one in (reader, other))
        if bed.traits.polled_watch:  # each has looked at a moment of its own
            first, second = ({at: timeless(seen) for at, seen in told.items()} for told in (first, second))
        one, another = apart(first, second)
        bed.expect(first == second, f"told to both what is told to one: {one}", f"told to the other: {another}")


@check(
    "watch.what-is-told-is-frozen",
    "What was told does not change when the object does.",
    rules="TM-4",
    needs=WATCH,
)
async def what_is_told_is_frozen(bed: Bed) -> None:
    async with watching(bed) as reader:
        ref = await bed.started()
        told = await reader.next(ref, "its start", state=State.PENDING)
        before = copy.copy(told)
        await bed.cluster.advance(bed.timings.poll)
        await bed.adapter.get(ref)
        await bed.adapter.stop(ref)
        await reader.next(ref, "its stop", **bed.a_stop)
        bed.expect(told == before, f"as it was told: {before}", f"{told}", told)


CHECKS = (
    start_is_told,
    open_is_told,
    a_stop_is_told,
    a_hold_is_told,
    a_hold_of_a_running_one_is_told,
    an_execution_is_told,
    failure_is_told("out-of-memory", "out_of_memory", Cause.OUT_OF_MEMORY),
    failure_is_told("time-out", "time_out", Cause.TIMEOUT),
    failure_is_told("launch-failure", "fail_launch", Cause.LAUNCH_FAILED),
    a_requeue_is_told,
    a_requeue_by_somebody_else_is_told,
    a_crash_is_told,
    a_restored_bit_is_told,
    a_preemption_is_told,
    a_preemption_that_requeues_is_told,
    a_lost_node_is_told,
    a_lost_node_that_requeues_is_told,
    a_node_back_is_told,
    an_admin_hold_is_told,
    a_deactivation_is_told,
    no_capacity_is_told,
    every_change_once_in_order,
    told_is_what_get_shows,
    what_changes_nothing_is_not_told,
    a_hold_again_is_not_told,
    refusals_are_not_told,
    late_calls_are_not_told,
    cancelled_calls_are_not_told,
    the_forgotten_is_told_gone,
    two_are_told_the_same,
    what_is_told_is_frozen,
)
