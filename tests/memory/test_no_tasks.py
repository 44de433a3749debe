"""Section 2: the backend starts no task and no thread, and sets no timer, whatever is asked of it."""

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

import pytest
import trio
import trio.lowlevel
from anyio.lowlevel import checkpoint

from dispatch_memory_async import DispatchError, NotFoundError, Ref, Shape, Watch, resubscribing
from tests.memory.test_calls import ABSENT, EVERY, Scene, make, rest_of, snapshot_of
from tests.support import job


async def long_script(shape: Shape) -> int:
    """Every call many times over, with watches that are read, overflow, are left and are forgotten."""
    scene = Scene(shape, kill_wait=timedelta(seconds=3), watch_buffer=20)
    b = scene.b
    choice = random.Random(11)  # noqa: S311  # it chooses steps
    words = [name for name, call in EVERY.items() if call.only in (None, shape)] + ["start", "open", "run"] * 5
    refs: list[Ref] = [ABSENT]
    kept: list[Watch] = []
    changes = resubscribing(b)
    read = 0
    for step in range(400):
        scene.clock.advance(choice.choice((0, 1, 30, 400)))
        scene.ref, scene.job = choice.choice(refs), job(choice.randint(1, 6))
        with suppress(DispatchError):
            answer = await make(scene, choice.choice(words))
            if isinstance(answer, Ref) and not answer.weak:
                refs.append(answer)
        if step % 10 == 0:
            watch = choice.choice((b, b.view())).watch()
            read += len(await snapshot_of(watch))
            kept.append(watch)
        if step % 25 == 0:
            read += len(await rest_of(kept.pop(0)))
        if step % 50 == 0:
            with suppress(NotFoundError):
                await b.start(job(100 + step), 1)
                read += bool(await anext(changes))
    await changes.aclose()
    await b.aclose()
    return read


def forbidden(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{name} was called")

    return refuse


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", forbidden("Thread.start"))
    monkeypatch.setattr(threading.Timer, "start", forbidden("Timer.start"))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_task_no_thread_and_no_timer_on_asyncio_2(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    tasks, threads = asyncio.all_tasks(), threading.enumerate()
    with monkeypatch.context() as patched:
        for name in ("call_later", "call_at", "create_task", "run_in_executor", "call_soon_threadsafe", "add_reader"):
            patched.setattr(loop, name, forbidden(name))
        assert await long_script(shape) > 100
    assert asyncio.all_tasks() == tasks
    assert threading.enumerate() == threads


class Spawned(trio.abc.Instrument):
    def __init__(self) -> None:
        self.tasks: list[str] = []

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.tasks.append(task.name)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_no_task_no_thread_and_no_timer_on_trio_2(shape: Shape) -> None:
    spawned = Spawned()
    before = trio.lowlevel.current_statistics()
    threads = threading.enumerate()
    trio.lowlevel.add_instrument(spawned)
    try:
        assert await long_script(shape) > 100
    finally:
        trio.lowlevel.remove_instrument(spawned)
    after = trio.lowlevel.current_statistics()
    assert spawned.tasks == []
    assert after.tasks_living == before.tasks_living
    assert after.seconds_to_next_deadline == before.seconds_to_next_deadline == float("inf")
    assert threading.enumerate() == threads


async def test_the_lookouts_would_see_a_task_or_a_timer(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if anyio_backend == "asyncio":
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patched:
            patched.setattr(loop, "call_at", forbidden("call_at"))
            with pytest.raises(AssertionError):
                loop.call_later(1, print)
            patched.setattr(loop, "create_task", forbidden("create_task"))
            idle = checkpoint()
            with pytest.raises(AssertionError):
                await loop.create_task(idle)
            idle.close()
    else:
        spawned = Spawned()
        trio.lowlevel.add_instrument(spawned)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)
        trio.lowlevel.remove_instrument(spawned)
        assert len(spawned.tasks) == 1
        with trio.move_on_after(60):
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline <= 60
            await trio.lowlevel.checkpoint()
    with pytest.raises(AssertionError):
        threading.Thread(target=print).start()
