"""4.1, CO-6: what people ask for: holds that stand together, and what cannot be asked."""

from datetime import timedelta
from typing import Any

import pytest

from dispatch_memory_async import (
    Action,
    Backend,
    Cause,
    Config,
    InvalidError,
    Policy,
    Rule,
    Shape,
    UnavailableError,
)
from dispatch_memory_async.core import (
    MemoryRecords,
    Observer,
    Operator,
    Phase,
    Supervisor,
    WaitingFor,
    WhileRunning,
)
from tests.support import MINUTE, SECOND, T0, Clock, job, ulid

pytestmark = pytest.mark.anyio
MINE = ulid(1)


class World:
    def __init__(self, shape: Shape, clock: Clock) -> None:
        self.backend = Backend(Config(shape=shape), clock=clock)
        self.records = MemoryRecords()
        self.supervisor = Supervisor(self.backend, self.records, clock=clock)
        self.operator = Operator(self.records, self.supervisor, clock=clock, poll=timedelta(0))


@pytest.fixture
async def world(shape: Shape, clock: Clock) -> World:
    world = World(shape, clock)
    await world.operator.submit(job())
    return world


async def test_a_second_hold_takes_nothing_from_the_first(world: World) -> None:
    """CO-6: from the acknowledgement on nothing begins until it is released or over, whoever asks for another."""
    await world.operator.hold(MINE, "ann", reason="an audit", running="stop")
    status = await world.operator.hold(MINE, "bob", T0 + 10 * SECOND, "lunch")
    assert (status.held_by, status.held_until, status.hold_reason) == ("ann, bob", None, "lunch")
    hold = (await world.records.get(MINE)).hold
    assert hold is not None
    assert hold.running is WhileRunning.STOP
    await world.operator.hold(MINE, "bob")
    hold = (await world.records.get(MINE)).hold
    assert hold is not None
    assert hold.by == "ann, bob"


async def test_the_longer_of_two_holds_stands(world: World) -> None:
    """CO-6."""
    await world.operator.hold(MINE, "ann", T0 + MINUTE)
    status = await world.operator.hold(MINE, "bob", T0 + SECOND)
    assert status.held_until == T0 + MINUTE


async def test_a_hold_that_is_over_is_none(world: World) -> None:
    """CO-6: and leaves the one that stands."""
    await world.operator.hold(MINE, "ann")
    before = await world.records.get(MINE)
    for until in (T0, T0 - MINUTE):
        with pytest.raises(InvalidError, match="which is over"):
            await world.operator.hold(MINE, "bob", until)
    assert await world.records.get(MINE) == before


async def failed(world: World, backoff: timedelta) -> None:
    """Let a job run and fail that is to be restarted after a while."""
    rule = Rule(causes=frozenset({Cause.NON_ZERO_EXIT}), action=Action.RESTART, backoff=backoff)
    await world.operator.submit(job(), Policy((rule,)))
    for _ in range(3):
        await world.supervisor.step(MINE)
    (seen,) = await world.backend.find(MINE)
    await world.backend.env.run(seen.ref)
    await world.backend.env.finish(seen.ref, 1)
    await world.supervisor.step(MINE)


async def test_a_withdrawn_hold_is_not_released(shape: Shape, clock: Clock) -> None:
    """CO-8: releasing nothing restarts nothing, and a backoff goes on."""
    world = World(shape, clock)
    await failed(world, backoff=10 * MINUTE)
    status = await world.operator.release(MINE, "ann")
    assert status.waiting_for is WaitingFor.POLICY_BACKOFF


async def test_a_job_is_submitted_though_the_scheduler_is_away(shape: Shape, clock: Clock) -> None:
    """CO-1: what is in the record is not answered with an error."""
    world = World(shape, clock)
    await world.backend.env.fail_calls("capabilities", UnavailableError("no"))
    status = await world.operator.submit(job())
    assert (status.state, status.waiting_for, status.complete) == (Phase.NEW, WaitingFor.LOOK, False)
    assert await world.records.list() == (MINE,)


@pytest.mark.parametrize("policy", [5, [], (), "hold"])
async def test_what_is_no_policy_is_refused(shape: Shape, clock: Clock, policy: Any) -> None:
    """1.2: and nothing is submitted."""
    world = World(shape, clock)
    with pytest.raises(InvalidError, match="policy"):
        await world.operator.submit(job(), policy)
    assert await world.records.list() == ()


async def test_a_backoff_can_be_for_ever(shape: Shape, clock: Clock) -> None:
    """CO-8: a length of time that no calendar has is a long one."""
    world = World(shape, clock)
    await failed(world, backoff=timedelta.max)
    status = await world.supervisor.step(MINE)
    assert status.waiting_for is WaitingFor.POLICY_BACKOFF


async def test_a_refusal_that_is_no_text_is_told_as_well_as_it_can_be(shape: Shape, clock: Clock) -> None:
    """CO-12: the job waits for a person all the same."""
    world = World(shape, clock)
    await world.backend.env.fail_calls("start", InvalidError("bad queue \udcff"))
    await world.operator.submit(job())
    status = await world.supervisor.step(MINE)
    assert status.waiting_for is WaitingFor.HOLD
    assert "Start is refused: bad queue ?" in status.why


@pytest.mark.parametrize(
    ("actor", "given"),
    [
        (Operator, {"poll": -SECOND}),
        (Operator, {"poll": "x"}),
        (Observer, {"poll": timedelta(0)}),
        (Observer, {"skew": -SECOND}),
        (Supervisor, {"skew": -SECOND}),
        (Supervisor, {"skew": "x"}),
    ],
)
def test_no_actor_is_made_that_spins_or_decides_early(actor: type, given: dict[str, Any]) -> None:
    """4.1: every bound is longer by the skew, never shorter."""
    backend, records = Backend(), MemoryRecords()
    first: Any = records if actor is Operator else backend
    second: Any = Supervisor(backend, records) if actor is Operator else records
    with pytest.raises(InvalidError, match=f"{next(iter(given))}: found"):
        actor(first, second, **given)
