"""Bring up a private Slurm, and run the backend suite and the scripts on it: some at a time, each in its own scope."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import anyio

from dispatch_memory_async.conformance import BACKEND, SUITE_VERSION, Check, Report, Result, run_check

from .differential import Played, play_on_both
from .harness import SlurmHarness
from .page import Real, page
from .private_slurm import PrivateSlurm
from .scripts import SCRIPTS, Script

LANES = 10
PATIENT = ("forget", "time_out", "node_timeout", "end")
"""Steps that take half a minute: scripts that have one come first."""


class Run:
    """One run of everything that was asked for.

    :ivar results: what came of the checks, by id
    :ivar played: what came of the scripts, by name
    """

    def __init__(self, harness: SlurmHarness, checks: Sequence[Check], scripts: Sequence[Script]) -> None:
        self._harness = harness
        self._waiting: list[Check | Script] = [*reversed(checks), *sorted(scripts, key=_is_patient)]
        self._total = len(self._waiting)
        self._done = 0
        self.results: dict[str, Result] = {}
        self.played: dict[str, Played] = {}

    async def in_lanes(self, lanes: int) -> None:
        """Do it all, as much at a time as there are lanes."""
        async with anyio.create_task_group() as tasks:
            for _ in range(lanes):
                tasks.start_soon(self._lane)

    async def _lane(self) -> None:
        while self._waiting:
            work, began = self._waiting.pop(), time.monotonic()
            name, outcome = await (self._check(work) if isinstance(work, Check) else self._script(work))
            self._done += 1
            took = time.monotonic() - began
            print(f"{self._done:3}/{self._total} {took:6.1f} s  {outcome:8} {name}", flush=True)

    async def _check(self, check: Check) -> tuple[str, str]:
        result = self.results[check.id] = await run_check(check, self._harness)
        return check.id, result.outcome

    async def _script(self, script: Script) -> tuple[str, str]:
        played = self.played[script.name] = await play_on_both(script, self._harness)
        return f"script.{script.name}", "differs" if played.differences else "agrees"


def _is_patient(script: Script) -> bool:
    return any(step in PATIENT for step in script.steps)


def tell(run: Run, checks: Sequence[Check], name: str) -> bool:
    """Print what came of it; the answer is whether all is well."""
    report = Report(
        suite=f"backend suite {SUITE_VERSION}",
        harness=name,
        results=tuple(run.results[check.id] for check in checks),
    )
    print(report)
    for reason, times in Counter(one.message for one in report.results if one.outcome == "skipped").most_common():
        print(f"{times:4} skipped: {reason}")
    differing = [played for played in run.played.values() if played.differences]
    for played in differing:
        print(f"\nscript.{played.script.name}: {' '.join(played.script.steps)}")
        print("\n".join(played.differences))
    steps = sum(len(played.script.steps) for played in run.played.values())
    print(f"\n{len(run.played)} scripts with {steps} steps: {len(differing)} differ")
    return not differing and (report.ok or not checks)


def _leave(number: int, frame: object) -> NoReturn:
    """End what was started when this is ended, too."""
    del number, frame
    sys.exit(1)


def main() -> int:
    """Run what is asked for; the exit status is 0 if nothing failed or differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__)
    parser.add_argument("ids", nargs="*", help="beginnings of ids of checks, and of script.NAME; all, if none is given")
    parser.add_argument("--loop", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--lanes", type=int, default=LANES, help="how many at a time")
    parser.add_argument("--keep", action="store_true", help="keep the folder with configuration and logs")
    parser.add_argument("--page", type=Path, help="where to write the page that tells of all scripts")
    asked = parser.parse_args()
    beginnings = tuple(asked.ids) or ("",)
    checks = [check for check in BACKEND if check.id.startswith(beginnings)]
    scripts = [script for script in SCRIPTS if f"script.{script.name}".startswith(beginnings)]
    if asked.page and len(scripts) < len(SCRIPTS):
        parser.error("the page tells of all scripts")
    signal.signal(signal.SIGTERM, _leave)
    folder = Path(tempfile.mkdtemp(prefix="fidelity-"))
    began = time.monotonic()
    try:
        with PrivateSlurm(folder) as slurm:
            print(f"a private Slurm is up in {folder} after {time.monotonic() - began:.0f} s", flush=True)
            harness = SlurmHarness(slurm)
            run = Run(harness, checks, scripts)
            anyio.run(run.in_lanes, asked.lanes, backend=asked.loop)
            real = Real(slurm.run("sinfo", "--version").strip(), slurm.job_states(), frozenset(harness.states))
    finally:
        if not asked.keep:
            shutil.rmtree(folder)
    well = tell(run, checks, harness.name)
    if asked.page and well:
        asked.page.write_text(page(real, [run.played[script.name] for script in scripts]))
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
