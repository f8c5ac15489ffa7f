"""Wrong flags, missing runs, unreachable masters, hostile bytes on sockets and
in the pool: clear errors, and nothing dies."""
import os
import random
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import clean_env, wait_until

PROGRAMS = ["ipsrun", "ips-slave", "ips-master", "ipsq"]


def call(build, program, *words, **env):
    return subprocess.run([build.bin(program), *map(str, words)],
                          capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env=clean_env(**env))


# --- wrong flags ---------------------------------------------------------

@pytest.mark.quick
@pytest.mark.parametrize("program", PROGRAMS)
def test_unknown_option(build, program):
    done = call(build, program, "--no-such-option")
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr and done.stdout == ""


@pytest.mark.quick
@pytest.mark.parametrize("words", [
    ["ipsrun"], ["ipsrun", "--name"], ["ipsrun", "--name", "a/b", "--", "true"],
    ["ipsrun", "--name", "x" * 200, "--", "true"], ["ipsrun", "--name", "x"],
    ["ipsq", "frobnicate"], ["ipsq", "--format", "xml", "runs"],
    ["ipsq", "path", "r", "--engine", "magic"],
    ["ipsq", "path", "r", "--top", "many"],
    ["ips-slave", "--machine"], ["ips-master", "--listen"],
    ["ips-master", "--listen", "nonsense"]], ids=" ".join)
