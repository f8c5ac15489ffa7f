"""Calls that fail, and rarer ones that succeed: what each returns, the errno it
leaves, and every record it makes, compared with tests/system/recording/failures.txt.

The programs are tests/programs/failures/*.c, one group a file. A line of
failures.txt is a case and what it records, in order; a case without a line
records nothing. Names of ends are those that the program prints; sides and
inodes come from its own fstat().
"""
import bisect
import errno
import functools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest

from conftest import clean_env, give_clock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "oracle"))

import pool_format  # noqa: E402

pytestmark = pytest.mark.quick

FORMAT = pool_format.load()
GROUPS = ["bytes", "descriptors", "waits", "locks", "processes", "together", "paths",
          "numbers", "rare", "notices", "left", "execs", "memory"]
# They come as time goes.
TIMED = {"RUNDELAY", "GUESSED", "CALLS", "SAMPLE", "PAGEFAULT"}
SIDES = {"file": 0, "read": 1, "write": 2, "both": 3}
WHY = "in", "out", "hup", "err"
HOW_CLOSED = {1: "FD", 2: "SHUT_RD", 3: "SHUT_WR", 4: "SHUT_RDWR"}
FORKS = {1: "FORK", 2: "VFORK", 3: "SPAWN", 4: "POPEN", 5: "SYSTEM",
         6: "THREAD"}
JOINS = {1: "WAIT", 2: "THREAD", 3: "SYSTEM"}
LOCKS = {1: "MUTEX", 2: "RDLOCK", 3: "WRLOCK", 4: "COND", 5: "BARRIER",
         6: "SEMAPHORE", 7: "SPIN", 8: "ONCE", 9: "EVENTFD", 10: "FLOCK",
         11: "RECORD_LOCK", 12: "FUTEX", 13: "FIFO", 14: "LISTEN", 15: "WATCH"}
HOW_SENT = {1: "kill", 2: "sigqueue", 3: "thread", 16: "handler", 17: "wait",
            18: "signalfd"}
BLOCKED_NS = 2000
# Calls that were left, and nobody knows how far they were (NESTED).
LEFT = {"left": 1}


def expected(group):
    """{case: [its records]} of failures.txt."""
    found, here = {}, None
    for line in (HERE / "failures.txt").read_text().splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("["):
            here = line.strip("[]")
        elif line and here == group:
            name, _, records = line.partition(":")
            assert name not in found, name
            found[name] = [r.strip() for r in records.split(";")]
    return found


# What a handler calls, inside a case's call.
IN_HANDLERS = {"writes_beside", "reads_same", "closes_same", "polls"}


def same_for_all(text):
    """Without inodes, pids and ids: results and errno do not differ."""
    return re.sub(r"(?m)^end .*\n|end \S+ \d+ \S+\n|\[\w+ \w+\]\s", "", text)


@functools.cache
def bare(program, group):
    """What the program says without IPS."""
    done = subprocess.run([program, group], capture_output=True, text=True,
                          timeout=180, env=clean_env())
    assert (done.returncode, done.stderr) == (0, "")
    return same_for_all(done.stdout)


