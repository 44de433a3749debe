"""Stop: one object is ended on purpose, whatever condition it is in, and no other."""

from ...model import Capability, Cause, InvalidError, NotFoundError, State
from ...spi import Holder
from ..bed import Bed
from ..checks import check
from ..harness import Stop

__all__ = ("CHECKS",)


@check("stop.pending", "An object that waits is stopped.", rules="SL-5 KF-3")
async def pending(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    if bed.traits.stop is Stop.CANCELLED:
        seen = await bed.see(ref, started_at=None)
        bed.expect(seen.ended_at is not None, "ended_at", "none", seen)


@check(
    "stop.gated",
    "An object that is gated is stopped.",
    rules="SL-5",
    needs=(Capability.GATED_START,),
)
async def gated(bed: Bed) -> None:
    ref = await bed.started()
    await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "stop.running",
    "An object that runs is stopped.",
    rules="SL-5 SL-14 KF-3",
    needs=("run",),
)
async def running(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    if bed.traits.stop is Stop.CANCELLED:
        seen = await bed.see(ref, started_at=before.started_at)
        bed.expect(seen.ended_at is not None, "ended_at", "none", seen)


@check(
    "stop.running-twice",
    "A second stop, while the execution may still live or after it, changes nothing of the first.",
    rules="SL-5 SL-14 KF-3",
    needs=("run",),
)
async def running_twice(bed: Bed) -> None:
    ref = await bed.running()
    await bed.adapter.stop(ref)
    if bed.traits.stop is Stop.NOTHING:
        await bed.gone(ref)
        await bed.refused(NotFoundError, bed.adapter.stop(ref), "stopping what a stop has deleted", ref)
    else:
        await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "stop.held",
    "An object that is held is stopped.",
    rules="SL-5 KF-3",
    needs=(Holder, Capability.HOLD),
)
async def held(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(1))
    await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "stop.admin-held",
    "An object that an administrator holds is stopped.",
    rules="SL-5 KF-3",
    needs=("admin_hold",),
)
async def admin_held(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.driver.admin_hold(ref)
    await bed.see(ref, cause=Cause.ADMIN_HELD)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "stop.ended",
    "A stop of an object that has ended is no error: it is deleted where a stop deletes, and else stays as it is.",
    rules="SL-5 KF-3",
    needs=("run", "finish"),
)
async def ended(bed: Bed) -> None:
    ref = await bed.ended(exit_code=3)
    before = await bed.get(ref)
    await bed.adapter.stop(ref)
    if bed.traits.stop is Stop.NOTHING:
        await bed.gone(ref)
    else:
        await bed.stays(ref, before, "stopping it after its end")


@check(
    "stop.no-other",
    "No other object is stopped, of the same job or of another.",
    rules="1.3 SL-5 KF-3",
)
async def no_other(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.pending(job)
    others = [await bed.pending(job, 2), await bed.pending()]
    if not bed.traits.unique_names:
        others.append(await bed.pending(job))
    before = [await bed.get(other) for other in others]
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    for other, was in zip(others, before, strict=True):
        await bed.stays(other, was, f"stopping {ref}")


@check(
    "stop.weak-ref-is-refused",
    "A weak ref stops nothing.",
    rules="1.2 1.3",
)
async def weak_ref_is_refused(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    await bed.refused(InvalidError, bed.adapter.stop(bed.as_weak(ref)), "stopping by a weak ref", ref)
    await bed.stays(ref, before, "a refused stop")


@check(
    "stop.unknown-is-not-found",
    "A ref that names no object stops nothing, also if only its submit time is another.",
    rules="1.3 SL-2 SL-5 KF-1",
)
async def unknown_is_not_found(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    for stranger in bed.strangers(ref):
        await bed.refused(NotFoundError, bed.adapter.stop(stranger), f"stopping the unknown {stranger}", ref)
    await bed.see(ref, state=State.PENDING)
    await bed.stays(ref, before, "stopping another")


CHECKS = (
    pending,
    gated,
    running,
    running_twice,
    held,
    admin_held,
    ended,
    no_other,
    weak_ref_is_refused,
    unknown_is_not_found,
)
