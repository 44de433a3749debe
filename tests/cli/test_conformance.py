"""`dispatch-memory conformance` and `dispatch-memory settings` as they are typed (3.3, US-4)."""

import io
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dispatch_memory_async import AdapterConfig, Config, decode_settings, encode_settings
from dispatch_memory_async.cli import main
from dispatch_memory_async.conformance import BACKEND, SUITE_VERSION, Harness, Stop, offers
from dispatch_memory_async.memory.harness import MemoryCluster, MemoryHarness

Capture = pytest.CaptureFixture[str]


def broken(_: AdapterConfig) -> Harness:
    """Of an adapter that does not do what its author says: a stop leaves the object."""
    harness = MemoryHarness(Config())
    harness.traits = msgspec.structs.replace(harness.traits, stop=Stop.NOTHING)
    return harness


class Interrupting(MemoryHarness):
    """Somebody presses Ctrl-C in the third check."""

    made = 0

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[MemoryCluster]:
        self.made += 1
        if self.made == 3:
            raise KeyboardInterrupt
        async with super().cluster() as cluster:
            yield cluster


def interrupting(_: AdapterConfig) -> Harness:
    return Interrupting(Config())


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our harness, and those of these tests."""
    targets = {
        "memory": "dispatch_memory_async.memory.harness:memory_harness",
        "broken": f"{__name__}:broken",
        "interrupting": f"{__name__}:interrupting",
        "lost": "no_such_module:harness",
    }
    points = EntryPoints(EntryPoint(name, target, offers.ENTRY_POINTS) for name, target in targets.items())
    monkeypatch.setattr(offers, "entry_points", points.select)


def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Let this stand on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def ids(prefix: str) -> list[str]:
    return [check.id for check in BACKEND if check.id.startswith(prefix)]


@pytest.mark.parametrize("loop", ["asyncio", "trio", "both"])
def test_the_report_is_printed(capsys: Capture, loop: str) -> None:
    """3.3: every selected check is a line of the report, on each event loop; all passed is exit status 0."""
    assert main(["conformance", "--select", "stop.", "--loop", loop]) == 0
    printed = capsys.readouterr()
    loops = ["asyncio", "trio"] if loop == "both" else [loop]
    assert [line for line in printed.out.splitlines() if "on memory (slurm)" in line] == [
        f"{one}: backend suite {SUITE_VERSION} on memory (slurm)" for one in loops
    ]
    checks = [line.split()[1] for line in printed.out.splitlines() if line.startswith("passed ")]
    assert checks == ids("stop.") * len(loops)
    assert printed.err == "".join(f"{one} 1/{len(checks) // len(loops)}, 0 failed: stop\n" for one in loops)


def test_json_is_one_document(capsys: Capture) -> None:
    """US-4: --json for machines; progress is kept off it."""
    assert main(["conformance", "--json", "--loop", "both", "--select", "stop.p", "--select", "gate.ended"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["interrupted"]) == (True, False)
    assert [one["loop"] for one in told["reports"]] == ["asyncio", "trio"]
    for one in told["reports"]:
        results = [(result["check"], result["outcome"]) for result in one["report"]["results"]]
        assert results == [("gate.ended-is-refused", "passed"), ("stop.pending", "passed")]


def test_a_failed_check_is_exit_status_1(capsys: Capture) -> None:
    """US-4: something was found; it is told with what was expected and what was seen."""
    assert main(["conformance", "--adapter", "broken", "--select", "stop.pending"]) == 1
    printed = capsys.readouterr()
    assert "failed   stop.pending" in printed.out
    assert "expected: NotFoundError for " in printed.out
    assert "0 passed, 1 failed, 0 skipped" in printed.out
    assert main(["conformance", "--adapter", "broken", "--select", "stop.pending", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_all_skipped_shows_nothing(capsys: Capture) -> None:
    """3.1: what is skipped never counts as passed."""
    assert main(["conformance", "--select", "hold.reactivation"]) == 1
    assert capsys.readouterr().out.endswith("Nothing was shown: every check was skipped.\n")


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_settings_reach_the_harness(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """3.3: --settings names a file, or standard input."""
    (tmp_path / "settings.json").write_bytes(b'{"shape": "kubeflow"}')
    typed(monkeypatch, b'{"shape": "kubeflow"}')
    name = "-" if source == "standard input" else str(tmp_path / "settings.json")
    assert main(["conformance", "--settings", name, "--select", "start.names"]) == 0
    assert "on memory (kubeflow)" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_interrupted_it_tells_what_was_done(capsys: Capture, loop: str, as_json: bool) -> None:
    """US-4: Ctrl-C in the third of the checks ends it with the two that were made."""
    argv = ["conformance", "--adapter", "interrupting", "--loop", loop, "--select", "start."]
    assert main([*argv, *["--json"] * as_json]) == 130
    printed = capsys.readouterr()
    if as_json:
        told: dict[str, Any] = json.loads(printed.out)
        assert (told["ok"], told["interrupted"]) == (False, True)
        assert [one["check"] for one in told["reports"][0]["report"]["results"]] == ids("start.")[:2]
    else:
        assert f"Interrupted: 2 of {len(ids('start.'))} checks were made." in printed.out
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--adapter", "no such"], ["no adapter is named 'no such'", "broken, interrupting, lost, memory"]),
        (["--adapter", "lost"], ["'lost'", "cannot be loaded", "no_such_module"]),
        (["--select", "no.such"], ["'no.such'", "start", "races"]),
        (["--settings", "no/such.json"], ["no/such.json"]),
        (["--settings", "."], ["."]),
        (["--settings", "\0"], ["null"]),
        (["--settings", "-"], ["settings -: $.shape", "pbs"]),
    ],
)
def test_bad_use_is_one_line(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, argv: list[str], said: list[str]
) -> None:
    """US-4: exit status 2, words that help, no traceback, and nothing was run."""
    typed(monkeypatch, b'{"shape": "pbs"}')
    assert main(["conformance", *argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("dispatch-memory conformance: error: ")
    for part in said:
        assert part in line


def test_an_event_loop_that_is_not_there(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """US-1: trio is not among what the package brings."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "trio" else object())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert main(["conformance", "--loop", "both"]) == 2
    assert "trio is not installed" in capsys.readouterr().err


