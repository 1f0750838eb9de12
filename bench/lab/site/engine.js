// The engine in a worker: ask(question) gives a promise of the answer. Of questions with the same
// `slot` only the newest is kept while an older one is being computed, so that a slider stays live.
'use strict';
const engine = (() => {
  const source = `
    let api = null;
    const text = new TextDecoder(), bytes = new TextEncoder();
    async function start(wasm) {
      const module = await WebAssembly.compile(wasm);
      const imports = {};
      let memory = null;
      const word = (at, v) => new DataView(memory.buffer).setUint32(at, v, true);
      // What a program without files, clock or environment sees.
      const known = {
        fd_write(fd, list, count, written) {
          let n = 0;
          const view = new DataView(memory.buffer);
          for (let i = 0; i < count; i++) n += view.getUint32(list + 8 * i + 4, true);
          word(written, n);
          return 0;
        },
        environ_sizes_get(count, size) { word(count, 0); word(size, 0); return 0; },
        proc_exit(code) { throw new Error('the engine ended with code ' + code); },
      };
      for (const i of WebAssembly.Module.imports(module))
        if (i.kind === 'function') (imports[i.module] ??= {})[i.name] = known[i.name] ?? (() => 0);
      api = (await WebAssembly.instantiate(module, imports)).exports;
      memory = api.memory;
      if (api._initialize) api._initialize();
    }
    function answer(question) {
      const q = bytes.encode(JSON.stringify(question));
      const at = api.malloc(q.length + 1);
      const room = new Uint8Array(api.memory.buffer);
      room.set(q, at);
      room[at + q.length] = 0;
      const reply = api.etalon_answer(at);
      api.free(at);
      const all = new Uint8Array(api.memory.buffer);
      return JSON.parse(text.decode(all.subarray(reply, all.indexOf(0, reply))));
    }
    onmessage = async ({data}) => {
      try {
        if (data.wasm) { await start(data.wasm).then(() => postMessage({ready: true}), (e) => postMessage({failed: e.message})); return; }
        const began = performance.now();
        const reply = answer(data.question);
        postMessage({id: data.id, reply, ms: performance.now() - began});
      } catch (e) {
        postMessage({id: data.id, reply: {error: 'This browser could not compute it: ' + e.message}});
      }
    };`;
  const worker = new Worker(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  const raw = atob(ETALON_WASM);
  const wasm = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) wasm[i] = raw.charCodeAt(i);
  let ready, next = 0, busy = null, broken = null;
  const started = new Promise((r) => { ready = r; });
  const waiting = [];
  worker.onmessage = ({data}) => {
    if (data.failed) broken = `This browser could not start the engine (${data.failed}); the page needs WebAssembly and some memory.`;
    if (data.ready || broken) { ready(); return; }
    const done = busy;
    busy = null;
    done.resolve({...data.reply, ms: data.ms});
    go();
  };
  worker.postMessage({wasm: wasm.buffer}, [wasm.buffer]);
  function go() {
    while (broken && waiting.length) waiting.shift().resolve({error: broken});
    if (busy || !waiting.length) return;
    busy = waiting.shift();
    worker.postMessage({id: busy.id, question: busy.question});
  }
  return {
    started,
    get idle() { return !busy && !waiting.length; },
    ask(question, slot) {
      return new Promise((resolve) => {
        if (slot) {
          const old = waiting.findIndex((w) => w.slot === slot);
          if (old >= 0) waiting.splice(old, 1)[0].resolve(null);
        }
        waiting.push({id: next++, question, slot, resolve});
        started.then(go);
      });
    },
  };
})();
