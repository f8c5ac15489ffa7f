"""The requests of services, and what bounds their rate. What is asserted are
counts, sums and CPU time that the programs took on purpose, whatever else ran.

EVIDENCE-OF: IPS-13."""
import os
import shlex
import subprocess
import sys

import pytest

from conftest import wait_until

STALL_S = 0.3

SERVER = """
import os, selectors, socket, sys, time
clients, stall, asked = int(sys.argv[2]), float(sys.argv[3]), 0
end = time.thread_time() + float(sys.argv[4])
while time.thread_time() < end:
    pass
listener = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(listener.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
wait = selectors.DefaultSelector()
wait.register(listener, selectors.EVENT_READ)
while clients:
    for key, _ in wait.select():
        if key.fileobj is listener:
            wait.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(100)
        if not data:
            wait.unregister(key.fileobj)
            key.fileobj.close()
            clients -= 1
            continue
        asked += 1
        if stall and asked % 100 == 0:
            end = time.thread_time() + stall
            while time.thread_time() < end:
                pass
        key.fileobj.send(data)
"""

CLIENT = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(open(sys.argv[1]).read())))
for i in range(int(sys.argv[2])):
    s.send(b"x" * 10)
    s.recv(100)
"""


@pytest.fixture
def serve(cluster, tmp_path):
    """Runs a server and clients of so many requests."""
    def run(name, counts, stall=0.0, before=0.0, traced=True):
        c = cluster(["m1"])
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "client.py").write_text(CLIENT)
        port = tmp_path / f"port-{name}"
        python = sys.executable
        server = c.popen([python, tmp_path / "server.py", port, str(len(counts)),
                          str(stall), str(before)], name=name)
        wait_until("the server listens", port.exists, 60)
        asks = [[python, tmp_path / "client.py", port, str(count)]
                for count in counts]
        clients = [c.popen(ask, join=name) if traced else subprocess.Popen(ask)
                   for ask in asks]
        for p in [*clients, server]:
            assert p.wait(100) == 0
        c.wait_closed(name)
        return c
    return run


def check(answer):
    """What holds of every answer."""
    assert answer["certificate"]["category"] == 3
    for row in answer["parts"]:
        parts = [row[f"{part}_ns"] for part in
                 ("queued", "untaken", "own", "elsewhere", "message",
                  "external")]
        # Means, each rounded down.
        assert sum(parts) <= row["mean_ns"] <= sum(parts) + len(parts)
    for row in answer["slowest"]:
        assert row["ns"] == sum(row[f"{part}_ns"] for part in
                                ("queued", "untaken", "own", "elsewhere",
                                 "message", "external"))
    mean = {(row["service"], row["which"]): row["mean_ns"]
            for row in answer["parts"]}
    # What a place has of a request is no more than the request takes.
    for row in answer["typical"]:
        assert row["ns"] <= mean[row["service"], "40% to 60%"]
    for row in answer["more"]:
        assert row["median_ns"] <= mean[row["service"], "40% to 60%"]
        assert row["slow_ns"] <= mean[row["service"], "slowest 1%"]
    times = [row["ns"] for row in answer["slowest"]]
    assert times == sorted(times, reverse=True)


def test_all_are_found(serve):
    """Three connections, each its own number of requests. Would catch: turns
    joined or cut, connections mixed up, a client counted as a service."""
    c = serve("r", [7, 30, 1])
    answer = c.json("requests", "r", "--top", "1000")
    check(answer)
    (service,) = answer["services"]
    assert service["requests"] == 38 == len(answer["slowest"])
    assert service["connections"] == 3 and service["pipelined"] == 0
    assert service["untraced_clients"] == 0 and service["processes"] == 1
    assert service["service"].startswith("/m1 tcp 127.0.0.1:")
    took = sorted(row["ns"] for row in answer["slowest"])
    assert service["p50_ns"] == took[18] and service["max_ns"] == took[37]
    assert service["p90_ns"] == took[34] and service["p99_ns"] == took[37]
    assert service["mean_ns"] == sum(took) // 38
    arrivals = [row["arrival_ns"] for row in answer["slowest"]]
    assert service["from_ns"] == min(arrivals)


def test_stalls_are_found(serve):
    """Every hundredth request takes 0.3 s of CPU. Would catch: a stall blamed on
    messages or on waiting; those behind it not told from it."""
    c = serve("r", [150, 150], stall=STALL_S)
    answer = c.json("requests", "r", "--top", "1000")
    check(answer)
    assert answer["services"][0]["requests"] == 300
    stalled = [row for row in answer["slowest"]
               if row["own_ns"] >= STALL_S * 1e9]
    assert len(stalled) >= 3
    assert all("/python" in row["most"] for row in stalled)
    slowest = next(row for row in answer["parts"]
                   if row["which"] == "slowest 1%")
    assert slowest["requests"] == 3
    # The rest of the requests cannot have had it.
    assert sum(row["own_ns"] >= STALL_S * 1e9 for row in
               answer["slowest"][-150:]) == 0


BEFORE_S = 0.5


def test_bottleneck_is_who_worked(serve):
    """The server's thread took most. Would catch: demand that is not what the
    thread's CPU clock says for each request; a client taken for a bound; what the
    server did before it was asked anything counted as its requests'."""
    c = serve("r", [100, 100], stall=STALL_S, before=BEFORE_S)
    answer = c.json("bottleneck", "r")
    threads = {row["object"]: row["cpu_ns"] for row in
               c.json("metrics", "r", "--level", "thread")["metrics"]}
    kinds = {}
    for row in answer["stations"]:
        kinds.setdefault(row["kind"], []).append(row)
        if row["kind"] != "cores":
            assert row["busy_ns"] <= threads[row["station"]]
            assert abs(row["demand_ns"] - row["busy_ns"] / 200) <= 1
        assert row["bound"] == pytest.approx(
            1e9 / row["demand_ns"], rel=0.01) or row["demand_ns"] < 100
    assert len(kinds["client"]) == 2 and len(kinds["cores"]) == 1
    demands = [row["demand_ns"] for row in answer["stations"]]
    assert demands == sorted(demands, reverse=True)
    assert answer["bound"] == next(row["bound"] for row in answer["stations"]
                                   if row["kind"] != "client")
    (server,) = [row for row in kinds["thread"]]
    assert server["busy_ns"] >= 2 * STALL_S * 1e9
    assert server["busy_ns"] <= threads[server["station"]] - BEFORE_S * 9e8
    assert answer["stations_left_out"] == 0
    assert c.json("bottleneck", "r", "--top", "1")["stations_left_out"] == \
        len(answer["stations"]) - 1
    few = c.json("requests", "r", "--top", "3")
    assert len(few["slowest"]) == 3 and few["slowest_left_out"] == 197
    assert "197 more left out" in c.ipsq("requests", "r", "--top", "3").stdout


