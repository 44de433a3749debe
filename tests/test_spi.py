"""The protocols of 1.3: which of them the memory adapter carries out, and that its calls look as they say."""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, get_args, get_origin, get_type_hints

import pytest

from dispatch_memory_async import (
    Adapter,
    Backend,
    CessationSignal,
    Config,
    Holder,
    IdentityWeakener,
    MultiFinder,
    NativePolicyCompiler,
    OutputReader,
    Requeuer,
    Shape,
    View,
    Watch,
    Watcher,
    spi,
)
from dispatch_memory_async.memory import MemoryWatch
from tests.support import Clock, backend

MEMBERS: dict[Any, set[str]] = {
    Adapter: {"capabilities", "start", "open", "get", "find", "stop", "aclose"},
    Holder: {"hold", "release"},
    Requeuer: {"requeue", "restore_requeue_bit"},
    NativePolicyCompiler: {"compile_policy"},
    Watcher: {"watch"},
    Watch: {"synced", "closed_by", "__aiter__", "__anext__", "__aenter__", "__aexit__", "aclose"},
    CessationSignal: {"cessation"},
    IdentityWeakener: {"weaken_identity"},
    MultiFinder: {"find_many"},
    OutputReader: {"read_output"},
}
OPTIONAL = (Holder, Requeuer, NativePolicyCompiler, Watcher, CessationSignal, IdentityWeakener, MultiFinder)
PLAIN = {"watch", "read_output", "__aiter__"}
"""Every call is a coroutine but these."""


def members(protocol: Any) -> set[str]:
    own: dict[str, Any] = protocol.__dict__
    return {
        name
        for name, member in own.items()
        if inspect.isfunction(member) or isinstance(member, property)
        if name not in {"__init__", "__subclasshook__"}
    }


def test_the_protocols_are_these() -> None:
    """1.3: ten, each runtime-checkable, each with exactly these members."""
    assert set(spi.__all__) == {protocol.__name__ for protocol in MEMBERS}
    for protocol, names in MEMBERS.items():
        assert Protocol in protocol.__bases__
        assert members(protocol) == names
        isinstance(object(), protocol)  # would be a TypeError


def test_a_backend_and_a_view_are_an_adapter_with_seven_of_the_eight(shape: Shape) -> None:
    """2: all but `OutputReader`, in both shapes, read-only or not."""
    b = backend(shape, Clock())
    for client in (b, b.view(), b.view(read_only=True)):
        assert isinstance(client, Adapter)
        for protocol in OPTIONAL:
            assert isinstance(client, protocol)
        assert not isinstance(client, OutputReader)
    assert isinstance(b.watch(), Watch)


@pytest.mark.parametrize("missing", [(protocol, name) for protocol in MEMBERS for name in sorted(MEMBERS[protocol])])
def test_a_protocol_needs_each_of_its_members(missing: tuple[Any, str]) -> None:
    """1.3: `isinstance` tells an adapter without that call apart."""
    protocol, left_out = missing

    def call(self: object) -> None: ...

    whole = type("Whole", (), dict.fromkeys(MEMBERS[protocol], call))
    assert isinstance(whole(), protocol)
    lacking = type("Lacking", (), dict.fromkeys(MEMBERS[protocol] - {left_out}, call))
    assert not isinstance(lacking(), protocol)


CALLS = [(protocol, name) for protocol in MEMBERS for name in sorted(MEMBERS[protocol] - {"synced", "closed_by"})]


def shown(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("protocol", "name"), CALLS)
def test_the_calls_look_as_the_protocols_say(protocol: Any, name: str) -> None:
    """1.3: the same parameters, in name, order, kind and default; coroutines where it says so."""
    promised = getattr(protocol, name)
    assert inspect.iscoroutinefunction(promised) is (name not in PLAIN)
    for kind in {Watch: (MemoryWatch,), OutputReader: ()}.get(protocol, (Backend, View)):
        carried_out = getattr(kind, name)
        assert inspect.iscoroutinefunction(carried_out) is (name not in PLAIN)
        assert shown(carried_out) == shown(promised)
        if name not in {"watch", "__aiter__", "__aenter__"}:
            assert get_type_hints(carried_out) == get_type_hints(promised)


WRITES: dict[Any, dict[str, dict[str, object]]] = {
    Adapter: {
        "start": {"job": ..., "submission": ..., "native": None, "deadline": None},
        "open": {"ref": ..., "deadline": None},
        "stop": {"ref": ..., "deadline": None},
        "get": {"ref": ...},
        "find": {"job_id": ...},
        "capabilities": {},
    },
    Holder: {"hold": {"ref": ..., "meta": ...}, "release": {"ref": ..., "meta": ...}},
    Requeuer: {"requeue": {"ref": ..., "meta": ...}, "restore_requeue_bit": {"ref": ..., "meta": ...}},
    NativePolicyCompiler: {"compile_policy": {"policy": ...}},
    CessationSignal: {"cessation": {"what": ...}},
    IdentityWeakener: {"weaken_identity": {"ref": ...}},
    MultiFinder: {"find_many": {"job_ids": ...}},
    OutputReader: {"read_output": {"ref": ..., "offset": 0}},
}


@pytest.mark.parametrize(("protocol", "name"), [(protocol, name) for protocol in WRITES for name in WRITES[protocol]])
def test_parameters(protocol: Any, name: str) -> None:
    """1.3: names and defaults; what has a default is given by name alone."""
    _, *parameters = inspect.signature(getattr(protocol, name)).parameters.values()
    expected = WRITES[protocol][name]
    assert {each.name: ... if each.default is each.empty else each.default for each in parameters} == expected
    for each in parameters:
        assert (each.kind is each.KEYWORD_ONLY) is (each.default is not each.empty)


def test_the_types_of_a_few() -> None:
    """1.3: a deadline may be left out; why a watch ended is one of three words."""
    deadline = get_type_hints(Adapter.start)["deadline"]
    assert set(get_args(deadline)) == {datetime, type(None)}
    reasons = get_type_hints(Watch.closed_by.fget)["return"]  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]
    words = {word for part in get_args(reasons) for word in (get_args(part) if get_origin(part) else (part,))}
    assert words == {"overflow", "cancelled", "closed", type(None)}


def test_backend_takes_what_the_spec_says() -> None:
    """2: `Backend(config=None, *, clock=..., keep_history=None)`; `Backend()` is a Slurm with defaults."""
    _, config, clock, keep = inspect.signature(Backend.__init__).parameters.values()
    assert (config.name, config.default, config.kind) == ("config", None, config.POSITIONAL_OR_KEYWORD)
    assert (clock.name, clock.kind) == ("clock", clock.KEYWORD_ONLY)
    assert (keep.name, keep.default, keep.kind) == ("keep_history", None, keep.KEYWORD_ONLY)
    assert Backend().config == Config()
    assert Config().shape is Shape.SLURM
