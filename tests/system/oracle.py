"""Answers of `ipsq path` against the independent oracle on `ipsq graph`."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import path_oracle  # noqa: E402


def check_path(nodes, answer):
    """Fails unless the oracle finds the same path on `nodes`, in the answer's
    weighting and up to its goal (a process)."""
    goal = None
    if answer["goal"]:
        machine, process = answer["goal"].strip("/").split("/")[:2]
        goal = machine, int(process.split("#")[0].rsplit(".", 1)[1])
    found = path_oracle.differences(
        path_oracle.solve({n["id"]: n for n in nodes}, answer["weighting"],
                          goal), answer)
    assert not found, found
