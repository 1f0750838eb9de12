// The page: its state is the address behind '#', so that a link holds what was seen.
'use strict';
const $ = (id) => document.getElementById(id);
const PAGES = [['lab', 'Laboratory'], ['order', '1 Order'], ['im2col', '2 im2col'], ['winograd', '3 Winograd'], ['fft', '4 FFT'], ['formats', '5 Formats'], ['teach', 'For the lecturer'], ['about', 'About']];
const START = {form: 'conv', channels: 8, height: 12, filters: 2, kernel: 3, stride: 1, pad: 1, dilation: 1, data: 'noise', seed: 1, digit: 0, algo: 'direct', factors: 'f32', order: 'seq', fma: 'on', acc: 'f32', m: 4, points: 'usual', transform: 'f32', sums: 'seq', n: 16, at: 0};
const RANGES = {channels: [1, 64], height: [1, 64], filters: [1, 16], kernel: [1, 15], stride: [1, 4], pad: [0, 7], dilation: [1, 4], seed: [0, 9999], m: [1, 8]};
const CHOICES = {
  form: [['conv', 'convolution'], ['transposed', 'transposed']],
  data: [['noise', 'noise'], ['ones', 'all terms equal'], ['cancelling', 'cancelling pairs'], ['scales', 'channels of many scales'], ['digit', 'a digit of MNIST'], ['photo', 'a photo of yours']],
  algo: [['direct', 'direct'], ['im2col', 'im2col'], ['winograd', 'Winograd'], ['fft', 'FFT'], ['exact', 'exact (one rounding)']],
  order: [['seq', 'one chain'], ['lanes:8', '8 lanes'], ['lanes:64', '64 lanes'], ['pairwise:1', 'a balanced tree'], ['pairwise:16', 'a tree over runs of 16'], ['blocks:128', 'blocks of 128'], ['splitk:4', '4 parts'], ['tensorcore:volta:f16', 'tensor core, Volta, f16'], ['tensorcore:ampere:tf32', 'tensor core, Ampere, TF32'], ['tensorcore:ampere:bf16', 'tensor core, Ampere, bf16'], ['tensorcore:hopper:f16', 'tensor core, Hopper, f16'], ['tensorcore:hopper:tf32', 'tensor core, Hopper, TF32'], ['tensorcore:hopper:f8e4m3', 'tensor core, Hopper, f8 (e4m3)']],
  acc: [['f64', 'f64'], ['f32', 'f32'], ['f16', 'f16'], ['bf16', 'bf16']],
  factors: [['f32', 'f32'], ['bf16', 'bf16'], ['f16', 'f16']],
  points: [['usual', '0, 1, −1, 2, −2, ½, −½ …'], ['reciprocal', '0, 1, −1, 2, −½, −2, ½ …'], ['whole', '0, 1, 2, 3, 4 …']],
  transform: [['f32', 'f32'], ['f64', 'f64']],
  sums: [['seq', 'one chain'], ['pairwise:1', 'a balanced tree']],
  n: [['8', '8 × 8'], ['16', '16 × 16'], ['32', '32 × 32'], ['64', '64 × 64']],
};
const NAMES = {form: 'Form', channels: 'Channels', height: 'Image side', filters: 'Filters', kernel: 'Kernel side', stride: 'Stride', pad: 'Padding', dilation: 'Dilation', data: 'Data', seed: 'Seed', digit: 'Digit', photo: 'Photo', algo: 'Algorithm', factors: 'Factors in', order: 'Order', fma: 'Fused', acc: 'Accumulator', m: 'Outputs a tile', points: 'Points', transform: 'Transforms in', sums: 'Channel sums', n: 'Tile'};
// What belongs to an algorithm.
const FOR = {order: ['direct', 'im2col'], fma: ['direct', 'im2col'], acc: ['direct', 'im2col'], m: ['winograd'], points: ['winograd'], transform: ['winograd'], sums: ['winograd'], n: ['fft']};
let state = {...START}, photo = null, last = null;
// A tensor core adds in its own fixed-point adder: nothing is fused there, and its accumulator is
// f32, or f16 where the factors are.
const onUnit = (s) => s.order.startsWith('tensorcore') && FOR.order.includes(s.algo);
const offered = (name, s) => {
  if (name === 'acc' && onUnit(s)) return s.order.endsWith(':f16') ? ['f32', 'f16'] : ['f32'];
  const all = CHOICES[name].map(([v]) => v);
  // The transposed form is summed directly; no tensor core is modelled for it.
  if (s.form === 'transposed' && name === 'algo') return ['direct', 'exact'];
  if (s.form === 'transposed' && name === 'order') return all.filter((v) => !v.startsWith('tensorcore'));
  return all;
};

