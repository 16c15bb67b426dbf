// What the page knows of the rows, and which of them are shown.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const n = data.n;
const nClusters = data.names.length;
const places = new Int16Array(bytes(data.places).buffer);
const codes = new Uint16Array(bytes(data.codes).buffer);
const angles = bytes(data.angles);
const nextCodes = new Uint16Array(bytes(data.nextCodes).buffer);
const nextAngles = bytes(data.nextAngles);
const rows = data.rows && new Uint32Array(bytes(data.rows).buffer);
const NOISE = nClusters;
const words = { ids: null, texts: null };

async function unpack(name) {
  if (!data[name] || typeof DecompressionStream === "undefined") return;
  const stream = new Blob([bytes(data[name])]).stream().pipeThrough(new DecompressionStream("deflate"));
  words[name] = JSON.parse(await new Response(stream).text());
}
const areWordsReady = Promise.all([unpack("ids"), unpack("texts")]).catch(() => undefined);

const membership = data.membership && bytes(data.membership);
const flat = data.flat && new Int16Array(bytes(data.flat).buffer);
const wordsOf = (code) => (code < nClusters && data.words[code]) || "";
const clusterName = (code) =>
  code < nClusters ? `cluster ${data.names[code]}${wordsOf(code) ? ` (${wordsOf(code)})` : ""}` : code === NOISE ? "in no cluster" : "a smaller cluster";
const rowName = (i) => (words.ids ? words.ids[i] : `row ${rows ? rows[i] : i}`);
const degrees = (value, step) => {
  const angle = value * step;
  return `${angle >= 10 ? angle.toFixed(0) : angle.toFixed(1)}°`;
};

// What is shown:

const selected = new Set();
let query = "";
let isMatch = null; // of rows, while something is searched
let hovered = -1;
let pinned = -1; // the row that was last asked for

const isFiltered = () => selected.size > 0 || isMatch !== null;
const isOn = (i) => (selected.size === 0 || selected.has(codes[i])) && (isMatch === null || isMatch[i] === 1);
