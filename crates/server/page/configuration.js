// Configuration table. Keys that differ between runs are first, then keys that differ from their defaults.

const KEYS_MAX = 5000;
const AGAIN_MS = 10_000;
// Larger values mean that training ends by tokens or hours, not by steps.
const STEPS_MAX = 2 ** 40;

class Configuration {
  constructor() {
    Object.assign(this, { names: [], keys: new Map(), known: false, asked: -Infinity });
    this.find = make("input", {
      type: "search",
      id: "find-key",
      placeholder: "find a key or a value",
      "aria-label": "find a key or a value",
      on: { input: () => this.draw() },
    });
    this.all = make("input", { type: "checkbox", id: "all-keys", on: { change: () => this.draw() } });
    this.said = make("p", { class: "empty", role: "status" });
    this.head = make("thead");
    this.body = make("tbody");
    this.toml = make("pre", { class: "toml", tabindex: 0, "aria-label": "configuration file" });
    this.file = make(
      "details",
      { class: "file" },
      make("summary", { text: "the whole file as parsed" }),
      this.toml,
    );
    const table = make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "keys" },
      make("table", {}, this.head, this.body),
    );
    find("configuration-body").append(
      make(
        "div",
        { class: "toolbar" },
        this.find,
        make("label", { class: "field" }, this.all, make("span", { text: "show defaults" })),
      ),
      this.said,
      table,
      this.file,
    );
  }

  /** Fetches the configuration once the run is planned; before that it is not available. */
  async look(status) {
    if (this.known || !view.run || !status) return;
    find("configuration").hidden = false;
    if (status.phase === "start") {
      say(this.said, "The run is not planned yet; its configuration follows.");
      return;
    }
    if (performance.now() - this.asked < AGAIN_MS) return;
    this.asked = performance.now();
    const { name } = view.run;
    const answer = await get_slowly("/config");
    const is_there = answer.ok && Array.isArray(answer.json?.keys);
    if (!is_there) say(this.said, answer.words);
    else if (view.run?.name === name) this.take({ [name]: answer.json });
    this.known ||= is_there;
  }

  /** Discards the configuration, because another process may have a different one. */
  forget() {
    Object.assign(this, { known: false, asked: -Infinity });
  }

  /** Shows configurations; `configs` has `{keys, toml}` by run name. */
  take(configs) {
    this.names = Object.keys(configs);
    this.keys = new Map();
    for (const [name, config] of Object.entries(configs)) {
      for (const one of (config?.keys ?? []).slice(0, KEYS_MAX)) {
        if (!this.keys.has(one.key))
          this.keys.set(one.key, { key: String(one.key), default: one.default ?? null, changed: false, values: {} });
        const row = this.keys.get(one.key);
        row.values[name] = one.value ?? null;
        row.changed ||= Boolean(one.changed);
      }
    }
    for (const name of this.names) {
      const steps = Number(this.keys.get("train.steps")?.values[name] ?? NaN);
      if (steps > 0 && steps < STEPS_MAX) view.planned.set(name, steps);
    }
    redraw("head");
    const toml = this.names.length === 1 ? configs[this.names[0]]?.toml : null;
    this.file.hidden = !toml;
    this.toml.textContent = String(toml ?? "").replace(UNSEEN, (sign) =>
      sign === "\n" || sign === "\t" ? sign : printable(sign),
    );
    find("configuration").hidden = this.names.length === 0;
    this.draw();
  }

  draw() {
    const several = this.names.length > 1;
    const differs = (row) => several && new Set(this.names.map((name) => row.values[name] ?? null)).size > 1;
    const words = this.find.value.toLowerCase();
    const found = [...this.keys.values()].filter(
      (row) =>
        (this.all.checked || words || row.changed || differs(row)) &&
        [row.key, row.default, ...Object.values(row.values)].join(" ").toLowerCase().includes(words),
    );
    const rank = (row) => (differs(row) ? 0 : row.changed ? 1 : 2);
    found.sort((a, b) => rank(a) - rank(b));
    const cells = (tag, texts) =>
      texts.map((text) =>
        make(
          tag,
          tag === "th" ? { scope: "col", text } : {},
          tag === "td" ? make("bdi", { text: text ?? "absent" }) : null,
        ),
      );
    this.head.parentElement.classList.toggle("several", several);
    this.head.replaceChildren(
      make("tr", {}, ...cells("th", ["key", ...(several ? this.names : ["value"]), "default"])),
    );
    this.body.replaceChildren(
      ...found.map((row) =>
        make(
          "tr",
          { class: row.changed || differs(row) ? "changed" : null },
          make("th", { scope: "row" }, make("bdi", { text: row.key })),
          ...cells(
            "td",
            this.names.map((name) => row.values[name]),
          ),
          make("td", { class: "faint" }, make("bdi", { text: row.default ?? "none" })),
        ),
      ),
    );
    const changed = [...this.keys.values()].filter((row) => row.changed).length;
    say(
      this.said,
      found.length === 0
        ? words || this.keys.size === 0
          ? `No key ${words ? "matches" : "is known"}.`
          : "Every key has its default."
        : `${count(changed)} of ${count(this.keys.size)} keys differ from their defaults` +
            (several ? `; ${count([...this.keys.values()].filter(differs).length)} differ between the runs` : ""),
    );
  }
}
