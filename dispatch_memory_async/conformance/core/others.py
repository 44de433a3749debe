"""Others: what they do is neither fought nor mistaken for ours; and a bare adapter is enough (CO-10, CO-13)."""

from ...core import POLICY, Phase, WaitingFor
from ...model import Cause, State
from .bed import CoreBed, restart
from .checking import core_check
from .line import OPTIONAL

__all__ = ("CHECKS",)


@core_check(
    "others.admin-hold",
    "An administrator's hold is waited for, and nothing is done about it.",
    rules="CO-10 CO-12",
    needs=("admin_hold", "admin_release"),
)
async def admin_hold(bed: CoreBed) -> None:
    for waits in (False, True):
        job = await (bed.waiting() if waits else bed.submit())
        ref = await bed.ref(job)
        await bed.driver.admin_hold(ref)
        since = len(bed.log)
        await bed.shows(job, waiting_for=WaitingFor.ADMIN)
        bed.expect_calls(since=since)
        await bed.driver.admin_release(ref)
        await bed.free(job)


@core_check(
    "others.deactivation",
    "A deactivation by somebody else is waited for, and nothing is done about it.",
    rules="CO-10 CO-12",
    needs=("deactivate_externally", "reactivate_externally"),
)
async def deactivation(bed: CoreBed) -> None:
    job = await bed.waiting()
    ref = await bed.ref(job)
    await bed.driver.deactivate_externally(ref)
    since = len(bed.log)
    await bed.shows(job, waiting_for=WaitingFor.OTHER)
    bed.expect_calls(since=since)
    await bed.driver.reactivate_externally(ref)
    await bed.free(job)


@core_check(
    "others.stop-is-an-end-like-others",
    "An object that somebody else stops is restarted only where a rule names that.",
    rules="CO-8 CO-10",
    needs=("run",),
)
async def stop_is_an_end(bed: CoreBed) -> None:
    for rule, restarted in ((restart(Cause.NON_ZERO_EXIT), False), (restart(Cause.STOPPED, Cause.UNKNOWN), True)):
        job = await bed.runs(rule)
        ref = await bed.ref(job)
        await bed.adapter.stop(ref)
        await bed.stopped(ref)
        await bed.vouch(job)
        if restarted:
            await bed.free(job)
        else:
            begun = bed.begun
            await bed.shows(job, waiting_for=WaitingFor.HOLD, held_by=POLICY)
            bed.expect(bed.begun == begun, "nothing is begun", bed.told)


@core_check(
    "others.requeue-takes-an-end-back",
    "An ended object that somebody else requeues is live again: its end is dropped, and not restarted by us.",
    rules="CO-8 CO-10",
    needs=("run", "finish", "requeue_externally"),
)
async def requeue_takes_an_end_back(bed: CoreBed) -> None:
    job = await bed.runs(restart(limit=1, backoff=bed.timings.wait / 2))
    await bed.end(job)
    await bed.shows(job, waiting_for=WaitingFor.POLICY_BACKOFF)
    begun = bed.begun
    await bed.driver.requeue_externally(await bed.ref(job))
    await bed.free(job)
    await bed.cluster.advance(bed.timings.wait)
    await bed.run(job)
    bed.expect(bed.begun == begun, "nothing is begun by us", bed.told)
    counts = (await bed.record(job)).counts
    bed.expect(counts == (0,), "no rule is charged", repr(counts))


@core_check(
    "bare.life",
    "With nothing but an adapter a job is restarted, and comes to its verdict.",
    rules="CO-13",
    needs=("run", "finish"),
)
async def life(bed: CoreBed) -> None:
    bed.hide(*OPTIONAL)
    job = await bed.runs(restart(limit=1))
    await bed.end(job)
    await bed.again(job)
    await bed.run(job)
    await bed.end(job, 0)
    await bed.done(job, State.SUCCEEDED, None)


@core_check(
    "bare.bit",
    "Where the bit cannot be restored it is left, and the job goes on.",
    rules="CO-7 CO-13",
    needs=("run", "finish", "requeue_externally"),
)
async def bit(bed: CoreBed) -> None:
    bed.hide(*OPTIONAL)
    job = await bed.runs()
    await bed.driver.requeue_externally(await bed.ref(job))
    await bed.free(job)
    await bed.run(job)
    await bed.end(job, 0)
    await bed.shows(job, state=Phase.DONE)


CHECKS = (admin_hold, deactivation, stop_is_an_end, requeue_takes_an_end_back, life, bit)
