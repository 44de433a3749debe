"""Running checks: each on a fresh cluster of its own, one after the other."""

import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from .. import model
from .backend import BACKEND
from .bed import Bed
from .checks import Check, missing
from .core import CORE
from .findings import CheckFailed, CheckSkipped
from .harness import Harness
from .report import Outcome, Report, Result

__all__ = ("SUITE_VERSION", "run_backend", "run_check", "run_core")

NOBODYS = (sysconfig.get_path("stdlib"), str(Path(model.__file__).parent))
"""Where no author of an adapter looks for what they did: an error is put down to who called there."""

SUITE_VERSION = "1"
"""Raised whenever a check is added or made stricter."""


async def run_check(check: Check, harness: Harness) -> Result:
    """Make one check on a fresh cluster. It never raises: what goes wrong stands in the result."""
    outcome: Outcome = "passed"
    message = ""
    try:
        async with harness.cluster() as cluster:
            bed = Bed(harness, cluster, await cluster.adapter.capabilities())
            reason = missing(bed, check.needs)
            if reason is None:
                await check.body(bed)
            else:
                outcome, message = "skipped", reason
    except CheckSkipped as reason:
        outcome, message = "skipped", str(reason)
    except Exception as error:  # noqa: BLE001  # whatever an adapter raises is the finding
        outcome, message = "failed", "\n".join(_told(error))
    return Result(check=check.id, sentence=check.sentence, rules=check.rules, outcome=outcome, message=message)


def _told(error: BaseException) -> Iterable[str]:
    """What an error says; one out of a task group says it for itself."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for inner in group.exceptions:
            yield from _told(inner)
    elif isinstance(error, CheckFailed):
        yield str(error)
    else:
        trace = traceback.extract_tb(error.__traceback__)
        at = next((frame for frame in reversed(trace) if not frame.filename.startswith(NOBODYS)), trace[-1])
        yield "expected: no error here"
        yield f"seen:     {error!r} ({Path(at.filename).name}, line {at.lineno}, in {at.name})"


async def run_backend(
    harness: Harness, *, select: Callable[[Check], bool] | None = None, each: Callable[[Result], None] | None = None
) -> Report:
    """Run the backend suite.

    :param harness: the adapter's harness
    :param select: which checks; all, if ``None``
    :param each: told every result as it comes
    """
    return await _run("backend", BACKEND, harness, select, each)


async def run_core(
    harness: Harness, *, select: Callable[[Check], bool] | None = None, each: Callable[[Result], None] | None = None
) -> Report:
    """Run the core suite: an operator, an observer and supervisors on top of the adapter.

    :param harness: the adapter's harness
    :param select: which checks; all, if ``None``
    :param each: told every result as it comes
    """
    return await _run("core", CORE, harness, select, each)


async def _run(
    suite: str,
    checks: Iterable[Check],
    harness: Harness,
    select: Callable[[Check], bool] | None,
    each: Callable[[Result], None] | None,
) -> Report:
    results: list[Result] = []
    for check in checks:
        if select is None or select(check):
            results.append(await run_check(check, harness))
            if each is not None:
                each(results[-1])
    return Report(suite=f"{suite} suite {SUITE_VERSION}", harness=harness.name, results=tuple(results))
