"""Lost nodes: what shows of them and when, and what can still be done to an object on one."""

from contextlib import suppress
from datetime import timedelta

from ...model import Capability, Cause, Observation, Ref, State, WrongStateError
from ...spi import Holder, Requeuer
from ..bed import Bed
from ..checks import check
from ..findings import CheckSkipped
from ..harness import NodeLoss

__all__ = ("CHECKS",)

LOSE = ("run", "lose_node")
REQUEUE = (Requeuer, Capability.REQUEUE)
HOLD = (Holder, Capability.HOLD)


async def shows_in_time(bed: Bed, ref: Ref, before: Observation) -> None:
    """See that a loss of just now shows once the timeout has passed, and nothing before."""
    timeout = bed.traits.node_timeout
    if timeout:
        await bed.cluster.advance(timeout / 2)
        await bed.stays(ref, before, "a node that was lost only a while ago")
    await bed.cluster.advance(timeout - timeout / 2)
    await bed.shows_the_loss(ref)


async def lost_and_back(bed: Bed, ref: Ref) -> bool:
    """Lose the node under a running object, and return it before its time is over; whether the object runs on.

    It does not where the adapter takes the loss for a proof that its processes are gone: that is never taken back.
    """
    await bed.driver.lose_node(ref)
    await bed.cluster.advance(bed.traits.node_timeout / 2)
    ceased = bed.declares(Capability.CESSATION) and (await bed.signal.cessation(ref)).ceased
    over = (await bed.get(ref)).state.ended
    await bed.driver.return_node(ref)
    if ceased or over:
        await bed.see(ref, state=State.FAILED, cause=bed.readable(Cause.NODE_LOST))
        return False
    await bed.see(ref, state=State.RUNNING, cause=None, ended_at=None)
    return True


# what shows, and when


