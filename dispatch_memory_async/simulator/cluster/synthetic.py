"""Synthetic mixes: workloads made up from a seed, the same for the same seed everywhere."""

from datetime import timedelta
from math import log
from random import Random

from ...model import InvalidError
from ...model.texts import short
from .work import Outcome, Work

__all__ = ("synthetic",)

SHORTEST, LONGEST = 60, 24 * 3600
"""Seconds that a job runs; evenly spread in orders of magnitude, as in recorded traces short jobs are the most."""
ASKED = (1.0, 1.5, 2.0, 4.0)
"""How many times what they need users ask for."""
FAILING, URGENT = 0.05, 0.05
"""The share of jobs that fail by themselves, and of those that may preempt the others."""


def synthetic(*, seed: int, jobs: int, nodes: int, load: float = 0.7) -> tuple[Work, ...]:
    """A mix of jobs.

    They come at random, independently of each other. Most are small and short; sizes are powers of two up to half the
    cluster; what they ask for is what they need or up to four times as much. One in twenty fails by itself, one in
    twenty is urgent (priority 1).

    :param seed: what makes it this mix and no other
    :param jobs: how many
    :param nodes: how many nodes the cluster is meant to have
    :param load: which share of these the mix would keep busy
    :raises InvalidError: if there are no jobs or nodes, or the load is not more than 0
    """
    for name, found in (("jobs", jobs), ("nodes", nodes)):
        if type(found) is not int or found < 1:
            raise InvalidError(f"{name}: found {short(found)}, expected a number from 1 on")
    if not load > 0:
        raise InvalidError(f"load: found {short(load)}, expected more than 0")
    draw = Random(seed)  # noqa: S311  # nothing is kept secret
    sizes = [2**power for power in range(max(nodes // 2, 1).bit_length())]
    weights = [1 / (place + 1) for place in range(len(sizes))]
    apart = _mean_runtime() * _mean(sizes, weights) / nodes / load
    submit = 0.0
    made: list[Work] = []
    for number in range(1, jobs + 1):
        submit += draw.expovariate(1 / apart)
        runtime = round(SHORTEST * (LONGEST / SHORTEST) ** draw.random())
        made.append(
            Work(
                number=number,
                submit=timedelta(seconds=round(submit)),
                nodes=draw.choices(sizes, weights)[0],
                runtime=timedelta(seconds=runtime),
                requested=timedelta(seconds=round(runtime * draw.choice(ASKED))),
                priority=int(draw.random() < URGENT),
                outcome=Outcome.FAILS if draw.random() < FAILING else Outcome.SUCCEEDS,
            )
        )
    return tuple(made)


def _mean_runtime() -> float:
    """Of what is spread evenly in orders of magnitude."""
    return (LONGEST - SHORTEST) / log(LONGEST / SHORTEST)


def _mean(sizes: list[int], weights: list[float]) -> float:
    return sum(size * weight for size, weight in zip(sizes, weights, strict=True)) / sum(weights)
