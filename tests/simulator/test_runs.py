"""SIM-2 to SIM-5: many seeds of the real core break no invariant; a run can be stopped and looked at.

`SIM_SEEDS` plays others: ``SIM_SEEDS=300-20000 python -m pytest tests/simulator/test_runs.py -k no_seed``.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import anyio
import pytest

from dispatch_memory_async import Action, Capability, Cause, InvalidError, Policy, Ref, Rule, Shape, UnmatchedPolicy
from dispatch_memory_async.core import MemoryRecords, Record, next_step
from dispatch_memory_async.core.absorbing import _follow  # pyright: ignore[reportPrivateUsage]
from dispatch_memory_async.core.acts import _charged  # pyright: ignore[reportPrivateUsage]
from dispatch_memory_async.core.agenda import Agenda
from dispatch_memory_async.core.steps import decide
from dispatch_memory_async.following import Resubscribing
from dispatch_memory_async.model.base import altered
from dispatch_memory_async.simulator import Kind, Result, SimConfig, Violation, explain, report, shrink, simulate, world
from dispatch_memory_async.simulator.config import CALLS, drawn
from dispatch_memory_async.simulator.invariants import ViolationError
from dispatch_memory_async.simulator.protections import Change, Protection, taken_back
from dispatch_memory_async.simulator.run import _simulate  # pyright: ignore[reportPrivateUsage]
from dispatch_memory_async.simulator.wire import Probe
from dispatch_memory_async.simulator.world import World

FIRST, LAST = map(int, os.environ.get("SIM_SEEDS", "0-300").split("-"))
CHUNK = 50
SEED = 11


@pytest.mark.parametrize("first", range(FIRST, LAST, CHUNK))
def test_no_seed_breaks_an_invariant(shape: Shape, first: int) -> None:
    """SIM-3, SIM-4: I1 to I17 after every step of 120, and at rest; CO-1 to CO-16."""
    for seed in range(first, min(first + CHUNK, LAST)):
        result = simulate(SimConfig(seed=seed, shape=shape, supervisors=3))
        assert not result.violations, f"{shape} {seed}: {result.violations[0]}"


@pytest.mark.parametrize(
    ("shape", "seed"),
    [
        (Shape.KUBEFLOW, 240),  # a step that had lost a race was not made again
        (Shape.KUBEFLOW, 9),  # a policy that was not compiled, for lack of an answer, was an error
        (Shape.SLURM, 305),  # a stop of before a requeue was held against a later one, though it could stop nothing
    ],
)
def test_what_broke_an_invariant_once_breaks_none(shape: Shape, seed: int) -> None:
    """SIM-3: the seeds that have found something."""
    assert not simulate(SimConfig(seed=seed, shape=shape, supervisors=3)).violations


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
        *("the watch ends by overflow", "is given up after so long"),
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


def test_nothing_is_played_after_that_step(shape: Shape) -> None:
    """SIM-5: also where it is the beginning, is left out, or is past the end of a run that is over early."""

    def played(**fields: Any) -> int:
        return max(entry.step for entry in simulate(SimConfig(seed=SEED, shape=shape, **fields)).trace)

    assert played(stop_at=0) == 0
    assert played(only=(5, 50), stop_at=20) == 5
    assert played(only=(5,), stop_at=20) == 5
    assert played(only=(5,), stop_at=119) <= 119
    assert played(stop_at=119) <= 119
    over = next(seed for seed in range(60) if _last_step(shape, seed, steps=400) < 300)
    assert _last_step(shape, over, steps=400, stop_at=350) < 300
    assert played(stop_at=120) <= 120
    assert played(stop_at=121) == played() == 121


def _last_step(shape: Shape, seed: int, steps: int, stop_at: int | None = None) -> int:
    trace = simulate(SimConfig(seed=seed, shape=shape, steps=steps, stop_at=stop_at)).trace
    assert stop_at is None or all(entry.kind is not Kind.PHASE for entry in trace)
    return max(entry.step for entry in trace if entry.step <= steps)


def test_only_rounds_in_which_something_changes_count(shape: Shape) -> None:
    """SIM-4: rest takes its time to be seen, and that is not held against a job."""
    for seed in range(12):
        assert not simulate(SimConfig(seed=seed, shape=shape, quiet=12)).violations


def test_what_does_not_come_to_rest_is_named() -> None:
    """SIM-4: a job that has not, and not one that has."""
    found = [simulate(SimConfig(seed=seed, jobs=3, quiet=1)) for seed in range(12)]
    restless = [result for result in found if result.violations]
    assert {result.violations[0].invariant for result in restless} == {"I15"}
    assert {result.violations[0].job for result in restless} >= {2}
    for result in restless:
        named = result.violations[0].job
        assert f"job {named}: " in result.violations[0].what
        if any(
            f"job {record.job.id.__int__()}: " in result.violations[0].what and not record.verdict
            for record in result.records
        ):
            assert not result.records[named - 1].verdict


def never(*_: object) -> bool:
    return False


def test_an_execution_of_nobody_is_told(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3: whoever begins is known; what began by itself is not put down to somebody else."""
    monkeypatch.setattr(world, "effective", never)
    found = [simulate(SimConfig(seed=seed, shape=shape)).violations for seed in range(5)]
    assert any("which nobody made eligible" in str(violation) for (violation,) in filter(None, found))


