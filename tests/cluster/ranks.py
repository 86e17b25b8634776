"""Ranks of one run on this machine, started by torchrun and by Slurm, and their failures, compared with a calm run."""

import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cluster import Skip, Slurm, check, install, run, say, until
from corpus import Corpus
from hosts import Hosts
from rank_run import STEPS, RankRun, ended_within, processes

ROOT = Path(__file__).resolve().parent.parent.parent
# `run.stall_timeout_seconds` of the runs whose ranks fail.
LIMIT = 20
Rows = list[tuple[str, str]]


def tested_ranks(corpus: Corpus, python: Path, kills: int) -> Rows:
    """Trains one configuration in every way. Returns the rows of the page."""
    ranks, rows = RankRun(corpus, python), []
    began = time.monotonic()
    ranks.train("calm", 2)
    version = run([python, "-c", "import torch; print(torch.__version__)"])
    rows.append((f"`torchrun --standalone --no-python --nproc-per-node 2 cloze train`, {STEPS} steps, without interruption",
                 f"torch {version}; the calm run, {time.monotonic() - began:.0f} s"))
    tests = {"kills": lambda: killed(ranks, kills), **failures(ranks), "number of ranks": lambda: changed(ranks, python),
             "two hosts": lambda: on_two_hosts(ranks), "Slurm": lambda: by_slurm(ranks)}
    for what, test in tests.items():
        try:
            rows += test()
            say(f"ranks: {what}: passed")
        except Skip as skip:
            say(f"SKIPPED ranks: {what}: {skip}")
            rows.append((what, f"not tested: {skip}"))
        except AssertionError as problem:
            say(f"FAILED ranks: {what}: {problem}")
            rows.append((what, f"FAILED: {str(problem).splitlines()[0]}"))
    return rows


# Kills ---------------------------------------------------------------------------------------------------------------


