// Coarse to fine: fewer clusters by merging, more by splitting, with a preview.

import { el, button, openDialog, plural } from "./dom.js";
import { picture } from "./tiles.js";

const PICTURES = 6;
const DELAY = 250; // milliseconds after the last change of the slider

export function levelsControl(app) {
  if (!app.source.editable) return null;
  return button("Coarser or finer…", () => levelsDialog(app), { id: "levels", title: "Merge or split clusters to get fewer or more of them" });
}

function levelsDialog(app) {
  const entries = app.data.clusters.filter((entry) => !entry.excluded), k = entries.length;
  const images = entries.reduce((sum, entry) => sum + entry.size, 0);
  const most = Math.max(k, Math.min(Math.max(2 * k, k + 5), Math.floor(images / 3)));
  let answer = null, timer = 0, latest = 0;

  const slider = el("input", { type: "range", id: "levels-slider", min: 1, max: most, value: k, "aria-label": "Number of clusters", autofocus: true });
  const title = el("output", { className: "name", htmlFor: "levels-slider" });
  const groups = el("div", { className: "level-groups", "aria-live": "polite" });
  const apply = button("Apply", save, { className: "primary", disabled: true });
  const { dialog } = openDialog("Coarser or finer", el("div", {},
    el("p", { className: "levels" }, el("span", { className: "small", textContent: "coarse" }), slider, el("span", { className: "small", textContent: "fine" })), title, groups,
    el("p", { className: "dialog-actions" }, button("Cancel", () => dialog.close()), apply)), { className: "wide" });

  slider.addEventListener("input", () => {
    describe();
    clearTimeout(timer);
    timer = setTimeout(preview, DELAY);
  });

  function describe() {
    const m = Number(slider.value), difference = m < k ? `, ${k - m} fewer` : m > k ? `, ${m - k} more` : ", as now";
    title.textContent = `${plural(m, "cluster")}${difference}`;
    slider.setAttribute("aria-valuetext", title.textContent);
    apply.disabled = true;
  }

  async function preview() {
    const m = Number(slider.value), request = ++latest;
    if (m === k) {
      groups.replaceChildren(el("p", { className: "about", textContent: `Move the slider to the left to merge similar clusters, to the right to split those with the most varied ${app.data.item}s.` }));
      return;
    }
    groups.classList.add("busy");
    try {
      const levels = await app.source.levels(m);
      if (request !== latest) return;
      answer = levels;
    } catch (error) {
      if (request === latest) groups.replaceChildren(el("p", { className: "empty", textContent: error.message }));
      return;
    } finally {
      if (request === latest) groups.classList.remove("busy");
    }
    apply.disabled = !answer.edits.length;
    const changed = new Set(answer.groups.flatMap((group) => group.clusters)), same = entries.filter(({ number }) => !changed.has(number));
    groups.replaceChildren(...answer.groups.map((group) => (group.parts ? split(group) : merged(group))),
      ...(same.length ? [el("div", { className: "level-group" }, el("h3", { textContent: `${plural(same.length, "cluster")} unchanged` }), el("p", { className: "level-names" }, ...same.map(({ number }) => name(number))))] : []));
  }

  const name = (number) => el("span", { className: "level-name" }, app.mark(number), app.name(number));
  const strip = (rows) => el("div", { className: `strip${app.data.has_images ? "" : " text"}` }, ...rows.slice(0, PICTURES).map((row) => el("span", { className: "tile" }, picture(app, row))));

  // The first cluster of a merge keeps its name.
  const merged = ({ clusters }) => el("div", { className: "level-group" }, el("h3", {}, name(clusters[0]), ` from ${plural(clusters.length, "cluster")}`),
    ...clusters.flatMap((number) => [el("p", { className: "small" }, app.name(number), `, ${app.count(app.cluster(number).size)}`), strip(app.cluster(number).typical)]));

  function split({ clusters: [number], parts }) {
    const moved = new Set(parts.flat()), typical = (rows) => [...rows].sort((a, b) => app.data.typicality[b] - app.data.typicality[a]);
    const all = [app.members(number).filter((row) => !moved.has(row)), ...parts];
    return el("div", { className: "level-group" }, el("h3", {}, name(number), ` into ${all.length} parts`),
      ...all.flatMap((rows) => [el("p", { className: "small", textContent: app.count(rows.length) }), strip(typical(rows))]));
  }

  async function save() {
    dialog.close();
    await app.edit("batch", { edits: answer.edits }, `Now ${plural(Number(slider.value), "cluster")}.`);
  }

  describe();
  preview();
}
