"""What a look proves, and what a reply says, goes into the record."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from dispatch_memory_async import (
    AlreadyExistsError,
    Capabilities,
    Capability,
    Cause,
    CrashedError,
    DispatchError,
    ExpiredError,
    FinishedError,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Ref,
    StaleError,
    State,
    UnavailableError,
    UnsupportedError,
)
from dispatch_memory_async.core.absorbing import absorb, settled_at
from dispatch_memory_async.core.acts import Act, answered, intended, written
from dispatch_memory_async.core.look import Look
from dispatch_memory_async.core.record import (
    POLICY,
    Charge,
    End,
    Intent,
    Kind,
    Record,
    StoppedFor,
    Verdict,
    WhileRunning,
)
from dispatch_memory_async.core.status import WaitingFor
from dispatch_memory_async.core.steps import (
    Finish,
    Hold,
    Open,
    Park,
    Release,
    Requeue,
    Restart,
    RestoreRequeueBit,
    Start,
    Stop,
    Wait,
)
from dispatch_memory_async.model.base import altered
from tests.core.samples import (
    ASK,
    BOUND,
    DEADLINE,
    KUBEFLOW,
    PARK,
    SLURM,
    end,
    failed,
    gated,
    gone,
    hold,
    intent,
    of,
    record,
    ref,
    running,
    seen,
    wedge,
    without,
)
from tests.core.samples import said as word
from tests.support import MINUTE, SECOND, T0

SKEW = 2 * SECOND
SPENT = DEADLINE + BOUND + SKEW
"""After which an act with the samples' deadline has landed or never does."""
LATER = T0 + MINUTE
NEW = record(chosen=None)


def look(*objects: Observation, at: datetime = T0, **fields: Any) -> Look:
    return Look(began_at=at, objects=objects, **fields)


def taken(before: Record, *objects: Observation, able: Capabilities = SLURM, at: datetime = T0) -> Record:
    """The record after a look that showed these objects."""
    return absorb(before, look(*objects, at=at), able, at)


# A1


@pytest.mark.parametrize(("late", "over"), [(-0.1, False), (0, True), (5, True)])
def test_a_hold_ends(late: float, over: bool) -> None:
    """A1, CO-6: from `until` on there is no hold, also where nothing is seen."""
    before = record(hold=hold(until=DEADLINE, acked=True))
    now = DEADLINE + timedelta(seconds=late)
    after = absorb(before, look(at=now, complete=False), SLURM, now)
    assert after == (altered(before, hold=None) if over else before)


def test_a_hold_without_until_goes_on() -> None:
    """A1: it ends when it is released."""
    before = record(hold=hold(acked=True))
    assert absorb(before, look(complete=False), SLURM, T0 + 1000 * MINUTE).hold == before.hold


@pytest.mark.parametrize(
    "before",
    [
        NEW,
        record(),
        record(intent=intent(Kind.STOP)),
        record(hold=hold()),
        record(end=wedge()),
        altered(NEW, submission=1, intent=intent(Kind.START)),
    ],
)
def test_an_incomplete_look_proves_nothing(before: Record) -> None:
    """A2 to A6 only if the look is complete, however late it is."""
    late = SPENT + MINUTE
    assert absorb(before, look(at=late, complete=False), SLURM, late) is before


def test_nothing_new() -> None:
    """Absorbing a look twice gives the same record."""
    once = taken(record(hold=hold(), end=None), running(restarts=2))
    assert taken(once, running(restarts=2)) == once


# A2


def test_an_object_is_adopted_and_settles_its_start() -> None:
    """A2, CO-3: whoever sees the object with the highest number chooses it, before any bound."""
    before = altered(NEW, submission=1, intent=intent(Kind.START))
    after = taken(before, gated())
    assert after.intent is None
    assert after.chosen == of(may_have_run=False)


def test_an_object_is_adopted_without_an_intent() -> None:
    """A2: also where the start was settled before."""
    assert taken(altered(NEW, submission=2), gated(2)).chosen == of(2, may_have_run=False)


