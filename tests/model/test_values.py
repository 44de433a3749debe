"""What holds for every value (1.1): its fields, that it checks itself, is copied, read-only, short, and travels."""

import copy
import inspect
import pickle
from collections import UserDict
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ulid import ULID

from dispatch_memory_async import (
    EPOCH_BOUND,
    Action,
    AdapterConfig,
    CallMeta,
    CallRecord,
    Capabilities,
    Cause,
    Cessation,
    Config,
    Execution,
    HoldMeta,
    InvalidError,
    Job,
    NativePolicy,
    Observation,
    Policy,
    Ref,
    ReleaseMeta,
    Resources,
    Rule,
    State,
    Support,
    Truth,
    dec_hook,
    enc_hook,
)
from dispatch_memory_async.model import Value
from tests.model.samples import (
    ANY_VALUE,
    FIELDS,
    JOBS,
    KINDS,
    OBSERVATIONS,
    PROPERTY,
    REQUIRED,
    WHOLE,
    whole,
)
from tests.support import T0, job, ulid

SHORT = 600
"""US-9: about 500 characters."""


def name_of(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


every_kind = pytest.mark.parametrize("kind", KINDS, ids=name_of)


# The fields


@every_kind
def test_fields_and_defaults(kind: type[Value]) -> None:
    """1.1, 2.1, 2.7: every field, and the default of those that have one."""
    assert set(kind.__struct_fields__) == set(FIELDS[kind])
    made = kind(**{name: WHOLE[kind][name] for name, default in FIELDS[kind].items() if default is REQUIRED})
    for name, default in FIELDS[kind].items():
        if default is not REQUIRED:
            assert getattr(made, name) == default, name
            assert type(getattr(made, name)) is type(default) or isinstance(default, dict), name


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, name) for kind in KINDS for name, default in FIELDS[kind].items() if default is REQUIRED],
    ids=name_of,
)
def test_a_field_without_default_must_be_said(kind: type[Value], field: str) -> None:
    """1.1: also ``Ref.submitted_at``, for which ``None`` means something."""
    with pytest.raises(TypeError, match=field):
        kind(**{name: value for name, value in WHOLE[kind].items() if name != field})


@every_kind
def test_more_than_two_fields_are_given_by_name(kind: type[Value]) -> None:
    """1.1: ``kw_only`` where there are more than two fields."""
    make: Any = kind
    first, *others = WHOLE[kind].items()
    if len(others) > 1:
        with pytest.raises(TypeError):
            make(first[1], **dict(others))


@every_kind
def test_every_field_is_kept(kind: type[Value]) -> None:
    """1.1: a value holds what it was made of."""
    made = whole(kind)
    for name, given_value in WHOLE[kind].items():
        assert getattr(made, name) == given_value, name


@every_kind
def test_every_value_is_a_frozen_struct(kind: type[Value]) -> None:
    """1.1: frozen ``msgspec.Struct``s."""
    assert issubclass(kind, msgspec.Struct)
    assert kind.__struct_config__.frozen
    assert kind.__doc__


# What they refuse

NAIVE = datetime(2026, 3, 1, 12)  # noqa: DTZ001  # that is the point
HUGE = 10**5000  # longer than Python turns into text


class NoZone(tzinfo):
    """A time zone that is none: a time in it is naive, as the standard library defines it."""

    def utcoffset(self, _: datetime | None) -> timedelta | None:
        return None

    def dst(self, _: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _: datetime | None) -> str | None:
        return None


class BrokenZone(NoZone):
    def utcoffset(self, _: datetime | None) -> timedelta | None:
        raise RuntimeError("no zone")


