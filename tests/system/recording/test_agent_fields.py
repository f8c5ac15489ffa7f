"""Every field of every record and header that a program's agent writes, with
values that the program found out by itself.

docs/pool-format.md says which fields there are; tests/programs/fields prints
what each of its records must hold.
"""
import collections
import os
import pathlib
import re
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
# They come as time goes, or are compared below.
APART = {"RUNDELAY", "GUESSED", "CALLS", "MODULE", "STACK", "SAMPLE", "PAGEFAULT"}
TIMES = {"t", "t_ret", "cpu", "cpu_ret", "head_flags", "type"}
# No program here makes one; the tests that do.
ELSEWHERE = {
    "ENTER": "test_exact.py", "EXIT": "test_exact.py",
    "ENTER_SHORT": "test_exact.py", "EXIT_SHORT": "test_exact.py",
    "COUNT": "test_exact.py", "MARK": "test_agent_marks",
    "MARK_SHORT": "test_agent_marks", "LOST": "test_agent_quota",
    "UNSEEN": "test_unseen.py", "QUEUE": "test_arrivals.py",
    "RECVCALL": "test_failures.py", "RESUME": "nobody writes it",
    "MODULE": "below", "STACK": "below", "SAMPLE": "below",
    "RUNDELAY": "below", "GUESSED": "below", "CALLS": "below",
    "PAGEFAULT": "test_page_faults.py"}


@pytest.fixture
def top(build):
    path = tempfile.mkdtemp(prefix="ips-test-fields-", dir="/dev/shm")
    os.mkdir(path + "/pool", 0o711)
    give_clock(build, path + "/pool")
    yield path
    shutil.rmtree(path)


# --- records ----------------------------------------------------------------


def whole(r):
    """Short records as the long ones they stand for."""
    r = dict(r)
    if r["type"] in ("SEND_SHORT", "RECV_SHORT"):
        r.update(type=r["type"][:4], op=r["head_flags"] >> 2, err=0, ready=0,
                 t_ret=r["t"] + r.pop("took"), head_flags=0)
    return r


def value(text):
    if text.startswith(('"', "@", "~", "<")):
        return text.strip('"')
    if ":" in text:
        family, raw, port = text.split(":")
        return (int(family), raw or "0" * 32, int(port))
    return int(text)


class Want:
    """One line of the program's."""

    def __init__(self, line):
        _, pid, tid, self.type, rest = line.split(" ", 4)
        self.who = (int(pid), int(tid))
        words = re.findall(r'(\w+)=("[^"]*"|\S+)', rest)
        self.place = dict(words).get("in")
        self.fields = {k: value(v) for k, v in words if k != "in"}

    def asked(self):
        return set(self.fields) | ({"site"} if self.place else set())


def symbols(program):
    lines = subprocess.run(["nm", "-S", "--defined-only", program], text=True,
                           capture_output=True, check=True).stdout
    return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in
            map(str.split, lines.splitlines()) if len(row) == 4}


def differences(want, r, bound, functions):
    """Names of the fields that are not as they should be."""
    found = []
    for name, v in want.fields.items():
        if isinstance(v, str) and v.startswith("@"):
            v = bound.setdefault(v, r[name])
        if isinstance(v, str) and v.startswith("~"): # sums of truncated us
            v = r[name] if abs(r[name] - int(v[1:])) <= 2000 else v
        if isinstance(v, str) and v.startswith("<"): # with children of our own
            v = r[name] if 0 < r[name] <= int(v[1:]) else v
        if r[name] != v:
            found.append("%s is %r, not %r" % (name, r[name], v))
    if want.place:
        start, size = functions[want.place]
        if not start < r["site"] <= start + size:
            found.append("site %x is not in %s" % (r["site"], want.place))
    return found


