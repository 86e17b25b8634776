// What comes from the server: the history once, each event as it happens, and how things stand every two seconds.
//
// A feed never gives up. The browser's own stream of events reconnects by itself, but not after an answer that is no
// stream (a proxy's error, a limit of clients), and it does not notice that a laptop slept. So it is watched here.

const STATUS_MS = 2000;
const STATUS_HIDDEN_MS = 30_000;
// A browser looks at a page behind others about once a minute.
const SLEPT_MS = 180_000;
const PATIENCE_MS = 8000;
// What takes long: other runs, rows, the history. The server does one such thing at a time, and so does the page.
const SLOW_MS = 30_000;
const SLOW_TRIES = 8;
// A stream that has lasted so long was a good one: the next break begins with short pauses again.
const STEADY_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];

class Feed {
  /** `hear` has: history(json), event(json), status(json or null), state({live, words}). */
  constructor(hear) {
    Object.assign(this, { hear, boot: null, last: 0, source: null, tries: 0, timer: null, asked: 0, silent: 0 });
    [this.look_timer, this.steady] = [null, null];
    this.looked = Date.now();
    addEventListener("online", () => this.again(0));
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
  }

  start() {
    this.begin();
    this.look();
  }

  /** The whole history, then what comes after it. */
  async begin() {
    this.close();
    const asked = (this.asked += 1);
    this.hear.state({ live: false, words: this.tries > 0 ? "connecting again…" : "connecting…" });
    const history = await get_json("/history", {}, SLOW_MS);
    if (asked !== this.asked) return;
    if (!history.ok) {
      this.again(this.pause(history.retry_ms), history.words);
      return;
    }
    const { boot, last } = history.json;
    [this.boot, this.last] = [String(boot), Number(last) || 0];
    this.hear.history(history.json);
    this.listen();
  }

  listen() {
    this.close();
    const source = new EventSource(`/events?after=${encodeURIComponent(`${this.boot}-${this.last}`)}`);
    this.source = source;
    const slow = setTimeout(
      () => this.source === source && source.readyState !== EventSource.OPEN && this.lost(),
      PATIENCE_MS,
    );
    source.addEventListener("open", () => {
      clearTimeout(slow);
      this.steady = setTimeout(() => (this.tries = 0), STEADY_MS);
      this.hear.state({ live: true, words: "live" });
    });
    source.addEventListener("message", (message) => this.message(message));
    source.addEventListener("reset", () => this.anew());
    source.addEventListener("error", () => {
      clearTimeout(slow);
      if (this.source === source) this.lost();
    });
  }

  message(message) {
    const cut = message.lastEventId.lastIndexOf("-");
    const [boot, place] = [message.lastEventId.slice(0, cut), Number(message.lastEventId.slice(cut + 1))];
    if (cut > 0 && boot !== this.boot) {
      this.anew();
      return;
    }
    if (cut > 0 && place <= this.last) return;
    let event = null;
    try {
      event = JSON.parse(message.data);
    } catch {
      return;
    }
    if (cut > 0) this.last = place;
    if (event && typeof event === "object") this.hear.event(event);
  }

  /** What is known here is not what the server continues from. A server that says so again and again is asked less often. */
  anew() {
    this.close();
    this.boot = null;
    if (this.tries === 0) {
      this.tries = 1;
      this.begin();
    } else this.again(this.pause(), "the server starts over");
  }

  /**
   * The stream is gone. It is asked for again, from the newest event on; another process answers with a reset. A server ends
   * long streams now and then: of one that lasted nothing is said until it does not come again.
   */
  lost() {
    this.close();
    const lasted = this.tries === 0;
    this.again(this.pause(), "no connection", lasted);
  }

  pause(told_ms = 0) {
    const pause = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    // Many pages may have lost the same server: they do not come back in one instant.
    return Math.max(told_ms, pause * (0.75 + Math.random() / 2));
  }

  again(pause_ms, why = "no connection", quiet = false) {
    if (this.source) return;
    clearTimeout(this.timer);
    const words = pause_ms >= 1000 ? `${why}, trying again in ${Math.ceil(pause_ms / 1000)} s` : `${why}, trying again`;
    if (!quiet) this.hear.state({ live: false, words });
    this.timer = setTimeout(() => (this.boot === null ? this.begin() : this.listen()), pause_ms);
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.steady);
    this.source?.close();
    this.source = null;
  }

  /** How things stand. A look that is long overdue means that the machine slept: then the stream is not believed either. */
  async look() {
    clearTimeout(this.look_timer);
    const overdue = Date.now() - this.looked > SLEPT_MS;
    this.looked = Date.now();
    if (overdue && this.source) this.lost();
    const status = await get_json("/status");
    const was_silent = this.silent > 0;
    this.silent = status.ok ? 0 : this.silent + 1;
    this.hear.status(status.ok ? status.json : null);
    // A stream whose server is gone without a word stays open for long. Three looks without an answer say more.
    if (this.silent === 3 && this.source) this.lost();
    // The server is back: its stream is not waited for any longer. One that only takes no more streams is.
    if (status.ok && was_silent && !this.source) this.again(0);
    const pause = Math.max(status.retry_ms, document.hidden ? STATUS_HIDDEN_MS : STATUS_MS);
    clearTimeout(this.look_timer);
    this.look_timer = setTimeout(() => this.look(), pause);
  }
}

/** What the server says at a path: `{ok, json, words, retry_ms}`. It never throws, and waits no longer than it should. */
async function get_json(path, headers = {}, patience_ms = PATIENCE_MS) {
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), patience_ms);
  try {
    const answer = await fetch(path, {
      headers,
      signal: patience.signal,
      cache: "no-store",
      credentials: "same-origin",
    });
    const retry_ms = Math.min(60, Number(answer.headers.get("retry-after")) || 0) * 1000;
    const json = await answer.json().catch(() => null);
    const words = json?.error ?? `the server answers ${answer.status}`;
    return { ok: answer.ok && json !== null, status: answer.status, json, words: brief(words, 300), retry_ms };
  } catch {
    return { ok: false, status: 0, json: null, words: "no connection", retry_ms: 0 };
  } finally {
    clearTimeout(timer);
  }
}

let turn = Promise.resolve();

/** The same of what takes long: one after another, and again once the server has time, as it says when. */
async function get_slowly(path, headers = {}) {
  for (let tries = 1; ; tries += 1) {
    const answering = turn.then(() => get_json(path, headers, SLOW_MS));
    turn = answering;
    const answer = await answering;
    if (answer.status !== 503 || answer.retry_ms === 0 || tries === SLOW_TRIES) return answer;
    // Others that wait have their turn meanwhile, and pages do not come back in one instant.
    await new Promise((rested) => setTimeout(rested, answer.retry_ms * (0.75 + Math.random() / 2)));
  }
}
