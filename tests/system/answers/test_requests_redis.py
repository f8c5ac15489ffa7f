"""What the slowest 1% of the requests of an unmodified Redis have that the others have
not: a hundredth of them are stalled on purpose.

EVIDENCE-OF: IPS-13."""
import shutil
import sys

import pytest

from conftest import wait_until

STALL_S, REQUESTS, STALLED = 0.25, 300, 3

CLIENT = f"""
import socket, sys
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    return s
s = connect()
def ask(text):
    s.sendall(text + b"\\r\\n")
    while not s.recv(65536).endswith(b"\\r\\n"):
        pass
for i in range({REQUESTS}):
    if i % 100 == 50:
        ask(b"DEBUG SLEEP {STALL_S}")
    else:
        ask(b"SET key %d" % i)
s.close()
s = connect()
s.sendall(b"SHUTDOWN NOSAVE\\r\\n")
s.recv(100)
"""


@pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server")
def test_stalls_in_redis_are_named(cluster, tmp_path):
    """Would catch stalled requests that are not among the slowest, told of another
    process than the server, or by another cause than what they waited for."""
    c = cluster(["m1"])
    place = tmp_path / "redis.sock"
    server = c.popen(["redis-server", "--port", "0", "--unixsocket", place,
                      "--save", "", "--enable-debug-command", "yes", "--dir",
                      tmp_path], name="r", stdout=-3)
    wait_until("redis listens", place.exists, 60)
    (tmp_path / "client.py").write_text(CLIENT)
    c.ipsrun([sys.executable, tmp_path / "client.py", place], join="r",
             check=True)
    assert server.wait(60) == 0
    c.wait_closed("r")
    a = c.json("requests", "r", "--top", str(REQUESTS), status=(0, 3))
    service = a["services"][0]
    assert service["requests"] == REQUESTS, a["services"]
    assert "/redis-server." in service["process"]
    # What a machine does to others is no sleep of theirs.
    stalled = [row for row in a["slowest"] if row["ns"] >= STALL_S * 1e9]
    assert len(stalled) >= STALLED, a["slowest"][:5]
    assert any("/redis-server." in row["most"] for row in stalled)
    more = {row["cause"]: row for row in a["more"]}
    assert "timer" in more, a["more"]
    assert more["timer"]["slow_ns"] >= STALL_S * 1e9 / STALLED
    assert more["timer"]["median_ns"] == 0, more
    why = c.json("why", "r", "--for", "latency", status=(0, 3))
    assert "slow-requests" in [row["kind"] for row in why["findings"]]
