"""The core passes the core suite on the memory adapter, in both shapes and whatever that declares; the suite holds."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from ulid import ULID

from dispatch_memory_async import (
    Action,
    Capability,
    Cessation,
    Config,
    ExpiredError,
    NotFoundError,
    OutcomeUnknownError,
    Shape,
    State,
    Support,
    Tristate,
    UnavailableError,
)
from dispatch_memory_async.conformance import (
    BACKEND,
    CORE,
    SUITE_VERSION,
    Execution,
    Harness,
    Result,
    run_check,
    run_core,
)
from dispatch_memory_async.conformance.core.bed import CoreBed, restart
from dispatch_memory_async.conformance.core.checking import core_check
from dispatch_memory_async.conformance.core.line import OPTIONAL
from dispatch_memory_async.conformance.core.mishaps import Crash
from dispatch_memory_async.conformance.findings import CheckFailed
from dispatch_memory_async.conformance.pytest_face import CoreConformance
from dispatch_memory_async.core import Phase, WaitingFor
from dispatch_memory_async.memory.harness import MemoryCluster, MemoryHarness
from dispatch_memory_async.spi import CessationSignal, Holder, NativePolicyCompiler, Requeuer

YES, NO, UNKNOWN = (Support(value=value) for value in (Tristate.YES, Tristate.NO, Tristate.UNKNOWN))
NATIVE: dict[str, Any] = {"rules": dict.fromkeys(Action, YES), "native": {Action.RESTART: YES}}
SLOWLY, NEVER = timedelta(seconds=30), timedelta(0)
OWN = {
    Shape.SLURM: ("GatedStart", "Hold", "Requeue", "Watch", "Cessation", "AccountingHistory"),
    Shape.KUBEFLOW: ("Hold", "HoldRunning", "Watch", "Cessation"),
}
"""The capabilities of each shape: its own, and the one that can be configured."""


def settings(shape: Shape, *without: str, **fields: Any) -> Config:
    """All of a shape's capabilities but some. Starts that are denied to be gated must not be, so that is left open."""
    declared = {Capability(name): NO if name in without else YES for name in OWN[shape]}
    if "GatedStart" in without:
        declared[Capability.GATED_START] = UNKNOWN
    return Config(shape=shape, capabilities=declared, **NATIVE, **fields)


LIKE: dict[str, dict[str, Any]] = {
    "ending slowly": {"kill_wait": SLOWLY, **NATIVE},
    "at the limits": {"min_job_age": NEVER, "slurmd_timeout": NEVER, "evidence_window": NEVER, "call_bound": NEVER},
    "sure of its nodes": {"cessation": Cessation(ceased=True)},
}
OTHERS = {
    **{f"{shape}, {what}": Config(shape=shape, **fields) for shape in Shape for what, fields in LIKE.items()},
    **{f"{shape}, nothing declared": settings(shape, *OWN[shape]) for shape in Shape},
}

