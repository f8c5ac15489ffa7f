"""The experiments of tests/bench/paper in their short form: each command runs from its
machines to its tables, the programs print what they must under IPS on several machines
(the known answers are checked in every measured run), every question is answered, and
what must hold of any run holds. No figure is looked at.

EVIDENCE-OF: DPM-11 DPM-12 DRO-3 DRO-6."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import conftest

PAPER = conftest.ROOT / "tests" / "bench" / "paper"
KEYS = {"bus": "found", "dpm11": "rows", "dpm12": "predicted",
        "dro3": "computation"}


@pytest.mark.parametrize("name", sorted(KEYS))
def test_short_form(build, make_hosts, name):
    """Would catch an experiment that has decayed: a program that no longer starts or
    prints something else when it is measured, an option or a key of an answer that
    is gone, a P above P_max or above the number of cores."""
    make_hosts(1)  # skips where there can be none
    done = subprocess.run(
        [str(PAPER / name), "--short", "--build", str(build.top), "--no-prefer"],
        capture_output=True, text=True, env=conftest.clean_env(), timeout=270)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "|---|" in done.stdout
    found = json.loads(pathlib.Path(
        build.top, "paper", f"{name}-short.json").read_text())
    assert found[KEYS[name]], found


def test_one_after_another(build, make_hosts):
    """The driver, with the experiment of locks. Would catch one that runs again what is
    finished, that takes an experiment which was ended in the middle for finished,
    or that takes a failure for success."""
    make_hosts(1)
    kept = pathlib.Path(build.top, "paper", "locks-short.json")
    kept.unlink(missing_ok=True)

    def all(*words, status=0):
        done = subprocess.run(
            [str(PAPER / "all"), "--short", "--build", str(build.top), *words],
            capture_output=True, text=True, env=conftest.clean_env(), timeout=270)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "1 done, 0 failed" in all("--only", "locks", "--", "--no-prefer")
    assert "|---|" in pathlib.Path(build.top, "paper", "locks.log").read_text()
    found = json.loads(kept.read_text())
    assert found["rows"] and found["complete"]
    assert "locks: finished before" in all("--only", "locks")
    kept.write_text(json.dumps(dict(found, complete=False)))
    assert "1 failed: locks" in all("--only", "locks", "--", "--wrong", status=1)
    assert "no experiment lock" in all("--only", "lock", status=1)


def test_documents_are_written(tmp_path):
    """Would catch a result that takes the place of anything but what is between its
    marks, marks that are not in docs/papers.md, an interval or a CPU time that is
    read wrong, and repetitions that do not end with the time."""
    script = rf"""import argparse, pathlib, sys
sys.path.insert(0, {str(PAPER)!r})
import lab
file = pathlib.Path({str(tmp_path / "papers.md")!r})
file.write_text("a\n<!-- measured: x -->\nold\n<!-- end: x -->\nb\n")
lab.into_docs(file, "x", "\nnew\n")
print(repr(file.read_text()))
try:
    lab.into_docs(file, "y", "new")
except SystemExit as error:
    print("no lines" in str(error))
text = lab.DOCS.read_text()
for name in {sorted([*KEYS, "build", "locks", "predict", "simgrid"])!r}:
    assert text.count(f"<!-- measured: {{name}} -->") == 1, name
    assert text.count(f"<!-- end: {{name}} -->") == 1, name
file.write_text("1m2.500s 0m0.250s\n0m9.000s 0m9.000s\n")
print(lab.cpu_before(file))
for seconds in (0, 1e-9):
    print(len(list(lab.repetitions(argparse.Namespace(runs=3, seconds=seconds)))))
