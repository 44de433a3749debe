"""Late and stale: what holds of calls that land after their replies were given up, and of reads that lag behind."""

from collections.abc import Awaitable, Callable

from ...model import Capability, HoldMeta, Observation, OutcomeUnknownError, Ref, State
from ...spi import Holder
from ..bed import Bed
from ..checks import check
from ..harness import Fault

__all__ = ("CHECKS",)

HOLD = (Holder, Capability.HOLD)


async def past_the_bound(bed: Bed) -> None:
    """Wait until nothing may land any more that was called with the deadline :meth:`Bed.soon`."""
    await bed.cluster.advance(bed.timings.poll + bed.capabilities.call_bound)


@check(
    "late.start-lands-by-the-bound",
    "A start that was given up has made its object by its deadline and the call bound, or never does.",
    rules="LT-1 2.5",
    needs=(Fault.LATE_LANDING,),
)
async def start_lands_by_the_bound(bed: Bed) -> None:
    job = bed.job()
    async with bed.inject(Fault.LATE_LANDING, "start"):
        start = bed.adapter.start(job, 1, deadline=bed.soon())
        await bed.refused(OutcomeUnknownError, start, "a start that lands late")
    await past_the_bound(bed)
    by_then = [seen.ref for seen in await bed.adapter.find(job.id)]
    await past_the_bound(bed)
    later = [seen.ref for seen in await bed.adapter.find(job.id)]
    bed.expect(len(by_then) <= 1, "no object, or one", by_then)
    bed.expect(later == by_then, f"found once the bound had passed, and from then on: {by_then}", later)


async def lands_by_the_bound(bed: Bed, name: str, ref: Ref, call: Callable[[], Awaitable[None]]) -> None:
    """See that a call that was given up changes nothing any more once its bound has passed."""
    async with bed.inject(Fault.LATE_LANDING, name):
        await bed.refused(OutcomeUnknownError, call(), f"a {name} that lands late", ref)
    await past_the_bound(bed)
    by_then = await bed.look(ref)
    await past_the_bound(bed)
    if by_then is None:
        await bed.gone(ref)
    else:
        await bed.stays(ref, by_then, f"a {name} whose bound had passed")


@check(
    "late.stop-lands-by-the-bound",
    "A stop that was given up has stopped by its deadline and the call bound, or never does.",
    rules="LT-1 2.5",
    needs=(Fault.LATE_LANDING,),
)
async def stop_lands_by_the_bound(bed: Bed) -> None:
    ref = await bed.pending()
    await lands_by_the_bound(bed, "stop", ref, lambda: bed.adapter.stop(ref, deadline=bed.soon()))


@check(
    "late.hold-lands-by-the-bound",
    "A hold that was given up holds by its deadline and the call bound, or never does.",
    rules="LT-1 2.5",
    needs=(*HOLD, Fault.LATE_LANDING),
)
async def hold_lands_by_the_bound(bed: Bed) -> None:
    ref = await bed.pending()
    await lands_by_the_bound(bed, "hold", ref, lambda: bed.holder.hold(ref, HoldMeta(deadline=bed.soon(), instance=1)))


@check(
    "late.reads-say-their-moment",
    "A read that lags shows the object as it was in the moment that it names: before a change, or after it.",
    rules="LT-2 1.1",
    needs=(*HOLD, Fault.LAGGED_READ),
)
async def reads_say_their_moment(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.pending(job)
    await bed.cluster.advance(bed.timings.wait)

    async def get() -> Observation:
        return await bed.adapter.get(ref)

    async def find() -> Observation:
        (seen,) = await bed.adapter.find(job.id)
        return seen

    for instance, (name, read) in enumerate((("get", get), ("find", find)), 1):
        async with bed.inject(Fault.LAGGED_READ, name):
            began = bed.cluster.now()
            await bed.holder.hold(ref, bed.held(instance))
            ended = bed.cluster.now()
            await bed.cluster.advance(bed.timings.poll)
            seen = await read()
        was, now = instance - 1 or None, instance
        bed.expect(seen.hold in (was, now), f"hold={was} or {now}", f"hold={seen.hold}", seen)
        moment = f"hold={seen.hold} observed at {seen.observed_at}"
        if seen.hold == now:
            bed.expect(seen.observed_at >= began, f"hold={was} before {began}", moment, seen)
        else:
            bed.expect(seen.observed_at <= ended, f"hold={now} after {ended}", moment, seen)
        await bed.see(ref, state=State.PENDING, hold=now)
        await bed.cluster.advance(bed.timings.wait)


CHECKS = (
    start_lands_by_the_bound,
    stop_lands_by_the_bound,
    hold_lands_by_the_bound,
    reads_say_their_moment,
)
