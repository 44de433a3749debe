"""The matrix of checks and mutants: which check of the conformance suite catches which mutant of the memory adapter.

``python -m tests.conformance.matrix`` prints it as the page of the docs, ``... matrix RULE ...`` for the mutants of
some rules alone. It takes minutes: every mutant is a copy of the package in which the suite is run in its own process,
on every configuration of :data:`CONFIGS` that its module has to do with.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

import anyio

from dispatch_memory_async import Action, Capability, Cessation, Config, Shape, Support, Tristate
from dispatch_memory_async.conformance import BACKEND, Check, run_check
from dispatch_memory_async.memory.harness import MemoryHarness
from tests.mutants.patches import KUBEFLOW, MUTANTS, SLURM, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dispatch_memory_async"
AT_ONCE = 2
PATIENCE = 20
"""After so many seconds a check hangs: the quickest of the broken adapters never answer."""

YES = Support(value=Tristate.YES)
ACCOUNTING = {Capability.ACCOUNTING_HISTORY: YES}
NATIVE = {"rules": dict.fromkeys(Action, YES), "native": {Action.RESTART: YES}}
FENCED = Cessation(ceased=True, detail="node fenced")
CONFIGS = {
    Shape.SLURM: (
        Config(),
        Config(kill_wait=timedelta(seconds=30), **NATIVE),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Config(capabilities=ACCOUNTING, max_job_id=20, min_job_age=timedelta(seconds=45)),
        Config(min_job_age=timedelta(0), slurmd_timeout=timedelta(0)),
        Config(cessation=FENCED),
    ),
    Shape.KUBEFLOW: (
        Config(shape=Shape.KUBEFLOW),
        Config(shape=Shape.KUBEFLOW, kill_wait=timedelta(seconds=30), **NATIVE),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Config(shape=Shape.KUBEFLOW, evidence_window=timedelta(0)),
        Config(shape=Shape.KUBEFLOW, cessation=FENCED),
    ),
}
"""On what every mutant is tried: the shapes plain, ending slowly, with history and few ids, at their limits, and sure
that a lost node is dead."""


async def failing(checks: Sequence[Check], configs: Iterable[Config]) -> dict[str, str]:
    """The checks that fail on the package as it is imported, with what they say; one that hangs fails too."""
    found: dict[str, str] = {}
    for harness in map(MemoryHarness, configs):
        for check in checks:
            if check.id in found:
                continue
            found[check.id] = "it hangs"
            with anyio.move_on_after(PATIENCE):
                async with anyio.create_task_group() as alone:  # in a context of its own, as under pytest
                    alone.start_soon(_try, check, harness, found)
    return found


async def _try(check: Check, harness: MemoryHarness, found: dict[str, str]) -> None:
    result = await run_check(check, harness)
    del found[check.id]
    if result.outcome == "failed":
        found[check.id] = f"{harness.config!r}\n{result.message}"


def patched(mutant: Mutant) -> str:
    """The module as the mutant makes it.

    :raises LookupError: if its text does not stand there once
    """
    source = (PACKAGE / mutant.module).read_text(encoding="utf-8")
    if source.count(mutant.text) != 1:
        raise LookupError(f"{mutant.rule}: {mutant.text!r} is not there once in {mutant.module}")
    return source.replace(mutant.text, mutant.instead)


def caught_by(mutant: Mutant | None) -> dict[str, str]:
    """The checks that fail with a mutant, or with none, with what they say."""
    shapes = {SLURM: [Shape.SLURM], KUBEFLOW: [Shape.KUBEFLOW]}.get(mutant.module if mutant else "", list(Shape))
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / PACKAGE.name
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant:
            (copy / mutant.module).write_text(patched(mutant), encoding="utf-8")
        done = subprocess.run(  # noqa: S603  # our own interpreter on our own files
            [sys.executable, "-m", "tests.conformance.matrix", "--failing", *shapes],
            cwd=place,
            env={**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the suite cannot be run with {mutant}:\n{done.stderr[-2000:]}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Matrix:
    """Which check catches which mutant.

    :ivar sound: what fails without any mutant, with what it says
    :ivar caught: a row a mutant, by its label: the ids of the checks that catch it
    :ivar mutants: the mutants by label
    """

    sound: dict[str, str]
    caught: dict[str, set[str]]
    mutants: dict[str, Mutant]

    def catches(self, check: Check) -> list[str]:
        """The labels of the mutants that a check catches."""
        return [label for label, checks in self.caught.items() if check.id in checks]

    def idle(self) -> list[str]:
        """The checks that catch no mutant: empty rows."""
        return [check.id for check in BACKEND if not self.catches(check)]

    def missed(self) -> list[str]:
        """The mutants that no check catches although they show: empty columns."""
        return [label for label, checks in self.caught.items() if not checks and not self.mutants[label].hidden]

    def seen(self) -> list[str]:
        """The mutants that are said to be hidden, and are caught after all."""
        return [label for label, checks in self.caught.items() if checks and self.mutants[label].hidden]

    def page(self) -> str:
        """The page of the docs."""
        return "".join(self._page())

    def _page(self) -> Iterator[str]:
        hidden = {label: mutant for label, mutant in self.mutants.items() if mutant.hidden}
        yield HEAD.format(checks=len(BACKEND), mutants=len(self.mutants), hidden=len(hidden))
        yield "| check | what it shows | rules | mutants that it catches |\n|---|---|---|---|\n"
        for check in BACKEND:
            cells = (f"`{check.id}`", _cell(check.sentence), ", ".join(check.rules), ", ".join(self.catches(check)))
            yield f"| {' | '.join(cells)} |\n"
        yield "\n## The mutants\n\n| mutant | module | what stands there | what it makes of it |\n|---|---|---|---|\n"
        for label, mutant in self.mutants.items():
            if not mutant.hidden:
                yield f"| {label} | `{mutant.module}` | {_code(mutant.text)} | {_code(mutant.instead)} |\n"
        yield "\n## What no check can see\n\n| mutant | module | what stands there | why |\n|---|---|---|---|\n"
        for label, mutant in hidden.items():
            yield f"| {label} | `{mutant.module}` | {_code(mutant.text)} | {_cell(mutant.hidden)} |\n"


HEAD = """\
# Which check catches which mutant

