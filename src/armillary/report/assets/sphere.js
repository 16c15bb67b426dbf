// The sphere: a globe, a dot for each row, and the numbers of clusters, on three canvases one above the other.
//
// Dots are put into the image one by one, far ones first: 100,000 of them take about 20 ms, with any graphics card or none.

const stage = byId("stage");
const ball = byId("ball");
const dots = byId("points");
const marks = byId("marks");
// of light and dark pages: ink and what lies behind it, the globe from its light to its rim, its lines, the colour
// towards which its far side fades, and that of rows that are not picked
const LIGHT = {
  ink: "#2b3442", halo: "rgba(255,255,255,0.92)", ball: ["#fefefe", "#e4e8ee", "#b9c1ce"], rim: "#8a95a8",
  far: [205, 211, 221], off: [186, 193, 204], axis: "#76839a",
};
const DARK = {
  ink: "#eef2f8", halo: "rgba(16,20,27,0.9)", ball: ["#39445a", "#262e3d", "#1a212d"], rim: "#566279",
  far: [44, 53, 69], off: [74, 84, 102], axis: "#93a1b8",
};
const look = () => (isDark() ? DARK : LIGHT);
const FADE = 0.78;

// rows: right, up, towards the viewer
function firstFrame() {
  const length = Math.hypot(...data.view);
  const towards = data.view.map((value) => value / length);
  const up = Math.abs(towards[2]) > 0.999 ? [0, 1, 0] : [0, 0, 1];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  let right = cross(up, towards);
  const norm = Math.hypot(...right);
  right = right.map((value) => value / norm);
  return [...right, ...cross(towards, right), ...towards];
}
let frame = firstFrame();
let zoom = 1;
let isFlat = false; // the flat map in place of the sphere
let pan = [0, 0]; // how far the flat map is moved

// turn the picture about its own axes: right by `across`, up by `along`, in radians
function turn(across, along) {
  if (isFlat) {
    pan = [pan[0] + across, pan[1] + along];
    return;
  }
  const [ca, sa, cb, sb] = [Math.cos(across), Math.sin(across), Math.cos(along), Math.sin(along)];
  const f = frame;
  const turned = new Array(9);
  for (let k = 0; k < 3; k++) {
    const x = ca * f[k] + sa * f[6 + k];
    const z = -sa * f[k] + ca * f[6 + k];
    turned[k] = x;
    turned[3 + k] = cb * f[3 + k] + sb * z;
    turned[6 + k] = -sb * f[3 + k] + cb * z;
  }
  frame = straightened(turned);
}

// rounding would bend the axes after thousands of turns
function straightened(f) {
  const a = Math.hypot(f[0], f[1], f[2]);
  const [x, y, z] = [f[0] / a, f[1] / a, f[2] / a];
  const dot = x * f[3] + y * f[4] + z * f[5];
  const [u, v, w] = [f[3] - dot * x, f[4] - dot * y, f[5] - dot * z];
  const b = Math.hypot(u, v, w);
  const [p, q, r] = [u / b, v / b, w / b];
  return [x, y, z, p, q, r, y * r - z * q, z * p - x * r, x * q - y * p];
}

const seen = (p) => [0, 3, 6].map((k) => frame[k] * p[0] + frame[k + 1] * p[1] + frame[k + 2] * p[2]);

let size = 0; // of the canvases, in their own pixels
let density = 1; // pixels for each of the page's
let image = null;
let pixels = null;
const atX = new Float32Array(n);
const atY = new Float32Array(n);
const atZ = new Float32Array(n);
const layer = new Uint16Array(n);
const order = new Uint32Array(n);

const radius = () => size * 0.46 * zoom;

