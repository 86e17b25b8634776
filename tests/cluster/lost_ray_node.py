"""Runs deploy/ray/prepare.py on three nodes on one machine and removes a node in mid-run. Tries exit codes of a program.

Arguments: prepare.py, the program, the configuration, its prepared folder. The last line says what happened.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster


def descendants(pid: int) -> list[int]:
    """Processes that a process started, directly or indirectly."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def lose(cluster: Cluster, node, program: Path) -> int:
    """Removes a node with all its processes. Returns the number of its processes of the program."""
    lost = descendants(node.all_processes["raylet"][0].process.pid)
    programs = [pid for pid in lost if Path(f"/proc/{pid}/exe").resolve() == program.resolve()]
    cluster.remove_node(node, allow_graceful=False)
    # Ray leaves the processes that its tasks started.
    for pid in programs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(programs)


def try_codes(driver: Path, address: str, home: Path) -> str:
    """Runs the driver with a program that plans, exits with a code when it makes parts, and then lacks them."""
    program, runs = home / "ends", home / "runs"
    program.write_text(f'#!/bin/sh\n[ "$2" = plan ] && exit 0\n[ "$2" = run ] && echo run >>{runs} && exit "$5"\nexit 1\n')
    program.chmod(0o755)
    told = []
    for code, expected in ((42, 1), (2, 1), (1, 4)):
        runs.unlink(missing_ok=True)
        words = [sys.executable, driver, str(code), "--program", program, "--processes", "1", "--address", address]
        ended = subprocess.run([str(word) for word in words], check=False).returncode
        count = len(runs.read_text().splitlines())
        if (ended, count) != (code, expected):
            sys.exit(f"exit code {code}: {count} runs, not {expected}; the driver exits with {ended}")
        told.append(f"{code}: {count} run{'s' * (count > 1)}")
    return f"exit codes of a process, {', '.join(told)}, then the driver exits with the same"


def main() -> None:
    driver, program, config, folder = map(Path, sys.argv[1:])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    cluster.wait_for_nodes()
    words = [sys.executable, driver, config, "--program", program, "--processes", "3", "--address", cluster.address,
             "--lease-timeout", "5", "--", "--slow", "writer=100"]
    child = subprocess.Popen([str(word) for word in words])
    parts = folder / "parts"
    began = time.monotonic()
    while not parts.is_dir() or len(list(parts.iterdir())) < 20:
        if child.poll() is not None or time.monotonic() - began > 120:
            sys.exit(f"no parts after {time.monotonic() - began:.0f} s; exit code {child.poll()}")
        time.sleep(0.2)
    before = len(list(parts.iterdir()))
    lost = lose(cluster, nodes[0], program)
    if lost != 1:
        sys.exit(f"the lost node ran {lost} processes of {program}, not 1")
    cluster.add_node(num_cpus=1)
    code = child.wait()
    if code != 0:
        sys.exit(f"the driver exits with {code}")
    print(f"a node and its process removed after {before} of {len(list(parts.iterdir()))} segments, another added; "
          + try_codes(driver, cluster.address, config.parent))


main()
