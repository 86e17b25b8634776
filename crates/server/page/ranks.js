// Table of the ranks of a run: times since the report before the newest one. A slow rank waits least for the others.

const RANK_COLUMNS = ["rank", "host", "step", "waits for batches", "waits for slower ranks", "memory", ""];

class Ranks {
  constructor() {
    drawer("ranks", () => this.draw());
  }

  draw() {
    const ranks = view.run?.ranks ?? [];
    find("ranks").hidden = ranks.length === 0;
    say(find("ranks-of"), view.several ? `of ${brief(view.run?.name ?? "", 80)}` : "");
    if (this.drawn === ranks) return;
    this.drawn = ranks;
    const slowest = straggler(ranks.map((rank) => number(rank.rank_wait) ?? NaN));
    find("ranks-body").replaceChildren(
      make(
        "table",
        {},
        make("thead", {}, make("tr", {}, ...RANK_COLUMNS.map((text) => make("th", { scope: "col", text })))),
        make("tbody", {}, ...ranks.map((rank, at) => rank_row(rank, at === slowest))),
      ),
    );
  }
}

// Place of the rank for which the others wait on average at least a tenth of the time longer than it does; -1: none.
function straggler(waits) {
  const least = Math.min(...waits);
  const others = (waits.reduce((sum, wait) => sum + wait, 0) - least) / (waits.length - 1);
  return others - least > 0.1 ? waits.indexOf(least) : -1;
}

function rank_row(rank, is_slowest) {
  const cells = [
    milliseconds(number(rank.step_s)),
    percent(number(rank.data_wait)),
    percent(number(rank.rank_wait)),
    bytes(rank.host_bytes),
    is_slowest ? "slowest" : "",
  ];
  return make(
    "tr",
    { class: is_slowest ? "slowest" : "" },
    make("th", { scope: "row", text: count(rank.rank) }),
    make("td", {}, make("bdi", { text: brief(rank.host ?? "", 64) })),
    ...cells.map((text) => make("td", { text })),
  );
}

function milliseconds(seconds) {
  return Number.isFinite(seconds) ? `${Number((seconds * 1000).toPrecision(3))} ms` : NOTHING;
}
