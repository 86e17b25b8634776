"""Small runs of every family and head with their exports, for text_to_prediction.py. Needs no package."""

import json
import os
import pathlib
import random
import subprocess
import sys

CONFIG = """
seed = 1
[tokenizer]
kind = "{kind}"
vocab_size = 500
lowercase = {lowercase}
[prepare]
inputs = ["corpus.txt"]
format = "text_lines"
tokenizer = "{kind}.json"
folder = "data-{kind}"
max_seq_len = 64
valid_fraction = 0.0
workers = 2
packing = "sentences"
[data]
folder = "data-{kind}"
workers = 1
[encoder]
layers = 2
hidden = 64
heads = 2
feed_forward = 128
dropout = 0.0
max_positions = 64
[train]
steps = 120
global_batch_size = 16
micro_batch_size = 16
threads = 1
device = "cpu"
[optimizer]
lr = 2e-3
[schedule]
kind = "constant"
warmup_steps = 10
[validation]
every_steps = 0
[checkpoints]
every_steps = 1000
[report]
every_steps = 100
[run]
folder = "run-{name}"
"""
MASKED = """
[views.masked]
kind = "mask"
[objectives.mlm]
kind = "masked_lm"
view = "masked"
[loss]
mlm = 1.0
"""
NEXT_SENTENCE = """
[views.pair]
kind = "pair"
[views.masked]
kind = "mask"
of = "pair"
[objectives.mlm]
kind = "masked_lm"
view = "masked"
[objectives.nsp]
kind = "next_sentence"
view = "masked"
[loss]
mlm = 1.0
nsp = 1.0
"""
GENERATOR = """
[networks.generator]
kind = "generator"
input_view = "masked"
output_view = "corrupted"
layers = 1
"""
DETECTION = GENERATOR + """
[views.masked]
kind = "mask"
[objectives.generator]
kind = "masked_lm"
network = "generator"
view = "masked"
[objectives.rtd]
kind = "replaced_token"
view = "corrupted"
head = "dense_gelu"
[loss]
generator = 1.0
rtd = 50.0
"""
ELECTRA = '[views.segments]\nkind = "segments"\n' + DETECTION.replace('kind = "mask"', 'kind = "mask"\nof = "segments"')
COCO_LM = GENERATOR + """
[views.masked]
kind = "mask"
[objectives.generator]
kind = "masked_lm"
network = "generator"
view = "masked"
[objectives.clm]
kind = "corrective_lm"
view = "corrupted"
[loss]
generator = 1.0
clm = 1.0
"""
T5, COCO = (
    [f'encoder.relative_positions={{kind="{kind}",num_buckets=32,max_distance=128}}'] for kind in ("t5", "cocolm")
)
# Family of the export: tokenizer, sections, and more keys of the run.
RUNS = {
    "bert": ("wordpiece", MASKED, []),
    "bert-nsp": ("wordpiece", NEXT_SENTENCE, []),
    "roberta": ("byte_bpe", MASKED, []),
    "electra": ("wordpiece", ELECTRA, ["encoder.embedding=32"]),
    # The tokens of one tokenizer have other ids in the export, those of the other begin with two separators.
    "mpnet-swapped": ("wordpiece", MASKED, T5),
    "mpnet": ("byte_bpe", MASKED, T5),
    "cloze": ("wordpiece", MASKED, COCO),
    "coco-lm": ("byte_bpe", COCO_LM, COCO),
    "mpnet-detection": ("byte_bpe", DETECTION, T5),
    "cloze-detection": ("wordpiece", ELECTRA, COCO),
}
FAMILIES = {
    "bert-nsp": "bert", "mpnet-swapped": "mpnet", "coco-lm": "cloze", "mpnet-detection": "mpnet", "cloze-detection": "cloze",
}
# Runs that are not fine-tuned: their encoders are those of others.
UNTUNED = ("bert-nsp", "mpnet-swapped", "mpnet-detection", "cloze-detection")
TASKS = {
    "single": 'kind = "custom_classification"\ntext = "a"\nlabel = "y"\nlabels = ["no", "yes"]\n',
    "pair": 'kind = "custom_classification"\ntext = "a"\nsecond_text = "b"\nlabel = "y"\nlabels = ["no", "yes"]\n',
    "regression": 'kind = "custom_regression"\ntext = "a"\nsecond_text = "b"\nscore = "y"\n',
    "tokens": 'kind = "custom_token_classification"\nlabels = ["O", "B-NAME", "B-FOOD"]\n',
    "answers": 'kind = "custom_span_extraction"\nquestion = "a"\npassage = "b"\nanswer = "y"\nanswer_start = "at"\n',
}
# Settings of `transformers` next to a vocabulary, by the names of their files. FIRST is the first id after it.
UNCASED = '"tokenizer_class": "BertTokenizer", "do_lower_case": true'
SETTINGS = {
    "plain": {"tokenizer_config.json": "{%s}" % UNCASED},
    "accents": {"tokenizer_config.json": '{%s, "strip_accents": false}' % UNCASED},
    "chinese": {"tokenizer_config.json": '{%s, "tokenize_chinese_chars": false}' % UNCASED},
    "cased": {"tokenizer_config.json": '{"tokenizer_class": "BertTokenizer", "do_lower_case": false, "strip_accents": true}'},
    "added": {
        "tokenizer_config.json": "{%s}" % UNCASED,
        "added_tokens.json": '{"jürgen ate": FIRST, "[DRUG]": SECOND}',
        "special_tokens_map.json": '{"additional_special_tokens": ["[DRUG]"]}',
    },
    "decoder": {
        "tokenizer_config.json": '{%s, "added_tokens_decoder": {"FIRST": {"content": "ate soup", "lstrip": false, "rstrip": '
        'false, "normalized": true, "single_word": true, "special": false}}}' % UNCASED,
    },
    "blank": {"tokenizer_config.json": '{"tokenizer_class": "RobertaTokenizer", "add_prefix_space": true}'},
}
NAMES = ["Anna", "Peter", "Zoé", "Jürgen", "李", "O'Neil"]
FOODS = ["bread", "soup", "crème", "Käse", "rice", "apple-pie", "寿司"]
VERBS = ["ate", "cooked", "bought", "didn't want", "saw"]
ENDS = [".", "!", " today.", " (again).", " — naïve…", " 🙂."]


