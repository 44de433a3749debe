"""The registry: adapters by name, our own and those of other distributions."""

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from msgspec.structs import force_setattr

from .model import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError, Value
from .model.frozen import FrozenDict
from .model.texts import is_a, short
from .spi import Adapter

__all__ = ("ENTRY_POINTS", "AdapterConfig", "Factory", "open_adapter", "register", "registered")

ENTRY_POINTS = "dispatch_memory_async.adapters"
"""The entry-point group in which other distributions offer a :data:`Factory`."""


class AdapterConfig(Value, frozen=True, kw_only=True):
    """Which adapter to open, and how.

    :ivar adapter: its name
    :ivar settings: its settings: JSON text, bytes, or a mapping that was decoded already
    :ivar read_only: whether every change is to be refused
    """

    adapter: str = "memory"
    settings: Any = b"{}"
    read_only: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_a(self.settings, str, bytes, Mapping):
            self._refuse("settings", "expected JSON text, bytes or a mapping")
        try:
            force_setattr(self, "settings", _copied(self.settings))
        except Exception as error:
            raise InvalidError(f"AdapterConfig.settings: cannot be read: {short(error)}") from error


def _copied(settings: Any) -> Any:
    """Settings that nobody can change any more."""
    if is_a(settings, Mapping):
        return FrozenDict({key: _copied(item) for key, item in settings.items()})
    if is_a(settings, list, tuple):
        return tuple(map(_copied, settings))
    return settings


Factory = Callable[[AdapterConfig], Awaitable[Adapter]]
"""Makes a new adapter, whose life ends with the ``aclose`` of what was returned."""

_factories: dict[str, Factory] = {}


def register(name: str, factory: Factory) -> None:
    """Offer an adapter under a name.

    :raises AlreadyExistsError: if the name is taken
    :raises InvalidError: if the name is no text or empty, or the factory cannot be called
    """
    if not is_a(name, str) or not name:
        raise InvalidError(f"adapter name: found {short(name)}, expected a text that is not empty")
    if not callable(factory):
        raise InvalidError(f"factory of adapter {name!r}: found {short(factory)}, expected a callable")
    if name in _factories:
        raise AlreadyExistsError(f"an adapter named {name!r} is registered already")
    _factories[name] = factory


def registered() -> tuple[str, ...]:
    """The names of all adapters that can be opened, in alphabetical order; nothing is loaded for it."""
    return tuple(sorted({*_factories, *entry_points(group=ENTRY_POINTS).names}))


async def open_adapter(config: AdapterConfig) -> Adapter:
    """Make the adapter that a configuration names.

    :raises NotFoundError: if nothing answers to the name; the message lists the names that are known
    :raises UnsupportedError: if the distribution that offers it cannot be loaded
    :raises InvalidError: if the adapter refuses its settings
    """
    if not is_a(config, AdapterConfig):
        raise InvalidError(f"configuration: found {short(config)}, expected an AdapterConfig")
    return await _factory(config.adapter)(config)


def _factory(name: str) -> Factory:
    if name in _factories:
        return _factories[name]
    for offered in entry_points(group=ENTRY_POINTS, name=name):
        return _load(offered)
    raise NotFoundError(f"no adapter is named {name!r}; known are: {', '.join(registered())}")


def _load(offered: EntryPoint) -> Factory:
    source = f"adapter {offered.name!r} of distribution {offered.dist.name if offered.dist else '(unknown)'!r}"
    try:
        factory = offered.load()
    except Exception as error:
        raise UnsupportedError(f"{source} cannot be loaded: {error!r}") from error
    if not callable(factory):
        raise UnsupportedError(f"{source} is {short(factory)}, expected a callable")
    return factory  # type: ignore[no-any-return]  # what it makes is the distribution's promise
