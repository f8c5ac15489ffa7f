"""One 4-tuple, many connections (i_reuse.c): each is a channel of its own, and
what was sent over one is received from that one. Would catch connections taken
for one another or for one long one."""
import subprocess

import pytest

pytestmark = pytest.mark.quick
ROUNDS = 30


@pytest.mark.parametrize("machines", [1, 2])
def test_reused_address(cluster, machines):
    """Both ends on one machine, then on two (the master joins them)."""
    c = cluster(["m1", "m2"][:machines])
    program = c.build.program("i_reuse")
    server = c.popen([program, "serve", str(ROUNDS)], name="r",
                     stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip()
    c.ipsrun([program, "ask", port, str(ROUNDS)], join="r",
             machine=machines - 1, check=True)
    assert server.wait(timeout=120) == 0
    c.wait_closed("r", machines=machines)
    certificate = c.json("path", "r")["certificate"]
    assert certificate["unmatched"] == certificate["ambiguous"] == 0
    nodes = {n["id"]: n for n in c.graph("r")}
    sends = [n["id"] for n in nodes.values() if n["kind"] == "SEND"]
    arcs = {}  # (sender, receiver) -> sends in order of receives
    for n in nodes.values():
        if n["xkind"] == "data":
            pair = nodes[n["xpred"]]["pid"], n["pid"]
            assert pair[0] != pair[1]
            arcs.setdefault(pair, []).append(n["xpred"])
    # A connect and a question each round one way, an answer the other way:
    # each is received, and in the order they were sent.
    used = [list(dict.fromkeys(a)) for a in arcs.values()]
    assert sorted(map(len, used)) == [ROUNDS, 2 * ROUNDS]
    assert all(a == sorted(a) for a in used)
    # The port, on the server's standard output, was for us.
    assert len(set(sends) - set(sum(used, []))) == 1
