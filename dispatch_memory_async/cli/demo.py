"""``dispatch-memory demo``: a history recorded on a real Slurm, replayed in virtual time and compared with itself."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import anyio

from ..memory import Shape
from ..model import InvalidError
from .record import COLUMNS, read
from .replay import Replay, Verdict, View
from .report import best_view, document, lines
from .stories import story

__all__ = ("add_to",)

PACKAGED = "sacct-22.05.8.psv"
SHOW = 4.0
"""How many seconds a person is given to watch, in all."""
LONGEST_PAUSE = 0.15

DESCRIPTION = """\
Replays a recorded history: every recorded job is started, opened, run and ended
through the SPI and the environment, in virtual time, at the recorded moments,
while a watcher follows. At the end every object's state, cause, exit code and
restart count is compared with the record, the ground truth and what was watched;
the last line says how many of how many agree."""

EPILOG = f"""\
FILE is what this prints (further columns, in any order, do no harm):
  TZ=UTC sacct --duplicates --allocations --allusers --parsable2 \\
    --format={",".join(COLUMNS)}

With rich installed (pip install "dispatch-memory-async[cli]") a table on the
terminal is live; without it, and into a pipe, every change is a line."""


def add_to(commands: Callable[..., argparse.ArgumentParser]) -> None:
    """Add this command.

    :param commands: makes the parser of a command, see ``add_parser``
    """
    parser = commands(
        "demo",
        help="replay a history recorded on a real Slurm, and compare",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="another record (without it: one of Slurm 22.05.8)")
    parser.add_argument(
        "--shape",
        choices=[str(shape) for shape in Shape],
        default=str(Shape.SLURM),
        help="the scheduler on which it is told (default: slurm)",
    )
    parser.add_argument("--json", action="store_true", help="print nothing but one JSON document, at the end")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Tell the story, and say what came of it."""
    name = arguments.file or PACKAGED
    try:
        record = Path(name) if arguments.file else files("dispatch_memory_async.cli") / PACKAGED
        told = story(read(record.read_bytes()), Shape(arguments.shape))
    except InvalidError as error:
        return _refuse(f"{name}, {error}")
    except (OSError, ValueError) as error:
        return _refuse(f"{name}: {error}")
    person = sys.stdout.isatty() and not arguments.json
    moments = len({step.at for step in told.steps})
    view = View() if arguments.json else best_view(told)
    replay = Replay(told, view, min(LONGEST_PAUSE, SHOW / moments) if person else 0)
    try:
        with view:
            verdicts = anyio.run(replay.tell)
    except KeyboardInterrupt:
        _say(replay, None, name, as_json=arguments.json)
        raise
    _say(replay, verdicts, name, as_json=arguments.json)
    return int(any(verdict.differences for verdict in verdicts))


def _say(replay: Replay, verdicts: Sequence[Verdict] | None, name: str, *, as_json: bool) -> None:
    text = (
        json.dumps(document(replay, verdicts, name), indent=2) if as_json else "\n".join(lines(replay, verdicts, name))
    )
    print(text)  # noqa: T201


def _refuse(message: str) -> int:
    print(f"dispatch-memory demo: error: {message}", file=sys.stderr)  # noqa: T201
    return 2
