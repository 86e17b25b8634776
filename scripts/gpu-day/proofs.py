"""Stages 1 to 3, correctness of the device."""

import hashlib
import json
import math
import re
import shutil
import time
from pathlib import Path

import presets
from child import Child, Failed, Skipped, checked, run
from machine import BUNDLE, Machine

# Time limit of the tests that compare every preset three times in one process.
LONG_S = 400

# Maximum difference of losses, relative to the larger one: differences accumulate over steps, and a generator that
# samples a different word diverges.
APART = {"f32": 3e-3, "bf16": 3e-2}
# The device draws different random numbers than the CPU.
APART_DRAWN = 0.2
STEPS = 20


def tests() -> list[tuple[str, str]]:
    """Every test that requests a device, as (binary, name), from the list of `gpu-pack`."""
    listed = json.loads((BUNDLE / "tests" / "asking.json").read_text(encoding="utf-8"))
    return [(binary, name) for binary, names in listed.items() for name in names]


def test(machine: Machine, binary: str, name: str, limit_s: float) -> dict:
    """Runs a test in a separate process, so that a device error does not affect other tests."""
    if machine.kind == "cpu":
        raise Skipped("there is no device")
    if binary != "program":
        # The test runs on the device already and need not restart itself.
        env = machine.env("device", CLOZE_TEST_DEVICE="cuda", PRETEND_CUDA_INSIDE="1")
    else:
        env = machine.env("tests")
    command = [BUNDLE / "tests" / binary, "--exact", name, "--nocapture", "--test-threads=1"]
    ended = checked(command, env, machine.work, limit_s)
    if " 1 passed" not in ended.out:
        raise Failed(f"the test did not run:\n{ended.tail}")
    skipped = [line for line in (ended.out + ended.err).splitlines() if line.startswith("SKIPPED")]
    return {"skipped": skipped}


def compare(machine: Machine, name: str, limit_s: float) -> dict:
    """Trains a preset on the CPU and on the device in float32 and bfloat16, and compares the losses."""
    options = presets.small(machine, name) + presets.begun(machine, name)
    preset, rows = presets.table(name), 8 if machine.tiny else 24
    copies = preset.get("data", {}).get("copies_per_sample", 1)
    steps = 3 if machine.tiny else STEPS
    keys = {"encoder.dropout": 0.0, "optimizer.lr": 1e-4, "train.steps": steps, "train.global_batch_size": rows - rows % copies,
            "train.micro_batch_size": rows - rows % copies, "checkpoints.every_steps": steps}
    runs = {"cpu": ("cpu", "cpu", "f32"), "f32": ("device", machine.device, "f32")}
    if machine.kind != "cpu":
        runs["bf16"] = ("device", machine.device, "bf16")
    children, losses = {}, {}
    for which, (env, device, precision) in runs.items():
        folder = machine.work / "compare" / name / which
        shutil.rmtree(folder, ignore_errors=True)
        own = presets.settings(keys | {"run.folder": str(folder), "train.device": device, "train.precision": precision})
        command = [machine.cloze, "train", "-c", f"configs/{name}.toml", *options, *own]
        children[which] = Child(command, machine.env(env), BUNDLE)
    for which, child in children.items():
        child.wait(limit_s).well(f"{name} {which}")
        losses[which] = [report["loss"] for report in presets.reports(machine.work / "compare" / name / which)]
    shutil.rmtree(machine.work / "compare" / name)
    draws = any(objective["kind"] == "token_contrastive" and title in preset["loss"]
                for title, objective in preset["objectives"].items())
    data = {"draws": draws, "losses": losses, "apart": {}}
    for which in runs.keys() - {"cpu"}:
        data["apart"][which] = _apart(losses[which], losses["cpu"], steps)
        bound = max(APART[which], APART_DRAWN if draws else 0)
        if not data["apart"][which] < bound:
            raise Failed(f"{which} differs from the CPU by {data['apart'][which]:.2g}, more than {bound}: {losses}")
    return data


