// What a run has said, as columns: those of `/history`, and the points that come after it with the events.
//
// A page stays open for days. So columns have a bound: above POINTS_MAX neighbours are merged, with their mean, and with
// their least and greatest value, which keep what leaps.

const POINTS_MAX = 4096;
// Of one kind, the newest: as many as `/history` has.
const EVENTS_MAX = 256;
const AXES_OF_POINTS = ["step", "tokens", "rows", "hours", "epoch", "time"];

/** Numbers over common axes. An axis never falls; a series has null where nothing was said. */
class Columns {
  constructor() {
    this.axes = Object.fromEntries(AXES_OF_POINTS.map((axis) => [axis, []]));
    this.series = new Map();
    this.length = 0;
    this.version = 0;
  }

  /** From JSON; an axis or a series that is too short is filled, one that is absent is empty. */
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

  /** One more point, as the server says it: a value of a series is `[mean, least, greatest]`. */
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

  /** Two neighbours become one, at the place of the second. */
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

  /** The newest value of a series that is there. */
  newest(name) {
    return this.series.get(name)?.mean.findLast((value) => value !== null) ?? null;
  }
}

/** What is missing yields to what is there. What is not a number stays visible. */
function joined(first, second, join) {
  if (first === null) return second;
  return second === null ? first : join(first, second);
}

function rising(values, length) {
  let last = 0;
  return Array.from({ length }, (_, i) => (last = Math.max(last, number(values[i] ?? null) ?? last)));
}

// What these say is in points; `/history` keeps them as points alone too.
const SAID_AS_POINTS = new Set(["report", "validation", "prepare_progress", "part_done"]);

/** A run or a preparation: its columns and its events. */
class Run {
  constructor(name) {
    Object.assign(this, { name, kind: "train", place: "", program: "", events: [], told: 0, colour: 0, left: null });
    this.groups = { reports: new Columns(), validations: new Columns(), preparation: new Columns() };
  }

  static read(history) {
    const run = new Run(String(history.name ?? "run"));
    run.kind = history.kind === "prepare" ? "prepare" : "train";
    run.place = String(history.place ?? "");
    run.program = String(history.program ?? "");
    for (const group of Object.keys(run.groups)) run.groups[group] = Columns.read(history[group]);
    for (const event of history.events ?? []) if (event && typeof event === "object") run.happened(event);
    return run;
  }

  /** One more event, with the point that was drawn for it where there is one. */
  take(event) {
    const { point, ...said } = event;
    if (point && Object.hasOwn(this.groups, point.of)) this.groups[point.of].append(point);
    // A guess is as old as what it was said with.
    if (Number.isFinite(event.eta_s)) this.left = { seconds: event.eta_s, time: event.time };
    if (!SAID_AS_POINTS.has(event.kind)) this.happened(said);
  }

  happened(event) {
    this.events.push(event);
    this.told += 1;
    const alike = (other) => other.kind === event.kind;
    if (this.events.filter(alike).length > EVENTS_MAX) this.events.splice(this.events.findIndex(alike), 1);
    // A hostile server could make up kinds without end.
    if (this.events.length > 16 * EVENTS_MAX) this.events.shift();
  }

  /** The newest place of any of its points on an axis; null where there is none. */
  newest(axis) {
    const ends = Object.values(this.groups).map((columns) => columns.axes[axis].at(-1) ?? null);
    return ends.every((end) => end === null) ? null : Math.max(...ends.map((end) => end ?? 0));
  }

  /** How it ended, if that is the last that it said. */
  get end() {
    const last = this.events.at(-1);
    return ["stop", "prepare_end"].includes(last?.kind) ? last : null;
  }

  /** Where an event stands on an axis: as it says itself, else as the points around it say. */
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

/** The value of `to` where `from` is `value`: on the line between two points, or at the end that is nearer. */
function between(from, to, value) {
  const i = first_at_least(from, value);
  if (i === 0) return to[0];
  if (i === from.length) return to[i - 1];
  const wide = from[i] - from[i - 1];
  return to[i - 1] + (wide > 0 ? (value - from[i - 1]) / wide : 1) * (to[i] - to[i - 1]);
}

/** The index of the first of `values`, which rise, that is no less; their number where there is none. */
function first_at_least(values, value, length = values.length) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
