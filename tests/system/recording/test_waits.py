"""Waits by cause: disk, file locks, terminals, eventfds, spinning, tokens of a
jobserver - each wait has its record, and where somebody ended it an arc from
there. Programs behave as without us (the `trace` fixture compares).
"""
import errno
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import programs
import recorder as rec
from test_interposer import Records, program, trace  # noqa: F401 (a fixture)
from test_signals import FD, Graph

pytestmark = pytest.mark.quick

SEMAPHORE, EVENTFD, FLOCK, RECORD_LOCK, TERMINAL = 6, 9, 10, 11, 16


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The programs make their file in the current directory."""
    monkeypatch.chdir(tmp_path)


def who(arcs):
    """[(process that let go, process that went on)]"""
    return [(a["pid"], z["pid"]) for a, z in arcs]


def children_of(r):
    return [f["a"] for f in r.of("FORK")]


def test_file_locks(build, trace):
    """flock, fcntl (process and open file description), lockf; let go by
    unlock, close and exit.

    Would catch: a lock call not wrapped; one name for two locks; a release
    that is not told, or told after the waiter went on; errors changed."""
    r = trace([program(build, "i_file"), "locks"], status=0)
    parent = r.of("START", a=1)[0]["pid"]
    waits = r.of("ACQUIRE", pid=parent)
    assert [w["a"] for w in waits] == [FLOCK, RECORD_LOCK, RECORD_LOCK,
                                       RECORD_LOCK, FLOCK, FLOCK]
    assert [w["object"] for w in waits] == [0, 100, 100, 200, 0, 0]
    graph = Graph(build, r)
    assert who(graph.arcs("resource")) == \
        [(child, parent) for child in children_of(r)]


def test_locks_of_some_bytes(build, trace):
    """fcntl (process and open file description) and lockf with a negative length: a child
    unlocks more or fewer bytes than those for which the parent waits.

    Would catch: the length of a lock not recorded; an unlock found only where it starts at
    the same byte."""
    r = trace([program(build, "i_file"), "ranges"], status=0)
    parent = r.of("START", a=1)[0]["pid"]
    ranges = [(50, 10), (0, 100), (50, 10), (55, 10)]
    assert [(w["a"], w["object"], w["length"]) for w in r.of("ACQUIRE", pid=parent)] == \
        [(RECORD_LOCK, *w) for w in ranges * 3]
    graph = Graph(build, r)
    assert who(graph.arcs("resource")) == \
        [(child, parent) for child in children_of(r)]


def test_eventfds(build, trace):
    """A read that waits, one that a poll waited for, one that is ready.

    Would catch: two eventfds taken for one (all have one inode); the wait of
    the poll not taken; an arc where nobody waited."""
    r = trace([program(build, "i_file"), "events"], status=0)
    parent = r.of("START", a=1)[0]["pid"]
    assert r.count("ACQUIRE", a=EVENTFD, pid=parent) == 3
    assert all(a["ino"] for a in r.of("ACQUIRE"))
    graph = Graph(build, r)
    assert who(graph.arcs("resource")) == \
        [(child, parent) for child in children_of(r)[:2]]
    assert graph.tail["counts"]["idle"] == 0


def test_terminal(build, trace):
    """Would catch: waiting for a terminal not told from work; who typed or printed
    not known; an echo taken for what a process wrote."""
    r = trace([program(build, "i_file"), "terminal"], status=0)
    if r.stdout == "none\n":
        pytest.skip("no pseudo terminals here")
    assert r.stdout == "read 6 hello\necho 7\nread 7\n"
    typed, echo, printed = r.of("ACQUIRE", a=TERMINAL)
    for read in typed, printed:
        assert read["t_ret"] - read["t"] > 5_000_000
    assert typed["ino"] != echo["ino"] == printed["ino"]
    graph = Graph(build, r)
    parent = r.of("START", a=1)[0]["pid"]
    assert who(graph.arcs("resource")) == [(c, parent) for c in children_of(r)]
    assert graph.tail["counts"]["idle"] == 0


def test_disk(build, trace):
    """Writes and fsync on a disk; copies that take CPU but wait for nothing.

    Would catch: fsync's wait not recorded; a long copy from the page cache
    called a wait; a record for each read of a file."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", "."], text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    r = trace([program(build, "i_file"), "copies"], status=0)
    slow = r.of("BLOCK", op="DISK")
    assert all(b["t_ret"] - b["t"] - (b["cpu_ret"] - b["cpu"]) >= 50_000
               for b in slow) and len(slow) <= 12  # copies; of many reads each
    r = trace([program(build, "i_file"), "disk"], status=0)
    waits = r.count("BLOCK", op="DISK")
    if kind in ("tmpfs", "ramfs"):
        pytest.skip("%s has no disk" % kind)
    assert 0 < waits <= 200
    assert len(Graph(build, r).arcs("external")) == waits