def test_a_service_is_asked_for_its_requests(serve):
    """The clients are not traced. Would catch: the default of a service that is
    its elapsed time, which says nothing; a default that is not stated; one that
    --for or --goal does not change."""
    c = serve("r", [60, 60], traced=False)
    check(c.json("requests", "r"))
    answer = c.json("why", "r")
    assert answer["answers"] == "requests" and answer["shape"] == "service"
    kinds = [row["kind"] for row in answer["findings"]]
    assert "service-time" in kinds and kinds[-1] == "bottleneck"
    assert "--for turnaround" in answer["shape_says"]
    assert c.json("why", "r", "--for", "turnaround")["answers"] == "turnaround"
    goal = answer["findings"][0]["object"].rsplit("/", 1)[0]
    assert c.json("why", "r", "--goal", goal)["answers"] == "turnaround"


def test_windows(serve):
    """Every hundredth request computes for 0.3 s. Would catch: requests that are
    in no window or in two, a window or phase of other times than those told, and
    stations that have the whole run's time in a window."""
    c = serve("r", [150, 150], stall=STALL_S)
    everything = c.json("requests", "r", "--top", "1000")["slowest"]
    arrivals = sorted(row["arrival_ns"] for row in everything)
    middle = (arrivals[149] + arrivals[150]) // 2
    parts, busy = [], []
    for words in (("--to", f"{middle}ns"), ("--from", f"{middle}ns")):
        answer = c.json("requests", "r", "--top", "1000", *words)
        check(answer)
        assert answer["services"][0]["requests"] == len(answer["slowest"]) == 150
        parts.append({row["arrival_ns"]: row for row in answer["slowest"]})
        stations = c.json("bottleneck", "r", *words)["stations"]
        busy.append(max(r["busy_ns"] for r in stations if r["kind"] == "thread"))
        # One of each hundred stalls; others may where the machine does.
        assert sum(row["own_ns"] >= STALL_S * 1e9 for row in answer["slowest"]) >= 1
        assert busy[-1] >= STALL_S * 1e9
    assert max(parts[0]) < min(parts[1])
    # But for who arrived before the middle and was served after it.
    whole = max(row["busy_ns"] for row in c.json("bottleneck", "r")["stations"]
                if row["kind"] == "thread")
    assert max(busy) <= whole and sum(busy) <= whole + 2 * STALL_S * 1e9
    # One that queued behind a request before the window still says so.
    assert {**parts[0], **parts[1]} == {r["arrival_ns"]: r for r in everything}
    phases = c.json("phases", "r")["phases"]
    assert sum(
        sum(s["requests"] for s in c.json(
            "requests", "r", "--phase", str(p["phase"]))["services"])
        for p in phases) == 300
    empty = c.json("requests", "r", "--from", "1000s")
    assert empty["slowest"] == [] and empty["services"][0]["requests"] == 0
    assert c.json("bottleneck", "r", "--from", "1000s")["stations"] == []
    assert c.ipsq("requests", "r", "--from", "1000s").returncode == 0
    assert c.ipsq("requests", "r", "--phase", "999").returncode in (1, 2)


