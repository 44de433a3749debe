"""Clients: several of one cluster see the same, live and end by themselves, and can be kept from changing anything."""

from datetime import timedelta
from typing import Any, cast

import anyio

from ...following import until
from ...model import Capability, ClosedError, NotFoundError, Observation, Policy, ReadOnlyError, State
from ...spi import (
    Adapter,
    CessationSignal,
    Holder,
    IdentityWeakener,
    MultiFinder,
    NativePolicyCompiler,
    Requeuer,
    Watcher,
)
from ..bed import Bed
from ..checks import check
from ..showing import apart, timeless
from ..watching import rest_of, watching

__all__ = ("CHECKS",)

WATCH = (Watcher, Capability.WATCH)
HOLD = (Holder, Capability.HOLD)
REQUEUE = (Requeuer, Capability.REQUEUE)


@check(
    "clients.see-the-same",
    "Another client sees the same objects, and each sees what the other does to them.",
    rules="2.7",
)
async def see_the_same(bed: Bed) -> None:
    other, job = await bed.another(), bed.job()
    refs = [await bed.started(job, 1), await other.start(job, 2)]
    await other.open(refs[0])
    await bed.adapter.stop(refs[1])
    await bed.stopped(refs[1])
    found, there = [list(map(timeless, await client.find(job.id))) for client in (bed.adapter, other)]
    order, order_there = (", ".join(str(seen.ref) for seen in some) for some in (found, there))
    bed.expect(order_there == order, f"found in this order, as the first client finds: {order}", order_there)
    so, so_there = apart(*({str(seen.ref): seen for seen in some} for some in (found, there)))
    bed.expect(there == found, f"found, as the first client finds: {so}", so_there)
    first = found[0]
    bed.expect(first.ref == refs[0], f"found first what was started first: {refs[0]}", f"in this order: {order}")
    bed.expect(not first.gated, f"{refs[0]} not gated, as the other client has opened it", "it is gated", first)
    shown = timeless(await other.get(refs[0]))
    bed.expect(shown == first, f"what the first client sees: {first}", f"{shown}", shown)


@check(
    "clients.are-told-the-same",
    "Another client's watch is told what this client does, and this one's what the other does.",
    rules="2.7 WA-2",
    needs=WATCH,
)
async def are_told_the_same(bed: Bed) -> None:
    other = await bed.another()
    async with watching(bed) as reader, watching(bed, other) as theirs:
        for client in (bed.adapter, other):
            ref = await client.start(bed.job(), 1)
            for told in (reader, theirs):
                await told.next(ref, "its start", state=State.PENDING)


@check(
    "clients.closing-one-leaves-the-other",
    "A client that is closed refuses its calls; another goes on.",
    rules="2.7 1.2",
)
async def closing_one_leaves_the_other(bed: Bed) -> None:
    other = await bed.another()
    ref = await other.start(bed.job(), 1)
    await other.aclose()
    await bed.refused(ClosedError, other.get(ref), "a look by a closed client")
    await bed.refused(ClosedError, other.stop(ref), "a stop by a closed client", ref)
    await bed.see(ref, state=State.PENDING)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    await other.aclose()


@check(
    "clients.closing-one-ends-its-own-watches",
    "Closing a client ends its watches, which still give what they had been told, and no other client's.",
    rules="2.7 WA-3",
    needs=WATCH,
)
async def closing_one_ends_its_own_watches(bed: Bed) -> None:
    other = await bed.another()
    async with watching(bed) as reader, cast("Watcher", other).watch() as watch, watching(bed, other) as theirs:
        ref = await bed.started()
        await theirs.next(ref, "its start", state=State.PENDING)
        await other.aclose()
        rest = await rest_of(bed, watch, f"{ref} was started and the client closed")
        unread = not rest and bed.traits.polled_watch
        bed.expect(unread or [seen.ref for seen in rest] == [ref], f"what was told before: {ref}", rest)
        bed.expect(watch.closed_by == "closed", "closed_by 'closed'", watch.closed_by)
        bed.expect(reader.watch.closed_by is None, "the other client's watch open", reader.watch.closed_by)
        await bed.adapter.stop(ref)
        await reader.next(ref, "its start", state=State.PENDING)
        await reader.next(ref, "its stop", **bed.a_stop)


