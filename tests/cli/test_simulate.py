"""US-4, SIM-6, SIM-8: `dispatch-memory simulate` and `replay`."""

import json
import os
import pty
import signal
import subprocess
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dispatch_memory_async.cli import main
from dispatch_memory_async.cli import simulate as commands
from dispatch_memory_async.core import next_step
from dispatch_memory_async.simulator import Outcome, SimConfig, finished, simulate
from dispatch_memory_async.simulator.protections import taken_back

ROOT = Path(__file__).parents[2]
SHORT = ("--steps", "20", "--processes", "1")
BROKEN = ("--shape", "kubeflow", "--seeds", "5", "--mutant", "18")
"""A hold is acknowledged when it is asked: seed 0 shows it."""


def test_many_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-8: both shapes, the first seed and the last in the report, and what happened how often."""
    assert main(["simulate", "--from", "3", "--seeds", "4", "--jobs", "2", *SHORT]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "8 runs, seeds 3 to 6: 0 with a violation"
    assert any(line.startswith("intent Start ") for line in printed.out.splitlines())
    first, *progress = printed.err.splitlines()
    assert first == "seeds 3 to 6, slurm, kubeflow"
    assert progress[-1].startswith("8/8 runs, ")
    assert progress[-1].endswith("/s, 0 with a violation")


def test_a_violation_is_shrunk_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-6: exit status 1, the story, and the line that plays it again; which does."""
    assert main(["simulate", *BROKEN]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "5 runs, seeds 0 to 4: 1 with a violation"
    assert any(line.startswith("I4 is broken in step ") for line in printed)
    (again,) = [line for line in printed if line.startswith("To play it again: dispatch-memory replay 0 ")]
    assert main(again.partition("dispatch-memory ")[2].split()) == 1
    assert "I4 in step" in capsys.readouterr().out


def test_what_happened_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--shape", "slurm", "--seeds", "2", "--json", *SHORT]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["total"], told["done"]) == (2, 2)
    assert {outcome["config"]["seed"] for outcome in told["outcomes"]} == {0, 1}


def test_the_first_violation_is_told_and_the_others_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIM-6: by seed and shape, whichever was done first; and how many are left out."""
    monkeypatch.setattr(commands, "LISTED", 1)
    broken = [seed for seed in range(4) if simulate(SimConfig(seed=seed, steps=20, mutant=27)).violations]
    assert main(["simulate", "--seeds", "4", "--steps", "20", "--mutant", "27", "--processes", "2"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"8 runs, seeds 0 to 3: {len(broken)} with a violation"
    told = [line.partition("dispatch-memory ")[2].split()[1:4] for line in printed if "dispatch-memory replay" in line]
    assert told == [[str(seed), "--shape", "slurm"] for seed in broken[:2]]
    assert printed[-2] == f"and {len(broken) - 2} more"


def test_a_document_is_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIM-1: letter by letter, whichever run was done first."""
    file = tmp_path / "outcomes"
    arguments = ["simulate", "--seeds", "3", "--json", *SHORT, "--resume", str(file)]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(reversed(lines)))

    def given(*_: object, **__: object) -> list[Outcome]:
        return finished(file)

    monkeypatch.setattr(commands, "simulate_many", given)
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    told = json.loads(first)
    assert list(told) == sorted(told)
    assert [(each["config"]["seed"], each["config"]["shape"]) for each in told["outcomes"]] == [
        (seed, shape) for seed in range(3) for shape in ("kubeflow", "slurm")
    ]


def test_there_are_no_more_processes_than_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def pool(processes: int) -> Executor:
        asked.append(processes)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr(commands, "ProcessPoolExecutor", pool)
    assert main(["simulate", "--seeds", "1", "--steps", "5", "--processes", "500"]) == 0
    assert asked == [2]


def test_what_the_core_raises_is_no_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    """US-4: exit status 1, the trace, and the line that plays it again."""
    bug = "    raise NotFoundError('oops')\n    if record.intent:  # 3"
    with taken_back(
        (next_step, "    if record.intent:  # 3", bug.replace("raise ", "raise __import__('dispatch_memory_async')."))
    ):
        assert main(["replay", "7"]) == 1
        assert "error in step 0, job 1: NotFoundError: oops" in capsys.readouterr().out


