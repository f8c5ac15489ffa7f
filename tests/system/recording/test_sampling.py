"""Procedures by sampling, as the agent records them (before any daemon): that
samples come at the rate asked for, say where the time goes and who called, and
that no program can tell that it is sampled."""
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import clean_env, give_clock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "oracle"))

import pool_reader as pool  # noqa: E402

HZ_NS = 10_000_000  # CONFIG_HZ may be 100: samples are no closer than a tick


class Run:
    """What a command printed, and what is in the pool."""

    def __init__(self, done, directory):
        self.status, self.out, self.err = \
            done.returncode, done.stdout, done.stderr
        self.streams = [[rec for seg in segs for rec in seg.records()]
                        for segs in pool.streams(directory)]

    def records(self, *kinds):
        return [r for s in self.streams for r in s if r.kind in kinds]

    def places(self):
        """{name: (start, end)} of what i_procedures printed."""
        rows = [line.split() for line in self.out.splitlines()]
        return {r[0]: (int(r[1], 16), int(r[2], 16)) for r in rows
                if len(r) == 3}

    def names(self, frames):
        """The procedures that a stack goes through, innermost first."""
        where = self.places()
        found = []
        for i, frame in enumerate(frames):
            pc = frame - (1 if i else 0)
            found += [n for n, (a, b) in where.items() if a <= pc < b]
        return found