def sentence(draw):
    return draw.choice(NAMES), draw.choice(VERBS), draw.choice(FOODS), draw.choice(ENDS)


def text(parts):
    name, verb, food, end = parts
    return f"{name} {verb} {food}{end}"


def write_json_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def examples(task, draw, count):
    """Examples whose label depends on both texts of a pair, and on which of them is the first."""
    for _ in range(count):
        a, b = sentence(draw), sentence(draw)
        if draw.random() < 0.5:
            b = (a[0], *b[1:])
        if task == "single":
            yield {"a": text(a), "y": "yes" if a[0] in NAMES[:3] else "no"}
        elif task == "pair":
            yield {"a": text(a), "b": text(b), "y": "yes" if NAMES.index(a[0]) < NAMES.index(b[0]) else "no"}
        elif task == "regression":
            yield {"a": text(a), "b": text(b), "y": FOODS.index(b[2]) / len(FOODS)}
        elif task == "answers":
            passage = f"{text(a)} {text(b)}"
            yield {"a": f"Who {a[1]} {a[2]}?", "b": passage, "y": a[0], "at": 0}


def write_task(folder, task, draw):
    folder.mkdir()
    for name, count in (("train", 240), ("dev", 40)):
        if task == "tokens":
            rows = [sentence(draw) for _ in range(count)]
            lines = "".join(
                f"{who} B-NAME\n{verb.split()[0]} O\n{food} B-FOOD\n{end.split()[-1]} O\n\n" for who, verb, food, end in rows
            )
            (folder / f"{name}.txt").write_text(lines, encoding="utf-8")
        else:
            write_json_lines(folder / f"{name}.jsonl", examples(task, draw, count))
    ending = "txt" if task == "tokens" else "jsonl"
    files = f'[files]\ntrain = "train.{ending}"\ndev = "dev.{ending}"\n'
    (folder / "task.toml").write_text(TASKS[task] + files)


