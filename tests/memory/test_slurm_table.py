"""The Slurm half of the transition table (sections 1 and 2): every row times every column, one item a cell.

`ROWS` says how an object comes into a row's condition and how it reads there; `SPI` and `ENV` hold what each call
does to it. A row `X+y` is the row X in a special case y; `.kw` is a row under `kill_wait` > 0. A special row takes
over the cells of its plain row and names those that differ.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from dispatch_memory_async import (
    AmbiguousError,
    CallMeta,
    Cause,
    Cessation,
    FinishedError,
    InvalidError,
    NotFoundError,
    RunningError,
    Shape,
    State,
    UnavailableError,
    WrongStateError,
)
from tests.memory.table import (
    CALLS,
    CEASED,
    CODE,
    CONFIGURED,
    CRASH,
    DECLARED,
    DIES,
    FIN,
    FULL,
    HELD,
    KILL_WAIT,
    LIVES,
    LIVING,
    NF,
    OBSERVED,
    PEND,
    RUN,
    RUNS,
    SAME,
    STEP,
    WS,
    Cells,
    Later,
    OneOf,
    Row,
    Then,
    World,
    at,
    becomes,
    cancelled_pending,
    cells,
    check_cell,
    check_later,
    check_row,
    ending,
    ends,
    fields,
    only_truth,
    plus,
    ran,
    reach,
    requeued,
    row,
    same,
    stale,
)
from tests.support import FAR, MINUTE, SECOND, job

S = Shape.SLURM
STOPPED, PREEMPTED, REQUEUED = Cause.STOPPED, Cause.PREEMPTED, Cause.REQUEUED
NODE_LOST, NON_ZERO = Cause.NODE_LOST, Cause.NON_ZERO_EXIT
AGE = 300  # min_job_age and slurmd_timeout are five minutes, unless a row says otherwise
DEAD_AT_LOSS = {"cessation": Cessation(ceased=True, detail=CONFIGURED)}
ADMIN: dict[str, object] = {"admin_held": True}
LOST: dict[str, object] = {"node": "lost"}
FENCED: dict[str, object] = {"node": "fenced"}


def while_ending(cause: Cause) -> OneOf:
    """Execution.cause of an ending object: None or why it is ending (ruling 10 leaves it open)."""
    return OneOf(None, cause)


ROWS: dict[str, Row] = {
    # Pending gated
    "G": row("start", "Pending/Gated", gated=True),
    "G+bit": row("start:requeue", "Pending/Gated", gated=True, requeue_bit=True),
    "G+hold": row("start hold:3", "Pending/Gated", gated=True, hold=3),
    # Pending open
    "P": row("start open", "Pending/None"),
    "P+bit": row("start:requeue open", "Pending/None", requeue_bit=True),
    "P+full": row("start open no_capacity", "Pending/NoCapacity", detail=FULL),
    "P+again": row(
        "start open run finish:3 requeue",
        "Pending/Requeued",
        ran(at(2), at(3), NON_ZERO, CODE),
        restarts=1,
        submitted=at(4),
    ),
    "P+lost": row(
        "start open run lose_node requeue",
        "Pending/Requeued",
        ran(at(2), cause=REQUEUED),
        truth=LOST,
        restarts=1,
        submitted=at(4),
    ),
    # Pending open, held at 3
    "H": row("start open hold:3", "Pending/Held", hold=3),
    "H+bit": row("start:requeue open hold:3", "Pending/Held", hold=3, requeue_bit=True),
    "H+again": row(
        "start open run finish:3 requeue hold:3",
        "Pending/Held",
        ran(at(2), at(3), NON_ZERO, CODE),
        restarts=1,
        hold=3,
        submitted=at(4),
    ),
    "H+carried": row("start open hold:3 stop requeue", "Pending/Held", restarts=1, hold=3, submitted=at(4)),
    "H+lost": row(
        "start open run lose_node requeue hold:3",
        "Pending/Held",
        ran(at(2), cause=REQUEUED),
        truth=LOST,
        restarts=1,
        hold=3,
        submitted=at(4),
    ),
    # Pending, admin hold: gate and hold as they are
    "A": row("start open admin_hold", "Pending/AdminHeld", truth=ADMIN),
    "A+gate": row("start admin_hold", "Pending/AdminHeld", truth=ADMIN, gated=True),
    "A+hold": row("start open hold:3 admin_hold", "Pending/AdminHeld", truth=ADMIN, hold=3),
    "A+gate+hold": row("start hold:3 admin_hold", "Pending/AdminHeld", truth=ADMIN, gated=True, hold=3),
    "A+bit": row("start:requeue open admin_hold", "Pending/AdminHeld", truth=ADMIN, requeue_bit=True),
    "A+again": row(
        "start open run admin_hold requeue",
        "Pending/AdminHeld",
        ran(at(2), at(4), REQUEUED),
        truth=ADMIN,
        restarts=1,
        submitted=at(4),
    ),
    "A+lost": row(
        "start open run lose_node requeue admin_hold",
        "Pending/AdminHeld",
        ran(at(2), cause=REQUEUED),
        truth=ADMIN | LOST,
        restarts=1,
        submitted=at(4),
    ),
    # Running
    "R": row("start open run", "Running/None", ran(at(2)), started_at=at(2)),
    "R+bit": row("start:requeue open run", "Running/None", ran(at(2)), started_at=at(2), requeue_bit=True),
    "R+admin": row("start open run admin_hold", "Running/None", ran(at(2)), truth=ADMIN, started_at=at(2)),
    "R+bit+admin": row(
        "start:requeue open run admin_hold",
        "Running/None",
        ran(at(2)),
        truth=ADMIN,
        started_at=at(2),
        requeue_bit=True,
    ),
    "R+again": row(
        "start open run finish:3 requeue run",
        "Running/None",
        ran(at(2), at(3), NON_ZERO, CODE),
        ran(at(5)),
        restarts=1,
        submitted=at(4),
        started_at=at(5),
    ),
    "R+older": row(
        "start open run lose_node requeue run",
        "Running/None",
        ran(at(2), cause=REQUEUED),
        ran(at(5)),
        restarts=1,
        submitted=at(4),
        started_at=at(5),
    ),
    # Running, node lost, timeout not reached
    "L": row("start open run lose_node", "Running/None", ran(at(2)), truth=LOST, started_at=at(2)),
    "L+bit": row(
        "start:requeue open run lose_node",
        "Running/None",
        ran(at(2)),
        truth=LOST,
        started_at=at(2),
        requeue_bit=True,
    ),
    "L+admin": row(
        "start open run admin_hold lose_node",
        "Running/None",
        ran(at(2)),
        truth=LOST | ADMIN,
        started_at=at(2),
    ),
    "L+fenced": row(
        "start open run lose_node fence_node",
        "Running/None",
        ran(at(2), at(4)),
        truth=FENCED,
        started_at=at(2),
    ),
    "L+fenced+bit": row(
        "start:requeue open run lose_node fence_node",
        "Running/None",
        ran(at(2), at(4)),
        truth=FENCED,
        started_at=at(2),
        requeue_bit=True,
    ),
    "L+dead": row(
        "start open run lose_node",
        "Running/None",
        ran(at(2), at(3)),
        settings=DEAD_AT_LOSS,
        truth=LOST,
        started_at=at(2),
    ),
    # Running, ending for a stop
    "X-s.kw": row(
        "start open run stop",
        "Running/Stopped",
        ran(at(2), cause=while_ending(STOPPED)),
        started_at=at(2),
    ),
    "X-s+bit.kw": row(
        "start:requeue open run stop",
        "Running/Stopped",
        ran(at(2), cause=while_ending(STOPPED)),
        started_at=at(2),
        requeue_bit=True,
    ),
    "X-s+admin.kw": row(
        "start open run admin_hold stop",
        "Running/Stopped",
        ran(at(2), cause=while_ending(STOPPED)),
        truth=ADMIN,
        started_at=at(2),
    ),
    "X-s+lost.kw": row(
        "start open run stop lose_node",
        "Running/Stopped",
        ran(at(2), cause=while_ending(STOPPED)),
        truth=LOST,
        started_at=at(2),
    ),
    "X-s+fenced.kw": row(
        "start open run stop lose_node fence_node",
        "Running/Stopped",
        ran(at(2), at(5), while_ending(STOPPED)),
        truth=FENCED,
        started_at=at(2),
    ),
    "X-s+dead.kw": row(
        "start open run stop lose_node",
        "Running/Stopped",
        ran(at(2), at(4), while_ending(STOPPED)),
        settings=DEAD_AT_LOSS,
        truth=LOST,
        started_at=at(2),
    ),
    "X-s+older.kw": row(  # the ending execution's own node is up, the one before it was left on a lost one
        "start open run lose_node requeue wait:60 run stop",
        "Running/Stopped",
        ran(at(2), cause=REQUEUED),
        ran(at(5, 60), cause=while_ending(STOPPED)),
        restarts=1,
        submitted=at(4, 60),
        started_at=at(5, 60),
    ),
    # Running, ending for a preemption, to Failed
    "X-p.kw": row(
        "start open run preempt",
        "Running/Preempted",
        ran(at(2), cause=while_ending(PREEMPTED)),
        started_at=at(2),
    ),
    "X-p+bit.kw": row(  # the bit was set after the preemption had read it
        "start open run preempt crash",
        "Running/Preempted",
        ran(at(2), cause=while_ending(PREEMPTED)),
        started_at=at(2),
        requeue_bit=True,
    ),
    "X-p+admin.kw": row(
        "start open run admin_hold preempt",
        "Running/Preempted",
        ran(at(2), cause=while_ending(PREEMPTED)),
        truth=ADMIN,
        started_at=at(2),
    ),
    "X-p+lost.kw": row(
        "start open run lose_node preempt",
        "Running/Preempted",
        ran(at(2), cause=while_ending(PREEMPTED)),
        truth=LOST,
        started_at=at(2),
    ),
    "X-p+fenced.kw": row(
        "start open run lose_node fence_node preempt",
        "Running/Preempted",
        ran(at(2), at(4), while_ending(PREEMPTED)),
        truth=FENCED,
        started_at=at(2),
    ),
    # Running, ending for a requeue
    "X-r.kw": row(
        "start open run requeue",
        "Running/Requeued",
        ran(at(2), cause=while_ending(REQUEUED)),
        started_at=at(2),
    ),
    "X-r+admin.kw": row(
        "start open run admin_hold requeue",
        "Running/Requeued",
        ran(at(2), cause=while_ending(REQUEUED)),
        truth=ADMIN,
        started_at=at(2),
    ),
    "X-r+lost.kw": row(
        "start open run requeue lose_node",
        "Running/Requeued",
        ran(at(2), cause=while_ending(REQUEUED)),
        truth=LOST,
        started_at=at(2),
    ),
    "X-r+fenced.kw": row(
        "start open run requeue lose_node fence_node",
        "Running/Requeued",
        ran(at(2), at(5), while_ending(REQUEUED)),
        truth=FENCED,
        started_at=at(2),
    ),
    "X-r+preempted.kw": row(
        "start:requeue open run preempt",
        "Running/Requeued",
        ran(at(2), cause=while_ending(PREEMPTED)),
        started_at=at(2),
        requeue_bit=True,
    ),
    "X-r+external.kw": row(
        "start open run requeue_externally",
        "Running/Requeued",
        ran(at(2), cause=while_ending(REQUEUED)),
        started_at=at(2),
        requeue_bit=True,
    ),
    # ended, with and without a hold
    "E": row(
        "start open run finish:0",
        "Succeeded/None",
        ran(at(2), at(3), None, 0),
        started_at=at(2),
        ended_at=at(3),
        exit_code=0,
    ),
    "E+failed": row(
        "start open run finish:3",
        "Failed/NonZeroExit",
        ran(at(2), at(3), NON_ZERO, CODE),
        started_at=at(2),
        ended_at=at(3),
        exit_code=CODE,
    ),
    "E+bit": row(
        "start open run finish:0 crash",
        "Succeeded/None",
        ran(at(2), at(3), None, 0),
        started_at=at(2),
        ended_at=at(3),
        exit_code=0,
        requeue_bit=True,
    ),
    "E+gate": row("start stop", "Cancelled/Stopped", gated=True, ended_at=at(1)),
    "E+hold": row("start open hold:3 stop", "Cancelled/Stopped", hold=3, ended_at=at(3)),
    "E+gate+hold": row("start hold:3 stop", "Cancelled/Stopped", gated=True, hold=3, ended_at=at(2)),
    "E+admin": row(
        "start open run admin_hold out_of_memory",
        "Failed/OutOfMemory",
        ran(at(2), at(4), Cause.OUT_OF_MEMORY),
        truth=ADMIN,
        started_at=at(2),
        ended_at=at(4),
    ),
    "E+admin+hold": row(
        "start open hold:3 admin_hold stop",
        "Cancelled/Stopped",
        truth=ADMIN,
        hold=3,
        ended_at=at(4),
    ),
    "E+lost": row(
        "start open run lose_node wait:300",
        "Failed/NodeLost",
        ran(at(2), cause=NODE_LOST),
        truth=LOST,
        started_at=at(2),
        ended_at=at(3, AGE),
    ),
    "E+fenced": row(
        "start open run lose_node stop fence_node",
        "Cancelled/Stopped",
        ran(at(2), at(5), STOPPED),
        truth=FENCED,
        started_at=at(2),
        ended_at=at(4),
    ),
    "E+dead": row(
        "start open run lose_node stop",
        "Cancelled/Stopped",
        ran(at(2), at(3), STOPPED),
        settings=DEAD_AT_LOSS,
        truth=LOST,
        started_at=at(2),
        ended_at=at(4),
    ),
    "E+lost+hold": row(
        "start open run lose_node requeue hold:3 stop",
        "Cancelled/Stopped",
        ran(at(2), cause=REQUEUED),
        truth=LOST,
        submitted=at(4),
        restarts=1,
        hold=3,
        started_at=at(2),  # ruling 7
        ended_at=at(6),
    ),
    "E+older": row(
        "start open run lose_node requeue run finish:0",
        "Succeeded/None",
        ran(at(2), cause=REQUEUED),
        ran(at(5), at(6), None, 0),
        submitted=at(4),
        restarts=1,
        started_at=at(5),
        ended_at=at(6),
        exit_code=0,
    ),
    # forgotten
    "F": row(
        "start open run finish:3 wait:300",
        "Failed/NonZeroExit",
        ran(at(2), at(3), NON_ZERO, CODE),
        truth={"gone_at": at(3, AGE)},
        gone=True,
    ),
    "F+history": row(
        "start open run finish:3 wait:300",
        "Failed/NonZeroExit",
        ran(at(2), at(3), NON_ZERO, CODE),
        settings={"capabilities": {"AccountingHistory": {"value": "yes"}}},
        truth={"gone_at": at(3, AGE)},
        gone=True,
        from_history=True,
        started_at=at(2),
        ended_at=at(3),
        exit_code=CODE,
    ),
    "F+lost": row(
        "start open run lose_node stop wait:300",
        "Cancelled/Stopped",
        ran(at(2), cause=STOPPED),
        truth=LOST | {"gone_at": at(4, AGE)},
        gone=True,
    ),
    "F+lost+history": row(
        "start open run lose_node stop wait:300",
        "Cancelled/Stopped",
        ran(at(2), cause=STOPPED),
        settings={"capabilities": {"AccountingHistory": {"value": "yes"}}},
        truth=LOST | {"gone_at": at(4, AGE)},
        gone=True,
        from_history=True,
        started_at=at(2),
        ended_at=at(4),
    ),
    "F+hold": row(
        "start open hold:3 stop wait:300",
        "Cancelled/Stopped",
        truth={"gone_at": at(3, AGE)},
        gone=True,
        hold=3,
    ),
}

LIFTED = becomes(hold=None)
HIGHER = becomes(hold=4)
BIT_OFF = becomes(requeue_bit=False)


def held_cells(after_release: str | None = None) -> Cells:
    """The hold and release columns of an object that is held at 3: i<c, i=c, i>c (SL-6)."""
    return {
        "hold.lower": stale(3),
        "hold.same": SAME,
        "hold.higher": HIGHER,
        "release.lower": stale(3),
        "release.same": becomes(after_release, hold=None) if after_release else LIFTED,
        "release.higher": stale(3),
    }


# Section 1: the SPI.
SPI: dict[str, Cells] = {
    "G": {
        "open": becomes("Pending/None", gated=False),
        "stop": cancelled_pending(),  # `gated` stays
        "hold": becomes("Pending/Gated", hold=3),
        "release": SAME,
        "requeue": PEND,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": CEASED,
    },
    "P": {
        "open": SAME,
        "stop": cancelled_pending(),
        "hold": becomes("Pending/Held", hold=3, detail=""),
        "release": SAME,
        "requeue": PEND,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": CEASED,
    },
    "H": {
        "open": SAME,
        "stop": cancelled_pending(),  # the hold is carried
        **held_cells("Pending/None"),
        "requeue": PEND,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": CEASED,
    },
    "A": {
        "open": HELD,
        "stop": cancelled_pending(),
        "hold": becomes("Pending/AdminHeld", hold=3),
        "release": SAME,
        "requeue": PEND,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": CEASED,
    },
    "R": {
        "open": SAME,
        "stop": ends("Cancelled/Stopped"),
        "hold": RUN,
        "release": SAME,
        "requeue": requeued(cause=REQUEUED, process=DIES),
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": LIVING,
    },
    "L": {
        "open": SAME,
        "stop": ends("Cancelled/Stopped", process=LIVES),
        "hold": RUN,
        "release": SAME,
        "requeue": requeued(cause=REQUEUED, process=LIVES),
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": LIVING,
    },
    "X-s.kw": {
        "open": SAME,
        "stop": SAME,
        "hold": RUN,
        "release": SAME,
        "requeue": RUN,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": LIVING,
    },
    "X-p.kw": {
        "open": SAME,
        "stop": ending("Running/Stopped", STOPPED),
        "hold": RUN,
        "release": SAME,
        "requeue": RUN,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": LIVING,
    },
    "X-r.kw": {
        "open": SAME,
        "stop": ending("Running/Stopped", STOPPED),
        "hold": RUN,
        "release": SAME,
        "requeue": RUN,
        "requeue.crash": CRASH,
        "restore_requeue_bit": SAME,
        "cessation": LIVING,
    },
    "E": {
        "open": FIN,
        "stop": SAME,
        "hold": FIN,
        "release": FIN,
        "requeue": requeued(),
        "requeue.crash": CRASH,
        "restore_requeue_bit": FIN,
        "cessation": CEASED,
    },
    "F": {
        "open": NF,
        "stop": NF,
        "hold": NF,
        "release": NF,
        "requeue": NF,
        "requeue.crash": NF,
        "restore_requeue_bit": NF,
        "cessation": NF,
    },
}
SPI.update(
    {
        "G+bit": plus(SPI["G"], {"restore_requeue_bit": BIT_OFF}),
        "G+hold": plus(SPI["G"], {"open": becomes("Pending/Held", gated=False), **held_cells()}),
        "P+bit": plus(SPI["P"], {"restore_requeue_bit": BIT_OFF}),
        "P+full": SPI["P"],
        "P+again": plus(SPI["P"], {"stop": cancelled_pending(ran=True)}),
        "P+lost": plus(SPI["P"], {"stop": cancelled_pending(ran=True), "cessation": LIVING}),
        "H+bit": plus(SPI["H"], {"restore_requeue_bit": BIT_OFF}),
        "H+again": plus(SPI["H"], {"stop": cancelled_pending(ran=True), **held_cells("Pending/Requeued")}),
        "H+carried": plus(SPI["H"], held_cells("Pending/Requeued")),
        "H+lost": plus(
            SPI["H"],
            {"stop": cancelled_pending(ran=True), "cessation": LIVING, **held_cells("Pending/Requeued")},
        ),
        "A+gate": SPI["A"],
        "A+hold": plus(SPI["A"], held_cells()),
        "A+gate+hold": plus(SPI["A"], held_cells()),
        "A+bit": plus(SPI["A"], {"restore_requeue_bit": BIT_OFF}),
        "A+again": plus(SPI["A"], {"stop": cancelled_pending(ran=True)}),
        "A+lost": plus(SPI["A"], {"stop": cancelled_pending(ran=True), "cessation": LIVING}),
        "R.kw": plus(
            SPI["R"],
            {"stop": ending("Running/Stopped", STOPPED), "requeue": ending("Running/Requeued", REQUEUED)},
        ),
        "L.kw": plus(
            SPI["L"],
            {"stop": ending("Running/Stopped", STOPPED), "requeue": ending("Running/Requeued", REQUEUED)},
        ),
    }
)
ROWS.update({"R.kw": ROWS["R"], "L.kw": ROWS["L"]})
for name in ("R+bit", "R+admin", "R+bit+admin", "L+bit", "L+fenced"):
    ROWS[f"{name}.kw"] = ROWS[name]
SPI.update(
    {
        "R+bit": plus(SPI["R"], {"restore_requeue_bit": BIT_OFF}),
        "R+bit.kw": plus(SPI["R.kw"], {"restore_requeue_bit": BIT_OFF}),
        "R+admin": plus(
            SPI["R"],
            {"open": HELD, "requeue": requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES)},
        ),
        "R+admin.kw": plus(SPI["R.kw"], {"open": HELD}),
        "R+bit+admin": plus(
            SPI["R"],
            {
                "open": HELD,
                "requeue": requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES),
                "restore_requeue_bit": BIT_OFF,
            },
        ),
        "R+bit+admin.kw": plus(SPI["R.kw"], {"open": HELD, "restore_requeue_bit": BIT_OFF}),
        "R+again": SPI["R"],
        "R+older": SPI["R"],
        "L+bit": plus(SPI["L"], {"restore_requeue_bit": BIT_OFF}),
        "L+bit.kw": plus(SPI["L.kw"], {"restore_requeue_bit": BIT_OFF}),
        "L+admin": plus(
            SPI["L"],
            {"open": HELD, "requeue": requeued("Pending/AdminHeld", cause=REQUEUED, process=LIVES)},
        ),
        "L+fenced": plus(SPI["L"], {"cessation": CEASED}),
        "L+fenced.kw": plus(SPI["L.kw"], {"cessation": CEASED}),
        "L+fenced+bit": plus(SPI["L"], {"cessation": CEASED, "restore_requeue_bit": BIT_OFF}),
        "L+dead": plus(SPI["L"], {"cessation": DECLARED}),
        "X-s+bit.kw": plus(SPI["X-s.kw"], {"restore_requeue_bit": BIT_OFF}),
        "X-s+admin.kw": plus(SPI["X-s.kw"], {"open": HELD}),
        "X-s+lost.kw": SPI["X-s.kw"],
        "X-s+fenced.kw": plus(SPI["X-s.kw"], {"cessation": CEASED}),
        "X-s+dead.kw": plus(SPI["X-s.kw"], {"cessation": DECLARED}),
        "X-s+older.kw": SPI["X-s.kw"],
        "X-p+bit.kw": plus(SPI["X-p.kw"], {"restore_requeue_bit": BIT_OFF}),
        "X-p+admin.kw": plus(SPI["X-p.kw"], {"open": HELD}),
        "X-p+lost.kw": SPI["X-p.kw"],
        "X-p+fenced.kw": plus(SPI["X-p.kw"], {"cessation": CEASED}),
        "X-r+admin.kw": plus(SPI["X-r.kw"], {"open": HELD}),
        "X-r+lost.kw": SPI["X-r.kw"],
        "X-r+fenced.kw": plus(SPI["X-r.kw"], {"cessation": CEASED}),
        "X-r+preempted.kw": plus(SPI["X-r.kw"], {"restore_requeue_bit": BIT_OFF}),
        "X-r+external.kw": plus(SPI["X-r.kw"], {"restore_requeue_bit": BIT_OFF}),
        "E+failed": SPI["E"],
        "E+bit": SPI["E"],  # a requeue leaves the bit on; restoring it is refused on an ended object
        "E+gate": SPI["E"],  # a requeue opens the gate
        "E+hold": plus(SPI["E"], {"requeue": requeued("Pending/Held"), "hold.higher": FIN, "release.lower": FIN}),
        "E+gate+hold": plus(SPI["E"], {"requeue": requeued("Pending/Held")}),
        "E+admin": plus(SPI["E"], {"requeue": requeued("Pending/AdminHeld")}),
        "E+admin+hold": plus(SPI["E"], {"requeue": requeued("Pending/AdminHeld")}),
        "E+lost": plus(SPI["E"], {"cessation": LIVING}),
        "E+fenced": SPI["E"],
        "E+dead": plus(SPI["E"], {"cessation": DECLARED}),
        "E+lost+hold": plus(SPI["E"], {"requeue": requeued("Pending/Held"), "cessation": LIVING}),
        "E+older": plus(SPI["E"], {"cessation": LIVING}),  # every execution counts (1.3)
        "F+history": SPI["F"],
        "F+lost": SPI["F"],
        "F+lost+history": SPI["F"],
        "F+hold": SPI["F"],
    }
)

# Section 2: the environment.
ADMIN_HELD = becomes("Pending/AdminHeld", truth=ADMIN, detail="")
ADMIN_ON, ADMIN_OFF = only_truth(admin_held=True), only_truth(admin_held=False)
KILLED = Then(truth={"node": "up"}, last=DIES)
FENCES = Then(truth={"node": "fenced"}, last=DIES)
OLDER_DIES = Then(older=DIES)


def released_to(text: str) -> Then:
    return becomes(text, truth={"admin_held": False})


ENV: dict[str, Cells] = {
    "G": {
        "run": WS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": WS,
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": ADMIN_HELD,
        "admin_release": SAME,
        "no_capacity": WS,
        "requeue_externally": WS,
    },
    "P": {
        "run": RUNS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": WS,
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": ADMIN_HELD,
        "admin_release": SAME,
        "no_capacity": becomes("Pending/NoCapacity", detail=FULL),
        "requeue_externally": WS,
    },
    "H": {
        "run": WS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": WS,
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": ADMIN_HELD,
        "admin_release": SAME,
        "no_capacity": WS,
        "requeue_externally": WS,
    },
    "A": {
        "run": WS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": WS,
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": SAME,
        "admin_release": released_to("Pending/None"),
        "no_capacity": WS,
        "requeue_externally": WS,
    },
    "R": {
        "run": WS,
        "finish.0": ends("Succeeded/None", exit_code=0),
        "finish.n": ends("Failed/NonZeroExit", exit_code=CODE),
        "out_of_memory": ends("Failed/OutOfMemory"),
        "time_out": ends("Failed/Timeout"),
        "fail_launch": ends("Failed/LaunchFailed"),
        "preempt": ends("Failed/Preempted"),
        "lose_node": only_truth(node="lost"),
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": ADMIN_ON,
        "admin_release": SAME,
        "no_capacity": WS,
        "requeue_externally": requeued(cause=REQUEUED, process=DIES, requeue_bit=True),
    },
    "L": {
        "run": WS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": ends("Failed/Preempted", process=LIVES),
        "lose_node": SAME,
        "return_node": only_truth(node="up"),
        "fence_node": FENCES,
        "admin_hold": ADMIN_ON,
        "admin_release": SAME,
        "no_capacity": WS,
        "requeue_externally": requeued(cause=REQUEUED, process=LIVES, requeue_bit=True),
    },
    "X-s.kw": {
        "run": WS,
        "finish.0": ends("Cancelled/Stopped", exit_code=0),
        "finish.n": ends("Cancelled/Stopped", exit_code=CODE),
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": only_truth(node="lost"),
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": ADMIN_ON,
        "admin_release": SAME,
        "no_capacity": WS,
        "requeue_externally": WS,
    },
    "E": {
        "run": WS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": WS,
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": WS,
        "admin_release": SAME,
        "no_capacity": WS,
        "requeue_externally": requeued(requeue_bit=True),
    },
    "F": {
        "run": NF,
        "finish.0": NF,
        "finish.n": NF,
        "out_of_memory": NF,
        "time_out": NF,
        "fail_launch": NF,
        "preempt": NF,
        "lose_node": NF,
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": NF,
        "admin_release": NF,
        "no_capacity": NF,
        "requeue_externally": NF,
    },
}
ENV.update(
    {
        "X-p.kw": plus(
            ENV["X-s.kw"],
            {
                "finish.0": ends("Failed/Preempted", exit_code=0),
                "finish.n": ends("Failed/Preempted", exit_code=CODE),
            },
        ),
        "X-r.kw": plus(
            ENV["X-s.kw"],
            {
                "finish.0": requeued(cause=REQUEUED, process=DIES, exit_code=0),
                "finish.n": requeued(cause=REQUEUED, process=DIES, exit_code=CODE),
            },
        ),
    }
)
OLDER_LOST: Cells = {"return_node": KILLED, "fence_node": FENCES}
ON_LOST: Cells = {"finish.0": WS, "finish.n": WS, "lose_node": SAME, "fence_node": FENCES}  # ruling 5
ON_FENCED: Cells = ON_LOST | {"fence_node": SAME}  # ruling 4
ENV.update(
    {
        "G+bit": ENV["G"],
        "G+hold": ENV["G"],
        "P+bit": ENV["P"],
        "P+full": plus(ENV["P"], {"no_capacity": SAME}),
        "P+again": ENV["P"],
        "P+lost": plus(ENV["P"], OLDER_LOST),
        "H+bit": ENV["H"],
        "H+again": ENV["H"],
        "H+carried": ENV["H"],
        "H+lost": plus(ENV["H"], OLDER_LOST),
        "A+gate": plus(ENV["A"], {"admin_release": released_to("Pending/Gated")}),
        "A+hold": plus(ENV["A"], {"admin_release": released_to("Pending/Held")}),
        "A+gate+hold": plus(ENV["A"], {"admin_release": released_to("Pending/Gated")}),
        "A+bit": ENV["A"],
        "A+again": plus(ENV["A"], {"admin_release": released_to("Pending/Requeued")}),
        "A+lost": plus(ENV["A"], {"admin_release": released_to("Pending/Requeued"), **OLDER_LOST}),
        "R.kw": plus(
            ENV["R"],
            {
                "preempt": ending("Running/Preempted", PREEMPTED),
                "requeue_externally": ending("Running/Requeued", REQUEUED, requeue_bit=True),
            },
        ),
        "R+bit": plus(ENV["R"], {"preempt": requeued(cause=PREEMPTED, process=DIES)}),
        "R+admin": plus(
            ENV["R"],
            {
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
                "requeue_externally": requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES, requeue_bit=True),
            },
        ),
        "R+bit+admin": plus(
            ENV["R"],
            {
                "preempt": requeued("Pending/AdminHeld", cause=PREEMPTED, process=DIES),
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
                "requeue_externally": requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES),
            },
        ),
        "R+again": ENV["R"],
        "R+older": plus(ENV["R"], {"return_node": OLDER_DIES, "fence_node": OLDER_DIES}),  # ruling 2
        "L.kw": plus(
            ENV["L"],
            {
                "preempt": ending("Running/Preempted", PREEMPTED),
                "requeue_externally": ending("Running/Requeued", REQUEUED, requeue_bit=True),
            },
        ),
        "L+bit": plus(ENV["L"], {"preempt": requeued(cause=PREEMPTED, process=LIVES)}),
        "L+admin": plus(
            ENV["L"],
            {
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
                "requeue_externally": requeued("Pending/AdminHeld", cause=REQUEUED, process=LIVES, requeue_bit=True),
            },
        ),
        "L+fenced": plus(
            ENV["L"],
            {"return_node": ends("Failed/NodeLost", process=LIVES, truth={"node": "up"}), "fence_node": SAME},
        ),
        "L+fenced+bit": plus(
            ENV["L"],
            {
                "preempt": requeued(cause=PREEMPTED, process=LIVES),
                "return_node": requeued(cause=NODE_LOST, process=LIVES, truth={"node": "up"}),
                "fence_node": SAME,
            },
        ),
        "L+dead": plus(
            ENV["L"],
            {
                "return_node": ends("Failed/NodeLost", process=LIVES, truth={"node": "up"}),
                "fence_node": only_truth(node="fenced"),  # it was dead before
            },
        ),
    }
)
ENV.update(
    {
        "R+bit.kw": plus(ENV["R.kw"], {"preempt": ending("Running/Requeued", PREEMPTED)}),
        "R+admin.kw": plus(ENV["R.kw"], {"admin_hold": SAME, "admin_release": ADMIN_OFF}),
        "R+bit+admin.kw": plus(
            ENV["R.kw"],
            {
                "preempt": ending("Running/Requeued", PREEMPTED),
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
            },
        ),
        "L+bit.kw": plus(ENV["L.kw"], {"preempt": ending("Running/Requeued", PREEMPTED)}),
        "L+fenced.kw": plus(
            ENV["L.kw"],
            {"return_node": ends("Failed/NodeLost", process=LIVES, truth={"node": "up"}), "fence_node": SAME},
        ),
        "X-s+bit.kw": ENV["X-s.kw"],
        "X-s+admin.kw": plus(ENV["X-s.kw"], {"admin_hold": SAME, "admin_release": ADMIN_OFF}),
        "X-s+lost.kw": plus(ENV["X-s.kw"], ON_LOST | {"return_node": ends("Cancelled/Stopped", truth={"node": "up"})}),
        "X-s+fenced.kw": plus(  # ruling 6
            ENV["X-s.kw"],
            ON_FENCED | {"return_node": ends("Cancelled/Stopped", process=LIVES, truth={"node": "up"})},
        ),
        "X-s+dead.kw": plus(
            ENV["X-s.kw"],
            ON_LOST
            | {
                "return_node": ends("Cancelled/Stopped", process=LIVES, truth={"node": "up"}),
                "fence_node": only_truth(node="fenced"),
            },
        ),
        "X-s+older.kw": plus(ENV["X-s.kw"], {"return_node": OLDER_DIES, "fence_node": OLDER_DIES}),
        "X-p+bit.kw": ENV["X-p.kw"],  # the bit of a preemption was read at the preemption
        "X-p+admin.kw": plus(ENV["X-p.kw"], {"admin_hold": SAME, "admin_release": ADMIN_OFF}),
        "X-p+lost.kw": plus(ENV["X-p.kw"], ON_LOST | {"return_node": ends("Failed/Preempted", truth={"node": "up"})}),
        "X-p+fenced.kw": plus(
            ENV["X-p.kw"],
            ON_FENCED | {"return_node": ends("Failed/Preempted", process=LIVES, truth={"node": "up"})},
        ),
        "X-r+admin.kw": plus(
            ENV["X-r.kw"],
            {
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
                "finish.0": requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES, exit_code=0),
                "finish.n": requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES, exit_code=CODE),
            },
        ),
        "X-r+lost.kw": plus(
            ENV["X-r.kw"],
            ON_LOST | {"return_node": requeued(cause=REQUEUED, process=DIES, truth={"node": "up"})},
        ),
        "X-r+fenced.kw": plus(
            ENV["X-r.kw"],
            ON_FENCED | {"return_node": requeued(cause=REQUEUED, process=LIVES, truth={"node": "up"})},
        ),
        "X-r+preempted.kw": plus(  # the execution's own cause is Preempted (SL-10)
            ENV["X-r.kw"],
            {
                "finish.0": requeued(cause=PREEMPTED, process=DIES, exit_code=0),
                "finish.n": requeued(cause=PREEMPTED, process=DIES, exit_code=CODE),
            },
        ),
        "X-r+external.kw": ENV["X-r.kw"],
        "E+failed": ENV["E"],
        "E+bit": ENV["E"],
        "E+gate": ENV["E"],
        "E+hold": plus(ENV["E"], {"requeue_externally": requeued("Pending/Held", requeue_bit=True)}),
        "E+gate+hold": plus(ENV["E"], {"requeue_externally": requeued("Pending/Held", requeue_bit=True)}),
        "E+admin": plus(
            ENV["E"],
            {
                "admin_release": ADMIN_OFF,
                "requeue_externally": requeued("Pending/AdminHeld", requeue_bit=True),
            },
        ),
        "E+admin+hold": plus(
            ENV["E"],
            {
                "admin_release": ADMIN_OFF,
                "requeue_externally": requeued("Pending/AdminHeld", requeue_bit=True),
            },
        ),
        "E+lost": plus(ENV["E"], {"return_node": KILLED, "fence_node": FENCES}),
        "E+fenced": plus(ENV["E"], {"return_node": only_truth(node="up"), "fence_node": SAME}),
        "E+dead": plus(ENV["E"], {"return_node": only_truth(node="up"), "fence_node": only_truth(node="fenced")}),
        "E+lost+hold": plus(
            ENV["E"],
            {
                "return_node": KILLED,
                "fence_node": FENCES,
                "requeue_externally": requeued("Pending/Held", requeue_bit=True),
            },
        ),
        "E+older": plus(ENV["E"], {"return_node": OLDER_DIES, "fence_node": OLDER_DIES}),
        "F+history": ENV["F"],
        "F+lost": plus(ENV["F"], {"return_node": KILLED, "fence_node": FENCES}),
        "F+lost+history": plus(ENV["F"], {"return_node": KILLED, "fence_node": FENCES}),
        "F+hold": ENV["F"],
    }
)

# `deactivate_externally`, `reactivate_externally`: WrongState in every row but F.
for name, columns in ENV.items():
    kubeflow_only = NF if name.startswith("F") else WS
    columns.update(deactivate_externally=kubeflow_only, reactivate_externally=kubeflow_only)


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both loops, as everywhere; but one of each for the whole table."""
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
async def one_loop(anyio_backend: str) -> AsyncIterator[str]:
    """While this fixture lives the loop does: starting one for every cell would cost more than the cell."""
    yield anyio_backend  # noqa: PT022 - what comes after it is the teardown of the loop