HISTORY = "no object vanishes: there is accounting"
HELD = "a running object can be held"
SKIPPED = {
    Shape.SLURM: {
        "proof.release": "capability HoldRunning is not declared",
        "proof.without-a-signal-a-vanished-one": HISTORY,
        "proof.without-a-signal-one-that-never-ran": HISTORY,
        "proof.without-a-signal-a-held-run": "capability HoldRunning is not declared",
        "hold.running-is-held": "capability HoldRunning is not declared",
        "end.put-back-is-none": "a preemption ends the object",
        "cause.of-a-lost-node-outlives-the-object": "a lost node is not to be read while the object runs",
        "cause.of-a-vanished-one-is-unknown": HISTORY,
        "restart.of-one-that-vanished-is-the-policys": HISTORY,
        "others.deactivation": "the harness' driver cannot deactivate externally",
    },
    Shape.KUBEFLOW: {
        "act.late-open-is-waited-for": "capability GatedStart is not declared",
        "start.others-end-first": "capability GatedStart is not declared",
        "proof.without-a-signal-one-that-never-ran": "capability GatedStart is not declared",
        "hold.late-open-does-no-harm": "capability GatedStart is not declared",
        "hold.running-is-refused": HELD,
        "hold.running-is-stopped": HELD,
        "hold.begun-by-somebody-else-runs-on": HELD,
        "hold.begun-by-somebody-else-is-stopped": HELD,
        "hold.without-a-holder": "capability GatedStart is not declared",
        "end.preempted-is-restarted": "a preemption leaves the object waiting",
        "restart.is-a-requeue": "capability Requeue is not declared",
        "restart.twice": "capability Requeue is not declared",
        "restart.from-history-is-a-new-submission": "capability Requeue is not declared",
        "restart.of-one-with-its-bit-set-is-a-new-submission": "capability Requeue is not declared",
        "restart.after-a-crash-between-steps-is-a-new-submission": "capability Requeue is not declared",
        "restart.after-a-refused-requeue-is-a-new-submission": "capability Requeue is not declared",
        "restart.late-requeue-is-waited-for": "capability Requeue is not declared",
        "restart.is-not-settled-by-somebody-elses": "capability Requeue is not declared",
        "restart.of-one-that-vanished-is-the-policys": "capability Requeue is not declared",
        "bit.is-restored": "capability Requeue is not declared",
        "others.requeue-takes-an-end-back": "the harness' driver cannot requeue externally",
        "bare.bit": "the harness' driver cannot requeue externally",
    },
}
"""What is skipped, and why, when all of a shape's capabilities are declared."""
MORE = {
    "Cessation": {"what is held is not let go: a hold may have ended a run, and nothing tells of its ceasing"},
    "AccountingHistory": {"capability AccountingHistory is not declared"},
}
"""Other reasons that come with a capability's absence."""


class TestMemory(CoreConformance):
    """4.2: the core is right on the memory adapter, with all of its shape's capabilities."""

    @pytest.fixture(params=list(Shape), ids=str)
    def harness(self, request: pytest.FixtureRequest) -> Harness:
        assert isinstance(request.param, Shape)
        return MemoryHarness(settings(request.param))


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
async def test_the_core_is_right_whatever_the_scheduler_is_like(config: Config) -> None:
    """4.2: with nothing declared, with executions that end slowly, and at the limits of the settings."""
    report = await run_core(MemoryHarness(config))
    assert [one for one in report.results if one.outcome == "failed"] == []
    assert report.ok


async def test_what_is_skipped_when_all_is_declared(shape: Shape) -> None:
    """3.1: nothing is skipped unnoticed."""
    report = await run_core(MemoryHarness(settings(shape)))
    assert report.ok
    assert {one.check: one.message for one in report.results if one.outcome == "skipped"} == SKIPPED[shape]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # all of it is played on both in TestMemory
@pytest.mark.parametrize(("shape", "capability"), [(shape, name) for shape, names in OWN.items() for name in names])
async def test_the_core_is_right_without_any_one_capability(shape: Shape, capability: str) -> None:
    """CO-13: what needs the capability is skipped and says so, all else passes."""
    report = await run_core(MemoryHarness(settings(shape, capability)))
    assert [one for one in report.results if one.outcome == "failed"] == []
    skipped = {one.check: one.message for one in report.results if one.outcome == "skipped"}
    reasons = {why for check, why in skipped.items() if SKIPPED[shape].get(check) != why}
    assert reasons <= {f"capability {capability} is not declared"} | MORE.get(capability, set())


def test_every_check_has_an_id_of_its_own_and_every_rule_a_check() -> None:
    """3.1: each rule of section 4 has a core check; no id is one of the backend suite's."""
    assert len({one.id for one in (*BACKEND, *CORE)}) == len(BACKEND) + len(CORE)
    assert {rule for one in CORE for rule in one.rules} == {f"CO-{number}" for number in range(1, 17)}
    for one in CORE:
        topic, _, what = one.id.partition(".")
        assert topic.isalpha()
        assert what.replace("-", "").isalnum()
        assert one.sentence.endswith(".")


def test_each_of_the_two_kinds_of_schedulers_passes_each_check() -> None:
    """3.1: no check is skipped in both shapes, whatever is declared."""
    both = set(SKIPPED[Shape.SLURM]) & set(SKIPPED[Shape.KUBEFLOW])
    assert both == {"proof.without-a-signal-one-that-never-ran", "restart.of-one-that-vanished-is-the-policys"}
    assert {SKIPPED[Shape.SLURM][check] for check in both} == {HISTORY}  # and there is a Slurm without


