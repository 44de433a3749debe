"""The record is read strictly: what is not a history of runs is an error that names line and column."""

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_memory_async import Cause, InvalidError
from dispatch_memory_async.cli.record import COLUMNS, Run, read

PACKAGED = (files("dispatch_memory_async.cli") / "sacct-22.05.8.psv").read_bytes()
GOOD = {
    "JobIDRaw": "7",
    "JobName": "train",
    "Partition": "low",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "2026-11-29T10:00:00",
    "Eligible": "2026-11-29T10:00:01",
    "Start": "2026-11-29T10:00:02",
    "End": "2026-11-29T10:00:03",
    "NNodes": "2",
    "AllocCPUS": "8",
    "Timelimit": "1-02:03:04",
}


def record(*rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> bytes:
    """A record of these rows; what a row does not say is as in the good one."""
    lines = ["|".join(columns), *("|".join({**GOOD, **row}[column] for column in columns) for row in rows)]
    return "\n".join(lines).encode()


def only(data: bytes) -> Run:
    ((run,),) = read(data)
    return run


def refusal(data: bytes) -> str:
    with pytest.raises(InvalidError) as caught:
        read(data)
    return str(caught.value)


def test_packaged_record_holds_32_runs_of_28_jobs() -> None:
    """The demo's history: successes, exit codes, a time limit, a cancellation, requeues, preemptions, lost nodes."""
    history = read(PACKAGED)
    assert [runs[0].job for runs in history] == [*range(1000, 1018), *range(1019, 1029)]
    assert {runs[0].job: len(runs) for runs in history if len(runs) > 1} == {1019: 2, 1020: 2, 1021: 2, 1027: 2}
    assert Counter(run.state for runs in history for run in runs) == {
        "COMPLETED": 15,
        "FAILED": 8,
        "PREEMPTED": 3,
        "REQUEUED": 2,
        "NODE_FAIL": 2,
        "TIMEOUT": 1,
        "CANCELLED": 1,
    }


def test_every_column_is_read() -> None:
    at = datetime(2026, 11, 29, 10, tzinfo=UTC)
    assert only(record({})) == Run(
        line=2,
        job=7,
        name="train",
        partition="low",
        state="COMPLETED",
        cause=None,
        exit_code=0,
        submit=at,
        eligible=at + timedelta(seconds=1),
        start=at + timedelta(seconds=2),
        end=at + timedelta(seconds=3),
        nodes=2,
        cpus=8,
        limit=timedelta(days=1, hours=2, minutes=3, seconds=4),
    )


def test_columns_stand_in_any_order_and_among_others() -> None:
    shuffled = ("Comment", *reversed(COLUMNS), "NodeList")
    assert only(record({"Comment": "x", "NodeList": "n1"}, columns=shuffled)) == only(record({}))


def test_line_ends_of_windows_and_empty_lines_are_passed_over() -> None:
    assert read(record({}).replace(b"\n", b"\r\n\r\n") + b"\r\n\n")[0][0].line == 3


@pytest.mark.parametrize(
    ("state", "code", "cause", "exit_code"),
    [
        ("COMPLETED", "0:0", None, 0),
        ("FAILED", "3:0", Cause.NON_ZERO_EXIT, 3),
        ("FAILED", "0:9", Cause.LAUNCH_FAILED, None),
        ("FAILED", "0:53", Cause.LAUNCH_FAILED, None),
        ("OUT_OF_MEMORY", "0:125", Cause.OUT_OF_MEMORY, None),
        ("TIMEOUT", "0:15", Cause.TIMEOUT, None),
        ("DEADLINE", "0:0", Cause.TIMEOUT, None),
        ("BOOT_FAIL", "0:0", Cause.LAUNCH_FAILED, None),
        ("CANCELLED", "0:0", Cause.STOPPED, None),
        ("CANCELLED by 1000", "0:15", Cause.STOPPED, None),
        ("PREEMPTED", "0:15", Cause.PREEMPTED, None),
        ("NODE_FAIL", "1:0", Cause.NODE_LOST, None),
    ],
)
def test_state_and_exit_code_say_why_a_run_ended(
    state: str, code: str, cause: Cause | None, exit_code: int | None
) -> None:
    """Only what exited by itself has an exit code; a signal (``0:9``) is none."""
    run = only(record({"State": state, "ExitCode": code}))
    assert (run.cause, run.exit_code) == (cause, exit_code)


@pytest.mark.parametrize(
    ("code", "cause", "exit_code"), [("0:0", Cause.REQUEUED, None), ("7:0", Cause.NON_ZERO_EXIT, 7)]
)
def test_requeued_with_an_exit_code_had_ended_before(code: str, cause: Cause, exit_code: int | None) -> None:
    later = {"Submit": GOOD["End"], "Eligible": GOOD["End"], "Start": GOOD["End"], "End": GOOD["End"]}
    ((first, _),) = read(record({"State": "REQUEUED", "ExitCode": code}, later))
    assert (first.cause, first.exit_code) == (cause, exit_code)


@pytest.mark.parametrize("text", ["UNLIMITED", "Partition_Limit", "Unknown", "None"])
def test_no_time_limit(text: str) -> None:
    assert only(record({"Timelimit": text})).limit is None


def test_cancelled_before_it_could_start_was_never_eligible() -> None:
    cancelled = {"State": "CANCELLED by 0", "Start": "None", "Eligible": "2026-11-29T11:00:00"}
    run = only(record(cancelled))
    assert (run.start, run.eligible) == (None, None)


def test_runs_of_a_job_are_in_the_order_of_time() -> None:
    later = {key: f"2026-11-30T10:00:0{n}" for n, key in enumerate(("Submit", "Eligible", "Start", "End"))}
    ((first, second),) = read(record(later, {"State": "NODE_FAIL"}))
    assert (first.line, second.line) == (3, 2)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("JobIDRaw", "7.batch"),
        ("JobIDRaw", "0"),
        ("JobIDRaw", "-7"),
        ("JobIDRaw", "\N{ARABIC-INDIC DIGIT SEVEN}"),
        ("JobName", "\x1b[2J"),
        ("State", "WHATEVER"),
        ("State", "COMPLETED by 0"),
        ("State", "PENDING by 0"),
        ("ExitCode", "1"),
        ("ExitCode", "256:0"),
        ("ExitCode", "2:0"),
        ("Submit", "Unknown"),
        ("Submit", "yesterday"),
        ("Submit", "2026-11-29"),
        ("Submit", "2026-11-31T10:00:00"),
        ("Eligible", "Unknown"),
        ("Eligible", "2026-11-29T09:59:59"),
        ("Start", "Unknown"),
        ("Start", "2026-11-29T10:00:00"),
        ("End", "Unknown"),
        ("End", "2026-11-29T10:00:01"),
        ("End", "2026-11-29T10:00:03+01:00"),
        ("NNodes", "many"),
        ("AllocCPUS", "-1"),
        ("Timelimit", "1:2"),
        ("Timelimit", "00:00:99"),
    ],
)
def test_a_broken_field_is_named_by_line_and_column(column: str, text: str) -> None:
    """The demo's promise: a broken line is an error naming line and column."""
    message = refusal(record({}, {"JobIDRaw": "8", column: text}))
    assert message.startswith(f"line 3, column {column}: found ")