@pytest.fixture
def sample(build):
    """sample(argv, *options) runs it recorded, at --rate 1 unless said."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-", dir="/dev/shm"))
    give_clock(build, root / "pool")
    count = iter(range(1000))

    def run(argv, *options, timeout=180, env=None):
        name = f"r{next(count)}"
        options = options or ("--rate", "1")
        done = subprocess.run(
            [build.bin("ipsrun"), "--pool", str(root / "pool"), "--name", name,
             "--no-daemons", "--quiet", *options, "--", *map(str, argv)],
            env=clean_env(**(env or {})), stdin=subprocess.DEVNULL, text=True,
            capture_output=True, timeout=timeout)
        return Run(done, root / "pool" / name)

    yield run
    shutil.rmtree(root, ignore_errors=True)


def sample_hot(build, sample):
    """Samples of i_procedures hot, and how many of them each leaf has."""
    r = sample([build.program("i_procedures"), "hot", "1000"], "--rate", "4")
    assert r.status == 0, r.err
    samples = r.records(pool.SAMPLE)
    leaf = collections.Counter(r.names(s.frames[:1])[0] for s in samples
                               if r.names(s.frames[:1]))
    assert leaf["hot_three"] + leaf["hot_one"] > 0.7 * len(samples)
    return r, samples, leaf


def test_rate_and_callers(build, sample):
    """Would catch a timer on the wrong clock, samples that are lost or doubled, a
    wrong pc, and an unwinder that skips or invents a caller."""
    r, samples, leaf = sample_hot(build, sample)
    cpu = r.records(pool.END)[-1].cpu
    assert all(s.period == 4_000_000 for s in samples)
    # Not more than were asked for; what they say is in test_shares.
    assert 10 < len(samples) <= 1 + 1.1 * cpu / 4_000_000
    assert [s.cpu for s in samples] == sorted(s.cpu for s in samples)
    assert leaf["hot_three"] > 0 and leaf["hot_one"] > 0
    for s in samples:
        names = r.names(s.frames)
        if names[:1] == ["hot_three"]:
            assert names == ["hot_three", "caller_three"]
        if names[:1] == ["hot_one"]:
            assert names == ["hot_one", "caller_one"]


# Pattern, period, CPU of the two in us, turns: each uses about a second of CPU time.
SHARES = [["periodic", 20000, 3000, 3000, 150],  # at the pace of the samples
          ["tick", 0, 500, 1500, 400],  # between two ticks of the kernel
          ["alternate", 4000, 1500, 1500, 600],
          ["random", 3000, 200, 600, 1200],
          ["pipe", 0, 20, 60, 10000],
          ["cpu", 0, 6000, 4000, 100],
          ["threads", 0, 1000, 3000, 250],
          ["forks", 0, 1000, 3000, 250]]


@pytest.mark.parametrize("words", SHARES, ids=lambda words: words[0])
def test_shares(build, sample, words):
    """Two procedures have the samples that their CPU time says, whatever the program
    does in step with the clock. Would catch samples in the kernel's tick alone, in
    step with the program, where calls return, or of long threads rather than short."""
    r = sample([build.program("i_shares"), *words], "--rate", "4")
    assert r.status == 0, r.err
    first, both = (int(w) for w in r.out.splitlines()[-1].split())
    leaf = collections.Counter(
        name for s in r.records(pool.SAMPLE) if not s.late
        for name in r.names(s.frames[:1]))
    n = leaf["share_first"] + leaf["share_second"]
    assert n > 0
    # A binomial of these: 1 in 10 million runs is farther off.
    off = 5.4 * (n * first / both * (1 - first / both)) ** 0.5
    assert abs(leaf["share_first"] - n * first / both) < off + 1


def test_no_timer_of_a_sleeper(build, sample):
    """Whatever call a thread sleeps in, no timer runs that would wake it. Would catch
    a call before which it is not stopped, and one that a handler sets anew in a call
    that it interrupted."""
    r = sample([build.program("i_asleep"), "6"], "--rate", "10")
    assert (r.status, r.out) == (0, "right\n"), r.err
    assert r.records(pool.SAMPLE)


def test_stack_of_a_wait(build, sample):
    """A read that blocks inside a comparison of qsort: its STACK follows its
    record and names the chain through the C library, which has no frame
    pointers. Would catch a stack of the wrong record, or one that begins in
    the wrapper."""
    r = sample([build.program("i_procedures"), "deep"])
    assert r.status == 0, r.err
    stream = next(s for s in r.streams
                  if any(x.kind == pool.RECV for x in s))
    at = next(i for i, x in enumerate(stream) if x.kind == pool.RECV)
    stack = next(x for x in stream[at:] if x.kind == pool.STACK)
    assert stack.t == stream[at].t
    assert stack.frames[0] == stream[at].site
    names = [n for i, n in enumerate(r.names([0, *stack.frames]))]
    assert names == ["chain_wait", "chain_compare", "chain_sort"]


def test_modules(build, sample):
    """Every frame lies in a module that was written before it, with the build
    id that readelf finds. Would catch a missing module or a wrong bias."""
    r = sample([build.program("i_procedures"), "hot", "100"])
    known = []
    for rec in r.streams[-1]:
        if rec.kind == pool.MODULE:
            known.append(rec)
        elif rec.kind == pool.SAMPLE:
            assert all(any(m.start <= f < m.end for m in known)
                       for f in rec.frames)
    own = next(m for m in known if m.text.endswith("/i_procedures"))
    notes = subprocess.run(["readelf", "-n", own.text], text=True,
                           capture_output=True, check=True).stdout
    assert len(own.build_id) == 40 and own.build_id in notes
    symbols = subprocess.run(["readelf", "-sW", own.text], text=True,
                             capture_output=True, check=True).stdout
    value = next(int(line.split()[1], 16) for line in symbols.splitlines()
                 if line.endswith(" hot_three"))
    assert r.places()["hot_three"][0] - own.bias == value


def test_off(build, sample):
    """--procedures=off: no timer, so no sample; the output is the same."""
    r = sample([build.program("i_procedures"), "hot", "100"],
               "--procedures=off")
    assert r.status == 0
    assert not r.records(pool.SAMPLE, pool.STACK)


# --- what a program could notice ------------------------------------------------

@pytest.mark.parametrize("words", [
    ["calls"], ["alarm"], ["busy", "150"], ["blocked", "60"], ["sigwait"],
    ["setuid", "30"], ["exec"], ["altstack"],
    ["threads", "40"]],
    ids=lambda words: words[0])
def test_undisturbed(build, sample, words):
    """See i_undisturbed.c: bare and sampled every 1 ms it prints the same and
    ends with 0. Would catch an EINTR of ours, one of the program's that was
    swallowed, a mask or a handler that is not what the program set, a sample
    taken by sigwait or a signalfd, setuid in threads broken, and a sample that
    kills the image after an exec or a thread with a tiny stack."""
    argv = [build.program("i_undisturbed"), *words]
    bare = subprocess.run(argv, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=180)
    assert bare.returncode == 0, bare.stdout
    r = sample(argv)
    assert (r.status, r.out, r.err) == (0, bare.stdout, bare.stderr)
    if words[0] != "exec":  # there it is kept pending on purpose
        assert r.records(pool.SAMPLE)


def last_cpu(stream):
    """CPU time at the last record that has it (a MODULE has not)."""
    return next(x.cpu for x in reversed(stream) if hasattr(x, "cpu"))


def test_blocked_thread_is_sampled(build, sample):
    """All signals blocked, as in many a service's workers: samples come all the
    same, and from that thread."""
    r = sample([build.program("i_undisturbed"), "blocked", "200"])
    stream = max(r.streams, key=last_cpu)
    n = sum(x.kind == pool.SAMPLE for x in stream)
    assert n > 3  # of 20 and more; fewer beside others, as where a plugin comes


def test_every_process_of_a_storm(build, sample):
    """A shell that forks and execs: every image has modules before its first
    sample, and the short ones are met in proportion. Would catch timers that a
    fork child inherits or lacks, a first sample that never comes before a whole
    period, and modules that are known from the image before."""
    script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); " \
             "/usr/bin/perl -e '$x+=$_ for 1..300000'; (: sub); done; echo $i"
    r = sample(["sh", "-c", script], "--rate", "20")
    assert (r.status, r.out) == (0, "60\n")
    images = [s for s in r.streams if s[0].kind == pool.START and s[0].a == 3]
    kinds = [[x.kind for x in s] for s in images]
    sampled = [k for k in kinds if pool.SAMPLE in k]
    assert sampled
    assert all(pool.MODULE in k[:k.index(pool.SAMPLE)] for k in sampled)
    cpu = sum(last_cpu(s) for s in r.streams[1:])
    n = len(r.records(pool.SAMPLE))
    expected = cpu / 20e6
    assert abs(n - expected) < 6 * expected ** 0.5 + 3


PROGRAMS = {
    "python": ["/usr/bin/python3", "-c", """