def test_no_cell_is_missing() -> None:
    assert set(SPI) == set(ENV) == set(ROWS)
    for name in ROWS:
        for plain, table in ((SPI["G"], SPI), (ENV["G"], ENV)):
            here = {column.partition(".")[0] for column in table[name]}
            assert here == {column.partition(".")[0] for column in plain}, name
    assert {word for word in CALLS if word not in SPI["H"] | SPI["G"] | ENV["G"]} == set()


@pytest.mark.parametrize("name", ROWS)
async def test_row(name: str) -> None:
    """Transition table, section 1: the conditions, and what every read says of them (TM-6, SL-3, SL-6, SL-12)."""
    await check_row(S, name, ROWS[name])


@pytest.mark.parametrize(("name", "column", "then"), cells(SPI))
async def test_spi(name: str, column: str, then: Then) -> None:
    """Transition table, section 1 (SL-3, SL-4, SL-5, SL-6, SL-7, SL-8, SL-9, SL-12, SL-14, WA-2)."""
    await check_cell(S, name, ROWS[name], column, then)


@pytest.mark.parametrize(("name", "column", "then"), cells(ENV))
async def test_env(name: str, column: str, then: Then) -> None:
    """Transition table, section 2 (SL-7, SL-10, SL-11, SL-13, SL-14, 2.7)."""
    await check_cell(S, name, ROWS[name], column, then)


