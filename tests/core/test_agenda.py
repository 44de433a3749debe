"""4.1: when a job is looked at again: woken by what is told, polled, bounded, backing off; on a clock moved by hand."""

from datetime import datetime, timedelta
from math import inf
from typing import Any

import pytest
from ulid import ULID

from dispatch_memory_async import Cause, DispatchError, InvalidError, Observation, State, UnavailableError
from dispatch_memory_async.core.agenda import Agenda, Made
from dispatch_memory_async.core.look import Look
from dispatch_memory_async.core.record import Verdict
from dispatch_memory_async.core.status import Phase, Status, WaitingFor
from dispatch_memory_async.core.steps import Finish, Open, Start, Step, Wait
from dispatch_memory_async.model.base import altered
from tests.core.samples import record, ref, running, seen
from tests.support import MINUTE, SECOND, T0, Clock, ulid

POLL = MINUTE
ONE, TWO = ulid(1), ulid(2)
REST = Wait(why=WaitingFor.SCHEDULER)
VERDICT = Verdict(state=State.SUCCEEDED, cause=None, at=T0)
PENDING, RUNNING = seen(), running()
HELD = seen(cause=Cause.ADMIN_HELD)
GONE = seen(state=State.GONE)


def agenda(clock: Clock, *, dated: Clock | None = None, poll: timedelta = POLL, concurrency: int = 16) -> Agenda:
    def seconds() -> float:
        return (clock.now - T0).total_seconds()

    return Agenda(clock=dated or clock, time=seconds, poll=poll, concurrency=concurrency)


def look(*objects: Observation, complete: bool = True) -> Look:
    return Look(began_at=T0, objects=objects, complete=complete)


def made(step: Step = REST, refusal: DispatchError | None = None, *, version: int = 1, raced: bool = False) -> Made:
    """What came of a step: what it waits for is said by the step."""
    waiting = step.why if isinstance(step, Wait) else WaitingFor.ACT
    verdict = step.verdict if isinstance(step, Finish) else None
    status = Status(state=Phase.PENDING, as_of=T0, waiting_for=waiting, verdict=verdict)
    return Made(status, step, version, refusal, raced)


def brought_on(on: Agenda, job_id: ULID, shown: Look, came: Made) -> None:
    """It is woken, taken, and brought on; nothing else is due."""
    on.wake(job_id)
    assert on.take() == (job_id,)
    on.made(job_id, shown, came)


def resting(clock: Clock, *objects: Observation, **options: Any) -> Agenda:
    """Job 1 is known, shows that, and waits for news; all have just been looked at."""
    on = agenda(clock, **options)
    assert on.sweep() == []
    on.swept({})
    brought_on(on, ONE, look(*objects), made())
    assert on.take() == ()
    return on


# what makes a job due


@pytest.mark.parametrize("news", [RUNNING, HELD, GONE], ids=["runs", "held", "gone"])
def test_it_is_woken_by_what_is_told(clock: Clock, news: Observation) -> None:
    """4.1: it wakes on the watch, whatever that tells: going is a change like others."""
    on = resting(clock, PENDING)
    on.told(news)
    assert (on.pause(), on.take()) == (0, (ONE,))


def test_what_is_known_wakes_nobody(clock: Clock) -> None:
    """4.1: due is what the scheduler shows otherwise than before; the moment of seeing it is no difference."""
    on = resting(clock, PENDING)
    on.told(altered(PENDING, observed_at=T0 + SECOND))
    on.told(altered(PENDING, job_id=TWO))  # a job of which there is no record
    on.swept({ONE: look(altered(PENDING, observed_at=T0 + SECOND))})
    assert on.take() == ()


def test_what_is_told_during_the_first_look_counts(clock: Clock) -> None:
    """4.1: nothing is known of the job yet, and the look that is under way may be older than what is told."""
    on = agenda(clock)
    on.wake(ONE)
    assert on.take() == (ONE,)
    on.told(RUNNING)
    on.made(ONE, look(PENDING), made())
    assert on.take() == (ONE,)


def test_what_is_told_during_a_look_counts_though_it_was_like_that_before(clock: Clock) -> None:
    """4.1: Pending, held, looked at, released meanwhile: the look shows the hold, and it is over."""
    on = resting(clock, PENDING)
    on.told(HELD)
    assert on.take() == (ONE,)
    on.told(PENDING)
    on.made(ONE, look(HELD), made(Wait(why=WaitingFor.ADMIN)))
    assert on.take() == (ONE,)


