// One chart of a study: a line or a cloud of points for each deployment, with the intervals of its values.

const CHART_HEIGHT = 250;
const CLASSES = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
const classOf = (index) => CLASSES[index % CLASSES.length];
const FAR = 30; // times as much, and an axis of times is logarithmic

function extent(values) {
  return [Math.min(...values), Math.max(...values)];
}

function xScale(chart, known, right) {
  const [low, high] = extent([...known.map(([x]) => x), ...(isNumber(chart.x_bound) ? [chart.x_bound] : [])]);
  if (chart.x_unit !== "count" && low > 0 && high / low >= 4) return logScale(low * 0.9, high * 1.1, MARGIN.left, right, (right - MARGIN.left) / 60);
  const step = niceStep(high || 1, 4);
  return linearScale(0, Math.ceil(high / step) * step || 1, MARGIN.left, right, (right - MARGIN.left) / 90);
}

function yScale(chart, known, bottom) {
  const values = known.flatMap(([, y, low, high]) => [y, low ?? y, high ?? y]).filter((value) => value > 0);
  const [low, high] = extent([...values, ...(isNumber(chart.bound) ? [chart.bound] : [])]);
  if (chart.y_unit === "s" && values.length && high / low >= FAR) return logScale(low * 0.8, high * 1.2, bottom, MARGIN.top + 6, 5);
  const step = niceStep(values.length ? high : 1, 4);
  return linearScale(0, Math.ceil((values.length ? high : 1) / step) * step, bottom, MARGIN.top + 6, 4);
}

const tickUnit = (unit) => (unit === "s" || unit === "share" ? unit : "count");

function marker(x, y, index, text) {
  const title = s("title", {}, text);
  const size = 4;
  const kind = `mark-of ${classOf(index)}`;
  if (index % 3 === 1) return s("rect", { class: kind, x: x - size, y: y - size, width: 2 * size, height: 2 * size }, title);
  if (index % 3 === 2) return s("path", { class: kind, d: `M${x} ${y - 6}L${x + 5} ${y + 4}L${x - 5} ${y + 4}Z` }, title);
  return s("circle", { class: kind, cx: x, cy: y, r: size + 0.5 }, title);
}

function whisker(x, y, low, high, index, top, bottom) {
  if (!isNumber(low) || !isNumber(high)) return null;
  const [from, to] = [high, low].map((value) => Math.min(Math.max(y.place(value), top), bottom));
  return s("line", { class: `whisker ${classOf(index)}`, x1: x, x2: x, y1: from, y2: to });
}

function band([low, , high], x, bottom) {
  const [from, to] = [x.place(low), x.place(high)];
  return s("rect", { class: "crossing", x: from, width: Math.max(to - from, 2), y: MARGIN.top, height: bottom - MARGIN.top });
}

const said = (chart, line, [x, y], index) => line.labels[index] || `${line.name} at ${xText(chart, x)}: ${yText(chart, y)}`;
const xText = (chart, x) => (chart.x_unit === "s" ? time(x) : `${number(x)} ${chart.x_unit === "count" ? "" : chart.x_unit}`.trim());
const yText = (chart, y) => (chart.y_unit === "s" ? time(y) : chart.y_unit === "share" ? share(y) : number(y));

function drawLine(chart, line, index, x, y, bottom) {
  const places = line.points.map(([at, value]) => [x.place(at), y.place(value)]);
  const path = places.map(([px, py], step) => `${step ? "L" : "M"}${px} ${py}`).join("");
  return [chart.is_line && s("path", { class: `line ${classOf(index)}`, d: path }),
    line.points.map(([, , low, high], step) => whisker(places[step][0], y, low, high, index, MARGIN.top, bottom)),
    line.points.map((point, step) => marker(...places[step], index, said(chart, line, point, step)))];
}

function drawChart(chart, width) {
  const known = chart.lines.flatMap((line) => line.points);
  const right = width - MARGIN.right - 10;
  const bottom = CHART_HEIGHT - MARGIN.bottom;
  const [x, y] = [xScale(chart, known, right), yScale(chart, known, bottom)];
  const across = isNumber(chart.bound) && s("line", { class: "bound", x1: MARGIN.left, x2: right, y1: y.place(chart.bound), y2: y.place(chart.bound) });
  const down = isNumber(chart.x_bound) && s("line", { class: "bound", x1: x.place(chart.x_bound), x2: x.place(chart.x_bound), y1: MARGIN.top, y2: bottom });
  return { places: placesOf(chart).map(({ at }) => x.place(at)),
    children: [chart.turns.map((turn) => band(turn, x, bottom)), yAxis(y, tickUnit(chart.y_unit), MARGIN.left, right), across, down,
      chart.lines.map((line, index) => drawLine(chart, line, index, x, y, bottom)), xAxis(x, tickUnit(chart.x_unit), MARGIN.left, right, bottom)] };
}

// What can be pointed at: each x with the values there; of points with names each one alone.
const hasNames = (chart) => chart.lines.some((line) => line.labels.length);

function placesOf(chart) {
  if (hasNames(chart)) return chart.lines.flatMap((line, of) => line.points.map((point, index) => ({ at: point[0], of, index }))).sort((a, b) => a.at - b.at);
  return [...new Set(chart.lines.flatMap((line) => line.points.map(([x]) => x)))].sort((a, b) => a - b).map((at) => ({ at }));
}

function valueAt(chart, line, at) {
  const found = line.points.find(([x]) => x === at);
  return found ? yText(chart, found[1]) : NONE;
}

function chartPanel(chart) {
  const names = chart.lines.map((line, index) => ({ name: line.name, className: classOf(index) }));
  const key = legend(names);
  const readout = h("p", { class: "readout", role: "status" });
  const told = (index) => {
    const place = index === null ? null : placesOf(chart)[index];
    if (hasNames(chart)) {
      readout.textContent = place ? said(chart, chart.lines[place.of], chart.lines[place.of].points[place.index], place.index) : "";
      return;
    }
    key.show(chart.lines.map((line) => (place ? valueAt(chart, line, place.at) : "")), place ? xText(chart, place.at) : "");
  };
  const hasPoints = chart.lines.some((line) => line.points.length);
  return h("figure", { class: "panel" }, h("figcaption", {}, h("h3", {}, chart.title), h("p", { class: "note" }, chart.note)), key.node,
    hasPoints ? plot(`${chart.title}; the values are in the tables below`, CHART_HEIGHT, (width) => drawChart(chart, width), told) : h("p", { class: "nothing" }, "No values."),
    hasNames(chart) && readout);
}
