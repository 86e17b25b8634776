// Result of a preparation: the values of its `prepare_end` event.

const STAGES = ["read", "tokenize", "pack", "write"];

class Prepared {
  constructor() {
    drawer("prepared", () => this.draw());
  }

  draw() {
    const end = view.run?.events.findLast((event) => event.kind === "prepare_end");
    find("prepared").hidden = !end;
    if (!end || this.drawn === end) return;
    this.drawn = end;
    const body = find("prepared-body");
    body.replaceChildren(
      make(
        "dl",
        { class: "figures" },
        ...figures(end).map(([name, value, more]) =>
          make(
            "div",
            {},
            make("dt", { text: name }),
            make("dd", { text: value }),
            more ? make("dd", { class: "faint", text: more }) : null,
          ),
        ),
      ),
      stages(end),
      rejected(end),
      ...(end.warnings ?? []).map((text) => make("p", { class: "warned", text })),
    );
  }
}

function figures(end) {
  const ratio = (a, b) => (Number.isFinite(a) && b > 0 ? a / b : NaN);
  const room = ratio(end.tokens_capacity - end.stored_tokens, end.tokens_capacity);
  return [
    ["documents", count(end.documents), `${bytes(end.text_bytes)} of text`],
    [
      "tokens",
      short(end.tokens),
      `${figure(ratio(end.tokens, end.words))} per word, ${percent(ratio(end.unknown, end.tokens))} unknown`,
    ],
    ["samples", short(end.samples), `${end.pack}, ${percent(room)} padding`],
    ["training", short(end.train?.samples), `${short(end.train?.tokens)} tokens`],
    ["validation", short(end.valid?.samples), `${short(end.valid?.tokens)} tokens`],
    ["shards", bytes(end.shard_bytes), `${figure(ratio(end.shard_bytes, end.stored_tokens))} bytes per token`],
    ["parts", count(end.parts_made), `${count(end.parts_kept)} reused`],
    ["cut", count(end.cut_documents), `documents; ${short(end.cut_tokens)} tokens in no sample`],
    ["dataset_version", count(end.dataset_version), end.change ?? ""],
    [
      "time",
      duration(number(end.seconds)),
      `${bytes(ratio(end.text_bytes_made, number(end.seconds)))} of text per second`,
    ],
  ];
}

/** Time of the workers per stage. */
function stages(end) {
  const seconds = STAGES.map((stage) => [stage, number(end.stages?.[stage]) ?? 0]);
  const all = seconds.reduce((sum, [, one]) => sum + one, 0);
  if (all <= 0) return make("p");
  const shares = seconds.map(([, one], n) => [`stage-${n}`, one / all]);
  const words = seconds.map(([stage, one]) => `${stage} ${percent(one / all)}`).join(", ");
  return make(
    "div",
    { class: "stages" },
    make("h3", { text: "time of the workers" }),
    meter(shares, words),
    make(
      "ul",
      { class: "stage-legend" },
      ...seconds.map(([stage, one], n) =>
        make(
          "li",
          {},
          make("span", { class: `chip-of stage-${n}` }),
          make("span", { text: `${stage} ${percent(one / all)}, ${duration(one)}` }),
        ),
      ),
    ),
  );
}

function rejected(end) {
  const reasons = Object.entries(end.rejected ?? {})
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  if (reasons.length === 0) return make("p", { class: "faint", text: "No line and no document was rejected." });
  return make(
    "table",
    {},
    make("caption", { text: "rejected or repaired" }),
    make(
      "tbody",
      {},
      ...reasons
        .slice(0, 50)
        .map(([why, n]) =>
          make("tr", {}, make("th", { scope: "row" }, make("bdi", { text: why })), make("td", { text: count(n) })),
        ),
    ),
  );
}
