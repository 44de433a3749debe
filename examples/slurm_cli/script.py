"""What ``sbatch`` is given: its options, and the script."""

import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta

from dispatch_memory_async import EPOCH_BOUND, InvalidError, Job, UnsupportedError

from .commands import OWN

__all__ = ("batch_script", "options")

NAMESPACE = "slurm"
EXTRA = frozenset({"account", "constraint", "gres", "licenses", "qos", "reservation"})
"""What ``Job.extensions["slurm"]`` may hold: long options of ``sbatch``."""
MIB = 2**20


def options(job: Job, partition: str) -> Iterator[str]:
    """What a job asks for, as options.

    :raises InvalidError: if it asks for what this adapter does not know
    :raises UnsupportedError: if it asks for a container
    """
    if job.image:
        raise UnsupportedError(f"image: found {job.image!r}, expected none: this adapter starts no containers")
    wants = job.resources
    yield f"--nodes={wants.nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={wants.cpus_per_node}"
    if wants.memory_per_node:
        yield f"--mem={-(-wants.memory_per_node // MIB)}M"
    if wants.gpus_per_node:
        yield f"--gpus-per-node={wants.gpus_per_node}"
    if job.time_limit is not None:
        yield f"--time={max(1, -(-job.time_limit // timedelta(minutes=1)))}"
    if job.queue or partition:
        yield f"--partition={_text('queue', job.queue or partition)}"
    for name, value in job.extensions.get(NAMESPACE, {}).items():
        if name not in EXTRA:
            raise InvalidError(f"extensions.{NAMESPACE}: found {name!r}, expected one of {', '.join(sorted(EXTRA))}")
        yield f"--{name}={_text(name, value)}"


def batch_script(job: Job, submission: int, environment: Mapping[str, str]) -> str:
    """The script. Whatever stands in commands and values is quoted; the command takes the script's place."""
    if not job.command:
        raise InvalidError("command: found none, expected one")
    lines = ["#!/bin/sh", f"unset {' '.join(sorted(OWN))}"]
    for name, value in {**environment, **job.env}.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InvalidError(f"env: found the name {name!r}, expected letters, digits and '_'")
        lines.append(f"export {name}={shlex.quote(_text(name, value))}")
    lines += [
        f"export DISPATCH_EPOCH=$(({submission} * {EPOCH_BOUND} + ${{SLURM_RESTART_COUNT:-0}}))",
        "read -r DISPATCH_ATTEMPT </proc/sys/kernel/random/uuid && export DISPATCH_ATTEMPT",
    ]
    command = shlex.join(_text("command", word) for word in job.command)
    lines.append(f"exec {'srun --kill-on-bad-exit ' if job.resources.nodes > 1 else ''}{command}")
    return "\n".join(lines) + "\n"


def _text(what: str, found: str) -> str:
    if "\0" in found:
        raise InvalidError(f"{what}: found {found!r}, expected no NUL in it")
    return found
