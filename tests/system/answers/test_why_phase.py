"""`ipsq why` names a phase that dominates and is of another kind than the rest, in
runs whose phases are told to the ns (told.py), so that nothing depends on how busy
the machine is. The rule itself: tests/unit/master/test_why.c.

EVIDENCE-OF: IPS-16, IPS-17."""
import pytest

from told import MS, Told

KINDS = {"phase", "outside", "load-imbalance"}


def reading(main, ns):
    """The start: one thread, in steps that others see."""
    for _ in range(20):
        main.work(ns // 20)
        main.mark("chunk")


def both(main, *each):
    children = []
    for ns in each:
        child = main.fork("worker")
        child.work(ns)
        child.end()
        children.append(child)
    for child in children:
        main.join(child)


def ask(cluster, told):
    there = cluster()
    told.write(there, "r")
    a = there.json("why", "r", status=(0, 3))
    return there, a, {f["kind"]: f for f in a["findings"]}


@pytest.mark.quick
def test_a_serial_phase_is_named(cluster):
    """Would catch a phase that is not seen or another one named, a window that is
    not that of `ipsq phases`, a gain that is not its path at the others' cores,
    and a command that shows something else."""
    told = Told(cores=2)
    main = told.root("main")
    reading(main, 600 * MS)
    both(main, 400 * MS, 400 * MS)
    main.end()
    there, a, found = ask(cluster, told)
    assert [f["kind"] for f in a["findings"]] == ["phase"], a
    phase = found["phase"]
    assert phase["phase"] == 1 and phase["object"].startswith("/m1/main"), a
    rows = there.json("phases", "r")["phases"]
    assert [phase["from_ns"], phase["to_ns"]] == \
        [rows[0]["from_ns"], rows[0]["to_ns"]]
    bin_ns = 2 * MS  # 1 s in 512 bins
    assert phase["from_ns"] == 0
    assert abs(phase["to_ns"] - 600 * MS) <= 2 * bin_ns
    # Of 1 s; two cores instead of one in 600 ms of it.
    assert abs(phase["gain_ns"] - 300 * MS) <= 4 * bin_ns, phase
    assert phase["command"].endswith("--phase 1")
    assert there.ipsq(*phase["command"].split()[1:]).returncode in (0, 3)


def test_a_healthy_run_has_none(cluster):
    """Would catch a false alarm: two processes with equal work, a short start and
    a short end; another of phases that differ in their messages alone."""
    told = Told(cores=2)
    main = told.root("main")
    reading(main, 30 * MS)
    both(main, 500 * MS, 500 * MS)
    reading(main, 30 * MS)
    main.end()
    _, a, _ = ask(cluster, told)
    assert a["findings"] == [], a


def test_one_core_has_none(cluster):
    """Would catch a gain of cores that are not there."""
    told = Told(cores=1)
    main = told.root("main")
    reading(main, 600 * MS)
    both(main, 400 * MS, 400 * MS)
    main.end()
    _, _, found = ask(cluster, told)
    assert "phase" not in found, found


@pytest.mark.parametrize("other", ["outside", "load-imbalance"])
def test_beside_another_problem(cluster, other):
    """Would catch one that hides the other; or a phase that only says what the
    finding of its waits, or of its workers, says already."""
    told = Told(cores=2)
    main = told.root("main")
    reading(main, 1000 * MS)
    if other == "outside":
        both(main, 400 * MS, 400 * MS)
        main.sleep(500 * MS)
    else:
        both(main, 400 * MS, 400 * MS)
        both(main, 900 * MS, 50 * MS)
    main.end()
    _, a, found = ask(cluster, told)
    assert set(found) == {"phase", other}, a
    assert found["phase"]["phase"] == 1, a
