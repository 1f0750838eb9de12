// Drawings: maps of numbers, histograms, windows that slide, summation trees. Each returns an
// element; numbers on hover and in a text for readers who do not see it.
'use strict';
const NS = 'http://www.w3.org/2000/svg';
function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes))
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v != null) e.setAttribute(k, v);
  e.append(...children.filter((c) => c != null));
  return e;
}
function svg(name, attributes = {}, ...children) {
  const e = document.createElementNS(NS, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
const short = (v) => v === null || v === undefined ? 'not finite' : v === 0 ? '0' :
  Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(4)));
const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');

// 256 shades from c0 to c1 ([red, green, blue]), as a canvas stores its pixels.
const shadesOf = (c0, c1) => Uint32Array.from({length: 256}, (_, i) => c0.reduce((word, from, at) => word | Math.round(from + (c1[at] - from) * i / 255) << 8 * at, 0xff000000) >>> 0);
const shades = {grey: shadesOf([31, 30, 29], [245, 245, 244]), up: shadesOf([252, 244, 240], [200, 75, 24]), down: shadesOf([240, 245, 252], [28, 94, 190]), absent: 0xffff00dd};

// What a drawing may be wide: pages that are not shown have no width of their own.
const room = (most) => Math.max(280, Math.min(most, document.getElementById('main').clientWidth - 36));

