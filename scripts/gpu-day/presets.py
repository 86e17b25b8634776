"""Presets for the tests: shrunk, or at one of three sizes, with the corpus of the bundle.

All changes are made with `--set`, so the preset file itself is tested.
"""

import hashlib
import json
import tomllib
from pathlib import Path

from child import checked
from machine import BUNDLE, Machine

CONFIGS = BUNDLE / "configs"

# Prefixes of configurations that are no presets.
OWN = ("demo", "tiny", "eltec")

# Layers, width, heads, feed-forward; tokens per row; rows per step.
SIZES = {
    "base": ((12, 768, 12, 3072), 512, 64),
    "large": ((24, 1024, 16, 4096), 512, 32),
    "small": ((4, 512, 8, 2048), 128, 256),
}
TINY = {
    "base": ((2, 64, 2, 128), 32, 8),
    "large": ((3, 64, 2, 128), 32, 4),
    "small": ((1, 64, 2, 128), 16, 16),
}

# Generators: layers, width, heads, feed-forward. Those without a width have the width of the main network.
ELECTRA = {"base": (12, 256, 4, 1024), "large": (24, 256, 4, 1024), "small": (4, 128, 2, 512)}
ELECTRA_TINY = {"base": (2, 32, 1, 64), "large": (3, 32, 1, 64), "small": (1, 32, 1, 64)}
COCO_LAYERS = {"base": 4, "large": 6, "small": 1}

# Timed methods: name, preset, additional settings, and the plain run for comparison.
RELATIVE = ("encoder.relative_positions={kind=\"cocolm\"}", "expects.vocab_size=32768", "encoder.layer_norm_eps=1e-5")
METHODS = {
    "mlm": ("mlm-base", (), None),
    "electra": ("electra-base", (), "mlm"),
    "coco-lm": ("coco-lm-base", (), "mlm, relative"),
    "mlm, relative": ("mlm-base", RELATIVE, None),
    "taco": ("taco-base", (), "mlm"),
    "tacl": ("tacl-base", (), "mlm"),
    "mlm + tp": ("ablations/taco/mlm-tp", (), "mlm"),
    "coco-lm, no scl": ("coco-lm-base", ("loss={generator=1.0,clm=1.0}",), "mlm, relative"),
}


def table(name: str) -> dict:
    """Returns a preset merged with the file that it extends."""
    path = CONFIGS / f"{name}.toml"
    own = tomllib.loads(path.read_text(encoding="utf-8"))
    parent = own.pop("extends", None)
    return merged(table(str((path.parent / parent).resolve().relative_to(CONFIGS.resolve()).with_suffix(""))), own) if parent else own


def merged(base: dict, override: dict) -> dict:
    both = dict(base)
    for key, value in override.items():
        deep = isinstance(value, dict) and isinstance(both.get(key), dict) and key != "loss"
        both[key] = merged(both[key], value) if deep else value
    return both


def names() -> list[str]:
    return sorted(path.stem for path in CONFIGS.glob("*.toml") if not path.stem.startswith(OWN))


