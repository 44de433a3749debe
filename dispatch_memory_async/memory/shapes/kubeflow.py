"""The Kubeflow shape: everything in which Trainer, JobSet and Kueue differ, rule by rule (KF-1 to KF-11, NP-3)."""

import re
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from ...model import (
    Action,
    AlreadyExistsError,
    Capability,
    Cause,
    HoldMeta,
    InvalidError,
    Job,
    Observation,
    Ref,
    Rule,
    State,
)
from ...model.base import altered
from ..config import Config
from ..store import Store, StoredExecution, StoredObject, later
from .base import BLANK, Scheduler, refuse_ended, require, stale, whole_second

__all__ = ("Kubeflow",)

MAX_RESTARTS = "maxRestarts"
"""The native setting that says how often failed pods are restarted."""

RESTARTABLE = frozenset({Cause.NON_ZERO_EXIT, Cause.OUT_OF_MEMORY})
"""The causes at which the scheduler restarts a pod by itself."""


_COUNT = re.compile("[0-9]{1,19}")


class Kubeflow(Scheduler):
    """A Kubernetes with Kubeflow Trainer, JobSet and Kueue. It has no requeue, and no bit to restore (KF-8)."""

    supported: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.HOLD, Capability.HOLD_RUNNING, Capability.WATCH, Capability.CESSATION}
    )

    lacks: ClassVar[frozenset[str]] = frozenset({"requeue_externally"})

    @staticmethod
    def traits(config: Config) -> dict[str, Any]:
        return {
            "unique_names": True,
            "stop": "nothing",
            "preemption": "waiting",
            "node_loss": "wedged",
            "evidence_window": config.evidence_window,
        }

    def __init__(self, config: Config, store: Store) -> None:
        super().__init__(config, store)
        self._names: set[str] = set()

    # KF-1: names and identity

    def check_native(self, settings: Mapping[str, str]) -> None:
        limit = settings.get(MAX_RESTARTS, "0")
        if set(settings) - {MAX_RESTARTS} or not _COUNT.fullmatch(limit):
            raise InvalidError(
                f"native settings: found {dict(settings)}, expected none or {{'{MAX_RESTARTS}': '<count>'}}"
            )

    def start(self, job: Job, submission: int, settings: Mapping[str, str]) -> StoredObject:
        name = f"dj-{str(job.id).lower()}-s{submission}"
        if name in self._names:
            raise AlreadyExistsError(f"the name {name} is in use, by an object that was not stopped")
        self._names.add(name)
        uid = self.opaque("object", next(self.serials))
        ref = altered(BLANK.ref, name=name, id=uid, submitted_at=whole_second(self.store.moment))
        return self.make(job, submission, ref, native_restarts=int(settings.get(MAX_RESTARTS, "0")))

    @staticmethod
    def weak_key(ref: Ref) -> Hashable:
        return ref.id

    # KF-2, KF-3: no gate, and a stop deletes

    def open(self, item: StoredObject) -> None:
        refuse_ended(item)

    def stop(self, item: StoredObject) -> None:
        cause = item.shown.cause
        if not item.state.ended:
            if item.state is State.RUNNING:
                self._leave(item, Cause.STOPPED)
            cause = Cause.STOPPED
            item.state, item.cause, item.ended_at = State.CANCELLED, cause, self.store.moment
        self._names.discard(item.ref.name)
        self.store.forget(item, cause)

    # KF-10: the object moves on at once, its execution lives on for ``kill_wait``

    def _leave(self, item: StoredObject, cause: Cause) -> None:
        run = self.current_run(item)
        run.cause = cause
        item.arose_at = None
        if run.node != "up":
            return
        if self.config.kill_wait:
            self.store.schedule(self.config.kill_wait, item.order, self._killed, item, run)
        else:
            run.die(self.store.moment)

    def _killed(self, item: StoredObject, run: StoredExecution) -> None:
        run.die(self.store.moment)
        self.store.retire(item)

    # KF-4, KF-7: back to wait, preempted or held

    def _wait(self, item: StoredObject, cause: Cause) -> None:
        """A running object is pending again."""
        if item.state is State.RUNNING:
            self._leave(item, cause)
            item.state, item.cause = State.PENDING, None

    def preempt(self, item: StoredObject) -> None:
        self._require_well(item)
        self._wait(item, Cause.PREEMPTED)
        item.waiting = Cause.PREEMPTED
        self.show(item)

    def hold(self, item: StoredObject, meta: HoldMeta) -> None:
        refuse_ended(item)
        if item.hold is not None and meta.instance < item.hold:
            raise stale(item, item.hold, meta.instance)
        self._wait(item, Cause.HELD)
        if item.hold != meta.instance:
            item.annotations = meta
        item.hold, item.active = meta.instance, False
        self.show(item)

    def lift_hold(self, item: StoredObject) -> None:
        item.active = True
        super().lift_hold(item)

    def deactivate_externally(self, item: StoredObject) -> None:
        require(item, not item.state.ended, "live")
        self._wait(item, Cause.HELD)
        item.active = False
        self.show(item)

    def reactivate_externally(self, item: StoredObject) -> None:
        require(item, not item.state.ended, "live")
        self.lift_hold(item)

    # KF-5, KF-6: a lost node wedges, and evidence vanishes

    def _require_well(self, item: StoredObject) -> StoredExecution:
        run = self.current_run(item)
        require(item, run.node == "up", "running on a node that is not lost")
        return run

    def node_lost(self, item: StoredObject, run: StoredExecution) -> None:  # noqa: ARG002
        item.cause = Cause.NODE_LOST
        self._arise(item)
        self.show(item)

    def node_back(self, item: StoredObject, run: StoredExecution) -> None:
        if run.alive:
            item.cause = item.arose_at = None
        else:
            run.cause = Cause.NODE_LOST
            item.state, item.ended_at = State.FAILED, self.store.moment
        self.show(item)

    def _arise(self, item: StoredObject) -> None:
        item.arose_at = self.store.moment
        self.store.schedule(self.config.evidence_window, item.order, self._vanish, item)

    def _vanish(self, item: StoredObject) -> None:
        if item.gone_at is None:
            self.show(item)

    def observe(self, item: StoredObject) -> Observation:
        seen = super().observe(item)
        if item.arose_at and self.store.moment >= later(item.arose_at, self.config.evidence_window):
            return altered(seen, cause=Cause.UNKNOWN, exit_code=None)
        return seen

    # KF-9, KF-11: executions are counted, and failed pods restarted under a native policy

    def restart(self, item: StoredObject) -> int:
        return len(item.executions)

    def finish(self, item: StoredObject, exit_code: int) -> None:
        run = self._require_well(item)
        run.exit_code = exit_code
        if exit_code:
            self._fail(item, run, Cause.NON_ZERO_EXIT, exit_code)
        else:
            run.die(self.store.moment)
            item.state, item.ended_at, item.exit_code = State.SUCCEEDED, self.store.moment, exit_code
        self.show(item)

    def fail(self, item: StoredObject, cause: Cause) -> None:
        self._fail(item, self._require_well(item), cause, None)
        self.show(item)

    def _fail(self, item: StoredObject, run: StoredExecution, cause: Cause, exit_code: int | None) -> None:
        run.die(self.store.moment)
        run.cause = cause
        if cause in RESTARTABLE and item.restarts < item.native_restarts:
            item.restarts += 1
            self.begin(item)
            return
        item.state, item.cause, item.ended_at = State.FAILED, cause, self.store.moment
        item.exit_code = exit_code
        if cause.pod_derived:
            self._arise(item)

    # NP-3: failed pods are restarted up to a count

    def carry_out(self, rules: Mapping[int, Rule]) -> tuple[dict[str, str], tuple[int, ...]]:
        for index, rule in rules.items():
            if (
                rule.action is Action.RESTART
                and rule.limit is not None
                and not rule.backoff
                and rule.causes == RESTARTABLE
            ):
                return {MAX_RESTARTS: str(rule.limit)}, (index,)
        return {}, ()
