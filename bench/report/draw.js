// What all sections draw with: elements, numbers in words, tables, charts, downloads.
//
// The scripts of the page are one function, in the sequence of report.cpp. Everything is drawn from the
// record in #record, and from nothing else. Text of the record only ever becomes text nodes and
// attributes, never markup.
const record = JSON.parse(document.getElementById("record").textContent);
const page = document.getElementById("page");
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== undefined && child !== null && child !== false)
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// ---- numbers in words ---------------------------------------------------------------------

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
function figure(x) {
  if (x === "inf" || x === "-inf") return x === "inf" ? "∞" : "−∞";
  if (x === undefined || x === null || x === "nan" || !isNumber(x)) return "–";
  const a = Math.abs(x);
  if (a === 0) return "0";
  if (a < 0.001 || a >= 1e7) {
    const e = Math.floor(Math.log10(a));
    return `${(x / 10 ** e).toFixed(1)}·10${[...String(e)].map((c) => SUPERSCRIPT[c]).join("")}`;
  }
  if (a < 10) return String(Number(x.toFixed(a < 0.1 ? 3 : 2)));
  if (a < 100) return String(Number(x.toFixed(1)));
  return Math.round(x).toLocaleString("en").replace(/,/g, "\u202f");
}
const ulp = (x) => (x === undefined ? "–" : `${figure(x)} ULP`);
function percent(share) {
  if (!isNumber(share)) return "–";
  if (share === 1) return "100 %";
  if (share > 1) return `${figure(100 * share)} %`;
  if (share > 0.9999) return ">99.99 %";
  if (share > 0 && share < 0.0001) return "<0.01 %";
  return `${Number((100 * share).toFixed(share > 0.99 || share < 0.01 ? 2 : 1))} %`;
}
function seconds(t) {
  if (!isNumber(t)) return "–";
  for (const [unit, scale] of [["s", 1], ["ms", 1e3], ["µs", 1e6], ["ns", 1e9]])
    if (t * scale >= 1 || unit === "ns") return `${Number((t * scale).toPrecision(3))} ${unit}`;
}
function bytes(n) {
  if (!isNumber(n)) return "–";
  if (n >= 2 ** 30) return `${(n / 2 ** 30).toFixed(2)} GiB`;
  if (n >= 10 * 2 ** 20) return `${(n / 2 ** 20).toFixed(0)} MiB`;
  if (n >= 2 ** 20) return `${(n / 2 ** 20).toFixed(1)} MiB`;
  return n >= 1024 ? `${(n / 1024).toFixed(1)} KiB` : `${n} B`;
}
const list = (words) => (words.length < 2 ? words.join("") :
  `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);
const COUNT = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const count = (n, one, many) => `${COUNT[n] || n} ${n === 1 ? one : many}`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// ---- sections -----------------------------------------------------------------------------

const sections = [];
function section(id, heading, ...content) {
  sections.push([id, heading]);
  page.append(h("section", { "aria-labelledby": id }, h("h2", { id, tabindex: -1 }, heading), ...content));
}
const table = (columns, rows, label) => h("table", { class: "cards", "aria-label": label },
  h("thead", {}, h("tr", {}, columns.map(([name, css]) => h("th", { scope: "col", class: css }, name)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => (i === 0
    ? h("th", { scope: "row" }, cell)
    : h("td", { class: columns[i][1], "data-label": columns[i][0] }, cell)))))));
const figures = (pairs) => h("dl", { class: "figures" },
  pairs.filter(([, value]) => value !== undefined).map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))));
const shareBar = (share, colour) => (isNumber(share)
  ? h("span", { class: "bar", "aria-hidden": "true" }, h("i", { style: `width:${100 * share}%;--fill:${colour || "var(--accent)"}` })) : null);

const series = (i) => `var(--s${(i % 5) + 1})`;

// A drawing that is made again when its width changes. draw(width) -> {height, label, g}
function chart(draw, limit) {
  const box = h("div", { class: "chart", style: limit ? `max-width:${limit}px` : undefined });
  let last = 0;
  const redraw = () => {
    const width = Math.floor(box.clientWidth);
    if (!width || width === last) return;
    last = width;
    const { height, label, g } = draw(width);
    box.replaceChildren(s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, g));
  };
  new ResizeObserver(redraw).observe(box);
  return box;
}

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
