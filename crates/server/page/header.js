// Header of the page: name, phase, progress, speed and the newest alert.

class Head {
  constructor(live) {
    Object.assign(this, { live, state: { live: false, words: live ? "connecting…" : "" }, passed: null });
    this.rows = new Map();
    drawer("head", () => this.draw());
    this.theme();
  }

  connection(state) {
    this.state = state;
    redraw("head");
  }

  draw() {
    const { run, status } = view;
    const name = brief(run?.name ?? "cloze", 80);
    const more = this.live ? 0 : view.runs.length - 1;
    say(find("name"), more > 0 ? `${name} and ${more === 1 ? "another run" : `${count(more)} other runs`}` : name);
    const kind = run ? { train: "training", prepare: "preparation" }[run.kind] : "";
    // A report is static.
    say(find("kind"), this.live ? kind : view.made ? `as of ${day(view.made)}` : "a report");
    const phase = status && !view.stale ? phase_word(status.phase) : "";
    say(find("phase"), phase || (run && more === 0 ? end_words(run) : ""));
    const connection = find("connection");
    const is_over = run?.end && !this.state.live && this.live;
    say(connection, is_over ? "the run has ended; its server has stopped" : this.state.words);
    connection.className = `connection ${this.state.live ? "live" : this.live ? "lost" : "none"}`;
    this.tiles();
    this.progress(run, status);
    this.alert();
  }

  progress(run, status) {
    const { share } = how_far(run, status);
    find("progress").hidden = share === null || (view.several && !this.live);
    find("progress-done").style.width = `${Math.min(100, Math.max(0, (share ?? 0) * 100))}%`;
    find("progress").setAttribute("aria-valuenow", ((share ?? 0) * 100).toFixed(1));
    const alarm = run && worst(run) ? "⚠ " : "";
    const title = `${alarm}${share === null || !this.live ? "" : `${percent(share)} · `}${brief(run?.name ?? "cloze", 60)}`;
    if (document.title !== title) document.title = title;
  }

  /** Draws a row of metrics for each visible run; the main run is first. */
  tiles() {
    const rows = view.shown().map((run) => this.row(run));
    const several = view.several;
    find("tiles").classList.toggle("many", several);
    for (const { run, row, tiles } of rows) {
      row.who.hidden = !several;
      say(row.name, run.name);
      say(
        row.ending,
        run === view.run && this.live ? "live" : end_words(run) || run.state || (view.made ? "not ended" : ""),
      );
      row.swatch.setAttribute("class", `curve c${run.colour % COLOURS}`);
      for (const [key, figures] of Object.entries(tiles)) tile(row, key, ...figures);
      for (const [key, { box }] of row.tiles) box.hidden = !Object.hasOwn(tiles, key);
    }
    const names = new Set(view.runs.map((run) => run.name));
    for (const name of this.rows.keys()) if (!names.has(name)) this.rows.delete(name);
    arrange(
      find("tiles"),
      rows.map(({ row }) => row.box),
    );
  }

  row(run) {
    if (!this.rows.has(run.name)) {
      const row = { name: make("bdi"), ending: make("span", { class: "faint" }), tiles: new Map() };
      row.swatch = draw("line", { x1: 0, x2: 20, y1: 5, y2: 5 });
      const line = draw("svg", { class: "swatch", width: 20, height: 10, "aria-hidden": "true" }, row.swatch);
      row.who = make("h2", { class: "who" }, line, row.name, row.ending);
      row.list = make("dl", { class: "tiles" });
      row.box = make("div", { class: "tiles-of" }, row.who, row.list);
      this.rows.set(run.name, row);
    }
    const own = run === view.run;
    const tiles = figures_of(run, own ? view.status : null, this.live && own);
    return { run, row: this.rows.get(run.name), tiles };
  }

  /** Shows the newest loss spike, stop or warning until it is dismissed. */
  alert() {
    const box = find("alert");
    // With a live run, alerts of other runs are not shown.
    const runs = this.live ? [view.run].filter(Boolean) : view.shown();
    const found = runs.map((run) => ({ run, event: newest_alert(run) })).filter(({ event }) => event);
    const { run, event } = found.sort((a, b) => b.event.time - a.event.time)[0] ?? {};
    const key = event ? `${event.kind} ${event.time} ${event.step} ${runs.length > 1 ? run.name : ""}` : null;
    if (!event || this.passed === key || kept.get("seen", sessionStorage) === key) {
      box.hidden = true;
      this.alerted = null;
      return;
    }
    if (this.alerted === key) return;
    this.alerted = key;
    const pass = make("button", {
      type: "button",
      class: "quiet",
      text: "seen",
      on: {
        click: () => {
          this.passed = key;
          kept.set("seen", key, sessionStorage);
          redraw("head");
        },
      },
    });
    const show = make("button", {
      type: "button",
      class: "quiet",
      text: "show",
      on: {
        click: () => {
          point_at(run, event);
          find("curves").scrollIntoView();
        },
      },
    });
    box.className = `alert ${tone(event)}`;
    box.replaceChildren(
      make("strong", { text: event.kind }),
      make("span", { class: "faint", text: `${runs.length > 1 ? `${run.name}, ` : ""}${where_words(event)}` }),
      make("bdi", { class: "told", text: brief(story(event), 400) }),
      ...(Number.isFinite(event.step) ? [show] : []),
      pass,
    );
    box.hidden = false;
  }

