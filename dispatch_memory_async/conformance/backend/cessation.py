"""Cessation: whether executions have provably ceased, whatever the scheduler calls their object."""

from ulid import ULID

from ...model import Capability, Cause, Cessation, NotFoundError, OutcomeUnknownError, Ref, State
from ...spi import CessationSignal, Holder, IdentityWeakener, Requeuer
from ..bed import Bed
from ..checks import check
from ..harness import Fault

__all__ = ("CHECKS",)

CESSATION = (CessationSignal, Capability.CESSATION)
LOSE = ("run", "lose_node")


async def lives(bed: Bed, *whats: Ref | ULID) -> None:
    """See that nothing here is said to have ceased."""
    for what in whats:
        answer = await bed.signal.cessation(what)
        bed.expect(not answer.ceased, f"not ceased: {what}", answer)


async def unproven(bed: Bed, *whats: Ref | ULID) -> None:
    """See that a lost node is taken for no proof, unless the adapter says what else is known of it."""
    for what in whats:
        answer = await bed.signal.cessation(what)
        bed.expect(not answer.ceased or bool(answer.detail), f"no proof, or a detail that says why: {what}", answer)


async def ceases(bed: Bed, *whats: Ref | ULID) -> None:
    """See that everything here is said to have ceased, in time; for a job, an adapter may say why it cannot know."""
    for what in whats:
        answer = Cessation(ceased=False)

        async def told(what: Ref | ULID = what) -> bool:
            nonlocal answer
            answer = await bed.signal.cessation(what)
            return answer.ceased or (isinstance(what, ULID) and bool(answer.detail))

        bed.expect(await bed.eventually(told), f"ceased: {what}", answer)


# as an object's life goes


