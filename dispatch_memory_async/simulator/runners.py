"""Runners: supervisors that run, each by its own agenda, on what it is told of the scheduler and of the records.

What one of them does at the same time is an actor each: its two ears, a look at all jobs, and each job it brings on.
"""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from ulid import ULID

from ..core.agenda import Agenda
from ..core.look import has
from ..core.looker import NO_ANSWER, Looker
from ..following import resubscribing
from ..model import Capability
from .actors import Actor
from .invariants import ViolationError
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
    :ivar awake: whether one of those whom it has sent has gone on since it went to sleep
    """

    def __init__(self, world: "World", offset: timedelta) -> None:
        self._world = world
        self._offset = offset
        options = world.options
        self.agenda: Agenda = Agenda(
            clock=world.clock(offset), time=world.elapsed, poll=options.poll, concurrency=options.concurrency
        )
        self.ears: list[Actor] = []
        self.awake: bool = True
        self._sleeps_until = -inf

    def begin(self) -> None:
        """Listen to the records, and take up all jobs; and listen to the scheduler, if it tells of changes."""
        self.ears.append(self._send("reader", 0, self._read))
        if has(self._world.capabilities, Capability.WATCH):
            self.ears.append(self._send("listener", 0, self._listen))
        for ear in self.ears:
            ear.hears = True

    def tell(self, job_id: ULID) -> None:
        """A record was written: it hears of that in its own time."""
        if self.ears[0].written is not None:
            self.ears[0].written[job_id] = None

    def take(self) -> list[Actor]:
        """Let a look at all jobs begin, and whatever is due, as far as the agenda says so.

        :raises ViolationError: if it would have slept then, or cannot sleep though there is nothing to do
        """
        sent = self._taken()
        now = self._world.elapsed()
        if not sent:
            self._sleeps_until, self.awake = now + self.agenda.pause(), False
            if self._sleeps_until <= now:
                raise ViolationError("I15", "a supervisor that runs has nothing to do, and does not wait")
        elif not self.awake and now < self._sleeps_until:
            raise ViolationError("I15", f"a supervisor that runs waits {self._sleeps_until - now} s too long")
        return sent

    def _taken(self) -> list[Actor]:
        sent: list[Actor] = []
        jobs = self.agenda.sweep()
        if jobs is not None:
            sent.append(self._send("sweeper", 0, partial(self._sweep, jobs)))
            sent[-1].limit = self._world.now + PATIENCE, self.agenda.unswept
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
        try:
            self.agenda.swept(await self._looker(actor).many(jobs) if jobs else {})
        except NO_ANSWER:
            self.agenda.unswept()

    async def _read(self, actor: Actor) -> None:
        ledger = Ledger(self._world, actor)
        async with ledger.watch() as changes:
            for job_id in await ledger.list():
                self.agenda.wake(job_id)
            async for job_id in changes:
                self.agenda.written(job_id)

    async def _listen(self, actor: Actor) -> None:
        changes = resubscribing(Probe(self._world, actor))
        await changes.__aenter__()  # and is never left: whoever crashes closes nothing
        self.agenda.listening()
        async for seen in changes:
            self.agenda.told(seen)
