"""The interposer: programs behave as without it, and what they did is there.

Each small program of tests/programs/i_*.c runs bare and under ipsrun without
daemons: same output and status. Then the records are read with pooldump and
checked: bytes of each channel on both ends, and kinds of records.
"""
import collections
import errno
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import pytest

from conftest import give_clock

pytestmark = pytest.mark.quick

UNKNOWN = 2**64 - 1
LOCK_PRICE_AT = 1360  # in control: docs/pool-format.md
PIPE, UNIX, UNIX_DGRAM, TCP, UDP = 1, 2, 3, 4, 5
WAIT, THREAD, SYSTEM = 1, 2, 3
FORK, VFORK, SPAWN, POPEN, SYSTEM_FORK, THREAD_FORK = 1, 2, 3, 4, 5, 6


class Records:
    """All records of one run, but RUNDELAY and GUESSED: what those are and how
    many is up to who else wants the CPU. CALLS are added up."""

    def __init__(self, lines):
        rows = [json.loads(line) for line in lines]
        self.rows = [r for r in rows
                     if r["type"] not in ("RUNDELAY", "GUESSED", "CALLS", "PAGEFAULT")]
        calls = [r for r in rows if r["type"] == "CALLS"]
        # The first of an image or fork child says what its beginning took.
        first = {}
        for r in calls:
            if r["tid"] == r["pid"]:
                first.setdefault((r["pid"], r["image"]), r)
        self.begun_ns = {key: r["beyond"] for key, r in first.items()}
        self.calls = sum(r["calls"] for r in calls)
        self.beyond_ns = (sum(r["beyond"] for r in calls) -
                          sum(self.begun_ns.values()))
        self.chans = {self.key(r): r for r in self.of("CHAN")}

    @staticmethod
    def key(r):
        return r["pid"], r["image"], r["a"]

    def of(self, record, **fields):
        return [r for r in self.rows if r["type"] == record and
                all(r.get(k) == v for k, v in fields.items())]

    def count(self, record, **fields):
        return len(self.of(record, **fields))

    def channel(self, r):
        """The CHAN that a record's channel id stands for."""
        return self.chans[self.key(r)]

    def moved(self, kind):
        """{end: [sent, received]} of all channels of a kind; an end is the
        pipe, or the socket itself."""
        ends = collections.defaultdict(lambda: [0, 0])
        for r in self.of("SEND") + self.of("RECV"):
            chan = self.channel(r)
            if chan["kind"] == kind and r["result"] > 0:
                ends[chan["ino"]][r["type"] == "RECV"] += r["result"]
        return dict(ends)

    def peers(self, kind):
        """Pairs of ends, each once: Unix sockets by inode, TCP by address."""
        chans = [c for c in self.chans.values() if c["kind"] == kind]
        found = set()
        for a in chans:
            for b in chans:
                same = (b["ino"] == a["peer_ino"] if kind == UNIX else
                        (a["local"], a["remote"]) ==
                        (b["remote"], b["local"]))
                if same:
                    found.add(frozenset((a["ino"], b["ino"])))
        return [tuple(pair) for pair in found]


@pytest.fixture
def trace(build):
    """trace(argv, stdin) -> Records, having compared with the bare run."""
    # Not tmp_path: a run that changes user must reach its pool.
    top = tempfile.mkdtemp(prefix="preload-", dir="/dev/shm")
    os.chmod(top, 0o711)
    give_clock(build, top + "/pool")
    runs = []

    def run(argv, stdin="", env=None, status=None, lost=()):
        env = {**os.environ, **(env or {})}
        for name in list(env):
            if name.startswith("IPS_"):
                del env[name]
        name = f"r{len(runs)}"
        runs.append(name)
        bare = subprocess.run(argv, input=stdin, env=env, text=True,
                              capture_output=True, timeout=180)
        seen = subprocess.run(
            [build.bin("ipsrun"), "--no-daemons", "--quiet", "--pool",
             top + "/pool", "--name", name, "--"] + argv,
            input=stdin, env=env, text=True, capture_output=True, timeout=180)
        assert seen.stdout == bare.stdout
        assert seen.stderr == bare.stderr
        assert seen.returncode == bare.returncode
        if status is not None:
            assert seen.returncode == status
        dirs = [d for d in pathlib.Path(top, "pool").iterdir()
                if d.name.startswith(name)]
        assert len(dirs) == 1
        # A reservation that a signal handler jumped out of stays torn.
        dump = subprocess.run(
            [str(build.top / "tests" / "pooldump"), "--torn", str(dirs[0])],
            text=True, capture_output=True, timeout=180)
        assert dump.returncode == 0 and not dump.stderr, dump.stderr
        records = Records(dump.stdout.splitlines())
        records.stdout = seen.stdout
        records.directory = str(dirs[0])
        for segment in records.of("segment"):
            assert segment["end"] in ("end", "closed")
            assert set(segment["lost"]) <= set(lost), segment
        return records

    yield run
    shutil.rmtree(top)


