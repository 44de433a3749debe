"""Backend and View: the memory adapter's calls, each a few lines over what all clients share."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint
from ulid import ULID

from ..model import (
    CallMeta,
    Capabilities,
    Cessation,
    HoldMeta,
    InvalidError,
    Job,
    NativePolicy,
    Observation,
    Policy,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
)
from ..model.checks import as_moment, check_kind, check_ulid
from ..model.frozen import FrozenDict
from ..model.kinds import EPOCH_BOUND
from ..model.texts import is_a, short
from .cluster import Call, Client, Cluster
from .config import Config
from .env import Env
from .injection import crashes
from .watch import MemoryWatch

__all__ = ("Backend", "ReadOnlyBackend", "View")

T = TypeVar("T")


class View(Client):
    """One client of a memory scheduler: the whole SPI but ``OutputReader``, with watches of its own.

    Made by :meth:`Backend.view`; the backend itself is one too. Every call passes one checkpoint, where it can be
    cancelled and others can come first; what follows is one step. A call that raised ``Cancelled`` did nothing.
    """

    def __init__(self, cluster: Cluster, env: Env, name: str, *, read_only: bool) -> None:
        super().__init__(cluster)
        self._scheduler = cluster.scheduler
        self._env = env
        self._closed = False
        self._name = name
        self._read_only = read_only

    @property
    def name(self) -> str:
        """What this client is called in the call log."""
        return self._name

    @property
    def read_only(self) -> bool:
        """Whether every change is refused."""
        return self._read_only

    @property
    def closed(self) -> bool:
        """Whether this client, or the backend, is closed."""
        return self._closed or self._cluster.closed

    @property
    def env(self) -> Env:
        """The scheduler's side of the world, the same for all clients."""
        return self._env

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<{type(self).__name__} {self.name}: {self._cluster.config.shape}{state}>"

    async def __aenter__(self) -> Self:
        self._cluster.check_thread()
        self._cluster.check_open(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close this client: its watches end, its calls are refused. Doing it again changes nothing."""
        self._cluster.check_thread()
        self._closed = True
        if self in self._cluster.lags:
            self._cluster.lag_reads(timedelta(0), self)
        self._cluster.hub.close_all(self)
        await checkpoint()

    async def _call(self, call: Call, check: Callable[..., object] | None, act: Callable[..., T], *given: Any) -> T:
        cluster = self._cluster
        cluster.check_thread()
        await checkpoint()
        with cluster.lock:
            return cluster.call(self, call, check, act, *given)

    # Adapter

    async def capabilities(self) -> Capabilities:
        """What this cluster can do: the shape's own capabilities, under what the configuration overrides."""
        return await self._call(Call("capabilities"), None, lambda: self._scheduler.capabilities)

    async def start(
        self,
        job: Job,
        submission: int,
        *,
        native: NativePolicy | None = None,
        deadline: datetime | None = None,
    ) -> Ref:
        """Submit a job, see :meth:`~dispatch_memory_async.spi.Adapter.start`.

        Slurm: gated, as by ``sbatch --hold``; another call makes another object. Kubeflow: not gated; a name in use is
        refused, as the API server does (409 AlreadyExists).
        """

        def check() -> None:
            check_kind("job", job, Job)
            if type(submission) is not int or not 1 <= submission < EPOCH_BOUND:
                raise InvalidError(f"submission: found {short(submission)}, expected one in [1, {EPOCH_BOUND})")
            if native is not None:
                check_kind("native", native, NativePolicy)
                self._scheduler.check_native(native.settings)
            _deadline(deadline)()

        def act() -> Ref:
            return self._scheduler.start(job, submission, native.settings if native else {}).ref

        job_id = job.id if is_a(job, Job) else None
        return await self._call(Call("start", None, job_id, True, deadline), check, act)

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        """Lift the gate, see :meth:`~dispatch_memory_async.spi.Adapter.open`."""
        scheduler = self._scheduler
        await self._write("open", ref, deadline, _deadline(deadline), lambda: scheduler.open(scheduler.find(ref)))

    async def get(self, ref: Ref) -> Observation:
        """Look at one object, see :meth:`~dispatch_memory_async.spi.Adapter.get`."""
        cluster = self._cluster  # not by `_call`: measured, one coroutine less is a tenth of the most frequent call
        cluster.check_thread()
        await checkpoint()
        with cluster.lock:
            act = self._get_lagging if cluster.lags else self._scheduler.get
            return cluster.call(self, Call("get", ref), _check_ref, act, ref)

    def _get_lagging(self, ref: Ref) -> Observation:
        at = self._cluster.as_of(self)
        return self._scheduler.get_as_of(ref, at) if at else self._scheduler.get(ref)

    def _find(self, job_id: ULID) -> tuple[Observation, ...]:
        at = self._cluster.as_of(self)
        return self._scheduler.find_all_as_of(job_id, at) if at else self._scheduler.find_all(job_id)

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        """All objects of a job, see :meth:`~dispatch_memory_async.spi.Adapter.find`."""
        return await self._call(Call("find", None, job_id), _check_job_id, self._find, job_id)

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        """End an object on purpose, see :meth:`~dispatch_memory_async.spi.Adapter.stop`.

        Slurm: ``scancel``, of an ended one without effect. Kubeflow: the TrainJob is deleted, there is no other verb.
        A Slurm requeue within the very second of the submit time leaves the exact ref matching, so that a late stop
        hits the fresh run.
        """
        scheduler = self._scheduler
        await self._write("stop", ref, deadline, _deadline(deadline), lambda: scheduler.stop(scheduler.find(ref)))

    # Holder

    async def hold(self, ref: Ref, meta: HoldMeta) -> None:
        """Hold an object back, see :meth:`~dispatch_memory_async.spi.Holder.hold`.

        Slurm: a start time far ahead (``scontrol update StartTime=``); a running object refuses it. Kubeflow: Kueue's
        Workload is deactivated (``spec.active``), which ends a running execution; who, until when and why are kept in
        the ground truth.
        """
        scheduler = self._scheduler
        await self._write_meta("hold", ref, meta, HoldMeta, lambda: scheduler.hold(scheduler.find(ref), meta))

    async def release(self, ref: Ref, meta: ReleaseMeta) -> None:
        """Lift a hold, see :meth:`~dispatch_memory_async.spi.Holder.release`."""
        scheduler = self._scheduler
        await self._write_meta("release", ref, meta, ReleaseMeta, lambda: scheduler.release(scheduler.find(ref), meta))

    # Requeuer

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        """Put an object back to wait, see :meth:`~dispatch_memory_async.spi.Requeuer.requeue`.

        Slurm: the requeue bit is set (``scontrol update Requeue=1``), the object requeued (``scontrol requeue``), the
        bit restored. Kubeflow: not supported.
        """
        scheduler, crash = self._scheduler, crashes()
        await self._write_meta(
            "requeue", ref, meta, CallMeta, lambda: scheduler.requeue(scheduler.find(ref), crash=crash)
        )

    async def restore_requeue_bit(self, ref: Ref, meta: CallMeta) -> None:
        """Clear the requeue bit, see :meth:`~dispatch_memory_async.spi.Requeuer.restore_requeue_bit`."""
        scheduler = self._scheduler
        await self._write_meta(
            "restore_requeue_bit", ref, meta, CallMeta, lambda: scheduler.restore_requeue_bit(scheduler.find(ref))
        )

    async def _write_meta(
        self, call: str, ref: Ref, meta: CallMeta, kind: type[CallMeta], act: Callable[[], None]
    ) -> None:
        """A write whose deadline stands in a meta of that kind."""
        await self._write(
            call, ref, meta.deadline if is_a(meta, CallMeta) else None, partial(check_kind, "meta", meta, kind), act
        )

    async def _write(
        self, call: str, ref: Ref, deadline: object, check: Callable[[], object], act: Callable[[], None]
    ) -> None:
        """A write to one object, which must be named by an exact ref."""

        def checks() -> None:
            check_kind("ref", ref, Ref)
            if ref.weak:
                raise InvalidError(f"ref: found {ref}, which is weak, expected an exact one with a submit time")
            check()

        await self._call(Call(call, ref, None, True, deadline), checks, act)

    # the other interfaces

    async def compile_policy(self, policy: Policy) -> NativePolicy:
        """Divide a policy, see :meth:`~dispatch_memory_async.spi.NativePolicyCompiler.compile_policy`.

        Slurm carries out unlimited restarts at preemption and node loss together; Kubeflow restarts failed pods up
        to a limit.
        """
        return await self._call(
            Call("compile_policy"),
            lambda: check_kind("policy", policy, Policy),
            lambda: self._scheduler.compile_policy(policy),
        )

    def watch(self) -> MemoryWatch:
        """The current observation of every remembered object, then every change.

        :raises ClosedError: if this client is closed
        """
        self._cluster.check_thread()
        self._cluster.check_open(self)
        return MemoryWatch(self._cluster, self)

    async def cessation(self, what: Ref | ULID) -> Cessation:
        """Whether executions have ceased, see :meth:`~dispatch_memory_async.spi.CessationSignal.cessation`."""
        call = Call("cessation", what, what)

        def check() -> None:
            check_kind("what", what, Ref, ULID)
            if is_a(what, ULID):
                check_ulid("what", what)

        return await self._call(call, check, lambda: self._scheduler.cessation(what))

    async def weaken_identity(self, ref: Ref) -> Ref:
        """The ref without its submit time: it survives a Slurm requeue."""
        return await self._call(
            Call("weaken_identity", ref),
            lambda: check_kind("ref", ref, Ref),
            lambda: Ref(name=ref.name, id=ref.id, submitted_at=None),
        )

    async def find_many(self, job_ids: Collection[ULID]) -> Mapping[ULID, tuple[Observation, ...]]:
        """What :meth:`find` answers for each of many jobs, at one moment."""
        asked: list[ULID] = []

        def check() -> None:
            check_kind("job_ids", job_ids, Collection)
            try:
                asked.extend(job_ids)
            except Exception as error:
                raise InvalidError(f"job_ids: cannot be read: {short(error)}") from error
            for job_id in asked:
                check_ulid("job_ids", job_id)

        return await self._call(
            Call("find_many"),
            check,
            lambda: FrozenDict({job_id: self._find(job_id) for job_id in dict.fromkeys(asked)}),
        )


class Backend(View):
    """An in-memory scheduler, in the shape of Slurm or of Kubeflow. It is for tests, not for production.

    It starts no task and no thread and sets no timer: what happens later is worked out from the clock inside the next
    call. It belongs to the thread that made it, and runs on asyncio and on trio alike. ::

        async with Backend(Config(shape="kubeflow")) as backend:
            ref = await backend.start(job, 1)

    :param config: how it behaves; without one it is a Slurm with the defaults
    :param clock: gives the time, as an aware datetime; without one the wall clock
    :param keep_history: how many gone objects and how many call records are kept; ``None`` keeps all
    :raises InvalidError: if an argument is not what it should be
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        clock: Callable[[], datetime] = partial(datetime.now, UTC),  # noqa: B008  # read anew at every call
        keep_history: int | None = None,
    ) -> None:
        config = Config() if config is None else config
        check_kind("config", config, Config)
        if not callable(clock):
            raise InvalidError(f"clock: found {short(clock)}, expected a callable that gives an aware datetime")
        if keep_history is not None and (type(keep_history) is not int or keep_history < 0):
            raise InvalidError(f"keep_history: found {short(keep_history)}, expected None or an integer from 0 on")
        cluster = Cluster(config, clock, keep_history)
        super().__init__(cluster, Env(cluster), "backend", read_only=False)
        self._views = 0

    @property
    def config(self) -> Config:
        """How it behaves."""
        return self._cluster.config

    def now(self) -> datetime:
        """The backend's time, for deadlines. It never goes back.

        :raises InvalidError: if the clock gives a naive time
        """
        self._cluster.check_thread()
        with self._cluster.lock:
            return self._cluster.tick()

    def view(self, read_only: bool = False) -> View:
        """Another client of the same scheduler, with its own watches and its own ``aclose``.

        :param read_only: whether every change is refused
        :raises ClosedError: if the backend is closed
        """
        self._cluster.check_thread()
        self._cluster.check_open()
        check_kind("read_only", read_only, bool)
        self._views += 1
        name = f"view {self._views}{' (read-only)' if read_only else ''}"
        return View(self._cluster, self._env, name, read_only=read_only)

    async def aclose(self) -> None:
        """Close the backend: all its views and watches, and its environment."""
        self._cluster.check_thread()
        self._cluster.closed = True
        self._cluster.hub.close_all()
        await super().aclose()


class ReadOnlyBackend(Backend):
    """A backend that refuses every change, as do its views; its environment does not."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._read_only = True

    def view(self, read_only: bool = True) -> View:
        """Another read-only client.

        :raises ReadOnlyError: if one that can write is asked for
        """
        if read_only is not True:
            raise ReadOnlyError("this backend was opened read-only, so are its views")
        return super().view(read_only=True)


def _check_ref(ref: object) -> None:
    check_kind("ref", ref, Ref)


def _check_job_id(job_id: object) -> None:
    check_ulid("job_id", job_id)


def _deadline(deadline: object) -> Callable[[], object]:
    """The check of an optional deadline."""
    return lambda: deadline is None or as_moment("deadline", deadline)
