"""Config (2.1): defaults, ranges, what is taken in place of a value, and the capabilities that come of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from dispatch_memory_async import (
    Action,
    Backend,
    CallMeta,
    Capability,
    Cause,
    Cessation,
    Config,
    InvalidError,
    Shape,
    Source,
    State,
    Support,
    Tristate,
    UnsupportedError,
)
from tests.support import FAR, Clock, backend, job

DURATIONS = ("min_job_age", "slurmd_timeout", "evidence_window", "kill_wait", "call_bound")
LONGEST = timedelta(microseconds=9_223_372_036_854_775)  # what Go's 64 bits of nanoseconds hold
YES, NO, UNKNOWN = ({"value": word} for word in ("yes", "no", "unknown"))


def test_defaults() -> None:
    """2.1: Slurm's own: 67,043,328 ids, five minutes, 25 seconds, 64 changes."""
    config = Config()
    assert config.shape is Shape.SLURM
    assert config.max_job_id == 67_043_328
    assert config.min_job_age == config.slurmd_timeout == config.evidence_window == timedelta(minutes=5)
    assert config.kill_wait == timedelta(0)
    assert config.call_bound == timedelta(seconds=25)
    assert config.watch_buffer == 64
    assert config.capabilities == {}
    assert config.rules == config.native == {}
    assert config.cessation == Cessation(ceased=False, detail="")


@pytest.mark.parametrize(
    ("field", "inside", "outside"),
    [
        ("max_job_id", (1, 67_108_863), (0, 67_108_864)),
        ("watch_buffer", (1, 10**9), (0, -1)),
        *(
            (name, (timedelta(0), LONGEST), (timedelta(microseconds=-1), LONGEST + timedelta(microseconds=1)))
            for name in DURATIONS
        ),
        *((name, (timedelta(seconds=1),), (timedelta.min, timedelta.max)) for name in DURATIONS),
    ],
)
def test_ranges(field: str, inside: tuple[Any, ...], outside: tuple[Any, ...]) -> None:
    """2.1: both ends belong to the range; a length of time must fit the settings' Go text."""
    for value in inside:
        assert getattr(Config(**{field: value}), field) == value
    for value in outside:
        with pytest.raises(InvalidError, match=rf"Config\.{field}"):
            Config(**{field: value})


def test_plain_texts_and_mappings_are_taken() -> None:
    """2.1: where an enum, where a value is meant; what is kept is the enum, the value."""
    plain: Any = {
        "shape": "kubeflow",
        "capabilities": {"AccountingHistory": {"value": "yes", "source": "probed"}},
        "rules": {"restart": {"value": "unknown", "detail": "d"}},
        "native": {"fail": NO},
        "cessation": {"ceased": True, "detail": "fenced"},
    }
    config = Config(**plain)
    assert config == Config(
        shape=Shape.KUBEFLOW,
        capabilities={Capability.ACCOUNTING_HISTORY: Support(value=Tristate.YES, source=Source.PROBED)},
        rules={Action.RESTART: Support(value=Tristate.UNKNOWN, detail="d")},
        native={Action.FAIL: Support(value=Tristate.NO)},
        cessation=Cessation(ceased=True, detail="fenced"),
    )
    assert config.shape is Shape.KUBEFLOW
    assert {type(key) for mapping in (config.rules, config.native) for key in mapping} == {Action}
    assert {type(key) for key in config.capabilities} == {Capability}
    assert config.rules[Action.RESTART].source is Source.CONFIGURED


@pytest.mark.parametrize(
    ("rules", "native", "refused"),
    [
        ({}, {"restart": YES}, "restart"),
        ({"restart": NO}, {"restart": YES}, "restart"),
        ({"restart": UNKNOWN}, {"restart": YES}, "restart"),
        ({"hold": YES, "fail": YES}, {"restart": YES}, "restart"),
        ({"restart": YES}, {"restart": YES, "hold": YES}, "hold"),
        ({"restart": YES}, {"restart": YES}, None),
        ({"restart": YES, "hold": YES, "fail": YES}, {"restart": YES, "hold": YES, "fail": YES}, None),
        ({}, {"restart": NO}, None),
        ({}, {"restart": UNKNOWN}, None),
        ({"restart": NO}, {"restart": NO}, None),
        ({"restart": YES}, {}, None),
    ],
)
def test_a_native_yes_needs_a_yes_in_rules_as_given(rules: Any, native: Any, refused: str | None) -> None:
    """2.1: an absent entry is not a yes, though `capabilities()` would show one."""
    if refused:
        with pytest.raises(InvalidError, match=rf"Config\.native.*{refused}"):
            Config(rules=rules, native=native)
    else:
        assert set(Config(rules=rules, native=native).native) == set(native)


# What the backend is made of


