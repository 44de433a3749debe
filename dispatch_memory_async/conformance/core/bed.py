"""The core bed: what a core check works with: a bed, and supervisors, operators and an observer on its cluster."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint
from ulid import ULID

from ...core import SKEW, MemoryRecords, Observer, Operator, Phase, Record, Status, Supervisor, WaitingFor
from ...model import (
    Action,
    Capabilities,
    Capability,
    Cause,
    DispatchError,
    Observation,
    OutcomeUnknownError,
    Policy,
    Ref,
    Rule,
    State,
    UnavailableError,
    UnmatchedPolicy,
)
from ...spi import Adapter, CessationSignal
from ..bed import Bed
from ..findings import CheckFailed, CheckSkipped
from ..harness import Cluster, Harness
from ..showing import showing, text
from .line import Call, Ledger, Line
from .mishaps import Crash, Mishaps

__all__ = ("PATIENCE", "CoreBed", "Member", "restart")

T = TypeVar("T")
PATIENCE = timedelta(seconds=30)
"""How long an act of the supervisors may take until its command starts."""
STEPS = 50
"""More steps than anything takes that goes on by itself."""
TURNS = 50
"""More turns of the event loop than a step takes."""


def restart(*causes: Cause, limit: int | None = None, backoff: timedelta = timedelta(0)) -> Rule:
    """A rule that restarts; after every cause, if none is named."""
    return Rule(causes=frozenset(causes or Cause), action=Action.RESTART, limit=limit, backoff=backoff)


class Member:
    """One of those who bring the jobs on: a supervisor and its operator, with a line of their own.

    :ivar line: their way to the scheduler
    :ivar mishaps: what is to happen to their calls
    :ivar supervisor: the supervisor
    :ivar operator: the operator
    """

    def __init__(self, bed: "CoreBed", adapter: Adapter) -> None:
        self.mishaps: Mishaps = Mishaps()
        self.line: Line = Line(adapter, self.mishaps, bed.cluster.now, bed.log, bed.hidden)
        records = Ledger(bed.records, self.mishaps)
        self.supervisor: Supervisor = Supervisor(self.line, records, clock=bed.cluster.now, patience=PATIENCE)
        self.operator: Operator = Operator(records, self.supervisor, clock=bed.cluster.now, poll=timedelta(0))

    def refuse(self, call: str) -> None:
        """Let the scheduler be unavailable for the next call of that name."""
        self.mishaps.fail(call, UnavailableError(f"{call}: the scheduler is busy"))

    def drop(self, call: str) -> None:
        """Let the next call of that name get lost on the way, unknown to the caller."""
        self.mishaps.fail(call, OutcomeUnknownError(f"{call}: nobody knows"))

    def lose(self, call: str) -> None:
        """Let the next call of that name do what it does, and its reply get lost."""
        self.mishaps.fail(call, OutcomeUnknownError(f"{call}: the reply is lost"), done=True)

    def crash(self, call: str, *, done: bool = False) -> None:
        """Let the process end at the next call of that name: before it does anything, or once it is done."""
        self.mishaps.fail(call, Crash(), done=done)


class CoreBed(Bed):
    """One cluster under test, and a core on top of it.

    :ivar records: the records
    :ivar log: the calls that change something, of all supervisors, in the order in which they were made
    :ivar hidden: the optional interfaces that the core does not get to see
    :ivar one: the first supervisor with its operator
    :ivar jobs: the jobs that were submitted
    """

    def __init__(self, harness: Harness, cluster: Cluster, capabilities: Capabilities) -> None:
        super().__init__(harness, cluster, capabilities)
        self.records: MemoryRecords = MemoryRecords()
        self.log: list[Call] = []
        self.hidden: tuple[type, ...] = ()
        self.one: Member = Member(self, self.adapter)
        self.jobs: list[ULID] = []

    def hide(self, *interfaces: type) -> None:
        """Take optional interfaces away from the core, though their capabilities are declared; before anything else."""
        self.hidden = interfaces
        self.one = Member(self, self.adapter)

    async def other(self) -> Member:
        """Another supervisor, on a client of its own where there can be one."""
        return Member(self, await self.cluster.another() or self.adapter)

    @property
    def operator(self) -> Operator:
        """The first supervisor's operator."""
        return self.one.operator

    @property
    def gated(self) -> bool:
        """Whether starts are gated here."""
        return self.declares(Capability.GATED_START)

    # bringing on

    async def submit(
        self,
        *rules: Rule,
        unmatched: UnmatchedPolicy = UnmatchedPolicy.HOLD,
        native: bool = False,
        by: Member | None = None,
    ) -> ULID:
        """A job that was just submitted: the first step is made. It may have crashed in that."""
        job = self.job()
        self.jobs.append(job.id)
        with suppress(Crash):
            await (by or self.one).operator.submit(job, Policy(rules, unmatched), native=native)
        return job.id

    async def step(self, job: ULID, by: Member | None = None) -> Status:
        """One step of a supervisor."""
        return await (by or self.one).supervisor.step(job)

    async def crashing(self, job: ULID, by: Member | None = None) -> None:
        """Steps of a supervisor until it crashes, as it was made to.

        :raises CheckFailed: if it does not
        """
        for _ in range(STEPS):
            try:
                await self.step(job, by)
            except Crash:
                return
        raise CheckFailed("the call that the supervisor was to crash at", self.told)

    async def settle(self, job: ULID, by: Member | None = None) -> Status:
        """Steps until one writes nothing: what is to be done now is done.

        :raises CheckFailed: if they go on and on
        """
        for _ in range(STEPS):
            before = await self.record(job)
            status = await self.step(job, by)
            if await self.record(job) == before:
                return status
        raise CheckFailed(f"that nothing is to be done after {STEPS} steps", self.told)

    async def shows(self, job: ULID, by: Member | None = None, /, **fields: object) -> Status:
        """Bring a job on, as time passes, until its status shows these fields to a supervisor and to an observer.

        :raises CheckFailed: if it does not in time
        """
        status: Status | None = None

        async def comes() -> bool:
            nonlocal status
            await self.settle(job, by)
            status = await self.status(job)
            return showing(status, fields) == fields

        if not await self.eventually(comes):
            raise CheckFailed(text(fields), text(showing(status, {**fields, "state": 0, "why": 0})), _object(status))
        return cast("Status", status)

    async def status(self, job: ULID) -> Status:
        """What an observer says of a job."""
        line = Line(self.adapter, Mishaps(), self.cluster.now, [], self.hidden)
        return await Observer(line, self.records, clock=self.cluster.now).get(job)

    async def record(self, job: ULID) -> Record:
        """A job's record."""
        return await self.records.get(job)

    async def seen(self, job: ULID) -> Observation:
        """The object that stands for a job.

        :raises CheckFailed: if there is none
        """
        status = await self.status(job)
        if status.chosen is None:
            raise CheckFailed("an object that stands for the job", f"{status.state} with none")
        return status.chosen

    async def ref(self, job: ULID) -> Ref:
        """The exact ref of the object that stands for a job."""
        return (await self.seen(job)).ref

    # conditions of a job

    async def waiting(self, *rules: Rule, **how: Any) -> ULID:
        """A job whose object may run."""
        job = await self.submit(*rules, **how)
        await self.free(job)
        return job

    async def runs(self, *rules: Rule, **how: Any) -> ULID:
        """A job that runs. Needs the driver's ``run``."""
        job = await self.waiting(*rules, **how)
        await self.run(job)
        return job

    async def run(self, job: ULID) -> None:
        """Let a job's object be run by the scheduler, and the supervisor see it. Needs the driver's ``run``."""
        await self.driver.run(await self.ref(job))
        await self.shows(job, state=Phase.RUNNING)

    async def end(self, job: ULID, exit_code: int = 1) -> None:
        """Let a running job's execution exit; no supervisor has seen it yet. Needs the driver's ``finish``."""
        ref = await self.ref(job)
        await self.driver.finish(ref, exit_code)
        await self.see(ref, state=State.FAILED if exit_code else State.SUCCEEDED)

    async def free(self, job: ULID, by: Member | None = None) -> Status:
        """Bring a job on until nothing but the scheduler keeps its object from running.

        :raises CheckFailed: if it does not come to that
        """
        return await self.shows(job, by, waiting_for=WaitingFor.SCHEDULER, state=Phase.PENDING)

    async def again(self, job: ULID, restarts: int = 1) -> Status:
        """See that a job was restarted, that often by now, and may run.

        :raises CheckFailed: if it was not
        """
        status = await self.free(job)
        begun = sum(not call.refused for call in self.made("start", "requeue")) - 1
        self.expect(begun == restarts, f"{restarts} restarts", self.told, status.chosen)
        return status

    async def done(self, job: ULID, state: State, cause: Cause | None, by: Member | None = None) -> Status:
        """See that a job comes to a verdict, and that nothing of it is live then.

        :raises CheckFailed: if it does not
        """
        status = await self.shows(job, by, state=Phase.DONE)
        verdict = status.verdict
        seen = (verdict.state, verdict.cause) if verdict else None
        self.expect(seen == (state, cause), f"{state}, {cause}", f"{verdict!r}", status.chosen)
        self.expect(not await self.live(job), "no live object after the verdict", repr(await self.live(job)))
        return status

    async def asks_to_hold(self, job: ULID, **how: Any) -> None:
        """A person asks for a hold and does not wait: it stands in the record."""
        person = await self.other()
        person.crash("find")
        with suppress(Crash):
            await person.operator.hold(job, "a person", **how)

    async def loses_its_node(self, job: ULID) -> None:
        """Cut a running job's node off, and let the loss show. Needs the driver's ``lose_node``."""
        await self.lost(await self.ref(job))

    async def waits_for_proof(self, job: ULID, ref: Ref) -> None:
        """See that a job waits for proof that its execution on a lost node has ceased, and give that proof.

        Where it is certain without, there is nothing to wait for. Needs the driver's ``fence_node``.

        :raises CheckFailed: if it does not wait
        """
        if (await self.signal.cessation(job)).ceased:
            return
        begun = self.begun
        await self.shows(job, waiting_for=WaitingFor.CESSATION)
        self.expect(self.begun == begun, "nothing is begun before the proof", self.told)
        await self.driver.fence_node(ref)

    async def vouch(self, job: ULID) -> None:
        """Where the core is told of no cessation, a person says that a job's executions so far have ceased."""
        if CessationSignal in self.hidden or not self.declares(Capability.CESSATION):
            await self.settle(job)
            await self.operator.confirm_ceased(job, "a person")

    def lets_go(self) -> None:
        """See that a job that was held can be let go on.

        :raises CheckSkipped: if holds end executions, and nothing tells whether one has ceased
        """
        if self.declares(Capability.HOLD_RUNNING) and not self.declares(Capability.CESSATION):
            raise CheckSkipped(
                "what is held is not let go: a hold may have ended a run, and nothing tells of its ceasing"
            )

    async def outlast(self, job: ULID) -> None:
        """Let so much time pass that the act under way has landed or never does.

        :raises CheckFailed: if none is under way
        """
        intent = (await self.record(job)).intent
        if intent is None:
            raise CheckFailed("an act under way", "none")
        bound = intent.deadline + self.capabilities.call_bound + SKEW
        await self.cluster.advance(max(bound - self.cluster.now(), timedelta(0)) + self.timings.poll)

    # several at once

    @asynccontextmanager
    async def standing(
        self, by: Member, call: str, act: Callable[[], Awaitable[object]], *, done: bool = False
    ) -> AsyncGenerator[None]:
        """Inside the block, what one supervisor does stands still at a call: before it is made, or once it is done.

        After the block it has gone on to its end.

        :raises CheckFailed: if it does not come to that call
        """
        stand = by.mishaps.stand(call, done=done)
        over = anyio.Event()

        async def go_on() -> None:
            try:
                await act()
            finally:
                over.set()
                stand.arrived.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
            await stand.arrived.wait()
            if over.is_set():
                raise CheckFailed(f"a call of {call}", self.told)
            try:
                yield
            finally:
                stand.go.set()

    async def comes(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """What a call answers or raises, while time passes, in no more than ``wait``.

        :raises CheckFailed: if it does not come
        """
        answers: list[T] = []
        refusals: list[DispatchError] = []

        async def ask() -> None:
            try:
                answers.append(await call())
            except DispatchError as error:
                refusals.append(error)

        async def answered() -> bool:
            for _ in range(TURNS):
                await checkpoint()
                if answers or refusals:
                    return True
            return False

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            if not await self.eventually(answered):
                asking.cancel_scope.cancel()
        if refusals:
            raise refusals[0]
        if not answers:
            raise CheckFailed(what, f"nothing in {self.timings.wait}")
        return answers[0]

    async def hold(self, job: ULID, **how: Any) -> Status:
        """What the operator answers to a hold, while time passes.

        :raises CheckFailed: if it does not answer
        """
        return await self.comes("an answer to the hold", lambda: self.operator.hold(job, "a person", **how))

    # what was done

    @property
    def told(self) -> str:
        """The calls that were made, for a message."""
        return ", ".join(call.name for call in self.log) or "no calls"

    def made(self, *names: str) -> list[Call]:
        """The calls of these names that were made."""
        return [call for call in self.log if call.name in names]

    @property
    def begun(self) -> int:
        """How many calls were made that begin an execution, or let one begin."""
        return len(self.made("start", "open", "requeue", "release"))

    def expect_calls(self, *names: str, since: int = 0) -> None:
        """See that these calls were made, in that order, and no others.

        :raises CheckFailed: if not
        """
        names_made = [call.name for call in self.log[since:]]
        self.expect(names_made == list(names), ", ".join(names) or "no calls", ", ".join(names_made) or "no calls")

    async def live(self, job: ULID) -> list[int]:
        """The submission numbers of a job's objects that have not ended."""
        return [seen.submission for seen in await self.adapter.find(job) if not seen.state.ended]

    async def by_hand(self, job: ULID, submission: int) -> Ref:
        """Another object of a job, started by somebody who goes past the core."""
        return await self.adapter.start((await self.record(job)).job, submission)

    async def one_at_a_time(self) -> None:
        """See that no two executions of a job were alive at once, where the harness tells the truth.

        :raises CheckFailed: if two were
        """
        for job in self.jobs:
            before = None
            for execution in await self.cluster.executions(job) or ():
                over = before is None or (before.ended_at is not None and before.ended_at <= execution.started_at)
                self.expect(over, "one execution at a time", f"{before} and {execution}")
                before = execution


def _object(status: Status | None) -> Observation | None:
    return status.chosen if status else None
