"""Observations as checks compare and print them."""

from collections.abc import Iterable, Mapping, MutableMapping

from ..model import Observation, Ref, State, Value
from ..model.base import altered

__all__ = ("apart", "note", "one_object", "showing", "text", "timeless")


def one_object(ref: Ref, other: Ref) -> bool:
    """Whether two refs name one object, before and after a requeue."""
    return (ref.name, ref.id) == (other.name, other.id)


def note(known: MutableMapping[str, Observation], seen: Observation) -> None:
    """Note what is told in what is known of all objects, by id; what has gone is known no more."""
    if seen.state is State.GONE:
        known.pop(seen.ref.id, None)
    else:
        known[seen.ref.id] = timeless(seen)


def apart(expected: Mapping[str, Observation | None], seen: Mapping[str, Observation | None]) -> tuple[str, str]:
    """In what two views of some objects differ, object by object: on both sides the same fields."""
    sides: tuple[list[str], list[str]] = ([], [])
    for name in sorted({*expected, *seen}):
        two = expected.get(name), seen.get(name)
        fields = _differing(*two)
        for side, one in zip(sides, two, strict=True):
            if fields:
                side.append(f"{name}: {text(showing(one, fields)) if one else 'nothing'}")
    return "; ".join(sides[0]), "; ".join(sides[1])


def _differing(one: Observation | None, other: Observation | None) -> list[str]:
    if one is None or other is None:
        return [] if one is other else ["state"]
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]


def timeless(seen: Observation) -> Observation:
    """What is seen, whenever that was: for comparing."""
    return altered(seen, observed_at=None)


def showing(seen: Value | None, fields: Iterable[str]) -> dict[str, object]:
    """What an observation, or another value, shows in these fields."""
    return {name: getattr(seen, name) for name in fields}


def text(fields: dict[str, object]) -> str:
    """Fields as a message says them."""
    return ", ".join(f"{name}={value}" for name, value in fields.items())
