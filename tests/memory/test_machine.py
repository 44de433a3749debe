"""Random runs against the reference model: after every step both must have answered, told and kept the same.

`HYPOTHESIS_PROFILE` is `ci` (the default: few examples, the same every time) or `thorough`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import cast

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ulid import ULID

import dispatch_memory_async as dma
from dispatch_memory_async import Backend, Config, NativePolicy, Observation, Policy, Shape, View
from tests.memory.reference_model import (
    Answer,
    Ask,
    Compiled,
    Logged,
    Model,
    Ran,
    Ref,
    Rule,
    Seen,
    Settings,
    Thing,
    Whole,
    model_of,
    plain,
)
from tests.support import FAR, T0, Clock, job, ulid

STEPS = 50
settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=2000, derandomize=False)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

JOBS = tuple(job(number, env={"LEVEL": str(number)}) for number in (10, 11, 12))  # their ULIDs hold letters
STRANGER = str(ulid(13))
PATIENCE = 40  # turns of the loop in which a watcher must have been told
LOG_EVERY = 8  # steps: the log holds every call since the beginning, to read it is dear
NATIVE_KEYS = {"slurm": "requeue", "kubeflow": "maxRestarts"}


# What the steps are


@dataclass(frozen=True)
class Step:
    """One step of a script; its numbers are read where it is taken, so that most of them mean something."""

    verb: str
    pick: int
    ref: str
    odd: str
    number: int
    wait: float

    def __repr__(self) -> str:
        return f"Step({self.verb!r}, {self.pick}, {self.ref!r}, {self.odd!r}, {self.number}, {self.wait})"


def weighted(**weights: int) -> list[str]:
    return [word for word, weight in weights.items() for _ in range(weight)]


BOTH = weighted(
    rest=1,  # the simplest: a failure shrinks to a script with most steps at rest
    drive=34,
    launch=9,
    start=3,
    open=2,
    run=1,
    stop=4,
    hold=5,
    release=4,
    get=4,
    cessation=2,
    find_many=1,
    weaken_identity=1,
    finish=3,
    out_of_memory=2,
    time_out=1,
    fail_launch=1,
    preempt=4,
    lose_node=6,
    return_node=3,
    fence_node=3,
    admin_hold=2,
    admin_release=2,
    no_capacity=2,
    truth=3,
    fail_calls=3,
    late=8,
    lag_reads=4,
    omit=2,
    clock=9,
    due=8,
    now=2,
    watch=1,
    close=1,
    capabilities=1,
    compile_policy=1,
)
VERBS = {
    "slurm": BOTH
    + weighted(
        requeue=6,
        restore_requeue_bit=3,
        requeue_externally=3,
        deactivate_externally=1,
        reactivate_externally=1,
    ),
    "kubeflow": BOTH
    + weighted(
        requeue=1,
        restore_requeue_bit=1,
        requeue_externally=1,
        deactivate_externally=4,
        reactivate_externally=4,
    ),
}
REFS = weighted(exact=10, old=2, weak=3, renamed=1, renamed_weak=1, off=1, unknown=1, no_number=1)
ODDS = weighted(plain=16, view=2, reader=1, past=2, now=1, early=1, late=1, now_early=1, crash=3)
DRIVES: dict[str, tuple[str, ...]] = {
    "slurm G": ("open",),
    "slurm P": ("run",),
    "slurm H": ("release",),
    "slurm A": ("admin_release",),
    "slurm R": ("lose_node", "requeue", "preempt", "lose_node", "stop", "requeue_externally", "lose_node", "finish"),
    "slurm L": ("due", "return_node", "fence_node", "preempt", "stop", "requeue", "get", "cessation"),
    "slurm X-s": ("due", "finish", "lose_node", "return_node", "get", "lose_node"),
    "slurm X-p": ("due", "finish", "lose_node", "stop", "return_node", "get"),
    "slurm X-r": ("due", "finish", "lose_node", "stop", "return_node", "get"),
    "slurm E": ("requeue", "get", "requeue_externally", "start", "due", "return_node", "start"),
    "kubeflow P": ("run",),
    "kubeflow H": ("release", "release", "reactivate_externally"),
    "kubeflow D": ("reactivate_externally", "hold"),
    "kubeflow A": ("admin_release",),
    "kubeflow R": (
        "preempt",
        "finish",
        "hold",
        "lose_node",
        "out_of_memory",
        "deactivate_externally",
        "preempt",
    ),
    "kubeflow W": ("return_node", "fence_node", "hold", "stop", "deactivate_externally", "due", "finish"),
    "kubeflow E": ("stop", "due", "get"),
}
CLOCK = (0.2, 301, 1, 30, 90, 29.9, 60, 301, 61, -3)
LISTED = ("get", "find", "find_many")
SETTING = ("rest", "clock", "due", "close", "fail_calls", "lag_reads")
WAITS = (0, 0, 0, 0.2, 7, 20)
FAILING = (
    *("start", "open", "get", "find", "stop", "hold", "release", "requeue", "cessation", "find_many"),
    *("restore_requeue_bit", "capabilities", "compile_policy", "weaken_identity"),
)
LATE = {
    "slurm": ("stop", "start", "requeue", "hold", "stop", "requeue", "release", "start", "open", "restore_requeue_bit"),
    "kubeflow": ("stop", "start", "hold", "release", "stop", "hold", "start", "release", "open", "stop"),
}
FOLLOWING = ("stop", "requeue", "finish", "lose_node", "preempt", "stop")
AFTERS = (20, 30, 60, 0.2, 40, 7, 25)  # the delays of the settings among them, so that moments coincide
LAGS = (20, 0, 5, 60, 0.2, 30, 90, 20, 0, -1)
OMITTED = (1, 2, 1, 3, 1, 6, 2, 1, 12, 0)
ERRORS: Mapping[str, Callable[[str], dma.DispatchError]] = {
    "UnavailableError": dma.UnavailableError,
    "OutcomeUnknownError": dma.OutcomeUnknownError,
    "HeldError": dma.HeldError,
}
POLICIES: tuple[tuple[Rule, ...], ...] = (
    (),
    (Rule(("NodeLost", "Preempted"), "restart"),),
    (Rule(("OutOfMemory",), "fail"), Rule(("NodeLost",), "restart"), Rule(("Preempted",), "restart")),
    (Rule(("NodeLost",), "hold"), Rule(("NodeLost", "Preempted"), "restart")),
    (Rule(("Preempted",), "restart", None, 30), Rule(("NodeLost",), "restart")),
    (Rule(("Timeout",), "restart"), Rule(("NodeLost", "Preempted"), "restart")),
    (Rule(("NonZeroExit", "OutOfMemory"), "restart", 3), Rule(("NodeLost",), "fail")),
    (Rule(("NonZeroExit",), "restart", 2), Rule(("OutOfMemory",), "restart", 2)),
    (Rule(("OutOfMemory",), "hold"), Rule(("NonZeroExit", "OutOfMemory"), "restart", 3)),
    (Rule(("NonZeroExit", "OutOfMemory"), "restart", 3, 1),),
)


def steps(shape: Shape) -> st.SearchStrategy[list[Step]]:
    step = st.builds(
        Step,
        verb=st.sampled_from(VERBS[shape.value]),
        pick=st.integers(0, 5),
        ref=st.sampled_from(REFS),
        odd=st.sampled_from(ODDS),
        number=st.integers(0, 9),
        wait=st.sampled_from(WAITS),
    )
    return st.lists(step, min_size=STEPS // 2, max_size=STEPS)


def seconds(*choices: int) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([timedelta(seconds=choice) for choice in choices])


def model_settings(shape: Shape) -> st.SearchStrategy[Settings]:
    return st.builds(
        Settings,
        shape=st.just(shape.value),
        max_job_id=st.sampled_from((3, 2, 100, 3, 1)),
        min_job_age=seconds(60, 300, 60, 0),
        slurmd_timeout=seconds(40, 40, 0),
        evidence_window=seconds(60, 60, 0),
        kill_wait=seconds(30, 0, 30),
        call_bound=seconds(90, 90, 25),
        accounting_lag=seconds(0, 20, 90),
        history=st.booleans(),
        ceased=st.booleans(),
        ceased_detail=st.sampled_from(("", "fenced by hand")),
        native_restart=st.booleans(),
    )


def config_of(chosen: Settings) -> Config:
    """The same settings, as the library takes them; the buffer holds all that one run can tell."""
    yes: dict[str, object] = {"restart": {"value": "yes"}} if chosen.native_restart else {}
    return Config(
        shape=Shape(chosen.shape),
        max_job_id=chosen.max_job_id,
        min_job_age=chosen.min_job_age,
        slurmd_timeout=chosen.slurmd_timeout,
        evidence_window=chosen.evidence_window,
        kill_wait=chosen.kill_wait,
        call_bound=chosen.call_bound,
        accounting_lag=chosen.accounting_lag,
        watch_buffer=100_000,
        capabilities={"AccountingHistory": {"value": "yes"}} if chosen.history else {},  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
        rules=yes,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        native=yes,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        cessation={"ceased": chosen.ceased, "detail": chosen.ceased_detail},  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )


# The library's side


class World:
    """The library under the same calls; its values are handed out in the model's plain forms."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.clients: dict[str, Backend | View] = {"backend": backend}
        self.ids: dict[str, str] = {}  # the library's UID of an object: the model's
        self.attempts: dict[str, tuple[int, int]] = {}
        self.views: dict[str, str] = {}

    async def answer(self, ask: Ask) -> Answer:
        """Make the call; the value is still the library's own."""
        try:
            with ExitStack() as stack:
                if ask.started is not None:
                    stack.enter_context(dma.call_start(ask.started))
                if ask.crash:
                    stack.enter_context(dma.crash_between_steps())
                return Answer(await (self.env_call(ask) if ask.side == "env" else self.spi_call(ask)))
        except dma.StaleError as error:
            return Answer(error=type(error).__name__, current=error.current)
        except dma.DispatchError as error:
            return Answer(error=type(error).__name__)

    def spi_call(self, ask: Ask) -> Awaitable[object]:
        client = self.clients[ask.side]
        ref = self.ref(ask.ref) if ask.ref is not None else None
        deadline = ask.deadline or FAR
        match ask.call, ref:
            case "now", None:
                return just(client.now() if isinstance(client, Backend) else self.backend.now())
            case "watch", None:
                return self.snapshot(client)
            case "capabilities", None:
                return client.capabilities()
            case "compile_policy", None:
                return client.compile_policy(policy_of(ask.rules))
            case "start", None:
                native = native_of(ask.native)
                of = next(each for each in JOBS if str(each.id) == ask.job)
                return client.start(of, ask.submission, native=native, deadline=ask.deadline)
            case "find", None:
                return client.find(ULID.from_str(ask.job))
            case "find_many", None:
                return client.find_many([ULID.from_str(each) for each in ask.jobs])
            case "cessation", None:
                return client.cessation(ULID.from_str(ask.job))
            case "cessation", dma.Ref():
                return client.cessation(ref)
            case "get", dma.Ref():
                return client.get(ref)
            case "weaken_identity", dma.Ref():
                return client.weaken_identity(ref)
            case "open", dma.Ref():
                return client.open(ref, deadline=ask.deadline)
            case "stop", dma.Ref():
                return client.stop(ref, deadline=ask.deadline)
            case "hold", dma.Ref():
                meta = dma.HoldMeta(
                    deadline=deadline, instance=ask.instance, by=ask.by, until=ask.until, reason=ask.reason
                )
                return client.hold(ref, meta)
            case "release", dma.Ref():
                return client.release(ref, dma.ReleaseMeta(deadline=deadline, instance=ask.instance))
            case "requeue", dma.Ref():
                return client.requeue(ref, dma.CallMeta(deadline=deadline))
            case "restore_requeue_bit", dma.Ref():
                return client.restore_requeue_bit(ref, dma.CallMeta(deadline=deadline))
            case _:
                raise AssertionError(f"no such call: {ask}")

    def env_call(self, ask: Ask) -> Awaitable[object]:
        env = self.backend.env
        match ask.call:
            case "objects":
                return env.objects()
            case "calls":
                return env.calls()
            case "fail_calls":
                error = ERRORS[ask.error]("injected")
                return env.fail_calls(
                    ask.target,
                    error,
                    effect=ask.effect,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                    after=ask.after,
                    times=ask.times,
                    when=None if ask.only_job is None else (lambda record: str(record.job_id) == ask.only_job),
                )
            case "lag_reads":
                return env.lag_reads(ask.lag, view=None if ask.view is None else self.clients[ask.view])
            case "omit":
                return env.omit(self.must(ask.ref), times=ask.times)
            case "finish":
                return env.finish(self.must(ask.ref), ask.exit_code)
            case "no_capacity":
                return env.no_capacity(self.must(ask.ref), ask.detail)
            case _:
                act: Callable[[dma.Ref], Awaitable[object]] = getattr(env, ask.call)
                return act(self.must(ask.ref))

    async def snapshot(self, client: Backend | View) -> object:
        """A new watch: its first items, up to `synced`, and nothing after them."""
        async with client.watch() as watch:
            found: list[Observation] = []
            while not watch.synced:
                with anyio.fail_after(5):
                    found.append(await anext(watch))
            return tuple(found)

    # Refs

    def must(self, ref: Ref | None) -> dma.Ref:
        assert ref is not None
        return self.ref(ref)

    def ref(self, ref: Ref) -> dma.Ref:
        uid = next((uid for uid, number in self.ids.items() if number == ref.id), ref.id)
        return dma.Ref(name=ref.name, id=uid, submitted_at=ref.submitted_at)

    def bind(self, truths: Sequence[dma.Truth], model: Model) -> None:
        """Learn the UID of a new object: it is opaque, so the model cannot foretell it."""
        if model.settings.shape == "kubeflow":
            new = [truth.ref.id for truth in truths if truth.ref.id not in self.ids]
            unbound = [thing.id for thing in model.objects if thing.id not in self.ids.values()]
            self.ids.update(zip(new, unbound, strict=False))

    # Values in the model's form

    def plain(self, value: object) -> object:
        match value:
            case dma.Ref():
                return Ref(value.name, self.ids.get(value.id, value.id), value.submitted_at)
            case Observation():
                return self.seen(value)
            case dma.Cessation():
                return (value.ceased, value.detail)
            case dma.Truth():
                return self.truth(value)
            case dma.Execution():
                return self.ran(value)
            case dma.CallRecord():
                return self.logged(value)
            case dma.Capabilities():
                return {
                    **{str(name): f"{each.value} {each.source}" for name, each in value.support.items()},
                    **{f"rules.{name}": f"{each.value} {each.source}" for name, each in value.rules.items()},
                    **{f"native.{name}": f"{each.value} {each.source}" for name, each in value.native.items()},
                    "call_bound": plain(value.call_bound),
                }
            case NativePolicy():
                rest = tuple(
                    Rule(
                        tuple(sorted(str(cause) for cause in rule.causes)),
                        str(rule.action),
                        rule.limit,
                        int(rule.backoff.total_seconds()),
                    )
                    for rule in value.rest.rules
                )
                return Compiled(dict(value.settings), tuple(value.covered), rest)
            case tuple():
                items = cast("tuple[object, ...]", value)
                return tuple(self.plain(item) for item in items)
            case Mapping():
                entries = cast("Mapping[ULID, tuple[object, ...]]", value)
                return {str(key): self.plain(tuple(found)) for key, found in entries.items()}
            case _:
                return value

    def seen(self, value: Observation) -> Seen:
        return Seen(
            ref=cast("Ref", self.plain(value.ref)),
            job_id=str(value.job_id),
            submission=value.submission,
            state=str(value.state),
            cause=text(value.cause),
            gated=value.gated,
            hold=value.hold,
            restarts=value.restarts,
            requeue_bit=value.requeue_bit,
            exit_code=value.exit_code,
            started_at=value.started_at,
            ended_at=value.ended_at,
            observed_at=value.observed_at,
            from_history=value.from_history,
            detail=value.detail,
        )

    def truth(self, value: dma.Truth) -> Whole:
        return Whole(
            ref=cast("Ref", self.plain(value.ref)),
            job_id=str(value.job.id),
            submission=value.submission,
            state=str(value.state),
            cause=text(value.cause),
            gated=value.gated,
            hold=value.hold,
            start_time=value.start_time,
            held_by=value.held_by,
            held_until=value.held_until,
            hold_reason=value.hold_reason,
            admin_held=value.admin_held,
            active=value.active,
            requeue_bit=value.requeue_bit,
            restarts=value.restarts,
            node=value.node,
            executions=tuple(self.ran(each) for each in value.executions),
            gone_at=value.gone_at,
        )

    def ran(self, value: dma.Execution) -> Ran:
        return Ran(
            epoch=value.epoch,
            started_at=value.started_at,
            ended_at=value.ended_at,
            cause=text(value.cause),
            exit_code=value.exit_code,
            alive=value.alive,
        )

    def logged(self, value: dma.CallRecord) -> Logged:
        return Logged(
            call=value.call,
            side=self.views.get(value.view, value.view),
            at=value.at,
            ref=None if value.ref is None else cast("Ref", self.plain(value.ref)),
            job_id=text(value.job_id),
            outcome=None if value.outcome is None else type(value.outcome).__name__,
            landed_at=value.landed_at,
        )

    def check_executions(self, order: int, truth: dma.Truth) -> list[str]:
        """Attempts never repeat, and an execution's environment is the job's with its own two names."""
        wrong = [] if truth.job in JOBS else [f"{truth.ref}: the job is not the one that was started"]
        for index, execution in enumerate(truth.executions):
            if self.attempts.setdefault(execution.attempt, (order, index)) != (order, index):
                wrong.append(f"{truth.ref}: attempt {execution.attempt} was used before")
            own = {"DISPATCH_ATTEMPT": execution.attempt, "DISPATCH_EPOCH": str(execution.epoch)}
            if dict(execution.env) != {**truth.job.env, **own}:
                wrong.append(f"{truth.ref}: execution {index} has env {dict(execution.env)}")
        return wrong

    def check_view(self, record: dma.CallRecord, side: str) -> list[str]:
        """A client has one text of its own."""
        self.views.setdefault(record.view, side)
        if list(self.views.values()).count(side) > 1:
            return [f"{side} is called by more than one text: {self.views}"]
        return []


