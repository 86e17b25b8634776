// One plot in SVG, which can be exported, read by a screen reader, and drawn at any size.

const MARGIN = { left: 52, right: 12, top: 14, bottom: 22 };
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "12 4"];
const COLOURS = 8;
let charts_made = 0;

/** Style of the n-th curve: eight colours that colour-blind users can distinguish, then the same with dashes. */
function pen(n) {
  return { colour: `c${n % COLOURS}`, dash: DASHES[Math.floor(n / COLOURS) % DASHES.length] };
}

class Chart {
  /** `plot` is `{key, title, unit, domain, parts: [{group, name, label, form}]}`; `form` is line, points or rule. */
  constructor(plot) {
    Object.assign(this, {
      plot,
      log: false,
      tall: false,
      range: null,
      hidden: new Set(),
      seen: false,
      curves: [],
      smooth: new Map(),
    });
    this.id = `plot-${(charts_made += 1)}`;
    this.build();
    new ChartHand(this);
  }

  build() {
    const { plot } = this;
    const tool = (label, title, act) =>
      make("button", {
        type: "button",
        class: "quiet tool",
        text: label,
        title,
        on: { click: act },
        "aria-label": `${title}: ${plot.title}`,
      });
    this.log_button = tool("log", "logarithmic scale", () => this.toggle_log());
    this.tall_button = tool("⤢", "larger", () => this.toggle_tall());
    const keep = tool("SVG", "save as a picture", () => keep_picture(this));
    const values = tool("CSV", "save the values", () => keep_values(this));
    this.legend = make("ul", { class: "legend" });
    this.words = make("p", { class: "words" });
    this.svg = draw("svg", { class: "chart", tabindex: 0, role: "img", id: this.id });
    this.layers = {};
    this.clip = draw("rect", { x: MARGIN.left, y: MARGIN.top - 3 });
    this.svg.append(draw("defs", {}, draw("clipPath", { id: `${this.id}-clip` }, this.clip)));
    for (const name of ["grid", "marks", "curves", "odd", "labels", "cursor", "choice"]) {
      const clipped = ["marks", "curves", "choice"].includes(name) ? `url(#${this.id}-clip)` : null;
      this.svg.append((this.layers[name] = draw("g", { class: name, "clip-path": clipped })));
    }
    const title = make("h4", { text: plot.title });
    const tools = make("div", { class: "tools" }, this.log_button, values, keep, this.tall_button);
    this.element = make(
      "figure",
      { class: "plot", "data-key": plot.key },
      make("figcaption", {}, title, tools),
      this.legend,
      this.svg,
      this.words,
    );
    this.update_buttons();
  }

  toggle_log() {
    [this.log, this.range] = [!this.log, null];
    this.update_buttons();
    redraw("plots");
  }

  toggle_tall() {
    this.tall = !this.tall;
    this.element.classList.toggle("tall", this.tall);
    this.update_buttons();
    redraw("plots");
  }

  update_buttons() {
    this.log_button.setAttribute("aria-pressed", this.log);
    this.tall_button.setAttribute("aria-pressed", this.tall);
  }

  /** Collects the curves. With one run, each part has a colour. With several, runs have colours and parts dashes. */
  collect() {
    const found = view.shown().flatMap((run) =>
      this.plot.parts.map((part, n) => {
        const columns = run.groups[part.group];
        const series = columns.series.get(part.name);
        // Beyond eight runs, colours repeat with the next dash.
        const dash = DASHES[(Math.floor(run.colour / COLOURS) + n) % DASHES.length];
        const style = view.several ? { ...pen(run.colour), dash } : pen(n);
        if (part.form === "rule") style.dash = DASHES[n % DASHES.length];
        const id = `${run.name}/${part.group}/${part.name}`;
        const label = this.label(run, part);
        return { id, run, part, columns, series, label, level: level_of(series, part), ...style };
      }),
    );
    this.curves = agreed(found.filter(({ series }) => series));
  }