class Run:
    """What one group did under ipsrun, with `cpu` as --cpu says."""

    def __init__(self, build, top, group, cpu, procedures):
        self.program = build.program("i_failures")
        seen = subprocess.run(
            [build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool",
             top + "/pool", "--name", "r", "--cpu=" + cpu, "--procedures=" +
             procedures, "--", self.program, group],
            capture_output=True, text=True, timeout=180, env=clean_env())
        assert (seen.returncode, seen.stderr) == (0, "")
        assert same_for_all(seen.stdout) == bare(self.program, group)
        self.no_terminals = "no terminals here" in seen.stdout
        self.environments = re.findall(r"\[variables (\d+)\] \[libraries (\d+)\]",
                                       seen.stdout)
        self.segments = FORMAT.segments(top + "/pool/r")
        main = [s for s in self.segments if s.head["pid"] == s.head["tid"]]
        # the first image is ipsrun's; children have pids of their own
        image = [s for s in main if s.records[0]["a"] == 3 and
                 s.records[0]["type"] == "START"]
        self.main = image[0]
        self.records = [r for s in main if s.head["pid"] ==
                        self.main.head["pid"] and s.head["image_stamp"] ==
                        self.main.head["image_stamp"] for r in s.records
                        if r["type"] not in TIMED]
        self.stacks = [r for r in self.records if r["type"] == "STACK"]
        self.records = [r for r in self.records
                        if r["type"] not in ("STACK", "MODULE")]
        assert not any(s.torn for s in self.segments)
        self.lost = [sum(s.head["lost"][i] for s in self.segments) for i in range(8)]
        self.ends = {(int(ino), SIDES[side]): name for name, ino, side in
                     re.findall(r"end (\S+) (\d+) (\w+)", seen.stdout)}
        self.objects = {int(number, 0): name for name, number in
                        re.findall(r"\[(\w+) (\w+)\]", seen.stdout)}
        self.tasks = {int(number): name for name, number in
                      re.findall(r"\[(child|other) (\d+)\]", seen.stdout)}
        self.cases = re.findall(r"(?m)^case (\w+): ", seen.stdout)
        # Any thread may name an end; its id is the image's.
        named = [r for s in self.segments if s.head["image_stamp"] ==
                 self.main.head["image_stamp"] for r in s.records
                 if r["type"] == "CHAN"]
        self.chans = {r["a"]: r for r in named}
        assert len(self.chans) == len(named)
        self.functions = self.symbols()
        self.device = os.stat("/tmp").st_dev & 0xffffffff

    def symbols(self):
        """[(address, size, name)] of the program's functions."""
        lines = subprocess.run(["nm", "-S", "--defined-only", self.program],
                               capture_output=True, text=True, check=True)
        rows = [line.split() for line in lines.stdout.splitlines()]
        return sorted((int(r[0], 16), int(r[1], 16), r[3]) for r in rows
                      if len(r) == 4 and r[2] in "tT")

    def function(self, address):
        at = bisect.bisect_right(self.functions, (address, 1 << 62)) - 1
        start, size, name = self.functions[at]
        # a call that never returns has its return address behind the end
        return name.split(".")[0] if start < address <= start + size else None

    def end(self, chan):
        if chan == 0:
            return "-"
        c = self.chans[chan]
        return self.ends.get((c["ino"], c["side"]), "?%d" % c["ino"])

    def between_marks(self):
        """[(records of a case, in order)], each between its two marks."""
        cases, here = [], None
        for r in self.records:
            mark = r["a"] in self.chans and self.end(r["a"])
            if r["type"] in ("SEND", "SEND_SHORT") and mark == "marks":
                assert (here is None) == (r["result"] == 1)
                if r["result"] == 1:
                    here = []
                else:
                    cases.append(here)
                    here = None
            elif here is not None and not (
                    mark == "marks.r" and r["type"].startswith("RECV")):
                here.append(r)
        assert here is None
        return cases

    def took(self, r):
        return self.main.ns(r["t"] + r["took"] if "took" in r else r["t_ret"]) - \
            self.main.ns(r["t"])

    def blocked(self, r):
        return (self.main.ns(r["t_ret"]) - self.main.ns(r["t"]) -
                (r["cpu_ret"] - r["cpu"])) >= BLOCKED_NS - 1

    def text(self, r):
        """A record as failures.txt has it; times and places are checked."""
        kind = r["type"].replace("_SHORT", "")
        if "t_ret" in r:
            assert r["t"] <= r["t_ret"], r
        if "cpu_ret" in r:
            assert 0 <= r["cpu_ret"] - r["cpu"] <= 10**9, r
        err = r.get("err", 0)
        err = " " + errno.errorcode[err] if err else ""
        if kind in ("SEND", "RECV", "RECVCALL"):
            op = FORMAT.ops[r.get("op", r["head_flags"] >> 2 & 31)]
            assert r.get("ready", 0) == 0
            return "%s %s %s %d%s" % (kind, self.end(r["a"]), op, r["result"],
                                      err)
        if kind == "BLOCK":
            op = FORMAT.ops[r["op"]]
            if op in ("MADE", "FOUND"): # a file: device and inode
                assert r["a"] == self.device
                assert (r["t"] == r["t_ret"]) == (op == "MADE"), r
                return "BLOCK %s %s" % (op, self.ends.get((r["result"], 0)))
            polls = op in ("POLL", "SELECT", "EPOLL")
            assert r["a"] == 0 or op == "SPIN" or polls
            what = r["ready"] >> 30
            ready = " ready " + ("process" if what == 1 else self.end(r["ready"])
                                 ) if r["ready"] else ""
            assert what < 2
            if polls:
                ready += "".join(" " + why for bit, why in enumerate(WHY)
                                 if r["a"] >> bit & 1)
            result = self.tasks.get(r["result"]) if op == "SIGWAIT" else None
            return "BLOCK %s %s%s%s" % (op, result or r["result"], err, ready)
        if kind == "CHAN":
            return "CHAN " + self.end(r["a"])
        if kind == "CLOSE":
            return "CLOSE %s %s" % (self.end(r["a"]), HOW_CLOSED[r["how"]])
        if kind == "FORK":
            return "FORK %s %s%s" % (FORKS[r["kind"]], "pid" if r["a"] else 0,
                                     err)
        if kind == "JOIN":
            unknown = r["kind"] == 3 and r["child_cpu_ns"] == 2**64 - 1
            return "JOIN %s %s %#x%s" % (JOINS[r["kind"]], "pid" if r["a"] else 0,
                                         r["status"], " without CPU" if unknown else "")
        if kind == "EXEC":
            assert r["a"] == len(r["path"])
            return ("EXEC " + r["path"]).rstrip()
        if kind == "EXECFAIL":
            return "EXECFAIL " + errno.errorcode[r["a"]]
        if kind in ("KILL", "SIGNAL"):
            # SI_USER, SI_QUEUE, SI_MESGQ, SI_TKILL, POLL_IN, SI_KERNEL
            assert kind == "KILL" or r["code"] in (0, -1, -3, -6, 1, 128)
            own = self.main.head["pid"]
            pid = {own: "self", 1 << 30: "none",
                   -(1 << 30): "-none"}.get(
                r["pid"], self.tasks.get(r["pid"], r["pid"]))
            tid = {own: "self", 1 << 30: "none"}.get(
                r["tid"], self.tasks.get(r["tid"], r["tid"]))
            return "%s %d %s %s %s %s" % (kind, r["a"], pid, tid,
                                          HOW_SENT[r["how"]], self.value(r))
        if kind in ("ACQUIRE", "RELEASE"):
            return "%s %s %s %d%s" % (kind, LOCKS[r["a"]], self.object(r),
                                      r["value"], err)
        return kind

    def value(self, r):
        """What was sent along, or what became ready."""
        value, code = r["value"], r.get("code")
        if code == -3 and value: # a queue: low bits of its inode
            return self.queue(value)
        if code in (1, 128) and value:
            return " ".join([self.end(value & 0xffffffff)] + [
                why for bit, why in enumerate(WHY) if value >> 32 >> bit & 1])
        return value

    def queue(self, number):
        low = {ino & (1 << 29) - 1: end for (ino, _), end in self.ends.items()}
        return low.get(number & (1 << 29) - 1)

    def object(self, r):
        """By address, or (of what has a file or a number) by that."""
        if LOCKS[r["a"]] == "WATCH": # the file's name
            assert r["dev"] == 0 and bool(r["object"]) == (r["type"] == "RELEASE")
            return self.objects.get(r["ino"])
        if LOCKS[r["a"]] == "LISTEN": # a network, and a port in it
            assert r["object"] == socket.AF_INET
            return "%s:%s" % (self.objects.get(r["dev"]),
                              self.objects.get(r["ino"]))
        if LOCKS[r["a"]] in ("FLOCK", "RECORD_LOCK") and r["dev"]: # where in the file
            return "%s+%d" % (self.ends.get((r["ino"], 3)), r["object"])
        if not r["dev"] and r["ino"] >> 29 == 1:
            return "%s/%s" % (self.queue(r["ino"]),
                              "room" if r["object"] >> 32 else "")
        if not r["dev"]:
            return self.objects.get(r["object"], hex(r["object"]))
        what, number = r["ino"] >> 32, r["ino"] & 0xffffffff
        space = os.stat("/proc/self/ns/ipc").st_ino
        if r["dev"] == space and what in (1, 2):
            return "%s/%s%d" % ({1: "sems", 2: "queue"}[what],
                                "room" if r["object"] >> 32 else "",
                                r["object"] & 0xffffffff)
        return "%s/%s" % (self.ends.get((r["ino"], 3)),
                          "room" if r["object"] >> 32 else "")


