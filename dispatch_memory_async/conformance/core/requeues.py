"""Requeues: a restart is one where that can be, and the requeue bit is never left set (CO-7, CO-11)."""

from ulid import ULID

from ...core import Kind, Phase
from ...model import Action, Capability, Cause, FinishedError, Ref, Rule, State
from ...spi import Requeuer
from ..findings import CheckSkipped
from ..harness import Fault
from .bed import CoreBed, restart
from .checking import core_check

__all__ = ("CHECKS",)

REQUEUE = (Requeuer, Capability.REQUEUE, "run", "finish")


@core_check(
    "restart.is-a-requeue",
    "Where an ended object can be requeued, a restart is that.",
    rules="CO-11",
    needs=REQUEUE,
)
async def is_a_requeue(bed: CoreBed) -> None:
    bed.requeues_ended()
    job = await bed.runs(restart())
    await bed.end(job)
    status = await bed.again(job)
    bed.expect((status.submission, status.restarts) == (1, 1), "submission 1, restart 1", bed.told, status.chosen)


@core_check(
    "restart.is-a-new-submission",
    "Where objects cannot be requeued, a restart is a new submission.",
    rules="CO-11 CO-13",
    needs=("run", "finish"),
)
async def is_a_new_submission(bed: CoreBed) -> None:
    bed.hide(Requeuer)
    job = await bed.runs(restart())
    await bed.end(job)
    status = await bed.again(job)
    bed.expect(status.submission == 2, "submission 2", bed.told, status.chosen)  # noqa: PLR2004


@core_check(
    "restart.twice",
    "An object that was requeued is requeued again, by the ref that it has now.",
    rules="CO-11",
    needs=REQUEUE,
)
async def twice(bed: CoreBed) -> None:
    bed.requeues_ended()
    job = await bed.runs(restart())
    for restarts in (1, 2):
        await bed.cluster.advance(2 * bed.timings.poll)
        await bed.end(job)
        await bed.again(job, restarts)
        await bed.run(job)


