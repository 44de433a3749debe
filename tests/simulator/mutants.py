"""The table of the core's protections: which seed shows that one was taken back, and by which invariant.

``python -m tests.simulator.mutants`` makes it anew, as a page of the docs and as :data:`FILE`; that takes minutes.
"""

import json
import sys
from pathlib import Path
from typing import Any

from dispatch_memory_async.simulator import SimConfig, command_of, shrink, simulate
from dispatch_memory_async.simulator.protections import PROTECTIONS, Protection

FILE = Path(__file__).with_name("mutants.json")
SEEDS = 1_000
HEAD = """\
# Which seed shows which protection

Made by `python -m tests.simulator.mutants`. The core's protections are taken back one at a time, and seeds played from
0 until an invariant breaks: a simulator that cannot find anything shows nothing. Where a mutant would show too rarely,
some of what a seed draws is fixed. Protections 29 and 30 of the design are harmless when they are taken back, and are
not here.

| no. | what is done without it | shape | first seed | step | invariant | steps after shrinking | to play it again |
|---|---|---|---|---|---|---|---|
"""


def found(one: Protection) -> dict[str, Any]:
    """The first seed with a violation.

    :raises LookupError: if there is none
    """
    for seed in range(SEEDS):
        result = simulate(SimConfig(seed=seed, shape=one.shape, mutant=one.number))
        if result.violations:
            shrunk = shrink(result)
            return {
                "number": one.number,
                "seed": seed,
                "step": result.violations[0].step,
                "invariant": result.violations[0].invariant,
                "steps": len(shrunk.config.only or ()),
                "command": command_of(shrunk.config),
            }
    raise LookupError(f"no seed of {SEEDS} shows protection {one}")


def page(rows: list[dict[str, Any]]) -> str:
    """The page of the docs."""
    lines = [HEAD]
    for row in rows:
        one = PROTECTIONS[row["number"]]
        cells = (one.number, one.what, one.shape, row["seed"], row["step"], row["invariant"], row["steps"])
        lines.append(f"| {' | '.join(map(str, cells))} | `{row['command']}` |\n")
    return "".join(lines)


def main() -> None:
    """Find all of them anew."""
    rows: list[dict[str, Any]] = []
    for number in sorted(PROTECTIONS):
        rows.append(found(PROTECTIONS[number]))
        print(rows[-1], file=sys.stderr, flush=True)  # noqa: T201
    FILE.write_text(json.dumps(rows, indent=1) + "\n")
    print(page(rows), end="")  # noqa: T201


if __name__ == "__main__":
    main()