class Broken:
    """Nothing about it works."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("no equality")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


ODD = (object(), Broken(), Value, ..., float("nan"))
TEXT = (None, 1, True, b"x", ["x"], *ODD)
FLAG = (None, 0, 1, "yes", "true", *ODD)
COUNT = (None, -1, True, False, 1.5, "1", b"1", 2**63, HUGE, -HUGE, [1], *ODD)
AT_LEAST_ONE = (*COUNT, 0)
INSTANCE = (*AT_LEAST_ONE, EPOCH_BOUND)
INTEGER = (True, 1.5, "1", 2**63, -(2**63), HUGE, *ODD)
MOMENT = (None, NAIVE, date(2026, 3, 1), 0, 1.5, "2026-03-01T12:00:00Z", *ODD)
LENGTH = (None, 5, 1.5, "5m", "PT5M", timedelta(microseconds=-1), T0, *ODD)
IDENTITY = (None, 1, str(ulid(1)), bytes(16), UUID(int=1), *ODD)
ENV: tuple[object, ...] = (None, "x", [], [("a", "b")], {"a": 1}, {1: "a"}, {"a": None}, {b"a": "b"}, *ODD)
ACTIONS: tuple[object, ...] = (
    None,
    "x",
    [],
    {"stop": {"value": "yes"}},
    {"fail": "yes"},
    {"fail": {}},
    {"fail": {"value": "maybe"}},
    *ODD,
)


def enumerated(*others: object) -> tuple[object, ...]:
    return (1, True, b"x", "", "no such", ["x"], *others, *ODD)


def optional(values: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(value for value in values if value is not None)


STATE = enumerated("pending", "PENDING", Cause.HELD)
CAUSE = enumerated("held", "OUT_OF_MEMORY", State.GONE)
REF = (None, "dj-1/1@0", ("dj-1", "1", None), {"name": "n"}, {"name": "", "id": "1", "submitted_at": None}, *ODD)
REFUSED: Mapping[type[Value], Mapping[str, tuple[object, ...]]] = MappingProxyType(
    {
        Support: {"value": enumerated("Yes", None), "source": enumerated("guessed", None), "detail": TEXT},
        Capabilities: {
            "support": (None, "x", [], {"hold": {"value": "yes"}}, {"Hold": "yes"}, {"Hold": {"value": 1}}, *ODD),
            "rules": ACTIONS,
            "native": ACTIONS,
            "call_bound": LENGTH,
        },
        Resources: {
            "nodes": AT_LEAST_ONE,
            "cpus_per_node": AT_LEAST_ONE,
            "memory_per_node": COUNT,
            "gpus_per_node": COUNT,
        },
        Job: {
            "id": IDENTITY,
            "command": (None, "train", b"train", 1, ("train", 1), ("train", None), {"a": "b"}, *ODD),
            "image": TEXT,
            "env": (*ENV, {"DISPATCH_": ""}, {"A": "1", "DISPATCH_EPOCH": "1"}),
            "resources": (None, 1, "x", [], {"nodes": 0}, {"nodes": "1"}),
            "time_limit": optional(LENGTH),
            "queue": TEXT,
            "priority": (None, *INTEGER),
            "extensions": (None, [], {"a": "b"}, {"a": {"b": 1}}, {"a": None}, {1: {}}, *ODD),
        },
        Ref: {
            "name": (*TEXT, ""),
            "id": (*TEXT, "", "a/b", "a@b", "@", "/"),
            "submitted_at": (*optional(MOMENT), T0 + timedelta(microseconds=1), T0.replace(microsecond=500_000)),
        },
        Observation: {
            "ref": REF,
            "job_id": IDENTITY,
            "submission": INSTANCE,
            "state": (None, *STATE),
            "cause": CAUSE,
            "gated": FLAG,
            "hold": optional(INSTANCE),
            "restarts": COUNT,
            "requeue_bit": optional(FLAG),
            "exit_code": INTEGER,
            "started_at": optional(MOMENT),
            "ended_at": optional(MOMENT),
            "observed_at": MOMENT,
            "from_history": FLAG,
            "detail": TEXT,
        },
        CallMeta: {"deadline": MOMENT},
        HoldMeta: {"deadline": MOMENT, "instance": INSTANCE, "by": TEXT, "until": optional(MOMENT), "reason": TEXT},
        ReleaseMeta: {"deadline": MOMENT, "instance": INSTANCE},
        Cessation: {"ceased": FLAG, "detail": TEXT},
        Rule: {
            "causes": (None, 1, "Held", {"held"}, {1}, {None}, *ODD),
            "action": enumerated("stop", "Restart", None),
            "limit": optional(COUNT),
            "backoff": LENGTH,
        },
        Policy: {"rules": (None, 1, "x", (1,), (None,), ("restart",), *ODD), "unmatched": enumerated("restart", None)},
        NativePolicy: {
            "settings": ENV,
            "covered": (None, 1, "01", (-1,), (True,), ("1",), (2**63,), *ODD),
            "rest": (None, 1, "x", []),
        },
        Execution: {
            "attempt": TEXT,
            "epoch": COUNT,
            "env": ENV,
            "started_at": MOMENT,
            "ended_at": optional(MOMENT),
            "cause": CAUSE,
            "exit_code": INTEGER,
            "alive": FLAG,
        },
        Truth: {
            "ref": REF,
            "job": (None, 1, "job", {"id": ulid(1)}, *ODD),
            "submission": INSTANCE,
            "state": (None, *STATE),
            "cause": CAUSE,
            "gated": FLAG,
            "hold": optional(INSTANCE),
            "start_time": optional(MOMENT),
            "held_by": TEXT,
            "held_until": optional(MOMENT),
            "hold_reason": TEXT,
            "admin_held": FLAG,
            "active": FLAG,
            "requeue_bit": optional(FLAG),
            "restarts": COUNT,
            "node": enumerated("down"),
            "executions": (None, 1, "x", (1,), (None,), *ODD),
            "gone_at": optional(MOMENT),
        },
        CallRecord: {
            "call": TEXT,
            "view": TEXT,
            "at": MOMENT,
            "ref": optional(REF),
            "job_id": optional(IDENTITY),
            "outcome": ("error", ValueError("x"), InvalidError, *ODD),
            "landed_at": optional(MOMENT),
        },
        AdapterConfig: {
            "adapter": TEXT,
            "settings": (None, 1, [], (), bytearray(b"{}"), memoryview(b"{}"), {1}, *ODD),
            "read_only": FLAG,
        },
        Config: {
            "shape": enumerated("Slurm", "SLURM", "k8s", None),
            "max_job_id": (*AT_LEAST_ONE, 67_108_864),
            "min_job_age": LENGTH,
            "slurmd_timeout": LENGTH,
            "evidence_window": LENGTH,
            "kill_wait": LENGTH,
            "call_bound": LENGTH,
            "watch_buffer": AT_LEAST_ONE,
            "accounting_lag": LENGTH,
            "capabilities": (None, [], {"hold": {"value": "yes"}}, {"Hold": "yes"}, {"Hold": {"value": "maybe"}}, *ODD),
            "rules": ACTIONS,
            "native": (*ACTIONS, {"fail": {"value": "yes"}}),
            "cessation": (None, 1, True, "", {}, {"ceased": "no"}, {"ceased": False, "detail": 1}, *ODD),
        },
    }
)


def test_every_field_has_its_refusals() -> None:
    assert {kind: set(fields) for kind, fields in REFUSED.items()} == {kind: set(FIELDS[kind]) for kind in KINDS}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in KINDS for field in REFUSED[kind]], ids=name_of)
def test_wrong_fields_are_refused_by_name(kind: type[Value], field: str) -> None:
    """1.1: values check themselves; 1.2: the message says which field, what was found and what was expected."""
    for number, wrong in enumerate(REFUSED[kind][field]):
        with pytest.raises(InvalidError) as refusal:
            whole(kind, **{field: wrong})
        message = str(refusal.value)
        assert kind.__name__ in message, number
        assert field in message, number
        assert "found" in message, number
        assert len(message) < SHORT, number


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Resources(nodes=0), ["Resources.nodes", "found 0", "expected", "1"]),
        (
            lambda: Ref(name="n", id="1", submitted_at=NAIVE),
            ["Ref.submitted_at", "2026-03-01T12:00:00", "expected", "timezone"],
        ),
        (lambda: job(env={"DISPATCH_EPOCH": "1"}), ["Job.env", "DISPATCH_EPOCH", "expected"]),
        (lambda: job(priority=True), ["Job.priority", "found True", "expected int"]),
        (lambda: Cessation(ceased=1), ["Cessation.ceased", "found 1", "expected bool"]),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: whole(HoldMeta, instance=EPOCH_BOUND), ["HoldMeta.instance", "1000000", "expected", "999999"]),
        (lambda: whole(Observation, state="pending"), ["Observation.state", "'pending'", "expected", "Pending"]),
        (lambda: whole(Truth, node="down"), ["Truth.node", "'down'", "expected", "up", "lost", "fenced"]),
        (lambda: whole(Support, value="maybe"), ["Support.value", "'maybe'", "expected", "yes", "no", "unknown"]),
        (lambda: Config(rules={"stop": {"value": "yes"}}), ["Config.rules", "'stop'", "expected", "restart"]),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
        (
            lambda: Config(rules={"fail": {"value": "maybe"}}),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
            ["Config.rules", "'maybe'", "expected", "unknown"],
        ),
    ],
)
def test_a_refusal_can_be_acted_on(make: Callable[[], Value], expected: list[str]) -> None:
    """1.2, US-9: the field, what was found, what was expected."""
    with pytest.raises(InvalidError) as refusal:
        make()
    for part in expected:
        assert part in str(refusal.value)


@pytest.mark.parametrize("zone", [NoZone(), BrokenZone()], ids=["none", "broken"])
@pytest.mark.parametrize(
    ("kind", "field"), [(Ref, "submitted_at"), (Observation, "started_at"), (CallMeta, "deadline")], ids=name_of
)
def test_a_zone_without_an_offset_is_refused(kind: type[Value], field: str, zone: tzinfo) -> None:
    """1.1: a time whose zone says no offset is naive, whatever its `tzinfo`; one whose zone fails is no better."""
    with pytest.raises(InvalidError):
        whole(kind, **{field: NAIVE.replace(tzinfo=zone)})


@pytest.mark.parametrize("other", [object(), Job, Policy(), ulid(1)], ids=["object", "class", "value", "ulid"])
@pytest.mark.parametrize(("kind", "field"), [(Job, "resources"), (NativePolicy, "rest")], ids=name_of)
def test_any_other_object_is_no_value(kind: type[Value], field: str, other: object) -> None:
    """1.1: a value of another type is refused, also where every field of the expected one has a default."""
    if not isinstance(other, FIELD_KINDS[kind]):
        with pytest.raises(InvalidError):
            whole(kind, **{field: other})


@pytest.mark.parametrize("edge", [datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
                                  datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))])  # fmt: skip
def test_a_time_without_an_equal_in_utc_is_refused(edge: datetime) -> None:
    """1.1: it lies before year 1 or after year 9999."""
    with pytest.raises(InvalidError):
        CallMeta(deadline=edge)


FIELD_KINDS: Mapping[type[Value], type[Value]] = MappingProxyType({Job: Resources, NativePolicy: Policy})


class RaisingMapping(Mapping[str, str]):
    def __getitem__(self, _: str) -> str:
        raise RuntimeError("no item")

    def __iter__(self) -> Any:
        raise RuntimeError("no iteration")

    def __len__(self) -> int:
        return 1


class RaisingRef:
    name = "n"
    id = "1"

    @property
    def submitted_at(self) -> datetime:
        raise RuntimeError("no time")


class Unclassed:
    """Nothing can be asked of it: even `isinstance` fails."""

    def __getattribute__(self, _: str) -> Any:
        raise RuntimeError("no attribute")


@pytest.mark.parametrize(
    ("kind", "field", "hostile"),
    [
        (Job, "env", RaisingMapping()),
        (Job, "extensions", {"a": RaisingMapping()}),
        (NativePolicy, "settings", RaisingMapping()),
        (Config, "rules", RaisingMapping()),
        (Observation, "ref", RaisingRef()),
        (Truth, "ref", RaisingRef()),
        (Job, "queue", Unclassed()),
        (CallMeta, "deadline", Unclassed()),
    ],
    ids=["env", "extensions", "settings", "rules", "ref", "truth", "text", "time"],
)
def test_what_raises_when_looked_at_is_refused(kind: type[Value], field: str, hostile: object) -> None:
    """1.1: values check themselves, and refuse with `InvalidError` alone."""
    with pytest.raises(InvalidError):
        whole(kind, **{field: hostile})


@pytest.mark.parametrize("kind", [Ref, Job, Observation], ids=name_of)
def test_text_that_cannot_be_encoded_is_refused(kind: type[Value]) -> None:
    """1.1, ruling 32: every value encodes, so a lone surrogate is refused when it is made."""
    for field, wrong in REFUSED[kind].items():
        if wrong[: len(TEXT)] == TEXT:
            with pytest.raises(InvalidError):
                whole(kind, **{field: "\ud800"})


def test_a_refused_value_is_shown_in_bounded_work() -> None:
    """US-9: a message is short, and making it must not walk through all that was given."""

    class Leaf:
        shown = 0

        def __repr__(self) -> str:
            Leaf.shown += 1
            return "x"

    bomb: object = Leaf()
    for _ in range(14):  # 16384 leaves; a few more levels, and nobody lives to see the message
        bomb = (bomb, bomb)
    with pytest.raises(InvalidError):
        job(command=bomb)
    assert Leaf.shown < 1000


# What they take


class Moment(datetime):
    """What a library for faking or reading time hands out: still a datetime."""


class Length(timedelta):
    pass


def test_subclasses_of_times_are_times() -> None:
    """1.1: every time is an aware `datetime`, every length of time a `timedelta`; a subclass is one too."""
    moment = Moment(2026, 3, 1, 12, tzinfo=UTC)
    assert Ref(name="n", id="1", submitted_at=moment) == Ref(name="n", id="1", submitted_at=T0)
    assert CallMeta(deadline=moment) == CallMeta(deadline=T0)
    assert job(time_limit=Length(hours=1)) == job(time_limit=timedelta(hours=1))
    assert Config(kill_wait=Length(seconds=1)) == Config(kill_wait=timedelta(seconds=1))


@given(moment=st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), minutes=st.integers(-1439, 1439))  # noqa: DTZ001
@PROPERTY
def test_times_of_other_zones_are_the_same_moment_in_utc(moment: datetime, minutes: int) -> None:
    """1.1: every time is in UTC."""
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    kept = CallMeta(deadline=aware).deadline
    assert kept.tzinfo is UTC
    assert kept.replace(tzinfo=None) == moment - timedelta(minutes=minutes)
    assert CallMeta(deadline=aware) == CallMeta(deadline=kept)
    assert hash(CallMeta(deadline=aware)) == hash(CallMeta(deadline=kept))


def test_times_stand_in_utc_at_every_depth() -> None:
    """1.1: in a value inside a value, and when decoded, too."""
    data = b"""{"ref": {"name": "n", "id": "1", "submitted_at": "2026-03-01T14:00:00+02:00"}, "submission": 1,
        "job_id": "00000000000000000000000001", "state": "Gone", "observed_at": "2026-03-01T07:00:00-05:00"}"""
    seen = msgspec.json.decode(data, type=Observation, dec_hook=dec_hook)
    assert (seen.observed_at, seen.ref.submitted_at) == (T0, T0)
    assert {seen.observed_at.tzinfo, seen.ref.submitted_at.tzinfo} == {UTC}  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]


# Copied, and read-only


def test_mappings_are_copied_from_what_was_given() -> None:
    """1.1: what the giver does afterwards changes nothing, at any depth."""
    env, inner = {"A": "1"}, {"k": "v"}
    extensions = {"dispatch": inner}
    command = ["train"]
    made = job(env=env, extensions=extensions, command=command)
    support = {"value": "yes"}
    rules = {"restart": support}
    config = Config(rules=rules)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    before = hash(made), hash(config)
    env["A"] = "2"
    env["DISPATCH_EPOCH"] = "3"
    inner["k"] = "w"
    extensions["other"] = {}
    command.append("more")
    support["value"] = "no"
    rules.clear()
    assert made == job(env={"A": "1"}, extensions={"dispatch": {"k": "v"}}, command=("train",))
    assert config == Config(rules={Action.RESTART: Support(value=Support(value="yes").value)})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert (hash(made), hash(config)) == before


@pytest.mark.parametrize("wrap", [dict, MappingProxyType, UserDict], ids=name_of)
def test_adapter_settings_are_copied_from_any_mapping(wrap: Callable[[Any], Mapping[str, object]]) -> None:
    """1.1, 1.4: the settings of an adapter may hold anything, and are copied whole all the same."""
    listed: list[object] = [1]
    inner: dict[str, object] = {"list": listed}
    outer: dict[str, object] = {"inner": wrap(inner)}
    config = AdapterConfig(settings=wrap(outer))
    again = AdapterConfig(settings={"inner": {"list": [1]}})
    outer["more"] = inner["more"] = 2
    listed.append(3)
    assert set(config.settings) == {"inner"}
    assert set(config.settings["inner"]) == {"list"}
    assert list(config.settings["inner"]["list"]) == [1]
    assert hash(config) == hash(again)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  # our own


def mappings_of(value: Value) -> list[Any]:
    """Every mapping inside a value, at any depth."""
    found: list[Any] = []
    todo: list[object] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Value):
            todo += [getattr(item, name) for name in item.__struct_fields__]
        elif isinstance(item, tuple | frozenset):
            todo += list(item)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        elif isinstance(item, Mapping):
            found.append(item)  # pyright: ignore[reportUnknownArgumentType]
            todo += list(item.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return found


MUTATORS: Mapping[str, Callable[[Any], object]] = MappingProxyType(
    {
        "item": lambda mapping: mapping.__setitem__("new", "x"),
        "delete": lambda mapping: mapping.__delitem__(next(iter(mapping))),
        "or": lambda mapping: mapping.__ior__({"new": "x"}),
        "clear": lambda mapping: mapping.clear(),
        "pop": lambda mapping: mapping.pop(next(iter(mapping))),
        "popitem": lambda mapping: mapping.popitem(),
        "setdefault": lambda mapping: mapping.setdefault("new", "x"),
        "update": lambda mapping: mapping.update(new="x"),
        "init": lambda mapping: mapping.__init__(new="x"),
        "attribute": lambda mapping: setattr(mapping, "new", "x"),
    }
)


@pytest.mark.parametrize("mutate", MUTATORS.values(), ids=MUTATORS)
def test_mappings_are_read_only(mutate: Callable[[Any], object]) -> None:
    """1.1: read-only through and through, the mappings inside mappings too."""
    for kind in KINDS:
        made = whole(kind)
        before = hash(made)
        for mapping in mappings_of(made):
            with pytest.raises((TypeError, AttributeError)):
                mutate(mapping)
        assert made == whole(kind)
        assert hash(made) == before


def test_the_examples_have_mappings() -> None:
    """Else the test before would show nothing."""
    counts = {kind.__name__: len(mappings_of(whole(kind))) for kind in KINDS if mappings_of(whole(kind))}
    assert counts == {
        "Capabilities": 3,
        "Job": 3,
        "NativePolicy": 1,
        "Execution": 1,
        "Truth": 4,
        "AdapterConfig": 3,
        "Config": 3,
    }


@every_kind
def test_fields_are_read_only(kind: type[Value]) -> None:
    """1.1: frozen; no field can be set, deleted or added."""
    made: Any = whole(kind)
    for name in WHOLE[kind]:
        with pytest.raises(AttributeError):
            setattr(made, name, getattr(made, name))
        with pytest.raises(AttributeError):
            delattr(made, name)
    with pytest.raises(AttributeError):
        made.new = 1
    assert made == whole(kind)


# Equal, hashed, shown


@every_kind
def test_values_are_equal_and_hashed_by_content(kind: type[Value]) -> None:
    """1.1: equal if all fields are."""
    assert whole(kind) == whole(kind)
    assert hash(whole(kind)) == hash(whole(kind))
    for name, default in FIELDS[kind].items():
        if default is not REQUIRED and kind is not AdapterConfig:
            fields = {name: default, "rules": WHOLE[kind]["rules"]} if kind is Config else {name: default}
            assert whole(kind, **fields) != whole(kind) or name == "rules", name


@given(value=ANY_VALUE)
@settings(PROPERTY, phases=[Phase.generate])  # shrinking a whole Truth takes minutes
def test_reprs_are_short_lines(value: Value) -> None:
    """US-9: short and readable, naming the type."""
    text = repr(value)
    assert text.startswith(f"{type(value).__name__}(")
    assert "\n" not in text
    assert len(text) < SHORT


LONG_TEXT = "\U0001f600" * 10_000


def hostile(name: str, value: object) -> object:
    """The longest thing that a field of that kind may hold."""
    match value:
        case bool() | ULID() | datetime() | State() | Cause():
            return value
        case str() if type(value) is str and name != "node":
            return LONG_TEXT
        case int():
            return 999_999
        case timedelta():
            return timedelta(days=99_999, microseconds=1)
        case Ref():
            return Ref(name=LONG_TEXT, id=LONG_TEXT, submitted_at=T0)
        case Job():
            return whole(Job, **{key: hostile(key, inner) for key, inner in WHOLE[Job].items()})
        case Mapping():
            first = next(iter(value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            if isinstance(first, str):
                return {f"{number}{LONG_TEXT}": LONG_TEXT for number in range(20)}
            if isinstance(first, Mapping):
                return {f"{number}{LONG_TEXT}": {LONG_TEXT: LONG_TEXT} for number in range(20)}
            return value  # pyright: ignore[reportUnknownVariableType]
        case tuple() if value and isinstance(value[0], str):  # pyright: ignore[reportUnknownMemberType]
            return (LONG_TEXT,) * 20
        case tuple():
            return value * 100  # pyright: ignore[reportUnknownVariableType]
        case frozenset():
            return frozenset(Cause)
        case _:
            return value


@every_kind
def test_reprs_are_short_whatever_is_inside(kind: type[Value]) -> None:
    """US-9: short for the longest contents that a value takes."""
    skipped = {"adapter"} if kind is AdapterConfig else {"max_job_id"} if kind is Config else set[str]()
    longest = whole(kind, **{name: hostile(name, value) for name, value in WHOLE[kind].items() if name not in skipped})
    assert len(repr(longest)) < SHORT
    assert "\n" not in repr(longest)


def test_reprs_can_be_read() -> None:
    """US-9: what is not the default is shown, in the words of the field."""
    assert repr(Ref(name="dj-1", id="7", submitted_at=T0)) == f"Ref('dj-1/7@{int(T0.timestamp())}')"
    assert repr(Ref(name="dj-1", id="7", submitted_at=None)) == "Ref('dj-1/7')"
    assert repr(Resources()) == "Resources()"
    for part in ("Running", "restarts=2", "2026-03-01T12:00:00"):
        seen = Observation(
            ref=Ref(name="n", id="1", submitted_at=T0),
            job_id=ulid(1),
            submission=1,
            state=State.RUNNING,
            restarts=2,
            observed_at=T0,
        )
        assert part in repr(seen)
        assert "exit_code" not in repr(seen)
    assert "1h0m0s" in repr(job(time_limit=timedelta(hours=1)))


@pytest.mark.parametrize("length", [timedelta.max, timedelta(days=106_752)])
def test_reprs_show_the_longest_lengths(length: timedelta) -> None:
    """US-9: a repr never fails, also where Go has no text for a length of time."""
    assert "time_limit=" in repr(job(time_limit=length))
    assert "call_bound=" in repr(whole(Capabilities, call_bound=length))


# They travel


@given(value=ANY_VALUE)
@PROPERTY
def test_values_pickle_and_copy(value: Value) -> None:
    """1.1, ruling 32: with every protocol; mappings stay read-only."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))  # noqa: S301  # our own
        assert again == value
        assert type(again) is type(value)
        assert hash(again) == hash(value)
    for again in (copy.copy(value), copy.deepcopy(value)):
        assert again == value
        assert hash(again) == hash(value)
        for mapping in mappings_of(again):
            with pytest.raises(TypeError):
                mapping["new"] = "x"


