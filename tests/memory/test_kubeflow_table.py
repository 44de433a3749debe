"""The Kubeflow half of the transition table (sections 3 and 4): every row times every column, one item a cell.

It is built like the Slurm half: `ROWS` says how an object comes into a row's condition and how it reads there;
`SPI` and `ENV` hold what each call does to it. A row `X+y` is the row X in a special case y; `.kw` is a row under
`kill_wait` > 0.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import pytest

from dispatch_memory_async import (
    AlreadyExistsError,
    CallMeta,
    Cause,
    Cessation,
    FinishedError,
    InvalidError,
    NotFoundError,
    Ref,
    Shape,
    State,
    UnsupportedError,
    crash_between_steps,
)
from tests.memory.table import (
    CALLS,
    CEASED,
    CODE,
    CONFIGURED,
    DECLARED,
    DIES,
    FIN,
    FULL,
    KILL_WAIT,
    LIVES,
    LIVING,
    NF,
    NOW,
    ONE_MORE,
    RUNS,
    SAME,
    STEP,
    UNS,
    WS,
    Cells,
    Later,
    Row,
    Sign,
    Then,
    World,
    at,
    back_to_pending,
    becomes,
    cells,
    check_cell,
    check_later,
    check_row,
    ends,
    only_truth,
    plus,
    ran,
    reach,
    row,
    same,
    shown,
    stale,
)
from tests.support import T0

K = Shape.KUBEFLOW
WINDOW = 300  # evidence_window is five minutes, unless a row says otherwise
HELD_CAUSE, PREEMPTED, STOPPED = Cause.HELD, Cause.PREEMPTED, Cause.STOPPED
NODE_LOST, NON_ZERO, OUT_OF_MEMORY = Cause.NODE_LOST, Cause.NON_ZERO_EXIT, Cause.OUT_OF_MEMORY
DEAD_AT_LOSS = {"cessation": Cessation(ceased=True, detail=CONFIGURED)}
HISTORY = {"capabilities": {"AccountingHistory": {"value": "yes"}}}
KW = {"kill_wait": KILL_WAIT}
ADMIN: dict[str, object] = {"admin_held": True}
LOST: dict[str, object] = {"node": "lost"}
FENCED: dict[str, object] = {"node": "fenced"}
OFF: dict[str, object] = {"active": False}
NOTES: dict[str, object] = {  # what the first hold of a row's words was given
    "active": False,
    "held_by": "user 1",
    "held_until": T0 + timedelta(days=1),
    "hold_reason": "reason 1",
}

ROWS: dict[str, Row] = {
    # Pending
    "P": row("start", "Pending/None"),
    "P+full": row("start no_capacity", "Pending/NoCapacity", detail=FULL),
    "P+again": row("start run preempt", "Pending/Preempted", ran(at(1), at(2), PREEMPTED)),
    "P+again.kw": row("start run preempt", "Pending/Preempted", ran(at(1), cause=PREEMPTED)),
    "P+lost": row("start run lose_node hold:3 release:3", "Pending/None", ran(at(1), cause=HELD_CAUSE), truth=LOST),
    # Pending, held by us at 3
    "H": row("start hold:3", "Pending/Held", hold=3, truth=NOTES),
    "H+again": row("start run hold:3", "Pending/Held", ran(at(1), at(2), HELD_CAUSE), hold=3, truth=NOTES),
    "H+again.kw": row("start run hold:3", "Pending/Held", ran(at(1), cause=HELD_CAUSE), hold=3, truth=NOTES),
    "H+taken": row("start deactivate_externally hold:3", "Pending/Held", hold=3, truth=NOTES),
    "H+base": row("start run preempt hold:3", "Pending/Held", ran(at(1), at(2), PREEMPTED), hold=3, truth=NOTES),
    "H+lost": row(
        "start run lose_node hold:3",
        "Pending/Held",
        ran(at(1), cause=HELD_CAUSE),
        hold=3,
        truth=NOTES | LOST,
    ),
    # Pending, deactivated by somebody else
    "D": row("start deactivate_externally", "Pending/Held", truth=OFF),
    "D+base": row(
        "start run preempt deactivate_externally",
        "Pending/Held",
        ran(at(1), at(2), PREEMPTED),
        truth=OFF,
    ),
    "D+lost": row(
        "start run lose_node deactivate_externally",
        "Pending/Held",
        ran(at(1), cause=HELD_CAUSE),
        truth=OFF | LOST,
    ),
    # Pending, admin hold
    "A": row("start admin_hold", "Pending/AdminHeld", truth=ADMIN),
    "A+hold": row("start hold:3 admin_hold", "Pending/AdminHeld", hold=3, truth=NOTES | ADMIN),
    "A+off": row("start deactivate_externally admin_hold", "Pending/AdminHeld", truth=OFF | ADMIN),
    "A+again": row("start run admin_hold preempt", "Pending/AdminHeld", ran(at(1), at(3), PREEMPTED), truth=ADMIN),
    "A+lost": row(
        "start run lose_node hold:3 admin_hold",
        "Pending/AdminHeld",
        ran(at(1), cause=HELD_CAUSE),
        hold=3,
        truth=NOTES | ADMIN | LOST,
    ),
    # Running
    "R": row("start run", "Running/None", ran(at(1)), started_at=at(1)),
    "R+admin": row("start run admin_hold", "Running/None", ran(at(1)), truth=ADMIN, started_at=at(1)),
    "R+again": row("start run preempt run", "Running/None", ran(at(1), at(2), PREEMPTED), ran(at(3)), started_at=at(3)),
    "R+again.kw": row(  # KF-10: a new execution beside the old one
        "start run preempt run",
        "Running/None",
        ran(at(1), cause=PREEMPTED),
        ran(at(3)),
        started_at=at(3),
    ),
    "R+older": row(
        "start run lose_node hold:3 release:3 run",
        "Running/None",
        ran(at(1), cause=HELD_CAUSE),
        ran(at(5)),
        started_at=at(5),
    ),
    "R+max": row("start:2 run", "Running/None", ran(at(1)), started_at=at(1)),
    "R+used": row(
        "start:1 run finish:3",
        "Running/None",
        ran(at(1), at(2), NON_ZERO, CODE),
        ran(at(2)),
        restarts=1,
        started_at=at(2),
    ),
    # Running, node lost (wedged)
    "W": row("start run lose_node", "Running/NodeLost", ran(at(1)), truth=LOST, started_at=at(1)),
    "W+admin": row(
        "start run admin_hold lose_node",
        "Running/NodeLost",
        ran(at(1)),
        truth=LOST | ADMIN,
        started_at=at(1),
    ),
    "W+max": row("start:2 run lose_node", "Running/NodeLost", ran(at(1)), truth=LOST, started_at=at(1)),
    "W+fenced": row(
        "start run lose_node fence_node",
        "Running/NodeLost",
        ran(at(1), at(3)),
        truth=FENCED,
        started_at=at(1),
    ),
    "W+dead": row(
        "start run lose_node",
        "Running/NodeLost",
        ran(at(1), at(2)),
        settings=DEAD_AT_LOSS,
        truth=LOST,
        started_at=at(1),
    ),
    "W+expired": row(
        "start run lose_node wait:300",
        "Running/Unknown",
        ran(at(1)),
        truth=LOST | {"cause": NODE_LOST},
        started_at=at(1),
    ),
    "W+expired+fenced": row(
        "start run lose_node wait:300 fence_node",
        "Running/Unknown",
        ran(at(1), at(3, WINDOW)),
        truth=FENCED | {"cause": NODE_LOST},
        started_at=at(1),
    ),
    # Succeeded, Failed
    "E": row(
        "start run finish:0",
        "Succeeded/None",
        ran(at(1), at(2), None, 0),
        started_at=at(1),
        ended_at=at(2),
        exit_code=0,
    ),
    "E+failed": row(
        "start run finish:3",
        "Failed/NonZeroExit",
        ran(at(1), at(2), NON_ZERO, CODE),
        started_at=at(1),
        ended_at=at(2),
        exit_code=CODE,
    ),
    "E+timeout": row(
        "start run time_out",
        "Failed/Timeout",
        ran(at(1), at(2), Cause.TIMEOUT),
        started_at=at(1),
        ended_at=at(2),
    ),
    "E+admin": row(
        "start run admin_hold out_of_memory",
        "Failed/OutOfMemory",
        ran(at(1), at(3), OUT_OF_MEMORY),
        truth=ADMIN,
        started_at=at(1),
        ended_at=at(3),
    ),
    "E+expired": row(
        "start run finish:3 wait:300",
        "Failed/Unknown",
        ran(at(1), at(2), NON_ZERO, CODE),
        truth={"cause": NON_ZERO},
        started_at=at(1),
        ended_at=at(2),
    ),
    "E+returned": row(
        "start run lose_node fence_node return_node",
        "Failed/NodeLost",
        ran(at(1), at(3), NODE_LOST),
        started_at=at(1),
        ended_at=at(4),
    ),
    "E+older": row(
        "start run lose_node hold:3 release:3 run finish:0",
        "Succeeded/None",
        ran(at(1), cause=HELD_CAUSE),
        ran(at(5), at(6), None, 0),
        started_at=at(5),
        ended_at=at(6),
        exit_code=0,
    ),
    # deleted
    "Z": row("start stop", "Cancelled/Stopped", truth={"gone_at": at(1)}, gone=True),
    "Z+hold": row("start hold:3 stop", "Cancelled/Stopped", hold=3, truth=NOTES | {"gone_at": at(2)}, gone=True),
    "Z+ended": row(
        "start run finish:3 stop",
        "Failed/NonZeroExit",
        ran(at(1), at(2), NON_ZERO, CODE),
        truth={"gone_at": at(3)},
        gone=True,
    ),
    "Z+history": row(  # ruling 21: what was deleted stays not found
        "start run stop",
        "Cancelled/Stopped",
        ran(at(1), at(2), STOPPED),
        settings=HISTORY,
        truth={"gone_at": at(2)},
        gone=True,
    ),
    "Z.kw": row(
        "start run stop",
        "Cancelled/Stopped",
        ran(at(1), cause=STOPPED),
        truth={"gone_at": at(2)},
        gone=True,
    ),
    "Z+lost": row(
        "start run lose_node stop",
        "Cancelled/Stopped",
        ran(at(1), cause=STOPPED),
        truth=LOST | {"gone_at": at(3)},
        gone=True,
    ),
    "Z+fenced": row(
        "start run lose_node stop fence_node",
        "Cancelled/Stopped",
        ran(at(1), at(4), STOPPED),
        truth=FENCED | {"gone_at": at(3)},
        gone=True,
    ),
    "Z+older": row(
        "start run lose_node hold:3 release:3 run stop",
        "Cancelled/Stopped",
        ran(at(1), cause=HELD_CAUSE),
        ran(at(5), at(6), STOPPED),
        truth={"gone_at": at(6)},
        gone=True,
    ),
}

# What a hold of ours writes beside it, and what a release takes away again (KF-7).
WRITTEN: dict[str, object] = {
    "active": False,
    "held_by": Sign.BY,
    "held_until": Sign.UNTIL,
    "hold_reason": Sign.REASON,
}
WIPED: dict[str, object] = {"active": True, "held_by": "", "held_until": None, "hold_reason": ""}
GONE = Then(deleted=True)


def gone(**last: object) -> Then:
    """KF-3: the object goes and with it its execution, for `Stopped`."""
    return Then(deleted=True, last={"cause": STOPPED, **last})


def held(text: str = "Pending/Held", *, cause: Cause | None = None, process: Mapping[str, object] = LIVES) -> Then:
    """KF-7: deactivated, Pending; a current execution ends for `Held`."""
    return back_to_pending(text, cause=cause, process=process, truth=WRITTEN, hold=3, detail="")


def off(text: str = "Pending/Held", *, cause: Cause | None = None, process: Mapping[str, object] = LIVES) -> Then:
    """The same by somebody else: no instance, nothing written."""
    return back_to_pending(text, cause=cause, process=process, truth={"active": False}, detail="")


def held_cells(after_release: str | None = None) -> Cells:
    """The hold and release columns of an object that is held at 3: i<c, i=c, i>c (KF-7, SL-6)."""
    return {
        "hold.lower": stale(3),
        "hold.same": SAME,  # the annotations too: the same instance again keeps the old ones
        "hold.higher": becomes(hold=4, truth=WRITTEN),
        "release.lower": stale(3),
        "release.same": becomes(after_release or "", hold=None, truth=WIPED),
        "release.higher": stale(3),
    }


# Section 3: the SPI.
SPI: dict[str, Cells] = {
    "P": {
        "open": SAME,
        "stop": GONE,
        "hold": held(),
        "release": SAME,
        "cessation": CEASED,
    },
    "H": {
        "open": SAME,
        "stop": GONE,
        **held_cells("Pending/None"),
        "cessation": CEASED,
    },
    "D": {
        "open": SAME,
        "stop": GONE,
        "hold": becomes(hold=3, truth=WRITTEN),
        "release": SAME,  # stays deactivated
        "cessation": CEASED,
    },
    "A": {
        "open": SAME,  # KF-2; no HeldError here
        "stop": GONE,
        "hold": held("Pending/AdminHeld"),
        "release": SAME,
        "cessation": CEASED,
    },
    "R": {
        "open": SAME,
        "stop": gone(**DIES),
        "hold": held(cause=HELD_CAUSE, process=DIES),
        "release": SAME,
        "cessation": LIVING,
    },
    "W": {
        "open": SAME,
        "stop": gone(),  # the process lives on until it is fenced or the node returns
        "hold": held(cause=HELD_CAUSE),
        "release": SAME,
        "cessation": LIVING,
    },
    "E": {
        "open": FIN,
        "stop": GONE,
        "hold": FIN,
        "release": FIN,
        "cessation": CEASED,
    },
    "Z": {
        "open": NF,
        "stop": NF,
        "hold": NF,
        "release": NF,
        "cessation": NF,
    },
}
SPI["R.kw"] = plus(SPI["R"], {"stop": gone(), "hold": held(cause=HELD_CAUSE)})
SPI.update(
    {
        "P+full": SPI["P"],
        "P+again": SPI["P"],
        "P+again.kw": plus(SPI["P"], {"cessation": LIVING}),  # the old execution is still alive
        "P+lost": plus(SPI["P"], {"cessation": LIVING}),
        "H+again": SPI["H"],
        "H+again.kw": plus(SPI["H"], {"cessation": LIVING}),
        "H+taken": SPI["H"],  # ours took it over: releasing it makes the workload active
        "H+base": plus(SPI["H"], held_cells("Pending/Preempted")),
        "H+lost": plus(SPI["H"], {"cessation": LIVING}),
        "D+base": SPI["D"],
        "D+lost": plus(SPI["D"], {"cessation": LIVING}),
        "A+hold": plus(SPI["A"], held_cells()),
        "A+off": plus(SPI["A"], {"hold": becomes(hold=3, truth=WRITTEN)}),
        "A+again": SPI["A"],
        "A+lost": plus(SPI["A"], {"cessation": LIVING, **held_cells()}),
        "R+admin": plus(SPI["R"], {"hold": held("Pending/AdminHeld", cause=HELD_CAUSE, process=DIES)}),
        "R+again": SPI["R"],
        "R+again.kw": SPI["R.kw"],
        "R+older": SPI["R"],
        "R+max": SPI["R"],
        "R+used": plus(SPI["R"], {}),
        "W+admin": plus(SPI["W"], {"hold": held("Pending/AdminHeld", cause=HELD_CAUSE)}),
        "W+max": SPI["W"],
        "W.kw": SPI["W"],  # nothing that the scheduler does ends a process on a lost node, late or soon
        "W+fenced": plus(SPI["W"], {"cessation": CEASED}),
        "W+dead": plus(SPI["W"], {"cessation": DECLARED}),
        "W+expired": SPI["W"],
        "W+expired+fenced": plus(SPI["W"], {"cessation": CEASED}),
        "E+failed": SPI["E"],
        "E+timeout": SPI["E"],
        "E+admin": SPI["E"],
        "E+expired": SPI["E"],
        "E+returned": SPI["E"],
        "E+older": plus(SPI["E"], {"cessation": LIVING}),
        "Z+hold": SPI["Z"],
        "Z+ended": SPI["Z"],
        "Z+history": SPI["Z"],
        "Z.kw": SPI["Z"],
        "Z+lost": SPI["Z"],
        "Z+fenced": SPI["Z"],
        "Z+older": SPI["Z"],
    }
)
ROWS.update({"R.kw": ROWS["R"], "W.kw": ROWS["W"]})

# KF-8: Uns in every row, Z too.
for columns in SPI.values():
    columns.update({"requeue": UNS, "requeue.crash": UNS, "restore_requeue_bit": UNS})

# Section 4: the environment.
ADMIN_HELD = becomes("Pending/AdminHeld", truth=ADMIN, detail="")
ADMIN_ON, ADMIN_OFF = only_truth(admin_held=True), only_truth(admin_held=False)
KILLED = Then(truth={"node": "up"}, last=DIES)
FENCES = Then(truth={"node": "fenced"}, last=DIES)
OLDER_DIES = Then(older=DIES)
RESTARTS = {**shown("Running/None"), "restarts": ONE_MORE, "started_at": NOW}


def released_to(text: str) -> Then:
    return becomes(text, truth={"admin_held": False})


def restarted(cause: Cause, **code: object) -> Then:
    """KF-11: the pod failed, a new execution begins at once, and the counter shown moves."""
    return Then(seen=RESTARTS, last={"cause": cause, **DIES, **code}, truth={"node": "up"}, begins=True)


ENV: dict[str, Cells] = {
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
        "deactivate_externally": off(),
        "reactivate_externally": SAME,
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
        "deactivate_externally": SAME,
        "reactivate_externally": becomes("Pending/None", hold=None, truth=WIPED),
    },
    "D": {
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
        "deactivate_externally": SAME,
        "reactivate_externally": becomes("Pending/None", truth={"active": True}),
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
        "deactivate_externally": only_truth(active=False),  # the cause stays AdminHeld
        "reactivate_externally": SAME,
    },
    "R": {
        "run": WS,
        "finish.0": ends("Succeeded/None", exit_code=0),
        "finish.n": ends("Failed/NonZeroExit", exit_code=CODE),
        "out_of_memory": ends("Failed/OutOfMemory"),
        "time_out": ends("Failed/Timeout"),
        "fail_launch": ends("Failed/LaunchFailed"),
        "preempt": back_to_pending("Pending/Preempted", cause=PREEMPTED, process=DIES),
        "lose_node": becomes("Running/NodeLost", truth={"node": "lost"}),
        "return_node": WS,
        "fence_node": WS,
        "admin_hold": ADMIN_ON,
        "admin_release": SAME,
        "no_capacity": WS,
        "deactivate_externally": off(cause=HELD_CAUSE, process=DIES),
        "reactivate_externally": SAME,
    },
    "W": {
        "run": WS,
        "finish.0": WS,
        "finish.n": WS,
        "out_of_memory": WS,
        "time_out": WS,
        "fail_launch": WS,
        "preempt": WS,
        "lose_node": SAME,
        "return_node": becomes("Running/None", truth={"node": "up"}),
        "fence_node": FENCES,
        "admin_hold": ADMIN_ON,
        "admin_release": SAME,
        "no_capacity": WS,
        "deactivate_externally": off(cause=HELD_CAUSE),
        "reactivate_externally": SAME,
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
        "deactivate_externally": WS,
        "reactivate_externally": WS,
    },
    "Z": {
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
        "deactivate_externally": NF,
        "reactivate_externally": NF,
    },
}
ENV["R.kw"] = plus(
    ENV["R"],
    {
        "preempt": back_to_pending("Pending/Preempted", cause=PREEMPTED),
        "deactivate_externally": off(cause=HELD_CAUSE),
    },
)
OLDER_LOST: Cells = {"return_node": KILLED, "fence_node": FENCES}
RETURNED_DEAD = ends("Failed/NodeLost", process=LIVES, truth={"node": "up"})
ENV.update(
    {
        "P+full": plus(ENV["P"], {"no_capacity": SAME}),
        "P+again": ENV["P"],
        "P+again.kw": ENV["P"],
        "P+lost": plus(ENV["P"], OLDER_LOST),
        "H+again": ENV["H"],
        "H+again.kw": ENV["H"],
        "H+taken": ENV["H"],
        "H+base": plus(ENV["H"], {"reactivate_externally": becomes("Pending/Preempted", hold=None, truth=WIPED)}),
        "H+lost": plus(ENV["H"], OLDER_LOST),
        "D+base": plus(ENV["D"], {"reactivate_externally": becomes("Pending/Preempted", truth={"active": True})}),
        "D+lost": plus(ENV["D"], OLDER_LOST),
        "A+hold": plus(
            ENV["A"],
            {
                "admin_release": released_to("Pending/Held"),
                "deactivate_externally": SAME,
                "reactivate_externally": becomes(hold=None, truth=WIPED),
            },
        ),
        "A+off": plus(
            ENV["A"],
            {
                "admin_release": released_to("Pending/Held"),
                "deactivate_externally": SAME,
                "reactivate_externally": only_truth(active=True),
            },
        ),
        "A+again": plus(ENV["A"], {"admin_release": released_to("Pending/Preempted")}),
        "A+lost": plus(
            ENV["A"],
            {
                "admin_release": released_to("Pending/Held"),
                "deactivate_externally": SAME,
                "reactivate_externally": becomes(hold=None, truth=WIPED),
                **OLDER_LOST,
            },
        ),
        "R+admin": plus(
            ENV["R"],
            {
                "preempt": back_to_pending("Pending/AdminHeld", cause=PREEMPTED, process=DIES),
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
                "deactivate_externally": off("Pending/AdminHeld", cause=HELD_CAUSE, process=DIES),
            },
        ),
        "R+again": ENV["R"],
        "R+again.kw": ENV["R.kw"],
        "R+older": plus(ENV["R"], {"return_node": OLDER_DIES, "fence_node": OLDER_DIES}),  # ruling 2
        "R+max": plus(
            ENV["R"],
            {
                "finish.n": restarted(NON_ZERO, exit_code=CODE),
                "out_of_memory": restarted(OUT_OF_MEMORY),
            },
        ),
        "R+max.kw": plus(  # a pod that failed by itself does not wait
            ENV["R.kw"],
            {
                "finish.n": restarted(NON_ZERO, exit_code=CODE),
                "out_of_memory": restarted(OUT_OF_MEMORY),
            },
        ),
        "R+used": ENV["R"],  # the count, over the object's life, is used up
        "W.kw": ENV["W"],
        "W+admin": plus(
            ENV["W"],
            {
                "admin_hold": SAME,
                "admin_release": ADMIN_OFF,
                "deactivate_externally": off("Pending/AdminHeld", cause=HELD_CAUSE),
            },
        ),
        "W+max": ENV["W"],
        "W+fenced": plus(ENV["W"], {"return_node": RETURNED_DEAD, "fence_node": SAME}),
        "W+dead": plus(ENV["W"], {"return_node": RETURNED_DEAD, "fence_node": only_truth(node="fenced")}),
        "W+expired": plus(ENV["W"], {"return_node": becomes("Running/None", truth={"node": "up", "cause": None})}),
        "W+expired+fenced": plus(
            ENV["W"],
            {
                "fence_node": SAME,
                # It arose at the loss: Unknown from the first reading, in truth NodeLost.
                "return_node": ends(
                    "Failed/Unknown", cause=NODE_LOST, process=LIVES, truth={"node": "up", "cause": NODE_LOST}
                ),
            },
        ),
        "E+failed": ENV["E"],
        "E+timeout": ENV["E"],
        "E+admin": plus(ENV["E"], {"admin_release": ADMIN_OFF}),
        "E+expired": ENV["E"],
        "E+returned": ENV["E"],
        "E+older": plus(ENV["E"], {"return_node": OLDER_DIES, "fence_node": OLDER_DIES}),
        "Z+hold": ENV["Z"],
        "Z+ended": ENV["Z"],
        "Z+history": ENV["Z"],
        "Z.kw": ENV["Z"],
        "Z+lost": plus(ENV["Z"], {"return_node": KILLED, "fence_node": FENCES}),
        "Z+fenced": plus(ENV["Z"], {"return_node": only_truth(node="up"), "fence_node": SAME}),
        "Z+older": plus(ENV["Z"], {"return_node": OLDER_DIES, "fence_node": OLDER_DIES}),
    }
)
ROWS["R+max.kw"], SPI["R+max.kw"] = ROWS["R+max"], SPI["R.kw"]

# `requeue_externally`: WrongState in every row but Z.
for name, columns in ENV.items():
    columns["requeue_externally"] = NF if name.startswith("Z") else WS


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
        for plain, table in ((SPI["P"], SPI), (ENV["P"], ENV)):
            here = {column.partition(".")[0] for column in table[name]}
            assert here == {column.partition(".")[0] for column in plain}, name
    assert {word for word in CALLS if word not in SPI["H"] | SPI["P"] | ENV["P"]} == set()


@pytest.mark.parametrize("name", ROWS)
async def test_row(name: str) -> None:
    """Transition table, section 3: the conditions, and what every read says of them (TM-6, KF-2, KF-5, KF-6)."""
    await check_row(K, name, ROWS[name])


@pytest.mark.parametrize(("name", "column", "then"), cells(SPI))
async def test_spi(name: str, column: str, then: Then) -> None:
    """Transition table, section 3 (KF-2, KF-3, KF-7, KF-8, KF-10, WA-2)."""
    await check_cell(K, name, ROWS[name], column, then)


@pytest.mark.parametrize(("name", "column", "then"), cells(ENV))
async def test_env(name: str, column: str, then: Then) -> None:
    """Transition table, section 4 (KF-4, KF-5, KF-7, KF-9, KF-10, KF-11, 2.7)."""
    await check_cell(K, name, ROWS[name], column, then)


UNKNOWN = Cause.UNKNOWN
FADES = {"cause": UNKNOWN, "exit_code": None}

# "By the clock" under section 4. The seconds count from the last word.
CLOCK: dict[str, Later] = {
    "W": Later(
        given="start run lose_node",
        due=WINDOW,
        then=becomes("Running/Unknown", truth={"cause": NODE_LOST}),
    ),
    "W+fenced": Later(
        given="start run lose_node fence_node",
        due=WINDOW - 10,
        then=becomes("Running/Unknown", truth={"cause": NODE_LOST}),
    ),
    "W lost anew": Later(  # arose: the loss in force
        given="start run lose_node return_node lose_node",
        due=WINDOW,
        then=becomes("Running/Unknown", truth={"cause": NODE_LOST}),
    ),
    "E+failed": Later(given="start run finish:3", due=WINDOW, then=Then(seen=FADES, truth={"cause": NON_ZERO})),
    "E+oom": Later(given="start run out_of_memory", due=WINDOW, then=Then(seen=FADES, truth={"cause": OUT_OF_MEMORY})),
    "E+returned": Later(  # arose at the loss, though it failed at the return
        given="start run lose_node fence_node return_node",
        due=WINDOW - 20,
        then=Then(seen=FADES, truth={"cause": NODE_LOST}),
    ),
    # An execution told to end, at told + kill_wait: dead in the truth, nothing told.
    "preempted": Later(given="start run preempt", settings=KW, due=60, then=Then(last=DIES)),
    "held": Later(given="start run hold:3", settings=KW, due=60, then=Then(last=DIES)),
    "deactivated": Later(given="start run deactivate_externally", settings=KW, due=60, then=Then(last=DIES)),
    "deleted": Later(given="start run stop", settings=KW, due=60, then=Then(last=DIES)),
    "preempted, deleted": Later(  # the timer starts once
        given="start run preempt stop", settings=KW, due=50, then=Then(last=DIES)
    ),
    "preempted, run again": Later(given="start run preempt run", settings=KW, due=50, then=Then(older=DIES)),
    "preempted, held": Later(given="start run preempt hold:3", settings=KW, due=50, then=Then(last=DIES)),
}


@pytest.mark.parametrize("late", [0, 7.25], ids=["in time", "late"])
@pytest.mark.parametrize("name", CLOCK)
async def test_by_the_clock(name: str, late: float) -> None:
    """Transition table, section 4, "By the clock" (TM-2, KF-6, KF-10)."""
    await check_later(K, CLOCK[name], late=late)


NEVER = {
    "P": "start",
    "H": "start hold:3",
    "D": "start deactivate_externally",
    "R": "start run",
    "E": "start run finish:0",
    "E+timeout": "start run time_out",
    "E+launch": "start run fail_launch",
    "R again after a return": "start run lose_node return_node",
    "H after a loss": "start run lose_node hold:3",
    "H after a loss.kw": "start run lose_node hold:3",
    "Z after a loss.kw": "start run lose_node stop",
}


@pytest.mark.parametrize("name", NEVER)
async def test_by_the_clock_nothing_else_changes(name: str) -> None:
    """KF-6: what is not pod-derived, and a Succeeded's exit_code=0, does not vanish. Nothing is ever purged.

    Nor does a process on a lost node end by itself, whatever the scheduler told it (2.7).
    """
    world = World(K, **(KW if name.endswith(".kw") else {}))
    await world.given(NEVER[name])
    before = await world.look()

    async def pass_on() -> None:
        world.clock.advance(timedelta(days=4000))
        await world.look()

    assert await world.told_by(pass_on) == []
    same(await world.look(), world.expect(before, SAME, world.clock.now)[0])


@pytest.mark.parametrize(
    ("given", "word", "then"),
    [
        (
            "start run",
            "finish:3",
            Then(
                seen={**shown("Failed/Unknown"), "ended_at": NOW},
                truth={"cause": NON_ZERO},
                last={"cause": NON_ZERO, "exit_code": CODE, **DIES},
            ),
        ),
        ("start run", "finish:0", ends("Succeeded/None", exit_code=0)),
        (
            "start run",
            "out_of_memory",
            ends("Failed/Unknown", cause=OUT_OF_MEMORY, truth={"cause": OUT_OF_MEMORY}),
        ),
        ("start run", "time_out", ends("Failed/Timeout")),
        ("start run", "lose_node", becomes("Running/Unknown", truth={"node": "lost", "cause": NODE_LOST})),
        (
            "start run lose_node fence_node",
            "return_node",
            ends("Failed/Unknown", cause=NODE_LOST, process=LIVES, truth={"node": "up", "cause": NODE_LOST}),
        ),
    ],
    ids=["finish.n", "finish.0", "out_of_memory", "time_out", "lose_node", "return_node"],
)
async def test_by_the_clock_evidence_window_of_zero(given: str, word: str, then: Then) -> None:
    """KF-6, 2.1: `evidence_window=0`: Unknown from the first reading, and told as such, once."""
    world = World(K, evidence_window=timedelta(0))
    await world.given(given)
    world.clock.advance(STEP)
    before = await world.look()
    told = await world.told_by(lambda: world.call(word))
    wanted, expected = world.expect(before, then, world.clock.now)
    same(await world.look(), wanted)
    assert told == expected


async def test_by_the_clock_a_fading_cause_cascades_with_a_refused_call() -> None:
    """TM-2: what was settled is told, also where the call itself is refused."""
    world = World(K)
    await world.given("start run finish:3")
    before = await world.look()
    outcomes: list[tuple[object, object]] = []

    async def act() -> None:
        world.clock.advance(WINDOW + 1)
        outcomes.append(await world.outcome("hold:3"))

    told = await world.told_by(act)
    ((_, error),) = outcomes
    assert type(error) is FinishedError
    wanted, expected = world.expect(before, Then(seen=FADES, truth={"cause": NON_ZERO}), world.clock.now)
    same(await world.look(), wanted)
    assert told == expected


# The bullets under section 3.


@pytest.mark.parametrize("name", ["P", "R", "E", "Z"])
async def test_requeue_is_unsupported_before_expired_and_not_found(name: str) -> None:
    """KF-8, 1.2: unsupported comes before a passed deadline, a weak ref, and a ref that names nothing."""
    world = await reach(K, name, ROWS[name])
    b, late = world.b, CallMeta(deadline=T0)
    stranger = Ref(name=world.ref.name, id="nobody", submitted_at=T0)
    for ref in (world.ref, world.weak, stranger):
        with pytest.raises(UnsupportedError):
            await b.requeue(ref, late)
        with pytest.raises(UnsupportedError):
            await b.restore_requeue_bit(ref, late)
        with crash_between_steps(), pytest.raises(UnsupportedError):
            await b.requeue(ref, late)


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith("Z")])
async def test_start_under_a_name_in_use(name: str) -> None:
    """KF-1: AlreadyExists in every row that the object is still there, ended ones included; another N is free."""
    world = await reach(K, name, ROWS[name])
    before = await world.look()

    async def act() -> None:
        with pytest.raises(AlreadyExistsError):
            await world.b.start(world.job, 1)

    assert await world.told_by(act) == []
    same(await world.look(), before)
    assert (await world.b.start(world.job, 2)).name == f"dj-{str(world.job.id).lower()}-s2"


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("Z")])
async def test_start_under_a_freed_name(name: str) -> None:
    """KF-1, KF-9: after Z the name is free, the UID another, and its R begins at 0 again."""
    world = await reach(K, name, ROWS[name])
    old, attempts = world.ref, {run["attempt"] for run in (await world.look()).runs}
    new = await world.start()
    assert new.name == old.name
    assert new.id != old.id
    with pytest.raises(NotFoundError):
        await world.b.get(old)
    run = await world.b.env.run(new)
    assert run.epoch == 1_000_000
    assert run.attempt not in attempts


async def test_start_is_not_gated() -> None:
    """KF-2: told as Pending, no cause, and `open` changes nothing."""
    world = World(K)

    told = await world.told_by(world.start)
    assert [(one["state"], one["cause"], one["gated"]) for one in told] == [(State.PENDING, None, False)]
    assert told[0]["ref"] == world.ref
    assert world.ref.name == f"dj-{str(world.job.id).lower()}-s1"


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ("start", STOPPED),
        ("start hold:3", STOPPED),
        ("start run", STOPPED),
        ("start run lose_node", STOPPED),
        ("start run lose_node wait:300", STOPPED),
        ("start run finish:0", None),
        ("start run finish:3", NON_ZERO),
        ("start run finish:3 wait:300", UNKNOWN),
        ("start run time_out", Cause.TIMEOUT),
    ],
)
async def test_one_gone_per_stop(given: str, cause: Cause | None) -> None:
    """KF-3, WA-2: no Cancelled before it; its cause is Stopped if it was live, else the cause it had."""
    world = World(K)
    await world.given(given)
    told = await world.told_by(lambda: world.call("stop"))
    assert [(one["state"], one["cause"]) for one in told] == [(State.GONE, cause)]


async def test_a_weak_ref_is_name_and_uid() -> None:
    """Section 3: it goes on across everything but a deletion; the object made again is another."""
    world = World(K)
    await world.given("start run preempt")
    weak = world.weak
    assert weak == Ref(name=world.ref.name, id=world.ref.id, submitted_at=None)
    assert (await world.b.get(weak)).ref == world.ref
    await world.given("stop")
    await world.start()
    with pytest.raises(NotFoundError):
        await world.b.get(weak)


@pytest.mark.parametrize("name", ["P", "R", "E", "Z"])
@pytest.mark.parametrize("column", ["open", "stop", "hold", "release"])
async def test_writes_take_no_weak_ref(name: str, column: str) -> None:
    """1.3: a weak ref on a write is InvalidError, before anything that the row would say; nothing is told."""
    world = await reach(K, name, ROWS[name])
    before = await world.look()
    outcomes: list[tuple[object, object]] = []

    async def act() -> None:
        outcomes.append(await world.outcome(CALLS.get(column, column), weak=True))

    assert await world.told_by(act) == []
    ((_, error),) = outcomes
    assert type(error) is InvalidError
    same(await world.look(), before)


@pytest.mark.parametrize("name", ["P", "H", "R", "W", "E", "Z+lost"])
@pytest.mark.parametrize("column", ENV["P"])
async def test_env_takes_weak_refs(name: str, column: str) -> None:
    """2.7: the environment's calls take exact and weak refs: the cell is the same."""
    world = await reach(K, name, ROWS[name])
    before = await world.look()
    _, error = await world.outcome(CALLS.get(column, column), weak=True)
    then = ENV[name][column]
    assert type(error) is (then.error or type(None))
    same(await world.look(), world.expect(before, then, world.clock.now)[0])


