
// ---- plots of points on logarithmic axes --------------------------------------------------------

// Ticks at powers of `base` over [low, high], at most about `most`.
function logTicks(low, high, base, most) {
  const from = Math.floor(Math.log(low) / Math.log(base) + 1e-9), to = Math.ceil(Math.log(high) / Math.log(base) - 1e-9);
  const step = Math.max(1, Math.ceil((to - from) / most));
  const ticks = [];
  // Less than three decades: 1, 2 and 5 of each.
  const between = base === 10 && to - from <= 3 ? [1, 2, 5] : [1];
  for (let e = from; e <= to; e += step) for (const m of between) ticks.push(m * base ** e);
  return ticks;
}
function si(x) {
  for (const [unit, scale] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (Math.abs(x) >= scale) return `${figure(x / scale)} ${unit}`;
  return figure(x);
}

// Points of a mark of their own kind, so that colour is never alone in telling them apart.
function mark(kind, x, y, colour, text) {
  const shape = kind === "square" ? s("rect", { x: x - 5, y: y - 5, width: 10, height: 10, rx: 1.5, fill: colour })
    : kind === "diamond" ? s("path", { d: `M${x} ${y - 7} L${x + 7} ${y} L${x} ${y + 7} L${x - 7} ${y} Z`, fill: colour })
    : s("circle", { cx: x, cy: y, r: 5.5, fill: colour });
  shape.append(s("title", {}, text));
  return shape;
}
function keyMark(kind, colour) {
  return s("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", class: "mark" }, mark(kind, 8, 8, colour, ""));
}

// A number beside each point, at the first of some places that no mark and no other number takes; where
// all are taken, further up.
function tags(points, px, py, w, height) {
  const taken = points.map((p) => [px(p.x) - 6, py(p.y) - 6, px(p.x) + 6, py(p.y) + 6]);
  const free = (box) => box[0] >= 0 && box[2] <= w && box[1] >= 0 && box[3] <= height && taken.every((t) => box[2] <= t[0] || box[0] >= t[2] || box[3] <= t[1] || box[1] >= t[3]);
  const places = [[9, -6], [9, 16], [-9, -6], [-9, 16]];
  for (let up = 10; up < 130; up += 12) places.push([0, -up], [0, up + 8]);
  return points.map((p) => {
    const wide = 7 * String(p.tag).length, x = px(p.x), y = py(p.y);
    const box = ([dx, dy]) => { const from = dx > 0 ? x + dx : dx < 0 ? x + dx - wide : x - wide / 2; return [from, y + dy - 9, from + wide, y + dy]; };
    const [dx, dy] = places.find((place) => free(box(place))) || places[0];
    taken.push(box([dx, dy]));
    return s("text", { x: x + dx, y: y + dy, "text-anchor": dx > 0 ? "start" : dx < 0 ? "end" : "middle", class: "value" }, p.tag);
  });
}

