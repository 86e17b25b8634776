// Metrics of a run as columns: the columns of `/history`, and the points of later events.
//
// A page stays open for days, so columns are bounded. Above POINTS_MAX rows, neighbours are merged in pairs. A merged
// row keeps the mean, minimum and maximum, so spikes stay visible.

const POINTS_MAX = 4096;
// Maximum number of events per kind; the same as in `/history`.
const EVENTS_MAX = 256;
const AXES_OF_POINTS = ["step", "tokens", "rows", "hours", "epoch", "time"];

/** Series over common axes. An axis never decreases; a series is null where a value is missing. */
class Columns {
  constructor() {
    this.axes = Object.fromEntries(AXES_OF_POINTS.map((axis) => [axis, []]));
    this.series = new Map();
    this.length = 0;
    this.version = 0;
  }

  /** Parses JSON. An axis or a series that is too short is filled; one that is missing is empty. */
  static read(json) {
    const columns = new Columns();
    const given = json ?? {};
    columns.length = Math.max(0, ...AXES_OF_POINTS.map((axis) => given[axis]?.length ?? 0));
    for (const axis of AXES_OF_POINTS) columns.axes[axis] = rising(given[axis] ?? [], columns.length);
    for (const [name, series] of Object.entries(given.series ?? {})) {
      const plain = Array.isArray(series);
      const list = (values) => Array.from({ length: columns.length }, (_, i) => number(values?.[i] ?? null));
      const banded = !plain && Array.isArray(series?.min) && Array.isArray(series?.max);
      columns.series.set(name, {
        mean: list(plain ? series : series?.mean),
        min: banded ? list(series.min) : null,
        max: banded ? list(series.max) : null,
      });
    }
    return columns;
  }

  /** Appends a point of the server, in which the value of a series is `[mean, min, max]`. */
  append(point) {
    for (const [axis, list] of Object.entries(this.axes)) {
      const before = list.at(-1) ?? 0;
      list.push(Math.max(before, number(point[axis]) ?? before));
    }
    for (const [name, value] of Object.entries(point.values ?? {})) {
      const [mean, min, max] = (Array.isArray(value) ? value : [value]).map((one) => number(one));
      if (mean === null || mean === undefined) continue;
      if (!this.series.has(name)) this.series.set(name, { mean: Array(this.length).fill(null), min: null, max: null });
      const series = this.series.get(name);
      const banded = min !== undefined && max !== undefined;
      if (banded && series.min === null) [series.min, series.max] = [[...series.mean], [...series.mean]];
      series.mean.push(mean);
      series.min?.push(banded ? min : mean);
      series.max?.push(banded ? max : mean);
    }
    this.length += 1;
    for (const series of this.series.values()) {
      for (const list of [series.mean, series.min, series.max]) if (list && list.length < this.length) list.push(null);
    }
    if (this.length > POINTS_MAX) this.merge();
    this.version += 1;
  }

  /** Merges neighbouring rows in pairs, at the position of the second. */
  merge() {
    const pairs = Math.ceil(this.length / 2);
    const each = (make) => Array.from({ length: pairs }, (_, i) => make(2 * i, Math.min(2 * i + 1, this.length - 1)));
    for (const axis of Object.keys(this.axes)) {
      const list = this.axes[axis];
      this.axes[axis] = each((_, second) => list[second]);
    }
    for (const [name, { mean, min, max }] of this.series) {
      this.series.set(name, {
        mean: each((a, b) => joined(mean[a], mean[b], (x, y) => (x + y) / 2)),
        min: each((a, b) => joined((min ?? mean)[a], (min ?? mean)[b], Math.min)),
        max: each((a, b) => joined((max ?? mean)[a], (max ?? mean)[b], Math.max)),
      });
    }
    this.length = pairs;
  }

  /** Newest value of a series that is not missing. */
  newest(name) {
    return this.series.get(name)?.mean.findLast((value) => value !== null) ?? null;
  }
}

