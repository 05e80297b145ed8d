// Workers, JSON, strings, garbage: the argument is the number of records of each worker. Prints what they found.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const WORKERS = 2;

function records(seed, count) {
    let at = seed;
    const list = [];
    for (let i = 0; i < count; i++) {
        at = (Math.imul(at, 1103515245) + 12345) >>> 0;
        list.push({ id: i, name: `record ${at % 9973}`, tags: [at & 255, at >>> 24], next: at % count });
    }
    return list;
}

function work(seed, count) {
    const text = JSON.stringify(records(seed, count));
    const list = JSON.parse(text);
    const names = new Map();
    for (const { name, id } of list) names.set(name, (names.get(name) || 0) + id);
    let at = 0;
    let sum = text.length;
    for (let i = 0; i < 2 * count; i++) {
        const here = list[at];
        sum = (sum * 31 + here.tags[0] + names.get(here.name)) % 1000003;
        at = (here.next + i) % count;
    }
    const bytes = Buffer.from(text);
    for (let i = 0; i < bytes.length; i += 97) sum = (sum * 31 + bytes[i]) % 1000003;
    return sum;
}

if (isMainThread) {
    const count = Number(process.argv[2]);
    const found = new Array(WORKERS);
    let left = WORKERS;
    for (let n = 0; n < WORKERS; n++) {
        const worker = new Worker(__filename, { workerData: { seed: n + 1, count } });
        worker.on('message', (sum) => { found[n] = sum; });
        worker.on('exit', () => { if (--left === 0) console.log(found.join(' ')); });
    }
    console.log(work(99, count));
} else {
    parentPort.postMessage(work(workerData.seed, workerData.count));
}
