"""`ipsq why` of a window or a phase: each finding is of what lies in it, as if all
else of the run took no time. Runs whose times are told to the ns (told.py), so
that nothing depends on how busy the machine is.

EVIDENCE-OF: IPS-16, IPS-17."""
import re
import shlex

import pytest

from test_shell import Terminal
from told import CODE, MS, US, Lock, Told

# The parts of the run, one after the other.
ENDS = {"uneven": (0, 1000), "asleep": (1000, 1600), "locked": (1600, 2400),
        "alone": (2400, 3000)}
KIND = {"uneven": ["load-imbalance"], "asleep": ["outside"],
        "locked": ["lock-contention"], "alone": []}


def window(part):
    begin, end = ENDS[part]
    return ("--from", f"{begin}ms", "--to", f"{end}ms")


def write(cluster):
    """Each problem in a part of its own."""
    told = Told(cores=2)
    main = told.root("main")
    workers = [main.fork("worker") for _ in range(2)]
    workers[0].work(1000 * MS)
    workers[1].work(50 * MS)
    for child in workers:
        child.end()
        main.join(child)
    main.sleep(600 * MS)
    lock = Lock()
    threads = [main.thread("clerk") for _ in range(2)]
    for _ in range(40):
        for thread in threads:
            thread.work(100)
            thread.locked(lock, 10 * MS - 100)
    for thread in threads:
        thread.end()
        main.join(thread)
    main.until(3000 * MS)
    main.end()
    there = cluster()
    told.write(there, "r")
    return there


@pytest.mark.quick
def test_each_part_has_its_finding(cluster):
    """Would catch a finding of what lies outside of the window, or none of what
    lies in it; shares of the whole run; windows that have time of each other. (Seen to fail
    with sleeps and what crosses threads not cut.)"""
    there = write(cluster)
    whole = there.json("why", "r", status=(0, 3))
    assert (whole["from_ns"], whole["to_ns"], whole["phase"]) == (None,) * 3
    waits = {}
    for part, (begin, end) in ENDS.items():
        a = there.json("why", "r", *window(part), status=(0, 3))
        assert [f["kind"] for f in a["findings"]] == KIND[part], (part, a)
        assert (a["from_ns"], a["to_ns"]) == (begin * MS, end * MS)
        assert a["wall_ns"] == pytest.approx((end - begin) * MS, abs=MS)
        waits[part] = a
    for key in ("wall_ns", "on_cpu_ns", "outside_ns", "total_cpu_ns"):
        # A lock's turn begins a little before its window's edge.
        assert sum(a[key] for a in waits.values()) == \
            pytest.approx(whole[key], abs=MS), key


@pytest.mark.quick
def test_cpu_is_cut_where_the_samples_were(cluster):
    """One arc of 600 ms: a quarter on a core up to 400, all of it from then on, in
    another procedure; between two samples it is even. Would catch CPU time that is spread evenly over an arc, a
    sample that is counted in two windows side by side, or in none, or as what it
    is not part of; a procedure of another window (which failed until the samples
    of a window divided its CPU time)."""
    told = Told(cores=2)
    main = told.root("main")
    told.code(main)
    for _ in range(100):
        main.queue(3 * MS)
        main.work(MS, CODE)
    for _ in range(200):
        main.work(MS, CODE + 16)
    main.end()
    there = cluster()
    told.write(there, "r")

    def cpu(begin, end):
        a = there.json("why", "r", "--from", f"{begin}ns", "--to", f"{end}ns",
                       status=(0, 3))
        names = [f["procedure"] for f in a["findings"]
                 if f["kind"] == "procedure"]
        assert a["on_cpu_ns"] == a["total_cpu_ns"], a
        return a["on_cpu_ns"], [int(n.rsplit("x")[1], 16) for n in names]
    early, late = CODE, CODE + 16
    for begin, end, ns, where in (
            (0, 400 * MS, 100 * MS, [early]), (400 * MS, 600 * MS, 200 * MS, [late]),
            (0, 200 * MS, 50 * MS, [early]), (200 * MS, 500 * MS, 150 * MS,
                                             [late, early]),
            (2 * MS, 3 * MS, 250 * US, [early]),
            (500 * MS, 500 * MS + 250 * US, 250 * US, [late])):
        assert cpu(begin, end) == (ns, where), (begin, end, cpu(begin, end))


