"""Starts: a number names one object, which a start makes once, and one object stands for a job (CO-3, CO-5, CO-16)."""

from ...core import POLICY, SKEW, Kind, WaitingFor
from ...model import AlreadyExistsError, Capability, InvalidError
from ...spi import CessationSignal
from .bed import PATIENCE, CoreBed, restart
from .checking import core_check

__all__ = ("CHECKS",)


@core_check(
    "start.lost-reply-is-adopted",
    "An object whose start was never answered is adopted by whoever sees it.",
    rules="CO-1 CO-3",
)
async def lost_reply_is_adopted(bed: CoreBed) -> None:
    bed.one.crash("start", done=True)
    job = await bed.submit()
    status = await bed.free(job, await bed.other())
    bed.expect(status.submission == 1, "submission=1", repr(status.submission))
    bed.expect(len(bed.made("start")) == 1, "one start", bed.told)


@core_check(
    "start.late-one-is-waited-for",
    "A start that was given up and is still on its way is not made again: what it makes is adopted.",
    rules="CO-3 CO-4",
)
async def late_one_is_waited_for(bed: CoreBed) -> None:
    bed.one.line.delay("start")
    job = await bed.submit()
    status = await bed.settle(job)
    bed.expect(status.in_flight is Kind.START, "in_flight=Start", repr(status.in_flight))
    await bed.one.line.land()
    await bed.free(job)
    bed.expect(len(bed.made("start")) == 1, "one start", bed.told)


@core_check(
    "start.lands-at-the-last-moment",
    "Until its deadline and the bound of a call have passed, a start is waited for.",
    rules="CO-3 CO-4",
)
async def lands_at_the_last_moment(bed: CoreBed) -> None:
    bed.one.line.delay("start")
    async with bed.standing(bed.one, "start", bed.submit):
        await bed.cluster.advance(PATIENCE - bed.timings.poll)
    (job,) = bed.jobs
    await bed.cluster.advance(bed.capabilities.call_bound)
    await bed.settle(job)
    await bed.one.line.land()
    await bed.free(job)
    bed.expect(len(bed.made("start")) == 1, "one start", bed.told)


@core_check(
    "start.look-begun-before-the-bound-settles-nothing",
    "A look that was begun before a start could land no more says nothing of it, however late its answer comes.",
    rules="CO-3 CO-16",
)
async def look_begun_before_the_bound(bed: CoreBed) -> None:
    bed.one.line.delay("start")
    job = await bed.submit()
    two = await bed.other()
    await bed.cluster.advance(PATIENCE + bed.capabilities.call_bound)
    async with bed.standing(two, "find", lambda: bed.step(job, two), done=True):
        await bed.one.line.land()
        await bed.cluster.advance(2 * SKEW)
    bed.expect(len(bed.made("start")) == 1, "one start", bed.told)
    await bed.free(job, two)
    bed.expect(await bed.live(job) == [1], "one object", repr(await bed.live(job)))


@core_check(
    "start.never-landed-spends-its-number",
    "A start of which nothing is seen when it can land no more is followed by one with the next number.",
    rules="CO-3 CO-5",
)
async def never_landed_spends_its_number(bed: CoreBed) -> None:
    bed.one.drop("start")
    job = await bed.submit()
    await bed.outlast(job)
    status = await bed.free(job)
    bed.expect(status.submission == 2, "submission=2", repr(status.submission))  # noqa: PLR2004


@core_check(
    "start.refused-gives-its-number-back",
    "A start that is refused is made again with its number, and is under way no more.",
    rules="CO-5 CO-12",
)
async def refused_gives_its_number_back(bed: CoreBed) -> None:
    bed.one.refuse("start")
    job = await bed.submit()
    status = await bed.free(job)
    bed.expect(status.submission == 1, "submission=1", repr(status.submission))


