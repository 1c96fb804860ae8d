// Renaming a cluster in place.

import { $, el } from "./dom.js";

// Replaces the contents of `title` by an input; `done` is called when it is gone.
export function renameField(app, title, entry, done) {
  const contents = [...title.childNodes], before = entry.name === `Cluster ${entry.number}` ? "" : entry.name;
  const input = el("input", { type: "text", className: "rename", value: before, placeholder: entry.name, "aria-label": `New name of ${entry.name}`, autocomplete: "off", list: "suggested-names" });
  const suggestions = el("datalist", { id: "suggested-names" }, ...(app.data.suggestions?.[entry.number] ?? []).map((word) => el("option", { value: word })));
  let busy = false;

  function close() {
    busy = true; // its removal is also a blur
    if (input.isConnected) title.replaceChildren(...contents);
    done();
  }

  // stay: a name that is refused can be corrected
  async function save(stay) {
    if (busy) return;
    busy = true;
    const name = input.value.trim();
    if (name && name !== entry.name) {
      const saved = await app.edit("rename", { cluster: entry.number, name }, `Renamed to “${name}”.`);
      if (!saved && stay && input.isConnected && $("banner").hidden) {
        busy = false;
        input.focus();
        return;
      }
    }
    close();
    if (!name && before) app.say(`The name of a cluster is empty; it is still called “${entry.name}”.`, { error: true });
  }

  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (!["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault(); // the key would press the button that gets the focus
    if (event.key === "Enter") save(true);
    else close();
  });
  input.addEventListener("blur", () => save(false));
  title.replaceChildren(input, suggestions);
  input.focus();
  input.select();
}
