"""The registry (1.4): adapters by name, the settings they are given, and those of other distributions."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import dispatch_memory_async
from dispatch_memory_async import (
    NAME,
    Adapter,
    AdapterConfig,
    AlreadyExistsError,
    Backend,
    CallMeta,
    ClosedError,
    DispatchError,
    HoldMeta,
    InvalidError,
    NotFoundError,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    Shape,
    open_adapter,
    register,
    registered,
    registry,
)
from tests.support import FAR, T0, job


@pytest.fixture(autouse=True)
def own_factories(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_factories", dict(vars(registry)["_factories"]))


async def fake(_: AdapterConfig) -> Adapter:
    return Backend()


def test_memory_is_registered_by_the_import() -> None:
    """1.4."""
    assert NAME == "memory"
    assert registered() == ("memory",)


def test_a_name_is_taken_once() -> None:
    """1.4: `AlreadyExistsError`; the first stays."""
    register("mine", fake)
    assert registered() == ("memory", "mine")
    for name in ("mine", "memory"):
        with pytest.raises(AlreadyExistsError, match=name):
            register(name, fake)
    assert registered() == ("memory", "mine")


@pytest.mark.parametrize("name", ["", None, 1, b"mine", ("mine",), object()], ids=repr)
def test_a_name_is_a_text(name: Any) -> None:
    """1.2: refused with words, and nothing is registered."""
    with pytest.raises(InvalidError, match="name"):
        register(name, fake)
    assert registered() == ("memory",)


@pytest.mark.parametrize("factory", [None, 1, "fake", object()], ids=repr)
def test_a_factory_can_be_called(factory: Any) -> None:
    """1.2."""
    with pytest.raises(InvalidError, match="factory"):
        register("mine", factory)
    assert registered() == ("memory",)


async def test_an_unknown_name_lists_the_known() -> None:
    """1.4: `NotFoundError`, which is a `LookupError`."""
    register("mine", fake)
    with pytest.raises(NotFoundError) as refusal:
        await open_adapter(AdapterConfig(adapter="no such"))
    for part in ("'no such'", "memory", "mine"):
        assert part in str(refusal.value)


async def test_the_factory_is_given_the_configuration() -> None:
    """1.4: as it was asked for; what it makes is handed on."""
    seen: list[AdapterConfig] = []
    made = Backend()

    async def factory(config: AdapterConfig) -> Adapter:
        seen.append(config)
        return made

    register("mine", factory)
    config = AdapterConfig(adapter="mine", settings={"any": {"thing": 1}}, read_only=True)
    assert await open_adapter(config) is made
    assert seen == [config]


@pytest.mark.parametrize("found", [None, "memory", b"{}", {"adapter": "memory"}, AdapterConfig, object()], ids=type)
async def test_what_is_no_configuration(found: Any) -> None:
    """1.2."""
    with pytest.raises(InvalidError, match="AdapterConfig"):
        await open_adapter(found)


SETTINGS: tuple[str | bytes | Mapping[str, object], ...] = (
    '{"shape": "kubeflow", "killWait": "5s"}',
    b'{"shape": "kubeflow", "killWait": "5s"}',
    {"shape": "kubeflow", "killWait": "5s"},
    MappingProxyType({"shape": "kubeflow", "killWait": "5s"}),
)


@pytest.mark.parametrize("settings", SETTINGS, ids=type)
async def test_settings_are_text_bytes_or_a_mapping(settings: str | bytes | Mapping[str, object]) -> None:
    """1.4: all say the same."""
    adapter = await open_adapter(AdapterConfig(settings=settings))
    assert isinstance(adapter, Backend)
    assert adapter.config.shape is Shape.KUBEFLOW
    assert adapter.config.kill_wait.total_seconds() == 5
    await adapter.aclose()


async def test_the_default_is_a_slurm_that_can_be_written() -> None:
    """1.4: `AdapterConfig()` opens the memory adapter with its defaults."""
    async with await open_adapter(AdapterConfig()) as adapter:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportAttributeAccessIssue]
        assert isinstance(adapter, Backend)
        assert adapter.config.shape is Shape.SLURM
        await adapter.start(job(), 1)


@pytest.mark.parametrize("settings", ["", b"", "{", "[]", b"\xff", '{"shape": "pbs"}', {"shape": 1}, {1: "slurm"}])
async def test_bad_settings_are_refused(settings: Any) -> None:
    """1.4, 2.1."""
    with pytest.raises(InvalidError, match=r"\$"):
        await open_adapter(AdapterConfig(settings=settings))


async def test_each_opening_is_a_new_backend_that_ends_with_its_aclose() -> None:
    """1.4: they share nothing."""
    first, second = [await open_adapter(AdapterConfig()) for _ in range(2)]
    await first.start(job(), 1)
    assert await second.find(job().id) == ()
    await first.aclose()
    with pytest.raises(ClosedError):
        await first.find(job().id)
    assert await second.find(job().id) == ()
    await second.aclose()


async def test_read_only_refuses_every_write_and_ends_with_its_aclose(shape: Shape) -> None:
    """1.4: answers reads; its `aclose` ends the backend, the environment included."""
    adapter: Any = await open_adapter(AdapterConfig(settings={"shape": str(shape)}, read_only=True))
    ref = Ref(name="n", id="1", submitted_at=T0)
    for write in (
        adapter.start(job(), 1),
        adapter.open(ref),
        adapter.stop(ref),
        adapter.hold(ref, HoldMeta(deadline=FAR, instance=1)),
        adapter.release(ref, ReleaseMeta(deadline=FAR, instance=1)),
        adapter.requeue(ref, CallMeta(FAR)),
        adapter.restore_requeue_bit(ref, CallMeta(FAR)),
    ):
        with pytest.raises(ReadOnlyError):
            await write
    assert await adapter.find(job().id) == ()
    assert (await adapter.capabilities()).call_bound.total_seconds() == 25
    assert await adapter.env.objects() == ()
    await adapter.aclose()
    with pytest.raises(ClosedError):
        await adapter.find(job().id)
    with pytest.raises(ClosedError):
        await adapter.env.objects()


# Adapters of other distributions

MODULE = """
import sys
from dispatch_memory_async import Backend
sys.fake_loads = getattr(sys, "fake_loads", 0) + 1
async def factory(config):
    return Backend()
