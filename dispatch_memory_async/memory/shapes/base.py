"""What every shape is: what the calls and the environment mean to an object, whoever the scheduler is.

A shape says the rest: names and identity, what may be done in which state, where an ending leads to. All of it is
synchronous and works on the store; the moment of the call is the store's ``now``.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any, ClassVar
from uuid import UUID, uuid5

from msgspec.structs import force_setattr
from ulid import ULID

from ...model import (
    Action,
    AmbiguousError,
    Capabilities,
    Capability,
    Cause,
    Cessation,
    FinishedError,
    HoldMeta,
    Job,
    NativePolicy,
    NotFoundError,
    Observation,
    Policy,
    Ref,
    ReleaseMeta,
    Rule,
    Source,
    StaleError,
    State,
    Support,
    Tristate,
    UnsupportedError,
    WrongStateError,
    epoch,
)
from ...model.base import altered
from ...model.frozen import FrozenDict
from ..config import Config
from ..store import Store, StoredExecution, StoredObject
from ..truth import Execution, Truth

__all__ = ("Scheduler",)

_NAMES = UUID("0d1f2a5e-6b0c-5c58-9c54-6f7d9a3b8e21")
"""The namespace of the identifiers that a backend makes up: made from a counter, so that they repeat run by run."""


_OPTIONAL = ("requeue", "restore_requeue_bit")
"""The calls of the SPI that a shape may lack; it lacks those that it does not define."""


BLANK = Observation(
    ref=Ref(name="nothing", id="0", submitted_at=None),
    job_id=ULID.from_int(0),
    submission=1,
    state=State.PENDING,
    observed_at=datetime.min.replace(tzinfo=UTC),
)
"""What an object's first ref and observation are made from, without checking its checked parts again."""
TRUTH = Truth(
    ref=BLANK.ref,
    job=Job(id=BLANK.job_id, command=("true",)),
    submission=1,
    state=State.PENDING,
    cause=None,
    gated=False,
    hold=None,
    start_time=None,
    held_by="",
    held_until=None,
    hold_reason="",
    admin_held=False,
    active=True,
    requeue_bit=None,
    restarts=0,
    node=None,
    executions=(),
    gone_at=None,
)
"""What a truth is made from in the same way."""
EXECUTION = Execution(
    attempt="", epoch=0, env={}, started_at=BLANK.observed_at, ended_at=None, cause=None, exit_code=None, alive=False
)


