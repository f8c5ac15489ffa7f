"""The travelling-salesman program, measured on a cluster."""
import socket
import subprocess

from conftest import wait_until


def free_ports(count):
    """Ports that were free a moment ago, on loopback."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def exact(build, cities, seed):
    """What the solver must print."""
    return subprocess.run(
        [build.program("tsp-exact"), "--cities", str(cities), "--seed",
         str(seed)], capture_output=True, text=True, check=True).stdout


def start(c, run, version="plain", cities=12, seed=3, low=8, places=(1, 2, 0)):
    """Starts a controller on machine 0 and a server on each of `places`, all
    in `run`. The controller comes first, so it is the run's command; it waits
    for the servers. Returns (controller, servers) as Popen."""
    ports = free_ports(len(places))
    addresses = [
        f"{c.machines[m].host.address if c.machines[m].host else '127.0.0.1'}"
        f":{port}" for m, port in zip(places, ports)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
             "text": True}
    controller = c.popen(
        [c.build.program("tsp-controller"), "--version", version, "--cities",
         cities, "--seed", seed, "--low", low, "--servers",
         ",".join(addresses), "--work"], name=run, **pipes)
    # root's run directories have a random part after the name
    wait_until("the run is made", lambda: list(
        c.machines[0].pool.glob(f"{run}*/control")))
    servers = [c.popen([c.build.program("tsp-server"), "--listen", address],
                       join=run, machine=m, **pipes)
               for m, address in zip(places, addresses)]
    return controller, servers


def solve(c, run, **how):
    """Runs it to its end and checks its answer; returns the number of requests
    and answers that crossed."""
    controller, servers = start(c, run, **how)
    out, err = controller.communicate(timeout=270)
    assert controller.returncode == 0, err
    assert [s.wait(120) for s in servers] == [0] * len(servers)
    want = exact(c.build, how.get("cities", 12), how.get("seed", 3))
    assert out.startswith(want), "measuring changed what the program printed"
    served = [line for line in out.splitlines() if "work controller" in line]
    return int(served[0].split("requests ")[1].split(",")[0])
