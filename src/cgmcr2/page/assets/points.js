// Index of up to millions of points on the map, for drawing samples, picking and the lasso.
// A row is the number of a point as the caller knows it. A rank is its number in a fixed shuffled order, in which the
// first m points are a fair sample of all.

const UNITS = 65536; // coordinates are uint16

// Uniform grid over points. positions: x, y of each row.
export function pointIndex(positions) {
  const n = positions.length / 2;
  const side = Math.max(1, Math.min(512, Math.floor(Math.sqrt(n / 8))));
  const column = (x) => Math.max(0, Math.min(side - 1, Math.floor(x * side / UNITS)));

  const rows = shuffledRows(n);
  const xy = new Uint16Array(2 * n); // by rank
  const starts = new Uint32Array(side * side + 1), ranks = new Uint32Array(n); // cell -> its ranks, ascending
  const cellOf = (rank) => column(xy[2 * rank + 1]) * side + column(xy[2 * rank]);
  for (let rank = 0; rank < n; rank++) {
    xy[2 * rank] = positions[2 * rows[rank]];
    xy[2 * rank + 1] = positions[2 * rows[rank] + 1];
    starts[cellOf(rank) + 1]++;
  }
  for (let cell = 0; cell < side * side; cell++) starts[cell + 1] += starts[cell];
  const next = starts.slice();
  for (let rank = 0; rank < n; rank++) ranks[next[cellOf(rank)]++] = rank;

  // The range of `ranks` that each line of cells in a box takes; box: [left, top, right, bottom].
  function* lines([left, top, right, bottom]) {
    const first = column(left), last = column(right);
    for (let line = column(top); line <= column(bottom); line++) yield [starts[line * side + first], starts[line * side + last + 1]];
  }

  function count(box) {
    let points = 0;
    for (const [begin, end] of lines(box)) points += end - begin;
    return points;
  }

  // Ranks from `first` to `last` - 1 of the points in the cells of a box.
  function sample(box, first, last) {
    const chosen = new Uint32Array(count(box));
    let length = 0;
    for (const [begin, end] of lines(box)) {
      for (let i = begin; i < end; i++) if (ranks[i] >= first && ranks[i] < last) chosen[length++] = ranks[i];
    }
    return chosen.subarray(0, length);
  }

  // The row closest to (x, y) in the ellipse with these radii, -1 if there is none.
  function nearest(x, y, radiusX, radiusY, accept = () => true) {
    let best = -1, least = 1;
    for (const [begin, end] of lines([x - radiusX, y - radiusY, x + radiusX, y + radiusY])) {
      for (let i = begin; i < end; i++) {
        const rank = ranks[i];
        const distance = ((xy[2 * rank] - x) / radiusX) ** 2 + ((xy[2 * rank + 1] - y) / radiusY) ** 2;
        if (distance < least && accept(rows[rank])) [best, least] = [rows[rank], distance];
      }
    }
    return best;
  }

  // Rows of the points in a polygon [x, y, x, y, ...]. Only points in cells on its outline are tested one by one.
  function inside(polygon) {
    const outline = outlineCells(polygon), found = [];
    const xs = polygon.filter((_, i) => i % 2 === 0), ys = polygon.filter((_, i) => i % 2 === 1);
    const extent = (values) => [column(Math.min(...values)), column(Math.max(...values))];
    const [left, right] = extent(xs), [top, bottom] = extent(ys);
    for (let line = top; line <= bottom; line++) {
      for (let cell = line * side + left; cell <= line * side + right; cell++) {
        const mixed = outline.has(cell);
        const center = [(cell % side + 0.5) * UNITS / side, (line + 0.5) * UNITS / side];
        if (starts[cell] === starts[cell + 1] || (!mixed && !contains(polygon, ...center))) continue;
        for (let i = starts[cell]; i < starts[cell + 1]; i++) {
          if (!mixed || contains(polygon, xy[2 * ranks[i]], xy[2 * ranks[i] + 1])) found.push(rows[ranks[i]]);
        }
      }
    }
    return found;
  }

  function outlineCells(polygon) {
    const cells = new Set(), step = UNITS / side / 2;
    for (let i = 0, j = polygon.length - 2; i < polygon.length; j = i, i += 2) {
      const dx = polygon[i] - polygon[j], dy = polygon[i + 1] - polygon[j + 1];
      const steps = Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)) / step) || 1;
      for (let s = 0; s < steps; s++) {
        const from = s / steps, to = (s + 1) / steps;
        const columns = [from, to].map((t) => column(polygon[j] + t * dx)), rowsOfCells = [from, to].map((t) => column(polygon[j + 1] + t * dy));
        for (const c of columns) for (const r of rowsOfCells) cells.add(r * side + c);
      }
    }
    return cells;
  }

  return { n, rows, xy, count, sample, nearest, inside };
}

// 0 to n - 1 in steps of about 0.618 n, which spreads every prefix evenly, also if the rows are sorted by class.
function shuffledRows(n) {
  const divisor = (a, b) => (b ? divisor(b, a % b) : a);
  let stride = Math.max(1, Math.round(0.618 * n));
  while (divisor(stride, n) !== 1 && n > 1) stride++;
  return Uint32Array.from({ length: n }, (_, rank) => (rank * stride) % n);
}

function contains(polygon, x, y) {
  let odd = false;
  for (let i = 0, j = polygon.length - 2; i < polygon.length; j = i, i += 2) {
    const yi = polygon[i + 1], yj = polygon[j + 1];
    if (yi > y !== yj > y && x < polygon[i] + (y - yi) * (polygon[j] - polygon[i]) / (yj - yi)) odd = !odd;
  }
  return odd;
}
