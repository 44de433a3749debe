"""The settings JSON of the memory adapter: read strictly into a Config, and written from one."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, NoReturn, cast, get_args, get_origin, get_type_hints

import msgspec

from ..model import DispatchError, InvalidError, format_duration, parse_duration
from ..model.texts import is_a, short
from .config import Config, check_length, unruled

__all__ = ("decode_settings", "encode_settings")


LONGEST_KEY = 60


def decode_settings(text: str | bytes | Mapping[str, Any]) -> Config:
    """Read settings.

    :param text: JSON text or its UTF-8 bytes, or a mapping that was decoded already. Keys are in camel case,
        lengths of time are Go duration strings.
    :raises InvalidError: for anything that is not exactly a configuration: an unknown or repeated key, a wrong
        type, a value out of range, trailing data. The message holds the JSON path and the value.
    """
    try:
        config = _read("$", text if is_a(text, Mapping) else _parse(text), Config)
    except DispatchError:
        raise
    except Exception as error:  # a mapping of somebody else's may raise whatever it likes when it is looked at
        raise InvalidError(f"$: found {short(text)}, which cannot be read: {short(error)}") from error
    assert isinstance(config, Config)  # noqa: S101  # for the type checkers: _read makes what it is asked for
    return config


def encode_settings(config: Config) -> str:
    """Write a configuration as settings JSON, defaults included: the inverse of :func:`decode_settings`.

    :raises InvalidError: if it is no :class:`Config`
    """
    if not is_a(config, Config):
        raise InvalidError(f"config: found {short(config)}, expected a Config")
    return json.dumps(_plain(config))


class _Members(dict[str, Any]):
    """The members of a JSON object, and a key that stood there twice."""

    repeated: str | None = None


def _members(pairs: list[tuple[str, Any]]) -> _Members:
    members = _Members(pairs)
    if len(members) < len(pairs):
        members.repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return members


def _parse(text: Any) -> Any:
    if not is_a(text, str, bytes):
        _refuse("$", text, "JSON text, bytes or a mapping")
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded, object_pairs_hook=_members, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise InvalidError(f"$: found {short(text)}, expected UTF-8: {error}") from None
    except RecursionError:
        raise InvalidError(f"$: found {short(text)}, which is nested too deeply") from None
    except ValueError as error:
        raise InvalidError(f"$: found {short(text)}, expected one JSON object: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _read(path: str, found: Any, kind: Any) -> Any:
    """Read one value of the kind that an annotation asks for."""
    if kind is timedelta:
        return _length(path, found)
    if get_origin(kind) is Mapping:
        keys, items = get_args(kind)
        return {
            _read(_at(path, key), key, keys): _read(_at(path, key), item, items) for key, item in _items(path, found)
        }
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(path, found, kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _choice(path, found, kind)
    return _leaf(path, found, kind)


def _items(path: str, found: Any) -> Iterable[tuple[str, Any]]:
    if not is_a(found, Mapping):
        _refuse(path, found, "an object")
    if isinstance(found, _Members) and found.repeated is not None:
        _refuse(_at(path, found.repeated), found[found.repeated], "every key once")
    for key in found:
        if not isinstance(key, str):
            _refuse(path, key, "a text for a key")
    return cast("Iterable[tuple[str, Any]]", found.items())


def _struct(path: str, found: Any, kind: type[msgspec.Struct]) -> msgspec.Struct:
    fields = {_camel(name): (name, hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    values: dict[str, Any] = {}
    for key, item in _items(path, found):
        if key not in fields:
            _refuse(_at(path, key), item, f"no such key; known are {', '.join(fields)}")
        name, hint = fields[key]
        values[name] = _read(_at(path, key), item, hint)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in values:
            _refuse(path, found, f"a key {_camel(field.name)!r}")
    if kind is Config:
        for action in unruled(values.get("rules", {}), values.get("native", {})):
            _refuse(f"{path}.native.{action}.value", "yes", f"a yes in {path}.rules.{action}.value too")
    return kind(**values)


def _length(path: str, found: Any) -> timedelta:
    if not is_a(found, str):
        _refuse(path, found, "a Go duration string such as '1h2m3.5s'")
    try:
        length = parse_duration(found)
        check_length(length)
    except InvalidError as error:
        raise InvalidError(f"{path}: {error}") from None
    return length


def _choice(path: str, found: Any, kind: type[StrEnum]) -> StrEnum:
    if not isinstance(found, str) or found not in set(kind):
        _refuse(path, found, f"one of {', '.join(kind)}")
    return kind(found)


def _leaf(path: str, found: Any, kind: Any) -> Any:
    try:
        if isinstance(found, str):
            found.encode()
        if isinstance(found, float):
            _refuse(path, found, "no fraction and no exponent")
        return msgspec.convert(found, kind)
    except UnicodeEncodeError:
        _refuse(path, found, "text that is valid Unicode")
    except msgspec.ValidationError as error:
        _refuse(path, found, str(error).removeprefix("Expected ").replace("`", ""))


def _refuse(path: str, found: object, expected: str) -> NoReturn:
    shown = json.dumps(found) if found is None or isinstance(found, bool) else short(found)
    raise InvalidError(f"{path}: found {shown}, expected {expected}")


def _at(path: str, key: str) -> str:
    plain = len(key) <= LONGEST_KEY and key.isascii() and key.isidentifier()
    return f"{path}.{key}" if plain else f"{path}[{short(key)}]"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, msgspec.Struct):
        return {_camel(name): _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return value
