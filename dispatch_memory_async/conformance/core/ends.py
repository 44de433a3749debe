"""Ends: what the policy makes of each, and that its cause is kept (CO-8, CO-9)."""

from datetime import timedelta

from ulid import ULID

from ...core import POLICY, Phase, WaitingFor
from ...model import Action, Capability, Cause, Policy, Rule, State, UnmatchedPolicy
from ...spi import Holder, NativePolicyCompiler
from ..checks import Check
from ..findings import CheckSkipped
from ..harness import NodeLoss, Preemption
from .bed import CoreBed, restart
from .checking import core_check

__all__ = ("CHECKS",)


def _rule(action: Action, *causes: Cause) -> Rule:
    return Rule(causes=frozenset(causes), action=action)


async def _counts(bed: CoreBed, job: ULID, *counts: int) -> None:
    """See how often the rules were charged."""
    seen = (await bed.record(job)).counts
    bed.expect(seen == counts, f"charged {counts}", f"charged {seen}")


@core_check(
    "rule.first-that-names-the-cause-decides",
    "The first rule that names the cause decides, whatever those after it say.",
    rules="CO-8",
    needs=("run", "finish"),
)
async def first_that_names_the_cause(bed: CoreBed) -> None:
    cause = bed.readable(Cause.NON_ZERO_EXIT)
    job = await bed.runs(restart(Cause.PREEMPTED), _rule(Action.FAIL, cause), restart())
    await bed.end(job)
    await bed.done(job, State.FAILED, cause)


@core_check(
    "rule.limit-holds-across-crashes",
    "A rule restarts as often as its limit says, however many supervisors die over it; then it counts as unmatched.",
    rules="CO-1 CO-8",
    needs=("run", "finish"),
)
async def limit_holds_across_crashes(bed: CoreBed) -> None:
    job = await bed.runs(restart(limit=2), restart(), unmatched=UnmatchedPolicy.FAIL)
    for _ in range(2):
        await bed.end(job)
        await _dies_over_the_restart(bed, job)
        await bed.free(job)
        await bed.run(job)
    await bed.end(job)
    await bed.done(job, State.FAILED, bed.readable(Cause.NON_ZERO_EXIT))
    await _counts(bed, job, 2, 0)


@core_check(
    "rule.charged-once-an-end",
    "A restart that is tried again, as its call was refused or never landed, is charged once.",
    rules="CO-1 CO-8",
    needs=("run", "finish"),
)
async def charged_once_an_end(bed: CoreBed) -> None:
    job = await bed.runs(restart(limit=1))
    await bed.end(job)
    await _dies_over_the_restart(bed, job)
    for call in ("requeue", "start"):
        bed.one.refuse(call)
    await bed.free(job)
    await _counts(bed, job, 1)


async def _dies_over_the_restart(bed: CoreBed, job: ULID) -> None:
    """A supervisor decides on a restart, and dies before it calls it; time passes until that can land no more."""
    by = await bed.other()
    by.crash("requeue")
    by.crash("start")
    await bed.crashing(job, by)
    await bed.outlast(job)


@core_check(
    "rule.backoff-holds-across-supervisors",
    "A restart waits as long as its rule says, whoever makes it.",
    rules="CO-8",
    needs=("run", "finish"),
)
async def backoff_holds(bed: CoreBed) -> None:
    pause = bed.timings.wait
    job = await bed.runs(restart(backoff=pause))
    await bed.end(job)
    await bed.shows(job, waiting_for=WaitingFor.POLICY_BACKOFF)
    begun = bed.begun
    await bed.cluster.advance(pause - 10 * bed.timings.poll)
    await bed.settle(job, await bed.other())
    bed.expect(bed.begun == begun, "nothing is begun before the time", bed.told)
    await bed.again(job)


@core_check(
    "rule.hold-waits-for-a-person",
    "After an end that a rule holds, the job waits for a person, who restarts it free of charge.",
    rules="CO-8 CO-12",
    needs=("run", "finish"),
)
async def hold_waits_for_a_person(bed: CoreBed) -> None:
    cause = bed.readable(Cause.NON_ZERO_EXIT)
    job = await bed.runs(_rule(Action.HOLD, cause), restart())
    await bed.end(job)
    await _parked_and_released(bed, job)
    await _counts(bed, job, 0, 0)


@core_check(
    "rule.unmatched-waits-for-a-person",
    "After an end that no rule names, the job waits for a person, if its policy says so.",
    rules="CO-8 CO-12",
    needs=("run", "finish"),
)
async def unmatched_waits(bed: CoreBed) -> None:
    job = await bed.runs(restart(Cause.PREEMPTED))
    await bed.end(job)
    await _parked_and_released(bed, job)


