"""Preemption: what gives way to something more important ends or waits again, and says so."""

from ...model import Capability, Cause, CrashedError, Observation, Ref, State
from ...spi import Requeuer, Watcher
from ..bed import Bed
from ..checks import check
from ..harness import Fault, Preemption
from ..watching import watching

__all__ = ("CHECKS",)

PREEMPT = ("run", "preempt")
REQUEUE = (Requeuer, Capability.REQUEUE)


async def left(bed: Bed, ref: Ref, restarts: int = 0) -> Observation:
    """Preempt an object whose bit is clear, and see that it is what a preemption leaves, by the traits."""
    await bed.driver.preempt(ref)
    state = State.FAILED if bed.traits.preemption is Preemption.ENDED else State.PENDING
    return await bed.see(ref, state=state, cause=Cause.PREEMPTED, exit_code=None, restarts=restarts, gated=False)


async def requeued(bed: Bed, ref: Ref, restarts: int) -> None:
    """Preempt an object whose bit is set, and see that the scheduler requeues it and leaves the bit."""
    await bed.driver.preempt(ref)
    await bed.see(
        ref,
        state=State.PENDING,
        cause=Cause.REQUEUED,
        gated=False,
        restarts=restarts,
        requeue_bit=True,
        started_at=None,
        ended_at=None,
    )


@check(
    "preemption.leaves-what-it-does",
    "A preempted object has ended or waits, as the traits say; its cause is its own; the restart counter stays.",
    rules="SL-10 KF-4 TM-6",
    needs=PREEMPT,
)
async def leaves_what_it_does(bed: Bed) -> None:
    ref = await bed.running()
    began = (await bed.get(ref)).started_at
    seen = await left(bed, ref)
    if bed.traits.preemption is Preemption.ENDED:
        bed.expect(seen.started_at == began and seen.ended_at is not None, "when it began and ended", seen, seen)
    else:
        bed.expect(seen.started_at is None and seen.ended_at is None, "no times of one that waits", seen, seen)
    await bed.stays(ref, seen, "time after a preemption")


@check(
    "preemption.what-waits-runs-again",
    "An object that a preemption left waiting runs again, and then shows no cause any more; one that ended does not.",
    rules="SL-10 KF-4 TM-6",
    needs=PREEMPT,
)
async def what_waits_runs_again(bed: Bed) -> None:
    ref = await bed.running()
    seen = await left(bed, ref)
    if bed.traits.preemption is Preemption.ENDED:
        await bed.not_run(ref)
    else:
        for _ in range(2):
            await bed.driver.run(seen.ref)
            await bed.see(ref, state=State.RUNNING, cause=None, restarts=0)
            await left(bed, ref)


@check(
    "preemption.cause-is-never-collapsed",
    "All that watchers are told of a preemption bears its cause, never that of a failure or of a stop.",
    rules="1.1 SL-10 SL-14 KF-4",
    needs=(*PREEMPT, Watcher, Capability.WATCH),
)
async def cause_is_never_collapsed(bed: Bed) -> None:
    ref = await bed.running()
    async with watching(bed) as reader:
        seen = await left(bed, ref)
        told = await reader.rest()
    causes = {change.cause for change in told}
    bed.expect(causes == {Cause.PREEMPTED}, "told: changes whose cause is Preempted", told, seen)


@check(
    "preemption.set-bit-makes-it-a-requeue",
    "With the requeue bit left set, the scheduler requeues a preempted object of its own accord; the bit stays set.",
    rules="SL-10",
    needs=(*REQUEUE, *PREEMPT, "requeue_externally"),
)
async def set_bit_makes_it_a_requeue(bed: Bed) -> None:
    ref = await bed.left_requeueable()
    await requeued(bed, ref, restarts=2)
    seen = await bed.get(ref)
    await bed.driver.run(seen.ref)
    await bed.see(ref, state=State.RUNNING, cause=None)
    await requeued(bed, seen.ref, restarts=3)


@check(
    "preemption.crash-makes-it-a-requeue",
    "The bit that a crashed requeue has left set makes a requeue of a preemption.",
    rules="SL-8 SL-10",
    needs=(*REQUEUE, *PREEMPT, Fault.CRASH_BETWEEN_STEPS),
)
async def crash_makes_it_a_requeue(bed: Bed) -> None:
    ref = await bed.running()
    async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
        await bed.refused(CrashedError, bed.requeuer.requeue(ref, bed.meta()), "a requeue that crashes", ref)
    await requeued(bed, ref, restarts=1)


@check(
    "preemption.restored-bit-does-not",
    "Once the bit is restored, a preempted object is again what a preemption leaves.",
    rules="SL-9 SL-10",
    needs=(*REQUEUE, *PREEMPT, "requeue_externally"),
)
async def restored_bit_does_not(bed: Bed) -> None:
    ref = await bed.left_requeueable()
    await bed.requeuer.restore_requeue_bit(ref, bed.meta())
    await left(bed, ref, restarts=1)


CHECKS = (
    leaves_what_it_does,
    what_waits_runs_again,
    cause_is_never_collapsed,
    set_bit_makes_it_a_requeue,
    crash_makes_it_a_requeue,
    restored_bit_does_not,
)
