"""Start: an object is made for a submission, and can be told from every other."""

import anyio

from ...model import (
    AlreadyExistsError,
    Capability,
    Cause,
    InvalidError,
    Job,
    NativePolicy,
    OutcomeUnknownError,
    Policy,
    Ref,
    State,
)
from ...model.kinds import EPOCH_BOUND
from ..bed import Bed
from ..checks import check
from ..harness import Fault, Stop

__all__ = ("CHECKS",)

MANY = 8


@check(
    "start.object-exists",
    "When start has answered, the object is there under that exact ref: it waits, and never ran.",
    rules="1.3 TM-6",
)
async def object_exists(bed: Bed) -> None:
    ref = await bed.started()
    bed.expect(not ref.weak, "an exact ref", ref)
    seen = await bed.adapter.get(ref)
    bed.expect(seen.ref == ref, f"the ref that start gave: {ref}", str(seen.ref), seen)
    fresh = {"started_at": None, "ended_at": None, "exit_code": None, "restarts": 0, "hold": None}
    await bed.see(ref, state=State.PENDING, from_history=False, **fresh)


@check(
    "start.job-and-submission-are-shown",
    "An object shows the job and the submission that it was started for.",
    rules="1.1 1.3",
)
async def job_and_submission_are_shown(bed: Bed) -> None:
    job = bed.job()
    for submission in (1, 7, EPOCH_BOUND - 1):
        await bed.see(await bed.started(job, submission), job_id=job.id, submission=submission)


@check(
    "start.refs-are-distinct",
    "Every object, of whatever job and submission, has a ref of its own and is found by it.",
    rules="1.1 SL-2 KF-1",
)
async def refs_are_distinct(bed: Bed) -> None:
    asked = [(job, submission) for job in (bed.job(), bed.job()) for submission in (1, 2)]
    refs = [await bed.started(job, submission) for job, submission in asked]
    bed.expect(len({ref.id for ref in refs}) == len(refs), "an id of its own for each", ", ".join(map(str, refs)))
    for ref, (job, submission) in zip(refs, asked, strict=True):
        await bed.see(ref, ref=ref, job_id=job.id, submission=submission)


@check(
    "start.same-submission-again",
    "A submission started again is refused where names are unique; elsewhere it makes another object.",
    rules="SL-1 KF-1",
)
async def same_submission_again(bed: Bed) -> None:
    job = bed.job()
    first = await bed.started(job)
    before = await bed.get(first)
    if bed.traits.unique_names:
        await bed.refused(AlreadyExistsError, bed.started(job), "a second start of the same submission", first)
        await _found(bed, job, first)
    else:
        second = await bed.started(job)
        bed.expect(second.id != first.id, f"another ref than {first}", second)
        await _found(bed, job, first, second)
    await bed.stays(first, before, "a second start of the same submission")


@check(
    "start.names",
    "Where names are unique each submission has its own; elsewhere every object of a job bears the same.",
    rules="SL-1 KF-1",
)
async def names(bed: Bed) -> None:
    job = bed.job()
    first, second = await bed.started(job, 1), await bed.started(job, 2)
    other = first.name != second.name
    expected = f"{'another' if bed.traits.unique_names else 'the same'} name than {first.name}"
    bed.expect(other is bed.traits.unique_names, expected, second.name)


@check(
    "start.many-at-once",
    "Starts at the same time make an object each, with a ref of its own.",
    rules="1.1 TM-1",
)
async def many_at_once(bed: Bed) -> None:
    jobs = [bed.job() for _ in range(MANY)]
    async with anyio.create_task_group() as tasks:
        for job in jobs:
            tasks.start_soon(bed.started, job)
    found = [await bed.adapter.find(job.id) for job in jobs]
    bed.expect(all(len(seen) == 1 for seen in found), "one object a job", found)
    ids = [seen.ref.id for one in found for seen in one]
    bed.expect(len(set(ids)) == MANY, "an id of its own for each", ", ".join(ids))


