"""Slurm's job ids: SL-2 past the wrap, where ids come back in the order in which they are passed."""

import pytest

from dispatch_memory_async import Shape, UnavailableError
from tests.support import MINUTE, Clock, backend, job


async def test_ids_that_came_free_behind_wait_for_the_next_round(clock: Clock) -> None:
    """SL-2: ids run to the maximum, then from 1 again: one that is free already, but behind, is not taken first."""
    async with backend(Shape.SLURM, clock, max_job_id=4, min_job_age=MINUTE) as b:
        refs = [await b.start(job(number), 1) for number in (1, 2, 3, 4)]
        assert [ref.id for ref in refs] == ["1", "2", "3", "4"]
        with pytest.raises(UnavailableError):
            await b.start(job(5), 1)
        for ref in refs:
            await b.stop(ref)
        clock.advance(MINUTE)
        first = await b.start(job(6), 1)
        second = await b.start(job(7), 1)
        assert (first.id, second.id) == ("1", "2")
        await b.stop(first)
        clock.advance(MINUTE)  # now 1, 3 and 4 are free, and 3 is next
        assert [(await b.start(job(number), 1)).id for number in (8, 9, 10)] == ["3", "4", "1"]
        with pytest.raises(UnavailableError):
            await b.start(job(11), 1)


async def test_ids_still_remembered_are_passed_over(clock: Clock) -> None:
    """SL-2: what is remembered keeps its id, however often the others come round."""
    async with backend(Shape.SLURM, clock, max_job_id=3, min_job_age=MINUTE) as b:
        kept = await b.start(job(1), 1)
        ids: list[str] = []
        for number in range(2, 8):
            ref = await b.start(job(number), 1)
            ids.append(ref.id)
            await b.stop(ref)
            clock.advance(MINUTE)
        assert ids == ["2", "3", "2", "3", "2", "3"]
        assert (await b.get(kept)).ref == kept
