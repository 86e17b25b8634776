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
  /** Where the hand is: `{domain, x}`. */
  cursor: null,
  /** Kinds of events that are not shown. */
  hidden: new Set(),
  /** The part of an axis that is shown; null is its end, wherever that moves. A preparation has an axis of its own. */
  windows: { run: { from: null, to: null }, preparation: { from: null, to: null } },

  /** The run that the page is about. */
  get run() {
    return this.runs[0] ?? null;
  },

  shown() {
    return this.runs.filter((run) => !run.away);
  },

  /** Where the points of a group stand. */
  places(columns, domain) {
    return domain === "preparation" ? columns.axes.elapsed_s : columns.axes[this.axis];
  },

  /** The round values of an axis, and how they are written. */
  ticks(domain, scale, most) {
    if (domain === "preparation") return scale.ticks(most, SECONDS).map((value) => [value, duration_tick(value)]);
    if (this.axis !== "hours") return scale.ticks(most).map((value) => [value, short_tick(value)]);
    const seconds = new Scale(scale.from * 3600, scale.to * 3600, 0, 1);
    return seconds.ticks(most, SECONDS).map((value) => [value / 3600, duration_tick(value)]);
  },

  word(domain, value) {
    return domain === "preparation" ? duration(value) : AXES[this.axis].word(value);
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
    return first === last ? [first - 0.5, last + 0.5] : [first, last];
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
    redraw("plots", "timeline", "toolbar");
  },

  /** The whole of it again. */
  whole(domain) {
    this.windows[domain] = { from: null, to: null };
    redraw("plots", "timeline", "toolbar");
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
    redraw("plots", "timeline", "toolbar");
  },
};

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
