// Questions in a dialog: which cluster, which name.

import { el, button, number, openDialog } from "./dom.js";
import { NO_CLUSTER } from "./rows.js";
import { picture } from "./tiles.js";

const SHOWN = 50; // clusters listed at once; typing narrows them down

// Asks for a name; resolves to null if it is cancelled.
export function askName(app, title, value, verb, label = "Name (optional)", note = null) {
  const input = el("input", { type: "text", value, autocomplete: "off", spellcheck: false });
  let answer = null;
  const form = el("form", { method: "dialog", onsubmit: () => { answer = input.value.trim(); } }, note, el("label", {}, label, input),
    el("p", { className: "dialog-actions" }, button("Cancel", () => dialog.close()), el("button", { type: "submit", className: "primary", textContent: verb })));
  const { dialog, closed } = openDialog(title, form, { className: "narrow" });
  input.focus();
  input.select();
  return closed.then(() => answer);
}

// Asks for a cluster by typing a part of its name; resolves to {cluster}, {name} for a new one, or null.
// The clusters that are the second best of most of the rows come first, the one that all rows are in comes last.
export function chooseCluster(app, title, rows = []) {
  const { data } = app;
  const votes = new Map();
  for (const row of rows) if (data.runnerUp[row] !== NO_CLUSTER) votes.set(data.runnerUp[row], (votes.get(data.runnerUp[row]) ?? 0) + 1);
  const from = new Set(rows.map((row) => data.labels[row])), isCurrent = (entry) => from.size === 1 && from.has(entry.number);
  const clusters = data.clusters.filter((entry) => !entry.excluded)
    .sort((a, b) => isCurrent(a) - isCurrent(b) || (votes.get(b.number) ?? 0) - (votes.get(a.number) ?? 0) || b.size - a.size);
  const input = el("input", { type: "text", role: "combobox", "aria-label": "Cluster", "aria-expanded": "true", "aria-controls": "choices", "aria-autocomplete": "list", placeholder: "Type a part of the name, or a new name", autocomplete: "off", spellcheck: false });
  const list = el("ul", { id: "choices", role: "listbox", className: "choices", "aria-label": "Clusters" });
  let active = 0, choices = [], answer = null;

  function filter() {
    const query = input.value.trim().toLowerCase();
    const matches = clusters.filter((entry) => entry.name.toLowerCase().includes(query));
    if (query) matches.sort((a, b) => b.name.toLowerCase().startsWith(query) - a.name.toLowerCase().startsWith(query)); // stable
    choices = matches.slice(0, SHOWN).map((entry) => ({ cluster: entry.number }));
    const exact = clusters.some((entry) => entry.name.toLowerCase() === query);
    if (query && !exact) choices.push({ name: input.value.trim() });
    list.replaceChildren(...choices.map((choice, i) => {
      const entry = choice.name === undefined ? app.cluster(choice.cluster) : null;
      return el("li", { role: "option", id: `choice-${i}`, onclick: () => finish(i) },
        ...(entry ? [data.has_images && entry.typical.length ? el("span", { className: "thumb" }, picture(app, entry.typical[0])) : null, app.mark(entry.number), el("bdi", { className: "choice-name", textContent: entry.name }), el("span", { className: "small", textContent: isCurrent(entry) ? "now" : number(entry.size) })]
          : [el("span", { className: "choice-name" }, "New cluster “", el("bdi", { textContent: choice.name }), "”")]));
    }));
    if (!choices.length) list.append(el("li", { className: "empty", textContent: "No clusters." }));
    move(0);
  }

  function move(to) {
    active = Math.min(Math.max(0, to), Math.max(0, choices.length - 1));
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    input.setAttribute("aria-activedescendant", `choice-${active}`);
    list.children[active]?.scrollIntoView({ block: "nearest" });
  }

  function finish(i) {
    answer = choices[i] ?? null;
    dialog.close();
  }

  input.addEventListener("input", filter);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(active + 1);
    else if (event.key === "ArrowUp") move(active - 1);
    else if (event.key === "Enter") finish(active);
    else return;
    event.preventDefault();
  });
  const { dialog, closed } = openDialog(title, el("div", {}, input, list), { className: "narrow picker" });
  filter();
  input.focus();
  return closed.then(() => answer);
}
