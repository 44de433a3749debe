"""The suite as pytest items: subclass, give a `harness` fixture, and every check is a test on both event loops."""

import anyio
import pytest

from .backend import BACKEND
from .checks import Check
from .harness import Harness
from .run import run_check

__all__ = ("BackendConformance",)


class BackendConformance:
    """The backend suite.

    ::

        class TestMyAdapter(BackendConformance):
            @pytest.fixture
            def harness(self) -> Harness:
                return MyHarness()

    The items are synchronous: each runs its check in an event loop of its own, whatever plugins are there.
    """

    @pytest.mark.parametrize("loop", ["asyncio", "trio"])
    @pytest.mark.parametrize("check", BACKEND, ids=lambda check: check.id)
    def test_backend(self, check: Check, loop: str, harness: Harness) -> None:
        """One check."""
        __tracebackhide__ = True
        result = anyio.run(run_check, check, harness, backend=loop)
        if result.outcome == "skipped":
            pytest.skip(result.message)
        if result.outcome == "failed":
            pytest.fail(f"{check.id} ({', '.join(check.rules)}): {check.sentence}\n{result.message}", pytrace=False)