KW = {"kill_wait": KILL_WAIT}
HISTORY = {"capabilities": {"AccountingHistory": {"value": "yes", "source": "probed"}}}
SHORT_TIMEOUT = KW | {"slurmd_timeout": timedelta(seconds=30)}

# "By the clock" under section 2. The seconds count from the last word.
CLOCK: dict[str, Later] = {
    "X-s": Later(given="start open run stop", settings=KW, due=60, then=ends("Cancelled/Stopped")),
    "X-p": Later(given="start open run preempt", settings=KW, due=60, then=ends("Failed/Preempted")),
    "X-r": Later(
        given="start open run requeue",
        settings=KW,
        due=60,
        then=requeued(cause=REQUEUED, process=DIES),
    ),
    "X-r+preempted": Later(
        given="start:requeue open run preempt",
        settings=KW,
        due=60,
        then=requeued(cause=PREEMPTED, process=DIES),
    ),
    "X-r+external": Later(
        given="start open run requeue_externally",
        settings=KW,
        due=60,
        then=requeued(cause=REQUEUED, process=DIES),
    ),
    "X-r+admin": Later(
        given="start open run requeue admin_hold",
        settings=KW,
        due=50,
        then=requeued("Pending/AdminHeld", cause=REQUEUED, process=DIES),
    ),
    # SL-14: a stop takes over at the same moment, no restart counted; the timer is not restarted.
    "X-p to X-s": Later(given="start open run preempt stop", settings=KW, due=50, then=ends("Cancelled/Stopped")),
    "X-r to X-s": Later(given="start open run requeue stop", settings=KW, due=50, then=ends("Cancelled/Stopped")),
    "X-s again": Later(given="start open run stop stop", settings=KW, due=50, then=ends("Cancelled/Stopped")),
    # The bit of a preemption is read at `preempt`: what becomes of it later is of no matter.
    "X-r bit off": Later(
        given="start:requeue open run preempt restore_requeue_bit",
        settings=KW,
        due=50,
        then=requeued(cause=PREEMPTED, process=DIES),
    ),
    "X-p bit on": Later(given="start open run preempt crash", settings=KW, due=50, then=ends("Failed/Preempted")),
    # The ending goes on in time; a process on a lost node lives on, a fenced one stays dead.
    "X-s+lost": Later(
        given="start open run stop lose_node",
        settings=KW,
        due=50,
        then=ends("Cancelled/Stopped", process=LIVES),
    ),
    "X-p+lost": Later(
        given="start open run lose_node preempt",
        settings=KW,
        due=60,
        then=ends("Failed/Preempted", process=LIVES),
    ),
    "X-r+lost": Later(
        given="start open run requeue lose_node",
        settings=KW,
        due=50,
        then=requeued(cause=REQUEUED, process=LIVES),
    ),
    "X-s+fenced": Later(
        given="start open run stop lose_node fence_node",
        settings=KW,
        due=40,
        then=ends("Cancelled/Stopped", process=LIVES),
    ),
    # An object that is ending ignores the node's timeout, which has passed by then.
    "X-s+timeout": Later(
        given="start open run stop lose_node",
        settings=SHORT_TIMEOUT,
        due=50,
        then=ends("Cancelled/Stopped", process=LIVES),
    ),
    "X-s after L": Later(
        given="start open run lose_node stop",
        settings=SHORT_TIMEOUT,
        due=60,
        then=ends("Cancelled/Stopped", process=LIVES),
    ),
    "X-r after L": Later(
        given="start open run lose_node requeue",
        settings=SHORT_TIMEOUT,
        due=60,
        then=requeued(cause=REQUEUED, process=LIVES),
    ),
    # L at lost + slurmd_timeout; the bit is read then.
    "L": Later(given="start open run lose_node", due=AGE, then=ends("Failed/NodeLost", process=LIVES)),
    "L.kw": Later(
        given="start open run lose_node",
        settings=KW,
        due=AGE,
        then=ends("Failed/NodeLost", process=LIVES),
    ),
    "L+bit": Later(given="start:requeue open run lose_node", due=AGE, then=requeued(cause=NODE_LOST, process=LIVES)),
    "L bit on": Later(
        given="start open run lose_node crash",
        due=AGE - 10,
        then=requeued(cause=NODE_LOST, process=LIVES),
    ),
    "L bit off": Later(
        given="start:requeue open run lose_node restore_requeue_bit",
        due=AGE - 10,
        then=ends("Failed/NodeLost", process=LIVES),
    ),
    "L+bit+admin": Later(
        given="start:requeue open run admin_hold lose_node",
        due=AGE,
        then=requeued("Pending/AdminHeld", cause=NODE_LOST, process=LIVES),
    ),
    "L+fenced": Later(
        given="start open run lose_node fence_node",
        due=AGE - 10,
        then=ends("Failed/NodeLost", process=LIVES),
    ),
    "L+dead": Later(
        given="start open run lose_node",
        settings=DEAD_AT_LOSS,
        due=AGE,
        then=ends("Failed/NodeLost", process=LIVES),
    ),
    "L lost twice": Later(  # losing it again changes nothing, the timer neither
        given="start open run lose_node lose_node",
        due=AGE - 10,
        then=ends("Failed/NodeLost", process=LIVES),
    ),
    "L lost anew": Later(  # it came back: the second loss has its own timeout
        given="start open run lose_node return_node lose_node",
        due=AGE,
        then=ends("Failed/NodeLost", process=LIVES),
    ),
    # E at ended_at + min_job_age: watchers see Gone with the last cause.
    "E": Later(given="start open run finish:0", due=AGE, then=Then(forgotten=True)),
    "E+failed": Later(given="start open run finish:3", due=AGE, then=Then(forgotten=True)),
    "E+hold": Later(given="start hold:3 stop", due=AGE, then=Then(forgotten=True)),
    "E+history": Later(
        given="start open run finish:3",
        settings=HISTORY,
        due=AGE,
        then=Then(forgotten=True),
        history=True,
    ),
    "E+lost": Later(  # ended at the timeout, not at the loss
        given="start open run lose_node wait:300", due=AGE, then=Then(forgotten=True)
    ),
    "E+requeued": Later(  # the age counts from the last end
        given="start open run finish:3 requeue run finish:0", due=AGE, then=Then(forgotten=True)
    ),
}


