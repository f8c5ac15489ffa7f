"""`ipsq predict --search` and what a prediction says of order, through agent,
slaves, master and client: the best of all maps of a golden graph, each asked
for by --map, too; progress, and a client that goes away; programs whose order
is forced and one with a work queue.

EVIDENCE-OF: DPM-7 DPM-8 DPM-14."""
import itertools
import os
import pty
import subprocess

import pytest

from conftest import Cluster, clean_env
from test_predict import PER_BYTE, UNIT, golden

PYTHON = "/usr/bin/python3"
MACHINES = "fast:cores=1,speed=2;slow:cores=1"
numbers = itertools.count()


@pytest.fixture(scope="module")
def three(build):
    c = object.__new__(Cluster)
    try:
        c.__init__(build, ["m1", "m2", "m3"])
        yield c
    finally:
        c.close()


@pytest.fixture(scope="module")
def g6(three):
    """G6: three processes with a thread that is a golden chain each; the
    threads that make these stay on m1."""
    return golden(three, "G6", ("A", "B", "C"))


def search(three, run, *words):
    """The makers' threads are fixed where nothing else may go."""
    return three.json("predict", run, "--mtime", PER_BYTE, "--search",
                    "--map", "/*/golden.*/golden=m1", *words)


def by_rank(answer):
    maps = {}
    for row in answer["maps"]:
        for process in row["processes"]:
            maps.setdefault(row["rank"], {})[process] = row["machine"]
    return [maps[rank] for rank in sorted(maps)]


@pytest.mark.quick
def test_best_of_all(three, g6):
    """All eight maps of three processes on two machines that differ, as --map
    has each: the search's list is theirs, in order, to the ns; the rest of the
    answer is of the best. Would catch a process that is taken for another, a map
    told of another makespan, and a bound above what can be had."""
    answer = search(three, g6, "--machines", MACHINES, "--top", 8)
    maps = by_rank(answer)
    assert answer["search_end"] == "all" and answer["proved"] is True
    assert answer["search_processes"] == 3 and answer["search_tries"] == 8
    assert len(maps) == 8 == len({tuple(sorted(m.items())) for m in maps})
    told = {row["rank"]: row["makespan_ns"] for row in answer["maps"]}
    assert sorted(told.values()) == [told[k + 1] for k in range(8)]
    assert answer["makespan_ns"] == told[1]
    assert 0 < answer["bound_ns"] <= told[1]
    assert answer["bound_ns"] == max(
        answer[name + "_bound_ns"] for name in ("path", "capacity", "process"))
    for k in (0, 7):
        spec = ",".join(f"{p}={m}" for p, m in maps[k].items())
        asked = three.json("predict", g6, "--mtime", PER_BYTE, "--machines",
                         MACHINES, "--map",
                         f"{spec},/*/golden.*/golden=m1")
        assert asked["makespan_ns"] == told[k + 1]


@pytest.mark.quick
def test_bound_is_reached(three, g6):
    """Two machines as measured, with two cores and with one: by hand 15 with a
    core for each chain (its longest path), so that the search need not go on;
    machines that are alike are told apart once. Would catch the bound of other
    message times, and equal maps told as different."""
    answer = search(three, g6, "--machines", "a:cores=3;b:cores=3")
    assert answer["makespan_ns"] == 15 * UNIT == answer["bound_ns"]
    assert answer["path_bound_ns"] == answer["bound_ns"]
    assert answer["proved"] is True
    told = search(three, g6, "--machines", "a;b", "--top", 20, "--seed", 7)
    assert told["search_tries"] == 4 == len(by_rank(told))
    again = search(three, g6, "--machines", "a;b", "--top", 20, "--seed", 8)
    assert again["maps"] == told["maps"]