def test_who_is_brought_on_is_not_taken_a_second_time(clock: Clock) -> None:
    """4.1: what happens meanwhile makes it due again, afterwards."""
    on = agenda(clock)
    on.wake(ONE)
    assert on.take() == (ONE,)
    on.wake(ONE)
    assert on.take() == ()
    on.made(ONE, look(PENDING), made())
    assert on.take() == (ONE,)


def test_a_written_record_makes_it_due_unless_we_wrote_it(clock: Clock) -> None:
    """4.1: it is read, and that was all if it has the version that is known."""
    on = resting(clock, PENDING)
    on.written(ONE)
    assert on.take() == (ONE,)
    assert on.passed(record(version=1))
    on.written(ONE)
    assert on.take() == (ONE,)
    assert not on.passed(record(version=2))
    on.made(ONE, look(PENDING), made(version=2))
    on.written(ONE)
    on.told(RUNNING)  # there is more to it than the record
    assert on.take() == (ONE,)
    assert not on.passed(record(version=2))


# all are looked at


def test_all_are_looked_at_once_a_poll(clock: Clock) -> None:
    """4.1: it polls as a fallback, after 60 seconds and not before; those that are due anyway are left out."""
    on = resting(clock, PENDING)
    brought_on(on, TWO, look(), made())
    clock.advance(59.9)
    assert on.sweep() is None
    assert on.pause() == pytest.approx(0.1)
    clock.advance(0.1)
    assert on.pause() == 0
    on.wake(TWO)
    assert on.sweep() == [ONE]
    on.swept({ONE: look(RUNNING)})
    assert on.take() == (TWO, ONE)


def test_one_look_at_all_at_a_time(clock: Clock) -> None:
    """4.1: while the last one is not answered there is no other, and it is not waited for in a hurry."""
    on = resting(clock, PENDING)
    clock.advance(POLL)
    assert on.sweep() == [ONE]
    clock.advance(10 * POLL)
    assert on.sweep() is None
    assert on.pause() == inf
    on.swept({ONE: look(PENDING)})
    assert on.pause() == 0
    assert on.sweep() == [ONE]


def test_a_look_that_is_not_complete_shows_nothing(clock: Clock) -> None:
    """4.1: what was not answered is no change."""
    on = resting(clock, PENDING)
    clock.advance(POLL)
    assert on.sweep() == [ONE]
    on.swept({ONE: look(complete=False)})
    assert on.take() == ()


def test_all_are_looked_at_when_it_begins_to_listen(clock: Clock) -> None:
    """4.1: correctness never rests on the watch, which does not tell what went before it."""
    on = resting(clock, PENDING)
    clock.advance(SECOND)
    assert (on.sweep(), on.pause()) == (None, 59)
    on.listening()
    assert on.pause() == 0
    assert on.sweep() == [ONE]
    on.listening()  # the watch has begun anew, and the look under way may be older
    on.swept({ONE: look(PENDING)})
    assert on.sweep() == [ONE]
    on.swept({ONE: look(PENDING)})
    assert (on.sweep(), on.pause()) == (None, 60)


# who has a verdict


def test_one_that_got_its_verdict_is_not_looked_at_any_more(clock: Clock) -> None:
    """4.1: no poll asks about it, and nothing that is told of it makes it due."""
    on = agenda(clock)
    brought_on(on, ONE, look(RUNNING), made(Finish(VERDICT)))
    assert on.sweep() == []
    on.told(GONE)
    assert on.take() == ()


def test_one_to_which_another_gave_a_verdict_is_not_looked_at_any_more(clock: Clock) -> None:
    """4.1: several supervisors work on the same records: what the record says counts."""
    on = resting(clock, PENDING)
    on.written(ONE)
    assert on.take() == (ONE,)
    assert on.passed(record(version=2, verdict=VERDICT))
    clock.advance(POLL)
    assert on.sweep() == []
    on.told(GONE)
    assert on.take() == ()


# while the scheduler does not answer


def test_it_is_left_alone_while_it_does_not_answer(clock: Clock) -> None:
    """4.1: for five seconds neither one job is looked at nor all; who was taken is still due then."""
    on = resting(clock, PENDING)
    clock.advance(58)
    on.wake(ONE)
    assert on.take() == (ONE,)
    on.be_quiet()
    on.unanswered(ONE)
    clock.advance(4)  # the next poll falls into these five seconds
    assert (on.take(), on.sweep(), on.pause()) == ((), None, 1)
    clock.advance(SECOND)
    assert on.pause() == 0
    assert on.take() == (ONE,)
    assert on.sweep() == [ONE]


