"""Shows "what changed between two runs, and which change explains the
difference in time": on runs whose records a program wrote with made-up clocks
(tests/programs/phase_pool.c), so that the difference is known to the ns."""
import subprocess

import pytest

from test_cells import signed, tables_in, time_text

MS = 1_000_000
# How much longer m1 computes, in ns: five runs each side, with some noise.
FIRST = [0, 310_000, 120_000, 505_000, 260_000]
SECOND = [20 * MS + more for more in (190_000, 15_000, 420_000, 333_000, 90_000)]


@pytest.fixture(scope="module")
def runs(build):
    """A cluster of two machines with runs a1 to a5 and b1 to b5."""
    from conftest import Cluster
    there = Cluster(build, ("m1", "m2"))
    for side, all_more in (("a", FIRST), ("b", SECOND)):
        for number, more in enumerate(all_more, 1):
            for which, machine in enumerate(there.machines, 1):
                subprocess.run(
                    [build.program("phase_pool"), machine.pool,
                     f"{side}{number}", str(which), "0", str(more)], check=True)
    for side in "ab":
        for number in range(1, 6):
            there.wait_closed(f"{side}{number}", machines=2)
    yield there
    there.close()


def change(row):
    assert row["longer_ns"] == 0 or row["shorter_ns"] == 0
    return row["longer_ns"] - row["shorter_ns"]


def test_two_runs(runs):
    """Would catch parts that do not add up to the difference, a part that is
    somebody else's, and a cause named of two runs."""
    a = runs.json("diff", "a1", "b1")
    t_max = [runs.json("path", run, "--weighting", "wall")["t_max_ns"]
             for run in ("a1", "b1")]
    total = change(a)
    assert total == t_max[1] - t_max[0]
    # Clocks are aligned within 5 us; all else is what m1 computed longer.
    assert abs(total - SECOND[0]) < 20_000
    for parts in "path", "processes":
        assert sum(change(row) for row in a[parts]) == total
        assert not any(row["cause"] for row in a[parts])
    top = a["processes"][0]
    assert (top["kind"], top["name"]) == ("process", "/m1/talker")
    assert abs(change(top) - SECOND[0]) < 20_000
    assert a["p"] is None and not a["differ"]
    assert "fewer than 5 runs" in a["verdict"]
    figures = {row["figure"]: row for row in a["figures"]}
    assert figures["messages"]["first"] == figures["messages"]["second"] == 20001
    back = runs.json("diff", "b1", "a1")
    assert change(back) == -total


@pytest.mark.quick
def test_sets_of_runs(runs):
    """Would catch a cause that is not found with five runs a side, one that is
    named with four, and one between runs that are alike."""
    first = [f"a{n}" for n in range(1, 6)]
    second = [f"b{n}" for n in range(1, 6)]
    a = runs.json("diff", ",".join(first), ",".join(second))
    assert a["differ"] and a["p"] == pytest.approx(2 / 252)
    causes = [row["name"] for row in a["processes"] if row["cause"]]
    assert causes == ["/m1/talker"]
    mean = (sum(SECOND) - sum(FIRST)) / 5
    assert abs(change(a) - mean) < 20_000
    assert sum(change(row) for row in a["path"]) == change(a)
    top = a["processes"][0]
    assert top["low_ns"] <= change(top) <= top["high_ns"]
    fewer = runs.json("diff", ",".join(first), ",".join(second[:4]))
    assert not fewer["differ"]
    assert not any(row["cause"] for row in fewer["path"] + fewer["processes"])
    text = runs.ipsq("diff", ",".join(first), ",".join(second)).stdout
    rows = {(cells[0], cells[1]): dict(zip(titles, cells))
            for titles, lines in tables_in(text) if "CHANGE" in titles
            for cells in lines}
    for part in a["path"] + a["processes"]:
        row = rows[part["kind"], part["name"]]
        assert row["CHANGE"] == signed(time_text, part["first_ns"], part["second_ns"])
        assert row["CAUSE"] == ("yes" if part["cause"] else "no")
    assert rows["process", "/m1/talker"]["CAUSE"] == "yes"
    line = text.splitlines()[0]
    assert line.split() == ["critical", "path", *signed(time_text, 0, change(a)).split()]


