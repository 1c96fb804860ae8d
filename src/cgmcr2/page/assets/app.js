// The page: chooses the view by the hash of the address, holds data and selection, and sends edits.
//
// A view is made by a function xView(app) that returns null (not available) or an object
//   { element, show(argument), update(), key(event)?, hide()? }
// show: the view was opened, with the part of the hash after the first "-"; update: the data has changed while it is
// shown; key: a key was pressed while nobody is typing and no dialog is open, returns true if it was used.

import { $, el, button, iconButton, svg, isTyping, plural } from "./dom.js";
import { inlineSource } from "./inline.js";
import { httpSource, LostServer, Outdated } from "./http.js";
import { cardsView } from "./cards.js";
import { clusterView } from "./cluster.js";
import { imagesView } from "./images.js";
import { similarView } from "./similar.js";
import { historyView, inWords } from "./history.js";
import { selectionBar } from "./actions.js";
import { makeViewer } from "./viewer.js";
import { showKeys } from "./keys.js";
import { exportDialog } from "./export.js";
import { mapView } from "./map.js";
import { reviewView } from "./review.js";
import { refineView } from "./refine.js";
import { duplicatesView } from "./duplicates.js";

const SHAPES = ["M6 .3A5.7 5.7 0 1 1 5.99 .3Z", "M6 0L12 6L6 12L0 6Z", "M1 1H11V11H1Z", "M6 .4L11.9 11.2H.1Z"];
const RETRY = 2000; // milliseconds between attempts to reach a lost server
const SHOWN = { status: 8000, alert: 20000 }; // milliseconds that a message and an error stay
const HEARTBEAT = 5000; // milliseconds between checks that the server answers

// [name in the hash, text in the navigation or null, function that makes it]
const VIEWS = [
  ["clusters", "Clusters", cardsView],
  ["cluster", null, clusterView],
  ["map", "Map", mapView],
  ["review", "Review", reviewView],
  ["refine", "Learn", refineView],
  ["images", null, imagesView],
  ["similar", null, similarView],
  ["duplicates", "Near-duplicates", duplicatesView],
  ["history", "History", historyView],
  ["about", "About", aboutView],
];

const root = document.documentElement;
const systemTheme = matchMedia("(prefers-color-scheme: dark)");
const listeners = { data: [], selection: [], theme: [], server: [] }; // server: it answers again
let queue = Promise.resolve(); // edits are sent one after the other
let route = { name: null, argument: "" };
let memberCache = new Map();

const app = {
  source: $("data") ? inlineSource() : httpSource(),
  data: null,
  selection: new Set(),
  views: {},
  ready: false,

  on(event, listener) { listeners[event].push(listener); },
  emit(event) { for (const listener of listeners[event]) listener(); },

  color: (cluster) => app.data.palette[cluster % app.data.palette.length],
  shape: (cluster) => SHAPES[Math.floor(cluster / app.data.palette.length) % SHAPES.length],
  mark: (cluster) => svg("svg", { viewBox: "0 0 12 12", class: "mark", "aria-hidden": "true" }, svg("path", { d: app.shape(cluster), fill: app.color(cluster) })),
  name: (cluster) => el("bdi", { textContent: app.data.names[cluster] }),
  count: (n) => plural(n, app.data.item),
  cluster: (number) => app.data.clusters.find((entry) => entry.number === number),

  // Rows of a cluster that are on the page, ascending.
  members(cluster) {
    if (!memberCache.size) {
      for (const entry of app.data.clusters) memberCache.set(entry.number, []);
      app.data.labels.forEach((label, row) => memberCache.get(label)?.push(row));
    }
    return memberCache.get(cluster) ?? [];
  },

  // mode: "replace", "add" or "subtract"
  select(rows, mode = "replace") {
    if (mode === "replace") app.selection = new Set(rows);
    else for (const row of rows) app.selection[mode === "add" ? "add" : "delete"](row);
    app.emit("selection");
  },

  // keepMessage: it is about what is shown next
  go(hash, keepMessage = false) {
    if (location.hash !== `#${hash}`) history.pushState(null, "", `#${hash}`);
    followHash(keepMessage);
  },

  // Replaces the data after an edit.
  replace(data) {
    app.data = data;
    memberCache = new Map();
    showHeadline();
    app.emit("data");
    app.views[route.name]?.update();
  },

  // Sends an edit and resolves to whether it was saved. done: the sentence to show, "" for none; default: from the log
  edit(verb, args = {}, done = null) {
    const attempt = queue.then(() => send(verb, args, done));
    queue = attempt.catch(() => {});
    return attempt;
  },
  undo: () => app.data.history?.can_undo && app.edit("undo"),
  redo: () => app.data.history?.can_redo && app.edit("redo"),

  // Shows a message with up to one action: {text, run}
  say(text, { error = false, action = null } = {}) {
    const bar = el("div", { className: error ? "message error" : "message", role: error ? "alert" : "status" }, el("span", {}, text));
    if (action) bar.append(button(action.text, () => { bar.remove(); action.run(); }, { className: "quiet" }));
    bar.append(button("×", () => bar.remove(), { className: "quiet", "aria-label": "Close the message" }));
    (document.querySelector("#viewer[open]") ?? $("dock")).prepend($("messages")); // nothing outside of a modal dialog can be clicked
    $("messages").replaceChildren(bar);
    const leave = () => (bar.matches(":hover, :focus-within") ? setTimeout(leave, SHOWN.status) : bar.remove());
    setTimeout(leave, SHOWN[bar.getAttribute("role")]);
  },

  view: null, // (row, rows): opens the viewer; see viewer.js
};

