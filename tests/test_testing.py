"""6 US-5: the pytest fixtures, under anyio's plugin and pytest-asyncio in all modes, on asyncio and trio."""

import subprocess
import sys
from collections.abc import Iterable

import hypothesis
import pytest
import trio

assert hypothesis, trio  # kept here, as each run in this process would import them anew

CONFTEST = """
from dispatch_memory_async.testing import VirtualClock  # a conftest may name it before it asks for the plugin

pytest_plugins = ["dispatch_memory_async.testing"]
"""

HEAD = """
import asyncio
from datetime import UTC, datetime, timedelta

import anyio
import pytest
import trio
from ulid import ULID

from dispatch_memory_async import Job, Shape, until
from dispatch_memory_async.testing import START

HOUR = timedelta(hours=1)
MARK = pytest.mark.{mark}


def loop() -> str:
    return "trio" if trio.lowlevel.in_trio_task() else "asyncio"


def label(request) -> str:
    return request.node.callspec.params.get("anyio_backend", "asyncio")
"""

TIME = """
@MARK
async def test_time(request, memory_backend, memory_env, virtual_clock):
    assert loop() == label(request)
    assert memory_env is memory_backend.env
    assert memory_backend.now() == virtual_clock.now() == START == datetime(2026, 1, 1, tzinfo=UTC)
    await anyio.sleep(3600)
    assert memory_backend.now() == virtual_clock() == START + HOUR
    with anyio.move_on_after(3600):
        await anyio.sleep_forever()
    assert memory_backend.now() == virtual_clock.now() == START + 2 * HOUR
    with pytest.raises(TimeoutError), anyio.fail_after(3600):
        await anyio.sleep_forever()
    ref = await memory_backend.start(Job(id=ULID(), command=("train",)), 1)
    with pytest.raises(TimeoutError):
        await until(memory_backend, ref, lambda seen: seen.state == "Running", timeout=HOUR)
    assert memory_backend.now() == virtual_clock.now() == START + 4 * HOUR


@MARK
async def test_begins_anew_and_needs_no_backend(virtual_clock):
    assert virtual_clock.now() == START
    await anyio.sleep(3600)
    assert virtual_clock.now() == START + HOUR


@MARK
async def test_without_the_clock(request, memory_backend):
    assert loop() == label(request)
    assert abs(memory_backend.now() - datetime.now(UTC)) < HOUR  # it is the wall clock
"""

ASYNC_FIXTURE = """
@pytest.fixture
async def early():
    await anyio.sleep(3600)
    yield loop()
    await anyio.sleep(3600)


@MARK
async def test_async_fixture(request, early, memory_backend, virtual_clock):
    assert early == loop() == label(request)
    assert memory_backend.now() == virtual_clock.now() == START + HOUR
"""

BOTH, ASYNCIO = ("asyncio", "trio"), ("asyncio",)
NEVER = "none"


def run(
    pytester: pytest.Pytester,
    source: str,
    *,
    anyio: str | None = "auto",
    asyncio: str | None = None,
    looptime: bool = False,
    mark: str = NEVER,
    settings: str = "",
    arguments: tuple[str, ...] = (),
) -> pytest.RunResult:
    """Run these tests under the two plugins in these modes, or without them; a warning is an error.

    Without pytest-asyncio the plugin of looptime is there as well: ours has to switch it off.
    """
    wanted = {"anyio": anyio, "asyncio": asyncio, "looptime_plugin": looptime or not asyncio}
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_inner=HEAD.replace("{mark}", mark) + source)
    pytester.makeini(f"""
        [pytest]
        addopts = -rA --strict-markers {" ".join(f"-p no:{name}" for name in wanted if not wanted[name])}
        markers = {NEVER}
        {f"anyio_mode = {anyio}" if anyio else ""}
        {f"asyncio_mode = {asyncio}" if asyncio else ""}
        {"asyncio_default_fixture_loop_scope = function" if asyncio else ""}
        {settings}
        filterwarnings =
            error
            ignore:AnyIO auto mode has been enabled together
    """)
    return pytester.runpytest_inprocess(*arguments)


