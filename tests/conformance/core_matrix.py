"""The matrix of core checks and core mutants: which check of the core suite catches which mutant of the core.

``python -m tests.conformance.core_matrix`` prints it as the page of the docs, ``... core_matrix LABEL ...`` for some
mutants alone. It takes minutes: with every mutant the suite is run anew on every configuration of :data:`CONFIGS`.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio

from dispatch_memory_async import Action, Capability, Config, Shape, Support, Tristate
from dispatch_memory_async.conformance import CORE, Check
from dispatch_memory_async.simulator.protections import taken_back

from .core_mutants import CoreMutant, labelled
from .matrix import failing

YES = Support(value=Tristate.YES)
NATIVE: dict[str, Any] = {"rules": dict.fromkeys(Action, YES), "native": {Action.RESTART: YES}}
SLOWLY: dict[str, Any] = {"kill_wait": timedelta(seconds=30), **NATIVE}
CONFIGS = (
    Config(),
    Config(shape=Shape.KUBEFLOW),
    Config(capabilities={Capability.ACCOUNTING_HISTORY: YES}, **SLOWLY),
    Config(shape=Shape.KUBEFLOW, **SLOWLY),
)
"""On what every mutant is tried: the shapes plain, and ending slowly, with native policies and with accounting."""


def caught_by(mutant: CoreMutant | None, checks: Sequence[Check] = CORE) -> dict[str, str]:
    """The checks that fail with a mutant, or with none, with what they say."""
    with ExitStack() as stack:
        if mutant:
            stack.enter_context(taken_back(*mutant.changes))
        return anyio.run(failing, checks, CONFIGS)


@dataclass(frozen=True)
class Matrix:
    """Which check catches which mutant.

    :ivar sound: what fails without any mutant, with what it says
    :ivar caught: a row a mutant, by its label: the ids of the checks that catch it
    """

    sound: dict[str, str]
    caught: dict[str, set[str]]

    def catches(self, check: Check) -> list[str]:
        """The labels of the mutants that a check catches."""
        return [label for label, checks in self.caught.items() if check.id in checks]

    def idle(self) -> list[str]:
        """The checks that catch no mutant: empty rows."""
        return [check.id for check in CORE if not self.catches(check)]

    def missed(self) -> list[str]:
        """The mutants that no check catches: empty columns."""
        return [label for label, checks in self.caught.items() if not checks]

    def page(self) -> str:
        """The page of the docs."""
        return "".join(self._page())

    def _page(self) -> Iterator[str]:
        yield HEAD.format(checks=len(CORE), mutants=len(self.caught))
        yield "| check | what it shows | rules | mutants that it catches |\n|---|---|---|---|\n"
        for check in CORE:
            cells = (f"`{check.id}`", check.sentence, ", ".join(check.rules), ", ".join(self.catches(check)))
            yield f"| {' | '.join(cells)} |\n"
        yield "\n## The mutants\n\n| mutant | what is done then | where |\n|---|---|---|\n"
        for label, mutant in labelled().items():
            places = dict.fromkeys(
                f"`{f.__module__.rpartition('.')[2]}.{f.__qualname__}`" for f, _, _ in mutant.changes
            )
            yield f"| {label} | {mutant.what} | {', '.join(places)} |\n"


HEAD = """\
# Which core check catches which mutant

Made by `python -m tests.conformance.core_matrix`. The core is broken on purpose, one protection or rule at a time, and
the core suite run on every one of these mutants: {checks} checks, {mutants} mutants. A mutant is called after the rule
that it breaks; those called 3.3 take back one of the protections that the core's design lists there.

"""


def build(labels: Sequence[str] = ()) -> Matrix:
    """Try all mutants, or those of some labels."""
    caught: dict[str, set[str]] = {}
    for label, mutant in labelled().items():
        if not labels or label in labels:
            caught[label] = set(caught_by(mutant))
            print(f"{label}, {mutant.what}: caught by {len(caught[label])}", file=sys.stderr, flush=True)
    return Matrix(caught_by(None), caught)


def main(arguments: list[str]) -> int:
    """Print the page."""
    matrix = build(arguments)
    print(matrix.page(), end="")
    wrong = {"fails without a mutant": matrix.sound, "missed": matrix.missed()}
    if not arguments:
        wrong["catches nothing"] = matrix.idle()
    for what, labels in wrong.items():
        for label in labels:
            print(f"{label}: {what}", file=sys.stderr)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
