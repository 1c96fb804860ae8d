// Groups of near-duplicates, with the best image of each proposed to keep.

import { el, button, number, arrowKeys } from "./dom.js";
import { tile } from "./tiles.js";

const GROUPS = 10; // added at a time
const TILES = 12; // shown of a group
const CHECKED = 50; // groups asked for at a time when all are cleaned up

export function duplicatesView(app) {
  if (!app.data.duplicate_groups) return null;
  const { editable } = app.source, { item } = app.data;
  const keep = new Map(); // first row of a group -> row to keep, if the person has chosen another one
  let groups = [], total = 0, loading = false;

  const list = el("ol", { id: "group-list", className: "rows" });
  const more = button("Show more", load, { id: "groups-more" }), shown = el("output", { id: "groups-count" });
  const all = button("Exclude the others in all groups", excludeAll, { id: "exclude-all", title: `Keep the best ${item} of each group` });
  const about = `Copies, edited versions, or shots of a burst, largest groups first. A group counts as one ${item} when the number of clusters is chosen.`;
  const proposal = app.data.has_images ? " The sharpest and largest one of each group is proposed to keep." : "";
  const element = el("section", { id: "view-duplicates", "aria-labelledby": "duplicates-title" },
    el("div", { className: "head" }, el("h2", { id: "duplicates-title", textContent: "Near-duplicates" }), el("div", { className: "tools" }, editable ? all : null)),
    el("p", { className: "about", textContent: about + (editable ? `${proposal} Excluded ${item}s belong to no cluster and are left out of exports; no file is deleted.` : "") }),
    list, el("p", { className: "pager" }, more, shown));
  arrowKeys(list, ".tile");

  async function load() {
    if (loading) return;
    loading = true;
    try {
      const answer = await app.source.duplicates(groups.length, GROUPS);
      total = answer.total;
      groups.push(...answer.groups);
      render();
    } catch (error) {
      app.say(error.message, { error: true });
    } finally {
      loading = false;
    }
  }

  const excluded = (row) => app.data.excluded !== null && app.data.labels[row] === app.data.excluded;
  const kept = ({ rows, best }) => keep.get(rows[0]) ?? best;
  const others = (group) => group.rows.filter((row) => row !== kept(group) && !excluded(row));

  function render() {
    list.replaceChildren(...groups.map(editable ? editableGroup : plainGroup));
    more.hidden = groups.length >= total;
    shown.textContent = `${number(groups.length)} of ${number(total)}`;
  }

  const clusterNames = (rows) => {
    const clusters = [...new Set(rows.filter((row) => !excluded(row)).map((row) => app.data.labels[row]))];
    return el("p", { className: "small" }, ...(clusters.length === 1 ? [app.name(clusters[0])] : [`in ${number(clusters.length)} clusters`]));
  };

  const entry = (rows, tiles, ...actions) => el("li", { className: "row group" },
    el("div", { className: "title" }, el("span", { className: "name", textContent: app.count(rows.length) }), clusterNames(rows), ...actions),
    el("div", { className: `strip${app.data.has_images ? "" : " text"}` }, ...tiles, rows.length > TILES ? el("p", { className: "small", textContent: `and ${number(rows.length - TILES)} more` }) : null));

  const plainGroup = ({ rows }) => entry(rows, rows.slice(0, TILES).map((row) => tile(app, row, rows)));

  function editableGroup(group) {
    const { rows } = group, first = rows[0], rest = others(group).length;
    const shownRows = [kept(group), ...rows.filter((row) => row !== kept(group))].slice(0, TILES);
    const tiles = shownRows.map((row) => {
      const i = rows.indexOf(row);
      const radio = el("input", { type: "radio", name: `keep-${first}`, checked: row === kept(group), disabled: excluded(row) });
      radio.addEventListener("change", () => {
        keep.set(first, row);
        render();
        list.querySelector(`input[name="keep-${first}"]:checked`)?.focus();
      });
      const size = group.width?.[i] ? `${group.width[i]} × ${group.height[i]}` : "";
      return el("div", { className: excluded(row) ? "copy excluded" : "copy" }, tile(app, row, rows),
        el("label", { className: "small" }, radio, excluded(row) ? "excluded" : row === kept(group) ? "keep" : "keep this"), el("p", { className: "small", textContent: size }));
    });
    const exclude = button(rest ? `Exclude the other ${rest === 1 ? "one" : number(rest)}` : "Done", () => excludeRows(others(group)), { disabled: !rest });
    return entry(rows, tiles, exclude);
  }

  const excludeRows = (rows) => app.edit("exclude", { rows }, `${app.count(rows.length)} excluded.`);

  // Confirmed images stay: a person has looked at them.
  async function excludeAll() {
    all.disabled = true;
    const rows = [], label = all.textContent;
    try {
      for (let start = 0, count = 1; start < count; start += CHECKED) {
        const answer = await app.source.duplicates(start, CHECKED);
        count = answer.total;
        rows.push(...answer.groups.flatMap(others).filter((row) => !app.data.locked[row]));
        all.textContent = `Comparing: ${number(Math.min(count, start + CHECKED))} of ${number(count)} groups`;
      }
      if (rows.length) await excludeRows(rows);
      else app.say("All groups are done.");
    } catch (error) {
      app.say(error.message, { error: true });
    } finally {
      all.textContent = label;
      all.disabled = false;
    }
  }

  return {
    element,
    show() {
      if (groups.length) render();
      else load();
    },
    update: render,
  };
}
