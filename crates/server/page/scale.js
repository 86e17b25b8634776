// Mapping between values and pixels: scales, ticks, smoothing, and paths with no more points than are visible.

class Scale {
  /** `log` needs a range above 0. */
  constructor(from, to, start, end, log = false) {
    Object.assign(this, { from, to, start, end, log });
    const [low, high] = [this.bend(from), this.bend(to)];
    this.low = low;
    this.factor = high > low ? (end - start) / (high - low) : 0;
  }

  bend(value) {
    return this.log ? Math.log10(value) : value;
  }

  at(value) {
    return this.factor === 0 ? (this.start + this.end) / 2 : this.start + (this.bend(value) - this.low) * this.factor;
  }

  back(place) {
    const bent = this.factor === 0 ? this.low : this.low + (place - this.start) / this.factor;
    return this.log ? 10 ** bent : bent;
  }

  /** About `most` round values in the range; `whole` is the unit in which they are round. */
  ticks(most, whole = 1) {
    if (this.log) {
      const all = decades(this.from, this.to);
      const tens = all.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
      const chosen = tens.length >= 3 ? tens : all.length >= 2 ? all : null;
      if (chosen) return chosen.filter((_, i) => i % Math.ceil(chosen.length / most) === 0);
    }
    const step =
      whole === SECONDS
        ? round_time((this.to - this.from) / most)
        : whole * round_step((this.to - this.from) / most / whole);
    const first = Math.ceil(this.from / step - 1e-9);
    const ticks = [];
    for (let i = first; i * step <= this.to + step * 1e-9 && ticks.length < 50; i += 1)
      ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
  }
}

/** 1, 2 and 5 times each power of ten in the range. */
function decades(from, to) {
  const values = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to) && values.length < 200; power += 1) {
    for (const first of [1, 2, 5]) values.push(Number((first * 10 ** power).toPrecision(6)));
  }
  return values.filter((value) => value >= from * (1 - 1e-9) && value <= to * (1 + 1e-9));
}

// Round values of durations.
const SECONDS = "seconds";
const ROUND_TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

function round_time(rough) {
  const day = 86_400;
  return rough < 1 ? round_step(rough) : (ROUND_TIMES.find((step) => step >= rough) ?? day * round_step(rough / day));
}

/** Binary unit in which a number of bytes is written. */
function byte_unit(value) {
  return 1024 ** Math.max(0, Math.min(4, Math.floor(Math.log2(Math.max(1, value)) / 10)));
}

function round_step(rough) {
  if (!(rough > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((first) => first * power >= rough * (1 - 1e-9)) ?? 10);
}

/**
 * Exponential moving average with bias correction. Values that are not finite are skipped, so one bad step does not
 * hide the following ones.
 */
function smoothed(values, weight) {
  if (weight <= 0) return values;
  let [sum, mass] = [0, 0];
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

// Minimum distance at which two points are distinguishable.
const COLUMN_PX = 2;

/**
 * Reduces the points from `first` to `end` for drawing: each point if there are few, else the mean, minimum and maximum
 * of each pixel column. A noisy curve becomes a smooth line in a band, and no spike is lost. `at` returns pixels.
 */
function visible_points(at, { mean, min, max }, first, end) {
  const few = end - first <= Math.abs(at(end - 1) - at(first)) / COLUMN_PX;
  const points = [];
  let i = first;
  while (i < end) {
    const column = few ? null : Math.floor(at(i) / COLUMN_PX);
    let [sum, many, low, high, has_nan, x] = [0, 0, Infinity, -Infinity, false, 0];
    do {
      const value = mean[i];
      if (value !== null && !Number.isFinite(value)) has_nan = true;
      else if (value !== null) {
        [sum, many, x] = [sum + value, many + 1, x + at(i)];
        const [least, most] = [min?.[i] ?? value, max?.[i] ?? value];
        [low, high] = [Math.min(low, least), Math.max(high, most)];
      }
      i += 1;
    } while (i < end && column !== null && Math.floor(at(i) / COLUMN_PX) === column);
    if (has_nan) points.push({ x: at(i - 1), y: NaN, low: NaN, high: NaN });
    else if (many > 0) points.push({ x: x / many, y: sum / many, low, high });
  }
  return points;
}

/**
 * SVG path of a line. A value that is not finite interrupts the line. A missing value does not, because a series may
 * be reported less often than others.
 */
function line_path(points, height) {
  let path = "";
  let pen = "M";
  for (const point of points) {
    const y = height(point);
    if (Number.isFinite(y)) path += `${pen}${point.x.toFixed(1)} ${y.toFixed(1)}`;
    pen = Number.isFinite(y) ? "L" : "M";
  }
  return path;
}

/**
 * Range that shows the values. If `cut` is set, outliers are cut off: values farther from the central 98 % than half
 * its width.
 */
function fit(values, { log, cut }) {
  // A typed array is sorted ten times as fast.
  const finite = Float64Array.from(values.filter((value) => Number.isFinite(value) && (!log || value > 0))).sort();
  if (finite.length === 0) return null;
  let [low, high] = [finite[0], finite.at(-1)];
  if (cut && finite.length >= 20) {
    const bend = (value) => (log ? Math.log10(value) : value);
    const unbend = (value) => (log ? 10 ** value : value);
    const [one, other] = [
      bend(finite[Math.floor(finite.length * 0.01)]),
      bend(finite[Math.ceil(finite.length * 0.99) - 1]),
    ];
    const room = 0.5 * (other - one);
    if (room > 0 && bend(high) > other + room) high = unbend(other + room / 4);
    if (room > 0 && bend(low) < one - room) low = unbend(one - room / 4);
  }
  if (low === high && low === 0) return [0, 1];
  if (low === high) return log ? [low / 1.5, high * 1.5] : [low - Math.abs(low) * 0.1, high + Math.abs(high) * 0.1];
  if (log) return [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
  const room = (high - low) * 0.06;
  // A range of non-negative values does not extend below 0, because fractions and counts are never negative.
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}
