"""Races: several callers at once, and what becomes of an object meanwhile is never two things."""

from collections.abc import Iterable
from functools import partial
from typing import cast

import anyio
from anyio.lowlevel import checkpoint

from ...following import resubscribing
from ...model import (
    AlreadyExistsError,
    Capability,
    ClosedError,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Ref,
    StaleError,
    State,
    WrongStateError,
)
from ...spi import Adapter, Holder, Requeuer, Watcher
from ..bed import Bed
from ..checks import check
from ..findings import CheckSkipped
from ..harness import Fault
from ..showing import note
from ..watching import knows

__all__ = ("CHECKS",)

WATCH = (Watcher, Capability.WATCH)
HOLD = (Holder, Capability.HOLD)
REQUEUE = (Requeuer, Capability.REQUEUE)
NOT_ATOMIC = "the scheduler does not compare instances: of what two clients do at once the later is in force"
MANY = 8
BURST = 60
"""How many changes each of two clients makes: together more than a subscriber may fall behind by in memory."""


@check(
    "races.two-clients-hold",
    "Of the holds of two clients at once the highest instance is in force, and who is refused is told a higher one.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def two_clients_hold(bed: Bed) -> None:
    if not bed.traits.atomic_holds:
        raise CheckSkipped(NOT_ATOMIC)
    ref, other = await bed.pending(), await bed.another()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_hold, bed, bed.adapter, ref, range(2, MANY + 1, 2))
        tasks.start_soon(_hold, bed, other, ref, range(1, MANY, 2))
    await bed.see(ref, state=State.PENDING, hold=MANY)


async def _hold(bed: Bed, client: Adapter, ref: Ref, instances: Iterable[int]) -> None:
    for instance in instances:
        try:
            await cast("Holder", client).hold(ref, bed.held(instance))
        except StaleError as error:
            bed.expect((error.current or 0) > instance, f"an instance above {instance} in force", error.current)