def program(build, name):
    return build.program(name)


# --- the C library's own reads and writes ----------------------------------


@pytest.mark.parametrize("case,status", [
    ("flush-at-exit", 3), ("quick-exit", 4), ("wide", 0), ("dprintf", 0)])
def test_stdio_output_is_seen(build, trace, case, status):
    """Would catch output that leaves by stdio's internal write unseen."""
    r = trace([program(build, "i_stdio"), case], status=status)
    sent = sum(s[0] for s in r.moved(PIPE).values())
    assert sent == len(r.stdout) > 0
    assert all(s["op"] == "STDIO" for s in r.of("SEND"))


@pytest.mark.parametrize("case", ["getline", "fread"])
def test_stdio_input_is_seen(build, trace, case):
    """Would catch input read by stdio unseen, and a missing end-of-file."""
    text = "".join(f"line {i}\n" for i in range(5000))
    r = trace([program(build, "i_stdio"), case], stdin=text)
    assert sum(s[1] for s in r.moved(PIPE).values()) == len(text)
    assert r.count("RECV", result=0, op="STDIO") >= 1


def test_stdio_stream_over_a_socket(build, trace):
    """fclose closes the socket: its CLOSE comes before the end-of-file."""
    r = trace([program(build, "i_stdio"), "fdopen"])
    assert sorted(r.moved(UNIX).values()) == [[0, 16], [16, 0]]
    close, = [c for c in r.of("CLOSE") if r.channel(c)["kind"] == UNIX]
    end, = r.of("RECV", result=0)
    assert close["t"] < end["t_ret"]


def test_stdio_reopened(build, trace, tmp_path):
    """freopen writes out what the stream had and takes a FIFO's end in its
    place. Would catch: the pipe's end not closed, or before what was written;
    the FIFO taken for the pipe; its opens unseen."""
    path = tmp_path / "fifo"
    r = trace(["/bin/sh", "-c", 'rm -f "$1"; exec "$0" freopen "$1"',
               program(build, "i_stdio"), path], status=0)
    first, = {r.channel(s)["ino"] for s in r.of("SEND", result=6)}
    closes = [c for c in r.of("CLOSE") if r.channel(c)["ino"] == first and
              r.channel(c)["side"] == 2]
    assert len(closes) == 2 and len({c["pid"] for c in closes}) == 2
    for close in closes:
        sent, = r.of("SEND", pid=close["pid"], a=close["a"], result=6)
        assert sent["t_ret"] <= close["t"]
    opens = r.of("RELEASE", a=13)
    assert sorted(o["object"] for o in opens) == [1, 2]
    after, = r.of("RECV", op="STDIO", result=9)
    assert r.channel(after)["ino"] != first


def test_stdio_failed_write(build, trace):
    """A full flush to nobody is one failed send."""
    r = trace([program(build, "i_stdio"), "error"])
    failed, = r.of("SEND", result=-1)
    assert failed["err"] == 32


# --- streams ------------------------------------------------------------------


def test_calls_on_a_pipe(build, trace):
    r = trace([program(build, "i_stream"), "pipe"])
    own = r.moved(PIPE)
    both, = [v for v in own.values() if v[1]]
    assert both == [40, 40]


def test_calls_on_a_socketpair(build, trace):
    """Every call of the socket family, 10 bytes each; a peek moves none."""
    r = trace([program(build, "i_stream"), "socketpair"])
    assert sorted(r.moved(UNIX).values()) == [[0, 80], [80, 0]]
    assert len(r.peers(UNIX)) == 1
    assert r.count("RECVCALL", err=11) == 1


