
// ---- the map: every image a point on a canvas, as many as fit shown as pictures -----------------------------------

if (data.map) {
  const canvas = $("canvas"), box = $("canvas-box"), tip = $("tip");
  const context = canvas.getContext("2d");
  const positions = unpack(data.map); // x, y of each place, 0 ... 65535
  const n = labels.length;
  const view0 = { zoom: 1, x: 0.5, y: 0.5 };
  const camera = { ...view0 };
  const state = { pictures: hasImages, picked: -1, drawn: [], width: 0, height: 0, mask: null };
  const images = new Map(); // place -> Image, loaded when first drawn
  let radius = 4, sprites = new Map(), waiting = false;

  // Pictures in turn, a typical one of each cluster first: where there is no room for all, the best are seen.
  const turns = [];
  for (let i = 0, more = true; more; i++) {
    more = false;
    for (const c of clusters) if (i < data.typical[c].length) more = turns.push(data.typical[c][i]) > 0;
  }
  const pictured = [...new Set([...turns, ...Object.keys(thumbnails).map(Number)])].filter((place) => thumbnails[place]);
  const typical = clusters.map((c) => data.typical[c].slice(0, 15));
  const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  const anchors = new Map(clusters.map((c, i) => [c, [0, 1].map((axis) => middle(typical[i].map((p) => positions[2 * p + axis])) / 65535)]));

  // The axes mean nothing in themselves, so the map fills its box, up to a stretch of 1.8.
  const spanY = () => (state.height - 72) * camera.zoom;
  const spanX = () => Math.min(state.width - 72, 1.8 * (state.height - 72)) * camera.zoom;
  const toX = (u) => state.width / 2 + (u - camera.x) * spanX();
  const toY = (v) => state.height / 2 + (v - camera.y) * spanY();
  const px = (place) => toX(positions[2 * place] / 65535);
  const py = (place) => toY(positions[2 * place + 1] / 65535);
  const inside = (x, y) => x > -20 && y > -20 && x < state.width + 20 && y < state.height + 20;
  const standsOut = (place) => (emphasis.cluster === null || labels[place] === emphasis.cluster) && (!state.mask || state.mask[place]);
  const anyEmphasis = () => emphasis.cluster !== null || state.mask !== null;

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
    waiting = false;
    const ratio = devicePixelRatio || 1;
    const style = getComputedStyle(box);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, state.width, state.height);
    const dimmed = anyEmphasis();
    for (const front of dimmed ? [false, true] : [true]) {
      context.globalAlpha = front ? (n > 5000 ? 0.75 : 0.9) : 0.13;
      for (let place = 0; place < n; place++) {
        if (dimmed && standsOut(place) !== front) continue;
        const x = px(place), y = py(place);
        if (!inside(x, y)) continue;
        const image = sprite(labels[place], ratio);
        context.drawImage(image, x - image.width / ratio / 2, y - image.height / ratio / 2, image.width / ratio, image.height / ratio);
      }
    }
    context.globalAlpha = 1;
    state.drawn = [];
    if (state.pictures) drawPictures();
    drawNames(style);
    if (state.picked >= 0) {
      context.lineWidth = 2.5;
      context.strokeStyle = style.color;
      context.beginPath();
      context.arc(px(state.picked), py(state.picked), radius + 5, 0, 7);
      context.stroke();
    }
  }

  function drawPictures() {
    const size = Math.min(72, (state.width < 600 ? 30 : 38) * camera.zoom ** 0.3), gap = size + 3;
    const taken = new Map();
    for (const place of pictured) {
      if (state.drawn.length >= 260) break;
      if (!standsOut(place)) continue;
      const x = px(place), y = py(place);
      if (x < size / 2 || y < size / 2 || x > state.width - size / 2 || y > state.height - size / 2) continue;
      const column = Math.floor(x / gap), line = Math.floor(y / gap);
      let free = true;
      for (let c = column - 1; free && c <= column + 1; c++) {
        for (let l = line - 1; free && l <= line + 1; l++) {
          const other = taken.get(`${c} ${l}`);
          free = !other || Math.abs(other[0] - x) > gap || Math.abs(other[1] - y) > gap;
        }
      }
      if (!free) continue;
      taken.set(`${column} ${line}`, [x, y]);
      state.drawn.push({ place, x, y, half: size / 2 });
      drawPicture(place, x - size / 2, y - size / 2, size);
    }
  }

  function drawPicture(place, x, y, size) {
    if (!images.has(place)) {
      const image = new Image();
      image.onload = schedule;
      image.src = source(place);
      images.set(place, image);
    }
    const image = images.get(place);
    context.save();
    context.beginPath();
    context.roundRect(x, y, size, size, 5);
    context.fillStyle = color(labels[place]);
    context.fill();
    context.beginPath();
    context.roundRect(x + 2, y + 2, size - 4, size - 4, 3.5);
    context.clip();
    if (image.complete && image.naturalWidth) {
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
    const placed = [];
    for (const cluster of [...clusters].sort((a, b) => data.sizes[b] - data.sizes[a])) {
      if (emphasis.cluster !== null ? emphasis.cluster !== cluster : placed.length >= 30) continue;
      const [u, v] = anchors.get(cluster), x = toX(u), y = toY(v);
      const name = data.names[cluster].length > 28 ? `${data.names[cluster].slice(0, 27)}…` : data.names[cluster];
      const half = context.measureText(name).width / 2 + 8;
      if (!inside(x, y) || placed.some((p) => Math.abs(p.x - x) < p.half + half && Math.abs(p.y - y) < 22)) continue;
      placed.push({ x, y, half });
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
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  }

  // What lies under the pointer: a picture if one is there, else the nearest point, preferring one that has a picture.
  function pick(x, y) {
    for (const { place, x: cx, y: cy, half } of state.drawn) if (Math.abs(cx - x) <= half && Math.abs(cy - y) <= half) return place;
    let best = -1, least = 16 ** 2;
    for (let place = 0; place < n; place++) {
      if (!standsOut(place)) continue;
      const distance = ((px(place) - x) ** 2 + (py(place) - y) ** 2) * (hasImages && !thumbnails[place] ? 9 : 1);
      if (distance < least) [best, least] = [place, distance];
    }
    return best;
  }

  function choose(place) {
    if (place !== state.picked) schedule();
    state.picked = place;
    tip.hidden = place < 0;
    if (place < 0) return;
    tip.replaceChildren(
      ...(thumbnails[place] ? [el("img", { src: source(place), alt: "" })] : []),
      el("p", {}, mark(labels[place]), el("bdi", { textContent: data.names[labels[place]] }), ` ${caption(place)}`,
        el("bdi", { className: "file", textContent: data.ids[place] })));
    const x = px(place), y = py(place), width = tip.offsetWidth, height = tip.offsetHeight || 210;
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
    if (camera.zoom === 1) Object.assign(camera, view0);
    camera.x = Math.min(1, Math.max(0, camera.x));
    camera.y = Math.min(1, Math.max(0, camera.y));
    canvas.style.touchAction = camera.zoom > 1 ? "none" : "pan-y"; // one finger scrolls the page until one has zoomed
    sprites = new Map();
    choose(-1);
    schedule();
  }

  const pointers = new Map();
  let dragged = false, wasPicked = -1;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    wasPicked = state.picked;
    dragged = pointers.size > 1;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      choose(pick(event.offsetX, event.offsetY));
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
      const place = pick(event.offsetX, event.offsetY);
      choose(place);
      // a finger cannot hover: its first tap shows, its second opens
      if (place >= 0 && (event.pointerType !== "touch" || place === wasPicked)) view([place], 0);
    });
  }
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") choose(-1); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (direction) step(...direction);
    else if (event.key === "Enter" && state.picked >= 0) view([state.picked], 0);
    else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") zoomBy(0);
    else return;
    event.preventDefault();
  });

  function step(dx, dy) {
    const from = state.picked;
    const [x, y] = from < 0 ? [state.width / 2, state.height / 2] : [px(from), py(from)];
    let best = -1, least = Infinity;
    for (let place = 0; place < n; place++) {
      if (place === from || !standsOut(place) || (hasImages && !thumbnails[place])) continue;
      const ox = px(place) - x, oy = py(place) - y;
      const along = ox * dx + oy * dy, across = Math.abs(ox * dy) + Math.abs(oy * dx);
      const cost = from < 0 ? Math.hypot(ox, oy) : along > 2 ? along + 2.5 * across : Infinity;
      if (cost < least) [best, least] = [place, cost];
    }
    if (best >= 0) choose(best);
  }

  $("zoom-in").addEventListener("click", () => zoomBy(1.6));
  $("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
  $("zoom-reset").addEventListener("click", () => zoomBy(0));
  for (const [id, on] of [["show-images", true], ["show-points", false]]) {
    $(id)?.addEventListener("click", () => {
      state.pictures = on;
      $("show-images").setAttribute("aria-pressed", String(on));
      $("show-points").setAttribute("aria-pressed", String(!on));
      schedule();
    });
  }
  $("legend").append(...clusters.map((cluster) => {
    const chip = el("button", { type: "button", "aria-pressed": "false", "data-cluster": cluster }, mark(cluster), el("bdi", { textContent: data.names[cluster] }));
    chip.addEventListener("click", () => emphasize({ cluster: emphasis.cluster === cluster ? null : cluster }));
    return chip;
  }));
  document.addEventListener("emphasis", () => {
    state.mask = emphasis.places && new Uint8Array(n);
    for (const place of emphasis.places ?? []) state.mask[place] = 1;
    for (const chip of $("legend").children) chip.setAttribute("aria-pressed", String(Number(chip.dataset.cluster) === emphasis.cluster));
    choose(-1);
    schedule();
  });
  document.addEventListener("theme", schedule);
  new ResizeObserver(() => {
    [state.width, state.height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = state.width * (devicePixelRatio || 1);
    canvas.height = state.height * (devicePixelRatio || 1);
    radius = Math.min(4.5, Math.max(1.3, 0.24 * Math.sqrt(spanX() * spanY() / n) / camera.zoom)); // as many as fit
    sprites = new Map();
    schedule();
  }).observe(canvas);
}

followHash();
