"""Ends: each is shown with its own cause, its times and its exit code, for as long as there is evidence of it."""

from datetime import datetime, timedelta
from typing import cast

from ...model import Capability, Cause, Observation, Ref, State
from ...spi import Watcher
from ..bed import Bed
from ..checks import Check, check
from ..findings import CheckSkipped
from ..harness import Stop
from ..watching import watching

__all__ = ("CHECKS",)

A_WHILE = timedelta(seconds=2)
"""Longer than the second in which schedulers count."""


async def ran(bed: Bed) -> tuple[Ref, datetime]:
    """An object that has run for a while, and when it began."""
    ref = await bed.running()
    seen = await bed.get(ref)
    bed.expect(
        seen.started_at is not None and seen.ended_at is None and seen.exit_code is None,
        "a beginning, no end and no exit code of one that runs",
        seen,
    )
    await bed.cluster.advance(A_WHILE)
    return ref, cast("datetime", seen.started_at)


async def ended(bed: Bed, ref: Ref, began: datetime, **fields: object) -> Observation:
    """Wait for an end that shows these fields, and see that its times are in order."""
    seen = await bed.see(ref, started_at=began, **fields)
    in_order = seen.ended_at is not None and began < seen.ended_at <= seen.observed_at
    bed.expect(in_order, f"an end after {began}, not after the look", seen.ended_at, seen)
    return seen


@check(
    "ends.success",
    "An exit with 0 is a success: no cause, exit code 0, the times in order.",
    rules="TM-6 2.7",
    needs=("run", "finish"),
)
async def success(bed: Bed) -> None:
    ref, began = await ran(bed)
    await bed.driver.finish(ref, 0)
    await ended(bed, ref, began, state=State.SUCCEEDED, cause=None, exit_code=0)


@check(
    "ends.exit-code",
    "An exit with another code is a failure of its own cause, and shows the code.",
    rules="TM-6 KF-6 2.7",
    needs=("run", "finish"),
)
async def exit_code(bed: Bed) -> None:
    cause = bed.readable(Cause.NON_ZERO_EXIT)
    for code in (1, 2, 127):
        ref, began = await ran(bed)
        await bed.driver.finish(ref, code)
        shown = code if cause is Cause.NON_ZERO_EXIT else None
        await ended(bed, ref, began, state=State.FAILED, cause=cause, exit_code=shown)


def failure(what: str, ability: str, cause: Cause) -> Check:
    """The check for one way to fail."""

    @check(
        f"ends.{what}",
        f"An object that has failed ({what.replace('-', ' ')}) shows that cause, the times, and no exit code.",
        rules="TM-6 KF-6 2.7",
        needs=("run", ability),
    )
    async def shows(bed: Bed) -> None:
        ref, began = await ran(bed)
        await getattr(bed.driver, ability)(ref)
        await ended(bed, ref, began, state=State.FAILED, cause=bed.readable(cause), exit_code=None)

    return shows


@check(
    "ends.never-begun",
    "A stopped object that never ran shows no beginning, but its end.",
    rules="TM-6 SL-5",
)
async def never_begun(bed: Bed) -> None:
    if bed.traits.stop is Stop.NOTHING:
        raise CheckSkipped("a stop leaves no object that could show its end")
    ref = await bed.pending()
    await bed.adapter.stop(ref)
    seen = await bed.see(ref, state=State.CANCELLED, cause=Cause.STOPPED, started_at=None, exit_code=None)
    bed.expect(seen.ended_at is not None, "when it ended", seen.ended_at, seen)


# evidence


def window_of(bed: Bed) -> timedelta:
    """How long evidence can be read.

    :raises CheckSkipped: if for ever
    """
    if bed.traits.evidence_window is None:
        raise CheckSkipped("evidence can be read for ever")
    return bed.traits.evidence_window


def evidence_vanishes(what: str, ability: str, cause: Cause, *more: int) -> Check:
    """The check for one cause that only the pod tells of."""

    @check(
        f"ends.{what}-evidence-vanishes",
        f"Of an object that has failed ({what.replace('-', ' ')}) the cause can be read for a while, then not at all.",
        rules="KF-6",
        needs=("run", ability),
    )
    async def vanishes(bed: Bed) -> None:
        window = window_of(bed)
        ref = await bed.running()
        await getattr(bed.driver, ability)(ref, *more)
        code = next(iter(more), None)
        if window:
            await bed.see(ref, state=State.FAILED)
            await bed.cluster.advance(window / 2)
            await bed.see(ref, state=State.FAILED, cause=cause, exit_code=code)
        await bed.cluster.advance(window / 2)
        await bed.see(ref, state=State.FAILED, cause=Cause.UNKNOWN, exit_code=None)

    return vanishes


@check(
    "ends.vanished-evidence-is-told",
    "That a cause can be read no more is told to watchers, as one change.",
    rules="KF-6 WA-2",
    needs=(Watcher, Capability.WATCH, "run", "finish"),
)
async def vanished_evidence_is_told(bed: Bed) -> None:
    window = window_of(bed)
    ref = await bed.ended(exit_code=3)
    async with watching(bed) as reader:
        await bed.cluster.advance(window)
        await bed.see(ref, cause=Cause.UNKNOWN)
        if window:
            await reader.next(ref, state=State.FAILED, cause=Cause.UNKNOWN, exit_code=None)
        rest = await reader.rest()
        bed.expect(not rest, "nothing more told", rest)


@check(
    "ends.other-evidence-stays",
    "What is not told by the pod alone can be read for as long as the object: a time-out, a success and its exit code.",
    rules="KF-6",
    needs=("run", "finish", "time_out"),
)
async def other_evidence_stays(bed: Bed) -> None:
    window = window_of(bed)
    succeeded, timed_out = await bed.ended(), await bed.running()
    await bed.driver.time_out(timed_out)
    await bed.see(timed_out, state=State.FAILED, cause=Cause.TIMEOUT)
    before = [(ref, await bed.get(ref)) for ref in (succeeded, timed_out)]
    await bed.cluster.advance(window)
    for ref, seen in before:
        await bed.stays(ref, seen, "the time in which evidence vanishes")


CHECKS = (
    success,
    exit_code,
    failure("out-of-memory", "out_of_memory", Cause.OUT_OF_MEMORY),
    failure("time-out", "time_out", Cause.TIMEOUT),
    failure("launch-failure", "fail_launch", Cause.LAUNCH_FAILED),
    never_begun,
    evidence_vanishes("exit", "finish", Cause.NON_ZERO_EXIT, 3),
    evidence_vanishes("out-of-memory", "out_of_memory", Cause.OUT_OF_MEMORY),
    vanished_evidence_is_told,
    other_evidence_stays,
)
