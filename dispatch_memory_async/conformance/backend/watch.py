"""Watch: what a watch begins with, how it ends, what it still gives then, and that it costs nobody anything."""

from collections.abc import Sequence
from datetime import timedelta

import anyio
from anyio.lowlevel import checkpoint

from ...following import resubscribing
from ...model import Capability, ClosedError, Observation, Ref, State
from ...spi import Holder, Watcher
from ..bed import Bed
from ..checks import check
from ..findings import CheckSkipped
from ..showing import note, timeless
from ..watching import knows, next_of, nothing_more, rest_of, tells_every_change, watching

__all__ = ("CHECKS",)

WATCH = (Watcher, Capability.WATCH)
HOLD = (Holder, Capability.HOLD)
BURST = 100
"""More changes than a subscriber may fall behind by, if the adapter in memory is any guide."""
STARTED = 6


@check(
    "watch.empty-is-synced-at-once",
    "On an empty cluster a watch is synced once it has begun, open, and tells nothing.",
    rules="WA-1",
    needs=WATCH,
)
async def empty_is_synced_at_once(bed: Bed) -> None:
    async with bed.watcher.watch() as watch:
        bed.expect(watch.synced, "synced, as there is no object", "not synced")
        bed.expect(watch.closed_by is None, "closed_by None while it is open", watch.closed_by)
    async with watching(bed) as reader:
        nothing_more(bed, await reader.rest(), "on an empty cluster")


@check(
    "watch.snapshot-is-whole",
    "A watch begins with every object as it stands, in the order of start, and is synced from the last one on.",
    rules="WA-1",
    needs=WATCH,
)
async def snapshot_is_whole(bed: Bed) -> None:
    refs = [await bed.started() for _ in range(3)]
    told: list[Observation | None] = []
    await bed.adapter.open(refs[1])
    async with bed.watcher.watch() as watch:
        for ref in refs:
            bed.expect(not watch.synced, "not synced before the last object", f"synced before {ref}")
            seen, shown = await next_of(bed, watch, f"the start of {ref}", told), await bed.get(ref)
            same = seen is not None and timeless(seen) == timeless(shown)
            bed.expect(same, f"in the snapshot: {shown}", f"in the snapshot: {seen}", shown)
            told.append(seen)
        bed.expect(watch.synced, "synced after the last object", "not synced")


@check(
    "watch.snapshot-leaves-out-the-gone",
    "What has left the scheduler's memory is in no snapshot.",
    rules="WA-1",
    needs=WATCH,
)
async def snapshot_leaves_out_the_gone(bed: Bed) -> None:
    gone = await bed.departed()
    async with watching(bed) as reader:
        nothing_more(bed, reader.snapshot, f"as {gone} is gone")


@check(
    "watch.snapshot-is-of-its-moment",
    "A snapshot shows what is so when it is taken: what time alone has changed, too.",
    rules="WA-1 SL-12 KF-6",
    needs=(*WATCH, "run", "finish"),
)
async def snapshot_is_of_its_moment(bed: Bed) -> None:
    ref = await bed.ended(exit_code=3)
    job_id = (await bed.get(ref)).job_id
    until = max(bed.traits.forgets_after or timedelta(0), bed.traits.evidence_window or timedelta(0))
    await bed.cluster.advance(until + bed.timings.wait)
    async with watching(bed) as reader:
        present = [timeless(seen) for seen in await bed.adapter.find(job_id) if not seen.from_history]
        found = list(map(timeless, reader.snapshot))
        bed.expect(found == present, f"a snapshot of what find shows: {present}", found)
        nothing_more(bed, await reader.rest(), "as the snapshot was of that moment")


@check(
    "watch.without-a-context",
    "A watch that is iterated without a context begins at its first step, and goes on with the changes.",
    rules="WA-1 WA-3",
    needs=WATCH,
)
async def without_a_context(bed: Bed) -> None:
    watch = bed.watcher.watch()
    refs: list[Ref] = []
    told: list[Observation | None] = []
    for _ in range(2):
        refs.append(await bed.started())
        told.append(await next_of(bed, watch, f"the start of {refs[-1]}", told))
        bed.expect(watch.synced, "synced after the only object, and after a change", "not synced", told[-1])
    await watch.aclose()
    _of(bed, refs, [*told, *await rest_of(bed, watch, "the watch was closed")])


