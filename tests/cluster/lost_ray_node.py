"""Runs deploy/ray/prepare.py on three nodes on one machine and removes a node in mid-run.

Arguments: prepare.py, the program, the configuration, the prepared folder. The last line says what happened.
"""

import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster


def main() -> None:
    driver, program, config, folder = map(Path, sys.argv[1:])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    cluster.wait_for_nodes()
    words = [sys.executable, driver, config, "--program", program, "--processes", "3", "--address", cluster.address,
             "--lease-timeout", "5", "--", "--slow", "writer=100", "--set", f"prepare.folder={folder}"]
    # The plan and the last step read the folder from the configuration.
    text = config.read_text()
    changed = config.with_name("ray.toml")
    changed.write_text("\n".join(f'folder = "{folder}"' if line.startswith("folder = ") else line for line in text.splitlines()))
    words[2] = changed
    child = subprocess.Popen([str(word) for word in words])
    parts = folder / "parts"
    began = time.monotonic()
    while not parts.is_dir() or len(list(parts.iterdir())) < 20:
        if child.poll() is not None or time.monotonic() - began > 120:
            sys.exit(f"no parts after {time.monotonic() - began:.0f} s; exit code {child.poll()}")
        time.sleep(0.2)
    before = len(list(parts.iterdir()))
    cluster.remove_node(nodes[0], allow_graceful=False)
    cluster.add_node(num_cpus=1)
    code = child.wait()
    if code != 0:
        sys.exit(f"the driver exits with {code}")
    print(f"a node removed after {before} of {len(list(parts.iterdir()))} segments, another added")


main()
