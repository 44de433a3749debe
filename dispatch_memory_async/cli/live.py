"""The live table, for a terminal and with rich: where every object stands, and what happened last."""

import time
from collections import Counter, deque
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..model import Observation, State
from .replay import View
from .stories import Item, Story
from .wording import change, label, moment

__all__ = ("Live",)

COLOURS = {
    State.PENDING: "yellow",
    State.RUNNING: "cyan",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.CANCELLED: "magenta",
    State.GONE: "bright_black",
}
FRAME = 0.1
"""Seconds between two pictures, at least."""
LATEST = 3
"""How many changes stand below the table."""
OTHER_LINES = 5
"""The head, the counts, and three that are empty; the last keeps what is typed (^C) off the picture."""


class Live(View):
    """A table that fits the terminal: of many objects, those that changed last.

    :param story: what will be told
    :param console: where to draw
    """

    def __init__(self, story: Story, console: Console | None = None) -> None:
        self.story = story
        self.console: Console = console or Console()
        self.objects: dict[Item, Observation] = {}
        self.latest: deque[Text] = deque(maxlen=LATEST)
        self.at: datetime = story.steps[0].at
        self.done: int = 0
        self.drawn: float = 0.0
        self.screen: Screen = Screen(get_renderable=self.picture, console=self.console, auto_refresh=False)

    def __enter__(self) -> Self:
        self.screen.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.screen.refresh()
        self.screen.stop()

    def change(self, item: Item, seen: Observation) -> None:
        self.objects.pop(item, None)  # the latest stand last
        self.objects[item] = seen
        line = f"{seen.observed_at:%H:%M:%S} {change(item, seen)}"
        self.latest.append(Text(line, COLOURS[seen.state], no_wrap=True, overflow="crop"))

    def moment(self, at: datetime, done: int) -> None:
        self.at, self.done = at, done
        if time.monotonic() - self.drawn >= FRAME:
            self.screen.refresh()
            self.drawn = time.monotonic()

    def picture(self) -> Group:
        """What is to be seen now."""
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(no_wrap=True)
        head.add_column(ratio=1)
        head.add_column(no_wrap=True)
        head.add_row(
            f"dispatch-memory demo ({self.story.config.shape})",
            ProgressBar(total=len(self.story.steps), completed=self.done),
            f"{moment(self.at)} UTC",
        )
        states = Counter(seen.state for seen in self.objects.values())
        counts = Text("  ").join(
            Text(f"{states[state]} {state}", colour)
            for state, colour in COLOURS.items()
            if state is not State.GONE or states[state]
        )
        return Group(head, counts, "", self.table(), "", *self.latest, "")

    def table(self) -> Table:
        """The objects, in two columns."""
        table = Table.grid(expand=True, padding=(0, 1))
        for _ in range(2):
            table.add_column(no_wrap=True, justify="right")
            table.add_column(no_wrap=True, overflow="crop", ratio=1)
            table.add_column(no_wrap=True)
        rows = max(self.console.height - LATEST - OTHER_LINES, 1)
        shown = sorted(list(self.objects)[-2 * rows :], key=lambda item: (item.record, item.submission))
        rows = -(-len(shown) // 2)
        for left, right in zip(shown[:rows], [*shown[rows:], None], strict=False):
            table.add_row(*self.cells(left), *(self.cells(right) if right else ()))
        return table

    def cells(self, item: Item) -> tuple[Text, Text, Text]:
        """One object: its id, its name, and its state with why."""
        seen = self.objects[item]
        return (
            Text(label(item)),
            Text(item.name),
            Text(f"{seen.state[0]} {seen.cause or seen.state}", COLOURS[seen.state]),
        )
