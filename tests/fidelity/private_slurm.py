"""A private Slurm: its own folder and ports, on loopback, without systemd and without containers.

It ends what it has started, by process, and nothing else. As root, with Debian's packages (``install.sh``).
"""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

__all__ = ("PrivateSlurm",)

USER = "games"
"""Who the jobs belong to: a normal user, as Debian has it from the start."""
NODES = 24
PARTITIONS = tuple(f"p{number}" for number in range(1, 17))
"""Each is down but while somebody starts a job in it."""
AGE = 20
NODE_TIMEOUT = 10
KILL_WAIT = 15
"""What only a job notices that does not end when it is told to."""
PATIENCE = 90
CONF = """\
ClusterName=fidelity
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/run/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
BatchStartTimeout=1
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge={age}
SlurmdTimeout={node_timeout}
SlurmctldTimeout=30
KillWait={kill_wait}
ReturnToService=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[1]}
AccountingStorageUser=root
AccountingStoragePass={folder}/run/munge.sock
AccountingStoreFlags=job_comment
NodeName=n[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 RealMemory=4000
NodeName=none NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[3]} CPUs=1 RealMemory=4000 State=DOWN
PartitionName=wait Nodes=n[1-{nodes}] State=DOWN MaxTime=INFINITE Default=YES
PartitionName=full Nodes=none State=UP MaxTime=INFINITE
{partitions}
PartitionName=high Nodes=n[1-{nodes}] State=UP MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""
DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
CommunicationParameters=NoInAddrAny
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={ports[1]}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports[2]}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""
SQL = """\
create database slurm_acct_db;
create user 'slurm'@'127.0.0.1' identified by 'slurm'; create user 'slurm'@'localhost' identified by 'slurm';
grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1'; grant all on slurm_acct_db.* to 'slurm'@'localhost';
"""
SLEEP = """\
#!/bin/sh
# what jobs run: it waits until it is told what to do
told={folder}/told/$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}
mkfifo "$told.new" && mv "$told.new" "$told" && read -r status <"$told"
exit "$status"
"""
STUBBORN = """\
#!/bin/sh
# what jobs run that do not end when they are told to
trap '' TERM
exec sleep "$@"
"""


class PrivateSlurm:
    """A Slurm of one's own, from entering the context to leaving it.

    :ivar folder: where all of it lives
    :ivar environment: what its commands need
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: Mapping[str, str] = {"SLURM_CONF": str(folder / "etc/slurm.conf")}
        self._base = {**self.environment, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._ends.__enter__()
        try:
            self._begin()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def _begin(self) -> None:
        for name in ("etc", "log", "run", "state", "spool", "bin", "jobs", "told", "mysql"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        for name in ("run", "told"):
            (self.folder / name).chmod(0o1777)
        for daemon in ("slurmctld", "slurmd", "slurmstepd"):  # they look at the name by which they are called
            real = Path(f"/usr/sbin/{daemon}-wlm")
            (self.folder / "bin" / daemon).symlink_to(real if real.exists() else Path(f"/usr/sbin/{daemon}"))
        self._write("jobs/sleep", SLEEP.format(folder=self.folder), 0o755)
        self._write("jobs/stubborn", STUBBORN, 0o755)
        key = self.folder / "etc/munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        ports = _free_ports(4 + NODES)
        said = {
            "host": socket.gethostname().partition(".")[0],
            "folder": self.folder,
            "ports": ports,
            "nodes": NODES,
            "partitions": "\n".join(
                f"PartitionName={name} Nodes=n[1-{NODES}] State=DOWN MaxTime=INFINITE PriorityTier=1"
                for name in PARTITIONS
            ),
            "first": ports[4],
            "last": ports[-1],
            "age": AGE,
            "node_timeout": NODE_TIMEOUT,
            "kill_wait": KILL_WAIT,
        }
        self._write("etc/slurm.conf", CONF.format(**said), 0o644)
        self._write("etc/slurmdbd.conf", DBD_CONF.format(**said), 0o600)
        self._begin_munge()
        self._begin_accounting(ports[2])
        self._daemon("slurmctld", f"{self.folder}/bin/slurmctld", "-D")
        self._until("slurmctld answers", lambda: " UP" in self.run("scontrol", "ping"))
        self._ends.callback(self._end_jobs)
        for number in range(1, NODES + 1):
            self.start_node(f"n{number}")
        self._until(
            "every node is idle",
            lambda: self.run("sinfo", "-hNrp", "high", "-t", "idle", "-o", "%N").count("n") == NODES,
        )

    def _begin_munge(self) -> None:
        run = self.folder / "run"
        options = {
            "key-file": self.folder / "etc/munge.key",
            "socket": run / "munge.sock",
            "pid-file": run / "munged.pid",
            "log-file": self.folder / "log/munged.log",
            "seed-file": run / "munge.seed",
            "num-threads": 4,
        }
        self._daemon("munged", "munged", "--foreground", "--force", *(f"--{k}={v}" for k, v in options.items()))
        self._until("munged answers", lambda: bool(self.run("munge", "-n", "-S", str(run / "munge.sock"))))

    def _begin_accounting(self, port: int) -> None:
        data, sock = self.folder / "mysql", self.folder / "run/mysql.sock"
        options = ("--no-defaults", f"--datadir={data}")
        self.run("chown", "mysql:", str(data))
        self.run(
            "mariadb-install-db", *options, "--user=mysql", "--skip-test-db", "--auth-root-authentication-method=socket"
        )
        self._daemon(
            *("mariadbd", "mariadbd", *options, "--user=mysql", f"--socket={sock}", f"--port={port}"),
            *("--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"),
            *("--innodb-buffer-pool-size=256M", f"--pid-file={self.folder}/run/mysql.pid"),
        )
        client = ("--no-defaults", f"--socket={sock}")
        self._until("mariadbd answers", lambda: "alive" in self.run("mariadb-admin", *client, "ping"))
        self.run("mariadb", *client, f"--execute={SQL}")
        self._daemon("slurmdbd", "slurmdbd", "-D")
        self._until("slurmdbd answers", lambda: self._try("sacctmgr", "-n", "show", "cluster") is not None)
        self.run("sacctmgr", "-i", "add", "cluster", "fidelity")

    # nodes

    def start_node(self, name: str) -> None:
        """Start a node's slurmd."""
        if name not in self._nodes:
            (self.folder / "spool" / name).mkdir(exist_ok=True)
            stepd = f"{self.folder}/bin/slurmstepd"
            self._nodes[name] = self._spawn(
                f"slurmd-{name}", f"{self.folder}/bin/slurmd", "-D", "-N", name, "-d", stepd
            )
            self._ends.callback(self.lose_node, name)

    def lose_node(self, name: str) -> None:
        """Kill a node's slurmd. What runs there runs on."""
        process = self._nodes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def kill_steps(self, job: str | None = None) -> None:
        """Kill the processes of a job, or of all, on whatever node, without a word to the controller."""
        for pid, environment in _processes():
            jobs = environment.get("SLURM_JOB_ID", "")
            ours = environment.get("FIDELITY") == str(self.folder)
            if not ours and environment.get("SLURM_CONF") == self.environment["SLURM_CONF"]:
                found = _command(pid)  # slurmstepd: [7.batch]
                if found.startswith("slurmstepd: ["):
                    jobs, ours = found.partition("[")[2].partition(".")[0], True
            if ours and job in {None, jobs}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def set_in(self, job: str, variable: str) -> set[str]:
        """What a variable is set to in the environments of a job's processes."""
        ours = {"FIDELITY": str(self.folder), "SLURM_JOB_ID": job}
        environments = [environment for _, environment in _processes()]
        return {one[variable] for one in environments if variable in one and ours.items() <= one.items()}

    def _end_jobs(self) -> None:
        self._try("scancel", f"--user={USER}")
        self._try("scancel", "--user=root")
        self.kill_steps()

    # commands and daemons

    def run(self, *command: str) -> str:
        """Run a command as root; the answer is what it prints.

        :raises RuntimeError: if it fails
        """
        done = subprocess.run(  # noqa: S603  # our own commands
            command, env=self._base, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def job_states(self) -> list[str]:
        """The states that jobs can have: what is offered to who asks for one that there is not."""
        try:
            self.run("squeue", "--states=no-such-state")
        except RuntimeError as error:
            return re.findall(r"[A-Z_]+", str(error).partition("Valid job states include:")[2])
        return []

    def _try(self, *command: str) -> str | None:
        try:
            return self.run(*command)
        except (RuntimeError, subprocess.TimeoutExpired):
            return None

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            with suppress(RuntimeError):
                if holds():
                    return
            time.sleep(0.05)
        raise RuntimeError(f"gave up waiting until {what}; see {self.folder}/log")

    def _write(self, name: str, text: str, mode: int) -> None:
        path = self.folder / name
        path.touch(mode)
        path.chmod(mode)
        path.write_text(text)

    def _spawn(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"log/{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603  # the same
                command, env=self._base, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _daemon(self, name: str, *command: str) -> None:
        process = self._spawn(name, *command)
        self._ends.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    """Ports of loopback in a row that nobody listens at now."""
    for first in range(20_000, 30_000, count):
        with ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return list(range(first, first + count))
    raise RuntimeError("no free ports")


def _processes() -> Iterator[tuple[int, dict[str, str]]]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            entries = (path / "environ").read_bytes().decode(errors="replace").split("\0")
            yield int(path.name), {one.partition("=")[0]: one.partition("=")[2] for one in entries}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""