@check(
    "clients.closing-cannot-be-cancelled",
    "A client whose closing is cancelled at once is closed all the same, and so are its watches.",
    rules="TM-1 WA-3",
    needs=WATCH,
)
async def closing_cannot_be_cancelled(bed: Bed) -> None:
    other = await bed.another()
    async with cast("Watcher", other).watch() as watch:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await other.aclose()
        await bed.refused(ClosedError, other.capabilities(), "a call of a client whose closing was cancelled")
        rest = await rest_of(bed, watch, "the client's closing was cancelled")
        bed.expect(not rest, "nothing more told", rest)
        bed.expect(watch.closed_by == "closed", "closed_by 'closed'", watch.closed_by)


@check(
    "clients.read-only-reads",
    "A read-only client answers looks as any other.",
    rules="2.7",
)
async def read_only_reads(bed: Bed) -> None:
    reading, job = await bed.another(read_only=True), bed.job()
    ref = await bed.started(job)
    said = await reading.capabilities()
    bed.expect(said == bed.capabilities, f"the same capabilities: {bed.capabilities}", said)
    shown = timeless(await bed.adapter.get(ref))
    for seen in (await reading.get(ref), *await reading.find(job.id)):
        bed.expect(timeless(seen) == shown, f"what the other client sees: {shown}", f"{seen}", seen)
    unknown, _ = bed.strangers(ref)
    await bed.refused(NotFoundError, reading.get(unknown), "a look at an unknown ref")


@check(
    "clients.read-only-finds-many",
    "A read-only client answers looks for many jobs.",
    rules="2.7",
    needs=(MultiFinder,),
)
async def read_only_finds_many(bed: Bed) -> None:
    reading, job = await bed.another(read_only=True), bed.job()
    ref = await bed.started(job)
    found = await cast("MultiFinder", reading).find_many([job.id])
    bed.expect([seen.ref for seen in found[job.id]] == [ref], f"found: {ref}", found)


@check(
    "clients.read-only-weakens",
    "A read-only client weakens refs, and looks by them.",
    rules="2.7",
    needs=(IdentityWeakener,),
)
async def read_only_weakens(bed: Bed) -> None:
    reading = await bed.another(read_only=True)
    ref = await bed.started()
    weak = await cast("IdentityWeakener", reading).weaken_identity(ref)
    seen = await reading.get(weak)
    bed.expect(seen.ref == ref, f"what the weak ref names: {ref}", f"{seen}", seen)


@check(
    "clients.read-only-compiles",
    "A read-only client compiles policies, which changes nothing.",
    rules="2.7",
    needs=(NativePolicyCompiler,),
)
async def read_only_compiles(bed: Bed) -> None:
    reading, policy = await bed.another(read_only=True), Policy()
    made = [await cast("NativePolicyCompiler", client).compile_policy(policy) for client in (bed.adapter, reading)]
    bed.expect(made[0] == made[1], f"what the other client makes of it: {made[0]}", made[1])


@check(
    "clients.read-only-tells-cessation",
    "A read-only client tells whether executions have ceased.",
    rules="2.7",
    needs=(CessationSignal, Capability.CESSATION),
)
async def read_only_tells_cessation(bed: Bed) -> None:
    reading, job = await bed.another(read_only=True), bed.job()
    ref = await bed.started(job)
    for what in (ref, job.id):
        told = await cast("CessationSignal", reading).cessation(what)
        bed.expect(told.ceased, "ceased, as nothing ran", told)


@check(
    "clients.read-only-watches",
    "A read-only client is told what others change.",
    rules="2.7 WA-1 WA-2",
    needs=WATCH,
)
async def read_only_watches(bed: Bed) -> None:
    reading = await bed.another(read_only=True)
    ref = await bed.started()
    async with watching(bed, reading) as reader:
        bed.expect([seen.ref for seen in reader.snapshot] == [ref], f"a snapshot of {ref}", reader.snapshot)
        await bed.adapter.stop(ref)
        await reader.next(ref, "its stop by another client", **bed.a_stop)


@check(
    "clients.read-only-changes-nothing",
    "A read-only client refuses to start, open or stop, and nothing is done.",
    rules="1.2 2.7",
)
async def read_only_changes_nothing(bed: Bed) -> None:
    reading, job = await bed.another(read_only=True), bed.job()
    ref = await bed.started(job)
    await _read_only(bed, reading, ref, (reading.start, job, 2), (reading.open, ref), (reading.stop, ref))
    found = await bed.adapter.find(job.id)
    bed.expect([seen.ref for seen in found] == [ref], f"found: {ref}", found)


