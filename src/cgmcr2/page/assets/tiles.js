// Pictures of rows, and what is written below them.

import { el, percent, baseName } from "./dom.js";
import { NO_CLUSTER } from "./rows.js";

// The thumbnail of a row, or the end of its name.
export function picture(app, row, lazy = true) {
  const url = app.source.thumbnail(row);
  if (!url) return nameLabel(app, row);
  const image = el("img", { alt: "", decoding: "async", draggable: false, loading: lazy ? "lazy" : "eager" });
  image.addEventListener("error", () => image.replaceWith(nameLabel(app, row)), { once: true });
  image.src = url;
  return image;
}

function nameLabel(app, row) {
  const label = el("bdi", { className: "id", textContent: baseName(app.source.id(row) ?? "") });
  if (!label.textContent) app.source.ids([row]).then(([id]) => { label.textContent = baseName(id); }, () => {});
  return label;
}

// The confidence, and the second best cluster of a close call.
export function caption(app, row) {
  const { confidence, margin, runnerUp, locked } = app.data;
  const probability = locked[row] ? "confirmed" : percent(confidence[row]);
  if (runnerUp[row] === NO_CLUSTER || margin[row] >= 5000 || locked[row]) return [probability];
  return [`${probability} · or `, app.name(runnerUp[row])];
}

// The row in words, for screen readers.
export function describe(app, row) {
  const { labels, names, confidence, locked } = app.data;
  const copies = copiesOf(app, row);
  return `${app.source.id(row) || `${app.data.item} ${row}`}, ${names[labels[row]]}, ${percent(confidence[row])}${locked[row] ? ", confirmed" : ""}${copies ? `, one of ${copies} near-duplicates` : ""}`;
}

const groupSizes = new WeakMap(); // the groups of near-duplicates -> Map from row to size of its group

export function copiesOf(app, row) {
  const { groups } = app.data;
  if (!groups) return 0;
  if (!groupSizes.has(groups)) groupSizes.set(groups, new Map(groups.flatMap((group) => group.map((member) => [member, group]))));
  return groupSizes.get(groups).get(row)?.length ?? 0;
}

// The first of the rows from each group of near-duplicates, and all those without a duplicate.
export function firstOfGroups(app, rows) {
  const shown = new Set();
  return rows.filter((row) => {
    const group = copiesOf(app, row) ? groupSizes.get(app.data.groups).get(row) : row, first = !shown.has(group);
    shown.add(group);
    return first;
  });
}

export function badges(app, row) {
  const copies = copiesOf(app, row);
  return copies ? [el("span", { className: "badge", title: `One of ${copies} near-duplicates`, textContent: `×${copies}` })] : [];
}

// A button that opens the viewer, in a strip of pictures.
export function tile(app, row, rows) {
  const button = el("button", { type: "button", className: "tile", "data-row": row, onclick: () => app.view(row, rows) }, picture(app, row), ...badges(app, row));
  const label = () => {
    button.setAttribute("aria-label", describe(app, row));
    button.title = app.source.id(row) ?? "";
  };
  label();
  if (!app.source.id(row)) button.addEventListener("pointerenter", () => app.source.ids([row]).then(label, () => {}), { once: true });
  return button;
}
