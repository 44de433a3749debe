"""The states of an object, and the causes for which it is in one."""

from enum import StrEnum

__all__ = ("Cause", "State")


class State(StrEnum):
    """Where an object stands. ``Gone`` is seen on a watch only: it has left the scheduler's memory."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    GONE = "Gone"

    @property
    def ended(self) -> bool:
        """Whether the object has come to an end: it succeeded, failed or was cancelled."""
        return self in _ENDED


_ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


class Cause(StrEnum):
    """Why an object is in its state. A healthy run and a success have none."""

    GATED = "Gated"
    """Its start is gated; ``open`` lifts the gate."""
    HELD = "Held"
    """A hold is in force, or (Kubeflow) its workload is deactivated."""
    ADMIN_HELD = "AdminHeld"
    """An administrator holds it."""
    NO_CAPACITY = "NoCapacity"
    """The scheduler found no room for it."""
    REQUEUED = "Requeued"
    """It was put back to wait (Slurm), or is ending for that."""
    PREEMPTED = "Preempted"
    """Something more important took its place."""
    NODE_LOST = "NodeLost"
    """The node under it was lost; its processes may live on."""
    OUT_OF_MEMORY = "OutOfMemory"
    TIMEOUT = "Timeout"
    NON_ZERO_EXIT = "NonZeroExit"
    LAUNCH_FAILED = "LaunchFailed"
    STOPPED = "Stopped"
    """Somebody stopped it on purpose."""
    UNKNOWN = "Unknown"
    """The evidence has vanished."""

    @property
    def pod_derived(self) -> bool:
        """Whether only the pod tells of it on Kubernetes, so that it can be read for a while only."""
        return self in _POD_DERIVED


_POD_DERIVED = frozenset({Cause.NODE_LOST, Cause.OUT_OF_MEMORY, Cause.NON_ZERO_EXIT})
