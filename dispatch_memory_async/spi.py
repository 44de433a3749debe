"""The adapter SPI: the narrow door between a controller and any scheduler.

A caller discovers the optional interfaces with ``isinstance``. Every call raises a
:class:`~dispatch_memory_async.model.DispatchError` or nothing. Any of them may raise these, which are not listed again:

* :class:`~dispatch_memory_async.model.InvalidError`: an argument is not what it should be; among them a weak ref given
  to a write, and a naive deadline;
* :class:`~dispatch_memory_async.model.ClosedError`: the adapter is closed;
* :class:`~dispatch_memory_async.model.UnavailableError`: the scheduler cannot serve the call now. Nothing changed;
* :class:`~dispatch_memory_async.model.OutcomeUnknownError`: the effect may have landed, or may still land until
  ``call_bound`` has passed since the call's command started. After any other error, nothing changed;
* and those that write, :class:`~dispatch_memory_async.model.ReadOnlyError` of a read-only client.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Literal, Protocol, Self, runtime_checkable

from ulid import ULID

from .model import (
    CallMeta,
    Capabilities,
    Capability,
    Cessation,
    HoldMeta,
    Job,
    NativePolicy,
    Observation,
    Policy,
    Ref,
    ReleaseMeta,
)

__all__ = (
    "Adapter",
    "CessationSignal",
    "Holder",
    "IdentityWeakener",
    "MultiFinder",
    "NativePolicyCompiler",
    "OutputReader",
    "Requeuer",
    "Watch",
    "Watcher",
)


@runtime_checkable
class Adapter(Protocol):
    """What every adapter can do."""

    async def capabilities(self) -> Capabilities:
        """What this cluster can do."""
        ...

    async def start(
        self,
        job: Job,
        submission: int,
        *,
        native: NativePolicy | None = None,
        deadline: datetime | None = None,
    ) -> Ref:
        """Submit a job; answer once its object exists.

        :param job: the job
        :param submission: the number N of this submission, in ``[1, EPOCH_BOUND)``
        :param native: what :meth:`NativePolicyCompiler.compile_policy` gave
        :param deadline: the last moment at which the command may start
        :raises AlreadyExistsError: if names are unique here and this one is in use: an earlier call landed
        :raises InvalidError: if the submission lies outside, or the native settings are not this scheduler's
        :raises UnavailableError: if the scheduler has no room for another object
        :raises ExpiredError: if the command started after the deadline
        """
        ...

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        """Lift the gate of a gated object. Doing it again changes nothing.

        :raises NotFoundError: if no object answers to the exact ref
        :raises FinishedError: if the object has ended
        :raises HeldError: if an administrator's hold forbids it
        :raises ExpiredError: if the command started after the deadline
        """
        ...

    async def get(self, ref: Ref) -> Observation:
        """Look at one object, by an exact or a weak ref.

        :raises NotFoundError: if no object answers to the ref
        :raises AmbiguousError: if a weak ref matches more than one
        """
        ...

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        """All objects of a job, in the order in which they were started; none is an empty tuple.

        Objects that the scheduler has forgotten are among them where there is accounting.
        """
        ...

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        """End an object on purpose: exactly the one that the ref names. One that has ended stays as it is.

        :raises NotFoundError: if no object answers to the exact ref
        :raises ExpiredError: if the command started after the deadline
        """
        ...

    async def aclose(self) -> None:
        """Close the adapter; its watches end. Doing it again changes nothing."""
        ...


@runtime_checkable
class Holder(Protocol):
    """Objects can be held back."""

    async def hold(self, ref: Ref, meta: HoldMeta) -> None:
        """Keep an object from being run until this hold is released.

        The same instance again changes nothing, a higher one takes over. Where a running object can be held
        (``HoldRunning``), its execution ends.

        :raises NotFoundError: if no object answers to the exact ref
        :raises FinishedError: if the object has ended
        :raises RunningError: if it runs, and a running object cannot be held here
        :raises StaleError: if the instance is lower than the one in force
        :raises ExpiredError: if the command started after the deadline
        """
        ...

    async def release(self, ref: Ref, meta: ReleaseMeta) -> None:
        """Lift the hold of that instance; of an object that is not held nothing changes.

        :raises NotFoundError: if no object answers to the exact ref
        :raises FinishedError: if the object has ended
        :raises StaleError: if another instance is in force
        :raises ExpiredError: if the command started after the deadline
        """
        ...


@runtime_checkable
class Requeuer(Protocol):
    """Objects can be put back to wait.

    An adapter may have these calls and a scheduler that cannot requeue: then both are
    :class:`~dispatch_memory_async.model.UnsupportedError`, whatever they are given, and ``Requeue`` is not a yes. Where
    a scheduler requeues but knows no requeue bit, ``requeue_bit`` is ``None`` and ``restore_requeue_bit`` alone is
    unsupported.
    """

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        """Put an object back to wait, as a further execution of the same submission.

        The execution of a running object is ended first. Then the object is Pending with cause ``Requeued``; or with
        ``Held`` or ``AdminHeld``, if it carried such a hold, which stays in force. Its gate is open, its times and exit
        code are ``None``, ``restarts`` is one higher, the requeue bit is as it was. The submit time may have moved: the
        old exact ref then matches no more, and the weak one goes on.

        :raises NotFoundError: if no object answers to the exact ref
        :raises PendingError: if it is waiting already
        :raises FinishedError: if it has ended, and this scheduler requeues none that has
        :raises RunningError: if it is just ending
        :raises CrashedError: if the caller crashed between its steps: the requeue bit is left set
        :raises UnsupportedError: if this scheduler cannot requeue
        :raises ExpiredError: if the command started after the deadline
        """
        ...

    async def restore_requeue_bit(self, ref: Ref, meta: CallMeta) -> None:
        """Clear the bit by which the scheduler requeues a live object on its own authority.

        :raises UnsupportedError: if this scheduler has no such bit, or cannot requeue at all
        :raises NotFoundError: if no object answers to the exact ref
        :raises FinishedError: if the object has ended
        :raises ExpiredError: if the command started after the deadline
        """
        ...


@runtime_checkable
class NativePolicyCompiler(Protocol):
    """The scheduler can carry out some rules itself."""

    async def compile_policy(self, policy: Policy) -> NativePolicy:
        """Divide a policy: what the scheduler is told, and what stays with the supervisor.

        What the scheduler cannot carry out stays with the supervisor; that is no error.
        """
        ...


@runtime_checkable
class Watch(Protocol):
    """An async iterator and async context manager over observations.

    It begins at its first iteration, or on entering the context: with the current observation of every remembered
    object, in the order of start. Then it tells every change once, when it is so and not before, in the order in which
    the changes happened. An object that leaves the scheduler's memory is told as ``Gone``. A call that changes nothing
    is not told.

    What is told and not read yet may be bounded; the snapshot does not count. The first change that does not fit ends
    the watch. No call and no other watch waits for a slow one, or fails by it.

    When it ends, what it was told before is still given, then the iteration ends. One whose client is closed before it
    has begun gives nothing, and entering it is a :class:`~dispatch_memory_async.model.ClosedError`.
    """

    @property
    def synced(self) -> bool:
        """Whether the snapshot has been handed out whole, so that what was absent did not exist.

        True once its last observation was given, or, if there is none, once the watch has begun; and from then on.
        """
        ...

    @property
    def closed_by(self) -> Literal["overflow", "cancelled", "closed"] | None:
        """Why the watch ended; ``None`` while it is open. The first reason stays.

        ``overflow``: a change did not fit. ``cancelled``: a cancellation struck its iteration. ``closed``: it was
        closed, its context was left, or its client was closed.
        """
        ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Observation: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def aclose(self) -> None:
        """End the watch. What was buffered is still delivered. Doing it again changes nothing."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """Changes can be followed."""

    def watch(self) -> Watch:
        """A new watch, which tells what is there and then every change; see :class:`Watch`.

        :raises ClosedError: if the adapter is closed
        """
        ...


@runtime_checkable
class CessationSignal(Protocol):
    """It can be told whether executions have provably ceased."""

    async def cessation(self, what: Ref | ULID) -> Cessation:
        """Whether executions have provably ceased, whatever state the object is in.

        :param what: a ref: every execution of that object. A job's ULID: every execution of every object of
            the job, those included that are deleted, forgotten or were never seen.
        :return: ``ceased=False`` with a detail also where it cannot be known
        :raises AmbiguousError: if a weak ref matches more than one object
        :raises NotFoundError: if the ref is not found, or known from history alone; never for a job
        """
        ...


@runtime_checkable
class IdentityWeakener(Protocol):
    """Refs can be made to survive what the scheduler changes about an object."""

    async def weaken_identity(self, ref: Ref) -> Ref:
        """The weak ref of that object. Nothing is looked up, so that an unknown object is no error."""
        ...


@runtime_checkable
class MultiFinder(Protocol):
    """Many jobs can be looked for at once."""

    async def find_many(self, job_ids: Collection[ULID]) -> Mapping[ULID, tuple[Observation, ...]]:
        """One look for many jobs: what ``find`` answers, at one moment, under a key for every asked id."""
        ...


@runtime_checkable
class OutputReader(Protocol):
    """What a job writes can be read. The memory adapter has no such thing."""

    def read_output(self, ref: Ref, *, offset: int = 0) -> AsyncIterator[bytes]:
        """The output of an object's latest execution.

        :param ref: the object, by an exact or a weak ref
        :param offset: where to begin, in bytes
        :raises NotFoundError: if no object answers to the ref
        """
        ...


INTERFACES: Mapping[Capability, type] = {
    Capability.HOLD: Holder,
    Capability.HOLD_RUNNING: Holder,
    Capability.REQUEUE: Requeuer,
    Capability.WATCH: Watcher,
    Capability.CESSATION: CessationSignal,
    Capability.OUTPUT: OutputReader,
}
"""The interface by which a declared capability is used."""
