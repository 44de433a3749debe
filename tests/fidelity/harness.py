"""The harness of the Slurm adapter on a private Slurm, and its driver, which makes the scheduler do things for real."""

import errno
import os
import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

import anyio

from dispatch_memory_async import CallMeta, CrashedError, Ref, WrongStateError
from dispatch_memory_async.conformance import (
    Cluster,
    Fault,
    Harness,
    NodeLoss,
    Preemption,
    Stop,
    Timings,
    Traits,
)
from examples.slurm_cli import Commands, Settings, SlurmAdapter
from examples.slurm_cli.commands import CommandError

from .private_slurm import AGE, NODE_TIMEOUT, PARTITIONS, USER, PrivateSlurm

__all__ = ("SlurmHarness",)

LATE = timedelta(days=1)
A_HOLD = timedelta(days=365)
PATIENCE = 60
SETTLE = 2
"""In so many seconds a job that can start would have started."""
UNHEARD = timedelta(seconds=13)
"""The controller gives a batch job so long (``BatchStartTimeout`` and ``MessageTimeout``) to be there on its node."""
MAIN = {"start": ("sbatch",), "requeue": ("scontrol", "requeue")}
"""The command of a call whose reply is lost; of other calls, the first that changes something."""


class Record:
    """What was run in one scope, and the states that jobs have shown.

    :ivar commands: as ``$`` by the user, as ``#`` by root; root's looks are left out
    :ivar states: all words in capitals that Slurm has printed of jobs
    """

    def __init__(self, states: set[str]) -> None:
        self.commands: list[str] = []
        self.states = states

    @contextmanager
    def noting(self, prompt: str, command: Sequence[str]) -> Generator[list[str]]:
        """Note a command, and what it complains of.

        The block appends what it answers to the list that it is given.
        """
        answers: list[str] = []
        looks, complaint = command[0] in {"squeue", "sacct", "sinfo", "sdiag"}, ""
        try:
            yield answers
        except CommandError as error:
            complaint = f": {error.said}"
            raise
        finally:
            if looks:
                self.states.update(*(re.findall(r"[A-Z_]{5,}", answer) for answer in answers))
            if prompt == "$" or not looks:
                self.commands.append(f"{prompt} {shlex.join(command)}{complaint}")


class Died(BaseException):
    """The caller dies here."""


class FaultyCommands(Commands):
    """Runs commands as a normal user, and lets one fault strike.

    :ivar fault: what strikes the next call of that name
    """

    fault: tuple[Fault, str] | None = None

    def __init__(self, environment: Mapping[str, str], record: Record) -> None:
        super().__init__(environment)
        self._record = record

    def starts(self, call: str) -> datetime:
        late = self._strikes(Fault.LATE_CALL, call)
        return super().starts(call) + (LATE if late else timedelta(0))

    async def run(self, call: str, *command: str, script: str = "") -> str:
        main = command[: len(MAIN.get(call, ()))] == MAIN.get(call, ())
        if main and self._strikes(Fault.CRASH_BETWEEN_STEPS, call):
            raise Died
        as_user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command)
        with self._record.noting("$", command) as answers:
            answer = await super().run(call, *as_user, script=script)
            answers.append(answer)
        if main and self._strikes(Fault.LOST_REPLY, call):
            raise CommandError(command[0], 1, "slurm_receive_msg: Socket timed out on send/recv operation")
        return answer

    def _strikes(self, fault: Fault, call: str) -> bool:
        if self.fault != (fault, call):
            return False
        self.fault = None
        return True


class MortalAdapter(SlurmAdapter):
    """An adapter whose caller can die in the middle of a requeue."""

    async def requeue(self, ref: Ref, meta: CallMeta) -> None:
        try:
            await super().requeue(ref, meta)
        except Died:
            raise CrashedError(f"{ref}: the caller died between the steps of a requeue") from None


class Shown(NamedTuple):
    """What the scheduler's side shows of a job."""

    state: str
    node: str
    restarts: str
    eligible: str
    priority: str
    bit: str


