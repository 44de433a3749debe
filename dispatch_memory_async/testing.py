"""Fixtures for pytest, asked for by name: a backend for each test, its environment, and virtual time.

``pytest_plugins = ["dispatch_memory_async.testing"]`` in a conftest makes them known. They serve tests that anyio's
plugin or pytest-asyncio runs, whatever the modes of the two. PYTEST_DONT_REWRITE
"""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Never

import pytest

from .memory import Backend, Config, Env, Shape
from .model import InvalidError

if TYPE_CHECKING:
    from looptime import LoopTimeEventLoop

__all__ = ("START", "VirtualClock", "memory_backend", "memory_env", "virtual_clock")

START = datetime(2026, 1, 1, tzinfo=UTC)
"""What a virtual clock shows when a test begins."""

OURS = frozenset({"memory_backend", "virtual_clock"})
LOOP = "_dispatch_memory_loop"
TOO_LATE = "comes too late by getfixturevalue: let the test, or a fixture, take it as an argument"


class VirtualClock:
    """The event loop's virtual time, as a date: what the fixture :func:`virtual_clock` gives.

    It can be called, and so can serve as the ``clock`` of other backends.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time, self._began = time, time()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.now().isoformat()}>"

    def __call__(self) -> datetime:
        return self.now()

    def now(self) -> datetime:
        """The time: :data:`START` when the test began, and from then on as much later as the loop's time has moved."""
        return START + timedelta(seconds=self._time() - self._began)


def _refuse(why: str, fixture: str = "virtual_clock") -> Never:
    pytest.fail(f"{fixture} {why}", pytrace=False)


def _patched(loop: asyncio.AbstractEventLoop) -> "LoopTimeEventLoop":
    import looptime  # noqa: PLC0415  # only where time is to be virtual

    if not isinstance(loop, asyncio.BaseEventLoop):
        _refuse(f"needs one of asyncio's own event loops, found {type(loop).__module__}.{type(loop).__qualname__}")
    return looptime.patch_event_loop(loop, start=0)


@contextmanager
def _in_anyio(anyio_backend: object) -> Generator[VirtualClock]:
    """Keep a loop of virtual time ready, in which anyio's plugin then runs the test and its async fixtures."""
    from anyio import pytest_plugin  # noqa: PLC0415  # it is pytest's to load

    if pytest_plugin._current_runner is not None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        _refuse("needs an event loop of the test's own, found one that an async fixture of a wider scope uses")
    backend, options = pytest_plugin.extract_backend_and_options(anyio_backend)
    if backend == "trio":
        from trio.testing import MockClock  # noqa: PLC0415  # only where there is trio

        clock = MockClock(autojump_threshold=0)
        options, time = {**options, "clock": clock}, clock.current_time
    else:
        loop = _patched((options.get("loop_factory") or asyncio.new_event_loop)())
        options, time = {**options, "loop_factory": lambda: loop}, loop.time
    with pytest_plugin.get_runner(backend, options):
        yield VirtualClock(time)


@contextmanager
def _in_pytest_asyncio(request: pytest.FixtureRequest, marker: pytest.Mark) -> Generator[VirtualClock]:
    """Make the time of the loop virtual in which pytest-asyncio runs the test."""
    scope = marker.kwargs.get("loop_scope", marker.kwargs.get("scope"))
    if (scope or request.config.getini("asyncio_default_test_loop_scope")) != "function":
        _refuse('needs an event loop of the test\'s own: mark the test with asyncio(loop_scope="function")')
    loop = _patched(request.getfixturevalue(LOOP))
    with nullcontext() if loop.looptime_on else loop.looptime_enabled():
        yield VirtualClock(loop.time)


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> Iterator[VirtualClock]:
    """Virtual time: whenever nothing else is to be done, the test's event loop jumps to its next timer."""
    marker = request.node.get_closest_marker("asyncio")
    if "virtual_clock" not in request.node.fixturenames:
        _refuse(TOO_LATE)
    if "anyio_backend" in request.fixturenames:
        virtual = _in_anyio(request.getfixturevalue("anyio_backend"))
    elif marker and hasattr(request.config.option, "asyncio_mode"):
        virtual = _in_pytest_asyncio(request, marker)
    else:
        _refuse("needs a coroutine test that anyio's plugin or pytest-asyncio runs")
    with virtual as clock:
        yield clock


try:
    import pytest_asyncio
except ImportError:
    pass
else:

    @pytest_asyncio.fixture(name=LOOP, loop_scope="function")
    async def asyncio_loop() -> asyncio.AbstractEventLoop:
        """The loop in which pytest-asyncio runs a test that has one of its own."""
        return asyncio.get_running_loop()


@pytest.fixture
def memory_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A backend, in each shape or in that of the marker ``memory_backend``, on the virtual clock if the test has it."""
    if "memory_backend" not in request.node.fixturenames:
        _refuse(TOO_LATE, "memory_backend")
    if "virtual_clock" in request.fixturenames:
        backend = Backend(request.param, clock=request.getfixturevalue("virtual_clock"))
    else:
        backend = Backend(request.param)
    yield backend
    # No loop runs between a test and the end of its fixtures, and closing is the same on any.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(backend.aclose(), context=Context())


@pytest.fixture
def memory_env(memory_backend: Backend) -> Env:
    """The environment of the test's backend: the scheduler's side."""
    return memory_backend.env


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known; block looptime's plugin where, for want of pytest-asyncio, it fails at every fixture."""
    config.addinivalue_line("markers", "memory_backend(**settings): the fields of memory_backend's Config")
    if not config.pluginmanager.has_plugin("asyncio"):
        config.pluginmanager.set_blocked("looptime_plugin")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that has a backend in both shapes, or in the one that its marker names."""
    if "memory_backend" not in metafunc.fixturenames:
        return
    markers = [*metafunc.definition.iter_markers("memory_backend")][::-1]
    positional = [value for marker in markers for value in marker.args]
    settings = {name: value for marker in markers for name, value in marker.kwargs.items()}
    shapes = [settings.pop("shape")] if "shape" in settings else list(Shape)
    try:
        configs = [Config(*positional, shape=shape, **settings) for shape in shapes]
    except (InvalidError, TypeError) as error:
        pytest.fail(f"the marker memory_backend of {metafunc.definition.nodeid}: {error}", pytrace=False)
    metafunc.parametrize("memory_backend", configs, indirect=True, ids=[str(config.shape) for config in configs])


def _run_by_anyio(names: Collection[str]) -> bool:
    """Whether a test with these fixtures has any of ours, and a label of anyio's that says where it runs."""
    return "anyio_backend" in names and not OURS.isdisjoint(names)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let anyio run what it has labelled: pytest-asyncio would run it on asyncio, whatever the label says."""
    if isinstance(item, pytest.Function) and _run_by_anyio(item.fixturenames):
        item.runtest = partial(pytest.Function.runtest, item)  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let an async fixture run where its test does, and only once time there is virtual."""
    names, func = request.fixturenames, fixturedef.func
    if (
        "virtual_clock" in names
        and fixturedef.scope == "function"
        and fixturedef.argname != LOOP
        and (iscoroutinefunction(func) or isasyncgenfunction(func))
    ):
        try:
            request.getfixturevalue("virtual_clock")
        except BaseException as error:
            fixturedef.cached_result = (None, None, (error, error.__traceback__))  # so that pytest tears it down
            raise
    with pytest.MonkeyPatch.context() as patch:
        if _run_by_anyio(names):
            patch.setattr(request.config.option, "asyncio_mode", "strict", raising=False)
        return (yield)
