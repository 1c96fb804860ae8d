// Orders of images.

const CLOSE_CALL = 1000; // margin in 1/10000

const ORDERS = { // [values, whether the largest come first, whether confirmed and excluded ones come last: nothing is to be decided there]
  typicality: (data) => [data.typicality, true, false],
  margin: (data) => [data.margin, false, true],
  outlier: (data) => [data.outlier, true, true],
  date: (data) => [data.date, false, false],
};

export const sortChoices = (app) => ({
  typicality: "most typical", margin: "least certain", outlier: "outlier score",
  file: app.data.item === "image" ? "file" : "row", ...(app.data.date ? { date: "date" } : {}),
});

// The rows in this order. On a page with few thumbnails, rows with one come first.
export function sortRows(app, rows, order) {
  const { n, locked, labels, excluded } = app.data;
  let sorted = Array.from(rows);
  if (ORDERS[order]) {
    const [values, largestFirst, settledLast] = ORDERS[order](app.data);
    const highest = values.reduce((a, b) => Math.max(a, b), 0);
    const settled = (row) => settledLast && (locked[row] || labels[row] === excluded);
    // One number per row, value first, because a typed array is sorted ten times as fast as with a comparison.
    const key = (row) => ((settled(row) ? highest + 1 : 0) + (largestFirst ? highest - values[row] : values[row])) * n + row;
    sorted = Array.from(Float64Array.from(sorted, key).sort(), (value) => value % n);
  }
  if (app.source.editable || !app.data.has_images || order === "file") return sorted;
  const hasPicture = (row) => app.source.thumbnail(row) !== null;
  return [...sorted.filter(hasPicture), ...sorted.filter((row) => !hasPicture(row))];
}

// The rows after an edit: those that were shown before keep their order, the others follow.
export function keepOrder(before, rows) {
  const members = new Set(rows), shown = new Set(before);
  return [...before.filter((row) => members.has(row)), ...rows.filter((row) => !shown.has(row))];
}

// Rows whose second best cluster is almost as probable, and that nobody has confirmed or excluded.
export function uncertainRows(app, rows = [...app.data.labels.keys()]) {
  const { margin, locked, labels, excluded } = app.data;
  return rows.filter((row) => margin[row] < CLOSE_CALL && !locked[row] && labels[row] !== excluded);
}
