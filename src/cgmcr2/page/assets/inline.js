// The data of report.html: part of the page, read-only. A row is a position in the page's arrays.

import { $ } from "./dom.js";
import { rowArrays } from "./rows.js";

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

export function inlineSource() {
  const { ids, rows, map, base, duplicates, ...state } = JSON.parse($("data").textContent);
  const thumbnails = JSON.parse($("thumbnails").textContent); // {row: base64 of a WebP file}
  $("data").remove();
  $("thumbnails").remove();
  const refuse = () => Promise.reject(new Error("This page is read-only; open the run with cgmcr2 explore to edit it."));
  return {
    editable: false,
    base, // URL of the folder of the originals, or null
    load: async () => ({
      ...state, ...rowArrays(bytes(rows), state.n), has_images: Object.keys(thumbnails).length > 0, has_map: map !== null,
      groups: duplicates, // of near-duplicates
      levels: state.levels && { ...state.levels, leaf: new Uint16Array(bytes(state.levels.leaf)) },
    }),
    id: (row) => ids[row],
    ids: async (rows) => Array.from(rows, (row) => ids[row]),
    thumbnail: (row) => (thumbnails[row] ? `data:image/webp;base64,${thumbnails[row]}` : null),
    image: () => null,
    original: (row) => (base === null ? null : originalUrl(base, ids[row])),
    map: async () => (map === null ? null : new Uint16Array(bytes(map))),
    duplicates: async (start, count) => ({
      total: duplicates.length, groups: duplicates.slice(start, start + count).map((rows) => ({ rows, best: null })),
    }),
    edit: refuse, splitPreview: refuse, levels: refuse, review: refuse, refine: refuse, similar: refuse, search: refuse, export: refuse,
  };
}

// URL of an original. Undecodable bytes of its name are lone surrogates U+DC80 to U+DCFF (Python's surrogateescape).
function originalUrl(base, id) {
  let path = "";
  for (const character of id) {
    const code = character.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) path += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else path += character === "/" ? "/" : encodeURIComponent(character.isWellFormed?.() === false ? "\ufffd" : character);
  }
  return id.startsWith("/") ? `file://${path}` : `${base}/${path}`;
}