  /** Label of a curve. With several runs it contains the run name; a rule begins with its part. */
  label(run, part) {
    if (!view.several) return part.label;
    if (part.form === "rule") return `${part.label}, ${run.name}`;
    return this.plot.parts.length > 1 ? `${run.name}, ${part.label}` : run.name;
  }

  /** Means of a curve, smoothed if the view has smoothing. Cached until the curve changes. */
  line(curve) {
    if (view.smoothing === 0 || curve.part.form !== "line") return curve.series.mean;
    const key = `${curve.columns.version}/${view.smoothing}`;
    const old = this.smooth.get(curve.id);
    if (old?.key === key && old.of === curve.series.mean) return old.values;
    const values = smoothed(curve.series.mean, view.smoothing);
    this.smooth.set(curve.id, { key, values, of: curve.series.mean });
    return values;
  }

  draw() {
    this.collect();
    const drawn = this.curves.filter((curve) => !this.hidden.has(curve.id));
    const window = view.window(this.plot.domain);
    const [width, height] = [this.svg.clientWidth, this.svg.clientHeight];
    this.update_legend();
    if (!window || width < 40) return;
    this.x = new Scale(window[0], window[1], MARGIN.left, width - MARGIN.right);
    for (const curve of drawn) {
      curve.places = view.places(curve.columns, this.plot.domain);
      // One additional point on each side, so that the line reaches the edges of the plot.
      const first = first_at_least(curve.places, window[0], curve.columns.length);
      const end = first_at_least(curve.places, window[1], curve.columns.length);
      [curve.first, curve.end] = [Math.max(0, first - 1), Math.min(curve.columns.length, end + 1)];
      [curve.inside, curve.outside] = [
        first,
        Math.min(curve.columns.length, end + (curve.places[end] === window[1] ? 1 : 0)),
      ];
      curve.values = this.line(curve);
    }
    const part = (curve, from, to) => (curve.part.form === "rule" ? [curve.level] : curve.values.slice(from, to));
    const seen = drawn.flatMap((curve) => part(curve, curve.inside, Math.max(curve.outside, curve.inside)));
    const near = drawn.flatMap((curve) => part(curve, curve.first, curve.end));
    const options = { log: this.log, cut: view.cut };
    const whole = fit(seen, options) ?? fit(near, options) ?? (this.log ? [0.1, 1] : [0, 1]);
    // A fraction is at most 1.
    if (this.plot.unit === "percent" && seen.every((value) => !(value > 1))) whole[1] = Math.min(whole[1], 1);
    const range = this.range ?? whole;
    this.is_nothing = seen.length > 0 && seen.every((value) => value === 0 || value === null);
    this.y = new Scale(range[0], range[1], height - MARGIN.bottom, MARGIN.top, this.log);
    this.clip.setAttribute("width", Math.max(0, width - MARGIN.left - MARGIN.right));
    this.clip.setAttribute("height", Math.max(0, height - MARGIN.bottom - MARGIN.top + 3));
    this.draw_grid(width, height);
    this.draw_marks(height);
    this.draw_curves(drawn);
    this.draw_cursor();
    this.tell(drawn);
  }

