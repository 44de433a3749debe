"""The hooks by which msgspec encodes and decodes what it does not know: ULIDs, and the errors in a call record."""

from typing import Any

from ulid import ULID

from . import errors
from .errors import DispatchError
from .texts import is_a

__all__ = ("dec_hook", "enc_hook")


def enc_hook(value: object) -> Any:
    """What msgspec writes for a ULID (its text) or an error (its name, its message, and a stale hold's instance).

    ``msgspec.json.encode(value, enc_hook=enc_hook)``
    """
    if isinstance(value, ULID):
        return str(value)
    if isinstance(value, DispatchError):
        return {"error": type(value).__name__, "args": value.args}
    raise TypeError(f"cannot encode {type(value).__name__}")


def dec_hook(kind: type, found: Any) -> object:
    """What :func:`enc_hook` wrote, read: ``msgspec.json.decode(data, type=Job, dec_hook=dec_hook)``."""
    if kind is ULID and isinstance(found, str):
        return ULID.from_str(found)
    if kind is DispatchError and is_a(found, dict) and found.get("error") in errors.__all__:
        return getattr(errors, found["error"])(*found.get("args", ()))
    raise TypeError(f"cannot decode {kind.__name__}")
