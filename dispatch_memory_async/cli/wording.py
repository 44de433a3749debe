"""How the demo calls an object, a change and a moment, in lines as in the live table."""

from datetime import datetime

from ..model import Observation
from .stories import Item

__all__ = ("change", "label", "moment")


def change(item: Item, seen: Observation) -> str:
    """What an object has come to, on one line."""
    words = [f"{seen.state:<9}"]
    if seen.cause:
        words.append(seen.cause)
    if seen.exit_code is not None:
        words.append(f"exit {seen.exit_code}")
    if seen.restarts:
        words.append(f"restart {seen.restarts}")
    return f"{label(item):<7} {item.name:<21} {' '.join(words)}".rstrip()


def label(item: Item) -> str:
    """The job's id in the record, and the number of the submission if it is not the first."""
    return str(item.record) if item.submission == 1 else f"{item.record}-s{item.submission}"


def moment(at: datetime) -> str:
    """A time, in UTC, as a person reads it."""
    return at.strftime("%Y-%m-%d %H:%M:%S")
