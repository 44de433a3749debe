"""What every value is: frozen, checked when made against its own annotations, copied, short to read."""

import functools
import re
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, get_args, get_type_hints

import msgspec

from .checks import TIMES, as_moment, as_text, plain_time
from .errors import InvalidError
from .frozen import FrozenDict
from .texts import short

__all__ = ("Value", "altered", "hints")

V = TypeVar("V", bound="Value")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all values.

    A value made of something that its annotations do not allow is an :class:`InvalidError` that names the
    field, what was found and what was expected. Mappings are copied and read-only, times are in UTC.
    """

    def __post_init__(self) -> None:
        name = type(self).__name__
        given = {field: getattr(self, field) for field in self.__struct_fields__}
        try:
            plain = {field: plain_time(found) for field, found in given.items()}
            twin = msgspec.convert(plain, _twin(type(self)), dec_hook=_keep, builtin_types=TIMES)
        except msgspec.ValidationError as error:
            raise InvalidError(f"{name}{_told(str(error), given, hints(type(self)))}") from None
        except Exception as error:  # what was given may raise whatever it likes when it is looked at
            raise InvalidError(f"{name}: cannot be read: {short(error)}") from error
        for field in given:
            msgspec.structs.force_setattr(self, field, _frozen(f"{name}.{field}", getattr(twin, field)))

    def _refuse(self, field: str, expected: str) -> NoReturn:
        raise InvalidError(f"{type(self).__name__}.{field}: found {short(getattr(self, field))}, {expected}")

    if TYPE_CHECKING:  # a struct has it, its stub does not

        def __copy__(self) -> Self: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """The fields that are worth showing: not those that say nothing, nor those with their default."""
        shown = {field.name: getattr(self, field.name) for field in _fields(type(self))}
        defaults = {field.name: _default(field) for field in _fields(type(self))}
        silent: tuple[object, ...] = (None, "", (), {})
        return [
            f"{name}={_within(found)}"
            for name, found in shown.items()
            if found != defaults[name] and not any(found == nothing for nothing in silent)
        ]


def altered(value: V, **fields: object) -> V:
    """A copy with some fields changed, unchecked: for what is made of values that were checked already."""
    twin = value.__copy__()
    for name, content in fields.items():
        msgspec.structs.force_setattr(twin, name, content)
    return twin


_EMPTY = FrozenDict()  # one for all values: most mappings are empty
_fields = functools.cache(msgspec.structs.fields)
_PATH = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_WORDS = {
    "Object contains unknown field": "which has an unknown field",
    "Expected `array`": "expected a tuple or a list",
    "Expected `object`": "expected a mapping or a value",
    "Expected": "expected",
    "`": "",
}


def _within(found: object) -> str:
    """A field's text; a value in it is cut, but for a ref, by which one knows the rest."""
    text = short(found)
    return (
        f"{text[:_INNER]}..."
        if len(text) > _INNER and isinstance(found, Value) and not text.startswith("Ref")
        else text
    )


_INNER = 40


@functools.cache
def _twin(kind: type[Value]) -> type[msgspec.Struct]:
    """A bare struct with the same fields: what msgspec checks a value's contents against, at once."""
    return msgspec.defstruct(kind.__name__, list(hints(kind).items()))


def _told(error: str, given: dict[str, Any], allowed: dict[str, Any]) -> str:
    """What msgspec found wrong, with the field, what was found in it and what was expected."""
    parts = _PATH.fullmatch(error)
    assert parts is not None  # noqa: S101  # it matches any text
    expected, path = parts["what"], parts["path"] or ""
    field = re.split(r"[.\[]", path.lstrip("."))[0]
    if expected.startswith("Invalid enum value"):
        hint = _hint_at(path, allowed)
        expected = f"expected one of {', '.join(_choices(get_args(hint)[0] if parts['key'] else hint))}"
    for theirs, ours in _WORDS.items():
        expected = expected.replace(theirs, ours)
    return f"{path}: found {short(given[field])}, {expected}"


@functools.cache
def hints(kind: type[Value]) -> dict[str, Any]:
    """The annotation of each field."""
    return get_type_hints(kind, include_extras=True)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _keep(_: type, found: object) -> object:
    """Leave what msgspec does not know (a ULID) to its own instance check."""
    return found


def _hint_at(path: str, allowed: dict[str, Any]) -> Any:
    """The annotation of the field that a path leads to, in this value or in one inside it."""
    hint: Any = None
    for field in re.findall(r"\.(\w+)", path):
        hint = allowed[field]
        allowed = {name: kind for value in _values(hint) for name, kind in hints(value).items()}
    return hint


def _values(hint: Any) -> list[type[Value]]:
    """The value types that an annotation names."""
    kinds: list[Any] = [hint, *get_args(hint)]
    return [kind for kind in kinds if isinstance(kind, type(Value))]


def _choices(hint: Any) -> list[str]:
    """The texts that an annotation allows, of an enum or a literal."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return [str(member) for member in hint]
    if isinstance(hint, str):
        return [hint]
    return [choice for inner in get_args(hint) for choice in _choices(inner)]


def _frozen(where: str, value: Any) -> Any:
    match value:
        case None | StrEnum() | int():
            return value
        case dict():
            frozen = {_frozen(where, key): _frozen(where, item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            return FrozenDict(frozen) if frozen else _EMPTY
        case datetime():
            return as_moment(where, value)
        case str():
            return as_text(where, value)
        case tuple():
            return tuple(_frozen(where, item) for item in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case _:
            return value