class Scheduler(ABC):
    """One shape, working on one store.

    :param config: the configuration
    :param store: the objects
    """

    supported: ClassVar[frozenset[Capability]]
    """The capabilities that this shape has by itself."""

    lacks: ClassVar[frozenset[str]]
    """The calls of the environment of which it has no notion."""

    @staticmethod
    @abstractmethod
    def traits(config: Config) -> dict[str, Any]:
        """In what it differs from other schedulers, as the conformance suite's traits say it."""

    def __init__(self, config: Config, store: Store) -> None:
        self.config: Config = config
        self.store: Store = store
        self.serials: Iterator[int] = count(1)
        """The numbers from which identifiers are made."""
        yes, no = (Support(value=value, source=Source.DECLARED) for value in (Tristate.YES, Tristate.NO))
        own = {capability: yes if capability in self.supported else no for capability in Capability}
        self.capabilities: Capabilities = Capabilities(
            support={**own, **config.capabilities},
            rules={**dict.fromkeys(Action, yes), **config.rules},
            native={**dict.fromkeys(Action, no), **config.native},
            call_bound=config.call_bound,
        )
        """What this cluster can do: the shape's own, under what the configuration says."""
        self.unsupported: frozenset[str] = frozenset(
            call for call in _OPTIONAL if getattr(type(self), call) is getattr(Scheduler, call)
        )
        """The calls of the SPI that this shape does not have."""
        self.omitted: Counter[int] = Counter()
        """How many lists are still to leave out an object, by its place in the order of start."""

    @staticmethod
    def opaque(kind: str, serial: int) -> str:
        """An identifier that never repeats within this backend."""
        return str(uuid5(_NAMES, f"{kind} {serial}"))

    # identity

    @staticmethod
    @abstractmethod
    def weak_key(ref: Ref) -> Hashable:
        """What a weak ref names an object by."""

    @classmethod
    def keys(cls, ref: Ref) -> tuple[Hashable, Hashable]:
        """What an exact ref names an object by, and what a weak one does."""
        return (ref.id, ref.submitted_at), cls.weak_key(ref)

    def answers(self, found: Ref, ref: Ref) -> bool:
        """Whether an object with the id of a ref, and an exact ref of its own, answers to the rest of it."""
        if ref.submitted_at is None:
            return self.weak_key(found) == self.weak_key(ref)
        return found.submitted_at == ref.submitted_at

    def find(self, ref: Ref) -> StoredObject:
        """The remembered object that answers to a ref."""
        item = self.store.remembered.get(ref.id)
        if item is None or (item.ref is not ref and not self.answers(item.ref, ref)):
            raise self._not_found(ref, item.ref if item else None)
        return item

    def find_any(self, ref: Ref) -> StoredObject:
        """The object that answers to a ref: the remembered one, else the newest gone one."""
        item = self.store.remembered.get(ref.id)
        if item is not None and self.answers(item.ref, ref):
            return item
        gone = self.store.gone_for(ref)
        if gone:
            return gone[-1]
        raise self._not_found(ref, item.ref if item else None)

    def _not_found(self, ref: Ref, other: Ref | None) -> NotFoundError:
        instead = f"; under this id there is {other}" if other else ""
        return NotFoundError(f"no object answers to {ref}{instead}")

    # looking

    def get(self, ref: Ref) -> Observation:
        """The current observation of one object; a shape that has a history looks there too."""
        return self.current(self.find(ref))

    def find_all(self, job_id: ULID) -> tuple[Observation, ...]:
        """The current observations of all the job's objects, in the order of start."""
        items = self.store.remembered_of(job_id)
        return tuple([self.current(item) for item in items if not (self.omitted and self._omits(item))])

    def get_as_of(self, ref: Ref, at: datetime) -> Observation:
        """The observation of one object at a moment, in history or out of it."""
        seen = [seen for item in self.store.ever(ref) if (seen := self.as_of(item, at)) and seen.ref.id == ref.id]
        matches = [one for one in seen if self.answers(one.ref, ref)]
        if len(matches) > 1 and ref.weak:
            raise AmbiguousError(f"{ref} matches {', '.join(str(one.ref) for one in matches)}")
        if not matches:
            raise self._not_found(ref, seen[-1].ref if seen else None)
        return matches[-1]

    def find_all_as_of(self, job_id: ULID, at: datetime) -> tuple[Observation, ...]:
        """The observations of all the job's objects at a moment, in history or out of it, in the order of start."""
        seen = [(item, self.as_of(item, at)) for item in self.store.all_of(job_id)]
        return tuple([one for item, one in seen if one and not (self.omitted and self._omits(item))])

    def as_of(self, item: StoredObject, at: datetime) -> Observation | None:
        """What is seen of an object at a moment, if anything is."""
        return self.store.as_of(item, at)

    def _omits(self, item: StoredObject) -> bool:
        """Whether a list that would hold an object is to leave it out, which is done once more by asking."""
        if not self.omitted[item.order]:
            return False
        self.omitted -= Counter((item.order,))
        return True

    def current(self, item: StoredObject) -> Observation:
        """What was last told of an object, as seen now."""
        seen = item.shown.__copy__()  # measured: `altered` would make every look a fifth slower
        force_setattr(seen, "observed_at", self.store.now)
        return seen

    def show(self, item: StoredObject) -> None:
        """Tell what an object looks like now, if anything changed."""
        self.store.show(item, self.observe(item))

    def observe(self, item: StoredObject) -> Observation:
        """What the scheduler shows of an object."""
        cause = self.cause(item)
        latest = item.latest
        return altered(
            item.shown,
            ref=item.ref,
            state=item.state,
            cause=cause,
            gated=item.gated,
            hold=item.hold,
            restarts=item.restarts,
            requeue_bit=item.requeue_bit,
            exit_code=item.exit_code,
            started_at=latest.started_at if latest and item.state is not State.PENDING else None,
            ended_at=item.ended_at,
            observed_at=self.store.now,
            detail=item.detail if cause is Cause.NO_CAPACITY else "",
        )

    def cause(self, item: StoredObject) -> Cause | None:
        """Why an object is in its state: while pending the first of the reasons that apply."""
        if item.state is not State.PENDING:
            return item.cause
        if item.admin_held:
            return Cause.ADMIN_HELD
        if item.gated:
            return Cause.GATED
        if item.hold is not None or not item.active:
            return Cause.HELD
        return item.waiting

    def cessation(self, what: Ref | ULID) -> Cessation:
        """Whether every execution of an object, or of all objects of a job, has provably ceased."""
        items = [self.find(what)] if isinstance(what, Ref) else self.store.all_of(what)
        runs = [run for item in items for run in item.executions]
        if all(run.node == "fenced" or (run.node == "up" and not run.alive) for run in runs):
            return Cessation(ceased=True)
        ceased = self.config.cessation.ceased and all(run.node != "up" or not run.alive for run in runs)
        return Cessation(ceased=ceased, detail=self.config.cessation.detail)

    def truth(self, item: StoredObject) -> Truth:
        """An object as it is."""
        held = item.annotations
        return altered(
            TRUTH,
            ref=item.ref,
            job=item.job,
            submission=item.submission,
            state=item.state,
            cause=self.cause(item),
            gated=item.gated,
            hold=item.hold,
            start_time=self.start_time(item),
            held_by=held.by if held else "",
            held_until=held.until if held else None,
            hold_reason=held.reason if held else "",
            admin_held=item.admin_held,
            active=item.active,
            requeue_bit=item.requeue_bit,
            restarts=item.restarts,
            node=item.latest.node if item.latest else None,
            executions=tuple(self._execution(item, run) for run in item.executions),
            gone_at=item.gone_at,
        )

    def start_time(self, item: StoredObject) -> datetime | None:  # noqa: ARG002
        """The start time that a hold set, where holds are start times."""
        return None

    def _execution(self, item: StoredObject, run: StoredExecution) -> Execution:
        attempt = self.opaque("attempt", run.serial)
        own = {"DISPATCH_ATTEMPT": attempt, "DISPATCH_EPOCH": str(run.epoch)}
        return altered(
            EXECUTION,
            attempt=attempt,
            epoch=run.epoch,
            env=FrozenDict({**item.job.env, **own}),
            started_at=run.started_at,
            ended_at=run.ended_at,
            cause=run.cause,
            exit_code=run.exit_code,
            alive=run.alive,
        )

    # the calls of the SPI

    @abstractmethod
    def check_native(self, settings: Mapping[str, str]) -> None:
        """Refuse native settings that are not this shape's."""

    def make(self, job: Job, submission: int, ref: Ref, **fields: Any) -> StoredObject:
        """A new pending object, remembered and told."""
        observation = altered(BLANK, ref=ref, job_id=job.id, submission=submission)
        item = StoredObject(self.store.next_order(), job, submission, ref, observation, **fields)
        item.shown = self.observe(item)
        self.store.add(item)
        return item

    @abstractmethod
    def start(self, job: Job, submission: int, settings: Mapping[str, str]) -> StoredObject:
        """Make the object of a submission."""

    @abstractmethod
    def open(self, item: StoredObject) -> None:
        """Lift the gate."""

    @abstractmethod
    def stop(self, item: StoredObject) -> None:
        """End an object on purpose."""

    @abstractmethod
    def hold(self, item: StoredObject, meta: HoldMeta) -> None:
        """Hold an object back."""

    def release(self, item: StoredObject, meta: ReleaseMeta) -> None:
        """Lift the hold of that instance."""
        refuse_ended(item)
        if item.hold is None:
            return
        if item.hold != meta.instance:
            raise stale(item, item.hold, meta.instance)
        self.lift_hold(item)

    def lift_hold(self, item: StoredObject) -> None:
        """Let no hold of ours be in force."""
        item.hold = item.annotations = None
        self.show(item)

    def requeue(self, item: StoredObject, *, crash: bool) -> None:  # noqa: ARG002
        """Put an object back to wait."""
        raise UnsupportedError(f"{item.ref} cannot be requeued: this scheduler has no such call")

    def restore_requeue_bit(self, item: StoredObject) -> None:
        """Clear the requeue bit."""
        raise UnsupportedError(f"{item.ref} has no requeue bit: this scheduler knows none")

    def compile_policy(self, policy: Policy) -> NativePolicy:
        """Divide a policy between the scheduler and its supervisor."""
        native = self.capabilities.native
        named: set[Cause] = set()
        candidates: dict[int, Rule] = {}
        for index, rule in enumerate(policy.rules):
            if rule.causes and native[rule.action].value is Tristate.YES and not rule.causes & named:
                candidates[index] = rule
            named |= rule.causes
        settings, covered = self.carry_out(candidates)
        rest = tuple(rule for index, rule in enumerate(policy.rules) if index not in covered)
        return NativePolicy(settings=settings, covered=covered, rest=Policy(rest, policy.unmatched))

    @abstractmethod
    def carry_out(self, rules: Mapping[int, Rule]) -> tuple[dict[str, str], tuple[int, ...]]:
        """The settings by which this scheduler carries out some of these rules, and the indexes of those."""

    # the environment

    def run(self, item: StoredObject) -> StoredExecution:
        """Begin an execution of an eligible object."""
        require(item, self.eligible(item), "eligible to run")
        run = self.begin(item)
        self.show(item)
        return run

    def eligible(self, item: StoredObject) -> bool:
        """Whether nothing but room keeps an object from running."""
        return item.state is State.PENDING and self.cause(item) is item.waiting

    def begin(self, item: StoredObject) -> StoredExecution:
        """A new execution, on a node of its own."""
        number = epoch(item.submission, self.restart(item))
        run = StoredExecution(serial=next(self.serials), epoch=number, started_at=self.store.moment)
        item.executions += (run,)
        item.state, item.cause, item.waiting, item.detail = State.RUNNING, None, None, ""
        return run

    @abstractmethod
    def restart(self, item: StoredObject) -> int:
        """The R of the execution that is about to begin."""

    @abstractmethod
    def finish(self, item: StoredObject, exit_code: int) -> None:
        """The execution exits."""

    @abstractmethod
    def fail(self, item: StoredObject, cause: Cause) -> None:
        """The execution fails of that cause, at once."""

    @abstractmethod
    def preempt(self, item: StoredObject) -> None:
        """Something more important takes the object's place."""

    def lose_node(self, item: StoredObject) -> None:
        """The node under the current execution is cut off."""
        run = self.current_run(item)
        if run.node != "up":
            return
        run.node, run.lost_at = "lost", self.store.moment
        if self.config.cessation.ceased:
            run.die(self.store.moment)
        self.node_lost(item, run)

    @abstractmethod
    def node_lost(self, item: StoredObject, run: StoredExecution) -> None:
        """What the loss of the current execution's node means."""

    def return_node(self, item: StoredObject) -> None:
        """Every lost node of the object's executions is back."""
        for run in self._cut_off(item):
            run.node = "up"
            if item.state is State.RUNNING and run is item.latest:
                self.node_back(item, run)
            else:
                run.die(self.store.moment)
        self.store.retire(item)

    @abstractmethod
    def node_back(self, item: StoredObject, run: StoredExecution) -> None:
        """What it means that the current execution's node is back."""

    def fence_node(self, item: StoredObject) -> None:
        """The processes on every lost node of the object's executions are certainly dead."""
        cut_off = self._cut_off(item)
        dying = any(run.alive for run in cut_off)
        for run in cut_off:
            run.node = "fenced"
            run.die(self.store.moment)
        if dying:
            self.store.retire(item)

    def _cut_off(self, item: StoredObject) -> list[StoredExecution]:
        cut_off = [run for run in item.executions if run.node != "up"]
        require(item, bool(cut_off), "on a lost node")
        return cut_off

    def current_run(self, item: StoredObject) -> StoredExecution:
        """The execution on which an object is running."""
        run = item.latest
        require(item, item.state is State.RUNNING and run is not None, "running")
        assert run is not None  # noqa: S101  # require has just said so
        return run

    def admin_hold(self, item: StoredObject) -> None:
        """An administrator holds a live object."""
        require(item, not item.state.ended, "live")
        item.admin_held = True
        self.show(item)

    def admin_release(self, item: StoredObject) -> None:
        """The administrator's hold is lifted."""
        item.admin_held = False
        self.show(item)

    def no_capacity(self, item: StoredObject, detail: str) -> None:
        """An eligible object is refused room."""
        require(item, self.eligible(item), "eligible to run")
        item.waiting, item.detail = Cause.NO_CAPACITY, detail
        self.show(item)

    def requeue_externally(self, item: StoredObject) -> None:
        """Somebody else requeues it."""
        raise impossible(item, "requeued")

    def deactivate_externally(self, item: StoredObject) -> None:
        """Somebody else deactivates its workload."""
        raise impossible(item, "deactivated")

    def reactivate_externally(self, item: StoredObject) -> None:
        """Somebody else activates its workload."""
        raise impossible(item, "activated")


def whole_second(moment: datetime) -> datetime:
    """A time as schedulers keep it."""
    return moment.replace(microsecond=0)


def require(item: StoredObject, holds: bool, what: str) -> None:
    """Refuse what the object's state does not allow."""
    if not holds:
        shown = item.shown
        why = f" ({shown.cause})" if shown.cause else ""
        raise WrongStateError(f"{item.ref} is {shown.state}{why}, expected one that is {what}")


def impossible(item: StoredObject, what: str) -> WrongStateError:
    """The refusal of what this scheduler has no notion of."""
    return WrongStateError(f"{item.ref} cannot be {what}: nothing of this shape can, expected one of the other")


def refuse_ended(item: StoredObject) -> None:
    """Refuse an object that has ended."""
    if item.state.ended:
        raise FinishedError(f"{item.ref} has ended ({item.state}), expected one that is live")


def stale(item: StoredObject, current: int, named: int) -> StaleError:
    """The refusal of a hold instance that is not the one in force."""
    return StaleError(f"{item.ref} is held by instance {current}, found instance {named}", current)
