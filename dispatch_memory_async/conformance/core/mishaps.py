"""The mishaps: what goes wrong at the calls of one supervisor, whether they go to the scheduler or to the records."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

__all__ = ("Crash", "Mishaps", "Stand")

T = TypeVar("T")


class Crash(BaseException):  # what it says reads so
    """The supervisor's process is no more: nothing of its own code runs after this."""


class Stand:
    """A call that stands still until it is let go.

    :ivar arrived: set once it stands
    :ivar go: lets it go on
    """

    def __init__(self) -> None:
        self.arrived: anyio.Event = anyio.Event()
        self.go: anyio.Event = anyio.Event()

    async def strike(self) -> None:
        self.arrived.set()
        await self.go.wait()


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def strike(self) -> None:
        raise self._error


class Mishaps:
    """What is to happen to the calls of one supervisor: each mishap strikes the next call of its name, once."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, bool, Stand | _Failure]] = []
        self._left: int | None = None

    def fail(self, call: str, error: BaseException, *, done: bool = False) -> None:
        """Let the next call of that name raise an error: before it does anything, or once it is done."""
        self._waiting.append((call, done, _Failure(error)))

    def stand(self, call: str, *, done: bool = False) -> Stand:
        """Let the next call of that name stand still: before it does anything, or once it is done."""
        stand = Stand()
        self._waiting.append((call, done, stand))
        return stand

    def crash_after(self, moments: int) -> None:
        """Let the supervisor crash when it has come that far: to either side of a call that changes something."""
        self._left = moments

    async def make(self, name: str, call: Callable[[], Awaitable[T]], *, changes: bool = False) -> T:
        """Make a call, with what was to happen to it."""
        struck = next((one for one in self._waiting if one[0] == name), None)
        if struck:
            self._waiting.remove(struck)
        self._pass(changes)
        if struck and not struck[1]:
            await struck[2].strike()
        answer = await call()
        if struck and struck[1]:
            await struck[2].strike()
        self._pass(changes)
        return answer

    def _pass(self, changes: bool) -> None:
        if changes and self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Crash
