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


PROGRAMS = {"redis": (redis, ("redis-server", "redis-benchmark")),
            "nginx": (nginx, ("nginx", "ab")), "own": (own, ())}


def measure(place, make, clients, name, realtime):
    directory = tempfile.mkdtemp(prefix="ips-bottleneck-", dir="/dev/shm")
    os.chmod(directory, 0o755)
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


def bottleneck(build, runs, only, realtime):
    with Place(build) as place:
        for what, (make, needs) in PROGRAMS.items():
            if (only and only not in what) or not all(map(shutil.which, needs)):
                continue
            rates = {}
            for clients in CLIENTS:
                found = [measure(place, make, clients,
                                 f"{what}-{clients}-{i}", realtime)
                         for i in range(runs)]
                rate = statistics.median(s["rate"] for s, _ in found)
                bound = statistics.median(s["bound"] for s, _ in found)
                rates[clients] = rate, bound
                print(f"{what}, {clients} clients: {rate:.0f} a second, bound "
                      f"{bound:.0f} ({found[0][1]['station']}), "
                      f"{100 * rate / bound:.0f}% of it", flush=True)
            most = max(rates, key=lambda c: rates[c][0])
            rate, bound = rates[most]
            print(f"{what}: saturates at {rate:.0f} a second with {most} "
                  f"clients; the bound said of that run is {bound:.0f} "
                  f"({100 * (bound / rate - 1):+.1f}%), of the run with one "
                  f"client {rates[1][1]:.0f} "
                  f"({100 * (rates[1][1] / rate - 1):+.1f}%)", flush=True)
