"""Checks of what a caller gave, whatever it does when it is looked at."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ulid import ULID

from .errors import InvalidError
from .texts import is_a, short

__all__ = ("TIMES", "as_moment", "as_text", "check_kind", "check_ulid", "plain_time")

TIMES = (datetime, timedelta)


def check_kind(name: str, found: object, *kinds: type) -> None:
    """Refuse what is of none of these kinds.

    :param name: what is being checked, for the message
    :raises InvalidError: if it is not
    """
    if not is_a(found, *kinds):
        expected = " or ".join("None" if kind is type(None) else f"a {kind.__name__}" for kind in kinds)
        raise InvalidError(f"{name}: found {short(found)}, expected {expected}")


def check_ulid(name: str, found: object) -> None:
    """Refuse what is no ULID, or one that was never filled.

    :param name: what is being checked, for the message
    :raises InvalidError: if it is none
    """
    check_kind(name, found, ULID)
    try:
        hash(found)
    except Exception as error:
        raise InvalidError(f"{name}: found {short(found)}, which cannot be read: {short(error)}") from error


def plain_time(found: Any) -> Any:
    """The plain time that an instance of a subclass stands for, such as a frozen clock gives; all else as it is."""
    if type(found) not in TIMES:
        if is_a(found, datetime):
            return datetime.combine(found.date(), found.timetz())
        if is_a(found, timedelta):
            return timedelta(found.days, found.seconds, found.microseconds)
    return found


def as_moment(where: str, found: Any) -> datetime:
    """The time in UTC, if it is an aware datetime.

    :param where: what is being checked, for the message
    :raises InvalidError: if it is not
    """
    try:
        base = plain_time(found)
        if type(base) is datetime and base.utcoffset() is not None:
            return base if base.tzinfo is UTC else base.astimezone(UTC)
    except Exception as error:
        raise InvalidError(f"{where}: found {short(found)}, which has no equal in UTC: {short(error)}") from error
    raise InvalidError(f"{where}: found {short(found)}, expected an aware datetime")


def as_text(where: str, found: Any) -> str:
    """The text, if it is one that can be encoded.

    :param where: what is being checked, for the message
    :raises InvalidError: if it is not
    """
    if type(found) is not str:
        raise InvalidError(f"{where}: found {short(found)}, expected a text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{where}: found {short(found)}, expected text that is valid Unicode") from None
    return found
