"""Child processes with a time limit and captured output, which never outlive the call."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TAIL = 3000

# Kills process groups when its input ends, that is when the call ends in any way, SIGKILL included.
GUARD = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    verb, group = line.split()
    (groups.add if verb == "begin" else groups.discard)(int(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class Failed(Exception):
    """Error of an item that failed; the text has the observation."""


class Late(Exception):
    """Error of an item that exceeded its time limit."""


class Skipped(Exception):
    """Error of an item that this machine cannot run; the text has the reason."""


@dataclass
class Ended:
    """Result of a program. `code` is `None` if the time limit was exceeded."""

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def tail(self) -> str:
        return (self.out[-TAIL:] + "\n" + self.err[-TAIL:]).strip()

    def well(self, what: str) -> "Ended":
        """Returns itself if the program exited with 0 in time; raises otherwise."""
        if self.code is None:
            raise Late(f"after {self.seconds:.0f} s: {what}\n{self.tail}")
        if self.code != 0:
            raise Failed(f"exit {self.code}: {what}\n{self.tail}")
        return self


class Guard:
    """Process that kills the process groups of running programs if this call is killed: a program may have children."""

    process = None

    @classmethod
    def tell(cls, verb: str, group: int) -> None:
        """Says that a group has begun or ended."""
        if cls.process is None:
            # In a separate session, so that a kill of this call's group leaves it.
            cls.process = subprocess.Popen([sys.executable, "-c", GUARD], stdin=subprocess.PIPE, text=True, start_new_session=True)
        try:
            print(verb, group, file=cls.process.stdin, flush=True)
        except BrokenPipeError as error:
            raise Failed("the process that ends programs after a kill has ended") from error


class Child:
    """Running program. Its children are in its process group, which ends with it."""

    def __init__(self, command: list, env: dict[str, str], cwd: Path):
        # Files instead of pipes, so that a program with much output never blocks.
        self.files = [tempfile.TemporaryFile() for _ in range(2)]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1],
            env=env, cwd=cwd, process_group=0)
        Guard.tell("begin", self.process.pid)

    def wait(self, limit_s: float) -> Ended:
        """Waits for the end of the program or of its time limit."""
        left = limit_s - (time.monotonic() - self.begun)
        try:
            code = self.process.wait(timeout=max(left, 0.1))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            self.kill()
        seconds = time.monotonic() - self.begun
        out, err = (_read(file) for file in self.files)
        return Ended(code, out, err, seconds)

    def said(self) -> str:
        """Returns the standard output so far, without a change of the write position."""
        return os.pread(self.files[0].fileno(), 1 << 24, 0).decode(errors="replace")

    def kill(self) -> None:
        """Kills the program and its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        # Before the number of the group is free again.
        Guard.tell("end", self.process.pid)
        self.process.wait()


def run(command: list, env: dict[str, str], cwd: Path, limit_s: float) -> Ended:
    return Child(command, env, cwd).wait(limit_s)


def checked(command: list, env: dict[str, str], cwd: Path, limit_s: float) -> Ended:
    """Runs a program, which must exit with 0."""
    return run(command, env, cwd, limit_s).well(" ".join(map(str, command)))


def _read(file) -> str:
    file.seek(0)
    text = file.read().decode(errors="replace")
    file.close()
    return text
