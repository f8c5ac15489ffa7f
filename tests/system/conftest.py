"""Fixtures of the system tests: real daemons, real programs.

    def test_x(cluster):
        c = cluster()                      # one machine "m1", slave and master
        c = cluster(["m1", "m2"])          # two machines on loopback
        c = cluster(["m1", "m2"], hosts=hosts)   # each in its own namespace
        done = c.ipsrun(["sort", "x"], name="r1")        # as subprocess.run
        proc = c.popen(["server"], name="r1", machine=1) # as subprocess.Popen
        c.wait_closed("r1")
        path = c.json("path", "r1")
        done = c.ipsq("path", "nosuch")    # .returncode .stdout .stderr

`c.machines[i]` has .name .pool .state .log, stop_slave(), start_slave();
`c` has .address, stop_master(), start_master(). Everything lives in a
directory of its own; at the end of a test every process that was started for
it, private daemons included, is ended by its pid, and the directory removed.
A test that takes longer than its `timeout` mark (300 s) fails. Time-outs are there
for what hangs: they are far longer than anything takes on a machine five times slower.

The build is $IPS_BUILD, else build/release. Marks: quick, slow, timeout(seconds).
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 300
# The files that take longest, the longest first: they are begun first, so that no
# worker is left with one when the others have nothing more to do.
LONGEST = ["deploy", "private", "real_programs", "sampling", "guest", "paper", "complete",
           "why", "real_programs_2", "untraced", "guests", "kill", "frozen", "engines",
           "slave_restart", "wait_matrix", "agent_records", "tables", "waits",
           "agent_faults", "scans", "parent", "tsp_hosts", "phases", "golden"]
# A test may use what one of another folder has.
sys.path += [str(p) for p in pathlib.Path(__file__).resolve().parent.iterdir() if p.is_dir()]


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: part of tests/run --quick")
    config.addinivalue_line("markers", "slow: left out of it, though its file is quick")
    config.addinivalue_line("markers", f"timeout(seconds): default {TIMEOUT_S}")
    # A shell ignores these in what it starts with &, and programs inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    place = {f"test_{name}.py": i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    mark = item.get_closest_marker("timeout")
    seconds = mark.args[0] if mark else TIMEOUT_S

    def expired(signum, frame):
        pytest.fail(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


_clock = None


def give_clock(build, pool):
    """What ipsrun learns of a boot in a pool's first run (1.4 s, in children
    of its own) is learnt once for all the pools of these tests. The pool is made
    where it is missing."""
    pathlib.Path(pool).mkdir(mode=0o711, exist_ok=True)
    global _clock
    if _clock is None:
        with tempfile.TemporaryDirectory(prefix="ips-test-clock-",
                                         dir="/dev/shm") as first:
            subprocess.run([build.bin("ipsrun"), "--no-daemons", "--quiet",
                            "--pool", first, "true"], env=clean_env(),
                           check=True)
            _clock = pathlib.Path(first, "clock").read_bytes()
    pathlib.Path(pool, "clock").write_bytes(_clock)


class Build:
    """Where the programs are."""

    def __init__(self, top):
        self.top = pathlib.Path(top)

    def bin(self, name):
        return str(self.top / "bin" / name)

    def lib(self, name):
        return str(self.top / "lib" / name)

    def program(self, name):
        """A program of tests/programs."""
        return str(self.top / "bin" / "programs" / name)


@pytest.fixture(scope="session")
def build():
    top = pathlib.Path(os.environ.get(
        "IPS_BUILD", ROOT / "build" / "release")).resolve()
    if not (top / "bin").is_dir():
        pytest.fail(f"{top} is not built: tests/run, or set IPS_BUILD")
    return Build(top)


def clean_env(**more):
    """Our environment without anything of an outer run."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("IPS_") and k != "LD_PRELOAD"}
    env.update({k: str(v) for k, v in more.items()})
    return env


