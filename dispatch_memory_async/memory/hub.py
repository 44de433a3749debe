"""The hub: a bounded memory object stream for each subscriber, fed from inside the calls that change an object."""

import logging
from collections import deque
from contextlib import suppress
from typing import Literal

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ..model import Observation

__all__ = ("Hub", "Reason", "Subscription")

_logger = logging.getLogger(__name__)

Reason = Literal["overflow", "cancelled", "closed"]


class Subscription:
    """One subscriber's end of the hub. It does not know its watch, so that a forgotten watch can be collected."""

    __slots__ = ("client", "closed_by", "left", "receive", "send")

    def __init__(self, client: object, buffer: int) -> None:
        self.client: object = client
        self.closed_by: Reason | None = None
        self.left: deque[Observation] = deque()
        self.send: MemoryObjectSendStream[Observation]
        self.receive: MemoryObjectReceiveStream[Observation]
        self.send, self.receive = anyio.create_memory_object_stream[Observation](buffer)


class Hub:
    """All subscriptions of a backend.

    :param buffer: how many undelivered changes a subscriber may fall behind by
    """

    def __init__(self, buffer: int) -> None:
        self._buffer = buffer
        self._open: dict[Subscription, None] = {}

    def subscribe(self, client: object) -> Subscription:
        """Let a client have every change from now on."""
        subscription = Subscription(client, self._buffer)
        self._open[subscription] = None
        return subscription

    def tell(self, change: Observation) -> None:
        """Hand a change to every subscriber. One that cannot take it any more is closed, and nobody waits for it."""
        for subscription in tuple(self._open):
            try:
                subscription.send.send_nowait(change)
            except anyio.WouldBlock:
                _logger.info("a subscriber fell behind by more than %d changes, its watch ends", self._buffer)
                self.close(subscription, "overflow")
            except anyio.ClosedResourceError:
                pass  # a watch was collected while this loop ran

    def close(self, subscription: Subscription, reason: Reason) -> None:
        """End a subscription; the first reason stays. What was buffered is left for its watch.

        The stream is closed at both ends here: an open one left to the garbage collector would warn.
        """
        if self._open.pop(subscription, subscription) is not None:
            return
        subscription.closed_by = reason
        subscription.send.close()
        with suppress(anyio.EndOfStream):
            while True:
                subscription.left.append(subscription.receive.receive_nowait())
        subscription.receive.close()

    def close_all(self, client: object = None) -> None:
        """End every subscription, or those of one client."""
        for subscription in tuple(self._open):
            if client is None or subscription.client is client:
                self.close(subscription, "closed")