/** Joins two values. A missing value is ignored; NaN is kept. */
function joined(first, second, join) {
  if (first === null) return second;
  return second === null ? first : join(first, second);
}

function rising(values, length) {
  let last = 0;
  return Array.from({ length }, (_, i) => (last = Math.max(last, number(values[i] ?? null) ?? last)));
}

// Kinds of events that are kept only as points, here and in `/history`.
const SAID_AS_POINTS = new Set(["report", "validation", "prepare_progress", "part_done"]);

/** Columns and events of a training or a preparation. */
class Run {
  constructor(name) {
    Object.assign(this, { name, kind: "train", place: "", program: "", events: [], ranks: [], told: 0, colour: 0, left: null });
    this.groups = { reports: new Columns(), validations: new Columns(), preparation: new Columns() };
  }

  static read(history) {
    const run = new Run(String(history.name ?? "run"));
    run.kind = history.kind === "prepare" ? "prepare" : "train";
    run.place = String(history.place ?? "");
    run.program = String(history.program ?? "");
    for (const group of Object.keys(run.groups)) run.groups[group] = Columns.read(history[group]);
    run.ranks = ranks_of(history);
    for (const event of history.events ?? []) if (event && typeof event === "object") run.happened(event);
    return run;
  }

  /** Adds an event, and its point if it has one. */
  take(event) {
    const { point, ...said } = event;
    if (point && Object.hasOwn(this.groups, point.of)) this.groups[point.of].append(point);
    if (event.kind === "report") this.ranks = ranks_of(event);
    // An estimate of the remaining time is valid until the next point.
    if (Number.isFinite(event.eta_s)) this.left = { seconds: event.eta_s, time: event.time };
    if (!SAID_AS_POINTS.has(event.kind)) this.happened(said);
  }

  happened(event) {
    this.events.push(event);
    this.told += 1;
    const same_kind = (other) => other.kind === event.kind;
    if (this.events.filter(same_kind).length > EVENTS_MAX) this.events.splice(this.events.findIndex(same_kind), 1);
    // A hostile server could send an unlimited number of kinds.
    if (this.events.length > 16 * EVENTS_MAX) this.events.shift();
  }

  /** Newest position of all points on an axis; null if there are none. */
  newest(axis) {
    const ends = Object.values(this.groups).map((columns) => columns.axes[axis].at(-1) ?? null);
    return ends.every((end) => end === null) ? null : Math.max(...ends.map((end) => end ?? 0));
  }

  /** Event that ended the run, if only notes follow. A resumed or extended run has not ended. */
  get end() {
    const last = this.events.findLast((event) => event.kind !== "note");
    return ["stop", "prepare_end"].includes(last?.kind) ? last : null;
  }

  /** Position of an event on an axis: its own value, else interpolated between points. */
  where(event, axis) {
    const own = { step: event.step, tokens: event.tokens_seen, rows: event.rows_seen, epoch: event.epoch }[axis];
    if (Number.isFinite(own)) return own;
    const columns = this.groups.reports.length > 0 ? this.groups.reports : this.groups.validations;
    const { axes, length } = columns;
    if (length === 0) return null;
    const by = Number.isFinite(event.step) ? "step" : "time";
    return between(axes[by], axes[axis], Number.isFinite(event.step) ? event.step : event.time);
  }
}

/** Valid entries of the ranks of a report. */
const ranks_of = ({ ranks }) => (Array.isArray(ranks) ? ranks : []).filter((rank) => rank && typeof rank === "object");

/** Interpolates `to` where `from` is `value`. Outside the range, returns the value of the nearer end. */
function between(from, to, value) {
  const i = first_at_least(from, value);
  if (i === 0) return to[0];
  if (i === from.length) return to[i - 1];
  const wide = from[i] - from[i - 1];
  return to[i - 1] + (wide > 0 ? (value - from[i - 1]) / wide : 1) * (to[i] - to[i - 1]);
}

/** Index of the first of the ascending `values` that is at least `value`; `length` if there is none. */
function first_at_least(values, value, length = values.length) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
