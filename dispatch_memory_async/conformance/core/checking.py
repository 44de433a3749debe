"""Core checks: as others, but on a core bed; and in none may two executions of a job have been alive at once."""

from collections.abc import Awaitable, Callable

from ..bed import Bed
from ..checks import Check, Need, check
from .bed import CoreBed

__all__ = ("core_check",)


def core_check(
    name: str, sentence: str, *, rules: str, needs: tuple[Need, ...] = ()
) -> Callable[[Callable[[CoreBed], Awaitable[None]]], Check]:
    """Make a check of a coroutine function that takes a core bed, see :func:`~..checks.check`."""

    def made(body: Callable[[CoreBed], Awaitable[None]]) -> Check:
        @check(name, sentence, rules=rules, needs=needs)
        async def on_a_core_bed(bed: Bed) -> None:
            core = CoreBed(bed.harness, bed.cluster, bed.capabilities)
            await body(core)
            await core.one_at_a_time()

        return on_a_core_bed

    return made
