"""Programs that are run: for a limited time, with what they say kept, and never left behind."""

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
    """An item that did not do what it should; the text says what was seen."""


class Late(Exception):
    """An item whose time was over."""


class Skipped(Exception):
    """An item that cannot be done here; the text says why."""


@dataclass
class Ended:
    """How a program ended. `code` is `None` where its time was over."""

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def tail(self) -> str:
        return (self.out[-TAIL:] + "\n" + self.err[-TAIL:]).strip()

    def well(self, what: str) -> "Ended":
        """Itself, if it ended well and in time."""
        if self.code is None:
            raise Late(f"after {self.seconds:.0f} s: {what}\n{self.tail}")
        if self.code != 0:
            raise Failed(f"exit {self.code}: {what}\n{self.tail}")
        return self


class Child:
    """A program under way."""

    def __init__(self, command: list, env: dict[str, str], cwd: Path):
        # Files, not pipes: whoever says much never waits for us.
        self.files = [tempfile.TemporaryFile() for _ in range(2)]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1],
            env=env, cwd=cwd, process_group=0, preexec_fn=_end_with_parent)

    def wait(self, limit_s: float) -> Ended:
        """Its end, or that of its time."""
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
        """What it has said on its standard output so far. (The place where it writes on is left alone.)"""
        return os.pread(self.files[0].fileno(), 1 << 24, 0).decode(errors="replace")

    def kill(self) -> None:
        """Ends it and what it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def run(command: list, env: dict[str, str], cwd: Path, limit_s: float) -> Ended:
    return Child(command, env, cwd).wait(limit_s)


def checked(command: list, env: dict[str, str], cwd: Path, limit_s: float) -> Ended:
    """The same, and it must end well."""
    return run(command, env, cwd, limit_s).well(" ".join(map(str, command)))


def _read(file) -> str:
    file.seek(0)
    text = file.read().decode(errors="replace")
    file.close()
    return text


def _end_with_parent() -> None:
    """A call may be killed: what it has started ends with it, and the next call finds the device free."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
