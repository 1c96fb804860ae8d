"use strict";
// Clusters, cluster details, list and viewer. map.js is appended to the same script.
// An index is the position of an image or row in the page's arrays (labels, data.ids, ...).
// File names are only inserted as text (textContent, append), so they can never become markup.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const thumbnails = JSON.parse($("thumbnails").textContent); // {index: base64 of a WebP file}
$("data").remove();
$("thumbnails").remove();

const unpack = (text) => text && new Uint16Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const labels = unpack(data.labels);
const runnerUp = unpack(data.runner_up); // second best cluster; null without probabilities
const confidence = unpack(data.confidence); // in 1/10000, as are margin and outlier
const margin = unpack(data.margin);
const outlier = unpack(data.outlier);
const hasImages = Object.keys(thumbnails).length > 0;
const SHAPES = ["M6 .3A5.7 5.7 0 1 1 5.99 .3Z", "M6 0L12 6L6 12L0 6Z", "M1 1H11V11H1Z", "M6 .4L11.9 11.2H.1Z"];
const color = (cluster) => data.palette[cluster % data.palette.length];
const shape = (cluster) => SHAPES[Math.floor(cluster / data.palette.length) % SHAPES.length];
const percent = (value) => `${Math.round(value / 100)} %`;
const number = (n) => n.toLocaleString("en");
const count = (n) => `${number(n)} ${data.item}${n === 1 ? "" : "s"}`;
const thumbnailUrl = (index) => `data:image/webp;base64,${thumbnails[index]}`;
const clusters = data.sizes.map((_, c) => c).filter((c) => data.sizes[c]);

function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const mark = (cluster) =>
  svg("svg", { viewBox: "0 0 12 12", class: "mark", "aria-hidden": "true" },
    svg("path", { d: shape(cluster), fill: color(cluster) }));

function pager(nav, total, size, page, go) {
  const pages = Math.ceil(total / size);
  nav.replaceChildren();
  if (pages < 2) return;
  const step = (text, to, label) => {
    const button = el("button", { type: "button", textContent: text, disabled: to < 0 || to >= pages, "aria-label": label });
    button.addEventListener("click", () => {
      go(to);
      const sameButton = nav.querySelector(`[aria-label="${label}"]`);
      (sameButton.disabled ? nav.querySelector("button:not(:disabled)") : sameButton).focus({ preventScroll: true });
    });
    return button;
  };
  const last = Math.min(total, (page + 1) * size);
  const range = `${number(page * size + 1)}–${number(last)} of ${number(total)}`;
  nav.append(step("←", page - 1, "Previous page"), el("output", { textContent: range }), step("→", page + 1, "Next page"));
}

function preview(index) {
  if (thumbnails[index]) return el("img", { src: thumbnailUrl(index), alt: "", loading: "lazy", decoding: "async" });
  return el("bdi", { className: "id", textContent: baseName(data.ids[index]) });
}

const baseName = (id) => id.slice(id.lastIndexOf("/", id.length - 2) + 1);

function caption(index) {
  const probability = percent(confidence[index]);
  if (!runnerUp || margin[index] >= 5000) return [probability];
  return [`${probability} · or `, el("bdi", { textContent: data.names[runnerUp[index]] })];
}

const groupOf = new Map(data.duplicates.flatMap((group) => group.map((index) => [index, group])));

// The first of the indices from each group of near-duplicates, and all those without a duplicate.
function firstOfGroups(indices) {
  const shown = new Set();
  return indices.filter((index) => {
    const group = groupOf.get(index) ?? index, first = !shown.has(group);
    shown.add(group);
    return first;
  });
}

function tile(index, gallery, withCaption) {
  const copies = groupOf.get(index)?.length;
  const description = `${data.ids[index]}, ${data.names[labels[index]]}, ${percent(confidence[index])}${copies ? `, one of ${copies} near-duplicates` : ""}`;
  const button = el("button", { type: "button", className: "tile", title: data.ids[index], "aria-label": description }, preview(index));
  if (copies) button.append(el("span", { className: "badge", title: `One of ${copies} near-duplicates`, textContent: `×${copies}` }));
  if (withCaption) button.append(el("span", { className: "caption" }, ...caption(index)));
  button.addEventListener("click", () => view(gallery, gallery.indexOf(index)));
  return button;
}