// Interpolation points as a contract names them; of the usual ones it says nothing.
const pointsOf = (s) => s.points === 'whole' ? Array.from({length: s.m + s.kernel - 2}, (_, i) => i).join(':') : s.points;
function contract(s) {
  if (s.algo === 'exact') return 'exact';
  if (s.algo === 'winograd') return `algo=winograd:${s.m}/${s.kernel},${s.points === 'usual' ? '' : `points=${pointsOf(s)},`}transform=${s.transform},channels=${s.sums}`;
  if (s.algo === 'fft') return `algo=fft:${s.n}`;
  const parts = [`order=${s.order}`];
  if (s.fma === 'off' && !onUnit(s)) parts.push('fma=off');
  if (s.acc !== 'f32' && offered('acc', s).includes(s.acc)) parts.push(`acc=${s.acc}`);
  if (s.algo === 'im2col') parts.push('algo=im2col');
  return parts.join(',');
}

function problem(s = state) {
  const q = {channels: s.channels, height: s.height, width: s.height, filters: s.filters, kernel: s.kernel, stride: s.stride, pad: s.pad, dilation: s.dilation, data: s.data, seed: s.seed, contract: contract(s)};
  if (s.form !== 'conv') q.form = s.form;
  if (s.factors !== 'f32') q.factors = s.factors;
  if (s.data === 'digit' || s.data === 'photo') {
    q.data = 'image';
    const picture = s.data === 'digit' ? ETALON_DATA.digits[s.digit % ETALON_DATA.digits.length] : photo;
    if (picture) q.image = picture; else q.data = 'noise';
  }
  return q;
}

// --- The address ----------------------------------------------------------------------------------
function stateOf(query) {
  const s = {...START};
  for (const [k, v] of new URLSearchParams(query)) if (k in START) s[k] = typeof START[k] === 'number' ? Number(v) : v;
  return s;
}
function read() {
  const [page, query] = location.hash.slice(1).split('?');
  if (query !== undefined) state = stateOf(query);
  return PAGES.some(([p]) => p === page) ? page : 'lab';
}
function address(s = state) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(s)) if (v !== START[k]) q.set(k, v);
  return `#lab?${q}`;
}
function show() {
  const page = read();
  for (const [id] of PAGES) $(id).hidden = id !== page;
  for (const a of $('nav').children) a.toggleAttribute('aria-current', a.dataset.page === page);
  document.title = `Etalon: ${PAGES.find(([p]) => p === page)[1]}`;
  if (page === 'lab') { fill(); compute(); }
  else showFigures($(page));
}