@pytest.mark.parametrize(
    ("column", "row"),
    [
        ("Start", {"State": "PENDING", "End": "Unknown"}),
        ("End", {"State": "RUNNING"}),
        ("End", {"State": "PENDING", "Start": "Unknown"}),
        ("State", {"State": "REQUEUED"}),
        ("End", {"State": "CANCELLED", "Start": "Unknown", "End": "2026-11-29T09:59:59"}),
    ],
)
def test_a_line_that_contradicts_itself_is_unfit(column: str, row: dict[str, str]) -> None:
    assert refusal(record(row)).startswith(f"line 2, column {column}: ")


@pytest.mark.parametrize(
    ("place", "first", "second"),
    [
        ("line 3, column Submit", {}, {}),
        ("line 3, column JobName", {}, {"JobName": "other", "Submit": GOOD["End"]}),
        ("line 2, column State", {"State": "RUNNING", "End": "Unknown"}, {"Submit": GOOD["Start"]}),
    ],
)
def test_runs_that_cannot_follow_each_other_are_unfit(
    place: str, first: dict[str, str], second: dict[str, str]
) -> None:
    """One id, one job, one run at a time."""
    after = {"Eligible": "2026-11-29T10:01:00", "Start": "2026-11-29T10:01:00", "End": "2026-11-29T10:01:00"}
    assert refusal(record(first, {**after, **second})).startswith(f"{place}: ")


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "line 1, column JobIDRaw"),
        (b"\n\nnothing", "line 3, column JobIDRaw"),
        (record({}, columns=(*COLUMNS, "End")), "line 1, column End"),
        (record({}, columns=COLUMNS[:-1]), "line 1, column Timelimit"),
        (record(), "line 2, column JobIDRaw"),
        (record({}) + b"|x", "line 2, column 13"),
        (record({}).rpartition(b"|")[0], "line 2, column Timelimit"),
        (record({}).replace(b"train", b"tr\xffin"), "line 2, column JobName"),
    ],
)
def test_what_is_no_table_of_these_columns_is_refused(data: bytes, place: str) -> None:
    assert refusal(data).startswith(f"{place}: ")


@given(st.binary() | st.lists(st.lists(st.text()).map("|".join)).map(lambda rows: "\n".join(rows).encode()))
def test_garbage_is_refused_and_nothing_else_happens(data: bytes) -> None:
    """US-4: no traceback on bad input."""
    assert refusal(data).startswith("line ")


@given(st.integers(0, len(PACKAGED)), st.integers(0, 40), st.binary(max_size=8))
def test_a_damaged_record_is_read_or_refused(at: int, length: int, instead: bytes) -> None:
    """US-4: no traceback on bad input."""
    damaged = PACKAGED[:at] + instead + PACKAGED[at + length :]
    with suppress(InvalidError):
        assert read(damaged)
