"""More real programs to measure, as programs.py: a proxy in front of two
servers, a message broker, rsync over a pipe, xargs -P, a Python process pool,
a Node cluster, an MPI program on three ranks."""

import os
import subprocess

from programs import WAIT, Program, free_port

NEEDED = ["haproxy", "mosquitto", "mosquitto_pub", "mosquitto_sub", "rsync",
          "node", "curl", "xargs", "strace", "mpicc", "mpirun"]

# Threads that never speak: node's and libuv's pools idle here.
SILENT = {"node", "haproxy"}

HTTP_SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = (sys.argv[2] + self.path + "\\n").encode() * 40
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer)
server.handle_error = lambda *reset: None
server.serve_forever()
"""


def write(directory, name, text):
    path = os.path.join(str(directory), name)
    with open(path, "w") as f:
        f.write(text)
    return path


def haproxy(directory, requests):
    front, one, two = free_port(), free_port(), free_port()
    write(directory, "server.py", HTTP_SERVER)
    write(directory, "haproxy.cfg", """
global
    nbthread 2
defaults
    mode http
    timeout connect 10s
    timeout client 10s
    timeout server 10s
frontend front
    bind 127.0.0.1:%d
    default_backend servers
backend servers
    balance roundrobin
    server one 127.0.0.1:%d
    server two 127.0.0.1:%d
""" % (front, one, two))
    return Program(directory, "haproxy", WAIT + """
/usr/bin/python3 server.py %d A & echo $! >one.pid
/usr/bin/python3 server.py %d B & echo $! >two.pid
await curl -sf http://127.0.0.1:%d/
await curl -sf http://127.0.0.1:%d/
/usr/sbin/haproxy -q -db -f haproxy.cfg & echo $! >proxy.pid
await curl -sf http://127.0.0.1:%d/ready
for i in $(seq %d); do curl -sf http://127.0.0.1:%d/$((i / 2)); done |
    sort | uniq -c
kill -USR1 $(cat proxy.pid); wait $(cat proxy.pid); echo "proxy $?"
kill -TERM $(cat one.pid) $(cat two.pid)
wait $(cat one.pid); wait $(cat two.pid); echo "servers $?"
""" % (one, two, one, two, front, requests, front))


def mosquitto(directory, messages):
    port = free_port()
    write(directory, "mosquitto.conf", """
listener %d 127.0.0.1
allow_anonymous true
persistence false
log_type error
""" % port)
    return Program(directory, "mosquitto", WAIT + """
/usr/sbin/mosquitto -c mosquitto.conf & echo $! >server.pid
await mosquitto_pub -p %(p)d -t ready -m yes
for i in $(seq %(n)d); do
    mosquitto_pub -p %(p)d -q 1 -r -t t/$i -m "message $i"
done
mosquitto_sub -p %(p)d -q 1 -C %(n)d -v -t 't/#' | sort | cksum
>live
mosquitto_sub -p %(p)d -C 30 -t live >live & sub=$!
# It may subscribe in the middle of them: any 30 in a row are all numbers.
while kill -0 $sub 2>/dev/null; do
    seq 30 | mosquitto_pub -p %(p)d -l -t live
done
wait $sub; sort -n live | cksum
kill -TERM $(cat server.pid); wait $(cat server.pid); echo "server $?"
""" % {"p": port, "n": messages}, lambda out: out)


def rsync(directory, files):
    write(directory, "remote", '#!/bin/sh\nshift\nexec sh -c "$*"\n')
    os.chmod(os.path.join(str(directory), "remote"), 0o755)
    return Program(directory, "rsync", """
mkdir -p from to
for i in $(seq %d); do seq $((i * 300)) >from/$i; done
rsync -a -e ./remote from/ host:$PWD/to/; echo "first $?"
for i in 1 3; do echo changed >>from/$i; done
rm from/2
rsync -ai --delete --no-t --checksum -e ./remote host:$PWD/from/ to/ | sort
(cd to; cksum *)
""" % files)


def xargs(directory, count):
    return Program(directory, "xargs", """
