"""How steady CPU time itself is, without IPS: each program of DRO-6 as one process on one
processor, under 0 to 6 load programs on the same processor and on the other. By resource
usage.

The load programs count the rounds of their loop, so that each run has an *index* beside
it: the CPU time of a round, on the same processor in the same time, of instructions that
are always the same. Where the index varies though nothing but the hour differs, the
processor does (its other thread belongs to others of the host, its clock); where the
program's CPU time follows it with an exponent below 1, it depends less on that than the
loop does. An estimate made of CPU times is as unsteady as these are."""
import collections
import math
import statistics
import subprocess

import lab

LOADS = (0, 1, 2, 3, 4, 5, 6)
INDEX = """
import signal, sys, time
rounds = 0
def tell(*unused):
    print(rounds, time.process_time_ns() - begun, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, tell)
begun = time.process_time_ns()
print("up", flush=True)
while True:
    for i in range(2000): pass
    rounds += 1
"""


class Alone(lab.distributed.Program):
    """The master of a program does all by itself."""
    defaults = {}

    def prepare(self):
        self.labels = [self.name]

    def argv(self, label, at):
        return self.program(*self.words)

    def check(self, outputs):
        assert outputs[self.name] == self.printed(*self.words)


def programs(l, args):
    search = lab.distributed.Search(
        l.build.program(""), l.directory, bytes=200000 if args.short else 3000000)
    big = not args.short
    for name, words in (
            ("julia", ["--side", 1200 if big else 60, "--limit", 250]),
            ("search", ["--file", search.file, "--pattern", search.pattern,
                        "--rounds", 8 if big else 1]),
            ("matrix", ["--alone", "--side", 500 if big else 60]))[:3 if big else 1]:
        program = Alone(l.build.program(""), l.directory)
        program.name, program.words = name, [f"{name}-master", *words]
        program.prepare()
        yield program


class Indexed:
    """Load programs on a machine that tell the CPU time of a round, as a context."""

    def __init__(self, l, machine, count):
        self.command = ["taskset", "-c", l.specs[machine].cpus,
                        "/usr/bin/python3", "-c", INDEX]
        self.count, self.procs, self.ns = count, [], []

    def __enter__(self):
        for _ in range(self.count):
            self.procs.append(subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE))
        for proc in self.procs:
            assert proc.stdout.readline() == "up\n"
        return self

    def __exit__(self, *unused):
        for proc in self.procs:
            proc.terminate()
        for proc in self.procs:
            rounds, ns = map(int, proc.communicate()[0].split())
            if rounds:
                self.ns.append(ns / rounds)


def measure(l, args, results, share):
    """{(program, where, load): [(CPU ns, index ns or None)]}"""
    found = collections.defaultdict(list)
    all = list(programs(l, args))
    loads = (0, 1) if args.short else LOADS
    cases = [(where, k) for where in ("a", "b") for k in loads if k or where == "a"]
    for _ in lab.repetitions(args, share):
        for where, k in lab.shuffled(cases):
            for program in all:
                with Indexed(l, where, k) as index:
                    l.plain(program, {program.name: "a"}, checked=args.short)
                beside = statistics.median(index.ns) \
                    if where == "a" and index.ns else None
                found[program.name, where, k].append(
                    (l.last_cpu[program.name], beside))
        results.save(alone={" ".join(map(str, k)): v for k, v in found.items()})
    return found


def fitted(rows):
    """(correlation, exponent, sd raw, with exponent 1, with that exponent): of the
    logarithms of CPU time and index, so sd are shares."""
    x = [math.log(index) for _, index in rows]
    y = [math.log(cpu) for cpu, _ in rows]
    exponent, _ = statistics.linear_regression(x, y)

    def sd(e):
        return statistics.stdev(b - e * a for a, b in zip(x, y))
    return statistics.correlation(x, y), exponent, sd(0), sd(1), sd(exponent)


def tell(found, args, results):
    names = sorted({name for name, _, _ in found})
    loads = sorted({k for _, _, k in found})
    n = len(next(iter(found.values())))
    results.say("\n**The CPU time itself**, one process, without IPS, by resource "
                f"usage (ms; medians of {n}); load programs on its processor, and "
                "on the other one:\n")

    def values(name, where, k):
        return [cpu for cpu, _ in found[name, where if k else "a", k]]

    rows = [[name, "its own" if where == "a" else "the other",
             *(f"{lab.median(values(name, where, k)) / 1e6:.0f}" for k in loads),
             *lab.spreads([values(name, where, k) for k in loads])]
            for name in names for where in "ab"]
    results.say(lab.table(["program", "load on", *map(str, loads), "spread",
                           "by chance", "single runs"], rows))
    rows = []
    for name in names:
        of = [r for (who, where, k), v in found.items() for r in v
              if who == name and where == "a" and k and r[1]]
        if len(of) < 5:
            continue
        r, exponent, *sd = fitted(of)
        index = sorted(i for _, i in of)
        rows.append([name, len(of), f"{index[-1] / index[0]:.2f}", f"{r:+.2f}",
                     f"{exponent:.2f}", *(f"{100 * s:.1f}%" for s in sd)])
    if rows:
        results.say(
            "\nThe same runs beside the index, the CPU time of a round of the load "
            "program on the same processor (`by index`: divided by it, what a "
            "correction by a calibration loop would do; `fitted`: by that power of it "
            "which suits this program best, known only afterwards):\n")
        results.say(lab.table(
            ["program", "runs", "index, greatest by least", "correlation",
             "exponent", "sd of CPU time", "by index", "fitted"], rows))
