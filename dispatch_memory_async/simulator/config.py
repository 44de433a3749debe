"""What a run is made of: the configuration that a user gives, and the options that the seed draws."""

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from ..memory import Config, Shape
from ..model import Action, Capability, Cause, Cessation, Policy, Rule, Support, Tristate, UnmatchedPolicy, Value
from ..model.kinds import Count

__all__ = ("Options", "SimConfig", "drawn")

NO, YES = Support(value=Tristate.NO), Support(value=Tristate.YES)


class SimConfig(Value, frozen=True, kw_only=True):
    """One run.

    :ivar seed: decides everything that the other fields leave open
    :ivar shape: the scheduler's shape
    :ivar jobs: how many jobs there are
    :ivar supervisors: how many supervisors work at the same time, at most
    :ivar unmatched: what becomes of an end that no rule names; drawn, if ``None``
    :ivar steps: how many steps the fault phase has
    :ivar quiet: in how many rounds of the quiet phase something may still change, until every job has come to rest
    :ivar stop_at: the step after which nothing is played, to stop and look; ``None`` plays the run to its end, and so
        does one past the last
    :ivar only: the steps of the fault phase that are played; all, if ``None``
    :ivar mutant: the number of the core's protection that is taken back; ``None`` for the real core
    """

    seed: Count
    shape: Shape = Shape.SLURM
    jobs: Count = 1
    supervisors: Count = 3
    unmatched: UnmatchedPolicy | None = None
    steps: Count = 120
    quiet: Count = 80
    stop_at: Count | None = None
    only: tuple[Count, ...] | None = None
    mutant: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("jobs", "supervisors", "steps", "quiet"):
            if getattr(self, field) < 1:
                self._refuse(field, "expected at least 1")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn for a seed: the scheduler, the policy, and which faults there are and how often.

    Every number is the chance of a fault where it can strike, or the weight of a kind of step. Replies are lost by the
    kind of the call: in some seeds those of one kind alone. Where ``runs`` is off, supervisors make single steps of any
    job at any time; where it is on, they go by their agendas, and hear what they are told as often as ``listens`` says.
    """

    config: Config
    lost: frozenset[Capability]
    policy: Policy
    supervisors: int
    offsets: tuple[timedelta, ...]
    reply_lost: Mapping[str, float]
    given_up: float
    dropped: float
    landing: float
    refused: float
    crash_between: float
    reads_fail: float
    conflict: float
    whole: float
    crash: float
    clock: float
    env: float
    operator: float
    foreign: float
    nodes: float
    ends_well: float
    person_stops: float
    fenced_at_last: bool
    native: bool
    runs: bool
    listens: float
    poll: timedelta
    concurrency: int


CAUSES = (
    Cause.NON_ZERO_EXIT,
    Cause.NODE_LOST,
    Cause.PREEMPTED,
    Cause.UNKNOWN,
    Cause.STOPPED,
    Cause.TIMEOUT,
    Cause.OUT_OF_MEMORY,
    Cause.LAUNCH_FAILED,
)
GONE = (
    (Capability.CESSATION,),
    (Capability.HOLD, Capability.HOLD_RUNNING),
    (Capability.REQUEUE,),
    (Capability.WATCH,),
    (Capability.CESSATION, Capability.HOLD, Capability.HOLD_RUNNING, Capability.REQUEUE),
)
"""What is taken away from an adapter together."""

CALLS = ("start", "open", "stop", "hold", "release", "requeue", "restore_requeue_bit")
"""The calls that change something."""

NATIVE = {
    Shape.SLURM: Rule(causes=frozenset({Cause.PREEMPTED, Cause.NODE_LOST}), action=Action.RESTART),
    Shape.KUBEFLOW: Rule(causes=frozenset({Cause.NON_ZERO_EXIT, Cause.OUT_OF_MEMORY}), action=Action.RESTART, limit=2),
}
"""A rule that the scheduler can carry out itself."""


def _policy(rng: Random, unmatched: UnmatchedPolicy | None) -> Policy:
    backoff = timedelta(seconds=rng.choice((0, 0, 0, 20, 90)))
    every = frozenset(CAUSES)
    shapes: tuple[tuple[Rule, ...], ...] = (
        (Rule(causes=every, action=Action.RESTART, limit=rng.choice((1, 2, 3)), backoff=backoff),),
        (Rule(causes=every, action=Action.RESTART, backoff=backoff),),
        (Rule(causes=every, action=Action.RESTART),),
        (Rule(causes=frozenset({Cause.NODE_LOST, Cause.UNKNOWN}), action=Action.RESTART),),
        (
            Rule(causes=frozenset({Cause.STOPPED, Cause.UNKNOWN}), action=Action.RESTART, limit=2),
            Rule(causes=frozenset({Cause.NON_ZERO_EXIT, Cause.PREEMPTED}), action=Action.RESTART, backoff=backoff),
        ),
        (
            Rule(causes=frozenset({Cause.NON_ZERO_EXIT}), action=Action.FAIL),
            Rule(causes=every, action=Action.RESTART, limit=3),
        ),
        (
            Rule(causes=frozenset({rng.choice(CAUSES)}), action=Action.HOLD),
            Rule(causes=every, action=Action.RESTART),
        ),
    )
    drawn_unmatched = rng.choice(tuple(UnmatchedPolicy))
    return Policy(() if rng.random() < 0.08 else rng.choice(shapes), unmatched or drawn_unmatched)


def drawn(config: SimConfig, rng: Random, focus: Mapping[str, Any]) -> Options:
    """The options of a run.

    :param focus: options, and settings of the scheduler, that are not left to the seed
    """

    def often(chance: float, most: float) -> float:
        """Off in most seeds, and of any strength in the others."""
        return rng.uniform(0.02, most) if rng.random() < chance else 0.0

    lost = frozenset(rng.choice(GONE)) if rng.random() < 0.25 else frozenset[Capability]()
    history = config.shape is Shape.SLURM and rng.random() < 0.3
    settings: dict[str, Any] = {
        "shape": config.shape,
        "max_job_id": rng.choice((2, 3, 100, 100)) + config.jobs - 1,
        "min_job_age": timedelta(seconds=rng.choice((60, 300))),
        "slurmd_timeout": timedelta(seconds=rng.choice((30, 300))),
        "evidence_window": timedelta(seconds=rng.choice((0, 60, 300))),
        "kill_wait": timedelta(seconds=rng.choice((0, 0, 30))),
        "cessation": Cessation(ceased=rng.random() < 0.2),
        "watch_buffer": rng.choice((1, 1, 3, 64)),
    }
    skewed, storm = rng.random() < 0.4, rng.random() < 0.3
    options: dict[str, Any] = {
        "lost": lost,
        "policy": _policy(rng, config.unmatched),
        "supervisors": rng.randint(1, config.supervisors),
        "offsets": tuple(timedelta(seconds=rng.choice((-0.9, 0, 0.9)) if skewed else 0) for _ in range(4)),
        "reply_lost": rng.uniform(0.1, 0.5) if storm else often(0.5, 0.35),
        "given_up": rng.uniform(0.2, 0.7) if storm else often(0.5, 0.3),
        "dropped": rng.choice((0.0, 0.15, 0.5)),
        "landing": rng.choice((0.02, 0.1, 0.2)),
        "refused": often(0.4, 0.2),
        "crash_between": often(0.3, 0.5),
        "reads_fail": often(0.4, 0.2),
        "conflict": often(0.3, 0.15),
        "whole": rng.choice((0.0, 0.3, 0.6, 0.9)),
        "crash": rng.uniform(0.05, 0.2) if storm else often(0.6, 0.08),
        "clock": rng.uniform(0.05, 0.3),
        "env": rng.uniform(0.1, 0.35),
        "operator": often(0.7, 0.1),
        "foreign": rng.uniform(0.2, 0.6) if rng.random() < 0.15 else often(0.5, 0.3),
        "nodes": often(0.5, 0.4),
        "ends_well": rng.uniform(0.01, 0.12),
        "person_stops": rng.choice((0.0, 0.05, 0.2)),
        "fenced_at_last": rng.random() < 0.5,
        "native": rng.random() < 0.15,
        "runs": rng.random() < 0.5,
        "listens": rng.choice((0.05, 0.15, 0.3)),
        "poll": timedelta(seconds=rng.choice((5, 30))),
        "concurrency": rng.choice((1, 16)),
    }
    for name, chosen in focus.items():
        (options if name in options else settings)[name] = chosen
    alone = rng.choice(CALLS) if rng.random() < 0.3 else None
    options["reply_lost"] = {
        call: options["reply_lost"] if "reply_lost" in focus or alone in (None, call) else 0.0 for call in CALLS
    }
    if options["native"]:
        settings |= {"rules": {Action.RESTART: YES}, "native": {Action.RESTART: YES}}
        policy = options["policy"]
        options["policy"] = Policy((NATIVE[config.shape], *policy.rules), policy.unmatched)
    support = dict.fromkeys(sorted(options["lost"]), NO)
    settings["capabilities"] = {Capability.ACCOUNTING_HISTORY: YES, **support} if history else support
    return Options(config=Config(**settings), **options)