@pytest.mark.parametrize("late", [0, 7.25], ids=["in time", "late"])
@pytest.mark.parametrize("name", CLOCK)
async def test_by_the_clock(name: str, late: float) -> None:
    """Transition table, section 2, "By the clock" (TM-2, SL-11, SL-12, SL-14)."""
    await check_later(S, CLOCK[name], late=late)


async def test_by_the_clock_requeued_objects_are_not_forgotten() -> None:
    """SL-12: the age is an ended object's; one that was requeued before is due for nothing."""
    world = World(S)
    await world.given("start open run finish:3 requeue wait:10000")
    before = await world.look()
    assert before.seen is not None
    assert before.seen["state"] is State.PENDING


async def test_by_the_clock_a_node_that_came_back_ends_nothing() -> None:
    """SL-11: after the return the old loss's timeout is void."""
    world = World(S)
    await world.given("start open run lose_node return_node wait:10000")
    look = await world.look()
    assert look.seen is not None
    assert look.seen["state"] is State.RUNNING
    assert look.truth["node"] == "up"


async def test_by_the_clock_min_job_age_of_zero_never_forgets() -> None:
    """2.1, transition table section 0: the one delay of zero that does not act."""
    world = World(S, min_job_age=timedelta(0))
    await world.given("start open run finish:0")
    before = await world.look()
    world.clock.advance(timedelta(days=4000))
    same(await world.look(), world.expect(before, SAME, world.clock.now)[0])