@check(
    "cessation.never-begun",
    "Of an object that never ran, and of its job, every execution has ceased; so it has once it is stopped.",
    rules="1.3",
    needs=CESSATION,
)
async def never_begun(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.started(job)
    await ceases(bed, ref, job.id)
    await bed.adapter.open(ref)
    await ceases(bed, ref, job.id)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    await ceases(bed, job.id)


@check(
    "cessation.running",
    "Of a running object, and of its job, the execution has not ceased.",
    rules="1.3",
    needs=(*CESSATION, "run"),
)
async def running(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await lives(bed, ref, job.id)


@check(
    "cessation.ended",
    "Once the execution has exited, it has ceased.",
    rules="1.3",
    needs=(*CESSATION, "run", "finish"),
)
async def ended(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.finish(ref, 0)
    await bed.see(ref, state=State.SUCCEEDED)
    await ceases(bed, ref, job.id)


@check(
    "cessation.stopped",
    "The execution of a stopped object ceases, whether or not an object is left.",
    rules="1.3 SL-14 KF-10",
    needs=(*CESSATION, "run"),
)
async def stopped(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    await ceases(bed, job.id)


@check(
    "cessation.preempted",
    "The execution of a preempted object ceases.",
    rules="1.3 SL-14 KF-10",
    needs=(*CESSATION, "run", "preempt"),
)
async def preempted(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.preempt(ref)
    await bed.see(ref, cause=Cause.PREEMPTED)
    await ceases(bed, await bed.weak(ref), job.id)


@check(
    "cessation.run-again",
    "An object that runs again has not ceased, though its earlier execution has.",
    rules="1.3",
    needs=(*CESSATION, Requeuer, Capability.REQUEUE, "run", "finish"),
)
async def run_again(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    if bed.traits.requeues_ended:
        await bed.driver.finish(ref, 0)
        await bed.see(ref, state=State.SUCCEEDED)
    await bed.requeuer.requeue((await bed.get(ref)).ref, bed.meta())
    seen = await bed.see(ref, state=State.PENDING)
    await ceases(bed, seen.ref, job.id)
    await bed.driver.run(seen.ref)
    await bed.see(ref, state=State.RUNNING)
    await lives(bed, seen.ref, job.id)


# lost nodes


@check(
    "cessation.lost-node-proves-nothing",
    "That a node is lost is no proof, until the node is fenced.",
    rules="1.3 2.7",
    needs=(*CESSATION, *LOSE, "fence_node"),
)
async def lost_node_proves_nothing(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.lose_node(ref)
    await unproven(bed, ref, job.id)
    await bed.driver.fence_node(ref)
    await ceases(bed, ref, job.id)


@check(
    "cessation.ended-on-a-lost-node-proves-nothing",
    "That the scheduler calls an object on a lost node lost, or ended, is no proof, until the node is fenced.",
    rules="1.3 SL-11 KF-5",
    needs=(*CESSATION, *LOSE, "fence_node"),
)
async def ended_on_a_lost_node_proves_nothing(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.lost(ref)
    await unproven(bed, ref, job.id)
    await bed.driver.fence_node(ref)
    await ceases(bed, ref, job.id)


@check(
    "cessation.returned-node",
    "A node that is back proves nothing of what runs on, but that what the object left behind there is gone.",
    rules="1.3 2.7",
    needs=(*CESSATION, *LOSE, "return_node"),
)
async def returned_node(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.lose_node(ref)
    said = (await bed.signal.cessation(ref)).ceased
    await bed.driver.return_node(ref)
    if not said and (await bed.get(ref)).state is State.RUNNING:
        await lives(bed, ref, job.id)
        await bed.driver.lose_node(ref)
        await bed.adapter.stop(ref)
        await bed.stopped(ref)
        await unproven(bed, job.id)
        await bed.driver.return_node(ref)
    await ceases(bed, job.id)


@check(
    "cessation.is-never-taken-back",
    "What was once said to have ceased has, also when the node is back.",
    rules="1.3 2.7",
    needs=(*CESSATION, *LOSE, "fence_node", "return_node"),
)
async def is_never_taken_back(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.lose_node(ref)
    await bed.driver.fence_node(ref)
    await ceases(bed, ref, job.id)
    await bed.driver.return_node(ref)
    await ceases(bed, ref, job.id)
    await bed.see(ref, state=State.FAILED)
    await ceases(bed, ref, job.id)


@check(
    "cessation.requeued-off-a-lost-node",
    "What an object left behind on a lost node counts while it waits and once it has run again, until it is fenced.",
    rules="1.3 SL-7",
    needs=(*CESSATION, Requeuer, Capability.REQUEUE, *LOSE, "finish", "fence_node"),
)
async def requeued_off_a_lost_node(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.lose_node(ref)
    await bed.requeuer.requeue((await bed.get(ref)).ref, bed.meta())
    seen = await bed.see(ref, state=State.PENDING)
    await unproven(bed, seen.ref, job.id)
    await bed.driver.run(seen.ref)
    await bed.see(ref, state=State.RUNNING)
    await bed.driver.finish(seen.ref, 0)
    await bed.see(ref, state=State.SUCCEEDED)
    await unproven(bed, seen.ref, job.id)
    await bed.driver.fence_node(seen.ref)
    await ceases(bed, seen.ref, job.id)


@check(
    "cessation.held-off-a-lost-node",
    "What an object left behind on a lost node counts while it is held and once it has run again, until it is fenced.",
    rules="1.3 KF-5 KF-7",
    needs=(*CESSATION, Holder, Capability.HOLD_RUNNING, *LOSE, "finish", "fence_node"),
)
async def held_off_a_lost_node(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.lose_node(ref)
    await bed.holder.hold(ref, bed.held(1))
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD)
    await unproven(bed, ref, job.id)
    await bed.holder.release(ref, bed.released(1))
    await bed.see(ref, state=State.PENDING, hold=None)
    await bed.driver.run(ref)
    await bed.see(ref, state=State.RUNNING)
    await bed.driver.finish(ref, 0)
    await bed.see(ref, state=State.SUCCEEDED)
    await unproven(bed, ref, job.id)
    await bed.driver.fence_node(ref)
    await ceases(bed, ref, job.id)


# jobs


@check(
    "cessation.job-covers-every-object",
    "A job has not ceased while any of its objects has not, whichever it is.",
    rules="1.3",
    needs=(*CESSATION, "run", "finish"),
)
async def job_covers_every_object(bed: Bed) -> None:
    job = bed.job()
    refs = [await bed.running(job, submission) for submission in (1, 2, 3)]
    for ref in (refs[1], refs[0], refs[2]):
        await lives(bed, job.id)
        await bed.driver.finish(ref, 0)
        await bed.see(ref, state=State.SUCCEEDED)
        await ceases(bed, ref)
    await ceases(bed, job.id)


@check(
    "cessation.job-covers-what-has-left",
    "A job has not ceased while a process of it may live of whose object the scheduler knows no more.",
    rules="1.3 KF-3 SL-12",
    needs=(*CESSATION, *LOSE, "fence_node"),
)
async def job_covers_what_has_left(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.running(job)
    await bed.driver.lose_node(ref)
    await bed.leaves(ref)
    await unproven(bed, job.id)
    await bed.driver.fence_node(ref)
    await ceases(bed, job.id)


@check(
    "cessation.job-covers-what-was-never-seen",
    "A job has not ceased while an object of it runs whose start was never answered.",
    rules="1.3",
    needs=(*CESSATION, Fault.LOST_REPLY, "run"),
)
async def job_covers_what_was_never_seen(bed: Bed) -> None:
    job = bed.job()
    async with bed.inject(Fault.LOST_REPLY, "start"):
        await bed.refused(OutcomeUnknownError, bed.adapter.start(job, 1), "a start whose reply is lost")
    (seen,) = await bed.adapter.find(job.id)
    await ceases(bed, job.id)
    await bed.adapter.open(seen.ref)
    await bed.driver.run(seen.ref)
    await bed.see(seen.ref, state=State.RUNNING)
    await lives(bed, job.id)


@check(
    "cessation.unknown-job-is-no-error",
    "A job of which nothing is known is no error: none of its executions began, or it is said why that is not known.",
    rules="1.3",
    needs=CESSATION,
)
async def unknown_job_is_no_error(bed: Bed) -> None:
    await ceases(bed, bed.job().id)


# refs


@check(
    "cessation.unknown-ref-is-not-found",
    "A ref that names no object is not found.",
    rules="1.3 SL-2",
    needs=CESSATION,
)
async def unknown_ref_is_not_found(bed: Bed) -> None:
    for stranger in bed.strangers(await bed.pending()):
        await bed.refused(NotFoundError, bed.signal.cessation(stranger), f"the cessation of {stranger}")


@check(
    "cessation.what-has-left-is-not-found",
    "A ref whose object the scheduler knows no more, or from history alone, is not found; its job is no error.",
    rules="1.3 SL-12 KF-3",
    needs=CESSATION,
)
async def what_has_left_is_not_found(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.departed(job)
    for named in (ref, await bed.weak(ref)):
        await bed.refused(NotFoundError, bed.signal.cessation(named), f"the cessation of {named}", ref)
    await ceases(bed, job.id)


@check(
    "cessation.weak-ref-reads",
    "A weak ref is answered as the exact one is.",
    rules="1.3",
    needs=(*CESSATION, IdentityWeakener, "run", "finish"),
)
async def weak_ref_reads(bed: Bed) -> None:
    ref = await bed.running()
    weak = await bed.weak(ref)
    await lives(bed, weak)
    await bed.driver.finish(ref, 0)
    await bed.see(ref, state=State.SUCCEEDED)
    await ceases(bed, weak)


CHECKS = (
    never_begun,
    running,
    ended,
    stopped,
    preempted,
    run_again,
    lost_node_proves_nothing,
    ended_on_a_lost_node_proves_nothing,
    returned_node,
    is_never_taken_back,
    requeued_off_a_lost_node,
    held_off_a_lost_node,
    job_covers_every_object,
    job_covers_what_has_left,
    job_covers_what_was_never_seen,
    unknown_job_is_no_error,
    unknown_ref_is_not_found,
    what_has_left_is_not_found,
    weak_ref_reads,
)