async def _parked_and_released(bed: CoreBed, job: ULID) -> None:
    begun = bed.begun
    await bed.shows(job, waiting_for=WaitingFor.HOLD, held_by=POLICY, state=Phase.ENDED)
    bed.expect(bed.begun == begun, "nothing is begun", bed.told)
    await bed.operator.release(job, "a person")
    await bed.again(job)


@core_check(
    "rule.unmatched-fails",
    "After an end that no rule names, the job has failed, if its policy says so.",
    rules="CO-8 CO-12",
    needs=("run", "finish"),
)
async def unmatched_fails(bed: CoreBed) -> None:
    job = await bed.runs(restart(Cause.PREEMPTED), unmatched=UnmatchedPolicy.FAIL)
    await bed.end(job)
    await bed.done(job, State.FAILED, bed.readable(Cause.NON_ZERO_EXIT))


@core_check(
    "rule.policys-hold-is-not-withdrawn",
    "A job that its policy holds after a lost node waits on, also where objects cannot be held.",
    rules="CO-8 CO-12 CO-13",
    needs=("run", "lose_node", "fence_node"),
)
async def policys_hold_is_not_withdrawn(bed: CoreBed) -> None:
    bed.hide(Holder)
    job = await bed.runs()
    ref = await bed.ref(job)
    await bed.loses_its_node(job)
    await bed.driver.fence_node(ref)
    await bed.vouch(job)
    await bed.shows(job, held_by=POLICY)
    hold = (await bed.record(job)).hold
    await bed.settle(job)
    bed.expect((await bed.record(job)).hold == hold, "the same hold", repr((await bed.record(job)).hold))


@core_check(
    "rule.fails-a-lost-node",
    "A job that its policy fails after a lost node leaves no live object, and its cause is the lost node.",
    rules="CO-8 CO-9 CO-15",
    needs=("run", "lose_node"),
)
async def fails_a_lost_node(bed: CoreBed) -> None:
    cause = bed.readable(Cause.NODE_LOST)
    job = await bed.runs(_rule(Action.FAIL, cause), restart())
    await bed.loses_its_node(job)
    await bed.done(job, State.FAILED, cause)


@core_check(
    "end.preempted-is-restarted",
    "A preemption that ends the object is an end, restarted and charged by its rule.",
    rules="CO-8",
    needs=("run", "preempt"),
)
async def preempted_is_restarted(bed: CoreBed) -> None:
    if bed.traits.preemption is not Preemption.ENDED:
        raise CheckSkipped("a preemption leaves the object waiting")
    job = await bed.runs(restart(Cause.PREEMPTED, limit=1))
    await bed.driver.preempt(await bed.ref(job))
    await bed.again(job)
    await _counts(bed, job, 1)


@core_check(
    "end.put-back-is-none",
    "A live object that the scheduler itself has put back to wait is no end: no rule is charged, nothing restarted.",
    rules="CO-8",
    needs=("run", "preempt"),
)
async def put_back_is_none(bed: CoreBed) -> None:
    if bed.traits.preemption is not Preemption.WAITING:
        raise CheckSkipped("a preemption ends the object")
    job = await bed.runs(restart(limit=1))
    since = len(bed.log)
    await bed.driver.preempt(await bed.ref(job))
    await bed.free(job)
    await _counts(bed, job, 0)
    bed.expect_calls(since=since)


def _causes(ability: str, cause: Cause) -> Check:
    """The check of one cause."""

    @core_check(
        f"cause.{ability.replace('_', '-')}",
        f"A job that failed ({ability.replace('_', ' ')}) has that for its cause.",
        rules="CO-9",
        needs=("run", ability),
    )
    async def is_told(bed: CoreBed) -> None:
        job = await bed.runs(unmatched=UnmatchedPolicy.FAIL)
        await getattr(bed.driver, ability)(await bed.ref(job))
        await bed.done(job, State.FAILED, bed.readable(cause))

    return is_told


@core_check(
    "cause.first-read-is-kept",
    "The cause that was read for an end is kept when its evidence vanishes.",
    rules="CO-9",
    needs=("run", "finish"),
)
async def first_read_is_kept(bed: CoreBed) -> None:
    lasts = bed.traits.evidence_window if bed.traits.evidence_window is not None else bed.traits.forgets_after
    if not lasts:
        raise CheckSkipped("evidence never vanishes" if lasts is None else "evidence is never there")
    job = await bed.runs()
    await bed.end(job, 3)
    await bed.shows(job, waiting_for=WaitingFor.HOLD, cause=Cause.NON_ZERO_EXIT)
    await bed.cluster.advance(lasts + bed.timings.poll)
    await bed.shows(job, waiting_for=WaitingFor.HOLD, cause=Cause.NON_ZERO_EXIT, evidence_vanished=False)
    await bed.operator.stop(job, "a person")
    await bed.done(job, State.CANCELLED, Cause.NON_ZERO_EXIT)


