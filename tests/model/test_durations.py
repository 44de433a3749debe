"""Go duration strings (1.1): what is read, what is refused, and what is written."""

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_memory_async import InvalidError, format_duration, parse_duration
from tests.model.samples import PROPERTY

MICRO, GREEK_MU = "\u00b5", "\u03bc"
HOUR, MINUTE, SECOND = 3_600_000_000, 60_000_000, 1_000_000  # in microseconds

READ: dict[str, int] = {  # to microseconds
    "0": 0,
    "-0": 0,
    "+0": 0,
    "0s": 0,
    "-0s": 0,
    "0h0m0s": 0,
    "5s": 5 * SECOND,
    "30s": 30 * SECOND,
    "1478s": 1478 * SECOND,
    "-5s": -5 * SECOND,
    "+5s": 5 * SECOND,
    "5.0s": 5 * SECOND,
    "5.6s": 5_600_000,
    "5.s": 5 * SECOND,
    ".5s": 500_000,
    "-.5s": -500_000,
    "+.5s": 500_000,
    "1.004s": 1_004_000,
    "1.0040s": 1_004_000,
    "100.00100s": 100_001_000,
    "000000000000000000000000000000005s": 5 * SECOND,
    "5.00000000000000000000000000000000000s": 5 * SECOND,
    "1ns": 0,
    "999ns": 0,
    "1000ns": 1,
    "1999ns": 1,
    "-999ns": 0,
    "-1999ns": -1,
    "11us": 11,
    f"12{MICRO}s": 12,
    f"12{GREEK_MU}s": 12,
    f"1{MICRO}s1{GREEK_MU}s1us": 3,
    "13ms": 13_000,
    "14s": 14 * SECOND,
    "15m": 15 * MINUTE,
    "16h": 16 * HOUR,
    "1.5h": 90 * MINUTE,
    "1.5m": 90 * SECOND,
    "3h30m": 3 * HOUR + 30 * MINUTE,
    "10.5s4m": 4 * MINUTE + 10_500_000,
    "-2m3.4s": -(2 * MINUTE + 3_400_000),
    "1h2m3.5s": HOUR + 2 * MINUTE + 3_500_000,
    "1h2m3s4ms5us6ns": HOUR + 2 * MINUTE + 3 * SECOND + 4_005,
    "39h9m14.425s": 39 * HOUR + 9 * MINUTE + 14_425_000,
    "1s1s1s": 3 * SECOND,
    "500ns500ns": 1,  # the sum is cut, not each part
    "999ns1ns": 1,
    "0.5us0.5us": 1,
    "0.0000005s": 0,
    "0.0000015s": 1,
    "-0.0000015s": -1,
    "0.1h": 6 * MINUTE,
    "0.100000000000000000000h": 6 * MINUTE,
    "52763797000ns": 52_763_797,
    "9007199254740993ns": 9_007_199_254_740,  # beyond what a float can count
    "2562047h47m16.854775807s": 9_223_372_036_854_775,
    "9223372036854775807ns": 9_223_372_036_854_775,
    "9223372036854775.807us": 9_223_372_036_854_775,
    "9223372036.854775807s": 9_223_372_036_854_775,
    "9223372036s854ms775us807ns": 9_223_372_036_854_775,
    "-9223372036854775808ns": -9_223_372_036_854_775,
    "-9223372036.854775808s": -9_223_372_036_854_775,
    "-2562047h47m16.854775808s": -9_223_372_036_854_775,
}

REFUSED = (
    "",
    " ",
    "+",
    "-",
    ".",
    "-.",
    "s",
    "-s",
    ".s",
    "+.s",
    "h",
    "3",
    "1.5",
    "00",
    "0.0",
    "-00",
    "+-0",
    "--5s",
    "+-5s",
    "5-s",
    "5s-",
    "-5s-5s",
    "5s+5s",
    " 5s",
    "5s ",
    "5 s",
    "5s 5m",
    "5s\n",
    "\n5s",
    "5s5",
    "5s0",
    "1d",
    "1w",
    "1y",
    "1S",
    "1H",
    "1M",
    "1Ms",
    "1hs",
    "1sm",
    "1nss",
    "1u",
    "1n",
    f"1{MICRO}",
    f"1{MICRO}{GREEK_MU}s",
    "1min",
    "1sec",
    "1hour",
    "1,5s",
    "1_000s",
    "1e3s",
    "0x10s",
    "1..5s",
    "1.5.5s",
    "inf",
    "nan",
    "infs",
    "∞s",
    "\u0661s",  # a digit, but no Go digit
    "²s",
    "\uff15s",
    "5\uff53",
    "1\u00b5 s",
    "1\u039cs",  # the capital mu
    "5\x00s",
    "5s\x00",
    "PT5M",
    "00:05:00",
    "\ud800s",
    "9223372036854775808ns",
    "-9223372036854775809ns",
    "9223372036854775.808us",
    "9223372036.854775808s",
    "-9223372036.854775809s",
    "9223372036854775807ns1ns",
    "9223372036s854ms775us808ns",
    "2562047h47m16.854775808s",
    "9223372036854776us",
    "3000000h",
    "9" * 20 + "ns",
    "9" * 5000 + "h",
    "1000h" * 3_000,
)


