"""`tests/bench/run peers`: an event and a procedure's entry and exit, ours beside
lttng-ust and uftrace, in ns of the measured thread's CPU time and in bytes kept.

The programs are tests/bench/peers/*.c, compiled here. Peers that are not
installed (deploy/deps --bench), or do not work here, are left out, and that is
said. A session daemon of lttng is started and ended by its pid; where there is
one already it is left alone, and lttng left out.
"""
import glob
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from measure import Place, show

COUNT = 300000
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")


def size_of(directory):
    return sum(os.path.getsize(os.path.join(top, name))
               for top, _, files in os.walk(directory) for name in files)


def run(command, env=None):
    done = subprocess.run(command, env=env, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stderr}")
    return done.stdout


def ns_of(command, env=None):
    words = run(command, env).split()
    return float(words[words.index("ns") + 1])


def compile_all(where):
    def compiled(source, name, *flags, after=()):
        out = os.path.join(where, name)
        run(["gcc", "-O2", "-I", SOURCES, *flags,
             os.path.join(SOURCES, source), "-o", out, "-ldl", *after])
        return out

    made = {"events": compiled("events.c", "events"),
            "plain": compiled("calls.c", "calls"),
            "hooks": compiled("calls.c", "calls-hooks",
                              "-finstrument-functions"),
            "pg": compiled("calls.c", "calls-pg", "-pg", "-mfentry")}
    try:
        made["lttng"] = compiled("events.c", "events-lttng", "-DWITH_LTTNG",
                                 after=("-llttng-ust",))
    except RuntimeError as why:
        print("lttng-ust is left out:", str(why).splitlines()[0])
    return made


class Lttng:
    """A session daemon of our own, and one session at a time."""

    def __init__(self, where):
        self.where = where
        self.env = dict(os.environ, LTTNG_HOME=where)
        self.log = open(os.path.join(where, "sessiond.log"), "w")
        self.daemon = subprocess.Popen(
            ["lttng-sessiond", "--no-kernel"], env=self.env,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(100):
            if self.daemon.poll() is not None:
                raise RuntimeError("lttng-sessiond ended: is there one?")
            if self.ask("list", check=False) == 0:
                return
            time.sleep(0.05)
        self.end()
        raise RuntimeError("lttng-sessiond does not answer")

    def ask(self, *words, check=True):
        done = subprocess.run(["lttng", "--no-sessiond", *words],
                              env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"lttng {words}: {done.stdout}")
        return done.returncode

    def traced(self, command, *kind):
        """(ns, bytes of the trace) of one run; a snapshot is not written."""
        out = os.path.join(self.where, "trace")
        self.ask("create", "bench", "--output", out, *kind)
        self.ask("enable-channel", "-u", "c", "--subbuf-size", "4M",
                 "--num-subbuf", "8")
        self.ask("enable-event", "-u", "ips_bench:mark", "-c", "c")
        self.ask("start")
        ns = ns_of(command, self.env)
        self.ask("stop")
        self.ask("destroy")
        size = size_of(out)
        shutil.rmtree(out, ignore_errors=True)
        return ns, size

    def end(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait(20)
        self.log.close()


def ours(build, command, daemons, *options):
    """(ns, bytes, events) of one run; without daemons nothing is kept."""
    with Place(build) as place:
        if not daemons:
            place.run(place.ipsrun("true", options=("--no-daemons",)))
            return ns_of(place.ipsrun(*command, options=(
                "--no-daemons", *options)), place.env), 0, 0
        ns = ns_of(place.ipsrun(*command, options=options), place.env)
        place.settle()
        ((size, events),) = place.runs().values()
        return ns, size, events


def under_uftrace(where, program):
    out = os.path.join(where, "uftrace.data")
    ns = ns_of(["uftrace", "record", "--no-libcall", "-d", out, program,
                str(COUNT)])
    size = sum(map(os.path.getsize, glob.glob(os.path.join(out, "*.dat"))))
    shutil.rmtree(out, ignore_errors=True)
    return ns, size, 2 * COUNT


def ways_of(build, made, where, lttng):
    """{what: {way: function giving (ns, bytes, events)}}"""
    count = str(COUNT)

    def bare(name):
        return lambda: (ns_of([made[name], count]), 0, 0)

    def mine(name, daemons, *options):
        return lambda: ours(build, [made[name], count], daemons, *options)

    events = {"bare": bare("events"),
              "ips_mark": mine("events", True),
              "ips_mark, --no-daemons": mine("events", False)}
    if lttng:
        command = [made["lttng"], count]
        events["lttng-ust"] = lambda: (*lttng.traced(command), COUNT)
        events["lttng-ust, snapshot"] = lambda: (
            lttng.traced(command, "--snapshot")[0], 0, 0)
    calls = {"bare": bare("plain"),
             "hooks of the C library": bare("hooks"),
             "--procedures=off": mine("hooks", True, "--procedures=off"),
             "--procedures=sample": mine("hooks", True),
             "--procedures=exact --budget 100": mine(
                 "hooks", True, "--procedures=exact", "--budget", "100"),
             "--procedures=exact": mine("hooks", True, "--procedures=exact")}
    if shutil.which("uftrace"):
        calls["uftrace, -finstrument-functions"] = \
            lambda: under_uftrace(where, made["hooks"])
        calls["uftrace, -pg -mfentry"] = \
            lambda: under_uftrace(where, made["pg"])
    else:
        print("uftrace is left out: it is not installed")
    return {"event": events, "call": calls}


def bench(build, runs):
    where = tempfile.mkdtemp(prefix="ips-bench-peers-")
    lttng = None
    try:
        made = compile_all(where)
        try:
            lttng = Lttng(where) if "lttng" in made else None
        except (OSError, RuntimeError) as why:
            print("lttng-ust is left out:", why)
        for what, ways in ways_of(build, made, where, lttng).items():
            compare(what, ways, runs)
    finally:
        if lttng:
            lttng.end()
        shutil.rmtree(where, ignore_errors=True)


def compare(what, ways, runs):
    ns = {way: [] for way in ways}
    kept = {way: [] for way in ways}
    least = {}
    for _ in range(runs):
        for way in random.sample(list(ways), len(ways)):
            took, size, events = ways[way]()
            ns[way].append(took)
            if size and events >= COUNT / 2:
                kept[way].append(size / events)
                least[way] = min(events, least.get(way, events))
    for way, values in ns.items():
        if way == "bare":
            show(f"{what}, bare", values, "ns")
        else:
            show(f"{what}, {way}, added",
                 [a - b for a, b in zip(values, ns["bare"])], "ns")
    for way, values in kept.items():
        if values:
            show(f"{what}, {way}, kept", values, "bytes")
            print(f"    per event, of {least[way]} events at least")
