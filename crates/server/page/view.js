// How the page looks at what it knows: which runs, over which axis, which part of it. All plots share it.

const AXES = {
  step: { label: "step", word: (value) => `step ${count(value)}` },
  tokens: { label: "tokens", word: (value) => `${short(value)} tokens` },
  hours: { label: "hours", word: (value) => duration(value * 3600) },
};

const view = {
  runs: [],
  axis: "step",
  smoothing: 0,
  cut: true,
  filter: "",
  status: null,
  status_time: null,
  /** Whether nobody answered the last time. */
  stale: false,
  /** The newest looks at the actors, the oldest first: what lies between two of them is what has just been. */
  looks: [],
  /** When a report was made; null of what is live. */
  made: null,
  /** Where the hand is: `{domain, x}`. */
  cursor: null,
  /** Kinds of events that are not shown. */
  hidden: new Set(),
  /** The part of an axis that is shown; null is its end, wherever that moves. A preparation has its own axis. */
  windows: { run: { from: null, to: null }, preparation: { from: null, to: null } },
  /** How many steps each run is to have, by its name, as its configuration says it. */
  planned: new Map(),

  /** The run that the page is about. */
  get run() {
    return this.runs[0] ?? null;
  },

  shown() {
    return this.runs.filter((run) => !run.away);
  },

  get several() {
    return this.runs.length > 1;
  },

  /** Where the points of a group stand. */
  places(columns, domain) {
    return columns.axes[this.axis_of(domain)];
  },

  /** A preparation has no steps: it lies over its hours. */
  axis_of(domain) {
    return domain === "preparation" ? "hours" : this.axis;
  },

  /** The round values of an axis, and how they are written. */
  ticks(domain, scale, most) {
    if (this.axis_of(domain) !== "hours") return scale.ticks(most).map((value) => [value, short_tick(value)]);
    const seconds = new Scale(scale.from * 3600, scale.to * 3600, 0, 1);
    return seconds.ticks(most, SECONDS).map((value) => [value / 3600, duration_tick(value)]);
  },

  word(domain, value) {
    return AXES[this.axis_of(domain)].word(value);
  },

  /** From the first point to the last of what is shown; null where there is none. */
  extent(domain) {
    let [first, last] = [Infinity, -Infinity];
    for (const run of this.shown()) {
      for (const name of domain === "preparation" ? ["preparation"] : ["reports", "validations"]) {
        const places = this.places(run.groups[name], domain);
        if (places.length > 0) [first, last] = [Math.min(first, places[0]), Math.max(last, places.at(-1))];
      }
    }
    if (first > last) return null;
    // One point alone lies in the middle of a step, or of a second.
    const half = this.axis_of(domain) === "hours" ? 0.5 / 3600 : 0.5;
    return first === last ? [Math.max(0, first - half), last + half] : [first, last];
  },

  window(domain) {
    const extent = this.extent(domain);
    const { from, to } = this.windows[domain];
    return extent && [from ?? extent[0], to ?? extent[1]];
  },

  zoomed(domain) {
    const { from, to } = this.windows[domain];
    return from !== null || to !== null;
  },

  /** Shows a part. One that reaches an end stays at it, however far the run goes. */
  zoom(domain, from, to) {
    const extent = this.extent(domain);
    if (!extent) return;
    const near = (extent[1] - extent[0]) * 0.004;
    const least = Math.max((extent[1] - extent[0]) * 1e-6, 1e-9);
    if (!(to - from > least)) return;
    this.windows[domain] = { from: from <= extent[0] + near ? null : from, to: to >= extent[1] - near ? null : to };
    redraw("plots", "timeline", "toolbar", "address");
  },

  /** The whole of it again. */
  whole(domain) {
    this.windows[domain] = { from: null, to: null };
    redraw("plots", "timeline", "toolbar", "address");
  },

  /** The same events over another axis: what is shown goes along. */
  turn(axis) {
    const { from, to } = this.windows.run;
    const columns = this.run?.groups.reports;
    const along = (value) =>
      value === null || !columns?.length ? null : between(columns.axes[this.axis], columns.axes[axis], value);
    this.windows.run = { from: along(from), to: along(to) };
    [this.axis, this.cursor] = [axis, null];
    kept.set("axis", axis);
    redraw("plots", "timeline", "toolbar", "address");
  },
};

// A browser lets a page change its address a few times a second at most.
const ADDRESS_MS = 300;

/**
 * What is shown stands in the address, behind its `#`: so it is there again when the page is loaded again, and it can be
 * sent to somebody: `#runs=b&axis=tokens&from=2e6`. What is not written there is as everybody has it.
 */
class Address {
  constructor(overlay, live) {
    Object.assign(this, { overlay, live, followed: false, timer: null });
    drawer("address", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.write(), ADDRESS_MS);
    });
    addEventListener("hashchange", () => this.read());
  }

  /** Once there is a run to look at; later only where somebody changes the address. */
  follow() {
    if (!this.followed) this.read();
    this.followed = true;
  }

  read() {
    const said = new URLSearchParams(location.hash.slice(1));
    // An address like `#curves` names a place on the page.
    if (!location.hash.includes("=")) return;
    const value = (name) => (said.has(name) && Number.isFinite(Number(said.get(name))) ? Number(said.get(name)) : null);
    if (Object.hasOwn(AXES, said.get("axis") ?? "")) view.axis = said.get("axis");
    view.smoothing = Math.min(0.99, Math.max(0, value("smoothing") ?? 0));
    view.windows.run = { from: value("from"), to: value("to") };
    const away = new Set(said.getAll("hide"));
    for (const run of view.runs) run.away = away.has(run.name);
    if (this.live) this.overlay.show(said.getAll("runs"));
    redraw("runs", "groups", "plots", "timeline", "happened", "head", "toolbar");
  }

  write() {
    if (!this.followed) return;
    const said = new URLSearchParams();
    if (this.live) for (const name of this.overlay.wanted) said.append("runs", name);
    for (const run of view.runs) if (run.away) said.append("hide", run.name);
    const { from, to } = view.windows.run;
    const figures = { axis: view.axis === "step" ? null : view.axis, smoothing: view.smoothing || null, from, to };
    for (const [name, value] of Object.entries(figures)) if (value !== null) said.set(name, value);
    const words = said.toString();
    // A place on the page that the address named goes once there is something to say.
    if (words === location.hash.slice(1) || (!words && !location.hash.includes("="))) return;
    history.replaceState(null, "", words ? `#${words}` : location.pathname + location.search);
  }
}

// What has to be drawn again, once a frame at most; what comes with the data, a few times a second.
const DRAWERS = new Map();
const DATA_MS = 200;
const waiting = new Set();
let frame = null;
let data_timer = null;

function drawer(name, draws) {
  DRAWERS.set(name, draws);
}

function redraw(...names) {
  for (const name of names) waiting.add(name);
  // A page behind others is drawn when somebody looks. But its title is what one looks at meanwhile.
  if (document.hidden && waiting.delete("head")) DRAWERS.get("head")?.();
  frame ??= requestAnimationFrame(() => {
    frame = null;
    const names = [...waiting];
    waiting.clear();
    for (const name of names) DRAWERS.get(name)?.();
  });
}

/** Something was said: all that shows data follows, soon. */
function data_came() {
  data_timer ??= setTimeout(() => {
    data_timer = null;
    redraw("toolbar", "groups", "plots", "timeline", "happened", "head", "prepared", "runs");
  }, DATA_MS);
}