def test_wrong_usage(build, tmp_path, words):
    done = call(build, *words, IPS_STATE=tmp_path, IPS_POOL_ROOT=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip() and done.stdout == ""


@pytest.mark.quick
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_and_version(build, program):
    for word in ("--help", "--version"):
        done = call(build, program, word)
        assert done.returncode == 0 and done.stdout and not done.stderr


@pytest.mark.quick
def test_foreign_address_is_refused(build, tmp_path):
    """Would catch a program that talks to other machines without TLS and
    without having been told so, and a message that does not say what to do."""
    slave = ["ips-slave", "--state", tmp_path, "--pool", tmp_path]
    for words, status in (
            (["ips-master", "--state", tmp_path, "--listen",
              "tcp:0.0.0.0:7001"], 2),
            ([*slave, "--master", "tcp:192.0.2.1:7001"], 1),
            ([*slave, "--listen", "tcp:0.0.0.0:7001"], 2),
            (["ipsq", "--master", "tcp:192.0.2.1:7001", "runs"], 1),
            (["ipsrun", "--master", "tcp:192.0.2.1:7001", "true"], 2)):
        done = call(build, *words)
        assert done.returncode == status, (words, done.stderr)
        for text in ("tls:HOST:PORT", "deploy/keys", "--insecure"):
            assert text in done.stderr, (words, done.stderr)


# --- things that are not there -------------------------------------------

@pytest.mark.quick
def test_missing_run_and_object(cluster):
    c = cluster()
    c.ipsrun(["true"], name="here", check=True)
    c.wait_closed("here")
    for words in (["path", "nosuch"], ["ls", "nosuch"], ["metrics", "nosuch"],
                  ["graph", "nosuch"], ["events", "nosuch"]):
        done = c.ipsq(*words)
        assert done.returncode == 1, words
        assert "nosuch" in done.stderr and done.stdout == ""
    done = c.ipsq("ls", "here", "--object", "/nomachine")
    assert done.returncode == 1 and "nomachine" in done.stderr


@pytest.mark.quick
def test_unreachable_master(build, tmp_path):
    address = f"unix:{tmp_path}/nobody.sock"
    done = call(build, "ipsq", "--master", address, "status")
    assert done.returncode == 1 and "nobody.sock" in done.stderr


@pytest.mark.quick
def test_measured_program_runs_without_daemons_or_pool(build, tmp_path):
    """The program comes first: a pool that cannot be made is a message, and
    status 1 only from ipsrun itself before CMD is started."""
    done = call(build, "ipsrun", "--pool", "/proc/none", "--state", tmp_path,
                "--", "echo", "hello")
    assert "/proc/none" in done.stderr


# --- hostile bytes on sockets --------------------------------------------

def frame(body):
    return len(body).to_bytes(4, "little") + body


HELLO_VERSION_99 = frame(b"\x0a\x04\x08\x63\x18\x01")
HELLO_CLIENT = frame(b"\x0a\x04\x08\x01\x18\x01")


def speak(path, data, half_close=True):
    """What a server answers to `data` until it closes."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(path))
        got = b""
        try:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            while piece := s.recv(65536):
                got += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
        return got


@pytest.mark.quick
def test_hostile_frames_to_the_master(cluster):
    c = cluster()
    sock = c.state / "master.sock"
    random.seed(1)
    samples = [b"", b"\0", b"\xff" * 4, b"\xff\xff\xff\x7f" + b"x" * 100,
               frame(b""), frame(b"\xff" * 100), frame(b"\x0a\xff\xff\xff\x0f"),
               b"GET / HTTP/1.0\r\n\r\n",
               HELLO_CLIENT + frame(random.randbytes(1000)),
               HELLO_CLIENT + b"\0\0\x80\0", HELLO_CLIENT * 3,
               frame(b"\x12\x02\x08\x01")]  # a request before the hello
    samples += [random.randbytes(random.randrange(1, 3000))
                for _ in range(200)]
    samples += [frame(random.randbytes(random.randrange(1, 300)))
                for _ in range(200)]
    samples += [HELLO_CLIENT + frame(random.randbytes(random.randrange(1, 300)))
                for _ in range(200)]
    for data in samples:
        speak(sock, data)
    assert c.master.poll() is None and c.machines[0].slave.poll() is None
    assert c.json("status")["slaves"][0]["connected"]


@pytest.mark.quick
def test_wrong_protocol_version(cluster):
    c = cluster()
    got = speak(c.state / "master.sock", HELLO_VERSION_99)
    assert b"version" in got or b"protocol" in got  # Hello.error, in words
    assert c.json("status")["slaves"][0]["connected"]


@pytest.mark.quick
def test_silent_and_many_connections(cluster):
    """Two hundred connections that say nothing hold nobody up."""
    c = cluster()
    sockets = []
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(c.state / "master.sock"))
        sockets.append(s)
    assert c.json("status")["slaves"][0]["connected"]
    for s in sockets:
        s.close()


# --- hostile files in the pool -------------------------------------------

def recorded_segments(c, tmp_path):
    """Segments as a program wrote them, copied while the slave is stopped."""
    machine = c.machines[0]
    # It holds the pool's lock still, else ipsrun would start a private one.
    machine.slave.send_signal(signal.SIGSTOP)
    c.ipsrun([c.build.program("chatter"), 50], name="real", check=True)
    # root's run directories have a random part after the name
    [run] = [d for d in machine.pool.iterdir() if (d / "control").exists()]
    files = sorted(run.glob("*.seg"))
    assert files, "the run left no segments"
    copies = [shutil.copy(f, tmp_path) for f in files]
    shutil.copy(run / "control", tmp_path)
    machine.stop_slave(signal.SIGKILL)
    return machine, run, copies


def stream_of(data, number):
    """The segment as one of a process and a stream of its own, so that it is
    not refused as read already (agent/pool/format.h: pid and tid)."""
    data = bytearray(data)
    data[24:32] = number.to_bytes(4, "little") * 2
    return data


def test_hostile_pool(cluster, tmp_path):
    """Torn, cut, random and strange files beside real ones: what can be read
    is read, the slave lives, and the next run is complete."""
    c = cluster()
    machine, run, copies = recorded_segments(c, tmp_path)
    random.seed(2)
    original = [open(f, "rb").read() for f in copies]
    for i, data in enumerate(original * 3):
        torn = stream_of(data, 9000 + i)
        for _ in range(8):  # the first pages are what was written
            torn[random.randrange(256, 4096)] = random.randrange(256)
        (run / f"{9000 + i}.{9000 + i}.{i:x}.seg").write_bytes(torn)
        torn = stream_of(data, 9100 + i)
        torn[random.randrange(0, 256)] = random.randrange(256)
        (run / f"{9100 + i}.{9100 + i}.{i:x}.seg").write_bytes(torn)
        (run / f"{9200 + i}.{9200 + i}.{i:x}.seg").write_bytes(
            data[:random.randrange(len(data))])
        torn = stream_of(data, 9300 + i)
        torn[256:5256] = random.randbytes(5000)
        (run / f"{9300 + i}.{9300 + i}.{i:x}.seg").write_bytes(torn)
    (run / "1.1.1.seg").write_bytes(b"")
    (run / "2.2.2.seg").write_bytes(random.randbytes(100000))
    (run / "3.3.3.seg").mkdir()
    os.mkfifo(run / "4.4.4.seg")
    (run / "5.5.5.seg").symlink_to("/etc/passwd")
    (run / "not a segment").write_text("x")
    for name, data in (("empty", b""), ("random", random.randbytes(5000)),
                       ("cut", (tmp_path / "control").read_bytes()[:200])):
        (machine.pool / name).mkdir()
        (machine.pool / name / "control").write_bytes(data)
    (machine.pool / "nocontrol").mkdir()
    machine.start_slave()
    c.wait_connected()

    c.ipsrun([c.build.program("chatter"), 100], name="next", check=True)
    c.wait_closed("next")
    assert machine.slave.poll() is None, machine.log.read_text()
    nodes = c.graph("next")
    assert sum(n["xkind"] == "data" for n in nodes) == 200
    # The damaged run still answers, and says that something was damaged.
    wait_until("the damaged run is known", lambda: "real" in c.runs())
    assert c.ipsq("path", "real", "--format", "json").returncode in (0, 1, 3)
    assert machine.slave.poll() is None


@pytest.mark.quick
def test_random_environment_of_the_agent(build, tmp_path):
    """A program whose run is not there, or is garbage, runs as if we were not
    there."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "control").write_bytes(random.randbytes(4096))
    for pool, run in ((tmp_path, "nosuch"), (tmp_path, "bad"), ("", ""),
                      (tmp_path, "../../etc"), (tmp_path, "x" * 5000)):
        done = subprocess.run(
            ["sh", "-c", "echo out; echo err >&2; exit 7"],
            capture_output=True, text=True,
            env=clean_env(LD_PRELOAD=build.lib("libips-preload.so"),
                          IPS_POOL=pool, IPS_RUN=run))
        assert (done.returncode, done.stdout, done.stderr) == \
            (7, "out\n", "err\n"), run[:20]
