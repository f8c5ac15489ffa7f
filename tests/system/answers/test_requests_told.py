"""Requests that a program told of: marks and tasks of the API, in runs that are told
to the ns (told.py), so every figure is known.

EVIDENCE-OF: IPS-13."""
import pytest

from told import MS, Lock, Told

PARTS = ("queued", "untaken", "own", "elsewhere", "message", "external")


def order(thread, ns, number=0):
    thread.mark(f"begin order {number}")
    thread.work(ns)
    thread.mark("end order")


def batch(told):
    """Of 200 orders of 5 ms in two threads the last one of each takes 100 ms; and
    of another name in one of them."""
    main = told.root("shop")
    threads = [main.thread("first"), main.thread("second")]
    for thread in threads:
        for i in range(100):
            thread.work(MS)
            order(thread, 5 * MS if i < 99 else 100 * MS, i)
    threads[0].mark("begin bill")
    threads[0].work(7 * MS)
    threads[0].mark("end bill")
    threads[1].mark("begin order never ended")
    threads[1].work(MS)
    for thread in threads:
        thread.end()
        main.join(thread)
    main.end()


def ask(there, *words):
    a = there.json("requests", "r", *words)
    for row in a["slowest"]:
        assert row["ns"] == sum(row[f"{part}_ns"] for part in PARTS), row
    return a


@pytest.mark.quick
def test_marks_of_a_batch(cluster):
    """Would catch brackets that are cut elsewhere than at their marks, of two threads
    mixed up, a rate or a quantile of another count, the slowest not among those
    listed, and marks taken where connections are meant."""
    there = cluster()
    told = Told()
    batch(told)
    told.write(there, "r")
    a = ask(there, "--top", "3")
    services = {s["service"]: s for s in a["services"]}
    assert set(services) == {"/m1 mark order", "/m1 mark bill"}, a
    s = services["/m1 mark order"]
    assert s["requests"] == 200 and s["connections"] == 2
    assert s["processes"] == 1
    assert (s["p50_ns"], s["p99_ns"], s["max_ns"]) == \
        (5 * MS, 5 * MS, 100 * MS)
    assert s["from_ns"] == MS and s["to_ns"] == 100 * MS + (99 * 5 + 100) * MS
    assert s["rate"] == pytest.approx(200e9 / (s["to_ns"] - s["from_ns"]),
                                      rel=1e-3)
    # The slowest of all, longest first: the two of 100 ms, then the bill.
    assert [row["ns"] for row in a["slowest"]] == [100 * MS, 100 * MS, 7 * MS]
    assert {row["most"].rsplit("/", 1)[0] for row in a["slowest"]} == \
        {s["process"]}
    assert all(row["own_ns"] == row["ns"] for row in a["slowest"])
    tail = next(row for row in a["parts"] if row["which"] == "slowest 1%" and
                row["service"] == "/m1 mark order")
    assert tail["requests"] == 2 and tail["own_ns"] == 100 * MS
    assert any("1 requests did not end" in note
               for note in a["certificate"]["notes"]), a["certificate"]
    # By one name; by what there is none of; by what nobody knows.
    assert [s["service"] for s in
            ask(there, "--by", "mark:bill")["services"]] == ["/m1 mark bill"]
    assert ask(there, "--by", "connection")["services"] == []
    for word, status in (("mark:nosuch", 1), ("task", 1), ("mark:", 2),
                         ("mark:two words", 2), ("peer", 2)):
        assert there.ipsq("requests", "r", "--by", word).returncode == status
    first = there.json("why", "r", "--for", "latency")["findings"][0]
    assert first["kind"] == "service-time", first


def test_quantiles(cluster):
    """Two hundred orders, of 1 to 200 ms in another order: by nearest rank. Would catch
    a quantile that is the next rank's. (98 for 99 went unseen until there was this.)"""
    there = cluster()
    told = Told()
    main = told.root("shop")
    for i in range(200):
        order(main, (i * 77 % 200 + 1) * MS)
    main.end()
    told.write(there, "r")
    (s,) = ask(there)["services"]
    assert [s[f"{q}_ns"] // MS for q in ("p50", "p90", "p99", "max")] == \
        [100, 180, 198, 200]


def test_who_a_request_waits_for(cluster):
    """Would catch the time in which another request has the lock counted as its
    own, and a part that another thread did for it not told from its own."""
    there = cluster()
    told = Told()
    main = told.root("shop")
    first, second = main.thread("first"), main.thread("second")
    lock = Lock()
    first.mark("begin order")
    first.locked(lock, 30 * MS)
    first.mark("end order")
    second.work(10 * MS)
    second.mark("begin order")
    second.work(5 * MS)
    second.locked(lock, 20 * MS)   # waits from 15 to 30
    second.mark("end order")
    second.mark("begin order")
    second.sleep(40 * MS)
    second.mark("end order")
    for thread in (first, second):
        thread.end()
        main.join(thread)
    main.end()
    told.write(there, "r")
    rows = ask(there)["slowest"]
    # The second one's path: its own work since 30, before that the first one's.
    assert [(row["ns"], row["own_ns"], row["queued_ns"], row["external_ns"])
            for row in rows] == \
        [(40 * MS, 0, 0, 40 * MS), (40 * MS, 20 * MS, 20 * MS, 0),
         (30 * MS, 30 * MS, 0, 0)], rows
    assert rows[1]["behind_arrival_ns"] == 0
    assert rows[1]["behind_took_ns"] == 30 * MS


def test_what_the_slowest_have(cluster):
    """Two of 200 orders sleep, and all of them read. Would catch what the slowest
    have in common with the median told as what they have more, and another cause
    or thread than theirs."""
    there = cluster()
    told = Told()
    main = told.root("shop")
    for i in range(200):
        main.mark("begin order")
        main.work(2 * MS)
        main.read(4 * MS)
        if i in (70, 140):
            main.sleep(90 * MS)
        main.mark("end order")
    main.end()
    told.write(there, "r")
    a = ask(there, "--top", "2")
    assert [row["ns"] for row in a["slowest"]] == [96 * MS, 96 * MS]
    more = a["more"][0]
    assert (more["cause"], more["slow_ns"], more["median_ns"]) == \
        ("timer", 90 * MS, 0), a["more"]
    assert len(a["more"]) == 1, a["more"]
    why = there.json("why", "r", "--for", "latency")
    tail = next(f for f in why["findings"] if f["kind"] == "slow-requests")
    assert "waiting (timer)" in tail["evidence"], tail
    assert tail["object"].startswith(a["services"][0]["process"])


def test_plain_marks_and_tasks(cluster):
    """Would catch a mark that begins the next request and does not end the one
    before, and tasks that are not whole."""
    there = cluster()
    told = Told()
    main = told.root("loop")
    for ns in (3 * MS, 4 * MS, 5 * MS):
        main.mark("step")
        main.work(ns)
    main.mark("step")
    for ns in (10 * MS, 20 * MS):
        task = main.task("job")
        task.work(ns)
        task.end()
    main.end()
    told.write(there, "r")
    assert ask(there)["services"] == []
    rows = ask(there, "--by", "mark:step")["slowest"]
    assert [row["ns"] for row in rows] == [5 * MS, 4 * MS, 3 * MS]
    a = ask(there, "--by", "task:job")
    assert a["services"][0]["service"] == "/m1 task job"
    assert [row["ns"] for row in a["slowest"]] == [20 * MS, 10 * MS]
    assert [s["service"] for s in ask(there, "--by", "task")["services"]] == \
        ["/m1 task job"]
