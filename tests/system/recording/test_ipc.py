"""System V semaphores and message queues, POSIX message queues: who waited and
who let it go, by tests/programs/interposed/i_ipc.c, whose main process waits in each case
until a child has seen it asleep. Programs behave as without us (the `trace`
fixture compares what every call returned).
"""
import pathlib
import struct

import pytest

from test_interposer import UNIX, program, trace  # noqa: F401 (a fixture)
from test_signals import Graph
from test_waits import children_of, who

pytestmark = pytest.mark.quick

SEMAPHORE, ETIMEDOUT = 6, 110
ROOM = ZERO = 2**32


def test_who_let_it_go(build, trace):
    """Would catch: a call that is not wrapped, by name or by syscall(); two
    semaphores of a set, two queues, a queue's messages and its room taken for
    one; what a post of two or an exchange gives; errors and errno changed; a
    record where nobody waited; a call of ours behind a seccomp filter."""
    r = trace([program(build, "i_ipc")], status=0)
    parent = r.of("START", a=1)[0]["pid"]
    *children, filtered = children_of(r)
    # Who was off its core in the call whose time is over may have waited, and so
    # may the child that may not try first.
    waits = [w for w in r.of("ACQUIRE")
             if w["err"] != ETIMEDOUT and w["pid"] != filtered]
    assert {(w["a"], w["err"]) for w in waits} == {(SEMAPHORE, 0)}
    assert {w["pid"] for w in waits} == {parent}
    assert [w["object"] for w in waits] == [
        1, 1, 1,  # semaphore 1: semop, semtimedop, syscall()
        2, ZERO,
        0, ROOM,  # System V's queue
        0, 0, ROOM, ROOM]
    names = [(w["dev"], w["ino"]) for w in waits]
    assert len(set(names[:5])) == len(set(names[5:7])) == \
        len(set(names[7:])) == 1 and len(set(names)) == 3
    # All but the wait for zero, which nobody posts.
    assert [a for a in who(Graph(build, r).arcs("resource"))
            if a[1] != filtered] == \
        [(c, parent) for i, c in enumerate(children) if i != 4]
    gave = [w["value"] for w in r.of("RELEASE") if w["object"] == 2]
    assert gave == [2]


def test_answers_beside_the_result(build, trace):
    """Lengths, flags and errno are the kernel's. Would catch: a header that the copy
    of it was filled in for, an errno of our own calls; a message to another than the
    one whom sendmmsg names."""
    r = trace([program(build, "i_answers"), "/etc/passwd"])
    assert sorted(r.moved(UNIX).values()) == [[3, 17], [17, 3]]
    to = {}
    for row, after in zip(r.rows, r.rows[1:]):
        if row["type"] == "DGRAM" and after["result"] in (5, 9):
            to.setdefault(after["result"], {})[after["type"]] = row
    for got in to.values():
        assert got["SEND"]["remote"] == got["RECV"]["local"]
        assert got["SEND"]["local"] == got["RECV"]["remote"]
        assert got["SEND"]["hash"] == got["RECV"]["hash"]
    assert to[5]["SEND"]["remote"] != to[9]["SEND"]["remote"]


PRICES_AT = {"open": 1344, "pass": 1352}  # in control: docs/pool-format.md


@pytest.mark.parametrize("what,count", [("open", 10000), ("pass", 300000)])
def test_what_leaves_no_record_is_paid(build, trace, what, count):
    """Would catch: files opened, or writes to what is no channel, that are not in the
    dilation since nothing says how many there were."""
    r = trace([program(build, "i_answers"), str(count), what], status=0)
    control = pathlib.Path(r.directory, "control").read_bytes()
    price_ps, = struct.unpack_from("<Q", control, PRICES_AT[what])
    if price_ps == 0:
        pytest.skip("the price was lost in the noise when it was measured")
    # Half: a first part is with what the image's beginning took.
    assert r.beyond_ns >= count * price_ps // 1000 // 2
