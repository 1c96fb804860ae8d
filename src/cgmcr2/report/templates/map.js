
// ---- map: one point per index on a canvas, thumbnails where they fit ---------------------------------------------

if (data.map) {
  const canvas = $("canvas"), box = $("canvas-box"), tip = $("tip");
  const context = canvas.getContext("2d");
  const positions = unpack(data.map); // x, y per index, 0 to 65535
  const n = labels.length;
  const initialView = { zoom: 1, x: 0.5, y: 0.5 };
  const camera = { ...initialView };
  const state = { showThumbnails: hasImages, selected: -1, drawn: [], width: 0, height: 0, mask: null };
  const images = new Map(); // index -> decoded Image; null until it is decoded, and if that fails
  let radius = 4, sprites = new Map(), scheduled = false;

  // Thumbnails in order of priority: clusters take turns with their most typical images.
  const priority = [];
  for (let i = 0, more = true; more; i++) {
    more = false;
    for (const c of clusters) if (i < data.typical[c].length) more = priority.push(data.typical[c][i]) > 0;
  }
  const withThumbnail = [...new Set([...priority, ...Object.keys(thumbnails).map(Number)])].filter((index) => thumbnails[index]);
  const typical = clusters.map((c) => data.typical[c].slice(0, 15));
  const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  const anchors = new Map(clusters.map((c, i) => [c, [0, 1].map((axis) => median(typical[i].map((p) => positions[2 * p + axis])) / 65535)]));

  // The axes have no meaning, so the map may be stretched horizontally by up to 1.8 to fill its box.
  // A window that is being opened or resized can be narrower than the margins; the spans must stay positive.
  const plotWidth = () => Math.max(1, state.width - 72);
  const plotHeight = () => Math.max(1, state.height - 72);
  const spanY = () => plotHeight() * camera.zoom;
  const spanX = () => Math.min(plotWidth(), 1.8 * plotHeight()) * camera.zoom;
  const toX = (u) => state.width / 2 + (u - camera.x) * spanX();
  const toY = (v) => state.height / 2 + (v - camera.y) * spanY();
  const px = (index) => toX(positions[2 * index] / 65535);
  const py = (index) => toY(positions[2 * index + 1] / 65535);
  const inside = (x, y) => x > -20 && y > -20 && x < state.width + 20 && y < state.height + 20;
  const isHighlighted = (index) => (highlight.cluster === null || labels[index] === highlight.cluster) && (state.mask === null || state.mask[index] === 1);
  const hasHighlight = () => highlight.cluster !== null || state.mask !== null;

  function sprite(cluster, ratio) {
    if (!sprites.has(cluster)) {
      const size = Math.ceil(2 * radius * ratio * Math.min(2, camera.zoom ** 0.35)) + 2;
      const image = document.createElement("canvas");
      image.width = image.height = size;
      const drawing = image.getContext("2d");
      drawing.scale(size / 12, size / 12);
      drawing.fillStyle = color(cluster);
      drawing.fill(new Path2D(shape(cluster)));
      sprites.set(cluster, image);
    }
    return sprites.get(cluster);
  }

  function draw() {
    scheduled = false;
    if (!canvas.width || !canvas.height) return; // hidden; the resize observer draws it once it is visible
    const ratio = devicePixelRatio || 1;
    const style = getComputedStyle(box);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, state.width, state.height);
    const dimmed = hasHighlight();
    for (const front of dimmed ? [false, true] : [true]) {
      context.globalAlpha = front ? (n > 5000 ? 0.75 : 0.9) : 0.13;
      for (let index = 0; index < n; index++) {
        if (dimmed && isHighlighted(index) !== front) continue;
        const x = px(index), y = py(index);
        if (!inside(x, y)) continue;
        const image = sprite(labels[index], ratio);
        context.drawImage(image, x - image.width / ratio / 2, y - image.height / ratio / 2, image.width / ratio, image.height / ratio);
      }
    }
    context.globalAlpha = 1;
    state.drawn = [];
    if (state.showThumbnails) drawThumbnails();
    drawNames(style);
    if (state.selected >= 0) {
      context.lineWidth = 2.5;
      context.strokeStyle = style.color;
      context.beginPath();
      context.arc(px(state.selected), py(state.selected), radius + 5, 0, 7);
      context.stroke();
    }
  }

  function drawThumbnails() {
    const size = Math.min(72, (state.width < 600 ? 30 : 38) * camera.zoom ** 0.3), gap = size + 3;
    const occupied = new Map(); // grid cell -> centre of its thumbnail
    for (const index of withThumbnail) {
      if (state.drawn.length >= 260) break;
      if (!isHighlighted(index)) continue;
      const x = px(index), y = py(index);
      if (x < size / 2 || y < size / 2 || x > state.width - size / 2 || y > state.height - size / 2) continue;
      const column = Math.floor(x / gap), row = Math.floor(y / gap);
      let free = true;
      for (let c = column - 1; free && c <= column + 1; c++) {
        for (let r = row - 1; free && r <= row + 1; r++) {
          const other = occupied.get(`${c} ${r}`);
          free = !other || Math.abs(other[0] - x) > gap || Math.abs(other[1] - y) > gap;
        }
      }
      if (!free) continue;
      occupied.set(`${column} ${row}`, [x, y]);
      state.drawn.push({ index, x, y, half: size / 2 });
      drawThumbnail(index, x - size / 2, y - size / 2, size);
    }
  }

  function load(index) {
    images.set(index, null);
    const image = new Image();
    image.src = thumbnailUrl(index);
    image.decode().then(() => {
      images.set(index, image);
      schedule();
    }, () => {}); // a thumbnail that cannot be decoded stays a coloured square
  }

  function drawThumbnail(index, x, y, size) {
    if (!images.has(index)) load(index);
    const image = images.get(index);
    context.save();
    context.beginPath();
    context.roundRect(x, y, size, size, 5);
    context.fillStyle = color(labels[index]);
    context.fill();
    context.beginPath();
    context.roundRect(x + 2, y + 2, size - 4, size - 4, 3.5);
    context.clip();
    if (image) {
      const side = Math.min(image.naturalWidth, image.naturalHeight);
      context.drawImage(image, (image.naturalWidth - side) / 2, (image.naturalHeight - side) / 2, side, side, x + 2, y + 2, size - 4, size - 4);
    }
    context.restore();
  }

  function drawNames(style) {
    context.font = `600 13px ${style.fontFamily}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    const boxes = [];
    for (const cluster of [...clusters].sort((a, b) => data.sizes[b] - data.sizes[a])) {
      if (highlight.cluster !== null ? highlight.cluster !== cluster : boxes.length >= 30) continue;
      const [u, v] = anchors.get(cluster), x = toX(u), y = toY(v);
      const name = data.names[cluster].length > 28 ? `${data.names[cluster].slice(0, 27)}…` : data.names[cluster];
      const half = context.measureText(name).width / 2 + 8;
      if (!inside(x, y) || boxes.some((box) => Math.abs(box.x - x) < box.half + half && Math.abs(box.y - y) < 22)) continue;
      boxes.push({ x, y, half });
      context.globalAlpha = 0.9;
      context.fillStyle = style.backgroundColor;
      context.beginPath();
      context.roundRect(x - half, y - 11, 2 * half, 22, 11);
      context.fill();
      context.globalAlpha = 1;
      context.fillStyle = style.color;
      context.fillText(name, x, y + 0.5);
    }
  }

  function schedule() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  }

  // The index under the pointer: of a thumbnail, else of the nearest point; points with thumbnails are preferred.
  function hitTest(x, y) {
    for (const { index, x: cx, y: cy, half } of state.drawn) if (Math.abs(cx - x) <= half && Math.abs(cy - y) <= half) return index;
    let best = -1, least = 16 ** 2;
    for (let index = 0; index < n; index++) {
      if (!isHighlighted(index)) continue;
      const distance = ((px(index) - x) ** 2 + (py(index) - y) ** 2) * (hasImages && !thumbnails[index] ? 9 : 1);
      if (distance < least) [best, least] = [index, distance];
    }
    return best;
  }

  function select(index) {
    if (index !== state.selected) schedule();
    state.selected = index;
    tip.hidden = index < 0;
    if (index < 0) return;
    tip.replaceChildren(
      ...(thumbnails[index] ? [el("img", { src: thumbnailUrl(index), alt: "" })] : []),
      el("p", {}, mark(labels[index]), el("bdi", { textContent: data.names[labels[index]] }), " ", ...caption(index),
        el("bdi", { className: "file", textContent: data.ids[index] })));
    const x = px(index), y = py(index), width = tip.offsetWidth, height = tip.offsetHeight || 210;
    const left = x + 18 + width < state.width ? x + 18 : x - 18 - width;
    const top = Math.min(Math.max(8, y - height / 2), state.height - height - 8);
    tip.style.transform = `translate(${Math.min(Math.max(8, left), state.width - width - 8)}px, ${top}px)`;
  }

  function zoomBy(factor, x = state.width / 2, y = state.height / 2) {
    const u = camera.x + (x - state.width / 2) / spanX(), v = camera.y + (y - state.height / 2) / spanY();
    camera.zoom = Math.min(60, Math.max(1, camera.zoom * factor));
    camera.x = u - (x - state.width / 2) / spanX();
    camera.y = v - (y - state.height / 2) / spanY();
    moved();
  }

  function moved() {
    if (camera.zoom === 1) Object.assign(camera, initialView);
    camera.x = Math.min(1, Math.max(0, camera.x));
    camera.y = Math.min(1, Math.max(0, camera.y));
    canvas.style.touchAction = camera.zoom > 1 ? "none" : "pan-y"; // one finger scrolls the page until the map is zoomed
    sprites = new Map();
    select(-1);
    schedule();
  }

  const pointers = new Map();
  let dragged = false, previouslySelected = -1;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    previouslySelected = state.selected;
    dragged = pointers.size > 1;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      select(hitTest(event.offsetX, event.offsetY));
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers.values()].find((pointer) => pointer.pointerId !== event.pointerId);
      const distance = (pointer) => Math.hypot(pointer.offsetX - other.offsetX, pointer.offsetY - other.offsetY) || 1;
      zoomBy(distance(event) / distance(before), other.offsetX, other.offsetY);
    } else if (dragged || Math.hypot(event.offsetX - before.offsetX, event.offsetY - before.offsetY) > 4) {
      if (!dragged) canvas.setPointerCapture(event.pointerId);
      dragged = true;
      camera.x -= (event.offsetX - before.offsetX) / spanX();
      camera.y -= (event.offsetY - before.offsetY) / spanY();
      moved();
    } else return;
    pointers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => {
      if (!pointers.delete(event.pointerId) || dragged || end === "pointercancel") return;
      const index = hitTest(event.offsetX, event.offsetY);
      select(index);
      // without hover, the first tap shows the preview and the second opens it
      if (index >= 0 && (event.pointerType !== "touch" || index === previouslySelected)) view([index], 0);
    });
  }
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") select(-1); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // without a modifier key, the wheel scrolls the page
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (direction) step(...direction);
    else if (event.key === "Enter" && state.selected >= 0) view([state.selected], 0);
    else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") zoomBy(0);
    else return;
    event.preventDefault();
  });

  function step(dx, dy) {
    const origin = state.selected;
    const [x, y] = origin < 0 ? [state.width / 2, state.height / 2] : [px(origin), py(origin)];
    let best = -1, least = Infinity;
    for (let index = 0; index < n; index++) {
      if (index === origin || !isHighlighted(index) || (hasImages && !thumbnails[index])) continue;
      const ox = px(index) - x, oy = py(index) - y;
      const along = ox * dx + oy * dy, across = Math.abs(ox * dy) + Math.abs(oy * dx);
      const cost = origin < 0 ? Math.hypot(ox, oy) : along > 2 ? along + 2.5 * across : Infinity;
      if (cost < least) [best, least] = [index, cost];
    }
    if (best >= 0) select(best);
  }

  $("zoom-in").addEventListener("click", () => zoomBy(1.6));
  $("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
  $("zoom-reset").addEventListener("click", () => zoomBy(0));
  for (const [id, on] of [["show-images", true], ["show-points", false]]) {
    $(id)?.addEventListener("click", () => {
      state.showThumbnails = on;
      $("show-images").setAttribute("aria-pressed", String(on));
      $("show-points").setAttribute("aria-pressed", String(!on));
      schedule();
    });
  }
  $("legend").append(...clusters.map((cluster) => {
    const chip = el("button", { type: "button", "aria-pressed": "false", "data-cluster": cluster }, mark(cluster), el("bdi", { textContent: data.names[cluster] }));
    chip.addEventListener("click", () => setHighlight({ cluster: highlight.cluster === cluster ? null : cluster }));
    return chip;
  }));
  document.addEventListener("highlight", () => {
    state.mask = highlight.indices && new Uint8Array(n);
    for (const index of highlight.indices ?? []) state.mask[index] = 1;
    for (const chip of $("legend").children) chip.setAttribute("aria-pressed", String(Number(chip.dataset.cluster) === highlight.cluster));
    select(-1);
    schedule();
  });
  document.addEventListener("theme", schedule);
  new ResizeObserver(() => {
    [state.width, state.height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = state.width * (devicePixelRatio || 1);
    canvas.height = state.height * (devicePixelRatio || 1);
    radius = Math.min(4.5, Math.max(1.3, 0.24 * Math.sqrt(spanX() * spanY() / n) / camera.zoom)); // smaller when there are many
    sprites = new Map();
    schedule();
  }).observe(canvas);
}

followHash();
