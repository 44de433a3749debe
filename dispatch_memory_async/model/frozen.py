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
