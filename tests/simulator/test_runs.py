"""SIM-2 to SIM-5: many seeds of the real core break no invariant; a run can be stopped and looked at.

`SIM_SEEDS` plays others: ``SIM_SEEDS=300-20000 python -m pytest tests/simulator/test_runs.py -k no_seed``.
"""

import os
from collections import Counter

import pytest

from dispatch_memory_async import InvalidError, Shape, UnmatchedPolicy
from dispatch_memory_async.simulator import Result, SimConfig, simulate

FIRST, LAST = map(int, os.environ.get("SIM_SEEDS", "0-300").split("-"))
CHUNK = 50
SEED = 11


@pytest.mark.parametrize("first", range(FIRST, LAST, CHUNK))
def test_no_seed_breaks_an_invariant(shape: Shape, first: int) -> None:
    """SIM-3, SIM-4: I1 to I17 after every step of 120, and at rest; CO-1 to CO-16."""
    for seed in range(first, min(first + CHUNK, LAST)):
        result = simulate(SimConfig(seed=seed, shape=shape, supervisors=3))
        assert not result.violations, f"{shape} {seed}: {result.violations[0]}"


def test_several_jobs_share_a_scheduler(shape: Shape) -> None:
    """SIM-5: job ids wrap among four jobs, and each comes to rest."""
    for seed in range(15):
        result = simulate(SimConfig(seed=seed, shape=shape, jobs=4, supervisors=3, steps=200))
        assert not result.violations, f"{shape} {seed}: {result.violations[0]}"
        assert len(result.records) == 4


def test_the_runs_get_somewhere(shape: Shape) -> None:
    """SIM-5: sixty runs touch every kind of act, of fault and of end that the shape has."""
    counts = Counter[str]()
    for seed in range(60):
        counts.update(simulate(SimConfig(seed=seed, shape=shape, supervisors=3)).counts)
    acts = {"Start", "Stop", "Hold", "Release", *(("Open", "Requeue", "RestoreRequeueBit") * (shape is Shape.SLURM))}
    assert {name.removeprefix("intent ") for name in counts if name.startswith("intent ")} == acts
    assert {"verdict Succeeded", "verdict Failed", "verdict Cancelled", "restart charged to a rule"} <= counts.keys()
    by = (
        "core",
        "other",
        *(("scheduler",) * (shape is Shape.KUBEFLOW)),
    )  # Slurm's own requeues go by a bit that others set
    assert {f"execution by {who}" for who in by} <= counts.keys()
    causes = {"NodeLost", "Preempted", "OutOfMemory", "NonZeroExit", "Timeout", "LaunchFailed", "Stopped", "AdminHeld"}
    assert {f"cause {cause}" for cause in causes} <= counts.keys()
    faults = (
        *("start is refused", "start is given up while it is under way", "the reply of start is lost", "crashes"),
        *("find is not answered", "another write comes first", "start never arrives"),
    )
    assert {f"fault: {fault}" for fault in faults} <= counts.keys()


@pytest.fixture
def whole(shape: Shape) -> Result:
    return simulate(SimConfig(seed=SEED, shape=shape))


def test_a_replay_stops_where_it_is_told(whole: Result) -> None:
    """SIM-5: the trace up to that step, and the records as they stood then."""
    stopped = simulate(SimConfig(seed=SEED, shape=whole.config.shape, stop_at=10))
    assert stopped.trace == tuple(entry for entry in whole.trace if entry.step <= 10)
    assert stopped.trace[-1].step <= 10 < whole.trace[-1].step
    assert stopped.records != whole.records


def test_all_steps_are_the_whole_run(whole: Result) -> None:
    """SIM-6: what a step draws depends on no other step."""
    steps = tuple(range(1, 121))
    assert simulate(SimConfig(seed=SEED, shape=whole.config.shape, only=steps)).digest == whole.digest


def test_what_is_unmatched_can_be_said() -> None:
    """SIM-5: the policy is drawn, what follows an end that no rule names can be given."""
    for unmatched in UnmatchedPolicy:
        for seed in range(5):
            (record,) = simulate(SimConfig(seed=seed, unmatched=unmatched)).records
            assert record.policy.unmatched is unmatched


@pytest.mark.parametrize("field", ["jobs", "supervisors", "steps", "quiet"])
def test_nothing_of_a_run_is_none(field: str) -> None:
    with pytest.raises(InvalidError, match=rf"SimConfig\.{field}: found 0, expected at least 1"):
        SimConfig(seed=0, **{field: 0})  # type: ignore[arg-type]


def test_an_unknown_mutant_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"SimConfig\.mutant: found 29, expected one of \[1, 2"):
        simulate(SimConfig(seed=0, mutant=29))
