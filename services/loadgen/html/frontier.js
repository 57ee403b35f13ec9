// A sweep: what each point gives for what it costs, and which one is shown below.

const FRONTIER_HEIGHT = 230;

const p99 = (name) => ({ report }) => report.summary.distributions[name]?.p99;
const FRONTIERS = [
  { title: "Output against first token", note: "output tokens/s, by TTFT p99 from the schedule", xUnit: "s", x: p99("ttft_from_schedule_s"), y: ({ report }) => report.summary.throughput.output_tokens_per_s },
  { title: "Output against token latency", note: "output tokens/s, by ITL p99", xUnit: "s", x: p99("itl_s"), y: ({ report }) => report.summary.throughput.output_tokens_per_s },
];

const sentRate = ({ report }) => report.summary.rate.achieved_per_s;

const haveGoodput = (points) => points.some(({ report }) => report.summary.goodput);

// A session brings several requests, so that there is no line where all are good.
const areSessions = (points) => points.some(({ report }) => report.summary.rate.what === "sessions");

function lastFrontier(points) {
  const isShare = !areSessions(points);
  const by = (dashed) => (isShare ? `by requests/s sent; dashed: ${dashed}` : "by sessions/s sent");
  return haveGoodput(points)
    ? { title: "Goodput against rate", note: `good requests/s, ${by("all good")}`, xUnit: "count", isShare, x: sentRate, y: ({ report }) => report.summary.goodput?.good_per_s }
    : { title: "Successes against rate", note: `successes/s, ${by("all succeed")}`, xUnit: "count", isShare, x: sentRate, y: ({ report }) => report.summary.throughput.requests_per_s };
}

const nameOf = ({ report }, index) => report.label || `run ${index + 1}`;
const shortName = (point, index) => nameOf(point, index).replace(/^[a-z]+=/, "");

function drawFrontier(chart, points, chosen, choose, width) {
  const right = width - MARGIN.right - 10;
  const known = points.map((point, index) => ({ point, index, at: chart.x(point), value: chart.y(point) })).filter(({ at, value }) => isNumber(at) && isNumber(value));
  const xs = known.map(({ at }) => at);
  const [low, high] = [Math.min(...xs), Math.max(...xs)];
  const isLog = chart.xUnit === "s" && low > 0 && high / low >= 30;
  const bottom = FRONTIER_HEIGHT - MARGIN.bottom;
  const topStep = niceStep(high || 1, 4);
  const x = isLog ? logScale(low * 0.8, high * 1.2, MARGIN.left, right, width / 70) : linearScale(0, Math.ceil(high / topStep) * topStep || 1, MARGIN.left, right, width / 90);
  const most = Math.max(...known.map(({ value }) => value)) || 1;
  const yStep = niceStep(most, 4);
  const y = linearScale(0, Math.ceil(most / yStep) * yStep, bottom, MARGIN.top + 6, 4);
  const even = Math.min(x.high, y.high);
  const radius = (index) => (index === chosen ? 6 : 4.5);
  const taken = [];
  const names = known.map(({ point, index, at, value }) => {
    const box = { x: x.place(at), y: y.place(value) - radius(index) - 5, half: shortName(point, index).length * 3.5 + 2 };
    const isOnPoint = known.some((other) => other.index !== index && Math.abs(x.place(other.at) - box.x) < box.half + 5 && Math.abs(y.place(other.value) - box.y + 4) < 10);
    if (isOnPoint || taken.some((other) => Math.abs(other.x - box.x) < other.half + box.half && Math.abs(other.y - box.y) < 12)) return null;
    taken.push(box);
    return s("text", { class: "name", x: box.x, y: box.y, "text-anchor": "middle" }, shortName(point, index));
  });
  return { children: [yAxis(y, "count", MARGIN.left, right),
    chart.isShare && s("line", { class: "line faint dashed", x1: x.place(0), y1: y.place(0), x2: x.place(even), y2: y.place(even) }),
    s("path", { class: "line third", d: known.map(({ at, value }, place) => `${place ? "L" : "M"}${x.place(at)} ${y.place(value)}`).join("") }),
    known.map(({ point, index, at, value }) => s("circle", {
      class: `point ${index === chosen ? "chosen" : ""} ${point.report.summary.degraded.length ? "degraded" : ""}`,
      cx: x.place(at), cy: y.place(value), r: radius(index), onclick: () => choose(index) }, s("title", {}, nameOf(point, index)))),
    names, xAxis(x, chart.xUnit, MARGIN.left, right, bottom)] };
}

function frontierPanel(chart, points, chosen, choose) {
  const caption = h("figcaption", {}, h("h3", {}, chart.title), h("p", { class: "note" }, chart.note));
  const isKnown = points.some((point) => isNumber(chart.x(point)) && isNumber(chart.y(point)));
  return h("figure", { class: "panel" }, caption, isKnown
    ? plot(`${chart.title}; the values are in the table below`, FRONTIER_HEIGHT, (width) => drawFrontier(chart, points, chosen, choose, width))
    : h("p", { class: "nothing" }, "No values."));
}

function sweepTable(points, chosen, choose) {
  const hasGoodput = haveGoodput(points);
  const numbers = ["success", areSessions(points) ? "sessions sent/s" : "sent/s", "output tokens/s", "TTFT p99, schedule", "ITL p99", "E2E p99, schedule", ...(hasGoodput ? ["good", "good/s"] : [])];
  const columns = [{ title: "point" }, ...numbers.map((title) => ({ title, isNumber: true }))];
  const rows = points.map((point, index) => {
    const { counts, rate, throughput, goodput, degraded } = point.report.summary;
    const pick = h("input", { type: "radio", name: "point", value: index, checked: index === chosen, onchange: () => choose(index) });
    return [h("label", {}, pick, nameOf(point, index), degraded.length > 0 && h("span", { class: "badge" }, "degraded")),
      share(successShare(counts)), number(rate.achieved_per_s), number(throughput.output_tokens_per_s), time(p99("ttft_from_schedule_s")(point)),
      time(p99("itl_s")(point)), time(p99("e2e_from_schedule_s")(point)),
      ...(hasGoodput ? [share(goodput?.share), number(goodput?.good_per_s)] : [])];
  });
  return table("Points of the sweep; the chosen one is shown in detail", columns, rows, "stacked sweep");
}

function sweep(points, chosen, choose) {
  return section("sweep", "Sweep", "In the first two, up and to the left is better. A hollow point is degraded: the client did not offer the load that was asked for to its end. The chosen point is the one shown in detail.",
    h("div", { class: "panels" }, [...FRONTIERS, lastFrontier(points)].map((chart) => frontierPanel(chart, points, chosen, choose))),
    sweepTable(points, chosen, choose));
}
