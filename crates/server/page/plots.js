// Plots of the page, each created with its first value, and their common toolbar.

const GROUPS = ["Preparation", "Loss", "Metrics", "Optimizer", "Where the time goes", "Machine", "Data"];

const line = (group, name, label) => ({ group, name, label, form: "line" });
const points = (group, name, label) => ({ group, name, label, form: "points" });
const rule = (group, name, label) => ({ group, name, label, form: "rule" });

/** Plot of a row of the generated table in report-charts.js. */
function report_chart({ key, group, title, unit, parts }) {
  return { key, room: group, title, unit, parts: parts.map(({ name, label }) => line("reports", name, label)) };
}

/**
 * Plots with several curves or a unit. Plots of single report metrics come from the table in report-charts.js. All
 * other plots are derived from the names of their series.
 */
const PLOTS = [
  {
    key: "share",
    room: "Preparation",
    title: "done",
    unit: "percent",
    parts: [line("preparation", "share", "bytes of the corpus")],
  },
  {
    key: "text",
    room: "Preparation",
    title: "text per second",
    unit: "bytes",
    parts: [line("preparation", "text_bytes_per_s", "bytes of text per second")],
  },
  {
    key: "made",
    room: "Preparation",
    title: "tokens written per second",
    unit: "short",
    parts: [line("preparation", "tokens_per_s", "tokens per second")],
  },
  {
    key: "parts",
    room: "Preparation",
    title: "parts",
    unit: "short",
    parts: [line("preparation", "parts", "finished parts")],
  },
  {
    key: "loss",
    room: "Loss",
    title: "loss",
    unit: "plain",
    wide: true,
    parts: [line("reports", "loss", "training"), points("validations", "loss", "validation")],
  },
  {
    key: "mlm/loss",
    room: "Loss",
    title: "valid/mlm",
    unit: "plain",
    parts: [
      points("validations", "mlm/loss", "this model"),
      rule("validations", "mlm/ln_vocab", "guessing any token"),
      rule("validations", "mlm/unigram_cross_entropy", "unigram"),
    ],
  },
  {
    key: "mlm/accuracy",
    room: "Metrics",
    title: "valid/mlm.accuracy",
    unit: "percent",
    parts: [points("validations", "mlm/accuracy", "validation")],
  },
  {
    key: "phases",
    room: "Where the time goes",
    title: "fractions of wall time",
    unit: "percent",
    wide: true,
    parts: [
      line("reports", "phase/step", "steps (host time)"),
      line("reports", "phase/read", "waiting for the device"),
      line("reports", "phase/data", "waiting for batches"),
      line("reports", "phase/validation", "validations"),
      line("reports", "phase/checkpoint", "checkpoints"),
    ],
  },
  ...REPORT_CHARTS.map(report_chart),
  {
    key: "queue/fill",
    room: "Where the time goes",
    title: "queue of batches",
    unit: "percent",
    parts: [line("reports", "queue/fill", "fill level")],
  },
  {
    key: "seconds",
    room: "Where the time goes",
    title: "duration of a validation",
    unit: "seconds",
    parts: [points("validations", "seconds", "one validation")],
  },
];

const ROOM_OF = {
  terms: "Loss",
  metrics: "Metrics",
  speed: "Machine",
  memory: "Machine",
  mlm: "Metrics",
  phase: "Where the time goes",
  queue: "Where the time goes",
};
/** A hostile server could send an unlimited number of series. */
const PLOTS_MAX = 200;