  draw_grid(width, height) {
    const [lines, labels] = [[], []];
    const whole = { bytes: byte_unit(this.y.to), seconds: SECONDS }[this.plot.unit] ?? 1;
    const ticks = this.y.ticks(Math.max(2, Math.floor(height / 45)), whole);
    // If all values are 0, the axis has only the tick 0.
    for (const value of this.is_nothing ? ticks.filter((value) => value === 0) : ticks) {
      const y = Math.round(this.y.at(value)) + 0.5;
      const text = tick(value, this.plot.unit, ticks);
      lines.push(draw("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
      labels.push(draw("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end", text }));
    }
    for (const [value, text] of view.ticks(this.plot.domain, this.x, Math.max(2, Math.floor(width / 80)))) {
      const x = Math.round(this.x.at(value)) + 0.5;
      const near_end = x > width - 40;
      lines.push(draw("line", { x1: x, x2: x, y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }));
      labels.push(
        draw("text", { x: near_end ? width - 2 : x, y: height - 5, "text-anchor": near_end ? "end" : "middle", text }),
      );
    }
    const floor = height - MARGIN.bottom + 0.5;
    lines.push(draw("line", { class: "floor", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor }));
    this.layers.grid.replaceChildren(...lines);
    this.layers.labels.replaceChildren(...labels);
  }

  /** Draws events: checkpoints as ticks on the axis, others as lines through the plot. */
  draw_marks(height) {
    const marks = [];
    const runs = this.plot.domain === "run" ? view.shown() : [];
    for (const run of runs) {
      const last = {};
      for (const event of run.events) {
        const place = view.hidden.has(event.kind) ? null : run.where(event, view.axis);
        if (place === null || place < this.x.from || place > this.x.to) continue;
        const sort = sort_of(event);
        const x = Math.round(this.x.at(place)) + 0.5;
        if (x - (last[sort] ?? -9) < 3) continue;
        last[sort] = x;
        const top = sort === "checkpoint" ? height - MARGIN.bottom - 5 : MARGIN.top;
        const look = view.several ? `${sort} of-run c${run.colour % COLOURS}` : sort;
        marks.push(draw("line", { class: `mark ${look}`, x1: x, x2: x, y1: top, y2: height - MARGIN.bottom }));
      }
    }
    this.layers.marks.replaceChildren(...marks);
  }

  draw_curves(drawn) {
    const [pieces, odd] = [[], []];
    this.svg.classList.toggle("several", view.runs.length > 1);
    // The main run is drawn above the other runs, and validation above training.
    const runs = [...new Set(drawn.map((curve) => curve.run))].reverse();
    for (const curve of runs.flatMap((run) => drawn.filter((curve) => curve.run === run))) {
      const { places, first, end, series } = curve;
      if (curve.part.form === "rule") pieces.push(this.level(curve));
      if (end <= first || curve.part.form === "rule") continue;
      const x = (i) => this.x.at(places[i]);
      const height = (value) => (this.log && value <= 0 ? NaN : this.y.at(value));
      const path = (points, options) =>
        draw("path", { d: line_path(points, (point) => height(point.y)), fill: "none", ...options });
      const raw = visible_points(x, series, first, end);
      const smooth = curve.values !== series.mean;
      if (curve.part.form === "line") pieces.push(this.band(curve, raw, height));
      if (smooth) pieces.push(path(raw, { class: `curve raw ${curve.colour}` }));
      const kind = curve.part.form === "points" ? "joint" : "curve";
      pieces.push(
        path(smooth ? visible_points(x, { mean: curve.values }, first, end) : raw, {
          class: `${kind} ${curve.colour}`,
          "stroke-dasharray": curve.dash || null,
        }),
      );
      if (curve.part.form === "points" || end - first < 3) pieces.push(...this.points(curve, raw, height));
      odd.push(...this.oddities(curve, x));
    }
    this.layers.curves.replaceChildren(...pieces);
    this.layers.odd.replaceChildren(...odd);
  }

  /** Horizontal line of a rule (a reference value). */
  level({ level, colour, dash }) {
    const y = this.log && level <= 0 ? NaN : this.y.at(level);
    const d = Number.isFinite(y) ? `M${this.x.start} ${y.toFixed(1)}H${this.x.end}` : "";
    return draw("path", { class: `curve ${colour}`, d, fill: "none", "stroke-dasharray": dash || null });
  }

  /** Band from the minimum to the maximum of each point, interrupted like the line. */
  band(curve, points, height) {
    // Values that a log scale cannot show are drawn at the bottom.
    const inside = (value) => (Number.isFinite(height(value)) ? height(value) : this.y.start);
    const pieces = [[]];
    for (const point of points) {
      if (Number.isFinite(point.y)) pieces.at(-1).push(point);
      else pieces.push([]);
    }
    const wide = pieces.filter((piece) => piece.some(({ low, high }) => low < high));
    const d = wide.map((piece) => {
      const back = line_path([...piece].reverse(), ({ low }) => inside(low));
      return `${line_path(piece, ({ high }) => inside(high))}L${back.slice(1)}Z`;
    });
    return draw("path", { class: `band ${curve.colour}`, d: d.join("") });
  }

  points(curve, points, height) {
    const crowded = points.length > (this.x.end - this.x.start) / 6;
    const shown = crowded ? [] : points.filter(({ y }) => Number.isFinite(height(y)));
    return shown.map(({ x, y }) =>
      draw("circle", { class: `point ${curve.colour}`, cx: x.toFixed(1), cy: height(y).toFixed(1), r: 3 }),
    );
  }

  /** Marks at the top for values that are not finite, and arrows at the edges for values outside the range. */
  oddities(curve, x) {
    const marks = [];
    let last = { odd: -9, high: -9, low: -9 };
    for (let i = Math.max(curve.first, curve.inside); i < curve.outside; i += 1) {
      const value = curve.series.mean[i];
      const shown = curve.values[i];
      if (value === null) continue;
      const sort = !Number.isFinite(value)
        ? "odd"
        : shown > this.y.to
          ? "high"
          : shown < this.y.from && !this.log
            ? "low"
            : null;
      if (!sort) continue;
      const at = x(i);
      if (at - last[sort] < 5) continue;
      last[sort] = at;
      const [a, b] = sort === "low" ? [this.y.start - 1, this.y.start - 7] : [2, 8];
      const shape = sort === "odd" ? `M${at - 3.5} 2l7 7m0 -7l-7 7` : `M${at} ${a}L${at + 4} ${b}L${at - 4} ${b}Z`;
      marks.push(
        draw(
          "path",
          { class: `${sort === "odd" ? "odd-mark" : "far-mark"} ${curve.colour}`, d: shape },
          draw("title", { text: `${curve.label} ${figure(value)} at ${view.word(this.plot.domain, curve.places[i])}` }),
        ),
      );
    }
    return marks;
  }

  /** Index of the point of a curve that is nearest to a position; -1 if there is none. */
  nearest(curve, place) {
    const { columns, series } = curve;
    const places = view.places(columns, this.plot.domain);
    const i = first_at_least(places, place, columns.length);
    for (let off = 0; off < columns.length; off += 1) {
      const [left, right] = [i - 1 - off, i + off];
      const has = (k) => k >= 0 && k < columns.length && series.mean[k] !== null;
      if (has(left) && has(right)) return place - places[left] <= places[right] - place ? left : right;
      if (has(right)) return right;
      if (has(left)) return left;
    }
    return -1;
  }

  draw_cursor() {
    const { cursor } = view;
    const here = cursor?.domain === this.plot.domain && this.x && cursor.x >= this.x.from && cursor.x <= this.x.to;
    const pieces = [];
    if (here) {
      const x = this.x.at(cursor.x);
      pieces.push(draw("line", { class: "hair", x1: x, x2: x, y1: MARGIN.top, y2: this.y.start }));
      for (const curve of this.curves) {
        const i = this.hidden.has(curve.id) || curve.part.form === "rule" ? -1 : this.nearest(curve, cursor.x);
        const value = i < 0 ? null : this.line(curve)[i];
        if (value === null || !Number.isFinite(value) || value < this.y.from || value > this.y.to) continue;
        const at = this.x.at(view.places(curve.columns, this.plot.domain)[i]);
        if (Math.abs(at - x) > 40 || at < this.x.start - 1 || at > this.x.end + 1) continue;
        pieces.push(draw("circle", { class: `dot ${curve.colour}`, cx: at, cy: this.y.at(value), r: 4 }));
      }
      pieces.push(...this.hair_word(x, view.word(this.plot.domain, cursor.x)));
    }
    this.layers.cursor.replaceChildren(...pieces);
    this.update_values();
  }

  /** Label of the cursor position, drawn over the axis labels. */
  hair_word(x, text) {
    const half = 5 + text.length * 3.6;
    const middle = Math.min(Math.max(x, MARGIN.left + half), this.x.end - half);
    return [
      draw("rect", { class: "hair-ground", x: middle - half, y: this.y.start + 4, width: 2 * half, height: 17, rx: 4 }),
      draw("text", { class: "hair-word", y: this.y.start + 17, "text-anchor": "middle", x: middle, text }),
    ];
  }

  /**
   * Entries of the legend. With one run: one entry per curve. With several: one per run, then one grey entry per part
   * for its dash. Rules have separate entries.
   */
  keys() {
    const alone = (curve) => !view.several || curve.part.form === "rule";
    const single = this.curves.filter(alone).map((curve) => ({ label: curve.label, curves: [curve] }));
    const rest = this.curves.filter((curve) => !alone(curve));
    const by = (name) =>
      [...new Set(rest.map((curve) => curve[name]))].map((one) => rest.filter((curve) => curve[name] === one));
    const runs = by("run").map((curves) => ({ label: curves[0].run.name, curves }));
    const parts = by("part").map((curves) => ({ label: curves[0].part.label, curves, meaning: true }));
    return [...runs, ...(parts.length > 1 ? parts : []), ...single];
  }

  /** Rebuilds the legend if the curves have changed; otherwise only the values are updated. */
  update_legend() {
    const state = this.curves
      .map((curve) => `${curve.id}${curve.label}${curve.colour}${this.hidden.has(curve.id)}`)
      .join("|");
    if (this.legend_state === state) return;
    this.legend_state = state;
    this.legend_keys = this.keys().map((key) => ({ ...key, value: make("span", { class: "value" }) }));
    this.legend.replaceChildren(
      ...this.legend_keys.map(({ label, curves, value, meaning }) => {
        const shown = curves.some(({ id }) => !this.hidden.has(id));
        const toggle = () => {
          for (const { id } of curves)
            if (shown) this.hidden.add(id);
            else this.hidden.delete(id);
          redraw("plots");
          // The legend is rebuilt, so the focus is restored afterwards.
          this.settle_focus = [...this.legend.children].findIndex((item) => item.contains(document.activeElement));
        };
        const state = shown ? "visible; press to hide" : "hidden; press to show";
        const words = `${curves.map((curve) => curve.label).join("; ")}: ${state}`;
        return make(
          "li",
          {},
          make(
            "button",
            {
              type: "button",
              class: "key",
              "aria-pressed": String(shown),
              on: { click: toggle },
              title: printable(words),
            },
            swatch(meaning ? { ...curves[0], colour: "ref" } : curves[0]),
            make("bdi", { class: "label", text: label }),
            value,
          ),
        );
      }),
    );
    if (this.settle_focus >= 0) this.legend.children[this.settle_focus]?.querySelector("button").focus();
    this.settle_focus = -1;
  }

  update_values() {
    for (const { curves, value, meaning } of this.legend_keys ?? [])
      say(value, meaning ? "" : curves.map((curve) => this.value_words(curve)).join(" · "));
  }

  /** Value at the cursor with its minimum and maximum; without a cursor, the newest value. */
  value_words(curve) {
    const unit = UNITS[this.plot.unit] ?? figure;
    if (curve.part.form === "rule") return unit(curve.level);
    const at = view.cursor?.domain === this.plot.domain ? view.cursor.x : null;
    const i = at === null ? curve.series.mean.findLastIndex((value) => value !== null) : this.nearest(curve, at);
    const { min, max } = curve.series;
    const banded = at !== null && view.runs.length < 2 && min && min[i] !== max[i] && min[i] !== null && i >= 0;
    return unit(i < 0 ? null : this.line(curve)[i]) + (banded ? ` (${unit(min[i])} to ${unit(max[i])})` : "");
  }

  /** Text of the plot: a label for screen readers, and a note about values that cannot be drawn. */
  tell(drawn) {
    const unit = UNITS[this.plot.unit] ?? figure;
    const odd = drawn
      .map((curve) => {
        const bad = curve.series.mean.filter((value) => value !== null && !Number.isFinite(value)).length;
        const first = curve.series.mean.findIndex((value) => value !== null && !Number.isFinite(value));
        const place = bad > 0 && view.word(this.plot.domain, curve.places[first]);
        return (
          bad > 0 &&
          `${curve.label}: ${bad === 1 ? "one value is" : `${count(bad)} values are`} not finite, the first at ${place}`
        );
      })
      .filter(Boolean);
    say(this.words, odd.join("; "));
    const summary = drawn.map((curve) => {
      const from = curve.series.mean.find((value) => value !== null);
      return `${curve.label} from ${unit(from)} to ${unit(curve.series.mean.findLast((value) => value !== null))}`;
    });
    const keys = "arrow keys read values, plus and minus zoom, 0 shows the whole run, L changes the scale";
    this.svg.setAttribute(
      "aria-label",
      printable(`${this.plot.title}: ${summary.join("; ") || "no values"}. ${odd.join("; ")} (${keys})`),
    );
  }
}

/** Newest finite value of a rule; null for other curves. */
function level_of(series, part) {
  return part.form === "rule" ? (series?.mean.findLast((value) => Number.isFinite(value)) ?? null) : null;
}

/** Merges a rule that is equal in all runs into one grey rule. A rule that differs keeps the colour of its run. */
function agreed(curves) {
  const same = (a, b) => Math.abs(a - b) <= 1e-6 * Math.max(Math.abs(a), Math.abs(b));
  return curves.flatMap((curve) => {
    if (curve.part.form !== "rule") return [curve];
    if (curve.level === null) return [];
    const rules = curves.filter((other) => other.part === curve.part && other.level !== null);
    if (!rules.every((other) => same(other.level, curve.level))) return [curve];
    return rules[0] === curve ? [{ ...curve, label: curve.part.label, colour: "ref" }] : [];
  });
}

/** Label of a tick with just enough digits to distinguish it from its neighbours. */
function tick(value, unit, ticks) {
  const step = ticks.length > 1 ? Math.min(...ticks.slice(1).map((one, i) => one - ticks[i])) : Math.abs(value) || 1;
  const digits = (size) => Math.min(9, Math.max(0, Math.ceil(-Math.log10(size) - 1e-9)));
  const minus = (text) => text.replace("-", "−");
  if (unit === "percent") return `${minus((value * 100).toFixed(digits(step * 100)))} %`;
  if (unit === "short" || unit === "count") return minus(short_tick(value));
  if (unit === "bytes") return minus(bytes_tick(value));
  if (unit === "seconds") return step < 1 ? `${value.toFixed(digits(step))} s` : duration_tick(value);
  const size = Math.max(...ticks.map(Math.abs));
  if (value !== 0 && (size >= 1e6 || size <= 1e-3 || Math.abs(value) < 1e-4)) {
    const power = 10 ** Math.floor(Math.log10(Math.abs(value)) + 1e-9);
    return minus(value.toExponential(digits(step / power)).replace(/\.?0*e\+?/, "e"));
  }
  return minus(String(Number(value.toPrecision(9))));
}

/** Sample of a curve for legends. */
function swatch(curve) {
  const dot =
    curve.part?.form === "points" ? draw("circle", { class: `point ${curve.colour}`, cx: 10, cy: 5, r: 3 }) : null;
  const line = { class: `curve ${curve.colour}`, x1: 0, x2: 20, y1: 5, y2: 5, "stroke-dasharray": curve.dash || null };
  return draw("svg", { class: "swatch", width: 20, height: 10, "aria-hidden": "true" }, draw("line", line), dot);
}
