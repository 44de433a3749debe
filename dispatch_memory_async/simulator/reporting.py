"""The report: a run as one HTML page that needs nothing else, with a timeline of every job and its story in words.

What a timeline needs is taken from the ground truth where it stands there. The trace says the rest: in which step, by
whose authority, which call, and since when a hold stands.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from html import escape
from importlib.resources import files
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import msgspec

from ..core import Record
from ..memory import Execution, Truth
from ..model import Cause, State
from ..model.base import altered
from .case import LIVE
from .explaining import command_of, headline, rule_of
from .invariants import INVARIANTS
from .run import Result
from .trace import BEGINNING, Entry, Kind

__all__ = ("report",)

# The words of the trace that say what stands nowhere else; a test counts what they find against the ground truth.
CALL = re.compile(r"(?P<call>\w+) (?P<how>starts|lands), for submission (?P<submission>\d+)(?P<refused>, refused)?")
NEVER = re.compile(r"(?P<call>\w+) never arrives")
BEGINS = re.compile(r"an execution of submission \d+ begins, epoch (?P<epoch>\d+), by the (?P<by>\w+)")
ABOUT = re.compile(r"(?P<act>[\w ]+?)(?: lands, for| of) submission (?P<submission>\d+)(?!.*refused)")
HOLD = re.compile(r"(?:^writes |, )hold (?P<how>none|(?:acknowledged )?withdrawn|acknowledged|instance)")
ENDS_NOTHING = (
    "run",
    "no capacity",
    "lose node",
    "return node",
    "admin hold",
    "admin release",
    "start",
    "open",
    "release",
)
MICROSECOND = timedelta(microseconds=1)


class Place(NamedTuple):
    """Where something stands on the two axes: in the order of what happened, and in virtual seconds."""

    x: float
    t: float


class Line(NamedTuple):
    """A line of a job's story, and what marks it in the timeline; nothing, if that is empty."""

    x: float
    t: float
    step: int
    who: str
    what: str
    mark: str


class Span(NamedTuple):
    """Something that lasts: a submission, an execution, a hold or a call.

    :ivar how: by whose authority an execution began; how a hold stands; what became of a call
    :ivar lane: tells those apart that overlap
    :ivar end: how it ended; empty while it lasts
    """

    kind: str
    how: str
    x0: float
    x1: float
    t0: float
    t1: float
    lane: int
    end: str
    says: str


class Axis:
    """The order of what happened: a moment is one time within one step, and as wide as what a job goes through in it.

    Jobs share the width of a moment, or the submission of 500 jobs would leave no room for what follows.
    """

    def __init__(self, trace: Sequence[Entry]) -> None:
        self.places: list[Place] = []
        self.steps: list[tuple[float, float, int]] = []
        self._moments: list[tuple[int, float]] = []
        width = 0.0
        for (step, at), group in groupby(trace, key=lambda entry: (entry.step, entry.at)):
            if not self.steps or self.steps[-1][2] != step:
                self.steps.append((width, at / 1e6, step))
            self._moments.append((at, width))
            seen = Counter[int]()
            for entry in group:
                self.places.append(Place(width + seen[entry.job] + 0.5, at / 1e6))
                seen[entry.job] += 1
            width += max(seen.values())
        self.end: Place = Place(width, self.places[-1].t if self.places else 0.0)

    def place(self, when: datetime) -> Place:
        """Where a time stands that no entry was found for."""
        at = _microseconds(when)
        moment = bisect_left(self._moments, (at, 0.0))
        x = self._moments[moment][1] if moment < len(self._moments) else self.end.x
        return Place(x, min(at / 1e6, self.end.t))


