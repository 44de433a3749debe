"""``dispatch-memory settings``: the memory adapter's settings, validated and printed with their defaults."""

import argparse
import json
from collections.abc import Callable

from ..memory import decode_settings, encode_settings
from ..model import InvalidError
from .input import BadUseError, read, refuse

__all__ = ("add_to",)

DESCRIPTION = "Validates settings of the memory adapter, and prints them as JSON, the defaults filled in."


def add_to(commands: Callable[..., argparse.ArgumentParser]) -> None:
    """Add this command.

    :param commands: makes the parser of a command, see ``add_parser``
    """
    parser = commands("settings", help="validate settings and print them with defaults", description=DESCRIPTION)
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="settings as JSON; - is standard input (without it: the defaults)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the settings."""
    try:
        config = decode_settings(read(arguments.file) if arguments.file else "{}")
    except InvalidError as error:
        return refuse("settings", f"{arguments.file}: {error}")
    except BadUseError as error:
        return refuse("settings", error)
    print(json.dumps(json.loads(encode_settings(config)), indent=2))  # noqa: T201
    return 0