def test_spinning(build, trace):
    """Receives, polls, and both in turn until something comes; polls with work
    between them.

    Would catch: the pool filled by a spinning thread; spinning taken for work;
    work between polls taken for spinning."""
    r = trace([program(build, "i_file"), "spin"], status=0)
    parent = r.of("START", a=1)[0]["pid"]
    spins = r.of("BLOCK", op="SPIN", pid=parent)
    # More where the machine took the CPU away for long.
    assert 2 <= len(spins) < 10 and all(s["result"] >= 2 for s in spins)
    assert len(r.of("RECVCALL", pid=parent)) < 100
    receives = r.of("RECV", pid=parent)
    assert len(receives) == 4
    graph = Graph(build, r)
    mine = [n for n in graph.nodes if n["pid"] == parent]
    work = sum(n["arc_cpu_ns"] or 0 for n in mine)
    burnt = sum(s["cpu_ret"] - s["cpu"] for s in spins)
    last = max(x.get("cpu_ret", x.get("cpu", 0))
               for x in r.rows if x["pid"] == parent)
    assert work <= last - burnt + 1000


@pytest.mark.parametrize("way", ["tokens", "tokens-fifo"])
def test_tokens(build, trace, way):
    """In a pipe, and in a FIFO that some open both ways and some twice (as make
    does since 4.4). Would catch: a token taken for data: its order is
    incidental."""
    r = trace([program(build, "i_file"), way], status=0)
    graph = Graph(build, r)
    arcs = graph.arcs("resource")
    # An open of a FIFO that was taken off its core in the call may have waited.
    opens = {"AUX"} if way == "tokens-fifo" else set()
    assert {z["kind"] for _, z in arcs} - opens == {"RECV"}, arcs
    assert not graph.arcs("data")


# The first job of b ends when the second has run, which needs the token that a
# gives back, once b sleeps.
MAKEFILE = """
all: a b
a:
\t+@$(MAKE) -s wait
b:
\t+@$(MAKE) -s first second
wait:
\t@until [ -s started ]; do sleep 0.01; done; read make < started; \\
\tuntil grep -q '^State:.S' /proc/$$make/status; do sleep 0.01; done; sleep 0.3
first:
\t@echo $$PPID > starting; mv starting started; \\
\tuntil [ -e got ]; do sleep 0.01; done
second:
\t@touch got
.PHONY: all a b wait first second
"""


def test_jobserver_of_make(build, trace):
    """Two makes below one: the first to finish gives its token to the other,
    which waits for one.

    Would catch: make's own pipe not recognised."""
    if not shutil.which("make"):
        pytest.skip("make")
    with open("Makefile", "w") as f:
        f.write(MAKEFILE)
    r = trace(["sh", "-c", "rm -f started got; exec make -s -j2"], status=0)
    (pipe,) = {r.channel(x)["ino"] for x in r.of("RECV", result=1)}
    graph = Graph(build, r)
    name = ":%d" % pipe
    arcs = graph.arcs("resource")
    assert arcs and all(z["kind"] in ("RECV", "POLL") and
                        z["channel"].endswith(name) for _, z in arcs)
    assert not [z for _, z in graph.arcs("data")
                if z["channel"].endswith(name)]


# --- servers ----------------------------------------------------------------

SERVERS = pytest.mark.skipif(bool(programs.missing()),
                             reason="not here: %s" % programs.missing())


