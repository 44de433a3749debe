"""Traits that no shape in memory has: what they excuse is skipped with its reason, and what they say is held to."""

import msgspec
import pytest

from dispatch_memory_async import Config
from dispatch_memory_async.conformance import run_backend
from dispatch_memory_async.memory.harness import MemoryHarness


def harness(**traits: bool) -> MemoryHarness:
    """The memory adapter as a Slurm, said to be one with these traits."""
    made = MemoryHarness(Config())
    made.traits = msgspec.structs.replace(made.traits, **traits)
    return made


@pytest.mark.parametrize(
    ("trait", "value", "reason", "skips"),
    [
        (
            "polled_watch",
            True,
            "a watch polls here",
            {
                "watch.every-change-once-in-order",
                "watch.an-unread-one-slows-nobody",
                "watch.falling-behind-is-said",
            },
        ),
        (
            "atomic_holds",
            False,
            "the scheduler does not compare instances",
            {"races.two-clients-hold", "races.two-clients-release", "races.a-release-beside-a-hold"},
        ),
    ],
)
async def test_what_a_trait_excuses_is_skipped_and_all_else_passes(
    trait: str, value: bool, reason: str, skips: set[str]
) -> None:
    """3.2: also for an adapter that does more than its traits say."""
    report = await run_backend(harness(**{trait: value}))
    assert [result for result in report.results if result.outcome == "failed"] == []
    assert {result.check for result in report.results if result.message.startswith(reason)} == skips


@pytest.mark.parametrize(
    ("trait", "value", "finds"),
    [
        (
            "requeues_ended",
            False,
            {
                "requeue.ended-goes-back",
                "requeue.out-of-memory-goes-back",
                "requeue.time-out-goes-back",
                "requeue.launch-failure-goes-back",
                "requeue.preempted-goes-back",
                "requeue.stopped-goes-back",
            },
        ),
        ("admin_hold_opens", True, {"gate.admin-hold-forbids-it"}),
    ],
)
async def test_an_adapter_that_is_not_as_its_traits_say_is_found(trait: str, value: bool, finds: set[str]) -> None:
    """3.2: a trait that changes what is expected is no excuse."""
    report = await run_backend(harness(**{trait: value}))
    assert {result.check for result in report.results if result.outcome == "failed"} == finds
