// The lessons: links into the laboratory, and questions whose answers are computed.
'use strict';
// What is right, and why: given with the question, or computed now from two contracts (or changes of
// the problem).
async function truth(q) {
  if (q.right !== undefined) return {right: q.right, why: q.why};
  if (q.answer !== undefined) return {right: q.answer, why: q.why};
  const [a, b] = await Promise.all((q.compare ?? q.equal).map((c) => engine.ask({do: 'conv', values: false, ...q.problem, ...(typeof c === 'string' ? {contract: c} : c)})));
  if (q.equal) return {right: a.hash === b.hash ? 0 : 2, why: `${q.why} Computed just now: ${a.hash.slice(0, 12)}… and ${b.hash.slice(0, 12)}….`};
  const [x, y] = [a.stats[q.measure], b.stats[q.measure]];
  const first = q.larger ? x > y : x < y;
  return {right: x === y ? 2 : first ? 0 : 1, why: `Computed just now: ${short(x)} against ${short(y)} ULP.`};
}
function question(box, number) {
  const q = JSON.parse(box.dataset.ask), name = `q${number}`;
  const verdict = el('p', {class: 'verdict', role: 'status'});
  const input = q.kind === 'number' ? el('input', {type: 'number', 'aria-label': 'Your answer', step: 'any'}) : null;
  const decode = (t) => new DOMParser().parseFromString(t, 'text/html').body.textContent;
  const choices = (q.options ?? []).map((t, i) => el('label', {}, el('input', {type: 'radio', name, value: i}), ' ', decode(t)));
  box.append(el('fieldset', {}, el('legend', {}, decode(q.text)), ...choices, input), el('button', {type: 'button', onclick: async () => {
    const given = input ? input.value : box.querySelector(':checked')?.value;
    if (given === undefined || given === '') { verdict.textContent = 'Answer first, then check.'; return; }
    const {right, why} = await truth(q);
    const holds = Number(given) === right;
    verdict.className = `verdict ${holds ? 'right' : 'wrong'}`;
    verdict.textContent = `${holds ? 'Right.' : q.options ? `No: ${decode(q.options[right])}.` : `No: ${right}.`} ${why ?? ''}`;
  }}, 'Check'), verdict);
}
function startLessons() {
  for (const p of document.querySelectorAll('.try')) {
    const text = p.textContent;
    p.replaceChildren(el('a', {href: `#lab?${p.dataset.set}`}, `▷ ${text}`));
  }
  document.querySelectorAll('.question').forEach(question);
  const lessons = PAGES.slice(1, 6);
  lessons.forEach(([id], i) => $(id).append(el('nav', {class: 'onward', 'aria-label': 'Neighbouring pages'},
    i ? el('a', {href: `#${lessons[i - 1][0]}`}, `← ${lessons[i - 1][1]}`) : el('a', {href: '#lab'}, '← Laboratory'),
    i + 1 < lessons.length ? el('a', {href: `#${lessons[i + 1][0]}`}, `${lessons[i + 1][1]} →`) : el('a', {href: '#teach'}, 'For the lecturer →'))));
}
