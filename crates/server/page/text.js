"use strict";
// Formatting of numbers, times and untrusted text, and creation of elements.
//
// All data from the server may be hostile: a document, a name, a path. Therefore no function parses markup. Text goes
// into text nodes and attributes. Characters that change the text direction or are invisible are escaped first.

const NOTHING = "–";

// Characters that are invisible or change the text direction. Line breaks and tabs are replaced by symbols too, because
// a token is shown as one word.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;

function printable(text) {
  return String(text).replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\\u{${code.toString(16)}}`;
  });
}

/** Shortens a text to at most `most` characters and appends the full length. */
function brief(text, most) {
  const signs = printable(text);
  return signs.length > most ? `${signs.slice(0, most)}… (${count(signs.length)} characters)` : signs;
}

/** Parses a number of the server: non-finite numbers are strings, missing ones are null. */
function number(value) {
  if (typeof value === "number") return value;
  if (value === "NaN") return NaN;
  if (value === "Infinity") return Infinity;
  if (value === "-Infinity") return -Infinity;
  return null;
}

function count(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString("en") : NOTHING;
}

/** Formats a number with about four significant digits: 10.350, 0.0412, 4.40e−5. */
function figure(value) {
  if (value === null || value === undefined) return NOTHING;
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-3)
    return value.toExponential(2).replace("-", "−").replace("e+", "e").replace("e-", "e−");
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 1 });
  return value.toFixed(size >= 100 ? 2 : size >= 10 ? 3 : 4).replace("-", "−");
}

const SIZES = [
  [1e12, " T"],
  [1e9, " G"],
  [1e6, " M"],
  [1e3, " k"],
];

/** Formats a number with a unit prefix: 12.3 k, 4.56 M. */
function short(value) {
  if (!Number.isFinite(value)) return figure(value);
  const found = SIZES.find(([size]) => Math.abs(value) >= size);
  return found ? (value / found[0]).toPrecision(3) + found[1] : String(Number(value.toPrecision(3)));
}

/** Formats a round number with a unit prefix and without trailing zeros. */
function short_tick(value) {
  const [size, sign] = SIZES.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
  return Number((value / size).toPrecision(8)) + sign;
}

function bytes(value) {
  if (!Number.isFinite(value)) return figure(value);
  for (const [size, sign] of [
    [2 ** 40, " TiB"],
    [2 ** 30, " GiB"],
    [2 ** 20, " MiB"],
    [2 ** 10, " KiB"],
  ]) {
    if (Math.abs(value) >= size) return (value / size).toPrecision(3) + sign;
  }
  return `${Number(value.toPrecision(3))} B`;
}

/** Formats a round number of bytes without trailing zeros. */
function bytes_tick(value) {
  const size = byte_unit(Math.abs(value));
  const sign = { [2 ** 40]: "TiB", [2 ** 30]: "GiB", [2 ** 20]: "MiB", [2 ** 10]: "KiB" }[size] ?? "B";
  return `${Number((value / size).toPrecision(8))} ${sign}`;
}

function percent(value) {
  if (!Number.isFinite(value)) return figure(value);
  const hundredths = value * 100;
  return `${Math.abs(hundredths) < 0.05 ? Number(hundredths.toPrecision(1)) : Number(hundredths.toFixed(1))} %`;
}

/** Formats a duration with its two largest units: 3 d 4 h, 12 min 5 s, 4.2 s. */
function duration(seconds) {
  if (!Number.isFinite(seconds)) return NOTHING;
  if (Math.abs(seconds) < 0.1) return `${Number(seconds.toPrecision(1))} s`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  const [d, h, min, s] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  if (d > 0) return `${d} d ${h} h`;
  if (h > 0) return `${h} h ${min} min`;
  return min > 0 ? `${min} min ${s} s` : `${s} s`;
}

/** Formats a round duration without units that are zero. */
function duration_tick(seconds) {
  return duration(seconds).replace(/(?<=\S \S+) 0 \S+$/, "");
}

/** Time of day; with the date unless it is today. */
function clock(time, now = Date.now()) {
  if (!Number.isFinite(time)) return NOTHING;
  const date = new Date(time);
  const hours = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date(now).toDateString() ? hours : `${date.toLocaleDateString("sv-SE")} ${hours}`;
}

/** Date and time: 3 January 2026, 14:05. */
function day(time) {
  const date = new Date(time);
  const words = date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
  return `${words}, ${date.toLocaleTimeString("en-GB").slice(0, 5)}`;
}

/** Formatter of each unit. */
const UNITS = { plain: figure, percent, bytes, short, count, seconds: duration };

/** Creates an HTML element. `options` are attributes, `text`, `class` and `on` (listeners). */
function make(tag, options = {}, ...content) {
  return furnish(document.createElement(tag), options, content);
}

/** Creates an SVG element; see `make`. */
function draw(tag, options = {}, ...content) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), options, content);
}

function furnish(element, options, content) {
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = printable(value);
    else if (name === "on")
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...content.filter((child) => child !== null && child !== undefined));
  return element;
}

function find(id) {
  return document.getElementById(id);
}

/** Sets the text of an element if it has changed, which avoids a repaint. */
function say(element, text) {
  const signs = printable(text);
  if (element.textContent !== signs) element.textContent = signs;
}

/** Settings in the storage of the browser. */
const kept = {
  get(name, store = localStorage) {
    try {
      return store.getItem(`cloze.${name}`);
    } catch {
      return null;
    }
  },
  set(name, value, store = localStorage) {
    // If the browser denies storage, the setting lasts until the page is closed.
    try {
      if (value === null) store.removeItem(`cloze.${name}`);
      else store.setItem(`cloze.${name}`, value);
    } catch {}
  },
};