// --- Controls -------------------------------------------------------------------------------------
function control(name) {
  const id = `c-${name}`, label = el('label', {for: id}, NAMES[name]);
  let input, out = null;
  if (name in RANGES) {
    const wide = name === 'seed';
    input = el('input', {id, type: wide ? 'number' : 'range', min: RANGES[name][0], max: RANGES[name][1], step: 1});
    if (!wide) out = el('output', {for: id});
  } else if (name === 'digit') {
    input = el('input', {id, type: 'range', min: 0, max: 9, step: 1});
    out = el('output', {for: id});
  } else if (name === 'photo') {
    input = el('input', {id, type: 'file', accept: 'image/*'});
  } else if (name === 'fma') {
    input = el('input', {id, type: 'checkbox'});
  } else {
    input = el('select', {id}, ...CHOICES[name].map(([v, t]) => el('option', {value: v}, t)));
  }
  input.addEventListener('input', () => change(name, input));
  return el('div', {class: 'field', 'data-field': name}, label, input, out);
}
let touched = null;  // the control that was changed last: what cannot be is said beside it
function change(name, input) {
  if (name === 'photo') { load(input.files[0]); return; }
  if (name === 'fma') state.fma = input.checked ? 'on' : 'off';
  else if (CHOICES[name]) state[name] = typeof START[name] === 'number' ? Number(input.value) : input.value;
  else {
    const v = Number(input.value), [least, most] = RANGES[name] ?? [0, 9];
    if (!Number.isInteger(v) || input.value === '' || v < least || v > most) { fault(`${NAMES[name]}: ${input.value || 'nothing'} cannot be; give a whole number from ${least} to ${most}.`, name); return; }
    state[name] = v;
  }
  for (const one of ['algo', 'order', 'acc']) if (!offered(one, state).includes(state[one])) state[one] = START[one];
  state.at = 0;
  touched = name;
  history.replaceState(null, '', address());
  fill();
  compute();
}
function fill() {
  for (const field of document.querySelectorAll('.field')) {
    const name = field.dataset.field, input = field.querySelector('input, select');
    if (name === 'fma') input.checked = state.fma === 'on';
    else if (name !== 'photo' && document.activeElement !== input) input.value = state[name];
    const out = field.querySelector('output');
    if (out) out.textContent = state[name];
    if (['acc', 'algo', 'order'].includes(name)) for (const o of input.options) o.hidden = o.disabled = !offered(name, state).includes(o.value);
    field.hidden = (FOR[name] && !FOR[name].includes(state.algo)) || (onUnit(state) && (name === 'fma' || (name === 'acc' && offered('acc', state).length === 1))) || (name === 'digit' && state.data !== 'digit') || (name === 'photo' && state.data !== 'photo') || (name === 'seed' && state.data === 'ones');
  }
}
function fault(text, name) {
  for (const old of document.querySelectorAll('.field-fault')) old.remove();
  $('fault').hidden = !text;
  $('fault').textContent = text || '';
  const field = name && document.querySelector(`[data-field="${name}"]`);
  if (text && field) field.after(el('p', {class: 'field-fault'}, text));
}
async function load(file) {
  if (!file) return;
  try {
    const bitmap = await createImageBitmap(file), side = 64;
    const canvas = el('canvas', {width: side, height: side}), c = canvas.getContext('2d');
    const cut = Math.min(bitmap.width, bitmap.height);
    c.drawImage(bitmap, (bitmap.width - cut) / 2, (bitmap.height - cut) / 2, cut, cut, 0, 0, side, side);
    const rgba = c.getImageData(0, 0, side, side).data, rgb = [];
    for (let i = 0; i < rgba.length; i += 4) rgb.push(rgba[i], rgba[i + 1], rgba[i + 2]);
    photo = {width: side, height: side, rgb};
    compute();
  } catch (e) { fault('This file is not an image that the browser can read; take a PNG or a JPEG.', 'photo'); }
}