import hashlib, json, queue, signal, subprocess, threading
def work(q):
    for i in range(20):
        q.put(hashlib.sha256(json.dumps(list(range(3000))).encode()).hexdigest())
q = queue.Queue()
threads = [threading.Thread(target=work, args=(q,)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
hits = []
signal.signal(signal.SIGPROF, lambda *a: hits.append(1))
while len(hits) < 5: sum(range(1000))
signal.setitimer(signal.ITIMER_PROF, 0)
print(q.qsize(), subprocess.check_output(["echo", "x"], text=True))
print(sorted(int(s) for s in signal.valid_signals()))
"""],
    "perl": ["/usr/bin/perl", "-e", """
my %h; for (1..300000) { $h{$_ % 1000} .= $_ } print length($h{3}), "\\n";
$SIG{ALRM} = sub { print "alarm\\n" }; alarm 1; select(undef, undef, undef, 3);
my $t = `echo sub`; print $t; """],
    "node": ["node", "-e", """
const { Worker, isMainThread } = require('worker_threads');
let s = 0; for (let i = 0; i < 2e7; i++) s += Math.sqrt(i);
new Worker('let x=0; for (let i=0;i<1e7;i++) x+=i%7; ' +
           'require("worker_threads").parentPort.postMessage(x)',
           { eval: true }).on('message', (m) => { console.log(m, s);
  console.log(require('child_process').execSync('echo sub').toString()); });
"""],
    "java": ["java", "-version"],
    "bash": ["bash", "-c", "trap 'echo usr' USR1; kill -USR1 $$; "
             "seq 2000 | sort -r | sort -n | tail -1; sleep 0.05; wait; "
             "x=0; for i in {1..20000}; do ((x+=i)); done; echo $x"],
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_languages(sample, language):
    """Interpreters and runtimes at --rate 1: same output, same status, and the
    stacks go up through code made at run time without a fault."""
    argv = PROGRAMS[language]
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    bare = subprocess.run(argv, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=180, env=clean_env())
    r = sample(argv)
    assert (r.status, r.out, r.err) == \
        (bare.returncode, bare.stdout, bare.stderr)
    assert r.records(pool.SAMPLE)
    assert max(len(s.frames) for s in r.records(pool.SAMPLE)) > 4


def test_plugin_comes_and_goes(build, sample):
    """dlopen, samples and a write from there, dlclose; and again. Would catch a
    module that is not noticed when it comes, or when it goes and another takes
    its place."""
    path = build.program("i_plugin.so")
    r = sample([build.program("i_procedures"), "plugin", path])
    assert r.status == 0, r.err
    stream = r.streams[-1]
    seen = [(i, m) for i, m in enumerate(stream) if m.kind == pool.MODULE and
            (m.text.endswith("i_plugin.so") or m.gone)]
    assert [m.gone for _, m in seen] == [0, 1, 0, 1]
    for (came, module), (gone, same) in (seen[:2], seen[2:]):
        assert (module.start, module.end) == (same.start, same.end)
        inside = [x for x in stream[came - 1:gone] if x.kind == pool.SEND and
                  module.start <= x.site < module.end]
        assert len(inside) == 1
    samples = [s for s in stream[seen[0][0]:seen[1][0]] if s.kind == pool.SAMPLE]
    there = [s for s in samples if seen[0][1].start <= s.frames[0] < seen[0][1].end]
    # On a busy machine the kernel lets the timer expire several times in a row
    # before a sample: the number says nothing.
    assert len(there) > len(samples) / 2


def test_no_timer_to_be_had(build, sample):
    """RLIMIT_SIGPENDING 0: the kernel makes no timers. The program runs as
    ever, without samples."""
    r = sample(["prlimit", "--sigpending=0:0",
                build.program("i_procedures"), "hot", "60"])
    assert r.status == 0
    assert not [x for x in r.streams[-1] if x.kind == pool.SAMPLE]


def test_small_main_stack(build, sample):
    """A main thread whose stack is limited to less than 64 KiB. Would catch:
    samples on it, whose handler may have no room."""
    r = sample(["prlimit", "--stack=61440:61440",
                build.program("i_procedures"), "hot", "60"])
    assert r.status == 0
    assert not [x for x in r.streams[-1] if x.kind == pool.SAMPLE]


def test_joins_and_locks_have_stacks(sample):
    """A wait for a child and one for a lock, 50 us and more: STACK after JOIN
    and after ACQUIRE. Would catch a kind of wait that was forgotten."""
    r = sample(["/usr/bin/python3", "-c", """
import subprocess, threading, time
def until(thread, call, argument=""):
    "The thread sleeps in the call, and has for 20 ms."
    path = "/proc/self/task/%d/syscall" % thread.native_id
    while True:
        with open(path) as f:
            words = f.read()
        if words.startswith(call + " ") and argument in words:
            return time.sleep(0.02)
        time.sleep(0.001)
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
def end():
    until(threading.main_thread(), "61")  # wait4
    child.stdin.close()
e = threading.Thread(target=end)
e.start()
child.wait()
e.join()
lock = threading.Lock()
lock.acquire()
def wait():
    begun.append(1)
    lock.acquire()
begun = []
t = threading.Thread(target=wait)
t.start()
while not begun:
    time.sleep(0.001)
until(t, "202", " 0x189 ")  # futex: FUTEX_WAIT_BITSET, private, real time
lock.release()
t.join()
"""])
    assert r.status == 0
    for kind in (pool.JOIN, pool.ACQUIRE):
        # Beside others a sample may come while the stack is looked for.
        assert any(a.kind == kind and b.kind == pool.STACK and a.t == b.t
                   for s in r.streams for a in s for b in s)


# --- samples and recorded calls: how they reach the answers ---


def test_samples_of_a_loop_of_short_calls(shared, build):
    """Two processes send each other one byte at a time: most of their time is
    in read and write. Would catch a timer whose setting at the return of a call
    takes as long as the rest of the way to the sample: up to 77% of the samples
    were in the agent then."""
    shared.ipsrun([build.program("why-problems"), "chatty"], name="loop",
                  check=True, options=["--rate", "1"])
    shared.wait_closed("loop")
    rows = shared.json("procedures", "loop")["procedures"]
    share = {r["procedure"]: r["self_ns"] for r in rows}
    every = sum(share.values())
    assert share.get("[recording]", 0) < 0.2 * every, rows
    assert share_of_calls(rows) > 0.5, rows


def share_of_calls(rows):
    """Share of the CPU time of all rows that read and write have."""
    calls = sum(r["self_ns"] for r in rows
                if "read" in r["procedure"] or "write" in r["procedure"])
    return calls / sum(r["self_ns"] for r in rows)


COMPUTES = r"""
#include <time.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void short_one(long n) { while (n--) sink += n; }
__attribute__((noinline)) void long_one(long n) { while (n--) sink += n; }
int main(void)
{
    struct timespec t;
    char c = 'x';
    int p[2];
    pipe(p);
    do {
        short_one(200000), write(p[1], &c, 1), long_one(400000), read(p[0], &c, 1);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while (t.tv_sec < 4);
    return 0;
}
"""


def test_samples_between_calls(shared, tmp_path):
    """A loop of 1.6 ms makes two short calls, together a thousandth of its time.
    Would catch samples that come too late, or while their timer is stopped before a
    call, and count for that call: they gave the calls 6% here."""
    (tmp_path / "computes.c").write_text(COMPUTES)
    subprocess.run(["gcc", "-O1", "-g", "-w", "computes.c", "-o", "computes"],
                   cwd=tmp_path, check=True)
    shared.ipsrun([tmp_path / "computes"], name="computes", check=True)
    shared.wait_closed("computes")
    rows = shared.json("procedures", "computes")["procedures"]
    assert share_of_calls(rows) < 0.025, rows