@pytest.mark.parametrize(
    "came",
    [made(Start(1), UnavailableError("no")), made(Wait(why=WaitingFor.LOOK))],
    ids=["an act", "a look"],
)
def test_an_act_or_a_look_that_is_not_answered_makes_it_quiet(clock: Clock, came: Made) -> None:
    """4.1: it backs off, and the job is due after that."""
    on = agenda(clock)
    brought_on(on, ONE, look(), came)
    assert (on.take(), on.pause(), on.quiet_until) == ((), 5, 5)
    clock.advance(5)
    assert on.take() == (ONE,)


def test_it_backs_off_up_to_a_minute(clock: Clock) -> None:
    """4.1: twice as long each time; who has heard of it meanwhile does not add to it."""
    on = agenda(clock)
    delays: list[float] = []
    for _ in range(6):
        on.be_quiet()
        on.be_quiet()
        clock.advance(on.delay / 2)
        on.be_quiet()
        delays.append(on.delay)
        clock.advance(on.pause())
    assert delays == [5, 10, 20, 40, 60, 60]
    assert clock.now == T0 + timedelta(seconds=195)


@pytest.mark.parametrize(("answers", "delay"), [(9.5, 10), (10, 5)])
def test_it_begins_anew_when_it_was_long_ago(clock: Clock, answers: float, delay: float) -> None:
    """4.1: after five seconds of quiet, ten seconds without trouble make the next one the first."""
    on = agenda(clock)
    on.be_quiet()
    clock.advance(5 + answers)
    on.be_quiet()
    assert (on.delay, on.pause()) == (delay, delay)


def test_a_short_poll_is_a_short_quiet(clock: Clock) -> None:
    """4.1: at first no longer than a poll."""
    on = agenda(clock, poll=SECOND)
    on.be_quiet()
    assert on.pause() == 1


# when one waits


def test_a_wait_is_over_in_time(clock: Clock) -> None:
    """The class: a job is due when its wait is over, and not before."""
    on = resting(clock, PENDING, poll=timedelta(days=1))
    brought_on(on, ONE, look(PENDING), made(Wait(why=WaitingFor.POLICY_BACKOFF, until=T0 + 10 * SECOND)))
    assert on.pause() == pytest.approx(10, abs=0.01)
    clock.advance(10)
    assert on.take() == ()
    clock.advance(0.01)
    assert on.pause() == 0
    assert on.take() == (ONE,)


def test_a_wait_that_is_over_already_keeps_nobody_waiting(clock: Clock) -> None:
    """The class: as when the clock is behind the one by which the wait was reckoned."""
    on = agenda(clock)
    brought_on(on, ONE, look(PENDING), made(Wait(why=WaitingFor.POLICY_BACKOFF, until=T0 - MINUTE)))
    clock.advance(0.01)
    assert on.take() == (ONE,)


@pytest.mark.parametrize(
    "step", [REST, Wait(why=WaitingFor.POLICY_BACKOFF, until=T0 + 20 * SECOND)], ids=["for news", "for a moment"]
)
def test_one_that_was_woken_meanwhile_waits_by_its_last_step(clock: Clock, step: Wait) -> None:
    """The class: an old wait that is over, at 10 seconds, says nothing about it any more."""
    on = resting(clock, PENDING, poll=timedelta(days=1))
    brought_on(on, ONE, look(PENDING), made(Wait(why=WaitingFor.POLICY_BACKOFF, until=T0 + 10 * SECOND)))
    clock.advance(5)
    on.told(RUNNING)
    assert on.take() == (ONE,)
    on.made(ONE, look(RUNNING), made(step))
    clock.advance(6)
    assert on.take() == ()
    clock.advance(10)
    assert on.take() == (ONE,) * (step.until is not None)


