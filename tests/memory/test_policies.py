"""Native policies (2.8): what is compiled, what is handed back, and what an object started with it does."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_memory_async import (
    Action,
    Backend,
    CallMeta,
    Cause,
    InvalidError,
    NativePolicy,
    Policy,
    Rule,
    Shape,
    State,
    UnmatchedPolicy,
)
from tests.model.samples import POLICIES, PROPERTY
from tests.support import FAR, Clock, backend, job

P, N, T, O, X = Cause.PREEMPTED, Cause.NODE_LOST, Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.NON_ZERO_EXIT  # noqa: E741
YES: Mapping[str, object] = {"value": "yes"}
ALL: Mapping[str, Mapping[str, object]] = {"restart": YES, "hold": YES, "fail": YES}


def restart(*causes: Cause, limit: int | None = None, backoff: float = 0) -> Rule:
    return Rule(causes=frozenset(causes), action=Action.RESTART, limit=limit, backoff=timedelta(seconds=backoff))


def other(action: Action, *causes: Cause) -> Rule:
    return Rule(causes=frozenset(causes), action=action)


def native(shape: Shape, **settings: object) -> Backend:
    """A backend whose cluster carries out every action itself."""
    return backend(shape, Clock(), **{"rules": ALL, "native": ALL, **settings})


async def compiled(b: Backend, *rules: Rule, unmatched: UnmatchedPolicy = UnmatchedPolicy.HOLD) -> NativePolicy:
    policy = Policy(rules, unmatched)
    found = await b.compile_policy(policy)
    assert found.rest.unmatched is unmatched
    assert found.rest.rules == tuple(rule for index, rule in enumerate(rules) if index not in found.covered)
    assert bool(found.settings) is bool(found.covered)
    return found


BOTH, SPLIT = (restart(P, N),), (restart(P), restart(N))
SLURM: dict[str, tuple[tuple[Rule, ...], tuple[int, ...]]] = {  # the rules, and the indexes of the covered ones
    "one rule names both": (BOTH, (0,)),
    "two rules name one each": (SPLIT, (0, 1)),
    "in the other order": ((restart(N), restart(P)), (0, 1)),
    "ruling 26: rules for other causes do not spoil it": ((restart(T), *BOTH, restart(O)), (1,)),
    "ruling 26: nor such with a limit or a backoff": (
        (restart(T, limit=2), restart(P), restart(X, backoff=5), restart(N)),
        (1, 3),
    ),
    "nor other actions for other causes": ((other(Action.FAIL, T), *SPLIT, other(Action.HOLD, O)), (1, 2)),
    "a rule that names them again stays": ((*BOTH, restart(P)), (0,)),
    "one of the two alone": ((restart(P),), ()),
    "the other alone": ((restart(N),), ()),
    "a third cause beside them": ((restart(P, N, T),), ()),
    "a third cause beside one of them": ((restart(P, T), restart(N)), ()),
    "a limit": ((restart(P, N, limit=3),), ()),
    "a limit of none at all": ((restart(P, N, limit=0),), ()),
    "a limit on one of them": ((restart(P), restart(N, limit=3)), ()),
    "a backoff": ((restart(P, N, backoff=1),), ()),
    "a backoff on one of them": ((restart(P, backoff=0.000001), restart(N)), ()),
    "another action": ((other(Action.HOLD, P, N),), ()),
    "another action on one of them": ((restart(P), other(Action.FAIL, N)), ()),
    "an earlier rule names one of them": ((other(Action.FAIL, P, T), restart(P, N)), ()),
    "an earlier rule names it with a limit": ((restart(P, limit=1), restart(P, N)), ()),
    "an earlier rule names the other": ((restart(P), other(Action.HOLD, N), restart(N)), ()),
    "no rules": ((), ()),
    "none that fits": ((restart(T), other(Action.FAIL, X)), ()),
    "what Kubeflow would take": ((restart(X, O, limit=3),), ()),
}


@pytest.mark.parametrize("case", SLURM)
async def test_slurm_has_one_bit_without_limit(case: str) -> None:
    """NP-1, NP-2, ruling 26: `{"requeue": "1"}`, or nothing."""
    rules, covered = SLURM[case]
    found = await compiled(native(Shape.SLURM), *rules, unmatched=UnmatchedPolicy.FAIL)
    assert found.covered == covered
    assert found.settings == ({"requeue": "1"} if covered else {})


KUBEFLOW: dict[str, tuple[tuple[Rule, ...], int | None]] = {  # the rules, and the index of the covered one
    "exactly the two causes, with a limit": ((restart(X, O, limit=3),), 0),
    "among others": ((restart(T, limit=1), other(Action.FAIL, P), restart(X, O, limit=3), restart(N)), 2),
    "the first of two": ((restart(X, O, limit=3), restart(X, O, limit=4)), 0),
    "no limit": ((restart(X, O),), None),
    "a backoff": ((restart(X, O, limit=3, backoff=1),), None),
    "one cause less": ((restart(X, limit=3),), None),
    "the other cause less": ((restart(O, limit=3),), None),
    "one cause more": ((restart(X, O, T, limit=3),), None),
    "two rules name one each": ((restart(X, limit=3), restart(O, limit=3)), None),
    "another action": ((Rule(causes=frozenset({X, O}), action=Action.HOLD, limit=3),), None),
    "an earlier rule names one of them": ((other(Action.FAIL, X), restart(X, O, limit=3)), None),
    "an earlier rule names it without a limit": ((restart(X, O), restart(X, O, limit=3)), None),
    "no rules": ((), None),
    "what Slurm would take": (BOTH, None),
}


@pytest.mark.parametrize("case", KUBEFLOW)
async def test_kubeflow_restarts_failed_pods_up_to_a_count(case: str) -> None:
    """NP-1, NP-3: `{"maxRestarts": "<limit>"}`, or nothing."""
    rules, covered = KUBEFLOW[case]
    found = await compiled(native(Shape.KUBEFLOW), *rules)
    assert found.covered == (() if covered is None else (covered,))
    assert found.settings == ({} if covered is None else {"maxRestarts": "3"})


FITTING: dict[Shape, tuple[Rule, ...]] = {Shape.SLURM: BOTH, Shape.KUBEFLOW: (restart(X, O, limit=3),)}


@pytest.mark.parametrize("word", [None, "no", "unknown"])
async def test_an_action_that_is_not_native_is_not_compiled(shape: Shape, word: str | None) -> None:
    """NP-1: only a yes in `native` is one; by default there is none."""
    said: dict[str, object] = {"hold": YES, "fail": YES}
    b = native(shape, native=said if word is None else {**said, "restart": {"value": word}})
    found = await compiled(b, *FITTING[shape])
    assert (found.settings, found.covered) == ({}, ())
    found = await compiled(backend(shape, Clock()), *FITTING[shape])
    assert (found.settings, found.covered) == ({}, ())


@pytest.mark.parametrize("which", list(Shape))
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(policy=POLICIES)
@PROPERTY
def test_nothing_is_lost_between_the_two(which: Shape, loop: str, policy: Policy) -> None:
    """2.8: each rule is either covered or in the rest, which keeps its order and its unmatched part."""

    async def check() -> None:
        found = await compiled(native(which), *policy.rules, unmatched=policy.unmatched)
        named: set[Cause] = set()
        for index, rule in enumerate(policy.rules):
            if index in found.covered:
                assert rule.action is Action.RESTART
                assert not rule.backoff
                assert not rule.causes & named
                assert (rule.limit is None) is (which is Shape.SLURM)
            named |= rule.causes
        assert list(found.covered) == sorted(set(found.covered))

    anyio.run(check, backend=loop)


# Objects that were started with one


async def test_a_slurm_object_has_its_bit_from_the_start() -> None:
    """NP-2, SL-10: so that the scheduler requeues it on its own authority; without one it fails."""
    b = native(Shape.SLURM)
    policy = await b.compile_policy(Policy(BOTH))
    ref = await b.start(job(1), 1, native=policy)
    bare = await b.start(job(2), 1, native=await b.compile_policy(Policy()))
    assert (await b.get(ref)).requeue_bit is True
    assert (await b.get(bare)).requeue_bit is False
    for each in (ref, bare):
        await b.open(each)
        await b.env.run(each)
        await b.env.preempt(each)
    seen = await b.get(await b.weaken_identity(ref))
    assert (seen.state, seen.cause, seen.requeue_bit) == (State.PENDING, Cause.REQUEUED, True)
    lost = await b.get(bare)
    assert (lost.state, lost.cause) == (State.FAILED, Cause.PREEMPTED)


async def test_restore_clears_the_bit_of_a_policy_too() -> None:
    """NP-2, SL-9."""
    b = native(Shape.SLURM)
    ref = await b.start(job(), 1, native=await b.compile_policy(Policy(BOTH)))
    await b.restore_requeue_bit(ref, CallMeta(deadline=FAR))
    assert (await b.get(ref)).requeue_bit is False


async def test_a_kubeflow_object_restarts_until_its_count_is_used_up() -> None:
    """NP-3, KF-11: at a non-zero exit and out of memory, together; no other end counts."""
    b = native(Shape.KUBEFLOW)
    policy = await b.compile_policy(Policy((restart(X, O, limit=2),)))
    ref = await b.start(job(), 1, native=policy)
    await b.env.run(ref)
    await b.env.finish(ref, 1)
    seen = await b.get(ref)
    assert (seen.state, seen.cause, seen.restarts, seen.exit_code) == (State.RUNNING, None, 1, None)
    await b.env.out_of_memory(ref)
    assert (await b.get(ref)).restarts == 2
    await b.env.finish(ref, 3)
    seen = await b.get(ref)
    assert (seen.state, seen.cause, seen.restarts, seen.exit_code) == (State.FAILED, X, 2, 3)
    truth = await b.env.truth(ref)
    assert [run.epoch for run in truth.executions] == [1_000_000, 1_000_001, 1_000_002]
    assert [run.cause for run in truth.executions] == [X, O, X]


@pytest.mark.parametrize("end", ["time_out", "fail_launch"])
async def test_other_ends_are_not_restarted(end: str) -> None:
    """NP-3: the rule's causes, and no others."""
    b = native(Shape.KUBEFLOW)
    ref = await b.start(job(), 1, native=await b.compile_policy(Policy((restart(X, O, limit=2),))))
    await b.env.run(ref)
    await getattr(b.env, end)(ref)
    assert (await b.get(ref)).state is State.FAILED


