"""`keep_history` (2.7, ruling 29): how many gone objects and how many call records are kept."""

import gc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dispatch_memory_async import (
    Backend,
    Config,
    InvalidError,
    NotFoundError,
    Ref,
    Shape,
    Support,
    Tristate,
    WrongStateError,
)
from dispatch_memory_async.memory.store import StoredObject
from tests.support import MINUTE, Clock, job, ulid

FIVE_MINUTES = timedelta(minutes=5)


def keeping(shape: Shape, clock: Clock, keep: int | None, **settings: object) -> Backend:
    return Backend(Config(shape=shape, **settings), clock=clock, keep_history=keep)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def gone(b: Backend, clock: Clock, *numbers: int, run: bool = True) -> list[Ref]:
    """Objects that were, in the order in which they went."""
    refs: list[Ref] = []
    for number in numbers:
        refs.append(await b.start(job(number), 1))
        await b.open(refs[-1])
        if run:
            await b.env.run(refs[-1])
        await b.stop(refs[-1])
        clock.advance(FIVE_MINUTES)
    await b.capabilities()
    return refs


async def kept(b: Backend) -> list[int]:
    known = {ulid(number): number for number in range(100)}
    return [known[truth.job.id] for truth in await b.env.objects()]


@pytest.mark.parametrize("keep", [0, 1, 3, 5, None])
async def test_the_newest_gone_objects_are_kept_2_7(shape: Shape, keep: int | None) -> None:
    clock = Clock()
    b = keeping(shape, clock, keep)
    refs = await gone(b, clock, 1, 2, 3, 4, 5)
    live = await b.start(job(6), 1)
    expected = [1, 2, 3, 4, 5][5 - (5 if keep is None else keep) :]
    assert await kept(b) == [*expected, 6]
    for number, ref in enumerate(refs, 1):
        if number in expected:
            assert (await b.env.truth(ref)).gone_at is not None
        else:
            for call in (b.env.truth, b.env.return_node, b.env.fence_node):
                with pytest.raises(NotFoundError):
                    await call(ref)
    assert (await b.env.truth(live)).gone_at is None


async def test_what_is_remembered_does_not_count_2_7(shape: Shape) -> None:
    clock = Clock()
    b = keeping(shape, clock, 2)
    for number in range(10, 20):
        await b.start(job(number), 1)
    await gone(b, clock, 1, 2)
    assert await kept(b) == [*range(10, 20), 1, 2]


async def test_the_order_of_going_counts_not_that_of_start_2_7(shape: Shape) -> None:
    clock = Clock()
    b = keeping(shape, clock, 2)
    refs = [await b.start(job(number), 1) for number in (1, 2, 3, 4)]
    for at in (2, 0, 3, 1):
        await b.stop(refs[at])
        clock.advance(FIVE_MINUTES)
    await b.capabilities()
    assert await kept(b) == [2, 4]  # the last two to go, told in the order of start


@pytest.mark.parametrize("keep", [0, 1, 4, None])
async def test_the_newest_call_records_are_kept_2_7(shape: Shape, keep: int | None) -> None:
    b = keeping(shape, Clock(), keep)
    for number in range(1, 7):
        await b.find(ulid(number))
    numbers = [1, 2, 3, 4, 5, 6][6 - (6 if keep is None else keep) :]
    assert [record.job_id for record in await b.env.calls()] == [ulid(number) for number in numbers]


Ending = Callable[[Backend, Clock, Ref], Any]


async def fence(b: Backend, _: Clock, ref: Ref) -> None:
    await b.env.fence_node(ref)


async def give_back(b: Backend, _: Clock, ref: Ref) -> None:
    await b.env.return_node(ref)


