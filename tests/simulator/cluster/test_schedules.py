"""SIM-9: hand-worked schedules of at most six jobs, on both loops. All times are in minutes."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dispatch_memory_async import Cause, InvalidError, Policy, Shape
from dispatch_memory_async.simulator.cluster import Cluster, Outcome, Queueing, Work, compare, run_workload, running
from tests.support import MINUTE

from .support import NEVER, again, spans, waits, work

SIX = (work(1, 0, 2, 10), work(2, 0, 4, 10), work(3, 1, 1, 5), work(4, 2, 2, 20), work(5, 3, 1, 5), work(6, 4, 1, 15))


async def test_fifo_nobody_starts_before_the_first() -> None:
    """SIM-9: FIFO on four nodes."""
    result = await run_workload(SIX, Cluster(nodes=4, queue=Queueing.FIFO), NEVER)
    assert spans(result) == {
        1: [(0, 10, None)],  # two nodes are free, and 2 wants four
        2: [(10, 20, None)],  # once 1 is over; all others wait behind it, though 3 and 5 would fit
        3: [(20, 25, None)],  # one node,
        4: [(20, 40, None)],  # two nodes,
        5: [(20, 25, None)],  # one node: all four are in use
        6: [(25, 40, None)],  # on what 3 or 5 leaves
    }
    assert waits(result, 3) == {"queue": 19}
    assert result.took == 40 * MINUTE


async def test_easy_whoever_is_done_by_the_reservation_goes_before() -> None:
    """SIM-9: EASY backfill on four nodes, with nothing to spare at the reservation."""
    result = await run_workload(SIX, Cluster(nodes=4), NEVER)
    assert spans(result) == {
        1: [(0, 10, None)],
        2: [(10, 20, None)],  # reserved from 10 on, when 1 ends, and all four nodes are its own
        3: [(1, 6, None)],  # over at 6
        4: [(20, 40, None)],  # two nodes are never free before
        5: [(3, 8, None)],  # over at 8
        6: [(20, 35, None)],  # a node is free at 6, but it would be over only at 21
    }


async def test_easy_nodes_that_are_spared_may_be_used_for_long() -> None:
    """SIM-9: EASY backfill on four nodes, with one to spare at the reservation."""
    jobs = (work(1, 0, 2, 10), work(2, 0, 3, 10), work(3, 1, 1, 30), work(4, 2, 1, 30))
    assert spans(await run_workload(jobs, Cluster(nodes=4), NEVER)) == {
        1: [(0, 10, None)],
        2: [(10, 20, None)],  # reserved from 10 on, three of four
        3: [(1, 31, None)],  # the fourth
        4: [(20, 50, None)],  # a node is free at 2, but with it 2 would have only two at 10
    }


async def test_easy_what_is_spared_is_spared_once() -> None:
    """SIM-9: EASY backfill on six nodes, with one to spare at the reservation and two who want it."""
    jobs = (work(1, 0, 3, 10), work(2, 0, 5, 10), work(3, 0, 1, 30), work(4, 0, 1, 30))
    assert spans(await run_workload(jobs, Cluster(nodes=6), NEVER)) == {
        1: [(0, 10, None)],
        2: [(10, 20, None)],  # reserved from 10 on, five of six
        3: [(0, 30, None)],  # the sixth
        4: [(20, 50, None)],  # two nodes are free at 0, but 2 needs one of them at 10
    }


async def test_easy_whatever_ends_at_the_reservation_is_free_then() -> None:
    """SIM-9: EASY backfill on three nodes, two of which come free at one moment."""
    jobs = (work(1, 0, 1, 10), work(2, 0, 1, 10), work(3, 0, 2, 10), work(4, 0, 1, 30))
    assert spans(await run_workload(jobs, Cluster(nodes=3), NEVER)) == {
        1: [(0, 10, None)],
        2: [(0, 10, None)],
        3: [(10, 20, None)],  # reserved from 10 on, when all three would be free
        4: [(0, 30, None)],  # so one is to spare
    }


async def test_easy_goes_by_what_is_asked_for_and_the_first_by_what_is_so() -> None:
    """SIM-9: the reservation is made from requested times; who ends sooner lets the first start sooner."""
    jobs = (work(1, 0, 1, 10, requested=20), work(2, 0, 2, 10), work(3, 0, 1, 5, requested=20), work(4, 1, 1, 5))
    assert spans(await run_workload(jobs, Cluster(nodes=2), NEVER)) == {
        1: [(0, 10, None)],
        2: [(10, 20, None)],  # reserved from 20 on, started when the nodes are free
        3: [(0, 5, None)],  # it asks for 20, which ends in time for the reservation
        4: [(5, 10, None)],  # on what 3 left
    }


async def test_equals_start_in_the_order_in_which_they_came(shape: Shape) -> None:
    """SIM-9: the queue of a priority is first in, first out; a higher priority goes first."""
    jobs = (work(1, 0, 2, 10), work(2, 1, 2, 10), work(3, 2, 2, 10), work(4, 3, 1, 10, priority=1))
    cluster = Cluster(nodes=2, queue=Queueing.FIFO, shape=shape)
    assert spans(await run_workload(jobs[:3], cluster, NEVER)) == {
        1: [(0, 10, None)],
        2: [(10, 20, None)],
        3: [(20, 30, None)],
    }
    assert spans(await run_workload(jobs, cluster, again(Cause.PREEMPTED))) == {
        1: [(0, 3, Cause.PREEMPTED), (33, 43, None)],  # it comes anew, behind 2 and 3
        2: [(13, 23, None)],
        3: [(23, 33, None)],
        4: [(3, 13, None)],
    }


# ends


async def test_what_a_job_does_by_itself_it_does_every_time(shape: Shape) -> None:
    """SIM-9: it fails, is timed out, or is stopped by its user; the policy says what follows, through the real core."""
    jobs = (
        work(1, 0, 1, 10, outcome=Outcome.FAILS),
        work(2, 0, 1, 30, requested=20),
        work(3, 0, 1, 10, outcome=Outcome.STOPPED),
    )
    policy = again(Cause.NON_ZERO_EXIT, Cause.TIMEOUT, limit=1, backoff=5)
    result = await run_workload(jobs, Cluster(nodes=3, shape=shape), policy)
    assert spans(result) == {
        1: [(0, 10, Cause.NON_ZERO_EXIT), (15, 25, Cause.NON_ZERO_EXIT)],  # after the backoff, and then never again
        2: [(0, 20, Cause.TIMEOUT), (25, 45, Cause.TIMEOUT)],
        3: [(0, 10, Cause.STOPPED)],
    }
    assert [job.verdict and str(job.verdict.state) for job in result.jobs] == ["Failed", "Failed", "Cancelled"]
    assert waits(result, 1) == {"backoff": 5}


async def test_a_job_that_its_policy_holds_waits_for_a_person_to_the_end(shape: Shape) -> None:
    """SIM-9: nobody comes; the wait is counted until the last job rests."""
    jobs = (work(1, 0, 1, 10, outcome=Outcome.FAILS), work(2, 0, 1, 40))
    result = await run_workload(jobs, Cluster(nodes=2, shape=shape), Policy())
    assert result.jobs[0].verdict is None
    assert waits(result, 1) == {"hold": 30}
    summary = result.summary()
    assert (summary.completed, summary.failed, summary.resting) == (1, 0, 1)


async def test_less_than_a_second_is_a_second() -> None:
    """SIM-9: the format rounds to whole seconds, so that there are jobs of none."""
    result = await run_workload([work(1, 0, 1, 0)], Cluster(nodes=1), NEVER)
    assert result.took == timedelta(seconds=1)


# nodes

LOST = (work(1, 0, 2, 30), work(2, 1, 1, 10))


@pytest.fixture
def the_first_node_fails_at_20(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Cluster, node: int) -> Iterator[timedelta]:
        return iter([20 * MINUTE] if node == 0 else [])

    monkeypatch.setattr(running, "failures", failing)


def unsafe(shape: Shape, fence: float | None) -> Cluster:
    return Cluster(
        nodes=2,
        shape=shape,
        repair=60 * MINUTE,
        fence=None if fence is None else fence * MINUTE,
        detection=5 * MINUTE,
    )


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_slurm_a_lost_node_with_a_restart() -> None:
    """SIM-9, CO-2: given up at 25; a backoff to 27, proof at 30, two nodes again from 80 on."""
    policy = again(Cause.NODE_LOST, backoff=2)
    result = await run_workload(LOST, unsafe(Shape.SLURM, 10), policy)
    assert spans(result) == {
        1: [(0, 25, Cause.NODE_LOST), (80, 110, None)],
        2: [(25, 35, None)],  # on the node that works
    }
    assert waits(result, 1) == {"backoff": 2, "proof": 3, "queue": 50}
    summary = result.summary()
    assert summary.lost == pytest.approx(2 * 25 / 60)
    assert (summary.completed, summary.restarts) == (2, 1)


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_slurm_a_lost_node_without_a_restart() -> None:
    """SIM-9: the verdict is given at 25."""
    result = await run_workload(LOST, unsafe(Shape.SLURM, 10), NEVER)
    assert spans(result) == {1: [(0, 25, Cause.NODE_LOST)], 2: [(25, 35, None)]}
    summary = result.summary()
    assert (summary.completed, summary.failed, summary.restarts) == (1, 1, 0)


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_kubeflow_a_lost_node_with_a_restart() -> None:
    """SIM-9, CO-2: wedged at once, and stopped and submitted anew once proof comes, at 30."""
    result = await run_workload(LOST, unsafe(Shape.KUBEFLOW, 10), again(Cause.NODE_LOST))
    assert spans(result) == {1: [(0, 30, Cause.NODE_LOST), (80, 110, None)], 2: [(30, 40, None)]}
    assert waits(result, 1) == {"proof": 10, "queue": 50}


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_kubeflow_a_lost_node_without_a_restart() -> None:
    """SIM-9: what is wedged is stopped at once, as nothing is to follow."""
    result = await run_workload(LOST, unsafe(Shape.KUBEFLOW, 10), NEVER)
    assert spans(result) == {1: [(0, 20, Cause.NODE_LOST)], 2: [(20, 30, None)]}


@pytest.mark.usefixtures("the_first_node_fails_at_20")
@pytest.mark.parametrize(("shape", "given_up"), [(Shape.SLURM, 25), (Shape.KUBEFLOW, 80)])
async def test_where_nobody_fences_only_the_repair_is_proof(shape: Shape, given_up: int) -> None:
    """SIM-9: at 80; the job begins again at the same moment."""
    result = await run_workload(LOST, unsafe(shape, None), again(Cause.NODE_LOST))
    assert spans(result)[1] == [(0, given_up, Cause.NODE_LOST), *spans(result)[1][1:]]
    assert waits(result, 1)["proof"] == 80 - (25 if shape is Shape.SLURM else 20)


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_a_node_that_is_repaired_before_its_execution_is_given_up(shape: Shape) -> None:
    """SIM-9: the node comes back at 23 with nothing on it, and that ends the execution."""
    cluster = Cluster(nodes=2, shape=shape, repair=3 * MINUTE, detection=5 * MINUTE)
    result = await run_workload(LOST, cluster, again(Cause.NODE_LOST))
    assert spans(result) == {1: [(0, 23, Cause.NODE_LOST), (33, 63, None)], 2: [(23, 33, None)]}


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_what_is_lost_is_not_preempted(shape: Shape) -> None:
    """SIM-9: the node of it that works is not to be had before it is given up."""
    jobs = (work(1, 0, 2, 30), work(2, 21, 1, 10, priority=1))
    given_up = 25 if shape is Shape.SLURM else 30
    assert spans(await run_workload(jobs, unsafe(shape, 10), again(Cause.NODE_LOST, Cause.PREEMPTED))) == {
        1: [(0, given_up, Cause.NODE_LOST), (80, 110, None)],
        2: [(given_up, given_up + 10, None)],
    }


@pytest.mark.usefixtures("the_first_node_fails_at_20")
async def test_easy_counts_on_no_node_that_is_down() -> None:
    """SIM-9: of what a lost execution holds, only the nodes that work will be free."""
    cluster = Cluster(nodes=3, repair=60 * MINUTE, fence=10 * MINUTE, detection=5 * MINUTE)
    jobs = (work(1, 0, 2, 60), work(2, 21, 2, 10), work(3, 22, 1, 100))
    assert spans(await run_workload(jobs, cluster, NEVER)) == {
        1: [(0, 25, Cause.NODE_LOST)],
        2: [(25, 35, None)],  # reserved with the node that 1 leaves and the free one
        3: [(35, 135, None)],  # so the free one is not to spare
    }


async def test_two_nodes_fail_at_one_moment(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-9: the execution is lost once, and returned once."""
    monkeypatch.setattr(running, "failures", lambda _, __: iter([20 * MINUTE]))  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    cluster = Cluster(nodes=2, shape=shape, repair=3 * MINUTE)
    result = await run_workload([work(1, 0, 2, 30)], cluster, again(Cause.NODE_LOST))
    assert spans(result) == {1: [(0, 23, Cause.NODE_LOST), (23, 53, None)]}


