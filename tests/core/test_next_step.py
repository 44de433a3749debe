"""The decision table, row by row: written from the design's section 2, not from the code.

Each case names its row, and, if it is there to show the order, the later row whose condition holds too.
"""

from datetime import datetime, timedelta

import pytest

from dispatch_memory_async import Action, Capabilities, Capability, Cause, Observation, Policy, State
from dispatch_memory_async.core.record import (
    POLICY,
    Charge,
    End,
    Kind,
    Record,
    StoppedFor,
    Verdict,
    WhileRunning,
)
from dispatch_memory_async.core.status import Phase, Status, WaitingFor
from dispatch_memory_async.core.steps import (
    Decision,
    Finish,
    Hold,
    Open,
    Park,
    Release,
    Requeue,
    Restart,
    RestoreRequeueBit,
    Start,
    Step,
    Stop,
    Wait,
    decide,
    next_step,
    proven,
)
from dispatch_memory_async.model.base import altered
from tests.core.samples import (
    ASK,
    BOUND,
    DEADLINE,
    FAIL,
    KUBEFLOW,
    KUBEFLOW_BLIND,
    PARK,
    RESTART,
    SLURM,
    SLURM_BLIND,
    end,
    failed,
    gated,
    gone,
    hold,
    intent,
    of,
    record,
    ref,
    restart,
    running,
    said,
    seen,
    wedge,
    without,
)
from tests.support import MINUTE, SECOND, T0

NO_HOLDER = Capability.HOLD, Capability.HOLD_RUNNING
ROWS = 33


def status(
    chosen: Observation | None = None, *extras: Observation, ceased: bool | None = True, complete: bool = True
) -> Status:
    """What a look shows, as far as the table reads it."""
    return Status(state=Phase.PENDING, as_of=T0, chosen=chosen, extras=extras, ceased=ceased, complete=complete)


def wait(why: WaitingFor, until: datetime | None = None) -> Wait:
    return Wait(why=why, until=until)


def finish(state: State, cause: Cause | None = None) -> Finish:
    return Finish(Verdict(state=state, cause=cause, at=T0))


def plain(step: Step) -> Step:
    """A step without the words that go with it."""
    match step:
        case Wait():
            return altered(step, detail="")
        case Finish():
            return Finish(altered(step.verdict, detail=""))
        case Park():
            return Park("")
        case _:
            return step


PARKED = Park("")
UNPROVEN = wait(WaitingFor.CESSATION)
VERDICT = Verdict(state=State.SUCCEEDED, cause=None, at=T0)
SPENT = T0 + MINUTE + BOUND + 2 * SECOND
SUCCEEDED = end(None, State.SUCCEEDED, exit_code=0)
OURS = hold(running=WhileRunning.STOP)
BACKOFF = Policy((restart(backoff=MINUTE),))
ended, done, stopped = failed(), seen(1, State.SUCCEEDED), seen(1, State.CANCELLED, Cause.STOPPED)
wedged = running(cause=Cause.NODE_LOST)
ending = running(cause=Cause.STOPPED)
requeuing = running(cause=Cause.REQUEUED)
NEW = record(chosen=None)

