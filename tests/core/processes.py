"""What the tests of records in a file do in processes of their own, and how they start them."""

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import anyio

from dispatch_memory_async import DispatchError
from dispatch_memory_async.core import Ask, ConflictError, SqliteRecords
from dispatch_memory_async.model.base import altered
from tests.core.strategies import whole_record
from tests.support import T0, ulid

BIG = 100_000
"""Characters in each of the records that fill a disk."""

GUARD = 120
"""Seconds after which a process that does not answer is given up; none takes that long."""


def in_processes(work: Callable[..., object], *arguments: Sequence[object]) -> list[Any]:
    """Do something in a process for each of these arguments, all begun at once; what they returned.

    The first argument that the work is given is a barrier, at which they wait for each other.
    """
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(arguments), timeout=GUARD)
    pipes = [spawn.Pipe(duplex=False) for _ in arguments]
    processes = [
        spawn.Process(target=_answer, args=(theirs, work, barrier, *given))
        for (_, theirs), given in zip(pipes, arguments, strict=True)
    ]
    for process, (_, theirs) in zip(processes, pipes, strict=True):
        process.start()
        theirs.close()
    try:
        answers: list[Any] = []
        for ours, _ in pipes:
            with closing(ours):
                assert ours.poll(GUARD)
                answers.append(pickle.loads(ours.recv_bytes()))  # noqa: S301  # from our own process
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    if errors:
        raise ExceptionGroup("in the processes", errors)
    return answers


def _answer(pipe: Connection, work: Callable[..., object], barrier: Barrier, *arguments: object) -> None:
    try:
        answer = work(barrier, *arguments)
    except Exception as error:  # noqa: BLE001  # it is raised by the one who asked
        barrier.abort()
        answer = error
    pipe.send_bytes(pickle.dumps(answer))
    pipe.close()


def race(barrier: Barrier, path: Path, name: str, rounds: int) -> list[bool]:
    """Write the first job's record in every round, on the version that all have read; whether it was won."""

    async def run() -> list[bool]:
        won: list[bool] = []
        async with SqliteRecords(path) as records:
            for number in range(rounds):
                barrier.wait()
                read = await records.get(ulid(1))
                barrier.wait()
                try:
                    await records.put(altered(read, stop=Ask(name, f"round {number}", T0)), read.version)
                    won.append(True)
                except ConflictError:
                    won.append(False)
        return won

    return anyio.run(run)


def open_at_once(barrier: Barrier, folder: Path, name: int, rounds: int) -> None:
    """In every round, open a file that nobody has made yet, and put down a job."""

    async def run() -> None:
        for number in range(rounds):
            barrier.wait()
            async with SqliteRecords(folder / f"{number}.db") as records:
                await records.create(whole_record(name))

    anyio.run(run)


def under_limit(_: Barrier, path: Path, limit: int) -> tuple[int, str]:
    """Fill a file that may not grow beyond a limit, see :func:`filled`."""
    import resource  # noqa: PLC0415  # not there on every system

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    return filled(path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before))


def filled(path: Path, make_room: Callable[[], object]) -> tuple[int, str]:
    """Write records until there is no room, make room, and look: the jobs that are there, and what the error was.

    What was answered must be there and nothing else, without room and with it.
    """

    async def run() -> tuple[int, str]:
        answered = 0
        async with SqliteRecords(path) as records:
            await records.create(whole_record(1))
            try:
                while True:
                    big = altered(whole_record(1), stop=Ask("ann", chr(97 + answered % 26) * BIG, T0))
                    await records.put(big, answered + 1)
                    await records.create(altered(big, job=whole_record(answered + 2).job))
                    answered += 1
            except DispatchError as error:
                told = f"{type(error).__name__}: {error}"
            jobs = await records.list()
            assert jobs == tuple(ulid(number + 1) for number in range(answered + 1))
            version = (await records.get(ulid(1))).version
            assert version - 1 in (answered, answered + 1)
        make_room()
        async with SqliteRecords(path) as records:
            assert await records.list() == jobs
            for job in jobs:
                await records.get(job)
            again = await records.get(ulid(1))
            assert again.version == version
            await records.put(again, version)
        return answered, told

    return anyio.run(run)


def as_nobody(_: Barrier, path: Path) -> list[str]:
    """Open a file, read and write it as a user whom permissions bind; the errors."""

    async def run() -> list[str]:
        told: list[str] = []
        records = SqliteRecords(path)
        for call in (records.list, lambda: records.put(whole_record(), 1), lambda: records.create(whole_record(2))):
            try:
                await call()
            except DispatchError as error:
                told.append(f"{type(error).__name__}: {error}")
        await records.aclose()
        return told

    anyio.run(anyio.lowlevel.checkpoint)  # what is imported late is imported while it can be
    if os.geteuid() == 0:
        os.setuid(65534)
    return anyio.run(run)


def main() -> None:
    """Fill a file on a disk of its own, which is full; removing the ballast beside it makes room."""
    path = Path(sys.argv[1])
    ballast = path.with_name("ballast")
    ballast.write_bytes(bytes(200_000))
    answered, told = filled(path, ballast.unlink)
    print(f"{answered} {told}")  # noqa: T201


if __name__ == "__main__":
    main()
