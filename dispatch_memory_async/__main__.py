"""``python -m dispatch_memory_async``: the command line without its script."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
