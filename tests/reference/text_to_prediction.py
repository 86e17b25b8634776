"""From a text to a prediction: exports of every family and head, read by `transformers` and compared with `cloze`.

    python text_to_prediction.py make HOME      # small runs and their exports, with the program CLOZE; needs no package
    python text_to_prediction.py check HOME     # compares them; writes HOME/found-VERSION.json; needs transformers
    python text_to_prediction.py table HOME     # prints the results of all versions as Markdown

Tests of tensors (hf_parity.py) cannot see a wrong tokenizer. Here, everything begins with a text: the tokenizer is that of
`AutoTokenizer`, the model that of the automatic class, and the code that of the model card. `scripts/test-text-to-prediction`
runs all three steps.
"""

import json
import os
import pathlib
import random
import re
import sys
import tempfile

from small_exports import SETTINGS, Maker, sentence, text


class Checker:
    """Compares exports with `cloze`."""

    def __init__(self, home):
        self.home = pathlib.Path(home).resolve()
        # Our own code is copied here, not to the cache of the user.
        self.modules = tempfile.TemporaryDirectory()
        os.environ["HF_MODULES_CACHE"] = self.modules.name
        import tokenizers
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.set_num_threads(1)
        self.torch, self.transformers, self.tokenizers = torch, transformers, tokenizers

    def all(self):
        found = {}
        for file in sorted(self.home.glob("exports-*.json")):
            name = file.stem.removeprefix("exports-")
            try:
                found[name] = self.export(name, json.loads(file.read_text()))
            except Exception as error:  # One export that cannot be read does not hide the others.
                found[name] = {"class": "?", "ways": {}, "problems": [f"{type(error).__name__}: {error}"[:400]]}
            problems = "; ".join(found[name]["problems"]) or "equal"
            print(f"{name}: {found[name]['class']}: {found[name]['ways']}: {problems}", flush=True)
        for name in SETTINGS:
            found[f"settings {name}"] = self.settings(name)
            print(name, found[f"settings {name}"], flush=True)
        version = self.transformers.__version__
        (self.home / f"found-{version}.json").write_text(json.dumps(found, indent=1) + "\n")
        return all(not it["problems"] for it in found.values())

    def export(self, name, facts):
        self.folder = self.home / "exports" / name
        config = json.loads((self.folder / "config.json").read_text())
        self.type = config["architectures"][0]
        self.own = self.type.startswith("Cloze")
        self.trust = {"trust_remote_code": True} if self.own else {}
        self.tokenizer = self.transformers.AutoTokenizer.from_pretrained(self.folder, **self.trust)
        self.model = self.load_model()
        self.problems, self.ways = [], {}
        self.compare_special_tokens()
        if facts["predictions"] is None:
            self.pretraining(name)
        else:
            task = name.removeprefix(facts["name"] + "-")
            getattr(self, task)(self.home / task, self.home / facts["predictions"])
        return {"class": self.type, "ways": self.ways, "problems": self.problems}

    def settings(self, name):
        """Ids of a vocabulary with settings."""
        folder = self.home / "settings" / name
        theirs = self.transformers.AutoTokenizer.from_pretrained(folder)
        of_data = self.transformers.AutoTokenizer.from_pretrained(folder / "data")
        # Without a class of `transformers`, which may change settings of the file.
        ours = self.tokenizers.Tokenizer.from_file(str(folder / "data/tokenizer.json"))
        draw = random.Random(2)
        texts = [text(sentence(draw)) for _ in range(40)] + ["[DRUG] JÜRGEN ATE soup, ate soups", " Käse", "寿司 李寿"]
        self.problems, self.ways = [], {}
        wanted = [ours.encode(one, add_special_tokens=False).ids for one in texts]
        for way, tokenizer in (("AutoTokenizer", theirs), ("prepared folder", of_data)):
            self.count(way, wanted, [tokenizer(one, add_special_tokens=False)["input_ids"] for one in texts])
        rows = self.transformers.DataCollatorForLanguageModeling(of_data)([of_data(one) for one in texts])
        assert (rows["labels"] != -100).any()
        return {"class": type(theirs).__name__, "ways": self.ways, "problems": self.problems}

    def load_model(self):
        """The model by its automatic class, without a problem of its weights."""
        head = re.search("For.*", self.type)
        kind = getattr(self.transformers, "AutoModel" + (head.group() if head else ""))
        model, report = kind.from_pretrained(self.folder, output_loading_info=True, **self.trust)
        problems = {key: sorted(map(str, names)) for key, names in report.items() if names}
        assert type(model).__name__ == self.type, type(model)
        if self.type == "MPNetModel":
            # No run has its pooler.
            assert all("pooler" in key for key in problems.pop("missing_keys", ())), problems
        assert not problems, problems
        return model.eval()

    def compare_special_tokens(self):
        """Five special tokens, and inputs that the model takes."""
        tokenizer = self.tokenizer
        for role in ("pad", "cls", "sep", "mask", "unk"):
            if getattr(tokenizer, f"{role}_token_id") is None:
                self.problems.append(f"no {role} token")
        if tokenizer.model_max_length != 64:
            self.problems.append(f"model_max_length is {tokenizer.model_max_length}")
        has_types = self.model.config.model_type in ("bert", "electra", "cloze")
        if ("token_type_ids" in tokenizer("a", "b")) != has_types:
            self.problems.append("token_type_ids are " + ("missing" if has_types else "there"))

    def count(self, way, ours, theirs, same=lambda ours, theirs: ours == theirs):
        assert len(ours) == len(theirs), (len(ours), len(theirs))
        equal = sum(map(same, ours, theirs))
        self.ways[way] = f"{equal} of {len(ours)}"
        if equal != len(ours):
            first = next((one, other) for one, other in zip(ours, theirs) if not same(one, other))
            self.problems.append(f"{way}: {equal} of {len(ours)} equal, first {first}")

    def outputs(self, *texts):
        inputs = self.tokenizer(*texts, truncation=True, return_tensors="pt")
        with self.torch.no_grad():
            return inputs, self.model(**inputs)

    def card(self, *texts):
        """The prediction of the code of the model card, with these texts instead of the examples there."""
        code = re.search(r"```python\n(.*?)```", (self.folder / "README.md").read_text(), re.S).group(1)
        code = re.sub(r"tokenizer\(.*?, truncation", lambda _: f"tokenizer({', '.join(map(repr, texts))}, truncation", code)
        names = {}
        exec(code.replace('"FOLDER"', repr(str(self.folder))), names)  # noqa: S102, the file is our own
        return names["prediction"]

    def pipeline(self, task):
        if task not in self.transformers.pipelines.PIPELINE_REGISTRY.get_supported_tasks():
            return None
        model = str(self.folder)
        return self.transformers.pipeline(task, model=model, tokenizer=model, device="cpu", **self.trust)

    def pretraining(self, name):
        file = self.home / f"filled-{name}.json"
        if not file.exists():
            inputs, output = self.outputs("Anna ate bread.")
            logits = output[0]
            assert logits.shape[:2] == inputs["input_ids"].shape and logits.isfinite().all()
            assert self.card("Anna ate bread.").shape == logits.shape
            self.ways["model card"] = "runs"
            return
        filled = json.loads(file.read_text())
        mask = self.tokenizer.mask_token
        texts = [text.replace("[MASK]", mask) for text in filled["texts"]]
        ours = [re.search(r"(\S+) [0-9.]+ %$", line).group(1) for line in filled["output"] if line.strip().endswith("%")]
        ids = []
        for one in texts:
            inputs, output = self.outputs(one)
            logits = output.prediction_logits if self.type == "BertForPreTraining" else output.logits
            ids.append(logits[inputs["input_ids"] == self.tokenizer.mask_token_id].argmax(-1).item())
        self.count("AutoModel", ours, [self.tokenizer.convert_ids_to_tokens(one) for one in ids])
        decoded = [self.tokenizer.decode([one]) for one in ids]
        self.count("model card", decoded[:2], [self.card(one) for one in texts[:2]])
        if self.type != "BertForPreTraining" and (fill := self.pipeline("fill-mask")):
            self.count("pipeline", ids, [fill(one, top_k=1)[0]["token"] for one in texts])

    def rows(self, folder):
        return [json.loads(line) for line in (folder / "dev.jsonl").read_text().splitlines()]

    def predicted(self, predictions):
        lines = next(predictions.glob("*.tsv")).read_text().splitlines()
        return [line.split("\t")[1] for line in lines[1:]]

    def classes(self, folder, predictions, keys):
        texts = [[row[key] for key in keys] for row in self.rows(folder)]
        ours = self.predicted(predictions)
        labels = self.model.config.id2label
        self.count("AutoModel", ours, [labels[self.outputs(*one)[1].logits.argmax(-1).item()] for one in texts])
        self.count("model card", ours[:2], [self.card(*one) for one in texts[:2]])
        if classify := self.pipeline("text-classification"):
            inputs = [dict(zip(("text", "text_pair"), one)) for one in texts]
            self.count("pipeline", ours, [it["label"] for it in map(classify, inputs)])
        padded = self.tokenizer(*map(list, zip(*texts)), padding=True, return_tensors="pt")
        with self.torch.no_grad():
            batch = self.model(**padded).logits.argmax(-1)
        self.count("padded batch", ours, [labels[label] for label in batch.tolist()])

    def single(self, folder, predictions):
        self.classes(folder, predictions, ["a"])

    def pair(self, folder, predictions):
        self.classes(folder, predictions, ["a", "b"])

    def regression(self, folder, predictions):
        texts = [[row["a"], row["b"]] for row in self.rows(folder)]
        ours = list(map(float, self.predicted(predictions)))

        def close(ours, theirs):
            # `cloze` writes scores within the range of the task.
            return abs(ours - min(max(theirs, 0.0), 1.0)) < 1e-3

        self.count("AutoModel", ours, [self.outputs(*one)[1].logits.item() for one in texts], close)
        self.count("model card", ours[:2], [self.card(*one) for one in texts[:2]], close)
        if classify := self.pipeline("text-classification"):
            inputs = [{"text": a, "text_pair": b} for a, b in texts]
            scores = [classify(one, function_to_apply="none")["score"] for one in inputs]
            self.count("pipeline", ours, scores, close)

    def tokens(self, folder, predictions):
        ours = [
            [line.split() for line in block.splitlines()]
            for block in next(predictions.glob("*.txt")).read_text().strip().split("\n\n")
        ]
        classify = self.pipeline("token-classification")
        labels = self.model.config.id2label
        found, piped = [], []
        for words in ours:
            one = " ".join(word for word, _ in words)
            inputs = self.tokenizer(one, return_tensors="pt", return_offsets_mapping=True)
            offsets = inputs.pop("offset_mapping")[0].tolist()
            with self.torch.no_grad():
                predicted = self.model(**inputs).logits.argmax(-1)[0].tolist()
            starts = [sum(len(word) + 1 for word, _ in words[:at]) for at in range(len(words))]
            # The first token of a word. Offsets of a byte-level token may include the blank before it.
            by_start = {}
            for (begin, end), label in zip(offsets, predicted):
                begin += len(one[begin:end]) - len(one[begin:end].lstrip())
                if end > begin:
                    by_start.setdefault(begin, labels[label])
            found.append([by_start.get(start, "O") for start in starts])
            if classify:
                blank = {start - 1: start for start in starts}
                entities = {}
                # Several tokens of one character have its start: the first decides. A token of blanks is of no word.
                for entity in classify(one, ignore_labels=[]):
                    if one[entity["start"] : entity["end"]].strip():
                        entities.setdefault(blank.get(entity["start"], entity["start"]), entity["entity"])
                piped.append([entities.get(start, "O") for start in starts])
            if len(found) <= 2:
                assert self.card(one) == [labels[label] for label in predicted]
        wanted = [[label for _, label in words] for words in ours]
        self.count("AutoModel", wanted, found)
        self.ways["model card"] = "2 of 2"
        if classify:
            self.count("pipeline", wanted, piped)

    def answers(self, folder, predictions):
        ours = list(json.loads(next(predictions.glob("*.json")).read_text()).values())
        rows = self.rows(folder)
        answer = self.pipeline("question-answering")
        found, piped, cards = [], [], []
        for number, row in enumerate(rows):
            inputs = self.tokenizer(row["a"], row["b"], return_tensors="pt", return_offsets_mapping=True)
            offsets = inputs.pop("offset_mapping")[0].tolist()
            is_passage = [sequence == 1 for sequence in inputs.sequence_ids(0)]
            with self.torch.no_grad():
                output = self.model(**inputs)
            start, end = output.start_logits[0].tolist(), output.end_logits[0].tolist()
            spans = [
                (start[i] + end[j], i, j)
                for i in range(len(start)) for j in range(i, min(i + 30, len(start))) if is_passage[i] and is_passage[j]
            ]
            _, i, j = max(spans, key=lambda it: it[0])
            found.append(row["b"][offsets[i][0] : offsets[j][1]].strip())
            if answer:
                piped.append(answer(question=row["a"], context=row["b"], max_answer_len=30)["answer"].strip())
            if number < 2:
                ids = inputs["input_ids"][0, output.start_logits.argmax() : output.end_logits.argmax() + 1]
                cards.append((self.tokenizer.decode(ids), self.card(row["a"], row["b"])))
        self.count("AutoModel", ours, found)
        self.count("model card", *map(list, zip(*cards)))
        if answer:
            # It removes marks at both ends of an answer.
            def same(ours, theirs):
                return ours == theirs or ours.strip(".,!? ") == theirs.strip(".,!? ")

            self.count("pipeline", ours, piped, same)


def table(home):
    found = {file.stem.removeprefix("found-"): json.loads(file.read_text()) for file in sorted(pathlib.Path(home).glob("found-*.json"))}
    ways = ["AutoTokenizer", "prepared folder", "AutoModel", "padded batch", "pipeline", "model card"]
    print("| export | class | transformers | " + " | ".join(ways) + " |")
    print("|---" * (3 + len(ways)) + "|")
    names = sorted({name for exports in found.values() for name in exports})
    for name in names:
        for version, exports in found.items():
            it = exports[name]
            cells = [it["ways"].get(way, "–") for way in ways]
            marked = " **differs**" if it["problems"] else ""
            print(f"| {name} | `{it['class']}`{marked} | {version} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", home]:
            Maker(home).all()
        case ["check", home]:
            sys.exit(0 if Checker(home).all() else 1)
        case ["table", home]:
            table(home)
        case _:
            sys.exit(__doc__)
