"""Views (2.7): other clients of the same scheduler, read-only ones, and what closing closes."""

from typing import Any

import pytest

from dispatch_memory_async import (
    Adapter,
    CessationSignal,
    ClosedError,
    Holder,
    IdentityWeakener,
    InvalidError,
    MultiFinder,
    NativePolicyCompiler,
    ReadOnlyError,
    Requeuer,
    Shape,
    UnsupportedError,
    View,
    Watcher,
    open_adapter,
)
from dispatch_memory_async.registry import AdapterConfig
from tests.memory.test_calls import (
    ABSENT,
    ENV,
    EVERY,
    SPI,
    make,
    of_both_shapes,
    of_one_shape,
    ready,
    rest_of,
    snapshot_of,
    taken,
)
from tests.support import Clock, backend, job

WRITES = ("start", "open", "stop", "hold", "release", "requeue", "restore_requeue_bit")
READS = tuple(name for name in SPI if name not in WRITES)
NOTHING: Any = "nothing of the kind"


async def test_a_view_is_an_adapter_with_the_same_interfaces_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    for client in (b, b.view(), b.view(read_only=True)):
        for protocol in (
            Adapter,
            Holder,
            Requeuer,
            NativePolicyCompiler,
            Watcher,
            CessationSignal,
            IdentityWeakener,
            MultiFinder,
        ):
            assert isinstance(client, protocol)


@of_both_shapes(SPI)
async def test_a_view_is_the_same_scheduler_2_7(shape: Shape, name: str) -> None:
    """The same call answers and does the same through either; the log tells them apart."""
    through_backend, through_view = await ready(shape, name), await ready(shape, name)
    through_view.client = through_view.b.view()
    assert await make(through_view, name) == await make(through_backend, name)
    assert await through_view.b.env.objects() == await through_backend.b.env.objects()
    assert (await through_backend.b.env.calls())[-1].view == "backend"
    assert (await through_view.b.env.calls())[-1].view == through_view.client.name


@of_both_shapes(WRITES)
async def test_a_read_only_view_refuses_every_change_2_7(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    scene.client = scene.b.view(read_only=True)
    watch = scene.client.watch()
    await snapshot_of(watch)
    before = await scene.b.env.objects()
    with pytest.raises(ReadOnlyError) as raised:
        await make(scene, name)
    assert isinstance(raised.value, PermissionError)
    assert await scene.b.env.objects() == before
    assert await rest_of(watch) == []
    record = (await scene.b.env.calls())[-1]
    assert (record.call, type(record.outcome), record.landed_at) == (name, ReadOnlyError, None)


@of_both_shapes(READS)
async def test_a_read_only_view_answers_every_read_2_7(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    expected = await make(scene, name)
    scene.client = scene.b.view(read_only=True)
    assert await make(scene, name) == expected


async def test_read_only_comes_before_what_else_is_wrong_1_2(shape: Shape) -> None:
    b = backend(shape, Clock())
    view = b.view(read_only=True)
    with pytest.raises(ReadOnlyError):
        await view.requeue(NOTHING, NOTHING)
    with pytest.raises(ReadOnlyError):
        await view.stop(ABSENT)
    with pytest.raises(ReadOnlyError):
        await view.start(NOTHING, 0)
    if shape is Shape.KUBEFLOW:
        with pytest.raises(UnsupportedError):
            await b.requeue(NOTHING, NOTHING)
    await view.aclose()
    with pytest.raises(ClosedError):
        await view.stop(ABSENT)


async def test_the_environment_is_one_and_writes_for_all_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    views = [b.view(), b.view(read_only=True)]
    assert all(view.env is b.env for view in views)
    ref = await b.start(job(1), 1)
    await views[1].env.admin_hold(ref)
    assert (await b.env.truth(ref)).admin_held
    await views[1].aclose()
    await views[1].env.admin_release(ref)  # it is the scheduler's side, not the view's
    assert not (await b.env.truth(ref)).admin_held


async def test_names_are_stable_and_the_clients_own_ruling_23(shape: Shape) -> None:
    names: list[list[str]] = []
    for _ in range(2):
        b = backend(shape, Clock())
        clients: list[View] = [b, b.view(), b.view(read_only=True), b.view()]
        names.append([client.name for client in clients])
        for client in clients:
            await client.capabilities()
        await clients[1].aclose()
        assert [record.view for record in await b.env.calls()] == names[-1]
        assert b.view().name not in names[-1]
        assert names[-1] == [client.name for client in clients]
    assert names[0] == names[1]
    assert len(set(names[0])) == 4


async def test_a_view_has_its_own_watches_and_its_own_aclose_2_7(shape: Shape) -> None:
    b = backend(shape, Clock())
    views = [b.view(), b.view()]
    clients: list[View] = [b, *views]
    watches = [client.watch() for client in clients for _ in range(2)]
    for watch in watches:
        await snapshot_of(watch)
    await views[0].aclose()
    assert [watch.closed_by for watch in watches] == [None, None, "closed", "closed", None, None]
    assert [client.closed for client in clients] == [False, True, False]
    with pytest.raises(ClosedError):
        await views[0].capabilities()
    with pytest.raises(ClosedError):
        views[0].watch()
    ref = await views[1].start(job(1), 1)
    for number in (0, 1, 4, 5):
        assert [seen.ref for seen in await taken(watches[number])] == [ref]


@of_one_shape(EVERY)
async def test_the_backends_aclose_closes_all_2_7(shape: Shape, name: str) -> None:
    scene = await ready(shape, name)
    scene.client = view = scene.b.view()
    watches = [view.watch(), scene.b.watch()]
    for watch in watches:
        await snapshot_of(watch)
    await scene.b.aclose()
    assert (view.closed, [watch.closed_by for watch in watches]) == (True, ["closed", "closed"])
    with pytest.raises(ClosedError):
        await make(scene, name)
    with pytest.raises(ClosedError):
        scene.b.view()
    await view.aclose()


@of_one_shape(ENV)
async def test_after_the_backends_aclose_the_environment_is_closed_whatever_is_asked_1_2(
    shape: Shape, name: str
) -> None:
    """Closed comes before what is wrong with the ref."""
    scene = await ready(shape, name)
    scene.ref = NOTHING
    await scene.b.aclose()
    with pytest.raises(ClosedError):
        await make(scene, name)


async def test_backend_and_view_are_context_managers_2_7(shape: Shape) -> None:
    async with backend(shape, Clock()) as b:
        async with b.view() as view:
            assert not view.closed
            await view.capabilities()
        assert view.closed
        assert not b.closed
        with pytest.raises(ClosedError):
            await view.__aenter__()
    assert b.closed
    with pytest.raises(ClosedError):
        await b.__aenter__()


@pytest.mark.parametrize("read_only", [None, 1, "yes"], ids=repr)
async def test_read_only_is_yes_or_no_1_2(shape: Shape, read_only: Any) -> None:
    with pytest.raises(InvalidError):
        backend(shape, Clock()).view(read_only)


async def test_a_read_only_adapter_refuses_changes_and_its_environment_does_not_1_4(shape: Shape) -> None:
    adapter: Any = await open_adapter(AdapterConfig(settings={"shape": str(shape)}, read_only=True))
    with pytest.raises(ReadOnlyError):
        await adapter.start(job(1), 1)
    view = adapter.view()
    with pytest.raises(ReadOnlyError):
        await view.start(job(1), 1)
