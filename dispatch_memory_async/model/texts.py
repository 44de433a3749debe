"""Short texts of values, for reprs and messages."""

import reprlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ulid import ULID

from .durations import format_duration

__all__ = ("is_a", "short")


def is_a(found: object, *kinds: type) -> bool:
    """Whether something is of one of these kinds, whatever it says about itself."""
    return issubclass(type(found), kinds)


class _Short(reprlib.Repr):
    """Texts of values for people: never longer than a line, and never an error."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxlong = self.maxother = 60

    def repr1(self, x: Any, level: int) -> str:
        try:
            text = self._told(x, level)
        except Exception:  # noqa: BLE001  # what is shown was refused: its own repr may be broken too
            text = f"<{type(x).__name__}>"
        return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."

    def _told(self, x: Any, level: int) -> str:  # noqa: PLR0911  # one return a kind
        if is_a(x, StrEnum, ULID):
            return str(x)
        if is_a(x, datetime):
            return str(x.isoformat()).replace("+00:00", "Z")
        if is_a(x, timedelta):
            return format_duration(x)
        if is_a(x, str, bytes):
            return ascii(x) if len(x) <= self.maxstring else f"{x[: self.maxstring]!a}..."
        if is_a(x, int) and x.bit_length() > _BITS:
            return f"an integer of {x.bit_length()} bits"
        if is_a(x, dict):
            return self.repr_dict(x, level)
        return super().repr1(x, level)

    def repr_instance(self, x: Any, level: int) -> str:  # noqa: ARG002  # the base's signature
        return repr(x)


_LINE = 60
_BITS = 200
_SHORT = _Short()


def short(value: object) -> str:
    """Any value's text in a repr or a message: readable, never longer than a line, never an error."""
    return _SHORT.repr(value)