class Driver:
    """The scheduler's side, by root's commands, and by what becomes of nodes and processes."""

    def __init__(self, slurm: PrivateSlurm, partition: str, record: Record) -> None:
        self._slurm = slurm
        self._record = record
        self._partition = partition
        self._nodes: dict[str, set[str]] = {}  # the lost nodes of each job
        self._lost_at: dict[str, datetime] = {}
        self._fenced: set[str] = set()
        self._ours: set[str] = set()  # preempting jobs

    async def run(self, ref: Ref) -> None:
        """Jobs wait in partitions that are down; this one's is up until it has started.

        If its gate is shut or it is held, it waits on.
        """
        shown = await self._shown(ref, "PENDING")
        held = self._is_held(shown)
        # a node refuses a run in the second in which it has ended one of the same job ("Job credential revoked")
        begin = () if held else ("StartTime=now+2" if shown.restarts != "0" else "StartTime=now",)
        await self._update(ref, f"Partition={self._partition}", *begin)
        try:
            await self._root("scontrol", "update", f"PartitionName={self._partition}", "State=UP")
            with anyio.move_on_after(SETTLE if held or shown.priority == "0" else PATIENCE):
                await self._until(lambda: self._has_started(ref))
        finally:
            with anyio.CancelScope(shield=True):
                await self._root("scontrol", "update", f"PartitionName={self._partition}", "State=DOWN")

    async def finish(self, ref: Ref, exit_code: int = 0) -> None:
        await self._tell(ref, str(exit_code))

    async def time_out(self, ref: Ref) -> None:
        async def taken() -> bool:
            await self._shown(ref, "RUNNING")
            try:
                await self._update(ref, "EndTime=now")
            except WrongStateError as error:
                if "Invalid time specified" in str(error):  # it has begun in this very second
                    return False
                raise
            return True

        await self._until(taken)

    async def preempt(self, ref: Ref) -> None:
        """A job of a partition with a higher tier wants this one's node, and has it once this one has left."""
        node = (await self._shown(ref, "RUNNING")).node
        asks = ("sbatch", "--parsable", "--partition=high", f"--nodelist={node}", "--output=/dev/null", "--chdir=/")
        number = (await self._root(*asks, "--wrap=sleep 600")).strip()
        self._ours.add(number)
        await self._until(lambda: self._has_left(ref))
        await self._root("scancel", number)

    async def preempt_cancelling(self, ref: Ref) -> None:
        """A preemption in a partition with ``PreemptMode=CANCEL``."""
        partition = ("scontrol", "update", f"PartitionName={self._partition}")
        await self._root(*partition, "PreemptMode=CANCEL")
        try:
            await self.preempt(ref)
        finally:
            with anyio.CancelScope(shield=True):
                await self._root(*partition, "PreemptMode=REQUEUE")

    async def lose_node(self, ref: Ref) -> None:
        node = (await self._shown(ref, "RUNNING")).node
        self._record.commands.append("# kill -KILL SLURMD")
        self._slurm.lose_node(node)
        self._nodes.setdefault(ref.id, set()).add(node)
        self._lost_at[ref.id] = datetime.now(UTC)

    async def return_node(self, ref: Ref) -> None:
        nodes = self._lost(ref)
        if ref.id in self._fenced:  # before that, the controller takes it that the job is still to begin there
            await self._until(lambda: self._is_past(self._lost_at[ref.id] + UNHEARD))
        self._record.commands.append("# slurmd -N NODE")
        for node in nodes:
            self._slurm.start_node(node)
        del self._nodes[ref.id]

    async def fence_node(self, ref: Ref) -> None:
        self._lost(ref)
        self._record.commands.append("# kill -KILL SLURMSTEPD PROCESSES")
        self._slurm.kill_steps(ref.id)
        self._fenced.add(ref.id)

    async def admin_hold(self, ref: Ref) -> None:
        await self._root("scontrol", "hold", ref.id)

    async def admin_release(self, ref: Ref) -> None:
        await self._root("scontrol", "release", ref.id)

    async def no_capacity(self, ref: Ref, detail: str = "") -> None:
        """It has to wait for a node that is down."""
        del detail
        await self._shown(ref, "PENDING")
        await self._update(ref, "Partition=full")

    async def requeue_externally(self, ref: Ref) -> None:
        if (await self._look(ref)).bit == "0":
            await self._update(ref, "Requeue=1")
        await self._root("scontrol", "requeue", ref.id)

    # what scripts need, too

    async def cancel_externally(self, ref: Ref) -> None:
        await self._root("scancel", ref.id)

    async def rename(self, ref: Ref) -> None:
        await self._update(ref, "JobName=renamed")

    async def start_in_the_past(self, ref: Ref) -> None:
        await self._update(ref, "StartTime=2020-01-01T00:00:00")

    async def epochs(self, ref: Ref) -> str:
        """The epochs in the environments of the job's processes, wherever they run."""
        self._record.commands.append("# grep -z DISPATCH_EPOCH /proc/PID/environ")
        return " ".join(sorted(self._slurm.set_in(ref.id, "DISPATCH_EPOCH")))

    async def node_timeout(self, ref: Ref) -> None:
        """Wait until a node that was lost is missed, or would have been."""
        node = (await self._look(ref)).node

        async def decided() -> bool:
            state = (await self._root("sinfo", "-hN", "-p", "wait", "-n", node, "-o", "%T")).strip()
            return state.startswith("down") or not state.endswith("*")

        await self._until(lambda: self._is_past(self._lost_at[ref.id] + timedelta(seconds=NODE_TIMEOUT)))
        await self._until(decided)

    async def forget(self, ref: Ref) -> None:
        """It does so by itself."""

    async def end(self, ref: Ref) -> None:
        """It does so by itself."""

    async def another_cycle(self) -> None:
        """Wait until the scheduler has looked at everything once more, from its beginning."""
        begun = await self._cycles()

        async def been_round() -> bool:
            return await self._cycles() >= begun + 2

        await self._until(been_round)

    async def _cycles(self) -> int:
        """How often the scheduler has looked at everything."""
        found = re.search(r"Total cycles: +(\d+)", await self._root("sdiag"))
        if found is None:
            raise WrongStateError("sdiag counts no cycles")
        return int(found[1])

    async def clean(self, scope: str) -> None:
        """End what a check has left, and bring back its nodes."""
        for number in self._ours:
            await self._root("scancel", number)
        listed = await self._root("squeue", "-h", f"--user={USER}", "-o", "%i %k")
        left = [line.split()[0] for line in listed.splitlines() if line.split()[1].startswith(f"{scope}/")]
        if left:
            await self._root("scancel", *left)
        for job, nodes in self._nodes.items():
            self._slurm.kill_steps(job)
            for node in nodes:
                self._slurm.start_node(node)

    def _lost(self, ref: Ref) -> set[str]:
        if ref.id not in self._nodes:
            raise WrongStateError(f"{ref} has no lost node")
        return self._nodes[ref.id]

    async def _tell(self, ref: Ref, what: str) -> None:
        """Tell a running job's process what to do."""
        shown = await self._shown(ref, "RUNNING")
        if shown.node in self._nodes.get(ref.id, ()):
            raise WrongStateError(f"{ref} is on a lost node")
        path = self._slurm.folder / "told" / f"{ref.id}.{shown.restarts}"

        async def heard() -> bool:
            try:
                way = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno in {errno.ENXIO, errno.ENOENT}:  # it has not come to listen yet
                    return False
                raise
            os.write(way, f"{what}\n".encode())
            os.close(way)
            return True

        await self._until(heard)

    async def _has_started(self, ref: Ref) -> bool:
        return (await self._look(ref)).state != "PENDING"

    @staticmethod
    async def _is_past(moment: datetime) -> bool:
        return datetime.now(UTC) >= moment

    async def _has_left(self, ref: Ref) -> bool:
        try:
            return (await self._look(ref)).state not in {"RUNNING", "COMPLETING"}
        except WrongStateError:
            return True

    async def _shown(self, ref: Ref, state: str) -> Shown:
        shown = await self._look(ref)
        if shown.state != state:
            raise WrongStateError(f"{ref} is {shown.state}, expected {state}")
        return shown

    async def _look(self, ref: Ref) -> Shown:
        asked = "State:20,NodeList:20,RestartCnt:10,EligibleTime:25,PriorityLong:20,Requeue:5"
        answer = (await self._root("squeue", "-h", "-t", "all", "-j", ref.id, "-O", asked)).splitlines()[0]
        cells = (answer[:20], answer[20:40], answer[40:50], answer[50:75], answer[75:95], answer[95:])
        return Shown(*(cell.strip() for cell in cells))

    @staticmethod
    def _is_held(shown: Shown) -> bool:
        try:
            begin = datetime.fromisoformat(shown.eligible).replace(tzinfo=UTC)
        except ValueError:
            return False
        return begin > datetime.now(UTC) + A_HOLD

    async def _update(self, ref: Ref, *settings: str) -> None:
        await self._root("scontrol", "update", f"JobId={ref.id}", *settings)

    async def _root(self, *command: str) -> str:
        try:
            with self._record.noting("#", command) as answers:
                answer = await Commands(self._slurm.environment).run("drive", *command)
                answers.append(answer)
                return answer
        except CommandError as error:
            raise WrongStateError(str(error)) from error

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        with anyio.fail_after(PATIENCE):
            while not await holds():  # noqa: ASYNC110  # nothing here tells of changes
                await anyio.sleep(0.05)