@pytest.mark.parametrize("bit", [False, True], ids=["bit off", "bit on"])
async def test_by_the_clock_slurmd_timeout_of_zero_acts_in_the_same_call(bit: bool) -> None:
    """Transition table section 0: a delay of zero acts in the same call; one call tells one observation (WA-2)."""
    world = World(S, slurmd_timeout=timedelta(0))
    await world.given("start:requeue open run" if bit else "start open run")
    world.clock.advance(STEP)
    before = await world.look()
    then = requeued(cause=NODE_LOST, truth=LOST) if bit else ends("Failed/NodeLost", process=LIVES, truth=LOST)
    told = await world.told_by(lambda: world.call("lose_node"))
    wanted, expected = world.expect(before, then, world.clock.now)
    same(await world.look(), wanted)
    assert told == expected


async def test_by_the_clock_what_is_due_cascades() -> None:
    """TM-2: a lost node at T, forgotten at T + age: both in one call, in order, each with its due moment."""
    world = World(S)
    await world.given("start open run lose_node")
    lost = world.clock.now
    before = await world.look()

    async def act() -> None:
        world.clock.advance(timedelta(hours=1))
        with pytest.raises(NotFoundError):
            await world.b.get(world.ref)

    told = await world.told_by(act)
    ended = {
        **(before.seen or {}),
        "state": State.FAILED,
        "cause": NODE_LOST,
        "ended_at": lost + 5 * MINUTE,
        "observed_at": world.clock.now,
    }
    assert told == [ended, {**ended, "state": State.GONE}]
    truth = await world.b.env.truth(world.ref)
    assert truth.gone_at == lost + 10 * MINUTE
    assert (truth.state, truth.cause, truth.node) == (State.FAILED, NODE_LOST, "lost")
    assert [(run.alive, run.ended_at, run.cause) for run in truth.executions] == [(True, None, NODE_LOST)]


