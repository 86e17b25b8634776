"""Writes tests/golden/parity.json: inputs, losses, parts and gradients of `cloze parity`, computed by PyTorch in
float64 from the formulas, with every intermediate spelled out and autograd for the gradients.

    python tests/reference/parity_reference.py          # PyTorch 2.11; only needed when a case is added

The suite reads the numbers without Python (trainer/src/parity/tests.rs).
"""

import json
import math
import pathlib

import torch

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "parity.json"
generator = torch.Generator().manual_seed(20)


def normal(*shape, scale=1.0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator) * scale


def integers(high, *shape):
    return torch.randint(high, shape, generator=generator)


def gelu(x, kind):
    if kind == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps) * gamma + beta


def mlm(inputs, variant):
    h = inputs["h"].reshape(-1, inputs["h"].shape[-1])[inputs["positions"].long()]
    t = gelu(h @ inputs["W"].T + inputs["b"], variant.get("gelu", "erf"))
    t = layer_norm(t, inputs["gamma"], inputs["beta"], variant.get("ln_eps", 1e-12))
    logits = t @ inputs["E"].T + inputs["out_bias"]
    targets = inputs["targets"].long()
    each = torch.logsumexp(logits, -1) - logits[torch.arange(len(targets)), targets]
    return each.sum() / max(len(targets), 1), {}


def unit(x):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def tc(inputs, variant):
    anchor_side = unit(inputs["h"] - inputs["e"])
    candidate_side = anchor_side if variant.get("candidates") == "live" else anchor_side.detach()
    losses = []
    for b, t in inputs["anchor"].nonzero().tolist():
        chosen = [(b, int(inputs["pos_col"][b, t]))]
        chosen += list(zip(inputs["neg_row"][b, t].tolist(), inputs["neg_col"][b, t].tolist()))
        scores = torch.stack([anchor_side[b, t] @ candidate_side[r, c] for r, c in chosen]) / variant.get("tau", 0.07)
        losses.append(torch.logsumexp(scores, 0) - scores[0])
    if not losses:
        return (inputs["h"] * 0 + inputs["e"] * 0).sum(), {}
    return torch.stack(losses).mean(), {}


def contextual_score(inputs, variant):
    rows = inputs["hidden"].reshape(-1, inputs["hidden"].shape[-1])
    token, intra, inter = (rows[inputs[name].long()] for name in ("token", "intra", "inter"))
    measures = {"cosine": lambda a, b: (unit(a) * unit(b)).sum(-1), "dot": lambda a, b: (a * b).sum(-1)}
    for p in (1, 2, 10):
        measures[f"l{p}"] = lambda a, b, p=p: ((a - b).abs() ** p).sum(-1) ** (1 / p)
    parts = {}
    for name, measure in measures.items():
        near, far = measure(token, intra).mean(), measure(token, inter).mean()
        parts |= {f"intra_{name}": near.item(), f"inter_{name}": far.item(), f"ratio_{name}": (near / far).item()}
    return torch.tensor(parts["intra_cosine"] - parts["inter_cosine"], dtype=torch.float64), parts


OBJECTIVES = {"mlm": mlm, "tc": tc, "contextual_score": contextual_score}
LIVE = {"mlm": ["h", "W", "b", "gamma", "beta", "E", "out_bias"], "tc": ["h", "e"], "contextual_score": []}


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


def array(tensor):
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}


def main():
    golden = {"versions": {"torch": torch.__version__}, "cases": [], "results": {}}
    for name, objective, variant, inputs in cases():
        golden["cases"].append({
            "id": name, "objective": objective, "variant": variant,
            "inputs": {key: array(value) for key, value in inputs.items()},
        })
        live = {key: inputs[key].requires_grad_() for key in LIVE[objective]}
        loss, parts = OBJECTIVES[objective](inputs, variant)
        grads = torch.autograd.grad(loss, list(live.values()), allow_unused=True) if live else ()
        grads = {key: array(torch.zeros_like(leaf) if grad is None else grad)
                 for (key, leaf), grad in zip(live.items(), grads)}
        golden["results"][name] = {"loss": loss.item(), "parts": parts, "grads": grads}
    GOLDEN.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