@check(
    "watch.snapshot-does-not-race",
    "Objects started while a watch begins are each seen once, in the snapshot or as a change.",
    rules="WA-1",
    needs=WATCH,
)
async def snapshot_does_not_race(bed: Bed) -> None:
    refs: list[Ref] = []
    seen: list[Ref] = []
    ended_by = None

    async def start() -> None:
        for _ in range(STARTED):
            refs.append(await bed.started())  # noqa: PERF401  # it is read while it grows

    async with anyio.create_task_group() as starting:
        starting.start_soon(start)
        await checkpoint()
        async with watching(bed) as reader:

            async def all_seen() -> bool:
                await bed.others_run()
                return len(refs) == STARTED <= len(reader.snapshot) + len(reader.told)

            await bed.eventually(all_seen)
            seen = [one.ref for one in (*reader.snapshot, *await reader.rest())]
            ended_by = reader.watch.closed_by
    if ended_by == "overflow":
        raise CheckSkipped(f"a watch cannot fall behind by {STARTED} changes here")
    found, expected = (", ".join(sorted(map(str, some))) for some in (seen, refs))
    bed.expect(found == expected, f"each seen once: {expected}", found)


@check(
    "watch.leaving-ends-it",
    "A watch whose context was left has ended, and is told nothing more.",
    rules="WA-3",
    needs=WATCH,
)
async def leaving_ends_it(bed: Bed) -> None:
    async with bed.watcher.watch() as watch:
        pass
    ref = await bed.started()
    nothing_more(bed, await rest_of(bed, watch, f"it was left and {ref} started"), "after it was left")
    bed.expect(watch.closed_by == "closed", "closed_by 'closed'", watch.closed_by)


@check(
    "watch.closing-delivers-what-was-buffered",
    "A watch that is closed still gives what it had been told, then ends; closing it again changes nothing.",
    rules="WA-3",
    needs=WATCH,
)
async def closing_delivers_what_was_buffered(bed: Bed) -> None:
    async with bed.watcher.watch() as watch:
        ref = await _told_to_all(bed)
        await watch.aclose()
        await bed.started()
        await watch.aclose()
        _buffered(bed, ref, await rest_of(bed, watch, f"{ref} was started and the watch closed"))
        bed.expect(watch.closed_by == "closed", "closed_by 'closed'", watch.closed_by)


@check(
    "watch.closing-the-client-ends-it",
    "When its client is closed, a watch gives what it had been told, then ends.",
    rules="WA-3 TM-1",
    needs=WATCH,
)
async def closing_the_client_ends_it(bed: Bed) -> None:
    async with bed.watcher.watch() as watch:
        ref = await _told_to_all(bed)
        await bed.adapter.aclose()
        _buffered(bed, ref, await rest_of(bed, watch, f"{ref} was started and the client closed"))
        bed.expect(watch.closed_by == "closed", "closed_by 'closed'", watch.closed_by)


@check(
    "watch.a-closed-client-has-none",
    "A client that is closed cannot be watched.",
    rules="1.2 WA-3",
    needs=WATCH,
)
async def a_closed_client_has_none(bed: Bed) -> None:
    await bed.adapter.aclose()

    async def begin() -> None:
        async with bed.watcher.watch():
            pass

    await bed.refused(ClosedError, begin(), "a watch on a closed client")


@check(
    "watch.a-cancellation-ends-it",
    "A cancellation that strikes a step ends the watch, which gives what it had been told before.",
    rules="WA-3",
    needs=WATCH,
)
async def a_cancellation_ends_it(bed: Bed) -> None:
    async with bed.watcher.watch() as watch:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(watch)
        ref = await bed.started()
        nothing_more(
            bed, await rest_of(bed, watch, f"a step was cancelled and {ref} started"), "after the cancellation"
        )
        bed.expect(watch.closed_by == "cancelled", "closed_by 'cancelled'", watch.closed_by)