def killed(ranks: RankRun, kills: int) -> Rows:
    """Kills random ranks. torchrun starts all again."""
    draw, victims, name = random.Random(7), Counter(), "killed"
    options = ["--nnodes", "1", "--nproc-per-node", "2", "--max-restarts", str(kills + 10), "--rdzv-backend", "c10d",
               "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", name]
    agent = ranks.agent(name, options, "--slow", "step=100")
    seen = -1
    try:
        while sum(victims.values()) < kills:
            started = until(lambda: started_after(ranks, agent, name, seen), 120, f"ranks after restart {seen}")
            seen, count = max(started), sum(victims.values())
            # Kills of all parts of the run, and every fourth one of the start.
            if count % 4:
                ranks.reach(name, count * (STEPS - 50) // kills)
            time.sleep(draw.uniform(0, 1 if count % 4 else 4))
            victim = draw.randrange(2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(started[seen][victim], signal.SIGKILL)
                victims[victim] += 1
        check(agent.wait(300) == 0, f"torchrun fails:\n{ranks.said(name + '.log')}")
    finally:
        agent.kill()
    note = f"rank 0 {victims[0]} times, rank 1 {victims[1]} times, restarted by torchrun; {ranks.same('calm', name)}"
    return [(f"the same with `--max-restarts`, a random rank killed {kills} times (SIGKILL)", note)]


def started_after(ranks: RankRun, agent: subprocess.Popen, name: str, seen: int) -> dict | None:
    """Returns the processes of a later restart than the one that was seen, when both ranks have one."""
    check(agent.poll() is None, f"the run ended before all kills, at step {ranks.step(name)}:\n{ranks.said(name + '.log')}")
    found = {restart: pids for restart, pids in processes(name).items() if restart > seen and len(pids) == 2}
    return found or None


# Failures ------------------------------------------------------------------------------------------------------------


def failures(ranks: RankRun) -> dict[str, Callable[[], Rows]]:
    """Tests of ranks that fail, by what happens to them."""

    def stop(victim: subprocess.Popen) -> None:
        victim.send_signal(signal.SIGSTOP)

    def lose_memory(what: str) -> Rows:
        with MemoryGroup() as group:
            return failure(ranks, what, Fault("memory", 1, group.exhaust), [(), group.space, ()])

    def cut(what: str, name: str, ending: list[int]) -> Rows:
        with Hosts() as hosts:
            here, there = hosts.spaces
            fault = Fault(name, 2, lambda _: hosts.cut(), ending)
            return failure(ranks, what, fault, [here, here, there], hosts.addresses[0])

    far = "rank 2 of 3 on another host (network namespace), whose device is taken down"
    tests = {
        "rank 2 of 3 suspended (SIGSTOP)": lambda what: failure(ranks, what, Fault("stopped2", 2, stop)),
        "rank 0 of 3, which serves the store, suspended (SIGSTOP)": lambda what: failure(ranks, what, Fault("stopped0", 0, stop)),
        "rank 1 of 3 without address space (RLIMIT_AS)": lambda what: failure(ranks, what, Fault("space", 1, take_space)),
        "rank 1 of 3 killed by the kernel without memory (control group)": lose_memory,
        far: lambda what: cut(what, "cut", [0, 1]),
        f"{far}: that rank itself": lambda what: cut(what, "cutoff", [2]),
    }
    return {what: partial(test, what) for what, test in tests.items()}


@dataclass
class Fault:
    """Failure of one of three ranks."""

    # Name of the run folder.
    name: str
    victim: int
    cause: Callable[[subprocess.Popen], None]
    # Ranks that must end; all but the victim if empty.
    ending: list[int] = field(default_factory=list)


def failure(ranks: RankRun, what: str, fault: Fault, spaces: list[tuple] | None = None, host: str = "127.0.0.1") -> Rows:
    """Lets one of three ranks fail. The others must end within the limit, and name it and what they waited for."""
    endless = ("--set", "train.steps=100000", "--set", f"run.stall_timeout_seconds={LIMIT}")
    children = ranks.ranks(fault.name, spaces or [()] * 3, host, *endless)
    ending = fault.ending or [rank for rank in range(3) if rank != fault.victim]
    try:
        ranks.reach(fault.name, 10)
        fault.cause(children[fault.victim])
        seconds = ended_within([children[rank] for rank in ending], LIMIT)
        for rank in ending:
            code, said = children[rank].returncode, ranks.said(f"{fault.name}-{rank}.log")
            check(code == 1, f"rank {rank} exits with {code}: {error(said)}")
            check(names(fault.victim, rank, said), f"rank {rank} does not name rank {fault.victim} or its own wait: {error(said)}")
    finally:
        for child in children:
            child.kill()
            child.wait()
    message = error(ranks.said(f"{fault.name}-{ending[0]}.log"))
    who = f"the ranks {ending[0]} and {ending[1]} exit" if len(ending) > 1 else f"rank {ending[0]} exits"
    return [(what, f"{who} with 1 after {seconds:.0f} of at most {LIMIT} s: `{message}`")]


def error(said: str) -> str:
    """Returns the error of a log."""
    return ([line for line in said.splitlines() if line.startswith("error: ")] or ["no error"])[-1]


def names(victim: int, rank: int, said: str) -> bool:
    """Whether the error of a rank names another one, and its cause or the operation that waited for it."""
    waited = r"rank \d waited in operation \d+, the "
    forms = [rf"rank {victim} does not respond .*{waited}", f"rank {victim} failed: ."]
    # Without the store, a rank can only name its server.
    if victim in (0, rank):
        forms.append(rf"{waited}.*\(served by rank 0\) does not answer either")
    return any(re.search(form, error(said)) for form in forms)


def take_space(victim: subprocess.Popen) -> None:
    """Limits the address space of a process to its present size, and waits for its end."""
    pages = int(Path(f"/proc/{victim.pid}/statm").read_text().split()[0])
    resource.prlimit(victim.pid, resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)
    until(lambda: victim.poll() is not None, 60, "the end of a rank without address space")


class MemoryGroup:
    """Control group (version 1 or 2) that limits the memory of a process."""

    def __enter__(self):
        old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
        self.is_old = (old / "memory.limit_in_bytes").exists()
        self.folder = (old if self.is_old else new) / f"cloze-{os.getpid()}"
        self.limit = self.folder / ("memory.limit_in_bytes" if self.is_old else "memory.max")
        try:
            self.folder.mkdir()
            check(self.limit.exists(), f"no {self.limit}")
        except (AssertionError, OSError) as problem:
            raise Skip(f"no control group with a memory limit: {problem}") from problem
        enter = f'echo $$ >{self.folder}/cgroup.procs && exec "$0" "$@"'
        self.space = ("sh", "-c", enter)
        return self

    def exhaust(self, victim: subprocess.Popen) -> None:
        """Limits the memory to what is used, until the kernel kills the process, which needs more from time to time."""
        usage = self.folder / ("memory.usage_in_bytes" if self.is_old else "memory.current")

        def is_killed() -> bool:
            # Version 1 refuses a limit below what is used by then.
            with contextlib.suppress(OSError):
                self.limit.write_text(usage.read_text())
            return victim.poll() is not None

        until(is_killed, 60, "the end of a rank without memory")
        check(victim.returncode == -signal.SIGKILL, f"the rank without memory exits with {victim.returncode}")

    def __exit__(self, *_):
        until(lambda: not (self.folder / "cgroup.procs").read_text(), 20, "an empty control group")
        self.folder.rmdir()


# Number of ranks -----------------------------------------------------------------------------------------------------


def changed(ranks: RankRun, python: Path) -> Rows:
    """Continues a run with 3 ranks, then with 2. Exports the checkpoint of 3 ranks."""
    name, stops = "changed", []
    for count, step in ((1, 90), (3, 180)):
        agent = ranks.agent(name, ["--standalone", "--nproc-per-node", str(count)], "--slow", "step=50")
        ranks.reach(name, step)
        ranks.stop(agent)
        stops.append(ranks.step(name))
    check(step < STEPS, "the run ended before its number of ranks changed")
    run([ranks.program, "export", name, "--out", "exported"], cwd=ranks.home)
    load = "import sys, transformers; m = transformers.AutoModelForMaskedLM.from_pretrained(sys.argv[1]); print(type(m).__name__)"
    loaded = run([python, "-c", load, ranks.home / "exported"])
    ranks.train(name, 2)
    calm, other = ranks.result("calm"), ranks.result(name)
    check(calm["batches"] == other["batches"], "the hash of all batches differs")
    losses = [[entry["loss"] for entry in it["entries"] if entry["kind"] == "validation"] for it in (calm, other)]
    check(len(losses[0]) == len(losses[1]) > 0, f"{losses}: the numbers of validations differ")
    largest = max(abs(one - two) / one for one, two in zip(*losses))
    check(largest < 1e-3, f"{losses}: the validations differ")
    return [(f"1, then 3 (after step {stops[0]}), then 2 ranks (after step {stops[1]}), in one epoch; stops by SIGTERM to torchrun",
             f"the hash of all batches equals the calm run, validation losses differ by at most {largest:.1e}"),
            ("`cloze export` of the checkpoint of 3 ranks", f"`transformers` loads it as `{loaded.splitlines()[-1]}`")]


# Hosts ---------------------------------------------------------------------------------------------------------------


def on_two_hosts(ranks: RankRun) -> Rows:
    """Trains with one rank in each of two network namespaces."""
    rows = []
    for name, what, delay, loss in [
        ("veth", "a veth pair", 0, 0),
        ("bridge", "a bridge in user space that delays each frame by 5 ms and drops 0.5 %", 5, 0.005),
    ]:
        with Hosts(delay, loss) as hosts:
            began = time.monotonic()
            agents = [agent_of(ranks, hosts, name, host) for host in (0, 1)]
            codes = [agent.wait(600) for agent in agents]
            check(codes == [0, 0], f"{name}: torchrun exits with {codes}:\n{ranks.said(name + '-0.log')}")
            seconds = time.monotonic() - began
            counts = f"; {hosts.counts()}" if loss else ""
        rows.append((f"`torchrun --nnodes 2` on two hosts (network namespaces), connected by {what}",
                     f"{seconds:.0f} s{counts}; {ranks.same('calm', name)}"))
    return rows


def agent_of(ranks: RankRun, hosts: Hosts, name: str, host: int) -> subprocess.Popen:
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", name, "--rdzv-endpoint",
               f"{hosts.addresses[0]}:29400", "--rdzv-conf", f"is_host={host == 0}", "--local-addr", hosts.addresses[host]]
    return ranks.agent(name, options, space=hosts.spaces[host], log=f"{name}-{host}.log")


# Slurm ---------------------------------------------------------------------------------------------------------------


def by_slurm(ranks: RankRun) -> Rows:
    """Trains with two tasks of a job that is requeued, and one of whose tasks is killed."""
    install(["slurm-wlm", "munge"], ["munged", "slurmctld", "slurmd", "sbatch"])
    name = "slurm"
    with Slurm(ranks.home, ranks.program) as cluster:
        version = cluster.ask("sbatch", "--version")
        job = cluster.submit("--ntasks=2", "--cpus-per-task=1", "--output=slurm.log", str(ROOT / "deploy/slurm/train.sbatch"),
                             "run.toml", "--set", f"run.folder={ranks.home}/{name}", "--slow", "step=30")

        def kill() -> None:
            os.kill(task_of(job, 1), signal.SIGKILL)

        interruptions = [
            ("`scontrol requeue`", lambda: cluster.ask("scontrol", "requeue", job)),
            ("`scancel --batch --signal=USR1`", lambda: cluster.ask("scancel", "--batch", "--signal=USR1", job)),
            ("SIGKILL of the task of rank 1", kill),
        ]
        for restarts, (what, interrupt) in enumerate(interruptions):
            cluster.start(job, restarts)
            ranks.reach(name, ranks.step(name) + 20)
            interrupt()
            cluster.wait(job, "PENDING", restarts + 1)
            say("ranks: slurm:", what)
        cluster.start(job, len(interruptions))
        cluster.wait(job, "COMPLETED", len(interruptions), 300)
    note = f"{version}; requeued after {', '.join(what for what, _ in interruptions)}; {ranks.same('calm', name)}"
    return [("Slurm, one node, two tasks (`sbatch --ntasks=2 deploy/slurm/train.sbatch`)", note)]


def task_of(job: str, rank: int) -> int:
    """Process of a task of a job."""
    wanted = {f"SLURM_JOB_ID={job}", f"SLURM_PROCID={rank}", "SLURM_STEP_ID=0"}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = set(path.read_bytes().decode(errors="replace").split("\0"))
            program = (path.parent / "exe").readlink().name
        except OSError:
            continue
        if wanted <= words and program == "cloze-train":
            return int(path.parent.name)
    raise AssertionError(f"job {job} has no task of rank {rank}")
