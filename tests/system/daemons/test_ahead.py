"""What a slave makes before it is asked.

Would catch: a run that was closed and whose graph only the question builds, a
graph made ahead that is not the one a question would have built, a large graph
that never gets to its file, news of an open run that wait for the question, rows of it that only a question
makes newer, and the limit of memory changing an answer or going unsaid."""
import re
import shutil
import subprocess
import sys

import pytest

from conftest import end_process, wait_until
from test_slave_restart import bench  # noqa: F401 (a fixture)

WORDS = ("sync", "ends", "peers", "finish", "expand")
BUILT = "run synth: built from"


def make(bench, build, slaves=1):
    """A run of 150,000 sends and receives a slave, closed; the first slave's
    part of it in the pool."""
    pools = bench.root / "pools"
    pools.mkdir()
    done = subprocess.run(
        [build.top / "tests/bench_synth", "stencil", "--nodes",
         str(150000 * slaves), "--slaves", str(slaves), "--threads", "8", "--pool", pools], check=True,
        stdout=subprocess.PIPE, text=True)
    t_max = re.search(r"t_max=(\d+)", done.stdout)[1]
    shutil.move(pools / "0", bench.root / "pool")
    return t_max


def answer(bench):
    return re.sub(r"generation=\d+", "", bench.ask("synth", *WORDS))


def test_graph_before_the_question(bench, build):  # noqa: F811
    t_max = make(bench, build)
    bench.env["IPS_LOG"] = "debug"
    bench.start()
    wait_until("the graph", lambda: "graph is there before it was asked for"
               in bench.log.read_text(), 60)
    first = answer(bench)
    assert f"finish t_max={t_max}" in first
    assert bench.log.read_text().count(BUILT) == 1
    graph = bench.root / "state/slave-m1/runs/synth/graph"
    wait_until("its file", graph.exists, 60)
    assert end_process(bench.slave) == 0
    graph.unlink()
    for options in ((), ("--memory", "1M")):
        bench.start(*options)
        assert answer(bench) == first  # built when it is asked for
        assert end_process(bench.slave) == 0
        graph.unlink() # written at the end, at the latest
    assert bench.log.read_text().count(BUILT) == 3


def test_joins_kept(bench, build):  # noqa: F811
    """Would catch: joins that are kept told for another way of weighing, or for
    other peers, or lost or changed on their way through the graph's file; and
    damage of that file which nobody notices, or which costs the answer."""
    make(bench, build, 2)
    bench.env["IPS_LOG"] = "debug"
    bench.start()
    wait_until("the graph", lambda: "graph is there before it was asked for"
               in bench.log.read_text(), 60)

    def joins(*words):
        told = bench.ask("synth", "sync", "ends", *words)
        assert "error" not in told
        return re.findall("joins bytes=.*", told)

    first, again, slower, first_again = joins(
        "traced", "reduce", "reduce", "slower", "reduce")
    assert first == again == first_again != slower
    assert int(re.search(r"bytes=(\d+)", first)[1]) > 100000
    assert end_process(bench.slave) == 0  # with what was asked for last
    graph = bench.root / "state/slave-m1/runs/synth/graph"
    with_joins = graph.stat().st_size
    bench.start()
    assert joins("traced", "reduce", "slower", "slower") == [
        first, slower, slower]
    untraced, = joins("peers", "reduce")  # built again: not of these peers
    assert untraced not in (first, slower)
    assert joins("traced", "reduce") == [first]
    assert end_process(bench.slave) == 0
    graph.unlink()
    bench.start()
    assert joins("traced", "slower", "reduce") == [slower, first]
    assert end_process(bench.slave) == 0
    assert graph.stat().st_size == with_joins
    # A byte of each part of the file: of the weights (1 to 9 bytes a node), which
    # FinishAsk reads, of the call sites (30 to 34), which a path by CPU time does
    # not, and of the joins, the last there is but for the fill. It is found when
    # somebody needs that part, who asks again.
    data = graph.read_bytes()
    bench.start()
    nodes = int(re.search(r"nodes=(\d+)", bench.ask("synth", "sync"))[1])
    assert end_process(bench.slave) == 0
    for at, before, who in (5 * nodes, ["traced", "reduce"], "finish"), \
            (32 * nodes, ["traced", "reduce", "finish"], "subgraph"), \
            (len(data) - 64, ["traced"], "reduce"):
        graph.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        bench.start()
        told = bench.ask("synth", "sync", "ends", *before, who)
        assert re.findall("joins bytes=.*", told) == [first] * before.count("reduce")
        assert told.count("error") == 1 and "ask again" in told
        assert not graph.exists()
        assert "error" not in bench.ask("synth", "sync", "ends", *before, who)
        assert joins("traced", "reduce") == [first]
        assert end_process(bench.slave) == 0


CHATTY = """
import os, time
r, w = os.pipe()
while True:
    for i in range(20):
        os.write(w, b"x" * 8)
        os.read(r, 8)
    time.sleep(0.005)
"""


def test_followed_run(bench, build):  # noqa: F811
    """Would catch: tables of an open run that only a question brings up to
    date, and what was handed over for them unpacked from the archive."""
    bench.env["IPS_LOG"] = "debug"
    bench.start()
    with subprocess.Popen(
            [build.bin("ipsrun"), "--no-daemons", "--quiet", "--name", "chat",
             "--", sys.executable, "-c", CHATTY], env=bench.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL) as program:
        try:
            def sent():
                rows = bench.rows("select sum(sent_messages) from traffic")
                return rows[0][0] or 0 if rows else 0
            wait_until("the database", (
                bench.root / "state/slave-m1/slave.db").exists, 60)
            wait_until("its records", lambda: bench.rows(
                "select 1 from run where name='chat' and events > 1000"), 60)
            bench.ask("chat", "sync")
            wait_until("rows", lambda: sent() > 0, 60)
            seen = sent()
            for _ in range(3):  # nobody asks any more
                before = seen
                wait_until("newer rows", lambda: sent() > before, 120)
                seen = sent()
            wait_until("a turn by what was handed over", lambda: re.search(
                r"run chat: tables of [0-9]+ bytes, handed over",
                bench.log.read_text()), 120)
        finally:
            program.kill()
    wait_until("the end", lambda: bench.closed("chat"), 60)
    bench.ask("chat", "sync")
    wait_until("all rows", lambda: sent() >= seen, 60)
    assert end_process(bench.slave) == 0


@pytest.mark.quick
def test_bad_memory(build):
    done = subprocess.run([build.bin("ips-slave"), "--memory", "much"],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "--memory is not a number of bytes: much" in done.stderr
