// Contrast of every text on the page as it is painted (WCAG 2.2, success criterion 1.4.3).
(() => {
  const parse = (c) => {
    const n = c.match(/[\d.]+/g).map(Number);
    return { r: n[0], g: n[1], b: n[2], a: n.length > 3 ? n[3] : 1 };
  };
  const over = (top, under) => {
    const mix = (x, y) => x * top.a + y * (1 - top.a);
    return { r: mix(top.r, under.r), g: mix(top.g, under.g), b: mix(top.b, under.b), a: 1 };
  };
  const luminance = (c) => {
    const [r, g, b] = [c.r, c.g, c.b]
      .map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      layers.push(parse(getComputedStyle(e).backgroundColor));
    }
    return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
  };
  const poor = [];
  let measured = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("title, style") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const painted = element.closest("svg") ? style.fill : style.color;
    const under = ground(element);
    const text = over(parse(painted), under);
    const [low, high] = [luminance(text), luminance(under)].sort((x, y) => x - y);
    const ratio = (high + 0.05) / (low + 0.05);
    const large = parseFloat(style.fontSize) >= 24
      || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    measured += 1;
    if (ratio < (large ? 3 : 4.5)) {
      poor.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)} (${painted})`);
    }
  }
  return { measured, poor };
})()
