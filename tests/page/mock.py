#!/usr/bin/env python3
"""Mock server for the page: serves a simulated run like `cloze train`, with invented numbers.

    python3 tests/page/mock.py                          # a run, on a free port of the loopback address
    python3 tests/page/mock.py --kind prepare --port 8765 --rate 5
    python3 tests/page/mock.py --report report.html     # no server: a report of three runs as one file

It assembles the page of crates/server/page as the program does (crates/server/src/page.rs), with the scripts in the same
order. It needs only Python's standard library. Names and documents contain hostile text.
simulated_run.py generates the events, mock_responses.py the responses; forms.py compares their structure with a real server.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import queue
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from simulated_run import HOSTILE_NAME, wire
from mock_responses import Run

SERVER = Path(__file__).resolve().parents[2] / "crates" / "server"
PAGE = SERVER / "page"
TOKEN = "open-sesame"


def assemble(report=None):
    """The page as one file, and its content security policy."""
    names = re.findall(r'"../page/([a-z-]+\.js)"', (SERVER / "src" / "page.rs").read_text())
    body = (PAGE / "body.html").read_text()
    style = (PAGE / "page.css").read_text()
    script = "".join((PAGE / name).read_text() for name in names)
    missing = {path.name for path in PAGE.glob("*.js")} ^ set(names)
    assert not missing, f"page.rs and the folder disagree about {sorted(missing)}"
    shown = ""
    if report is not None:
        text = json.dumps(report).replace("<", "\\u003c")
        shown = f'<script type="application/json" id="report">{text}</script>'
    page = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>cloze</title><style>{style}</style></head><body>{shown}{body}<script>{script}</script></body></html>"
    )
    digest = lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


class Server:
    """Serves a simulated run until it is killed. `limited` refuses event streams like a full server."""

    def __init__(self, play, port=0, rate=2.0):
        self.play, self.rate, self.limited, self.posts, self.streams = play, rate, False, [], set()
        self.resets, self.histories = False, 0
        # Number of slow requests that are refused with a retry; `slow` lists all of them.
        self.occupied, self.slow = 0, []
        self.state = "finished"
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
        """Breaks every connection, like SIGKILL."""
        self.alive = False
        self.http.shutdown()
        self.http.server_close()
        self.cut()

    def cut(self):
        """Breaks every event stream."""
        for stream in list(self.streams):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)


def other(name, seed, scale):
    play = Run(name=name, seed=seed, scale=scale)
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
        if url.path in ("/runs", "/rows", "/config") or run is not None:
            self.mock.slow.append(self.path)
            if self.mock.occupied > 0:
                self.mock.occupied -= 1
                self.send(503, {"error": "busy with another request; retry"}, Retry_After="1")
                return
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
        elif url.path == "/config" and play.phase == "start":
            self.send(503, {"error": "it is not planned yet; ask again"})
        elif url.path == "/config":
            self.send(200, play.config())
        elif url.path == "/runs":
            self.send(
                200,
                {
                    "runs": [
                        {"name": name, "step": one.step, "state": self.mock.state}
                        for name, one in self.mock.others.items()
                        if play.kind == "train"
                    ]
                },
            )
        elif url.path == "/rows" and play.kind == "prepare":
            self.send(404, {"error": "a preparation has no rows"})
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
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" or not self.mock.play.has_token:
            self.send(401, {"error": "this needs the run's token"})
            return
        self.mock.posts.append((self.path, body))
        if self.path == "/note":
            self.mock.play.tell(self.mock.play.event("note", text=body))
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
                    if (said := mailbox.get(timeout=0.5)) is None:
                        self.wfile.write(b"event: reset\ndata: {}\n\n")
                        self.wfile.flush()
                        continue
                    number, text = said
                    self.wfile.write(f"id: {play.boot}-{number}\ndata: {text}\n\n".encode())
                    self.wfile.flush()
        except OSError:
            pass
        finally:
            play.listeners.remove(mailbox)
            self.mock.streams.discard(self.connection)
            self.close_connection = True


def play_of(kind, steps, **more):
    play = Run(kind=kind, **more)
    for _ in range(steps):
        play.advance()
    return play


def report():
    plays = [play_of("train", 1500), other("taco-2", 3, 1.04), other(HOSTILE_NAME, 5, 0.97)]
    configs = {play.name: play.config() for play in plays}
    configs["taco-2"]["keys"][1]["value"] = "0.0003"
    # Two runs use one vocabulary; the third run uses another.
    for values in plays[2].columns["validations"].series["mlm/ln_vocab"].values():
        values[:] = [9.2] * len(values)
    for play, why in zip(plays, ("interrupt", "finished", "terminate")):
        play.tell(play.event("stop", why=why, place=f"runs/{play.name}", saved=True, kept=play.step))
    return {
        "runs": [play.history() for play in plays],
        "config": configs,
        "made": {"program": "cloze 0.1.0", "time": 1_767_323_040_000},
    }


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