@check(
    "nodes.loss-shows-after-the-timeout",
    "A lost node shows nothing until its timeout has passed, and then as the traits say, with a cause of its own.",
    rules="SL-11 KF-5",
    needs=LOSE,
)
async def loss_shows_after_the_timeout(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await bed.driver.lose_node(ref)
    await shows_in_time(bed, ref, before)
    await bed.see(ref, restarts=0, started_at=before.started_at)


@check(
    "nodes.loss-is-for-good",
    "What a lost node leaves stays: an object that has ended, or one that runs for ever and never ends by itself.",
    rules="SL-11 KF-5 KF-6",
    needs=LOSE,
)
async def loss_is_for_good(bed: Bed) -> None:
    ref = await bed.running()
    seen = await bed.lost(ref)
    if bed.traits.node_loss is NodeLoss.ENDED:
        bed.expect(seen.ended_at is not None, "when it ended", seen.ended_at, seen)
        await bed.stays(ref, seen, "time after the loss")
    else:
        window = bed.traits.evidence_window
        await bed.cluster.advance(max(window or timedelta(0), bed.timings.wait))
        cause = Cause.NODE_LOST if window is None else Cause.UNKNOWN
        await bed.see(ref, state=State.RUNNING, cause=cause, started_at=seen.started_at, ended_at=None)


@check(
    "nodes.set-bit-makes-it-a-requeue",
    "With the requeue bit left set, an object that a lost node would have ended is requeued; the bit stays set.",
    rules="SL-10 SL-11",
    needs=(*REQUEUE, *LOSE, "requeue_externally"),
)
async def set_bit_makes_it_a_requeue(bed: Bed) -> None:
    if bed.traits.node_loss is NodeLoss.WEDGED:
        raise CheckSkipped("a lost node ends no object")
    ref = await bed.left_requeueable()
    before = await bed.get(ref)
    await bed.driver.lose_node(ref)
    await bed.cluster.advance(bed.traits.node_timeout)
    await bed.see(
        ref,
        state=State.PENDING,
        cause=Cause.REQUEUED,
        gated=False,
        restarts=before.restarts + 1,
        requeue_bit=True,
        started_at=None,
    )


# nodes that come back, and nodes that are fenced


@check(
    "nodes.back-in-time-ends-nothing",
    "A node that comes back in time ends nothing: the object runs on, then and later.",
    rules="SL-11 KF-5 2.7",
    needs=(*LOSE, "return_node"),
)
async def back_in_time_ends_nothing(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    if await lost_and_back(bed, ref):
        await bed.cluster.advance(max(bed.traits.node_timeout, bed.traits.evidence_window or timedelta(0)))
        await bed.stays(ref, before, "a node that was away for a while")


@check(
    "nodes.second-loss-counts-from-itself",
    "The timeout of a node that was lost, came back and was lost again counts from the second loss.",
    rules="SL-11 KF-5",
    needs=(*LOSE, "return_node"),
)
async def second_loss_counts_from_itself(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    if await lost_and_back(bed, ref):
        await bed.driver.lose_node(ref)
        await shows_in_time(bed, ref, before)


@check(
    "nodes.late-return-revives-nothing",
    "A node that comes back late revives nothing that has ended; what was wedged on it runs on.",
    rules="SL-11 KF-5 KF-6 2.7",
    needs=(*LOSE, "return_node"),
)
async def late_return_revives_nothing(bed: Bed) -> None:
    ref = await bed.running()
    if bed.traits.node_loss is NodeLoss.ENDED:
        seen = await bed.lost(ref)
        await bed.driver.return_node(ref)
        await bed.stays(ref, seen, "a node that came back late")
    else:
        before = await bed.get(ref)
        if await lost_and_back(bed, ref):
            await bed.lost(ref)
            await bed.cluster.advance(bed.traits.evidence_window or timedelta(0))
            await bed.driver.return_node(ref)
            await bed.see(ref, state=State.RUNNING, cause=None)
            await bed.stays(ref, before, "a node that came back late")


@check(
    "nodes.fencing-shows-nothing",
    "A fenced node changes nothing of what shows of a lost one, nor when.",
    rules="SL-11 KF-5 2.7",
    needs=(*LOSE, "fence_node"),
)
async def fencing_shows_nothing(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await bed.driver.lose_node(ref)
    await bed.driver.fence_node(ref)
    await shows_in_time(bed, ref, before)


@check(
    "nodes.fenced-and-back-ends",
    "A node that comes back without the processes that it had ends the object at once, for the loss.",
    rules="SL-11 KF-5 2.7",
    needs=(*LOSE, "fence_node", "return_node"),
)
async def fenced_and_back_ends(bed: Bed) -> None:
    ref = await bed.running()
    await bed.driver.lose_node(ref)
    await bed.driver.fence_node(ref)
    await bed.driver.return_node(ref)
    seen = await bed.see(ref, state=State.FAILED, cause=bed.readable(Cause.NODE_LOST), exit_code=None)
    bed.expect(seen.ended_at is not None, "when it ended", seen.ended_at, seen)


# what can be done to an object on a lost node


async def stranded(bed: Bed) -> Ref:
    """A running object whose node is lost, and whose loss has not ended it.

    :raises CheckSkipped: if a lost node ends it at once
    """
    if bed.traits.node_loss is NodeLoss.ENDED and not bed.traits.node_timeout:
        raise CheckSkipped("a lost node ends an object at once")
    ref = await bed.running()
    await bed.driver.lose_node(ref)
    return ref


@check(
    "nodes.stop-of-a-stranded-one",
    "An object on a lost node can be stopped.",
    rules="SL-5 KF-3 KF-5",
    needs=LOSE,
)
async def stop_of_a_stranded_one(bed: Bed) -> None:
    ref = await stranded(bed)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "nodes.stop-is-not-overtaken",
    "An object on a lost node that is stopped just before the timeout ends for the stop, however long its end takes.",
    rules="SL-11 SL-14",
    needs=LOSE,
)
async def stop_is_not_overtaken(bed: Bed) -> None:
    ref = await stranded(bed)
    timeout = bed.traits.node_timeout
    await bed.cluster.advance(timeout - min(timeout / 2, 5 * bed.timings.poll))
    await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "nodes.nothing-is-heard-of-a-stranded-one",
    "What goes on on a lost node is not heard of: neither an exit nor a failure ends the object.",
    rules="KF-5 2.7",
    needs=(*LOSE, "finish", "out_of_memory"),
)
async def nothing_is_heard_of_a_stranded_one(bed: Bed) -> None:
    ref = await stranded(bed)
    if bed.traits.node_loss is NodeLoss.WEDGED:
        await bed.shows_the_loss(ref)
    before = await bed.get(ref)
    for ability, what in (("finish", "an exit"), ("out_of_memory", "a failure")):
        with suppress(WrongStateError):
            await getattr(bed.driver, ability)(ref)
        await bed.stays(ref, before, f"{what} on a lost node")


@check(
    "nodes.hold-of-a-stranded-one",
    "A hold of an object on a lost node is what it is for any that runs: refused, or it puts the object back to wait.",
    rules="SL-6 KF-5 KF-7",
    needs=(*HOLD, *LOSE),
)
async def hold_of_a_stranded_one(bed: Bed) -> None:
    ref = await stranded(bed)
    before = await bed.get(ref)
    if bed.declares(Capability.HOLD_RUNNING):
        await bed.holder.hold(ref, bed.held(1))
        await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=1, started_at=None)
    else:
        await bed.refused(WrongStateError, bed.holder.hold(ref, bed.held(1)), "a hold of a running object", ref)
        await bed.stays(ref, before, "a refused hold")


@check(
    "nodes.requeue-of-a-stranded-one",
    "An object on a lost node can be requeued, and the timeout of the node that it has left means nothing to it.",
    rules="SL-7 SL-11",
    needs=(*REQUEUE, *LOSE),
)
async def requeue_of_a_stranded_one(bed: Bed) -> None:
    ref = await stranded(bed)
    await bed.requeuer.requeue(ref, bed.meta())
    seen = await bed.see(ref, state=State.PENDING, cause=Cause.REQUEUED, restarts=1)
    await bed.driver.run(seen.ref)
    before = await bed.see(ref, state=State.RUNNING, cause=None)
    await bed.cluster.advance(bed.traits.node_timeout)
    await bed.stays(ref, before, "the timeout of a node that it has left")


CHECKS = (
    loss_shows_after_the_timeout,
    loss_is_for_good,
    set_bit_makes_it_a_requeue,
    back_in_time_ends_nothing,
    second_loss_counts_from_itself,
    late_return_revives_nothing,
    fencing_shows_nothing,
    fenced_and_back_ends,
    stop_of_a_stranded_one,
    stop_is_not_overtaken,
    nothing_is_heard_of_a_stranded_one,
    hold_of_a_stranded_one,
    requeue_of_a_stranded_one,
)
