"""`tests/bench/run dilation`: does the certificate's dilation say what recording costs?

Whole programs, short ones, in rounds: bare, recorded and bare again, in random
order, all of a program's processes on one core and the daemons on the others, so
that where processes are put decides nothing. CPU is that of the program and all
that it waited for, by wait4 (tests/bench/native/bench_start.c runs it, so ipsrun's own
work before the program is in neither). What others do on the machine only ever adds:
compared are the means of each side's quicker halves, with 95% intervals of rounds
drawn again. Bare against bare, which is 0, is the resolution: half the width of its
interval. Beside it what the certificates of the same runs state. The prices
are measured by ipsrun on programs of its own (agent/ipsrun/probe_costs.c), and nothing in
them comes from the programs here.
"""
import json
import os
import random
import shutil
import statistics

from measure import Place, daemons_of_ours

PYTHON_POOL = """
from multiprocessing import Pool
def work(n):
    return sum(i * i for i in range(n))
if __name__ == "__main__":
    with Pool(2) as pool:
        assert len(pool.map(work, [2000] * 800, chunksize=2)) == 800
"""

PERL_TALK = r"""
pipe(A, B); pipe(C, D);
if (!fork) { close B; close C; while (sysread(A, $x, 64)) { syswrite(D, $x) } exit 0 }
close A; close D;
for (1 .. 8000) { syswrite(B, "x" x 64); sysread(C, $x, 64) }
close B; wait;
"""

REDIS = """
redis-server --port 0 --unixsocket %(dir)s/redis --save '' >/dev/null & server=$!
until redis-cli -s %(dir)s/redis ping >/dev/null 2>&1; do sleep 0.01; done
redis-benchmark -s %(dir)s/redis -c %(clients)s -n %(requests)s -t set >/dev/null
redis-cli -s %(dir)s/redis shutdown nosave; wait $server
"""

NODE = """
const {fork} = require('child_process');
if (process.argv[2] === 'child') {
  process.on('message', m => process.send(m + 1));
} else {
  const c = fork(process.argv[1], ['child']);
  let n = 0;
  c.on('message', m => { if (++n == 3000) c.disconnect(); else c.send(m); });
  c.send(0);
}
"""

# name: (needs, script of sh; %(dir)s is a directory of its own)
PROGRAMS = {
    "starts": ("sh", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 "
               "20 21 22 23 24 25 26 27 28 29 30; do /bin/true; /bin/true; done"),
    "sort": ("sort", "seq 1 200000 | sort -n | uniq -c | tail -1 >/dev/null"),
    "bytes": ("dd", "dd if=/dev/zero bs=512 count=40000 2>/dev/null | "
              "dd of=/dev/null bs=512 2>/dev/null"),
    "perl, two that talk": ("perl", f"perl -e '{PERL_TALK}'"),
    "python, pool": ("python3", "python3 %(dir)s/pool.py"),
    "node, parent and child": ("node", "node %(dir)s/node.js"),
    "xz | xz": ("xz", "seq 1 60000 | xz -1 | xz -d >/dev/null"),
    "find -exec": ("find", "find /etc -maxdepth 1 -name '*.conf' "
                   "-exec wc -c {} ';' >/dev/null"),
    "cc": ("cc", "printf '#include <stdio.h>\\n#include <stdlib.h>\\n"
           "int main(void) { puts(getenv(\"HOME\")); return 0; }\\n' | "
           "cc -O2 -x c -o %(dir)s/a.out -"),
    "Redis, 1 client": ("redis-server", REDIS.replace(
        "%(clients)s", "1").replace("%(requests)s", "8000")),
    "Redis, 20 clients": ("redis-server", REDIS.replace(
        "%(clients)s", "20").replace("%(requests)s", "20000")),
}


WAYS = ("bare", "again", "recorded")


def cpu_ms(place, script, options):
    """CPU of the script and all it waited for."""
    command = [os.path.join(place.tests, "bench_start"), "1", "/bin/sh", "-c",
               script]
    if options is not None:
        command = place.ipsrun(*command, options=options)
    core = max(os.sched_getaffinity(0))
    return float(place.run(command, {"BENCH_CORE": str(core)}).split()[-1]) / 1e6


def one_round(place, script, name):
    """CPU of every way, and the dilation that is stated."""
    found = {}
    for way in random.sample(WAYS, len(WAYS)):
        recorded = way == "recorded"
        found[way] = cpu_ms(place, script,
                            ("--name", name) if recorded else None)
        if recorded:
            place.settle()  # the slave works in no other's time
            said = json.loads(place.ipsq_any("metrics", name, "--format",
                                             "json"))
            found["stated"] = said["certificate"]["dilation"] or 0
    return found


def quick(values):
    half = sorted(values)[:(len(values) + 1) // 2]
    return statistics.fmean(half)


def figures(rounds):
    """%: bare against bare, recorded against both, stated, stated less taken."""
    bare, again, recorded = ([r[way] for r in rounds] for way in WAYS)
    taken = 100 * (quick(recorded) / quick(bare + again) - 1)
    stated = 100 * statistics.median(r["stated"] for r in rounds)
    return (100 * (quick(again) / quick(bare) - 1), taken, stated,
            stated - taken)


def report(name, rounds, draws=1000):
    drawn = [sorted(column) for column in zip(*(
        figures(random.choices(rounds, k=len(rounds)))
        for _ in range(draws)))]
    low, high = ([c[int(q * draws)] for c in drawn] for q in (0.025, 0.974))
    said = figures(rounds)
    ms = quick([r["bare"] for r in rounds])
    cells = [f"{value:6.2f} [{low[i]:6.2f},{high[i]:6.2f}]" for i, value
             in enumerate(said)]
    verdict = ("0 is in it" if low[3] <= 0 <= high[3] else
               "within 1" if low[3] >= -1 and high[3] <= 1 else "differs")
    print(f"{name:<23} {ms:7.2f} {cells[0]}  {cells[1]} {said[2]:6.2f}  "
          f"{cells[3]}  {(high[0] - low[0]) / 2:5.2f}  {verdict}", flush=True)


def bench(build, runs, only=None):
    with Place(build) as place:
        for file, text in (("pool.py", PYTHON_POOL), ("node.js", NODE)):
            with open(os.path.join(place.state, file), "w") as out:
                out.write(text)
        place.run(place.ipsrun("true"))
        cores = os.sched_getaffinity(0)
        for pid in daemons_of_ours():
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(task), cores - {max(cores)} or cores)
        print(f"{'program':<23} bare ms {'bare/bare, %':<23}  "
              f"{'CPU more, %':<23} stated  {'stated - CPU, points':<23}"
              f"  resolution")
        for which, (name, (needs, script)) in enumerate(PROGRAMS.items()):
            if not shutil.which(needs) or (only and only not in name):
                continue
            script = script.replace("%(dir)s", place.state)
            report(name, [one_round(place, script, f"d{which}.{number}")
                          for number in range(runs)])
