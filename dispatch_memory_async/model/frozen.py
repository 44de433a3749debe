"""FrozenDict: the mapping that values hold."""

from collections.abc import Mapping
from typing import Any, NoReturn, Self

__all__ = ("FrozenDict",)


class FrozenDict(dict[Any, Any]):
    """A mapping that cannot be changed; a dict, so that it encodes as one."""

    __slots__ = ()

    def __new__(cls, content: Mapping[Any, Any] = {}) -> Self:  # it is only read
        self = super().__new__(cls)
        dict[Any, Any].update(self, content)
        return self

    def __init__(self, content: Mapping[Any, Any] = {}) -> None:
        """It is filled as it is made, so that nobody can fill it again."""

    def __setitem__(self, *_: object) -> NoReturn:
        raise _read_only()

    def __delitem__(self, *_: object) -> NoReturn:
        raise _read_only()

    def __ior__(self, *_: object) -> NoReturn:  # type: ignore[misc]
        raise _read_only()

    def clear(self) -> NoReturn:
        raise _read_only()

    def pop(self, *_: object) -> NoReturn:
        raise _read_only()

    def popitem(self) -> NoReturn:
        raise _read_only()

    def setdefault(self, *_: object) -> NoReturn:
        raise _read_only()

    def update(self, *_: object, **__: object) -> NoReturn:
        raise _read_only()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[dict[Any, Any]]]:
        return type(self), (dict(self),)


def _read_only() -> TypeError:
    return TypeError("this mapping is read-only")