class Timeline:
    """What is drawn and told of one job.

    :param axis: the axis of the run
    :param entries: what is about the job, and what is about all, each with its place
    :param truths: its objects, in the order of start
    """

    def __init__(self, axis: Axis, entries: Sequence[tuple[Place, Entry]], truths: Sequence[Truth]) -> None:
        self.axis = axis
        self.entries = entries
        self.truths = truths
        self.story: list[Line] = [
            Line(*place, entry.step, entry.who, entry.what, _mark(entry)) for place, entry in entries
        ]
        self.spans: list[Span] = [*self._executions(), *self._submissions(), *self._holds(), *self._calls()]
        self.story.sort(key=lambda line: line.x)

    def _executions(self) -> Iterator[Span]:
        begun: defaultdict[int, deque[tuple[Place, str]]] = defaultdict(deque)
        for place, entry in self.entries:
            if found := BEGINS.fullmatch(entry.what):
                begun[int(found["epoch"])].append((place, found["by"]))
        lanes = _Lanes()
        for truth in self.truths:
            for execution in truth.executions:
                noted = begun[execution.epoch]
                start, by = noted.popleft() if noted else (self.axis.place(execution.started_at), "other")
                stop = self._end(truth, execution, start)
                how = _how_it_ended(execution)
                says = f"execution of submission {truth.submission}, epoch {execution.epoch}, by the {by}"
                yield Span("execution", by, start.x, stop.x, start.t, stop.t, lanes.take(start.x, stop.x), how, says)
                if how:
                    step = max((step for x, _, step in self.axis.steps if x <= stop.x), default=0)
                    what = f"the execution of submission {truth.submission}, epoch {execution.epoch}, ends: {how}"
                    self.story.append(Line(stop.x + 0.01, stop.t, step, "", what, "ended"))

    def _end(self, truth: Truth, execution: Execution, start: Place) -> Place:
        if execution.ended_at is None:
            return self.axis.end
        at = _microseconds(execution.ended_at)
        for place, entry in self.entries:
            found = ABOUT.match(entry.what) if entry.at == at and place.x > start.x else None
            if found and int(found["submission"]) == truth.submission and found["act"] not in ENDS_NOTHING:
                return place
        place = self.axis.place(execution.ended_at)
        return Place(max(place.x, start.x), place.t)

    def _submissions(self) -> Iterator[Span]:
        landed: defaultdict[int, deque[Place]] = defaultdict(deque)
        last: dict[int, Place] = {}
        for place, entry in self.entries:
            if found := ABOUT.match(entry.what):
                last[int(found["submission"])] = place
                if found["act"] == "start":
                    landed[int(found["submission"])].append(place)
        lanes = _Lanes()
        for truth in self.truths:
            starts = landed[truth.submission]
            start = starts.popleft() if starts else Place(0.0, 0.0)
            if truth.state in LIVE and truth.gone_at is None:
                stop, how = self.axis.end, ""
            else:
                stop, how = last.get(truth.submission, self.axis.end), _state(truth.state, truth.cause)
                if truth.executions:
                    stop = self._end(truth, truth.executions[-1], start)
            stop = max(start, stop)
            says = f"submission {truth.submission}"
            lane = lanes.take(start.x, stop.x)
            yield Span("submission", str(truth.submission), start.x, stop.x, start.t, stop.t, lane, how, says)

    def _holds(self) -> Iterator[Span]:
        written = [
            (place, found["how"]) for place, entry in self.entries if (found := HOLD.search(entry.what)) is not None
        ]
        for (start, how), (stop, then) in pairwise([*written, (self.axis.end, "")]):
            if how in {"instance", "acknowledged"}:
                stands, end = "asked" if how == "instance" else how, "lifted" if then == "none" else then
                yield Span("hold", stands, start.x, stop.x, start.t, stop.t, 0, end, f"hold, {stands}")

    def _calls(self) -> Iterator[Span]:
        under_way: defaultdict[str, deque[tuple[Place, str]]] = defaultdict(deque)
        for place, entry in self.entries:
            found = CALL.match(entry.what) or NEVER.match(entry.what)
            if not found:
                continue
            told = found.groupdict()
            if told.get("how") == "starts":
                under_way[found["call"]].append((place, told["submission"]))
            elif under_way[found["call"]]:
                start, submission = under_way[found["call"]].popleft()
                end = "never arrives" if "how" not in told else "refused" if told["refused"] else "lands"
                yield _call(found["call"], submission, start, place, end)
        for call, starts in under_way.items():
            for start, submission in starts:
                yield _call(call, submission, start, self.axis.end, "")


class _Lanes:
    """Gives each of what overlaps a lane of its own."""

    def __init__(self) -> None:
        self._free_from: list[float] = []

    def take(self, start: float, stop: float) -> int:
        """The first lane that is free from a start on; it is taken until the stop."""
        for lane, free in enumerate(self._free_from):
            if free <= start:
                self._free_from[lane] = stop
                return lane
        self._free_from.append(stop)
        return len(self._free_from) - 1


def report(result: Result) -> str:
    """A run as an HTML page: it needs no network and no other file, and is the same for the same run.

    :param result: the run
    """
    parts = {"title": escape(_title(result)), "verdict": _verdict(result), "facts": _facts(result)}
    # as a JSON text has "<" inside strings alone, no text can end the element that it stands in
    parts["data"] = msgspec.json.encode(_data(result)).decode().replace("<", "\\u003c")
    template = files("dispatch_memory_async.simulator").joinpath("report.html").read_text("utf-8")
    return re.sub(r"@@(\w+)@@", lambda found: parts[found[1]], template)


