"""Epochs: one rising number over all executions of a job, with which writers can be fenced."""

from .errors import InvalidError
from .kinds import EPOCH_BOUND
from .texts import short

__all__ = ("epoch", "split_epoch")


def epoch(submission: int, restart: int) -> int:
    """The epoch of one execution.

    :param submission: the number N of the submission, in ``[0, EPOCH_BOUND)``
    :param restart: the number R of the execution within it, in ``[0, EPOCH_BOUND)``
    :raises InvalidError: if either lies outside
    """
    return _within("submission", submission, EPOCH_BOUND) * EPOCH_BOUND + _within("restart", restart, EPOCH_BOUND)


def split_epoch(number: int) -> tuple[int, int]:
    """The submission and the restart of which :func:`epoch` made this number.

    :raises InvalidError: if it made no such number
    """
    return divmod(_within("epoch", number, EPOCH_BOUND**2), EPOCH_BOUND)


def _within(name: str, number: int, bound: int) -> int:
    if type(number) is not int or not 0 <= number < bound:
        raise InvalidError(f"{name}: found {short(number)}, expected an integer in [0, {bound})")
    return number