@pytest.mark.parametrize("limit", [0, 1, 9, 10**9, 10**10, 2**63 - 1])
async def test_every_limit_that_is_compiled_is_taken(limit: int) -> None:
    """NP-3: `start` takes what `compile_policy` gave."""
    b = native(Shape.KUBEFLOW)
    policy = await b.compile_policy(Policy((restart(X, O, limit=limit),)))
    assert policy.settings == {"maxRestarts": str(limit)}
    ref = await b.start(job(), 1, native=policy)
    await b.env.run(ref)
    await b.env.finish(ref, 1)
    assert (await b.get(ref)).state is (State.RUNNING if limit else State.FAILED)


async def test_a_policy_is_taken_where_native_is_not_yes(shape: Shape) -> None:
    """Ruling 27: what another cluster compiled is no error here, and does what it says."""
    policy = await native(shape).compile_policy(Policy(FITTING[shape]))
    b = backend(shape, Clock())
    ref = await b.start(job(), 1, native=policy)
    await b.open(ref)
    await b.env.run(ref)
    if shape is Shape.SLURM:
        await b.env.preempt(ref)
        assert (await b.get(await b.weaken_identity(ref))).state is State.PENDING
    else:
        await b.env.out_of_memory(ref)
        assert (await b.get(ref)).state is State.RUNNING


