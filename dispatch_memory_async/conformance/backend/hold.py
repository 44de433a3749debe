"""Hold: an object is kept from running, until the instance that is in force is released."""

from collections.abc import Awaitable
from typing import cast

from ...model import (
    Capability,
    Cause,
    FinishedError,
    InvalidError,
    NotFoundError,
    Observation,
    Ref,
    RunningError,
    StaleError,
    State,
)
from ...spi import CessationSignal, Holder
from ..bed import Bed
from ..checks import check

__all__ = ("CHECKS",)

HOLD = (Holder, Capability.HOLD)


@check(
    "hold.pending",
    "An object that waits is held, and shows the instance.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def pending(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(7, by="a check", reason="to see it held"))
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=7, gated=False)


@check(
    "hold.is-not-run",
    "What is held is not run.",
    rules="SL-6 KF-7",
    needs=(*HOLD, "run"),
)
async def is_not_run(bed: Bed) -> None:
    ref, _ = await _held(bed, 1)
    await bed.not_run(ref)


@check(
    "hold.same-instance-again",
    "A hold of the instance in force changes nothing.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def same_instance_again(bed: Bed) -> None:
    ref, before = await _held(bed, 5)
    await bed.holder.hold(ref, bed.held(5))
    await bed.stays(ref, before, "a hold of the same instance")


@check(
    "hold.higher-instance-takes-over",
    "A hold of a higher instance takes over, and the old one can no longer be released.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def higher_instance_takes_over(bed: Bed) -> None:
    ref, _ = await _held(bed, 5)
    await bed.holder.hold(ref, bed.held(9))
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=9)
    await _stale(bed, ref, bed.holder.release(ref, bed.released(5)), 9)


@check(
    "hold.lower-instance-is-stale",
    "A hold of a lower instance than the one in force is refused, and told which one that is.",
    rules="SL-6 KF-7 1.2",
    needs=HOLD,
)
async def lower_instance_is_stale(bed: Bed) -> None:
    ref, before = await _held(bed, 5)
    await _stale(bed, ref, bed.holder.hold(ref, bed.held(4)), 5)
    await bed.stays(ref, before, "a refused hold")


@check(
    "hold.release",
    "A release of the instance in force lifts the hold.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def release(bed: Bed) -> None:
    ref, _ = await _held(bed, 5)
    await bed.holder.release(ref, bed.released(5))
    await _free(bed, ref)


@check(
    "hold.released-can-run",
    "What was released can be run.",
    rules="SL-6 KF-7",
    needs=(*HOLD, "run"),
)
async def released_can_run(bed: Bed) -> None:
    ref, _ = await _held(bed, 5)
    await bed.holder.release(ref, bed.released(5))
    await bed.driver.run(ref)
    await bed.see(ref, state=State.RUNNING, hold=None)


@check(
    "hold.release-of-another-instance-is-stale",
    "A release of any other instance, lower or higher, is refused, and told which one is in force.",
    rules="SL-6 KF-7 1.2",
    needs=HOLD,
)
async def release_of_another_instance_is_stale(bed: Bed) -> None:
    ref, before = await _held(bed, 5)
    for other in (4, 6):
        await _stale(bed, ref, bed.holder.release(ref, bed.released(other)), 5)
    await bed.stays(ref, before, "a refused release")


@check(
    "hold.release-of-one-not-held",
    "A release of an object that is not held is no error and changes nothing.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def release_of_one_not_held(bed: Bed) -> None:
    ref = await bed.pending()
    before = await bed.get(ref)
    await bed.holder.release(ref, bed.released(5))
    await bed.stays(ref, before, "a release without a hold")


@check(
    "hold.any-instance-after-a-release",
    "After a release any instance may hold the object, a lower one too.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def any_instance_after_a_release(bed: Bed) -> None:
    ref, _ = await _held(bed, 5)
    await bed.holder.release(ref, bed.released(5))
    await bed.see(ref, hold=None)
    await bed.holder.hold(ref, bed.held(1))
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=1)


@check(
    "hold.running",
    "An object that runs is pending and held where that can be done, and its execution over; else the hold is refused.",
    rules="SL-6 KF-7",
    needs=(*HOLD, "run"),
)
async def running(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    if bed.declares(Capability.HOLD_RUNNING):
        await bed.holder.hold(ref, bed.held(2))
        await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=2, started_at=None, ended_at=None)
    else:
        await bed.refused(RunningError, bed.holder.hold(ref, bed.held(2)), "a hold of a running object", ref)
        await bed.stays(ref, before, "a refused hold")


@check(
    "hold.running-ceases",
    "The execution of an object that was held while it ran ceases, and another begins after the release.",
    rules="KF-7 KF-10",
    needs=(*HOLD, Capability.HOLD_RUNNING, CessationSignal, Capability.CESSATION, "run"),
)
async def running_ceases(bed: Bed) -> None:
    ref = await bed.running()
    await bed.holder.hold(ref, bed.held(2))
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=2)

    async def ceased() -> bool:
        return (await bed.signal.cessation(await bed.weak(ref))).ceased

    bed.expect(await bed.eventually(ceased), "the held execution has ceased", "it has not", await bed.look(ref))
    await bed.holder.release(ref, bed.released(2))
    await bed.driver.run(ref)
    await bed.see(ref, state=State.RUNNING, hold=None)


@check(
    "hold.ended-is-refused",
    "An object that has ended is neither held nor released.",
    rules="SL-6 KF-7",
    needs=(*HOLD, "run", "finish"),
)
async def ended_is_refused(bed: Bed) -> None:
    ref = await bed.ended()
    before = await bed.get(ref)
    await bed.refused(FinishedError, bed.holder.hold(ref, bed.held(1)), "a hold of an ended object", ref)
    await bed.refused(FinishedError, bed.holder.release(ref, bed.released(1)), "a release of an ended object", ref)
    await bed.stays(ref, before, "a refused hold and release")


@check(
    "hold.gated-shows-the-gate",
    "An object that is gated is held too, and shows the gate as its cause.",
    rules="TM-6 SL-6",
    needs=(*HOLD, Capability.GATED_START),
)
async def gated_shows_the_gate(bed: Bed) -> None:
    ref = await bed.started()
    await bed.holder.hold(ref, bed.held(3))
    await bed.see(ref, state=State.PENDING, cause=Cause.GATED, gated=True, hold=3)
    await bed.holder.release(ref, bed.released(3))
    await bed.see(ref, state=State.PENDING, cause=Cause.GATED, gated=True, hold=None)


@check(
    "hold.admin-hold-is-shown",
    "An object that an administrator holds is held by us too, and shows the administrator's hold as its cause.",
    rules="TM-6",
    needs=(*HOLD, "admin_hold"),
)
async def admin_hold_is_shown(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.driver.admin_hold(ref)
    await bed.holder.hold(ref, bed.held(3))
    await bed.see(ref, state=State.PENDING, cause=Cause.ADMIN_HELD, hold=3)
    await bed.holder.release(ref, bed.released(3))
    await bed.see(ref, state=State.PENDING, cause=Cause.ADMIN_HELD, hold=None)


@check(
    "hold.outlives-an-admin-hold",
    "When an administrator's hold comes and goes, ours is as it was.",
    rules="TM-6 SL-6 KF-7",
    needs=(*HOLD, "admin_hold", "admin_release"),
)
async def outlives_an_admin_hold(bed: Bed) -> None:
    ref, _ = await _held(bed, 3)
    await bed.driver.admin_hold(ref)
    await bed.see(ref, cause=Cause.ADMIN_HELD, hold=3)
    await bed.driver.admin_release(ref)
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=3)


@check(
    "hold.never-lapses",
    "A hold does not lapse by the clock, whatever moment it names.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def never_lapses(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(3, until=bed.cluster.now() + bed.timings.poll))
    before = await bed.see(ref, cause=Cause.HELD, hold=3)
    await bed.cluster.advance(bed.timings.wait)
    await bed.stays(ref, before, "time")


@check(
    "hold.weak-ref-is-refused",
    "A weak ref neither holds nor releases.",
    rules="1.2 1.3",
    needs=HOLD,
)
async def weak_ref_is_refused(bed: Bed) -> None:
    ref, before = await _held(bed, 5)
    weak = bed.as_weak(ref)
    await bed.refused(InvalidError, bed.holder.hold(weak, bed.held(6)), "a hold by a weak ref", ref)
    await bed.refused(InvalidError, bed.holder.release(weak, bed.released(5)), "a release by a weak ref", ref)
    await bed.stays(ref, before, "a refused hold and release")


@check(
    "hold.unknown-is-not-found",
    "A ref that names no object neither holds nor releases.",
    rules="1.3 SL-2 KF-1",
    needs=HOLD,
)
async def unknown_is_not_found(bed: Bed) -> None:
    ref, before = await _held(bed, 5)
    for stranger in bed.strangers(ref):
        await bed.refused(NotFoundError, bed.holder.hold(stranger, bed.held(6)), f"a hold of {stranger}", ref)
        await bed.refused(NotFoundError, bed.holder.release(stranger, bed.released(5)), f"a release of {stranger}", ref)
    await bed.stays(ref, before, "holding and releasing others")


@check(
    "hold.two-clients",
    "What one client holds the other sees, takes over and releases.",
    rules="2.7 SL-6 KF-7",
    needs=HOLD,
)
async def two_clients(bed: Bed) -> None:
    other = cast("Holder", await bed.another())
    ref, _ = await _held(bed, 5)
    await _stale(bed, ref, other.hold(ref, bed.held(4)), 5)
    await other.hold(ref, bed.held(6))
    await _stale(bed, ref, bed.holder.release(ref, bed.released(5)), 6)
    await bed.see(ref, cause=Cause.HELD, hold=6)
    await bed.holder.release(ref, bed.released(6))
    await bed.see(ref, state=State.PENDING, hold=None)
    await other.release(ref, bed.released(6))


@check(
    "hold.deactivated-by-somebody-else",
    "What somebody else has deactivated shows as held, by no instance, and no release of ours lifts that.",
    rules="2.7 KF-7",
    needs=(*HOLD, "deactivate_externally"),
)
async def deactivated_by_somebody_else(bed: Bed) -> None:
    ref, before = await _deactivated(bed)
    await bed.holder.release(ref, bed.released(1))
    await bed.stays(ref, before, "a release without a hold")


@check(
    "hold.takes-over-a-deactivation",
    "What somebody else has deactivated is ours once we hold it, and our release lifts it.",
    rules="2.7 KF-7",
    needs=(*HOLD, "deactivate_externally"),
)
async def takes_over_a_deactivation(bed: Bed) -> None:
    ref, _ = await _deactivated(bed)
    await bed.holder.hold(ref, bed.held(2))
    await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=2)
    await bed.holder.release(ref, bed.released(2))
    await _free(bed, ref)


@check(
    "hold.reactivation-drops-it",
    "What somebody else activates is held no more, by us neither.",
    rules="2.7 KF-7",
    needs=(*HOLD, "reactivate_externally"),
)
async def reactivation_drops_it(bed: Bed) -> None:
    ref, _ = await _held(bed, 2)
    await bed.driver.reactivate_externally(ref)
    await _free(bed, ref)


async def _held(bed: Bed, instance: int) -> tuple[Ref, Observation]:
    """A pending object held by that instance, and what it shows."""
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(instance))
    return ref, await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=instance)


