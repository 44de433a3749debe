"""The settings JSON (2.1): everything that is refused, with its path and its value, and that writing undoes reading."""

import json
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_memory_async import (
    Action,
    Capability,
    Cessation,
    Config,
    InvalidError,
    Shape,
    Source,
    Support,
    Tristate,
    decode_settings,
    encode_settings,
    parse_duration,
)
from tests.model.samples import CONFIGS, PROPERTY

KEYS = {
    "shape": "shape",
    "maxJobId": "max_job_id",
    "minJobAge": "min_job_age",
    "slurmdTimeout": "slurmd_timeout",
    "evidenceWindow": "evidence_window",
    "killWait": "kill_wait",
    "callBound": "call_bound",
    "watchBuffer": "watch_buffer",
    "accountingLag": "accounting_lag",
    "capabilities": "capabilities",
    "rules": "rules",
    "native": "native",
    "cessation": "cessation",
}
DURATIONS = ("minJobAge", "slurmdTimeout", "evidenceWindow", "killWait", "callBound", "accountingLag")
DEEP = 10**5


# What is taken


def test_the_spec_in_one_document() -> None:
    """2.1: every key, in camel case, says what its field says."""
    text = """{
        "shape": "kubeflow", "maxJobId": 100, "minJobAge": "5m", "slurmdTimeout": "40s", "evidenceWindow": "1h30m",
        "killWait": "1.5s", "callBound": "25s", "watchBuffer": 65, "accountingLag": "1m",
        "capabilities": {"AccountingHistory": {"value": "yes", "source": "probed"}, "Hold": {"value": "unknown"}},
        "rules": {"restart": {"value": "yes", "detail": "d"}}, "native": {"restart": {"value": "yes"}},
        "cessation": {"ceased": true, "detail": "node fenced"}
    }"""
    expected = Config(
        shape=Shape.KUBEFLOW,
        max_job_id=100,
        min_job_age=timedelta(minutes=5),
        slurmd_timeout=timedelta(seconds=40),
        evidence_window=timedelta(minutes=90),
        kill_wait=timedelta(seconds=1.5),
        call_bound=timedelta(seconds=25),
        watch_buffer=65,
        accounting_lag=timedelta(minutes=1),
        capabilities={
            Capability.ACCOUNTING_HISTORY: Support(value=Tristate.YES, source=Source.PROBED),
            Capability.HOLD: Support(value=Tristate.UNKNOWN),
        },
        rules={Action.RESTART: Support(value=Tristate.YES, detail="d")},
        native={Action.RESTART: Support(value=Tristate.YES)},
        cessation=Cessation(ceased=True, detail="node fenced"),
    )
    assert decode_settings(text) == expected
    assert decode_settings(text.encode()) == expected
    wraps: tuple[Any, ...] = (dict, MappingProxyType, UserDict)
    for wrap in wraps:
        decoded: Any = wrap(json.loads(text))
        assert decode_settings(decoded) == expected
        assert decoded == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        " \t\r\n{ \t\r\n} \t\r\n",
        b"{}",
        {},
        '{"\\u0073hape": "slur\\u006d"}',
        '{"rules": {}, "native": {}, "capabilities": {}}',
        '{"cessation": {"ceased": false}}',
        '{"native": {"restart": {"value": "no"}}}',
    ],
)
def test_what_says_no_more_than_the_defaults(text: Any) -> None:
    """2.1: every key may be left out."""
    assert decode_settings(text).shape is Shape.SLURM
    assert decode_settings(text).max_job_id == 67_043_328


@pytest.mark.parametrize("key", KEYS)
def test_one_key_alone(key: str) -> None:
    """2.1: the others keep their defaults."""
    value: Any = {
        "shape": "kubeflow",
        "maxJobId": 1,
        "watchBuffer": 1,
        "capabilities": {"Output": {"value": "no"}},
        "rules": {"hold": {"value": "no"}},
        "native": {"hold": {"value": "no"}},
        "cessation": {"ceased": True},
    }.get(key, "7h")
    config = decode_settings(json.dumps({key: value}))
    different = {name for name in KEYS.values() if getattr(config, name) != getattr(Config(), name)}
    assert different == {KEYS[key]}


