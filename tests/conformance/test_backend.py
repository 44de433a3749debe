"""The memory adapter passes the backend suite, in both shapes and whatever it declares; the suite itself holds."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any

import anyio
import pytest
import time_machine

from dispatch_memory_async import (
    AdapterConfig,
    Backend,
    Capability,
    Config,
    Env,
    Holder,
    InvalidError,
    NotFoundError,
    Shape,
    State,
    Support,
    Tristate,
    encode_settings,
    open_adapter,
)
from dispatch_memory_async.conformance import (
    ABILITIES,
    BACKEND,
    SUITE_VERSION,
    Bed,
    Check,
    CheckFailed,
    Cluster,
    Driver,
    Fault,
    Harness,
    Report,
    Result,
    run_backend,
    run_check,
)
from dispatch_memory_async.conformance.checks import check
from dispatch_memory_async.conformance.findings import CheckSkipped
from dispatch_memory_async.conformance.pytest_face import BackendConformance
from dispatch_memory_async.conformance.report import Outcome
from dispatch_memory_async.conformance.watching import next_of
from dispatch_memory_async.memory.harness import MemoryCluster, MemoryHarness
from tests.support import T0

YES, NO, UNKNOWN = (Support(value=value) for value in (Tristate.YES, Tristate.NO, Tristate.UNKNOWN))
OWN = {
    Shape.SLURM: ("GatedStart", "Hold", "Requeue", "Watch", "Cessation", "AccountingHistory"),
    Shape.KUBEFLOW: ("Hold", "HoldRunning", "Watch", "Cessation"),
}
"""The capabilities of each shape: its own, and the one that can be configured."""

REASONS = {
    Shape.SLURM: {
        "capability HoldRunning is not declared",
        "the harness' driver cannot deactivate externally",
        "the harness' driver cannot reactivate externally",
        "evidence can be read for ever",
    },
    Shape.KUBEFLOW: {
        "capability AccountingHistory is not declared",
        "capability GatedStart is not declared",
        "capability Requeue is not declared",
        "the harness' driver cannot requeue externally",
        "the scheduler forgets no object that has ended",
        "a stop leaves no object that could show its end",
        "no id comes again among 100 objects",
    },
}
"""Why a check may be skipped when all of a shape's capabilities are declared."""


def settings(shape: Shape, *without: str) -> Config:
    """All of a shape's capabilities but some. Starts that are denied to be gated must not be, so that is left open."""
    declared = {Capability(name): NO if name in without else YES for name in OWN[shape]}
    if "GatedStart" in without:
        declared[Capability.GATED_START] = UNKNOWN
    return Config(shape=shape, capabilities=declared, max_job_id=20)  # ids come again within a check


CONFIGS = {
    "slurm": settings(Shape.SLURM),
    "kubeflow": settings(Shape.KUBEFLOW),
    "slurm, nothing declared": settings(Shape.SLURM, *OWN[Shape.SLURM]),
    "kubeflow, nothing declared": settings(Shape.KUBEFLOW, *OWN[Shape.KUBEFLOW]),
    "slurm, ending slowly": Config(kill_wait=timedelta(seconds=30)),
    "kubeflow, ending slowly": Config(shape=Shape.KUBEFLOW, kill_wait=timedelta(seconds=30)),
}


class TestMemory(BackendConformance):
    """3: the adapter in memory passes, with all of its shape's capabilities, with none, and under ``kill_wait``."""

    @pytest.fixture(params=list(CONFIGS.values()), ids=list(CONFIGS))
    def harness(self, request: pytest.FixtureRequest) -> Harness:
        assert isinstance(request.param, Config)
        return MemoryHarness(request.param)


class RegisteredHarness(MemoryHarness):
    """What the registry opens, on the wall clock, which stands still but for `advance`."""

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[MemoryCluster]:
        with time_machine.travel(T0, tick=False) as traveller:
            adapter = await open_adapter(AdapterConfig(settings=encode_settings(self.config)))
            assert isinstance(adapter, Backend)
            async with adapter:
                yield RegisteredCluster(self.config, adapter, traveller)