@check(
    "races.two-clients-release",
    "Of the releases of two clients at once only that of the instance in force lifts the hold, and only once.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def two_clients_release(bed: Bed) -> None:
    if not bed.traits.atomic_holds:
        raise CheckSkipped(NOT_ATOMIC)
    ref, other = await bed.pending(), await bed.another()
    await bed.holder.hold(ref, bed.held(MANY))
    refused: list[int] = []

    async def release(client: Adapter, *instances: int) -> None:
        for instance in instances:
            try:
                await cast("Holder", client).release(ref, bed.released(instance))
            except StaleError as error:
                refused.append(error.current or 0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(release, bed.adapter, 1, 2, 3)
        tasks.start_soon(release, other, MANY - 1, MANY, MANY - 2)
    bed.expect(set(refused) == {MANY}, f"refused because {MANY} is in force", refused)
    await bed.see(ref, state=State.PENDING, hold=None)


@check(
    "races.a-release-beside-a-hold",
    "A release of the old instance never lifts a new hold, whichever of two clients comes first.",
    rules="SL-6 KF-7",
    needs=HOLD,
)
async def a_release_beside_a_hold(bed: Bed) -> None:
    if not bed.traits.atomic_holds:
        raise CheckSkipped(NOT_ATOMIC)
    ref, other = await bed.pending(), cast("Holder", await bed.another())

    async def release(instance: int) -> None:
        try:
            await other.release(ref, bed.released(instance))
        except StaleError as error:
            bed.expect(error.current == instance + 1, f"{instance + 1} in force", error.current)

    for instance in range(1, MANY):
        await bed.holder.hold(ref, bed.held(instance))
        await bed.see(ref, hold=instance)
        calls = [partial(release, instance), partial(bed.holder.hold, ref, bed.held(instance + 1))]
        async with anyio.create_task_group() as tasks:
            for call in calls if instance % 2 else reversed(calls):
                tasks.start_soon(call)
        await bed.see(ref, hold=instance + 1)


@check(
    "races.a-stop-after-a-requeue",
    "A stop while a requeue is under way, or once it is done, has the last word.",
    rules="SL-7 SL-14",
    needs=(*REQUEUE, "run"),
)
async def a_stop_after_a_requeue(bed: Bed) -> None:
    ref = await bed.running()
    await bed.requeuer.requeue(ref, bed.meta())
    await bed.adapter.stop((await bed.get(ref)).ref)
    await bed.stopped(ref)
    await bed.cluster.advance(bed.timings.poll)
    await bed.stopped(ref)


@check(
    "races.a-stop-beside-a-requeue",
    "Of a stop and a requeue at once each is done or refused, and the object is stopped or waits again, as they say.",
    rules="SL-7 SL-14",
    needs=(*REQUEUE, "run"),
)
async def a_stop_beside_a_requeue(bed: Bed) -> None:
    other = await bed.another()
    for stop_first in (True, False):
        ref = await bed.running()
        done: set[str] = set()

        async def stop(ref: Ref = ref, done: set[str] = done) -> None:
            try:
                await other.stop(ref)
                done.add("stop")
            except NotFoundError:  # the requeue came first, and moved its submit time
                pass

        async def requeue(ref: Ref = ref, done: set[str] = done) -> None:
            try:
                await bed.requeuer.requeue(ref, bed.meta())
                done.add("requeue")
            except (WrongStateError, NotFoundError):
                pass

        async with anyio.create_task_group() as tasks:
            for call in (stop, requeue) if stop_first else (requeue, stop):
                tasks.start_soon(call)
        await _one_outcome(bed, ref, done)


async def _one_outcome(bed: Bed, ref: Ref, done: set[str]) -> None:
    async def settled() -> bool:
        seen = await bed.look(ref)
        return seen is None or seen.state is not State.RUNNING

    await bed.eventually(settled)
    seen = await bed.look(ref)
    if seen is not None and seen.state is State.PENDING:
        bed.expect("requeue" in done, "no waiting object, as the requeue was refused", f"{seen}", seen)
        bed.expect(seen.restarts == 1, "one restart counted", seen.restarts, seen)
    else:
        bed.expect("stop" in done, "a waiting object, as the stop was refused", f"{seen}", seen)
        await bed.stopped(ref)


@check(
    "races.two-clients-start",
    "Of the starts of one submission by two clients one makes the object where names are unique; elsewhere each does.",
    rules="SL-1 KF-1",
)
async def two_clients_start(bed: Bed) -> None:
    other, job = await bed.another(), bed.job()
    refs: list[Ref] = []

    async def start(client: Adapter) -> None:
        try:
            refs.append(await client.start(job, 1))
        except AlreadyExistsError:
            bed.expect(bed.traits.unique_names, "another object", "AlreadyExistsError")

    async with anyio.create_task_group() as tasks:
        for client in (bed.adapter, other) * 2:
            tasks.start_soon(start, client)
    made, what = (1, "one object") if bed.traits.unique_names else (4, "four objects")
    answered = ", ".join(sorted(map(str, refs)))
    bed.expect(len(refs) == made, f"{what} made by four starts of one submission", f"made: {answered or 'none'}")
    for client in (bed.adapter, other):
        found = ", ".join(sorted(str(seen.ref) for seen in await client.find(job.id)))
        bed.expect(found == answered, f"found, as the starts answered: {answered}", f"found: {found or 'none'}")


@check(
    "races.a-lost-start-is-found",
    "A start whose reply is lost is found, by any client, before it is asked again, and can be worked with.",
    rules="1.2 SL-1 KF-1",
    needs=(Fault.LOST_REPLY,),
)
async def a_lost_start_is_found(bed: Bed) -> None:
    other, job = await bed.another(), bed.job()
    async with bed.inject(Fault.LOST_REPLY, "start"):
        await bed.refused(OutcomeUnknownError, bed.started(job, 3), "a start whose reply is lost")

    async def landed() -> bool:
        return len(await other.find(job.id)) > 0

    await bed.eventually(landed)
    found = await other.find(job.id)
    bed.expect([seen.submission for seen in found] == [3], "one object, of submission 3", found)
    ref = found[0].ref
    if bed.traits.unique_names:
        await bed.refused(AlreadyExistsError, bed.started(job, 3), "a start of what has landed", ref)
    await bed.adapter.open(ref)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "races.a-close-beside-calls",
    "Of the starts under way when their client is closed each is answered or refused, and the refused make no object.",
    rules="TM-1 1.2",
)
async def a_close_beside_calls(bed: Bed) -> None:
    other, job = await bed.another(), bed.job()
    refs: list[Ref] = []
    unknown: set[int] = set()

    async def start(submission: int) -> None:
        for _ in range(submission):
            await checkpoint()
        try:
            refs.append(await other.start(job, submission))
        except ClosedError:
            pass
        except OutcomeUnknownError:
            unknown.add(submission)

    async with anyio.create_task_group() as tasks:
        for submission in range(1, MANY):
            tasks.start_soon(start, submission)
        for _ in range(MANY // 2):
            await checkpoint()
        await other.aclose()
    await bed.cluster.advance(bed.timings.quiet)
    found = [seen.ref for seen in await bed.adapter.find(job.id) if seen.submission not in unknown]
    bed.expect(sorted(map(str, found)) == sorted(map(str, refs)), f"the objects answered: {refs}", found)
    await bed.refused(ClosedError, other.find(job.id), "a look by a closed client")


@check(
    "races.a-slow-follower",
    "Who follows more slowly than two clients make changes knows every object as it stands in the end.",
    rules="WA-3 WA-4",
    needs=(*WATCH, *HOLD),
)
async def a_slow_follower(bed: Bed) -> None:
    other = await bed.another()
    refs = [await bed.pending(), await bed.pending()]
    known: dict[str, Observation] = {}
    pause = MANY

    async def follow() -> None:
        async with resubscribing(bed.watcher) as changes:
            async for seen in changes:
                note(known, seen)
                for _ in range(pause):
                    await checkpoint()

    async with anyio.create_task_group() as following:
        following.start_soon(follow)
        async with anyio.create_task_group() as tasks:
            for client, ref in zip((bed.adapter, other), refs, strict=True):
                tasks.start_soon(_hold, bed, client, ref, range(1, BURST + 1))
        pause = 0
        await bed.adapter.stop(refs[1])
        refs.append(await bed.started())
        await knows(bed, known, refs)
        following.cancel_scope.cancel()


CHECKS = (
    two_clients_hold,
    two_clients_release,
    a_release_beside_a_hold,
    a_stop_after_a_requeue,
    a_stop_beside_a_requeue,
    two_clients_start,
    a_lost_start_is_found,
    a_close_beside_calls,
    a_slow_follower,
)
