"""The run of a workload: what happens when, on the scheduler's side, and the core's answer to it."""

from bisect import insort
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import cast

from ulid import ULID

from ...core import MemoryRecords, Operator, Status, Supervisor, Verdict, WaitingFor, next_step
from ...core.steps import Wait
from ...memory import Backend, Config
from ...model import Action, Cause, InvalidError, Job, Policy, Ref, Resources, State
from .machine import Cluster, Nodes, Queueing, failures
from .queueing import backfilled, reserved, victims
from .results import Execution, JobResult, Result, Table, Waiting
from .work import Outcome, Work

__all__ = ("compare", "run_workload")

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
LONGEST = timedelta(days=366)
"""How long after the last submission the run goes on, at most: a job may be too long ever to get through."""
SHORTEST = timedelta(seconds=1)

BY_ITSELF = frozenset({Cause.NON_ZERO_EXIT, Cause.TIMEOUT})
"""What a job here does in every execution, if it does so in one."""

WAITS = {
    WaitingFor.POLICY_BACKOFF: Waiting.BACKOFF,
    WaitingFor.CESSATION: Waiting.PROOF,
    WaitingFor.HOLD: Waiting.HOLD,
}


async def run_workload(workload: Sequence[Work], cluster: Cluster, policy: Policy) -> Result:
    """Run a workload on a modelled cluster, in virtual time, with the real core deciding about every end.

    A restarted job begins from nothing: what an interrupted execution had done is lost. The run is over when every job
    has its verdict or waits for a person, or a year after the last submission.

    :param workload: the jobs
    :param cluster: where they run
    :param policy: what is done about their ends
    :raises InvalidError: if two jobs have one number, a job is larger than the cluster, or a rule restarts without
        limit what fails or runs too long: that does so every time here
    """
    numbers: set[int] = set()
    for work in workload:
        if work.number in numbers:
            raise InvalidError(f"job {work.number}: found two of that number, expected one")
        if work.nodes > cluster.nodes:
            raise InvalidError(f"job {work.number}: found {work.nodes} nodes, expected no more than {cluster.nodes}")
        numbers.add(work.number)
    for place, rule in enumerate(policy.rules, 1):
        if rule.action is Action.RESTART and rule.limit is None and rule.causes & BY_ITSELF:
            raise InvalidError(f"rule {place}: found no limit, expected one, as what exits or runs too long does again")
    return await _Run(workload, cluster, policy).go()


async def compare(policies: Mapping[str, Policy], workload: Sequence[Work], cluster: Cluster) -> Table:
    """Run a workload under each of some policies, with the same node failures, and put the sums side by side.

    :param policies: the policies, by name
    :raises InvalidError: see :func:`run_workload`
    """
    return Table({name: (await run_workload(workload, cluster, policy)).summary() for name, policy in policies.items()})


@dataclass(eq=False, slots=True)
class _Job:
    """One job, as the modelled cluster knows it."""

    work: Work
    id: ULID
    ref: Ref | None = None
    place: tuple[int, int] | None = None
    """Where it stands in the queue, if it does."""
    execution: "_Execution | None" = None
    verdict: Verdict | None = None
    executions: list["_Execution"] = field(default_factory=list["_Execution"])
    waiting: Waiting | None = None
    since: datetime = BEGINNING
    waits: defaultdict[Waiting, timedelta] = field(default_factory=lambda: defaultdict(timedelta))

    @property
    def nodes(self) -> int:
        return self.work.nodes

    @property
    def requested(self) -> timedelta:
        return self.work.requested


@dataclass(eq=False, slots=True)
class _Execution:
    """One execution, on its nodes."""

    job: _Job
    ref: Ref
    on: tuple[int, ...]
    nodes: int
    """How many of them work."""
    began: datetime
    until: datetime
    lost: bool = False
    """Whether one of its nodes has failed."""
    ended: datetime | None = None
    cause: Cause | None = None

    @property
    def priority(self) -> int:
        return self.job.work.priority


Act = Callable[[], Awaitable[None]]