def test_fortified_calls(build, trace):
    """What -D_FORTIFY_SOURCE makes of the calls: other names, same bytes."""
    path = program(build, "i_fortified")
    names = subprocess.run(["nm", "-D", path], capture_output=True, text=True,
                           check=True).stdout
    for name in ("read", "recv", "recvfrom", "poll", "ppoll", "dprintf",
                 "fprintf", "fgets", "fread"):
        assert f"__{name}_chk" in names
    r = trace([path], status=0)
    assert [v for v in r.moved(PIPE).values() if v[1]] == [[20, 20]]
    assert sorted(r.moved(UNIX).values()) == [[0, 97], [97, 0]]
    assert [b["op"] for b in r.of("BLOCK")] == ["POLL", "POLL"]


def test_kernel_copies(build, trace):
    """sendfile, splice, tee and vmsplice move what they say, on both ends."""
    r = trace([program(build, "i_stream"), "kernel"])
    assert sorted(r.moved(UNIX).values()) == [[0, 3000], [3000, 0]]
    pipes = sorted(v for v in r.moved(PIPE).values() if v[1])
    assert pipes == [[807, 807], [2000, 2000]]
    # It copies between files: where it took a channel, we would miss bytes.
    assert r.stdout.count("copy_file_range -1 Invalid argument") == 2


LOOKS = """
import os, tempfile
file = os.open("/proc/self/exe", os.O_RDONLY)
assert os.fstat(file).st_size > 1000
os.close(file)
ends = os.pipe() # one of them has the file's number now
assert file in ends
os.write(ends[1], b"x" * 70)
file = os.open("/proc/self/exe", os.O_RDONLY)
os.fstat(file)
print(os.sendfile(ends[1], file, 8, 100), len(os.read(ends[0], 170)))
with tempfile.TemporaryDirectory() as top:
    os.mkfifo(top + "/fifo")
    fifo = os.open(top + "/fifo", os.O_RDWR)
    os.fstat(fifo)
    print(os.write(fifo, b"y" * 30), len(os.read(fifo, 30)))
"""


def test_what_fstat_found(build, trace):
    """The program's own fstat tells us of a file, so that we need not ask.
    Would catch one that is taken for a file when it is a pipe: the number used
    again, a FIFO; and bytes of a sendfile from a position that are lost."""
    r = trace([sys.executable, "-c", LOOKS], status=0)
    both = sorted(v for v in r.moved(PIPE).values() if v[1])
    assert both == [[30, 30], [170, 170]]


OPENED = """
import os, tempfile
file = os.open("/proc/self/exe", os.O_RDONLY)
os.close(file)
ends = os.pipe() # one of them has the file's number now
assert file in ends
print(os.write(ends[1], b"x" * 40), len(os.read(ends[0], 40)))
file = os.open("/proc/self/exe", os.O_RDONLY)
copy = os.dup(file)
os.dup2(ends[1], file)
print(os.write(file, b"y" * 50), len(os.read(ends[0], 50)))
print(len(os.read(copy, 60)), len(os.read(os.open("/dev/zero", os.O_RDONLY), 9)))
os.dup2(ends[1], copy)
with tempfile.TemporaryDirectory() as top:
    os.mkfifo(top + "/fifo")
    fifo = os.open(top + "/fifo", os.O_RDWR)
    print(os.write(fifo, b"z" * 30), len(os.read(fifo, 30)))
"""


def test_what_was_opened(build, trace):
    """Of what is opened only whether it is a pipe is asked; the rest when it is
    used. Would catch a number that is taken for the file when it is a pipe by
    then, made or copied over it, and a FIFO taken for a file."""
    r = trace([sys.executable, "-c", OPENED], status=0)
    both = sorted(v for v in r.moved(PIPE).values() if v[1])
    assert both == [[30, 30], [90, 90]]


def test_ends_of_streams(build, trace):
    """End-of-file after close and shutdown, EPIPE after both."""
    r = trace([program(build, "i_stream"), "ends"])
    assert r.count("RECV", result=0) == 2
    assert [s["err"] for s in r.of("SEND", result=-1)] == [32, 32]
    assert r.count("CLOSE", how=3) == 1


