"""The golden graphs through the agent's API, the pool, the slaves and the
master: hand-computed answers, exact to the nanosecond.

EVIDENCE-OF: DPM-2 DPM-4 DPM-5 DPM-8 DPM-13 IPS-11."""
import itertools

import pytest

from conftest import Cluster

UNIT = 10**9  # tests/programs/golden.c
PER_BYTE = "1000000000"  # of message time, so that the bytes give MTIME

# name: t_max, T, t_max with messages at 0, path as (kind, chain, units);
# message: (kind, None, units).
GOLDEN = {
    "G1": (34, 38, 30, [("compute", "A", 10), ("message", None, 4),
                        ("compute", "B", 20)]),
    "G2": (23, 15, 13, [("compute", "C", 2), ("message", None, 5),
                        ("compute", "S", 8), ("message", None, 5),
                        ("compute", "C", 3)]),
    "G3": (43, 36, 43, [("compute", "A", 4), ("external", None, 30),
                        ("compute", "A", 9)]),
    "G4": (22, 34, 22, [("compute", "P", 6), ("message", None, 0),
                        ("compute", "d", 12), ("message", None, 0),
                        ("compute", "P", 4)]),
    "G5": (17, 18, 12, [("compute", "A", 6), ("message", None, 5),
                        ("compute", "B", 6)]),
    "G6": (15, 22, 13, [("compute", "A", 2), ("message", None, 2),
                        ("compute", "C", 11)]),
    "G7": (17, 22, 16, [("compute", "B", 9), ("message", None, 1),
                        ("compute", "C", 7)]),
}

# Splits over machines: chains of each. G4 forks, so it stays whole.
SPLITS = [(name, (None,)) for name in GOLDEN] + [
    ("G1", ("A", "B")), ("G1", ("B", "A")), ("G2", ("C", "S")),
    ("G2", ("S", "C")), ("G3", ("A", "B")), ("G3", ("B", "A")),
    ("G6", ("A", "B", "C")), ("G6", ("C", "AB")), ("G6", ("B", "C", "A")),
    ("G7", ("A", "B", "C")), ("G7", ("C", "B", "A")), ("G7", ("B", "AC"))]

# Machines' clocks: nothing, or days apart and drifting.
CLOCKS = {"same": [(0, 0), (0, 0), (0, 0)],
          "apart": [(3 * 86400 * 10**9, 200), (17, 0), (3600 * 10**9, 100)]}


numbers = itertools.count()


def cores_of(c, run):
    """As `metrics` has them: rho is T_cpu / (cores x T)."""
    return sum(round(m["cpu_ns"] / (m["rho"] * m["elapsed_ns"])) for m in
               c.json("metrics", run, "--level", "machine")["metrics"])


@pytest.fixture(scope="module")
def trio(build):
    """Three machines for all graphs: each is a run of its own."""
    c = object.__new__(Cluster)
    try:
        c.__init__(build, ["m1", "m2", "m3"])
        yield c
    finally:
        c.close()


def run_golden(c, name, parts, clocks):
    """Makes the graph, and returns the run's name when it is closed."""
    run = f"{name}-{next(numbers)}"
    for i, only in enumerate(parts):
        offset, drift = clocks[i]
        if name == "G3":
            drift = 0  # an external arc is elapsed time, by that very clock
        words = ["--clock", offset, "--drift", drift]
        if only:
            words += ["--only", only]
        how = {"name": run} if i == 0 else {"join": run}
        c.ipsrun([c.build.program("golden"), name, *words], machine=i,
                 check=True, **how)
    c.wait_closed(run, machines=len(parts))
    return run


def is_task(node):
    """Chains of the API, not threads of the program itself."""
    return node["tid"] != node["pid"]


def path_of(c, run, answer):
    """As (kind, name of the chain, ns)."""
    names = {t["object"]: t["name"] for t in c.json("ls", run)["threads"]}
    return [(s["kind"],
             names["/{machine}/{process}/{thread}".format(**s)]
             if s["kind"] == "compute" else None, s["ns"])
            for s in answer["segments"]]


@pytest.mark.quick
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(
    "name,parts", SPLITS,
    ids=[f"{n}-{'whole' if p == (None,) else '+'.join(p)}" for n, p in SPLITS])
def test_golden(trio, name, parts, clock):
    """Would catch any error of a rule, a tie, a partition or a rounding: one
    nanosecond is enough."""
    t_max, total, t_max_zero, path = GOLDEN[name]
    c = trio
    run = run_golden(c, name, parts, CLOCKS[clock])

    nodes = c.graph(run)
    own = sum(n["arc_cpu_ns"] or 0 for n in nodes if not is_task(n))
    assert sum(n["arc_cpu_ns"] or 0 for n in nodes if is_task(n)) == \
        total * UNIT
    assert own < UNIT  # what the programs themselves burnt
    for engine in ("contract", "central", "cm-sync", "cm-async"):
        answer = c.json("path", run, "--engine", engine,
                        "--mtime", f"0,{PER_BYTE}")
        assert answer["t_max_ns"] == t_max * UNIT, engine
        assert answer["total_cpu_ns"] == total * UNIT + own, engine
        assert answer["parallelism_factor"] == pytest.approx(
            (total * UNIT + own) / (t_max * UNIT), rel=1e-12)
        assert answer["rho"] == pytest.approx(
            answer["parallelism_factor"] / cores_of(c, run), rel=1e-12)
        assert answer["p_max"] == pytest.approx(
            (total * UNIT + own) / (t_max_zero * UNIT), rel=1e-12)
        assert path_of(c, run, answer) == [(k, w, u * UNIT) for k, w, u in path]
        assert sum(s["ns"] for s in answer["segments"]) == t_max * UNIT
        cert = answer["certificate"]
        assert cert["unmatched"] == cert["pending"] == 0
        assert cert["ambiguous"] == 0 and cert["complete"]


@pytest.mark.quick
def test_external_off(trio):
    """G3 without its external arc: 25, by way of B."""
    c = trio
    run = run_golden(c, "G3", (None,), CLOCKS["same"])
    answer = c.json("path", run, "--external", "off", "--mtime",
                    f"0,{PER_BYTE}")
    assert answer["t_max_ns"] == 25 * UNIT
    assert path_of(c, run, answer) == [("compute", "B", 20 * UNIT),
                               ("message", None, 2 * UNIT),
                               ("compute", "A", 3 * UNIT)]