def test_adoption_clears_the_end_of_the_object_before() -> None:
    """A2: `end` and `stopped_for` are the chosen object's, so they go with the one before."""
    before = record(chosen=of(stopped_for=StoppedFor.HOLD), end=end(), submission=2, intent=intent(Kind.START, 2))
    after = taken(before, failed(), gated(2))
    assert (after.chosen, after.end, after.intent) == (of(2, may_have_run=False), None, None)


def test_only_the_highest_number_is_adopted() -> None:
    """A2, CO-3: another object of the job is never chosen."""
    assert taken(altered(NEW, submission=3), running(2), gated(4)).chosen is None


def test_adoption_leaves_another_intent() -> None:
    """A2: only a Start is settled by the object's being there."""
    before = record(chosen=of(), submission=2, intent=intent(Kind.STOP, 1))
    after = taken(before, running(1), gated(2))
    assert after.chosen == of(2, may_have_run=False)
    assert after.intent == before.intent


def test_an_object_adopted_while_it_runs_may_have_run() -> None:
    """A2 with A4: Kubeflow starts without a gate."""
    before = altered(NEW, submission=1, intent=intent(Kind.START))
    assert taken(before, seen(), able=KUBEFLOW).chosen == of()


# A3: by the bound


def test_the_bound() -> None:
    """CO-1, CO-3: deadline + call_bound + skew."""
    assert settled_at(intent(Kind.STOP), SLURM) == SPENT
    assert settled_at(intent(Kind.STOP), SLURM, timedelta(0)) == SPENT - SKEW


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    ("began", "settled"), [(-SECOND, False), (0 * SECOND, False), (timedelta(microseconds=1), True)]
)
def test_an_act_is_settled_strictly_after_its_bound(kind: Kind, began: timedelta, settled: bool) -> None:
    """A3, CO-1, CO-3: on a look begun strictly after the bound, whatever the act was."""
    number = 2 if kind is Kind.START else 1
    shown = {Kind.OPEN: gated(), Kind.REQUEUE: failed(), Kind.RESTORE: running(requeue_bit=True)}
    seen_now = shown.get(kind, running(hold=3 if kind is Kind.RELEASE else None))
    before = record(
        chosen=of(), submission=number, intent=intent(kind, number, instance=3 if kind is Kind.RELEASE else 1)
    )
    after = absorb(before, look(seen_now, at=SPENT + began), SLURM, SPENT + began)
    assert (after.intent is None) is settled


def test_a_look_is_dated_by_its_beginning() -> None:
    """CO-16, A3: a look begun before the bound settles nothing, whenever its answer came."""
    before = record(intent=intent(Kind.STOP))
    assert absorb(before, look(running(), at=SPENT), SLURM, SPENT + 10 * MINUTE).intent == before.intent


def test_another_skew() -> None:
    """The skew is a parameter."""
    before, at = record(intent=intent(Kind.STOP)), SPENT - SKEW + SECOND
    assert absorb(before, look(running(), at=at), SLURM, at).intent is not None
    assert absorb(before, look(running(), at=at), SLURM, at, skew=timedelta(0)).intent is None


def test_a_start_that_never_landed_spends_its_number() -> None:
    """A3, CO-3: no object after the bound: the number stays used."""
    before = altered(NEW, submission=1, intent=intent(Kind.START))
    after = taken(before, at=SPENT + SECOND)
    assert (after.intent, after.chosen, after.submission) == (None, None, 1)


# A3: by its effect


@pytest.mark.parametrize(
    ("kind", "shown", "settled"),
    [
        (Kind.OPEN, gated(), False),
        (Kind.OPEN, seen(), True),
        (Kind.OPEN, running(), True),
        (Kind.STOP, running(), False),
        (Kind.STOP, running(cause=Cause.STOPPED), False),
        (Kind.HOLD, seen(), False),
        (Kind.HOLD, seen(hold=2), False),
        (Kind.HOLD, seen(hold=3), True),
        (Kind.HOLD, seen(hold=4), True),
        (Kind.RELEASE, seen(hold=3), False),
        (Kind.RELEASE, seen(), True),
        (Kind.RELEASE, seen(hold=4), True),
        (Kind.RESTORE, running(requeue_bit=True), False),
        (Kind.RESTORE, running(requeue_bit=False), True),
        (Kind.REQUEUE, seen(restarts=1), False),
        (Kind.REQUEUE, running(restarts=1), False),
        (Kind.REQUEUE, failed(restarts=1), False),
    ],
)
def test_an_act_is_settled_by_its_effect(kind: Kind, shown: Observation, settled: bool) -> None:
    """A3: an idempotent act is settled once its effect is seen; a requeue never is, a foreign one looks the same."""
    assert (taken(record(intent=intent(kind, instance=3)), shown).intent is None) is settled


