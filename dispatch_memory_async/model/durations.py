"""Go duration strings, the way in which settings write a length of time."""

import re
from datetime import timedelta

from .errors import InvalidError

__all__ = ("format_duration", "parse_duration")

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5 MICRO SIGN
    "μs": 1_000,  # U+03BC GREEK SMALL LETTER MU
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
LONGEST = 2**63 - 1
SIGNIFICANT = 20  # digits: an hour has 13 in nanoseconds, a signed 64-bit count 19

_NUMBER = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<unit>ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> timedelta:
    """Read a Go duration string.

    :param text: an optional sign, then one or more decimal numbers, each with a unit out of
        ``ns us µs ms s m h``; or ``0``. What is below a microsecond is cut toward zero.
    :raises InvalidError: if the text is none, or says more than a signed 64-bit count of nanoseconds can
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidError(
            f"duration: found something of type {type(text).__name__}, expected a text such as '1h2m3.5s'"
        )
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    nanoseconds = _count(text, unsigned)
    negative = text.startswith("-")
    if nanoseconds > LONGEST + negative:
        raise _broken(text, "which is beyond a signed 64-bit count of nanoseconds")
    length = timedelta(microseconds=nanoseconds // 1_000)
    return -length if negative else length


def _count(text: str, unsigned: str) -> int:
    if unsigned == "0":
        return 0
    total = at = 0
    while at < len(unsigned) or not at:
        number = _NUMBER.match(unsigned, at)
        if number is None or not (number["whole"] or number["part"]):
            raise _broken(text, "expected numbers, each with a unit, such as '1h2m3.5s'")
        whole, part = number["whole"].lstrip("0"), (number["part"] or "")[:SIGNIFICANT]
        if len(whole) > SIGNIFICANT:
            raise _broken(text, "which is beyond a signed 64-bit count of nanoseconds")
        unit = NANOSECONDS[number["unit"]]
        total += int(whole or "0") * unit + int(part or "0") * unit // 10 ** len(part)
        at = number.end()
    return total


def _broken(text: str, why: str) -> InvalidError:
    shown = text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004
    return InvalidError(f"duration: found {shown!r}, {why}")


def format_duration(length: timedelta) -> str:
    """Write a length of time as Go does: ``5m0s``, ``1h2m3.5s``, ``1.5ms``, ``0s``.

    :raises InvalidError: if it is longer than a signed 64-bit count of nanoseconds can say
    """
    if not isinstance(length, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidError(f"duration: found something of type {type(length).__name__}, expected a timedelta")
    microseconds = abs(length) // timedelta(microseconds=1)
    negative = length < timedelta(0)
    if microseconds * 1_000 > LONGEST + negative:
        raise InvalidError(f"duration: {length!r} is beyond a signed 64-bit count of nanoseconds")
    return "-" * negative + _text(microseconds)


def _text(microseconds: int) -> str:
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:  # noqa: PLR2004
        return f"{microseconds}µs"
    if microseconds < 1_000_000:  # noqa: PLR2004
        return f"{_decimal(microseconds, 3)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    seconds = f"{_decimal(rest, 6)}s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}" if hours else f"{minutes}m{seconds}"


def _decimal(count: int, places: int) -> str:
    whole, part = divmod(count, 10**places)
    return f"{whole}.{part:0{places}}".rstrip("0").rstrip(".")