def settings(keys: dict) -> list[str]:
    """Returns keys and values as program options. JSON numbers, booleans and strings are valid TOML."""
    return [word for key, value in keys.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def sized(machine: Machine, method: str, size: str) -> tuple[str, list[str], int, int]:
    """Returns configuration, settings, tokens per row and rows per step of a method at a size that fit the device."""
    preset, own, _ = METHODS[method]
    (layers, hidden, heads, feed_forward), width, rows = (TINY if machine.tiny else SIZES)[size]
    keys = {
        "encoder.layers": layers, "encoder.hidden": hidden, "encoder.heads": heads, "encoder.feed_forward": feed_forward,
        "encoder.embedding": hidden, "encoder.max_positions": max(width, 64), "prepare.max_seq_len": width, "data.seq_len": width,
        "train.device": machine.device,
    }
    if machine.kind == "cpu":
        keys["train.precision"] = machine.precision
    networks = table(preset).get("networks", {})
    if "generator" in networks and "hidden" in networks["generator"]:
        shape = (ELECTRA_TINY if machine.tiny else ELECTRA)[size]
        keys |= {f"networks.generator.{key}": value for key, value in zip(("layers", "hidden", "heads", "feed_forward"), shape)}
    elif "generator" in networks:
        keys["networks.generator.layers"] = COCO_LAYERS[size]
    options = settings(keys) + [word for text in own for word in ("--set", text)]
    config = f"configs/{preset}.toml"
    while True:
        of_step = settings({"train.global_batch_size": rows, "train.micro_batch_size": rows})
        plan = checked([machine.cloze, "plan", "--json", "-c", config, *options, *of_step], machine.env("cpu"), BUNDLE, 60)
        # A sixth is reserved for memory outside the plan: the context, workspaces and fragmentation.
        if rows <= 4 or json.loads(plan.out)["memory_bytes"] < machine.memory_bytes() * 5 / 6:
            return config, options + of_step, width, rows
        rows //= 2


def small(machine: Machine, name: str) -> list[str]:
    """Returns settings that shrink a preset to about a second, with several layers and heads of real width."""
    preset = table(name)
    encoder, (hidden, heads) = preset["encoder"], (64, 1) if machine.tiny else (128, 2)
    width = 32 if machine.tiny else 128
    keys = {
        "encoder.layers": 1 if machine.tiny else min(4, encoder["layers"]), "encoder.hidden": hidden,
        "encoder.heads": heads, "encoder.feed_forward": 4 * hidden, "encoder.max_positions": 128, "data.seq_len": width,
        "schedule.warmup_steps": 2, "validation.every_steps": 0, "report.every_steps": 1,
    }
    if "embedding" in encoder and encoder["embedding"] != encoder["hidden"]:
        keys["encoder.embedding"] = hidden // 2
    generator = preset.get("networks", {}).get("generator", {})
    if generator:
        keys["networks.generator.layers"] = 1
    if "hidden" in generator:
        keys |= {"networks.generator.hidden": hidden // 2, "networks.generator.heads": 1, "networks.generator.feed_forward": hidden}
    return settings(keys) + prepared(machine, name, width)


def prepared(machine: Machine, name: str, width: int) -> list[str]:
    """Settings that lead a preset to a prepared folder of the bundle's corpus, made if it is not there."""
    section = table(name)["prepare"]
    kind = "wordpiece" if "lowercase" in section else "byte_bpe"
    keys = {
        "prepare.inputs": [str(BUNDLE / "corpus")], "prepare.tokenizer": str(BUNDLE / "tokenizers" / f"{kind}.json"),
        "prepare.max_seq_len": width, "prepare.valid_fraction": 0.05,
    }
    mark = json.dumps([kind, section.get("packing"), width], sort_keys=True)
    folder = machine.work / "data" / hashlib.sha256(mark.encode()).hexdigest()[:12]
    keys |= {"prepare.folder": str(folder), "data.folder": str(folder)}
    options = settings(keys)
    if not (folder / "manifest.json").exists():
        words = [machine.cloze, "prepare", "-c", f"configs/{name}.toml", *options]
        checked(words, machine.env("cpu"), BUNDLE, 120)
    return options


def begun(machine: Machine, name: str) -> list[str]:
    """Returns settings for the initial weights of a preset: an exported model, created if it is missing."""
    if "init_from" not in table(name)["train"]:
        return []
    model = machine.work / "models" / name
    if not (model / "config.json").exists():
        # The preset itself with random initialization and only the masked language model.
        preset = table(name)
        del preset["train"]["init_from"]
        config, run = model.with_name(f"{name}.toml"), model.with_name(f"{name}-run")
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(written(preset | {"loss": {"mlm": 1.0}}), encoding="utf-8")
        plain = {"run.folder": str(run), "train.steps": 2, "train.global_batch_size": 8, "train.micro_batch_size": 8,
                 "train.device": "cpu", "train.precision": "f32", "schedule.warmup_steps": 0}
        options = small(machine, name) + settings(plain)
        checked([machine.cloze, "train", "-c", config, *options], machine.env("cpu"), BUNDLE, 120)
        checked([machine.cloze, "export", run, "--out", model], machine.env("cpu"), BUNDLE, 60)
    return settings({"train.init_from": str(model)})


def written(values: dict, above: str = "") -> str:
    """Formats a table as TOML, one line per key."""
    lines = [written(value, f"{above}{key}.") if isinstance(value, dict) else f"{above}{key} = {json.dumps(value)}\n"
             for key, value in values.items()]
    return "".join(lines)


def reports(folder: Path) -> list[dict]:
    """Returns the reports of a run in order."""
    events = []
    for segment in sorted(folder.glob("log/*.jsonl")):
        events += [json.loads(line) for line in segment.read_text(encoding="utf-8").splitlines()]
    return [event for event in events if event["kind"] == "report"]
