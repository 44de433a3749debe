"""The adapter for a real Slurm, without one: what it reads, what it makes of complaints, and what it runs."""

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from ulid import ULID

from dispatch_memory_async import (
    EPOCH_BOUND,
    HOLD_BASE,
    Action,
    Adapter,
    CallMeta,
    Capability,
    Cause,
    ClosedError,
    DispatchError,
    ExpiredError,
    FinishedError,
    HeldError,
    Holder,
    HoldMeta,
    IdentityWeakener,
    InvalidError,
    Job,
    MultiFinder,
    NativePolicy,
    NativePolicyCompiler,
    NotFoundError,
    Observation,
    OutcomeUnknownError,
    PendingError,
    Policy,
    ReadOnlyError,
    Ref,
    ReleaseMeta,
    Requeuer,
    Resources,
    Rule,
    RunningError,
    StaleError,
    State,
    Tristate,
    UnavailableError,
    UnsupportedError,
    Watcher,
)
from examples.slurm_cli import Commands, Settings, SlurmAdapter
from examples.slurm_cli.commands import CommandError, meaning
from examples.slurm_cli.reading import WIDTHS, read_history, read_queue
from examples.slurm_cli.script import batch_script, options
from tests.support import run_virtually

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "trio"])
"""For tests of what takes time, which is virtual."""

JOB = ULID.from_str("01KB7Y0000000000000000000A")
AT = datetime(2026, 11, 29, 22, 0, tzinfo=UTC)
SUBMITTED = datetime(2026, 11, 29, 21, 46, 32, tzinfo=UTC)
REF = Ref(name=f"dj-{JOB}", id="1000", submitted_at=SUBMITTED)
SOON = datetime(2100, 1, 1, tzinfo=UTC)
PAST = datetime(2020, 1, 1, tzinfo=UTC)

SHOWN = {
    "JobID": "1000",
    "State": "PENDING",
    "PriorityLong": "4294901759",
    "RestartCnt": "0",
    "Requeue": "0",
    "exit_code": "0",
    "SubmitTime": "2026-11-29T21:46:32",
    "EligibleTime": "2026-11-29T21:46:32",
    "StartTime": "N/A",
    "EndTime": "N/A",
    "BatchHost": "n/a",
    "Reason": "None",
    "Name": f"dj-{JOB}",
    "Comment": "dispatch/7",
}
RAN = {"BatchHost": "n1", "StartTime": "2026-11-29T21:46:55", "EndTime": "2026-11-29T21:47:03"}


def line(**fields: str) -> str:
    """A line as squeue prints it: each column padded to its width, and cut there."""
    return "".join(f"{({**SHOWN, **fields})[name]:{width}.{width}}|" for name, width in WIDTHS.items())


def shown(**fields: str) -> Observation:
    (seen,) = read_queue(line(**fields), "dispatch", AT)
    return seen


GATED = {"PriorityLong": "0", "Reason": "JobHeldUser", "EligibleTime": "N/A"}


# what squeue prints