def test_a_replay_stops_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-5: the trace, the records and the ground truth as they stand after that step."""
    assert main(["replay", "7", "--shape", "kubeflow", "--stop-at", "9"]) == 0
    printed = capsys.readouterr().out
    steps = [int(line[:4]) for line in printed.splitlines() if line[:4].strip().isdigit()]
    assert steps
    assert max(steps) <= 9
    assert "record of job 1: Record(" in printed
    assert "object 1: Truth(" in printed
    assert main(["replay", "7", "--shape", "kubeflow", "--stop-at", "9", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["digest"] in printed
    assert [entry["step"] for entry in told["trace"]] == steps


def test_a_replay_that_takes_long_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "LONG", 0.0)
    assert main(["replay", "7", "--steps", "3"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[:4] == [f"step {step} of 3" for step in range(4)]
    assert set(told[4:]) == {"coming to rest"}


def test_a_replay_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-10: a page, beside what is printed."""
    page = tmp_path / "run.html"
    assert main(["replay", "3", "--report", str(page)]) == 0
    assert "No invariant was broken." in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_seeds_are_played_on_a_dask_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-8: by its scheduler's address."""
    from distributed import LocalCluster  # noqa: PLC0415  # it takes a second

    make: Any = LocalCluster
    with make(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = ["--dask", cluster.scheduler_address]
        assert main(["simulate", "--shape", "slurm", "--seeds", "5", "--steps", "20", *address]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "5 runs, seeds 0 to 4: 0 with a violation"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate", "--seeds", "0"], "--seeds and --processes: expected at least 1"),
        (["simulate", "--jobs", "0"], "SimConfig.jobs: found 0, expected at least 1"),
        (["simulate", "--mutant", "29", "--seeds", "1", "--processes", "1"], "SimConfig.mutant: found 29"),
        (["simulate", "--from", "-1"], "SimConfig.seed: found -1"),
        (["simulate", "--resume", "/nowhere/at/all", "--seeds", "1"], "/nowhere/at/all"),
        (["simulate", "--dask", "nowhere://at-all", "--seeds", "1"], "--dask: found 'nowhere://at-all', expected the"),
        (["replay", "0", "--report", "/nowhere/at/all"], "/nowhere/at/all"),
        (["replay", "0", "--mutant", "30"], "SimConfig.mutant: found 30"),
        (["replay", "0", "--only", "1,b"], "argument --only: invalid"),
        (["replay", "b"], "argument SEED: invalid int value: 'b'"),
    ],
)
def test_bad_use_is_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """US-4: exit status 2, and no traceback."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert "Traceback" not in printed.err


def test_an_interrupted_run_tells_what_was_done_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """US-4, SIM-8: Ctrl-C tells what was done until then; the same file again goes on with the rest."""
    file = tmp_path / "outcomes"
    options = ["--resume", str(file), *SHORT]
    ours, its = pty.openpty()  # on a terminal every run that is done is told
    process = subprocess.Popen(  # noqa: S603  # our own interpreter
        [sys.executable, "-m", "dispatch_memory_async", "simulate", "--seeds", "100000", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=its,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    os.close(its)
    told = ""
    while "3/200000 runs" not in told:
        told += os.read(ours, 1024).decode()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    with suppress(OSError):  # the end of a terminal
        while more := os.read(ours, 1024):
            told += more.decode()
    os.close(ours)
    assert process.returncode == 130, told
    assert "of 200000 runs, seeds 0 to 99999: 0 with a violation" in out.splitlines()[-1]
    assert "Traceback" not in told
    done = finished(file)
    assert len(done) >= 3
    assert main(["simulate", "--seeds", "4", *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "8 runs, seeds 0 to 3: 0 with a violation"
    assert finished(file)[: len(done)] == done
    assert len({outcome.config for outcome in finished(file)}) == len(finished(file)) >= 8