async def test_by_the_clock_an_ending_cascades_into_forgetting() -> None:
    """TM-2, SL-14: the end at told + kill_wait is what the age is counted from."""
    world = World(S, kill_wait=KILL_WAIT)
    await world.given("start open run stop")
    stopped = world.clock.now

    async def act() -> None:
        world.clock.now = stopped + KILL_WAIT + 5 * MINUTE
        with pytest.raises(NotFoundError):
            await world.b.get(world.ref)

    told = await world.told_by(act)
    assert [(one["state"], one["cause"], one["ended_at"]) for one in told] == [
        (State.CANCELLED, STOPPED, stopped + KILL_WAIT),
        (State.GONE, STOPPED, stopped + KILL_WAIT),
    ]
    assert (await world.b.env.truth(world.ref)).gone_at == stopped + KILL_WAIT + 5 * MINUTE


@pytest.mark.parametrize("first", [0, 1])
async def test_by_the_clock_in_order_of_due_time_then_of_start(first: int) -> None:
    """TM-2: due things happen in order of due time, then of `start`, whatever the order of the calls was."""
    world = World(S, kill_wait=KILL_WAIT)
    b, env = world.b, world.b.env
    refs = [await b.start(job(number), 1) for number in (1, 2, 3)]
    for ref in refs:
        await b.open(ref)
        await env.run(ref)
    # Objects 1 and 2 are told to end at the same moment, object 3 a second before them.
    await b.stop(refs[2])
    world.clock.advance(SECOND)
    await b.stop(refs[first])
    await b.stop(refs[1 - first])

    async def act() -> None:
        world.clock.advance(timedelta(minutes=2))
        await b.get(refs[0])

    told = await world.told_by(act)
    assert [one["ref"] for one in told] == [refs[2], refs[0], refs[1]]


