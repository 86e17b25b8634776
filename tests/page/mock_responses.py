"""Responses of the mock server about a simulated run, and invalid responses."""

import json
import math
import time

from simulated_run import HOSTILE, HOSTILE_NAME, Play, wire


class Run(Play):
    """A simulated run or preparation with responses."""

    def __init__(self, kind="train", **more):
        super().__init__(kind, **more)
        self.clocks = {}
        self.phase = "step" if kind == "train" else "prepare"
        self.validates, self.starves, self.has_token = False, False, True

    def history(self):
        with self.lock:
            return {
                "version": 1,
                "boot": self.boot,
                "last": self.number,
                "kind": self.kind,
                "name": self.name,
                "place": f"runs/{self.name}",
                "program": "cloze 0.1.0",
                **{group: columns.json() for group, columns in self.columns.items()},
                **self.rank_reports(),
                "events": wire(self.events),
            }

    def actor(self, name, shares, **more):
        """Advances the worker clocks by these shares of the elapsed time; the run has lasted for weeks."""
        spent, at = self.clocks.setdefault(name, ([750_000.0, 1_000.0, 250_000.0], time.monotonic()))
        now = time.monotonic()
        spent[:] = [seconds + share * (now - at) for seconds, share in zip(spent, shares)]
        self.clocks[name] = (spent, now)
        keys = ("busy_s", "starved_s", "blocked_s", "wall_s")
        doing = ("busy", "starved", "blocked")[shares.index(max(shares))]
        rest = {"doing": doing, "since_s": 0.1, "items": self.step, "queued": 0, "capacity": 0, "is_reader": False}
        return {"name": name, **dict(zip(keys, [*spent, sum(spent)])), **rest, **more}

    def actors(self, prefix, workers):
        busy = (0.31, 0.02, 0.67) if not self.starves else (0.97, 0.02, 0.01)
        names = [f"{prefix}-{n}" if n != 2 else HOSTILE_NAME for n in range(workers)]
        made = [self.actor(name, busy, queued=self.random.choice([1, 2, 2]), capacity=2) for name in names]
        reads = (0.4, 0.6, 0.0) if self.starves else (0.994, 0.006, 0.0)
        return [*made, self.actor("batch-reader" if prefix == "load" else f"{prefix}-reader", reads, is_reader=True)]

    def status(self):
        trains = self.kind == "train"
        is_planned = self.phase not in ("start", "plan")
        share = self.step / self.steps if trains else self.parts / 400
        kept = f"runs/{self.name}/checkpoints/step-{self.step // 1000 * 1000:08}"
        return {
            "kind": self.kind,
            "phase": self.phase,
            "since_s": self.random.uniform(0, 0.5),
            "step": self.step if trains else None,
            "steps": self.steps if is_planned else None,
            "progress": share,
            "eta_s": (self.steps - self.step) * 0.5 if trains else (400 - self.parts) * 3.0,
            "epoch": self.step * 64 / 400_000 if trains else None,
            "tokens_per_s": 27_000.0 if trains else 19e6,
            "actors": self.actors("load", 4) if trains else self.actors("prepare", 3),
            "validation": self.actors("valid", 2) if self.validates else [],
            "checkpoint": {"writing_s": None, "kept": kept if trains else None},
            "memory": {"host_bytes": 3_400_000_000, "device_bytes": (61 << 30) if trains else None},
            "uptime_s": 100.0,
            "actions": ["checkpoint", "stop", "log-level", "note"] if trains else [],
            "watch": {"clients": 1},
            "token_needed": True,
            "token_set": self.has_token,
            "instance": self.instance,
        }

    def rows(self, count):
        words = "the cat sat on the mat while rain fell over the old town and no one came to see ##ing it".split()

        def tokens():
            out = [{"text": "[CLS]", "kind": "special", "original": None}]
            for word in words * 2:
                draw = self.random.random()
                kind = "masked" if draw < 0.12 else "random" if draw < 0.16 else "kept" if draw < 0.2 else "plain"
                text = {"masked": "[MASK]", "random": "zebra"}.get(kind, word)
                out.append({"text": text, "kind": kind, "original": None if kind == "plain" else word})
            out.append({"text": HOSTILE, "kind": "random", "original": HOSTILE_NAME})
            return [
                *out,
                {"text": "[SEP]", "kind": "special", "original": None},
                *[{"text": "[PAD]", "kind": "padding", "original": None}] * 3,
            ]

        first = self.step * 64
        return {
            "step": self.step,
            "first_row": first,
            "rows": [
                {
                    "row": first + k,
                    "source": "wiki" if k else HOSTILE_NAME,
                    "place": f"sample 6:{k}, train/part-00006-00-00.parquet",
                    "documents": [f"document 5f0c (novels/oz.txt, bytes 0 to {240_113 + k})", HOSTILE],
                    "views": [
                        {"name": "masked", "note": "", "tokens": tokens(), "offsets": []},
                        {"name": "masked", "note": "(the next)", "tokens": tokens(), "offsets": []},
                    ],
                }
                for k in range(count)
            ],
        }

    def config(self):
        keys = [
            ("train.steps", "100000", "10000"),
            ("optimizer.lr", "0.0005", "0.0001"),
            ("loss.tc", "0.2", None),
            ("data.order", '"shuffled"', '"shuffled"'),
            ("data.workers", "4", "4"),
            ("model.hidden", "768", "768"),
            ("run.name", json.dumps(HOSTILE), None),
            ("spike_guard.action", '"skip"', '"note"'),
        ]
        keys += [(f"train.key_{n}", str(n), str(n)) for n in range(60)]
        toml = "\n".join(f"{key} = {value}" for key, value, _ in keys)
        return {
            "keys": [
                {"key": key, "value": value, "default": default, "changed": value != default}
                for key, value, default in keys
            ],
            "toml": toml,
        }


