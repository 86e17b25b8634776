// Timeline of the whole run below the plots, with its events and the visible range of the plots.
//
// Dragging selects the visible range; the range itself can be moved.

const MARK_Y = { checkpoint: 34, calm: 20, good: 20, notice: 20, alarm: 20 };
const TIMELINE = { left: 52, right: 12, height: 58 };

class TimeLine {
  constructor() {
    this.svg = draw("svg", { class: "line", tabindex: 0, role: "img", height: TIMELINE.height });
    this.back = draw("g");
    this.marks = draw("g");
    this.chosen = draw("rect", { class: "chosen", y: 4, height: 38 });
    this.cursor = draw("line", { class: "hair", y1: 2, y2: 42 });
    this.svg.append(this.back, this.chosen, this.marks, this.cursor);
    find("timeline").append(this.svg);
    this.drag = null;
    this.svg.addEventListener("pointerdown", (event) => this.down(event));
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerup", () => this.up());
    this.svg.addEventListener("pointercancel", () => this.up());
    this.svg.addEventListener("pointerleave", () => this.drag || this.leave());
    this.svg.addEventListener("dblclick", () => view.whole("run"));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => redraw("timeline")).observe(this.svg);
    drawer("timeline", () => this.draw());
  }

  draw() {
    const width = this.svg.clientWidth;
    const extent = view.extent("run");
    find("timeline").hidden = !extent;
    if (!extent || width < 60) return;
    this.x = new Scale(extent[0], extent[1], TIMELINE.left, width - TIMELINE.right);
    const { start, end } = this.x;
    const pieces = [
      draw("rect", { class: "track", x: start, width: end - start, y: 8, height: 30, rx: 4 }),
      ...this.ghost(start, end),
    ];
    for (const [value, label] of view.ticks("run", this.x, Math.max(2, Math.floor(width / 90)))) {
      const near_end = this.x.at(value) > width - 40;
      pieces.push(
        draw("text", {
          x: near_end ? width - 2 : this.x.at(value),
          y: 54,
          "text-anchor": near_end ? "end" : "middle",
          text: label,
        }),
      );
    }
    pieces.push(draw("text", { x: start - 6, y: 27, "text-anchor": "end", text: "run" }));
    this.back.replaceChildren(...pieces);
    this.draw_marks();
    const window = view.window("run");
    const zoomed = view.zoomed("run");
    this.chosen.classList.toggle("all", !zoomed);
    const [left, right] = [this.x.at(Math.max(window[0], extent[0])), this.x.at(Math.min(window[1], extent[1]))];
    this.chosen.setAttribute("x", left);
    this.chosen.setAttribute("width", Math.max(2, right - left));
    const shown = zoomed
      ? `${view.word("run", window[0])} to ${view.word("run", window[1])} is visible`
      : "all of it is visible";
    this.svg.setAttribute(
      "aria-label",
      `the whole run, ${view.word("run", extent[0])} to ${view.word("run", extent[1])}; ${shown} ` +
        "(arrow keys move the visible range, plus and minus zoom, 0 shows all)",
    );
  }

  /** Draws the loss as a faint line for orientation. */
  ghost(start, end) {
    const columns = view.run?.groups.reports;
    const loss = columns?.series.get("loss")?.mean;
    const range = loss && fit(loss, { log: false, cut: true });
    if (!range) return [];
    const y = new Scale(range[0], range[1], 37, 10);
    const places = view.places(columns, "run");
    const x = (i) => this.x.at(places[i]);
    const d = line_path(visible_points(x, { mean: loss }, 0, columns.length), (point) => Math.max(9, y.at(point.y)));
    return [draw("path", { class: "ghost", d, fill: "none" })];
  }

  /** Draws a mark for each event. Events of one kind at one position share a mark. */
  draw_marks() {
    // A mark with an open tooltip is not redrawn.
    if (this.marks.contains(tip_of)) return;
    const groups = new Map();
    for (const [run, event] of view.shown().flatMap((run) => run.events.map((event) => [run, event]))) {
      if (view.hidden.has(event.kind)) continue;
      const place = run.where(event, view.axis);
      if (place === null) continue;
      const sort = sort_of(event);
      const x = this.x.at(Math.min(Math.max(place, this.x.from), this.x.to));
      if (!groups.has(sort)) groups.set(sort, []);
      const group = groups.get(sort);
      const last = group.at(-1);
      if (last?.run === run && x - last.x < 9) last.events.push(event);
      else group.push({ run, x, events: [event] });
    }
    const marks = [];
    for (const sort of ["checkpoint", "calm", "good", "notice", "alarm"]) {
      for (const { run, x, events } of groups.get(sort) ?? []) marks.push(this.mark(sort, run, x, events));
    }
    this.marks.replaceChildren(...marks);
  }

  /** Creates a mark. With several runs, it has the colour of its run and names it in the tooltip. */
  mark(sort, run, x, events) {
    const newest = events.slice(-4);
    const words = newest.map((event) => `${kind_word(event.kind)}, ${where_words(event)}: ${brief(story(event), 160)}`);
    if (events.length > 4) words.unshift(`${count(events.length)} events, the newest:`);
    if (view.several) words.unshift(run.name);
    const show = (event) => show_tip(event.currentTarget, words);
    return draw("path", {
      class: `event ${sort} ${view.several ? `of-run c${run.colour % COLOURS}` : ""}`,
      d: glyph(sort, x, MARK_Y[sort]),
      on: { pointerenter: show, pointerleave: hide_tip, click: () => point_at(run, events.at(-1)) },
    });
  }

  value(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    return this.x.back(Math.min(Math.max(x, this.x.start), this.x.end));
  }

  down(event) {
    if (event.button !== 0 || !this.x) return;
    const at = this.value(event);
    const window = view.window("run");
    const inside = view.zoomed("run") && at > window[0] && at < window[1];
    this.drag = { from: at, window, inside, x: event.clientX, moved: false, id: event.pointerId };
  }

  move(event) {
    if (!this.x) return;
    const at = this.value(event);
    view.cursor = { domain: "run", x: at };
    this.cursor.setAttribute("x1", this.x.at(at));
    this.cursor.setAttribute("x2", this.x.at(at));
    this.cursor.classList.add("on");
    redraw("cursor");
    const { drag } = this;
    if (!drag) return;
    if (!drag.moved && Math.abs(event.clientX - drag.x) < 5) return;
    if (!drag.moved) this.svg.setPointerCapture(drag.id);
    drag.moved = true;
    if (drag.inside) this.shift(drag.window, at - drag.from);
    else view.zoom("run", Math.min(at, drag.from), Math.max(at, drag.from));
  }

  up() {
    this.drag = null;
  }

  leave() {
    this.cursor.classList.remove("on");
    view.cursor = null;
    redraw("cursor");
  }

  /** Moves the visible range; it stops at the ends of the run. */
  shift(window, far) {
    const extent = view.extent("run");
    const by = Math.min(Math.max(far, extent[0] - window[0]), extent[1] - window[1]);
    view.zoom("run", window[0] + by, window[1] + by);
  }

  key(event) {
    const window = view.window("run");
    if (!window || event.ctrlKey || event.metaKey || event.altKey) return;
    const wide = window[1] - window[0];
    const middle = (window[0] + window[1]) / 2;
    const acts = {
      ArrowLeft: () => this.shift(window, -wide / 5),
      ArrowRight: () => this.shift(window, wide / 5),
      "+": () => view.zoom("run", middle - wide / 4, middle + wide / 4),
      "=": () => view.zoom("run", middle - wide / 4, middle + wide / 4),
      "-": () => view.zoom("run", middle - wide, middle + wide),
      0: () => view.whole("run"),
      Escape: () => view.whole("run"),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
}

/** Mark of an event: `checkpoint`, or the tone of the event. */
function sort_of(event) {
  return event.kind === "checkpoint" ? "checkpoint" : tone(event);
}

/** Path of a mark. The shape carries the same information as the colour. */
function glyph(sort, x, y) {
  const shapes = {
    checkpoint: `M${x} ${y - 4}l4 4l-4 4l-4 -4Z`,
    alarm: `M${x} ${y - 6}l6 11h-12Z`,
    notice: `M${x - 4.5} ${y - 4.5}h9v9h-9Z`,
  };
  return shapes[sort] ?? `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z`;
}

/** Short text with the step and time of an event. */
function where_words(event) {
  const step = Number.isFinite(event.step) ? `step ${count(event.step)}, ` : "";
  return step + clock(event.time);
}

/** Moves the cursor of all plots to an event. */
function point_at(run, event) {
  const place = run.where(event, view.axis);
  if (place === null) return;
  const window = view.window("run");
  if (window && (place < window[0] || place > window[1])) {
    const half = (window[1] - window[0]) / 2;
    view.zoom("run", place - half, place + half);
  }
  view.cursor = { domain: "run", x: place };
  redraw("cursor");
}

let tip_of = null;

function show_tip(element, lines) {
  tip_of = element;
  find("tip").replaceChildren(...lines.map((text) => make("p", { text })));
  find("tip").hidden = false;
  place_tip();
}

/** Places the tooltip above its element, or below it if there is no space. */
function place_tip() {
  const tip = find("tip");
  const box = tip_of.getBoundingClientRect();
  const left = Math.min(box.left + box.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 8);
  const above = box.top - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${above < 8 ? box.bottom + 8 : above}px`;
}

function hide_tip() {
  find("tip").hidden = true;
  tip_of = null;
}

/** On scrolling, keeps the tooltip of the focused element and hides that of the pointer. */
function follow_tip() {
  if (tip_of !== null && tip_of === document.activeElement) place_tip();
  else hide_tip();
}