async def test_failures_are_each_nodes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-9: two nodes of one execution fail, one after the other; a node that is idle fails too."""

    def failing(_: Cluster, node: int) -> Iterator[timedelta]:
        return iter({0: [20 * MINUTE], 1: [21 * MINUTE], 2: [1 * MINUTE]}.get(node, []))

    monkeypatch.setattr(running, "failures", failing)
    cluster = Cluster(nodes=4, repair=60 * MINUTE, fence=10 * MINUTE, detection=5 * MINUTE)
    jobs = (work(1, 0, 2, 30), work(2, 2, 2, 10))
    assert spans(await run_workload(jobs, cluster, again(Cause.NODE_LOST))) == {
        1: [(0, 25, Cause.NODE_LOST), (71, 101, None)],  # proof at 30; one node works; the one that fell idle at 61
        2: [(61, 71, None)],  # it was first; 0 and 1 are back at 80 and 81, so 1 goes on what it leaves
    }


async def test_a_year_after_the_last_submission_the_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-9: a job that is too long for its nodes never gets through."""

    def failing(_: Cluster, __: int) -> Iterator[timedelta]:
        while True:
            yield timedelta(days=30)

    monkeypatch.setattr(running, "failures", failing)
    jobs = [work(1, 0, 1, 60 * 24 * 31)]
    result = await run_workload(jobs, Cluster(nodes=1), again(Cause.NODE_LOST))
    assert result.jobs[0].verdict is None
    assert result.jobs[0].executions[-1].ended is None
    assert result.summary().restarts == 12
    assert timedelta(days=360) < result.took <= timedelta(days=366)