@pytest.mark.parametrize("end", [fence, give_back])
@pytest.mark.parametrize("keep", [0, 1])
async def test_what_still_lives_on_a_lost_node_is_never_dropped_ruling_29(shape: Shape, keep: int, end: Ending) -> None:
    clock = Clock()
    b = keeping(shape, clock, keep)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await b.env.lose_node(ref)
    await b.stop(ref)
    clock.advance(FIVE_MINUTES)
    await gone(b, clock, 2, 3)
    assert await kept(b) in ([1], [1, 3])  # whether it takes a place of its own is left open
    assert (await b.cessation(ulid(1))).ceased is False
    assert (await b.env.truth(ref)).executions[0].alive
    await end(b, clock, ref)
    await gone(b, clock, 4, 5)
    assert await kept(b) == [5][:keep]
    assert (await b.cessation(ulid(1))).ceased is True
    with pytest.raises(NotFoundError):
        await end(b, clock, ref)


async def test_what_lives_on_under_kill_wait_is_dropped_once_it_is_dead_ruling_29() -> None:
    clock = Clock()
    b = keeping(Shape.KUBEFLOW, clock, 0, kill_wait=MINUTE)
    ref = await b.start(job(1), 1)
    await b.env.run(ref)
    await b.stop(ref)
    assert await kept(b) == [1]
    clock.advance(59)
    assert (await b.cessation(ulid(1))).ceased is False
    clock.advance(1)
    assert await kept(b) == []
    assert (await b.cessation(ulid(1))).ceased is True


async def test_fenced_and_then_returned_is_counted_once_ruling_29(shape: Shape) -> None:
    """Two ends of the same process must not make room for two."""
    clock = Clock()
    b = keeping(shape, clock, 2)
    ref = await b.start(job(1), 1)
    await b.open(ref)
    await b.env.run(ref)
    await b.env.lose_node(ref)
    await b.stop(ref)
    clock.advance(FIVE_MINUTES)
    await b.env.fence_node(ref)
    await b.env.fence_node(ref)
    await b.env.return_node(ref)
    with pytest.raises(WrongStateError):
        await b.env.return_node(ref)
    assert await kept(b) == [1]
    await gone(b, clock, 2)
    assert await kept(b) == [1, 2]
    await gone(b, clock, 3, 4)
    assert await kept(b) == [3, 4]


async def test_accounting_answers_as_far_as_history_is_kept_sl_12() -> None:
    clock = Clock()
    b = keeping(Shape.SLURM, clock, 1, capabilities={"AccountingHistory": Support(value=Tristate.YES)})
    first, second = await gone(b, clock, 1, 2)
    with pytest.raises(NotFoundError):
        await b.get(first)
    assert await b.find(ulid(1)) == ()
    assert (await b.get(second)).from_history
    assert (await b.find_many([ulid(1), ulid(2)]))[ulid(2)][0].from_history


async def test_a_dropped_object_whose_id_came_back_does_not_hide_the_new_one_2_7() -> None:
    clock = Clock()
    b = keeping(Shape.SLURM, clock, 1, max_job_id=1)
    refs = await gone(b, clock, 1, 2, 3)
    live = await b.start(job(4), 1)
    assert [ref.id for ref in (*refs, live)] == ["1"] * 4
    assert await kept(b) == [3, 4]
    assert (await b.env.truth(refs[2])).job.id == ulid(3)
    assert (await b.env.truth(live)).job.id == ulid(4)


@pytest.mark.parametrize("keep", [-1, 1.0, True, "all"], ids=repr)
def test_it_is_a_count_or_none_2_7(shape: Shape, keep: Any) -> None:
    with pytest.raises(InvalidError):
        keeping(shape, Clock(), keep)


def stored() -> int:
    gc.collect()
    return sum(type(found) is StoredObject for found in gc.get_objects())


async def test_a_long_run_has_bounded_memory_2_7(shape: Shape) -> None:
    """What was dropped is held by nothing: neither an index, nor the log, nor what is due."""
    clock = Clock()
    before = stored()
    b = keeping(shape, clock, 2)
    for number in range(1, 40):
        ref = await b.start(job(number), 1)
        await b.open(ref)
        await b.env.run(ref)
        await b.env.out_of_memory(ref)
        await b.stop(ref)
        clock.advance(FIVE_MINUTES)
    await b.capabilities()
    assert stored() - before == 2
