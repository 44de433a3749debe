"""Native policies: what is said to be covered the scheduler carries out itself, and it carries out nothing else."""

from datetime import timedelta

from ...model import (
    Action,
    Cause,
    NativePolicy,
    Policy,
    Ref,
    Rule,
    State,
    Tristate,
    UnmatchedPolicy,
)
from ...spi import NativePolicyCompiler
from ..bed import Bed
from ..checks import check
from ..harness import Preemption

__all__ = ("CHECKS",)

COMPILES = (NativePolicyCompiler,)
AN_HOUR = timedelta(hours=1)
INTERRUPTIONS = (Cause.PREEMPTED, Cause.NODE_LOST)
FAILURES = (Cause.NON_ZERO_EXIT, Cause.OUT_OF_MEMORY)


def on(*causes: Cause, do: Action = Action.RESTART, limit: int | None = None, backoff: timedelta | None = None) -> Rule:
    """A rule; a restart without limit, unless said otherwise."""
    return Rule(causes=frozenset(causes), action=do, limit=limit, backoff=backoff or timedelta(0))


POLICIES = (
    Policy(),
    Policy((), UnmatchedPolicy.FAIL),
    Policy((on(*INTERRUPTIONS),)),
    Policy((on(*INTERRUPTIONS),), UnmatchedPolicy.FAIL),
    Policy((on(Cause.PREEMPTED), on(Cause.TIMEOUT, do=Action.FAIL), on(Cause.NODE_LOST))),
    Policy((on(Cause.PREEMPTED),)),
    Policy((on(Cause.NODE_LOST),)),
    Policy((on(Cause.PREEMPTED, do=Action.FAIL), on(*INTERRUPTIONS))),
    Policy((on(Cause.PREEMPTED, Cause.NON_ZERO_EXIT, do=Action.HOLD), on(Cause.PREEMPTED), on(Cause.NODE_LOST))),
    Policy((on(*FAILURES, limit=3),)),
    Policy((on(*FAILURES, limit=0),)),
    Policy((on(Cause.NON_ZERO_EXIT, limit=1), on(*FAILURES, limit=3))),
    Policy((on(Cause.OUT_OF_MEMORY, do=Action.FAIL), on(*FAILURES, limit=3), on(*FAILURES, limit=2))),
    Policy((on(*INTERRUPTIONS), on(*FAILURES, limit=3), on(Cause.TIMEOUT, do=Action.HOLD)), UnmatchedPolicy.FAIL),
    Policy((on(*FAILURES, limit=3), on(), on(*INTERRUPTIONS), on(*Cause, do=Action.FAIL))),
    *(Policy((on(*Cause, do=action),)) for action in Action),
)
"""What there is to divide; whether any of it is covered is for the adapter to say."""


async def compiled(bed: Bed) -> list[tuple[Policy, NativePolicy]]:
    """Every policy, and what the adapter makes of it."""
    return [(policy, await bed.compiler.compile_policy(policy)) for policy in POLICIES]


def uncovered(policy: Policy, native: NativePolicy) -> tuple[Rule, ...]:
    """The rules that are not covered, in order."""
    return tuple(rule for index, rule in enumerate(policy.rules) if index not in native.covered)


# how a policy is divided


@check(
    "native.covered-rules-exist",
    "The covered indexes are those of rules, each once, in order.",
    rules="NP-1 1.1",
    needs=COMPILES,
)
async def covered_rules_exist(bed: Bed) -> None:
    for policy, native in await compiled(bed):
        indexes = sorted(set(native.covered) & set(range(len(policy.rules))))
        bed.expect(list(native.covered) == indexes, f"indexes of {policy}, in order", native)


@check(
    "native.rest-is-what-is-not-covered",
    "What is handed back are the rules that are not covered, in order, and what holds where no rule does.",
    rules="NP-1 1.1",
    needs=COMPILES,
)
async def rest_is_what_is_not_covered(bed: Bed) -> None:
    for policy, native in await compiled(bed):
        expected = Policy(uncovered(policy, native), policy.unmatched)
        bed.expect(native.rest == expected, f"rest={expected}", native)


@check(
    "native.needs-the-action",
    "No rule is covered whose action the scheduler is not said to carry out itself.",
    rules="NP-1",
    needs=COMPILES,
)
async def needs_the_action(bed: Bed) -> None:
    native_support = bed.capabilities.native
    able = {action for action, support in native_support.items() if support.value is Tristate.YES}
    for policy, native in await compiled(bed):
        actions = {policy.rules[index].action for index in native.covered}
        bed.expect(actions <= able, f"only rules that say {', '.join(sorted(able)) or 'nothing'} of {policy}", native)


