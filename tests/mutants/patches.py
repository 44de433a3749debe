"""The patches: a rule, the module that carries it, the line as it stands and the line that takes the rule back."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One rule taken back. The text must stand in the module exactly once."""

    rule: str
    module: str
    text: str
    instead: str


SLURM, KUBEFLOW, BASE = (f"memory/shapes/{name}.py" for name in ("slurm", "kubeflow", "base"))
STORE, CLUSTER, BACKEND, ENV, HUB, WATCH, FAULTS, INJECTION, CONFIG = (
    f"memory/{name}.py"
    for name in ("store", "cluster", "backend", "env", "hub", "watch", "faults", "injection", "config")
)
FOLLOWING = "following.py"

MUTANTS = (
    # 2.2 Time, and what every call does
    Mutant(
        "TM-1",
        BACKEND,
        "        await checkpoint()\n        with cluster.lock:\n            return cluster.call(self, call,",
        "        with cluster.lock:\n            return cluster.call(self, call,",
    ),
    Mutant("TM-1", ENV, "        await checkpoint()\n", ""),
    Mutant("TM-1", CLUSTER, "        if client.closed:\n", "        if False:\n"),
    Mutant(
        "TM-1",
        BACKEND,
        "        self._cluster.hub.close_all(self)\n        await checkpoint()",
        "        await checkpoint()\n        self._cluster.hub.close_all(self)",
    ),
    Mutant("TM-2", STORE, "self._due[0][0] <= self.now", "self._due[0][0] < self.now"),
    Mutant("TM-2", STORE, "action(item, execution, due)", "action(item, execution, self.now)"),
    Mutant(
        "TM-2", STORE, "(due, item.order, next(self._serials), action", "(due, -item.order, next(self._serials), action"
    ),
    Mutant(
        "TM-2", CLUSTER, "            answer = act()\n            self.store.settle()", "            answer = act()"
    ),
    Mutant("TM-3", CLUSTER, "        if now < self.store.now:\n            return self.store.now\n", ""),
    Mutant("TM-3", CLUSTER, '            now = as_moment("clock", now)', "            now = now.replace(tzinfo=UTC)"),
    Mutant(
        "TM-4",
        "model/base.py",
        "            return FrozenDict(frozen) if frozen else _EMPTY",
        "            return value",
    ),
    Mutant(
        "TM-5",
        BASE,
        'return str(uuid5(_NAMES, f"{kind} {serial}"))',
        "import uuid\n\n        return str(uuid.uuid4())",
    ),
    Mutant("TM-6", BASE, "if item.admin_held:\n            return Cause.ADMIN_HELD", "if False:\n            pass"),
    Mutant("TM-6", BASE, "if latest and item.state is not State.PENDING else None", "if latest else None"),
    Mutant(
        "TM-7",
        STORE,
        "        known = self._of_job.get(job_id)\n",
        "        known = sorted(self.objects) and self._of_job.get(job_id)\n",
    ),
    # 2.3 The Slurm shape
    Mutant("SL-1", SLURM, 'name=f"dj-{job.id}"', 'name=f"dj-{job.id}-s{submission}"'),
    Mutant(
        "SL-2",
        SLURM,
        "heappush(self._ahead if number >= self._next else self._behind, number)",
        "heappush(self._ahead, number)",
    ),
    Mutant(
        "SL-2",
        BASE,
        "        return item.ref.submitted_at == ref.submitted_at",
        "        return item.ref.name == ref.name",
    ),
    Mutant("SL-2", SLURM, "            if len(matches) > 1:", "            if len(matches) > 2:"),
    Mutant(
        "SL-2", BASE, "    return moment.replace(microsecond=0)", "    return moment.replace(microsecond=0, second=0)"
    ),
    Mutant("SL-3", SLURM, "gated=True, requeue_bit", "gated=False, requeue_bit"),
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
    Mutant("SL-6", SLURM, "HOLD_BASE + timedelta(seconds=item.hold)", "HOLD_BASE"),
    Mutant("SL-7", SLURM, "None, cause, False\n", "None, cause, item.gated\n"),
    Mutant("SL-7", SLURM, "            item.restarts += 1\n", ""),
    Mutant("SL-7", SLURM, "            item.ref = altered(item.ref, submitted_at=whole_second(at))\n", ""),
    Mutant(
        "SL-7",
        SLURM,
        "        if item.state is State.PENDING:\n            raise PendingError",
        "        if False:\n            raise PendingError",
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
        "SL-9",
        SLURM,
        "        refuse_ended(item)\n        item.requeue_bit = False",
        "        item.requeue_bit = False",
    ),
    Mutant("SL-9", SLURM, "        item.requeue_bit = False", "        pass"),
    Mutant(
        "SL-10",
        SLURM,
        "return BACK_TO_WAIT if item.requeue_bit else (State.FAILED, cause)",
        "return State.FAILED, cause",
    ),
    Mutant(
        "SL-11",
        SLURM,
        "self.store.schedule(self.config.slurmd_timeout, self.store.now, self._timed_out, item, run)",
        "self._lost(item, run, self.store.now)",
    ),
    Mutant("SL-11", SLURM, 'if run.node != "up" and run.lost_at and', "if run.lost_at and"),
    Mutant("SL-12", SLURM, "            if self.config.min_job_age:\n", "            if True:\n"),
    Mutant("SL-12", SLURM, "later(ended_at, self.config.min_job_age) == due", "True"),
    Mutant("SL-12", BASE, '            force_setattr(seen, "from_history", True)\n', "            pass\n"),
    Mutant(
        "SL-12",
        SLURM,
        "        if not self._accounting:\n            return super().find_all(job_id)",
        "        if True:\n            return super().find_all(job_id)",
    ),
    Mutant("SL-13", SLURM, "        return item.restarts\n", "        return len(item.executions)\n"),
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
    Mutant("KF-1", KUBEFLOW, "{str(job.id).lower()}", "{job.id}"),
    Mutant("KF-1", BASE, "        return item.ref.submitted_at == ref.submitted_at", "        return True"),
    Mutant(
        "KF-2",
        KUBEFLOW,
        "    def open(self, item: StoredObject) -> None:\n        refuse_ended(item)",
        "    def open(self, item: StoredObject) -> None:\n        pass",
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
    Mutant(
        "KF-6",
        KUBEFLOW,
        "return altered(seen, cause=Cause.UNKNOWN, exit_code=None)",
        "return altered(seen, cause=Cause.UNKNOWN)",
    ),
    Mutant("KF-6", KUBEFLOW, "        if item.gone_at is None:\n            self.show(item)", "        pass"),
    Mutant("KF-6", KUBEFLOW, "        if cause.pod_derived:\n", "        if True:\n"),
    Mutant("KF-7", KUBEFLOW, "        self._wait(item, Cause.HELD)\n        if item.hold", "        if item.hold"),
    Mutant(
        "KF-7",
        KUBEFLOW,
        "        if item.hold != meta.instance:\n            item.annotations",
        "        if True:\n            item.annotations",
    ),
    Mutant("KF-7", BASE, "        item.hold = item.annotations = None", "        item.hold = None"),
    Mutant("KF-8", BASE, '_OPTIONAL = ("requeue", "restore_requeue_bit")', "_OPTIONAL = ()"),
    Mutant("KF-9", KUBEFLOW, "        return len(item.executions)\n", "        return item.restarts\n"),
    Mutant("KF-10", KUBEFLOW, "        if self.config.kill_wait:\n", "        if False:\n"),
    Mutant("KF-10", KUBEFLOW, '        if run.node != "up":\n            return\n', ""),
    Mutant("KF-11", KUBEFLOW, "item.restarts < item.native_restarts", "item.restarts <= item.native_restarts"),
    Mutant("KF-11", KUBEFLOW, "            item.restarts += 1\n", ""),
    # 2.5 Deadlines and injection
    Mutant("2.5", CLUSTER, "start > call.deadline", "start >= call.deadline"),
    Mutant("2.5", CLUSTER, "started_at() or call.at", "call.at"),
    Mutant("2.5", INJECTION, "        variable.reset(token)", "        pass"),
    Mutant("2.5", BACKEND, 'Call("start", None, job_id, True, deadline)', 'Call("start", None, job_id, True, None)'),
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
    Mutant(
        "WA-2",
        STORE,
        "        if observation != altered(item.shown, observed_at=observation.observed_at):",
        "        if True:",
    ),
    Mutant("WA-2", STORE, "state=State.GONE, cause=cause, detail", "state=State.GONE, detail"),
    Mutant("WA-3", HUB, '                self.close(subscription, "overflow")', "                pass"),
    Mutant(
        "WA-3",
        WATCH,
        '            self._close("cancelled")\n            raise\n        if subscription and',
        "            raise\n        if subscription and",
    ),
    Mutant("2.7", HUB, "if client is None or subscription.client is client:", "if True:"),
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
        "anyio.fail_after(None if timeout is None else timeout.total_seconds())",
        "anyio.fail_after(None)",
    ),
    # 2.7 Environment, ground truth, log, views
    Mutant("2.7", BASE, 'run.node == "fenced" or', "False or"),
    Mutant(
        "2.7",
        BASE,
        "            run.die(self.store.now)\n        self.node_lost",
        "            pass\n        self.node_lost",
    ),
    Mutant("2.7", CLUSTER, "fault.call == call.name and ", ""),
    Mutant("2.7", CLUSTER, "                fault.times -= 1\n", ""),
    Mutant("2.7", CLUSTER, "        if call.writes and client.read_only:", "        if False:"),
    Mutant("2.7", CLUSTER, "                if len(store.told) > before:", "                if True:"),
    Mutant("ruling 29", STORE, "if not any(run.alive for run in item.executions):", "if True:"),
    # 2.8 Native policies
    Mutant("NP-1", BASE, "native[rule.action].value is Tristate.YES and ", ""),
    Mutant("NP-1", BASE, " and not rule.causes & named", ""),
    Mutant("NP-2", SLURM, "!= both:\n            return {}, ()", "< both and not fitting:\n            return {}, ()"),
    Mutant("NP-2", SLURM, "rule.limit is None and", ""),
    Mutant("NP-3", KUBEFLOW, "rule.causes == RESTARTABLE", "rule.causes <= RESTARTABLE"),
    Mutant("NP-3", KUBEFLOW, "                and not rule.backoff\n", ""),
    # 2.1 Configuration
    Mutant(
        "2.1",
        CONFIG,
        "(action not in rules or rules[action].value is not Tristate.YES)",
        "(action in rules and rules[action].value is not Tristate.YES)",
    ),
)