const draw = {
  // A channel as a picture, a pixel for each value. signed: two hues around zero, scaled by the
  // logarithm.
  map(values, width, height, {signed = false, label, unit = ''}) {
    const scale = Math.max(4, Math.floor(260 / Math.max(width, height)));
    const canvas = el('canvas', {width, height, style: `width:${width * scale}px`, role: 'img', 'aria-label': label, tabindex: '0'});
    const c = canvas.getContext('2d'), picture = c.createImageData(width, height), pixels = new Uint32Array(picture.data.buffer);
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v !== null) { if (v < low) low = v; if (v > high) high = v; }
    const most = Math.log2(1 + 2 * Math.max(Math.abs(low), Math.abs(high), 0.5));
    if (high <= low) high = low + 1;
    for (let i = 0; i < values.length; i++) {
      const v = values[i];
      if (v === null) pixels[i] = shades.absent;
      else if (signed) pixels[i] = shades[v >= 0 ? 'up' : 'down'][Math.round(255 * Math.log2(1 + 2 * Math.abs(v)) / most)];
      else pixels[i] = shades.grey[Math.round(255 * (v - low) / (high - low))];
    }
    c.putImageData(picture, 0, 0);
    const note = el('figcaption', {}, label);
    const figure = el('figure', {}, canvas, note);
    const tell = (i) => { note.textContent = `row ${Math.floor(i / width)}, column ${i % width}: ${short(values[i])}${unit}`; };
    canvas.addEventListener('mousemove', (e) => {
      const r = canvas.getBoundingClientRect();
      const x = Math.floor((e.clientX - r.left) / r.width * width), y = Math.floor((e.clientY - r.top) / r.height * height);
      if (x >= 0 && y >= 0 && x < width && y < height) tell(y * width + x);
    });
    let at = 0;
    canvas.addEventListener('keydown', (e) => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width}[e.key];
      if (!step) return;
      e.preventDefault();
      at = Math.min(values.length - 1, Math.max(0, at + step));
      tell(at);
    });
    canvas.addEventListener('mouseleave', () => { note.textContent = label; });
    return figure;
  },

  // Outputs by error: buckets up to 0.5, 1, 2, 4 ... ULP.
  histogram(buckets, total) {
    let last = buckets.length - 1;
    while (last > 3 && !buckets[last]) last--;
    const w = room(460), h = 130, n = last + 1, step = (w - 20) / n, most = Math.max(...buckets);
    const name = (i) => i === 0 ? '≤ ½' : i === buckets.length - 1 ? 'more' : `${2 ** (i - 1)}`;
    const g = svg('svg', {viewBox: `0 0 ${w} ${h + 34}`, width: w, height: h + 34, class: 'histogram', role: 'img',
      'aria-label': `Errors: ${buckets.slice(0, n).map((b, i) => `${b} of ${total} up to ${i ? 2 ** (i - 1) : 'one half'} ULP`).join('; ')}`});
    for (let i = 0; i < n; i++) {
      const bar = most ? buckets[i] / most * (h - 16) : 0;
      g.append(svg('rect', {x: 10 + i * step + 2, y: h - bar, width: Math.max(1, step - 4), height: bar, class: i ? 'bar' : 'bar good'}));
      if (buckets[i]) {
        const t = svg('text', {x: 10 + (i + .5) * step, y: h - bar - 4, 'text-anchor': 'middle'});
        t.textContent = n > 12 && buckets[i] > 999 ? `${Math.round(buckets[i] / 1000)}k` : count(buckets[i]);
        g.append(t);
      }
      const t = svg('text', {x: 10 + (i + .5) * step, y: h + 14, 'text-anchor': 'middle'});
      t.textContent = name(i);
      g.append(t);
    }
    const t = svg('text', {x: w / 2, y: h + 30, 'text-anchor': 'middle'});
    t.textContent = 'error of an output, in units in the last place, up to';
    g.append(t);
    return g;
  },

  // A grid of cells; mark(i, j) gives a class or nothing. Neighbours of one class are one rectangle,
  // with the lines of the grid above them.
  grid(rows, cols, cell, mark, label) {
    const g = svg('svg', {viewBox: `0 0 ${cols * cell + 1} ${rows * cell + 1}`, width: cols * cell + 1, height: rows * cell + 1, role: 'img', 'aria-label': label, class: 'grid'});
    let open = new Map();  // by columns and class: the rectangle that this row may lengthen
    for (let i = 0; i < rows; i++) {
      const now = new Map();
      for (let j = 0; j < cols;) {
        const kind = mark(i, j) || 'cell', from = j;
        while (j < cols && (mark(i, j) || 'cell') === kind) j++;
        const key = `${from} ${j} ${kind}`, above = open.get(key);
        if (above) above.setAttribute('height', Number(above.getAttribute('height')) + cell);
        now.set(key, above ?? g.appendChild(svg('rect', {x: from * cell + .5, y: i * cell + .5, width: (j - from) * cell, height: cell, class: kind})));
      }
      open = now;
    }
    let lines = '';
    for (let i = 0; i <= rows; i++) lines += `M.5 ${i * cell + .5}h${cols * cell}`;
    for (let j = 0; j <= cols; j++) lines += `M${j * cell + .5} .5v${rows * cell}`;
    g.append(svg('path', {d: lines, class: 'lines'}));
    return el('figure', {}, g, el('figcaption', {}, label));
  },

  fractions(name, matrix) {
    const t = el('table', {class: 'matrix'}, el('caption', {}, name));
    for (const row of matrix) t.append(el('tr', {}, ...row.map((v) => el('td', {}, v))));
    return t;
  },

  // The summation tree of few terms; of many, what each rounding did to the result.
  tree({nodes, root, exact}, caption = 'Each circle is one rounding, its size the error born there.') {
    const KIND = ['', '+', '×', 'fma', '÷', '√', 'block'];
    const place = (i) => i <= -2 ? -2 - i : i, sign = (i) => i <= -2 ? -1 : 1;
    const worth = (i) => i === -1 ? 0 : sign(i) * nodes[place(i)][4];
    // How much the result changes with each node, to first order: from the root down.
    const weight = new Float64Array(nodes.length), depth = new Int32Array(nodes.length);
    weight[root] = 1;
    let deepest = 0;
    for (let i = root; i >= 0; i--) {
      const [kind, a, b, c] = nodes[i];
      const pass = (operand, factor) => {
        if (operand === -1) return;
        weight[place(operand)] += weight[i] * factor * sign(operand);
        if (kind) depth[place(operand)] = Math.max(depth[place(operand)], depth[i] + 1);
      };
      if (kind) deepest = Math.max(deepest, depth[i]);
      if (kind === 1) { pass(a, 1); pass(b, 1); }
      if (kind === 2 || kind === 3) { pass(a, worth(b)); pass(b, worth(a)); }
      if (kind === 3) pass(c, 1);
      if (kind === 4) { pass(a, 1 / worth(b)); pass(b, -nodes[i][4] / worth(b)); }
      if (kind === 5) pass(a, 0.5 / nodes[i][4]);
      if (kind === 6) pass(a, 1);
    }
    const sums = nodes.map((n, i) => [...n, i]).filter((n) => n[0] !== 0);
    const born = sums.reduce((m, n) => Math.max(m, Math.abs(n[5])), 1e-300);
    const close = `Result ${nodes[root][4]}, exact ${exact}, error ${short(nodes[root][4] - exact)}`;
    if (sums.length > 48 || deepest > 9) {
      const w = room(640), h = 190;
      const g = svg('svg', {viewBox: `0 0 ${w} ${h + 8}`, width: w, height: h + 8, role: 'img', class: 'line',
        'aria-label': `What each of ${sums.length} roundings did to the result`});
      g.append(svg('line', {x1: 0, x2: w, y1: h / 2, y2: h / 2, class: 'axis'}));
      const shares = sums.map((n) => n[5] * weight[n[6]]);
      let total = 0, path = '';
      const totals = shares.map((v) => (total += v));
      const reach = shares.reduce((m, v, i) => Math.max(m, Math.abs(v), Math.abs(totals[i])), 1e-300);
      // Where there are more roundings than pixels, the first, least and greatest of each half pixel.
      const each = Math.max(1, Math.floor(sums.length / (2 * w)));
      const place = (v) => (h / 2 - v / reach * (h / 2 - 6)).toFixed(1);
      let up = '', down = '';
      for (let i = 0; i < sums.length; i += each) {
        const x = ((i + .5) / sums.length * w).toFixed(1);
        let least = 0, most = 0;
        for (let j = i; j < Math.min(i + each, sums.length); j++) { least = Math.min(least, shares[j]); most = Math.max(most, shares[j]); }
        if (most > 0) up += `M${x} ${h / 2}V${place(most)}`;
        if (least < 0) down += `M${x} ${h / 2}V${place(least)}`;
        path += `${i ? 'L' : 'M'}${x} ${place(totals[i])}`;
      }
      g.append(svg('path', {d: up, class: 'up'}), svg('path', {d: down, class: 'down'}), svg('path', {d: path, class: 'running'}));
      return el('figure', {}, g, el('figcaption', {}, `${count(sums.length)} roundings in their sequence, ${deepest + 1} deep: each bar is what one of them did to the result, the line is their sum (height of the drawing: ${short(reach)}). ${close}`));
    }
    // Leaves left to right, each inner node above the middle of what it reads.
    const placed = new Map();
    let leaf = 0;
    const visit = (i) => {
      if (placed.has(i)) return placed.get(i).x;
      const [kind, a, b, c] = nodes[i];
      const inner = (kind === 3 ? [c] : [a, b]).filter((x) => x !== -1).map(place).filter((x) => nodes[x][0] !== 0);
      const xs = inner.map(visit);
      const x = xs.length ? xs.reduce((s, v) => s + v, 0) / xs.length + (xs.length === 1 ? .5 : 0) : leaf;
      leaf = Math.max(leaf, x + 1);
      placed.set(i, {x, depth: depth[i], inner});
      return x;
    };
    visit(root);
    const wide = 66, tall = 50, w = Math.max(leaf * wide + 20, 240), h = (deepest + 1) * tall + 20;
    const g = svg('svg', {viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: 'img', class: 'tree',
      'aria-label': `A tree of ${sums.length} operations, ${deepest + 1} levels deep`});
    for (const [, p] of placed)
      for (const i of p.inner) {
        const q = placed.get(i);
        g.append(svg('line', {x1: p.x * wide + 40, y1: p.depth * tall + 24, x2: q.x * wide + 40, y2: q.depth * tall + 24, class: 'edge'}));
      }
    for (const [i, p] of placed) {
      const n = nodes[i], e = Math.abs(n[5]) / born;
      const node = svg('g', {}, svg('circle', {cx: p.x * wide + 40, cy: p.depth * tall + 24, r: 6 + 9 * Math.sqrt(e), class: n[5] ? 'node born' : 'node'}));
      const t = svg('text', {x: p.x * wide + 40, y: p.depth * tall + 46, 'text-anchor': 'middle'});
      t.textContent = short(n[4]);
      const hint = svg('title', {});
      hint.textContent = `${KIND[n[0]]} = ${n[4]}, error born ${n[5]}`;
      node.append(t, hint);
      g.append(node);
    }
    return el('figure', {}, el('div', {class: 'wide', tabindex: '0'}, g),
      el('figcaption', {}, `${caption} ${close}`));
  },
};
