"""The trace: what happened in a run, line by line, and its digest."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

__all__ = ("BEGINNING", "Entry", "Kind", "digest_of")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""When every run begins, in its own time."""


class Kind(StrEnum):
    """What sort of thing happened."""

    ACTOR = "actor"
    """Somebody begins, ends or crashes: a supervisor, an operator, or what a supervisor that runs has sent."""
    CALL = "call"
    """A call starts, lands or is answered."""
    FAULT = "fault"
    """What was made to go wrong."""
    RECORD = "record"
    """A record is written."""
    SCHEDULER = "scheduler"
    """The scheduler's side acts, or somebody past the core."""
    CLOCK = "clock"
    PHASE = "phase"
    VIOLATION = "violation"


class Entry(NamedTuple):
    """One line.

    :ivar step: the step in which it happened
    :ivar at: when, in microseconds from the beginning
    :ivar job: the number of the job, from 1; 0 if it is about none
    :ivar who: whose doing it was
    :ivar kind: what sort of thing
    :ivar what: what happened
    """

    step: int
    at: int
    job: int
    who: str
    kind: Kind
    what: str

    def __str__(self) -> str:
        job = f"job {self.job} " if self.job else ""
        who = f"{self.who}: " if self.who else ""
        return f"{self.step:4} {self.at / 1e6:9.1f}s {job}{who}{self.what}"

    @property
    def moment(self) -> datetime:
        """When it happened, as a date."""
        return BEGINNING + timedelta(microseconds=self.at)


def digest_of(entries: Iterable[Entry]) -> str:
    """The same for the same lines, and for no others."""
    digest = sha256()
    for entry in entries:
        digest.update(repr((entry.step, entry.at, entry.job, entry.who, str(entry.kind), entry.what)).encode())
    return digest.hexdigest()
