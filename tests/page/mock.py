#!/usr/bin/env python3
"""A server that plays a run, for the page: what `cloze train` would serve, of numbers that are made up.

    python3 tests/page/mock.py                          # a run, on a free port of the loopback address
    python3 tests/page/mock.py --kind prepare --port 8765 --rate 5
    python3 tests/page/mock.py --report report.html     # no server: a report of three runs as one file

It assembles the page of serve/page as the program does: plain text put in at three markers, the scripts in the order that
page.html names. It needs nothing but Python's standard library. Names and documents are as hostile as a corpus can be.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import math
import queue
import random
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PAGE = Path(__file__).resolve().parents[2] / "serve" / "page"
TOKEN = "open-sesame"
POINTS_MAX = 2048
EVENTS_MAX = 1000
HOSTILE = "</script><img src=x onerror=\"document.title='owned';alert(1)\">"
HOSTILE_NAME = "evil<b>\u202egnp.exe & \"quoted\" 'name'"


def assemble(report=None):
    """The page as one file, and the policy under which it is served."""
    page = (PAGE / "page.html").read_text()
    names = re.search(r"in this order:\s+(.*?)-->", page, re.S).group(1).split()
    style = (PAGE / "page.css").read_text()
    script = "".join((PAGE / name).read_text() for name in names)
    missing = {path.name for path in PAGE.glob("*.js")} ^ set(names)
    assert not missing, f"page.html and the folder disagree about {sorted(missing)}"
    parts = {"/*STYLE*/": style, "/*SCRIPT*/": script, "<!--REPORT-->": ""}
    if report is not None:
        text = json.dumps(report).replace("<", "\\u003c")
        parts["<!--REPORT-->"] = f'<script type="application/json" id="report">{text}</script>'
    for marker, text in parts.items():
        assert page.count(marker) == 1, f"{marker} stands {page.count(marker)} times in page.html"
    for marker, text in parts.items():
        page = page.replace(marker, text)
    digest = lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


def wire(value):
    """A number as the server writes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: wire(each) for key, each in value.items()}
    return [wire(each) for each in value] if isinstance(value, list) else value


class Columns:
    """Numbers over common axes, at most POINTS_MAX: neighbours are merged as a run grows."""

    def __init__(self, axes):
        self.axes = {axis: [] for axis in axes}
        self.series = {}
        self.length = 0

    def append(self, at, values):
        for axis, column in self.axes.items():
            column.append(at[axis])
        for name, value in values.items():
            if name not in self.series:
                self.series[name] = {key: [None] * self.length for key in ("mean", "min", "max")}
            triple = value if isinstance(value, tuple) else (value, value, value)
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


