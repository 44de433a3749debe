"""``python -m tests.benchmarks``: ratios and sizes beside what they are meant to be. It reports, it does not judge.

A ratio is that of two medians, both sides measured in turn, in many short rounds, in the processor time of their thread
and without garbage collection.
"""

import argparse
import gc
import platform
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict
from functools import partial
from inspect import getdoc

import anyio
import msgspec

from dispatch_memory_async import Shape

from .figures import a_call, a_change, a_thousand_times_the_objects, an_object
from .measuring import Figure
from .simulating import a_checked_step, a_simulated_job
from .supervising import many_jobs

WIDTH = 70


def main() -> None:
    """Measure everything; print each figure as it comes, and then, if asked, all of them as one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--objects", type=int, default=1_000_000, help="the largest population (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    largest = max(options.objects, 1_000)
    weighed = min(largest, 100_000)
    questions: tuple[tuple[partial[AsyncGenerator[Figure]], str], ...] = (
        (partial(a_call, "asyncio"), "asyncio"),
        (partial(a_call, "trio"), "trio"),
        (partial(a_change, 1_000), "asyncio"),
        *((partial(an_object, weighed, ended=ended), "asyncio") for ended in (False, True)),
        *((partial(a_thousand_times_the_objects, shape, largest), "asyncio") for shape in Shape),
        *((partial(many_jobs, shape, min(largest, 10_000)), "asyncio") for shape in Shape),
        *((partial(a_checked_step, shape), "asyncio") for shape in Shape),
        *((partial(a_simulated_job, shape, min(largest, 2_000)), "asyncio") for shape in Shape),
    )
    table = sys.stderr if options.json else sys.stdout
    print(__doc__, f"{'':{WIDTH}} {'us a call':>10} {'over us':>10} {'figure':>9} {'aim':>9}", sep="\n", file=table)
    figures: list[Figure] = []
    told: set[object] = set()

    async def answer(question: Callable[[], AsyncGenerator[Figure]]) -> None:
        async for figure in question():
            figures.append(figure)
            print(_line(figure), file=table, flush=True)

    for question, loop in questions:
        if question.func not in told:
            told.add(question.func)
            print("", getdoc(question.func), "", sep="\n", file=table, flush=True)
        anyio.run(answer, question, backend=loop)
        gc.unfreeze()  # a population of a question that is answered
        gc.collect()
    if options.json:
        document = {"python": platform.python_version(), "figures": [asdict(figure) for figure in figures]}
        print(msgspec.json.encode(document).decode())


def _line(figure: Figure) -> str:
    times = "".join(f" {'' if took is None else f'{took:.2f}':>10}" for took in (figure.ours, figure.base))
    value, aim = (f"{number:,.2f}" if figure.ours else f"{number:,.0f}" for number in (figure.value, figure.aim))
    return f"{figure.name:{WIDTH}}{times} {value:>9} {'<= ' + aim:>9}"


if __name__ == "__main__":
    main()
