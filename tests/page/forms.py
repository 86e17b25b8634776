#!/usr/bin/env python3
"""Compares the structure of mock.py's responses with those of a real server, so that tests with the mock are valid.

    python3 tests/page/forms.py --url http://127.0.0.1:8765/ [--kind prepare]

Compares the keys of `/history`, `/status`, `/config`, `/runs`, `/rows` and of the events that `/events` sends
within `--wait` seconds, by kind. Names of objectives, sources and views are ignored. Exits with 1 if keys differ.
"""

import argparse
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import mock

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "events.schema.json").read_text())

# Objects whose keys are names and not part of the structure.
NAMED = {"terms", "metrics", "source_epochs", "expected", "rejected"}
FAMILIES = ("terms/", "metrics/", "source_epochs/")
# Keys that only a device, a mixture or a counted corpus has.
MAY_MISS = {"speed/mfu", "memory/device_bytes", "mlm/unigram_cross_entropy", "source_epochs/*"}


def fetch(url, path):
    """Returns the response; a busy server is asked again."""
    for _ in range(30):
        try:
            with urllib.request.urlopen(url + path, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            said = json.load(refusal)
            if refusal.code != 503:
                return {"refused": refusal.code, **said}
        time.sleep(1)
    return {"refused": 503, **said}


def listen(url, boot_and_number, seconds):
    """Returns the events within a time."""
    found, end = [], time.monotonic() + seconds
    answer = urllib.request.urlopen(f"{url}events?after={boot_and_number}", timeout=seconds)

    def read():
        for line in answer:
            if line.startswith(b"data: ") and line != b"data: {}\n":
                found.append(json.loads(line[6:]))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(max(0, end - time.monotonic()))
    return found


def keys(value, at=""):
    """Returns every path with a value: `actors[].busy_s`."""
    if isinstance(value, list):
        return {place for one in value for place in keys(one, f"{at}[]")} | {f"{at}[]"}
    if not isinstance(value, dict):
        return {at}
    name = at.rsplit(".", 1)[-1]
    places = {at}
    for key, one in value.items():
        if name in NAMED:
            key = "*"
        if name in ("series", "values"):
            key = next((f"{family}*" for family in FAMILIES if key.startswith(family)), key)
        places |= keys(one, f"{at}.{key}" if at else key)
    return places


def optional(kind, place):
    """Returns whether a key of an event kind is optional in docs/events.schema.json."""
    forms = [form for form in SCHEMA.get("oneOf", []) if form["properties"]["kind"].get("const") == kind]
    key = place.split(".")[0].removesuffix("[]")
    return any(key in form["properties"] and key not in form.get("required", []) for form in forms)


def missing(place):
    return place in MAY_MISS or any(f".{name}" in place for name in MAY_MISS)


def looked_at(url, kind, wait):
    """Returns the responses of a server by request."""
    history = fetch(url, "history")
    found = {
        "/history": history,
        "/status": fetch(url, "status"),
        "/config": fetch(url, "config"),
        "/runs": fetch(url, "runs"),
        "/rows": fetch(url, "rows?count=1"),
    }
    events = listen(url, f"{history['boot']}-{history['last']}", wait) + history["events"]
    if kind == "prepare":
        found["/rows"].pop("error", None)
    found["/history"] = {**history, "events": []}
    # Some keys are optional within one kind of event.
    return found, {name: [event for event in events if event["kind"] == name] for name in {e["kind"] for e in events}}


def differ(place, real, simulated, may_miss=lambda _: False):
    only = sorted(key for key in real - simulated)
    never = sorted(key for key in simulated - real if not missing(key) and not may_miss(key))
    told = [f"{place}: a real one says `{key}`, the mock does not" for key in only]
    return told + [f"{place}: the mock says `{key}`, a real one does not" for key in never]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", required=True, help="a real server, with its `/` at the end")
    parser.add_argument("--kind", choices=["train", "prepare"], default="train")
    parser.add_argument("--wait", type=float, default=12.0, help="seconds of events")
    asked = parser.parse_args()
    server = mock.Server(mock.play_of(asked.kind, 1100 if asked.kind == "train" else 100), rate=40)
    try:
        real, said = looked_at(asked.url, asked.kind, asked.wait)
        simulated, told = looked_at(server.url, asked.kind, 3)
    finally:
        server.kill()
    problems = []
    for path in real:
        one, other = keys(real[path]), keys(simulated[path])
        # A preparation has no batches, and lists that are empty here may be filled there.
        empty = {place for place in one ^ other if "validation[]." in f"{place}." and path == "/status"}
        problems += differ(path, one - empty, other - empty)
    for kind in sorted(said.keys() & told.keys()):
        one, other = ({place for event in events[kind] for place in keys(event)} for events in (said, told))
        nothing = {place for place in one ^ other if place.startswith("suspects") or place.startswith("unexpected_losses")}
        problems += differ(f"event {kind}", one - nothing, other - nothing, lambda place: optional(kind, place))
    print(f"forms: {', '.join(real)} and events {', '.join(sorted(said.keys() & told.keys()))} compared")
    for problem in problems:
        print(f"  FAILED {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
