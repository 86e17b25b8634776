// View state that all plots share: visible runs, axis and visible range.

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
  /** Whether the last status request failed. */
  stale: false,
  /** Newest snapshots of the workers, oldest first. The difference of two snapshots is the recent activity. */
  looks: [],
  /** Time at which a report was written; null for a live page. */
  made: null,
  /** Position of the cursor: `{domain, x}`. */
  cursor: null,
  /** Hidden kinds of events. */
  hidden: new Set(),
  /** Visible range of each axis; null means its end, which may move. A preparation has a separate axis. */
  windows: { run: { from: null, to: null }, preparation: { from: null, to: null } },
  /** Planned steps of each run by name, from its configuration. */
  planned: new Map(),

  /** Main run of the page. */
  get run() {
    return this.runs[0] ?? null;
  },

  shown() {
    return this.runs.filter((run) => !run.away);
  },

  get several() {
    return this.runs.length > 1;
  },

  /** Axis positions of the points of a group. */
  places(columns, domain) {
    return columns.axes[this.axis_of(domain)];
  },

  /** Axis of a domain. A preparation has no steps, so its axis is hours. */
  axis_of(domain) {
    return domain === "preparation" ? "hours" : this.axis;
  },

  /** Ticks of an axis: pairs of value and label. */
  ticks(domain, scale, most) {
    if (this.axis_of(domain) !== "hours") return scale.ticks(most).map((value) => [value, short_tick(value)]);
    const seconds = new Scale(scale.from * 3600, scale.to * 3600, 0, 1);
    return seconds.ticks(most, SECONDS).map((value) => [value / 3600, duration_tick(value)]);
  },

  word(domain, value) {
    return AXES[this.axis_of(domain)].word(value);
  },

  /** Range from the first to the last visible point; null if there are none. */
  extent(domain) {
    let [first, last] = [Infinity, -Infinity];
    for (const run of this.shown()) {
      for (const name of domain === "preparation" ? ["preparation"] : ["reports", "validations"]) {
        const places = this.places(run.groups[name], domain);
        if (places.length > 0) [first, last] = [Math.min(first, places[0]), Math.max(last, places.at(-1))];
      }
    }
    if (first > last) return null;
    // A single point is centred in a range of one step or one second.
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

  /** Shows a range. A range that reaches an end stays at the end while the run continues. */
  zoom(domain, from, to) {
    const extent = this.extent(domain);
    if (!extent) return;
    const near = (extent[1] - extent[0]) * 0.004;
    const least = Math.max((extent[1] - extent[0]) * 1e-6, 1e-9);
    if (!(to - from > least)) return;
    this.windows[domain] = { from: from <= extent[0] + near ? null : from, to: to >= extent[1] - near ? null : to };
    redraw("plots", "timeline", "toolbar", "address");
  },

  /** Shows the whole range. */
  whole(domain) {
    this.windows[domain] = { from: null, to: null };
    redraw("plots", "timeline", "toolbar", "address");
  },

  /** Changes the axis and converts the visible range. */
  turn(axis) {
    const { from, to } = this.windows.run;
    const columns = this.run?.groups.reports;
    const convert = (value) =>
      value === null || !columns?.length ? null : between(columns.axes[this.axis], columns.axes[axis], value);
    this.windows.run = { from: convert(from), to: convert(to) };
    [this.axis, this.cursor] = [axis, null];
    kept.set("axis", axis);
    redraw("plots", "timeline", "toolbar", "address");
  },
};

// Browsers limit how often a page may change its address.
const ADDRESS_MS = 300;

/**
 * View state in the fragment of the address, such as `#runs=b&axis=tokens&from=2e6`. It survives a reload and can be
 * shared as a link. Missing parameters have their default.
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

  /** Reads the address once the first run is loaded; later changes arrive as `hashchange` events. */
  follow() {
    if (!this.followed) this.read();
    this.followed = true;
  }

  read() {
    const params = new URLSearchParams(location.hash.slice(1));
    // A fragment such as `#curves` is a section of the page.
    if (!location.hash.includes("=")) return;
    const value = (name) =>
      params.has(name) && Number.isFinite(Number(params.get(name))) ? Number(params.get(name)) : null;
    if (Object.hasOwn(AXES, params.get("axis") ?? "")) view.axis = params.get("axis");
    view.smoothing = Math.min(0.99, Math.max(0, value("smoothing") ?? 0));
    view.windows.run = { from: value("from"), to: value("to") };
    const away = new Set(params.getAll("hide"));
    for (const run of view.runs) run.away = away.has(run.name);
    if (this.live) this.overlay.show(params.getAll("runs"));
    redraw("runs", "groups", "plots", "timeline", "happened", "head", "toolbar");
  }

  write() {
    if (!this.followed) return;
    const params = new URLSearchParams();
    if (this.live) for (const name of this.overlay.wanted) params.append("runs", name);
    for (const run of view.runs) if (run.away) params.append("hide", run.name);
    const { from, to } = view.windows.run;
    const figures = { axis: view.axis === "step" ? null : view.axis, smoothing: view.smoothing || null, from, to };
    for (const [name, value] of Object.entries(figures)) if (value !== null) params.set(name, value);
    const fragment = params.toString();
    // A section in the address is replaced once a parameter is set.
    if (fragment === location.hash.slice(1) || (!fragment && !location.hash.includes("="))) return;
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
  }
}

// Functions that redraw parts of the page, at most once a frame; after new data, a few times a second.
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
  // A background page is drawn when it becomes visible, except for its title.
  if (document.hidden && waiting.delete("head")) DRAWERS.get("head")?.();
  frame ??= requestAnimationFrame(() => {
    frame = null;
    const names = [...waiting];
    waiting.clear();
    for (const name of names) DRAWERS.get(name)?.();
  });
}

/** Schedules a redraw of everything that shows data. */
function data_came() {
  data_timer ??= setTimeout(() => {
    data_timer = null;
    redraw("toolbar", "groups", "plots", "timeline", "happened", "head", "ranks", "prepared", "runs");
  }, DATA_MS);
}
