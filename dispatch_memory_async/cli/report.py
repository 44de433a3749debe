"""What the demo says: each change or the live table, what was shown at the end, and the same for machines."""

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from ..memory import Execution
from ..model import Cause, Observation, format_duration
from .replay import Replay, Verdict, View
from .stories import Item, Story
from .wording import change, label, moment

__all__ = ("Lines", "best_view", "document", "lines")

WIDTH = 80


class Lines(View):
    """Every change is a line."""

    def change(self, item: Item, seen: Observation) -> None:
        print(f"{moment(seen.observed_at)} {change(item, seen)}")  # noqa: T201


def best_view(story: Story) -> View:
    """A live table where there is a terminal and rich to draw it, else lines."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich"):
        from .live import Live  # noqa: PLC0415  # rich is optional

        return Live(story)
    return Lines()


def lines(replay: Replay, verdicts: Sequence[Verdict] | None, record: str) -> Iterator[str]:
    """What was shown, what does not agree, and how much does.

    :param replay: the telling
    :param verdicts: what became of each object; ``None`` if the telling was interrupted
    :param record: the name of the record
    """
    story = replay.story
    begin, end = story.steps[0].at, replay.now
    yield ""
    yield _paragraph(
        f"{record}, told in the shape of {story.config.shape}: {replay.done} of {len(story.steps)} steps,"
        f" {format_duration(end - begin)} of virtual time, from {moment(begin)} to {moment(end)} UTC."
    )
    if verdicts is None:
        yield f"Interrupted. Until then: {_counted(str(seen[-1].state) for seen in replay.watched.values() if seen)}."
        return
    runs = [run for verdict in verdicts if verdict.truth for run in verdict.truth.executions]
    causes = Counter(seen.cause for watched in replay.watched.values() for seen in watched)
    yield _paragraph(
        f"{len(verdicts)} objects, {len(runs)} runs: {_counted(map(_outcome, runs))};"
        f" {causes[Cause.GATED]} gated, {causes[Cause.HELD]} held;"
        f" {sum(run.alive for run in runs)} runs still alive in the ground truth."
    )
    if story.notes:
        yield "Left out, or told otherwise than it was recorded:"
        yield from (_paragraph(note, "  * ") for note in story.notes)
    for verdict in verdicts:
        yield from (f"{label(verdict.item)} {verdict.item.name}: {difference}" for difference in verdict.differences)
    yield f"{_agree(verdicts)} of {len(verdicts)} agree: record, ground truth, observation and watch"


def document(replay: Replay, verdicts: Sequence[Verdict] | None, record: str) -> dict[str, object]:
    """The same as one value for JSON, with every object in it."""
    story = replay.story
    judged = {verdict.item: verdict for verdict in verdicts or ()}
    return {
        "record": record,
        "shape": story.config.shape,
        "interrupted": verdicts is None,
        "steps": replay.done,
        "of_steps": len(story.steps),
        "began_at": story.steps[0].at.isoformat(),
        "ended_at": replay.now.isoformat(),
        "notes": story.notes,
        "objects": [_object(item, replay.watched[item], judged.get(item)) for item in story.items],
        "agree": None if verdicts is None else _agree(verdicts),
        "of": len(story.items),
    }


def _object(item: Item, watched: Sequence[Observation], verdict: Verdict | None) -> dict[str, object]:
    last = watched[-1] if watched else None
    return {
        "job": item.record,
        "name": item.name,
        "submission": item.submission,
        "ref": last and str(last.ref),
        "state": last and last.state,
        "cause": last and last.cause,
        "exit_code": last and last.exit_code,
        "restarts": last and last.restarts,
        "runs": None if not verdict or not verdict.truth else [_run(run) for run in verdict.truth.executions],
        "differences": verdict and verdict.differences,
    }


def _run(run: Execution) -> dict[str, object]:
    return {
        "epoch": run.epoch,
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at and run.ended_at.isoformat(),
        "cause": run.cause,
        "exit_code": run.exit_code,
        "alive": run.alive,
    }


def _agree(verdicts: Sequence[Verdict]) -> int:
    return sum(not verdict.differences for verdict in verdicts)


def _outcome(run: Execution) -> str:
    return run.cause or ("not ended" if run.alive else "succeeded")


def _counted(kinds: Iterable[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in Counter(kinds).most_common()) or "nothing"


def _paragraph(text: str, mark: str = "") -> str:
    return fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))