@check(
    "native.earlier-rules-come-first",
    "No rule is covered of which an earlier rule names a cause, as that one applies.",
    rules="NP-1",
    needs=COMPILES,
)
async def earlier_rules_come_first(bed: Bed) -> None:
    for policy, native in await compiled(bed):
        for index in native.covered:
            earlier = {cause for rule in policy.rules[:index] for cause in rule.causes}
            taken = earlier & policy.rules[index].causes
            bed.expect(not taken, f"rule {index} not covered, as an earlier one names {taken}: {policy}", native)


# what becomes of it


@check(
    "native.compiled-is-accepted",
    "A start is given what was compiled, and makes an object as any other start does.",
    rules="NP-1 1.3",
    needs=COMPILES,
)
async def compiled_is_accepted(bed: Bed) -> None:
    plain = await bed.get(await bed.started())
    different = {frozenset(native.settings.items()): native for _, native in await compiled(bed)}
    for native in different.values():
        ref = await bed.adapter.start(bed.job(), 1, native=native)
        await bed.see(ref, state=plain.state, cause=plain.cause, gated=plain.gated, hold=None, restarts=0)


async def running(bed: Bed, *rules: Rule) -> tuple[Ref, bool]:
    """An object that runs under these rules, and whether all of them are covered; then the scheduler acts by them."""
    native = await bed.compiler.compile_policy(Policy(rules))
    ref = await bed.adapter.start(bed.job(), 1, native=native)
    await bed.adapter.open(ref)
    await bed.driver.run(ref)
    await bed.see(ref, state=State.RUNNING)
    return ref, len(native.covered) == len(rules)


async def ends_or_waits(bed: Bed, ref: Ref, *, covered: bool) -> None:
    """See that a preempted object waits again if a rule says so, else that it is what the traits say."""
    await bed.driver.preempt(ref)
    if covered or bed.traits.preemption is Preemption.WAITING:
        await bed.see(ref, state=State.PENDING, gated=False)
    else:
        await bed.see(ref, state=State.FAILED, cause=Cause.PREEMPTED)


async def restarted(bed: Bed, ref: Ref, times: int) -> Ref:
    """Wait until the scheduler has restarted an object that often, and see it run."""
    seen = await bed.see(ref, restarts=times, ended_at=None)
    if seen.state is State.PENDING:
        await bed.driver.run(seen.ref)
    return (await bed.see(ref, state=State.RUNNING, restarts=times)).ref


@check(
    "native.preemption-is-carried-out",
    "If a restart at a preemption is covered, a preempted object waits again without us, each time; else it does not.",
    rules="NP-2 SL-10",
    needs=(*COMPILES, "run", "preempt"),
)
async def preemption_is_carried_out(bed: Bed) -> None:
    ref, covered = await running(bed, on(*INTERRUPTIONS))
    await ends_or_waits(bed, ref, covered=covered)
    if covered:
        seen = await bed.get(ref)
        await bed.driver.run(seen.ref)
        await bed.see(ref, state=State.RUNNING)
        await ends_or_waits(bed, seen.ref, covered=True)


@check(
    "native.node-loss-is-carried-out",
    "If a restart at a node loss is covered, the object waits again once the loss shows; else it does not.",
    rules="NP-2 SL-11",
    needs=(*COMPILES, "run", "lose_node"),
)
async def node_loss_is_carried_out(bed: Bed) -> None:
    ref, covered = await running(bed, on(*INTERRUPTIONS))
    await bed.driver.lose_node(ref)
    await bed.cluster.advance(bed.traits.node_timeout)
    if covered:
        await bed.see(ref, state=State.PENDING, gated=False)
    else:
        await bed.shows_the_loss(ref)


@check(
    "native.failures-are-restarted",
    "If a restart of failed runs is covered, they are restarted up to its limit and no further; else not at all.",
    rules="NP-3 KF-11",
    needs=(*COMPILES, "run", "finish", "out_of_memory"),
)
async def failures_are_restarted(bed: Bed) -> None:
    ref, covered = await running(bed, on(*FAILURES, limit=2))
    if covered:
        await bed.driver.finish(ref, 3)
        ref = await restarted(bed, ref, 1)
        await bed.driver.out_of_memory(ref)
        ref = await restarted(bed, ref, 2)
    await bed.driver.finish(ref, 4)
    cause = bed.readable(Cause.NON_ZERO_EXIT)
    await bed.see(ref, state=State.FAILED, cause=cause, restarts=2 if covered else 0)


