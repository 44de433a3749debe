"""What came of a workload: every execution, every job's waits, and the sums by which policies are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ...core import Verdict
from ...model import Cause, State
from .work import Work

__all__ = ("Execution", "JobResult", "Result", "Summary", "Table", "Waiting")

HOUR = timedelta(hours=1)


class Waiting(StrEnum):
    """What a job that does not run waits for."""

    QUEUE = "queue"
    """Nodes."""
    BACKOFF = "backoff"
    """The time that its policy lets pass before a restart."""
    PROOF = "proof"
    """Proof that its last execution has ceased."""
    HOLD = "hold"
    """A person."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution. Its times are counted from the beginning of the workload.

    :ivar began: when it began
    :ivar ended: when the scheduler took its nodes from it; ``None`` if it still had them at the end of the run
    :ivar nodes: on which nodes
    :ivar cause: why it ended; ``None`` if it succeeded, and while it has not ended
    """

    began: timedelta
    ended: timedelta | None
    nodes: tuple[int, ...]
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of one job.

    :ivar work: the job
    :ivar verdict: the core's; ``None`` if there is none
    :ivar executions: its executions, the latest last
    :ivar waits: how long it waited for what, in all
    """

    work: Work
    verdict: Verdict | None
    executions: tuple[Execution, ...]
    waits: Mapping[Waiting, timedelta]


@dataclass(frozen=True, slots=True)
class Summary:
    """The sums over all jobs.

    :ivar completed: how many jobs succeeded
    :ivar failed: how many failed or were cancelled
    :ivar resting: how many have no verdict: they wait for a person, or were not over when the run was
    :ivar restarts: how many executions there were beside each job's first
    :ivar lost: the node hours of executions that ended otherwise than by success, from when they began until the
        scheduler took their nodes from them
    :ivar waits: how many hours jobs waited for what, in all
    """

    completed: int
    failed: int
    resting: int
    restarts: int
    lost: float
    waits: Mapping[Waiting, float]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a workload.

    :ivar jobs: its jobs, in the order of the workload
    :ivar took: how long after the beginning the last of them rested
    """

    jobs: Sequence[JobResult]
    took: timedelta

    def summary(self) -> Summary:
        """The sums over all jobs."""
        states = [job.verdict.state if job.verdict else None for job in self.jobs]
        runs = [run for job in self.jobs for run in job.executions]
        lost = [(run.ended - run.began) * len(run.nodes) for run in runs if run.ended is not None and run.cause]
        return Summary(
            completed=states.count(State.SUCCEEDED),
            failed=states.count(State.FAILED) + states.count(State.CANCELLED),
            resting=states.count(None),
            restarts=sum(max(len(job.executions) - 1, 0) for job in self.jobs),
            lost=sum(lost, timedelta(0)) / HOUR,
            waits={
                why: sum((job.waits.get(why, timedelta(0)) for job in self.jobs), timedelta(0)) / HOUR
                for why in Waiting
            },
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Policies side by side. Its text is a table for people.

    :ivar rows: the sums, by the policy's name
    """

    rows: Mapping[str, Summary]

    def __str__(self) -> str:
        head = ("policy", "completed", "failed", "resting", "restarts", "lost node h", *(f"{why} h" for why in Waiting))
        lines = [head, *(_cells(name, row) for name, row in self.rows.items())]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
            )
            for first, *rest in lines
        )


def _cells(name: str, row: Summary) -> tuple[str, ...]:
    counts = (row.completed, row.failed, row.resting, row.restarts)
    return (name, *map(str, counts), *(f"{hours:,.1f}" for hours in (row.lost, *(row.waits[why] for why in Waiting))))
