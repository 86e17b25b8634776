// Actions on a run, and the token that they need.
//
// The token is kept in this tab (sessionStorage) and sent in a header, never in a URL, because logs contain URLs.

class Session {
  get token() {
    return kept.get("token", sessionStorage);
  }

  headers() {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  /** Whether a token is needed and the run has none, so that no token is accepted. */
  get locked() {
    return Boolean(view.status?.token_needed) && view.status?.token_set === false;
  }

  /** GET request. If the server requires the token, the user is asked for it. */
  async get(path) {
    const answer = await get_slowly(path, this.headers());
    if (![401, 403].includes(answer.status) || !view.status?.token_needed || this.locked) return answer;
    return (await this.ask(answer.words)) ? get_slowly(path, this.headers()) : answer;
  }

  async post(path, body) {
    if (view.status?.token_needed && !this.token && !(await this.ask("")))
      return { ok: false, words: "no token was entered" };
    const answer = await this.send(path, body);
    if (![401, 403].includes(answer.status) || this.locked) return answer;
    kept.set("token", null, sessionStorage);
    return (await this.ask(answer.words)) ? this.send(path, body) : answer;
  }

  async send(path, body) {
    try {
      const answer = await fetch(path, {
        method: "POST",
        body,
        headers: { ...this.headers(), "Content-Type": "text/plain; charset=utf-8" },
      });
      const json = await answer.json().catch(() => ({}));
      return {
        ok: answer.ok,
        status: answer.status,
        words: brief(json.done ?? json.error ?? `server error: status ${answer.status}`, 500),
      };
    } catch {
      return { ok: false, status: 0, words: "no connection; the action was probably not executed" };
    }
  }

  /** Asks the user for the token. Returns false if none is entered. */
  async ask(why) {
    const field = make("input", {
      type: "password",
      id: "token",
      autocomplete: "off",
      "aria-label": "token",
      required: true,
    });
    const text = "It is in the file that serve.token_file names, or in CLOZE_TOKEN in the environment of the run.";
    const given = await dialog("A token is needed", why ? `${why}. ${text}` : text, { yes: "continue", field });
    if (!given || !field.value.trim()) return false;
    kept.set("token", field.value.trim(), sessionStorage);
    return true;
  }
}

/** Shows a dialog. Resolves to true if it is confirmed; Escape cancels it. */
function dialog(title, text, { yes, field = null, grave = false }) {
  const box = find("dialog");
  return new Promise((resolve) => {
    let answer = false;
    const act = () => {
      answer = true;
      box.close();
    };
    const no = make("button", { type: "button", text: "cancel", on: { click: () => box.close() } });
    const go = make("button", { type: "submit", class: grave ? "grave" : "strong", text: yes });
    const form = make(
      "form",
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            act();
          },
        },
      },
      make("h2", { id: "dialog-title", text: title }),
      make("p", { text }),
      field,
      make("div", { class: "buttons" }, no, go),
    );
    box.replaceChildren(form);
    box.addEventListener("close", () => resolve(answer), { once: true });
    box.showModal();
    (field ?? no).focus();
  });
}

const LOCKED =
  "The run was started without a token, so actions are disabled. To enable them, set serve.token_file to a file with " +
  "the token, or CLOZE_TOKEN in the environment, and restart the run.";
const LEVELS = ["error", "warn", "info", "debug", "trace"];

class Controls {
  constructor(session) {
    this.session = session;
    this.said = make("p", { class: "answer", role: "status" });
    this.locked = make("p", { class: "warned", text: LOCKED });
    const button = (action, text, act, look = "") =>
      make("button", { type: "button", "data-action": action, class: look, text, on: { click: act } });
    this.note = make("input", { type: "text", id: "note", maxlength: 1000, placeholder: "a note for the log" });
    this.level = make("input", { type: "text", id: "level", list: "levels", value: "info", size: 16 });
    const levels = make("datalist", { id: "levels" }, ...LEVELS.map((value) => make("option", { value })));
    this.forms = {
      checkpoint: make(
        "div",
        { class: "control" },
        make("p", { text: "Save a checkpoint now; training continues." }),
        button("checkpoint", "save a checkpoint", () => this.act("/checkpoint"), "strong"),
      ),
      note: make(
        "form",
        { class: "control", on: { submit: (event) => this.write(event) } },
        make("label", { for: "note", text: "Write a note to the log of the run. All plots show it at its step." }),
        this.note,
        make("button", { type: "submit", "data-action": "note", text: "write" }),
      ),
      "log-level": make(
        "form",
        { class: "control", on: { submit: (event) => this.set_level(event) } },
        make("label", { for: "level", text: "Log level of the process on stderr, in the syntax of RUST_LOG." }),
        this.level,
        levels,
        make("button", { type: "submit", "data-action": "log-level", text: "set" }),
      ),
      stop: make(
        "div",
        { class: "control" },
        make("p", { text: "Finish the step, save a checkpoint and exit. The same command resumes the run." }),
        button("stop", "stop the run…", () => this.stop(), "grave"),
      ),
    };
    this.forget = make("button", {
      type: "button",
      class: "quiet",
      text: "forget the token",
      on: {
        click: () => {
          kept.set("token", null, sessionStorage);
          this.draw();
        },
      },
    });
    find("controls-body").append(
      this.locked,
      make("div", { class: "controls" }, ...Object.values(this.forms)),
      this.said,
      this.forget,
    );
    drawer("controls", () => this.draw());
  }

  draw() {
    const actions = view.status?.actions ?? [];
    find("controls").hidden = actions.length === 0;
    for (const [action, form] of Object.entries(this.forms)) form.hidden = !actions.includes(action);
    this.forget.hidden = !this.session.token;
    this.locked.hidden = !this.session.locked;
    const off = view.stale || this.session.locked;
    for (const button of find("controls-body").querySelectorAll("[data-action]")) button.disabled = off;
  }

  async act(path, body = "") {
    say(this.said, "sending…");
    const answer = await this.session.post(path, body);
    this.said.classList.toggle("bad", !answer.ok);
    say(this.said, answer.words);
    this.draw();
    return answer.ok;
  }

  async write(event) {
    event.preventDefault();
    if (this.note.value.trim() && (await this.act("/note", this.note.value.trim()))) this.note.value = "";
  }

  async set_level(event) {
    event.preventDefault();
    if (this.level.value.trim()) await this.act("/log-level", this.level.value.trim());
  }

  async stop() {
    const step = view.status?.step;
    const where = Number.isFinite(step) ? ` at about step ${count(step)}` : "";
    const what = `finishes its step${where}, saves a checkpoint and exits`;
    const text = `“${view.run?.name ?? "The run"}” ${what}. The same command resumes it.`;
    if (await dialog("Stop the run?", text, { yes: "stop", grave: true })) await this.act("/stop");
  }
}
