"""SIM-9: the reader of the Standard Workload Format: strict, line by line, -1 is unknown."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dispatch_memory_async import InvalidError
from dispatch_memory_async.simulator.cluster import Outcome, SwfReader, Work, read_swf

GOOD = "1 0 5 60 4 55.5 1024 4 120 2048 1 7 8 9 1 2 -1 -1"


def line(**fields: str) -> str:
    """A good line with some fields changed, by their place."""
    texts: list[str] = [*GOOD.split()]
    for place, text in fields.items():
        texts[int(place.removeprefix("f")) - 1] = text
    return " ".join(texts)


def test_a_line_is_eighteen_fields() -> None:
    """SIM-9: each in its place, whatever blanks are between."""
    (job,) = SwfReader(["; Version: 2.2\n", "\n", "  " + GOOD.replace(" ", "\t ") + "\n"])
    assert (job.line, job.number, job.submit, job.wait, job.runtime, job.processors) == (3, 1, 0, 5, 60, 4)
    assert (job.cpu_time, job.memory, job.requested_processors, job.requested_time) == (55.5, 1024, 4, 120)
    assert (job.requested_memory, job.status, job.user, job.group, job.executable) == (2048, 1, 7, 8, 9)
    assert (job.queue, job.partition, job.preceding, job.think_time) == (1, 2, None, None)


def test_a_minus_one_is_unknown() -> None:
    """SIM-9: in every field but the number and the submit time."""
    (job,) = SwfReader([" ".join(["3", "4", *["-1"] * 16])])
    assert {getattr(job, name) for name in job.__slots__ if name not in {"line", "number", "submit"}} == {None}


def test_lines_are_read_as_they_are_asked_for() -> None:
    """SIM-9: a trace of any length takes no memory; what comes later is not looked at."""

    def lines() -> Iterator[str]:
        yield "; MaxNodes: 12 (as of 2001)"
        yield "; MaxProcs: 24"
        yield GOOD
        raise AssertionError

    reader = SwfReader(lines())
    assert next(iter(reader)).number == 1
    assert (reader.max_nodes, reader.max_processors) == (12, 24)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD[:-3], "field 18 (think_time): found nothing, expected 18 fields"),
        ("1", "field 2 (submit): found nothing, expected 18 fields"),
        (GOOD + " 3", "field 19: found '3', expected no more than 18 fields"),
        (line(f1="one"), "field 1 (number): found 'one', expected an integer, or -1"),
        (line(f1="0"), "field 1 (number): found '0', expected a number from 1 on"),
        (line(f1="-1"), "field 1 (number): found -1, expected one that is known"),
        (line(f2="-1"), "field 2 (submit): found -1, expected one that is known"),
        (line(f2="-2"), "field 2 (submit): found '-2', expected a number, or -1"),
        (line(f3="nan"), "field 3 (wait): found 'nan', expected a number, or -1"),
        (line(f4="1e3"), "field 4 (runtime): found '1e3', expected a number, or -1"),
        (line(f4="1000000001"), "field 4 (runtime): found '1000000001', expected no more than 1000000000 seconds"),
        (line(f5="1.5"), "field 5 (processors): found '1.5', expected an integer, or -1"),
        (line(f8="\N{ARABIC-INDIC DIGIT ONE}"), "field 8 (requested_processors): found "),
        (line(f11="6"), "field 11 (status): found 6, expected -1, or 0 to 5"),
        ("; MaxNodes: many", "field MaxNodes: found 'many', expected a number, or -1"),
        (";MaxProcs:", "field MaxProcs: found '', expected a number, or -1"),
    ],
)
def test_a_malformed_line_is_named_with_its_field(text: str, message: str) -> None:
    """SIM-9: line and field, what was found and what was expected."""
    with pytest.raises(InvalidError) as refused:
        list(SwfReader(["; a comment", text]))
    assert str(refused.value).startswith(f"line 2, {message}")


def test_a_number_comes_once() -> None:
    """SIM-9: but for lines about parts of a job that was swapped out."""
    assert len(read_swf([GOOD, line(f11="2"), line(f11="3")]).jobs) == 1
    with pytest.raises(InvalidError, match=r"line 2, field 1 \(number\): found 1, expected another one, as line 1"):
        read_swf([GOOD, GOOD])


def works(*lines: str) -> tuple[Work, ...]:
    return read_swf(lines).jobs


def test_a_line_becomes_a_job() -> None:
    """SIM-9: what it asked for, how long it ran and what became of it; the unknown is made up for."""
    base = {"number": 1, "submit": timedelta(0), "nodes": 4, "runtime": timedelta(minutes=1)}
    two = timedelta(minutes=2)
    assert works(GOOD) == (Work(**base, requested=two),)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert works(line(f8="-1", f5="6"))[0].nodes == 6
    assert works(line(f9="-1"))[0].requested == timedelta(minutes=1)
    assert works(line(f11="-1"))[0].outcome is Outcome.SUCCEEDS
    assert works(line(f11="0"))[0].outcome is Outcome.FAILS
    assert works(line(f11="5"))[0].outcome is Outcome.STOPPED
    # it was allowed to run longer than it asked for, unless it failed
    assert works(line(f9="30"))[0].requested == timedelta(minutes=1)
    assert works(line(f9="30", f11="0"))[0].requested == timedelta(seconds=30)


def test_processors_are_on_whole_nodes() -> None:
    """SIM-9: a job of five on nodes of four has two of them."""
    trace = ["; MaxProcs: 30", line(f8="5")]
    assert read_swf(trace, processors_per_node=4).jobs[0].nodes == 2
    assert read_swf(trace, processors_per_node=4).nodes == 8
    assert read_swf(["; MaxProcs: 30", "; MaxNodes: 7"]).nodes == 7
    assert read_swf(["; MaxProcs: -1"]).nodes is None
    with pytest.raises(InvalidError, match="processors_per_node"):
        read_swf(trace, processors_per_node=0)


def test_what_never_ran_is_left_out_and_counted() -> None:
    """SIM-9: an unknown run time, an unknown size, or cancelled while it waited."""
    lines = [line(f4="-1"), line(f1="2", f5="-1", f8="-1"), line(f1="3", f4="0", f11="5"), line(f1="4", f4="0")]
    workload = read_swf(lines)
    assert [work.number for work in workload.jobs] == [4]
    assert workload.left_out == 3