class RegisteredCluster(MemoryCluster):
    """The cluster of one adapter that the registry has opened."""

    def __init__(self, config: Config, adapter: Backend, traveller: time_machine.Traveller) -> None:
        super().__init__(config)
        self.adapter = self.backend = adapter
        self.driver = adapter.env
        self.traveller = traveller

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def advance(self, by: timedelta) -> None:
        await super().advance(by)
        self.traveller.shift(by)


class TestRegistered(BackendConformance):
    """1.4: what the registry opens passes as a backend does, on the wall clock."""

    @pytest.fixture(params=list(Shape), ids=str)
    def harness(self, request: pytest.FixtureRequest) -> Harness:
        assert isinstance(request.param, Shape)
        return RegisteredHarness(settings(request.param))


@pytest.mark.parametrize(
    ("shape", "capability"),
    [(shape, name) for shape, names in OWN.items() for name in names if name != "HoldRunning"],
)
async def test_the_adapter_passes_without_any_one_capability(shape: Shape, capability: str) -> None:
    """3.1: what needs the capability is skipped and says so, all else passes."""
    report = await run_backend(MemoryHarness(settings(shape, capability)))
    assert [result for result in report.results if result.outcome == "failed"] == []
    reason = f"capability {capability} is not declared"
    assert {result.message for result in report.results if result.outcome == "skipped"} - REASONS[shape] <= {reason}
    needing = {one.id for one in BACKEND if Capability(capability) in one.needs}
    assert needing <= {result.check for result in report.results if result.outcome == "skipped"}


async def test_nothing_declared_is_skipped(shape: Shape) -> None:
    """3.1: a declared capability is checked: no check that it allows is skipped but for what the shape lacks."""
    report = await run_backend(MemoryHarness(settings(shape)))
    assert report.ok
    assert {result.message for result in report.results if result.outcome == "skipped"} <= REASONS[shape]


@pytest.mark.parametrize(
    ("shape", "capability", "finds"),
    [
        (Shape.SLURM, "GatedStart", "capabilities.gate-as-declared"),
        (Shape.KUBEFLOW, "HoldRunning", "hold.running"),
    ],
)
async def test_what_is_denied_and_there_is_found(shape: Shape, capability: str, finds: str) -> None:
    """2.1, 3.1: settings that deny what a shape does do not keep it from doing it, which the suite tells."""
    harness = MemoryHarness(Config(shape=shape, capabilities={Capability(capability): NO}))
    report = await run_backend(harness, select=lambda one: one.id == finds)
    assert [result.outcome for result in report.results] == ["failed"]


# The framework


def made(body: Callable[[Bed], Awaitable[None]], *needs: Any, name: str = "test.it-holds") -> Check:
    return check(name, "It holds.", rules="SL-1 KF-1", needs=needs)(body)


async def nothing(bed: Bed) -> None:
    """A check that finds nothing wrong."""


SLURM, KUBEFLOW = MemoryHarness(Config()), MemoryHarness(Config(shape=Shape.KUBEFLOW))


async def outcome(one: Check, harness: Harness = SLURM) -> tuple[str, str]:
    result = await run_check(one, harness)
    assert (result.check, result.sentence, result.rules) == (one.id, "It holds.", ("SL-1", "KF-1"))
    return result.outcome, result.message


def test_every_check_has_an_id_of_its_own_and_says_what_it_shows() -> None:
    """3.1: `topic.what-holds`, one sentence, and rules."""
    assert len({one.id for one in BACKEND}) == len(BACKEND)
    for one in BACKEND:
        topic, _, what = one.id.partition(".")
        assert topic.isalpha()
        assert what.replace("-", "").isalnum()
        assert one.sentence.endswith(".")
        assert one.rules


