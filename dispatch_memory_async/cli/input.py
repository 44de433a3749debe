"""What commands have in common: reading a file or standard input, and saying that something is bad."""

import sys
from pathlib import Path

__all__ = ("STANDARD_INPUT", "BadUseError", "read", "refuse")

STANDARD_INPUT = "-"


class BadUseError(Exception):
    """What was asked for cannot be done; the message is for whoever typed it."""


def read(name: str) -> bytes:
    """What a file holds, or standard input.

    :raises BadUseError: if it cannot be read
    """
    try:
        return sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        raise BadUseError(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def refuse(command: str, message: object) -> int:
    """Say that a command is used badly.

    :param command: which; empty for any
    :return: the exit status
    """
    program = f"dispatch-memory {command}".strip()
    print(f"{program}: error: {message}", file=sys.stderr)  # noqa: T201
    return 2
