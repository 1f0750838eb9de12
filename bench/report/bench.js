
// ---- benchmarks ---------------------------------------------------------------------------------

const KINDS = {
  ours: { mark: "circle", colour: "var(--s1)", name: "Etalon" },
  library: { mark: "square", colour: "var(--s2)", name: "libraries" },
  framework: { mark: "diamond", colour: "var(--s3)", name: "frameworks" },
};
const peerText = (name) => (name.endsWith(".blocked") ? `${name.slice(0, -8)}, in its own layouts` : name);
// "functions.glibc": rows of other kinds are summed up by themselves.
const summaryText = (name) => name.replace(/^(functions|network|import)\.(.*)$/, (_, kind, peer) => `${peer} (${kind === "network" ? "networks" : kind})`).replace(/^(.*)\.blocked$/, (all) => peerText(all));

// Everybody who computed a row, in one form.
function contenders(row) {
  const own = { kind: "ours", name: `Etalon ${row.contract_name || row.kernel || ""}`, kernel: row.kernel, library: "Etalon", ...pick(row) };
  return [own, ...Object.entries(row.vs || {}).filter(([, v]) => (v.status || "ok") === "ok").map(([name, v]) => ({
    kind: v.kind === "contract" ? "ours" : v.kind === "framework" ? "framework" : "library",
    name: v.kind === "contract" ? `Etalon ${name}` : peerText(name),
    library: v.kind === "contract" ? `Etalon ${name}` : v.kind === "framework" ? name : name.split(".")[0],
    kernel: v.kernel || (v.dispatched || []).join(", "), version: v.version, ...pick(v) }))];
  function pick(v) {
    return { time: v.median_s, spread: v.spread, ulp: v.max_ulp === "inf" ? undefined : v.max_ulp, mean: v.mean_ulp,
      gflops: v.gflops, gbytes: v.gbytes, setUp: v.set_up_s, memory: isNumber(v.workspace_bytes) ? v.workspace_bytes + (v.set_up_bytes || 0) : undefined, hash: v.hash };
  }
}
const rowText = (r) => `${r.op} ${r.name || r.shape}${r.threads ? `, ${r.threads} thread${r.threads === 1 ? "" : "s"}` : ""}${r.cache === "cold" ? ", cold" : ""}`;
const byKind = (list, point) => Object.entries(KINDS).map(([kind, k]) => ({ ...k, points: list.filter((c) => c.kind === kind).map(point) })).filter((one) => one.points.length);

// Whoever no other beats in both.
function front(list) {
  const least = (a, b) => a.time - b.time || a.ulp - b.ulp;
  let best = Infinity;
  return [...list].sort(least).filter((c) => { const stays = c.ulp < best; best = Math.min(best, c.ulp); return stays; });
}

function speedErrorSection(rows) {
  const shown = rows.filter((r) => contenders(r).filter((c) => isNumber(c.ulp)).length > 1);
  if (!shown.length) return;
  // The row with the most to compare comes first.
  shown.sort((a, b) => Object.keys(b.vs).length - Object.keys(a.vs).length);
  section("plane", "Speed against error",
    h("p", { class: "soft" }, "Each point is one way to compute the same operation on the same tensors: further left is faster, lower is nearer to the exact result. ",
      "The line joins those that nobody beats in both: what is above and right of it costs more and gives less."),
    chooser("Operation", "plane-shape", shown.map((r) => [r, rowText(r)]), (r) => {
      const list = contenders(r).filter((c) => isNumber(c.ulp)).sort((a, b) => a.time - b.time);
      const floor = 2 ** -3, value = (c) => Math.max(c.ulp, floor);
      const best = front(list);
      const tag = new Map(list.map((c, i) => [c, String(i + 1)]));
      const slowest = Math.max(...list.map((c) => c.time));
      return h("div", {}, plot({
        label: `Time and largest error of ${list.length} ways to compute ${rowText(r)}`,
        x: { label: "time of one run", base: 10, format: seconds }, y: { label: "largest error, ULP", base: 2, format: figure },
        series: byKind(list, (c) => ({ x: c.time, y: value(c), tag: tag.get(c), text: `${c.name}: ${seconds(c.time)}, ${figure(c.ulp)} ULP` })),
        over: [{ name: "nobody is better in both", dash: "5 4", step: true, points: [...best.map((c) => [c.time, value(c)]), [slowest, value(best[best.length - 1])]] }],
      }),
      table([["", ""], ["Time", "n"], ["Max error, ULP", "n"], ["Mean", "n"], ["On the front", ""]],
        list.map((c) => [`${tag.get(c)}  ${c.name}`, seconds(c.time), figure(c.ulp), figure(c.mean), best.includes(c) ? "yes" : "no"]), "Points"),
      h("p", { class: "small soft" }, "Again: ", h("code", {}, r.again || record.command || "")),
      dataOf("speed-error", [["name", ""], ["kernel", ""], ["median_s", "n"], ["spread", "n"], ["max_ulp", "n"], ["mean_ulp", "n"], ["set_up_s", "n"], ["memory_bytes", "n"], ["hash", ""], ["version", ""]],
        list.map((c) => [c.name, c.kernel, c.time, c.spread, c.ulp, c.mean, c.setUp, c.memory, c.hash, c.version]),
        (row) => [row[0], h("code", {}, row[1] || ""), seconds(row[2]), percent(row[3]), figure(row[4]), figure(row[5]), seconds(row[6]), isNumber(row[7]) ? bytes(row[7]) : "–", h("code", {}, (row[8] || "").slice(0, 8)), row[9] || ""]));
    }));
}

