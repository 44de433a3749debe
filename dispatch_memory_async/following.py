"""Following a scheduler through any adapter: the loops that every user of a watch would write."""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint

from .model import ClosedError, InvalidError, NotFoundError, Observation, Ref, State
from .model.base import altered
from .model.checks import check_kind
from .model.texts import short
from .spi import Adapter, IdentityWeakener, Watch, Watcher

__all__ = ("Resubscribing", "resubscribing", "until")

POLL = timedelta(seconds=1)
"""How often :func:`until` looks where there is no watch."""


class Resubscribing:
    """A watch that goes on: made by :func:`resubscribing`."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._watch: Watch | None = None
        self._ready: deque[Observation] = deque()
        self._known: dict[tuple[str, str, int], Observation] = {}
        self._closed = False
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._turn = anyio.Lock()

    def __repr__(self) -> str:
        return f"<Resubscribing of {self._watcher!r}{': closed' if self._closed else ''}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Observation:
        async with self._turn:
            while not self._ready:
                if self._watch is None:
                    await self._begin_round()
                    continue
                try:
                    change = await anext(self._watch)
                except StopAsyncIteration:
                    if self._watch.closed_by == "closed":
                        raise
                    self._watch = None
                else:
                    self._note(change)
                    return change
            return self._ready.popleft()

    async def _begin_round(self) -> None:
        """Watch again: first what has gone since the last round, then the snapshot."""
        if self._closed:
            raise StopAsyncIteration
        snapshot: list[Observation] = []
        try:
            self._watch = watch = self._watcher.watch()
            await watch.__aenter__()
            while not watch.synced:
                snapshot.append(await anext(watch))
        except ClosedError:
            self._closed = True
            raise StopAsyncIteration from None
        except StopAsyncIteration:  # it fell behind before it had begun: the next round is another try
            self._watch = None
            return
        except BaseException:
            self._watch = None
            raise
        present = {_key(seen): seen for seen in snapshot}
        self._latest = max((self._latest, *(seen.observed_at for seen in snapshot)))
        gone = [
            altered(seen, state=State.GONE, observed_at=self._latest)
            for key, seen in self._known.items()
            if key not in present or _another(seen, present[key])
        ]
        self._known = present
        self._ready.extend((*gone, *snapshot))

    def _note(self, change: Observation) -> None:
        self._latest = max(self._latest, change.observed_at)
        if change.state is State.GONE:
            self._known.pop(_key(change), None)
        else:
            self._known[_key(change)] = change

    async def __aenter__(self) -> Self:
        async with self._turn:
            if self._watch is None:
                try:
                    await self._begin_round()
                except StopAsyncIteration:
                    raise ClosedError(f"{self!r} cannot begin, as it or its adapter is closed") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End it. What was received already is still given. Doing it again changes nothing."""
        self._closed = True
        if self._watch is None:
            await checkpoint()
        else:
            await self._watch.aclose()


def resubscribing(watcher: Watcher) -> Resubscribing:
    """Watch, and watch again whenever the watch was closed because of us.

    An async iterator and async context manager over observations. A slow subscriber's watch overflows, and a
    cancelled one ends; this one then begins a new round: first a ``Gone`` for every object that the last round knew
    and the new snapshot lacks, then the snapshot, then the changes. What happened in between is not told one by one.
    It ends when it, or the adapter, is closed.

    :param watcher: any adapter that can be watched
    :raises InvalidError: if it cannot be
    """
    if not isinstance(watcher, Watcher):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidError(f"watcher: found {short(watcher)}, expected an adapter with watch()")
    return Resubscribing(watcher)


async def until(
    adapter: Adapter,
    ref: Ref,
    predicate: Callable[[Observation], bool],
    *,
    timeout: timedelta | None = None,  # noqa: ASYNC109  # the promise is TimeoutError, as with anyio.fail_after
) -> Observation:
    """Wait until one object looks as it should.

    The object is followed by its weak ref, where the adapter can weaken one, so that a requeue does not lose it; on
    a watch where there is one, else by looking every second.

    :param adapter: any adapter
    :param ref: the object
    :param predicate: whether this observation is the awaited one; it is also asked about ``Gone``
    :param timeout: how long to wait, by the event loop's clock; ``None`` waits for ever
    :return: the first observation for which the predicate holds
    :raises TimeoutError: if time runs out
    :raises NotFoundError: if there is no such object, or it is gone while still awaited
    :raises AmbiguousError: if the weak ref matches several objects, which accounting history makes possible
    :raises InvalidError: if an argument is not what it should be
    :raises ClosedError: if the adapter is closed meanwhile
    """
    if not isinstance(adapter, Adapter):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidError(f"adapter: found {short(adapter)}, expected an Adapter")
    check_kind("ref", ref, Ref)
    check_kind("predicate", predicate, Callable)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    check_kind("timeout", timeout, timedelta, type(None))
    with anyio.move_on_after(None if timeout is None else timeout.total_seconds()):
        followed = await adapter.weaken_identity(ref) if isinstance(adapter, IdentityWeakener) else ref
        if isinstance(adapter, Watcher):
            return await _until_told(adapter, followed, predicate)
        while not predicate(seen := await adapter.get(followed)):  # noqa: ASYNC110  # nothing here tells of changes
            await anyio.sleep(POLL.total_seconds())
        return seen
    raise TimeoutError(f"{ref} did not come to be as awaited within {timeout}")


async def _until_told(adapter: Adapter, ref: Ref, predicate: Callable[[Observation], bool]) -> Observation:
    assert isinstance(adapter, Watcher)  # noqa: S101  # for the type checkers, which know no intersection
    async with resubscribing(adapter) as changes:
        seen = await adapter.get(ref)
        if predicate(seen):
            return seen
        if not seen.from_history:
            async for change in changes:
                if (change.ref.name, change.ref.id) != (ref.name, ref.id):
                    continue
                if predicate(change):
                    return change
                if change.state is State.GONE:
                    raise NotFoundError(f"{ref} is gone while still awaited; it was last seen as {change!r}")
            raise ClosedError(f"the adapter was closed while {ref} was awaited")
    raise NotFoundError(f"{ref} is known from history alone, where nothing changes; it was last seen as {seen!r}")


def _key(seen: Observation) -> tuple[str, str, int]:
    return seen.ref.name, seen.ref.id, seen.submission


def _another(before: Observation, now: Observation) -> bool:
    """Whether an id came back: a requeue moves the submit time too, but raises the restart count."""
    return now.ref.submitted_at != before.ref.submitted_at and now.restarts <= before.restarts
