"""How a check says that something is wrong, or that it cannot be made."""

from ..model import Observation

__all__ = ("CheckFailed", "CheckSkipped")


class CheckFailed(Exception):  # noqa: N818  # what it says reads so
    """A check has found a fault.

    :ivar expected: what should have been
    :ivar seen: what was
    :ivar observation: the object, as last seen
    """

    def __init__(self, expected: str, seen: str, observation: Observation | None = None) -> None:
        super().__init__(expected, seen, observation)
        self.expected = expected
        self.seen = seen
        self.observation = observation

    def __str__(self) -> str:
        lines = [f"expected: {self.expected}", f"seen:     {self.seen}"]
        if self.observation is not None:
            lines.append(f"object:   {self.observation!r}")
        return "\n".join(lines)


class CheckSkipped(Exception):  # noqa: N818  # what it says reads so
    """A check sees, as it runs, that something is not there which it needs."""
