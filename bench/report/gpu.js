// ---- evidence of a GPU: the record of bench/gpu_evidence.sh -------------------------------------

const gpu = record.stages && record.device ? record : undefined;
const good = (entries) => (entries || []).filter((e) => e.equal).length;
const share = (entries) => (entries && entries.length ? `${good(entries)} of ${entries.length}` : undefined);
const mean = (values) => Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);

// Which ratios a shape's entry can hold, and what each is called.
const RATIOS = [
  ["ratio", "seq", "the fastest"],
  ["implicit_gemm_ratio", "seq", "implicit GEMM"],
  ["exact_ratio", "exact", "the fastest"],
  ["exact_implicit_gemm_ratio", "exact", "implicit GEMM"],
  ["winograd_ratio", "winograd:4", "their Winograd"],
];
const KIN = {
  ours: ["Etalon", "var(--s1)"],
  f32: ["library, f32 products", "var(--s2)"],
  narrow: ["library, shorter products", "var(--s3)"],
  copy: ["a copy of as many bytes", "var(--soft)"],
};
function kinOf(kernel, entry) {
  if (kernel === "copy") return "copy";
  if (!/^(cublas|cublaslt|cudnn)\./.test(kernel)) return "ours";
  return /tensor_core|tf32|bf16/.test(kernel) || /tensor core|narrower/.test(entry.note || "") ? "narrow" : "f32";
}

function gpuSummary() {
  const rows = gpu.rows || [], wrong = [...rows, ...(gpu.sizes || []), ...(gpu.networks || [])].filter((e) => !e.equal);
  return [`${good(rows)} of ${rows.length} kernels have the bits of the CPU in every case compared. `,
    wrong.length ? `Not equal: ${list(wrong.map((e) => e.key || e.kernel))}.` : "Nothing differs."];
}

function gpuBits() {
  const cases = (gpu.rows || []).reduce((n, r) => n + (r.compared || 0), 0);
  const cores = (gpu.tensor_cores || []).filter((t) => t.decides);
  const unequal = ["rows", "functions", "sizes", "networks", "tensor_cores"].flatMap((stage) => (gpu[stage] || []).filter((e) => !e.equal && e.decides !== false).map((e) => [e.key || e.kernel, stage, e.failed || (e.differ ? `${figure(e.differ)} differ` : "not the CPU's bits")]));
  section("gpu-bits", "The bits, beside the CPU's",
    figures([
      ["kernels equal", share(gpu.rows)], ["cases compared", cases ? figure(cases) : undefined], ["functions equal", share(gpu.functions)],
      ["products equal", share(gpu.sizes)], ["networks equal", share(gpu.networks)],
      ["tensor core cases", cores.length ? figure(cores.reduce((n, t) => n + (t.cases || 0), 0)) : undefined],
      ["of these not as the model says", cores.length ? figure(cores.reduce((n, t) => n + (t.differ || 0), 0)) : undefined],
    ]),
    unequal.length ? table([["What", ""], ["Stage", ""], ["Why", ""]], unequal, "Not equal") : null,
    h("details", {}, h("summary", {}, "Every kernel"),
      table([["Kernel", ""], ["Cases compared", "n"], ["Equal", "n"], ["Hash of the last", ""]],
        (gpu.rows || []).map((r) => [h("code", {}, r.kernel || r.key), figure(r.compared), figure(r.equal_cases), h("code", {}, (r.last_hash || "").slice(0, 16))]), "Kernels")),
    cores.length ? h("details", {}, h("summary", {}, "Tensor cores beside their model"),
      table([["Instruction and format", ""], ["Model", ""], ["Cases", "n"], ["Differ", "n"], ["", ""]],
        gpu.tensor_cores.map((t) => [h("code", {}, t.key), t.unit, figure(t.cases), figure(t.differ), t.decides ? "" : "reported only: the compiler makes it of other instructions"]), "Tensor cores")) : null);
}