def test_text_beyond_the_first_plane_is_taken() -> None:
    """2.1: as itself, or as an escaped pair of surrogates."""
    for smile in ("\\ud83d\\ude00", "😀"):
        text = f'{{"cessation": {{"ceased": true, "detail": "{smile}"}}}}'
        assert decode_settings(text).cessation.detail == "😀"
        assert decode_settings(text.encode()).cessation.detail == "😀"


# What is refused: the document, where in it, and what stands there

PLACES: list[tuple[str, str, str]] = [
    # an unknown key, at any depth
    ('{"shap": "slurm"}', "$.shap", "slurm"),
    ('{"": 7}', "$", "7"),
    ('{"max_job_id": 7}', "$.max_job_id", "7"),
    ('{"$.shape": 7}', "$", "7"),
    ('{"accountingLag ": "0s"}', "$", "0s"),
    ('{"capabilities": {"Hold": {"value": "yes", "note": "why"}}}', "$.capabilities.Hold.note", "why"),
    ('{"rules": {"fail": {"value": "yes", "values": 7}}}', "$.rules.fail.values", "7"),
    ('{"cessation": {"ceased": true, "reason": "why"}}', "$.cessation.reason", "why"),
    # a key in another case
    ('{"Shape": "slurm"}', "$.Shape", "slurm"),
    ('{"SHAPE": "slurm"}', "$.SHAPE", "slurm"),
    ('{"maxJobID": 7}', "$.maxJobID", "7"),
    ('{"maxjobid": 7}', "$.maxjobid", "7"),
    ('{"MinJobAge": "5m"}', "$.MinJobAge", "5m"),
    ('{"capabilities": {"Hold": {"Value": "yes"}}}', "$.capabilities.Hold.Value", "yes"),
    ('{"cessation": {"Ceased": true}}', "$.cessation.Ceased", "true"),
    # an unknown shape, capability, action, tristate, source
    ('{"shape": "pbs"}', "$.shape", "pbs"),
    ('{"shape": "Slurm"}', "$.shape", "Slurm"),
    ('{"shape": ""}', "$.shape", "''"),
    ('{"shape": "slurm "}', "$.shape", "slurm "),
    ('{"capabilities": {"Teleport": {"value": "yes"}}}', "$.capabilities.Teleport", "Teleport"),
    ('{"capabilities": {"hold": {"value": "yes"}}}', "$.capabilities.hold", "hold"),
    ('{"capabilities": {"ACCOUNTING_HISTORY": {"value": "yes"}}}', "$.capabilities", "ACCOUNTING_HISTORY"),
    ('{"capabilities": {"restart": {"value": "yes"}}}', "$.capabilities.restart", "restart"),
    ('{"rules": {"retry": {"value": "yes"}}}', "$.rules.retry", "retry"),
    ('{"rules": {"Restart": {"value": "yes"}}}', "$.rules.Restart", "Restart"),
    ('{"native": {"Hold": {"value": "no"}}}', "$.native.Hold", "Hold"),
    ('{"rules": {"fail": {"value": "maybe"}}}', "$.rules.fail.value", "maybe"),
    ('{"rules": {"fail": {"value": "Yes"}}}', "$.rules.fail.value", "Yes"),
    ('{"rules": {"fail": {"value": true}}}', "$.rules.fail.value", "true"),
    ('{"rules": {"fail": {"value": "yes", "source": "guessed"}}}', "$.rules.fail.source", "guessed"),
    ('{"capabilities": {"Hold": {"value": "yes", "source": 7}}}', "$.capabilities.Hold.source", "7"),
    # a key that stands there twice, at every depth, also with the same value, also spelt otherwise
    ('{"shape": "slurm", "shape": "kubeflow"}', "$.shape", "kubeflow"),
    ('{"shape": "slurm", "shape": "slurm"}', "$.shape", "slurm"),
    ('{"shape": "slurm", "sh\\u0061pe": "slurm"}', "$.shape", "slurm"),
    ('{"killWait": "1s", "shape": "slurm", "killWait": "2s"}', "$.killWait", "2s"),
    ('{"rules": {}, "rules": {}}', "$.rules", "{}"),
    ('{"rules": {"fail": {"value": "yes"}, "fail": {"value": "no"}}}', "$.rules.fail", "no"),
    ('{"native": {"fail": {"value": "no"}, "fail": {"value": "no"}}}', "$.native.fail", "no"),
    ('{"capabilities": {"Hold": {"value": "yes"}, "Hold": {"value": "no"}}}', "$.capabilities.Hold", "no"),
    ('{"capabilities": {"Hold": {"value": "yes", "value": "no"}}}', "$.capabilities.Hold.value", "no"),
    ('{"cessation": {"ceased": true, "ceased": false}}', "$.cessation.ceased", "false"),
    ('{"cessation": {"ceased": true, "detail": "a", "detail": "b"}}', "$.cessation.detail", "b"),
    # a null
    *((f'{{"{key}": null}}', f"$.{key}", "null") for key in KEYS),
    ('{"rules": {"fail": null}}', "$.rules.fail", "null"),
    ('{"rules": {"fail": {"value": null}}}', "$.rules.fail.value", "null"),
    ('{"rules": {"fail": {"value": "yes", "source": null}}}', "$.rules.fail.source", "null"),
    ('{"rules": {"fail": {"value": "yes", "detail": null}}}', "$.rules.fail.detail", "null"),
    ('{"cessation": {"ceased": null}}', "$.cessation.ceased", "null"),
    ('{"cessation": {"ceased": true, "detail": null}}', "$.cessation.detail", "null"),
    # a wrong type
    ('{"shape": 7}', "$.shape", "7"),
    ('{"shape": ["slurm"]}', "$.shape", "slurm"),
    ('{"shape": {"slurm": 7}}', "$.shape", "slurm"),
    *((f'{{"{key}": "7"}}', f"$.{key}", "7") for key in ("maxJobId", "watchBuffer")),
    *((f'{{"{key}": true}}', f"$.{key}", "true") for key in ("maxJobId", "watchBuffer", "shape", "rules")),
    *((f'{{"{key}": 7.0}}', f"$.{key}", "7.0") for key in ("maxJobId", "watchBuffer")),
    *((f'{{"{key}": 7e0}}', f"$.{key}", "7.0") for key in ("maxJobId", "watchBuffer")),
    *((f'{{"{key}": 1e400}}', f"$.{key}", "inf") for key in ("maxJobId", "watchBuffer")),
    *((f'{{"{key}": []}}', f"$.{key}", "") for key in KEYS),
    *((f'{{"{key}": "x"}}', f"$.{key}", "x") for key in KEYS),
    *((f'{{"{key}": 300}}', f"$.{key}", "300") for key in DURATIONS),
    *((f'{{"{key}": {{}}}}', f"$.{key}", "{}") for key in ("shape", "maxJobId", "minJobAge", "watchBuffer")),
    ('{"rules": {"fail": "yes"}}', "$.rules.fail", "yes"),
    ('{"rules": {"fail": ["yes"]}}', "$.rules.fail", "yes"),
    ('{"rules": {"fail": {"value": "yes", "detail": 7}}}', "$.rules.fail.detail", "7"),
    ('{"cessation": {"ceased": "true"}}', "$.cessation.ceased", "true"),
    ('{"cessation": {"ceased": 1}}', "$.cessation.ceased", "1"),
    ('{"cessation": {"ceased": true, "detail": 7}}', "$.cessation.detail", "7"),
    # a part that is missing
    ('{"rules": {"fail": {}}}', "$.rules.fail", "value"),
    ('{"capabilities": {"Hold": {"source": "probed"}}}', "$.capabilities.Hold", "value"),
    # a broken duration
    *(
        (json.dumps({key: wrong}), f"$.{key}", wrong)
        for key in DURATIONS
        for wrong in ("5", "5 m", "5d", "PT5M", "00:05:00", "m5", "1h-5m", "9223372036.854775808s", "3000000h")
    ),
    *((json.dumps({key: ""}), f"$.{key}", "''") for key in DURATIONS),
    # out of range
    ('{"maxJobId": 0}', "$.maxJobId", "0"),
    ('{"maxJobId": -1}', "$.maxJobId", "-1"),
    ('{"maxJobId": -0}', "$.maxJobId", "0"),
    ('{"maxJobId": 67108864}', "$.maxJobId", "67108864"),
    ('{"watchBuffer": 0}', "$.watchBuffer", "0"),
    ('{"watchBuffer": 9223372036854775808}', "$.watchBuffer", "9223372036854775808"),
    *((json.dumps({key: wrong}), f"$.{key}", "-") for key in DURATIONS for wrong in ("-1us", "-5m", "-9223372036s")),
    # a native yes without one in the rules
    ('{"native": {"restart": {"value": "yes"}}}', "$.native.restart", "yes"),
    ('{"rules": {"restart": {"value": "no"}}, "native": {"restart": {"value": "yes"}}}', "$.native.restart", "yes"),
    ('{"rules": {"fail": {"value": "yes"}}, "native": {"hold": {"value": "yes"}}}', "$.native.hold", "yes"),
    # text that is none
    ('{"cessation": {"ceased": true, "detail": "\\ud800"}}', "$.cessation.detail", "ud800"),
    ('{"cessation": {"ceased": true, "detail": "\\udc00\\ud800"}}', "$.cessation.detail", "udc00"),
    ('{"cessation": {"ceased": true, "detail": "\ud800"}}', "$.cessation.detail", "ud800"),
    ('{"shape": "\\ud800"}', "$.shape", "ud800"),
    ('{"minJobAge": "\\ud8005m"}', "$.minJobAge", "ud800"),
    ('{"\\ud800": 7}', "$", "7"),
    ('{"rules": {"\\ud800": {"value": "yes"}}}', "$.rules", "ud800"),
]


