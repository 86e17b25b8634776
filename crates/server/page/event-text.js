// Text and severity of an event. The text is the `summary` of the server, which the terminal shows too. An event
// without a summary, for example of a later version, is shown by its keys.
//
// Severities (tones) are `calm`, `good`, `notice` and `alarm`.

const TONES = {
  start: "good",
  resume: "good",
  warning: "notice",
  starved: "notice",
  bad_row: "notice",
  loss_spike: "alarm",
  skip: "notice",
  prepare_start: "good",
  prepare_end: "good",
};

const ENVELOPE = new Set(["version", "time", "elapsed_s", "kind", "step", "epoch", "rows_seen", "tokens_seen"]);

/** Text of an event, at most 2,000 characters. */
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
