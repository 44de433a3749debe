"""Runs to make reports of: one that breaks an invariant, and one with many jobs."""

from dataclasses import replace
from functools import cache

from ulid import ULID

from dispatch_memory_async.memory import Shape
from dispatch_memory_async.model import Job
from dispatch_memory_async.model.base import altered
from dispatch_memory_async.simulator import Kind, Result, SimConfig, simulate

HOLDS = 18  # the protection that is taken back: a hold is acknowledged when it is asked


@cache
def broken_run(jobs: int = 5) -> Result:
    """The first run without a protection that breaks an invariant when a story has been told already."""
    for seed in range(50):
        result = simulate(SimConfig(seed=seed, shape=Shape.KUBEFLOW, mutant=HOLDS, jobs=jobs))
        if result.violations and len(result.trace) > 20 * jobs:
            return result
    raise AssertionError("no seed breaks it")


@cache
def well_run() -> Result:
    return simulate(SimConfig(seed=1, shape=Shape.SLURM, jobs=5))


@cache
def crowded_run() -> Result:
    """Five hundred jobs, of which one breaks an invariant: half a minute."""
    result = simulate(SimConfig(seed=2, shape=Shape.KUBEFLOW, mutant=HOLDS, jobs=500, steps=600))
    assert result.violations
    return result


def renamed(job: Job, by: int) -> Job:
    return altered(job, id=ULID.from_int(int(job.id) + by))


def multiplied(result: Result, times: int) -> Result:
    """A run as if its jobs were there so many times, the violation in the last of them: to play it would take long."""
    jobs = result.config.jobs
    moves = range(0, jobs * times, jobs)
    (first,) = result.violations
    return replace(
        result,
        config=altered(result.config, jobs=jobs * times),
        violations=(replace(first, job=first.job + moves[-1]),),
        trace=tuple(
            entry._replace(job=entry.job + by)
            for entry in result.trace
            for by in (moves[-1:] if entry.kind is Kind.VIOLATION else moves if entry.job else (0,))
        ),
        records=tuple(altered(each, job=renamed(each.job, by)) for by in moves for each in result.records),
        truths=tuple(altered(each, job=renamed(each.job, by)) for by in moves for each in result.truths),
    )
