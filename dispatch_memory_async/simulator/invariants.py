"""The invariants: what must hold after every step, and at rest, whatever happens (04b, 3.1).

Each is an object that is told what happens to a job, in the terms of its case, and raises a
violation when it sees itself broken.
"""

from datetime import timedelta
from typing import NoReturn

from ..core import POLICY, Charge, End, EndKey, Kind, Record, Status, StoppedFor, WaitingFor
from ..memory import Execution
from ..model import Action, Capability, Cause, State
from .actors import Actor, Flight
from .case import LIVE, Begun, Case, Change

__all__ = ("BEGINS", "INVARIANTS", "Invariant", "ViolationError")

BEGINS = (Kind.START, Kind.OPEN, Kind.REQUEUE, Kind.RELEASE)
"""The acts by which the core causes an execution."""
RESTS = (WaitingFor.HOLD, WaitingFor.ADMIN, WaitingFor.OTHER, WaitingFor.CESSATION)
SKEW = timedelta(seconds=2)


class ViolationError(Exception):
    """An invariant does not hold.

    :ivar invariant: which
    :ivar what: what was seen
    """

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


class Invariant:
    """One of them; what it does not override says nothing.

    :ivar name: its number, ``I1`` to ``I17``
    """

    name: str = ""

    def violated(self, what: str) -> NoReturn:
        """Say that it does not hold."""
        raise ViolationError(self.name, what)

    def written(self, case: Case, before: Record, record: Record, by: Actor) -> None:
        """A record was written."""

    def stored(self, case: Case, found: Record | None) -> None:
        """A record was read, from where records are kept."""

    def departed(self, case: Case, flight: Flight) -> None:
        """A call starts that changes something; it is not among the flights yet."""

    def landed(self, case: Case, flight: Flight, change: Change) -> None:
        """A call of the core has changed an object."""

    def begun(self, case: Case, change: Change, execution: Execution, by: Begun) -> None:
        """An execution has begun."""

    def rested(self, case: Case, status: Status) -> None:
        """The quiet phase is over."""


class ExecutionsApart(Invariant):
    """CO-2: when the core begins an execution, all others of the job have ceased, but for those of others since."""

    name = "I1"

    def begun(self, case: Case, change: Change, execution: Execution, by: Begun) -> None:
        if by.who != "core":
            return
        for other in case.executions.values():
            if other.attempt != execution.attempt and other.alive and not self._excused(case, other.attempt, by.look):
                self.violated(f"an execution of object {change.place + 1} begins while {other.epoch} is alive")

    def _excused(self, case: Case, attempt: str, look: int) -> bool:
        who, when = case.begun[attempt]
        if who != "core" and when > look:
            return True
        blind = Capability.CESSATION in case.options.lost
        return blind and (attempt in case.lost or bool(case.options.config.kill_wait))


class ObjectsApart(Invariant):
    """CO-2: what begins an execution lands only while no other object of the job can have one."""

    name = "I2"

    def landed(self, case: Case, flight: Flight, change: Change) -> None:
        if not effective(flight, change):
            return
        for place, truth in enumerate(case.truths):
            if place == change.place or truth.gone_at is not None or truth.state not in LIVE:
                continue
            free = not truth.gated and truth.hold is None and truth.active
            if free and case.untouched(place, flight.of.look):
                self.violated(f"{flight.call} of object {change.place + 1} lands, and object {place + 1} is live")


class EpochsRise(Invariant):
    """CO-5: no two executions share an epoch, and those of the core and of its object have ever higher ones."""

    name = "I3"

    def begun(self, case: Case, change: Change, execution: Execution, by: Begun) -> None:
        epoch, epochs = execution.epoch, case.epochs
        if epoch in epochs:
            self.violated(f"two executions have epoch {epoch}")
        chosen = case.record.chosen if case.record else None
        ours = chosen is not None and chosen.submission == change.new.submission
        counts = by.who == "core" or (by.who == "scheduler" and ours)
        if counts and epochs and epoch < max(epochs):
            self.violated(f"an execution with epoch {epoch} begins after {max(epochs)}")


