"""Capabilities: what the adapter says that it can do, and that the suite can see it do so."""

from datetime import timedelta

from ...model import Action, Capability, State, Tristate
from ...spi import NativePolicyCompiler
from .. import backend as suite
from ..bed import Bed
from ..checks import Need, check, missing
from ..harness import Fault

__all__ = ("CHECKS",)


@check(
    "capabilities.all-is-answered",
    "Every capability and every action is answered, if only by unknown.",
    rules="1.1 2.1",
)
async def all_is_answered(bed: Bed) -> None:
    said = bed.capabilities
    asked = {"support": [*Capability], "rules": [*Action], "native": [*Action]}
    for name, every in asked.items():
        unsaid = [one for one in every if one not in getattr(said, name)]
        bed.expect(not unsaid, f"an answer in {name} for each of {', '.join(every)}", f"none for {', '.join(unsaid)}")
    bed.expect(said.call_bound >= timedelta(0), "call_bound of at least 0", said.call_bound)


@check(
    "capabilities.cannot-be-changed",
    "What was answered is read-only, and another question gets the same answer.",
    rules="1.1 TM-4",
)
async def cannot_be_changed(bed: Bed) -> None:
    for name in ("support", "rules", "native"):
        answers = getattr(bed.capabilities, name)
        bed.expect(bed.is_read_only(answers), f"{name} is read-only", f"a {type(answers).__name__} that can be changed")
    again = await bed.adapter.capabilities()
    bed.expect(again == bed.capabilities, f"the same answer again: {bed.capabilities}", again)


@check(
    "capabilities.native-is-allowed",
    "What the scheduler carries out itself is an action that rules may name, and there is a compiler for it.",
    rules="1.3 2.1",
)
async def native_is_allowed(bed: Bed) -> None:
    native, rules = (
        {action for action, support in answers.items() if support.value is Tristate.YES}
        for answers in (bed.capabilities.native, bed.capabilities.rules)
    )
    bed.expect(native <= rules, f"native actions out of {sorted(rules)}", sorted(native))
    bed.expect(not native or isinstance(bed.adapter, NativePolicyCompiler), "a NativePolicyCompiler", bed.adapter)


@check(
    "capabilities.interfaces-are-there",
    "The interface by which a declared capability is used is there.",
    rules="1.3",
)
async def interfaces_are_there(bed: Bed) -> None:
    for capability in Capability:
        missing(bed, (capability,))


@check(
    "capabilities.gate-as-declared",
    "A start is gated if the capability is declared, and is not if it is denied.",
    rules="SL-3 KF-2",
)
async def gate_as_declared(bed: Bed) -> None:
    ref = await bed.started()
    answer = bed.capabilities.support.get(Capability.GATED_START)
    if answer is not None and answer.value is not Tristate.UNKNOWN:
        await bed.see(ref, state=State.PENDING, gated=bed.declares(Capability.GATED_START))


@check(
    "capabilities.each-can-be-shown",
    "With what this harness can do, at least one check is made of every declared capability.",
    rules="3.1",
)
async def each_can_be_shown(bed: Bed) -> None:
    for capability in filter(bed.declares, Capability):
        lacking = [
            [reason for need in one.needs if _is_the_harness(need) and (reason := missing(bed, (need,)))]
            for one in suite.BACKEND
            if capability in one.needs and not any(missing(bed, (n,)) for n in one.needs if not _is_the_harness(n))
        ]
        if lacking and all(lacking):
            least: list[str] = min(lacking, key=len)
            bed.expect(False, f"a check of {capability}, which is declared", f"none can be made: {'; '.join(least)}")


def _is_the_harness(need: Need) -> bool:
    """Whether the harness' author sees to it, rather than the adapter's."""
    return isinstance(need, Fault) or (isinstance(need, str) and not isinstance(need, Capability))


CHECKS = (
    all_is_answered,
    cannot_be_changed,
    native_is_allowed,
    interfaces_are_there,
    gate_as_declared,
    each_can_be_shown,
)
