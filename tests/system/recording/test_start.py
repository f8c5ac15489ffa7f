"""What a process does when it begins: in which pid namespace it says it is, and
functions that are found when they are called first."""
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from conftest import ROOT, clean_env

sys.path.insert(0, str(ROOT / "tests" / "oracle"))
import pool_reader as pool  # noqa: E402

FIRST_CALL = r"""
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
static sem_t sem;
static void on_signal(int sig)
{
    (void)sig;
    sem_post(&sem); /* the first call on a lock of this program */
}
int main(void)
{
    int fd[2], value, status;
    char text[64] = "";
    sem_init(&sem, 0, 0);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    errno = 77;
    if (sem_getvalue(&sem, &value) || value != 1 || errno != 77)
        return 1;
    if (pipe(fd) || dprintf(fd[1], "%d %g %g %s", 1, 2.5, 3.5, "four") != 14 ||
        read(fd[0], text, sizeof(text)) != 14 || strcmp(text, "1 2.5 3.5 four"))
        return 2;
    if (vfork() == 0) { /* the first write(): in its parent's memory */
        write(fd[1], "child", 5);
        _exit(7);
    }
    if (wait(&status) < 0 || WEXITSTATUS(status) != 7 ||
        read(fd[0], text, 5) != 5)
        return 3;
    errno = 0;
    if (close(99) != -1 || errno != EBADF)
        return 4;
    puts("good");
    return 0;
}
"""


@pytest.mark.parametrize("first", ["lazy", "bound"])
def test_first_calls(cluster, tmp_path, first):
    """The first call of a wrapped function, in a signal handler and in a vfork
    child, too: same results, same errno. Would catch a stub that loses an
    argument, and a search that sets errno."""
    source = tmp_path / "first.c"
    source.write_text(FIRST_CALL)
    program = str(tmp_path / "first")
    subprocess.run(["gcc", "-w", "-o", program, str(source), "-Wl,-z," +
                    {"lazy": "lazy", "bound": "now"}[first]], check=True)
    c = cluster()
    done = c.ipsrun((program,), name="first-" + first)
    assert (done.returncode, done.stdout) == (0, "good\n")


INITIAL = 0xEFFFFFFC  # PROC_PID_INIT_INO


def signed(control):
    """`slave_pid` of a control file; 0: none yet."""
    try:
        return struct.unpack_from("=I", control.read_bytes(), 1268)[0]
    except (FileNotFoundError, struct.error):
        return 0


