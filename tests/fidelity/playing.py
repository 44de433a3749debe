"""Playing a script: its words as calls of the SPI and as acts of the driver, and what shows after each step.

One code plays on both sides. In memory time moves when told. On a real Slurm what must come is waited for, and what
shows no change is believed once the scheduler has been round again.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, cast

import msgspec

from dispatch_memory_async import (
    Backend,
    Capability,
    Config,
    DispatchError,
    NativePolicy,
    NotFoundError,
    Policy,
    Ref,
    Support,
    Tristate,
)
from dispatch_memory_async.conformance import Fault
from dispatch_memory_async.conformance.bed import Bed
from dispatch_memory_async.memory.harness import MemoryHarness

from .harness import SlurmHarness
from .private_slurm import AGE, KILL_WAIT, NODE_TIMEOUT
from .scripts import Script

__all__ = ("READING", "Seen", "Step", "play_in_memory", "play_on_slurm")

SECOND = timedelta(seconds=1)
READING = frozenset({"get", "find", "epoch"})
"""Steps that change nothing, and so can be made again until they answer what must come."""


class Seen(NamedTuple):
    """What shows after a step.

    :ivar said: what its call answered: the class of its error, or what it found
    :ivar past: whether the object is known from history alone
    """

    said: str = ""
    state: str = "NotFound"
    cause: str | None = None
    restarts: int = 0
    gated: bool = False
    hold: int | None = None
    exit_code: int | None = None
    bit: bool | None = None
    past: bool = False

    def __str__(self) -> str:
        usual = Seen()._asdict()
        told = [f"{name}={value}" for name, value in self._asdict().items() if name == "state" or value != usual[name]]
        return ", ".join(told)


class Step(NamedTuple):
    """One step on a real Slurm.

    :ivar turns: what showed, one after the other
    :ivar commands: what was run
    """

    turns: tuple[Seen, ...]
    commands: tuple[str, ...]

    @property
    def seen(self) -> Seen:
        """What showed in the end."""
        return self.turns[-1]


class Player:
    """Plays one script on one cluster.

    :param driver: the scheduler's side
    """

    def __init__(self, bed: Bed, driver: Any, script: Script) -> None:
        self._bed = bed
        self._driver = driver
        self._job = bed.job(command=("stubborn" if script.slow else "sleep", "3600"))
        self._starts: list[Ref] = []
        self._exact: Ref  # in force

    async def make(self, word: str) -> Callable[[], Awaitable[Seen]]:
        """Make a step; the answer tells what shows after it."""
        if self._starts:
            await self._bed.eventually(self._second_has_passed)
        call, _, which = word.partition("@")
        name, _, argument = call.partition(":")

        async def ask() -> Seen:
            return await self.look(await self._say(name, argument, which))

        if name in READING:
            return ask
        said = await self._say(name, argument, which)
        return lambda: self.look(said)

    async def look(self, said: str = "") -> Seen:
        """What shows of the object that was started last."""
        try:
            seen = await self._bed.get(self._starts[-1])
        except NotFoundError:
            return Seen(said)
        self._exact = seen.ref
        return Seen(
            *(said, str(seen.state), seen.cause and str(seen.cause), seen.restarts, seen.gated, seen.hold),
            *(seen.exit_code, seen.requeue_bit, seen.from_history),
        )

    async def _second_has_passed(self) -> bool:
        """A requeue within the second of the submit time would leave the exact ref as it is."""
        at = self._exact.submitted_at
        return at is None or self._bed.cluster.now() >= at + SECOND

    async def _say(self, name: str, argument: str, which: str) -> str:
        try:
            return await self._do(name, argument, self._given(which)) or ""
        except DispatchError as error:
            return type(error).__name__

    def _given(self, which: str) -> Ref | None:
        if not self._starts:
            return None
        first = self._starts[-1]
        return {
            "": self._exact,
            "first": first,
            "weak": self._bed.as_weak(first),
            "unknown": msgspec.structs.replace(first, id="67000000"),
            "earlier": self._bed.strangers(first)[1],
        }[which]

    async def _do(self, name: str, argument: str, ref: Any) -> str | None:
        bed = self._bed
        match name:
            case "start":
                native = NativePolicy(settings={"requeue": "1"}, covered=(), rest=Policy()) if argument else None
                self._exact = await bed.adapter.start(self._job, 1, native=native)
                self._starts.append(self._exact)
            case "open" | "stop" | "get":
                await getattr(bed.adapter, name)(ref)
            case "find":
                found = await bed.adapter.find(self._job.id)
                return ", ".join(f"{seen.state}{' in history' * seen.from_history}" for seen in found)
            case "hold":
                await bed.holder.hold(ref, bed.held(int(argument)))
            case "release":
                await bed.holder.release(ref, bed.released(int(argument)))
            case "requeue":
                await bed.requeuer.requeue(ref, bed.meta())
            case "crash":
                async with bed.inject(Fault.CRASH_BETWEEN_STEPS, "requeue"):
                    await bed.requeuer.requeue(ref, bed.meta())
            case "bit_off":
                await bed.requeuer.restore_requeue_bit(ref, bed.meta())
            case "epoch":
                return cast("str", await self._driver.epochs(ref))
            case "finish":
                await self._driver.finish(ref, int(argument))
            case _:
                with suppress(DispatchError):  # whether it was done, shows
                    await getattr(self._driver, name)(ref)
        return None


class MemorySide:
    """What a script needs of the scheduler's side, by a memory adapter's environment."""

    def __init__(self, bed: Bed, backend: Backend) -> None:
        self._bed = bed
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend.env, name)

    async def cancel_externally(self, ref: Ref) -> None:
        await self._backend.view().stop(ref)

    async def preempt_cancelling(self, ref: Ref) -> None:
        await self._backend.env.preempt(ref)

    async def rename(self, ref: Ref) -> None:
        """No object can be renamed."""

    async def start_in_the_past(self, ref: Ref) -> None:
        """Nothing but a release lifts a hold."""

    async def epochs(self, ref: Ref) -> str:
        executions = (await self._backend.env.truth(ref)).executions
        return " ".join(one.env["DISPATCH_EPOCH"] for one in executions if one.alive)

    async def node_timeout(self, ref: Ref) -> None:
        del ref
        await self._bed.cluster.advance(timedelta(seconds=NODE_TIMEOUT))

    async def forget(self, ref: Ref) -> None:
        del ref
        await self._bed.cluster.advance(timedelta(seconds=AGE))

    async def end(self, ref: Ref) -> None:
        del ref
        await self._bed.cluster.advance(timedelta(seconds=KILL_WAIT))


async def play_in_memory(script: Script) -> tuple[Seen, ...]:
    """What shows after each step."""
    config = Config(
        min_job_age=timedelta(seconds=AGE),
        slurmd_timeout=timedelta(seconds=NODE_TIMEOUT),
        kill_wait=timedelta(seconds=KILL_WAIT if script.slow else 0),
        capabilities={Capability.ACCOUNTING_HISTORY: Support(value=Tristate.YES)},
    )
    harness = MemoryHarness(config)
    async with harness.cluster() as cluster:
        bed = Bed(harness, cluster, await cluster.adapter.capabilities())
        player = Player(bed, MemorySide(bed, cluster.backend), script)
        return tuple([await (await player.make(word))() for word in script.steps])


async def play_on_slurm(script: Script, harness: SlurmHarness, expected: Sequence[Seen]) -> tuple[Step, ...]:
    """What shows after each step, until something else does than is expected, which is waited for."""
    async with harness.cluster() as cluster:
        bed = Bed(harness, cluster, await cluster.adapter.capabilities())
        player = Player(bed, cluster.driver, script)
        steps: list[Step] = []
        before = Seen()
        for number, (word, wanted) in enumerate(zip(script.steps, expected, strict=True), 1):
            done = len(cluster.record.commands)
            look = await player.make(word)
            last, same = number == len(script.steps), wanted[1:] == before[1:]
            turns = await _settled(bed, look, wanted, twice=last or same)
            steps.append(Step(turns, tuple(cluster.record.commands[done:])))
            if turns[-1] != wanted:
                break
            before = wanted
        return tuple(steps)


async def _settled(bed: Bed, look: Callable[[], Awaitable[Seen]], wanted: Seen, *, twice: bool) -> tuple[Seen, ...]:
    """What shows, one after the other, until that is what is wanted.

    :param twice: whether it has to be so still once the scheduler has been round again
    """
    turns: list[Seen] = []

    async def shows() -> bool:
        seen = await look()
        if turns[-1:] != [seen]:
            turns.append(seen)
        return seen == wanted

    if await bed.eventually(shows) and twice:
        await bed.driver.another_cycle()
        await shows()
    return tuple(turns)
