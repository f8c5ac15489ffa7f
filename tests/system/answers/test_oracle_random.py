"""Shows "random graphs: kernel, central and contract against an
independent oracle". A few hundred random graphs of message-passing programs,
each solved by the three C engines and by the oracle in Python: t_max, T, the
END chosen and every segment of the path must be the same. Would catch any
error that the C engines share, ties included."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
import path_oracle  # noqa: E402
import whatif_oracle  # noqa: E402

GRAPHS = 300


def answers(build):
    """(seed, oracle's answer, C answers, nodes) of each graph."""
    done = subprocess.run([build.program("random_graph"), "1", str(GRAPHS)],
                          check=True, text=True, stdout=subprocess.PIPE)
    lines = []
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if "seed" not in row:
            lines.append(line)
            continue
        nodes = path_oracle.read(lines)
        yield row["seed"], path_oracle.solve(nodes), row, nodes
        lines = []


@pytest.mark.quick
def test_engines_agree_with_oracle(build):
    solved = crossings = 0
    for seed, oracle, row, _ in answers(build):
        segments = [[s["kind"], s["from_node"], s["to_node"], s["ns"]]
                    for s in oracle.segments]
        for engine in ("kernel", "deque", "contract"):
            said = row[engine]
            where = f"seed {seed}, {engine}"
            assert said["t_max_ns"] == oracle.t_max_ns, where
            assert said["total_cpu_ns"] == oracle.total_cpu_ns, where
            assert said["end"] == oracle.end, where
            assert said["segments"] == segments, where
        assert sum(s[3] for s in segments) == oracle.t_max_ns
        solved += 1
        crossings += oracle.messages
    assert solved == GRAPHS
    assert crossings > GRAPHS  # the graphs are worth the trouble


@pytest.mark.quick
def test_slack_next_and_whatif_agree_with_oracle(build):
    """Slack of every arc, t_max with every chain gone or faster by 30%, and
    the next paths; would catch what the C engine's order, lanes and search
    have wrong together with its own tests."""
    solved = arcs = chains = paths = 0
    for seed, oracle, row, nodes in answers(build):
        graph = whatif_oracle.Graph(nodes, idle=True)
        assert graph.t_max() == oracle.t_max_ns
        slack = graph.slacks()
        for i in nodes:
            arcs += sum((i, cross) in slack for cross in (False, True))
            assert row["slack_chain"][i] == slack.get((i, False)), (seed, i)
            assert row["slack_cross"][i] == slack.get((i, True)), (seed, i)
        chain = {}  # node -> number of its chain
        for i in sorted(nodes):
            first = nodes[i]["pred"] is None
            chain[i] = len(set(chain.values())) if first else chain[i - 1]
        for key, percent in ("gone", 100), ("third", 30):
            assert len(row[key]) == len(set(chain.values())), (seed, key)
            chains += len(row[key])
            for c, t_max in enumerate(row[key]):
                assert t_max == graph.without(
                    lambda i, cross: not cross and chain[i] == c, percent), \
                    (seed, key, c)
        if len({graph.process(i) for i in nodes}) <= 6:
            expected = [ns for ns, _ in graph.next_by_process(5)]
            assert row["next"] == expected, seed
            paths += len(expected)
        solved += 1
    assert solved == GRAPHS
    # The graphs are worth the trouble.
    assert arcs > 10 * GRAPHS and chains > 2 * GRAPHS and paths > GRAPHS, \
        (arcs, chains, paths)


@pytest.mark.quick
def test_oracle_refuses_what_is_no_graph():
    """The oracle itself must not call a broken graph good."""
    node = dict.fromkeys(path_oracle.KEYS)
    node.update(id=0, machine="m1", pid=1, tid=1, kind="START")
    end = dict(node, id=1, kind="END", pred=0, arc_cpu_ns=5)
    good = [json.dumps(node), json.dumps(end)]
    assert path_oracle.solve(path_oracle.read(good)).t_max_ns == 5
    for change in (dict(end, pred=7), dict(end, arc_cpu_ns=-1),
                   dict(end, id=0), dict(end, xpred=1, xarc_cpu_ns=0)):
        with pytest.raises(path_oracle.BadGraph):
            path_oracle.solve(path_oracle.read(
                [json.dumps(node), json.dumps(change)]))
    without = dict(end)
    del without["xkind"]
    with pytest.raises(path_oracle.BadGraph):
        path_oracle.read([json.dumps(node), json.dumps(without)])