@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.STOP, Kind.HOLD, Kind.RELEASE, Kind.RESTORE])
@pytest.mark.parametrize("shown", [(failed(),), (seen(1, State.CANCELLED, Cause.STOPPED),), (), (running(2),)])
def test_an_act_is_settled_by_the_end_of_its_object(kind: Kind, shown: tuple[Observation, ...]) -> None:
    """A3: an object that has ended, or is not there, settles all but a start and a requeue."""
    assert taken(record(intent=intent(kind, instance=1)), *shown).intent is None


def test_a_stop_of_an_extra_is_settled_by_the_extra() -> None:
    """A3: it is the intent's own object that counts, not the chosen one."""
    before = record(chosen=of(2), intent=intent(Kind.STOP, 1))
    assert taken(before, running(1), failed(2)).intent is not None
    assert taken(before, gated(2)).intent is None


# A3: an object that is not there


@pytest.mark.parametrize(
    ("kind", "ran"), [(Kind.OPEN, True), (Kind.RELEASE, True), (Kind.STOP, False), (Kind.HOLD, False)]
)
def test_an_opened_object_that_is_not_there_may_have_run(kind: Kind, ran: bool) -> None:
    """A3: an open or a release may have landed before the object vanished."""
    after = taken(record(chosen=of(may_have_run=False), intent=intent(kind, instance=1)))
    assert after.chosen == of(may_have_run=ran)
    assert after.intent is None


def test_a_requeue_whose_object_is_not_there() -> None:
    """A3: it may have landed and the object vanished after it: its end is Gone/Unknown."""
    before = record(end=end(), intent=intent(Kind.REQUEUE), charged=Charge(end().key, 0), counts=(1,))
    assert taken(before, at=SPENT).intent is not None
    now = SPENT + SECOND
    after = taken(before, at=now)
    assert after.intent is None
    assert after.end == gone(Cause.UNKNOWN, seen_at=now)
    assert after.charged == before.charged


def test_a_requeue_that_did_not_land() -> None:
    """A3: the same end is there after the bound: it is charged already, and is tried again."""
    before = record(end=end(), intent=intent(Kind.REQUEUE), charged=Charge(end().key, 0), counts=(1,))
    after = taken(before, failed(), at=SPENT + SECOND)
    assert (after.intent, after.end, after.charged) == (None, end(exit_code=None), before.charged)


def test_a_requeue_that_landed_and_ended_again() -> None:
    """A3, A4: a higher counter is another end."""
    before = record(end=end(), intent=intent(Kind.REQUEUE), charged=Charge(end().key, 0), counts=(1,))
    now = SPENT + SECOND
    after = taken(before, failed(cause=Cause.TIMEOUT, restarts=1), at=now)
    assert after.end == end(Cause.TIMEOUT, restarts=1, seen_at=now)


# A4


def test_the_chosen_object_is_followed() -> None:
    """A4: its ref and its counter are those of the latest look."""
    after = taken(record(), running(restarts=2, ref=ref(1, at=7)))
    assert after.chosen == of(ref=ref(1, at=7), restarts=2)


@pytest.mark.parametrize(
    ("shown", "ran"),
    [
        (gated(), False),
        (gated(hold=1), False),
        (gated(cause=Cause.ADMIN_HELD), False),
        (seen(hold=1, cause=Cause.HELD), False),
        (seen(cause=Cause.HELD), False),
        (seen(), True),
        (seen(cause=Cause.NO_CAPACITY), True),
        (running(), True),
        (failed(), True),
        (seen(1, State.CANCELLED, Cause.STOPPED, started_at=None), False),
        (gated(restarts=1), True),
    ],
)
def test_may_have_run(shown: Observation, ran: bool) -> None:
    """A4: it ran, or it is Pending, open and not held."""
    after = taken(record(chosen=of(may_have_run=False)), shown)
    assert after.chosen is not None
    assert after.chosen.may_have_run is ran
    kept = taken(record(), shown).chosen
    assert kept is not None
    assert kept.may_have_run


