"""The scripts of the differential, as far as that needs no Slurm: what they cover, and that memory can play them."""

from pathlib import Path

import pytest

from .deviations import DEVIATIONS, on_slurm
from .differential import Played
from .page import TELLING, plain
from .playing import Seen, Step, play_in_memory
from .scripts import SCRIPTS, Script

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "slurm-agreement.md"
SL = {f"SL-{number}" for number in range(1, 15)}

scripts = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)


def test_scripts_cover_every_rule_of_the_shape() -> None:
    assert {rule for script in SCRIPTS for rule in script.rules} >= SL


def test_every_deviation_is_about_a_rule_that_its_scripts_show() -> None:
    by_name = {script.name: script for script in SCRIPTS}
    assert {one.name: script for one in DEVIATIONS for script in one.steps if script not in by_name} == {}
    assert [one.name for one in DEVIATIONS if one.rule not in SL] == []


@scripts
async def test_memory_plays_a_script(script: Script) -> None:
    """Each step, with a state that the deviations know to translate."""
    seen = await play_in_memory(script)
    assert len(seen) == len(script.steps) == len(on_slurm(script, seen))


async def test_every_deviation_shows_where_it_says_so() -> None:
    """One that memory no longer shows, or that changes nothing, is stale."""
    shown: dict[str, set[tuple[str, int]]] = {one.name: set() for one in DEVIATIONS}
    for script in SCRIPTS:
        memory = await play_in_memory(script)
        for number, (seen, real) in enumerate(zip(memory, on_slurm(script, memory), strict=True), 1):
            for one in DEVIATIONS:
                if one.applies(script, number, seen) and seen != real:
                    shown[one.name].add((script.name, number))
    for one in DEVIATIONS:
        said = {(script, number) for script, numbers in one.steps.items() for number in numbers}
        assert shown[one.name] == said if said else shown[one.name], one.name


async def test_what_is_in_no_table_differs_and_so_does_what_is_and_does_not_show() -> None:
    script = next(one for one in SCRIPTS if one.name == "crash-completed")
    memory = await play_in_memory(script)
    as_said, as_memory = ([Step((seen,), ()) for seen in side] for side in (on_slurm(script, memory), memory))
    assert Played(script, memory, tuple(as_said)).differences == ()
    assert "though a deviation says" in "".join(Played(script, memory, tuple(as_memory)).differences)
    other = Step((Seen("", "Pending", "Gated"), Seen("", "Running")), ("$ sbatch",))
    found = Played(script, memory, (*as_said[:2], other)).differences
    assert "\n".join(found).startswith(
        "step 3, run\n  memory: state=Running, bit=False\n  real:   state=Pending, cause"
    )
    assert Played(script, memory, error="it broke").differences == ("it broke",)


def test_what_is_seen_reads_well() -> None:
    assert str(Seen()) == "state=NotFound"
    assert (
        str(Seen("PendingError", "Pending", "Held", hold=2)) == "said=PendingError, state=Pending, cause=Held, hold=2"
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("$ sbatch --parsable --hold --requeue --job-name=dj-1 --nodes=1 --export=ALL", "$ sbatch --hold --requeue"),
        ("$ scontrol requeue 12: Job is pending for job 12\nmore", "$ scontrol requeue N: Job is pending for job N"),
        ("# scontrol update JobId=1 Requeue=1 Partition=p12", "# scontrol update JobId=N Requeue=1 Partition=p"),
        ("$ scontrol update JobId=1 StartTime=2036-01-01T00:00:02", "$ scontrol update JobId=N StartTime=TIME"),
        (f"$ scancel --me --name=dj-{26 * '0'} 7", "$ scancel --name=NAME N"),
    ],
)
def test_a_command_is_shown_without_what_differs_in_every_run(command: str, expected: str) -> None:
    assert plain(command) == expected


def test_the_page_shows_each_rule_by_a_step_of_a_script_about_it() -> None:
    assert TELLING.keys() == {rule for script in SCRIPTS for rule in script.rules}
    by_name = {script.name: script for script in SCRIPTS}
    for rule, steps in TELLING.items():
        assert all(rule in by_name[name].rules and word in by_name[name].steps for name, word in steps)


def test_the_page_is_of_these_scripts() -> None:
    """Make it anew: `python -m tests.fidelity --page docs/reference/slurm-agreement.md`."""
    text = PAGE.read_text(encoding="utf-8")
    assert [
        one.name for one in SCRIPTS if f"| `{one.name}` |" not in text or f"`{' '.join(one.steps)}`" not in text
    ] == []
    assert [one.name for one in DEVIATIONS if f"| {one.name} |" not in text] == []
