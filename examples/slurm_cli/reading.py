"""Reading what ``squeue`` and ``sacct`` print, strictly: what is not understood is an error, never a guess."""

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import msgspec
from ulid import ULID

from dispatch_memory_async import EPOCH_BOUND, HOLD_BASE, Cause, Observation, Ref, State, UnavailableError

__all__ = ("HISTORY", "NAME", "QUEUE", "changed", "read_history", "read_queue")

NAME = "dj-"
WIDTHS = {
    "JobID": 20,
    "State": 20,
    "PriorityLong": 20,
    "RestartCnt": 10,
    "Requeue": 5,
    "exit_code": 12,
    "SubmitTime": 20,
    "EligibleTime": 20,
    "StartTime": 20,
    "EndTime": 20,
    "BatchHost": 70,
    "Reason": 120,
    "Name": 40,
    "Comment": 80,
}
QUEUE = ",".join(f"{field}:{width}|" for field, width in WIDTHS.items())
"""What ``squeue -O`` is asked for: columns wide enough (20 characters are the default, and what is longer is cut), each
with a bar behind it. What can hold anything, the names and comments of other jobs, stands at the end."""
HISTORY = "JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,JobName,Comment"
"""What ``sacct -P -o`` is asked for."""

_JOB = rf"{NAME}(?P<job>[0-7][0-9A-HJKMNP-TV-Z]{{25}})"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|N/A|NONE|None|Unknown"
_QUEUE = re.compile(
    r"(?P<id>\d+) *\|(?P<state>[A-Z_]+) *\|(?P<priority>\d+) *\|(?P<restarts>\d+) *\|(?P<requeue>[01]) *"
    rf"\|(?P<status>\d+) *\|(?P<submit>{_TIME}) *\|(?P<eligible>{_TIME}) *\|(?P<start>{_TIME}) *\|(?P<end>{_TIME}) *"
    rf"\|(?P<node>\S+) *\|(?P<reason>[^|]*?) *\|{_JOB} *\|(?P<scope>[\w.-]+)/(?P<submission>\d+) *\|"
)
_HISTORY = re.compile(
    rf"(?P<id>\d+)\|(?P<state>[A-Z_]+)[^|]*\|(?P<code>\d+):(?P<signal>\d+)\|(?P<submit>{_TIME})\|(?P<start>{_TIME})"
    rf"\|(?P<end>{_TIME})\|(?P<node>[^|]*)\|{_JOB}\|(?P<scope>[\w.-]+)/(?P<submission>\d+)"
)

WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
RUNNING = {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "COMPLETING"}
"""While a job is ``COMPLETING`` its processes may live: it has not ended."""
ENDED: dict[str, tuple[State, Cause | None]] = {
    "COMPLETED": (State.SUCCEEDED, None),
    "CANCELLED": (State.CANCELLED, Cause.STOPPED),
    "REVOKED": (State.CANCELLED, Cause.STOPPED),
    "TIMEOUT": (State.FAILED, Cause.TIMEOUT),
    "DEADLINE": (State.FAILED, Cause.TIMEOUT),
    "PREEMPTED": (State.FAILED, Cause.PREEMPTED),
    "NODE_FAIL": (State.FAILED, Cause.NODE_LOST),
    "BOOT_FAIL": (State.FAILED, Cause.LAUNCH_FAILED),
    "OUT_OF_MEMORY": (State.FAILED, Cause.OUT_OF_MEMORY),
}
"""All but ``FAILED``, of which the exit status tells more."""
NO_ROOM = re.compile(r"Resources|Priority|Licenses|Nodes[ _]required|ReqNodeNotAvail|(QOS|Assoc)\w*(Limit|Max)")
A_PROCESS, SIGNALS = 255, 31
"""A process that a signal has killed has no higher status, and those of real time kill none."""


def read_queue(text: str, scope: str, at: datetime) -> list[Observation]:
    """The jobs of a scope, out of what ``squeue`` prints; in the order of their ids."""
    return sorted((_waits_or_runs(found, at) for found in _ours(text, scope, _QUEUE)), key=_number)


def read_history(text: str, scope: str, at: datetime) -> list[Observation]:
    """The jobs of a scope that have ended, out of what ``sacct -D`` prints; in the order of their ids.

    Each requeue begins a new record: the last is the job as it is, and the others are its restarts.
    """
    jobs: dict[tuple[str, ...], list[re.Match[str]]] = {}
    for found in _ours(text, scope, _HISTORY):
        jobs.setdefault((found["id"], found["job"], found["submission"]), []).append(found)
    newest = [sorted(records, key=lambda found: found["submit"]) for records in jobs.values()]
    return sorted(
        (_ended(records[-1], len(records) - 1, at) for records in newest if _is_over(records[-1]["state"])), key=_number
    )


def _number(seen: Observation) -> int:
    return int(seen.ref.id)


def _is_over(state: str) -> bool:
    return state not in WAITING and state not in RUNNING


