"""What a simulated job costs in cluster mode, beside the bare events of a simulator that knows nothing of jobs."""

from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from statistics import median

import simpy

from dispatch_memory_async import Action, Cause, Policy, Rule, Shape, UnmatchedPolicy
from dispatch_memory_async.simulator.cluster import Cluster, run_workload, synthetic

from .measuring import CLOCK, Figure, quiet

__all__ = ("a_simulated_job",)

ROUNDS = 5
EVENTS = 100_000
NODES = 64
AGAIN = Rule(causes=frozenset({Cause.NODE_LOST, Cause.PREEMPTED}), action=Action.RESTART)
POLICY = Policy((AGAIN,), unmatched=UnmatchedPolicy.FAIL)


async def a_simulated_job(shape: Shape, count: int) -> AsyncGenerator[Figure]:
    """A job in cluster mode, from its submission to its verdict, over an event of simpy.

    The job is seen to by the real core, on the adapter in memory, with node failures, preemption and EASY backfill; the
    event is a process that waits, and nothing else. A million over the microseconds is how many there are in a second.
    """
    work = synthetic(seed=1, jobs=count, nodes=NODES)
    cluster = Cluster(nodes=NODES, shape=shape, mtbf=timedelta(days=30), fence=timedelta(minutes=15))
    ours: list[float] = []
    base: list[float] = []
    with quiet():
        for _ in range(ROUNDS):
            began = CLOCK()
            await run_workload(work, cluster, POLICY)
            ours.append((CLOCK() - began) / count / 1000)
            base.append(bare())
    mine, other = median(ours), median(base)
    days = work[-1].submit / timedelta(days=1)
    name = f"one of {count:,} jobs, {days:.0f} days, over an event of simpy ({shape})"
    yield Figure(name, mine / other, 2000, mine, other)


def bare() -> float:
    """Microseconds for an event of simpy."""
    env = simpy.Environment()

    def waiting() -> Generator[simpy.Event, object, None]:
        for _ in range(EVENTS):
            yield env.timeout(1)

    env.process(waiting())
    began = CLOCK()
    env.run()
    return (CLOCK() - began) / EVENTS / 1000
