"""Opens prepared shards with pyarrow, DuckDB and datasets, without our code.

    python tests/reference/open_shards.py FOLDER

FOLDER is the output of `cloze prepare`. Each library reads every training shard and prints rows, tokens and the first ids;
they must agree with each other and with the manifest. A library that is not installed is reported as skipped.
"""

import importlib
import json
import pathlib
import sys
import tempfile

FIRST = 8


def with_pyarrow(shards):
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    rows = tokens = 0
    for shard in shards:
        ids = parquet.read_table(shard)["input_ids"]
        rows += len(ids)
        tokens += compute.sum(compute.list_value_length(ids)).as_py()
    return rows, tokens, parquet.read_table(shards[0])["input_ids"][0].as_py()[:FIRST]


def with_duckdb(shards):
    import duckdb

    files = [str(shard) for shard in shards]
    rows, tokens = duckdb.sql("select count(*), sum(len(input_ids))::bigint from read_parquet($files)",
                              params={"files": files}).fetchall()[0]
    ((ids,),) = duckdb.sql("select input_ids from read_parquet($file) limit 1", params={"file": files[0]}).fetchall()
    return rows, tokens, ids[:FIRST]


def with_datasets(shards):
    import datasets

    datasets.disable_progress_bars()

    with tempfile.TemporaryDirectory() as cache:
        files = [str(shard) for shard in shards]
        data = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
        lengths = (len(ids) for batch in data.iter(1024) for ids in batch["input_ids"])
        return data.num_rows, sum(lengths), data[0]["input_ids"][:FIRST]


def main(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    listed = manifest["train"]["shards"]
    expected = sum(shard["rows"] for shard in listed), sum(shard["tokens"] for shard in listed)
    shards = [folder / shard["path"] for shard in listed]
    print(f"manifest: {expected[0]} rows, {expected[1]} tokens in {len(shards)} shards")
    first_ids = None
    for name, read in {"pyarrow": with_pyarrow, "duckdb": with_duckdb, "datasets": with_datasets}.items():
        try:
            version = importlib.import_module(name).__version__
        except ImportError:
            print(f"{name}: SKIPPED, not installed")
            continue
        rows, tokens, ids = read(shards)
        print(f"{name} {version}: {rows} rows, {tokens} tokens, first ids {ids}")
        first_ids = first_ids or ids
        if (rows, tokens) != expected or ids != first_ids:
            sys.exit(f"{name} reads other data than was written")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
