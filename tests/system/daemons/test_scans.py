"""Questions of category 3, which read a run's records: that they say how far they
are on a terminal, that a client's end frees what the daemons do for it, and that
what they take in memory does not grow with the answer. Runs are synthetic
(bench_synth): the same records each time, and as many as are asked for."""
import contextlib
import os
import pty
import resource
import signal
import subprocess
import threading

import pytest
import wire
from conftest import Cluster, clean_env, wait_until

SQL = 130  # Request's field; text 1, time_ns 3
FOR_EVER = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) "
            "SELECT count(*) FROM n")
LIMIT = 4 << 20  # ips-slave --memory
# The packer's room, 40 MB of addresses; the stacks of three threads that may be
# at work at once, 8 MB each; a page of rows. Less than a graph's 60 MB beside it.
MARGIN = 66 << 20
SMALL, LARGE = 16000, 320000
ROWS = 1.5  # a send is one row, a receive two


def own_bytes(proc):
    """Private memory that can be written; maps of files that others share, which
    the kernel can take back, are not in it."""
    with open(f"/proc/{proc.pid}/status", encoding="ascii") as f:
        return 1024 * int(dict(line.split(":", 1)
                               for line in f)["VmData"].split()[0])


@pytest.fixture(scope="module")
def scans(build):
    """A slave of little memory, and two runs of one pattern: `small` and, twenty
    times as long, `large`. `own`: what slave and master had when all they knew
    was the small one, and had told all of it."""
    c = Cluster(build, ["0"], daemons=False)
    c.machines[0].options = ["--memory", str(LIMIT)]
    c.start_master()
    c.machines[0].start_slave()
    c.wait_connected()
    c.own = {}
    for run, nodes in (("small", SMALL), ("large", LARGE)):
        subprocess.run([str(build.top / "tests" / "bench_synth"), "ring",
                        "--slaves", "1", "--threads", "4", "--nodes", str(nodes),
                        "--pool", str(c.root / "pool"), "--run", run],
                       check=True, stdout=subprocess.DEVNULL)
        c.wait_closed(run)
        if run == "small":
            rows_of(c, run)
            c.own = {p: own_bytes(p) for p in (c.machines[0].slave, c.master)}
    yield c
    c.close()


def ask(c, *words, **kw):
    kw.setdefault("stderr", subprocess.DEVNULL)
    return subprocess.Popen(
        [c.build.bin("ipsq"), "--master", c.address, "--state", str(c.state),
         *words], env=dict(clean_env(), TERM="xterm"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **kw)


def rows_of(c, run):
    client = ask(c, "events", run, "--format", "tsv")
    count = sum(piece.count(b"\n") for piece in
                iter(lambda: client.stdout.read(1 << 20), b""))
    client.stdout.close()
    assert client.wait() == 0
    return count - 1


def in_hand(c):
    return c.json("status")["slaves"][0]["questions"]


@contextlib.contextmanager
def no_more_than(proc, limit):
    old = resource.prlimit(proc.pid, resource.RLIMIT_DATA)
    resource.prlimit(proc.pid, resource.RLIMIT_DATA, (limit, old[1]))
    try:
        yield
    finally:
        resource.prlimit(proc.pid, resource.RLIMIT_DATA, old)


def test_memory_does_not_grow_with_the_answer(scans):
    """All events of the long run, in the memory that the short one took and what
    --memory allows. Would catch a scan that holds more of what it reads, and a
    master that holds what it relays."""
    c = scans
    slave = c.machines[0].slave
    with no_more_than(slave, c.own[slave] + LIMIT + MARGIN), \
            no_more_than(c.master, c.own[c.master] + (16 << 20)):
        assert rows_of(c, "large") >= LARGE * ROWS


@pytest.mark.parametrize("words", [
    ["path", "large", "--fresh"], ["waits", "large", "--fresh"],
    ["metrics", "large", "--to", "10s"], ["graph", "large", "--format", "tsv"]])
def test_memory_of_graphs(scans, words):
    """Questions that need the long run's graph, which has 60 MB of columns: what
    --memory does not allow is in files. Would catch a graph, or what is computed of
    it, that is held in memory of the slave's own."""
    c = scans
    slave = c.machines[0].slave
    with no_more_than(slave, c.own[slave] + LIMIT + MARGIN):
        client = ask(c, *words)
        while client.stdout.read(1 << 20):
            pass
        client.stdout.close()
        assert client.wait() == 0, c.daemons() + c.logs()


def read_until(tty, what):
    seen = b""
    while what not in seen:
        seen += os.read(tty, 4096)


@pytest.mark.parametrize("words", [["events", "large"],
                                   ["waits", "small", "--fresh"]])
def test_progress(scans, words):
    """The slave stands still until the line is seen, and it says what is waited for.
    Would catch a question that leaves its user in doubt whether anything happens."""
    slave = scans.machines[0].slave
    tty, theirs = pty.openpty()
    slave.send_signal(signal.SIGSTOP)
    try:
        client = ask(scans, *words, "--top", "3", stderr=theirs)
        os.close(theirs)
        read_until(tty, b"waiting for %s ... " % scans.machines[0].name.encode())
    finally:
        slave.send_signal(signal.SIGCONT)
    out = client.communicate()[0]
    assert client.returncode == 0 and out, os.read(tty, 4096)
    os.close(tty)


def test_events_are_counted(scans):
    """Rows that go into a pipe: the terminal says how many there were so far.
    Would catch the line that ends with the first of a million rows."""
    tty, theirs = pty.openpty()
    client = ask(scans, "events", "large", "--format", "tsv", stderr=theirs)
    os.close(theirs)
    reader = threading.Thread(target=client.stdout.read)
    reader.start()
    read_until(tty, b" events so far")
    client.kill()
    client.wait()
    reader.join()
    os.close(tty)


def test_a_scan_is_ended_with_its_client(scans):
    """A client that has stopped reading in the midst of the events, then is
    interrupted. Would catch a slave that holds the scan for ever."""
    c = scans
    client = ask(c, "events", "large", "--format", "tsv")
    client.stdout.read(1 << 16)
    wait_until("the slave has it in hand", lambda: in_hand(c) >= 1)
    client.send_signal(signal.SIGINT)
    client.wait()
    client.stdout.close()
    wait_until("the slave is done with it", lambda: in_hand(c) == 0)
    assert c.ipsq("events", "large", "--top", "1").returncode == 0


def test_a_question_without_end_is_ended_with_its_client(scans):
    """SQL that would take ten minutes, of a client that goes away: the slave has
    one worker, so whoever comes next would wait for it. Would catch a question
    of one reply that nobody tells the slave to stop."""
    c = scans
    client = wire.Peer.connect(f"{c.state}/master.sock")
    client.hello(wire.CLIENT)
    client.ask(1, b"small", SQL, wire.message((1, FOR_EVER.encode()),
                                              (3, 600 * 10**9)))
    wait_until("the slave has it in hand", lambda: in_hand(c) >= 1)
    client.close()
    assert c.ipsq("sql", "small", "SELECT 1").returncode == 0
