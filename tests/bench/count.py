"""tests/bench/run count: instructions, jumps, lines of 64 bytes and pages that
the agent touches per call, by valgrind's trace of bench_count: nothing is timed,
so it says the same on a loaded machine. tests/bench/run cold: the ns that this
takes where a call leaves nothing in the first-level caches; run hot: in a loop.
Both beside a floor: bench_floor.c, two stamps and a store of 48 bytes."""
import collections
import contextlib
import os
import random
import shutil
import subprocess
import time

from measure import Place, show

KINDS = ("send, not blocking", "receive, not blocking",
         "send after a receive that blocked", "receive that blocks",
         "epoll_wait, not blocking", "epoll_wait that blocks",
         "an event loop's request", "ips_mark")
COLD = (*KINDS[:4], KINDS[6])
COLUMNS = ("instructions", "jumps", "code lines", "data lines", "pages")
ROUNDS = 60
STAMP = "a stamp, beside them"


class Call:
    """What one call touched, the C library's part left out."""

    def __init__(self):
        self.instructions = self.jumps = 0
        self.code, self.data, self.pages = set(), set(), set()
        self.after = None

    def instruction(self, at, size):
        self.instructions += 1
        if self.after is not None and at != self.after:
            self.jumps += 1
        self.after = at + size
        for line in range(at >> 6, (at + size - 1 >> 6) + 1):
            self.code.add(line)
        self.pages.add(at >> 12)

    def access(self, at, size):
        for line in range(at >> 6, (at + size - 1 >> 6) + 1):
            self.data.add(line)
        self.pages.add(at >> 12)

    def row(self):
        return (self.instructions, self.jumps, len(self.code), len(self.data),
                len(self.pages))


def parse(lines, mark):
    """Every Call, in order; `mark` is the address of bench_behind_mark."""
    found, call, inside = [], None, False
    for text in lines:
        if len(text) < 5 or text[2] != " " or "," not in text:
            continue
        what = text[1] if text[0] == " " else text[0]
        if what not in "ILSM":
            continue
        at, size = text[3:].split(",")
        at, size = int(at, 16), int(size)
        if mark <= at < mark + 16 and what in "SM":
            which = (at - mark) // 4
            if which == 0:
                call, inside = Call(), False
            elif which == 3 and call:
                found.append(call)
                call = None
            else:
                inside = which == 1
            continue
        if call and not inside:
            if what == "I":
                call.instruction(at, size)
            else:
                call.access(at, size)
    return found


def traced(program, env, scratch):
    log = os.path.join(scratch, "trace")
    done = subprocess.run(
        ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}",
         program, "calls", str(ROUNDS)], env=env, check=True, text=True,
        stdout=subprocess.PIPE)
    with open(log) as f:
        calls = parse(f, int(done.stdout.split()[0], 16))
    os.remove(log)
    if len(calls) != len(KINDS) * ROUNDS:
        raise RuntimeError(f"{len(calls)} calls in the trace")
    order = (list(KINDS[:2] * ROUNDS + KINDS[2:4] * ROUNDS) +
             sum(([kind] * ROUNDS for kind in KINDS[4:]), []))
    rows = collections.defaultdict(collections.Counter)
    for kind, call in zip(order, calls):
        rows[kind][call.row()] += 1
    return {kind: counter.most_common(1)[0] for kind, counter in rows.items()}


def made(place, slower, exact=False):
    program = os.path.join(place.tests, "bench_count")
    subprocess.run([program, "make", place.pool, "count", str(slower),
                    str(int(exact))],
                   check=True)
    # Nothing else in it: where the stack begins depends on its length.
    return program, {"PATH": "/usr/bin:/bin", "IPS_POOL": place.pool,
                     "IPS_RUN": "count"}


def preload(build, agent):
    """The agent of a build, if any, and what stands behind it."""
    behind = os.path.join(build, "tests", "bench_behind.so")
    return f"{agent}/lib/libips-preload.so:{behind}" if agent else behind


def start(env, scratch):
    """(system calls, page faults) of an image of /bin/true: the fewest of some."""
    log, faults = os.path.join(scratch, "calls"), []
    subprocess.run(["strace", "-o", log, *sum((["-E", f"{name}={value}"] for
                                               name, value in env.items()), []),
                    "/bin/true"], check=True)
    with open(log) as f:
        calls = sum("(" in line for line in f)
    for _ in range(5):
        pid = os.posix_spawn("/bin/true", ["true"], env)
        faults.append(os.wait4(pid, 0)[2].ru_minflt)
    return calls, min(faults)


