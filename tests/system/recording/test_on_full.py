"""ipsrun --on-full: a program that writes far more events than fit.

drop counts what is lost, block loses nothing, ring keeps the newest; in all
three what is there and what is lost add up to what the program did.
"""
import collections
import signal
import subprocess
import sys
import time

import pytest

from conftest import clean_env, wait_until

FLOOD = 20000  # writes, and as many reads, of 64 bytes each: ten times the quota
# Samples, run delays and guesses come as time goes, other records as the
# program goes.
PLAIN = ["--procedures=off", "--run-delay=off", "--cpu=exact"]
QUOTA = ["--quota=256K", *PLAIN]


def flood(c, build, mode, *options):
    """The program's own output is the bare one's; (events, lost by cause)."""
    argv = [build.program("i_guest"), "flood", str(FLOOD)]
    bare = subprocess.run(argv, capture_output=True, text=True)
    done = c.ipsrun(argv, name=mode, options=[f"--on-full={mode}", *QUOTA,
                                              *options])
    assert (done.returncode, done.stdout, done.stderr) == \
        (0, bare.stdout, bare.stderr)
    c.wait_closed(mode)
    certificate = c.json("path", mode, status=(0, 3))["certificate"]
    return certificate["events"], \
        {l["cause"]: l["count"] for l in certificate["lost"]}


def events_of(c, name):
    return c.json("events", name, "--top", "100000", status=(0, 3))["events"]


def lost_records(c, name):
    """LOST is a record, too, that says where the others are not."""
    return sum(e["type"] == "lost" for e in events_of(c, name))


def everything(c, build):
    """Events of the same program where everything has room."""
    c.ipsrun([build.program("i_guest"), "flood", str(FLOOD)], name="all",
             options=PLAIN, check=True)
    c.wait_closed("all")
    certificate = c.json("path", "all")["certificate"]
    assert not certificate["lost"]
    return certificate["events"]


@pytest.mark.quick
def test_block_loses_nothing(cluster, build):
    """Would catch a thread that gives up while the slave drains, or that waits
    for room which its own full segment takes."""
    c = cluster()
    events, lost = flood(c, build, "block")
    assert not lost
    assert events == everything(c, build)


@pytest.mark.quick
def test_drop_counts_what_is_lost(cluster, build):
    """Would catch a loss that is not counted, or counted twice."""
    c = cluster()
    total = everything(c, build)
    # It holds the pool's lock, but drains nothing while the program runs.
    c.machines[0].slave.send_signal(signal.SIGSTOP)
    argv = [build.program("i_guest"), "flood", str(FLOOD)]
    c.ipsrun(argv, name="drop", options=["--on-full=drop", *QUOTA], check=True)
    c.machines[0].slave.send_signal(signal.SIGCONT)
    c.wait_closed("drop")
    certificate = c.json("path", "drop", status=(3,))["certificate"]
    lost = {l["cause"]: l["count"] for l in certificate["lost"]}
    assert set(lost) == {"quota"} and not certificate["complete"]
    assert lost["quota"] > FLOOD
    said = certificate["events"] + lost["quota"] - lost_records(c, "drop")
    # What calls took beyond their prices is a record of its own (CALLS), now and then.
    assert abs(said - total) <= 3


@pytest.mark.quick
def test_block_without_a_slave_goes_on(build, tmp_path):
    """Would catch a program that waits for ever for a slave that is not
    there: the test would time out."""
    argv = [build.program("i_guest"), "flood", str(FLOOD)]
    done = subprocess.run(
        [build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool",
         tmp_path / "pool", "--name", "r", "--on-full=block", *QUOTA, "--",
         *argv], capture_output=True, text=True, env=clean_env())
    bare = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == \
        (0, bare.stdout, bare.stderr)


@pytest.mark.quick
def test_ring_keeps_the_newest(cluster, build):
    """Would catch a ring that keeps the oldest, that has a gap or another
    order, whose losses do not add up, or whose beginning in the middle throws
    the positions of the bytes out: no send would find its receive."""
    c = cluster()
    total = everything(c, build)
    events, lost = flood(c, build, "ring")
    assert set(lost) == {"overwritten"} and lost["overwritten"] > FLOOD
    assert events + lost["overwritten"] - lost_records(c, "ring") == total
    rows = events_of(c, "ring")
    sends = [e["bytes"] for e in rows if e["type"] == "send"]
    sizes = [1 + i % 4093 for i in range(FLOOD)]
    assert any("with those before" in e["detail"] for e in rows)
    # The last of the channel before stands for all bytes before; then come the
    # newest, each once. (The last one is the program's line of output.)
    kept = [b for b in sends if b in range(1, 4094)]
    newest = kept[:-1] if len(kept) > 1 and kept[-1] == len("moved 40096490\n") \
        else kept
    assert len(newest) > 300 and newest == sizes[-len(newest):]
    nodes = c.graph("ring")
    assert sum(n["xkind"] == "data" for n in nodes) >= len(newest)
    done = c.ipsq("path", "ring")
    assert done.returncode == 3 and "events were lost: overwritten" in done.stdout


PIPES = """
import os
pipes = [os.pipe() for _ in range(8)]
for _ in range(1500):
    for k, (r, w) in enumerate(pipes):
        os.write(w, b"x" * (k + 1))
        os.read(r, 100)
"""


def test_ring_keeps_channels_apart(cluster):
    """What went through each of eight pipes, to and from. Would catch: the bytes that a
    digest stands for added to another channel's, or to the other direction's."""
    c = cluster()
    c.ipsrun([sys.executable, "-c", PIPES], name="ring", options=["--on-full=ring", *QUOTA],
             check=True)
    c.wait_closed("ring")
    moved = collections.Counter()
    rows = events_of(c, "ring")
    assert any("with those before" in e["detail"] for e in rows)
    for e in rows:
        if e["type"] in ("send", "receive") and "pipe" in (e["channel"] or ""):
            moved[e["channel"], e["type"]] += e["bytes"]
    for kind in ("send", "receive"):
        most = sorted(n for (_, way), n in moved.items() if way == kind)[-8:]
        assert most == [1500 * (k + 1) for k in range(8)], moved


@pytest.mark.quick
def test_ring_survives_a_kill(cluster, build):
    """SIGKILL anywhere, most of all while a ring goes round: the newest
    records are there, without a gap and each once. Would catch a digest that is
    read beside what it stands for, or a half-written one."""
    c = cluster()
    sizes = [1 + i % 4093 for i in range(4093)]
    for i in range(6):
        name = f"kill{i}"
        proc = c.popen([build.program("i_guest"), "flood", "100000000"],
                       name=name, options=["--on-full=ring", *QUOTA])
        wait_until("its ring is full", lambda: len(list(
            c.machines[0].pool.glob(f"{name}*/*.seg"))) >= 4)
        time.sleep(0.05 + 0.013 * i)
        proc.kill()
        proc.wait()
        c.wait_closed(name)
        rows = events_of(c, name)
        sends = [e["bytes"] for e in rows if e["type"] == "send" and
                 "with those before" not in e["detail"]]
        assert len(sends) > 300
        at = sizes.index(sends[0])
        assert sends == (sizes * 3)[at:at + len(sends)]
        assert c.ipsq("path", name).returncode == 3
        log = c.machines[0].log.read_text()
        assert "damaged" not in log and "missing" not in log