async def test_a_hold_of_ours_takes_a_foreign_deactivation_over() -> None:
    """2.7: `release` leaves a deactivation by somebody else; under a hold of ours it is released with it."""
    world = World(K)
    await world.given("start deactivate_externally release:3")
    look = await world.look()
    assert look.truth["active"] is False
    await world.given("hold:3 release:3")
    look = await world.look()
    assert look.truth["active"] is True
    assert look.seen is not None
    assert (look.seen["cause"], look.seen["hold"]) == (None, None)


async def test_after_a_reactivation_any_instance_may_be_set() -> None:
    """KF-7, SL-6: reactivation drops our hold as a release does, and its annotations with it."""
    world = World(K)
    await world.given("start hold:3 reactivate_externally hold:2")
    truth = await world.b.env.truth(world.ref)
    assert (truth.hold, truth.held_by, truth.hold_reason) == (2, "user 2", "reason 2")


async def test_the_same_instance_again_keeps_the_old_annotations() -> None:
    """KF-7: a higher one replaces them, the release wipes them."""
    world = World(K)
    notes: list[tuple[int | None, str, object, str]] = []
    for words in ("start hold:3", "hold:3", "hold:4", "release:4"):
        await world.given(words)
        truth = await world.b.env.truth(world.ref)
        notes.append((truth.hold, truth.held_by, truth.held_until, truth.hold_reason))
    first = (3, "user 1", T0 + timedelta(days=1), "reason 1")
    third = (4, "user 3", T0 + timedelta(days=3), "reason 3")
    assert notes == [first, first, third, (None, "", None, "")]