async def just(value: object) -> object:
    return value


def text(value: object) -> str | None:
    return None if value is None else str(value)


def alive(whole: Whole) -> bool:
    return any(execution.alive for execution in whole.executions)


def described(chosen: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in vars(chosen).items())


def native_of(given: tuple[tuple[str, str], ...] | None) -> NativePolicy | None:
    return None if given is None else NativePolicy(settings=dict(given), covered=(), rest=Policy())


def policy_of(rules: Sequence[Rule]) -> Policy:
    return Policy(
        tuple(
            dma.Rule(
                causes=frozenset(dma.Cause(cause) for cause in rule.causes),
                action=dma.Action(rule.action),
                limit=rule.limit,
                backoff=timedelta(seconds=rule.backoff),
            )
            for rule in rules
        )
    )


# The comparison


def differences(what: str, expected: object, got: object) -> list[str]:
    """Every field that differs, by its name."""
    if expected == got:
        return []
    line = f"{what}: expected {plain(expected)}, got {plain(got)}"
    if isinstance(expected, (Seen, Whole, Ran, Logged)) and type(expected) is type(got):
        names = [each.name for each in fields(expected)]
        return [
            line
            for name in names
            for line in differences(f"{what}.{name}", getattr(expected, name), getattr(got, name))
        ]
    if isinstance(expected, tuple) and isinstance(got, tuple) and not isinstance(expected, Ref):
        ours, theirs = cast("tuple[object, ...]", expected), cast("tuple[object, ...]", got)
        both = min(len(ours), len(theirs))
        wrong = [line for i in range(both) for line in differences(f"{what}[{i}]", ours[i], theirs[i])]
        wrong += [f"{what}[{i}]: expected {plain(ours[i])}, got nothing" for i in range(both, len(ours))]
        return wrong + [f"{what}[{i}]: got {plain(theirs[i])} too" for i in range(both, len(theirs))]
    return [line]


