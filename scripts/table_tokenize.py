"""Prints the table of scripts/bench-tokenize and scripts/bench-prepare.

usage: table_tokenize.py FOLDER PASSES NAME...

FOLDER has, for each contender, `NAME.times` with lines `pass SECONDS` and `tokens N ...`, and optionally `NAME.equal`.
The first contender is the baseline. With one pass per process, all passes are cold and are used for both columns.
"""

import pathlib
import statistics
import sys

folder, passes, names = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
megabytes = (folder / "text").stat().st_size / 1e6


def read(name):
    lines = [line.split() for line in (folder / f"{name}.times").read_text().splitlines()]
    seconds = [float(words[1]) for words in lines if words[:1] == ["pass"]]
    tokens = [int(words[1]) for words in lines if words[:1] == ["tokens"]]
    way = [" ".join(words[5:]) for words in lines if words[:1] == ["tokens"] and len(words) > 5]
    cold = seconds[::passes]
    warm = [second for at, second in enumerate(seconds) if at % passes] or cold
    return (statistics.median(cold), min(warm), statistics.median(warm), tokens[-1], way[-1:]) if tokens and warm else None


rows = {name: read(name) for name in names}
first = rows[names[0]]
print(f"{'':12}{'cold':>9}{'warm':>9}{'median':>9}  MB/s{'ns/token':>10}{'ours is':>9}{'cold':>7}   ids")
for name, row in rows.items():
    if row is None:
        print(f"{name:12}did not run")
        continue
    cold, best, median, tokens, way = row
    rates = "".join(f"{megabytes / seconds:9.1f}" for seconds in (cold, best, median))
    ratios = "" if row is first else f"{median / first[2]:8.2f}x{cold / first[0]:6.2f}x"
    equal = folder / f"{name}.equal"
    same = equal.read_text().strip() if equal.exists() else f"{tokens} tokens"
    print(f"{name:12}{rates}      {median * 1e9 / tokens:10.2f}{ratios:>16}   {same} {' '.join(way)}")
