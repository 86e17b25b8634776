// Diagram of the data pipeline: state of each worker, its waits, and the fill level of the queue.
//
// The time of a worker is busy + starved + blocked. Starved: it waits for input. Blocked: its output queue is full. If
// the loader workers are blocked, the trainer is the bottleneck. If the trainer is starved, the workers are.
//
// The server counts seconds since the start of a worker. The diagram shows the difference over about the last minute,
// so that a new bottleneck of a long run is visible at once.

const DOINGS = { busy: "busy", starved: "waiting for input", blocked: "output queue full", ended: "ended" };
const WORKERS_SHOWN = 8;
const LOOKS_MS = 60_000;
const SPENT = ["busy", "starved", "blocked"];

class Flow {
  constructor() {
    drawer("flow", () => this.draw());
  }

  draw() {
    const { status } = view;
    find("flow").hidden = !status;
    if (!status) return;
    const actors = actors_of(status.actors);
    const workers = actors.filter((actor) => !actor.is_reader);
    const reader = actors.find((actor) => actor.is_reader);
    const prepares = status.kind === "prepare";
    const stale = view.stale && `State at ${clock(view.status_time)}: the server does not respond.`;
    find("flow").classList.toggle("stale", view.stale);
    const now = lately(actors);
    say(find("verdict"), stale || (prepares ? verdict_of_workers(now) : verdict(now, status)));
    const stations = prepares
      ? [station("corpus", "text"), this.workers(workers, "workers"), station("shards", parts_word())]
      : [
          station("corpus", "text"),
          this.prepare(),
          station("shards", "samples"),
          this.workers(workers, "workers"),
          queue(workers, reader),
          this.trainer(reader, status),
          checkpoint(status),
        ];
    const shown = stations.filter(Boolean);
    const moving = !view.stale && this.moves(actors);
    find("flow-picture").replaceChildren(...shown.flatMap((box, n) => (n === 0 ? [box] : [arrow(moving), box])));
    this.validation(actors_of(status.validation, "validation "));
  }

  /** Draws the workers of a running validation. */
  validation(actors) {
    find("flow-validation").hidden = actors.length === 0;
    const workers = actors.filter((actor) => !actor.is_reader);
    const box = this.workers(workers, "validation");
    box.classList.add("secondary");
    find("flow-validation").replaceChildren(...(actors.length > 0 ? [box] : []));
  }

  /** Whether any item was completed since the last status; the state at one instant is not representative. */
  moves(actors) {
    const items = actors.reduce((all, actor) => all + (number(actor.items) ?? 0), 0);
    if (view.status_time !== this.looked) {
      this.moving = this.items === undefined || items !== this.items;
      [this.items, this.looked] = [items, view.status_time];
    }
    return this.moving;
  }

  /** Station of a preparation that continues during the run; null if there is none. */
  prepare() {
    const columns = view.run?.groups.preparation;
    const share = columns?.newest("share");
    if (share === null || share === undefined) return null;
    return station("prepare", `${percent(share)} done`, meter([["busy", share]]));
  }

  workers(workers, title) {
    const rows = workers.slice(0, WORKERS_SHOWN).map((worker) => actor_row(worker));
    const more =
      workers.length > WORKERS_SHOWN
        ? [make("p", { class: "faint", text: `and ${count(workers.length - WORKERS_SHOWN)} more` })]
        : [];
    const none = workers.length === 0 ? [make("p", { class: "faint", text: "none has started" })] : [];
    const box = station(title, "", make("div", { class: "workers" }, ...rows), ...more, ...none);
    box.classList.add("broad");
    return box;
  }

