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

  // A chart as a file of its own: with its key, and with the styles that the page gives it written into it.
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "display",
    "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "paint-order"];
  const NS = "http://www.w3.org/2000/svg";
  const shape = (name, values) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    return element;
  };
  const drawing = (figure) => {
    const whole = figure.querySelector(".wide svg").cloneNode(true);
    const { x, y, width, height } = whole.viewBox.baseVal;
    let bottom = y + height + 6;
    for (const key of figure.querySelectorAll(".keys li")) {
      const swatch = key.querySelector("svg");
      const row = shape("g", { class: swatch.classList.item(1) ?? "", transform: `translate(${x + 4} ${bottom})` });
      const text = shape("text", { x: 30, y: 12, "font-size": 13 });
      const mark = document.querySelector(swatch.firstElementChild.getAttribute("href")).cloneNode(true);
      mark.removeAttribute("id");
      text.textContent = key.textContent.trim();
      row.append(mark, text);
      whole.append(row);
      bottom += 20;
    }
    whole.prepend(shape("rect", { class: "sheet", x, y, width, height: bottom - y }));
    figure.querySelector(".wide").append(whole); // where the page's styles reach it
    for (const element of [whole, ...whole.querySelectorAll("*")]) {
      const style = getComputedStyle(element);
      for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    }
    whole.remove();
    whole.setAttribute("xmlns", NS);
    for (const [key, value] of Object.entries({ viewBox: `${x} ${y} ${width} ${bottom - y}`, width, height: bottom - y })) whole.setAttribute(key, value);
    return { text: new XMLSerializer().serializeToString(whole), width, height: bottom - y };
  };
  const save = (url, name) => {
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
  };
  const asUrl = (text) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  const asPng = ({ text, width, height }, name) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL("image/png"), name);
    };
    image.src = asUrl(text);
  };
  for (const figure of document.querySelectorAll("figure")) {
    const name = figure.closest("[id]")?.id ?? "chart";
    const row = document.createElement("p");
    row.className = "save";
    row.append(button("Save SVG", () => save(asUrl(drawing(figure).text), `${name}.svg`)),
      button("Save PNG", () => asPng(drawing(figure), `${name}.png`)));
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