def test_a_waiting_job_is_read() -> None:
    assert shown() == Observation(
        ref=REF, job_id=JOB, submission=7, state=State.PENDING, requeue_bit=False, observed_at=AT
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (GATED, {"cause": Cause.GATED, "gated": True}),
        ({"PriorityLong": "0", "Reason": "JobHeldAdmin"}, {"cause": Cause.ADMIN_HELD, "gated": False}),
        ({"Reason": "Resources"}, {"cause": Cause.NO_CAPACITY, "detail": "Resources"}),
        (
            {"Reason": "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"},
            {"cause": Cause.NO_CAPACITY},
        ),
        ({"Reason": "BeginTime", "RestartCnt": "2", "Requeue": "1"}, {"cause": Cause.REQUEUED, "requeue_bit": True}),
        ({"Reason": "PartitionDown"}, {"cause": None, "detail": ""}),
        ({"State": "RUNNING", **RAN}, {"state": State.RUNNING, "cause": None, "ended_at": None}),
        ({"State": "COMPLETING", **RAN}, {"state": State.RUNNING, "cause": None, "ended_at": None}),
        (
            {"State": "COMPLETING", **RAN, "EndTime": "NONE", "RestartCnt": "3"},
            {"state": State.RUNNING, "cause": Cause.REQUEUED, "restarts": 2},
        ),
        (
            {"State": "COMPLETING", **RAN, "EndTime": "2027-11-29T21:47:03", "RestartCnt": "3"},
            {"state": State.RUNNING, "cause": Cause.REQUEUED, "restarts": 2},
        ),
        ({"State": "COMPLETED", **RAN}, {"state": State.SUCCEEDED, "cause": None, "exit_code": 0}),
        (
            {"State": "FAILED", "exit_code": "768", "Reason": "NonZeroExitCode", **RAN},
            {"state": State.FAILED, "cause": Cause.NON_ZERO_EXIT, "exit_code": 3},
        ),
        ({"State": "FAILED", "exit_code": "65280", **RAN}, {"cause": Cause.NON_ZERO_EXIT, "exit_code": 255}),
        (
            {"State": "FAILED", "exit_code": "11", "Reason": "JobLaunchFailure", **RAN},
            {"cause": Cause.NON_ZERO_EXIT, "exit_code": None, "detail": "killed by signal 11"},
        ),
        ({"State": "FAILED", "exit_code": "139", **RAN}, {"detail": "killed by signal 11"}),
        (
            {"State": "FAILED", "exit_code": "4021", "Reason": "JobLaunchFailure", **RAN},
            {"state": State.FAILED, "cause": Cause.LAUNCH_FAILED, "exit_code": None},
        ),
        ({"State": "FAILED", "exit_code": "0", **RAN}, {"state": State.FAILED, "cause": Cause.UNKNOWN}),
        ({"State": "TIMEOUT", "exit_code": "15", **RAN}, {"cause": Cause.TIMEOUT, "exit_code": None}),
        ({"State": "PREEMPTED", "exit_code": "15", **RAN}, {"state": State.FAILED, "cause": Cause.PREEMPTED}),
        ({"State": "NODE_FAIL", **RAN}, {"state": State.FAILED, "cause": Cause.NODE_LOST, "exit_code": None}),
        ({"State": "OUT_OF_MEMORY", **RAN}, {"state": State.FAILED, "cause": Cause.OUT_OF_MEMORY}),
        ({"State": "CANCELLED", **RAN}, {"state": State.CANCELLED, "cause": Cause.STOPPED}),
    ],
)
def test_states_reasons_and_exit_codes_are_told_apart(fields: dict[str, str], expected: dict[str, Any]) -> None:
    seen = shown(**fields)
    assert {name: getattr(seen, name) for name in expected} == expected


def test_a_job_that_was_cancelled_before_it_ran_has_no_beginning() -> None:
    times = {"StartTime": "2026-11-29T21:47:03", "EndTime": "2026-11-29T21:47:03"}
    assert shown(State="CANCELLED", **times).started_at is None
    assert shown(State="CANCELLED", **times).ended_at == datetime(2026, 11, 29, 21, 47, 3, tzinfo=UTC)
    assert shown(State="CANCELLED", BatchHost="n1", **times).started_at is not None


@pytest.mark.parametrize("instance", [1, 7, EPOCH_BOUND - 1])
def test_a_start_time_far_ahead_is_a_hold(instance: int) -> None:
    begin = f"{SUBMITTED + HOLD_BASE + timedelta(seconds=instance):%Y-%m-%dT%H:%M:%S}"
    seen = shown(EligibleTime=begin, Reason="BeginTime")
    assert (seen.hold, seen.cause, seen.gated) == (instance, Cause.HELD, False)
    assert shown(**{**GATED, "EligibleTime": begin}).hold == instance
    assert shown(**{**GATED, "EligibleTime": begin}).cause is Cause.GATED


def test_a_hold_whose_instance_was_lost_is_a_hold_all_the_same() -> None:
    """Somebody else's requeue moves the submit time, and not the start time."""
    begin = f"{SUBMITTED + HOLD_BASE - timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}"
    assert shown(EligibleTime=begin).hold == 1
    assert shown(EligibleTime="2026-11-29T21:48:58", Reason="BeginTime").hold is None