@pytest.mark.parametrize("case,kind", [("tcp", TCP), ("unix", UNIX)])
def test_server_and_client(build, trace, case, kind):
    """Both ends find each other, and connect meets accept."""
    r = trace([program(build, "i_stream"), case])
    ends = r.moved(kind)
    pairs = r.peers(kind)
    assert len(pairs) == 2
    for a, b in pairs:
        assert ends[a] == ends[b][::-1]
        assert sorted(ends[a]) == [50, 100]
    asked = r.of("SEND", op="CONNECT", result=0)
    taken = r.of("RECV", op="ACCEPT")
    assert len(asked) == len(taken) == 2
    for c, a in zip(sorted(asked, key=lambda x: x["t"]),
                    sorted(taken, key=lambda x: x["t_ret"])):
        assert r.channel(c)["flags"] & 1 and r.channel(a)["flags"] & 2
        assert c["t"] < a["t_ret"]
    assert r.count("RECVCALL", op="ACCEPT", err=11) == 1
    if kind == TCP:  # the kernel's own totals agree
        for c in r.of("CLOSE"):
            chan = r.channel(c)
            if chan["kind"] == TCP and c["sent"] != UNKNOWN:
                assert [c["sent"], c["recv"]] == ends[chan["ino"]]


def test_datagrams(build, trace):
    """Each datagram is one SEND and one RECV with the same hash and length,
    and the receiver knows the sender though the program never asked."""
    r = trace([program(build, "i_dgram")])
    sends, recvs = {}, []
    for i, row in enumerate(r.rows):
        if row["type"] != "DGRAM":
            continue
        after = r.rows[i + 1]
        assert after["a"] == row["a"]
        if after["type"] == "SEND":
            sends[row["hash"], after["result"]] = row
        else:
            recvs.append((row, after))
    assert len(sends) == len(recvs) == 11
    unmatched = 0
    for row, recv in recvs:
        sent = sends.get((row["hash"], recv["result"]))
        if not sent:
            unmatched += 1
        elif r.channel(recv)["kind"] == UDP:
            assert row["remote"] == sent["local"]
            assert row["local"] == sent["remote"]
        else:
            assert r.channel(recv)["kind"] == UNIX_DGRAM
    assert unmatched == 1  # the one received into a buffer too short


# --- descriptors ----------------------------------------------------------------


def test_copies_of_a_descriptor(build, trace):
    """Six numbers, one end; then the number is a file, then a socket."""
    r = trace([program(build, "i_descriptor"), "copies"])
    both, = [v for v in r.moved(PIPE).values() if v[1]]
    assert both == [60, 60]
    assert sorted(r.moved(UNIX).values()) == [[0, 20], [20, 0]]
    end, = r.of("RECV", result=0)
    pipe = r.channel(end)["ino"]
    closed = [c for c in r.of("CLOSE") if r.channel(c)["ino"] == pipe]
    assert len(closed) == 6
    assert all(c["t"] < end["t_ret"] for c in closed)


def test_passed_descriptor(build, trace):
    """A child writes to a pipe whose end it got by SCM_RIGHTS."""
    r = trace([program(build, "i_descriptor"), "pass"])
    both, = [v for v in r.moved(PIPE).values() if v[1]]
    assert both == [123, 123]


def test_closing_everything(build, trace):
    """closefrom and friends close nothing of ours; nothing of ours is open."""
    r = trace([program(build, "i_descriptor"), "all"])
    assert "next 3" in r.stdout
    both, = [v for v in r.moved(PIPE).values() if v[1]]
    assert both == [5, 5]
    child = {row["pid"] for row in r.of("START")} - {r.of("FORK")[0]["pid"]}
    assert len([c for c in r.of("CLOSE") if c["pid"] in child]) >= 3


def test_fifo(build, trace):
    r = trace([program(build, "i_descriptor"), "fifo"])
    both, = [v for v in r.moved(PIPE).values() if v[1]]
    assert both == [321, 321]


@pytest.mark.parametrize("bytes_", [40, 10000])
def test_calls_on_files(trace, tmp_path, bytes_):
    """Reads and writes of files leave no record each, but their number, where
    it is worth one: fewer than 64 since the last record are not. Would catch calls
    that are not counted, or twice, and those since the last multiple of 4096 left out."""
    source = tmp_path / "source"
    source.write_bytes(b"x" * bytes_)
    r = trace(["dd", f"if={source}", f"of={tmp_path}/out", "bs=1",
               "status=none"])
    more = r.calls - 2 * bytes_ if bytes_ > 64 else 0
    assert -64 < more < 64


