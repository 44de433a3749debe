"""Faults: replies of the SPI that are replaced by an error, with or without the effect."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeVar

from ..model import DispatchError, InvalidError, format_duration
from ..model.texts import is_a, short
from .truth import CallRecord

__all__ = ("CALLS", "Effect", "Fault", "check_fault", "without_trace")

Effect = Literal["none", "kept", "late"]
EFFECTS: tuple[Effect, ...] = ("none", "kept", "late")

CALLS = (
    "capabilities",
    "start",
    "open",
    "get",
    "find",
    "stop",
    "hold",
    "release",
    "requeue",
    "restore_requeue_bit",
    "compile_policy",
    "cessation",
    "weaken_identity",
    "find_many",
)
"""The calls of the SPI into which a fault can be injected."""

E = TypeVar("E", bound=DispatchError)


@dataclass(slots=True)
class Fault:
    """What is injected into the next calls of one name.

    :ivar call: the name of the calls
    :ivar error: what they raise
    :ivar effect: ``none``: before anything happened; ``kept``: after it did; ``late``: before it does
    :ivar after: how much later it does
    :ivar times: how many calls are still to be struck
    :ivar when: which of them
    """

    call: str
    error: DispatchError
    effect: Effect
    after: timedelta | None
    times: int
    when: Callable[[CallRecord], bool] | None

    def strikes(self, record: CallRecord) -> bool:
        """Whether this is a call that it was meant for.

        :raises InvalidError: if ``when`` raises
        """
        try:
            return self.when is None or bool(self.when(record))
        except Exception as error:
            raise InvalidError(f"when: raised {short(error)} for {record!r}") from error


def check_fault(fault: Fault, call_bound: timedelta) -> None:
    """Refuse a fault that could never strike, or one that would let a call land later than any does.

    :raises InvalidError: if a field is not what it should be
    """
    if type(fault.call) is not str or fault.call not in CALLS:
        raise InvalidError(f"call: found {short(fault.call)}, expected one of {', '.join(CALLS)}")
    if not is_a(fault.error, DispatchError):
        raise InvalidError(f"error: found {short(fault.error)}, expected a DispatchError")
    if type(fault.effect) is not str or fault.effect not in EFFECTS:
        raise InvalidError(f"effect: found {short(fault.effect)}, expected one of {', '.join(EFFECTS)}")
    if fault.effect != "late":
        if fault.after is not None:
            raise InvalidError(f"after: found {short(fault.after)} with effect {fault.effect}, expected None")
    elif fault.after is None or not is_a(fault.after, timedelta) or not timedelta(0) < fault.after <= call_bound:
        bound = f"above 0 and at most {format_duration(call_bound)}, the call_bound"
        raise InvalidError(f"after: found {short(fault.after)}, expected a timedelta {bound}")
    if type(fault.times) is not int or fault.times < 1:
        raise InvalidError(f"times: found {short(fault.times)}, expected an integer of at least 1")
    if fault.when is not None and not callable(fault.when):
        raise InvalidError(f"when: found {short(fault.when)}, expected a callable or None")


def without_trace(error: E) -> E:
    """The same error without its trace, which would keep the caller's frames alive for as long as the log."""
    bare = type(error).__new__(type(error), *error.args)
    bare.args = error.args
    bare.__dict__.update(error.__dict__)
    return bare
