"""A small run, the processes that train it as ranks, and what it leaves."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from cluster import check, free_port, until
from corpus import Corpus

STEPS = 300
# Keys of log entries that depend on time or machine.
CLOCKS = {"time", "elapsed_s", "tokens_per_s", "steps_per_s", "data_wait", "checkpoint_stall", "eta_s", "phases", "host_bytes",
          "ranks", "seconds"}


class RankRun:
    """Configuration of a run, and the processes that train it."""

    def __init__(self, corpus: Corpus, python: Path):
        self.home, self.program, self.torchrun = corpus.home / "ranks", corpus.program, python.with_name("torchrun")
        self.home.mkdir()
        shutil.copy(corpus.home / "tiny.toml", self.home)
        # Six micro-batches per step, so that 1, 2 or 3 ranks can share them.
        (self.home / "run.toml").write_text(f"""extends = "tiny.toml"
data = {{ folder = "{corpus.home}/plain", workers = 1 }}
train = {{ steps = {STEPS}, global_batch_size = 12, micro_batch_size = 2 }}
validation = {{ every_steps = 50, rows = 60 }}
checkpoints.every_steps = 5
report.every_steps = 5
""")

    def words(self, folder: str, *more: str) -> list[str]:
        """Command of a rank."""
        return [str(self.program), "train", "--config", "run.toml", "--set", f"run.folder={self.home / folder}", *more]

    def start(self, words: list, log: str, env: dict[str, str] | None = None) -> subprocess.Popen:
        """Starts a process. Its messages are appended to a file."""
        with open(self.home / log, "ab") as said:
            return subprocess.Popen([str(word) for word in words], cwd=self.home, env={**os.environ, **(env or {})},
                                    stdout=said, stderr=said)

    def agent(self, folder: str, options: list[str], *more: str, space: tuple = (), log: str = "") -> subprocess.Popen:
        """Starts torchrun."""
        words = [*space, self.torchrun, "--no-python", *options, *self.words(folder, *more)]
        # torchrun warns if the variable is unset.
        return self.start(words, log or f"{folder}.log", {"OMP_NUM_THREADS": "1"})

    def train(self, folder: str, ranks: int, *more: str) -> None:
        """Trains to the end with torchrun."""
        code = self.agent(folder, ["--standalone", "--nproc-per-node", str(ranks)], *more).wait()
        check(code == 0, f"{folder}: torchrun exits with {code}:\n{self.said(folder + '.log')}")

    def ranks(self, folder: str, spaces: list[tuple], host: str, *more: str) -> list[subprocess.Popen]:
        """Starts one process per rank, without torchrun, each in its network namespace."""
        env = {"WORLD_SIZE": str(len(spaces)), "MASTER_ADDR": host, "MASTER_PORT": str(free_port())}
        return [self.start([*space, *self.words(folder, *more)], f"{folder}-{rank}.log", {**env, "RANK": str(rank)})
                for rank, space in enumerate(spaces)]

    def said(self, log: str) -> str:
        return (self.home / log).read_text(errors="replace")[-4000:]

    def step(self, folder: str) -> int:
        """Step of the newest checkpoint."""
        latest = self.home / folder / "checkpoints/latest"
        return int(latest.read_text().strip().removeprefix("step-")) if latest.exists() else 0

    def reach(self, folder: str, step: int, seconds: float = 120) -> None:
        until(lambda: self.step(folder) >= step, seconds, f"{folder}: step {step}")

    def stop(self, agent: subprocess.Popen) -> None:
        """Stops a run with SIGTERM to torchrun, which passes it to all ranks."""
        agent.send_signal(signal.SIGTERM)
        agent.wait(120)

    def entries(self, folder: str) -> list[dict]:
        """Log entries about the training itself, without times."""
        lines = [line for path in sorted((self.home / folder / "log").glob("*.jsonl")) for line in path.read_text().splitlines()]
        entries = [entry for entry in map(json.loads, lines) if entry["kind"] in ("start", "report", "validation")]
        return [{key: value for key, value in entry.items() if key not in CLOCKS} for entry in entries]

    def result(self, folder: str) -> dict:
        """Hashes of the last checkpoint, the hash of all batches, and the log."""
        kept, entries = max((self.home / folder / "checkpoints").glob("step-*")), self.entries(folder)
        hashes = {name: hashlib.sha256((kept / name).read_bytes()).hexdigest()
                  for name in ("main.safetensors", "optimizer.safetensors")}
        batches = [entry["batch_hash"] for entry in entries if entry["kind"] == "report"][-1]
        return {"step": kept.name, "batches": batches, **hashes, "entries": entries}

    def same(self, expected: str, folder: str) -> str:
        """Compares a run with another one, bit by bit."""
        ours, theirs = self.result(folder), self.result(expected)
        other = [key for key in theirs if ours[key] != theirs[key]]
        check(not other, f"{folder} differs from {expected} in {', '.join(other)}")
        weights = ours["main.safetensors"][:12]
        return f"weights `{weights}`, optimizer, hash of all batches, reports and validations equal the calm run"


def processes(run_id: str) -> dict[int, dict[int, int]]:
    """Processes that torchrun started for a run: by restart and rank."""
    found: dict[int, dict[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        env = dict(word.split("=", 1) for word in words if "=" in word)
        if env.get("TORCHELASTIC_RUN_ID") == run_id and "RANK" in env:
            found.setdefault(int(env["TORCHELASTIC_RESTART_COUNT"]), {})[int(env["RANK"])] = int(path.parent.name)
    return found


def ended_within(children: list[subprocess.Popen], seconds: float) -> float:
    """Waits for processes, longer than they may take, so that an error has their time. Returns it."""
    began = time.monotonic()
    until(lambda: all(child.poll() is not None for child in children), 5 * seconds, "the end of ranks")
    took = time.monotonic() - began
    check(took <= seconds, f"the ranks end after {took:.0f} s, not within {seconds} s")
    return took