def bench(build, _runs):
    """The most frequent way of a call: which is all but the first, those that
    make room, and those that read the CPU clock."""
    with Place(build) as place:
        program, env = made(place, 4096)
        bare, ours = (traced(program, dict(env, LD_PRELOAD=preload(build, agent)),
                             place.state) for agent in (None, build))
        empty = os.path.join(build, "tests", "bench_empty.so")
        agent = os.path.join(build, "lib", "libips-preload.so")
        starts = {name: start(dict(env, **more), place.state) for name, more in (
            ("bare", {}), ("an empty library", {"LD_PRELOAD": empty}),
            ("recorded, no slave", {"LD_PRELOAD": agent}))}
    print(f"{'':<34}" + "".join(f"{name:>13}" for name in COLUMNS) +
          f"{'of calls':>10}")
    for kind in KINDS:
        row, times = ours[kind]
        added = [a - b for a, b in zip(row, bare[kind][0])]
        print(f"{kind:<34}" + "".join(f"{n:>13}" for n in added) +
              f"{times / ROUNDS:>10.0%}")
    for name, (calls, faults) in starts.items():
        print(f"/bin/true, {name}: {calls} system calls, {faults} page faults")


def bench_cold(build, runs, against=None):
    """Each run says lower quartiles: of 20000 calls that take the first-level
    caches away, and of 2000 after work on 6 MB, more than the second level
    holds."""
    print("nothing in the first-level caches")
    added(build, runs, against, ("cold", "20000"), COLD)
    print("after work on 6 MB")
    added(build, runs, against, ("cold", "2000", "98304"), COLD)


STAMPS = {"send": 2, "receive": 2, "ips_mark": 1, "entry and exit": 2}
# Loops so short that most have no step of the pool's growth in them, and so long
# that each has several.
SHORT, LONG = ("hot", "400", "1000", "0"), ("hot", "24", "32768", "0")
# A record's memory comes back: a segment at most between two pauses.
PACED = ("hot", "24", "16384", "20000")


def bench_hot(build, runs, against=None):
    """Each run says lower quartiles of the second half of its loops. Beyond: less
    the stamps, as that same process took them; this machine changes between two
    speeds."""
    kinds = (*STAMPS, STAMP)
    print("the pool's pages there already (loops of 1000 calls)")
    added(build, runs, against, SHORT, kinds)
    print("with the pool's growth (loops of 32768 calls, no slave)")
    added(build, runs, against, LONG, kinds)
    print("with a slave that keeps up, so segments come back")
    added(build, runs, against, PACED, kinds, slave=True)


def floor(build):
    """{way: what is preloaded, and set}"""
    library = f"{build}/tests/bench_floor.so:{build}/tests/bench_behind.so"
    return {"floor": {"LD_PRELOAD": library},
            "floor, new pages": {"LD_PRELOAD": library,
                                 "BENCH_FLOOR_FRESH": "1"}}


def said(place, words, more, slave):
    """The numbers that bench_count prints in a run of its own. The slave begins
    after it: it would close a run without processes."""
    program, env = made(place, 1, exact=words[0] == "hot")
    with contextlib.ExitStack() as stack:
        proc = stack.enter_context(subprocess.Popen(
            [program, *words], text=True, env=dict(env, **more),
            stdout=subprocess.PIPE))
        if slave:
            time.sleep(0.02)
            drains = subprocess.Popen(
                [os.path.join(place.bin, "ips-slave"), "--pool", place.pool,
                 "--machine", "m", "--listen", "none"], env=place.env)
            stack.callback(drains.wait)
            stack.callback(drains.terminate)
        out = proc.communicate()[0]
        if proc.returncode:
            raise RuntimeError(f"bench_count {words}: {proc.returncode}")
    shutil.rmtree(os.path.join(place.pool, "count"), ignore_errors=True)
    return [float(word) for word in out.split()]


def added(build, runs, against, words, kinds, slave=False):
    ways = {"bare": {"LD_PRELOAD": preload(build, None)}, **floor(build),
            "recorded": {"LD_PRELOAD": preload(build, build)}}
    if against:
        ways["against"] = {"LD_PRELOAD": preload(build, against)}
    found = collections.defaultdict(list)
    with Place(build) as place:
        for _ in range(runs):
            for way in random.sample(list(ways), len(ways)):
                drained = slave and way in ("recorded", "against")
                for kind, ns in zip(kinds, said(place, words, ways[way],
                                                drained)):
                    found[kind, way].append(ns)
    for kind in kinds:
        if kind == STAMP:
            show(kind, sum((found[kind, way] for way in ways), []), "ns")
            continue
        for way in list(ways)[1:]:
            if kind in ("ips_mark", "entry and exit") and "floor" in way:
                continue
            more = [a - b for a, b in
                    zip(found[kind, way], found[kind, "bare"])]
            show(f"{kind}, {way}", more, "ns")
            if found[STAMP, way]:
                show(f"{kind}, {way}, beyond its stamps",
                     [a - STAMPS[kind] * b for a, b in
                      zip(more, found[STAMP, way])], "ns")
