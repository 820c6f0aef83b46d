// Words that the page breaks, clips or paints outside of their boxes, each in words.
(() => {
  const found = [];
  const shown = (node) => node.data.trim().replace(/\s+/g, " ").slice(0, 40);
  const width = document.documentElement.clientWidth;
  // Between letters of these scripts a line may end anywhere.
  const alone = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\u30fc\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}";
  const letter = `(?:(?![${alone}])[\\p{L}\\p{M}\\p{N}\\u200c\\u200d])`;
  // A soft hyphen, <wbr> or a hyphen ends a word here: a line may end after it. An element
  // inside a word ends it too.
  const words = new RegExp(`${letter}+(?:[.,:'’_]${letter}+)*`, "gu");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let measured = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("title, style, script, .skip")) continue;
    if (!element.checkVisibility()) continue;
    const range = document.createRange();
    const svg = element.closest("svg");
    if (svg) {
      const [text, box] = [element.getBoundingClientRect(), svg.getBoundingClientRect()];
      if (text.left < box.left - 1 || text.right > box.right + 1
        || text.top < box.top - 1 || text.bottom > box.bottom + 1) {
        found.push(`outside of its drawing: ${shown(node)}`);
      }
      continue;
    }
    for (const word of node.data.matchAll(words)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter((r) => r.width > 0);
      measured += 1;
      if (lines.some((r) => Math.abs(r.top - lines[0].top) > r.height / 2)) {
        found.push(`broken: ${word[0].slice(0, 40)} in ${element.tagName}.${element.className}`);
      }
    }
    // Outermost first would cost more: whatever box clips the text is above it.
    range.selectNodeContents(node);
    const text = range.getBoundingClientRect();
    let reach = { left: 0, right: width };
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.overflowX === "visible") continue;
      const box = e.getBoundingClientRect();
      if (["hidden", "clip"].includes(style.overflowX) || style.textOverflow !== "clip") {
        if (text.left < box.left - 1 || text.right > box.right + 1) {
          found.push(`clipped: ${shown(node)} in ${e.tagName}.${e.className}`);
        }
      } else {
        reach = null;  // The reader scrolls to it: the box must say so and take the keyboard.
        if (e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0) {
          found.push(`out of reach: ${shown(node)} in ${e.tagName}.${e.className}`);
        }
        break;
      }
    }
    if (reach && (text.left < reach.left - 1 || text.right > reach.right + 1)) {
      found.push(`outside of the window: ${shown(node)} in ${element.tagName}.${element.className}`);
    }
  }
  for (const e of document.querySelectorAll("body *")) {
    const style = getComputedStyle(e);
    const hides = (overflow) => ["hidden", "clip"].includes(overflow);
    if (!e.closest("svg") && e.checkVisibility()
      && ((hides(style.overflowX) && e.scrollWidth > e.clientWidth + 1)
        || (hides(style.overflowY) && e.scrollHeight > e.clientHeight + 1))) {
      found.push(`clipped: ${e.textContent.trim().slice(0, 40)} in ${e.tagName}.${e.className}`);
    }
  }
  const scrolling = [...document.querySelectorAll(".scroll")]
    .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
    .map((e) => e.getAttribute("aria-label"));
  return { measured, found: [...new Set(found)], scrolling };
})()
