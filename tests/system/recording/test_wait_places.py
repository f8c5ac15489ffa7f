"""Shows "ipsq waits": where threads waited, for what, and whose doing it was,
along chains of waits, on one machine and on two; idle time of machines to the
last ns. Programs in which every wait is known (tests/programs/interposed/i_waits.c): nobody
goes on before the other sleeps. EVIDENCE-OF: IPS-15
"""
import collections

import pytest

SAMPLED = ("--rate", "1")
BYS = ("place", "cause", "peer", "process", "thread")


def check_sums(a):
    """Groups are the whole, blame is each group, causes are the whole, and a
    machine's cores are accounted for."""
    assert sum(g["total_ns"] for g in a["waits"]) + a["left_out_ns"] == \
        a["total_ns"]
    assert sum(c["ns"] for c in a["causes"]) == a["total_ns"]
    assert sum(c["count"] for c in a["causes"]) == a["wait_count"]
    blame = collections.Counter()
    for row in a["blame"]:
        blame[row["group"]] += row["ns"]
    assert [blame[i] for i in range(len(a["waits"]))] == \
        [g["total_ns"] for g in a["waits"]]
    for g in a["waits"]:
        assert g["longest_ns"] <= g["total_ns"] and g["count"] > 0
        assert g["mean_ns"] == g["total_ns"] // g["count"]
    for m in a["machines"]:
        assert sum(r["ns"] for r in a["idle"]
                   if r["machine"] == m["machine"]) == \
            m["cores"] * m["elapsed_ns"]
    assert a["cut_ns"] == 0


def waits(c, *words):
    a = c.json("waits", "r", *words)
    check_sums(a)
    return a


def measure(c, *argv):
    program = c.build.program("i_waits")
    c.ipsrun([program, *argv], name="r", options=SAMPLED, check=True)
    c.wait_closed("r")
    return waits(c)


def at(a, procedure):
    """The one group of a place, and its blame by (kind, procedure or cause)."""
    (number,) = [i for i, g in enumerate(a["waits"])
                 if g["procedure"] == procedure]
    blame = collections.Counter()
    objects = collections.defaultdict(set)
    for row in a["blame"]:
        if row["group"] == number:
            what = row["procedure"] or row["cause"]
            blame[row["kind"], what] += row["ns"]
            objects[what].add(row["object"])
    return a["waits"][number], blame, objects


def blocked(c):
    """T_wait by cause, as the metrics have it."""
    rows = c.json("metrics", "r", "--level", "run")["waits"]
    return {row["cause"]: (row["ns"], row["count"]) for row in rows}


def test_a_chain_of_waits(cluster):
    """main waits for middle, which waits for late, which computes and sleeps.
    Would catch: a place or peer that is another, blame that ends at the first
    thread, that falls on who only waited, or does not add up; waits that are
    not those of the metrics."""
    c = cluster()
    a = measure(c, "chain")
    answer, blame, objects = at(a, "await_answer")
    order, order_blame, _ = at(a, "await_order")
    assert answer["cause"] == order["cause"] == "peer"
    assert answer["late"] == order["late"] == "sender"
    assert answer["file"].endswith("i_waits.c") and answer["line"] > 0
    assert answer["peer"] == order["object"]
    assert order["peer"] not in (order["object"], answer["object"], None)
    assert blame["computing", "work_late"] > 0
    assert blame["computing", "work_middle"] > 0
    assert ("computing", "work_middle") not in order_blame
    assert order_blame["computing", "work_late"] > 0
    assert objects["work_late"] == {order["peer"]}
    assert objects["work_middle"] == {answer["peer"]}
    rest, _, _ = at(a, "rest_late")
    assert rest["cause"] == "timer" and rest["peer"] is None
    assert {row["cause"]: (row["ns"], row["count"]) for row in a["causes"]} \
        == blocked(c)
    # However they are put together, it is the same.
    for by in BYS:
        other = waits(c, "--by", by)
        for key in ("total_ns", "causes", "idle", "late_sender_ns"):
            assert other[key] == a[key], (by, key)
    by_peer = waits(c, "--by", "peer")
    for grouped, what in ((by_peer, "peer"), (waits(c, "--by", "cause"), "cause")):
        names = [row[what] for row in grouped["waits"]]
        assert len(names) == len(set(names)), "a group for each wait"
    assert {answer["peer"], order["peer"], None} <= \
        {g["peer"] for g in by_peer["waits"]}