print(lab.ratio([3, 3, 3], [2, 2, 2]), lab.spreads([[1, 1], [1, 1]]))
"""
    said = subprocess.run(["/usr/bin/python3", "-c", script], check=True, text=True,
                          stdout=subprocess.PIPE, env=ENV).stdout.splitlines()
    assert said == [repr("a\n<!-- measured: x -->\nnew\n<!-- end: x -->\nb\n"),
                    "True", "62.75", "3", "1",
                    "('+50.0%', '+50.0% .. +50.0%') ('0.0%', '0.0%, to 0.0%', '0%')"]


def run(build, *words, status=0):
    done = subprocess.run(
        [str(PAPER / words[0]), *map(str, words[1:]), "--build", str(build.top),
         "--no-prefer"], capture_output=True, text=True,
        env=conftest.clean_env(), timeout=270)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
def test_predictions_come_first(build, make_hosts, tmp_path):
    """Written, committed, measured, and gone on with. Would catch predictions that are
    measured though they are not committed, or not as they are, and runs that are
    made again or lost when the experiment is ended and goes on."""
    make_hosts(1)
    file, into = tmp_path / "predictions.json", tmp_path / "times"

    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=x", "-c",
                        "user.email=x@example.org", *words], check=True,
                       stdout=subprocess.DEVNULL)

    git("init", "-q")
    run(build, "predict", "--short", "--write", file)
    said = json.loads(file.read_text())
    assert len(said["predictions"]) == 2 and said["source"]["pipeline"]
    assert set(said["message_times"]) == {"None", "200mbit", "40mbit"}
    measure = ("predict", "--measure", file, "--into", into)
    assert "not committed" in run(build, *measure, "--runs", 1, status=1)
    git("add", "predictions.json")
    git("commit", "-q", "-m", "predictions")
    assert "|---|" in run(build, *measure, "--runs", 1)
    lines = into.read_text().splitlines()
    assert len(lines) == 1 + 3  # two configurations and the source
    into.write_text("\n".join(lines[:-1]) + '\n{"of": "pipe')
    run(build, *measure, "--runs", 1)
    again = into.read_text().splitlines()
    assert again[:3] == lines[:3] and len(again) == 4
    found = json.loads(pathlib.Path(build.top, "paper",
                                    "predict.json").read_text())
    assert [c["runs"] for c in found["configurations"]] == [1, 1]
    file.write_text(file.read_text() + "\n")
    assert "differs from" in run(build, *measure, "--runs", 1, status=1)
    assert "other predictions" in run(build, *measure, "--uncommitted", status=1)


def test_held_out():
    """Would catch a program that is held out and still run while tuning."""
    said = subprocess.run(
        ["/usr/bin/python3", "-c", LOAD + "w = m.wanted; print(len(m.HELD_OUT),"
         " sorted(w(m.SIZES, 'tsp,jobs', False)), sorted(w(m.SIZES, 'tsp,jobs', "
         "True)), set(m.HELD_OUT) & w(m.SIZES, None, False))\n"], check=True,
        text=True, stdout=subprocess.PIPE, env=ENV).stdout
    assert said == "4 ['jobs'] ['jobs', 'tsp'] set()\n"


ENV = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
LOAD = ("import importlib.machinery, importlib.util, sys\n"
        f"sys.path.insert(0, {str(PAPER)!r})\n"
        "loader = importlib.machinery.SourceFileLoader('predict', "
        f"{str(PAPER / 'predict')!r})\n"
        "spec = importlib.util.spec_from_loader('predict', loader)\n"
        "m = importlib.util.module_from_spec(spec)\n"
        "loader.exec_module(m)\n")


def test_ti_replay(build, tmp_path):
    """A trace of SMPI by hand: 1 ms of computing, 8 MB in doubles at 10 ns a byte and 0.1
    ms, beside 2 us of the receiver's, then 3 ms: 84.1 ms; on one core of one machine
    1.002 + 3. Would catch a receive that meets another send, elements that are taken
    for bytes, a wait that waits for a send."""
    for r, lines in enumerate((
            ["init", "compute 1000000", "isend 1 5 1000000 0", "isend 1 4 3 6",
             "wait 0 1 5", "finalize"],
            ["init", "compute 2000", "irecv 0 5 1000000 0", "recv 0 4 3 6",
             "waitall 1", "compute 3e6", "finalize"])):
        (tmp_path / f"r{r}").write_text("".join(f"{r} {x}\n" for x in lines))
    (tmp_path / "list").write_text(f"{tmp_path}/r0\n{tmp_path}/r1\n")

    def makespan(places, cores):
        done = subprocess.run(
            [str(build.top / "tests" / "bench_ti_replay"), str(tmp_path / "list"),
             places, cores, "100000", "10", "0", "0", "0", "1"], check=True,
            text=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["makespan_ns"]
    assert makespan("0,1", "1,1") == 84_100_000
    assert makespan("0,0", "1") == 4_002_000


def test_simgrid(build, make_hosts):
    """Would catch a replay that says something else of the same trace than SMPI's, and a
    run that `ipsq predict` takes for another than its graph says it is."""
    if not shutil.which("smpirun"):
        pytest.skip("no smpirun (deploy/deps --bench)")
    make_hosts(1)
    assert "|---|" in run(build, "simgrid", "--short")
    found = json.loads(pathlib.Path(
        build.top, "paper", "simgrid-short.json").read_text())
    assert {r["trace"] for r in found["rows"]} >= {"ring", "halo"}
    assert all(abs(r["difference"]) < 0.05 for r in found["rows"]), found
    assert len(found["recorded"]) == 5
    for r in found["recorded"]:
        for ours in (r["ours"]["ns"], r["predict"]):
            assert abs(ours / r["smpi"]["ns"] - 1) < 0.05, r


def test_recorded_as_traces():
    """Two threads by hand: a message that is read in two pieces, one that goes to both of
    two threads, a wait inside a thread. Would catch a rank that receives a message twice or
    from another, what is computed at the wrong place, and a wait for something outside
    that is left out."""
    def node(id, tid, cpu, xpred=None, size=None, outside=None):
        return json.dumps({"id": id, "machine": "m", "pid": 1, "tid": tid, "kind": "X",
                           "arc_cpu_ns": cpu, "xpred": xpred, "bytes": size,
                           "xarc_wall_ns": outside})
    lines = [node(0, 1, None), node(1, 1, 500), node(2, 2, None), node(3, 2, 0, 1, 8),
             node(4, 2, 30, 1, 8), node(5, 3, None, 1, 0), node(6, 2, 7, 3),
             node(7, 1, 9, 4, 100), "{}"]
    script = (f"import json, sys\nsys.path.insert(0, {str(PAPER)!r})\n"
              "import recorded\nlines = json.load(sys.stdin)\n"
              "print(json.dumps(recorded.ranks_of(lines[:-1])))\n"
              "try:\n    recorded.ranks_of(lines)\n"
              "except ValueError as error:\n    print('outside' in str(error) or error)")
    said = subprocess.run(
        ["/usr/bin/python3", "-c", script], check=True, text=True, env=ENV,
        input=json.dumps([*lines, node(8, 1, 1, outside=5)]),
        stdout=subprocess.PIPE).stdout.splitlines()
    assert json.loads(said[0]) == [
        [["m", 1, 1], ["m", 1, 2], ["m", 1, 3]],
        [["compute 500", "send 1 3 8 6", "send 2 5 0 6", "compute 9", "recv 1 7 100 6"],
         ["recv 0 3 8 6", "compute 30", "send 0 7 100 6", "compute 7"],
         ["recv 0 5 0 6"]]]
    assert said[1] == "node 8 waits for something that is not traced"


def test_drawn_alike():
    """Would catch a draw of configurations that depends on anything but the seed:
    predictions could then not be made before what they are compared with."""
    script = LOAD + ("p = m.KINDS['exchange']('/nowhere', '/tmp')\n"
                     "print([m.draw(p, 4, s) for s in (1, 1, 2)])\n")
    said = [subprocess.run(
        ["/usr/bin/python3", "-c", script], check=True, text=True,
        stdout=subprocess.PIPE, env=dict(ENV, PYTHONHASHSEED=str(h))).stdout
        for h in (1, 2)]
    assert said[0] == said[1]
    assert said[0].count("Config(") == 12