def test_why_in_words(serve):
    """A hundredth of the requests stall for 0.3 s of CPU. Would catch: a tail that
    is not said, or blamed on something else; a command that does not work."""
    c = serve("r", [150, 150], stall=STALL_S)
    answer = c.json("why", "r", "--for", "latency")
    assert answer["answers"] == "latency" and answer["shape"] == "service"
    kinds = [row["kind"] for row in answer["findings"]]
    assert "slow-requests" in kinds and "service-time" in kinds
    gains = [row["gain_ns"] for row in answer["findings"]]
    assert gains == sorted(gains, reverse=True)
    parts = sum(row["gain_ns"] for row in answer["findings"]
                if row["kind"] != "slow-requests")
    assert parts <= answer["wall_ns"]
    bound = c.json("why", "r", "--for", "throughput")
    assert bound["findings"][0]["kind"] == "bottleneck"
    first = next(row for row in c.json("bottleneck", "r")["stations"]
                 if row["kind"] != "client")
    assert bound["findings"][0]["object"] == first["station"]
    for row in answer["findings"] + bound["findings"]:
        words = shlex.split(row["command"])
        assert words[0] == "ipsq"
        assert c.ipsq(*words[1:]).returncode in (0, 3), words
    assert "slowest 1%" in c.ipsq("why", "r", "--for", "latency").stdout


def test_none(cluster):
    """Would catch: a run without services refused, pipes taken for one, or an empty
    table without a word why."""
    c = cluster(["m1"])
    c.ipsrun(["sh", "-c", "echo x | cat"], name="r", check=True)
    c.wait_closed("r")
    answer = c.json("requests", "r")
    assert answer["services"] == answer["slowest"] == answer["parts"] == []
    assert c.json("bottleneck", "r")["stations"] == []
    for command in ("requests", "bottleneck"):
        assert "no requests: no process answered" in c.ipsq(command, "r").stdout
    for what in ("latency", "throughput"):
        answer = c.json("why", "r", "--for", what)
        assert answer["findings"] == [] and answer["shape"] == "batch"
    assert c.ipsq("requests", "nosuch").returncode == 1
    assert c.ipsq("requests", "r", "--top", "1000000").returncode == 2


FORKING = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
for i in range(2):
    s = listener.accept()[0]
    if os.fork() == 0:
        while data := s.recv(100):
            s.send(data)
        os._exit(0)
    s.close()
for i in range(2):
    os.wait()
"""
UNIX_CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for i in range(int(sys.argv[2])):
    s.send(b"x" * 10)
    s.recv(100)
"""


def test_who_forks_for_each_connection_is_one_service(cluster, tmp_path):
    """Of a server on a Unix socket that forks for each connection, as PostgreSQL
    does. Would catch: a service for each of its children."""
    c = cluster(["m1"])
    path = str(tmp_path / "s")
    server = c.popen([sys.executable, "-c", FORKING, path], name="r")
    wait_until("the server listens", lambda: os.path.exists(path))
    for count in (30, 50):
        c.ipsrun([sys.executable, "-c", UNIX_CLIENT, path, count], join="r",
                 check=True)
    assert server.wait() == 0
    c.wait_closed("r")
    a = c.json("requests", "r", status=(0, 3))
    assert len(a["services"]) == 1, a["services"]
    service = a["services"][0]
    assert service["requests"] == 80 and service["connections"] == 2, service
    assert service["processes"] == 2, service
    first = [p["object"] for p in c.json("ls", "r")["processes"]
             if FORKING.split()[0] in p["command"] or path in p["command"]][0]
    assert service["service"] == f"/m1 unix of {first.split('/')[2]}", service
