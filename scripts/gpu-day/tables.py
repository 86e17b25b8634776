"""Tables of the results: `results.md`, rebuilt after every item."""

import statistics

import presets
import speed
from ledger import Ledger
from machine import Machine

NOT_REAL = "no verdict: not a real device"
# Goals: speed relative to compiled Hugging Face, MFU, fraction of data wait, step ratio by FLOP ratio.
FASTER, MFU, WAIT, RATIO = 1.2, {"base": 0.50, "large": 0.55}, 0.005, 1.15


class Tables:
    """Formats the results; missing values are dashes."""

    def __init__(self, machine: Machine, ledger: Ledger, rounds: int):
        self.machine, self.ledger, self.rounds = machine, ledger, rounds

    def page(self) -> str:
        parts = [self.head(), self.verdicts(), self.tests(), self.compared(), self.proofs()]
        parts += [self.sizes(size) for size in presets.SIZES] + [self.switches(), self.loader(), self.troubles()]
        return "\n".join(parts)

    def head(self) -> str:
        facts = self.ledger.data("0 machine")
        lines = [f"# {facts.get('gpu') or 'A device: ' + self.machine.kind}", ""]
        lines += [f"- {key}: {value}" for key, value in facts.items() if key != "gpu"]
        if not self.machine.is_real:
            lines += ["", f"**Rehearsal on `{self.machine.kind}`: its times are not those of a GPU.**"]
        return "\n".join(lines) + "\n"

    # Values over all rounds.

    def median(self, contender: str, size: str, key: str) -> float | None:
        of_rounds = (self.ledger.data(f"4 round {number} {size} {contender}") for number in range(1, self.rounds + 1))
        found = [data[key] for data in of_rounds if data.get(key) is not None]
        return statistics.median(found) if found else None

    def times_plain(self, method: str, size: str) -> tuple[float | None, float | None]:
        """Time per token and operations of a method, relative to its plain run."""
        plain = presets.METHODS[method][2]
        if plain is None:
            return None, None
        rates = [self.median(one, size, "tokens_per_s") for one in (plain, method)]
        ratio = rates[0] / rates[1] if all(rates) else None
        return ratio, self.median(method, size, "flops_ratio")

    # Verdicts.

    def verdicts(self) -> str:
        rows = [["goal", "at", "measured", "verdict"]]
        for size in presets.SIZES:
            ours, theirs = (self.median(name, size, "tokens_per_s") for name in ("mlm", "hf compiled"))
            times = ours / theirs if ours and theirs else None
            rows.append([f"{FASTER} × Hugging Face compiled", size, _times(times), self.verdict(times, lambda it: it >= FASTER)])
        for size, goal in MFU.items():
            mfu = self.median("mlm", size, "mfu")
            rows.append([f"MFU of {100 * goal:.0f} %", size, _percent(mfu), self.verdict(mfu, lambda it, goal=goal: it >= goal)])
        for method, size in speed.FED:
            wait = self.ledger.data(f"4 loader {size} {method}").get("wait")
            found = self.verdict(wait, lambda it: it <= WAIT)
            rows.append([f"data wait of at most {100 * WAIT} %", f"{size} {method}", _percent(wait, 2), found])
        for size in presets.SIZES:
            for method in presets.METHODS:
                ratio, flops = self.times_plain(method, size)
                if presets.METHODS[method][2] is None:
                    continue
                quotient = ratio / flops if ratio and flops else None
                found = self.verdict(quotient, lambda it: it <= RATIO)
                rows.append([f"step ratio by FLOP ratio of at most {RATIO}", f"{size} {method}", _number(quotient, 2), found])
        return "## Verdicts\n\n" + _table(rows)

    def verdict(self, found: float | None, is_met) -> str:
        if not self.machine.is_real:
            return NOT_REAL
        if found is None:
            return "no verdict: not measured"
        return "**met**" if is_met(found) else "**MISSED**"

    # Stages.

    def tests(self) -> str:
        rows = [["test", "result", "seconds", "skipped parts"]]
        for name, line in self.of_stage("1 "):
            skipped = "; ".join(line["data"].get("skipped", [])) or "–"
            rows.append([f"`{name}`", line["status"], str(line["seconds"]), skipped])
        return "## 1. Tests on the device\n\n" + _table(rows)

    def compared(self) -> str:
        head = ["preset", "result", "loss on the CPU, first and last", "difference in float32", "difference in bfloat16", "note"]
        rows = [head]
        for name, line in self.of_stage("2 "):
            data = line["data"]
            cpu, apart = data.get("losses", {}).get("cpu", []), data.get("apart", {})
            ends = f"{cpu[0]:.4f} → {cpu[-1]:.4f}" if cpu else "–"
            note = "the device draws different random numbers" if data.get("draws") else ""
            rows.append([name, line["status"], ends, _small(apart.get("f32")), _small(apart.get("bf16")), note])
        return "## 2. The same presets on the CPU and on the device\n\n" + _table(rows)

    def proofs(self) -> str:
        rows = [["check", "result", "seconds", "data"]]
        for name, line in self.of_stage("3 "):
            found = ", ".join(f"{key}: {value}" for key, value in line["data"].items() if value) or "–"
            rows.append([name, line["status"], str(line["seconds"]), found])
        return "## 3. Dropout, determinism, resume\n\n" + _table(rows)

    def sizes(self, size: str) -> str:
        rows = [["", "rows × tokens", "ms per step", "quartiles", "tokens/s", "MFU", "memory", "planned memory", "× plain", "FLOP × plain",
                 "quotient"]]
        for name in [*presets.METHODS, *speed.RIVALS]:
            get = lambda key, name=name: self.median(name, size, key)
            first = self.ledger.data(f"4 round 1 {size} {name}")
            quartiles = first.get("step_ms_quartiles")
            ratio, flops = self.times_plain(name, size) if name in presets.METHODS else (None, None)
            peak = get("peak_bytes") or get("driver_bytes")
            shape = f"{first['global_batch_size']} × {first['width']}" if first else "–"
            rows.append([
                name, shape, _number(get("step_ms"), 1), f"{quartiles[0]:.1f}–{quartiles[1]:.1f}" if quartiles else "–",
                _count(get("tokens_per_s")), _percent(get("mfu")), _gigabytes(peak), _gigabytes(get("planned_bytes")),
                _number(ratio, 2), _number(flops, 2), _number(ratio / flops if ratio and flops else None, 2)])
        what = "Memory is the peak of the allocator if the program reports it, otherwise the peak of the driver."
        return f"## 4. Steps, {size}\n\n{what} Medians over {self.rounds} rounds.\n\n" + _table(rows)

    def switches(self) -> str:
        rows = [["mlm, base", "ms per step", "tokens/s", "× bfloat16"]]
        plain = self.median("mlm", "base", "tokens_per_s")
        for name in speed.SWITCHES:
            data = self.ledger.data(f"4 switch {name}")
            rate = data.get("tokens_per_s")
            rows.append([name, _number(data.get("step_ms"), 1), _count(rate), _times(rate / plain if rate and plain else None)])
        return "## 4. Switches\n\n" + _table(rows)

    def loader(self) -> str:
        rows = [["run", "tokens/s with the loader", "steps alone", "with ÷ alone", "maximum data wait", "memory"]]
        for method, size in speed.FED:
            data = self.ledger.data(f"4 loader {size} {method}")
            both = [data.get(key) for key in ("tokens_per_s", "alone_tokens_per_s")]
            share = both[0] / both[1] if all(both) else None
            wait, memory = _percent(data.get("wait"), 2), _gigabytes(data.get("peak_bytes") or data.get("driver_bytes"))
            rows.append([f"{size} {method}", _count(both[0]), _count(both[1]), _number(share, 3), wait, memory])
        return "## 4. With the loader and without\n\n" + _table(rows)

    def troubles(self) -> str:
        lines = ["## What did not pass", ""]
        for name, line in self.ledger.lines.items():
            if line["status"] == "skipped":
                lines.append(f"- skipped: {name}: {line['says']}")
            elif line["status"] != "passed":
                says = line["says"].replace("```", "'''")
                lines += [f"- **{line['status']}: {name}** after {line['seconds']} s", "", "```text", says, "```", ""]
        return "\n".join(lines if len(lines) > 2 else [*lines, "nothing"]) + "\n"

    def of_stage(self, start: str) -> list[tuple[str, dict]]:
        return [(name.removeprefix(start), line) for name, line in self.ledger.lines.items() if name.startswith(start)]


def _table(rows: list[list[str]]) -> str:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    cells.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _count(value: float | None) -> str:
    return _number(value, 0)


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} ×"


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def _small(value: float | None) -> str:
    return "–" if value is None else f"{value:.1e}"


def _gigabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e9:.2f} GB"
