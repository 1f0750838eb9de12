// Validations, surveys and runs; what every page ends with; and the sequence of the sections.

// ---- verdicts -----------------------------------------------------------------------------

const VERDICTS = {
  identical: { css: "identical", rank: 0, holds: true, mark: "M3 8.5 L6.5 12 L13 4.5",
    means: "Every bit equals the reference. There is nothing to discuss." },
  explained: { css: "explained", rank: 1, holds: true, mark: "M3 6 C5 3.5 7 3.5 8 5.2 S11 7 13 4.5 M3 11.5 C5 9 7 9 8 10.7 S11 12.5 13 10",
    means: "The answer differs in its last digits, by no more than adding the same numbers in another order can cause. It is as good an answer as any other 32-bit program's." },
  undecided: { css: "undecided", rank: 3, holds: false, mark: "M5 5.5 C5 2 11.5 2 11 6 C10.7 8 8 8 8 10.2 M8 13 L8 13.2",
    means: "For these inputs even a faultless program may be this far off, so no judgement is possible. It does not count as passing." },
  "lower precision": { css: "lower", rank: 2, holds: false, mark: "M8 2.5 L8 13 M3.5 8.5 L8 13 L12.5 8.5",
    means: "The error is larger than 32-bit arithmetic can cause, and fits arithmetic with fewer digits. The numbers were shortened on the way." },
  wrong: { css: "wrong", rank: 4, holds: false, mark: "M3.5 3.5 L12.5 12.5 M12.5 3.5 L3.5 12.5",
    means: "Neither the order of the additions nor fewer digits explain this answer. Something else was computed." },
};
const NONE = { css: "none", rank: -1, holds: false, mark: "M3 8 L13 8", means: "" };
const verdictOf = (word) => VERDICTS[word] || NONE;

function chip(word) {
  const v = verdictOf(word);
  return h("span", { class: `chip v-${v.css}` },
    s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
      s("path", { d: v.mark, fill: "none", stroke: "currentColor", "stroke-width": 2.2, "stroke-linecap": "round", "stroke-linejoin": "round" })),
    word || "not judged");
}

const title = (t) => `${t.framework || t.target}${t.version ? ` ${t.version}` : ""}`;
const judged = (t) => t.status === "ok";
const items = (t) => [...(t.layers || []), ...(t.layers && t.layers.length ? [] : t.outputs || [])];
const worstOf = (t) => t.verdict || [...(t.layers || []), ...(t.outputs || [])].reduce(
  (w, j) => (verdictOf(j.verdict).rank > verdictOf(w).rank ? j.verdict : w), undefined);
const maximum = (values) => values.reduce((m, x) => (x === "inf" ? Infinity : isNumber(x) ? Math.max(m, x) : m), -Infinity);
const finite = (x) => (x === Infinity ? "inf" : x === -Infinity ? undefined : x);

// One plain sentence for people who never heard of an ULP.
function sentence(t) {
  if (!judged(t)) return `Could not be judged: ${t.reason || "no reason was given."}`;
  const word = worstOf(t);
  const at = t.first_divergence;
  const layers = items(t);
  const bad = layers.find((l) => l.name === at || l.node === at) || layers.find((l) => !verdictOf(l.verdict).holds);
  const place = bad ? ` It begins at ${bad.op ? `the ${bad.op} ` : ""}layer ${bad.node || bad.name}.` : "";
  const cause = bad && bad.cause ? ` What fits: ${bad.cause}.` : "";
  if (bad && bad.sentence) return bad.sentence;
  if (word === "identical") return "Every bit of every layer equals the reference.";
  if (word === "explained")
    return "The answers differ in their last digits, by no more than adding the same numbers in another order can cause. Nothing is wrong.";
  return `${verdictOf(word).means}${place}${cause}`;
}

const validate = record.validate;
const targets = (validate && validate.targets) || [];

