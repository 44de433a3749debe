"""Requeue: an object is put back to wait, its bit is restored."""

from datetime import timedelta

from ...model import (
    Action,
    CallMeta,
    Capability,
    Cause,
    CrashedError,
    FinishedError,
    InvalidError,
    NotFoundError,
    Observation,
    PendingError,
    Policy,
    Ref,
    Rule,
    State,
    UnsupportedError,
    WrongStateError,
)
from ...model.base import altered
from ...spi import Holder, NativePolicyCompiler, Requeuer
from ..bed import Bed
from ..checks import Check, check
from ..findings import CheckSkipped
from ..harness import Fault, Preemption, Stop

__all__ = ("CHECKS",)

REQUEUE = (Requeuer, Capability.REQUEUE)


async def back(bed: Bed, ref: Ref) -> Observation:
    """Requeue an object, and see that it waits as one that nobody holds back."""
    before = await bed.get(ref)
    await bed.requeuer.requeue(before.ref, bed.meta())
    return await bed.see(
        ref,
        state=State.PENDING,
        cause=Cause.REQUEUED,
        gated=False,
        restarts=before.restarts + 1,
        requeue_bit=before.requeue_bit,
        started_at=None,
        ended_at=None,
        exit_code=None,
    )


async def back_from_its_end(bed: Bed, ref: Ref) -> None:
    """Requeue an object that has ended, and see that it waits; or that it is refused, where that cannot be done."""
    if bed.traits.requeues_ended:
        await back(bed, ref)
        return
    before = await bed.get(ref)
    what = "a requeue of an ended object, which this scheduler cannot do"
    await bed.refused(FinishedError, bed.requeuer.requeue(before.ref, bed.meta()), what, ref)
    await bed.stays(ref, before, "a refused requeue")


async def current(bed: Bed, ref: Ref) -> Ref:
    """The exact ref in force."""
    return (await bed.get(ref)).ref


# what goes back, and how it looks then


@check(
    "requeue.ended-goes-back",
    "An object that has exited is pending again, ungated, with one restart more and the bit as it was; or is refused.",
    rules="SL-7 SL-8 TM-6",
    needs=(*REQUEUE, "run", "finish"),
)
async def ended_goes_back(bed: Bed) -> None:
    for exit_code in (0, 3):
        await back_from_its_end(bed, await bed.ended(exit_code))


def failure_goes_back(what: str, ability: str) -> Check:
    """The check for an object that failed in one way."""

    @check(
        f"requeue.{what}-goes-back",
        f"An object that has failed ({what.replace('-', ' ')}) is pending again, with one restart more.",
        rules="SL-7 SL-8",
        needs=(*REQUEUE, "run", ability),
    )
    async def goes_back(bed: Bed) -> None:
        ref = await bed.running()
        await getattr(bed.driver, ability)(ref)
        await bed.see(ref, state=State.FAILED)
        await back_from_its_end(bed, ref)

    return goes_back


@check(
    "requeue.preempted-goes-back",
    "An object that a preemption has ended is pending again; one that it left waiting is refused.",
    rules="SL-7 SL-10",
    needs=(*REQUEUE, "run", "preempt"),
)
async def preempted_goes_back(bed: Bed) -> None:
    ref = await bed.running()
    await bed.driver.preempt(ref)
    if bed.traits.preemption is Preemption.ENDED:
        await bed.see(ref, state=State.FAILED)
        await back_from_its_end(bed, ref)
    else:
        seen = await bed.see(ref, state=State.PENDING)
        await bed.refused(PendingError, bed.requeuer.requeue(seen.ref, bed.meta()), "a requeue of a pending one", ref)


@check(
    "requeue.stopped-goes-back",
    "A stopped object is pending again, and ungated though its gate was never lifted; a deleted one is not found.",
    rules="SL-7",
    needs=REQUEUE,
)
async def stopped_goes_back(bed: Bed) -> None:
    ref = await bed.started()
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    if bed.traits.stop is Stop.CANCELLED:
        await back_from_its_end(bed, ref)
    else:
        await bed.refused(NotFoundError, bed.requeuer.requeue(ref, bed.meta()), "a requeue of a deleted object")