class Plots {
  constructor() {
    Object.assign(this, { charts: new Map(), rooms: new Map(), known: new Set(), sources: null });
    this.sight = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          const chart = this.of(target);
          if (chart) chart.seen = isIntersecting;
        }
        redraw("plots");
      },
      { rootMargin: "200px" },
    );
    this.size = new ResizeObserver(() => redraw("plots"));
    addEventListener("beforeprint", () => this.prepare_print());
    addEventListener("afterprint", () => this.end_print());
    drawer("groups", () => this.grow());
    drawer("plots", () => this.each((chart) => chart.draw()));
    drawer("cursor", () => this.each((chart) => chart.draw_cursor()));
    this.toolbar = new Toolbar(this);
  }

  of(element) {
    return this.charts.get(element.dataset.key);
  }

  /** Calls `act` for each visible chart; the others are drawn when they become visible. */
  each(act) {
    for (const chart of this.charts.values()) if (chart.seen) act(chart);
  }

  /** Draws the plots that were never in view, and lets all scale with the paper. */
  prepare_print() {
    for (const chart of this.charts.values()) {
      chart.draw();
      const { clientWidth: width, clientHeight: height } = chart.svg;
      if (width > 0) chart.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    }
  }

  end_print() {
    for (const chart of this.charts.values()) chart.svg.removeAttribute("viewBox");
  }

  /** Creates the plots of new series. */
  grow() {
    for (const run of view.shown()) {
      for (const [group, columns] of Object.entries(run.groups)) {
        for (const name of columns.series.keys()) {
          if (this.known.has(`${group}/${name}`) || this.charts.size >= PLOTS_MAX) continue;
          // Series without values get no plot, such as the MFU on a CPU.
          if (columns.newest(name) === null) continue;
          this.known.add(`${group}/${name}`);
          this.add(group, name);
        }
      }
    }
    find("curves-empty").hidden = this.charts.size > 0;
  }

  add(group, name) {
    // The only term of a loss is the loss, which has a plot.
    if (name.startsWith("terms/") && this.is_only_term(name)) return;
    if (name.startsWith("source_epochs/")) {
      this.add_source(name);
      return;
    }
    const known = PLOTS.find((plot) => plot.parts.some((part) => part.group === group && part.name === name));
    const plot = known ?? this.plain(group, name);
    if (!this.charts.has(plot.key)) this.put(plot);
  }

  /** Whether no run has another term. Names of the first term are tried again when a second one appears. */
  is_only_term(name) {
    const terms = new Set();
    for (const run of view.shown()) {
      for (const columns of Object.values(run.groups)) {
        for (const key of columns.series.keys()) if (key.startsWith("terms/")) terms.add(key);
      }
    }
    if (terms.size > 1) return false;
    for (const group of ["reports", "validations"]) this.known.delete(`${group}/${name}`);
    return true;
  }

  /** Adds the epochs of a source to the plot of all sources. */
  add_source(name) {
    const part = line("reports", name, name.slice("source_epochs/".length));
    if (this.sources) this.sources.parts.push(part);
    else
      this.put(
        (this.sources = { key: "sources", room: "Data", title: "epochs of each source", unit: "plain", parts: [part] }),
      );
  }

  /** Plot of a loss term or a metric, with training and validation. */
  plain(group, name) {
    const [prefix, ...rest] = name.split("/");
    const title = rest.join("/") || name;
    const share = /accuracy|rate|share/.test(title);
    const parts =
      group === "preparation"
        ? [line(group, name, name)]
        : [line("reports", name, "training"), points("validations", name, "validation")];
    const room = group === "preparation" ? "Preparation" : (ROOM_OF[prefix] ?? "Data");
    return { key: `series/${name}`, room, title, unit: share ? "percent" : "plain", parts };
  }

  put(plot) {
    plot.domain = plot.parts[0].group === "preparation" ? "preparation" : "run";
    const chart = new Chart(plot);
    if (plot.wide) chart.element.classList.add("wide");
    this.charts.set(plot.key, chart);
    const grid = this.room(plot.room);
    const later = [...grid.children].find((other) => rank(this.of(other).plot) > rank(plot));
    grid.insertBefore(chart.element, later ?? null);
    this.sight.observe(chart.element);
    this.size.observe(chart.svg);
    this.filter();
  }

  /** Returns the grid of a group of plots. Groups have the order of GROUPS, plots that of the table. */
  room(name) {
    if (!this.rooms.has(name)) {
      const grid = make("div", { class: "plots" });
      const room = make(
        "details",
        { class: "group", open: true },
        make("summary", {}, make("h3", { text: name })),
        grid,
      );
      this.rooms.set(name, { room, grid });
      const later = GROUPS.slice(GROUPS.indexOf(name) + 1)
        .map((other) => this.rooms.get(other)?.room)
        .find(Boolean);
      find("groups").insertBefore(room, later ?? null);
    }
    return this.rooms.get(name).grid;
  }

  /** Shows only plots whose title or group contains the search text. */
  filter() {
    const words = view.filter.toLowerCase();
    for (const chart of this.charts.values()) {
      chart.element.hidden = !`${chart.plot.title} ${chart.plot.room}`.toLowerCase().includes(words);
    }
    for (const { room, grid } of this.rooms.values()) room.hidden = [...grid.children].every((plot) => plot.hidden);
  }
}