function fit() {
  const width = stage.clientWidth;
  density = Math.min(window.devicePixelRatio || 1, 1400 / Math.max(1, width));
  const wanted = Math.max(64, Math.round(width * density));
  if (wanted === size) return;
  size = wanted;
  for (const canvas of [ball, dots, marks]) canvas.width = canvas.height = size;
  image = dots.getContext("2d").createImageData(size, size);
  pixels = new Uint32Array(image.data.buffer);
}

function drawBall() {
  const pen = ball.getContext("2d");
  const [middle, r] = [size / 2, radius()];
  pen.clearRect(0, 0, size, size);
  if (isFlat) return;
  const light = pen.createRadialGradient(middle - 0.35 * r, middle - 0.45 * r, 0.1 * r, middle, middle, 1.05 * r);
  const { ball: shades, rim } = look();
  [0, 0.6, 1].forEach((at, k) => light.addColorStop(at, shades[k]));
  pen.fillStyle = light;
  pen.strokeStyle = rim;
  pen.lineWidth = density;
  pen.beginPath();
  pen.arc(middle, middle, r, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
  pen.lineWidth = 0.7 * density;
  for (const line of graticule) drawLine(pen, line, middle, r);
}

// meridians and parallels, each 30 degrees
const graticule = [];
for (let k = 0; k < 12; k++) {
  graticule.push(Array.from({ length: 46 }, (_, j) => onGlobe(k * 30, j * 4 - 90)));
}
for (let k = -2; k <= 2; k++) {
  graticule.push(Array.from({ length: 91 }, (_, j) => onGlobe(j * 4, k * 30)));
}
function onGlobe(longitude, latitude) {
  const [a, b] = [(longitude * Math.PI) / 180, (latitude * Math.PI) / 180];
  return [Math.cos(b) * Math.cos(a), Math.cos(b) * Math.sin(a), Math.sin(b)];
}

function drawLine(pen, line, middle, r) {
  for (const isNear of [false, true]) {
    pen.strokeStyle = isNear ? "rgba(120,134,158,0.4)" : "rgba(120,134,158,0.13)";
    pen.beginPath();
    let isDown = false;
    for (const place of line) {
      const [x, y, z] = seen(place);
      if (z >= 0 !== isNear) {
        isDown = false;
      } else {
        pen[isDown ? "lineTo" : "moveTo"](middle + r * x, middle - r * y);
        isDown = true;
      }
    }
    pen.stroke();
  }
}

const pack = (c, alpha) => ((alpha << 24) | (c[2] << 16) | (c[1] << 8) | c[0]) >>> 0;
const mix = (c, d, share) => c.map((value, k) => Math.round(value + share * (d[k] - value)));
const paint = [...data.colors, [150, 150, 150], [120, 140, 170]];
let nearInk = null;
let farInk = null;
let offInk = null;

// on a dark globe dark colours become lighter, in dots and beside names alike
const shone = (c) => {
  const bright = (0.3 * c[0] + 0.59 * c[1] + 0.11 * c[2]) / 255;
  return isDark() && bright < 0.55 ? mix(c, [255, 255, 255], 0.75 * (0.55 - bright)) : c;
};
function tint() {
  const { far, off } = look();
  const shown = paint.map(shone);
  nearInk = Uint32Array.from(shown, (c) => pack(c, 255));
  farInk = Uint32Array.from(shown, (c) => pack(mix(c, far, FADE), 255));
  offInk = [pack(mix(off, far, 0.6), 255), pack(off, 255)];
  for (const swatch of document.querySelectorAll("[data-cluster] .swatch")) {
    const c = shown[Number(swatch.closest("[data-cluster]").dataset.cluster)];
    if (c) swatch.style.background = `rgb(${c.join()})`;
  }
}

// the pixels of a dot: how far they are in the image, and how much of each is covered
function dotOf(r) {
  const [steps, shares] = [[], []];
  const reach = Math.ceil(r);
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) {
      const share = Math.min(1, Math.max(0, r + 0.5 - Math.hypot(x, y)));
      if (share > 0.05) {
        steps.push(y * size + x);
        shares.push(share);
      }
    }
  }
  return { steps: Int32Array.from(steps), shares: Float64Array.from(shares) };
}

