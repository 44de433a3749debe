"""Any history agrees with itself in both shapes, and what does not agree is found."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dispatch_memory_async import Backend, Cause, Env, Observation, Ref, Shape, State, Truth, UnavailableError
from dispatch_memory_async.cli import replay as replay_module
from dispatch_memory_async.cli.record import read
from dispatch_memory_async.cli.replay import Replay, Verdict, View, differences
from dispatch_memory_async.cli.stories import Item, story
from tests.cli.test_record import PACKAGED, record


def told(data: bytes, shape: Shape, backend: str = "asyncio") -> tuple[Replay, list[Verdict]]:
    replay = Replay(story(read(data), shape), View())
    return replay, list(anyio.run(replay.tell, backend=backend))


def times(*seconds: int) -> dict[str, str]:
    """Submit, Eligible, Start and End, in seconds; a negative one is Unknown."""
    moments = (f"2026-11-29T10:{at // 60:02}:{at % 60:02}" if at >= 0 else "Unknown" for at in seconds)
    return dict(zip(("Submit", "Eligible", "Start", "End"), moments, strict=True))


ENDS = (
    ("COMPLETED", "0:0"),
    ("FAILED", "9:0"),
    ("FAILED", "0:9"),
    ("OUT_OF_MEMORY", "0:125"),
    ("TIMEOUT", "0:15"),
    ("CANCELLED by 0", "0:0"),
    ("PREEMPTED", "0:15"),
    ("NODE_FAIL", "0:0"),
)
REQUEUED = (("REQUEUED", "0:0"), ("REQUEUED", "9:0"))
LIVE = (("PENDING", "0:0"), ("RUNNING", "0:0"))


@st.composite
def histories(draw: st.DrawFn) -> bytes:
    """A few jobs of a few runs each, of every state that sacct has, close together in time."""
    rows: list[dict[str, str]] = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        runs = draw(st.integers(1, 4))
        now = draw(st.integers(0, 5))
        for run in range(1, runs + 1):
            kinds = (*ENDS, *REQUEUED) if run < runs else (*ENDS, *LIVE)
            state, code = draw(st.sampled_from(kinds))
            shortest = int(run < runs)  # two runs within one second have no order but the file's
            lengths = (0, 0, 0, shortest)
            submit, eligible, start, end = (now := now + draw(st.integers(length, 20)) for length in lengths)
            if state == "PENDING" or (state.startswith("CANCELLED") and draw(st.booleans())):
                start = -1
                eligible = draw(st.sampled_from((eligible, -1)))
            if state in {"PENDING", "RUNNING"}:
                end = -1
            rows.append(
                {"JobIDRaw": str(number), "State": state, "ExitCode": code, **times(submit, eligible, start, end)}
            )
    return record(*draw(st.permutations(rows)))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(deadline=None, max_examples=60)
@given(histories())
def test_any_history_agrees_with_itself(backend: str, data: bytes) -> None:
    """US-3: in both shapes and on both loops, record, ground truth, observation and watch agree."""
    for shape in Shape:
        _, verdicts = told(data, shape, backend)
        assert [verdict.differences for verdict in verdicts] == [[]] * len(verdicts)


@pytest.mark.parametrize("shape", list(Shape), ids=str)
def test_a_job_that_was_cancelled_while_it_was_held_comes_back_without_the_hold(shape: Shape) -> None:
    """US-3, SL-7: a requeue keeps a hold that the ended object carries, so that it has to be released."""
    runs = (
        ("COMPLETED", times(0, 0, 0, 1)),
        ("CANCELLED by 0", times(1, -1, -1, 2)),
        ("COMPLETED", times(2, 2, 2, 2)),
    )
    data = record(*({"JobIDRaw": "2", "State": state, "ExitCode": "0:0", **moments} for state, moments in runs))
    _, verdicts = told(data, shape)
    assert [verdict.differences for verdict in verdicts] == [[]] * len(verdicts)


@pytest.mark.parametrize("shape", list(Shape), ids=str)
def test_every_step_of_the_packaged_record_is_made_at_its_moment(shape: Shape) -> None:
    """The history is told in virtual time: each call happens at the recorded moment, in the order of time."""
    replay, _ = told(PACKAGED, shape)
    moments = [step.at for step in replay.story.steps]
    assert moments == sorted(moments)
    assert replay.done == len(moments)
    changes = [change for watched in replay.watched.values() for change in watched]
    assert {change.observed_at for change in changes} <= set(moments)


def slurm_runs(data: bytes) -> list[Truth]:
    _, verdicts = told(data, Shape.SLURM)
    assert all(not verdict.differences for verdict in verdicts)
    return [verdict.truth for verdict in verdicts if verdict.truth]


def test_a_preemption_that_was_not_followed_ends_a_job_that_was_requeued_by_one_before() -> None:
    """SL-9, SL-10: the bit that let the scheduler requeue it is cleared before the last preemption."""
    first = {"State": "PREEMPTED", **times(0, 0, 1, 2)}
    last = {"State": "PREEMPTED", **times(2, 2, 3, 4)}
    (truth,) = slurm_runs(record(first, last))
    assert (truth.state, truth.cause, truth.restarts, truth.requeue_bit) == (State.FAILED, Cause.PREEMPTED, 1, False)


def test_a_lost_node_is_lost_ten_seconds_before_the_end_or_at_the_start_of_the_shortest_run() -> None:
    """SL-11: the loss lies slurmd_timeout before the recorded end, never before the run."""
    long = {"State": "NODE_FAIL", **times(0, 0, 1, 40)}
    short = {"State": "NODE_FAIL", "JobIDRaw": "8", **times(0, 0, 1, 5)}
    for rows, expected in (((long,), [30]), ((long, short), [1, 36])):
        steps = story(read(record(*rows)), Shape.SLURM).steps
        losses = [step.at.second for step in steps if step.act == "lose_node"]
        assert losses == expected
        slurm_runs(record(*rows))


def test_what_waited_is_gated_in_its_first_run_and_held_later() -> None:
    """SL-3, SL-6: the gate opens when the first run is eligible; a later begin time is a hold that is released."""
    first = {"State": "NODE_FAIL", **times(0, 5, 6, 20)}
    replay, (verdict,) = told(record(first, times(20, 26, 27, 28)), Shape.SLURM)
    assert not verdict.differences
    assert [(change.observed_at.second, change.state, change.cause) for change in replay.watched[verdict.item]] == [
        (0, State.PENDING, Cause.GATED),
        (5, State.PENDING, None),
        (6, State.RUNNING, None),
        (20, State.PENDING, Cause.REQUEUED),
        (20, State.PENDING, Cause.HELD),
        (26, State.PENDING, Cause.REQUEUED),
        (27, State.RUNNING, None),
        (28, State.SUCCEEDED, None),
    ]


def test_kubeflow_tells_a_requeue_as_a_new_submission_and_a_preemption_as_the_same_object() -> None:
    """KF-4, KF-8: no call puts an object back to wait; a preemption does."""
    rows = (
        {"State": "PREEMPTED", **times(0, 0, 1, 2)},
        {"State": "REQUEUED", **times(2, 2, 3, 4)},
        {"State": "FAILED", "ExitCode": "9:0", **times(4, 4, 5, 6)},
        times(7, 7, 8, 9),
    )
    _, verdicts = told(record(*rows), Shape.KUBEFLOW)
    assert [
        (verdict.item.submission, verdict.item.state, verdict.item.cause, verdict.item.deleted, len(verdict.item.runs))
        for verdict in verdicts
    ] == [
        (1, State.CANCELLED, Cause.STOPPED, True, 2),
        (2, State.FAILED, Cause.NON_ZERO_EXIT, False, 1),
        (3, State.SUCCEEDED, None, False, 1),
    ]


def test_kubeflow_stops_what_is_wedged_before_the_next_submission() -> None:
    """KF-5: a lost node wedges the object; its processes live on in the ground truth after the stop."""
    rows = ({"State": "NODE_FAIL", **times(0, 0, 1, 2)}, {"State": "NODE_FAIL", **times(5, 5, 6, 7)})
    _, (first, second) = told(record(*rows), Shape.KUBEFLOW)
    assert first.truth is not None
    assert second.truth is not None
    assert (first.truth.state, first.truth.executions[0].cause, first.truth.executions[0].alive) == (
        State.CANCELLED,
        Cause.STOPPED,
        True,
    )
    assert (second.truth.state, second.truth.cause) == (State.RUNNING, Cause.NODE_LOST)


def test_evidence_does_not_vanish_before_it_is_compared() -> None:
    """KF-6: causes read as Unknown after a while, however long the record is."""
    failed = {"State": "FAILED", "ExitCode": "9:0"}
    years_later = {key: text.replace("2026", "2036") for key, text in times(0, 0, 1, 2).items()}
    replay, verdicts = told(record(failed, {"JobIDRaw": "8", **years_later}), Shape.KUBEFLOW)
    assert [verdict.differences for verdict in verdicts] == [[], []]
    assert replay.watched[verdicts[0].item][-1].cause is Cause.NON_ZERO_EXIT


# What is compared, on one object by hand: requeued after its first run had exited with 7, it succeeded in its second.


@dataclass
class Evidence:
    item: Item
    seen: Observation | None
    truth: Truth
    watched: list[Observation]

    def named(self) -> set[str]:
        """What does not agree."""
        found = differences(self.item, self.seen, self.truth, self.watched)
        return {difference.rpartition(": found ")[0] for difference in found}

    def falsify(self, what: str, number: int, fields: dict[str, Any]) -> None:
        """Change one field of what is shown, what is true (of one run, too), or one change that was watched."""
        runs = list(self.truth.executions)
        match what:
            case "seen" if self.seen:
                self.seen = replace(self.seen, **fields)
            case "truth":
                self.truth = replace(self.truth, **fields)
            case "run":
                runs[number] = replace(runs[number], **fields)
                self.truth = replace(self.truth, executions=tuple(runs))
            case _:
                self.watched[number] = replace(self.watched[number], **fields)


@pytest.fixture
def evidence() -> Evidence:
    ended = {"State": "REQUEUED", "ExitCode": "7:0", **times(0, 0, 1, 3)}
    replay, (verdict,) = told(record(ended, times(3, 3, 5, 6)), Shape.SLURM)
    assert verdict.truth is not None
    watched = replay.watched[verdict.item]
    assert [(change.state, change.cause) for change in watched] == [
        (State.PENDING, Cause.GATED),
        (State.PENDING, None),
        (State.RUNNING, None),
        (State.FAILED, Cause.NON_ZERO_EXIT),
        (State.PENDING, Cause.REQUEUED),
        (State.RUNNING, None),
        (State.SUCCEEDED, None),
    ]
    return Evidence(verdict.item, watched[-1], verdict.truth, watched)


def test_what_agrees_has_no_differences(evidence: Evidence) -> None:
    assert evidence.named() == set()


SOMETIME = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("what", "number", "fields", "named"),
    [
        ("seen", 0, {"state": State.FAILED}, {"state shown", "last watched"}),
        ("seen", 0, {"cause": Cause.TIMEOUT}, {"cause shown", "last watched"}),
        ("seen", 0, {"exit_code": 7}, {"exit code shown", "last watched"}),
        ("seen", 0, {"restarts": 0}, {"restarts shown", "last watched"}),
        ("seen", 0, {"ref": Ref(name="x", id="1", submitted_at=None)}, {"ref shown", "last watched"}),
        ("truth", 0, {"state": State.FAILED}, {"state"}),
        ("truth", 0, {"cause": Cause.TIMEOUT}, {"cause"}),
        ("truth", 0, {"restarts": 0}, {"restarts"}),
        ("truth", 0, {"executions": ()}, {"runs"}),
        ("run", 0, {"started_at": SOMETIME}, {"run 1: began"}),
        ("run", 1, {"ended_at": SOMETIME}, {"run 2: died"}),
        ("run", 1, {"alive": True}, {"run 2: alive"}),
        ("run", 0, {"cause": None}, {"run 1: cause"}),
        ("run", 0, {"exit_code": 8}, {"run 1: exit code"}),
        ("watched", 2, {"observed_at": SOMETIME}, {"run 1: watched"}),
        ("watched", 3, {"observed_at": SOMETIME}, {"run 1: watched"}),
        ("watched", 5, {"state": State.PENDING}, {"runs watched"}),
        ("watched", 6, {"detail": "x"}, {"last watched"}),
    ],
)
def test_a_falsified_fact_is_found(
    evidence: Evidence, what: str, number: int, fields: dict[str, Any], named: set[str]
) -> None:
    """US-3: record, ground truth, observation and watch are all compared, run by run."""
    evidence.falsify(what, number, fields)
    assert evidence.named() == named


def test_what_was_never_watched_is_found(evidence: Evidence) -> None:
    evidence.watched.clear()
    assert evidence.named() == {"runs watched", "last watched"}


def test_an_object_that_is_gone_but_should_not_be_is_found(evidence: Evidence) -> None:
    evidence.seen = None
    assert evidence.named() == {"deleted", "state last watched"}


def test_what_differs_is_told_with_what_was_found_and_expected(evidence: Evidence) -> None:
    """US-9: a message that can be acted on."""
    evidence.falsify("run", 0, {"exit_code": 8})
    assert differences(evidence.item, evidence.seen, evidence.truth, evidence.watched) == [
        "run 1: exit code: found 8, expected 7"
    ]


# What the library refuses is a difference, too.


async def refuse(env: Env, ref: Ref) -> None:
    raise UnavailableError(f"no {ref.name} today on {env!r}")


@pytest.mark.parametrize("shape", list(Shape), ids=str)
def test_a_refused_call_is_a_difference_and_no_traceback(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """US-4: exit status 1 is for what was found."""
    monkeypatch.setattr(replay_module, "ENVIRONMENT", {**replay_module.ENVIRONMENT, "time_out": refuse})
    _, verdicts = told(PACKAGED, shape)
    (bad,) = [verdict for verdict in verdicts if verdict.differences]
    assert bad.item.name == "dj-limit"
    assert bad.differences[0].startswith("time_out at 2026-11-29T15:32:13Z: UnavailableError: no dj-")


def test_an_object_that_could_not_be_started_is_told_without_a_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: object, **__: object) -> Ref:
        raise UnavailableError("the table is full")

    monkeypatch.setattr(Backend, "start", start)
    _, (verdict,) = told(record({}), Shape.SLURM)
    assert verdict.truth is None
    assert verdict.differences == ["start at 2026-11-29T10:00:00Z: UnavailableError: the table is full"]