function showHeadline() {
  const clusters = app.data.clusters.filter((entry) => !entry.excluded).length;
  $("headline").textContent = `${app.count(app.data.total)} in ${plural(clusters, "cluster")}`;
  document.title = document.title.replace(/^[^·]*?(?= · |$)/, $("headline").textContent);
}

// ---- edits ----------------------------------------------------------------------------------------------------------

async function send(verb, args, done) {
  const before = app.data;
  try {
    app.replace(await app.source.edit(verb, args));
  } catch (error) {
    const again = { text: "Try again", run: () => app.edit(verb, args, done) };
    if (error instanceof LostServer) lost({ run: again.run, before: before.state });
    else if (error instanceof Outdated) {
      app.replace(await app.source.load());
      app.say("Not applied, because another window has edited the clusters; this one now shows its changes.", { error: true, action: again });
    } else app.say(error.message, { error: true });
    return false;
  }
  const undoable = !["undo", "redo", "back"].includes(verb);
  if (done === "") $("messages").replaceChildren();
  else app.say(done ?? sentence(verb, before.history.log), { action: undoable ? { text: "Undo", run: app.undo } : null });
  return true;
}

// before: the log without the edit
function sentence(verb, before) {
  const { log } = app.data.history, changed = before.findLast((edit, i) => edit.undone !== log[i].undone);
  if (verb === "back") return "Went back.";
  if (verb === "undo" || verb === "redo") return `${verb === "undo" ? "Undone" : "Done again"}: ${inWords(app, changed?.text ?? "")}.`;
  const text = inWords(app, log.at(-1).text);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

// ---- a server that does not answer ----------------------------------------------------------------------------------

let unsaved = []; // edits that were not acknowledged: {run: sends it again, before: the state of the page}

function lost(edit = null) {
  if (edit) unsaved.push(edit);
  showBanner("The server does not answer. If it was stopped, start cgmcr2 explore again; this page then continues.");
  if (!$("banner").hidden) return;
  $("banner").hidden = false;
  setTimeout(retry, RETRY);
}

function showBanner(reason) {
  const kept = unsaved.length ? `Not saved: ${unsaved.length === 1 ? "your last edit" : `your last ${unsaved.length} edits`}; keep this page open to save ${unsaved.length === 1 ? "it" : "them"} later.` : "All edits are saved.";
  $("banner").textContent = `${reason} ${kept}`;
}

async function retry() {
  let data;
  try {
    data = await app.source.load();
  } catch (error) {
    if (!(error instanceof LostServer)) showBanner(error.message);
    setTimeout(retry, RETRY);
    return;
  }
  const edits = unsaved[0]?.before === data.state ? unsaved : unsaved.slice(1); // the first one may have arrived
  unsaved = [];
  $("banner").hidden = true;
  app.emit("server");
  app.replace(data);
  const again = { text: edits.length === 1 ? "Save it" : "Save them", run: () => edits.forEach((edit) => edit.run()) };
  if (edits.length) app.say(`The server answers again. ${edits.length === 1 ? "Your last edit was" : `Your last ${edits.length} edits were`} not saved.`, { error: true, action: again });
  else app.say("The server answers again.");
}

async function heartbeat() {
  if (!document.hidden && $("banner").hidden) await app.source.ping().catch(() => lost());
  setTimeout(heartbeat, HEARTBEAT);
}

// ---- views ----------------------------------------------------------------------------------------------------------

function aboutView() {
  return {
    element: $("about"),
    show(argument) { if (argument) $(argument)?.scrollIntoView(); },
    update() {},
  };
}

const scrolled = new Map(); // where a view was left

function followHash(keepMessage = false) {
  if (!keepMessage) $("messages").replaceChildren();
  const match = /^#([a-z]+)(?:-(.*))?$/.exec(location.hash);
  const name = match && app.views[match[1]] ? match[1] : "clusters";
  const argument = match && name === match[1] ? match[2] ?? "" : "";
  if (route.name) {
    scrolled.set(`${route.name}-${route.argument}`, scrollY);
    if (name !== route.name) app.views[route.name].hide?.();
  }
  route = { name, argument };
  for (const [other, view] of Object.entries(app.views)) view.element.hidden = other !== name;
  $("intro").hidden = name !== "clusters";
  for (const link of $("nav").children) {
    const parent = { cluster: "clusters", similar: app.data.can_read ? "similar" : "images" }[name] ?? name;
    const current = [`#${parent}`, `#${name}-${argument}`].includes(link.hash) && !(link.hash === "#images" && argument === "outlier");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("nav").querySelector("[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  if (app.selection.size && !["map", "images", "similar"].includes(name)) app.select([]); // nobody remembers a selection that is not shown
  app.views[name].show(argument);
  scrollTo(0, scrolled.get(`${name}-${argument}`) ?? 0);
}

// ---- theme and keys -------------------------------------------------------------------------------------------------

function toggleTheme() {
  root.dataset.theme = (root.dataset.theme || (systemTheme.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  try { localStorage.setItem("cgmcr2-theme", root.dataset.theme); } catch { /* browsers may block storage for local files */ }
  app.emit("theme");
}

function onKey(event) {
  if (isTyping(event.target) || event.altKey || document.querySelector("dialog[open]")) return;
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (key === "z" && !event.shiftKey) app.undo();
    else if (key === "y" || (key === "z" && event.shiftKey)) app.redo();
    else if (!app.views[route.name].key?.(event)) return;
    event.preventDefault();
    return;
  }
  if (app.views[route.name].key?.(event) || app.actions?.key(event)) event.preventDefault();
  else if (key === "?") showKeys(app);
  else if (key === "t") toggleTheme();
  else if (key === "/") {
    event.preventDefault();
    app.go("images");
    $("search").focus();
  } else if (key === "escape" && app.selection.size) app.select([]);
  else if (key === "escape" && ["cluster", "similar"].includes(route.name)) app.go("clusters");
}

// ---- start ----------------------------------------------------------------------------------------------------------

function makeTools() {
  const tools = [];
  if (app.source.editable) {
    const undo = iconButton("undo", "Undo (Ctrl+Z)", () => app.undo()), redo = iconButton("redo", "Redo (Ctrl+Shift+Z)", () => app.redo());
    const update = () => {
      undo.disabled = !app.data.history.can_undo;
      redo.disabled = !app.data.history.can_redo;
    };
    app.on("data", update);
    update();
    tools.push(undo, redo, iconButton("export", "Export", () => exportDialog(app)));
  }
  tools.push(iconButton("keys", "Keys (?)", () => showKeys(app)), iconButton("theme", "Light or dark theme (T)", toggleTheme, { id: "theme" }));
  $("tools").append(...tools);
}

async function start() {
  try { root.dataset.theme = localStorage.getItem("cgmcr2-theme") ?? ""; } catch { /* blocked, see above */ }
  app.data = await app.source.load();
  showHeadline();
  $("dock").append(el("div", { id: "messages" }));
  app.view = makeViewer(app);
  app.actions = selectionBar(app);
  for (const [name, label, make] of VIEWS) {
    const view = make(app);
    if (!view) continue;
    app.views[name] = view;
    view.element.hidden = true;
    if (name !== "clusters") view.element.querySelector("h2")?.setAttribute("aria-level", 1); // the only heading above it is hidden
    if (view.element.parentElement === null) $("views").append(view.element);
    const text = name === "images" ? `All ${app.data.item}s` : name === "similar" && app.data.can_read ? "Search" : label;
    if (text) $("nav").append(el("a", { href: `#${name}`, textContent: text }));
    if (name === "images") $("nav").append(el("a", { href: "#images-outlier", textContent: "Outliers" }));
  }
  makeTools();
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("main").focus();
  });
  systemTheme.addEventListener("change", () => app.emit("theme"));
  history.scrollRestoration = "manual"; // see followHash
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", () => followHash());
  followHash();
  app.ready = true;
  if (app.source.ping) heartbeat();
}

window.app = app; // for the console
start().catch((error) => {
  $("banner").hidden = false;
  $("banner").textContent = error.message;
});
