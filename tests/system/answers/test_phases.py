"""Shows "change points in CPU use and message frequency, found without tuning,
on programs whose phases are known; a phase is the window of other commands".
EVIDENCE-OF: IPS-16

The boundaries are held against a run whose records a program wrote with made-up
clocks (tests/programs/phase_pool.c): two machines, marks where its phases begin.
Of a program that really runs only what does not depend on time is asserted."""
import collections
import subprocess

import pytest

MS = 1_000_000
# Of phase_pool.c: computing, talking, idle, computing.
BEGINS = [0, 200 * MS, 320 * MS, 420 * MS]
ROUNDS = 10_000


def write_run(cluster, run, shift=0):
    for side, machine in enumerate(cluster.machines, 1):
        subprocess.run(
            [cluster.build.program("phase_pool"), machine.pool, run, str(side),
             str(shift if side == 2 else 0)], check=True)
    cluster.wait_closed(run, machines=len(cluster.machines))


def events_by_phase(cluster, run, count):
    return [cluster.json("events", run, "--phase", n)["events"]
            for n in range(1, count + 1)]


@pytest.mark.quick
def test_known_phases_of_two_machines(cluster):
    """Would catch a boundary that is not where the program says it is, series
    of machines that are added up at the wrong times, and a window that is
    another one on the machine whose clock is 3 hours ahead."""
    there = cluster(("m1", "m2"))
    answers = []
    for run, shift in (("even", 0), ("ahead", 10_800_000 * MS + 12345)):
        write_run(there, run, shift)
        a = there.json("phases", run)
        answers.append(a)
        phases = a["phases"]
        assert [p["phase"] for p in phases] == [1, 2, 3, 4], phases
        for phase, begin in zip(phases, BEGINS):
            assert abs(phase["from_ns"] - begin) <= 2 * a["bin_ns"], phase
        # What each is like, and whose.
        cores = [p["cores_used"] for p in phases]
        assert min(cores[0], cores[3]) > 0.9 and cores[2] < 0.1, cores
        assert phases[0]["process"].startswith("/m1/")
        assert phases[3]["process"].startswith("/m2/")
        assert phases[1]["messages"] >= 2 * ROUNDS * 0.98
        # They add up to all of the run.
        assert sum(p["messages"] for p in phases) == 2 * ROUNDS + 1
        assert sum(p["bytes"] for p in phases) == 64 * (2 * ROUNDS + 1)
        cpu = sum(row["cpu_ns"] for row in there.json("ls", run)["processes"])
        assert sum(p["cpu_ns"] for p in phases) == cpu
        assert sum(b["cpu_ns"] for b in a["bins"]) == cpu
        assert "aligned to m1" in a["certificate"]["clock"]
        # Every event lies in one phase, each mark in the one it begins.
        of = events_by_phase(there, run, 4)
        assert sum(map(len, of)) == len(there.json("events", run)["events"])
        marks = {e["detail"]: n for n, events in enumerate(of, 1)
                 for e in events if e["type"] == "mark"}
        bin_ns = a["bin_ns"]
        for n, name in ((2, "talk"), (3, "idle"), (4, "again")):
            # a mark in the bin before the boundary is in the phase before
            assert marks[name] in (n - 1, n), (marks, bin_ns)
    even, ahead = answers
    for p, q in zip(even["phases"], ahead["phases"]):
        assert abs(p["to_ns"] - q["to_ns"]) <= even["bin_ns"]