@pytest.mark.parametrize("found", [{}, "slurm", Shape.SLURM, Config, 1, b"{}", object()], ids=type)
def test_a_backend_takes_a_config_and_nothing_like_it(found: Any) -> None:
    """2, 1.2: also no mapping; that is for the registry."""
    with pytest.raises(InvalidError, match="config"):
        Backend(found)


@pytest.mark.parametrize("found", [None, 1, "now", datetime(2026, 1, 1), object()], ids=type)  # noqa: DTZ001
def test_a_clock_can_be_called(found: Any) -> None:
    """2, 1.2."""
    with pytest.raises(InvalidError, match="clock"):
        Backend(clock=found)


@pytest.mark.parametrize("found", [-1, True, 1.5, "1", 10.0, object()], ids=repr)
def test_keep_history_is_a_count(found: Any) -> None:
    """2.7, 1.2."""
    with pytest.raises(InvalidError, match="keep_history"):
        Backend(keep_history=found)
    assert Backend(keep_history=0).config == Config()


@pytest.mark.parametrize("found", [None, 0, 1, "yes", object()], ids=repr)
def test_a_view_is_read_only_or_not(found: Any) -> None:
    """2.7, 1.2."""
    with pytest.raises(InvalidError, match="read_only"):
        Backend().view(found)


# Capabilities

OWN: dict[Shape, set[str]] = {
    Shape.SLURM: {"GatedStart", "Hold", "Requeue", "Watch", "Cessation"},
    Shape.KUBEFLOW: {"Hold", "HoldRunning", "Watch", "Cessation"},
}


def declared(yes: bool) -> Support:
    return Support(value=Tristate.YES if yes else Tristate.NO, source=Source.DECLARED)


async def test_the_capabilities_of_a_shape(shape: Shape, clock: Clock) -> None:
    """2.1: every capability is told, source `declared`; rules all yes, native all no."""
    seen = await backend(shape, clock).capabilities()
    assert seen.support == {capability: declared(capability.value in OWN[shape]) for capability in Capability}
    assert seen.rules == dict.fromkeys(Action, declared(True))
    assert seen.native == dict.fromkeys(Action, declared(False))
    assert seen.call_bound == timedelta(seconds=25)


async def test_overrides_are_merged_over_them(shape: Shape, clock: Clock) -> None:
    """2.1: an override replaces its entry whole, the others stay."""
    b = backend(
        shape,
        clock,
        capabilities={"Output": {"value": "unknown", "source": "assumed"}, "Hold": NO},
        rules={"restart": YES, "fail": {"value": "no", "detail": "not here"}},
        native={"restart": YES},
        call_bound=timedelta(seconds=1),
    )
    for client in (b, b.view(), b.view(read_only=True)):
        seen = await client.capabilities()
        assert seen.support == {
            **{capability: declared(capability.value in OWN[shape]) for capability in Capability},
            Capability.OUTPUT: Support(value=Tristate.UNKNOWN, source=Source.ASSUMED),
            Capability.HOLD: Support(value=Tristate.NO, source=Source.CONFIGURED),
        }
        assert seen.rules == {
            Action.RESTART: Support(value=Tristate.YES, source=Source.CONFIGURED),
            Action.HOLD: declared(True),
            Action.FAIL: Support(value=Tristate.NO, source=Source.CONFIGURED, detail="not here"),
        }
        assert seen.native == {
            **dict.fromkeys(Action, declared(False)),
            Action.RESTART: Support(value=Tristate.YES, source=Source.CONFIGURED),
        }
        assert seen.call_bound == timedelta(seconds=1)


async def test_saying_no_changes_nothing_that_slurm_does(clock: Clock) -> None:
    """2.1: of the capabilities only `AccountingHistory` changes what the adapter does."""
    no: Any = dict.fromkeys(Capability, NO)
    b = backend(Shape.SLURM, clock, capabilities=no)
    ref = await b.start(job(), 1)
    assert (await b.get(ref)).cause is Cause.GATED
    await b.stop(ref)
    await b.requeue(ref, CallMeta(deadline=FAR))
    seen = await b.get(await b.weaken_identity(ref))
    assert (seen.state, seen.cause) == (State.PENDING, Cause.REQUEUED)
    assert (await b.cessation(ref)).ceased
    async with b.watch() as watch:
        assert (await anext(watch)).ref == ref


async def test_saying_yes_changes_nothing_that_kubeflow_does(clock: Clock) -> None:
    """2.1, KF-8, ruling 21: no gate, no requeue, and what was deleted stays not found."""
    yes: Any = dict.fromkeys(Capability, YES)
    b = backend(Shape.KUBEFLOW, clock, capabilities=yes)
    ref = await b.start(job(), 1)
    assert not (await b.get(ref)).gated
    with pytest.raises(UnsupportedError):
        await b.requeue(ref, CallMeta(deadline=FAR))
    await b.stop(ref)
    assert await b.find(job().id) == ()
