"""What every value is: frozen, checked when made against its own annotations, copied, short to read."""

import functools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self, TypeVar, get_type_hints

import msgspec
from ulid import ULID

from .durations import format_duration
from .errors import InvalidError

__all__ = (
    "EPOCH_BOUND",
    "LARGEST",
    "Count",
    "FrozenDict",
    "Instance",
    "Integer",
    "Moment",
    "Submission",
    "Value",
    "altered",
    "dec_hook",
    "enc_hook",
    "short",
)

EPOCH_BOUND = 1_000_000
"""No submission number, restart count or hold instance reaches it."""

V = TypeVar("V", bound="Value")

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""An aware time; kept in UTC."""

Submission = Annotated[int, msgspec.Meta(ge=1, lt=EPOCH_BOUND)]
"""The number N of a submission."""

Instance = Annotated[int, msgspec.Meta(ge=1, lt=EPOCH_BOUND)]
"""The number of a hold."""

LARGEST = 2**63 - 1
"""What JSON's readers elsewhere can still hold."""

Integer = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class FrozenDict(dict[Any, Any]):
    """A mapping that cannot be changed; a dict, so that it encodes as one."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is read-only")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = popitem = pop = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[dict[Any, Any]]]:
        return type(self), (dict(self),)


class Value(msgspec.Struct, frozen=True):
    """The base of all values.

    A value made of something that its annotations do not allow is an :class:`InvalidError` that names the
    field, what was found and what was expected. Mappings are copied and read-only, times are in UTC.
    """

    def __post_init__(self) -> None:
        twin = self._checked()
        for name in self.__struct_fields__:
            msgspec.structs.force_setattr(self, name, _frozen(getattr(twin, name)))

    def _checked(self) -> Any:
        try:
            return msgspec.convert(
                self,
                _twin(type(self)),
                from_attributes=True,
                dec_hook=_keep,
                builtin_types=(datetime, timedelta),
            )
        except msgspec.ValidationError as error:
            expected, _, path = str(error).partition(" - at `$")
            path = path.removesuffix("`")
            name = path.lstrip(".").partition(".")[0].partition("[")[0]
            found = short(getattr(self, name, self))
            expected = expected.replace("Expected", "expected").replace("`", "")
            raise InvalidError(f"{type(self).__name__}{path}: found {found}, {expected}") from None

    def _refuse(self, field: str, expected: str) -> NoReturn:
        raise InvalidError(f"{type(self).__name__}.{field}: found {short(getattr(self, field))}, {expected}")

    if TYPE_CHECKING:  # a struct has it, its stub does not

        def __copy__(self) -> Self: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """The fields that are worth showing: those without a default, and those that differ from it."""
        return [
            f"{field.name}={short(getattr(self, field.name))}"
            for field in _fields(type(self))
            if field.required or getattr(self, field.name) != _default(field)
        ]


def altered(value: V, **fields: object) -> V:
    """A copy with some fields changed, unchecked: for what is made of values that were checked already."""
    twin = value.__copy__()
    for name, content in fields.items():
        msgspec.structs.force_setattr(twin, name, content)
    return twin


_fields = functools.cache(msgspec.structs.fields)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


@functools.cache
def _twin(kind: type[Value]) -> type[msgspec.Struct]:
    """A bare struct with the same fields: what msgspec checks a value against without making it again."""
    hints = get_type_hints(kind, include_extras=True)
    return msgspec.defstruct(kind.__name__, [(name, hints[name]) for name in kind.__struct_fields__])


def _keep(_: type, found: object) -> object:
    """Leave what msgspec does not know (a ULID) to its own instance check."""
    return found


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict({key: _frozen(inner) for key, inner in value.items()})  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, datetime) and value.tzinfo is not UTC:
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise InvalidError(f"time: found {value!r}, which has no equal in UTC") from None
    return value


LONG = 60
BITS = 200


def short(value: object) -> str:
    """Any value's text in a repr or a message: readable, never longer than a line, never an error."""
    if isinstance(value, Value):
        return repr(value)
    try:
        text = _text(value)
    except Exception:  # noqa: BLE001  # what is shown here was refused: its own repr may be broken too
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONG else f"{text[:LONG]}..."


def _text(given: object) -> str:  # noqa: PLR0911  # one return a kind
    value: Any = given
    match value:
        case StrEnum() | ULID():
            return str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return format_duration(value)
        case str() | bytes():
            return ascii(value[: LONG + 1])
        case int() if value.bit_length() > BITS:
            return f"an integer of {value.bit_length()} bits"
        case Mapping():
            return f"{{{', '.join(_pairs(given))}}}"
        case set() | frozenset():
            return f"({', '.join(sorted(_items(given)))})"
        case tuple() | list():
            return f"({', '.join(_items(given))})"
        case _:
            return repr(value)


def _pairs(mapping: Any) -> Iterator[str]:
    return (f"{short(key)}: {short(item)}" for key, item in mapping.items())


def _items(collection: Any) -> Iterator[str]:
    return map(short, collection)


def enc_hook(value: object) -> str:
    """Give msgspec the text of a ULID: ``msgspec.json.encode(value, enc_hook=enc_hook)``."""
    if isinstance(value, ULID):
        return str(value)
    raise TypeError(f"cannot encode {type(value).__name__}")


def dec_hook(kind: type, found: object) -> object:
    """Read a ULID's text for msgspec: ``msgspec.json.decode(data, type=Job, dec_hook=dec_hook)``."""
    if kind is ULID and isinstance(found, str):
        return ULID.from_str(found)
    raise TypeError(f"cannot decode {kind.__name__}")
