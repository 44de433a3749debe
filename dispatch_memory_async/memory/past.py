"""The past: what objects looked like, for as long as reads may lag behind. While none does, nothing is kept."""

from collections import deque
from datetime import UTC, datetime, timedelta

from ..model import Observation

__all__ = ("BEGINNING", "Past")

BEGINNING = datetime.min.replace(tzinfo=UTC)


class Past:
    """What each object looked like, and since when: all that is younger than the largest lag, and the last before.

    Objects are known by their places in the order of start. ``None`` stands for one that is not there: not yet, or
    not any more.

    :param lag: the largest lag
    """

    def __init__(self, lag: timedelta) -> None:
        self.lag: timedelta = lag
        self._looks: dict[int, list[tuple[datetime, Observation | None]]] = {}
        self._trail: deque[tuple[datetime, int]] = deque()

    def began(self, order: int, first: Observation, moment: datetime) -> None:
        """Put down that an object was made."""
        self._looks[order] = [(BEGINNING, None)]
        self._add(order, first, moment)

    def changed(self, order: int, before: Observation, after: Observation | None, moment: datetime) -> None:
        """Put down that an object came to look otherwise, or left."""
        self._looks.setdefault(order, [(before.observed_at, before)])
        self._add(order, after, moment)

    def _add(self, order: int, seen: Observation | None, moment: datetime) -> None:
        self._looks[order].append((moment, seen))
        self._trail.append((moment, order))

    def of(self, order: int) -> list[tuple[datetime, Observation | None]]:
        """What is known of an object, in order; nothing, if it has not changed since this was begun."""
        return self._looks.get(order, [])

    def dropped(self, order: int) -> None:
        """Forget an object."""
        self._looks.pop(order, None)

    def trim(self, now: datetime) -> None:
        """Forget what no read can see any more."""
        while self._trail and now - self._trail[0][0] >= self.lag:
            _, order = self._trail.popleft()
            if order in self._looks:
                del self._looks[order][0]