// Arrow keys move the focus to the nearest tile in that direction on the screen.
function arrowKeys(container) {
  container.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const from = document.activeElement;
    if (!direction || !from.classList.contains("tile")) return;
    const center = (element) => {
      const box = element.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    };
    const [x, y] = center(from);
    let best = null, least = Infinity;
    for (const other of container.querySelectorAll(".tile")) {
      if (other === from || !other.offsetParent) continue;
      const [ox, oy] = center(other);
      const along = (ox - x) * direction[0] + (oy - y) * direction[1];
      const across = Math.abs((ox - x) * direction[1]) + Math.abs((oy - y) * direction[0]);
      if (along > 4 && along + 4 * across < least) [best, least] = [other, along + 4 * across];
    }
    if (best) {
      event.preventDefault();
      best.focus();
    }
  });
}

const galleries = new Map();

// Members of a cluster: tiles for those with a thumbnail (all of them in a run without images), names for the others.
function galleryOf(kind, cluster) {
  const key = `${kind} ${cluster}`;
  if (!galleries.has(key)) {
    const members = data[kind][cluster];
    const tiles = hasImages ? members.filter((index) => thumbnails[index]) : members;
    const names = hasImages ? members.filter((index) => !thumbnails[index]) : [];
    galleries.set(key, { tiles, names, all: [...tiles, ...names] });
  }
  return galleries.get(key);
}

// ---- clusters -------------------------------------------------------------------------------------------------------

const CLUSTERS_PER_PAGE = 20;
const order = { page: 0, clusters };

function sortClusters() {
  const by = $("order").value;
  const compare = {
    size: (a, b) => data.sizes[b] - data.sizes[a] || a - b,
    confidence: (a, b) => data.median_confidence[b] - data.median_confidence[a] || a - b,
    name: (a, b) => data.names[a].localeCompare(data.names[b], undefined, { numeric: true }),
    number: (a, b) => a - b,
  }[by];
  order.clusters = [...clusters].sort(compare);
  showClusters(0);
}

function showClusters(page) {
  order.page = page;
  const shown = order.clusters.slice(page * CLUSTERS_PER_PAGE, (page + 1) * CLUSTERS_PER_PAGE);
  $("cluster-list").replaceChildren(...shown.map((cluster) => {
    const open = el("button", { type: "button" },
      el("span", { className: "name" }, mark(cluster), el("bdi", { textContent: data.names[cluster] })),
      el("div", { className: "small", textContent: `${count(data.sizes[cluster])} · ${Math.round(100 * data.median_confidence[cluster])} % confidence` }));
    open.addEventListener("click", () => { location.hash = `cluster-${cluster}`; });
    const strip = (kind, n) => {
      const { tiles, all } = galleryOf(kind, cluster);
      return el("div", { className: `strip ${kind}${hasImages ? "" : " text"}` }, ...firstOfGroups(tiles).slice(0, n).map((index) => tile(index, all)));
    };
    return el("li", { className: "row" }, el("div", { className: "title" }, open),
      strip("typical", 7), strip("uncertain", 5));
  }));
  pager($("clusters-pager"), order.clusters.length, CLUSTERS_PER_PAGE, page, showClusters);
}

// ---- cluster details ------------------------------------------------------------------------------------------------

const FIRST_TILES = 24, FIRST_NAMES = 48; // "Show more" doubles them
const detail = { cluster: null, kind: "typical", tiles: 0, names: 0 }; // tiles and names: how many are shown

function openCluster(cluster) {
  detail.cluster = cluster;
  $("overview").hidden = true;
  $("detail").hidden = false;
  $("detail-title").replaceChildren(mark(cluster), el("bdi", { textContent: data.names[cluster] }));
  const confusedWith = data.confused_with[cluster];
  $("detail-about").replaceChildren(
    `${count(data.sizes[cluster])}, median confidence ${Math.round(100 * data.median_confidence[cluster])} %`, histogram(cluster),
    ...(confusedWith === null ? [] : [". Most often confused with ", el("bdi", { textContent: data.names[confusedWith] })]),
    ".", ...selectionNote(cluster));
  const position = order.clusters.indexOf(cluster);
  $("previous-cluster").disabled = position <= 0;
  $("next-cluster").disabled = position >= order.clusters.length - 1;
  showGallery(detail.kind);
  $("filter").value = String(cluster);
  showList();
  setHighlight({ cluster });
  $("clusters").scrollIntoView({ block: "start" });
  $("detail-title").focus({ preventScroll: true });
}