// A line for each op and peer: every shape a point, their geometric mean a diamond.
function gpuRatios() {
  const unequal = new Set((gpu.rows || []).filter((r) => !r.equal).map((r) => r.kernel));  // a wrong answer has no speed
  const strips = new Map();
  for (const entry of gpu.times || []) {
    if (unequal.has(entry.best_seq)) continue;
    const [op, shape] = entry.key.split(" ");
    for (const [field, contract, peer] of RATIOS) {
      if (!isNumber(entry[field])) continue;
      const name = `${op}, ${contract}, beside ${peer}`;
      if (!strips.has(name)) strips.set(name, []);
      strips.get(name).push({ ratio: entry[field], shape });
    }
  }
  if (!strips.size) return;
  const lines = [...strips].sort(([a], [b]) => (a < b ? -1 : 1));
  const all = lines.flatMap(([, points]) => points.map((p) => p.ratio));
  const low = Math.min(0.5, ...all) / 1.1, high = Math.max(2, ...all) * 1.1;
  section("gpu-ratios", "Time beside the vendor's libraries",
    h("p", { class: "soft" }, "Our time divided by theirs in one run, in turns. Each point is a shape: left of the line we are faster. The diamond is the geometric mean. The fastest is the library's fastest kernel that keeps f32 products."),
    chart((w) => {
      const step = 46, top = 22, height = top + step * lines.length + 4, left = 6, right = 6;
      const x = (r) => left + (w - left - right) * Math.log(r / low) / Math.log(high / low);
      const g = logTicks(low, high, 2, w < 500 ? 5 : 9).filter((v) => v >= low && v <= high).flatMap((v) => [
        s("line", { x1: x(v), x2: x(v), y1: top, y2: height, class: "axis", "stroke-width": v === 1 ? 2.5 : 1 }),
        s("text", { x: x(v), y: 12, "text-anchor": "middle" }, figure(v))]);
      lines.forEach(([name, points], i) => {
        const y = top + step * i, at = mean(points.map((p) => p.ratio));
        // Behind the words, so that no grid line runs through them.
        g.push(s("rect", { x: 0, y: y + 3, width: w, height: 18, fill: "var(--paper)", opacity: 0.85 }),
          s("text", { x: left, y: y + 16, class: "value" }, w < 500 ? name.replace("the fastest", "the best") : name),
          s("text", { x: w - right, y: y + 16, "text-anchor": "end", class: "value" }, figure(at)));
        for (const p of points)
          g.push(s("circle", { cx: x(p.ratio), cy: y + 33, r: 4, fill: p.ratio <= 1 ? "var(--explained)" : "var(--lower)", opacity: 0.7 }, s("title", {}, `${p.shape}: ${figure(p.ratio)}`)));
        g.push(s("path", { d: `M${x(at)} ${y + 25} l8 8 l-8 8 l-8 -8 Z`, fill: "none", stroke: "var(--ink)", "stroke-width": 2 }, s("title", {}, `geometric mean ${figure(at)}`)));
      });
      return { height, label: lines.map(([name, points]) => `${name}: ${figure(mean(points.map((p) => p.ratio)))}`).join("; "), g };
    }),
    table([["Operation, contract, peer", ""], ["Shapes", "n"], ["Geometric mean", "n"], ["Best", "n"], ["Worst", "n"], ["at", ""]],
      lines.map(([name, points]) => {
        const sorted = [...points].sort((a, b) => a.ratio - b.ratio), worst = sorted[sorted.length - 1];
        return [name, points.length, figure(mean(points.map((p) => p.ratio))), figure(sorted[0].ratio), figure(worst.ratio), h("code", {}, worst.shape)];
      }), "Ratios"));
}

// A kernel's name may go on in the next line behind a point or a low line.
const breakable = (name) => name.split(/(?<=[._])/).flatMap((part) => [h("wbr", {}), part]);

function timeBars(entries, label) {
  const longest = Math.max(...entries.map((e) => e.time));
  return [h("div", { class: "key" }, Object.entries(KIN).filter(([kin]) => entries.some((e) => e.kin === kin)).map(([, [name, colour]]) => h("span", { style: `--fill:${colour}` }, h("i", {}), name))),
    h("div", { class: "times", role: "group", "aria-label": label }, entries.map((e) => [
      h("span", { title: e.note }, e.kin === "ours" ? h("b", {}, breakable(e.name)) : breakable(e.name)),
      h("span", { class: "bar bar-cell", role: "img", "aria-label": `${e.name}: ${seconds(e.time)}` }, h("i", { style: `width:${Math.max(0.5, 100 * e.time / longest)}%;--fill:${KIN[e.kin][1]}` })),
      h("span", { class: "small" }, e.shown || seconds(e.time))]))];
}

