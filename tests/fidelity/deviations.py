"""The named deviations: where a real Slurm shows something else than the memory adapter, on purpose, and why.

A difference that is not in here fails the run, and so does an entry that no longer shows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    memory: Mapping[str, Any]
    real: Mapping[str, Any]
    stays: bool = False
    steps: Mapping[str, tuple[int, ...]] = {}

    def applies(self, script: Script, number: int, seen: Seen) -> bool:
        """Whether it shows at a step at which the memory adapter shows this."""
        if self.steps and number not in self.steps.get(script.name, ()):
            return False
        return all(getattr(seen, field) == value for field, value in self.memory.items())


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "a job can be renamed",
        "SL-1",
        "SL-1: every object of a job bears the same name, and nothing changes it",
        {"state": "Pending"},
        {"state": "NotFound", "cause": None, "gated": False, "bit": None},
        steps={"renamed": (2,)},
    ),
    Deviation(
        "a renamed job does not answer to its weak ref",
        "SL-2",
        "SL-1: every object of a job bears the same name, and nothing changes it",
        {"said": ""},
        {"said": "NotFoundError"},
        stays=True,
        steps={"renamed": (3,)},
    ),
    Deviation(
        "an administrator's hold takes the gate's place",
        "SL-4",
        "SL-4: under an administrator's hold the gate stays",
        {"cause": "AdminHeld", "gated": True},
        {"gated": False},
    ),
    Deviation(
        "lifting an administrator's hold opens the gate",
        "SL-4",
        "SL-4: under an administrator's hold the gate stays",
        {"cause": "Gated"},
        {"cause": None, "gated": False},
        steps={"gate-then-admin-hold-then-release": (3,), "gate-under-an-admin-hold": (5,)},
    ),
    Deviation(
        "a gate that an administrator's hold has replaced keeps nothing from running",
        "SL-3",
        "SL-3: nothing that the scheduler does runs it until it is opened",
        {"cause": "Gated"},
        {"state": "Running", "cause": None, "gated": False},
        steps={"gate-then-admin-hold-then-release": (4,)},
    ),
    Deviation(
        "an administrator's hold on a running job refuses no open",
        "SL-4",
        "SL-4: under an administrator's hold open is refused; Slurm is not asked, as there is no gate to lift",
        {"said": "HeldError"},
        {"said": ""},
        steps={"admin-hold-on-a-running-one": (5,)},
    ),
    Deviation(
        "a job that has ended shows no gate",
        "SL-4",
        "SL-4: only open or a requeue opens the gate, an end does not",
        {"state": "Cancelled", "gated": True},
        {"gated": False},
    ),
    Deviation(
        "a start time in the past lifts a hold",
        "SL-6",
        "SL-6: only a release that names the current instance lifts it",
        {"cause": "Held", "hold": 2},
        {"cause": None, "hold": None},
        steps={"start-time-in-the-past": (4,)},
    ),
    Deviation(
        "a job whose start time is past runs",
        "SL-6",
        "SL-6: only a release that names the current instance lifts it",
        {"cause": "Held", "hold": 2},
        {"state": "Running", "cause": None, "hold": None},
        steps={"start-time-in-the-past": (5,)},
    ),
    Deviation(
        "a hold's instance is lost when somebody else requeues the job",
        "SL-7",
        "SL-7: a hold that it still carried stays in force; Slurm moves the submit time and not the start time",
        {"cause": "Held", "hold": 2},
        {"hold": 1},
        steps={"requeued-by-another-cancelled-held": (5, 6)},
    ),
    Deviation(
        "a job that was cancelled while gated comes back gated when somebody else requeues it",
        "SL-7",
        "SL-7: a requeue takes it back to Pending, ungated",
        {"restarts": 1},
        {"state": "Pending", "cause": "Gated", "gated": True},
        steps={"requeued-by-another-cancelled-gated": (3, 4)},
    ),
    Deviation(
        "a job that has ended with its bit clear is not requeued",
        "SL-8",
        "SL-8: the bit is set first, whatever the state; SL-7: a requeue takes an ended object back to Pending",
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
        "a job that has ended with its bit clear is not requeued by root either",
        "SL-8",
        "SL-8: the bit is set first, whatever the state; SL-7: a requeue takes an ended object back to Pending",
        {"cause": "Requeued"},
        {},
        stays=True,
        steps={"requeued-by-another-completed-bit-clear": (5,)},
    ),
    Deviation(
        "the bit of a job that has ended is not set",
        "SL-8",
        "SL-8: the first step sets the bit, whatever the state",
        {"said": "CrashedError", "bit": True},
        {"said": "FinishedError", "bit": False},
        steps={"crash-completed": (5,)},
    ),
    Deviation(
        "PreemptMode=CANCEL overrules the bit",
        "SL-10",
        "SL-10: with the bit set a preemption requeues; the shape has the one mode REQUEUE",
        {"state": "Pending", "cause": "Requeued", "restarts": 1},
        {"state": "Failed", "cause": "Preempted", "restarts": 0},
        steps={"preempt-mode-cancel-requeueable": (4, 5)},
    ),
    Deviation(
        "history keeps neither hold nor bit",
        "SL-12",
        "SL-12: history answers with the last observation",
        {"past": True},
        {"hold": None, "bit": None},
    ),
    Deviation(
        "a job that is ending does not show that it was stopped",
        "SL-14",
        "SL-14: it stays Running, with the cause it is ending for",
        {"state": "Running", "cause": "Stopped"},
        {"cause": None},
    ),
    Deviation(
        "a job that is being cancelled can be requeued, and lives on",
        "SL-14",
        "SL-14: meanwhile a requeue is RunningError, as what is ending has not ended",
        {"said": "RunningError", "cause": "Stopped"},
        {"said": "", "cause": "Requeued"},
        steps={"requeue-while-it-is-stopped-requeueable": (5,)},
    ),
    Deviation(
        "a requeue overtakes a cancellation",
        "SL-14",
        "SL-14: meanwhile a requeue is RunningError, as what is ending has not ended",
        {"state": "Cancelled"},
        {"state": "Pending", "cause": "Requeued", "restarts": 1},
        steps={"requeue-while-it-is-stopped-requeueable": (6,)},
    ),
    Deviation(
        "a job that is being cancelled is finished for a requeue with its bit clear",
        "SL-14",
        "SL-14: meanwhile a requeue is RunningError, as what is ending has not ended",
        {"said": "RunningError", "cause": "Stopped"},
        {"said": "FinishedError"},
        steps={"requeue-while-it-is-stopped": (5,)},
    ),
    Deviation(
        "the bit of a job that is being cancelled is not cleared",
        "SL-14",
        "SL-14: meanwhile the bit can be cleared, as what is ending has not ended",
        {"cause": "Stopped", "bit": False},
        {"said": "FinishedError", "bit": True},
        steps={"bit-while-it-is-stopped": (5,)},
    ),
    Deviation(
        "the bit of a job that was cancelled meanwhile is still set",
        "SL-14",
        "SL-14: meanwhile the bit can be cleared, as what is ending has not ended",
        {"state": "Cancelled", "bit": False},
        {"bit": True},
        steps={"bit-while-it-is-stopped": (6,)},
    ),
    Deviation(
        "a requeue that a stop overtakes has been counted",
        "SL-14",
        "SL-14: a stop takes over, and no restart is counted, as none came of it",
        {"cause": "Stopped", "restarts": 0},
        {"restarts": 1},
        steps={"stop-while-it-is-requeued": (5, 6)},
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
