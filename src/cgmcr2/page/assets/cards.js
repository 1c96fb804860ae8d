// All clusters: one card each, with a name, typical and uncertain images, and what to look at.

import { $, el, button, iconButton, icon, number, plural, select, arrowKeys } from "./dom.js";
import { tile, firstOfGroups } from "./tiles.js";
import { askName } from "./choose.js";
import { renameField } from "./rename.js";
import { levelsControl } from "./levels.js";
import { keepOrder, uncertainRows } from "./sort.js";

const CARDS = 60; // cards added at a time, when the end of the list is near
const ATTENTION = 0.2; // clusters above it are marked

const ORDERS = { attention: "needs a look", size: "size", name: "name", number: "number" };
const COMPARE = {
  attention: (a, b) => b.attention - a.attention || b.size - a.size,
  size: (a, b) => b.size - a.size || a.number - b.number,
  name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  number: (a, b) => a.number - b.number,
};

// The clusters in the order of the cards.
export function sortedClusters(app) {
  return [...app.data.clusters].sort((a, b) => a.excluded - b.excluded || COMPARE[app.order](a, b));
}

export function cardsView(app) {
  const editable = app.source.editable;
  const chosen = new Set(); // clusters, for merging
  const cards = new Map(); // cluster -> [its values as text, its card]
  let last = null, shown = CARDS, order = []; // last: the card that was chosen last, for ranges
  app.order = editable ? "attention" : "size";

  const list = el("ol", { id: "cluster-list", className: "cards" });
  const end = el("div", { className: "end" });
  const sort = select("Sort by", ORDERS, app.order, (value) => {
    app.order = value;
    shown = CARDS;
    show();
  });
  sort.field.id = "order";
  sort.title = `Needs a look: mixed with another cluster, varied ${app.data.item}s, or many close calls`;
  const levels = levelsControl(app);
  const element = el("section", { id: "view-clusters", "aria-labelledby": "clusters-title" },
    el("div", { className: "head" }, el("h2", { id: "clusters-title", textContent: "Clusters" }), el("div", { className: "tools" }, editable ? levels : null, sort)), editable ? null : levels, list, end);

  // The card of a cluster; one that has not changed is kept, so that its pictures do not flicker.
  function card(entry) {
    const values = JSON.stringify([entry, app.data.names[entry.confused_with]]);
    if (cards.get(entry.number)?.[0] !== values) cards.set(entry.number, [values, makeCard(entry)]);
    return cards.get(entry.number)[1];
  }

  function makeCard(entry) {
    const { number: cluster } = entry;
    const open = el("button", { type: "button", className: "open-card", onclick: () => app.go(`cluster-${cluster}`) }, app.mark(cluster), el("bdi", { className: "name", textContent: entry.name }));
    const title = el("h3", { className: "card-title" }, open);
    const item = el("li", { className: "card", "data-cluster": cluster });
    const tools = [];
    if (editable && !entry.excluded) {
      tools.push(iconButton("edit", `Rename ${entry.name}`, () => rename(item)));
      const box = el("input", { type: "checkbox", "aria-label": `Select ${entry.name}`, title: "Select, to merge or confirm several clusters" });
      box.addEventListener("click", (event) => choose(cluster, box.checked, event.shiftKey));
      tools.push(box);
    }
    const [most, least] = app.data.has_images ? [5, 4] : [6, 2];
    const typical = firstOfGroups(app, withPicture(app, entry.typical)).slice(0, most);
    const uncertain = firstOfGroups(app, [...typical, ...withPicture(app, entry.uncertain)]).slice(typical.length, typical.length + least);
    const strip = (kind, rows) => {
      const tiles = rows.map((row, i) => Object.assign(tile(app, row, entry[kind]), { tabIndex: i ? -1 : 0 })); // arrow keys reach the others
      return el("div", { className: `strip ${kind}${app.data.has_images ? "" : " text"}` }, ...tiles);
    };
    item.append(el("div", { className: "card-head" }, title, ...tools),
      el("p", { className: "small", textContent: `${app.count(entry.size)} · ${Math.round(100 * entry.confidence)} % confidence${entry.locked ? ` · ${number(entry.locked)}\u00a0confirmed` : ""}` }),
      strip("typical", typical), ...(uncertain.length ? [el("p", { className: "small least", textContent: "least certain" }), strip("uncertain", uncertain)] : []), advice(app, entry));
    return item;
  }

  function rename(item) {
    const cluster = Number(item.dataset.cluster), entry = app.cluster(cluster), title = item.querySelector(".card-title");
    renameField(app, title, entry, () => element.querySelector(`[data-cluster="${cluster}"] .open-card`)?.focus());
  }

  function choose(cluster, on, through) {
    const range = through && last !== null ? order.map((entry) => entry.number) : [cluster];
    const [a, b] = [range.indexOf(last), range.indexOf(cluster)].sort((x, y) => x - y);
    for (const member of range.length > 1 ? range.slice(a, b + 1) : range) if (!app.cluster(member).excluded) chosen[on ? "add" : "delete"](member);
    last = cluster;
    markChosen();
  }

  function markChosen() {
    for (const item of list.children) {
      const on = chosen.has(Number(item.dataset.cluster));
      item.classList.toggle("chosen", on);
      const box = item.querySelector("input[type=checkbox]");
      if (box) box.checked = on;
    }
    bar.hidden = !chosen.size || element.hidden;
    text.textContent = plural(chosen.size, "cluster");
    mergeButton.disabled = chosen.size < 2;
  }

  // ---- several clusters at once ----

  const text = el("output", { className: "count" });
  const mergeButton = button("Merge…", merge, { className: "primary", title: "M" });
  const clear = () => {
    chosen.clear();
    markChosen();
  };
  const bar = el("div", { className: "selection-bar", role: "toolbar", "aria-label": "Selected clusters", hidden: true }, text, mergeButton,
    button("Confirm all", confirmAll, { title: `Confirm all ${app.data.item}s of these clusters (L)` }),
    button("Clear", clear, { className: "quiet", title: "Escape" }));
  $("dock").append(bar);

  async function confirmAll() {
    const rows = [...chosen].flatMap((cluster) => app.members(cluster));
    if (await app.edit("lock", { rows }, `${app.count(rows.length)} confirmed.`)) clear();
  }

  async function merge() {
    const entries = [...chosen].map(app.cluster).sort((a, b) => b.size - a.size);
    const target = entries.find((entry) => entry.name !== `Cluster ${entry.number}`) ?? entries[0]; // a name that someone gave is kept
    const name = await askName(app, `Merge ${plural(entries.length, "cluster")}`, target.name, "Merge", "Name of the merged cluster",
      el("p", { className: "small" }, entries.flatMap((entry, i) => [i ? ", " : "", el("bdi", { textContent: entry.name })])));
    if (!name) return;
    const numbers = [target, ...entries.filter((entry) => entry !== target)].map((entry) => entry.number);
    if (await app.edit("merge", { clusters: numbers, name: name === target.name ? null : name }, `${plural(numbers.length, "cluster")} merged into “${name}”.`)) {
      clear();
      list.querySelector(`[data-cluster="${target.number}"] .open-card`)?.focus();
    }
  }

  // ---- showing ----

  function show() {
    order = [];
    update();
  }

  // Cards stay in place after an edit; they are sorted when the view is opened.
  function update() {
    const focused = document.activeElement.closest?.("#cluster-list > li")?.dataset.cluster;
    order = keepOrder(order.map((entry) => entry.number), sortedClusters(app).map((entry) => entry.number)).map(app.cluster);
    for (const cluster of chosen) if (!app.cluster(cluster)) chosen.delete(cluster);
    list.replaceChildren(...order.slice(0, shown).map(card));
    if (focused !== undefined) list.querySelector(`[data-cluster="${focused}"] .open-card`)?.focus({ preventScroll: true });
    figures(app);
    markChosen();
  }

  new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting || shown >= order.length || element.hidden) return;
    list.append(...order.slice(shown, shown + CARDS).map(card));
    shown += CARDS;
  }, { rootMargin: "1200px" }).observe(end);
  app.on("server", () => cards.clear()); // their pictures may not have been loaded
  arrowKeys(list, ".open-card");
  arrowKeys(list, ".tile");

  return {
    element,
    show,
    hide() { bar.hidden = true; },
    update,
    key(event) {
      const item = document.activeElement.closest?.("#cluster-list > li"), key = event.key.toLowerCase();
      if (event.ctrlKey || event.metaKey) {
        if (key !== "a" || !editable) return false;
        for (const entry of order) if (!entry.excluded) chosen.add(entry.number);
        markChosen();
      } else if (key === "escape" && chosen.size) clear();
      else if (!editable) return false;
      else if (key === "m" && chosen.size > 1) merge();
      else if (key === "l" && chosen.size) confirmAll();
      else if ((key === "f2" || key === "r") && item) rename(item);
      else if (key === " " && document.activeElement.matches(".open-card")) choose(Number(item.dataset.cluster), !chosen.has(Number(item.dataset.cluster)), event.shiftKey);
      else return false;
      return true;
    },
  };
}

