"""ipsrun becomes the command: status, streams, descriptors, environment and
signals are the command's own. Without daemons; what they do is elsewhere."""
import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import clean_env, give_clock

pytestmark = pytest.mark.quick


@pytest.fixture
def pool(build):
    path = tempfile.mkdtemp(prefix="ips-test-run-", dir="/dev/shm")
    give_clock(build, path)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def ipsrun(build, pool):
    def run(*words, program=None, env=(), **kw):
        kw.setdefault("capture_output", True)
        return subprocess.run(
            [program or build.bin("ipsrun"), *words], text=True, timeout=120,
            env=clean_env(IPS_POOL_ROOT=pool, IPS_STATE=pool + "/state",
                          **dict(env)), **kw)
    return run


def records(build, pool, run):
    """But RUNDELAY and GUESSED: what those are is up to who else wants the
    CPU."""
    done = subprocess.run([str(build.top / "tests" / "pooldump"),
                           f"{pool}/{run}"], capture_output=True, text=True,
                          check=True)
    return [r for r in map(json.loads, done.stdout.splitlines())
            if r["type"] not in ("RUNDELAY", "GUESSED", "CALLS", "PAGEFAULT")]


@pytest.mark.parametrize("command,status", [
    (["true"], 0), (["sh", "-c", "exit 3"], 3), (["/nonexistent"], 127),
    (["no-such-command-here"], 127), (["/etc/passwd"], 126), (["/"], 126)])
def test_status(ipsrun, command, status):
    assert ipsrun("--no-daemons", "--", *command).returncode == status


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "[::]", "db.example"])
def test_master_elsewhere_is_refused(ipsrun, host):
    """Would catch a run begun whose slave then refuses the address, in a log
    that nobody reads."""
    done = ipsrun("--master", f"tcp:{host}:7070", "echo", "ran")
    assert done.returncode == 2
    assert ("names are not" if "db" in host else "tls:HOST:PORT") in done.stderr
    assert done.stdout == ""


def test_private_slave_without_keys(ipsrun):
    """Would catch a slave that is started only to refuse the address, in a log
    that nobody reads."""
    done = ipsrun("--master", "tls:10.1.2.3:7070", "echo", "ran")
    assert done.returncode == 0 and done.stdout == "ran\n"
    assert "deploy/keys" in done.stderr