@check(
    "requeue.running-goes-back",
    "A running object's execution is ended, it is pending again with one restart more, and can be run again.",
    rules="SL-7 SL-14 TM-6",
    needs=(*REQUEUE, "run"),
)
async def running_goes_back(bed: Bed) -> None:
    ref = await bed.running()
    seen = await back(bed, ref)
    await bed.driver.run(seen.ref)
    await bed.see(ref, state=State.RUNNING, cause=None, restarts=seen.restarts)


@check(
    "requeue.moves-the-submit-time",
    "The old exact ref stops matching where a requeue moves its time, the weak one never; its place in lists stays.",
    rules="SL-2 SL-7 1.3",
    needs=(*REQUEUE, "run"),
)
async def moves_the_submit_time(bed: Bed) -> None:
    job = bed.job()
    old, _ = await bed.running(job), await bed.started(job, 2)
    await bed.cluster.advance(timedelta(seconds=1))
    seen = await back(bed, old)
    found = [one.submission for one in await bed.adapter.find(job.id)]
    bed.expect(found == [1, 2], "found in the order of start, submissions 1 and 2", f"submissions {found}")
    bed.expect(await bed.weak(seen.ref) == await bed.weak(old), f"the weak ref of {old}", seen.ref, seen)
    bed.expect((seen.ref != old) is bed.traits.moves_submit_time, "a new submit time, if the traits say so", seen.ref)
    if bed.traits.moves_submit_time:
        await bed.refused(NotFoundError, bed.adapter.get(old), "a look by the old ref", old)
        await bed.refused(NotFoundError, bed.adapter.stop(old), "a stop by the old ref", old)
        await bed.stays(old, seen, "a stop by the old ref")


@check(
    "requeue.carried-hold-stays",
    "A hold that an ended object still carries is in force once it is pending again.",
    rules="SL-7",
    needs=(*REQUEUE, Holder, Capability.HOLD),
)
async def carried_hold_stays(bed: Bed) -> None:
    if bed.traits.stop is Stop.NOTHING:
        raise CheckSkipped("a stop leaves no object that could carry a hold")
    bed.requeues_ended()
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(7))
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    await bed.requeuer.requeue(await current(bed, ref), bed.meta())
    seen = await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=7, gated=False)
    await bed.holder.release(seen.ref, bed.released(7))
    await bed.see(ref, state=State.PENDING, cause=Cause.REQUEUED, hold=None)


@check(
    "requeue.admin-hold-stays",
    "An administrator's hold that a running object carries is in force once it is pending again.",
    rules="SL-7 TM-6",
    needs=(*REQUEUE, "run", "admin_hold", "admin_release"),
)
async def admin_hold_stays(bed: Bed) -> None:
    ref = await bed.running()
    await bed.driver.admin_hold(ref)
    await bed.requeuer.requeue(ref, bed.meta())
    seen = await bed.see(ref, state=State.PENDING, cause=Cause.ADMIN_HELD, gated=False)
    await bed.driver.admin_release(seen.ref)
    await bed.see(ref, state=State.PENDING, cause=Cause.REQUEUED)


# what is refused


@check(
    "requeue.pending-is-refused",
    "A requeue of a pending object is refused, and changes nothing: neither the gate nor the bit.",
    rules="SL-7 SL-8",
    needs=REQUEUE,
)
async def pending_is_refused(bed: Bed) -> None:
    for bring in (bed.started, bed.pending):
        ref = await bring()
        before = await bed.get(ref)
        await bed.refused(PendingError, bed.requeuer.requeue(ref, bed.meta()), "a requeue of a pending object", ref)
        await bed.stays(ref, before, "a refused requeue")


