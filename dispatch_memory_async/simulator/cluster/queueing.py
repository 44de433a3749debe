"""What the queue decides: whom the first job preempts, when it can start at the latest, and who may go before it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, TypeVar

__all__ = ("Held", "Reservation", "Wanted", "backfilled", "reserved", "victims")


class Wanted(Protocol):
    """What a waiting job asks for."""

    @property
    def nodes(self) -> int:
        """How many nodes."""
        ...

    @property
    def requested(self) -> timedelta:
        """For how long."""
        ...


class Held(Protocol):
    """What a running job holds."""

    @property
    def nodes(self) -> int:
        """How many nodes come free with its end."""
        ...

    @property
    def priority(self) -> int:
        """How important it is."""
        ...

    @property
    def began(self) -> datetime:
        """Since when it runs."""
        ...

    @property
    def until(self) -> datetime:
        """When it ends at the latest, by what it asked for."""
        ...


W = TypeVar("W", bound=Wanted)
H = TypeVar("H", bound=Held)


class Reservation(NamedTuple):
    """What is kept for the first job of the queue.

    :ivar at: when it can start at the latest
    :ivar spare: how many nodes will be free then beside those that it needs
    """

    at: datetime
    spare: int


def victims(nodes: int, priority: int, free: int, running: Iterable[H]) -> list[H]:
    """Whom a job preempts: of lower priority than its own, the lowest first, and of these who has run least.

    :return: as many as it needs; nobody if all of them would not do
    """
    chosen: list[H] = []
    lower = [held for held in running if held.priority < priority]
    for held in sorted(lower, key=lambda held: (-held.priority, held.began), reverse=True):
        if free >= nodes:
            break
        chosen.append(held)
        free += held.nodes
    return chosen if free >= nodes else []


def reserved(nodes: int, free: int, running: Iterable[Held]) -> Reservation | None:
    """When so many nodes will be free, by what the running jobs asked for; ``None`` if that is not to be seen."""
    at: datetime | None = None
    for held in sorted(running, key=lambda held: held.until):
        if at and held.until > at:
            break
        free += held.nodes
        if free >= nodes:
            at = held.until
    return Reservation(at, free - nodes) if at else None


def backfilled(waiting: Sequence[W], free: int, kept: Reservation | None, now: datetime) -> Iterator[W]:
    """EASY backfill: who starts now although others wait before, because the reservation is kept all the same.

    :param waiting: the queue behind its first job
    :param free: how many nodes are free
    :param kept: the first job's reservation; where there is none, nobody delays it
    """
    spare = kept.spare if kept else free
    for job in waiting:
        if not free:
            return
        if job.nodes > free:
            continue
        if kept and now + job.requested > kept.at:
            if job.nodes > spare:
                continue
            spare -= job.nodes
        free -= job.nodes
        yield job