def test_phase_as_window(cluster):
    """Would catch a phase that is no window: of the path, of procedures, of
    phases themselves; and one that is not there."""
    there = cluster(("m1", "m2"))
    write_run(there, "run")
    phases = there.json("phases", "run")["phases"]
    # All of the path is CPU of one or the other in some phase.
    whole = there.json("path", "run")
    parts = [there.json("path", "run", "--phase", n, status=(0, 3))["window_ns"]
             for n in range(1, 5)]
    assert sum(parts) <= whole["t_max_ns"]
    assert sum(parts) >= whole["t_max_ns"] * 0.99
    # All of the others' time is on it (asleep: external), of the talk's the CPU.
    for n in (0, 2, 3):
        assert abs(parts[n] - phases[n]["length_ns"]) <= 3 * MS, parts
    assert abs(parts[1] - ROUNDS * 6000) <= 3 * MS, parts
    # As a window: the same as by its ends, which on m1's clock are these.
    for n in (1, 2):
        p = phases[n - 1]
        ends = ("--from", f"{p['from_ns']}ns", "--to", f"{p['to_ns']}ns")
        by_ends = there.json("events", "run", "--object", "/m1", *ends)
        by_phase = there.json("events", "run", "--object", "/m1", "--phase", n)
        assert by_ends["events"] == by_phase["events"] != []
    # The phases of a phase lie in it.
    inner = there.json("phases", "run", "--phase", 2)
    assert inner["from_ns"] == phases[1]["from_ns"]
    assert inner["to_ns"] == phases[1]["to_ns"]
    assert sum(p["messages"] for p in inner["phases"]) == phases[1]["messages"]
    for words in (("phases", "run"), ("path", "run"), ("events", "run")):
        done = there.ipsq(*words, "--phase", 5)
        assert done.returncode == 1
        assert "no phase 5: the run has 4" in done.stderr
    done = there.ipsq("path", "run", "--phase", 1, "--to", "1s")
    assert done.returncode == 2 and "cannot be combined" in done.stderr


def test_check_of_a_window(cluster):
    """Would catch limits that are held against the whole run's times, and what is
    not in a window at all taken for within limits."""
    there = cluster(("m1", "m2"))
    write_run(there, "run")
    limits = ("--max-wall", "10s", "--max-cpu", "10s", "--max-path", "10s")
    for n in range(1, 5):
        a = there.json("check", "run", "--phase", n, *limits, "--max-lost", 0)
        assert a["within"] == "yes" and a["complete"] and a["phase"] == n
        told = {r["what"]: r["measured_ns"] for r in a["limits"]}
        row, = there.json("metrics", "run", "--level", "run", "--phase",
                          n)["metrics"]
        assert (told["wall"], told["cpu"]) == (row["elapsed_ns"], row["cpu_ns"])
        assert told["path"] == there.json("path", "run", "--phase", n, status=(
            0, 3))["window_ns"]
    # The second phase computes less than 120 ms; all of them, 400.
    few = ("--max-cpu", "121ms")
    assert there.json("check", "run", *few, "--phase", 2)["within"] == "yes"
    assert there.json("check", "run", *few, status=(4,))["within"] == "no"
    assert there.json("check", "run", "--from", "9s", *limits,
                      status=(3,))["within"] == "cannot tell"
    assert there.ipsq("check", "run", "--phase", 2).returncode == 2


@pytest.mark.quick
def test_strip(cluster):
    """The strip in the terminal, of the phases that are known: a column is 11 ms here.
    Would catch a strip of another series, or one that is cut elsewhere than the
    phases."""
    there = cluster(("m1", "m2"))
    write_run(there, "run")
    a = there.json("phases", "run")
    text = there.ipsq("phases", "run").stdout
    lines = {line.split()[0]: line[10:58] for line in text.splitlines()
             if line.split()[:1] in (["phase"], ["CPU"], ["messages"])}
    at = [i for i, c in enumerate(lines["phase"]) if c == "|"]
    length = a["to_ns"] - a["from_ns"]
    assert len(at) == 4
    for column, begin in zip(at, BEGINS):
        assert abs(column - 48 * begin / length) <= 1, (at, text)
    for name, full in (("CPU", (0, 1, 3)), ("messages", (1,))):
        for n, (begin, end) in enumerate(zip(at, [*at[1:], 48])):
            inner = lines[name][begin + 1:end - 1]
            low = {*inner} & {*" ▁."}  # nothing, or the least there is
            assert low == (set() if n in full else {*inner}), (name, n, text)


