"""Steps that tests with real schedulers share, and a Slurm cluster of one node."""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path


class Skip(Exception):
    """Error of a part that this machine cannot test."""


def say(*words: object) -> None:
    print("test:", *words, flush=True)


def check(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def run(words: list, **more) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    check(done.returncode == 0, f"{shlex.join(map(str, words))} exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def until(holds, seconds: float, what: str):
    """Polls `holds` until it returns a true value, and returns that value."""
    began = time.monotonic()
    while not (got := holds()):
        check(time.monotonic() - began < seconds, f"{what}: not within {seconds:.0f} s")
        time.sleep(0.5)
    return got


def install(packages: list[str], programs: list[str]) -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in programs if not shutil.which(program, path=path)]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Skip(f"{', '.join(missing)} missing; only root on Debian can install {', '.join(packages)}")
    say("installing", *packages)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "--no-install-recommends", "-y", *packages]):
        if subprocess.run(words, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            raise Skip(f"{shlex.join(words)} failed")


class Slurm:
    """Slurm cluster with this machine as its only node."""

    def __init__(self, home: Path, program: Path):
        self.home, self.program, self.children = home, program, []
        # A short path, because the path length of sockets is limited.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))

    def __enter__(self):
        self.folder.chmod(0o755)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key, host = self.folder / "munge.key", socket.gethostname()
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        ports = [free_port(), free_port()]
        (self.folder / "slurm.conf").write_text(f"""ClusterName=try
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=5,bf_interval=5
JobRequeue=1
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=spare Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
""")
        munge = [f"--{what}={self.folder}/munge.{what.removesuffix('-file')}"
                 for what in ("key-file", "socket", "pid-file", "log-file", "seed-file")]
        self.env = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "CLOZE": str(self.program)}
        self.daemon(["munged", "--foreground", *munge])
        until((self.folder / "munge.socket").exists, 20, "munged")
        self.daemon(["slurmctld", "-D"])
        self.daemon(["slurmd", "-D"])
        until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), 60, "an idle node")
        return self

    def daemon(self, words: list[str]) -> None:
        path = {**self.env, "PATH": self.env["PATH"] + ":/usr/sbin:/sbin"}
        with open(self.folder / f"{words[0]}.said", "wb") as said:
            words = [shutil.which(words[0], path=path["PATH"]), *words[1:]]
            self.children.append(subprocess.Popen(words, env=path, stdout=said, stderr=said, start_new_session=True))

    def __exit__(self, *_):
        self.ask("scancel", "--full", "--user=root")
        with contextlib.suppress(AssertionError):
            until(lambda: not self.ask("squeue", "-h"), 60, "an empty queue")
        for child in reversed(self.children):
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(20)
            child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False, cwd=self.home)
        return done.stdout.strip()

    def submit(self, *words: str, **env: str) -> str:
        more = {**self.env, **env}
        return run(["sbatch", "--parsable", *words], env=more, cwd=self.home)

    def job(self, number: str) -> dict:
        return dict(word.split("=", 1) for word in self.ask("scontrol", "show", "job", "-o", number).split() if "=" in word)

    def wait(self, number: str, state: str, restarts: int, seconds: float = 120) -> dict:
        def reached():
            job = self.job(number)
            return job if job.get("JobState") == state and job.get("Restarts") == str(restarts) else None

        return until(reached, seconds, f"job {number}: {state} after {restarts} restarts")


    def start(self, number: str, restarts: int) -> None:
        self.hurry(number, lambda job: job["JobState"] == "RUNNING" and job["Restarts"] == str(restarts), "running again")

    def hurry(self, number: str, reached, what: str) -> None:
        """Waits for a job and shortens the delay of two minutes after each requeue.

        Slurm holds a job that it starts while the node still ends the previous start. A message about the end of the previous
        start that comes late would end the next one, so some seconds of the delay are kept.
        """
        job, idle_since = {}, None

        def look():
            job.update(self.job(number))
            is_waiting = job["JobState"] == "PENDING" and job["Restarts"] != "0"
            is_idle = is_waiting and "idle" in self.ask("sinfo", "-h", "-o", "%T")
            nonlocal idle_since
            idle_since = (idle_since or time.monotonic()) if is_idle else None
            if idle_since and time.monotonic() - idle_since > 5:
                self.ask("scontrol", "update", f"JobId={number}", "StartTime=now", "TimeLimit=30")
            return reached(job)

        try:
            # Twice Slurm's delay.
            until(look, 240, f"job {number}: {what}")
        except AssertionError as error:
            state = ", ".join(f"{key} {job.get(key)}" for key in ("JobState", "Reason", "Restarts"))
            raise AssertionError(f"{error} ({state})") from error


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
