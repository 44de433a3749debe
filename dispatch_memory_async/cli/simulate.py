"""``dispatch-memory simulate`` and ``replay``: many runs from their seeds, and one of them again."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ..memory import Shape
from ..model import DispatchError, UnmatchedPolicy, enc_hook
from ..simulator import Outcome, Result, SimConfig, command_of, explain, report, shrink, simulate, simulate_many
from .input import BadUseError, refuse

__all__ = ("add_to",)

CLEAR_LINE: str = "\r\x1b[K"
LISTED = 10
"""How many violations are listed beside the one that is told."""
EVERY = 5.0
"""How many seconds pass between two lines of progress where there is no terminal."""
LONG = 2.0
"""How many seconds pass between two lines of how far a single run is."""

SIMULATE = """\
Plays the core on the memory adapter through bad orders that are drawn from seeds,
and checks the invariants against the ground truth after every step."""

REPLAY = """\
Plays one run again and prints its trace, the records and the ground truth at its
end, or after the step that --stop-at names."""


def add_to(commands: Callable[..., argparse.ArgumentParser]) -> None:
    """Add these commands.

    :param commands: makes the parser of a command, see ``add_parser``
    """
    many = commands("simulate", help="look for a seed that breaks an invariant of the core", description=SIMULATE)
    many.add_argument("--shape", choices=[*Shape, "both"], default="both", help="the shape (default: both)")
    many.add_argument("--seeds", type=int, default=100, metavar="N", help="how many of each shape (default: 100)")
    many.add_argument("--from", type=int, default=0, dest="first", metavar="S", help="the first seed (default: 0)")
    many.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="P", help="how many processes (default: all)"
    )
    many.add_argument("--dask", metavar="ADDRESS", help="play on a Dask cluster, by its scheduler's address")
    many.add_argument("--resume", metavar="FILE", help="write each outcome there, and play none that it holds already")
    many.set_defaults(run=run_many)
    one = commands("replay", help="play one run again, from its seed", description=REPLAY)
    one.add_argument("seed", type=int, metavar="SEED")
    one.add_argument("--shape", choices=list(Shape), default=Shape.SLURM, help="the shape (default: slurm)")
    one.add_argument("--stop-at", type=int, metavar="N", help="stop after that step")
    one.add_argument("--only", type=_steps, metavar="N,N,...", help="play these steps alone; 0 is none")
    one.add_argument("--report", metavar="FILE", help="write a page there on which the run can be looked at")
    one.set_defaults(run=run_one)
    for parser in (many, one):
        _add_fields(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON document")


def _add_fields(parser: argparse.ArgumentParser) -> None:
    defaults = SimConfig(seed=0)
    for name, metavar, what in (
        ("jobs", "J", "how many jobs"),
        ("supervisors", "K", "how many supervisors at the same time, at most"),
        ("steps", "M", "how many steps with faults"),
        ("quiet", "Q", "in how many rounds after that something may still change"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar=metavar, help=f"{what} (default: {default})"
        )
    parser.add_argument("--unmatched", choices=list(UnmatchedPolicy), help="what follows an end that no rule names")
    parser.add_argument("--mutant", type=int, metavar="N", help="take the core's protection of that number back")


def _steps(text: str) -> tuple[int, ...]:
    return tuple(step for step in map(int, text.split(",")) if step)


def _config(arguments: argparse.Namespace, seed: int, **fields: Any) -> SimConfig:
    asked = {
        name: getattr(arguments, name) for name in ("jobs", "supervisors", "steps", "quiet", "unmatched", "mutant")
    }
    return SimConfig(seed=seed, **{**asked, **fields})


# one run


def run_one(arguments: argparse.Namespace) -> int:
    """Play a run again, and print it."""
    try:
        config = _config(
            arguments, arguments.seed, shape=arguments.shape, stop_at=arguments.stop_at, only=arguments.only
        )
        result = simulate(config, each=_Stepping(config.steps))
        if arguments.report:
            Path(arguments.report).write_text(report(result), encoding="utf-8")
    except (DispatchError, OSError) as error:
        return refuse("replay", error)
    print(_document(result) if arguments.json else _text(result))  # noqa: T201
    return int(bool(result.violations))


class _Stepping:
    """How far a run has come, where it takes long."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.told = time.monotonic()

    def __call__(self, step: int) -> None:
        now = time.monotonic()
        if now - self.told >= LONG:
            self.told = now
            print(f"step {step} of {self.steps}" if step <= self.steps else "coming to rest", file=sys.stderr)  # noqa: T201


def _text(result: Result) -> str:
    lines = [*map(str, result.trace), ""]
    lines += [f"record of job {number}: {record!r}" for number, record in enumerate(result.records, 1)]
    lines += [f"object {number}: {truth!r}" for number, truth in enumerate(result.truths, 1)]
    lines.append(f"\ndigest {result.digest}")
    lines += [str(violation) for violation in result.violations] or ["No invariant was broken."]
    return "\n".join(lines)


