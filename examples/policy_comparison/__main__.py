"""``python -m examples.policy_comparison [TRACE]``: prints the table."""

import sys
from pathlib import Path

import anyio

from .comparison import TRACE, comparison

print(anyio.run(comparison, Path(sys.argv[1]) if sys.argv[1:] else TRACE))
