"""The fault phase: what happens next, and what goes wrong, as the seed has it."""

from collections.abc import Callable
from datetime import timedelta

from ..core import WhileRunning
from ..model import State
from .actors import Actor
from .case import FOREIGN, Case
from .runners import Runner
from .trace import Kind
from .world import ENOUGH, World

__all__ = ("FaultPhase",)

RARELY = 0.2
"""A supervisor that runs crashes with all that it has sent: so much more rarely, to have something to forget."""
AFTERWARDS = 15
"""How many steps go on after the last verdict."""
SPANS = (0.2, 0.2, 1, 1, 5, 20, 27, 30, 58, 60, 130, 400)
"""How long time passes at once, in seconds: within the same second, and past every bound that there is."""


class FaultPhase:
    """The steps in which faults strike. In each of them one thing happens.

    :param world: whose jobs were submitted
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def play(self, each: Callable[[int], object]) -> None:
        """Let the seed do its worst.

        :param each: is told the number of every step that was played
        :raises ViolationError: if an invariant is broken
        """
        world, config = self._world, self._world.config
        over, last = 0, config.steps if config.stop_at is None else min(config.stop_at, config.steps)
        for step in range(1, last + 1):
            if config.only is not None and step not in config.only:
                continue
            world.step = step
            world.rng = world.drawing_of(step)
            await self._something()
            each(step)
            over += all(case.record and case.record.verdict for case in world.cases)
            if over > AFTERWARDS:
                break

    async def _something(self) -> None:
        world, options, rng = self._world, self._world.options, self._world.rng
        draw = rng.random()
        flights = [flight for case in world.cases for flight in case.flights]
        if draw < options.clock:
            await world.move(rng.choice(SPANS))
        elif draw < options.clock + options.env:
            await self._act(rng.choice(world.cases))
        elif draw < options.clock + options.env + options.operator:
            await self._ask(rng.choice(world.cases))
        elif flights and rng.random() < options.landing:
            await world.land(rng.choice(flights))
        else:
            await self._bring_on()

    async def _bring_on(self) -> None:
        """Whoever is under way goes on, or crashes."""
        world, options, rng = self._world, self._world.options, self._world.rng
        if world.actors and world.chance(options.crash * (RARELY if options.runs else 1)):
            await world.crash(rng.choice(world.actors))
            return
        actor = await self._of_runners() if options.runs else self._of_steps()
        if actor:
            await world.advance(actor, ENOUGH if rng.random() < options.whole else rng.choice((1, 3, 5, 8, 13)))

    def _of_steps(self) -> Actor:
        """Who is sent on, where supervisors make single steps."""
        world, options, rng = self._world, self._world.options, self._world.rng
        busy = [actor for actor in world.actors if actor.name.startswith("supervisor")]
        if world.actors and (len(busy) >= options.supervisors or rng.random() >= 0.5):
            return rng.choice(world.actors)
        offset = options.offsets[world.serial % len(options.offsets)]
        actor = world.actor("supervisor", rng.choice(world.cases).number, offset)
        world.begin(actor, world.supervisor(actor).step(world.case_of(actor).job.id))
        return actor

    async def _of_runners(self) -> Actor | None:
        """Who is sent on, where supervisors run; nobody, if nothing is due."""
        world, options, rng = self._world, self._world.options, self._world.rng
        if not world.runners or (len(world.runners) < options.supervisors and rng.random() < 0.1):
            world.runners.append(Runner(world, options.offsets[world.serial % len(options.offsets)]))
            world.runners[-1].begin()
        runner = rng.choice(world.runners)
        if rng.random() < options.listens:
            return rng.choice(runner.ears)
        busy = [actor for actor in world.actors if not actor.hears and actor.runner in (None, runner)]
        if not busy or rng.random() < 0.3:
            return rng.choice(sent) if (sent := runner.take()) else None
        actor = rng.choice(busy)
        if actor.limit is None or world.now < actor.limit[0]:
            return actor
        world.note(Kind.FAULT, "is given up after so long", actor)
        await world.break_off(actor)
        actor.limit[1]()
        runner.awake = True
        return None

    async def _ask(self, case: Case) -> None:
        """A person asks for something."""
        world, options, rng = self._world, self._world.options, self._world.rng
        mine = case.job.id
        if sum(each.name.startswith("operator") for each in world.actors) > 2:
            return
        actor = world.actor("operator", case.number, options.offsets[0])
        operator = world.operator(actor)
        draw = rng.random()
        if draw < options.person_stops:
            world.begin(actor, operator.stop(mine, "ann", "enough"), "stop")
        elif draw < 0.5:
            until = rng.choice((None, None, world.now + timedelta(seconds=rng.choice((10, 40, 200)))))
            running = rng.choice(tuple(WhileRunning))
            asked = operator.hold(mine, "ann", until, "lunch", running=running)
            world.begin(actor, asked, f"hold, {running} what runs{', for a while' if until else ''}")
        elif draw < 0.85:
            world.begin(actor, operator.release(mine, "ann"), "release")
        else:
            world.begin(actor, operator.confirm_ceased(mine, "ann", "seen it"), "confirm that it has ceased")
        await world.advance(actor, 20 if rng.random() < options.whole else rng.choice((2, 5, 10)))

    async def _act(self, case: Case) -> None:
        """The scheduler's side does something, or somebody past the core."""
        world, options, rng = self._world, self._world.options, self._world.rng
        there = [place for place, truth in enumerate(case.truths) if truth.gone_at is None]
        nodes = rng.random() < options.nodes
        if nodes and rng.random() < 0.5:
            there = list(range(len(case.truths)))
        if not there:
            return
        place = rng.choice((there[-1], rng.choice(there)))
        truth = case.truths[place]
        if nodes:
            act = rng.choice(("lose_node", "lose_node", "return_node", "fence_node"))
        elif rng.random() < options.foreign:
            act = rng.choice((*FOREIGN, "admin_hold", "admin_release", "admin_release"))
        elif truth.state is State.PENDING:
            act = rng.choice(("run", "run", "run", "run", "no_capacity"))
        elif rng.random() < options.ends_well:
            act = "finish"
        else:
            act = rng.choice(("fail", "fail", "preempt", "preempt", "out_of_memory", "time_out", "fail_launch"))
        await world.do(act, case, place)
