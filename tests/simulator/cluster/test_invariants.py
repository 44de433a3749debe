"""SIM-9: what holds in every run: nodes are used once, reservations are kept, and a seed decides everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch_memory_async import Cause, Shape
from dispatch_memory_async.simulator.cluster import Cluster, Queueing, Result, Work, run_workload, synthetic
from dispatch_memory_async.simulator.cluster.machine import failures
from dispatch_memory_async.simulator.cluster.queueing import backfilled, reserved, victims
from tests.support import MINUTE, T0

from .support import NEVER, again, work

NODES = 6
REPAIR = 45 * MINUTE
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "trio"])


@st.composite
def workloads(draw: st.DrawFn, priorities: int = 2, largest: int = NODES) -> Sequence[Work]:
    count = draw(st.integers(1, 12))
    return [
        work(
            number,
            draw(st.integers(0, 60)),
            draw(st.integers(1, largest)),
            runtime := draw(st.integers(1, 60)),
            requested=max(runtime + (draw(st.integers(-5, 60)) if priorities else 0), 1),
            priority=draw(st.integers(0, priorities)),
        )
        for number in range(1, count + 1)
    ]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    mtbf, fence = draw(st.none() | st.integers(30, 600)), draw(st.none() | st.integers(0, 60))
    return Cluster(
        nodes=NODES,
        queue=draw(st.sampled_from(Queueing)),
        shape=draw(st.sampled_from(Shape)),
        mtbf=None if mtbf is None else mtbf * MINUTE,
        fence=None if fence is None else fence * MINUTE,
        repair=REPAIR,
        seed=draw(st.integers(0, 99)),
    )


@LOOPS
@settings(max_examples=25, deadline=None)
@given(workload=workloads(), cluster=clusters())
def test_a_node_runs_one_execution_at_a_time(loop: str, workload: Sequence[Work], cluster: Cluster) -> None:
    """SIM-9: nodes are never oversubscribed, nor begun on while they are down; no job runs twice (CO-2)."""
    policy = again(Cause.PREEMPTED, Cause.NODE_LOST, limit=3, backoff=3)

    async def main() -> Result:
        return await run_workload(workload, cluster, policy)

    result = anyio.run(main, backend=loop)
    assert all(job.verdict for job in result.jobs)
    runs = [run for job in result.jobs for run in job.executions]
    down = {node: _failures(cluster, node, result.took) for node in range(NODES)}
    for node in range(NODES):
        here = sorted((run.began, run.ended or result.took) for run in runs if node in run.nodes)
        assert all(before[1] <= after[0] for before, after in pairwise(here))
        assert not any(since <= began < since + REPAIR for began, _ in here for since in down[node])
    for job in result.jobs:
        assert all(len(set(run.nodes)) == job.work.nodes for run in job.executions)
        assert all(run.ended is None or run.ended - run.began <= _longest(job.work) for run in job.executions)
        for before, after in pairwise(job.executions):
            assert before.ended
            assert before.ended <= after.began
            if before.cause is Cause.NODE_LOST:
                lost = min(since for node in before.nodes for since in down[node] if since > before.began)
                assert after.began >= lost + cluster.certain


def _failures(cluster: Cluster, node: int, until: timedelta) -> list[timedelta]:
    """When a node failed."""
    moments: list[timedelta] = []
    at = timedelta(0)
    for lasts in failures(cluster, node):
        at += lasts
        if at > until:
            break
        moments.append(at)
        at += cluster.repair
    return moments


def _longest(work: Work) -> timedelta:
    """As long as it runs, or as it takes until a lost execution is given up."""
    return work.runtime + REPAIR


@dataclass
class Held:
    nodes: int
    until_minutes: int
    priority: int = 0
    began_minutes: int = 0

    @property
    def until(self) -> datetime:
        return T0 + self.until_minutes * MINUTE

    @property
    def began(self) -> datetime:
        return T0 + self.began_minutes * MINUTE


@given(
    running=st.lists(st.builds(Held, st.integers(1, 4), st.integers(1, 30)), max_size=8),
    free=st.integers(0, 8),
    more=st.integers(1, 20),
    waiting=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), max_size=8),
)
def test_backfill_keeps_the_reservation(
    running: list[Held], free: int, more: int, waiting: list[tuple[int, int]]
) -> None:
    """SIM-9: with those that go before, the first job can start no later than without them."""
    first = free + more
    jobs = [work(number, 0, nodes, runtime) for number, (nodes, runtime) in enumerate(waiting, 1)]
    kept = reserved(first, free, running)
    chosen = list(backfilled(jobs, free, kept, T0))
    assert sum(job.nodes for job in chosen) <= free
    if kept:
        begun = [Held(job.nodes, int(job.requested / MINUTE)) for job in chosen]
        after = reserved(first, free - sum(job.nodes for job in chosen), [*running, *begun])
        assert after
        assert after.at <= kept.at
    else:
        assert first > free + sum(held.nodes for held in running)


@settings(max_examples=25, deadline=None)
@given(workload=workloads(priorities=0))
def test_the_first_that_has_to_wait_starts_as_under_fifo(workload: Sequence[Work]) -> None:
    """SIM-9: EASY never delays the first job of the queue, where all ask for what they need."""

    async def main() -> None:
        results = [await run_workload(workload, Cluster(nodes=NODES, queue=queue), NEVER) for queue in Queueing]
        begins = [{job.work.number: job.executions[0].began for job in result.jobs} for result in results]
        fifo, easy = begins
        late = [
            one for one in sorted(workload, key=lambda one: (one.submit, one.number)) if fifo[one.number] > one.submit
        ]
        if late:
            assert easy[late[0].number] == fifo[late[0].number]

    anyio.run(main)


@given(
    running=st.lists(st.builds(Held, st.integers(1, 4), st.just(9), st.integers(0, 3), st.integers(0, 9)), max_size=8),
    free=st.integers(0, 3),
    more=st.integers(1, 9),
    priority=st.integers(0, 4),
)
def test_preemption_takes_what_is_needed_from_those_below(
    running: list[Held], free: int, more: int, priority: int
) -> None:
    """SIM-9: nobody of the same priority or above, nobody where it would not do, and not one more than needed."""
    nodes = free + more
    chosen = victims(nodes, priority, free, running)
    lower = [held for held in running if held.priority < priority]
    assert all(held in lower for held in chosen)
    assert bool(chosen) == (free + sum(held.nodes for held in lower) >= nodes)
    if chosen:
        assert free + sum(held.nodes for held in chosen) >= nodes > free + sum(held.nodes for held in chosen[:-1])
        assert max(held.priority for held in chosen) <= min(
            (held.priority for held in lower if not any(held is one for one in chosen)), default=priority
        )


def test_a_seed_decides_everything() -> None:
    """SIM-9: the same executions on the same nodes, run after run and on both loops; another seed fails other nodes."""
    mix = synthetic(seed=3, jobs=40, nodes=8)

    async def main(seed: int = 1) -> Result:
        cluster = Cluster(nodes=8, mtbf=timedelta(hours=20), seed=seed)
        return await run_workload(mix, cluster, again(Cause.NODE_LOST, Cause.PREEMPTED))

    one, two, three = (anyio.run(main, backend=loop) for loop in ("asyncio", "asyncio", "trio"))
    assert one == two == three
    assert one.summary().restarts
    assert anyio.run(main, 2) != one
