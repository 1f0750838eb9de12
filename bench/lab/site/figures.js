// Figures of more than one answer: curves over a slider's whole range, and what the lessons show.
// Each carries the command of every point, and its data as a table.
'use strict';

// The commands behind a figure, each a question of `etalon lab ask` or a text. An image is too long to
// be read in a command: it comes in a file. Written when it is opened.
function commands(list) {
  const one = (q, i) => {
    if (typeof q === 'string') return [q];
    const text = JSON.stringify(q), file = `question${list.length > 1 ? `-${i + 1}` : ''}.json`;
    return q.image ? [`etalon lab ask "$(cat ${file})"`, el('a', {href: `data:application/json,${encodeURIComponent(text)}`, download: file}, file)] : [`etalon lab ask '${text}'`];
  };
  const box = el('details', {class: 'again'}, el('summary', {}, list.length === 1 ? 'The command that computes this' : 'The commands that compute this'));
  box.addEventListener('toggle', () => {
    if (box.children.length === 1) box.append(...list.flatMap((q, i) => {
      const [command, file] = one(q, i);
      return [el('pre', {tabindex: '0'}, el('code', {}, command)), file];
    }).filter(Boolean));
  });
  return box;
}

const MARKS = [
  (x, y) => svg('circle', {cx: x, cy: y, r: 4}), (x, y) => svg('rect', {x: x - 4, y: y - 4, width: 8, height: 8}),
  (x, y) => svg('path', {d: `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`}), (x, y) => svg('path', {d: `M${x} ${y - 5}l5 9h-10z`}),
  (x, y) => svg('path', {d: `M${x} ${y + 5}l5 -9h-10z`}), (x, y) => svg('path', {d: `M${x - 5} ${y - 1.5}h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z`}),
];