function header() {
  const model = (validate && validate.model) || record.model || {};
  const name = model.path ? model.path.split("/").pop() : "";
  const what = validate ? "Validation" : record.bench || record.compare || record.order ? "Benchmark" : record.survey ? "Survey" : "Run";
  page.append(h("header", {},
    h("p", { class: "eyebrow" }, gpu ? "Etalon report of a GPU" : `Etalon ${what.toLowerCase()} report`),
    h("h1", {}, gpu ? `${gpu.device.split(",")[0]}: the same bits, and what they cost` : name ? `${name}: what was computed, and how far it is from exact` :
      record.bench ? "How fast, and at what price in accuracy" : record.order ? "Order matters" : record.compare ? "Faster, slower, or only noise" : "What was computed"),
    validate || gpu ? h("p", { class: "lead" }, gpu ? gpuSummary() : summary()) : null,
    h("p", { class: "small soft" }, h("code", {}, record.command || ""))));
  page.append(h("nav", { class: "toc", "aria-label": "On this page" }));
}

function summary() {
  const ok = targets.filter(judged);
  const holding = ok.filter((t) => verdictOf(worstOf(t)).holds);
  const failing = ok.filter((t) => !verdictOf(worstOf(t)).holds);
  const absent = targets.filter((t) => !judged(t));
  const parts = [];
  if (holding.length)
    parts.push(`${list(holding.map(title))} ${holding.length === 1 ? "is" : "are"} right: ${
      holding.every((t) => worstOf(t) === "identical") ? "bit for bit equal to the reference" :
      "different from the exact answer only in the last digits, as rounding explains"}.`);
  for (const t of failing) {
    const word = worstOf(t);
    parts.push(`${title(t)} ${word === "wrong" ? "is wrong" : word === "lower precision" ? "computes with lower precision" : "cannot be decided"}${
      t.first_divergence ? `, first at ${t.first_divergence}` : ""}.`);
  }
  if (absent.length) parts.push(`${capital(count(absent.length, "target", "targets"))} could not be judged.`);
  return parts.join(" ") || "No target was judged.";
}

function findings() {
  const cards = targets.map((t) => {
    const word = judged(t) ? worstOf(t) : undefined;
    const all = items(t);
    const outs = t.outputs && t.outputs.length ? t.outputs : all;
    const elements = all.reduce((n, l) => n + (l.elements || 0), 0);
    const weighted = (field) => {
      const known = all.filter((l) => isNumber(l[field]));
      const n = known.reduce((m, l) => m + (l.elements || 1), 0);
      return n ? known.reduce((m, l) => m + l[field] * (l.elements || 1), 0) / n : undefined;
    };
    return h("article", { class: `finding v-${verdictOf(word).css}` },
      h("header", {}, h("h3", {}, title(t)), judged(t) ? chip(word) : h("span", { class: "chip v-none" }, t.status || "not run"),
        t.target && t.target !== t.framework ? h("code", { class: "soft" }, t.target) : null),
      h("p", {}, sentence(t)),
      judged(t) ? figures([
        ["largest error in a layer", ulp(finite(maximum(all.map((l) => l.max_ulp))))],
        ["largest error at the end", ulp(finite(maximum(outs.map((l) => l.max_ulp))))],
        ["correctly rounded", percent(weighted("correctly_rounded"))],
        ["bits equal to the reference", percent(weighted("bits_equal"))],
        ["numbers compared", elements ? figure(elements) : undefined],
        ["changed labels", t.labels ? `${t.labels.changed} of ${t.labels.samples}` : undefined],
      ]) : null,
      t.perturbed ? h("p", { class: "small soft" }, "Looking inside changed this framework's own result, so only values that its optimised network really holds are judged.") : null,
      t.parameters && t.parameters.equal === false ? h("p", { class: "small" },
        `Weights as the framework holds them differ from the file: ${list((t.parameters.changed || []).map((c) => `${c.name}${c.element !== undefined ? ` at element ${c.element}` : ""}${c.bit !== undefined ? `, bit ${c.bit}` : ""}`))}.`) : null,
      (t.refused || []).length ? h("details", { class: "small" }, h("summary", {}, `${capital(count(t.refused.length, "node was", "nodes were"))} refused`),
        h("ul", {}, t.refused.map((r) => h("li", {}, `${r.node} (${r.op}): ${r.reason}`)))) : null,
      t.replay ? h("details", { class: "small" }, h("summary", {}, "See it again"), h("pre", {}, t.replay.command || ""),
        (t.replay.files || []).length ? h("p", { class: "soft" }, `Files: ${t.replay.files.join(", ")}`) : null) : null);
  });
  section("findings", "What was found",
    h("p", { class: "soft" }, "Errors are given in ULP, the gap between a number and its neighbour. ", h("a", { href: "#words" }, "What the words mean")),
    cards, h("h3", {}, "Outputs of the network, end to end"), outputsTable());
}