class Odd(Run):
    """Invalid responses: missing keys, columns of unequal length, too much data."""

    def history(self):
        events = [
            {"kind": kind}
            for kind in ("checkpoint", "loss_spike", "skip", "stop", "start", "warning", "bad_row", "prepare_end")
        ]
        events += [
            None,
            3,
            {},
            {"kind": "stop", "why": ["?"], "step": "NaN"},
            {"kind": "change", "time": "never", "keys": 7},
        ]
        steps = list(range(10, 3000, 10))
        many = {
            f"metrics/a metric with a long name, {n}": {"mean": [n + math.sin(step / 90) for step in steps]}
            for n in range(40)
        }
        broken = {
            "loss": {"mean": ["NaN", None, "Infinity", "-Infinity", 3, "x", {}]},
            "lr": [1, 2],
            "terms/none": None,
            "terms/nan": ["NaN"] * 299,
        }
        reports = {"step": steps, "tokens": steps[:7], "hours": None, "series": many | broken}
        return {
            "boot": self.boot,
            "last": 0,
            "name": HOSTILE * 3,
            "reports": reports,
            "validations": None,
            "events": events,
        }

    def status(self):
        workers = [
            {"name": f"worker {n}", "doing": "sleeping", "queued": 9, "capacity": 4, "busy_s": 2, "starved_s": "NaN"}
            for n in range(64)
        ]
        actors = [*workers, None, 3, {"is_reader": True}]
        return {"phase": None, "actors": actors, "validation": {}, "actions": ["fly"], "eta_s": "soon"}

    def config(self):
        return {"keys": [{"key": "k" * 300, "value": "v" * 3000}, {}]}

    def advance(self):
        for event in (
            {"kind": "report", "point": 3},
            {"kind": "report", "point": {"of": "reports", "values": [1]}},
            {"kind": "report", "point": {"of": "reports", "step": "x", "values": {"loss": {}, "lr": [[], None]}}},
            {"kind": "report", "step": 3100, "loss": "x", "terms": 3},
            {"kind": "note"},
            {},
            [1],
            "text",
        ):
            self.tell(event)

    def record(self, event):
        return None