async def test_by_the_clock_what_was_settled_stays_when_the_act_is_refused() -> None:
    """TM-2, section 0: a refused call changes nothing; what was due was still settled, and told."""
    world = World(S, kill_wait=KILL_WAIT)
    await world.given("start open run stop")
    before = await world.look()
    due = world.clock.now + KILL_WAIT
    outcomes: list[tuple[object, object]] = []

    async def act() -> None:
        world.clock.now = due + SECOND
        outcomes.append(await world.outcome("hold:3"))

    told = await world.told_by(act)
    ((_, error),) = outcomes
    assert type(error) is FinishedError
    wanted, expected = world.expect(before, ends("Cancelled/Stopped"), due)
    same(await world.look(), wanted)
    assert told == expected


# The bullets under section 1.


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith("F")])
async def test_crash_between_steps_then_restored(name: str) -> None:
    """SL-8, SL-9: after the crash the bit is set, and what `restore_requeue_bit` says is the row's."""
    world = await reach(S, name, ROWS[name])
    await world.outcome("crash")
    before = await world.look()
    then = FIN if name.startswith("E") else BIT_OFF
    _, error = await world.outcome("restore_requeue_bit")
    assert type(error) is (then.error or type(None))
    same(await world.look(), world.expect(before, then, world.clock.now)[0])


async def test_requeue_leaves_the_old_exact_ref_without_a_match() -> None:
    """SL-7: the old exact ref stops matching, the weak one goes on."""
    world = World(S)
    await world.given("start open run finish:3")
    old = world.ref
    await world.given("requeue")
    with pytest.raises(NotFoundError):
        await world.b.get(old)
    with pytest.raises(NotFoundError):
        await world.b.stop(old)
    assert (await world.b.get(world.weak)).ref != old


async def test_requeue_within_the_same_second_leaves_the_ref_equal() -> None:
    """SL-7: `submit now` is the clock cut to the second, so here the ref goes on matching."""
    world = World(S)
    ref = await world.start()
    await world.b.open(ref)
    await world.b.env.run(ref)
    world.clock.advance(0.25)
    await world.b.requeue(ref, CallMeta(deadline=FAR))
    observation = await world.b.get(ref)
    assert (observation.ref, observation.restarts, observation.cause) == (ref, 1, REQUEUED)


@pytest.mark.parametrize("words", ["start open run", "start:requeue open run"])
async def test_requeue_leaves_the_bit_as_it_was(words: str) -> None:
    """SL-8: set, requeue, restore to what it was, and none of the inner steps is told (WA-2)."""
    world = World(S)
    await world.given(words)
    before = await world.look()
    told = await world.told_by(lambda: world.call("requeue"))
    after = await world.look()
    assert before.seen is not None
    assert after.seen is not None
    assert before.seen["requeue_bit"] == after.seen["requeue_bit"]
    assert len(told) == 1


@pytest.mark.parametrize("bit", [False, True], ids=["bit off", "bit on"])
async def test_start_is_gated(bit: bool) -> None:
    """SL-1, SL-3, NP-2: told as Pending/Gated, the bit as `native` says."""
    world = World(S)
    told = await world.told_by(lambda: world.call("start:requeue" if bit else "start"))
    assert [(one["state"], one["cause"], one["gated"], one["requeue_bit"]) for one in told] == [
        (State.PENDING, Cause.GATED, True, bit)
    ]
    assert told[0]["ref"] == world.ref
    assert world.ref.name == f"dj-{world.job.id}"


async def test_start_when_every_id_is_remembered() -> None:
    """SL-2: `start` is UnavailableError and uses up no id; one forgotten frees its id."""
    world = World(S, max_job_id=2)
    first = await world.start()
    await world.b.start(world.job, 2)
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await world.b.start(world.job, 3)
    await world.b.stop(first)
    with pytest.raises(UnavailableError):
        await world.b.start(world.job, 3)
    world.clock.advance(5 * MINUTE)
    assert (await world.b.start(world.job, 3)).id == "1"
    assert len(await world.b.env.objects()) == 3


async def test_ids_pass_over_those_still_remembered() -> None:
    """SL-2, 2.1: ids run 1 … max, then from 1 again, passing over ids still remembered."""
    world = World(S, max_job_id=3)
    refs = [await world.b.start(job(number), 1) for number in (1, 2, 3)]
    assert [ref.id for ref in refs] == ["1", "2", "3"]
    await world.b.stop(refs[1])
    world.clock.advance(5 * MINUTE)
    assert (await world.b.start(job(4), 1)).id == "2"


