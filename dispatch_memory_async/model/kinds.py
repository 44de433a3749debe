"""The kinds of numbers and times that values are made of, and their bounds."""

from datetime import datetime
from typing import Annotated

import msgspec

__all__ = ("EPOCH_BOUND", "LARGEST", "Count", "Instance", "Integer", "Moment", "Submission")

EPOCH_BOUND = 1_000_000
"""No submission number, restart count or hold instance reaches it."""

LARGEST = 2**63 - 1
"""What JSON's readers elsewhere can still hold."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""An aware time; kept in UTC."""

Submission = Annotated[int, msgspec.Meta(ge=1, lt=EPOCH_BOUND)]
"""The number N of a submission."""

Instance = Annotated[int, msgspec.Meta(ge=1, lt=EPOCH_BOUND)]
"""The number of a hold."""

Integer = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
