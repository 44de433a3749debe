"""Every module says what it offers: `__all__` is a sorted tuple, whole, and the root hands on what users need (2)."""

import ast
import importlib
import inspect
import logging
import pkgutil
from importlib.resources import files
from types import ModuleType

import pytest

import dispatch_memory_async
from dispatch_memory_async import following, memory, model, registry, spi

ROOT = dispatch_memory_async.__name__
NAMES = [found.name for found in pkgutil.walk_packages(dispatch_memory_async.__path__, f"{ROOT}.")]
MODULES = [
    dispatch_memory_async,
    *(importlib.import_module(name) for name in NAMES if not name.endswith("__main__")),  # a script offers nothing
]
FLOORS = (dispatch_memory_async, model, spi, registry, following, memory)

USERS = {  # section 2
    "Backend",
    "View",
    "Config",
    "Shape",
    "call_start",
    "crash_between_steps",
    "resubscribing",
    "until",
    "decode_settings",
    "encode_settings",
    "AdapterConfig",
    "open_adapter",
    "register",
    "NAME",
}
VALUES = {  # 1.1
    *("State", "Cause", "Tristate", "Source", "Support", "Capability", "Action", "Capabilities", "Resources", "Job"),
    *("Ref", "Observation", "CallMeta", "HoldMeta", "ReleaseMeta", "Cessation", "Rule", "Policy", "UnmatchedPolicy"),
    *("NativePolicy", "EPOCH_BOUND", "HOLD_BASE", "NAMESPACE", "RESERVED_ENV_PREFIX", "epoch", "split_epoch"),
    *("parse_duration", "format_duration", "enc_hook", "dec_hook"),
}
ERRORS = {  # 1.2
    *("DispatchError", "InvalidError", "NotFoundError", "AlreadyExistsError", "AmbiguousError", "WrongStateError"),
    *("FinishedError", "RunningError", "PendingError", "HeldError", "StaleError", "ExpiredError", "UnsupportedError"),
    *("UnavailableError", "OutcomeUnknownError", "CrashedError", "ReadOnlyError", "ClosedError"),
}
PROTOCOLS = {  # 1.3
    *("Adapter", "Holder", "Requeuer", "NativePolicyCompiler", "Watcher", "Watch", "CessationSignal"),
    *("IdentityWeakener", "MultiFinder", "OutputReader"),
}
REGISTRY = {"register", "registered", "open_adapter", "AdapterConfig", "Factory"}  # 1.4


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by the alphabet."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def name_of(module: ModuleType) -> str:
    return module.__name__


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_all_is_a_sorted_tuple_of_what_is_there(module: ModuleType) -> None:
    names: tuple[str, ...] = vars(module)["__all__"]
    assert isinstance(names, tuple)
    assert len(set(names)) == len(names)
    assert list(names) == sorted(names, key=order)
    for name in names:
        assert hasattr(module, name), name


@pytest.mark.parametrize("module", FLOORS, ids=name_of)
def test_all_is_complete(module: ModuleType) -> None:
    """Whatever public class or function a floor defines, or gathers from below and does not use itself, is offered."""
    package = module.__name__ if hasattr(module, "__path__") else None
    used = {node.id for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Name)}
    for name, found in vars(module).items():
        if name.startswith("_") or not (inspect.isclass(found) or inspect.isfunction(found)):
            continue
        if package and name in used:
            continue
        home = found.__module__
        if home == module.__name__ or (package and home.startswith(f"{package}.")):
            assert name in module.__all__, name


def test_the_root_hands_on_all_that_users_need() -> None:
    """2: the names of the list, the values, the errors, the protocols, the registry."""
    expected = USERS | VALUES | ERRORS | PROTOCOLS | REGISTRY
    assert expected <= set(dispatch_memory_async.__all__)


def test_the_floors_offer_what_the_spec_puts_there() -> None:
    """1.1 to 1.4."""
    assert set(model.__all__) >= VALUES | ERRORS
    assert set(spi.__all__) == PROTOCOLS
    assert set(registry.__all__) >= REGISTRY
    assert set(following.__all__) >= {"resubscribing", "until"}
    assert set(memory.__all__) >= {
        "Backend",
        "View",
        "Config",
        "Shape",
        "NAME",
        "Env",
        "Truth",
        "Execution",
        "CallRecord",
    }


def test_the_root_hands_on_the_very_things() -> None:
    """2: not look-alikes."""
    for floor in FLOORS[1:]:
        for name in set(floor.__all__) & set(dispatch_memory_async.__all__):
            assert getattr(dispatch_memory_async, name) is getattr(floor, name), name


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_everything_public_has_a_docstring(module: ModuleType) -> None:
    """US-8: every module, and every class and function that is offered."""
    assert module.__doc__
    for name in module.__all__:
        found = getattr(module, name)
        if (inspect.isclass(found) or inspect.isfunction(found)) and found.__module__.startswith(ROOT):
            assert found.__doc__, name


def test_the_package_says_that_it_is_typed() -> None:
    """US-1."""
    assert files(ROOT).joinpath("py.typed").is_file()


def test_logging_is_silent_by_default() -> None:
    """US-10."""
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger(ROOT).handlers)
