"""`complete` is a promise: all that was made is in the archives and was read.

Would catch: an answer about a part of a run that does not say so, a limit that is said to
hold though nobody knows, a machine that cannot archive and keeps it to itself.
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import clean_env, wait_until

STATIC = "#include <unistd.h>\nint main(void) { usleep(200000); return 0; }\n"
DROPS = r"""
#include <grp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static int talk(void)
{
    int fd[2], n = 0;
    char byte = 0;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fd))
        return 1;
    for (int i = 0; i < 2000; i++)
        n += send(fd[0], &byte, 1, 0) == 1 && recv(fd[1], &byte, 1, 0) == 1;
    return n != 2000;
}
int main(int argc, char **argv)
{
    if (argc > 1)
        return talk();
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
        return 2;
    if (fork() == 0) {
        execl(argv[0], argv[0], "again", (char *)NULL);
        _exit(3);
    }
    int status;
    return wait(&status) < 0 || status != 0;
}
"""


@pytest.fixture(scope="module")
def made():
    where = pathlib.Path(tempfile.mkdtemp(prefix="ips-complete-"))
    where.chmod(0o755)
    for name, text, *more in (("static", STATIC, "-static"), ("drops", DROPS)):
        subprocess.run(["gcc", "-xc", "-", "-o", where / name, *more], input=text, text=True,
                       check=True)
    yield where
    shutil.rmtree(where)


def gaps(c, run, *words):
    """What the certificate says is missing. That decides the exit status, too."""
    done = c.ipsq(*words or ("path", run), "--format", "json")
    assert done.stdout, done.stderr
    certificate = json.loads(done.stdout)["certificate"]
    assert certificate["complete"] == (not certificate["gaps"])
    assert done.returncode == (0 if certificate["complete"] else 3)
    return certificate["gaps"]


def verdict(c, run, *limits):
    done = c.ipsq("check", run, *limits or ("--max-lost", 0), "--format", "json")
    return json.loads(done.stdout)["within"], done.returncode


USUAL = [
    ["sh", "-c", "seq 2000 | sort | tail -1; (true) & wait"],
    ["sh", "-c", "seq 20000 | sort | uniq | tail -1"],
    ["bash", "-c", "for i in 1 2 3; do ls / | wc -l; done"],
    ["sleep", "0.3"],
    ["sh", "-c", "tar cf - -C / etc/default 2>/dev/null | gzip | wc -c"],
    ["gcc", "-O2", "-xc", "/dev/null", "-c", "-o", "/dev/null"],
    ["/usr/bin/python3", "-c", "import subprocess; subprocess.run(['ls'], stdout=-3)"],
    ["sh", "-c", "(sleep 0.1 &); sleep 0.3"],
    ["find", "/etc/default"],
    ["make", "-f", "/dev/null", "-n", "/dev/null"],
]


@pytest.mark.quick
def test_undisturbed(cluster):
    """Nothing is missing, and nothing is said to be, right after the end."""
    c = cluster()
    count = int(os.environ.get("IPS_TEST_RUNS", len(USUAL)))
    said = []
    for i in range(count):
        c.ipsrun(USUAL[i % len(USUAL)], name=f"r{i}", check=True)
        said += gaps(c, f"r{i}")
        assert said or verdict(c, f"r{i}") == ("yes", 0)
    print(f"{count - len(said)} of {count} complete")
    assert len(said) <= count // 50, said


def test_longer_than_the_slave_looks(cluster):
    """Would catch: a run whose processes the slave has seen end, and forgotten, that is said
    to go on."""
    c = cluster()
    for i in range(4):
        c.ipsrun(["sleep", f"{1.8 + i * .2}"], name=f"r{i}", check=True)
        assert gaps(c, f"r{i}") == []


@pytest.mark.quick
def test_command_without_a_record(cluster, made):
    """All that is known of a static program is how long it lived."""
    c = cluster()
    c.ipsrun([made / "static"], name="r", check=True)
    assert gaps(c, "r") == ["1 process ran unrecorded"]
    assert gaps(c, "r", "ls", "r") == ["1 process ran unrecorded"]
    assert verdict(c, "r", "--max-path", "1000s") == ("cannot tell", 3)
    assert verdict(c, "r", "--max-wall", "1ms") == ("no", 4)


@pytest.mark.quick
def test_run_that_goes_on(cluster):
    """What it will do yet is not in the answer."""
    c = cluster()
    proc = c.popen(["sleep", "100"], name="r")
    try:
        wait_until("it is there", lambda: c.ipsq("path", "r").returncode == 3)
        assert gaps(c, "r") == ["the run goes on"]
        assert verdict(c, "r", "--max-wall", "1000s") == ("cannot tell", 3)
    finally:
        proc.send_signal(signal.SIGTERM)
        proc.wait()
    c.wait_closed("r")
    assert gaps(c, "r") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="root drops its rights here")
def test_rights_that_are_dropped(cluster, made):
    """A pool of root's alone: what a process executes as another user cannot record."""
    c = cluster()
    c.ipsrun([made / "drops"], name="r", check=True)
    c.wait_closed("r")
    assert gaps(c, "r")
    assert verdict(c, "r")[1] in (3, 4)


