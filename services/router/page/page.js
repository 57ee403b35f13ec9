// The built-in page: a chat, the life of its requests, and the server's state. Text is only ever set as text.

const POLL_MS = 2000;
const MAX_REQUESTS = 8;
const STAGES = ["queued", "prefill", "transfer", "decode"];
const element = (id) => document.getElementById(id);

const history = []; // what the next request repeats: {role, content}
const requests = []; // newest first
let running = null; // AbortController of the answer that streams
let model = null; // as /v1/models has it
let isReady = false;
let lastOutput = null; // {at, tokens} of the last metrics
let numAsked = 0;

// ---- asking

class Failure extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

function headers() {
  const key = element("key").value.trim();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

function requestBody(text) {
  const system = element("system").value.trim();
  const temperature = element("temperature").valueAsNumber;
  const maxTokens = element("max-tokens").valueAsNumber;
  return {
    model: model ? model.id : "",
    messages: [...(system ? [{ role: "system", content: system }] : []), ...history, { role: "user", content: text }],
    stream: true,
    stream_options: { include_usage: true },
    timing: true,
    ...(Number.isFinite(temperature) && { temperature }),
    ...(Number.isFinite(maxTokens) && { max_tokens: maxTokens }),
  };
}

async function refusal(response) {
  const answer = await response.json().catch(() => ({}));
  const message = (answer.error && answer.error.message) || response.statusText || "no reason was given";
  const wait = response.headers.get("Retry-After");
  const titles = { 401: "An API key is needed", 429: "Too many requests", 503: "Not served now" };
  const title = titles[response.status] || `Refused (${response.status})`;
  const advice = response.status === 401 ? " Enter it under Settings." : wait ? ` Try again in ${wait} s.` : "";
  if (response.status === 401) element("settings").open = true;
  return new Failure(title, sentence(message) + advice);
}

function sentence(text) {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

// Data of each server-sent event, as it comes.
async function* eventsOf(response, onFirstByte) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onFirstByte();
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
  }
}

// Streams one answer into `request`; throws a Failure, or what fetch throws.
async function ask(text, request, show, signal) {
  if (!model) await pollOnce().catch(unreachable);
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(requestBody(text)),
    signal,
  });
  if (!response.ok) throw await refusal(response);
  const first = () => (request.firstByteMs ??= performance.now() - request.startedAt);
  let isComplete = false;
  for await (const data of eventsOf(response, first)) {
    if (data === "[DONE]") {
      isComplete = true;
      break;
    }
    const event = JSON.parse(data);
    if (event.error) throw new Failure("The answer broke off", sentence(event.error.message));
    request.usage = event.usage || request.usage;
    request.timing = event.timing || request.timing;
    const choice = event.choices[0];
    if (!choice) continue;
    request.finish = choice.finish_reason || request.finish;
    if (choice.delta.content) show(choice.delta.content);
  }
  if (!isComplete || !request.finish) throw new Failure("The answer broke off", "the stream ended before the answer did.");
}

// ---- the conversation

