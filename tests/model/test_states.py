"""States, causes, and the other enums of 1.1: every member, its text, and the order of neither."""

from enum import StrEnum

import msgspec
import pytest

from dispatch_memory_async import (
    Action,
    Capability,
    Cause,
    Shape,
    Source,
    State,
    Tristate,
    UnmatchedPolicy,
)

ENUMS: dict[type[StrEnum], dict[str, str]] = {
    State: {
        "PENDING": "Pending",
        "RUNNING": "Running",
        "SUCCEEDED": "Succeeded",
        "FAILED": "Failed",
        "CANCELLED": "Cancelled",
        "GONE": "Gone",
    },
    Cause: {
        "GATED": "Gated",
        "HELD": "Held",
        "ADMIN_HELD": "AdminHeld",
        "NO_CAPACITY": "NoCapacity",
        "REQUEUED": "Requeued",
        "PREEMPTED": "Preempted",
        "NODE_LOST": "NodeLost",
        "OUT_OF_MEMORY": "OutOfMemory",
        "TIMEOUT": "Timeout",
        "NON_ZERO_EXIT": "NonZeroExit",
        "LAUNCH_FAILED": "LaunchFailed",
        "STOPPED": "Stopped",
        "UNKNOWN": "Unknown",
    },
    Tristate: {"YES": "yes", "NO": "no", "UNKNOWN": "unknown"},
    Source: {"PROBED": "probed", "DECLARED": "declared", "CONFIGURED": "configured", "ASSUMED": "assumed"},
    Capability: {
        "ACCOUNTING_HISTORY": "AccountingHistory",
        "GATED_START": "GatedStart",
        "HOLD": "Hold",
        "HOLD_RUNNING": "HoldRunning",
        "REQUEUE": "Requeue",
        "WATCH": "Watch",
        "CESSATION": "Cessation",
        "OUTPUT": "Output",
    },
    Action: {"RESTART": "restart", "HOLD": "hold", "FAIL": "fail"},
    UnmatchedPolicy: {"HOLD": "hold", "FAIL": "fail"},
    Shape: {"SLURM": "slurm", "KUBEFLOW": "kubeflow"},
}


@pytest.mark.parametrize("kind", ENUMS)
def test_members_and_texts(kind: type[StrEnum]) -> None:
    """1.1, 2.1: a `StrEnum` of exactly these members."""
    assert {name: str(member) for name, member in kind.__members__.items()} == ENUMS[kind]
    for text in ENUMS[kind].values():
        assert kind(text) == text


@pytest.mark.parametrize("kind", ENUMS)
def test_decoding_takes_these_texts_and_no_other(kind: type[StrEnum]) -> None:
    """1.1: an unknown name, another case and a member's Python name are refused."""
    for name, text in ENUMS[kind].items():
        encoded = msgspec.json.encode(kind(text))
        assert encoded == f'"{text}"'.encode()
        assert msgspec.json.decode(encoded, type=kind) is kind[name]
        for wrong in (text.swapcase(), name if name != text else f"{name} ", f" {text}", text[:-1]):
            with pytest.raises(msgspec.ValidationError):
                msgspec.json.decode(msgspec.json.encode(wrong), type=kind)


@pytest.mark.parametrize("state", State)
def test_ended(state: State) -> None:
    """1.1: an object that is gone has not thereby ended."""
    assert state.ended is (state in {State.SUCCEEDED, State.FAILED, State.CANCELLED})


@pytest.mark.parametrize("cause", Cause)
def test_pod_derived(cause: Cause) -> None:
    """1.1, KF-6: three causes are read off the pod."""
    assert cause.pod_derived is (cause in {Cause.NODE_LOST, Cause.OUT_OF_MEMORY, Cause.NON_ZERO_EXIT})
