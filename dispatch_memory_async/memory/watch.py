"""A watch on the memory adapter: a snapshot, then what the hub hands on."""

from collections import deque
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint

from ..model import ClosedError, Observation
from .cluster import Client, Cluster
from .hub import Reason, Subscription

__all__ = ("MemoryWatch",)


class MemoryWatch:
    """A watch on the memory adapter: an async iterator and async context manager over observations.

    1. It begins with the current observation of every remembered object, in the order of start. That snapshot is
       taken at the first iteration, or on entering the context.
    2. Then it gives every change, in the order in which the changes were made, each once.
    3. It ends when the subscriber falls behind by more than ``watch_buffer`` changes, when a cancellation strikes
       the iteration, or when it, its view or its backend is closed. What was buffered before is still given.
    4. asyncio's own ``Task.cancel`` can strike in the very turn in which a change was handed to a waiting iteration;
       that one change is then lost with the watch, which ends by 3. Cancel scopes, and trio, have no such moment.
    5. After 3, watch again: the new snapshot tells everything as it stands.
    """

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._cluster = cluster
        self._client = client
        self._snapshot: deque[Observation] = deque()
        self._subscription: Subscription | None = None
        self._ended_by: Reason | None = None

    @property
    def synced(self) -> bool:
        """Whether the whole snapshot has been handed out, so that what was absent does not exist."""
        return self._subscription is not None and not self._snapshot

    @property
    def behind(self) -> int:
        """How many observations it would give without waiting for one."""
        if self._subscription is None:
            return 0
        received = self._subscription.receive.statistics().current_buffer_used
        return len(self._snapshot) + received + len(self._subscription.left)

    @property
    def closed_by(self) -> Reason | None:
        """Why it ended: ``overflow``, ``cancelled`` or ``closed``; ``None`` while it is open."""
        if self._subscription:
            return self._subscription.closed_by
        return self._ended_by or ("closed" if self._client.closed else None)

    def __repr__(self) -> str:
        state = f"closed by {self.closed_by}" if self.closed_by else "synced" if self.synced else "not synced"
        return f"<MemoryWatch of {self._client.name}: {state}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Observation:
        self._cluster.check_thread()
        subscription = self._subscription
        try:
            if subscription is None or self._snapshot or subscription.closed_by:
                await checkpoint()
                subscription = self._subscribed()
                if self._snapshot:
                    return self._snapshot.popleft()
            if subscription and not subscription.closed_by:
                return await subscription.receive.receive()
        except anyio.ClosedResourceError:
            pass  # it ended while this waited
        except anyio.get_cancelled_exc_class():
            self._close("cancelled")
            raise
        if subscription and subscription.left:
            return subscription.left.popleft()
        raise StopAsyncIteration

    def _subscribed(self) -> Subscription | None:
        """The subscription, made now if there is none; ``None`` if the watch was closed before it began."""
        if self._subscription is None and self.closed_by is None:
            self._subscription, self._snapshot = self._cluster.subscribe(self._client)
        return self._subscription

    async def __aenter__(self) -> Self:
        self._cluster.check_thread()
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class():
            self._close("cancelled")
            raise
        left = self._snapshot or (self._subscription and self._subscription.left)
        if self.closed_by and not left:
            raise ClosedError(f"{self!r} is closed, expected one that is open")
        self._subscribed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the watch. What was buffered is still delivered. Doing it again changes nothing."""
        self._cluster.check_thread()
        self._close("closed")
        await checkpoint()

    def _close(self, reason: Reason) -> None:
        if self._subscription:
            self._cluster.hub.close(self._subscription, reason)
        else:
            self._ended_by = self._ended_by or reason

    def __del__(self) -> None:
        if self._subscription:
            self._cluster.hub.close(self._subscription, "closed")