@pytest.mark.parametrize(
    ("need", "harness", "reason"),
    [
        (Capability.REQUEUE, KUBEFLOW, "capability Requeue is not declared"),
        (Capability.OUTPUT, SLURM, "capability Output is not declared"),
        (int, SLURM, "the adapter is no int"),
        ("requeue_externally", KUBEFLOW, "the harness' driver cannot requeue externally"),
    ],
)
async def test_what_is_not_there_makes_a_check_skipped(need: Any, harness: Harness, reason: str) -> None:
    """3.1: never passed, and it says why."""
    assert await outcome(made(nothing, need), harness) == ("skipped", reason)
    assert await outcome(made(nothing, Holder, Capability.HOLD, "run", Fault.LATE_CALL)) == ("passed", "")


async def test_a_fault_that_cannot_be_injected_makes_a_check_skipped() -> None:
    """3.2: the faults are optional."""
    harness = MemoryHarness(Config())
    harness.faults = frozenset({Fault.LATE_CALL})
    assert (await outcome(made(nothing, Fault.LATE_CALL), harness))[0] == "passed"
    reason = "the harness cannot inject LostReply"
    assert await outcome(made(nothing, Fault.LOST_REPLY), harness) == ("skipped", reason)


async def test_a_check_can_be_skipped_as_it_runs() -> None:
    """3.1: another client is optional, and is asked for in a check's body."""

    async def body(bed: Bed) -> None:
        await bed.another(read_only=True)

    assert (await outcome(made(body)))[0] == "passed"
    assert await outcome(made(body), Alone(Config())) == (
        "skipped",
        "the harness has no other read-only client of its cluster",
    )


class Alone(MemoryHarness):
    """A harness with one client."""

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[MemoryCluster]:
        async with super().cluster() as cluster:

            async def none(**_: bool) -> None:
                pass

            cluster.another = none  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
            yield cluster


async def test_the_suite_says_what_was_skipped_for_want_of_another_client() -> None:
    """3.1: with one client nothing fails, and the checks of several are skipped."""
    report = await run_backend(Alone(Config()), select=lambda one: one.id.startswith(("clients.", "races.")))
    skipped = {result.message for result in report.results if result.outcome == "skipped"}
    assert skipped == {
        "the harness has no other client of its cluster",
        "the harness has no other read-only client of its cluster",
    }
    assert report.counts["failed"] == 0


def test_an_ability_that_no_driver_has_cannot_be_asked_for() -> None:
    """A slip in a check is found as the suite is imported."""
    with pytest.raises(AssertionError, match="fly"):
        made(nothing, "fly")


async def test_a_failure_says_what_was_expected_and_what_was_seen() -> None:
    """3.1: with the object's observation."""

    async def body(bed: Bed) -> None:
        ref = await bed.started()
        await bed.see(ref, state=State.RUNNING, hold=None)

    kind, message = await outcome(made(body), KUBEFLOW)
    expected, seen, shown = message.splitlines()
    assert kind == "failed"
    assert expected == "expected: state=Running, hold=None"
    assert seen == "seen:     state=Pending, hold=None"
    assert shown.startswith("object:   Observation(ref=Ref('dj-")


async def test_a_failure_without_an_object_says_no_more() -> None:
    async def body(_: Bed) -> None:
        raise CheckFailed("one", "two")

    assert await outcome(made(body)) == ("failed", "expected: one\nseen:     two")


async def test_an_error_that_escapes_is_a_failure_that_says_where() -> None:
    """1.2: nothing but the SPI's errors escapes an adapter, so that any other is a finding."""

    async def body(bed: Bed) -> None:
        await bed.refused(InvalidError, bed.adapter.get(None), "None")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        raise KeyError("lost")

    kind, message = await outcome(made(body))
    assert kind == "failed"
    assert message.splitlines()[0] == "expected: no error here"
    line = body.__code__.co_firstlineno + 2
    assert message.splitlines()[1] == f"seen:     KeyError('lost') (test_backend.py, line {line}, in body)"


