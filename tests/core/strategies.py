"""Strategies that make any record, and one record in which every field is set."""

from typing import Any

from hypothesis import strategies as st

from dispatch_memory_async import Cause, Job, Policy, Resources, State, UnmatchedPolicy
from dispatch_memory_async.core.record import (
    Ask,
    Charge,
    Chosen,
    End,
    EndKey,
    Hold,
    Intent,
    Kind,
    Record,
    Said,
    StoppedFor,
    Verdict,
    WhileRunning,
)
from tests.core.samples import ASK, end, hold, intent, of, ref, restart, said
from tests.model.samples import COUNTS, INSTANCES, JOBS, MOMENTS, POLICIES, REFS, TEXTS
from tests.support import MINUTE, T0, ulid

SUBMISSIONS = INSTANCES
BOOLS = st.booleans()
STATES = st.sampled_from(State)
CAUSES = st.none() | st.sampled_from(Cause)
ASKS = st.builds(Ask, TEXTS, TEXTS, MOMENTS)
KEYS = st.builds(EndKey, SUBMISSIONS, COUNTS, BOOLS, BOOLS)
SAID = st.builds(Said, KEYS, ASKS)
HOLDS = st.builds(
    Hold,
    instance=INSTANCES,
    by=TEXTS,
    until=st.none() | MOMENTS,
    reason=TEXTS,
    running=st.sampled_from(WhileRunning),
    acked=BOOLS,
    refused=BOOLS,
)
CHOSEN = st.builds(
    Chosen,
    submission=SUBMISSIONS,
    ref=REFS,
    restarts=COUNTS,
    may_have_run=BOOLS,
    stopped_for=st.none() | st.sampled_from(StoppedFor),
)
INTENTS = st.builds(
    Intent,
    id=COUNTS,
    kind=st.sampled_from(Kind),
    submission=SUBMISSIONS,
    ref=st.none() | REFS,
    instance=st.none() | INSTANCES,
    deadline=MOMENTS,
)
ENDS = st.builds(
    End,
    submission=SUBMISSIONS,
    restarts=COUNTS,
    state=STATES,
    cause=CAUSES,
    exit_code=st.none() | st.integers(-255, 255),
    wedge=BOOLS,
    gone=BOOLS,
    seen_at=MOMENTS,
)
RECORDS = st.builds(
    Record,
    version=COUNTS,
    job=JOBS,
    policy=POLICIES,
    native=BOOLS,
    covered=st.lists(COUNTS, max_size=3).map(tuple),
    stop=st.none() | ASKS,
    hold=st.none() | HOLDS,
    hold_counter=COUNTS,
    submission=COUNTS,
    chosen=st.none() | CHOSEN,
    intent=st.none() | INTENTS,
    end=st.none() | ENDS,
    counts=st.lists(COUNTS, max_size=3).map(tuple),
    charged=st.none() | st.builds(Charge, KEYS, st.none() | COUNTS),
    go_on=st.none() | SAID,
    word=st.none() | SAID,
    verdict=st.none() | st.builds(Verdict, state=STATES, cause=CAUSES, detail=TEXTS, at=MOMENTS),
    past=st.lists(ENDS, max_size=3).map(tuple),
)


def whole_record(number: int = 1, **fields: Any) -> Record:
    """A record of the job of that number, in which every field is set."""
    job = Job(
        id=ulid(number),
        command=("train", "--epochs", "3"),
        image="registry/train:1",
        env={"SEED": "7"},
        resources=Resources(nodes=2, gpus_per_node=8),
        time_limit=MINUTE,
        queue="big",
        priority=-5,
        extensions={"slurm": {"partition": "a100"}},
    )
    given: dict[str, Any] = {
        "version": 1,
        "job": job,
        "policy": Policy((restart(limit=3, backoff=MINUTE),), UnmatchedPolicy.FAIL),
        "native": True,
        "covered": (0,),
        "stop": ASK,
        "hold": hold(instance=4, until=T0 + MINUTE, running=WhileRunning.STOP, acked=True, refused=True),
        "hold_counter": 4,
        "submission": 2,
        "chosen": of(2, restarts=1, stopped_for=StoppedFor.RESTART),
        "intent": intent(Kind.HOLD, 2, ref=ref(2), instance=4),
        "end": end(submission=2, restarts=1, exit_code=137, wedge=True, gone=True),
        "counts": (2,),
        "charged": Charge(EndKey(1, 0), 0),
        "go_on": said(EndKey(1, 0, wedge=True)),
        "word": said(EndKey(1, 0, gone=True)),
        "verdict": Verdict(state=State.FAILED, cause=Cause.TIMEOUT, detail="ünverständlich", at=T0),
        "past": (end(), end(Cause.NODE_LOST, restarts=1)),
    }
    return Record(**{**given, **fields})
