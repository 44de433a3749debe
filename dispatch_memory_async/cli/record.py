"""The record: what ``sacct`` printed of a Slurm's history, read strictly, a run a line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ..model import Cause, InvalidError
from ..model.texts import short

__all__ = ("COLUMNS", "History", "Run", "read")

COLUMNS = (
    "JobIDRaw",
    "JobName",
    "Partition",
    "State",
    "ExitCode",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "NNodes",
    "AllocCPUS",
    "Timelimit",
)
"""The columns that are read. They may stand in any order, among others."""

CAUSES: dict[str, Cause | None] = {
    "PENDING": None,
    "RUNNING": None,
    "COMPLETED": None,
    "FAILED": Cause.NON_ZERO_EXIT,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "TIMEOUT": Cause.TIMEOUT,
    "DEADLINE": Cause.TIMEOUT,
    "BOOT_FAIL": Cause.LAUNCH_FAILED,
    "CANCELLED": Cause.STOPPED,
    "PREEMPTED": Cause.PREEMPTED,
    "NODE_FAIL": Cause.NODE_LOST,
    "REQUEUED": Cause.REQUEUED,
}
"""What each state of the record says about the end of a run."""

LIVE = ("PENDING", "RUNNING")
NO_TIME = ("Unknown", "None")
NO_LIMIT = ("UNLIMITED", "Partition_Limit", *NO_TIME)
LARGEST_EXIT_CODE = 255

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_COUNT = re.compile(r"[0-9]{1,9}")
_EXIT_CODE = re.compile(r"([0-9]{1,3}):[0-9]{1,3}")
_LIMIT = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{2}):([0-5][0-9]):([0-5][0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One line: one run of a job, or its wait for one.

    :ivar line: where it stands in the file
    :ivar job: the job's id, the same for all its runs
    :ivar name: what the job is called
    :ivar partition: where it is queued
    :ivar state: what the record calls its state
    :ivar cause: why it ended; ``None`` for a success and while it has not ended
    :ivar exit_code: what it exited with, if it exited by itself
    :ivar submit: when it was submitted, or put back to wait
    :ivar eligible: from when on it could start; ``None`` if that moment never came
    :ivar start: when it began; ``None`` if it never did
    :ivar end: when it ended; ``None`` if it had not when the record was made
    :ivar nodes: how many nodes
    :ivar cpus: how many processors, on all of them
    :ivar limit: how long it may run; ``None`` is without limit
    """

    line: int
    job: int
    name: str
    partition: str
    state: str
    cause: Cause | None
    exit_code: int | None
    submit: datetime
    eligible: datetime | None
    start: datetime | None
    end: datetime | None
    nodes: int
    cpus: int
    limit: timedelta | None


History = Sequence[Sequence[Run]]
"""The runs of each job, in the order of time."""


def read(data: bytes) -> History:
    """Read a record.

    :param data: the lines of ``sacct --duplicates --allocations --parsable2``, the first of which names the columns
    :raises InvalidError: if it is not one; the message names line and column
    """
    lines = [
        (number, line.rstrip(b"\r").split(b"|")) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()
    ]
    if not lines:
        raise _refused(1, COLUMNS[0], "nothing", "a line that names the columns")
    (top, header), *rows = lines
    names = [name.decode(errors="replace") for name in header]
    for column in COLUMNS:
        if names.count(column) != 1:
            found = "no column of that name" if column not in names else "several columns of that name"
            raise _refused(top, column, found, "one")
    if not rows:
        raise _refused(top + 1, COLUMNS[0], "nothing", "a run")
    jobs: dict[int, list[Run]] = {}
    for number, fields in rows:
        run = _Line(number, names, fields).run()
        jobs.setdefault(run.job, []).append(run)
    for runs in jobs.values():
        runs.sort(key=lambda run: run.submit)
        _check_runs(runs)
    return tuple(map(tuple, jobs.values()))


def _check_runs(runs: list[Run]) -> None:
    """Refuse runs of one job that cannot have followed each other."""
    for run, after in pairwise(runs):
        if run.end is None:
            raise _refused(
                run.line, "State", run.state, f"an end, as line {after.line} is a later run of job {run.job}"
            )
        if after.submit < run.end:
            raise _refused(
                after.line, "Submit", _plain(after.submit), f"{_plain(run.end)}, the end in line {run.line}, or later"
            )
        if after.name != run.name:
            raise _refused(
                after.line, "JobName", short(after.name), f"{short(run.name)} as in line {run.line}, the same job"
            )
    if runs[-1].state == "REQUEUED":
        raise _refused(runs[-1].line, "State", "REQUEUED", f"a later run of job {runs[-1].job} in another line")


