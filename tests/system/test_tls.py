"""Three hosts that reach each other at tls: addresses alone, as machines of a
real network do: nothing is shared but the keys that deploy/keys made."""
import subprocess

from conftest import ROOT, clean_env, end_process, wait_until

import test_tsp_hosts
import tsp


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
    top = keys(tmp_path / "ours", "ada", *(
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


def test_wrong_usage_of_keys(tmp_path):
    """Would catch keys made of a mistyped word, or others' keys replaced."""
    script = ROOT / "deploy" / "keys"
    for words in ([], ["d"], ["d", "ca"], ["d", "a=host.org"], ["d", "a b"],
                  ["d", "a", "--days", "0"], ["--frob", "d", "a"]):
        done = subprocess.run([script, *words], capture_output=True, text=True,
                              cwd=tmp_path)
        assert done.returncode == 2 and done.stderr, words
    keys(tmp_path / "k", "a=10.0.0.1")
    before = (tmp_path / "k" / "a" / "cert.pem").read_bytes()
    assert (tmp_path / "k" / "a" / "key.pem").stat().st_mode & 0o77 == 0
    keys(tmp_path / "k", "a=10.0.0.2", "b")
    assert (tmp_path / "k" / "a" / "cert.pem").read_bytes() == before
