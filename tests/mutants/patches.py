"""The patches: a rule, the module that carries it, the line as it stands and the line that takes the rule back."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One rule taken back. The text must stand in the module exactly once.

    :ivar hidden: why nobody can see it through the SPI and the conformance suite's driver; empty if somebody can
    """

    rule: str
    module: str
    text: str
    instead: str
    hidden: str = ""


SLURM, KUBEFLOW, BASE = (f"memory/shapes/{name}.py" for name in ("slurm", "kubeflow", "base"))
STORE, CLUSTER, BACKEND, ENV, HUB, WATCH, FAULTS, INJECTION, CONFIG = (
    f"memory/{name}.py"
    for name in ("store", "cluster", "backend", "env", "hub", "watch", "faults", "injection", "config")
)
FOLLOWING, HARNESS = "following.py", "memory/harness.py"

MUTANTS: tuple[Mutant, ...] = (
    # 1.2, 1.3 The SPI
    Mutant("1.2", BACKEND, 'raise InvalidError(f"submission: found', 'raise ValueError(f"submission: found'),
    Mutant("1.2", BACKEND, "            if ref.weak:", "            if False:"),
    Mutant("1.2", BASE, 'found instance {named}", current)', 'found instance {named}", named)'),
    Mutant(
        "1.3",
        BACKEND,
        "            return self._scheduler.start(job, submission, native.settings if native else {}).ref",
        "            ref = self._scheduler.start(job, submission, native.settings if native else {}).ref\n"
        "            return Ref(name=ref.name, id=ref.id, submitted_at=None)",
    ),
    Mutant("1.3", BACKEND, "                self._scheduler.check_native(native.settings)\n", ""),
    Mutant("1.3", BASE, "job_id=job.id, submission=submission)", "job_id=job.id, submission=1)"),
    Mutant("1.3", STORE, "else tuple(known.values())", "else tuple(reversed(known.values()))"),
    Mutant(
        "1.3",
        STORE,
        "        if known is None:\n            return ()",
        "        if known is None:\n            return tuple(self.remembered.values())",
    ),
    Mutant(
        "1.3",
        BASE,
        "        items = self.store.remembered_of(job_id)\n",
        "        items = self.store.remembered_of(job_id)[-1:]\n",
    ),
    Mutant("1.3", BASE, '        force_setattr(seen, "observed_at", self.store.now)\n', ""),
    Mutant("1.3", BASE, "            return self.weak_key(found) == self.weak_key(ref)", "            return False"),
    Mutant("1.3", BASE, 'return NotFoundError(f"no object', 'return WrongStateError(f"no object'),
    Mutant(
        "1.3",
        BACKEND,
        "lambda: Ref(name=ref.name, id=ref.id, submitted_at=None)",
        "lambda: self._scheduler.find(ref) and Ref(name=ref.name, id=ref.id, submitted_at=None)",
    ),
    Mutant(
        "1.3",
        BACKEND,
        "for job_id in dict.fromkeys(asked)})",
        "for job_id in dict.fromkeys(asked) if self._find(job_id)})",
    ),
    Mutant(
        "1.3",
        BACKEND,
        "lambda: scheduler.stop(scheduler.find(ref)))",
        "lambda: [scheduler.stop(item) for item in scheduler.store.remembered_of(scheduler.find(ref).job.id)][0])",
    ),
    Mutant(
        "1.3",
        SLURM,
        "            Capability.GATED_START,\n",
        "            Capability.GATED_START,\n            Capability.OUTPUT,\n",
    ),
    Mutant("1.3", BASE, "if all(run.node", "if any(run.node"),
    Mutant(
        "1.3",
        BASE,
        "for item in items for run in item.executions]",
        "for item in items for run in item.executions[-1:]]",
    ),
    Mutant(
        "1.3",
        BASE,
        "for item in items for run in item.executions]",
        "for item in items for run in item.executions[:1]]",
    ),
    Mutant(
        "1.3",
        BASE,
        "for item in items for run in item.executions]",
        "for item in items if not item.state.ended for run in item.executions]",
    ),
    Mutant("1.3", BASE, "else self.store.all_of(what)", "else self.store.remembered_of(what)"),
    Mutant("1.3", BASE, "else self.store.all_of(what)", "else self.store.all_of(what)[:1]"),
    Mutant("1.3", BASE, "items = [self.find(what)] if", "items = [self.find_any(what)] if"),
    Mutant("1.3", SLURM, '        if run.node == "up":\n            run.die(self.store.moment)', "        pass"),
    Mutant(
        "1.3",
        KUBEFLOW,
        "run)\n        else:\n            run.die(self.store.moment)",
        "run)\n        else:\n            pass",
    ),
    Mutant(
        "1.3",
        KUBEFLOW,
        "        run.die(self.store.moment)\n        self.store.retire(item)",
        "        self.store.retire(item)",
    ),
    Mutant("1.3", BASE, '(run.node == "up" and not run.alive)', '(run.node == "up")'),
    Mutant("1.3", BASE, 'run.node == "fenced" or (run.node == "up" and', 'run.node != "up" or (run.node == "up" and'),
    Mutant("1.2", "model/checks.py", "    if not is_a(found, *kinds):", "    if False:"),
    Mutant(
        "1.2",
        CLUSTER,
        "        if check is not None:\n            check(*given)",
        "        late = call.deadline is not None and (started_at() or call.at) > call.deadline\n"
        "        if check is not None and not late:\n"
        "            check(*given)",
    ),
    Mutant(
        "1.2",
        BACKEND,
        "            if ref.weak:\n",
        "            self._scheduler.find(ref)\n            if ref.weak:\n",
    ),
    # 2.2 Time, and what every call does
    Mutant(
        "TM-1",
        BACKEND,
        "        await checkpoint()\n        with cluster.lock:\n            return cluster.call(self, call,",
        "        with cluster.lock:\n            return cluster.call(self, call,",
    ),
    Mutant(
        "TM-1",
        ENV,
        "        await checkpoint()\n",
        "",
        hidden="it concerns the driver's own calls, which no adapter has",
    ),
    Mutant("TM-1", CLUSTER, "        if client.closed:\n", "        if False:\n"),
    Mutant(
        "TM-1",
        BACKEND,
        "        self._cluster.hub.close_all(self)\n        await checkpoint()",
        "        await checkpoint()\n        self._cluster.hub.close_all(self)",
    ),
    Mutant("TM-1", BACKEND, "        return self._closed or self._cluster.closed", "        return False"),
    Mutant(
        "TM-1",
        BACKEND,
        "        self._closed = True\n",
        '        if self._closed:\n            raise ClosedError("closed already")\n        self._closed = True\n',
    ),
    Mutant(
        "TM-2",
        STORE,
        "self._due[0][0] <= self.now",
        "self._due[0][0] < self.now",
        hidden="the suite gives a scheduler time beyond a due moment: no real one acts to the microsecond",
    ),
    Mutant(
        "TM-2",
        STORE,
        "(due, order, next(self._serials), action",
        "(due, -order, next(self._serials), action",
        hidden="which of two objects comes first in one moment is a promise of the memory adapter alone",
    ),
    Mutant(
        "TM-2",
        CLUSTER,
        "            answer = act()\n            self.store.settle()",
        "            answer = act()",
        hidden="what is due at once shows at the next look, as it does on a scheduler that takes a moment for it",
    ),
    Mutant(
        "TM-3",
        CLUSTER,
        "        if now < self.store.now:\n            return self.store.now\n",
        "",
        hidden="the time of a harness only goes forward",
    ),
    Mutant(
        "TM-3",
        CLUSTER,
        '            now = as_moment("clock", now)',
        "            now = now.replace(tzinfo=UTC)",
        hidden="the time of a harness has a zone",
    ),
    Mutant(
        "TM-4",
        "model/base.py",
        "            return FrozenDict(frozen) if frozen else _EMPTY",
        "            return value",
    ),
    Mutant("TM-4", BASE, "        seen = item.shown.__copy__()", "        seen = item.shown"),
    Mutant("TM-4", BACKEND, "lambda: FrozenDict({job_id", "lambda: dict({job_id"),
    Mutant(
        "TM-5",
        BASE,
        'return str(uuid5(_NAMES, f"{kind} {serial}"))',
        "import uuid\n\n        return str(uuid.uuid4())",
        hidden="an id is opaque, and need not be the same in another run",
    ),
    Mutant("TM-6", BASE, "if item.admin_held:\n            return Cause.ADMIN_HELD", "if False:\n            pass"),
    Mutant("TM-6", BASE, "if latest and item.state is not State.PENDING else None", "if latest else None"),
    Mutant("TM-6", BASE, "        if item.gated:\n            return Cause.GATED\n", ""),
    Mutant("TM-6", BASE, "        if item.hold is not None or not item.active:\n            return Cause.HELD\n", ""),
    Mutant("TM-6", BASE, "        item.admin_held = False\n", "        item.admin_held, item.hold = False, None\n"),
    Mutant("TM-6", SLURM, "run.exit_code = item.exit_code = exit_code", "run.exit_code = exit_code"),
    Mutant("TM-6", SLURM, "            item.ended_at = item.exit_code = None\n", "            item.ended_at = None\n"),
    Mutant("TM-6", SLURM, "            item.ended_at = item.exit_code = None\n", "            item.exit_code = None\n"),
    Mutant(
        "TM-6",
        BASE,
        "if latest and item.state is not State.PENDING else None",
        "if latest and item.state is not State.PENDING else item.ended_at",
    ),
    Mutant(
        "TM-6",
        BASE,
        "exit_code=item.exit_code,\n            started_at",
        "exit_code=item.exit_code or 0,\n            started_at",
    ),
    Mutant(
        "TM-6",
        BASE,
        "            ended_at=item.ended_at,\n            observed_at",
        "            ended_at=item.ended_at and latest and latest.started_at,\n            observed_at",
    ),
    Mutant(
        "TM-7",
        STORE,
        "        known = self._of_job.get",
        "        for _ in self.objects:\n            pass\n        known = self._of_job.get",
        hidden="it costs time alone",
    ),
    # 2.3 The Slurm shape
    Mutant("SL-1", SLURM, 'name=f"dj-{job.id}"', 'name=f"dj-{job.id}-s{submission}"'),
    Mutant("SL-2", SLURM, "            self._fresh += 1\n", ""),
    Mutant(
        "SL-2",
        SLURM,
        "heappush(self._ahead if number >= self._next else self._behind, number)",
        "heappush(self._ahead, number)",
        hidden="which of the free ids comes next is nobody's promise",
    ),
    Mutant(
        "SL-2", BASE, "        return found.submitted_at == ref.submitted_at", "        return found.name == ref.name"
    ),
    Mutant("SL-2", BASE, "        if len(matches) > 1 and ref.weak:", "        if len(matches) > 2 and ref.weak:"),
    Mutant(
        "SL-2", BASE, "    return moment.replace(microsecond=0)", "    return moment.replace(microsecond=0, second=0)"
    ),
    Mutant("SL-3", SLURM, "gated=True, requeue_bit", "gated=False, requeue_bit"),
    Mutant("SL-3", SLURM, "        item.gated = False\n", ""),
    Mutant("SL-3", SLURM, "        item.gated = False\n", "        item.gated = not item.gated\n"),
    Mutant(
        "SL-4",
        SLURM,
        "        item.gated = False\n",
        '        require(item, item.state is State.PENDING, "pending")\n        item.gated = False\n',
    ),
    Mutant("SL-4", SLURM, "        refuse_ended(item)\n        if item.admin_held:", "        if item.admin_held:"),
    Mutant(
        "SL-4",
        SLURM,
        "        if item.admin_held:\n            raise HeldError",
        "        if False:\n            raise HeldError",
    ),
    Mutant(
        "SL-5",
        SLURM,
        "        elif item.state is State.RUNNING:\n            self._tell",
        "        else:\n            self._tell",
    ),
    Mutant(
        "SL-5",
        SLURM,
        "self._arrive(item, State.CANCELLED, Cause.STOPPED",
        "self._arrive(item, State.FAILED, Cause.STOPPED",
    ),
    Mutant(
        "SL-5",
        SLURM,
        "_to_end(item, State.CANCELLED, Cause.STOPPED, Cause.STOPPED)",
        "_to_end(item, State.FAILED, Cause.STOPPED, Cause.STOPPED)",
    ),
    Mutant(
        "SL-5",
        SLURM,
        "        if item.state is State.PENDING:\n            self._arrive",
        '        require(item, not item.admin_held, "not held")\n'
        "        if item.state is State.PENDING:\n"
        "            self._arrive",
    ),
    Mutant(
        "SL-6",
        SLURM,
        "        refuse_ended(item)\n        if item.state is State.RUNNING:\n",
        "        if item.state is State.RUNNING:\n",
    ),
    Mutant(
        "SL-6",
        SLURM,
        "        if item.state is State.RUNNING:\n            raise RunningError",
        "        if False:\n            raise RunningError",
    ),
    Mutant("SL-6", SLURM, "meta.instance < item.hold", "meta.instance <= item.hold"),
    Mutant(
        "SL-6",
        BASE,
        "        if item.hold != meta.instance:\n            raise stale",
        "        if item.hold > meta.instance:\n            raise stale",
    ),
    Mutant("SL-6", SLURM, "        if item.hold is not None and meta.instance < item.hold:", "        if False:"),
    Mutant("SL-6", SLURM, "        item.hold = meta.instance\n", "        item.hold = item.hold or meta.instance\n"),
    Mutant(
        "SL-6",
        SLURM,
        "        item.hold = meta.instance\n",
        "        item.hold = meta.instance\n"
        "        if meta.until:\n"
        "            span = meta.until - self.store.now\n"
        "            self.store.schedule(span, self.store.now, lambda item, *_: self.lift_hold(item), item)\n",
    ),
    Mutant("SL-6", SLURM, "        item.gated = False\n", "        item.gated, item.hold = False, None\n"),
    Mutant("SL-6", BASE, "        refuse_ended(item)\n        if item.hold is None:", "        if item.hold is None:"),
    Mutant("SL-6", BASE, "        if item.hold is None:\n            return\n", ""),
    Mutant("SL-6", BASE, "        item.hold = item.annotations = None\n", "        item.annotations = None\n"),
    Mutant(
        "SL-6",
        BASE,
        "return item.state is State.PENDING and self.cause(item) is item.waiting",
        "return item.state is State.PENDING and not item.gated and not item.admin_held",
    ),
    Mutant(
        "SL-6",
        SLURM,
        "HOLD_BASE + timedelta(seconds=item.hold)",
        "HOLD_BASE",
        hidden="a start time stands in the ground truth alone",
    ),
    Mutant("SL-7", SLURM, "None, cause, False\n", "None, cause, item.gated\n"),
    Mutant("SL-7", SLURM, "            item.restarts += 1\n", ""),
    Mutant(
        "SL-7", SLURM, "            item.ref = altered(item.ref, submitted_at=whole_second(self.store.moment))\n", ""
    ),
    Mutant(
        "SL-7",
        SLURM,
        "        if item.state is State.PENDING:\n            raise PendingError",
        "        if False:\n            raise PendingError",
    ),
    Mutant(
        "SL-7",
        SLURM,
        "            item.restarts += 1\n",
        "            item.restarts, item.hold = item.restarts + 1, None\n",
    ),
    Mutant(
        "SL-7",
        SLURM,
        "            item.restarts += 1\n",
        "            item.restarts, item.admin_held = item.restarts + 1, False\n",
    ),
    Mutant(
        "SL-7",
        SLURM,
        "        if item.ending:\n            raise RunningError",
        '        require(item, item.state is not State.CANCELLED, "not cancelled")\n'
        "        if item.ending:\n"
        "            raise RunningError",
    ),
    Mutant(
        "SL-8",
        SLURM,
        "            item.requeue_bit = True\n            self.show(item)\n            raise CrashedError",
        "            raise CrashedError",
    ),
    Mutant(
        "SL-8",
        SLURM,
        "        self._requeue(item)\n\n    def _requeue",
        "        item.requeue_bit = True\n        self._requeue(item)\n\n    def _requeue",
    ),
    Mutant(
        "SL-8",
        SLURM,
        "        self._requeue(item)\n\n    def _requeue",
        "        item.requeue_bit = False\n        self._requeue(item)\n\n    def _requeue",
    ),
    Mutant(
        "SL-8",
        SLURM,
        "            raise PendingError(",
        "            item.requeue_bit = True\n            self.show(item)\n            raise PendingError(",
    ),
    Mutant("SL-8", SLURM, "        if crash:\n", "        if crash and item.state is not State.PENDING:\n"),
    Mutant(
        "SL-8",
        SLURM,
        "            raise CrashedError(",
        "            if item.state.ended:\n                self._requeue(item)\n            raise CrashedError(",
    ),
    Mutant(
        "SL-9",
        SLURM,
        "        refuse_ended(item)\n        item.requeue_bit = False",
        "        item.requeue_bit = False",
    ),
    Mutant("SL-9", SLURM, "        item.requeue_bit = False", "        pass"),
    Mutant(
        "SL-9", SLURM, "        item.requeue_bit = True\n        self._requeue(item)", "        self._requeue(item)"
    ),
    Mutant(
        "SL-10",
        SLURM,
        "return BACK_TO_WAIT if item.requeue_bit else (State.FAILED, cause)",
        "return State.FAILED, cause",
    ),
    Mutant(
        "SL-10",
        SLURM,
        "*self._fate(item, Cause.PREEMPTED), Cause.PREEMPTED)",
        "*self._fate(item, Cause.UNKNOWN), Cause.PREEMPTED)",
    ),
    Mutant(
        "SL-10",
        SLURM,
        "*self._fate(item, Cause.PREEMPTED), Cause.PREEMPTED)",
        "*self._fate(item, Cause.PREEMPTED), Cause.PREEMPTED)\n        item.requeue_bit = False",
    ),
    Mutant(
        "SL-11",
        SLURM,
        "self.store.schedule(self.config.slurmd_timeout, item.order, self._timed_out, item, run)",
        "self._lost(item, run)",
    ),
    Mutant("SL-11", SLURM, 'if run.node != "up" and run.lost_at and', "if run.lost_at and"),
    Mutant("SL-11", SLURM, "later(run.lost_at, self.config.slurmd_timeout) == self.store.moment", "True"),
    Mutant("SL-11", SLURM, "        if run is not item.latest or", "        if"),
    Mutant("SL-11", SLURM, "        elif not run.alive:\n            self._lost(item, run)\n", ""),
    Mutant(
        "SL-11",
        SLURM,
        "        elif item.state is State.RUNNING:\n            self._tell",
        '        elif item.state is State.RUNNING and self.current_run(item).node == "up":\n            self._tell',
    ),
    Mutant(
        "SL-11",
        SLURM,
        "        self._requeue(item)\n\n    def _requeue",
        '        require(item, item.state.ended or self.current_run(item).node == "up", "on a node that is not lost")\n'
        "        self._requeue(item)\n"
        "\n"
        "    def _requeue",
    ),
    Mutant("SL-12", SLURM, "            if self.config.min_job_age:\n", "            if True:\n"),
    Mutant("SL-12", SLURM, "later(ended_at, self.config.min_job_age) == self.store.moment", "True"),
    Mutant(
        "SL-12",
        SLURM,
        "            if self.config.min_job_age:\n",
        "            if self.config.min_job_age and state is not State.CANCELLED:\n",
    ),
    Mutant(
        "SL-12",
        SLURM,
        "        return self.make(job, submission, ref, gated=True, requeue_bit=REQUEUE in settings)\n",
        "        item = self.make(job, submission, ref, gated=True, requeue_bit=REQUEUE in settings)\n"
        "        if self.config.min_job_age:\n"
        "            aged = lambda item, *_: self.store.forget(item, self.store.now, None)\n"
        "            self.store.schedule(self.config.min_job_age, self.store.now, aged, item)\n"
        "        return item\n",
    ),
    Mutant(
        "SL-12",
        BASE,
        "            raise self._not_found(ref, item.ref if item else None)\n        return item\n\n    def find_any",
        "            return self.find_any(ref)\n        return item\n\n    def find_any",
    ),
    Mutant(
        "SL-12",
        STORE,
        "sorted((*gone.values(), *self.remembered_of(job_id)), key=_order)",
        "[*gone.values(), *self.remembered_of(job_id)]",
    ),
    Mutant("SL-12", SLURM, "observed_at=at, from_history=True", "observed_at=at"),
    Mutant(
        "SL-12",
        SLURM,
        "return self.find_all_as_of(job_id, self.store.now) if self._accounting else",
        "return self.find_all_as_of(job_id, self.store.now) if False else",
    ),
    Mutant(
        "SL-13",
        SLURM,
        "        return item.restarts\n",
        "        return len(item.executions)\n",
        hidden="the epoch stands in the environment of an execution alone",
    ),
    Mutant(
        "SL-14",
        SLURM,
        "        elif item.ending:\n            self._take_over(item, item.ending)",
        "        elif item.ending:\n            pass",
    ),
    Mutant(
        "SL-14",
        SLURM,
        "        if item.ending:\n            raise RunningError",
        "        if False:\n            raise RunningError",
    ),
    Mutant("SL-14", SLURM, "State.RUNNING or item.ending:\n            return", "State.RUNNING:\n            return"),
    Mutant(
        "SL-14", SLURM, "Ending(ending.due, State.CANCELLED", "Ending(later(ending.due, timedelta(1)), State.CANCELLED"
    ),
    # 2.4 The Kubeflow shape
    Mutant("KF-1", KUBEFLOW, "        self._names.add(name)\n", ""),
    Mutant("KF-1", KUBEFLOW, "        self._names.discard(item.ref.name)\n", ""),
    Mutant(
        "KF-1",
        KUBEFLOW,
        "{str(job.id).lower()}",
        "{job.id}",
        hidden="how a name is spelt is the business of the scheduler alone",
    ),
    Mutant("KF-1", KUBEFLOW, 'self.opaque("object", next(self.serials))', 'self.opaque("object", 0)'),
    Mutant("KF-1", KUBEFLOW, "-s{submission}", ""),
    Mutant(
        "KF-1",
        KUBEFLOW,
        "    # KF-2, KF-3: no gate",
        "    def answers(self, item: StoredObject, ref: Ref) -> bool:\n"
        "        return True\n"
        "\n"
        "    # KF-2, KF-3: no gate",
    ),
    Mutant("KF-1", BASE, "        return found.submitted_at == ref.submitted_at", "        return True"),
    Mutant(
        "KF-2",
        KUBEFLOW,
        "    def open(self, item: StoredObject) -> None:\n        refuse_ended(item)",
        "    def open(self, item: StoredObject) -> None:\n        pass",
    ),
    Mutant(
        "KF-3",
        KUBEFLOW,
        "        cause = item.shown.cause\n        if not",
        "        refuse_ended(item)\n        cause = item.shown.cause\n        if not",
    ),
    Mutant("KF-3", KUBEFLOW, "            cause = Cause.STOPPED\n", ""),
    Mutant(
        "KF-4",
        KUBEFLOW,
        "        item.waiting = Cause.PREEMPTED\n",
        "        item.waiting = Cause.PREEMPTED\n        item.restarts += 1\n",
    ),
    Mutant("KF-4", KUBEFLOW, "        item.waiting = Cause.PREEMPTED\n", ""),
    Mutant("KF-5", KUBEFLOW, "        item.cause = Cause.NODE_LOST\n        self._arise", "        self._arise"),
    Mutant("KF-5", KUBEFLOW, '        require(item, run.node == "up", "running on a node that is not lost")\n', ""),
    Mutant("KF-5", KUBEFLOW, "            item.cause = item.arose_at = None\n", "            item.cause = None\n"),
    Mutant(
        "KF-5", KUBEFLOW, "        if run.alive:\n            item.cause", "        if True:\n            item.cause"
    ),
    Mutant(
        "KF-6",
        KUBEFLOW,
        "return altered(seen, cause=Cause.UNKNOWN, exit_code=None)",
        "return altered(seen, cause=Cause.UNKNOWN)",
    ),
    Mutant(
        "KF-6",
        KUBEFLOW,
        "return altered(seen, cause=Cause.UNKNOWN, exit_code=None)",
        "return altered(seen, exit_code=None)",
    ),
    Mutant(
        "KF-6",
        KUBEFLOW,
        "if item.arose_at and self.store.moment",
        "if item.ended_at and item.arose_at and self.store.moment",
    ),
    Mutant("KF-6", KUBEFLOW, "        if item.gone_at is None:\n            self.show(item)", "        pass"),
    Mutant("KF-6", KUBEFLOW, "        if cause.pod_derived:\n", "        if True:\n"),
    Mutant(
        "KF-7",
        KUBEFLOW,
        "        refuse_ended(item)\n        if item.hold is not None and",
        "        if item.hold is not None and",
    ),
    Mutant("KF-7", KUBEFLOW, "        if item.hold is not None and meta.instance < item.hold:", "        if False:"),
    Mutant("KF-7", KUBEFLOW, "meta.instance < item.hold", "meta.instance <= item.hold"),
    Mutant(
        "KF-7",
        KUBEFLOW,
        "item.hold, item.active = meta.instance,",
        "item.hold, item.active = item.hold or meta.instance,",
    ),
    Mutant("KF-7", KUBEFLOW, "        item.active = True\n", ""),
    Mutant("KF-7", KUBEFLOW, "        self._wait(item, Cause.HELD)\n        if item.hold", "        if item.hold"),
    Mutant(
        "KF-7",
        KUBEFLOW,
        "        if item.hold != meta.instance:\n            item.annotations",
        "        if True:\n            item.annotations",
        hidden="who holds, until when and why stand in the ground truth alone",
    ),
    Mutant(
        "KF-7",
        BASE,
        "        item.hold = item.annotations = None",
        "        item.hold = None",
        hidden="who holds, until when and why stand in the ground truth alone",
    ),
    Mutant("KF-8", BASE, '_OPTIONAL = ("requeue", "restore_requeue_bit")', "_OPTIONAL = ()"),
    Mutant(
        "KF-9",
        KUBEFLOW,
        "        return len(item.executions)\n",
        "        return item.restarts\n",
        hidden="the epoch stands in the environment of an execution alone",
    ),
    Mutant(
        "KF-10",
        KUBEFLOW,
        "        if self.config.kill_wait:\n",
        "        if False:\n",
        hidden="an execution that ends sooner than it might is no fault: nobody is told how long it may live on",
    ),
    Mutant(
        "KF-10",
        KUBEFLOW,
        '        if run.node != "up":\n            return\n',
        "",
        hidden="until its node is fenced or back, when it is dead anyway, nothing is said of a process on a lost node",
    ),
    Mutant("KF-11", KUBEFLOW, "item.restarts < item.native_restarts", "item.restarts <= item.native_restarts"),
    Mutant("KF-11", KUBEFLOW, "            item.restarts += 1\n", ""),
    # 2.5 Deadlines and injection
    Mutant(
        "2.5",
        CLUSTER,
        "start > call.deadline",
        "start >= call.deadline",
        hidden="where time goes by, no call can be made to start at the very moment of its deadline",
    ),
    Mutant("2.5", CLUSTER, "started_at() or call.at", "call.at"),
    Mutant("2.5", INJECTION, "        variable.reset(token)", "        pass"),
    Mutant("2.5", BACKEND, 'Call("start", None, job_id, True, deadline)', 'Call("start", None, job_id, True, None)'),
    Mutant("2.5", CLUSTER, "start > call.deadline", "start < call.deadline"),
    Mutant(
        "2.5",
        CLUSTER,
        "        if call.deadline is not None:\n"
        "            start = started_at() or call.at\n"
        "            if start > call.deadline:",
        "        if call.writes:\n"
        "            start = started_at() or call.at\n"
        "            if start > (call.deadline or call.at):",
    ),
    Mutant("2.5", BACKEND, 'Call("start", None, job_id, True, deadline)', 'Call("start", None, job_id, True)'),
    Mutant("2.5", BACKEND, "Call(call, ref, None, True, deadline)", "Call(call, ref, None, True)"),
    Mutant("2.5", BACKEND, "meta.deadline if is_a(meta, CallMeta) else None", "None"),
    Mutant(
        "1.2",
        BACKEND,
        '    return lambda: deadline is None or as_moment("deadline", deadline)',
        "    return lambda: None",
    ),
    # 2.6 Watch
    Mutant(
        "WA-1",
        WATCH,
        "return self._subscription is not None and not self._snapshot",
        "return self._subscription is not None",
    ),
    Mutant(
        "WA-1",
        CLUSTER,
        "            self.store.settle()\n            self._tell()\n            current",
        "            current",
    ),
    Mutant("WA-1", WATCH, "        self._subscribed()\n        return self", "        return self"),
    Mutant(
        "WA-1",
        WATCH,
        "        self._subscribed()\n        return self",
        "        subscription, snapshot = self._cluster.subscribe(self._client)\n"
        '        self._cluster.hub.close(subscription, "closed")\n'
        "        await checkpoint()\n"
        "        self._subscribed()\n"
        "        self._snapshot = snapshot\n"
        "        return self",
    ),
    Mutant("WA-1", STORE, "return iter(self.remembered.values())", "return reversed(self.remembered.values())"),
    Mutant("WA-1", CLUSTER, "self.store.remembered_in_order()", "self.store.objects.values()"),
    Mutant(
        "WA-2",
        STORE,
        "        if observation != altered(item.shown, observed_at=observation.observed_at):",
        "        if True:",
    ),
    Mutant("WA-2", STORE, "state=State.GONE, cause=cause, detail", "state=State.GONE, detail"),
    Mutant(
        "WA-2",
        STORE,
        "        self.told.append(altered(item.shown, state=State.GONE",
        "        _ = (altered(item.shown, state=State.GONE",
    ),
    Mutant(
        "WA-2",
        HUB,
        "        for subscription in tuple(self._open):\n            try:",
        "        for subscription in tuple(self._open)[:1]:\n            try:",
    ),
    Mutant(
        "WA-2",
        HUB,
        "                subscription.send.send_nowait(change)\n",
        "                for _ in range(2):\n                    subscription.send.send_nowait(change)\n",
    ),
    Mutant(
        "WA-2",
        CLUSTER,
        "                raise ExpiredError(\n",
        "                self.store.told.extend(item.shown for item in self.store.remembered.values())\n"
        "                raise ExpiredError(\n",
    ),
    Mutant(
        "WA-2",
        BASE,
        "            raise stale(item, item.hold, meta.instance)",
        "            self.store.told.append(item.shown)\n            raise stale(item, item.hold, meta.instance)",
    ),
    Mutant("WA-3", HUB, '                self.close(subscription, "overflow")', "                self.close_all()"),
    Mutant("WA-3", HUB, "            except anyio.WouldBlock:\n", "            except ZeroDivisionError:\n"),
    Mutant(
        "WA-3",
        HUB,
        "subscription.left.append(subscription.receive.receive_nowait())",
        "subscription.receive.receive_nowait()",
    ),
    Mutant("WA-3", WATCH, '        self._close("closed")\n        await checkpoint()', "        await checkpoint()"),
    Mutant("WA-3", HUB, '                self.close(subscription, "overflow")', "                pass"),
    Mutant(
        "WA-3",
        WATCH,
        '            self._close("cancelled")\n            raise\n        if subscription and',
        "            raise\n        if subscription and",
    ),
    Mutant("WA-3", HUB, "if client is None or subscription.client is client:", "if True:"),
    Mutant("WA-4", FOLLOWING, "        self._ready.extend((*gone, *snapshot))", "        self._ready.extend(snapshot)"),
    Mutant(
        "WA-4",
        FOLLOWING,
        "        self._ready.extend((*gone, *snapshot))",
        "        self._ready.extend((*snapshot, *gone))",
    ),
    Mutant(
        "WA-5", FOLLOWING, "await adapter.weaken_identity(ref) if isinstance(adapter, IdentityWeakener) else ref", "ref"
    ),
    Mutant(
        "WA-5",
        FOLLOWING,
        "anyio.move_on_after(None if timeout is None else timeout.total_seconds())",
        "anyio.move_on_after(None)",
    ),
    Mutant(
        "WA-2",
        BACKEND,
        "            return cluster.call(self, call, check, act, *given)",
        "            before = {item: item.shown for item in cluster.store.remembered.values()}\n"
        "            answer = cluster.call(self, call, check, act, *given)\n"
        "            after = {item: item.shown for item in before}\n"
        "        for shown in (before, after):\n"
        "            for item in before:\n"
        "                item.shown = shown[item]\n"
        "            for _ in range(3 if shown is before else 0):\n"
        "                await checkpoint()\n"
        "        return answer",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "            self._arrive(item, *BACK_TO_WAIT)\n        self.show(item)",
        "            self._arrive(item, *BACK_TO_WAIT)\n"
        "        self.show(item)\n"
        "        self.store.told.append(item.shown)",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "            self._arrive(item, *BACK_TO_WAIT)\n        self.show(item)",
        "            self._arrive(item, *BACK_TO_WAIT)\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "            item.requeue_bit = True\n            self.show(item)",
        "            item.requeue_bit = True\n            item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "        item.requeue_bit = False\n        self.show(item)",
        "        item.requeue_bit = False\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "Cause.PREEMPTED), Cause.PREEMPTED)\n        self.show(item)",
        "Cause.PREEMPTED), Cause.PREEMPTED)\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "Cause.NODE_LOST))\n        self.show(item)",
        "Cause.NODE_LOST))\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        KUBEFLOW,
        "        item.waiting = Cause.PREEMPTED\n        self.show(item)",
        "        item.waiting = Cause.PREEMPTED\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        KUBEFLOW,
        "        self._arise(item)\n        self.show(item)",
        "        self._arise(item)\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        KUBEFLOW,
        "item.state, item.ended_at = State.FAILED, self.store.moment\n        self.show(item)",
        "item.state, item.ended_at = State.FAILED, self.store.moment\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        KUBEFLOW,
        "        item.active = False\n        self.show(item)",
        "        item.active = False\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        KUBEFLOW,
        "        item.hold, item.active = meta.instance, False\n        self.show(item)",
        "        item.hold, item.active = meta.instance, False\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        BASE,
        "        item.admin_held = True\n        self.show(item)",
        "        item.admin_held = True\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        BASE,
        "        item.admin_held = False\n        self.show(item)",
        "        item.admin_held = False\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        BASE,
        "        item.waiting, item.detail = Cause.NO_CAPACITY, detail\n        self.show(item)",
        "        item.waiting, item.detail = Cause.NO_CAPACITY, detail\n        item.shown = self.observe(item)",
    ),
    Mutant(
        "WA-2",
        SLURM,
        "            self._kill(run)\n"
        "            self._arrive(item, item.ending.state, item.ending.cause)\n"
        "            self.show(item)",
        "            self._kill(run)\n"
        "            self._arrive(item, item.ending.state, item.ending.cause)\n"
        "            item.shown = self.observe(item)",
    ),
    # 2.7 Environment, ground truth, log, views
    Mutant("2.7", BASE, 'run.node == "fenced" or', "False or"),
    Mutant(
        "2.7",
        BASE,
        "            run.die(self.store.moment)\n        self.node_lost",
        "            pass\n        self.node_lost",
    ),
    Mutant(
        "2.7",
        BASE,
        '            run.node = "fenced"\n            run.die(self.store.moment)\n',
        '            run.node = "fenced"\n',
    ),
    Mutant(
        "2.7",
        BASE,
        '            run.node = "fenced"\n            run.die(self.store.moment)\n',
        '            run.node = "fenced"\n'
        "            run.die(self.store.moment)\n"
        "            if item.state is State.RUNNING and run is item.latest:\n"
        "                self.node_back(item, run)\n",
    ),
    Mutant(
        "2.7",
        BASE,
        "            else:\n                run.die(self.store.moment)\n        self.store.retire(item)",
        "        self.store.retire(item)",
    ),
    Mutant("2.7", SLURM, '        require(item, run.node == "up", "running on a node that is not lost")\n', ""),
    Mutant("2.7", SLURM, "        run.die(self.store.moment)\n        run.exit_code", "        run.exit_code"),
    Mutant(
        "2.7",
        SLURM,
        "        self._arrive(item, State.FAILED, cause)\n",
        "        self._arrive(item, State.FAILED, Cause.NON_ZERO_EXIT)\n",
    ),
    Mutant(
        "2.7", KUBEFLOW, "State.FAILED, cause, self.store.moment\n", "State.FAILED, Cause.UNKNOWN, self.store.moment\n"
    ),
    Mutant("2.7", CLUSTER, "fault.call == call.name and fault.effect in effects", "fault.effect in effects"),
    Mutant("2.7", CLUSTER, '                self._inject("kept", call)', "                pass"),
    Mutant("2.7", KUBEFLOW, "        item.active = False\n", "        item.active, item.hold = False, 1\n"),
    Mutant(
        "2.7",
        KUBEFLOW,
        '        require(item, not item.state.ended, "live")\n        self.lift_hold(item)',
        "        item.active = True\n        self.show(item)",
    ),
    Mutant("2.7", CLUSTER, "        fault.times -= 1\n", ""),
    Mutant("2.7", CLUSTER, "        if call.writes and client.read_only:", "        if False:"),
    Mutant(
        "2.7",
        CLUSTER,
        "                if len(store.told) > before:",
        "                if True:",
        hidden="when a call landed stands in the call log alone",
    ),
    Mutant("2.7", CLUSTER, "        if call.writes and client.read_only:", "        if client.read_only:"),
    Mutant(
        "2.7",
        BACKEND,
        "        return MemoryWatch(self._cluster, self)",
        "        if self.read_only:\n"
        '            raise ClosedError("read-only")\n'
        "        return MemoryWatch(self._cluster, self)",
    ),
    Mutant(
        "2.7",
        BACKEND,
        "return View(self._cluster, self._env",
        "return View(Cluster(self.config, self.now, None), self._env",
    ),
    Mutant("2.7", BACKEND, "        self._closed = True\n", "        self._closed = self._cluster.closed = True\n"),
    Mutant(
        "2.7",
        CLUSTER,
        "            before = len(store.told)  #",
        '            self._inject("kept", call)\n            before = len(store.told)  #',
    ),
    Mutant(
        "ruling 29",
        STORE,
        "if not any(run.alive for run in item.executions):",
        "if True:",
        hidden="how much is kept is the memory adapter's own setting",
    ),
    # 2.8 Native policies
    Mutant("NP-1", BASE, "native[rule.action].value is Tristate.YES and ", ""),
    Mutant("NP-1", BASE, " and not rule.causes & named", ""),
    Mutant(
        "NP-1",
        BASE,
        "for index, rule in enumerate(policy.rules) if index not in covered)",
        "for index, rule in enumerate(policy.rules))",
    ),
    Mutant("NP-1", BASE, "Policy(rest, policy.unmatched)", "Policy(rest)"),
    Mutant("NP-2", SLURM, "tuple(fitting)", "tuple(fitting)[::-1]"),
    Mutant("NP-2", SLURM, 'not in ({}, {REQUEUE: "1"}):', 'not in ({}, {REQUEUE: "yes"}):'),
    Mutant("NP-2", SLURM, "gated=True, requeue_bit=REQUEUE in settings", "gated=True, requeue_bit=False"),
    Mutant("NP-2", SLURM, "and not rule.backoff and", "and"),
    Mutant("NP-2", SLURM, "!= both:\n            return {}, ()", "< both and not fitting:\n            return {}, ()"),
    Mutant("NP-2", SLURM, "rule.limit is None and", ""),
    Mutant("NP-3", KUBEFLOW, "if cause in RESTARTABLE and item.restarts", "if item.restarts"),
    Mutant(
        "NP-3",
        KUBEFLOW,
        "        if exit_code:\n            self._fail",
        "        if item.native_restarts or exit_code:\n            self._fail",
    ),
    Mutant("NP-3", KUBEFLOW, "rule.causes == RESTARTABLE", "rule.causes <= RESTARTABLE"),
    Mutant("NP-3", KUBEFLOW, "                and not rule.backoff\n", ""),
    # 2.1 Configuration
    Mutant("2.1", BASE, "for capability in Capability}", "for capability in self.supported}"),
    Mutant(
        "2.1",
        BASE,
        "rules={**dict.fromkeys(Action, yes), **config.rules},\n            native={**dict.fromkeys(Action, no)",
        "rules={**dict.fromkeys(Action, no), **config.rules},\n            native={**dict.fromkeys(Action, yes)",
    ),
    Mutant(
        "2.1",
        CONFIG,
        "(action not in rules or rules[action].value is not Tristate.YES)",
        "(action in rules and rules[action].value is not Tristate.YES)",
        hidden="a Config is refused before there is an adapter",
    ),
    # 2.9 Replies that come late or stale
    Mutant("LT-1", CLUSTER, "self.store.schedule(fault.after, item", "self.store.schedule(fault.after * 2, item"),
    Mutant(
        "LT-1",
        CLUSTER,
        "            call.landed_at = self.store.moment\n",
        "            call.landed_at = call.at\n",
        hidden="the log is the memory adapter's own",
    ),
    Mutant(
        "LT-1",
        CLUSTER,
        "LAST = sys.maxsize",
        "LAST = -1",
        hidden="which of two things of one moment comes first is a promise of the memory adapter alone",
    ),
    Mutant(
        "LT-1",
        CLUSTER,
        "item.order if item else LAST",
        "LAST",
        hidden="which of two things of one moment comes first is a promise of the memory adapter alone",
    ),
    Mutant(
        "LT-1",
        CLUSTER,
        "with suppress(DispatchError):",
        "with suppress(ZeroDivisionError):",
        hidden="the suite lets nothing land that is refused then",
    ),
    Mutant(
        "LT-1",
        CLUSTER,
        'self._striking(call, "kept", "late")',
        'self._striking(call, "late")',
        hidden="a harness injects one fault at a time",
    ),
    Mutant("LT-1", FAULTS, "< fault.after <= call_bound", "< fault.after < call_bound"),
    Mutant(
        "LT-1",
        SLURM,
        "id=str(number), submitted_at=whole_second(self.store.moment)",
        "id=str(number), submitted_at=whole_second(self.store.now)",
        hidden="nobody is told when a call that was given up landed",
    ),
    Mutant(
        "LT-1",
        KUBEFLOW,
        "name=name, id=uid, submitted_at=whole_second(self.store.moment)",
        "name=name, id=uid, submitted_at=whole_second(self.store.now)",
        hidden="nobody is told when a call that was given up landed",
    ),
    Mutant(
        "LT-1",
        STORE,
        "            self.moment, _, _, action, *given = heappop(self._due)\n",
        "            _, _, _, action, *given = heappop(self._due)\n            self.moment = self.now\n",
    ),
    Mutant(
        "LT-2",
        STORE,
        "return seen and altered(seen, observed_at=at)",
        "return seen and altered(seen, observed_at=self.now)",
    ),
    Mutant(
        "LT-2",
        STORE,
        "for moment, seen in looks if moment <= at)",
        "for moment, seen in looks if moment < at)",
        hidden="the suite does not look at the very moment",
    ),
    Mutant(
        "LT-2",
        STORE,
        "if since > at and not (first and self._was_there(item, first, at)):",
        "if False:",
        hidden="how things stood before reads lagged is not kept",
    ),
    Mutant(
        "LT-2",
        STORE,
        "            self.past.began(item.order, item.shown, self.moment)\n",
        "            pass\n",
        hidden="an absence says no moment",
    ),
    Mutant(
        "LT-2",
        STORE,
        "            self.past.changed(item.order, item.shown, None, self.moment)\n",
        "            pass\n",
        hidden="an absence says no moment",
    ),
    Mutant("LT-2", BASE, "if self.answers(one.ref, ref)]", "]"),
    Mutant(
        "LT-2",
        CLUSTER,
        "self.lags.get(client, self.lags.get(None))",
        "self.lags.get(None)",
        hidden="a harness that injects no lag is as good",
    ),
    Mutant(
        "LT-2", CLUSTER, "            self.store.past = None\n", "            pass\n", hidden="it costs memory alone"
    ),
    Mutant(
        "LT-2",
        "memory/past.py",
        "                del self._looks[order][0]\n",
        "                pass\n",
        hidden="it costs memory alone",
    ),
    Mutant(
        "LT-3",
        BASE,
        "        self.omitted -= Counter((item.order,))\n",
        "",
        hidden="no adapter's user can make a scheduler leave out",
    ),
    Mutant(
        "LT-3",
        BACKEND,
        "for job_id in dict.fromkeys(asked)",
        "for job_id in asked",
        hidden="no adapter's user can make a scheduler leave out",
    ),
    Mutant(
        "LT-4",
        SLURM,
        "later(item.gone_at, self.config.accounting_lag) <= at",
        "item.gone_at <= at",
        hidden="how long history takes is no promise",
    ),
    # 3.1 The conformance suite
    Mutant("3.1", HARNESS, "frozenset(ABILITIES) - shape.lacks", 'frozenset(ABILITIES) - {"run"}'),
)