Made by `python -m tests.conformance.matrix`. A suite that cannot fail proves nothing, so the memory adapter is broken
on purpose, one rule at a time, and the backend suite run on every one of these mutants: {checks} checks, {mutants}
mutants, {hidden} of which show nowhere that an adapter can be asked. A mutant is called after the rule that it takes
back.

"""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`` {_cell(text)} ``" if text.strip() else "nothing"


def labelled(mutants: Sequence[Mutant]) -> dict[str, Mutant]:
    """Mutants under the names that the page gives them: the rule, and a number if it has several."""
    several = Counter(mutant.rule for mutant in mutants)
    numbers = {rule: count(1) for rule in several}
    return {
        mutant.rule if several[mutant.rule] == 1 else f"{mutant.rule}/{next(numbers[mutant.rule])}": mutant
        for mutant in mutants
    }


def build(rules: Sequence[str] = ()) -> Matrix:
    """Try all mutants, or those of some rules."""
    mutants = {label: one for label, one in labelled(MUTANTS).items() if not rules or one.rule in rules}
    for mutant in mutants.values():
        compile(patched(mutant), mutant.module, "exec")
    caught: dict[str, set[str]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sound = pool.submit(caught_by, None)
        for number, (label, checks) in enumerate(zip(mutants, pool.map(caught_by, mutants.values()), strict=True), 1):
            caught[label] = set(checks)
            print(f"{number}/{len(mutants)} {label}: caught by {len(checks)}", file=sys.stderr, flush=True)
    return Matrix(sound.result(), caught, mutants)


def main(arguments: list[str]) -> int:
    """Print the page; or, for the copies, what fails."""
    if arguments[:1] == ["--failing"]:
        configs = [config for shape in arguments[1:] for config in CONFIGS[Shape(shape)]]
        print(json.dumps(anyio.run(failing, BACKEND, configs)))
        return 0
    matrix = build(arguments)
    print(matrix.page(), end="")
    wrong = {"fails without a mutant": matrix.sound, "missed": matrix.missed(), "not hidden": matrix.seen()}
    if not arguments:
        wrong["catches nothing"] = matrix.idle()
    for what, labels in wrong.items():
        for label in labels:
            print(f"{label}: {what}", file=sys.stderr)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
