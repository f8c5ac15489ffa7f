"""Answers about sound runs of awkward kinds do not contradict themselves
(master/query/self_check.h). Would catch: a rule that is wrong where threads still wait,
records were lost, clocks differ, a thread spun before it served,
or in a window; each would make a good answer INCOMPLETE."""
import subprocess
import sys

import pytest

from conftest import wait_until

SERVER = """
import os, select, socket, sys, threading, time
where, clients = sys.argv[1], int(sys.argv[2])
poll = select.poll()
ready = os.pipe()
poll.register(ready[0], select.POLLIN)
threading.Timer(0.5, os.write, (ready[1], b"x")).start()
while not poll.poll(0): # spins
    pass
os.read(ready[0], 1)
listeners = []
for path in ("one", "two"):
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.join(where, path))
    s.listen()
    listeners.append(s)
listeners.append(socket.create_server(("127.0.0.1", 0)))
with open(where + "/new", "w") as f:
    f.write(str(listeners[-1].getsockname()[1]))
os.rename(where + "/new", where + "/port")
lock = threading.Lock()
def serve(s):
    while True:
        data = s.recv(100)
        if not data:
            return
        with lock:
            sum(range(20000))
        s.send(data)
threads = []
while clients:
    for l in select.select(listeners, [], [])[0]:
        threads.append(threading.Thread(target=serve, args=(l.accept()[0],)))
        threads[-1].start()
        clients -= 1
for t in threads:
    t.join()
"""
CLIENT = """
import os, socket, sys, time
where, to, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
if to == "tcp":
    s = socket.create_connection(("127.0.0.1", int(open(where + "/port").read())))
else:
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.path.join(where, to))
for i in range(count):
    s.send(b"x" * 10)
    s.recv(100)
open(os.path.join(where, "done-" + to), "w").close()
sys.stdin.read() # until told
"""
QUESTIONS = [("waits",), ("waits", "--by", "cause"), ("waits", "--by", "thread"), ("metrics",),
             ("bottleneck",), ("bottleneck", "--mtime", "2us+1"), ("requests",), ("why",)]
for weighting in ("cpu", "sched", "wall"):
    for times in ("none", "100us+2"):
        way = ("--weighting", weighting, "--mtime", times)
        QUESTIONS += [("path", *way), ("path", "--next", "3", *way), ("whatif", *way),
                      ("whatif", "--process", "*", "--faster", "2x", *way)]
WINDOW = ("--from", "150ms", "--to", "600ms")
WINDOWED = ("waits", "metrics", "bottleneck", "requests", "whatif", "path", "why")


def check(c, run):
    asked = 0
    for words in QUESTIONS:
        for window in ((), WINDOW):
            if window and (words[0] not in WINDOWED or "--next" in words):
                continue
            done = c.ipsq(words[0], run, *words[1:], *window, "--format", "json")
            assert "contradicts itself" not in done.stdout, (words, window, done.stdout[-3000:])
            asked += done.returncode in (0, 3)
    return asked


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), ("--quota", "256K")], ids=["whole", "lost"])
def test_no_contradiction(cluster, tmp_path, options):
    """On two machines whose clocks differ, while all wait and after the end."""
    c = cluster(["m1", "m2"])
    c.machines[1].env["IPS_TEST_CLOCK"] = "3000000000,200,0,0"
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    kinds = {"one": 300, "two": 20, "tcp": 100}
    server = c.popen([sys.executable, tmp_path / "server.py", tmp_path, len(kinds)],
                     name="run", options=options)
    wait_until("the server listens", (tmp_path / "port").exists)
    clients = [c.popen([sys.executable, tmp_path / "client.py", tmp_path, to, count],
                       join="run", machine=int(to == "tcp"), stdin=subprocess.PIPE)
               for to, count in kinds.items()]
    for to in kinds:
        wait_until(f"client {to} has its answers", (tmp_path / f"done-{to}").exists)
    assert check(c, "run") > len(QUESTIONS)
    for client in clients:
        client.stdin.close()
    for proc in (*clients, server):
        assert proc.wait(60) == 0
    c.wait_closed("run", machines=2)
    assert check(c, "run") > len(QUESTIONS)
