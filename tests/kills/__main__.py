"""Kill a process that writes records with SIGKILL, again and again, on one file: what was answered is there (I13)."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

from ulid import ULID

from .killing import LostError, check, killed

LINES = (0, 1, 10, 100, 300)
"""The writer is killed after at most so many lines, drawn for each round: in opening the file as in the thick of it."""

TURNS = 200_000
"""Turns of an empty loop that at most pass between the last line and the kill: some milliseconds, a few writes."""


def main() -> int:
    """Run the rounds; the exit status is 0 if nothing was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    asked = parser.parse_args()
    print(f"{asked.rounds} rounds, --seed {asked.seed}", flush=True)
    draw = Random(asked.seed)  # noqa: S311  # nothing secret about it
    known: dict[ULID, int] = {}
    answered = in_flight = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        path = Path(folder, "jobs.db")
        for number in range(1, asked.rounds + 1):
            lines, turns, seed = draw.randint(0, draw.choice(LINES)), draw.randrange(TURNS), draw.randrange(2**32)
            told = killed([sys.executable, "-m", "tests.kills.writer", str(path), str(seed)], lines, turns)
            try:
                done = check(path, known, told)
            except LostError as lost:
                print(f"round {number}, killed after {len(told)} writes: {lost}")
                return 1
            answered += done.answered
            in_flight += done.in_flight
            if number % 10 == 0 or number == asked.rounds:
                passed = f"{time.monotonic() - began:6.1f} s"
                print(f"{passed}  round {number:3}: {answered} writes answered, none lost", flush=True)
    print(f"{in_flight} of {asked.rounds} kills left a write behind that was done and not yet answered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