@core_check(
    "restart.from-history-is-a-new-submission",
    "An object that is known from accounting alone is not requeued.",
    rules="CO-11",
    needs=(*REQUEUE, Capability.ACCOUNTING_HISTORY),
)
async def from_history(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    ref = await bed.ref(job)
    await bed.end(job)
    await bed.forgotten(ref)
    status = await bed.again(job)
    bed.expect(status.submission == 2, "submission 2", bed.told, status.chosen)  # noqa: PLR2004


@core_check(
    "restart.of-one-with-its-bit-set-is-a-new-submission",
    "An ended object whose requeue bit is set is not requeued.",
    rules="CO-7 CO-11",
    needs=(*REQUEUE, "requeue_externally"),
)
async def of_one_with_its_bit_set(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    ref = await _requeued_by_somebody(bed, job)
    await bed.driver.run(ref)
    await bed.driver.finish(ref, 1)
    await bed.see(ref, state=State.FAILED)
    status = await bed.again(job)
    bed.expect(status.submission == 2, "submission 2", bed.told, status.chosen)  # noqa: PLR2004


@core_check(
    "restart.after-a-crash-between-steps-is-a-new-submission",
    "A requeue that broke off between its steps has left the bit set: the restart is a new submission.",
    rules="CO-1 CO-7 CO-11",
    needs=(*REQUEUE, Fault.CRASH_BETWEEN_STEPS),
)
async def after_a_crash_between_steps(bed: CoreBed) -> None:
    bed.requeues_ended()
    job = await bed.runs(restart())
    await bed.end(job)
    async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
        await bed.settle(job)
    await bed.outlast(job)
    status = await bed.free(job)
    bed.expect(status.submission == 2, "submission 2", bed.told, status.chosen)  # noqa: PLR2004


@core_check(
    "restart.after-a-refused-requeue-is-a-new-submission",
    "Where a scheduler requeues no object that has ended, the restart is a new submission, charged once.",
    rules="CO-8 CO-11 CO-12",
    needs=REQUEUE,
)
async def after_a_refused_requeue(bed: CoreBed) -> None:
    job = await bed.runs(restart(limit=1))
    await bed.end(job)
    bed.one.mishaps.fail("requeue", FinishedError("what has ended is not requeued here"))
    status = await bed.again(job)
    bed.expect(status.submission == 2, "submission 2", bed.told, status.chosen)  # noqa: PLR2004


@core_check(
    "restart.late-requeue-is-waited-for",
    "A requeue that was given up is neither made again nor followed by a start while it may land.",
    rules="CO-3 CO-4",
    needs=REQUEUE,
)
async def late_requeue_is_waited_for(bed: CoreBed) -> None:
    bed.requeues_ended()
    job = await bed.runs(restart(limit=1))
    await bed.end(job)
    bed.one.line.delay("requeue")
    await bed.settle(job)
    await bed.one.line.land()
    await bed.outlast(job)
    await bed.again(job)


@core_check(
    "restart.is-not-settled-by-somebody-elses",
    "A requeue of somebody else does not settle ours: it may still be on its way.",
    rules="CO-3 CO-4 CO-10",
    needs=(*REQUEUE, "requeue_externally"),
)
async def is_not_settled_by_somebody_elses(bed: CoreBed) -> None:
    bed.requeues_ended()
    job = await bed.runs(restart())
    await bed.end(job)
    ref = await bed.ref(job)
    two = await bed.other()
    async with bed.standing(bed.one, "requeue", lambda: bed.settle(job)):
        await bed.driver.requeue_externally(ref)
        since = len(bed.log)
        status = await bed.settle(job, two)
        bed.expect(status.in_flight is Kind.REQUEUE, "in_flight=Requeue", repr(status.in_flight), status.chosen)
        bed.expect_calls(since=since)
    await bed.free(job)


@core_check(
    "restart.of-one-that-vanished-is-the-policys",
    "Where an object is gone once its requeue can land no more, it has vanished: the policy decides on that.",
    rules="CO-1 CO-9",
    needs=REQUEUE,
)
async def of_one_that_vanished(bed: CoreBed) -> None:
    bed.requeues_ended()
    if bed.declares(Capability.ACCOUNTING_HISTORY):
        raise CheckSkipped("no object vanishes: there is accounting")
    fails = Rule(causes=frozenset({Cause.UNKNOWN}), action=Action.FAIL)
    job = await bed.runs(fails, restart())
    await bed.end(job)
    ref = await bed.ref(job)
    bed.one.crash("requeue")
    await bed.crashing(job)
    await bed.forgotten(ref)
    await bed.outlast(job)
    await bed.done(job, State.FAILED, Cause.UNKNOWN)


@core_check(
    "bit.is-restored",
    "A live object that shows its requeue bit gets it restored, waiting or running, and goes on.",
    rules="CO-7 CO-10",
    needs=(*REQUEUE, "requeue_externally"),
)
async def is_restored(bed: CoreBed) -> None:
    for runs in (False, True):
        job = await bed.runs(restart(limit=0))
        ref = await _requeued_by_somebody(bed, job)
        if runs:
            await bed.driver.run(ref)
        status = await bed.shows(job, state=Phase.RUNNING if runs else Phase.PENDING)
        seen = await bed.seen(job)
        bed.expect(seen.requeue_bit is False, "requeue_bit=False", f"requeue_bit={seen.requeue_bit}", seen)
        bed.expect(status.restarts == 1, "one restart, of somebody else's", repr(status.restarts), seen)


async def _requeued_by_somebody(bed: CoreBed, job: ULID) -> Ref:
    """The ref of a job's object after somebody else's requeue, which no supervisor has seen."""
    seen = await bed.with_a_bit(await bed.ref(job))
    await bed.driver.requeue_externally(seen.ref)
    return (await bed.see(seen.ref, state=State.PENDING, requeue_bit=True)).ref


CHECKS = (
    is_a_requeue,
    is_a_new_submission,
    twice,
    from_history,
    of_one_with_its_bit_set,
    after_a_crash_between_steps,
    after_a_refused_requeue,
    late_requeue_is_waited_for,
    is_not_settled_by_somebody_elses,
    of_one_that_vanished,
    is_restored,
)
