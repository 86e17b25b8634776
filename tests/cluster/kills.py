"""Preparations whose processes are killed with SIGKILL after random times."""

import copy
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable

from cluster import check, run, say
from corpus import Corpus
from s3 import S3Server


def kill_often(corpus: Corpus, kills: int, start: Callable[[], list], undo: Callable[[], None], longest: float = 1.2) -> None:
    """Starts processes and kills each after a random time, until `kills` processes were killed.

    If all end before their kill, `undo` makes work for the next start. A time is at most that of the fastest start with such
    work, and at most `longest` seconds, so that kills hit every stage of it.
    """
    draw, killed, has_work = random.Random(7), 0, True
    while killed < kills:
        children, began, before = start(), time.monotonic(), killed
        for child, life in zip(children, sorted(draw.uniform(0, longest) for _ in children)):
            try:
                code = child.wait(timeout=max(0, began + life - time.monotonic()))
                check(code == 0, f"a process exits with {code}; the last messages:\n{corpus.messages()}")
            except subprocess.TimeoutExpired:
                child.kill()
                killed += child.wait() == -signal.SIGKILL
        ended = killed == before
        if ended and has_work:
            longest = min(longest, time.monotonic() - began)
        if ended:
            undo()
        has_work = ended


def some(records: list) -> list:
    """Returns 20 records at most, the same for the same number of records."""
    return random.Random(len(records)).sample(records, k=min(20, len(records)))


def remove_records(corpus: Corpus, folder: str) -> None:
    for path in some(sorted((corpus.home / folder / "parts").glob("*.json"))):
        path.unlink()


def kill_plain(corpus: Corpus, kills: int) -> list[tuple[str, str]]:
    """Kills plain preparations after random times."""
    words = ("prepare", "--slow", "writer=20")
    start = lambda: [corpus.start(*words, folder="kills", workers=2)]
    kill_often(corpus, kills, start, lambda: remove_records(corpus, "kills"))
    corpus.succeed(*start())
    return [corpus.row(f"`cloze prepare`, {kills} SIGKILLs", corpus.objects("kills"), "the same command each time")]


def kill_phases(corpus: Corpus, kills: int) -> list[tuple[str, str]]:
    """Kills each phase of a shared preparation after random times."""
    home = corpus.home / "storm"
    once = kills // 5
    counts = {"plan": once, "run": kills - 2 * once, "finalize": once}
    slow = ("--lease", "--lease-timeout", "3", "--slow", "writer=20")
    starts = {
        "plan": lambda: [corpus.start("prepare", "plan", folder="storm")],
        "run": lambda: [corpus.start("prepare", "run", *slow, folder="storm", workers=1) for _ in range(2)],
        "finalize": lambda: [corpus.start("prepare", "finalize", folder="storm")],
    }
    undo = {
        "plan": lambda: shutil.rmtree(home),
        "run": lambda: remove_records(corpus, "storm"),
        "finalize": lambda: [(home / name).unlink() for name in ("manifest.json", "vocab/00000.parquet")],
    }
    for phase, start in starts.items():
        kill_often(corpus, counts[phase], start, undo[phase])
        corpus.succeed(*start())
        say(f"storm: {phase} was killed {counts[phase]} times, then finished")
    run([corpus.program, "verify", home])
    note = ", ".join(f"`{phase}` {count}" for phase, count in counts.items())
    how = f"`plan`, 2 processes with leases, `finalize`: {kills} SIGKILLs"
    return [corpus.row(how, corpus.objects("storm"), f"{note}; `cloze verify` finds no problem")]


def kill_with_s3(corpus: Corpus, server: S3Server, kills: int) -> list[tuple[str, str]]:
    """Kills plain preparations from and into an S3 server after random times."""
    server.upload(corpus.home / "corpus", "corpus/")
    remote, folder = corpus.at(f"{server.url}/corpus/", server.env), f"{server.url}/kills"
    start = lambda: [remote.start("prepare", "--slow", "writer=20", folder=folder, workers=2)]

    def undo() -> None:
        for name in some(server.names("kills/parts/")):
            server.remove(f"kills/parts/{name}")

    kill_often(remote, kills, start, undo, longest=4)
    remote.succeed(*start())
    run([corpus.program, "verify", folder], env=remote.env)
    note = "inputs and folder are `s3://`; `cloze verify` finds no problem"
    return [corpus.row(f"`cloze prepare`, {kills} SIGKILLs", server.objects("kills/"), note)]


def kill_uploads(corpus: Corpus, server: S3Server, kills: int) -> list[tuple[str, str]]:
    """Kills preparations of a shard that is a multipart upload. Unfinished uploads are no objects."""
    large, folder = corpus.large(), f"{server.url}/large"
    large.cloze("prepare", folder="large", workers=1)
    remote = copy.copy(large)
    remote.env = large.env | server.env
    start = lambda: [remote.start("prepare", folder=folder, workers=1)]
    kill_often(remote, kills, start, lambda: [server.remove(f"large/{name}") for name in server.names("large/")], longest=20)
    remote.succeed(*start())
    run([corpus.program, "verify", folder], env=remote.env)
    objects, unfinished = server.objects("large/"), server.unfinished("large/")
    check(len(unfinished) > 0, "no kill hit a multipart upload")
    largest = max(map(len, objects.values())) / 1e6
    left = f"{len(unfinished)} multipart uploads remain unfinished on the server, none is an object"
    note = f"{left}; `cloze verify` finds no problem"
    return [corpus.row(f"`cloze prepare` of a shard of {largest:.0f} MB, {kills} SIGKILLs", objects, note, "large")]
