// The live page: what the server tells, shown; what people do, asked of it. Words of users are only ever set as text.

const COLORS = ["#0e56ab", "#e9904a", "#6fd6a6", "#972d5e", "#13a2e3", "#eccb36", "#7c6ac6", "#4d8a44", "#c96390",
  "#816d1e", "#a594ee", "#8d4fb4"];
const byId = (name) => document.getElementById(name);
const DRAGGED = "application/x-armillary-id";
const MOST_ROWS = 1000; // lines of ids; `find` reaches the others
// `turn` counts collections that were opened and `opened` ids: an answer of an earlier one is not shown
const chosen = { collection: "", id: null, since: 0, counted: 0, rows: new Map(), count: 0, turn: 0, opened: 0 };
let token = sessionStorage.getItem("armillary-token") || "";
let map = { ids: [], points: [], vectors: [], names: [] };
let view = { yaw: 0.6, pitch: 0.35 };
let watching = null; // what ends the stream of events
let last = null; // counts of a second ago

// ------------------------------------------------------------------------------------------------------- asking

async function ask(method, path, body) {
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["idempotency-key"] = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
  const answer = await fetch(`/v1${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 401) { byId("login").hidden = false; byId("main").hidden = true; }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(content.error || `HTTP ${answer.status}`), { status: answer.status });
  return content;
}

const here = (rest = "") => `/collections/${encodeURIComponent(chosen.collection)}${rest}`;

function say(words) {
  byId("said").textContent = words;
  clearTimeout(say.later);
  say.later = setTimeout(() => { byId("said").textContent = ""; }, 6000);
}

const tried = (work) => async (...given) => {
  try { await work(...given); } catch (error) { say(error.message); }
};

// --------------------------------------------------------------------------------------------------------- begin

async function begin() {
  const { collections, unopened } = await ask("GET", "/collections");
  byId("login").hidden = true;
  byId("unopened").hidden = unopened.length === 0;
  byId("unopened").textContent = `Could not be opened, look into the log of the server: ${unopened.join(", ")}.`;
  byId("empty").hidden = collections.length + unopened.length > 0;
  byId("main").hidden = collections.length === 0;
  const list = byId("collection");
  const before = chosen.collection || new URLSearchParams(location.hash.slice(1)).get("collection");
  list.replaceChildren(...collections.map((one) => new Option(one.name, one.name)));
  if (!collections.length) { setTimeout(tried(begin), 2000); return; }
  const name = collections.some((one) => one.name === before) ? before : collections[0].name;
  list.value = name;
  await open(name);
}

// Collections come and go while the page is open.
async function readCollections() {
  const { collections } = await ask("GET", "/collections");
  const list = byId("collection");
  const [before, now] = [[...list.options].map((one) => one.value), collections.map((one) => one.name)];
  if (before.join() === now.join()) return;
  if (!now.includes(chosen.collection)) { await begin(); return; }
  list.replaceChildren(...now.map((name) => new Option(name, name)));
  list.value = chosen.collection;
}

async function open(name) {
  chosen.collection = name;
  chosen.id = null;
  chosen.turn += 1;
  chosen.opened += 1;
  if (byId("sure").open) byId("sure").close("no");
  location.hash = new URLSearchParams({ collection: name }).toString();
  chosen.rows.clear();
  byId("find").value = "";
  byId("ids").replaceChildren();
  byId("events").replaceChildren();
  byId("one-body").hidden = true;
  byId("one-hint").hidden = false;
  byId("one-title").textContent = "No id chosen";
  last = null;
  const turn = chosen.turn;
  await Promise.all([refresh(), readIds(), readMap()]);
  const details = await ask("GET", here());
  if (turn !== chosen.turn) return;
  chosen.since = Math.max(0, details.event - 100);
  watch(turn);
}

// -------------------------------------------------------------------------------------------------------- events

// fetch and not EventSource: that has no way to send a token
async function watch(turn) {
  if (watching) watching.abort();
  watching = new AbortController();
  const mine = watching;
  while (turn === chosen.turn) {
    try {
      const headers = token ? { authorization: `Bearer ${token}` } : {};
      const answer = await fetch(`/v1${here("/events/stream")}?since=${chosen.since}`, { headers, signal: mine.signal });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      tell(true);
      await read(answer.body.getReader(), turn);
    } catch (error) {
      if (mine.signal.aborted) return;
    }
    tell(false);
    await new Promise((resume) => setTimeout(resume, 400));
    if (turn === chosen.turn) tried(async () => { await Promise.all([refresh(), readIds(), readMap()]); })();
  }
}

async function read(reader, turn) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done || turn !== chosen.turn) return;
    text += decoder.decode(value, { stream: true });
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const line = part.split("\n").find((one) => one.startsWith("data: "));
      if (line) hear(JSON.parse(line.slice(6)));
    }
  }
}

function tell(isLive) {
  byId("state").textContent = isLive ? "live" : "connecting again";
  byId("state").classList.toggle("live", isLive);
}

function hear(event) {
  // fewer events than were told already: the collection was deleted, and made anew under its name
  if (event.since !== undefined && event.since < chosen.since) { tried(open)(chosen.collection); return; }
  if (!event.number || event.number <= chosen.since) return;
  chosen.since = event.number;
  const isNew = event.number > chosen.counted; // the last hundred are told again to whoever opens the page
  const list = byId("events");
  list.prepend(eventLine(event));
  while (list.children.length > 300) list.lastChild.remove();
  if (event.kind === "born" || event.kind === "split" || event.kind === "came back") {
    const facts = { id: event.id, name: null, vectors: 1, subclusters: 1 };
    if (isNew) count(1);
    if (isFound(facts)) show(facts, Date.now() / 1000 - event.at < 5);
    trim();
  } else if (event.kind === "merged" || event.kind === "forgotten") {
    if (isNew) count(-1);
    drop(event.id);
  } else if (event.kind === "named" || event.kind === "unnamed") {
    const row = chosen.rows.get(event.id);
    if (row) show({ ...row.facts, name: event.name ?? null });
  }
  later();
}

// Read again soon; where that takes long, seldom: at most a fifth of the time goes into it, however many events come.
function later() {
  if (later.timer) { later.isWanted = true; return; }
  later.timer = setTimeout(async () => {
    const began = performance.now();
    await tried(async () => {
      await Promise.all([readIds(), readMap()]);
      if (chosen.id !== null) await openId(chosen.id, true);
    })();
    later.pause = Math.max(250, 4 * (performance.now() - began));
    later.timer = 0;
    if (later.isWanted) { later.isWanted = false; later(); }
  }, later.pause || 250);
}

function eventLine(event) {
  const line = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = new Date(event.at * 1000).toLocaleTimeString();
  line.append(time, idLink(event.id), ` ${words(event)} `);
  if (event.other !== undefined) line.append(idLink(event.other));
  if (event.name !== undefined) line.append(`“${event.name}”`);
  return line;
}

function words(event) {
  return { born: "is new", merged: "went into", split: "left", forgotten: "was forgotten", named: "is called",
    unnamed: "has no name now", "kept apart": "is kept apart from" }[event.kind] || event.kind;
}

function idLink(number) {
  const link = document.createElement("button");
  link.type = "button";
  link.className = "link";
  link.textContent = `#${number}`;
  link.addEventListener("click", tried(() => openId(number)));
  return link;
}

// ----------------------------------------------------------------------------------------------------- list of ids

async function readIds() {
  const [wanted, turn] = [byId("find").value.trim(), chosen.turn];
  const query = new URLSearchParams({ newest: true, limit: MOST_ROWS, ...(wanted ? { find: wanted } : {}) });
  const { ids, of, next_id: next } = await ask("GET", here(`/ids?${query}`));
  if (wanted !== byId("find").value.trim() || turn !== chosen.turn) return;
  const known = new Set(ids.map((one) => one.id));
  // those that came after the answer was made are told by events
  for (const number of [...chosen.rows.keys()]) if (!known.has(number) && (number < next || wanted)) drop(number);
  for (const one of ids.reverse()) show(one);
  trim();
  byId("found").textContent = of > ids.length ? `The newest ${ids.length.toLocaleString()} of ${of.toLocaleString()}; find reaches all.`
    : wanted && !of ? "None." : "";
}

function count(change) {
  chosen.count += change;
  byId("n-ids").textContent = chosen.count.toLocaleString();
}

function trim() {
  const list = byId("ids");
  while (list.children.length > MOST_ROWS) drop(Number(list.lastChild.dataset.id));
}

function show(facts, isFresh = false) {
  let row = chosen.rows.get(facts.id);
  if (!row) {
    row = makeRow(facts.id);
    chosen.rows.set(facts.id, row);
    place(row, facts.id);
  }
  row.facts = facts;
  row.who.textContent = facts.name ? `${facts.name} · #${facts.id}` : `#${facts.id}`;
  row.count.textContent = facts.vectors === null ? "" : Math.round(facts.vectors).toLocaleString();
  if (isFresh) {
    row.line.classList.add("fresh");
    setTimeout(() => row.line.classList.remove("fresh"), 2500);
  }
}

function place(row, number) {
  // newest first: whoever just came is on top, so few lines are passed
  const list = byId("ids");
  let after = list.firstChild;
  while (after && Number(after.dataset.id) > number) after = after.nextSibling;
  list.insertBefore(row.line, after);
}

function makeRow(number) {
  const line = document.createElement("li");
  const button = document.createElement("button");
  const dot = document.createElement("span");
  const who = document.createElement("span");
  const count = document.createElement("span");
  line.dataset.id = number;
  button.type = "button";
  button.draggable = true;
  button.setAttribute("aria-pressed", "false");
  dot.className = "dot";
  dot.style.background = COLORS[number % COLORS.length];
  who.className = "who";
  count.className = "count";
  button.append(dot, who, count);
  button.addEventListener("click", tried(() => openId(number)));
  // a type of our own: files and texts can be dropped too, and an empty text is the number 0
  button.addEventListener("dragstart", (event) => event.dataTransfer.setData(DRAGGED, `${chosen.collection} ${number}`));
  line.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes(DRAGGED)) return;
    event.preventDefault();
    line.classList.add("over");
  });
  line.addEventListener("dragleave", () => line.classList.remove("over"));
  line.addEventListener("drop", tried(async (event) => {
    event.preventDefault();
    line.classList.remove("over");
    const [collection, other] = event.dataTransfer.getData(DRAGGED).split(" ");
    if (collection === chosen.collection && Number(other) !== number) await merge(number, Number(other));
  }));
  line.append(button);
  return { line, button, who, count, facts: {} };
}

