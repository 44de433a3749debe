"""3.4: the core suite can fail: every mutant of the core is caught by a check, and every check catches one.

The tests marked `matrix` take minutes, and run in the nox session of that name.
"""

import re
from pathlib import Path

import pytest

from dispatch_memory_async.conformance import CORE
from dispatch_memory_async.simulator.protections import PROTECTIONS

from .core_matrix import Matrix, build, caught_by
from .core_mutants import MUTANTS, CoreMutant, labelled

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "core-conformance-matrix.md"
NOT_DEMANDED = {29, 30}
"""Protections that nothing can miss (04b, 3.3)."""


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return build()


@pytest.mark.matrix
def test_the_sound_core_passes(matrix: Matrix) -> None:
    """What fails without a mutant catches none."""
    assert matrix.sound == {}


@pytest.mark.matrix
def test_every_core_check_catches_a_mutant(matrix: Matrix) -> None:
    """No row is empty: a check that nothing can fail shows nothing."""
    assert matrix.idle() == []


@pytest.mark.matrix
def test_every_core_mutant_is_caught(matrix: Matrix) -> None:
    """No column is empty: a rule that can be broken unseen is not in the suite."""
    assert matrix.missed() == []


@pytest.mark.matrix
def test_the_page_shows_the_core_matrix(matrix: Matrix) -> None:
    """Make it anew: `python -m tests.conformance.core_matrix > docs/reference/core-conformance-matrix.md`."""
    assert PAGE.read_text(encoding="utf-8") == matrix.page()


def shown() -> dict[str, list[str]]:
    """The checks that catch each mutant, as the page says, those that catch few first."""
    found: dict[str, list[str]] = {label: [] for label in labelled()}
    rows = re.findall(r"^\| `([a-z.-]+)` \| .* \| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for check, labels in sorted(rows, key=lambda row: row[1].count(",")):
        for label in filter(None, labels.split(", ")):
            found[label].append(check)
    return found


@pytest.mark.parametrize(("label", "mutant"), labelled().items(), ids=labelled())
def test_a_core_mutant_is_caught_by_the_check_that_the_page_names(label: str, mutant: CoreMutant) -> None:
    """By the one of them that catches the fewest others."""
    first = shown()[label][0]
    assert caught_by(mutant, [check for check in CORE if check.id == first])


def test_every_protection_has_its_mutant() -> None:
    """04b, 3.3: all but those that are not to be demanded; each once."""
    numbers = [int(one.rule.removeprefix("3.3 ")) for one in MUTANTS if one.rule.startswith("3.3 ")]
    assert numbers == [number for number in range(1, 31) if number not in NOT_DEMANDED]
    assert set(PROTECTIONS) == set(numbers)


def test_empty_rows_and_columns_of_the_core_matrix_are_found() -> None:
    """3.4: a check that catches nothing, a mutant that is not caught."""
    first, *others = CORE
    matrix = Matrix({}, {"3.3 1": {first.id}, "3.3 2": set()})
    assert (matrix.idle(), matrix.missed()) == ([one.id for one in others], ["3.3 2"])


def test_the_core_matrix_is_part_of_the_docs() -> None:
    """With a row a check and a row a mutant."""
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{check.id}` | {check.sentence} | {', '.join(check.rules)} |" in page for check in CORE)
    assert all(f"| {label} | {mutant.what} |" in page for label, mutant in labelled().items())
    assert "reference/core-conformance-matrix" in (DOCS / "index.md").read_text(encoding="utf-8")
