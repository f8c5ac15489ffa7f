"""Answers of `ipsq path` against the independent oracle on `ipsq graph`."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import path_oracle  # noqa: E402


def check_path(nodes, answer):
    """Fails unless the oracle finds the same path on `nodes`, in the answer's
    weighting and up to its goal (a process), and as long a one in the lane
    without what recording cost."""
    goal = None
    if answer["goal"]:
        machine, process = answer["goal"].strip("/").split("/")[:2]
        goal = machine, int(process.split("#")[0].rsplit(".", 1)[1])
    by_id = {n["id"]: n for n in nodes}
    found = path_oracle.differences(
        path_oracle.solve(by_id, answer["weighting"], goal), answer)
    assert not found, found
    bare = without_recording(answer)
    if bare is None:
        return
    nodes = path_oracle.without_recording(by_id, answer["weighting"])
    assert path_oracle.solve(nodes, goal=goal).t_max_ns == bare
    assert sum(n["arc_probe_ns"] or 0 for n in by_id.values()) == \
        answer["certificate"]["probe_arc_ns"]


def without_recording(answer):
    """t_max of the certificate's lane without what recording cost, or None."""
    for lane in answer["certificate"]["lanes"]:
        if lane["lane"] == "probe cost subtracted":
            return lane["t_max_ns"]
    return None
