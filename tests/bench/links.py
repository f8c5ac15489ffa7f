"""`tests/bench/run links`: the engines over links of 1 Gbit/s and 100 Mbit/s.

Four slaves and a master (bench_links: processes that speak TCP, without daemons, as
these refuse what is not loopback), each in a network namespace of its own, joined by a
bridge; a tbf at both ends of each host's link limits what it sends and what it gets.
All of it is made and taken away here; root is needed. The engines take turns; a row is
the median of the runs, beside it the least and the greatest.

  central    whole graphs to the master (the kernel alone; the daemons also run the
             paper's label correcting)
  contract   reduced graphs, values back, the beginning of the path
  cm-*       links agreed on, values between slaves, the walk back
  auto       what master/path/engine_auto.c expects of contract and cm-sync here, in ms
"""
import collections
import os
import shutil
import signal
import statistics
import subprocess
import sys

SLAVES, THREADS = 4, 64
# "blocks": most messages stay on one machine
PATTERNS = ("pingpong", "ring", "master", "random", "all", "stencil", "pipeline",
            "ring blocks", "stencil blocks", "pipeline blocks")
ENGINES = ("central", "contract", "cm-sync", "cm-async")
# tbf: no more in one go than this, and at most so long in the queue
RATES = {"1gbit": "64kb", "100mbit": "16kb"}
BYTES_PER_US = {"1gbit": 125, "100mbit": 12}  # as calibrating would tell `auto`
Row = collections.namedtuple(
    "Row", "engine ms trip_us values messages bytes through slaves_ms master_ms "
    "crossing contract_ms cm_ms")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Hosts:
    """Namespaces PREFIX-1 to PREFIX-N and the bridge's, as a context."""

    def __init__(self, count):
        self.prefix = f"ipsbench{os.getpid()}"
        self.count, self.made = count, []

    def space(self, name):
        name = f"{self.prefix}-{name}"
        ip("netns", "add", name)
        self.made.append(name)
        return name

    def __enter__(self):
        try:
            self.middle = self.space("b")
            ip("-n", self.middle, "link", "add", "br0", "type", "bridge")
            ip("-n", self.middle, "link", "set", "br0", "up")
            for k in range(1, self.count + 1):
                name = self.space(k)
                ip("-n", self.middle, "link", "add", f"v{k}", "type", "veth",
                   "peer", "name", "e0", "netns", name)
                ip("-n", self.middle, "link", "set", f"v{k}", "master", "br0",
                   "up")
                ip("-n", name, "addr", "add", f"10.99.0.{k}/24", "dev", "e0")
                ip("-n", name, "link", "set", "e0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def limit(self, rate):
        for k in range(1, self.count + 1):
            for space, device in ((f"{self.prefix}-{k}", "e0"),
                                  (self.middle, f"v{k}")):
                subprocess.run(
                    ["ip", "netns", "exec", space, "tc", "qdisc", "replace",
                     "dev", device, "root", "tbf", "rate", rate, "burst",
                     RATES[rate], "latency", "1s"], check=True)

    def names(self):
        return ",".join(self.made[1:])

    def __exit__(self, *unused):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def measure(build, hosts, nodes, pattern, engines, rate):
    done = subprocess.run(
        [os.path.join(build, "tests", "bench_links"), hosts.names(), str(nodes),
         str(THREADS), pattern.split()[0], ",".join(engines), str(BYTES_PER_US[rate]),
         *pattern.split()[1:]], check=True,
        stdout=subprocess.PIPE, text=True)
    return [Row(words[0], *map(float, words[1:]))
            for words in map(str.split, done.stdout.splitlines())]


def show(pattern, rate, nodes, rows):
    """One engine's rows."""
    mid = Row(rows[0].engine, *(statistics.median(column)
                                for column in list(zip(*rows))[1:]))
    times = [row.ms for row in rows]
    auto = {"contract": mid.contract_ms, "cm-sync": mid.cm_ms}.get(mid.engine)
    print(f"| {pattern} | {nodes} | {rate} | {mid.engine} | {mid.ms:.1f} "
          f"[{min(times):.1f}, {max(times):.1f}] | "
          f"{'' if auto is None else f'{auto:.1f}'} | {mid.values:.0f} | "
          f"{mid.messages:.0f} | {mid.bytes:.0f} | {mid.through:.0f} | "
          f"{mid.slaves_ms:.1f} | {mid.master_ms:.1f} |", flush=True)
    return mid


def bench(build, runs, nodes=None, only=None, engines=None):
    if os.geteuid() != 0 or not shutil.which("tc"):
        print("links: needs root and tc (iproute2)")
        return
    engines = engines.split(",") if engines else ENGINES
    print("| pattern | nodes | rate | engine | ms | auto's ms | values | "
          "messages | bytes | with the master | slaves ms | master ms |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    won = collections.Counter()
    # Told to end, it takes its namespaces away too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Hosts(SLAVES + 1) as hosts:
        for pattern in PATTERNS:
            if only and only != pattern:
                continue
            for rate in RATES:
                hosts.limit(rate)
                found = collections.defaultdict(list)
                for _ in range(runs):
                    for row in measure(build, hosts, nodes or 20000, pattern,
                                       engines, rate):
                        found[row.engine].append(row)
                mid = {e: show(pattern, rate, nodes or 20000, rows)
                       for e, rows in found.items()}
                best = min(mid, key=lambda e: mid[e].ms)
                won[rate, best] += 1
    for (rate, engine), count in sorted(won.items()):
        print(f"{rate}: {engine} was the quickest of {count} patterns")
