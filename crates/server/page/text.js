"use strict";
// Numbers, times and foreign text in words, and the elements that hold them.
//
// Everything that comes over the wire may be hostile: a document, a name, a path. So nothing here reads markup. Text goes
// into text nodes and attributes, and signs that would turn the line around or hide in it are made visible first.

const NOTHING = "–";

// Signs that draw nothing or change the direction of what follows. A line break and a tab become pictures too, since a
// token of text is one word here.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;

function printable(text) {
  return String(text).replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\\u{${code.toString(16)}}`;
  });
}

/** At most so many signs of a text: what is longer is said to be. */
function brief(text, most) {
  const signs = printable(text);
  return signs.length > most ? `${signs.slice(0, most)}… (${count(signs.length)} signs)` : signs;
}

/** A number as the server writes it: those that are not finite are words, what is missing is null. */
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

/** Four digits that count, whatever the size: 10.35, 0.0412, 4.400e-5. */
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

/** 12.3 k, 4.56 M. */
function short(value) {
  if (!Number.isFinite(value)) return figure(value);
  const found = SIZES.find(([size]) => Math.abs(value) >= size);
  return found ? (value / found[0]).toPrecision(3) + found[1] : String(Number(value.toPrecision(3)));
}

/** The same of a round value, with no digit that says nothing. */
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

/** The same of a round value, with no digit that says nothing. */
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

/** The two largest units: 3 d 4 h, 12 min 5 s, 4.2 s. */
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

/** The same of a round time: no unit that is nothing. */
function duration_tick(seconds) {
  return duration(seconds).replace(/(?<=\S \S+) 0 \S+$/, "");
}

/** The time of the day, with the day where it is another one. */
function clock(time, now = Date.now()) {
  if (!Number.isFinite(time)) return NOTHING;
  const date = new Date(time);
  const hours = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date(now).toDateString() ? hours : `${date.toLocaleDateString("sv-SE")} ${hours}`;
}

/** A moment in words: 3 January 2026, 14:05. */
function day(time) {
  const date = new Date(time);
  const words = date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
  return `${words}, ${date.toLocaleTimeString("en-GB").slice(0, 5)}`;
}

/** How each sort of number is written. */
const UNITS = { plain: figure, percent, bytes, short, count, seconds: duration };

/** An element: its attributes, `text`, `class`, `on` (listeners), and what it holds. */
function make(tag, options = {}, ...content) {
  return furnish(document.createElement(tag), options, content);
}

/** The same of SVG. */
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

/** Sets a text if it is another one: what stands still is not drawn again. */
function say(element, text) {
  const signs = printable(text);
  if (element.textContent !== signs) element.textContent = signs;
}

/** A choice that the browser keeps, where it may. */
const kept = {
  get(name, store = localStorage) {
    try {
      return store.getItem(`cloze.${name}`);
    } catch {
      return null;
    }
  },
  set(name, value, store = localStorage) {
    // A browser may keep nothing for this page; then the choice lasts as long as the page.
    try {
      if (value === null) store.removeItem(`cloze.${name}`);
      else store.setItem(`cloze.${name}`, value);
    } catch {}
  },
};
