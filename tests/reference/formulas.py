"""The formulas of `cloze parity` (trainer/engine/src/parity/mod.rs), one function per objective, for PyTorch in float64.

A reference, not optimized: one position, row or pair at a time, with every intermediate value,
logarithms of sums of exponentials where the sums fit a double. Each takes named inputs and a variant, and returns the
loss, with autograd's gradients, and a dictionary of parts.
"""

import math

import torch


def gelu(x, kind="erf"):
    if kind == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps) * gamma + beta


def unit(x):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def mean(losses, inputs):
    """0 with a gradient of 0 if there are none."""
    if not losses:
        return sum((value * 0).sum() for value in inputs.values())
    return torch.stack(losses).mean()


def token_losses(inputs, variant, positions, targets):
    h = inputs["h"].reshape(-1, inputs["h"].shape[-1])[inputs[positions].long()]
    t = gelu(h @ inputs["W"].T + inputs["b"], variant.get("gelu", "erf"))
    t = layer_norm(t, inputs["gamma"], inputs["beta"], variant.get("ln_eps", 1e-12))
    logits = t @ inputs["E"].T + inputs["out_bias"]
    targets = inputs[targets].long()
    return torch.logsumexp(logits, -1) - logits[torch.arange(len(targets)), targets]


def mlm(inputs, variant):
    each = token_losses(inputs, variant, "positions", "targets")
    return each.sum() / max(len(each), 1), {}


def tp(inputs, variant):
    masked = token_losses(inputs, variant, "positions", "targets")
    others = token_losses(inputs, variant, "other_positions", "other_targets")
    if variant.get("pool") == "joint":
        return (masked.sum() + others.sum()) / max(len(masked) + len(others), 1), {}
    return masked.sum() / max(len(masked), 1) + others.sum() / max(len(others), 1), {}


def nsp(inputs, variant):
    losses, hits = [], 0
    for h, is_random in zip(inputs["h"], inputs["is_random"].tolist()):
        pooled = torch.tanh(inputs["W"] @ h[0] + inputs["b"])
        follows, random = inputs["U"] @ pooled + inputs["c"]
        right, wrong = (random, follows) if is_random else (follows, random)
        losses.append(torch.log(1 + torch.exp(wrong - right)))
        hits += (right > wrong).item()
    return mean(losses, inputs), {"accuracy": hits / len(losses)}


def rtd(inputs, variant):
    losses, hits = [], 0
    for b, t in inputs["valid"].nonzero().tolist():
        x = inputs["h"][b, t]
        if variant.get("head") == "dense_gelu":
            x = gelu(inputs["W"] @ x + inputs["bW"])
        z = inputs["w"] @ x + inputs["b"][0]
        replaced = bool(inputs["orig"][b, t] != inputs["corrupt"][b, t])
        label = replaced != (variant.get("label_one") == "original")
        losses.append(-torch.log(torch.sigmoid(z) if label else torch.sigmoid(-z)))
        hits += (torch.sigmoid(z).item() > 0.5) == label
    return mean(losses, inputs), {"accuracy": hits / max(len(losses), 1)}


def clm(inputs, variant):
    copies, words = [], []
    form = variant.get("lm_form", "mixture")
    for b, t in inputs["valid"].nonzero().tolist():
        h, y = inputs["h"][b, t], int(inputs["orig"][b, t])
        is_copy = int(inputs["corrupt"][b, t]) == y
        p1 = torch.sigmoid(inputs["w"] @ h + inputs["b"][0])
        copies.append(-torch.log(p1 if is_copy else 1 - p1))
        if variant.get("lm_scope", "masked") == "masked" and not inputs["masked"][b, t]:
            continue
        gate = p1.detach() if variant.get("stop_grad", True) else p1
        q = torch.softmax(inputs["E"] @ h + inputs["out_bias"], 0)[y]
        words.append({
            "mixture": lambda: -torch.log(is_copy * gate + (1 - gate) * q),
            "weighted_ce": lambda: -(1 - gate) * torch.log(q),
            "softmax_only": lambda: -torch.log(q),
        }[form]())
    copy_loss, lm_loss = mean(copies, inputs), mean(words, inputs)
    if variant.get("norm") == "sum":
        copy_loss, lm_loss = copy_loss * len(copies), lm_loss * len(words)
    parts = {"copy_loss": copy_loss.item(), "lm_loss": lm_loss.item()}
    return variant.get("copy_weight", 50) * copy_loss + lm_loss, parts


def scl(inputs, variant):
    n, tau = len(inputs["view_mlm"]), variant.get("tau", 1)
    vectors = [unit(row) for view in ("view_mlm", "view_crop") for row in inputs[view]]
    losses = []
    for a in range(2 * n):
        partner = (a + n) % (2 * n)
        others = [j for j in range(2 * n) if j != a and (variant.get("negatives") != "cross" or (j < n) != (a < n))]
        share = torch.exp(vectors[a] @ vectors[partner] / tau) / sum(
            torch.exp(vectors[a] @ vectors[j] / tau) for j in others)
        losses.append(-torch.log(share))
    return mean(losses, inputs), {}


