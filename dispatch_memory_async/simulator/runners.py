"""Runners: supervisors that run, each by its own agenda, on what it is told of the scheduler and of the records.

What one of them does at the same time is an actor each: its two ears, a look at all jobs, and each job it brings on.
"""

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from ulid import ULID

from ..core.agenda import Agenda
from ..core.look import Look, has
from ..core.looker import NO_ANSWER, Looker
from ..following import resubscribing
from ..model import Capability
from .actors import Actor
from .wire import Ledger, Probe

if TYPE_CHECKING:
    from .world import World

__all__ = ("Runner",)

PATIENCE = timedelta(seconds=30)
"""How long an answer is waited for; a job is given up after twice that, and after what a call may travel."""


class Runner:
    """A supervisor that runs.

    :param offset: by how much its clock is wrong
    :ivar agenda: what is due
    :ivar ears: those who hear what it is told, of the records first
    """

    def __init__(self, world: "World", offset: timedelta) -> None:
        self._world = world
        self._offset = offset
        options = world.options
        self.agenda: Agenda = Agenda(
            clock=world.clock(offset), time=world.elapsed, poll=options.poll, concurrency=options.concurrency
        )
        self.ears: list[Actor] = []

    def begin(self) -> None:
        """Listen to the records, and take up all jobs; and listen to the scheduler, if it tells of changes."""
        self.ears.append(self._send("reader", 0, self._read))
        if has(self._world.capabilities, Capability.WATCH):
            self.ears.append(self._send("listener", 0, self._listen))
        for ear in self.ears:
            ear.hears = True

    def tell(self, job_id: ULID) -> None:
        """A record was written: it hears of that in its own time."""
        self.ears[0].written[job_id] = None

    def take(self) -> list[Actor]:
        """Let a look at all jobs begin, and whatever is due, as far as the agenda says so."""
        sent: list[Actor] = []
        jobs = self.agenda.sweep()
        if jobs is not None:
            sent.append(self._send("sweeper", 0, partial(self._sweep, jobs)))
            sent[-1].limit = self._world.now + PATIENCE, self._not_swept
        bound = 2 * PATIENCE + self._world.capabilities.call_bound
        for job_id in self.agenda.take():
            sent.append(self._send("supervisor", int(job_id), partial(self._bring_on, job_id)))
            sent[-1].limit = self._world.now + bound, partial(self.agenda.failed, job_id)
        return sent

    def _send(self, role: str, job: int, does: Callable[[Actor], Coroutine[Any, Any, None]]) -> Actor:
        actor = self._world.actor(role, job, self._offset)
        actor.runner = self
        self._world.begin(actor, does(actor))
        return actor

    def _looker(self, actor: Actor) -> Looker:
        return Looker(Probe(self._world, actor), self._world.clock(self._offset))

    async def _bring_on(self, job_id: ULID, actor: Actor) -> None:
        looker = self._looker(actor)
        try:
            capabilities = await looker.capabilities()
        except NO_ANSWER:
            self.agenda.be_quiet()
            self.agenda.unanswered(job_id)
            return
        record = await Ledger(self._world, actor).get(job_id)
        if self.agenda.passed(record):
            return
        look = await looker.one(job_id)
        bring_on = self._world.supervisor(actor)._bring_on  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        self.agenda.made(job_id, look, await bring_on(record, look, capabilities))

    async def _sweep(self, jobs: list[ULID], actor: Actor) -> None:
        looks: Mapping[ULID, Look] = {}
        try:
            if jobs:
                looks = await self._looker(actor).many(jobs)
        except NO_ANSWER:
            self._not_swept()
        else:
            self.agenda.swept(looks)

    def _not_swept(self) -> None:
        self.agenda.be_quiet()
        self.agenda.swept({})

    async def _read(self, actor: Actor) -> None:
        ledger = Ledger(self._world, actor)
        async with ledger.watch() as changes:
            for job_id in await ledger.list():
                self.agenda.wake(job_id)
            async for job_id in changes:
                self.agenda.written(job_id)

    async def _listen(self, actor: Actor) -> None:
        async for seen in resubscribing(Probe(self._world, actor)):
            self.agenda.told(seen)