def may_be_long(r):
    return r.get("site") and r["type"].replace("_SHORT", "") in (
        "SEND", "RECV", "RECVCALL", "BLOCK", "ACQUIRE", "JOIN")


def without_repeats(texts):
    """SIGALRM may come more than once before the call waits."""
    return [t for i, t in enumerate(texts)
            if not (t.startswith("SIGNAL") and texts[i + 1:i + 2] == [t])]


@pytest.fixture
def top(build):
    path = tempfile.mkdtemp(prefix="ips-test-failures-", dir="/dev/shm")
    os.mkdir(path + "/pool", 0o711)
    give_clock(build, path + "/pool")
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("cpu", ["fast", "clock"])
@pytest.mark.parametrize("group", GROUPS)
def test_what_a_failed_call_leaves(build, top, group, cpu):
    """Would catch: a failed call with no record, with two, at the wrong end,
    with another errno or result; a descriptor that is believed closed or
    replaced though it was not; an errno that the recording changed; a return
    address that is not the call's; a system call by number whose arguments
    come elsewhere than the function's; a file's name or inode that is not
    the one made, found or removed; an executed program that finds other
    variables than it was given, or not the recorder's."""
    run = Run(build, top, group, cpu, "off")
    check_cases(run, group)
    assert not run.stacks


