"""Ref: its text and back (1.1, ruling 13)."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_memory_async import InvalidError, Ref
from tests.model.samples import PROPERTY, REFS
from tests.support import T0

DAY = 86_400


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        (Ref(name="dj-1", id="7", submitted_at=datetime(1970, 1, 2, tzinfo=UTC)), "dj-1/7@86400"),
        (Ref(name="dj-1", id="7", submitted_at=datetime(1970, 1, 1, tzinfo=UTC)), "dj-1/7@0"),
        (Ref(name="dj-1", id="7", submitted_at=datetime(1969, 12, 31, tzinfo=UTC)), "dj-1/7@-86400"),
        (Ref(name="dj-1", id="7", submitted_at=None), "dj-1/7"),
        (Ref(name="a/b@5", id="7", submitted_at=None), "a/b@5/7"),
        (Ref(name="a/b@5", id="7", submitted_at=datetime(1970, 1, 2, tzinfo=UTC)), "a/b@5/7@86400"),
        (Ref(name="/", id=" ", submitted_at=None), "// "),
        (Ref(name="\n", id="\n", submitted_at=None), "\n/\n"),
        (Ref(name="n", id="1", submitted_at=datetime(1, 1, 1, tzinfo=UTC)), f"n/1@{-719_162 * DAY}"),
        (Ref(name="n", id="1", submitted_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)), "n/1@253402300799"),
        (
            Ref(name="n", id="1", submitted_at=datetime(1970, 1, 2, 5, tzinfo=timezone(timedelta(hours=5)))),
            "n/1@86400",
        ),
    ],
)
def test_text_and_back(ref: Ref, text: str) -> None:
    """1.1: `name/id@seconds`, or `name/id` when weak."""
    assert str(ref) == text
    assert f"{ref}" == text
    assert Ref.parse(text) == ref


@given(ref=REFS)
@PROPERTY
def test_every_ref_comes_back_from_its_text(ref: Ref) -> None:
    """1.1: `str` and `parse` round-trip, whatever the name holds."""
    assert Ref.parse(str(ref)) == ref


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "n",
        "n/",
        "/1",
        "n/1@",
        "n/@5",
        "n/1@@5",
        "n/1@5@6",
        "n/1@5 ",
        "n/1@ 5",
        "n/1@+5",
        "n/1@05",
        "n/1@-0",
        "n/1@00",
        "n/1@5.0",
        "n/1@5e3",
        "n/1@1_000",
        "n/1@٣",
        "n/1@²",
        "n/1@x",
        "n/1@5\n",
        "n/1@253402300800",
        "n/1@-62135596801",
        "n/1@999999999999",
        f"n/1@{10**30}",
        f"n/1@{'9' * 5000}",
    ],
)
def test_broken_texts(text: str) -> None:
    """1.1: a broken text is `InvalidError`; a second number has one spelling, so that equal refs have equal texts."""
    with pytest.raises(InvalidError, match="ref"):
        Ref.parse(text)


@pytest.mark.parametrize("found", [None, 1, b"n/1", ["n/1"], Ref(name="n", id="1", submitted_at=None), object()])
def test_what_is_no_text(found: object) -> None:
    """1.1."""
    with pytest.raises(InvalidError, match="ref"):
        Ref.parse(found)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@given(text=st.text() | st.from_regex(r".*/[0-9@/-]*") | st.from_regex(r"\A[a/@]{0,3}/[1@]{0,3}@?-?[0-9]{0,14}\Z"))
@PROPERTY
def test_any_text_is_a_ref_or_refused(text: str) -> None:
    """1.1: and if it is a ref, then this is its text: two texts never name one object."""
    try:
        ref = Ref.parse(text)
    except InvalidError:
        return
    assert str(ref) == text


@pytest.mark.parametrize("microsecond", [1, 500_000, 999_999])
def test_a_fraction_of_a_second_is_refused(microsecond: int) -> None:
    """Ruling 13: schedulers tell whole seconds."""
    with pytest.raises(InvalidError, match="submitted_at"):
        Ref(name="n", id="1", submitted_at=T0.replace(microsecond=microsecond))


def test_the_time_must_be_said() -> None:
    """1.1: a weak ref is made by saying `None`, never by leaving it out."""
    with pytest.raises(TypeError):
        Ref(name="n", id="1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_weak_ref_is_another_than_the_exact_one() -> None:
    """1.1: they are not equal, though they may name one object."""
    assert Ref(name="n", id="1", submitted_at=None) != Ref(name="n", id="1", submitted_at=T0)
