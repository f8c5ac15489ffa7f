"""The distributed engines on real daemons: every engine the same answer, slaves
that do not reach each other, a slave killed and a client that goes away in the
middle of a computation.

The middle is held open without any hook: the socket at which m1 would reach
m3 is replaced by one that accepts and says nothing, so m1 waits for a Hello
(10 s)."""
import signal
import socket
import subprocess

import pytest

import tsp
from conftest import clean_env, wait_until

ENGINES = ("contract", "central", "cm-sync", "cm-async")
SAME = ("t_max_ns", "total_cpu_ns", "segments", "shares", "p_max")
OF_THE_ENGINE = ("engine", "took_ns", "cost_rounds", "cost_values",
                 "cost_messages", "cost_bytes", "cost_relayed", "certificate")


def peers_socket(machine):
    return machine.state / f"slave-{machine.name}" / "peers.sock"


def computations(c):
    return [s["computations"] for s in c.json("status")["slaves"]
            if s["connected"]]


def wait_idle(c):
    """Until no slave takes part in any computation (told once a second)."""
    wait_until("nothing is left in the slaves",
               lambda: not any(computations(c)), 20)


@pytest.fixture
def traced(cluster, hosts):
    """TSP on three hosts, whose names are in the order of their numbers."""
    c = cluster(["m1", "m2", "m3"], hosts=hosts)
    tsp.solve(c, "tsp")
    c.wait_closed("tsp", machines=3)
    return c


@pytest.fixture
def held(traced):
    """m3's address leads to somebody who never says a word."""
    path = peers_socket(traced.machines[2])
    path.unlink()
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(path))
    silent.listen(8)
    yield traced
    silent.close()


def ask_in_background(c, engine="cm-sync"):
    proc = subprocess.Popen(
        [c.build.bin("ipsq"), "--master", c.address, "--state", str(c.state),
         "path", "tsp", "--engine", engine, "--format", "json"],
        env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    c.started.append(proc)
    wait_until("the computation is under way",
               lambda: all(computations(c)) or proc.poll() is not None, 20)
    assert proc.poll() is None, proc.communicate()
    return proc


def test_all_engines_on_three_hosts(traced):
    """EVIDENCE-OF: IPS-11. Would catch an engine that differs in a piece of
    the path, and values that were not told."""
    c = traced
    answers = {e: c.json("path", "tsp", "--engine", e) for e in ENGINES}
    for engine, answer in answers.items():
        assert answer["engine"] == engine
        assert answer["certificate"]["complete"]
        assert answer["cost_messages"] > 0
        assert answer["cost_bytes"] > 0
        for key in SAME:
            assert answer[key] == answers["central"][key], (engine, key)
    # All that a path tells, asked for at once.
    every = ("--by", "machine,process,thread,procedure,line,message,external",
             "--sequences", "--whole", "--slack", "--next", 3, "--from", "1ms",
             "--to", "1000s")
    for weighting in ("cpu", "sched", "wall"):
        for engine in ENGINES:
            answer = c.json("path", "tsp", "--engine", engine, "--weighting",
                            weighting, *every)
            told = {k: v for k, v in answer.items() if k not in OF_THE_ENGINE}
            want = answers.setdefault(weighting, told)
            assert told == want, (engine, weighting)
            assert all(told[k] for k in ("shares", "sequences", "whole",
                                         "segments", "slacks", "next"))
    sync, async_ = answers["cm-sync"], answers["cm-async"]
    assert sync["cost_relayed"] == async_["cost_relayed"] == 0
    assert 0 < sync["cost_values"] <= async_["cost_values"]
    wait_idle(c)


@pytest.mark.parametrize("unreachable", [1, 2])
def test_unreachable_slaves_go_through_the_master(traced, unreachable):
    """Would catch messages lost or out of order when they are relayed, and an
    answer that does not say which address was tried."""
    c = traced
    want = c.json("path", "tsp", "--engine", "contract")
    path = peers_socket(c.machines[unreachable])
    path.unlink()
    for engine in ("cm-sync", "cm-async"):
        answer = c.json("path", "tsp", "--engine", engine)
        for key in SAME:
            assert answer[key] == want[key], (engine, key)
        assert answer["cost_relayed"] > 0
        notes = " ".join(answer["certificate"]["notes"])
        assert "through the master" in notes and str(path) in notes, notes
    wait_idle(c)


@pytest.mark.parametrize("engine", ["cm-sync", "cm-async"])
def test_slave_killed_in_the_middle(held, engine):
    """Would catch an answer that does not name the machine that is missing,
    one that is not that of the others, and a computation left behind in
    them."""
    c = held
    proc = ask_in_background(c, engine)
    c.machines[2].stop_slave(signal.SIGKILL)
    out, err = proc.communicate(timeout=180)
    assert proc.returncode == 3, err
    partial = c.json("path", "tsp", "--engine", engine, status=(3,))
    other = c.json("path", "tsp", "--engine", "contract", status=(3,))
    assert f'"engine": "{engine}"' in out or f'"engine":"{engine}"' in out
    for answer in (partial, other):
        assert answer["certificate"]["missing_machines"], answer
        assert not answer["certificate"]["complete"]
    for key in SAME:
        assert partial[key] == other[key], key
    wait_idle(c)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_client_goes_away_in_the_middle(held, sig):
    """Would catch a slave that goes on with what nobody awaits, and a run that
    no other question gets a turn at."""
    c = held
    proc = ask_in_background(c)
    proc.send_signal(sig)
    proc.communicate(timeout=120)
    wait_idle(c)
    assert c.json("path", "tsp", "--engine", "contract")["t_max_ns"] > 0


def test_master_killed_in_the_middle(held):
    """Would catch a computation that outlives who asked for it."""
    c = held
    proc = ask_in_background(c)
    c.stop_master(signal.SIGKILL)
    assert proc.wait(120) != 0
    c.start_master()
    c.wait_connected()
    wait_idle(c)
    assert c.json("path", "tsp", "--engine", "contract")["t_max_ns"] > 0