class _Line:
    """The fields of one line, each read as what its column holds."""

    def __init__(self, number: int, names: list[str], fields: list[bytes]) -> None:
        self.number = number
        if len(fields) < len(names):
            raise self.refused(names[len(fields)], "nothing", f"{len(names)} columns")
        if len(fields) > len(names):
            raise self.refused(str(len(names) + 1), short(fields[len(names)]), f"no more than {len(names)} columns")
        self.fields = dict(zip(names, fields, strict=True))

    def refused(self, column: str, found: str, expected: str) -> InvalidError:
        return _refused(self.number, column, found, expected)

    def run(self) -> Run:
        """The whole line."""
        state, cause, exit_code = self.state()
        submit, eligible, start, end = map(self.time, ("Submit", "Eligible", "Start", "End"))
        if submit is None:
            raise self.refused("Submit", self.text("Submit"), "a time")
        if (start is None) is not (state == "PENDING") and state != "CANCELLED":
            raise self.refused("Start", self.text("Start"), f"{'no' if start else 'a'} time, as it is {state}")
        if (end is None) is not (state in LIVE):
            raise self.refused("End", self.text("End"), f"{'no' if end else 'a'} time, as it is {state}")
        if start and eligible is None:
            raise self.refused("Eligible", self.text("Eligible"), "a time, as it has started")
        self.check_order("Eligible", eligible, "Submit", submit)
        self.check_order("Start", start, "Eligible", eligible)
        self.check_order("End", end, *(("Start", start) if start else ("Submit", submit)))
        if end and eligible and end < eligible:
            eligible = None
        return Run(
            line=self.number,
            job=self.count("JobIDRaw", 1, "a job's id (and no step's, as with sacct --allocations)"),
            name=self.text("JobName"),
            partition=self.text("Partition"),
            state=state,
            cause=cause,
            exit_code=exit_code,
            submit=submit,
            eligible=eligible,
            start=start,
            end=end,
            nodes=self.count("NNodes"),
            cpus=self.count("AllocCPUS"),
            limit=self.limit(),
        )

    def text(self, column: str) -> str:
        try:
            text = self.fields[column].decode()
        except UnicodeDecodeError:
            raise self.refused(column, short(self.fields[column]), "UTF-8") from None
        if not text.isprintable():
            raise self.refused(column, short(text), "text that can be printed")
        return text

    def state(self) -> tuple[str, Cause | None, int | None]:
        """The state, why the run ended, and what it exited with if it exited by itself."""
        state = re.sub(r"(?<=^CANCELLED) by \w+$", "", self.text("State"))
        if state not in CAUSES:
            raise self.refused("State", short(state), f"one of {', '.join(CAUSES)}")
        code = _EXIT_CODE.fullmatch(self.text("ExitCode"))
        if not code or int(code[1]) > LARGEST_EXIT_CODE:
            raise self.refused("ExitCode", short(self.text("ExitCode")), "an exit code and a signal, such as 1:0")
        exited = int(code[1])
        match state:
            case "COMPLETED" if exited:
                raise self.refused("ExitCode", code[0], "0:0, as it is COMPLETED")
            case "COMPLETED":
                return state, None, 0
            case "FAILED" if not exited:  # the shell was killed, or there was none: Slurm's JobLaunchFailure
                return state, Cause.LAUNCH_FAILED, None
            case "FAILED" | "REQUEUED" if exited:  # what exited by itself had ended before somebody requeued it
                return state, Cause.NON_ZERO_EXIT, exited
            case _:
                return state, CAUSES[state], None

    def time(self, column: str) -> datetime | None:
        text = self.text(column)
        if text in NO_TIME:
            return None
        try:
            if _TIME.fullmatch(text):
                return datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            pass
        raise self.refused(column, short(text), "a time such as 2026-11-29T15:30:44, or Unknown")

    def check_order(self, column: str, at: datetime | None, earlier: str, before: datetime | None) -> None:
        if at and before and at < before:
            raise self.refused(column, _plain(at), f"{_plain(before)}, its {earlier}, or later")

    def count(self, column: str, least: int = 0, expected: str = "a number") -> int:
        text = self.text(column)
        if not _COUNT.fullmatch(text) or int(text) < least:
            raise self.refused(column, short(text), expected)
        return int(text)

    def limit(self) -> timedelta | None:
        text = self.text("Timelimit")
        if text in NO_LIMIT:
            return None
        parts = _LIMIT.fullmatch(text)
        if not parts:
            raise self.refused("Timelimit", short(text), "a length of time such as 1-12:00:00, or UNLIMITED")
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _plain(moment: datetime) -> str:
    """A time as the record writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _refused(line: int, column: str, found: str, expected: str) -> InvalidError:
    return InvalidError(f"line {line}, column {column}: found {found}, expected {expected}")