@pytest.mark.parametrize(("text", "microseconds"), READ.items())
def test_read(text: str, microseconds: int) -> None:
    """1.1: a sign, then numbers with units; cut toward zero below a microsecond."""
    assert parse_duration(text) == timedelta(microseconds=microseconds)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:20]))
def test_refused(text: str) -> None:
    """1.1: a bare number, a space, an empty text, an unknown unit, and what 64 bits do not hold."""
    with pytest.raises(InvalidError) as refusal:
        parse_duration(text)
    assert "duration" in str(refusal.value)
    assert len(str(refusal.value)) < 200


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    "found", [None, 0, 5, 1.5, b"5s", ["5s"], timedelta(1), object(), 10**5000, Broken()], ids=type
)
def test_what_is_no_text(found: object) -> None:
    """1.1, 1.2: `InvalidError`, whatever it is."""
    with pytest.raises(InvalidError, match="duration"):
        parse_duration(found)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
PARTS = st.tuples(
    st.text("0123456789", max_size=20), st.none() | st.text("0123456789", max_size=18), st.sampled_from([*UNITS])
).filter(lambda part: bool(part[0] or part[1]))


@given(sign=st.sampled_from(["", "+", "-"]), parts=st.lists(PARTS, min_size=1, max_size=4))
@PROPERTY
def test_against_exact_fractions(sign: str, parts: list[tuple[str, str | None, str]]) -> None:
    """1.1: every well-formed text is read exactly, or refused because it is too long."""
    text = sign + "".join(f"{whole}{'' if part is None else '.' + part}{unit}" for whole, part, unit in parts)
    nanoseconds = 0
    for whole, part, unit in parts:
        digits = part or ""
        nanoseconds += int(Fraction(int(f"0{whole}{digits}"), 10 ** len(digits)) * UNITS[unit])
    if nanoseconds > 2**63 - 1 + (sign == "-"):
        with pytest.raises(InvalidError):
            parse_duration(text)
    else:
        microseconds = nanoseconds // 1000
        assert parse_duration(text) == timedelta(microseconds=-microseconds if sign == "-" else microseconds)


@given(
    text=st.text()
    | st.text("+-.0123456789nuµμsmh ", max_size=12)
    | st.from_regex(r"[-+]?([0-9]*\.?[0-9]*[a-zµ]{1,2})+")
)
@PROPERTY
def test_any_text_is_a_length_or_refused(text: str) -> None:
    """1.1: nothing but `InvalidError` comes out."""
    try:
        length = parse_duration(text)
    except InvalidError:
        return
    assert isinstance(length, timedelta)
    assert parse_duration(format_duration(length)) == length


WRITTEN: dict[int, str] = {
    0: "0s",
    1: f"1{MICRO}s",
    999: f"999{MICRO}s",
    1_000: "1ms",
    1_100: "1.1ms",
    1_001: "1.001ms",
    999_999: "999.999ms",
    SECOND: "1s",
    1_000_001: "1.000001s",
    1_500_000: "1.5s",
    59_999_999: "59.999999s",
    MINUTE: "1m0s",
    MINUTE + 500_000: "1m0.5s",
    5 * MINUTE: "5m0s",
    90 * SECOND: "1m30s",
    HOUR: "1h0m0s",
    HOUR + SECOND: "1h0m1s",
    HOUR + 2 * MINUTE + 3_500_000: "1h2m3.5s",
    24 * HOUR: "24h0m0s",
    100 * 24 * HOUR + 1: "2400h0m0.000001s",
    9_223_372_036_854_775: "2562047h47m16.854775s",
    -1: f"-1{MICRO}s",
    -1_500: "-1.5ms",
    -90 * SECOND: "-1m30s",
    -9_223_372_036_854_775: "-2562047h47m16.854775s",
}


@pytest.mark.parametrize(("microseconds", "text"), WRITTEN.items())
def test_written(microseconds: int, text: str) -> None:
    """1.1: as Go writes it, and read back."""
    length = timedelta(microseconds=microseconds)
    assert format_duration(length) == text
    assert parse_duration(text) == length


@given(
    length=st.timedeltas(timedelta(microseconds=-9_223_372_036_854_775), timedelta(microseconds=9_223_372_036_854_775))
)
@PROPERTY
def test_every_length_comes_back(length: timedelta) -> None:
    """1.1: to the microsecond."""
    assert parse_duration(format_duration(length)) == length


@pytest.mark.parametrize(
    "length",
    [
        timedelta.max,
        timedelta.min,
        timedelta(microseconds=9_223_372_036_854_776),
        timedelta(microseconds=-9_223_372_036_854_776),
    ],
)
def test_too_long_to_be_written(length: timedelta) -> None:
    """1.1: Go counts in 64 bits of nanoseconds."""
    with pytest.raises(InvalidError, match="duration"):
        format_duration(length)


@pytest.mark.parametrize("found", [None, 0, 1.5, "5s", object(), 10**5000, Broken()], ids=type)
def test_what_is_no_length(found: object) -> None:
    """1.1, 1.2: `InvalidError`, whatever it is."""
    with pytest.raises(InvalidError, match="duration"):
        format_duration(found)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
