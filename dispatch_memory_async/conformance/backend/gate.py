"""Gate: what open lifts, and what forbids it."""

from ...model import Capability, Cause, FinishedError, HeldError, InvalidError, NotFoundError, State
from ...spi import Holder
from ..bed import Bed
from ..checks import check

__all__ = ("CHECKS",)


@check(
    "gate.open-lifts-it",
    "An object that was opened waits ungated, under the same ref.",
    rules="1.3 SL-3",
    needs=(Capability.GATED_START,),
)
async def open_lifts_it(bed: Bed) -> None:
    ref = await bed.started()
    await bed.adapter.open(ref)
    seen = await bed.see(ref, state=State.PENDING, gated=False, ref=ref)
    bed.expect(seen.cause is not Cause.GATED, f"another cause than {Cause.GATED}", str(seen.cause), seen)


@check(
    "gate.opened-can-run",
    "An object that was opened can be run.",
    rules="1.3 SL-3",
    needs=(Capability.GATED_START, "run"),
)
async def opened_can_run(bed: Bed) -> None:
    ref = await bed.running()
    await bed.see(ref, state=State.RUNNING, cause=None, gated=False)


@check(
    "gate.open-again-changes-nothing",
    "An object that is not gated, or not any more, is opened without effect.",
    rules="1.3 KF-2",
)
async def open_again_changes_nothing(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    await bed.adapter.open(ref)
    await bed.stays(ref, before, "opening it again")


@check(
    "gate.open-of-a-running-one-changes-nothing",
    "An object that runs is opened without effect.",
    rules="1.3 KF-2",
    needs=("run",),
)
async def open_of_a_running_one_changes_nothing(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await bed.adapter.open(ref)
    await bed.stays(ref, before, "opening it while it runs")


@check(
    "gate.ended-is-refused",
    "An object that has ended is not opened.",
    rules="SL-4 KF-2",
    needs=("run", "finish"),
)
async def ended_is_refused(bed: Bed) -> None:
    ref = await bed.ended()
    before = await bed.get(ref)
    await bed.refused(FinishedError, bed.adapter.open(ref), "opening an ended object", ref)
    await bed.stays(ref, before, "a refused open")


@check(
    "gate.admin-hold-forbids-it",
    "Under an administrator's hold open is refused and the gate stays, unless the hold has taken its place.",
    rules="SL-4 TM-6",
    needs=(Capability.GATED_START, "admin_hold"),
)
async def admin_hold_forbids_it(bed: Bed) -> None:
    ref = await bed.started()
    await bed.driver.admin_hold(ref)
    gated = not bed.traits.admin_hold_opens
    before = await bed.see(ref, state=State.PENDING, cause=Cause.ADMIN_HELD, gated=gated)
    await bed.refused(HeldError, bed.adapter.open(ref), "opening what an administrator holds", ref)
    await bed.stays(ref, before, "a refused open")


@check(
    "gate.opens-after-an-admin-hold",
    "Once an administrator's hold is lifted, the gate is as it was and can be opened; or open, as the traits say.",
    rules="SL-4 TM-6",
    needs=(Capability.GATED_START, "admin_hold", "admin_release"),
)
async def opens_after_an_admin_hold(bed: Bed) -> None:
    ref = await bed.started()
    await bed.driver.admin_hold(ref)
    await bed.see(ref, cause=Cause.ADMIN_HELD)
    await bed.driver.admin_release(ref)
    if not bed.traits.admin_hold_opens:
        await bed.see(ref, state=State.PENDING, cause=Cause.GATED, gated=True)
    await bed.adapter.open(ref)
    await bed.see(ref, state=State.PENDING, gated=False)


@check(
    "gate.hold-survives-open",
    "A hold on an object is still in force when it was opened.",
    rules="SL-6",
    needs=(Holder, Capability.HOLD),
)
async def hold_survives_open(bed: Bed) -> None:
    ref = await bed.started()
    await bed.holder.hold(ref, bed.held(3))
    await bed.adapter.open(ref)
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, gated=False, hold=3)


@check(
    "gate.weak-ref-is-refused",
    "A weak ref opens nothing.",
    rules="1.2 1.3",
)
async def weak_ref_is_refused(bed: Bed) -> None:
    ref = await bed.started()
    before = await bed.get(ref)
    await bed.refused(InvalidError, bed.adapter.open(bed.as_weak(ref)), "opening by a weak ref", ref)
    await bed.stays(ref, before, "a refused open")


@check(
    "gate.unknown-is-not-found",
    "A ref that names no object opens nothing.",
    rules="1.3 SL-2 KF-1",
)
async def unknown_is_not_found(bed: Bed) -> None:
    ref = await bed.started()
    before = await bed.get(ref)
    for stranger in bed.strangers(ref):
        await bed.refused(NotFoundError, bed.adapter.open(stranger), f"opening the unknown {stranger}", ref)
    await bed.stays(ref, before, "opening another")


CHECKS = (
    open_lifts_it,
    opened_can_run,
    open_again_changes_nothing,
    open_of_a_running_one_changes_nothing,
    ended_is_refused,
    admin_hold_forbids_it,
    opens_after_an_admin_hold,
    hold_survives_open,
    weak_ref_is_refused,
    unknown_is_not_found,
)
