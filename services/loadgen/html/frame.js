// Scales, axes, and a figure that is drawn as wide as its place and can be read with pointer and keys.

const MARGIN = { left: 46, right: 14, top: 10, bottom: 22 };

function niceStep(length, count) {
  const rough = length / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((step) => step * power >= rough * 0.999) * power;
}

function linearScale(low, high, from, to, count = 5) {
  const span = high - low || 1;
  const place = (value) => from + ((value - low) / span) * (to - from);
  const step = niceStep(span, count);
  const first = Math.ceil(low / step - 1e-9);
  const ticks = range(Math.floor(high / step + 1e-9) - first + 1).map((index) => (first + index) * step);
  return { place, ticks, low, high, isLog: false };
}

function logScale(low, high, from, to, room) {
  const span = Math.log(high / low) || 1;
  const place = (value) => from + (Math.log(Math.max(value, low) / low) / span) * (to - from);
  const powers = range(Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1).map((index) => index + Math.floor(Math.log10(low)));
  const all = (steps) => powers.flatMap((power) => steps.map((step) => step * 10 ** power)).filter((value) => value >= low * 0.999 && value <= high * 1.001);
  const ticks = [[1, 2, 5], [1, 3], [1]].map(all).find((found) => found.length <= room) || all([1]);
  const every = Math.ceil(ticks.length / Math.max(room, 2));
  return { place, ticks: ticks.filter((_, index) => index % every === 0), low, high, isLog: true };
}

// {factor, sign} with which whole numbers up to this size have room beside an axis.
function countUnit(high) {
  if (high >= 1e6) return { factor: 1e-6, sign: "\u00a0M" };
  return high >= 1e5 ? { factor: 1e-3, sign: "\u00a0k" } : { factor: 1, sign: "" };
}

// Labels of ticks; those of a linear axis share one unit.
function tickTexts(scale, unit) {
  if (unit === "share") return scale.ticks.map((value) => `${+(value * 100).toPrecision(6)} %`);
  if (unit === "s") return scale.ticks.map((value) => exactTime(value, scale.isLog ? value : scale.high));
  const { factor, sign } = countUnit(scale.high);
  return scale.ticks.map((value) => `${(+(value * factor).toPrecision(6)).toLocaleString("en")}${value ? sign : ""}`);
}

function yAxis(scale, unit, left, right) {
  const texts = tickTexts(scale, unit);
  return s("g", { class: "axis" }, scale.ticks.map((value, index) => {
    const y = Math.round(scale.place(value)) + 0.5;
    return [s("line", { class: "rule", x1: left, x2: right, y1: y, y2: y }),
      s("text", { x: left - 6, y: y + 3.5, "text-anchor": "end" }, texts[index])];
  }));
}

function xAxis(scale, unit, left, right, y) {
  const texts = tickTexts(scale, unit);
  return s("g", { class: "axis" }, s("line", { class: "base", x1: left, x2: right, y1: y + 0.5, y2: y + 0.5 }),
    scale.ticks.map((value, index) => {
      const x = Math.round(scale.place(value)) + 0.5;
      const half = texts[index].length * 3.5;
      const centre = Math.min(Math.max(x, half), right + MARGIN.right - half);
      return [s("line", { class: "base", x1: x, x2: x, y1: y, y2: y + 4 }),
        s("text", { x: centre, y: y + 16, "text-anchor": "middle" }, texts[index])];
    }));
}

// `draw(width)` gives {children, places}: what is drawn, and the x of each value that can be pointed at.
// `told(index)` shows the value at a place; null: nothing is pointed at.
function plot(label, height, draw, told = null) {
  const root = s("svg", { class: "plot", height, role: "img", "aria-label": label, tabindex: told ? 0 : null });
  const cursor = s("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
  const place = h("div", { class: "plot-place" }, root);
  let places = [];
  let at = null;
  const point = (index) => {
    at = index;
    cursor.setAttribute("visibility", index === null ? "hidden" : "visible");
    if (index !== null) for (const name of ["x1", "x2"]) cursor.setAttribute(name, places[index]);
    told(index);
  };
  const redraw = (width) => {
    const drawn = draw(width);
    places = drawn.places || [];
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.replaceChildren(...[drawn.children].flat(Infinity).filter(Boolean), cursor);
  };
  if (told) listen(root, () => places, () => at, point);
  watchWidth(place, redraw);
  return place;
}

function nearest(places, x) {
  return places.reduce((best, place, index) => (Math.abs(place - x) < Math.abs(places[best] - x) ? index : best), 0);
}

function listen(root, places, at, point) {
  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    if (places().length) point(nearest(places(), event.clientX - box.left));
  });
  root.addEventListener("pointerleave", () => point(null));
  root.addEventListener("blur", () => point(null));
  root.addEventListener("keydown", (event) => {
    const last = places().length - 1;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    const to = step ? (at() === null ? (step > 0 ? 0 : last) : at() + step) : { Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    point(Math.min(Math.max(to, 0), last));
  });
}

function watchWidth(place, redraw) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now && now !== width) redraw((width = now));
  }).observe(place);
}

// Names and values of the lines, in one row: the values at the cursor, or `standing` without one.
function legend(items) {
  const values = items.map(() => h("span", { class: "value" }));
  const node = h("p", { class: "legend" }, items.map(({ name, className }, index) =>
    h("span", { class: "item" }, h("span", { class: `swatch ${className}`, "aria-hidden": "true" }), `${name} `, values[index])));
  const at = h("span", { class: "at", role: "status" });
  node.append(at);
  return { node, show: (texts, where = "") => { texts.forEach((text, index) => { values[index].textContent = text; }); at.textContent = where; } };
}