ALWAYS = Rule(causes=frozenset(Cause), action=Action.RESTART, limit=1)
FAILS = Rule(causes=frozenset(Cause), action=Action.FAIL)
HOLDS = Rule(causes=frozenset(Cause), action=Action.HOLD)
SETTINGS = {"ends_well": 0.0, "operator": 0.0, "native": False, "foreign": 0.0}


@pytest.mark.parametrize(
    ("rules", "change", "words"),
    [
        ((ALWAYS,), (_charged, "if restart.charged or record.end is None:", "if True:"), "not charged to rule 1"),
        (
            (),
            (decide, '    why = f"no rule names', '    return Restart(0)\n    why = f"no rule names'),
            "no rule names",
        ),
        ((FAILS,), (decide, "return Decision.FAIL, f", "return Restart(0); f"), "rule 1 is to fail it"),
        ((HOLDS,), (decide, "return Decision.HOLD, f", "return Restart(0); f"), "rule 1 is to hold it"),
        ((ALWAYS,), (decide, "rule.limit is None or", "True or"), "rule 1 has restarted it 2 times, of 1"),
    ],
)
def test_what_a_policy_allows_is_worked_out_from_it(
    shape: Shape, rules: tuple[Rule, ...], change: Change, words: str
) -> None:
    """SIM-3, I6: what the core says of its own restarts is not believed."""
    if not rules:  # a rule for what never happens, to have one to charge
        rules = (Rule(causes=frozenset({Cause.GATED}), action=Action.RESTART),)
    violation = _first(shape, {**SETTINGS, "policy": Policy(rules)}, change)
    assert violation.invariant == "I6"
    assert words in violation.what


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("cause=seen.cause and Cause.UNKNOWN,", "is said to be unknown, and was shown"),
        ("cause=Cause.UNKNOWN, gone=True,", "is said to be gone, and was shown"),
    ],
)
def test_unknown_is_what_nobody_could_know(shape: Shape, change: str, words: str) -> None:
    """SIM-3, I9: a cause that was shown is no unknown one."""
    violation = _first(shape, SETTINGS, (_follow, "cause=seen.cause,", change))
    assert (violation.invariant, words in violation.what) == ("I9", True)


NO_SWEEP: Change = (Agenda.sweep, "now + self._poll", "now + 1e9")
NOT_AGAIN: Change = (Resubscribing.__anext__, "self._watch = None\n", "raise\n")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((NO_SWEEP, NOT_AGAIN), id="no watch after an overflow"),
        pytest.param((NO_SWEEP, (Agenda.told, "if looked_at or", "if False and")), id="deaf"),
        pytest.param(((Agenda.written, "self._due.setdefault(job_id, False)", "pass"),), id="records are not heard"),
        pytest.param(((Agenda.made, "if step.until:", "if False:"),), id="no alarm"),
        pytest.param(((Agenda.passed, "self._taken[job_id] or", ""),), id="seen before"),
        pytest.param(((Agenda.passed, "    del self._taken[job_id]\n", ""),), id="taken for ever"),
        pytest.param(((Agenda.take, "self._due.pop(job_id)", "self._due[job_id]"),), id="always due"),
    ],
)
def test_a_job_that_nobody_comes_back_to_is_found(changes: tuple[Change, ...]) -> None:
    """SIM-4, 04b 3.2: a supervisor that runs must miss nothing, also where its watch overflows."""
    seeds = (SimConfig(seed=seed, shape=shape, supervisors=3) for seed in range(100) for shape in Shape)
    runs = (_played(config, RUNS, *changes) for config in seeds)
    assert next(result.violations[0] for result in runs if result.violations).invariant == "I15"


def test_the_watch_alone_is_enough_and_so_is_the_poll(shape: Shape) -> None:
    """4.1, WA-4: with a watch that overflows at once and no look at all jobs; and with no watch after an overflow."""
    for changes in ((NO_SWEEP,), (NOT_AGAIN,)):
        overflows = 0
        for seed in range(40):
            result = _played(SimConfig(seed=seed, shape=shape), RUNS, *changes)
            assert not result.violations, f"{shape} {seed}: {result.violations[0]}"
            overflows += result.counts.get("fault: the watch ends by overflow", 0)
        assert overflows > 5


def test_an_act_that_lands_too_late_is_told(shape: Shape) -> None:
    """SIM-3, I11: an act lands within ``call_bound`` of its start."""
    late = (World.move, "if each.started + bound <= until", "if False")
    focus = {"given_up": 0.7, "landing": 0.02, "dropped": 0.0}
    runs = [_played(SimConfig(seed=seed, shape=shape), focus, late) for seed in range(40)]
    assert any("landed later than a call may" in str(violation) for result in runs for violation in result.violations)