@pytest.fixture(params=["fast", "clock"])
def seen(build, top, request):
    """(lines of the program, its segments, control) of a run."""
    program = build.program("i_fields")
    with open(top + "/out", "w+") as out:
        done = subprocess.run(
            [build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool",
             top + "/pool", "--name", "r", "--procedures=off", "--locks=all",
             "--cpu=" + request.param, "--", program, "an argument", "", "x"],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
            text=True, timeout=180, env=clean_env())
        out.seek(0)
        lines = out.read().splitlines()
    assert (done.returncode, done.stderr) == (7, "")
    control = pathlib.Path(top, "pool/r/control").read_bytes()
    return lines, FORMAT.segments(top + "/pool/r"), FORMAT.control(control)


def test_every_field_of_every_record(build, seen):
    """Would catch: a field that is not stored, or with another one's value, of
    any kind of record; a record too many or too few; a stamp or a CPU time
    outside of its thread's life."""
    lines, segments, _ = seen
    wants = collections.defaultdict(list)
    for line in lines:
        if line.startswith("want "):
            wants[Want(line).who].append(Want(line))
    functions = symbols(build.program("i_fields"))
    assert len(wants) == 5  # main, child, spawned, two threads
    main = next(iter(wants))
    bound = {"@image": next(
        s.head["image_stamp"] for s in segments
        if (s.head["pid"], s.head["tid"]) == main and
        s.records[0]["a"] == 3)}
    compared, wrong = set(), []
    for who, expected in wants.items():
        mine = [whole(r) for s in segments
                if (s.head["pid"], s.head["tid"]) == who and
                s.records[0]["a"] != 1 # of main: the image that ipsrun was
                for r in s.records if r["type"] not in APART]
        # The program prints what it will record as it comes to it, but what
        # another call of the same statement records may come first.
        for want in expected:
            where = [i for i, r in enumerate(mine[:8])
                     if r["type"] == want.type]
            if not where:
                wrong.append("%s %s: no record; next %s" % (
                    who, want.type, mine[:1]))
                break
            r = mine.pop(where[0])
            fields = set(r) - TIMES - (
                set() if want.place or "site" in want.fields else {"site"})
            assert want.asked() == fields, (want.type, fields, want.asked())
            compared |= {(want.type, f) for f in fields}
            assert r["head_flags"] in (0, 4 if r["type"] == "START" else 0)
            wrong += ["%s %s: %s" % (who, want.type, d)
                      for d in differences(want, r, bound, functions)]
        wrong += ["%s: also %s" % (who, r) for r in mine]
    assert not wrong, "\n".join(wrong)
    seqs = [v for k, v in bound.items() if k != "@image" and
            not k.startswith("@cpu")]
    assert len(set(seqs)) == len(seqs) == 11 and 0 not in seqs
    missing = {(kind, field) for kind, fields in FORMAT.fields.items()
               for field, _, _ in fields
               if kind not in ELSEWHERE and not kind.endswith("_SHORT")} - \
        compared - {(k, f) for k in FORMAT.fields for f in TIMES}
    assert not missing, missing