def test_jobs_stand_in_the_order_of_their_ids() -> None:
    text = "\n".join(line(JobID=number) for number in ("1000", "999", "1001"))
    assert [seen.ref.id for seen in read_queue(text, "dispatch", AT)] == ["999", "1000", "1001"]
    assert read_queue("", "dispatch", AT) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"Comment": "another/7"},
        {"Comment": "dispatch/x"},
        {"Comment": ""},
        {"Name": "x|dj-y"},
        {"Name": "dj-01KB7Y0000000000000000000"},
        {"Name": "a name\twith | bars", "Comment": "of, 'somebody' | else"},
        {"Name": f"dj-{JOB}", "Comment": "dispatch.2/7"},
        {"JobID": "1000_[1-4]", "Name": "an array"},
    ],
)
def test_jobs_of_others_are_left_out(fields: dict[str, str]) -> None:
    if fields.get("Comment") == "dispatch/x":
        with pytest.raises(UnavailableError, match="cannot read"):
            read_queue(line(**fields), "dispatch", AT)
    else:
        assert read_queue(line(**fields), "dispatch", AT) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"State": "LEVITATING"},
        {"State": ""},
        {"RestartCnt": "many"},
        {"Requeue": "yes"},
        {"SubmitTime": "N/A"},
        {"SubmitTime": "29 Nov 21:46"},
        {"EndTime": "2026-11-29"},
        {"Comment": "dispatch/0"},
        {"Comment": "dispatch/1000000"},
        {"JobID": "1000_1"},
    ],
)
def test_what_is_not_understood_is_an_error(fields: dict[str, str]) -> None:
    """An unknown state is neither a success nor a failure."""
    with pytest.raises(UnavailableError, match="cannot read"):
        read_queue(line(**fields), "dispatch", AT)


def test_a_line_that_was_cut_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="cannot read"):
        read_queue(line()[10:], "dispatch", AT)


# what sacct prints


RECORD = f"1000|FAILED|3:0|2026-11-29T21:46:32|2026-11-29T21:46:55|2026-11-29T21:47:03|n1|dj-{JOB}|dispatch/7"


def recorded(*lines: str) -> list[Observation]:
    return read_history("\n".join(lines), "dispatch", AT)


def test_a_record_is_read() -> None:
    (seen,) = recorded(RECORD)
    assert seen == Observation(
        ref=REF,
        job_id=JOB,
        submission=7,
        state=State.FAILED,
        cause=Cause.NON_ZERO_EXIT,
        exit_code=3,
        started_at=datetime(2026, 11, 29, 21, 46, 55, tzinfo=UTC),
        ended_at=datetime(2026, 11, 29, 21, 47, 3, tzinfo=UTC),
        observed_at=AT,
        from_history=True,
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("FAILED|3:0", "COMPLETED|0:0", (State.SUCCEEDED, None, 0)),
        ("FAILED|3:0", "CANCELLED by 1001|0:0", (State.CANCELLED, Cause.STOPPED, None)),
        ("FAILED|3:0", "FAILED|0:9", (State.FAILED, Cause.NON_ZERO_EXIT, None)),
        ("FAILED|3:0", "FAILED|0:53", (State.FAILED, Cause.LAUNCH_FAILED, None)),
        ("FAILED|3:0", "NODE_FAIL|1:0", (State.FAILED, Cause.NODE_LOST, None)),
        ("FAILED|3:0", "PREEMPTED|0:0", (State.FAILED, Cause.PREEMPTED, None)),
        ("FAILED|3:0", "TIMEOUT|0:0", (State.FAILED, Cause.TIMEOUT, None)),
    ],
)
def test_records_tell_causes_apart(old: str, new: str, expected: tuple[Any, ...]) -> None:
    (seen,) = recorded(RECORD.replace(old, new))
    assert (seen.state, seen.cause, seen.exit_code) == expected


def test_the_last_record_of_a_job_is_the_job_and_the_others_are_restarts() -> None:
    again = RECORD.replace("21:46:32", "21:50:00")
    (seen,) = recorded(again, RECORD.replace("FAILED|3:0", "REQUEUED|0:0"))
    assert (seen.restarts, seen.ref.submitted_at) == (1, datetime(2026, 11, 29, 21, 50, tzinfo=UTC))
    other = RECORD.replace("dispatch/7", "dispatch/8")
    assert [one.submission for one in recorded(RECORD, other)] == [7, 8]


def test_what_has_not_ended_is_no_history() -> None:
    assert recorded(RECORD.replace("FAILED|3:0", "RUNNING|0:0").replace("2026-11-29T21:47:03", "Unknown")) == []
    assert recorded(RECORD.replace("dispatch/7", ""), RECORD.replace("dispatch/7", "other/7")) == []
    with pytest.raises(UnavailableError, match="cannot read"):
        recorded(RECORD.replace("FAILED", "LEVITATING"))