class Play:
    """A run of two objectives with all that can happen to one; or a preparation."""

    TRAINING = ("step", "tokens", "rows", "hours", "epoch", "time")

    def __init__(self, kind="train", name="taco-small", seed=7, scale=1.0):
        self.kind, self.name, self.scale = kind, name, scale
        self.random = random.Random(seed)
        self.boot = f"{random.SystemRandom().getrandbits(48):012x}"
        self.steps = 100_000 if kind == "train" else None
        self.step, self.parts, self.number = 0, 0, 0
        self.began = time.time() - 60
        self.reports = Columns(self.TRAINING)
        self.validations = Columns(self.TRAINING)
        self.preparation = Columns(("elapsed_s", "time"))
        self.events = []
        self.lock = threading.RLock()
        self.listeners = []
        self.recent = []
        self.stopped = False
        self.ended = False

    # What is said.

    def event(self, kind, **keys):
        event = {"version": 1, "time": int(self.now() * 1000), "elapsed_s": self.now() - self.began, "kind": kind}
        if self.kind == "train":
            event |= {
                "step": self.step,
                "epoch": self.step * 64 / 400_000,
                "rows_seen": self.step * 64,
                "tokens_seen": self.step * 64 * 117,
            }
        return event | keys

    def now(self):
        """The clock of the play: half a second a step, so that a run of hours has hours."""
        return self.began + self.step * 0.5 + self.parts * 3

    def tell(self, event):
        with self.lock:
            self.number += 1
            self.record(event)
            text = json.dumps(wire(event))
            self.recent = [*self.recent[-999:], (self.number, text)]
            for listener in self.listeners:
                listener.put((self.number, text))

    def record(self, event):
        kind = event["kind"]
        if kind in ("report", "validation"):
            at = {
                "step": event["step"],
                "tokens": event["tokens_seen"],
                "rows": event["rows_seen"],
                "epoch": event["epoch"],
                "hours": event["elapsed_s"] / 3600,
                "time": event["time"],
            }
            values = {"loss": event["loss"]}
            values |= {f"terms/{name}": value for name, value in event["terms"].items()}
            values |= {f"metrics/{name}": value for name, value in event["metrics"].items()}
            if kind == "report":
                finite = [value for value in event["losses"] if math.isfinite(value)]
                values["loss"] = (event["loss"], min(finite), max(finite))
                values["grad_norm"] = (event["grad_norm"], min(event["grad_norms"]), max(event["grad_norms"]))
                values |= {"lr": event["lr"], "skipped": event["skipped"], "queue/fill": self.random.uniform(0.55, 1)}
                values |= {f"speed/{key}": event[key] for key in ("tokens_per_s", "wait", "stall", "mfu")}
                values |= {
                    "memory/device_bytes": event["memory"]["allocated_peak_bytes"],
                    "memory/host_bytes": 3.1e9 + self.step * 1e3,
                }
                values |= {f"source_epochs/{name}": value for name, value in event["source_epochs"].items()}
                self.reports.append(at, values)
            else:
                values |= {f"mlm/{key}": value for key, value in event["mlm"].items()}
                self.validations.append(at, values)
        elif kind == "prepare_progress":
            share = event["bytes"] / event["bytes_total"]
            values = {"share": share, "parts": event["parts"]} | {
                key: event[key] for key in ("text_bytes_per_s", "tokens_per_s")
            }
            self.preparation.append({"elapsed_s": event["elapsed_s"], "time": event["time"]}, values)
        elif kind not in ("audit", "part_done"):
            self.events = [*self.events[1 - EVENTS_MAX :], event]

    # How it goes.

    def loss(self, step, noise=0.05):
        draw = self.random.gauss
        mlm = (3.4 + 2.4 * math.exp(-step / 9000) + 4.5 * math.exp(-step / 900)) * self.scale + draw(0, noise)
        return mlm, (0.09 + 3.3 * math.exp(-step / 600)) * self.scale + draw(0, noise / 8)

    def advance(self):
        """The next ten steps, and what is said of them."""
        if self.kind == "prepare":
            return self.prepare()
        if self.step == 0:
            mlm, tc = self.loss(0)
            self.tell(self.event("start", random=True, terms={"mlm": mlm, "tc": tc}, expected={}, surprises=[]))
        self.step += 10
        step = self.step
        each = [self.loss(step - 9 + k) for k in range(10)]
        spike = 6.5 if step == 6200 else 0.0
        mlm, tc = sum(a for a, _ in each) / 10 + spike, sum(b for _, b in each) / 10
        broken = math.nan if step == 12_400 else 0.0
        norm = [abs(self.random.gauss(2 + 9 * math.exp(-step / 500), 0.3)) + (spike and 40) for _ in range(10)]
        warm = min(1, step / 2000)
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
                wait=abs(self.random.gauss(0.006, 0.004)),
                stall=0.02 if step % 1000 == 0 else 0.0,
                eta_s=(self.steps - step) * 0.5,
                source_epochs={"wiki": step / 9000, "books": step / 22_000, HOSTILE_NAME: step / 60_000},
                memory={"allocated_peak_bytes": 61 << 30, "reserved_peak_bytes": 66 << 30, "total_bytes": 80 << 30},
            )
        )
        if spike:
            leap = dict(
                leapt=6197, first_row=396_608, rows=64, figure="loss", value=mlm, median=mlm - spike, sigmas=41.2
            )
            self.tell(self.event("leap", **leap))
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
                    "left_out",
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
        if step == 4200:
            self.tell(self.event("resume", place=f"runs/{self.name}/checkpoints/step-00004200"))
        if step == 8000:
            self.tell(
                self.event(
                    "change",
                    how="allow",
                    message="`optimizer.lr`: 6e-4 → 5e-4",
                    keys=[{"key": "optimizer.lr", "then": "6e-4", "now": "5e-4"}],
                )
            )
        if step == 9100:
            self.tell(self.event("generation", generation=2))
            self.tell(self.event("from_the_future", colour="teal", depth=3))

    def validate(self, mlm, tc):
        mlm, tc = mlm + 0.06, tc + 0.02
        yardstick = {
            "loss": mlm,
            "accuracy": 0.54 - 0.5 * math.exp(-self.step / 6000),
            "ln_vocab": 10.33,
            "unigram_entropy": 6.9,
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
                    lanes=3,
                    text_bytes_max=1 << 30,
                    largest_compressed=None,
                    generation=0,
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
                generation=1,
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
                warnings=["1022 documents are longer than a sample, hence cut", HOSTILE],
                seconds=1210.0,
            )
        )

    # What is served.

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
                "steps": self.steps,
                "reports": self.reports.json(),
                "validations": self.validations.json(),
                "preparation": self.preparation.json(),
                "events": wire(self.events),
            }

    def status(self):
        draw = self.random.uniform
        lane = lambda n: {
            "name": f"lane {n}" if n != 2 else HOSTILE_NAME,
            "doing": self.random.choice(["busy", "blocked", "blocked"]),
            "since_s": draw(0, 0.2),
            "items": self.step // 4,
            "busy_s": 31.0,
            "starved_s": 2.0,
            "blocked_s": 67.0,
            "wall_s": 100.0,
            "queued": self.random.choice([1, 2, 2]),
            "capacity": 2,
        }
        actors = [lane(n) for n in range(4 if self.kind == "train" else 3)]
        memory = {"host_bytes": 3_400_000_000, "device_bytes": (61 << 30) if self.kind == "train" else None}
        common = {
            "kind": self.kind,
            "since_s": draw(0, 0.5),
            "memory": memory,
            "uptime_s": 100,
            "watch": {"dropped": 0, "clients": 1},
            "token_needed": True,
        }
        if self.kind == "prepare":
            share = self.parts / 400
            return common | {
                "phase": "read",
                "step": None,
                "steps": None,
                "progress": share,
                "eta_s": (400 - self.parts) * 3.0,
                "epoch": None,
                "tokens_per_s": 19e6,
                "actors": actors,
                "checkpoint": None,
                "actions": ["stop"],
            }
        reader = {
            "name": "trainer",
            "doing": "busy",
            "since_s": 0.1,
            "items": self.step,
            "busy_s": 99.4,
            "starved_s": 0.6,
            "blocked_s": 0.0,
            "wall_s": 100.0,
            "queued": 0,
            "capacity": 0,
            "is_reader": True,
        }
        kept = f"runs/{self.name}/checkpoints/step-{self.step // 1000 * 1000:08}"
        return common | {
            "phase": "step",
            "step": self.step,
            "steps": self.steps,
            "progress": self.step / self.steps,
            "eta_s": (self.steps - self.step) * 0.5,
            "epoch": self.step * 64 / 400_000,
            "tokens_per_s": 27_000.0,
            "actors": [*actors, reader],
            "checkpoint": {"writing_s": None, "kept": kept},
            "actions": ["checkpoint", "stop", "log-level", "note"],
        }

    def rows(self, count):
        words = "the cat sat on the mat while rain fell over the old town and nobody came to see ##ing it".split()

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
                        {"name": "masked", "note": "", "tokens": tokens()},
                        {"name": "masked", "note": "(the next)", "tokens": tokens()},
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
            ("data.lanes", "4", "4"),
            ("model.hidden", "768", "768"),
            ("run.name", json.dumps(HOSTILE), None),
            ("guard.rule", '"skip"', '"note"'),
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


