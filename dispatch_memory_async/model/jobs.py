"""Job: one piece of work, as the user asks for it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from msgspec import Meta
from ulid import ULID

from .base import Value
from .kinds import LARGEST, Count, Integer

__all__ = ("NAMESPACE", "RESERVED_ENV_PREFIX", "Job", "Resources")

NAMESPACE = "dispatch"
"""The namespace of this library's own entries in :attr:`Job.extensions`."""

RESERVED_ENV_PREFIX = "DISPATCH_"
"""Names in a job's environment that begin so are set by the scheduler's side alone."""

_AtLeastOne = Annotated[int, Meta(ge=1, le=LARGEST)]


class Resources(Value, frozen=True, kw_only=True):
    """What one execution needs.

    :ivar nodes: how many nodes
    :ivar cpus_per_node: processors on each
    :ivar memory_per_node: bytes on each; 0 leaves it to the scheduler
    :ivar gpus_per_node: accelerators on each
    """

    nodes: _AtLeastOne = 1
    cpus_per_node: _AtLeastOne = 1
    memory_per_node: Count = 0
    gpus_per_node: Count = 0


class Job(Value, frozen=True, kw_only=True):
    """One piece of work. Running it takes one or more submissions, each of which makes one object.

    :ivar id: the job's own identity, given by whoever asks for it
    :ivar command: the command and its arguments
    :ivar image: a container image, where the scheduler runs one
    :ivar env: the environment of every execution; names that begin with ``DISPATCH_`` are refused
    :ivar resources: what one execution needs
    :ivar time_limit: how long one execution may run
    :ivar queue: the partition (Slurm) or local queue (Kueue)
    :ivar priority: higher goes first
    :ivar extensions: further settings, one inner mapping a namespace
    """

    id: ULID
    command: tuple[str, ...]
    image: str = ""
    env: Mapping[str, str] = {}
    resources: Resources = Resources()
    time_limit: timedelta | None = None
    queue: str = ""
    priority: Integer = 0
    extensions: Mapping[str, Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(name.startswith(RESERVED_ENV_PREFIX) for name in self.env):
            self._refuse("env", f"expected no name that begins with {RESERVED_ENV_PREFIX}")
        if self.time_limit is not None and self.time_limit < timedelta(0):
            self._refuse("time_limit", "expected a length of time of at least 0")
