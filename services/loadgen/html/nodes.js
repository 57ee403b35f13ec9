// The load report. Text is only ever set as text; what is read of the data is never taken as markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const TERMS = DATA.terms;
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return node;
}

const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);
const range = (count) => [...Array(count).keys()];

function section(id, title, note, ...children) {
  const heading = h("h2", { id: `${id}-title` }, title);
  return h("section", { id, "aria-labelledby": `${id}-title` }, heading, note && h("p", { class: "note" }, note), children);
}

// Definitions have names of the report's fields in backquotes.
const defined = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

// A table whose first column names the row. Columns: {title, isNumber}; in a narrow window each row is a block.
function table(caption, columns, rows, className = "") {
  const cell = (value, place) => {
    const attributes = { class: columns[place].isNumber ? "number" : null, "data-title": columns[place].title };
    return place ? h("td", attributes, value) : h("th", { scope: "row" }, value);
  };
  return h("table", { class: className },
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(({ title, isNumber }) => h("th", { scope: "col", class: isNumber ? "number" : null }, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))));
}

// Made when it is opened first, since most are not.
function folded(summary, make) {
  const node = h("details", {}, h("summary", {}, summary));
  const fill = () => node.childElementCount === 1 && node.append(make());
  node.addEventListener("toggle", () => node.open && fill());
  return node;
}
