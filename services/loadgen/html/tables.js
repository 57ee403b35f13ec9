// Objectives, every figure with its definition, other tools' figures, and what was run.

const STATISTICS = ["count", "mean", "std", "min", "p50", "p90", "p95", "p99", "p999", "max"];
const STATISTIC_NAMES = { p999: "p99.9" };

function objectives({ report: { summary: { goodput } } }) {
  if (!goodput) return null;
  const bounds = Object.entries(goodput.attainment).map(([name, kept]) => [`${TERMS.bounds[name]} ≤ ${exactTime(goodput.slo[name])}`, kept]);
  const row = ([name, kept]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "meter" }, meter(kept)), h("td", { class: "number" }, share(kept, 2)));
  return section("objectives", "Objectives", `Of ${decimal(goodput.num_judged, 0)} requests; one that failed, or that the end of the run cut short, keeps none.`,
    h("table", { class: "attainment" }, h("caption", { class: "hidden" }, "Share of requests that kept each objective"),
      h("tbody", {}, bounds.map(row), bounds.length > 1 && row(["All of them", goodput.share]))));
}

function meter(kept) {
  return s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "rest", width: 100, height: 6 }), s("rect", { class: "kept", width: 100 * (kept || 0), height: 6 }));
}

// One unit for a row, so that its numbers can be compared; at least four digits of the median.
function rowWriter(unit, distribution) {
  const isTime = unit === "s" || unit === "s/token";
  const middle = Math.abs(distribution.p50 ?? 0) || Math.abs(distribution.max ?? 0);
  const { factor, unit: written } = isTime ? timeUnit(middle) : { factor: 1, unit };
  const places = isTime ? Math.max(digits(middle * factor || 1, 4), 1) : 1;
  const write = (statistic) => {
    const value = distribution[statistic];
    if (!isNumber(value)) return NONE;
    return statistic === "count" ? decimal(value, 0) : decimal(value * factor, isTime ? places : Number.isInteger(value) ? 0 : places);
  };
  return { write, unit: unit === "s/token" ? `${written}/token` : written };
}

function distributionTable(caption, entries) {
  const columns = [{ title: "figure" }, { title: "unit" }, ...STATISTICS.map((name) => ({ title: STATISTIC_NAMES[name] || name, isNumber: true }))];
  const rows = entries.map(({ name, title, definition, unit, distribution }) => {
    const writer = rowWriter(unit, distribution);
    return [[h("span", { class: "figure" }, title), " ", h("code", {}, name), definition && h("span", { class: "definition" }, defined(definition))],
      writer.unit, ...STATISTICS.map(writer.write)];
  });
  return table(caption, columns, rows, "stacked figures");
}

function singles({ span, counts, throughput, rate, concurrency, prefix_hit_rate, goodput }) {
  const about = TERMS.run;
  const kept = goodput ? [["Goodput, share", share(goodput.share, 2), "", about.goodput], ["Goodput, rate", number(goodput.good_per_s, 5), "requests/s", about.goodput]] : [];
  return [
    ["Span", number(span[1] - span[0], 5), "s", about.span],
    ["Planned", number(counts.planned), "requests", about.counts],
    ["Succeeded", number(counts.succeeded), "requests", about.counts],
    ["Failed", number(counts.failed), "requests", about.counts],
    ...Object.entries(counts.failures).map(([name, count]) => [`Failed: ${words(name)}`, number(count), "requests", about.counts]),
    ["Cancelled", number(counts.cancelled), "requests", about.counts],
    ["Cut short", number(counts.cut_short), "requests", about["cut short"]],
    ["Requests", number(throughput.requests_per_s, 5), "requests/s", about.throughput],
    ["Output tokens", number(throughput.output_tokens_per_s, 5), "tokens/s", about.throughput],
    ["Input tokens", number(throughput.input_tokens_per_s, 5), "tokens/s", about.throughput],
    ["Uncached input tokens", number(throughput.uncached_input_tokens_per_s, 5), "tokens/s", about.throughput],
    ["Request rate, asked", number(rate.asked_per_s, 5), `${rate.what}/s`, about["request rate, asked"]],
    ["Request rate, achieved", number(rate.achieved_per_s, 5), `${rate.what}/s`, about["request rate, achieved"]],
    ["Concurrency, mean", number(concurrency.mean, 5), "requests", about["concurrency, mean and max"]],
    ["Concurrency, max", number(concurrency.max), "requests", about["concurrency, mean and max"]],
    ["Prefix-hit rate", share(prefix_hit_rate, 2), "", about["prefix-hit rate"]],
    ...kept,
  ];
}

