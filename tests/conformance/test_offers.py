"""Harnesses are offered by distributions (3.3): found by the adapter's name, loaded only when asked for."""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatch_memory_async import AdapterConfig, Backend, InvalidError, NotFoundError, UnsupportedError, registry
from dispatch_memory_async.conformance.offers import ENTRY_POINTS, harness_for, offered
from dispatch_memory_async.memory.harness import MemoryHarness, memory_harness

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = PROJECT["entry-points"][ENTRY_POINTS]

MODULE = """
import sys
from dispatch_memory_async import InvalidError
from dispatch_memory_async.memory.harness import memory_harness
sys.fake_loads = getattr(sys, "fake_loads", 0) + 1
class NotReached(Exception):
    pass
def fake(config):
    return memory_harness(config)
def nothing(config):
    return None
def refusing(config):
    raise InvalidError("its settings are bad")
def unreachable(config):
    raise NotReached("no such host")
number = 5
"""
POINTS = ("fake", "nothing", "refusing", "unreachable", "number", "absent")


def install(where: Path, name: str, points: dict[str, str]) -> None:
    """Let a distribution be installed there that offers these."""
    info = where / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{ENTRY_POINTS}]", *(f"{point} = {target}" for point, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(autouse=True)
def distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ours as pyproject.toml declares it, and one of somebody else."""
    install(tmp_path, PROJECT["name"], OURS)
    install(tmp_path, "fake-scheduler", {point: f"fake_harness:{point}" for point in POINTS})
    (tmp_path / "fake_harness.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setattr(sys, "fake_loads", 0, raising=False)
    monkeypatch.setattr(registry, "_factories", dict(vars(registry)["_factories"]))
    yield
    sys.modules.pop("fake_harness", None)


def loads() -> object:
    return vars(sys)["fake_loads"]


def test_ours_is_the_memory_adapters() -> None:
    """3.3: our distribution offers a harness for the memory adapter, with the settings that are asked for."""
    assert list(OURS) == ["memory"]
    harness = harness_for(AdapterConfig(settings=b'{"shape": "kubeflow"}'))
    assert isinstance(harness, MemoryHarness)
    assert harness.name == memory_harness(AdapterConfig(settings={"shape": "kubeflow"})).name == "memory (kubeflow)"


def test_nothing_is_loaded_that_is_not_asked_for() -> None:
    """3.3: neither to list what there is, nor for another harness."""
    assert offered() == tuple(sorted(["memory", *POINTS]))
    harness_for(AdapterConfig())
    assert loads() == 0
    assert isinstance(harness_for(AdapterConfig(adapter="fake")), MemoryHarness)
    assert loads() == 1


def test_an_unknown_name_lists_the_known() -> None:
    """1.4, for harnesses."""
    with pytest.raises(NotFoundError, match=r"no adapter is named 'no such'.*fake, memory"):
        harness_for(AdapterConfig(adapter="no such"))


def test_an_adapter_without_a_harness_is_said_to_have_none() -> None:
    """3.3: it can be opened, and its distribution offers no harness."""

    async def factory(_: AdapterConfig) -> Backend:
        return Backend()

    registry.register("mine", factory)
    with pytest.raises(NotFoundError, match=r"adapter 'mine' has no harness.*memory"):
        harness_for(AdapterConfig(adapter="mine"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent", "absent"), ("number", "callable"), ("nothing", "NoneType"), ("unreachable", "no such host")],
)
def test_one_that_cannot_be_had_names_its_distribution(name: str, reason: str) -> None:
    """1.4, for harnesses: whatever goes wrong in somebody else's code is an error of ours, with the reason."""
    with pytest.raises(UnsupportedError, match=f"'{name}' of distribution 'fake-scheduler'.*{reason}"):
        harness_for(AdapterConfig(adapter=name))


def test_refused_settings_are_the_adapters_own_error() -> None:
    """1.4, for harnesses."""
    with pytest.raises(InvalidError, match="its settings are bad"):
        harness_for(AdapterConfig(adapter="refusing"))
    with pytest.raises(InvalidError, match=r"\$.*shape"):
        harness_for(AdapterConfig(settings=b'{"shape": "pbs"}'))
