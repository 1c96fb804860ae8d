// One image at a time, large, with its values.

import { $, el, button, number, percent } from "./dom.js";
import { NO_CLUSTER } from "./rows.js";
import { copiesOf } from "./tiles.js";

export function makeViewer(app) {
  const state = { rows: [], position: 0 };
  const { item } = app.data, { editable } = app.source;
  const stage = el("div", { className: "stage", id: "viewer-stage", tabIndex: -1 });
  const name = el("h3", { id: "viewer-name" });
  const details = el("dl", { id: "viewer-details" });
  const link = el("a", { id: "viewer-link", target: "_blank", rel: "noopener noreferrer", textContent: "Open original" });
  const position = el("output", { id: "viewer-position" });
  const previous = button("←", () => turn(-1), { "aria-label": `Previous ${item}`, id: "viewer-previous" });
  const next = button("→", () => turn(1), { "aria-label": `Next ${item}`, id: "viewer-next" });
  const current = () => state.rows[state.position];
  const act = (action) => app.actions[action]([current()]);
  const lock = button("Confirm", () => act("lock"), { title: "L" }), choose = button("Select", toggle, { title: "Space" });
  const leave = (hash) => {
    dialog.close();
    app.go(hash);
  };
  const edits = editable ? [el("p", { className: "actions" }, button("Move to…", () => act("move"), { title: "M", className: "primary" }), button("Exclude", () => act("exclude"), { title: "X" }), lock, choose)] : [];
  const dialog = el("dialog", { id: "viewer", "aria-labelledby": "viewer-name" }, stage, el("div", { className: "info" }, name, details, ...edits,
    el("p", { className: "actions" }, button("Show cluster", () => leave(`cluster-${app.data.labels[current()]}`), { className: "quiet", id: "viewer-cluster" }),
      ...(editable ? [button("Similar", () => leave(`similar-${current()}`), { className: "quiet", title: "S" })] : []), link),
    el("p", { className: "steps" }, previous, position, next, el("span", { className: "spread" }), button("Close", () => dialog.close(), { id: "viewer-close" }))));
  document.body.append(dialog);

  async function show() {
    const row = current(), { data, source } = app;
    stage.hidden = !data.has_images;
    dialog.classList.toggle("plain", !data.has_images);
    const small = source.thumbnail(row), large = source.image(row);
    const image = el("img", { alt: "" });
    stage.replaceChildren(small || large ? image : el("p", { textContent: "This page has no thumbnail of this image." }));
    if (small || large) image.src = small ?? large;
    if (small && large) { // the thumbnail until the image is loaded
      const loaded = new Image();
      loaded.src = large;
      loaded.decode().then(() => { if (current() === row) image.src = large; }, () => {});
    }
    const entry = (label, ...value) => el("div", {}, el("dt", { textContent: label }), el("dd", {}, ...value));
    const clusterName = (cluster) => [app.mark(cluster), app.name(cluster)];
    const copies = copiesOf(app, row);
    details.replaceChildren(
      entry("Cluster", ...clusterName(data.labels[row])),
      entry("Confidence", data.locked[row] ? "confirmed" : percent(data.confidence[row])),
      entry("Margin", percent(data.margin[row])),
      entry("Outlier score", percent(data.outlier[row])),
      ...(data.runnerUp[row] !== NO_CLUSTER && data.confidence[row] < 9995 ? [entry("Second best", ...clusterName(data.runnerUp[row]))] : []),
      ...(copies ? [entry("Near-duplicates", `${number(copies - 1)} other${copies === 2 ? "" : "s"}`)] : []));
    const original = source.original(row);
    link.hidden = original === null;
    if (original !== null) link.href = original;
    position.textContent = `${number(state.position + 1)} / ${number(state.rows.length)}`;
    previous.disabled = state.position === 0;
    next.disabled = state.position === state.rows.length - 1;
    lock.textContent = data.locked[row] ? "Unconfirm" : "Confirm";
    choose.textContent = app.selection.has(row) ? "Deselect" : "Select";
    name.replaceChildren(el("bdi", { textContent: source.id(row) ?? "" }));
    const [id] = await source.ids([row]).catch(() => [""]);
    if (current() !== row) return;
    name.replaceChildren(el("bdi", { textContent: id }));
    image.alt = id;
  }

  function turn(step) {
    const target = state.position + step;
    if (target < 0 || target >= state.rows.length) return;
    state.position = target;
    show();
  }

  function toggle() {
    app.select([current()], app.selection.has(current()) ? "subtract" : "add");
    show();
  }

  dialog.addEventListener("close", () => $("dock").prepend($("messages")));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") turn(-1);
    else if (event.key === "ArrowRight") turn(1);
    else if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && editable) app[event.shiftKey ? "redo" : "undo"]();
    else if (event.key === " " && editable && !event.target.closest("button, a")) toggle();
    else if (event.key === "s" && editable) leave(`similar-${current()}`);
    else if (!app.actions.key(event, [current()])) return;
    event.preventDefault();
  });
  app.on("data", () => { if (dialog.open) show(); });

  return (row, rows = [row]) => {
    state.rows = rows;
    state.position = Math.max(0, rows.indexOf(row));
    show();
    if (dialog.open) return;
    dialog.showModal();
    stage.focus();
  };
}
