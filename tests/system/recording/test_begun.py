"""What a segment's header says of the call that a thread is in, and may never
leave: of each kind of call that waits."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import clean_env, give_clock, wait_until

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "oracle"))

import pool_format  # noqa: E402

pytestmark = pytest.mark.quick

FORMAT = pool_format.load()


@pytest.fixture
def top(build):
    path = tempfile.mkdtemp(prefix="ips-test-begun-", dir="/dev/shm")
    os.mkdir(path + "/pool", 0o711)
    give_clock(build, path + "/pool")
    yield path
    shutil.rmtree(path)


# The kinds of objects (enum ips_sync), and {call: what its thread waits for}.
MUTEX, RDLOCK, WRLOCK, COND, BARRIER, SEMAPHORE = range(1, 7)
FLOCK, RECORD_LOCK, FUTEX, FIFO = range(10, 14)
WAITS = {call: wait for calls, wait in [
    ("read readv fgetc syscall_read", ("RECV", "DATA", "empty")),
    ("recv recvfrom recvmsg recvmmsg", ("RECV", "DATA", "pair")),
    ("write writev", ("SEND", "DATA", "full")),
    ("send sendto sendmsg sendmmsg", ("SEND", "DATA", "full_pair")),
    ("accept accept4", ("RECV", "ACCEPT", "listener")),
    ("eventfd", ("BLOCK", "EVENTFD")),
    ("timerfd", ("BLOCK", "TIMERFD")),
    ("signalfd", ("BLOCK", "SIGNALFD")),
    ("poll ppoll", ("BLOCK", "POLL")),
    ("select pselect", ("BLOCK", "SELECT")),
    ("epoll_wait epoll_pwait", ("BLOCK", "EPOLL")),
    ("nanosleep clock_nanosleep usleep sleep", ("BLOCK", "SLEEP")),
    ("pause sigwait sigwaitinfo sigtimedwait sigsuspend", ("BLOCK", "SIGWAIT")),
    ("mutex timedlock", ("ACQUIRE", MUTEX, "mutex", "main")),
    ("rdlock", ("ACQUIRE", RDLOCK, "rwlock", "main")),
    ("wrlock", ("ACQUIRE", WRLOCK, "rwlock", "main")),
    ("cond", ("ACQUIRE", COND, "cond")),
    ("sem sem_timed", ("ACQUIRE", SEMAPHORE, "sem")),
    ("barrier", ("ACQUIRE", BARRIER, "barrier")),
    ("flockfile", ("ACQUIRE", MUTEX, "stdout")),
    ("flock", ("ACQUIRE", FLOCK, "flock")),
    ("ofd_lock", ("ACQUIRE", RECORD_LOCK, "ofd_lock")),
    ("semop semtimedop", ("ACQUIRE", SEMAPHORE, "semaphores")),
    ("msgrcv msgsnd", ("ACQUIRE", SEMAPHORE, "queue")),
    ("futex", ("ACQUIRE", FUTEX, "word")),
    ("open_fifo fopen_fifo", ("ACQUIRE", FIFO, None)),
    ("waitpid wait4 waitid", ("JOIN", "child", None)),
    ("wait_any", ("JOIN", None, None)),
    ("join", ("JOIN", None, "forked"))] for call in calls.split()}


def notes(top, threads):
    """All segments, and {call: its thread's}, once each thread is in its call."""
    def look():
        segments = FORMAT.segments(top + "/pool/r")
        found = {threads[s.head["tid"]]: s for s in segments if s.head["tid"] in threads}
        waiting = {name for name, s in found.items() if s.head["begun"][0]}
        return waiting == set(threads.values()) and (segments, found)

    return wait_until("every thread in its call", look)


def symbols(program):
    lines = subprocess.run(["nm", "-S", "--defined-only", program], text=True,
                           capture_output=True, check=True).stdout
    return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in
            map(str.split, lines.splitlines()) if len(row) == 4}


def what(note, chans):
    """A note as WAITS has it."""
    value = note[3]
    kind, op, number = FORMAT.types[value >> 48], value >> 32 & 0xffff, value & 0xffffffff
    if kind in ("SEND", "RECV"):
        return kind, FORMAT.ops[op], chans[number]
    if kind == "BLOCK":
        assert number == 0
        return kind, FORMAT.ops[op]
    assert op == 0
    return kind, number, note[4]


def test_every_call_that_waits(build, top):
    """A hung program is explained by these notes alone: would catch a call without one,
    one of another kind, object, holder or place, and a CPU time or stamp that is not of its
    beginning."""
    program = build.program("i_begun")
    proc = subprocess.Popen(
        [build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool", top + "/pool", "--name",
         "r", "--procedures=off", "--", program, top], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=clean_env())
    threads, ends, numbers = {}, {}, {None: 0}
    for line in proc.stdout:
        row = line.split()
        if row[0] == "wait":
            threads[int(row[2])] = row[1]
        elif row[0] == "end":
            ends[int(row[2])] = row[1]
        elif row[0] == "number":
            numbers[row[1]] = int(row[2])
        else:
            break
    try:
        segments, found = notes(top, threads)
    finally:
        proc.communicate("x")
    assert proc.returncode == 0
    assert set(found) == set(WAITS)
    chans = {r["a"]: ends.get(r["ino"]) for s in segments for r in s.records
             if r["type"] == "CHAN"}
    numbers["forked"] = found["read"].records[0]["fork_seq"]
    functions = symbols(program)
    wrong = []
    for name, s in found.items():
        note, want = s.head["begun"], WAITS[name]
        seen = what(note, chans)
        if want[0] == "ACQUIRE":
            want = (want[0], want[1], numbers[want[2]], *want[3:])
        elif want[0] == "JOIN":
            want = (want[0], numbers[want[1]], numbers[want[2]])
        holder = numbers[want[3]] if len(want) == 4 else 0
        start, size = functions["w_" + name]
        start += numbers["w_read"] - functions["w_read"][0]
        site = 0 < note[2] - start <= size or (name == "fgetc" and not note[2])
        if seen != want[:3] or note[5] != holder or not site or \
                not s.records[0]["t"] <= note[0] or not 0 < note[1] < 10**9:
            wrong.append((name, seen, want, note, hex(start)))
    assert not wrong, wrong