# what the script and the options are


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {"id": JOB, "command": ("sleep", "60"), **fields}
    return Job(**given)


def test_commands_and_values_reach_the_process_as_they_are() -> None:
    """By a real shell: quotes, blanks, newlines and dollars are nothing special."""
    odd = 'it\'s $HOME `date` "quoted"\n; exit 3 # \\'
    asked = job(command=("printf", r"%s\0", odd, "-n", ""), env={"ODD": odd})
    script = batch_script(asked, 3, {"PATH": "/usr/bin:/bin"})
    done = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=True, env={})
    assert done.stdout == f"{odd}\0-n\0\0".encode()
    shown = batch_script(job(command=("env", "-0"), env={"ODD": odd}), 3, {"PATH": "/usr/bin:/bin"})
    done = subprocess.run(
        ["/bin/sh"], input=shown.encode(), capture_output=True, check=True, env={"SLURM_RESTART_COUNT": "2"}
    )
    environment = {entry.partition("=")[0]: entry.partition("=")[2] for entry in done.stdout.decode().split("\0")}
    assert environment["ODD"] == odd
    assert environment["DISPATCH_EPOCH"] == str(3 * EPOCH_BOUND + 2)
    assert len(environment["DISPATCH_ATTEMPT"]) == 36


@pytest.mark.parametrize(
    "fields",
    [{"command": ()}, {"command": ("a\0b",)}, {"env": {"A-B": "x"}}, {"env": {"": "x"}}, {"env": {"A": "\0"}}],
)
def test_a_script_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        batch_script(job(**fields), 1, {})


def test_what_a_job_asks_for_becomes_options() -> None:
    wants = Resources(nodes=2, cpus_per_node=4, memory_per_node=2**20 + 1, gpus_per_node=1)
    asked = job(
        resources=wants, time_limit=timedelta(seconds=61), queue="long one", extensions={"slurm": {"qos": "--x"}}
    )
    assert list(options(asked, "other")) == [
        "--nodes=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=4",
        "--mem=2M",
        "--gpus-per-node=1",
        "--time=2",
        "--partition=long one",
        "--qos=--x",
    ]
    assert "--partition=other" in options(job(), "other")
    assert "srun" in batch_script(asked, 1, {})
    with pytest.raises(InvalidError, match=r"extensions\.slurm"):
        list(options(job(extensions={"slurm": {"uid": "0"}}), ""))
    with pytest.raises(UnsupportedError, match="container"):
        list(options(job(image="x"), ""))


# what complaints mean


@pytest.mark.parametrize(
    ("said", "write", "read"),
    [
        ("slurm_load_jobs error: Invalid job id specified", NotFoundError, NotFoundError),
        ("Job has already finished for job 7", FinishedError, FinishedError),
        ("Job is no longer pending execution for job 7", RunningError, RunningError),
        ("Job is pending execution for job 7", PendingError, PendingError),
        ("Requested operation is presently disabled for job 7", UnsupportedError, UnsupportedError),
        ("Access/permission denied for job 7", HeldError, HeldError),
        ("Unable to contact slurm controller (connect failure)", UnavailableError, UnavailableError),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", InvalidError, InvalidError),
        ("Socket timed out on send/recv operation", OutcomeUnknownError, UnavailableError),
        ("Unexpected message received for job 7", OutcomeUnknownError, UnavailableError),
        ("", OutcomeUnknownError, UnavailableError),
        ("something new", OutcomeUnknownError, UnavailableError),
    ],
)
def test_what_is_not_known_to_have_changed_nothing_is_an_unknown_outcome(
    said: str, write: type[DispatchError], read: type[DispatchError]
) -> None:
    error = CommandError("scontrol", 1, said)
    assert type(meaning(error, writes=True)) is write
    assert type(meaning(error, writes=False)) is read


# commands


async def test_commands_run_without_a_shell_in_an_environment_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    assert await Commands().run("look", "echo", "$HOME; `x`") == "$HOME; `x`\n"
    assert await Commands().run("start", "cat", script="read\n") == "read\n"
    printed = await Commands({"SLURM_CONF": "/x"}).run("look", "env")
    assert "SLURM_CONF=/x\n" in printed
    assert "TZ=UTC\n" in printed
    assert "SQUEUE_FORMAT" not in printed
    with pytest.raises(CommandError, match="1"):
        await Commands().run("look", "false")
    with pytest.raises(UnavailableError, match="cannot be run"):
        await Commands().run("look", "/no/such/command")