async def test_an_error_of_the_standard_library_is_put_down_to_who_called_it() -> None:
    """3.1: an author looks in their own files."""

    async def body(_: Bed) -> None:
        json.loads("{")

    line = body.__code__.co_firstlineno + 1
    assert (await outcome(made(body)))[1].endswith(f"(test_backend.py, line {line}, in body)")


async def test_what_fails_among_several_tasks_says_it_for_itself() -> None:
    """3.1: an exception group is nobody's finding."""

    async def body(_: Bed) -> None:
        async def fail(name: str) -> None:
            raise CheckFailed(name, "nothing")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, "one")

    assert await outcome(made(body)) == ("failed", "expected: one\nseen:     nothing")


async def test_a_refusal_of_another_kind_is_a_failure() -> None:
    """3.1: the right error, or it is a finding."""

    async def other(bed: Bed) -> None:
        ref = await bed.started()
        await bed.refused(NotFoundError, bed.adapter.stop(await bed.weak(ref)), "a weak ref", ref)

    async def none(bed: Bed) -> None:
        ref = await bed.started()
        await bed.refused(NotFoundError, bed.adapter.get(ref), "an object that is there", ref)

    (_, first), (_, second) = [await outcome(made(body), KUBEFLOW) for body in (other, none)]
    assert first.splitlines()[0] == "expected: NotFoundError for a weak ref"
    assert first.splitlines()[1].startswith("seen:     InvalidError(")
    assert second.splitlines()[:2] == ["expected: NotFoundError for an object that is there", "seen:     no error"]


async def test_a_watch_that_tells_nothing_does_not_hang_the_suite() -> None:
    """3.2: in no more than `Timings.wait`."""

    async def body(bed: Bed) -> None:
        async with bed.watcher.watch() as watch:
            await next_of(bed, watch)

    expected = "expected: something told, or the watch's end\nseen:     nothing in 0:02:00"
    assert await outcome(made(body)) == ("failed", expected)


class Broken(Harness):
    """A harness whose cluster does not come up."""

    traits = SLURM.traits

    def cluster(self) -> AbstractAsyncContextManager[Cluster]:
        raise OSError("no cluster")


async def test_a_cluster_that_does_not_come_up_is_a_failure() -> None:
    """A run never raises: the report says what went wrong."""
    kind, message = await outcome(made(nothing), Broken())
    assert (kind, message.splitlines()[1].partition(" (")[0]) == ("failed", "seen:     OSError('no cluster')")


class Narrow:
    """An adapter with the calls that every adapter has, which says that it can do all that a Slurm can."""

    def __init__(self, backend: Backend) -> None:
        for call in ("capabilities", "start", "open", "get", "find", "stop", "aclose"):
            setattr(self, call, getattr(backend, call))


class NarrowHarness(MemoryHarness):
    """A harness of such an adapter."""

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[MemoryCluster]:
        async with super().cluster() as cluster:
            cluster.adapter = Narrow(cluster.backend)  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
            yield cluster


@pytest.mark.parametrize("capability", ["Hold", "Requeue", "Watch", "Cessation"])
async def test_a_declared_capability_without_its_interface_is_a_failure(capability: str) -> None:
    """3.1: who says that it can must offer the calls: that is not skipped."""
    interface = {"Hold": "Holder", "Requeue": "Requeuer", "Watch": "Watcher", "Cessation": "CessationSignal"}
    message = (
        f"expected: an adapter that declares {capability} is a {interface[capability]}\nseen:     it is none: 'Narrow'"
    )
    assert await outcome(made(nothing, Capability(capability)), NarrowHarness(Config())) == ("failed", message)
    honest = NarrowHarness(settings(Shape.SLURM, *OWN[Shape.SLURM]))
    reason = f"capability {capability} is not declared"
    assert await outcome(made(nothing, Capability(capability)), honest) == ("skipped", reason)


