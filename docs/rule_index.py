"""The ``rule-index`` directive: every rule, the modules that carry it out, and the tests that show it.

Rules are found by their ids, in the library's sources and in the source of each test; ``SL-3 to SL-5`` names all three.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parent.parent
RULES = {"SL": 14, "KF": 11, "TM": 7, "LT": 4, "WA": 5, "NP": 3, "CO": 16}
_ID = re.compile(r"\b(SL|KF|TM|LT|WA|NP|CO)-(\d+)(?: to (?:\1-)?(\d+))?\b")


def named(text: str) -> Iterator[str]:
    """The rules that a text names."""
    for kind, first, last in _ID.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{kind}-{number}"


def modules() -> dict[str, list[str]]:
    """The modules of the library that name each rule."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "dispatch_memory_async").rglob("*.py")):
        for rule in dict.fromkeys(named(path.read_text(encoding="utf-8"))):
            found[rule].append(path.relative_to(ROOT / "dispatch_memory_async").as_posix())
    return found


def tests() -> dict[str, list[str]]:
    """The tests that name each rule."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for rule in dict.fromkeys(named(ast.get_source_segment(source, node) or "")):
                    found[rule].append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}")
    return found


class RuleIndex(SphinxDirective):
    """A list table of all rules."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        in_modules, in_tests = modules(), tests()
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 10 25 65", ""]
        rows = [("Rule", ["In the library"], ["Shown by"])]
        for kind, count in RULES.items():
            for number in range(1, count + 1):
                rule = f"{kind}-{number}"
                cells = ([f"``{name}``" for name in where[rule]] for where in (in_modules, in_tests))
                rows.append((f":ref:`{rule} <{rule.lower()}>`", *cells))
        for rule, *cells in rows:
            lines.append(f"   * - {rule}")
            lines += [f"     - {', '.join(cell) or '(not named)'}" for cell in cells]
        return self.parse_text_to_nodes(StringList(lines, source="rule_index"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("rule-index", RuleIndex)
    return {"parallel_read_safe": True}