class Odd(Play):
    """What a server should not say, and says: keys that are missing, columns of unequal length, too much."""

    def history(self):
        events = [
            {"kind": kind}
            for kind in ("checkpoint", "leap", "skip", "stop", "start", "warning", "left_out", "prepare_end")
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
        lanes = [
            {"name": f"lane {n}", "doing": "sleeping", "queued": 9, "capacity": 4, "busy_s": 2, "starved_s": "NaN"}
            for n in range(64)
        ]
        return {"phase": None, "actors": [*lanes, {"is_reader": True}], "actions": ["fly"]}

    def config(self):
        return {"keys": [{"key": "k" * 300, "value": "v" * 3000}, {}]}

    def advance(self):
        for event in (
            {"kind": "report"},
            {"kind": "report", "step": 3100, "loss": "x", "terms": 3},
            {"kind": "note"},
            {},
            [1],
            "text",
        ):
            self.tell(event)

    def record(self, event):
        pass


class Server:
    """Serves a play until it is killed. `limited` answers streams of events as a full server does."""

    def __init__(self, play, port=0, rate=2.0):
        self.play, self.rate, self.limited, self.posts, self.streams = play, rate, False, [], set()
        self.resets, self.histories = False, 0
        self.alive = True
        self.others = {"taco-2": other("taco-2", 3, 1.04), HOSTILE_NAME: other(HOSTILE_NAME, 5, 0.97)}
        server = self

        class Bound(Handler):
            mock = server

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Bound)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        threading.Thread(target=self.go_on, daemon=True).start()

    def go_on(self):
        while self.alive:
            time.sleep(1 / max(self.rate, 0.001) if self.rate else 0.1)
            if self.rate and self.alive and not self.play.stopped:
                self.play.advance()

    def kill(self):
        """As by SIGKILL: every connection breaks."""
        self.alive = False
        self.http.shutdown()
        self.http.server_close()
        self.cut()

    def cut(self):
        """Every stream of events breaks."""
        for stream in list(self.streams):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)


