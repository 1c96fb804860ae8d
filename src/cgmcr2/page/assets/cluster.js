// One cluster: all of its images in a grid.

import { el, svg, button, iconButton, number, select } from "./dom.js";
import { makeGrid } from "./grid.js";
import { sortedClusters } from "./cards.js";
import { renameField } from "./rename.js";
import { splitDialog } from "./split.js";
import { sortRows, sortChoices, keepOrder } from "./sort.js";

export function clusterView(app) {
  const { editable } = app.source;
  let cluster = null, order = "typicality";
  const grid = makeGrid(app, { label: `${app.data.item}s of the cluster` });
  const title = el("h2", { id: "detail-title", tabIndex: -1 });
  const about = el("p", { id: "detail-about", className: "about" });
  const previous = button("←", () => step(-1), { className: "quiet", "aria-label": "Previous cluster", title: "Previous cluster ([)", id: "previous-cluster" });
  const next = button("→", () => step(1), { className: "quiet", "aria-label": "Next cluster", title: "Next cluster (])", id: "next-cluster" });
  const sort = select("Sort by", sortChoices(app), order, (value) => {
    order = value;
    fill(false);
  });
  sort.field.id = "cluster-sort";
  const tools = [sort, button("Select all", () => app.select(grid.rows, "add"), { title: "Ctrl+A" })];
  if (editable) tools.push(button("Split…", () => splitDialog(app, cluster), { title: "Split into parts (P)", id: "split" }), button("Confirm all", () => app.edit("lock", { rows: app.members(cluster) }, `${app.count(app.members(cluster).length)} confirmed.`), { title: `Confirm all ${app.data.item}s of this cluster` }));
  const element = el("section", { id: "view-cluster", "aria-labelledby": "detail-title" },
    el("div", { className: "crumbs" }, button("← All clusters", () => app.go("clusters"), { className: "quiet", id: "back" }), el("span", { className: "spread" }), previous, next),
    el("div", { className: "head" }, el("div", { className: "title-line" }, title, ...(editable ? [iconButton("edit", "Rename (R)", rename)] : [])), el("div", { className: "tools" }, ...tools)),
    about, grid.element);

  function step(by) {
    const clusters = sortedClusters(app), position = clusters.findIndex((entry) => entry.number === cluster);
    const target = clusters[position + by];
    if (target) app.go(`cluster-${target.number}`);
  }

  function rename() {
    if (app.cluster(cluster).excluded) return;
    renameField(app, title, app.cluster(cluster), () => title.focus());
  }

  function fill(keep) {
    const entry = app.cluster(cluster);
    title.replaceChildren(app.mark(cluster), app.name(cluster));
    const clusters = sortedClusters(app), position = clusters.indexOf(entry);
    previous.disabled = position <= 0;
    next.disabled = position >= clusters.length - 1;
    about.replaceChildren(`${app.count(entry.size)}, median confidence ${Math.round(100 * entry.confidence)} %`, histogram(cluster),
      ...(entry.confused_with === null ? [] : [". Most often confused with ", el("a", { href: `#cluster-${entry.confused_with}` }, app.name(entry.confused_with))]),
      ". ", ...(app.views.map ? [el("a", { href: `#map-${cluster}`, textContent: "Show on the map" })] : []), ...note(entry));
    const sorted = sortRows(app, app.members(cluster), order);
    grid.setRows(keep ? keepOrder(grid.rows, sorted) : sorted, keep);
  }

  // Says how many images of a read-only page have pictures, and where the others are.
  function note(entry) {
    const members = app.members(cluster);
    const pictures = app.data.has_images ? members.filter((row) => app.source.thumbnail(row)).length : members.length;
    const missing = entry.size - members.length; // the page holds a sample of the run
    if (pictures === entry.size) return [];
    const text = [` ${app.data.has_images ? "Pictures of" : "Listing"} ${number(pictures)} of ${number(entry.size)}`];
    if (members.length > pictures) text.push(`; ${missing ? number(members.length - pictures) : "the"} others are listed after them by name`);
    text.push(".");
    if (missing) text.push(" The file ", el("code", { textContent: "labels.csv" }), " lists all of them.");
    if (app.source.base !== null) text.push(" ", el("a", { href: `${app.source.base}/`, target: "_blank", rel: "noopener noreferrer", textContent: "Open the folder" }));
    return text;
  }

  function histogram() {
    const bins = new Array(20).fill(0);
    for (const row of app.members(cluster)) bins[Math.min(19, Math.floor(app.data.confidence[row] / 500))]++;
    const highest = Math.max(...bins, 1);
    return svg("svg", { width: 84, height: 18, class: "histogram", role: "img", "aria-label": "Histogram of the confidence, from 0 to 100 %" },
      ...bins.map((n, i) => svg("rect", { x: i * 4.2, y: 18 - Math.max(1, 18 * n / highest), width: 3.4, height: Math.max(1, 18 * n / highest) })));
  }

  return {
    element,
    show(argument) {
      cluster = Number(argument);
      if (!app.cluster(cluster)) {
        app.go("clusters");
        return;
      }
      fill(false);
      title.focus({ preventScroll: true });
    },
    update() {
      if (app.cluster(cluster)) fill(true);
      else app.go("clusters"); // merged, or its last image was moved
    },
    key(event) {
      const key = event.key.toLowerCase(), plain = !event.ctrlKey && !event.metaKey;
      if (plain && key === "[") step(-1);
      else if (plain && key === "]") step(1);
      else if (plain && editable && (key === "r" || key === "f2")) rename();
      else if (plain && editable && key === "p") splitDialog(app, cluster);
      else return grid.key(event);
      return true;
    },
  };
}
