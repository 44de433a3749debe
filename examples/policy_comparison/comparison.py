"""The comparison: four policies, a trace, and a cluster whose nodes fail."""

from datetime import timedelta
from pathlib import Path

from dispatch_memory_async import Action, Cause, Policy, Rule, UnmatchedPolicy
from dispatch_memory_async.simulator.cluster import Cluster, Table, compare, read_swf

__all__ = ("POLICIES", "TRACE", "comparison")

TRACE = Path(__file__).parent / "two_days.swf"

INTERRUPTED = frozenset({Cause.NODE_LOST, Cause.PREEMPTED})
FAILED = frozenset({Cause.NON_ZERO_EXIT, Cause.TIMEOUT})


def _again(causes: frozenset[Cause], *, limit: int | None = None, after: timedelta = timedelta(0)) -> Rule:
    return Rule(causes=causes, action=Action.RESTART, limit=limit, backoff=after)


POLICIES = {
    "never": Policy(unmatched=UnmatchedPolicy.FAIL),
    "interrupted": Policy((_again(INTERRUPTED),), UnmatchedPolicy.FAIL),
    "after an hour": Policy((_again(INTERRUPTED, after=timedelta(hours=1)),), UnmatchedPolicy.FAIL),
    "whatever": Policy((_again(INTERRUPTED), _again(FAILED, limit=3)), UnmatchedPolicy.FAIL),
}
"""Restart nothing; what was interrupted, at once or after an hour; and what failed by itself too, up to three times."""


async def comparison(trace: Path = TRACE) -> Table:
    """Run the trace under each policy.

    :raises InvalidError: if the trace is malformed, or its header does not say how many nodes there were
    """
    with trace.open(encoding="utf-8") as lines:
        workload = read_swf(lines, processors_per_node=4)
    cluster = Cluster(
        nodes=workload.nodes or 0,
        mtbf=timedelta(days=3),
        repair=timedelta(hours=6),
        fence=timedelta(minutes=15),
        seed=1,
    )
    return await compare(POLICIES, workload.jobs, cluster)