@pytest.mark.parametrize(("text", "path", "value"), PLACES, ids=lambda part: ascii(part)[:60])
def test_refused_with_its_path_and_its_value(text: str, path: str, value: str) -> None:
    """2.1: the message holds both."""
    with pytest.raises(InvalidError) as refusal:
        decode_settings(text)
    message = str(refusal.value)
    assert path in message
    assert value in message
    assert len(message) < 1000


BROKEN: list[str | bytes] = [
    # no text, no JSON, no object
    "",
    b"",
    " ",
    "\n",
    "\x00",
    "null",
    "true",
    "7",
    '"slurm"',
    "[]",
    '[{"shape": "slurm"}]',
    "{",
    "}",
    '{"shape"',
    '{"shape"}',
    '{"shape":}',
    '{"shape": "slurm"',
    '{"shape": "slurm}',
    '{"shape": slurm}',
    "{'shape': 'slurm'}",
    '{shape: "slurm"}',
    '{"shape": "slurm",}',
    '{,"shape": "slurm"}',
    '{"shape": "slurm" "maxJobId": 7}',
    '{"maxJobId": 07}',
    '{"maxJobId": +7}',
    '{"maxJobId": 0x7}',
    '{"maxJobId": 7_0}',
    '{"maxJobId": .7}',
    '{"maxJobId": 7.}',
    '{"maxJobId": \u0667}',
    '{"shape": "slu\nrm"}',
    '{"shape": "slu\x00rm"}',
    '{"shape": "\\x73lurm"}',
    '{"shape": "\\u00"}',
    '{"cessation": {"ceased": True}}',
    "{} // comment",
    '/* comment */ {"shape": "slurm"}',
    "\u00a0{}",
    "{\x0b}",
    "{}\x0c",
    # NaN and its kin
    '{"maxJobId": NaN}',
    '{"maxJobId": Infinity}',
    '{"watchBuffer": -Infinity}',
    '{"cessation": {"ceased": NaN}}',
    "NaN",
    # trailing data
    "{} {}",
    "{}{}",
    "{},",
    "{}x",
    "{}]",
    "{}\x00",
    '{"shape": "slurm"}}',
    # a byte order mark
    "\ufeff{}",
    b"\xef\xbb\xbf{}",
    # no UTF-8
    b"\xff",
    b"\xff\xfe{}",
    b'{"shape": "\xff"}',
    b'{"cessation": {"ceased": true, "detail": "\xed\xa0\x80"}}',  # a surrogate
    b'{"cessation": {"ceased": true, "detail": "\xc0\xaf"}}',  # longer than it need be
    b'{"cessation": {"ceased": true, "detail": "\xf4\x90\x80\x80"}}',  # beyond the last
    b'{"shape": "slurm"}\x80',
    '{"shape": "slurm"}'.encode("utf-16"),
    '{"shape": "slurm"}'.encode("utf-16-le"),
    '{"shape": "slurm"}'.encode("utf-32"),
    # integers without end
    '{"maxJobId": 1' + "0" * 400 + "}",
    '{"maxJobId": 1' + "0" * 4_400 + "}",
    '{"watchBuffer": -1' + "0" * 100_000 + "}",
    '{"minJobAge": 1' + "0" * 4_400 + "}",
    '{"unknown": 1' + "0" * 4_400 + "}",
    '{"watchBuffer": 1e' + "9" * 5_000 + "}",
    # nesting without end
    "[" * DEEP,
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP,
    '{"rules":' * DEEP + "1" + "}" * DEEP,
    '{"rules": ' + "[" * DEEP + "]" * DEEP + "}",
    '{"cessation": {"ceased": ' + "[" * DEEP + "]" * DEEP + "}}",
    '{"capabilities": ' + '{"Hold":' * DEEP + "1" + "}" * DEEP + "}",
    '{"minJobAge": ' + '[{"a":' * DEEP,
    ("[" * DEEP).encode(),
    # long
    '{"shape": "' + "x" * 10**6 + '"}',
    '{"minJobAge": "' + "1h" * 10**5 + 'x"}',
    '{"' + "x" * 10**6 + '": 7}',
    '{"rules": {"' + "x" * 10**6 + '": {"value": "yes"}}}',
    '{"minJobAge": [' + "1," * 10**5 + "1]}",
    "{" + ",".join(f'"k{number}": {number}' for number in range(10**4)) + "}",
]


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text[:40]))
def test_refused_as_a_whole(text: str | bytes) -> None:
    """2.1: trailing data, empty text, text that is not UTF-8, nesting without end; the message stays a message."""
    with pytest.raises(InvalidError) as refusal:
        decode_settings(text)
    assert "$" in str(refusal.value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("depth", [10, 100, 900, 990, 1000, 5000])
@pytest.mark.parametrize("key", ["shape", "minJobAge", "rules", "unknown"])
def test_any_depth_of_nesting_is_refused(key: str, depth: int) -> None:
    """2.1: also just short of where Python itself gives up."""
    for opening, closing in (("[", "]"), ('{"fail":', "}")):
        text = f'{{"{key}": {opening * depth}1{closing * depth}}}'
        with pytest.raises(InvalidError):
            decode_settings(text)
        nested: object = 1
        for _ in range(depth):
            nested = [nested] if opening == "[" else {"fail": nested}
        with pytest.raises(InvalidError):
            decode_settings({key: nested})


# A mapping that was decoded already is no less strange


class Raising(Mapping[str, Any]):
    def __getitem__(self, _: str) -> Any:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no iteration")

    def __len__(self) -> int:
        return 1


class Lying(dict[str, Any]):
    """It has a key, and then it has not."""

    def __getitem__(self, _: str) -> Any:
        raise KeyError("shape")

    def items(self) -> Any:
        return [("shape",)]


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("no equality")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class Unhashable(str):
    """A text that no set takes."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


def bomb() -> Any:
    """Thirty dictionaries that say a thousand million things."""
    nested: Any = {}
    for _ in range(30):
        nested = {"value": nested, "detail": nested}
    return nested


def ring() -> Any:
    """A dictionary that holds itself."""
    inner: dict[str, Any] = {}
    inner["fail"] = inner
    return inner


STRANGE: list[Any] = [
    Raising(),
    Lying(shape="slurm"),
    {"rules": Raising()},
    {"cessation": Raising()},
    {1: "slurm"},
    {None: "slurm"},
    {b"shape": "slurm"},
    {("shape",): "slurm"},
    {"rules": {1: {"value": "yes"}}},
    {"shape": b"slurm"},
    {"shape": Broken()},
    {"maxJobId": Broken()},
    {"minJobAge": Broken()},
    {"minJobAge": timedelta(minutes=5)},
    {"minJobAge": 10**5000},
    {"maxJobId": 10**5000},
    {"maxJobId": 7.0},
    {"maxJobId": float("nan")},
    {"rules": [("fail", {"value": "yes"})]},
    {"rules": {"fail": Broken()}},
    {"unknown": Broken()},
    {"shape": bomb()},
    {"rules": {"fail": bomb()}},
    {"rules": {"fail": {"value": bomb()}}},
    {"minJobAge": bomb()},
    {"rules": ring()},
    {"capabilities": {"Hold": ring()}},
    {"shape": ring()},
]


@pytest.mark.parametrize("settings", STRANGE, ids=range(len(STRANGE)))
def test_strange_mappings_are_refused(settings: Any) -> None:
    """2.1: and no other error than that, in no time, in few words."""
    with pytest.raises(InvalidError) as refusal:
        decode_settings(settings)
    assert "$" in str(refusal.value)
    assert len(str(refusal.value)) < 1000


def test_texts_of_other_kinds_are_texts_or_refused() -> None:
    """2.1: a subclass of `str` may do what it likes; what comes out is a Config or `InvalidError`."""
    for settings in ({"shape": Unhashable("slurm")}, {"minJobAge": Unhashable("5m")}):
        with suppress(InvalidError):
            assert decode_settings(settings) == Config()


@pytest.mark.parametrize("found", [None, 7, True, [], ("{}",), {"{}"}, bytearray(b"{}"), Config(), object(), Broken()])
def test_what_is_neither_text_nor_bytes_nor_a_mapping(found: Any) -> None:
    """1.4, 2.1."""
    with pytest.raises(InvalidError, match=r"\$"):
        decode_settings(found)


# Writing


def test_the_written_form() -> None:
    """2.1: camel case and Go durations, defaults included."""
    text = encode_settings(
        Config(kill_wait=timedelta(milliseconds=1500), rules={Action.FAIL: Support(value=Tristate.NO)})
    )
    assert json.loads(text) == {
        "shape": "slurm",
        "maxJobId": 67_043_328,
        "minJobAge": "5m0s",
        "slurmdTimeout": "5m0s",
        "evidenceWindow": "5m0s",
        "killWait": "1.5s",
        "callBound": "25s",
        "watchBuffer": 64,
        "accountingLag": "0s",
        "capabilities": {},
        "rules": {"fail": {"value": "no", "source": "configured", "detail": ""}},
        "native": {},
        "cessation": {"ceased": False, "detail": ""},
    }


@given(config=CONFIGS)
@PROPERTY
def test_writing_undoes_reading(config: Config) -> None:
    """2.1: `encode_settings` is the inverse; what it writes is JSON that any strict reader takes."""
    text = encode_settings(config)
    assert decode_settings(text) == config
    assert decode_settings(text.encode()) == config
    assert decode_settings(json.loads(text)) == config
    assert set(json.loads(text)) == set(KEYS)
    assert encode_settings(decode_settings(text)) == text


@pytest.mark.parametrize("found", [None, 7, "{}", {}, Support(value=Tristate.YES), Config, object()], ids=type)
def test_only_a_config_is_written(found: Any) -> None:
    """1.2: refused with words."""
    with pytest.raises(InvalidError):
        encode_settings(found)


# Fuzzing, held against a reading of 2.1 that shares no code with the library


def pairs(text: str | bytes) -> Any:
    """The document with its objects as lists of pairs, in a wrapper; `ValueError` if it is no JSON."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(decoded, object_pairs_hook=Pairs)


class Pairs(list[tuple[str, Any]]):
    pass


Check: TypeAlias = Callable[[Any], bool]


def is_text(found: object) -> bool:
    return isinstance(found, str) and not any("\ud800" <= letter < "\ue000" for letter in found)


def is_flag(found: object) -> bool:
    return found is True or found is False


def is_word(*words: str) -> Check:
    return lambda found: found in words


def is_count(largest: int) -> Check:
    return lambda found: type(found) is int and 1 <= found <= largest


def is_length(found: object) -> bool:
    if not isinstance(found, str):
        return False
    try:
        return parse_duration(found) >= timedelta(0)
    except InvalidError:
        return False


def is_object(kinds: Mapping[str, Check], required: str | None = None) -> Check:
    def check_object(found: object) -> bool:
        if not isinstance(found, Pairs):
            return False
        keys = [key for key, _ in found]
        return (
            len(set(keys)) == len(keys)
            and (required is None or required in keys)
            and all(key in kinds and kinds[key](value) for key, value in found)
        )

    return check_object


SUPPORT = is_object(
    {
        "value": is_word("yes", "no", "unknown"),
        "source": is_word("probed", "declared", "configured", "assumed"),
        "detail": is_text,
    },
    "value",
)
ACTIONS = is_object({"restart": SUPPORT, "hold": SUPPORT, "fail": SUPPORT})
CAPABILITIES = {
    *("AccountingHistory", "GatedStart", "Hold", "HoldRunning", "Requeue", "Watch", "Cessation", "Output"),
}
SETTINGS = is_object(
    {
        "shape": is_word("slurm", "kubeflow"),
        "maxJobId": is_count(67_108_863),
        "watchBuffer": is_count(2**63 - 1),
        **dict.fromkeys(DURATIONS, is_length),
        "capabilities": is_object(dict.fromkeys(CAPABILITIES, SUPPORT)),
        "rules": ACTIONS,
        "native": ACTIONS,
        "cessation": is_object({"ceased": is_flag, "detail": is_text}, "ceased"),
    }
)


def is_valid(text: str | bytes) -> bool:
    """Whether 2.1 takes this document."""
    try:
        found = pairs(text)
    except (ValueError, RecursionError):
        return False
    if not SETTINGS(found):
        return False
    said = dict(found)
    yes = {action for action, support in said.get("native", ()) if dict(support)["value"] == "yes"}
    return yes <= {action for action, support in said.get("rules", ()) if dict(support)["value"] == "yes"}


def check(text: str | bytes) -> None:
    """The library takes it exactly if 2.1 does, and can write what it took."""
    try:
        config = decode_settings(text)
    except InvalidError as refusal:
        assert not is_valid(text)
        assert "$" in str(refusal)  # noqa: PT017  # the other way is right too
        return
    assert is_valid(text)
    assert decode_settings(encode_settings(config)) == config


WORDS = st.sampled_from(
    [
        *(*KEYS, *KEYS.values(), "yes", "no", "unknown", "probed", "slurm", "kubeflow", "restart", "hold", "fail"),
        *("Hold", "value", "source", "detail", "ceased", "5m", "-5m", "0", "0s", "", "\ud800", "Value", "x"),
    ]
)
NUMBERS = st.sampled_from([0, 1, -1, 7, 67_108_863, 67_108_864, 2**63, 10**30, 0.0, 7.0, 1e300, float("nan")])
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=3) | st.integers() | st.floats()
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(found=JSON)
@PROPERTY
def test_arbitrary_json(found: Any) -> None:
    """2.1: a Config or `InvalidError`, for any JSON (and what only Python takes for JSON)."""
    check(json.dumps(found))


