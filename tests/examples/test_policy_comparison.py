"""US-6, SIM-9: a policy compared on a trace."""

from pathlib import Path

import pytest

from dispatch_memory_async import InvalidError
from dispatch_memory_async.simulator.cluster import Waiting
from examples.policy_comparison import POLICIES, comparison


async def test_the_example_compares_its_policies() -> None:
    """SIM-9: who restarts what was interrupted completes more; who restarts what fails by itself only loses more."""
    table = await comparison()
    assert list(table.rows) == list(POLICIES)
    never, interrupted, later, whatever = table.rows.values()
    assert never.restarts == 0
    assert never.completed < interrupted.completed == later.completed == whatever.completed
    assert interrupted.lost < whatever.lost
    assert interrupted.waits[Waiting.BACKOFF] == 0 < later.waits[Waiting.BACKOFF]
    assert len(str(table).splitlines()) == 1 + len(POLICIES)


async def test_a_trace_that_is_broken_is_named(tmp_path: Path) -> None:
    """SIM-9: the line and the field."""
    trace = tmp_path / "broken.swf"
    trace.write_text("; MaxNodes: 16\n1 2 3\n")
    with pytest.raises(InvalidError, match=r"^line 2, field 4 \(runtime\): found nothing"):
        await comparison(trace)