function rooflineSection(bench, rows) {
  const peaks = bench.peaks || (bench.peak ? [{ threads: rows[0] && rows[0].threads, ...bench.peak }] : []);
  const options = peaks.map((p) => [p, rows.filter((r) => r.threads === p.threads && r.flops > 0 && r.bytes > 0)]).filter(([p, list]) => p.gflops > 0 && list.length > 1);
  if (!options.length) return;
  section("roofline", "The roofline",
    h("p", { class: "soft" }, "How fast each operation ran, over how many operations it does for each byte that it must read or write at least once. The lines are what this machine can do at most, in the same run: on the slopes the limit is memory or the first cache, above them arithmetic. What is small stays in a cache from one run to the next; a share is told against the cache that holds it."),
    chooser("Threads", "roof-threads", options.map(([p, list]) => [[p, list], `${p.threads} thread${p.threads === 1 ? "" : "s"}: ${figure(p.gflops)} GFLOP/s, ${figure(p.gbytes)} GB/s`]), ([p, list]) => {
      const points = list.flatMap((r) => {
        const all = contenders(r), fastest = (kind) => all.filter((c) => c.kind === kind).sort((a, b) => a.time - b.time)[0];
        return [all[0], fastest("library"), fastest("framework")].filter(Boolean).map((c) => ({ ...c, row: r, x: r.flops / r.bytes }));
      });
      const lows = points.map((c) => c.x), low = Math.min(...lows) / 2, high = Math.max(...lows) * 2;
      const roof = (gbytes) => [[Math.min(low, p.gflops / gbytes), Math.min(low, p.gflops / gbytes) * gbytes], [p.gflops / gbytes, p.gflops], [Math.max(high, p.gflops / gbytes), p.gflops]];
      const levels = p.levels || [{ bytes: Infinity, gbytes: p.gbytes }];
      const level = (r) => (r.cache !== "cold" && levels.find((l) => r.bytes / p.threads <= l.bytes)) || levels[levels.length - 1];
      const possible = (c) => Math.min(p.gflops, c.x * level(c.row).gbytes);
      const over = [{ name: "from memory", points: roof(p.gbytes), stretch: true }];
      if (levels.length > 1) over.push({ name: "from the first cache", points: roof(levels[0].gbytes), dash: "2 3", stretch: true });
      return h("div", {}, plot({
        label: `Speed over operations for each byte, ${list.length} operations, ${count(p.threads, "thread", "threads")}`,
        x: { label: "operations for each byte", base: 2, format: figure }, y: { label: "GFLOP/s", base: 2, format: figure },
        series: byKind(points, (c) => ({ x: c.x, y: c.gflops, text: `${rowText(c.row)}, ${c.name}: ${figure(c.gflops)} GFLOP/s, ${percent(c.gflops / possible(c))} of what is possible` })), over,
      }), isNumber(p.gflops_measured) ? h("p", { class: "small soft" }, `The arithmetic that a short measurement gave, ${figure(p.gflops_measured)} GFLOP/s, lay below what an operation reached, as beside other programs; the line is what was reached.`) : null,
      dataOf("roofline", [["operation", ""], ["by", ""], ["flop_per_byte", "n"], ["gflops", "n"], ["possible_gflops", "n"], ["share", "n"]],
        points.map((c) => [rowText(c.row), c.name, c.x, c.gflops, possible(c), c.gflops / possible(c)]),
        (row) => [row[0], row[1], figure(row[2]), figure(row[3]), figure(row[4]), percent(row[5])]));
    }));
}

