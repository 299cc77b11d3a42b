// SPDX-License-Identifier: MIT
// What a screen reader, a keyboard or tired eyes stumble over, and what sticks out. Both functions run in the page and
// must stand alone: the browser gets their source.

// Sentences about controls without a name, labels that point nowhere, ids that are there twice, wrong roles, headings
// out of order, text with too little contrast. [] is good.
export function find_barriers() {
  const found = [];
  const short = (element) => element.outerHTML.slice(0, 90);
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && element.getClientRects().length > 0;
  const hidden_from_readers = (element) => element.closest("[aria-hidden=true]") !== null;
  const all = [...document.querySelectorAll("body *")].filter((element) => seen(element) && !hidden_from_readers(element));

  for (const control of all.filter((element) => element.matches("button, input, select, textarea, a[href], summary, meter, [role=meter], [role=img], [role=tab], [role=progressbar], [role=region], [role=group], [role=log]"))) {
    const labelled = (control.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent).join("");
    const name = control.getAttribute("aria-label") || labelled || [...(control.labels ?? [])].map((label) => label.textContent).join("") || control.textContent;
    if (!name.trim()) found.push(`no name: ${short(control)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) found.push(`id twice: ${id}`);
  for (const attribute of ["aria-controls", "aria-labelledby", "aria-describedby", "for"])
    for (const element of document.querySelectorAll(`[${attribute}]`))
      for (const id of element.getAttribute(attribute).split(" "))
        if (!document.getElementById(id)) found.push(`${attribute} points nowhere: ${short(element)}`);
  for (const image of document.querySelectorAll("img:not([alt])")) found.push(`no alt: ${short(image)}`);
  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) found.push(`tabindex above 0: ${short(element)}`);
  for (const list of document.querySelectorAll("ul, ol"))
    if ([...list.children].some((child) => child.tagName !== "LI")) found.push(`not an item: ${short(list)}`);
  const levels = all.filter((element) => /^H[1-6]$/.test(element.tagName)).map((element) => Number(element.tagName[1]));
  levels.forEach((level, i) => { if (i > 0 && level > levels[i - 1] + 1) found.push(`heading ${levels[i - 1]} is followed by ${level}`); });
  if (document.querySelectorAll("main").length !== 1) found.push("not one main");
  if (!document.documentElement.lang) found.push("no language");

  // Colours as the browser resolves them, color-mix() included.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((part, i) => (i === 3 ? part / 255 : part));
  };
  const over = (top, below) => top.slice(0, 3).map((part, i) => part * top[3] + below[i] * (1 - top[3]));
  const back_of = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (colour) => colour.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const worst = new Map();
  for (const element of all) {
    const has_text = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!has_text || element.closest("option, :disabled, script, style") !== null) continue;
    const style = getComputedStyle(element), back = back_of(element);
    const [a, b] = [light(over(rgba(element.namespaceURI.includes("svg") ? style.fill : style.color), back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) worst.set(`${element.tagName}.${element.className.baseVal ?? element.className}`, `contrast ${ratio.toFixed(2)}: ${short(element)}`);
  }
  return [...found, ...worst.values()];
}

// What sticks out of the window sideways, or out of a box that does not scroll. [] is good.
export function find_overflow() {
  const found = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) found.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${wide}`);
  const scrolls = (element) => {
    for (let at = element; at; at = at.parentElement)
      if (/auto|scroll|hidden|clip/.test(getComputedStyle(at).overflowX) && at !== document.body) return true;
    return false;
  };
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > wide + 1 && element.checkVisibility() && !scrolls(element.parentElement))
      found.push(`ends at ${Math.round(box.right)} of ${wide}: ${element.outerHTML.slice(0, 80)}`);
  }
  for (const button of document.querySelectorAll("button, summary, .badge"))
    if (button.checkVisibility() && button.scrollWidth > button.clientWidth + 1 && getComputedStyle(button).textOverflow !== "ellipsis" && button.clientWidth > 0 && getComputedStyle(button).display !== "inline")
      found.push(`text is cut: ${button.outerHTML.slice(0, 80)}`);
  return found.slice(0, 12);
}
