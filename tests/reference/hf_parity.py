"""Reference results of `transformers` for small random models (trainer/engine/src/hf/tests.rs).

    python tests/reference/hf_parity.py                     # writes tests/golden/hf_*/
    python tests/reference/hf_parity.py --compare HOME      # the other direction: loads our exports
    python tests/reference/hf_parity.py --check HOME        # and writes tests/golden/hf_exports.json

The first form writes folders like `save_pretrained`, each with expected.safetensors: a batch with padded rows, logits,
loss and gradients. BERT's has the gradient of every weight, and all weights after one step of AdamW with decay and
clipping, as have those with heads for labelled examples; the others have the gradients in which their weights' names or rows differ from BERT's, and hidden states.
Biases and norms are random too, so that swapped tensors of equal shape are detected.

The second form compares check.safetensors (ids, mask, *our* hidden states and outputs) of every folder below HOME with
the model that `transformers` reads from it. The suite runs it where `SETUP=full scripts/setup` has installed
`transformers`. The third form also keeps the differences, and the hashes of the files that it read (check.json). The
suite exports the same weights and compares hashes: what was accepted then is what is written now.

HOME is written by
HF_CHECK_FOLDER=HOME cargo test -p cloze-trainer hf::tests
"""

import json
import os
import pathlib
import sys
import tempfile

# Our own code is copied here, not to the cache of the user.
MODULES = tempfile.TemporaryDirectory()
os.environ["HF_MODULES_CACHE"] = MODULES.name

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    MPNetConfig,
    MPNetForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
VOCAB, ROWS, WIDTH = 300, 3, 14
SMALL_VOCAB = 90
VERSIONS = {"torch": torch.__version__, "transformers": transformers.__version__}


def randomize(model):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight) * 0.1
            weight.copy_(1 + noise if name.endswith(("LayerNorm.weight", "layer_norm.weight")) else noise)
    return model


def random_bert():
    torch.manual_seed(8)
    return randomize(BertForMaskedLM(BertConfig(
        vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-12,
    )))


def batch(vocab=VOCAB, pad=0, mask_id=4):
    ids = torch.randint(5, vocab, (ROWS, WIDTH))
    mask = torch.ones(ROWS, WIDTH, dtype=torch.int64)
    mask[1, 9:] = 0
    mask[2, 4:] = 0
    ids[mask == 0] = pad
    labels = torch.where((torch.rand(ROWS, WIDTH) < 0.3) & (mask == 1), ids, -100)
    ids[(labels >= 0) & (torch.rand(ROWS, WIDTH) < 0.8)] = mask_id
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def token_types(mask):
    """The second half of every row is a second segment."""
    return (torch.arange(WIDTH) >= 5).long().expand(ROWS, WIDTH) * mask


def store(expected, folder):
    save_file({name: tensor.detach().contiguous() for name, tensor in expected.items()}, folder / "expected.safetensors")
    (folder / "dataset_version_config.json").unlink(missing_ok=True)


def step(weights, expected):
    """One step of AdamW with decay and clipping. Adds the weights after it, and returns the norm of the gradient."""
    spared = [weight for name, weight in weights.items() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [weight for name, weight in weights.items() if not (name.endswith("bias") or "LayerNorm" in name)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.999), eps=1e-6,
    )
    norm = torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
    optimizer.step()
    expected |= {f"stepped.{name}": weight.detach().clone() for name, weight in weights.items()}
    return norm


def write_bert():
    model = random_bert()
    inputs = batch()
    folder = GOLDEN / "hf_bert"
    model.save_pretrained(folder)
    output = model(**inputs)
    output.loss.backward()
    # The decoder's two tensors are the word table and `cls.predictions.bias` under second names.
    weights = {name: weight for name, weight in model.named_parameters() if ".decoder." not in name}
    expected = {**inputs, "logits": output.logits, "loss": output.loss}
    expected |= {f"gradient.{name}": weight.grad.clone() for name, weight in weights.items()}
    norm = step(weights, expected)
    assert norm > 1.0, "the clip should bite"
    store(expected, folder)
    print(f"{VERSIONS}: {folder.name}: loss {output.loss.item():.6f}, gradient norm {norm.item():.4f}")


def write_small(name, model, inputs, kept):
    """A folder with the gradients of the weights whose names have one of `kept` in them."""
    folder = GOLDEN / name
    model.save_pretrained(folder)
    output = model(**inputs, output_hidden_states=True)
    output.loss.backward()
    expected = {**inputs, "logits": output.logits, "loss": output.loss, "hidden": output.hidden_states[-1]}
    expected |= {
        f"gradient.{name}": weight.grad for name, weight in model.named_parameters()
        if any(part in name for part in kept) and ".decoder." not in name and "generator_lm_head.weight" not in name
    }
    store(expected, folder)
    print(f"{VERSIONS}: {name}: loss {output.loss.item():.6f}")


