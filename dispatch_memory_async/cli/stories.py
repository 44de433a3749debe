"""The stories: what has to be done to tell a record on a scheduler of either shape, and what must come of it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar

from ulid import ULID

from ..memory import Config, Shape
from ..model import Cause, Job, Resources, State, format_duration
from .record import History, Run

__all__ = ("Item", "Step", "Story", "Telling", "story")

BY_THE_SCHEDULER = (Cause.PREEMPTED, Cause.NODE_LOST)
"""After these the scheduler itself puts a job back to wait; after any other end a person does."""

EVIDENCE_WINDOW = timedelta(days=36_500)
"""Long enough for every cause to be there still when it is compared."""

Ends = Mapping[Cause | None, tuple[str, State, Cause | None]]
"""For each recorded end of a run: the call that brings it about, and what the object then shows."""

SLURM_ENDS: Ends = {
    None: ("finish", State.SUCCEEDED, None),
    Cause.NON_ZERO_EXIT: ("finish", State.FAILED, Cause.NON_ZERO_EXIT),
    Cause.OUT_OF_MEMORY: ("out_of_memory", State.FAILED, Cause.OUT_OF_MEMORY),
    Cause.TIMEOUT: ("time_out", State.FAILED, Cause.TIMEOUT),
    Cause.LAUNCH_FAILED: ("fail_launch", State.FAILED, Cause.LAUNCH_FAILED),
    Cause.STOPPED: ("stop", State.CANCELLED, Cause.STOPPED),
    Cause.PREEMPTED: ("preempt", State.FAILED, Cause.PREEMPTED),
    Cause.NODE_LOST: ("lose_node", State.FAILED, Cause.NODE_LOST),
    Cause.REQUEUED: ("requeue", State.PENDING, Cause.REQUEUED),
}

KUBEFLOW_ENDS: Ends = {
    **SLURM_ENDS,
    Cause.PREEMPTED: ("preempt", State.PENDING, Cause.PREEMPTED),
    Cause.NODE_LOST: ("lose_node", State.RUNNING, Cause.NODE_LOST),
    Cause.REQUEUED: ("stop", State.CANCELLED, Cause.STOPPED),
}


@dataclass(frozen=True, slots=True)
class Telling:
    """What must be true of one run once it was told.

    :ivar began: when it began
    :ivar shown: when watchers see that it is over, or that its node is lost
    :ivar died: when its processes died; ``None`` if they live, be it on a lost node
    :ivar cause: why the scheduler ended it
    :ivar exit_code: what it exited with, if it exited by itself
    """

    began: datetime
    shown: datetime | None
    died: datetime | None
    cause: Cause | None
    exit_code: int | None


@dataclass(eq=False, slots=True)
class Item:
    """One object, and what must be true of it at the end.

    :ivar record: the job's id in the record
    :ivar name: what the record calls the job
    :ivar job: the job as it is started
    :ivar submission: the number of this submission
    :ivar requeue_bit: whether it is started with the requeue bit set
    :ivar state: the state in which it must be
    :ivar cause: why
    :ivar exit_code: what its latest run exited with, if it exited by itself
    :ivar restarts: the restart count that it must show
    :ivar deleted: whether the scheduler must have deleted it
    :ivar runs: its runs
    """

    record: int
    name: str
    job: Job
    submission: int
    requeue_bit: bool
    state: State = State.PENDING
    cause: Cause | None = None
    exit_code: int | None = None
    restarts: int = 0
    deleted: bool = False
    runs: list[Telling] = field(default_factory=list[Telling])


@dataclass(frozen=True, slots=True)
class Step:
    """One call: when, about which object, which, and the exit code or the hold's instance that goes with it."""

    at: datetime
    item: Item
    act: str
    number: int


