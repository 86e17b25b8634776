"""datatrove's MinHash on the lines of a text file, one document per line, on one core.

    rival_minhash.py FILE FOLDER

Bands, rows and shingles are those of `bench_duplicates`: 14 x 8 over shingles of 5 words. Prints the megabytes per
second of signatures, the seconds of the three later steps, the peak memory, and the number of removed documents.
"""

import resource
import sys
import time
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
)
from datatrove.utils.hashing import HashConfig


def main(file: str, folder: str) -> None:
    work = Path(folder)
    lines = [line for line in Path(file).read_text().splitlines() if line.strip()]
    size = sum(len(line.encode()) for line in lines)
    config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8, hash_config=HashConfig(precision=64))
    documents = [Document(text=line, id=str(number)) for number, line in enumerate(lines)]

    began = time.perf_counter()
    MinhashDedupSignature(str(work / "signatures"), config=config).run(documents, 0, 1)
    seconds = time.perf_counter() - began
    print(f"datatrove: signatures {size / seconds / 1e6:.2f} MB/s")

    began = time.perf_counter()
    buckets = MinhashDedupBuckets(str(work / "signatures"), str(work / "buckets"), config=config)
    for bucket in range(14):
        buckets.run(None, bucket, 14)
    MinhashDedupCluster(str(work / "buckets"), str(work / "remove"), config=config).run(None, 0, 1)
    seconds = time.perf_counter() - began
    print(f"datatrove: buckets and clusters {seconds * 1e6 / len(lines):.1f} s per million documents")
    kept = sum(1 for _ in MinhashDedupFilter(str(work / "remove")).run(documents, 0, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    disk = sum(path.stat().st_size for path in (work / "signatures").rglob("*") if path.is_file())
    print(f"datatrove: {len(lines) - kept} of {len(lines)} removed; {peak:.0f} MiB at most, with the text")
    print(f"datatrove: signatures take {disk / len(lines):.0f} bytes per document on disk")


if __name__ == "__main__":
    main(*sys.argv[1:])
