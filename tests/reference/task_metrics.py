"""Writes tests/golden/task_metrics.json: metrics of synthetic predictions, computed by scikit-learn, SciPy and seqeval,
and for answers by the rules of SQuAD's evaluation scripts, restated below.

    python -m venv venv && venv/bin/pip install scikit-learn scipy seqeval    # 1.9.1, 1.17.1, 1.2.2
    venv/bin/python tests/reference/task_metrics.py             # writes the file; only needed when a case is added
    venv/bin/python tests/reference/task_metrics.py --check     # also compares the rules with transformers and torchmetrics

`--check` needs transformers 4 (5 has no `squad_metrics`) or torchmetrics, and names the one that is missing.
The suite reads the numbers without Python (crates/tasks/tests/golden.rs).
"""

import collections
import json
import math
import pathlib
import random
import re
import string
import sys
import warnings

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "task_metrics.json"
dice = random.Random(20)


# Rules of SQuAD 1.1 and 2.0.

def normalize(text):
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def token_f1(version, gold, predicted):
    gold, predicted = normalize(gold).split(), normalize(predicted).split()
    if version == 2 and not (gold and predicted):
        return float(gold == predicted)
    same = sum((collections.Counter(gold) & collections.Counter(predicted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def score(version, golds, predicted):
    if version == 2:
        golds = [gold for gold in golds if normalize(gold)] or [""]
    exact = max(float(normalize(gold) == normalize(predicted)) for gold in golds)
    return exact, max(token_f1(version, gold, predicted) for gold in golds)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def totals_v1(questions):
    scores = [(0.0, 0.0) if it["predicted"] is None else score(1, it["golds"], it["predicted"]) for it in questions]
    return {"questions": len(scores), "exact": mean(exact for exact, _ in scores), "f1": mean(f1 for _, f1 in scores)}


def best(questions, scores, metric):
    current = best_sum = sum(not it["golds"] for it in questions)
    threshold = 0.0
    for place in sorted(range(len(questions)), key=lambda place: questions[place]["no_answer"]):
        it = questions[place]
        current += scores[place][metric] if it["golds"] else (-1 if it["predicted"] else 0)
        if current > best_sum:
            best_sum, threshold = current, it["no_answer"]
    return {"value": best_sum / len(questions), "threshold": threshold}


def totals_v2(questions, threshold):
    questions = [it for it in questions if it["predicted"] is not None]
    raw = [score(2, it["golds"], it["predicted"]) for it in questions]
    final = [
        (float(not it["golds"]),) * 2 if it["no_answer"] > threshold else scores for it, scores in zip(questions, raw)
    ]
    report = {}
    for name, wanted in [("all", None), ("answerable", True), ("unanswerable", False)]:
        kept = [scores for it, scores in zip(questions, final) if wanted is None or bool(it["golds"]) == wanted]
        report[name] = {
            "questions": len(kept), "exact": mean(exact for exact, _ in kept), "f1": mean(f1 for _, f1 in kept),
        }
    return report | {"best_exact": best(questions, raw, 0), "best_f1": best(questions, raw, 1)}


# Synthetic answers: words that normalization, tokens or Unicode treat in a special way.

WORDS = """the The THE a A an An the. a. (the) the-mill a_b an_ mill miller Miller's o'clock 1,969 1969 $5.50 50% 3rd
rd. U.S. us e.g. eg x-ray xray “mill” ‘a’ „the“ «an» mill—harbour harbour – — … ß STRASSE straße İzmir ΟΔΟΣ οδος ﬁn
the\u0301 thé a\u0e47 the\u0e34 क\u093e the\u093e Ⓐ ⓐ a² the² ½ a½ 東京 東京のa 中the ａ ｔｈｅ a\u200db \u200bthe the\u00a0mill
an\u1680old a\u001fold the\u001cmill \u2003 🙂 the🙂 a+b the=mill ~ _ __ a/b and ab thea athe ana there than 12 1.2.3 ١٢ the١ Ⅷ ⅷ
no yes none N/A null""".replace("\n", " ").split(" ")
PLAIN = "harbour orchard station old young sailor bread evening rain over under library Monday two buckets".split()


def phrase(most=5):
    return " ".join(dice.choice(WORDS if dice.random() < 0.5 else PLAIN) for _ in range(dice.randint(1, most)))


def noisy(text):
    words = text.split(" ")
    kind = dice.randrange(6)
    if kind == 0:
        return "  The " + text.upper() + " !"
    if kind == 1:
        return " ".join(words[1:])
    if kind == 2:
        return text + " " + phrase(2)
    if kind == 3:
        return " ".join(reversed(words + words[:1]))
    return text if kind == 4 else "“" + text + "”,"


def question(number):
    is_answerable = dice.random() < 0.7
    golds = [phrase() for _ in range(dice.randint(1, 4))] if is_answerable else []
    if is_answerable and dice.random() < 0.1:
        golds[0] = dice.choice(["the", "", "...", "a the", "\u2003"])
    draw = dice.random()
    if draw < 0.55 and golds:
        predicted = noisy(dice.choice(golds))
    elif draw < 0.8:
        predicted = dice.choice(["", "", "the", " ", "!?", phrase(), phrase(3)])
    else:
        predicted = phrase() if draw < 0.97 else None
    # Few different values, so that some are tied.
    return {"golds": golds, "predicted": predicted, "no_answer": dice.choice([0.0, 0.125, 0.25, 0.5, 0.5, 0.75, 1.0, -3.5])}


def answers():
    questions = [question(number) for number in range(300)]
    questions += [
        {"golds": ["the"], "predicted": "a", "no_answer": 0.0},
        {"golds": ["", "mill"], "predicted": "", "no_answer": 0.5},
        {"golds": [""], "predicted": "", "no_answer": 0.5},
        {"golds": [], "predicted": "", "no_answer": 1.0},
        {"golds": [], "predicted": "the", "no_answer": 0.25},
        {"golds": [], "predicted": None, "no_answer": 0.0},
        {"golds": ["a a a b"], "predicted": "b b a c", "no_answer": 0.0},
    ]
    each = []
    for it in questions:
        if it["predicted"] is not None:
            v1 = score(1, it["golds"], it["predicted"]) if it["golds"] else None
            each.append({"normalized": normalize(it["predicted"]), "v1": v1, "v2": score(2, it["golds"], it["predicted"])})
        else:
            each.append(None)
    everything = range(len(questions))
    answerable = [place for place in everything if questions[place]["golds"]]
    unanswerable = [place for place in everything if not questions[place]["golds"]]
    sets = [list(everything), list(range(40)), answerable, unanswerable, [0]]
    return {
        "questions": questions,
        "each": each,
        "v1": totals_v1([questions[place] for place in answerable]),
        "v2": [
            {"places": places, "threshold": threshold, **totals_v2([questions[place] for place in places], threshold)}
            for places in sets
            for threshold in [None, 0.0, 0.5]
            for threshold in [math.inf if threshold is None else threshold]
        ],
    }


# Classes, scores and entities.

def class_case(classes, gold, predicted):
    from sklearn import metrics

    case = {"classes": classes, "gold": gold, "predicted": predicted, "accuracy": metrics.accuracy_score(gold, predicted),
            "matthews": float(metrics.matthews_corrcoef(gold, predicted))}
    names = ["macro", "micro", "weighted"] + (["binary"] if classes == 2 else [])
    for name in names:
        values = metrics.precision_recall_fscore_support(gold, predicted, average=name, zero_division=0)
        case[name] = [float(value) for value in values[:3]]
    everything = metrics.precision_recall_fscore_support(
        gold, predicted, labels=list(range(classes)), average="macro", zero_division=0)
    case["macro_all"] = [float(value) for value in everything[:3]]
    return case


def class_cases():
    draw = lambda classes, count: [dice.randrange(classes) for _ in range(count)]
    cases = [class_case(classes, draw(classes, count), draw(classes, count))
             for classes, count in [(2, 1), (2, 7), (2, 200), (3, 5), (3, 100), (6, 139), (7, 50), (13, 20)]]
    cases += [
        class_case(2, [0] * 9, [0] * 9), class_case(2, [1] * 9, [1] * 9), class_case(2, [0] * 9, [1] * 9),
        class_case(2, [1] * 9, [0] * 9), class_case(2, [0, 1] * 5, [0] * 10), class_case(2, [0, 1] * 5, [1] * 10),
        class_case(2, [1] * 10, [0, 1] * 5), class_case(2, [0, 1] * 5, [1, 0] * 5),
        class_case(3, [0, 0, 1, 1], [0, 0, 1, 2]), class_case(4, [2] * 6, [2, 2, 3, 3, 0, 2]),
        class_case(2, [0] * 4000 + [1] * 3, [0] * 3999 + [1] * 3 + [0]),
    ]
    return cases


def number(value):
    return float(value) if math.isfinite(value) else None


def score_case(gold, predicted):
    from scipy import stats
    from sklearn import metrics

    if len(gold) < 2:
        pearson = spearman = math.nan  # SciPy refuses fewer than two values.
    else:
        pearson, spearman = stats.pearsonr(gold, predicted).statistic, stats.spearmanr(gold, predicted).statistic
    return {"gold": gold, "predicted": predicted, "pearson": number(pearson), "spearman": number(spearman),
            "mean_squared_error": number(metrics.mean_squared_error(gold, predicted))}


def score_cases():
    uniform = lambda count: [round(dice.uniform(0, 5), 3) for _ in range(count)]
    tied = lambda count: [float(dice.randrange(6)) for _ in range(count)]
    return [
        score_case(uniform(200), uniform(200)), score_case(tied(200), tied(200)), score_case(tied(50), uniform(50)),
        score_case([1.0, 2.0], [5.0, 3.0]), score_case([1.0], [2.0]), score_case([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]),
        score_case([2.0] * 4, [1.0, 2.0, 3.0, 4.0]), score_case([2.0] * 4, [2.0] * 4),
        score_case([1.0, 2.0, 3.0, 4.0], [1e6 + 1, 1e6 + 2, 1e6 + 4, 1e6 + 3]), score_case([0.0, -0.0, 1.0], [1.0, 2.0, 3.0]),
        score_case([1e-9, 2e-9, 4e-9], [1.0, 3.0, 2.0]), score_case([1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 1.0, 1.0]),
    ]


LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-PER", "S-LOC", "I-X-Y", "B", "I", "."]


def entity_case(gold, predicted):
    from seqeval import metrics
    from seqeval.metrics.sequence_labeling import get_entities

    found = [[[kind, first, last] for kind, first, last in get_entities(list(sentence))] for sentence in predicted]
    scores = [metrics.precision_score, metrics.recall_score, metrics.f1_score]
    return {"gold": gold, "predicted": predicted, "entities": found,
            "scores": [float(score(gold, predicted, zero_division=0)) for score in scores]}


def entity_cases():
    def sentences(labels, count, longest):
        return [[dice.choice(labels) for _ in range(dice.randint(1, longest))] for _ in range(count)]

    def changed(gold, labels):
        return [[dice.choice(labels) if dice.random() < 0.2 else label for label in sentence] for sentence in gold]

    cases = []
    for labels, count, longest in [(LABELS[:5], 60, 12), (LABELS, 80, 9), (LABELS[:2], 20, 5), (["O", "I-A", "I-B"], 30, 6)]:
        gold = sentences(labels, count, longest)
        cases.append(entity_case(gold, changed(gold, labels)))
    return cases + [
        entity_case([["O", "O"]], [["O", "O"]]), entity_case([["O", "O"]], [["B-A", "I-A"]]),
        entity_case([["B-A", "I-A"]], [["O", "O"]]), entity_case([["B-A", "B-A"], ["O"]], [["B-A", "I-A"], ["B-A"]]),
    ]


# Comparison of the rules with independent implementations.

def check(data):
    questions, missing = data["questions"], []
    try:
        from transformers.data.metrics import squad_metrics
    except ImportError:
        missing.append("transformers.data.metrics.squad_metrics")
    else:
        class Example:
            def __init__(self, number, golds):
                self.qas_id, self.answers = str(number), [{"text": gold} for gold in golds]

        for case in data["v2"]:
            chosen = [place for place in case["places"] if questions[place]["predicted"] is not None]
            examples = [Example(place, questions[place]["golds"]) for place in chosen]
            predictions = {str(place): questions[place]["predicted"] for place in chosen}
            evidence = {str(place): questions[place]["no_answer"] for place in chosen}
            got = squad_metrics.squad_evaluate(examples, predictions, evidence, case["threshold"])
            close(got["exact"], case["all"]["exact"]), close(got["f1"], case["all"]["f1"])
            close(got["best_exact"], case["best_exact"]["value"]), close(got["best_f1"], case["best_f1"]["value"])
            assert got["best_exact_thresh"] == case["best_exact"]["threshold"]
            assert got["best_f1_thresh"] == case["best_f1"]["threshold"]
            for name, prefix in [("answerable", "HasAns"), ("unanswerable", "NoAns")]:
                if case[name]["questions"]:
                    close(got[f"{prefix}_exact"], case[name]["exact"]), close(got[f"{prefix}_f1"], case[name]["f1"])
                    assert got[f"{prefix}_total"] == case[name]["questions"]
        print(f"{len(data['v2'])} reports equal those of transformers")
    try:
        from torchmetrics.functional.text.squad import squad
    except ImportError:
        missing.append("torchmetrics")
    else:
        # For an answer without tokens, torchmetrics has the rule of version 2.
        chosen = [(place, it) for place, it in enumerate(questions) if it["golds"] and normalize(it["predicted"] or "")]
        predictions = [{"prediction_text": it["predicted"], "id": str(place)} for place, it in chosen]
        starts = lambda it: [0] * len(it["golds"])
        golds = [{"answers": {"text": it["golds"], "answer_start": starts(it)}, "id": str(place)} for place, it in chosen]
        got = squad(predictions, golds)
        own = totals_v1([it for _, it in chosen])
        close(float(got["exact_match"]), own["exact"], 1e-4), close(float(got["f1"]), own["f1"], 1e-4)
        print(f"{len(chosen)} answers of version 1.1 equal those of torchmetrics")
    for name in missing:
        print(f"not installed: {name}")


def close(percent, fraction, tolerance=1e-9):
    assert abs(percent - 100 * fraction) < tolerance * 100, (percent, fraction)


def finite(value):
    """JSON has no infinity: a threshold without bound is null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def main():
    warnings.simplefilter("ignore")
    data = answers()
    if "--check" in sys.argv:
        check(data)
        return
    cases = {
        "command": "python tests/reference/task_metrics.py",
        "answers": data, "classes": class_cases(), "scores": score_cases(), "entities": entity_cases(),
    }
    GOLDEN.write_text(json.dumps(finite(cases), ensure_ascii=True, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    main()