def tacl(inputs, variant):
    tau = variant.get("tau", 0.01)
    losses, rows, hits = [], [], 0
    for b, (student, teacher) in enumerate(zip(inputs["student"], inputs["teacher"])):
        is_key = inputs["valid"][b].bool() | (variant.get("pad_keys") == "include")
        row = []
        for i in inputs["selected"][b].nonzero().flatten().tolist():
            scores = torch.stack([unit(student[i]) @ unit(key) / tau for key in teacher])
            row.append(torch.logsumexp(scores[is_key], 0) - scores[i])
            hits += scores.masked_fill(~is_key, -math.inf).argmax().item() == i
        losses += row
        rows += [torch.stack(row).mean()] if row else []
    loss = mean(rows if variant.get("reduction") == "sequences" else losses, inputs)
    return loss, {"accuracy": hits / max(len(losses), 1)}


def tc(inputs, variant):
    anchor_side = unit(inputs["h"] - inputs["e"])
    candidate_side = anchor_side if variant.get("candidates") == "live" else anchor_side.detach()
    losses = []
    for b, t in inputs["anchor"].nonzero().tolist():
        chosen = [(b, int(inputs["pos_col"][b, t]))]
        chosen += list(zip(inputs["neg_row"][b, t].tolist(), inputs["neg_col"][b, t].tolist()))
        scores = torch.stack([anchor_side[b, t] @ candidate_side[r, c] for r, c in chosen]) / variant.get("tau", 0.07)
        losses.append(torch.logsumexp(scores, 0) - scores[0])
    return mean(losses, inputs), {}


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


def self_similarity(inputs, variant):
    rows = []
    for hidden, valid in zip(inputs["hidden"], inputs["valid"]):
        real = unit(hidden[valid.bool()])
        rows.append([(real[i] @ real[j]).item() for i in range(len(real)) for j in range(i)])
    pooled = sum(map(sum, rows)) / sum(map(len, rows))
    means = [sum(row) / len(row) for row in rows if row]
    return torch.tensor(pooled, dtype=torch.float64), {"sentence_mean": sum(means) / len(means)}


def alignment_uniformity(inputs, variant):
    x, y = unit(inputs["x"]), unit(inputs["y"])
    alignment = ((x - y).norm(dim=-1) ** variant.get("alpha", 2)).mean()
    rows = torch.cat([x, y])
    kernels = [torch.exp(-variant.get("t", 2) * ((rows[i] - rows[j]) ** 2).sum())
               for i in range(len(rows)) for j in range(i)]
    return alignment, {"alignment": alignment.item(), "uniformity": torch.stack(kernels).mean().log().item()}


def relpos_bucket(inputs, variant):
    half, limit = variant.get("buckets", 32) // 2, variant.get("max_distance", 128)
    near = half // 2

    def cocolm(distance):
        n = abs(distance)
        if n >= near:
            n = near + math.ceil(math.log(n / near) / math.log((limit - 1) / near) * (half - 1 - near))
        return half - 1 + (1 if distance > 0 else -1) * min(n, half - 1)

    def t5(distance):
        n = abs(distance)
        if n >= near:
            n = near + math.floor(math.log(n / near) / math.log(limit / near) * (half - near))
        return min(n, half - 1) + half * (distance > 0)

    bucket = t5 if variant.get("form") == "t5" else cocolm
    return torch.tensor(0.0), {"bucket": [bucket(int(distance)) for distance in inputs["distance"].tolist()]}


def metric(inputs, variant):
    predicted, gold = inputs["pred"].double(), inputs["gold"].double()

    def pearson(a, b):
        return torch.corrcoef(torch.stack([a, b]))[0, 1]

    def ranks(values):
        below = (values[None] < values[:, None]).sum(1)
        return below.double() + ((values[None] == values[:, None]).sum(1).double() - 1) / 2

    def f1(of):
        hits = ((predicted == of) & (gold == of)).sum().item()
        claimed, there = (predicted == of).sum().item(), (gold == of).sum().item()
        return 2 * hits / (claimed + there) if claimed + there else 0.0

    value = {
        "accuracy": lambda: (predicted == gold).double().mean(),
        "f1": lambda: f1(1),
        # For two classes, Matthews' correlation equals Pearson's.
        "mcc": lambda: pearson(predicted, gold).nan_to_num(0.0),
        "macro_f1": lambda: sum(map(f1, range(variant["classes"]))) / variant["classes"],
        "pearson": lambda: pearson(predicted, gold),
        "spearman": lambda: pearson(ranks(predicted), ranks(gold)),
    }[variant["metric"]]()
    return torch.as_tensor(value, dtype=torch.float64), {}


OBJECTIVES = {
    function.__name__: function
    for function in (mlm, tp, nsp, rtd, clm, scl, tacl, tc, contextual_score, self_similarity, alignment_uniformity,
                     relpos_bucket, metric)
}
HEAD = ["W", "b", "gamma", "beta", "E", "out_bias"]
# Inputs with a gradient.
LIVE = {
    "mlm": ["h", *HEAD], "tp": ["h", *HEAD], "nsp": ["h", "W", "b", "U", "c"], "rtd": ["h", "w", "b", "W", "bW"],
    "clm": ["h", "E", "out_bias", "w", "b"], "scl": ["view_mlm", "view_crop"], "tacl": ["student"], "tc": ["h", "e"],
}
