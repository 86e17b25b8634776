// List of events of all visible runs, newest first, filtered by kind. The step button shows the position in the plots.

const PAGE_OF_EVENTS = 60;

class Happened {
  constructor() {
    Object.assign(this, { most: PAGE_OF_EVENTS, drawn: "", items: new Map() });
    this.more = make("button", {
      type: "button",
      text: "older events",
      on: {
        click: () => {
          this.most += PAGE_OF_EVENTS;
          this.draw();
        },
      },
    });
    find("happened-list").after(this.more);
    drawer("happened", () => this.draw());
  }

  draw() {
    const runs = view.shown();
    const state = runs.map((run) => `${run.name} ${run.told} ${run.colour} ${run.events[0]?.time}`);
    const key = [...state, ...view.hidden, this.most, view.several].join("|");
    if (this.drawn === key) return;
    this.drawn = key;
    const events = runs.flatMap((run) => run.events.map((event) => ({ run, event })));
    // Within one run, events keep the order of the log, because clocks can jump.
    if (runs.length > 1) events.sort((a, b) => (number(a.event.time) ?? 0) - (number(b.event.time) ?? 0));
    this.draw_kinds(events.map(({ event }) => event));
    const chosen = events.filter(({ event }) => !view.hidden.has(event.kind));
    const newest = chosen.slice(-this.most).reverse();
    const list = find("happened-list");
    list.classList.toggle("several", view.several);
    if (this.several !== view.several) this.items.clear();
    this.several = view.several;
    const old = this.items;
    this.items = new Map(newest.map(({ run, event }) => [event, old.get(event) ?? this.item(run, event)]));
    const none = make("li", {
      class: "empty",
      text: events.length > 0 ? "All kinds are hidden." : "No events yet.",
    });
    arrange(list, newest.length > 0 ? [...this.items.values()] : [none]);
    this.more.hidden = chosen.length <= this.most;
  }

  item(run, event) {
    const show = () => {
      point_at(run, event);
      find("curves").scrollIntoView({ behavior: calm() ? "auto" : "smooth" });
    };
    const step = Number.isFinite(event.step) ? `step ${count(event.step)}` : "";
    return make(
      "li",
      { class: `event ${tone(event)}` },
      make("span", { class: "when", text: clock(event.time) }),
      make("button", {
        type: "button",
        class: "quiet step",
        text: step || "–",
        title: "show in the plots",
        disabled: !step,
        on: { click: show },
      }),
      make("span", { class: "kind", text: kind_word(event.kind) }),
      view.several ? make("span", { class: "of-run" }, swatch(pen(run.colour)), make("bdi", { text: run.name })) : null,
      make("bdi", { class: "told", text: story(event) }),
    );
  }

  toggle(kind) {
    if (!view.hidden.delete(kind)) view.hidden.add(kind);
    redraw("happened", "plots", "timeline");
  }

  /** Draws a toggle for each kind with the number of its events. It also hides the marks in the plots. */
  draw_kinds(events) {
    const counts = new Map();
    const sorts = new Map(events.map((event) => [event.kind, sort_of(event)]));
    for (const { kind } of events) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const chips = find("happened-kinds");
    const key = [...counts].join("|") + [...view.hidden];
    if (this.kinds === key) return;
    this.kinds = key;
    const focused = document.activeElement?.dataset?.kind;
    chips.replaceChildren(
      ...[...counts].map(([kind, number_of]) =>
        make(
          "button",
          {
            type: "button",
            class: "chip",
            "data-kind": kind,
            "aria-pressed": String(!view.hidden.has(kind)),
            on: { click: () => this.toggle(kind) },
          },
          draw(
            "svg",
            { class: "swatch", width: 14, height: 14, "aria-hidden": "true" },
            draw("path", { class: `event ${sorts.get(kind)}`, d: glyph(sorts.get(kind), 7, 7.5) }),
          ),
          make("bdi", { text: `${kind_word(kind)} ${number_of}` }),
        ),
      ),
    );
    if (focused !== undefined) [...chips.children].find((chip) => chip.dataset.kind === focused)?.focus();
  }
}

function kind_word(kind) {
  return String(kind ?? "unknown").replaceAll("_", " ");
}

/** Sets the children of a list. Existing children are not moved, so they keep focus and selection. */
function arrange(list, children) {
  const stay = new Set(children);
  for (const child of [...list.children]) if (!stay.has(child)) child.remove();
  children.forEach((child, n) => list.children[n] !== child && list.insertBefore(child, list.children[n] ?? null));
}

/** Whether the user prefers reduced motion. */
function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