@core_check(
    "cause.of-a-lost-node-outlives-the-object",
    "The cause that was read for a lost node is kept when the object is deleted after that.",
    rules="CO-9",
    needs=("run", "lose_node"),
)
async def of_a_lost_node(bed: CoreBed) -> None:
    if bed.traits.node_loss is not NodeLoss.WEDGED or bed.traits.evidence_window == timedelta(0):
        raise CheckSkipped("a lost node is not to be read while the object runs")
    job = await bed.runs(restart(backoff=bed.timings.wait))
    await bed.loses_its_node(job)
    await bed.shows(job, state=Phase.WEDGED, cause=Cause.NODE_LOST)
    await bed.adapter.stop(await bed.ref(job))
    await bed.shows(job, state=Phase.VANISHED, cause=Cause.NODE_LOST)


@core_check(
    "cause.of-a-vanished-one-is-unknown",
    "An object that vanished without an act of ours has failed of an unknown cause; the status says that.",
    rules="CO-9",
    needs=("run",),
)
async def of_a_vanished_one(bed: CoreBed) -> None:
    if bed.declares(Capability.ACCOUNTING_HISTORY):
        raise CheckSkipped("no object vanishes: there is accounting")
    job = await bed.runs(unmatched=UnmatchedPolicy.FAIL)
    await bed.leaves(await bed.ref(job))
    status = await bed.done(job, State.FAILED, Cause.UNKNOWN)
    bed.expect(status.evidence_vanished, "evidence_vanished", "not")


@core_check(
    "native.only-when-asked",
    "The scheduler is told of the policy when that was asked for, and never else.",
    rules="CO-8",
    needs=(NativePolicyCompiler,),
)
async def only_when_asked(bed: CoreBed) -> None:
    rules = await _native_rules(bed)
    for asked in (False, True):
        job = await bed.waiting(*rules, native=asked)
        told = bed.made("start")[-1].native
        compiled = await bed.compiler.compile_policy((await bed.record(job)).policy)
        bed.expect(told == (compiled if asked else None), f"native={compiled if asked else None}", f"native={told}")


@core_check(
    "native.is-left-to-the-scheduler",
    "The requeue bit that a native policy sets stays; and a rule that the scheduler has used up is not applied again.",
    rules="CO-7 CO-8",
    needs=(NativePolicyCompiler, "run", "finish"),
)
async def is_left_to_the_scheduler(bed: CoreBed) -> None:
    rules = await _native_rules(bed)
    job = await bed.waiting(*rules, native=True)
    native = bed.made("start")[-1].native
    if native is None or not native.covered:
        raise CheckSkipped("the scheduler carries out no rule by itself")
    await bed.run(job)
    for _ in range(3):
        seen = await bed.seen(job)
        if seen.state is State.RUNNING:
            await bed.driver.finish(seen.ref, 1)
    await bed.shows(job, waiting_for=WaitingFor.HOLD, held_by=POLICY)
    by_us = bed.made("requeue", "restore_requeue_bit", "stop") or len(bed.made("start")) > 1
    bed.expect(not by_us, "one start, and nothing done after it", bed.told)


async def _native_rules(bed: CoreBed) -> tuple[Rule, ...]:
    """Rules that the scheduler can carry out, if it can carry out any."""
    kinds = (restart(Cause.PREEMPTED, Cause.NODE_LOST),), (restart(Cause.NON_ZERO_EXIT, Cause.OUT_OF_MEMORY, limit=1),)
    for rules in kinds:
        if (await bed.compiler.compile_policy(Policy(rules))).covered:
            return rules
    return kinds[0]


CHECKS = (
    first_that_names_the_cause,
    limit_holds_across_crashes,
    charged_once_an_end,
    backoff_holds,
    hold_waits_for_a_person,
    unmatched_waits,
    unmatched_fails,
    policys_hold_is_not_withdrawn,
    fails_a_lost_node,
    preempted_is_restarted,
    put_back_is_none,
    _causes("out_of_memory", Cause.OUT_OF_MEMORY),
    _causes("time_out", Cause.TIMEOUT),
    _causes("fail_launch", Cause.LAUNCH_FAILED),
    first_read_is_kept,
    of_a_lost_node,
    of_a_vanished_one,
    only_when_asked,
    is_left_to_the_scheduler,
)
