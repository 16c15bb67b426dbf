// Picking clusters and finding rows; the table, the matrix of angles, and what can be copied.

const table = byId("clusters-table");
const lines = table ? [...table.tBodies[0].rows] : [];
const chips = [...document.querySelectorAll(".chip")];
const search = byId("search");
const FIRST_LINES = 20;
let isLong = false;

function toggle(code) {
  if (!selected.delete(code)) selected.add(code);
  update();
}
function showAll() {
  selected.clear();
  search.value = "";
  pin(-1);
  find();
}

function update() {
  for (const chip of chips) chip.setAttribute("aria-pressed", String(selected.has(Number(chip.dataset.cluster))));
  const found = isMatch && new Set();
  let nOn = 0;
  let nFound = 0;
  for (let i = 0; i < n; i++) {
    if (isMatch && isMatch[i]) {
      found.add(codes[i]);
      nFound++;
    }
    nOn += isOn(i) ? 1 : 0;
  }
  let nShown = 0;
  for (const line of lines) {
    const code = Number(line.dataset.cluster);
    const isFound = found === null || found.has(code);
    line.classList.toggle("on", selected.has(code));
    line.hidden = !isFound || (!isLong && nShown >= FIRST_LINES && !selected.has(code));
    nShown += isFound ? 1 : 0;
  }
  if (more) {
    more.hidden = isLong || nShown <= FIRST_LINES;
    more.textContent = `Show all ${nShown.toLocaleString("en")} clusters`;
  }
  byId("clear").disabled = !isFiltered();
  const which = [...selected].map((code) => clusterName(code).replace("cluster ", "")).join(", ");
  const parts = [];
  if (selected.size) parts.push(`${selected.size === 1 ? "Cluster" : "Clusters"} ${which}`);
  if (isMatch) parts.push(`“${query}”`);
  // who searches within a cluster should know that others have what is looked for
  const elsewhere = selected.size && nFound > nOn ? `; ${(nFound - nOn).toLocaleString("en")} in other clusters` : "";
  byId("shown").textContent = isFiltered()
    ? `${parts.join(" and ")}: ${nOn.toLocaleString("en")} of ${n.toLocaleString("en")} rows drawn${elsewhere}`
    : "";
  listRows();
  hide();
  redraw();
}

// rows by their id or text, or all rows of a cluster by its number
function find() {
  query = search.value.trim().toLowerCase();
  isMatch = null;
  if (query) {
    const number = data.names.findIndex(
      (name, k) => query === String(name) || query === `cluster ${name}` || query === wordsOf(k).toLowerCase(),
    );
    // where there are no texts, a part of a cluster's name is all that can be known of it
    const isNamed = data.names.map((_, k) => !words.texts && wordsOf(k).toLowerCase().includes(query));
    isMatch = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const isFound =
        codes[i] === number ||
        isNamed[codes[i]] ||
        (words.texts && words.texts[i].toLowerCase().includes(query)) ||
        (words.ids && words.ids[i].toLowerCase().includes(query)) ||
        (!words.ids && rowName(i) === query);
      isMatch[i] = isFound ? 1 : 0;
    }
  }
  update();
}

function sortBy(column, head) {
  const isDown = head.getAttribute("aria-sort") !== "descending";
  const isNumber = head.dataset.sort === "number";
  const value = (line) => line.cells[column].dataset.value;
  const compare = (a, b) => {
    if (!isNumber) return value(a).localeCompare(value(b));
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return x === y ? 0 : (x === "") === isDown ? -1 : 1; // no number goes last
    return Number(x) - Number(y);
  };
  lines.sort((a, b) => (isDown ? compare(b, a) : compare(a, b)));
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  table.tBodies[0].append(...lines);
  update();
}

let more = null;
if (table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(column, head));
  });
  for (const line of lines) {
    const name = line.cells[0];
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.dataset.cluster = line.dataset.cluster;
    button.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-label", `Show only cluster ${name.textContent.replace(/\s+/g, " ").trim()}`);
    button.append(...name.childNodes);
    name.append(button);
    chips.push(button);
  }
  for (const item of table.querySelectorAll("[data-point]")) {
    item.tabIndex = 0;
    item.setAttribute("role", "button");
    item.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") item.click();
    });
  }
  table.tBodies[0].addEventListener("click", (event) => {
    const item = event.target.closest("[data-point]");
    if (item) return goTo(Number(item.dataset.point));
    if (window.getSelection().isCollapsed) toggle(Number(event.target.closest("tr").dataset.cluster));
    return undefined;
  });
  more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  table.parentNode.after(more);
  more.addEventListener("click", () => {
    isLong = true;
    update();
  });
}
for (const holder of document.querySelectorAll("#legend, .levels")) {
  holder.addEventListener("click", (event) => {
    const chip = event.target.closest(".chip");
    if (chip) toggle(Number(chip.dataset.cluster));
  });
}
byId("clear").addEventListener("click", showAll);
search.addEventListener("input", () => areWordsReady.then(find));

// the matrix: which two clusters, and their angle
const matrix = document.querySelector("#similarity svg image");
if (matrix) {
  const { order: sorted, step } = data.matrix;
  const between = bytes(data.matrix.angles);
  const pair = (event) => {
    const box = matrix.getBoundingClientRect();
    const place = (at, from, width) => Math.floor(((at - from) / width) * sorted.length);
    const row = place(event.clientY, box.top, box.height);
    const column = place(event.clientX, box.left, box.width);
    const isInside = Math.min(row, column) >= 0 && Math.max(row, column) < sorted.length;
    return isInside ? [row, column] : null;
  };
  const chart = matrix.ownerSVGElement;
  chart.addEventListener("pointermove", (event) => {
    const found = pair(event);
    if (!found) return hide();
    const [a, b] = found.map((k) => clusterName(sorted[k]));
    const angle = degrees(between[found[0] * sorted.length + found[1]], step);
    say([[a === b ? a : `${a} and ${b}: ${angle}`, "b"]], event.clientX, event.clientY);
    return undefined;
  });
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("click", (event) => {
    const found = pair(event);
    if (!found) return;
    selected.clear();
    for (const k of found) selected.add(sorted[k]);
    update();
  });
}

for (const block of document.querySelectorAll(".code")) {
  const text = block.querySelector("pre");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      // pages opened from disk may not use the clipboard by themselves
      window.getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}