def test_windows(runs):
    """The second side computes longer in its first phase, and nowhere else. Would
    catch a difference of the whole runs, or a cause, in a window that has none of
    it; a phase that is not each run's own; parts that are not of the window."""
    first, second = (",".join(f"{side}{n}" for n in range(1, 6)) for side in "ab")
    length = {run: [p["length_ns"] for p in runs.json("phases", run)["phases"]]
              for run in (*first.split(","), *second.split(","))}
    for phase in range(1, 5):
        a = runs.json("diff", "a1", "b1", "--phase", phase)
        # In `wall` a window has as much of the path as it is long.
        want = length["b1"][phase - 1] - length["a1"][phase - 1]
        assert a["phase"] == phase and abs(change(a) - want) < 20_000, phase
        for parts in "path", "processes":
            assert sum(change(row) for row in a[parts]) == change(a)
        for run in a["runs"]:
            assert abs(run["path_ns"] - length[run["run"]][phase - 1]) < 20_000
    a = runs.json("diff", first, second, "--phase", 1)
    assert [r["name"] for r in a["processes"] if r["cause"]] == ["/m1/talker"]
    # Of the first 100 ms all have as much, and of the same.
    a = runs.json("diff", first, second, "--to", "100ms", "--top", 1)
    assert change(a) == 0 and not a["differ"]
    assert (a["phase"], a["from_ns"], a["to_ns"]) == (None, None, 100 * MS)
    assert not any(r["cause"] for r in a["path"] + a["processes"] + a["cpu"])
    whole = runs.json("diff", first, second, "--to", "100ms")
    for parts in "path", "processes", "cpu":
        assert len(a[parts]) == min(1, len(whole[parts]))
        assert a[f"{parts}_left_out"] == max(0, len(whole[parts]) - 1)
    for words, said in ((("--phase", 9), "no phase 9"),
                        (("--from", "9s"), "the path of run a1 has nothing")):
        done = runs.ipsq("diff", "a1", "b1", *words)
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_why_of_several_runs(runs):
    """Would catch findings of one run told as all runs', processes of other runs
    told as others, a frequency that is not that of the answers one by one."""
    names = [f"a{number}" for number in range(1, 6)]
    answer = runs.json("why", ",".join(names), status=(0, 3))
    assert [row["run"] for row in answer["runs"]] == names
    assert answer["run_count"] == 5
    single = {name: runs.json("why", name, status=(0, 3)) for name in names}
    for row in answer["runs"]:
        assert row["own_ns"] == single[row["run"]]["own_ns"]
        assert row["findings"] == len(single[row["run"]]["findings"])
    for row in answer["findings"]:
        gains = sorted(
            max(gain) for gain in
            ([f["gain_share"] for f in one["findings"]
              if f["kind"] == row["kind"] and
              (f["procedure"] or None) == row["procedure"] and
              (f["object"] or "").split(".")[0] == (row["object"] or "")]
             for one in single.values()) if gain)
        assert row["runs_with"] == len(gains) and row["runs"] == 5
        assert row["gain_least"] == pytest.approx(gains[0])
        assert row["gain_greatest"] == pytest.approx(gains[-1])
        assert row["often_low"] <= len(gains) / 5 <= row["often_high"]
    assert answer["findings"], "runs without a finding show nothing"
    for bad, said in (("a1,", "separated by commas"), ("a1,a1", "named twice")):
        done = runs.ipsq("why", bad)
        assert done.returncode in (1, 2) and said in done.stderr
    assert "5 of 5 runs" in runs.ipsq("why", ",".join(names)).stdout


@pytest.mark.quick
def test_what_cannot_be_compared(runs):
    """Bad input has an error that says what to do."""
    for words, said in ((("a1",), "two runs"), (("a1", "a1"), "named twice"),
                        (("a1,", "b1"), "separated by commas"),
                        (("a1", "nosuch"), "nosuch")):
        done = runs.ipsq("diff", *words)
        assert done.returncode in (1, 2) and said in done.stderr, done.stderr
