"""A lock, and a link, are named as what bounds a service, in runs that are told to
the ns (told.py): each has by far the greatest demand of a request, and the bound is
that of it.

EVIDENCE-OF: IPS-13."""
import pytest

from told import MS, Lock, Told

CALIBRATED = """ips-message-times 1
pair m1 m2 tcp 2026-11-22T07:30:00Z by hand
point 1 1000
point 100001 20001000
pair m2 m1 tcp 2026-11-22T07:30:00Z by hand
point 1 1000
point 100001 10001000
"""


def first(answer):
    return next(s for s in answer["stations"] if s["kind"] != "client")


@pytest.mark.quick
def test_a_lock_bounds_it(cluster):
    """Four threads, each with a client, work 10 ms of each request with one lock and
    2 ms without. Would catch a lock that is no station, or whose demand is not
    how long it was held; threads, each a quarter of it, before it."""
    there = cluster()
    told = Told(cores=4)
    main = told.root("server")
    lock, workers = Lock(), []
    for i in range(4):
        client = main.fork("client")
        worker = main.thread("worker")
        workers.append((worker, client, *client.connect(worker)))
    for _ in range(50):
        for worker, client, near, far in sorted(workers,
                                                key=lambda w: w[1].now):
            far.receive(100, near.send(100))
            worker.work(2 * MS)
            worker.locked(lock, 10 * MS)
            near.receive(200, far.send(200))
    for worker, client, _, _ in workers:
        for thread in (worker, client):
            thread.end()
            main.join(thread)
    main.end()
    told.write(there, "r")
    a = there.json("bottleneck", "r")
    s = first(a)
    assert s["kind"] == "lock" and "/m1/server." in s["station"], a["stations"]
    # Held for nobody at the very begin and end alone.
    assert s["demand_ns"] == pytest.approx(10 * MS, rel=0.03)
    assert a["bound"] == s["bound"] == pytest.approx(100, rel=0.03)
    assert a["rate"] == pytest.approx(a["bound"], rel=0.05)
    why = there.json("why", "r", "--for", "throughput")["findings"][0]
    assert why["kind"] == "bottleneck" and why["object"] == s["station"]


@pytest.mark.quick
@pytest.mark.parametrize("how", ["asked for", "measured"])
def test_a_link_bounds_it(cluster, tmp_path, how):
    """A server on another machine answers with 100 kB, of which a byte takes 100
    ns. Would catch a link that is no station, the wrong way of it, one of a window
    that has other requests' bytes, one that goes by the other way's measured times, or by 1 ns a byte where they are measured."""
    there = cluster(["m1", "m2"])
    told = Told(cores=2)
    client = told.root("client")
    server = told.root("server", machine=1)
    near, far = client.connect(server)
    for _ in range(50):
        far.receive(1000, near.send(1000), 100_000)
        server.work(MS)
        near.receive(100_000, far.send(100_000), 10 * MS)
    client.end()
    server.end()
    told.write(there, "r")
    words = ("--mtime", "0+100ns")
    if how == "measured":
        (tmp_path / "times").write_text(CALIBRATED)
        done = there.ipsq("calibrate", "--import", tmp_path / "times")
        assert done.returncode == 0, done.stderr
        words = ()
    a = there.json("bottleneck", "r", *words, status=(0, 3))
    s = first(a)
    assert (s["kind"], s["station"]) == ("link", "/m2 -> /m1"), a["stations"]
    assert s["demand_ns"] == pytest.approx(10 * MS, rel=0.001)
    assert a["bound"] == pytest.approx(100, rel=0.001)
    back = next(s for s in a["stations"] if s["station"] == "/m1 -> /m2")
    assert back["demand_ns"] == pytest.approx(
        200_000 if how == "measured" else 100_000, rel=0.001)
    # Of a window: the requests that arrive in it, each with all of its bytes.
    for ends in (("--from", "111ms", "--to", "333ms"), ("--from", "1ns")):
        part = there.json("bottleneck", "r", *words, *ends, status=(0, 3))
        assert first(part)["station"] == "/m2 -> /m1", part
        assert first(part)["demand_ns"] == pytest.approx(10 * MS, rel=0.001)
    # From the first arrival to the last answer; the way back of that one is not
    # in it.
    assert a["rate"] == pytest.approx(50e9 / (50 * 11.1 * MS - 10.1 * MS),
                                      rel=1e-6)
