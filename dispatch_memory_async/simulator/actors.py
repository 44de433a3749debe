"""Actors: coroutines that stand still at every park until the simulator sends them on."""

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from ulid import ULID

from ..core import Kind, Record
from ..model import DispatchError, Observation, Ref
from ..spi import Watch

__all__ = ("Actor", "Flight", "Intention", "park", "send_on")

_PARK = object()


@types.coroutine
def park() -> Generator[object, None, None]:
    """A place where an actor stands still."""
    yield _PARK


@types.coroutine
def _passed_on(wish: object) -> Generator[object, object, object]:
    """Ask the event loop for what a coroutine below asks it for."""
    return (yield wish)


@dataclass
class Intention:
    """An intent as it was written, and what stood in the record then.

    :ivar record: the record that it was written in
    :ivar look: when the look was begun on which it was decided
    """

    id: int
    kind: Kind
    submission: int
    ref: Ref | None
    instance: int | None
    deadline: datetime
    record: Record
    look: int


@dataclass(eq=False)
class Flight:
    """A call that changes something, on its way to the scheduler."""

    call: str
    job: int
    of: Intention
    make: Callable[[], Coroutine[Any, Any, Any]]
    started: datetime
    crashes: bool = False
    landed: bool = False
    reply: Any = None
    error: DispatchError | None = None


class Sender(Protocol):
    """A supervisor that runs.

    :ivar awake: whether one of those whom it has sent has gone on since it went to sleep
    """

    awake: bool


@dataclass(eq=False)
class Actor:
    """Somebody who is under way: an operator, a supervisor's step, or what a supervisor that runs has sent.

    :ivar job: the number of the job that it is about; 0 if it is about all
    :ivar offset: by how much its clock is wrong
    :ivar look: when its last look was begun
    :ivar found: what that look showed
    :ivar intention: what it has written last that it will do
    :ivar writing: a write that is under way
    :ivar runner: the supervisor that runs and has sent it
    :ivar hears: whether it hears what its supervisor is told
    :ivar idle: whether it stands where there is nothing to hear
    :ivar limit: until when its supervisor waits for it, and what it does then
    :ivar written: the jobs whose records were written, and that it has not been told of yet; ``None`` if it will not be
    :ivar watch: the watch that it hears
    """

    name: str
    job: int
    offset: timedelta
    coroutine: Coroutine[Any, Any, Any] | None = None
    look: int = 0
    found: tuple[Observation, ...] = ()
    intention: Intention | None = None
    writing: Callable[[], Awaitable[object]] | None = None
    answer: Any = None
    error: DispatchError | None = None
    runner: Sender | None = None
    hears: bool = False
    idle: bool = False
    limit: tuple[datetime, Callable[[], None]] | None = None
    written: dict[ULID, None] | None = None
    watch: Watch | None = None

    @property
    def seen(self) -> Observation | None:
        """The object with the highest submission number that its last look showed."""
        return max(self.found, key=lambda seen: seen.submission, default=None)


async def send_on(coroutine: Coroutine[Any, Any, Any]) -> StopIteration | None:
    """Send a coroutine on to its next park; what else it waits for is the event loop's, in the caller's task.

    :return: its end, with its answer; ``None`` if it stands at a park
    """
    resume: Callable[[], object] = partial(coroutine.send, None)
    while True:
        try:
            wish = resume()
        except StopIteration as end:
            return end
        if wish is _PARK:
            return None
        try:
            resume = partial(coroutine.send, await _passed_on(wish))
        except BaseException as error:  # noqa: BLE001  # whatever the loop says to it
            resume = partial(coroutine.throw, error)
