"""Answers about a run that still goes on agree with the final ones on what both
saw. A program (tests/programs/interposed/i_live.c) works until it has done so many turns,
says so and waits to be told on; questions are asked while it works and while it
waits, and compared with the graph of the whole run when all is over.

A node of an open graph is *settled* where all that it hangs on was seen, and,
of all of that and of itself, all that hangs on them: what a send or a release
caused may move it (a send is never passed later than its receive allows), and a
release makes a node only once it has let somebody go.

EVIDENCE-OF: ALGORITHMS-1 (live runs)"""
import json
import subprocess

import pytest

import oracle
import path_oracle
from conftest import wait_until

TURNS = (3, 1, 5)  # before each stop
BUSY = 150         # then, while questions are asked


class Graph:
    """Nodes by id, each with its place in its chain and its coordinate."""

    def __init__(self, lines, weightings):
        self.nodes = path_oracle.read(lines)
        self.key, self.by_key, self.at, self.effects = {}, {}, {}, {}
        count = {}
        for i in sorted(self.nodes):
            n = self.nodes[i]
            name = (n["machine"], n["pid"], n["tid"], n["kind"], n["t_ns"])
            count[name] = count.get(name, 0) + 1
            self.key[i] = name + (count[name],)
            self.by_key[self.key[i]] = i
            self.at[i] = 0 if n["pred"] is None else \
                self.at[n["pred"]] + n["arc_cpu_ns"]
            self.effects.setdefault(n["xpred"], []).append(i)
        self.est = {w: path_oracle.values(path_oracle.weighted(self.nodes, w))
                    for w in weightings}

    def received(self):
        """By process: receives of data that have their sends."""
        found = {}
        for n in self.nodes.values():
            if n["kind"] == "RECV" and n["xkind"] == "data" and n["bytes"]:
                key = n["machine"], n["pid"]
                found[key] = found.get(key, 0) + 1
        return found


def settled(final, seen):
    """Ids of final nodes whose causes, and what hangs on them, are in `seen`
    (keys of the open graph)."""
    good = {}
    for i in path_oracle.topological(final.nodes):
        n = final.nodes[i]
        fine = all(good[p] for p in (n["pred"], n["xpred"]) if p is not None)
        if n["xpred"] is not None:
            fine = fine and final.key[n["xpred"]] in seen
        if final.key[i] in seen:
            fine = fine and all(final.key[e] in seen
                                for e in final.effects.get(i, ()))
        else:  # a release that the open graph had no reason to show
            fine = fine and n["kind"] == "AUX" and n["xpred"] is None
        good[i] = fine
    return {i for i, fine in good.items() if fine and final.key[i] in seen}


def compare(open_graph, final):
    """How many nodes are settled; fails where one of them differs."""
    ends = {k for i, k in open_graph.key.items()
            if open_graph.nodes[i]["kind"] == "END"}  # virtual ones
    seen = set(open_graph.by_key) - ends
    lost = seen - set(final.by_key)
    assert not lost, lost
    found = settled(final, seen)
    for i in found:
        j = open_graph.by_key[final.key[i]]
        a, b = open_graph.nodes[j], final.nodes[i]
        assert open_graph.at[j] == final.at[i], (a, b)
        assert a["xkind"] == b["xkind"] and a["bytes"] == b["bytes"], (a, b)
        for weighting in final.est:
            assert a[f"xarc_{weighting}_ns"] == b[f"xarc_{weighting}_ns"], (a, b)
            assert open_graph.est[weighting][j] == final.est[weighting][i], \
                (weighting, a, b)
        if b["xpred"] is not None:
            assert open_graph.key[a["xpred"]] == final.key[b["xpred"]], (a, b)
    return len(found)