def wait_until(what, test, seconds=120, pause=0.05):
    """Polls `test` until it is true and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = test()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(pause)


def end_process(proc, sig=signal.SIGTERM, seconds=60):
    """Ends a Popen by its pid; returns its status."""
    if proc.poll() is None:
        proc.send_signal(sig)
        try:
            proc.wait(seconds)
        except subprocess.TimeoutExpired:
            proc.kill()
            proc.wait()
    return proc.returncode


def processes_of(root):
    """Pids of living processes that have `root` in their arguments or their
    environment: daemons and measured programs of this test alone, for the
    name of the directory is unique."""
    needle = os.fsencode(str(root))
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            for part in ("cmdline", "environ"):
                if needle in pathlib.Path("/proc", entry, part).read_bytes():
                    found.append(int(entry))
                    break
        except OSError:
            continue
    return found


def end_all(root):
    """Kills what is left of a test - private daemons and measured programs that
    outlived their parents - waits for it, and removes the directory."""
    def gone():
        for pid in processes_of(root):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not processes_of(root)

    wait_until("everything is ended", gone)
    shutil.rmtree(root, ignore_errors=True)


class Machine:
    """One machine of a cluster: its pool, state and slave."""

    def __init__(self, cluster, name, host):
        self.cluster, self.name, self.host = cluster, name, host
        self.pool = cluster.root / "pool" / name
        self.state = cluster.root / name
        self.log = cluster.root / f"{name}.slave.log"
        self.env = {}  # added to what runs on this machine
        self.options = []  # of its slave
        self.slave = None
        self.pool.mkdir(parents=True, mode=0o700)
        give_clock(cluster.build, self.pool)
        self.state.mkdir()

    def command(self, argv):
        """`argv` as it is started on this machine."""
        argv = [str(a) for a in argv]
        return self.host.command(argv) if self.host else argv

    def start_slave(self):
        with open(self.log, "ab") as log:
            self.slave = subprocess.Popen(
                self.command([self.cluster.build.bin("ips-slave"),
                              "--pool", self.pool, "--state", self.state,
                              "--machine", self.name,
                              "--master", self.cluster.address,
                              *self.options]),
                env=clean_env(**self.env), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd="/")

    def stop_slave(self, sig=signal.SIGTERM):
        return end_process(self.slave, sig)


class Cluster:
    """A master and machines, each with a slave; see the head of the file."""

    def __init__(self, build, names, hosts=None, daemons=True):
        self.build = build
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-",
                                                  dir="/dev/shm"))
        self.state = self.root / "master"
        self.state.mkdir()
        self.address = f"unix:{self.state}/master.sock"
        self.log = self.root / "master.log"
        self.master = None
        self.started = []
        self.machines = [Machine(self, name, hosts[i] if hosts else None)
                         for i, name in enumerate(names)]
        if daemons:
            self.start_master()
            for machine in self.machines:
                machine.start_slave()
            self.wait_connected()

    # --- daemons ---------------------------------------------------------

    def start_master(self):
        with open(self.log, "ab") as log:
            self.master = subprocess.Popen(
                [self.build.bin("ips-master"), "--state", str(self.state),
                 "--listen", self.address],
                env=clean_env(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, cwd="/")

    def stop_master(self, sig=signal.SIGTERM):
        return end_process(self.master, sig)

    def wait_connected(self, seconds=120):
        """Until every slave that was started is connected to the master."""
        names = {m.name for m in self.machines if m.slave}

        def connected():
            for machine in self.machines:
                if machine.slave and machine.slave.poll() is not None:
                    raise AssertionError("ips-slave ended: " +
                                         machine.log.read_text())
            if self.master and self.master.poll() is not None:
                raise AssertionError("ips-master ended: " +
                                     self.log.read_text())
            done = self.ipsq("status", "--format", "json")
            if done.returncode not in (0, 3):
                return False
            slaves = json.loads(done.stdout)["slaves"]
            return names <= {s["machine"] for s in slaves if s["connected"]}

        wait_until("all slaves connected", connected, seconds)

    # --- measured programs -----------------------------------------------

    def _ipsrun(self, cmd, name, join, machine, options):
        where = self.machines[machine]
        argv = [self.build.bin("ipsrun"), "--pool", where.pool,
                "--machine", where.name, "--state", where.state,
                "--master", self.address, "--quiet"]
        if name:
            argv += ["--name", name]
        if join:
            argv += ["--join", join]
        return where.command(argv + list(options) + ["--"] + list(cmd))

    def popen(self, cmd, name=None, join=None, machine=0, options=(),
              env=None, **kw):
        """Starts `cmd` under ipsrun on a machine; as subprocess.Popen. A run that
        is joined has begun, so that nothing depends on how long ipsrun waits."""
        if join:
            wait_until(f"run {join} has begun", lambda: self.has_begun(join))
        kw.setdefault("stdin", subprocess.DEVNULL)
        proc = subprocess.Popen(
            self._ipsrun(cmd, name, join, machine, options),
            env=clean_env(**self.machines[machine].env, **(env or {})), **kw)
        self.started.append(proc)
        return proc

    def has_begun(self, run):
        return any(path.exists() for m in self.machines for path in (
            pathlib.Path(m.pool, run, "control"),
            pathlib.Path(m.state, f"slave-{m.name}", "runs", run, "archive")))

    def ipsrun(self, cmd, name=None, join=None, machine=0, options=(),
               env=None, check=False, timeout=270, **kw):
        """As subprocess.run, output captured as text."""
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("text", True)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        proc = self.popen(cmd, name, join, machine, options, env, **kw)
        out, err = proc.communicate(timeout=timeout)
        if check and proc.returncode:
            raise AssertionError(f"{cmd}: status {proc.returncode}: {err}")
        return subprocess.CompletedProcess(cmd, proc.returncode, out, err)

    # --- questions -------------------------------------------------------

    def ipsq(self, *words, timeout=180, typed=""):
        """`typed` is its standard input, which is no terminal. No answer of any test may
        break a rule that it checks itself (master/query/self_check.h)."""
        done = subprocess.run(
            [self.build.bin("ipsq"), "--master", self.address,
             "--state", str(self.state), *[str(w) for w in words]],
            env=clean_env(), input=typed, capture_output=True,
            text=True, timeout=timeout)
        assert "contradicts itself" not in done.stdout, (words, re.findall("contradicts itself[^\"]*", done.stdout))
        return done

    def json(self, *words, status=(0,)):
        """The answer of `ipsq WORDS --format json`."""
        done = self.ipsq(*words, "--format", "json")
        if done.returncode not in status:
            gaps = done.stdout.partition('"gaps"')[2][:2000]
            events = self.ipsq("events", *words[1:2], "--top", 200).stdout
            raise AssertionError(f"ipsq {words}: {done.returncode}: {done.stderr}{gaps}\n"
                                 f"{events}{self.daemons()}")
        return json.loads(done.stdout)

    def daemons(self):
        """How the daemons are and what they said last, for who reports that one
        went away."""
        time.sleep(0.5)  # a status may be due
        of = [("master", self.master, self.log)]
        of += [(m.name, m.slave, m.log) for m in self.machines]
        return "".join(
            f"{name}: {'runs' if d.poll() is None else f'ended {d.returncode}'}\n"
            + "".join(f"  {line}\n" for line in log.read_text(
                errors="replace").splitlines()[-10:])
            for name, d, log in of if d)

    def graph(self, run):
        """The nodes of the run's whole activity graph, as dicts."""
        done = self.ipsq("graph", run, "--format", "jsonl")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def runs(self):
        return {row["run"]: row
                for row in self.json("runs", status=(0, 3))["runs"]}

    def wait_closed(self, run, machines=None, seconds=150):
        """Until all data of `run` is ingested; `machines`: that it had."""
        def closed():
            row = self.runs().get(run)
            return (row and not row["open"] and
                    len(row["machines"]) >= (machines or 1) and row)
        return wait_until(f"run {run} closed", closed, seconds)

    # --- the end ---------------------------------------------------------

    def close(self):
        if not hasattr(self, "machines"):
            return  # the directory could not be made
        daemons = [m.slave for m in self.machines] + [self.master]
        for proc in self.started + daemons:
            if proc:
                end_process(proc)
        end_all(self.root)

    def logs(self):
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')}"
                       for path in sorted(self.root.glob("*.log")))


