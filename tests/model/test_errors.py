"""The errors of 1.2: what each of them also is, and that they travel."""

import copy
import pickle
from typing import Any

import pytest

import dispatch_memory_async as dma
from dispatch_memory_async import DispatchError, InvalidError, StaleError, WrongStateError
from dispatch_memory_async.model import errors

PARENTS: dict[str, tuple[type[BaseException], ...]] = {
    "DispatchError": (Exception,),
    "InvalidError": (DispatchError, ValueError),
    "NotFoundError": (DispatchError, LookupError),
    "AlreadyExistsError": (DispatchError,),
    "AmbiguousError": (DispatchError, LookupError),
    "WrongStateError": (DispatchError,),
    "FinishedError": (WrongStateError,),
    "RunningError": (WrongStateError,),
    "PendingError": (WrongStateError,),
    "HeldError": (WrongStateError,),
    "StaleError": (DispatchError,),
    "ExpiredError": (DispatchError, TimeoutError),
    "UnsupportedError": (DispatchError,),
    "UnavailableError": (DispatchError,),
    "OutcomeUnknownError": (DispatchError,),
    "CrashedError": (dma.OutcomeUnknownError,),
    "ReadOnlyError": (DispatchError, PermissionError),
    "ClosedError": (DispatchError,),
}
KINDS: dict[str, Any] = {name: getattr(errors, name) for name in PARENTS}


def made(name: str) -> DispatchError:
    error = KINDS[name](f"{name} of a test", *((7,) if name == "StaleError" else ()))
    assert isinstance(error, DispatchError)
    return error


def test_there_are_no_others() -> None:
    """1.2: the table is complete."""
    found = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DispatchError)}
    assert found == set(PARENTS) == set(errors.__all__)


@pytest.mark.parametrize("name", PARENTS)
def test_what_each_also_is(name: str) -> None:
    """1.2: exactly the bases of the table, so that `except WrongStateError` catches four and not `StaleError`."""
    assert KINDS[name].__bases__ == PARENTS[name]
    assert KINDS[name] is getattr(dma, name)


def test_wrong_state_is_the_base_of_four() -> None:
    """1.2."""
    below = {name for name, kind in KINDS.items() if issubclass(kind, WrongStateError)}
    assert below == {"WrongStateError", "FinishedError", "RunningError", "PendingError", "HeldError"}


@pytest.mark.parametrize("name", PARENTS)
def test_they_carry_their_message_everywhere(name: str) -> None:
    """1.2: through every pickle protocol, a copy and a deep copy, with what else they carry."""
    error = made(name)
    travelled = [pickle.loads(pickle.dumps(error, number)) for number in range(pickle.HIGHEST_PROTOCOL + 1)]  # noqa: S301  # our own
    for again in (error, *travelled, copy.copy(error), copy.deepcopy(error)):
        assert type(again) is KINDS[name]
        assert str(again) == f"{name} of a test"
        if isinstance(again, StaleError):
            assert again.current == 7


def test_a_note_travels_too() -> None:
    """1.2: as with any exception."""
    error = made("StaleError")
    error.add_note("seen in a test")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["seen in a test"]  # noqa: S301  # our own


def test_stale_says_the_current_instance() -> None:
    """1.2: carries `.current`; its text is the message alone."""
    error = StaleError("held by instance 7, found 3", 7)
    assert (error.current, str(error)) == (7, "held by instance 7, found 3")
    assert "held by instance 7" in repr(error)


def test_invalid_is_what_a_decoder_takes_for_a_bad_value() -> None:
    """1.2: `InvalidError` is a `ValueError`, so that code which knows only that one catches it."""
    with pytest.raises(ValueError, match="duration"):
        dma.parse_duration("no duration")
    assert issubclass(InvalidError, ValueError)