@check(
    "requeue.second-one-is-refused",
    "A requeue of an object that is on its way back, or is back, is refused: there is one restart more, not two.",
    rules="SL-7 SL-14",
    needs=(*REQUEUE, "run"),
)
async def second_one_is_refused(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await bed.requeuer.requeue(ref, bed.meta())

    async def again() -> None:
        await bed.requeuer.requeue(await current(bed, ref), bed.meta())

    await bed.refused(WrongStateError, again(), "a second requeue", ref)
    seen = await bed.see(ref, state=State.PENDING, restarts=1, requeue_bit=before.requeue_bit)
    await bed.stays(ref, seen, "a refused requeue")


@check(
    "requeue.weak-ref-is-refused",
    "A weak ref is refused, by the requeue and by the bit's restoring.",
    rules="1.3",
    needs=REQUEUE,
)
async def weak_ref_is_refused(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    for call in await bed.requeues():
        await bed.refused(InvalidError, call(bed.as_weak(ref), bed.meta()), f"{call.__name__} by a weak ref", ref)
    await bed.stays(ref, before, "a refused call")


@check(
    "requeue.unknown-ref-is-not-found",
    "A ref that names no object is not found, by the requeue and by the bit's restoring.",
    rules="SL-2",
    needs=REQUEUE,
)
async def unknown_ref_is_not_found(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    for stranger in bed.strangers(ref):
        for call in await bed.requeues():
            await bed.refused(NotFoundError, call(stranger, bed.meta()), f"{call.__name__} of {stranger}", ref)
    await bed.stays(ref, before, "calls that name no object")


@check(
    "requeue.bit-or-unsupported",
    "A bit that is shown can be restored; where none is, that is unsupported, and a requeue too if it is not declared.",
    rules="KF-8 SL-9 1.2",
    needs=(Requeuer,),
)
async def bit_or_unsupported(bed: Bed) -> None:
    ref = await bed.pending()
    seen = await bed.get(ref)
    if seen.requeue_bit is not None:
        await bed.requeuer.restore_requeue_bit(ref, bed.meta())
        await bed.stays(ref, altered(seen, requeue_bit=False), "a restored bit, but for the bit")
        return
    declared = bed.declares(Capability.REQUEUE)
    calls = (bed.requeuer.restore_requeue_bit, *(() if declared else (bed.requeuer.requeue,)))
    for call in calls:
        for named in (ref, *bed.strangers(ref)):
            for meta in (bed.meta(), CallMeta(bed.past())):
                await bed.refused(UnsupportedError, call(named, meta), f"{call.__name__} of {named}", ref)
    await bed.stays(ref, seen, "calls that are not supported")


# the bit


@check(
    "requeue.crash-leaves-the-bit",
    "A caller that dies between the steps leaves the bit set, also where the next step would have been refused.",
    rules="SL-8 SL-9",
    needs=(*REQUEUE, Fault.CRASH_BETWEEN_STEPS),
)
async def crash_leaves_the_bit(bed: Bed) -> None:
    ref = await bed.pending()
    async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
        await bed.refused(CrashedError, bed.requeuer.requeue(ref, bed.meta()), "a requeue that crashes", ref)
    await bed.see(ref, state=State.PENDING, requeue_bit=True)
    await bed.requeuer.restore_requeue_bit(ref, bed.meta())
    await bed.see(ref, requeue_bit=False)


@check(
    "requeue.crash-does-nothing-else",
    "A caller that dies between the steps has changed nothing but the bit.",
    rules="SL-8",
    needs=(*REQUEUE, Fault.CRASH_BETWEEN_STEPS, "run", "finish"),
)
async def crash_does_nothing_else(bed: Bed) -> None:
    for bring in bed.requeueable:
        ref = await bring()
        before = await bed.get(ref)
        async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
            await bed.refused(CrashedError, bed.requeuer.requeue(ref, bed.meta()), "a requeue that crashes", ref)
        await bed.stays(ref, altered(before, requeue_bit=True), "a crash, but for the bit")


@check(
    "requeue.crash-of-an-unknown-one-is-not-found",
    "Where no object answers to the ref, there is no bit to leave set: it is not found.",
    rules="SL-8 1.2",
    needs=(*REQUEUE, Fault.CRASH_BETWEEN_STEPS),
)
async def crash_of_an_unknown_one_is_not_found(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    for stranger in bed.strangers(ref):
        async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
            await bed.refused(NotFoundError, bed.requeuer.requeue(stranger, bed.meta()), f"a crash at {stranger}", ref)
    await bed.stays(ref, before, "a crash that named another object")


@check(
    "requeue.by-somebody-else-leaves-the-bit",
    "A requeue by somebody else puts an object back as ours does, but leaves the bit set, until it is restored.",
    rules="SL-9 2.7",
    needs=(*REQUEUE, "run", "finish", "requeue_externally"),
)
async def by_somebody_else_leaves_the_bit(bed: Bed) -> None:
    for bring in bed.requeueable:
        ref = await bring()
        await bed.with_a_bit(ref)
        await bed.driver.requeue_externally(ref)
        seen = await bed.see(
            ref, state=State.PENDING, cause=Cause.REQUEUED, gated=False, restarts=1, requeue_bit=True, started_at=None
        )
        await bed.requeuer.restore_requeue_bit(seen.ref, bed.meta())
        await bed.stays(ref, altered(seen, requeue_bit=False), "a restored bit, but for the bit")


@check(
    "requeue.set-bit-is-restored-as-set",
    "A bit that was set before a requeue is set after it, whether it was refused or not.",
    rules="SL-8",
    needs=(*REQUEUE, "run", "requeue_externally"),
)
async def set_bit_is_restored_as_set(bed: Bed) -> None:
    ref = await bed.left_requeueable()
    seen = await back(bed, ref)
    await bed.refused(PendingError, bed.requeuer.requeue(seen.ref, bed.meta()), "a requeue of a pending object", ref)
    await bed.stays(ref, seen, "a refused requeue")


@check(
    "requeue.restore-clears-a-native-bit",
    "The bit of an object is clear after it was restored, also if a native policy had set it, and again and again.",
    rules="SL-9 NP-2",
    needs=(*REQUEUE, NativePolicyCompiler),
)
async def restore_clears_a_native_bit(bed: Bed) -> None:
    rule = Rule(causes=frozenset({Cause.PREEMPTED, Cause.NODE_LOST}), action=Action.RESTART)
    native = await bed.compiler.compile_policy(Policy((rule,)))
    ref = await bed.adapter.start(bed.job(), 1, native=native)
    before = await bed.with_a_bit(ref)
    for _ in range(2):
        await bed.requeuer.restore_requeue_bit(ref, bed.meta())
        await bed.stays(ref, altered(before, requeue_bit=False), "a restored bit, but for the bit")


@check(
    "requeue.restore-of-an-ended-one-is-refused",
    "The bit of an object that has ended is not restored.",
    rules="SL-9",
    needs=(*REQUEUE, "run", "finish"),
)
async def restore_of_an_ended_one_is_refused(bed: Bed) -> None:
    ref = await bed.ended()
    before = await bed.with_a_bit(ref)
    await bed.refused(FinishedError, bed.requeuer.restore_requeue_bit(before.ref, bed.meta()), "a restored bit", ref)
    await bed.stays(ref, before, "a refused restore")


# two at once


@check(
    "requeue.stop-while-under-way",
    "A stop of an object that is on its way back, or just is back, stops it.",
    rules="SL-5 SL-14 KF-3",
    needs=(*REQUEUE, "run"),
)
async def stop_while_under_way(bed: Bed) -> None:
    ref = await bed.running()
    await bed.requeuer.requeue(ref, bed.meta())

    async def landed() -> bool:
        try:
            await bed.adapter.stop(await current(bed, ref))
        except NotFoundError:  # its submit time has moved since the look
            return False
        return True

    bed.expect(await bed.eventually(landed), "a stop that finds the object", "NotFoundError each time")
    await bed.stopped(ref)


CHECKS = (
    ended_goes_back,
    failure_goes_back("out-of-memory", "out_of_memory"),
    failure_goes_back("time-out", "time_out"),
    failure_goes_back("launch-failure", "fail_launch"),
    preempted_goes_back,
    stopped_goes_back,
    running_goes_back,
    moves_the_submit_time,
    carried_hold_stays,
    admin_hold_stays,
    pending_is_refused,
    second_one_is_refused,
    weak_ref_is_refused,
    unknown_ref_is_not_found,
    bit_or_unsupported,
    crash_leaves_the_bit,
    crash_does_nothing_else,
    crash_of_an_unknown_one_is_not_found,
    by_somebody_else_leaves_the_bit,
    set_bit_is_restored_as_set,
    restore_clears_a_native_bit,
    restore_of_an_ended_one_is_refused,
    stop_while_under_way,
)
