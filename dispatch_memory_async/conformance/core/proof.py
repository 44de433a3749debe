"""Proof: nothing is begun before every execution has ceased, and what counts as proof of that (CO-2, CO-14)."""

from ulid import ULID

from ...core import Phase, WaitingFor
from ...model import Capability, State
from ...spi import CessationSignal, Holder
from ..findings import CheckSkipped
from .bed import CoreBed, restart
from .checking import core_check

__all__ = ("CHECKS",)

SIGNAL = (CessationSignal, Capability.CESSATION)


@core_check(
    "proof.lost-node",
    "After a lost node nothing is begun until its execution has ceased; then the job goes on by itself.",
    rules="CO-2 CO-12",
    needs=(*SIGNAL, "run", "lose_node", "fence_node"),
)
async def lost_node(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    ref = await bed.ref(job)
    await bed.loses_its_node(job)
    await bed.waits_for_proof(job, ref)
    await bed.again(job)


@core_check(
    "proof.object-taken-away",
    "An object that somebody stops or deletes on a lost node proves nothing.",
    rules="CO-2 CO-10",
    needs=(*SIGNAL, "run", "lose_node", "fence_node"),
)
async def object_taken_away(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    ref = await bed.ref(job)
    await bed.driver.lose_node(ref)
    await bed.adapter.stop(ref)
    await bed.waits_for_proof(job, ref)
    await bed.again(job)


@core_check(
    "proof.every-object",
    "The proof is of every object of the job: one that came later and has ended proves nothing of one before.",
    rules="CO-2",
    needs=(*SIGNAL, "run", "lose_node", "fence_node"),
)
async def every_object(bed: CoreBed) -> None:
    job = await bed.runs(restart())
    ref = await bed.ref(job)
    await bed.loses_its_node(job)
    await bed.by_hand(job, 7)
    await bed.waits_for_proof(job, ref)
    await bed.again(job)


@core_check(
    "proof.release",
    "A hold that ended an execution is not lifted before that has ceased.",
    rules="CO-2 CO-6",
    needs=(*SIGNAL, Holder, Capability.HOLD, Capability.HOLD_RUNNING, "run", "lose_node", "fence_node"),
)
async def release(bed: CoreBed) -> None:
    job = await bed.runs()
    ref = await bed.ref(job)
    await bed.driver.lose_node(ref)
    await bed.hold(job)
    await bed.operator.release(job, "a person")
    await bed.waits_for_proof(job, ref)
    await bed.free(job)
    await bed.run(job)


@core_check(
    "proof.without-a-signal-an-exit",
    "Without a signal an end with a cause of its own is proof.",
    rules="CO-2 CO-13",
    needs=("run", "finish"),
)
async def without_a_signal_an_exit(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    job = await bed.runs(restart())
    await bed.end(job)
    await bed.again(job)


@core_check(
    "proof.without-a-signal-a-persons-word",
    "Without a signal a lost node proves nothing, until a person says that its execution has ceased.",
    rules="CO-2 CO-12 CO-13 CO-14",
    needs=("run", "lose_node", "fence_node"),
)
async def without_a_signal_a_persons_word(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    await _restarted_on_a_word(bed)


@core_check(
    "proof.a-word-is-of-one-end",
    "What a person said of one end is no proof for the next.",
    rules="CO-14",
    needs=("run", "lose_node", "fence_node"),
)
async def a_word_is_of_one_end(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    job = await _restarted_on_a_word(bed)
    await bed.run(job)
    begun = bed.begun
    await bed.loses_its_node(job)
    await bed.shows(job, waiting_for=WaitingFor.CESSATION)
    bed.expect(bed.begun == begun, "nothing is begun", bed.told)


async def _restarted_on_a_word(bed: CoreBed) -> ULID:
    """A job that was restarted after a lost node, as a person said that its execution has ceased."""
    job = await bed.runs(restart())
    ref, begun = await bed.ref(job), bed.begun
    await bed.loses_its_node(job)
    await bed.shows(job, waiting_for=WaitingFor.CESSATION)
    bed.expect(bed.begun == begun, "nothing is begun", bed.told)
    await bed.driver.fence_node(ref)
    await bed.operator.confirm_ceased(job, "a person")
    await bed.again(job)
    return job


@core_check(
    "proof.without-a-signal-a-vanished-one",
    "Without a signal an object that has vanished and may have run proves nothing.",
    rules="CO-2 CO-9 CO-13",
    needs=("run",),
)
async def without_a_signal_a_vanished_one(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    job = await bed.runs(restart())
    await _vanishes(bed, job)
    begun = bed.begun
    await bed.shows(job, waiting_for=WaitingFor.CESSATION, state=Phase.VANISHED)
    bed.expect(bed.begun == begun, "nothing is begun", bed.told)
    await bed.operator.confirm_ceased(job, "a person")
    await bed.again(job)


@core_check(
    "proof.without-a-signal-one-that-never-ran",
    "Without a signal an object that has vanished and never left its gate is followed by another at once.",
    rules="CO-2 CO-13",
    needs=(Capability.GATED_START,),
)
async def without_a_signal_one_that_never_ran(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    job = await bed.submit(restart())
    await _vanishes(bed, job)
    await bed.again(job)


async def _vanishes(bed: CoreBed, job: ULID) -> None:
    """Somebody stops a job's object, and no supervisor looks until the scheduler has forgotten it."""
    if bed.declares(Capability.ACCOUNTING_HISTORY):
        raise CheckSkipped("no object vanishes: there is accounting")
    await bed.leaves(await bed.ref(job))


@core_check(
    "proof.without-a-signal-a-held-run",
    "Without a signal an object that was held while it ran is not let go again: nothing says that its run has ceased.",
    rules="CO-2 CO-13",
    needs=(Holder, Capability.HOLD, Capability.HOLD_RUNNING, "run"),
)
async def without_a_signal_a_held_run(bed: CoreBed) -> None:
    bed.hide(CessationSignal)
    job = await bed.runs()
    await bed.hold(job)
    await bed.operator.release(job, "a person")
    await bed.shows(job, waiting_for=WaitingFor.CESSATION, state=Phase.PENDING)
    bed.expect(not bed.made("release"), "no release", bed.told)
    seen = await bed.seen(job)
    bed.expect(seen.state is State.PENDING and seen.hold is not None, "it is held", "it is not", seen)


CHECKS = (
    lost_node,
    object_taken_away,
    every_object,
    release,
    without_a_signal_an_exit,
    without_a_signal_a_persons_word,
    a_word_is_of_one_end,
    without_a_signal_a_vanished_one,
    without_a_signal_one_that_never_ran,
    without_a_signal_a_held_run,
)