@check(
    "watch.an-unread-one-slows-nobody",
    "A watch that is not read neither fails nor hinders a call, and keeps nothing from another watch.",
    rules="WA-3",
    needs=(*WATCH, *HOLD),
)
async def an_unread_one_slows_nobody(bed: Bed) -> None:
    tells_every_change(bed)
    ref = await bed.pending()
    async with bed.watcher.watch(), watching(bed) as reader:
        await _burst(bed, ref)
        for instance in range(1, BURST + 1):
            await reader.next(ref, hold=instance)


@check(
    "watch.falling-behind-is-said",
    "A burst that is not read in time is told whole, or up to a point at which the watch ends by overflow.",
    rules="WA-3",
    needs=(*WATCH, *HOLD),
)
async def falling_behind_is_said(bed: Bed) -> None:
    tells_every_change(bed)
    ref = await bed.pending()
    async with bed.watcher.watch() as watch:
        await next_of(bed, watch, f"{ref} was started and the watch begun")
        await _burst(bed, ref)
        told: list[Observation] = []
        while len(told) < BURST and (seen := await next_of(bed, watch, f"{BURST} holds of {ref}", told)) is not None:
            told.append(seen)
        instances = [seen.hold for seen in told]
        bed.expect(instances == list(range(1, len(told) + 1)), "instances from 1 on, none left out", instances)
        ended = None if len(told) == BURST else "overflow"
        bed.expect(watch.closed_by == ended, f"closed_by {ended!r} after {len(told)} of {BURST}", watch.closed_by)
    async with watching(bed) as again:
        shown = timeless(await bed.get(ref))
        found = list(map(timeless, again.snapshot))
        bed.expect(found == [shown], f"watched again, everything as it stands: {shown}", found)


@check(
    "watch.watching-again-loses-nothing",
    "Who falls behind and watches again knows every object as it stands, and of what has gone hears first.",
    rules="WA-3 WA-4",
    needs=(*WATCH, *HOLD),
)
async def watching_again_loses_nothing(bed: Bed) -> None:
    ref, stopped = await bed.pending(), await bed.pending()
    told: list[Observation] = []
    known: dict[str, Observation] = {}
    async with resubscribing(bed.watcher) as changes, anyio.create_task_group() as readers:
        await _burst(bed, ref)
        await bed.adapter.stop(stopped)
        started = await bed.started()

        async def read() -> None:
            async for seen in changes:
                told.append(seen)
                note(known, seen)

        readers.start_soon(read)
        await knows(bed, known, (ref, stopped, started))
        readers.cancel_scope.cancel()
        ended = {State.GONE, State.CANCELLED}
        order = [str(seen.ref) for seen in told if seen.ref.id == started.id or seen.state in ended]
        found = f"told in this order: {', '.join(order) or 'neither'}"
        bed.expect(order[:1] == [str(stopped)], f"told of the end of {stopped} before the start of {started}", found)


async def _burst(bed: Bed, ref: Ref) -> None:
    """Changes of one object, which nobody else makes."""
    for instance in range(1, BURST + 1):
        await bed.holder.hold(ref, bed.held(instance))
        await checkpoint()


async def _told_to_all(bed: Bed) -> Ref:
    """An object just started, of which every watch has been told."""
    async with watching(bed) as reader:
        ref = await bed.started()
        await reader.next(ref, "its start", state=State.PENDING)
    return ref


def _of(bed: Bed, refs: list[Ref], told: Sequence[Observation | None]) -> None:
    """See that what was told is of these objects, in this order."""
    seen = [one and one.ref for one in told]
    bed.expect(seen == refs, f"told of {', '.join(map(str, refs))}", f"told of {', '.join(map(str, seen))}")


def _buffered(bed: Bed, ref: Ref, told: list[Observation]) -> None:
    """See that an unread watch still gives what it had been told: one object; of a polled one it may be nothing."""
    if told or not bed.traits.polled_watch:
        _of(bed, [ref], told)


CHECKS = (
    empty_is_synced_at_once,
    snapshot_is_whole,
    snapshot_leaves_out_the_gone,
    snapshot_is_of_its_moment,
    without_a_context,
    snapshot_does_not_race,
    leaving_ends_it,
    closing_delivers_what_was_buffered,
    closing_the_client_ends_it,
    a_closed_client_has_none,
    a_cancellation_ends_it,
    an_unread_one_slows_nobody,
    falling_behind_is_said,
    watching_again_loses_nothing,
)
