"""Stage 4, benchmarks: every method at three sizes in turn with Hugging Face, with and without the loader."""

import json
import os
import re
import shutil
import statistics
import subprocess

import presets
from child import Failed, Skipped, checked
from machine import BUNDLE, Machine, Memory

RIVALS = {"hf compiled": ["--compile"], "hf eager": []}
STEPS = {"base": 30, "large": 20, "small": 60}
# Steps of runs with the loader: enough for several reports of a second each.
TRAINED = {"base": 120, "large": 60, "small": 500}
REPORTS = 5

# Runs with the loader: the fastest models, and the methods with the most work for the loader.
FED = [("mlm", "base"), ("mlm", "small"), ("mlm", "large"), ("taco", "base"), ("electra", "base"), ("coco-lm", "base")]
# Settings that are timed in addition: other precisions, and the cost of dropout, determinism and checkpointing.
SWITCHES = {
    "bf16": ("train.precision=\"bf16\"",), "float32": ("train.precision=\"f32\"",),
    "tf32": ("train.precision=\"f32\"", "train.tf32=true"), "no dropout": ("encoder.dropout=0.0",),
    "deterministic": ("train.deterministic=true",), "activation_checkpointing": ("train.activation_checkpointing=true",),
}

SAID = re.compile(r"hf \w+ (?P<form>\w+) \S+ batch (?P<rows>\d+)x(?P<width>\d+): (?P<step_ms>[\d.]+) ms/step, "
                  r"(?P<tokens_per_s>[\d,]+) tokens/s(?:, MFU (?P<mfu>[\d.]+) %, peak (?P<peak>[\d.]+) GiB)?")


def planned(machine: Machine) -> list[str]:
    """Returns a line for every step that would be timed."""
    every = [(size, method, presets.sized(machine, method, size)) for size in presets.SIZES for method in presets.METHODS]
    return [f"{size:6} {method:16} {rows:4} × {width}" for size, method, (_, _, width, rows) in every]


def answers(machine: Machine, limit_s: float) -> dict:
    """Runs one step of the smallest model, a precondition of all other items."""
    options = presets.settings({"train.device": machine.device, "train.precision": machine.precision})
    return _profiled(machine, "configs/tiny.toml", options, "base", limit_s)


def step(machine: Machine, method: str, size: str, limit_s: float, *more: str) -> dict:
    """Times the steps of a method without the loader."""
    config, options, _, _ = presets.sized(machine, method, size)
    return _profiled(machine, config, [*options, *(word for text in more for word in ("--set", text))], size, limit_s)


def _profiled(machine: Machine, config: str, options: list[str], size: str, limit_s: float) -> dict:
    steps = 3 if machine.tiny else STEPS[size]
    command = [machine.cloze, "profile", "step", "--json", "--steps", steps, "-c", config, *options]
    with Memory() as memory:
        ended = checked(command, machine.env(), BUNDLE, limit_s)
    data = json.loads(ended.out)
    if (data["device"] == "Cpu") != (machine.kind == "cpu"):
        raise Failed(f"the step ran on {data['device']}")
    return data | {"driver_bytes": memory.bytes}


def rival(machine: Machine, form: str, size: str, limit_s: float) -> dict:
    """Times the same steps of Hugging Face with the same rows."""
    if machine.rivals is None:
        raise Skipped("no script for Hugging Face; set it with --rivals")
    if not _has_rivals(machine):
        raise Skipped(f"{machine.python} lacks the packages torch and transformers")
    _, _, width, rows = presets.sized(machine, "mlm", size)
    steps = 3 if machine.tiny else STEPS[size]
    command = [machine.python, machine.rivals, "--size", size, "--tokens", width, "--batch", rows, "--steps", steps,
               "--device", "cuda", *RIVALS[form]]
    env = dict(os.environ) | {"HF_HUB_OFFLINE": "1", "TORCHINDUCTOR_CACHE_DIR": str(machine.work / "inductor")}
    with Memory() as memory:
        ended = checked(command, env, machine.work, limit_s)
    said = SAID.search(ended.out)
    if said is None:
        raise Failed(f"unexpected output:\n{ended.tail}")
    step_ms, tokens_per_s = float(said["step_ms"]), float(said["tokens_per_s"].replace(",", ""))
    mfu, peak = (float(said[name]) if said[name] else None for name in ("mfu", "peak"))
    return {"step_ms": step_ms, "tokens_per_s": tokens_per_s, "mfu": mfu and mfu / 100, "global_batch_size": rows,
            "width": width, "peak_bytes": peak and peak * 2**30, "driver_bytes": memory.bytes}


def _has_rivals(machine: Machine) -> bool:
    look = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('torch', 'transformers'))))"
    return subprocess.run([machine.python, "-c", look], capture_output=True, check=False).returncode == 0


def fed(machine: Machine, method: str, size: str, limit_s: float) -> dict:
    """Times a run with the loader, and its steps without the loader, with the same plan and data."""
    config, options, width, _ = presets.sized(machine, method, size)
    options += presets.prepared(machine, presets.METHODS[method][0], width)
    alone = _profiled(machine, config, options, size, limit_s / 2)
    folder = machine.work / "fed"
    shutil.rmtree(folder, ignore_errors=True)
    steps = REPORTS if machine.tiny else TRAINED[size]
    keys = {"run.folder": str(folder), "train.steps": steps, "report.every_steps": steps // REPORTS, "validation.every_steps": 0,
            "checkpoints.every_steps": steps, "checkpoints.keep": 1, "schedule.warmup_steps": steps // 2}
    command = [machine.cloze, "train", "-c", config, *options, *presets.settings(keys)]
    with Memory() as memory:
        checked(command, machine.env(), BUNDLE, limit_s / 2)
    # The first reports include the warm-up of the device.
    reports = presets.reports(folder)[-3:]
    shutil.rmtree(folder)
    if len(reports) < 3:
        raise Failed(f"the run has {len(reports)} reports, at least 3 are needed")
    rate = statistics.median(report["tokens_per_s"] for report in reports)
    # A program that measures its memory has it in each report.
    peaks = [report["memory"]["allocated_peak_bytes"] for report in reports if report.get("memory")]
    excluded = ("terms", "metrics", "batch_hash")
    return {
        "tokens_per_s": rate, "wait": max(report["data_wait"] for report in reports), "mfu": reports[-1].get("mfu"),
        "alone_tokens_per_s": alone["tokens_per_s"], "peak_bytes": max(peaks, default=None), "driver_bytes": memory.bytes,
        "last_report": {key: value for key, value in reports[-1].items() if key not in excluded},
    }
