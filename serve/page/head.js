// Name, phase, how far, how fast, and the newest thing that somebody should know.

class Head {
  constructor(live) {
    Object.assign(this, { live, state: { live: false, words: live ? "connecting…" : "" }, passed: null });
    this.tiles = new Map();
    drawer("head", () => this.draw());
    this.theme();
  }

  connection(state) {
    this.state = state;
    redraw("head");
  }

  draw() {
    const { run, status } = view;
    say(find("name"), brief(run?.name ?? "cloze", 80));
    say(find("kind"), run ? { train: "training", prepare: "preparation" }[run.kind] : "");
    const ended = run?.events.at(-1)?.kind === "stop" ? run.events.at(-1) : null;
    const phase = status && !view.stale ? phase_word(status.phase) : "";
    say(find("phase"), ended && !phase ? `ended: ${ENDS[ended.why] ?? ended.why}` : phase);
    const connection = find("connection");
    say(
      connection,
      ended && !this.state.live && this.live ? "the run has ended, its server is gone" : this.state.words,
    );
    connection.className = `connection ${this.state.live ? "live" : this.live ? "lost" : "none"}`;
    this.progress(run, status);
    this.figures(run, status);
    this.alert(run);
  }

  progress(run, status) {
    const reports = run?.groups.reports;
    // A report may be newer than the newest look, and a look than the newest report.
    const step =
      reports?.length || Number.isFinite(status?.step)
        ? Math.max(status?.step ?? 0, reports?.axes.step.at(-1) ?? 0)
        : null;
    const steps = status?.steps ?? run?.steps ?? null;
    const known =
      status?.progress ??
      (run?.kind === "prepare"
        ? run.groups.preparation.newest("share")
        : step !== null && steps > 0
          ? step / steps
          : null);
    const share = number(known);
    Object.assign(this, { step, steps, share });
    find("progress").hidden = share === null;
    find("progress-done").style.width = `${Math.min(100, Math.max(0, (share ?? 0) * 100))}%`;
    find("progress").setAttribute("aria-valuenow", ((share ?? 0) * 100).toFixed(1));
    const alarm = run && worst(run) ? "⚠ " : "";
    const name = brief(run?.name ?? "cloze", 60);
    const title = `${alarm}${share === null || !this.live ? "" : `${percent(share)} · `}${name}`;
    if (document.title !== title) document.title = title;
  }

  figures(run, status) {
    if (!run) return;
    const { reports, validations, preparation } = run.groups;
    const rate =
      number(status?.tokens_per_s ?? null) ??
      reports.newest("speed/tokens_per_s") ??
      preparation.newest("tokens_per_s");
    const eta = number(status?.eta_s ?? null);
    const done =
      this.share === null
        ? NOTHING
        : this.share === 1
          ? "100 %"
          : `${(this.share * 100).toFixed(this.share < 0.1 ? 2 : 1)} %`;
    this.tile("done", "done", done);
    if (run.kind === "prepare") {
      this.tile("parts", "parts", count(preparation.newest("parts")));
      this.tile("text", "text per second", bytes(preparation.newest("text_bytes_per_s")));
    } else {
      this.tile("step", "step", count(this.step), this.steps ? `of ${count(this.steps)}` : "");
      this.tile(
        "loss",
        "loss",
        figure(reports.newest("loss")),
        "",
        Number.isFinite(reports.newest("loss") ?? 0) ? "" : "bad",
      );
      this.tile(
        "valid",
        "validation",
        figure(validations.newest("loss")),
        validations.length > 0 ? `at step ${count(validations.axes.step.at(-1))}` : "none yet",
      );
    }
    this.tile("rate", "tokens per second", short(rate));
    if (this.live)
      this.tile(
        "eta",
        "time left",
        eta === null ? NOTHING : duration(eta),
        eta === null || !this.state.live ? "" : `until ${clock(Date.now() + eta * 1000).slice(0, -3)}`,
      );
    if (run.kind === "train") {
      this.tile(
        "epoch",
        "epoch",
        figure(number(status?.epoch ?? null) ?? reports.axes.epoch.at(-1)),
        reports.length > 0 ? `${short(reports.axes.tokens.at(-1))} tokens` : "",
      );
      this.tile("wait", "waits", percent(reports.newest("speed/wait")), "for batches");
    }
    const memory = status?.memory;
    if (memory)
      this.tile(
        "memory",
        "memory",
        bytes(number(memory.device_bytes) ?? number(memory.host_bytes)),
        number(memory.device_bytes) === null ? "of the host" : "of the device",
      );
  }

  tile(key, name, value, more = "", look = "") {
    if (!this.tiles.has(key)) {
      const [dd, small] = [make("dd"), make("dd", { class: "faint" })];
      this.tiles.set(key, [dd, small]);
      find("tiles").append(make("div", { class: "tile", "data-tile": key }, make("dt", { text: name }), dd, small));
    }
    const [dd, small] = this.tiles.get(key);
    say(dd, value);
    say(small, more);
    dd.className = look;
  }

  /** The newest leap, stop or warning, until somebody has seen it. */
  alert(run) {
    const box = find("alert");
    const event = run && newest_alert(run);
    const key = event ? `${event.kind} ${event.time} ${event.step}` : null;
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
          point_at(event);
          find("curves").scrollIntoView();
        },
      },
    });
    box.className = `alert ${tone(event)}`;
    box.replaceChildren(
      make("strong", { text: event.kind }),
      make("span", { class: "faint", text: where_words(event) }),
      make("bdi", { class: "told", text: brief(story(event), 400) }),
      ...(Number.isFinite(event.step) ? [show] : []),
      pass,
    );
    box.hidden = false;
  }

  /** Light, dark, or as the system has it. */
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

const newest_alert = (run) =>
  run.events.findLast(
    (event) => ["leap", "warning", "skip"].includes(event.kind) || (event.kind === "stop" && event.why !== "finished"),
  );
const worst = (run) => run.events.at(-1) && tone(run.events.at(-1)) === "alarm";
