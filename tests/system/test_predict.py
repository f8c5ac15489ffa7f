"""`ipsq predict`: the golden rows of a replay through agent, slaves, master and
client, exact to the nanosecond, and questions that are refused.

EVIDENCE-OF: DPM-6 DPM-7 DPM-9 DPM-10."""
import itertools

import pytest

from conftest import Cluster

UNIT = 10**9  # tests/programs/golden.c
PER_BYTE = "0,1000000000"  # of message time, so that the bytes give MTIME
numbers = itertools.count()


@pytest.fixture(scope="module")
def duo(build):
    c = object.__new__(Cluster)
    try:
        c.__init__(build, ["m1", "m2"])
        yield c
    finally:
        c.close()


def golden(c, name, parts=(None,)):
    run = f"predict-{name}-{next(numbers)}"
    for i, only in enumerate(parts):
        how = {"name": run} if i == 0 else {"join": run}
        words = ["--only", only] if only else []
        c.ipsrun([c.build.program("golden"), name, *words], machine=i,
                 check=True, **how)
    c.wait_closed(run, machines=len(parts))
    return run


def placed(machines, where):
    """Tasks by name; the program that makes them is kept out of their way."""
    return ["--machines", f"spare:cores=64;{machines}", "--map",
            "*=spare," + ",".join(f"/*/golden.*/{task}={machine}"
                                  for task, machine in where.items())]


# graph, chains, machine, message time, makespan in thousandths of a unit
ROWS = [
    ("G4", "Pcd", "cores=1", PER_BYTE, 34000),
    ("G4", "Pcd", "cores=2", PER_BYTE, 23000),
    ("G5", "AB", "cores=1", PER_BYTE, 19000),
    ("G5", "AB", "cores=2", PER_BYTE, 17000),
    ("G5", "AB", "cores=1,load=1", PER_BYTE, 32500),
    ("G5", "AB", "cores=1,speed=2", PER_BYTE, 12000),
    ("G5", "AB", "cores=1", "0", 18000),
    ("G6", "ABC", "cores=1", PER_BYTE, 22000),
    ("G6", "ABC", "cores=2", PER_BYTE, 15500),
]


@pytest.fixture(scope="module")
def graphs(duo):
    return {name: golden(duo, name) for name in ("G4", "G5", "G6")}


@pytest.mark.quick
@pytest.mark.parametrize("name,chains,machine,mtime,makespan", ROWS)
def test_golden(duo, graphs, name, chains, machine, mtime, makespan):
    """Would catch a thread on another machine than it was mapped to, a rate
    that is wrong, and a rounding anywhere on the way: one ns is enough."""
    answer = duo.json("predict", graphs[name], "--mtime", mtime,
                      *placed(f"one:{machine}", dict.fromkeys(chains, "one")))
    assert answer["makespan_ns"] == makespan * UNIT // 1000
    path = [r for r in answer["path"] if r["kind"] in
            ("machine", "message", "external")]
    assert sum(r["ns"] for r in path) == answer["makespan_ns"]
