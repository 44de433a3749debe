"""SIM-10: the report is one page that says what there is to say, and whatever a run holds stays text in it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from dispatch_memory_async.memory import Shape
from dispatch_memory_async.model.base import altered
from dispatch_memory_async.simulator import Kind, Result, SimConfig, simulate
from dispatch_memory_async.simulator.reporting import Span, report
from tests.simulator.reports import broken_run, multiplied, well_run

HOSTILE = "</script><script>alert(1)</script><!-- <b title='\"'> @@data@@"


class Outline(HTMLParser):
    """The elements of a page, with their attributes, and the text inside each kind of element, or each with an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, dict(attrs).get("id") or tag))

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop()[0] != tag:
            pass  # an element that has no end

    def handle_data(self, data: str) -> None:
        for name in {name for _, name in self._open}:
            self.texts[name] = self.texts.get(name, "") + data


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Outline(page).texts["data"])
    return found


def spans(job: dict[str, Any], kind: str) -> list[Span]:
    return [span for span in (Span(*each) for each in job["spans"]) if span.kind == kind]


@pytest.fixture(params=[broken_run, well_run], ids=["broken", "well"])
def result(request: pytest.FixtureRequest) -> Result:
    made: Result = request.param()
    return made


def test_it_needs_no_other_file_and_no_network(result: Result) -> None:
    page = report(result)
    assert set(re.findall(r"\w+://[^\"'\s]*", page)) == {"http://www.w3.org/2000/svg"}  # a name, which nobody fetches
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", page)
    for tag, attributes in Outline(page).elements:
        assert tag not in {"link", "img", "iframe", "base"}
        assert not {"src", "href"} & set(attributes), tag


def test_the_same_run_gives_the_same_page() -> None:
    config = SimConfig(seed=1, shape=Shape.SLURM, jobs=5)
    assert report(simulate(config)) == report(simulate(config, loop="trio"))


def test_the_violation_is_said_with_its_place_its_rule_and_the_command() -> None:
    result = broken_run()
    (violation,) = result.violations
    texts = Outline(report(result)).texts
    assert f"{violation.invariant} was broken by job {violation.job}, in step {violation.step}" in texts["h2"]
    assert "nothing begins under an acknowledged hold" in texts["verdict"]
    assert violation.what in texts["verdict"]
    assert texts["code"] == f"dispatch-memory replay {result.config.seed} --shape kubeflow --jobs 5 --mutant 18"
    assert violation.invariant in texts["title"]


def test_the_violation_is_marked_in_its_job_alone() -> None:
    result = broken_run()
    (violation,) = result.violations
    data = data_of(report(result))
    assert data["broken"][2] == violation.job
    marked = {job["number"] for job in data["jobs"] if any(line[-1] == "violation" for line in job["story"])}
    assert marked == {violation.job}
    assert data["jobs"][violation.job - 1]["story"][-1][4].startswith(violation.invariant)


def test_a_run_without_a_violation_says_so() -> None:
    page = report(well_run())
    assert "Nothing was broken" in Outline(page).texts["h2"]
    assert data_of(page)["broken"] is None


def test_every_job_and_every_line_about_it_is_there(result: Result) -> None:
    data = data_of(report(result))
    assert [job["number"] for job in data["jobs"]] == list(range(1, result.config.jobs + 1))
    for job in data["jobs"]:
        told = [line[2:5] for line in job["story"] if line[-1] != "ended"]
        about = [
            [entry.step, entry.who, entry.what]
            for entry in result.trace
            if entry.job in {0, job["number"]} and entry.kind is not Kind.CLOCK
        ]
        assert told == about


@pytest.mark.parametrize("seed", range(3))
def test_every_execution_of_the_ground_truth_is_drawn_where_the_trace_says(shape: Shape, seed: int) -> None:
    """By whose authority, and from when to when: in step with the counts that the run kept itself."""
    result = simulate(SimConfig(seed=seed, shape=shape, jobs=3))
    jobs = data_of(report(result))["jobs"]
    drawn = [span for job in jobs for span in spans(job, "execution")]
    assert len(drawn) == sum(len(truth.executions) for truth in result.truths)
    for by in ("core", "scheduler", "other"):
        assert sum(span.how == by for span in drawn) == result.counts.get(f"execution by {by}", 0)
    assert all(span.x0 <= span.x1 and span.t0 <= span.t1 for span in drawn)
    submissions = [span for job in jobs for span in spans(job, "submission")]
    assert len(submissions) == len(result.truths)
    assert all(span.x0 > 0 for span in submissions)  # where its start landed, which no other thing comes before
    starts = sum(entry.kind is Kind.CALL and " starts, for" in entry.what for entry in result.trace)
    assert sum(len(spans(job, "call")) for job in jobs) == starts


def test_the_hold_that_was_broken_stands_when_it_is_broken() -> None:
    data = data_of(report(broken_run()))
    job = data["jobs"][data["broken"][2] - 1]
    hold = spans(job, "hold")[-1]
    assert hold.how == "acknowledged"
    assert hold.x0 < data["broken"][0] <= hold.x1


def test_what_a_run_holds_stays_text() -> None:
    result = broken_run()
    records = tuple(altered(each, job=altered(each.job, command=(HOSTILE,))) for each in result.records)
    violations = (replace(result.violations[0], what=HOSTILE),)
    trace = tuple(entry._replace(what=HOSTILE, who=HOSTILE) for entry in result.trace)
    page = report(replace(result, records=records, violations=violations, trace=trace))
    outline = Outline(page)
    assert [tag for tag, _ in outline.elements] == [tag for tag, _ in Outline(report(result)).elements]
    assert HOSTILE in outline.texts["verdict"]
    assert {job["command"] for job in data_of(page)["jobs"]} == {HOSTILE}


def test_a_run_that_stopped_at_once_has_a_page() -> None:
    stopped = simulate(SimConfig(seed=1, steps=1, stop_at=1))
    assert len(data_of(report(stopped))["jobs"]) == 1
    assert data_of(report(replace(stopped, trace=(), records=(), truths=())))["end"] == [0, 0]


def test_500_jobs_make_a_page_of_less_than_3_megabytes() -> None:
    page = report(multiplied(broken_run(), 100))
    assert len(page) < 3_000_000
    assert len(data_of(page)["jobs"]) == 500
