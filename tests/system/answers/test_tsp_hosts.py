"""The travelling-salesman program traced on three hosts, whose clocks are
hours apart, drift and step: the `cpu` path needs no clock of two machines.

Two executions never burn the same CPU, so what is compared is: each engine's
path against the independent oracle on the whole graph, and the graph's shape
(who sent how many messages to whom) between executions."""
import collections

import pytest

import oracle
import tsp

HOUR_NS = 3600 * 10**9


def cross_arcs(nodes):
    """{(from process, to process, kind): number of nodes that something over
    there depends on}, the processes by the order of their first node. (One
    message may be received in two pieces: it is one message.)"""
    number = {}
    by_id = {}
    for n in nodes:
        by_id[n["id"]] = n
        number.setdefault((n["machine"], n["pid"]), len(number))
    found = collections.defaultdict(set)
    for n in nodes:
        if n["xpred"] is None:
            continue
        p = by_id[n["xpred"]]
        found[number[p["machine"], p["pid"]], number[n["machine"], n["pid"]],
              n["xkind"]].add(p["id"])
    return {key: len(ids) for key, ids in found.items()}


def check(c, run, requests):
    """Everything that must hold of a traced TSP run, whatever the clocks."""
    c.wait_closed(run, machines=3)
    nodes = c.graph(run)
    answers = {e: c.json("path", run, "--engine", e)
               for e in ("contract", "central", "cm-sync", "cm-async")}
    for engine, answer in answers.items():
        cert = answer["certificate"]
        assert answer["engine"] == engine
        assert cert["complete"], cert
        assert not any(x["count"] for x in cert["lost"]), cert["lost"]
        assert cert["unmatched"] == cert["pending"] == 0, cert
        assert cert["ambiguous"] == 0, cert
        assert sorted(cert["machines"]) == ["m1", "m2", "m3"]
        oracle.check_path(nodes, answer)
        assert answer["t_max_ns"] <= answer["elapsed_ns"]
    one = answers["contract"]
    for engine, two in answers.items():
        for key in ("t_max_ns", "total_cpu_ns", "segments", "shares",
                    "p_max"):
            assert one[key] == two[key], (engine, key)
    for n in nodes:  # arcs of negative or wrapped length would be enormous
        for key in ("arc_cpu_ns", "xarc_cpu_ns"):
            assert n[key] is None or 0 <= n[key] < HOUR_NS, n
    arcs = cross_arcs(nodes)
    messages = sum(v for (a, b, kind), v in arcs.items()
                   if kind == "data" and a != b)
    # connect, problem, every request, the question for the work and its
    # answer, and the word to end; a server's end is seen by nobody
    assert messages == 2 * requests + 3 * (1 + 1 + 2 + 1), arcs
    by_machine = collections.Counter(n["machine"] for n in nodes)
    assert set(by_machine) == {"m1", "m2", "m3"}
    return arcs


@pytest.mark.parametrize("version", ["plain", "cache", "overlap"])
def test_three_hosts(cluster, hosts, version):
    """EVIDENCE-OF: DPM-2 DPM-5 DPM-11 IPS-5 IPS-6 IPS-11. Would catch a
    message between machines that is matched wrongly or not at all, and
    engines that disagree."""
    c = cluster(["m1", "m2", "m3"], hosts=hosts)
    check(c, "tsp", tsp.solve(c, "tsp", version=version))


def test_clocks_hours_apart(cluster, make_hosts):
    """EVIDENCE-OF: DPM-1. Monotonic clocks moved by time namespaces."""
    c = cluster(["m1", "m2", "m3"],
                hosts=make_hosts(3, offsets=[7200, 0, 36000]))
    check(c, "tsp", tsp.solve(c, "tsp"))


@pytest.mark.parametrize("clocks", [
    {0: f"{2 * HOUR_NS},0,0,0", 1: f"{7 * HOUR_NS},0,0,0"},
    {1: "0,200,0,0", 2: "0,-200,0,0"},
    {1: f"0,0,50000000,{3 * 10**9}"},
    {0: f"{2 * HOUR_NS},200,30000000,{10**9}", 1: f"{HOUR_NS},-200,0,0",
     2: f"0,0,40000000,{7 * 10**9}"}],
    ids=["offset", "drift", "step", "all"])
def test_injected_clock_error(cluster, hosts, clocks):
    """EVIDENCE-OF: DPM-1 DPM-5. Offset, drift of 200 ppm and a step put into
    every stamp by the agent (name spaces do not move the counter that it
    reads)."""
    c = cluster(["m1", "m2", "m3"], hosts=hosts)
    for machine, clock in clocks.items():
        c.machines[machine].env["IPS_TEST_CLOCK"] = clock
    check(c, "tsp", tsp.solve(c, "tsp"))


def test_loopback_machines(cluster):
    """The fallback where namespaces are not permitted: three machines that
    share one network. Loopback connections between different pools must be
    joined all the same."""
    c = cluster(["m1", "m2", "m3"])
    check(c, "tsp", tsp.solve(c, "tsp"))


@pytest.mark.quick
def test_shape_is_the_same_with_every_placement(cluster):
    """One machine or three: the same processes send the same messages. Plain
    asks in an order that depends on no timing, so with one server the graph's
    shape is fixed."""
    one = cluster(["m1"])
    requests = tsp.solve(one, "tsp", places=(0,))
    one.wait_closed("tsp")
    two = cluster(["m1", "m2"])
    assert tsp.solve(two, "tsp", places=(1,)) == requests
    two.wait_closed("tsp", machines=2)

    def messages(c):
        return sorted(v for (a, b, kind), v in cross_arcs(c.graph("tsp"))
                      .items() if kind == "data" and a != b)
    assert messages(one) == messages(two)