// Of the rows of a card, those with a thumbnail; all of them on a page without images.
const withPicture = (app, rows) => (app.data.has_images ? rows.filter((row) => app.source.thumbnail(row)) : rows);

// What to look at in a cluster, in a sentence.
function advice(app, entry) {
  const line = el("p", { className: "advice small" });
  if (entry.excluded) line.append("Kept out of exports.");
  else if (entry.locked === entry.size) line.append(icon("check"), "Confirmed.");
  else if (entry.attention >= ATTENTION) {
    line.classList.add("look");
    line.append(el("b", { textContent: "Needs a look" }), " · ", ...reason(app, entry));
  } else if (entry.confused_with !== null && entry.confusion >= 0.05) line.append("Sometimes mixed with ", app.name(entry.confused_with));
  return line;
}

// Why a cluster needs a look: the largest of the three parts of its score.
function reason(app, entry) {
  const cohesions = app.data.clusters.map(({ cohesion }) => cohesion).filter((cohesion) => cohesion !== null).sort((a, b) => a - b);
  const usual = cohesions[cohesions.length >> 1], members = app.members(entry.number);
  const closeCalls = uncertainRows(app, members).length / Math.max(1, members.length);
  const varied = entry.cohesion ? 1 - entry.cohesion / usual : 0, mixed = entry.confused_with === null ? 0 : 2 * entry.confusion;
  if (mixed >= closeCalls && mixed >= varied && mixed) return ["mixed with ", app.name(entry.confused_with)];
  return [closeCalls >= varied ? "many close calls" : `varied ${app.data.item}s`];
}