// --- Answers --------------------------------------------------------------------------------------
// An image is too long to be read in a command: it comes in a file.
function command(q) {
  const text = JSON.stringify(q), code = (t) => el('code', {class: 'command', id: 'command'}, t);
  if (!q.image) return [code(`etalon lab ask '${text}'`)];
  return [code('etalon lab ask "$(cat question.json)"'), ', with ', el('a', {id: 'question', href: `data:application/json,${encodeURIComponent(text)}`, download: 'question.json'}, 'question.json'), ', which holds the image.'];
}
// Drawings of one answer are tasks of their own, so that none keeps the page from its reader.
const breath = () => new Promise((done) => setTimeout(done));
let round = 0;
async function compute() {
  const mine = ++round, s = {...state};
  $('results').classList.add('working');
  $('results').setAttribute('aria-busy', 'true');
  const a = await engine.ask({do: 'conv', ...problem(s)}, 'conv');
  if (a === null || mine !== round) return;
  $('results').classList.remove('working');
  $('results').setAttribute('aria-busy', 'false');
  if (a.error) {
    const field = Object.keys(NAMES).find((k) => a.error.startsWith(k + ':')) ?? (/winograd|fft|im2col|algo/i.test(a.error) ? 'algo' : touched ?? 'channels');
    fault(a.error, field);
    for (const id of ['answer', 'movement', 'tree', 'stepper']) $(id).replaceChildren();
    for (const id of ['move-text', 'tree-text']) $(id).textContent = 'There is nothing to show for this choice.';
    window.labAnswer = a;
    return;
  }
  fault(s.data === 'photo' && !photo ? 'Choose a photo; until then these are the results of noise.' : '', 'photo');
  last = {a, s};
  render(a, s);
  await breath();
  if (mine !== round) return;
  movement(a, s);
  const t = await engine.ask({do: 'tree', at: s.at, ...problem(s)}, 'tree');
  if (t && mine === round) summation(t, s);
  window.labAnswer = a;
}
function card(value, name) { return el('div', {}, el('b', {}, value), el('span', {}, name)); }
function render(a, s) {
  const [, filters, h, w] = a.shape, st = a.stats, plane = h * w;
  const {cost} = a, native = nativeOf(s);
  const share = st.correctly_rounded / st.elements;
  $('answer').replaceChildren(
    el('p', {class: 'small contract'}, a.contract),
    el('p', {class: 'hash', id: 'hash'}, a.hash),
    el('p', {class: 'small'}, 'The hash of these outputs, by this browser. The same from your terminal: ', ...command({do: 'conv', ...problem(s)})),
    el('div', {class: 'cards'},
      card(short(st.max_ulp), 'largest error, ULP'), card(short(st.mean_ulp), 'mean error, ULP'),
      card(`${(100 * share).toFixed(1)} %`, 'correctly rounded'),
      a.bound_ulp !== undefined ? card(short(a.bound_ulp), 'bound at that output, ULP') : null,
      card(count(a.k), 'products an output, K'),
      cost ? card(count(cost.multiplications), 'multiplications') : null, cost ? card(count(cost.additions), 'additions') : null,
      cost && cost.weights ? card(count(cost.weights), 'once, to transform the kernel') : null,
      card(`${count(Math.round(touchedBytes(s, a) / 1024))} KiB`, 'memory touched'), card(`${Math.round(a.ms)} ms`, 'in this browser'),
      native ? card(`${(native.median_s * 1e3).toPrecision(3)} ms`, 'native, larger layer') : null),
    native ? el('p', {class: 'small'}, `Native: this contract with a kernel of ${s.kernel} × ${s.kernel} took ${(native.median_s * 1e3).toPrecision(3)} ms, ${native.ratio.toFixed(2)} of the direct form’s time, on the machine that built this page. `, ETALON_DATA.native_note) : '',
    draw.histogram(st.histogram, st.elements),
    el('div', {class: 'maps'},
      draw.map(a.y.slice(0, plane), w, h, {label: `Output, filter 0 of ${filters}: ${h} × ${w}`}),
      draw.map(a.ulp.slice(0, plane), w, h, {signed: true, unit: ' ULP', label: 'Its error in ULP: orange too large, blue too small'})));
}
// Operands and what the algorithm writes beside them, from the engine's count
// (kernels/conv/algorithm_cost.h); what is written is read once.
function touchedBytes(s, a) {
  const [, o, h, w] = a.shape, plain = 4 * (s.channels * s.height * s.height + o * s.channels * s.kernel * s.kernel + o * h * w);
  const written = s.algo === 'winograd' || s.algo === 'fft' ? a.cost.bytes : s.algo === 'im2col' ? 4 * a.k * h * w : 0;
  return plain + 2 * written;
}
// What the machine that built the page took for this algorithm and this side of the kernel, on one layer.
function nativeOf(s) {
  if (s.form !== 'conv' || s.factors !== 'f32' || s.stride !== 1 || s.dilation !== 1) return null;
  const layer = ETALON_DATA.native.find((l) => l.kernel === s.kernel);
  const usual = s.points === 'usual' && s.transform === 'f32' && s.sums === 'seq';
  const known = {'order=seq': 'seq', 'order=seq,algo=im2col': 'algo=im2col'}[contract(s)] ?? (s.algo === 'winograd' && usual ? `algo=winograd:${s.m}/${s.kernel}` : contract(s));
  return layer?.rows.find((r) => r.contract === known) ?? null;
}

