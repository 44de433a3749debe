"""Holds: what a person asks for is in force once it is acknowledged, for as long as it was asked (CO-6)."""

from datetime import timedelta

from ulid import ULID

from ...core import Phase, WaitingFor
from ...model import Capability, Cause, RunningError, State
from ...spi import Holder
from ..findings import CheckSkipped
from .bed import CoreBed, restart
from .checking import core_check

__all__ = ("CHECKS",)

HOLD = (Holder, Capability.HOLD)
A_WHILE = timedelta(minutes=10)
STRANGERS = 50
"""The instance of somebody else's hold."""


@core_check(
    "hold.answered-is-in-force",
    "Once the hold is answered, the object shows our instance and is not run; released, it can be.",
    rules="CO-6",
    needs=(*HOLD, "run"),
)
async def answered_is_in_force(bed: CoreBed) -> None:
    bed.lets_go()
    job = await bed.waiting()
    status = await bed.hold(job, reason="maintenance")
    shown = (status.held_by, status.hold_reason, status.waiting_for)
    bed.expect(shown == ("a person", "maintenance", WaitingFor.HOLD), "who holds it and why", repr(shown))
    await _held(bed, job)
    await bed.operator.release(job, "a person")
    await bed.free(job)
    await bed.run(job)


@core_check(
    "hold.lost-one-is-not-answered",
    "A hold whose call got lost is not acknowledged before it was placed.",
    rules="CO-3 CO-6",
    needs=(*HOLD, "run"),
)
async def lost_one_is_not_answered(bed: CoreBed) -> None:
    job = await bed.waiting()
    bed.one.drop("hold")
    await bed.asks_to_hold(job)
    await bed.settle(job)
    hold = (await bed.record(job)).hold
    bed.expect(hold is not None and not hold.acked, "not acknowledged", repr(hold))
    await bed.outlast(job)
    await bed.shows(job, waiting_for=WaitingFor.HOLD)
    await _held(bed, job)


@core_check(
    "hold.waits-for-a-late-start",
    "A hold of a job whose start may still land is not acknowledged before that is settled and the object held.",
    rules="CO-4 CO-6",
    needs=(*HOLD, "run"),
)
async def waits_for_a_late_start(bed: CoreBed) -> None:
    bed.one.line.delay("start")
    job = await bed.submit()
    await bed.asks_to_hold(job)
    await bed.settle(job)
    hold = (await bed.record(job)).hold
    bed.expect(hold is not None and not hold.acked, "not acknowledged", repr(hold))
    await bed.one.line.land()
    await bed.shows(job, waiting_for=WaitingFor.HOLD)
    await _held(bed, job)


@core_check(
    "hold.late-open-does-no-harm",
    "An open that comes after the hold was answered lets nothing run.",
    rules="CO-4 CO-6",
    needs=(*HOLD, Capability.GATED_START, "run"),
)
async def late_open_does_no_harm(bed: CoreBed) -> None:
    job = await bed.submit()
    two = await bed.other()
    async with bed.standing(bed.one, "open", lambda: bed.step(job)):
        await bed.outlast(job)
        await bed.comes("an answer to the hold", lambda: two.operator.hold(job, "a person"))
    await bed.not_run(await bed.ref(job))


@core_check(
    "hold.running-is-refused",
    "What runs and cannot be held runs on: the hold is refused and withdrawn.",
    rules="CO-6",
    needs=(*HOLD, "run"),
)
async def running_is_refused(bed: CoreBed) -> None:
    _not_held_running(bed)
    job = await bed.runs()
    await bed.refused(RunningError, bed.hold(job), "a hold of a running object", await bed.ref(job))
    status = await bed.shows(job, state=Phase.RUNNING, waiting_for=WaitingFor.SCHEDULER)
    bed.expect(status.held_by == "", "held by nobody", status.held_by)
    bed.expect(not bed.made("hold", "stop"), "neither a hold nor a stop", bed.told)


@core_check(
    "hold.running-is-stopped",
    "What runs and cannot be held is stopped where that was asked; its restart once the hold is over is free.",
    rules="CO-6 CO-8",
    needs=(*HOLD, "run"),
)
async def running_is_stopped(bed: CoreBed) -> None:
    _not_held_running(bed)
    job = await bed.runs(restart(limit=0))
    await bed.hold(job, running="stop", until=bed.cluster.now() + A_WHILE)
    bed.expect(not await bed.live(job), "no live object", repr(await bed.live(job)))
    await bed.cluster.advance(A_WHILE)
    await bed.again(job)


@core_check(
    "hold.running-is-held",
    "What runs and can be held waits then, held; released, it is run again.",
    rules="CO-6",
    needs=(*HOLD, Capability.HOLD_RUNNING, "run"),
)
async def running_is_held(bed: CoreBed) -> None:
    bed.lets_go()
    job = await bed.runs()
    await bed.hold(job)
    await _held(bed, job)
    await bed.operator.release(job, "a person")
    await bed.free(job)
    await bed.run(job)
    bed.expect(len(bed.made("start")) == 1, "one start", bed.told)


@core_check(
    "hold.until",
    "A hold until a moment ends by itself then, and not before.",
    rules="CO-6 CO-12",
    needs=(*HOLD, "run"),
)
async def until(bed: CoreBed) -> None:
    bed.lets_go()
    job = await bed.waiting()
    moment = bed.cluster.now() + A_WHILE
    status = await bed.hold(job, until=moment)
    bed.expect(status.held_until == moment, f"held_until={moment}", repr(status.held_until))
    await bed.settle(job)
    await _held(bed, job)
    await bed.cluster.advance(moment - bed.cluster.now())
    await bed.free(job)
    await bed.run(job)


