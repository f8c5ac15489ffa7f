"""Without daemons: what the agent put into the pool is what strace saw of the
same execution - every transfer of every thread, in order, with its bytes; every
process, thread, fork and wait - and the graph built from it has the arcs that
strace saw.

Would catch: a receive matched to the wrong send, an end-of-file blamed on the
wrong process, a call that moves bytes and is not wrapped, bytes counted twice
or not at all (stdio, the flush at exit), a descriptor named wrongly, a child or
a thread not followed, a program that no longer behaves under the interposer.
"""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

import programs
import recorder as rec
from conftest import give_clock

import graph_view  # noqa: E402
import pool_reader  # noqa: E402
import strace_compare  # noqa: E402
import strace_model  # noqa: E402

pytestmark = [
    pytest.mark.skipif(bool(programs.missing()),
                       reason="not here: %s" % programs.missing())]

QUICK = {"pipeline", "sort-uniq", "mixed", "tee", "python"}


@pytest.fixture
def pool(build):
    path = tempfile.mkdtemp(prefix="ips-test-agent-", dir="/dev/shm")
    os.chmod(path, 0o711)
    give_clock(build, path)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.quick] if n in QUICK else [])
    for n in sorted(programs.ALL)])
def test_records_are_what_strace_saw(build, pool, tmp_path, name):
    bare = programs.make(name, True)
    want = rec.execute(bare.argv, rec.clean_env())
    prog = programs.make(name, True)
    log = tmp_path / "strace.log"
    try:
        done = rec.execute(
            strace_model.command(log) +
            [build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool", pool,
             "--name", "r", "--"] + prog.argv, rec.clean_env())
    finally:
        prog.clean()
        bare.clean()
    assert done.status == want.status == 0, done.err
    assert prog.normal(done.out) == bare.normal(want.out)
    assert done.err == want.err
    model = strace_model.load(log)
    assert not model.notes
    (run,) = [d for d in os.listdir(pool)
              if os.path.exists(os.path.join(pool, d, "control"))]
    view, facts = pool_reader.view(os.path.join(pool, run))
    result = strace_compare.compare(model, view)
    print(name, result.summary(), facts.records, "records")
    assert not facts.lost
    assert not result.differences, "%s\n%s" % (
        result.summary(), "\n".join(result.differences[:40]))
    assert {program for program, _ in result.silent} <= programs.SILENT
    assert result.ends > 1 and result.total_bytes > 0
    check_graph(build, os.path.join(pool, run), model, result)


def check_graph(build, directory, model, records):
    lines = subprocess.run(
        [str(build.top / "tests" / "poolgraph"), directory], check=True,
        stdout=subprocess.PIPE, text=True).stdout.splitlines()
    nodes = [json.loads(line) for line in lines[:-1]]
    tail = json.loads(lines[-1])
    for name in ("lost", "unmatched", "pending", "untraced"):
        assert tail["counts"][name] == 0, (name, tail)
    parents = {int(pid): parent for pid, parent in tail["parents"].items()}
    result = strace_compare.compare(model, graph_view.view(nodes, parents))
    print("graph", result.summary())
    assert not result.differences, "%s\n%s" % (
        result.summary(), "\n".join(result.differences[:40]))
    assert result.total_bytes == records.total_bytes
    assert result.excluded <= result.compared // 10
    assert result.arcs["eof"] > 0 and result.arcs["recv"] > 0
