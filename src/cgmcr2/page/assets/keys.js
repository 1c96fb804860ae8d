// The dialog with all keys.

import { el, button, openDialog } from "./dom.js";

const ALWAYS = [["?", "show this"], ["/", "search by name"], ["T", "light or dark theme"], ["Escape", "clear the selection, close, go back"]];
const IMAGES = [["Arrows", "move"], ["Space", "select or deselect"], ["Shift + arrows", "select a range"], ["Ctrl + A", "select all"], ["Enter", "open"], ["[ and ]", "previous and next cluster"], ["Drag", "select a rectangle; with Alt, deselect it"]];
const SELECTED = [["M", "move to a cluster"], ["N", "new cluster"], ["X", "exclude"], ["L", "confirm or unconfirm"], ["S", "similar ones"]];
const CLUSTERS = [["Arrows", "move between cards"], ["Space", "select a card"], ["M", "merge the selected cards"], ["R or F2", "rename"], ["P", "split the open cluster"]];
const MAP = [["Arrows", "move between points"], ["Enter", "open"], ["+, −, 0", "zoom in, out, reset"]];
const LASSO = [["L", "lasso on or off"], ["Shift + drag", "add to the selection"], ["Alt + drag", "remove from the selection"]];
const EDITS = [["Ctrl + Z", "undo"], ["Ctrl + Shift + Z", "redo"]];
const REVIEW = [["1, 2", "first or second cluster"], ["O", "another cluster"], ["N", "neither"], ["Space", "skip"], ["U", "undo"]];

export function showKeys(app) {
  const title = app.data.item === "image" ? "Images" : "Rows";
  const groups = app.source.editable
    ? { Everywhere: [...ALWAYS, ...EDITS], [title]: IMAGES, Selected: SELECTED, Clusters: CLUSTERS, Map: [...MAP, ...LASSO], Review: REVIEW }
    : { Everywhere: ALWAYS, [title]: IMAGES, Map: MAP };
  const { dialog } = openDialog("Keys", el("div", {}, el("div", { className: "keys" }, ...Object.entries(groups).map(([title, keys]) =>
    el("section", {}, el("h3", { textContent: title }), el("dl", {}, ...keys.map(([key, text]) => el("div", {}, el("dt", {}, el("kbd", { textContent: key })), el("dd", { textContent: text }))))))),
  el("p", { className: "dialog-actions" }, button("Close", () => dialog.close()))), { className: "wide" });
  dialog.querySelector("button").focus();
}
