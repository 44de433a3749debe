"""The page that a run writes: rule by rule, in what a real Slurm agrees with the memory adapter, and what showed it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .deviations import DEVIATIONS, Deviation, applying
from .differential import Played
from .playing import READING, Seen

__all__ = ("TELLING", "Real", "page", "plain")

HEAD = """\
# A real Slurm, step by step

Made by `python -m tests.fidelity --page docs/reference/slurm-agreement.md`, from a run on {version}. {scripts} scripts
with {steps} steps were played on the memory adapter and on the real one. After each step both were asked what the call
said, and for state, cause, restarts, gate, hold, exit code and requeue bit. They showed the same, but for
{deviations} named deviations. What else is known of how the two differ stands on [the agreement page](../agreement.md).

Commands are those of the adapter in `examples/slurm_cli` (`$`, a normal user) and of the driver in `tests/fidelity`
(`#`, root), without options that do not matter here, and with their complaints. `N` is a job id,
`NAME` the name of all objects of a job, `p` a partition.

## Rules

"""
UNIMPORTANT = re.compile(
    r" --(parsable|parsable2|noheader|me)\b"
    r"| --(job-name|comment|export|chdir|output|nodes|ntasks-per-node|cpus-per-task|nodelist|Format|format)=\S+"
    r"| '--(wrap|Format)=[^']*'"
)
TELLING = {
    "SL-1": (("names-repeat", "find"),),
    "SL-2": (("another-id", "get@unknown"), ("refs-over-a-requeue", "get@first")),
    "SL-3": (("gate", "open"),),
    "SL-4": (("gate-under-an-admin-hold", "admin_hold"),),
    "SL-5": (("stop-running", "stop"),),
    "SL-6": (("hold-pending", "hold:2"), ("hold-pending", "release:2")),
    "SL-7": (("requeue-completed-requeueable", "requeue"),),
    "SL-8": (("requeue-pending", "requeue"),),
    "SL-9": (("bit-of-a-native-policy", "bit_off"),),
    "SL-10": (("preempt-requeueable", "preempt"), ("preempt-mode-cancel", "preempt_cancelling")),
    "SL-11": (("node-lost", "lose_node"), ("node-back-in-time", "return_node")),
    "SL-12": (("forgotten-completed", "get"), ("forgotten-completed", "find")),
    "SL-13": (("requeue-running", "epoch"),),
    "SL-14": (("stop-takes-time", "stop"), ("requeue-while-it-is-stopped-requeueable", "requeue")),
    "NP-2": (("bit-of-a-native-policy", "start:requeue"),),
    "TM-6": (("no-capacity", "no_capacity"),),
}
"""For each rule, a script or two and the step in it."""
LOOKING = re.compile(r"\$ (squeue|sacct) ")
DRIVING = re.compile(r"# scontrol update (PartitionName=p State=|JobId=N Partition=p )")
"""How the driver lets a job run."""


class Real(NamedTuple):
    """The real Slurm of a run.

    :ivar version: what it says that it is
    :ivar states: the states that it says jobs can have
    :ivar seen: the words in capitals that it printed of jobs
    """

    version: str
    states: Sequence[str]
    seen: frozenset[str]


def page(real: Real, played: Sequence[Played]) -> str:
    """The page, as Markdown."""
    steps = sum(len(one.script.steps) for one in played)
    lines = [
        HEAD.format(version=real.version, scripts=len(played), steps=steps, deviations=len(DEVIATIONS)),
        *_table(
            ("Rule", "The real one", "Shown by, for one", "Scripts"),
            (_rule(rule, played) for rule in _rules(played)),
        ),
        "\n## Deviations\n",
        *_table(
            ("Deviation", "Rule", "In memory", "The real one", "Settled by", "Seen"),
            (_deviation(one, played) for one in DEVIATIONS),
        ),
        "\n## Scripts\n",
        *_table(("Script", "Rules", "Steps", "The real one", "Commands"), map(_script, played)),
        "\n## States of jobs\n",
        f"Seen: {_states(state for state in real.states if state in real.seen)}\n",
        f"Not seen: {_states(state for state in real.states if state not in real.seen)}",
    ]
    return "\n".join(lines) + "\n"


def plain(command: str) -> str:
    """A command without what is different in every run."""
    command = UNIMPORTANT.sub("", command.partition("\n")[0])
    command = re.sub(r"(JobId=| )\d+(?=$|[: ])", r"\1N", command)
    command = re.sub(r"(Partition(?:Name)?=p)\d+", r"\1", command)
    command = re.sub(r"(--jobs=)\d+", r"\1N", re.sub(r"dj-\w{26}", "NAME", command))
    return re.sub(r"20[3-9]\d-\d\d-\d\dT[\d:]+", "TIME", command)


def _rules(played: Iterable[Played]) -> list[str]:
    """The rules that scripts are about, in order."""
    named = {rule for one in played for rule in one.script.rules}
    return sorted(named, key=lambda rule: (rule[:2] != "SL", rule[:2], int(rule[3:])))


def _commands(played: Played, index: int) -> list[str]:
    """What was run in a step; looks only where looking is the step."""
    commands = [plain(command) for command in played.real[index].commands]
    looking = played.script.steps[index].partition("@")[0] in READING
    return [one for one in commands if not DRIVING.search(one) and (looking or not LOOKING.match(one))]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield from (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _link(rule: str) -> str:
    return f"[{rule}](#{rule.lower()})"


def _states(states: Iterable[str]) -> str:
    return f"{', '.join(f'`{state}`' for state in states)}."


def _code(texts: Iterable[str]) -> str:
    return "<br>".join(f"`{text}`" for text in dict.fromkeys(texts)).replace("|", "\\|")


def _rule(rule: str, played: Sequence[Played]) -> tuple[str, ...]:
    about = {one.script.name: one for one in played if rule in one.script.rules}
    but = [one.name for one in DEVIATIONS if one.rule == rule]
    agrees = f"agrees, but: {'; '.join(but)}" if but else "agrees"
    shown = [_step(about[name], about[name].script.steps.index(word)) for name, word in TELLING[rule]]
    return _link(rule), agrees, "<br>".join(shown), str(len(about))


def _step(played: Played, index: int) -> str:
    where = f"`{played.script.name}`, step {index + 1}, `{played.script.steps[index]}`"
    return "<br>".join((where, *filter(None, [_code(_commands(played, index))])))


def _deviation(deviation: Deviation, played: Sequence[Played]) -> tuple[str, ...]:
    for one in played:
        for number, (seen, step) in enumerate(zip(one.memory, one.real, strict=False), 1):
            if deviation.applies(one.script, number, seen):
                return (
                    *(deviation.name, _link(deviation.rule), *_apart(seen, step.seen), deviation.why),
                    _step(one, number - 1),
                )
    return deviation.name, _link(deviation.rule), "", "", deviation.why, "not seen"


def _apart(one: Seen, other: Seen) -> Iterator[str]:
    """The fields in which two differ, as each shows them."""
    names = [name for name, value in one._asdict().items() if getattr(other, name) != value]
    for seen in (one, other):
        yield ", ".join(f"{name}: {_said(getattr(seen, name))}" for name in names)


def _said(value: object) -> str:
    """A value in a cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in {None, ""} else str(value)


def _script(one: Played) -> tuple[str, ...]:
    names = dict.fromkeys(
        deviation.name for number, seen in enumerate(one.memory, 1) for deviation in applying(one.script, number, seen)
    )
    commands = [command for index in range(len(one.real)) for command in _commands(one, index)]
    return (
        *(f"`{one.script.name}`", ", ".join(map(_link, one.script.rules)), f"`{' '.join(one.script.steps)}`"),
        *("; ".join(names) or "agrees", _code(commands)),
    )
