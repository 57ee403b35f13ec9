// The least contrast of a text with what is behind it, and the text.
() => {
  const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => {
    const [red, green, blue] = parts(colour).slice(0, 3).map((part) => part / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const isSolid = (colour) => (parts(colour)[3] ?? 1) === 1;
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) if (isSolid(getComputedStyle(at).backgroundColor)) return getComputedStyle(at).backgroundColor;
    return "rgb(255, 255, 255)";
  };
  const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
  const found = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && hasText(node)).map((node) => {
    const [text, behind] = [light(getComputedStyle(node)[node instanceof SVGElement ? "fill" : "color"]), light(ground(node))];
    return [(Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05), node.textContent.slice(0, 40)];
  });
  return found.reduce((least, one) => (one[0] < least[0] ? one : least));
}
