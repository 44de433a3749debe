"""SIM-6: a violation is shrunk to few steps that still break the same invariant, and told in words."""

import shlex

import pytest

from dispatch_memory_async import Shape
from dispatch_memory_async.cli import main
from dispatch_memory_async.simulator import Result, SimConfig, command_of, explain, shrink, simulate

EARLY = SimConfig(seed=10, shape=Shape.KUBEFLOW, mutant=18)
"""A hold is acknowledged when it is asked."""


def violating(mutant: int, shape: Shape) -> Result:
    for seed in range(100):
        result = simulate(SimConfig(seed=seed, shape=shape, mutant=mutant))
        if result.violations:
            return result
    raise AssertionError("no seed shows it")


@pytest.fixture(scope="module")
def broken() -> Result:
    return violating(18, Shape.KUBEFLOW)


@pytest.fixture(scope="module")
def shrunk(broken: Result) -> Result:
    return shrink(broken)


def test_few_steps_are_left(broken: Result, shrunk: Result) -> None:
    """SIM-6: no step of those left can be left out, and the invariant is the same."""
    steps = shrunk.config.only
    assert steps is not None
    assert 0 < len(steps) <= 10
    assert shrunk.violations[0].invariant == broken.violations[0].invariant
    for left_out in steps:
        rest = tuple(step for step in steps if step != left_out)
        config = SimConfig(seed=broken.config.seed, shape=Shape.KUBEFLOW, mutant=18, only=rest)
        assert shrunk.violations[0].invariant not in [each.invariant for each in simulate(config).violations]


@pytest.mark.parametrize("only", [(), (7,), (3, 7, 110)])
def test_what_needs_no_step_is_left_with_none(only: tuple[int, ...]) -> None:
    """SIM-6: steps that were left out before stay so."""
    result = simulate(SimConfig(seed=0, mutant=27, only=only))
    tried: list[int] = []
    assert shrink(result, each=lambda steps, _: tried.append(steps)).config.only == ()
    assert len(tried) <= 1


def test_no_step_of_many_can_be_left_out() -> None:
    """SIM-6: also where a step can be left out only once a later one was."""
    shrunk = shrink(simulate(SimConfig(seed=1, mutant=2)))
    steps = shrunk.config.only or ()
    for left_out in steps:
        rest = tuple(step for step in steps if step != left_out)
        found = simulate(SimConfig(seed=1, mutant=2, only=rest)).violations
        assert shrunk.violations[0].invariant not in [each.invariant for each in found]


def test_it_tells_how_far_it_is(broken: Result) -> None:
    told: list[tuple[int, int]] = []
    shrink(broken, each=lambda steps, tries: told.append((steps, tries)))
    assert [tries for _, tries in told] == list(range(1, len(told) + 1))
    assert told[0][0] >= told[-1][0] > 0


def test_a_run_without_a_violation_stays(shape: Shape) -> None:
    result = simulate(SimConfig(seed=0, shape=shape))
    assert shrink(result) is result
    assert explain(result) == "No invariant was broken."


def test_it_is_told_in_words(shrunk: Result) -> None:
    """SIM-6: the rule, what was seen, who did what, what the truth was, and how to play it again."""
    violation = shrunk.violations[0]
    lines = explain(shrunk).splitlines()
    assert lines[0] == f"{violation.invariant} is broken in step {violation.step}, by job 1."
    assert lines[1].startswith("The rule: CO-")
    assert lines[2] == f"Seen: {violation.what}."
    truth = lines.index("The truth then:")
    assert lines[truth + 1].startswith("  object 1: submission 1, ")
    assert any("start lands, for submission 1" in line for line in lines[:truth])
    assert lines[-1] == f"To play it again: {command_of(shrunk.config)}"


def test_the_command_plays_it_again(shrunk: Result, capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-6: exit status 1, the same digest, the same violation."""
    program, *arguments = shlex.split(command_of(shrunk.config))
    assert program == "dispatch-memory"
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert f"digest {shrunk.digest}" in printed
    assert str(shrunk.violations[0]) in printed.splitlines()