  /** Button for the colour scheme: light, dark, or that of the system. */
  theme() {
    const button = find("theme");
    const order = ["auto", "light", "dark"];
    let chosen = order.includes(kept.get("theme")) ? kept.get("theme") : "auto";
    const show = () => {
      if (chosen === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
      say(button, { auto: "◐ auto", light: "○ light", dark: "● dark" }[chosen]);
      button.setAttribute("aria-label", `colours: ${chosen}`);
    };
    button.addEventListener("click", () => {
      chosen = order[(order.indexOf(chosen) + 1) % order.length];
      kept.set("theme", chosen);
      show();
    });
    show();
  }
}

/** Completed steps, planned steps and completed fraction; null if unknown. */
function how_far(run, status) {
  const reported = run?.newest("step") ?? null;
  const polled = number(status?.step ?? null);
  // The report or the status may be the newer one.
  const step = reported === null && polled === null ? null : Math.max(reported ?? 0, polled ?? 0);
  const steps = number(status?.steps ?? null) ?? view.planned.get(run?.name) ?? null;
  const own = run?.kind === "prepare" ? run.groups.preparation.newest("share") : steps > 0 ? (step ?? 0) / steps : null;
  const is_done = run?.end && (run.end.kind === "prepare_end" || run.end.why === "finished");
  // The status is older than the last event of a finished run.
  const share = is_done ? 1 : (number(status?.progress ?? null) ?? own);
  return { step, steps, share: share === null ? null : Math.min(1, share) };
}

/** Metrics of a run's row: `[name, value, more, look]` by key. */
function figures_of(run, status, live) {
  const { reports, validations, preparation } = run.groups;
  const { step, steps, share } = how_far(run, status);
  const digits = share < 0.1 ? 2 : 1;
  const tiles = {
    done: ["done", share === null ? NOTHING : share === 1 ? "100 %" : `${(share * 100).toFixed(digits)} %`],
  };
  if (run.kind === "prepare") {
    tiles.parts = ["parts", count(preparation.newest("parts"))];
    tiles.text = ["text per second", bytes(preparation.newest("text_bytes_per_s"))];
  } else {
    const loss = reports.newest("loss");
    const valid = validations.length > 0 ? `at step ${count(validations.axes.step.at(-1))}` : "none yet";
    tiles.step = ["step", count(step), steps ? `of ${count(steps)}` : ""];
    tiles.loss = ["loss", figure(loss), "", Number.isFinite(loss ?? 0) ? "" : "bad"];
    tiles.valid = ["validation", figure(validations.newest("loss")), valid];
  }
  const reported = reports.newest("speed/tokens_per_s") ?? preparation.newest("tokens_per_s");
  tiles.rate = ["tokens per second", short(number(status?.tokens_per_s ?? null) ?? reported)];
  if (live && !run.end) tiles.eta = ["time left", ...time_left(run, status)];
  // The table of ranks has those of the others.
  const of_rank = run.ranks.length > 1 ? ", rank 0" : "";
  if (run.kind === "train") {
    const tokens = reports.length > 0 ? `${short(reports.axes.tokens.at(-1))} tokens` : "";
    tiles.epoch = ["epoch", figure(number(status?.epoch ?? null) ?? reports.axes.epoch.at(-1)), tokens];
    tiles.wait = ["waits", percent(reports.newest("speed/data_wait")), `for batches${of_rank}`];
  }
  const host = number(status?.memory?.host_bytes ?? null) ?? reports.newest("memory/host_bytes");
  const device = number(status?.memory?.device_bytes ?? null) ?? reports.newest("memory/device_bytes");
  if ((device ?? host) !== null)
    tiles.memory = ["memory", bytes(device ?? host), `of the ${device === null ? "host" : "device"}${of_rank}`];
  return tiles;
}

/** Remaining time, counted from the report of the estimate, so that the end does not move if reports stop. */
function time_left(run, status) {
  if (!run.left && Number.isFinite(status?.eta_s) && run.newest("time"))
    run.left = { seconds: status.eta_s, time: run.newest("time") };
  if (!run.left) return [NOTHING];
  const end = run.left.time + run.left.seconds * 1000;
  const seconds = (end - Date.now()) / 1000;
  const until = clock(end).replace(/:\d\d$/, "");
  return seconds > 0 ? [duration(seconds), `until ${until}`] : [NOTHING, `was due at ${until}`];
}

function tile(row, key, name, value, more = "", look = "") {
  if (!row.tiles.has(key)) {
    const [dd, small] = [make("dd"), make("dd", { class: "faint" })];
    const box = make("div", { class: "tile", "data-tile": key }, make("dt", { text: name }), dd, small);
    row.tiles.set(key, { box, dd, small });
    row.list.append(box);
  }
  const { dd, small } = row.tiles.get(key);
  say(dd, value);
  say(small, more);
  dd.className = look;
}

/** Text of the end of a run; empty if the run has not ended. */
function end_words(run) {
  if (!run.end) return "";
  return run.end.kind === "prepare_end" ? "ended: all parts are complete" : `ended: ${run.end.why}`;
}

// Stops by choice of the user or the scheduler.
const WANTED_STOPS = ["finished", "interrupt", "requeue"];

/** Newest event to alert about. A stop counts only if the run has not continued. */
const newest_alert = (run) =>
  run.events.findLast(
    (event) =>
      ["loss_spike", "warning", "skip"].includes(event.kind) ||
      (event === run.end && event.kind === "stop" && !WANTED_STOPS.includes(event.why)),
  );
const worst = (run) => run.events.at(-1) && tone(run.events.at(-1)) === "alarm";
