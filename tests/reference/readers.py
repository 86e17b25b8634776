"""Reads runs with TensorBoard and DuckDB: `readers.py RUNS docs/events.md`. Called by scripts/test-readers."""

import json
import os
import pathlib
import re
import sys

import duckdb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

WANTED = {
    "train/loss", "train/mlm", "train/mlm.accuracy", "train/lr", "train/grad_norm", "eval/loss", "eval/mlm",
    "valid/mlm", "throughput/tokens_per_s", "throughput/steps_per_s", "data/wait_fraction", "data/tokens",
    "data/rows", "data/epoch", "time/elapsed_s", "time/validation_s", "time/checkpoint_s", "memory/host",
}


def events(run):
    lines = [line for file in sorted((run / "log").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def curves(run):
    """Checks that each step occurs once, with the numbers of the log."""
    files = sorted((run / "tensorboard").iterdir())
    reader = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    reader.Reload()
    tags = set(reader.Tags()["scalars"])
    assert WANTED <= tags, f"missing: {sorted(WANTED - tags)}"
    for kind, tag in [("report", "train/loss"), ("validation", "eval/loss")]:
        drawn = [(scalar.step, scalar.value) for scalar in reader.Scalars(tag)]
        logged = [(event["step"], event["loss"]) for event in events(run) if event["kind"] == kind]
        assert [step for step, _ in drawn] == [step for step, _ in logged], (tag, drawn, logged)
        assert all(abs(one - other) <= 1e-6 * abs(other) for (_, one), (_, other) in zip(drawn, logged)), tag
    print(f"TensorBoard: {len(files)} files of {run.name}, {len(tags)} curves, each step once, the numbers of the log")
    return sorted(tags)


def questions(runs, page):
    """Runs every SQL line of the page; queries about events of these runs must return rows."""
    asked = re.findall(r"```sql\n(.*?)\n```", page.read_text(), re.S)
    os.chdir(runs.parent)
    assert len(asked) >= 10, len(asked)
    for question in asked:
        assert "\n" not in question, "one line each"
        rows = duckdb.sql(question).fetchall()
        is_rare = "'loss_spike'" in question or "'starved'" in question
        assert rows or is_rare, question
        print(f"DuckDB: {len(rows):3} rows, the first {rows[0] if rows else None}")


def main():
    runs, page = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    tags = curves(runs / "a")
    curves(runs / "b")
    print("  " + "\n  ".join(tags))
    questions(runs, page)


main()
