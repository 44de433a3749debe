"""The scripts that are played on the memory adapter and on a real Slurm alike: what happens, step by step.

A step is one word: a call of the SPI, or what befalls the job from the scheduler's side; `playing.py` knows them. After
a colon stands its argument, after an `@` the ref that it is given instead of the exact one in force: `first` had by the
object at its start, `weak`, `unknown` (another id), or `earlier` (another submit time).
"""

from typing import NamedTuple

__all__ = ("SCRIPTS", "Script")


class Script(NamedTuple):
    """One story.

    :ivar name: what it is called
    :ivar rules: the rules that it shows
    :ivar steps: what happens
    :ivar slow: whether executions live on for a while after they were told to end
    """

    name: str
    rules: tuple[str, ...]
    steps: tuple[str, ...]
    slow: bool = False


STORIES = {
    # names, ids, refs
    "names-repeat": ("SL-1", "start start find"),
    "names-repeat-after-an-end": ("SL-1 SL-5", "start stop start find open run"),
    "renamed": ("SL-1 SL-2", "start rename get@weak"),
    "another-submit-time": ("SL-2 SL-5", "start get@earlier open@earlier hold:1@earlier stop@earlier"),
    "another-id": ("SL-2 SL-5", "start get@unknown open@unknown hold:1@unknown release:1@unknown stop@unknown"),
    "requeue-of-another-id": ("SL-2 SL-7", "start:requeue requeue@unknown bit_off@unknown"),
    "a-weak-ref-only-reads": (
        "SL-2",
        "start get@weak open@weak hold:1@weak release:1@weak stop@weak requeue@weak bit_off@weak",
    ),
    "refs-over-a-requeue": ("SL-2 SL-7", "start open run requeue get@first get@weak stop@first get"),
    "refs-over-a-requeue-by-another": ("SL-2 SL-7", "start open run requeue_externally get@first open@first get"),
    # the gate
    "gate": ("SL-3 SL-13", "start run open run finish:0"),
    "gate-opened-twice": ("SL-3 SL-4", "start open open run open"),
    "gate-of-an-ended-one": ("SL-4", "start open run finish:0 open"),
    "gate-of-a-failed-one": ("SL-4", "start open run finish:3 open"),
    "gate-of-a-cancelled-one": ("SL-4 SL-5", "start stop open"),
    "gate-under-an-admin-hold": ("SL-4", "start admin_hold open get admin_release"),
    "gate-then-admin-hold-then-release": ("SL-3 SL-4", "start admin_hold admin_release run"),
    "gate-opened-then-admin-hold": ("SL-4", "start open admin_hold open run admin_release run"),
    "admin-hold-twice": ("SL-4", "start open admin_hold admin_hold admin_release admin_release run"),
    "no-capacity": ("SL-3 TM-6", "start open no_capacity get stop"),
    # stops
    "stop-gated": ("SL-5", "start stop stop"),
    "stop-pending": ("SL-5", "start open stop"),
    "stop-held": ("SL-5 SL-6", "start open hold:2 stop"),
    "stop-admin-held": ("SL-5", "start open admin_hold stop"),
    "stop-gated-and-admin-held": ("SL-5", "start admin_hold stop"),
    "stop-running": ("SL-5", "start open run stop stop"),
    "stop-completed": ("SL-5", "start open run finish:0 stop"),
    "stop-failed": ("SL-5", "start open run finish:7 stop"),
    "stop-timed-out": ("SL-5", "start open run time_out stop"),
    "cancelled-by-another-gated": ("SL-5", "start cancel_externally stop"),
    "cancelled-by-another-pending": ("SL-5", "start open cancel_externally open"),
    "cancelled-by-another-running": ("SL-5", "start open run cancel_externally hold:1"),
    "cancelled-by-another-requeueable": ("SL-5 SL-10", "start:requeue open run cancel_externally bit_off"),
    # holds
    "hold-gated": ("SL-6 SL-3", "start hold:2 release:2 open run"),
    "hold-survives-open": ("SL-6", "start hold:2 open run get release:2 run"),
    "hold-pending": ("SL-6", "start open hold:2 run release:2 run finish:0"),
    "hold-running": ("SL-6", "start open run hold:2 get finish:0"),
    "hold-completed": ("SL-6", "start open run finish:0 hold:2 release:2"),
    "hold-cancelled": ("SL-6", "start open hold:2 stop hold:3 release:2"),
    "hold-again": ("SL-6", "start open hold:2 hold:2 release:2"),
    "hold-higher-and-lower": ("SL-6", "start open hold:2 hold:5 hold:3 release:2 release:5 hold:1"),
    "release-not-held": ("SL-6", "start release:1 open release:1 run release:1"),
    "hold-then-admin-hold": ("SL-6 SL-4 TM-6", "start open hold:2 admin_hold run release:2 run admin_release run"),
    "admin-hold-then-hold": ("SL-6 SL-4 TM-6", "start open admin_hold hold:2 admin_release run release:2 run"),
    "start-time-in-the-past": ("SL-6", "start open hold:2 start_in_the_past run"),
    "hold-a-requeued-one": ("SL-6 SL-7", "start open run requeue hold:2 run release:2 run"),
    # requeues by us
    "requeue-gated": ("SL-7 SL-8", "start requeue get"),
    "requeue-pending": ("SL-7 SL-8", "start open requeue get run"),
    "requeue-held": ("SL-7 SL-8", "start open hold:2 requeue get"),
    "requeue-admin-held": ("SL-7 SL-8", "start open admin_hold requeue get"),
    "requeue-pending-requeueable": ("SL-7 SL-8", "start:requeue open requeue get"),
    "requeue-running": ("SL-7 SL-8 SL-13", "start open run epoch requeue run epoch finish:0"),
    "requeue-running-requeueable": ("SL-7 SL-8 SL-13", "start:requeue open run requeue run requeue run epoch"),
    "requeue-completed": ("SL-7 SL-8", "start open run finish:0 requeue"),
    "requeue-completed-requeueable": ("SL-7 SL-13", "start:requeue open run finish:0 requeue get@first run finish:0"),
    "requeue-failed": ("SL-7 SL-8", "start open run finish:3 requeue"),
    "requeue-failed-requeueable": ("SL-7", "start:requeue open run finish:3 requeue run finish:4"),
    "requeue-cancelled": ("SL-7 SL-8", "start open run stop requeue"),
    "requeue-cancelled-requeueable": ("SL-7", "start:requeue open run stop requeue run"),
    "requeue-timed-out": ("SL-7 SL-8", "start open run time_out requeue"),
    "requeue-timed-out-requeueable": ("SL-7", "start:requeue open run time_out requeue run"),
    "requeue-preempted": ("SL-7 SL-8 SL-10", "start open run preempt requeue"),
    "requeue-cancelled-gated": ("SL-7", "start:requeue stop requeue run"),
    "requeue-cancelled-held": ("SL-7 SL-6", "start:requeue open hold:2 stop requeue run release:2 run"),
    "requeue-cancelled-admin-held": ("SL-7", "start:requeue open admin_hold stop requeue run admin_release run"),
    "admin-hold-on-a-running-one": ("SL-7 SL-4", "start open run admin_hold open requeue run open admin_release run"),
    "admin-hold-lifted-while-running": ("SL-7 SL-4", "start open run admin_hold admin_release requeue run"),
    "admin-hold-over-an-end": ("SL-7 SL-4", "start:requeue open run admin_hold finish:0 requeue run"),
    # requeues by somebody else
    "requeued-by-another-running": ("SL-7 SL-13", "start open run requeue_externally run epoch"),
    "requeued-by-another-completed": ("SL-7", "start:requeue open run finish:0 requeue_externally run"),
    "requeued-by-another-completed-bit-clear": ("SL-7 SL-8", "start open run finish:0 requeue_externally"),
    "requeued-by-another-cancelled-gated": ("SL-7", "start:requeue stop requeue_externally run"),
    "requeued-by-another-cancelled-held": ("SL-7 SL-6", "start:requeue open hold:2 stop requeue_externally run"),
    # the bit
    "crash-pending": ("SL-8 SL-9", "start open crash bit_off bit_off"),
    "crash-held": ("SL-8 SL-9", "start open hold:2 crash release:2 bit_off"),
    "crash-running": ("SL-8 SL-9", "start open run crash get bit_off requeue"),
    "crash-completed": ("SL-8", "start open run finish:0 crash"),
    "crash-completed-requeueable": ("SL-8", "start:requeue open run finish:0 crash requeue"),
    "bit-of-a-native-policy": ("SL-9 NP-2", "start:requeue bit_off open run bit_off get"),
    "bit-of-an-ended-one": ("SL-9", "start:requeue open run finish:0 bit_off get"),
    "bit-of-a-cancelled-one": ("SL-9", "start:requeue stop bit_off"),
    # preemptions
    "preempt": ("SL-10", "start open run preempt get"),
    "preempt-requeueable": ("SL-10 SL-13 NP-2", "start:requeue open run preempt get@first run preempt run epoch"),
    "preempt-bit-cleared": ("SL-10 SL-9", "start:requeue open run bit_off preempt"),
    "preempt-bit-left-set": ("SL-10 SL-9", "start open run requeue_externally run preempt bit_off run preempt"),
    "preempt-after-a-crash": ("SL-10 SL-8", "start open run crash preempt bit_off"),
    "preempt-mode-cancel": ("SL-10", "start open run preempt_cancelling get"),
    "preempt-mode-cancel-requeueable": ("SL-10", "start:requeue open run preempt_cancelling get"),
    "preempt-admin-held": ("SL-10 SL-4", "start:requeue open run admin_hold preempt run admin_release run"),
    # lost nodes
    "node-lost": ("SL-11", "start open run lose_node node_timeout hold:1"),
    "node-lost-requeueable": ("SL-11 SL-13 NP-2", "start:requeue open run lose_node node_timeout run epoch"),
    "node-lost-bit-cleared-meanwhile": ("SL-11 SL-9", "start:requeue open run lose_node bit_off node_timeout"),
    "node-lost-bit-set-meanwhile": ("SL-11 SL-8", "start open run lose_node crash node_timeout"),
    "node-back-in-time": ("SL-11", "start open run lose_node return_node node_timeout finish:0"),
    "node-back-in-time-requeueable": ("SL-11", "start:requeue open run lose_node return_node node_timeout finish:2"),
    "node-lost-and-held-meanwhile": ("SL-11 SL-6", "start open run lose_node hold:1 node_timeout"),
    "node-lost-then-back": ("SL-11", "start:requeue open run lose_node node_timeout return_node run finish:0"),
    "node-lost-and-fenced": ("SL-11", "start:requeue open run lose_node fence_node node_timeout run epoch"),
    "requeue-on-a-lost-node": ("SL-7 SL-11", "start:requeue open run lose_node requeue run epoch"),
    # memory
    "forgotten-cancelled": ("SL-12", "start stop forget get get@weak find"),
    "forgotten-completed": ("SL-12", "start:requeue open run finish:0 forget get find"),
    "forgotten-failed": ("SL-12", "start open run finish:3 forget get"),
    "forgotten-held": ("SL-12 SL-6", "start open hold:2 stop forget get"),
    "forgotten-after-a-requeue": ("SL-12 SL-7", "start open run requeue run finish:0 forget get get@weak find"),
    "forgotten-is-not-written-to": (
        "SL-12 SL-5",
        "start:requeue stop forget stop open hold:1 release:1 requeue bit_off",
    ),
    "forgotten-beside-a-live-one": ("SL-12 SL-1", "start stop start forget find"),
}
SLOW_STORIES = {
    "stop-takes-time": ("SL-14 SL-5", "start open run stop stop end"),
    "stop-on-a-lost-node": ("SL-14 SL-5 SL-11", "start open run lose_node stop return_node"),
    "requeue-takes-time": ("SL-14 SL-7", "start open run requeue get@first requeue end"),
    "requeue-while-it-is-stopped": ("SL-14", "start open run stop requeue end"),
    "requeue-while-it-is-stopped-requeueable": ("SL-14", "start:requeue open run stop requeue end"),
    "hold-while-it-is-stopped": ("SL-14 SL-6", "start open run stop hold:1 end"),
    "bit-while-it-is-stopped": ("SL-14 SL-9", "start:requeue open run stop bit_off end"),
    "stop-while-it-is-requeued": ("SL-14 SL-5", "start open run requeue stop end"),
    "bit-while-it-is-requeued": ("SL-14 SL-9", "start:requeue open run requeue bit_off end"),
    "hold-while-it-is-requeued": ("SL-14 SL-6", "start open run requeue hold:1 end"),
    "requeued-by-another-takes-time": ("SL-14 SL-7", "start open run requeue_externally requeue_externally end"),
}
SCRIPTS: tuple[Script, ...] = tuple(
    Script(name, tuple(rules.split()), tuple(steps.split()), slow)
    for stories, slow in ((STORIES, False), (SLOW_STORIES, True))
    for name, (rules, steps) in stories.items()
)
"""All of them."""
