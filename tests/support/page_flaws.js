// What sticks out of the window or of its own box, and texts and figures that lie on each other.
() => {
  const flaws = [];
  const named = (node) => `${node.tagName} ${node.getAttribute("class") || ""} ${node.textContent.slice(0, 40)}`;
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) flaws.push("the page scrolls sideways");
  const seen = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && !node.closest(".hidden"));
  for (const node of seen) {
    const box = node.getBoundingClientRect();
    if (box.width && (box.left < -0.5 || box.right > width + 0.5)) flaws.push(`outside: ${named(node)}`);
    if (node instanceof HTMLElement && node.scrollWidth > node.clientWidth + 1 && node.clientWidth) flaws.push(`cut off: ${named(node)}`);
  }
  const apart = (nodes, slack) => nodes.forEach((node, index) => nodes.slice(index + 1).forEach((other) => {
    const [a, b] = [node.getBoundingClientRect(), other.getBoundingClientRect()];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (!node.contains(other) && across > slack && down > slack) flaws.push(`on each other: ${named(node)} | ${named(other)}`);
  }));
  for (const plot of document.querySelectorAll("svg.plot")) {
    const box = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll("text")];
    apart(texts, 2);
    for (const text of texts) {
      const at = text.getBoundingClientRect();
      const isOver = at.top < box.top - 3 || at.bottom > box.bottom + 3 || at.left < box.left - 3 || at.right > box.right + 3;
      if (isOver) flaws.push(`over the plot's edge: ${named(text)}`);
    }
  }
  apart([...document.querySelectorAll(".tile, .panel, nav, .notice, table, .timeline, .groups > div")], 0.5);
  return flaws;
}