async def test_the_report_names_the_suite() -> None:
    """3.3: what was selected, and told as it comes."""
    told: list[Result] = []
    report = await run_core(
        MemoryHarness(Config()), select=lambda one: one.id.startswith("verdict.s"), each=told.append
    )
    assert report.suite == f"core suite {SUITE_VERSION}"
    assert tuple(told) == report.results
    assert [one.check for one in told] == ["verdict.success", "verdict.says-nothing-of-ceasing"]


# The framework


async def made(body: Callable[[CoreBed], Awaitable[None]], harness: Harness | None = None) -> str:
    """What a check with that body says."""
    one = core_check("test.it-holds", "It holds.", rules="CO-1")(body)
    return (await run_check(one, harness or MemoryHarness(Config()))).message


class Overlapping(MemoryHarness):
    """A cluster whose truth is that two executions were alive at once."""

    def cluster(self) -> Any:
        return _overlapping(super().cluster())


class _overlapping:  # noqa: N801
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __aenter__(self) -> MemoryCluster:
        cluster: MemoryCluster = await self.inner.__aenter__()
        began = cluster.now()

        async def executions(job_id: ULID) -> tuple[Execution, ...]:  # noqa: ARG001
            return tuple(Execution(epoch=number, started_at=began, ended_at=None) for number in (1, 2))

        cluster.executions = executions  # type: ignore[method-assign]
        return cluster

    async def __aexit__(self, *details: object) -> None:
        await self.inner.__aexit__(*details)


async def test_two_executions_at_once_are_found() -> None:
    """CO-2: after each check, by the ground truth."""

    async def body(bed: CoreBed) -> None:
        await bed.waiting()

    assert "one execution at a time" in await made(body, Overlapping(Config()))
    assert await made(body) == ""


async def test_what_does_not_come_is_told() -> None:
    """3.1: with what was expected, what was seen, and the object."""

    async def runs(bed: CoreBed) -> None:
        await bed.shows(await bed.waiting(), state=Phase.RUNNING)

    async def ends(bed: CoreBed) -> None:
        await bed.done(await bed.waiting(), State.SUCCEEDED, None)

    async def stands(bed: CoreBed) -> None:
        job = await bed.waiting()
        async with bed.standing(bed.one, "stop", lambda: bed.step(job)):
            pass

    async def crashes(bed: CoreBed) -> None:
        await bed.crashing(await bed.waiting())

    async def under_way(bed: CoreBed) -> None:
        await bed.outlast(await bed.waiting())

    async def chosen(bed: CoreBed) -> None:
        bed.one.refuse("start")
        await bed.seen(await bed.submit())

    async def goes_on(bed: CoreBed) -> None:
        job = await bed.submit()
        for _ in range(60):
            bed.one.refuse("open")
        await bed.settle(job)

    async def held(bed: CoreBed) -> None:
        bed.hide(Holder)
        await bed.hold(await bed.waiting())

    said = [await made(body) for body in (runs, ends, stands, crashes, under_way, chosen, goes_on, held)]
    assert said[0].startswith("expected: state=Running\nseen:     state=Pending, why=\nobject:")
    assert said[1].startswith("expected: state=Done\nseen:     state=Pending")
    assert said[2].startswith("expected: a call of stop\nseen:     start, open")
    assert said[3].startswith("expected: the call that the supervisor was to crash at\nseen:     start, open")
    assert said[4] == "expected: an act under way\nseen:     none"
    assert said[5] == "expected: an object that stands for the job\nseen:     New with none"
    assert said[6].startswith("expected: that nothing is to be done after 50 steps\nseen:     start, open, open")
    assert said[7].startswith("expected: an answer to the hold\nseen:     nothing in ")


async def test_a_line_shows_what_is_not_taken_away() -> None:
    """CO-13: an interface is there or not, whatever is declared."""
    async with MemoryHarness(Config()).cluster() as cluster:
        bed = CoreBed(MemoryHarness(Config()), cluster, await cluster.adapter.capabilities())
        assert all(isinstance(bed.one.line, each) for each in OPTIONAL)
        bed.hide(Holder, CessationSignal)
        line = bed.one.line
        assert not isinstance(line, Holder | CessationSignal)
        assert isinstance(line, Requeuer)
        assert isinstance(line, NativePolicyCompiler)
        assert await line.capabilities() == await cluster.adapter.capabilities()


