// The visible part of the map. u, v in 0..1 are positions on the map, x, y are pixels of its canvas.

const MARGIN = 72; // pixels around the points at the lowest zoom, left plus right
const STRETCH = 1.8; // the axes have no meaning, so the map may be that much wider than high to fill its canvas

export function makeCamera() {
  const camera = {
    zoom: 1, u: 0.5, v: 0.5, width: 0, height: 0, maxZoom: 60,

    // A window that is being opened or resized can be narrower than the margins; the spans must stay positive.
    get spanY() { return Math.max(1, camera.height - MARGIN) * camera.zoom; },
    get spanX() { return Math.min(Math.max(1, camera.width - MARGIN) * camera.zoom, STRETCH * camera.spanY); },
    toX: (u) => camera.width / 2 + (u - camera.u) * camera.spanX,
    toY: (v) => camera.height / 2 + (v - camera.v) * camera.spanY,
    toU: (x) => camera.u + (x - camera.width / 2) / camera.spanX,
    toV: (y) => camera.v + (y - camera.height / 2) / camera.spanY,

    // Centres the view; the lowest zoom always shows the whole map.
    moveTo(u, v) {
      const limit = (value) => (camera.zoom === 1 ? 0.5 : Math.min(1, Math.max(0, value)));
      [camera.u, camera.v] = [limit(u), limit(v)];
    },

    // Zooms such that the position under (x, y) stays where it is; a factor of 0 shows the whole map.
    zoomBy(factor, x, y) {
      const u = camera.toU(x), v = camera.toV(y);
      camera.zoom = Math.min(camera.maxZoom, Math.max(1, camera.zoom * factor));
      camera.moveTo(u - (x - camera.width / 2) / camera.spanX, v - (y - camera.height / 2) / camera.spanY);
    },
  };
  return camera;
}
