"""Every coroutine test runs on both event loops; `shape` runs a test on both shapes."""

import pytest

from dispatch_memory_async import Shape
from tests.support import Clock

pytest_plugins = ["pytester"]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=list(Shape), ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    assert isinstance(request.param, Shape)
    return request.param