async def test_find_lists_history_and_present_in_order_of_start() -> None:
    """SL-1, SL-12, transition table section 1: names repeat; one list, by order of `start`."""
    for settings, expected in (
        (HISTORY, [(1, False), (2, True), (3, False)]),
        ({}, [(1, False), (3, False)]),
    ):
        world = World(S, **settings)
        b = world.b
        await b.start(world.job, 1)
        gone = await b.start(world.job, 2)
        await b.start(world.job, 3)
        await b.stop(gone)
        world.clock.advance(5 * MINUTE)
        found = await b.find(world.job.id)
        assert [(one.submission, one.from_history) for one in found] == expected
        assert (await b.find_many([world.job.id, job(2).id])) == {world.job.id: found, job(2).id: ()}


async def test_a_weak_ref_that_matches_history_and_present_is_ambiguous() -> None:
    """SL-2: over remembered objects and, with AccountingHistory, history."""
    for settings, ambiguous in ((HISTORY, True), ({}, False)):
        world = World(S, max_job_id=1, **settings)
        ref = await world.start()
        await world.b.stop(ref)
        world.clock.advance(5 * MINUTE)
        again = await world.start()
        assert again.id == ref.id
        if ambiguous:
            with pytest.raises(AmbiguousError):
                await world.b.get(world.weak)
        else:
            assert (await world.b.get(world.weak)).ref == again
        assert (await world.b.get(again)).from_history is False


@pytest.mark.parametrize("name", ["G", "R", "E", "F", "F+history"])
@pytest.mark.parametrize(
    "column", ["open", "stop", "hold", "release", "requeue", "requeue.crash", "restore_requeue_bit"]
)
async def test_writes_take_no_weak_ref(name: str, column: str) -> None:
    """1.3: a weak ref on a write is InvalidError, before anything that the row would say; nothing is told."""
    world = await reach(S, name, ROWS[name])
    before = await world.look()
    outcomes: list[tuple[object, object]] = []

    async def act() -> None:
        outcomes.append(await world.outcome(CALLS.get(column, column), weak=True))

    assert await world.told_by(act) == []
    ((_, error),) = outcomes
    assert type(error) is InvalidError
    same(await world.look(), before)


@pytest.mark.parametrize("name", ["P", "R", "L", "E+lost", "F+lost", "R+older", "A"])
@pytest.mark.parametrize("column", ENV["G"])
async def test_env_takes_weak_refs(name: str, column: str) -> None:
    """2.7: the environment's calls take exact and weak refs: the cell is the same."""
    world = await reach(S, name, ROWS[name])
    before = await world.look()
    _, error = await world.outcome(CALLS.get(column, column), weak=True)
    then = ENV[name][column]
    assert type(error) is (then.error or type(None))
    same(await world.look(), world.expect(before, then, world.clock.now)[0])


async def test_cessation_reads_by_weak_ref_and_by_job() -> None:
    """1.3: a job's cessation looks at every execution of every object, forgotten and never seen ones included."""
    world = World(S)
    await world.given("start open run lose_node stop")
    b = world.b
    for what in (world.ref, world.weak, world.job.id):
        assert await b.cessation(what) == Cessation(ceased=False, detail=CONFIGURED)
    world.clock.advance(5 * MINUTE)
    with pytest.raises(NotFoundError):
        await b.cessation(world.ref)
    assert await b.cessation(world.job.id) == Cessation(ceased=False, detail=CONFIGURED)
    await b.env.fence_node(world.ref)
    assert await b.cessation(world.job.id) == Cessation(ceased=True)
    assert await b.cessation(job(2).id) == Cessation(ceased=True)


async def test_older_executions_count_until_each_has_ceased() -> None:
    """1.3, 02b: with several executions it is ceased when each one is."""
    world = World(S)
    await world.given("start open run lose_node requeue run finish:0")
    assert await world.b.cessation(world.ref) == Cessation(ceased=False, detail=CONFIGURED)
    await world.b.env.return_node(world.ref)
    assert await world.b.cessation(world.ref) == Cessation(ceased=True)


# Section 0.


async def test_pending_shows_the_first_cause_that_applies() -> None:
    """Section 0, TM-6: AdminHeld > Gated > Held > base cause > None, as one after the other is taken away."""
    world = World(S)
    await world.given("start hold:3 admin_hold")
    seen: list[Cause | None] = []

    async def note() -> None:
        seen.append((await world.b.get(world.weak)).cause)

    await note()
    for word in ("admin_release", "open", "release:3", "no_capacity"):
        await world.given(word)
        await note()
    assert seen == [Cause.ADMIN_HELD, Cause.GATED, Cause.HELD, None, Cause.NO_CAPACITY]


async def test_the_base_cause_is_the_last_written_and_run_clears_it() -> None:
    """Section 0: Requeued, then NoCapacity in its place; `run` clears it, so a hold released later shows None."""
    world = World(S)
    await world.given("start open run requeue")
    assert (await world.b.get(world.weak)).cause is REQUEUED
    await world.given("no_capacity")
    assert (await world.b.get(world.weak)).cause is Cause.NO_CAPACITY
    await world.given("hold:3 release:3")
    assert (await world.b.get(world.weak)).cause is Cause.NO_CAPACITY
    await world.given("run")
    assert (await world.b.get(world.weak)).cause is None
    await world.given("requeue")
    assert (await world.b.get(world.weak)).cause is REQUEUED


async def test_restarts_count_up_and_name_the_epoch() -> None:
    """SL-13: `restarts` shown and the epoch's R are the same number, whoever requeued."""
    world = World(S)
    await world.given("start:requeue open run requeue run preempt run requeue_externally run finish:0 requeue run")
    look = await world.look()
    assert look.seen is not None
    assert look.seen["restarts"] == 4
    assert [run["epoch"] for run in look.runs] == [1_000_000, 1_000_001, 1_000_002, 1_000_003, 1_000_004]


async def test_after_a_release_any_instance_may_be_set() -> None:
    """SL-6: also a lower one than was in force."""
    world = World(S)
    await world.given("start open hold:3 release:3 hold:2")
    assert (await world.b.get(world.ref)).hold == 2


async def test_a_hold_never_lapses_by_the_clock() -> None:
    """SL-6: it survives `open`, and any length of time; nothing the scheduler does runs the object."""
    world = World(S)
    await world.given("start hold:3 open")
    world.clock.advance(timedelta(days=10_000))
    observation = await world.b.get(world.ref)
    assert (observation.cause, observation.hold) == (Cause.HELD, 3)
    with pytest.raises(WrongStateError):
        await world.b.env.run(world.ref)


async def test_a_carried_hold_is_lifted_after_the_requeue() -> None:
    """SL-6, SL-7: on the ended object `release` is refused; once requeued it lifts what was carried."""
    world = World(S)
    await world.given("start open hold:3 stop")
    with pytest.raises(FinishedError):
        await world.call("release:3")
    await world.given("requeue release:3")
    observation = await world.b.get(world.ref)
    assert (observation.cause, observation.hold) == (REQUEUED, None)


async def test_ending_hold_and_requeue_are_refused_and_the_bit_restored() -> None:
    """SL-14: while ending, `requeue` and `hold` are RunningError, the bit as it was, nothing told."""
    world = World(S, kill_wait=KILL_WAIT)
    await world.given("start:requeue open run preempt")
    before = await world.look()

    async def act() -> None:
        with pytest.raises(RunningError):
            await world.call("requeue")
        with pytest.raises(RunningError):
            await world.call("hold:3")

    assert await world.told_by(act) == []
    same(await world.look(), before)


async def test_observations_of_the_stop_before_it_ever_ran() -> None:
    """Section 0: an object cancelled before it ever ran has no `started_at`; only its end."""
    world = World(S)
    await world.given("start stop")
    observation = await world.b.get(world.ref)
    assert fields(observation, OBSERVED)["started_at"] is None
    assert observation.ended_at == world.clock.now
