// Charts: the last two minutes as lines, drawn with a few paths.

import { h, live, s } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 120;
const SPAN_MS = 120_000;
const GAP_MS = 6_000;

/**
 * A card with the current value of each series and its course.
 * `series`: {name, label, value(point), text(value)}, the first one filled.
 */
export function chart({ title, note, series, points, end, wide }) {
  const seen = points.filter((point) => end - Date.parse(point.at) <= SPAN_MS);
  const top = nice(Math.max(0, ...series.flatMap((one) => seen.map((point) => one.value(point) ?? 0))));
  const says = series.map((one) => `${one.label} ${one.text(known(one, seen))}`).join(", ");
  return h(
    "section",
    { class: wide ? "card chart wide" : "card chart", "data-key": title },
    h("h2", {}, title, note && h("small", {}, note)),
    h("dl", { class: "figures" }, series.map((one, number) => figure(one, number, seen, series.length > 1))),
    h(
      "div",
      { class: "plot" },
      s(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}, the last two minutes: ${says}` },
        [0, 0.5, 1].map((part) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(part * top, top), y2: y(part * top, top) })),
        series.map((one, number) => course(one, number, seen, end, top)),
      ),
      h("span", { class: "top", "aria-hidden": "true" }, series[0].text(top)),
    ),
    h("p", { class: "axis", "aria-hidden": "true" }, h("span", {}, "2 min ago"), h("span", {}, "now")),
  );
}

/** The newest value: of a rate there is none in the first second. */
function known(one, points) {
  const point = points.findLast((point) => one.value(point) !== null && one.value(point) !== undefined);
  return point ? one.value(point) : null;
}

function figure(one, number, points, isNamed) {
  const value = known(one, points);
  return h(
    "div",
    { class: `series-${number}` },
    h("dt", { class: isNamed ? null : "hidden" }, one.label),
    h("dd", {}, live(one.name, one.text(value)), one.unit && h("small", {}, ` ${one.unit}`)),
  );
}

function course(one, number, points, end, top) {
  const pieces = [[]];
  let before = null;
  for (const point of points) {
    const value = one.value(point);
    const at = Date.parse(point.at);
    if (value === null || value === undefined) continue;
    if (before !== null && at - before > GAP_MS) pieces.push([]);
    pieces.at(-1).push([x(at, end), y(value, top)]);
    before = at;
  }
  const drawn = pieces.filter((piece) => piece.length > 0);
  const line = drawn.map((piece) => `M${piece.map((place) => place.join(" ")).join("L")}`).join("");
  const area = drawn
    .map((piece) => `M${piece[0][0]} ${HEIGHT}L${piece.map((place) => place.join(" ")).join("L")}L${piece.at(-1)[0]} ${HEIGHT}Z`)
    .join("");
  return [
    number === 0 && s("path", { class: "area", d: area }),
    s("path", { class: `line series-${number}`, d: line }),
  ];
}

function x(at, end) {
  return Math.round((WIDTH * (SPAN_MS - (end - at))) / SPAN_MS);
}

function y(value, top) {
  return Math.round((HEIGHT - 4 - (HEIGHT - 10) * (value / top)) * 10) / 10;
}

/** The next number of a scale that people read easily. */
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}
