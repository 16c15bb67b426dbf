// The rows of what is picked or found, beside the map: the nearest to their centre first, more on demand, and as a table.

const FIRST_ROWS = 20;
const list = byId("row-list");
let listed = []; // numbers of all rows that are on
let nListed = FIRST_ROWS;

function listRows() {
  byId("listed").hidden = !isFiltered();
  nListed = FIRST_ROWS;
  listed = [];
  if (isFiltered()) {
    for (let i = 0; i < n; i++) if (isOn(i)) listed.push(i);
    // rows of no cluster have no angle, and go last
    listed.sort((a, b) => angles[a] - angles[b] || a - b);
  }
  areWordsReady.then(fillList);
}

function fillList() {
  list.replaceChildren(...listed.slice(0, nListed).map(rowItem));
  const left = listed.length - nListed;
  byId("more-rows").hidden = left <= 0;
  byId("more-rows").textContent = left > 100 ? `Show 100 more of ${left.toLocaleString("en")}` : `Show ${left} more`;
  byId("download").textContent = `Download ${listed.length.toLocaleString("en")} rows as csv`;
}

function rowItem(i) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  const picture = thumb(i);
  if (picture) button.append(picture);
  const said = document.createElement("span");
  said.textContent = (words.texts && words.texts[i]) || rowName(i);
  const more = document.createElement("small");
  const angle = angles[i] === 255 ? "" : `, ${degrees(angles[i], data.angleScale)}`;
  const which = selected.size === 1 ? "" : `, ${clusterName(codes[i])}`;
  more.textContent = `${words.texts ? rowName(i) : ""}${which}${angle}${belonging(i)}`.replace(/^, /, "");
  button.append(said, more);
  button.addEventListener("click", () => goTo(i));
  item.append(button);
  return item;
}

byId("more-rows").addEventListener("click", () => {
  nListed += 100;
  fillList();
});

// a cell of the table: quoted where it must be; what a spreadsheet would run begins with an apostrophe
function cell(value) {
  let text = String(value);
  if (/^'*[=+\-@\t\r\n]/.test(text) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function tableOf(chosen) {
  const heads = ["row", ...(words.ids ? ["id"] : []), ...(words.texts ? ["text"] : []), "cluster", "name", "degrees"];
  const lines = chosen.map((i) => [
    rows ? rows[i] : i,
    ...(words.ids ? [words.ids[i]] : []),
    ...(words.texts ? [words.texts[i]] : []),
    codes[i] < nClusters ? data.names[codes[i]] : codes[i] === NOISE ? -1 : "",
    wordsOf(codes[i]),
    angles[i] === 255 ? "" : (angles[i] * data.angleScale).toFixed(2),
    ...(membership ? [membership[i] === 255 ? "" : (membership[i] / 254).toFixed(3)] : []),
  ]);
  const all = [[...heads, ...(membership ? ["membership"] : [])], ...lines];
  return all.map((line) => line.map(cell).join(",")).join("\n") + "\n";
}

byId("download").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([tableOf(listed)], { type: "text/csv" }));
  link.download = "selection.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});

// the flat map

const flatButton = byId("flat");
if (flat) {
  flatButton.hidden = false;
  flatButton.title = `Flat map by ${data.flatName}`;
  flatButton.addEventListener("click", () => {
    isFlat = !isFlat;
    flatButton.setAttribute("aria-pressed", String(isFlat));
    flatButton.textContent = isFlat ? "Globe" : "Map";
    hide();
    goBack();
  });
}
