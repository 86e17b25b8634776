"""Times the tokenization of one text file by a competitor; see scripts/bench-tokenize.

usage: rivals_tokenize.py NAME FILE TOKENIZER_JSON THREADS PASSES [IDS]

Prints a line `pass SECONDS` for each pass, then `tokens N`. Documents in a file are separated by blank lines; in a
folder, each file is a document. With IDS, the ids are written to this file, 4 bytes each, and nothing is timed. Environment
variables limit the threads of the competitor.
"""

import os
import sys
import time
from array import array

name, path, tokenizer_json, threads, passes = sys.argv[1:4] + [int(number) for number in sys.argv[4:6]]
ids_path = sys.argv[6] if len(sys.argv) > 6 else None


is_folder = os.path.isdir(path)
files = sorted(entry.path for entry in os.scandir(path)) if is_folder else [path]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def documents():
    return [read(file) for file in files] if is_folder else read(path).split("\n\n")


def source_of(module):
    """Returns the documents as a source for modules that read files themselves."""
    return module.TextFileSource(files) if is_folder else module.TextFileSource(files, separator=b"\n\n")


def tokenizers():
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_json)
    encode = lambda: tokenizer.encode_batch_fast(documents(), add_special_tokens=False)
    return encode, lambda output: (encoding.ids for encoding in output)


def nanotoken():
    import nanotoken as module

    tokenizer = module.Tokenizer(tokenizer_json)
    return lambda: tokenizer.encode_files(source_of(module), add_special_tokens=False), rows


def tokie():
    import tokie as module

    tokenizer = module.Tokenizer.from_json(tokenizer_json)
    encode = lambda: tokenizer.encode_batch(documents(), add_special_tokens=False)
    return encode, lambda output: (getattr(encoding, "ids", encoding) for encoding in output)


def gigatoken():
    import gigatoken as module

    tokenizer = module.Tokenizer(tokenizer_json)
    return lambda: tokenizer.encode_files(source_of(module), parallel=threads > 1), rows


def datasets():
    """Uses `map` to Parquet, the usual preparation of a corpus; the ids are those of `tokenizers`."""
    import tempfile

    import datasets as module
    from tokenizers import Tokenizer

    module.disable_progress_bars()
    module.disable_caching()
    tokenizer = Tokenizer.from_file(tokenizer_json)

    def batch(rows):
        return {"ids": [encoding.ids for encoding in tokenizer.encode_batch_fast(rows["text"], add_special_tokens=False)]}

    def encode():
        with tempfile.TemporaryDirectory() as folder:
            texts = module.Dataset.from_dict({"text": documents()})
            mapped = texts.map(batch, batched=True, num_proc=threads if threads > 1 else None, remove_columns=["text"])
            mapped.to_parquet(os.path.join(folder, "ids.parquet"))
            return mapped

    return encode, lambda output: output["ids"]


def rows(output):
    """Converts an array of rows to a list; returns other iterables unchanged."""
    return output.to_list() if hasattr(output, "to_list") else output


encode, ids_of = globals()[name]()
if ids_path:
    with open(ids_path, "wb") as file:
        for ids in ids_of(encode()):
            array("I", ids).tofile(file)
else:
    for _ in range(passes):
        clock = time.perf_counter()
        output = encode()
        print(f"pass {time.perf_counter() - clock:.6f}", flush=True)
    print("tokens", sum(len(ids) for ids in ids_of(output)))
