"""The differential: a script played on the memory adapter and on a real Slurm, and in what they differ."""

import traceback
from collections.abc import Iterator
from typing import NamedTuple

from .deviations import applying, on_slurm
from .harness import SlurmHarness
from .playing import Seen, Step, play_in_memory, play_on_slurm
from .scripts import Script

__all__ = ("Played", "play_on_both")


class Played(NamedTuple):
    """A script that was played on both.

    :ivar memory: what the memory adapter showed after each step
    :ivar real: what a real Slurm showed, up to the first difference, and the commands that were run
    :ivar error: what went wrong while it was played
    """

    script: Script
    memory: tuple[Seen, ...]
    real: tuple[Step, ...] = ()
    error: str = ""

    @property
    def differences(self) -> tuple[str, ...]:
        """Where the two differ otherwise than the deviations say."""
        return (self.error,) if self.error else tuple(self._differences())

    def _differences(self) -> Iterator[str]:
        expected = on_slurm(self.script, self.memory)
        for number, step in enumerate(self.real, 1):
            word, seen, wanted = self.script.steps[number - 1], self.memory[number - 1], expected[number - 1]
            if step.seen != wanted:
                yield f"step {number}, {word}\n  memory: {seen}"
                yield from (f"  real:   {turn}" for turn in step.turns)
                yield from (f"  {command}" for command in dict.fromkeys(step.commands))
                names = [one.name for one in applying(self.script, number, seen)]
                if names:
                    yield f"  though a deviation says ({'; '.join(names)}): {wanted}"


async def play_on_both(script: Script, harness: SlurmHarness) -> Played:
    """Play a script in memory, and then on a real Slurm. It does not raise: what goes wrong stands in the result."""
    memory = await play_in_memory(script)
    try:
        return Played(script, memory, await play_on_slurm(script, harness, on_slurm(script, memory)))
    except Exception:  # noqa: BLE001  # whatever it is, it is the finding
        return Played(script, memory, error=traceback.format_exc())