function made(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function addTurn(role, text) {
  const turn = made("div", `turn ${role}`);
  turn.append(made("span", "hidden", role === "user" ? "You:" : "Model:"), made("div", "text", text));
  element("empty").hidden = true;
  element("log").append(turn);
  return turn;
}

// Run after the turn has grown: it is kept in sight, unless someone reads elsewhere.
function following(turn) {
  const isSeen = turn.getBoundingClientRect().bottom < element("composer").getBoundingClientRect().top + 60;
  return () => isSeen && turn.scrollIntoView({ block: "end" });
}

function showFailure(turn, failure, text) {
  const box = made("div", "failure");
  box.setAttribute("role", "alert");
  const line = made("p");
  line.append(made("strong", "", failure.title), `: ${failure.message}`);
  const again = made("button", "", "Try again");
  again.type = "button";
  again.addEventListener("click", () => !running && send(text));
  box.append(line, again);
  turn.append(box);
}

function asFailure(error) {
  if (error instanceof Failure) return error;
  if (error instanceof SyntaxError) return new Failure("The answer broke off", "an event of the stream could not be read.");
  return new Failure("The connection broke", "the server cannot be reached, or it ended the connection.");
}

async function send(text) {
  const request = { number: ++numAsked, startedAt: performance.now(), outcome: "running" };
  running = new AbortController();
  setRunning(true);
  addTurn("user", text);
  const turn = addTurn("assistant", "");
  const shown = turn.querySelector(".text").appendChild(document.createTextNode(""));
  turn.scrollIntoView({ block: "end" });
  const show = (piece) => {
    const follow = following(turn);
    shown.appendData(piece);
    follow();
  };
  let failure = null;
  try {
    await ask(text, request, show, running.signal);
    request.outcome = "ok";
  } catch (error) {
    request.outcome = running.signal.aborted ? "stopped" : "failed";
    failure = running.signal.aborted ? null : asFailure(error);
  }
  request.totalMs = performance.now() - request.startedAt;
  running = null;
  const follow = following(turn);
  endTurn(turn, request, failure, text);
  if (shown.data && !failure) history.push({ role: "user", content: text }, { role: "assistant", content: shown.data });
  addRequest(request);
  setRunning(false);
  follow();
}

function endTurn(turn, request, failure, text) {
  turn.classList.add("over");
  if (failure) showFailure(turn, failure, text);
  else if (request.outcome === "stopped") turn.append(made("div", "end", "Stopped."));
  else if (request.finish === "length") turn.append(made("div", "end", "Cut off at the maximum of tokens."));
}

function setRunning(isRunning) {
  element("log").setAttribute("aria-busy", String(isRunning));
  element("stop").hidden = !isRunning;
  element("send").hidden = isRunning;
  element("clear").disabled = isRunning;
  if (isRunning && document.activeElement === element("send")) element("stop").focus();
}

function submit() {
  const field = element("message");
  const text = field.value.trim();
  if (!text || running) return;
  field.value = "";
  element("settings").open = false; // the answer needs the room
  send(text);
}

function clearChat() {
  history.length = 0;
  for (const turn of document.querySelectorAll(".turn")) turn.remove();
  element("empty").hidden = false;
  element("message").focus();
}

// ---- the life of requests

function duration(ms) {
  if (ms >= 999.5) return `${(ms / 1000).toFixed(2)} s`;
  return ms >= 9.95 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

function stagesOf(request) {
  return STAGES.map((name) => ({ name, ms: request.timing && request.timing[`${name}_ms`] })).filter(({ ms }) => ms !== undefined);
}

function addRequest(request) {
  requests.unshift(request);
  requests.length = Math.min(requests.length, MAX_REQUESTS);
  const longestMs = Math.max(...requests.map((one) => one.totalMs));
  element("no-requests").hidden = true;
  element("requests").replaceChildren(...requests.map((one) => requestRow(one, longestMs)));
}

function requestRow(request, longestMs) {
  const row = made("li");
  const title = made("div", "title");
  const outcome = { ok: "", stopped: ", stopped", failed: ", failed" }[request.outcome];
  title.append(made("span", request.outcome === "failed" ? "failed" : "", `Request ${request.number}${outcome}`));
  title.append(made("span", "", duration(request.totalMs)));
  const stages = stagesOf(request);
  const bar = made("div", "bar");
  bar.setAttribute("aria-hidden", "true");
  bar.style.width = `${Math.max(2, (100 * request.totalMs) / longestMs)}%`;
  for (const { name, ms } of stages.filter((stage) => stage.ms > 0)) {
    const part = made("span", name);
    part.style.flex = `${ms} 0 2px`;
    part.title = `${name} ${duration(ms)}`;
    bar.append(part);
  }
  row.append(title, bar);
  if (stages.length) row.append(made("div", "detail", listed(stages.map(({ name, ms }) => `${name} ${duration(ms)}`))));
  row.append(made("div", "detail", listed(facts(request))));
  return row;
}

// Lines break between the parts only.
function listed(parts) {
  return parts.map((part) => part.replaceAll(" ", "\u00a0")).join("\u00a0· ");
}

function facts(request) {
  const parts = [request.firstByteMs === undefined ? "no byte came" : `first byte after ${duration(request.firstByteMs)}`];
  if (request.usage) {
    const { prompt_tokens: given, completion_tokens: output, prompt_tokens_details: details } = request.usage;
    parts.push(`${given} tokens in${details.cached_tokens ? ` (${details.cached_tokens} cached)` : ""}`, `${output} out`);
  }
  return parts;
}

// ---- the server's state

async function read(path) {
  const response = await fetch(path, { headers: headers(), cache: "no-store", signal: AbortSignal.timeout(5 * POLL_MS) });
  return { status: response.status, text: await response.text() };
}

// Samples of the Prometheus text format: [{name, labels, value}].
function samplesOf(text) {
  const found = text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm);
  return Array.from(found, ([, name, labels = "", value]) => ({ name, labels, value: Number(value) }));
}

function showState(kind, text) {
  element("state-dot").className = `dot ${kind}`;
  if (element("state").textContent !== text) element("state").textContent = text;
}

function showMetrics(samples) {
  const value = (name) => samples.find((sample) => sample.name === name)?.value;
  const ended = samples.filter((sample) => sample.name === "baton_notes_total" && sample.labels.includes('"request ended"'));
  const failed = ended.filter((sample) => !sample.labels.includes('reason=""')).reduce((sum, sample) => sum + sample.value, 0);
  element("fact-open").textContent = value("baton_streams") ?? "–";
  element("fact-ended").textContent = `${value("baton_ended_ok_total") ?? 0} ok, ${failed} failed`;
  const roles = ["prefill", "decode", "unified"].map((role) => [value(`baton_executors_${role}`), role]);
  const known = roles.filter(([count]) => count).map(([count, role]) => `${count} ${role}`);
  element("fact-executors").textContent = known.join(", ") || (value("baton_executors_linked") ?? "–");
  showRate(value("baton_output_tokens_total") ?? 0);
}

function showRate(tokens) {
  const now = { at: performance.now(), tokens };
  if (lastOutput && tokens >= lastOutput.tokens) {
    const perSecond = (1000 * (tokens - lastOutput.tokens)) / (now.at - lastOutput.at);
    element("fact-rate").textContent = `${perSecond.toFixed(perSecond > 0 && perSecond < 10 ? 1 : 0)} tokens/s`;
  }
  lastOutput = now;
}

function showModel(list) {
  model = list.data[0];
  element("served").textContent = model.id;
  element("fact-model").textContent = list.data.map((entry) => entry.id).join(", ");
  element("fact-context").textContent = `${model.max_model_len.toLocaleString("en")} tokens`;
  element("max-tokens").max = model.max_model_len;
}

function showNote(text) {
  element("facts-note").hidden = !text;
  element("facts-note").textContent = text;
}

async function pollOnce() {
  const [ready, metrics, models] = await Promise.all(["/ready", "/metrics", ...(model && isReady ? [] : ["/v1/models"])].map(read));
  const state = JSON.parse(ready.text);
  if (state.error) showState("warn", `Not ready: ${state.error.message}`);
  else showState(state.ready ? "good" : "warn", state.ready ? "Ready" : `Not ready: ${state.reason}`);
  if (models?.status === 200) showModel(JSON.parse(models.text));
  isReady = state.ready === true; // until it is, the context that is served may change
  if (metrics.status === 200) showMetrics(samplesOf(metrics.text));
  showNote(metrics.status === 401 ? "The rest is shown to those with an API key." : "");
}

function unreachable() {
  model = null; // another one may come in its place
  showState("bad", "Not reachable");
}

async function poll() {
  if (document.visibilityState === "visible") {
    await pollOnce().catch(unreachable);
  }
  setTimeout(poll, POLL_MS);
}

// ---- set-up

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
element("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  element("composer").requestSubmit(); // which checks the settings first
});
element("stop").addEventListener("click", () => {
  running?.abort();
  element("message").focus();
});
element("clear").addEventListener("click", clearChat);
poll();
