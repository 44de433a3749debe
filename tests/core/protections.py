"""The core's protections, each taken back by a few changed words: what the exploration must then catch."""

import inspect
import textwrap
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import CodeType, FunctionType
from typing import Any

from dispatch_memory_async import Action, Capability, Cause, Cessation, Policy, Rule, Shape
from dispatch_memory_async.core import absorbing, acts, looker, steps, supervisor
from tests.core import exploration

Change = tuple[Callable[..., Any], str, str]


@dataclass(frozen=True)
class Protection:
    """One of them, and how it is taken back.

    :ivar number: its number in the design's section 3.3
    :ivar what: what is done without it
    :ivar changes: the functions, the words taken out and those put in
    """

    number: int
    what: str
    changes: tuple[Change, ...] = field(repr=False)

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

PROTECTIONS = (
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
            (
                exploration.Ledger.put,
                "put(record, if_version)",
                "put(record, (await self._world.records.get(record.job.id)).version)",
            ),
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
                exploration.Probe.cessation,
                "    said = await",
                (
                    "    self._world.observe('reading')\n"
                    "    last = [each.executions[-1].alive for each in self._world.known.truths if each.executions]\n"
                    "    if last:\n"
                    "        return Cessation(ceased=not last[-1])\n"
                    "    said = await"
                ),
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


@contextmanager
def taken_back(*changes: Change) -> Generator[None]:
    """With functions changed so, inside the block."""
    with ExitStack() as stack:
        for function, out, put_in in changes:
            assert isinstance(function, FunctionType)
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = _changed(function, out, put_in)
        yield


_SOURCES: dict[CodeType, str] = {}
"""What a function that was changed already looks like."""


def _changed(function: FunctionType, out: str, put_in: str) -> CodeType:
    source = _SOURCES.get(function.__code__) or textwrap.dedent(inspect.getsource(function))
    assert source.count(out) == 1, f"{function.__qualname__}: {out!r} stands there {source.count(out)} times"
    source = source.replace(out, put_in)
    made: dict[str, Any] = {}
    exec(compile(source, f"<{function.__qualname__}, changed>", "exec"), function.__globals__, made)  # noqa: S102
    code: CodeType = made[function.__name__].__code__
    _SOURCES[code] = source
    return code


@dataclass(frozen=True)
class Shown:
    """Where it shows that a protection was taken back.

    :param shape: in which shape
    :param seed: the first seed that violates
    :param invariant: what it violates
    :param focus: what is not left to the seed
    """

    shape: Shape
    seed: int
    invariant: str
    focus: Mapping[str, Any] = field(default_factory=dict[str, Any])


CALM: dict[str, Any] = {"refused": 0.0, "reads_fail": 0.0, "conflict": 0.0, "ends_well": 0.02}
LATE = {
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
BUSY: dict[str, Any] = {"env": 0.35, "ends_well": 0.02, "clock": 0.1, "whole": 0.9, "lost": frozenset[Capability]()}
NODES: dict[str, Any] = {"cessation": Cessation(ceased=False)}
HALF_A_MINUTE = timedelta(seconds=30)
ALWAYS = Policy((Rule(causes=frozenset(Cause), action=Action.RESTART),))

SHOWN = {
    1: Shown(Shape.SLURM, 3, "I12"),
    2: Shown(Shape.SLURM, 6, "I3"),
    3: Shown(Shape.KUBEFLOW, 201, "I12", {**LATE, "clock": 0.4, "supervisors": 2}),
    4: Shown(Shape.KUBEFLOW, 78, "I2", {**LATE, "clock": 0.35, "supervisors": 3}),
    5: Shown(Shape.KUBEFLOW, 2, "I12"),
    6: Shown(Shape.KUBEFLOW, 108, "I3"),
    7: Shown(Shape.KUBEFLOW, 4, "I11"),
    9: Shown(Shape.SLURM, 207, "I15", {**BUSY, "foreign": 0.5, "lost": frozenset({Capability.REQUEUE})}),
    10: Shown(Shape.KUBEFLOW, 18, "I1"),
    11: Shown(Shape.SLURM, 76, "I1"),
    12: Shown(Shape.KUBEFLOW, 50, "I1"),
    13: Shown(Shape.KUBEFLOW, 36, "I1", {**BUSY, **NODES, "nodes": 0.5, "kill_wait": HALF_A_MINUTE}),
    14: Shown(Shape.KUBEFLOW, 50, "I1"),
    15: Shown(Shape.KUBEFLOW, 15, "I1"),
    16: Shown(
        Shape.SLURM,
        307,
        "I1",
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
    17: Shown(Shape.SLURM, 13, "I5"),
    18: Shown(Shape.KUBEFLOW, 0, "I4"),
    19: Shown(Shape.SLURM, 0, "I15"),
    20: Shown(Shape.KUBEFLOW, 5, "I7"),
    21: Shown(Shape.KUBEFLOW, 13, "I6"),
    22: Shown(Shape.KUBEFLOW, 17, "I9"),
    23: Shown(Shape.KUBEFLOW, 3, "I10"),
    24: Shown(Shape.SLURM, 2, "I15", {**BUSY, "policy": ALWAYS, "min_job_age": timedelta(0), "ends_well": 0.0}),
    25: Shown(Shape.SLURM, 0, "I15"),
    26: Shown(
        Shape.SLURM,
        5,
        "I12",
        {**BUSY, "given_up": 0.7, "dropped": 0.3, "landing": 0.02, "foreign": 0.5, "whole": 0.5, "supervisors": 3},
    ),
    28: Shown(
        Shape.KUBEFLOW,
        4,
        "I15",
        {
            "lost": frozenset({Capability.HOLD, Capability.HOLD_RUNNING}),
            "nodes": 0.5,
            "operator": 0.0,
            "ends_well": 0.0,
            "policy": Policy(()),
            "whole": 0.9,
            "fenced_at_rest": True,
            "cessation": Cessation(ceased=True),
        },
    ),
}
"""By the protection's number."""