// Lines of one library each over `x`, the fastest of its rows at each. Our further contracts only where
// the colours suffice.
function linesOf(rows, x, y) {
  const lines = new Map();
  const libraries = new Set(rows.flatMap((r) => contenders(r).map((c) => c.library)));
  for (const r of rows) {
    const best = new Map();
    for (const c of contenders(r).filter((one) => libraries.size <= 5 || !one.library.startsWith("Etalon ")))
      if (!best.has(c.library) || c.time < best.get(c.library).time) best.set(c.library, c);
    for (const [library, c] of best) {
      if (!lines.has(library)) lines.set(library, []);
      lines.get(library).push({ x: x(r), y: y(c, r), c, row: r, text: `${rowText(r)}, ${c.name}: ${seconds(c.time)}` });
    }
  }
  let n = 0;
  return [...lines].map(([name, points]) => ({ name, line: true, colour: series(n++), mark: KINDS[points[0].c.kind].mark,
    points: points.filter((p) => isNumber(p.x) && isNumber(p.y) && p.y > 0 && p.x > 0).sort((a, b) => a.x - b.x) })).filter((l) => l.points.length);
}

function sizeSection(rows) {
  const least = Math.min(...rows.map((r) => r.threads || 1));
  const groups = new Map();
  for (const r of rows.filter((one) => (one.threads || 1) === least && isNumber(one.bytes)))
    groups.set(r.op, [...(groups.get(r.op) || []), r]);
  const options = [...groups].filter(([, list]) => list.length > 2);
  if (!options.length) return;
  section("size", "Scaling with size",
    h("p", { class: "soft" }, "From the smallest to the largest of what was timed. A falling line at the left is what a call costs before it does any work; at the right caches end."),
    chooser("Op", "size-op", options.map(([op, list]) => [list, `${op}, ${list.length} shapes`]), (list) => {
      const sums = list[0].flops > 0, x = (r) => (sums ? r.flops : r.bytes);
      const lines = linesOf(list, x, (c) => (sums ? c.gflops : c.gbytes));
      return h("div", {}, plot({ label: `Speed over size of ${list.length} shapes`,
        x: { label: sums ? "operations of one run" : "bytes of one run", base: 10, format: si },
        y: { label: sums ? "GFLOP/s" : "GB/s", base: 2, format: figure }, series: lines }),
      dataOf("size", [["shape", ""], ["by", ""], [sums ? "flops" : "bytes", "n"], [sums ? "gflops" : "gbytes", "n"], ["median_s", "n"]],
        lines.flatMap((l) => l.points.map((p) => [rowText(p.row), l.name, p.x, p.y, p.c.time])),
        (row) => [row[0], row[1], figure(row[2]), figure(row[3]), seconds(row[4])]));
    }));
}

function threadsSection(rows) {
  const groups = new Map();
  for (const r of rows) {
    const key = `${r.op} ${r.name || r.shape}`;
    groups.set(key, [...(groups.get(key) || []), r]);
  }
  const options = [...groups].filter(([, list]) => new Set(list.map((r) => r.threads)).size > 1);
  if (!options.length) return;
  section("threads", "Scaling with threads",
    h("p", { class: "soft" }, "Each against its own time on the fewest threads. The bits of Etalon's contracts do not depend on the number of threads; those of others may."),
    chooser("Operation", "threads-shape", options.map(([key, list]) => [list, key]), (list) => {
      const most = Math.max(...list.map((r) => r.threads)), least = Math.min(...list.map((r) => r.threads));
      const lines = linesOf(list, (r) => r.threads, (c) => c.time).map((l) => ({ ...l, points: l.points.map((p) => ({ ...p, y: l.points[0].y * 1 / p.y })) }));
      return h("div", {}, plot({ label: "Speed-up over threads",
        x: { label: "threads", base: 2, format: figure }, y: { label: "times as fast", linear: true, format: figure, ticks: (high) => Array.from({ length: Math.floor(high * (high < 4 ? 2 : 1)) + 1 }, (_, i) => i / (high < 4 ? 2 : 1)) },
        series: lines, over: [{ name: "ideal", dash: "5 4", points: [[least, 1], [most, most / least]] }] }),
      dataOf("threads", [["by", ""], ["threads", "n"], ["median_s", "n"], ["speed_up", "n"], ["hash", ""]],
        lines.flatMap((l) => l.points.map((p) => [l.name, p.x, p.c.time, p.y, p.c.hash])),
        (row) => [row[0], row[1], seconds(row[2]), figure(row[3]), h("code", {}, (row[4] || "").slice(0, 8))]));
    }));
}

