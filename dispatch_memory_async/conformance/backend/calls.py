"""Calls: deadlines, bad arguments, cancellation, lost replies and a closed client, whichever call it is."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ...model import (
    CallMeta,
    Capability,
    ClosedError,
    ExpiredError,
    HoldMeta,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    Ref,
    ReleaseMeta,
    State,
)
from ...spi import CessationSignal, Holder, IdentityWeakener, MultiFinder, NativePolicyCompiler, Requeuer
from ..bed import Bed
from ..checks import check
from ..harness import Fault

__all__ = ("CHECKS",)

HOLD = (Holder, Capability.HOLD)
REQUEUE = (Requeuer, Capability.REQUEUE)


@check(
    "calls.late-start",
    "A start whose command starts after its deadline is refused, and makes no object; the next, in time, makes one.",
    rules="2.5",
    needs=(Fault.LATE_CALL,),
)
async def late_start(bed: Bed) -> None:
    job = bed.job()
    async with bed.inject(Fault.LATE_CALL, "start"):
        await bed.refused(ExpiredError, bed.adapter.start(job, 1, deadline=bed.deadline()), "a late start")
    await bed.cluster.advance(bed.timings.quiet)
    found = await bed.adapter.find(job.id)
    bed.expect(found == (), "no object after a late start", found)
    ref = await bed.adapter.start(job, 1, deadline=bed.deadline())
    await bed.see(ref, state=State.PENDING)


@check(
    "calls.late-open",
    "An open whose command starts after its deadline is refused, and opens nothing.",
    rules="2.5",
    needs=(Fault.LATE_CALL,),
)
async def late_open(bed: Bed) -> None:
    ref = await bed.started()
    await _late(bed, "open", ref, lambda: bed.adapter.open(ref, deadline=bed.deadline()))


@check(
    "calls.late-stop",
    "A stop whose command starts after its deadline is refused, and stops nothing.",
    rules="2.5",
    needs=(Fault.LATE_CALL,),
)
async def late_stop(bed: Bed) -> None:
    ref = await bed.pending()
    await _late(bed, "stop", ref, lambda: bed.adapter.stop(ref, deadline=bed.deadline()))


@check(
    "calls.late-hold",
    "A hold whose command starts after its deadline is refused, and holds nothing.",
    rules="2.5 SL-6 KF-7",
    needs=(*HOLD, Fault.LATE_CALL),
)
async def late_hold(bed: Bed) -> None:
    ref = await bed.pending()
    await _late(bed, "hold", ref, lambda: bed.holder.hold(ref, bed.held(1)))


@check(
    "calls.late-release",
    "A release whose command starts after its deadline is refused, and the hold stays in force.",
    rules="2.5 SL-6 KF-7",
    needs=(*HOLD, Fault.LATE_CALL),
)
async def late_release(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(1))
    await bed.see(ref, hold=1)
    await _late(bed, "release", ref, lambda: bed.holder.release(ref, bed.released(1)))


@check(
    "calls.late-requeue",
    "A requeue whose command starts after its deadline is refused, and ends nothing.",
    rules="2.5 SL-7",
    needs=(*REQUEUE, Fault.LATE_CALL, "run"),
)
async def late_requeue(bed: Bed) -> None:
    ref = await bed.running()
    await _late(bed, "requeue", ref, lambda: bed.requeuer.requeue(ref, bed.meta()))


@check(
    "calls.late-restore",
    "A bit's restoring whose command starts after its deadline is refused, and the bit stays set.",
    rules="2.5 SL-9",
    needs=(*REQUEUE, Fault.LATE_CALL, Fault.CRASH_BETWEEN_STEPS),
)
async def late_restore(bed: Bed) -> None:
    ref = await bed.pending()
    async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
        await bed.refused(OutcomeUnknownError, bed.requeuer.requeue(ref, bed.meta()), "a requeue that crashes", ref)
    await bed.see(ref, requeue_bit=True)
    await _late(bed, "restore_requeue_bit", ref, lambda: bed.requeuer.restore_requeue_bit(ref, bed.meta()))


async def _late(bed: Bed, name: str, ref: Ref, call: Callable[[], Awaitable[None]]) -> None:
    before = await bed.get(ref)
    async with bed.inject(Fault.LATE_CALL, name):
        await bed.refused(ExpiredError, call(), f"a late {name}", ref)
    await bed.stays(ref, before, f"a late {name}")


@check(
    "calls.in-time",
    "A call that starts before its deadline is done.",
    rules="2.5",
)
async def in_time(bed: Bed) -> None:
    ref = await bed.adapter.start(bed.job(), 1, deadline=bed.deadline())
    await bed.adapter.open(ref, deadline=bed.deadline())
    await bed.see(ref, state=State.PENDING, gated=False)
    await bed.adapter.stop(ref, deadline=bed.deadline())
    await bed.stopped(ref)


@check(
    "calls.without-a-deadline",
    "A start, an open and a stop that carry no deadline are done, however late they start.",
    rules="2.5",
    needs=(Fault.LATE_CALL,),
)
async def without_a_deadline(bed: Bed) -> None:
    async with bed.inject(Fault.LATE_CALL, "start"):
        ref = await bed.started()
    async with bed.inject(Fault.LATE_CALL, "open"):
        await bed.adapter.open(ref)
    await bed.see(ref, state=State.PENDING, gated=False)
    async with bed.inject(Fault.LATE_CALL, "stop"):
        await bed.adapter.stop(ref)
    await bed.stopped(ref)


@check(
    "calls.naive-deadline",
    "A deadline without a time zone, or one that is no time, is refused, and nothing is done.",
    rules="1.1 1.2 2.5",
)
async def naive_deadline(bed: Bed) -> None:
    job, other = bed.job(), bed.job()
    adapter: Any = bed.adapter
    ref = await bed.started(job)
    before = await bed.get(ref)
    for bad in (bed.deadline().replace(tzinfo=None), bed.deadline().isoformat(), 60):
        for call, *arguments in ((adapter.start, other, 1), (adapter.open, ref), (adapter.stop, ref)):
            what = f"{call.__name__} with deadline {bad!r}"
            await bed.refused(InvalidError, call(*arguments, deadline=bad), what, ref)
    found = await bed.adapter.find(other.id)
    bed.expect(found == (), "no object after a refused start", found)
    await bed.stays(ref, before, "a bad deadline")


@check(
    "calls.past-deadline",
    "A call whose deadline had passed when it was made is refused, and does nothing.",
    rules="2.5",
)
async def past_deadline(bed: Bed) -> None:
    job, past = bed.job(), bed.past()
    await bed.refused(ExpiredError, bed.adapter.start(job, 1, deadline=past), "a start after its deadline")
    found = await bed.adapter.find(job.id)
    bed.expect(found == (), "no object after a late start", found)
    ref = await bed.started(job)
    before = await bed.get(ref)
    for call in (bed.adapter.open, bed.adapter.stop):
        await bed.refused(ExpiredError, call(ref, deadline=past), f"{call.__name__} after its deadline", ref)
    await bed.stays(ref, before, "a call after its deadline")


@check(
    "calls.past-deadline-of-holds",
    "A hold and a release whose deadlines had passed when they were made are refused, and do nothing.",
    rules="2.5",
    needs=HOLD,
)
async def past_deadline_of_holds(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(1))
    before = await bed.see(ref, hold=1)
    hold = bed.holder.hold(ref, HoldMeta(deadline=bed.past(), instance=2))
    await bed.refused(ExpiredError, hold, "a hold after its deadline", ref)
    release = bed.holder.release(ref, ReleaseMeta(deadline=bed.past(), instance=1))
    await bed.refused(ExpiredError, release, "a release after its deadline", ref)
    await bed.stays(ref, before, "a call after its deadline")


@check(
    "calls.past-deadline-of-requeues",
    "A requeue and a bit's restoring whose deadlines had passed when they were made are refused, and do nothing.",
    rules="2.5",
    needs=(*REQUEUE, "run"),
)
async def past_deadline_of_requeues(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    for call in await bed.requeues():
        late = call(ref, CallMeta(deadline=bed.past()))
        await bed.refused(ExpiredError, late, f"{call.__name__} after its deadline", ref)
    await bed.stays(ref, before, "a call after its deadline")


@check(
    "calls.wrong-arguments",
    "An argument of the wrong type is refused as invalid, and nothing is done.",
    rules="1.2",
)
async def wrong_arguments(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.pending()
    adapter: Any = bed.adapter
    await _invalid(
        bed,
        ref,
        (adapter.start, None, 1),
        (adapter.start, str(job.id), 1),
        (adapter.start, job, "1"),
        (adapter.start, job, None),
        (adapter.open, str(ref)),
        (adapter.get, str(ref)),
        (adapter.get, None),
        (adapter.find, str(job.id)),
        (adapter.find, ref),
        (adapter.stop, ref.id),
    )
    found = await bed.adapter.find(job.id)
    bed.expect(found == (), "no object after refused starts", found)


@check(
    "calls.wrong-arguments-of-holds",
    "A hold or release without its own meta, or of what is no ref, is refused as invalid, and nothing is done.",
    rules="1.2",
    needs=HOLD,
)
async def wrong_arguments_of_holds(bed: Bed) -> None:
    ref = await bed.pending()
    holder: Any = bed.holder
    await _invalid(
        bed,
        ref,
        (holder.hold, str(ref), bed.held(1)),
        (holder.hold, ref, None),
        (holder.hold, ref, bed.meta()),
        (holder.release, str(ref), bed.released(1)),
        (holder.release, ref, bed.deadline()),
        (holder.release, ref, bed.meta()),
    )


@check(
    "calls.wrong-arguments-of-requeues",
    "A requeue or a bit's restoring without a meta, or of what is no ref, is refused as invalid, and nothing is done.",
    rules="1.2",
    needs=(*REQUEUE, "run"),
)
async def wrong_arguments_of_requeues(bed: Bed) -> None:
    ref = await bed.running()
    calls = await bed.requeues()
    await _invalid(bed, ref, *((call, *bad) for call in calls for bad in ((str(ref), bed.meta()), (ref, None))))


@check(
    "calls.wrong-arguments-of-cessation",
    "Cessation is told of a ref or of a job's id; anything else is refused as invalid.",
    rules="1.2 1.3",
    needs=(CessationSignal, Capability.CESSATION),
)
async def wrong_arguments_of_cessation(bed: Bed) -> None:
    ref = await bed.started()
    signal: Any = bed.signal
    await _invalid(bed, ref, (signal.cessation, str(ref)), (signal.cessation, None))


@check(
    "calls.wrong-arguments-of-find-many",
    "Many jobs are looked for by their ids; anything else is refused as invalid.",
    rules="1.2 1.3",
    needs=(MultiFinder,),
)
async def wrong_arguments_of_find_many(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.started(job)
    finder: Any = bed.finder
    await _invalid(bed, ref, (finder.find_many, [job.id, None]), (finder.find_many, [str(job.id)]))
    await _invalid(bed, ref, (finder.find_many, None))


@check(
    "calls.wrong-arguments-of-weakening",
    "What is no ref cannot be weakened, and is refused as invalid.",
    rules="1.2 1.3",
    needs=(IdentityWeakener,),
)
async def wrong_arguments_of_weakening(bed: Bed) -> None:
    ref = await bed.started()
    adapter: Any = bed.adapter
    await _invalid(bed, ref, (adapter.weaken_identity, str(ref)), (adapter.weaken_identity, None))


@check(
    "calls.wrong-arguments-of-compiling",
    "What is no policy cannot be compiled, and is refused as invalid.",
    rules="1.2 1.3",
    needs=(NativePolicyCompiler,),
)
async def wrong_arguments_of_compiling(bed: Bed) -> None:
    ref = await bed.started()
    adapter: Any = bed.adapter
    await _invalid(bed, ref, (adapter.compile_policy, None), (adapter.compile_policy, ()))


async def _invalid(bed: Bed, ref: Ref, *calls: tuple[Any, ...]) -> None:
    """See that calls with these arguments are refused, and that the object stays as it is."""
    before = await bed.get(ref)
    for call, *arguments in calls:
        await bed.refused(InvalidError, call(*arguments), f"{call.__name__}({', '.join(map(repr, arguments))})", ref)
    await bed.stays(ref, before, "an invalid call")


@check(
    "calls.invalid-before-expired",
    "A call that is invalid and late is refused as invalid.",
    rules="1.2 2.5",
)
async def invalid_before_expired(bed: Bed) -> None:
    weak = bed.as_weak(await bed.pending())
    for call in (bed.adapter.open, bed.adapter.stop):
        await bed.refused(InvalidError, call(weak, deadline=bed.past()), f"a late {call.__name__} of a weak ref")


@check(
    "calls.invalid-before-not-found",
    "A call that is invalid and names no object is refused as invalid.",
    rules="1.2",
)
async def invalid_before_not_found(bed: Bed) -> None:
    unknown, _ = bed.strangers(await bed.pending())
    weak = bed.as_weak(unknown)
    for call in (bed.adapter.open, bed.adapter.stop):
        await bed.refused(InvalidError, call(weak), "a weak ref that names no object")


@check(
    "calls.expired-before-not-found",
    "A call that is late and names no object is refused as late.",
    rules="1.2 2.5",
)
async def expired_before_not_found(bed: Bed) -> None:
    ref = await bed.pending()
    for stranger in bed.strangers(ref):
        for call in (bed.adapter.open, bed.adapter.stop):
            late = call(stranger, deadline=bed.past())
            await bed.refused(ExpiredError, late, f"a late {call.__name__} of the unknown {stranger}")
            await bed.refused(NotFoundError, call(stranger), f"{call.__name__} of the unknown {stranger}")


@check(
    "calls.cancelled-start",
    "A start that is cancelled at once makes no object.",
    rules="TM-1",
)
async def cancelled_start(bed: Bed) -> None:
    job = bed.job()
    await _cancelled(bed, lambda: bed.adapter.start(job, 1))
    await bed.cluster.advance(bed.timings.quiet)
    found = await bed.adapter.find(job.id)
    bed.expect(found == (), "no object after a cancelled start", found)


@check(
    "calls.cancelled-open-and-stop",
    "An open and a stop that are cancelled at once change nothing.",
    rules="TM-1",
)
async def cancelled_open_and_stop(bed: Bed) -> None:
    ref = await bed.started()
    before = await bed.get(ref)
    await _cancelled(bed, lambda: bed.adapter.open(ref), lambda: bed.adapter.stop(ref))
    await bed.stays(ref, before, "cancelled calls")


@check(
    "calls.cancelled-hold-and-release",
    "A hold and a release that are cancelled at once change nothing.",
    rules="TM-1",
    needs=HOLD,
)
async def cancelled_hold_and_release(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.holder.hold(ref, bed.held(1))
    before = await bed.see(ref, hold=1)
    await _cancelled(
        bed,
        lambda: bed.holder.hold(ref, bed.held(2)),
        lambda: bed.holder.release(ref, bed.released(1)),
    )
    await bed.stays(ref, before, "cancelled calls")


@check(
    "calls.cancelled-requeue",
    "A requeue that is cancelled at once changes nothing.",
    rules="TM-1",
    needs=(*REQUEUE, "run"),
)
async def cancelled_requeue(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await _cancelled(bed, lambda: bed.requeuer.requeue(ref, bed.meta()))
    await bed.stays(ref, before, "a cancelled requeue")


async def _cancelled(bed: Bed, *calls: Callable[[], Awaitable[object]]) -> None:
    """Make calls that are cancelled before they begin."""
    for call in calls:
        with anyio.CancelScope() as scope:
            scope.cancel()
            answer = await call()
            bed.expect(False, "the cancellation raised by a call that was cancelled at once", f"it answered {answer}")


@check(
    "calls.lost-open",
    "An open whose reply is lost says that its outcome is unknown; a look shows that it was done.",
    rules="1.2",
    needs=(Capability.GATED_START, Fault.LOST_REPLY),
)
async def lost_open(bed: Bed) -> None:
    ref = await bed.started()
    await _lost(bed, "open", lambda: bed.adapter.open(ref))
    await bed.see(ref, state=State.PENDING, gated=False)


@check(
    "calls.lost-stop",
    "A stop whose reply is lost says that its outcome is unknown; a look shows that it was done.",
    rules="1.2",
    needs=(Fault.LOST_REPLY,),
)
async def lost_stop(bed: Bed) -> None:
    ref = await bed.pending()
    await _lost(bed, "stop", lambda: bed.adapter.stop(ref))
    await bed.stopped(ref)


@check(
    "calls.lost-hold-and-release",
    "A hold or release whose reply is lost says that its outcome is unknown; a look shows that it was done.",
    rules="1.2",
    needs=(*HOLD, Fault.LOST_REPLY),
)
async def lost_hold_and_release(bed: Bed) -> None:
    ref = await bed.pending()
    await _lost(bed, "hold", lambda: bed.holder.hold(ref, bed.held(1)))
    await bed.see(ref, hold=1)
    await _lost(bed, "release", lambda: bed.holder.release(ref, bed.released(1)))
    await bed.see(ref, hold=None)


@check(
    "calls.lost-requeue",
    "A requeue whose reply is lost says that its outcome is unknown; a look shows that it was done.",
    rules="1.2",
    needs=(*REQUEUE, Fault.LOST_REPLY, "run"),
)
async def lost_requeue(bed: Bed) -> None:
    ref = await bed.running()
    before = await bed.get(ref)
    await _lost(bed, "requeue", lambda: bed.requeuer.requeue(ref, bed.meta()))
    await bed.see(ref, state=State.PENDING, restarts=before.restarts + 1, requeue_bit=before.requeue_bit)


async def _lost(bed: Bed, name: str, call: Callable[[], Awaitable[None]]) -> None:
    async with bed.inject(Fault.LOST_REPLY, name):
        await bed.refused(OutcomeUnknownError, call(), f"a {name} whose reply is lost")


@check(
    "calls.closed",
    "A client that is closed refuses every call; closing it again changes nothing.",
    rules="1.2 1.3 TM-1",
)
async def closed(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.pending(job)
    adapter: Any = bed.adapter
    await adapter.aclose()
    await _closed(
        bed,
        (adapter.capabilities,),
        (adapter.start, job, 2),
        (adapter.open, ref),
        (adapter.get, ref),
        (adapter.find, job.id),
        (adapter.stop, ref),
    )
    await adapter.aclose()


@check(
    "calls.closed-for-holds",
    "A client that is closed refuses holds and releases.",
    rules="1.2 TM-1",
    needs=HOLD,
)
async def closed_for_holds(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.adapter.aclose()
    await _closed(bed, (bed.holder.hold, ref, bed.held(1)), (bed.holder.release, ref, bed.released(1)))


@check(
    "calls.closed-for-requeues",
    "A client that is closed refuses requeues and the restoring of a bit.",
    rules="1.2 TM-1",
    needs=REQUEUE,
)
async def closed_for_requeues(bed: Bed) -> None:
    ref = await bed.pending()
    await bed.adapter.aclose()
    await _closed(bed, (bed.requeuer.requeue, ref, bed.meta()), (bed.requeuer.restore_requeue_bit, ref, bed.meta()))


async def _closed(bed: Bed, *calls: tuple[Any, ...]) -> None:
    for call, *arguments in calls:
        await bed.refused(ClosedError, call(*arguments), f"{call.__name__} on a closed client")


CHECKS = (
    late_start,
    late_open,
    late_stop,
    late_hold,
    late_release,
    late_requeue,
    late_restore,
    in_time,
    without_a_deadline,
    naive_deadline,
    past_deadline,
    past_deadline_of_holds,
    past_deadline_of_requeues,
    wrong_arguments,
    wrong_arguments_of_holds,
    wrong_arguments_of_requeues,
    wrong_arguments_of_cessation,
    wrong_arguments_of_find_many,
    wrong_arguments_of_weakening,
    wrong_arguments_of_compiling,
    invalid_before_expired,
    invalid_before_not_found,
    expired_before_not_found,
    cancelled_start,
    cancelled_open_and_stop,
    cancelled_hold_and_release,
    cancelled_requeue,
    lost_open,
    lost_stop,
    lost_hold_and_release,
    lost_requeue,
    closed,
    closed_for_holds,
    closed_for_requeues,
)
