"""The adapter."""

import re
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeVar
from weakref import WeakSet

import anyio
from anyio.lowlevel import checkpoint
from ulid import ULID

from dispatch_memory_async import (
    EPOCH_BOUND,
    HOLD_BASE,
    Action,
    CallMeta,
    Capabilities,
    Capability,
    Cause,
    ClosedError,
    ExpiredError,
    FinishedError,
    HeldError,
    HoldMeta,
    InvalidError,
    Job,
    NativePolicy,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    Policy,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    RunningError,
    Source,
    StaleError,
    State,
    Support,
    Tristate,
    UnavailableError,
    UnsupportedError,
    WrongStateError,
)

from .commands import CommandError, Commands, meaning
from .reading import HISTORY, NAME, QUEUE, read_history, read_queue
from .script import batch_script, options
from .watching import PolledWatch

__all__ = ("Settings", "SlurmAdapter")

T = TypeVar("T")
SECOND = timedelta(seconds=1)
REQUEUE = {"requeue": "1"}
"""The native setting that sets the requeue bit."""
INTERRUPTIONS = frozenset({Cause.PREEMPTED, Cause.NODE_LOST})
HAS = frozenset({Capability.GATED_START, Capability.HOLD, Capability.REQUEUE, Capability.WATCH})
REFUSALS = (WrongStateError, NotFoundError, UnsupportedError, UnavailableError, OutcomeUnknownError)
NUMBER = r"[1-9]\d{0,9}"
EVER_ENDED = ("--starttime=1970-01-02", "--endtime=now", "--state=BF,CA,CD,DL,F,NF,OOM,PR,RQ,RV,TO")
"""Without the states ``sacct`` leaves out what was cancelled before it was eligible: while gated, held or requeued. A
start of 0, the day before, is none."""
MANY = 500
"""For more jobs than that the whole queue is looked at."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the adapter works.

    :ivar partition: where jobs go that name no queue; the cluster's default, if empty
    :ivar scope: stands in every job's comment; the adapter knows no jobs but those of its scope and its own user
    :ivar accounting: whether there is a ``slurmdbd``, with ``AccountingStoreFlags=job_comment``
    :ivar call_bound: no call takes longer
    :ivar poll: how long a watch waits between two looks
    :ivar read_only: whether to refuse every change
    :ivar directory: where jobs run
    :ivar output: where they write to, by the patterns of ``sbatch --output``
    :ivar environment: what stands in every job's environment; of the adapter's own nothing does
    """

    partition: str = ""
    scope: str = "dispatch"
    accounting: bool = False
    call_bound: timedelta = timedelta(seconds=25)
    poll: timedelta = timedelta(seconds=1)
    read_only: bool = False
    directory: str = "/"
    output: str = "/dev/null"
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"})

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.-]{1,64}", self.scope, re.ASCII):
            raise InvalidError(f"scope: found {self.scope!r}, expected up to 64 letters, digits, '.', '_' and '-'")


