"""The memory adapter: one store, two shapes, one environment. It is for tests, not for production."""

from ..registry import AdapterConfig
from .backend import Backend, ReadOnlyBackend, View
from .config import Config, Shape
from .env import Env
from .injection import call_start, crash_between_steps
from .settings import decode_settings, encode_settings
from .truth import CallRecord, Execution, Truth
from .watch import MemoryWatch

__all__ = (
    "NAME",
    "Backend",
    "CallRecord",
    "Config",
    "Env",
    "Execution",
    "MemoryWatch",
    "Shape",
    "Truth",
    "View",
    "call_start",
    "crash_between_steps",
    "decode_settings",
    "encode_settings",
    "open_memory",
)

NAME = "memory"
"""The name under which this adapter is registered."""


async def open_memory(config: AdapterConfig) -> Backend:
    """The registry's factory: a new backend, whose life ends with the ``aclose`` of what is returned."""
    kind = ReadOnlyBackend if config.read_only else Backend
    return kind(decode_settings(config.settings))
