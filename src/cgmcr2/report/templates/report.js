"use strict";
// The page: clusters, one cluster, the list and the viewer. The map follows in map.js, in the same script.
// File names only ever become text (textContent, append): nothing in them can become markup.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const thumbnails = JSON.parse($("thumbnails").textContent); // {place: base64}
$("data").remove();
$("thumbnails").remove();

const unpack = (text) => text && new Uint16Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const labels = unpack(data.labels);
const second = unpack(data.second);
const confidence = unpack(data.confidence);
const margin = unpack(data.margin);
const outlier = unpack(data.outlier);
const hasImages = Object.keys(thumbnails).length > 0;
const SHAPES = ["M6 .3A5.7 5.7 0 1 1 5.99 .3Z", "M6 0L12 6L6 12L0 6Z", "M1 1H11V11H1Z", "M6 .4L11.9 11.2H.1Z"];
const color = (cluster) => data.palette[cluster % data.palette.length];
const shape = (cluster) => SHAPES[Math.floor(cluster / data.palette.length) % SHAPES.length];
const percent = (value) => `${Math.round(value / 100)} %`;
const counted = (n) => `${n.toLocaleString("en")} ${n === 1 ? "image" : "images"}`;
const source = (place) => `data:image/webp;base64,${thumbnails[place]}`;
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
      const again = nav.querySelector(`[aria-label="${label}"]`);
      (again.disabled ? nav.querySelector("button:not(:disabled)") : again).focus({ preventScroll: true });
    });
    return button;
  };
  const last = Math.min(total, (page + 1) * size);
  const where = `${(page * size + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  nav.append(step("←", page - 1, "Previous page"), el("output", { textContent: where }), step("→", page + 1, "Next page"));
}

function picture(place) {
  if (thumbnails[place]) return el("img", { src: source(place), alt: "", loading: "lazy", decoding: "async" });
  return el("bdi", { className: "paper", textContent: baseName(data.ids[place]) });
}

const baseName = (id) => id.slice(id.lastIndexOf("/", id.length - 2) + 1);

function caption(place) {
  const sure = percent(confidence[place]);
  return second && margin[place] < 5000 ? `${sure} · or ${data.names[second[place]]}` : sure;
}

function tile(place, list, captioned) {
  const described = `${data.ids[place]}, ${data.names[labels[place]]}, ${percent(confidence[place])}`;
  const button = el("button", { type: "button", className: "tile", title: data.ids[place], "aria-label": described }, picture(place));
  if (captioned) button.append(el("span", { className: "under", textContent: caption(place) }));
  button.addEventListener("click", () => view(list, list.indexOf(place)));
  return button;
}

// Arrow keys move between tiles by where they are on the screen.
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

// ---- clusters -------------------------------------------------------------------------------------------------------

const CLUSTERS_A_PAGE = 20;
const order = { page: 0, clusters };

function sortClusters() {
  const by = $("order").value;
  const compare = {
    size: (a, b) => data.sizes[b] - data.sizes[a] || a - b,
    sure: (a, b) => data.sure[b] - data.sure[a] || a - b,
    name: (a, b) => data.names[a].localeCompare(data.names[b], undefined, { numeric: true }),
    number: (a, b) => a - b,
  }[by];
  order.clusters = [...clusters].sort(compare);
  showClusters(0);
}

function showClusters(page) {
  order.page = page;
  const shown = order.clusters.slice(page * CLUSTERS_A_PAGE, (page + 1) * CLUSTERS_A_PAGE);
  $("rows").replaceChildren(...shown.map((cluster) => {
    const open = el("button", { type: "button" },
      el("span", { className: "name" }, mark(cluster), el("bdi", { textContent: data.names[cluster] })),
      el("div", { className: "small", textContent: `${counted(data.sizes[cluster])} · ${Math.round(100 * data.sure[cluster])} % sure` }));
    open.addEventListener("click", () => { location.hash = `cluster-${cluster}`; });
    const strip = (kind, n, name) => el("div", { className: `strip ${name}${hasImages ? "" : " text"}` },
      ...data[kind][cluster].slice(0, n).map((place) => tile(place, data[kind][cluster])));
    return el("li", { className: "row" }, el("div", { className: "who" }, open),
      strip("typical", 7, "typical"), strip("uncertain", 5, "few"));
  }));
  pager($("rows-pager"), order.clusters.length, CLUSTERS_A_PAGE, page, showClusters);
}

// ---- one cluster ----------------------------------------------------------------------------------------------------

const IMAGES_A_PAGE = 24;
const detail = { cluster: null, kind: "typical" };

function openCluster(cluster) {
  detail.cluster = cluster;
  $("overview").hidden = true;
  $("detail").hidden = false;
  $("detail-title").replaceChildren(mark(cluster), el("bdi", { textContent: data.names[cluster] }));
  const confused = data.confused[cluster];
  $("detail-about").replaceChildren(
    `${counted(data.sizes[cluster])}, median confidence ${Math.round(100 * data.sure[cluster])} %`, histogram(cluster),
    confused === null ? "" : `. Leans most towards ${data.names[confused]}`,
    data.typical[cluster].length === data.sizes[cluster] ? "." : ". The best of them are shown here, all in the list below.");
  const at = order.clusters.indexOf(cluster);
  $("previous-cluster").disabled = at <= 0;
  $("next-cluster").disabled = at >= order.clusters.length - 1;
  showGallery(detail.kind);
  $("filter").value = String(cluster);
  showList();
  emphasize({ cluster });
  $("clusters").scrollIntoView({ block: "start" });
  $("detail-title").focus({ preventScroll: true });
}

function closeCluster() {
  if (detail.cluster === null) return;
  if ($("filter").value === String(detail.cluster)) $("filter").value = "";
  detail.cluster = null;
  $("overview").hidden = false;
  $("detail").hidden = true;
  showList();
  emphasize({ cluster: null });
}

function showGallery(kind, page = 0) {
  detail.kind = kind;
  $("by-typical").setAttribute("aria-pressed", String(kind === "typical"));
  $("by-uncertain").setAttribute("aria-pressed", String(kind === "uncertain"));
  const list = data[kind][detail.cluster];
  $("gallery").className = hasImages ? "gallery" : "gallery text";
  $("gallery").replaceChildren(
    ...list.slice(page * IMAGES_A_PAGE, (page + 1) * IMAGES_A_PAGE).map((place) => tile(place, list, true)));
  pager($("gallery-pager"), list.length, IMAGES_A_PAGE, page, (to) => showGallery(kind, to));
}

function histogram(cluster) {
  const bins = new Array(20).fill(0);
  for (let i = 0; i < labels.length; i++) if (labels[i] === cluster) bins[Math.min(19, Math.floor(confidence[i] / 500))]++;
  const most = Math.max(...bins, 1);
  return svg("svg", { width: 84, height: 18, class: "histogram", role: "img", "aria-label": "How many images have which confidence, from 0 to 100 %" },
    ...bins.map((n, i) => svg("rect", { x: i * 4.2, y: 18 - Math.max(1, 18 * n / most), width: 3.4, height: Math.max(1, 18 * n / most) })));
}

// ---- the list -------------------------------------------------------------------------------------------------------

const LINES_A_PAGE = 25;
const list = { lower: null, places: [] };

function showList() {
  const query = $("search").value.toLowerCase();
  const cluster = $("filter").value;
  const sort = $("sort").value;
  list.lower ??= data.ids.map((id) => id.toLowerCase());
  const places = [];
  for (let i = 0; i < labels.length; i++) {
    if ((cluster === "" || labels[i] === Number(cluster)) && (query === "" || list.lower[i].includes(query))) places.push(i);
  }
  if (sort === "margin") places.sort((a, b) => margin[a] - margin[b]);
  if (sort === "confidence") places.sort((a, b) => confidence[b] - confidence[a]);
  if (sort === "outlier") places.sort((a, b) => outlier[b] - outlier[a]);
  list.places = places;
  $("count").textContent = places.length === labels.length ? counted(places.length) : `${places.length.toLocaleString("en")} of ${counted(labels.length)}`;
  showLines(0);
  emphasize({ places: query === "" ? null : places });
}

function showLines(page) {
  const shown = list.places.slice(page * LINES_A_PAGE, (page + 1) * LINES_A_PAGE);
  $("list").replaceChildren(...shown.map((place) => {
    const small = thumbnails[place] ? el("img", { src: source(place), alt: "", loading: "lazy" }) : hasImages ? el("span", { className: "blank" }) : null;
    const open = el("button", { type: "button", title: data.ids[place] }, small, el("bdi", { className: "file", textContent: data.ids[place] }));
    open.addEventListener("click", () => view(list.places, list.places.indexOf(place)));
    const meter = svg("svg", { class: "meter", viewBox: "0 0 64 5", "aria-hidden": "true" },
      svg("rect", { class: "back", width: 64, height: 5, rx: 2.5 }), svg("rect", { width: 64 * confidence[place] / 10000, height: 5, rx: 2.5 }));
    return el("tr", {}, el("td", {}, open),
      el("td", {}, el("span", { className: "cluster" }, mark(labels[place]), el("bdi", { textContent: data.names[labels[place]] }))),
      el("td", { className: "number" }, meter, percent(confidence[place])),
      el("td", { className: "number wide", textContent: percent(margin[place]) }));
  }));
  if (!shown.length) $("list").append(el("tr", {}, el("td", { colSpan: 4, className: "empty", textContent: "No file name matches." })));
  pager($("list-pager"), list.places.length, LINES_A_PAGE, page, showLines);
}

// ---- the viewer -----------------------------------------------------------------------------------------------------

const viewer = { list: [], at: 0 };

function view(places, at) {
  viewer.list = places;
  viewer.at = Math.max(0, at);
  showViewer();
  if (!$("viewer").open) $("viewer").showModal();
}

function showViewer() {
  const place = viewer.list[viewer.at];
  const id = data.ids[place];
  $("viewer-stage").replaceChildren(thumbnails[place] ? el("img", { src: source(place), alt: `The image ${id}` })
    : el("p", { textContent: hasImages ? "This page does not carry a picture of this image." : "No picture." }));
  $("viewer-name").replaceChildren(el("bdi", { textContent: id }));
  const fact = (name, ...value) => el("div", {}, el("dt", { textContent: name }), el("dd", {}, ...value));
  const named = (cluster) => [mark(cluster), el("bdi", { textContent: data.names[cluster] })];
  $("viewer-facts").replaceChildren(
    fact("Cluster", ...named(labels[place])),
    fact("Confidence", percent(confidence[place])),
    fact("Lead over the next", percent(margin[place])),
    fact("More unusual than", percent(outlier[place])),
    ...(second && confidence[place] < 9995 ? [fact("Next best", ...named(second[place]))] : []));
  $("viewer-link").hidden = data.base === null;
  if (data.base !== null) $("viewer-link").href = original(id);
  $("viewer-place").textContent = `${(viewer.at + 1).toLocaleString("en")} / ${viewer.list.length.toLocaleString("en")}`;
  $("viewer-previous").disabled = viewer.at === 0;
  $("viewer-next").disabled = viewer.at === viewer.list.length - 1;
}

function turn(step) {
  const at = viewer.at + step;
  if (at < 0 || at >= viewer.list.length) return;
  viewer.at = at;
  showViewer();
}

// A byte of a file's name that is not UTF-8 comes as a lone surrogate U+DC80 ... U+DCFF and goes back as that byte.
function original(id) {
  let path = "";
  for (const char of id) {
    const code = char.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) path += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else path += char === "/" ? "/" : encodeURIComponent(char.isWellFormed?.() === false ? "\ufffd" : char);
  }
  return id.startsWith("/") ? `file://${path}` : `${data.base}/${path}`;
}

