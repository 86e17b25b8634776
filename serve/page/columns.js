// What a run has said, as columns: the same as `/history`, and what comes after it, by the same rule.
//
// A page stays open for days. So columns have a bound: above POINTS_MAX neighbours are merged, with their mean, and with
// their least and greatest value, which keep what leaps.

const POINTS_MAX = 4096;
const EVENTS_MAX = 1000;

/** Numbers over common axes. An axis never falls; a series has null where nothing was said. */
class Columns {
  constructor(axes) {
    this.axes = Object.fromEntries(axes.map((axis) => [axis, []]));
    this.series = new Map();
    this.length = 0;
    this.version = 0;
  }

  /** From JSON; an axis or a series that is too short is filled, one that is absent is empty. */
  static read(json, axes) {
    const columns = new Columns(axes);
    const given = json ?? {};
    columns.length = Math.max(0, ...axes.map((axis) => given[axis]?.length ?? 0));
    for (const axis of axes) columns.axes[axis] = rising(given[axis] ?? [], columns.length);
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

  /** One more point. A value is a number, or `{mean, min, max}`. */
  append(at, values) {
    for (const [axis, list] of Object.entries(this.axes)) {
      const before = list.at(-1) ?? 0;
      list.push(Math.max(before, number(at[axis]) ?? before));
    }
    for (const [name, value] of Object.entries(values)) {
      if (value === null || value === undefined) continue;
      if (!this.series.has(name)) this.series.set(name, { mean: Array(this.length).fill(null), min: null, max: null });
      const series = this.series.get(name);
      const banded = typeof value === "object";
      if (banded && series.min === null) [series.min, series.max] = [[...series.mean], [...series.mean]];
      series.mean.push(banded ? value.mean : value);
      series.min?.push(banded ? value.min : value);
      series.max?.push(banded ? value.max : value);
    }
    this.length += 1;
    for (const series of this.series.values()) {
      for (const list of [series.mean, series.min, series.max]) if (list && list.length < this.length) list.push(null);
    }
    if (this.length > POINTS_MAX) this.merge();
    this.version += 1;
  }

  /** A run that went back says its steps again: what stands at `step` or behind it is forgotten. */
  cut(step) {
    let length = this.length;
    while (length > 0 && this.axes.step[length - 1] >= step) length -= 1;
    if (length === this.length) return;
    this.length = length;
    for (const list of Object.values(this.axes)) list.length = length;
    for (const series of this.series.values()) {
      for (const list of [series.mean, series.min, series.max]) if (list) list.length = length;
    }
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

const TRAINING_AXES = ["step", "tokens", "rows", "hours", "epoch", "time"];
// Said often, and drawn nowhere: neither `/history` nor the page keeps them.
const PASSED_OVER = new Set(["audit", "part_done"]);

/** A run or a preparation: its columns and its events. */
class Run {
  constructor(name) {
    Object.assign(this, {
      name,
      kind: "train",
      place: "",
      program: "",
      steps: null,
      events: [],
      version: 0,
      colour: 0,
    });
    this.groups = {
      reports: new Columns(TRAINING_AXES),
      validations: new Columns(TRAINING_AXES),
      preparation: new Columns(["elapsed_s", "time"]),
    };
  }

  static read(history) {
    const run = new Run(String(history.name ?? "run"));
    run.kind = history.kind === "prepare" ? "prepare" : "train";
    run.place = String(history.place ?? "");
    run.program = String(history.program ?? "");
    run.steps = number(history.steps ?? null);
    run.groups.reports = Columns.read(history.reports, TRAINING_AXES);
    run.groups.validations = Columns.read(history.validations, TRAINING_AXES);
    run.groups.preparation = Columns.read(history.preparation, ["elapsed_s", "time"]);
    run.events = (history.events ?? []).filter((event) => event && typeof event === "object").slice(-EVENTS_MAX);
    return run;
  }

  /** One more event. `beside` has what is drawn and what no event says: `{name: value}`. */
  take(event, beside = {}) {
    if (event.kind === "report") this.report(event, beside);
    else if (event.kind === "validation") this.validation(event);
    else if (event.kind === "prepare_progress") this.progress(event);
    else if (!PASSED_OVER.has(event.kind)) this.happened(event);
    this.version += 1;
  }

  report(event, beside) {
    const values = {
      ...beside,
      loss: spread(event.loss, event.losses),
      lr: number(event.lr),
      grad_norm: spread(event.grad_norm, event.grad_norms),
      skipped: number(event.skipped),
      "speed/tokens_per_s": number(event.tokens_per_s),
      "speed/wait": number(event.wait),
      "speed/stall": number(event.stall),
      "speed/mfu": number(event.mfu),
      "memory/device_bytes": number(event.memory?.allocated_peak_bytes),
      ...named("terms/", event.terms),
      ...named("metrics/", event.metrics),
      ...named("source_epochs/", event.source_epochs),
    };
    this.place_at(this.groups.reports, event, values);
  }

  validation(event) {
    const values = { loss: number(event.loss), ...named("terms/", event.terms), ...named("metrics/", event.metrics) };
    this.place_at(this.groups.validations, event, { ...values, ...named("mlm/", event.mlm ?? {}) });
  }

  place_at(columns, event, values) {
    columns.cut(event.step);
    const { step, epoch, rows_seen: rows, tokens_seen: tokens, time } = event;
    columns.append({ step, epoch, rows, tokens, time, hours: this.hours(event) }, values);
  }

  /**
   * Hours of work, pauses between processes not counted. A clock of a process says for how long it has worked; the wall
   * clock says how long ago the newest point was. The lesser of the two was worked since then.
   */
  hours(event) {
    const { hours, time } = this.groups.reports.axes;
    if (hours.length === 0) return event.elapsed_s / 3600;
    const since = Math.max(0, event.time - time.at(-1)) / 1000;
    return hours.at(-1) + Math.min(since, event.elapsed_s) / 3600;
  }

  progress(event) {
    const share = event.bytes / Math.max(1, event.bytes_total);
    const rates = { text_bytes_per_s: number(event.text_bytes_per_s), tokens_per_s: number(event.tokens_per_s) };
    this.groups.preparation.append(event, { share, ...rates, parts: event.parts });
  }

  happened(event) {
    // Where a run goes on from, nothing lies behind: what it did there is done again.
    if ((event.kind === "resume" || event.how === "rollback") && Number.isFinite(event.step)) {
      this.groups.reports.cut(event.step + 1);
      this.groups.validations.cut(event.step + 1);
    }
    this.events.push(event);
    if (this.events.length > EVENTS_MAX) this.events.splice(0, this.events.length - EVENTS_MAX);
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

function named(prefix, values) {
  return Object.fromEntries(Object.entries(values ?? {}).map(([name, value]) => [prefix + name, number(value)]));
}

/** A mean with the least and the greatest of what it is the mean of. */
function spread(value, all) {
  const mean = number(value);
  const finite = (all ?? []).map(number).filter(Number.isFinite);
  if (finite.length === 0) return mean;
  return { mean, min: Math.min(...finite), max: Math.max(...finite) };
}
