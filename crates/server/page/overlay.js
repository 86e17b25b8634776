// Comparison with other runs of the same folder over the same axes.

const OVERLAY_MS = 300_000;
const TRAINS = "training";
const OVERLAYS_MAX = 24;

class Overlay {
  constructor(live) {
    Object.assign(this, { live, names: [], words: "", asking: null, wanted: new Set() });
    this.said = make("p", { class: "empty", role: "status", hidden: true });
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
      { class: "picker", on: { toggle: () => this.open.open && this.opened() } },
      make("summary", { text: "compare with other runs" }),
      (this.sheet = make("div", { class: "sheet" }, this.find, this.box)),
    );
    addEventListener("resize", () => this.open.open && this.place());
    find("runs").append(this.list, this.said);
    if (live) find("runs").append(this.open);
    drawer("runs", () => this.draw());
    if (live) setInterval(() => document.hidden || this.refresh(), OVERLAY_MS);
  }

  async opened() {
    this.place();
    await this.ask();
    this.fill();
  }

  /** Places the sheet below its summary and within the window. */
  place() {
    const { left } = this.open.getBoundingClientRect();
    const room = document.documentElement.clientWidth - this.sheet.offsetWidth - 16;
    this.sheet.style.left = `${Math.min(0, Math.max(16, room) - left)}px`;
  }

  /** Fetches the list of runs of the same folder. Concurrent calls share one request. */
  ask() {
    this.asking ??= get_slowly("/runs").then((answer) => {
      this.asking = null;
      this.words = answer.ok ? "" : answer.words;
      if (answer.ok) this.names = (answer.json?.runs ?? []).filter((run) => run.name !== view.run?.name);
    });
    return this.asking;
  }

  state_of(name) {
    return this.names.find((run) => run.name === name)?.state;
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
        box.checked = this.wanted.has(run.name);
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
    const words_now = this.words || (found.length === 0 ? "There is no other run in this folder." : "");
    if (words_now) this.box.prepend(make("p", { class: "empty", role: "status", text: words_now }));
  }

  async choose(name, chosen) {
    if (!chosen) this.drop(name);
    else if (this.wanted.size < OVERLAYS_MAX) await this.fetch(name);
    compared();
  }

  drop(name) {
    this.wanted.delete(name);
    view.runs = view.runs.filter((run, n) => n === 0 || run.name !== name);
    compared();
  }

  /** Shows exactly the runs that an address names. */
  async show(names) {
    for (const run of view.runs.slice(1)) if (!names.includes(run.name)) this.drop(run.name);
    for (const name of names.slice(0, OVERLAYS_MAX)) {
      if (name !== view.run?.name && !this.wanted.has(name)) await this.choose(name, true);
    }
  }

  async fetch(name) {
    this.wanted.add(name);
    this.tell(`loading ${name}…`);
    const answer = await get_slowly(`/history?run=${encodeURIComponent(name)}`);
    this.tell(answer.ok ? "" : `${name}: ${answer.words}`);
    const old = view.runs.findIndex((run, n) => n > 0 && run.name === name);
    if (!answer.ok) {
      if (old < 0) this.wanted.delete(name);
      if (this.open.open) this.fill();
      return;
    }
    // The run was removed while it was loading.
    if (!this.wanted.has(name)) return;
    const run = Run.read({ ...answer.json, name });
    // A run without a known state may be training.
    run.state = this.state_of(name) ?? TRAINS;
    if (old > 0) view.runs[old] = Object.assign(run, { colour: view.runs[old].colour, away: view.runs[old].away });
    else view.runs.push(Object.assign(run, { colour: free_colour() }));
  }

  tell(words) {
    this.said.hidden = words === "";
    say(this.said, words);
  }

  /** Reloads runs that are training, and once more the runs that were training at the last refresh. */
  async refresh() {
    const training = () => view.runs.slice(1).filter((run) => !run.away && run.state === TRAINS);
    if (view.several) await this.ask();
    for (const run of view.runs.slice(1)) if (this.state_of(run.name) === TRAINS) run.state = TRAINS;
    for (const run of training()) await this.fetch(run.name);
    if (view.several) data_came();
  }

  /** Draws a chip for each run, which shows, hides or removes it. */
  draw() {
    const key = view.runs.map((run) => `${run.name}${run.colour}${run.away}`).join("|");
    this.list.hidden = !view.several;
    // A preparation has no comparison.
    this.open.hidden = view.run?.kind === "prepare";
    if (this.key === key) return;
    this.key = key;
    this.list.replaceChildren(
      ...view.runs.map((run, n) => {
        const toggle = () => {
          // Looked up by name, because a training run is reloaded periodically.
          const here = view.runs.find((other) => other.name === run.name);
          here.away = !here.away;
          compared();
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
                "aria-label": `remove ${printable(run.name)}`,
                on: { click: () => this.drop(run.name) },
              })
            : null;
        return make("span", { class: "run" }, chip, away);
      }),
    );
  }
}

/** Redraws everything that depends on the set of visible runs. */
function compared() {
  redraw("runs", "groups", "plots", "timeline", "happened", "head", "toolbar", "address");
}

function free_colour() {
  const taken = new Set(view.runs.map((run) => run.colour));
  let n = 0;
  while (taken.has(n)) n += 1;
  return n;
}
