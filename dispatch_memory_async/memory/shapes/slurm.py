"""The Slurm shape: everything in which a Slurm differs, rule by rule (SL-1 to SL-14, NP-2)."""

from collections.abc import Hashable, Mapping
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any, ClassVar

from ulid import ULID

from ...model import (
    HOLD_BASE,
    Action,
    Capability,
    Cause,
    CrashedError,
    HeldError,
    HoldMeta,
    InvalidError,
    Job,
    Observation,
    PendingError,
    Ref,
    Rule,
    RunningError,
    State,
    Tristate,
    UnavailableError,
)
from ...model.base import altered
from ..config import Config
from ..store import Action as Due
from ..store import Ending, Store, StoredExecution, StoredObject, later
from .base import BLANK, Scheduler, refuse_ended, require, stale, whole_second

__all__ = ("Slurm",)

REQUEUE = "requeue"
"""The native setting that sets the requeue bit."""

BACK_TO_WAIT = (State.PENDING, Cause.REQUEUED)


class Slurm(Scheduler):
    """A Slurm."""

    supported: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.GATED_START,
            Capability.HOLD,
            Capability.REQUEUE,
            Capability.WATCH,
            Capability.CESSATION,
        }
    )

    lacks: ClassVar[frozenset[str]] = frozenset({"deactivate_externally", "reactivate_externally"})

    @staticmethod
    def traits(config: Config) -> dict[str, Any]:
        return {
            "unique_names": False,
            "stop": "cancelled",
            "preemption": "ended",
            "node_loss": "ended",
            "node_timeout": config.slurmd_timeout,
            "forgets_after": config.min_job_age or None,
            "moves_submit_time": True,
            "ids_repeat_after": config.max_job_id,
        }

    def __init__(self, config: Config, store: Store) -> None:
        super().__init__(config, store)
        self._ids = _Ids(config.max_job_id)
        self._purged: Due = self._purge  # one bound method for all: a new one would cost each ended object 64 bytes
        history = config.capabilities.get(Capability.ACCOUNTING_HISTORY)
        self._accounting = history is not None and history.value is Tristate.YES

    # SL-1, SL-2, SL-3: starting, names and identity

    def check_native(self, settings: Mapping[str, str]) -> None:
        if dict(settings) not in ({}, {REQUEUE: "1"}):
            raise InvalidError(f"native settings: found {dict(settings)}, expected none or {{'{REQUEUE}': '1'}}")

    def start(self, job: Job, submission: int, settings: Mapping[str, str]) -> StoredObject:
        number = self._ids.take()
        ref = altered(BLANK.ref, name=f"dj-{job.id}", id=str(number), submitted_at=whole_second(self.store.moment))
        return self.make(job, submission, ref, gated=True, requeue_bit=REQUEUE in settings)

    @staticmethod
    def weak_key(ref: Ref) -> Hashable:
        return ref.id, ref.name

    # SL-12, LT-4: accounting history

    def get(self, ref: Ref) -> Observation:
        return self.get_as_of(ref, self.store.now) if self._accounting else self.current(self.find(ref))

    def find_all(self, job_id: ULID) -> tuple[Observation, ...]:
        return self.find_all_as_of(job_id, self.store.now) if self._accounting else super().find_all(job_id)

    def as_of(self, item: StoredObject, at: datetime) -> Observation | None:
        seen = super().as_of(item, at)
        if seen is None and self._accounting and item.gone_at and later(item.gone_at, self.config.accounting_lag) <= at:
            return altered(item.shown, observed_at=at, from_history=True)
        return seen

    # SL-3, SL-4: the gate

    def open(self, item: StoredObject) -> None:
        refuse_ended(item)
        if item.admin_held:
            raise HeldError(f"{item.ref} is held by an administrator, the gate stays as it is")
        item.gated = False
        self.show(item)

    # SL-5: stopping

    def stop(self, item: StoredObject) -> None:
        if item.state is State.PENDING:
            self._arrive(item, State.CANCELLED, Cause.STOPPED)
        elif item.ending:
            self._take_over(item, item.ending)
        elif item.state is State.RUNNING:
            self._tell_to_end(item, State.CANCELLED, Cause.STOPPED, Cause.STOPPED)
        self.show(item)

    def _take_over(self, item: StoredObject, ending: Ending) -> None:
        item.ending = Ending(ending.due, State.CANCELLED, Cause.STOPPED)
        item.cause = self.current_run(item).cause = Cause.STOPPED

    # SL-6: holds are start times

    def hold(self, item: StoredObject, meta: HoldMeta) -> None:
        refuse_ended(item)
        if item.state is State.RUNNING:
            raise RunningError(f"{item.ref} is running, expected one that is pending")
        if item.hold is not None and meta.instance < item.hold:
            raise stale(item, item.hold, meta.instance)
        item.hold = meta.instance
        self.show(item)

    def start_time(self, item: StoredObject) -> datetime | None:
        if item.hold is None or item.ref.submitted_at is None:
            return None
        return later(item.ref.submitted_at, HOLD_BASE + timedelta(seconds=item.hold))

    # SL-7, SL-8, SL-9: requeue and its bit

    def requeue(self, item: StoredObject, *, crash: bool) -> None:
        if crash:
            item.requeue_bit = True
            self.show(item)
            raise CrashedError(f"{item.ref}: crashed between the steps of a requeue, its requeue bit is left set")
        if item.state is State.PENDING:
            raise PendingError(f"{item.ref} is pending, expected one that is running or has ended")
        if item.ending:
            raise RunningError(f"{item.ref} is just ending ({item.cause}), expected one that has ended")
        self._requeue(item)

    def _requeue(self, item: StoredObject) -> None:
        if item.state is State.RUNNING:
            self._tell_to_end(item, *BACK_TO_WAIT, Cause.REQUEUED)
        else:
            self._arrive(item, *BACK_TO_WAIT)
        self.show(item)

    def restore_requeue_bit(self, item: StoredObject) -> None:
        refuse_ended(item)
        item.requeue_bit = False
        self.show(item)

    def requeue_externally(self, item: StoredObject) -> None:
        require(item, item.state is not State.PENDING and not item.ending, "running or has ended")
        item.requeue_bit = True
        self._requeue(item)

    # SL-10, SL-11, SL-14: ends, and where they lead to

    def _fate(self, item: StoredObject, cause: Cause) -> tuple[State, Cause]:
        """Where the scheduler's own end of an execution leads: the requeue bit decides."""
        return BACK_TO_WAIT if item.requeue_bit else (State.FAILED, cause)

    def _tell_to_end(self, item: StoredObject, state: State, cause: Cause, own: Cause) -> None:
        """The scheduler ends the current execution, which takes ``kill_wait``."""
        run = self.current_run(item)
        run.cause = own
        if not self.config.kill_wait:
            self._kill(run)
            self._arrive(item, state, cause)
            return
        due = self.store.schedule(self.config.kill_wait, item.order, self._waited, item, run)
        item.ending = Ending(due, state, cause)
        item.cause = cause

    def _waited(self, item: StoredObject, run: StoredExecution) -> None:
        if run is item.latest and item.ending and item.ending.due == self.store.moment:
            self._kill(run)
            self._arrive(item, item.ending.state, item.ending.cause)
            self.show(item)

    def _kill(self, run: StoredExecution) -> None:
        if run.node == "up":
            run.die(self.store.moment)

    def _arrive(self, item: StoredObject, state: State, cause: Cause | None) -> None:
        """The object is where it was going: back to wait (SL-7), or at its end."""
        item.ending = None
        item.state = state
        if state is State.PENDING:
            item.cause, item.waiting, item.gated = None, cause, False
            item.ended_at = item.exit_code = None
            item.restarts += 1
            item.ref = altered(item.ref, submitted_at=whole_second(self.store.moment))
        else:
            item.cause, item.ended_at = cause, self.store.moment
            if self.config.min_job_age:
                self.store.schedule(self.config.min_job_age, item.order, self._purged, item)

    def _purge(self, item: StoredObject) -> None:
        """SL-12: an ended object is forgotten."""
        ended_at = item.ended_at
        if ended_at and item.gone_at is None and later(ended_at, self.config.min_job_age) == self.store.moment:
            self.store.forget(item, item.shown.cause)
            self._ids.give_back(int(item.ref.id))

    def restart(self, item: StoredObject) -> int:
        return item.restarts

    def finish(self, item: StoredObject, exit_code: int) -> None:
        run = self.current_run(item)
        require(item, run.node == "up", "running on a node that is not lost")
        run.die(self.store.moment)
        run.exit_code = item.exit_code = exit_code
        if item.ending:
            self._arrive(item, item.ending.state, item.ending.cause)
        elif exit_code:
            run.cause = Cause.NON_ZERO_EXIT
            self._arrive(item, State.FAILED, Cause.NON_ZERO_EXIT)
        else:
            self._arrive(item, State.SUCCEEDED, None)
        self.show(item)

    def fail(self, item: StoredObject, cause: Cause) -> None:
        run = self.current_run(item)
        require(item, run.node == "up" and not item.ending, "running, not ending, on a node that is not lost")
        run.die(self.store.moment)
        run.cause = cause
        self._arrive(item, State.FAILED, cause)
        self.show(item)

    def preempt(self, item: StoredObject) -> None:
        self.current_run(item)
        require(item, not item.ending, "running and not ending")
        self._tell_to_end(item, *self._fate(item, Cause.PREEMPTED), Cause.PREEMPTED)
        self.show(item)

    def node_lost(self, item: StoredObject, run: StoredExecution) -> None:
        if not item.ending:
            self.store.schedule(self.config.slurmd_timeout, item.order, self._timed_out, item, run)

    def _timed_out(self, item: StoredObject, run: StoredExecution) -> None:
        if run is not item.latest or item.state is not State.RUNNING or item.ending:
            return
        if run.node != "up" and run.lost_at and later(run.lost_at, self.config.slurmd_timeout) == self.store.moment:
            self._lost(item, run)

    def _lost(self, item: StoredObject, run: StoredExecution) -> None:
        run.cause = Cause.NODE_LOST
        self._arrive(item, *self._fate(item, Cause.NODE_LOST))
        self.show(item)

    def node_back(self, item: StoredObject, run: StoredExecution) -> None:
        if item.ending:
            run.die(self.store.moment)
            self._arrive(item, item.ending.state, item.ending.cause)
            self.show(item)
        elif not run.alive:
            self._lost(item, run)

    # NP-2: one requeue bit for preemption and node loss together, without limit

    def carry_out(self, rules: Mapping[int, Rule]) -> tuple[dict[str, str], tuple[int, ...]]:
        both = {Cause.PREEMPTED, Cause.NODE_LOST}
        fitting = {
            index: rule.causes
            for index, rule in rules.items()
            if rule.action is Action.RESTART and rule.limit is None and not rule.backoff and rule.causes <= both
        }
        if set().union(*fitting.values()) != both:
            return {}, ()
        return {REQUEUE: "1"}, tuple(fitting)


class _Ids:
    """Job ids (SL-2): 1 to the maximum, then from 1 again, passing over those that are in use."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._next = 1
        self._fresh = 1
        self._ahead: list[int] = []
        self._behind: list[int] = []

    def take(self) -> int:
        """The next id.

        :raises UnavailableError: if every id is in use; none is used up
        """
        if self._fresh <= self._maximum:
            taken = self._fresh
            self._fresh += 1
        else:
            if not self._ahead:
                self._ahead, self._behind = self._behind, []
            if not self._ahead:
                raise UnavailableError(f"all {self._maximum} job ids are in use, try again when one was forgotten")
            taken = heappop(self._ahead)
        self._next = taken + 1
        return taken

    def give_back(self, number: int) -> None:
        """Let an id be used again when its turn comes."""
        heappush(self._ahead if number >= self._next else self._behind, number)
