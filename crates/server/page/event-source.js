// Data of the server: the history once, each event as it arrives, and the status every two seconds.
//
// The feed retries forever. The EventSource of the browser reconnects by itself, but not after a response that is no
// stream (an error of a proxy, the limit of clients), and it does not detect that a laptop was suspended.

const STATUS_MS = 2000;
const STATUS_HIDDEN_MS = 30_000;
// Browsers run timers of background pages about once a minute.
const SLEPT_MS = 180_000;
const PATIENCE_MS = 8000;
// Timeout of slow requests: other runs, rows, the history. The server handles one at a time, and so does the page.
const SLOW_MS = 30_000;
const SLOW_TRIES = 8;
// After a stream of at least this duration, the retry delay is reset.
const STEADY_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];

class Feed {
  /** `hear` has the callbacks history(json), event(json), status(json or null) and state({live, words}). */
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

  /** Loads the history, then streams later events. */
  async begin() {
    this.close();
    const asked = (this.asked += 1);
    this.hear.state({ live: false, words: this.tries > 0 ? "reconnecting…" : "connecting…" });
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
    source.addEventListener("reset", () => this.reload());
    source.addEventListener("error", () => {
      clearTimeout(slow);
      if (this.source === source) this.lost();
    });
  }

  message(message) {
    const cut = message.lastEventId.lastIndexOf("-");
    const [boot, place] = [message.lastEventId.slice(0, cut), Number(message.lastEventId.slice(cut + 1))];
    if (cut > 0 && boot !== this.boot) {
      this.reload();
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

  /** Reloads after a reset by the server. Repeated resets increase the delay. */
  reload() {
    this.close();
    this.boot = null;
    if (this.tries === 0) {
      this.tries = 1;
      this.begin();
    } else this.again(this.pause(), "the server has restarted");
  }

  /**
   * Reconnects after the end of the stream, at the newest event; another process answers with a reset. The server ends
   * long streams regularly, so the end of a stable stream is reported only if the reconnection fails.
   */
  lost() {
    this.close();
    const was_stable = this.tries === 0;
    this.again(this.pause(), "no connection", was_stable);
  }

  pause(min_ms = 0) {
    const pause = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    // Random jitter, so that many pages do not reconnect to the same server at once.
    return Math.max(min_ms, pause * (0.75 + Math.random() / 2));
  }

  again(pause_ms, why = "no connection", quiet = false) {
    if (this.source) return;
    clearTimeout(this.timer);
    const words = pause_ms >= 1000 ? `${why}, retrying in ${Math.ceil(pause_ms / 1000)} s` : `${why}, retrying`;
    if (!quiet) this.hear.state({ live: false, words });
    this.timer = setTimeout(() => (this.boot === null ? this.begin() : this.listen()), pause_ms);
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.steady);
    this.source?.close();
    this.source = null;
  }

  /** Polls the status. After a long delay since the last poll, the machine was suspended; the stream is reopened. */
  async look() {
    clearTimeout(this.look_timer);
    const overdue = Date.now() - this.looked > SLEPT_MS;
    this.looked = Date.now();
    if (overdue && this.source) this.lost();
    const status = await get_json("/status");
    const was_silent = this.silent > 0;
    this.silent = status.ok ? 0 : this.silent + 1;
    this.hear.status(status.ok ? status.json : null);
    // A stream may stay open long after its server disappeared. Three failed polls close it.
    if (this.silent === 3 && this.source) this.lost();
    // The server is back, so the stream is reopened at once.
    if (status.ok && was_silent && !this.source) this.again(0);
    const pause = Math.max(status.retry_ms, document.hidden ? STATUS_HIDDEN_MS : STATUS_MS);
    clearTimeout(this.look_timer);
    this.look_timer = setTimeout(() => this.look(), pause);
  }
}

/** Fetches JSON from a path: `{ok, status, json, words, retry_ms}`. Never throws; has a timeout. */
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
    const words = json?.error ?? `server error: status ${answer.status}`;
    return { ok: answer.ok && json !== null, status: answer.status, json, words: brief(words, 300), retry_ms };
  } catch {
    return { ok: false, status: 0, json: null, words: "no connection", retry_ms: 0 };
  } finally {
    clearTimeout(timer);
  }
}

let turn = Promise.resolve();

/** Fetches slow JSON: one request at a time, with retries after the delay that the server requests. */
async function get_slowly(path, headers = {}) {
  for (let tries = 1; ; tries += 1) {
    const answering = turn.then(() => get_json(path, headers, SLOW_MS));
    turn = answering;
    const answer = await answering;
    if (answer.status !== 503 || answer.retry_ms === 0 || tries === SLOW_TRIES) return answer;
    // Other requests of this page run meanwhile; random jitter spreads the pages.
    await new Promise((resolve) => setTimeout(resolve, answer.retry_ms * (0.75 + Math.random() / 2)));
  }
}
