"""`tests/bench/run why-blind`: faults in unmodified programs, made by configuration
or environment alone, drawn by --seed and hidden until all runs are judged by what
`ipsq why` says first. Each fault has a healthy twin: the same program without it.

A fault is named where one of its kinds is among the first three findings. A flat
profile (`ipsq procedures`) is the baseline: it names a fault where that is a
procedure and among its first three. A false alarm is a finding of a healthy run
that tells of waiting: not a procedure, spread cost, a busy machine, or who in a
request loop the other one waits for."""
import json
import os
import random
import shutil
import subprocess
import tempfile

from measure import Place
from overhead import free_port

QUIET = {"procedure", "spread", "busy-machine", "late-sender"}


class Fault:
    """`command` and `healthy` of a shell; kinds that name it; procedures too."""

    def __init__(self, name, kinds, command, healthy, prepare=None,
                 procedures=(), link=False, hogs=False, needs=()):
        self.name, self.kinds, self.procedures = name, set(kinds), procedures
        self.commands = {True: command, False: healthy}
        self.prepare, self.link, self.hogs = prepare, link, hogs
        self.needs = needs


REDIS = ("redis-server --port %(port)d --bind 127.0.0.1 --save '' {more} >/dev/null "
         "& until redis-cli -p %(port)d ping >/dev/null 2>&1; do :; "
         "done; {load}; redis-cli -p %(port)d shutdown nosave; wait")
LOAD = "redis-benchmark -p %(port)d -q -r 1000 -t {what} >/dev/null"


def redis(what, more="--appendonly no", after=""):
    return REDIS.format(more=more, load=LOAD.format(what=what) + after)


def sources(directory):
    """Twelve sources of equal size, one six times as long."""
    body = ["#include <stdio.h>"] + [
        "int f%d(int x){int s=0;for(int i=0;i<x;i++){s+=i*x;s^=s>>3;}"
        "printf(\"%%d\",s);return s;}" % i for i in range(400)]
    for i in range(12):
        text = "\n".join(body).replace("int f", "int f%d_" % i)
        with open(f"{directory}/s{i}.c", "w") as f:
            f.write(text)
    with open(f"{directory}/long.c", "w") as f:
        f.write("\n".join("\n".join(body[1:]).replace("int f", "int g%d_" % i)
                          for i in range(10)).replace("printf", "__builtin_printf"))
    objects = " ".join("s%d.o" % i for i in range(12))
    with open(f"{directory}/Makefile", "w") as f:
        f.write(f"all: {objects}\nuneven: s0.o s1.o s2.o s3.o s4.o s5.o long.o\n"
                f"licence: {objects}\n\tsleep 12\n"
                "%.o: %.c\n\tgcc -O2 -c $< -o $@\n")


def site(directory):
    with open(f"{directory}/page.html", "w") as f:
        draw = random.Random(1)
        f.write(" ".join(str(draw.random()) for _ in range(20000)))
    for name, more in (("plain", ""), ("gzip", "gzip on; gzip_comp_level 9; "
                       "gzip_types *;"), ("limited", "limit_rate 400k;")):
        with open(f"{directory}/{name}.conf", "w") as f:
            f.write(f"daemon off; worker_processes 1; pid {directory}/pid;\n"
                    "events {}\nhttp { access_log off; server { listen "
                    f"127.0.0.1:PORT; root {directory}; {more} }} }}\n")


def nginx(conf, requests):
    return ("sed s/PORT/%(port)d/ " + conf + ".conf > c.conf; nginx -p . -c "
            "c.conf -e log & until [ -s pid ]; do :; done; ab -q -n " + str(requests) +
            " -c 4 -H 'Accept-Encoding: gzip' "
            "http://127.0.0.1:%(port)d/page.html >/dev/null; "
            "kill $(cat pid); wait")