@given(data=st.binary(max_size=60) | st.text(max_size=60) | st.text('{}[]":,-.0123456789eE\\u shapelrm\n', max_size=40))
@PROPERTY
def test_arbitrary_text_and_bytes(data: str | bytes) -> None:
    """2.1."""
    check(data)


def dump(found: Any) -> str:
    """JSON, in which an object may be a list of pairs with a key more than once."""
    if isinstance(found, Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{dump(value)}" for key, value in found) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(dump, found)) + "]"  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(found)


def places(found: Any) -> Iterator[Any]:
    """Every object and every list in a document."""
    if isinstance(found, Pairs):
        yield found
        for _, value in found:
            yield from places(value)


@given(config=CONFIGS, data=st.data())
@PROPERTY
def test_almost_valid_settings(config: Config, data: st.DataObject) -> None:
    """2.1: a valid document with one or two things wrong: a value, a key, one too many, one twice, one less."""
    document = pairs(encode_settings(config))
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(list(places(document))))
        index = data.draw(st.integers(0, max(len(place) - 1, 0)))
        match data.draw(st.sampled_from(["value", "key", "more", "twice", "less"])):
            case "value" if place:
                place[index] = (place[index][0], data.draw(JSON.map(lambda new: pairs(json.dumps(new)))))
            case "key" if place:
                place[index] = (data.draw(WORDS), place[index][1])
            case "twice" if place:
                place.insert(data.draw(st.integers(0, len(place))), place[index])
            case "less" if place:
                del place[index]
            case _:
                place.append((data.draw(WORDS), data.draw(SCALARS)))
    check(dump(document))


@given(config=CONFIGS, data=st.data())
@PROPERTY
def test_settings_with_a_few_bytes_changed(config: Config, data: st.DataObject) -> None:
    """2.1: as a slip of the finger would."""
    text = bytearray(encode_settings(config).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"}", b","])
        )
    check(bytes(text))