# preemption

CROWDED = (work(1, 0, 2, 30), work(2, 1, 1, 30), work(3, 2, 1, 30), work(4, 10, 2, 5, priority=1))


@pytest.mark.parametrize("policy", [NEVER, again(Cause.PREEMPTED)], ids=["never", "again"])
async def test_kubeflow_preemption_puts_back_to_wait_by_itself(policy: Policy) -> None:
    """SIM-9, KF-4: whatever the policy; the two that have run least make room, and come back at 15."""
    result = await run_workload(CROWDED, Cluster(nodes=4, shape=Shape.KUBEFLOW), policy)
    assert spans(result) == {
        1: [(0, 30, None)],
        2: [(1, 10, Cause.PREEMPTED), (15, 45, None)],
        3: [(2, 10, Cause.PREEMPTED), (15, 45, None)],
        4: [(10, 15, None)],
    }
    assert result.summary().lost == pytest.approx((9 + 8) / 60)


async def test_slurm_after_a_preemption_the_policy_decides() -> None:
    """SIM-9, SL-10: restarted as on Kubeflow, or failed at 10."""
    cluster = Cluster(nodes=4)
    assert spans(await run_workload(CROWDED, cluster, again(Cause.PREEMPTED))) == spans(
        await run_workload(CROWDED, Cluster(nodes=4, shape=Shape.KUBEFLOW), NEVER)
    )
    result = await run_workload(CROWDED, cluster, NEVER)
    assert spans(result)[2] == [(1, 10, Cause.PREEMPTED)]
    assert result.summary().failed == 2