class HoldsHold(Invariant):
    """CO-6: nothing begins under an acknowledged hold, but for what somebody else has begun since."""

    name = "I4"

    def begun(self, case: Case, change: Change, execution: Execution, by: Begun) -> None:
        hold = case.record.in_force if case.record else None
        if not (hold and hold.acked) or by.who == "other" or not case.untouched(change.place, case.acked_by):
            return
        if hold.until is None or case.now < hold.until - SKEW:
            self.violated(f"an execution of object {change.place + 1} begins under an acknowledged hold")


class BitsClear(Invariant):
    """CO-7: at rest no live object has its requeue bit set, unless the scheduler was told to carry out the policy."""

    name = "I5"

    def rested(self, case: Case, status: Status) -> None:
        covered = case.record is not None and bool(case.record.covered)
        if status.verdict or covered or Capability.REQUEUE in case.options.lost:
            return
        for place, truth in enumerate(case.truths):
            if truth.gone_at is None and truth.state in LIVE and truth.requeue_bit:
                self.violated(f"object {place + 1} has its requeue bit set")


class LimitsHold(Invariant):
    """CO-8: no rule restarts oftener than it may, before its backoff is over, or after a cause that is not its own.

    Which rule that is, is worked out from the policy: what the core has charged it to is not believed.
    """

    name = "I6"

    def landed(self, case: Case, flight: Flight, change: Change) -> None:
        record, kind = flight.of.record, flight.of.kind
        restarts = kind is Kind.START or (kind is Kind.REQUEUE and effective(flight, change))
        if not restarts or (record.chosen is None and record.end is None):
            return
        end = record.end
        if end is None:
            self.violated("it is restarted, and no end of it is recorded")
        if self._is_free(record, end):
            return
        index = self._rule(record, end)
        if index is None:
            self.violated(f"it is restarted after {end.cause}, which no rule names")
        rule, ends = record.policy.rules[index], case.restarted.setdefault(index, set())
        if rule.action is not Action.RESTART:
            self.violated(f"it is restarted after {end.cause}, and rule {index + 1} is to {rule.action} it")
        if record.charged != Charge(end.key, index):
            self.violated(f"it is restarted after {end.cause}, and that is not charged to rule {index + 1}")
        ends.add(end.key)  # an end that nobody could see was restarted again for free
        if rule.limit is not None and len(ends) > rule.limit:
            self.violated(f"rule {index + 1} has restarted it {len(ends)} times, of {rule.limit}")
        if case.now < end.seen_at + rule.backoff - SKEW:
            self.violated(f"rule {index + 1} has restarted it before its backoff was over")

    @staticmethod
    def _is_free(record: Record, end: End) -> bool:
        """Whether a person has released it after that end, or a hold has stopped it."""
        if record.chosen and record.chosen.stopped_for is StoppedFor.HOLD:
            return True
        said = record.go_on.end if record.go_on else None
        wedge = EndKey(end.submission, end.restarts, wedge=True)  # which was stopped, for that it goes on
        return said is not None and said in (end.key, wedge)

    @staticmethod
    def _rule(record: Record, end: End) -> int | None:
        """The rule that an end falls under: the first that names its cause and is not the scheduler's own."""
        rules = enumerate(record.policy.rules)
        return next((index for index, rule in rules if index not in record.covered and end.cause in rule.causes), None)


class StopsStand(Invariant):
    """CO-8: nothing begins by an act that was intended after a stop was asked for."""

    name = "I7"

    def landed(self, case: Case, flight: Flight, change: Change) -> None:
        if flight.of.kind in BEGINS and flight.of.record.stop is not None:
            self.violated(f"{flight.call} was intended after the stop")


class VerdictsStand(Invariant):
    """CO-15: a verdict never changes, is given with no act in flight, and the core begins nothing after it."""

    name = "I8"

    def written(self, case: Case, before: Record, record: Record, by: Actor) -> None:
        if before.verdict and record.verdict != before.verdict:
            self.violated(f"the verdict {before.verdict.state} became another")
        if record.verdict and record.intent is not None:
            self.violated(f"a verdict is given while {record.intent.kind} may be under way")

    def begun(self, case: Case, change: Change, execution: Execution, by: Begun) -> None:
        if by.who == "core" and case.record and case.record.verdict:
            self.violated(f"an execution of object {change.place + 1} begins after the verdict")


