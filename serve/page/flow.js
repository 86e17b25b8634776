// The data on its way, as it goes just now: who works, who waits for whom, and how full the queue between them is.
//
// An actor's time is busy + starved + blocked, whatever it does. Starved waits for what comes to it, blocked for room
// behind it. So where the lanes are blocked the trainer is the slow one, and where it is starved the lanes are.

const DOINGS = { busy: "works", starved: "waits for input", blocked: "waits for room", ended: "has ended" };
const LANES_SHOWN = 8;

class Flow {
  constructor() {
    drawer("flow", () => this.draw());
  }

  draw() {
    const { status } = view;
    find("flow").hidden = !status;
    if (!status) return;
    const actors = Array.isArray(status.actors) ? status.actors : [];
    const lanes = actors.filter((actor) => !actor.is_reader);
    const reader = actors.find((actor) => actor.is_reader);
    const prepares = status.kind === "prepare";
    const stale = view.stale && `As it stood at ${clock(view.status_time)}: nobody answers now.`;
    find("flow").classList.toggle("stale", view.stale);
    say(find("verdict"), stale || (prepares ? verdict_of_lanes(lanes) : verdict(lanes, reader, status)));
    const stations = prepares
      ? [station("corpus", "text"), this.lanes(lanes, "lanes"), station("shards", parts_word())]
      : [
          station("corpus", "text"),
          this.prepare(),
          station("shards", "samples"),
          this.lanes(lanes, "lanes"),
          queue(lanes, reader),
          this.trainer(reader, status),
          checkpoint(status),
        ];
    const shown = stations.filter(Boolean);
    const moving = !view.stale && this.moves(actors);
    find("flow-picture").replaceChildren(...shown.flatMap((box, n) => (n === 0 ? [box] : [arrow(moving), box])));
  }

  /** Whether anything has come through since the last look: what an actor does at one instant says little. */
  moves(actors) {
    const items = actors.reduce((all, actor) => all + (number(actor.items) ?? 0), 0);
    if (view.status_time !== this.looked) {
      this.moving = this.items === undefined || items !== this.items;
      [this.items, this.looked] = [items, view.status_time];
    }
    return this.moving;
  }

  /** Only where a preparation goes on beside the run. */
  prepare() {
    const columns = view.run?.groups.preparation;
    const share = columns?.newest("share");
    if (share === null || share === undefined) return null;
    return station("prepare", `${percent(share)} done`, meter([["busy", share]]));
  }

  lanes(lanes, title) {
    const rows = lanes.slice(0, LANES_SHOWN).map((lane) => actor_row(lane));
    const more =
      lanes.length > LANES_SHOWN
        ? [make("p", { class: "faint", text: `and ${count(lanes.length - LANES_SHOWN)} more` })]
        : [];
    const none = lanes.length === 0 ? [make("p", { class: "faint", text: "none has begun" })] : [];
    const box = station(title, "", make("div", { class: "lanes" }, ...rows), ...more, ...none);
    box.classList.add("broad");
    return box;
  }

  trainer(reader, status) {
    const phase = `${phase_word(status.phase)} for ${duration(number(status.since_s))}`;
    return station("trainer", phase, ...(reader ? [actor_row({ ...reader, name: "time" })] : []));
  }
}

function station(title, words, ...content) {
  return make(
    "div",
    { class: "station" },
    make("h3", { text: title }),
    words ? make("p", { class: "faint", text: words }) : null,
    ...content,
  );
}

function arrow(moving) {
  return draw(
    "svg",
    { class: moving ? "arrow moving" : "arrow", width: 28, height: 16, viewBox: "0 0 28 16", "aria-hidden": "true" },
    draw("path", { class: "shaft", d: "M0 8H20" }),
    draw("path", { class: "tip-of", d: "M19 3l7 5l-7 5Z" }),
  );
}

/** A name, what it does, and where its time went. */
function actor_row(actor) {
  const doing = Object.hasOwn(DOINGS, actor.doing) ? actor.doing : "ended";
  const shares = ["busy", "starved", "blocked"].map((name) => [name, share_of(actor, name)]);
  const words = shares
    .filter(([, share]) => share > 0.0005)
    .map(([name, share]) => `${name} ${percent(share)}`)
    .join(", ");
  const now = `${DOINGS[doing]} for ${duration(number(actor.since_s))}`;
  const title = `${actor.name} ${now}; ${words}; ${count(actor.items)} items`;
  return make(
    "div",
    { class: "actor", title: printable(title) },
    make("bdi", { class: "actor-name", text: brief(actor.name, 24) }),
    make("span", { class: `doing ${doing}`, text: DOINGS[doing] }),
    meter(shares, words),
  );
}

