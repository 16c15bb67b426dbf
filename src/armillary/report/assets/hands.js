// Hands on the sphere: drag, keys, wheel; what lies under the pointer; a row that was asked for.

const tip = byId("tip");
let grip = null;
let hasMoved = false;

marks.addEventListener("pointerdown", (event) => {
  grip = [event.clientX, event.clientY];
  hasMoved = false;
  marks.setPointerCapture(event.pointerId);
  marks.classList.add("turning");
  hide();
});
marks.addEventListener("pointermove", (event) => {
  if (grip === null) {
    const box = marks.getBoundingClientRect();
    show(nearest((event.clientX - box.left) * density, (event.clientY - box.top) * density), event.clientX, event.clientY);
    return;
  }
  const [dx, dy] = [event.clientX - grip[0], event.clientY - grip[1]];
  if (!hasMoved && Math.hypot(dx, dy) < 4) return;
  hasMoved = true;
  grip = [event.clientX, event.clientY];
  const reach = radius() / density;
  turn(dx / reach, -dy / reach);
  redraw();
});
const letGo = (event) => {
  if (grip !== null && !hasMoved && event.type === "pointerup") {
    const box = marks.getBoundingClientRect();
    const i = nearest((event.clientX - box.left) * density, (event.clientY - box.top) * density);
    if (i >= 0) toggle(codes[i]);
  }
  grip = null;
  marks.classList.remove("turning");
};
marks.addEventListener("pointerup", letGo);
marks.addEventListener("pointercancel", letGo);
marks.addEventListener("pointerleave", () => hide());
// a wheel zooms only for those who ask: with Ctrl, with two fingers, or once the sphere has the focus
marks.addEventListener(
  "wheel",
  (event) => {
    if (!event.ctrlKey && document.activeElement !== marks) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * 0.002));
  },
  { passive: false },
);
marks.addEventListener("keydown", (event) => {
  const step = event.shiftKey ? 0.3 : 0.1;
  const keys = {
    ArrowLeft: () => turn(-step, 0),
    ArrowRight: () => turn(step, 0),
    ArrowUp: () => turn(0, step),
    ArrowDown: () => turn(0, -step),
    "+": () => zoomBy(1.25),
    "=": () => zoomBy(1.25),
    "-": () => zoomBy(0.8),
    0: goBack,
    Home: goBack,
    Escape: showAll,
  };
  if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  hide();
  keys[event.key]();
  redraw();
});
byId("nearer").addEventListener("click", () => zoomBy(1.25));
byId("farther").addEventListener("click", () => zoomBy(0.8));
byId("reset").addEventListener("click", goBack);

function zoomBy(factor) {
  zoom = Math.min(12, Math.max(1, zoom * factor));
  hide();
  redraw();
}
function goBack() {
  frame = firstFrame();
  pan = [0, 0];
  zoom = 1;
  redraw();
}

// the row on the near side under the pointer, -1 where there is none
function nearest(x, y) {
  let best = -1;
  let least = (14 * density) ** 2;
  const filtered = isFiltered();
  for (let i = 0; i < n; i++) {
    if (atZ[i] < 0) continue;
    const distance = (atX[i] - x) ** 2 + (atY[i] - y) ** 2;
    if (distance < least && (!filtered || isOn(i))) [best, least] = [i, distance];
  }
  return best;
}

const belonging = (i) => (membership && membership[i] !== 255 ? `, membership ${(membership[i] / 254).toFixed(2)}` : "");

// what is known of a row: words, each with the element they stand in
function about(i) {
  const lines = [[rowName(i), "b"]];
  if (words.texts) lines.push([words.texts[i], "span"]);
  const own = angles[i] === 255 ? "" : `, ${degrees(angles[i], data.angleScale)} from its centre`;
  lines.push([clusterName(codes[i]) + own + belonging(i), "span"]);
  if (nextCodes[i] !== 65535) {
    const which = codes[i] < nClusters ? "next" : "nearest";
    lines.push([`${which}: ${clusterName(nextCodes[i])}, ${degrees(nextAngles[i], data.nextScale)}`, "small"]);
  }
  return lines;
}
const elements = (lines, wrapper) =>
  lines.map(([text, tag]) => {
    const line = document.createElement(wrapper);
    line.appendChild(document.createElement(tag)).textContent = text;
    return line;
  });

function say(lines, x, y, picture = null) {
  tip.replaceChildren(...(picture ? [picture] : []), ...elements(lines, "p"));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > window.innerHeight ? y - box.height - 12 : y + 18}px`;
}

function thumb(i) {
  if (!data.thumbs[i]) return null;
  const picture = document.createElement("img");
  picture.src = data.thumbs[i];
  picture.alt = "";
  picture.className = "thumb";
  return picture;
}

function show(i, x, y) {
  if (i < 0) {
    hide();
    return;
  }
  say(about(i), x, y, thumb(i));
  if (hovered !== i) {
    hovered = i;
    redraw(true);
  }
}
function hide() {
  tip.hidden = true;
  if (hovered < 0) return;
  hovered = -1;
  redraw(true);
}

// a ring around a row, and words about it that stay
function pin(i) {
  pinned = i;
  const hint = "Drag to turn, or use the arrow keys. Click a row to pick its cluster.";
  const said = i < 0 ? [[n ? hint : "", "span"]] : about(i);
  byId("pinned").replaceChildren(...elements(said, "span").flatMap((part, k) => (k ? [" · ", part] : [part])));
  redraw(true);
}

// bring a row to the front, and say what it is
function goTo(i) {
  pin(i);
  const target = [0, 1, 2].map((k) => places[3 * i + k] / 32767);
  const isCalm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const nSteps = isCalm ? 1 : 18;
  stage.scrollIntoView({ block: "nearest" });
  let step = 0;
  const move = () => {
    step += 1;
    const left = 1 / (nSteps - step + 1);
    if (isFlat) {
      turn((-flat[2 * i] / 32767 - pan[0]) * left, (-flat[2 * i + 1] / 32767 - pan[1]) * left);
      redraw();
      if (step < nSteps) requestAnimationFrame(move);
      return;
    }
    const [x, y, z] = seen(target);
    turn(-Math.atan2(x, z) * left, -Math.atan2(y, Math.hypot(x, z)) * left);
    redraw();
    if (step < nSteps) requestAnimationFrame(move);
  };
  move();
}
