"""Datagrams of which one call moves several, that several sockets receive, or
of which a receive has the beginning only: each receive hangs on the send that
the program says (tests/programs/interposed/i_dgrams.c).
"""
import collections

import pytest

CASES = ("option", "number", "message", "messages", "there", "join",
         "join-plain", "join-from", "join-bare", "multicast", "broadcast",
         "cut", "cut-short", "cut-unix")


@pytest.mark.parametrize("case", CASES)
def test_which_send(cluster, case):
    """Would catch: a send of several datagrams taken for one, whose receives
    find none; a receive of several that hangs on the first, or on none; one
    datagram for one receiver of a group alone, or two of one for two; a
    message that was cut that finds no send, or another one's."""
    c = cluster()
    done = c.ipsrun([c.build.program("i_dgrams"), case], name="r", check=True)
    expected = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        pid, number = map(int, line.split())
        expected[pid].append(number)
    assert expected, "nothing was received"
    c.wait_closed("r")
    nodes = {n["id"]: n for n in c.graph("r")}
    dgrams = [n for n in nodes.values()
              if (n["channel"] or "").startswith(("udp", "unix"))]
    senders = {n["pid"] for n in dgrams if n["kind"] == "SEND"}
    (sender,) = senders - set(expected)
    sends = sorted(n["id"] for n in dgrams
                   if n["kind"] == "SEND" and n["pid"] == sender)
    for pid, numbers in expected.items():
        receives = sorted((n for n in dgrams
                           if n["kind"] == "RECV" and n["pid"] == pid),
                          key=lambda n: n["id"])
        assert [r["xkind"] for r in receives] == ["data"] * len(numbers)
        assert [sends.index(r["xpred"]) + 1 for r in receives] == numbers


@pytest.mark.parametrize("case", ["sendto", "message", "urgent",
                                  "urgent-inside"])
def test_connections(cluster, case):
    """Would catch: a connection that its first send made (MSG_FASTOPEN) and
    whose accept and first receive find nothing; urgent data that is not
    recorded, so that what comes behind it hangs on another send
    (tests/programs/interposed/i_sends.c)."""
    c = cluster()
    done = c.ipsrun([c.build.program("i_sends"), case], name="r", check=True)
    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    ((reader,), numbers) = {p for p, _ in lines}, [n for _, n in lines]
    c.wait_closed("r")
    nodes = {n["id"]: n for n in c.graph("r")}
    tcp = sorted((n for n in nodes.values()
                  if (n["channel"] or "").startswith("tcp")),
                 key=lambda n: n["id"])
    sends = [n["id"] for n in tcp if n["kind"] == "SEND"]
    receives = [n for n in tcp
                if n["kind"] == "RECV" and n["pid"] == reader][:len(numbers)]
    assert [n["xkind"] for n in receives] == ["data"] * len(numbers)
    assert [sends.index(n["xpred"]) + 1 for n in receives] == numbers