FAULTS = [
    Fault("redis: no pipelining, one client", ["chatty-messages"],
          redis("set -c 1 -n 30000"), redis("set -c 8 -P 64 -n 600000"),
          needs=("redis-server", "redis-benchmark")),
    Fault("redis: a slow link", ["slow-messages", "outside"],
          redis("set -c 4 -d 20000 -n 400"), redis("set -c 8 -P 64 -n 600000"),
          link=True, needs=("redis-server", "redis-benchmark", "tc")),
    Fault("redis: a core shared with others", ["busy-machine", "too-few-cores"],
          "taskset -c 0 sh -c '" + redis("set -c 8 -P 64 -n 300000").replace(
              "''", '""') + "'", redis("set -c 8 -P 64 -n 600000"), hogs=True,
          needs=("redis-server", "redis-benchmark", "taskset")),
    Fault("nginx: gzip at its slowest", ["procedure", "late-sender"],
          nginx("gzip", 60), nginx("plain", 3000), site,
          procedures=("deflate", "longest_match"), needs=("nginx", "ab")),
    Fault("nginx: a limit of the rate", ["outside"],
          nginx("limited", 12), nginx("plain", 3000), site,
          needs=("nginx", "ab")),
    Fault("make: too many jobs", ["too-few-cores"], "make -s -j16 all",
          "make -s -j2 all", sources, needs=("make", "gcc")),
    Fault("make: one long job last", ["load-imbalance"],
          "make -s -j2 uneven", "make -s -j2 all", sources,
          needs=("make", "gcc")),
    Fault("make: waits for a licence", ["outside"], "make -s -j2 licence",
          "make -s -j2 all", sources, needs=("make", "gcc")),
]


def in_slow_link(command):
    """A network of its own, whose loopback lets 40 Mbit a second through."""
    return ["unshare", "-n", "sh", "-c",
            "ip link set lo up; ip link set lo mtu 1500; tc qdisc add dev lo "
            "root tbf rate 40mbit burst 16kb latency 500ms; exec \"$@\"",
            "sh", *command]


def measure(place, fault, ill, name):
    directory = tempfile.mkdtemp(prefix="ips-blind-")
    os.chmod(directory, 0o755)
    if fault.prepare:
        fault.prepare(directory)
    command = place.ipsrun("sh", "-c",
                           fault.commands[ill].replace("%(port)d",
                                                       str(free_port())),
                           options=("--name", name, "--procedures=sample",
                                    "--rate", "2"))
    hogs = []
    if ill and fault.hogs:
        hogs = [subprocess.Popen(["taskset", "-c", "0", "sh", "-c",
                                  "while :; do :; done"]) for _ in range(3)]
    try:
        subprocess.run(in_slow_link(command) if ill and fault.link else command,
                       env=place.env, cwd=directory, check=True, timeout=300,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        shutil.rmtree(directory, ignore_errors=True)
    said = json.loads(place.ipsq_any("why", name, "--format", "json"))
    profile = json.loads(place.ipsq_any("procedures", name, "--top", "3",
                                        "--format", "json"))
    return (said["findings"], [p["procedure"] for p in profile["procedures"]])


def why_blind(build, runs, seed, only):
    """`runs`: of faults; as many healthy ones between them."""
    draw = random.Random(seed)
    faults = [f for f in FAULTS if all(map(shutil.which, f.needs)) and
              (not only or only in f.name)]
    hidden = [(draw.choice(faults) if runs != len(faults) else faults[i], ill)
              for i in range(runs) for ill in (True, False)]
    draw.shuffle(hidden)
    seen = []
    with Place(build) as place:
        for i, (fault, ill) in enumerate(hidden):
            seen.append(measure(place, fault, ill, f"blind{i}"))
    named = profiled = alarms = 0
    for (fault, ill), (findings, profile) in zip(hidden, seen):
        kinds = [f["kind"] for f in findings[:3]]
        hit = fault.kinds & set(kinds)
        base = any(p in name for p in fault.procedures for name in profile)
        named += ill and bool(hit)
        profiled += ill and base
        alarm = not ill and bool(set(kinds) - QUIET)
        alarms += alarm
        print(f"{fault.name if ill else 'healthy ' + fault.name.split(':')[0]:<36}"
              f" {'named' if ill and hit else 'MISSED' if ill else 'ALARM' if alarm else 'quiet':<7}"
              f" {', '.join('%s %.0f%%' % (f['kind'], 100 * f['gain_share']) for f in findings[:3]) or 'nothing'};"
              f" profile: {', '.join(profile)}", flush=True)
    print(f"named {named} of {runs}, by a flat profile {profiled}; "
          f"false alarms {alarms} in {runs} healthy runs (seed {seed})")
