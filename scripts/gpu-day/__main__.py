"""Tests and benchmarks on a GPU machine, in order of importance.

Each test or measurement is an item with a time limit. Its result is written at once, and the next call skips items
with a result. Therefore a call may be killed at any time, and a failure does not stop the others.

  gpu-day OUT              ends within 540 seconds; repeat it until it reports that all is done
  gpu-day OUT --for 3000   all items in one call

Exit codes: 0 all items are done without failures, 1 all are done with failures, 2 usage, 75 items remain.
"""

import argparse
import fcntl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import presets
import proofs
import speed
from child import Failed, Late, Skipped
from ledger import Ledger, put
from machine import BUNDLE, Machine
from tables import Tables

# Reserve for writing the results.
RESERVE_S = 10


@dataclass
class Item:
    """Test or measurement. Its name begins with its stage. It starts only if `takes_s` seconds remain."""

    name: str
    takes_s: float
    limit_s: float
    find: Callable[[float], dict]


def main() -> int:
    options = arguments()
    begun = time.monotonic()
    deadline = begun + options.for_s - RESERVE_S
    options.out.mkdir(parents=True, exist_ok=True)
    # Held until this process ends.
    lock = (options.out / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(f"gpu-day: error: another call works in {options.out}; wait until it ends, or choose another folder\n")
        return 2
    machine, ledger = Machine(options), Ledger(options.out)
    then = ledger.data("0 machine")
    other = [name for name, here in machine.marks().items() if then and then.get(name) != here]
    if other:
        sys.stderr.write(f"gpu-day: error: {options.out} has results with a different {', '.join(other)}; choose another folder\n")
        return 2
    if options.again and not (options.list or options.plan):
        ledger.forget({"failed", "late", "skipped"})
    if options.plan:
        print("\n".join(speed.planned(machine)))
        return 0
    items = [item for item in plan(machine, options.rounds) if item.name[0] in options.only]
    if options.list:
        print("\n".join(f"{ledger.status(item.name):8} {item.name}" for item in items))
        return 0
    tables = Tables(machine, ledger, options.rounds)
    print(f"gpu-day: {len(items)} items; {machine.kind}; libtorch of {machine.torch}; results in {options.out}", flush=True)
    # Without a working device, no item can run; this check is repeated in every call.
    device = Item("0 device", 0, 120, lambda limit: speed.answers(machine, limit))
    attempt(device, ledger, device.limit_s)
    if ledger.status(device.name) != "passed":
        print(f"gpu-day: error: no step can be computed on {machine.kind}:\n{ledger.lines[device.name]['says']}")
        return 1
    for item in sorted(items, key=lambda item: ledger.is_suspect(item.name)):
        left = deadline - time.monotonic()
        if item.name not in ledger and item.takes_s <= left:
            attempt(item, ledger, min(item.limit_s, left))
            put(options.out / "results.md", tables.page())
    put(options.out / "results.md", tables.page())
    return summary(items, ledger, options.out, time.monotonic() - begun)


def attempt(item: Item, ledger: Ledger, limit_s: float) -> None:
    """Runs an item and records its result, also on errors."""
    ledger.begin(item.name)
    begun = time.monotonic()
    status, data, says = "passed", {}, ""
    try:
        data = item.find(limit_s)
    except Late as late:
        if limit_s < item.limit_s:
            # The time limit of the call was reached, not that of the item.
            print(f"  cut     {item.name}", flush=True)
            return
        status, says = "late", str(late)
    except Skipped as skipped:
        status, says = "skipped", str(skipped)
    except Failed as failed:
        status, says = "failed", str(failed)
    except Exception as error:
        # A defect in one item must not stop the others.
        status, says = "failed", f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begun
    ledger.end(item.name, status, seconds, data, says)
    why = f": {says.splitlines()[0][:160]}" if says else ""
    print(f"  {status:7} {item.name}, {seconds:.1f} s{why}", flush=True)


def plan(machine: Machine, rounds: int) -> list[Item]:
    """Returns all items in order of importance."""
    quick = 3 if machine.tiny else 1
    items = [Item("0 machine", 2, 60, lambda limit: machine.facts())]

    def add(name: str, takes_s: float, limit_s: float, find: Callable, *of: str) -> None:
        items.append(Item(name, takes_s / quick, limit_s, lambda limit: find(machine, *of[:2], limit, *of[2:])))

    for binary, name in proofs.tests():
        is_long = binary == "presets"
        stage = "3" if "drop" in name else "1"
        add(f"{stage} {binary} {name}", 60 if is_long else 6, proofs.LONG_S if is_long else 120, proofs.test, binary, name)
    for name in presets.names():
        items.append(Item(f"2 {name}", 12 / quick, 120, lambda limit, name=name: proofs.compare(machine, name, limit)))
    items.append(Item("3 determinism", 12 / quick, 120, lambda limit: proofs.determinism(machine, limit)))
    items.append(Item("3 resume", 18 / quick, 180, lambda limit: proofs.resume(machine, limit)))
    for number in range(1, rounds + 1):
        for size in presets.SIZES:
            add(f"4 round {number} {size} mlm", 12, 90, speed.step, "mlm", size)
            add(f"4 round {number} {size} hf compiled", 60, 300, speed.rival, "hf compiled", size)
            add(f"4 round {number} {size} hf eager", 20, 120, speed.rival, "hf eager", size)
            for method in [method for method in presets.METHODS if method != "mlm"]:
                add(f"4 round {number} {size} {method}", 12, 90, speed.step, method, size)
        if number == 1:
            for method, size in speed.FED:
                add(f"4 loader {size} {method}", 25, 150, speed.fed, method, size)
            for name, switch in speed.SWITCHES.items():
                add(f"4 switch {name}", 12, 90, speed.step, "mlm", "base", *switch)
    # Stages run in order, also if the tests of a stage are in different binaries.
    return sorted(items, key=lambda item: item.name[0])


def summary(items: list[Item], ledger: Ledger, out: Path, seconds: float) -> int:
    """Prints a summary and returns the exit code."""
    ended = [ledger.status(item.name) for item in items]
    print(f"gpu-day: {seconds:.0f} s in this call")
    for stage in sorted({item.name[0] for item in items}):
        own = [ledger.status(item.name) for item in items if item.name[0] == stage]
        counts = {status: own.count(status) for status in ("passed", "failed", "late", "skipped", "not yet")}
        print(f"  stage {stage}: " + ", ".join(f"{count} {status}" for status, count in counts.items() if count))
    for item in items:
        if ledger.status(item.name) in ("failed", "late"):
            print(f"  {ledger.status(item.name)}: {item.name}")
    print(f"gpu-day: tables in {out / 'results.md'}, all values in {out / 'results.jsonl'}")
    if "not yet" in ended:
        waiting = next(item.name for item in items if ledger.status(item.name) == "not yet")
        print(f"gpu-day: {ended.count('not yet')} items remain, `{waiting}` is the next one: call it again")
        return 75
    print("gpu-day: all is done")
    return 1 if {"failed", "late"} & set(ended) else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu-day", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the results: results.jsonl, the only file that the next call needs, and results.md")
    parser.add_argument("--for", dest="for_s", type=float, default=540, metavar="SECONDS", help="time limit of the call (540)")
    parser.add_argument("--only", default="01234", metavar="STAGES", help="stages to run, such as 12 for the tests and the comparison with the CPU")
    parser.add_argument("--again", action="store_true", help="repeat items that failed, were late or were skipped")
    parser.add_argument("--list", action="store_true", help="print the items and their status")
    parser.add_argument("--plan", action="store_true", help="print the steps that would be timed, with the rows that fit the device")
    parser.add_argument("--rounds", type=int, default=2, help="number of timings of every step, in turn with all others (2)")
    parser.add_argument("--torch", type=Path, metavar="FOLDER", help="folder of the package torch, if this Python has none")
    parser.add_argument("--python", metavar="PROGRAM", help="Python with torch and transformers, for Hugging Face (default: this one)")
    parser.add_argument("--rivals", type=Path, metavar="SCRIPT", help="script that times training with Hugging Face (default: rivals/train.py of the bundle)")
    parser.add_argument("--work", type=Path, default=BUNDLE / "work", metavar="FOLDER", help="folder for prepared data and runs")
    parser.add_argument("--device", choices=["cuda", "cpu"], help="`cpu` runs all items that need no device")
    parser.add_argument("--pretend", type=Path, metavar="LIBRARY", help="library of the simulated device, for a rehearsal")
    parser.add_argument("--tiny", action="store_true", help="use tiny shapes, for a rehearsal")
    options = parser.parse_args()
    if not options.only or set(options.only) - set("01234"):
        parser.error(f"--only {options.only}: the stages are 0 to 4")
    if options.rounds < 1 or not options.for_s > RESERVE_S:
        parser.error(f"--rounds must be at least 1, --for greater than {RESERVE_S}")
    for name in ("out", "work", "rivals", "pretend"):
        path = getattr(options, name)
        setattr(options, name, path and path.absolute())
    return options


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        sys.exit("gpu-day: error: Python 3.11 or newer is required")
    sys.exit(main())
