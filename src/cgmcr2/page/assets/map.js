// The map: one point per image, similar ones close together; pictures, names, highlighting and the lasso.

import { el, button, segments, ARROWS } from "./dom.js";
import { caption, describe, picture } from "./tiles.js";
import { FRONT, SELECTED, scatter } from "./gl.js";
import { pointIndex } from "./points.js";
import { makeCamera } from "./camera.js";
import { overlay } from "./overlay.js";

const REST = 160; // milliseconds without movement after which all points are drawn
const CANDIDATES = 3000; // points considered for pictures
const REACH = 16; // pixels from the pointer to a point

export function mapView(app) {
  if (app.data.has_map === false) return null;
  const { item } = app.data, { editable } = app.source;
  const camera = makeCamera(), { toU, toV } = camera;
  const state = { pictures: app.data.has_images, highlight: null, active: -1, lasso: false, path: [], moving: false };
  let positions = null, points, plot, above, typical, anchors, radius, requested = false, rest = 0;
  let scheduled = false, stale = true, unfinished = false; // stale: the points must be drawn again; unfinished: some are missing

  // ---- elements ----

  const back = el("canvas", { id: "points", "aria-hidden": "true" });
  const canvas = el("canvas", { id: "canvas", tabIndex: 0, role: "img", "aria-label": `Map of the ${item}s. Arrow keys move between ${item}s, Enter opens one, ${editable ? "Space selects it, " : ""}plus and minus zoom.` });
  const tip = el("div", { id: "tip", hidden: true }), spoken = el("p", { className: "unseen", role: "status" });
  const message = el("p", { id: "map-message", textContent: "The map is being computed…" });
  const box = el("div", { id: "canvas-box" }, back, canvas, tip, message);
  const legend = el("div", { id: "legend", className: "legend", role: "group", "aria-label": "Highlight a cluster" });
  const lasso = button("Lasso", () => setLasso(!state.lasso), { id: "lasso", "aria-pressed": "false", title: `Select by drawing around ${item}s (L); Shift adds, Alt subtracts` });
  const kinds = segments("Markers of the map", { pictures: "Images", points: "Points" }, "pictures", (kind) => {
    state.pictures = kind === "pictures";
    schedule(false);
  });
  const zoom = el("div", { className: "segments", role: "group", "aria-label": "Zoom" },
    button("−", () => zoomBy(1 / 1.6), { id: "zoom-out", "aria-label": "Zoom out" }), button("+", () => zoomBy(1.6), { id: "zoom-in", "aria-label": "Zoom in" }), button("Reset", () => zoomBy(0), { id: "zoom-reset" }));
  const shift = matchMedia("(hover: none)").matches ? "" : "with Shift or "; // a touch screen has no such key
  const hint = editable ? `Drag around ${item}s ${shift}with the lasso to select them, click a name to highlight its cluster.` : "Hover for a preview, click to open, click a name to highlight its cluster.";
  const element = el("section", { id: "view-map", "aria-labelledby": "map-title" },
    el("div", { className: "head" }, el("h2", { id: "map-title", textContent: "Map" }),
      el("div", { className: "tools" }, editable ? lasso : null, app.data.has_images ? kinds : null, zoom)),
    el("p", { className: "about", textContent: `Similar ${item}s are close together. ${hint}` }), box, spoken, legend);

  const px = (row) => camera.toX(positions[2 * row] / 65535);
  const py = (row) => camera.toY(positions[2 * row + 1] / 65535);
  const inFront = (row) => (state.highlight === null ? app.data.labels[row] !== app.data.excluded : app.data.labels[row] === state.highlight);

  // ---- drawing ----

  async function load() {
    requested = true;
    try {
      positions = await app.source.map();
    } catch (error) {
      requested = false;
      message.textContent = error.message;
      return;
    }
    if (!positions) {
      message.textContent = "This run has no embedding, so there is no map.";
      return;
    }
    message.hidden = true;
    points = pointIndex(positions);
    camera.maxZoom = Math.max(60, Math.sqrt(points.n) / 4);
    plot = scatter(back, points, app.data.palette);
    back.addEventListener("redraw", () => schedule());
    above = overlay(app, canvas, () => schedule(false));
    listen();
    update();
    new ResizeObserver(resize).observe(canvas);
  }

  function resize() {
    [camera.width, camera.height] = [canvas.clientWidth, canvas.clientHeight];
    for (const layer of [back, canvas]) {
      layer.width = camera.width * devicePixelRatio;
      layer.height = camera.height * devicePixelRatio;
    }
    radius = Math.min(4.5, Math.max(1.3, 0.24 * Math.sqrt(camera.spanX * camera.spanY / points.n) / camera.zoom)); // smaller when there are many
    schedule();
  }

  // After an edit, or if selection or highlight have changed.
  function update() {
    if (!positions) return;
    const flags = new Uint8Array(points.n);
    for (let row = 0; row < points.n; row++) if (inFront(row)) flags[row] = FRONT;
    for (const row of app.selection) flags[row] = FRONT | SELECTED;
    plot.setState(app.data.labels, flags);
    const clusters = app.data.clusters.filter((entry) => !entry.excluded).sort((a, b) => b.size - a.size);
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    anchors = clusters.filter(({ typical }) => typical.length).map(({ number, name, typical }) =>
      ({ number, name, u: median(typical.map((row) => positions[2 * row])) / 65535, v: median(typical.map((row) => positions[2 * row + 1])) / 65535 }));
    typical = [];
    for (let i = 0; clusters.some((entry) => i < entry.typical.length); i++) { // clusters take turns
      typical.push(...clusters.map((entry) => entry.typical[i]).filter((row) => row !== undefined));
    }
    updateLegend();
    schedule();
  }

  function updateLegend() {
    const entries = app.data.clusters.map(({ number, name }) => `${number} ${name}`).join("\n");
    if (legend.dataset.entries !== entries) {
      legend.dataset.entries = entries;
      legend.replaceChildren(...app.data.clusters.map(({ number, name }) =>
        el("button", { type: "button", "data-cluster": number, onclick: () => highlight(state.highlight === number ? null : number) }, app.mark(number), el("bdi", { textContent: name }))));
    }
    for (const chip of legend.children) chip.setAttribute("aria-pressed", String(Number(chip.dataset.cluster) === state.highlight));
  }

  function highlight(cluster) {
    state.highlight = app.cluster(cluster) ? cluster : null;
    activate(-1);
    update();
  }

  // Rows in the order in which they get a picture: typical ones first, then a sample of those in view.
  function pictureRows() {
    if (!state.pictures) return [];
    const view = [toU(0), toV(0), toU(camera.width), toV(camera.height)].map((value) => 65535 * value);
    const last = points.n * CANDIDATES / Math.max(CANDIDATES, points.count(view));
    const others = Array.from(points.sample(view, 0, last).sort(), (rank) => points.rows[rank]);
    const chosen = [...new Set([...typical, ...others])];
    return chosen.filter((row) => inFront(row) && app.source.thumbnail(row));
  }

  // Draws in the next frame; the points only if they have changed.
  function schedule(withPoints = true) {
    stale ||= withPoints;
    if (scheduled || !positions) return;
    scheduled = true;
    requestAnimationFrame(draw);
  }

  function draw() {
    scheduled = false;
    if (!camera.width || !camera.height) return; // hidden; the resize observer draws it once it is visible
    const style = getComputedStyle(box), rgb = (color) => color.match(/[\d.]+/g).slice(0, 3).map((value) => value / 255);
    const { width, height, spanX, spanY } = camera, { moving } = state, ratio = devicePixelRatio;
    if (stale || unfinished) {
      unfinished = plot.draw({
        x: camera.u, y: camera.v, spanX, spanY, width, height, ratio, moving,
        radius: radius * Math.min(2, camera.zoom ** 0.35), opacity: points.n > 5000 ? 0.75 : 0.9, ink: rgb(style.color), dimmed: rgb(style.borderTopColor),
      }, !stale).more;
      stale = false;
      if (unfinished) schedule(false);
    }
    const names = anchors.filter(({ number }) => state.highlight === null || state.highlight === number).map(({ name, u, v }) => ({ name, x: camera.toX(u), y: camera.toY(v) }));
    above.draw({ width, height, ratio, moving, zoom: camera.zoom, x: px, y: py, style }, { rows: pictureRows(), names, active: state.active, path: state.path });
  }

  // ---- the active image: under the pointer, or chosen with the arrow keys ----

  function rowAt(x, y) {
    const row = above.pictureAt(x, y);
    if (row >= 0) return row;
    const reachU = 65535 * REACH / camera.spanX, reachV = 65535 * REACH / camera.spanY;
    return points.nearest(65535 * toU(x), 65535 * toV(y), reachU, reachV, inFront);
  }

  function activate(row) {
    if (row === state.active) return;
    state.active = row;
    schedule(false);
    tip.hidden = row < 0;
    if (row < 0) return;
    const file = el("bdi", { className: "file", textContent: app.source.id(row) });
    tip.replaceChildren(...(app.source.thumbnail(row) ? [picture(app, row, false)] : []), el("p", {}, app.mark(app.data.labels[row]), app.name(app.data.labels[row]), " ", ...caption(app, row), file));
    app.source.ids([row]).then(([id]) => { file.textContent = id; }, () => {});
    const x = px(row), y = py(row), width = tip.offsetWidth, height = Math.max(tip.offsetHeight, 210);
    const left = x + 18 + width < camera.width ? x + 18 : x - 18 - width;
    const top = Math.min(Math.max(8, y - height / 2), camera.height - height - 8);
    tip.style.transform = `translate(${Math.min(Math.max(8, left), camera.width - width - 8)}px, ${top}px)`;
  }

  // Moves to the nearest image in a direction.
  function step(dx, dy) {
    const origin = state.active;
    const [x, y] = origin < 0 ? [camera.width / 2, camera.height / 2] : [px(origin), py(origin)];
    let best = -1, least = Infinity;
    for (let row = 0; row < points.n; row++) {
      if (row === origin || !inFront(row) || (app.data.has_images && !app.source.thumbnail(row))) continue;
      const ox = px(row) - x, oy = py(row) - y;
      const along = ox * dx + oy * dy, across = Math.abs(ox * dy) + Math.abs(oy * dx);
      const cost = origin < 0 ? Math.hypot(ox, oy) : along > 2 ? along + 2.5 * across : Infinity;
      if (cost < least) [best, least] = [row, cost];
    }
    if (best < 0) return;
    if (px(best) < 0 || py(best) < 0 || px(best) > camera.width || py(best) > camera.height) {
      camera.moveTo(positions[2 * best] / 65535, positions[2 * best + 1] / 65535);
      moved();
    }
    activate(best);
    app.source.ids([best]).then(() => { if (state.active === best) spoken.textContent = describe(app, best); }, () => {});
  }

  const toggle = (row) => app.select([row], app.selection.has(row) ? "subtract" : "add");

  // ---- zoom and pan ----

  function zoomBy(factor, x = camera.width / 2, y = camera.height / 2) {
    if (!positions) return;
    camera.zoomBy(factor, x, y);
    moved();
  }

  function moved() {
    setTouch();
    activate(-1);
    state.moving = true;
    clearTimeout(rest);
    rest = setTimeout(() => {
      state.moving = false;
      schedule();
    }, REST);
    schedule();
  }

  // One finger scrolls the page until the map is zoomed or the lasso is chosen.
  function setTouch() { canvas.style.touchAction = camera.zoom > 1 || state.lasso ? "none" : "pan-y"; }

  // ---- lasso ----

  function setLasso(on) {
    state.lasso = on;
    lasso.setAttribute("aria-pressed", String(on));
    setTouch();
  }

  function finishLasso(mode) {
    const polygon = state.path.map((value, i) => 65535 * (i % 2 ? toV(value) : toU(value)));
    state.path = [];
    schedule(false);
    if (polygon.length < 6) return;
    app.select(points.inside(polygon).filter(inFront), mode);
  }

  // ---- events ----

  function listen() {
    const pointers = new Map();
    let dragged = false, drawing = null, before = -1; // drawing: the mode of the lasso; before: the row active at the last press

    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, event);
      before = state.active;
      dragged = pointers.size > 1;
      drawing = null;
      state.path = [];
      if (editable && pointers.size === 1 && (state.lasso || event.shiftKey || event.altKey)) drawing = event.shiftKey ? "add" : event.altKey ? "subtract" : "replace";
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) {
        activate(rowAt(event.offsetX, event.offsetY));
        return;
      }
      if (pointers.size === 2) {
        const other = [...pointers.values()].find((pointer) => pointer.pointerId !== event.pointerId);
        const distance = (pointer) => Math.hypot(pointer.offsetX - other.offsetX, pointer.offsetY - other.offsetY) || 1;
        zoomBy(distance(event) / distance(last), other.offsetX, other.offsetY);
      } else if (dragged || Math.hypot(event.offsetX - last.offsetX, event.offsetY - last.offsetY) > 4) {
        if (!dragged) canvas.setPointerCapture(event.pointerId);
        dragged = true;
        if (drawing) {
          activate(-1);
          state.path.push(...(state.path.length ? [] : [last.offsetX, last.offsetY]), event.offsetX, event.offsetY);
          schedule(false);
        } else {
          camera.moveTo(camera.u - (event.offsetX - last.offsetX) / camera.spanX, camera.v - (event.offsetY - last.offsetY) / camera.spanY);
          moved();
        }
      } else return;
      pointers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => {
        if (!pointers.delete(event.pointerId)) return;
        if (drawing && dragged && !pointers.size) finishLasso(drawing);
        if (dragged || end === "pointercancel") return;
        const row = rowAt(event.offsetX, event.offsetY);
        activate(row);
        if (row < 0) return;
        if (editable && (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey)) toggle(row);
        else if (event.pointerType !== "touch" || row === before) app.view(row); // without hover, the first tap shows the preview
      });
    }
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") activate(-1); });
    canvas.addEventListener("wheel", (event) => {
      const zooms = event.ctrlKey || event.metaKey || (editable && (camera.zoom > 1 || event.deltaY < 0));
      if (!zooms) return; // the page scrolls
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 16 : 1) / 200), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (ARROWS[event.key]) step(...ARROWS[event.key]);
      else if (event.key === "Enter" && state.active >= 0) app.view(state.active);
      else if (event.key === " " && state.active >= 0 && editable) toggle(state.active);
      else if (event.key === "+" || event.key === "=") zoomBy(1.5);
      else if (event.key === "-") zoomBy(1 / 1.5);
      else if (event.key === "0") zoomBy(0);
      else return;
      event.preventDefault();
    });
  }

  app.on("theme", () => schedule());
  app.on("selection", () => { if (!element.hidden) update(); });

  return {
    element,
    show(argument) {
      state.highlight = argument !== "" && app.cluster(Number(argument)) ? Number(argument) : state.highlight;
      if (!requested) load();
      update();
    },
    update() {
      if (!app.cluster(state.highlight)) state.highlight = null;
      update();
    },
    key(event) {
      if (!editable || event.ctrlKey || event.metaKey) return false;
      if (event.key.toLowerCase() === "l") setLasso(!state.lasso);
      else if (event.key === "Escape" && state.lasso) setLasso(false);
      else return false;
      return true;
    },
  };
}