@core_check(
    "hold.lifted-by-somebody-else-is-placed-again",
    "A hold that somebody else lifts is placed again.",
    rules="CO-6 CO-10",
    needs=(*HOLD, "run"),
)
async def lifted_is_placed_again(bed: CoreBed) -> None:
    job = await bed.waiting()
    await bed.hold(job)
    seen = await bed.seen(job)
    await bed.holder.release(seen.ref, bed.released(seen.hold or 0))
    await bed.shows(job, waiting_for=WaitingFor.HOLD)
    await _held(bed, job)


@core_check(
    "hold.each-has-a-higher-number",
    "A later hold has a higher number than one before, and than one that somebody else has placed meanwhile.",
    rules="CO-6",
    needs=HOLD,
)
async def each_has_a_higher_number(bed: CoreBed) -> None:
    bed.lets_go()
    job = await bed.waiting()
    numbers: list[int] = []
    for stranger in (False, False, True):
        if stranger:
            await bed.holder.hold(await bed.ref(job), bed.held(STRANGERS))
        await bed.hold(job)
        numbers.append((await bed.seen(job)).hold or 0)
        await bed.operator.release(job, "a person")
        await bed.free(job)
    higher = numbers == sorted(set(numbers)) and numbers[-1] > STRANGERS
    bed.expect(higher, f"rising numbers, the last above {STRANGERS}", repr(numbers))


@core_check(
    "hold.begun-by-somebody-else-runs-on",
    "What somebody else runs in spite of a hold is left alone.",
    rules="CO-6 CO-10",
    needs=(*HOLD, "run"),
)
async def begun_by_somebody_else_runs_on(bed: CoreBed) -> None:
    _not_held_running(bed)
    job = await bed.waiting()
    await bed.hold(job)
    await _run_by_hand(bed, job)
    since = len(bed.log)
    await bed.shows(job, state=Phase.RUNNING, waiting_for=WaitingFor.OTHER)
    bed.expect_calls(since=since)


@core_check(
    "hold.begun-by-somebody-else-is-stopped",
    "What somebody else runs in spite of a hold is stopped where the hold stops what runs.",
    rules="CO-6 CO-10",
    needs=(*HOLD, "run"),
)
async def begun_by_somebody_else_is_stopped(bed: CoreBed) -> None:
    _not_held_running(bed)
    job = await bed.waiting()
    await bed.hold(job, running="stop")
    await _run_by_hand(bed, job)
    await bed.shows(job, waiting_for=WaitingFor.HOLD, cause=Cause.STOPPED)
    bed.expect(not await bed.live(job), "no live object", repr(await bed.live(job)))


@core_check(
    "hold.without-a-holder",
    "Where objects cannot be held, one behind its gate is held by leaving that shut.",
    rules="CO-6 CO-13",
    needs=(Capability.GATED_START, "run"),
)
async def without_a_holder(bed: CoreBed) -> None:
    bed.hide(Holder)
    job = await bed.submit()
    await bed.hold(job)
    await bed.settle(job)
    bed.expect_calls("start")
    await bed.not_run(await bed.ref(job))
    await bed.operator.release(job, "a person")
    await bed.free(job)


@core_check(
    "hold.without-a-holder-running-is-refused",
    "Where objects cannot be held, one that runs is refused, or stopped where that was asked.",
    rules="CO-6 CO-13",
    needs=("run",),
)
async def without_a_holder_running(bed: CoreBed) -> None:
    bed.hide(Holder)
    job = await bed.runs(restart(limit=0))
    await bed.refused(RunningError, bed.hold(job), "a hold of a running object", await bed.ref(job))
    await bed.shows(job, state=Phase.RUNNING)
    await bed.hold(job, running="stop")
    bed.expect(not await bed.live(job), "no live object", repr(await bed.live(job)))
    await bed.operator.release(job, "a person")
    await bed.vouch(job)
    await bed.again(job)


def _not_held_running(bed: CoreBed) -> None:
    if bed.declares(Capability.HOLD_RUNNING):
        raise CheckSkipped("a running object can be held")


async def _run_by_hand(bed: CoreBed, job: ULID) -> None:
    """Somebody lifts our hold and lets the object run, before any supervisor looks."""
    seen = await bed.seen(job)
    await bed.holder.release(seen.ref, bed.released(seen.hold or 0))
    await bed.driver.run(seen.ref)
    await bed.see(seen.ref, state=State.RUNNING)


async def _held(bed: CoreBed, job: ULID) -> None:
    """See that a job's object shows our hold, and is not run. Needs the driver's ``run``."""
    seen, hold = await bed.seen(job), (await bed.record(job)).hold
    ours = hold is not None and seen.hold == hold.instance
    bed.expect(ours, f"hold={hold.instance if hold else None}", f"hold={seen.hold}", seen)
    await bed.not_run(seen.ref)


CHECKS = (
    answered_is_in_force,
    lost_one_is_not_answered,
    waits_for_a_late_start,
    late_open_does_no_harm,
    running_is_refused,
    running_is_stopped,
    running_is_held,
    until,
    lifted_is_placed_again,
    each_has_a_higher_number,
    begun_by_somebody_else_runs_on,
    begun_by_somebody_else_is_stopped,
    without_a_holder,
    without_a_holder_running,
)