// ---- what the map lets stand out: a cluster, or the files that were searched for ------------------------------------

const emphasis = { cluster: null, places: null };

function emphasize(change) {
  Object.assign(emphasis, change);
  document.dispatchEvent(new Event("emphasis"));
}

// ---- wiring ---------------------------------------------------------------------------------------------------------

const root = document.documentElement;
const darkness = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  root.dataset.theme = theme;
  try { localStorage.setItem("cgmcr2-theme", theme); } catch { /* storage can be forbidden for files */ }
  document.dispatchEvent(new Event("theme"));
}

function followHash() {
  const match = /^#cluster-(\d+)$/.exec(location.hash);
  if (match && data.sizes[Number(match[1])]) openCluster(Number(match[1]));
  else if (["", "#clusters"].includes(location.hash)) closeCluster();
}

try { root.dataset.theme = localStorage.getItem("cgmcr2-theme") ?? ""; } catch { /* as above */ }
$("theme").addEventListener("click", () => setTheme((root.dataset.theme || (darkness.matches ? "dark" : "light")) === "dark" ? "light" : "dark"));
darkness.addEventListener("change", () => document.dispatchEvent(new Event("theme")));
$("order").addEventListener("change", sortClusters);
$("back").addEventListener("click", () => { location.hash = "clusters"; });
const neighbour = (step) => { location.hash = `cluster-${order.clusters[order.clusters.indexOf(detail.cluster) + step]}`; };
$("previous-cluster").addEventListener("click", () => neighbour(-1));
$("next-cluster").addEventListener("click", () => neighbour(1));
$("by-typical").addEventListener("click", () => showGallery("typical"));
$("by-uncertain").addEventListener("click", () => showGallery("uncertain"));
$("search").addEventListener("input", showList);
$("filter").addEventListener("change", showList);
$("sort").addEventListener("change", showList);
$("viewer-previous").addEventListener("click", () => turn(-1));
$("viewer-next").addEventListener("click", () => turn(1));
$("viewer-close").addEventListener("click", () => $("viewer").close());
$("viewer-cluster").addEventListener("click", () => {
  const cluster = labels[viewer.list[viewer.at]];
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
arrowKeys($("rows"));
arrowKeys($("gallery"));
sortClusters();
showList();
