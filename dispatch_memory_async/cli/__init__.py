"""The command line: ``dispatch-memory``, and ``python -m dispatch_memory_async``."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from . import conformance, demo, settings, simulate
from .input import refuse

__all__ = ("main",)

EPILOG = """\
exit status:
  0    all is well
  1    something was found: what should agree does not
  2    bad use: an option, a file or a line in it
  130  interrupted (Ctrl-C); what was done until then is told

Run "dispatch-memory COMMAND --help" for a command's own options."""

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    :param argv: the arguments after the program's name; without them the process's own
    :return: the exit status
    """
    parser = argparse.ArgumentParser(
        prog="dispatch-memory",
        description="An in-memory job scheduler, in the shape of Slurm or of Kubeflow, on the command line.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('dispatch-memory-async')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command in (demo, simulate, conformance, settings):
        command.add_to(commands.add_parser)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="backslashreplace")  # a job's name may be more than the terminal can show
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    status = 0
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
    except* KeyboardInterrupt:
        status = INTERRUPTED
    except* BrokenPipeError:
        # whoever read the output has gone: nothing is left to say, not even by the interpreter's own last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BROKEN_PIPE
    except* OSError as errors:  # the device that the output goes to is full, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = refuse("", f"the output cannot be written: {errors.exceptions[0]}")
    return status
