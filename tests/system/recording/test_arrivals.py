"""QUEUE: when a datagram arrived that was read later (ipsrun --arrivals)."""
import re

PROGRAM = """
import socket, sys, time

def play(family, kind, at):
    a, b = socket.socket(family, kind), socket.socket(family, kind)
    b.bind(at)
    to = b.getsockname()
    for i in range(4):
        a.sendto(b"x%d" % i, to)
        time.sleep(0.05)
        assert b.recv(100) == b"x%d" % i

play(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
play(socket.AF_UNIX, socket.SOCK_DGRAM, sys.argv[1])
a, b = socket.socketpair()
a.send(b"stream")
time.sleep(0.05)
b.recv(100)
"""


def events_of(cluster, tmp_path, *options):
    c = cluster()
    c.ipsrun(["python3", "-c", PROGRAM, str(tmp_path / "s")], name="r",
             options=options)
    c.wait_closed("r")
    return c.json("events", "r")["events"]


def test_a_datagram_arrives_between_send_and_receive(cluster, tmp_path):
    """Would catch: an arrival of another datagram, by another clock, after the
    call that took it; one of what is no UDP datagram; a wrong time unread."""
    rows = events_of(cluster, tmp_path, "--arrivals")
    queued = [i for i, e in enumerate(rows) if e["type"] == "queue"]
    # The socket begins to note them at the first; the kernel turns its clock
    # on a little later.
    assert 1 <= len(queued) <= 3
    for i in queued:
        assert rows[i]["channel"].startswith("udp ")
        send = [e for e in rows[:i] if e["type"] == "send"][-1]
        call, got = [e for e in rows[i:] if e["channel"] == rows[i]["channel"]
                     and e["type"].startswith("receive")][:2]
        assert (call["type"], got["type"]) == ("receive-call", "receive")
        # A millionth of a second: what lies between readings of two clocks.
        assert send["t_ns"] - 1000 <= rows[i]["t_ns"] <= call["t_ns"]
        unread = int(re.search(r"unread (\d+) ns", got["detail"]).group(1))
        assert unread == call["t_ns"] - rows[i]["t_ns"]
    assert len([e for e in rows if "unread" in (e["detail"] or "")]) == len(queued)


def test_off_by_default(cluster, tmp_path):
    """Would catch: two system calls more for each datagram of everybody."""
    assert not [e for e in events_of(cluster, tmp_path) if e["type"] == "queue"]
