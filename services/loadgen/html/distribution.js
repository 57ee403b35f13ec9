// A distribution: histogram above, share of values up to here below, on one axis.

const SHOWN = [
  ["ttft_s", "ttft_from_schedule_s"], ["itl_s"], ["tpot_s"],
  ["e2e_s", "e2e_from_schedule_s"], ["chunk_gap_s"], ["schedule_lag_s"],
];
const HISTOGRAM = { top: 16, bottom: 112 };
const CURVE = { top: 126, bottom: 206 };
const PLOT_HEIGHT = 230;

function shareUpTo(quantiles, value) {
  const above = quantiles.findIndex((quantile) => quantile > value);
  if (above === 0) return 0;
  if (above < 0) return 1;
  const [low, high] = [quantiles[above - 1], quantiles[above]];
  const [from, to] = [TERMS.quantiles[above - 1], TERMS.quantiles[above]];
  return (from + ((value - low) / (high - low)) * (to - from)) / 100;
}

function curve(quantiles, x, y) {
  const end = `L${x.place(x.high)} ${y.place(1)}`;
  const within = quantiles.map((value, index) => [value, TERMS.quantiles[index]]).filter(([value]) => value <= x.high);
  const reached = within.length === quantiles.length ? end : "";
  return within.map(([value, percent], index) => `${index ? "L" : "M"}${x.place(Math.max(value, x.low)).toFixed(1)} ${y.place(percent / 100).toFixed(1)}`).join("") + reached;
}

// p50 and p99, as lines through both parts; their names keep apart and inside.
function percentileMarks(distribution, x, right) {
  const marks = [["p50", "end"], ["p99", "start"]].map(([name, side]) => ({ name, side, at: x.place(distribution[name]) }));
  const isNear = marks[1].at - marks[0].at < 30;
  return marks.map(({ name, side, at }) => {
    const anchor = at > right - 28 && !(isNear && name === "p99") ? "end" : isNear ? side : at < MARGIN.left + 24 ? "start" : "middle";
    const shift = anchor === "end" ? -3 : anchor === "start" && isNear ? 3 : 0;
    const limited = anchor === "start" ? Math.min(at + shift, right - 10) : at + shift;
    return [s("line", { class: "mark", x1: at, x2: at, y1: HISTOGRAM.top - 2, y2: CURVE.bottom }),
      s("text", { class: "mark-name", x: limited, y: 10, "text-anchor": anchor }, name)];
  });
}

function bars(shape, x, y) {
  return shape.counts.map((count, index) => {
    if (!count) return null;
    const [from, to] = [x.place(shape.edges[index]), x.place(shape.edges[index + 1])];
    const top = Math.min(y.place(count), HISTOGRAM.bottom - 1);
    return s("rect", { class: "bar", x: from + 0.5, width: Math.max(to - from - 1, 0.5), y: top, height: HISTOGRAM.bottom - top });
  });
}

function drawDistribution(shape, other, distribution, width) {
  const right = width - MARGIN.right;
  const ends = [shape.edges[0], shape.edges.at(-1)];
  const x = shape.is_log ? logScale(...ends, MARGIN.left, right, width / 62) : linearScale(...ends, MARGIN.left, right, width / 80);
  const most = Math.max(...shape.counts);
  const counts = linearScale(0, most, HISTOGRAM.bottom, HISTOGRAM.top, 2);
  counts.ticks = counts.ticks.filter(Number.isInteger);
  const shares = linearScale(0, 1, CURVE.bottom, CURVE.top, 2);
  const children = [yAxis(counts, "count", MARGIN.left, right), bars(shape, x, counts),
    s("line", { class: "base", x1: MARGIN.left, x2: right, y1: HISTOGRAM.bottom + 0.5, y2: HISTOGRAM.bottom + 0.5 }),
    yAxis(shares, "share", MARGIN.left, right),
    percentileMarks(distribution, x, right),
    other && s("path", { class: "line faint dashed", d: curve(other.quantiles, x, shares) }),
    s("path", { class: "line third", d: curve(shape.quantiles, x, shares) }),
    xAxis(x, "s", MARGIN.left, right, CURVE.bottom)];
  return { children, places: shape.counts.map((_, index) => (x.place(shape.edges[index]) + x.place(shape.edges[index + 1])) / 2) };
}

function distributionPanel(point, [name, otherName]) {
  const shape = point.shapes.distributions[name];
  const distribution = point.report.summary.distributions[name];
  const { title, definition } = TERMS.figures[name];
  const caption = h("figcaption", {}, h("h3", {}, title), h("p", { class: "note" }, definition));
  if (!shape || !distribution || !distribution.count) return h("figure", { class: "panel" }, caption, h("p", { class: "nothing" }, "No values."));
  const other = otherName && point.shapes.distributions[otherName];
  const readout = h("p", { class: "readout", role: "status" });
  const standing = `${counted(distribution.count, "value")}${shape.is_log ? ", logarithmic axis" : ""}${shape.has_below ? "; the first bar has what is smaller, too" : ""}`;
  const told = (index) => {
    const [from, to] = index === null ? [] : [shape.edges[index], shape.edges[index + 1]];
    readout.textContent = index === null ? standing : `${time(from)} to ${time(to)}: ${counted(shape.counts[index], "value")}; ${share(shareUpTo(shape.quantiles, to))} up to here`;
  };
  told(null);
  const figures = h("dl", { class: "pair" }, ["p50", "p90", "p99", "max"].map((statistic) => h("div", {}, h("dt", {}, statistic), h("dd", {}, time(distribution[statistic])))));
  return h("figure", { class: "panel" }, caption, figures,
    plot(`${title}: histogram and cumulative share; its percentiles are above, and in the table of all figures`, PLOT_HEIGHT, (width) => drawDistribution(shape, other, distribution, width), told),
    readout, other && h("p", { class: "legend" }, h("span", { class: "item" }, h("span", { class: "swatch third" }), "from sending"), h("span", { class: "item" }, h("span", { class: "swatch faint dashed" }), "from the schedule")));
}

function distributions(point) {
  return section("distributions", "Distributions", `Of successes; the schedule lag is of everything that was taken up. Above, how many values; below, the share of values up to here. Percentiles are ${TERMS.percentiles}.`,
    h("div", { class: "panels" }, SHOWN.map((names) => distributionPanel(point, names))));
}
