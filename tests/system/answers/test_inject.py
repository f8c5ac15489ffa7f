"""Delays put into unmodified programs (tests/programs/delay) are blamed on the
place where they are, and lengthen the path there and only there. The short form
of `tests/bench/run inject`, which measures what it does to the elapsed time: here
everything is asked of the graph, and what is on the path is so by the CPU time
that the programs take, whatever else runs.

EVIDENCE-OF: IPS-11, IPS-12."""
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
import delays  # noqa: E402
import oracle  # noqa: E402
import path_oracle  # noqa: E402
import whatif_oracle  # noqa: E402
from inject_programs import Postgres  # noqa: E402

DELAY_MS = 50

# So much CPU time, then one write to the standard output.
WORK = """
import os, sys, time
while time.process_time() < float(sys.argv[2]):
    pass
os.write(1, sys.argv[1].encode() + b"\\n")
"""


class Delayed:
    """A run of `command` with a delay: what it was (entry), the graph (nodes),
    the node before which it is (node), and what the command printed."""

    def __init__(self, c, tmp_path, name, command, what):
        self.log = delays.Log(tmp_path / "delay.log")
        # Where whoever the program becomes can read it, too.
        library = shutil.copy(c.build.program("delay.so"), tmp_path)
        done = c.ipsrun(["bash", "-c", command], name=name, check=True,
                        cwd=tmp_path, options=["--procedures=off"],
                        env=self.log.environment(library, what))
        self.c, self.name, self.printed = c, name, done.stdout
        assert done.stderr == ""
        c.wait_closed(name)
        (self.entry,) = self.log.entries()
        self.nodes = path_oracle.index(c.graph(name))
        # A node is before or after a delay of 50 ms, however clocks are read.
        middle = self.entry.at + self.entry.elapsed // 2
        nodes = delays.Model(self.nodes).nodes_of(
            [self.entry._replace(at=middle)])
        (self.node,) = nodes

    def check(self, on_path):
        """The arc of the delay has it, and is on the path, or not; and without
        the delay the path would be shorter by it, or the same."""
        answer = self.c.json("path", self.name, "--by", "machine",
                             status=(0, 3))
        oracle.check_path(self.nodes.values(), answer)
        own = delays.own_of_answer(self.nodes, answer)
        cpu = self.entry.cpu
        assert cpu >= DELAY_MS * 10**6
        # What the CPU clock is guessed by between system calls is far less.
        has = self.nodes[self.node]["arc_cpu_ns"]
        assert has > 0.9 * cpu
        assert (self.node in own) == on_path
        graph = whatif_oracle.Graph(self.nodes)
        assert graph.t_max() == answer["t_max_ns"]
        graph.weight[self.node, False] -= min(cpu, has)
        gain = answer["t_max_ns"] - graph.t_max()
        if on_path:
            assert gain > 0.9 * cpu
        else:
            assert gain == 0


def where(program, call, **more):
    words = {"program": program, "call": call, "first": 1, "count": 1,
             "us": DELAY_MS * 1000, **more}
    return ",".join(f"{key}={value}" for key, value in words.items())


@pytest.mark.parametrize("of, on_path", [("long", True), ("short", False)])
def test_two_processes_at_once(cluster, tmp_path, of, on_path):
    """One of two works longer by 0.4 s of CPU time than the other even with the
    delay. Would catch: a delay booked to the other process, or to the arc before
    or after; a path that follows what took long to end, not what work it was."""
    (tmp_path / "work.py").write_text(WORK)
    run = Delayed(cluster(), tmp_path, "r",
                  "python3 work.py long 0.6 & python3 work.py short 0.1; wait",
                  where("python3", "write", arg=of))
    assert sorted(run.printed.split()) == ["long", "short"]
    assert run.entry.program == "python3" and run.entry.number == 1
    run.check(on_path)


@pytest.mark.parametrize("of, on_path", [("tail", True), ("wc", False)])
def test_two_pipelines_at_once(cluster, tmp_path, of, on_path):
    """The end of a pipeline waits for all of it, so a delay there is on the path
    where the pipeline is; the other's work is a thousandth of that. Would catch:
    a path that does not follow the data from program to program, and a library
    that changes what they print."""
    (tmp_path / "small").write_text("3\n3\n1\n")
    (tmp_path / "big").write_text(
        "".join(f"{i * 7919 % 400009}\n" for i in range(400009)))
    run = Delayed(cluster(), tmp_path, "r",
                  "(sort small | uniq -d | wc -l) & "
                  "sort --parallel=1 big | uniq -c | tail -n 1; wait",
                  where(of, "fflush"))
    assert sorted(line.split() for line in run.printed.splitlines()) == [
        ["1"], ["1", "99999"]]
    run.check(on_path)


@pytest.mark.parametrize("how", ["busy", "sleep"])
def test_elapsed_time_of_one_process(cluster, tmp_path, how):
    """In weighting wall a program's path is its elapsed time, so any delay of it
    is on the path, CPU time or not. Would catch: time off the processor that
    nothing explains left out."""
    (tmp_path / "work.py").write_text(WORK)
    c = cluster()
    run = Delayed(c, tmp_path, "r", "exec python3 work.py one 0",
                  where("python3", "write", how=how))
    assert run.printed == "one\n"
    answer = c.json("path", "r", "--weighting", "wall", "--by", "machine",
                    status=(0, 3))
    assert run.node in delays.own_of_answer(run.nodes, answer)
    assert run.nodes[run.node]["arc_wall_ns"] > 0.98 * run.entry.elapsed
    # Two clocks: the kernel's CPU clock and the raw one run a little apart.
    assert run.entry.elapsed > 0.98 * DELAY_MS * 10**6
    assert (run.entry.cpu > run.entry.elapsed / 100) or how == "sleep"
    model = delays.Model(run.nodes)
    assert model.longest().ns == answer["t_max_ns"]
    assert model.longest().own == delays.own_of_answer(run.nodes, answer)


class FewTurns(Postgres):
    turns = {"short": 5, "long": 20}


def test_a_backend_of_postgresql(cluster, tmp_path):
    """The server's children are told apart by the titles they give themselves.
    Would catch: a delay in a forked child booked to its parent or a sibling; a
    path in `wall` that is not the graph's. (Whether it goes through that backend
    is the machine's to say: another client may be the last.)"""
    missing = [n for n in Postgres.needs if not shutil.which(n)]
    if missing:
        pytest.skip(f"not here: {missing}")
    directory = tempfile.mkdtemp(prefix="ips-test-")  # others must reach it
    os.chmod(directory, 0o755)
    try:
        server = FewTurns(directory)
        c = cluster()
        for path in (c.root, c.machines[0].pool.parent, c.machines[0].pool):
            os.chmod(path, 0o711)  # it changes its user
        run = Delayed(c, pathlib.Path(directory), "r", server.command + " 2>&1",
                      where("postgres", "recv", arg="*: long ", first=3,
                            forks=1))
        assert len(set(run.printed.split())) == 3  # two sums and "-"
        backend = run.nodes[run.node]
        assert backend["pid"] == run.entry.pid
        answer = c.json("path", "r", "--weighting", "wall", "--by", "machine",
                        status=(0, 3))
        model = delays.Model(run.nodes)
        assert model.longest().ns == answer["t_max_ns"]
        assert model.longest().own == delays.own_of_answer(run.nodes, answer)
        own = sum(n["arc_cpu_ns"] or 0 for n in run.nodes.values()
                  if n["pid"] == run.entry.pid)
        assert own > 0.9 * run.entry.cpu
    finally:
        shutil.rmtree(directory, ignore_errors=True)