async def _deactivated(bed: Bed) -> tuple[Ref, Observation]:
    """A pending object that somebody else has deactivated, and what it shows."""
    ref = await bed.pending()
    await bed.driver.deactivate_externally(ref)
    return ref, await bed.see(ref, state=State.PENDING, cause=Cause.HELD, hold=None)


async def _free(bed: Bed, ref: Ref) -> None:
    """Wait until an object is pending, and held by nobody."""
    seen = await bed.see(ref, state=State.PENDING, hold=None)
    bed.expect(seen.cause is not Cause.HELD, f"another cause than {Cause.HELD}", str(seen.cause), seen)


async def _stale(bed: Bed, ref: Ref, call: Awaitable[None], current: int) -> None:
    """See that a call is refused as stale, and told which instance is in force."""
    error = await bed.refused(StaleError, call, "an instance that is not the one in force", ref)
    bed.expect(error.current == current, f"current {current}", f"current {error.current}", await bed.look(ref))


CHECKS = (
    pending,
    is_not_run,
    same_instance_again,
    higher_instance_takes_over,
    lower_instance_is_stale,
    release,
    released_can_run,
    release_of_another_instance_is_stale,
    release_of_one_not_held,
    any_instance_after_a_release,
    running,
    running_ceases,
    ended_is_refused,
    gated_shows_the_gate,
    admin_hold_is_shown,
    outlives_an_admin_hold,
    never_lapses,
    weak_ref_is_refused,
    unknown_is_not_found,
    two_clients,
    deactivated_by_somebody_else,
    takes_over_a_deactivation,
    reactivation_drops_it,
)