class Maker:
    """Writes runs and exports below a folder."""

    def __init__(self, home):
        self.home = pathlib.Path(home).resolve()
        self.program = pathlib.Path(os.environ["CLOZE"]).resolve()

    def cloze(self, *args):
        result = subprocess.run([self.program, *args], cwd=self.home, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"cloze {' '.join(args)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def all(self):
        draw = random.Random(1)
        self.home.mkdir(parents=True, exist_ok=True)
        lines = (" ".join(text(sentence(draw)) for _ in range(6)) for _ in range(600))
        (self.home / "corpus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for kind in ("wordpiece", "byte_bpe"):
            self.write_config(kind, kind, MASKED)
            self.cloze("tokenizer", "train", "-c", f"{kind}.toml")
            self.cloze("prepare", "-c", f"{kind}.toml")
        for name, files in SETTINGS.items():
            self.with_settings(name, files)
        for task in TASKS:
            write_task(self.home / task, task, draw)
        for name in RUNS:
            self.pretrained(name)
        for name in RUNS:
            for task in TASKS if name not in UNTUNED else ():
                self.finetuned(name, task)

    def write_config(self, name, kind, sections):
        lowercase = str(kind == "wordpiece").lower()
        (self.home / f"{name}.toml").write_text(CONFIG.format(name=name, kind=kind, lowercase=lowercase) + sections)

    def with_settings(self, name, files):
        """A vocabulary with settings, and the tokenizer that `cloze` makes of both."""
        kind = "byte_bpe" if name == "blank" else "wordpiece"
        model = json.loads((self.home / f"{kind}.json").read_text())["model"]
        folder = self.home / "settings" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"model_type": "roberta" if name == "blank" else "bert"}))
        if kind == "wordpiece":
            (folder / "vocab.txt").write_text("\n".join(sorted(model["vocab"], key=model["vocab"].get)) + "\n")
        else:
            pairs = (pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"])
            (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
            (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
        for file, content in files.items():
            size = len(model["vocab"])
            (folder / file).write_text(content.replace("FIRST", str(size)).replace("SECOND", str(size + 1)))
        keys = (f"prepare.tokenizer=settings/{name}", f"prepare.folder=settings/{name}/data")
        self.cloze("prepare", "-c", f"{kind}.toml", *(arg for key in keys for arg in ("--set", key)))

    def pretrained(self, name):
        kind, sections, keys = RUNS[name]
        self.write_config(name, kind, sections)
        self.cloze("train", "-c", f"{name}.toml", *(arg for key in keys for arg in ("--set", key)))
        self.export(name, f"run-{name}", name, "main")
        if "[networks.generator]" in sections:
            self.export(name, f"run-{name}", f"{name}-generator", "generator")

    def finetuned(self, name, task):
        out = f"tuned-{name}-{task}"
        self.cloze(
            "finetune", task, "--task", f"{task}/task.toml", "--from", f"run-{name}", "--out", out, "--epochs", "6",
            "--batch-size", "16", "--lr", "2e-3", "--max-seq-len", "64", "--set", "train.threads=1",
        )
        self.export(name, f"{out}/run", f"{name}-{task}", "main", f"{out}/run/predictions")

    def export(self, name, run, out, network, predictions=None):
        family = [] if network != "main" else ["--as", FAMILIES.get(name, name)]
        self.cloze("export", run, "--out", f"exports/{out}", "--network", network, *family)
        (self.home / f"exports-{out}.json").write_text(json.dumps({"name": name, "predictions": predictions}))
        config = json.loads((self.home / f"exports/{out}/config.json").read_text())
        if config["architectures"][0].endswith(("ForMaskedLM", "BertForPreTraining")):
            texts = [text(sentence(random.Random(seed))) for seed in range(20)]
            texts = [text.replace(text.split()[1], "[MASK]", 1) for text in texts]
            filled = self.cloze("fill", f"exports/{out}", "--top", "1", *texts)
            (self.home / f"filled-{out}.json").write_text(json.dumps({"texts": texts, "output": filled.splitlines()}))
