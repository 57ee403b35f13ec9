// The page of a study: what it found, the charts, the tables behind them, and what was run.

const textTable = ({ title, columns, rows }) => [h("h3", {}, title),
  table(title, columns.map(({ title: head, is_number: isNumber }) => ({ title: head, isNumber })), rows, "stacked study")];

const plain = (value) => (value === null || typeof value !== "object" ? String(value) : JSON.stringify(value));

function settingsOf([title, entries]) {
  return h("div", {}, h("h3", {}, title), h("dl", { class: "settings" }, entries.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, plain(value))))));
}

function warned(texts) {
  if (!texts.length) return null;
  return h("div", { class: "notice", role: "note" }, h("strong", {}, "Profiles"), h("ul", {}, texts.map((text) => h("li", {}, text))));
}

document.body.append(h("main", {},
  h("header", {}, h("p", { class: "kind" }, DATA.kind), h("h1", {}, DATA.title),
    h("p", { class: "verdict" }, DATA.verdict),
    h("dl", { class: "run facts" }, DATA.facts.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text))))),
  DATA.snippet && section("settings", "Recommended settings", null, h("pre", { class: "snippet", tabindex: 0 }, DATA.snippet)),
  section("charts", "Curves", DATA.note, h("div", { class: "panels wide" }, DATA.charts.map(chartPanel))),
  section("figures", "Figures", null, DATA.tables.map(textTable)),
  DATA.settings.length > 0 && section("setup", "Setup", null, h("div", { class: "groups" }, DATA.settings.map(settingsOf))),
  warned(DATA.warnings)));
