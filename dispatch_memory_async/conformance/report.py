"""The report: what came of every check."""

from collections import Counter
from typing import Literal

import msgspec

from ..model import Value

__all__ = ("Outcome", "Report", "Result")

Outcome = Literal["passed", "failed", "skipped"]


class Result(Value, frozen=True, kw_only=True):
    """What came of one check.

    :ivar check: its id
    :ivar sentence: what it shows
    :ivar rules: the rules that it stands for
    :ivar outcome: ``passed``, ``failed`` or ``skipped``
    :ivar message: what was expected and what was seen, or why it was skipped
    """

    check: str
    sentence: str
    rules: tuple[str, ...]
    outcome: Outcome
    message: str = ""


class Report(Value, frozen=True, kw_only=True):
    """What came of a suite.

    :ivar suite: which suite, with its version
    :ivar harness: whose adapter
    :ivar results: one a check, in the suite's order
    """

    suite: str
    harness: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed, and any passed."""
        counts = self.counts
        return not counts["failed"] and counts["passed"] > 0

    @property
    def counts(self) -> Counter[Outcome]:
        """How many passed, failed and were skipped."""
        return Counter(result.outcome for result in self.results)

    def to_json(self) -> bytes:
        """The report as JSON."""
        return msgspec.json.encode(self)

    def __str__(self) -> str:
        width = max((len(result.check) for result in self.results), default=0)
        lines = [f"{self.suite} on {self.harness}"]
        for result in self.results:
            lines.append(f"{result.outcome:8} {result.check:{width}}  {result.sentence} ({', '.join(result.rules)})")
            lines += [f"         {line}" for line in result.message.splitlines()]
        counts = self.counts
        lines.append(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
        return "\n".join(lines)
