"""Result file: one line of JSON per item, complete or absent.

The file is written to a temporary file and renamed after every item, so a killed call loses only its current item. The
next call needs no other file; the work folder may be deleted.
"""

import json
import os
import time
from pathlib import Path

# Starts without an end after which an item is run last: it may have ended the calls, or the calls are too short for it.
SUSPECT = 2


class Ledger:
    """Lines of `results.jsonl` in order of completion."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.is_file() else []
        read = [line for number, text in enumerate(lines, 1) if text and (line := self._read(number, text))]
        self.begun: dict[str, int] = next((line["begun"] for line in read if "begun" in line), {})
        self.lines: dict[str, dict] = {line["item"]: line for line in read if "item" in line}

    def _read(self, number: int, text: str) -> dict | None:
        """Parses a line. Returns `None` for a truncated or foreign line; its item is run again."""
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        whole = {"item", "status", "seconds", "data", "says"}
        if isinstance(line, dict) and (isinstance(line.get("begun"), dict) or whole <= line.keys() and isinstance(line["data"], dict)):
            return line
        print(f"gpu-day: {self.path}:{number} cannot be read; its item is run again", flush=True)
        return None

    def __contains__(self, item: str) -> bool:
        return item in self.lines

    def begin(self, item: str) -> None:
        """Records the start of an item before it runs."""
        self.begun[item] = self.begun.get(item, 0) + 1
        self._write()

    def end(self, item: str, status: str, seconds: float, data: dict, says: str) -> None:
        """Records the result of an item: `passed`, `failed`, `late` or `skipped`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = {"item": item, "status": status, "seconds": round(seconds, 1), "at": at, "data": data, "says": says}
        self.lines[item] = line
        self.begun.pop(item, None)
        self._write()

    def forget(self, statuses: set[str]) -> None:
        """Removes results with these statuses, so that their items are run again."""
        self.lines = {name: line for name, line in self.lines.items() if line["status"] not in statuses}
        self.begun.clear()
        self._write()

    def is_suspect(self, item: str) -> bool:
        return self.begun.get(item, 0) >= SUSPECT

    def data(self, item: str) -> dict:
        """Data of an item that passed; empty otherwise."""
        line = self.lines.get(item, {})
        return line["data"] if line.get("status") == "passed" else {}

    def status(self, item: str) -> str:
        return self.lines[item]["status"] if item in self.lines else "not yet"

    def _write(self) -> None:
        lines = [{"begun": self.begun}, *self.lines.values()]
        put(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def put(path: Path, text: str) -> None:
    """Writes a file atomically."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