function allFigures({ report: { summary } }) {
  const entries = Object.entries(TERMS.figures).filter(([name]) => summary.distributions[name])
    .map(([name, term]) => ({ name, ...term, distribution: summary.distributions[name] }));
  const columns = [{ title: "figure" }, { title: "value", isNumber: true }, { title: "unit" }, { title: "definition" }];
  return section("figures", "All figures", `Percentiles are ${TERMS.percentiles}; p99.9 from 1,000 values on; the standard deviation is the population's. What is undefined is ${NONE}, never 0.`,
    distributionTable("Distributions", entries), table("Of the run", columns, singles(summary), "stacked singles"));
}

// Whether one number after ± tells an interval: at an end of what a figure can be it is uneven.
const isEven = (value, low, high) => isNumber(low) && value && Math.abs(high + low - 2 * value) <= 1e-6 * (high - low) + 1e-9 * Math.abs(value);

// Over the seeds of several runs, or of the parts of one.
function intervals({ report: { intervals: found } }) {
  const entries = Object.entries(found || {});
  if (!entries.some(([, each]) => isNumber(each.low))) return null;
  const runs = Math.max(...entries.map(([, each]) => each.num_runs));
  const columns = [{ title: "figure" }, { title: runs > 1 ? "mean" : "value", isNumber: true }, { title: "from", isNumber: true }, { title: "to", isNumber: true }, { title: "±", isNumber: true }];
  const row = ([name, { value, low, high }]) => {
    const write = /^(ttft|tpot|itl|e2e)_s/.test(name) ? (seconds) => time(seconds, 4) : (plain) => number(plain, 4);
    return [h("code", {}, name), write(value), write(low), write(high), isEven(value, low, high) ? plusMinus((high - low) / 2 / Math.abs(value)) : NONE];
  };
  const note = runs > 1 ? `95 % confidence intervals of the mean over ${runs} runs with a seed of their own each, by Student’s t; all else on this page is of the first.`
    : "95 % confidence intervals by the spread among ten parts of this run, one after the other.";
  return section("intervals", "How sure", note, table("Intervals", columns, entries.map(row), "stacked intervals"));
}

// Only of a simulated run: of others nobody says it.
function executors({ report: { executors: found } }) {
  if (!found.length) return null;
  const columns = [{ title: "executor" }, { title: "steps", isNumber: true }, { title: "computing", isNumber: true }, { title: "loop occupied", isNumber: true }, { title: "KV sent, GB", isNumber: true }];
  const row = ({ name, num_steps: steps, busy_share: busy, occupied_share: occupied, kv_bytes: bytes }) => [name, decimal(steps, 0), share(busy), share(occupied), decimal(bytes / 1e9, 2)];
  return section("executors", "Executors", "Computing and occupied: shares of the run’s time.", table("Executors", columns, found.map(row), "stacked executors"));
}

function otherTools({ report: { compat } }) {
  if (!compat.length) return null;
  return section("tools", "By other tools’ definitions", "The same facts, as these tools would name and count them; times in seconds are written in a unit that fits.",
    compat.map(({ tool, source, completed, failed, distributions: found, rates }) => [
      h("h3", {}, tool), h("p", { class: "note" }, `${source}. ${decimal(completed, 0)} completed, ${decimal(failed, 0)} failed.`),
      distributionTable(`Distributions as ${tool} makes them`, Object.entries(found).map(([name, distribution]) => ({ name, title: words(name), unit: name.endsWith("_s") ? "s" : "", distribution }))),
      table(`Rates as ${tool} makes them`, [{ title: "rate" }, { title: "per second", isNumber: true }], Object.entries(rates).map(([name, value]) => [h("code", {}, name), number(value, 5)]), "plain rates")]));
}

function written(value) {
  if (value === null || value === undefined) return NONE;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function setup({ report: { run } }) {
  const group = (title, entries) => h("div", {}, h("h3", {}, title), entries.length
    ? h("dl", { class: "settings" }, entries.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, written(value)))))
    : h("p", { class: "nothing" }, "Nothing was said."));
  const identity = [["target", run.target], ["model", run.model], ["seed", run.seed], ["plan", run.plan_fingerprint], ["began", run.began_at || NONE]];
  return section("setup", "Setup", null, h("div", { class: "groups" }, group("Run", identity), group("Settings", Object.entries(run.settings)), group("Machine", Object.entries(run.machine)), group("Versions", Object.entries(run.versions))));
}
