// The least contrast of a text with the ground of the page.
() => {
  const light = (text) => {
    const parts = text.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll("main *")].filter((node) => node.checkVisibility() && node.childNodes.length && !node.closest(".notice")).map((node) => {
    const text = light(getComputedStyle(node)[node instanceof SVGElement ? "fill" : "color"]);
    return node instanceof SVGElement && node.tagName !== "text" ? 99 : (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
  }));
}