def write_bert_for_pretraining():
    """The weights of the pooler and of the next-sentence classifier."""
    torch.manual_seed(9)
    model = randomize(BertForPreTraining(BertConfig(
        vocab_size=SMALL_VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=WIDTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))).eval()
    inputs = batch(SMALL_VOCAB)
    inputs["token_type_ids"] = token_types(inputs["attention_mask"])
    folder = GOLDEN / "hf_bert_pretraining"
    model.save_pretrained(folder)
    output = model(**inputs, next_sentence_label=torch.tensor([0, 1, 1]))
    next_sentence = torch.nn.functional.cross_entropy(output.seq_relationship_logits, torch.tensor([0, 1, 1]))
    store({**inputs, "logits": output.prediction_logits, "next_sentence": next_sentence}, folder)
    print(f"{VERSIONS}: {folder.name}: next sentence {next_sentence.item():.6f}")


def write_roberta():
    torch.manual_seed(10)
    model = randomize(RobertaForMaskedLM(RobertaConfig(
        vocab_size=SMALL_VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40,
        max_position_embeddings=WIDTH + 4, type_vocab_size=1, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    ))).eval()
    # The first of these rows belongs to no token, the second to padding only; a run does not keep them.
    with torch.no_grad():
        model.roberta.embeddings.position_embeddings.weight[:2] = 0
    inputs = batch(SMALL_VOCAB, pad=1)
    write_small("hf_roberta", model, inputs, ("embeddings", "layer.1.attention.self", "lm_head"))


