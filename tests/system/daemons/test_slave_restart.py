"""Exactly once: whatever is killed whenever, every mark that a program said it
had set is in the slave's answer once, and no mark twice.

Would catch: cursors and records that do not commit together, a segment handed
back too early, a death that hides the last records."""
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import pytest

from conftest import clean_env, end_process, processes_of, wait_until


class Bench:
    """A pool and its slave, without a master: slave_asker asks."""

    def __init__(self, build):
        self.build = build
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="slave-test-",
                                                  dir="/dev/shm"))
        self.env = clean_env(IPS_POOL_ROOT=self.root / "pool",
                             IPS_STATE=self.root / "state", IPS_MACHINE="m1")
        self.slave = None
        self.log = self.root / "log"
        (self.root / "state").mkdir(mode=0o700)

    def start(self, *words):
        with open(self.log, "ab") as log:
            self.slave = subprocess.Popen(
                [self.build.bin("ips-slave"), *words], env=self.env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.slave

    def kill(self):
        self.slave.kill()
        self.slave.wait()

    def writer(self, run, out, *words):
        return subprocess.Popen(
            [self.build.bin("ipsrun"), "--no-daemons", "--quiet", "--name",
             run, "--", self.build.program("marker"), *map(str, words)],
            env=self.env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.DEVNULL)

    def joiner(self, run, out, *words):
        return subprocess.Popen(
            [self.build.bin("ipsrun"), "--no-daemons", "--quiet", "--join",
             run, "--", self.build.program("marker"), *map(str, words)],
            env=self.env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.DEVNULL)

    def ask(self, run, *words):
        done = subprocess.run(
            [self.build.program("slave_asker"),
             f"unix:{self.root}/state/master.sock", run, *words],
            env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=180)
        assert done.returncode == 0, done.stderr + self.log.read_text()
        return done.stdout

    def rows(self, sql):
        db = sqlite3.connect(self.root / "state/slave-m1/slave.db")
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            db.close()

    def closed(self, run):
        return self.rows(f"select 1 from run where name='{run}' and state=1")

    def close(self):
        for pid in processes_of(self.root):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.slave:
            self.slave.wait()
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def bench(build):
    bench = Bench(build)
    yield bench
    bench.close()


def marks_of(answer):
    return [int(n) for n in re.findall(r"type=mark .*detail=(\d+)$", answer,
                                       re.M)]


@pytest.mark.timeout(360)
def test_kill_slave_and_writers(bench):
    chance = random.Random(5)
    said = bench.root / "said"
    writers = []
    first = 0
    bench.start()
    with open(said, "ab", buffering=0) as out:
        anchor = bench.writer("r1", out, 10_000_000, 100_000, 2000)
        wait_until("the run", (bench.root / "pool/r1/control").exists)
        for _ in range(20):
            for _ in range(2):
                writers.append(bench.joiner("r1", out, first, 30_000,
                                            chance.choice([0, 20, 200])))
                first += 100_000
            time.sleep(chance.uniform(0.01, 0.25))
            bench.kill()
            if chance.random() < 0.7:
                victim = chance.choice(writers)
                if victim.poll() is None:
                    victim.kill()
            time.sleep(chance.uniform(0, 0.05))
            bench.start()
        for writer in writers:
            end_process(writer, signal.SIGKILL)
        end_process(anchor, signal.SIGKILL)
    wait_until("closed", lambda: bench.closed("r1"))
    told = [int(line) for line in said.read_text().split()]
    got = marks_of(bench.ask("r1", "sync", "events:3"))
    assert len(told) > 2000
    assert len(got) == len(set(got)), "a mark is there twice"
    missing = set(told) - set(got)
    # A program whose quota ran out says so: then counted, not silent.
    lost = sum(int(n) for row in bench.rows("select lost from run")
               for n in row[0].split())
    assert len(missing) <= lost
    if lost == 0:
        assert not missing
    # What was set and not told of is at most one mark a killed writer.
    assert len(set(got) - set(told)) <= len(writers) + 1
    assert not (bench.root / "pool/r1").exists()


@pytest.mark.quick
def test_second_slave_refused(bench):
    """Would catch: two slaves that drain one pool; a slave that ends without
    giving back its locks, so that their files name it still."""
    bench.start()
    lock = bench.root / "pool/slave.lock"
    state_lock = bench.root / "state/slave-m1/lock"
    wait_until("lock", lambda: lock.exists() and lock.read_text())
    wait_until("lock", lambda: state_lock.exists() and state_lock.read_text())
    second = subprocess.run([bench.build.bin("ips-slave")], env=bench.env,
                            capture_output=True, text=True, timeout=120)
    assert second.returncode == 1
    assert str(bench.slave.pid) in second.stderr
    assert bench.slave.poll() is None
    assert end_process(bench.slave) == 0
    assert lock.read_text() == state_lock.read_text() == ""
    third = bench.start()
    wait_until("lock", lambda: lock.read_text().strip() == str(third.pid))


def test_private_ends(bench):
    """Would catch: a private slave that leaves a run alone, or stays."""
    with open(os.devnull, "wb") as out:
        assert bench.writer("p1", out, 0, 50).wait(120) == 0
        said = bench.root / "slow"
        with open(said, "wb", buffering=0) as to:
            slow = bench.joiner("p1", to, 100, 200, 5000)
        wait_until("it records", said.read_text)
        slave = bench.start("--private")
        while slow.poll() is None:
            left = slave.poll() is not None
            assert not left or slow.poll() is not None
            time.sleep(0.05)
        assert slow.wait(120) == 0
    assert slave.wait(120) == 0
    assert bench.closed("p1")
    assert bench.rows("select events from run where name='p1'")[0][0] >= 250
    # One that has nothing to drain waits for questions, then ends.
    begin = time.monotonic()
    assert bench.start("--private", "--idle", "1.5").wait(120) == 0
    assert time.monotonic() - begin > 1.4


@pytest.mark.quick
def test_answers_after_restart(bench):
    """The graph's file gives the answer that the records gave; a damaged one
    is not believed."""
    words = ("sync", "ends", "peers", "subgraph", "finish", "expand")
    bench.start()
    with open(os.devnull, "wb") as out:
        assert bench.writer("g1", out, 0, 500).wait(120) == 0
    wait_until("closed", lambda: bench.closed("g1"))

    def answer():
        return re.sub(r"generation=\d+", "", bench.ask("g1", *words))

    first = answer()
    assert "finish t_max=" in first and "error" not in first
    graph = bench.root / "state/slave-m1/runs/g1/graph"
    assert graph.exists()
    for damage in (None, 40, 2000):
        assert end_process(bench.slave) == 0
        if damage:
            data = bytearray(graph.read_bytes())
            data[min(damage, len(data) - 1)] ^= 0x10
            graph.write_bytes(data)
        bench.start()
        assert answer() == first
    assert bench.rows("select count(*) from process")[0][0] == 1


@pytest.mark.quick
def test_unknown_run_and_stale_graph(bench):
    bench.start()
    answer = bench.ask("nosuch", "sync", "table", "events", "bad")
    assert answer.count("error code=-5") == 4
    with open(os.devnull, "wb") as out:
        bench.writer("k1", out, 0, 5).wait(120)
    wait_until("closed", lambda: bench.closed("k1"))
    assert "error code=-12" in bench.ask("k1", "sync", "bad")


@pytest.mark.quick
@pytest.mark.parametrize("words, status, text", [
    (("--nonsense",), 2, "--help"),
    (("--archive-max", "12Q"), 2, "--archive-max"),
    (("--idle", "-1"), 2, "--idle"),
    (("extra",), 2, "extra"),
    (("--machine", "a/b"), 2, "slash"),
    (("--master", "tcp:192.0.2.1:1"), 1, "tls:HOST:PORT"),
    (("--master", "nowhere"), 1, "master"),
    (("--pool", "/proc/nosuch/pool"), 1, "pool"),
    (("--state", "/proc/nosuch"), 1, "/proc/nosuch"),
])
def test_refusals(bench, words, status, text):
    done = subprocess.run([bench.build.bin("ips-slave"), *words],
                          env=bench.env, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == status, done.stderr
    assert text in done.stderr