def test_stacks_say_what_they_took(trace):
    """An image's first stack, of its only wait or of what it writes, is read
    from tables that nothing has touched, and CALLS says what that took beyond
    its price, though no file was read. Would catch a dilation that takes all stacks to be as cheap as those read often, and time
    of stacks lost at the image's end."""
    r = trace(["sleep", "0.05"])
    assert r.count("STACK") == 1
    assert r.beyond_ns > 0


def test_searches_say_what_they_took(trace):
    """A program looked for in 2000 directories: CALLS before the EXEC
    says what the interposer's own search took, which no price of an exec has.
    No machine makes 2000 system calls in 60 us; where it was disturbed, 20 are
    said, so once must do. Would catch a search that is in no dilation: all
    else that is said here is some 10 us."""
    missing = ":".join(f"/nowhere/{n}" for n in range(2000))
    argv = ["env", f"PATH={missing}:{os.environ['PATH']}", "true"]
    assert any(trace(argv).beyond_ns >= 60000 for _ in range(30))


def test_beginnings_say_what_they_took(trace):
    """An image and a fork child each make a segment of their own, and neither
    can do that in 4 us; sh forks for the parentheses. Would catch a beginning
    that is in no dilation: its price leaves out what it says itself."""
    r = trace(["sh", "-c", "(cd /); /bin/true; /bin/true"])
    starts = {(s["pid"], s["image"]) for s in r.of("START") if s["a"] != 1}
    assert len(starts) >= 4
    assert {key for key, ns in r.begun_ns.items() if ns >= 4000} == starts


def test_free_locks_are_counted(build, trace):
    """A hundred thousand mutexes and twice as many readers' and writers' locks,
    all free: CALLS says what these took by the price of one. Would catch locks
    that nobody waited for left out of the dilation."""
    r = trace([program(build, "i_sync"), "second"])
    with open(os.path.join(r.directory, "control"), "rb") as f:
        control = f.read()
    price_ps, = struct.unpack_from("<Q", control, LOCK_PRICE_AT)
    assert price_ps > 0
    assert r.beyond_ns >= 3 * 100000 * price_ps // 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot and setuid need root")
def test_chroot_and_setuid_are_survived(build, trace):
    """What the child does there may be lost; the program is not disturbed."""
    r = trace([program(build, "i_descriptor"), "confined"])
    assert any(v[1] == 77 for v in r.moved(PIPE).values())


# --- processes --------------------------------------------------------------------


def test_forks(build, trace):
    """Every kind of fork: the child's START names parent and FORK."""
    r = trace([program(build, "i_process"), "fork"])
    forks = r.of("FORK", kind=FORK)
    assert len(forks) == 7
    starts = {s["pid"]: s for s in r.of("START", a=2)}
    joins = {j["a"]: j for j in r.of("JOIN", kind=WAIT)}
    for fork in forks:
        child = starts[fork["a"]]
        assert child["fork_seq"] == fork["fork_seq"]
        assert child["ppid"] == fork["pid"]
        assert child["parent_image"] == fork["image"]
        assert joins[fork["a"]]["child_cpu_ns"] < UNKNOWN
    statuses = [joins[f["a"]]["status"] for f in forks]
    assert [s >> 8 for s in statuses[:5]] == [1, 2, 3, 4, 6]
    assert [s & 0x7f for s in statuses[5:]] == [9, 6]
    assert r.count("END", a=4) == 1  # abort


def test_fork_with_a_handler_of_the_programs(build, trace):
    """Would catch a stream of the child's that begins behind what the program's
    handler wrote there, or as that of a fork that nobody announced."""
    r = trace([program(build, "i_process"), "handler"])
    fork, = r.of("FORK", kind=FORK)
    child = [x for x in r.rows if x["pid"] == fork["a"] and
             x["type"] in ("START", "SEND")]
    assert [x["type"] for x in child] == ["START", "SEND"]
    assert child[0]["fork_seq"] == fork["fork_seq"] != 0
    assert child[1]["result"] == 1


def test_vfork_and_spawn(build, trace):
    """Nothing is recorded by a vfork child before its exec."""
    r = trace([program(build, "i_process"), "vfork"])
    vforks = r.of("FORK", kind=VFORK)
    assert len(vforks) == 3
    spawns = r.of("FORK", kind=SPAWN)
    assert [s["err"] for s in spawns] == [0, 2]
    images = {s["pid"] for s in r.of("START", a=3)}
    assert vforks[0]["a"] in images and spawns[0]["a"] in images
    assert not {v["a"] for v in vforks[1:]} & {x["pid"] for x in r.rows}
    assert r.count("EXEC") == 1  # ipsrun's own
    assert r.count("JOIN", kind=WAIT) == 4


