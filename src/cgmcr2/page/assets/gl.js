// Drawing of the points on the map: WebGL2, else canvas 2D. See points.js for rows and ranks.

export const FRONT = 1; // flag of a point; others are dimmed
export const SELECTED = 2; // flag of a point with an outline

// Draws the points of an index on a canvas. palette: "#rrggbb" of the clusters, which repeats with another marker.
// While the view moves, a sample is drawn; at rest all points, in slices if one frame is too short for them.
export function scatter(canvas, points, palette) {
  const gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
  const renderer = gl ? webgl(gl, points, palette) : canvas2d(canvas.getContext("2d", { willReadFrequently: true }), points, palette);
  if (gl) {
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      renderer.prepare();
      canvas.dispatchEvent(new Event("redraw"));
    });
  }
  const state = new Uint32Array(points.n); // by rank: label, flags << 16
  let budget = 100_000; // points per frame; adapts to the machine
  let previous = -Infinity, next = 0; // time of the previous frame, first rank of the next slice

  return {
    kind: gl ? "webgl2" : "2d",

    // labels: Uint16Array, flags: Uint8Array of FRONT and SELECTED, both by row.
    setState(labels, flags) {
      for (let rank = 0; rank < points.n; rank++) state[rank] = labels[points.rows[rank]] | (flags[points.rows[rank]] << 16);
      renderer.setState(state);
    },

    // Draws a frame; returns {drawn: number of points, more: whether to call it again with `continued`}.
    // view: {x, y: centre in 0..1; spanX, spanY: size of the map in CSS pixels; width, height: of the canvas;
    // radius: of a point; ratio: device pixels per CSS pixel; opacity; ink, dimmed: [r, g, b]; moving: Boolean}
    draw(view, continued = false) {
      const now = performance.now(), elapsed = now - previous;
      if (elapsed < 1000) budget = Math.max(20_000, Math.min(points.n, budget * (elapsed > 45 ? 0.7 : elapsed < 25 ? 1.2 : 1)));
      const halfX = (view.width / 2 + 2 * view.radius) / view.spanX, halfY = (view.height / 2 + 2 * view.radius) / view.spanY;
      const box = [view.x - halfX, view.y - halfY, view.x + halfX, view.y + halfY].map((value) => value * 65535);
      const share = Math.ceil(points.n * Math.min(1, budget / points.count(box)));
      const first = continued ? next : 0;
      next = view.moving || renderer.sliced ? Math.min(points.n, first + share) : points.n;
      const ranks = points.sample(box, first, next), more = !view.moving && next < points.n;
      renderer.draw(view, ranks, continued);
      previous = view.moving || more ? now : -Infinity;
      return { drawn: ranks.length, more };
    },
  };
}

const VERTEX = (colors) => `#version 300 es
uniform vec2 center, scale;
uniform float radius, ring, opacity;
uniform vec3 palette[${colors}], dimmed;
in vec2 position;
in uint state;
out vec4 color;
flat out uint shape, selected;
void main() {
  uint label = state & 0xffffu, flags = state >> 16;
  bool front = (flags & ${FRONT}u) != 0u;
  selected = (flags & ${SELECTED}u) >> 1;
  shape = (label / ${colors}u) % 4u;
  color = front ? vec4(palette[label % ${colors}u], opacity) : vec4(dimmed, 0.8);
  gl_Position = vec4((position - center) * scale, selected != 0u ? -0.5 : front ? 0.0 : 0.5, 1);
  gl_PointSize = 2.0 * (radius + (selected != 0u ? ring : 0.0)) + 1.0;
}`;

const FRAGMENT = `#version 300 es
precision highp float; // uniforms must have the same precision in both shaders
uniform float radius, ring;
uniform vec3 ink;
in vec4 color;
flat in uint shape, selected;
out vec4 result;
void main() {
  float extent = radius + (selected != 0u ? ring : 0.0) + 0.5;
  vec2 p = (2.0 * gl_PointCoord - 1.0) * extent, a = abs(p);
  float distance = shape == 0u ? length(p) - radius
    : shape == 1u ? (a.x + a.y - radius) * 0.71
    : shape == 2u ? max(a.x, a.y) - 0.83 * radius
    : max(p.y - 0.87 * radius, 0.88 * a.x - 0.48 * (p.y + 0.93 * radius));
  float fill = clamp(0.5 - distance, 0.0, 1.0);
  float alpha = selected != 0u ? clamp(0.5 - distance + ring, 0.0, 1.0) : fill * color.a;
  if (alpha < 0.02) discard;
  gl_FragDepth = gl_FragCoord.z + (fill < 0.5 ? 0.1 : 0.0); // outlines behind the selected points next to them
  result = vec4((selected != 0u ? mix(ink, color.rgb, fill) : color.rgb) * alpha, alpha);
}`;

const components = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);