async def test_a_delayed_call_lands_when_told_if_it_started_in_time(shape: Shape) -> None:
    """CO-4: its deadline is of its start; what it comes to then is told to nobody."""
    async with MemoryHarness(Config(shape=shape)).cluster() as cluster:
        bed = CoreBed(MemoryHarness(Config(shape=shape)), cluster, await cluster.adapter.capabilities())
        line, job = bed.one.line, bed.job()
        soon = cluster.now() + timedelta(seconds=1)
        line.delay("start")
        with pytest.raises(OutcomeUnknownError):
            await line.start(job, 1, deadline=soon)
        assert await cluster.adapter.find(job.id) == ()
        await cluster.advance(timedelta(minutes=1))
        await line.land()
        (seen,) = await cluster.adapter.find(job.id)
        assert seen.submission == 1
        line.delay("start")
        with pytest.raises(ExpiredError):
            await line.start(job, 2, deadline=soon)
        line.delay("stop")
        with pytest.raises(OutcomeUnknownError):
            await line.stop(seen.ref)
        await cluster.adapter.stop(seen.ref)
        await line.land()  # a stop of what has been deleted: NotFoundError on Kubeflow
        assert (await line.find(job.id) == ()) is (shape is Shape.KUBEFLOW)
        with pytest.raises(NotFoundError):
            await line.get(bed.strangers(seen.ref)[0])
        await line.aclose()


async def test_mishaps_strike_once_and_in_their_order() -> None:
    """CO-1: before a call does anything, or once it is done; and a crash wherever one is wanted."""
    async with MemoryHarness(Config()).cluster() as cluster:
        bed = CoreBed(MemoryHarness(Config()), cluster, await cluster.adapter.capabilities())
        one, job = bed.one, bed.job()
        one.refuse("start")
        one.lose("start")
        with pytest.raises(UnavailableError):
            await one.line.start(job, 1)
        assert await cluster.adapter.find(job.id) == ()
        with pytest.raises(OutcomeUnknownError):
            await one.line.start(job, 1)
        assert len(await cluster.adapter.find(job.id)) == 1
        one.mishaps.crash_after(1)
        await one.line.find(job.id)
        with pytest.raises(Crash):
            await one.line.start(job, 2)
        assert len(await cluster.adapter.find(job.id)) == 2
        with pytest.raises(Crash):
            await one.line.start(job, 3)
        assert len(await cluster.adapter.find(job.id)) == 2


async def test_records_pass_on_what_they_are_asked() -> None:
    """4.1: a supervisor's ledger is the records, but for the mishaps."""

    async def body(bed: CoreBed) -> None:
        job = await bed.waiting(restart())
        ledger = bed.one.operator._records  # pyright: ignore[reportPrivateUsage]
        assert await ledger.list() == (job,)
        async with ledger.watch() as changes:
            await bed.operator.stop(job, "a person")
            async for changed in changes:
                assert changed == job
                break
        await bed.shows(job, state=Phase.DONE, waiting_for=WaitingFor.DONE)

    assert await made(body) == ""


async def test_a_harness_need_not_know_the_truth() -> None:
    """3.2: then the checks go by what the scheduler shows."""

    class Blind(MemoryHarness):
        def cluster(self) -> Any:
            return _blind(super().cluster())

    assert await made(_waits, Blind(Config())) == ""


async def _waits(bed: CoreBed) -> None:
    await bed.waiting()


class _blind(_overlapping):  # noqa: N801
    async def __aenter__(self) -> MemoryCluster:
        cluster: MemoryCluster = await self.inner.__aenter__()

        async def executions(job_id: ULID) -> None:  # noqa: ARG001
            return None

        cluster.executions = executions  # type: ignore[method-assign,assignment]
        return cluster


def test_a_finding_of_two_in_one_says_both() -> None:
    """3.1: what was expected and what was seen."""
    assert str(CheckFailed("a", "b")) == "expected: a\nseen:     b"