async def test_the_counter_shown_counts_no_readmissions() -> None:
    """KF-4, KF-9: the epoch's R counts the executions from 0; `restarts` moves by KF-11 alone."""
    world = World(K)
    await world.given("start:5 run preempt run hold:3 release:3 run finish:3 out_of_memory")
    look = await world.look()
    assert look.seen is not None
    assert look.seen["restarts"] == 2
    assert [run["epoch"] for run in look.runs] == [1_000_000 + number for number in range(5)]


async def test_restarts_of_a_native_policy_are_used_up_over_the_objects_life() -> None:
    """NP-3, KF-11: a preemption between them does not give the count back."""
    world = World(K)
    await world.given("start:2 run finish:3 preempt run out_of_memory preempt run finish:3")
    observation = await world.b.get(world.ref)
    assert (observation.state, observation.cause, observation.restarts) == (State.FAILED, NON_ZERO, 2)


async def test_two_executions_at_once_under_kill_wait() -> None:
    """KF-10: the old one lives on in the truth beside the new one; a job's cessation looks at both."""
    world = World(K, kill_wait=KILL_WAIT)
    await world.given("start run preempt run")
    look = await world.look()
    assert [run["alive"] for run in look.runs] == [True, True]
    await world.b.stop(world.ref)
    assert (await world.b.cessation(world.job.id)).ceased is False
    world.clock.advance(KILL_WAIT)
    assert await world.b.cessation(world.job.id) == Cessation(ceased=True)


async def test_pending_shows_the_first_cause_that_applies() -> None:
    """Section 0, TM-6: AdminHeld > Held > base cause > None, as one after the other is taken away."""
    world = World(K)
    await world.given("start run preempt hold:3 admin_hold")
    seen: list[Cause | None] = []

    async def note() -> None:
        seen.append((await world.b.get(world.weak)).cause)

    await note()
    for word in ("admin_release", "release:3", "no_capacity", "run", "hold:4", "release:4"):
        await world.given(word)
        await note()
    assert seen == [
        Cause.ADMIN_HELD,
        HELD_CAUSE,
        PREEMPTED,
        Cause.NO_CAPACITY,
        None,
        HELD_CAUSE,
        None,
    ]
