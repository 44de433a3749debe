"""The Standard Workload Format, in which the Parallel Workloads Archive keeps its traces: read strictly, line by line.

Version 2.2: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from ...model import InvalidError
from ...model.texts import short
from .work import Outcome, Work

__all__ = ("SwfJob", "SwfReader", "Workload", "read_swf")

COMPLETED, CANCELLED, FAILED = 1, 5, 0
PARTS = (2, 3, 4)
"""Of a job that was swapped out: a line for each part, beside the line for the whole job."""

LONGEST = 10**9
"""Seconds: some thirty years. What is longer is a mistake, and no length of time can be made of much longer ones."""

_NUMBER = re.compile(r"-1|[0-9]{1,18}(\.[0-9]{1,9})?|-1\.0+")
_INTEGER = re.compile(r"-1|[0-9]{1,18}")
_LABEL = re.compile(r";\s*(MaxNodes|MaxProcs)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfJob:
    """One line. What the trace does not know (-1) is ``None``. Times are in seconds, memory is in kilobytes.

    :ivar line: where it stands in the file
    :ivar number: the job's number
    :ivar submit: when it was submitted, after the beginning of the trace
    :ivar wait: how long it waited
    :ivar runtime: how long it ran
    :ivar processors: how many it was given
    :ivar cpu_time: how long they worked, on average
    :ivar memory: how much it used on each, on average
    :ivar requested_processors: how many it asked for
    :ivar requested_time: how long it asked to run
    :ivar requested_memory: how much it asked for on each
    :ivar status: 1 completed, 0 failed, 5 cancelled; 2, 3 and 4 are parts of a job that was swapped out
    :ivar user: whose it is
    :ivar group: of which group
    :ivar executable: which program
    :ivar queue: in which queue
    :ivar partition: in which partition
    :ivar preceding: the job that it waited for
    :ivar think_time: how long after the end of that it was submitted
    """

    line: int
    number: int
    submit: float
    wait: float | None
    runtime: float | None
    processors: int | None
    cpu_time: float | None
    memory: float | None
    requested_processors: int | None
    requested_time: float | None
    requested_memory: float | None
    status: int | None
    user: int | None
    group: int | None
    executable: int | None
    queue: int | None
    partition: int | None
    preceding: int | None
    think_time: float | None


FIELDS = tuple(name for name in SwfJob.__slots__ if name != "line")
SECONDS = ("submit", "wait", "runtime", "cpu_time", "requested_time", "think_time")
NUMBERS = (*SECONDS, "memory", "requested_memory")
"""The fields that may hold a fraction: times by the format's word, memory as it is an average."""


class SwfReader:
    """Reads a trace as it is iterated, once.

    :param lines: the lines, such as an open file's
    :ivar max_nodes: how many nodes there were, by the header, once that was read
    :ivar max_processors: how many processors, likewise
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.max_nodes: int | None = None
        self.max_processors: int | None = None

    def __iter__(self) -> Iterator[SwfJob]:
        """The jobs, in the order of the lines.

        :raises InvalidError: if a line is malformed; the message names line and field
        """
        for number, line in enumerate(self._lines, 1):
            text = line.strip()
            if text.startswith(";"):
                self._header(number, text)
            elif text:
                yield _job(number, text.split())

    def _header(self, line: int, text: str) -> None:
        label = _LABEL.fullmatch(text)
        if not label:
            return
        count = re.match(r"-1\b|[0-9]{1,9}\b", label[2])
        if not count:
            raise _refused(line, label[1], short(label[2]), "a number, or -1")
        known = None if count[0] == "-1" else int(count[0])
        if label[1] == "MaxNodes":
            self.max_nodes = known
        else:
            self.max_processors = known


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace, ready to be run.

    :ivar jobs: its jobs
    :ivar left_out: how many lines told of a job that never ran, or whose size is unknown
    :ivar nodes: how many nodes the cluster had, if the header says so
    """

    jobs: tuple[Work, ...]
    left_out: int
    nodes: int | None


