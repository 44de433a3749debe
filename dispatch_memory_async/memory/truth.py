"""The ground truth: what really is and was, whatever the scheduler believes or shows."""

from collections.abc import Mapping
from typing import Literal

from ulid import ULID

from ..model import Cause, DispatchError, Job, Ref, State, Value
from ..model.kinds import Count, Instance, Integer, Moment, Submission

__all__ = ("CallRecord", "Execution", "Node", "Truth")

Node = Literal["up", "lost", "fenced"]
"""A node that works, one that is cut off, and one that is cut off and whose processes are certainly dead."""


class Execution(Value, frozen=True, kw_only=True):
    """One execution of an object: its processes, not what the scheduler believes about them.

    :ivar attempt: its opaque identity, never repeated within a backend; the ``DISPATCH_ATTEMPT`` it runs with
    :ivar epoch: its epoch; the ``DISPATCH_EPOCH`` it runs with
    :ivar env: the environment that it runs in
    :ivar started_at: when it began
    :ivar ended_at: when its processes died; ``None`` while they live
    :ivar cause: why the scheduler ended it; ``None`` while it is current, and for a success
    :ivar exit_code: what it exited with, if it exited by itself
    :ivar alive: whether its processes live
    """

    attempt: str
    epoch: Count
    env: Mapping[str, str]
    started_at: Moment
    ended_at: Moment | None
    cause: Cause | None
    exit_code: Integer | None
    alive: bool


class Truth(Value, frozen=True, kw_only=True):
    """One object as it is.

    :ivar ref: its exact ref
    :ivar job: the job that it was started for
    :ivar submission: the number N of its submission
    :ivar state: where it stands; never ``Gone``: one that was deleted while live reads ``Cancelled``
    :ivar cause: why it stands there; never hidden
    :ivar gated: whether its gate is shut
    :ivar hold: the hold instance in force
    :ivar start_time: Slurm: the start time that the hold set
    :ivar held_by: Kubeflow: who placed the hold
    :ivar held_until: Kubeflow: until when
    :ivar hold_reason: Kubeflow: why
    :ivar admin_held: whether an administrator holds it
    :ivar active: Kubeflow: whether its workload is active
    :ivar requeue_bit: Slurm: whether the scheduler may requeue it by itself
    :ivar restarts: the restart counter that the scheduler shows
    :ivar node: the node of the latest execution; ``None`` before the first
    :ivar executions: all its executions, the latest last
    :ivar gone_at: when it was deleted, or due to be forgotten; ``None`` while it is remembered
    """

    ref: Ref
    job: Job
    submission: Submission
    state: State
    cause: Cause | None
    gated: bool
    hold: Instance | None
    start_time: Moment | None
    held_by: str
    held_until: Moment | None
    hold_reason: str
    admin_held: bool
    active: bool
    requeue_bit: bool | None
    restarts: Count
    node: Node | None
    executions: tuple[Execution, ...]
    gone_at: Moment | None


class CallRecord(Value, frozen=True, kw_only=True):
    """One call of the SPI that got past its checkpoint.

    :ivar call: its name
    :ivar view: which client made it
    :ivar at: when
    :ivar ref: the ref as it was asked, if the call has one
    :ivar job_id: the job, for ``start``, ``find`` and a job's ``cessation``
    :ivar outcome: what the caller saw: ``None``, or the error
    :ivar landed_at: when it changed something; ``None`` if it changed nothing
    """

    call: str
    view: str
    at: Moment
    ref: Ref | None
    job_id: ULID | None
    outcome: DispatchError | None
    landed_at: Moment | None