function outputsTable() {
  const rows = [];
  for (const t of targets) {
    if (!judged(t)) { rows.push([title(t), "–", chip(undefined), "–", "–", "–", "–"]); continue; }
    for (const o of t.outputs || [])
      rows.push([title(t), h("code", {}, o.name), chip(o.verdict), figure(o.max_ulp), figure(o.mean_ulp),
        percent(o.correctly_rounded), percent(o.bits_equal)]);
  }
  return table([["Framework", ""], ["Output", ""], ["Verdict", ""], ["Max error, ULP", "n"], ["Mean error, ULP", "n"],
    ["Correctly rounded", "n"], ["Bits equal", "n"]], rows, "Outputs");
}

function words() {
  section("words", "What the words mean",
    h("dl", { class: "words" },
      Object.entries(VERDICTS).sort((a, b) => a[1].rank - b[1].rank).map(([word, v]) => [h("dt", {}, chip(word)), h("dd", {}, v.means)])),
    h("h3", {}, "ULP"),
    h("p", {}, "A computer holds a number with about seven digits. One ULP (unit in the last place) is the gap between a number and the next one it can hold. ",
      "An error of half an ULP is the least possible: the exact value rounded once. One ULP on a result near 1 is 0.00000012."),
    ulpPicture(),
    validate && validate.reference ? h("p", { class: "soft small" },
      `Errors are counted from ${validate.reference.truth || "the exact value of each operation on its own inputs"}`,
      validate.reference.contract ? [", bits from the contract ", h("code", {}, validate.reference.contract), "."] : ".") : null);
}

function ulpPicture() {
  return chart((w) => {
    const height = 74, n = 5, step = (w - 40) / (n - 1), x = (u) => 20 + u * step, mid = 2;
    const g = [s("line", { x1: 8, x2: w - 8, y1: 40, y2: 40, class: "axis" })];
    for (let i = 0; i < n; i++) g.push(s("line", { x1: x(i), x2: x(i), y1: 33, y2: 47, stroke: "var(--soft)" }));
    g.push(s("circle", { cx: x(mid + 0.3), cy: 40, r: 4, fill: "var(--accent)" }),
      s("text", { x: x(mid + 0.3) + 4, y: 22, "text-anchor": "start", class: "value" }, "exact value"),
      s("text", { x: x(mid), y: 66, "text-anchor": "middle" }, "best answer"),
      s("text", { x: x(mid + 1), y: 66, "text-anchor": "middle" }, "0.7 ULP off"),
      w > 420 ? s("text", { x: x(0), y: 66, "text-anchor": "middle" }, " ") : null,
      s("path", { d: `M${x(0)} 26 L${x(0)} 22 L${x(1)} 22 L${x(1)} 26`, fill: "none", stroke: "var(--soft)" }),
      s("text", { x: (x(0) + x(1)) / 2, y: 15, "text-anchor": "middle" }, "1 ULP"));
    return { height, label: "Numbers a computer can hold, one ULP apart; the exact value lies between two of them", g };
  }, 560);
}

// ---- error along the network --------------------------------------------------------------

const log2 = (x) => Math.log2(Math.max(x, 0.25));
function powers(top) {
  const ticks = [];
  const step = top > 12 ? 4 : top > 6 ? 2 : 1;
  for (let e = 0; e <= top; e += step) ticks.push(e);
  return ticks;
}