@check(
    "start.order-of-find",
    "A job's objects are found in the order in which they were started, whatever became of them.",
    rules="1.3",
)
async def order_of_find(bed: Bed) -> None:
    job = bed.job()
    refs = [await bed.started(job, submission) for submission in (3, 1, 2)]
    await _found(bed, job, *refs)
    for ref in reversed(refs):
        await bed.adapter.open(ref)
    await _found(bed, job, *refs)
    if "run" in bed.harness.abilities:
        await bed.driver.run(refs[1])
        await bed.see(refs[1], state=State.RUNNING)
        await _found(bed, job, *refs)
    await bed.adapter.stop(refs[0])
    await bed.stopped(refs[0])
    await _found(bed, job, *(refs if bed.traits.stop is Stop.CANCELLED else refs[1:]))


@check(
    "start.bad-submission-is-refused",
    "A submission number that is out of range is refused, and nothing is started.",
    rules="1.2 1.3",
)
async def bad_submission_is_refused(bed: Bed) -> None:
    job = bed.job()
    for submission in (0, -1, EPOCH_BOUND):
        await bed.refused(InvalidError, bed.started(job, submission), f"submission {submission}")
    await _found(bed, job)


@check(
    "start.bad-native-setting-is-refused",
    "A native setting that the scheduler does not know is refused, and nothing is started.",
    rules="1.3 2.8",
)
async def bad_native_setting_is_refused(bed: Bed) -> None:
    job = bed.job()
    native = NativePolicy(settings={"no-such-setting": "1"}, covered=(), rest=Policy())
    await bed.refused(InvalidError, bed.adapter.start(job, 1, native=native), "an unknown native setting")
    await _found(bed, job)
    await _found(bed, job, await bed.started(job))


@check(
    "start.gated",
    "A start is gated, and shows it.",
    rules="SL-3",
    needs=(Capability.GATED_START,),
)
async def gated(bed: Bed) -> None:
    await bed.see(await bed.started(), state=State.PENDING, cause=Cause.GATED, gated=True)


@check(
    "start.gated-is-not-run",
    "Nothing that the scheduler does runs a gated object.",
    rules="SL-3",
    needs=(Capability.GATED_START, "run"),
)
async def gated_is_not_run(bed: Bed) -> None:
    await bed.not_run(await bed.started())


@check(
    "start.lost-reply",
    "A start whose reply is lost says that its outcome is unknown; a look finds the object.",
    rules="1.2 SL-1 KF-1",
    needs=(Fault.LOST_REPLY,),
)
async def lost_reply(bed: Bed) -> None:
    job = bed.job()
    async with bed.inject(Fault.LOST_REPLY, "start"):
        await _found(bed, job)
        await bed.refused(OutcomeUnknownError, bed.started(job), "a start whose reply is lost")

    async def landed() -> bool:
        return len(await bed.adapter.find(job.id)) == 1

    bed.expect(await bed.eventually(landed), "the object that was started", await bed.adapter.find(job.id))
    await bed.see(await bed.started(), state=State.PENDING)


@check(
    "start.name-after-a-stop",
    "After a stop the same submission is refused where the stopped object keeps its name, else is another object.",
    rules="KF-1 KF-3 SL-1",
)
async def name_after_a_stop(bed: Bed) -> None:
    job = bed.job()
    old = await bed.started(job)
    await bed.adapter.stop(old)
    await bed.stopped(old)
    if bed.traits.stop is Stop.CANCELLED and bed.traits.unique_names:
        await bed.refused(AlreadyExistsError, bed.started(job), "a name that an ended object bears", old)
        return
    new = await bed.started(job)
    bed.expect(new.id != old.id, f"another ref than {old}", new)
    await bed.see(new, state=State.PENDING, ref=new)
    await bed.stopped(old)


async def _found(bed: Bed, job: Job, *refs: Ref) -> None:
    """See that a job's objects are these, in this order."""
    found = await bed.adapter.find(job.id)
    expected = f"found, in this order: {', '.join(map(str, refs)) or 'nothing'}"
    bed.expect(tuple(seen.ref for seen in found) == refs, expected, ", ".join(str(seen.ref) for seen in found))


CHECKS = (
    object_exists,
    job_and_submission_are_shown,
    refs_are_distinct,
    same_submission_again,
    names,
    many_at_once,
    order_of_find,
    bad_submission_is_refused,
    bad_native_setting_is_refused,
    gated,
    gated_is_not_run,
    lost_reply,
    name_after_a_stop,
)