def test_an_end_is_read() -> None:
    """A4: with its cause and exit code, dated when it was first seen."""
    after = taken(record(), failed(exit_code=3), at=LATER)
    assert after.end == end(exit_code=3, seen_at=LATER)
    assert taken(after, failed(exit_code=3), at=LATER + MINUTE).end == after.end


def test_a_success_has_no_cause() -> None:
    """A4."""
    after = taken(record(), seen(1, State.SUCCEEDED, exit_code=0))
    assert after.end == end(None, State.SUCCEEDED, exit_code=0)


def test_a_cause_is_kept() -> None:
    """A4, CO-9: the first cause other than Unknown that was read for an end stays."""
    after = taken(record(end=end()), failed(cause=Cause.UNKNOWN), at=LATER)
    assert after.end is not None
    assert (after.end.cause, after.end.seen_at) == (Cause.NON_ZERO_EXIT, T0)


def test_a_cause_that_is_read_late_is_taken() -> None:
    """A4, CO-9: Unknown gives way to the first cause."""
    after = taken(record(end=end(Cause.UNKNOWN)), failed(), at=LATER)
    assert after.end is not None
    assert after.end.cause is Cause.NON_ZERO_EXIT


def test_a_cause_belongs_to_its_end() -> None:
    """A4: another restart of the object is another end."""
    after = taken(record(end=end()), failed(cause=Cause.UNKNOWN, restarts=1), at=LATER)
    assert after.end == end(Cause.UNKNOWN, restarts=1, seen_at=LATER)


def test_an_exit_code_is_kept() -> None:
    """A4, CO-9: what evidence showed once is not lost with it."""
    after = taken(taken(record(), failed(exit_code=3)), failed(cause=Cause.UNKNOWN, exit_code=None), at=LATER)
    assert after.end == end(exit_code=3)


@pytest.mark.parametrize("cause", [Cause.NODE_LOST, Cause.UNKNOWN])
def test_a_wedge_is_an_end(cause: Cause) -> None:
    """A4, CO-8: Running, on a node that is lost, and the scheduler shows no end for it."""
    assert taken(record(), running(cause=cause), able=KUBEFLOW).end == wedge(cause)


def test_a_wedge_keeps_its_cause() -> None:
    """A4, CO-9."""
    after = taken(record(end=wedge()), running(cause=Cause.UNKNOWN), able=KUBEFLOW, at=LATER)
    assert after.end == wedge()


def test_a_wedge_that_the_scheduler_ends() -> None:
    """A4, CO-9: the wedge's cause is kept for the end of the same execution, and so is what was charged for it."""
    before = record(end=wedge(), charged=Charge(wedge().key, 0), counts=(1,))
    after = taken(before, failed(cause=Cause.UNKNOWN), able=KUBEFLOW, at=LATER)
    assert after.end is not None
    assert (after.end.cause, after.end.wedge, after.end.state) == (Cause.NODE_LOST, False, State.FAILED)
    assert after.charged == Charge(after.end.key, 0)


def test_a_wedge_that_came_to_life_is_none() -> None:
    """A4: the node is back, the run goes on."""
    assert taken(record(end=wedge()), running(), able=KUBEFLOW).end is None


def test_a_wedge_that_succeeded() -> None:
    """A4, CO-9: a success has no cause, also not the wedge's."""
    after = taken(record(end=wedge()), seen(1, State.SUCCEEDED, exit_code=0), able=KUBEFLOW, at=LATER)
    assert after.end is not None
    assert (after.end.state, after.end.cause) == (State.SUCCEEDED, None)


@pytest.mark.parametrize("shown", [seen(restarts=1), running(restarts=1), gated(restarts=1)])
def test_a_live_object_has_no_end(shown: Observation) -> None:
    """A4, CO-8: what the scheduler put back to Pending has not ended, and is stopped for nothing."""
    after = taken(record(end=end(), chosen=of(stopped_for=StoppedFor.HOLD)), shown)
    assert after.end is None
    assert after.chosen is not None
    assert after.chosen.stopped_for is None


