"""What the author of an adapter writes, once: a harness, which gives the checks a fresh cluster to work on."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

import anyio
from ulid import ULID

from ..model import Ref, Value
from ..model.kinds import Count, Moment
from ..spi import Adapter

__all__ = ("ABILITIES", "Cluster", "Driver", "Execution", "Fault", "Harness", "Timings", "Traits")

ABILITIES = (
    "run",
    "finish",
    "out_of_memory",
    "time_out",
    "fail_launch",
    "preempt",
    "lose_node",
    "return_node",
    "fence_node",
    "admin_hold",
    "admin_release",
    "no_capacity",
    "requeue_externally",
    "deactivate_externally",
    "reactivate_externally",
)
"""What a driver may be able to make the scheduler's side do.

Each is a coroutine method: ``finish(ref, exit_code=0)``, ``no_capacity(ref, detail="")``, all others ``(ref)``. The ref
is the exact one in force; of an object that has left the scheduler's memory, the last. The answer is not looked at, and
what comes of it may show later. What the object's state does not allow (running one that is held, say) is a
:class:`~dispatch_memory_async.model.WrongStateError` and changes nothing.
"""


class Fault(StrEnum):
    """What a harness may be able to inject into a client's calls."""

    LATE_CALL = "LateCall"
    """The call's command starts later than its deadline plus ``call_bound``."""
    CRASH_BETWEEN_STEPS = "CrashBetweenSteps"
    """The caller of a requeue dies after its first step."""
    LOST_REPLY = "LostReply"
    """The call does what it does, and its reply is lost."""
    LATE_LANDING = "LateLanding"
    """The call's reply is given up, and it does what it does later, within ``call_bound``."""
    LAGGED_READ = "LaggedRead"
    """The read answers how things stood a while ago, less than the ``wait`` of the timings."""


class Preemption(StrEnum):
    """What a preemption leaves."""

    ENDED = "ended"
    """The object has failed with ``Preempted``."""
    WAITING = "waiting"
    """The object is pending again, with ``Preempted``."""


class Stop(StrEnum):
    """What a stop leaves."""

    CANCELLED = "cancelled"
    """The object, which is ``Cancelled`` with ``Stopped``."""
    NOTHING = "nothing"
    """Nothing: the object is deleted, and its name free."""


class NodeLoss(StrEnum):
    """What a lost node leaves."""

    ENDED = "ended"
    """After ``node_timeout`` the object has failed with ``NodeLost``."""
    WEDGED = "wedged"
    """The object is running with ``NodeLost``, for as long as nobody stops it."""


class Traits(Value, frozen=True, kw_only=True):
    """In what schedulers differ, and neither is wrong.

    :ivar unique_names: whether each submission has a name of its own, so that a second start of it is refused; else
        all objects of a job bear one name, and a second start makes another
    :ivar stop: what a stop leaves
    :ivar preemption: what a preemption leaves
    :ivar node_loss: what a lost node leaves
    :ivar node_timeout: how long after the loss that shows
    :ivar forgets_after: how long after its end an object is forgotten; ``None`` if it is not
    :ivar evidence_window: how long a pod-derived cause can be read; ``None`` if for ever
    :ivar moves_submit_time: whether a requeue gives the object a new submit time
    :ivar ids_repeat_after: after so many objects ids come again, from the first that is free; ``None`` if never
    :ivar requeues_ended: whether an object that has ended can be requeued whose requeue bit is clear
    :ivar admin_hold_opens: whether an administrator's hold takes the gate's place, so that who lifts it opens the gate
    :ivar atomic_holds: whether a hold's instance is compared and set in one step; else of what two clients do at once
        the later is in force, whatever its instance
    :ivar polled_watch: whether a watch asks again and again: what comes and goes between two looks is not told, two
        watches look at moments of their own, and none that is not read has been told anything
    """

    unique_names: bool
    stop: Stop
    preemption: Preemption
    node_loss: NodeLoss
    node_timeout: timedelta = timedelta(0)
    forgets_after: timedelta | None = None
    evidence_window: timedelta | None = None
    moves_submit_time: bool = False
    ids_repeat_after: int | None = None
    requeues_ended: bool = True
    admin_hold_opens: bool = False
    atomic_holds: bool = True
    polled_watch: bool = False


