// What each kind of event says, in a sentence. A kind that this page does not know is told with its keys.
//
// A tone says how much an event matters: `calm`, `good`, `notice`, `alarm`.

const ENDS = {
  finished: "all steps are done",
  interrupt: "somebody at the terminal asked for it",
  terminate: "the system asked for it",
  hangup: "its terminal went away",
  requeue: "a scheduler will start it again",
  guard: "a step leapt, and the guard pauses",
  failed: "an error",
};

const leapt = (event) => {
  const which = event.figure === "grad_norm" ? "norm of the gradient" : "loss";
  const far = `${figure(number(event.value))} after a median of ${figure(number(event.median))}`;
  return `step ${count(event.leapt)}: ${which} ${far}, ${figure(number(event.sigmas))} deviations off`;
};

const STORIES = {
  start: {
    tone: "good",
    tell(event) {
      const terms = Object.entries(event.terms ?? {}).map(([name, value]) => `${name} ${figure(number(value))}`);
      const odd = (event.surprises ?? []).map(
        (one) =>
          `${one.term} should lie between ${figure(number(one.low))} and ` + `${figure(number(one.high))}: ${one.hint}`,
      );
      return [`began ${event.random ? "at random" : "from given weights"} with ${terms.join(", ")}`, ...odd].join("; ");
    },
  },
  checkpoint: {
    tone: "calm",
    tell: (event) =>
      `kept ${event.place}, written in ${duration(number(event.seconds))}` +
      (number(event.stall_s) > 0.05 ? `; training waited ${duration(number(event.stall_s))} for it` : ""),
  },
  resume: { tone: "good", tell: (event) => `goes on from ${event.place}` },
  warning: {
    tone: "notice",
    tell: (event) => `${event.topic}: ${event.message}${event.hint ? ` (${event.hint})` : ""}`,
  },
  generation: { tone: "calm", tell: (event) => `rows are of generation ${event.generation} from here on` },
  starved: {
    tone: "notice",
    tell: (event) =>
      `waited ${duration(number(event.seconds))} for part ${event.part} of ${event.parts} by ${event.by}`,
  },
  change: { tone: "calm", tell: (event) => `${event.how}: ${event.message}` },
  left_out: {
    tone: "notice",
    tell: (event) =>
      `row ${event.row} is left out: ${event.why} (${event.source ? `${event.source}, ` : ""}sample ` +
      `${event.sample}, ${event.shard}; documents ${(event.documents ?? []).join(", ")})`,
  },
  stop: {
    tone: "notice",
    tone_of: (event) =>
      event.why === "finished" ? "good" : ["failed", "guard"].includes(event.why) ? "alarm" : "notice",
    tell: (event) =>
      `ended: ${ENDS[event.why] ?? event.why}; ${event.saved ? "every step is saved" : "not every step is saved"}` +
      (Number.isFinite(event.kept) ? `, the newest checkpoint is of step ${count(event.kept)}` : "") +
      (event.error ? `: ${event.error}` : ""),
  },
  leap: {
    tone: "alarm",
    tell: (event) => `${leapt(event)}; rows ${event.first_row} to ${event.first_row + event.rows - 1}`,
  },
  skip: {
    tone: "notice",
    tell(event) {
      const rows = (event.suspects ?? []).slice(0, 3).map((one) => `row ${one.row} with ${figure(number(one.loss))}`);
      return `passed over ${leapt(event)}${rows.length > 0 ? `; hardest: ${rows.join(", ")}` : ""}`;
    },
  },
  note: { tone: "calm", tell: (event) => String(event.message ?? event.text ?? event.note ?? "") },
  prepare_start: {
    tone: "good",
    tell: (event) =>
      `${count(event.files)} files, ${bytes(event.bytes)}, in ${count(event.parts)} parts on ` +
      `${count(event.lanes)} lanes${event.change ? `; ${event.change}` : ""}`,
  },
  prepare_end: {
    tone: "good",
    tell: (event) =>
      event.nothing_to_do
        ? `nothing was left to do in ${event.place}`
        : `${count(event.documents)} documents, ${short(event.tokens)} tokens in ${event.place}, ` +
          duration(number(event.seconds)),
  },
};

const ENVELOPE = new Set(["version", "time", "elapsed_s", "kind", "step", "epoch", "rows_seen", "tokens_seen"]);

/** An event in words. Hostile events may lack anything: what cannot be told is shown as it is. */
function story(event) {
  try {
    const told = STORIES[event.kind]?.tell(event);
    if (told !== undefined) return brief(told, 2000);
  } catch {
    /* Told by its keys, below. */
  }
  const keys = Object.entries(event).filter(([key]) => !ENVELOPE.has(key));
  return brief(
    keys.map(([key, value]) => `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", "),
    2000,
  );
}

function tone(event) {
  const known = STORIES[event.kind];
  return known?.tone_of?.(event) ?? known?.tone ?? "calm";
}
