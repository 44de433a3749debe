"""Shrinking: the fewest steps that still break the same invariant."""

from collections.abc import Callable

from ..model.base import altered
from .run import ERROR, Result, Violation, simulate

__all__ = ("shrink",)


def shrink(result: Result, *, each: Callable[[int, int], None] | None = None) -> Result:
    """Leave steps out, as many and as long as the same invariant is still broken.

    What a step draws depends on no other step, so that those which remain do what they did, as far as they still can.

    :param result: a run with a violation
    :param each: told after every try how many steps are left, and how many tries there were
    :return: the shortest run that was found; the same if there is no violation
    """
    if not result.violations:
        return result
    violation, allowed = result.violations[0], result.config.only
    if allowed is None:
        allowed = tuple(range(1, result.config.steps + 1))
    steps, tries = [step for step in allowed if step <= violation.step], 0
    size = len(steps)  # nearly all of what there is to find can be found without any step, or with few
    while steps:
        at, before = 0, len(steps)
        while at < len(steps):
            rest = (*steps[:at], *steps[at + size :])
            tried = simulate(altered(result.config, only=rest, stop_at=None))
            tries += 1
            if tried.violations and _what(tried.violations[0]) == _what(violation):
                result, steps = tried, list(rest)
            else:
                at += size
            if each:
                each(len(steps), tries)
        if size == 1 and len(steps) == before:
            break  # none of them can be left out
        size = max(1, size // 2)
    return result


def _what(violation: Violation) -> str:
    """What is to stay: the invariant, or the kind of error."""
    return violation.what.partition(":")[0] if violation.invariant == ERROR else violation.invariant
