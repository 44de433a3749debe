"""History: what has ended is forgotten in its time, and then known from accounting, or not at all."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from ...model import AmbiguousError, CallMeta, Capability, Job, NotFoundError, Observation, Ref, State
from ...model.base import altered
from ...spi import Holder, IdentityWeakener, MultiFinder, Requeuer
from ..bed import Bed
from ..checks import check
from ..findings import CheckFailed, CheckSkipped

__all__ = ("CHECKS",)

RUN = ("run", "finish")
REQUEUE = (Requeuer, Capability.REQUEUE)
HOLD = (Holder, Capability.HOLD)
ENOUGH = 100
"""After more objects than that the suite does not wait for an id to come again."""


def age_of(bed: Bed) -> timedelta:
    """How long an object that has ended is remembered.

    :raises CheckSkipped: if for ever
    """
    if bed.traits.forgets_after is None:
        raise CheckSkipped("the scheduler forgets no object that has ended")
    return bed.traits.forgets_after


@check(
    "history.ended-is-forgotten-in-time",
    "An object that has ended is remembered for its time, and no longer.",
    rules="SL-12",
    needs=RUN,
)
async def ended_is_forgotten_in_time(bed: Bed) -> None:
    age = age_of(bed)
    for exit_code in (0, 3):
        ref = await bed.ended(exit_code)
        seen = await bed.get(ref)
        await bed.cluster.advance(age / 2)
        await bed.stays(ref, seen, "half of the time for which it is remembered")
        await bed.forgotten(ref, after=age - age / 2)
        if not bed.declares(Capability.ACCOUNTING_HISTORY):
            await bed.refused(NotFoundError, bed.adapter.get(ref), "a look at a forgotten object", ref)


@check(
    "history.stopped-is-forgotten",
    "A stopped object is forgotten as any other that has ended.",
    rules="SL-12 SL-5",
)
async def stopped_is_forgotten(bed: Bed) -> None:
    ref = await bed.departed()
    if not bed.declares(Capability.ACCOUNTING_HISTORY):
        await bed.refused(NotFoundError, bed.adapter.get(ref), "a look at an object that has left", ref)


@check(
    "history.live-is-never-forgotten",
    "An object that waits or runs is not forgotten, however old it is.",
    rules="SL-12",
    needs=("run",),
)
async def live_is_never_forgotten(bed: Bed) -> None:
    age = age_of(bed)
    refs = (await bed.started(), await bed.running())
    before = [await bed.get(ref) for ref in refs]
    await bed.cluster.advance(2 * age)
    for ref, seen in zip(refs, before, strict=True):
        await bed.stays(ref, seen, "time")


@check(
    "history.time-counts-from-the-last-end",
    "The time for which an object is remembered counts from its last end, not from one before a requeue.",
    rules="SL-12 SL-7",
    needs=(*REQUEUE, *RUN),
)
async def time_counts_from_the_last_end(bed: Bed) -> None:
    age = age_of(bed)
    bed.requeues_ended()
    ref = await bed.ended(exit_code=3)
    await bed.cluster.advance(age / 2)
    await bed.requeuer.requeue((await bed.get(ref)).ref, bed.meta())
    seen = await bed.see(ref, state=State.PENDING)
    await bed.driver.run(seen.ref)
    await bed.see(ref, state=State.RUNNING)
    await bed.driver.finish(seen.ref, 0)
    seen = await bed.see(ref, state=State.SUCCEEDED)
    await bed.cluster.advance(age - age / 2)
    await bed.stays(ref, seen, "the end of an earlier execution")
    await bed.forgotten(ref)


@check(
    "history.answers-with-the-last-observation",
    "With accounting, a forgotten object is answered as it was last, by the exact and by the weak ref.",
    rules="SL-12",
    needs=(Capability.ACCOUNTING_HISTORY, *RUN),
)
async def answers_with_the_last_observation(bed: Bed) -> None:
    age_of(bed)
    ref = await bed.ended(exit_code=3)
    last = await bed.get(ref)
    await bed.forgotten(ref)
    for named in (last.ref, await bed.weak(ref)):
        seen = await bed.adapter.get(named)
        bit = None if seen.requeue_bit is None else last.requeue_bit  # accounting may not keep it
        expected = altered(last, from_history=True, observed_at=seen.observed_at, requeue_bit=bit)
        bed.expect(seen == expected, f"from history: {expected}", seen)
        bed.expect(seen.observed_at > last.observed_at, "the moment of reading", seen.observed_at, seen)


# lists


async def three(bed: Bed, job: Job) -> list[tuple[int, bool]]:
    """Three objects of a job of which the first and the last are forgotten; how those that are listed look."""
    age_of(bed)
    first, _, last = await bed.running(job, 1), await bed.pending(job, 2), await bed.running(job, 3)
    for ref in (first, last):
        await bed.driver.finish(ref, 0)
        await bed.see(ref, state=State.SUCCEEDED)
    for ref in (first, last):
        await bed.forgotten(ref)
    return [(1, True), (2, False), (3, True)] if bed.declares(Capability.ACCOUNTING_HISTORY) else [(2, False)]


def listed(seen: tuple[Observation, ...]) -> list[tuple[int, bool]]:
    """Which submissions are listed, and which of them from history."""
    return [(item.submission, item.from_history) for item in seen]


@check(
    "history.is-listed",
    "Forgotten objects are listed with the others, in the order of start, where there is accounting; else left out.",
    rules="SL-12 1.3",
    needs=RUN,
)
async def is_listed(bed: Bed) -> None:
    job = bed.job()
    expected = await three(bed, job)
    found = listed(await bed.adapter.find(job.id))
    bed.expect(found == expected, f"listed, as (submission, from history): {expected}", found)


@check(
    "history.is-listed-for-many",
    "A look for many jobs lists forgotten objects as a look for one does.",
    rules="SL-12 1.3",
    needs=(MultiFinder, *RUN),
)
async def is_listed_for_many(bed: Bed) -> None:
    job, other = bed.job(), bed.job()
    expected = await three(bed, job)
    found = await bed.finder.find_many([job.id, other.id])
    shown = {key: listed(seen) for key, seen in found.items()}
    expected_many = {job.id: expected, other.id: []}
    bed.expect(shown == expected_many, f"listed, as (submission, from history): {expected_many}", shown)


# what never reaches it


async def unreached(bed: Bed, *calls: Callable[[Ref], Awaitable[object]]) -> None:
    """See that none of these calls finds an object that has left, and that history stays as it was."""
    ref = await bed.departed()
    before = await bed.look(ref)
    for call in calls:
        await bed.refused(NotFoundError, call(ref), f"a call for {ref}, which has left", ref)
    if before:
        await bed.stays(ref, before, "a call that does not find it")
    else:
        await bed.gone(ref)


@check(
    "history.stop-and-open-do-not-reach-it",
    "An object that has left the scheduler's memory is not found by a stop, nor by the opening of its gate.",
    rules="SL-12 KF-3",
)
async def stop_and_open_do_not_reach_it(bed: Bed) -> None:
    await unreached(bed, bed.adapter.stop, bed.adapter.open)


@check(
    "history.holds-do-not-reach-it",
    "An object that has left the scheduler's memory is not found by a hold, nor by a release.",
    rules="SL-12 KF-3",
    needs=HOLD,
)
async def holds_do_not_reach_it(bed: Bed) -> None:
    await unreached(
        bed,
        lambda ref: bed.holder.hold(ref, bed.held(1)),
        lambda ref: bed.holder.release(ref, bed.released(1)),
    )


@check(
    "history.requeues-do-not-reach-it",
    "An object that has left the scheduler's memory is not found by a requeue, nor by the restoring of its bit.",
    rules="SL-12",
    needs=REQUEUE,
)
async def requeues_do_not_reach_it(bed: Bed) -> None:
    for call in await bed.requeues():
        await unreached(bed, partial(_with_meta, bed, call))


async def _with_meta(bed: Bed, call: Callable[[Ref, CallMeta], Awaitable[None]], ref: Ref) -> None:
    await call(ref, bed.meta())


# ids that come again


async def again(bed: Bed, first: Job, second: Job) -> tuple[Ref, Ref]:
    """Objects of two jobs with one id: one that has left, and the one that has its id now.

    :raises CheckSkipped: if no id comes again, or none so soon
    """
    after = bed.traits.ids_repeat_after
    if after is None or after > ENOUGH:
        raise CheckSkipped(f"no id comes again among {ENOUGH} objects")
    old = await bed.departed(first)
    for _ in range(after):
        new = await bed.started(second)
        if new.id == old.id:
            return old, new
        await bed.leaves(new)
    raise CheckFailed(f"the id of {old} again", f"{after} others")


@check(
    "history.an-id-comes-again",
    "The exact ref of an object that has left never names the one that has its id now.",
    rules="SL-2 SL-12",
)
async def an_id_comes_again(bed: Bed) -> None:
    old, new = await again(bed, bed.job(), bed.job())
    before = await bed.get(new)
    await bed.refused(NotFoundError, bed.adapter.stop(old), f"a stop of {old}, which has left", new)
    await bed.stays(new, before, f"a stop of {old}, which has left")
    if bed.declares(Capability.ACCOUNTING_HISTORY):
        await bed.see(old, ref=old, from_history=True)
    else:
        await bed.refused(NotFoundError, bed.adapter.get(old), f"a look at {old}, which has left", new)


@check(
    "history.a-weak-ref-of-two-is-ambiguous",
    "With accounting, a weak ref that the object with an id and an earlier one of the same job answer to is refused.",
    rules="1.2 SL-2 SL-12",
    needs=(Capability.ACCOUNTING_HISTORY, IdentityWeakener),
)
async def a_weak_ref_of_two_is_ambiguous(bed: Bed) -> None:
    job = bed.job()
    old, new = await again(bed, job, job)
    for ref in (old, new):
        weak = await bed.weak(ref)
        await bed.refused(AmbiguousError, bed.adapter.get(weak), f"{weak}, which is {old} and {new}", new)


CHECKS = (
    ended_is_forgotten_in_time,
    stopped_is_forgotten,
    live_is_never_forgotten,
    time_counts_from_the_last_end,
    answers_with_the_last_observation,
    is_listed,
    is_listed_for_many,
    stop_and_open_do_not_reach_it,
    holds_do_not_reach_it,
    requeues_do_not_reach_it,
    an_id_comes_again,
    a_weak_ref_of_two_is_ambiguous,
)