class SlurmAdapter:
    """A Slurm, by its commands; see README.md for what it does and does not do.

    :param settings: how it works
    :param commands: runs the commands
    """

    def __init__(self, settings: Settings | None = None, commands: Commands | None = None) -> None:
        self.settings = settings or Settings()
        self._commands = commands or Commands()
        self._closed = False
        self._watches: WeakSet[PolledWatch] = WeakSet()
        self._requeuing = anyio.Lock()  # a watch tells what a requeue has come to, and none of its steps

    async def capabilities(self) -> Capabilities:
        await self._begin()
        yes, no = (Support(value=value, source=Source.DECLARED) for value in (Tristate.YES, Tristate.NO))
        history = Support(value=Tristate.YES if self.settings.accounting else Tristate.NO)
        support = {capability: yes if capability in HAS else no for capability in Capability}
        return Capabilities(
            support={**support, Capability.ACCOUNTING_HISTORY: history},
            rules=dict.fromkeys(Action, yes),
            native={action: yes if action is Action.RESTART else no for action in Action},
            call_bound=self.settings.call_bound,
        )

    async def aclose(self) -> None:
        self._closed = True
        for watch in tuple(self._watches):
            watch.end("closed")
        await checkpoint()

    # starting and stopping

    async def start(
        self, job: Job, submission: int, *, native: NativePolicy | None = None, deadline: datetime | None = None
    ) -> Ref:
        await self._begin(writes=True)
        _check("job", job, Job)
        _check("native", native, NativePolicy, type(None))
        if type(submission) is not int or not 1 <= submission < EPOCH_BOUND:
            raise InvalidError(f"submission: found {submission!r}, expected one in [1, {EPOCH_BOUND})")
        given = dict(native.settings) if native else {}
        if given not in ({}, REQUEUE):
            raise InvalidError(f"native settings: found {given}, expected none or {REQUEUE}")
        command = (
            *("sbatch", "--parsable", "--hold", "--requeue" if given else "--no-requeue"),
            *(f"--job-name={NAME}{job.id}", f"--comment={self.settings.scope}/{submission}"),
            *("--export=ALL", f"--chdir={self.settings.directory}", f"--output={self.settings.output}"),
            *options(job, self.settings.partition),
        )
        script = batch_script(job, submission, self.settings.environment)
        self._in_time("start", deadline)
        async with self._writing():
            answer = await self._change("start", *command, script=script)
            number = re.fullmatch(r"([1-9]\d*)(;\S+)?", answer.strip())
            if number is None:
                raise OutcomeUnknownError(f"sbatch answered {answer!r}, expected a job id")
            try:
                return (await self._look(f"{NAME}{job.id}", number[1])).ref
            except (NotFoundError, UnavailableError) as error:
                raise OutcomeUnknownError(f"job {number[1]} was submitted, but cannot be seen: {error}") from error

    async def open(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._begin(writes=True)
        seen = await self._to_change("open", ref, deadline)
        if seen.state.ended:
            raise FinishedError(f"{ref} has ended ({seen.state}), expected one that is live")
        if seen.cause is Cause.ADMIN_HELD:
            raise HeldError(f"{ref} is held by an administrator")
        if seen.gated:
            async with self._writing():
                self._in_time("open", deadline)
                await self._change("open", "scontrol", "release", ref.id)

    async def stop(self, ref: Ref, *, deadline: datetime | None = None) -> None:
        await self._begin(writes=True)
        seen = await self._to_change("stop", ref, deadline)
        if not seen.state.ended:
            async with self._writing():
                self._in_time("stop", deadline)
                # what has ended since the look, or is ending, is no active job, and not found
                with suppress(NotFoundError):
                    await self._change("stop", "scancel", "--me", f"--name={seen.ref.name}", ref.id)

    # looking

    async def get(self, ref: Ref) -> Observation:
        await self._begin()
        _check("ref", ref, Ref)
        return await self._within(self._find_one(ref))

    async def find(self, job_id: ULID) -> tuple[Observation, ...]:
        return (await self.find_many((job_id,)))[job_id]

    async def find_many(self, job_ids: Collection[ULID]) -> Mapping[ULID, tuple[Observation, ...]]:
        await self._begin()
        _check("job_ids", job_ids, Collection)
        for job_id in job_ids:
            _check("job_id", job_id, ULID)
        listed: dict[ULID, list[Observation]] = {job_id: [] for job_id in job_ids}
        if listed:
            for seen in await self._within(self._list(listed)):
                listed[seen.job_id].append(seen)
        return MappingProxyType({job_id: tuple(seen) for job_id, seen in listed.items()})

    async def weaken_identity(self, ref: Ref) -> Ref:
        await self._begin()
        _check("ref", ref, Ref)
        return Ref(name=ref.name, id=ref.id, submitted_at=None)

    def watch(self) -> PolledWatch:
        if self._closed:
            raise ClosedError("the adapter is closed")
        watch = PolledWatch(self.look_at_all, self.settings.poll)
        self._watches.add(watch)
        return watch

    async def look_at_all(self) -> list[Observation]:
        """Every job that Slurm remembers: a watch's look."""
        async with self._requeuing:
            return await self._within(self._queue())

    # holds

    async def hold(self, ref: Ref, meta: HoldMeta) -> None:
        seen = await self._to_hold("hold", ref, meta, HoldMeta)
        if seen.state is not State.PENDING:
            raise RunningError(f"{ref} runs, expected one that waits")
        if seen.hold is not None and meta.instance < seen.hold:
            raise StaleError(f"{ref}: found hold {seen.hold} in force, expected none above {meta.instance}", seen.hold)
        if meta.instance != seen.hold:
            async with self._writing():
                self._in_time("hold", meta.deadline)
                await self._change("hold", *_start_time(seen.ref, meta.instance))

    async def release(self, ref: Ref, meta: ReleaseMeta) -> None:
        seen = await self._to_hold("release", ref, meta, ReleaseMeta)
        if seen.hold is None:
            return
        if meta.instance != seen.hold:
            raise StaleError(f"{ref}: found hold {seen.hold} in force, expected {meta.instance}", seen.hold)
        async with self._writing():
            self._in_time("release", meta.deadline)
            # a node refuses a run in the second in which it has ended one of the same job ("Job credential revoked")
            start = "now+2" if seen.restarts else "now"
            await self._change("release", "scontrol", "update", f"JobId={ref.id}", f"StartTime={start}")

    # requeues

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        await self._begin(writes=True)
        _check("meta", meta, CallMeta)
        seen = await self._to_change("requeue", ref, meta.deadline)
        if seen.state.ended and not seen.requeue_bit:
            raise FinishedError(
                f"{ref} has ended with its requeue bit clear: Slurm neither sets it now nor requeues it"
            )
        if seen.state is State.RUNNING and seen.cause is Cause.REQUEUED:
            raise RunningError(f"{ref} is on its way back already")
        async with self._writing(), self._requeuing:
            self._in_time("requeue", meta.deadline)
            if not seen.requeue_bit:
                await self._change("requeue", *_bit(ref, 1))
            try:
                await self._change("requeue", "scontrol", "requeue", ref.id)
            except REFUSALS:
                await self._restore(seen)
                raise
            await self._restore(seen)
            try:
                now = await self._look(ref.name, ref.id)
                if seen.state.ended:
                    await self._carry_over(seen, now)
            except REFUSALS as error:
                raise OutcomeUnknownError(f"{ref} was requeued, but what became of it is not known: {error}") from error
            if now.restarts == seen.restarts and now.cause is not Cause.REQUEUED:
                raise RunningError(f"{ref} is just ending: Slurm has taken the requeue, and ends it all the same")

    async def _restore(self, before: Observation) -> None:
        """The last step of a requeue: the bit becomes what it was."""
        if not before.requeue_bit:
            try:
                with suppress(FinishedError, NotFoundError):  # it ended meanwhile
                    await self._change("requeue", *_bit(before.ref, 0))
            except (UnavailableError, OutcomeUnknownError) as error:
                raise OutcomeUnknownError(f"{before.ref}: its requeue bit may be left set: {error}") from error

    async def _carry_over(self, before: Observation, now: Observation) -> None:
        """A job that was cancelled while it waited comes back gated, and with its old start time."""
        if now.gated:
            await self._change("requeue", "scontrol", "release", before.ref.id)
        if before.hold is not None:
            await self._change("requeue", *_start_time(now.ref, before.hold))

    async def restore_requeue_bit(self, ref: Ref, meta: CallMeta) -> None:
        await self._begin(writes=True)
        _check("meta", meta, CallMeta)
        seen = await self._to_change("restore_requeue_bit", ref, meta.deadline)
        if seen.state.ended:
            raise FinishedError(f"{ref} has ended ({seen.state}), expected one that is live")
        if seen.requeue_bit:
            async with self._writing():
                self._in_time("restore_requeue_bit", meta.deadline)
                await self._change("restore_requeue_bit", *_bit(ref, 0))

    async def compile_policy(self, policy: Policy) -> NativePolicy:
        """One bit decides about preemptions and lost nodes together, and it knows no limit."""
        await self._begin()
        _check("policy", policy, Policy)
        named: set[Cause] = set()
        fitting: dict[int, frozenset[Cause]] = {}
        for index, rule in enumerate(policy.rules):
            plain = rule.action is Action.RESTART and rule.limit is None and not rule.backoff
            if plain and rule.causes and rule.causes <= INTERRUPTIONS and not rule.causes & named:
                fitting[index] = rule.causes
            named |= rule.causes
        if frozenset[Cause]().union(*fitting.values()) != INTERRUPTIONS:
            return NativePolicy(settings={}, covered=(), rest=policy)
        rest = tuple(rule for index, rule in enumerate(policy.rules) if index not in fitting)
        return NativePolicy(settings=REQUEUE, covered=tuple(fitting), rest=Policy(rest, policy.unmatched))

    # what every call does

    async def _begin(self, *, writes: bool = False) -> None:
        await checkpoint()  # whoever cancels a write does it here, before anything is done, or not at all
        if self._closed:
            raise ClosedError("the adapter is closed")
        if writes and self.settings.read_only:
            raise ReadOnlyError("the adapter is read-only")

    def _in_time(self, call: str, deadline: datetime | None) -> None:
        if deadline is None:
            return
        if not isinstance(deadline, datetime) or deadline.utcoffset() is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidError(f"deadline: found {deadline!r}, expected an aware datetime")
        starts = self._commands.starts(call)
        if starts > deadline:
            raise ExpiredError(f"{call} starts at {starts}, expected no later than {deadline}")

    async def _to_change(self, call: str, ref: Ref, deadline: datetime | None) -> Observation:
        """Look at a job that is to be changed.

        Slurm has no command that acts on an id *and* a submit time: if the job is requeued between this look and the
        command, the command hits the new run.
        """
        _check("ref", ref, Ref)
        if ref.weak:
            raise InvalidError(f"{ref} names no submit time, expected an exact ref")
        self._in_time(call, deadline)
        seen = await self._within(self._look(None, ref.id))
        if seen.ref.submitted_at != ref.submitted_at:
            raise NotFoundError(f"no job answers to {ref}: found {seen.ref}")
        return seen

    async def _to_hold(self, call: str, ref: Ref, meta: CallMeta, kind: type[CallMeta]) -> Observation:
        await self._begin(writes=True)
        _check("meta", meta, kind)
        seen = await self._to_change(call, ref, meta.deadline)
        if seen.state.ended:
            raise FinishedError(f"{ref} has ended ({seen.state}), expected one that is live")
        return seen

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[None]:
        """Commands that change something: they are not cancelled in the middle, and end within ``call_bound``."""
        try:
            with anyio.CancelScope(shield=True), anyio.fail_after(self.settings.call_bound.total_seconds()):
                yield
        except TimeoutError as error:
            if isinstance(error, ExpiredError):
                raise
            raise OutcomeUnknownError(f"no answer within {self.settings.call_bound}") from error

    async def _within(self, look: Awaitable[T]) -> T:
        try:
            with anyio.fail_after(self.settings.call_bound.total_seconds()):
                return await look
        except TimeoutError as error:
            raise UnavailableError(f"no answer within {self.settings.call_bound}") from error

    async def _change(self, call: str, *command: str, script: str = "") -> str:
        try:
            return await self._commands.run(call, *command, script=script)
        except CommandError as error:
            raise meaning(error, writes=True) from error

    async def _ask(self, *command: str) -> str:
        try:
            return await self._commands.run("look", *command)
        except CommandError as error:
            raise meaning(error, writes=False) from error

    async def _queue(self, *which: str) -> list[Observation]:
        text = await self._ask("squeue", "--noheader", "--me", "--states=all", *which, f"--Format={QUEUE}")
        return read_queue(text, self.settings.scope, datetime.now(UTC))

    async def _history(self, *which: str) -> list[Observation]:
        command = ("sacct", "--noheader", "--parsable2", "--duplicates", "--allocations")
        text = await self._ask(*command, *which, f"--format={HISTORY}")
        return read_history(text, self.settings.scope, datetime.now(UTC))

    async def _look(self, name: str | None, number: str) -> Observation:
        """The job that has an id now; of that name, if one is given."""
        if re.fullmatch(NUMBER, number, re.ASCII):
            for seen in await self._queue(f"--jobs={number}"):
                if seen.ref.id == number and name in {None, seen.ref.name}:
                    return seen
        raise NotFoundError(f"no job of ours has the id {number!r}")

    async def _find_one(self, ref: Ref) -> Observation:
        """A job that is remembered, or else known to accounting."""
        remembered = None
        with suppress(NotFoundError):
            remembered = await self._look(ref.name if ref.weak else None, ref.id)
        if remembered is not None and (ref.weak or remembered.ref.submitted_at == ref.submitted_at):
            return remembered
        if self.settings.accounting and re.fullmatch(NUMBER, ref.id, re.ASCII):
            for seen in reversed(await self._history(f"--jobs={ref.id}")):
                # what is remembered was requeued: its records are of its earlier runs, and of the present one none
                if remembered is None or _key(seen) != _key(remembered):
                    if ref.weak and seen.ref.name == ref.name:
                        return seen
                    if seen.ref.submitted_at == ref.submitted_at:
                        return seen
        raise NotFoundError(f"no job answers to {ref}")

    async def _list(self, job_ids: Collection[ULID]) -> list[Observation]:
        names = f"--name={','.join(f'{NAME}{job_id}' for job_id in job_ids)}"
        which = (names,) if len(job_ids) <= MANY else ()
        remembered = [seen for seen in await self._queue(*which) if seen.job_id in job_ids]
        if not self.settings.accounting:
            return remembered
        known = set(map(_key, remembered))
        history = await self._history(*which, *EVER_ENDED)
        forgotten = [seen for seen in history if seen.job_id in job_ids and _key(seen) not in known]
        return sorted(remembered + forgotten, key=lambda seen: int(seen.ref.id))


def _start_time(ref: Ref, instance: int) -> tuple[str, ...]:
    """The command that holds a job: it shall not start before ``HOLD_BASE`` and its instance have passed."""
    submitted = ref.submitted_at
    if submitted is None:
        raise InvalidError(f"{ref} names no submit time, expected an exact ref")
    begin = submitted + HOLD_BASE + instance * SECOND
    return "scontrol", "update", f"JobId={ref.id}", f"StartTime={begin:%Y-%m-%dT%H:%M:%S}"


def _key(seen: Observation) -> tuple[str, str, int]:
    """What stays the same of a job when it is requeued."""
    return seen.ref.id, seen.ref.name, seen.submission


def _bit(ref: Ref, value: int) -> tuple[str, ...]:
    return "scontrol", "update", f"JobId={ref.id}", f"Requeue={value}"


def _check(name: str, found: object, *kinds: type) -> None:
    if not isinstance(found, kinds) or isinstance(found, str):
        raise InvalidError(f"{name}: found {found!r}, expected a {' or '.join(kind.__name__ for kind in kinds)}")
