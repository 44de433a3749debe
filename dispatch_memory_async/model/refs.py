"""Ref: the name of one object at the scheduler."""

import re
from datetime import UTC, datetime, timedelta
from typing import Self

from .base import Value
from .errors import InvalidError
from .kinds import Moment
from .texts import short

__all__ = ("Ref",)

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = re.compile(r"(?P<name>.+)/(?P<id>[^/@]+)(?:@(?P<seconds>0|-?[1-9][0-9]{0,11}))?", re.DOTALL)


class Ref(Value, frozen=True, kw_only=True):
    """Names one object.

    :ivar name: the object's name. Slurm: ``dj-<ULID>``, the same for every object of a job.
        Kubeflow: ``dj-<ulid>-s<N>``.
    :ivar id: Slurm: the job id as decimal text. Kubeflow: the object's UID.
    :ivar submitted_at: the submit time (Slurm) or the creation time (Kubeflow), in whole seconds. ``None``
        makes the ref *weak*: it goes on matching when the scheduler changes that time, and it can only read.
    """

    name: str
    id: str
    submitted_at: Moment | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            self._refuse("name", "expected a text that is not empty")
        if not self.id or "/" in self.id or "@" in self.id:
            self._refuse("id", "expected a text that is not empty and holds no '/' and no '@'")
        if self.submitted_at is not None and self.submitted_at.microsecond:
            self._refuse("submitted_at", "expected whole seconds")

    @property
    def weak(self) -> bool:
        """Whether it names no submit time."""
        return self.submitted_at is None

    def __str__(self) -> str:
        if self.submitted_at is None:
            return f"{self.name}/{self.id}"
        return f"{self.name}/{self.id}@{(self.submitted_at - _ORIGIN) // timedelta(seconds=1)}"

    def __repr__(self) -> str:
        return f"Ref({short(str(self))})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``str(ref)`` wrote: ``name/id@seconds``, or ``name/id`` when weak.

        :raises InvalidError: if it is no such text
        """
        parts = _TEXT.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if parts is None:
            raise InvalidError(f"ref: found {short(text)}, expected 'name/id@seconds' or 'name/id'")
        seconds = parts["seconds"]
        try:
            submitted_at = None if seconds is None else _ORIGIN + timedelta(seconds=int(seconds))
        except OverflowError:
            raise InvalidError(f"ref: found {short(text)}, whose time is out of range") from None
        return cls(name=parts["name"], id=parts["id"], submitted_at=submitted_at)