class SlurmCluster(Cluster):
    """One scope on the private Slurm: no other has jobs in it."""

    def __init__(self, slurm: PrivateSlurm, scope: str, partition: str, record: Record) -> None:
        self._slurm = slurm
        self._scope = scope
        self.record = record
        self._commands = FaultyCommands(slurm.environment, record)
        self._clients: list[SlurmAdapter] = []
        self.adapter = self._client(self._commands)
        self.driver = Driver(slurm, partition, record)

    def _client(self, commands: Commands, *, read_only: bool = False) -> SlurmAdapter:
        environment: Mapping[str, str] = {
            "PATH": f"{self._slurm.folder}/jobs:/usr/bin:/bin",
            "FIDELITY": str(self._slurm.folder),
        }
        settings = Settings(
            scope=self._scope,
            accounting=True,
            poll=timedelta(milliseconds=200),
            read_only=read_only,
            environment=environment,
        )
        client = MortalAdapter(settings, commands)
        self._clients.append(client)
        return client

    async def another(self, *, read_only: bool = False) -> SlurmAdapter:
        return self._client(FaultyCommands(self._slurm.environment, self.record), read_only=read_only)

    @asynccontextmanager
    async def inject(self, fault: Fault, call: str) -> AsyncGenerator[None]:
        self._commands.fault = fault, call
        try:
            yield
        finally:
            self._commands.fault = None

    async def close(self) -> None:
        """Close its clients, and end what they have left."""
        with anyio.CancelScope(shield=True):
            for client in self._clients:
                await client.aclose()
            await self.driver.clean(self._scope)