// --- Where the numbers go -------------------------------------------------------------------------
// What the transposed form sums into one output: the inputs whose stamps reach it. The output is drawn
// with the border that padding cuts off.
function stamps(a, s, h, w, oy, ox) {
  const met = (at) => Array.from({length: s.kernel}, (_, r) => at + s.pad - r * s.dilation).filter((q) => q >= 0 && q % s.stride === 0 && q / s.stride < s.height).map((q) => q / s.stride);
  const ys = met(oy), xs = met(ox), side = h + 2 * s.pad;
  const cell = (n) => Math.max(4, Math.min(22, Math.floor(330 / n)));
  // The stamp of the first of these inputs: taps that are `dilation` apart.
  const of = (q, at) => at - q * s.stride >= 0 && (at - q * s.stride) % s.dilation === 0 && (at - q * s.stride) / s.dilation < s.kernel;
  const inside = (i) => i >= s.pad && i < s.pad + h;
  $('move-text').textContent = `Each input stamps the kernel onto the output, ${s.stride} apart, and stamps that overlap are added. ${ys.length && xs.length ? `Output (${oy}, ${ox}) is reached by ${ys.length * xs.length} inputs of each channel: ${count(ys.length * xs.length * s.channels)} products.` : `No input reaches output (${oy}, ${ox}): it is the sum of nothing, +0.`}`;
  return [
    draw.grid(s.height, s.height, cell(s.height), (i, j) => ys.includes(i) && xs.includes(j) ? 'win' : '', `Channel 0: the inputs that reach output ${oy}, ${ox}`),
    draw.grid(side, side, cell(side), (i, j) => i === oy + s.pad && j === ox + s.pad ? 'hit' : ys.length && xs.length && of(ys.at(-1), i) && of(xs.at(-1), j) ? 'win' : inside(i) && inside(j) ? '' : 'pad',
      `Output ${oy}, ${ox} of filter 0${ys.length && xs.length ? `, and the stamp of input ${ys.at(-1)}, ${xs.at(-1)}` : ''}${s.pad ? '; grey is cut off' : ''}`)];
}
async function movement(a, s) {
  const [, , h, w] = a.shape, at = Math.min(s.at, h * w - 1), oy = Math.floor(at / w), ox = at % w;
  if (s.form === 'transposed') {
    $('movement').replaceChildren(...stamps(a, s, h, w, oy, ox));
    stepper(at, h, w);
    return;
  }
  const side = s.height + 2 * s.pad, cell = Math.max(7, Math.min(22, Math.floor(330 / side)));
  const tile = s.algo === 'winograd' ? s.m : s.algo === 'fft' ? Math.max(1, s.n - s.kernel + 1) : 1;
  const reach = s.algo === 'winograd' ? s.m + s.kernel - 1 : s.algo === 'fft' ? s.n : (s.kernel - 1) * s.dilation + 1;
  const ty = Math.floor(oy / tile) * tile, tx = Math.floor(ox / tile) * tile;
  const inside = (i, j) => i >= s.pad && j >= s.pad && i < side - s.pad && j < side - s.pad;
  const gap = tile > 1 ? 1 : s.dilation, taken = (i, from) => i >= from && i < from + reach && (i - from) % gap === 0;
  const input = draw.grid(side, side, cell, (i, j) => taken(i, ty * s.stride) && taken(j, tx * s.stride) ? 'win' : inside(i, j) ? '' : 'pad',
    `Channel 0 with its padding: ${tile > 1 ? `the tile of ${reach} × ${reach}` : `the window of ${s.kernel} × ${s.kernel}`} in use`);
  const output = draw.grid(h, w, cell, (i, j) => i === oy && j === ox ? 'hit' : i >= ty && i < ty + tile && j >= tx && j < tx + tile ? 'win' : '', `Output ${oy}, ${ox} of filter 0`);
  const parts = [input], questions = [];
  const text = {
    direct: `Output (${oy}, ${ox}) sums the products of the window with the kernel, channel after channel: up to ${count(a.k)} products.`,
    exact: `Whatever the order: the sum of up to ${count(a.k)} products is rounded once.`,
    im2col: `The window becomes a column of a matrix of ${count(a.k)} rows and ${count(h * w)} columns; the kernel is a row, and row times column is the output.`,
    winograd: `A tile of ${reach} × ${reach} inputs makes ${s.m} × ${s.m} outputs: transform the inputs (Bᵀ) and the kernel (G), multiply ${reach * reach} values, transform back (Aᵀ).`,
    fft: `A tile of ${reach} × ${reach} inputs is transformed, its spectrum multiplied by the kernel's, and ${tile} × ${tile} outputs come back.`,
  }[s.algo];
  if (s.algo === 'im2col') {
    const rows = Math.min(a.k, 36), cols = Math.min(h * w, 48), from = Math.max(0, Math.min(at - 24, h * w - cols));
    parts.push(draw.grid(rows, cols, 9, (i, j) => {
      const k = i, o = from + j, r = Math.floor(k / s.kernel) % s.kernel, c = k % s.kernel;
      const y = Math.floor(o / w) * s.stride + r * s.dilation, x = o % w * s.stride + c * s.dilation;
      return o === at ? 'win' : inside(y, x) ? '' : 'pad';
    }, `The matrix: ${rows} of ${count(a.k)} rows, columns ${from} to ${from + cols - 1}; grey is padding`));
  }
  parts.push(output);
  if (s.algo === 'winograd') {
    questions.push({do: 'transform', ...problem(s)});
    const t = await engine.ask(questions[0], 'transform');
    if (t && !t.error) parts.push(el('div', {class: 'wide', tabindex: '0'}, draw.fractions('Bᵀ, for the inputs', t.b_t), draw.fractions('G, for the kernel', t.g), draw.fractions('Aᵀ, for the outputs', t.a_t)));
  }
  if (s.algo === 'fft') {
    questions.push({do: 'spectrum', at, ...problem(s)});
    const t = await engine.ask(questions[0], 'spectrum');
    if (t && !t.error) parts.push(
      draw.map(t.x, t.width, t.height, {label: 'The tile’s spectrum, logarithm of the size'}),
      draw.map(t.w, t.width, t.height, {label: 'The kernel’s spectrum'}));
  }
  if (questions.length) parts.push(commands(questions));
  $('move-text').textContent = text;
  $('movement').replaceChildren(...parts);
  stepper(at, h, w);
}
function stepper(at, h, w) {
  const slider = el('input', {type: 'range', min: 0, max: h * w - 1, value: at, 'aria-label': 'Which output'});
  const go = (n) => { state.at = (n + h * w) % (h * w); history.replaceState(null, '', address()); step(); };
  slider.addEventListener('input', () => go(Number(slider.value)));
  const had = document.activeElement?.getAttribute('aria-label');
  $('stepper').replaceChildren(
    el('button', {type: 'button', 'aria-label': 'Output before', onclick: () => go(at - 1)}, '◀'),
    slider,
    el('button', {type: 'button', 'aria-label': 'Next output', onclick: () => go(at + 1)}, '▶'),
    el('button', {type: 'button', 'aria-label': 'Play', onclick: play}, playing ? 'Stop' : 'Play'),
    el('span', {class: 'small'}, `output ${at} of ${h * w}`));
  if (had) [...$('stepper').children].find((e) => e.getAttribute('aria-label') === had)?.focus();
}
let playing = 0;
function play() {
  if (playing) { clearInterval(playing); playing = 0; step(); return; }
  playing = setInterval(() => {
    const [, , h, w] = last.a.shape;
    if ($('lab').hidden) { clearInterval(playing); playing = 0; return; }
    state.at = (state.at + 1) % (h * w);
    step();
  }, 250);
  step();
}
async function step() {
  if (!last) return;
  last.s.at = state.at;
  await movement(last.a, last.s);
  const mine = round, t = await engine.ask({do: 'tree', at: state.at, ...problem(last.s)}, 'tree');
  if (t && mine === round) summation(t, last.s);
}
function summation(t, s) {
  if (t.error) { $('tree-text').textContent = t.error; $('tree').replaceChildren(); return; }
  $('tree-text').textContent = `Output ${t.at}, from the algorithm’s own text: ${count(t.nodes.filter((n) => n[0]).length)} ${onUnit(s) ? 'blocks, each added at once in fixed point and cut' : 'roundings'}.`;
  $('tree').replaceChildren(draw.tree(t), commands([{do: 'tree', at: t.at, ...problem(s)}]));
}

