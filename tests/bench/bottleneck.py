"""`tests/bench/run bottleneck`: what `ipsq bottleneck` says a service can serve at
most, beside what it serves where more clients ask than it can answer. More and
more clients, each with one request at a time, until the rate rises no more; the bound
is of each of these runs. With --realtime (root; chrt) others that load the
machine have the cores only when nobody of these wants them."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from measure import Place
from overhead import free_port

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

CLIENTS = (1, 2, 4, 8)
OWN_SERVER = """
import selectors, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
open("ready", "w").write("yes")
left, wait = int(sys.argv[2]), selectors.DefaultSelector()
wait.register(listener, selectors.EVENT_READ)
while left:
    for key, _ in wait.select():
        if key.fileobj is listener:
            wait.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(100)
        if not data:
            wait.unregister(key.fileobj)
            left -= 1
            continue
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass
        key.fileobj.send(data)
"""
OWN_CLIENT = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for i in range(int(sys.argv[2])):
    s.send(b"x" * 10)
    s.recv(100)
"""

SCRIPT = ("eval 'local n = 0 for i = 1, 2000 do n = n + i end return n' 0")


def redis(clients, port, directory):
    return (f"redis-server --port {port} --bind 127.0.0.1 --save '' >/dev/null & "
            f"until redis-cli -p {port} ping >/dev/null 2>&1; do :; done; "
            f"redis-benchmark -p {port} -q -c {clients} -n 20000 {SCRIPT} "
            f">/dev/null; redis-cli -p {port} shutdown nosave; wait")


def nginx(clients, port, directory):
    with open(f"{directory}/page.html", "w") as f:
        f.write("".join("%d squared is %d; " % (i, i * i) for i in range(3000)))
    with open(f"{directory}/conf", "w") as f:
        f.write(f"daemon off; worker_processes 1; pid {directory}/pid;\n"
                "events {}\nhttp { access_log off; gzip on; gzip_types *; "
                "gzip_http_version 1.0; gzip_proxied any; keepalive_requests "
                f"100000; server {{ listen 127.0.0.1:{port}; root {directory}; "
                "} }\n")
    return (f"nginx -p {directory} -c conf -e log & until [ -s {directory}/pid ];"
            f" do :; done; ab -q -k -n 2000 -c {clients} -H 'Accept-Encoding: "
            f"gzip' http://127.0.0.1:{port}/page.html >/dev/null; "
            f"kill $(cat {directory}/pid); wait")


def own(clients, port, directory):
    for name, text in (("server.py", OWN_SERVER), ("client.py", OWN_CLIENT)):
        with open(f"{directory}/{name}", "w") as f:
            f.write(text)
    each = 1200 // clients
    return (f"{sys.executable} server.py {port} {clients} & until [ -s ready ]; "
            f"do :; done; for i in $(seq {clients}); do {sys.executable} "
            f"client.py {port} {each} & done; wait")


def lock(clients, port, directory):
    program = os.path.join(directory, "service")
    each = 1200 // clients
    return (f"{program} ready {clients} 1000 200 10 & until [ -s ready ]; do :; "
            f"done; for i in $(seq {clients}); do {program} ready ask {each} 10 "
            "127.0.0.1 & done; wait")


PROGRAMS = {"redis": (redis, ("redis-server", "redis-benchmark")),
            "nginx": (nginx, ("nginx", "ab")), "own": (own, ()), "lock": (lock, ())}