def test_old_waits_do_not_pile_up(clock: Clock) -> None:
    """The class: a job put off 2000 times waits once; the one put off before it, and never woken, is not forgotten."""
    on = agenda(clock, poll=timedelta(days=1))
    brought_on(on, TWO, look(), made(Wait(why=WaitingFor.ACT, until=T0 + 30 * MINUTE)))
    for _ in range(2000):
        brought_on(on, ONE, look(), made(Wait(why=WaitingFor.ACT, until=T0 + 20 * MINUTE)))
    assert len(on._later) < 200  # pyright: ignore[reportPrivateUsage]
    clock.advance(20 * MINUTE + SECOND)
    assert on.take() == (ONE,)
    clock.advance(10 * MINUTE)
    assert on.take() == (TWO,)


# how it ended


def test_so_many_are_brought_on_at_once(clock: Clock) -> None:
    """4.1: it is bounded in concurrency; when all places are taken there is nothing to do."""
    on = resting(clock, concurrency=2)
    for number in range(1, 6):
        on.wake(ulid(number))
    assert on.take() == (ulid(1), ulid(2))
    assert (on.take(), on.pause()) == ((), 60)
    on.made(ulid(2), look(), made())
    assert on.pause() == 0
    assert (on.take(), on.take()) == ((ulid(3),), ())


def test_what_was_done_is_looked_at_at_once(clock: Clock) -> None:
    """The class: a job is due when its last step has done something, though nobody tells of it."""
    on = agenda(clock)
    brought_on(on, ONE, look(PENDING), made(Open(ref())))
    assert on.take() == (ONE,)


def test_what_was_done_and_does_not_show_yet_is_done_again_after_a_poll(clock: Clock) -> None:
    """CO-12: not again and again; but another act, or one after which it looks different, is looked at at once."""
    on = agenda(clock)
    brought_on(on, ONE, look(PENDING), made(Open(ref(1))))
    brought_on(on, ONE, look(HELD), made(Open(ref(1))))
    brought_on(on, ONE, look(HELD), made(Open(ref(2))))
    brought_on(on, ONE, look(altered(HELD, observed_at=T0 + SECOND)), made(Open(ref(2))))
    assert on.take() == ()
    clock.advance(59.9)
    assert on.take() == ()
    clock.advance(0.1)
    assert on.take() == (ONE,)


@pytest.mark.parametrize(
    "came",
    [made(Open(ref()), InvalidError("no such queue")), made(Wait(why=WaitingFor.CESSATION))],
    ids=["refused", "proof is awaited"],
)
def test_what_a_poll_alone_can_settle_waits_for_one(clock: Clock, came: Made) -> None:
    """4.1: what was refused, or waits for proof of which no watch tells, is tried again after 60 seconds."""
    on = agenda(clock)
    brought_on(on, ONE, look(PENDING), came)
    assert on.take() == ()
    clock.advance(59.9)
    assert on.take() == ()
    clock.advance(0.1)
    assert on.take() == (ONE,)


def test_who_has_lost_a_race_is_due_at_once(clock: Clock) -> None:
    """4.1: several supervisors on the same records are safe: who was second looks again."""
    on = agenda(clock)
    brought_on(on, ONE, look(PENDING), made(raced=True))
    assert on.take() == (ONE,)


def test_what_goes_wrong_is_tried_again_after_a_poll(clock: Clock) -> None:
    """4.1: for that job alone, and its place is free at once."""
    on = resting(clock, concurrency=1)
    on.wake(ONE)
    assert on.take() == (ONE,)
    on.failed(ONE)
    on.wake(TWO)
    assert on.take() == (TWO,)
    on.made(TWO, look(), made())
    clock.advance(POLL)
    assert on.take() == (ONE,)


class Broken(Clock):
    """A clock that cannot be read."""

    def __call__(self) -> datetime:
        raise OSError("no time")


def test_what_goes_wrong_in_saying_how_it_ended_is_tried_again(clock: Clock) -> None:
    """4.1: a job whose end could not be noted is still taken, so that it can be said to have failed."""
    on = agenda(clock, dated=Broken(), concurrency=1)
    on.wake(ONE)
    assert on.take() == (ONE,)
    with pytest.raises(OSError, match="no time"):
        on.made(ONE, look(PENDING), made(Wait(why=WaitingFor.POLICY_BACKOFF, until=T0 + SECOND)))
    on.failed(ONE)
    assert on.take() == ()
    clock.advance(POLL)
    assert on.take() == (ONE,)


def test_a_job_nobody_has_brought_on_yet_is_brought_on(clock: Clock) -> None:
    """4.1: those that come are due by their record alone."""
    on = agenda(clock)
    on.written(ONE)
    assert on.take() == (ONE,)
    assert not on.passed(record(chosen=None))