/** Shares of a whole, side by side. */
function meter(shares, words = "") {
  const bar = draw("svg", {
    class: "meter",
    viewBox: "0 0 100 8",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": printable(words),
  });
  let x = 0;
  for (const [name, share] of shares) {
    const width = Math.min(100 - x, Math.max(0, Number.isFinite(share) ? share : 0) * 100);
    bar.append(draw("rect", { class: `part ${name}`, x, y: 0, width, height: 8 }));
    x += width;
  }
  return bar;
}

/** How many batches wait, of how many there is room for. */
function queue(lanes, reader) {
  const { held, room } = queue_of(lanes);
  const cells = Math.min(room, 32);
  const full = room > 0 ? Math.round((held / room) * cells) : 0;
  const picture = draw("svg", {
    class: "cells",
    width: cells * 10,
    height: 20,
    role: "img",
    "aria-label": `${held} of ${room} places are taken`,
  });
  for (let i = 0; i < cells; i += 1) {
    picture.append(
      draw("rect", { class: i < full ? "cell full" : "cell", x: i * 10 + 1, y: 2, width: 7, height: 15, rx: 2 }),
    );
  }
  const waits =
    reader?.doing === "starved"
      ? "the trainer waits here"
      : lanes.some((lane) => lane.doing === "blocked")
        ? "lanes wait for room"
        : "";
  return station(
    "queue",
    `${count(held)} of ${count(room)} batches`,
    picture,
    waits ? make("p", { class: "faint", text: waits }) : null,
  );
}

function queue_of(lanes) {
  const sum = (name) => lanes.reduce((all, lane) => all + Math.max(0, number(lane[name]) ?? 0), 0);
  const room = sum("capacity");
  return { held: Math.min(sum("queued"), room), room };
}

function checkpoint(status) {
  const { writing_s: writing, kept: place } = status.checkpoint ?? {};
  const name = place ? String(place).split("/").at(-1) : "";
  const words = Number.isFinite(number(writing)) ? `one is being written for ${duration(number(writing))}` : "";
  const box = station("checkpoints", words);
  box.append(make("bdi", { class: "newest", text: name || "none in this process", title: printable(place ?? "") }));
  return box;
}

const PHASES = {
  start: "starting",
  data: "waiting for a batch",
  step: "learning",
  validation: "validating",
  checkpoint: "saving",
  read: "preparing",
};

function phase_word(phase) {
  return Object.hasOwn(PHASES, phase ?? "") ? PHASES[phase] : String(phase ?? "");
}

function parts_word() {
  const parts = view.run?.groups.preparation.newest("parts");
  return parts === null || parts === undefined ? "" : `${count(parts)} parts`;
}

/** The share of an actor's time that it spent so. */
function share_of(actor, name) {
  const [spent, wall] = [number(actor[`${name}_s`]), number(actor.wall_s)];
  return wall > 0 ? Math.max(0, spent ?? 0) / wall : 0;
}

const mean_of = (lanes, name) =>
  lanes.reduce((all, lane) => all + share_of(lane, name), 0) / Math.max(1, lanes.length);

/** Who waits for whom, in a sentence. The reader's own clock decides: a lane may wait and yet be fast enough. */
function verdict(lanes, reader, status) {
  if (!reader || lanes.length === 0)
    return `The run is in phase “${phase_word(status.phase)}”; no batch is being made.`;
  const starved = share_of(reader, "starved");
  const lanes_starve = mean_of(lanes, "starved");
  if (starved > 0.1 && lanes_starve > 0.3) {
    const waits = `the lanes wait for shards ${percent(lanes_starve)} of their time`;
    return `What comes to the lanes is the bottleneck: ${waits}, the trainer for them ${percent(starved)} of its own.`;
  }
  if (starved > 0.1)
    return `The lanes are the bottleneck: the trainer waits for batches ${percent(starved)} of its time.`;
  if (starved > 0.02) return `Nearly balanced: the trainer waits for batches ${percent(starved)} of its time.`;
  return (
    `The trainer is the bottleneck, as it should be: it waits ${percent(starved)} of its time, the lanes ` +
    `${percent(mean_of(lanes, "blocked"))} of theirs.`
  );
}

function verdict_of_lanes(lanes) {
  if (lanes.length === 0) return "No lane has begun.";
  return `${count(lanes.length)} lanes are busy ${percent(mean_of(lanes, "busy"))} of their time.`;
}