@pytest.mark.skipif(os.geteuid() != 0, reason="unshare --pid needs root")
def test_pid_namespaces(cluster):
    """Processes say in which pid namespace they are, one of another too while
    the slave of the initial one holds its lock and is named in control. Would
    catch one that takes itself for a process of the slave's namespace (equal
    pids would become one process), and a slave without the lock, or that does
    not say its pid, by which /proc is spared."""
    c = cluster()
    slave = c.machines[0].slave
    locks = pathlib.Path("/proc/locks").read_text().splitlines()
    held = [l for l in locks if "POSIX" in l and "WRITE %d " % slave.pid in l]
    initial = os.stat("/proc/self/ns/pid").st_ino == INITIAL
    assert bool(held) == initial
    script = "read go; readlink /proc/self/ns/pid; " \
             "unshare --pid --fork --mount-proc readlink /proc/self/ns/pid"
    run = pathlib.Path(c.machines[0].pool, "spaces")
    with subprocess.Popen(
            c._ipsrun(("sh", "-c", script), "spaces", None, 0,
                      ["--no-daemons"]), env=clean_env(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        while initial and signed(run / "control") != slave.pid:
            assert program.poll() is None and slave.poll() is None
            time.sleep(0.01)
        slave.send_signal(signal.SIGSTOP)  # it leaves the segments there
        try:
            said = program.communicate("\n", timeout=180)[0]
            segments = [pool.Segment(str(path)) for path in run.glob("*.seg")]
        finally:
            slave.send_signal(signal.SIGCONT)
    assert program.returncode == 0
    wanted = {int(line[5:-1]) for line in said.split()}
    assert len(wanted) == 2
    assert {s.pidns for s in segments} == wanted


QUICK = r"""
#include <stdlib.h>
#include <unistd.h>
static void last_words(void)
{
    char c = 'w';
    int fd[2];
    if (pipe(fd) || write(fd[1], &c, 1) != 1 || read(fd[0], &c, 1) != 1)
        _exit(9);
}
int main(void)
{
    if (at_quick_exit(last_words))
        return 8;
    quick_exit(4);
}
"""


def test_quick_exit_last(cluster, tmp_path):
    """Functions of at_quick_exit run before END is written, though ours is
    registered no sooner than the first of them. Would catch an END that is
    missing, or one that what they send comes after."""
    source = tmp_path / "quick.c"
    source.write_text(QUICK)
    program = str(tmp_path / "quick")
    subprocess.run(["gcc", "-w", "-o", program, str(source)], check=True)
    c = cluster()
    slave = c.machines[0].slave
    slave.send_signal(signal.SIGSTOP)  # it leaves the segments where they are
    try:
        done = subprocess.run(c._ipsrun((program,), "quick", None, 0,
                                        ["--no-daemons"]),
                              env=clean_env(), capture_output=True, text=True,
                              timeout=180)
        segments = [pool.Segment(str(path)) for path in pathlib.Path(
            c.machines[0].pool, "quick").glob("*.seg")]
        kinds = [[r.kind for r in s.records()] for s in segments]
    finally:
        slave.send_signal(signal.SIGCONT)
    assert done.returncode == 4, done.stderr
    (sends,) = [k for k in kinds if pool.SEND in k]
    assert sends.count(pool.END) == 1 and sends[-1] == pool.END


def writable(text):
    """Bytes of the C library's file that are mapped writable."""
    total = 0
    for line in text.splitlines():
        where, rights, *rest = line.split()
        if rights.startswith("rw") and "libc.so" in rest[-1]:
            low, high = (int(n, 16) for n in where.split("-"))
            total += high - low
    return total


def test_tables_protected_again(cluster):
    """stdio's tables are write-protected again once ours are in them, and
    nothing else is. Would catch a table left open, and a C library whose own
    data can no longer be written."""
    command = ("cat", "/proc/self/maps")
    bare = subprocess.run(command, env=clean_env(), capture_output=True,
                          text=True, check=True)
    done = cluster().ipsrun(command, name="maps")
    assert "libips-preload" in done.stdout
    assert writable(done.stdout) == writable(bare.stdout) > 0


INHERIT = """
import os, sys
read, write = os.pipe()
for number in map(int, sys.argv[1].split()):
    pid = os.fork()  # its table is as small as can be
    if pid == 0:
        if number != write:
            os.dup2(write, number)
        os.execv("/bin/true", ["n%d" % number])
    if os.waitpid(pid, 0)[1]:
        sys.exit(1)
"""


def test_inherited_numbers(cluster):
    """An image names the descriptors it inherited, whatever their numbers:
    where its table ends is found out by select(). Would catch one beyond 63 or
    255 that is missed, an end-of-file elsewhere would not wait for it."""
    c = cluster()
    slave = c.machines[0].slave
    numbers = [31, 63, 64, 65, 127, 255, 256, 300, 1000]
    slave.send_signal(signal.SIGSTOP)  # it leaves the segments where they are
    try:
        done = subprocess.run(
            c._ipsrun((sys.executable, "-c", INHERIT,
                       " ".join(map(str, numbers))), "inherit", None, 0,
                      ["--no-daemons"]),
            env=clean_env(), capture_output=True, text=True, timeout=60)
        found = {}
        for path in pathlib.Path(c.machines[0].pool, "inherit").glob("*.seg"):
            records = list(pool.Segment(str(path)).records())
            for name in [r for r in records if r.kind == pool.NAME]:
                found[name.text] = [r.fd for r in records
                                    if r.kind == pool.CHAN]
    finally:
        slave.send_signal(signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    for number in numbers:
        (named,) = [fds for name, fds in found.items()
                    if name.split() == ["n%d" % number]]
        assert number in named


def section(library, name):
    """Where it begins and ends in the file."""
    said = subprocess.run(["readelf", "-SW", str(library)], check=True,
                          capture_output=True, text=True).stdout
    found = re.search(rf"\] {re.escape(name)} +\S+ +\w+ (\w+) (\w+)", said)
    assert found, (name, said)
    start, size = (int(number, 16) for number in found.groups())
    return start, start + size


def test_start_lies_together(build):
    """What every start runs, and its constants, lie in the first 64 KB of the
    library, behind what the loader reads; what short programs call, right
    behind. Would catch a name of preload.ld that no function has any more, and a
    link that puts the functions elsewhere: faults of 16 pages each, which no
    other test sees."""
    library = build.lib("libips-preload.so")
    script = (ROOT / "agent" / "preload" / "start" / "preload.ld").read_text()
    parts = [set(re.findall(r"\(?\.text\.(?:unlikely\.|hot\.)?(\w{3,}\b)\*?",
                            part)) - {"startup", "exit", "unlikely", "hot"}
             for part in re.split(r"\.text\.(?:start|often|more) :", script)]
    named, often = parts[1:3]
    symbols = subprocess.run(["nm", "--defined-only", str(library)], check=True,
                             capture_output=True, text=True).stdout
    at = {}
    for line in symbols.splitlines():
        value, kind, name = line.split()[:3]
        if kind in "tT":
            at.setdefault(name.split(".")[0], []).append(int(value, 16))
    start, end = section(library, ".text.start")
    assert end <= 65536 and section(library, ".rodata")[1] <= 65536
    assert {"ips_wrap_initialize_agent", "ips_segment_take_spare_or_make", "ips_close_open_calls_and_count_lost", "ips_module_read_tables",
            "attach_process_to_run_once", "may_write_run_delay"} <= named
    next_start, next_end = section(library, ".text.often")
    assert next_start == end
    away = [name for names, low, high in ((named, start, end),
                                          (often, next_start, next_end))
            for name in names if name in at and not any(
                low <= value < high for value in at[name])]
    assert not away
    sources = "".join(path.read_text()
                      for path in (ROOT / "agent").rglob("*.[ch]"))
    gone = {name for name in named | often - {"stubs"} if not re.search(rf"\b{name}\(", sources)}
    assert not gone, "agent/preload/start/preload.ld names what is not there"


def test_start_relocates_little(build):
    """The loader has few places of the library to relocate when a process
    begins: of tables hardly any. Would catch a table of pointers; one of 128
    had doubled what the loader did, on pages that nothing else reads."""
    said = subprocess.run(["readelf", "-rW", str(build.lib("libips-preload.so"))],
                          check=True, capture_output=True, text=True).stdout
    assert 0 < said.count("_RELATIVE") <= 24
