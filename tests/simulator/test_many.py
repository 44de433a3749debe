"""SIM-8: many seeds on any executor; what is interrupted goes on, and loses no finished seed."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from dispatch_memory_async import InvalidError, Shape
from dispatch_memory_async.simulator import Outcome, SimConfig, finished, simulate, simulate_many
from dispatch_memory_async.simulator.many import outcome_of

CONFIGS = [SimConfig(seed=seed, shape=shape, steps=30) for seed in range(6) for shape in Shape]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def digests(outcomes: list[Outcome]) -> dict[SimConfig, str]:
    return {outcome.config: outcome.digest for outcome in outcomes}


ALONE = {config: simulate(config).digest for config in CONFIGS}


def test_on_a_process_pool() -> None:
    """SIM-8: what each gives is what it gives alone."""
    with ProcessPoolExecutor(2) as executor:
        assert digests(list(simulate_many(CONFIGS, executor))) == ALONE


def test_on_a_dask_cluster() -> None:
    """SIM-8: two workers of their own, through Dask's executor."""
    from distributed import Client, LocalCluster  # noqa: PLC0415  # it takes a second

    make: Any = LocalCluster
    with (
        make(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        cast("Any", Client)(cluster) as client,
    ):
        assert digests(list(simulate_many(CONFIGS, client.get_executor()))) == ALONE


class Counting(ThreadPoolExecutor):
    """It counts what it is given."""

    given = 0

    def submit(self, fn, /, *args, **kwargs) -> Future:  # type: ignore[no-untyped-def,type-arg]
        self.given += 1
        future: Future[Any] = super().submit(fn, *args, **kwargs)
        return future


def test_an_interrupted_run_of_them_goes_on(tmp_path: Path) -> None:
    """SIM-8: what was finished is not played again, and what was cut off is."""
    file = tmp_path / "outcomes.jsonl"
    with Counting(1) as executor:
        outcomes = simulate_many(CONFIGS, executor, file=file)
        done = [next(outcomes) for _ in range(5)]
        outcomes.close()  # type: ignore[attr-defined]
    assert finished(file)[:5] == done
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:4]) + lines[4][:-20])  # as if the process had ended in the middle of a write
    assert finished(file) == done[:4]
    with Counting(1) as executor:
        assert digests(list(simulate_many(CONFIGS, executor, file=file))) == ALONE
        assert executor.given == len(CONFIGS) - 4
        assert digests(list(simulate_many(CONFIGS, executor, file=file))) == ALONE
        assert executor.given == len(CONFIGS) - 4
    assert digests(finished(file)) == ALONE


def test_another_file_is_refused(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """SIM-8: and left as it is."""
    file = tmp_path / "letter.txt"
    file.write_text("Dear Ann,\nall is well.\n")
    with pytest.raises(InvalidError, match=r"letter\.txt, line 1: .*expected the outcome of a run"):
        list(simulate_many(CONFIGS, pool, file=file))
    assert file.read_text() == "Dear Ann,\nall is well.\n"


@pytest.mark.parametrize("text", ["Dear Ann, all is well.", "\n", '{"config":{"shape":1}}'])
def test_a_file_without_a_last_line_feed_is_refused(text: str, tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """SIM-8: only the beginning of an outcome is cut off, never what somebody else wrote."""
    file = tmp_path / "letter.txt"
    file.write_text(text)
    with pytest.raises(InvalidError, match=r"letter\.txt, line 1: .*expected the outcome of a run"):
        list(simulate_many(CONFIGS, pool, file=file))
    assert file.read_text() == text


class Now(Executor):
    """It has done everything before the first is asked for."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_what_is_done_is_written_before_the_first_is_given(tmp_path: Path) -> None:
    """SIM-8: whoever asks for one only has lost none of the others."""
    file = tmp_path / "outcomes.jsonl"
    outcomes = simulate_many(CONFIGS, Now(), file=file)
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert digests(finished(file)) == ALONE


class Later(Executor):
    """It does what it was given first at once, and the others when it is told."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, args))
        if len(self.waiting) == 1:
            future.set_result(fn(*args, **kwargs))
        return future


def test_what_is_done_meanwhile_is_written_at_the_end(tmp_path: Path) -> None:
    """SIM-8: also what nobody has asked for any more."""
    file, executor = tmp_path / "outcomes.jsonl", Later()
    outcomes = simulate_many(CONFIGS, executor, file=file)
    next(outcomes)
    for future, args in executor.waiting[1:3]:
        future.set_result(outcome_of(*args))
    outcomes.close()  # type: ignore[attr-defined]
    assert len(finished(file)) == 3


def test_one_writes_at_a_time(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """SIM-8: a second one is refused, and does no harm."""
    pytest.importorskip("fcntl")
    file = tmp_path / "outcomes.jsonl"
    first = simulate_many(CONFIGS, pool, file=file)
    next(first)
    with pytest.raises(InvalidError, match=r"outcomes\.jsonl: somebody else is writing there"):
        next(simulate_many(CONFIGS, pool, file=file))
    assert len(list(first)) == len(CONFIGS) - 1
    assert digests(list(simulate_many(CONFIGS, pool, file=file))) == ALONE


def test_only_so_many_are_under_way(pool: ThreadPoolExecutor) -> None:
    """SIM-8: a million seeds are not given out at once."""
    many = (SimConfig(seed=seed, steps=1) for seed in range(200))
    outcomes = simulate_many(many, pool)
    next(outcomes)
    assert pool._work_queue.qsize() <= 64
    outcomes.close()  # type: ignore[attr-defined]
