"""An adapter for a real Slurm by its commands, to start from: see README.md."""

from .adapter import Settings, SlurmAdapter
from .commands import Commands

__all__ = ("Commands", "Settings", "SlurmAdapter")
