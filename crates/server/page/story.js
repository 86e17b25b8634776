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

// As a terminal tells them (crates/telemetry/src/terminal.rs): who reads both reads the same.
const leapt = (event) => {
  const which = event.figure === "grad_norm" ? "norm" : "loss";
  const rows = `rows ${event.first_row} to ${event.first_row + Math.max(0, event.rows - 1)}`;
  const usual = `${figure(number(event.median))} is usual, ${Math.round(number(event.sigmas))} sigmas`;
  return `step ${event.leapt} leapt: ${which} ${figure(number(event.value))}, ${usual}; ${rows}`;
};

const terms = (event) =>
  Object.entries(event.terms ?? {})
    .map(([name, value]) => `${name} ${figure(number(value))}`)
    .join(", ");

/** How a run ended, and what is to be done with it. */
function ended(event) {
  const done = count(event.step ?? 0);
  const kept = Number.isFinite(event.kept)
    ? `the newest checkpoint is of step ${count(event.kept)}`
    : "there is no checkpoint yet";
  if (event.why === "finished") return `done: ${done} steps; checkpoints are in ${event.place}${peak(event.memory)}`;
  if (event.why === "failed" && event.saved) return `failed after step ${done}, which is saved`;
  if (event.why === "failed") return `failed after step ${done}, which is not saved; ${kept}`;
  if (event.why === "guard" && event.saved)
    return `paused and saved after step ${done}, since a step leapt; the same command continues`;
  const asked = `${ENDS[event.why] ?? event.why}; the same command continues`;
  if (event.saved) return `stopped and saved after step ${done}: ${asked}`;
  return `stopped after step ${done}, which is not saved; ${kept}: ${asked}`;
}

function peak(memory) {
  if (!memory) return "";
  return `; at most ${bytes(memory.peak_bytes)} of the device at once, ${bytes(memory.planned_bytes)} by plan`;
}

const STORIES = {
  start: {
    tone: "good",
    tell(event) {
      const odd = (event.surprises ?? []).map(
        (one) =>
          `${one.term} should lie between ${figure(number(one.low))} and ${figure(number(one.high))}: ${one.hint}`,
      );
      const how = event.random ? "at random" : "from weights it was given";
      return [`began ${how} with ${terms(event)}`, ...odd].join("; ");
    },
  },
  checkpoint: {
    tone: "calm",
    tell: (event) =>
      `saved checkpoint ${event.place}, written in ${duration(number(event.seconds))}` +
      (number(event.stall_s) >= 1 ? `; the next step waited ${duration(number(event.stall_s))} for it` : ""),
  },
  resume: { tone: "good", tell: (event) => `continuing after step ${count(event.step)}, from ${event.place}` },
  warning: { tone: "notice", tell: (event) => `${event.message}${event.hint ? `; ${event.hint}` : ""}` },
  audit: {
    tone: "calm",
    tell(event) {
      const [found, promised, error] = ["found", "promised", "error"].map((key) => figure(number(event[key])));
      return `audited ${event.view}: ${event.what}: ${found}, promised ${promised}, error ${error}, of ${event.of}`;
    },
  },
  generation: {
    tone: "calm",
    tell(event) {
      const data = event.source ? `source ${event.source}` : "the data";
      return `rows from ${event.row} on are of generation ${event.generation} of ${data}, ${event.before} before`;
    },
  },
  starved: {
    tone: "notice",
    tell: (event) =>
      `starved by ${event.by}: ${duration(number(event.seconds))} until part ${event.part + 1} of ${event.parts} was there`,
  },
  change: { tone: "calm", tell: (event) => String(event.message ?? event.how) },
  left_out: {
    tone: "notice",
    tell(event) {
      const source = event.source ? ` of ${event.source}` : "";
      const place = `${event.shard}, row group ${event.group}, row ${event.row_in_group}`;
      const documents = `documents ${(event.documents ?? []).join(", ")}`;
      return (
        `row ${event.row} is left out, it cannot be made (sample ${event.sample}${source} = ${place}; ${documents}): ` +
        event.why
      );
    },
  },
  stop: {
    tone: "notice",
    tone_of: (event) =>
      event.why === "finished" ? "good" : ["failed", "guard"].includes(event.why) ? "alarm" : "notice",
    tell: (event) => ended(event) + (event.error ? `: ${event.error}` : ""),
  },
  leap: { tone: "alarm", tell: leapt },
  skip: {
    tone: "notice",
    tell(event) {
      const worst = event.suspects?.[0];
      const of = worst && `${figure(number(worst.loss))}; ${(worst.documents ?? []).join(", ")}`;
      return `passed over: ${leapt(event)}${worst ? `; its hardest row is ${worst.row} (loss ${of})` : ""}`;
    },
  },
  note: { tone: "calm", tell: (event) => String(event.text ?? "") },
  prepare_start: {
    tone: "good",
    tell(event) {
      const { largest_compressed: largest, change, tokenized_by: by } = event;
      const plan =
        `${count(event.files)} files, ${bytes(event.bytes)} in ${count(event.parts)} parts for ` +
        `${count(event.lanes)} lanes; at most ${bytes(event.text_bytes_max)} of text in memory`;
      const words = largest && `the largest compressed file takes one lane from end to end: ${largest.name}, `;
      return [plan, by && `text to ids: ${by}`, change, words && words + bytes(largest.bytes)].filter(Boolean).join("; ");
    },
  },
  prepare_end: {
    tone: "good",
    tell(event) {
      if (event.nothing_to_do) return `${event.place}: nothing to do, all ${count(event.parts_kept)} parts are there`;
      return (
        `${event.place}: ${count(event.parts_made)} parts made, ${count(event.parts_kept)} kept from before, ` +
        `${bytes(event.bytes_read)} of input read, in ${duration(number(event.seconds))}; ` +
        `${count(event.documents)} documents, ${short(event.tokens)} tokens`
      );
    },
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