async def test_an_adapter_without_any_optional_interface_passes() -> None:
    """1.3: all but the calls of Adapter is optional."""
    report = await run_backend(NarrowHarness(settings(Shape.SLURM, *OWN[Shape.SLURM])))
    assert [result for result in report.results if result.outcome == "failed"] == []
    assert report.ok


async def test_some_checks_can_be_selected_and_are_told_as_they_come() -> None:
    """3.3: the report is of those alone, in the suite's order."""
    seen: list[Result] = []
    report = await run_backend(SLURM, select=lambda one: one.id.startswith("requeue."), each=seen.append)
    assert [result.check for result in report.results] == [one.id for one in BACKEND if one.id.startswith("requeue.")]
    assert tuple(seen) == report.results
    assert (report.suite, report.harness) == (f"backend suite {SUITE_VERSION}", "memory (slurm)")


def result(name: str, outcome: Outcome, message: str = "") -> Result:
    return Result(check=name, sentence="It holds.", rules=("SL-1", "KF-1"), outcome=outcome, message=message)


RESULTS = (
    result("a.one", "passed"),
    result("a.longer", "failed", "expected: 1\nseen:     2"),
    result("b.two", "skipped", "no run"),
)


def test_a_report_prints_as_a_table() -> None:
    """3.3: a line a check, what is to be said of it below it, and the count."""
    assert str(Report(suite="suite 1", harness="mine", results=RESULTS)) == (
        "suite 1 on mine\n"
        "passed   a.one     It holds. (SL-1, KF-1)\n"
        "failed   a.longer  It holds. (SL-1, KF-1)\n"
        "         expected: 1\n"
        "         seen:     2\n"
        "skipped  b.two     It holds. (SL-1, KF-1)\n"
        "         no run\n"
        "1 passed, 1 failed, 1 skipped"
    )
    assert str(Report(suite="suite 1", harness="mine", results=())) == "suite 1 on mine\n0 passed, 0 failed, 0 skipped"


def test_a_report_encodes_as_json() -> None:
    """3.3: all that it holds, by the names of its fields."""
    decoded = json.loads(Report(suite="suite 1", harness="mine", results=RESULTS).to_json())
    assert (decoded["suite"], decoded["harness"]) == ("suite 1", "mine")
    assert decoded["results"][1] == {
        "check": "a.longer",
        "sentence": "It holds.",
        "rules": ["SL-1", "KF-1"],
        "outcome": "failed",
        "message": "expected: 1\nseen:     2",
    }


@pytest.mark.parametrize(("kept", "ok"), [((0, 2), True), ((0, 1, 2), False), ((2,), False), ((), False)])
def test_a_report_is_good_if_something_passed_and_nothing_failed(kept: tuple[int, ...], ok: bool) -> None:
    """3.1: a suite of which all was skipped has shown nothing."""
    report = Report(suite="suite 1", harness="mine", results=tuple(RESULTS[index] for index in kept))
    assert report.ok is ok
    assert report.counts.total() == len(kept)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_pytest_face_says_what_failed_and_what_was_skipped(loop: str) -> None:
    """3.3: with the rules, the sentence, and the reason."""

    async def wrong(_: Bed) -> None:
        raise CheckFailed("one", "two")

    async def skip(_: Bed) -> None:
        raise CheckSkipped("not here")

    face = BackendConformance()
    with pytest.raises(pytest.fail.Exception) as failed:
        face.test_backend(made(wrong), loop, SLURM)
    assert failed.value.msg == "test.it-holds (SL-1, KF-1): It holds.\nexpected: one\nseen:     two"
    with pytest.raises(pytest.skip.Exception, match="not here"):
        face.test_backend(made(skip), loop, SLURM)
    face.test_backend(made(nothing), loop, SLURM)


def test_the_driver_has_a_method_for_each_ability() -> None:
    """3.2: the signatures are those of the memory adapter's environment."""
    for ability in ABILITIES:
        own, envs = (signature(getattr(kind, ability)) for kind in (Driver, Env))
        assert list(own.parameters.values()) == list(envs.parameters.values()), ability
