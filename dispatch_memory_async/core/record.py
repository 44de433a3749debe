"""What the controller remembers of a job: the record, and the values that it is made of."""

from datetime import timedelta
from enum import StrEnum

from ..model import Cause, Job, Policy, Ref, State, Value
from ..model.kinds import Count, Instance, Integer, Moment, Submission

__all__ = (
    "PAST",
    "POLICY",
    "SKEW",
    "Ask",
    "Charge",
    "Chosen",
    "End",
    "EndKey",
    "Hold",
    "Intent",
    "Kind",
    "Record",
    "Said",
    "StoppedFor",
    "Verdict",
    "WhileRunning",
)

SKEW = timedelta(seconds=2)
"""By how much the clocks of those who share a job may differ; every bound is so much longer."""

PAST = 20
"""How many ends a record remembers beside the one that stands."""

POLICY = "policy"
"""Who holds a job that waits for a person because its policy says so."""


class WhileRunning(StrEnum):
    """What a hold does to an object that runs and cannot be held."""

    REFUSE = "refuse"
    STOP = "stop"


class StoppedFor(StrEnum):
    """Why an object was stopped by us."""

    USER = "user"
    HOLD = "hold"
    FAIL = "fail"
    RESTART = "restart"


class Kind(StrEnum):
    """What an act is: a call of the SPI that changes something."""

    START = "Start"
    OPEN = "Open"
    STOP = "Stop"
    REQUEUE = "Requeue"
    RESTORE = "RestoreRequeueBit"
    HOLD = "Hold"
    RELEASE = "Release"


class Ask(Value, frozen=True):
    """What a person asked for, who, why and when."""

    by: str
    reason: str
    at: Moment


class Hold(Value, frozen=True, kw_only=True):
    """A hold that was asked for.

    :ivar instance: its number; each has a higher one than those before
    :ivar by: who; :data:`POLICY` if nobody did but the job's policy
    :ivar until: when it ends by itself
    :ivar reason: why
    :ivar running: what becomes of an object that runs and cannot be held
    :ivar acked: whether it is certain that nothing begins under it
    :ivar refused: whether it was withdrawn, as the object was running
    """

    instance: Instance
    by: str
    until: Moment | None = None
    reason: str = ""
    running: WhileRunning = WhileRunning.REFUSE
    acked: bool = False
    refused: bool = False


class Chosen(Value, frozen=True, kw_only=True):
    """The object that stands for the job: the one with the highest submission number.

    :ivar submission: its number, by which it is known for good
    :ivar ref: its exact ref, as last seen
    :ivar restarts: its restart counter, as last seen
    :ivar may_have_run: whether it can have had an execution
    :ivar stopped_for: why we stopped it
    :ivar requeueable: whether the scheduler has not refused yet to requeue what has ended
    """

    submission: Submission
    ref: Ref
    restarts: Count = 0
    may_have_run: bool = False
    stopped_for: StoppedFor | None = None
    requeueable: bool = True


class Intent(Value, frozen=True, kw_only=True):
    """The one act that may be under way. It is called at most once, by the process that wrote it.

    :ivar id: the version of the record in which it was first written
    :ivar kind: what it does
    :ivar submission: the number of the object that it is done to, or that it makes
    :ivar ref: the ref that it names the object by; ``None`` for a start
    :ivar instance: the instance of a hold or a release
    :ivar deadline: its call's deadline
    """

    id: Count
    kind: Kind
    submission: Submission
    ref: Ref | None = None
    instance: Instance | None = None
    deadline: Moment


class EndKey(Value, frozen=True):
    """Which end: of which object, after how many restarts, and whether it was a wedge or a vanishing."""

    submission: Submission
    restarts: Count
    wedge: bool = False
    gone: bool = False


class End(Value, frozen=True, kw_only=True):
    """An end that was read.

    :ivar submission: the number of the object
    :ivar restarts: its restart counter then
    :ivar state: where it ended; ``Running`` for a wedge, ``Gone`` for one that vanished
    :ivar cause: why: the first cause other than ``Unknown`` that was read for it
    :ivar exit_code: what it exited with
    :ivar wedge: whether it runs on in the scheduler's eyes, on a node that is lost
    :ivar gone: whether the object vanished
    :ivar seen_at: when it was first seen
    """

    submission: Submission
    restarts: Count
    state: State
    cause: Cause | None
    exit_code: Integer | None = None
    wedge: bool = False
    gone: bool = False
    seen_at: Moment

    @property
    def key(self) -> EndKey:
        """Which end it is."""
        return EndKey(self.submission, self.restarts, self.wedge, self.gone)


class Said(Value, frozen=True):
    """What a person said of an end.

    :ivar end: which
    :ivar ask: who, why and when
    """

    end: EndKey
    ask: Ask


class Charge(Value, frozen=True):
    """The rule that a restart after an end was charged to; ``None`` if it is free."""

    end: EndKey
    rule: Count | None


class Verdict(Value, frozen=True, kw_only=True):
    """What became of a job, for good.

    :ivar state: ``Succeeded``, ``Failed`` or ``Cancelled``
    :ivar cause: why
    :ivar detail: what there is to say about it
    :ivar at: when it was given
    """

    state: State
    cause: Cause | None
    detail: str = ""
    at: Moment


class Record(Value, frozen=True, kw_only=True):
    """All that the controller remembers of one job.

    :ivar version: counts the writes
    :ivar job: the job
    :ivar policy: what is to be done about its ends
    :ivar native: whether the scheduler may be told to carry out what it can of the policy
    :ivar covered: the rules that the scheduler was told to carry out itself
    :ivar stop: that it is to be stopped, once asked
    :ivar hold: the hold that was asked for
    :ivar hold_counter: the highest instance of a hold ever used
    :ivar submission: the highest submission number ever used
    :ivar chosen: the object with the highest number
    :ivar intent: the act that may be under way
    :ivar end: the chosen object's end, as long as it is one
    :ivar counts: how often each rule was charged
    :ivar charged: the end that was charged last, and to which rule
    :ivar go_on: a person released the job after an end
    :ivar word: a person said that the executions up to an end have ceased
    :ivar verdict: what became of the job
    :ivar past: the ends before, the latest last; no more than :data:`PAST`
    """

    version: Count = 0
    job: Job
    policy: Policy = Policy()
    native: bool = False
    covered: tuple[Count, ...] = ()
    stop: Ask | None = None
    hold: Hold | None = None
    hold_counter: Count = 0
    submission: Count = 0
    chosen: Chosen | None = None
    intent: Intent | None = None
    end: End | None = None
    counts: tuple[Count, ...] = ()
    charged: Charge | None = None
    go_on: Said | None = None
    word: Said | None = None
    verdict: Verdict | None = None
    past: tuple[End, ...] = ()

    @property
    def in_force(self) -> Hold | None:
        """The hold, unless it was withdrawn."""
        return self.hold if self.hold and not self.hold.refused else None
