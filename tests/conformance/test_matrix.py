"""3.4: the conformance suite can fail: every mutant that shows is caught by a check, and every check catches one.

The tests marked `matrix` take minutes, and run in the nox session of that name.
"""

from pathlib import Path

import pytest

from dispatch_memory_async.conformance import BACKEND
from tests.mutants.patches import HUB, MUTANTS, WATCH, Mutant

from .matrix import ROOT, Matrix, build, labelled, patched

PAGE = ROOT / "docs" / "reference" / "conformance-matrix.md"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return build()


@pytest.mark.matrix
def test_the_sound_adapter_passes(matrix: Matrix) -> None:
    """What fails without a mutant catches none."""
    assert matrix.sound == {}


@pytest.mark.matrix
def test_every_check_catches_a_mutant(matrix: Matrix) -> None:
    """No row is empty: a check that nothing can fail shows nothing."""
    assert matrix.idle() == []


@pytest.mark.matrix
def test_every_mutant_that_shows_is_caught(matrix: Matrix) -> None:
    """No column is empty: a rule that can be broken unseen is not in the suite."""
    assert matrix.missed() == []


@pytest.mark.matrix
def test_what_is_said_to_be_hidden_is(matrix: Matrix) -> None:
    """No excuse is left standing once a check sees the mutant."""
    assert matrix.seen() == []


@pytest.mark.matrix
def test_the_page_shows_the_matrix(matrix: Matrix) -> None:
    """Make it anew: `python -m tests.conformance.matrix > docs/reference/conformance-matrix.md`."""
    assert PAGE.read_text(encoding="utf-8") == matrix.page()


@pytest.mark.parametrize(("label", "mutant"), labelled(MUTANTS).items(), ids=labelled(MUTANTS))
def test_a_mutant_fits(label: str, mutant: Mutant) -> None:
    """It changes one place of the module as it stands, into something that Python can read."""
    compile(patched(mutant), label, "exec")
    assert mutant.text != mutant.instead


def test_no_mutant_stands_there_twice() -> None:
    assert len({(mutant.module, mutant.text, mutant.instead) for mutant in MUTANTS}) == len(MUTANTS)


ONE, TWO = Mutant("WA-3", HUB, "a | b\n", ""), Mutant("WA-3", WATCH, "c", "d", hidden="nobody asks")


def test_mutants_are_called_after_their_rules() -> None:
    """With a number where a rule has several."""
    assert labelled([ONE, TWO, Mutant("TM-1", HUB, "e", "f")]) == {
        "WA-3/1": ONE,
        "WA-3/2": TWO,
        "TM-1": Mutant("TM-1", HUB, "e", "f"),
    }


def test_empty_rows_and_columns_are_found() -> None:
    """3.4: a check that catches nothing, a mutant that is not caught, one that is said to be hidden and is not."""
    first, *others = BACKEND
    caught = Matrix({}, {"1": {first.id}, "2": set()}, {"1": ONE, "2": TWO})
    assert (caught.idle(), caught.missed(), caught.seen()) == ([one.id for one in others], [], [])
    turned = Matrix({}, {"1": set(), "2": {first.id}}, {"1": ONE, "2": TWO})
    assert (turned.missed(), turned.seen()) == (["1"], ["2"])


def test_the_page_has_a_row_a_check_and_a_row_a_mutant() -> None:
    """3.4: with what it catches, and why something cannot be caught; a bar in a text does not end its cell."""
    first, second, *_ = BACKEND
    page = Matrix({}, {"1": {first.id}, "2": set()}, {"1": ONE, "2": TWO}).page().splitlines()
    assert f"| `{first.id}` | {first.sentence} | {', '.join(first.rules)} | 1 |" in page
    assert f"| `{second.id}` | {second.sentence} | {', '.join(second.rules)} |  |" in page
    assert "| 1 | `memory/hub.py` | `` a \\| b `` | nothing |" in page
    assert page[-1] == "| 2 | `memory/watch.py` | `` c `` | nobody asks |"


def test_the_page_is_there() -> None:
    """It is part of the docs."""
    assert Path(PAGE).is_file()
    assert "reference/conformance-matrix" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
