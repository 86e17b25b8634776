"""What is known so far: one line of JSON for each item, whole or absent.

The file is written beside its place and renamed after every item, so a call that is killed loses the item in hand and
nothing else. It is all that the next call needs: the folder of work may be gone.
"""

import json
import os
import time
from pathlib import Path

# An item that was begun as often and never ended has ended the calls, or they are too short for it: others go first.
SUSPECT = 2


class Ledger:
    """The lines of `results.jsonl`, in the order in which they came."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines() if self.path.is_file() else []
        read = [line for number, text in enumerate(lines, 1) if text and (line := self._read(number, text))]
        self.begun: dict[str, int] = next((line["begun"] for line in read if "begun" in line), {})
        self.lines: dict[str, dict] = {line["item"]: line for line in read if "item" in line}

    def _read(self, number: int, text: str) -> dict | None:
        """A line; nothing for one that was cut or comes from elsewhere: its item is tried again."""
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        whole = {"item", "status", "seconds", "data", "says"}
        if isinstance(line, dict) and (isinstance(line.get("begun"), dict) or whole <= line.keys() and isinstance(line["data"], dict)):
            return line
        print(f"gpu-day: {self.path}:{number} cannot be read; what it was about is found out again", flush=True)
        return None

    def __contains__(self, item: str) -> bool:
        return item in self.lines

    def begin(self, item: str) -> None:
        """Notes that it is being tried, before it is."""
        self.begun[item] = self.begun.get(item, 0) + 1
        self._write()

    def end(self, item: str, status: str, seconds: float, data: dict, says: str) -> None:
        """Notes how it ended: `passed`, `failed`, `late` or `skipped`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = {"item": item, "status": status, "seconds": round(seconds, 1), "at": at, "data": data, "says": says}
        self.lines[item] = line
        self.begun.pop(item, None)
        self._write()

    def forget(self, statuses: set[str]) -> None:
        """Items that ended so are tried again."""
        self.lines = {name: line for name, line in self.lines.items() if line["status"] not in statuses}
        self.begun.clear()
        self._write()

    def is_suspect(self, item: str) -> bool:
        return self.begun.get(item, 0) >= SUSPECT

    def data(self, item: str) -> dict:
        """What an item that passed has found; empty where it did not."""
        line = self.lines.get(item, {})
        return line["data"] if line.get("status") == "passed" else {}

    def status(self, item: str) -> str:
        return self.lines[item]["status"] if item in self.lines else "not yet"

    def _write(self) -> None:
        lines = [{"begun": self.begun}, *self.lines.values()]
        put(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def put(path: Path, text: str) -> None:
    """A file that is whole or as it was."""
    beside = path.with_name(f".{path.name}.partial")
    with beside.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
