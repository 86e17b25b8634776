"""Filters on the documents of corpora: what each removes, its cost on one core, and the same filters of datatrove.

usage: bench_filters.py [--alone] [--documents N] PROGRAM CORPUS ...

PROGRAM is `filter_documents`, an example of the package `cloze-filters`. A corpus is a file or folder of text or JSON lines
(`text`), plain, `.gz` or `.zst`; documents of text files are separated by blank lines and joined to at least 1,000 bytes.
WikiText files are split at their titles instead, and their lines are trimmed, because datatrove does not trim them. Prints
Markdown. With `--alone`, datatrove is not run. With `--documents`, only the
first N documents of each corpus are read.
"""

import argparse
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import zstandard

TITLE = re.compile(r"^ = [^=].* = $", re.MULTILINE)
SHORT_BYTES = 1000


def read(path):
    raw = path.read_bytes()
    if path.suffix == ".zst":
        raw = zstandard.ZstdDecompressor().stream_reader(raw).read()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    return raw.decode("utf-8")


def documents(path):
    text = read(path)
    if ".jsonl" in path.name:
        return [json.loads(line)["text"] for line in text.splitlines() if line.strip()]
    starts = [match.start() for match in TITLE.finditer(text)]
    if len(starts) > 1:
        return ["\n".join(line.strip() for line in text[start:end].split("\n")) for start, end in zip(starts, starts[1:] + [len(text)])]
    found = [""]
    for paragraph in text.split("\n\n") if "\n\n" in text else text.split("\n"):
        found[-1] += paragraph + "\n"
        if len(found[-1].encode()) >= SHORT_BYTES:
            found.append("")
    return [text for text in found if text.strip()]


def ours(program, texts, settings=()):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        file.flush()
        lines = subprocess.run([program, file.name, *settings], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in lines.splitlines()]


def rivals():
    """Returns datatrove's filters by our names, or nothing if it is not installed."""
    try:
        from datatrove.data import Document
        from datatrove.pipeline import filters
        from datatrove.pipeline.formatters import PIIFormatter
    except ImportError as error:
        print(f"SKIPPED datatrove: {error}", file=sys.stderr)
        return None, {}
    kinds = {
        "gopher_quality": filters.GopherQualityFilter,
        "gopher_repetition": filters.GopherRepetitionFilter,
        "c4": filters.C4QualityFilter,
        "fineweb": filters.FineWebQualityFilter,
        "pii": PIIFormatter,
    }
    return Document, {name: kind() for name, kind in kinds.items()}


def run_rival(document, rival, texts):
    """Returns the rule that removed each document ("" if none) and the seconds."""
    rules = []
    begin = time.perf_counter()
    for number, text in enumerate(texts):
        if hasattr(rival, "format"):
            rival.format(text)
            rules.append("")
            continue
        found = rival.filter(document(text=text, id=str(number)))
        rules.append("" if found is True else found[1])
    return rules, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("program")
    parser.add_argument("corpora", nargs="+")
    options = parser.parse_args()
    program, corpora = options.program, options.corpora
    document, others = (None, {}) if options.alone else rivals()
    summary = {}
    for corpus in map(pathlib.Path, corpora):
        files = sorted(path for path in corpus.rglob("*") if ".txt" in path.name or ".jsonl" in path.name or ".raw" in path.name)
        texts = [text for path in files or [corpus] for text in documents(path)][: options.documents]
        size = sum(len(text.encode()) for text in texts)
        print(f"\n{corpus.name}: {len(texts):,} documents, {size / 1e6:.1f} MB\n")
        print("| filter | removed | of the bytes | rules | changed | cut | MB/s | datatrove removed | equal verdicts | datatrove MB/s |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for row in ours(program, texts):
            name = row["filter"]
            removed = sum(row["removed"].values())
            summary.setdefault(name, []).append(f"{100 * removed / len(texts):.1f} %")
            rules = ", ".join(f"{rule} {count}" for rule, count in row["removed"].items())
            cells = [
                f"{100 * removed / len(texts):.1f} %",
                f"{100 * row['removed_bytes'] / size:.1f} %",
                rules or "–",
                f"{100 * row['changed'] / len(texts):.1f} %",
                f"{100 * row['cut_bytes'] / size:.1f} %",
                f"{size / row['seconds'] / 1e6:.0f}",
            ]
            if name in others:
                theirs, seconds = run_rival(document, others[name], texts)
                equal = sum(bool(one) == bool(other) for one, other in zip(row["rules"], theirs))
                taken = sum(bool(rule) for rule in theirs)
                cells += [f"{100 * taken / len(texts):.1f} %", f"{100 * equal / len(texts):.1f} %", f"{size / seconds / 1e6:.2f}"]
                for text, one, other in zip(texts, row["rules"], theirs):
                    if bool(one) != bool(other):
                        print(json.dumps({"filter": name, "cloze": one, "datatrove": other, "text": text[:80]}), file=sys.stderr)
            else:
                cells += ["–"] * 3
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    names = [pathlib.Path(corpus).name for corpus in corpora]
    print("\nRemoved documents:\n\n| filter | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for name, shares in summary.items():
        print(f"| {name} | " + " | ".join(shares) + " |")


main()