// --- Side by side ---------------------------------------------------------------------------------
async function compareAll() {
  const rows = [['one chain', {algo: 'direct', order: 'seq'}], ['8 lanes', {algo: 'direct', order: 'lanes:8'}], ['a balanced tree', {algo: 'direct', order: 'pairwise:1'}], ['a tensor core (Hopper, TF32)', {algo: 'direct', order: 'tensorcore:hopper:tf32'}], ['a tensor core (Hopper, f16)', {algo: 'direct', order: 'tensorcore:hopper:f16'}], ['im2col', {algo: 'im2col', order: 'seq'}], ['Winograd 2', {algo: 'winograd', m: 2}], ['Winograd 4', {algo: 'winograd', m: 4}], ['Winograd 6', {algo: 'winograd', m: 6}], ['FFT', {algo: 'fft'}], ['exact', {algo: 'exact'}]];
  const body = el('tbody');
  const head = ['', 'largest, ULP', 'mean, ULP', 'correctly rounded', 'multiplications', 'additions', 'hash'], asked = [];
  $('compared').dataset.done = 'false';
  $('compared').replaceChildren(el('table', {}, el('thead', {}, el('tr', {}, ...head.map((t) => el('th', {scope: 'col'}, t)))), body));
  for (const [name, change] of rows) {
    const s = {...state, ...PLAIN, ...change}, q = {do: 'conv', values: false, ...problem(s)};
    const a = await engine.ask(q);
    const link = el('a', {href: address(s)}, name);
    asked.push(q);
    if (a.error) { body.append(el('tr', {}, el('td', {}, link), el('td', {colspan: 6, class: 'reason'}, a.error))); continue; }
    body.append(el('tr', {}, el('td', {}, link), el('td', {}, short(a.stats.max_ulp)), el('td', {}, short(a.stats.mean_ulp)), el('td', {}, `${(100 * a.stats.correctly_rounded / a.stats.elements).toFixed(1)} %`), el('td', {}, a.cost ? count(a.cost.multiplications) : ''), el('td', {}, a.cost ? count(a.cost.additions) : ''), el('td', {}, el('code', {}, a.hash.slice(0, 12)))));
  }
  $('compared').append(commands(asked));
  $('compared').dataset.done = 'true';
}

