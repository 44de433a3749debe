"""The quiet phase: faults have stopped, and every job comes to its verdict, or to rest with a reason."""

from collections.abc import Callable

from ..core import Status
from ..model import State
from .case import Case
from .invariants import INVARIANTS, ViolationError
from .runners import Runner
from .trace import Kind
from .world import ENOUGH, World

__all__ = ("QuietPhase",)

STILL = 14
"""How many rounds at rest, of 40 seconds each, show that nothing more comes."""


class QuietPhase:
    """The steps after the last one in which faults strike.

    :param world: as the fault phase has left it
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._statuses: dict[int, Status] = {}
        """What each job was like at its last step, by its number."""

    async def play(self, each: Callable[[int], object]) -> None:
        """Faults stop; then every job comes to its verdict, or to rest with a reason."""
        world = self._world
        if world.options.fenced_at_last:
            for case in world.cases:
                for place, truth in enumerate(case.truths):
                    if truth.node == "lost":
                        await world.do("fence_node", case, place)
        world.faults = False
        world.rng = world.drawing_of("rest")
        world.step = world.config.steps + 1
        world.note(Kind.PHASE, "faults stop")
        runner = world.runners[0] if world.runners else None  # it goes on as it is, and must have forgotten nothing
        while others := [actor for actor in world.actors if not runner or actor.runner is not runner]:
            await world.crash(others[0])
        await world.move(60)
        await self._calm_down(runner, each)
        for case in world.cases:
            if await self._settle(case) and runner:
                raise ViolationError("I15", f"nobody comes back to it, and there is something to do: {case.record}")
            status = self._statuses[case.number]
            await world.stored(case)
            world.counts[f"rest {status.waiting_for}"] += 1
            world.note(Kind.PHASE, f"rests: {status}", job=case.number)
            for invariant in INVARIANTS:
                invariant.rested(case, status)

    async def _calm_down(self, runner: Runner | None, each: Callable[[int], object]) -> None:
        """Go on until nothing has changed for long, or there is nothing left to do."""
        world = self._world
        turn = still = restless = 0
        while True:
            each(world.step)
            before = [case.record for case in world.cases]
            for case in world.cases:
                await self._calm(case)
                if not runner:
                    await self._settle(case)
            if runner:
                await self._let_run(runner)
            changed = [case for case, record in zip(world.cases, before, strict=True) if case.record is not record]
            still, restless = (0, restless + 1) if changed else (still + 1, restless)
            if still > STILL or all(case.record and case.record.verdict for case in world.cases):
                break
            if restless > world.config.quiet:
                await self._accuse(changed)
            await world.move(1 if changed and turn % 3 else 40)  # what is refused is tried again later
            turn += 1

    async def _accuse(self, restless: list[Case]) -> None:
        """Say which jobs do not come to rest."""
        world = self._world
        for case in restless:
            await self._settle(case)
        whys = "; ".join(f"job {each.number}: {self._statuses[each.number]}" for each in restless)
        open_ones = (each for each in restless if each.record and not each.record.verdict)
        world.concerned = next(open_ones, restless[0]).number
        raise ViolationError("I15", f"it never comes to rest: {whys}")

    async def _let_run(self, runner: Runner) -> None:
        """Let a supervisor hear what there is to hear, and bring on what is due, until it waits."""
        world = self._world
        for _ in range(ENOUGH * len(world.cases)):
            sent = runner.take()
            for actor in [actor for actor in world.actors if actor.runner is runner]:
                await world.advance(actor)
            if not sent:
                return
        raise ViolationError("I15", "a supervisor that runs never waits")

    async def _settle(self, case: Case) -> bool:
        """One step of a supervisor; the answer is whether it wrote anything."""
        world = self._world
        actor = world.actor("supervisor", case.number)
        before, world.concerned = case.record, case.number
        world.begin(actor, world.supervisor(actor).step(case.job.id))
        await world.advance(actor)
        self._statuses[case.number] = actor.answer
        return case.record is not before

    async def _calm(self, case: Case) -> None:
        """The scheduler goes about its business."""
        world = self._world
        for place, truth in enumerate(case.truths):
            if truth.gone_at is None and truth.state is State.PENDING:
                await world.do("run", case, place)
            elif truth.gone_at is None and truth.state is State.RUNNING and truth.node == "up":
                await world.do("finish", case, place)