class Fake(Commands):
    """Answers to commands by their first two words; what they change is up to the test."""

    def __init__(self, **shown: str) -> None:
        super().__init__()
        self.text: str | Exception = line(**shown)
        self.ran: list[tuple[str, ...]] = []
        self.answers: dict[str, Callable[[], str]] = {}
        self.history = ""
        self.script = ""

    async def run(self, call: str, *command: str, script: str = "") -> str:
        del call
        await anyio.lowlevel.checkpoint()
        if command[0] == "squeue":
            if isinstance(self.text, Exception):
                raise self.text
            return self.text
        if command[0] == "sacct":
            return self.history
        self.ran.append(command)
        self.script = script
        answer = self.answers.get(" ".join(command[:2])) or self.answers.get(command[0])
        return answer() if answer else ""

    def fails(self, what: str, said: str) -> None:
        def fail() -> str:
            raise CommandError(what, 1, said)

        self.answers[what] = fail


def adapter(fake: Fake, **settings: Any) -> SlurmAdapter:
    return SlurmAdapter(Settings(**settings), fake)


UNKNOWN = CommandError("squeue", 1, "slurm_load_jobs error: Invalid job id specified")
BEGIN = f"{SUBMITTED + HOLD_BASE + timedelta(seconds=5):%Y-%m-%dT%H:%M:%S}"
HELD = {"EligibleTime": BEGIN, "Reason": "BeginTime"}


async def test_it_has_the_interfaces_that_it_says_it_has() -> None:
    made = adapter(Fake())
    for interface in (Adapter, Holder, Requeuer, Watcher, IdentityWeakener, MultiFinder, NativePolicyCompiler):
        assert isinstance(made, interface)
    said = await made.capabilities()
    assert said.support[Capability.ACCOUNTING_HISTORY].value is Tristate.NO
    assert (await adapter(Fake(), accounting=True).capabilities()).support[
        Capability.ACCOUNTING_HISTORY
    ].value is Tristate.YES


async def test_start_submits_on_hold_and_answers_the_exact_ref() -> None:
    fake = Fake(**GATED)
    fake.answers["sbatch"] = lambda: "1000;cluster\n"
    assert await adapter(fake, partition="p").start(job(), 7) == REF
    (command,) = fake.ran
    assert {"--hold", "--no-requeue", f"--job-name=dj-{JOB}", "--comment=dispatch/7", "--export=ALL"} < set(command)
    assert "exec sleep 60" in fake.script
    native = NativePolicy(settings={"requeue": "1"}, covered=(0,), rest=Policy())
    await adapter(fake).start(job(), 7, native=native)
    assert "--requeue" in fake.ran[1]


async def test_start_says_when_it_does_not_know() -> None:
    fake = Fake()
    fake.answers["sbatch"] = lambda: "hello"
    with pytest.raises(OutcomeUnknownError, match="hello"):
        await adapter(fake).start(job(), 1)
    fake.answers["sbatch"] = lambda: "1000"
    fake.text = UNKNOWN
    with pytest.raises(OutcomeUnknownError, match="cannot be seen"):
        await adapter(fake).start(job(), 1)
    fake.fails("sbatch", "Unable to contact slurm controller (connect failure)")
    with pytest.raises(UnavailableError):
        await adapter(fake).start(job(), 1)


@LOOPS
def test_a_command_that_does_not_end_is_given_up(loop: str) -> None:
    async def main() -> None:
        class Slow(Fake):
            async def run(self, call: str, *command: str, script: str = "") -> str:
                if command[0] == self.slow:
                    await anyio.sleep(60)
                return await super().run(call, *command, script=script)

            slow = "scancel"

        fake = Slow()
        with pytest.raises(OutcomeUnknownError, match="no answer"):
            await adapter(fake, call_bound=timedelta(milliseconds=20)).stop(REF)
        fake.slow = "squeue"
        with pytest.raises(UnavailableError, match="no answer"):
            await adapter(fake, call_bound=timedelta(milliseconds=20)).stop(REF)

    run_virtually(loop, main)


async def test_a_write_under_way_is_not_cancelled() -> None:
    fake = Fake()
    done = anyio.Event()

    def cancel() -> str:
        scope.cancel()
        done.set()
        return ""

    fake.answers["scancel"] = cancel
    with anyio.CancelScope() as scope:
        await adapter(fake).stop(REF)
    assert done.is_set()


