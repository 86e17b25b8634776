// Measurements of the page for drive.py, evaluated in the page.

/** Relative luminance of a color (WCAG). */
function light(colour) {
  const [r, g, b] = colour.map((value) =>
    value <= 10.31475 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function ratio(one, other) {
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

function parse(text) {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return text.startsWith("rgb") ? [...numbers.slice(0, 3), numbers[3] ?? 1] : null;
}

/** Blends a color with an alpha over another. */
function over(above, below) {
  return [0, 1, 2].map((k) => above[k] * above[3] + below[k] * (1 - above[3])).concat(1);
}

/** Returns the background color of an element. */
function ground(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.unshift(parse(getComputedStyle(at).backgroundColor));
  return layers.filter(Boolean).reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
}

/** Counts the visible texts, and lists texts and curves with insufficient contrast. */
function contrasts() {
  const poor = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const element = walker.currentNode.parentElement;
    if (!text || element.disabled || element.closest("script, style, noscript, .unseen, .skip, title, option"))
      continue;
    if (!element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    const svg = element.closest("svg");
    const style = getComputedStyle(element);
    // The crosshair labels have their own background.
    const plate = element.matches(".hair-word") ? parse(getComputedStyle(element.previousSibling).fill) : null;
    const back = plate ?? ground(svg ? svg.parentElement : element);
    const got = ratio(over(parse(svg ? style.fill : style.color), back), back);
    seen += 1;
    if (got < 4.5)
      poor.push(`${element.tagName}.${element.getAttribute("class")} “${text.slice(0, 30)}” ${got.toFixed(2)}`);
  }
  for (const curve of document.querySelectorAll(".plot .curve:not(.raw), .plot .point")) {
    const style = getComputedStyle(curve);
    const got = ratio(parse(curve.matches(".curve") ? style.stroke : style.fill), ground(curve.closest(".plot")));
    if (got < 3) poor.push(`curve ${curve.getAttribute("class")} ${got.toFixed(2)}`);
  }
  return [seen, [...new Set(poor)]];
}

/** The eight colors of the curves. */
function palette() {
  const probe = document.body.appendChild(document.createElement("i"));
  const all = Array.from({ length: 8 }, (_, n) => {
    probe.style.color = `var(--c${n})`;
    return parse(getComputedStyle(probe).color).slice(0, 3);
  });
  probe.remove();
  return all;
}

/** Visible interactive elements. */
function reachable() {
  const all = document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']");
  return [...all].filter(
    (one) => !one.disabled && one.checkVisibility({ checkVisibilityCSS: true }) && !one.closest("dialog"),
  );
}

function named(element) {
  return `${element.tagName}.${element.getAttribute("class")}#${element.id} ${element.textContent.slice(0, 20)}`;
}

/** Interactive elements that are smaller than a touch target. */
function small() {
  const pressed = reachable().filter((one) => one.matches("button, summary, select, input:not([type=checkbox])"));
  const boxes = pressed.map((one) => [one, one.getBoundingClientRect()]);
  return boxes.filter(([, box]) => box.height < 24 || box.width < 20).map(([one]) => named(one));
}

/** Elements that overflow the window horizontally. */
function wide(width) {
  const own = [...document.querySelectorAll("body *")].filter(
    (one) => !one.closest(".scroll, .toml, nav, .unseen, .skip, svg"),
  );
  return own.filter((one) => one.getBoundingClientRect().right > width + 1).map(named);
}

/** Collects the focusable elements before the tab key is pressed. */
function expect_focus() {
  const first = document.querySelector(".skip");
  Object.assign(window, { reach: reachable(), got: new Set([first]), dim: [] });
  first.focus();
}

/** After a key press: whether the focus is on the first element again, and whether it is visible. */
function focused() {
  const here = document.activeElement;
  got.add(here);
  const style = getComputedStyle(here);
  const seen = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
  if (here !== document.body && !seen) dim.push(named(here));
  return here.matches(".skip");
}

function missed() {
  return [reach.filter((one) => one.isConnected && !got.has(one)).map(named), dim];
}

/** Feeds many reports one after another, like the event stream. Returns the milliseconds. */
function add(many) {
  const start = performance.now();
  let step = view.run.groups.reports.axes.step.at(-1);
  for (let n = 0; n < many; n += 1) {
    step += 10;
    const loss = 4 + Math.sin(n / 50) / 5 + Math.random() / 10;
    const at = { version: 1, time: 1.7e12 + n * 1000, elapsed_s: n, step };
    const one = (value) => [value, value, value];
    const values = {
      loss: [loss, loss - 0.1, loss + 0.1],
      "terms/mlm": one(loss),
      "terms/tc": one(0.1),
      "metrics/mlm.accuracy": one(0.4),
      lr: one(1e-4),
      grad_norm: [2, 1.8, 2.3],
      "speed/tokens_per_s": one(27_000),
    };
    const point = {
      of: "reports",
      tokens: step * 7488,
      rows: step * 64,
      epoch: n / 1000,
      hours: n / 3600,
      ...at,
      values,
    };
    view.run.take({ ...at, kind: "report", point });
    if (n % 4 === 0) view.run.take({ ...at, kind: "note", text: "m".repeat(300) });
    data_came();
  }
  return performance.now() - start;
}

/** Milliseconds to draw all visible plots, the crosshair, and the time line. */
function drawing() {
  const [from, to] = view.window("run");
  view.cursor = { domain: "run", x: (from + to) / 2 };
  return ["plots", "cursor", "timeline"].map((name) => {
    const start = performance.now();
    DRAWERS.get(name)();
    return Math.round(performance.now() - start);
  });
}
