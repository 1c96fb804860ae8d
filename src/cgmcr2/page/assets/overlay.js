// What the map shows above its points: pictures, names of clusters, the active image and the lasso.

const MAX_PICTURES = 260, MAX_NAMES = 30;
const LARGEST = 72; // pixels of a picture
const CACHED = 1500; // pictures held in memory

// redraw: called when a picture has been decoded
export function overlay(app, canvas, redraw) {
  const context = canvas.getContext("2d", { willReadFrequently: true }); // without the GPU: many small pictures are faster
  const images = new Map(); // row -> square ImageBitmap; null until it is decoded, and if that fails
  let pictures = []; // {row, x, y, half} of the pictures on the screen

  function load(row) {
    const image = new Image();
    images.set(row, null);
    if (images.size > CACHED) images.delete(images.keys().next().value);
    image.src = app.source.thumbnail(row);
    image.decode().then(async () => {
      const { naturalWidth: width, naturalHeight: height } = image, side = Math.min(width, height), size = Math.ceil(LARGEST * devicePixelRatio);
      images.set(row, await createImageBitmap(image, (width - side) / 2, (height - side) / 2, side, side, { resizeWidth: size, resizeHeight: size, resizeQuality: "medium" }));
      redraw();
    }).catch(() => {}); // a thumbnail that cannot be decoded stays a coloured square
  }

  // As many pictures as fit without overlap, in the order of `rows`.
  function drawPictures(frame, rows) {
    const size = Math.min(LARGEST, (frame.width < 600 ? 30 : 38) * frame.zoom ** 0.3), gap = size + 3;
    const occupied = new Map(); // cell of `gap` pixels -> centre of its picture
    for (const row of rows) {
      if (pictures.length >= MAX_PICTURES) break;
      const x = frame.x(row), y = frame.y(row);
      if (x < size / 2 || y < size / 2 || x > frame.width - size / 2 || y > frame.height - size / 2) continue;
      const column = Math.floor(x / gap), line = Math.floor(y / gap);
      let free = true;
      for (let c = column - 1; free && c <= column + 1; c++) {
        for (let l = line - 1; free && l <= line + 1; l++) {
          const other = occupied.get(c * 65536 + l);
          free = !other || Math.abs(other[0] - x) > gap || Math.abs(other[1] - y) > gap;
        }
      }
      if (!free) continue;
      occupied.set(column * 65536 + line, [x, y]);
      pictures.push({ row, x, y, half: size / 2 });
      drawPicture(frame, row, x - size / 2, y - size / 2, size);
    }
  }

  function drawPicture(frame, row, x, y, size) {
    if (!images.has(row) && !frame.moving) load(row);
    const image = images.get(row), border = app.selection.has(row) ? 4 : 2;
    context.beginPath();
    context.roundRect(x, y, size, size, 5);
    context.fillStyle = app.selection.has(row) ? frame.style.color : app.color(app.data.labels[row]);
    context.fill();
    if (image) context.drawImage(image, x + border, y + border, size - 2 * border, size - 2 * border);
  }

  // names: [{name, x, y}], the most important first
  function drawNames(frame, names) {
    context.font = `600 13px ${frame.style.fontFamily}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const boxes = [];
    for (const { name, x, y } of names) {
      if (boxes.length >= MAX_NAMES) break;
      const text = name.length > 28 ? `${name.slice(0, 27)}…` : name;
      const half = context.measureText(text).width / 2 + 8;
      const outside = x < -20 || y < -20 || x > frame.width + 20 || y > frame.height + 20;
      if (outside || boxes.some((box) => Math.abs(box.x - x) < box.half + half && Math.abs(box.y - y) < 22)) continue;
      boxes.push({ x, y, half });
      context.globalAlpha = 0.9;
      context.fillStyle = frame.style.backgroundColor;
      context.beginPath();
      context.roundRect(x - half, y - 11, 2 * half, 22, 11);
      context.fill();
      context.globalAlpha = 1;
      context.fillStyle = frame.style.color;
      context.fillText(text, x, y + 0.5);
    }
  }

  function drawPath(frame, path) {
    context.beginPath();
    for (let i = 0; i < path.length; i += 2) context.lineTo(path[i], path[i + 1]);
    context.closePath();
    context.globalAlpha = 0.12;
    context.fillStyle = frame.style.color;
    context.fill("evenodd");
    context.globalAlpha = 1;
    context.setLineDash([5, 4]);
    context.lineWidth = 1.5;
    context.strokeStyle = frame.style.color;
    context.stroke();
    context.setLineDash([]);
  }

  return {
    // frame: {width, height, ratio, zoom, x(row), y(row), style, moving}; active: a row or -1; path: of the lasso, in pixels
    draw(frame, { rows, names, active, path }) {
      context.setTransform(frame.ratio, 0, 0, frame.ratio, 0, 0);
      context.clearRect(0, 0, frame.width, frame.height);
      pictures = [];
      drawPictures(frame, rows);
      drawNames(frame, names);
      if (active >= 0) {
        const half = pictures.find(({ row }) => row === active)?.half ?? 8;
        context.lineWidth = 2.5;
        context.strokeStyle = frame.style.color;
        context.beginPath();
        context.roundRect(frame.x(active) - half - 2, frame.y(active) - half - 2, 2 * half + 4, 2 * half + 4, 7);
        context.stroke();
      }
      if (path.length) drawPath(frame, path);
    },

    // The row of the picture at a position, or -1.
    pictureAt: (x, y) => pictures.find((picture) => Math.abs(picture.x - x) <= picture.half && Math.abs(picture.y - y) <= picture.half)?.row ?? -1,
    count: () => pictures.length,
  };
}