def test_times_lie_in_their_threads(seen):
    """Would catch: CPU time of another thread or clock, a stamp that is not of
    its moment, a child's time that is not the kernel's."""
    lines, segments, _ = seen
    said = collections.defaultdict(dict)
    for line in lines:
        row = line.split()
        if row[0] in ("begin", "end", "stays"):
            said[int(row[1]), int(row[2])][row[0]] = (int(row[3]),
                                                      int(row[4]))
    main = next(k for k, v in said.items() if "begin" in v)
    first, last = said[main]["begin"][0], said[main]["end"][0]
    count = 0
    for s in segments:
        who = s.head["pid"], s.head["tid"]
        if who not in said or s.records[0]["a"] == 1:
            continue
        before = (0, 0)
        own = [whole(r) for r in s.records]
        # A channel is named before the call that it was found in is recorded.
        for r in sorted(own, key=lambda r: r["t"] if r["head_flags"] & 1 else s.ns(r["t"])):
            if r["type"] in ("STACK", "MODULE", "RUNDELAY", "GUESSED", "PAGEFAULT"):
                continue
            t = r["t"] if r["head_flags"] & 1 else s.ns(r["t"])
            # 10 us: the two clocks are read one after the other
            if r["type"] not in ("START", "NAME", "CALLS", "END",
                                 "THREADCPU") and not (
                                     r["type"] == "CHAN" and r["flags"] & 8):
                assert first - 10000 <= t <= last + 10000, r
            # A queue's records lie inside each other, those of several
            # messages beside each other.
            if "cpu" in r and r["type"] not in ("THREADCPU", "ACQUIRE",
                                                "RELEASE"):
                assert before[1] <= r["cpu"], (before, r)
                before = t, r["cpu"]
                count += 1
        end = [r for r in own if r["type"] == "END"]
        if "end" in said[who]:
            assert end and said[who]["end"][1] <= end[-1]["cpu"] < \
                said[who]["end"][1] + 10**9
    assert count > 40
    stays = next(v["stays"][1] for v in said.values() if "stays" in v)
    cpu = [r["cpu"] for s in segments for r in s.records
           if r["type"] == "THREADCPU" and s.head["pid"] == main[0]]
    assert len(cpu) == 1 and stays <= cpu[0] < stays + 10**9
    # The child's own last figure is the CPU that its parent was told of, less
    # what it took to begin and to end.
    child = next(row.split() for row in lines if row.startswith("child "))
    ends = [r["cpu"] for s in segments if s.head["pid"] == int(child[1])
            for r in s.records if r["type"] == "END"]
    assert len(ends) == 1 and ends[0] <= int(child[2]) + 1000


def test_every_field_of_the_header(seen):
    """Would catch: a header that is not its stream's, a thread's segment that
    is not closed at its end, a copy of the clock that is not control's."""
    lines, segments, control = seen
    main = int(lines[0].split()[1])
    threads = {int(line.split()[2]): line.split()[0] for line in lines
               if line.split()[0] in ("end", "stays")}
    assert len(segments) > 5
    seen_fields = set()
    for s in segments:
        head = dict(s.head)
        seen_fields |= set(head)
        assert head.pop("magic") == int.from_bytes(b"\0IPSSEG1", "little")
        assert head.pop("version") == 3
        assert head.pop("header_bytes") == 256
        assert head.pop("segment_bytes") == s.size == control["segment_bytes"]
        assert head.pop("uid") == os.geteuid()
        assert head.pop("pidns") == os.stat("/proc/self/ns/pid").st_ino
        assert head.pop("clock") and s.clock == control["clock"]
        pid, tid = head.pop("pid"), head.pop("tid")
        name = os.path.basename(s.path).split(".")
        assert [int(n) for n in name[:2]] == [pid, tid]
        start = s.records[0]
        assert start["type"] == "START"
        assert head.pop("stream_stamp") == start["t"] or tid != pid
        image = head.pop("image_stamp")
        assert (image == start["t"]) == (start["a"] in (1, 3)) or \
            start["a"] == 2
        ended = pid == main and tid != main and threads[tid] == "end"
        assert head.pop("state") == (2 if ended else 1)
        assert head.pop("abandoned") == int(ended)
        call = head.pop("begun")[0]  # that its thread is in
        if ended or tid == main:
            assert call == 0
        comm = head.pop("comm")
        if start["a"] != 2 and pid == main:
            assert comm == ("ipsrun" if start["a"] == 1 else "i_fields")
        assert not any(any(v) if isinstance(v, list) else v
                       for v in head.values()), head
    assert seen_fields == {f[0] for f in
                           FORMAT.structs["ips_segment_header"]}
    assert control["used_bytes"] == sum(s.blocks for s in segments)


# --- calls that may never end ----------------------------------------------------

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
