"""The supervisor: it looks at a job, writes what it will do, and does it. What to do is decided elsewhere."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import cast

import anyio
from ulid import ULID

from ..model import (
    CallMeta,
    Capabilities,
    Capability,
    DispatchError,
    HoldMeta,
    InvalidError,
    NativePolicy,
    Ref,
    ReleaseMeta,
)
from ..model.base import altered
from ..model.checks import check_kind
from ..spi import Adapter, Holder, NativePolicyCompiler, Requeuer
from .absorbing import absorb
from .acts import Act, answered, intended, remembered, written
from .agenda import Agenda, Made
from .folding import fold
from .look import Look, has
from .looker import NO_ANSWER, UNKNOWN, Looker
from .record import SKEW, Intent, Record
from .records import ConflictError, Records
from .rounds import Rounds
from .status import Status, WaitingFor
from .steps import Finish, Hold, Open, Park, Release, Requeue, RestoreRequeueBit, Start, Step, Stop, Wait, next_step

__all__ = ("Supervisor",)

_logger = logging.getLogger(__name__)


class Supervisor:
    """Brings jobs on, one step at a time. Several of them on the same records, in any processes, are safe.

    :param adapter: the scheduler
    :param records: where the records are kept
    :param clock: gives the time, as an aware datetime
    :param patience: how long an act may take until its command starts: its deadline
    :param poll: how often :meth:`run` looks at all jobs, whatever it is told in between
    :param concurrency: how many jobs :meth:`run` brings on at the same time
    :param skew: by how much the clocks of those who share the records may differ
    """

    def __init__(
        self,
        adapter: Adapter,
        records: Records,
        *,
        clock: Callable[[], datetime] = partial(datetime.now, UTC),  # noqa: B008  # read anew at every step
        patience: timedelta = timedelta(seconds=30),
        poll: timedelta = timedelta(seconds=5),
        concurrency: int = 16,
        skew: timedelta = SKEW,
    ) -> None:
        for name, span in (("patience", patience), ("poll", poll)):
            check_kind(name, span, timedelta)
            if span <= timedelta(0):
                raise InvalidError(f"{name}: found {span}, expected more than nothing")
        check_kind("skew", skew, timedelta)
        if skew < timedelta(0):
            raise InvalidError(f"skew: found {skew}, expected at least nothing")
        check_kind("concurrency", concurrency, int)
        if concurrency < 1:
            raise InvalidError(f"concurrency: found {concurrency}, expected at least 1")
        self._adapter = adapter
        self._records = records
        self._clock = clock
        self._patience = patience
        self._poll = poll
        self._concurrency = concurrency
        self._skew = skew
        self._looker = Looker(adapter, clock)

    async def step(self, job_id: ULID) -> Status:
        """Look at a job, and do the one thing that is to be done next, if any is.

        A step that loses a race against another supervisor does nothing.

        :return: what is known of the job
        :raises NotFoundError: if there is no record of it
        """
        record = await self._records.get(job_id)
        if record.verdict:
            return self._fold(record, Look(began_at=self._clock()), UNKNOWN)
        capabilities, look = await self._looker.first(job_id)
        return (await self._bring_on(record, look, capabilities)).status

    async def run(self) -> None:
        """Bring on all jobs of which there is a record, and those that come, until it is cancelled.

        It acts when a record is written, when the scheduler's watch tells something, when a wait is over, and looks at
        all jobs at once every ``poll``. While the scheduler is unavailable it waits longer and longer, up to a minute.
        What goes wrong with one job is logged, and tried again after a ``poll``. Cancelling it loses nothing: an act
        whose reply it did not wait for is found by looking.

        :raises ClosedError: if the adapter or the records are closed
        """
        await self._rounds(self._agenda(anyio.current_time)).run()

    def _agenda(self, time: Callable[[], float]) -> Agenda:
        return Agenda(clock=self._clock, time=time, poll=self._poll, concurrency=self._concurrency)

    def _rounds(self, agenda: Agenda) -> Rounds:
        return Rounds(
            *(self._adapter, self._records, self._looker, self._bring_on, agenda),
            poll=self._poll,
            concurrency=self._concurrency,
            patience=self._patience,
        )

    async def _bring_on(self, record: Record, look: Look, capabilities: Capabilities) -> Made:
        absorbed, step = self._decide(record, look, capabilities)
        if isinstance(step, Wait) and step.why is WaitingFor.CESSATION and has(capabilities, Capability.CESSATION):
            look = await self._looker.ask(record.job.id, look)  # only where it decides: most jobs never need it
            absorbed, step = self._decide(record, look, capabilities)
        if isinstance(step, Wait | Park | Finish):
            after = written(absorbed, step)
            kept = record if after == record else await self._put(record, after)
            status = self._fold(after if kept else absorbed, look, capabilities)
            return Made(status, step, (kept or record).version, raced=kept is None)
        return await self._act(record, absorbed, step, look, capabilities)

    def _decide(self, record: Record, look: Look, capabilities: Capabilities) -> tuple[Record, Step]:
        now = self._clock()
        absorbed = absorb(record, look, capabilities, now, skew=self._skew)
        status = self._fold(absorbed, look, capabilities)
        return absorbed, next_step(absorbed, status, capabilities, now, skew=self._skew)

    def _fold(self, record: Record, look: Look, capabilities: Capabilities) -> Status:
        return fold(record, look, capabilities, self._clock(), skew=self._skew)

    async def _put(self, before: Record, after: Record) -> Record | None:
        try:
            return await self._records.put(remembered(before, after), before.version)
        except ConflictError:
            return None  # somebody else has brought it on; whoever is next looks again

    # acts

    async def _act(self, before: Record, record: Record, act: Act, look: Look, capabilities: Capabilities) -> Made:
        """Write the intent, make the call, write what came of it."""
        try:
            native = await self._compiled(record, act)
        except NO_ANSWER:
            return Made(self._fold(record, altered(look, complete=False), capabilities), act, before.version)
        if native:
            record = altered(record, covered=native.covered)
        intending = intended(record, act, before.version + 1, self._clock() + self._patience)
        intent = cast("Intent", intending.intent)
        kept = await self._put(before, intending)
        if kept is None:
            return Made(self._fold(record, look, capabilities), act, before.version, raced=True)
        _logger.info("job %s: %s", kept.job.id, act)
        reply: Ref | DispatchError | None
        try:
            reply = await self._call(act, kept, intent, native)
        except DispatchError as error:
            _logger.info("job %s: %s", kept.job.id, error)
            reply = error
        version = await self._answer(kept, intent, reply, capabilities)
        status = self._fold(kept, look, capabilities)  # as the look showed it, with the act in flight
        return Made(status, act, version, reply if isinstance(reply, DispatchError) else None)

    async def _compiled(self, record: Record, act: Act) -> NativePolicy | None:
        """What the scheduler is to be told of the policy with a start, where that was asked for."""
        if not (record.native and isinstance(act, Start) and isinstance(self._adapter, NativePolicyCompiler)):
            return None
        return await self._adapter.compile_policy(record.policy)

    async def _call(self, act: Act, record: Record, intent: Intent, native: NativePolicy | None) -> Ref | None:
        adapter, deadline = self._adapter, intent.deadline
        match act:
            case Start():
                return await adapter.start(record.job, act.submission, native=native, deadline=deadline)
            case Open():
                await adapter.open(act.ref, deadline=deadline)
            case Stop():
                await adapter.stop(act.ref, deadline=deadline)
            case Requeue():
                await cast("Requeuer", adapter).requeue(act.ref, CallMeta(deadline))
            case RestoreRequeueBit():
                await cast("Requeuer", adapter).restore_requeue_bit(act.ref, CallMeta(deadline))
            case Hold():
                await cast("Holder", adapter).hold(act.ref, _meta(record, act, deadline))
            case Release():
                await cast("Holder", adapter).release(act.ref, ReleaseMeta(deadline=deadline, instance=act.instance))
        return None

    async def _answer(
        self, record: Record, intent: Intent, reply: Ref | DispatchError | None, capabilities: Capabilities
    ) -> int:
        """Write what a reply says, for as long as the intent is still ours; the answer is the record's version."""
        while (after := answered(record, intent, reply, capabilities)) is not record:
            if kept := await self._put(record, after):
                return kept.version
            record = await self._records.get(record.job.id)
        return record.version


def _meta(record: Record, act: Hold, deadline: datetime) -> HoldMeta:
    asked = record.hold
    if asked is None:
        return HoldMeta(deadline=deadline, instance=act.instance)
    return HoldMeta(deadline=deadline, instance=act.instance, by=asked.by, until=asked.until, reason=asked.reason)