// axes: {label, base, format, linear}; series: [{name, colour, mark, points: [{x, y, text, tag}], line}];
// over: [{points: [[x, y]], name, step}] are lines without marks.
function plot({ label, x, y, series: all, over = [], height = 320 }) {
  const points = all.flatMap((one) => one.points);
  const range = (axis, values) => {
    const low = Math.min(...values), high = Math.max(...values);
    if (axis.linear) return [0, high * 1.08 || 1];
    return axis.base === 2 ? [low / 1.4, high * 1.4] : [low / 1.6, high * 1.6];
  };
  const xs = range(x, [...points.map((p) => p.x), ...over.flatMap((o) => (o.stretch ? [] : o.points.map((p) => p[0])))]);
  const ys = range(y, [...points.map((p) => p.y), ...over.flatMap((o) => o.points.filter((p) => p[0] >= xs[0] && p[0] <= xs[1]).map((p) => p[1]))]);
  const keys = all.length > 1 || over.some((o) => o.name) ? h("div", { class: "key" },
    all.map((one) => h("span", {}, keyMark(one.mark, one.colour), one.name)),
    over.filter((o) => o.name).map((o) => h("span", {}, s("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", class: "mark" },
      s("line", { x1: 0, x2: 16, y1: 8, y2: 8, stroke: "var(--soft)", "stroke-width": 2, "stroke-dasharray": o.dash })), o.name))) : null;
  return h("div", {}, keys, chart((w) => {
    const left = 58, right = 14, top = 28, bottom = 44;
    const at = (axis, [low, high], from, to) => (v) => (axis.linear ? from + (to - from) * (v - low) / (high - low)
      : from + (to - from) * Math.log(v / low) / Math.log(high / low));
    const px = at(x, xs, left, w - right), py = at(y, ys, height - bottom, top);
    const ticksOf = (axis, [low, high], most) => (axis.linear ? axis.ticks(high) : logTicks(low, high, axis.base, most)).filter((v) => v >= low * 0.999 && v <= high * 1.001);
    const g = [];
    for (const v of ticksOf(y, ys, 7))
      g.push(s("line", { x1: left, x2: w - right, y1: py(v), y2: py(v), class: "axis" }),
        s("text", { x: left - 8, y: py(v) + 4, "text-anchor": "end" }, y.format(v)));
    const xTicks = ticksOf(x, xs, w < 500 ? 4 : 8);
    for (const v of xTicks)
      g.push(s("line", { x1: px(v), x2: px(v), y1: top, y2: height - bottom, class: "axis" }),
        s("text", { x: px(v), y: height - bottom + 18, "text-anchor": "middle" }, x.format(v)));
    g.push(s("text", { x: w - right, y: height - 6, "text-anchor": "end" }, x.label),
      s("text", { x: 0, y: 14, "text-anchor": "start" }, y.label));
    for (const o of over) {
      const inside = o.points.map(([a, b]) => [px(Math.min(Math.max(a, xs[0]), xs[1])), py(Math.min(Math.max(b, ys[0]), ys[1]))]);
      const d = inside.map(([a, b], i) => (i === 0 ? `M${a.toFixed(1)} ${b.toFixed(1)}` : o.step ? `H${a.toFixed(1)} V${b.toFixed(1)}` : `L${a.toFixed(1)} ${b.toFixed(1)}`)).join("");
      g.push(s("path", { d, fill: "none", stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": o.dash }));
    }
    const tagged = [];
    for (const one of all) {
      if (one.line && one.points.length > 1)
        g.push(s("path", { d: one.points.map((p, i) => `${i ? "L" : "M"}${px(p.x).toFixed(1)} ${py(p.y).toFixed(1)}`).join(""), fill: "none", stroke: one.colour, "stroke-width": 1.5, opacity: 0.6 }));
      for (const p of one.points) {
        g.push(mark(one.mark, px(p.x), py(p.y), one.colour, p.text));
        if (p.tag) tagged.push(p);
      }
    }
    g.push(...tags(tagged, px, py, w, height));
    return { height, label, g };
  }));
}

// A plot's data: the table behind one click, the same rows as CSV behind another.
// columns: [[name, css]]; rows hold numbers and texts as they are; shown(row) gives the table's cells.
function dataOf(name, columns, rows, shown = (row) => row.map((v) => (isNumber(v) ? figure(v) : v))) {
  const quote = (v) => (v === undefined || v === null ? "" : /[",\n]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v));
  const csv = () => `${[columns.map(([c]) => c), ...rows].map((row) => row.map(quote).join(",")).join("\n")}\n`;
  return h("div", { class: "data" },
    h("button", { type: "button", class: "csv", onclick: () => download(`etalon-${name}.csv`, "text/csv", csv()) }, "Data as CSV"),
    h("details", {}, h("summary", {}, "Data as a table"), table(columns, rows.map(shown), `Data of ${name}`)));
}

// A choice above a plot: draws `draw(value)` now and when another is chosen.
function chooser(label, id, options, draw) {
  const place = h("div", {});
  const show = (value) => place.replaceChildren(draw(value));
  show(options[0][0]);
  if (options.length === 1) return [h("p", { class: "small soft" }, options[0][1]), place];
  const select = h("select", { id, onchange: () => show(options[Number(select.value)][0]) },
    options.map(([, text], i) => h("option", { value: i }, text)));
  return [h("p", { class: "choose" }, h("label", { for: id }, label), " ", select), place];
}