function drawDots() {
  pixels.fill(0);
  const [middle, r] = [size / 2, radius()];
  const f = Float64Array.from(frame, (value) => value / 32767);
  const filtered = isFiltered();
  // layers: off below on, far below near, and by depth within
  const counts = new Uint32Array(513);
  // no destructuring here: it makes arrays, a hundred thousand of them
  for (let i = 0, at = 0; i < n; i++, at += 3) {
    let z = 0.5;
    if (isFlat) {
      atX[i] = middle + r * (flat[2 * i] / 32767 + pan[0]);
      atY[i] = middle - r * (flat[2 * i + 1] / 32767 + pan[1]);
    } else {
      const a = places[at];
      const b = places[at + 1];
      const c = places[at + 2];
      z = f[6] * a + f[7] * b + f[8] * c;
      atX[i] = middle + r * (f[0] * a + f[1] * b + f[2] * c);
      atY[i] = middle - r * (f[3] * a + f[4] * b + f[5] * c);
    }
    atZ[i] = z;
    const depth = Math.min(255, Math.max(0, ((z + 1) * 128) | 0));
    layer[i] = filtered && !isOn(i) ? depth : 256 + depth;
    counts[layer[i] + 1]++;
  }
  for (let k = 0; k < 512; k++) counts[k + 1] += counts[k];
  for (let i = 0; i < n; i++) order[counts[layer[i]]++] = i;
  const base = Math.min(5.2, Math.max(0.9, 9.5 / n ** 0.21 - 0.1)) * density * (size / density / 700) ** 0.7;
  const full = Math.max(0.8 * density, base * Math.min(3, Math.sqrt(zoom)));
  const [near, far] = [dotOf(full), dotOf(Math.max(0.6 * density, 0.8 * full))];
  const reach = Math.ceil(full) + 1;
  for (let k = 0; k < n; k++) {
    const i = order[k];
    const x = Math.round(atX[i]);
    const y = Math.round(atY[i]);
    if (x < reach || y < reach || x >= size - reach || y >= size - reach) continue;
    const isNear = atZ[i] >= 0;
    const ink = layer[i] < 256 ? offInk[isNear ? 1 : 0] : (isNear ? nearInk : farInk)[codes[i]];
    blot(y * size + x, isNear && layer[i] >= 256 ? near : far, ink);
  }
  dots.getContext("2d").putImageData(image, 0, 0);
}

function blot(at, dot, ink) {
  const { steps, shares } = dot;
  for (let k = 0; k < steps.length; k++) {
    const there = at + steps[k];
    const share = shares[k];
    const below = pixels[there];
    if (share === 1) pixels[there] = ink;
    else if (below === 0) pixels[there] = ((ink & 0xffffff) | ((share * 255) << 24)) >>> 0;
    else {
      const red = towards(below & 255, ink & 255, share);
      const green = towards((below >>> 8) & 255, (ink >>> 8) & 255, share);
      const blue = towards((below >>> 16) & 255, (ink >>> 16) & 255, share);
      pixels[there] = (red | (green << 8) | (blue << 16) | (Math.max(below >>> 24, share * 255) << 24)) >>> 0;
    }
  }
}

const towards = (from, to, share) => from + share * (to - from);

const bySize = data.sizes.map((_, k) => k).sort((a, b) => data.sizes[b] - data.sizes[a]);

// what is written at a cluster's centre: its first words, or its number
const MARK_LETTERS = 26;
const MOST_MARKS = 24; // names on the map, the largest clusters; more as it comes nearer
function markOf(k) {
  const name = wordsOf(k);
  if (!name) return String(data.names[k]);
  return name.length <= MARK_LETTERS ? name : `${name.slice(0, MARK_LETTERS - 1).replace(/[, ]+[^, ]*$/, "")}…`;
}