function drop(number) {
  const row = chosen.rows.get(number);
  if (!row) return;
  row.line.remove();
  chosen.rows.delete(number);
}

function isFound(facts) {
  const wanted = byId("find").value.trim().toLowerCase();
  return !wanted || String(facts.id) === wanted.replace("#", "") || (facts.name || "").toLowerCase().includes(wanted);
}

// ------------------------------------------------------------------------------------------------------------ an id

async function openId(number, isQuiet = false) {
  if (!isQuiet) chosen.opened += 1;
  const opened = chosen.opened;
  const facts = await ask("GET", here(`/ids/${number}`));
  if (opened !== chosen.opened) return;
  const now = facts.current;
  chosen.id = now >= 0 ? now : null;
  for (const [id, row] of chosen.rows) row.button.setAttribute("aria-pressed", String(id === now));
  byId("one-hint").hidden = now >= 0;
  byId("one-body").hidden = now < 0;
  byId("one-title").textContent = now < 0 ? `#${number} was forgotten` : `${facts.name || "Id"} · #${now}`;
  if (now < 0) return;
  fill(facts);
  if (!isQuiet || document.activeElement !== byId("name")) byId("name").value = facts.name || "";
  byId("undo").disabled = corrections().length === 0;
  draw();
  await showImage(facts, opened);
}