def test_a_stop_in_flight_keeps_its_reason() -> None:
    """A4: stopped_for stays while a Stop is in flight."""
    before = record(chosen=of(stopped_for=StoppedFor.HOLD), intent=intent(Kind.STOP))
    assert taken(before, running()).chosen == before.chosen


def test_an_object_that_is_being_stopped_keeps_its_reason() -> None:
    """A4: so does it while the stop that landed is ending its execution (kill_wait)."""
    before = record(chosen=of(stopped_for=StoppedFor.HOLD))
    assert taken(before, running(cause=Cause.STOPPED)).chosen == before.chosen


# A5


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        (record(), Cause.UNKNOWN),
        (record(chosen=of(stopped_for=StoppedFor.HOLD)), Cause.STOPPED),
        (record(chosen=of(stopped_for=StoppedFor.RESTART), end=wedge()), Cause.NODE_LOST),
        (record(end=wedge()), Cause.NODE_LOST),
        (record(end=wedge(Cause.UNKNOWN)), Cause.UNKNOWN),
    ],
)
def test_an_object_vanished(before: Record, cause: Cause) -> None:
    """A5, CO-9: an end, with the wedge's cause, or Stopped if we did it, or Unknown; never a success."""
    assert taken(before, able=KUBEFLOW, at=LATER).end == gone(cause, seen_at=LATER)


@pytest.mark.parametrize("before", [end(), end(None, State.SUCCEEDED), gone(Cause.STOPPED)])
def test_an_end_outlives_its_object(before: Any) -> None:
    """A5: what was read before the object was forgotten stays."""
    assert taken(record(end=before), at=LATER).end == before


@pytest.mark.parametrize(
    ("of_end", "charged", "moves"),
    [
        (wedge(), wedge(), True),  # we are ending it, on that word
        (wedge(), None, False),  # it vanished by itself, and may have been run again before
        (end(submission=2), wedge(), False),
    ],
)
def test_a_persons_word_outlives_the_wedge_that_we_end(of_end: End, charged: End | None, moves: bool) -> None:
    """A5, CO-14: what was said of a wedge holds for its vanishing, if that is ours."""
    charge = Charge(charged.key, 0) if charged else None
    before = record(end=wedge(), word=word(of_end.key), charged=charge, counts=(1,))
    expected = word(gone().key) if moves else word(of_end.key)
    assert taken(before, able=KUBEFLOW, at=LATER).word == expected


def test_what_was_said_of_a_wedge_is_not_said_of_the_next_one() -> None:
    """CO-14, CO-2: the node is back, the object runs on; a second loss would have the same key."""
    charge = Charge(wedge().key, 0)
    before = record(end=wedge(), word=word(wedge().key), go_on=word(wedge().key), charged=charge, counts=(1,))
    after = taken(before, running(), able=KUBEFLOW, at=LATER)
    assert (after.end, after.word, after.go_on, after.charged) == (None, None, None, None)
    other = record(end=wedge(), word=word(end(submission=2).key), counts=(1,))
    assert taken(other, running(), able=KUBEFLOW, at=LATER).word == other.word


def test_a_refused_stop_of_another_object_says_nothing_of_the_chosen_one() -> None:
    """A3: it was stopped for a hold all the same."""
    before = record(chosen=of(2, stopped_for=StoppedFor.HOLD), intent=intent(Kind.STOP, 1))
    mine = before.intent
    assert mine is not None
    after = answered(before, mine, UnavailableError("no"), SLURM)
    assert after.chosen == of(2, stopped_for=StoppedFor.HOLD)


def test_a_charge_moves_with_the_wedge() -> None:
    """A5, CO-8: a wedge and the vanishing of what was wedged are one end, charged once and waited for once."""
    before = record(end=wedge(), charged=Charge(wedge().key, 0), counts=(1,), chosen=of(stopped_for=StoppedFor.RESTART))
    after = taken(before, able=KUBEFLOW, at=LATER)
    assert after.end == gone(Cause.NODE_LOST, seen_at=T0)
    assert after.charged == Charge(gone().key, 0)


