// Export of a plot: a self-contained SVG file, or its values as CSV.

const KEPT_STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linejoin",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
];
const KEPT_HEAD = 26;

function keep_picture(chart) {
  chart.draw();
  const { clientWidth: width, clientHeight: height } = chart.svg;
  const copy = chart.svg.cloneNode(true);
  // The file has no style sheet, so each element gets its computed style.
  const [from, to] = [chart.svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of KEPT_STYLES) to[i].setAttribute(name, style.getPropertyValue(name));
  });
  copy.querySelector(".cursor")?.remove();
  const ground = getComputedStyle(chart.element).backgroundColor;
  const ink = getComputedStyle(chart.element).color;
  const font = getComputedStyle(chart.element).fontFamily;
  const head = draw("g", { "font-family": font, "font-size": 12, fill: ink });
  head.append(draw("text", { x: 8, y: 17, "font-weight": 600, text: `${view.run?.name ?? ""} · ${chart.plot.title}` }));
  let rows = 0;
  for (const curve of chart.curves.filter((curve) => !chart.hidden.has(curve.id))) {
    const colour = getComputedStyle(chart.legend.querySelector(`.curve.${curve.colour}`) ?? chart.element).stroke;
    const y = KEPT_HEAD + height + 12 + 16 * rows;
    const [x1, x2] = [MARGIN.left, MARGIN.left + 24];
    const line = {
      x1,
      x2,
      y1: y - 4,
      y2: y - 4,
      stroke: colour,
      "stroke-width": 2,
      "stroke-dasharray": curve.dash || null,
    };
    const dot =
      curve.part.form === "points" ? draw("circle", { cx: (x1 + x2) / 2, cy: y - 4, r: 3, fill: colour }) : null;
    head.append(...[draw("line", line), dot, draw("text", { x: x2 + 8, y, text: curve.label })].filter(Boolean));
    rows += 1;
  }
  const tall = KEPT_HEAD + height + 16 * rows + 10;
  for (const [name, value] of Object.entries({ x: 0, y: KEPT_HEAD, width, height })) copy.setAttribute(name, value);
  for (const name of ["class", "tabindex", "role", "id"]) copy.removeAttribute(name);
  const file = draw(
    "svg",
    { width, height: tall, viewBox: `0 0 ${width} ${tall}` },
    draw("rect", { width, height: tall, fill: ground }),
    head,
    copy,
  );
  save(`${file_name(chart)}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(file));
}

function keep_values(chart) {
  const rows = [["run", "curve", ...AXES_OF_POINTS, "mean", "min", "max"]];
  for (const { run, label, columns, series } of chart.curves) {
    for (let i = 0; i < columns.length; i += 1) {
      if (series.mean[i] === null) continue;
      const at = AXES_OF_POINTS.map((axis) => columns.axes[axis][i]);
      rows.push([run.name, label, ...at, series.mean[i], series.min?.[i], series.max?.[i]]);
    }
  }
  save(`${file_name(chart)}.csv`, "text/csv", rows.map((row) => row.map(cell).join(",")).join("\r\n"));
}

/** CSV cell. A text that a spreadsheet would read as a formula gets an apostrophe in front of it. */
function cell(value) {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return String(value);
  const text = printable(value);
  return `"${(/^[=+\-@]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

function file_name(chart) {
  return `${view.run?.name ?? "run"}-${chart.plot.title}`.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 100);
}

function save(name, type, text) {
  const place = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: place, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(place), 10_000);
}
