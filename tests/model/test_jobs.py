"""Constants of 1.1 that belong to jobs, and what a job carries as it is."""

from datetime import timedelta

import pytest

from dispatch_memory_async import EPOCH_BOUND, HOLD_BASE, NAMESPACE, RESERVED_ENV_PREFIX, InvalidError, Resources
from tests.support import job


def test_constants() -> None:
    """1.1: ten Julian years are ten times 365.25 days."""
    assert EPOCH_BOUND == 10**6
    assert timedelta(days=3652.5) == HOLD_BASE
    assert NAMESPACE == "dispatch"
    assert RESERVED_ENV_PREFIX == "DISPATCH_"


@pytest.mark.parametrize("name", ["DISPATCH_", "DISPATCH_ATTEMPT", "DISPATCH_EPOCH", "DISPATCH_\n", "DISPATCH__"])
def test_reserved_names_are_refused_wherever_they_stand(name: str) -> None:
    """1.1: one among many names is enough."""
    with pytest.raises(InvalidError, match=r"Job\.env"):
        job(env={"A": "1", name: "", "Z": "1"})


def test_each_job_has_mappings_of_its_own() -> None:
    """1.1: defaults are not shared with what a caller could change."""
    assert job(1).env == job(2).env == {}
    assert job(1).resources == Resources()


def test_the_sign_of_a_priority_is_free_and_that_of_a_time_limit_is_not() -> None:
    """1.1: a length of time is no debt."""
    assert job(priority=-(2**40)).priority == -(2**40)
    assert job(time_limit=timedelta(0)).time_limit == timedelta(0)
    with pytest.raises(InvalidError, match="time_limit"):
        job(time_limit=timedelta(microseconds=-1))