def test_pool_that_is_gone(cluster):
    """The machine was started again while a run went on: the pool, in memory, is gone,
    with what the slave had not read."""
    c = cluster()
    proc = c.popen(["sleep", "100"], name="r")
    m = c.machines[0]
    wait_until("it is there", lambda: c.ipsq("path", "r").returncode == 3)
    m.stop_slave(signal.SIGKILL)
    proc.kill()
    proc.wait()
    shutil.rmtree(m.pool / "r")
    m.start_slave()
    c.wait_connected()
    [gap] = gaps(c, "r")
    assert "no longer has the pool" in gap
    assert verdict(c, "r") == ("cannot tell", 3)


# A state directory of 3 MB that only this script and its children see. It is full before
# anything of the run is archived, or when its first records are.
FULL_STATE = r"""
set -e
mount -t tmpfs -o size=3m,mode=700 state "$PWD/state"
ips-master --state "$PWD/state" & master=$!
while [ ! -S state/master.sock ]; do sleep 0.05; done
ips-slave --pool "$PWD/pool" --state "$PWD/state" --machine m1 2>slave.log & slave=$!
trap 'kill $slave $master; wait' EXIT
q() { ipsq --master "unix:$PWD/state/master.sock" "$@"; }
record() { ipsrun --quiet --pool "$PWD/pool" --state "$PWD/state" --machine m1 --name "$@"; }
fill() { dd if=/dev/zero of=state/filler bs=4k 2>dd || true; }
while ! q status | grep -q '^m1 *yes'; do sleep 0.05; done
record r -- true
while ! q runs | grep -q '^r *no'; do sleep 0.05; done
if [ "$1" = before ]; then
    kill -STOP $slave
fi
record full -- sh -c '
    while [ ! -e filled ]; do sleep 0.05; done
    dd if=/dev/urandom bs=16 count=20000 2>dd1 | dd bs=8 2>dd2 | md5sum >sum' &
run=$!
if [ "$1" = before ]; then
    while [ ! -s pool/full/control ]; do sleep 0.05; done
    fill
    kill -CONT $slave
else
    while ! q runs | awk '$1 == "full" && $8 > 0 { there = 1 } END { exit !there }'; do
        sleep 0.05
    done
    fill
fi
touch filled
wait $run
while ! grep -q "cannot archive" slave.log; do sleep 0.05; done
while q status | grep '^m1 ' | grep -qv 'cannot\|full\|space'; do sleep 0.05; done
q status >status
q path full --format json >path-full 2>error || true
rm state/filler
while ! q runs | grep -q '^full *no'; do sleep 0.05; done
while q status | grep -q "events are lost"; do sleep 0.05; done
q path full --format json >path-after
q runs >runs-after
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("when", ["before", "later"])
def test_state_disk_that_is_full(build, tmp_path, when):
    """The machine says so while it lasts; nothing is lost, and then all is there. Would
    catch: a run that has no command afterwards, because what was known of it when it was
    found went with the first transaction that failed."""
    for name in ("pool", "state"):
        (tmp_path / name).mkdir(mode=0o700)
    env = clean_env(PATH=f"{build.top}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", FULL_STATE, "sh", when],
                          cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "events are lost" in (tmp_path / "status").read_text()
    if when == "before":
        error = (tmp_path / "error").read_text()
        # the master's database is on the same disk
        assert "no run 'full' is known" in error or "cannot archive" in error, error
        assert not (tmp_path / "path-full").read_text()
    else:
        certificate = json.loads((tmp_path / "path-full").read_text())["certificate"]
        assert not certificate["complete"]
        assert any("cannot archive" in gap for gap in certificate["gaps"]), certificate
    after = json.loads((tmp_path / "path-after").read_text())["certificate"]
    assert after["complete"] and after["events"] > 60000
    [row] = [line for line in (tmp_path / "runs-after").read_text().splitlines()
             if line.startswith("full ")]
    assert "while [ ! -e filled ]" in row and f" {time.strftime('%Y')}-" in row


ENDS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile sig_atomic_t handled;
static void handle(int sig) { handled += sig != 0; }
static void *work(void *arg)
{
    for (volatile int i = 0; i < 20000; i++)
        ;
    return arg;
}
int main(void)
{
    struct sigaction sa = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 50}, {0, 50}};
    sigset_t alarm;
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    for (int i = 0; i < 3000; i++) {
        pthread_t t;
        pthread_create(&t, NULL, work, NULL);
        pthread_sigmask(SIG_BLOCK, &alarm, NULL);
        pthread_join(t, NULL);
    }
    printf("%d\n", handled > 0);
    return 0;
}
"""


