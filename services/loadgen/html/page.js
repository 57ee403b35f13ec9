// Puts the page together; of a sweep, one point is shown in detail.

function contents(sections) {
  const links = sections.map((node) => h("a", { href: `#${node.id}` }, node.querySelector("h2").textContent));
  return h("nav", { "aria-label": "Sections" }, links);
}

function show(chosen, isAgain = false) {
  const point = DATA.points[chosen];
  const isSweep = DATA.points.length > 1;
  const choose = (index) => show(index, true);
  const sections = [distributions, overTime, requests, objectives, allFigures, intervals, executors, otherTools, setup].map((make) => make(point)).filter(Boolean);
  const title = isSweep && h("h2", { class: "chosen-title", id: "chosen" }, `In detail: ${nameOf(point, chosen)}`);
  const at = window.scrollY;
  document.querySelector("main")?.remove();
  document.body.append(h("main", {}, header(point), isSweep && sweep(DATA.points, chosen, choose), title, notices(point), headline(point), contents(sections), sections));
  if (!isAgain) return;
  window.scrollTo(0, at);
  document.querySelector("input[name=point]:checked").focus({ preventScroll: true });
}

show(0);
