"""Reference results of `transformers` for small random models (trainer/engine/src/hf/tests.rs).

    python tests/reference/hf_parity.py                     # writes tests/golden/hf_*/
    python tests/reference/hf_parity.py --check FOLDER ...  # the other direction: loads our exports

The first form writes folders like `save_pretrained`, each with expected.safetensors: a batch with padded rows, logits,
loss and gradients. BERT's has the gradient of every weight, and all weights after one step of AdamW with decay and
clipping; the others have the gradients in which their weights' names or rows differ from BERT's, and hidden states.
Biases and norms are random too, so that swapped tensors of equal shape are detected.

The second form compares FOLDER/check.safetensors (ids, mask and *our* logits) with the model that `transformers` reads
from FOLDER, and keeps the result in exported.json of that golden folder, together with the hashes of the files that it
read (FOLDER/check.json). The suite exports the same weights and compares hashes: what was accepted then is what is
written now.

The FOLDERs are those in HOME, named like the golden ones, after
HF_CHECK_FOLDER=HOME cargo test -p cloze-trainer are_those_that_transformers_read
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
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
    spared = [weight for name, weight in weights.items() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [weight for name, weight in weights.items() if not (name.endswith("bias") or "LayerNorm" in name)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.999), eps=1e-6,
    )
    norm = torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
    assert norm > 1.0, "the clip should bite"
    optimizer.step()
    expected |= {f"stepped.{name}": weight.detach().clone() for name, weight in weights.items()}
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


def check(folder):
    config = json.loads((folder / "config.json").read_text())
    model, report = getattr(transformers, config["architectures"][0]).from_pretrained(folder, output_loading_info=True)
    problems = {kind: sorted(map(str, keys)) for kind, keys in report.items() if keys}
    assert not problems, problems
    ours = load_file(folder / "check.safetensors")
    valid = ours["attention_mask"] == 1
    with torch.no_grad():
        logits = model.eval()(input_ids=ours["input_ids"], attention_mask=ours["attention_mask"]).logits
    assert logits.shape == ours["logits"].shape, (logits.shape, ours["logits"].shape)
    difference = (logits - ours["logits"])[valid].abs().max().item()
    assert difference <= 1e-4, difference
    kept = {
        "versions": VERSIONS,
        "largest_difference_of_logits": difference,
        "blake3": json.loads((folder / "check.json").read_text()),
    }
    (GOLDEN / folder.name / "exported.json").write_text(json.dumps(kept, indent=2) + "\n")
    print(f"{folder}: logits differ by {difference:.1e} at most")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        for home in sys.argv[2:]:
            check(pathlib.Path(home))
    else:
        write_bert()
        write_bert_for_pretraining()
        write_roberta()
        write_electra()
