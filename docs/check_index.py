"""The ``check-index`` directive: every check of a conformance suite, what it shows, and what it needs."""

from itertools import groupby

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dispatch_memory_async.conformance import BACKEND, CORE, Check, Fault
from dispatch_memory_async.conformance.checks import Need
from dispatch_memory_async.model import Capability


def need(what: Need) -> str:
    """What a check needs, as a link to where that is told."""
    if isinstance(what, Capability):
        return f":py:attr:`{what} <dispatch_memory_async.model.Capability.{what.name}>`"
    if isinstance(what, Fault):
        return f":py:attr:`{what} <dispatch_memory_async.conformance.Fault.{what.name}>`"
    if isinstance(what, type):
        return f":py:class:`~dispatch_memory_async.spi.{what.__name__}`"
    return f"``{what}``"


def rule(name: str) -> str:
    """A rule, as a link to where it is told; one that is a number, to its row on the page of rules."""
    place = name.lower() if "-" in name else f"rule-{name.replace('.', '-')}"
    return f":ref:`{name} <{place}>`"


def kind(check: Check) -> str:
    """What a check's id begins with."""
    return check.id.partition(".")[0]


SUITES = {"backend": BACKEND, "core": CORE}


class CheckIndex(SphinxDirective):
    """List tables of all checks of the suite that is named."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the tables, one for each kind of check."""
        lines: list[str] = []
        for name, checks in groupby(SUITES[self.arguments[0]], kind):
            lines += [f".. rubric:: {name}", "", ".. list-table::", "   :header-rows: 1", "   :widths: 28 40 12 20", ""]
            lines += ["   * - Check", "     - Shows", "     - Rules", "     - Needs"]
            for check in checks:
                lines += [f"   * - ``{check.id}``", f"     - {check.sentence}"]
                lines += [f"     - {', '.join(map(rule, check.rules))}", f"     - {', '.join(map(need, check.needs))}"]
            lines.append("")
        return self.parse_text_to_nodes(StringList(lines, source="check_index"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("check-index", CheckIndex)
    return {"parallel_read_safe": True}
