"""SIM-9: the modelled cluster beside what a real Slurm 22.05.8 did (four nodes of two processors each).

A real Slurm looks at its queue every few seconds, the model at once: so orders and ends are compared, and waits from
one side.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files

import pytest

from dispatch_memory_async import Cause
from dispatch_memory_async.cli.record import Run, read
from dispatch_memory_async.simulator.cluster import Cluster, Queueing, Work, run_workload, running
from tests.support import SECOND

from .support import NEVER, again

HISTORY = {runs[0].job: runs for runs in read((files("dispatch_memory_async.cli") / "sacct-22.05.8.psv").read_bytes())}
FIRST = HISTORY[1000][0].submit


def work(run: Run, nodes: int, priority: int = 0) -> Work:
    assert run.start
    assert run.end
    length = run.end - run.start
    return Work(
        number=run.job,
        submit=run.submit - FIRST,
        nodes=nodes,
        runtime=length,
        requested=length if run.limit is None else max(run.limit, length),
        priority=priority,
    )


@pytest.mark.parametrize("queue", Queueing)
async def test_a_crowd_starts_in_the_recorded_order(queue: Queueing) -> None:
    """SIM-9: fourteen jobs of a processor at one moment, on eight processors: the same eight first, the same order."""
    recorded = [runs[0] for job, runs in HISTORY.items() if 1000 <= job <= 1013]
    result = await run_workload([work(run, 1) for run in recorded], Cluster(nodes=8, queue=queue), NEVER)
    begins = [job.executions[0].began for job in result.jobs]
    assert begins == sorted(begins)
    starts = [run.start - FIRST for run in recorded if run.start]
    assert starts == sorted(starts)
    assert begins.count(begins[0]) == starts.count(starts[0]) == 8
    # nobody waits longer than in the record, where the first ones waited two seconds for the scheduler
    assert all(began <= start for began, start in zip(begins, starts, strict=True))


async def test_the_preemption_that_was_recorded() -> None:
    """SIM-9: three jobs of high priority at once take the nodes of three of low; one is requeued, two are not."""
    low = [HISTORY[1021][-1], HISTORY[1022][0], HISTORY[1023][0]]
    high = [HISTORY[job][0] for job in (1024, 1025, 1026)]
    submit = [HISTORY[run.job][0].submit - FIRST for run in low]
    workload = [
        *(
            Work(number=run.job, submit=at, nodes=1, runtime=25 * SECOND, requested=25 * SECOND)
            for run, at in zip(low, submit, strict=True)
        ),
        *(work(run, 1, priority=1) for run in high),
    ]
    cluster = Cluster(nodes=3)
    requeued = await run_workload(workload, cluster, again(Cause.PREEMPTED))
    ended = await run_workload(workload, cluster, NEVER)
    for result in (requeued, ended):
        for job, run in zip(result.jobs[3:], high, strict=True):
            assert run.start
            (execution,) = job.executions
            assert apart(execution.began, run.start) <= 1  # it began within a second of the record
            assert execution.cause is None
    # 1021 could be requeued, and was: preempted at the second that the high ones came, and through at last
    first, second = HISTORY[1021]
    one, two = requeued.jobs[0].executions
    assert (one.cause, two.cause) == (first.cause, second.cause) == (Cause.PREEMPTED, None)
    assert first.end
    assert apart(one.ended, first.end) == 0
    # it may not begin before they are over; there it waited for two seconds more, for its credential
    assert second.start
    assert -3 <= (two.began - (second.start - FIRST)) / SECOND <= 0
    # 1022 and 1023 could not
    for job, recorded in zip(ended.jobs[1:3], low[1:], strict=True):
        (execution,) = job.executions
        assert execution.cause is recorded.cause is Cause.PREEMPTED
        assert recorded.end
        assert apart(execution.ended, recorded.end) == 0


@pytest.fixture
def two_nodes_fail_after_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Cluster, node: int) -> Iterator[timedelta]:
        return iter([10 * SECOND] if node < 2 else [])

    monkeypatch.setattr(running, "failures", failing)


@pytest.mark.usefixtures("two_nodes_fail_after_ten_seconds")
async def test_the_lost_nodes_that_were_recorded() -> None:
    """SIM-9: two jobs whose nodes are lost, and given up after 36 seconds; one was requeued, the other was not.

    When the nodes were silent is in no record: `SlurmdTimeout` and the cycle of pings came to 26 seconds there.
    """
    lost, kept = HISTORY[1027], HISTORY[1028]
    begin = lost[0].submit
    workload = [
        Work(number=runs[0].job, submit=timedelta(0), nodes=1, runtime=90 * SECOND, requested=90 * SECOND)
        for runs in (lost, kept)
    ]
    cluster = Cluster(nodes=3, detection=26 * SECOND, fence=timedelta(0))
    requeued = (await run_workload(workload, cluster, again(Cause.NODE_LOST))).jobs[0].executions
    ended = (await run_workload(workload, cluster, NEVER)).jobs[1].executions
    assert len(requeued) == len(lost) == 2
    assert len(ended) == len(kept) == 1
    for execution, run in ((requeued[0], lost[0]), (ended[0], kept[0])):
        assert execution.cause is run.cause is Cause.NODE_LOST
        assert run.start
        assert run.end
        assert (execution.began, execution.ended) == (run.start - begin, run.end - begin)
    # it may begin again once it is given up; there it waited for its credential, and for the scheduler's next look
    assert lost[1].submit - begin == requeued[1].began
    assert lost[1].start
    assert requeued[1].began <= lost[1].start - begin


def apart(here: timedelta | None, there: datetime) -> float:
    """How many seconds lie between a moment of the run and one of the record."""
    assert here is not None
    return abs(here - (there - FIRST)) / SECOND