@pytest.fixture
def serve(build):
    """serve(program): its records; programs that change user reach the pool."""
    top = tempfile.mkdtemp(prefix="ips-test-waits-", dir="/dev/shm")
    os.chmod(top, 0o711)

    def run(prog, bare):
        want = rec.execute(bare.argv, rec.clean_env())
        done = rec.execute([build.bin("ipsrun"), "--no-daemons", "--quiet",
                            "--pool", top, "--name", "r", "--"] + prog.argv,
                           rec.clean_env())
        prog.clean()
        bare.clean()
        assert done.status == want.status == 0, done.err
        assert prog.normal(done.out) == bare.normal(want.out)
        (where,) = [d for d in pathlib.Path(top).iterdir()
                    if (d / "control").exists()]
        dump = subprocess.run([str(build.top / "tests" / "pooldump"), "--torn",
                               str(where)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        records = Records(dump.splitlines())
        records.directory = str(where)
        return records

    yield run
    shutil.rmtree(top)


SESSIONS = """
export PGHOST=%(dir)s/sock PGPORT=%(port)s PGUSER=postgres
await pg_isready -q
"""

# One session has a lock until another one is seen to wait for it.
LATCH = """
locks() {
    psql -Atqc "select count(*) from pg_locks where locktype = 'advisory' $1"
}
mkfifo hold
psql -Atq <hold &
exec 3>hold
echo "select pg_advisory_lock(1);" >&3
until [ "$(locks 'and granted')" = 1 ]; do sleep 0.05; done
psql -Atqc "select pg_advisory_lock(1)" 3>&- &
until [ "$(locks 'and not granted')" = 1 ]; do sleep 0.05; done
exec 3>&-
wait %2 %3
"""

# Who commits while another one has the log written to the disk waits for it.
COMMITS = """
pgbench -n -c 4 -t 100 postgres 2>&1 | grep transaction.type
"""


def postgres_with(load, settings=""):
    """A server that does `load` instead of pgbench's."""
    prog = programs.make("postgres", True)
    script = pathlib.Path(prog.script)
    text = script.read_text()
    head, _, rest = text.partition("for host in ")
    was, _, tail = rest.partition("\ndone\n")
    port = re.search(r"-p (\d+)", was).group(1)
    script.write_text(head + SESSIONS % {"dir": prog.directory, "port": port} +
                      load + tail)
    with open(prog.directory + "/data/postgresql.conf", "a") as f:
        f.write(settings)
    return prog


@pytest.mark.slow
@SERVERS
def test_latches_of_postgresql(build, serve):
    """A backend waits on its latch in epoll; who sets it sends SIGURG, which is
    read from a signalfd.

    Would catch: such a wait called idle, or its cause not found."""
    r = serve(*[postgres_with(LATCH) for _ in "12"])
    urg = [s for s in r.of("SIGNAL", how=FD) if s["code"] == 0]
    assert urg, "no latch was set by a signal"
    arcs = Graph(build, r).arcs("signal")
    taken = {(z["pid"], z["t_ns"]) for _, z in arcs}
    assert all((s["pid"], s["t"]) in taken for s in urg)
    assert [a for a, _ in arcs if a["kind"] == "END"]  # SIGCHLD, postmaster


@pytest.mark.slow
@SERVERS
def test_group_commit_of_postgresql(build, serve):
    """Backends wait for each other's locks on semaphores in the memory that they
    share: so do commits that somebody else writes to the disk.

    Would catch: one such semaphore that has two names in two processes, and a
    wait that is nobody's doing."""
    r = serve(*[postgres_with(COMMITS, "fsync = on\n") for _ in "12"])
    waits = r.of("ACQUIRE", a=SEMAPHORE)
    assert waits and all(w["ino"] for w in waits)
    arcs = who(Graph(build, r).arcs("resource"))
    assert all(a != z for a, z in arcs)
    assert len(arcs) > len(waits) // 2


@SERVERS
def test_accept_mutex_of_nginx(build, serve):
    """Would catch: workers that take turns at accepting, by a lock in shared
    memory, disturbed by us."""
    made = []
    for _ in range(2):
        prog = programs.make("nginx", True)
        conf = pathlib.Path(prog.directory, "nginx.conf")
        conf.write_text(conf.read_text().replace(
            "worker_connections 64;", "worker_connections 64; accept_mutex on;"
            " accept_mutex_delay 10ms;"))
        made.append(prog)
    r = serve(*made)
    assert r.count("RECV", op="ACCEPT") >= 8


FIFO_ENDS = r"""
import os, sys
os.mkfifo(sys.argv[1])
pid = os.fork()
if pid == 0:
    os.write(os.open(sys.argv[1], os.O_WRONLY), b"x")
    os._exit(0)
print(os.read(os.open(sys.argv[1], os.O_RDONLY), 1))
os.waitpid(pid, 0)
"""


def test_opens_of_a_fifo(build, trace, tmp_path):
    """Whichever end was opened first, each open lets the other one go. Would
    catch an open not seen, one that lets its own end go, and, where one was
    recorded to have waited, a wait for its own end."""
    path = tmp_path / "fifo"
    r = trace(["/bin/sh", "-c",
               'rm -f "$1"; exec /usr/bin/python3 -c "$0" "$1"', FIFO_ENDS,
               path], status=0)
    ends = [(s["pid"], s["object"]) for s in r.of("RELEASE", a=13)]
    assert sorted(o for _, o in ends) == [1, 2]
    assert len({pid for pid, _ in ends}) == 2
    for w in r.of("ACQUIRE", a=13):
        assert (w["pid"], w["object"]) not in ends


@pytest.mark.parametrize("how", ["longjmp", "exit", "cancel"])
def test_a_call_that_is_left_is_a_wait(build, trace, how):
    """Would catch: a call that a handler leaves, or a cancellation ends, without a record;
    one that is counted as lost; a wait that ended before the thread left it."""
    r = trace([program(build, "i_left"), how], status=0)
    (wait,) = r.of("ACQUIRE", a=SEMAPHORE)
    assert wait["err"] == errno.EINTR
    assert not r.of("LOST")
    (end,) = [x for x in r.of("SIGNAL") if x["pid"] == wait["pid"]]
    assert wait["t"] < end["t"]
    if how != "cancel":  # the handler has begun when it leaves
        assert end["t"] <= wait["t_ret"]
