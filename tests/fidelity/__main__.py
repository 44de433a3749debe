"""Bring up a private Slurm, and run the backend suite on it: some checks at a time, each in a scope of its own."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import anyio

from dispatch_memory_async.conformance import BACKEND, SUITE_VERSION, Check, Report, Result, run_check

from .harness import SlurmHarness
from .private_slurm import PrivateSlurm

LANES = 8


async def run_lanes(harness: SlurmHarness, checks: Sequence[Check], lanes: int) -> Report:
    """Run checks, as many at a time as there are lanes."""
    results: dict[str, Result] = {}
    waiting = list(reversed(checks))

    async def lane() -> None:
        while waiting:
            check = waiting.pop()
            began = time.monotonic()
            results[check.id] = await run_check(check, harness)
            print(f"{time.monotonic() - began:6.1f} s  {results[check.id].outcome:8} {check.id}", flush=True)

    async with anyio.create_task_group() as tasks:
        for _ in range(lanes):
            tasks.start_soon(lane)
    return Report(
        suite=f"backend suite {SUITE_VERSION}",
        harness=harness.name,
        results=tuple(results[check.id] for check in checks),
    )


def main() -> int:
    """Run the suite; the exit status is 0 if nothing failed and something passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__)
    parser.add_argument("checks", nargs="*", help="beginnings of ids of checks; all, if none is given")
    parser.add_argument("--loop", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--lanes", type=int, default=LANES, help="how many checks at a time")
    parser.add_argument("--keep", action="store_true", help="keep the folder with configuration and logs")
    asked = parser.parse_args()
    checks = [check for check in BACKEND if not asked.checks or check.id.startswith(tuple(asked.checks))]
    folder = Path(tempfile.mkdtemp(prefix="fidelity-"))
    began = time.monotonic()
    try:
        with PrivateSlurm(folder) as slurm:
            print(f"a private Slurm is up in {folder} after {time.monotonic() - began:.0f} s", flush=True)
            harness = SlurmHarness(slurm)
            report = anyio.run(run_lanes, harness, checks, asked.lanes, backend=asked.loop)
    finally:
        if not asked.keep:
            shutil.rmtree(folder)
    print(report)
    for reason, times in Counter(one.message for one in report.results if one.outcome == "skipped").most_common():
        print(f"{times:4} skipped: {reason}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
