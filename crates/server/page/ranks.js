// Table of the ranks of a run: times since the report before the newest one. The slowest rank waits least for the others.

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
    const waits = ranks.map((rank) => number(rank.rank_wait) ?? Infinity);
    const slowest = waits.indexOf(waits.reduce((least, wait) => Math.min(least, wait), Infinity));
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
