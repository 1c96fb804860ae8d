// All images: search by file name, filter by cluster, sort; as a grid or as a list.

import { el, number, percent, select, segments, svg } from "./dom.js";
import { makeGrid } from "./grid.js";
import { sortRows, sortChoices, keepOrder, uncertainRows } from "./sort.js";

const CLUSTERS = 10; // of those whose names match the search

export function imagesView(app) {
  const { data } = app;
  const names = { file: data.item === "image" ? "file" : "row", ...sortChoices(app) };
  const filters = { query: "", cluster: "", order: "file", only: null }; // only: a set of rows
  let lowerIds = null, latest = 0, heading = null;

  const file = (row) => el("bdi", { className: "file", textContent: app.source.id(row) ?? "" });
  const line = (row) => [file(row), el("span", { className: "cluster" }, app.mark(app.data.labels[row]), app.name(app.data.labels[row])), meter(app.data.confidence[row]),
    el("span", { className: "number", textContent: percent(app.data.confidence[row]) })];
  let list = !data.has_images;
  const grid = makeGrid(app, { label: `All ${data.item}s`, list, caption: (row) => (list ? line(row) : [app.mark(app.data.labels[row]), file(row)]) });
  const what = `Search ${data.item === "image" ? "file names" : "row ids"} and clusters`;
  const search = el("input", { id: "search", type: "search", placeholder: what, "aria-label": what, autocomplete: "off", spellcheck: false });
  search.addEventListener("input", () => {
    filters.query = search.value.toLowerCase();
    fill();
  });
  const cluster = select("Cluster", {}, "", (value) => {
    filters.cluster = value;
    fill();
  });
  cluster.field.id = "filter";
  const sort = select("Sort by", names, "file", (value) => {
    filters.order = value;
    fill();
  });
  sort.field.id = "sort";
  const count = el("output", { id: "count" });
  const kind = segments("Layout", { grid: "Grid", list: "List" }, list ? "list" : "grid", (value) => {
    list = value === "list";
    grid.setList(list);
  });
  const clusters = el("p", { id: "found-clusters", hidden: true });
  const empty = el("p", { className: "empty", hidden: true, textContent: "No matches." });
  const title = el("h2", { id: "list-title", tabIndex: -1 });
  const sample = data.n < data.total ? [el("p", { className: "about" }, `A random sample of ${number(data.n)} out of ${number(data.total)} ${data.item}s; `, el("code", { textContent: "labels.csv" }), " has all of them.")] : [];
  const element = el("section", { id: "view-images", "aria-labelledby": "list-title" },
    el("div", { className: "head" }, title, el("div", { className: "tools" }, kind)), ...sample,
    el("div", { className: "filters", role: "search" }, search, cluster, sort, count), clusters, empty, grid.element);

  async function fill(keep = false) {
    const request = ++latest;
    if (filters.query && !lowerIds) lowerIds = (await app.source.ids(app.data.labels.keys())).map((id) => id.toLowerCase());
    if (request !== latest) return;
    const rows = [], { labels } = app.data, only = filters.cluster === "" ? null : Number(filters.cluster);
    for (let row = 0; row < labels.length; row++) {
      if ((only === null || labels[row] === only) && (!filters.query || lowerIds[row].includes(filters.query)) && (!filters.only || filters.only.has(row))) rows.push(row);
    }
    title.textContent = heading ?? (filters.order === "outlier" ? "Outliers" : `All ${data.item}s`);
    const found = filters.query ? app.data.clusters.filter((entry) => entry.name.toLowerCase().includes(filters.query)).slice(0, CLUSTERS) : [];
    clusters.hidden = !found.length;
    clusters.replaceChildren("Clusters: ", ...found.flatMap((entry, i) => [i ? ", " : "", el("a", { href: `#cluster-${entry.number}` }, app.mark(entry.number), app.name(entry.number))]));
    count.textContent = filters.only || rows.length === labels.length ? app.count(rows.length) : `${number(rows.length)} of ${app.count(labels.length)}`;
    empty.hidden = rows.length > 0 || found.length > 0;
    const sorted = sortRows(app, rows, filters.order);
    grid.setRows(keep ? keepOrder(grid.rows, sorted) : sorted, keep);
  }

  function fillClusters() {
    cluster.field.replaceChildren(el("option", { value: "", textContent: "all" }), ...app.data.clusters.map((entry) => el("option", { value: String(entry.number), textContent: entry.name })));
    if (filters.cluster !== "" && !app.cluster(Number(filters.cluster))) filters.cluster = "";
    cluster.field.value = filters.cluster;
  }

  return {
    element,
    // argument: an order, "selection" or "uncertain"
    show(argument) {
      const only = { selection: () => app.selection, uncertain: () => uncertainRows(app) }[argument]?.();
      filters.only = only ? new Set(only) : null;
      if (only) {
        search.value = filters.query = filters.cluster = "";
        filters.order = argument === "uncertain" ? "margin" : filters.order;
      }
      if (argument in names) filters.order = argument;
      else if (argument === "" && filters.order === "outlier") filters.order = "file";
      heading = only ? `${argument === "selection" ? "Selected" : "Uncertain"} ${data.item}s` : null;
      sort.field.value = filters.order;
      fillClusters();
      fill();
    },
    update() {
      fillClusters();
      fill(true);
    },
    key: (event) => grid.key(event),
  };
}

const meter = (confidence) => svg("svg", { class: "meter", viewBox: "0 0 64 5", "aria-hidden": "true" },
  svg("rect", { class: "back", width: 64, height: 5, rx: 2.5 }), svg("rect", { width: 64 * confidence / 10000, height: 5, rx: 2.5 }));
