"""Shows "A random multi-process, multi-thread program generator whose true
dependencies are known, run under the agent and compared arc by arc". The truth
is the plan's and the program's own log (tests/oracle/random_truth.py); all of
the graph's arcs between threads are looked at. Would catch a call that is not
recorded, a receive that hangs on another send, a wait on another release, an
arc too many, a process, thread or exec that is lost, and what is lost under
the way.

Fixed plans, and some that nobody has seen: a failure names its seed, and
tests/bench/random-programs 1 --seed N --shrink runs it again and makes it
small.
"""
import random

import pytest

import random_run
from conftest import Cluster
from random_program import EVENTS, Plan

FIXED, FRESH = 12, 10


@pytest.fixture(scope="module")
def cluster(build):
    with_daemons = Cluster(build, ["m1"])
    yield with_daemons
    with_daemons.close()


def check(cluster, seed):
    result = random_run.run(cluster, Plan(seed, 60), f"seed{seed}")
    assert not result.errors, "\n  ".join(
        [f"tests/bench/random-programs 1 --seed {seed} --shrink"] +
        result.errors)
    return result


def test_fixed_plans(cluster):
    """The same in every session, and worth the trouble."""
    results = [check(cluster, seed) for seed in range(1, FIXED + 1)]
    assert sum(r.musts for r in results) > 40 * FIXED


def test_fresh_plans(cluster):
    """Others in every session."""
    for seed in random.SystemRandom().sample(range(1000, 1 << 30), FRESH):
        check(cluster, seed)


def test_plans_have_everything():
    """The fixed plans leave no kind of operation out: would catch a generator
    that quietly stopped making some."""
    made = {op[0] for seed in range(1, FIXED + 1)
            for thread in Plan(seed, 60).threads for op in thread.ops}
    assert {"EXEC", "SPAWN", "FORK", "CREATE", "ACCEPT", "SEND_DATAGRAM",
            "SEND_BROKEN", "RECEIVE_BOTH", "SHUTDOWN", "EVENTFD_READ",
            "SIGWAIT", "SIGSUSPEND", "COND_WAIT", "BARRIER_WAIT", "SEM_WAIT",
            "READ_LOCK", "FILE_LOCK", "SHARED_WAIT", "PIDFD_POLL", "FIFO_OPEN",
            "STOP", "MESSAGE_TAKE"} <= made
    assert len(EVENTS) > 20
