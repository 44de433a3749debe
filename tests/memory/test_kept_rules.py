"""Rules whose breach only shows in a corner: each test was written for a mutant that nothing else caught."""

from datetime import timedelta

from ulid import ULID

from dispatch_memory_async import CallMeta, Job, Shape, State, split_epoch
from tests.support import FAR, Clock, backend, job


async def test_an_age_of_zero_never_forgets(clock: Clock) -> None:
    """SL-12: with `min_job_age` 0 an ended object is remembered for ever."""
    async with backend(Shape.SLURM, clock, min_job_age=timedelta(0)) as b:
        ref = await b.start(job(), 1)
        await b.stop(ref)
        assert (await b.get(ref)).state is State.CANCELLED
        clock.advance(timedelta(days=3650))
        assert (await b.get(ref)).state is State.CANCELLED
        assert (await b.env.truth(ref)).gone_at is None


async def test_the_epoch_counts_restarts_not_runs(clock: Clock) -> None:
    """SL-13: R is the restart count shown, also where an object was requeued without having run."""
    async with backend(Shape.SLURM, clock) as b:
        ref = await b.start(job(), 7)
        await b.stop(ref)
        await b.requeue(ref, CallMeta(FAR))
        run = await b.env.run(ref)
        assert (await b.get(ref)).restarts == 1
        assert split_epoch(run.epoch) == (7, 1)
        assert run.env["DISPATCH_EPOCH"] == "7000001"


async def test_a_kubernetes_name_is_in_lower_case(clock: Clock) -> None:
    """KF-1: `dj-<ulid>-s<N>`, legal as a name; SL-1: `dj-<ULID>`, as it is."""
    work = Job(id=ULID.from_str("01ARZ3NDEKTSV4RRFFQ69G5FAV"), command=("train",))
    async with backend(Shape.KUBEFLOW, clock) as b:
        assert (await b.start(work, 3)).name == "dj-01arz3ndektsv4rrffq69g5fav-s3"
    async with backend(Shape.SLURM, clock) as b:
        assert (await b.start(work, 3)).name == "dj-01ARZ3NDEKTSV4RRFFQ69G5FAV"