// the mean place of a cluster's rows on the flat map
let flatSums = null;
function flatCenter(k) {
  if (flatSums === null) {
    flatSums = Array.from({ length: nClusters + 2 }, () => [0, 0, 0]);
    for (let i = 0; i < n; i++) {
      const sum = flatSums[codes[i]];
      sum[0] += flat[2 * i] / 32767;
      sum[1] += flat[2 * i + 1] / 32767;
      sum[2] += 1;
    }
  }
  const [x, y, count] = flatSums[k];
  return count ? [x / count + pan[0], y / count + pan[1], 1] : [0, 0, -1];
}

function drawMarks() {
  const pen = marks.getContext("2d");
  const [middle, r] = [size / 2, radius()];
  pen.clearRect(0, 0, size, size);
  pen.font = `600 ${13 * density}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  const taken = [];
  for (const k of bySize) {
    if (selected.size > 0 && !selected.has(k)) continue;
    const [x, y, z] = isFlat ? flatCenter(k) : seen(data.centers[k]);
    if (z < 0.05) continue;
    const name = markOf(k);
    const half = [pen.measureText(name).width / 2 + 3 * density, 9 * density];
    const isSeen = Math.max(Math.abs(x), Math.abs(y)) * r < middle;
    if (!isSeen) continue;
    // words at the rim are moved in, so that they can be read
    const cx = Math.min(size - half[0], Math.max(half[0], middle + r * x));
    const cy = middle - r * y;
    if (taken.some(([ox, oy, ow]) => Math.abs(ox - cx) < ow + half[0] && Math.abs(oy - cy) < 2 * half[1])) continue;
    taken.push([cx, cy, half[0]]);
    if (taken.length > MOST_MARKS * zoom && data.words[k]) break;
    pen.strokeStyle = look().halo;
    pen.lineWidth = 4 * density;
    pen.strokeText(name, cx, cy);
    pen.fillStyle = look().ink;
    pen.fillText(name, cx, cy);
  }
  if (data.kind === "sphere" && !isFlat) drawAxes(pen, middle, r);
  for (const i of [hovered, pinned]) {
    if (i < 0 || (i === pinned && atZ[i] < 0)) continue;
    pen.strokeStyle = look().ink;
    pen.lineWidth = (i === pinned ? 3 : 2) * density;
    pen.beginPath();
    pen.arc(atX[i], atY[i], (i === pinned ? 12 : 9) * density, 0, 2 * Math.PI);
    pen.stroke();
  }
}

function drawAxes(pen, middle, r) {
  pen.font = `italic ${12 * density}px system-ui, sans-serif`;
  ["x", "y", "z"].forEach((name, axis) => {
    const [x, y, z] = [frame[axis], frame[3 + axis], frame[6 + axis]];
    const length = Math.hypot(x, y);
    if ((z < 0 && length < 0.9) || zoom > 1.2) return;
    pen.strokeStyle = look().axis;
    pen.fillStyle = look().axis;
    pen.lineWidth = density;
    pen.beginPath();
    pen.moveTo(middle + r * x, middle - r * y);
    pen.lineTo(middle + 1.05 * r * x, middle - 1.05 * r * y);
    pen.stroke();
    pen.fillText(name, middle + (1.05 * x + (0.03 * x) / (length || 1)) * r, middle - (1.05 * y + (0.03 * y) / (length || 1)) * r);
  });
}

let isWaiting = false;
let isStill = false; // the dots are where they were: marks alone are drawn
function redraw(onlyMarks = false) {
  isStill = isWaiting ? isStill && onlyMarks : onlyMarks;
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    const start = performance.now();
    fit();
    if (!isStill) {
      drawBall();
      drawDots();
    }
    drawMarks();
    stage.dataset.milliseconds = (performance.now() - start).toFixed(1);
  });
}
