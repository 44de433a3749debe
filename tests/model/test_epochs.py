"""Epochs (1.1): one number over all executions of a job, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_memory_async import InvalidError, epoch, split_epoch
from tests.model.samples import PROPERTY

NUMBERS = st.integers(0, 999_999)


@pytest.mark.parametrize(
    ("submission", "restart", "number"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 1_000_000),
        (1, 2, 1_000_002),
        (0, 999_999, 999_999),
        (999_999, 999_999, 999_999_999_999),
    ],
)
def test_worked_out(submission: int, restart: int, number: int) -> None:
    """1.1: `submission * EPOCH_BOUND + restart`."""
    assert epoch(submission, restart) == number
    assert split_epoch(number) == (submission, restart)


@given(first=st.tuples(NUMBERS, NUMBERS), second=st.tuples(NUMBERS, NUMBERS))
@PROPERTY
def test_it_rises_over_the_executions_and_is_undone(first: tuple[int, int], second: tuple[int, int]) -> None:
    """1.1: a later submission, and a later restart within one, has the higher epoch."""
    assert (epoch(*first) < epoch(*second)) is (first < second)
    assert split_epoch(epoch(*first)) == first


@pytest.mark.parametrize(
    "wrong", [-1, 1_000_000, 10**5000, -(10**5000), True, False, 1.0, "1", None, b"1", [1], object()], ids=type
)
def test_out_of_bounds(wrong: object) -> None:
    """1.1: both lie in `[0, EPOCH_BOUND)`; the message names the one that does not."""
    with pytest.raises(InvalidError, match="submission"):
        epoch(wrong, 0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidError, match="restart"):
        epoch(0, wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", [-1, 10**12, 10**5000, True, 1.0, "1", None, object()], ids=type)
def test_no_epoch(wrong: object) -> None:
    """1.1: what `epoch` never gives has no parts."""
    with pytest.raises(InvalidError, match="epoch"):
        split_epoch(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
