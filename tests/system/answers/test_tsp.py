"""The travelling-salesman program itself, not measured: what the other tests
trace must be right, and the same whatever the timing."""
import signal
import subprocess

import pytest


def start_servers(build, count):
    servers = [subprocess.Popen(
        [build.program("tsp-server"), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)]
    return servers, [s.stdout.readline().split()[1] for s in servers]


def controller(build, version, cities, seed, addresses, *more):
    return [build.program("tsp-controller"), "--version", version, "--cities",
            str(cities), "--seed", str(seed), "--servers",
            ",".join(addresses), *more]


def solve(build, version, cities, seed, count, *more):
    servers, addresses = start_servers(build, count)
    try:
        done = subprocess.run(
            controller(build, version, cities, seed, addresses, *more),
            capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        assert [s.wait(120) for s in servers] == [0] * count
        return done.stdout
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def exact(build, cities, seed):
    return subprocess.run(
        [build.program("tsp-exact"), "--cities", str(cities), "--seed",
         str(seed)], capture_output=True, text=True, check=True).stdout


@pytest.mark.quick
@pytest.mark.parametrize("version", ["plain", "cache", "overlap"])
@pytest.mark.parametrize("servers", [1, 2, 3, 4])
def test_tour_is_the_exact_solvers(build, version, servers):
    """EVIDENCE-OF: DPM-11. Would catch a bound that cuts the optimum, a stale
    cache entry, an answer booked to the wrong request."""
    for cities, seed in [(3, 1), (5, 2), (8, 3), (9, 4), (12, 5), (13, 6),
                         (14, 7)]:
        assert solve(build, version, cities, seed, servers) == \
            exact(build, cities, seed), f"{cities} cities, seed {seed}"


def test_size_of_the_paper(build):
    """Sixteen and twenty cities, by each version and different low nodes."""
    for cities, low in [(16, 4), (16, 12), (20, 15)]:
        if low == 4:  # many requests: an easier one
            cities = 12
        want = exact(build, cities, 3)
        for version in ("plain", "cache", "overlap"):
            got = solve(build, version, cities, 3, 3, "--low", str(low))
            assert got == want, f"{version} {cities} {low}"


@pytest.mark.quick
def test_many_tours_of_equal_length(build):
    """Small problems over many seeds: ties are resolved alike everywhere."""
    for seed in range(20):
        assert solve(build, "overlap", 7, seed, 2, "--low", "3") == \
            exact(build, 7, seed)


@pytest.mark.quick
def test_caching_saves_work(build):
    """The versions differ in what they do, as tsp.h says."""
    def work(version):
        out = solve(build, version, 14, 2, 2, "--work", "--low", "10")
        line = next(x for x in out.splitlines() if "work controller" in x)
        bounds = sum(int(x.split("bounds ")[1].split(",")[0])
                     for x in out.splitlines() if x.startswith("work 127"))
        return int(line.split("requests ")[1].split(",")[0]), bounds

    plain, cache, overlap = map(work, ("plain", "cache", "overlap"))
    assert cache[0] < plain[0] and cache[1] < plain[1]
    assert overlap[0] == cache[0]


@pytest.mark.quick
def test_death_of_a_server_is_an_error(build):
    servers, addresses = start_servers(build, 3)
    try:
        proc = subprocess.Popen(
            controller(build, "plain", 20, 2, addresses, "--low", "15"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            proc.wait(0.5)  # it takes half a minute
        servers[1].send_signal(signal.SIGKILL)
        out, err = proc.communicate(timeout=120)
        assert proc.returncode == 1 and out == ""
        assert f"lost server {addresses[1]}" in err
        for server in (servers[0], servers[2]):
            assert server.wait(120) == 1
            assert "lost the controller" in server.stderr.read()
    finally:
        for server in servers:
            server.kill()
            server.communicate()


@pytest.mark.quick
def test_hostile_controller(build):
    """Bytes that are no problem: the server says so and ends."""
    import socket
    for data in (b"", b"x" * 5000, b"TSP1" + b"\xff" * 2000):
        servers, addresses = start_servers(build, 1)
        host, port = addresses[0].split(":")
        with socket.create_connection((host, int(port))) as s:
            s.sendall(data)
        assert servers[0].wait(120) == 1
        assert "lost the controller" in servers[0].communicate()[1]


@pytest.mark.quick
@pytest.mark.parametrize("words", [
    [], ["--cities", "21"], ["--cities", "x"], ["--version", "fast"],
    ["--cities", "8", "--version", "plain"], ["--nosuch", "1"]])
def test_wrong_usage(build, words):
    done = subprocess.run([build.program("tsp-controller"), *words],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "usage:" in done.stderr
