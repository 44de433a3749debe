"""4.1: a status reads well in a log line."""

from typing import Any

import pytest

from dispatch_memory_async import Cause, State
from dispatch_memory_async.core import Phase, Status, Verdict, WaitingFor
from tests.core.samples import running
from tests.support import T0

MAY_BE = "an execution of it may be alive"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"state": Phase.NEW, "why": "Start may be under way"}, "New: Start may be under way"),
        ({"state": Phase.RUNNING, "submission": 1}, "Running, submission 1"),
        (
            {"state": Phase.PENDING, "cause": Cause.PREEMPTED, "submission": 2, "restarts": 3},
            "Pending (Preempted), submission 2, restarts 3",
        ),
        (
            {"state": Phase.ENDED, "cause": Cause.NODE_LOST, "submission": 1, "why": MAY_BE},
            f"Ended (NodeLost), submission 1: {MAY_BE}",
        ),
        (
            {"state": Phase.VANISHED, "cause": Cause.UNKNOWN, "submission": 1, "evidence_vanished": True},
            "Vanished (Unknown), its evidence vanished, submission 1",
        ),
        (
            {"state": Phase.RUNNING, "submission": 2, "extras": (running(1),)},
            "Running, submission 2, other live objects: 1",
        ),
        (
            {"state": Phase.DONE, "verdict": Verdict(state=State.SUCCEEDED, cause=None, at=T0), "why": "no matter"},
            "Done: Succeeded",
        ),
        (
            {
                "state": Phase.DONE,
                "submission": 1,
                "verdict": Verdict(state=State.CANCELLED, cause=Cause.STOPPED, detail="stopped by ann: enough", at=T0),
            },
            "Done: Cancelled (Stopped), stopped by ann: enough",
        ),
    ],
)
def test_a_status_in_one_line(fields: dict[str, Any], line: str) -> None:
    assert str(Status(as_of=T0, waiting_for=WaitingFor.SCHEDULER, **fields)) == line