def read_swf(lines: Iterable[str], *, processors_per_node: int = 1) -> Workload:
    """Read a trace as a workload.

    A job has the processors that it asked for, or, where that is unknown, those it was given, on whole nodes. Where the
    time it asked for is unknown it is taken to have asked for the time it ran, as is one that ran longer and completed
    all the same. Lines for parts of a job are passed over.

    :param lines: the lines, such as an open file's
    :param processors_per_node: how many processors a node has
    :raises InvalidError: if a line is malformed; the message names line and field
    """
    if type(processors_per_node) is not int or processors_per_node < 1:
        raise InvalidError(f"processors_per_node: found {short(processors_per_node)}, expected a number from 1 on")
    reader = SwfReader(lines)
    jobs: list[Work] = []
    left_out = 0
    seen: dict[int, int] = {}
    for job in reader:
        if job.status in PARTS:
            continue
        before = seen.setdefault(job.number, job.line)
        if before != job.line:
            raise _refused(job.line, "1 (number)", str(job.number), f"another one, as line {before} has that")
        processors = job.requested_processors or job.processors
        if job.runtime is None or not processors or (job.status == CANCELLED and not job.runtime):
            left_out += 1
            continue
        jobs.append(_work(job, job.runtime, -(-processors // processors_per_node)))
    nodes = reader.max_nodes
    if nodes is None and reader.max_processors:
        nodes = -(-reader.max_processors // processors_per_node)
    return Workload(tuple(jobs), left_out, nodes)


def _work(job: SwfJob, runtime: float, nodes: int) -> Work:
    requested = runtime if job.requested_time is None else job.requested_time
    failed = job.status == FAILED
    return Work(
        number=job.number,
        submit=timedelta(seconds=job.submit),
        nodes=nodes,
        runtime=timedelta(seconds=runtime),
        requested=timedelta(seconds=requested if failed else max(requested, runtime)),
        outcome=Outcome.FAILS if failed else Outcome.STOPPED if job.status == CANCELLED else Outcome.SUCCEEDS,
    )


def _job(line: int, texts: list[str]) -> SwfJob:
    if len(texts) < len(FIELDS):
        raise _refused(line, _place(len(texts)), "nothing", f"{len(FIELDS)} fields")
    if len(texts) > len(FIELDS):
        raise _refused(line, str(len(FIELDS) + 1), short(texts[len(FIELDS)]), f"no more than {len(FIELDS)} fields")
    values = {name: _value(line, place, texts[place]) for place, name in enumerate(FIELDS)}
    for place, name in enumerate(FIELDS[:2]):
        if values[name] is None:
            raise _refused(line, _place(place), texts[place], "one that is known")
    if values["status"] not in (None, *range(6)):
        raise _refused(line, _place(FIELDS.index("status")), texts[FIELDS.index("status")], "-1, or 0 to 5")
    return SwfJob(line=line, **values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def _value(line: int, place: int, text: str) -> float | None:
    """One field; ``None`` for what is unknown."""
    name = FIELDS[place]
    fractional = name in NUMBERS
    if not (_NUMBER if fractional else _INTEGER).fullmatch(text):
        raise _refused(line, _place(place), short(text), "a number, or -1" if fractional else "an integer, or -1")
    value = float(text) if "." in text else int(text)
    if name in SECONDS and value > LONGEST:
        raise _refused(line, _place(place), short(text), f"no more than {LONGEST} seconds")
    if name == "number" and value == 0:
        raise _refused(line, _place(place), short(text), "a number from 1 on")
    return None if value == -1 else value


def _place(place: int) -> str:
    """A field's name in a message."""
    return f"{place + 1} ({FIELDS[place]})"


def _refused(line: int, field: str, found: str, expected: str) -> InvalidError:
    return InvalidError(f"line {line}, field {field}: found {found}, expected {expected}")
