"""What `transformers` makes of a small random BERT, for the suite to compare with (trainer/src/hf/tests.rs).

    python tests/reference/hf_parity.py                  # writes tests/golden/hf_bert/
    python tests/reference/hf_parity.py --check FOLDER   # the other direction: loads what we exported

The first form writes a folder as `save_pretrained` does, and expected.safetensors: a batch with padded rows, logits,
loss, the gradient of every weight, and all weights after one step of AdamW with decay and clipping. Biases and norms
are random too, so that no two tensors of a shape can be swapped unseen.

The second form compares FOLDER/check.safetensors (ids, mask and *our* logits) with the model that `transformers` reads
from FOLDER, and keeps the result in tests/golden/hf_bert/exported.json, together with the hashes of the files that it
read (FOLDER/check.json). The suite exports the same weights and compares hashes: what was accepted then is what is
written now.

FOLDER is written by: HF_CHECK_FOLDER=FOLDER cargo test -p cloze-trainer exports_are_those_that_transformers_read
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "hf_bert"
VOCAB, ROWS, WIDTH = 300, 3, 14


def random_model():
    torch.manual_seed(8)
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-12,
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight) * 0.1
            weight.copy_(1 + noise if name.endswith("LayerNorm.weight") else noise)
    return model


def batch():
    ids = torch.randint(5, VOCAB, (ROWS, WIDTH))
    mask = torch.ones(ROWS, WIDTH, dtype=torch.int64)
    mask[1, 9:] = 0
    mask[2, 4:] = 0
    ids[mask == 0] = 0
    labels = torch.where((torch.rand(ROWS, WIDTH) < 0.3) & (mask == 1), ids, -100)
    ids[(labels >= 0) & (torch.rand(ROWS, WIDTH) < 0.8)] = 4
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def write_golden():
    model = random_model()
    inputs = batch()
    model.save_pretrained(GOLDEN)
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
    save_file({name: tensor.detach().contiguous() for name, tensor in expected.items()}, GOLDEN / "expected.safetensors")
    for other in ("generation_config.json",):
        (GOLDEN / other).unlink(missing_ok=True)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    print(f"{versions}: loss {output.loss.item():.6f}, gradient norm {norm.item():.4f}")


def check(folder):
    model, report = BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    problems = {kind: sorted(map(str, keys)) for kind, keys in report.items() if keys}
    assert not problems, problems
    ours = load_file(folder / "check.safetensors")
    with torch.no_grad():
        logits = model.eval()(input_ids=ours["input_ids"], attention_mask=ours["attention_mask"]).logits
    assert logits.shape == ours["logits"].shape, (logits.shape, ours["logits"].shape)
    difference = (logits - ours["logits"]).abs().max().item()
    assert difference <= 1e-4, difference
    kept = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "largest_difference_of_logits": difference,
        "blake3": json.loads((folder / "check.json").read_text()),
    }
    (GOLDEN / "exported.json").write_text(json.dumps(kept, indent=2) + "\n")
    print(f"{folder}: logits differ by {difference:.1e} at most")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(pathlib.Path(sys.argv[2]))
    else:
        write_golden()