function benchSection() {
  const bench = record.bench;
  const scale = 2;  // the bar's full width is twice the peer's time
  const plotted = bench.rows.filter((r) => isNumber(r.median_s) && r.suite !== "functions" && (r.cache || isNumber(r.gflops)));
  const contracts = [...new Set(bench.rows.map((r) => r.contract).filter(Boolean))];
  speedErrorSection(plotted);
  rooflineSection(bench, plotted);
  sizeSection(plotted);
  threadsSection(plotted);
  // What has no sums moves bytes.
  const rate = (r) => r.gflops > 0 ? `${figure(r.gflops)} GFLOP/s` : isNumber(r.gbytes) ? `${figure(r.gbytes)} GB/s` : "–";
  // A line for each peer: peers differ from operation to operation.
  const lines = bench.rows.flatMap((r) => {
    const vs = Object.entries(r.vs || {});
    return (vs.length ? vs : [["–", null]]).map(([name, v]) => [
      h("span", {}, r.op, " ", h("code", {}, r.name && r.suite !== "typed" ? r.name : r.shape), r.threads > 1 ? h("span", { class: "small soft" }, ` ${r.threads} threads`) : null, contracts.length > 1 ? h("span", { class: "small soft" }, ` ${r.contract || ""}`) : null),
      seconds(r.median_s), rate(r), figure(r.max_ulp), v && v.reason ? h("span", { class: "small soft" }, v.reason) : peerText(name),
      v && isNumber(v.ratio) ? h("span", {}, figure(v.ratio), shareBar(Math.min(1, v.ratio / scale), v.ratio <= 1 ? "var(--explained)" : "var(--lower)")) : "–",
      v ? figure(v.max_ulp) : "–"]);
  });
  section("bench", "Speed, operation by operation",
    bench.summary ? h("p", {}, Object.entries(bench.summary).map(([name, x]) =>
      `Against ${summaryText(name)}: ${figure(x.geomean)} times its time on average (geometric mean), ${figure(x.worst)} at worst. `)) : null,
    h("p", { class: "soft" }, "The ratio is our time divided by theirs: below 1 is faster. The error is counted from the exact value.",
      contracts.length === 1 ? [" Contract ", h("code", {}, contracts[0]), "."] : null),
    bench.load && bench.load.noisy ? h("p", {}, `The machine was noisy while this was measured: other programs took ${percent(bench.load.others)} of its processor time, the hypervisor ${percent(bench.load.stolen)}. Ratios hold better than times.`) : null,
    bench.complete === false ? h("p", {}, "This run was interrupted: these are the rows that it had measured.") : null,
    table([["Operation", ""], ["Our time", "n"], ["Rate", "n"], ["Our max error, ULP", "n"], ["Against", ""], ["Ratio", "n"], ["Its max error, ULP", "n"]],
      lines, "Benchmark"));
}

const VARIED = { threads: "number of threads", batch: "other samples in the batch", isa: "instruction set" };
// "0x1.8p-3", as C prints it.
function hexFloat(text) {
  const m = /^(-?)0x([0-9a-f])\.?([0-9a-f]*)p([+-]?\d+)$/.exec(text || "");
  return m ? (m[1] ? -1 : 1) * parseInt(m[2] + m[3], 16) * 2 ** (Number(m[4]) - 4 * m[3].length) : undefined;
}
const nineDigits = (x) => (isNumber(x) ? String(Number(x.toPrecision(9))) : "–");

