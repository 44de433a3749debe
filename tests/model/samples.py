"""Every value type: its fields as the spec lists them, one example of each, and strategies that make any of them."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from ulid import ULID

from dispatch_memory_async import (
    EPOCH_BOUND,
    Action,
    AdapterConfig,
    CallMeta,
    CallRecord,
    Capabilities,
    Capability,
    Cause,
    Cessation,
    Config,
    Execution,
    HoldMeta,
    Job,
    NativePolicy,
    Observation,
    Policy,
    Ref,
    ReleaseMeta,
    Resources,
    Rule,
    Shape,
    Source,
    State,
    Support,
    Tristate,
    Truth,
    UnmatchedPolicy,
)
from dispatch_memory_async.model import Value
from tests.support import T0, ulid

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
PROPERTY = settings(
    max_examples=2000 if THOROUGH else 60,
    derandomize=not THOROUGH,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
"""For the property tests: few examples and the same every time, or (`HYPOTHESIS_PROFILE=thorough`) many."""

REQUIRED = object()
"""Stands where a field has no default."""

FIELDS: Mapping[type[Value], Mapping[str, object]] = MappingProxyType(
    {
        Support: {"value": REQUIRED, "source": Source.CONFIGURED, "detail": ""},
        Capabilities: {"support": REQUIRED, "rules": REQUIRED, "native": REQUIRED, "call_bound": REQUIRED},
        Resources: {"nodes": 1, "cpus_per_node": 1, "memory_per_node": 0, "gpus_per_node": 0},
        Job: {
            "id": REQUIRED,
            "command": REQUIRED,
            "image": "",
            "env": {},
            "resources": Resources(),
            "time_limit": None,
            "queue": "",
            "priority": 0,
            "extensions": {},
        },
        Ref: {"name": REQUIRED, "id": REQUIRED, "submitted_at": REQUIRED},
        Observation: {
            "ref": REQUIRED,
            "job_id": REQUIRED,
            "submission": REQUIRED,
            "state": REQUIRED,
            "cause": None,
            "gated": False,
            "hold": None,
            "restarts": 0,
            "requeue_bit": None,
            "exit_code": None,
            "started_at": None,
            "ended_at": None,
            "observed_at": REQUIRED,
            "from_history": False,
            "detail": "",
        },
        CallMeta: {"deadline": REQUIRED},
        HoldMeta: {"deadline": REQUIRED, "instance": REQUIRED, "by": "", "until": None, "reason": ""},
        ReleaseMeta: {"deadline": REQUIRED, "instance": REQUIRED},
        Cessation: {"ceased": REQUIRED, "detail": ""},
        Rule: {"causes": REQUIRED, "action": REQUIRED, "limit": None, "backoff": timedelta(0)},
        Policy: {"rules": (), "unmatched": UnmatchedPolicy.HOLD},
        NativePolicy: {"settings": REQUIRED, "covered": REQUIRED, "rest": REQUIRED},
        Execution: dict.fromkeys(
            ("attempt", "epoch", "env", "started_at", "ended_at", "cause", "exit_code", "alive"), REQUIRED
        ),
        Truth: dict.fromkeys(
            (
                "ref",
                "job",
                "submission",
                "state",
                "cause",
                "gated",
                "hold",
                "start_time",
                "held_by",
                "held_until",
                "hold_reason",
                "admin_held",
                "active",
                "requeue_bit",
                "restarts",
                "node",
                "executions",
                "gone_at",
            ),
            REQUIRED,
        ),
        CallRecord: dict.fromkeys(("call", "view", "at", "ref", "job_id", "outcome", "landed_at"), REQUIRED),
        AdapterConfig: {"adapter": "memory", "settings": b"{}", "read_only": False},
        Config: {
            "shape": Shape.SLURM,
            "max_job_id": 67_043_328,
            "min_job_age": timedelta(minutes=5),
            "slurmd_timeout": timedelta(minutes=5),
            "evidence_window": timedelta(minutes=5),
            "kill_wait": timedelta(0),
            "call_bound": timedelta(seconds=25),
            "watch_buffer": 64,
            "accounting_lag": timedelta(0),
            "capabilities": {},
            "rules": {},
            "native": {},
            "cessation": Cessation(ceased=False, detail=""),
        },
    }
)

YES = Support(value=Tristate.YES, source=Source.PROBED, detail="seen")
REF = Ref(name="dj-1", id="1", submitted_at=T0)
EXECUTION: Mapping[str, Any] = MappingProxyType(
    {
        "attempt": "a",
        "epoch": 1_000_000,
        "env": {"A": "1", "DISPATCH_EPOCH": "1000000"},
        "started_at": T0,
        "ended_at": T0,
        "cause": Cause.PREEMPTED,
        "exit_code": 1,
        "alive": False,
    }
)
JOB: Mapping[str, Any] = MappingProxyType(
    {
        "id": ulid(1),
        "command": ("train", "--fast"),
        "image": "i",
        "env": {"A": "1"},
        "resources": Resources(nodes=2),
        "time_limit": timedelta(hours=1),
        "queue": "q",
        "priority": -3,
        "extensions": {"dispatch": {"k": "v"}},
    }
)
WHOLE: Mapping[type[Value], Mapping[str, Any]] = MappingProxyType(
    {
        Support: {"value": Tristate.YES, "source": Source.PROBED, "detail": "seen"},
        Capabilities: {
            "support": {Capability.HOLD: YES},
            "rules": {Action.FAIL: YES},
            "native": {Action.RESTART: YES},
            "call_bound": timedelta(seconds=25),
        },
        Resources: {"nodes": 2, "cpus_per_node": 3, "memory_per_node": 4, "gpus_per_node": 5},
        Job: JOB,
        Ref: {"name": "dj-1", "id": "1", "submitted_at": T0},
        Observation: {
            "ref": REF,
            "job_id": ulid(1),
            "submission": 2,
            "state": State.FAILED,
            "cause": Cause.OUT_OF_MEMORY,
            "gated": True,
            "hold": 4,
            "restarts": 3,
            "requeue_bit": True,
            "exit_code": 9,
            "started_at": T0,
            "ended_at": T0,
            "observed_at": T0,
            "from_history": True,
            "detail": "d",
        },
        CallMeta: {"deadline": T0},
        HoldMeta: {"deadline": T0, "instance": 1, "by": "me", "until": T0, "reason": "r"},
        ReleaseMeta: {"deadline": T0, "instance": 1},
        Cessation: {"ceased": True, "detail": "d"},
        Rule: {
            "causes": frozenset({Cause.PREEMPTED, Cause.TIMEOUT}),
            "action": Action.RESTART,
            "limit": 2,
            "backoff": timedelta(seconds=1),
        },
        Policy: {
            "rules": (Rule(causes=frozenset({Cause.PREEMPTED}), action=Action.RESTART),),
            "unmatched": UnmatchedPolicy.FAIL,
        },
        NativePolicy: {"settings": {"requeue": "1"}, "covered": (0, 2), "rest": Policy()},
        Execution: EXECUTION,
        Truth: {
            "ref": REF,
            "job": Job(**JOB),
            "submission": 2,
            "state": State.PENDING,
            "cause": Cause.HELD,
            "gated": True,
            "hold": 4,
            "start_time": T0,
            "held_by": "me",
            "held_until": T0,
            "hold_reason": "r",
            "admin_held": True,
            "active": False,
            "requeue_bit": True,
            "restarts": 3,
            "node": "lost",
            "executions": (Execution(**EXECUTION),),
            "gone_at": T0,
        },
        CallRecord: {
            "call": "get",
            "view": "backend",
            "at": T0,
            "ref": REF,
            "job_id": ulid(1),
            "outcome": None,
            "landed_at": T0,
        },
        AdapterConfig: {"adapter": "memory", "settings": {"rules": {"fail": {"value": "yes"}}}, "read_only": True},
        Config: {
            "shape": Shape.KUBEFLOW,
            "max_job_id": 7,
            "min_job_age": timedelta(seconds=1),
            "slurmd_timeout": timedelta(seconds=2),
            "evidence_window": timedelta(seconds=3),
            "kill_wait": timedelta(seconds=4),
            "call_bound": timedelta(seconds=5),
            "watch_buffer": 6,
            "accounting_lag": timedelta(seconds=7),
            "capabilities": {Capability.ACCOUNTING_HISTORY: YES},
            "rules": {Action.RESTART: YES},
            "native": {Action.RESTART: YES},
            "cessation": Cessation(ceased=True, detail="fenced"),
        },
    }
)
"""Every field of every type, none of them its default."""

KINDS = tuple(FIELDS)


def whole(kind: type[Value], **fields: object) -> Value:
    """The example of a type, with some fields changed."""
    return kind(**{**WHOLE[kind], **fields})


TEXTS = st.text(max_size=8)
NAMES = st.text(min_size=1, max_size=8)
COUNTS = st.integers(0, 2**63 - 1)
INSTANCES = st.integers(1, EPOCH_BOUND - 1)
ZONES = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11)), timezone(timedelta(seconds=1))]
)
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES)  # noqa: DTZ001  # the zone is drawn
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))
LENGTHS = st.timedeltas(timedelta(0), timedelta(days=100_000))
ULIDS = st.integers(0, 2**128 - 1).map(ULID.from_int)
ENVS = st.dictionaries(TEXTS.filter(lambda name: not name.startswith("DISPATCH_")), TEXTS, max_size=3)
REFS = st.builds(
    Ref,
    name=NAMES,
    id=st.text(st.characters(codec="utf-8", exclude_characters="/@"), min_size=1, max_size=8),
    submitted_at=st.none() | SECONDS,
)
SUPPORTS = st.builds(Support, value=st.sampled_from(Tristate), source=st.sampled_from(Source), detail=TEXTS)
ACTIONS = st.dictionaries(st.sampled_from(Action), SUPPORTS)
CAPABILITIES = st.dictionaries(st.sampled_from(Capability), SUPPORTS)
RESOURCES = st.builds(
    Resources,
    nodes=st.integers(1, 2**63 - 1),
    cpus_per_node=st.integers(1, 2**63 - 1),
    memory_per_node=COUNTS,
    gpus_per_node=COUNTS,
)
JOBS = st.builds(
    Job,
    id=ULIDS,
    command=st.lists(TEXTS, max_size=3).map(tuple),
    image=TEXTS,
    env=ENVS,
    resources=RESOURCES,
    time_limit=st.none() | LENGTHS,
    queue=TEXTS,
    priority=st.integers(1 - 2**63, 2**63 - 1),
    extensions=st.dictionaries(TEXTS, ENVS, max_size=2),
)
OBSERVATIONS = st.builds(
    Observation,
    ref=REFS,
    job_id=ULIDS,
    submission=INSTANCES,
    state=st.sampled_from(State),
    cause=st.none() | st.sampled_from(Cause),
    gated=st.booleans(),
    hold=st.none() | INSTANCES,
    restarts=COUNTS,
    requeue_bit=st.none() | st.booleans(),
    exit_code=st.none() | st.integers(0, 255),
    started_at=st.none() | MOMENTS,
    ended_at=st.none() | MOMENTS,
    observed_at=MOMENTS,
    from_history=st.booleans(),
    detail=TEXTS,
)
RULES = st.builds(
    Rule,
    causes=st.frozensets(st.sampled_from(Cause)),
    action=st.sampled_from(Action),
    limit=st.none() | COUNTS,
    backoff=LENGTHS,
)
POLICIES = st.builds(Policy, st.lists(RULES, max_size=3).map(tuple), st.sampled_from(UnmatchedPolicy))
EXECUTIONS = st.builds(
    Execution,
    attempt=TEXTS,
    epoch=COUNTS,
    env=ENVS,
    started_at=MOMENTS,
    ended_at=st.none() | MOMENTS,
    cause=st.none() | st.sampled_from(Cause),
    exit_code=st.none() | st.integers(0, 255),
    alive=st.booleans(),
)
TRUTHS = st.builds(
    Truth,
    ref=REFS,
    job=JOBS,
    submission=INSTANCES,
    state=st.sampled_from(State),
    cause=st.none() | st.sampled_from(Cause),
    gated=st.booleans(),
    hold=st.none() | INSTANCES,
    start_time=st.none() | MOMENTS,
    held_by=TEXTS,
    held_until=st.none() | MOMENTS,
    hold_reason=TEXTS,
    admin_held=st.booleans(),
    active=st.booleans(),
    requeue_bit=st.none() | st.booleans(),
    restarts=COUNTS,
    node=st.sampled_from(["up", "lost", "fenced", None]),
    executions=st.lists(EXECUTIONS, max_size=2).map(tuple),
    gone_at=st.none() | MOMENTS,
)
CALL_RECORDS = st.builds(
    CallRecord,
    call=TEXTS,
    view=TEXTS,
    at=MOMENTS,
    ref=st.none() | REFS,
    job_id=st.none() | ULIDS,
    outcome=st.none(),
    landed_at=st.none() | MOMENTS,
)
CONFIGS = st.builds(
    Config,
    shape=st.sampled_from(Shape),
    max_job_id=st.integers(1, 67_108_863),
    min_job_age=LENGTHS,
    slurmd_timeout=LENGTHS,
    evidence_window=LENGTHS,
    kill_wait=LENGTHS,
    call_bound=LENGTHS,
    watch_buffer=st.integers(1, 2**63 - 1),
    accounting_lag=LENGTHS,
    capabilities=CAPABILITIES,
    rules=ACTIONS.map(lambda rules: {**rules, Action.RESTART: YES}),
    native=ACTIONS.map(lambda native: {key: native[key] for key in native if key is Action.RESTART}),
    cessation=st.builds(Cessation, st.booleans(), TEXTS),
)
ANY_VALUE: st.SearchStrategy[Value] = st.one_of(
    SUPPORTS,
    st.builds(Capabilities, support=CAPABILITIES, rules=ACTIONS, native=ACTIONS, call_bound=LENGTHS),
    RESOURCES,
    JOBS,
    REFS,
    OBSERVATIONS,
    st.builds(CallMeta, deadline=MOMENTS),
    st.builds(HoldMeta, deadline=MOMENTS, instance=INSTANCES, by=TEXTS, until=st.none() | MOMENTS, reason=TEXTS),
    st.builds(ReleaseMeta, deadline=MOMENTS, instance=INSTANCES),
    st.builds(Cessation, st.booleans(), TEXTS),
    RULES,
    POLICIES,
    st.builds(NativePolicy, settings=ENVS, covered=st.lists(COUNTS, max_size=3).map(tuple), rest=POLICIES),
    EXECUTIONS,
    TRUTHS,
    CALL_RECORDS,
    CONFIGS,
)
"""Any value but an AdapterConfig, whose settings may be anything."""