class Machine:
    """Both sides, step by step; `keep` is the library's keep_history."""

    world: World

    def __init__(self, chosen: Settings, keep: int | None = None) -> None:
        self.model = model_of(chosen)
        self.clock = Clock()
        self.keep = keep
        self.script = [f"{'settings':>18}  {described(chosen)}, keep_history={keep}"]
        self.told: list[Observation] = []
        self.compared_told = 0
        self.compared_calls = 0
        self.views = self.checks = 0
        self.current: dict[str, str] = {}
        self.dropped = self.model.dropped
        self.failure: Exception | None = None

    async def run(self, script: Sequence[Step]) -> None:
        """Take all steps; what fails is kept, for a task group would wrap it."""
        config = config_of(self.model.settings)
        async with Backend(config, clock=self.clock, keep_history=self.keep) as backend:
            self.world = World(backend)
            self.new_view("view")
            self.new_view("reader")
            async with anyio.create_task_group() as tasks:
                watch = backend.watch()
                await tasks.start(self.listen, watch)
                self.model.ask(Ask("watch"), self.clock.now)  # it has read the clock (ruling 19)
                try:
                    for step in script:
                        await self.take(step)
                    self.note("end")
                    await self.check(at_end=True)
                except Exception as failure:  # noqa: BLE001 - it is raised again by `play`
                    self.failure = failure
                finally:
                    await watch.aclose()

    async def listen(
        self, watch: dma.Watch, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with watch:
            task_status.started()
            async for observation in watch:
                self.told.append(observation)

    def new_view(self, kind: str) -> None:
        """Another view of that kind takes the place of the closed one."""
        self.views += 1
        view = self.world.backend.view(read_only=kind == "reader")
        assert view.env is self.world.backend.env
        self.current[kind] = f"{kind}{self.views}"
        self.world.clients[self.current[kind]] = view

    def note(self, what: str) -> None:
        self.script.append(f"{self.clock.now:%H:%M:%S.%f}"[:-3].rjust(18) + f"  {what}")

    def fail_if(self, wrong: Sequence[str]) -> None:
        if wrong:
            raise AssertionError("\n".join(["", *wrong]))

    # Taking a step

    async def take(self, step: Step) -> None:
        if step.verb != "rest":
            self.clock.advance(step.wait)
        if step.verb not in SETTING and not self.model.remembered() and step.pick < 4:
            step = replace(step, verb="start", odd="plain", number=step.number % 6)  # or nothing would happen
        match step.verb:
            case "rest":
                return
            case "clock":
                by = -90 if step.number + step.pick == 9 + 5 else CLOCK[step.number]
                self.clock.advance(by)
                self.note(f"(the clock moved by {by} s)")
                return
            case "due":
                self.to_due(step)
                return
            case "close":
                kind = "view" if step.number % 2 else "reader"
                if self.current[kind] in self.model.closed:
                    self.new_view(kind)
                else:
                    await self.world.clients[self.current[kind]].aclose()
                    self.model.close(self.current[kind])
                self.note(f"({self.current[kind]} closed, or made again)")
                return
            case "launch":
                await self.launch(step)
            case "late":
                await self.call_late(step)
            case "omit":
                await self.omit(step)
            case "drive":
                drive = self.drive(step)
                if drive.verb == "due":
                    self.to_due(step)
                    return
                await self.make(self.ask_for(drive))
            case _:
                await self.make(self.ask_for(step))
        await self.check()

    async def launch(self, step: Step) -> None:
        """Start, open and run in one step, so that several objects are under way at a time."""
        number = len(self.model.objects)
        await self.make(self.ask_for(replace(step, verb="start", odd="plain", number=step.number % 6)))
        if len(self.model.objects) > number:
            await self.make(Ask("open", ref=self.model.objects[-1].ref))
            await self.make(Ask("run", "env", ref=self.model.objects[-1].ref))

    async def call_late(self, step: Step) -> None:
        """A call that lands later, unless an earlier fault or a check is before it; most name what is there."""
        verb = LATE[self.model.settings.shape][step.number]
        following = FOLLOWING[step.pick] if step.wait == 20 else None
        after = AFTERS[(step.number + step.pick) % len(AFTERS)] if following is None else self.delay(following)
        fault = Ask("fail_calls", "env", target=verb, error=tuple(ERRORS)[step.pick % len(ERRORS)])
        if step.wait == 7:
            await self.make(replace(fault, effect=("kept", "none")[step.number % 2]))
        await self.make(replace(fault, effect="late", after=timedelta(seconds=after)))
        number = step.number % 6 if verb == "start" else step.number * 7 % 10
        ask = self.ask_for(replace(step, verb=verb, pick=step.pick % 5, number=number))
        await self.make(ask)
        if following is not None:  # what it begins is over in the moment in which the call lands
            if ask.ref is None:
                await self.launch(replace(step, pick=3 - step.pick % 3))
            begin = self.ask_for(replace(step, verb=following, ref="exact", odd="plain"))
            newest = self.model.objects[-1].ref if self.model.objects else begin.ref
            await self.make(replace(begin, ref=ask.ref or newest))

    async def omit(self, step: Step) -> None:
        """The reads of `check` would soon have used it up: so some of them fail, or another list comes first."""
        await self.make(self.ask_for(step))
        effect = ("", "late", "", "kept", "", "none")[step.pick]
        if effect:
            await self.make(self.fail_calls(replace(step, odd="plain"), "find", effect))
        else:
            await self.make(self.ask_for(replace(step, verb="find_many", number=7)))

    def delay(self, verb: str) -> float:
        """How long after it something happens by the clock."""
        chosen = self.model.settings
        slurm = chosen.shape == "slurm"
        lengths = {
            "finish": chosen.min_job_age if slurm else chosen.evidence_window,
            "lose_node": chosen.slurmd_timeout if slurm else chosen.evidence_window,
        }
        return lengths.get(verb, chosen.kill_wait).total_seconds()

    def to_due(self, step: Step) -> None:
        """To the very moment at which something happens next, or everything has: or just before or after it."""
        scheduled = self.model.moments() if step.number >= 8 else sorted(due.at for due in self.model.scheduled())
        if scheduled:
            at = scheduled[-(step.pick % 2)]
            self.clock.now = at + timedelta(seconds=(0, 0, -0.1, 0.1)[step.number % 4])
        else:
            self.clock.advance(1)
        self.note(f"(the clock moved to {self.clock.now:%H:%M:%S.%f})")

    async def make(self, ask: Ask) -> None:
        """One call on both sides."""
        if self.keep is not None and ask.call in ("return_node", "fence_node", "omit") and ask.ref is not None:
            ask = replace(ask, ref=ask.ref._replace(submitted_at=ask.ref.submitted_at or T0))
        if self.keep is not None and ask.call in LISTED and self.model.lag_of(ask.side):
            await self.compare_objects()  # what was dropped is not found
        self.note(str(ask))
        expected = self.model.ask(ask, self.clock.now)
        raw = await self.world.answer(ask)
        await self.hear()
        got_told, all_told = len(self.told), len(self.model.told)
        truths = cast("tuple[dma.Truth, ...]", (await self.world.answer(Ask("objects", "env"))).value)
        self.world.bind(truths, self.model)
        self.compare(ask, expected, raw)
        self.compare_told()
        # counted before `objects` could have settled anything in the call's stead
        self.fail_if(differences(f"{ask.call}: number of observations told", all_told, got_told))

    def compare(self, ask: Ask, expected: Answer, raw: Answer) -> None:
        if self.keep is not None and ask.side == "env":
            return  # of an object that is no longer kept
        got = replace(raw, value=self.world.plain(raw.value))
        name = f"{ask.side}.{ask.call}"
        wrong = differences(f"{name}: error", expected.error, got.error)
        wrong += differences(f"{name}: StaleError.current", expected.current, got.current)
        if self.keep is not None and ask.call == "cessation" and not wrong and got.value is not None:
            wrong += differences(
                f"{name}: ceased",
                cast("tuple[object, ...]", expected.value)[0],
                cast("tuple[object, ...]", got.value)[0],
            )
        elif ask.side != "env" or ask.call in ("run", "truth", "objects"):
            wrong += differences(f"{name}: answer", expected.value, got.value)
        self.fail_if(wrong)

    async def hear(self) -> None:
        """Give the listener its turns."""
        for turn in range(PATIENCE + len(self.model.told) - len(self.told)):
            if len(self.told) >= len(self.model.told) and turn >= 2:
                return
            await anyio.lowlevel.checkpoint()

    def compare_told(self) -> None:
        new = self.told[self.compared_told :]
        expected = tuple(self.model.told[self.compared_told :])
        self.compared_told = len(self.told)
        self.fail_if(differences("told", expected, self.world.plain(tuple(new))))

    async def check(self, *, at_end: bool = False) -> None:
        """All that can be read: the objects, each job's, the signals, and the log of the calls."""
        await self.compare_objects()
        for each in JOBS:
            await self.read(Ask("find", job=str(each.id)))
            await self.read(Ask("cessation", job=str(each.id)))
        for thing in self.model.remembered():
            await self.read(Ask("cessation", ref=thing.ref))
        if self.model.largest_lag():
            await self.check_lagged()
        await self.hear()
        self.compare_told()
        self.checks += 1
        if self.keep is not None or at_end or self.checks % LOG_EVERY == 0:
            await self.compare_calls(at_end=at_end)

    async def check_lagged(self) -> None:
        """Some of what the clients see whose reads may lag, in turn."""
        things = self.model.objects
        for turn, side in enumerate(side for side in self.sides() if self.model.lag_of(side)):
            if side != "backend":
                await self.read(Ask("find", side, job=str(JOBS[(self.checks + turn) % len(JOBS)].id)))
            if things:
                thing = things[(self.checks + turn) % len(things)]
                for ref in (thing.ref, thing.ref._replace(submitted_at=None), *thing.former[-1:]):
                    await self.read(Ask("get", side, ref=ref))

    def sides(self) -> list[str]:
        """The clients that are open."""
        return [side for side in ("backend", *self.current.values()) if side not in self.model.closed]

    async def read(self, ask: Ask) -> None:
        expected = self.model.ask(ask, self.clock.now)
        self.compare(ask, expected, await self.world.answer(ask))

    async def compare_objects(self) -> None:
        ask = Ask("objects", "env")
        expected = cast("tuple[Whole, ...]", self.model.ask(ask, self.clock.now).value)
        raw = cast("tuple[dma.Truth, ...]", (await self.world.answer(ask)).value)
        self.world.bind(raw, self.model)
        got = cast("tuple[Whole, ...]", self.world.plain(raw))
        if self.keep is not None:
            self.compare_kept(self.keep, expected, got)
        kept = [order for order in range(len(expected)) if order not in self.dropped]
        self.fail_if(differences("objects", tuple(expected[order] for order in kept), got))
        for order, truth in zip(kept, raw, strict=True):
            self.fail_if(self.world.check_executions(order, truth))

    def compare_kept(self, keep: int, expected: Sequence[Whole], got: Sequence[Whole]) -> None:
        """Only gone objects without a live process are dropped (ruling 29), as many as the bound asks for."""
        rest = list(got)
        for order, whole in enumerate(expected):
            if order in self.dropped:
                continue
            if rest and rest[0] == whole:
                rest.pop(0)
            elif whole.gone_at is None or alive(whole):
                self.fail_if([f"objects: {plain(whole.ref)} may not be dropped, or differs: {whole}, {rest[:1]}"])
            else:
                self.dropped.add(order)
        gone = [whole for whole in got if whole.gone_at is not None]
        if sum(not alive(whole) for whole in gone) > keep:
            self.fail_if([f"objects: {len(gone)} gone ones are kept, the bound is {keep}"])
        if self.dropped and len(gone) < keep:
            self.fail_if([f"objects: only {len(gone)} gone ones are kept, the bound is {keep}"])

    async def compare_calls(self, *, at_end: bool) -> None:
        ask = Ask("calls", "env")
        expected = cast("tuple[Logged, ...]", self.model.ask(ask, self.clock.now).value)
        answer = cast("tuple[dma.CallRecord, ...]", (await self.world.answer(ask)).value)
        raw = tuple(record for record in answer if record.call not in ("watch", "aclose"))
        if self.keep is not None:
            self.compared_calls = 0
            self.model.landed.clear()
            expected = expected[len(expected) - min(len(expected), self.keep) :]
        self.fail_if(differences("number of calls", len(expected), len(raw)))
        start = 0 if at_end else min([self.compared_calls, *self.model.landed])
        self.compared_calls = len(raw)
        self.model.landed.clear()
        for record, entry in zip(raw[start:], expected[start:], strict=True):
            self.fail_if(self.world.check_view(record, entry.side))
        self.fail_if(differences("calls", expected[start:], self.world.plain(raw[start:])))

    # From steps to calls

    def by_interest(self) -> list[Thing]:
        """Remembered objects, those in the rarer conditions first."""
        order = ["X", "L", "W", "R", "E", "H", "D", "A", "P", "G"]
        return sorted(self.model.remembered(), key=lambda thing: order.index(self.model.condition(thing)[0]))

    def target(self, step: Step) -> Thing | None:
        """Mostly what is in a rare condition, sometimes a gone object."""
        here = self.by_interest()
        gone = [thing for thing in self.model.objects if thing.gone_at is not None]
        if gone and (step.pick == 5 or not here):
            return gone[-1 - step.number % len(gone)]
        return here[max(0, step.pick - 2) % len(here)] if here else None

    def drive(self, step: Step) -> Step:
        """What an object's life would bring next; waiting objects are brought to run first."""
        here = self.by_interest()
        if not here:
            return replace(step, verb="start", ref="exact", odd="plain")
        at = (-1, 0, 1, -2, 2, 3)[step.pick] % len(here)
        choices = DRIVES[f"{self.model.settings.shape} {self.model.condition(here[at])}"]
        verb = choices[step.number % len(choices)]
        # `target` finds the same object by a pick that is two higher
        number = step.number // 2 * 5 % 10
        return replace(step, verb=verb, pick=min(at + 2, 4), ref="exact", odd="plain", number=number)

    def ref(self, step: Step, thing: Thing | None) -> Ref:
        if thing is None or step.ref == "unknown":
            return Ref(f"dj-{STRANGER}", "99", T0)
        exact = thing.ref
        other = self.model.objects[step.number % len(self.model.objects)].name
        off = exact._replace(submitted_at=thing.submitted_at + timedelta(seconds=1))
        refs = {
            "exact": exact,
            "old": thing.former[-1] if thing.former else off,
            "weak": exact._replace(submitted_at=None),
            "renamed": exact._replace(name=other),
            "renamed_weak": Ref(other, exact.id, None),
            "off": off,
            "no_number": exact._replace(id="x"),
        }
        often_weak = thing.gone_at is not None or step.verb in ("get", "truth", "fence_node", "return_node")
        if often_weak and step.ref == "exact" and step.number % 2:
            return refs["weak"]  # which may name others of its name and id
        return refs[step.ref]

    def side(self, step: Step) -> str:
        lagging = [side for side in self.sides() if self.model.lag_of(side)]
        if step.verb in LISTED and lagging and step.number % 2:
            return lagging[step.pick % len(lagging)]
        return self.current.get(step.odd, "backend")

    def with_deadline(self, step: Step, ask: Ask) -> Ask:
        """The deadline is past, now or far; the command started now, long ago or later than that."""
        now = max(self.model.now, self.clock.now)
        minute = timedelta(minutes=1)
        deadline, started = {
            "past": (now - minute, None),
            "now": (now, None),
            "early": (now - minute, now - minute),
            "late": (now + minute, now + 2 * minute),
            "now_early": (now, now - minute),
        }.get(step.odd, (FAR if ask.call not in ("start", "open", "stop") else None, None))
        return replace(ask, deadline=deadline, started=started)

    def ask_for(self, step: Step) -> Ask:
        thing = self.target(step)
        side = self.side(step)
        number = step.number
        some_job = str(JOBS[(0, 1, 0, 2, 1, 0)[step.pick]].id)
        match step.verb:
            case "start":
                return self.with_deadline(step, self.start(step, some_job, side))
            case "open" | "stop" | "requeue" | "restore_requeue_bit":
                crash = step.odd == "crash"
                return self.with_deadline(step, Ask(step.verb, side, ref=self.ref(step, thing), crash=crash))
            case "hold":
                current = thing.hold if thing is not None and thing.hold is not None else 3
                ask = Ask(
                    "hold",
                    side,
                    ref=self.ref(step, thing),
                    instance=max(1, current + (0, 1, -1, 0, 2)[number % 5]),
                    by=("", "ann")[number % 2],
                    until=(None, FAR)[number % 2],
                    reason=f"reason {number}",
                )
                return self.with_deadline(step, ask)
            case "release":
                current = thing.hold if thing is not None and thing.hold is not None else 3
                instance = max(1, current + (0, 0, 0, 1, -1)[number % 5])
                return self.with_deadline(step, Ask("release", side, ref=self.ref(step, thing), instance=instance))
            case "get" | "weaken_identity":
                return Ask(step.verb, side, ref=self.ref(step, thing))
            case "cessation" if number % 3:
                return Ask("cessation", side, ref=self.ref(step, thing))
            case "cessation":
                return Ask("cessation", side, job=(some_job, STRANGER)[number % 2])
            case "find_many":
                jobs = [str(each.id) for each in JOBS[: number % 4]]
                return Ask("find_many", side, jobs=(*jobs, STRANGER, *jobs[: number % 5]))
            case "compile_policy":
                return Ask("compile_policy", side, rules=POLICIES[number % len(POLICIES)])
            case "now" | "watch" | "capabilities":
                return Ask(step.verb, "backend")
            case "fail_calls":
                call = FAILING[(number * 6 + step.pick) % len(FAILING)]
                return self.fail_calls(step, call, ("none", "kept", "late")[(number + step.pick) % 3])
            case "lag_reads":
                kind = (None, None, "view", "reader", "view", "backend")[step.pick]
                view = None if kind is None else self.current.get(kind, kind)
                by = timedelta(seconds=LAGS[number])
                return Ask("lag_reads", "env", lag=by, view=None if view in self.model.closed else view)
            case "omit":
                return Ask("omit", "env", ref=self.ref(step, thing), times=OMITTED[number])
            case "finish":
                exit_code = (0, 1, 255, 7, 0, 1, 2, 256, -1, 3)[number]
                return Ask("finish", "env", ref=self.ref(step, thing), exit_code=exit_code)
            case "no_capacity":
                return Ask("no_capacity", "env", ref=self.ref(step, thing), detail=("", "full", "busy")[number % 3])
            case _:
                return Ask(step.verb, "env", ref=self.ref(step, thing))

    def fail_calls(self, step: Step, call: str, effect: str) -> Ask:
        number, some_job = step.number, str(JOBS[(0, 1, 0, 2, 1, 0)[step.pick]].id)
        after = timedelta(seconds=AFTERS[(number + step.pick) % len(AFTERS)])
        return Ask(
            "fail_calls",
            "env",
            target=call,
            error=tuple(ERRORS)[number % len(ERRORS)],
            effect=effect,
            after=after if effect == "late" else None,
            times=1 + step.pick % 2,
            only_job=some_job if step.odd != "plain" else None,
        )

    def start(self, step: Step, of: str, side: str) -> Ask:
        """Names collide on purpose; some have a native policy, few are wrong."""
        shape = self.model.settings.shape
        submission = (1, 1, 2, 3, 1, 2, 1, 1, 999_999, 0)[step.number]
        native: tuple[tuple[str, str], ...] | None = None
        if step.number in (1, 2, 3):
            native = ((NATIVE_KEYS[shape], "1" if shape == "slurm" else str((1, 1, 2)[step.number - 1])),)
        if step.number == 7:
            native = (("unheardOf", "1"),)
        return Ask("start", side, job=of, submission=submission, native=native)


# The properties


def play(loop: str, machine: Machine, script: Sequence[Step]) -> None:
    anyio.run(machine.run, script, backend=loop)
    if machine.failure is not None:
        machine.failure.add_note("\n".join(["the script:", *machine.script]))
        raise machine.failure


@pytest.mark.parametrize("shape", list(Shape), ids=str)
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(data=st.data())
@settings(PROFILE)
def test_the_library_does_what_the_model_does(loop: str, shape: Shape, data: st.DataObject) -> None:
    """The transition table, TM-1 to TM-6, WA-1 and WA-2, 2.5 and the call log."""
    machine = Machine(data.draw(model_settings(shape)))
    play(loop, machine, data.draw(steps(shape)))


@pytest.mark.parametrize("shape", list(Shape), ids=str)
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(data=st.data(), keep=st.sampled_from((1, 2, 5)))
@settings(PROFILE, max_examples=PROFILE.max_examples // 3)
def test_keep_history_drops_only_what_is_gone(loop: str, shape: Shape, data: st.DataObject, keep: int) -> None:
    """2.7 and ruling 29: a bounded backend does the same, and keeps the newest records."""
    chosen = replace(data.draw(model_settings(shape)), history=False)
    play(loop, Machine(chosen, keep), data.draw(steps(shape)))
