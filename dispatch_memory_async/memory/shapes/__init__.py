"""The shapes: one module for each scheduler that the adapter can behave like."""

from collections.abc import Mapping
from types import MappingProxyType

from ..config import Shape
from .base import Scheduler
from .kubeflow import Kubeflow
from .slurm import Slurm

__all__ = ("SHAPES", "Scheduler")

SHAPES: Mapping[Shape, type[Scheduler]] = MappingProxyType({Shape.SLURM: Slurm, Shape.KUBEFLOW: Kubeflow})
"""The scheduler of each shape."""