def passed(result: pytest.RunResult) -> set[str]:
    """The tests that passed; all of them must have."""
    assert result.ret == pytest.ExitCode.OK
    return {line.partition("::")[2] for line in result.outlines if line.startswith("PASSED ")}


def ids(names: Iterable[str], loops: Iterable[str], shapes: Iterable[str] = ("slurm", "kubeflow")) -> set[str]:
    return {f"{name}[{'-'.join(filter(None, (loop, shape)))}]" for name in names for loop in loops for shape in shapes}


@pytest.mark.parametrize(
    ("anyio", "asyncio", "mark", "loops"),
    [
        ("auto", "auto", NEVER, BOTH),
        ("auto", "auto", "anyio", BOTH),
        ("auto", "auto", "asyncio", BOTH),
        ("auto", "strict", NEVER, BOTH),
        ("auto", "strict", "anyio", BOTH),
        ("strict", "auto", NEVER, [""]),
        ("strict", "auto", "anyio", BOTH),
        ("strict", "auto", "asyncio", [""]),
        ("strict", "strict", "anyio", BOTH),
        ("auto", None, NEVER, BOTH),
        ("strict", None, "anyio", BOTH),
        (None, "auto", NEVER, [""]),
    ],
)
def test_modes_of_the_two_plugins(
    pytester: pytest.Pytester, anyio: str | None, asyncio: str | None, mark: str, loops: list[str]
) -> None:
    """US-5: a test and its async fixtures run on the loop that its label says, else on asyncio; hours take no time."""
    result = run(pytester, TIME + ASYNC_FIXTURE, anyio=anyio, asyncio=asyncio, mark=mark)
    with_backend = ids(["test_time", "test_without_the_clock", "test_async_fixture"], loops)
    alone = "test_begins_anew_and_needs_no_backend"
    assert passed(result) == with_backend | ({f"{alone}[{loop}]" for loop in loops if loop} or {alone})


@pytest.mark.parametrize(("anyio", "loops"), [("auto", BOTH), ("strict", [""]), (None, [""])])
def test_marked_for_pytest_asyncio_in_strict_mode(
    pytester: pytest.Pytester, anyio: str | None, loops: list[str]
) -> None:
    """US-5: as above; in its strict mode pytest-asyncio wants its own decorator on an async fixture."""
    result = run(pytester, TIME, anyio=anyio, asyncio="strict", mark="asyncio")
    assert ids(["test_time", "test_without_the_clock"], loops) <= passed(result)


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_beside_the_plugin_of_looptime(pytester: pytest.Pytester, mode: str) -> None:
    """US-5: it makes the loops of pytest-asyncio its own before we come."""
    result = run(pytester, TIME, anyio=None, asyncio=mode, looptime=True, mark="asyncio")
    assert ids(["test_time", "test_without_the_clock"], [""]) <= passed(result)


ANYIO, PYTEST_ASYNCIO = "anyio.pytest_plugin", "pytest_asyncio.plugin"


@pytest.mark.parametrize("plugins", [(ANYIO, PYTEST_ASYNCIO), (PYTEST_ASYNCIO, ANYIO), (PYTEST_ASYNCIO,)])
def test_whichever_plugin_comes_first(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, plugins: tuple[str, ...]
) -> None:
    """US-5: the order of the two is that of the installed files, which is nobody's choice; nor are their names."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    anyio, loops = ("auto", BOTH) if ANYIO in plugins else (None, [""])
    arguments = tuple(f"-p{plugin}" for plugin in plugins)
    result = run(pytester, TIME + ASYNC_FIXTURE, anyio=anyio, asyncio="auto", arguments=arguments)
    assert ids(["test_time", "test_without_the_clock", "test_async_fixture"], loops) <= passed(result)


def test_hypothesis(pytester: pytest.Pytester) -> None:
    """US-5: the examples of a property share their test's fixtures, as they do with all that last a test."""
    source = """
from hypothesis import HealthCheck, given, settings, strategies as st

@given(number=st.integers(1, 2))
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None, deadline=None)
async def test_it(memory_backend, virtual_clock, number):
    before = virtual_clock.now()
    await anyio.sleep(3600)
    assert memory_backend.now() == before + HOUR
"""
    assert passed(run(pytester, source, asyncio="auto")) == ids(["test_it"], BOTH)
    assert passed(run(pytester, source, anyio=None, asyncio="auto")) == ids(["test_it"], [""])