def test_search_is_refused(three, g6):
    """Would catch a search without a question, and words of it without one."""
    every = three.ipsq("predict", g6, "--search", "--map", "*=m1")
    assert every.returncode == 2
    assert "nothing is left to place" in every.stderr
    alone = three.ipsq("predict", g6, "--tries", "5")
    assert alone.returncode == 2 and "--search" in alone.stderr
    table = three.ipsq("predict", g6, "--search", "--machines", "a;b")
    assert table.returncode == 0, table.stderr
    assert "the bound" in table.stdout and "best maps found" in table.stdout


def test_search_goes_on_and_is_ended(three):
    """A search of more maps than anybody waits for says how far it is, and ends
    when its client goes away: the master has one worker, so the question after
    it would wait for ever. Would catch a search that nobody can stop."""
    run = f"many-{next(numbers)}"
    code = ("import os\nfor _ in range(14):\n"
            "    os.fork() or os._exit(sum(range(400000)) == 1)\n"
            "for _ in range(14): os.wait()")
    three.ipsrun([PYTHON, "-S", "-E", "-c", code], name=run, check=True)
    three.wait_closed(run, machines=1)
    tty, theirs = pty.openpty()
    # 3^15 maps, and no bound that they reach: two machines idle until the
    # first child is there, and all work together bounds more than any path
    machines = "a:speed=1;b:speed=1.1;c:speed=1.2"
    client = subprocess.Popen(
        [three.build.bin("ipsq"), "--master", three.address, "--state",
         str(three.state), "predict", run, "--search", "--machines", machines,
         "--tries", "1000000000"],
        env=dict(clean_env(), TERM="xterm"), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"placements tried" not in seen:
        seen += os.read(tty, 4096)
    client.kill()
    client.wait()
    os.close(tty)
    assert three.json("predict", run, "--search", "--machines", machines,
                    "--tries", "3")["search_tries"] == 3


TURNS = """
import os
there, back = os.pipe(), os.pipe()
child = os.fork()
for _ in range(3):
    if child:
        os.write(there[1], b"ask"), os.read(back[0], 6)
    else:
        os.read(there[0], 3), os.write(back[1], b"answer")
child and os.waitpid(child, 0)
"""
QUEUE = """
import os
r, w = os.pipe()
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        os.read(r, 3)
        os._exit(0)
    children.append(child)
os.write(w, b"one"), os.write(w, b"two")
for child in children:
    os.waitpid(child, 0)
"""
POLLS = """
import os, select
poll = select.poll()
children = []
for _ in range(2):
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(w, b"here")
        os._exit(0)
    poll.register(r, select.POLLIN)
    children.append(child)
left = 2
while left:
    for fd, _ in poll.poll():
        os.read(fd, 4)
        left -= 1
for child in children:
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("code,pattern,processes", [
    (TURNS, None, 0), (QUEUE, "readers", 2), (POLLS, "sources", 1)])
def test_order(three, code, pattern, processes):
    """Who took what of a queue, and which of two children was first at a poll,
    is marked and nothing else is; asking and answering in turn is not. However
    the machine is loaded: each reader takes exactly one message, and each child
    sends one. Would catch a slave that does not tell polls, and marks that are
    not the program's."""
    run = f"order-{next(numbers)}"
    three.ipsrun([PYTHON, "-S", "-E", "-c", code], name=run, check=True)
    three.wait_closed(run, machines=1)
    answer = three.json("predict", run)
    rows = {row["pattern"]: row for row in answer["order"]}
    notes = " ".join(answer["certificate"]["notes"])
    assert set(rows) == ({pattern} if pattern else set())
    assert answer["valid"] == ("marked" if pattern else "yes")
    assert f"valid: {answer['valid']}" in notes
    assert answer["marked_arcs"] == (1 if pattern else 0) < answer["arcs"]
    if pattern:
        row = rows[pattern]
        assert row["count"] == 1 and row["process_count"] == processes
        assert len(row["processes"]) == processes
        assert "depended on timing" in three.ipsq("predict", run).stdout
