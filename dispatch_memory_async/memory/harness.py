"""The memory adapter's own conformance harness: a clock that moves when told, and its environment as the driver."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from anyio.lowlevel import checkpoint
from ulid import ULID

from ..conformance.harness import ABILITIES, Cluster, Execution, Fault, Harness, Traits
from ..model import OutcomeUnknownError
from ..registry import AdapterConfig
from ..spi import Adapter
from .backend import Backend
from .config import Config
from .env import Env
from .injection import call_start, crash_between_steps
from .settings import decode_settings
from .shapes import SHAPES

__all__ = ("MemoryCluster", "MemoryHarness", "memory_harness")

LONG = timedelta(days=1)
"""Later than any deadline of the suite, plus its bound."""
LAG = timedelta(minutes=1)


class MemoryCluster(Cluster):
    """One backend on a clock of its own."""

    def __init__(self, config: Config) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self.backend: Backend = Backend(config, clock=self.now)
        self.adapter: Adapter = self.backend
        self.driver: Env = self.backend.env

    def now(self) -> datetime:
        return self._now

    async def advance(self, by: timedelta) -> None:
        await checkpoint()
        self._now += by

    async def another(self, *, read_only: bool = False) -> Adapter:
        return self.backend.view(read_only)

    async def executions(self, job_id: ULID) -> tuple[Execution, ...]:
        began = (one for item in await self.driver.objects() if item.job.id == job_id for one in item.executions)
        return tuple(
            Execution(epoch=one.epoch, started_at=one.started_at, ended_at=one.ended_at)
            for one in sorted(began, key=lambda one: one.started_at)
        )

    @asynccontextmanager
    async def inject(self, fault: Fault, call: str) -> AsyncGenerator[None]:
        match fault:
            case Fault.LATE_CALL:
                with call_start(self.now() + LONG):
                    yield
            case Fault.CRASH_BETWEEN_STEPS:
                with crash_between_steps():
                    yield
            case Fault.LOST_REPLY:
                await self.driver.fail_calls(call, OutcomeUnknownError(f"the reply of {call} is lost"), effect="kept")
                yield
            case Fault.LATE_LANDING:
                bound = self.backend.config.call_bound
                lost = OutcomeUnknownError(f"the reply of {call} was given up")
                await self.driver.fail_calls(call, lost, effect="late", after=bound)
                yield
            case Fault.LAGGED_READ:
                await self.driver.lag_reads(LAG, view=self.backend)
                yield
                await self.driver.lag_reads(timedelta(0), view=self.backend)


class MemoryHarness(Harness):
    """The memory adapter with a configuration."""

    def __init__(self, config: Config) -> None:
        shape = SHAPES[config.shape]
        self.config: Config = config
        self.name: str = f"memory ({config.shape})"
        self.abilities: frozenset[str] = frozenset(ABILITIES) - shape.lacks
        self.faults: frozenset[Fault] = frozenset(Fault) - (frozenset() if config.call_bound else {Fault.LATE_LANDING})
        self.traits: Traits = Traits(**shape.traits(config))

    @asynccontextmanager
    async def cluster(self) -> AsyncGenerator[MemoryCluster]:
        cluster = MemoryCluster(self.config)
        async with cluster.backend:
            yield cluster


def memory_harness(config: AdapterConfig) -> MemoryHarness:
    """The harness that this distribution offers for ``dispatch-memory conformance``."""
    return MemoryHarness(decode_settings(config.settings))