// Numbers at the top of the page.
function figures(app) {
  const { data } = app;
  const sizes = data.clusters.filter((entry) => !entry.excluded).map((entry) => entry.size);
  const middle = Float32Array.from(data.confidence).sort()[data.n >> 1];
  const uncertain = uncertainRows(app).length;
  const locked = data.locked.reduce((a, b) => a + b, 0);
  const values = !data.n ? [["0", `${data.item}s`, ""]] : [
    ...(data.stability ? [[`${Math.round(100 * data.stability)} %`, "stability", `Share of ${data.item}s on which independent partitions of the same data agree with these clusters.`]] : []),
    [`${number(Math.min(...sizes))} to ${number(Math.max(...sizes))}`, `${data.item}s per cluster`, "Smallest and largest cluster."],
    [`${Math.round(middle / 100)} %`, "median confidence", "Confidence is the probability that the model gives to the assigned cluster."],
    [number(uncertain), `uncertain ${data.item}${uncertain === 1 ? "" : "s"}`, "Margin below 10 %: the second best cluster is almost as probable.", uncertain ? "images-uncertain" : null],
    ...(data.duplicate_groups ? [[number(data.duplicate_groups), `group${data.duplicate_groups === 1 ? "" : "s"} of near-duplicates`, "", "duplicates"]] : []),
    ...(locked ? [[number(locked), "confirmed", `Nothing moves confirmed ${data.item}s.`]] : []),
    ...(data.errors?.length ? [[number(data.errors.length), `file${data.errors.length === 1 ? "" : "s"} could not be read`, "", "about-unreadable"]] : []),
  ];
  $("figures").replaceChildren(...values.map(([value, label, title, hash]) => el("div", { title }, el("dd", { textContent: value }),
    el("dt", {}, hash ? el("a", { href: `#${hash}`, textContent: label }) : label))));
}
