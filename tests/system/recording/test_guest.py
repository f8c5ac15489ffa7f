"""The program behaves as without us, whatever it does to itself or has done
to it: same output, same status; and what was recorded can be read.

Each case of tests/programs/interposed/i_guest.c runs bare and under ipsrun. Would catch an
agent that crashes, blocks or changes its host, and a pool that such an end
leaves unreadable.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import clean_env, give_clock, wait_until


class Guest:
    """Runs a command bare and measured, without daemons, and compares."""

    def __init__(self, build):
        self.build = build
        self.options = []
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="ips-guest-",
                                                 dir="/dev/shm"))
        os.chmod(self.top, 0o711)
        give_clock(build, self.top / "pool")

    def measured(self, argv):
        return [self.build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool",
                str(self.top / "pool"), "--name", "r", *self.options,
                "--"] + argv

    def run(self, argv, status=None, env=None, meanwhile=None):
        """The status may be needed to know that the case was one at all."""
        ends = []
        for i, argv in enumerate((argv, self.measured(argv))):
            proc = subprocess.Popen(argv, env=clean_env(**(env or {})),
                                    stdin=subprocess.DEVNULL, text=True,
                                    stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            if meanwhile:
                meanwhile(i)
            out, err = proc.communicate(timeout=180)
            ends.append((proc.returncode, out, err))
        assert ends[1] == ends[0]
        if status is not None:
            assert ends[0][0] == status, ends[0]
        return ends[0][1]

    def records(self, run=None):
        """Every record that is in the pool; segments come as "segment"."""
        [run] = [run] if run else \
            [d for d in (self.top / "pool").glob("[!.]*") if d.is_dir()]
        dump = subprocess.run(
            [str(self.build.top / "tests" / "pooldump"), "--torn", str(run)],
            text=True, capture_output=True, timeout=180)
        assert dump.returncode == 0 and not dump.stderr, dump.stderr
        return [json.loads(line) for line in dump.stdout.splitlines()]


@pytest.fixture
def guest(build):
    g = Guest(build)
    yield g
    shutil.rmtree(g.top)


LIMITS = ["fsize", "fsize-small", "nofile", "as", "data", "nproc", "memlock",
          "stack", "sigpending", "msgqueue"]
CASES = [  # arguments of i_guest, its status
    (["storm"], 0),
    (["jump", "200"], 0),
    (["jump-alternate", "200"], 0),
    (["alternate"], 0),
    (["exit-in-handler"], 42),
    (["overflow"], 43), (["far-stack"], 0),
    (["fork-threads"], 0),
    (["thread-exit"], 0),
    (["abort"], -6),
    (["close", "closefrom"], 0),
    (["close", "close_range"], 0),
    (["close", "loop"], 0),
    (["limit-cpu"], -24),
    *[(["limit", name], None) for name in LIMITS],
    *[(["surroundings", name], 0)
      for name in ("umask", "cwd", "environment", "argv0")],
]


@pytest.mark.parametrize("case,status", CASES, ids=[" ".join(c[0])
                                                    for c in CASES])
def test_behaves(build, guest, case, status):
    out = guest.run([build.program("i_guest"), *case], status)
    assert "not interrupted" not in out
    rows = guest.records()
    # What came before the trouble is there.
    assert any(r["type"] == "START" for r in rows)


def test_small_stacks(build, guest):
    """A coroutine with little stack: would catch recording, or a sample, that
    takes more of it than 4.5 KB, as the loader does to bind a function."""
    guest.options = ["--rate", "1"]
    guest.run([build.program("i_guest"), "small-stack"], 0)
    rows = guest.records()
    assert sum(r["type"] == "SEND" for r in rows) >= 3
    assert sum(r["type"] == "SIGNAL" for r in rows) >= 3


def test_before_constructors_and_after_exit(build, guest):
    """Calls from .preinit_array, before any library's constructor and so before
    ours, and from the last destructor. Would catch a wrapper that needs its
    constructor (ftrylockfile's is called first of all), one that finds no environment there and gives up for good, and
    an end that comes too soon."""
    out = guest.run([build.program("i_guest"), "flood", "10"], 0,
                    env={"I_GUEST_EARLY": "1"})
    assert out == "before any constructor\nmoved 55\nafter exit\n"
    assert sum(r["type"] == "SEND" for r in guest.records()) >= 10


def test_a_malloc_of_its_own(build, guest):
    """Would catch a wrapper that calls the program's malloc, which calls the
    wrapper: a deadlock or an endless recursion."""
    assert guest.run([build.program("i_malloc")], 0).endswith("called 1\n")
    assert any(r["type"] == "SEND" for r in guest.records())


# --- lost + recorded = what was done ----------------------------------------


def torn_in(rows):
    return sum(r["torn"] for r in rows if r["type"] == "segment")


def lost_by(rows):
    """Losses counted in the segments' headers."""
    sums = {}
    for segment in rows:
        if segment["type"] == "segment":
            for cause, count in segment["lost"].items():
                sums[cause] = sums.get(cause, 0) + count
    return sums


@pytest.mark.parametrize("case", ["jump", "jump-alternate"])
def test_calls_left_by_a_jump_are_counted(build, guest, case):
    """Every byte is written by a call that a handler leaves by siglongjmp
    after the kernel has done it. Would catch a call that is neither recorded
    nor counted, and one that is counted though it was recorded."""
    out = guest.run([build.program("i_guest"), case, "500"], 0)
    assert out == "jumped 500, read 500\n"
    rows = guest.records()
    sent = sum(r["result"] for r in rows
               if r["type"] == "SEND" and r["result"] == 1)
    lost = lost_by(rows)
    torn = torn_in(rows)
    assert set(lost) <= {"NESTED"}
    assert sent + torn + lost.get("NESTED", 0) == 500
    assert lost["NESTED"] >= 400


def test_a_call_behind_which_a_handler_ends_the_process(build, guest):
    """Of four children that a handler ends in a call one has moved a byte by it.
    Would catch that byte neither recorded nor counted, and a call counted as
    lost that failed or only waited."""
    out = guest.run([build.program("i_guest"), "ends-in-calls"], 0)
    assert out == "moved: 42\nread 1\nfailed: 42\nread: 42\npoll: 42\n"
    rows = guest.records()
    assert lost_by(rows) == {"NESTED": 1}


@pytest.mark.parametrize("case", ["alternate", "storm"])
def test_handlers_that_return_lose_nothing(build, guest, case):
    """Would catch a handler's own calls taken for ones that were left."""
    guest.run([build.program("i_guest"), case], 0)
    rows = guest.records()
    assert not lost_by(rows)
    assert not torn_in(rows)


# --- under debuggers and checkers ---------------------------------------------

@pytest.mark.slow
@pytest.mark.parametrize("tool", [
    ("valgrind", "-q"), ("strace", "-f", "-o", "/dev/null"),
    ("sh", "-c", "gdb -q -batch -ex 'set print thread-events off' "
     "-ex 'set print inferior-events off' -ex run "
     "--args \"$@\" | grep -v '^.Inferior'", "gdb")], ids=lambda tool: tool[-1] if tool[0] == "sh" else tool[0])
def test_watched_by(build, guest, tool):
    """The program behaves, and whoever watches it has nothing to report: would
    catch odd system calls and signals that these do not bear. valgrind's CPU
    time, of which a sample would be taken every ms, is not the program's; that
    of the shell's script which /usr/bin/valgrind is, before, is its own."""
    guest.options = ["--rate", "1"]
    out = guest.run([*tool, build.program("i_guest"), "flood", "3000"], 0)
    assert "moved 4501500" in out
    rows = guest.records()
    assert sum(r["type"] == "SEND" for r in rows) >= 3000
    if tool[0] == "valgrind":
        [image] = {(r["pid"], r["image"]) for r in rows if r["type"] == "SEND"}
        assert not [r for r in rows if r["type"] == "SAMPLE" and
                    (r["pid"], r["image"]) == image]


@pytest.mark.slow
@pytest.mark.parametrize("words,status", [([], 0), (["race"], 9)], ids=["sound", "race"])
@pytest.mark.parametrize("tool", ["helgrind", "drd"])
def test_race_checkers(build, guest, tool, words, status):
    """They find as many errors in a program with every kind of lock, and in one with a
    race, as without us. Would catch: objects of ours of two kinds at one address, at
    which they abort; our own memory, which threads share without locks, reported."""
    command = ["valgrind", "-q", f"--tool={tool}", "--error-exitcode=9",
               build.program("i_race"), *words]
    if status == 0:
        guest.run(command, status)
        assert sum(r["type"] == "START" for r in guest.records()) >= 5
        return
    for argv in (command, guest.measured(command)):
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == status and "race" in done.stderr, done.stderr


@pytest.mark.slow
def test_memory_checker_of_a_fork_child(guest):
    """memcheck looks for leaks when a fork child ends. Would catch: a mapping of ours that
    valgrind takes to be in the child (SIGBUS; the shell then says 135)."""
    out = guest.run(["valgrind", "-q", "/bin/dash", "-c", "(exit 3); echo $?"], 0)
    assert out.splitlines() == ["3"]


# --- seccomp ------------------------------------------------------------------

@pytest.mark.parametrize("case,status", [
    ("strict", 3), ("kill", 3), ("kill-syscall", 3), ("kill-listener", 3),
    ("kill-twice", 3), ("eperm", 3), ("live", 0), ("vfork", 0), ("refused", 0), ("no-tsc", 3)])
def test_sandboxed(build, guest, case, status):
    """Would catch one system call of ours too many: the filter kills."""
    out = guest.run([build.program("i_sandbox"), case], status)
    assert "failed" not in out and "killed" not in out
    rows = guest.records()
    moved = sum(r["result"] == 100 for r in rows if r["type"] == "SEND")
    unseen = [r["text"] for r in rows if r["type"] == "UNSEEN"]
    if case in ("vfork", "refused"):
        assert moved == (200 if case == "vfork" else 150)
        return
    assert moved >= 100 and len(unseen) == 1
    if case == "kill":
        # What there was room for is recorded, the rest is counted.
        assert moved > 1000
        both = sum(r["type"] in ("SEND", "RECV") for r in rows)
        lost = lost_by(rows)
        assert set(lost) == {"NO_SEGMENT"}
        # two for each step, "done", and the END that may have no room
        assert both + lost["NO_SEGMENT"] in (60201, 60202)


# --- what others do meanwhile ---------------------------------------------------

def remove_pool(pool):
    shutil.rmtree(pool)


def cut_control(pool):
    [run] = [d for d in pool.glob("[!.]*") if d.is_dir()]
    os.truncate(run / "control", 0)


def remove_control(pool):
    [run] = [d for d in pool.glob("[!.]*") if d.is_dir()]
    (run / "control").unlink()


@pytest.mark.parametrize("harm", [remove_pool, cut_control, remove_control])
@pytest.mark.parametrize("mode", ["drop", "block", "ring"])
def test_harm_while_it_runs(build, guest, harm, mode):
    """Would catch a SIGBUS where the agent counts its quota in a control file
    that is no longer there, and a wait for room that cannot come."""
    flag = guest.top / "flag"
    guest.options = [f"--on-full={mode}"]

    def meanwhile(measured):
        wait_until("the program is under way", flag.exists)
        if measured:
            harm(guest.top / "pool")
        flag.unlink()

    guest.run([build.program("i_guest"), "meanwhile", str(flag)], 0,
              meanwhile=meanwhile)


@pytest.mark.parametrize("mode", ["block", "ring"])
@pytest.mark.parametrize("case,status", [
    (["storm"], 0), (["jump-alternate", "200"], 0), (["fork-threads"], 0),
    (["thread-exit"], 0), (["exit-in-handler"], 42), (["overflow"], 43)],
    ids=lambda v: v[0] if isinstance(v, list) else "")
def test_behaves_without_room(build, guest, mode, case, status):
    """As test_behaves, in a pool that is full all the time."""
    if mode == "block" and case == ["fork-threads"]:
        pytest.skip("each of its images waits a second for a slave")
    guest.options = [f"--on-full={mode}", "--quota=256K"]
    guest.run([build.program("i_guest"), *case], status)
    guest.records()