@pytest.fixture(scope="module")
def shared(build):
    """A cluster of one machine for all tests of a file that neither harm nor
    change it: daemons are started once. Each names its own runs."""
    c = Cluster(build, ["m1"])
    yield c
    c.close()


@pytest.fixture
def cluster(build, request):
    """Factory of clusters that are ended with the test."""
    made = []

    def make(names=("m1",), hosts=None, daemons=True):
        made.append(c := object.__new__(Cluster))
        c.__init__(build, list(names), hosts, daemons)
        return c

    yield make
    failed = getattr(request.node, "ips_failed", False)
    for c in made:
        if failed and hasattr(c, "root"):
            print(c.logs()[-8000:])
        c.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        item.ips_failed = True


class Host:
    """A network namespace with an address, and perhaps an own clock."""

    def __init__(self, prefix, number, name, address):
        self.prefix, self.number = prefix, number
        self.name, self.address = name, address

    def command(self, argv):
        return [str(ROOT / "deploy" / "hosts"), "run", str(self.number),
                "--prefix", self.prefix, "--", *argv]


@pytest.fixture
def make_hosts():
    """Factory: make_hosts(3, offsets=[7200, 0, -60]) -> list of Host."""
    script = str(ROOT / "deploy" / "hosts")
    prefixes = []

    def make(count=3, offsets=()):
        if subprocess.run([script, "check"]).returncode:
            pytest.skip("network namespaces are not permitted here")
        prefix = "t" + uuid.uuid4().hex[:8]
        prefixes.append(prefix)
        argv = [script, "up", str(count), "--prefix", prefix]
        if offsets:
            argv += ["--offsets", ",".join(map(str, offsets))]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [Host(prefix, i + 1, *line.split())
                for i, line in enumerate(done.stdout.splitlines())]

    yield make
    for prefix in prefixes:
        subprocess.run([script, "down", "--prefix", prefix], check=True)


@pytest.fixture
def hosts(make_hosts):
    """Three hosts with the same clock."""
    return make_hosts(3)