// Lines over logarithmic axes, x.linear but for y. x: {label, values}, y: {label, format}; lines:
// [{name, points: [[x, y]]}].
draw.lines = ({label, x, y, lines}) => {
  const w = room(640), h = 300, left = 52, right = 12, top = 24, bottom = 40;
  const all = lines.flatMap((l) => l.points), ys = all.map((p) => p[1]).filter((v) => v > 0);
  const lowX = Math.min(...x.values), highX = Math.max(...x.values);
  const low = Math.min(...ys) / 1.5, high = Math.max(...ys) * 1.5, base = high / low > 300 ? 10 : 2;
  const along = (v) => x.linear ? (v - lowX) / (highX - lowX) : Math.log(v / lowX) / Math.log(highX / lowX);
  const px = (v) => left + 14 + (w - left - right - 28) * along(v);
  const py = (v) => h - bottom - (h - top - bottom) * Math.log(v / low) / Math.log(high / low);
  const g = svg('svg', {viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: 'img', class: 'curve', 'aria-label': label});
  const text = (attributes, t) => { const e = svg('text', attributes); e.textContent = t; g.append(e); };
  const span = Math.log(high / low) / Math.log(base), step = Math.max(1, Math.ceil(span / 7));
  for (let e = Math.ceil(Math.log(low) / Math.log(base) - 1e-9); base ** e <= high; e += step) {
    g.append(svg('line', {x1: left, x2: w - right, y1: py(base ** e), y2: py(base ** e), class: 'axis'}));
    text({x: left - 6, y: py(base ** e) + 4, 'text-anchor': 'end'}, y.format(base ** e));
  }
  let taken = -Infinity;
  for (const v of x.values) {
    if (px(v) - taken < 30) continue;
    taken = px(v);
    text({x: px(v), y: h - bottom + 16, 'text-anchor': 'middle'}, String(v));
  }
  text({x: w - right, y: h - 4, 'text-anchor': 'end'}, x.label);
  text({x: 0, y: 13, 'text-anchor': 'start'}, y.label);
  lines.forEach((line, n) => {
    const shown = line.points.filter((p) => p[1] > 0);
    const group = svg('g', {class: `s${n % MARKS.length}`});
    group.append(svg('path', {d: shown.map((p, i) => `${i ? 'L' : 'M'}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join(''), class: 'stroke'}));
    for (const p of shown) {
      const mark = MARKS[n % MARKS.length](px(p[0]), py(p[1])), hint = svg('title', {});
      hint.textContent = `${line.name}, ${x.label} ${p[0]}: ${y.format(p[1])}`;
      mark.append(hint);
      group.append(mark);
    }
    g.append(group);
  });
  const key = el('div', {class: 'key'}, ...lines.map((line, n) => el('span', {}, svg('svg', {viewBox: '0 0 14 14', width: 14, height: 14, 'aria-hidden': 'true', class: `s${n % MARKS.length}`}, MARKS[n % MARKS.length](7, 7)), ` ${line.name}`)));
  return el('div', {}, key, g);
};

function dataTable(head, rows) {
  return el('details', {class: 'again'}, el('summary', {}, 'The data as a table'), el('div', {class: 'wide', tabindex: '0'}, el('table', {},
    el('thead', {}, el('tr', {}, ...head.map((t) => el('th', {scope: 'col'}, t)))), el('tbody', {}, ...rows.map((r) => el('tr', {}, ...r.map((c) => el('td', {}, c))))))));
}

// --- Curves ---------------------------------------------------------------------------------------
// A curve: `values` of x, and lines: name, what the state becomes, and the last value where the line
// would leave the drawing.
const AXES = {
  K: {x: 'channels', title: 'over the number of channels', values: [1, 2, 4, 8, 16, 32, 64], at: (v) => ({channels: v}),
    lines: [['one chain', {algo: 'direct', order: 'seq'}], ['8 lanes', {algo: 'direct', order: 'lanes:8'}], ['a balanced tree', {algo: 'direct', order: 'pairwise:1'}], ['Winograd 4 × 4', {algo: 'winograd', m: 4}], ['FFT', {algo: 'fft', n: 16}]]},
  tile: {x: 'outputs a tile, along each side', title: 'over Winograd’s tile', values: [1, 2, 3, 4, 5, 6, 7, 8], at: (v) => ({m: v}),
    linear: true,
    lines: [['points 0, 1, −1, 2, −2, ½, −½ …', {algo: 'winograd', points: 'usual'}], ['points 0, 1, −1, 2, −½, −2, ½ …', {algo: 'winograd', points: 'reciprocal'}], ['points 0, 1, 2, 3, 4 …', {algo: 'winograd', points: 'whole'}, 4], ['the first, transforms in f64', {algo: 'winograd', points: 'usual', transform: 'f64'}]]},
  formats: {x: 'channels', title: 'over the channels, by number format', values: [1, 2, 4, 8, 16, 32, 64], at: (v) => ({channels: v}),
    lines: [['f32', {}], ['bf16, f32 accumulator', {factors: 'bf16'}], ['f16, f32 accumulator', {factors: 'f16'}], ['f16, f16 accumulator', {factors: 'f16', acc: 'f16'}], ['bf16, bf16 accumulator', {factors: 'bf16', acc: 'bf16'}], ['tensor core (Hopper, TF32)', {order: 'tensorcore:hopper:tf32'}]].map(([n, c]) => [n, {algo: 'direct', order: 'seq', ...c}])},
  extent: {x: 'side of the kernel', title: 'over the side of the kernel', values: [3, 5, 7, 9, 11], linear: true, at: (v) => ({kernel: v, pad: (v - 1) / 2}),
    lines: [['one chain', {algo: 'direct', order: 'seq'}], ['FFT of 16', {algo: 'fft', n: 16}], ['FFT of 32', {algo: 'fft', n: 32}]]},
};
const PLAIN = {fma: 'on', acc: 'f32', factors: 'f32', transform: 'f32', sums: 'seq', points: 'usual'};
const MEASURES = {relative: 'relative error, in 2⁻²⁴', mean_ulp: 'mean error, ULP', max_ulp: 'largest error, ULP', multiplications: 'multiplications an output'};
const POWERS = '⁰¹²³⁴⁵⁶⁷⁸⁹';
// A tick of an axis: 0.25, 64, 16384, 10⁴.
function tick(v) {
  const power = Math.round(Math.log10(v));
  if (Math.abs(power) < 4 || Math.abs(v / 10 ** power - 1) > 1e-9) return String(Number(v.toPrecision(5)));
  return `10${power < 0 ? '⁻' : ''}${[...String(Math.abs(power))].map((d) => POWERS[d]).join('')}`;
}

// Computes a curve of state `from` and shows it in `box`; `current` says whether it is still wanted.
async function curve(box, axis, measure, from, current = () => true) {
  const a = AXES[axis], asked = [], faults = new Set();
  const lines = a.lines.map(([name, change, last]) => ({name, change, last, points: []})), counted = measure === 'multiplications';
  box.setAttribute('aria-busy', 'true');
  for (const v of a.values)
    for (const line of lines) {
      if (v > line.last) continue;
      const s = {...from, ...PLAIN, ...line.change, ...a.at(v)}, q = counted ? {do: 'cost', ...problem(s)} : {do: 'conv', values: false, ...problem(s)};
      const reply = await engine.ask(q);
      if (!current()) return;
      if (reply.error) { faults.add(`${line.name}: ${reply.error}`); continue; }
      const y = counted ? reply.cost.multiplications / reply.elements : reply.stats[measure];
      asked.push({line: line.name, v, y, s, q, hash: reply.hash?.slice(0, 12) ?? ''});
      if (y > 0) line.points.push([v, y]);
    }
  box.setAttribute('aria-busy', 'false');
  const shown = lines.filter((l) => l.points.length);
  box.replaceChildren(
    ...(shown.length ? [draw.lines({label: `${MEASURES[measure]} ${a.title}: ${shown.map((l) => `${l.name} from ${short(l.points[0][1])} to ${short(l.points.at(-1)[1])}`).join('; ')}`,
      x: {label: a.x, values: a.values, linear: a.linear}, y: {label: MEASURES[measure], format: tick}, lines: shown})] : []),
    ...[...faults].slice(0, 3).map((t) => el('p', {class: 'small'}, `Not drawn: ${t}`)),
    dataTable(['', a.x, MEASURES[measure], 'hash'], asked.map((p) => [el('a', {href: address(p.s)}, p.line), String(p.v), short(p.y), el('code', {}, p.hash)])),
    commands(asked.map((p) => p.q)));
}

// --- Figures of the lessons -----------------------------------------------------------------------
// Eight products, summed in three ways.
async function smallTrees(box) {
  const q = {do: 'tree', at: 0, channels: 8, height: 1, width: 1, filters: 1, kernel: 1, stride: 1, pad: 0, dilation: 1, data: 'noise', seed: 7};
  const orders = [['order=seq', 'One chain: each term waits for the one before it'], ['order=lanes:4', 'Four lanes, then a tree: what a vector unit does'], ['order=pairwise:1', 'A balanced tree: three levels for eight terms']];
  const figures = [];
  for (const [contract, text] of orders) figures.push(draw.tree(await engine.ask({...q, contract}), `${text}.`));
  box.replaceChildren(el('div', {class: 'maps'}, ...figures), commands(orders.map(([contract]) => ({...q, contract}))));
}

// A small image and the matrix that im2col makes of it; one pixel is followed through it.
function pixelCopies(box) {
  const side = 5, k = 3, out = side - k + 1;
  const slider = el('input', {type: 'range', min: 1, max: side * side, value: 13, id: 'pixel', 'aria-describedby': 'pixel-text'});
  const text = el('p', {id: 'pixel-text', role: 'status'}), place = el('div', {class: 'drawing'});
  const cells = (rows, cols, number, caption, mine) => el('figure', {}, el('div', {class: 'wide', tabindex: '0'}, el('table', {class: 'pixels', 'aria-label': caption},
    ...Array.from({length: rows}, (_, i) => el('tr', {}, ...Array.from({length: cols}, (_, j) => el('td', {class: number(i, j) === mine ? 'mine' : ''}, String(number(i, j)))))))), el('figcaption', {}, caption));
  const show = () => {
    const mine = Number(slider.value);
    const inColumn = (i, j) => (Math.floor(j / out) + Math.floor(i / k)) * side + j % out + i % k + 1;
    let copies = 0;
    for (let i = 0; i < k * k; i++) for (let j = 0; j < out * out; j++) copies += inColumn(i, j) === mine;
    place.replaceChildren(cells(side, side, (i, j) => i * side + j + 1, `The image, ${side} × ${side}`, mine), cells(k * k, out * out, inColumn, `The matrix: ${k * k} rows, a column for each of ${out * out} windows`, mine));
    text.textContent = `Pixel ${mine} is read by ${copies} window${copies === 1 ? '' : 's'}, so the matrix holds it ${copies === 1 ? 'once' : `${copies} times`}. The image has ${side * side} numbers, the matrix ${k * k * out * out}.`;
  };
  slider.addEventListener('input', show);
  show();
  box.replaceChildren(el('div', {class: 'stepper'}, el('label', {for: 'pixel'}, 'Pixel'), slider), text, place);
}

// What the matrix costs on layers that are known.
function matrixSizes(box) {
  const layers = [['LeNet, second', 20, 12, 50, 5, 0], ['AlexNet, second', 96, 27, 256, 5, 2], ['VGG, second', 64, 224, 64, 3, 1], ['ResNet-50, 3 × 3 of the second stage', 64, 56, 64, 3, 1], ['ResNet-50, 3 × 3 of the last stage', 512, 7, 512, 3, 1]];
  const mib = (n) => short(Number((4 * n / 2 ** 20).toPrecision(3)));
  box.replaceChildren(el('div', {class: 'wide', tabindex: '0'}, el('table', {class: 'sizes'}, el('thead', {}, el('tr', {}, ...['layer', 'image, MiB', 'matrix, MiB', 'kernel, MiB', 'times the image'].map((t) => el('th', {scope: 'col'}, t)))),
    el('tbody', {}, ...layers.map(([name, c, side, o, k, pad]) => {
      const out = side + 2 * pad - k + 1, matrix = c * k * k * out * out;
      return el('tr', {}, el('td', {}, name), el('td', {}, mib(c * side * side)), el('td', {}, mib(matrix)), el('td', {}, mib(o * c * k * k)), el('td', {}, short(Number((matrix / (c * side * side)).toPrecision(2)))));
    })))));
}

// Winograd's matrices, by slider.
async function matrices(box) {
  const slider = el('input', {type: 'range', min: 1, max: 6, value: 2, id: 'tile-m'}), out = el('output', {for: 'tile-m'}), place = el('div', {});
  const show = async () => {
    const m = Number(slider.value), q = {do: 'transform', kernel: 3, contract: `algo=winograd:${m}/3`};
    out.textContent = `F(${m} × ${m}, 3 × 3)`;
    const t = await engine.ask(q, 'matrices');
    if (!t) return;
    place.replaceChildren(el('p', {}, `${(m + 2) ** 2} multiplications for ${m * m} outputs: ${short(Number(((m + 2) ** 2 / (m * m)).toPrecision(3)))} for each, where the direct form needs 9.`),
      el('div', {class: 'maps'}, ...[['Bᵀ, for the inputs', t.b_t], ['G, for the kernel', t.g], ['Aᵀ, for the outputs', t.a_t]].map(([n, v]) => el('div', {class: 'wide', tabindex: '0'}, draw.fractions(n, v)))), commands([q]));
  };
  slider.addEventListener('input', show);
  box.replaceChildren(el('div', {class: 'stepper'}, el('label', {for: 'tile-m'}, 'Outputs a tile'), slider, out), place);
  await show();
}

// Times on the machine that built the page, over the kernel's side.
const ALGORITHMS = [['direct', (c) => c === 'seq'], ['im2col', (c) => c === 'algo=im2col'], ['Winograd, its fastest tile', (c) => c.startsWith('algo=winograd')], ['FFT, its fastest tile', (c) => c.startsWith('algo=fft')], ['exact', (c) => c === 'exact']];
function nativeTimes(box) {
  if (!ETALON_DATA.native.length) { box.replaceChildren(el('p', {class: 'small'}, 'No times were taken when this page was built (--no-times).')); return; }
  const lines = ALGORITHMS.map(([name, belongs]) => ({name, points: ETALON_DATA.native.flatMap((layer) => {
    const times = layer.rows.filter((r) => belongs(r.contract)).map((r) => r.median_s * 1e3);
    return times.length ? [[layer.kernel, Math.min(...times)]] : [];
  })})).filter((l) => l.points.length);
  box.replaceChildren(draw.lines({label: `Milliseconds over the side of the kernel: ${lines.map((l) => `${l.name} ${l.points.map((p) => short(p[1])).join(', ')}`).join('; ')}`,
    x: {label: 'side of the kernel', linear: true, values: ETALON_DATA.native.map((l) => l.kernel)}, y: {label: 'milliseconds', format: tick}, lines}),
  el('p', {class: 'small'}, ETALON_DATA.native_note),
  dataTable(['side', 'contract', 'kernel', 'median', 'spread', 'against direct'], ETALON_DATA.native.flatMap((l) => l.rows.map((r) => [String(l.kernel), r.contract, r.kernel, `${(r.median_s * 1e3).toPrecision(3)} ms`, `${(100 * r.spread).toFixed(0)} %`, r.ratio.toFixed(2)]))),
  commands(ETALON_DATA.native.map((l) => l.command)));
}

// Where the bits of a format go.
function formatBits(box) {
  const formats = [['f32', 8, 23, ''], ['TF32', 8, 10, 'of the 24 of an f32'], ['bf16', 8, 7, 'the range of f32'], ['f16', 5, 10, 'at most 65 504'], ['f8 (e4m3)', 4, 3, 'at most 448']];
  const w = room(640), left = 74, cell = Math.min(15, (w - left) / 32), tall = 34;
  const g = svg('svg', {viewBox: `0 0 ${w} ${formats.length * tall}`, width: w, height: formats.length * tall, role: 'img', class: 'curve',
    'aria-label': formats.map(([n, e, f]) => `${n}: 1 sign bit, ${e} of the exponent, ${f} of the fraction`).join('; ')});
  formats.forEach(([name, exponent, fraction, note], row) => {
    const t = svg('text', {x: 0, y: row * tall + 14});
    t.textContent = name;
    g.append(t);
    for (let b = 0; b < 1 + exponent + fraction; b++)
      g.append(svg('rect', {x: left + b * cell, y: row * tall + 2, width: cell - 1.5, height: 15, class: b === 0 ? 'pad bit' : b <= exponent ? 'win' : 'cell bit'}));
    const n = svg('text', {x: left, y: row * tall + 29});
    n.textContent = `${fraction + 1} significant bits${note ? `, ${note}` : ''}`;
    g.append(n);
  });
  box.replaceChildren(g, el('p', {class: 'small'}, 'Sign, exponent (marked), fraction. A leading one is not stored.'));
}

const FIGURES = {smallTrees, pixelCopies, matrixSizes, matrices, nativeTimes, formatBits};
// A lesson's figures are computed when it is opened for the first time.
async function showFigures(page) {
  for (const box of page.querySelectorAll('.live:not([data-done])')) {
    box.dataset.done = 'working';
    const f = box.dataset.live;
    if (f === 'curve') {
      const [axis, measure, query] = [box.dataset.axis, box.dataset.measure, box.dataset.from];
      await curve(box, axis, measure, stateOf(query));
    } else {
      await FIGURES[f](box);
    }
    box.dataset.done = 'true';
  }
}