// Says how many members are shown as tiles and where to find the others; empty if there are no others.
function selectionNote(cluster) {
  const { tiles, names } = galleryOf("typical", cluster);
  const missing = data.sizes[cluster] - tiles.length - names.length; // not on the page, which holds a sample of the run
  if (!names.length && !missing) return [];
  const note = [` ${hasImages ? "Pictures of" : "Listing"} ${number(tiles.length)} of ${number(data.sizes[cluster])}`];
  if (names.length) note.push(`; ${missing ? number(names.length) : "the"} others are listed below by name`);
  note.push(".");
  if (missing) note.push(" The file ", el("code", { textContent: "labels.csv" }), " lists all of them.");
  if (data.base !== null) {
    note.push(" ", el("a", { href: `${data.base}/`, target: "_blank", rel: "noopener noreferrer", textContent: "Open the folder" }));
  }
  return note;
}

function closeCluster() {
  if (detail.cluster === null) return;
  if ($("filter").value === String(detail.cluster)) $("filter").value = "";
  detail.cluster = null;
  $("overview").hidden = false;
  $("detail").hidden = true;
  showList();
  setHighlight({ cluster: null });
}

function showGallery(kind) {
  Object.assign(detail, { kind, tiles: 0, names: 0 });
  $("by-typical").setAttribute("aria-pressed", String(kind === "typical"));
  $("by-uncertain").setAttribute("aria-pressed", String(kind === "uncertain"));
  $("gallery").className = hasImages ? "gallery" : "gallery text";
  $("gallery").replaceChildren();
  $("names").replaceChildren();
  $("others").hidden = !galleryOf(kind, detail.cluster).names.length;
  showMore("tiles");
  showMore("names");
}

// Appends the next tiles or names of the open cluster. The last click hides the button, so the focus moves on.
function showMore(part) {
  const gallery = galleryOf(detail.kind, detail.cluster), indices = gallery[part], shown = detail[part];
  const [id, first, entry] = part === "tiles" ? ["gallery", FIRST_TILES, (index) => tile(index, gallery.all, true)]
    : ["names", FIRST_NAMES, (index) => nameEntry(index, gallery.all)];
  const button = $(`${id}-more`), focused = document.activeElement === button;
  detail[part] = Math.min(indices.length, 2 * shown || first);
  $(id).append(...indices.slice(shown, detail[part]).map(entry));
  button.hidden = detail[part] === indices.length;
  $(`${id}-count`).textContent = `${number(detail[part])} of ${number(indices.length)}`;
  if (focused && button.hidden) (part === "tiles" ? $(id).children[shown] : $(id).children[shown].firstElementChild).focus();
}

// Name of an image without a thumbnail, linked to the original, or to the viewer if there is no link to it.
function nameEntry(index, gallery) {
  const properties = { className: "file", title: data.ids[index] }, name = el("bdi", { textContent: data.ids[index] });
  const open = data.base !== null
    ? el("a", { ...properties, href: originalUrl(data.ids[index]), target: "_blank", rel: "noopener noreferrer" }, name)
    : el("button", { ...properties, type: "button" }, name);
  if (data.base === null) open.addEventListener("click", () => view(gallery, gallery.indexOf(index)));
  return el("li", {}, open, el("span", { className: "small", textContent: percent(confidence[index]) }));
}

function histogram(cluster) {
  const bins = new Array(20).fill(0);
  for (let i = 0; i < labels.length; i++) if (labels[i] === cluster) bins[Math.min(19, Math.floor(confidence[i] / 500))]++;
  const highest = Math.max(...bins, 1);
  return svg("svg", { width: 84, height: 18, class: "histogram", role: "img", "aria-label": "Histogram of the confidence, from 0 to 100 %" },
    ...bins.map((n, i) => svg("rect", { x: i * 4.2, y: 18 - Math.max(1, 18 * n / highest), width: 3.4, height: Math.max(1, 18 * n / highest) })));
}

// ---- the list -------------------------------------------------------------------------------------------------------

const LINES_PER_PAGE = 25;
const list = { lowerIds: null, indices: [] };

function showList() {
  const query = $("search").value.toLowerCase();
  const cluster = $("filter").value;
  const sort = $("sort").value;
  list.lowerIds ??= data.ids.map((id) => id.toLowerCase());
  const indices = [];
  for (let i = 0; i < labels.length; i++) {
    if ((cluster === "" || labels[i] === Number(cluster)) && (query === "" || list.lowerIds[i].includes(query))) indices.push(i);
  }
  if (sort === "margin") indices.sort((a, b) => margin[a] - margin[b]);
  if (sort === "confidence") indices.sort((a, b) => confidence[b] - confidence[a]);
  if (sort === "outlier") indices.sort((a, b) => outlier[b] - outlier[a]);
  list.indices = indices;
  $("count").textContent = indices.length === labels.length ? count(indices.length) : `${number(indices.length)} of ${count(labels.length)}`;
  showLines(0);
  setHighlight({ indices: query === "" ? null : indices });
}

