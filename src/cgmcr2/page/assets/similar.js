// Images that look like one image of the run, or like a file that was dropped on the page.

import { el } from "./dom.js";
import { makeGrid } from "./grid.js";
import { picture } from "./tiles.js";

export function similarView(app) {
  if (!app.source.editable) return null;
  let dropped = null, similarity = new Map(), latest = 0;
  const grid = makeGrid(app, {
    label: `Similar ${app.data.item}s`,
    caption: (row) => [`${Math.round(100 * (similarity.get(row) ?? 0))} % · `, app.name(app.data.labels[row])],
  });
  const title = el("h2", { id: "similar-title", tabIndex: -1, textContent: `Similar ${app.data.item}s` });
  const query = el("div", { className: "query" });
  const about = el("p", { className: "about", textContent: "Most similar first, by the cosine of the features." });
  const element = el("section", { id: "view-similar", "aria-labelledby": "similar-title" }, el("div", { className: "head" }, title), query, about, grid.element);

  async function search(value, image, name) {
    const request = ++latest;
    query.replaceChildren(image, el("bdi", { textContent: name }));
    grid.setRows([]);
    element.setAttribute("aria-busy", "true");
    try {
      const { rows, similarities } = await app.source.similar(value);
      if (request !== latest) return;
      similarity = new Map(rows.map((row, i) => [row, similarities[i]]));
      grid.setRows(rows);
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
        app.source.ids([row]).then(([id]) => search(row, picture(app, row), id), (error) => app.say(error.message, { error: true }));
      } else if (dropped) search(dropped, el("img", { src: URL.createObjectURL(dropped), alt: "" }), dropped.name);
      else query.replaceChildren(app.data.can_embed ? "Drop an image on this page to find similar ones." : "Select one first.");
    },
    update() { grid.setRows(grid.rows, true); },
    key: (event) => grid.key(event),
  };
}
