// As fan.py: three forked processes by their channel, two workers by messages.
const child = require("child_process");
const workers = require("worker_threads");

if (!workers.isMainThread) {
    workers.parentPort.on("message", (n) => {
        if (n < 0)
            process.exit(0);
        workers.parentPort.postMessage(n * n);
    });
} else if (process.argv[2] === "child") {
    process.on("message", (n) => process.send(n * n));
    process.on("disconnect", () => process.exit(0));
} else {
    main();
}

function ask(to, n) {
    return new Promise((done) => {
        to.once("message", done);
        to.send ? to.send(n) : to.postMessage(n);
    });
}

async function main() {
    let total = 0;
    const children = [0, 1, 2].map(() => child.fork(__filename, ["child"]));
    for (let i = 0; i < 60; i++)
        total += await ask(children[i % 3], i);
    for (const c of children) {
        const gone = new Promise((done) => c.once("exit", done));
        c.disconnect();
        await gone;
    }
    console.log("processes", total);
    total = 0;
    const threads = [0, 1].map(() => new workers.Worker(__filename));
    for (let i = 0; i < 60; i++)
        total += await ask(threads[i % 2], i);
    for (const t of threads) {
        const gone = new Promise((done) => t.once("exit", done));
        t.postMessage(-1);
        await gone;
    }
    console.log("threads", total);
    process.exit(7);
}