async def test_stop_names_the_job_by_id_and_name() -> None:
    fake = Fake(State="RUNNING", **RAN)
    await adapter(fake).stop(REF)
    assert fake.ran == [("scancel", "--me", f"--name=dj-{JOB}", "1000")]
    fake.fails("scancel", "scancel: error: Kill job error on job id 1000: Invalid job id specified")
    await adapter(fake).stop(REF)
    fake.text = line(State="COMPLETED", **RAN)
    await adapter(fake).stop(REF)
    assert len(fake.ran) == 2


async def test_a_ref_with_another_time_names_nothing() -> None:
    fake = Fake()
    earlier = Ref(name=REF.name, id=REF.id, submitted_at=SUBMITTED - timedelta(seconds=1))
    for ref in (earlier, Ref(name=REF.name, id="1000x", submitted_at=SUBMITTED)):
        with pytest.raises(NotFoundError):
            await adapter(fake).stop(ref)
        with pytest.raises(NotFoundError):
            await adapter(fake).get(ref)
    with pytest.raises(InvalidError):
        await adapter(fake).stop(await adapter(fake).weaken_identity(REF))
    assert fake.ran == []


async def test_open_releases_what_is_gated_alone() -> None:
    fake = Fake(**GATED)
    await adapter(fake).open(REF)
    assert fake.ran == [("scontrol", "release", "1000")]
    fake.text = line()
    await adapter(fake).open(REF)
    assert len(fake.ran) == 1
    fake.text = line(PriorityLong="0", Reason="JobHeldAdmin")
    with pytest.raises(HeldError):
        await adapter(fake).open(REF)
    fake.text = line(State="CANCELLED")
    with pytest.raises(FinishedError):
        await adapter(fake).open(REF)


async def test_a_hold_is_a_start_time() -> None:
    fake = Fake()
    await adapter(fake).hold(REF, HoldMeta(deadline=SOON, instance=5))
    assert fake.ran == [("scontrol", "update", "JobId=1000", f"StartTime={BEGIN}")]
    fake.text = line(**HELD)
    with pytest.raises(StaleError) as stale:
        await adapter(fake).hold(REF, HoldMeta(deadline=SOON, instance=4))
    assert stale.value.current == 5
    with pytest.raises(StaleError):
        await adapter(fake).release(REF, ReleaseMeta(SOON, 6))
    await adapter(fake).hold(REF, HoldMeta(deadline=SOON, instance=5))
    assert len(fake.ran) == 1
    await adapter(fake).release(REF, ReleaseMeta(SOON, 5))
    assert fake.ran[1:] == [("scontrol", "update", "JobId=1000", "StartTime=now")]
    fake.text = line(State="RUNNING", **RAN)
    with pytest.raises(RunningError):
        await adapter(fake).hold(REF, HoldMeta(deadline=SOON, instance=6))


SET, AGAIN, CLEAR = (
    ("scontrol", "update", "JobId=1000", "Requeue=1"),
    ("scontrol", "requeue", "1000"),
    ("scontrol", "update", "JobId=1000", "Requeue=0"),
)


@pytest.mark.parametrize(("bit", "steps"), [("0", [SET, AGAIN, CLEAR]), ("1", [AGAIN])])
async def test_a_requeue_restores_the_bit_as_it_was(bit: str, steps: list[tuple[str, ...]]) -> None:
    fake = Fake(State="RUNNING", Requeue=bit, **RAN)

    def requeued() -> str:
        fake.text = line(RestartCnt="1", Requeue=bit, SubmitTime="2026-11-29T21:50:00")
        return ""

    fake.answers["scontrol requeue"] = requeued
    await adapter(fake).requeue(REF, CallMeta(SOON))
    assert fake.ran == steps


@pytest.mark.parametrize(
    ("said", "error"),
    [("Job is pending execution", PendingError), ("Socket timed out on send/recv operation", OutcomeUnknownError)],
)
async def test_a_refused_requeue_restores_the_bit(said: str, error: type[DispatchError]) -> None:
    fake = Fake()
    fake.fails("scontrol requeue", said)
    with pytest.raises(error):
        await adapter(fake).requeue(REF, CallMeta(SOON))
    assert fake.ran == [SET, AGAIN, CLEAR]


