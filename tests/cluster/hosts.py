"""Two network namespaces as two hosts, connected by a veth pair or by a bridge that delays and drops frames."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import Skip, check, run, until


class Hosts:
    """Two hosts with the addresses 10.77.0.1 and 10.77.0.2. Without `loss`, a veth pair connects them."""

    addresses = ("10.77.0.1", "10.77.0.2")

    def __init__(self, delay_ms: float = 0, loss: float = 0):
        self.names = [f"cloze-{os.getpid()}-{side}" for side in "ab"]
        self.spaces = [("ip", "netns", "exec", name) for name in self.names]
        self.delay_ms, self.loss, self.bridge = delay_ms, loss, None

    def __enter__(self):
        if os.geteuid() != 0:
            raise Skip("only root can create network namespaces")
        try:
            for name in self.names:
                run(["ip", "netns", "add", name])
            self.connect()
        except (AssertionError, OSError) as error:
            self.__exit__()
            raise Skip(f"this kernel has no network namespaces, veth or TAP: {error}") from error
        return self

    def connect(self) -> None:
        if self.loss:
            words = [sys.executable, Path(__file__).with_name("bridge.py"), *self.names, str(self.delay_ms), str(self.loss)]
            self.output = tempfile.TemporaryFile("w+")
            self.bridge = subprocess.Popen([str(word) for word in words], stdout=self.output, stderr=self.output)
            until(lambda: "ready" in self.said(), 20, "the bridge")
        else:
            one, other = self.names
            run(["ip", "link", "add", "wan", "netns", one, "type", "veth", "peer", "name", "wan", "netns", other])
        for space, address in zip(self.spaces, self.addresses):
            run([*space, "ip", "address", "add", f"{address}/24", "dev", "wan"])
            for device in ("lo", "wan"):
                run([*space, "ip", "link", "set", device, "up"])

    def said(self) -> str:
        check(self.bridge.poll() is None, "the bridge ended")
        self.output.seek(0)
        return self.output.read()

    def cut(self) -> None:
        """Takes the device of the second host down. Connections get no answer and no error."""
        run([*self.spaces[1], "ip", "link", "set", "wan", "down"])

    def counts(self) -> str:
        """Numbers of frames that the bridge has passed on and dropped so far."""
        seen = len(self.said().splitlines())
        self.bridge.send_signal(signal.SIGUSR1)
        return until(lambda: self.said().splitlines()[seen:], 20, "counts")[0]

    def __exit__(self, *_):
        if self.bridge:
            self.bridge.terminate()
            self.bridge.wait()
        for name in self.names:
            with contextlib.suppress(AssertionError):
                run(["ip", "netns", "delete", name])
