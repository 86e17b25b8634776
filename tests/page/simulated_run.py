"""Events of a simulated run or preparation, and the points of their curves."""

import json
import math
import random
import threading
import time

POINTS_MAX = 2048
EVENTS_MAX = 1000
HOSTILE = "</script><img src=x onerror=\"document.title='owned';alert(1)\">"
HOSTILE_NAME = "evil<b>\u202egnp.exe & \"quoted\" 'name'"


# Event kinds that are numbers of curves: the server sends no text for them.
UNTOLD = {"report", "validation", "prepare_progress", "part_done"}


def wire(value):
    """A number as the server writes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: wire(each) for key, each in value.items()}
    return [wire(each) for each in value] if isinstance(value, list) else value


class Columns:
    """Numbers over common axes, at most POINTS_MAX: neighbors are merged as a run grows."""

    AXES = ("step", "tokens", "rows", "hours", "epoch", "time")

    def __init__(self):
        self.axes = {axis: [] for axis in self.AXES}
        self.series = {}
        self.length = 0

    def append(self, at, values):
        for axis, column in self.axes.items():
            column.append(at[axis])
        for name, triple in values.items():
            if name not in self.series:
                self.series[name] = {key: [None] * self.length for key in ("mean", "min", "max")}
            for key, one in zip(("mean", "min", "max"), triple):
                self.series[name][key].append(one)
        self.length += 1
        for series in self.series.values():
            for column in series.values():
                column.extend([None] * (self.length - len(column)))
        if self.length > POINTS_MAX:
            self.merge()

    def merge(self):
        pairs = [(i, min(i + 1, self.length - 1)) for i in range(0, self.length, 2)]
        join = {"mean": lambda a, b: (a + b) / 2, "min": min, "max": max}
        for axis, column in self.axes.items():
            self.axes[axis] = [column[second] for _, second in pairs]
        for series in self.series.values():
            for key, column in series.items():
                both = [(column[a], column[b]) for a, b in pairs]
                series[key] = [b if a is None else a if b is None else join[key](a, b) for a, b in both]
        self.length = len(pairs)

    def json(self):
        return {**self.axes, "series": wire(self.series)}

    def cut(self, step):
        """Removes the points after a step."""
        self.length = sum(at <= step for at in self.axes["step"])
        for column in [*self.axes.values(), *(one for series in self.series.values() for one in series.values())]:
            del column[self.length :]


def named(family, values):
    return {f"{family}/{name}": value for name, value in values.items()}


def trained(event):
    """The metrics of a report; a triple is a mean with minimum and maximum."""
    finite = [value for value in event["losses"] if math.isfinite(value)]
    values = {"loss": (event["loss"], min(finite), max(finite))}
    values["grad_norm"] = (event["grad_norm"], min(event["grad_norms"]), max(event["grad_norms"]))
    values |= {"lr": event["lr"], "skipped": event["skipped"]}
    values |= {f"speed/{key}": event[key] for key in ("tokens_per_s", "steps_per_s", "data_wait", "checkpoint_stall", "mfu")}
    wall = event["phases"]["wall"]
    values |= {f"phase/{name}": seconds / wall for name, seconds in event["phases"].items() if name != "wall"}
    values |= {"memory/device_bytes": event["memory"]["allocated_peak_bytes"], "memory/host_bytes": event["host_bytes"]}
    families = ("terms", "metrics", "source_epochs")
    return values | {key: value for family in families for key, value in named(family, event[family]).items()}


def validated(event):
    values = {"loss": event["loss"], "seconds": event["seconds"]}
    families = ("terms", "metrics", "mlm")
    return values | {key: value for family in families for key, value in named(family, event[family]).items()}


def prepared(event):
    keys = ("parts", "text_bytes_per_s", "tokens_per_s")
    return {"share": event["bytes"] / event["bytes_total"]} | {key: event[key] for key in keys}


class Play:
    """A run of two objectives with all kinds of events; or a preparation."""

    def __init__(self, kind="train", name="taco-small", seed=7, scale=1.0):
        self.kind, self.name, self.scale = kind, name, scale
        self.random = random.Random(seed)
        self.boot = f"{random.SystemRandom().getrandbits(48):012x}"
        self.steps = 100_000 if kind == "train" else None
        self.ranks = []
        self.step, self.parts, self.number = 0, 0, 0
        self.began = time.time() - 60
        self.columns = {group: Columns() for group in ("reports", "validations", "preparation")}
        self.instance = self.boot
        self.events = []
        self.lock = threading.RLock()
        self.listeners = []
        self.recent = []
        self.stopped = False
        self.ended = False

    # Events.

    def event(self, kind, **keys):
        event = {"version": 2, "time": int(self.now() * 1000), "elapsed_s": self.now() - self.began, "kind": kind}
        if self.kind == "train":
            event |= {
                "step": self.step,
                "epoch": self.step * 64 / 400_000,
                "rows_seen": self.step * 64,
                "tokens_seen": self.step * 64 * 117,
            }
        if kind not in UNTOLD:
            event["summary"] = ", ".join(f"{key} {value}" for key, value in keys.items())
        return event | keys

    def now(self):
        """The simulated clock: half a second per step, so that a long run has hours."""
        return self.began + self.step * 0.5 + self.parts * 3

    def tell(self, event):
        with self.lock:
            self.number += 1
            point = self.record(event)
            text = json.dumps(wire(event | {"point": point} if point else event))
            self.recent = [*self.recent[-999:], (self.number, text)]
            for listener in self.listeners:
                listener.put((self.number, text))

    def go_back(self, step):
        """Resumes from a checkpoint: later points are removed, and all clients reload."""
        with self.lock:
            self.step = step
            for columns in self.columns.values():
                columns.cut(step)
            self.events = [event for event in self.events if event.get("step", 0) <= step]
            self.boot, self.recent = f"{random.SystemRandom().getrandbits(48):012x}", []
            for listener in self.listeners:
                listener.put(None)
        self.tell(self.event("resume", place=f"runs/{self.name}/checkpoints/step-{step:08}"))

    def record(self, event):
        """Stores an event and returns its point, if it has one."""
        kind = event["kind"]
        of = {"report": "reports", "validation": "validations", "prepare_progress": "preparation"}.get(kind)
        if of is None:
            if kind != "part_done":
                self.events = [*self.events[1 - EVENTS_MAX :], event]
            return None
        place = {
            "step": event.get("step", 0),
            "tokens": event.get("tokens_seen", 0),
            "rows": event.get("rows_seen", 0),
            "hours": event["elapsed_s"] / 3600,
            "epoch": event.get("epoch", 0),
            "time": event["time"],
        }
        values = {"report": trained, "validation": validated, "prepare_progress": prepared}[kind](event)
        if kind == "report":
            values["queue/fill"] = self.random.uniform(0.55, 1)
        values = {name: list(value) if isinstance(value, tuple) else [value] * 3 for name, value in values.items()}
        self.columns[of].append(place, values)
        return {"of": of, **place, "values": values}

    # Simulation.

    def loss(self, step, noise=0.05):
        draw = self.random.gauss
        mlm = (3.4 + 2.4 * math.exp(-step / 9000) + 4.5 * math.exp(-step / 900)) * self.scale + draw(0, noise)
        return mlm, (0.09 + 3.3 * math.exp(-step / 600)) * self.scale + draw(0, noise / 8)

    def advance(self):
        """Simulates the next ten steps and their events."""
        if self.kind == "prepare":
            return self.prepare()
        if self.step == 0:
            mlm, tc = self.loss(0)
            expected = {"mlm": {"low": 10.2, "high": 10.6}, "tc": {"low": 2.9, "high": 3.9}}
            terms = {"mlm": mlm, "tc": tc}
            self.tell(self.event("start", random=True, terms=terms, expected=expected, unexpected_losses=[]))
        self.step += 10
        step = self.step
        each = [self.loss(step - 9 + k) for k in range(10)]
        spike = 6.5 if step == 6200 else 0.0
        mlm, tc = sum(a for a, _ in each) / 10 + spike, sum(b for _, b in each) / 10
        broken = math.nan if step == 12_400 else 0.0
        norm = [abs(self.random.gauss(2 + 9 * math.exp(-step / 500), 0.3)) + (spike and 40) for _ in range(10)]
        warm = min(1, step / 2000)
        shares = {"data": 0.006, "step": 0.21, "read": 0.765, "validation": 0.015, "checkpoint": 0.004}
        phases = {name: share * 5 * self.random.uniform(0.8, 1.2) for name, share in shares.items()}
        phases["wall"] = sum(phases.values())
        speed = 27_000 * self.random.uniform(0.95, 1.03) * (0.4 if step % 5000 == 0 else 1)
        self.tell(
            self.event(
                "report",
                loss=mlm + 0.2 * tc + broken,
                terms={"mlm": mlm + broken, "tc": tc},
                metrics={
                    "mlm.accuracy": 0.55 - 0.5 * math.exp(-step / 6000) + self.random.gauss(0, 0.01),
                    "tc.positive_cosine": 0.92 - 0.6 * math.exp(-step / 2500) + self.random.gauss(0, 0.006),
                    "tc.negative_cosine": 0.08 + 0.3 * math.exp(-step / 2500) + self.random.gauss(0, 0.004),
                },
                lr=5e-4 * warm * (1 - step / 100_000),
                grad_norm=sum(norm) / 10,
                skipped=int(step > 6200),
                losses=[a + 0.2 * b + spike + broken for a, b in each] if not broken else [math.nan, 4.1],
                grad_norms=norm,
                batch_hash="0" * 64,
                tokens_per_s=speed,
                mfu=0.41 * speed / 27_000,
                data_wait=abs(self.random.gauss(0.006, 0.004)),
                checkpoint_stall=0.02 if step % 1000 == 0 else 0.0,
                eta_s=(self.steps - step) * 0.5,
                phases=phases,
                steps_per_s=2.0 * speed / 27_000,
                progress=step / self.steps,
                host_bytes=int(3.1e9 + step * 1e3),
                **self.rank_reports(),
                source_epochs={"wiki": step / 9000, "books": step / 22_000, HOSTILE_NAME: step / 60_000},
                memory={"allocated_peak_bytes": 61 << 30, "reserved_peak_bytes": 66 << 30, "total_bytes": 80 << 30},
            )
        )
        if spike:
            leap = dict(
                spike_step=6197, first_row=396_608, rows=64, figure="loss", value=mlm, median=mlm - spike, sigmas=41.2
            )
            self.tell(self.event("loss_spike", **leap))
            self.tell(self.event("skip", **leap, suspects=[{"row": 396_612, "loss": 19.1, "documents": [HOSTILE]}]))
        if broken:
            self.tell(
                self.event("warning", topic="not_finite", message="the loss of a step is not a number", hint=HOSTILE)
            )
        if step % 500 == 0:
            self.validate(*self.loss(step + 0, 0.01))
        if step % 1000 == 0:
            self.tell(
                self.event(
                    "checkpoint", place=f"runs/{self.name}/checkpoints/step-{step:08}", seconds=1.3, stall_s=0.02
                )
            )
        if step == 3000:
            self.tell(
                self.event(
                    "bad_row",
                    row=191_233,
                    source=HOSTILE_NAME,
                    sample="6:1424",
                    shard="train/part-00006.parquet",
                    group=0,
                    row_in_group=1424,
                    documents=["5f0c", HOSTILE],
                    why=f"panicked: {HOSTILE}",
                )
            )
        if step == 8000:
            self.tell(
                self.event(
                    "change",
                    **{"from": None},
                    how="allow",
                    message="`optimizer.lr`: 6e-4 → 5e-4",
                    keys=[{"key": "optimizer.lr", "then": "6e-4", "now": "5e-4"}],
                )
            )
        if step == 9100:
            self.tell(self.event("dataset_version", dataset_version=2, before=1, row=step * 64, source="wiki"))
            self.tell(self.event("starved", by="prepare", seconds=3.2, part=4, parts=5))
            audit = dict(view="masked", what="masked", found=0.1502, promised=0.15, error=0.0004, of=812_331)
            self.tell(self.event("audit", **audit))
            self.tell(self.event("from_the_future", colour="teal", depth=3))

    def rank_reports(self):
        """The ranks of a report: none of a single process."""
        each = zip(self.ranks, range(len(self.ranks)))
        rank = {"step_s": 0.0412, "data_wait": 0.006, "checkpoint_stall": 0.0, "host_bytes": int(3.1e9)}
        ranks = [{"rank": at, "host": HOSTILE_NAME, **rank, "rank_wait": wait} for wait, at in each]
        return {"ranks": ranks} if ranks else {}

    def validate(self, mlm, tc):
        mlm, tc = mlm + 0.06, tc + 0.02
        yardstick = {
            "loss": mlm,
            "accuracy": 0.54 - 0.5 * math.exp(-self.step / 6000),
            "ln_vocab": 10.33,
            "unigram_cross_entropy": 7.05,
        }
        self.tell(
            self.event(
                "validation",
                rows=2048,
                loss=mlm + 0.2 * tc,
                terms={"mlm": mlm, "tc": tc},
                metrics={"mlm.accuracy": yardstick["accuracy"]},
                mlm=yardstick,
                seconds=6.1,
            )
        )

    def prepare(self):
        total = 400
        if self.parts == 0:
            self.tell(
                self.event(
                    "prepare_start",
                    files=120,
                    bytes=40 << 30,
                    parts=total,
                    workers=3,
                    text_bytes_max=1 << 30,
                    largest_compressed=None,
                    dataset_version=0,
                    change=None,
                )
            )
        if self.parts >= total:
            self.end()
            return
        self.parts += 1
        rate = 83e6 * self.random.uniform(0.9, 1.05)
        self.tell(
            self.event(
                "part_done",
                part=self.parts,
                bytes=100 << 20,
                documents=9000,
                tokens=22_000_000,
                samples=180_000,
                kept=False,
            )
        )
        self.tell(
            self.event(
                "prepare_progress",
                bytes=self.parts * (40 << 30) // total,
                bytes_kept=0,
                bytes_total=40 << 30,
                parts=self.parts,
                parts_total=total,
                text_bytes=int(self.parts * 250e6),
                tokens=self.parts * 22_000_000,
                text_bytes_per_s=rate,
                tokens_per_s=rate / 4.3,
                eta_s=(total - self.parts) * 3.0,
            )
        )

    def end(self):
        if self.ended:
            return
        self.ended = True
        split = lambda samples: {"samples": samples, "tokens": samples * 120}
        self.tell(
            self.event(
                "prepare_end",
                place="data/wiki",
                dataset_version=1,
                change="12 files were added",
                pack="documents",
                parts_made=400,
                parts_kept=0,
                nothing_to_do=False,
                bytes_read=40 << 30,
                text_bytes_made=100 << 30,
                lines=3_612_000,
                documents=3_600_124,
                text_bytes=100 << 30,
                words=16_800_000_000,
                tokens=23_400_000_000,
                unknown=1_204_000,
                forgotten=3,
                rejected={"too_short": 8121, "not_utf8": 210, HOSTILE_NAME: 2, "duplicate": 3667},
                sentences=0,
                cut_sentences=0,
                cut_documents=1022,
                cut_tokens=3_100_000,
                train=split(190_000_000),
                valid=split(960_000),
                samples=190_960_000,
                stored_tokens=23_300_000_000,
                tokens_capacity=23_900_000_000,
                shard_bytes=49_000_000_000,
                stages={"read": 901.0, "tokenize": 2310.0, "pack": 120.0, "write": 260.0},
                warnings=["1022 documents are longer than a sample, so cut", HOSTILE],
                seconds=1210.0,
            )
        )