def test_on_a_terminal_progress_is_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """US-4: each check as it begins; the line is wiped at the end."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["conformance", "--select", "stop.pending"]) == 0
    assert capsys.readouterr().err == "\r\x1b[Kasyncio 1/1, 0 failed: stop.pending\r\x1b[K"


def test_settings_prints_the_defaults(capsys: Capture) -> None:
    """US-4: without a file, those of `Config()`; what is printed can be read again."""
    assert main(["settings"]) == 0
    printed = capsys.readouterr().out
    assert decode_settings(printed) == Config()
    assert json.loads(printed) == json.loads(encode_settings(Config()))


def test_settings_fills_the_defaults_in(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """US-4: what stands in the file, and everything else."""
    file = tmp_path / "settings.json"
    file.write_bytes(b'{"shape": "kubeflow", "killWait": "5s"}')
    expected = {**json.loads(encode_settings(Config(shape="kubeflow"))), "killWait": "5s"}  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert main(["settings", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    typed(monkeypatch, file.read_bytes())
    assert main(["settings", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"shape": "pbs"}', b'{"no": 1}', b"{} {}"])
def test_bad_settings_are_refused_with_the_message(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    """US-4: exit status 2, one line with the JSON path."""
    typed(monkeypatch, text)
    assert main(["settings", "-"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("dispatch-memory settings: error: -: $")


def test_settings_that_cannot_be_read(capsys: Capture, tmp_path: Path) -> None:
    """US-4: exit status 2."""
    assert main(["settings", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
