// The dialog that writes the clusters to a folder or file, or downloads them as a table.

import { el, button, openDialog } from "./dom.js";

const FORMATS = {
  folders: "folders of images, one per cluster", imagefolder: "folders for training programs, with metadata.csv", csv: "table (CSV)", json: "table (JSON)", parquet: "table (Parquet)",
  arrow: "table (Arrow)", lance: "table (Lance)", coco: "COCO", fiftyone: "FiftyOne", "label-studio": "Label Studio",
};

const FILES = { csv: "labels.csv", json: "labels.json", parquet: "labels.parquet", arrow: "labels.arrow", lance: "labels.lance", coco: "coco.json", fiftyone: "samples.json" }; // proposed names; a folder for the others

export function exportDialog(app) {
  const formats = app.data.formats;
  const format = el("select", { id: "export-format" }, ...formats.map((name) => el("option", { value: name, textContent: FORMATS[name] ?? name })));
  const proposal = () => FILES[format.value] ?? "sorted";
  const folder = el("input", { type: "text", id: "export-folder", required: true, value: proposal(), autocomplete: "off", spellcheck: false });
  let proposed = folder.value, writing = false;
  format.addEventListener("change", () => { if (folder.value === proposed) folder.value = proposed = proposal(); });
  const status = el("p", { className: "small status", role: "status", textContent: "A new folder or file, next to the run folder. The original images stay where they are, and nothing is overwritten." });
  const write = el("button", { type: "submit", className: "primary", textContent: "Export" });
  const form = el("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      if (writing) return;
      writing = true; // a disabled button would lose the focus
      status.className = "small status";
      status.textContent = "Writing…";
      try {
        const { path, files, missing } = await app.source.export({ format: format.value, folder: folder.value.trim() });
        status.replaceChildren(`${app.count(files)} in `, el("code", {}, el("bdi", { textContent: path })), missing.length ? `; ${app.count(missing.length)} could not be found.` : ".");
        status.classList.add("done");
      } catch (error) {
        status.textContent = error.message;
        status.classList.add("error");
      }
      writing = false;
    },
  }, el("label", {}, "Format", format), el("label", {}, "Folder or file", folder), status,
  el("p", { className: "dialog-actions" }, el("a", { href: "export/labels.csv", download: "labels.csv", textContent: "Download labels.csv" }), el("span", { className: "spread" }), button("Close", () => dialog.close()), write));
  const { dialog } = openDialog("Export", form, { className: "narrow" });
  folder.focus();
  folder.select();
}
