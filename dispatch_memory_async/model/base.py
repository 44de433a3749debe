"""What every value is: frozen, checked when made against its own annotations, copied, short to read."""

import functools
import re
import reprlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self, TypeVar, get_args, get_type_hints

import msgspec
from ulid import ULID

from .durations import format_duration
from .errors import DispatchError, InvalidError

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
    "as_moment",
    "as_text",
    "dec_hook",
    "enc_hook",
    "is_a",
    "short",
)

V = TypeVar("V", bound="Value")

EPOCH_BOUND = 1_000_000
"""No submission number, restart count or hold instance reaches it."""

LARGEST = 2**63 - 1
"""What JSON's readers elsewhere can still hold."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""An aware time; kept in UTC."""

Submission = Annotated[int, msgspec.Meta(ge=1, lt=EPOCH_BOUND)]
"""The number N of a submission."""

Instance = Annotated[int, msgspec.Meta(ge=1, lt=EPOCH_BOUND)]
"""The number of a hold."""

Integer = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class FrozenDict(dict[Any, Any]):
    """A mapping that cannot be changed; a dict, so that it encodes as one."""

    __slots__ = ()

    def __new__(cls, content: Mapping[Any, Any] = {}) -> Self:  # it is only read
        self = super().__new__(cls)
        dict[Any, Any].update(self, content)
        return self

    def __init__(self, content: Mapping[Any, Any] = {}) -> None:
        """It is filled as it is made, so that nobody can fill it again."""

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
        for name, hint in _hints(type(self)).items():
            msgspec.structs.force_setattr(self, name, self._checked(name, hint))

    def _checked(self, name: str, hint: Any) -> Any:
        found = getattr(self, name)
        where = f"{type(self).__name__}.{name}"
        try:
            return _frozen(where, msgspec.convert(_base(found), hint, dec_hook=_keep, builtin_types=_TIMES))
        except InvalidError:
            raise
        except msgspec.ValidationError as error:
            expected, key, path = _PATH.fullmatch(str(error)).group("what", "key", "path")  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
            if expected.startswith("Invalid enum value") and "." not in (path or ""):
                expected = f"expected one of {', '.join(_choices(get_args(hint)[0] if key else hint))}"
            expected = expected.replace("Expected", "expected").replace("`", "")
            raise InvalidError(f"{where}{path or ''}: found {short(found)}, {expected}") from None
        except Exception as error:  # what was given may raise whatever it likes when it is looked at
            raise InvalidError(f"{where}: found {short(found)}, which cannot be read: {short(error)}") from error

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
            f"{name}={short(found)}"
            for name, found in shown.items()
            if found != defaults[name] and not any(found == nothing for nothing in silent)
        ]


def altered(value: V, **fields: object) -> V:
    """A copy with some fields changed, unchecked: for what is made of values that were checked already."""
    twin = value.__copy__()
    for name, content in fields.items():
        msgspec.structs.force_setattr(twin, name, content)
    return twin


_fields = functools.cache(msgspec.structs.fields)
_PATH = re.compile(r"(?P<what>.*?)(?: - at (?P<key>key in )?`\$(?P<path>.*)`)?", re.DOTALL)
_TIMES = (datetime, timedelta)


@functools.cache
def _hints(kind: type[Value]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _keep(_: type, found: object) -> object:
    """Leave what msgspec does not know (a ULID) to its own instance check."""
    return found


def _choices(hint: Any) -> list[str]:
    """The texts that an annotation allows, of an enum or a literal."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return [str(member) for member in hint]
    if isinstance(hint, str):
        return [hint]
    return [choice for inner in get_args(hint) for choice in _choices(inner)]


def _base(found: Any) -> Any:
    """The plain time that an instance of a subclass stands for, such as a frozen clock gives; all else as it is."""
    if type(found) not in _TIMES:
        if is_a(found, datetime):
            return datetime.combine(found.date(), found.timetz())
        if is_a(found, timedelta):
            return timedelta(found.days, found.seconds, found.microseconds)
    return found


def _frozen(where: str, value: Any) -> Any:
    match value:
        case StrEnum():
            return value
        case dict():
            return FrozenDict({_frozen(where, key): _frozen(where, item) for key, item in value.items()})  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case datetime():
            return as_moment(where, value)
        case str():
            return as_text(where, value)
        case tuple():
            return tuple(_frozen(where, item) for item in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case _:
            return value


def as_moment(where: str, found: Any) -> datetime:
    """The time in UTC, if it is an aware datetime.

    :param where: what is being checked, for the message
    :raises InvalidError: if it is not
    """
    try:
        base = _base(found)
        if type(base) is datetime and base.utcoffset() is not None:
            return base if base.tzinfo is UTC else base.astimezone(UTC)
    except Exception as error:
        raise InvalidError(f"{where}: found {short(found)}, which has no equal in UTC: {short(error)}") from error
    raise InvalidError(f"{where}: found {short(found)}, expected an aware datetime")


def as_text(where: str, found: object) -> str:
    """The text, if it is one that can be encoded.

    :param where: what is being checked, for the message
    :raises InvalidError: if it is not
    """
    if not isinstance(found, str):
        raise InvalidError(f"{where}: found {short(found)}, expected a text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{where}: found {short(found)}, expected text that is valid Unicode") from None
    return found


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


_LINE = 80
_BITS = 200
_SHORT = _Short()


def short(value: object) -> str:
    """Any value's text in a repr or a message: readable, never longer than a line, never an error."""
    return _SHORT.repr(value)


def enc_hook(value: object) -> str:
    """Give msgspec the text of a ULID (or of an error in a call record).

    ``msgspec.json.encode(value, enc_hook=enc_hook)``
    """
    if isinstance(value, ULID):
        return str(value)
    if isinstance(value, DispatchError):
        return f"{type(value).__name__}: {value}"
    raise TypeError(f"cannot encode {type(value).__name__}")


def dec_hook(kind: type, found: object) -> object:
    """Read a ULID's text for msgspec: ``msgspec.json.decode(data, type=Job, dec_hook=dec_hook)``."""
    if kind is ULID and isinstance(found, str):
        return ULID.from_str(found)
    raise TypeError(f"cannot decode {kind.__name__}")
