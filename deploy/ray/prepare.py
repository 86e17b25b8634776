"""Prepares a corpus on a Ray cluster: `python prepare.py run.toml --processes 16 --cpus 8`.

Each Ray task runs one process that leases parts. If a node is lost, the other processes take over its parts when its
leases expire, and Ray starts its tasks again. A process that fails is retried three times. Every node needs the
program, the configuration and the folders.
"""

import argparse
import subprocess
import sys

import ray

# Exit codes after which a retry does not help: the configuration, or the corpus.
FINAL = (2, 42)
# Maximum number of retries of a process after a failure that may be temporary, or a kill.
FAILURES_MAX = 3


def cloze(phase: str, *words: str) -> int:
    return subprocess.run([ARGS.program, "prepare", phase, "--config", ARGS.config, *words], check=False).returncode


def main() -> int:
    code = cloze("plan")
    if code != 0:
        return code

    # Ray starts the task of a lost node again.
    @ray.remote(num_cpus=ARGS.cpus, max_retries=-1)
    def work(words: list[str]) -> int:
        for _ in range(1 + FAILURES_MAX):
            code = subprocess.run(words, check=False).returncode
            if code in (0, *FINAL):
                break
            print(f"{' '.join(words)}: exit code {code}", file=sys.stderr)
        return code

    for phase in ["signatures", "run"] if ARGS.signatures else ["run"]:
        words = [ARGS.program, "prepare", phase, "--lease", "--config", ARGS.config,
                 "--set", f"prepare.workers={ARGS.cpus}", "--lease-timeout", str(ARGS.lease_timeout)]
        if phase == "run":
            words += ARGS.more
        codes = ray.get([work.remote(words) for _ in range(ARGS.processes)])
        final = [code for code in codes if code in FINAL]
        if final:
            return final[0]
    # Other processes make the parts of one that failed. If parts are missing, `finalize` exits with 1.
    return cloze("finalize")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="configuration, at the same path on every node")
    parser.add_argument("--processes", type=int, default=4, help="number of processes")
    parser.add_argument("--cpus", type=int, default=1, help="cores of each process")
    parser.add_argument("--program", default="cloze", help="the program, as every node finds it")
    parser.add_argument("--lease-timeout", type=float, default=60, help="seconds after which a lost process is replaced")
    parser.add_argument("--signatures", action="store_true", help="compare documents first: for [prepare.duplicates]")
    parser.add_argument("--address", default="auto", help="address of the cluster")
    # More arguments of `cloze prepare run` follow `--`.
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    return parser.parse_args(words[:end], argparse.Namespace(more=words[end + 1 :]))


if __name__ == "__main__":
    ARGS = arguments()
    ray.init(address=ARGS.address, log_to_driver=True)
    raise SystemExit(main())
