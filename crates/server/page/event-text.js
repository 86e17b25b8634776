// Text and tone of an event. The text is the server's (`summary`), the same that a terminal shows; an event without one,
// of a later version, is shown by its keys.
//
// A tone says how much an event matters: `calm`, `good`, `notice`, `alarm`.

const TONES = {
  start: "good",
  resume: "good",
  warning: "notice",
  starved: "notice",
  left_out: "notice",
  loss_spike: "alarm",
  skip: "notice",
  prepare_start: "good",
  prepare_end: "good",
};

const ENVELOPE = new Set(["version", "time", "elapsed_s", "kind", "step", "epoch", "rows_seen", "tokens_seen"]);

/** An event in words, at most 2,000 characters. */
function story(event) {
  if (typeof event.summary === "string") return brief(event.summary, 2000);
  const keys = Object.entries(event).filter(([key]) => !ENVELOPE.has(key));
  return brief(
    keys.map(([key, value]) => `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", "),
    2000,
  );
}

function tone(event) {
  if (event.kind === "stop") {
    return { finished: "good", failed: "alarm", guard: "alarm" }[event.why] ?? "notice";
  }
  return TONES[event.kind] ?? "calm";
}
