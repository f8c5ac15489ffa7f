"""`ipsq why` of locks: those inside the C library, those that are held briefly
and taken often, and where a lock is held (tests/programs/why/locks.c). How much
threads contend depends on the machine's load; so what is expected is taken from
the samples of the same run.

EVIDENCE-OF: IPS-17."""
import os

import pytest

WAKES = ("lll_lock_wake", "lll_lock_wait", "futex_wa")


def ask(cluster, build, kind):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("on one core the threads take turns")
    c = cluster()
    c.ipsrun([build.program("why-locks"), kind], name="r", check=True,
             options=["--procedures=sample", "--rate", "1"])
    c.wait_closed("r")
    answer = c.json("why", "r", status=(0, 3))
    rows = c.json("procedures", "r", status=(0, 3))["procedures"]
    cpu = sum(r["self_ns"] for r in rows)
    proof = sum(r["self_ns"] for r in rows
                if any(w in r["procedure"] for w in WAKES))
    locks = [f for f in answer["findings"] if f["kind"] == "lock-contention"]
    return answer, locks, proof / cpu if cpu else 0


@pytest.mark.parametrize("kind", ["brief", "rand", "putc"])
def test_contended(cluster, build, kind):
    """Would catch a lock whose waits are short or inside the C library that is
    not said although threads were woken for it for a fifth of the CPU time; the
    library's functions for locks called hot instead; a place that never holds
    the lock named as its holder."""
    answer, locks, proof = ask(cluster, build, kind)
    if kind == "brief":
        assert {f["procedure"] or "" for f in locks} <= {"count_one", ""}, answer
    if proof < (0.1 if kind == "brief" else 0.2):
        pytest.skip("the threads hardly contended: %.0f%%" % (100 * proof))
    assert len(locks) == 1, answer
    f = locks[0]
    assert f["gain_share"] >= proof / 2 or f["sure"] == "low", (proof, answer)
    assert f["sure"] != "high", answer
    assert "lll_" not in f["says"] + f["evidence"], answer
    assert not [x for x in answer["findings"] if x["kind"] == "procedure"
                and ("lll_" in x["says"] or "futex" in x["says"])], answer
    if kind != "brief":
        assert "inside the C library" in f["says"], answer
        assert f["wait_procedure"] == "one_turn", answer


def test_not_contended(cluster, build):
    """Would catch the cost of mutexes that nobody else wants said to be
    contention."""
    answer, locks, proof = ask(cluster, build, "alone")
    assert proof < 0.01 and locks == [], answer


def test_holder_is_not_where_it_worked_before(cluster, build):
    """Would catch a lock said to be held in what its holder did before it took
    the lock."""
    answer, locks, _ = ask(cluster, build, "long")
    if not locks:
        pytest.skip("the threads hardly contended")
    assert [f for f in locks if f["procedure"] == "work_outside"] == [], answer


def test_sleeping_with_a_lock(cluster, build):
    """Would catch a finding about a lock that gains more than it is said to rest on, since
    threads sleep while they have it; the lock said to be held where its holder worked
    before."""
    answer, locks, _ = ask(cluster, build, "nap")
    assert not answer["certificate"]["gaps"], answer
    assert [f["procedure"] for f in locks] == ["hold_asleep"], answer
    assert locks[0]["gain_ns"] <= locks[0]["path_ns"], answer


def test_a_thread_that_yields_spins(cluster, build):
    """Would catch a thread that calls sched_yield() until a variable changes
    said to spend its time in the C library, without who calls it, or said so
    without doubt."""
    answer, _, _ = ask(cluster, build, "yield")
    if not any("sched_yield" in f["says"] for f in answer["findings"]):
        pytest.skip("the threads hardly met")
    said = [f for f in answer["findings"] # few samples may not show who called it
            if "sched_yield" in f["says"] and f["gain_share"] > 0.1]
    for f in said:
        assert f["procedure"] == "await_yielding", answer
        assert "spins in await_yielding" in f["says"], answer
        assert f["sure"] != "high", answer


@pytest.mark.parametrize("kind, where", [("poll", "await_polling"), ("flag", "await_flag")])
def test_a_thread_that_reads_memory_spins(cluster, build, kind, where):
    """Would catch a thread that reads a variable until it changes said to work, or
    said to spin without doubt: a global variable, and one on the thread's stack."""
    answer, _, _ = ask(cluster, build, kind)
    said = [f for f in answer["findings"] if where in f["says"]]
    for f in said:
        assert f"spins in {where}" in f["says"], answer
        assert "reads memory" in f["says"] and f["sure"] != "high", answer
    assert not [f for f in answer["findings"]
                if "spins in hold_long" in f["says"]], answer
    if not said:
        pytest.skip("the threads hardly met")
