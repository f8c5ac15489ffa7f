"""The table of waits: each way to wait, ended in each way, by a thread, by a process, and
by a process on another machine.

The program (tests/programs/interposed/i_matrix.c) has one cell for each. Whoever ends the
wait has computed for MS, and who waited computes for MS afterwards: the longest path has
both. A wait whose end has no arc would leave the first out.

One engine computes the path; `tests/bench/run matrix` asks all four, by IPS_TEST_ENGINES."""
import collections
import json
import os
import subprocess

import pytest

MS = 20
ENGINES = os.environ.get("IPS_TEST_ENGINES", "auto").split(",")
# What engines may differ in: how they computed it.
OF_THE_ENGINE = ("engine", "category", "took_ns", "cost_rounds", "cost_values", "cost_messages",
                 "cost_bytes", "cost_relayed", "certificate")


def cells(program):
    done = subprocess.run([program, "list"], check=True, capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


ENDERS = ("byte", "event", "close", "death", "shutdown", "own-shutdown", "reset",
          "reader-gone", "room", "ignored", "kill", "create", "modify", "rename", "remove",
          "message")


def record(c, command, run):
    if "machine" not in command:
        c.ipsrun(command, name=run, check=True)
        return
    waiter = c.popen(command, name=run, stdout=subprocess.PIPE, text=True)
    port, pid = waiter.stdout.readline().split()
    c.ipsrun([*command, port, pid], join=run, machine=1, check=True)
    assert waiter.wait() == 0


# What ended these is not known, and the answer admits it: who wrote into a file that is
# watched; whose reads let a close end that lingers.
def is_unseen(way, ender):
    return way == "linger" or ender == "modify"


@pytest.mark.parametrize("ender", ENDERS)
def test_who_ended_it(cluster, build, ender):
    """Would catch: a wait whose end has no arc, or the arc of an earlier event; a path that
    is too short and called complete; a wait counted twice, so that the path is longer than
    the run."""
    program, c, wrong = build.program("i_matrix"), cluster(["m1", "m2"]), []
    of_ender = [cell for cell in cells(program) if cell[1] == ender]
    assert of_ender
    for i, cell in enumerate(of_ender):
        record(c, [program, *cell, str(MS)], "c%d" % i)
    for i, cell in enumerate(of_ender):
        run = "c%d" % i
        c.wait_closed(run, machines=1 + ("machine" in cell))
        answers = [json.loads(c.ipsq("path", run, "--engine", engine, "--format", "json").stdout)
                   for engine in ENGINES]
        answer = answers[0]
        path, elapsed = answer["t_max_ns"], answer["elapsed_ns"]
        complete = answer["certificate"]["complete"]
        good = complete and 1.95e6 * MS <= path <= elapsed
        if is_unseen(*cell[:2]):
            bound = path + answer["certificate"]["unended_ns"]
            good = not complete and bound >= 1.95e6 * MS and path <= elapsed
        same = all(a[key] == answer[key] for a in answers for key in answer
                   if key not in OF_THE_ENGINE)
        if not good or not same:
            wrong.append((*cell, path, elapsed, same, answer["certificate"]["gaps"]))
            print(wrong[-1], c.ipsq("events", run).stdout, answers)
    assert not wrong


def test_the_table_is_whole(build):
    """Would catch: cells that nobody runs, because their ender is not in the list above."""
    found = collections.Counter(cell[1] for cell in cells(build.program("i_matrix")))
    assert set(found) == set(ENDERS)
    assert sum(found.values()) > 250


DIES = """
import os, time
def compute(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass
r, w = os.pipe()
child = os.fork()
if not child:
    os.close(r)
    compute(0.05)
    os._exit(0)
os.close(w)
os.read(r, 1)
compute(0.05)
os.waitpid(child, 0)
"""


def test_work_before_a_death(cluster):
    """A child computes and dies, its end of a pipe ends its parent's read, and the parent
    computes before it waits for the child. Would catch: an end-of-file that hangs on what
    the child recorded last, so that what it computed since is not on the path."""
    c = cluster()
    for k in range(3):
        run = f"r{k}"
        c.ipsrun(["/usr/bin/python3", "-c", DIES], name=run, check=True)
        c.wait_closed(run)
        nodes = {n["id"]: n for n in c.graph(run)}
        ends = [n for n in nodes.values()
                if n["kind"] == "RECV" and n["xkind"] == "lifetime"]
        assert [nodes[n["xpred"]]["kind"] for n in ends] == ["END"], ends
        assert c.json("path", run)["t_max_ns"] >= 95e6
