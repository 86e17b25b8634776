"""Ethernet bridge between a TAP device in each of two network namespaces, which delays every frame and drops some.

Arguments: two namespaces, delay in milliseconds, share of dropped frames. It prints `ready`, and its counts after
SIGUSR1. It replaces netem, which not every kernel has.
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
# A TAP device, without a header before each frame: the kernel computes checksums and sends no large segments.
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LARGEST = 65536


def tap(namespace: str) -> int:
    """Creates the device `wan` in a namespace, and returns its descriptor."""
    space = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {namespace}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"wan", IFF_TAP | IFF_NO_PI))
    return device


def main() -> None:
    one, other = map(tap, sys.argv[1:3])
    delay, loss = float(sys.argv[3]) / 1000, float(sys.argv[4])
    peers, draw = {one: other, other: one}, random.Random(1)
    waiting, counts = collections.deque(), {"passed on": 0, "dropped": 0}

    def print_counts(*_) -> None:
        print(", ".join(f"{count} frames {what}" for what, count in counts.items()), flush=True)

    signal.signal(signal.SIGUSR1, print_counts)
    print("ready", flush=True)
    while True:
        left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for device in select.select([one, other], [], [], left)[0]:
            frame = os.read(device, LARGEST)
            if draw.random() < loss:
                counts["dropped"] += 1
            else:
                waiting.append((time.monotonic() + delay, peers[device], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, frame = waiting.popleft()
            try:
                os.write(device, frame)
                counts["passed on"] += 1
            except OSError:
                # The device is down.
                counts["dropped"] += 1


main()