class CausesStand(Invariant):
    """CO-9: a cause once stored for an end stays, and a verdict's cause has arisen, or is unknown as it vanished."""

    name = "I9"

    def written(self, case: Case, before: Record, record: Record, by: Actor) -> None:
        old, new = before.end, record.end
        requeued = before.intent is not None and before.intent.kind is Kind.REQUEUE
        if old and new and not requeued and old.cause not in (None, Cause.UNKNOWN):
            same = (old.submission, old.restarts) == (new.submission, new.restarts)
            if same and new.state is not State.SUCCEEDED and new.cause is not old.cause:
                self.violated(f"the cause {old.cause} became {new.cause}")
        if new and new.cause is Cause.UNKNOWN and (old is None or (old.key, old.cause) != (new.key, new.cause)):
            self._is_unknown(case, new, by)
        if record.verdict and not before.verdict:
            self._has_arisen(case, record, record.verdict.cause)

    def _is_unknown(self, case: Case, end: End, by: Actor) -> None:
        """What is not known must be gone, or not to be read any more: what was shown was not known either."""
        shown = [seen for seen in by.found if seen.submission == end.submission]
        if end.gone and shown:
            self.violated(f"submission {end.submission} is said to be gone, and was shown")
        if not end.gone and Cause.UNKNOWN not in [seen.cause for seen in shown]:
            self.violated(f"the cause of submission {end.submission} is said to be unknown, and was shown")

    def _has_arisen(self, case: Case, record: Record, cause: Cause | None) -> None:
        arisen = case.causes.get(record.chosen.submission, set()) if record.chosen else set[Cause | None]()
        vanished = cause is Cause.UNKNOWN and record.end is not None and record.end.cause is Cause.UNKNOWN
        ours = record.stop is not None or (record.chosen is not None and record.chosen.stopped_for is not None)
        if cause is not None and cause not in arisen and not vanished and not (cause is Cause.STOPPED and ours):
            self.violated(f"the verdict's cause {cause} never arose")


class SuccessesAre(Invariant):
    """CO-9: what is said to have succeeded has an execution that exited with 0."""

    name = "I10"

    def written(self, case: Case, before: Record, record: Record, by: Actor) -> None:
        succeeds = record.verdict and not before.verdict and record.verdict.state is State.SUCCEEDED
        if succeeds and not any(execution.exit_code == 0 for execution in case.executions.values()):
            self.violated("it is said to have succeeded, and no execution exited with 0")


class DeadlinesHold(Invariant):
    """CO-4: no act does anything that started after its deadline, or that lands later than ``call_bound`` after it."""

    name = "I11"

    def landed(self, case: Case, flight: Flight, change: Change) -> None:
        if flight.started > flight.of.deadline:
            self.violated(f"{flight.call} does something, and started after its deadline")
        if case.now - flight.started > case.options.config.call_bound:
            self.violated(f"{flight.call} does something, and landed later than a call may")


class ActsOnce(Invariant):
    """CO-1: every act has a stored intent, is called once, and is the only one of its job that is under way."""

    name = "I12"

    def departed(self, case: Case, flight: Flight) -> None:
        of = flight.of
        if of.id in case.called:
            self.violated(f"{flight.call} of intent {of.id} is called twice")
        intent = case.record.intent if case.record else None
        stands = intent is not None and intent.id == of.id
        if not stands or flight.started > of.deadline:
            return  # a look has settled it, as idempotent acts can be
        for other in case.flights:
            if other.started <= other.of.deadline and self._can_matter(case, other):
                self.violated(f"{flight.call} starts while {other.call} is under way")

    @staticmethod
    def _can_matter(case: Case, flight: Flight) -> bool:
        """Whether a call on its way can still do something that a look did not settle."""
        of = flight.of
        if of.kind in (Kind.START, Kind.REQUEUE):
            return True
        for place, truth in enumerate(case.truths):
            if truth.ref == of.ref and truth.gone_at is None and truth.state in LIVE:
                if not case.untouched(place, of.look):
                    return False
                match of.kind:
                    case Kind.OPEN:
                        return truth.gated
                    case Kind.HOLD:
                        return (truth.hold or 0) < (of.instance or 0)
                    case Kind.RELEASE:
                        return truth.hold == of.instance
                    case Kind.RESTORE:
                        return bool(truth.requeue_bit)
                    case _:
                        return truth.cause is not Cause.STOPPED
        return False


