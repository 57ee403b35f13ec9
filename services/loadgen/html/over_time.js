// The run over time: every plot has the same time axis, from the first request's due time to the last one's end.

const PERCENTILE_LINES = [["p50", "first"], ["p90", "second"], ["p99", "third"]];

function timeDomain({ report: { series, summary } }) {
  const [begin, end] = summary.span;
  const count = series.due_per_s.length;
  return end > begin ? [begin, end] : [series.begin_s, series.begin_s + series.bin_s * count];
}

// A step for each bin, or a line through the bins' middles that breaks where nothing is known.
function binCentres({ report: { series } }, domain) {
  return series.due_per_s.map((_, index) => {
    const begin = series.begin_s + index * series.bin_s;
    return (begin + Math.min(begin + series.bin_s, Math.max(domain[1], begin))) / 2;
  });
}

function brokenLine(xs, ys) {
  let path = "";
  const lone = [];
  ys.forEach((y, index) => {
    if (y === null) return;
    const isFirst = index === 0 || ys[index - 1] === null;
    path += `${isFirst ? "M" : "L"}${xs[index].toFixed(1)} ${y.toFixed(1)}`;
    if (isFirst && (index === ys.length - 1 || ys[index + 1] === null)) lone.push([xs[index], y]);
  });
  return { path, lone };
}

function steps(edges, ys, floor) {
  return `M${edges[0]} ${floor}` + ys.map((y, index) => `L${edges[index].toFixed(1)} ${y.toFixed(1)}L${edges[index + 1].toFixed(1)} ${y.toFixed(1)}`).join("") + `L${edges[ys.length]} ${floor}`;
}

function yScaleOf(lines, unit, height, isLog) {
  const all = lines.flatMap(({ values }) => values).filter(isNumber);
  const [bottom, top] = [height - MARGIN.bottom, MARGIN.top];
  const high = unit === "share" ? 1 : all.reduce((a, b) => Math.max(a, b), 0) || 1;
  if (isLog) return logScale(all.reduce((a, b) => Math.min(a, b), high) * 0.9, high * 1.05, bottom, top, 4);
  const step = niceStep(high, 3);
  return linearScale(0, unit === "share" ? 1 : Math.ceil(high / step - 1e-9) * step, bottom, top, 3);
}

function isFarApart(lines) {
  const all = lines.flatMap(({ values }) => values).filter((value) => value > 0);
  return all.length > 0 && all.reduce((a, b) => Math.max(a, b)) >= 30 * all.reduce((a, b) => Math.min(a, b));
}

// lines: {name, className, values, isArea}; xs: the time of each value; edges: the ends of bins, for steps.
function timePlot({ title, unit, note, lines, xs, edges, domain }) {
  const caption = (text) => h("figcaption", {}, h("h3", {}, title), h("p", { class: "note" }, text));
  if (!lines.some(({ values }) => values.some(isNumber))) return h("figure", { class: "panel" }, caption(note), h("p", { class: "nothing" }, "No values."));
  const isLog = unit === "s" && isFarApart(lines);
  const key = legend(lines);
  const text = (value) => (unit === "s" ? time(value) : unit === "share" ? share(value) : number(value));
  const told = (index) => key.show(lines.map(({ values }) => (index === null ? "" : text(values[index]))), index === null ? "" : `at ${clock(xs[index])}`);
  const height = 168;
  const draw = (width) => {
    const right = width - MARGIN.right;
    const x = linearScale(...domain, MARGIN.left, right, width / 90);
    const y = yScaleOf(lines, unit, height, isLog);
    const drawn = lines.map(({ values, className, isArea }) => {
      const ys = values.map((value) => (value === null ? null : y.place(value)));
      if (edges) return s("path", { class: `line ${className} ${isArea ? "area" : ""}`, d: steps(edges.map(x.place), ys, height - MARGIN.bottom) });
      const { path, lone } = brokenLine(xs.map(x.place), ys);
      return [s("path", { class: `line ${className}`, d: path }), lone.map(([cx, cy]) => s("circle", { class: `dot ${className}`, cx, cy, r: 3 }))];
    });
    return { children: [yAxis(y, unit, MARGIN.left, right), drawn, xAxis(x, "s", MARGIN.left, right, height - MARGIN.bottom)], places: xs.map(x.place) };
  };
  const columns = [{ title: "time", isNumber: true }, ...lines.map(({ name }) => ({ title: name, isNumber: true }))];
  const values = () => table(`${title} over time`, columns, xs.map((at, index) => [clock(at), ...lines.map((line) => text(line.values[index]))]), "plain");
  return h("figure", { class: "panel" }, caption(note + (isLog ? ", logarithmic" : "")), key.node,
    plot(`${title} over time; the values are in the table below`, height, draw, told), folded("Values", values));
}

function percentilePlot(point, title, name, note) {
  const domain = timeDomain(point);
  const lines = PERCENTILE_LINES.map(([percent, className]) => ({ name: percent, className, values: point.report.series[name][percent] })).reverse();
  return timePlot({ title, unit: "s", note, lines, xs: binCentres(point, domain), domain });
}

function binPlot(point, title, note, lines) {
  const { series } = point.report;
  const domain = timeDomain(point);
  const edges = range(series.due_per_s.length + 1).map((index) => Math.min(series.begin_s + index * series.bin_s, domain[1]));
  return timePlot({ title, unit: "count", note, lines, xs: binCentres(point, domain), edges, domain });
}

const SERVER = {
  num_queued: ["Queue of the server", "requests that wait, as the server says", "count", "queued"],
  num_running: ["Running at the server", "requests that run, as the server says", "count", "running"],
  kv_use: ["KV memory in use", "share of its memory, as the server says", "share", "in use"],
};

function serverPlots(point) {
  const domain = timeDomain(point);
  return Object.entries(point.report.server_series).map(([name, samples]) => {
    const within = samples.filter(([at]) => at >= domain[0] && at <= domain[1]);
    const [title, note, unit, short] = SERVER[name] || [words(name), "as the server says", "count", words(name)];
    const lines = [{ name: short, className: "third", values: within.map(([, value]) => value) }];
    return within.length ? timePlot({ title, unit, note, lines, xs: within.map(([at]) => at), domain }) : null;
  });
}

function overTime(point) {
  const { series } = point.report;
  if (!point.shapes.rows.index.length) return section("time", "Over time", null, h("p", { class: "nothing" }, "No requests."));
  const failed = { name: "failed", className: "bad", values: series.failed_per_s };
  return section("time", "Over time", `Bins of ${exactTime(series.bin_s)}; time since the run began. Latencies stand where their request was due, tokens where their chunk came.`,
    h("div", { class: "panels wide" },
      percentilePlot(point, "Time to first token", "ttft_from_schedule_s", "from the schedule"),
      percentilePlot(point, "End to end", "e2e_from_schedule_s", "from the schedule"),
      percentilePlot(point, "Time per output token", "tpot_s", "per token after the first"),
      binPlot(point, "Output tokens", "tokens/s, of successes", [{ name: "output", className: "third", isArea: true, values: series.output_tokens_per_s }]),
      binPlot(point, "Requests", "requests/s", [
        { name: "due", className: "faint", values: series.due_per_s },
        { name: "succeeded", className: "third", values: series.succeeded_per_s },
        ...(failed.values.some(Boolean) ? [failed] : [])]),
      binPlot(point, "Concurrency", "requests open, mean of the bin", [{ name: "open", className: "third", isArea: true, values: series.concurrency }]),
      serverPlots(point)));
}
