"""Many runs: on any executor, each counted once, also by a run of them that was interrupted and goes on."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..model import InvalidError, dec_hook, enc_hook
from .config import SimConfig
from .run import Violation, simulate

try:
    import fcntl
except ImportError:  # there is none on Windows, and no lock then
    fcntl = None  # type: ignore[assignment]

__all__ = ("Outcome", "finished", "simulate_many")

WINDOW = 64
"""How many runs are given to the executor at once."""
START = b'{"config":{"seed":'
"""How the line of every outcome begins."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one run among many.

    :ivar config: its configuration
    :ivar violations: the invariants that were broken
    :ivar digest: that of its trace
    :ivar counts: how often what happened
    :ivar steps: how many lines its trace has
    """

    config: SimConfig
    violations: tuple[Violation, ...]
    digest: str
    counts: Mapping[str, int]
    steps: int


_encoder = msgspec.json.Encoder(enc_hook=enc_hook)
_decoder = msgspec.json.Decoder(Outcome, dec_hook=dec_hook)


def outcome_of(config: SimConfig) -> Outcome:
    """Play a run, and keep what is to be kept."""
    result = simulate(config)
    return Outcome(
        config=config,
        violations=result.violations,
        digest=result.digest,
        counts=result.counts,
        steps=len(result.trace),
    )


def finished(path: str | PathLike[str]) -> list[Outcome]:
    """The runs that a file of :func:`simulate_many` holds: none, if there is no such file.

    The last line may be cut off, as an end in the middle of a write leaves it.

    :raises InvalidError: if it holds something else
    """
    file = Path(path)
    return _read(file)[0] if file.exists() else []


def _read(file: Path) -> tuple[list[Outcome], int]:
    """The runs that a file holds, and how many bytes they take."""
    outcomes: list[Outcome] = []
    length = 0
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            if not (line.startswith(START) or START.startswith(line)):
                raise InvalidError(f"{file}, line {number}: expected the outcome of a run, or the beginning of one")
            break
        try:
            outcomes.append(_decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise InvalidError(f"{file}, line {number}: {error}, expected the outcome of a run") from None
        length += len(line)
    return outcomes, length


def simulate_many(
    configs: Iterable[SimConfig], executor: Executor, *, file: str | PathLike[str] | None = None
) -> Iterator[Outcome]:
    """Play many runs, and give what came of each as soon as it is known.

    :param configs: the runs
    :param executor: plays them: a process pool here, or an engine's own, such as Dask's ``Client.get_executor()``
    :param file: where each outcome is written as a line; those that it holds already are given first, and not played
    :raises InvalidError: if the file holds something else, or somebody else is writing it
    """
    if file is None:
        yield from _played(iter(configs), executor, lambda _: None)
        return
    with _opened(Path(file)) as (held, target):

        def keep(outcomes: Iterable[Outcome]) -> None:
            target.write(b"".join(_encoder.encode(outcome) + b"\n" for outcome in outcomes))
            target.flush()

        known = {outcome.config: outcome for outcome in held}
        asked = list(configs)
        yield from (known[config] for config in asked if config in known)
        yield from _played((config for config in asked if config not in known), executor, keep)


@contextmanager
def _opened(file: Path) -> Generator[tuple[list[Outcome], BinaryIO]]:
    """What a file holds, and the file to write on, which nobody else writes meanwhile."""
    with file.open("ab") as target:
        if fcntl is not None:
            try:
                fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidError(f"{file}: somebody else is writing there, expected nobody") from None
        held, length = _read(file)
        if file.stat().st_size > length:  # the beginning of a line, as an end in the middle of a write leaves it
            os.truncate(file, length)
        try:
            yield held, target
        finally:
            target.flush()
            if fcntl is not None:  # said aloud, as processes that were forked meanwhile hold the file open, too
                fcntl.flock(target, fcntl.LOCK_UN)


def _played(
    configs: Iterator[SimConfig], executor: Executor, keep: Callable[[Iterable[Outcome]], None]
) -> Iterator[Outcome]:
    """Play runs; whatever is done is kept, before the first of it is given and also when nobody wants more."""
    running: set[Future[Outcome]] = set()
    try:
        while True:
            running |= {executor.submit(outcome_of, config) for config in islice(configs, WINDOW - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            outcomes, error = _outcomes(done)
            keep(outcomes)
            if error:
                raise error
            yield from outcomes
    finally:
        for future in running:
            future.cancel()
        keep(_outcomes(future for future in running if future.done())[0])


def _outcomes(done: Iterable[Future[Outcome]]) -> tuple[list[Outcome], BaseException | None]:
    """What came of runs, and the first error, if one could not be played."""
    outcomes: list[Outcome] = []
    error: BaseException | None = None
    for future in done:
        if future.cancelled():
            continue
        if raised := future.exception():
            error = error or raised
        else:
            outcomes.append(future.result())
    return outcomes, error
