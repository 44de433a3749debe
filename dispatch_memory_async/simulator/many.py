"""Many runs: on any executor, each counted once, also by a run of them that was interrupted and goes on."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from itertools import islice
from os import PathLike
from pathlib import Path

import msgspec

from ..model import InvalidError, dec_hook, enc_hook
from .config import SimConfig
from .run import Violation, simulate

__all__ = ("Outcome", "finished", "simulate_many")

WINDOW = 64
"""How many runs are given to the executor at once."""


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
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    outcomes: list[Outcome] = []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        try:
            outcomes.append(_decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise InvalidError(f"{file}, line {number}: {error}, expected the outcome of a run") from None
    return outcomes


def simulate_many(
    configs: Iterable[SimConfig], executor: Executor, *, file: str | PathLike[str] | None = None
) -> Iterator[Outcome]:
    """Play many runs, and give what came of each as soon as it is known.

    :param configs: the runs
    :param executor: plays them: a process pool here, or an engine's own, such as Dask's ``Client.get_executor()``
    :param file: where each outcome is written as a line; those that it holds already are given first, and not played
    :raises InvalidError: if the file holds something else
    """
    known = {outcome.config: outcome for outcome in finished(file)} if file else {}
    asked = list(configs)
    yield from (known[config] for config in asked if config in known)
    missing = (config for config in asked if config not in known)
    if file is None:
        yield from _played(missing, executor)
        return
    _cut(Path(file))
    with Path(file).open("ab") as target:
        for outcome in _played(missing, executor):
            target.write(_encoder.encode(outcome) + b"\n")
            target.flush()
            yield outcome


def _cut(file: Path) -> None:
    """Take off a last line that was not finished."""
    if file.exists():
        held = file.read_bytes()
        file.write_bytes(held[: held.rfind(b"\n") + 1])


def _played(configs: Iterator[SimConfig], executor: Executor) -> Iterator[Outcome]:
    running: set[Future[Outcome]] = set()
    try:
        while True:
            running |= {executor.submit(outcome_of, config) for config in islice(configs, WINDOW - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        for future in running:
            future.cancel()
