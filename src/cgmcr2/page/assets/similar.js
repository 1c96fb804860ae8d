// Search: images that look like one image of the run, like a file that was dropped on the page, or like a description.

import { el } from "./dom.js";
import { makeGrid } from "./grid.js";
import { picture } from "./tiles.js";

export function similarView(app) {
  if (!app.source.editable) return null;
  const canRead = app.data.can_read;
  let dropped = null, similarity = new Map(), latest = 0;
  const grid = makeGrid(app, {
    label: `Similar ${app.data.item}s`,
    caption: (row) => [`${Math.round(100 * (similarity.get(row) ?? 0))} % · `, app.name(app.data.labels[row])],
  });
  const title = el("h2", { id: "similar-title", tabIndex: -1, textContent: canRead ? "Search" : `Similar ${app.data.item}s` });
  const query = el("div", { className: "query" });
  const about = el("p", { className: "about", textContent: "Most similar first, by the cosine of the features." });
  const text = el("input", { id: "search-text", type: "search", placeholder: "Describe what to find", "aria-label": `Describe the ${app.data.item}s to find`, autocomplete: "off" });
  const form = el("form", { className: "filters", role: "search", hidden: !canRead, onsubmit: (event) => {
    event.preventDefault();
    dropped = null;
    if (text.value.trim()) search(text.value.trim());
  } }, text, el("button", { type: "submit", className: "primary", textContent: "Search" }));
  const element = el("section", { id: "view-similar", "aria-labelledby": "similar-title" }, el("div", { className: "head" }, title), form, query, about, grid.element);

  // value: a row, a file, or a text
  async function search(value, ...shown) {
    const request = ++latest;
    query.replaceChildren(...shown);
    grid.setRows([]);
    element.setAttribute("aria-busy", "true");
    try {
      const { rows, similarities } = await (typeof value === "string" ? app.source.search(value) : app.source.similar(value));
      if (request !== latest) return;
      similarity = new Map(rows.map((row, i) => [row, similarities[i]]));
      grid.setRows(rows);
      grid.element.focus({ preventScroll: true }); // so that the keys act on the results
    } catch (error) {
      if (request === latest) app.say(error.message, { error: true });
    } finally {
      element.removeAttribute("aria-busy");
    }
  }

  const overlay = el("div", { className: "drop", hidden: true, textContent: "Drop an image to find similar ones" });
  document.body.append(overlay);
  const isFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!isFile(event) || !app.data.can_embed) return;
    event.preventDefault();
    overlay.hidden = false;
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) overlay.hidden = true; });
  addEventListener("drop", (event) => {
    overlay.hidden = true;
    const file = event.dataTransfer?.files[0];
    if (!file || !app.data.can_embed) return;
    event.preventDefault();
    dropped = file;
    app.go("similar");
  });

  return {
    element,
    show(argument) {
      title.focus({ preventScroll: true });
      if (argument !== "") {
        const row = Number(argument);
        app.source.ids([row]).then(([id]) => search(row, picture(app, row), el("bdi", { textContent: id })), (error) => app.say(error.message, { error: true }));
      } else if (dropped) search(dropped, el("img", { src: URL.createObjectURL(dropped), alt: "" }), el("bdi", { textContent: dropped.name }));
      else if (canRead) text.focus();
      else query.replaceChildren(app.data.can_embed ? "Drop an image on this page to find similar ones." : "Select one first.");
    },
    update() { grid.setRows(grid.rows, true); },
    key: (event) => grid.key(event),
  };
}
