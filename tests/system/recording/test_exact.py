"""Procedures of code built with -finstrument-functions: the calls that a
program knows it made are in the records, as events and as counts.

Would catch: a hook that loses or doubles calls, events out of order or of the
wrong procedure, a counter that is lost at a thread's end, at exit, at exec or in
a fork, a budget that is not kept or not said."""
import collections
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import clean_env, give_clock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "oracle"))

import pool_reader as pool  # noqa: E402

pytestmark = pytest.mark.quick

EXACT = ("--procedures=exact", "--budget", "100")


class Run:
    def __init__(self, status, out, directory):
        self.status, self.out = status, out
        rows = [line.split() for line in out.splitlines()]
        self.truth = collections.Counter()
        for name, _, calls in rows:
            self.truth[name] += int(calls)
        self.name = {int(r[1], 16): r[0] for r in rows}
        self.streams, self.pids = [], []
        for segments in pool.streams(directory):
            self.streams.append([r for s in segments for r in s.records()])
            self.pids.append(segments[0].pid)

    def of(self, kind):
        return [r for s in self.streams for r in s if r.kind == kind]

    def sums(self, kind):
        found = collections.Counter()
        for r in self.of(kind):
            found[self.name.get(r.procedure, "?")] += \
                r.calls if kind == pool.COUNT else 1
        found.pop("?", None)
        return +found

    def calls(self):
        return self.sums(pool.COUNT) + self.sums(pool.ENTER)

    def tree(self, stream):
        """[("+", name) or ("-", name)]"""
        return [("+" if r.kind == pool.ENTER else "-",
                 self.name.get(r.procedure, "?")) for r in stream
                if r.kind in (pool.ENTER, pool.EXIT)]


@pytest.fixture
def record(build):
    root = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-", dir="/dev/shm"))
    give_clock(build, root / "pool")
    count = iter(range(1000))

    def command(options, words):
        name = f"r{next(count)}"
        argv = [build.bin("ipsrun"), "--pool", str(root / "pool"), "--name",
                name, "--no-daemons", "--quiet", *options, "--",
                build.program("i_instrumented"), *map(str, words)]
        return argv, root / "pool" / name

    def run(options, *words):
        argv, directory = command(options, words)
        done = subprocess.run(argv, env=clean_env(), text=True, timeout=180,
                              stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, done.stderr
        return Run(done.returncode, done.stdout, directory)

    run.command = command
    yield run
    shutil.rmtree(root, ignore_errors=True)


def test_events_are_the_call_tree(record):
    """EVIDENCE-OF: entry and exit of every procedure, in order."""
    r = record(EXACT, "tree", 200)
    leaf = [("+", "leaf"), ("-", "leaf")]
    one = [("+", "root"), *leaf, ("+", "twice"), *leaf, *leaf,
           ("-", "twice"), ("-", "root")]
    trees = [t for t in map(r.tree, r.streams) if t]
    assert trees == [one * 200]
    assert not r.sums(pool.COUNT)
    for s in r.streams:
        events = [e for e in s if e.kind in (pool.ENTER, pool.EXIT)]
        assert all(a.t <= b.t and a.cpu <= b.cpu
                   for a, b in zip(events, events[1:]))


@pytest.mark.parametrize("options", [("--procedures=sample",), EXACT],
                         ids=["sample", "exact"])
@pytest.mark.parametrize("words", [("tree", 1000), ("hot", 20000),
                                   ("threads", 8, 3000), ("exec", 1234),
                                   ("odd",), ("storm",)], ids=lambda w: w[0])
def test_counts_are_the_truth(record, options, words):
    """EVIDENCE-OF: IPS-7, a call counter per procedure."""
    r = record(options, *words)
    assert r.calls() == +r.truth
    if options != EXACT:
        assert not r.of(pool.ENTER) and not r.of(pool.EXIT)


def test_threads_keep_their_own(record):
    """Would catch: one thread's calls counted for another."""
    r = record(("--procedures=sample",), "threads", 6, 5000)
    each = [sum(c.calls for c in s
                if c.kind == pool.COUNT and r.name.get(c.procedure) == "hot")
            for s in r.streams]
    assert sorted(n for n in each if n) == [5000] * 6
    assert all(c.a == 0 for c in r.of(pool.COUNT))


def test_odd_ways_out(record):
    """Recursion, longjmp, a handler, children: EXITs are of the ENTERs that are
    open, the deepest first, and a call that was jumped out of has none."""
    r = record(EXACT, "odd")
    for stream in r.streams:
        stack = []
        for step, name in r.tree(stream):
            if step == "+":
                stack.append(name)
                continue
            assert name in stack
            while stack.pop() != name:
                pass
    exits = r.sums(pool.EXIT)
    assert exits["down"] == 101 and exits["inlined"] == 7
    assert exits["middle"] == exits["jumps"] == 0


def test_hot_becomes_a_counter(record):
    """EVIDENCE-OF: a hot procedure falls back to a counter when it exceeds the
    budget, and the record says from when."""
    r = record(("--procedures=exact", "--budget", "1"), "hot", 300000)
    assert r.calls() == r.truth
    said = [(s, i) for s in r.streams for i, c in enumerate(s)
            if c.kind == pool.COUNT and c.calls == 0]
    assert len(said) == 1
    stream, at = said[0]
    assert r.name[stream[at].procedure] == "hot"
    before = [e for e in stream[:at] if e.kind == pool.ENTER]
    assert before and before[-1].t <= stream[at].t
    later = [e for e in stream[at:] if e.kind == pool.ENTER
             and r.name[e.procedure] == "hot"]
    assert not later
    assert r.sums(pool.ENTER)["rare"] == r.truth["rare"]
    assert r.sums(pool.ENTER)["hot"] < r.truth["hot"] / 2
    assert r.sums(pool.ENTER) == r.sums(pool.EXIT)


def test_killed(record, tmp_path):
    """SIGKILL in the middle: what is in the pool is no more than was called,
    and all but the last part of a second of it."""
    argv, directory = record.command(("--procedures=sample", "--rate", "10"),
                                     ("forever",))
    shared = tmp_path / "calls"
    shared.write_bytes(bytes(4096))
    with open(shared, "r+b") as f, mmap.mmap(f.fileno(), 4096) as calls:
        def so_far():
            return struct.unpack_from("<Q", calls, 0)[0]

        proc = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<>"$0"', str(shared), *argv],
            env=clean_env(), stdout=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL)
        line = proc.stdout.readline()
        deadline = time.monotonic() + 120
        cpu = 0
        while cpu < 0.4:  # of CPU, whatever else runs here
            assert time.monotonic() < deadline
            time.sleep(0.05)
            with open(f"/proc/{proc.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        proc.send_signal(signal.SIGKILL)
        proc.wait()
        proc.stdout.close()
        made = so_far()
    r = Run(0, line, directory)
    counted = r.sums(pool.COUNT)["hot"]
    assert made / 2 < counted <= made + 1


def test_off(record):
    """Would catch: hooks that record though nobody asked."""
    r = record(("--procedures=off",), "hot", 1000)
    assert not r.calls()


@pytest.mark.parametrize("wrong", ["0", "101", "x", "-1", "2%", ""])
def test_budget_is_checked(build, wrong):
    done = subprocess.run([build.bin("ipsrun"), "--budget", wrong, "true"],
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "0.001 to 100" in done.stderr