@pytest.mark.parametrize("said", ["Invalid job id specified", "Unable to contact slurm controller"])
async def test_a_requeue_that_was_done_is_never_said_to_have_changed_nothing(said: str) -> None:
    fake = Fake(State="RUNNING", Requeue="1", **RAN)

    def requeued() -> str:
        fake.text = CommandError("squeue", 1, said)
        return ""

    fake.answers["scontrol requeue"] = requeued
    with pytest.raises(OutcomeUnknownError, match="was requeued"):
        await adapter(fake).requeue(REF, CallMeta(SOON))
    fake = Fake(State="RUNNING", **RAN)
    fake.fails("scontrol update", "Unable to contact slurm controller")
    with pytest.raises(UnavailableError):
        await adapter(fake).requeue(REF, CallMeta(SOON))

    def broken() -> str:
        fake.fails("scontrol update", "Unable to contact slurm controller")
        return ""

    fake.answers = {"scontrol requeue": broken}
    with pytest.raises(OutcomeUnknownError, match="may be left set"):
        await adapter(fake).requeue(REF, CallMeta(SOON))


async def test_a_requeue_that_loses_to_an_end_is_no_success() -> None:
    fake = Fake(State="COMPLETING", Requeue="1", **RAN)
    with pytest.raises(RunningError, match="just ending"):
        await adapter(fake).requeue(REF, CallMeta(SOON))
    fake = Fake(State="COMPLETING", RestartCnt="1", **{**RAN, "EndTime": "NONE"})
    with pytest.raises(RunningError, match="on its way back"):
        await adapter(fake).requeue(REF, CallMeta(SOON))
    fake = Fake(State="FAILED", exit_code="256", **RAN)
    with pytest.raises(FinishedError, match="bit clear"):
        await adapter(fake).requeue(REF, CallMeta(SOON))


class SlowToUpdate(Fake):
    """In which others do much before an update is done."""

    async def run(self, call: str, *command: str, script: str = "") -> str:
        for _ in range(20 * (command[:2] == ("scontrol", "update"))):
            await anyio.lowlevel.checkpoint()
        return await super().run(call, *command, script=script)


async def test_a_watch_does_not_look_between_the_steps_of_a_requeue() -> None:
    fake = SlowToUpdate(State="RUNNING", **RAN)
    made = adapter(fake)
    order: list[str] = []

    async def look() -> None:
        await made.look_at_all()
        order.append("looked")

    async with anyio.create_task_group() as tasks:

        def requeued() -> str:
            fake.text = line(RestartCnt="1", Requeue="1")
            tasks.start_soon(look)
            return ""

        def updated() -> str:
            order.append(fake.ran[-1][-1])
            return ""

        fake.answers = {"scontrol requeue": requeued, "scontrol update": updated}
        await made.requeue(REF, CallMeta(SOON))
    assert order == ["Requeue=1", "Requeue=0", "looked"]


async def test_what_was_cancelled_while_held_comes_back_held_and_open() -> None:
    fake = Fake(**{**GATED, "State": "CANCELLED", "Requeue": "1", "EligibleTime": BEGIN})
    moved = {**GATED, "RestartCnt": "1", "Requeue": "1", "SubmitTime": "2026-11-29T21:46:42", "EligibleTime": BEGIN}

    def requeued() -> str:
        fake.text = line(**moved)
        return ""

    fake.answers["scontrol requeue"] = requeued
    await adapter(fake).requeue(REF, CallMeta(SOON))
    later = f"{SUBMITTED + HOLD_BASE + timedelta(seconds=15):%Y-%m-%dT%H:%M:%S}"
    assert fake.ran[1:] == [
        ("scontrol", "release", "1000"),
        ("scontrol", "update", "JobId=1000", f"StartTime={later}"),
    ]


async def test_the_bit_is_cleared_where_it_is_set() -> None:
    fake = Fake(Requeue="1")
    await adapter(fake).restore_requeue_bit(REF, CallMeta(SOON))
    assert fake.ran == [CLEAR]
    fake.text = line()
    await adapter(fake).restore_requeue_bit(REF, CallMeta(SOON))
    assert fake.ran == [CLEAR]


