"""The operator: what people and services ask for. It writes the record, and makes a supervisor's step."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

import anyio
from ulid import ULID

from ..model import FinishedError, InvalidError, Job, Policy, RunningError, StaleError
from ..model.base import altered
from ..model.checks import check_kind
from .record import POLICY, Ask, Hold, Record, Said, WhileRunning
from .records import ConflictError, Records
from .status import Status
from .supervisor import Supervisor

__all__ = ("Operator",)


class Operator:
    """What people and services ask of a job. It never calls the scheduler itself.

    :param records: where the records are kept
    :param supervisor: brings a job on at once
    :param clock: gives the time, as an aware datetime
    :param poll: how long :meth:`hold` waits between two steps
    """

    def __init__(
        self,
        records: Records,
        supervisor: Supervisor,
        *,
        clock: Callable[[], datetime] = partial(datetime.now, UTC),  # noqa: B008  # read anew at every call
        poll: timedelta = timedelta(seconds=1),
    ) -> None:
        check_kind("poll", poll, timedelta)
        if poll < timedelta(0):
            raise InvalidError(f"poll: found {poll}, expected at least nothing")
        self._records = records
        self._supervisor = supervisor
        self._clock = clock
        self._poll = poll

    async def submit(self, job: Job, policy: Policy | None = None, *, native: bool = False) -> Status:
        """Let a job be run to its verdict.

        :param job: the job
        :param policy: what is to be done about its ends; without one they wait for a person
        :param native: whether the scheduler is to carry out what it can of the policy
        :raises AlreadyExistsError: if it was submitted before
        """
        check_kind("policy", policy, Policy, type(None))
        policy = Policy() if policy is None else policy
        await self._records.create(Record(job=job, policy=policy, native=native, counts=(0,) * len(policy.rules)))
        return await self._supervisor.step(job.id)

    async def stop(self, job_id: ULID, by: str, reason: str = "") -> Status:
        """End a job: nothing of it is begun any more.

        :raises FinishedError: if there is a verdict
        """
        asked = Ask(by, reason, self._clock())
        return await self._write(job_id, lambda record: altered(record, stop=record.stop or asked))

    async def hold(
        self,
        job_id: ULID,
        by: str,
        until: datetime | None = None,
        reason: str = "",
        *,
        running: WhileRunning | Literal["refuse", "stop"] = WhileRunning.REFUSE,
    ) -> Status:
        """Hold a job back; beside a hold that stands, for as long as the longer of the two.

        It returns once nothing of it that we or the scheduler begin can start, and waits for that as long as it takes:
        while the scheduler does not answer, for ever. Whoever gives up waiting leaves the hold in the record, where a
        supervisor goes on with it.

        :param until: when the hold ends by itself
        :param running: what becomes of an object that runs and cannot be held
        :raises InvalidError: if it would be over already
        :raises RunningError: if it runs, cannot be held, and is to be left running; the hold is withdrawn
        :raises StaleError: if the hold was over before that: released, or past its end
        :raises FinishedError: if there is a verdict
        """
        if by == POLICY:
            raise InvalidError(f"by: found {POLICY!r}, which is the policy's own name")
        asked = Hold(instance=1, by=by, until=until, reason=reason, running=running)  # type: ignore[arg-type]
        if asked.until and asked.until <= self._clock():
            raise InvalidError(f"until: found {asked.until.isoformat()}, which is over")

        def held(record: Record) -> Record:
            number, stands = record.hold_counter + 1, record.in_force
            hold = _together(stands, asked) if stands and stands.by != POLICY else asked
            return altered(record, hold=altered(hold, instance=number), hold_counter=number)

        status = await self._write(job_id, held)
        while True:
            record = await self._records.get(job_id)
            if record.verdict:
                raise _finished(record)
            if record.hold is None:
                raise StaleError(f"the hold of job {job_id} was over before it was in force", current=None)
            if record.hold.acked:
                return status
            if record.hold.refused:
                raise RunningError(f"job {job_id} is running and cannot be held, the hold was withdrawn")
            await anyio.sleep(self._poll.total_seconds())
            status = await self._supervisor.step(job_id)

    async def release(self, job_id: ULID, by: str, reason: str = "") -> Status:
        """Let a held job go on. One that its policy holds after an end is restarted, free of charge.

        :raises FinishedError: if there is a verdict
        """
        asked = Ask(by, reason, self._clock())

        def released(record: Record) -> Record:
            said = Said(record.end.key, asked) if record.end and record.in_force else record.go_on
            return altered(record, hold=None, go_on=said)

        return await self._write(job_id, released)

    async def confirm_ceased(self, job_id: ULID, by: str, reason: str = "") -> Status:
        """Say that the executions of a job have ceased: a person's word for the ends recorded so far.

        :raises FinishedError: if there is a verdict
        """
        asked = Ask(by, reason, self._clock())
        return await self._write(
            job_id, lambda record: altered(record, word=Said(record.end.key, asked)) if record.end else record
        )

    async def _write(self, job_id: ULID, change: Callable[[Record], Record]) -> Status:
        """Change the record, whoever else does meanwhile, and make a step."""
        while True:
            record = await self._records.get(job_id)
            if record.verdict:
                raise _finished(record)
            changed = change(record)
            try:
                if changed != record:
                    await self._records.put(changed, record.version)
            except ConflictError:
                continue
            return await self._supervisor.step(job_id)


def _together(stands: Hold, asked: Hold) -> Hold:
    """Two holds in one: it lasts as long as the longer, and stops what runs if either does."""
    until = None if stands.until is None or asked.until is None else max(stands.until, asked.until)
    running = WhileRunning.STOP if WhileRunning.STOP in (stands.running, asked.running) else WhileRunning.REFUSE
    by = stands.by if asked.by in stands.by.split(", ") else f"{stands.by}, {asked.by}"
    return altered(asked, by=by, until=until, running=running)


def _finished(record: Record) -> FinishedError:
    verdict = record.verdict
    return FinishedError(f"job {record.job.id} has its verdict: {verdict.state if verdict else None}")
