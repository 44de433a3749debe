"""The core under every fault: many seeds of the exploration, none of which may violate an invariant.

`CORE_SEEDS` plays more of them: ``CORE_SEEDS=0-2000 python -m pytest tests/core/test_core_random.py``.
"""

import asyncio
import os

import pytest

from dispatch_memory_async import Capability, Shape
from tests.core.exploration import ViolationError, explore
from tests.core.protections import PROTECTIONS, SHOWN, Protection, taken_back

FIRST, LAST = map(int, os.environ.get("CORE_SEEDS", "0-60").split("-"))
CHUNK = 20
NOTHING_OPTIONAL = frozenset(
    {Capability.CESSATION, Capability.HOLD, Capability.HOLD_RUNNING, Capability.REQUEUE, Capability.ACCOUNTING_HISTORY}
)
PATIENCE = 60
"""How many seeds after the first that violated are tried: a change of the core may move it."""


@pytest.mark.parametrize("first", range(FIRST, LAST, CHUNK))
def test_no_seed_violates_an_invariant(shape: Shape, first: int) -> None:
    """I1 to I12, I14, I15 and I17, after every step of 120, and at rest."""

    async def play() -> None:
        for seed in range(first, min(first + CHUNK, LAST)):
            explore(shape, seed)

    asyncio.run(play())


def test_none_does_without_any_optional_interface(shape: Shape) -> None:
    """CO-13: by polling, new submissions and waiting alone."""

    async def play() -> None:
        for seed in range(CHUNK):
            explore(shape, seed, lost=NOTHING_OPTIONAL)

    asyncio.run(play())


def test_the_same_seed_does_the_same() -> None:
    """A seed that violates can be played again."""

    async def play() -> list[str]:
        return [" ".join(map(str, sorted(explore(each, 7).done.items()))) for each in Shape]

    assert asyncio.run(play()) == asyncio.run(play())


@pytest.mark.parametrize("protection", PROTECTIONS, ids=str)
def test_each_protection_is_needed(protection: Protection) -> None:
    """Each of the core's protections, taken back, lets a seed violate an invariant: the checker can fail."""
    shown = SHOWN[protection.number]

    async def play() -> None:
        for seed in range(shown.seed, shown.seed + PATIENCE):
            explore(shown.shape, seed, **shown.focus)

    with taken_back(*protection.changes), pytest.raises(ViolationError) as found:
        asyncio.run(play())
    print(f"{protection}: {found.value.invariant}, {found.value.__notes__}")  # noqa: T201
