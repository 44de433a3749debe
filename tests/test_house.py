"""The project's own habits, held by tests: no branch on the shape outside the shapes, every rule named by a test."""

import ast
import re
from pathlib import Path

import pytest

import dispatch_memory_async

PACKAGE = Path(dispatch_memory_async.__file__).parent
TESTS = Path(__file__).parent

RULES = [
    *(f"SL-{number}" for number in range(1, 15)),
    *(f"KF-{number}" for number in range(1, 12)),
    *(f"TM-{number}" for number in range(1, 8)),
    *(f"WA-{number}" for number in range(1, 6)),
    *(f"NP-{number}" for number in range(1, 4)),
]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_says_first_what_it_is_for(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text()))


def test_nothing_in_the_adapter_asks_for_the_shape() -> None:
    """Section 7: a third shape is one new module, so nobody else compares shapes."""
    asking = [
        f"{module.name}:{node.lineno}"
        for module in (PACKAGE / "memory").rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Compare | ast.Match) and re.search(r"\bshape\b|\bShape\.", ast.unparse(node))
    ]
    assert asking == []


def test_the_adapter_starts_no_task_thread_or_timer() -> None:
    """Section 2: it has no way to, as it names none of what would start one."""
    starters = {"create_task", "ensure_future", "start_soon", "call_later", "call_at", "Thread", "Timer"}
    named = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for module in (PACKAGE / "memory").rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert not named & starters


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_named_by_a_test(rule: str) -> None:
    word = re.compile(rf"\b{rule}\b")
    named_by = [
        test.name for test in TESTS.rglob("test_*.py") if test != Path(__file__) and word.search(test.read_text())
    ]
    assert named_by