@core_check(
    "start.already-exists-means-landed",
    "A start that is answered with AlreadyExistsError has landed: its object is adopted.",
    rules="CO-3",
)
async def already_exists_means_landed(bed: CoreBed) -> None:
    bed.one.mishaps.fail("start", AlreadyExistsError("the name is in use"), done=True)
    job = await bed.submit()
    await bed.free(job)
    bed.expect(await bed.live(job) == [1], "one object", repr(await bed.live(job)))
    bed.expect(len(bed.made("start")) == 1, "one start", bed.told)


@core_check(
    "start.refused-for-good-waits-for-a-person",
    "A job that can never be started as it is waits for a person, with the reason, and starts when released.",
    rules="CO-12",
)
async def refused_for_good(bed: CoreBed) -> None:
    bed.one.mishaps.fail("start", InvalidError("the queue is unknown"))
    job = await bed.submit()
    status = await bed.shows(job, waiting_for=WaitingFor.HOLD, held_by=POLICY)
    bed.expect("the queue is unknown" in status.hold_reason, "the refusal as the reason", status.hold_reason)
    bed.expect_calls("start")
    await bed.operator.release(job, "a person")
    await bed.free(job)


@core_check(
    "start.after-one-that-nobody-saw-waits-for-proof",
    "Where a start got lost and its object was run and taken away, the next one waits until that has ceased.",
    rules="CO-2 CO-3",
    needs=(CessationSignal, Capability.CESSATION, "run", "lose_node", "fence_node"),
)
async def after_one_that_nobody_saw(bed: CoreBed) -> None:
    bed.one.crash("start", done=True)
    job = await bed.submit(restart())
    (seen,) = await bed.adapter.find(job)
    await bed.adapter.open(seen.ref)
    await bed.driver.run(seen.ref)
    await bed.driver.lose_node(seen.ref)
    await bed.adapter.stop(seen.ref)
    await bed.outlast(job)
    await bed.waits_for_proof(job, seen.ref)
    await bed.again(job)


@core_check(
    "start.others-are-stopped",
    "A live object that does not stand for the job is stopped, the one that does goes on.",
    rules="CO-3 CO-10",
)
async def others_are_stopped(bed: CoreBed) -> None:
    job = await bed.waiting()
    other = await bed.by_hand(job, 7)
    await bed.free(job)
    bed.expect(await bed.live(job) == [1], "the chosen object alone", repr(await bed.live(job)))
    bed.expect([call.ref for call in bed.made("stop")] == [other], f"a stop of {other}", bed.told)


@core_check(
    "start.others-end-first",
    "While another object of the job is ending, the gate is not opened.",
    rules="CO-2 CO-13",
    needs=(Capability.GATED_START, "run"),
)
async def others_end_first(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    job = await bed.submit()
    other = await bed.by_hand(job, 7)
    await bed.adapter.open(other)
    await bed.driver.run(other)
    await bed.settle(job)
    ended = await bed.live(job) == [1]
    bed.expect(ended or not bed.made("open"), "no open while the other is live", bed.told)
    await bed.free(job)


@core_check(
    "start.epochs-rise",
    "Each execution has a higher epoch than all before it, whether it comes of a requeue or of a new submission.",
    rules="CO-5",
    needs=("run", "finish"),
)
async def epochs_rise(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    epochs = [(1, 0)]
    for deleted in (False, True, False):
        if deleted:
            ref = await bed.ref(job)
            await bed.adapter.stop(ref)
            await bed.stopped(ref)
            await bed.vouch(job)
        else:
            await bed.end(job)
        await bed.free(job)
        await bed.run(job)
        status = await bed.status(job)
        epochs.append((status.submission, status.restarts))
    bed.expect(epochs == sorted(set(epochs)), "rising epochs", repr(epochs))
    true = [execution.epoch for execution in await bed.cluster.executions(job) or ()]
    bed.expect(true == sorted(set(true)), "rising epochs", repr(true))


CHECKS = (
    lost_reply_is_adopted,
    late_one_is_waited_for,
    lands_at_the_last_moment,
    look_begun_before_the_bound,
    never_landed_spends_its_number,
    refused_gives_its_number_back,
    already_exists_means_landed,
    refused_for_good,
    after_one_that_nobody_saw,
    others_are_stopped,
    others_end_first,
    epochs_rise,
)