function gpuShapes() {
  const times = (gpu.times || []).filter((e) => e.kernels && Object.values(e.kernels).filter((k) => isNumber(k.median_s)).length > 1);
  if (!times.length) return;
  // Most algorithms first; the sort keeps the record's sequence among equals.
  const many = (e) => Object.keys(e.kernels).length;
  const sorted = [...times].sort((a, b) => many(b) - many(a));
  section("gpu-shapes", "Every kernel of one shape",
    h("p", { class: "soft" }, "Each algorithm of the libraries under its own name, ours among them, on the device's clock, copies left out. Libraries that shorten the products compute something else."),
    chooser("Operation and shape", "gpu-shape", sorted.map((e) => [e, e.key]), (e) => {
      const kernels = Object.entries(e.kernels);
      const ran = kernels.filter(([, k]) => isNumber(k.median_s)).map(([name, k]) => ({ name, kin: kinOf(name, k), time: k.median_s, spread: k.spread, note: k.note })).sort((a, b) => a.time - b.time);
      const failed = kernels.filter(([, k]) => !isNumber(k.median_s));
      return h("div", {}, h("p", { class: "small" }, h("code", {}, e.case || e.key)), timeBars(ran, `Times of ${e.key}`),
        dataOf("gpu-times", [["kernel", ""], ["median_s", "n"], ["slowest_tenth_over_fastest", "n"], ["note", ""]], ran.map((r) => [r.name, r.time, r.spread, r.note]),
          (row) => [h("code", {}, row[0]), seconds(row[1]), figure(row[2]), row[3] || ""]),
        failed.length ? h("details", { class: "small" }, h("summary", {}, `${capital(count(failed.length, "kernel does", "kernels do"))} not take this shape`),
          h("ul", {}, failed.map(([name, k]) => h("li", {}, h("code", {}, name), `: ${k.failed || "not timed"}`)))) : null);
    }));
}

function gpuCopies() {
  const entries = (gpu.times || []).filter((e) => isNumber(e.ratio_to_copy) && e.key.includes(" stream.64M")).sort((a, b) => a.ratio_to_copy - b.ratio_to_copy);
  if (!entries.length) return;
  section("gpu-copies", "Functions beside a copy",
    h("p", { class: "soft" }, "Correctly rounded functions over 2²⁶ numbers, beside a copy of as many bytes: 1 is the speed of the memory, 1.11 is 90 % of it."),
    timeBars([{ name: "a copy", kin: "copy", time: 1, shown: "1" }, ...entries.map((e) => ({ name: e.key.replace(" stream.64M", ""), kin: "ours", time: e.ratio_to_copy, shown: figure(e.ratio_to_copy) }))], "Functions"));
}

function gpuNetworks() {
  if (!(gpu.networks || []).length) return;
  section("gpu-networks", "Whole networks",
    h("p", { class: "soft" }, "One launch of a network's graph, copies of input and output included; its hash is the CPU's, node by node and as one graph."),
    table([["Network, batch", ""], ["Time", "n"], ["Where it goes", ""], ["Hash", ""], ["Bits", ""]], gpu.networks.map((n) => {
      const parts = Object.entries(n.seconds_by_kernel || {}).sort((a, b) => b[1] - a[1]), sum = parts.reduce((t, [, v]) => t + v, 0);
      return [n.key, seconds(n.median_s), h("span", { class: "small" }, parts.slice(0, 3).map(([k, v]) => `${k} ${percent(v / sum)}`).join(", ")), h("code", {}, (n.hash || "").slice(0, 8)), n.equal ? "the CPU's" : n.failed || "not equal"];
    }), "Networks"));
}

function gpuVendors() {
  if (!(gpu.vendors || []).length) return;
  section("gpu-vendors", "How far the libraries are from exact",
    h("p", { class: "soft" }, "Errors in ULP, counted from the exact value (or from our own order, where an op has no exact value). A vendor's bits are reported, and promised by nobody."),
    h("details", {}, h("summary", {}, `${gpu.vendors.length} kernels`), table([["Kernel", ""], ["Shape", ""], ["Max error", "n"], ["Mean", "n"], ["Bits equal", "n"], ["Beside, or why not", ""]],
      gpu.vendors.map((v) => [h("code", {}, v.kernel), h("code", {}, (v.key || "").split(": vendor | ").pop()), figure(v.max_ulp), figure(v.mean_ulp), percent(v.equal_share), v.failed ? h("span", { class: "small soft" }, v.failed) : v.beside || ""]), "Errors of libraries")));
}

function gpuStages() {
  section("gpu-stages", "What ran, and on what",
    figures([["device", gpu.device], ["memory", bytes(gpu.memory_bytes)], ["cuBLAS", gpu.cublas], ["cuDNN", gpu.cudnn], ["commit", gpu.commit]]),
    table([["Stage", ""], ["Time", "n"], ["Left out for time", "n"], ["", ""]], Object.entries(gpu.stages).map(([name, x]) =>
      [name, seconds(x.seconds), figure(x.left_out_for_time), x.said || (x.ended ? "ended" : "did not end")]), "Stages"));
}

function gpuSections() {
  gpuBits(); gpuRatios(); gpuCopies(); gpuNetworks(); gpuShapes(); gpuVendors(); gpuStages();
}