def test_the_wall_clock_without_the_virtual_one(pytester: pytest.Pytester) -> None:
    """US-5: so time-machine drives the backend."""
    source = """
import time_machine

async def test_it(memory_backend):
    with time_machine.travel(START, tick=False) as traveller:
        assert memory_backend.now() == START
        traveller.shift(HOUR)
        assert memory_backend.now() == START + HOUR
"""
    assert passed(run(pytester, source)) == ids(["test_it"], BOTH)


def test_the_marker(pytester: pytest.Pytester) -> None:
    """US-5: it names the shape, and any other setting; nearer markers come before wider ones."""
    source = """
@pytest.mark.memory_backend(shape="kubeflow", watch_buffer=7)
class TestIt:
    async def test_wider(self, memory_backend):
        assert memory_backend.config.shape is Shape.KUBEFLOW
        assert memory_backend.config.watch_buffer == 7

    @pytest.mark.memory_backend(shape=Shape.SLURM, min_job_age=HOUR)
    async def test_nearer(self, memory_backend):
        assert memory_backend.config.shape is Shape.SLURM
        assert memory_backend.config.watch_buffer == 7
        assert memory_backend.config.min_job_age == HOUR

@pytest.mark.memory_backend(watch_buffer=9)
async def test_both(memory_env, memory_backend):
    assert memory_backend.config.watch_buffer == 9
"""
    expected = {f"TestIt::test_wider[{loop}-kubeflow]" for loop in BOTH}
    expected |= {f"TestIt::test_nearer[{loop}-slurm]" for loop in BOTH}
    assert passed(run(pytester, source)) == expected | ids(["test_both"], BOTH)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('"slurm"', "Extra positional arguments provided"),
        ('shape="pbs"', "Config.shape: *"),
    ],
)
def test_a_marker_that_is_wrong_is_refused(pytester: pytest.Pytester, arguments: str, why: str) -> None:
    """US-5, 6 US-9: rather than a test of something else."""
    result = run(pytester, f"@pytest.mark.memory_backend({arguments})\nasync def test_it(memory_backend): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"the marker memory_backend of test_inner.py::test_it: {why}"])


CLOSED = """
seen = []

@pytest.fixture
async def watching(memory_backend):
    async with memory_backend.watch() as watch:
        yield watch

async def test_alone(memory_backend):
    seen.append((memory_backend, memory_backend.watch()))

async def test_watching(watching, memory_backend):
    seen.append((memory_backend, watching))
"""
BESIDE_A_WIDER_SCOPE = """
@pytest.fixture(scope="module")
async def wide():
    yield loop()

async def test_wide(wide, memory_backend):
    assert wide == loop()
    seen.append((memory_backend, memory_backend.watch()))
"""
ALL_ARE_CLOSED = """
def test_last():
    assert len({id(backend) for backend, _ in seen}) == NUMBER
    assert all(backend.closed and watch.closed_by for backend, watch in seen)
"""


def test_the_backend_is_closed_at_the_end(pytester: pytest.Pytester) -> None:
    """US-5: on both loops, its watches too, also while an async fixture of a wider scope keeps the loop."""
    source = CLOSED + BESIDE_A_WIDER_SCOPE + ALL_ARE_CLOSED.replace("NUMBER", "12")
    assert "test_last" in passed(run(pytester, source))


def test_the_backend_is_closed_at_the_end_under_pytest_asyncio(pytester: pytest.Pytester) -> None:
    """US-5: as above."""
    assert "test_last" in passed(
        run(pytester, CLOSED + ALL_ARE_CLOSED.replace("NUMBER", "4"), anyio=None, asyncio="auto")
    )


def test_closing_leaves_the_event_loop_of_the_thread(pytester: pytest.Pytester) -> None:
    """US-5: others may have set one, pytest-asyncio does for a loop that tests share; a test may be no coroutine."""
    source = """
@pytest.fixture(scope="module")
def mine():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()

def test_it(mine, memory_backend):
    assert anyio.run(memory_backend.capabilities, backend="trio")

def test_after(mine):
    assert asyncio.get_event_loop() is mine
"""
    assert passed(run(pytester, source)) == {"test_it[slurm]", "test_it[kubeflow]", "test_after"}


def test_the_loop_that_the_user_chose(pytester: pytest.Pytester) -> None:
    """US-5: virtual time comes on top of anyio's own options; for uvloop it takes asyncio's own."""
    source = """
import looptime

class Loop(asyncio.SelectorEventLoop):
    pass

@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": Loop, "debug": True}

def virtual():
    return looptime.patch_event_loop(asyncio.new_event_loop(), start=1000)

OPTIONS = {"uvloop": {"use_uvloop": True}, "virtual": {"loop_factory": virtual}}

@pytest.mark.parametrize("anyio_backend", [("asyncio", options) for options in OPTIONS.values()], ids=OPTIONS)
async def test_other(virtual_clock):
    assert virtual_clock.now() == START
    await anyio.sleep(3600)
    assert virtual_clock.now() == START + HOUR

async def test_it(virtual_clock):
    assert isinstance(asyncio.get_running_loop(), Loop)
    assert asyncio.get_running_loop().get_debug()
    await anyio.sleep(3600)
    assert virtual_clock.now() == START + HOUR
"""
    assert passed(run(pytester, source)) == {"test_it", "test_other[uvloop]", "test_other[virtual]"}


OWN_LOOP = "virtual_clock needs an event loop of the test's own"
REFUSED = {
    "no loop": ("def test_it(virtual_clock): ...", "virtual_clock needs a coroutine test that anyio's plugin or*"),
    **{
        f"{name} too late": (
            f"""
async def test_it(request):
    request.getfixturevalue("{name}")
""",
            f"{name} comes too late by getfixturevalue: *",
        )
        for name in ("virtual_clock", "memory_backend")
    },
    "shared loop": (
        """
@pytest.fixture(scope="module")
async def wide():
    yield

async def test_it(wide, virtual_clock): ...
""",
        f"{OWN_LOOP}, found one that an async fixture of a wider scope uses",
    ),
    "foreign loop": (
        """
class Loop: ...

@pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": Loop})])
async def test_it(virtual_clock): ...
""",
        "virtual_clock needs one of asyncio's own event loops, found test_inner.Loop",
    ),
}
AFTER = """
async def test_after(memory_backend):
    await memory_backend.capabilities()
"""


@pytest.mark.parametrize(("source", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(pytester: pytest.Pytester, source: str, words: str) -> None:
    """US-5, US-9: virtual time that would not be is an error with words, and no hour's sleep; the next test is well."""
    result = run(pytester, source + AFTER)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([words])
    assert not [line for line in result.outlines if line.startswith("PASSED") and "test_it" in line]
    assert [line for line in result.outlines if line.startswith("PASSED") and "test_after" in line]


@pytest.mark.parametrize(
    ("mark", "settings"),
    [
        ('asyncio(loop_scope="module")', ""),
        ("asyncio", "asyncio_default_test_loop_scope = session"),
    ],
)
def test_a_loop_that_tests_share_is_refused(pytester: pytest.Pytester, mark: str, settings: str) -> None:
    """US-5, US-9: in each shape, and also where an async fixture would come first."""
    result = run(pytester, TIME + ASYNC_FIXTURE, anyio=None, asyncio="auto", mark=mark, settings=settings)
    result.assert_outcomes(errors=5, passed=2)
    result.stdout.fnmatch_lines([f'{OWN_LOOP}: mark the test with asyncio(loop_scope="function")'] * 5)


def test_only_this_module_imports_pytest_and_it_nothing_optional() -> None:
    """US-1, US-5: importing the package brings no pytest; the plugin is there without what an extra brings."""
    program = """
import sys
import dispatch_memory_async
assert "pytest" not in sys.modules
sys.modules |= dict.fromkeys(["looptime", "pytest_asyncio", "trio"])
import dispatch_memory_async.testing
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603  # the program stands here
