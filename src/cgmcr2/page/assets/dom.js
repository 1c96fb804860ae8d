// Small helpers to build the page. Text from outside is only ever inserted as text (textContent, append).

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const ICONS = {
  theme: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  undo: "M7 5L3.5 8.5L7 12M4 8.5h7.5a4 4 0 0 1 0 8H8",
  redo: "M13 5l3.5 3.5L13 12M16 8.5H8.5a4 4 0 0 0 0 8H12",
  edit: "M4 16l.8-3.5L13 4.3l2.7 2.7L7.5 15.2z",
  lock: "M5 9h10v7.5H5zM7 9V6.5a3 3 0 0 1 6 0V9",
  check: "M4.5 10.5l3.5 3.5L15.5 6",
  open: "M11.5 4H16v4.5M16 4l-5.5 5.5M8.5 16H4v-4.5M4 16l5.5-5.5",
  export: "M10 3.5v8.5M6.5 9L10 12.5L13.5 9M4 13.5v3h12v-3",
  keys: "M2.5 6h15v9h-15zM5.5 9h.01M8.5 9h.01M11.5 9h.01M14.5 9h.01M6.5 12h7",
};

export const icon = (name) =>
  svg("svg", { viewBox: "0 0 20 20", class: `icon-${name}`, width: 18, height: 18, "aria-hidden": "true" },
    svg("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round" }));

export const button = (text, onclick, properties = {}) => el("button", { type: "button", textContent: text, onclick, ...properties });

export const iconButton = (name, label, onclick, properties = {}) =>
  el("button", { type: "button", className: "icon", "aria-label": label, title: label, onclick, ...properties }, icon(name));

// A group of buttons, one of which is pressed. choices: {value: text}
export function segments(label, choices, value, onchange) {
  const buttons = Object.entries(choices).map(([key, text]) => button(text, () => choose(key, true), { "data-value": key }));
  const choose = (key, changed) => {
    for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.value === key));
    if (changed) onchange(key);
  };
  choose(value, false);
  return Object.assign(el("div", { className: "segments", role: "group", "aria-label": label }, ...buttons), { choose: (key) => choose(key, false) });
}

// A labelled select. choices: {value: text}
export const select = (label, choices, value, onchange) => {
  const field = el("select", {}, ...Object.entries(choices).map(([key, text]) => el("option", { value: key, textContent: text })));
  field.value = value;
  field.addEventListener("change", () => onchange(field.value));
  return Object.assign(el("label", { className: "field" }, label, field), { field });
};

export const number = (n) => n.toLocaleString("en");
export const percent = (value) => `${Math.round(value / 100)} %`; // of a score in 1/10000
export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
export const baseName = (id) => id.slice(id.lastIndexOf("/", id.length - 2) + 1);
export const isTyping = (target) => Boolean(target.matches?.("input:not([type=checkbox], [type=range]), select, textarea"));

export const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Arrow keys move the focus to the nearest element in that direction on the screen, among those that match the selector.
export function arrowKeys(container, selector) {
  container.addEventListener("keydown", (event) => {
    const direction = ARROWS[event.key], from = document.activeElement;
    if (!direction || !from.matches(selector) || event.ctrlKey || event.metaKey || event.altKey) return;
    const center = (element) => {
      const box = element.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    };
    const [x, y] = center(from);
    let best = null, least = Infinity;
    for (const other of container.querySelectorAll(selector)) {
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

// A modal dialog; resolves when it is closed. The focus returns to where it was.
export function openDialog(title, body, properties = {}) {
  const heading = el("h2", { id: "dialog-title", textContent: title });
  const dialog = el("dialog", { "aria-labelledby": "dialog-title", ...properties }, el("div", { className: "dialog-body" }, heading, body));
  document.body.append(dialog);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  const closed = new Promise((resolve) => dialog.addEventListener("close", () => {
    dialog.remove();
    resolve(dialog.returnValue);
  }));
  dialog.showModal();
  return { dialog, closed };
}
