// The data of the explorer, from its server. URLs are relative to the page, so they contain the token of its address.

import { rowArrays } from "./rows.js";

// The server does not answer; an edit that was being sent may or may not have been saved.
export class LostServer extends Error {}

// The state on the server is not the one that the page shows.
export class Outdated extends Error {}

const IDS_PER_REQUEST = 20_000;

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-cache", ...options });
  } catch {
    throw new LostServer("The server does not answer.");
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  if (response.status === 409) throw new Outdated(error);
  const unknown = "The server was started again at another address. Open the one that cgmcr2 explore prints.";
  throw new Error(error ?? (response.status === 404 ? unknown : `The server answered with the status ${response.status}; see its terminal.`));
}

const json = async (path, options) => (await request(path, options)).json();
const post = (path, body) =>
  json(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export function httpSource() {
  const ids = new Map();
  let current = null; // the last state that was loaded, with its rows
  let date = null; // of the file of each row, in seconds; edits do not change it

  async function withRows(state, unchanged = false) {
    let rows = unchanged ? current : null;
    for (let attempt = 0; !rows && attempt < 5; attempt++) { // another tab may edit between the two requests
      const response = await request("rows");
      if (response.headers.get("X-State") === state.state) rows = rowArrays(await response.arrayBuffer(), state.n);
      else state = await json("state");
    }
    if (!rows) throw new Outdated("The clusters are being edited in another tab.");
    const { labels, runnerUp, confidence, margin, outlier, typicality, locked } = rows;
    if (state.has_dates) date ??= new Uint32Array(await (await request("dates")).arrayBuffer());
    current = { total: state.n, ...state, date, labels, runnerUp, confidence, margin, outlier, typicality, locked };
    return current;
  }

  return {
    editable: true,
    base: null,
    load: async () => withRows(await json("state")),
    ping: async () => { await request("assets/page.css", { method: "HEAD" }); },
    id: (row) => ids.get(row) ?? "",
    async ids(rows) {
      const wanted = Array.from(rows), missing = wanted.filter((row) => !ids.has(row));
      for (let i = 0; i < missing.length; i += IDS_PER_REQUEST) {
        const block = missing.slice(i, i + IDS_PER_REQUEST);
        (await post("ids", { rows: block })).forEach((id, j) => ids.set(block[j], id));
      }
      return wanted.map((row) => ids.get(row));
    },
    thumbnail: (row) => (current.has_images ? `thumbnails/${row}` : null),
    image: (row) => (current.has_images ? `images/${row}` : null),
    original: (row) => (current.has_images ? `images/${row}` : null),
    async map() {
      for (;;) { // computed in the background
        const response = await request("map");
        if (response.status === 204) return null;
        if (response.status === 200) return new Uint16Array(await response.arrayBuffer());
        await new Promise((done) => setTimeout(done, 700));
      }
    },
    edit: async (verb, args) => withRows(await post("edit", { verb, arguments: args, state: current.state }), verb === "rename"),
    splitPreview: (cluster, parts) => post("split-preview", { cluster, parts }),
    levels: (clusters) => post("levels", { clusters }),
    review: (count) => json(`review?count=${count}`),
    refine: () => post("refine", {}),
    acceptRefine: async (rows) => withRows(await post("refine/accept", { state: current.state, rows })),
    discardRefine: () => post("refine/discard", {}),
    similar(query, count = 200) {
      if (!(query instanceof Blob)) return post("similar", { row: query, count });
      const body = new FormData();
      body.append("image", query);
      body.append("count", String(count));
      return json("similar", { method: "POST", body });
    },
    search: (text, count = 200) => post("search", { text, count }),
    duplicates: (start, count) => json(`duplicates?start=${start}&count=${count}`),
    export: (options) => post("export", options),
  };
}
