// Other runs beside this one, over the same axes.

const OVERLAY_MS = 60_000;
const OVERLAYS_MAX = 24;

class Overlay {
  constructor(live) {
    Object.assign(this, { live, names: [], words: "" });
    this.list = make("div", { class: "chips", role: "group", "aria-label": "runs that are shown" });
    this.find = make("input", {
      type: "search",
      placeholder: "find a run",
      "aria-label": "find a run",
      on: { input: () => this.fill() },
    });
    this.box = make("div", { class: "picks" });
    this.open = make(
      "details",
      { class: "picker", on: { toggle: () => this.open.open && this.ask() } },
      make("summary", { text: "compare with other runs" }),
      make("div", { class: "sheet" }, this.find, this.box),
    );
    find("runs").append(this.list);
    if (live) find("runs").append(this.open);
    drawer("runs", () => this.draw());
    if (live) setInterval(() => document.hidden || this.refresh(), OVERLAY_MS);
  }

  async ask() {
    const answer = await get_json("/runs");
    this.words = answer.ok ? "" : answer.words;
    this.names = (answer.json?.runs ?? []).filter((run) => run.name !== view.run?.name);
    this.fill();
  }

  fill() {
    const words = this.find.value.toLowerCase();
    const found = this.names.filter((run) => String(run.name).toLowerCase().includes(words)).slice(0, 100);
    this.box.replaceChildren(
      ...found.map((run) => {
        const box = make("input", {
          type: "checkbox",
          on: { change: (event) => this.choose(run.name, event.target.checked) },
        });
        box.checked = view.runs.some((shown) => shown.name === run.name);
        const state = [Number.isFinite(run.step) ? `step ${count(run.step)}` : "", run.state ?? ""]
          .filter(Boolean)
          .join(", ");
        return make(
          "label",
          { class: "pick" },
          box,
          make("bdi", { text: run.name }),
          make("span", { class: "faint", text: state }),
        );
      }),
    );
    const words_now = this.words || (found.length === 0 ? "No other run lies beside this one." : "");
    if (words_now) this.box.prepend(make("p", { class: "empty", role: "status", text: words_now }));
  }

  async choose(name, chosen) {
    if (!chosen) this.drop(name);
    else if (view.runs.length < OVERLAYS_MAX) await this.fetch(name);
    redraw("runs", "groups", "plots", "timeline");
  }

  drop(name) {
    view.runs = view.runs.filter((run, n) => n === 0 || run.name !== name);
    redraw("runs", "plots", "timeline");
  }

  async fetch(name) {
    const answer = await get_json(`/history?run=${encodeURIComponent(name)}`);
    if (!answer.ok) {
      this.words = `${name}: ${answer.words}`;
      this.fill();
      return;
    }
    const old = view.runs.findIndex((run, n) => n > 0 && run.name === name);
    const run = Run.read({ ...answer.json, name });
    if (old > 0) view.runs[old] = Object.assign(run, { colour: view.runs[old].colour, away: view.runs[old].away });
    else view.runs.push(Object.assign(run, { colour: free_colour() }));
  }

  async refresh() {
    for (const run of view.runs.slice(1)) if (!run.away) await this.fetch(run.name);
    if (view.runs.length > 1) data_came();
  }

  /** A chip for each run: shown, hidden, or taken away. */
  draw() {
    const key = view.runs.map((run) => `${run.name}${run.colour}${run.away}`).join("|");
    this.list.hidden = view.runs.length < 2;
    if (this.key === key) return;
    this.key = key;
    this.list.replaceChildren(
      ...view.runs.map((run, n) => {
        const toggle = () => {
          run.away = !run.away;
          redraw("runs", "groups", "plots", "timeline");
        };
        const chip = make(
          "button",
          { type: "button", class: "chip", "aria-pressed": String(!run.away), on: { click: toggle } },
          swatch(pen(run.colour)),
          make("bdi", { text: run.name }),
        );
        const away =
          n > 0 && this.live
            ? make("button", {
                type: "button",
                class: "quiet",
                text: "×",
                "aria-label": `take ${printable(run.name)} away`,
                on: { click: () => this.drop(run.name) },
              })
            : null;
        return make("span", { class: "run" }, chip, away);
      }),
    );
  }
}

function free_colour() {
  const taken = new Set(view.runs.map((run) => run.colour));
  let n = 0;
  while (taken.has(n)) n += 1;
  return n;
}