def write_electra():
    shape = dict(
        vocab_size=SMALL_VOCAB, embedding_size=16, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=WIDTH + 2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(11)
    model = ElectraForPreTraining(ElectraConfig(hidden_size=24, intermediate_size=40, **shape))
    inputs = batch(SMALL_VOCAB)
    inputs["token_type_ids"] = token_types(inputs["attention_mask"])
    replaced = {**inputs, "labels": (torch.rand(ROWS, WIDTH) < 0.3).long() * inputs["attention_mask"]}
    kept = ("embeddings", "layer.1.attention.self", "predictions", "lm_head")
    write_small("hf_electra", randomize(model).eval(), replaced, kept)
    model = ElectraForMaskedLM(ElectraConfig(hidden_size=12, intermediate_size=20, **shape))
    write_small("hf_electra_generator", randomize(model).eval(), inputs, kept)


def write_mpnet():
    torch.manual_seed(12)
    model = randomize(MPNetForMaskedLM(MPNetConfig(
        vocab_size=SMALL_VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40,
        max_position_embeddings=WIDTH + 4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-5,
    ))).eval()
    with torch.no_grad():
        model.mpnet.embeddings.position_embeddings.weight[:2] = 0
    inputs = batch(SMALL_VOCAB, pad=1)
    write_small("hf_mpnet", model, inputs, ("word_embeddings", "relative", "layer.1.attention.attn", "lm_head"))


def span_loss(output, mask, spans):
    """The loss of BertForQuestionAnswering without padding, which has the probability 0."""
    losses = (
        torch.nn.functional.cross_entropy(logits.masked_fill(mask == 0, -torch.inf), target)
        for logits, target in ((output.start_logits, spans[:, 0]), (output.end_logits, spans[:, 1]))
    )
    return sum(losses) / 2


def write_labelled():
    """A BERT with each head for labelled examples: logits, loss, gradients, and the weights after a step of AdamW."""
    torch.manual_seed(13)
    classes, spans = torch.tensor([2, 0, 1]), torch.tensor([[3, 5], [0, 0], [2, 2]])
    inputs = batch(SMALL_VOCAB)
    inputs["token_type_ids"] = token_types(inputs["attention_mask"])
    tokens = torch.where((torch.rand(ROWS, WIDTH) < 0.5) & (inputs["attention_mask"] == 1), inputs["input_ids"] % 3, -100)
    heads = {
        "classification": (BertForSequenceClassification, 3, {"labels": classes}),
        "regression": (BertForSequenceClassification, 1, {"labels": torch.tensor([0.5, 2.0, 4.5])}),
        "token_classification": (BertForTokenClassification, 3, {"labels": tokens}),
        "span_extraction": (BertForQuestionAnswering, 2, {"start_positions": spans[:, 0], "end_positions": spans[:, 1]}),
    }
    del inputs["labels"]
    for name, (kind, outputs, targets) in heads.items():
        model = randomize(kind(BertConfig(
            vocab_size=SMALL_VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=WIDTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            num_labels=outputs,
        )))
        folder = GOLDEN / f"hf_bert_{name}"
        model.save_pretrained(folder)
        output = model(**inputs, **targets)
        is_span = "start_positions" in targets
        loss = span_loss(output, inputs["attention_mask"], spans) if is_span else output.loss
        loss.backward()
        logits = torch.stack([output.start_logits, output.end_logits], -1) if is_span else output.logits
        expected = {**inputs, "logits": logits, "loss": loss}
        weights = dict(model.named_parameters())
        expected |= {f"gradient.{name}": weight.grad.clone() for name, weight in weights.items()}
        step(weights, expected)
        labels = spans if is_span else targets["labels"]
        store({**expected, "targets": labels}, folder)
        print(f"{VERSIONS}: {folder.name}: loss {loss.item():.6f}")


def load(folder):
    """The model of FOLDER, with the class of its config or our own, and what is wrong with its weights."""
    config = json.loads((folder / "config.json").read_text())
    name = config["architectures"][0]
    own = name.startswith("Cloze")
    kind = getattr(transformers, name.replace("Cloze", "AutoModel") if own else name)
    model, report = kind.from_pretrained(folder, output_loading_info=True, trust_remote_code=own)
    assert type(model).__name__ == name, type(model)
    problems = {kind: sorted(map(str, keys)) for kind, keys in report.items() if keys}
    if name == "MPNetModel":
        # No run has its pooler.
        assert all("pooler" in key for key in problems.pop("missing_keys", ())), problems
    assert not problems, problems
    return model.eval()


def train_after_inference(model, inputs):
    """Nothing that an inference or a model without memory leaves behind stops a backward pass."""
    with torch.device("meta"):
        copy = type(model)(model.config)
        copy(**{name: tensor.to("meta") for name, tensor in inputs.items()})
    with torch.inference_mode():
        model(**inputs)
    model(**inputs)[0].sum().backward()
    model.zero_grad()


def differences(folder):
    """The largest differences of hidden states and of each output between ours and those of `transformers`."""
    model = load(folder)
    ours = load_file(folder / "check.safetensors")
    if type(model).__name__.startswith("Cloze"):
        train_after_inference(model, {name: ours[name] for name in ("input_ids", "attention_mask")})
    valid = ours["attention_mask"] == 1
    with torch.no_grad():
        output = model(
            input_ids=ours["input_ids"], attention_mask=ours["attention_mask"], output_hidden_states=True,
        )
    theirs = {"hidden": output.hidden_states[-1]}
    if "detection" in ours:
        detector = transformers.AutoModelForPreTraining.from_pretrained(folder, trust_remote_code=True).eval()
        with torch.no_grad():
            scores = detector(input_ids=ours["input_ids"], attention_mask=ours["attention_mask"])
        theirs["detection"] = scores.logits
    if "start_logits" in output:
        theirs["span_logits"] = torch.stack([output.start_logits, output.end_logits], -1)
    for name in ("row_logits", "token_logits"):
        if name in ours:
            theirs[name] = output.logits
    for name in ("logits", "prediction_logits", "seq_relationship_logits"):
        if name in output:
            theirs["logits" if name == "prediction_logits" else name] = output[name]
    found = {}
    for name in sorted(ours.keys() - {"input_ids", "attention_mask"}):
        assert theirs[name].shape == ours[name].shape, (name, theirs[name].shape, ours[name].shape)
        difference = theirs[name] - ours[name]
        # One vector for each row, or one for each token.
        difference = difference if name in ("seq_relationship_logits", "row_logits") else difference[valid]
        found[name] = difference.abs().max().item()
        assert found[name] <= 1e-4, (folder, name, found)
    return found


def compare(home):
    """Compares every export below HOME with `transformers`. Returns the differences by name."""
    found = {}
    for file in sorted(pathlib.Path(home).rglob("check.json")):
        name = str(file.parent.relative_to(home))
        found[name] = {"files": json.loads(file.read_text()), "largest_differences": differences(file.parent)}
        print(f"{name}: {found[name]['files']['class']} differs by at most "
              f"{max(found[name]['largest_differences'].values()):.1e}")
    return found


def check(home):
    """Compares, and keeps what was accepted."""
    file = GOLDEN / "hf_exports.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept |= {name: {"versions": VERSIONS, **found} for name, found in compare(home).items()}
    file.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--check", home]:
            check(home)
        case ["--compare", home]:
            compare(home)
        case []:
            write_bert()
            write_bert_for_pretraining()
            write_roberta()
            write_electra()
            write_mpnet()
            write_labelled()
        case _:
            sys.exit(__doc__)
