"""What is not measured appears as outside waits, never as somebody's work."""
import http.server
import threading
import time

import pytest

SLEEP_S = 0.1  # below the time that curl waits before it looks round


@pytest.fixture
def slow_server():
    """An HTTP server in this process, which nobody measures."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(SLEEP_S)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.quick
def test_round_trip_through_an_untraced_process(cluster, slow_server):
    """EVIDENCE-OF: DPM-4. We ask, somebody unknown answers: an arc of the
    elapsed time of the round trip, in the middle of the path; gone where
    external arcs are off. Would catch a path that jumps over the wait, and one
    that charges it to the program."""
    c = cluster()
    done = c.ipsrun(["curl", "-s", f"http://127.0.0.1:{slow_server}/"],
                    name="r", check=True)
    assert done.stdout == "ok"
    c.wait_closed("r")
    path = c.json("path", "r")
    waits = [s["ns"] for s in path["segments"] if s["kind"] == "external"]
    # 1%: the clock that the server slept by is another one.
    assert path["t_max_ns"] >= sum(waits) >= 0.99 * SLEEP_S * 10**9
    assert path["certificate"]["external"] >= 1
    off = c.json("path", "r", "--external", "off")
    assert not any(s["kind"] == "external" for s in off["segments"])
    assert off["t_max_ns"] <= off["total_cpu_ns"]


@pytest.mark.quick
def test_unasked_requests_are_idle(cluster):
    """EVIDENCE-OF: DPM-4. A measured server with a client that is not: waiting
    for the next request weighs nothing, unless asked for."""
    import socket

    import tsp
    port = tsp.free_ports(1)[0]
    c = cluster()
    server = c.popen(["redis-server", "--port", str(port), "--save", "",
                      "--bind", "127.0.0.1"], name="r")
    deadline = time.monotonic() + 120
    while True:
        try:
            s = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for _ in range(5):
        time.sleep(0.1)
        s.sendall(b"PING\r\n")
        assert s.recv(100) == b"+PONG\r\n"
    s.sendall(b"SHUTDOWN NOSAVE\r\n")
    assert server.wait(120) == 0
    s.close()
    c.wait_closed("r")
    path = c.json("path", "r")
    assert path["certificate"]["idle"] > 0
    waits = sum(s["ns"] for s in path["segments"] if s["kind"] == "external")
    assert path["t_max_ns"] - waits <= path["total_cpu_ns"]
    whole = c.json("path", "r", "--external", "all")
    assert whole["t_max_ns"] > path["t_max_ns"]
