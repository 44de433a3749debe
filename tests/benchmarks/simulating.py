"""What a simulated job costs in cluster mode, and a checked step in the adversarial one, beside simpy's bare events."""

from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from statistics import median

import simpy

from dispatch_memory_async import Action, Cause, Policy, Rule, Shape, UnmatchedPolicy
from dispatch_memory_async.simulator import SimConfig
from dispatch_memory_async.simulator.cluster import Cluster, run_workload, synthetic
from dispatch_memory_async.simulator.run import _simulate as simulating  # pyright: ignore[reportPrivateUsage]

from .measuring import CLOCK, Figure, quiet

__all__ = ("a_checked_step", "a_simulated_job")

ROUNDS = 5
EVENTS = 100_000
NODES = 64
SEEDS = 20
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


async def a_checked_step(shape: Shape) -> AsyncGenerator[Figure]:
    """A step of the adversarial mode with all its invariants checked, over an event of simpy.

    The quiet phase is played too, and its time is part of the steps'. A million over the microseconds is how many there
    are in a second.
    """
    configs = [SimConfig(seed=seed, shape=shape, supervisors=3) for seed in range(SEEDS)]
    ours: list[float] = []
    base: list[float] = []
    with quiet():
        for _ in range(ROUNDS):
            began = CLOCK()
            results = [await simulating(config, None) for config in configs]
            steps = sum(min(result.trace[-1].step, result.config.steps) for result in results)
            ours.append((CLOCK() - began) / steps / 1000)
            base.append(bare())
    mine, other = median(ours), median(base)
    yield Figure(f"a step of {SEEDS} seeds, over an event of simpy ({shape})", mine / other, 1000, mine, other)


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
