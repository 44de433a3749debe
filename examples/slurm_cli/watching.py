"""A watch by polling."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Literal, Self

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from dispatch_memory_async import ClosedError, Observation, State, UnavailableError

from .reading import changed

__all__ = ("PolledWatch",)


class PolledWatch:
    """Looks again and again, while somebody waits for it, and tells in what two looks differ.

    Of what came and went between two looks it tells nothing, and it cannot fall behind.

    :param look: all jobs, as they stand
    :param poll: how long to wait between two looks
    """

    def __init__(self, look: Callable[[], Awaitable[Sequence[Observation]]], poll: timedelta) -> None:
        self._look = look
        self._poll = poll
        self._known: dict[str, Observation] = {}
        self._told: deque[Observation] = deque()
        self._unread: int | None = None  # how much of the snapshot; None before it is taken
        self._closed_by: Literal["overflow", "cancelled", "closed"] | None = None
        self._ended = anyio.Event()

    @property
    def synced(self) -> bool:
        return self._unread == 0

    @property
    def closed_by(self) -> Literal["overflow", "cancelled", "closed"] | None:
        return self._closed_by

    def end(self, why: Literal["cancelled", "closed"]) -> None:
        """End it; the first reason stays."""
        self._closed_by = self._closed_by or why
        self._ended.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Observation:
        try:
            await checkpoint()
            await self._begin()
            while not self._told and not self._closed_by:
                with anyio.move_on_after(self._poll.total_seconds()):
                    await self._ended.wait()
                if not self._closed_by:
                    await self._compare()
        except anyio.get_cancelled_exc_class():
            self.end("cancelled")
            raise
        if not self._told:
            raise StopAsyncIteration
        self._unread = max(0, (self._unread or 0) - 1)
        return self._told.popleft()

    async def _begin(self) -> None:
        if self._unread is None and not self._closed_by:
            snapshot = await self._look()
            self._known = {seen.ref.id: seen for seen in snapshot}
            self._told.extend(snapshot)
            self._unread = len(snapshot)

    async def _compare(self) -> None:
        """Look again, and tell what is new, what has changed and what has gone."""
        try:
            looked = await self._look()
        except (UnavailableError, ClosedError):
            return  # it goes on when Slurm answers again
        now = {seen.ref.id: seen for seen in looked}
        for number, before in self._known.items():
            after = now.get(number)
            if after is None or (after.ref.name, after.submission) != (before.ref.name, before.submission):
                gone = msgspec.structs.replace(before, state=State.GONE, observed_at=datetime.now(UTC))
                self._told.append(gone)
        for number, seen in now.items():
            if number not in self._known or changed(self._known[number], seen):
                self._told.append(seen)
        self._known = now

    async def __aenter__(self) -> Self:
        if self._closed_by:
            raise ClosedError(f"the watch is closed ({self._closed_by})")
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it. What was told is still given."""
        self.end("closed")
        await checkpoint()