def test_the_charge_of_another_end_stays() -> None:
    """A5: only what was charged for this wedge moves."""
    charged = Charge(end(submission=2).key, 0)
    assert taken(record(end=wedge(), charged=charged), able=KUBEFLOW).charged == charged


# A6


@pytest.mark.parametrize(
    ("before", "shown", "able", "acked"),
    [
        (altered(NEW, hold=hold()), (), SLURM, True),
        (record(hold=hold()), (failed(),), SLURM, True),
        (record(hold=hold()), (), SLURM, True),
        (record(hold=hold()), (seen(hold=1),), SLURM, True),
        (record(hold=hold(instance=2)), (seen(hold=1),), SLURM, False),
        (record(hold=hold()), (seen(),), SLURM, False),
        (record(hold=hold()), (gated(),), SLURM, False),
        (record(hold=hold()), (gated(),), without(SLURM, Capability.HOLD), True),
        (record(hold=hold()), (seen(),), without(SLURM, Capability.HOLD), False),
        (record(hold=hold(running=WhileRunning.STOP)), (running(),), SLURM, False),
        (record(hold=hold()), (seen(cause=Cause.HELD),), KUBEFLOW, False),
        # no live extra
        (record(hold=hold(), chosen=of(2)), (seen(2, hold=1), gated(1)), SLURM, False),
        (record(hold=hold(), chosen=of(2)), (seen(2, hold=1), failed(1)), SLURM, True),
        (altered(NEW, hold=hold()), (running(3),), SLURM, False),
        # no act in flight
        (record(hold=hold(), intent=intent(Kind.OPEN)), (gated(hold=1),), SLURM, False),
        (altered(NEW, hold=hold(), submission=1, intent=intent(Kind.START)), (), KUBEFLOW, False),
    ],
)
def test_a_hold_is_acknowledged(
    before: Record, shown: tuple[Observation, ...], able: Capabilities, acked: bool
) -> None:
    """A6, CO-6: no act in flight, no live extra; nothing chosen, chosen dead, shows our instance, or gated for good."""
    after = taken(before, *shown, able=able).hold
    assert after is not None
    assert (after.acked, after.refused) == (acked, False)


@pytest.mark.parametrize(
    ("shown", "able", "fields", "refused"),
    [
        (running(), SLURM, {}, True),
        (running(), KUBEFLOW, {}, False),
        (running(), SLURM, {"running": WhileRunning.STOP}, False),
        (running(), SLURM, {"by": POLICY}, False),
        (running(), SLURM, {"acked": True}, False),
        (running(cause=Cause.REQUEUED), SLURM, {}, False),
        (running(cause=Cause.PREEMPTED), SLURM, {}, False),
        (running(cause=Cause.STOPPED), SLURM, {}, False),
        (running(), without(KUBEFLOW, Capability.HOLD, Capability.HOLD_RUNNING), {}, True),
        (seen(), without(KUBEFLOW, Capability.HOLD, Capability.HOLD_RUNNING), {}, False),
        (seen(), SLURM, {}, False),
    ],
)
def test_a_hold_is_withdrawn(shown: Observation, able: Capabilities, fields: dict[str, Any], refused: bool) -> None:
    """A6, CO-6: by `refuse`, asked by a person, from an object that runs, is not ending, and cannot be held."""
    after = taken(record(hold=hold(**fields)), shown, able=able).hold
    assert after is not None
    assert after.refused is refused


def test_an_act_in_flight_withdraws_nothing() -> None:
    """A6."""
    after = taken(record(hold=hold(), intent=intent(Kind.STOP)), running()).hold
    assert after is not None
    assert not after.refused


def test_an_acknowledgement_in_the_look_that_settles() -> None:
    """A3 before A6: the look that settles the act may acknowledge."""
    before = record(hold=hold(), intent=intent(Kind.HOLD, instance=1))
    after = taken(before, gated(hold=1))
    assert after.hold == hold(acked=True)


# replies


def reply(before: Record, said: Ref | DispatchError | None, able: Capabilities = SLURM) -> Record:
    assert before.intent is not None
    return answered(before, before.intent, said, able)


STARTING = altered(NEW, submission=1, intent=intent(Kind.START))


def test_a_start_answered() -> None:
    """CO-1, replies: chosen, and behind its gate it has not run."""
    assert reply(STARTING, ref()) == record(chosen=of(may_have_run=False))


