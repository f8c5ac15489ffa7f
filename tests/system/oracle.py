"""Answers of `ipsq path` against the independent oracle on `ipsq graph`."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import path_oracle  # noqa: E402


# The oracle is Python: of graphs beyond that it takes half a minute.
MOST_NODES = 100_000


def goal_of(answer):
    """Machine and pid of the process that the path ends with, or None."""
    if not answer["goal"]:
        return None
    machine, process = answer["goal"].strip("/").split("/")[:2]
    return machine, int(process.split("#")[0].rsplit(".", 1)[1])


def check_weightings(nodes, ask, engines=("contract", "central", "cm-sync"),
                     weightings=("cpu", "sched", "wall")):
    """Fails unless, in every weighting, every engine gives the path that the
    oracle finds on `nodes`. `ask(*options)`: an answer of `ipsq path`. Returns
    the answers of `cpu` by engine. (The graph of several machines has no times of
    `wall`.)

    Would catch: engines that differ, an arc weighed otherwise in the graph than
    on the path, a goal or a tie taken otherwise."""
    assert 0 < len(nodes) <= MOST_NODES, len(nodes)
    by_id = path_oracle.index(nodes)
    cpu = {}
    for weighting in weightings:
        truth = None
        for engine in engines:
            answer = ask("--weighting", weighting, "--engine", engine)
            assert answer["weighting"] == weighting
            assert answer["engine"] == engine
            if truth is None:
                truth = path_oracle.solve(by_id, weighting, goal_of(answer))
            found = path_oracle.differences(truth, answer)
            assert not found, (weighting, engine, found)
            assert answer["segments"]
            if weighting == "cpu":
                cpu[engine] = answer
                check_bare(by_id, answer)
    return cpu


def check_path(nodes, answer):
    """Fails unless the oracle finds the same path on `nodes`, in the answer's
    weighting and up to its goal (a process), and as long a one in the lane
    without what recording cost."""
    by_id = path_oracle.index(nodes)
    found = path_oracle.differences(
        path_oracle.solve(by_id, answer["weighting"], goal_of(answer)), answer)
    assert not found, found
    check_bare(by_id, answer)


def check_bare(by_id, answer):
    """... the lane without what recording cost, where there is one."""
    bare = without_recording(answer)
    if bare is None:
        return
    nodes = path_oracle.without_recording(by_id, answer["weighting"])
    assert path_oracle.solve(nodes, goal=goal_of(answer)).t_max_ns == bare
    assert sum(n["arc_probe_ns"] or 0 for n in by_id.values()) == \
        answer["certificate"]["probe_arc_ns"]


def without_recording(answer):
    """t_max of the certificate's lane without what recording cost, or None."""
    for lane in answer["certificate"]["lanes"]:
        if lane["lane"] == "probe cost subtracted":
            return lane["t_max_ns"]
    return None