number = 5
"""


@pytest.fixture
def distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two installed distributions: one that works, one of which nothing can be loaded."""
    for name, points in {
        "fake-scheduler": "fake = fake_adapter:factory\nabsent = fake_adapter:nothing\nnumber = fake_adapter:number\n",
        "broken-scheduler": "broken = broken_adapter:factory\nlost = no_such_adapter:factory\nhalf = broken_adapter\n",
    }.items():
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dispatch_memory_async.adapters]\n{points}")
    (tmp_path / "fake_adapter.py").write_text(MODULE)
    (tmp_path / "broken_adapter.py").write_text("raise RuntimeError('it will not work')\n")
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setattr(sys, "fake_loads", 0, raising=False)
    yield tmp_path
    for module in ("fake_adapter", "broken_adapter"):
        sys.modules.pop(module, None)


def loads() -> object:
    return vars(sys)["fake_loads"]


@pytest.mark.usefixtures("distributions")
async def test_adapters_of_other_distributions_are_found_and_loaded_only_when_asked_for() -> None:
    """1.4: through the entry-point group."""
    assert registered() == ("absent", "broken", "fake", "half", "lost", "memory", "number")
    assert await open_adapter(AdapterConfig()) is not None
    with pytest.raises(NotFoundError, match="fake"):
        await open_adapter(AdapterConfig(adapter="no such"))
    assert loads() == 0
    assert isinstance(await open_adapter(AdapterConfig(adapter="fake")), Backend)
    assert loads() == 1


@pytest.mark.usefixtures("distributions")
@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("broken", "broken-scheduler"),
        ("lost", "broken-scheduler"),
        ("half", "broken-scheduler"),
        ("absent", "fake-scheduler"),
        ("number", "fake-scheduler"),
    ],
)
async def test_one_that_fails_to_load_names_its_distribution(name: str, distribution: str) -> None:
    """1.4: an error of ours, with the reason; the others go on working."""
    with pytest.raises(DispatchError) as refusal:
        await open_adapter(AdapterConfig(adapter=name))
    assert distribution in str(refusal.value)
    assert name in str(refusal.value)
    assert isinstance(await open_adapter(AdapterConfig(adapter="fake")), Backend)


@pytest.mark.usefixtures("distributions")
async def test_an_own_registration_goes_first() -> None:
    """1.4: what was registered in this process is what is opened; nothing else is loaded for it."""
    made = Backend()

    async def factory(_: AdapterConfig) -> Adapter:
        return made

    try:
        register("fake", factory)
    except AlreadyExistsError:  # taken by the other distribution is as good an answer, if it is the answer
        assert "fake" in registered()
        return
    assert await open_adapter(AdapterConfig(adapter="fake")) is made
    assert registered().count("fake") == 1
    assert loads() == 0


def test_importing_the_package_loads_no_other_distribution(distributions: Path) -> None:
    """1.4: also where one is installed."""
    assert distributions.is_dir()
    assert dispatch_memory_async.registered()
    assert loads() == 0
