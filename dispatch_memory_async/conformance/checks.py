"""What a check is, and what it needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..model import Capability, Tristate
from ..model.texts import short
from ..spi import INTERFACES
from .bed import Bed
from .findings import CheckFailed
from .harness import ABILITIES, Fault

__all__ = ("Check", "Need", "check", "missing")

Need = Capability | Fault | type | str
"""A capability declared yes, a fault, an optional interface, or a driver's ability by name."""


@dataclass(frozen=True)
class Check:
    """One check.

    :ivar id: its name, such as ``requeue.pending-is-refused``
    :ivar sentence: what it shows
    :ivar rules: the rules that it stands for
    :ivar needs: what must be there, or it is skipped
    :ivar body: the check itself
    """

    id: str
    sentence: str
    rules: tuple[str, ...]
    needs: tuple[Need, ...]
    body: Callable[[Bed], Awaitable[None]]

    def __repr__(self) -> str:
        return f"<Check {self.id}>"


def check(
    name: str, sentence: str, *, rules: str, needs: tuple[Need, ...] = ()
) -> Callable[[Callable[[Bed], Awaitable[None]]], Check]:
    """Make a check of a coroutine function that takes a bed.

    :param name: the check's id
    :param sentence: what it shows
    :param rules: the rules that it stands for, with blanks between
    :param needs: what must be there, or it is skipped
    """
    unknown = [need for need in needs if isinstance(need, str) and not isinstance(need, Capability | Fault)]
    assert set(unknown) <= set(ABILITIES), unknown  # noqa: S101  # a slip in this package itself

    def made(body: Callable[[Bed], Awaitable[None]]) -> Check:
        return Check(name, sentence, tuple(rules.split()), needs, body)

    return made


def missing(bed: Bed, needs: tuple[Need, ...]) -> str | None:
    """Why a check with these needs cannot be made here; ``None`` if it can.

    :raises CheckFailed: if a capability is declared whose interface is not there
    """
    for need in needs:
        reason = _lacking(bed, need)
        if reason:
            return reason
    return None


def _lacking(bed: Bed, need: Need) -> str | None:
    if isinstance(need, Capability):
        support = bed.capabilities.support.get(need)
        if support is None or support.value is not Tristate.YES:
            return f"capability {need} is not declared"
        interface = INTERFACES.get(need)
        if interface is not None and not isinstance(bed.adapter, interface):
            raise CheckFailed(f"an adapter that declares {need} is a {interface.__name__}", f"it is none: {_kind(bed)}")
        return None
    if isinstance(need, Fault):
        return None if need in bed.harness.faults else f"the harness cannot inject {need}"
    if isinstance(need, str):
        return None if need in bed.harness.abilities else f"the harness' driver cannot {need.replace('_', ' ')}"
    return None if isinstance(bed.adapter, need) else f"the adapter is no {need.__name__}"


def _kind(bed: Bed) -> str:
    adapter: Any = bed.adapter
    return short(type(adapter).__name__)
