"""Writes tests/golden/analyses.json: analyses of given hidden states and gradients, computed by NumPy.

    python -m venv venv && venv/bin/pip install numpy          # 2.3
    venv/bin/python tests/reference/analyses.py                # writes the file; only needed when a case is added

The program shares no code with crates/analysis: the formulas are written out pair by pair, and the random choices are
those of `Dice` (SplitMix64, seeded by FNV-1a of the purpose), restated here. The suite reads the numbers without Python
(crates/analysis/tests/golden.rs). The states of a token are rows of a table of random vectors, so that the file is small:
the state of position p of row r in layer l is `table[(7 r + 3 p + 5 l) mod len(table)]`.
"""

import json
import pathlib

import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "analyses.json"
MASK64 = (1 << 64) - 1
LAYERS = 2
SPECIAL = {0, 1, 2, 3, 4}


class Dice:
    def __init__(self, seed, purpose):
        state = 0xCBF29CE484222325
        for byte in purpose.encode():
            state = ((state ^ byte) * 0x100000001B3) & MASK64
        self.state = seed ^ state
        self.state = self.number() ^ seed

    def number(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        bits = self.state
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK64
        return bits ^ (bits >> 31)

    def below(self, count):
        return (self.number() * count) >> 64

    def shuffled(self, total, count):
        items = list(range(total))
        for at in range(min(count, total)):
            other = at + self.below(total - at)
            items[at], items[other] = items[other], items[at]
        return items[:count]

    def subset(self, total, count):
        return list(range(total)) if count >= total else sorted(self.shuffled(total, count))


def cosine(a, b):
    return float(a @ b / (max(np.linalg.norm(a), 1e-12) * max(np.linalg.norm(b), 1e-12)))


MEASURES = {
    "cos": cosine,
    "dot": lambda a, b: float(a @ b),
    "l1": lambda a, b: float(np.abs(a - b).sum()),
    "l2": lambda a, b: float(np.sqrt(((a - b) ** 2).sum())),
    "l10": lambda a, b: float((np.abs(a - b) ** 10).sum() ** 0.1),
}


def states(table, row, length, layer):
    """States of a row with its frame."""
    return np.stack([table[(7 * row + 3 * place + 5 * layer) % len(table)] for place in range(length + 2)])


def context_score(table, rows, seed, minus_embedding):
    places = [(r, p) for r, row in enumerate(rows) for p, token in enumerate(row["ids"]) if token not in SPECIAL]
    Dice(seed, "tokens")  # all tokens are compared: no draw
    dice = Dice(seed, "partners")

    def vector(place):
        row, at = place
        length = len(rows[row]["ids"])
        last = states(table, row, length, LAYERS)[at + 1]
        return last - states(table, row, length, 0)[at + 1] if minus_embedding else last

    sums = {name: ([], []) for name in MEASURES}
    for place in places:
        row, at = place
        own = [p for r, p in places if r == row and p != at]
        others = [other for other in places if rows[other[0]]["document"] != rows[row]["document"]]
        intra = (row, own[dice.below(len(own))]) if own else None
        inter = others[dice.below(len(others))] if others else None
        for name, compare in MEASURES.items():
            if intra is not None:
                sums[name][0].append(compare(vector(place), vector(intra)))
            if inter is not None:
                sums[name][1].append(compare(vector(place), vector(inter)))
    found = {}
    for name, (intra, inter) in sums.items():
        intra, inter = float(np.mean(intra)), float(np.mean(inter))
        found[name] = {"intra": intra, "inter": inter, "difference": intra - inter, "ratio": intra / inter}
    return found


def self_sim(table, rows):
    found = {}
    for layer in range(LAYERS + 1):
        cosines, pairs, means = 0.0, 0, []
        for number, row in enumerate(rows):
            vectors = states(table, number, len(row["ids"]), layer)
            n = len(vectors)
            own = [cosine(vectors[i], vectors[j]) for i in range(n) for j in range(i)]
            cosines, pairs = cosines + sum(own), pairs + len(own)
            means.append(np.mean(own))
        found[str(layer)] = {"pooled": cosines / pairs, "row_mean": float(np.mean(means))}
    return found


def align_uniform(table, pairs, kind):
    texts = [text for pair in pairs for text in pair]

    def vector(number):
        vectors = states(table, number, len(texts[number]), LAYERS)
        return vectors[0] if kind == "cls" else vectors[1:-1].mean(0)

    units = [vector(number) / np.linalg.norm(vector(number)) for number in range(len(texts))]
    alignment = np.mean([((units[2 * n] - units[2 * n + 1]) ** 2).sum() for n in range(len(pairs))])
    gaps = [((units[i] - units[j]) ** 2).sum() for i in range(len(units)) for j in range(i)]
    return {"alignment": float(alignment), "uniformity": float(np.log(np.mean(np.exp(-2 * np.array(gaps)))))}


def gradient(table, ids, mask):
    """Gradient of a mask, with an interaction of neighbors so that the additive law does not hold."""
    total = sum(table[(ids[at] + 11 * at) % len(table)] for at in mask)
    together = sum(1 for at in mask if at + 1 in mask)
    return total + 0.25 * together * table[0]


def grad_cov(table, rows, seed, ratio, k, masks, distances):
    n = len(rows[0]["ids"])
    tau = max(int(np.floor(ratio * n + 0.5)), 1)
    last = distances - 1
    grid = sorted({2 * ((at * tau + last // 2) // last) for at in range(distances)})
    per_row = []
    for number, row in enumerate(rows):
        dice = Dice(seed, f"masks of row {number}")
        grad = lambda mask: gradient(table, row["ids"], set(mask))
        bank_masks = [dice.subset(n, tau) for _ in range(masks)]
        bank = np.stack([grad(mask) for mask in bank_masks])
        gram = bank @ bank.T
        u = (gram.sum() - np.trace(gram)) / (masks * (masks - 1))
        independent = np.mean([(bank[at : at + k].mean(0) ** 2).sum() for at in range(0, masks, k)])
        disjoint = []
        for _ in range(masks // k):
            order = dice.shuffled(n, n)
            group = np.stack([grad(order[at * tau : (at + 1) * tau]) for at in range(k)])
            disjoint.append((group.mean(0) ** 2).sum())
        products = []
        for distance in grid:
            moves = distance // 2
            values = []
            for mask, own in zip(bank_masks, bank):
                if distance == 0:
                    values.append(own @ own)
                    continue
                kept = [mask[at] for at in dice.subset(tau, tau - moves)]
                outside = [at for at in range(n) if at not in mask]
                added = [outside[at] for at in dice.subset(len(outside), moves)]
                values.append(own @ grad(kept + added))
            products.append(np.mean(values))
        per_row.append((np.trace(gram) / masks, u, independent, np.mean(disjoint), np.array(products), bank.mean(0)))

    def estimates(chosen):
        square, u, independent, disjoint = (np.mean([per_row[r][at] for r in chosen]) for at in range(4))
        cross = np.mean([per_row[a][5] @ per_row[b][5] for a in chosen for b in chosen if a != b])
        c = np.mean([per_row[r][4][-1] for r in chosen]) - u
        v_m, v_x = square - u, u - cross
        return {
            "covariance of disjoint masks / v_m": c / v_m,
            "variance of disjoint / independent masks": (disjoint - u) / (independent - u),
            "equal rows, total variance": (v_m + (k - 1) * c + k * v_x) / (v_m + v_x),
            "-covariance of disjoint masks / v_x": -c / v_x,
        }

    everything = list(range(len(rows)))
    values = estimates(everything)
    folds = [estimates([r for r in everything if r != out]) for out in everything]
    count = len(rows)
    error = lambda name: float(np.sqrt(np.var([fold[name] for fold in folds]) * (count - 1)))
    return {name: {"value": float(value), "error": error(name)} for name, value in values.items()}


def main():
    random = np.random.default_rng(7)
    # Multiples of 1/512: sums of them are exact in float32, in which the program passes gradients on.
    table = np.round(random.normal(size=(37, 6)) * 512) / 512
    lengths = [5, 9, 3, 7, 1, 8]
    rows = [
        {"document": number // 2, "ids": [int(token) for token in random.integers(3, 40, size=length)]}
        for number, length in enumerate(lengths)
    ]
    pairs = [[[int(t) for t in random.integers(5, 40, size=random.integers(1, 6))] for _ in range(2)] for _ in range(6)]
    equal = [{"document": n, "ids": [int(t) for t in random.integers(5, 40, size=16)]} for n in range(5)]
    seed = 11
    golden = {
        "table": table.tolist(),
        "seed": seed,
        "rows": rows,
        "pairs": pairs,
        "equal_rows": equal,
        "context_score": context_score(table, rows, seed, False),
        "context_score_minus_embedding": context_score(table, rows, seed, True),
        "self_sim": self_sim(table, rows),
        "align_uniform_cls": align_uniform(table, pairs, "cls"),
        "align_uniform_mean": align_uniform(table, pairs, "mean"),
        "grad_cov": grad_cov(table, equal, seed, 0.25, 2, 8, 3),
    }
    text = json.dumps(golden, indent=1)
    GOLDEN.write_text(text + "\n")


if __name__ == "__main__":
    main()