class RecordsLast(Invariant):
    """4.1: what was answered is there: no version is lost, and none is written twice."""

    name = "I13"

    def written(self, case: Case, before: Record, record: Record, by: Actor) -> None:
        if record.version != before.version + 1:
            self.violated(f"version {record.version} was written after {before.version}")

    def stored(self, case: Case, found: Record | None) -> None:
        if found is None:
            self.violated("there is no record of it")
        if found != case.record:
            had = case.record.version if case.record else 0
            self.violated(f"version {found.version} is stored otherwise than version {had} was acknowledged")


class OneStands(Invariant):
    """CO-2, CO-15: at rest no object is live but the chosen one, and none after a verdict, but those of others."""

    name = "I14"

    def rested(self, case: Case, status: Status) -> None:
        record = case.record
        number = record.chosen.submission if record and record.chosen else None
        for place, truth in enumerate(case.truths):
            live = truth.gone_at is None and truth.state in LIVE
            if live and place not in case.touched and (status.verdict or truth.submission != number):
                self.violated(f"object {place + 1} is live at rest")


class RestIsReached(Invariant):
    """CO-12: once faults stop, a job comes to a verdict, or to rest with a reason that holds."""

    name = "I15"

    def rested(self, case: Case, status: Status) -> None:
        record = case.record
        if status.verdict or record is None:
            return
        if status.waiting_for not in RESTS:
            self.violated(f"it rests, and waits for {status.waiting_for}: {status.why}")
        alive = any(execution.alive for execution in case.executions.values())
        blind = Capability.CESSATION in case.options.lost
        if status.waiting_for is WaitingFor.CESSATION and not (alive or blind):
            self.violated("it waits for proof, and nothing is alive")
        if status.waiting_for is not WaitingFor.HOLD:
            return
        hold = record.in_force
        if hold is None or (hold.until and hold.until <= case.now):
            self.violated("it waits for a hold that is over")
        live = [truth for truth in case.truths if truth.gone_at is None and truth.state in LIVE]
        if hold.by != POLICY and not hold.acked and not (live and Capability.HOLD in case.options.lost):
            self.violated("it waits under a hold that is never acknowledged")


class OthersAreLeft(Invariant):
    """CO-10: an administrator's hold or a foreign deactivation is not what an act is made for."""

    name = "I16"

    def written(self, case: Case, before: Record, record: Record, by: Actor) -> None:
        intent, chosen = record.intent, record.chosen
        if intent is None or (before.intent and before.intent.id == intent.id):
            return
        if record.stop or record.in_force or chosen is None or chosen.submission != intent.submission:
            return
        seen = by.seen
        if seen is None or seen.submission != intent.submission or seen.hold is not None:
            return
        left_alone = seen.cause is Cause.ADMIN_HELD or (seen.cause is Cause.HELD and seen.state is State.PENDING)
        if left_alone and intent.kind in (Kind.OPEN, Kind.STOP, Kind.RELEASE):
            self.violated(f"{intent.kind} is intended for an object that somebody else holds")


class RequeuesEndNothing(Invariant):
    """CO-2: no requeue of the core ends an execution that is alive, but one that others have begun since."""

    name = "I17"

    def landed(self, case: Case, flight: Flight, change: Change) -> None:
        old = change.old
        if flight.of.kind is not Kind.REQUEUE or old is None or not effective(flight, change):
            return
        alive = any(execution.alive for execution in old.executions)
        if old.state is State.RUNNING and alive and case.untouched(change.place, flight.of.look):
            self.violated(f"a requeue ends an execution of object {change.place + 1}")


def effective(flight: Flight, change: Change) -> bool:
    """Whether a call that has changed an object has thereby made it eligible."""
    of = flight.of
    if of.kind is Kind.START:
        return change.old is None and not change.new.gated
    return of.kind in BEGINS and not flight.crashes and flight.error is None and change.new.submission == of.submission


INVARIANTS: tuple[Invariant, ...] = (
    ExecutionsApart(),
    ObjectsApart(),
    EpochsRise(),
    HoldsHold(),
    BitsClear(),
    LimitsHold(),
    StopsStand(),
    VerdictsStand(),
    CausesStand(),
    SuccessesAre(),
    DeadlinesHold(),
    ActsOnce(),
    RecordsLast(),
    OneStands(),
    RestIsReached(),
    OthersAreLeft(),
    RequeuesEndNothing(),
)