def test_signal_after_the_end_of_a_thread(cluster, tmp_path):
    """A handler that runs when the thread has said its end, and does nothing that would
    be recorded. Would catch: its signal counted as an event that found no room."""
    c = cluster()
    subprocess.run(["gcc", "-pthread", "-xc", "-", "-o", tmp_path / "ends"], input=ENDS,
                   text=True, check=True)
    for i in range(2):
        c.ipsrun([tmp_path / "ends"], name=f"r{i}", check=True)
        c.wait_closed(f"r{i}")
        assert gaps(c, f"r{i}") == []


def test_private_slave_stays_while_it_is_asked(cluster):
    """One machine has told all it knows, another one is slow: the question rests on both.
    Would catch: a slave that leaves since nothing is in its own hand."""
    c = cluster(["m1", "m2"])
    first, second = c.machines
    first.stop_slave()
    first.options = ["--private", "--idle", "3"]
    c.ipsrun(["sleep", "0.2"], name="r", machine=1, check=True)
    c.wait_closed("r")
    first.start_slave()
    c.wait_connected()
    c.ipsrun(["sh", "-c", "seq 500 | sort | tail -1"], join="r", check=True)
    c.wait_closed("r", 2)
    second.slave.send_signal(signal.SIGSTOP)
    asked = subprocess.Popen([c.build.bin("ipsq"), "--master", c.address, "--state", c.state,
                              "path", "r", "--format", "json"], env=clean_env(), text=True,
                             stdout=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        first.slave.wait(9)
    second.slave.send_signal(signal.SIGCONT)
    answer = json.loads(asked.communicate(timeout=60)[0])
    assert answer["certificate"]["machines"] == ["m1", "m2"]
    assert not answer["certificate"]["gaps"]
    assert first.slave.wait(30) == 0


def test_a_machine_that_can_archive_nothing_of_a_run(cluster):
    """The directory of the run cannot be made on the second machine. Would catch: a run
    that is complete without the machine, since that has stored nothing of it."""
    c = cluster(["m1", "m2"])
    c.ipsrun(["sleep", "0.1"], name="r", check=True)
    c.wait_closed("r")
    in_the_way = c.machines[1].state / "slave-m2" / "runs" / "r"
    in_the_way.write_text("")
    c.ipsrun(["sh", "-c", "seq 500 | sort | tail -1"], join="r", machine=1, check=True)
    wait_until("trouble", lambda: "events are lost" in c.ipsq("status").stdout)
    assert any("m2" in gap and "cannot archive" in gap for gap in gaps(c, "r"))
    assert c.ipsq("check", "r", "--max-lost", "0").returncode == 3
    in_the_way.unlink()
    c.wait_closed("r", 2)
    assert gaps(c, "r") == []


def test_slave_whose_files_may_not_grow(cluster):
    """A private slave inherits `ulimit -f`. Would catch: a slave that SIGXFSZ ends, again and
    again, so that nobody knows of the run."""
    c = cluster()
    m = c.machines[0]
    before = resource.prlimit(m.slave.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(m.slave.pid, resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    copy = "dd if=/dev/urandom bs=16 count=20000 status=none | dd bs=8 status=none | md5sum"
    c.ipsrun(["sh", "-c", copy], name="r", check=True)
    wait_until("trouble", lambda: "events are lost" in c.ipsq("status").stdout)
    assert m.slave.poll() is None
    resource.prlimit(m.slave.pid, resource.RLIMIT_FSIZE, before)
    c.wait_closed("r")
    assert gaps(c, "r") == []


def test_a_run_whose_orphans_have_just_ended(cluster):
    """Asked at once, while the status of a process that nobody waits for is still to come:
    the answer waits for the run to close. Would catch: a process with two images taken for
    alive as long as the first is known."""
    c = cluster()
    for k in range(5):
        c.ipsrun(["sh", "-c", "awk 'BEGIN { \"exec date\" | getline }'"],
                 name=f"r{k}", check=True)
        assert gaps(c, f"r{k}") == []
