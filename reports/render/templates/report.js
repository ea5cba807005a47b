"use strict";
// Comfort only: everything on the page can be read without this script.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const button = (words, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    made.addEventListener("click", () => act(made));
    return made;
  };
  const remember = (value) => { try { localStorage.setItem("dlrmbench-theme", value); } catch { /* file: without storage */ } };
  const recall = () => { try { return localStorage.getItem("dlrmbench-theme"); } catch { return null; } };

  const phone = matchMedia("(max-width: 640px)");
  const fold = () => document.querySelectorAll(".made").forEach((one) => { one.open = !phone.matches; });
  phone.addEventListener("change", fold);
  fold();

  const themes = ["auto", "light", "dark"];
  const apply = (theme, toggle) => {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", theme);
    toggle.textContent = `Theme: ${theme}`;
  };
  const tools = document.getElementById("tools");
  let theme = themes.includes(recall()) ? recall() : "auto";
  const toggle = button("", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    apply(theme, toggle);
    remember(theme);
  });
  apply(theme, toggle);
  tools.append(toggle);

  const copy = (text, made, words) => {
    const done = (said) => { made.textContent = said; setTimeout(() => { made.textContent = words; }, 1600); };
    if (!navigator.clipboard) { done("Cannot copy here"); return; }
    navigator.clipboard.writeText(text).then(() => done("Copied"), () => done("Cannot copy here"));
  };
  tools.append(button("Copy data as JSON", (made) => copy(document.getElementById("data").textContent, made, "Copy data as JSON")));
  for (const block of document.querySelectorAll("[data-copy]")) {
    const text = block.textContent;
    block.append(button("Copy", (made) => copy(text, made, "Copy")));
  }

  const keyOf = (cell, isNumber) => {
    const shown = cell.dataset.s ?? cell.textContent.trim();
    const number = parseFloat(shown.replaceAll(",", "").replace("−", "-"));
    return isNumber && !Number.isNaN(number) ? number : shown;
  };
  const isEmpty = (key) => key === "" || key === "—";
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const isNumber = head.classList.contains("n");
      const sort = button("", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        const keyed = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[column], isNumber), row]);
        keyed.sort(([a], [b]) => isEmpty(a) - isEmpty(b) || (isEmpty(a) ? 0 : (down ? compare(b, a) : compare(a, b))));
        table.tBodies[0].append(...keyed.map(([, row]) => row));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
      });
      sort.className = "sort";
      sort.append(...head.childNodes);
      head.append(sort);
    });
  }

  // A chart as a file of its own: with its key, and with the page's styles as plain values, which every drawing program reads.
  const escape = (text) => new Option(text).innerHTML;
  const styles = ["fill", "fill-opacity", "font-size", "font-weight", "opacity", "paint-order", "stroke", "stroke-dasharray",
    "stroke-linecap", "stroke-linejoin", "stroke-opacity", "stroke-width", "text-anchor", "vector-effect"];
  const settle = (whole) => {
    document.body.append(whole);
    const found = [...whole.querySelectorAll("*")].map((part) => [part, getComputedStyle(part)]);
    const values = found.map(([part, style]) => [part, styles.map((key) => [key, style.getPropertyValue(key)])]);
    whole.remove();
    for (const [part, pairs] of values) {
      part.removeAttribute("class");
      part.removeAttribute("style");
      for (const [key, value] of pairs) part.setAttribute(key, value);
    }
  };
  const save = (href, name) => Object.assign(document.createElement("a"), { href, download: name }).click();
  const drawing = (figure) => {
    const whole = figure.querySelector(".wide svg").cloneNode(true);
    let { x, y, width, height } = whole.viewBox.baseVal;
    const keys = [...figure.querySelectorAll(".keys li")].map((key) => {
      const swatch = key.firstElementChild;
      const mark = document.querySelector(swatch.firstElementChild.getAttribute("href")).outerHTML;
      height += 20;
      return `<g class="${swatch.classList[1] ?? ""}" transform="translate(${x} ${y + height - 14})">${mark}<text x="30" y="12">${escape(key.textContent)}</text></g>`;
    });
    whole.innerHTML = `<rect class="sheet" x="${x}" y="${y}" width="100%" height="100%"/>${whole.innerHTML}${keys.join("")}`;
    whole.removeAttribute("class");
    settle(whole);
    const values = { viewBox: [x, y, width, height].join(" "), width, height, "font-family": "sans-serif" };
    for (const key in values) whole.setAttribute(key, values[key]);
    return "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(whole));
  };
  const saveDrawn = (url, name) => {
    const image = new Image();
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL(), name);
    };
    image.src = url;
  };
  for (const figure of document.querySelectorAll("figure")) {
    const name = figure.closest("[id]").id;
    const row = document.createElement("p");
    row.className = "save";
    row.append(button("Save SVG", () => save(drawing(figure), `${name}.svg`)), button("Save PNG", () => saveDrawn(drawing(figure), `${name}.png`)));
    figure.append(row);
  }

  // A link into something folded opens it.
  const unfold = () => {
    let part = null;
    try { part = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    for (let fold = part?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    part?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
})();