/** Rank of a plot: its row in the table; other plots follow the loss. */
function rank(plot) {
  const place = PLOTS.findIndex((known) => known.key === plot.key);
  return place < 0 ? PLOTS.findIndex((known) => known.key === "loss") + 0.5 : place;
}

/** Common controls of all plots: axis, smoothing, scale and search. */
class Toolbar {
  constructor(plots) {
    const axes = Object.entries(AXES).map(([axis, { label }]) =>
      make("button", { type: "button", text: label, "data-axis": axis, on: { click: () => view.turn(axis) } }),
    );
    this.axes = make("div", { class: "choice", role: "group", "aria-label": "x axis" }, ...axes);
    this.smoothing = make("input", {
      type: "range",
      min: 0,
      max: 0.99,
      step: 0.01,
      value: 0,
      id: "smoothing",
      on: { input: (event) => this.smooth(Number(event.target.value)) },
    });
    this.weight = make("output", { for: "smoothing", text: "none" });
    this.cut = make("input", {
      type: "checkbox",
      id: "cut",
      on: {
        change: (event) => {
          view.cut = event.target.checked;
          redraw("plots");
        },
      },
    });
    this.cut.checked = true;
    this.logs = make("button", {
      type: "button",
      text: "log scale",
      "aria-pressed": "false",
      id: "log-all",
      title: "logarithmic scale of all losses",
      on: { click: () => this.log(plots) },
    });
    this.find = make("input", {
      type: "search",
      id: "find-plot",
      placeholder: "find a plot",
      "aria-label": "find a plot",
      on: {
        input: (event) => {
          view.filter = event.target.value;
          plots.filter();
          redraw("plots");
        },
      },
    });
    this.whole = make("button", {
      type: "button",
      class: "strong",
      text: "whole run",
      title: "show the whole run (0)",
      on: {
        click: () => {
          for (const chart of plots.charts.values()) chart.range = null;
          for (const domain of ["run", "preparation"]) view.whole(domain);
        },
      },
    });
    find("toolbar").append(
      this.axes,
      make(
        "label",
        { for: "smoothing", class: "field" },
        make("span", { text: "smoothing" }),
        this.smoothing,
        this.weight,
      ),
      this.logs,
      make(
        "label",
        { class: "field", title: "outliers do not affect the scale" },
        this.cut,
        make("span", { text: "cut outliers" }),
      ),
      this.find,
      this.whole,
    );
    drawer("toolbar", () => this.draw());
    this.recall();
    this.draw();
  }

  smooth(weight) {
    view.smoothing = weight;
    kept.set("smoothing", String(weight));
    redraw("plots", "toolbar", "address");
  }

  /** Restores the settings from the storage of the browser. */
  recall() {
    const weight = Number(kept.get("smoothing"));
    if (weight > 0 && weight <= 0.99) view.smoothing = weight;
    if (Object.hasOwn(AXES, kept.get("axis") ?? "")) view.axis = kept.get("axis");
  }

  log(plots) {
    const on = this.logs.getAttribute("aria-pressed") !== "true";
    this.logs.setAttribute("aria-pressed", on);
    for (const chart of plots.charts.values()) if (chart.plot.room === "Loss" && chart.log !== on) chart.toggle_log();
  }

  draw() {
    if (Number(this.smoothing.value) !== view.smoothing) this.smoothing.value = view.smoothing;
    say(this.weight, view.smoothing > 0 ? view.smoothing.toFixed(2) : "none");
    for (const button of this.axes.children) button.setAttribute("aria-pressed", button.dataset.axis === view.axis);
    this.whole.classList.toggle("gone", !view.zoomed("run") && !view.zoomed("preparation"));
    this.axes.hidden = view.run?.kind === "prepare";
  }
}
