"""The named deviations: where a real Slurm shows something else than the memory adapter, on purpose, and why.

A difference that is not in here fails the run, and so does an entry that no longer shows.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .playing import Seen
from .scripts import Script

__all__ = ("DEVIATIONS", "Deviation", "applying", "on_slurm")


class Deviation(NamedTuple):
    """One thing in which the two differ.

    :ivar name: what it is called
    :ivar rule: the rule that it is about
    :ivar why: what settles that the memory adapter is right all the same
    :ivar memory: the fields that say how the memory adapter shows it
    :ivar real: the fields that say how a real Slurm shows it
    :ivar stays: whether a real Slurm leaves everything else as it was before the step
    :ivar steps: at which steps it shows, counted from 1, by script; wherever the memory adapter shows it, if empty
    """

    name: str
    rule: str
    why: str
    memory: Mapping[str, object]
    real: Mapping[str, object]
    stays: bool = False
    steps: Mapping[str, tuple[int, ...]] = {}

    def applies(self, script: Script, number: int, seen: Seen) -> bool:
        """Whether it shows at a step at which the memory adapter shows this."""
        if self.steps and number not in self.steps.get(script.name, ()):
            return False
        return all(getattr(seen, field) == value for field, value in self.memory.items())


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "an ended job has no gate",
        "SL-4",
        "02b: an end does not open the gate",
        {"state": "Cancelled", "gated": True},
        {"gated": False},
    ),
    Deviation(
        "COMPLETING does not say for what",
        "SL-14",
        "SL-14",
        {"state": "Running", "cause": "Stopped"},
        {"cause": None},
    ),
    Deviation(
        "an administrator's hold takes the gate's place",
        "SL-4",
        "SL-4",
        {"cause": "AdminHeld", "gated": True},
        {"gated": False},
    ),
    Deviation(
        "lifting an administrator's hold opens the gate",
        "SL-4",
        "SL-4",
        {"cause": "Gated"},
        {"cause": None, "gated": False},
        steps={"gate-then-admin-hold-then-release": (3,), "gate-under-an-admin-hold": (5,)},
    ),
    Deviation(
        "and so the job runs",
        "SL-3",
        "SL-3",
        {"cause": "Gated"},
        {"state": "Running", "cause": None, "gated": False},
        steps={"gate-then-admin-hold-then-release": (4,)},
    ),
    Deviation(
        "no requeue of an ended job with its bit clear",
        "SL-8",
        "SL-8",
        {"said": "", "cause": "Requeued"},
        {"said": "FinishedError"},
        stays=True,
        steps={
            "requeue-completed": (5,),
            "requeue-failed": (5,),
            "requeue-cancelled": (5,),
            "requeue-timed-out": (5,),
            "requeue-preempted": (5,),
        },
    ),
    Deviation(
        "nor by somebody else",
        "SL-8",
        "SL-8",
        {"cause": "Requeued"},
        {},
        stays=True,
        steps={"requeued-by-another-completed-bit-clear": (5,)},
    ),
    Deviation(
        "the bit of an ended job cannot be set",
        "SL-8",
        "SL-8",
        {"said": "CrashedError", "bit": True},
        {"said": "FinishedError", "bit": False},
        steps={"crash-completed": (5,)},
    ),
    Deviation(
        "history keeps neither hold nor bit",
        "SL-12",
        "SL-12",
        {"past": True},
        {"hold": None, "bit": None},
    ),
    Deviation(
        "PreemptMode=CANCEL overrules the bit",
        "SL-10",
        "SL-10",
        {"state": "Pending", "cause": "Requeued", "restarts": 1},
        {"state": "Failed", "cause": "Preempted", "restarts": 0},
        steps={"preempt-mode-cancel-requeueable": (4, 5)},
    ),
    Deviation(
        "a job can be renamed",
        "SL-1",
        "SL-1",
        {"state": "Pending"},
        {"state": "NotFound", "cause": None, "gated": False, "bit": None},
        steps={"renamed": (2,)},
    ),
    Deviation(
        "a start time in the past lifts a hold",
        "SL-6",
        "SL-6",
        {"cause": "Held", "hold": 2},
        {"cause": None, "hold": None},
        steps={"start-time-in-the-past": (4,)},
    ),
    Deviation(
        "and the job runs",
        "SL-6",
        "SL-6",
        {"cause": "Held", "hold": 2},
        {"state": "Running", "cause": None, "hold": None},
        steps={"start-time-in-the-past": (5,)},
    ),
)
"""All of them."""


def applying(script: Script, number: int, seen: Seen) -> tuple[Deviation, ...]:
    """The deviations that show at a step at which the memory adapter shows this."""
    return tuple(one for one in DEVIATIONS if one.applies(script, number, seen))


def on_slurm(script: Script, memory: Sequence[Seen]) -> tuple[Seen, ...]:
    """What a real Slurm shows at each step, given what the memory adapter shows."""
    real: list[Seen] = []
    for number, seen in enumerate(memory, 1):
        expected = seen
        for one in applying(script, number, seen):
            if one.stays:
                expected = real[-1]._replace(said=seen.said)
            expected = expected._replace(**one.real)
        real.append(expected)
    return tuple(real)
