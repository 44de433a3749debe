"""Values and errors: the words in which a controller and a scheduler's adapter speak.

It imports nothing else of the project.
"""

from .base import Value
from .calls import HOLD_BASE, CallMeta, Cessation, HoldMeta, ReleaseMeta
from .capabilities import Action, Capabilities, Capability, Source, Support, Tristate
from .durations import format_duration, parse_duration
from .epochs import epoch, split_epoch
from .errors import (
    AlreadyExistsError,
    AmbiguousError,
    ClosedError,
    CrashedError,
    DispatchError,
    ExpiredError,
    FinishedError,
    HeldError,
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PendingError,
    ReadOnlyError,
    RunningError,
    StaleError,
    UnavailableError,
    UnsupportedError,
    WrongStateError,
)
from .hooks import dec_hook, enc_hook
from .jobs import NAMESPACE, RESERVED_ENV_PREFIX, Job, Resources
from .kinds import EPOCH_BOUND
from .observations import Observation
from .policies import NativePolicy, Policy, Rule, UnmatchedPolicy
from .refs import Ref
from .states import Cause, State

__all__ = (
    "EPOCH_BOUND",
    "HOLD_BASE",
    "NAMESPACE",
    "RESERVED_ENV_PREFIX",
    "Action",
    "AlreadyExistsError",
    "AmbiguousError",
    "CallMeta",
    "Capabilities",
    "Capability",
    "Cause",
    "Cessation",
    "ClosedError",
    "CrashedError",
    "DispatchError",
    "ExpiredError",
    "FinishedError",
    "HeldError",
    "HoldMeta",
    "InvalidError",
    "Job",
    "NativePolicy",
    "NotFoundError",
    "Observation",
    "OutcomeUnknownError",
    "PendingError",
    "Policy",
    "ReadOnlyError",
    "Ref",
    "ReleaseMeta",
    "Resources",
    "Rule",
    "RunningError",
    "Source",
    "StaleError",
    "State",
    "Support",
    "Tristate",
    "UnavailableError",
    "UnmatchedPolicy",
    "UnsupportedError",
    "Value",
    "WrongStateError",
    "dec_hook",
    "enc_hook",
    "epoch",
    "format_duration",
    "parse_duration",
    "split_epoch",
)
