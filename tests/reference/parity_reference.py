"""Writes tests/golden/parity.json: inputs, losses, parts and gradients of `cloze parity`, computed by PyTorch in
float64 from the formulas (formulas.py), with autograd for the gradients.

    python tests/reference/parity_reference.py          # PyTorch 2.11; only needed when a case is added

The suite reads the numbers without Python (trainer/engine/src/parity/tests.rs).
"""

import json
import pathlib

import torch

from formulas import LIVE, OBJECTIVES

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "parity.json"
generator = torch.Generator().manual_seed(20)


def normal(*shape, scale=1.0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator) * scale


def integers(high, *shape):
    return torch.randint(high, shape, generator=generator)


def mlm_inputs(b, t, d, v, n, scale=1.0):
    return {
        "h": normal(b, t, d), "W": normal(d, d, scale=0.3), "b": normal(d), "gamma": normal(d), "beta": normal(d),
        "E": normal(v, d, scale=scale), "out_bias": normal(v), "positions": integers(b * t, n), "targets": integers(v, n),
    }


def tc_inputs(b, t, d, k, anchors=1.0):
    rows = torch.arange(b)[:, None, None]
    return {
        "h": normal(b, t, d), "e": normal(b, t, d), "pos_col": integers(t, b, t),
        "neg_row": (rows + 1 + integers(b - 1, b, t, k)) % b, "neg_col": integers(t, b, t, k),
        "anchor": (torch.rand(b, t, generator=generator) < anchors).long(),
    }


def score_inputs(s, t, d, n, scale=1.0):
    return {"hidden": normal(s, t, d, scale=scale)} | {name: integers(s * t, n) for name in ("token", "intra", "inter")}


def tp_inputs(b, t, d, v, n, m):
    others = {"other_positions": integers(b * t, m), "other_targets": integers(v, m)}
    return mlm_inputs(b, t, d, v, n) | others


def nsp_inputs(b, t, d):
    return {
        "h": normal(b, t, d), "W": normal(d, d), "b": normal(d), "U": normal(2, d), "c": normal(2),
        "is_random": integers(2, b),
    }


def tokens(b, t, v, replaced, valid):
    """Rows of ids with padding at the end, and the output of a generator for them."""
    orig = integers(v, b, t)
    corrupt = torch.where(torch.rand(b, t, generator=generator) < replaced, integers(v, b, t), orig)
    lengths = torch.linspace(valid * t, t, b).ceil().long() if valid else torch.zeros(b)
    return {"orig": orig, "corrupt": corrupt, "valid": (torch.arange(t)[None] < lengths[:, None]).long()}


def rtd_inputs(b, t, d, dense=False, valid=0.5, scale=1.0):
    head = {"w": normal(d, scale=scale), "b": normal(1)}
    head |= {"W": normal(d, d), "bW": normal(d)} if dense else {}
    return {"h": normal(b, t, d)} | head | tokens(b, t, 9, 0.4, valid)


def clm_inputs(b, t, d, v, masked=0.4, valid=0.6, scale=1.0):
    weights = {"E": normal(v, d), "out_bias": normal(v), "w": normal(d, scale=scale), "b": normal(1)}
    text = tokens(b, t, v, 0.5, valid)
    chosen = (torch.rand(b, t, generator=generator) < masked) & (text["valid"] == 1)
    # Outside of the mask nothing is replaced.
    text["corrupt"] = torch.where(chosen, text["corrupt"], text["orig"])
    return {"h": normal(b, t, d)} | weights | text | {"masked": chosen.long()}


def scl_inputs(n, d):
    return {"view_mlm": normal(n, d), "view_crop": normal(n, d)}


def tacl_inputs(b, t, d, selected=0.4, valid=0.5):
    is_valid = tokens(b, t, 9, 0.0, valid)["valid"]
    chosen = (torch.rand(b, t, generator=generator) < selected) & (is_valid == 1)
    return {"student": normal(b, t, d), "teacher": normal(b, t, d), "valid": is_valid, "selected": chosen.long()}


def judged(n, classes=None):
    if classes:
        return {"pred": integers(classes, n), "gold": integers(classes, n)}
    gold = normal(n)
    return {"pred": (gold + normal(n)).round(decimals=0), "gold": gold}