def test_clone_like_vfork(build, trace):
    r = trace([program(build, "i_process"), "like-vfork"])
    fork, = r.of("FORK", kind=VFORK)
    assert fork["a"] in {s["pid"] for s in r.of("START", a=3)}


def test_popen_and_system(build, trace):
    r = trace([program(build, "i_process"), "library"])
    main = r.of("FORK", kind=POPEN)[0]["pid"]
    seqs = [f["fork_seq"] for f in r.of("FORK", kind=POPEN, pid=main) +
            r.of("FORK", kind=SYSTEM_FORK, pid=main)]
    joins = r.of("JOIN", kind=SYSTEM, pid=main)
    assert [j["seq"] for j in joins] == seqs
    assert [j["status"] >> 8 for j in joins] == [4, 0, 5]
    assert all(j["child_cpu_ns"] < UNKNOWN for j in joins)
    # popen's own pipes, both ways, by stdio in this process
    assert sorted(v for v in r.moved(PIPE).values() if v[0] == v[1]) == [
        [9, 9], [11, 11]]


def test_waits_for_children(build, trace):
    """One JOIN per end: none for a peek, a stop, a child that runs on."""
    r = trace([program(build, "i_process"), "wait"])
    joins = r.of("JOIN", kind=WAIT)
    assert [j["status"] >> 8 for j in joins] == [11, 12, 13]


def test_cleared_environment(build, trace):
    """Children are traced though the program cleared the environment."""
    r = trace([program(build, "i_process"), "cleared"])
    names = [n["text"] for n in r.of("NAME")]
    assert any("say with no environment" in n for n in names)
    assert any("say cleared" in n for n in names)
    assert any("echo from cleared system" in n for n in names)


def test_env_i(build, trace):
    r = trace(["/usr/bin/env", "-i", "/bin/sh", "-c",
               "echo a | /usr/bin/env -i /bin/cat"])
    assert any(n["text"] == "/bin/cat" for n in r.of("NAME"))
    assert [v for v in r.moved(PIPE).values() if v[1]] == [[2, 2]]


def test_exit_by_system_call(build, trace):
    r = trace([program(build, "i_process"), "exit_group"], status=9)
    assert [e["status"] for e in r.of("END", a=3)] == [9]


def test_threads(build, trace):
    """Returned, exited and cancelled threads: START, END, and a JOIN that
    names the FORK; what destructors write is the thread's own."""
    r = trace([program(build, "i_thread")])
    forks = r.of("FORK", kind=THREAD_FORK)
    joins = r.of("JOIN", kind=THREAD)
    starts = r.of("START", a=4)
    ends = r.of("END", a=1)
    assert len(forks) == len(joins) == len(starts) == len(ends) == 43
    seqs = {f["fork_seq"] for f in forks}
    assert len(seqs) == 43
    assert {s["fork_seq"] for s in starts} == seqs
    assert {j["seq"] for j in joins} == seqs
    assert len({s["tid"] for s in r.of("SEND", result=1)}) == 20


# --- waiting ------------------------------------------------------------------------


def test_waits_for_descriptors(build, trace):
    """poll, select and epoll name the channel that was ready."""
    r = trace([program(build, "i_wait"), "ready"])
    blocks = [b for b in r.of("BLOCK") if b["op"] in
              ("POLL", "SELECT", "EPOLL")]
    assert [b["op"] for b in blocks] == ["POLL", "SELECT", "EPOLL"]
    reads = r.of("RECV", result=5)
    assert [b["ready"] for b in blocks] == [x["a"] for x in reads]
    for b in blocks:
        assert b["t_ret"] - b["t"] > 5_000_000


def test_special_waits(build, trace):
    r = trace([program(build, "i_wait"), "special"])
    ops = collections.Counter(b["op"] for b in r.of("BLOCK"))
    assert ops["TIMERFD"] == ops["SIGNALFD"] == 1
    assert r.count("ACQUIRE") == r.count("RELEASE") == 1  # the eventfd
    assert ops["SIGWAIT"] >= 1 and ops["SLEEP"] >= 3
    assert ops["OTHER"] == 1  # inotify


