"""SIM-9: mixes that are made up: the same for the same seed."""

from datetime import timedelta

import pytest

from dispatch_memory_async import InvalidError
from dispatch_memory_async.simulator.cluster import Outcome, Work, synthetic


def test_a_seed_makes_one_mix() -> None:
    """SIM-9: on every machine and version of Python."""
    minute = timedelta(minutes=1)
    assert synthetic(seed=7, jobs=2, nodes=8) == (
        Work(
            number=1,
            submit=timedelta(minutes=25, seconds=8),
            nodes=2,
            runtime=3 * minute,
            requested=3 * minute,
        ),
        Work(
            number=2,
            submit=timedelta(hours=1, minutes=21, seconds=18),
            nodes=1,
            runtime=timedelta(hours=12, minutes=26, seconds=45),
            requested=timedelta(hours=12, minutes=26, seconds=45),
        ),
    )
    assert synthetic(seed=7, jobs=50, nodes=8) == synthetic(seed=7, jobs=50, nodes=8)
    assert synthetic(seed=7, jobs=50, nodes=8) != synthetic(seed=8, jobs=50, nodes=8)


def test_a_mix_has_something_of_everything() -> None:
    """SIM-9: sizes up to half the cluster, short and long jobs, requests that are too high, urgent and failing jobs."""
    nodes = 64
    mix = synthetic(seed=1, jobs=5000, nodes=nodes, load=0.5)
    assert [work.submit for work in mix] == sorted(work.submit for work in mix)
    assert {work.nodes for work in mix} == {1, 2, 4, 8, 16, 32}
    assert {work.priority for work in mix} == {0, 1}
    assert {work.outcome for work in mix} == {Outcome.SUCCEEDS, Outcome.FAILS}
    assert all(work.runtime <= work.requested <= 4.1 * work.runtime for work in mix)
    busy = sum((work.runtime * work.nodes for work in mix), timedelta(0)) / (mix[-1].submit * nodes)
    assert busy == pytest.approx(0.5, rel=0.1)
    assert {work.nodes for work in synthetic(seed=1, jobs=9, nodes=1)} == {1}


@pytest.mark.parametrize("fields", [{"jobs": 0}, {"nodes": True}, {"load": 0}, {"load": float("nan")}])
def test_a_mix_of_nothing_is_refused(fields: dict[str, object]) -> None:
    """SIM-9: with the name of what is wrong."""
    with pytest.raises(InvalidError, match=next(iter(fields))):
        synthetic(**{"seed": 1, "jobs": 1, "nodes": 1, **fields})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
