"""Message times: measured between real slaves, and a table of known times on a
golden graph. What is asserted is structure and arithmetic, never how long
anything took.

EVIDENCE-OF: DPM-3 DRO-1 DRO-2 DRO-4 DRO-5"""
import os

import pytest

from test_golden import UNIT, run_golden

ENGINES = ("contract", "central", "cm-async", "cm-sync")


def table(*pairs):
    """(from, to, units a byte): exact at every length up to 100 bytes."""
    lines = ["ips-message-times 1"]
    for a, b, units in pairs:
        lines += [f"pair {a} {b} tcp 2026-01-02T03:04:05Z by hand",
                  "point 0 0", f"point 100 {100 * units * UNIT}"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def pair(cluster):
    return cluster(["m1", "m2"])


def t_max(c, run, *options):
    answers = [c.json("path", run, "--engine", e, *options) for e in ENGINES]
    assert len({a["t_max_ns"] for a in answers}) == 1, options
    return (answers[0]["t_max_ns"] / UNIT,
            answers[0]["certificate"]["message_times"])


def import_table(c, tmp_path, *pairs, words=()):
    file = tmp_path / "times"
    file.write_text(table(*pairs))
    done = c.ipsq("calibrate", "--import", file, *words)
    assert done.returncode == 0, done.stderr


def test_known_times_on_golden_graphs(pair, tmp_path):
    """G1 is 30 + what its message takes. Catches a table that is not used, the
    times of another pair or direction, --mtime that does not go before it, a
    table lost by a restart."""
    c = pair
    split = run_golden(c, "G1", ("A", "B"), [(0, 0), (0, 0)])
    whole = run_golden(c, "G1", (None,), [(0, 0)])
    assert t_max(c, split) == (30, "0 (not calibrated)")
    import_table(c, tmp_path, ("m1", "m2", 1), ("m2", "m1", 7), ("m1", "m1", 2))
    said = "as measured 2026-01-02T03:04:05Z"
    assert t_max(c, split) == (
        34, f"{said} (inside m1, m1 -> m2, m2 -> m1); "
            "assumed: inside m2 as inside m1")
    assert t_max(c, whole) == (38, f"{said} (inside m1)")
    for run, want in ((split, 34), (whole, 38)):
        assert t_max(c, run, "--weighting", "sched")[0] == want
    assert t_max(c, whole, "--mtime", "none")[0] == 30
    assert t_max(c, whole, "--mtime", "0,1000000000")[0] == 34
    # By hand, with the master stopped.
    c.stop_master()
    kept = c.state / "master" / "message-times"
    kept.write_text(kept.read_text().replace(
        f"point 100 {100 * UNIT} ", f"point 100 {300 * UNIT} "))
    c.start_master()
    c.wait_connected()
    assert t_max(c, split)[0] == 42
    # Half of the CPU was the system's: 20 + 12 + 40.
    estimate = c.json("estimate", split, "--system-share", "50%")
    assert estimate["estimate_ns"] == 72 * UNIT
    assert estimate["t_max_ns"] == 42 * UNIT
    assert estimate["compute_ns"] == 60 * UNIT
    assert estimate["message_ns"] == 12 * UNIT
    assert c.json("estimate", split, "--mtime", "none")["estimate_ns"] == \
        30 * UNIT
    # What-if sees the same path.
    assert c.json("whatif", split)["t_max_ns"] == 42 * UNIT
    assert c.ipsq("calibrate", "--forget").returncode == 0
    assert t_max(c, split) == (30, "0 (not calibrated)")


def test_shared_medium(pair, tmp_path):
    """G6: A on m1 sends a and b, each of 2 units, to m2 at 1 and 2; b comes at 5 instead
    of 4, and C, which computes 11 then, ends at 16 instead of 15; 15.5 where half a unit
    of the 2 is latency (0.5 + 0.75 a byte). Would catch an option
    that does not reach the replay, machines mistaken for each other, latency that is
    shared."""
    run = run_golden(pair, "G6", ("A", "BC"), [(0, 0), (0, 0)])
    import_table(pair, tmp_path, ("m1", "m2", 1), ("m2", "m1", 1), ("m2", "m2", 1))
    plain = pair.json("estimate", run)
    assert plain["estimate_ns"] == 15 * UNIT and "unshared_ns" not in plain
    said = pair.json("estimate", run, "--shared-medium")
    assert (said["estimate_ns"], said["unshared_ns"], said["medium_busy_ns"]) == \
        (16 * UNIT, 15 * UNIT, 4 * UNIT)
    assert (said["compute_ns"], said["message_ns"], said["messages"]) == \
        (13 * UNIT, 3 * UNIT, 1)
    said = pair.json("estimate", run, "--shared-medium", "--mtime",
                     "500000000,750000000")
    assert said["estimate_ns"] == 15 * UNIT + UNIT // 2
    # Inside one machine nothing is shared.
    whole = run_golden(pair, "G6", (None,), [(0, 0)])
    assert pair.json("estimate", whole, "--shared-medium", "--mtime",
                     "0,1000000000")["estimate_ns"] == 15 * UNIT


def test_tables_that_are_wrong(pair, tmp_path):
    """The line and the cure are named, and nothing is changed."""
    import_table(pair, tmp_path, ("m1", "m1", 1))
    before = pair.ipsq("calibrate", "--export", "-").stdout
    assert "pair m1 m1 tcp 2026-01-02T03:04:05Z by hand\n" in before
    done = pair.ipsq("calibrate", "--import", "-",
                     typed="ips-message-times 1\npair m1 m2 tcp x\npoint 1\n")
    assert done.returncode == 2
    assert "line 3" in done.stderr and "write `point BYTES NS`" in done.stderr
    for words in (["--show", "--forget"], ["--show", "--rounds", "5"],
                  ["--replace"], ["--lengths", "5,x"], ["--lengths", "9,5"],
                  ["m1", "--show"], ["--show", "--force"]):
        assert pair.ipsq("calibrate", *words).returncode == 2, words
    assert pair.ipsq("calibrate", "m7").returncode == 1
    assert pair.ipsq("calibrate", "--import", "/no/such").returncode == 1
    # The greatest file that is read, and one of a byte more.
    lines = "ips-message-times 1\n" + ("#" + "-" * 126 + "\n") * 65527
    for more, said in ((0, "line 65530"), (1, "more than 8387584 bytes")):
        text = lines + "#" + "-" * (8387584 - len(lines) - 4 + more) + "\nx\n"
        done = pair.ipsq("calibrate", "--import", "-", typed=text)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert pair.ipsq("calibrate", "--export", "-").stdout == before


def check_measured(c, names):
    # With --force, as other work may be done here meanwhile.
    said = c.json("calibrate", "--lengths", "1,4k,100000", "--rounds", "5",
                  "--force")
    assert said["failed"] == []
    assert all(w["ns"] >= 0 and w["machine"] in names for w in said["wakes"])
    assert len(said["wakes"]) == \
        (len(names) if len(os.sched_getaffinity(0)) > 1 else 0)
    assert {p["by"] for p in said["pairs"]} == {"ipsq calibrate --force"}
    pairs = {(p["from"], p["to"], p["over"]) for p in said["pairs"]}
    assert pairs == {(a, b, "tcp") for a in names for b in names} | \
        {(a, a, "unix") for a in names}
    assert len(said["points"]) == 3 * len(pairs)
    for point in said["points"]:
        assert point["bytes"] in (1, 4096, 100000)
        assert 3 <= point["rounds"] <= 5
        assert 0 <= point["low_ns"] <= point["ns"] <= point["high_ns"]
        assert point["cpu_ns"] > 0  # no message is for nothing
    for a, b, over in pairs:
        used = [p["used_ns"] for p in said["points"]
                if (p["from"], p["to"], p["over"]) == (a, b, over)]
        assert used == sorted(used), "longer messages take no less time"
    assert c.json("calibrate", "--show")["points"] == said["points"]


def test_measured_on_one_machine(pair):
    """Two slaves in one network, and each with itself."""
    check_measured(pair, ["m1", "m2"])
    # Of one machine alone: the others stay.
    done = pair.ipsq("calibrate", "m1", "--lengths", "1", "--rounds", "3",
                     "--force")
    assert done.returncode == 0, done.stderr
    left = pair.json("calibrate", "--show")["points"]
    assert len([p for p in left if p["from"] == p["to"] == "m1"]) == 2
    assert len(left) == 2 + 3 * 4
    # Without it a pair is kept and not in doubt, or named.
    assert pair.ipsq("calibrate", "--forget").returncode == 0
    said = pair.json("calibrate", "--lengths", "1", "--rounds", "3",
                     status=(0, 3))
    assert len(said["pairs"]) + len(said["failed"]) == 6
    assert not [p for p in said["pairs"] if p["doubt"]]
    assert all("not kept" in f["failed"] for f in said["failed"])


def test_measured_between_hosts(cluster, hosts):
    """Three hosts with networks of their own: catches an address that only the
    slave itself reaches."""
    names = [h.name for h in hosts]
    c = cluster(names, hosts=hosts)
    check_measured(c, names)
