"""Child processes with a time limit and captured output, which never outlive the call."""

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TAIL = 3000
PR_SET_PDEATHSIG = 1


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


class Child:
    """Running program."""

    def __init__(self, command: list, env: dict[str, str], cwd: Path):
        # Files instead of pipes, so that a program with much output never blocks.
        self.files = [tempfile.TemporaryFile() for _ in range(2)]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1],
            env=env, cwd=cwd, process_group=0, preexec_fn=_end_with_parent)

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


def _end_with_parent() -> None:
    """Ends the child if the call is killed, so that the device is free for the next call."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