def cases():
    yield "mlm-erf", "mlm", {"gelu": "erf", "ln_eps": 1e-12}, mlm_inputs(2, 3, 4, 7, 4)
    yield "mlm-tanh", "mlm", {"gelu": "tanh", "ln_eps": 1e-5}, mlm_inputs(2, 3, 4, 7, 3)
    yield "mlm-defaults-every-position-twice", "mlm", {}, mlm_inputs(1, 3, 5, 4, 6) | {
        "positions": torch.tensor([0, 1, 2, 2, 1, 0])}
    yield "mlm-empty", "mlm", {"gelu": "erf"}, mlm_inputs(2, 2, 3, 5, 0)
    yield "mlm-large-logits", "mlm", {"gelu": "erf"}, mlm_inputs(2, 3, 4, 6, 5, scale=300.0)
    yield "mlm-large-ln-eps", "mlm", {"gelu": "tanh", "ln_eps": 0.5}, mlm_inputs(1, 4, 3, 6, 4)
    yield "tc-detached", "tc", {"tau": 0.07, "candidates": "detached"}, tc_inputs(3, 4, 5, 6)
    yield "tc-live", "tc", {"tau": 0.07, "candidates": "live"}, tc_inputs(3, 4, 5, 6)
    yield "tc-warm", "tc", {"tau": 1.0, "candidates": "live"}, tc_inputs(2, 3, 4, 1)
    yield "tc-some-anchors", "tc", {"tau": 0.5}, tc_inputs(4, 3, 4, 3, anchors=0.4)
    yield "tc-no-anchors", "tc", {"tau": 0.5}, tc_inputs(2, 3, 4, 3, anchors=0.0)
    yield "tc-cold", "tc", {"tau": 0.01, "candidates": "live"}, tc_inputs(2, 3, 4, 3)
    zero = tc_inputs(2, 3, 4, 3)
    zero["e"][0, 1] = zero["h"][0, 1]
    zero["anchor"][0, 1] = 0
    yield "tc-zero-candidate", "tc", {"tau": 0.2}, zero
    zero = {name: value.clone() for name, value in zero.items()}
    zero["anchor"][0, 1] = 1
    yield "tc-zero-anchor", "tc", {"tau": 0.2, "candidates": "live"}, zero
    yield "score", "contextual_score", {}, score_inputs(3, 4, 6, 9)
    yield "score-small-differences", "contextual_score", {}, score_inputs(2, 3, 5, 4, scale=1e-3)
    yield "tp-separate", "tp", {}, tp_inputs(2, 3, 4, 7, 2, 4)
    yield "tp-joint", "tp", {"pool": "joint", "gelu": "tanh", "ln_eps": 1e-5}, tp_inputs(2, 3, 4, 7, 2, 4)
    yield "tp-only-masked", "tp", {"pool": "separate"}, tp_inputs(2, 3, 4, 7, 3, 0)
    yield "nsp", "nsp", {}, nsp_inputs(5, 2, 4)
    for label_one in ("replaced", "original"):
        for head in ("linear", "dense_gelu"):
            variant = {"label_one": label_one, "head": head}
            yield f"rtd-{label_one}-{head}", "rtd", variant, rtd_inputs(3, 6, 4, dense=head == "dense_gelu")
    yield "rtd-defaults", "rtd", {}, rtd_inputs(1, 3, 2, valid=1)
    yield "rtd-nothing", "rtd", {"label_one": "original"}, rtd_inputs(2, 3, 2, valid=0)
    yield "rtd-sure", "rtd", {}, rtd_inputs(2, 4, 3, scale=12.0)
    for form in ("mixture", "weighted_ce", "softmax_only"):
        for scope in ("masked", "all"):
            for stop_grad in (True, False):
                variant = {"lm_form": form, "lm_scope": scope, "stop_grad": stop_grad, "copy_weight": 50}
                name = f"clm-{form}-{scope}-{'stopped' if stop_grad else 'live'}"
                yield name, "clm", variant, clm_inputs(2, 5, 3, 6)
    yield "clm-defaults", "clm", {}, clm_inputs(3, 4, 4, 9)
    yield "clm-sum", "clm", {"norm": "sum", "copy_weight": 2.5}, clm_inputs(2, 6, 3, 5)
    yield "clm-all-token-lm", "clm", {"lm_scope": "all", "stop_grad": 0, "copy_weight": 0}, clm_inputs(2, 6, 3, 5)
    yield "clm-nothing-masked", "clm", {"stop_grad": False}, clm_inputs(2, 4, 3, 5, masked=0)
    yield "clm-sure", "clm", {"stop_grad": False, "copy_weight": 1}, clm_inputs(2, 6, 3, 5, scale=6.0)
    yield "scl-both", "scl", {"tau": 1, "negatives": "both"}, scl_inputs(5, 4)
    yield "scl-cross", "scl", {"tau": 1, "negatives": "cross"}, scl_inputs(5, 4)
    yield "scl-cold", "scl", {"tau": 0.05}, scl_inputs(4, 6)
    yield "scl-cross-cold", "scl", {"tau": 0.05, "negatives": "cross"}, scl_inputs(4, 6)
    yield "scl-one-row", "scl", {}, scl_inputs(1, 3)
    for pad_keys in ("exclude", "include"):
        for reduction in ("tokens", "sequences"):
            variant = {"tau": 0.3, "pad_keys": pad_keys, "reduction": reduction}
            yield f"tacl-{pad_keys}-{reduction}", "tacl", variant, tacl_inputs(3, 6, 4)
    yield "tacl-cold", "tacl", {}, tacl_inputs(2, 6, 5)
    yield "tacl-nothing-selected", "tacl", {"reduction": "sequences"}, tacl_inputs(2, 3, 4, selected=0)
    empty_row = tacl_inputs(3, 5, 4, selected=0.6)
    empty_row["selected"][1] = 0
    yield "tacl-a-row-without", "tacl", {"tau": 1, "reduction": "sequences"}, empty_row
    ragged = {"hidden": normal(3, 5, 4), "valid": tokens(3, 5, 9, 0, 0.2)["valid"]}
    yield "self-similarity", "self_similarity", {}, ragged
    yield "spread", "alignment_uniformity", {}, {"x": normal(6, 4), "y": normal(6, 4)}
    yield "spread-other-powers", "alignment_uniformity", {"alpha": 1, "t": 3}, {"x": normal(4, 3), "y": normal(4, 3)}
    near = normal(4, 5)
    yield "spread-near", "alignment_uniformity", {}, {"x": near, "y": near + normal(4, 5, scale=1e-2)}
    for form, buckets, limit in (("cocolm", 32, 128), ("cocolm", 64, 128), ("cocolm", 128, 256), ("t5", 32, 128)):
        variant = {"form": form, "buckets": buckets, "max_distance": limit}
        yield f"buckets-{form}-{buckets}-{limit}", "relpos_bucket", variant, {"distance": torch.arange(-300, 301)}
    for name in ("accuracy", "f1", "mcc"):
        yield f"metric-{name}", "metric", {"metric": name}, judged(20, classes=2)
    yield "metric-macro-f1", "metric", {"metric": "macro_f1", "classes": 6}, judged(20, classes=5)
    yield "metric-mcc-one-class", "metric", {"metric": "mcc"}, {
        "pred": torch.ones(4, dtype=torch.int64), "gold": torch.tensor([0, 1, 1, 0])}
    for name in ("pearson", "spearman"):
        yield f"metric-{name}", "metric", {"metric": name}, judged(20)


def array(tensor):
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def main():
    golden = {"versions": {"torch": torch.__version__}, "cases": [], "results": {}}
    for name, objective, variant, inputs in cases():
        golden["cases"].append({
            "id": name, "objective": objective, "variant": variant,
            "inputs": {key: array(value) for key, value in inputs.items()},
        })
        live = {key: inputs[key].requires_grad_() for key in LIVE.get(objective, []) if key in inputs}
        loss, parts = OBJECTIVES[objective](inputs, variant)
        grads = torch.autograd.grad(loss, list(live.values()), allow_unused=True) if live else ()
        grads = {key: array(torch.zeros_like(leaf) if grad is None else grad)
                 for (key, leaf), grad in zip(live.items(), grads)}
        golden["results"][name] = {"loss": loss.item(), "parts": parts, "grads": grads}
    GOLDEN.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