CASES: list[tuple[str, Record, Status, Capabilities, Step]] = [
    # row[>later row whose condition holds too]: what
    ("1: it has its verdict", record(verdict=VERDICT), status(), SLURM, wait(WaitingFor.DONE)),
    ("1>2: no answer", record(verdict=VERDICT), status(complete=False), SLURM, wait(WaitingFor.DONE)),
    ("2: no answer", record(), status(complete=False), SLURM, wait(WaitingFor.LOOK)),
    ("2>3: act", record(intent=intent(Kind.OPEN)), status(complete=False), SLURM, wait(WaitingFor.LOOK)),
    ("3: act", record(intent=intent(Kind.OPEN)), status(gated()), SLURM, wait(WaitingFor.ACT, SPENT)),
    (
        "3>4: act, extra",
        record(intent=intent(Kind.STOP)),
        status(gated(), running(2)),
        SLURM,
        wait(WaitingFor.ACT, SPENT),
    ),
    ("3>7: act, stop", record(intent=intent(Kind.OPEN), stop=ASK), status(gated()), SLURM, wait(WaitingFor.ACT, SPENT)),
    ("4: extra", record(chosen=of(2)), status(gated(2), running(1)), SLURM, Stop(ref(1), 1)),
    ("4: extra that nobody chose", NEW, status(None, gated(3)), SLURM, Stop(ref(3), 3)),
    (
        "4: an extra that is preempted comes back",
        record(chosen=of(2)),
        status(gated(2), running(1, Cause.PREEMPTED)),
        SLURM,
        Stop(ref(1), 1),
    ),
    (
        "4: the extra that is not being stopped",
        record(chosen=of(3)),
        status(gated(3), running(1, Cause.STOPPED), running(2)),
        SLURM,
        Stop(ref(2), 2),
    ),
    (
        "4>5: extra, bit",
        record(chosen=of(2)),
        status(running(2, requeue_bit=True), gated(1)),
        SLURM,
        Stop(ref(1), 1),
    ),
    ("4>7: extra, stop", record(chosen=of(2), stop=ASK), status(running(2), gated(1)), SLURM, Stop(ref(1), 1)),
    ("5: bit", record(), status(running(requeue_bit=True)), SLURM, RestoreRequeueBit(ref())),
    ("5: bit of one behind its gate", record(), status(gated(requeue_bit=True)), SLURM, RestoreRequeueBit(ref())),
    (
        "5>6: bit, being stopped",
        record(stop=ASK),
        status(running(cause=Cause.STOPPED, requeue_bit=True)),
        SLURM,
        RestoreRequeueBit(ref()),
    ),
    ("5>7: bit, stop", record(stop=ASK), status(running(requeue_bit=True)), SLURM, RestoreRequeueBit(ref())),
    ("5>14: bit, hold", record(hold=hold()), status(gated(requeue_bit=True)), SLURM, RestoreRequeueBit(ref())),
    ("6: being stopped", record(stop=ASK), status(ending), SLURM, wait(WaitingFor.SCHEDULER)),
    ("7: stop, running", record(stop=ASK), status(running()), SLURM, Stop(ref(), 1, StoppedFor.USER)),
    ("7: stop, gated", record(stop=ASK), status(gated()), SLURM, Stop(ref(), 1, StoppedFor.USER)),
    ("7: stop, ending for a requeue", record(stop=ASK), status(requeuing), SLURM, Stop(ref(), 1, StoppedFor.USER)),
    ("7: stop, native bit", record(stop=ASK, native=True, covered=(0,)), status(running(requeue_bit=True)), SLURM,
     Stop(ref(), 1, StoppedFor.USER)),
    (
        "7>12: stop, wedge that is to fail",
        record(FAIL, stop=ASK, end=wedge()),
        status(wedged),
        KUBEFLOW,
        Stop(ref(), 1, StoppedFor.USER),
    ),
    ("7>14: stop, hold", record(stop=ASK, hold=hold()), status(gated()), SLURM, Stop(ref(), 1, StoppedFor.USER)),
    ("7>24: stop, gated, unproven", record(stop=ASK), status(gated(), ceased=False), SLURM,
     Stop(ref(), 1, StoppedFor.USER)),
    ("8>9: stop, succeeded before", record(stop=ASK, end=SUCCEEDED), status(done), SLURM, finish(State.SUCCEEDED)),
    ("9: stop, nothing was begun", altered(NEW, stop=ASK), status(), SLURM, finish(State.CANCELLED, Cause.STOPPED)),
    (
        "9: stop, it had ended",
        record(stop=ASK, end=end(Cause.TIMEOUT)),
        status(failed(cause=Cause.TIMEOUT)),
        SLURM,
        finish(State.CANCELLED, Cause.TIMEOUT),
    ),
    (
        "9: stop, an execution may be alive",
        record(stop=ASK, end=gone(Cause.STOPPED)),
        status(ceased=False),
        KUBEFLOW,
        finish(State.CANCELLED, Cause.STOPPED),
    ),
    (
        "9>13: stop, decision fail",
        record(FAIL, stop=ASK, end=end()),
        status(ended),
        SLURM,
        finish(State.CANCELLED, Cause.NON_ZERO_EXIT),
    ),
    (
        "9>11: stop, stopped to fail",
        record(stop=ASK, chosen=of(stopped_for=StoppedFor.FAIL), end=gone(Cause.NODE_LOST)),
        status(),
        KUBEFLOW,
        finish(State.CANCELLED, Cause.NODE_LOST),
    ),
    ("9>18: stop, hold", altered(NEW, stop=ASK, hold=hold(acked=True)), status(), SLURM,
     finish(State.CANCELLED, Cause.STOPPED)),
    ("9>21: stop, nothing chosen", altered(NEW, stop=ASK), status(), KUBEFLOW, finish(State.CANCELLED, Cause.STOPPED)),
    ("9>32: stop, decision restart", record(stop=ASK, end=end()), status(ended), SLURM,
     finish(State.CANCELLED, Cause.NON_ZERO_EXIT)),
    ("10: succeeded", record(end=SUCCEEDED), status(done), SLURM, finish(State.SUCCEEDED)),
    ("10: succeeded, then vanished", record(end=SUCCEEDED), status(), SLURM, finish(State.SUCCEEDED)),
    (
        "10>11: succeeded, stopped to fail",
        record(end=SUCCEEDED, chosen=of(stopped_for=StoppedFor.FAIL)),
        status(done),
        KUBEFLOW,
        finish(State.SUCCEEDED),
    ),
    ("10>18: succeeded, hold", record(end=SUCCEEDED, hold=hold()), status(done), SLURM, finish(State.SUCCEEDED)),
    (
        "11: stopped to fail",
        record(chosen=of(stopped_for=StoppedFor.FAIL), end=gone(Cause.NODE_LOST)),
        status(),
        KUBEFLOW,
        finish(State.FAILED, Cause.NODE_LOST),
    ),
    (
        "11>13: stopped to fail, the object reads Cancelled",
        record(FAIL, chosen=of(stopped_for=StoppedFor.FAIL), end=end(Cause.NODE_LOST, State.CANCELLED)),
        status(stopped),
        SLURM,
        finish(State.FAILED, Cause.NODE_LOST),
    ),
    (
        "11>18: stopped to fail, hold",
        record(chosen=of(stopped_for=StoppedFor.FAIL), end=gone(Cause.NODE_LOST), hold=hold()),
        status(),
        KUBEFLOW,
        finish(State.FAILED, Cause.NODE_LOST),
    ),
    ("12: wedge that is to fail", record(FAIL, end=wedge()), status(wedged), KUBEFLOW, Stop(ref(), 1, StoppedFor.FAIL)),
    (
        "12: unproven wedge that is to fail",
        record(FAIL, end=wedge()),
        status(wedged, ceased=False),
        KUBEFLOW,
        Stop(ref(), 1, StoppedFor.FAIL),
    ),
    (
        "12>14: wedge that is to fail, hold",
        record(FAIL, end=wedge(), hold=hold()),
        status(wedged),
        KUBEFLOW,
        Stop(ref(), 1, StoppedFor.FAIL),
    ),
    ("13: no rule, fail", record(FAIL, end=end()), status(ended), SLURM, finish(State.FAILED, Cause.NON_ZERO_EXIT)),
    (
        "13: a rule says fail",
        record(Policy((restart(action=Action.FAIL),)), end=gone()),
        status(),
        KUBEFLOW,
        finish(State.FAILED, Cause.UNKNOWN),
    ),
    (
        "13: the object was cancelled",
        record(FAIL, end=end(Cause.STOPPED, State.CANCELLED)),
        status(stopped),
        SLURM,
        finish(State.CANCELLED, Cause.STOPPED),
    ),
    (
        "13>18: decision fail, hold",
        record(FAIL, end=end(), hold=hold()),
        status(ended),
        SLURM,
        finish(State.FAILED, Cause.NON_ZERO_EXIT),
    ),
    ("14: hold, gated", record(hold=hold()), status(gated()), SLURM, Hold(ref(), 1)),
    ("14: hold, pending", record(hold=hold()), status(seen()), SLURM, Hold(ref(), 1)),
    ("14: another instance", record(hold=hold(instance=3)), status(seen(hold=2)), SLURM, Hold(ref(), 3)),
    ("14: acked, lifted by others", record(hold=hold(acked=True)), status(seen()), KUBEFLOW, Hold(ref(), 1)),
    ("14: running, can be held", record(hold=hold()), status(running()), KUBEFLOW, Hold(ref(), 1)),
    ("14: an admin holds it too", record(hold=hold()), status(seen(cause=Cause.ADMIN_HELD)), SLURM, Hold(ref(), 1)),
    ("14>15: ending, can be held", record(hold=hold()), status(ending), KUBEFLOW, Hold(ref(), 1)),
    ("14>16: running=stop, can be held", record(hold=OURS), status(running()), KUBEFLOW, Hold(ref(), 1)),
    ("14>27: wedge, hold", record(hold=hold(), end=wedge()), status(wedged, ceased=False), KUBEFLOW, Hold(ref(), 1)),
    ("15: hold, ending", record(hold=hold()), status(requeuing), SLURM, wait(WaitingFor.SCHEDULER)),
    ("15>16: ending, running=stop", record(hold=OURS), status(ending), SLURM, wait(WaitingFor.SCHEDULER)),
    ("16>17: running=stop", record(hold=OURS), status(running()), SLURM, Stop(ref(), 1, StoppedFor.HOLD)),
    (
        "17: running under an acknowledged hold",
        record(hold=hold(acked=True)),
        status(running()),
        SLURM,
        wait(WaitingFor.OTHER),
    ),
    ("17>18: a policy's hold", record(hold=hold(by=POLICY)), status(running()), SLURM, wait(WaitingFor.OTHER)),
    (
        "17: wedge parked, no holder",
        record(PARK, hold=hold(by=POLICY), end=wedge()),
        status(wedged),
        without(KUBEFLOW, *NO_HOLDER),
        wait(WaitingFor.OTHER),
    ),
    ("18: ours", record(hold=hold(acked=True)), status(seen(hold=1)), SLURM, wait(WaitingFor.HOLD)),
    ("18: until", record(hold=hold(until=DEADLINE)), status(seen(hold=1)), SLURM, wait(WaitingFor.HOLD, DEADLINE)),
    ("18>19: ours, proven", record(hold=hold()), status(gated(hold=1)), SLURM, wait(WaitingFor.HOLD)),
    ("18>21: nothing chosen", altered(NEW, hold=hold(acked=True)), status(), SLURM, wait(WaitingFor.HOLD)),
    (
        "18>24: gated, no holder",
        record(hold=hold(acked=True)),
        status(gated()),
        without(SLURM, Capability.HOLD),
        wait(WaitingFor.HOLD),
    ),
    ("18>28: parked", record(PARK, hold=hold(by=POLICY), end=end()), status(ended), SLURM, wait(WaitingFor.HOLD)),
    ("18>32: hold, ended", record(hold=hold(), end=end()), status(ended), SLURM, wait(WaitingFor.HOLD)),
    ("19: released", record(), status(seen(hold=4)), SLURM, Release(ref(), 4)),
    ("19: withdrawn", record(hold=hold(refused=True)), status(seen(hold=1)), SLURM, Release(ref(), 1)),
    ("19: no signal, cannot have run", record(chosen=of(may_have_run=False)), status(seen(hold=1)), KUBEFLOW_BLIND,
     Release(ref(), 1)),
    ("19: no signal, a hold ends nothing", record(), status(seen(hold=1)), SLURM_BLIND, Release(ref(), 1)),
    ("19>24: gated and held", record(), status(gated(hold=1)), SLURM, Release(ref(), 1)),
    ("19>23: an admin holds it too", record(), status(gated(hold=1, cause=Cause.ADMIN_HELD)), SLURM, Release(ref(), 1)),
    ("20: unproven", record(), status(seen(hold=1), ceased=False), KUBEFLOW, UNPROVEN),
    ("20: nobody says", record(), status(seen(hold=1), ceased=None), KUBEFLOW, UNPROVEN),
    ("20: no signal, it ran", record(), status(seen(hold=1), ceased=None), KUBEFLOW_BLIND, UNPROVEN),
    ("20>25: gated, held, unproven", record(), status(gated(hold=1), ceased=False), SLURM, UNPROVEN),
    ("21: the first", NEW, status(), SLURM, Start(1)),
    ("21: a number was spent", altered(NEW, submission=2), status(), KUBEFLOW, Start(3)),
    ("21: no signal", NEW, status(ceased=None), SLURM_BLIND, Start(1)),
    ("21: no signal, a number was spent", altered(NEW, submission=1), status(ceased=None), KUBEFLOW_BLIND, Start(2)),
    ("22: unproven", altered(NEW, submission=1), status(ceased=False), KUBEFLOW, UNPROVEN),
    ("22: an extra is ending", altered(NEW, submission=1), status(None, running(9, Cause.STOPPED)), SLURM, UNPROVEN),
    (
        "22: no signal, an extra is ending (CO-2 over row 21)",
        altered(NEW, submission=1),
        status(None, running(9, Cause.STOPPED), ceased=None),
        SLURM_BLIND,
        UNPROVEN,
    ),
    ("23>24: admin, proven", record(), status(gated(cause=Cause.ADMIN_HELD)), SLURM, wait(WaitingFor.ADMIN)),
    ("23>25: admin", record(), status(gated(cause=Cause.ADMIN_HELD), ceased=False), SLURM, wait(WaitingFor.ADMIN)),
    ("24: open", record(), status(gated()), SLURM, Open(ref())),
    ("24: no signal", record(), status(gated(), ceased=None), SLURM_BLIND, Open(ref())),
    ("25: unproven", record(), status(gated(), ceased=False), SLURM, UNPROVEN),
    ("25: extra ending", record(chosen=of(2)), status(gated(2), running(1, Cause.STOPPED)), SLURM, UNPROVEN),
    (
        "25: no signal, extra ending",
        record(chosen=of(2)),
        status(gated(2), running(1, Cause.STOPPED), ceased=None),
        SLURM_BLIND,
        UNPROVEN,
    ),
    ("26: running", record(), status(running(), ceased=False), SLURM, wait(WaitingFor.SCHEDULER)),
    ("26: no room", record(), status(seen(cause=Cause.NO_CAPACITY)), SLURM, wait(WaitingFor.SCHEDULER)),
    ("26: ending", record(), status(requeuing, ceased=False), SLURM, wait(WaitingFor.SCHEDULER)),
    ("26: admin", record(), status(seen(cause=Cause.ADMIN_HELD)), KUBEFLOW, wait(WaitingFor.ADMIN)),
    ("26: deactivated", record(), status(seen(cause=Cause.HELD)), KUBEFLOW, wait(WaitingFor.OTHER)),
    ("27: wedge", record(end=wedge()), status(wedged, ceased=False), KUBEFLOW, UNPROVEN),
    ("27: no signal", record(end=wedge()), status(wedged, ceased=None), KUBEFLOW_BLIND, UNPROVEN),
    ("27>28: decision hold", record(PARK, end=wedge()), status(wedged, ceased=False), KUBEFLOW, UNPROVEN),
    ("27>29: backoff", record(BACKOFF, end=wedge()), status(wedged, ceased=False), KUBEFLOW, UNPROVEN),
    ("27>30: restart", record(end=wedge()), status(wedged, ceased=False), KUBEFLOW, UNPROVEN),
    ("28: no rule", record(PARK, end=end()), status(ended), SLURM, PARKED),
    ("28: proven wedge", record(PARK, end=wedge()), status(wedged), KUBEFLOW, PARKED),
    ("28: a rule says hold", record(Policy((restart(action=Action.HOLD),)), end=end()), status(ended), SLURM, PARKED),
    ("28: used up", record(Policy((restart(limit=1),)), end=end(), counts=(1,)), status(ended), SLURM, PARKED),
    (
        "28: its backoff counts no more",
        record(Policy((restart(limit=1, backoff=MINUTE),)), end=end(), counts=(1,)),
        status(ended),
        SLURM,
        PARKED,
    ),
    ("28>31: unproven", record(PARK, end=end()), status(ended, ceased=False), SLURM, PARKED),
    ("29: backoff", record(BACKOFF, end=end()), status(ended), SLURM, wait(WaitingFor.POLICY_BACKOFF, DEADLINE)),
    (
        "29: charged already",
        record(BACKOFF, end=end(), charged=Charge(end().key, 0), counts=(1,)),
        status(ended),
        SLURM,
        wait(WaitingFor.POLICY_BACKOFF, DEADLINE),
    ),
    (
        "29>30: wedge, backoff",
        record(BACKOFF, end=wedge()),
        status(wedged),
        KUBEFLOW,
        wait(WaitingFor.POLICY_BACKOFF, DEADLINE),
    ),
    (
        "29>31: backoff, unproven",
        record(BACKOFF, end=end()),
        status(ended, ceased=False),
        SLURM,
        wait(WaitingFor.POLICY_BACKOFF, DEADLINE),
    ),
    (
        "30: wedge",
        record(end=wedge()),
        status(wedged),
        KUBEFLOW,
        Stop(ref(), 1, StoppedFor.RESTART, Restart(0)),
    ),
    (
        "30: a person let it go on",
        record(PARK, end=wedge(), go_on=said(wedge().key)),
        status(wedged),
        KUBEFLOW,
        Stop(ref(), 1, StoppedFor.RESTART, Restart()),
    ),
    ("31>32: unproven", record(end=end()), status(ended, ceased=False), SLURM, UNPROVEN),
    ("31>33: vanished", record(end=gone()), status(ceased=False), KUBEFLOW, UNPROVEN),
    ("31: no signal, NodeLost", record(end=end(Cause.NODE_LOST)), status(ended, ceased=None), SLURM_BLIND, UNPROVEN),
    ("31: extra ending", record(end=end()), status(ended, running(9, Cause.STOPPED)), SLURM, UNPROVEN),
    ("32>33: requeue", record(end=end()), status(ended), SLURM, Requeue(ref(), Restart(0))),
    ("32: free", record(PARK, end=end(), go_on=said(end().key)), status(ended), SLURM, Requeue(ref(), Restart())),
    (
        "32: charged already",
        record(end=end(), charged=Charge(end().key, 0), counts=(1,)),
        status(ended),
        SLURM,
        Requeue(ref(), Restart(0, charged=True)),
    ),
    (
        "32: the look's ref, not the record's",
        record(end=end(), chosen=of()),
        status(failed(ref=ref(1, at=9))),
        SLURM,
        Requeue(ref(1, at=9), Restart(0)),
    ),
    ("33: no requeue", record(end=end()), status(ended), KUBEFLOW, Start(2, Restart(0))),
    ("33: vanished", record(end=gone()), status(), SLURM, Start(2, Restart(0))),
    ("33: from history", record(end=end()), status(failed(from_history=True)), SLURM, Start(2, Restart(0))),
    (
        "33: not requeued here",
        record(end=end(), chosen=of(requeueable=False), charged=Charge(end().key, 0), counts=(1,)),
        status(ended),
        SLURM,
        Start(2, Restart(0, charged=True)),
    ),
    ("33: bit set", record(end=end()), status(failed(requeue_bit=True)), SLURM, Start(2, Restart(0))),
    ("33: a number was spent", record(end=end(), submission=2), status(ended), KUBEFLOW, Start(3, Restart(0))),
    (
        "33: confirmed by a person",
        record(end=gone(), word=said(gone().key)),
        status(ceased=None),
        KUBEFLOW_BLIND,
        Start(2, Restart(0)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "shown", "able", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_table(before: Record, shown: Status, able: Capabilities, expected: Step) -> None:
    """The first row of the table that holds."""
    assert plain(next_step(before, shown, able, T0)) == plain(expected)


def test_every_row_has_a_case() -> None:
    """All 33 of them."""
    assert {int(case[0].split(":")[0].split(">")[0]) for case in CASES} == set(range(1, ROWS + 1))


# the details of some rows


def test_the_skew_is_part_of_the_bound() -> None:
    """Row 3: an act is settled after deadline + call_bound + skew."""
    step = next_step(record(intent=intent(Kind.STOP)), status(running()), SLURM, T0, skew=timedelta(0))
    assert isinstance(step, Wait)
    assert step.until == DEADLINE + BOUND


def test_a_native_bit_stays() -> None:
    """CO-7, row 5: what a native policy set is not restored."""
    step = next_step(record(native=True, covered=(0,)), status(running(requeue_bit=True)), SLURM, T0)
    assert plain(step) == wait(WaitingFor.SCHEDULER)


def test_a_bit_that_nobody_can_clear_stays() -> None:
    """CO-12, CO-13, row 5: without `Requeue` there is no such call; the job goes on."""
    step = next_step(record(), status(running(requeue_bit=True)), without(SLURM, Capability.REQUEUE), T0)
    assert plain(step) == wait(WaitingFor.SCHEDULER)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (record(PARK, end=end(Cause.TIMEOUT)), "Timeout"),
        (record(Policy((restart(limit=1),)), end=end(), counts=(1,)), "NonZeroExit"),
        (record(Policy((restart(action=Action.HOLD),)), end=end()), "NonZeroExit"),
    ],
)
def test_a_job_is_parked_with_the_cause(before: Record, words: str) -> None:
    """Row 28: limit, rule or unmatched, with the cause."""
    step = next_step(before, status(ended), SLURM, T0)
    assert isinstance(step, Park)
    assert words in step.reason


@pytest.mark.parametrize(("late", "due"), [(59.9, False), (60, True)])
def test_a_backoff_ends(late: float, due: bool) -> None:
    """Row 29: from ``seen_at + backoff`` on the restart is made."""
    step = next_step(record(BACKOFF, end=end()), status(ended), SLURM, T0 + timedelta(seconds=late))
    assert isinstance(step, Requeue if due else Wait)


# decide

NODE, EXIT = Cause.NODE_LOST, Cause.NON_ZERO_EXIT
FREE = record(PARK, end=end(), chosen=of(stopped_for=StoppedFor.HOLD))


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (record(end=end()), Restart(0)),
        (record(Policy((restart(NODE), restart(EXIT))), end=end()), Restart(1)),
        (record(Policy((restart(EXIT, action=Action.FAIL), restart(EXIT))), end=end()), Decision.FAIL),
        (record(Policy((restart(EXIT, limit=2),)), end=end(), counts=(1,)), Restart(0)),
        (record(Policy((restart(EXIT, limit=2),), FAIL.unmatched), end=end(), counts=(2,)), Decision.FAIL),
        (record(Policy((restart(EXIT, limit=0),)), end=end()), Decision.HOLD),
        # a rule that is used up counts as unmatched: no later rule takes its place
        (record(Policy((restart(EXIT, limit=0), restart(EXIT)), PARK.unmatched), end=end()), Decision.HOLD),
        (record(PARK, end=end()), Decision.HOLD),
        (record(FAIL, end=end()), Decision.FAIL),
        (FREE, Restart()),
        (record(FAIL, end=end(), go_on=said(end().key)), Restart()),
        (record(FAIL, end=end(restarts=1), go_on=said(end().key)), Decision.FAIL),
        (record(FAIL, end=gone(), go_on=said(wedge().key)), Decision.FAIL),
        (record(Policy((restart(limit=1),)), end=end(), counts=(1,), charged=Charge(end().key, 0)),
         Restart(0, charged=True)),
        (record(FAIL, end=end(), charged=Charge(end().key, None)), Restart(None, charged=True)),
        (record(FAIL, end=end(restarts=1), charged=Charge(end().key, 0)), Decision.FAIL),
        # what the scheduler was told to do itself is not done again
        (record(RESTART, end=end(), covered=(0,)), Decision.HOLD),
    ],
)  # fmt: skip
def test_decide(before: Record, expected: Restart | Decision) -> None:
    """CO-8: charged for this end, then a person's release or a stop for a hold, then the first rule, then unmatched."""
    assert isinstance(before.end, End)
    found = decide(before, before.end)
    assert (found if isinstance(found, Restart) else found[0]) == expected


