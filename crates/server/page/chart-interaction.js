// Interaction with a plot by mouse, touch or keyboard.
//
// - Moving shows the values of all plots at one position.
// - Dragging zooms: horizontally all plots, vertically only this plot, diagonally both.
// - A double-click or the key 0 shows the whole run.

class ChartHand {
  constructor(chart) {
    Object.assign(this, { chart, drag: null });
    const { svg } = chart;
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerup", (event) => this.up(event));
    svg.addEventListener("pointercancel", () => this.end());
    svg.addEventListener("pointerleave", () => this.drag || this.point(null));
    svg.addEventListener("dblclick", () => this.whole());
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("blur", () => this.point(null));
  }

  get domain() {
    return this.chart.plot.domain;
  }

  place(event) {
    const box = this.chart.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** Axis value at a pixel, clamped to the plot. */
  value(x) {
    const { x: scale } = this.chart;
    return scale.back(Math.min(Math.max(x, scale.start), scale.end));
  }

  point(x) {
    view.cursor = x === null ? null : { domain: this.domain, x };
    redraw("cursor");
  }

  down(event) {
    if (event.button !== 0 || !this.chart.x) return;
    this.drag = { from: this.place(event), to: this.place(event), id: event.pointerId };
  }

  move(event) {
    if (!this.chart.x) return;
    const [x, y] = this.place(event);
    if (this.drag) {
      this.drag.to = [x, y];
      // Only a drag captures the pointer; a click must reach its target.
      if (this.moved()) this.chart.svg.setPointerCapture(this.drag.id);
      this.show_choice();
    }
    this.point(this.value(x));
  }

  moved() {
    const { from, to } = this.drag;
    return Math.hypot(to[0] - from[0], to[1] - from[1]) > 6;
  }

  /** Range selected by a drag: `{x, y}`, each a pair or null. A small slope is ignored. */
  chosen() {
    const { from, to } = this.drag;
    const [wide, high] = [Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
    const pair = (k) => [Math.min(from[k], to[k]), Math.max(from[k], to[k])];
    return { x: wide > 0.3 * high ? pair(0) : null, y: high > 0.6 * wide ? pair(1) : null };
  }

  show_choice() {
    const { chart } = this;
    if (!this.moved()) {
      chart.layers.choice.replaceChildren();
      return;
    }
    const { x, y } = this.chosen();
    const [left, right] = x ?? [chart.x.start, chart.x.end];
    const [top, bottom] = y ?? [MARGIN.top, chart.y.start];
    chart.layers.choice.replaceChildren(
      draw("rect", {
        class: "chosen",
        x: left,
        y: top,
        width: Math.max(0, right - left),
        height: Math.max(0, bottom - top),
      }),
    );
  }

  up() {
    if (!this.drag) return;
    const { chart } = this;
    if (this.moved()) {
      const { x, y } = this.chosen();
      if (y) chart.range = [chart.y.back(Math.min(y[1], chart.y.start)), chart.y.back(Math.max(y[0], chart.y.end))];
      if (x) view.zoom(this.domain, this.value(x[0]), this.value(x[1]));
      redraw("plots");
    }
    this.end();
  }

  end() {
    this.drag = null;
    this.chart.layers.choice.replaceChildren();
  }

  whole() {
    this.chart.range = null;
    view.whole(this.domain);
  }

  key(event) {
    const { chart } = this;
    if (!chart.x || event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 10 : 1;
    const acts = {
      ArrowLeft: () => this.step(-far),
      ArrowRight: () => this.step(far),
      Home: () => this.read(chart.x.from),
      End: () => this.read(chart.x.to),
      "+": () => this.near(0.5),
      "=": () => this.near(0.5),
      "-": () => this.near(2),
      0: () => this.whole(),
      Escape: () => (this.drag ? this.end() : this.whole()),
      l: () => chart.toggle_log(),
      L: () => chart.toggle_log(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** Moves the cursor by `far` points of the first curve. */
  step(far) {
    const { chart } = this;
    const curve = chart.curves.find((curve) => !chart.hidden.has(curve.id) && curve.columns.length > 0);
    if (!curve) return;
    const places = view.places(curve.columns, this.domain);
    const start = view.cursor?.domain === this.domain ? view.cursor.x : far > 0 ? chart.x.from : chart.x.to;
    let i = first_at_least(places, start, curve.columns.length) + (view.cursor ? far : 0);
    const [low, high] = [
      first_at_least(places, chart.x.from),
      first_at_least(places, chart.x.to * (1 + 1e-12) + 1e-12) - 1,
    ];
    i = Math.min(Math.max(i, low), Math.max(low, Math.min(high, curve.columns.length - 1)));
    this.read(places[i]);
  }

  read(x) {
    this.point(x);
    const values = this.chart.curves
      .filter((curve) => !this.chart.hidden.has(curve.id))
      .map((curve) => {
        const i = this.chart.nearest(curve, x);
        return `${curve.label} ${(UNITS[this.chart.plot.unit] ?? figure)(i < 0 ? null : curve.series.mean[i])}`;
      });
    whisper(`${view.word(this.domain, x)}: ${values.join(", ")}`);
  }

  /** Scales the visible range by `factor` around the cursor. */
  near(factor) {
    const { x } = this.chart;
    const middle = view.cursor?.domain === this.domain ? view.cursor.x : (x.from + x.to) / 2;
    const extent = view.extent(this.domain);
    const wide = (x.to - x.from) * factor;
    if (wide >= extent[1] - extent[0]) {
      view.whole(this.domain);
      return;
    }
    const from = Math.min(Math.max(middle - wide / 2, extent[0]), extent[1] - wide);
    view.zoom(this.domain, from, from + wide);
  }
}

let whisper_timer = null;

/** Announces a text to screen readers, 300 ms after the last key. */
function whisper(words) {
  clearTimeout(whisper_timer);
  whisper_timer = setTimeout(() => say(find("live"), words), 300);
}