def test_calls_that_make_files(build, trace):
    """Each says so, once, and none that failed. Would catch: a call without a wrapper, so
    that a wait for the file has no arc."""
    r = trace([program(build, "i_wait"), "makes"], status=0)
    main = r.of("START", a=1)[0]["pid"]
    ops = [b["op"] for b in r.of("BLOCK") if b["pid"] == main]
    # mkdtemp to open, each before a sleep
    assert ops == 17 * ["MADE", "SLEEP"], ops
    calls = [x for x in r.of("RELEASE") if x["pid"] == main]
    assert len(calls) == 17


def test_sleep_that_a_signal_ends(build, trace):
    """Would catch: the number that thrd_sleep returns taken for an errno."""
    r = trace([program(build, "i_wait"), "woken"], status=0)
    assert r.stdout == "thrd_sleep -1\n"
    [sleep] = [b for b in r.of("BLOCK") if b["op"] == "SLEEP"]
    assert sleep["err"] == errno.EINTR


def test_handler_that_writes(build, trace):
    """A signal handler records in the middle of main's recording: all is
    there, once."""
    r = trace([program(build, "i_wait"), "handler"])
    both, = [v for v in r.moved(PIPE).values() if v[1]]
    assert both[0] == both[1] >= 200


def test_handler_that_jumps(build, trace):
    """siglongjmp out of wrappers, a hundred times: recording goes on."""
    r = trace([program(build, "i_wait"), "jump"], lost=["NESTED"])
    both, = [v for v in r.moved(PIPE).values() if v[1]]
    # A jump between the call and its record loses that one, and it is counted.
    left = sum(s["lost"].get("NESTED", 0) + s["torn"] for s in r.of("segment"))
    assert abs(both[0] - both[1]) <= left * 7
    assert 20 <= left <= 100
    assert r.count("END", a=2) == 1


def test_interrupted_calls(build, trace):
    r = trace([program(build, "i_wait"), "interrupted"])
    assert r.count("RECVCALL", err=4) == 1
    assert r.count("BLOCK", op="SIGWAIT", err=4) == 3


# --- other libraries, other programs ------------------------------------------------------


def test_beside_another_preload(build, trace, tmp_path):
    """A library of the user's in LD_PRELOAD keeps its place before ours."""
    source = tmp_path / "other.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n"
        "ssize_t write(int fd, const void *b, size_t n) {\n"
        "  ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT,"
        " \"write\");\n"
        "  if (n > 5 && fd == 1) next(fd, \"other:\", 6);\n"
        "  return next(fd, b, n); }\n"
        "__attribute__((constructor)) static void early(void)\n"
        "{ extern char *program_invocation_short_name;\n"
        "  if (*program_invocation_short_name != 'i' ||"
        " program_invocation_short_name[1] != '_') return;\n"
        "  if (write(1, \"early\\n\", 6) < 0) _exit(1); }\n")
    other = tmp_path / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
    r = trace([program(build, "i_process"), "say", "something"],
              env={"LD_PRELOAD": str(other)})
    assert "other:" in r.stdout and "early" in r.stdout
    assert sum(v[0] for v in r.moved(PIPE).values()) == len(r.stdout)


def test_pipeline(build, trace):
    """Coreutils speak through stdio: every byte on both ends of both pipes."""
    r = trace(["/bin/sh", "-c", "seq 20000 | sort | uniq | tail -n 1"])
    length = len("".join(f"{i}\n" for i in range(1, 20001)))
    inner = [v for v in r.moved(PIPE).values() if v[1]]
    assert inner == [[length, length]] * 3


@pytest.mark.parametrize("script", [
    "for i in 1 2 3; do echo $i | cat; done; (exit 3)",
    "x=$(echo hello | tr a-z A-Z); echo $x >&2; yes | head -n 2",
    "kill -9 $$",
    "trap 'echo trapped' EXIT; exec 5>&1; echo five >&5",
    "/usr/bin/perl -e 'open(F, q(echo a|)); print while <F>; close F; "
    "print qx(echo b); system(q(false)); exit($? >> 8)'",
    "/usr/bin/python3 -c 'import subprocess as s; "
    "print(s.run([\"/bin/echo\", \"x\"], capture_output=True).stdout)'",
])
def test_scripts_behave(build, trace, script):
    trace(["/bin/bash", "-c", script])
