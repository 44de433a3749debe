"""The errors of the SPI, each named after what is the matter, and nothing else escapes it."""

__all__ = (
    "AlreadyExistsError",
    "AmbiguousError",
    "ClosedError",
    "CrashedError",
    "DispatchError",
    "ExpiredError",
    "FinishedError",
    "HeldError",
    "InvalidError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PendingError",
    "ReadOnlyError",
    "RunningError",
    "StaleError",
    "UnavailableError",
    "UnsupportedError",
    "WrongStateError",
)


class DispatchError(Exception):
    """The root of all errors of this library.

    The message says which object or field it is about, what was found and what was expected. Two errors of one class
    with the same contents are equal, so that call records can be compared.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchError) and (type(self), self.args) == (type(other), other.args)

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class InvalidError(DispatchError, ValueError):
    """An argument, a setting or a ref is bad. Nothing changed."""


class NotFoundError(DispatchError, LookupError):
    """No object answers to that ref (or no adapter to that name)."""


class AlreadyExistsError(DispatchError):
    """The name is in use. On Kubeflow it means that an earlier start of the same submission landed."""


class AmbiguousError(DispatchError, LookupError):
    """A weak ref matches more than one object."""


class WrongStateError(DispatchError):
    """The object's state forbids it. Nothing changed."""


class FinishedError(WrongStateError):
    """The object has ended."""


class RunningError(WrongStateError):
    """It cannot be done to a running object."""


class PendingError(WrongStateError):
    """It cannot be done to a pending object."""


class HeldError(WrongStateError):
    """An administrator's hold forbids it."""


class StaleError(DispatchError):
    """The hold instance that was named is not the one in force.

    :ivar current: the instance in force, where it is known
    """

    def __init__(self, message: str, current: int | None = None) -> None:
        super().__init__(message, current)
        self.current = current

    def __str__(self) -> str:
        return str(self.args[0])


class ExpiredError(DispatchError, TimeoutError):
    """The call's command started after its deadline. Nothing was done."""


class UnsupportedError(DispatchError):
    """This adapter, or this cluster, cannot do it."""


class UnavailableError(DispatchError):
    """The scheduler cannot serve the call now. Nothing changed; try later."""


class OutcomeUnknownError(DispatchError):
    """The effect may have landed or not, or may still land: look, do not assume."""


class CrashedError(OutcomeUnknownError):
    """The caller crashed between the steps of a requeue; the requeue bit is left set."""


class ReadOnlyError(DispatchError, PermissionError):
    """A change was asked of a read-only view."""


class ClosedError(DispatchError):
    """The backend, the view or the watch is closed."""
