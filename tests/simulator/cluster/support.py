"""What these tests share: short ways to make jobs and policies, and to see who ran when. All times are in minutes."""

from collections.abc import Mapping, Sequence

from dispatch_memory_async import Action, Cause, Policy, Rule, UnmatchedPolicy
from dispatch_memory_async.simulator.cluster import Outcome, Result, Work
from tests.support import MINUTE

NEVER = Policy(unmatched=UnmatchedPolicy.FAIL)


def work(
    number: int,
    submit: float,
    nodes: int,
    runtime: float,
    *,
    requested: float | None = None,
    priority: int = 0,
    outcome: Outcome = Outcome.SUCCEEDS,
) -> Work:
    return Work(
        number=number,
        submit=submit * MINUTE,
        nodes=nodes,
        runtime=runtime * MINUTE,
        requested=(runtime if requested is None else requested) * MINUTE,
        priority=priority,
        outcome=outcome,
    )


def again(*causes: Cause, limit: int | None = None, backoff: float = 0) -> Policy:
    """Restart after these causes, fail after any other."""
    rule = Rule(causes=frozenset(causes), action=Action.RESTART, limit=limit, backoff=backoff * MINUTE)
    return Policy((rule,), unmatched=UnmatchedPolicy.FAIL)


Spans = Mapping[int, Sequence[tuple[float, float | None, Cause | None]]]


def spans(result: Result) -> Spans:
    """Of each job's executions: from when to when, and why it ended."""
    return {
        job.work.number: [
            (run.began / MINUTE, None if run.ended is None else run.ended / MINUTE, run.cause) for run in job.executions
        ]
        for job in result.jobs
    }


def waits(result: Result, number: int) -> Mapping[str, float]:
    """What a job waited for, and how long, where it did."""
    job = next(job for job in result.jobs if job.work.number == number)
    return {str(why): length / MINUTE for why, length in job.waits.items() if length}