// --- How the error grows --------------------------------------------------------------------------
let curveRound = 0;
function startCurves() {
  const axis = $('curve-axis'), measure = $('curve-measure');
  axis.append(...Object.entries(AXES).map(([k, a]) => el('option', {value: k}, a.title)));
  measure.append(...Object.entries(MEASURES).map(([k, t]) => el('option', {value: k}, t)));
  const go = async () => {
    const mine = ++curveRound;
    $('curve').dataset.done = 'false';
    $('curve').replaceChildren(el('p', {class: 'small'}, 'Computing …'));
    await curve($('curve'), axis.value, measure.value, state, () => mine === curveRound);
    if (mine === curveRound) $('curve').dataset.done = 'true';
  };
  $('curve-go').addEventListener('click', go);
  for (const e of [axis, measure]) e.addEventListener('input', () => { if ($('curve').dataset.done) go(); });
}

// --- Start ----------------------------------------------------------------------------------------
for (const [id, name] of PAGES) $('nav').append(el('a', {href: `#${id}`, 'data-page': id}, name));
const form = $('controls');
form.addEventListener('submit', (e) => e.preventDefault());
form.append(
  el('fieldset', {}, el('legend', {}, 'Shape'), ...['form', 'channels', 'height', 'filters', 'kernel', 'stride', 'pad', 'dilation'].map(control)),
  el('fieldset', {}, el('legend', {}, 'Data'), ...['data', 'digit', 'photo', 'seed'].map(control)),
  el('fieldset', {}, el('legend', {}, 'Algorithm'), ...['algo', 'm', 'n', 'points', 'transform', 'sums', 'order', 'fma', 'acc', 'factors'].map(control)));
startLessons();
$('compare').addEventListener('click', compareAll);
startCurves();
$('about-build').textContent = ETALON_DATA.build;
$('foot').textContent = `${ETALON_DATA.build} This page was written by: ${ETALON_DATA.command}`;
window.addEventListener('hashchange', show);
show();
