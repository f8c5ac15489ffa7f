"""The recorded program owns its descriptor table: from when an image has begun until
it executes or ends, no code of ours makes or closes a descriptor in it.

Would catch: a file of the program that lies under the number that we had a moment ago,
and is cut and written into; an open() that does not return the lowest free number; a
record lock that is gone because we closed a descriptor of the file."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import clean_env, give_clock

CASES = ["threads", "forks", "user", "range", "accepts", "numbered", "shared", "locks",
         "much", "execs", "alone", "twice"]
# What makes or closes a descriptor; of fcntl only F_DUPFD and its like.
CALLS = ("open openat openat2 creat socket socketpair accept accept4 dup dup2 dup3 fcntl "
         "memfd_create memfd_secret eventfd eventfd2 epoll_create epoll_create1 pipe "
         "pipe2 close close_range pidfd_open inotify_init inotify_init1 timerfd_create "
         "signalfd signalfd4 perf_event_open userfaultfd io_uring_setup").split()
LINE = re.compile(r"^(\d+) +\[([0-9a-f]+)\] (?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))$")
RESULT = re.compile(r"= (\d+)$")


@pytest.fixture
def top(build):
    path = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-table-", dir="/dev/shm"))
    os.chmod(path, 0o711)
    (path / "pool").mkdir(mode=0o711)
    give_clock(build, path / "pool")
    (path / "files").mkdir()
    os.chmod(path / "files", 0o777)
    yield path
    shutil.rmtree(path)


def calls_of_ours(log, low, high):
    """The calls in `log` that lie in our library, made since the program said where
    that is, but by the threads of agent/record/own_table.h, which have tables of their own.
    Second, how many of these threads there were."""
    calls, threads, executed = [], set(), set()
    lines = log.read_text().splitlines()
    begun = next(i for i, line in enumerate(lines) if '"library ' in line)
    for line in lines[begun:]:
        m = LINE.match(line)
        if not m:
            continue
        pid, at, name, rest = int(m[1]), int(m[2], 16), m[3] or m[5], m[4] or m[6]
        if name == "execve" and "= -1" not in rest:
            executed.add(pid)  # its library, if it has one, lies elsewhere now
        if pid in executed or not low <= at < high:
            continue
        if name == "clone":
            if m[3]:
                assert "CLONE_THREAD" in rest and "CLONE_SETTLS" not in rest, line
            if RESULT.search(rest):
                threads.add(int(RESULT.search(rest)[1]))
        elif name in CALLS and m[3] and (name != "fcntl" or "F_DUPFD" in rest):
            calls.append((pid, line))
    left = set()  # threads that have left the program's table, as their first call
    ours = []
    for pid, line in calls:
        if pid in threads and pid not in left:
            assert "close_range(0, 4294967295, CLOSE_RANGE_UNSHARE" in line, line
            assert "= -1" not in line, line
            left.add(pid)
        elif pid not in threads:
            ours.append(line)
    return ours, len(threads)


@pytest.mark.parametrize("case,full", [*((case, "drop") for case in CASES),
                                       ("threads", "block"), ("much", "block")])
def test_no_descriptor_of_ours(build, top, case, full):
    """Each call that makes or closes a descriptor, by the place of its instruction."""
    log = top / "log"
    argv = ["strace", "-f", "--seccomp-bpf", "-i", "-o", log, "-s", "100", "-e",
            "trace=write,clone,clone3,execve," + ",".join(CALLS),
            build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool", top / "pool",
            "--name", "r", f"--on-full={full}", "--quota", "2M", "--",
            build.program("i_table"), case, top / "files"]
    done = subprocess.run([str(a) for a in argv], env=clean_env(), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    low, high = (int(x, 16) for x in
                 re.search(r"^library (\w+) (\w+)$", done.stdout, re.M).groups())
    ours, threads = calls_of_ours(log, low, high)
    assert not ours
    assert threads > 0 or case in ("execs", "range"), "nothing was watched"
