"""What is done to the writer, and what must be in the file afterwards."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import anyio
from ulid import ULID

from dispatch_memory_async import DispatchError
from dispatch_memory_async.core import SqliteRecords

from .writer import content


class LostError(AssertionError):
    """The file does not hold what it must."""


@dataclass(frozen=True)
class Round:
    """What a writer came to.

    :ivar answered: how many writes were answered
    :ivar in_flight: whether one more, which was not, is in the file
    """

    answered: int
    in_flight: bool


def killed(command: Sequence[str], lines: int, turns: int) -> list[tuple[ULID, int]]:
    """Start a writer, and kill it with SIGKILL after it has told so many lines and we have counted so many turns.

    :return: the writes that it has told of
    """
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ours) as writer:  # noqa: S603  # our own
        assert writer.stdout
        try:
            told = [writer.stdout.readline() for _ in range(1 + lines)]
            for _ in range(turns):
                pass
        finally:
            writer.kill()
        told += writer.stdout.readlines()
    if writer.returncode != -9 or told[0] != "begun\n":
        raise RuntimeError(f"the writer ended by itself, with {writer.returncode}, after {told[-1:]}")
    return [(ULID.from_str(job), int(version)) for job, version in map(str.split, told[1:])]


async def written(path: Path) -> dict[ULID, int]:
    """The version of each job in the file.

    :raises LostError: if anything in it is not as the writer writes it
    """
    with closing(sqlite3.connect(path)) as db:
        try:
            words = db.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.DatabaseError as error:
            words = str(error)
    if words != "ok":
        raise LostError(f"the file is damaged: {words}")
    versions: dict[ULID, int] = {}
    async with SqliteRecords(path) as records:
        for job in await records.list():
            try:
                record = await records.get(job)
            except DispatchError as error:
                raise LostError(f"job {job} is half written: {error}") from error
            if record != content(job, record.version):
                raise LostError(f"job {job} is half written: version {record.version} holds {record.stop}")
            versions[job] = record.version
    return versions


def check(path: Path, known: dict[ULID, int], told: Sequence[tuple[ULID, int]]) -> Round:
    """Hold the file against what was answered; what is in it is known from here on.

    I13: every record is the last one that was answered, or the one that was being written, never older.

    :param known: the version of each job before the writer began
    :param told: its answered writes
    :raises LostError: if it is not so
    """
    answered = dict(known)
    for job, version in told:
        if version != answered.get(job, 0) + 1:
            raise LostError(f"job {job}: version {version} was answered after {answered.get(job, 0)}")
        answered[job] = version
    found = anyio.run(written, path)
    for job, version in answered.items():
        if found.get(job, 0) < version:
            raise LostError(f"job {job}: version {version} was answered, and {found.get(job, 0)} is there")
    beyond = sum(version - answered.get(job, 0) for job, version in found.items())
    if beyond > 1:
        raise LostError(f"{beyond} writes are there that were not answered, and one at most was under way")
    known.update(found)
    return Round(len(told), bool(beyond))
