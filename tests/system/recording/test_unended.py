"""Waits that end, and nothing that is recorded says by whom: an answer never passes over
them. Once they have an arc, the cases move to where those are tested."""
import json
import signal
import subprocess
import time

import pytest


def answer(c, *words):
    done = c.ipsq(*words, "--format", "json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def record(c, build, what):
    command = [build.program("i_unended"), what]
    if what != "outside":
        c.ipsrun(command, name=what, check=True)
    else:
        proc = c.popen(command, name=what, stdout=subprocess.PIPE, text=True)
        assert proc.stdout.readline() == "ready\n"
        time.sleep(0.1)
        proc.send_signal(signal.SIGUSR1)
        assert proc.wait() == 0
    c.wait_closed(what)


WAITS = ["inotify", "handler", "nameless", "write", "stream", "words", "condition",
         "semaphore", "futex", "backlog"]


@pytest.mark.parametrize("what", WAITS)
def test_path_may_be_longer(cluster, build, what):
    """100 ms of a child's computing, a wait for it that left no arc, 50 ms of one's own: the
    path is 150 ms, and what is found is shorter. Would catch: that answer called complete, a
    bound that does not hold, engines that do not agree on it."""
    c = cluster()
    record(c, build, what)
    bounds = set()
    for more in ([], ["--engine", "central"], ["--engine", "cm-async"]):
        a = answer(c, "path", what, *more)
        certificate = a["certificate"]
        assert not certificate["complete"]
        assert any("too short by up to" in g for g in certificate["gaps"])
        assert a["t_max_ns"] < 145e6
        assert a["t_max_ns"] + certificate["unended_ns"] > 145e6
        bounds.add((a["t_max_ns"], certificate["unended_ns"]))
    assert len(bounds) == 1
    assert c.ipsq("check", what, "--max-path", "1000s").returncode == 3


@pytest.mark.parametrize("what", WAITS)
def test_a_new_slave_says_so_too(cluster, build, what):
    """Would catch: the bound lost with the memory of the slave, so that the same answer is
    `complete` after a restart, when the graph comes from its file."""
    c = cluster()
    record(c, build, what)
    before = answer(c, "path", what)["certificate"]
    assert before["unended_ns"] > 0
    c.machines[0].stop_slave()
    c.machines[0].start_slave()
    c.wait_connected()
    for more in ([], ["--weighting", "wall"], ["--engine", "central"]):
        after = answer(c, "path", what, "--fresh", *more)["certificate"]
        assert not after["complete"]
        if not more:
            assert after["unended_ns"] == before["unended_ns"]
            assert after["gaps"] == before["gaps"]
    assert answer(c, "why", what)["certificate"]["unended_ns"] > 0


@pytest.mark.parametrize("what", WAITS)
def test_why_is_not_sure(cluster, build, what):
    """Would catch: a cause that is called certain where most of the path is a wait that
    nobody was seen to end."""
    c = cluster()
    record(c, build, what)
    a = answer(c, "why", what)
    certificate = a["certificate"]
    assert not certificate["complete"] and certificate["unended_ns"] > 90e6
    # On a busy machine the path is longer, and this wait a smaller part of it.
    unknown = certificate["unended_ns"]
    assert a["sure"] != "high" or unknown < 0.25 * a["wall_ns"], a
    assert not [f for f in a["findings"]
                if f["sure"] == "high" and f["gain_ns"] < 2 * unknown], a


@pytest.mark.parametrize("what, least", [("read", 145e6), ("signalfd", 145e6),
                                          ("outside", 45e6), ("file", 45e6)],
                         ids=["read", "signalfd", "outside", "file"])
def test_end_of_the_wait_is_known(cluster, build, what, least):
    """The same program, but the byte is read; a signalfd is ready; or the signal comes from a process that does
    not belong to the run, so that the wait was for nothing in it; or it is a read of a file by
    AIO."""
    c = cluster()
    record(c, build, what)
    for kind in ("path", "why"):
        certificate = answer(c, kind, what)["certificate"]
        assert certificate["complete"] and certificate["unended_ns"] == 0, certificate
    assert least < answer(c, "path", what)["t_max_ns"] < least + 90e6


def test_several_requests_in_one_wait(cluster, build):
    """One lio_listio for a byte and for a file: who sent the byte is on the path, and which
    of them ended the wait is not known. Would catch: the receive left out, the wait called
    one for the byte or for the disk."""
    c = cluster()
    record(c, build, "list")
    assert 145e6 < answer(c, "path", "list")["t_max_ns"] < 235e6
    assert answer(c, "why", "list")["certificate"]["unended_ns"] > 0


PLACES = 1024 # REQUESTS in agent/preload/io/aio.c


@pytest.mark.parametrize("count", [100, 3000])
def test_reads_that_do_not_fit(cluster, build, count):
    """Would catch: a read that is forgotten because another one has the same hash; one
    that has no place, so that later receives get the wrong senders, and the answer is
    `complete`."""
    c = cluster()
    c.ipsrun([build.program("i_requests"), str(count)], name="r", check=True)
    c.wait_closed("r")
    events = c.json("events", "r")["events"]
    received = sum(e["type"] == "receive" for e in events)
    certificate = c.json("path", "r", status=(0, 3))["certificate"]
    assert received + sum(each["count"] for each in certificate["lost"]) == count
    assert certificate["complete"] == (received == count) == (count < PLACES)
    assert received <= PLACES