class _Run:
    """One run. It is the scheduler, and tells the core's supervisor whenever something has happened to a job."""

    def __init__(self, workload: Sequence[Work], cluster: Cluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy
        self._now = BEGINNING
        self._jobs = [_Job(work, ULID.from_int(work.number)) for work in workload]
        self._open = set(self._jobs)
        """The jobs that something can still become of."""
        self._nodes = Nodes(cluster.nodes)
        self._on: dict[int, _Execution] = {}
        self._running: dict[_Execution, None] = {}
        self._queue: list[_Job] = []
        self._events: list[tuple[datetime, int, Act]] = []
        self._numbers = count()
        self._touched: dict[_Job, None] = {}
        config = Config(shape=cluster.shape, slurmd_timeout=cluster.detection)
        self._backend = Backend(config, clock=self._clock, keep_history=0)
        self._records = MemoryRecords()
        self._supervisor = Supervisor(self._backend, self._records, clock=self._clock)
        self._operator = Operator(self._records, self._supervisor, clock=self._clock)

    def _clock(self) -> datetime:
        return self._now

    def _at(self, moment: datetime, act: Act) -> None:
        heappush(self._events, (moment, next(self._numbers), act))

    async def go(self) -> Result:
        for job in self._jobs:
            self._at(BEGINNING + job.work.submit, partial(self._submit, job))
        for node in range(self._cluster.nodes):
            self._fail_next(node, failures(self._cluster, node))
        end = BEGINNING + LONGEST + max((job.work.submit for job in self._jobs), default=timedelta(0))
        async with self._backend:
            while self._open and self._events[0][0] <= end:
                self._now = self._events[0][0]
                while self._events and self._events[0][0] == self._now:
                    await heappop(self._events)[2]()
                await self._settle()
        for job in self._jobs:
            self._waits(job, None)
        return Result(tuple(map(_told, self._jobs)), self._now - BEGINNING)

    # the core

    async def _submit(self, job: _Job) -> None:
        work = job.work
        job.since = self._now
        asked = Job(
            id=job.id,
            command=(str(work.number),),
            resources=Resources(nodes=work.nodes),
            time_limit=work.requested,
            priority=work.priority,
        )
        await self._operator.submit(asked, self._policy)
        await self._touch(job)

    async def _touch(self, job: _Job) -> None:
        self._touched[job] = None

    async def _settle(self) -> None:
        """Bring on the jobs that something has happened to, and let start what can, until all is said."""
        while True:
            while self._touched:
                job = next(iter(self._touched))
                del self._touched[job]
                if not job.verdict:
                    await self._bring_on(job)
            await self._schedule()
            if not self._touched:
                return

    async def _bring_on(self, job: _Job) -> None:
        """Let the core make its steps until it waits. That an execution began asks nothing of it."""
        status = await self._supervisor.step(job.id)
        while status.waiting_for in (None, WaitingFor.ACT):
            status = await self._supervisor.step(job.id)
        seen = status.chosen
        runs = seen is not None and seen.state is State.RUNNING
        if job.execution and not runs:
            self._end(job.execution, Cause.NODE_LOST if job.execution.lost else Cause.STOPPED)
        job.verdict = status.verdict
        waits = WAITS.get(cast("WaitingFor", status.waiting_for))
        if status.waiting_for is WaitingFor.SCHEDULER and seen and not runs:
            waits = Waiting.QUEUE
            job.ref = seen.ref
            if job.place is None:
                job.place = (-job.work.priority, next(self._numbers))
                insort(self._queue, job, key=lambda job: cast("tuple[int, int]", job.place))
        elif waits is Waiting.BACKOFF:
            self._at(await self._until(job, status), partial(self._touch, job))
        if job.verdict or waits is Waiting.HOLD:
            self._open.discard(job)
        self._waits(job, waits)

    async def _until(self, job: _Job, status: Status) -> datetime:
        """When a wait is over."""
        record, capabilities = await self._records.get(job.id), await self._backend.capabilities()
        wait = cast("Wait", next_step(record, status, capabilities, self._now))
        return cast("datetime", wait.until)

    def _waits(self, job: _Job, waiting: Waiting | None) -> None:
        """From now on a job waits for something else."""
        if job.waiting:
            job.waits[job.waiting] += self._now - job.since
        job.waiting, job.since = waiting, self._now

    # the queue

    async def _schedule(self) -> None:
        while self._queue:
            first = self._queue[0]
            if first.nodes <= self._nodes.free:
                await self._start(first)
                continue
            sound = (run for run in self._running if not run.lost)
            preempted = victims(first.nodes, first.work.priority, self._nodes.free, sound)
            for run in preempted:
                await self._backend.env.preempt(run.ref)
                self._end(run, Cause.PREEMPTED)
                await self._touch(run.job)
            if not preempted:
                break
        if self._queue and self._cluster.queue is Queueing.EASY and self._nodes.free:
            first, *others = self._queue
            kept = reserved(first.nodes, self._nodes.free, self._running)
            for job in tuple(backfilled(others, self._nodes.free, kept, self._now)):
                await self._start(job)

    async def _start(self, job: _Job) -> None:
        self._queue.remove(job)
        job.place = None
        self._waits(job, None)
        ref = cast("Ref", job.ref)
        on = self._nodes.take(job.nodes)
        run = job.execution = _Execution(job, ref, on, job.nodes, self._now, self._now + job.requested)
        job.executions.append(run)
        self._running[run] = None
        self._on.update(dict.fromkeys(on, run))
        await self._backend.env.run(ref)
        self._at(self._now + max(min(job.work.runtime, job.requested), SHORTEST), partial(self._over, run))

    async def _over(self, run: _Execution) -> None:
        """An execution has run as long as it does, unless something came in between."""
        if run.ended or run.lost:
            return
        work, env = run.job.work, self._backend.env
        if work.runtime > work.requested:
            await env.time_out(run.ref)
            self._end(run, Cause.TIMEOUT)
        elif work.outcome is Outcome.STOPPED:
            await self._operator.stop(run.job.id, "user")
        else:
            fails = work.outcome is Outcome.FAILS
            await env.finish(run.ref, int(fails))
            self._end(run, Cause.NON_ZERO_EXIT if fails else None)
        await self._touch(run.job)

    def _end(self, run: _Execution, cause: Cause | None) -> None:
        run.ended, run.cause = self._now, cause
        run.job.execution = None
        del self._running[run]
        self._nodes.give_back(run.on)
        for node in run.on:
            del self._on[node]

    # the nodes

    def _fail_next(self, node: int, lasts: Iterator[timedelta]) -> None:
        length = next(lasts, None)
        if length:
            self._at(self._now + length, partial(self._fail, node, lasts))

    async def _fail(self, node: int, lasts: Iterator[timedelta]) -> None:
        self._nodes.fail(node)
        run = self._on.get(node)
        if run:
            run.nodes -= 1
            if not run.lost:
                await self._lose(run)
        self._at(self._now + self._cluster.repair, partial(self._mend, node, lasts))

    async def _lose(self, run: _Execution) -> None:
        run.lost = True
        await self._backend.env.lose_node(run.ref)
        weak = await self._backend.weaken_identity(run.ref)
        self._at(self._now + self._cluster.detection, partial(self._touch, run.job))
        self._at(self._now + self._cluster.certain, partial(self._fence, run, weak))
        self._at(self._now + self._cluster.repair, partial(self._return, run))
        await self._touch(run.job)

    async def _fence(self, run: _Execution, weak: Ref) -> None:
        await self._backend.env.fence_node(weak)
        await self._touch(run.job)

    async def _return(self, run: _Execution) -> None:
        if not run.ended:  # nobody has given it up yet
            await self._backend.env.return_node(run.ref)
            await self._touch(run.job)

    async def _mend(self, node: int, lasts: Iterator[timedelta]) -> None:
        self._nodes.mend(node)
        self._fail_next(node, lasts)


def _told(job: _Job) -> JobResult:
    executions = tuple(
        Execution(run.began - BEGINNING, run.ended - BEGINNING if run.ended else None, run.on, run.cause)
        for run in job.executions
    )
    return JobResult(job.work, job.verdict, executions, dict(job.waits))