def test_an_ungated_start_answered() -> None:
    """Replies: `may_have_run` where a start is not gated."""
    assert reply(STARTING, ref(), KUBEFLOW) == record()


def test_a_later_start_answered() -> None:
    """Replies: the end of the object before goes."""
    before = record(end=end(), submission=2, intent=intent(Kind.START, 2), charged=Charge(end().key, 0), counts=(1,))
    after = reply(before, ref(2))
    assert (after.chosen, after.end, after.charged) == (of(2, may_have_run=False), None, before.charged)


@pytest.mark.parametrize("error", [UnavailableError("no"), ExpiredError("late")])
def test_a_start_refused(error: DispatchError) -> None:
    """CO-3, replies: after a definite refusal the number is given back; what was charged stays charged."""
    before = record(end=end(), submission=2, intent=intent(Kind.START, 2), charged=Charge(end().key, 0), counts=(1,))
    assert reply(before, error) == altered(before, intent=None, submission=1)


@pytest.mark.parametrize("error", [OutcomeUnknownError("lost"), CrashedError("crash"), AlreadyExistsError("there")])
@pytest.mark.parametrize("kind", list(Kind))
def test_an_unclear_reply(error: DispatchError, kind: Kind) -> None:
    """CO-1, CO-3: it is looked for; AlreadyExists means that it landed, so the number is not given back."""
    before = altered(STARTING, intent=intent(kind)) if kind is Kind.START else record(intent=intent(kind))
    assert reply(before, error) is before


def test_a_reply_to_another_intent() -> None:
    """CO-1: a reply counts only while its intent is the one that stands."""
    mine = intent(Kind.STOP, id=1)
    other = record(intent=intent(Kind.OPEN, id=2))
    for said in (None, UnavailableError("no")):
        assert answered(other, mine, said, SLURM) is other
        assert answered(record(), mine, said, SLURM) == record()


def test_an_open_answered() -> None:
    """Replies: from then on it may have run."""
    before = record(chosen=of(may_have_run=False), intent=intent(Kind.OPEN))
    assert reply(before, None) == record()


def test_a_requeue_answered() -> None:
    """Replies: its end is over, and it may have run."""
    before = record(chosen=of(may_have_run=False), end=end(), intent=intent(Kind.REQUEUE))
    assert reply(before, None) == record()


@pytest.mark.parametrize("kind", [Kind.STOP, Kind.HOLD, Kind.RELEASE, Kind.RESTORE])
def test_another_act_answered(kind: Kind) -> None:
    """Replies: the act is settled, nothing else is said."""
    before = record(chosen=of(may_have_run=False), end=wedge(), intent=intent(kind, instance=1))
    assert reply(before, None) == altered(before, intent=None)


@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.HOLD, Kind.RELEASE, Kind.REQUEUE, Kind.RESTORE])
@pytest.mark.parametrize("error", [NotFoundError("gone"), FinishedError("ended"), UnavailableError("no")])
def test_an_act_refused(kind: Kind, error: DispatchError) -> None:
    """Replies: nothing changed, so the act is settled."""
    before = record(end=end(), intent=intent(kind, instance=1), hold=hold())
    if kind is not Kind.REQUEUE or not isinstance(error, FinishedError):
        assert reply(before, error) == altered(before, intent=None)


@pytest.mark.parametrize("error", [FinishedError("never"), UnsupportedError("cannot")])
def test_a_requeue_refused_for_good(error: DispatchError) -> None:
    """CO-11, CO-12: such an object is not requeued any more; what was charged stays charged."""
    before = record(end=end(), intent=intent(Kind.REQUEUE), charged=Charge(end().key, 0), counts=(1,))
    assert reply(before, error) == altered(before, intent=None, chosen=of(requeueable=False))


def test_a_stale_hold_takes_a_higher_instance() -> None:
    """CO-6: somebody's higher instance is in force; ours must be above it."""
    before = record(intent=intent(Kind.HOLD, instance=1), hold=hold())
    after = reply(before, StaleError("stale", 7))
    assert after.hold == hold(instance=8)
    assert (after.hold_counter, after.intent) == (8, None)