function fill(facts) {
  const lines = [["vectors", Math.round(facts.vectors ?? 0).toLocaleString()],
    ["sub-clusters", (facts.subclusters || []).length], ["known as", facts.known_as.map((id) => `#${id}`).join(", ")]];
  if (facts.spread_degrees !== undefined && facts.spread_degrees !== null) {
    lines.push(["spread", `${facts.spread_degrees.toFixed(1)}°`]);
  }
  byId("facts").replaceChildren(...lines.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    const said = document.createElement("dd");
    term.textContent = name;
    said.textContent = value;
    return [term, said];
  }));
  fillNearest(facts);
  byId("meta").textContent = Object.keys(facts.meta).length ? JSON.stringify(Object.values(facts.meta), null, 1) : "nothing";
  byId("history").replaceChildren(...facts.history.slice().reverse().map((event) => {
    const line = eventLine(event);
    if (event.can_undo) line.append(" ", undoLink(event.operation));
    return line;
  }));
}

// Lines that a pointer or the keyboard is at stay as they are: a click must not meet another that came in between.
function fillNearest(facts) {
  const list = byId("nearest");
  const isOfAnother = list.dataset.of !== `${chosen.turn} ${facts.current}`;
  if (!isOfAnother && list.matches(":hover, :focus-within")) return;
  list.dataset.of = `${chosen.turn} ${facts.current}`;
  list.replaceChildren(...(facts.nearest || []).map((one) => {
    const line = document.createElement("li");
    const join = document.createElement("button");
    join.type = "button";
    join.textContent = "merge";
    join.className = "link";
    join.addEventListener("click", tried(() => merge(facts.current, one.id)));
    line.append(idLink(one.id), ` ${one.name || ""} cosine ${one.cosine.toFixed(3)} `, join);
    return line;
  }));
}

