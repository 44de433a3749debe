"""The command as it is typed: what it prints, where, and the status that it ends with."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from dispatch_memory_async import Env, Shape
from dispatch_memory_async.cli import demo, main
from dispatch_memory_async.cli import replay as replay_module
from dispatch_memory_async.cli.live import Live
from dispatch_memory_async.cli.record import read
from dispatch_memory_async.cli.replay import Replay, View
from dispatch_memory_async.cli.report import Lines, best_view
from dispatch_memory_async.cli.stories import story
from tests.cli.test_record import PACKAGED, record

Capture = pytest.CaptureFixture[str]


def document(capsys: Capture, *argv: str) -> dict[str, Any]:
    """The JSON document of a telling in which all agrees."""
    assert main(["demo", "--json", *argv]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return dict(json.loads(printed.out))


def one(told: dict[str, Any], job: int, submission: int = 1) -> dict[str, Any]:
    (found,) = [item for item in told["objects"] if (item["job"], item["submission"]) == (job, submission)]
    return dict(found)


def test_slurm_tells_the_whole_record(capsys: Capture) -> None:
    """US-3: the last lines say what was shown, and that ground truth and observations agree."""
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("28 of 28 agree")
    said = " ".join(line.strip() for line in lines[-12:])
    assert "28 objects, 32 runs: 15 succeeded, 9 NonZeroExit, 3 Preempted, 2 NodeLost," in said
    for part in ("1 Timeout", "1 Stopped", "1 Requeued", "28 gated, 4 held", "2 runs still alive in the ground truth"):
        assert part in said
    assert "2m11s of virtual time, from 2026-11-29 15:30:44 to 2026-11-29 15:32:55 UTC" in said
    assert "2026-11-29 15:31:03 1019    dj-requeue            Pending   Requeued restart 1" in lines


def test_kubeflow_tells_it_too_and_says_what_it_left_out(capsys: Capture) -> None:
    """US-3: three further submissions make 31 objects of 28 jobs; no gate, no requeue, no counted restart."""
    assert main(["demo", "--shape", "kubeflow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("31 of 31 agree")
    said = " ".join(line.strip() for line in lines[-20:])
    assert "31 objects, 32 runs: 15 succeeded, 9 NonZeroExit" in said
    for part in ("3 Stopped", "3 Preempted", "1 Timeout", "1 not ended", "0 gated, 6 held"):
        assert part in said
    for left_out in (
        "gates and begin times (6)",
        "requeues (3)",
        "lost nodes (2)",
        "ends by preemption (2)",
        "restart counts (1)",
        "stopped runs (3)",
    ):
        assert f"* {left_out}: " in said


def test_json_is_one_document_with_every_object(capsys: Capture) -> None:
    """US-4: --json for machines."""
    told = document(capsys)
    assert (told["shape"], told["agree"], told["of"], told["interrupted"]) == ("slurm", 28, 28, False)
    assert told["steps"] == told["of_steps"]
    states = [item["state"] for item in told["objects"]]
    assert {state: states.count(state) for state in states} == {"Succeeded": 15, "Failed": 12, "Cancelled": 1}
    requeued = one(told, 1019)
    assert (requeued["state"], requeued["cause"], requeued["exit_code"], requeued["restarts"]) == (
        "Failed",
        "NonZeroExit",
        7,
        1,
    )
    first, second = requeued["runs"]
    assert (first["epoch"], second["epoch"]) == (1_000_000, 1_000_001)
    assert (first["cause"], first["exit_code"], first["ended_at"]) == (
        "NonZeroExit",
        7,
        "2026-11-29T15:31:03+00:00",
    )
    assert [run["cause"] for run in one(told, 1021)["runs"]] == ["Preempted", None]
    assert (one(told, 1022)["state"], one(told, 1022)["cause"]) == ("Failed", "Preempted")
    lost, again = one(told, 1027)["runs"]
    assert (lost["cause"], lost["alive"], again["exit_code"]) == ("NodeLost", True, 1)


def test_json_of_kubeflow(capsys: Capture) -> None:
    """KF-4, KF-5, KF-8: preempted waits again, a lost node wedges, a requeue is a new submission."""
    told = document(capsys, "--shape", "kubeflow")
    assert (told["agree"], told["of"], len(told["notes"])) == (31, 31, 6)
    assert [(one(told, 1020, number)["state"]) for number in (1, 2)] == ["Gone", "Succeeded"]
    assert (one(told, 1021)["restarts"], len(one(told, 1021)["runs"])) == (0, 2)
    assert (one(told, 1022)["state"], one(told, 1022)["cause"]) == ("Pending", "Preempted")
    assert (one(told, 1028)["state"], one(told, 1028)["cause"]) == ("Running", "NodeLost")


def test_another_record_is_told(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.psv"
    path.write_bytes(record({}, {"JobIDRaw": "8", "JobName": "größer ☃"}))
    assert main(["demo", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 of 2 agree")


def test_a_disagreement_is_told_with_status_1(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """US-4: 1 is for what was found. Here the scheduler runs out of memory where the record has a time limit."""
    monkeypatch.setattr(replay_module, "ENVIRONMENT", {**replay_module.ENVIRONMENT, "time_out": Env.out_of_memory})
    assert main(["demo"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1016 dj-limit: cause shown: found OutOfMemory, expected Timeout" in lines
    assert lines[-1].startswith("27 of 28 agree")
    assert main(["demo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["agree"] == 27


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "COMMAND"),
        (["nonsense"], "nonsense"),
        (["demo", "--shape", "pbs"], "pbs"),
        (["demo", "--nonsense"], "--nonsense"),
        (["demo", "/nowhere/at/all"], "/nowhere/at/all"),
        (["demo", "."], "error: ."),
        (["demo", "a\0b"], "null"),
    ],
)
def test_bad_use_is_status_2(argv: list[str], said: str, capsys: Capture) -> None:
    """US-4: and no traceback."""
    assert main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert "Traceback" not in printed.err


def test_a_broken_line_is_named_with_status_2(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.psv"
    path.write_bytes(PACKAGED.replace(b"|TIMEOUT|", b"|TIRED|"))
    assert main(["demo", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"error: {path}, line 18, column State: found 'TIRED', expected one of PENDING," in printed.err
    assert printed.err.count("\n") == 1


@settings(deadline=None, max_examples=50)
@given(data=st.binary())
def test_garbage_is_status_2(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """US-4: no traceback on bad input."""
    path = tmp_path_factory.getbasetemp() / "garbage.psv"
    path.write_bytes(data)
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        assert main(["demo", str(path)]) == 2
    assert out.getvalue() == ""
    assert "column" in err.getvalue()


@pytest.mark.parametrize("argv", [["--help"], ["demo", "--help"]])
def test_help_is_status_0(argv: list[str], capsys: Capture) -> None:
    """US-4: --help says what the command does, what it takes and what its statuses mean."""
    assert main(argv) == 0
    said = capsys.readouterr().out
    expected = ("--shape", "--json", "FILE", "JobIDRaw") if "demo" in argv else ("demo", "130")
    assert all(word in said for word in expected)


class Interrupted(View):
    """Somebody presses Ctrl-C as soon as the first moment is told."""

    def __init__(self, *_: object) -> None:
        """Whatever the story."""

    def moment(self, at: datetime, done: int) -> None:  # noqa: ARG002
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def listening() -> Iterator[None]:
    """SIGINT as in a terminal: whoever runs the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_ends_it_with_what_was_done_so_far(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """US-4: no traceback, and what happened until then is told. In the first second 18 jobs were submitted."""
    monkeypatch.setattr(demo, "best_view", Interrupted)
    assert main(["demo"]) == 130
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[-1] == "Interrupted. Until then: 18 Pending."
    monkeypatch.setattr(demo, "View", Interrupted)
    assert main(["demo", "--json"]) == 130
    told = json.loads(capsys.readouterr().out)
    assert (told["interrupted"], told["steps"] < told["of_steps"], told["agree"], told["of"]) == (True, True, None, 28)
    assert [item["state"] for item in told["objects"]].count("Pending") == 18


def test_it_runs_as_a_module_and_ends_quietly_when_nobody_reads() -> None:
    """``python -m dispatch_memory_async demo``; a closed pipe is no traceback."""
    command = [sys.executable, "-m", "dispatch_memory_async", "demo"]
    whole = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout.splitlines()[-1].startswith("28 of 28 agree")
    reader, writer = os.pipe()
    os.close(reader)
    unread = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    os.close(writer)
    assert (unread.returncode, unread.stderr) == (141, "")


# The view.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_with_rich_has_a_live_table(monkeypatch: pytest.MonkeyPatch) -> None:
    told = story(read(PACKAGED), Shape.SLURM)
    assert isinstance(best_view(told), Lines)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert isinstance(best_view(told), Live)


def test_without_rich_every_change_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """US-1: rich is an extra; without it the demo is plain, and no traceback."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setitem(sys.modules, "rich", None)
    assert isinstance(best_view(story(read(PACKAGED), Shape.SLURM)), Lines)


@pytest.mark.parametrize("shape", list(Shape), ids=str)
def test_the_live_table_fits_a_terminal_and_shows_every_job(shape: Shape) -> None:
    """US-3: live state, in 80 columns and 24 lines."""
    told = story(read(PACKAGED), shape)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    view = Live(told, console)
    with view:
        anyio.run(Replay(told, view).tell)
    lines = ["".join(part.text for part in line) for line in console.render_lines(view.picture(), pad=False)]
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    picture = "\n".join(lines)
    assert all(f"{item.record}" in picture for item in told.items)
    assert "15 Succeeded" in picture
    assert "15:32:55 UTC" in lines[0]
    assert any(line.startswith("15:32:55 ") and "dj-lost-requeue" in line for line in lines)


def test_of_many_objects_the_live_table_shows_those_that_changed_last() -> None:
    told = story(read(record(*({"JobIDRaw": str(number)} for number in range(1, 101)))), Shape.SLURM)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    view = Live(told, console)
    with view:
        anyio.run(Replay(told, view).tell)
    lines = console.render_lines(view.picture(), pad=False)
    assert len(lines) == 24