function showLines(page) {
  const shown = list.indices.slice(page * LINES_PER_PAGE, (page + 1) * LINES_PER_PAGE);
  $("list-rows").replaceChildren(...shown.map((index) => {
    const thumbnail = thumbnails[index] ? el("img", { src: thumbnailUrl(index), alt: "", loading: "lazy" }) : hasImages ? el("span", { className: "blank" }) : null;
    const open = el("button", { type: "button", title: data.ids[index] }, thumbnail, el("bdi", { className: "file", textContent: data.ids[index] }));
    open.addEventListener("click", () => view(list.indices, list.indices.indexOf(index)));
    const meter = svg("svg", { class: "meter", viewBox: "0 0 64 5", "aria-hidden": "true" },
      svg("rect", { class: "back", width: 64, height: 5, rx: 2.5 }), svg("rect", { width: 64 * confidence[index] / 10000, height: 5, rx: 2.5 }));
    return el("tr", {}, el("td", {}, open),
      el("td", {}, el("span", { className: "cluster" }, mark(labels[index]), el("bdi", { textContent: data.names[labels[index]] }))),
      el("td", { className: "number" }, meter, percent(confidence[index])),
      el("td", { className: "number wide", textContent: percent(margin[index]) }));
  }));
  if (!shown.length) $("list-rows").append(el("tr", {}, el("td", { colSpan: 4, className: "empty", textContent: "No matches." })));
  pager($("list-pager"), list.indices.length, LINES_PER_PAGE, page, showLines);
}

// ---- near-duplicates ------------------------------------------------------------------------------------------------

const GROUPS_PER_PAGE = 10, TILES_PER_GROUP = 8;

function showGroups(page) {
  const shown = data.duplicates.slice(page * GROUPS_PER_PAGE, (page + 1) * GROUPS_PER_PAGE);
  $("group-list").replaceChildren(...shown.map((group) => {
    const members = [...new Set(group.map((index) => labels[index]))];
    const open = el("button", { type: "button" },
      el("span", { className: "name", textContent: count(group.length) }),
      el("div", { className: "small" }, ...(members.length === 1 ? [el("bdi", { textContent: data.names[members[0]] })]
        : [`in ${number(members.length)} clusters`])));
    open.addEventListener("click", () => view(group, 0));
    const tiles = group.slice(0, TILES_PER_GROUP).map((index) => tile(index, group));
    return el("li", { className: "row group" }, el("div", { className: "title" }, open),
      el("div", { className: `strip${hasImages ? "" : " text"}` }, ...tiles));
  }));
  pager($("groups-pager"), data.duplicates.length, GROUPS_PER_PAGE, page, showGroups);
}

// ---- the viewer -----------------------------------------------------------------------------------------------------

const viewer = { indices: [], position: 0 };

function view(indices, position) {
  viewer.indices = indices;
  viewer.position = Math.max(0, position);
  showViewer();
  if (!$("viewer").open) $("viewer").showModal();
}

function showViewer() {
  const index = viewer.indices[viewer.position];
  const id = data.ids[index];
  $("viewer-stage").hidden = !hasImages;
  $("viewer").classList.toggle("plain", !hasImages);
  $("viewer-stage").replaceChildren(thumbnails[index] ? el("img", { src: thumbnailUrl(index), alt: id })
    : el("p", { textContent: "This page has no thumbnail of this image." }));
  $("viewer-name").replaceChildren(el("bdi", { textContent: id }));
  const entry = (name, ...value) => el("div", {}, el("dt", { textContent: name }), el("dd", {}, ...value));
  const clusterName = (cluster) => [mark(cluster), el("bdi", { textContent: data.names[cluster] })];
  $("viewer-details").replaceChildren(
    entry("Cluster", ...clusterName(labels[index])),
    entry("Confidence", percent(confidence[index])),
    entry("Margin", percent(margin[index])),
    entry("Outlier score", percent(outlier[index])),
    ...(runnerUp && confidence[index] < 9995 ? [entry("Second best", ...clusterName(runnerUp[index]))] : []),
    ...(groupOf.has(index) ? [entry("Near-duplicates", `${number(groupOf.get(index).length - 1)} other${groupOf.get(index).length === 2 ? "" : "s"}`)] : []));
  $("viewer-link").hidden = data.base === null;
  if (data.base !== null) $("viewer-link").href = originalUrl(id);
  $("viewer-position").textContent = `${number(viewer.position + 1)} / ${number(viewer.indices.length)}`;
  $("viewer-previous").disabled = viewer.position === 0;
  $("viewer-next").disabled = viewer.position === viewer.indices.length - 1;
}

