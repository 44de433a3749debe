"""The environment: the scheduler's side of the world, and the ground truth."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from anyio.lowlevel import checkpoint

from ..model import Cause, DispatchError, InvalidError, Ref
from ..model.checks import as_text, check_kind, plain_time
from ..model.texts import is_a, short
from .cluster import Client, Cluster
from .config import check_length
from .faults import Effect, Fault, check_fault
from .store import StoredObject
from .truth import CallRecord, Execution, Truth

__all__ = ("Env",)

T = TypeVar("T")

LARGEST_EXIT_CODE = 255


class Env:
    """The scheduler's side of one backend: what happens to its objects, and what is really true.

    Its calls take exact and weak refs, and send to the same watchers. Each raises
    :class:`~dispatch_memory_async.model.WrongStateError` for what the shape or the object's state does not allow,
    :class:`~dispatch_memory_async.model.NotFoundError` where no object answers to the ref, and
    :class:`~dispatch_memory_async.model.ClosedError` once the backend is closed; what is so already is no error.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler

    def __repr__(self) -> str:
        return f"<Env of a {self._cluster.config.shape} backend>"

    # executions

    async def run(self, ref: Ref) -> Execution:
        """Begin an execution of an eligible object: pending, not gated, and held by nobody."""

        def act(item: StoredObject) -> Execution:
            self._scheduler.run(item)
            return self._scheduler.truth(item).executions[-1]

        return await self._to(ref, act)

    async def finish(self, ref: Ref, exit_code: int = 0) -> None:
        """The execution exits: the object has succeeded with 0, else failed with ``NonZeroExit``.

        :param exit_code: what it exits with, 0 to 255
        """

        def check() -> None:
            if type(exit_code) is not int or not 0 <= exit_code <= LARGEST_EXIT_CODE:
                raise InvalidError(f"exit_code: found {short(exit_code)}, expected an integer from 0 to 255")

        await self._to(ref, lambda item: self._scheduler.finish(item, exit_code), check)

    async def out_of_memory(self, ref: Ref) -> None:
        """The execution fails with ``OutOfMemory``, at once."""
        await self._to(ref, lambda item: self._scheduler.fail(item, Cause.OUT_OF_MEMORY))

    async def time_out(self, ref: Ref) -> None:
        """The execution fails with ``Timeout``, at once."""
        await self._to(ref, lambda item: self._scheduler.fail(item, Cause.TIMEOUT))

    async def fail_launch(self, ref: Ref) -> None:
        """The execution fails with ``LaunchFailed``, at once (Slurm: ``JobLaunchFailure``)."""
        await self._to(ref, lambda item: self._scheduler.fail(item, Cause.LAUNCH_FAILED))

    async def preempt(self, ref: Ref) -> None:
        """Something more important takes the object's place.

        Slurm: it has failed with ``Preempted``; with the requeue bit set it is requeued (``PreemptMode=REQUEUE``).
        Kubeflow: it is pending again, and its restart counter does not move (JobSet KEP-1282; Kueue evicts with
        ``Preempted``).
        """
        await self._to(ref, self._scheduler.preempt)

    # nodes

    async def lose_node(self, ref: Ref) -> None:
        """The node under the object's execution is cut off; its processes may live on.

        Slurm: nothing shows until ``slurmd_timeout`` has passed, and the processes live on until slurmd is back (seen
        on 22.05.8). Kubeflow: it is wedged, Running with ``NodeLost``: the Job's end is withheld while a pod is stuck
        terminating (Kubernetes 1.31 and later).
        """
        await self._to(ref, self._scheduler.lose_node)

    async def return_node(self, ref: Ref) -> None:
        """Every lost node of the object's executions is back; what the object has left behind there is killed."""
        await self._to_any(ref, self._scheduler.return_node)

    async def fence_node(self, ref: Ref) -> None:
        """The processes on every lost node of the object's executions are certainly dead."""
        await self._to_any(ref, self._scheduler.fence_node)

    # administrators and other people

    async def admin_hold(self, ref: Ref) -> None:
        """An administrator holds a live object (``scontrol hold`` by root). One that is running runs on."""
        await self._to(ref, self._scheduler.admin_hold)

    async def admin_release(self, ref: Ref) -> None:
        """The administrator's hold is lifted."""
        await self._to(ref, self._scheduler.admin_release)

    async def no_capacity(self, ref: Ref, detail: str = "") -> None:
        """An eligible object is refused room.

        :param detail: what the scheduler says about it, shown until the object runs
        """
        await self._to(
            ref,
            lambda item: self._scheduler.no_capacity(item, detail),
            lambda: as_text("detail", detail),
        )

    async def requeue_externally(self, ref: Ref) -> None:
        """Slurm: somebody else requeues it, and leaves the requeue bit set."""
        await self._to(ref, self._scheduler.requeue_externally)

    async def deactivate_externally(self, ref: Ref) -> None:
        """Kubeflow: somebody else deactivates its workload, as a hold does, but without an instance."""
        await self._to(ref, self._scheduler.deactivate_externally)

    async def reactivate_externally(self, ref: Ref) -> None:
        """Kubeflow: somebody else activates its workload, which drops our hold too."""
        await self._to(ref, self._scheduler.reactivate_externally)

    # faults

    async def fail_calls(
        self,
        call: str,
        error: DispatchError,
        *,
        effect: Effect = "none",
        after: timedelta | None = None,
        times: int = 1,
        when: Callable[[CallRecord], bool] | None = None,
    ) -> None:
        """Let the next calls of that name raise an error.

        :param call: the name of an SPI call; not ``watch``, not ``aclose``
        :param error: what it raises
        :param effect: ``none``: before anything happened. ``kept``: the call does what it does, and only its reply is
            lost; a call that fails by itself does not use this up. ``late``: the call acts once ``after`` has passed,
            in the state of that moment, or is refused without anybody being told
        :param after: how much later a ``late`` call acts: more than 0, and at most ``call_bound``
        :param times: how many calls
        :param when: which calls; all, if ``None``
        :raises InvalidError: if an argument is not what it should be
        """
        fault = Fault(call, error, effect, plain_time(after), times, when)

        def act() -> None:
            check_fault(fault, self._cluster.config.call_bound)
            self._cluster.faults.append(fault)

        await self._step(act)

    async def lag_reads(self, by: timedelta, *, view: Client | None = None) -> None:
        """Let ``get``, ``find`` and ``find_many`` answer the state as it stood a while ago, from now on.

        ``observed_at`` says which moment that is. Writes, watches, ``cessation`` and the environment see what is. What
        an object looked like is kept only while reads lag, so let them lag before it changes: of one that had changed
        shortly before, they answer what it looked like after that.

        :param by: how far they lag behind; 0 ends it
        :param view: whose reads; those of all clients, if ``None``
        :raises InvalidError: if an argument is not what it should be
        """

        def act() -> None:
            check_kind("by", by, timedelta)
            lag = plain_time(by)
            check_length(lag)
            if view is not None and not (is_a(view, Client) and view.is_of(self._cluster)):
                raise InvalidError(f"view: found {short(view)}, expected a view of this backend")
            self._cluster.lag_reads(lag, view)

        await self._step(act)

    async def omit(self, ref: Ref, *, times: int = 1) -> None:
        """Let the next lists that would hold an object leave it out, without an error, as ``squeue`` does.

        :param times: how many answers of ``find`` and ``find_many``, of any client
        :raises InvalidError: if an argument is not what it should be
        """

        def act(item: StoredObject) -> None:
            self._scheduler.omitted[item.order] += times

        def check() -> None:
            if type(times) is not int or times < 1:
                raise InvalidError(f"times: found {short(times)}, expected an integer of at least 1")

        await self._to_any(ref, act, check)

    # the ground truth

    async def truth(self, ref: Ref) -> Truth:
        """One object as it is; forgotten and deleted ones are found too."""
        return await self._to_any(ref, self._scheduler.truth)

    async def objects(self) -> tuple[Truth, ...]:
        """Every object there ever was, in the order of start, as far as history is kept."""
        return await self._step(lambda: tuple(map(self._scheduler.truth, self._cluster.store.objects.values())))

    async def calls(self) -> tuple[CallRecord, ...]:
        """Every SPI call that got past its checkpoint, of all clients, as far as history is kept."""
        return await self._step(self._cluster.records)

    async def _to(self, ref: Ref, act: Callable[[StoredObject], T], check: Callable[[], object] | None = None) -> T:
        """Do something to a remembered object."""

        def step() -> T:
            check_kind("ref", ref, Ref)
            if check is not None:
                check()
            return act(self._scheduler.find(ref))

        return await self._step(step)

    async def _to_any(self, ref: Ref, act: Callable[[StoredObject], T], check: Callable[[], object] | None = None) -> T:
        """Do something to a remembered or a gone object."""

        def step() -> T:
            check_kind("ref", ref, Ref)
            if check is not None:
                check()
            return act(self._scheduler.find_any(ref))

        return await self._step(step)

    async def _step(self, act: Callable[[], T]) -> T:
        self._cluster.check_thread()
        await checkpoint()
        with self._cluster.lock:
            return self._cluster.act(act)
