// The engine in WebAssembly against the program: the same question has the same hash.
//
//   node tests/lab_wasm_test.mjs LAB.WASM ETALON [SEED]
//
// Shapes, data and contracts are drawn anew at each run; the seed is printed, and given again it
// asks the same questions. Exit code 1 when a hash differs or nothing could be compared.
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';

const [wasm, etalon, given] = process.argv.slice(2);
let seed = given ? Number(given) : Date.now() % 1000000007;
console.log(`seed ${seed}`);
const draw = (n) => { seed = (seed * 48271) % 2147483647; return seed % n; };

const module = await WebAssembly.compile(fs.readFileSync(wasm));
const imports = {};
let memory;
for (const i of WebAssembly.Module.imports(module))
  (imports[i.module] ??= {})[i.name] = (...a) => {
    if (i.name === 'environ_sizes_get') for (const at of a) new DataView(memory.buffer).setUint32(at, 0, true);
    return 0;
  };
const api = (await WebAssembly.instantiate(module, imports)).exports;
memory = api.memory;
api._initialize?.();
function ask(question) {
  const q = new TextEncoder().encode(JSON.stringify(question)), at = api.malloc(q.length + 1);
  new Uint8Array(memory.buffer).set([...q, 0], at);
  const reply = api.etalon_answer(at), all = new Uint8Array(memory.buffer);
  const text = new TextDecoder().decode(all.subarray(reply, all.indexOf(0, reply)));
  api.free(at);
  return JSON.parse(text);
}

const contracts = ['seq', 'exact', 'order=lanes:8', 'order=pairwise:1', 'order=blocks:16', 'order=splitk:3,fma=off', 'acc=bf16', 'acc=f16',
  'acc=f64', 'round=ru', 'subnormals=flush', 'walk=rsc', 'algo=im2col', 'algo=winograd:2/3', 'algo=winograd:4/3,channels=pairwise:1', 'algo=winograd:6/3,transform=f64', 'algo=fft:16'];
let compared = 0, different = 0;
const hashes = new Set();
for (const contract of contracts)
  for (let n = 0; n < 3; n++) {
    const q = {do: 'conv', values: false, channels: 1 + draw(9), height: 5 + draw(12), width: 5 + draw(12), filters: 1 + draw(3), kernel: 3, pad: draw(3),
      data: ['noise', 'ones', 'cancelling', 'scales'][draw(4)], seed: draw(1000), factors: ['f32', 'bf16', 'f16'][draw(3)], contract};
    if (!contract.startsWith('algo=') && draw(3) === 0) { q.form = 'transposed'; q.stride = 1 + draw(3); }
    const here = ask(q);
    let there;
    try {
      there = /^hash +(\w+)$/m.exec(execFileSync(etalon, ['lab', 'ask', JSON.stringify(q)], {encoding: 'utf8'}))[1];
    } catch (e) {
      there = `error: ${e.stderr}`;
    }
    compared++;
    hashes.add(here.hash);
    if (here.hash !== there) {
      different++;
      console.log(`DIFFERS: ${JSON.stringify(q)}: ${here.hash ?? here.error} in WebAssembly, ${there} here`);
    }
  }
console.log(`${compared - different} of ${compared} hashes equal, ${hashes.size} of them unlike each other`);
process.exit(different || hashes.size < compared / 2 ? 1 : 0);