def _ours(text: str, scope: str, line: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The lines that are of jobs of this scope.

    :raises UnavailableError: if one of them cannot be read
    """
    mark = re.compile(rf"\|{_JOB} *\|{re.escape(scope)}/")
    for printed in text.splitlines():
        found = line.fullmatch(printed.rstrip())
        if found is None:
            if mark.search(printed):
                raise UnavailableError(f"cannot read {printed!r}")
        elif found["scope"] == scope:
            yield found


def _made(found: re.Match[str], at: datetime, build: Callable[..., Observation], **fields: object) -> Observation:
    submitted = _time(found["submit"])
    submission = int(found["submission"])
    if submitted is None or not 1 <= submission < EPOCH_BOUND:
        _unreadable(found)
    job = ULID.from_str(found["job"])
    ref = Ref(name=f"{NAME}{found['job']}", id=found["id"], submitted_at=submitted)
    return build(ref=ref, job_id=job, submission=submission, observed_at=at, **fields)


def _waits_or_runs(found: re.Match[str], at: datetime) -> Observation:
    """A job as ``squeue`` shows it."""
    state, restarts, end = found["state"], int(found["restarts"]), _time(found["end"])
    fields: dict[str, object] = {"requeue_bit": found["requeue"] == "1", "hold": _hold(found)}
    began = _time(found["start"]) if found["node"] != "n/a" else None  # one that never ran shows when it was cancelled
    if state in WAITING:
        fields |= {"state": State.PENDING, **_waiting(found, restarts, fields["hold"])}
    elif state == "COMPLETING" and (end is None or end > at):
        # on its way back to wait: its end is yet to come (none, or by its time limit), and the count is raised already
        restarts -= 1
        fields |= {"state": State.RUNNING, "cause": Cause.REQUEUED}
    elif state in RUNNING:
        fields |= {"state": State.RUNNING, "started_at": began}
    else:
        fields |= {"started_at": began, "ended_at": end, **_end(found, int(found["status"]))}
    return _made(found, at, Observation, restarts=restarts, **fields)


def _waiting(found: re.Match[str], restarts: int, hold: object) -> dict[str, object]:
    """Why a job waits."""
    reason, stopped = found["reason"], found["priority"] == "0"
    if stopped and reason == "JobHeldAdmin":
        return {"cause": Cause.ADMIN_HELD}
    if stopped:
        return {"cause": Cause.GATED, "gated": True}
    if hold is not None:
        return {"cause": Cause.HELD}
    if NO_ROOM.match(reason):
        return {"cause": Cause.NO_CAPACITY, "detail": reason}
    return {"cause": Cause.REQUEUED if restarts else None}


def _hold(found: re.Match[str]) -> int | None:
    """The instance of a hold: how far the start time lies beyond ``HOLD_BASE`` after the submit time.

    A requeue by somebody else moves the submit time and not the start time, so that the instance comes out too low. It
    is a hold all the same.
    """
    submitted, eligible = _time(found["submit"]), _time(found["eligible"])
    if submitted is None or eligible is None or eligible - submitted < HOLD_BASE / 2:
        return None
    return min(max(1, (eligible - submitted - HOLD_BASE) // timedelta(seconds=1)), EPOCH_BOUND - 1)


def _ended(found: re.Match[str], restarts: int, at: datetime) -> Observation:
    """A job as ``sacct`` shows it: neither hold nor requeue bit are kept there."""
    code, signal = int(found["code"]), int(found["signal"])
    ran = found["node"] not in {"", "None assigned"}
    return _made(
        found,
        at,
        Observation,
        restarts=restarts,
        started_at=_time(found["start"]) if ran else None,
        ended_at=_time(found["end"]),
        from_history=True,
        **_end(found, code << 8 | signal),
    )


def _end(found: re.Match[str], status: int) -> dict[str, object]:
    """How a job has ended, by its state and its exit status.

    Slurm says ``JobLaunchFailure`` of every script that a signal has killed, too. A launch that failed has no exit
    status but one of Slurm's own error numbers, such as 4021, of which ``sacct`` shows the lowest bits as signal 53.
    """
    if found["state"] == "FAILED":
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
            return {"state": State.FAILED, "cause": Cause.NON_ZERO_EXIT if code else Cause.UNKNOWN, "exit_code": code}
        if status <= A_PROCESS and os.WTERMSIG(status) <= SIGNALS:
            what = f"killed by signal {os.WTERMSIG(status)}"
            return {"state": State.FAILED, "cause": Cause.NON_ZERO_EXIT, "detail": what}
        return {"state": State.FAILED, "cause": Cause.LAUNCH_FAILED}
    if found["state"] not in ENDED:
        _unreadable(found)
    state, cause = ENDED[found["state"]]
    return {"state": state, "cause": cause, "exit_code": 0 if state is State.SUCCEEDED else None}


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text[0].isdigit() else None


def _unreadable(found: re.Match[str]) -> NoReturn:
    raise UnavailableError(f"cannot read {found[0]!r}")


def changed(before: Observation, now: Observation) -> bool:
    """Whether two looks at a job differ in more than their moment."""
    return msgspec.structs.replace(before, observed_at=now.observed_at) != now
