// A grid of any number of images that can be selected. Only the visible tiles and some around them are in the document.
//
// Click selects (on a read-only page it opens, and the check mark selects), shift-click selects a range, dragging selects
// a rectangle (with Alt: removes it from the selection). By keyboard: arrows, Space, Shift, Ctrl+A, Enter.

import { el, icon, baseName, ARROWS } from "./dom.js";
import { picture, caption, describe, badges } from "./tiles.js";

const PICTURE_WIDTH = 140, NAME_WIDTH = 170; // smallest width of a tile in pixels, with and without a picture
const NAME_HEIGHT = 34, CAPTION = 26, LINE = 48; // height of a name without a picture, of a caption, of a line of the list
const OVERSCAN = 1; // windows above and below the visible one that are kept in the document
const PICTURES = 200, RATE = 0.8; // pictures requested at once, and per millisecond after that: a dragged scroll bar passes thousands
const REST = 100; // milliseconds without scrolling after which names are asked for
const DRAG = 6; // pixels before a press becomes a rectangle

let grids = 0; // for the ids of tiles: a row may be in several grids

// options: {label, caption(row), list: one row per line}
export function makeGrid(app, options = {}) {
  const tiles = new Map(), prefix = `cell-${grids++}`; // position -> element
  const element = el("div", { className: app.data.has_images ? "grid pictures" : "grid", role: "listbox", tabIndex: 0, "aria-multiselectable": "true", "aria-label": options.label ?? `${app.data.item}s` });
  const rubber = el("div", { className: "rubber", hidden: true });
  const layout = { list: Boolean(options.list), columns: 1, width: 0, height: 0, gapX: 0 };
  let rows = [], active = 0, anchor = 0, drag = null, fresh = true, asking = 0, loading = 0, allowed = PICTURES, loaded = 0;

  function measure() {
    const width = element.clientWidth;
    if (!width) return false;
    const phone = width < 600;
    layout.gapX = layout.list ? 0 : phone ? 6 : 10;
    const fitting = Math.floor((width + layout.gapX) / ((app.data.has_images ? PICTURE_WIDTH : NAME_WIDTH) + layout.gapX));
    layout.columns = layout.list ? 1 : Math.max(phone && app.data.has_images ? 3 : 1, fitting);
    layout.width = (width - layout.gapX * (layout.columns - 1)) / layout.columns;
    layout.height = layout.list ? LINE : (app.data.has_images ? layout.width : NAME_HEIGHT) + CAPTION + layout.gapX;
    element.style.height = `${Math.ceil(rows.length / layout.columns) * layout.height}px`;
    return true;
  }

  const left = (position) => (position % layout.columns) * (layout.width + layout.gapX);
  const top = (position) => Math.floor(position / layout.columns) * layout.height;

  function render(fresh = false) {
    const pictures = new Map(); // of rows that stay after an edit, so that they do not flicker
    if (fresh) {
      for (const [position, tile] of [...tiles]) {
        const image = tile.querySelector(".frame > img");
        if (image) pictures.set(Number(tile.dataset.row), image);
        tile.remove();
        tiles.delete(position);
      }
      if (!measure()) return;
    }
    if (!layout.width) return;
    const offset = element.getBoundingClientRect().top;
    const from = Math.max(0, Math.floor((-offset - OVERSCAN * innerHeight) / layout.height)) * layout.columns;
    const to = Math.min(rows.length, Math.ceil((-offset + (1 + OVERSCAN) * innerHeight) / layout.height) * layout.columns);
    for (const position of [...tiles.keys()]) if ((position < from || position >= to) && position !== active) remove(position);
    for (let position = from; position < to; position++) if (!tiles.has(position)) add(position, pictures.get(rows[position]));
    let next = null; // screen readers read in the order of the document
    for (const [, tile] of [...tiles].sort(([a], [b]) => b - a)) {
      if (tile.parentElement !== element || tile.nextSibling !== next) element.insertBefore(tile, next);
      next = tile;
    }
    nameTiles();
    loadPictures();
  }

  function remove(position) {
    const tile = tiles.get(position);
    tile.querySelector("img")?.removeAttribute("src"); // stops loading it, so that visible ones do not wait
    tile.remove();
    tiles.delete(position);
  }

  function add(position, image = null) {
    const row = rows[position];
    const tile = el("div", { className: layout.list ? "cell line" : "cell", id: `${prefix}-${row}`, role: "option", "aria-posinset": position + 1, "aria-setsize": rows.length });
    tile.dataset.row = row;
    tile.style.transform = `translate(${left(position)}px, ${top(position)}px)`;
    tile.style.width = `${layout.width}px`;
    tile.style.height = `${layout.height - layout.gapX}px`;
    const below = options.caption ?? ((index) => caption(app, index));
    if (image) tile.dataset.pictured = "1";
    tile.append(el("span", { className: "frame" }, image, ...badges(app, row),
      el("span", { className: "check" }, icon("check")), ...(app.data.locked[row] ? [el("span", { className: "locked" }, icon("lock"))] : [])),
    el("span", { className: "caption" }, ...below(row)));
    if (app.source.editable) tile.append(el("span", { className: "open", title: "Open (Enter)" }, icon("open")));
    tiles.set(position, tile);
    mark(tile, position);
  }

  function mark(tile, position) {
    tile.setAttribute("aria-selected", String(app.selection.has(rows[position])));
    tile.classList.toggle("active", position === active);
  }

  function markAll() {
    for (const [position, tile] of tiles) mark(tile, position);
    element.classList.toggle("selecting", app.selection.size > 0);
    const current = tiles.get(active);
    if (current) element.setAttribute("aria-activedescendant", current.id);
    else element.removeAttribute("aria-activedescendant");
  }

  // Adds the pictures that the tiles lack, those in the window first.
  function loadPictures() {
    clearTimeout(loading);
    const now = performance.now(), middle = (innerHeight / 2 - element.getBoundingClientRect().top) / layout.height * layout.columns;
    allowed = Math.min(PICTURES, allowed + (now - loaded) * RATE);
    loaded = now;
    const missing = [...tiles].filter(([, tile]) => !tile.dataset.pictured).sort(([a], [b]) => Math.abs(a - middle) - Math.abs(b - middle));
    const started = missing.slice(0, Math.floor(allowed));
    allowed -= started.length;
    for (const [position, tile] of started) {
      tile.dataset.pictured = "1";
      tile.firstElementChild.prepend(picture(app, rows[position], false));
    }
    if (missing.length > started.length) loading = setTimeout(loadPictures, REST);
  }

  // Titles and labels; once the grid stands still, the server is asked for names that are not known yet.
  function nameTiles() {
    const label = (tile) => {
      const row = Number(tile.dataset.row), id = app.source.id(row);
      tile.title = id ?? "";
      tile.setAttribute("aria-label", describe(app, row));
      const file = tile.querySelector(".file");
      if (file && id) file.textContent = layout.list ? id : baseName(id);
      tile.dataset.named = id ? "1" : "";
    };
    const unnamed = [...tiles.values()].filter((tile) => !tile.dataset.named);
    unnamed.forEach(label);
    clearTimeout(asking);
    if (unnamed.every((tile) => tile.dataset.named)) return;
    asking = setTimeout(() => {
      const missing = [...tiles.values()].filter((tile) => !tile.dataset.named);
      app.source.ids(missing.map((tile) => Number(tile.dataset.row))).then(() => missing.forEach(label), () => {});
    }, REST);
  }

  function range(a, b) {
    const selected = [];
    for (let position = Math.min(a, b); position <= Math.max(a, b); position++) selected.push(rows[position]);
    return selected;
  }

  function moveTo(position, extend = false) {
    active = Math.min(rows.length - 1, Math.max(0, position));
    const offset = element.getBoundingClientRect().top + top(active);
    const edge = 70; // height of the bar at the top, and of the one at the bottom
    if (offset < edge) scrollBy(0, offset - edge);
    else if (offset + layout.height > innerHeight - edge) scrollBy(0, offset + layout.height - innerHeight + edge);
    render();
    if (extend) app.select(range(anchor, active), "add");
    else {
      anchor = active;
      markAll();
    }
  }

  const toggle = (position) => app.select([rows[position]], app.selection.has(rows[position]) ? "subtract" : "add");

  function key(event) {
    if (!rows.length || element.closest("[hidden]")) return false;
    const direction = ARROWS[event.key], onControl = event.target.closest("button, a, summary");
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() !== "a") return false;
      app.select(rows, "add");
    } else if (direction) moveTo(active + direction[0] + direction[1] * layout.columns, event.shiftKey);
    else if (event.key === "Home") moveTo(0, event.shiftKey);
    else if (event.key === "End") moveTo(rows.length - 1, event.shiftKey);
    else if (event.key === " " && !onControl) toggle(active);
    else if (event.key === "Enter" && !onControl) app.view(rows[active], rows);
    else return false;
    element.focus({ preventScroll: true });
    element.classList.add("keyboard");
    return true;
  }

  // ---- mouse and touch ----

  function positionOf(event) {
    const tile = event.target.closest(".cell");
    return tile ? rows.indexOf(Number(tile.dataset.row)) : -1;
  }

  element.addEventListener("click", (event) => {
    const position = positionOf(event);
    if (event.detail > 1 && fresh) return; // the second click of a double-click that has opened this view
    fresh = false;
    if (position < 0 || drag?.moved) return;
    active = position;
    element.classList.remove("keyboard");
    const selects = app.source.editable ? !event.target.closest(".open") : event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest(".check");
    if (!selects) app.view(rows[position], rows);
    else if (event.shiftKey) app.select(range(anchor, position), "add");
    else {
      anchor = position;
      toggle(position);
    }
    markAll();
  });
  element.addEventListener("dblclick", (event) => {
    const position = positionOf(event);
    if (app.source.editable && position >= 0 && !fresh) app.view(rows[position], rows);
  });

  element.addEventListener("pointerdown", (event) => {
    drag = null;
    if (event.button !== 0 || event.pointerType === "touch") return;
    const box = element.getBoundingClientRect();
    drag = { moved: false, x: event.clientX - box.left, y: event.clientY - box.top, clientX: event.clientX, clientY: event.clientY, base: new Set(app.selection), subtract: event.altKey };
  });
  element.addEventListener("pointermove", (event) => {
    if (!drag || !(event.buttons & 1)) return;
    if (!drag.moved && Math.hypot(event.clientX - drag.clientX, event.clientY - drag.clientY) < DRAG) return;
    if (!drag.moved) {
      drag.moved = true;
      element.setPointerCapture(event.pointerId);
      rubber.hidden = false;
      requestAnimationFrame(autoScroll);
    }
    Object.assign(drag, { clientX: event.clientX, clientY: event.clientY });
    drawRubber();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    element.addEventListener(end, () => {
      rubber.hidden = true;
      if (drag) drag.done = true;
    });
  }

  function drawRubber() {
    const box = element.getBoundingClientRect();
    const x = drag.clientX - box.left, y = drag.clientY - box.top;
    const [x0, x1, y0, y1] = [Math.min(x, drag.x), Math.max(x, drag.x), Math.min(y, drag.y), Math.max(y, drag.y)];
    rubber.style.transform = `translate(${x0}px, ${y0}px)`;
    rubber.style.width = `${x1 - x0}px`;
    rubber.style.height = `${y1 - y0}px`;
    const inside = [], pitch = layout.width + layout.gapX;
    const firstColumn = Math.max(0, Math.floor((x0 + layout.gapX) / pitch)), lastColumn = Math.min(layout.columns - 1, Math.floor(x1 / pitch));
    const firstLine = Math.max(0, Math.floor(y0 / layout.height)), lastLine = Math.floor(y1 / layout.height);
    for (let line = firstLine; line <= lastLine; line++) {
      for (let column = firstColumn; column <= lastColumn; column++) {
        const position = line * layout.columns + column;
        if (position < rows.length) inside.push(rows[position]);
      }
    }
    const selected = new Set(drag.base);
    for (const row of inside) selected[drag.subtract ? "delete" : "add"](row);
    app.select(selected);
  }

  // Scrolls while the pointer is dragged to the edge of the window.
  function autoScroll() {
    if (!drag?.moved || drag.done) return;
    const step = drag.clientY < 80 ? -18 : drag.clientY > innerHeight - 60 ? 18 : 0;
    if (step) {
      scrollBy({ top: step, behavior: "instant" });
      drawRubber();
    }
    requestAnimationFrame(autoScroll);
  }

  element.append(rubber);
  addEventListener("scroll", () => { if (!element.closest("[hidden]")) render(); }, { passive: true });
  let width = 0;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    render(true);
  }).observe(element);
  app.on("selection", () => { if (!element.closest("[hidden]")) markAll(); });

  return {
    element,
    key,
    get rows() { return rows; },
    // keep: stay at the same position, after an edit
    setRows(newRows, keep = false) {
      rows = newRows;
      fresh ||= !keep;
      active = keep ? Math.min(active, Math.max(0, rows.length - 1)) : 0;
      anchor = active;
      render(true);
      markAll();
    },
    setList(list) {
      layout.list = list;
      render(true);
      markAll();
    },
  };
}
