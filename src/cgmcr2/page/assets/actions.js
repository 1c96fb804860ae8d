// What can be done with the selected images: the bar at the bottom, and its keys.

import { $, el, button, number } from "./dom.js";
import { chooseCluster, askName } from "./choose.js";

export function selectionBar(app) {
  const { source } = app;
  const rows = () => [...app.selection];

  // Sends an edit of rows, and clears the selection. Confirmed rows move only if the person insists.
  function change(verb, args, text) {
    const send = async (...edit) => { if (await app.edit(...edit, text)) app.select([]); };
    const locked = args.rows.filter((row) => app.data.locked[row]);
    if (!locked.length) return send(verb, args);
    return app.say(`${app.count(locked.length)} ${locked.length === 1 ? "is" : "are"} confirmed, so nothing was changed.`,
      { error: true, action: { text: "Change anyway", run: () => send("batch", { edits: [["unlock", { rows: locked }], [verb, args]] }) } });
  }
  const name = (cluster) => `“${app.data.names[cluster]}”`;

  const actions = {
    move: async (selected = rows()) => {
      const choice = await chooseCluster(app, `Move ${app.count(selected.length)} to…`, selected);
      if (!choice) return;
      if (choice.name) change("new", { rows: selected, name: choice.name }, `${app.count(selected.length)} moved to the new cluster “${choice.name}”.`);
      else if (selected.every((row) => app.data.labels[row] === choice.cluster)) app.say(`${app.count(selected.length)} already in ${name(choice.cluster)}.`);
      else change("move", { rows: selected, cluster: choice.cluster }, `${app.count(selected.length)} moved to ${name(choice.cluster)}.`);
    },
    create: async (selected = rows()) => {
      const text = await askName(app, `New cluster of ${app.count(selected.length)}`, "", "Create");
      if (text !== null) change("new", { rows: selected, name: text || null }, `${app.count(selected.length)} moved to a new cluster.`);
    },
    exclude: (selected = rows()) => change("exclude", { rows: selected }, `${app.count(selected.length)} excluded.`),
    lock: (selected = rows()) => {
      const unlock = selected.every((row) => app.data.locked[row]);
      return app.edit(unlock ? "unlock" : "lock", { rows: selected }, `${app.count(selected.length)} ${unlock ? "no longer confirmed" : "confirmed"}.`);
    },
    similar: (selected = rows()) => app.go(`similar-${selected[0]}`),
    show: () => app.go("images-selection"),
    copy: async () => {
      const ids = await source.ids(rows());
      await navigator.clipboard.writeText(ids.join("\n")).then(() => app.say(`${app.count(ids.length)} copied as text, one name per line.`), (error) => app.say(error.message, { error: true }));
    },
  };

  const count = el("output", { className: "count" });
  const lock = button("Confirm", () => actions.lock(), { title: `Nothing moves confirmed ${app.data.item}s (L)` });
  const edits = source.editable ? [
    button("Move to…", () => actions.move(), { className: "primary", title: "Move to a cluster (M)" }),
    button("New cluster", () => actions.create(), { title: "Make a new cluster (N)" }),
    button("Exclude", () => actions.exclude(), { title: "Belongs to no cluster (X)" }),
    lock,
    button("Similar", () => actions.similar(), { title: "Find those most similar to the first selected one (S)" }),
  ] : [];
  const bar = el("div", { className: "selection-bar", role: "toolbar", "aria-label": "Selected", hidden: true }, count, ...edits,
    button("Show", actions.show, { title: "Show only the selected ones" }), button("Copy names", actions.copy), button("Clear", () => app.select([]), { className: "quiet", title: "Escape" }));
  $("dock").append(bar);
  app.on("selection", update);
  app.on("data", update);

  function update() {
    bar.hidden = !app.selection.size;
    document.body.classList.toggle("has-bar", !bar.hidden);
    if (bar.hidden) return;
    count.textContent = `${number(app.selection.size)} selected`;
    lock.textContent = rows().every((row) => app.data.locked[row]) ? "Unconfirm" : "Confirm";
  }

  const KEYS = { m: "move", n: "create", x: "exclude", l: "lock", s: "similar" };
  return {
    ...actions,
    // A key that acts on the selection, or on `selected`; returns true if it was used.
    key(event, selected = rows()) {
      const action = KEYS[event.key.toLowerCase()];
      if (!action || !selected.length || !source.editable || event.ctrlKey || event.metaKey || event.shiftKey) return false;
      actions[action](selected);
      return true;
    },
  };
}
