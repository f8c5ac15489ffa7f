"""`tests/bench/run shares`: do the intervals of procedures hold the truth?

--runs programs with known shares (200), drawn by --seed: they wake by the clock at 1 to
1000 Hz, right after a tick, at random; use the CPU without a call; make calls in short
loops; make many short threads or processes. Each is recorded once, and `ipsq procedures`
asked for the share of one of its two procedures. Shown are how often the 95% interval holds
the true share, and half its width, divided by that of a binomial with as many samples.
"""
import json
import math
import random
import statistics
import subprocess

from measure import Place

CPU_US = 800_000  # that a program uses, about
WALL_US = 2_500_000
Z = 1.959963984540054


def wilson(p, n):
    middle = p + Z * Z / (2 * n)
    spread = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return (max(0, (middle - spread) / (1 + Z * Z / n)),
            min(1, (middle + spread) / (1 + Z * Z / n)))


def drawn(rng):
    """The arguments of one program."""
    pattern = rng.choice(("periodic", "periodic", "periodic", "tick", "alternate",
                          "random", "pipe", "cpu", "threads", "forks"))
    share = rng.uniform(0.05, 0.95)
    period = 10 ** rng.uniform(3, 6)
    cpu = {"periodic": period * rng.uniform(0.1, 0.6),
           "tick": rng.uniform(500, 3000),
           "alternate": period * rng.uniform(0.1, 0.3),
           "random": 10 ** rng.uniform(2, 4),
           "pipe": 10 ** rng.uniform(1, 3),
           "cpu": rng.choice((4000, 5000, 10000, 20000, rng.uniform(500, 30000))),
           "threads": 10 ** rng.uniform(2.7, 4),
           "forks": 10 ** rng.uniform(2.7, 4)}[pattern]
    turns = CPU_US / cpu
    if pattern == "alternate":
        cpu *= 2
    if pattern in ("periodic", "alternate"):
        turns = min(turns, WALL_US / period)
    if pattern == "random":
        period = cpu * rng.uniform(0.5, 2)
    return [pattern, str(int(period)), f"{cpu * share:.1f}",
            f"{cpu * (1 - share):.1f}", str(max(2, int(turns)))]


def one(place, name, arguments):
    """Pattern, does the interval hold the share, half its width to a binomial's."""
    program = place.bin + "/programs/i_shares"
    out = subprocess.run(place.ipsrun(program, *arguments, options=("--name", name)),
                         env=place.env, check=True, text=True,
                         stdout=subprocess.PIPE).stdout.split()
    answer = json.loads(place.ipsq_any("procedures", name, "--format", "json"))
    row = [r for r in answer["procedures"] if r["procedure"] == "share_first"]
    cpu, n = answer["cpu_ns"], answer["samples"]
    truth = int(out[-2]) / cpu
    if not n:
        return arguments[0], True, math.inf, truth, 0, 0, 1, 0
    if row and row[0]["samples"]:
        share = row[0]["self_ns"] / cpu
        low, high = row[0]["self_low_ns"] / cpu, row[0]["self_high_ns"] / cpu
    else:
        share, (low, high) = 0, wilson(0, n)
    ideal = wilson(min(1, share), n)
    return (arguments[0], low <= truth <= high,
            (high - low) / (ideal[1] - ideal[0]), truth, share, low, high, n)


def bench(build, rounds, seed):
    rng = random.Random(seed)
    got = []
    with Place(build) as place:
        for i in range(rounds):
            arguments = drawn(rng)
            result = one(place, f"s{i}", arguments)
            got.append(result)
            if not result[1]:
                print(f"not held: {' '.join(arguments)}: true {100 * result[3]:.1f}%, "
                      f"{100 * result[4]:.1f}% [{100 * result[5]:.1f}%, "
                      f"{100 * result[6]:.1f}%], {result[7]} samples", flush=True)
            subprocess.run([place.bin + "/ipsq", "rm", f"s{i}"], env=place.env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for pattern in sorted({g[0] for g in got}) + ["all"]:
        these = [g for g in got if pattern in ("all", g[0])]
        print(f"{pattern:10} {sum(g[1] for g in these):4} of {len(these):4} hold the truth; "
              f"half width {statistics.median(g[2] for g in these):.2f} of a binomial's, "
              f"samples {statistics.median(g[7] for g in these):.0f}")