@pytest.mark.quick
def test_a_wait_begins_where_it_began(cluster):
    """A file is read for 1 ms and the thread then waits 50 ms for a core. Would
    catch a wait that is counted back from its end, before the call began (which
    rested a finding on all of the window), and a window whose answer does not
    check itself."""
    told = Told(cores=2)
    main = told.root("main")
    for _ in range(10):
        main.read(3 * MS)
        main.work(3 * MS)
    main.queue(0)
    main.read(51 * MS)
    main.delayed += 50 * MS
    main.queue(0)
    main.work(10 * MS)
    main.end()
    there = cluster()
    told.write(there, "r")
    for begin, waits in ((0, 35), (6, 32), (36, 17)):
        a = there.json("why", "r", "--from", f"{begin}ms", "--to", "65ms",
                       status=(0, 3))
        assert not a["certificate"]["gaps"], a
        assert a["wall_ns"] == (65 - begin) * MS
        assert a["own_ns"] <= a["wall_ns"]
        [reads] = [f for f in a["findings"] if f["kind"] == "outside"]
        assert reads["path_ns"] == waits * MS, a


def test_phases_and_commands(cluster):
    """Would catch a phase that is another window than the one of `ipsq phases`,
    one whose answer does not say so, and a command that shows more of something
    else than the window, or that ipsq does not take."""
    there = write(cluster)
    rows = there.json("phases", "r")["phases"]
    for row in rows:
        n = row["phase"]
        a = there.json("why", "r", "--phase", n, status=(0, 3))
        assert a["phase"] == n
        assert [a["from_ns"], a["to_ns"]] == [row["from_ns"], row["to_ns"]]
        for f in a["findings"]:
            assert f["command"].endswith(f"--phase {n}") or \
                f" --phase {n} " in f["command"], f
            done = there.ipsq(*shlex.split(f["command"])[1:])
            assert done.returncode in (0, 3), (f["command"], done.stderr)
        text = there.ipsq("why", "r", "--phase", n).stdout
        assert f"phase {n}, " in text
    for part in ENDS:
        for f in there.json("why", "r", *window(part), status=(0, 3))["findings"]:
            assert f" --to {ENDS[part][1] * MS}ns" in f["command"], f
            done = there.ipsq(*shlex.split(f["command"])[1:])
            assert done.returncode in (0, 3), (f["command"], done.stderr)
    for words, code, says in ((("--from", "9s"), 1, "the path of run r has nothing"),
                              (("--phase", 99), 1, "no phase 99"),
                              (("--from", "2s", "--to", "1s"), 2, "must be before")):
        done = there.ipsq("why", "r", *words)
        assert done.returncode == code and says in done.stderr, done.stderr


def test_the_focus_of_the_shell(cluster):
    """Would catch `why` or `graph` at the prompt that are not of the phase, or the
    window, that it is about."""
    t = Terminal(write(cluster))
    t.until("ipsq> ")
    t.ask("run r", "ipsq r> ")
    t.ask("zoom phase 2", "ipsq r@phase 2> ")
    assert "phase 2, " in t.ask("why", "ipsq r@phase 2> ")
    assert re.search("(?m)^phase +2", t.ask("graph", "ipsq r@phase 2> "))
    t.ask("zoom 1s..2s", "ipsq r@1s..2s> ")
    assert re.search(r"window to +2\.000 s", t.ask("why", "ipsq r@1s..2s> "))
    t.ask("up", "ipsq r> ")
    assert "of this window" not in t.ask("why", "ipsq r> ")
    assert t.end("quit\n") == 0