def test_choosing_and_ordering(cluster):
    """Would catch: waits of others, an order that is another, groups left out
    and not said, windows that lose or double a ns."""
    c = cluster()
    a = measure(c, "chain")
    answer, _, _ = at(a, "await_answer")
    one = waits(c, "--object", answer["object"])
    assert one["waits"][0] == dict(answer, share=one["waits"][0]["share"])
    assert {g["object"] for g in one["waits"]} == {answer["object"]}
    assert waits(c, "--object", "/m?/i_waits/*")["total_ns"] == a["total_ns"]
    here = waits(c, "--object", "/*/*/*/await_*")
    assert {g["procedure"] for g in here["waits"]} == \
        {"await_answer", "await_order"}
    assert c.ipsq("waits", "r", "--object", "/m1/nobody").returncode == 1
    top = waits(c, "--top", 1)
    assert len(top["waits"]) == 1 and top["group_count"] == len(a["waits"])
    assert top["left_out_ns"] == sum(g["total_ns"] for g in a["waits"][1:])
    for column in ("total_ns", "count", "longest_ns", "mean_ns"):
        for sign in ("", "-"):
            got = [g[column] for g in
                   waits(c, f"--sort={sign}{column}")["waits"]]
            assert got == sorted(got, reverse=not sign)
    for wrong in (("--by", "procedure"), ("--sort", "peer")):
        assert c.ipsq("waits", "r", *wrong).returncode == 2
    stacks = waits(c, "--stacks")
    stack = at(stacks, "await_answer")[0]["stack"]
    assert any(frame.startswith("chain (") for frame in stack)
    assert not any(g["stack"] for g in a["waits"])
    middle = a["machines"][0]["elapsed_ns"] // 2
    parts = [waits(c, "--to", f"{middle}ns"), waits(c, "--from",
                                                    f"{middle}ns")]
    assert sum(p["total_ns"] for p in parts) == a["total_ns"]
    table = c.ipsq("waits", "r").stdout
    assert "await_answer (i_waits.c:" in table and "MEANWHILE" in table


def test_a_full_pipe_has_a_late_receiver(cluster):
    """Would catch: the sender blamed for what the receiver did not take."""
    c = cluster()
    a = measure(c, "pour")
    pour, blame, objects = at(a, "pour")
    assert pour["late"] == "receiver" and pour["cause"] == "peer"
    assert pour["peer"] != pour["object"]
    assert blame["computing", "work_late"] > 0
    assert objects["work_late"] == {pour["peer"]}
    assert a["late_receiver_ns"] >= pour["total_ns"]


def test_a_lock_and_a_disk(cluster):
    """Would catch: a lock's wait not blamed on what its holder did, waits for a
    disk behind another's taken for work."""
    c = cluster(("m1",))
    a = measure(c, "lock")
    lock, blame, objects = at(a, "take_lock")
    assert lock["cause"] == "lock" and lock["late"] is None
    assert lock["peer"] == lock["object"]  # another thread of it
    assert blame["computing", "work_late"] > 0


def test_a_child_whose_signal_is_handled(cluster):
    """Shells wait so: SIGCHLD comes within the wait. Would catch: the sleep that
    the signal's node has lost to the wait, which then is nobody's doing."""
    c = cluster()
    a = measure(c, "reap")
    child, blame, objects = at(a, "await_child")
    assert child["cause"] == "child"
    assert child["peer"] != child["object"]
    assert blame["computing", "work_late"] > 0
    assert objects["work_late"] == {child["peer"]}


def test_over_two_machines(cluster, tmp_path):
    """The asker on one machine waits for the server on the other. Would catch:
    peers that are lost between machines, clocks compared and not said."""
    c = cluster(("m1", "m2"))
    program, pid = c.build.program("i_waits"), tmp_path / "pid"
    server = c.popen([program, "serve", pid], name="r", options=SAMPLED,
                     machine=1, stdout=-1, text=True)
    port = server.stdout.readline().strip()
    c.ipsrun([program, "ask", port, pid], join="r", machine=0,
             options=SAMPLED, check=True)
    assert server.wait(120) == 0
    c.wait_closed("r", machines=2)
    a = waits(c)
    answer, blame, objects = at(a, "await_answer")
    assert answer["object"].startswith("/m1/")
    assert answer["peer"].startswith("/m2/") and answer["late"] == "sender"
    assert blame["computing", "work_late"] > 0
    assert objects["work_late"] == {answer["peer"]}
    assert "aligned" in a["clock"]
    assert [m["machine"] for m in a["machines"]] == ["m1", "m2"]
    assert len({m["elapsed_ns"] for m in a["machines"]}) == 1


def test_a_run_without_waits(cluster):
    """Would catch: an answer that fails where there is nothing to say."""
    c = cluster()
    c.ipsrun(["/bin/true"], name="r", check=True)
    c.wait_closed("r")
    a = waits(c)
    assert a["total_ns"] == sum(g["total_ns"] for g in a["waits"])
    assert a["idle"]