@given(value=ANY_VALUE)
@PROPERTY
def test_values_encode_and_decode(value: Value) -> None:
    """1.1, ruling 32: as JSON, through the hooks; what was decoded is read-only too."""
    kind = type(value)
    if kind is CallRecord:  # msgspec makes no decoder for an error
        msgspec.json.encode(value, enc_hook=enc_hook)
        return
    again = msgspec.json.decode(msgspec.json.encode(value, enc_hook=enc_hook), type=kind, dec_hook=dec_hook)
    assert again == value
    assert hash(again) == hash(value)
    for mapping in mappings_of(again):
        with pytest.raises(TypeError):
            mapping["new"] = "x"


def test_a_call_record_with_an_error_encodes() -> None:
    """Ruling 32: values encode, that of a call that failed too."""
    assert b"no such thing" in msgspec.json.encode(
        whole(CallRecord, outcome=InvalidError("no such thing")), enc_hook=enc_hook
    )


def test_the_encoded_form() -> None:
    """1.1, ruling 32: a ULID is its text, an enum its text, a time in UTC."""
    seen = Observation(
        ref=Ref(name="n", id="1", submitted_at=None),
        job_id=ulid(31),
        submission=1,
        state=State.FAILED,
        cause=Cause.OUT_OF_MEMORY,
        observed_at=T0,
    )
    plain = msgspec.json.decode(msgspec.json.encode(seen, enc_hook=enc_hook))
    assert plain["job_id"] == "0000000000000000000000000Z"
    assert plain["state"] == "Failed"
    assert plain["cause"] == "OutOfMemory"
    assert plain["observed_at"] == "2026-03-01T12:00:00Z"
    assert plain["ref"] == {"name": "n", "id": "1", "submitted_at": None}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Cessation, b'{"ceased":1}'),
        (Cessation, b"{}"),
        (Support, b'{"value":"maybe"}'),
        (Support, b'{"value":"yes","source":"Probed"}'),
        (Rule, b'{"causes":["timeout"],"action":"fail"}'),
        (Rule, b'{"causes":["Timeout"],"action":"stop"}'),
        (Policy, b'{"unmatched":"restart"}'),
        (Ref, b'{"name":"n","id":"1","submitted_at":"2026-03-01T12:00:00"}'),
        (Ref, b'{"name":"n","id":"1","submitted_at":"2026-03-01T12:00:00.5Z"}'),
        (Ref, b'{"name":"","id":"1","submitted_at":null}'),
        (Job, b'{"id":"no ulid","command":[]}'),
        (Job, b'{"id":"ZZZZZZZZZZZZZZZZZZZZZZZZZZ","command":[]}'),
        (Job, b'{"id":5,"command":[]}'),
        (Job, b'{"id":"00000000000000000000000001","command":[],"env":{"DISPATCH_X":"1"}}'),
        (Resources, b'{"nodes":0}'),
        (Resources, b'{"nodes":true}'),
    ],
    ids=name_of,
)
def test_decoding_checks_as_making_does(kind: type[Value], data: bytes) -> None:
    """1.1: decoding refuses a name it does not know, and whatever else a value refuses."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=kind, dec_hook=dec_hook)


@pytest.mark.parametrize("found", [object(), {1}, 1j, InvalidError])
def test_hooks_refuse_what_they_do_not_know(found: object) -> None:
    """1.1: they are for ULIDs alone, and say so in the way msgspec asks of a hook."""
    with pytest.raises((TypeError, NotImplementedError)):
        enc_hook(found)
    with pytest.raises((TypeError, NotImplementedError)):
        dec_hook(bytearray, found)


@given(value=st.one_of(JOBS, OBSERVATIONS))
@PROPERTY
def test_a_value_made_of_its_own_fields_is_the_same(value: Value) -> None:
    """1.1: what a value holds, it takes."""
    assert type(value)(**{name: getattr(value, name) for name in value.__struct_fields__}) == value


def test_the_reserved_prefix_is_a_prefix() -> None:
    """1.1: other names that hold it, or spell it otherwise, are the user's own."""
    names = {"dispatch_epoch": "1", "MY_DISPATCH_EPOCH": "2", "DISPATCH": "3", "": "4"}
    assert dict(whole(Job, env=names).env) == names  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]


def test_hold_meta_and_release_meta_are_call_metas() -> None:
    """1.1: `CallMeta` plus what they add."""
    assert issubclass(HoldMeta, CallMeta)
    assert issubclass(ReleaseMeta, CallMeta)
    assert inspect.signature(CallMeta).parameters["deadline"].default is inspect.Parameter.empty
