"""Reading a watch: what it tells, in time, once, in order, and not before it is so."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TypeVar, cast

import anyio

from ..model import NotFoundError, Observation, Ref, State
from ..spi import Adapter, Watch, Watcher
from .bed import Bed
from .findings import CheckFailed, CheckSkipped
from .showing import apart, one_object, showing, text, timeless

__all__ = (
    "Follower",
    "Reader",
    "following",
    "knows",
    "next_of",
    "nothing_more",
    "rest_of",
    "tells_every_change",
    "watching",
)

R = TypeVar("R", bound="Reader")


class Reader:
    """What a watch has told.

    :ivar watch: the watch
    :ivar snapshot: what it began with
    :ivar told: the changes after that
    """

    def __init__(self, bed: Bed, watch: Watch) -> None:
        self._bed = bed
        self._at = 0
        self.watch = watch
        self.snapshot: list[Observation] = []
        self.told: list[Observation] = []

    async def read(self) -> None:
        """Read until the watch ends."""
        async for seen in self.watch:
            self.told.append(seen)

    async def next(self, ref: Ref, after: str = "", /, **fields: object) -> Observation:
        """The next change of an object, which must show these fields.

        :param after: what was done to it, for the message
        :raises CheckFailed: if there is none in time, or it shows others
        """
        expected = f"told of {ref}{after and f' after {after}'}: {text(fields) or 'a change'}"
        if not await self._bed.eventually(lambda: self._reaches(ref)):
            raise CheckFailed(expected, f"nothing more told of it{self._ended()}", await self._bed.look(ref))
        seen = self.told[self._at]
        self._at += 1
        if showing(seen, fields) != fields:
            raise CheckFailed(expected, f"told: {text(showing(seen, fields))}", seen)
        return seen

    def _ended(self) -> str:
        return f", as the watch was ended by {self.watch.closed_by}" if self.watch.closed_by else ""

    async def _reaches(self, ref: Ref) -> bool:
        if self._at == len(self.told):
            await self._bed.others_run()
        while self._at < len(self.told):
            if one_object(self.told[self._at].ref, ref):
                return True
            self._at += 1
        return False

    async def rest(self) -> list[Observation]:
        """What was told and not read yet, once nothing more comes."""
        await self._bed.cluster.advance(self._bed.timings.quiet)
        await self._bed.others_run()
        rest, self._at = self.told[self._at :], len(self.told)
        return rest


class Follower(Reader):
    """What a watch has told, and what a look has shown that was made at once.

    :ivar shown: the look at each change; ``None`` where no object answered to its ref
    """

    def __init__(self, bed: Bed, watch: Watch) -> None:
        super().__init__(bed, watch)
        self.shown: list[Observation | None] = []

    async def read(self) -> None:
        async for seen in self.watch:
            self.told.append(seen)
            try:
                self.shown.append(await self._bed.adapter.get(seen.ref))
            except NotFoundError:
                self.shown.append(None)

    async def once(self, ref: Ref, after: str, /, **fields: object) -> None:
        """See that the one change of an object, which shows these fields, is told once and not before it is so.

        Until its execution has ended it may have been told as running on.

        :param after: what was done to it, for the message
        :raises CheckFailed: if nothing is told, or something else, or it is not so yet
        """

        async def comes() -> bool:
            await self._bed.others_run()
            return any(showing(seen, fields) == fields for seen in self.told[self._at :])

        await self._bed.eventually(comes)
        since = self._at
        told = await self.rest()
        changes = [seen for seen in told if seen.state is not State.RUNNING or showing(seen, fields) == fields]
        if (
            [showing(seen, fields) for seen in changes] != [fields]
            or changes != told[-1:]
            or any(timeless(seen) == timeless(again) for seen, again in pairwise(told))
            or not all(one_object(seen.ref, ref) for seen in told)
        ):
            found = "; ".join(f"{seen.ref}: {text(showing(seen, fields))}" for seen in told)
            observation = told[-1] if told else await self._bed.look(ref)
            expected = f"told of {ref} after {after}, once: {text(fields)}"
            raise CheckFailed(expected, f"told: {found or 'nothing'}{self._ended()}", observation)
        await self.agrees(since)

    async def agrees(self, since: int = 0) -> None:
        """See that every look showed what had just been told, or what was told later.

        Of a watch that polls: or what was so between two of its looks.

        :param since: from which change on
        :raises CheckFailed: if one did not
        """

        async def all_looked() -> bool:
            await self._bed.others_run()
            return len(self.shown) == len(self.told)

        if not await self._bed.eventually(all_looked):
            raise CheckFailed("an answer to a look, made when something was told", "none", self.told[len(self.shown)])
        for index, shown in enumerate(self.shown[since:], since):
            told = self.told[index]
            if self._bed.traits.polled_watch and shown is not None and shown.observed_at >= told.observed_at:
                continue
            if not _is_so(shown, [seen for seen in self.told[index:] if one_object(seen.ref, told.ref)]):
                so, found = apart({str(told.ref): timeless(told)}, {str(told.ref): shown and timeless(shown)})
                raise CheckFailed(f"a look, made when this was told, shows it, or what came later: {so}", found, told)


def _is_so(shown: Observation | None, told: list[Observation]) -> bool:
    """Whether a look shows what was told just before it, the first of these, or one of the later changes."""
    if shown is None:
        return any(seen.state is State.GONE or seen.ref != told[0].ref for seen in told)
    return timeless(shown) in map(timeless, told)


async def next_of(
    bed: Bed, watch: Watch, after: str = "", told: Sequence[Observation | None] = ()
) -> Observation | None:
    """What a watch gives next; ``None`` once it has ended.

    :param after: what has been done until then, for the message
    :param told: what it has given until then, for the message
    :raises CheckFailed: if neither comes in time
    """
    since = f", after {after}; {len(told)} told before" if after else ""

    async def step() -> Observation | None:
        try:
            return await anext(watch)
        except StopAsyncIteration:
            return None

    return await bed.within(f"something told, or the watch's end{since}", step, told[-1] if told else None)


async def rest_of(bed: Bed, watch: Watch, after: str = "") -> list[Observation]:
    """What a watch still gives until it ends.

    :param after: what has been done until then, for the message
    :raises CheckFailed: if it does not end
    """
    rest: list[Observation] = []
    while (seen := await next_of(bed, watch, after, rest)) is not None:
        rest.append(seen)
    return rest


@asynccontextmanager
async def watching(bed: Bed, adapter: Adapter | None = None) -> AsyncGenerator[Reader]:
    """A watch, past its snapshot, and read as fast as it tells."""
    async with cast("Watcher", adapter or bed.adapter).watch() as watch, _read(bed, Reader(bed, watch)) as reader:
        yield reader


@asynccontextmanager
async def following(bed: Bed) -> AsyncGenerator[Follower]:
    """A watch, past its snapshot, whose reader looks at each object the moment that it is told of it."""
    async with bed.watcher.watch() as watch, _read(bed, Follower(bed, watch)) as follower:
        yield follower


@asynccontextmanager
async def _read(bed: Bed, reader: R) -> AsyncGenerator[R]:
    async with anyio.create_task_group() as readers:
        after = "it was begun, for its snapshot"
        while not reader.watch.synced and (seen := await next_of(bed, reader.watch, after, reader.snapshot)):
            reader.snapshot.append(seen)
        readers.start_soon(reader.read)
        try:
            yield reader
        finally:
            readers.cancel_scope.cancel()


async def knows(bed: Bed, known: Mapping[str, Observation], refs: Sequence[Ref]) -> None:
    """Wait until what a follower knows is how these objects stand.

    :param known: what it knows, as :func:`.note` notes it meanwhile
    :param refs: all objects, those that have gone among them
    :raises CheckFailed: if it does not become that in time
    """
    stand: dict[str, Observation] = {}

    async def known_well() -> bool:
        await bed.others_run()
        shown = [await bed.look(ref) for ref in refs]
        stand.clear()
        stand.update((seen.ref.id, timeless(seen)) for seen in shown if seen is not None)
        return known == stand

    if not await bed.eventually(known_well):
        so, thought = apart(stand, known)
        raise CheckFailed(f"known in the end, as looks show it: {so}", f"known in the end: {thought}")


def tells_every_change(bed: Bed) -> None:
    """See that watches tell every single change.

    :raises CheckSkipped: if they poll
    """
    if bed.traits.polled_watch:
        raise CheckSkipped("a watch polls here: it does not tell every single change, and cannot fall behind")


def nothing_more(bed: Bed, told: Sequence[Observation], why: str) -> None:
    """See that nothing was told.

    :param why: why nothing should be, for the message
    :raises CheckFailed: if something was
    """
    bed.expect(not told, f"nothing more told {why}", f"told: {told}", told[0] if told else None)