class Timings(Value, frozen=True, kw_only=True):
    """How long the checks wait; the defaults are for a scheduler in memory.

    :ivar wait: how long at most until what must come has come
    :ivar quiet: how long nothing must have come to say that it does not
    :ivar poll: how long between two looks
    """

    wait: timedelta = timedelta(minutes=2)
    quiet: timedelta = timedelta(0)
    poll: timedelta = timedelta(seconds=1)


class Driver(Protocol):
    """Moves the scheduler's side: the signatures of all :data:`ABILITIES`.

    Each is optional: a driver is any object that has those which its harness names.
    """

    async def run(self, ref: Ref) -> object:
        """Begin an execution of an object that may run."""
        ...

    async def finish(self, ref: Ref, exit_code: int = 0) -> object:
        """The execution exits."""
        ...

    async def out_of_memory(self, ref: Ref) -> object:
        """The execution fails, having used too much memory."""
        ...

    async def time_out(self, ref: Ref) -> object:
        """The execution fails at its time limit."""
        ...

    async def fail_launch(self, ref: Ref) -> object:
        """The execution fails to be launched."""
        ...

    async def preempt(self, ref: Ref) -> object:
        """Something more important takes the object's place."""
        ...

    async def lose_node(self, ref: Ref) -> object:
        """The node under the execution is cut off."""
        ...

    async def return_node(self, ref: Ref) -> object:
        """The lost nodes of the object's executions are back."""
        ...

    async def fence_node(self, ref: Ref) -> object:
        """What ran on the lost nodes of the object's executions is certainly dead."""
        ...

    async def admin_hold(self, ref: Ref) -> object:
        """An administrator holds a live object."""
        ...

    async def admin_release(self, ref: Ref) -> object:
        """The administrator's hold is lifted."""
        ...

    async def no_capacity(self, ref: Ref, detail: str = "") -> object:
        """An object that may run is refused room."""
        ...

    async def requeue_externally(self, ref: Ref) -> object:
        """Somebody else requeues it."""
        ...

    async def deactivate_externally(self, ref: Ref) -> object:
        """Somebody else deactivates its workload."""
        ...

    async def reactivate_externally(self, ref: Ref) -> object:
        """Somebody else activates its workload."""
        ...


class Execution(Value, frozen=True, kw_only=True):
    """One execution, as it really was: its processes, not what the scheduler believes about them.

    :ivar epoch: the epoch that it ran with
    :ivar started_at: when it began
    :ivar ended_at: when its processes died; ``None`` while they live
    """

    epoch: Count
    started_at: Moment
    ended_at: Moment | None


class Cluster(ABC):
    """One fresh, empty cluster, with one client: the adapter under test.

    :ivar adapter: the client
    :ivar driver: moves the scheduler's side: an object with some of the coroutine methods of :data:`ABILITIES`
    """

    adapter: Adapter
    driver: Any

    def now(self) -> datetime:
        """The cluster's time; the wall clock, unless you say otherwise."""
        return datetime.now(UTC)

    async def advance(self, by: timedelta) -> None:
        """Let time pass; by sleeping, unless you say otherwise."""
        await anyio.sleep(by.total_seconds())

    async def another(self, *, read_only: bool = False) -> Adapter | None:  # noqa: ARG002
        """Another client of the same cluster; ``None`` if there can be none."""
        return None

    async def executions(self, job_id: ULID) -> tuple[Execution, ...] | None:  # noqa: ARG002
        """The ground truth: all executions of a job, in the order in which they began; ``None`` if nobody can tell."""
        return None

    def inject(self, fault: Fault, call: str) -> AbstractAsyncContextManager[None]:
        """Let a fault strike the next call of that name made inside the block, by the client under test.

        Asked only for the faults that the harness names. A fault that has struck nothing is dropped at the end of the
        block. A late call that carries no deadline is done all the same.
        """
        raise LookupError(f"this harness cannot inject {fault} into {call}")


class Harness(ABC):
    """Your adapter, as the suite meets it. Subclass it, once.

    :ivar name: what the reports call it
    :ivar abilities: what your driver can do, out of :data:`ABILITIES`
    :ivar faults: what your clusters can inject
    :ivar timings: how long the checks wait; for a real scheduler give your own
    :ivar traits: in what your scheduler differs from others; it has no default
    """

    name: str = "adapter"
    abilities: frozenset[str] = frozenset()
    faults: frozenset[Fault] = frozenset()
    timings: Timings = Timings()
    traits: Traits

    @abstractmethod
    def cluster(self) -> AbstractAsyncContextManager[Cluster]:
        """A fresh, empty cluster. What it holds is given back on leaving."""
