"""The bed: what a check works with: the adapter, the driver, and short ways to bring objects into a condition."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar, cast

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from ulid import ULID

from ..model import (
    CallMeta,
    Capabilities,
    Capability,
    Cause,
    DispatchError,
    HoldMeta,
    Job,
    NotFoundError,
    Observation,
    Ref,
    ReleaseMeta,
    State,
    Tristate,
    WrongStateError,
)
from ..spi import (
    Adapter,
    CessationSignal,
    Holder,
    IdentityWeakener,
    MultiFinder,
    NativePolicyCompiler,
    Requeuer,
    Watcher,
)
from .findings import CheckFailed, CheckSkipped
from .harness import Cluster, Fault, Harness, NodeLoss, Stop, Timings, Traits
from .showing import showing, text

__all__ = ("Bed",)

E = TypeVar("E", bound=DispatchError)
T = TypeVar("T")
TURNS = 10
"""More turns of the event loop than what has happened in this process needs to reach a task that waits for it."""
TIME_TO_CALL = timedelta(minutes=10)
A_DAY = timedelta(days=1)


class Bed:
    """One cluster under test, and what checks do with it.

    :ivar harness: the harness
    :ivar cluster: the fresh cluster
    :ivar capabilities: what the adapter said that it can do
    :ivar traits: the harness' traits
    :ivar timings: the harness' timings
    :ivar adapter: the cluster's client under test
    :ivar driver: moves the scheduler's side
    :ivar instances: gives numbers for holds, each higher than the one before
    """

    def __init__(self, harness: Harness, cluster: Cluster, capabilities: Capabilities) -> None:
        self.harness: Harness = harness
        self.cluster: Cluster = cluster
        self.capabilities: Capabilities = capabilities
        self.traits: Traits = harness.traits
        self.timings: Timings = harness.timings
        self.adapter: Adapter = cluster.adapter
        self.driver: Any = cluster.driver
        self._serials = count(1)
        self.instances: Iterator[int] = count(1)

    # the interfaces, for the type checkers: what a check needs is there

    @property
    def holder(self) -> Holder:
        """The adapter, as one that holds."""
        return cast("Holder", self.adapter)

    @property
    def requeuer(self) -> Requeuer:
        """The adapter, as one that requeues."""
        return cast("Requeuer", self.adapter)

    @property
    def watcher(self) -> Watcher:
        """The adapter, as one that can be watched."""
        return cast("Watcher", self.adapter)

    @property
    def finder(self) -> MultiFinder:
        """The adapter, as one that looks for many jobs at once."""
        return cast("MultiFinder", self.adapter)

    @property
    def signal(self) -> CessationSignal:
        """The adapter, as one that tells cessation."""
        return cast("CessationSignal", self.adapter)

    @property
    def compiler(self) -> NativePolicyCompiler:
        """The adapter, as one that divides policies."""
        return cast("NativePolicyCompiler", self.adapter)

    def declares(self, capability: Capability) -> bool:
        """Whether the adapter says that it has a capability."""
        support = self.capabilities.support.get(capability)
        return support is not None and support.value is Tristate.YES

    # values

    def job(self, **fields: Any) -> Job:
        """A job of its own."""
        given: dict[str, Any] = {"id": ULID(), "command": ("sleep", "3600"), **fields}
        return Job(**given)

    def deadline(self) -> datetime:
        """A deadline that is far enough."""
        return self.cluster.now() + TIME_TO_CALL

    def soon(self) -> datetime:
        """A deadline that can be waited out."""
        return self.cluster.now() + self.timings.poll

    def past(self) -> datetime:
        """A deadline that has long passed."""
        return self.cluster.now() - A_DAY

    def meta(self) -> CallMeta:
        """A call's meta."""
        return CallMeta(self.deadline())

    def held(self, instance: int, **fields: Any) -> HoldMeta:
        """A hold's meta."""
        return HoldMeta(deadline=self.deadline(), instance=instance, **fields)

    def released(self, instance: int) -> ReleaseMeta:
        """A release's meta."""
        return ReleaseMeta(deadline=self.deadline(), instance=instance)

    def strangers(self, ref: Ref) -> tuple[Ref, Ref]:
        """Exact refs that name no object: one with another id, and one of that object with another submit time."""
        exact = cast("datetime", ref.submitted_at)
        unknown, earlier = str(ULID()).lower(), exact - timedelta(days=1)
        return msgspec.structs.replace(ref, id=unknown), msgspec.structs.replace(ref, submitted_at=earlier)

    @staticmethod
    def as_weak(ref: Ref) -> Ref:
        """A ref without its submit time, with which nothing may be changed."""
        return msgspec.structs.replace(ref, submitted_at=None)

    async def another(self, *, read_only: bool = False) -> Adapter:
        """Another client of the same cluster.

        :raises CheckSkipped: if there can be none
        """
        other = await self.cluster.another(read_only=read_only)
        if other is None:
            raise CheckSkipped(f"the harness has no other {'read-only ' if read_only else ''}client of its cluster")
        return other

    async def requeues(self) -> tuple[Callable[[Ref, CallMeta], Awaitable[None]], ...]:
        """The requeuer's calls: the requeue, and the bit's restoring where objects show a bit."""
        calls = (self.requeuer.requeue, self.requeuer.restore_requeue_bit)
        seen = await self.get(await self.started())
        return calls if seen.requeue_bit is not None else calls[:1]

    # conditions

    async def started(self, job: Job | None = None, submission: int = 1) -> Ref:
        """An object just started: gated, where starts are."""
        return await self.adapter.start(job or self.job(), submission)

    async def pending(self, job: Job | None = None, submission: int = 1) -> Ref:
        """An object that may run."""
        ref = await self.started(job, submission)
        await self.adapter.open(ref)
        return ref

    async def running(self, job: Job | None = None, submission: int = 1) -> Ref:
        """An object that runs. Needs the driver's ``run``."""
        ref = await self.pending(job, submission)
        await self.driver.run(ref)
        await self.see(ref, state=State.RUNNING)
        return ref

    async def ended(self, exit_code: int = 0) -> Ref:
        """An object whose execution has exited. Needs the driver's ``run`` and ``finish``."""
        ref = await self.running()
        await self.driver.finish(ref, exit_code)
        await self.see(ref, state=State.FAILED if exit_code else State.SUCCEEDED)
        return ref

    @property
    def requeueable(self) -> tuple[Callable[[], Awaitable[Ref]], ...]:
        """Ways to bring objects that can be requeued, by :attr:`Traits.requeues_ended`."""
        return (self.running, self.ended) if self.traits.requeues_ended else (self.running,)

    def requeues_ended(self) -> None:
        """See that an object that has ended can be requeued.

        :raises CheckSkipped: if it cannot be
        """
        if not self.traits.requeues_ended:
            raise CheckSkipped("the scheduler requeues no object that has ended")

    async def left_requeueable(self) -> Ref:
        """An object that runs with its requeue bit set, as somebody else's requeue has left it.

        Needs the driver's ``run`` and ``requeue_externally``.

        :raises CheckSkipped: if objects show no bit
        """
        ref = await self.running()
        before = await self.with_a_bit(ref)
        await self.driver.requeue_externally(before.ref)
        seen = await self.see(ref, state=State.PENDING, requeue_bit=True, restarts=before.restarts + 1)
        await self.driver.run(seen.ref)
        return (await self.see(ref, state=State.RUNNING)).ref

    async def with_a_bit(self, ref: Ref) -> Observation:
        """The current observation of an object, which has a requeue bit.

        :raises CheckSkipped: if it shows none
        """
        seen = await self.get(ref)
        if seen.requeue_bit is None:
            raise CheckSkipped("objects show no requeue bit")
        return seen

    async def lost(self, ref: Ref) -> Observation:
        """Cut a running object's node off, and wait until that shows. Needs the driver's ``lose_node``."""
        await self.driver.lose_node(ref)
        await self.cluster.advance(self.traits.node_timeout)
        return await self.shows_the_loss(ref)

    async def forgotten(self, ref: Ref, *, after: timedelta | None = None) -> None:
        """Let the scheduler forget an object that has ended.

        :param after: what remains of the time for which it is remembered; all, if ``None``
        :raises CheckSkipped: if it forgets none
        """
        if self.traits.forgets_after is None:
            raise CheckSkipped("the scheduler forgets no object that has ended")
        await self.cluster.advance(self.traits.forgets_after if after is None else after)
        if self.declares(Capability.ACCOUNTING_HISTORY):
            await self.see(ref, from_history=True)
        else:
            await self.gone(ref)

    async def departed(self, job: Job | None = None) -> Ref:
        """An object that never ran and has left the scheduler's memory.

        :raises CheckSkipped: if none ever does
        """
        ref = await self.pending(job)
        await self.leaves(ref)
        return ref

    async def leaves(self, ref: Ref) -> None:
        """Let an object leave the scheduler's memory: a stop deletes it, or it is forgotten after that.

        :raises CheckSkipped: if none ever does
        """
        ended = (await self.get(ref)).state.ended
        await self.adapter.stop(ref)
        if self.traits.stop is Stop.NOTHING:
            await self.gone(ref)
        else:
            if not ended:
                await self.stopped(ref)
            await self.forgotten(ref)

    # looking

    def readable(self, cause: Cause) -> Cause:
        """The cause as an object shows it at first: ``Unknown`` where its evidence cannot be read even then."""
        nowhere = cause.pod_derived and self.traits.evidence_window == timedelta(0)
        return Cause.UNKNOWN if nowhere else cause

    async def shows_the_loss(self, ref: Ref) -> Observation:
        """Wait until an object is what a lost node leaves, by :attr:`Traits.node_loss`.

        :raises CheckFailed: if it does not become that in time
        """
        state = State.RUNNING if self.traits.node_loss is NodeLoss.WEDGED else State.FAILED
        return await self.see(ref, state=state, cause=self.readable(Cause.NODE_LOST), exit_code=None)

    async def weak(self, ref: Ref) -> Ref:
        """The ref that survives a requeue, where there is one."""
        if isinstance(self.adapter, IdentityWeakener):
            return await self.adapter.weaken_identity(ref)
        return ref

    async def get(self, ref: Ref) -> Observation:
        """The current observation of an object, whatever became of its submit time."""
        return await self.adapter.get(await self.weak(ref))

    async def see(self, ref: Ref, /, **fields: object) -> Observation:
        """Wait until an object shows these fields.

        :raises CheckFailed: if it does not in time
        """
        seen: Observation | None = None
        refusal: DispatchError | None = None

        async def shows() -> bool:
            nonlocal seen, refusal
            try:
                seen = await self.get(ref)
            except NotFoundError as error:
                refusal = error
                return False
            return showing(seen, fields) == fields

        if await self.eventually(shows):
            return cast("Observation", seen)
        found = text(showing(seen, fields)) if seen else repr(refusal)
        raise CheckFailed(text(fields), found, seen)

    async def gone(self, ref: Ref) -> None:
        """Wait until no object answers to a ref, exact or weak.

        :raises CheckFailed: if one still does
        """
        seen: Observation | None = None

        async def absent() -> bool:
            nonlocal seen
            try:
                seen = await self.get(ref)
            except NotFoundError:
                return True
            return False

        if not await self.eventually(absent):
            raise CheckFailed(f"NotFoundError for {ref}", "an object", seen)

    async def stopped(self, ref: Ref) -> None:
        """Wait until an object is what a stop leaves, by :attr:`Traits.stop`.

        :raises CheckFailed: if it does not become that in time
        """
        if self.traits.stop is Stop.NOTHING:
            await self.gone(ref)
        else:
            await self.see(ref, state=State.CANCELLED, cause=Cause.STOPPED, exit_code=None)

    async def not_run(self, ref: Ref) -> None:
        """See that the scheduler does not run an object although it is made to. Needs the driver's ``run``.

        :raises CheckFailed: if it runs, or changes in another way
        """
        before = await self.get(ref)
        with suppress(WrongStateError):
            await self.driver.run(ref)
        await self.stays(ref, before, "an attempt to run it")

    async def stays(self, ref: Ref, before: Observation, act: str) -> None:
        """See that an object looks as before, and goes on to, after something that must not change it.

        :raises CheckFailed: if it changed
        """
        await self.cluster.advance(self.timings.quiet)
        after = await self.get(ref)
        fields = [name for name in after.__struct_fields__ if name != "observed_at"]
        was, now = ({name: getattr(seen, name) for name in fields} for seen in (before, after))
        if was != now:
            changed = {name: value for name, value in now.items() if was[name] != value}
            raise CheckFailed(f"no change by {act}", text(changed), after)

    async def eventually(self, condition: Callable[[], Awaitable[bool]]) -> bool:
        """Whether a condition comes true while the cluster's time passes, in no more than ``wait``."""
        waited = timedelta(0)
        while not await condition():
            if waited >= self.timings.wait:
                return False
            await self.cluster.advance(self.timings.poll)
            waited += self.timings.poll
        return True

    @staticmethod
    def is_read_only(mapping: Mapping[Any, Any]) -> bool:
        """Whether a mapping refuses to be changed."""
        try:
            cast("dict[Any, Any]", mapping)["a key"] = "a value"
        except (TypeError, AttributeError):
            return True
        return False

    # refusals and faults

    async def refused(self, kind: type[E], call: Awaitable[object], what: str, ref: Ref | None = None) -> E:
        """See that a call is refused with an error of that kind.

        :raises CheckFailed: if it is not
        """
        try:
            await call
        except kind as error:
            return error
        except DispatchError as error:
            raise CheckFailed(f"{kind.__name__} for {what}", repr(error), await self.look(ref)) from error
        raise CheckFailed(f"{kind.__name__} for {what}", "no error", await self.look(ref))

    async def look(self, ref: Ref | None) -> Observation | None:
        """The object as it is now, if there is one: for a message."""
        try:
            return await self.get(ref) if ref else None
        except DispatchError:
            return None

    def expect(self, holds: bool, expected: str, seen: object, observation: Observation | None = None) -> None:
        """See that something holds.

        :raises CheckFailed: if it does not
        """
        if not holds:
            raise CheckFailed(expected, seen if isinstance(seen, str) else repr(seen), observation)

    def inject(self, fault: Fault, call: str) -> Any:
        """Let a fault strike the next call of that name made inside the block."""
        return self.cluster.inject(fault, call)

    @property
    def a_stop(self) -> dict[str, object]:
        """What is told of a stop, by :attr:`Traits.stop`."""
        state = State.GONE if self.traits.stop is Stop.NOTHING else State.CANCELLED
        return {"state": state, "cause": Cause.STOPPED}

    @staticmethod
    async def others_run() -> None:
        """Let the other tasks do what they can do now."""
        for _ in range(TURNS):
            await checkpoint()

    async def within(self, what: str, call: Callable[[], Awaitable[T]], seen: Observation | None = None) -> T:
        """What a call answers, which must come in no more than ``wait``: so that nothing broken hangs the suite.

        :param seen: the object as last seen, for the message
        :raises CheckFailed: if it does not come
        """
        answers: list[T] = []

        async def ask() -> None:
            answers.append(await call())

        async def answered() -> bool:
            for _ in range(TURNS):
                await checkpoint()
                if answers:
                    return True
            return False

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            if not await self.eventually(answered):
                asking.cancel_scope.cancel()
        if not answers:
            raise CheckFailed(what, f"nothing in {self.timings.wait}", seen)
        return answers[0]
