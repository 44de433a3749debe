"""The process that is killed: it writes one change after another and tells each, once it is answered, on a line."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import anyio
from ulid import ULID

from dispatch_memory_async import Job
from dispatch_memory_async.core import Ask, Record, SqliteRecords

JOBS = 40
NEW = 0.1
SITTING = 60
"""After so many writes the file is closed and opened again."""

LARGEST = 8_000
"""Characters in the largest of the contents."""


def content(job: ULID, version: int) -> Record:
    """What this writer writes as that version of a job: of all sizes, and no two alike."""
    draw = Random(f"{job} {version}")  # noqa: S311  # nothing secret about it
    reason = f"{version}:" + chr(draw.randrange(97, 123)) * draw.randrange(LARGEST)
    asked = Ask(str(job), reason, datetime(2026, 3, 1, tzinfo=UTC))
    return Record(job=Job(id=job, command=("train",)), version=version, stop=asked)


async def write(path: Path, seed: int) -> None:
    """Create and change records in the file until somebody ends the process."""
    draw = Random(seed)  # noqa: S311
    print("begun", flush=True)
    while True:
        async with SqliteRecords(path) as records:
            jobs = await records.list()
            for _ in range(SITTING):
                if not jobs or (len(jobs) < JOBS and draw.random() < NEW):
                    job = ULID.from_int(len(jobs) + 1)
                    written = await records.create(content(job, 1))
                    jobs = (*jobs, job)
                else:
                    job = draw.choice(jobs)
                    version = (await records.get(job)).version
                    written = await records.put(content(job, version + 1), version)
                print(f"{job} {written.version}", flush=True)


if __name__ == "__main__":
    anyio.run(write, Path(sys.argv[1]), int(sys.argv[2]))
