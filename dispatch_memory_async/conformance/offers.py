"""Harnesses by name: those that distributions offer for the adapters that they bring."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from ..model import DispatchError, NotFoundError, UnsupportedError
from ..registry import AdapterConfig, registered
from .harness import Harness

__all__ = ("ENTRY_POINTS", "HarnessFactory", "harness_for", "offered")

ENTRY_POINTS = "dispatch_memory_async.harnesses"
"""The entry-point group in which distributions offer a :data:`HarnessFactory`, under their adapter's name."""

HarnessFactory = Callable[[AdapterConfig], Harness]
"""Makes the harness of the adapter that a configuration names."""


def offered() -> tuple[str, ...]:
    """The names for which there is a harness, in alphabetical order; nothing is loaded for it."""
    return tuple(sorted(entry_points(group=ENTRY_POINTS).names))


def harness_for(config: AdapterConfig) -> Harness:
    """Make the harness of the adapter that a configuration names.

    :raises NotFoundError: if none is offered under that name; the message lists those that are
    :raises UnsupportedError: if what is offered cannot be loaded, or makes no harness
    :raises InvalidError: if the adapter refuses its settings
    """
    for offer in entry_points(group=ENTRY_POINTS, name=config.adapter):
        return _made(offer, config)
    known = f"harnesses are offered for: {', '.join(offered()) or 'none'}"
    if config.adapter in registered():
        raise NotFoundError(f"adapter {config.adapter!r} has no harness: no distribution offers one; {known}")
    raise NotFoundError(f"no adapter is named {config.adapter!r}; {known}")


def _made(offer: EntryPoint, config: AdapterConfig) -> Harness:
    source = f"harness {offer.name!r} of distribution {offer.dist.name if offer.dist else '(unknown)'!r}"
    try:
        factory = offer.load()
    except Exception as error:
        raise UnsupportedError(f"{source} cannot be loaded: {error!r}") from error
    try:
        harness = factory(config)
    except DispatchError:
        raise
    except Exception as error:
        raise UnsupportedError(f"{source} cannot be made: {error!r}") from error
    if not isinstance(harness, Harness):
        raise UnsupportedError(f"{source} is a {type(harness).__name__}, expected a Harness")
    return harness