def test_a_stop_refused() -> None:
    """Replies: what was not stopped was stopped for nothing."""
    before = record(chosen=of(stopped_for=StoppedFor.HOLD), intent=intent(Kind.STOP))
    assert reply(before, UnavailableError("no")) == record()


# what is written with an act


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (Start(1), Intent(id=7, kind=Kind.START, submission=1, deadline=DEADLINE)),
        (Open(ref()), Intent(id=7, kind=Kind.OPEN, submission=1, ref=ref(), deadline=DEADLINE)),
        (Stop(ref(9), 9), Intent(id=7, kind=Kind.STOP, submission=9, ref=ref(9), deadline=DEADLINE)),
        (Requeue(ref(), Restart()), Intent(id=7, kind=Kind.REQUEUE, submission=1, ref=ref(), deadline=DEADLINE)),
        (RestoreRequeueBit(ref()), Intent(id=7, kind=Kind.RESTORE, submission=1, ref=ref(), deadline=DEADLINE)),
        (Hold(ref(), 4), Intent(id=7, kind=Kind.HOLD, submission=1, ref=ref(), instance=4, deadline=DEADLINE)),
        (Release(ref(), 4), Intent(id=7, kind=Kind.RELEASE, submission=1, ref=ref(), instance=4, deadline=DEADLINE)),
    ],
)
def test_the_intent(act: Act, expected: Intent) -> None:
    """CO-1, CO-4: kind, target and deadline are written before the act."""
    before = NEW if isinstance(act, Start) else record()
    assert intended(before, act, 7, DEADLINE).intent == expected


def test_a_start_takes_its_number() -> None:
    """CO-3, CO-5: in the same write."""
    assert intended(NEW, Start(1), 7, DEADLINE).submission == 1


@pytest.mark.parametrize(
    ("act", "before"),
    [
        (Requeue(ref(), Restart(0)), end()),
        (Start(2, Restart(0)), gone()),
        (Stop(ref(), 1, StoppedFor.RESTART, Restart(0)), wedge()),
    ],
)
def test_a_restart_is_charged(act: Act, before: Any) -> None:
    """CO-8: once an end, in the same write as the first intent of the restart."""
    after = intended(record(end=before), act, 7, DEADLINE)
    assert (after.counts, after.charged) == ((1,), Charge(before.key, 0))


@pytest.mark.parametrize("act", [Requeue(ref(), Restart(0, charged=True)), Start(2, Restart(0, charged=True))])
def test_a_restart_is_charged_once(act: Act) -> None:
    """CO-8: what is tried again is not charged again."""
    charged = Charge(end().key, 0)
    after = intended(record(end=end(), counts=(1,), charged=charged), act, 7, DEADLINE)
    assert (after.counts, after.charged) == ((1,), charged)


def test_a_free_restart_is_remembered() -> None:
    """CO-8: a restart by a person's release counts for no rule, and is not decided again."""
    after = intended(record(end=end()), Requeue(ref(), Restart()), 7, DEADLINE)
    assert (after.counts, after.charged) == ((0,), Charge(end().key, None))


@pytest.mark.parametrize("why", list(StoppedFor))
def test_a_stop_is_remembered(why: StoppedFor) -> None:
    """A5: why an object was stopped is written with the intent."""
    assert intended(record(), Stop(ref(), 1, why), 7, DEADLINE).chosen == of(stopped_for=why)


def test_the_stop_of_an_extra_says_nothing_of_the_chosen_one() -> None:
    """Row 4."""
    assert intended(record(chosen=of(2)), Stop(ref(1), 1), 7, DEADLINE).chosen == of(2)


def test_park() -> None:
    """Row 28: a hold by the policy, with the next instance."""
    after = written(record(PARK, end=end(), hold_counter=4), Park("limit"))
    assert after.hold == hold(instance=5, by=POLICY, reason="limit")
    assert after.hold_counter == 5


def test_finish_and_wait() -> None:
    """Finish writes the verdict, Wait nothing."""
    verdict = Verdict(state=State.CANCELLED, cause=Cause.STOPPED, at=T0)
    before = record(stop=ASK)
    assert written(before, Finish(verdict)).verdict == verdict
    assert written(before, Wait(why=WaitingFor.HOLD)) is before
