"""Corpus that the tests prepare in several ways, and the calls of the program."""

import copy
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

from cluster import check, run, say

ROOT = Path(__file__).resolve().parent.parent.parent
# Objects that depend on time or machine.
OWN = {"lock", "fingerprints.json"}


class Corpus:
    """Corpus of the project's pages in files of several sizes, one of them compressed, and a tokenizer."""

    def __init__(self, home: Path, program: Path):
        self.home, self.program = home, program
        self.env, self.keys = dict(os.environ), {}
        shutil.rmtree(home, ignore_errors=True)
        (home / "corpus").mkdir(parents=True)
        # Without the page that the tests write.
        texts = {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")} - {ROOT / "docs/cluster-tests.md"}
        lines = [line.strip() for path in sorted(texts) for line in path.read_text().splitlines()]
        lines = [line for line in lines if len(line.split()) >= 8]
        for file in range(40):
            mixed = random.Random(file).sample(lines, k=len(lines) * (1 + file % 4) // 4)
            (home / f"corpus/{file:02}.txt").write_text("".join(f"File {file}. {line}\n" for line in mixed))
        run(["gzip", home / "corpus/07.txt"])
        shutil.copy(ROOT / "configs/tiny.toml", home / "tiny.toml")
        self.configure("run.toml", "plain")
        self.cloze("tokenizer", "train")

    def configure(self, name: str, folder: str) -> Path:
        """Writes a configuration that prepares into that folder."""
        path = self.home / name
        path.write_text(f"""extends = "tiny.toml"
tokenizer.vocab_size = 2000

[prepare]
inputs = ["{self.home}/corpus"]
format = "text_lines"
tokenizer = "{self.home}/tokenizer.json"
folder = "{self.home / folder}"
part_bytes = 100000
segment_bytes = 50000
""")
        return path

    def at(self, url: str, env: dict[str, str]) -> "Corpus":
        """Returns the same corpus, read from a URL with these variables."""
        other = copy.copy(self)
        other.env, other.keys = {**self.env, **env}, {"inputs": json.dumps([url])}
        return other

    def large(self) -> "Corpus":
        """Returns a corpus of one file, whose shard is larger than a part of a multipart upload."""
        other, draw, path = copy.copy(self), random.Random(1), self.home / "large.txt"
        # Letters in random order compress badly.
        words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(200_000)]
        with open(path, "w") as file:
            for _ in range(30):
                draw.shuffle(words)
                file.writelines(" ".join(words[at : at + 40]) + "\n" for at in range(0, len(words), 40))
        other.keys = {"inputs": json.dumps([str(path)]), "part_bytes": 1 << 27, "segment_bytes": 1 << 27}
        return other

    def words(self, *words: str, folder: str | None = None, **keys: object) -> list[str]:
        """Command with a folder, which is a URL or a name below the home of the tests."""
        place = {} if folder is None else {"folder": folder if "://" in folder else self.home / folder}
        sets = [word for key, value in (self.keys | keys | place).items() for word in ("--set", f"prepare.{key}={value}")]
        return [str(self.program), *words, "--config", str(self.home / "run.toml"), *sets]

    def cloze(self, *words: str, folder: str | None = None, **keys: object) -> str:
        return run(self.words(*words, folder=folder, **keys), cwd=self.home, env=self.env)

    def start(self, *words: str, folder: str, env: dict[str, str] | None = None, **keys: object) -> subprocess.Popen:
        """Starts a process. Its messages are appended to `started.log`."""
        with open(self.home / "started.log", "ab") as log:
            return subprocess.Popen(self.words(*words, folder=folder, **keys), cwd=self.home, env=self.env | (env or {}),
                                    stdout=log, stderr=log)

    def succeed(self, *children: subprocess.Popen) -> None:
        """Waits for processes, which must exit with 0."""
        codes = [child.wait() for child in children]
        check(not any(codes), f"processes exit with {codes}; the last messages:\n{self.messages()}")

    def messages(self) -> str:
        return (self.home / "started.log").read_text(errors="replace")[-4000:]

    def objects(self, folder: str) -> dict[str, bytes]:
        root = self.home / folder
        files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items()}

    def parts(self, folder: str) -> int:
        return len(list((self.home / folder / "parts").glob("*.json")))

    def row(self, how: str, objects: dict[str, bytes], note: str, plain: str = "plain") -> tuple[str, str]:
        """Row of the page, after the check that every object equals that of one worker, in the folder `plain`."""
        plain = self.objects(plain)
        names = (plain.keys() | objects.keys()) - OWN
        other = sorted(name for name in names if plain.get(name) != objects.get(name))
        check(not other, f"{how}: {len(other)} objects differ from those of one worker: {', '.join(other[:5])}")
        say(how, "-", note)
        return how, f"{note}; content `{content(objects)[:16]}`"


def content(objects: dict[str, bytes]) -> str:
    """Content hash of the newest dataset version."""
    return json.loads(objects["manifest.json"])["content"]["dataset_versions"][-1]["content"]
