"""`tests/bench/run bursts`: what recording costs servers that run already.

Two bare servers and a recorded one (and, with --against, one recorded by another
build) are started, all on core 0, their client is on core 1. Then each gets
the same short load by turns, in random order; after LOADS_EACH of them all are
started anew, as one start of a server may take a tenth more than the next, by where
its pages happen to lie. What the second bare one takes more
than the first is what the machine makes of nothing: a difference of a recorded one
that is not larger says nothing. Starts and ends are not in it, and
what is compared lies a second apart, so that a machine with other work on it
tells more than by `run programs`. CPU is that of all the server's processes,
those that came and went included.

How often the client went to sleep is beside it: a server wakes it then, on another
processor, which may take more than the whole request, and no recording is that.
"""
import os
import random
import resource
import statistics
import subprocess
import time

import overhead
from measure import Place, show

SLEEPS = "a 1000"  # requests
LOADS_EACH = 3
LOADS = ("Redis, 50 clients", "Redis, 1 client", "nginx", "PostgreSQL, select")


def tree(pid):
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                for child in f.read().split():
                    found += tree(int(child))
    except OSError:
        pass
    return found


def cpu_s(pid):
    """Of the tree: who lives, and whom the first process has reaped."""
    total = 0
    for one in tree(pid):
        try:
            total += time.clock_gettime(~one << 3 | 2)
        except OSError:
            pass
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return total + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def sleeps():
    """Of our children that have ended: the clients."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw


def start(case, place, name):
    argv = ["taskset", "-c", "0", *case.program.argv]
    env = None
    if place:
        argv, env = place.ipsrun(*argv, options=("--name", name)), place.env
    proc = subprocess.Popen(argv, env=env, **overhead.QUIET)
    overhead.await_ready(case.program, proc)
    return proc


def loads(program, places, size, run, count, found):
    """Some loads of servers that are started for them; how large one is."""
    cases = {way: overhead.Case(program, overhead.PROGRAMS[program], None)
             for way in places}
    procs = {}
    try:
        for way, case in cases.items():
            case.program.size = size or case.program.size
            size = case.program.size
            procs[way] = start(case, places[way], run)
        while count > 0:
            row = {}
            try:
                for way in random.sample(list(cases), len(cases)):
                    before, awake = cpu_s(procs[way].pid), sleeps()
                    units, _ = cases[way].program.load()
                    row[way] = ((cpu_s(procs[way].pid) - before) / units,
                                1000 * (sleeps() - awake) / units)
            except ZeroDivisionError:  # wrk got no answer in its time
                continue
            for way, value in row.items():
                found[way].append(value)
            count -= 1
    finally:
        for way, proc in procs.items():
            proc.send_signal(cases[way].program.stop)
            proc.wait()
        for case in cases.values():
            case.close()
    return size


def one_load(name, places, runs):
    found, size, names = {way: [] for way in places}, None, []
    while len(found["bare"]) < runs:
        names.append(f"x{len(names)}")
        size = loads(name, places, size, names[-1],
                     min(LOADS_EACH, runs - len(found["bare"])), found)
    slept = {way: [s for _, s in rows] for way, rows in found.items()}
    found = {way: [cpu for cpu, _ in rows] for way, rows in found.items()}
    show(f"{name}, bare, CPU", [1e6 * v for v in found["bare"]], "us")
    show(f"{name}, bare, sleeps of the client", slept["bare"], SLEEPS)
    for way, place in places.items():
        if way == "bare":
            continue
        more = [100 * (a / b - 1) for a, b in zip(found[way], found["bare"])]
        show(f"{name}, {way}, CPU, more", more, "%")
        show(f"{name}, {way}, sleeps of the client, more",
             [a - b for a, b in zip(slept[way], slept["bare"])], SLEEPS)
        quick = [statistics.quantiles(found[w], n=4)[0] for w in (way, "bare")]
        print(f"    of the lower quartiles {100 * (quick[0] / quick[1] - 1):.1f}%")
        if not place:
            continue
        place.settle()
        dilation = statistics.median(
            overhead.json.loads(place.ipsq_any(
                "metrics", run, "--format", "json"))["certificate"]["dilation"]
            or 0 for run in names)
        means = statistics.mean(found[way]) / statistics.mean(found["bare"])
        print(f"    of the means {100 * (means - 1):.1f}%, certificate's "
              f"dilation {100 * dilation:.2f}%", flush=True)


def bench(build, runs, against=None):
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    overhead.SECONDS = 0.3
    builds = {"recorded": build}
    if against:
        builds["recorded by the other build"] = against
    for name in LOADS:
        places = {way: Place(top) for way, top in builds.items()}
        try:
            for place in places.values():  # what is learnt once in a pool
                place.run(place.ipsrun("true"))
                place.settle()
            one_load(name, {"bare": None, "bare again": None, **places}, runs)
        except (OSError, RuntimeError, subprocess.SubprocessError) as why:
            print(f"{name} is left out: {why}", flush=True)
        finally:
            for place in places.values():
                place.__exit__()