async function showImage(facts, opened) {
  const image = byId("thumb");
  if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
  image.hidden = true;
  if (!facts.has_thumbnail) return;
  for (const number of facts.known_as) {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const answer = await fetch(`/v1${here(`/ids/${number}/thumbnail`)}`, { headers });
    if (opened !== chosen.opened) return;
    if (!answer.ok) continue;
    image.src = URL.createObjectURL(await answer.blob());
    image.alt = facts.name || `id ${facts.current}`;
    image.hidden = false;
    return;
  }
}

// Corrections made in this tab, of the collection that is shown; they outlive a reload.
function corrections(change) {
  const key = `armillary-corrections ${chosen.collection}`;
  const known = JSON.parse(sessionStorage.getItem(key) || "[]");
  if (change) sessionStorage.setItem(key, JSON.stringify(change(known).slice(-200)));
  return known;
}

function undoLink(operation) {
  const link = document.createElement("button");
  link.type = "button";
  link.className = "link";
  link.textContent = "undo";
  link.addEventListener("click", tried(() => undo(operation)));
  return link;
}

async function undo(operation) {
  const forgotten = (error) => [404, 409, 410].includes(error.status); // it cannot be undone any more
  const answer = await ask("POST", here("/undo"), { operation }).catch((error) => {
    if (forgotten(error)) corrections((known) => known.filter((one) => one !== operation));
    throw error;
  });
  corrections((known) => known.filter((one) => one !== operation));
  await done(answer, "Taken back.");
  await openId(answer.id ?? chosen.id);
}

async function done(answer, sentence) {
  if (answer.operation && answer.undone === undefined) corrections((known) => [...known, answer.operation]);
  say(sentence);
  await Promise.all([readIds(), readMap()]);
}

async function merge(one, other) {
  if (one === other) throw new Error(`#${one} is that id already. Merge it with another.`);
  const answer = await ask("POST", here("/merge"), { one, other });
  await done(answer, `#${other} and #${one} are one now: #${answer.id}. Undo takes it back.`);
  await openId(answer.id);
}

byId("naming").addEventListener("submit", tried(async (event) => {
  event.preventDefault();
  const name = byId("name").value.trim() || null;
  const answer = await ask("PUT", here(`/ids/${chosen.id}/name`), { name });
  await done(answer, name ? `#${answer.id} is called ${name}.` : `#${answer.id} has no name now.`);
  await openId(answer.id);
}));

