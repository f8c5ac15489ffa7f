"""Many reads by POSIX AIO at once: which channel each of them is for is kept in a table."""
import pytest

PLACES = 1024 # REQUESTS in agent/preload/io/aio.c


@pytest.mark.parametrize("count", [100, 3000])
def test_reads_that_do_not_fit(cluster, build, count):
    """Would catch: a read that is forgotten because another one has the same hash; one
    that has no place, so that later receives get the wrong senders, and the answer is
    `complete`."""
    c = cluster()
    c.ipsrun([build.program("i_requests"), str(count)], name="r", check=True)
    c.wait_closed("r")
    events = c.json("events", "r")["events"]
    received = sum(e["type"] == "receive" for e in events)
    certificate = c.json("path", "r", status=(0, 3))["certificate"]
    assert received + sum(each["count"] for each in certificate["lost"]) == count
    assert certificate["complete"] == (received == count) == (count < PLACES)
    assert received <= PLACES
