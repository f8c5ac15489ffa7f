"""What a process does when it begins: in which pid namespace it says it is, and
functions that are found when they are called first."""
import os
import pathlib
import signal
import subprocess
import sys

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


@pytest.mark.skipif(os.geteuid() != 0, reason="unshare --pid needs root")
def test_pid_namespaces(cluster):
    """Processes say in which pid namespace they are, one of another too while
    the slave of the initial one holds its lock. Would catch one that takes
    itself for a process of the slave's namespace (equal pids would become one
    process), and a slave without the lock by which /proc is spared."""
    c = cluster()
    slave = c.machines[0].slave
    locks = pathlib.Path("/proc/locks").read_text().splitlines()
    held = [l for l in locks if "POSIX" in l and "WRITE %d " % slave.pid in l]
    assert bool(held) == (os.stat("/proc/self/ns/pid").st_ino == INITIAL)
    script = "readlink /proc/self/ns/pid; " \
             "unshare --pid --fork --mount-proc readlink /proc/self/ns/pid"
    slave.send_signal(signal.SIGSTOP)  # it leaves the segments where they are
    try:
        done = subprocess.run(
            c._ipsrun(("sh", "-c", script), "spaces", None, 0,
                      ["--no-daemons"]),
            env=clean_env(), capture_output=True, text=True, timeout=180)
        segments = [pool.Segment(str(path)) for path in pathlib.Path(
            c.machines[0].pool, "spaces").glob("*.seg")]
    finally:
        slave.send_signal(signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    wanted = {int(line[5:-1]) for line in done.stdout.split()}
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