MALFORMED: dict[Shape, tuple[dict[str, str], ...]] = {
    Shape.SLURM: (
        {"requeue": "0"},
        {"requeue": ""},
        {"requeue": "yes"},
        {"requeue": "true"},
        {"requeue": " 1"},
        {"requeue": "11"},
        {"Requeue": "1"},
        {"requeue": "1", "nice": "1"},
        {"maxRestarts": "1"},
        {"": ""},
    ),
    Shape.KUBEFLOW: (
        {"maxRestarts": ""},
        {"maxRestarts": "-1"},
        {"maxRestarts": "+1"},
        {"maxRestarts": "1.0"},
        {"maxRestarts": " 1"},
        {"maxRestarts": "1\n"},
        {"maxRestarts": "1_0"},
        {"maxRestarts": "1e3"},
        {"maxRestarts": "0x1"},
        {"maxRestarts": "\u0663"},  # a digit elsewhere
        {"maxRestarts": "\u00b2"},
        {"maxRestarts": "many"},
        {"maxRestarts": "9" * 5000},
        {"maxrestarts": "1"},
        {"maxRestarts": "1", "backoffLimit": "1"},
        {"requeue": "1"},
        {"": ""},
    ),
}


async def test_malformed_settings_are_refused(shape: Shape) -> None:
    """1.3, ruling 27: unknown names and malformed values; nothing is started, no id and no name used up."""
    b = native(shape)
    for settings in MALFORMED[shape]:
        with pytest.raises(InvalidError, match="native"):
            await b.start(job(), 1, native=NativePolicy(settings=settings, covered=(0,), rest=Policy()))
    assert await b.env.objects() == ()
    await b.start(job(), 1, native=NativePolicy(settings={}, covered=(), rest=Policy()))
    assert len(await b.env.objects()) == 1


@pytest.mark.parametrize("which", list(Shape))
@given(settings=st.dictionaries(st.sampled_from(["requeue", "maxRestarts"]) | st.text(), st.text("01 -.x") | st.text()))
@PROPERTY
def test_any_settings_are_taken_or_refused(which: Shape, settings: dict[str, str]) -> None:
    """1.3, 2.8: nothing but `InvalidError` comes out."""

    async def check() -> None:
        b = native(which)
        policy = NativePolicy(settings=settings, covered=(), rest=Policy())
        try:
            await b.start(job(), 1, native=policy)
        except InvalidError:
            assert await b.env.objects() == ()
        else:
            known: Any = {"requeue": "1"} if which is Shape.SLURM else {"maxRestarts": settings.get("maxRestarts")}
            assert settings in ({}, known)

    anyio.run(check)
