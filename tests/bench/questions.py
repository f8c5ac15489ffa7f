"""`tests/bench/run questions`: every question of at most 1000 rows about a run of --events N
(10^5, 10^6 and 10^7), asked first of daemons that have just been started, and once more; with
--against DIR of that build's daemons, too, in random order about the same files. How long each
took, the CPU time of all daemons, medians of --runs; the most memory that the master had.

The run is one of `bench_calls pingpong` (two processes on one machine; every message is on the
path), with --pattern P a synthetic one on four machines (bench_synth)."""
import os
import random
import statistics
import subprocess
import time

import scale
from measure import cpu_of

TOP = ("--top", "10")
ALL_BY = "machine,process,thread,procedure,line,message,external"
QUESTIONS = (
    ("runs",), ("ls", *TOP), ("metrics",), ("metrics", "--pop"), ("procedures", *TOP),
    ("sql", "SELECT * FROM waits LIMIT 1000"), ("phases",), ("events", "--top", "1000"),
    ("waits", *TOP), ("waits", "--by", "peer", *TOP),
    ("path", *TOP), ("path", "--weighting", "sched", *TOP),
    ("path", "--weighting", "wall", *TOP),
    ("path", "--from", "10ms", "--to", "10s", *TOP),
    ("path", "--by", ALL_BY, "--whole", *TOP), ("path", "--sequences", *TOP),
    ("path", "--slack", *TOP), ("path", "--next", "4", *TOP),
    ("path", "--engine", "central", *TOP),
    ("whatif", *TOP), ("whatif", "--process", "*", "--faster", "2x"), ("predict",),
    ("predict", "--machines", "a:cores=1;b", "--map", "*=a"), ("estimate",),
    ("why",), ("why", "--from", "10ms", "--to", "10s"), ("requests", *TOP), ("bottleneck",),
    ("check", "--max-wall", "1s", "--max-path", "1s"))


def record(s, build, events, pattern):
    """Leaves a closed run of that many events, taken in by slaves that are up; its name."""
    if pattern:
        subprocess.run(
            [os.path.join(build, "tests", "bench_synth"), pattern, "--nodes", str(events),
             "--slaves", str(scale.SLAVES), "--threads", "64", "--pool", s.pools,
             *(("--cyclic",) if pattern == "pingpong" else ())],
            check=True, stdout=subprocess.DEVNULL)
        s.start_master()
        s.start_slaves()
        name = "synth"
    else:
        os.makedirs(os.path.join(s.pools, "0"))
        s.start_master()
        s.start_slaves()
        s.wait("the slave", lambda: s.connected() == 1, 30)
        name = "pingpong"
        subprocess.run(
            [os.path.join(build, "bin", "ipsrun"), "--quiet", "--pool",
             os.path.join(s.pools, "0"), "--machine", "m0", "--state",
             os.path.join(s.top, "s0"), "--master", s.address, "--name", name, "--",
             os.path.join(build, "tests", "bench_calls"), "pingpong", str(events // 4)],
            check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            env={k: v for k, v in s.env.items() if k != "IPS_POOL_ROOT"})
    s.wait("taking in", s.closed, 180 + events / 1e5)
    s.ipsq("ls", name)
    s.ipsq("estimate", name)  # a large run's graph is made when somebody asks
    s.wait("the graph's file", lambda: any(
        "graph" in files for _, _, files in os.walk(s.top)), 600)
    s.settle()
    return name


def anew(s, build):
    """Daemons of that build that know nothing but their files."""
    s.stop(s.slaves + [s.master])
    s.build, s.slaves = build, []
    s.start_master()
    s.start_slaves()
    s.wait("the slaves", lambda: s.connected() == scale.SLAVES, 30)


def ask(s, question, name):
    """Seconds, and CPU seconds of all daemons; why it was not answered."""
    daemons = s.slaves + [s.master]
    cpu, begin = sum(cpu_of(d.pid) for d in daemons), time.monotonic()
    done = subprocess.run(
        [os.path.join(s.build, "bin", "ipsq"), question[0],
         *(() if question[0] == "runs" else (name,)), *question[1:],
         "--format", "jsonl" if question[0] == "events" else "json"],
        env=s.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3, 4):
        return None, done.stderr.strip()
    return (time.monotonic() - begin, sum(cpu_of(d.pid) for d in daemons) - cpu), ""


def most_memory(s):
    with open(f"/proc/{s.master.pid}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f)
    return int(status["VmHWM"].split()[0]) / 1024


def one_size(builds, runs, events, pattern, only):
    with scale.Scale(builds[0], None, "0") as s:
        name = record(s, builds[0], events, pattern)
        count = s.rows("runs", "runs")[0]["events"]
        print(f"\n{count} events, {pattern or 'ping-pong of two processes'}\n"
              "| question | first s | CPU s | again s | master MB |" + (
                  " before: first | CPU | again | MB | ratio of CPU |" if builds[1:] else ""))
        for question in QUESTIONS:
            if only and only not in " ".join(question):
                continue
            rows, why = {build: [] for build in builds}, ""
            for _ in range(runs):
                for build in random.sample(builds, len(builds)):
                    anew(s, build)
                    first, why = ask(s, question, name)
                    if first is not None:
                        again, _ = ask(s, question, name)
                        rows[build].append((*first, again[0], most_memory(s)))
            row = [[statistics.median(x) for x in zip(*rows[build])] for build in builds]
            print(f"| {' '.join(question)} |" + ("|".join(
                f" {first:.2f} | {cpu:.2f} | {again:.2f} | {mb:.0f} "
                for first, cpu, again, mb in row)
                + (f"| {row[1][1] / row[0][1]:.1f} |" if row[1:] else "|")
                if all(row) else f" {why} |"), flush=True)


def bench(build, runs, events, pattern, only, against=None):
    scale.SLAVES = 4 if pattern else 1
    for size in [events] if events else (10 ** 5, 10 ** 6, 10 ** 7):
        one_size([build, against] if against else [build], runs, size, pattern, only)