# proven

EXTRA = running(9, Cause.STOPPED)


@pytest.mark.parametrize(
    ("before", "shown", "able", "expected"),
    [
        # with the signal it says so, whatever the scheduler says
        (record(), status(gated(), ceased=True), SLURM, True),
        (record(), status(gated(), ceased=False), SLURM, False),
        (record(), status(gated(), ceased=None), SLURM, False),
        (record(end=end()), status(ended, ceased=False), SLURM, False),
        (record(end=end(NODE)), status(ended, ceased=True), SLURM, True),
        (record(end=end(), word=said(end().key)), status(ended, ceased=False), SLURM, False),
        (record(), status(gated(), EXTRA, ceased=True), SLURM, False),
        # without: the scheduler's word, or a person's
        (record(), status(gated(), EXTRA, ceased=None), SLURM_BLIND, False),
        (record(chosen=of(may_have_run=False)), status(gated(), ceased=None), SLURM_BLIND, True),
        (record(), status(seen(), ceased=None), SLURM_BLIND, True),
        (record(), status(seen(), ceased=None), KUBEFLOW_BLIND, False),
        (record(chosen=of(may_have_run=False)), status(seen(), ceased=None), KUBEFLOW_BLIND, True),
        (record(end=end()), status(ended, ceased=None), SLURM_BLIND, True),
        (record(end=end(NODE)), status(ended, ceased=None), SLURM_BLIND, False),
        (record(end=end(NODE), word=said(end(NODE).key)), status(ended, ceased=None), SLURM_BLIND, True),
        (record(end=end(NODE, restarts=1), word=said(end(NODE).key)), status(ended, ceased=None), SLURM_BLIND, False),
        (record(end=wedge()), status(wedged, ceased=None), KUBEFLOW_BLIND, False),
        (record(end=wedge(), word=said(wedge().key)), status(wedged, ceased=None), KUBEFLOW_BLIND, True),
        (record(end=gone()), status(ceased=None), SLURM_BLIND, False),
        (record(end=gone(), chosen=of(may_have_run=False)), status(ceased=None), SLURM_BLIND, True),
        (record(end=gone(), word=said(gone().key)), status(ceased=None), SLURM_BLIND, True),
        (record(end=gone(), word=said(gone().key)), status(None, EXTRA, ceased=None), SLURM_BLIND, False),
    ],
)
def test_proven(before: Record, shown: Status, able: Capabilities, expected: bool) -> None:
    """CO-2: that every execution of the job has ceased."""
    assert proven(before, shown, able) is expected


def test_a_verdict_waits_for_the_last_object() -> None:
    """CO-15: none while an object of the job is live, though it is ending for a stop."""
    ending = running(9, Cause.STOPPED)
    shown = status(seen(state=State.SUCCEEDED), ending)
    success = end(None, State.SUCCEEDED)
    assert isinstance(next_step(record(end=success), status(seen(state=State.SUCCEEDED)), SLURM, T0), Finish)
    assert plain(next_step(record(end=success), shown, SLURM, T0)) == wait(WaitingFor.SCHEDULER)


def test_a_bit_that_no_native_policy_sets_is_cleared() -> None:
    """CO-7: that one was allowed does not mean that one was passed on."""
    step = next_step(record(native=True, covered=()), status(running(requeue_bit=True)), SLURM, T0)
    assert plain(step) == RestoreRequeueBit(ref())