@pytest.mark.parametrize("group", GROUPS)
def test_stacks_of_long_calls(build, top, group):
    """The same with stacks and samples. Would catch: a call of 50 us without its
    stack, a shorter one with one, a stack that begins elsewhere than at the call or
    ends early, a call that sampling disturbs."""
    run = Run(build, top, group, "fast", "sample")
    check_cases(run, group)
    stacks = {s["t"]: s for s in run.stacks}
    calls = [r for r in run.records if may_be_long(r)]
    # Those of memory.c named use_... have a stack too small to write one.
    assert stacks or not [r for r in calls if run.took(r) >= 51000 and
                          not run.function(r["site"]).startswith("use_")]
    assert set(stacks) <= {r["t"] for r in calls}
    for r in calls:
        beside = [s for s in calls if s["t"] == r["t"] and s != r]
        assert run.took(r) > 49000 or beside or r["t"] not in stacks, r
    for r in sum(run.between_marks(), []):
        if may_be_long(r) and run.took(r) > 51000:
            frames = stacks[r["t"]]["frames"]
            assert frames[0] == r["site"], (r, frames)
            assert "main" in [run.function(f) for f in frames[1:]], (r, frames)


@pytest.mark.parametrize("group", GROUPS)
def test_without_a_run(build, group):
    """The library is there, and nothing is recorded. Would catch: a call that is then
    made with other arguments, twice or not at all."""
    program = build.program("i_failures")
    done = subprocess.run(
        [program, group], capture_output=True, text=True, timeout=180,
        env=clean_env(LD_PRELOAD=build.lib("libips-preload.so")))
    assert (done.returncode, done.stderr) == (0, "")
    assert same_for_all(done.stdout) == bare(program, group)


def check_cases(run, group):
    want, wrong = expected(group), []
    if run.no_terminals:
        del want["forkpty_one"]
    cases = run.between_marks()
    assert len(cases) == len(run.cases) >= 10
    assert set(want) <= set(run.cases), set(want) - set(run.cases)
    for name, records in zip(run.cases, cases):
        for r in records:
            if r.get("site"):
                place = run.function(r["site"])
                assert place == "case_" + name or place in IN_HANDLERS, \
                    (place, name, r)
        # Who was only off its core, for 2 us, looks like one that waited.
        texts = without_repeats([run.text(r) for r in records])
        if name not in want:
            texts = [run.text(r) for r in records
                     if r["type"] not in ("BLOCK", "ACQUIRE") or
                     not run.blocked(r)]
        else:
            assert all(run.blocked(r) for r in records if r["type"] ==
                       "BLOCK" and r["result"] <= 0), (name, records)
        if texts != want.get(name, []):
            wrong.append("%s: %s" % (name, "; ".join(texts)))
    assert not wrong, "\n".join(wrong)
    # Who is executed finds the recorder's own in its environment, each once.
    assert run.environments == [("3", "1")] * len(run.environments)
    assert bool(run.environments) == (group == "execs")
    assert run.lost == [0, 0, LEFT.get(group, 0), 0, 0, 0, 0, 0]
    # The ends that all cases share were named once, and nothing closed them.
    for end in ("empty.r", "empty.w", "full.w", "pair.0"):
        (number, *more) = [c["fd"] for i, c in run.chans.items()
                           if run.end(i) == end]
        assert number not in more, (end, more)
        assert not [r for r in run.records if r["type"] == "CLOSE" and
                    run.end(r["a"]) == end and r["fd"] == number]
