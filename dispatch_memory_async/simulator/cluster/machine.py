"""The modelled cluster: what it is like, and which of its nodes are free, in use or down."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import StrEnum
from heapq import heapify, heappop, heappush
from random import Random

from ...memory import Shape
from ...model import Value
from ...model.kinds import Integer
from .work import AtLeastOne

__all__ = ("Cluster", "Nodes", "Queueing", "failures")


class Queueing(StrEnum):
    """Who starts when. Both go by priority, and among equals by who came first; who is requeued comes anew."""

    FIFO = "fifo"
    """Nobody starts before the first one does."""
    EASY = "easy"
    """Whoever fits may start before the first one, if that starts no later for it, by what all asked for."""


class Cluster(Value, frozen=True, kw_only=True):
    """A cluster of equal nodes.

    A node that fails kills what runs on it, but nobody knows that yet: the scheduler gives the execution up after
    ``detection`` (Slurm) or shows it as wedged (Kubeflow), and that its processes are dead is certain only once the
    node was fenced or repaired.

    :ivar nodes: how many nodes
    :ivar queue: who starts when
    :ivar shape: the scheduler
    :ivar mtbf: how long a node works on average until it fails; ``None``: it never does
    :ivar repair: how long after that it works again
    :ivar fence: how long after that it is fenced; ``None``: not before it is repaired
    :ivar detection: Slurm: how long after that its execution is given up (``SlurmdTimeout``)
    :ivar seed: what the failures are drawn from: each node's own, whatever runs on it
    """

    nodes: AtLeastOne
    queue: Queueing = Queueing.EASY
    shape: Shape = Shape.SLURM
    mtbf: timedelta | None = None
    repair: timedelta = timedelta(hours=4)
    fence: timedelta | None = None
    detection: timedelta = timedelta(minutes=5)
    seed: Integer = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("mtbf", 1), ("repair", 1), ("fence", 0), ("detection", 0)):
            length = getattr(self, name)
            if length is not None and length < timedelta(seconds=least):
                self._refuse(name, f"expected a length of time of at least {least}s")

    @property
    def certain(self) -> timedelta:
        """How long after a failure it is certain that what ran there is dead."""
        return self.repair if self.fence is None else min(self.fence, self.repair)


def failures(cluster: Cluster, node: int) -> Iterator[timedelta]:
    """How long a node works until it fails, each time anew, in whole seconds."""
    draw = Random(f"{cluster.seed} {node}")  # noqa: S311  # nothing is kept secret
    while cluster.mtbf:
        yield timedelta(seconds=max(round(draw.expovariate(1 / cluster.mtbf.total_seconds())), 1))


class Nodes:
    """Which nodes are free.

    :param count: how many nodes there are
    """

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        self._used: set[int] = set()
        self._down: set[int] = set()

    @property
    def free(self) -> int:
        """How many nodes are free."""
        return len(self._free)

    def take(self, count: int) -> tuple[int, ...]:
        """So many free nodes, in use from now on."""
        taken = tuple(heappop(self._free) for _ in range(count))
        self._used.update(taken)
        return taken

    def give_back(self, nodes: Iterable[int]) -> None:
        """They are in use no more."""
        for node in nodes:
            self._used.remove(node)
            if node not in self._down:
                heappush(self._free, node)

    def fail(self, node: int) -> None:
        """A node is down."""
        self._down.add(node)
        if node not in self._used:
            self._free.remove(node)
            heapify(self._free)

    def mend(self, node: int) -> None:
        """A node works again."""
        self._down.remove(node)
        if node not in self._used:
            heappush(self._free, node)