seq %d | xargs -P 4 -n 3 sh -c 'echo "$@" | cksum' sh | sort | cksum
seq %d | xargs -P 3 -I{} sh -c 'exit $(({} == 5))'; echo "status $?"
printf 'a\\0b c\\0' | xargs -0 -P 2 -n 1 echo | sort
""" % (count, count))


POOL = """
import multiprocessing, os, sys

def square(n):
    return n * n

def produce(queue, first):
    for i in range(first, first + 10):
        queue.put((i, "x" * (i * 50)))

if __name__ == "__main__":
    for method in sys.argv[1:]:
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            print(method, sum(pool.imap_unordered(square, range(60), 4)))
            print(pool.map(square, range(6)), pool.apply(square, (12,)))
            pool.close()
            pool.join()
    queue = multiprocessing.Queue()
    makers = [multiprocessing.Process(target=produce, args=(queue, i))
              for i in (0, 10)]
    for m in makers:
        m.start()
    print(sum(queue.get()[0] for _ in range(20)))
    for m in makers:
        m.join()
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        shared["a"] = 1
        print(dict(shared))
"""


def pool(directory):
    write(directory, "pool.py", POOL)
    return Program(directory, "pool",
                   "/usr/bin/python3 pool.py fork spawn; echo status $?\n")


CLUSTER = """
const cluster = require("cluster"), http = require("http");
const PORT = %d, REQUESTS = %d;
if (cluster.isPrimary) {
    const workers = [cluster.fork(), cluster.fork()];
    let up = 0, gone = 0;
    cluster.on("listening", () => { if (++up === 2) ask(0, 0); });
    cluster.on("exit", (w, code) => {
        console.log("worker", code);
        if (++gone === 2)
            process.exit(5);
    });
    function ask(n, bytes) {
        if (n === REQUESTS) {
            console.log("answers", n, bytes);
            cluster.disconnect();
            return;
        }
        http.get({ port: PORT, host: "127.0.0.1", path: "/" + n,
                   agent: false }, (res) => {
            res.on("data", (d) => { bytes += d.length; });
            res.on("end", () => ask(n + 1, bytes));
        });
    }
} else {
    http.createServer((req, res) => {
        res.end("answer to " + req.url + "\\n");
    }).listen(PORT, "127.0.0.1");
}
"""


def node_cluster(directory, requests):
    write(directory, "cluster.js", CLUSTER % (free_port(), requests))
    return Program(directory, "node-cluster",
                   "node cluster.js; echo status $?\n")


def mpi(directory, steps, ways="tcp,self", then=""):
    """The ranks speak TCP, as they would between machines; what they say
    through shared memory ("vader,self") cannot be seen. `then`: "hold"."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "..", "programs", "mpi", "stencil.c")
    chosen = {
        "btl": ways, "pml": "ob1", "btl_tcp_if_include": "lo",
        "oob_tcp_if_include": "lo", "plm": "isolated",
        "mpi_yield_when_idle": "1", "rmaps_base_oversubscribe": "1",
        "hwloc_base_binding_policy": "none",
        "orte_tmpdir_base": str(directory)}
    env = {"OMPI_MCA_" + name: value for name, value in chosen.items()}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    settings = "".join("export %s=%s\n" % each for each in sorted(env.items()))
    subprocess.run(["mpicc", "-O2", "-g", "-o",
                    os.path.join(str(directory), "stencil"), source],
                   check=True)
    return Program(directory, "mpi", settings + """
mpirun -np 3 ./stencil 1200 %d %s; echo "exit $?"
""" % (steps, then))


ALL = {
    "haproxy": lambda d, small: haproxy(d, 6 if small else 20),
    "mosquitto": lambda d, small: mosquitto(d, 5 if small else 15),
    "rsync": lambda d, small: rsync(d, 3 if small else 12),
    "xargs": lambda d, small: xargs(d, 12 if small else 40),
    "pool": lambda d, small: pool(d),
    "node-cluster": lambda d, small: node_cluster(d, 6 if small else 20),
    "mpi": lambda d, small: mpi(d, 8 if small else 32),
}
