"""SIM-1: the same seed gives the same trace on both event loops, under any hash seed, on every Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .digests import CONFIGS, FILE, digests

ROOT = Path(__file__).parents[2]
KNOWN: dict[str, str] = json.loads(FILE.read_text())


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_digests_are_those_of_before(loop: str) -> None:
    """SIM-1: whoever changes the core or the simulator makes them anew, and can be asked why."""
    assert len(CONFIGS) == 50
    assert digests(loop) == KNOWN


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_no_hash_order_shows(seed: str) -> None:
    """SIM-1: three hash seeds."""
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-m", "tests.simulator.digests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == KNOWN


def test_other_seeds_do_other_things() -> None:
    """SIM-1: a digest is of what happened."""
    assert len(set(KNOWN.values())) == len(KNOWN)
