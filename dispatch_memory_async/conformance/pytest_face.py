"""The suites as pytest items: subclass, give a `harness` fixture, and every check is a test on both event loops."""

import anyio
import pytest

from .backend import BACKEND
from .checks import Check
from .core import CORE
from .harness import Harness
from .run import run_check

__all__ = ("BackendConformance", "CoreConformance")


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
        _make(check, loop, harness)


class CoreConformance:
    """The core suite, to be used as :class:`BackendConformance` is."""

    @pytest.mark.parametrize("loop", ["asyncio", "trio"])
    @pytest.mark.parametrize("check", CORE, ids=lambda check: check.id)
    def test_core(self, check: Check, loop: str, harness: Harness) -> None:
        """One check."""
        __tracebackhide__ = True
        _make(check, loop, harness)


def _make(check: Check, loop: str, harness: Harness) -> None:
    __tracebackhide__ = True
    result = anyio.run(run_check, check, harness, backend=loop)
    if result.outcome == "skipped":
        pytest.skip(result.message)
    if result.outcome == "failed":
        pytest.fail(f"{check.id} ({', '.join(check.rules)}): {check.sentence}\n{result.message}", pytrace=False)