def measure(place, make, clients, name, realtime):
    directory = tempfile.mkdtemp(prefix="ips-bottleneck-", dir="/dev/shm")
    os.chmod(directory, 0o755)
    os.symlink(os.path.join(place.bin, "programs", "service"),
               os.path.join(directory, "service"))
    command = place.ipsrun("sh", "-c", make(clients, free_port(), directory),
                           options=("--name", name, "--procedures=off"))
    try:
        subprocess.run((["chrt", "-r", "10"] if realtime else []) + command,
                       env=place.env, cwd=directory, check=True, timeout=300,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    said = json.loads(place.ipsq_any("bottleneck", name, "--format", "json"))
    first = next(s for s in said["stations"] if s["kind"] != "client")
    return said, first


LINK_MBIT, LINK_BYTES, LINK_REQUESTS = 50, 20000, 480


class Link:
    """Two hosts (deploy/hosts), a slave on each; what they send is limited."""

    def __init__(self, build):
        # The system tests' daemons on hosts; theirs needs pytest.
        sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
        import conftest
        self.made = conftest
        self.script = os.path.join(ROOT, "deploy", "hosts")
        self.prefix = f"bn{os.getpid()}"
        up = subprocess.run([self.script, "up", "2", "--prefix", self.prefix],
                            check=True, capture_output=True, text=True)
        self.hosts = [self.made.Host(self.prefix, i + 1, *line.split())
                      for i, line in enumerate(up.stdout.splitlines())]
        self.build = self.made.Build(build)

    def __enter__(self):
        for host in self.hosts:  # calibrate halves round trips
            subprocess.run(host.command(
                ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf",
                 "rate", f"{LINK_MBIT}mbit", "burst", "32kb", "latency", "1s"]),
                check=True)
        self.cluster = self.made.Cluster(self.build, ["m1", "m2"], self.hosts)
        # Whatever ran here before is still in the load average.
        done = self.cluster.ipsq("calibrate", "m1", "m2", "--force", "--lengths",
                                 "64k,128k,256k,512k", "--rounds", "10")
        if done.returncode:
            raise RuntimeError(f"calibrate: {done.stderr}")
        return self

    def __exit__(self, *unused):
        self.cluster.close()
        subprocess.run([self.script, "down", "--prefix", self.prefix],
                       check=False)

    def measure(self, clients, name):
        c = self.cluster
        program, ready = self.build.program("service"), c.root / f"ready-{name}"
        server = c.popen([program, ready, str(clients), "0", "50",
                          str(LINK_BYTES)], name=name, machine=1)
        self.made.wait_until("the server listens", ready.exists)
        asking = [c.popen([program, ready, "ask",
                           str(LINK_REQUESTS // clients), str(LINK_BYTES),
                           self.hosts[1].address], join=name, machine=0)
                  for _ in range(clients)]
        for p in [*asking, server]:
            if p.wait(200):
                raise SystemExit(f"{name}: status {p.returncode}")
        c.wait_closed(name, machines=2)
        said = c.json("bottleneck", name, status=(0, 3))
        return said, next(s for s in said["stations"] if s["kind"] != "client")


def saturate(what, runs, measured):
    """measured(clients, name): (answer, first station)."""
    rates = {}
    for clients in CLIENTS:
        found = [measured(clients, f"{what}-{clients}-{i}") for i in range(runs)]
        rate = statistics.median(s["rate"] for s, _ in found)
        bound = statistics.median(s["bound"] for s, _ in found)
        rates[clients] = rate, bound
        print(f"{what}, {clients} clients: {rate:.0f} a second, bound "
              f"{bound:.0f} ({found[0][1]['station']}), "
              f"{100 * rate / bound:.0f}% of it", flush=True)
    most = max(rates, key=lambda c: rates[c][0])
    rate, bound = rates[most]
    print(f"{what}: saturates at {rate:.0f} a second with {most} clients; the "
          f"bound said of that run is {bound:.0f} "
          f"({100 * (bound / rate - 1):+.1f}%), of the run with one client "
          f"{rates[1][1]:.0f} ({100 * (rates[1][1] / rate - 1):+.1f}%)",
          flush=True)


def bottleneck(build, runs, only, realtime):
    with Place(build) as place:
        for what, (make, needs) in PROGRAMS.items():
            if (only and only not in what) or not all(map(shutil.which, needs)):
                continue
            saturate(what, runs, lambda clients, name, make=make:
                     measure(place, make, clients, name, realtime))
    if not only or only in "link":
        with Link(build) as link:
            saturate("link", runs, link.measure)
