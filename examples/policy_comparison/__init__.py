"""Recovery policies compared on a trace: what each would have made of the same days on the same failing nodes."""

from .comparison import POLICIES, comparison

__all__ = ("POLICIES", "comparison")
