// Splitting a cluster: a preview of the parts, then accept or cancel.

import { el, button, openDialog } from "./dom.js";
import { picture } from "./tiles.js";

const PICTURES = 12;
const LARGEST = 8; // parts

export function splitDialog(app, cluster) {
  const entry = app.cluster(cluster);
  if (!entry || entry.size < 2) return;
  const parts = el("div", { className: "parts", "aria-live": "polite" });
  const count = el("output", { textContent: "2" });
  const fewer = button("−", () => preview(m - 1), { "aria-label": "Fewer parts" }), more = button("+", () => preview(m + 1), { "aria-label": "More parts" });
  const accept = button("Split", save, { className: "primary" });
  const note = entry.locked ? el("p", { className: "small", textContent: `Confirmed ${app.data.item}s stay in the first part.` }) : null;
  const body = el("div", {}, el("p", { className: "field" }, "Parts ", el("span", { className: "segments" }, fewer, more), count), note, parts,
    el("p", { className: "dialog-actions" }, button("Cancel", () => dialog.close()), accept));
  const { dialog } = openDialog(`Split “${entry.name}”`, body, { className: "wide" });
  let m = 2, found = [], latest = 0;

  async function preview(number) {
    m = Math.min(Math.max(2, number), LARGEST, entry.size);
    count.textContent = String(m);
    fewer.disabled = m <= 2;
    more.disabled = m >= Math.min(LARGEST, entry.size);
    accept.disabled = true;
    parts.classList.add("busy");
    const request = ++latest;
    let answer;
    try {
      answer = await app.source.splitPreview(cluster, m);
    } catch (error) {
      parts.replaceChildren(el("p", { className: "empty", textContent: error.message }));
      return;
    } finally {
      parts.classList.remove("busy");
    }
    if (request !== latest) return; // another number was chosen meanwhile
    found = answer.parts;
    accept.disabled = found.length < 2;
    parts.replaceChildren(...found.map((rows, i) => {
      const typical = [...rows].sort((a, b) => app.data.typicality[b] - app.data.typicality[a]).slice(0, PICTURES);
      const input = el("input", { type: "text", placeholder: i ? `${entry.name} (${i + 1})` : entry.name, "aria-label": `Name of part ${i + 1}`, disabled: i === 0, autocomplete: "off", value: i ? "" : entry.name });
      return el("div", { className: "part" }, input, el("p", { className: "small", textContent: app.count(rows.length) }), el("div", { className: `strip${app.data.has_images ? "" : " text"}` }, ...typical.map((row) => el("span", { className: "tile" }, picture(app, row)))));
    }));
  }

  async function save() {
    const names = [...parts.querySelectorAll("input")].slice(1).map((input) => input.value.trim() || null);
    dialog.close();
    if (await app.edit("split", { cluster, parts: found.slice(1), names }, `“${entry.name}” split into ${found.length} parts.`)) app.go("clusters", true);
  }

  preview(2);
}
