"""Reads the training shards of a prepared folder with four programs. Each must find the rows and tokens of the manifest."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import datasets
import duckdb
import polars
import pyarrow.dataset


def main(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())["content"]
    shards = [shard for dataset in manifest["dataset_versions"] for part in dataset["parts"] for shard in part["train"]]
    expected = (sum(shard["rows"] for shard in shards), sum(shard["tokens"] for shard in shards))
    files = [str(folder / shard["path"]) for shard in shards]
    table = pyarrow.dataset.dataset(files).to_table(columns=["input_ids"])
    lengths = pyarrow.compute.list_value_length(table["input_ids"])
    found = {"pyarrow": (table.num_rows, pyarrow.compute.sum(lengths).as_py())}
    found["duckdb"] = duckdb.sql(f"SELECT count(*), sum(len(input_ids))::BIGINT FROM read_parquet({files})").limit(1).fetchall()[0]
    frame = polars.scan_parquet(files).select(polars.len(), polars.col("input_ids").list.len().sum().alias("tokens"))
    found["polars"] = frame.collect().row(0)
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(folder.parent / "datasets"))
    found["datasets"] = (len(loaded), sum(len(row) for row in loaded["input_ids"]))
    for name, counts in found.items():
        if tuple(counts) != expected:
            sys.exit(f"{name}: {counts}, the manifest has {expected}")
        print(f"{name} {version(name)}: {counts[0]} rows, {counts[1]} tokens in {len(files)} shards, as in the manifest")


main(Path(sys.argv[1]))
