"""`tests/bench/run dilation`: does the certificate's dilation say what recording costs?

Whole programs, bare and recorded by turns, a pair a round in random order. CPU is
that of the program and all that it waited for, by wait4 (tests/bench/bench_start.c
runs it, so ipsrun's own work before the program is in neither). What is compared is
the median over the pairs of recorded / bare - 1, with its 95% interval, and the
median of the dilations that the certificates of the same runs state. The lower
quartiles of both sides, compared, are less disturbed by what else runs. The prices
are measured by ipsrun on programs of its own (agent/ipsrun_calls.c), and nothing in
them comes from the programs here.
"""
import json
import os
import random
import shutil

from measure import Place, show

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


def cpu_ms(place, script, options):
    """CPU of the script and all it waited for."""
    command = [os.path.join(place.tests, "bench_start"), "1", "/bin/sh", "-c",
               script]
    if options is not None:
        command = place.ipsrun(*command, options=options)
    return float(place.run(command).split()[-1]) / 1e6


def one_pair(place, script, number):
    """CPU bare and recorded, and the dilation that is stated."""
    found = {}
    name = f"d{number}"
    for way in random.sample(("bare", "recorded"), 2):
        found[way] = cpu_ms(place, script, None if way == "bare" else
                            ("--name", name))
    place.settle()
    said = json.loads(place.ipsq_any("metrics", name, "--format", "json"))
    return (found["bare"], found["recorded"],
            said["certificate"]["dilation"] or 0)


def bench(build, runs, only=None):
    with Place(build) as place:
        for file, text in (("pool.py", PYTHON_POOL), ("node.js", NODE)):
            with open(os.path.join(place.state, file), "w") as out:
                out.write(text)
        place.run(place.ipsrun("true"))
        number = 0
        for name, (needs, script) in PROGRAMS.items():
            if not shutil.which(needs) or (only and only not in name):
                continue
            script = script.replace("%(dir)s", place.state)
            more, stated, bare, taken = [], [], [], []
            for _ in range(runs):
                number += 1
                without, recorded, dilation = one_pair(place, script, number)
                bare.append(without)
                taken.append(recorded)
                more.append(100 * (recorded / without - 1))
                stated.append(100 * dilation)
            show(f"{name}, bare, CPU", bare, "ms")
            show(f"{name}, recorded, CPU, more", more, "%")
            show(f"{name}, certificate's dilation", stated, "%")
            show(f"{name}, dilation - CPU",
                 [d - m for d, m in zip(stated, more)], "points")
            quick = [sorted(x)[len(x) // 4] for x in (bare, taken)]
            print(f"{name + ', quickest quarter, more':<44} "
                  f"{100 * (quick[1] / quick[0] - 1):>12.2f} %")