def _data(result: Result) -> dict[str, Any]:
    axis = Axis(result.trace)
    about: defaultdict[int, list[tuple[Place, Entry]]] = defaultdict(list)
    broken: tuple[float, float, int] | None = None
    quiet: float | None = None
    for place, entry in zip(axis.places, result.trace, strict=True):
        if entry.kind is Kind.CLOCK:
            continue  # the story shows how much time passed between its lines
        if entry.kind is Kind.VIOLATION:
            broken = broken or (place.x, place.t, entry.job)
        elif entry.kind is Kind.PHASE and not entry.job and quiet is None:
            quiet = place.x
        about[entry.job].append((place, entry))
    truths: defaultdict[int, list[Truth]] = defaultdict(list)
    for truth in result.truths:
        truths[int(truth.job.id)].append(truth)
    records = {int(record.job.id): record for record in result.records}
    numbers = range(1, result.config.jobs + 1)
    return {
        "end": axis.end,
        "steps": axis.steps,
        "quiet": quiet,
        "broken": broken,
        "jobs": [
            _job(number, records.get(number), Timeline(axis, sorted([*about[number], *about[0]]), truths[number]))
            for number in numbers
        ],
    }


def _job(number: int, record: Record | None, timeline: Timeline) -> dict[str, Any]:
    verdict = record.verdict if record else None
    executions = sum(len(truth.executions) for truth in timeline.truths)
    return {
        "number": number,
        "id": str(record.job.id) if record else "",
        "command": " ".join(record.job.command) if record else "",
        "verdict": verdict.state if verdict else "",
        "said": f"{_count(len(timeline.truths), 'submission')}, {_count(executions, 'execution')}, "
        + (f"verdict {_state(verdict.state, verdict.cause)}" if verdict else "no verdict"),
        "faults": sum(line.mark == "fault" for line in timeline.story),
        "spans": timeline.spans,
        "story": timeline.story,
    }


def _mark(entry: Entry) -> str:
    match entry.kind:
        case Kind.CALL:
            found = CALL.match(entry.what)
            return "" if not found else "refused" if found["refused"] else found["how"]
        case Kind.SCHEDULER:
            return "began" if BEGINS.match(entry.what) else "scheduler"
        case Kind.ACTOR:
            return "person" if entry.who.startswith("operator") and entry.what.startswith("begins") else ""
        case Kind.FAULT | Kind.RECORD | Kind.VIOLATION:
            return str(entry.kind)
        case _:
            return ""


def _call(call: str, submission: str, start: Place, stop: Place, end: str) -> Span:
    says = f"{call}, for submission {submission}"
    return Span("call", "lost" if end == "never arrives" else "", start.x, stop.x, start.t, stop.t, 0, end, says)


def _how_it_ended(execution: Execution) -> str:
    if execution.ended_at is None:
        return ""
    if execution.cause:
        return str(execution.cause)
    return f"exit {execution.exit_code}" if execution.exit_code is not None else "ended"


def _state(state: State, cause: Cause | None) -> str:
    return f"{state} ({cause})" if cause else str(state)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _microseconds(when: datetime) -> int:
    return (when - BEGINNING) // MICROSECOND


def _title(result: Result) -> str:
    found = f"{result.violations[0].invariant} broken" if result.violations else "nothing broken"
    return f"{result.config.shape}, seed {result.config.seed}: {found}"


def _verdict(result: Result) -> str:
    command = f"<p>To play it again: <code>{escape(command_of(altered(result.config, stop_at=None)))}</code></p>"
    if not result.violations:
        checked = f"All {len(INVARIANTS)} invariants held after every step"
        return f'<section class="well" id="verdict"><h2>✔ Nothing was broken</h2><p>{checked}.</p>{command}</section>'
    first = result.violations[0]
    at = next((entry.at for entry in result.trace if entry.kind is Kind.VIOLATION), 0)
    return (
        '<section class="broken" id="verdict">'
        f"<h2>✖ {headline(first, 'was')} by job {first.job}, in step {first.step}, at {at / 1e6:.1f} s</h2>"
        f"<p><b>The rule.</b> {escape(rule_of(first))}</p>"
        f"<p><b>What was seen.</b> {escape(first.what)}.</p>{command}</section>"
    )


def _facts(result: Result) -> str:
    config, trace = result.config, result.trace
    facts = {
        "shape": config.shape,
        "seed": config.seed,
        "jobs": config.jobs,
        "last step": trace[-1].step if trace else 0,
        "virtual time": f"{trace[-1].at / 1e6 if trace else 0:.1f} s",
        "faults": sum(entry.kind is Kind.FAULT for entry in trace),
        "executions": sum(len(truth.executions) for truth in result.truths),
    }
    if config.mutant is not None:
        facts["protection taken back"] = config.mutant
    facts["digest"] = result.digest[:12]
    return "".join(f"<div><dt>{name}</dt><dd>{escape(str(found))}</dd></div>" for name, found in facts.items())
