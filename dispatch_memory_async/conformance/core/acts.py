"""Acts: each is written down before it is called, called once, and never lands too late (CO-1, CO-4)."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count

from ...core import Kind, Phase, WaitingFor
from ...model import Capability, Cause, NotFoundError, State, UnmatchedPolicy
from ...spi import Holder
from .bed import PATIENCE, CoreBed, Member, restart
from .checking import core_check
from .mishaps import Crash

__all__ = ("CHECKS",)


@core_check(
    "act.is-written-first",
    "When a call is made, the record holds what it is, with the deadline that the call carries.",
    rules="CO-1 CO-4",
    needs=("run", "finish"),
)
async def is_written_first(bed: CoreBed) -> None:
    await _written(bed, "start", Kind.START, bed.submit)
    (job,) = bed.jobs
    if bed.gated:
        await _written(bed, "open", Kind.OPEN, lambda: bed.settle(job))
    await bed.free(job)
    await bed.run(job)
    await _written(bed, "stop", Kind.STOP, lambda: bed.operator.stop(job, "a person"))
    await bed.done(job, State.CANCELLED, Cause.STOPPED)


async def _written(bed: CoreBed, name: str, kind: Kind, act: Callable[[], Awaitable[object]]) -> None:
    async with bed.standing(bed.one, name, act):
        intent = (await bed.record(bed.jobs[-1])).intent
        seen = (intent.kind, intent.deadline) if intent else None
        call = bed.log[-1]
        bed.expect(seen == (kind, call.deadline), f"{kind} is written, until {call.deadline}", repr(seen))
        soon = call.deadline is not None and call.deadline <= call.at + PATIENCE
        bed.expect(soon, f"a deadline no later than {PATIENCE} from now", repr(call))


@core_check(
    "act.of-another-is-not-called",
    "What a supervisor has written and died over is called by no other; they wait until it can land no more.",
    rules="CO-1 CO-3",
)
async def of_another_is_not_called(bed: CoreBed) -> None:
    bed.one.crash("start")
    job = await bed.submit()
    two = await bed.other()
    status = await bed.settle(job, two)
    bed.expect(status.in_flight is Kind.START, "in_flight=Start", repr(status.in_flight))
    bed.expect(status.waiting_for is WaitingFor.ACT, "waiting_for=act", repr(status.waiting_for))
    bed.expect_calls("start")
    await bed.outlast(job)
    await bed.free(job, two)
    bed.expect(len(bed.made("start")) == 2, "one more start", bed.told)  # noqa: PLR2004


@core_check(
    "act.of-two-supervisors-is-one",
    "Of two supervisors that decide on the same act one makes it, the other nothing.",
    rules="CO-1",
)
async def of_two_supervisors_is_one(bed: CoreBed) -> None:
    bed.one.refuse("start")
    job = await bed.submit()
    two = await bed.other()
    async with bed.standing(bed.one, "records.put", lambda: bed.step(job)):
        await bed.free(job, two)
    bed.expect(len(bed.made("start")) == 2, "the refused start and one more", bed.told)  # noqa: PLR2004
    bed.expect(await bed.live(job) == [1], "one object", repr(await bed.live(job)))


@core_check(
    "act.past-its-deadline-does-nothing",
    "A call that comes too late does nothing, so that others can go on before it.",
    rules="CO-4",
)
async def past_its_deadline_does_nothing(bed: CoreBed) -> None:
    two = await bed.other()
    async with bed.standing(bed.one, "start", bed.submit):
        (job,) = bed.jobs
        await bed.outlast(job)
        await bed.free(job, two)
    bed.expect(await bed.live(job) == [2], "the object of the second start alone", repr(await bed.live(job)))


@core_check(
    "act.late-open-is-waited-for",
    "While an open may still land, a hold that is asked for is neither placed nor acknowledged; then it is.",
    rules="CO-4 CO-6",
    needs=(Capability.GATED_START, Holder, Capability.HOLD, "run"),
)
async def late_open_is_waited_for(bed: CoreBed) -> None:
    job = await bed.submit()
    bed.one.line.delay("open")
    await bed.settle(job)
    await bed.asks_to_hold(job)
    await bed.settle(job)
    bed.expect_calls("start", "open")
    hold = (await bed.record(job)).hold
    bed.expect(hold is not None and not hold.acked, "the hold is not acknowledged", repr(hold))
    await bed.one.line.land()
    await bed.shows(job, waiting_for=WaitingFor.HOLD)
    await bed.not_run(await bed.ref(job))


@core_check(
    "act.late-start-is-waited-for",
    "A job that is stopped while its start may still land has no verdict before that is settled, and no object after.",
    rules="CO-4 CO-8 CO-15",
)
async def late_start_is_waited_for(bed: CoreBed) -> None:
    bed.one.line.delay("start")
    job = await bed.submit()
    status = await bed.operator.stop(job, "a person")
    bed.expect(status.verdict is None, "no verdict", repr(status.verdict))
    bed.expect_calls("start")
    await bed.one.line.land()
    await bed.done(job, State.CANCELLED, Cause.STOPPED)


@core_check(
    "act.crash-anywhere",
    "Wherever a supervisor dies in the life of a job, another brings it to the same verdict.",
    rules="CO-1 CO-12",
    needs=("run", "finish"),
)
async def crash_anywhere(bed: CoreBed) -> None:
    for moment in count():
        first = await bed.other()
        first.mishaps.crash_after(moment)
        if not await _life(bed, first):
            return
        await bed.cluster.advance(bed.traits.forgets_after or timedelta(0))  # so that there is room again


async def _life(bed: CoreBed, first: Member) -> bool:
    """Whether the first supervisor has died before the job's end."""
    by = first
    job = await bed.submit(restart(limit=1), unmatched=UnmatchedPolicy.FAIL, by=first)

    async def comes(**fields: object) -> None:
        nonlocal by
        try:
            await bed.shows(job, by, **fields)
        except Crash:
            by = bed.one
            if (await bed.record(job)).intent:
                await bed.outlast(job)
            await bed.shows(job, by, **fields)

    try:
        await bed.record(job)
    except NotFoundError:
        return True  # it was never submitted
    for exit_code in (1, 2):
        await comes(state=Phase.PENDING, waiting_for=WaitingFor.SCHEDULER)
        await bed.driver.run(await bed.ref(job))
        await comes(state=Phase.RUNNING)
        await bed.end(job, exit_code)
    await comes(state=Phase.DONE)
    await bed.done(job, State.FAILED, bed.readable(Cause.NON_ZERO_EXIT))
    return by is not first


CHECKS = (
    is_written_first,
    of_another_is_not_called,
    of_two_supervisors_is_one,
    past_its_deadline_does_nothing,
    late_open_is_waited_for,
    late_start_is_waited_for,
    crash_anywhere,
)