function orderSection() {
  const order = record.order;
  section("order", "Calls whose bits hang on more than their inputs",
    h("p", { class: "soft" }, `${capital(figure(order.tried))} pairs of answers of the same call were compared. Below are those whose bits differ, and the same call through one of Etalon's kernels, varied the same way.`),
    order.findings.length ? order.findings.map((f) => h("article", { class: `finding v-${f.defined.equal ? "explained" : "wrong"}` },
      h("header", {}, h("h3", {}, `${f.kernel}: ${VARIED[f.varied] || f.varied}`), h("span", { class: "soft small" }, f.version)),
      h("p", {}, `${capital(f.one.how)} against ${f.other.how}: ${f.differ} of ${f.elements} outputs differ, by ${figure(f.max_distance)} float${f.max_distance === 1 ? "" : "s"} at most.`),
      h("p", { class: "small" }, h("code", {}, `${f.op} ${f.shape}`)),
      table([["", ""], ["Where they differ most", ""], ["What it is", ""]], [
        [f.one.how, h("span", {}, nineDigits(hexFloat(f.worst.one)), " ", h("code", { class: "soft" }, f.worst.one)), f.one.order ? `the bits of ${f.one.order}` : f.one.sentence],
        [f.other.how, h("span", {}, nineDigits(hexFloat(f.worst.other)), " ", h("code", { class: "soft" }, f.worst.other)), f.other.order ? `the bits of ${f.other.order}` : f.other.sentence],
        ["exact", nineDigits(f.worst.exact), ""],
      ], `The two answers of ${f.kernel}`),
      h("p", {}, `Through ${f.defined.kernel}, varied the same way: `, h("code", {}, f.defined.one.slice(0, 16)), " and ", h("code", {}, f.defined.other.slice(0, 16)), f.defined.equal ? ", equal." : ", not equal."),
      h("p", { class: "small soft" }, "Again: ", h("code", {}, `etalon ulp ${f.one.file} ${f.other.file}`))))
      : h("p", {}, "None differed on this machine."),
    (order.absent || []).length ? h("p", { class: "small soft" }, `Not asked: ${order.absent.join("; ")}`) : null);
}

function compareSection() {
  const compare = record.compare;
  const names = (side) => [side].flat().map((name, i) => [i ? ", " : "", h("code", {}, name)]).flat();
  const verdicts = { "too few runs": "too few runs to tell", "other repetitions": "not timed equally often", "or the machine changed": "different, but the machine may have changed",
    "no more than libraries that did not change": "no more than libraries that did not change" };
  const runs = compare.runs || [1, 1], controls = compare.controls;
  section("compare", "Two sides against each other",
    h("p", {}, !compare.holds ? "Something is slower, or bits moved." : Math.min(...runs) < 3 ? "Too few runs to say anything about speed; no bits moved." : "Nothing is shown to be slower, and no bits moved."),
    h("p", { class: "soft" }, "A is ", names(compare.a), ` (${count(runs[0], "run", "runs")}), B `, names(compare.b), ` (${count(runs[1], "run", "runs")}). A run counts as one time, its fastest: a difference is shown where Welch's test over the runs, corrected for the number of rows, is below ${compare.alpha}. `,
      isNumber(compare.drift) ? `Libraries that did not change took ${compare.drift.toFixed(3)} times as long in B: the machine's own change, divided out of each run. ` : "No library stands in both: a change of the machine looks like one of the program. ",
      controls ? `The same test calls ${controls.below_alpha} of ${controls.rows} rows of those libraries different; they still differ by up to ${percent(Math.exp(controls.blind_below) - 1)}, and smaller changes are not called.` : ""),
    (compare.notes || []).length ? h("ul", {}, compare.notes.map((text) => h("li", {}, text))) : null,
    table([["Row", ""], ["Contract", ""], ["A", "n"], ["B", "n"], ["B / A", "n"], ["95 % of it", "n"], ["p", "n"], ["Bits", "n"], ["", ""]],
      compare.rows.map((r) => [r.row, h("code", {}, r.contract), seconds(r.a_s), seconds(r.b_s), r.ratio.toFixed(3), isNumber(r.low) ? `${r.low.toFixed(3)} to ${r.high.toFixed(3)}` : "–", figure(r.p), r.bits_moved ? "moved" : "same", verdicts[r.verdict] || r.verdict]), "Comparison"));
}