def other(name, seed, scale):
    play = Play(name=name, seed=seed, scale=scale)
    for _ in range(900):
        play.advance()
    return play


class Handler(BaseHTTPRequestHandler):
    mock: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json", **headers):
        data = body.encode() if isinstance(body, str) else json.dumps(wire(body)).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **headers,
        }.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        play = self.mock.play
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        run = asked.get("run", [None])[0]
        if url.path == "/":
            page, policy = assemble()
            self.send(200, page, "text/html", Content_Security_Policy=policy, Referrer_Policy="no-referrer")
        elif url.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        elif url.path == "/history" and run is not None and run not in self.mock.others:
            self.send(404, {"error": f"no run `{run}`"})
        elif url.path == "/history":
            self.mock.histories += 1
            self.send(200, (self.mock.others[run] if run else play).history())
        elif url.path == "/status":
            self.send(200, play.status())
        elif url.path == "/config":
            self.send(200, play.config())
        elif url.path == "/runs":
            self.send(
                200,
                {
                    "runs": [
                        {"name": name, "step": one.step, "state": "has ended"} for name, one in self.mock.others.items()
                    ]
                },
            )
        elif url.path == "/rows":
            if self.headers.get("Authorization") not in (None, f"Bearer {TOKEN}"):
                self.send(403, {"error": "this token is not the run's"})
            else:
                self.send(200, play.rows(int(asked.get("count", ["4"])[0])))
        elif url.path == "/events":
            self.stream(asked.get("after", [""])[0])
        else:
            self.send(404, {"error": "nothing is here"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(401, {"error": "this needs the run's token"})
            return
        self.mock.posts.append((self.path, body))
        if self.path == "/note":
            self.mock.play.tell(self.mock.play.event("note", message=body))
        done = {
            "/checkpoint": "a checkpoint is being written",
            "/stop": "the run will stop after this step",
            "/note": "noted",
            "/log-level": f"`{body}` from now on",
        }.get(self.path)
        self.send(200 if done else 404, {"done": done} if done else {"error": "no such action"})

    def stream(self, after):
        if self.mock.limited:
            self.send(503, {"error": "as many pages look as may"}, Retry_After="1")
            return
        play = self.mock.play
        after = self.headers.get("Last-Event-ID") or after
        boot, _, place = after.rpartition("-")
        mailbox = queue.Queue()
        with play.lock:
            known = boot == play.boot and place.isdigit()
            missed = [(n, text) for n, text in play.recent if known and n > int(place)]
            whole = not self.mock.resets and known and (not play.recent or int(place) >= play.recent[0][0] - 1)
            play.listeners.append(mailbox)
        self.mock.streams.add(self.connection)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(b": here\n\n")
            if not whole:
                self.wfile.write(b"event: reset\ndata: {}\n\n")
            for number, text in missed if whole else []:
                self.wfile.write(f"id: {play.boot}-{number}\ndata: {text}\n\n".encode())
            self.wfile.flush()
            while self.mock.alive:
                with contextlib.suppress(queue.Empty):
                    number, text = mailbox.get(timeout=0.5)
                    self.wfile.write(f"id: {play.boot}-{number}\ndata: {text}\n\n".encode())
                    self.wfile.flush()
        except OSError:
            pass
        finally:
            play.listeners.remove(mailbox)
            self.mock.streams.discard(self.connection)
            self.close_connection = True


def play_of(kind, steps, **more):
    play = Play(kind=kind, **more)
    for _ in range(steps):
        play.advance()
    return play


def report():
    plays = [play_of("train", 1500), other("taco-2", 3, 1.04), other(HOSTILE_NAME, 5, 0.97)]
    configs = {play.name: play.config() for play in plays}
    configs["taco-2"]["keys"][1]["value"] = "0.0003"
    return {"runs": [play.history() for play in plays], "config": configs, "made": "2026-01-02 03:04"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kind", choices=["train", "prepare"], default="train")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=float, default=2.0, help="reports per second")
    parser.add_argument("--steps", type=int, default=None, help="reports that lie behind")
    parser.add_argument("--report", help="write a report there instead")
    asked = parser.parse_args()
    if asked.report:
        Path(asked.report).write_text(assemble(report())[0])
        return
    steps = asked.steps if asked.steps is not None else {"train": 1500, "prepare": 200}[asked.kind]
    server = Server(play_of(asked.kind, steps), asked.port, asked.rate)
    print(server.url, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