@check(
    "native.success-is-no-failure",
    "An object whose failures are to be restarted ends when it succeeds.",
    rules="NP-3 KF-11",
    needs=(*COMPILES, "run", "finish"),
)
async def success_is_no_failure(bed: Bed) -> None:
    ref, covered = await running(bed, on(*FAILURES, limit=2))
    if covered:
        await bed.driver.finish(ref, 3)
        ref = await restarted(bed, ref, 1)
    await bed.driver.finish(ref, 0)
    await bed.see(ref, state=State.SUCCEEDED, cause=None, exit_code=0)


# and nothing else


@check(
    "native.limit-is-kept",
    "If a restart with a limit at a preemption is covered, the limit is kept.",
    rules="NP-2",
    needs=(*COMPILES, "run", "preempt"),
)
async def limit_is_kept(bed: Bed) -> None:
    ref, covered = await running(bed, on(*INTERRUPTIONS, limit=1))
    await ends_or_waits(bed, ref, covered=covered)
    if covered:
        seen = await bed.get(ref)
        await bed.driver.run(seen.ref)
        await bed.see(ref, state=State.RUNNING)
        await ends_or_waits(bed, seen.ref, covered=False)


@check(
    "native.backoff-of-a-preemption-is-kept",
    "If a restart at a preemption after a while is covered, the object does not run again at once.",
    rules="NP-2",
    needs=(*COMPILES, "run", "preempt"),
)
async def backoff_of_a_preemption_is_kept(bed: Bed) -> None:
    ref, covered = await running(bed, on(*INTERRUPTIONS, backoff=AN_HOUR))
    await ends_or_waits(bed, ref, covered=covered)
    if covered:
        await bed.not_run(ref)


@check(
    "native.backoff-of-a-failure-is-kept",
    "If a restart of failed runs after a while is covered, the object does not run again at once.",
    rules="NP-3",
    needs=(*COMPILES, "run", "finish"),
)
async def backoff_of_a_failure_is_kept(bed: Bed) -> None:
    ref, covered = await running(bed, on(*FAILURES, limit=2, backoff=AN_HOUR))
    await bed.driver.finish(ref, 3)
    if covered:
        await bed.see(ref, state=State.PENDING)
        await bed.not_run(ref)
    else:
        await bed.see(ref, state=State.FAILED, cause=bed.readable(Cause.NON_ZERO_EXIT))


@check(
    "native.other-failures-are-not-restarted",
    "A failure that no rule names is not restarted, whatever is covered.",
    rules="NP-3 KF-11",
    needs=(*COMPILES, "run", "out_of_memory", "time_out"),
)
async def other_failures_are_not_restarted(bed: Bed) -> None:
    ref, _ = await running(bed, on(Cause.NON_ZERO_EXIT, limit=2))
    await bed.driver.out_of_memory(ref)
    await bed.see(ref, state=State.FAILED, cause=bed.readable(Cause.OUT_OF_MEMORY), restarts=0)
    ref, _ = await running(bed, on(*FAILURES, limit=2))
    await bed.driver.time_out(ref)
    await bed.see(ref, state=State.FAILED, cause=Cause.TIMEOUT, restarts=0)


@check(
    "native.preemption-alone-covers-no-node-loss",
    "A node loss that no rule names puts nothing back to wait, whatever is covered.",
    rules="NP-2",
    needs=(*COMPILES, "run", "lose_node"),
)
async def preemption_alone_covers_no_node_loss(bed: Bed) -> None:
    ref, _ = await running(bed, on(Cause.PREEMPTED))
    await bed.lost(ref)


@check(
    "native.node-loss-alone-covers-no-preemption",
    "A preemption that no rule names is what the traits say, whatever is covered.",
    rules="NP-2",
    needs=(*COMPILES, "run", "preempt"),
)
async def node_loss_alone_covers_no_preemption(bed: Bed) -> None:
    ref, _ = await running(bed, on(Cause.NODE_LOST))
    await ends_or_waits(bed, ref, covered=False)


CHECKS = (
    covered_rules_exist,
    rest_is_what_is_not_covered,
    needs_the_action,
    earlier_rules_come_first,
    compiled_is_accepted,
    preemption_is_carried_out,
    node_loss_is_carried_out,
    failures_are_restarted,
    success_is_no_failure,
    limit_is_kept,
    backoff_of_a_preemption_is_kept,
    backoff_of_a_failure_is_kept,
    other_failures_are_not_restarted,
    preemption_alone_covers_no_node_loss,
    node_loss_alone_covers_no_preemption,
)
