"""Without any daemon running: ipsrun starts what it needs, ipsq starts what it
needs, and all of it ends by itself. From the build tree, and installed."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import ROOT, clean_env, end_all, give_clock, processes_of, wait_until


class Home:
    """A user's pool and state, found through the environment alone."""

    def __init__(self, bindir):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-",
                                                  dir="/dev/shm"))
        self.bindir = pathlib.Path(bindir)
        self.env = clean_env(HOME=self.root / "home",
                             XDG_STATE_HOME=self.root / "state",
                             IPS_POOL_ROOT=self.root / "pool",
                             IPS_MACHINE="here")

    def call(self, program, *words, **kw):
        kw.setdefault("timeout", 60)
        return subprocess.run([self.bindir / program, *map(str, words)],
                              env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, **kw)

    def ask(self, *words):
        done = self.call("ipsq", *words, "--format", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def closed(self, run):
        return any(r["run"] == run and not r["open"]
                   for r in self.ask("runs")["runs"])

    def close(self):
        end_all(self.root)


@pytest.fixture
def home(build):
    home = Home(build.top / "bin")
    yield home
    home.close()


def check_run(home, build, run):
    """One run from nothing to its path."""
    done = home.call("ipsrun", "--name", run, "--",
                     build.program("chatter"), 100)
    assert done.returncode == 0
    assert done.stdout == "100 bytes each way, child exit 0\n"
    wait_until("the run is closed", lambda: home.closed(run))
    path = home.ask("path", run)
    assert path["t_max_ns"] > 0 and path["certificate"]["complete"]
    # 200 bytes go to and fro; where one side ran late (a loaded machine) the
    # path stays in it, so how often it crosses is no property of the program.
    assert sum(s["kind"] == "message" for s in path["segments"]) > 0


@pytest.mark.timeout(360)
def test_private_daemons_come_and_go(home, build):
    """EVIDENCE-OF: IPS-4. The daemons end when the run is archived, and ipsq
    brings back what it needs for as long as it needs it."""
    check_run(home, build, "one")
    wait_until("no daemon is left", lambda: not processes_of(home.root),
               seconds=90, pause=0.5)
    assert home.closed("one")  # asked of daemons that ipsq started
    check_run(home, build, "two")
    assert home.ask("path", "one")["t_max_ns"] > 0


@pytest.mark.timeout(360)
def test_daemons_leave_a_removed_pool(home, build):
    """Would catch: private daemons that wait for ever for a run whose pool and
    results somebody removed."""
    child = subprocess.Popen([home.bindir / "ipsrun", "--quiet", "--", "sleep",
                              "60"], env=home.env, stderr=subprocess.DEVNULL)
    wait_until("the slave is there", lambda: (
        home.root / "state" / "ips" / "slave-here").exists())
    shutil.rmtree(home.root / "pool")
    shutil.rmtree(home.root / "state", ignore_errors=True)
    child.kill()
    child.wait()
    wait_until("no daemon is left", lambda: not processes_of(home.root),
               seconds=90, pause=0.5)


@pytest.mark.quick
def test_another_state_leaves_the_pool_alone(home):
    """Who asks about another archive does not mean what lies in the pool. Would catch:
    runs moved out of reach of who made them, by a question."""
    done = home.call("ipsrun", "--no-daemons", "--name", "r", "--", "true")
    assert done.returncode == 0
    segments = sorted(os.listdir(home.root / "pool" / "r"))
    other = home.root / "other"
    done = home.call("ipsq", "--state", other, "runs", "--format", "json")
    assert done.returncode == 0 and not json.loads(done.stdout)["runs"], done
    assert sorted(os.listdir(home.root / "pool" / "r")) == segments
    named = {**home.env, "IPS_STATE": str(other)}
    named.pop("IPS_POOL_ROOT")
    done = subprocess.run([home.bindir / "ipsq", "runs"], env=named, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    wait_until("the run is closed", lambda: home.closed("r"))


def test_one_daemon_for_a_state(home, build):
    """Two slaves, or masters, on one archive would each write what the other has. Would
    catch: the second of them begins its work; also after the lock's file was removed."""
    def start(program, *words):
        return subprocess.Popen([home.bindir / program, "--state", home.root / "state", *words],
                                env=home.env, stdin=subprocess.DEVNULL, text=True,
                                stderr=subprocess.PIPE)
    slave = ["--machine", "m", "--master", f"unix:{home.root}/a.sock", "--pool"]
    for program, one, two in (
            ("ips-slave", [*slave, home.root / "p1"], [*slave, home.root / "p2"]),
            ("ips-master", ["--listen", f"unix:{home.root}/a.sock"],
             ["--listen", f"unix:{home.root}/b.sock"])):
        first = start(program, *one)
        lock = home.root / "state" / ("slave-m" if "slave" in program else "master") / "lock"
        wait_until("it has the state",
                   lambda: lock.exists() and lock.read_text().strip() == str(first.pid))
        second = start(program, *two)
        said = second.communicate(timeout=30)[1]
        assert second.returncode == 1
        assert f"is in use by another daemon (pid {first.pid})" in said and "--state" in said
        lock.unlink()
        second = start(program, *two)
        said = second.communicate(timeout=30)[1]
        assert second.returncode == 1
        assert "is in use by another daemon" in said and "--state" in said
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)
        third = start(program, *two)
        wait_until("it has the state", lambda: lock.read_text().strip() == str(third.pid))
        third.send_signal(signal.SIGTERM)
        third.communicate(timeout=30)


def test_pipe_ends_with_the_program(home):
    """The daemons that ipsrun starts hold no descriptor of the program, else
    the reader of its output would wait for them."""
    done = subprocess.run(
        ["sh", "-c", '"$1"/ipsrun --quiet -- echo hello | cat', "sh",
         home.bindir], env=home.env, capture_output=True, text=True,
        timeout=120)
    assert done.stdout == "hello\n"


def test_no_children_before_the_program(home, build):
    """The first run of a boot, which measures what calls cost and starts the daemons, in
    children of its own. Would catch: getrusage(RUSAGE_CHILDREN) that tells the program of
    them."""
    assert not (home.root / "pool" / "clock").exists()
    done = home.call("ipsrun", "--quiet", "--", build.program("i_table"), "alone", "/tmp")
    assert done.returncode == 0, done.stderr


@pytest.mark.quick
@pytest.mark.parametrize("script,status", [
    ("exit 0", 0), ("exit 41", 41), ("kill -TERM $$", -signal.SIGTERM),
    ("kill -KILL $$", -signal.SIGKILL), ("echo out; echo err >&2", 0),
    ("cat", 0), ("env | grep -c ^IPS_RUN=", 0)])
def test_status_and_streams_are_the_programs(home, build, script, status):
    """ipsrun becomes the command."""
    give_clock(build, home.root / "pool")

    def run(*before):
        return subprocess.run([*before, "sh", "-c", script], input="given\n",
                              env=home.env, capture_output=True, text=True)
    bare = run()
    measured = run(home.bindir / "ipsrun", "--quiet", "--")
    assert measured.returncode == status
    if "IPS_RUN" in script:
        assert measured.stdout == "1\n"
    else:
        assert (measured.returncode, measured.stdout, measured.stderr) == \
            (bare.returncode, bare.stdout, bare.stderr)


@pytest.mark.timeout(360)
def test_installed(build, tmp_path):
    """`cmake --install` into any prefix; the programs find each other there,
    and nothing of the build tree is used."""
    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", build.top, "--prefix", prefix],
                   check=True, capture_output=True)
    for name in ("ipsrun", "ips-slave", "ips-master", "ipsq"):
        assert os.access(prefix / "bin" / name, os.X_OK)
        page = prefix / "share" / "man" / "man1" / f"{name}.1"
        assert page.read_text() == (ROOT / "docs" / f"{name}.1").read_text()
    assert (prefix / "include" / "ips" / "ips.h").exists()
    for name in ("ips-slave", "ips-master"):
        unit = prefix / "share" / "ips" / "systemd" / f"{name}.service"
        assert f"ExecStart={prefix}/bin/{name} " in unit.read_text()
    home = Home(prefix / "bin")
    try:
        check_run(home, build, "installed")
        used = home.call("ipsrun", "--quiet", "--", "cat", "/proc/self/maps")
        assert f"{prefix}/lib" in used.stdout
        assert str(build.top / "lib") not in used.stdout
        # The installed header and library are enough to build with.
        source = tmp_path / "api.c"
        source.write_text('#include <ips/ips.h>\n'
                          'int main(void) { ips_mark("x"); return 0; }\n')
        libdir = next(prefix.glob("lib*/**/libips.so")).parent
        subprocess.run(["gcc", "-Werror", f"-I{prefix}/include", source, "-o",
                        tmp_path / "api", f"-L{libdir}", "-lips",
                        f"-Wl,-rpath,{libdir}"], check=True)
        subprocess.run([tmp_path / "api"], check=True)
    finally:
        home.close()
