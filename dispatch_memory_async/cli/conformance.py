"""``dispatch-memory conformance``: the conformance suite, on any adapter whose distribution offers a harness."""

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence

import anyio
import msgspec

from ..conformance import BACKEND, SUITE_VERSION, Check, Harness, Report, Result, run_check
from ..conformance.offers import harness_for
from ..model import DispatchError, InvalidError
from ..registry import AdapterConfig
from .input import BadUseError, read, refuse

__all__ = ("add_to",)

LOOPS: dict[str, tuple[str, ...]] = {"asyncio": ("asyncio",), "trio": ("trio",), "both": ("asyncio", "trio")}
CLEAR_LINE: str = "\r\x1b[K"

DESCRIPTION = """\
Makes every check of the backend conformance suite, each on a fresh cluster that
the adapter's harness gives, and prints what came of it: passed, failed with what
was expected and what was seen, or skipped with the reason."""

EPILOG = """\
A distribution offers a harness for its adapter through the entry-point group
"dispatch_memory_async.harnesses". While checks are made, standard error says
which one; standard output is the report alone."""


def add_to(commands: Callable[..., argparse.ArgumentParser]) -> None:
    """Add this command.

    :param commands: makes the parser of a command, see ``add_parser``
    """
    parser = commands(
        "conformance",
        help="check an adapter, rule by rule",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--adapter", default="memory", metavar="NAME", help="which adapter (default: memory)")
    parser.add_argument("--settings", metavar="FILE", help="its settings as JSON; - is standard input")
    parser.add_argument("--loop", choices=LOOPS, default="asyncio", help="the event loop (default: asyncio)")
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="PREFIX",
        help="only checks whose id begins so, such as hold. (may be repeated)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON document")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the checks, and print what came of them."""
    try:
        checks = _selected(arguments.select)
        loops = _loops(arguments.loop)
        config = AdapterConfig(
            adapter=arguments.adapter, settings=read(arguments.settings) if arguments.settings else b"{}"
        )
        suites = [_Suite(loop, harness_for(config), checks) for loop in loops]
    except InvalidError as error:
        return refuse("conformance", f"settings {arguments.settings or '(none)'}: {error}")
    except (BadUseError, DispatchError) as error:
        return refuse("conformance", error)
    try:
        for suite in suites:
            suite.run()
    finally:  # of a run that is interrupted, too, what was done until then is told
        print((_document if arguments.json else _text)(suites))  # noqa: T201
    return int(not all(suite.report.ok for suite in suites))


def _selected(prefixes: Sequence[str]) -> Sequence[Check]:
    for prefix in prefixes:
        if not any(check.id.startswith(prefix) for check in BACKEND):
            kinds = dict.fromkeys(check.id.partition(".")[0] for check in BACKEND)
            raise BadUseError(f"no check's id begins with {prefix!r}; they begin with: {', '.join(kinds)}")
    return [check for check in BACKEND if not prefixes or check.id.startswith(tuple(prefixes))]


def _loops(name: str) -> Sequence[str]:
    for loop in LOOPS[name]:
        if importlib.util.find_spec(loop) is None:
            raise BadUseError(f"--loop {name}: {loop} is not installed")
    return LOOPS[name]


class _Suite:
    """The suite on one event loop, and how far it has come."""

    def __init__(self, loop: str, harness: Harness, checks: Sequence[Check]) -> None:
        self.loop = loop
        self.harness = harness
        self.checks = checks
        self.results: list[Result] = []

    @property
    def report(self) -> Report:
        """What came of the checks that were made."""
        suite = f"backend suite {SUITE_VERSION}"
        return Report(suite=suite, harness=self.harness.name, results=tuple(self.results))

    @property
    def interrupted(self) -> bool:
        """Whether there are checks that were not made."""
        return len(self.results) < len(self.checks)

    def run(self) -> None:
        """Make the checks."""
        try:
            anyio.run(self._run, backend=self.loop)
        finally:
            if sys.stderr.isatty():
                _tell(CLEAR_LINE)

    async def _run(self) -> None:
        kind = ""
        for number, check in enumerate(self.checks, 1):
            before, kind = kind, check.id.partition(".")[0]
            failed = self.report.counts["failed"]
            now = f"{self.loop} {number}/{len(self.checks)}, {failed} failed: "
            if sys.stderr.isatty():
                _tell(f"{CLEAR_LINE}{now}{check.id}")
            elif kind != before:
                _tell(f"{now}{kind}\n")
            self.results.append(await run_check(check, self.harness))


def _tell(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)  # noqa: T201


def _text(suites: Sequence[_Suite]) -> str:
    parts: list[str] = []
    for suite in suites:
        lines = [f"{suite.loop}: {suite.report}"]
        if suite.interrupted:
            lines.append(f"Interrupted: {len(suite.results)} of {len(suite.checks)} checks were made.")
        elif suite.report.counts["skipped"] == len(suite.checks):
            lines.append("Nothing was shown: every check was skipped.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _document(suites: Sequence[_Suite]) -> str:
    told = {
        "interrupted": any(suite.interrupted for suite in suites),
        "ok": all(suite.report.ok and not suite.interrupted for suite in suites),
        "reports": [{"loop": suite.loop, "report": suite.report} for suite in suites],
    }
    return msgspec.json.format(msgspec.json.encode(told)).decode()