RUNS: dict[str, Any] = {"runs": True, "watch_buffer": 1, "lost": frozenset[Capability]()}


def _played(config: SimConfig, focus: dict[str, Any], *changes: Change) -> Result:
    return anyio.run(_simulate, config, Protection(99, "any", changes, focus=focus))


def _first(shape: Shape, focus: dict[str, Any], change: Change) -> Violation:
    """The first violation of a few seeds, with the core changed so."""
    runs = (_played(SimConfig(seed=seed, shape=shape), focus, change) for seed in range(20))
    return next(result.violations[0] for result in runs if result.violations)


async def _lost(self: MemoryRecords, record: Record, kept: Record) -> None:
    self._records[record.job.id] = altered(record, version=kept.version - 1)  # pyright: ignore[reportPrivateUsage]


async def _mixed(self: MemoryRecords, record: Record, kept: Record) -> None:
    self._records[record.job.id] = altered(kept, hold_counter=kept.hold_counter + 1)  # pyright: ignore[reportPrivateUsage]


async def _gone(self: MemoryRecords, record: Record, kept: Record) -> None:
    if kept.verdict:
        del self._records[record.job.id]  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("spoil", [_lost, _mixed, _gone])
def test_what_was_acknowledged_is_kept(shape: Shape, spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3, I13: the records are held against what they answered."""
    put = MemoryRecords.put

    async def spoiled(self: MemoryRecords, record: Record, if_version: int) -> Record:
        kept = await put(self, record, if_version)
        await spoil(self, record, kept)
        return kept

    monkeypatch.setattr(MemoryRecords, "put", spoiled)
    found = [simulate(SimConfig(seed=seed, shape=shape)).violations for seed in range(10)]
    assert {violation.invariant for violations in found for violation in violations} == {"I13"}


def test_replies_are_lost_by_the_kind_of_call(shape: Shape) -> None:
    """04b, 3.2: in some seeds those of one kind alone, which others would hide."""

    def of(seed: int, **focus: float) -> Mapping[str, float]:
        return drawn(SimConfig(seed=seed, shape=shape), Random(seed), focus).reply_lost  # noqa: S311

    drawn_ones = [of(seed) for seed in range(200)]
    alone = {call for lost in drawn_ones for call in lost if lost[call] and sum(map(bool, lost.values())) == 1}
    assert alone == set(CALLS)
    assert any(all(lost.values()) for lost in drawn_ones)
    assert set(of(0, reply_lost=0.3).values()) == {0.3}


def test_a_call_without_an_intent_is_laid_to_its_job() -> None:
    """SIM-6: the job whose supervisor made it."""

    async def played() -> None:
        there = World(SimConfig(seed=0, jobs=2), {"refused": 0.0})
        actor = there.actor("supervisor", 2)
        there.begin(actor, Probe(there, actor).stop(Ref(name="dj", id="1", submitted_at=None)))
        with pytest.raises(ViolationError, match="I12: stop has no stored intent"):
            await there.advance(actor)
        assert there.concerned == 2

    anyio.run(played)


@pytest.mark.parametrize("error", ["KeyError('oops')", "NotFoundError('oops')", "UnavailableError('oops')"])
def test_what_the_core_raises_is_a_violation(shape: Shape, error: str) -> None:
    """SIM-3, SIM-6: with the trace up to there, and it can be shrunk."""
    before = "    if record.intent:  # 3"
    bug = (
        "    if record.intent and record.version > 4:\n"
        "        from dispatch_memory_async import NotFoundError, UnavailableError\n"
        f"        raise {error}\n"
    )
    with taken_back((next_step, before, bug + before)):
        found = next(
            result for seed in range(30) if (result := simulate(SimConfig(seed=seed, shape=shape, jobs=2))).violations
        )
        (violation,) = found.violations
        assert violation.invariant == "error"
        assert violation.what.startswith(error.partition("(")[0])
        assert found.trace[-1].kind is Kind.VIOLATION
        assert (found.trace[-1].step, found.trace[-1].job) == (violation.step, violation.job)
        shrunk = shrink(found)
        assert len(shrunk.config.only or ()) < 20
        assert explain(shrunk).startswith("The core has raised an error in step ")
        assert "The core has raised an error" in report(shrunk)


def test_threads_do_not_share_a_mutant() -> None:
    """SIM-7: a mutant's functions are those of the whole process; no other run is played with them."""
    configs = [SimConfig(seed=seed, shape=Shape.KUBEFLOW, mutant=mutant) for seed in range(8) for mutant in (22, None)]
    alone = [simulate(config).digest for config in configs]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(4) as executor:
            assert [result.digest for result in executor.map(simulate, configs)] == alone
    finally:
        sys.setswitchinterval(before)


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