@check(
    "clients.read-only-holds-nothing",
    "A read-only client refuses to hold and to release, and nothing is done.",
    rules="1.2 2.7",
    needs=HOLD,
)
async def read_only_holds_nothing(bed: Bed) -> None:
    reading: Any = await bed.another(read_only=True)
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(1))
    await _read_only(bed, reading, ref, (reading.hold, ref, bed.held(2)), (reading.release, ref, bed.released(1)))


@check(
    "clients.read-only-requeues-nothing",
    "A read-only client refuses to requeue and to restore a bit, and nothing is done.",
    rules="1.2 2.7",
    needs=(*REQUEUE, "run"),
)
async def read_only_requeues_nothing(bed: Bed) -> None:
    reading: Any = await bed.another(read_only=True)
    ref = await bed.running()
    calls = ((call, ref, bed.meta()) for call in (reading.requeue, reading.restore_requeue_bit))
    await _read_only(bed, reading, ref, *calls)


async def _read_only(bed: Bed, reading: Adapter, ref: Any, *calls: tuple[Any, ...]) -> None:
    """See that a read-only client refuses calls, goes on looking, and that the object stays as it is."""
    before = await bed.get(ref)
    for call, *arguments in calls:
        await bed.refused(ReadOnlyError, call(*arguments), f"{call.__name__} on a read-only client", ref)
    await bed.stays(ref, before, "a read-only client")
    await reading.get(before.ref)


@check(
    "clients.until-on-a-read-only-one",
    "Whoever only reads can wait until an object is as awaited.",
    rules="WA-5 2.7",
    needs=("run",),
)
async def until_on_a_read_only_one(bed: Bed) -> None:
    reading = await bed.another(read_only=True)
    ref = await bed.pending()

    async def run() -> None:
        await bed.others_run()
        await bed.driver.run(ref)

    async with anyio.create_task_group() as running:
        running.start_soon(run)
        seen = await bed.within(
            "until, once the object runs", lambda: until(reading, ref, lambda seen: seen.state is State.RUNNING)
        )
        bed.expect(seen.ref == ref, f"{ref}, running", f"{seen}", seen)


@check(
    "clients.until-is-not-lost-by-a-requeue",
    "Who waits for an object waits for it through a requeue, also by a ref from before.",
    rules="WA-5 SL-7",
    needs=(*REQUEUE, "run"),
)
async def until_is_not_lost_by_a_requeue(bed: Bed) -> None:
    ref = await bed.running()
    await bed.cluster.advance(timedelta(seconds=1))
    await bed.requeuer.requeue(ref, bed.meta())
    await bed.see(ref, state=State.PENDING)

    async def run() -> None:
        await bed.others_run()
        await bed.driver.run((await bed.get(ref)).ref)

    async with anyio.create_task_group() as running:
        running.start_soon(run)
        seen = await bed.within(
            "until, once the object runs again",
            lambda: until(bed.adapter, ref, lambda seen: seen.state is State.RUNNING),
        )
        bed.expect(seen.restarts > 0, "a restart counted", seen.restarts, seen)


@check(
    "clients.until-gives-up",
    "Who waits for what does not come gives up when the time is over.",
    rules="WA-5",
)
async def until_gives_up(bed: Bed) -> None:
    ref = await bed.pending()

    async def wait() -> Observation | None:
        try:
            return await until(bed.adapter, ref, lambda seen: seen.state is State.RUNNING, timeout=timedelta(0))
        except TimeoutError:
            return None

    seen = await bed.within("TimeoutError", wait)
    bed.expect(seen is None, "TimeoutError", f"{seen}", seen)


CHECKS = (
    see_the_same,
    are_told_the_same,
    closing_one_leaves_the_other,
    closing_one_ends_its_own_watches,
    closing_cannot_be_cancelled,
    read_only_reads,
    read_only_finds_many,
    read_only_weakens,
    read_only_compiles,
    read_only_tells_cessation,
    read_only_watches,
    read_only_changes_nothing,
    read_only_holds_nothing,
    read_only_requeues_nothing,
    until_on_a_read_only_one,
    until_is_not_lost_by_a_requeue,
    until_gives_up,
)
