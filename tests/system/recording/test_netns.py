"""The same addresses and names in several network namespaces at once: messages
of one are not taken for another's (tests/programs/interposed/i_netns.c).
"""
import pytest


@pytest.mark.parametrize("case", ["tcp", "own", "udp", "abstract",
                                  "abstract-dgram", "moved"])
def test_namespaces_are_kept_apart(cluster, case):
    """Would catch: a namespace that is asked once for a process and its
    children, or for the thread and not for the socket, which stays where it
    was made; an address of the machine itself (own) or an abstract name that
    is looked for in other namespaces, too."""
    c = cluster()
    done = c.ipsrun([c.build.program("i_netns"), case], name="r")
    if done.returncode == 77:
        pytest.skip("no network namespace can be made")
    assert done.returncode == 0, done.stderr
    cell = dict(map(int, line.split()) for line in done.stdout.splitlines())
    c.wait_closed("r")
    nodes = {n["id"]: n for n in c.graph("r")}
    receives = [n for n in nodes.values()
                if n["kind"] == "RECV" and n["bytes"] == 50]
    assert len(receives) == 4 * 3
    for n in receives:
        assert n["xkind"] == "data"
        sender = nodes[n["xpred"]]["pid"]
        assert cell[sender] == cell[n["pid"]] and sender != n["pid"]
