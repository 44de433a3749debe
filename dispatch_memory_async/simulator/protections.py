"""The core's protections: each can be taken back by a few changed words, and then a run must break an invariant.

The changed words are those of the running functions: nothing on the disk is touched, and at the end of the block the
functions are as before.
"""

import inspect
import textwrap
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import CodeType, FunctionType
from typing import Any

from ..core import absorbing, acts, looker, records, steps, supervisor
from ..memory import Shape
from ..model import Action, Capability, Cause, Cessation, Policy, Rule

__all__ = ("PROTECTIONS", "Change", "Protection", "taken_back")

Change = tuple[Callable[..., Any], str, str]


@dataclass(frozen=True)
class Protection:
    """One of them, and how it is taken back.

    :ivar number: its number
    :ivar what: what is done without it
    :ivar changes: the functions, the words taken out and those put in
    :ivar shape: the shape in which that shows soonest
    :ivar focus: what is not left to the seed, where it would show too rarely
    """

    number: int
    what: str
    changes: tuple[Change, ...] = field(repr=False)
    shape: Shape = Shape.SLURM
    focus: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __str__(self) -> str:
        return f"{self.number} {self.what}"


def _private(module: object, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(module, name)
    return found


SETTLE = _private(absorbing, "_settle")
FOLLOW = _private(absorbing, "_follow")
HELD = _private(steps, "_held")
BEGUN = _private(steps, "_begun")
RESTARTED = _private(steps, "_restarted")
SIGNAL = "        return status.ceased is True\n"

_ALL = (
    Protection(
        1,
        "any supervisor executes an intent that it finds",
        (
            (
                _private(supervisor.Supervisor, "_bring_on"),
                "    if isinstance(step, Wait | Park | Finish):\n",
                (
                    "    if absorbed.intent and absorbed.intent.kind.value == 'Start':\n"
                    "        await self._call(Start(absorbed.intent.submission), absorbed, absorbed.intent, None)\n"
                    "    if isinstance(step, Wait | Park | Finish):\n"
                ),
            ),
        ),
    ),
    Protection(
        2,
        "compare-and-set is ignored",
        (
            (records.MemoryRecords.put, "if found.version != if_version:", "if False:"),
            (records.MemoryRecords.put, "version=if_version + 1", "version=found.version + 1"),
        ),
    ),
    Protection(
        3,
        "call_bound is forgotten",
        (
            (
                absorbing.settled_at,
                "intent.deadline + capabilities.call_bound + skew",
                "intent.deadline",
            ),
        ),
    ),
    Protection(
        4,
        "a look is judged by its end",
        (
            (
                looker.Looker.one,
                "altered(empty, objects=await self._adapter.find(job_id))",
                "altered(empty, objects=await self._adapter.find(job_id), began_at=self._clock())",
            ),
        ),
    ),
    Protection(
        5,
        "a start is made again after a lost reply, without a look",
        (
            (
                acts.answered,
                "        return record\n    settled",
                "        return altered(record, intent=None) if intent.kind is Kind.START else record\n    settled",
            ),
        ),
    ),
    Protection(
        6,
        "a number is used again after the bound",
        (
            (
                SETTLE,
                "    record = altered(record, intent=None)\n",
                (
                    "    record = altered(record, intent=None)\n"
                    "    if intent.kind is Kind.START and target is None:\n"
                    "        record = altered(record, submission=record.submission - 1)\n"
                ),
            ),
        ),
    ),
    Protection(
        7,
        "no deadline on start",
        (
            (
                _private(supervisor.Supervisor, "_call"),
                "native=native, deadline=deadline",
                "native=native, deadline=None",
            ),
        ),
    ),
    Protection(
        8,
        "no deadline on open, and no hold of what is gated",
        (
            (
                _private(supervisor.Supervisor, "_call"),
                "adapter.open(act.ref, deadline=deadline)",
                "adapter.open(act.ref)",
            ),
            (HELD, "if holdable(seen, capabilities):", "if holdable(seen, capabilities) and not seen.gated:"),
            (
                _private(absorbing, "_acknowledge"),
                "if not has(capabilities, Capability.HOLD) and seen.gated:",
                "if seen.gated:",
            ),
        ),
    ),
    Protection(
        9,
        "other live objects are not stopped",
        (
            (
                steps.next_step,
                "for extra in status.extras:",
                "for extra in ():",
            ),
        ),
    ),
    Protection(
        10,
        "a lost node's object is restarted without proof",
        (
            (
                steps.proven,
                SIGNAL,
                "        return status.ceased is True or bool(record.end and record.end.cause is Cause.NODE_LOST)\n",
            ),
        ),
    ),
    Protection(
        11,
        "an end is taken as proof, the signal is not asked",
        (
            (
                steps.proven,
                SIGNAL,
                "        return status.ceased is True or (record.end is not None and record.end.state.ended)\n",
            ),
        ),
    ),
    Protection(
        12,
        "a vanished object is taken as proof",
        (
            (
                steps.proven,
                SIGNAL,
                "        return status.ceased is True or (record.end is not None and record.end.gone)\n",
            ),
        ),
    ),
    Protection(
        13,
        "the signal is asked about the latest execution alone",
        (
            (
                looker.Looker.ask,
                "cessation(job_id)",
                "cessation(look.objects[-1].ref if look.objects and not look.objects[-1].from_history else job_id)",
            ),
        ),
    ),
    Protection(
        14,
        "the signal is asked about each remembered object, not about the job",
        (
            (
                looker.Looker.ask,
                "        signal = await",
                (
                    "        for each in look.objects:\n"
                    "            if not each.from_history and not (await self._adapter.cessation(each.ref)).ceased:\n"
                    "                return altered(look, ceased=False)\n"
                    "        return altered(look, ceased=True)\n"
                    "        signal = await"
                ),
            ),
        ),
    ),
    Protection(15, "a release without proof", ((BEGUN, "if certain else _unproven", "if True else _unproven"),)),
    Protection(
        16,
        "a requeue of an object whose bit is set",
        (
            (
                RESTARTED,
                " and not seen.requeue_bit",
                "",
            ),
        ),
    ),
    Protection(17, "the requeue bit is not restored", ((steps.next_step, "and seen.requeue_bit", "and False"),)),
    Protection(
        18,
        "a hold is acknowledged when it is asked",
        (
            (
                _private(absorbing, "_acknowledge"),
                "    seen = chosen",
                "    return altered(record, hold=altered(hold, acked=True))\n    seen = chosen",
            ),
            (
                _private(absorbing, "_acknowledge"),
                "or record.intent or extras(record, look.objects)",
                "",
            ),
        ),
    ),
    Protection(19, "until is forgotten", ((absorbing.absorb, "if record.hold and", "if False and"),)),
    Protection(
        20,
        "a restart is decided before the stop",
        (
            (
                steps.next_step,
                "    return (\n",
                (
                    "    if isinstance(restart, Restart) and not live(seen):\n"
                    "        return _restarted(record, status, capabilities, restart, now)\n"
                    "    return (\n"
                ),
            ),
        ),
    ),
    Protection(
        21,
        "restarts are not counted in the record",
        (
            (
                _private(acts, "_charged"),
                "count + (index == restart.rule)",
                "count",
            ),
        ),
    ),
    Protection(
        22,
        "a cause is read anew each time",
        (
            (
                _private(absorbing, "_ended"),
                "if before.cause not in",
                "if False and before.cause not in",
            ),
        ),
    ),
    Protection(
        23,
        "a vanished object counts as a success",
        (
            (
                _private(absorbing, "_vanished"),
                "state=State.GONE, cause=cause",
                "state=State.SUCCEEDED, cause=None",
            ),
        ),
    ),
    Protection(
        24,
        "the recorded ref is used instead of the look's",
        (
            (FOLLOW, "        ref=seen.ref,\n", ""),
            (RESTARTED, "Requeue(seen.ref", "Requeue(record.chosen.ref"),
        ),
    ),
    Protection(25, "a requeue of an object known from history", ((RESTARTED, "and not seen.from_history ", ""),)),
    Protection(
        26,
        "a requeue is settled early by the restart counter",
        (
            (
                SETTLE,
                "    bounded =",
                (
                    "    if intent.kind is Kind.REQUEUE and target and target.restarts > record.chosen.restarts:\n"
                    "        return altered(record, intent=None)\n"
                    "    bounded ="
                ),
            ),
        ),
    ),
    Protection(
        27,
        "an object is opened before that is written",
        (
            (
                _private(supervisor.Supervisor, "_act"),
                "    kept = await",
                (
                    "    if isinstance(act, Open):\n"
                    "        await self._call(act, record, intent, native)\n"
                    "    kept = await"
                ),
            ),
        ),
    ),
    Protection(
        28,
        "a policy's hold is withdrawn",
        (
            (
                _private(absorbing, "_acknowledge"),
                " and hold.by != POLICY",
                "",
            ),
        ),
    ),
)


CALM: dict[str, Any] = {"runs": False, "refused": 0.0, "reads_fail": 0.0, "conflict": 0.0, "ends_well": 0.02}
LATE: dict[str, Any] = {
    **CALM,
    "given_up": 0.7,
    "reply_lost": 0.3,
    "dropped": 0.0,
    "landing": 0.02,
    "crash": 0.02,
    "whole": 0.0,
    "env": 0.15,
    "lost": frozenset[Capability](),
}
BUSY: dict[str, Any] = {
    "runs": False,
    "env": 0.35,
    "ends_well": 0.02,
    "clock": 0.1,
    "whole": 0.9,
    "lost": frozenset[Capability](),
}
NODES: dict[str, Any] = {"cessation": Cessation(ceased=False)}
HALF_A_MINUTE = timedelta(seconds=30)
ALWAYS = Policy((Rule(causes=frozenset(Cause), action=Action.RESTART),))

FOCUS: dict[int, tuple[Shape, dict[str, Any]]] = {
    1: (Shape.SLURM, {}),
    2: (Shape.SLURM, {}),
    3: (Shape.KUBEFLOW, {**LATE, "clock": 0.4, "supervisors": 2}),
    4: (Shape.KUBEFLOW, {**LATE, "clock": 0.35, "supervisors": 3}),
    5: (Shape.KUBEFLOW, {}),
    6: (Shape.KUBEFLOW, {}),
    7: (Shape.KUBEFLOW, {}),
    8: (Shape.SLURM, LATE),
    9: (Shape.SLURM, {**BUSY, "foreign": 0.5, "lost": frozenset({Capability.REQUEUE})}),
    10: (Shape.KUBEFLOW, {}),
    11: (Shape.SLURM, {}),
    12: (Shape.KUBEFLOW, {}),
    13: (Shape.KUBEFLOW, {**BUSY, **NODES, "nodes": 0.5, "kill_wait": HALF_A_MINUTE}),
    14: (Shape.KUBEFLOW, {}),
    15: (Shape.KUBEFLOW, {}),
    16: (
        Shape.SLURM,
        {
            **BUSY,
            **NODES,
            "nodes": 0.3,
            "slurmd_timeout": HALF_A_MINUTE,
            "crash_between": 0.6,
            "ends_well": 0.0,
            "clock": 0.2,
        },
    ),
    17: (Shape.SLURM, {}),
    18: (Shape.KUBEFLOW, {}),
    19: (Shape.SLURM, {}),
    20: (Shape.KUBEFLOW, {}),
    21: (Shape.KUBEFLOW, {}),
    22: (Shape.KUBEFLOW, {}),
    23: (Shape.KUBEFLOW, {}),
    24: (Shape.SLURM, {**BUSY, "policy": ALWAYS, "min_job_age": timedelta(0), "ends_well": 0.0}),
    25: (Shape.SLURM, {}),
    26: (
        Shape.SLURM,
        {**BUSY, "given_up": 0.7, "dropped": 0.3, "landing": 0.02, "foreign": 0.5, "whole": 0.5, "supervisors": 3},
    ),
    27: (Shape.SLURM, {}),
    28: (
        Shape.KUBEFLOW,
        {
            "lost": frozenset({Capability.HOLD, Capability.HOLD_RUNNING}),
            "nodes": 0.5,
            "operator": 0.0,
            "ends_well": 0.0,
            "policy": Policy(()),
            "whole": 0.9,
            "fenced_at_last": True,
            "cessation": Cessation(ceased=True),
            "runs": False,
        },
    ),
}
"""By number: the shape in which it shows soonest, and what is not left to the seed."""
PROTECTIONS: Mapping[int, Protection] = {
    one.number: replace(one, shape=FOCUS[one.number][0], focus=FOCUS[one.number][1]) for one in _ALL
}


@contextmanager
def taken_back(*changes: Change) -> Generator[None]:
    """With functions changed so, inside the block."""
    with ExitStack() as stack:
        for function, out, put_in in changes:
            assert isinstance(function, FunctionType)  # noqa: S101  # for the type checkers
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = _changed(function, out, put_in)
        yield


_SOURCES: dict[CodeType, str] = {}
"""What a function that was changed already looks like."""


def _changed(function: FunctionType, out: str, put_in: str) -> CodeType:
    source = _SOURCES.get(function.__code__) or textwrap.dedent(inspect.getsource(function))
    if source.count(out) != 1:
        raise LookupError(f"{function.__qualname__}: {out!r} stands there {source.count(out)} times")
    source = source.replace(out, put_in)
    made: dict[str, Any] = {}
    exec(compile(source, f"<{function.__qualname__}, changed>", "exec"), function.__globals__, made)  # noqa: S102
    code: CodeType = made[function.__name__].__code__
    _SOURCES[code] = source
    return code