@pytest.mark.quick
def test_a_program_that_runs(cluster):
    """Would catch records that a series leaves out, counts twice or puts
    outside of all bins, and samples that are in no phase or in two."""
    there = cluster()
    messages = 3000
    done = there.ipsrun([there.build.program("phased"), 3000, messages, 50],
                        name="real", options=("--rate", "1"))
    assert done.returncode == 0, done.stderr
    there.wait_closed("real")
    a = there.json("phases", "real")
    phases = a["phases"]
    assert [p["phase"] for p in phases] == list(range(1, len(phases) + 1))
    assert phases[0]["from_ns"] == a["from_ns"]
    assert phases[-1]["to_ns"] == a["to_ns"]
    for p, q in zip(phases, phases[1:]):
        assert p["to_ns"] == q["from_ns"]
    assert sum(p["messages"] for p in phases) == 2 * messages
    assert sum(b["messages"] for b in a["bins"]) == 2 * messages
    # CPU that spun is no thread's, but was used.
    cpu = sum(row["cpu_ns"] for row in there.json("ls", "real")["processes"])
    spun = a["certificate"]["spin_ns"]
    assert sum(p["cpu_ns"] for p in phases) == cpu + spun
    whole = there.json("procedures", "real")
    samples = collections.Counter()
    for n in range(1, len(phases) + 1):
        done = there.ipsq("procedures", "real", "--phase", n, "--format",
                          "json")
        if done.returncode == 0:
            part = there.json("procedures", "real", "--phase", n)
            for row in part["procedures"]:
                samples[row["procedure"]] += row["samples"]
            own = part["cpu_ns"]
            assert sum(r["self_ns"] for r in part["procedures"]) == own
    assert sum(samples.values()) == whole["samples"]
    # An inlined procedure of a header is another row than the library's.
    named = collections.Counter()
    for row in whole["procedures"]:
        named[row["procedure"]] += row["samples"]
    assert samples == named


def windows_of(phases):
    for p in phases:
        yield ("--phase", p["phase"])
    yield ("--from", "150ms", "--to", "250ms")  # cuts arcs at both ends
    yield ("--to", "350ms")
    yield ("--from", "350ms")


def test_whatif_of_a_window(cluster):
    """Would catch a what-if of a window whose base is not the path of that window,
    in any weighting; one that edits what lies outside of it, or another
    window on the machine whose clock is 3 hours ahead."""
    there = cluster(("m1", "m2"))
    write_run(there, "run", 10_800_000 * MS + 12345)
    phases = there.json("phases", "run")["phases"]
    for weighting in ("cpu", "sched", "wall"):
        words = ("run", "--weighting", weighting)
        whole = there.json("path", *words, status=(0, 3))["t_max_ns"]
        for window in windows_of(phases):
            path = there.json("path", *words, *window, status=(0, 3))
            a = there.json("whatif", *words, *window, status=(0, 3))
            assert a["t_max_ns"] == whole == path["t_max_ns"]
            assert a["window_ns"] == path["window_ns"], (weighting, window)
            shares = {r["object"]: r["ns"] for r in path["shares"]["processes"]}
            for r in a["ranking"]:
                assert r["gain_ns"] <= r["bound_ns"] <= a["window_ns"]
                assert r["share_ns"] == shares.get(r["object"], r["share_ns"])
    # Computing is m1's in the first phase and m2's in the last one; there m1 does
    # next to nothing.
    gains = {}
    for machine in ("m1", "m2"):
        edit = ("whatif", "run", "--object", f"/{machine}", "--gone")
        gains[machine] = [
            there.json(*edit, "--phase", n, status=(0, 3))["gain_ns"]
            for n in range(1, 5)]
    assert gains["m1"][0] > 190 * MS and gains["m1"][3] < MS, gains
    assert gains["m2"][3] > 80 * MS and gains["m2"][0] == 0, gains
    done = there.ipsq("whatif", "run", "--phase", 5)
    assert done.returncode == 1
    assert "no phase 5: the run has 4" in done.stderr
    for words in (("predict", "run"), ("estimate", "run"), ("sql", "run")):
        done = there.ipsq(*words, "--phase", 1)
        assert done.returncode == 2, words
        assert "not a window or a phase" in done.stderr