class SlurmHarness(Harness):
    """The adapter on a private Slurm.

    :ivar states: the words in capitals that Slurm has printed of jobs
    """

    name = "slurm_cli on a private Slurm"
    abilities = frozenset(
        {
            "run",
            "finish",
            "time_out",
            "preempt",
            "lose_node",
            "return_node",
            "fence_node",
            "admin_hold",
            "admin_release",
            "no_capacity",
            "requeue_externally",
        }
    )
    faults = frozenset({Fault.LATE_CALL, Fault.CRASH_BETWEEN_STEPS, Fault.LOST_REPLY})
    timings = Timings(wait=timedelta(seconds=75), quiet=timedelta(seconds=2), poll=timedelta(milliseconds=250))
    traits = Traits(
        unique_names=False,
        stop=Stop.CANCELLED,
        preemption=Preemption.ENDED,
        node_loss=NodeLoss.ENDED,
        node_timeout=timedelta(seconds=NODE_TIMEOUT),
        forgets_after=timedelta(seconds=AGE),
        moves_submit_time=True,
        ids_repeat_after=67_043_328,
        requeues_ended=False,
        admin_hold_opens=True,
        atomic_holds=False,
        polled_watch=True,
    )

    def __init__(self, slurm: PrivateSlurm) -> None:
        self._slurm = slurm
        self._scopes = count(1)
        self._partitions = list(PARTITIONS)
        self.states: set[str] = set()

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[SlurmCluster]:
        partition = self._partitions.pop()
        cluster = SlurmCluster(self._slurm, f"check-{next(self._scopes)}", partition, Record(self.states))
        try:
            yield cluster
        finally:
            await cluster.close()
            self._partitions.append(partition)