byId("merging").addEventListener("submit", tried(async (event) => {
  event.preventDefault();
  await merge(chosen.id, Number(byId("merge-with").value));
  byId("merge-with").value = "";
}));

byId("split").addEventListener("click", tried(async () => {
  const answer = await ask("POST", here("/split"), { id: chosen.id });
  await done(answer, `#${answer.part} left #${answer.id}. Undo takes it back.`);
  await openId(answer.id);
}));

byId("undo").addEventListener("click", tried(() => undo(corrections().at(-1))));

// What is asked about is what is erased, whatever became of the page while the question stood.
byId("forget").addEventListener("click", () => {
  const sure = byId("sure");
  sure.asked = { id: chosen.id, path: here(), title: byId("one-title").textContent };
  byId("sure-text").textContent = `Forget ${sure.asked.title} for good? Vectors, name and attachments are erased; this cannot be undone.`;
  sure.returnValue = "no";
  sure.showModal();
});

byId("sure").addEventListener("close", tried(async () => {
  if (byId("sure").returnValue !== "yes") return;
  const { id, path } = byId("sure").asked;
  const { current } = await ask("GET", `${path}/ids/${id}/current`);
  if (current !== id) throw new Error(current < 0 ? `#${id} was forgotten meanwhile.` : `#${id} went into #${current} meanwhile. Nobody was forgotten: look at #${current} first.`);
  const answer = await ask("POST", `${path}/forget`, { id });
  const held = answer.backups_still_holding || [];
  await done({}, held.length ? `Forgotten. Backups that still hold it: ${held.join(", ")}.` : "Forgotten.");
  await openId(answer.id);
}));

// -------------------------------------------------------------------------------------------------------- numbers

async function refresh() {
  const turn = chosen.turn;
  const details = await ask("GET", here());
  if (turn !== chosen.turn) return;
  chosen.count = details.ids;
  chosen.counted = details.event;
  count(0);
  byId("n-vectors").textContent = details.vectors.toLocaleString();
  if (details.is_broken) say("This collection stopped. Look into the log of the server, and start it again.");
  byId("p50").textContent = details.milliseconds.p50 === null ? "–" : details.milliseconds.p50.toFixed(1);
  byId("p99").textContent = details.milliseconds.p99 === null ? "–" : details.milliseconds.p99.toFixed(1);
  byId("waiting").textContent = details.waiting;
  if (last && details.at > last.at) {
    const rate = (details.vectors - last.vectors) / (details.at - last.at);
    byId("rate").textContent = Math.max(0, rate).toFixed(rate < 10 ? 1 : 0);
    if (details.vectors !== last.vectors) later();
  }
  last = details;
}

setInterval(() => { if (chosen.collection && !byId("main").hidden) refresh().catch(() => {}); }, 1000);
setInterval(() => { if (!byId("main").hidden) readCollections().catch(() => {}); }, 5000);

// ------------------------------------------------------------------------------------------------------------ map

async function readMap() {
  const turn = chosen.turn;
  const found = await ask("GET", here("/map"));
  if (turn !== chosen.turn) return;
  map = found;
  draw();
}

function turned([x, y, z]) {
  const [c, s] = [Math.cos(view.yaw), Math.sin(view.yaw)];
  const [u, w] = [c * x + s * y, -s * x + c * y];
  const [d, e] = [Math.cos(view.pitch), Math.sin(view.pitch)];
  return [u, d * z - e * w, d * w + e * z]; // right, up, towards the reader
}

