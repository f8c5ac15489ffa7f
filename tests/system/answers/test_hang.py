"""A wait that never ends: `ipsq why` asked while a program hangs, and after it was
killed, names each thread that waits, where, for what, and who has it; and says
nothing of the kind of programs that only look so (tests/programs/hang.c).

EVIDENCE-OF: IPS-17."""
import os
import pathlib
import re
import signal
import time

import pytest

from conftest import wait_until

# What each of the threads waits for, as a pattern; deadlock: who has it is named.
DEADLOCK = {
    "philosophers": ["mutex"] * 5,
    "itself": ["mutex"],
    "join": ["mutex", "the end of a thread"],
}
STILL = {
    "upgrade": ["rwlock .to write."],
    "condition": ["condition"],
    "semaphore": ["semaphore"],
    "write-first": ["room in pipe"] * 2,
}
NO_HANG = ["busy", "idle", "asleep"]
PLACE = {"philosophers": "dine", "itself": "itself", "join": "join",
         "upgrade": "upgrade", "condition": "consume", "semaphore": "take",
         "write-first": "write_first"}


def fields(path):
    return path.read_text().rsplit(")", 1)[1].split()


def family(pid):
    """The process and its children."""
    children = [p for p in pathlib.Path("/proc").glob("[0-9]*/stat")
                if p.exists()]
    found = [pid]
    for stat in children:
        try:
            if int(fields(stat)[1]) in found:
                found.append(int(stat.parent.name))
        except OSError:
            continue  # it ended
    return found


def states(pid):
    """State and CPU ticks of every thread of the process and its children."""
    return [(t.name, *[fields(t / "stat")[k] for k in (0, 11, 12)])
            for p in family(pid) for t in pathlib.Path(f"/proc/{p}/task").iterdir()]


def settle(pid, threads, busy):
    """Until they are all there, and asleep but for `busy` of them, and stay so."""
    seen = []

    def still():
        try:
            now = states(pid)
        except OSError:
            return False
        seen.append(now if busy or all(s[1] == "S" for s in now) else None)
        same = seen[-1] and seen[-10:].count(seen[-1]) == 10
        return len(now) == threads and (busy or same)
    wait_until(f"{threads} threads wait", still)


def hangs(answer):
    return [f for f in answer["findings"] if f["kind"] == "hang"]


def run_until_hung(cluster, build, way, threads, busy=False):
    c = cluster()
    begun = time.monotonic()
    proc = c.popen([build.program("hang"), way], name="r")
    wait_until("it is begun", lambda: c.has_begun("r"))
    settle(proc.pid, threads, busy)
    # Long beside what was before it.
    time.sleep(1 + time.monotonic() - begun)
    return c, proc


def check_named(way, found, waits):
    text = found["says"] + found["evidence"]
    for what in waits:
        assert re.search(what, text), found
    assert found["procedure"] == PLACE[way], found
    assert found["evidence"].count(" waits for ") == min(len(waits), 4), found
    assert found["file"].endswith("hang.c") and found["line"] > 0, found


@pytest.mark.parametrize("way", [*DEADLOCK, *STILL])
def test_hang_is_named(cluster, build, way):
    """Would catch a thread that is left out, or said to be at work; who has a lock
    taken for another; and a hang that is not said while it goes on."""
    waits = {**DEADLOCK, **STILL}[way]
    only_joins = way in ("philosophers", "condition", "semaphore")
    c, proc = run_until_hung(cluster, build, way, len(waits) + only_joins)
    for when in ("live", "killed"):
        if when == "killed":
            for pid in reversed(family(proc.pid)):
                os.kill(pid, signal.SIGTERM)
            assert proc.wait() == -signal.SIGTERM
            c.wait_closed("r")
        answer = c.json("why", "r", status=(0, 3))
        found = hangs(answer)
        assert len(found) == 1 and answer["findings"][0] == found[0], (when, answer)
        check_named(way, found[0], waits)
        assert ("Deadlock" in found[0]["says"]) == (way in DEADLOCK), found
        assert found[0]["sure"] == ("high" if way in DEADLOCK else "fair"), found
        assert ("up to now" in found[0]["evidence"]) == (when == "live"), found
    if way in DEADLOCK:
        has = re.findall(r"/(\d+) in \w+ .*?waits for .*?(?:which thread (\d+) has"
                         r"|a thread, (\d+)|(itself))", found[0]["evidence"])
        # Each is had by another that is named, or (after four) the next one.
        assert len(has) == min(len(waits), 4), found
        for (_, lock, joined, own), later in zip(has, has[1:]):
            assert own or (lock or joined) == later[0], found


def test_waits_are_counted_up_to_the_kill(cluster, build):
    """Would catch an unfinished wait that is no wait of the thread, or that is
    called work."""
    c, proc = run_until_hung(cluster, build, "philosophers", 6)
    proc.terminate()
    proc.wait()
    c.wait_closed("r")
    groups = c.json("waits", "r")["waits"]
    locks = [g for g in groups if g["cause"] == "lock" and g["procedure"] == "dine"]
    assert sum(g["count"] for g in locks) >= 5, groups
    assert sum(g["longest_ns"] > 900_000_000 for g in locks) >= 1, groups
    path = c.json("path", "r", "--weighting", "cpu")
    assert path["t_max_ns"] < 500_000_000, path
    assert path["certificate"]["complete"], path


@pytest.mark.parametrize("way", NO_HANG)
def test_no_hang(cluster, build, way):
    """Would catch a hang that is said of a program at work, of a server that
    nobody asks, or of one that sleeps."""
    c, proc = run_until_hung(cluster, build, way, 2 if way == "busy" else 1,
                             busy=way == "busy")
    assert not hangs(c.json("why", "r", status=(0, 3)))
    proc.terminate()
    proc.wait()
    c.wait_closed("r")
    assert not hangs(c.json("why", "r", status=(0, 3)))
