"""`tests/bench/run tables`: a run of 10^4 processes and 10^5 procedures on eight
slaves of this machine, and how long the master takes to answer questions of
category 1 and 2 (IPS-9) about it, as its answers say, and ipsq altogether."""
import json
import os
import statistics
import subprocess
import time

import scale
from measure import cpu_of

SLAVES = 8
PROCESSES = 10000

QUESTIONS = (
    ("1 metrics", ("metrics", "tables")),
    ("2 ls --top 20", ("ls", "tables", "--top", "20")),
    ("2 ls one machine", ("ls", "tables", "--object", "/m3", "--top", "20")),
    ("2 metrics --level process", ("metrics", "tables", "--level", "process",
                                   "--top", "20")),
    ("2 metrics of a process", ("metrics", "tables", "--object",
                                "/m3/bench_tables*1", "--top", "20")),
    ("2 procedures --top 20", ("procedures", "tables", "--top", "20")),
    ("2 procedures --by process", ("procedures", "tables", "--by", "process",
                                   "--top", "20")),
    ("2 sql: processes of most CPU",
     ("sql", "tables", "SELECT process, cpu_ns FROM processes "
      "ORDER BY cpu_ns DESC LIMIT 20")),
    ("2 sql: procedures of most CPU",
     ("sql", "tables", "SELECT process, procedure, self_ns FROM procedures "
      "ORDER BY self_ns DESC LIMIT 20")),
    ("2 sql: sum by procedure",
     ("sql", "tables", "SELECT procedure, sum(self_ns) AS ns, count(*) AS n "
      "FROM procedures GROUP BY procedure ORDER BY ns DESC LIMIT 20")),
)


def record(s, build, processes):
    for k in range(SLAVES):
        command = [os.path.join(build, "bin", "ipsrun"), "--quiet",
                   "--procedures=exact", "--pool", os.path.join(s.pools, str(k)),
                   "--machine", f"m{k}", "--state", os.path.join(s.top, f"s{k}"),
                   "--master", s.address, "--join" if k else "--name", "tables",
                   "--", os.path.join(build, "tests", "bench_tables"),
                   str(processes // SLAVES)]
        env = {key: v for key, v in s.env.items() if key != "IPS_POOL_ROOT"}
        subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL)


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def ask(s, name, words, runs):
    took, whole, category = [], [], None
    before = [cpu_of(d.pid) for d in [s.master] + s.slaves]
    for _ in range(runs):
        begin = time.monotonic()
        answer = json.loads(s.ipsq(*words, "--format", "json"))
        whole.append((time.monotonic() - begin) * 1e3)
        took.append(answer["certificate"]["took_ns"] / 1e6)
        category = answer["certificate"]["category"]
    master, *slaves = [(cpu_of(d.pid) - b) / runs * 1e3
                       for d, b in zip([s.master] + s.slaves, before)]
    print(f"{name:<34} category {category}: median "
          f"{statistics.median(took):7.2f} ms, p99 {quantile(took, .99):7.2f} ms; "
          f"with ipsq {statistics.median(whole):7.2f}, "
          f"{quantile(whole, .99):7.2f} ms; CPU of the master {master:.2f}, of a "
          f"slave {max(slaves):.2f} ms  n={runs}", flush=True)


def bench(build, runs, processes=PROCESSES):
    scale.SLAVES = SLAVES
    with scale.Scale(build, None, "1G") as s:
        s.start_master()
        for k in range(SLAVES):
            os.makedirs(os.path.join(s.pools, str(k)), exist_ok=True)
        s.start_slaves()
        s.wait("the slaves", lambda: s.connected() == SLAVES, 60)
        begin = time.monotonic()
        record(s, build, processes)
        s.wait("the end of the run", s.closed, 600)
        print(f"recorded in {time.monotonic() - begin:.0f} s")
        row = s.rows("runs", "runs")[0]
        begin = time.monotonic()
        s.ipsq("procedures", "tables", "--top", "1", "--format", "json")
        print(f"{row['processes']} processes, {row['events']} events; tables of "
              f"procedures made in {time.monotonic() - begin:.1f} s")
        counts = json.loads(s.ipsq(
            "sql", "tables", "SELECT count(*) AS n FROM procedures", "--format",
            "json"))["rows"]
        print(f"{sum(c['n'] for c in counts)} procedures")
        s.ipsq("metrics", "tables", "--format", "json")
        for name, words in QUESTIONS:
            ask(s, name, words, runs)
