// Learning from the edits: what would change, then accept or discard.

import { el, button, number, plural } from "./dom.js";
import { tile } from "./tiles.js";

const PICTURES = 8; // of each move

export function refineView(app) {
  if (!app.source.editable || !app.data.can_refine) return null;
  const { item } = app.data, { source } = app;
  let running = false, preview = null; // preview: {moves, changed, seconds} for the state of the page

  const start = button(`Update the other ${item}s`, run, { className: "primary", id: "refine-start" });
  const status = el("p", { role: "status" });
  const progress = el("progress", { "aria-label": "The model is learning", hidden: true });
  const table = el("div", { className: "moves" });
  const decision = el("div", { className: "tools decision", hidden: true }, button("Accept", accept, { className: "primary", id: "refine-accept" }), button("Discard", discard, { id: "refine-discard" }));
  const element = el("section", { id: "view-refine", "aria-labelledby": "refine-title" },
    el("div", { className: "head" }, el("h2", { id: "refine-title", tabIndex: -1, textContent: "Learn from your edits" }), el("div", { className: "tools" }, button("Continue the review", () => app.go("review"), { className: "quiet" }), start)),
    el("p", { className: "about", textContent: `The model continues training with your answers, moves, merges and splits, and assigns the other ${item}s again. Confirmed ${item}s never move. Nothing changes before you accept it.` }),
    progress, status, decision, table);

  async function run() {
    if (running) return;
    running = true;
    preview = null;
    render("The model is learning from your edits. This takes some seconds.");
    try {
      preview = await source.refine();
      render();
    } catch (error) {
      render(error.message);
    } finally {
      running = false;
      progress.hidden = true;
      start.disabled = false;
    }
    if (!decision.hidden) element.querySelector("#refine-accept").focus();
  }

  function render(message = null) {
    progress.hidden = !running || preview !== null;
    start.disabled = running && preview === null;
    start.hidden = Boolean(preview?.changed);
    decision.hidden = !preview?.changed;
    decision.querySelector("#refine-accept").disabled = false;
    const moves = preview?.moves ?? [];
    status.textContent = message ?? (preview ? summary() : "");
    table.replaceChildren(...(moves.length ? [el("table", { className: "list" },
      el("thead", {}, el("tr", {}, ...["Move", "From", "To", "Number", "Examples"].map((text) => el("th", { scope: "col", textContent: text })))),
      el("tbody", {}, ...[...moves].sort((a, b) => b.rows.length - a.rows.length).map(line)))] : []));
  }

  // Each group of moves can be left out.
  function tick(move) {
    const box = el("input", { type: "checkbox", checked: true, "aria-label": `Move ${app.count(move.rows.length)} from ${app.data.names[move.from]} to ${app.data.names[move.to]}` });
    box.addEventListener("change", () => {
      move.skipped = !box.checked;
      element.querySelector("#refine-accept").disabled = !accepted().length;
    });
    return box;
  }

  const accepted = () => preview.moves.filter((move) => !move.skipped).flatMap((move) => move.rows);
  const cluster = (number) => [app.mark(number), app.name(number)];
  const line = (move) => el("tr", {}, el("td", {}, tick(move)), el("td", {}, ...cluster(move.from)), el("td", {}, ...cluster(move.to)), el("td", { textContent: number(move.rows.length) }),
    el("td", {}, el("div", { className: `strip${app.data.has_images ? "" : " text"}` }, ...move.rows.slice(0, PICTURES).map((row) => tile(app, row, move.rows)))));

  function summary() {
    if (!preview.changed) return `No ${item} would move: the model agrees with your edits.`;
    return `${app.count(preview.changed)} would move, in ${plural(preview.moves.length, "group")}. Computed in ${preview.seconds.toFixed(1)} s.`;
  }

  async function accept() {
    if (!preview) return; // a second click
    const rows = accepted(), changed = rows.length;
    preview = null;
    running = true;
    render("Saving. The model is trained with your edits, so that it also fits new images.");
    try {
      app.replace(await source.acceptRefine(rows));
    } catch (error) {
      running = false;
      render(error.message);
      return;
    }
    running = false;
    render(`${app.count(changed)} moved.`);
    app.say(`${app.count(changed)} moved.`, { action: { text: "Undo", run: app.undo } });
    element.querySelector("#refine-title").focus();
  }

  async function discard() {
    preview = null;
    await source.discardRefine().catch(() => {});
    render("Discarded; nothing has changed.");
    start.focus();
  }

  app.on("data", () => {
    if (!preview) return;
    preview = null;
    render("The clusters have changed since; update again to see what would move.");
  });

  return { element, show() {}, update() {}, start: run };
}