async def test_nobody_is_preempted_in_vain(shape: Shape) -> None:
    """SIM-9: with what is of lower priority it would not have room, so that it waits."""
    jobs = (work(1, 0, 2, 30, priority=1), work(2, 0, 2, 30), work(3, 10, 3, 5, priority=1))
    assert spans(await run_workload(jobs, Cluster(nodes=4, shape=shape), again(Cause.PREEMPTED))) == {
        1: [(0, 30, None)],
        2: [(0, 30, None)],
        3: [(30, 35, None)],
    }


# comparing


async def test_policies_are_compared_in_one_table() -> None:
    """SIM-9: a line a policy."""
    table = await compare({"again": again(Cause.PREEMPTED), "never": NEVER}, CROWDED, Cluster(nodes=4))
    assert str(table).splitlines() == [
        "policy  completed  failed  resting  restarts  lost node h  queue h  backoff h  proof h  hold h",
        "again           4       0        0         2          0.3      0.2        0.0      0.0     0.0",
        "never           2       2        0         0          0.3      0.0        0.0      0.0     0.0",
    ]


@pytest.mark.parametrize(
    ("jobs", "policy", "message"),
    [
        ([work(1, 0, 1, 1), work(1, 0, 1, 1)], NEVER, "job 1: found two of that number, expected one"),
        ([work(7, 0, 5, 1)], NEVER, "job 7: found 5 nodes, expected no more than 4"),
        ([], again(Cause.PREEMPTED, Cause.TIMEOUT), "rule 1: found no limit, expected one"),
    ],
)
async def test_what_cannot_be_run_is_refused(jobs: list[Work], policy: Policy, message: str) -> None:
    """SIM-9: with words."""
    with pytest.raises(InvalidError, match=message):
        await run_workload(jobs, Cluster(nodes=4), policy)


async def test_no_jobs_are_no_work() -> None:
    """SIM-9: an empty trace is one."""
    result = await run_workload([], Cluster(nodes=1, mtbf=MINUTE), NEVER)
    assert (result.jobs, result.took) == ((), timedelta(0))


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": 0},
        {"nodes": 1, "mtbf": timedelta(0)},
        {"nodes": 1, "repair": timedelta(0)},
        {"nodes": 1, "fence": -MINUTE},
        {"nodes": 1, "queue": "lifo"},
    ],
)
def test_a_bad_cluster_is_refused(fields: dict[str, object]) -> None:
    """SIM-9: as every value is."""
    with pytest.raises(InvalidError, match="Cluster"):
        Cluster(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_bad_job_is_refused() -> None:
    """SIM-9: as every value is."""
    with pytest.raises(InvalidError, match=r"Work\.runtime"):
        work(1, 0, 1, -1)
