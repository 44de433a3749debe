"""Shrinking: the fewest steps that still break the same invariant."""

from collections.abc import Callable

from ..model.base import altered
from .run import Result, simulate

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
    violation = result.violations[0]
    allowed = result.config.only or range(1, result.config.steps + 1)
    steps, size, tries = [step for step in allowed if step <= violation.step], len(allowed), 0
    while size := size // 2:
        at = 0
        while at < len(steps):
            rest = (*steps[:at], *steps[at + size :])
            tried = simulate(altered(result.config, only=rest, stop_at=None))
            tries += 1
            if tried.violations and tried.violations[0].invariant == violation.invariant:
                result, steps = tried, list(rest)
            else:
                at += size
            if each:
                each(len(steps), tries)
    return result
