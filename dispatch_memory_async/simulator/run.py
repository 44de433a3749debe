"""simulate: one run from its seed, and what came of it."""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock

import anyio

from ..core import Record
from ..memory import Truth
from ..model import InvalidError
from .config import SimConfig
from .fault_phase import FaultPhase
from .invariants import ViolationError
from .protections import PROTECTIONS, Protection, taken_back
from .quiet_phase import QuietPhase
from .trace import Entry, Kind, digest_of
from .world import World

__all__ = ("ERROR", "Result", "Violation", "simulate")

ERROR = "error"
"""What stands for an invariant where the core has raised what it never should."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_alone = Lock()
"""A mutant's functions are those of the whole process: another thread's run would be played with them."""


@dataclass(frozen=True)
class Violation:
    """An invariant that was broken.

    :ivar invariant: its number, ``I1`` to ``I17``; ``error`` if the core has raised what it never should
    :ivar what: what was seen
    :ivar step: in which step; the one after the last is the quiet phase
    :ivar job: the number of the job
    """

    invariant: str
    what: str
    step: int
    job: int

    def __str__(self) -> str:
        return f"{self.invariant} in step {self.step}, job {self.job}: {self.what}"


@dataclass(frozen=True)
class Result:
    """What came of a run.

    :ivar config: its configuration
    :ivar violations: the invariants that were broken: a run ends at the first
    :ivar trace: what happened, line by line
    :ivar digest: the same for runs in which the same things happened, and for no others
    :ivar counts: how often what happened: intents, calls, faults, executions by their authority, verdicts
    :ivar records: the records as they stand at the end, a job each
    :ivar truths: the ground truth at the end: all objects in the order of start
    """

    config: SimConfig
    violations: tuple[Violation, ...]
    trace: tuple[Entry, ...]
    digest: str
    counts: Mapping[str, int]
    records: tuple[Record, ...]
    truths: tuple[Truth, ...]


def simulate(config: SimConfig, *, loop: str = "asyncio", each: Callable[[int], object] | None = None) -> Result:
    """Play a run. In one process they are played one at a time, also by several threads.

    :param config: the run
    :param loop: the event loop that it is played on, ``asyncio`` or ``trio``: the result is the same
    :param each: is told the number of every step that was played; in the quiet phase, of the one after the last
    :raises InvalidError: if there is no such mutant
    """
    protection = protection_of(config)
    with _alone:
        return anyio.run(_simulate, config, protection, each, backend=loop)


def protection_of(config: SimConfig) -> Protection | None:
    """The protection that a run takes back."""
    if config.mutant is None:
        return None
    if config.mutant not in PROTECTIONS:
        raise InvalidError(f"SimConfig.mutant: found {config.mutant}, expected one of {sorted(PROTECTIONS)}")
    return PROTECTIONS[config.mutant]


async def _simulate(
    config: SimConfig, protection: Protection | None, each: Callable[[int], object] | None = None
) -> Result:
    with taken_back(*protection.changes) if protection else nullcontext():
        world = World(config, protection.focus if protection else {})
        violations: tuple[Violation, ...] = ()
        try:
            await _play(world, each or (lambda _: None))
        except ViolationError as error:
            violations = (Violation(error.invariant, error.what, world.step, world.concerned),)
            world.note(Kind.VIOLATION, str(error), job=world.concerned)
        except Exception as error:  # noqa: BLE001  # whatever it is, the core should not have raised it
            what = ADDRESS.sub("", f"{type(error).__name__}: {error}, from {world.acting}")
            violations = (Violation(ERROR, what, world.step, world.concerned),)
            world.note(Kind.VIOLATION, f"{ERROR}: {what}", job=world.concerned)
        finally:
            world.close()
        truths = await world.backend.env.objects()
        await world.backend.aclose()
        return Result(
            config=config,
            violations=violations,
            trace=tuple(world.entries),
            digest=digest_of(world.entries),
            counts=dict(sorted(world.counts.items())),
            records=tuple(case.record for case in world.cases if case.record),
            truths=truths,
        )


async def _play(world: World, each: Callable[[int], object]) -> None:
    """Submit the jobs, let the seed do its worst, then let things come to rest.

    :raises ViolationError: if an invariant is broken
    """
    await world.submit(each)
    await FaultPhase(world).play(each)
    stop_at = world.config.stop_at
    if stop_at is None or stop_at > world.config.steps:
        await QuietPhase(world).play(each)