function draw() {
  const canvas = byId("map");
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(canvas); // its own colours: a canvas cannot read those of the page
  const side = canvas.width;
  const radius = side * 0.44;
  const at = (point) => { const [x, y, z] = turned(point); return [side / 2 + radius * x, side / 2 - radius * y, z]; };
  pen.clearRect(0, 0, side, side);
  pen.strokeStyle = style.borderTopColor;
  pen.lineWidth = 1.5;
  for (let ring = 0; ring < 9; ring += 1) {
    pen.beginPath();
    for (let step = 0; step <= 64; step += 1) {
      const angle = (step / 64) * 2 * Math.PI;
      const fixed = ring < 6 ? (ring / 6) * Math.PI : ((ring - 7) / 3) * Math.PI;
      const point = ring < 6
        ? [Math.cos(fixed) * Math.sin(angle), Math.sin(fixed) * Math.sin(angle), Math.cos(angle)]
        : [Math.cos(fixed) * Math.cos(angle), Math.cos(fixed) * Math.sin(angle), Math.sin(fixed)];
      const [x, y, z] = at(point);
      if (z < 0 || step === 0) pen.moveTo(x, y); else pen.lineTo(x, y);
    }
    pen.stroke();
  }
  const most = Math.max(1, ...(map.vectors || []));
  const scale = Math.max(0.3, Math.min(1, Math.sqrt(100 / (map.ids.length || 1)))); // many dots are small ones
  const order = map.ids.map((_, place) => place).sort((a, b) => turned(map.points[a])[2] - turned(map.points[b])[2]);
  pen.font = `${side / 30}px system-ui, sans-serif`;
  for (const place of order) {
    const [x, y, z] = at(map.points[place]);
    const size = scale * (5 + 13 * Math.sqrt((map.vectors[place] || 1) / most));
    pen.globalAlpha = z < 0 ? 0.25 : 1;
    pen.beginPath();
    pen.arc(x, y, size, 0, 2 * Math.PI);
    pen.fillStyle = COLORS[map.ids[place] % COLORS.length];
    pen.fill();
    if (map.ids[place] === chosen.id) {
      pen.lineWidth = 4;
      pen.strokeStyle = style.color;
      pen.stroke();
    }
    if (z >= 0 && (map.ids.length <= 40 || map.names[place])) {
      pen.fillStyle = style.color;
      pen.fillText(map.names[place] || `#${map.ids[place]}`, x + size + 3, y + 5);
    }
  }
  pen.globalAlpha = 1;
}

function nearestTo(event) {
  const canvas = byId("map");
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  let best = null;
  let least = 24;
  map.ids.forEach((number, place) => {
    const [u, v, w] = turned(map.points[place]);
    const gap = Math.hypot(canvas.width / 2 + canvas.width * 0.44 * u - x, canvas.width / 2 - canvas.width * 0.44 * v - y);
    if (w >= 0 && gap < least) { least = gap; best = number; }
  });
  return best;
}

let grip = null;
byId("map").addEventListener("pointerdown", (event) => {
  grip = { x: event.clientX, y: event.clientY, moved: 0 };
  byId("map").setPointerCapture(event.pointerId);
});
byId("map").addEventListener("pointermove", (event) => {
  if (!grip) return;
  const [dx, dy] = [event.clientX - grip.x, event.clientY - grip.y];
  grip = { x: event.clientX, y: event.clientY, moved: grip.moved + Math.hypot(dx, dy) };
  view = { yaw: view.yaw - dx * 0.008, pitch: Math.max(-1.5, Math.min(1.5, view.pitch + dy * 0.008)) };
  draw();
});
byId("map").addEventListener("pointerup", tried(async (event) => {
  const isClick = grip && grip.moved < 5;
  grip = null;
  const number = isClick ? nearestTo(event) : null;
  if (number !== null) await openId(number);
}));
byId("map").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
  if (!step) return;
  event.preventDefault();
  view = { yaw: view.yaw + step[0], pitch: Math.max(-1.5, Math.min(1.5, view.pitch + step[1])) };
  draw();
});

// ------------------------------------------------------------------------------------------------------- the rest

byId("collection").addEventListener("change", tried(() => open(byId("collection").value)));
byId("find").addEventListener("input", tried(readIds));
byId("login").addEventListener("submit", tried(async (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("armillary-token", token);
  byId("token").value = "";
  await begin();
}));
byId("theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (document.documentElement.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  byId("theme").textContent = isDark ? "Dark" : "Light";
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
if (matchMedia("(prefers-color-scheme: dark)").matches) byId("theme").textContent = "Light";
tried(begin)();