function turn(step) {
  const position = viewer.position + step;
  if (position < 0 || position >= viewer.indices.length) return;
  viewer.position = position;
  showViewer();
}

// URL of an original. Undecodable bytes of its name are lone surrogates U+DC80 to U+DCFF (Python's surrogateescape).
function originalUrl(id) {
  let path = "";
  for (const character of id) {
    const code = character.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) path += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else path += character === "/" ? "/" : encodeURIComponent(character.isWellFormed?.() === false ? "\ufffd" : character);
  }
  return id.startsWith("/") ? `file://${path}` : `${data.base}/${path}`;
}

// ---- highlighting on the map: a cluster, or the search results -------------------------------------------------------

const highlight = { cluster: null, indices: null };

function setHighlight(change) {
  Object.assign(highlight, change);
  document.dispatchEvent(new Event("highlight"));
}

// ---- events ---------------------------------------------------------------------------------------------------------

const root = document.documentElement;
const systemTheme = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  root.dataset.theme = theme;
  try { localStorage.setItem("cgmcr2-theme", theme); } catch { /* browsers may block storage for local files */ }
  document.dispatchEvent(new Event("theme"));
}

function followHash() {
  const match = /^#cluster-(\d+)$/.exec(location.hash);
  if (match && data.sizes[Number(match[1])]) openCluster(Number(match[1]));
  else if (["", "#clusters"].includes(location.hash)) closeCluster();
}

try { root.dataset.theme = localStorage.getItem("cgmcr2-theme") ?? ""; } catch { /* blocked, see above */ }
$("theme").addEventListener("click", () => setTheme((root.dataset.theme || (systemTheme.matches ? "dark" : "light")) === "dark" ? "light" : "dark"));
systemTheme.addEventListener("change", () => document.dispatchEvent(new Event("theme")));
$("order").addEventListener("change", sortClusters);
$("back").addEventListener("click", () => { location.hash = "clusters"; });
const goToCluster = (step) => { location.hash = `cluster-${order.clusters[order.clusters.indexOf(detail.cluster) + step]}`; };
$("previous-cluster").addEventListener("click", () => goToCluster(-1));
$("next-cluster").addEventListener("click", () => goToCluster(1));
$("by-typical").addEventListener("click", () => showGallery("typical"));
$("by-uncertain").addEventListener("click", () => showGallery("uncertain"));
$("gallery-more").addEventListener("click", () => showMore("tiles"));
$("names-more").addEventListener("click", () => showMore("names"));
$("search").addEventListener("input", showList);
$("filter").addEventListener("change", showList);
$("sort").addEventListener("change", showList);
$("viewer-previous").addEventListener("click", () => turn(-1));
$("viewer-next").addEventListener("click", () => turn(1));
$("viewer-close").addEventListener("click", () => $("viewer").close());
$("viewer-cluster").addEventListener("click", () => {
  const cluster = labels[viewer.indices[viewer.position]];
  $("viewer").close();
  if (location.hash === `#cluster-${cluster}`) openCluster(cluster);
  else location.hash = `cluster-${cluster}`;
});
$("viewer").addEventListener("click", (event) => { if (event.target === $("viewer")) $("viewer").close(); });
$("viewer").addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") turn(-1);
  if (event.key === "ArrowRight") turn(1);
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || $("viewer").open) return;
  if (event.key === "/") {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "t") $("theme").click();
  else if (event.key === "Escape" && detail.cluster !== null) location.hash = "clusters";
});
addEventListener("hashchange", followHash);

$("filter").append(el("option", { value: "", textContent: "all" }),
  ...clusters.map((c) => el("option", { value: String(c), textContent: data.names[c] })));
arrowKeys($("cluster-list"));
arrowKeys($("gallery"));
if (data.duplicates.length) {
  arrowKeys($("group-list"));
  showGroups(0);
}
sortClusters();
showList();
