// Requests as rows, in the order in which they were due: waiting, to the first token, streaming. Failures are on top.

const ROW_PX = 5;
const [MIN_TIMELINE, MAX_TIMELINE] = [40, 560];
const STAGES = [["waiting", "waiting to be sent"], ["first", "to the first token"], ["streaming", "streaming"], ["failed", "failed"], ["cancelled", "cancelled"]];

function segments(rows, index, last) {
  const due = rows.due_s[index];
  const done = rows.done_s[index] ?? last;
  const sent = rows.sent_s[index] ?? done;
  const end = rows.end[index];
  if (end !== "succeeded") return [["waiting", due, sent], [end === "cancelled" ? "cancelled" : "failed", sent, done]];
  const first = rows.first_s[index] ?? done;
  return [["waiting", due, sent], ["first", sent, first], ["streaming", first, done]];
}

function paint(canvas, rows, x, zero, height, last) {
  const width = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const colours = Object.fromEntries(STAGES.map(([name]) => [name, style.getPropertyValue(`--${name}`)]));
  const pitch = height / rows.index.length;
  const thick = Math.max(pitch > 3 ? pitch - 1 : pitch, 0.75);
  const isBad = (index) => rows.end[index] !== "succeeded";
  const all = range(rows.index.length);
  for (const index of [...all.filter((at) => !isBad(at)), ...all.filter(isBad)]) {
    for (const [stage, from, to] of segments(rows, index, last)) {
      const [left, right] = [from, to].map((at) => x.place(at - zero(index)));
      const long = right - left;
      // what took no time is still seen where it is all there is
      if (long <= 0 && stage !== "failed" && stage !== "cancelled") continue;
      context.fillStyle = colours[stage];
      const least = stage === "failed" || stage === "cancelled" ? 2 : 0;
      context.fillRect(left, index * pitch, Math.max(long, least), isBad(index) ? Math.max(thick, 1.5) : thick);
    }
  }
}

function requestText(rows, index) {
  const span = (from, to) => (from == null || to == null ? NONE : time(to - from));
  const [due, sent, first, done] = [rows.due_s[index], rows.sent_s[index], rows.first_s[index], rows.done_s[index]];
  const tokens = rows.output_tokens[index];
  return [`Request ${rows.index[index]}: due ${clock(due)}`, `waited ${span(due, sent)}`, `first token after ${span(sent, first)}`, `streamed ${span(first, done)}`,
    tokens == null ? null : `${number(tokens)} tokens`, words(rows.end[index])].filter(Boolean).join(" · ");
}

function longest(rows, last) {
  return rows.due_s.reduce((most, due, index) => Math.max(most, (rows.done_s[index] ?? last) - due), 0);
}

// Where a run is much longer than its requests, their stages are seen only from when each was due.
function modeChoice(point, rows) {
  const [begin, last] = timeDomain(point);
  const mode = { isSinceDue: last - begin > 8 * longest(rows, last), changed: () => {} };
  const choice = (text, isSinceDue) => h("label", {}, h("input", {
    type: "radio", name: "timeline", checked: mode.isSinceDue === isSinceDue,
    onchange: () => { mode.isSinceDue = isSinceDue; mode.changed(); } }), text);
  return [mode, h("fieldset", {}, h("legend", { class: "hidden" }, "Time axis"), choice("since each was due", true), choice("since the run began", false))];
}

function timelineRoot(point, readout, mode) {
  const { rows } = point.shapes;
  const [begin, last] = timeDomain(point);
  const height = Math.min(Math.max(rows.index.length * ROW_PX, MIN_TIMELINE), MAX_TIMELINE);
  const canvas = h("canvas", { role: "img", tabindex: 0, "aria-label": "One row for each request; arrow keys go through them, and the line above says each one's times" });
  const axis = s("svg", { class: "plot", height: 22, "aria-hidden": "true" });
  const cursor = h("div", { class: "row-cursor", hidden: true });
  const place = h("div", { class: "timeline plot-place" }, canvas, cursor, axis);
  canvas.style.height = `${height}px`;
  let width = 0;
  const draw = () => {
    if (!width) return;
    const domain = mode.isSinceDue ? [0, longest(rows, last) || 1e-3] : [begin, last];
    const x = linearScale(...domain, 0, width - MARGIN.right, width / 90);
    paint(canvas, rows, x, mode.isSinceDue ? (index) => rows.due_s[index] : () => 0, height, last);
    axis.setAttribute("viewBox", `0 0 ${width} 22`);
    axis.replaceChildren(xAxis(x, "s", 0, width - MARGIN.right, 0));
  };
  mode.changed = draw;
  watchWidth(place, (now) => { width = now; draw(); });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", draw);
  let at = null;
  const showRow = (index) => {
    at = index;
    cursor.hidden = index === null;
    readout.textContent = index === null ? standingText(rows) : requestText(rows, index);
    if (index !== null) cursor.style.transform = `translateY(${((index + 0.5) / rows.index.length) * height}px)`;
  };
  canvas.addEventListener("pointermove", (event) => showRow(Math.min(Math.max(Math.floor((event.offsetY / height) * rows.index.length), 0), rows.index.length - 1)));
  canvas.addEventListener("pointerleave", () => showRow(null));
  canvas.addEventListener("blur", () => showRow(null));
  canvas.addEventListener("keydown", (event) => {
    const end = rows.index.length - 1;
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20 }[event.key];
    const to = step ? (at === null ? 0 : at + step) : { Home: 0, End: end }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    showRow(Math.min(Math.max(to, 0), end));
  });
  showRow(null);
  return place;
}

function standingText(rows) {
  const shown = rows.index.length;
  return rows.num_left_out ? `${decimal(shown, 0)} of ${decimal(shown + rows.num_left_out, 0)} requests, evenly chosen` : `${counted(shown, "request")}, the first one on top`;
}

function failedTable({ report, shapes }) {
  const columns = [{ title: "request", isNumber: false }, { title: "due", isNumber: true }, { title: "class" }, { title: "status", isNumber: true }, { title: "what was said" }];
  const lines = shapes.failed.map((row) => [String(row.index), clock(row.due_s), words(row.failure), row.status ? String(row.status) : NONE, row.detail || NONE]);
  const shown = shapes.failed.length;
  const whole = report.summary.counts.failed;
  return folded(shown < whole ? `The first ${shown} of ${decimal(whole, 0)} failures` : counted(shown, "failure"), () => table("Failed requests", columns, lines, "stacked"));
}

function requests(point) {
  const { rows, failed } = point.shapes;
  if (!rows.index.length) return section("requests", "Requests", null, h("p", { class: "nothing" }, "No requests."));
  const used = new Set(range(rows.index.length).flatMap((index) => segments(rows, index, 0).map(([stage]) => stage)));
  const readout = h("p", { class: "readout", role: "status" });
  const [mode, choice] = modeChoice(point, rows);
  return section("requests", "Requests", null,
    h("p", { class: "legend" }, STAGES.filter(([name]) => used.has(name)).map(([name, text]) => h("span", { class: "item" }, h("span", { class: `block ${name}`, "aria-hidden": "true" }), text)), choice),
    readout, timelineRoot(point, readout, mode), failed.length > 0 && failedTable(point));
}
