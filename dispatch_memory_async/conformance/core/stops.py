"""Stops and verdicts: a stop wins, a verdict is final, and every job comes to one or to rest (CO-8, CO-12, CO-15)."""

from collections.abc import Awaitable, Callable

from ...core import Phase, WaitingFor
from ...model import Capability, Cause, FinishedError, State
from ...spi import CessationSignal, Holder
from .bed import CoreBed, restart
from .checking import core_check

__all__ = ("CHECKS",)


@core_check(
    "stop.ends-a-run",
    "A job that runs is stopped on demand, and cancelled by whoever asked.",
    rules="CO-8 CO-12",
    needs=("run",),
)
async def running(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    await bed.operator.stop(job, "a person", "enough")
    status = await bed.done(job, State.CANCELLED, Cause.STOPPED)
    detail = status.verdict.detail if status.verdict else ""
    bed.expect("a person" in detail and "enough" in detail, "who stopped it and why", detail)


@core_check(
    "stop.goes-before-a-restart",
    "After a stop was asked for, no end is followed by a restart; the cause of the end stays.",
    rules="CO-8 CO-9",
    needs=("run", "finish"),
)
async def goes_before_a_restart(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    await bed.end(job)
    begun = bed.begun
    await bed.operator.stop(job, "a person")
    await bed.done(job, State.CANCELLED, bed.readable(Cause.NON_ZERO_EXIT))
    bed.expect(bed.begun == begun, "nothing is begun after the stop", bed.told)


@core_check(
    "stop.goes-before-the-first-start",
    "A job that is stopped before it could be started is cancelled, and nothing is begun.",
    rules="CO-8",
)
async def goes_before_the_first_start(bed: CoreBed) -> None:
    bed.one.refuse("start")
    job = await bed.submit()
    await bed.operator.stop(job, "a person")
    await bed.done(job, State.CANCELLED, Cause.STOPPED)
    bed.expect_calls("start")


@core_check(
    "stop.goes-before-a-hold",
    "A job that is held is stopped on demand.",
    rules="CO-8",
    needs=(Holder, Capability.HOLD),
)
async def goes_before_a_hold(bed: CoreBed) -> None:
    job = await bed.waiting()
    await bed.hold(job)
    await bed.operator.stop(job, "a person")
    await bed.done(job, State.CANCELLED, Cause.STOPPED)


@core_check(
    "stop.after-a-success-changes-nothing",
    "A job that succeeded before its stop landed has succeeded.",
    rules="CO-8",
    needs=("run", "finish"),
)
async def after_a_success(bed: CoreBed) -> None:
    job = await bed.runs()
    await bed.end(job, 0)
    await bed.operator.stop(job, "a person")
    await bed.done(job, State.SUCCEEDED, None)


@core_check(
    "stop.lost-reply",
    "A stop whose reply got lost is told as ours all the same.",
    rules="CO-3 CO-9",
    needs=("run",),
)
async def lost_reply(bed: CoreBed) -> None:
    job = await bed.runs()
    bed.one.lose("stop")
    await bed.operator.stop(job, "a person")
    await bed.done(job, State.CANCELLED, Cause.STOPPED)


@core_check(
    "verdict.success",
    "A job whose execution exits with 0 has succeeded.",
    rules="CO-12",
    needs=("run", "finish"),
)
async def success(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    await bed.end(job, 0)
    await bed.done(job, State.SUCCEEDED, None)


@core_check(
    "verdict.is-final",
    "After the verdict nothing is done and nothing changes, whatever appears; people are told that it is over.",
    rules="CO-15",
    needs=("run", "finish"),
)
async def is_final(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    await bed.end(job, 0)
    await bed.done(job, State.SUCCEEDED, None)
    before, since = await bed.record(job), len(bed.log)
    await bed.by_hand(job, 7)
    await bed.settle(job)
    asked: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: bed.operator.stop(job, "a person"),
        lambda: bed.operator.hold(job, "a person"),
        lambda: bed.operator.release(job, "a person"),
        lambda: bed.operator.confirm_ceased(job, "a person"),
    )
    for ask in asked:
        await bed.refused(FinishedError, ask(), "what is asked after the verdict")
    bed.expect_calls(since=since)
    bed.expect(await bed.record(job) == before, "the same record", repr((await bed.record(job)).verdict))


@core_check(
    "verdict.waits-for-other-objects",
    "There is no verdict while another object of the job is live: it is stopped first.",
    rules="CO-3 CO-15",
    needs=("run", "finish"),
)
async def waits_for_other_objects(bed: CoreBed) -> None:
    job = await bed.runs()
    await bed.end(job, 0)
    await bed.by_hand(job, 7)
    await bed.done(job, State.SUCCEEDED, None)


@core_check(
    "verdict.says-nothing-of-ceasing",
    "A verdict may come while the execution lives on, cut off: that it has not ceased is told beside it.",
    rules="CO-15",
    needs=(CessationSignal, Capability.CESSATION, "run", "lose_node", "fence_node"),
)
async def says_nothing_of_ceasing(bed: CoreBed) -> None:
    job = await bed.runs()
    ref = await bed.ref(job)
    await bed.loses_its_node(job)
    await bed.operator.stop(job, "a person")
    await bed.shows(job, state=Phase.DONE, ceased=(await bed.signal.cessation(job)).ceased)
    await bed.driver.fence_node(ref)
    await bed.shows(job, state=Phase.DONE, ceased=True)


@core_check(
    "rest.unanswered-looks",
    "While the scheduler does not answer nothing is done, and the status says so; then it goes on.",
    rules="CO-2 CO-12",
)
async def unanswered_looks(bed: CoreBed) -> None:
    bed.one.refuse("find")
    job = await bed.submit()
    bed.expect_calls()
    bed.one.drop("find")
    status = await bed.step(job)
    bed.expect(status.waiting_for is WaitingFor.LOOK, "waiting_for=look", repr(status.waiting_for))
    bed.expect(not status.complete, "the look is not complete", "it is")
    bed.expect_calls()
    await bed.free(job)


@core_check(
    "rest.unanswered-signal",
    "While nobody can tell whether executions have ceased, nothing is begun.",
    rules="CO-2 CO-12",
    needs=(CessationSignal, Capability.CESSATION, "run", "finish"),
)
async def unanswered_signal(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    await bed.end(job)
    begun = bed.begun
    for _ in range(2):
        bed.one.refuse("cessation")
        await bed.step(job)
        bed.expect(bed.begun == begun, "nothing is begun", bed.told)
    await bed.again(job)


CHECKS = (
    running,
    goes_before_a_restart,
    goes_before_the_first_start,
    goes_before_a_hold,
    after_a_success,
    lost_reply,
    success,
    is_final,
    waits_for_other_objects,
    says_nothing_of_ceasing,
    unanswered_looks,
    unanswered_signal,
)
