"""Three hosts that reach each other at tls: addresses alone, as machines of a
real network do: nothing is shared but the keys that deploy/keys made; and the
roles that these keys give."""
import contextlib
import re
import socket
import ssl
import subprocess
import time

import pytest
from conftest import ROOT, clean_env, end_process, wait_until

import test_tsp_hosts
import tsp
import wire


def keys(top, *names):
    done = subprocess.run([ROOT / "deploy" / "keys", top, *names],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return top


def start(c, hosts, top):
    """The cluster's master on the first host, its questions from the third."""
    c.address = f"tls:{hosts[0].address}:7070"

    def ipsq(*words, timeout=180, typed="", who="ada"):
        more = ["--tls", top / who] if who else []
        return subprocess.run(
            hosts[2].command([c.build.bin("ipsq"), "--master", c.address,
                              *more, "--state", c.state, *words]),
            env=clean_env(), input=typed, capture_output=True, text=True,
            timeout=timeout)

    c.ipsq = ipsq
    with open(c.log, "ab") as log:
        c.master = subprocess.Popen(
            hosts[0].command([c.build.bin("ips-master"), "--state", c.state,
                              "--listen", c.address, "--tls", top / "m1"]),
            env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd="/")
    for machine, host in zip(c.machines, hosts):
        machine.options = ["--tls", top / machine.name,
                           "--listen", f"tls:{host.address}:7071"]
        machine.env["IPS_LOG"] = "info"
        machine.start_slave()
    c.wait_connected()


def test_three_hosts_with_tls_alone(cluster, hosts, tmp_path):
    """EVIDENCE-OF: IPS-5 IPS-6. Would catch a part of the protocol that does
    not go through TLS (asking, reports, letters between slaves), and whoever
    has other keys, or none, and is let in."""
    top = keys(tmp_path / "ours", "ada", "--master", *(
        f"{name}={host.address}" for name, host in
        zip(("m1", "m2", "m3"), hosts)))
    keys(tmp_path / "theirs", "m4=" + hosts[1].address)
    c = cluster(["m1", "m2", "m3"], hosts=hosts, daemons=False)
    start(c, hosts, top)
    test_tsp_hosts.check(c, "tsp", tsp.solve(c, "tsp"))
    assert "through the master" not in c.logs()  # slaves reach each other

    done = c.ipsq("runs", who=None)
    assert done.returncode == 2 and "deploy/keys" in done.stderr, done.stderr
    done = c.ipsq("runs", who="../theirs/m4")
    assert done.returncode != 0 and "same ca.pem" in done.stderr, done.stderr

    log = c.root / "stranger.log"
    with open(log, "wb") as out:
        stranger = subprocess.Popen(
            hosts[1].command([
                c.build.bin("ips-slave"), "--pool", c.root / "pool" / "m4",
                "--state", c.root / "m4", "--machine", "m4", "--listen",
                "none", "--master", c.address, "--tls",
                tmp_path / "theirs" / "m4"]),
            env=clean_env(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            cwd="/")
    c.started.append(stranger)
    wait_until("the stranger is told", lambda:
               "same ca.pem" in log.read_text() or stranger.poll())
    assert stranger.poll() is None, log.read_text()
    assert end_process(stranger) == 0
    names = {s["machine"] for s in c.json("status", status=(0, 3))["slaves"]}
    assert names == {"m1", "m2", "m3"}


def test_without_tls_only_if_told_so(cluster, hosts):
    """Would catch hosts that talk without TLS unless every program of them was
    started with --insecure, and daemons that do so without a warning."""
    c = cluster(["m1", "m2"], hosts=hosts, daemons=False)
    c.address = f"tcp:{hosts[0].address}:7070"

    def ask(*words):
        return subprocess.run(
            hosts[2].command([c.build.bin("ipsq"), "--master", c.address,
                              "--state", c.state, *words]),
            env=clean_env(), capture_output=True, text=True, timeout=180)

    c.ipsq = lambda *words, **_: ask("--insecure", *words)
    with open(c.log, "ab") as log:
        c.master = subprocess.Popen(
            hosts[0].command([c.build.bin("ips-master"), "--insecure",
                              "--state", c.state, "--listen", c.address]),
            env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd="/")
    m1, m2 = c.machines
    m1.options = ["--insecure", "--listen", f"tcp:{hosts[0].address}:7071"]
    m1.start_slave()
    c.wait_connected()
    # There a private slave is started.
    done = c.ipsrun(["true"], name="plain", machine=1,
                    options=["--insecure"])
    assert done.returncode == 0, done.stderr
    c.wait_closed("plain")
    done = ask("runs")
    assert done.returncode == 1 and "--insecure" in done.stderr, done.stderr
    for log in m1.log, m2.state / "slave.log":
        assert f"--master {c.address}: no TLS" in log.read_text()
    assert "7071: no TLS" in m1.log.read_text()
    assert f"{c.address}: no TLS" in c.log.read_text()


# --- roles ----------------------------------------------------------------

def older_keys(top, name):
    """Keys as deploy/keys made them before there were roles."""
    made = keys(top, name) / name
    for command in (
            f"openssl req -new -key {made}/key.pem -subj /CN={name} -out {top}/r",
            f"openssl x509 -req -in {top}/r -CA {top}/ca/ca.pem -CAkey "
            f"{top}/ca/ca.key -CAcreateserial -days 9 -out {made}/cert.pem"):
        subprocess.run(command.split(), capture_output=True, check=True)


def peer_with(made, address):
    """A connection to a tls: address with the keys of that directory."""
    host, port = address.removeprefix("tls:").rsplit(":", 1)
    context = ssl.create_default_context(cafile=made / "ca.pem")
    context.load_cert_chain(made / "cert.pem", made / "key.pem")
    return wire.Peer(context.wrap_socket(
        socket.create_connection((host, int(port))), server_hostname=host))


def verdict(made, address, role, machine=b""):
    """What the listener answers to a Hello: "" is welcome."""
    peer = peer_with(made, address)
    peer.hello(role, machine)
    kind, hello = peer.get()
    assert kind == wire.HELLO
    peer.close()
    return hello.get(7, b"").decode()


@pytest.fixture
def tls_cluster(cluster, tmp_path):
    """Two machines on loopback; keys of m1 (master), m2, ada and old."""
    top = keys(tmp_path / "keys", "ada", "--master", "m1=127.0.0.1",
               "m2=127.0.0.1")
    older_keys(top, "old")
    c = cluster(["m1", "m2"], daemons=False)
    c.keys, c.address = top, "tls:127.0.0.1:0"
    with open(c.log, "ab") as log:
        c.master = subprocess.Popen(
            [c.build.bin("ips-master"), "--state", c.state, "--listen",
             c.address, "--tls", top / "m1"],
            env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd="/")
    wait_until("the master listens", lambda: "listening on" in c.log.read_text())
    c.address = re.search("listening on (.*)", c.log.read_text())[1]
    c.ipsq = lambda *words, who="ada", **_: subprocess.run(
        [c.build.bin("ipsq"), "--master", c.address, "--tls", top / who,
         "--state", c.state, *words], env=clean_env(), text=True,
        capture_output=True, timeout=180)
    for machine in c.machines:
        with socket.create_server(("127.0.0.1", 0)) as free:
            machine.peers = "tls:127.0.0.1:%d" % free.getsockname()[1]
        machine.options = ["--tls", top / machine.name, "--listen",
                           machine.peers]
        machine.env["IPS_LOG"] = "info"
        machine.start_slave()
    c.wait_connected()
    return c


def test_a_key_has_one_role(tls_cluster):
    """EVIDENCE-OF: IPS-5. Would catch a master or slave that lets whoever may
    only ask be a machine, or take the place of one that is silent; a machine
    that passes for another one, or for the master; and refusals without the
    address, the name, the role it has, the one it needs, and what to do."""
    c = tls_cluster
    m1, m2, ada, old = (c.keys / name for name in ("m1", "m2", "ada", "old"))
    assert c.machines[1].stop_slave() == 0

    def silent():
        rows = {s["machine"]: s for s in
                c.json("status", status=(0, 3))["slaves"]}
        return set(rows) == {"m1", "m2"} and not rows["m2"]["connected"]

    wait_until("m2 is silent", silent)
    for made, role, machine, has, needed in (
            (ada, wire.SLAVE, b"ada", "client", "slave"),
            (ada, wire.SLAVE, b"m2", "client", "slave"),
            (ada, wire.MASTER, b"", "client", "master"),
            (m2, wire.MASTER, b"", "slave", "master"),
            (old, wire.SLAVE, b"old", "no role", "slave"),
            (old, wire.CLIENT, b"", "no role", "client")):
        said = verdict(made, c.address, role, machine)
        assert re.match(r"127\.0\.0\.1:\d+: ", said), said
        for part in (f'"{made.name}" has', has, f"role {needed} is needed",
                     "deploy/keys"):
            assert part in said, said
    said = verdict(m1, c.address, wire.SLAVE, b"m2")
    assert "not for machine m2" in said and "--machine m1" in said, said
    assert silent()
    assert "speaks with clients and slaves" in verdict(m1, c.address,
                                                       wire.MASTER)
    assert verdict(ada, c.address, wire.CLIENT) == ""
    assert verdict(m2, c.address, wire.SLAVE, b"m2") == ""

    there = c.machines[0].peers
    assert "role slave is needed" in verdict(ada, there, wire.SLAVE, b"ada")
    assert "role master is needed" in verdict(m2, there, wire.MASTER)
    assert "not for machine m1" in verdict(m2, there, wire.SLAVE, b"m1")
    for made, role in (m1, wire.MASTER), (ada, wire.CLIENT):
        assert "other slaves only" in verdict(made, there, role)
    assert verdict(m2, there, wire.SLAVE, b"m2") == ""

    # 8 and 5 in the log, which has room for 10 a minute.
    for log, count in (c.log, 8), (c.machines[0].log, 5):
        said = re.findall(r"warn connection refused: 127\.0\.0\.1:\d+(.*)",
                          log.read_text())
        assert len(said) == count, said
        assert any('"ada"' in line and "role slave is needed" in line
                   for line in said), said
    assert '(certificate "m1"): this is a slave' in c.machines[0].log.read_text()


def test_a_refused_version_is_one_line(tls_cluster):
    """Would catch a wrong version that is not in the log with the address and
    the name, and one whose text writes lines of its own into the log."""
    c = tls_cluster
    peer = peer_with(c.keys / "ada", c.address)
    peer.put(wire.HELLO, wire.message((1, 99), (2, b"1\nforged"), (3, 1)))
    assert b"protocol version 99" in peer.get()[1][7]
    peer.close()
    assert re.search(r'warn connection refused: 127\.0\.0\.1:\d+ \(certificate '
                     r'"ada"\): protocol version 99 \(IPS 1\?forged\)',
                     c.log.read_text()), c.log.read_text()


def test_a_scanner_does_not_fill_the_log(tls_cluster):
    """Would catch a master that logs each of very many refused connections, or
    none of them."""
    c = tls_cluster
    begin = time.monotonic()
    at = c.address.removeprefix("tls:127.0.0.1:")
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", int(at))) as scan:
            scan.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                while scan.recv(1000):
                    pass
    assert c.ipsq("runs").returncode == 0
    lines = re.findall(r"warn connection refused: 127\.0\.0\.1:\d+: TLS",
                       c.log.read_text())
    minutes = 1 + (time.monotonic() - begin) // 60
    assert 0 < len(lines) <= 10 * (1 + minutes), lines


def test_programs_refuse_keys_of_another_role(tls_cluster):
    """Would catch a daemon that starts with keys which no other will take, and
    messages that do not say how to make the right ones."""
    c = tls_cluster
    slave = [c.build.bin("ips-slave"), "--pool", c.root / "p", "--state",
             c.root / "s", "--master", c.address, "--listen", "none"]
    master = [c.build.bin("ips-master"), "--state", c.root / "s", "--listen",
              "tls:127.0.0.1:0"]
    for words, who, *texts in (
            ([*slave, "--machine", "ada"], "ada", "role client", "NAME=ADDR"),
            ([*slave, "--machine", "m3"], "m2", "--machine m2"),
            ([*slave, "--machine", "old"], "old", "no role", "make it anew"),
            (master, "m2", "role slave", "--master NAME=ADDRESS"),
            (master, "old", "no role", "make it anew")):
        done = subprocess.run([*words, "--tls", c.keys / who],
                              env=clean_env(), capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 2, done.stderr
        for text in texts:
            assert text in done.stderr, done.stderr
    done = c.ipsq("runs", who="old")
    assert done.returncode != 0 and "no role" in done.stderr, done.stderr
    for who in "ada", "m1", "m2":
        assert c.ipsq("runs", who=who).returncode == 0


def test_roles_that_keys_gives(tmp_path):
    """Would catch keys that were made without a role, or for another one, and
    are kept in silence."""
    script, top = ROOT / "deploy" / "keys", tmp_path / "k"
    words = ["--master", "m1=10.0.0.1", "m2=10.0.0.2", "ada", "--slave", "m3"]
    keys(top, *words)
    keys(top, *words)
    for name, role in ("m1", "master"), ("m2", "slave"), ("m3", "slave"), (
            "ada", "client"):
        done = subprocess.run(["openssl", "x509", "-noout", "-subject", "-in",
                               top / name / "cert.pem"], capture_output=True,
                              text=True, check=True)
        assert f"ips-{role}" in done.stdout and name in done.stdout
    older_keys(top, "old")
    for words, text in ((("m1=10.0.0.1",), "role master, not slave"),
                        (("--slave", "ada"), "role client, not slave"),
                        (("old",), "older deploy/keys")):
        done = subprocess.run([script, top, *words], capture_output=True,
                              text=True)
        assert done.returncode == 1 and text in done.stderr, done.stderr
        assert "remove it" in done.stderr


def test_wrong_usage_of_keys(tmp_path):
    """Would catch keys made of a mistyped word, or others' keys replaced."""
    script = ROOT / "deploy" / "keys"
    for words in ([], ["d"], ["d", "ca"], ["d", "a=host.org"], ["d", "a b"],
                  ["d", "a", "--days", "0"], ["--frob", "d", "a"],
                  ["d", "--master", "a"], ["d", "--master"],
                  ["d", "--slave"]):
        done = subprocess.run([script, *words], capture_output=True, text=True,
                              cwd=tmp_path)
        assert done.returncode == 2 and done.stderr, words
    keys(tmp_path / "k", "a=10.0.0.1")
    before = (tmp_path / "k" / "a" / "cert.pem").read_bytes()
    assert (tmp_path / "k" / "a" / "key.pem").stat().st_mode & 0o77 == 0
    keys(tmp_path / "k", "a=10.0.0.2", "b")
    assert (tmp_path / "k" / "a" / "cert.pem").read_bytes() == before
