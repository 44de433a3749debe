"""The replay: a story told through the SPI and the environment in virtual time, watched, and compared at the end."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from types import TracebackType
from typing import Self

import anyio
import msgspec

from ..memory import Backend, Env, Truth
from ..model import (
    CallMeta,
    DispatchError,
    HoldMeta,
    NativePolicy,
    NotFoundError,
    Observation,
    Policy,
    Ref,
    ReleaseMeta,
    State,
)
from ..model.texts import short
from ..spi import Watch
from .stories import Item, Step, Story

__all__ = ("Replay", "Verdict", "View", "differences")

REQUEUE_BIT = NativePolicy(settings={"requeue": "1"}, covered=(), rest=Policy())

ENVIRONMENT: Mapping[str, Callable[[Env, Ref], Awaitable[object]]] = {
    "run": Env.run,
    "out_of_memory": Env.out_of_memory,
    "time_out": Env.time_out,
    "fail_launch": Env.fail_launch,
    "preempt": Env.preempt,
    "lose_node": Env.lose_node,
}
"""The acts that are the scheduler's side alone."""


class View:
    """Who is shown what happens. This one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing more is shown."""

    def change(self, item: Item, seen: Observation) -> None:
        """Show a change that was watched."""

    def moment(self, at: datetime, done: int) -> None:
        """Show that everything up to a moment has happened, and how many steps that were."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one object.

    :ivar item: the object
    :ivar truth: as it is; ``None`` if it was never started
    :ivar differences: where record, ground truth, observation and watch do not agree
    """

    item: Item
    truth: Truth | None
    differences: Sequence[str]


class Replay:
    """One telling of a story.

    :param story: the story
    :param view: who is shown it
    :param pause: how many seconds a person is given to look at each moment
    """

    def __init__(self, story: Story, view: View, pause: float = 0) -> None:
        self.story = story
        self.view = view
        self.pause = pause
        self.now: datetime = story.steps[0].at
        self.done: int = 0
        self.watched: dict[Item, list[Observation]] = {item: [] for item in story.items}
        self._backend = Backend(story.config, clock=lambda: self.now)
        self._refs: dict[Item, Ref] = {}
        self._refused: defaultdict[Item, list[str]] = defaultdict(list)
        self._items = {(item.job.id, item.submission): item for item in story.items}

    async def tell(self) -> Sequence[Verdict]:
        """Tell the story, then compare."""
        async with self._backend as backend:
            async with backend.watch() as watch, anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow, watch)
                for now, steps in groupby(self.story.steps, key=lambda step: step.at):
                    self.now = now
                    for step in steps:
                        await self._do(step)
                        self.done += 1
                    await anyio.sleep(self.pause)
                    self.view.moment(self.now, self.done)
                await watch.aclose()
            return [await self._judge(item) for item in self.story.items]

    async def _follow(self, watch: Watch) -> None:
        async for seen in watch:
            item = self._items[seen.job_id, seen.submission]
            self.watched[item].append(seen)
            self.view.change(item, seen)

    async def _do(self, step: Step) -> None:
        try:
            await self._act(step.act, step.item, step.number)
        except DispatchError as error:
            self._refused[step.item].append(f"{step.act} at {short(step.at)}: {type(error).__name__}: {error}")

    async def _act(self, act: str, item: Item, number: int) -> None:
        backend = self._backend
        if act == "start":
            ref = await backend.start(item.job, item.submission, native=REQUEUE_BIT if item.requeue_bit else None)
            self._refs[item] = await backend.weaken_identity(ref)
        elif item not in self._refs:
            pass  # its start was refused, and that is told
        elif act == "finish":
            await backend.env.finish(self._refs[item], number)
        elif act in ENVIRONMENT:
            await ENVIRONMENT[act](backend.env, self._refs[item])
        else:
            await self._ask(act, (await backend.get(self._refs[item])).ref, number)

    async def _ask(self, act: str, ref: Ref, number: int) -> None:
        """Make a call of the SPI, which takes the ref as it stands now."""
        backend, now = self._backend, self._backend.now()
        match act:
            case "open":
                await backend.open(ref)
            case "stop":
                await backend.stop(ref)
            case "hold":
                await backend.hold(ref, HoldMeta(instance=number, deadline=now, by="demo"))
            case "release":
                await backend.release(ref, ReleaseMeta(instance=number, deadline=now))
            case "requeue":
                await backend.requeue(ref, CallMeta(deadline=now))
            case "restore_requeue_bit":
                await backend.restore_requeue_bit(ref, CallMeta(deadline=now))
            case _:
                pass  # "look": what was due by now has happened when the ref was asked for

    async def _judge(self, item: Item) -> Verdict:
        refused = self._refused[item]
        if item not in self._refs:
            return Verdict(item, None, refused)
        truth = await self._backend.env.truth(self._refs[item])
        try:
            seen = await self._backend.get(self._refs[item])
        except NotFoundError:
            seen = None
        return Verdict(item, truth, [*refused, *differences(item, seen, truth, self.watched[item])])


def differences(item: Item, seen: Observation | None, truth: Truth, watched: Sequence[Observation]) -> list[str]:
    """Where what must be, what is, what the scheduler shows and what was watched do not agree.

    :param item: what must be, by the record
    :param seen: what the scheduler shows; ``None`` if it knows the object no more
    :param truth: what is
    :param watched: every change that the watcher was told
    """
    last = watched[-1] if watched else None
    spans = _spans(watched)
    facts: dict[str, tuple[object, object]] = {
        "state": (truth.state, item.state),
        "cause": (truth.cause, item.cause),
        "restarts": (truth.restarts, item.restarts),
        "deleted": (seen is None, item.deleted),
        "runs": (len(truth.executions), len(item.runs)),
        "runs watched": (len(spans), len(item.runs)),
    }
    if seen:
        facts |= {
            "state shown": (seen.state, item.state),
            "cause shown": (seen.cause, item.cause),
            "restarts shown": (seen.restarts, item.restarts),
            "exit code shown": (seen.exit_code, item.exit_code),
            "ref shown": (seen.ref, truth.ref),
            "last watched": (last and msgspec.structs.replace(last, observed_at=seen.observed_at), seen),
        }
    else:
        facts |= {
            "state last watched": (last and last.state, State.GONE),
            "cause last watched": (last and last.cause, item.cause),
        }
    for number, (run, span, must) in enumerate(zip(truth.executions, spans, item.runs, strict=False), 1):
        facts |= {
            f"run {number}: began": (run.started_at, must.began),
            f"run {number}: watched": (span, (must.began, must.shown)),
            f"run {number}: died": (run.ended_at, must.died),
            f"run {number}: alive": (run.alive, must.died is None),
            f"run {number}: cause": (run.cause, must.cause),
            f"run {number}: exit code": (run.exit_code, must.exit_code),
        }
    return [
        f"{what}: found {short(found)}, expected {short(expected)}"
        for what, (found, expected) in facts.items()
        if found != expected
    ]


def _spans(watched: Sequence[Observation]) -> list[tuple[datetime, datetime | None]]:
    """When the watcher was told that a run began, and when it was told what came next."""
    states = [None, *(seen.state for seen in watched)]
    moments = [*(seen.observed_at for seen in watched), None]
    return [
        (seen.observed_at, after)
        for seen, before, after in zip(watched, states, moments[1:], strict=False)
        if seen.state is State.RUNNING and before is not State.RUNNING
    ]