  trainer(reader, status) {
    const seconds = number(status.since_s);
    // A phase below one second shows no duration.
    const phase = phase_word(status.phase) + (seconds >= 1 ? ` for ${duration(seconds)}` : "");
    return station("trainer", phase, ...(reader ? [actor_row(reader, "time")] : []));
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

/** Valid entries of a list of workers, each with a unique key. */
function actors_of(given, group = "") {
  return (Array.isArray(given) ? given : [])
    .filter((actor) => actor && typeof actor === "object")
    .map((actor, place) => ({ ...actor, key: `${group}${place} ${actor.name}` }));
}

/** Stores a snapshot of the workers. Keeps one snapshot that is older than a minute for comparison. */
function remember(status) {
  const [looks, now] = [view.looks, performance.now()];
  // Another process counts from its own start.
  if (looks.length > 0 && looks.at(-1).instance !== status.instance) looks.length = 0;
  const actors = new Map(actors_of(status.actors).map((actor) => [actor.key, actor]));
  looks.push({ at: now, instance: status.instance, actors });
  while (looks.length > 2 && looks[1].at <= now - LOOKS_MS) looks.shift();
}

/** Seconds per state since the oldest snapshot of a worker; its total time if there is no snapshot. */
function since(actor) {
  const old = view.looks.find(({ actors }) => actors.has(actor.key))?.actors.get(actor.key);
  const difference = (name) => (number(actor[name]) ?? 0) - (number(old?.[name]) ?? 0);
  const names = [...SPENT.map((name) => `${name}_s`), "wall_s"];
  const is_new = !old || names.some((name) => difference(name) < 0) || difference("wall_s") < 1;
  const spent = (name) => Math.max(0, is_new ? (number(actor[name]) ?? 0) : difference(name));
  return { ...Object.fromEntries(names.map((name) => [name, spent(name)])), is_new };
}

/** Fraction of a worker's time in a state. */
function share_of(actor, name) {
  const spent = since(actor);
  return spent.wall_s > 0 ? Math.min(1, spent[`${name}_s`] / spent.wall_s) : 0;
}

const mean_of = (workers, name) => workers.reduce((all, worker) => all + share_of(worker, name), 0) / Math.max(1, workers.length);

/** Active workers and reader, and a text for the period of their time account. */
function lately(actors) {
  const all = actors.filter((actor) => actor.doing !== "ended");
  const period_ms = (view.looks.at(-1)?.at ?? 0) - (view.looks[0]?.at ?? 0);
  const is_new = period_ms < 1000 || all.every((actor) => since(actor).is_new);
  const last = period_ms > 0.75 * LOOKS_MS ? "minute" : duration(Math.round(period_ms / 1000));
  return {
    workers: all.filter((actor) => !actor.is_reader),
    reader: all.find((actor) => actor.is_reader),
    has_workers: actors.some((actor) => !actor.is_reader),
    when: is_new ? "so far" : `over the last ${last}`,
  };
}

/** Row of a worker: name, state and time account. The tooltip has the name that metrics use. */
function actor_row(actor, name = actor.name) {
  const doing = Object.hasOwn(DOINGS, actor.doing) ? actor.doing : "ended";
  const shares = SPENT.map((name) => [name, share_of(actor, name)]);
  const words = shares
    .filter(([, share]) => share > 0.0005)
    .map(([name, share]) => `${name} ${percent(share)}`)
    .join(", ");
  const now = `${DOINGS[doing]} for ${duration(number(actor.since_s))}`;
  const title = `${actor.name} ${now}; ${words}; ${count(actor.items)} items`;
  return make(
    "div",
    { class: "actor", title: printable(title) },
    make("bdi", { class: "actor-name", text: brief(name, 24) }),
    make("span", { class: `doing ${doing}`, text: DOINGS[doing] }),
    meter(shares, words),
  );
}

/** Stacked bar of fractions. */
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

/** Queue between the workers and the trainer, with its fill level. */
function queue(workers, reader) {
  const { held, room } = queue_of(workers);
  const cells = Math.min(room, 32);
  const full = room > 0 ? Math.round((held / room) * cells) : 0;
  const picture = draw("svg", {
    class: "cells",
    width: cells * 10,
    height: 20,
    role: "img",
    "aria-label": `${held} of ${room} slots are occupied`,
  });
  for (let i = 0; i < cells; i += 1) {
    picture.append(
      draw("rect", { class: i < full ? "cell full" : "cell", x: i * 10 + 1, y: 2, width: 7, height: 15, rx: 2 }),
    );
  }
  const waits =
    reader?.doing === "starved"
      ? "the trainer waits here"
      : workers.some((worker) => worker.doing === "blocked")
        ? "the workers wait for free slots"
        : "";
  return station(
    "queue",
    `${count(held)} of ${count(room)} batches`,
    picture,
    waits ? make("p", { class: "faint", text: waits }) : null,
  );
}

function queue_of(workers) {
  const sum = (name) => workers.reduce((all, worker) => all + Math.max(0, number(worker[name]) ?? 0), 0);
  const room = sum("capacity");
  return { held: Math.min(sum("queued"), room), room };
}

function checkpoint(status) {
  const { writing_s: writing, kept: place } = status.checkpoint ?? {};
  const name = place ? String(place).split("/").at(-1) : "";
  const words = Number.isFinite(number(writing)) ? `writing one for ${duration(number(writing))}` : "";
  const box = station("checkpoints", words);
  box.append(make("bdi", { class: "newest", text: name || "none in this process", title: printable(place ?? "") }));
  return box;
}

const PHASES = {
  start: "starting",
  data: "waiting for a batch",
  step: "training",
  validation: "validating",
  checkpoint: "saving",
  plan: "planning",
  prepare: "preparing",
};

function phase_word(phase) {
  return Object.hasOwn(PHASES, phase ?? "") ? PHASES[phase] : String(phase ?? "");
}

function parts_word() {
  const parts = view.run?.groups.preparation.newest("parts");
  return parts === null || parts === undefined ? "" : `${count(parts)} parts`;
}

/** Sentence that names the bottleneck. The time account of the reader decides; a waiting worker may be fast enough. */
function verdict({ workers, reader, when }, status) {
  if (!reader || workers.length === 0)
    return `The run is in phase “${phase_word(status.phase)}”; no batch is being made.`;
  const starved = share_of(reader, "starved");
  const workers_starve = mean_of(workers, "starved");
  const waits = `the trainer waited for batches ${percent(starved)} of its time ${when}`;
  if (starved > 0.1 && workers_starve > 0.3)
    return `Reading shards is the bottleneck: ${waits}; the workers waited for shards ${percent(workers_starve)}.`;
  if (starved > 0.1) return `The workers are the bottleneck: ${waits}.`;
  if (starved > 0.02) return `Nearly balanced: ${waits}.`;
  const blocked = percent(mean_of(workers, "blocked"));
  return (
    `The trainer is the bottleneck, as intended: it waited ${percent(starved)} of its time ${when}, the workers ` +
    `${blocked} of theirs.`
  );
}

function verdict_of_workers({ workers, has_workers, when }) {
  if (workers.length === 0) return has_workers ? "All workers have ended." : "No worker has started.";
  const work = workers.length === 1 ? "One worker was" : `${count(workers.length)} workers were`;
  return `${work} busy ${percent(mean_of(workers, "busy"))} of the time ${when}.`;
}
