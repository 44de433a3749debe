"""Looking: what is shown of an object is the same by every way of asking, of this moment, and nobody's to change."""

from ulid import ULID

from ...model import NotFoundError, Observation
from ...model.base import altered
from ...model.texts import is_a
from ...spi import IdentityWeakener, MultiFinder
from ..bed import Bed
from ..checks import check
from ..showing import timeless

__all__ = ("CHECKS",)


@check(
    "looking.weak-ref-finds-the-same",
    "An object's weak ref finds what its exact ref finds, and hands back the exact one.",
    rules="1.3 SL-2 KF-1",
    needs=(IdentityWeakener,),
)
async def weak_ref_finds_the_same(bed: Bed) -> None:
    ref = await bed.started()
    await bed.started()
    exact, weak = await bed.adapter.get(ref), await bed.adapter.get(await bed.weak(ref))
    bed.expect(weak.ref == ref, f"the exact ref {ref}", str(weak.ref), weak)
    bed.expect(timeless(weak) == timeless(exact), f"what the exact ref finds: {exact}", "something else", weak)


@check(
    "looking.weakening-looks-nothing-up",
    "Any ref can be weakened, whether or not it names an object; a weak one stays as it is.",
    rules="1.3",
    needs=(IdentityWeakener,),
)
async def weakening_looks_nothing_up(bed: Bed) -> None:
    ref = await bed.started()
    for exact in (ref, *bed.strangers(ref)):
        weak = await bed.weak(exact)
        bed.expect(weak.weak and weak.id == exact.id, f"the weak ref of {exact}", weak)
        again = await bed.weak(weak)
        bed.expect(again == weak, f"{weak} again", again)


@check(
    "looking.unknown-ref",
    "A ref that names no object is not found, exact or weak, and whatever else there is.",
    rules="1.2 SL-2 KF-1",
)
async def unknown_ref(bed: Bed) -> None:
    ref = await bed.started()
    unknown, earlier = bed.strangers(ref)
    for stranger in (unknown, await bed.weak(unknown)):
        await bed.refused(NotFoundError, bed.adapter.get(stranger), f"the unknown {stranger}")
    await bed.refused(NotFoundError, bed.adapter.get(earlier), f"another submit time, {earlier}", ref)


@check(
    "looking.find-of-an-unknown-job",
    "A job of which there is no object is found as an empty tuple, whatever others there are.",
    rules="1.3",
)
async def find_of_an_unknown_job(bed: Bed) -> None:
    await bed.started()
    found = await bed.adapter.find(ULID())
    bed.expect(found == (), "an empty tuple", found)


@check(
    "looking.find-is-what-get-shows",
    "A job's objects are found as they are seen one by one, and no others are.",
    rules="1.3",
)
async def find_is_what_get_shows(bed: Bed) -> None:
    job = bed.job()
    refs = [await bed.started(job, submission) for submission in (1, 2)]
    await bed.started()
    await bed.adapter.open(refs[1])
    shown = tuple([timeless(await bed.adapter.get(ref)) for ref in refs])
    found = tuple(map(timeless, await bed.adapter.find(job.id)))
    bed.expect(found == shown, f"what get shows: {shown}", found)


@check(
    "looking.find-many-is-what-find-shows",
    "One look for many jobs has a key for each job asked for, and under it what a look for that job alone finds.",
    rules="1.3",
    needs=(MultiFinder,),
)
async def find_many_is_what_find_shows(bed: Bed) -> None:
    job, other = bed.job(), bed.job()
    for submission in (2, 1):
        await bed.started(job, submission)
    await bed.started(other)
    await bed.started()
    for asked in ([ULID(), job.id, other.id, job.id], [job.id], []):
        found = await bed.finder.find_many(asked)
        bed.expect(set(found) == set(asked), f"keys: {set(asked)}", set(found))
        for job_id, seen in found.items():
            alone = tuple(map(timeless, await bed.adapter.find(job_id)))
            bed.expect(tuple(map(timeless, seen)) == alone, f"what find shows of {job_id}: {alone}", seen)


@check(
    "looking.observed-at",
    "What is shown is of a moment between the beginning and the end of the look.",
    rules="1.1",
)
async def observed_at(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.started(job)
    await bed.cluster.advance(bed.timings.poll)
    began = bed.cluster.now()
    looks = (await bed.adapter.get(ref), *await bed.adapter.find(job.id))
    ended = bed.cluster.now()
    for seen in looks:
        within = began <= seen.observed_at <= ended
        bed.expect(within, f"observed_at from {began} to {ended}", f"observed_at {seen.observed_at}", seen)


@check(
    "looking.what-was-seen-stays",
    "What was seen of an object does not change when the object does, nor when it is looked at again.",
    rules="1.1 TM-4",
)
async def what_was_seen_stays(bed: Bed) -> None:
    ref = await bed.started()
    seen = await bed.adapter.get(ref)
    before = altered(seen)
    await bed.cluster.advance(bed.timings.poll)
    await bed.adapter.get(ref)
    await bed.adapter.open(ref)
    await bed.adapter.stop(ref)
    await bed.stopped(ref)
    bed.expect(seen == before, f"as it was: {before}", f"now {seen}")


@check(
    "looking.what-is-found-is-read-only",
    "Looks answer observations, in tuples and a read-only mapping.",
    rules="1.1 1.3 TM-4",
)
async def what_is_found_is_read_only(bed: Bed) -> None:
    job = bed.job()
    ref = await bed.started(job)
    lists: list[object] = [await bed.adapter.find(job.id)]
    if isinstance(bed.adapter, MultiFinder):
        many = await bed.finder.find_many([job.id])
        bed.expect(bed.is_read_only(many), "a read-only mapping", f"a {type(many).__name__} that can be changed")
        lists += many.values()
    for found in lists:
        bed.expect(isinstance(found, tuple), "a tuple", f"a {type(found).__name__}")
    for seen in (await bed.adapter.get(ref), *await bed.adapter.find(job.id)):
        bed.expect(is_a(seen, Observation), "an Observation", f"a {type(seen).__name__}")


CHECKS = (
    weak_ref_finds_the_same,
    weakening_looks_nothing_up,
    unknown_ref,
    find_of_an_unknown_job,
    find_is_what_get_shows,
    find_many_is_what_find_shows,
    observed_at,
    what_was_seen_stays,
    what_is_found_is_read_only,
)