def _apart(found: list, expected: list, steps: int) -> float:
    if len(found) != steps or len(expected) != steps:
        return math.inf
    numbers = [(float(one), float(other)) for one, other in zip(found, expected)]
    distances = [abs(one - other) / max(abs(one), abs(other)) for one, other in numbers]
    return max(math.inf if math.isnan(distance) else distance for distance in distances)


def determinism(machine: Machine, limit_s: float) -> dict:
    """Trains a run twice and compares the results bit by bit."""
    first, second = (_whole(machine, f"twice-{which}", limit_s / 2) for which in "ab")
    return _same(first, second, {})


def resume(machine: Machine, limit_s: float) -> dict:
    """Compares a run that is killed and resumed with an uninterrupted run bit by bit."""
    whole = _whole(machine, "whole", limit_s / 3)
    folder = machine.work / "proofs" / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    command = _everything(machine, folder)
    child, until = Child(command, machine.env(), BUNDLE), time.monotonic() + limit_s / 3
    while _newest(child.said()) < 7:
        if child.process.poll() is not None or time.monotonic() > until:
            child.kill()
            raise Failed(f"the run did not reach step 7; its output:\n{child.said()[-1000:]}")
        time.sleep(0.01)
    child.kill()
    at = _newest(child.said())
    run(command, machine.env(), BUNDLE, limit_s / 3).well("resumed run")
    return _same(whole, _bytes(folder), {"killed_at_step": at})


def _whole(machine: Machine, name: str, limit_s: float) -> dict[str, str]:
    folder = machine.work / "proofs" / name
    shutil.rmtree(folder, ignore_errors=True)
    run(_everything(machine, folder), machine.env(), BUNDLE, limit_s).well(name)
    return _bytes(folder)


def _everything(machine: Machine, folder: Path) -> list:
    """Command of a deterministic run with all objectives, networks, kinds of views, and dropout."""
    data = machine.work / "data" / "everything"
    keys = {
        "prepare.inputs": [str(BUNDLE / "corpus")], "prepare.tokenizer": str(BUNDLE / "tokenizers" / "wordpiece.json"),
        "prepare.folder": str(data), "data.folder": str(data), "run.folder": str(folder), "report.every_steps": 1,
        "train.steps": 12, "validation.every_steps": 6, "checkpoints.every_steps": 4, "train.deterministic": True,
        "train.device": machine.device, "train.precision": machine.precision, "encoder.dropout": 0.1,
        "networks.generator.sampling_method": "gumbel",
    }
    if not machine.tiny:
        keys |= {"encoder.hidden": 128, "encoder.feed_forward": 512, "train.global_batch_size": 64, "train.micro_batch_size": 32}
    config = ["-c", "tests/fixtures/every-objective.toml", *presets.settings(keys)]
    if not (data / "manifest.json").exists():
        checked([machine.cloze, "prepare", *config], machine.env("cpu"), BUNDLE, 120)
    return [machine.cloze, "train", *config]


def _newest(said: str) -> int:
    steps = re.findall(r"^step (\d+)  loss ", said, re.MULTILINE)
    return int(steps[-1]) if steps else 0


def _bytes(folder: Path) -> dict[str, str]:
    """Hashes of the weights, optimizer moments and reports of a run."""
    newest = folder / "checkpoints" / (folder / "checkpoints" / "latest").read_text(encoding="utf-8").strip()
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(newest.glob("*.safetensors"))}
    trained = [[report["step"], report["loss"], report["terms"], report["batch_hash"]] for report in presets.reports(folder)]
    return found | {"reports": hashlib.sha256(repr(trained).encode()).hexdigest(), "steps": str(len(trained))}


def _same(one: dict, other: dict, data: dict) -> dict:
    if one.get("steps") != "12" or len(one) < 4:
        raise Failed(f"results are incomplete: {one}")
    apart = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if apart:
        raise Failed(f"these differ: {', '.join(apart)}")
    return data | {"equal": sorted(one)}