function growth() {
  const shown = targets.filter((t) => judged(t) && (t.layers || []).length > 1);
  if (!shown.length) return;
  const top = Math.max(2, Math.ceil(log2(Math.max(...shown.flatMap((t) => t.layers.map((l) => (isNumber(l.max_ulp) ? l.max_ulp : 0)))))));
  const names = shown.reduce((longest, t) => (t.layers.length > longest.length ? t.layers.map((l) => l.name) : longest), []);
  section("growth", "Error along the network",
    h("p", { class: "soft" }, "The largest error of each layer, first to last, when the layer is given the framework's own input. A single peak points at one layer; a flat line is what rounding looks like."),
    h("div", { class: "key" }, shown.map((t) => h("span", { style: `--fill:${series(targets.indexOf(t))}` }, h("i", {}), title(t)))),
    chart((w) => {
      const left = 46, bottom = 24, height = 210, right = 8;
      const y = (u) => 10 + (height - bottom - 10) * (1 - (log2(u) + 2) / (top + 2));
      const x = (i) => left + (w - left - right) * (names.length > 1 ? i / (names.length - 1) : 0.5);
      const g = powers(top).flatMap((e) => [
        s("line", { x1: left, x2: w - right, y1: y(2 ** e), y2: y(2 ** e), class: "axis" }),
        s("text", { x: left - 8, y: y(2 ** e) + 4, "text-anchor": "end" }, figure(2 ** e))]);
      g.push(s("text", { x: left, y: height - 4 }, "first layer"), s("text", { x: w - right, y: height - 4, "text-anchor": "end" }, "last layer"));
      shown.forEach((t) => {
        const colour = series(targets.indexOf(t));
        const points = t.layers.map((l) => [names.indexOf(l.name), l]).filter(([i, l]) => i >= 0 && (isNumber(l.max_ulp) || l.max_ulp === "inf"))
          .map(([i, l]) => [x(i), y(isNumber(l.max_ulp) ? Math.min(l.max_ulp, 2 ** top) : 2 ** top), l]);
        g.push(s("path", { d: points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join(""), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round" }));
        for (const [px, py, l] of points)
          g.push(s("circle", { cx: px, cy: py, r: verdictOf(l.verdict).holds ? 2.5 : 5, fill: verdictOf(l.verdict).holds ? colour : "var(--wrong)" },
            s("title", {}, `${title(t)}, ${l.node || l.name}: ${ulp(l.max_ulp)}, ${l.verdict}`)));
      });
      return { height, label: `Largest error in ULP of each of ${names.length} layers, for ${list(shown.map(title))}`, g };
    }));
}

// ---- the graph ----------------------------------------------------------------------------

// Rows are nodes in order. A value that the next row reads is a straight line; one that is read
// further down travels in a lane at the left, which all its readers share.
function layOut(rows) {
  const maker = new Map();
  rows.forEach((r, i) => r.outputs.forEach((o) => maker.set(o, i)));
  const straight = rows.map(() => false), spans = [];
  rows.forEach((r, i) => {
    for (const name of new Set(r.inputs)) {
      if (!maker.has(name) || maker.get(name) >= i) continue;
      const from = maker.get(name);
      if (from === i - 1) { straight[from] = true; continue; }
      const known = spans.find((p) => p.from === from);
      if (known) { known.to = Math.max(known.to, i); known.readers.push(i); } else spans.push({ from, to: i, readers: [i] });
    }
  });
  const free = [];
  spans.sort((a, b) => a.from - b.from);
  for (const p of spans) {
    let lane = free.findIndex((until) => until <= p.from);
    if (lane < 0) lane = free.length;
    free[lane] = p.to;
    p.lane = lane;
  }
  return { straight, spans, lanes: free.length };
}

function rail(i, layout, colour, marked) {
  const { straight, spans, lanes } = layout;
  const gap = lanes > 8 ? Math.max(4, 64 / lanes) : 9, width = 26 + lanes * gap, dot = width - 13, y = 22;
  const laneX = (lane) => dot - 12 - lane * gap;
  const g = [];
  const line = (x, y1, y2) => g.push(s("line", { x1: x, x2: x, y1, y2, stroke: "var(--soft)", "stroke-width": 1.5 }));
  if (i > 0 && straight[i - 1]) line(dot, 0, y);
  if (straight[i]) line(dot, y, "100%");
  for (const p of spans) {
    const x = laneX(p.lane);
    if (p.from < i && i < p.to) line(x, 0, "100%");
    const path = (d) => g.push(s("path", { d, fill: "none", stroke: "var(--soft)", "stroke-width": 1.5 }));
    if (p.from === i) { path(`M${dot} ${y} C${dot} ${y + 12} ${x} ${y + 6} ${x} ${y + 20}`); line(x, y + 20, "100%"); }
    if (p.readers.includes(i)) path(`M${x} 0 L${x} 2 C${x} ${y - 6} ${dot} ${y - 12} ${dot} ${y}`);
  }
  g.push(s("circle", { cx: dot, cy: y, r: marked ? 8 : 5, fill: colour, stroke: "var(--paper)", "stroke-width": 2 }));
  if (marked) g.push(s("path", { d: `M${dot - 3} ${y - 3} L${dot + 3} ${y + 3} M${dot + 3} ${y - 3} L${dot - 3} ${y + 3}`, stroke: "var(--card)", "stroke-width": 2 }));
  return h("div", { class: "rail", style: `width:${width}px`, "aria-hidden": "true" }, s("svg", {}, g));
}

let chosen = Math.max(0, targets.findIndex((t) => judged(t) && !verdictOf(worstOf(t)).holds));
if (targets.length && !judged(targets[chosen])) chosen = Math.max(0, targets.findIndex(judged));

function graphSection() {
  const any = targets.some((t) => judged(t) && items(t).length);
  if (!any) return;
  const drawn = h("div", {});
  const tabs = h("div", { class: "buttons", role: "group", "aria-label": "Framework shown" });
  const show = () => {
    tabs.replaceChildren(...targets.map((t, i) => (judged(t) && items(t).length ? h("button", {
      type: "button", "aria-pressed": String(i === chosen), onclick: () => { chosen = i; show(); } }, title(t)) : null)).filter(Boolean));
    drawn.replaceChildren(drawGraph(targets[chosen]));
  };
  section("network", "The network, layer by layer",
    h("p", { class: "soft" }, "Each row is one operation, fed with the framework's own input of it. Choose a row for its error distribution. Lines show which result goes where."),
    tabs, drawn);
  show();
}

function drawGraph(target) {
  const layers = items(target);
  const byValue = new Map(layers.map((l) => [l.name, l]));
  const byNode = new Map(layers.filter((l) => l.node).map((l) => [l.node, l]));
  const graph = validate.graph;
  let rows;
  if (graph && (graph.nodes || []).length) {
    rows = (graph.inputs || []).map((i) => ({ name: i.name, op: "input", quiet: true, inputs: [], outputs: [i.name],
      note: `${i.dtype || ""}${i.dims ? `[${i.dims.map((d) => (d === null || d < 0 ? "any" : d)).join(",")}]` : ""}` }));
    for (const n of graph.nodes)
      rows.push({ name: n.name, op: n.op, params: n.params, inputs: (n.inputs || []).filter(Boolean), outputs: (n.outputs || []).filter(Boolean),
        layer: (n.outputs || []).map((o) => byValue.get(o)).find(Boolean) || byNode.get(n.name) });
  } else {
    rows = layers.map((l, i) => ({ name: l.node || l.name, op: l.op || "", layer: l, inputs: i ? [layers[i - 1].name] : [], outputs: [l.name] }));
  }
  const layout = layOut(rows);
  const top = Math.max(2, log2(maximum(layers.map((l) => (isNumber(l.max_ulp) ? l.max_ulp : 0)))));
  const first = target.first_divergence;
  const isFirst = (r) => first !== undefined && first !== null && first !== "" && (r.name === first || (r.layer && r.layer.name === first));
  const open = rows.find(isFirst) || rows.filter((r) => r.layer).sort((a, b) => (maximum([b.layer.max_ulp]) - maximum([a.layer.max_ulp])) || 0)[0];
  return h("ol", { class: "graph" }, rows.map((r, i) => {
    const marked = isFirst(r);
    const colour = r.layer ? `var(--${verdictOf(r.layer.verdict).css === "none" ? "soft" : verdictOf(r.layer.verdict).css})` : "var(--soft)";
    if (!r.layer)
      return h("li", {}, rail(i, layout, "var(--line)", false), h("div", { class: "node quiet" },
        h("span", { class: "who" }, h("b", {}, r.op), h("span", {}, r.name, r.note ? ` ${r.note}` : r.quiet ? "" : " (not judged)"))));
    const panel = h("div", { class: "panel", id: `layer-${i}`, hidden: r !== open });
    if (r === open) panel.append(...detail(r));
    const share = Math.min(1, Math.max(0.01, (log2(maximum([r.layer.max_ulp])) + 2) / (top + 2)));
    const button = h("button", { type: "button", "aria-expanded": String(r === open), "aria-controls": `layer-${i}`,
      onclick: () => {
        const opening = panel.hidden;
        if (opening && !panel.childNodes.length) panel.append(...detail(r));
        panel.hidden = !opening;
        button.setAttribute("aria-expanded", String(opening));
      } },
    h("span", { class: "who", title: `${r.op} ${r.name}` }, h("b", {}, r.op), h("span", {}, r.name), marked ? h("span", { class: "flag" }, "first") : null),
    chip(r.layer.verdict),
    h("span", { class: "size" }, h("span", { class: "bar", "aria-hidden": "true" }, h("i", { style: `width:${100 * share}%;--fill:${colour}` })),
      h("span", {}, ulp(r.layer.max_ulp))));
    return h("li", { class: marked ? "first" : undefined }, rail(i, layout, colour, marked), h("div", { class: "node" }, button, panel));
  }));
}

function detail(row) {
  const same = targets.map((t) => [t, items(t).find((l) => l.name === row.layer.name)]).filter(([t, l]) => judged(t) && l);
  const l = row.layer;
  return [
    h("p", {}, l.sentence || `${verdictOf(l.verdict).means}${l.cause ? ` What fits: ${l.cause}.` : ""}`),
    figures([
      ["largest error", ulp(l.max_ulp)], ["mean error", ulp(l.mean_ulp)],
      ["99.9 % are within", l.p999_ulp === undefined ? undefined : ulp(l.p999_ulp)],
      ["correctly rounded", percent(l.correctly_rounded)],
      ["bits equal", percent(l.bits_equal)],
      ["error any order could cause", l.bound_ulp === undefined ? undefined : ulp(l.bound_ulp)],
      ["share of that used", l.bound_used === undefined ? undefined : percent(l.bound_used)],
      ["end to end", l.propagated ? ulp(l.propagated.max_ulp) : undefined],
      ["infinities or NaN that do not match", l.non_finite || undefined],
      ["elements that differ", l.different],
      ["shape", l.shape ? `${l.dtype || ""}[${l.shape.join(", ")}]` : undefined],
    ]),
    row.params ? h("p", { class: "small soft" }, h("code", {}, typeof row.params === "string" ? row.params : JSON.stringify(row.params))) : null,
    l.worst ? h("p", { class: "small soft" }, `Worst at [${(l.worst.index || []).join(", ")}]: got `, h("code", {}, l.worst.got), ", exact ", h("code", {}, l.worst.expected)) : null,
    same.some(([, x]) => x.ulp_histogram) ? h("div", { class: "pair" }, same.filter(([, x]) => x.ulp_histogram).map(([t, x]) =>
      h("figure", { style: "margin:.8rem 0 0" }, h("figcaption", { class: "small" }, `${title(t)}: how many numbers have which error`), histogram(x.ulp_histogram, series(targets.indexOf(t)))))) : null,
  ].filter(Boolean);
}

function histogram(data, colour) {
  const total = data.counts.reduce((a, b) => a + b, 0) || 1;
  let last = data.counts.length - 1;
  while (last > 2 && data.counts[last] === 0) last--;
  const counts = data.counts.slice(0, last + 1);
  const name = (i) => (i < data.edges.length ? `≤ ${figure(data.edges[i])}` : `> ${figure(data.edges[data.edges.length - 1])}`);
  return chart((w) => {
    const row = 21, left = 62, right = 78, height = counts.length * row + 4;
    const widest = Math.max(...counts);
    const g = counts.flatMap((n, i) => {
      const width = n ? Math.max(1.5, (w - left - right) * n / widest) : 0;
      return [
        s("text", { x: left - 8, y: i * row + 15, "text-anchor": "end" }, name(i)),
        s("rect", { x: left, y: i * row + 4, width, height: row - 7, rx: 2, fill: colour }),
        s("text", { x: left + width + 6, y: i * row + 15, class: "value" }, n ? percent(n / total) : "0"),
      ];
    });
    return { height, label: `Error in ULP: ${counts.map((n, i) => `${name(i)}: ${percent(n / total)}`).join("; ")}`, g };
  });
}

// ---- time, benchmark, run -----------------------------------------------------------------

function timeSection() {
  const rows = [];
  const reference = validate.reference;
  if (reference && reference.time) rows.push(["Etalon", reference.contract, reference.time, "var(--soft)"]);
  targets.forEach((t, i) => { if (judged(t) && t.time) rows.push([title(t), t.target, t.time, series(i)]); });
  if (!rows.length) return;
  const longest = Math.max(...rows.map(([, , t]) => t.median_s));
  const threads = rows[0][2].threads;
  section("time", "Time",
    h("p", { class: "soft" }, `Median of one pass through the whole network${threads ? `, on ${count(threads, "thread", "threads")}` : ""}, measured in turns so that all see the same machine.`),
    h("div", { class: "times" }, rows.map(([name, what, t, colour]) => [
      h("span", {}, name, what && what !== name ? h("span", { class: "small soft" }, ` ${what}`) : null),
      h("span", { class: "bar bar-cell", role: "img", "aria-label": `${name}: ${seconds(t.median_s)}` }, h("i", { style: `width:${Math.max(0.5, 100 * t.median_s / longest)}%;--fill:${colour}` })),
      h("span", { class: "small" }, seconds(t.median_s), isNumber(t.min_s) && isNumber(t.max_s) ? h("span", { class: "soft" }, ` (${seconds(t.min_s)} to ${seconds(t.max_s)})`) : null)])),
    targets.some((t) => t.peak_bytes) ? h("p", { class: "small soft" }, `Peak memory: ${list(targets.filter((t) => t.peak_bytes).map((t) => `${title(t)} ${bytes(t.peak_bytes)}`))}.`) : null);
}

function surveySection() {
  const rows = record.survey.rows;
  const hex = (w) => (w ? h("code", {}, w.x) : "–");
  section("survey", record.survey.complete ? "Every one of the 2³² inputs" : "A sample of the 2³² inputs",
    h("p", { class: "soft" }, "A result is wrong where it is not the correctly rounded value. The error is counted from the exact value, in ULP; 0.5 is the least that a function can do. ",
      "Order: neighbouring inputs whose results go against the function's direction. Symmetry: f(−x) that is not ±f(x). Place: results that changed with an array's length or start."),
    table([["Function", ""], ["Library", ""], ["Wrong", "n"], ["Share", "n"], ["Max error, ULP", "n"], ["at", ""], ["Special values", "n"], ["Order", "n"], ["Symmetry", "n"], ["Place", "n"]],
      rows.map((r) => [r.function, r.version || r.library, figure(r.wrong),
        h("span", {}, percent(r.wrong / r.inputs), shareBar(r.wrong / r.inputs, r.wrong ? "var(--lower)" : "var(--explained)")),
        figure(r.max_ulp), hex(r.worst), figure(r.nan_wrong + r.infinity_wrong + r.zero_sign_wrong),
        r.monotone ? figure(r.order_breaks) : "–", r.symmetric ? figure(r.symmetry_breaks) : "–", figure(r.place_breaks)]), "Survey"),
    h("details", {}, h("summary", {}, "Witnesses"),
      table([["Function", ""], ["Library", ""], ["What", ""], ["Input", ""], ["Got", ""], ["Expected", ""]],
        rows.flatMap((r) => ["worst", "special", "order", "symmetry", "place"].filter((w) => r[w]).map((w) =>
          [r.function, r.version || r.library, w, hex(r[w]), h("code", {}, r[w].got), h("code", {}, r[w].expected)])), "Witnesses")),
    h("details", {}, h("summary", {}, "How far wrong results are from the right ones, in floats"),
      table([["Function", ""], ["Library", ""], ["1", "n"], ["2", "n"], ["3 to 4", "n"], ["5 to 8", "n"], ["more", "n"]],
        rows.map((r) => [r.function, r.version || r.library, ...r.histogram.slice(0, 4).map(figure), figure(r.histogram.slice(4).reduce((a, b) => a + b, 0))]), "Distances")));
}

function runSection() {
  const run = record.run;
  section("run", "What was computed",
    h("p", { class: "soft" }, "Contract ", h("code", {}, run.contract || ""), run.device ? ` on ${run.device}` : ""),
    table([["Output", ""], ["Type", ""], ["Hash", ""]], (run.outputs || []).map((o) => [h("code", {}, o.name), `${o.dtype}[${(o.shape || []).join(",")}]`, h("code", {}, o.hash)]), "Outputs"),
    (run.nodes || []).length ? h("details", {}, h("summary", {}, `${run.nodes.length} operations`),
      table([["Node", ""], ["Op", ""], ["Kernel", ""], ["Time", "n"], ["Hash", ""]], run.nodes.map((n) => [n.name, n.op, h("code", {}, n.kernel || ""), seconds(n.seconds), h("code", {}, n.hash || "")]), "Operations")) : null);
}

// ---- environment and data -----------------------------------------------------------------

function environment() {
  const machine = record.machine || {}, etalon = record.etalon || {};
  const pairs = [["Processor", machine.cpu], ["Instruction set used", machine.isa], ["Cores", machine.cores], ["System", machine.os], ["Compiler", machine.compiler],
    ["Etalon", `${etalon.version || ""}${etalon.commit ? `, commit ${etalon.commit}` : ""}`]];
  if (validate && validate.model) pairs.push(["Model", [validate.model.path, validate.model.format, validate.model.version, validate.model.producer].filter(Boolean).join(", ")]);
  if (validate && validate.input) pairs.push(["Input", [validate.input.source, validate.input.samples ? `${validate.input.samples} samples` : ""].filter(Boolean).join(", ")]);
  section("environment", "Environment",
    h("table", { "aria-label": "Environment" }, h("tbody", {}, pairs.filter(([, v]) => v).map(([k, v]) => h("tr", {}, h("th", { scope: "row" }, k), h("td", {}, String(v)))))),
    targets.map((t) => h("details", {}, h("summary", {}, `${title(t)}${t.interpreter ? ` (${t.interpreter})` : ""}`),
      t.versions ? h("p", { class: "small" }, Object.entries(t.versions).map(([k, v]) => `${k} ${v}`).join(", ")) : null,
      t.options && Object.keys(t.options).length ? h("p", { class: "small" }, `Options: ${Object.entries(t.options).map(([k, v]) => `${k}=${v}`).join(", ")}`) : null,
      t.threads ? h("p", { class: "small" }, `${capital(count(t.threads, "thread", "threads"))}, Python ${t.python || "?"}`) : null,
      t.function_accuracy ? h("p", { class: "small" }, `Elementary functions of its library are held to: ${Object.entries(t.function_accuracy).map(([f, text]) => `${f} ${text}`).join("; ")}.`) : null,
      t.build ? h("pre", {}, t.build) : null,
      t.reason ? h("p", { class: "small" }, t.reason) : null)));
}

function layersCsv() {
  const fields = ["target", "view", "name", "node", "op", "verdict", "cause", "elements", "max_ulp", "mean_ulp", "p999_ulp", "correctly_rounded", "bits_equal", "bound_used"];
  const quote = (v) => (v === undefined || v === null ? "" : /[",\n]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v));
  const lines = [fields.join(",")];
  for (const t of targets)
    for (const [view, all] of [["isolated", t.layers], ["end to end", t.outputs]])
      for (const j of all || []) lines.push(fields.map((f) => quote(f === "target" ? t.target : f === "view" ? view : j[f])).join(","));
  return `${lines.join("\n")}\n`;
}

function data() {
  section("data", "Data",
    h("p", { class: "soft" }, "This page was drawn from one record, which it carries inside."),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => download("etalon-record.json", "application/json", `${JSON.stringify(record, null, 2)}\n`) }, "Download the record (JSON)"),
      targets.length ? h("button", { type: "button", onclick: () => download("etalon-layers.csv", "text/csv", layersCsv()) }, "Download the layers (CSV)") : null));
}

// A part of the record that is not what it should be costs its own section.
function draw(...parts) {
  for (const part of parts)
    try {
      part();
    } catch (fault) {
      section(`fault-${sections.length}`, "A part that could not be drawn",
        h("p", {}, "The record is damaged here: ", h("code", {}, fault.message)));
    }
}
draw(header);
if (validate) draw(findings, timeSection, graphSection, growth, words);
if (record.bench && record.bench.rows) draw(benchSection);
if (record.order) draw(orderSection);
if (record.compare) draw(compareSection);
if (record.survey) draw(surveySection);
if (record.run) draw(runSection);
draw(gpu ? gpuSections : environment, data);
page.querySelector("nav.toc").append(...sections.map(([id, name]) => h("a", { href: `#${id}` }, name)));
document.documentElement.dataset.drawn = "true";