def test_death_by_signal(ipsrun):
    """The shell's parent sees the signal, not a status made of it."""
    done = ipsrun("--no-daemons", "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == -signal.SIGTERM


@pytest.mark.parametrize("words, names", [
    ([], "no command"), (["--bogus"], "--bogus"), (["--name", "a/b"], "a/b"),
    (["--tag", "x"], "--tag x"), (["--rate", "101"], "--rate 101"),
    (["--rate", "+5"], "--rate +5"), (["--procedures=x"], "--procedures=x"),
    (["--rate", "0"], "--rate 0"), (["--master", "here"], "here"),
    (["--name", "a", "--join", "b"], "--join"), (["--machine", ""], "--machine"),
    (["--name"], "--name")])
def test_wrong_usage(ipsrun, words, names):
    """Would catch a wrong option that is ignored, the command being run; a message
    that does not say whose it is or does not name what is wrong."""
    command = [] if not words or words == ["--name"] else ["echo", "ran"]
    done = ipsrun("--no-daemons", *words, *command)
    assert done.returncode == 2
    who, what = done.stderr.splitlines()[0].split(": ", 1)
    assert who.rsplit("/", 1)[-1] == "ipsrun" and names in what, done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads this processor's counter")
def test_clock_is_the_counter_where_it_may_be(ipsrun, pool):
    """Stamps are read from the counter that the kernel's own clock runs on, and the clock
    that goes with it is right now. Would catch: every stamp a system call, since what was
    measured was thrown away; a rate or a beginning that is wrong."""
    with open("/sys/devices/system/clocksource/clocksource0/current_clocksource") as f:
        usable = f.read().strip() == "tsc"
    with open("/proc/cpuinfo") as f:
        flags = next((line for line in f if line.startswith("flags")), "")
    usable = usable and " constant_tsc" in flags and " nonstop_tsc" in flags
    assert ipsrun("--no-daemons", "--quiet", "--pool", pool, "--name", "r", "true").returncode == 0
    with open(f"{pool}/clock") as f:
        _, _, kind, counter0, raw0, mult = map(str, f.read().split()[:6])
    assert kind == ("1" if usable else "2")
    if not usable:
        assert mult == str(1 << 32)
        return
    code = ("#include <stdio.h>\n#include <time.h>\n#include <x86intrin.h>\n"
            "int main(void) { struct timespec t; unsigned long long a, b;"
            " do { a = __rdtsc(); clock_gettime(CLOCK_MONOTONIC_RAW, &t); b = __rdtsc(); }"
            " while (b - a > 100000);"
            ' printf("%llu %lld\\n", a, t.tv_sec * 1000000000LL + t.tv_nsec); }')
    subprocess.run(["gcc", "-xc", "-", "-o", f"{pool}/now"], input=code, text=True, check=True)
    now, raw = map(int, subprocess.run([f"{pool}/now"], capture_output=True, text=True,
                                       check=True).stdout.split())
    told = int(raw0) + ((now - int(counter0)) * int(mult) >> 32)
    assert abs(told - raw) < 1_000_000, (told, raw)


def test_end_says_what_was_guessed(build, ipsrun, pool):
    """How much of the CPU time was guessed is said at most every 10 ms, and at the end. Would
    catch: a short thread that never says it. Where waits are long nothing is guessed, and
    where the run is long the last guess may have been said before: of several runs some
    have it at the end."""
    said = 0
    for i in range(8):
        done = ipsrun("--no-daemons", "--quiet", "--pool", pool, "--name", f"r{i}", "--",
                      build.program("chatter"), "60")
        assert done.returncode == 0
        dump = subprocess.run([str(build.top / "tests" / "pooldump"), f"{pool}/r{i}"],
                              capture_output=True, text=True, check=True)
        by_process = {}
        for r in map(json.loads, dump.stdout.splitlines()):
            by_process.setdefault(r["pid"], []).append(r["type"])
        for types in by_process.values():
            if types.count("RECV") >= 60 and "GUESSED" in types:
                after = types[len(types) - types[::-1].index("GUESSED"):]
                said += "END" in after and "RECV" not in after
    assert said


def test_clock_below_zero_is_refused(ipsrun, pool):
    """Would catch: a test clock whose stamps lie before the machine's boot, which
    readers cannot tell from damage; a refused run that keeps its name."""
    before = {"IPS_TEST_CLOCK": f"-{10**18},0,0,0"}
    for _ in range(2):
        done = ipsrun("--no-daemons", "--name", "c", "echo", "ran", env=before)
        assert done.returncode == 2 and done.stdout == ""
        assert "below zero" in done.stderr, done.stderr
    assert ipsrun("--no-daemons", "--name", "c", "true").returncode == 0


def test_attach_says_what_to_do(ipsrun):
    """Would catch: a process that is believed to be traced from here on."""
    done = ipsrun("--attach", "1", "--", "true")
    assert done.returncode == 2 and done.stdout == ""
    assert "not supported" in done.stderr and "Restart" in done.stderr


def test_streams(ipsrun):
    """Input and output pass untouched; one line on standard error."""
    done = ipsrun("--no-daemons", "--name", "x", "--", "cat", input="a\nb")
    assert done.stdout == "a\nb"
    assert done.stderr == "ipsrun: run x\n"
    assert ipsrun("--no-daemons", "--quiet", "--", "cat", input="").stderr == ""


def test_environment(ipsrun, build, pool):
    """Only LD_PRELOAD and IPS_ change; the user's own library stays first."""
    own = "/lib/x86_64-linux-gnu/libm.so.6"
    show = ["python3", "-c",
            "import os, json; print(json.dumps(dict(os.environ)))"]
    plain = json.loads(subprocess.run(
        show, env=clean_env(IPS_POOL_ROOT=pool, IPS_STATE=pool + "/state",
                            LD_PRELOAD=own),
        capture_output=True, text=True, check=True).stdout)
    traced = json.loads(ipsrun("--no-daemons", "--name", "e", "--", *show,
                               env={"LD_PRELOAD": own}).stdout)
    library = os.path.realpath(build.lib("libips-preload.so"))
    assert traced.pop("LD_PRELOAD") == f"{own}:{library}"
    assert traced.pop("IPS_RUN") == "e"
    assert traced.pop("IPS_POOL") == pool
    assert traced.pop("IPS_PRELOAD") == library
    del plain["LD_PRELOAD"]
    assert traced == plain


def test_off(ipsrun, build, pool):
    """IPS_OFF=1 runs the command as it is, or a part of a recorded program. Would
    catch: a run that is made all the same; a library that is still loaded."""
    show = ["sh", "-c", "env | grep -c -e ^IPS_RUN= -e ^LD_PRELOAD=; exit 3"]
    done = ipsrun("--name", "off", "--", *show, env={"IPS_OFF": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "0\n", "")
    assert not os.path.exists(f"{pool}/off")
    assert ipsrun("/nonexistent", env={"IPS_OFF": "1"}).returncode == 127
    ipsrun("--no-daemons", "--name", "part", "--", "sh", "-c",
           "IPS_OFF=1 sleep 0; IPS_OFF=0 expr 1; :")
    names = [r["text"] for r in records(build, pool, "part") if r["type"] == "NAME"]
    assert "expr 1" in names and not [n for n in names if n.startswith("sleep")]


def dumped(smaps):
    """The writable mappings that a core file would have, as (name, KiB)."""
    found, size, name = [], 0, ""
    for line in smaps.splitlines():
        word = line.split()
        if "-" in word[0]:
            writable, name = "w" in word[1], " ".join(word[5:])
        elif word[0] == "Size:":
            size = int(word[1])
        elif word[0] == "VmFlags:" and writable and "dd" not in word:
            found.append((name, size))
    return found


@pytest.mark.parametrize("options", [[], ["--procedures=exact"], ["--on-full=ring"]], ids=str)
def test_nothing_of_ours_in_a_core_file(ipsrun, options):
    """The kernel leaves out mappings that have "dd". Would catch: a core file that is
    longer by a megabyte a thread, and has records or our tables in it."""
    show = ["python3", "-c",
            "import threading\n"
            "def show():\n"
            "    for line in open('/proc/self/smaps'): print(line, end='')\n"
            "t = threading.Thread(target=show); t.start(); t.join()"]
    bare = dumped(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    done = ipsrun("--no-daemons", *options, "--name", "c", "--", *show)
    assert ".seg" in done.stdout and "/control" in done.stdout
    ours = dumped(done.stdout)
    assert not [m for m in ours if m[0].endswith((".seg", "/control"))], ours
    more = sum(size for _, size in ours) - sum(size for _, size in bare)
    assert more < 384, (bare, ours)  # the program's own heap differs by some pages


def test_descriptors_and_mask(ipsrun):
    """No descriptor more, no signal blocked."""
    show = ["python3", "-c", "import os, signal; print(sorted(os.listdir("
            "'/proc/self/fd'))[:-1], signal.pthread_sigmask(0, []))"]
    plain = subprocess.run(show, capture_output=True, text=True, check=True)
    assert ipsrun("--no-daemons", "--", *show).stdout == plain.stdout


def test_run_is_made_once_and_joined(ipsrun, build, pool):
    assert ipsrun("--no-daemons", "--name", "r", "true").returncode == 0
    again = ipsrun("--no-daemons", "--name", "r", "echo", "ran")
    assert again.returncode == 125
    assert "is there already" in again.stderr and again.stdout == ""
    assert ipsrun("--no-daemons", "--join", "r", "true").returncode == 0
    starts = [r for r in records(build, pool, "r")
              if r["type"] == "START" and r["a"] == 1]
    assert len(starts) == 2


def test_a_name_is_not_taken_again(cluster):
    """Nor when the run is over and has left the pool: would catch two runs in
    one, told as if they were one."""
    c = cluster()
    c.ipsrun(["true"], name="r", check=True)
    c.wait_closed("r")
    before = c.json("ls", "r")["processes"]
    again = c.ipsrun(["echo", "ran"], name="r")
    assert again.returncode == 125 and again.stdout == ""
    assert "is there already" in again.stderr and "join" in again.stderr
    assert c.json("ls", "r")["processes"] == before
    assert c.ipsrun(["true"], join="r").returncode == 0


def test_a_run_that_is_not_there_is_not_joined(ipsrun, pool):
    """Would catch a misspelt name that makes a run of its own."""
    done = ipsrun("--join", "typo", "echo", "ran")
    assert done.returncode == 125 and done.stdout == ""
    assert "no such run" in done.stderr and "ipsq" in done.stderr
    assert not os.path.exists(f"{pool}/typo")
    assert ipsrun("--no-daemons", "--join", "typo", "true").returncode == 125


def test_the_master_knows_which_runs_can_be_joined(cluster, build):
    """Would catch: a run of another machine refused, one that begins a moment
    later refused, one that nobody began taken for it."""
    c = cluster(["m1", "m2"])
    c.ipsrun(["true"], name="third", check=True)
    c.wait_closed("third")
    assert c.ipsrun(["true"], join="third", machine=1).returncode == 0
    early = subprocess.Popen(
        c._ipsrun(["echo", "joined"], None, "fourth", 1, ()), text=True,
        env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL)
    try:
        assert not c.has_begun("fourth")
        c.ipsrun(["true"], name="fourth", check=True)
        assert early.communicate(timeout=120)[0] == "joined\n"
    finally:
        early.kill()
    c.wait_closed("fourth", machines=2)
    # The master of this state directory, which was not named: nobody else
    # reports to it, so nothing is waited for.
    done = subprocess.run(
        [build.bin("ipsrun"), "--pool", c.machines[0].pool, "--state", c.state,
         "--join", "thrid", "echo", "ran"], env=clean_env(), text=True,
        capture_output=True, timeout=120)
    assert done.returncode == 125 and done.stdout == ""
    assert "did you mean 'third'?" in done.stderr
    assert "thrid" not in c.runs()


def test_root_image(ipsrun, build, pool):
    """START(ROOT), NAME, EXEC of ipsrun, then START(IMAGE) with the same pid:
    the command goes on where ipsrun was."""
    ipsrun("--no-daemons", "--name", "r", "--", "echo", "a", "b")
    rows = records(build, pool, "r")
    root = [r for r in rows if r["type"] == "START" and r["a"] == 1][0]
    first = [r for r in rows if r["image"] == root["image"]]
    assert [r["type"] for r in first] == ["START", "NAME", "EXEC", "segment"]
    assert first[1]["text"] == "echo a b" and first[2]["text"] == "echo"
    image = [r for r in rows if r["type"] == "START" and r["a"] == 3]
    assert [r["pid"] for r in image] == [root["pid"]]
    assert image[0]["t"] >= first[2]["t"]
    assert image[0]["cpu"] >= first[2]["cpu"]


def test_failed_exec_ends_the_run(ipsrun, build, pool):
    ipsrun("--no-daemons", "--name", "r", "--", "/nonexistent")
    rows = records(build, pool, "r")
    types = [r["type"] for r in rows]
    assert types[-4:] == ["EXEC", "EXECFAIL", "END", "segment"]
    assert rows[-2]["status"] == 127


def test_inside_a_measured_program(ipsrun, build, pool):
    """A run of its own, and once in LD_PRELOAD, not twice."""
    done = ipsrun("--no-daemons", "--name", "outer", "--", build.bin("ipsrun"),
                  "--no-daemons", "--name", "inner", "--", "sh", "-c",
                  "echo $IPS_RUN $LD_PRELOAD")
    library = os.path.realpath(build.lib("libips-preload.so"))
    assert done.stdout == f"inner {library}\n"


def test_missing_daemons_are_said(ipsrun, build, pool):
    """A copy of ipsrun without its sisters records all the same."""
    os.makedirs(f"{pool}/prefix/bin")
    os.makedirs(f"{pool}/prefix/lib")
    alone = shutil.copy(build.bin("ipsrun"), f"{pool}/prefix/bin/")
    shutil.copy(build.lib("libips-preload.so"), f"{pool}/prefix/lib/")
    done = ipsrun("--pool", f"{pool}/p", "--name", "r", "true", program=alone)
    assert done.returncode == 0
    assert "no private ips-slave" in done.stderr
    assert os.path.exists(f"{pool}/p/r/control")


def test_pool_of_somebody_else_is_refused(ipsrun, pool):
    """As anybody can make /dev/shm/ips-UID before its owner does."""
    os.mkdir(f"{pool}/open")
    os.chmod(f"{pool}/open", 0o777)
    done = ipsrun("--no-daemons", "--pool", f"{pool}/open", "true")
    assert done.returncode == 125 and "not yours alone" in done.stderr
    os.symlink(f"{pool}/open", f"{pool}/link")
    done = ipsrun("--no-daemons", "--pool", f"{pool}/link", "true")
    assert done.returncode == 125 and "not a directory" in done.stderr
    assert os.listdir(f"{pool}/open") == []


def test_signals_reach_the_command(ipsrun, build, pool):
    """The pid that ipsrun had is the command's."""
    env = clean_env(IPS_POOL_ROOT=pool, IPS_STATE=pool + "/state")
    proc = subprocess.Popen([build.bin("ipsrun"), "--no-daemons", "--quiet",
                             "--", "sleep", "30"], env=env)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with open(f"/proc/{proc.pid}/comm") as f:
            if f.read() == "sleep\n":
                break
        time.sleep(0.01)
    proc.send_signal(signal.SIGINT)
    assert proc.wait(timeout=120) == -signal.SIGINT
