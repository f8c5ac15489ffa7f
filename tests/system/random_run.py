"""Runs random programs (tests/oracle/random_program.py) in a cluster
(conftest.py) and says what is wrong with their graphs."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import random_truth  # noqa: E402


class Result:
    """errors: lines; musts, mays: arcs that were looked at."""

    def __init__(self, errors, musts=0, mays=0):
        self.errors, self.musts, self.mays = errors, musts, mays


def run(cluster, plan, name, options=()):
    """One run of a plan, judged; nothing of it is left but the run."""
    where = cluster.root / ("plan." + name)
    where.mkdir()
    (where / "plan").write_text(plan.text())
    try:
        return _run(cluster, plan, name, where, options)
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _run(cluster, plan, name, where, options):
    done = cluster.ipsrun([cluster.build.program("random_program"),
                           where / "plan", where, 0, 0], name=name,
                          options=options, timeout=180)
    if done.returncode or done.stderr or done.stdout:
        return Result(["the program: status %d: %s%s" % (
            done.returncode, done.stdout, done.stderr)])
    cluster.wait_closed(name)
    logs = random_truth.read_logs(where, plan)
    judge = random_truth.Judge(plan, logs, cluster.graph(name))
    answer = cluster.json("path", name, status=(0, 3))
    errors = judge.errors + random_truth.judge_certificate(
        answer, judge)
    if answer["t_max_ns"] > answer["elapsed_ns"]:
        off = [lane["t_max_ns"] for lane in answer["certificate"]["lanes"]
               if "external" in lane["lane"]]
        if not off or off[0] > answer["elapsed_ns"]:
            errors.append("t_max without external %s > elapsed %d" % (
                off, answer["elapsed_ns"]))
    return Result(errors, judge.musts, judge.mays)
