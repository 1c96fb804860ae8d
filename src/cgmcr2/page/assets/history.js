// All edits, newest first: undo, redo, or go back to any of them.

import { el, button } from "./dom.js";

const PAST = {
  move: "moved", rename: "renamed", merge: "merged", make: "made", lock: "confirmed", unlock: "unconfirmed", exclude: "excluded", reject: "rejected", refine: "updated",
};
const HISTORY_VERBS = /^(undo|redo|go back to line \d+)$/; // what they did is shown at the other edits

// The description of an edit in the past tense, with names of clusters in place of their numbers.
export const inWords = (app, text) => text.split("; ").map((part) => {
  const past = part.replace(/^\w+/, (verb) => PAST[verb] ?? verb).replace(/'([^']*)'/, "“$1”");
  if (part.startsWith("rename ")) return past;
  return past.replace(/\bclusters? \d+(?:(?:, | and )\d+)*/, (list) => list.replace(/^clusters? /, "").replace(/\d+/g, (cluster) => `“${app.data.names[cluster] ?? cluster}”`));
}).join("; ");

export function historyView(app) {
  if (!app.source.editable) return null;
  const list = el("ol", { className: "history", id: "history-list" });
  const undo = button("Undo", () => app.undo(), { title: "Ctrl+Z" }), redo = button("Redo", () => app.redo(), { title: "Ctrl+Shift+Z" });
  const element = el("section", { id: "view-history", "aria-labelledby": "history-title" },
    el("div", { className: "head" }, el("h2", { id: "history-title", textContent: "History" }), el("div", { className: "tools" }, undo, redo)),
    el("p", { className: "about", textContent: "Every edit is saved in the run folder as soon as it is made. Going back is an edit, too, so nothing is ever lost." }), list);
  const time = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

  function update() {
    const { log, can_undo, can_redo } = app.data.history;
    undo.disabled = !can_undo;
    redo.disabled = !can_redo;
    const lines = [{ line: 0, text: "as fitted", time: null, undone: false }, ...log.filter((edit) => !HISTORY_VERBS.test(edit.text))].reverse();
    const now = lines.findIndex((edit) => !edit.undone);
    list.replaceChildren(...lines.map((edit, i) => el("li", { className: edit.undone ? "undone" : "" },
      el("span", { className: "text" }, el("bdi", { textContent: inWords(app, edit.text) }), edit.undone ? el("span", { className: "small", textContent: " (undone)" }) : null),
      el("time", { className: "small", textContent: edit.time ? time.format(new Date(edit.time)) : "" }),
      i !== now ? button("Go back to here", () => app.edit("back", { line: edit.line }), { className: "quiet" }) : el("span", { className: "small", textContent: "now" }))));
  }

  return { element, show: update, update };
}