def _document(result: Result) -> str:
    told = {name: getattr(result, name) for name in ("config", "violations", "digest", "counts", "records", "truths")}
    told["trace"] = [entry._asdict() for entry in result.trace]
    return _json(told)


def _json(told: object) -> str:
    """A document that is the same for the same things, letter by letter."""
    return msgspec.json.format(msgspec.json.encode(told, enc_hook=enc_hook, order="deterministic")).decode()


# many runs


def run_many(arguments: argparse.Namespace) -> int:
    """Play many runs, and print what came of them."""
    if arguments.seeds < 1 or arguments.processes < 1:
        return refuse("simulate", "--seeds and --processes: expected at least 1")
    shapes = list(Shape) if arguments.shape == "both" else [Shape(arguments.shape)]
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    telling = _Telling(len(shapes) * len(seeds))
    print(f"seeds {seeds.start} to {seeds.stop - 1}, {', '.join(shapes)}", file=sys.stderr)  # noqa: T201
    try:
        configs = [_config(arguments, seed, shape=shape) for seed in seeds for shape in shapes]
        with _executor(arguments, len(configs)) as executor:
            for outcome in simulate_many(configs, executor, file=arguments.resume):
                telling.add(outcome)
    except (BadUseError, DispatchError, OSError) as error:
        return refuse("simulate", error)
    finally:  # of what is interrupted, too, what was done until then is told
        telling.end()
        if telling.outcomes:
            print(telling.document() if arguments.json else telling.text(seeds))  # noqa: T201
    return int(bool(telling.violations))


@contextmanager
def _executor(arguments: argparse.Namespace, runs: int) -> Generator[Executor]:
    if arguments.dask is None:
        pool = ProcessPoolExecutor(min(arguments.processes, runs))
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
        return
    try:
        from distributed import Client  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  # an extra
    except ImportError:
        raise BadUseError("--dask needs the extra: pip install 'dispatch-memory-async[dask]'") from None
    client: Any
    try:
        client = Client(arguments.dask)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  # what it raises for an address depends on what is wrong with it
        raise BadUseError(
            f"--dask: found {arguments.dask!r}, expected the address of a Dask scheduler: {error}"
        ) from None
    with client:
        yield client.get_executor()


class _Telling:
    """How far it has come, and what came of it."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.outcomes: list[Outcome] = []
        self.violating = 0
        self.began = self.told = time.monotonic()

    @property
    def sorted(self) -> list[Outcome]:
        """All outcomes, in an order that does not depend on who was done first."""
        return sorted(self.outcomes, key=lambda outcome: (outcome.config.seed, outcome.config.shape))

    @property
    def violations(self) -> list[Outcome]:
        return [outcome for outcome in self.sorted if outcome.violations]

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.violating += bool(outcome.violations)
        now, done = time.monotonic(), len(self.outcomes)
        rate = done / max(now - self.began, 1e-9)
        line = f"{done}/{self.total} runs, {rate:.0f}/s, {self.violating} with a violation"
        if sys.stderr.isatty():
            print(f"{CLEAR_LINE}{line}", end="", file=sys.stderr, flush=True)  # noqa: T201
        elif now - self.told >= EVERY or done == self.total:
            self.told = now
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def end(self) -> None:
        if sys.stderr.isatty():
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)  # noqa: T201

    def text(self, seeds: range) -> str:
        """The first violation in words, then the counts."""
        counts = Counter[str]()
        for outcome in self.outcomes:
            counts.update(outcome.counts)
        lines = [f"{what:40} {count:9}" for what, count in sorted(counts.items())]
        if violations := self.violations:
            lines += ["", explain(shrink(simulate(violations[0].config), each=_tell_shrinking)), ""]
            others, left_out = violations[1 : LISTED + 1], len(violations) - 1 - LISTED
            lines += [f"{outcome.violations[0]}: {command_of(outcome.config)}" for outcome in others]
            if left_out > 0:
                lines.append(f"and {left_out} more")
        done = f"{len(self.outcomes)} of {self.total} runs" if len(self.outcomes) < self.total else f"{self.total} runs"
        lines.append(f"{done}, seeds {seeds.start} to {seeds.stop - 1}: {len(self.violations)} with a violation")
        return "\n".join(lines)

    def document(self) -> str:
        told = {"total": self.total, "done": len(self.outcomes), "outcomes": self.sorted}
        return _json(told)


def _tell_shrinking(steps: int, tries: int) -> None:
    if sys.stderr.isatty():
        print(f"{CLEAR_LINE}shrinking: {steps} steps left after {tries} tries", end="", file=sys.stderr, flush=True)  # noqa: T201