function webgl(gl, points, palette) {
  let program, uniform, lastState = null;

  function prepare() {
    program = gl.createProgram();
    for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX(palette.length)], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(`The shaders of the map do not work here: ${gl.getProgramInfoLog(program)}`);
    gl.useProgram(program);
    uniform = (name) => gl.getUniformLocation(program, name);
    gl.uniform3fv(uniform("palette"), palette.flatMap(components));
    const attribute = (name) => {
      const location = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
      gl.enableVertexAttribArray(location);
      return location;
    };
    const position = attribute("position");
    gl.bufferData(gl.ARRAY_BUFFER, points.xy, gl.STATIC_DRAW);
    gl.vertexAttribPointer(position, 2, gl.UNSIGNED_SHORT, true, 0, 0);
    const state = attribute("state");
    gl.bufferData(gl.ARRAY_BUFFER, lastState ?? 4 * points.n, gl.DYNAMIC_DRAW); // stays bound for setState
    gl.vertexAttribIPointer(state, 1, gl.UNSIGNED_INT, 0, 0);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL); // points of one layer blend; dimmed ones never cover the others
  }

  prepare();
  return {
    sliced: true,
    prepare,
    setState(state) {
      lastState = state;
      gl.bufferSubData(gl.ARRAY_BUFFER, 0, state);
    },
    draw(view, ranks, continued) {
      gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
      if (!continued) gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniform2f(uniform("center"), view.x, view.y);
      gl.uniform2f(uniform("scale"), 2 * view.spanX / view.width, -2 * view.spanY / view.height);
      gl.uniform1f(uniform("radius"), view.radius * view.ratio);
      gl.uniform1f(uniform("ring"), 2.5 * view.ratio);
      gl.uniform1f(uniform("opacity"), view.opacity);
      gl.uniform3fv(uniform("ink"), view.ink);
      gl.uniform3fv(uniform("dimmed"), view.dimmed);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, ranks, gl.STREAM_DRAW);
      gl.drawElements(gl.POINTS, ranks.length, gl.UNSIGNED_INT, 0);
    },
  };
}

// Writes pixels itself, because thousands of calls of drawImage or fill are slow without a GPU.
function canvas2d(context, points, palette) {
  const pack = ([r, g, b]) => (255 << 24 | 255 * b << 16 | 255 * g << 8 | 255 * r) >>> 0;
  const colors = palette.map((hex) => pack(components(hex)));
  let state = new Uint32Array(points.n);

  return {
    sliced: false, // a later slice would cover points of a higher layer
    setState(values) { state = values; },
    draw(view, ranks) {
      const { width, height } = context.canvas;
      if (!width || !height) return;
      const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
      const ring = 2.5 * view.ratio, radius = Math.max(1, view.radius * view.ratio), margin = Math.ceil(radius + ring);
      const originX = width / 2 - view.x * view.spanX * view.ratio, scaleX = view.ratio * view.spanX / 65535;
      const originY = height / 2 - view.y * view.spanY * view.ratio, scaleY = view.ratio * view.spanY / 65535;
      const stamps = (extra) => [0, 1, 2, 3].map((shape) => stamp(shape, radius, extra, width));
      const dimmed = pack(view.dimmed), ink = pack(view.ink), markers = stamps(0), outlines = stamps(ring);

      const paint = (layer, shapes, color) => { // loops by index: much faster than for-of here
        for (let i = 0; i < ranks.length; i++) {
          const rank = ranks[i], flags = state[rank] >> 16, label = state[rank] & 0xffff;
          if ((flags & SELECTED || flags) !== layer) continue;
          const x = Math.round(originX + points.xy[2 * rank] * scaleX), y = Math.round(originY + points.xy[2 * rank + 1] * scaleY);
          if (x < margin || y < margin || x >= width - margin || y >= height - margin) continue;
          const value = color ?? colors[label % colors.length], start = y * width + x;
          const offsets = shapes[Math.floor(label / colors.length) % 4];
          for (let o = 0; o < offsets.length; o++) pixels[start + offsets[o]] = value;
        }
      };
      paint(0, markers, dimmed);
      paint(FRONT, markers);
      paint(SELECTED, outlines, ink);
      paint(SELECTED, markers);
      context.putImageData(image, 0, 0);
    },
  };
}

// Offsets of the pixels of a marker in an image of this width; the same shapes as in the fragment shader.
function stamp(shape, radius, extra, width) {
  const offsets = [], reach = Math.ceil(radius + extra);
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) {
      const ax = Math.abs(x), ay = Math.abs(y);
      const distance = [
        Math.hypot(x, y) - radius, (ax + ay - radius) * 0.71, Math.max(ax, ay) - 0.83 * radius,
        Math.max(y - 0.87 * radius, 0.88 * ax - 0.48 * (y + 0.93 * radius)),
      ][shape];
      if (distance < extra + 0.3) offsets.push(y * width + x);
    }
  }
  return Int32Array.from(offsets);
}
