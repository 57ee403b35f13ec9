// What was run, what to be careful about, and the few figures that matter.

// what was cancelled as planned is no part of the whole; what the end of the run cut short is
const countOfWhole = ({ planned, cancelled, cut_short: cut }) => planned - cancelled + cut;

function successShare(counts) {
  return countOfWhole(counts) ? counts.succeeded / countOfWhole(counts) : null;
}

function header({ report: { run } }) {
  const facts = [["Target", run.target], ["Began", began(run.began_at)], ["Seed", String(run.seed)], ["Plan", run.plan_fingerprint.slice(0, 12)]];
  return h("header", {}, h("p", { class: "kind" }, "Load report"), h("h1", {}, run.model || "no model named"),
    h("dl", { class: "run" }, facts.filter(([, text]) => text).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))));
}

function began(text) {
  return text.replace("T", " ").replace(/\.\d+/, "").replace(/(\+00:00|Z)$/, " UTC");
}

function notices({ report: { summary, warnings, notes: ofRun } }) {
  const notes = [...ofRun, ...summary.notes];
  const list = (texts) => h("ul", {}, texts.map((text) => h("li", {}, text)));
  return [
    summary.degraded.length > 0 && h("div", { class: "notice degraded", role: "note" }, h("strong", {}, "Degraded"),
      h("div", {}, h("p", {}, "The client did not offer the load that was asked for to its end. These figures do not judge the server."), list(summary.degraded))),
    warnings.length > 0 && h("div", { class: "notice warned", role: "note" }, h("strong", {}, warnings.length > 1 ? "Warnings" : "Warning"), list(warnings)),
    notes.length > 0 && h("div", { class: "notice", role: "note" }, h("strong", {}, notes.length > 1 ? "Notes" : "Note"), list(notes)),
  ];
}

const big = ([digits, unit]) => h("span", { class: "big" }, digits, unit && h("span", { class: "unit" }, `\u00a0${unit}`));

function tile(title, className, ...children) {
  return h("div", { class: `tile ${className}` }, h("h3", {}, title), children);
}

function successTile({ counts }) {
  const planned = counts.cancelled - counts.cut_short;
  const rest = [...Object.entries(counts.failures).map(([name, count]) => [words(name), count, "bad"]), ...(counts.cut_short ? [["cut short", counts.cut_short, "faint"]] : []), ...(planned ? [["cancelled", planned, "faint"]] : [])];
  const [digits, unit] = share(successShare(counts)).split("\u00a0");
  const parts = [["good", counts.succeeded], ["bad", counts.failed], ["faint", counts.cancelled]].filter(([, count]) => count);
  const bar = s("svg", { class: "parts", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
  let at = 0;
  for (const [name, count] of parts) {
    const width = (100 * count) / counts.planned;
    bar.append(s("rect", { class: name, x: at, width, y: 0, height: 4 }));
    at += width;
  }
  return tile("Succeeded", "success", big([digits, unit || ""]), h("p", { class: "beside" }, `${decimal(counts.succeeded, 0)} of ${decimal(countOfWhole(counts), 0)} requests`), bar,
    rest.length ? h("ul", { class: "failures", "aria-label": "Failures by class" }, rest.map(([name, count, kind]) => h("li", { class: kind }, h("b", {}, decimal(count, 0)), ` ${name}`))) : h("p", { class: "beside" }, counts.planned ? "no failures" : "no requests"));
}

function latencyTile(title, distributions, name, otherName) {
  const found = distributions[name] || {};
  const other = otherName && distributions[otherName];
  return tile(title, "latency", h("div", { class: "two" }, ["p50", "p99"].map((statistic) => h("p", {}, h("span", { class: "statistic" }, statistic), big(timeParts(found[statistic]))))),
    h("p", { class: "beside" }, other ? `from the schedule ${time(other.p50)}, ${time(other.p99)}` : otherName === undefined ? "token-expanded" : NONE));
}

function goodputTile({ goodput }) {
  if (!goodput) return tile("Goodput", "goodput", big([NONE, ""]), h("p", { class: "beside" }, "no objectives were set"));
  const [digits, unit] = share(goodput.share).split("\u00a0");
  return tile("Goodput", "goodput", big([digits, unit || ""]), h("p", { class: "beside" }, `${number(goodput.good_per_s)} good requests/s; ${decimal(goodput.num_good, 0)} of ${decimal(goodput.num_judged, 0)} kept every objective`));
}

function headline({ report: { summary } }) {
  const { throughput, distributions, rate, concurrency } = summary;
  return h("div", { class: "tiles", role: "group", "aria-label": "Main figures" },
    successTile(summary),
    tile("Output", "output", big([number(throughput.output_tokens_per_s), "tokens/s"]), h("p", { class: "beside" }, `${number(throughput.requests_per_s)} successes/s; ${number(rate.achieved_per_s)} ${rate.what === "sessions" ? "sessions " : ""}sent/s${rate.asked_per_s === null ? "" : ` of ${number(rate.asked_per_s)} asked`}; ${number(concurrency.mean)} open on average, ${number(concurrency.max)} at most`)),
    goodputTile(summary),
    latencyTile("Time to first token", distributions, "ttft_s", "ttft_from_schedule_s"),
    latencyTile("Inter-token latency", distributions, "itl_s"),
    latencyTile("End to end", distributions, "e2e_s", "e2e_from_schedule_s"));
}
