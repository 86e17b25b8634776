#!/usr/bin/env python3
"""Tests the live page in Chromium with mouse and keyboard input.

It needs Chromium and a font (`apt-get install chromium fonts-dejavu`), and `playwright` of PyPI, in a venv of
its own: `python3 -m venv venv && venv/bin/pip install playwright` (its browsers are not needed). Then

    venv/bin/python tests/page/drive.py                         # against servers with simulated runs (mock.py)
    venv/bin/python tests/page/drive.py --url http://127.0.0.1:8765/    # the read-only tests, on a real server
    venv/bin/python tests/page/drive.py --only phone,keyboard --pictures pictures

writes screenshots into a folder. The exit code is 0 if all checks pass, otherwise 1 with a line for each failure. Without
Chromium it prints `SKIPPED: …` and exits with 0.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from read_only_tests import ReadOnlyTests
from mock_tests import MockTests

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

ANYWHERE = ["curves", "looks", "timeline", "sheet", "address", "contrasts", "phone", "keyboard", "motion"]
PREPARATION = ["spread"]
PLAYED = [
    "overlay",
    "lately",
    "ranks",
    "unplanned",
    "references",
    "stories",
    "guesses",
    "hostile",
    "controls",
    "reconnect",
    "resets",
    "odd",
    "rollback",
    "much",
    "preparation",
    "idle",
    "endings",
    "report",
    "empty",
]


class Drive(ReadOnlyTests, MockTests):
    pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", help="a server that serves the page; without one, runs are simulated")
    parser.add_argument("--own-page", action="store_true", help="the page of this folder, not that of the server")
    parser.add_argument("--kind", choices=["train", "prepare"], default="train", help="what that server serves")
    parser.add_argument("--only", help=f"of {','.join(ANYWHERE + PLAYED)}")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots; default: a new one")
    asked = parser.parse_args()
    if CHROMIUM is None:
        print("SKIPPED: no Chromium here, so the page is not tested (`apt-get install chromium`)")
        return 0
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print(
            "error: no `playwright` here: `python3 -m venv venv && venv/bin/pip install playwright`, and run this with it"
        )
        return 2
    pictures = asked.pictures or Path(tempfile.mkdtemp(prefix="cloze-page-"))
    pictures.mkdir(parents=True, exist_ok=True)
    names = {"train": ANYWHERE, "prepare": PREPARATION}[asked.kind] if asked.url else ANYWHERE + PLAYED
    if asked.only:
        names = [name for name in names if name in asked.only.split(",")]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        drive = Drive(browser, pictures, asked.url, asked.own_page and bool(asked.url))
        for name in names:
            start = time.monotonic()
            print(name, flush=True)
            try:
                getattr(drive, name)(asked.url or (drive.serve().url if name in ANYWHERE else None))
            except (
                Exception
            ) as problem:  # A timeout fails this part only, and the other parts still run.
                drive.check(False, f"{name} completes", str(problem).splitlines()[:6])
            drive.close()
            print(f"  {time.monotonic() - start:.1f} s", flush=True)
        browser.close()
    print(f"{drive.checks} checks, {len(drive.failures)} failed; pictures in {pictures}")
    for failure in drive.failures:
        print(f"  {failure}")
    return 1 if drive.failures else 0


if __name__ == "__main__":
    sys.exit(main())