async def test_late_closed_and_read_only_calls_run_nothing() -> None:
    fake = Fake()
    made = adapter(fake)
    for late in (
        made.stop(REF, deadline=PAST),
        made.open(REF, deadline=PAST),
        made.start(job(), 1, deadline=PAST),
        made.requeue(REF, CallMeta(PAST)),
    ):
        with pytest.raises(ExpiredError):
            await late
    reading: Any = adapter(fake, read_only=True)
    for call in (reading.stop(REF), reading.requeue(REF, None), reading.hold(REF, None), reading.start(None, 0)):
        with pytest.raises(ReadOnlyError):
            await call
    assert (await reading.get(REF)).ref == REF
    await made.aclose()
    with pytest.raises(ClosedError):
        await made.get(REF)
    with pytest.raises(ClosedError):
        made.watch()
    assert fake.ran == []


async def test_history_answers_for_what_is_forgotten() -> None:
    fake = Fake()
    fake.text = UNKNOWN
    with pytest.raises(NotFoundError):
        await adapter(fake).get(REF)
    fake.history = RECORD
    made = adapter(fake, accounting=True)
    weak = await made.weaken_identity(REF)
    assert (await made.get(REF)).from_history
    assert (await made.get(weak)).ref == REF
    with pytest.raises(NotFoundError):
        await made.stop(REF)
    fake.text = line(JobID="1001")
    assert [(seen.ref.id, seen.from_history) for seen in await made.find(JOB)] == [("1000", True), ("1001", False)]
    fake.text = line()
    assert [seen.from_history for seen in await made.find(JOB)] == [False]


async def test_records_of_earlier_runs_are_not_the_job() -> None:
    """A requeue ends the old run's record at once, and the old exact ref with it."""
    fake = Fake(SubmitTime="2026-11-29T21:50:00", RestartCnt="1")
    fake.history = RECORD.replace("FAILED|3:0", "PREEMPTED|0:0")
    with pytest.raises(NotFoundError):
        await adapter(fake, accounting=True).get(REF)
    fake.history = RECORD.replace("dispatch/7", "dispatch/6")  # another job, which had that id before
    assert (await adapter(fake, accounting=True).get(REF)).submission == 6


async def test_find_many_has_a_key_for_every_job() -> None:
    other = ULID()
    found = await adapter(Fake()).find_many([JOB, other])
    assert {key: len(seen) for key, seen in found.items()} == {JOB: 1, other: 0}
    assert await adapter(Fake()).find_many([]) == {}


async def test_one_bit_carries_out_both_interruptions_or_none() -> None:
    made = adapter(Fake())
    both = Rule(causes=frozenset({Cause.PREEMPTED, Cause.NODE_LOST}), action=Action.RESTART)
    one = Rule(causes=frozenset({Cause.PREEMPTED}), action=Action.RESTART)
    assert (await made.compile_policy(Policy((both,)))).settings == {"requeue": "1"}
    assert (await made.compile_policy(Policy((one, both)))).covered == ()
    assert (await made.compile_policy(Policy((one,)))).rest == Policy((one,))


@LOOPS
def test_a_watch_tells_in_what_two_looks_differ(loop: str) -> None:
    async def main() -> None:
        fake = Fake()
        made = adapter(fake, poll=timedelta(milliseconds=1))
        async with anyio.create_task_group() as tasks, made.watch() as watch:
            assert not watch.synced
            assert (await anext(watch)).state is State.PENDING
            assert watch.synced
            fake.text = line(State="RUNNING", **RAN)
            assert (await anext(watch)).state is State.RUNNING
            fake.text = CommandError("squeue", 1, "Socket timed out")
            with pytest.raises(UnavailableError):
                await anext(made.watch())

            async def back() -> None:
                await anyio.sleep(0.01)
                fake.text = line(JobID="1001")

            tasks.start_soon(back)  # meanwhile it looks in vain
            assert [((one := await anext(watch)).state, one.ref.id) for _ in range(2)] == [
                (State.GONE, "1000"),
                (State.PENDING, "1001"),
            ]
            await made.aclose()
            assert [seen async for seen in watch] == []
        assert watch.closed_by == "closed"

    run_virtually(loop, main)


@LOOPS
def test_a_cancelled_watch_has_ended(loop: str) -> None:
    async def main() -> None:
        watch = adapter(Fake()).watch()
        await anext(watch)
        with anyio.move_on_after(0.01):
            await anext(watch)
        assert watch.closed_by == "cancelled"

    run_virtually(loop, main)


def test_a_scope_is_a_plain_word() -> None:
    for scope in ("", "a/b", "a b", "ü", "x" * 65):
        with pytest.raises(InvalidError):
            Settings(scope=scope)