class Live:
    def __init__(self, c, weightings):
        self.c, self.weightings = c, weightings
        self.asked, self.turns = [], 0

    def lines(self):
        done = self.c.ipsq("graph", "r", "--format", "jsonl")
        assert done.returncode in (0, 3), done.stderr
        return done.stdout.splitlines()

    def ask(self):
        self.asked.append(Graph(self.lines(), self.weightings))
        return self.asked[-1]

    def tell(self, proc, turns):
        self.turns += turns
        proc.stdin.write(f"{turns}\n")
        proc.stdin.flush()

    def stopped(self, proc):
        """It has said so; what it did is there; the path is the graph's."""
        assert proc.stdout.readline() == f"done {self.turns}\n"

        def whole():
            before = self.lines()
            answer = self.c.json("path", "r", status=(0, 3))
            if self.lines() != before:
                return None  # somebody was still going to sleep
            graph = Graph(before, self.weightings)
            got = sorted(graph.received().values())
            return got[-2:] == [self.turns] * 2 and (graph, before, answer)
        graph, lines, answer = wait_until("the turns are seen", whole, 60)
        self.asked.append(graph)
        assert answer["open"]
        oracle.check_path([json.loads(line) for line in lines], answer)
        return len(self.asked) - 1

    def run(self, proc):
        """Stops, then questions while it works; how many answers were asked
        for when it had stopped, and how many turns it had done."""
        stops = {}
        for turns in TURNS:
            self.tell(proc, turns)
            stops[self.stopped(proc)] = self.turns
        self.tell(proc, BUSY)
        for _ in range(3):
            self.ask()
        stops[self.stopped(proc)] = self.turns
        proc.stdin.close()
        assert proc.wait(120) == 0
        return stops

    def check(self, stops, machines=1):
        self.c.wait_closed("r", machines=machines)
        answer = self.c.json("path", "r")
        assert not answer["open"] and answer["certificate"]["complete"]
        final = Graph(self.lines(), self.weightings)
        for number, graph in enumerate(self.asked):
            same = compare(graph, final)
            # Not for nothing: each turn but the last has a send and a receive
            # on either side.
            assert same >= 4 * (stops.get(number, 1) - 1), (number, same)


@pytest.mark.parametrize("run_delay", ["off", "on"])
def test_open_answers_are_a_beginning_of_the_final_one(cluster, build,
                                                       run_delay):
    """Would catch: a node that moves or vanishes when more is known, a cross
    arc that goes elsewhere, a receive given a sender too early, an answer about
    an open run that does not say so, a path that is not the open graph's. What
    a thread queued for the CPU is known when its kernel is asked next, so with
    run delay `sched` and `wall` are not settled; without it they are."""
    c = cluster(["m1"])
    live = Live(c, ("cpu", "sched", "wall") if run_delay == "off" else ("cpu",))
    proc = c.popen([build.program("i_live")], name="r", stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE, text=True,
                   options=[f"--run-delay={run_delay}"])
    live.check(live.run(proc))


def test_open_answers_over_two_machines(cluster, build):
    """The same where questions and answers cross between machines: also a
    message that one slave has told of and the other not yet."""
    c = cluster(["m1", "m2"])
    live = Live(c, ("cpu", "sched"))
    options = ["--run-delay=off"]
    server = c.popen([build.program("i_live"), "serve"], name="r", machine=1,
                     stdout=subprocess.PIPE, text=True, options=options)
    port = server.stdout.readline().split()[1]
    proc = c.popen([build.program("i_live"), "call", port], join="r",
                   machine=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                   text=True, options=options)
    stops = live.run(proc)
    assert server.wait(120) == 0
    live.check(stops, machines=2)


def test_a_question_reads_what_is_new(cluster, build):
    """Would catch: questions about a run that goes on sending and receiving
    that read all of it each time, and a path by a build that went on which is
    not the graph's. (Whatever the clocks do, some question goes on.)"""
    c = cluster(["m1"])
    live = Live(c, ("cpu",))
    proc = c.popen([build.program("i_live"), "alone"], name="r",
                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def few_read():
        live.tell(proc, 100)
        assert proc.stdout.readline() == f"done {live.turns}\n"
        answer = c.json("path", "r", status=(0, 3))
        read, events = (answer["certificate"][key]
                        for key in ("records_read", "events"))
        assert answer["open"] and read <= events
        return 0 < read < events / 3
    live.tell(proc, 1000)
    assert proc.stdout.readline() == f"done {live.turns}\n"
    wait_until("a question that goes on", few_read, 120)

    def settled():
        lines = live.lines()
        answer = c.json("path", "r", status=(0, 3))
        return (lines, answer) if lines == live.lines() else None
    lines, answer = wait_until("all is seen", settled, 60)
    oracle.check_path([json.loads(line) for line in lines], answer)
    proc.stdin.close()
    assert proc.wait(120) == 0