@dataclass(frozen=True, slots=True)
class Story:
    """A record, ready to be told.

    :ivar config: how the scheduler has to be configured
    :ivar items: its objects
    :ivar steps: what is to be done, in the order of time
    :ivar notes: what is left out or told otherwise than recorded, and why
    """

    config: Config
    items: Sequence[Item]
    steps: Sequence[Step]
    notes: Sequence[str]


def story(history: History, shape: Shape) -> Story:
    """Make a record ready to be told on a scheduler of that shape."""
    return _TELLERS[shape](history).story()


class _Teller(ABC):
    """What telling is on every shape."""

    shape: ClassVar[Shape]
    ends: ClassVar[Ends]
    gate: ClassVar[bool]
    """Whether what is started waits for its gate to be opened."""
    requeue_bit: ClassVar[bool]
    """Whether a bit decides if the scheduler puts a job back to wait."""
    back: ClassVar[Cause]
    """What an object shows that the scheduler put back to wait."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.items: list[Item] = []
        self.steps: list[Step] = []
        self.detection = timedelta(0)

    def story(self) -> Story:
        for runs in self.history:
            self.job(runs)
        self.steps.sort(key=lambda step: step.at)
        config = Config(
            shape=self.shape,
            min_job_age=timedelta(0),
            slurmd_timeout=self.detection,
            evidence_window=EVIDENCE_WINDOW,
            watch_buffer=2 * len(self.steps),
        )
        return Story(config, self.items, self.steps, [note.format(count) for count, note in self.notes() if count])

    @abstractmethod
    def job(self, runs: Sequence[Run]) -> None:
        """Tell one job."""

    @abstractmethod
    def notes(self) -> list[tuple[int, str]]:
        """What is told otherwise than recorded, and how often."""

    def step(self, at: datetime, item: Item, act: str, number: int = 0) -> None:
        self.steps.append(Step(at, item, act, number))

    def count(self, act: str) -> int:
        return sum(step.act == act for step in self.steps)

    def object(self, runs: Sequence[Run], submission: int = 1) -> Item:
        """Tell the runs of one object."""
        first = runs[0]
        nodes = max(first.nodes, 1)
        job = Job(
            id=ULID.from_int(first.job),
            command=(first.name,),
            resources=Resources(nodes=nodes, cpus_per_node=max(first.cpus // nodes, 1)),
            time_limit=first.limit,
            queue=first.partition,
        )
        bit = self.requeue_bit and any(run.cause in BY_THE_SCHEDULER for run in runs[:-1])
        item = Item(first.job, first.name, job, submission, bit)
        self.items.append(item)
        self.step(first.submit, item, "start")
        hold = self.wait(item, first, 1)
        self.run(item, first)
        for number, (before, run) in enumerate(pairwise(runs), 2):
            if before.cause not in (*BY_THE_SCHEDULER, Cause.REQUEUED):
                self.step(run.submit, item, "requeue")
            hold = self.wait(item, run, number, hold)
            if bit and run is runs[-1] and run.start and run.cause in BY_THE_SCHEDULER:
                self.step(run.start, item, "restore_requeue_bit")
            self.run(item, run)
        return item

    def wait(self, item: Item, run: Run, number: int, carried: int = 0) -> int:
        """From its submission until it may start.

        :param carried: the hold that it ended with before, and comes back with; 0 if none
        :return: the hold that is left in force
        """
        gated = number == 1 and self.gate
        held = not gated and run.eligible != run.submit
        item.state, item.cause = State.PENDING, self.back if number > 1 else None
        if held:
            self.step(run.submit, item, "hold", number)
        elif carried:
            self.step(run.submit, item, "release", carried)
        if run.eligible is None:
            item.cause = Cause.HELD if held else Cause.GATED
            return number if held else 0
        if held:
            self.step(run.eligible, item, "release", number)
        if number == 1:
            self.step(run.eligible, item, "open")
        return 0

    def run(self, item: Item, run: Run) -> None:
        """From its start to its end, as far as there was one."""
        if run.start:
            self.step(run.start, item, "run")
            item.state, item.cause = State.RUNNING, None
        if run.end:
            act, item.state, item.cause = self.ends[run.cause]
            self.step(run.end - (self.detection if act == "lose_node" else timedelta(0)), item, act, run.exit_code or 0)
            if act == "lose_node":
                self.step(run.end, item, "look")
        item.exit_code = run.exit_code
        if run.start:
            own = {State.RUNNING: None, State.CANCELLED: Cause.STOPPED}.get(item.state, run.cause)
            died = None if run.cause is Cause.NODE_LOST else run.end
            item.runs.append(Telling(run.start, run.end, died, own, run.exit_code))


class _Slurm(_Teller):
    """On a Slurm: one object a job."""

    shape = Shape.SLURM
    ends = SLURM_ENDS
    gate = requeue_bit = True
    back = Cause.REQUEUED

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # The record does not tell when a node was lost. Its own SlurmdTimeout was ten seconds; no run was shorter.
        lost = [run for runs in history for run in runs if run.cause is Cause.NODE_LOST]
        self.detection = min([timedelta(seconds=10), *(run.end - run.start for run in lost if run.end and run.start)])

    def job(self, runs: Sequence[Run]) -> None:
        self.object(runs).restarts = len(runs) - 1

    def notes(self) -> list[tuple[int, str]]:
        held, lost = self.count("hold"), self.count("lose_node")
        before = format_duration(self.detection)
        return [
            (held, "begin times after a requeue ({}): told as holds, released at that time"),
            (
                lost,
                f"lost nodes ({{}}): the moment of the loss is not in the record; told {before} before the run's end",
            ),
        ]


class _Kubeflow(_Teller):
    """On Kubeflow: one object a submission, and a new submission where Slurm puts back to wait what has ended."""

    shape = Shape.KUBEFLOW
    ends = KUBEFLOW_ENDS
    gate = requeue_bit = False
    back = Cause.PREEMPTED

    def job(self, runs: Sequence[Run]) -> None:
        parts = [[runs[0]]]
        for before, run in pairwise(runs):
            if before.cause is Cause.PREEMPTED:
                parts[-1].append(run)
            else:
                parts.append([run])
        for number, part in enumerate(parts, 1):
            if number > 1:
                self.give_up(self.items[-1], part[0].submit)
            self.object(part, number)
        for item in self.items[-len(parts) :]:
            item.deleted = item.state is State.CANCELLED

    def give_up(self, item: Item, at: datetime) -> None:
        """Before the next submission: what its lost node keeps from ending is stopped."""
        if item.cause is Cause.NODE_LOST:
            self.step(at, item, "stop")
            item.state, item.cause = State.CANCELLED, Cause.STOPPED
            item.runs[-1] = replace(item.runs[-1], cause=Cause.STOPPED)

    def notes(self) -> list[tuple[int, str]]:
        held, lost, stopped = map(self.count, ("hold", "lose_node", "stop"))
        again = len(self.items) - len(self.history)
        waiting = sum(runs[-1].cause is Cause.PREEMPTED for runs in self.history)
        restarts = self.count("preempt") - waiting
        return [
            (held, "gates and begin times ({}): no such notion here; told as holds, released when eligible"),
            (again, "requeues ({}): no such call here; the next run is told as a new submission"),
            (lost, "lost nodes ({}): no time-out ends an object here; told as Running, NodeLost from the run's end on"),
            (waiting, "ends by preemption ({}): it sends back to wait here; nobody runs them again"),
            (restarts, "restart counts ({}): coming back after a preemption is not counted here"),
            (stopped, "stopped runs ({}): the object is deleted here; only the truth and the watch can tell of it"),
        ]


_TELLERS: Mapping[Shape, type[_Teller]] = {Shape.SLURM: _Slurm, Shape.KUBEFLOW: _Kubeflow}
