// Coarse to fine: fewer clusters by merging, more by splitting. In the explorer a dialog with a preview; a report shows
// the levels of the run's tree.

import { el, button, openDialog, plural } from "./dom.js";
import { picture } from "./tiles.js";
import { atLevel } from "./tree.js";

const PICTURES = 6;
const DELAY = 250; // milliseconds after the last change of the slider
const STEPS = 24; // of the report's slider, for each factor e in the number of clusters

export function levelsControl(app) {
  if (!app.source.editable) return app.data.levels ? levelsSlider(app) : null;
  return button("Coarser or finer…", () => levelsDialog(app), { id: "levels", title: "Merge or split clusters to get fewer or more of them" });
}

const coarseToFine = (slider) => [el("span", { className: "small", textContent: "coarse" }), slider, el("span", { className: "small", textContent: "fine" })];

// Shows the clusters of a level at once; nothing is saved.
function levelsSlider(app) {
  const base = app.data, { proposed, stable, leaves } = base.levels;
  const marked = new Set([...stable, proposed]);
  const step = (m) => Math.round(STEPS * Math.log(m));
  // The numbers on the slider: all small ones, then steps of equal ratio, and those that are marked.
  const levels = Array.from({ length: leaves.length - 1 }, (_, i) => i + 2).filter((m) => marked.has(m) || m === leaves.length || step(m) > step(m - 1));
  const slider = el("input", { type: "range", id: "levels-slider", min: 0, max: levels.length - 1, value: levels.indexOf(proposed), "aria-label": "Number of clusters" });
  const title = el("output", { className: "small", htmlFor: "levels-slider" });
  const marks = [...marked].sort((a, b) => a - b).map((m) => button(String(m), () => show(m), {
    className: "level-mark", title: m === proposed ? `${plural(m, "cluster")}: proposed` : `${plural(m, "cluster")}: stable as well`,
  }));
  const waiting = { frame: 0 };

  function describe(m) {
    title.textContent = `${plural(m, "cluster")}${m === proposed ? ", proposed" : marked.has(m) ? ", stable" : ""}`;
    slider.setAttribute("aria-valuetext", title.textContent);
    for (const mark of marks) mark.setAttribute("aria-pressed", String(Number(mark.textContent) === m));
  }

  function show(m) {
    slider.value = levels.indexOf(m);
    describe(m);
    cancelAnimationFrame(waiting.frame);
    waiting.frame = requestAnimationFrame(() => {
      app.replace(atLevel(base, m));
      app.views.clusters.show(); // sorted again
    });
  }

  slider.addEventListener("input", () => show(levels[slider.value]));
  describe(proposed);
  return el("div", { id: "levels", role: "group", "aria-label": "Coarser or finer" }, el("p", { className: "levels" }, ...coarseToFine(slider)), el("p", { className: "level-marks" }, title, ...marks));
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
    el("p", { className: "levels" }, ...coarseToFine(slider)), title, groups,
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
