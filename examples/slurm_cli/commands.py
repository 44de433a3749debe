"""Running Slurm's commands, and what their complaints mean."""

from collections.abc import Mapping
from datetime import UTC, datetime

import anyio

from dispatch_memory_async import (
    DispatchError,
    FinishedError,
    HeldError,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PendingError,
    RunningError,
    UnavailableError,
    UnsupportedError,
)

__all__ = ("OWN", "CommandError", "Commands", "meaning")

OWN = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard", "PATH": "/usr/local/bin:/usr/bin:/bin"}
"""So that times are in UTC and words in English, and nothing of the caller's ``SQUEUE_*`` or ``SBATCH_*`` counts."""


class CommandError(Exception):
    """A command has failed; what it means depends on the call.

    :ivar said: what it wrote to its standard error
    """

    def __init__(self, command: str, status: int, said: str) -> None:
        super().__init__(f"{command} exited with {status}: {said or 'without a word'}")
        self.said = said


class Commands:
    """Runs commands, without a shell and in an environment of their own.

    :param environment: what else stands in it, such as ``SLURM_CONF``
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.environment = {**OWN, **(environment or {})}

    def starts(self, call: str) -> datetime:  # noqa: ARG002  # for whoever injects a delay into one of the calls
        """When the command of a call starts: now."""
        return datetime.now(UTC)

    async def run(self, call: str, *command: str, script: str = "") -> str:  # noqa: ARG002  # the same
        """Run a command; the answer is what it prints.

        :param call: the adapter's call for which it is run
        :param script: what it reads
        :raises CommandError: if it fails
        :raises UnavailableError: if there is no such command here
        """
        try:
            done = await anyio.run_process(command, input=script.encode() or None, env=self.environment, check=False)
        except OSError as error:
            raise UnavailableError(f"{command[0]} cannot be run: {error}") from error
        if done.returncode:
            raise CommandError(command[0], done.returncode, done.stderr.decode(errors="replace").strip())
        return done.stdout.decode(errors="replace")


MEANINGS: tuple[tuple[str, type[DispatchError]], ...] = (
    ("Invalid job id specified", NotFoundError),
    ("Job has already finished", FinishedError),
    ("Job is no longer pending execution", RunningError),
    ("Job is pending execution", PendingError),
    ("Requested operation is presently disabled", UnsupportedError),
    ("Access/permission denied", HeldError),
    # nothing has reached the controller, or it has turned it away
    ("Unable to contact slurm controller", UnavailableError),
    ("Slurm backup controller in standby mode", UnavailableError),
    ("Job violates accounting/QOS policy", UnavailableError),
    ("Required node not available", UnavailableError),
    ("Required partition not available", UnavailableError),
    # what was asked for is not to be had here, ever
    ("Invalid partition name specified", InvalidError),
    ("Invalid account or account/partition combination", InvalidError),
    ("Invalid qos specification", InvalidError),
    ("Invalid feature specification", InvalidError),
    ("Invalid generic resource (gres) specification", InvalidError),
    ("Invalid license specification", InvalidError),
    ("Requested node configuration is not available", InvalidError),
    ("Requested reservation is invalid", InvalidError),
    ("Requested time limit is invalid", InvalidError),
    ("Memory required by task is not available", InvalidError),
    ("More processors requested than permitted", InvalidError),
    ("Node count specification invalid", InvalidError),
)
"""Words of which it is known that nothing has changed."""


def meaning(error: CommandError, *, writes: bool) -> DispatchError:
    """What a command's failure means to the caller.

    Of a write whose complaint is not known nobody can say whether it has landed: most are of a connection that broke
    in the middle ("Socket timed out", "Zero Bytes were transmitted or received", "Unexpected message received").
    """
    for words, kind in MEANINGS:
        if words in error.said:
            return kind(str(error))
    return OutcomeUnknownError(str(error)) if writes else UnavailableError(str(error))
