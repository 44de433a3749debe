"""SIM-7: each of the core's protections, taken back, lets a seed break an invariant: the simulator can find."""

import json
from pathlib import Path
from typing import Any

import pytest

from dispatch_memory_async.simulator import SimConfig, simulate
from dispatch_memory_async.simulator.protections import PROTECTIONS

from .mutants import FILE, SEEDS, page

ROWS: list[dict[str, Any]] = json.loads(FILE.read_text())
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "simulator-mutants.md"
HARMLESS = {29, 30}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(PROTECTIONS[row["number"]]))
def test_a_protection_that_is_taken_back_shows(row: dict[str, Any]) -> None:
    """04b, 3.3: with that seed, by that invariant; and with the real core that seed breaks none."""
    shape = PROTECTIONS[row["number"]].shape
    result = simulate(SimConfig(seed=row["seed"], shape=shape, mutant=row["number"]))
    (violation,) = result.violations
    assert (violation.invariant, violation.step) == (row["invariant"], row["step"])
    assert not simulate(SimConfig(seed=row["seed"], shape=shape)).violations


def test_every_protection_is_there() -> None:
    """04b, 3.3: all but those that are harmless, each within the bound."""
    assert [row["number"] for row in ROWS] == [number for number in range(1, 31) if number not in HARMLESS]
    assert all(row["seed"] < SEEDS for row in ROWS)


def test_the_page_says_what_was_found() -> None:
    assert PAGE.read_text() == page(ROWS)
