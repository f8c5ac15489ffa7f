"""Faults in unmodified Redis, nginx, PostgreSQL and make, made by configuration or
environment alone, each with a healthy twin: the same program without it. What counts
as naming one is said here, before any run: kinds of finding, and words that must be
in what it says. Quantities are drawn, so that no two seeds measure the same."""
import os
import pwd
import random
import shutil
import signal
import subprocess
import tempfile
import time

PG_BIN = max((os.path.join(d, "bin") for d, sub, _ in
              os.walk("/usr/lib/postgresql") if "bin" in sub), default="")
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", PG_BIN))


class Fault:
    """`ill` and `well`: shell commands in a directory that `prepare` fills; %(port)d
    is a free port. `disk`: of these the ill one has its directory there, the
    other one in memory."""

    def __init__(self, name, kinds, ill, well, words="", needs=(), prepare=None,
                 procedures=(), link=0, hogs=0, disk=False):
        self.name, self.kinds, self.words = name, kinds, words
        self.command = {True: ill, False: well}
        self.needs, self.prepare, self.procedures = needs, prepare, procedures
        self.link, self.hogs, self.disk = link, hogs, disk


# ---- Redis -----------------------------------------------------------------

REDIS_NEEDS = ("redis-server", "redis-benchmark", "redis-cli")


def redis(load, more="--appendonly no", before=""):
    return (f"{before}redis-server --port %(port)d --bind 127.0.0.1 --save '' "
            f"{more} >/dev/null & until redis-cli -p %(port)d ping >/dev/null "
            f"2>&1; do :; done; {before}redis-benchmark -p %(port)d -q -r 1000 "
            f"{load} >/dev/null; redis-cli -p %(port)d shutdown nosave; wait")


def redis_faults(draw):
    # With more clients the one thread that serves is the bottleneck, and said.
    well = "-t set -c 1 -P 64 -n %d" % draw.choice((400000, 600000))
    fields = draw.choice((2000, 3000))
    long = "-r %d -c 1 -P 16 -n 40000 hset h f__rand_int__ v" % fields
    return [
        Fault("redis: one client, no pipelining", ["chatty-messages"],
              redis("-t set -c 1 -n %d" % draw.choice((20000, 30000))),
              redis(well), needs=REDIS_NEEDS),
        Fault("redis: a slow link", ["slow-messages"],
              redis("-t set -c 4 -d 20000 -n %d" % draw.choice((300, 500))),
              redis(well), link=draw.choice((20, 30, 50)),
              needs=REDIS_NEEDS + ("tc",)),
        Fault("redis: a core shared with others", ["busy-machine"],
              redis(well, before="taskset -c 0 "), redis(well), hogs=3,
              needs=REDIS_NEEDS + ("taskset",)),
        Fault("redis: fsync at every write", ["outside"],
              redis("-t set -c 2 -n %d" % draw.choice((1500, 2500)),
                    "--appendonly yes --appendfsync always"),
              redis("-t set -c 1 -P 64 -n 200000",
                    "--appendonly yes --appendfsync no"),
              words="disk", disk=True, needs=REDIS_NEEDS),
        Fault("redis: hashes kept as long lists", ["procedure", "late-sender"],
              redis(long, "--hash-max-listpack-entries 100000"), redis(long),
              words="lp|redis-server", procedures=("lp",), needs=REDIS_NEEDS),
    ]


# ---- nginx -----------------------------------------------------------------

NGINX_NEEDS = ("nginx", "ab")


def site(directory, workers, more):
    draw = random.Random(1)
    with open(f"{directory}/page.html", "w") as f:
        f.write(" ".join(str(draw.random()) for _ in range(20000)))
    with open(f"{directory}/conf", "w") as f:
        f.write(f"daemon off; worker_processes {workers}; pid {directory}/pid;\n"
                "events {}\nhttp { access_log off; gzip_types *; "
                "gzip_http_version 1.0;\n"
                "limit_req_zone $binary_remote_addr zone=z:1m rate=20r/s;\n"
                "server { listen 127.0.0.1:PORT; "
                f"root {directory}; {more} }} }}\n")


def nginx(workers, more):
    return lambda directory: site(directory, workers, more)


def requests(n, clients=4):
    return ("sed s/PORT/%(port)d/ conf > c.conf; nginx -p . -c c.conf -e log & "
            f"until [ -s pid ]; do :; done; ab -q -n {n} -c {clients} -H "
            "'Accept-Encoding: gzip' http://127.0.0.1:%(port)d/page.html "
            ">/dev/null; kill $(cat pid); wait")


def nginx_faults(draw):
    many = draw.choice((2000, 3000))
    plain = nginx(2, "")
    zipped = draw.choice((80, 120))
    return [
        Fault("nginx: gzip at its slowest", ["procedure", "late-sender"],
              requests(draw.choice((20, 30))), requests(many),
              words="nginx|deflate|longest_match",
              prepare={True: nginx(2, "gzip on; gzip_comp_level 9;"),
                       False: plain},
              procedures=("deflate", "longest_match"), needs=NGINX_NEEDS),
        Fault("nginx: a limit of the rate", ["outside"],
              requests(draw.choice((12, 16))), requests(many),
              words="timer|nginx",
              prepare={True: nginx(2, "limit_rate %dk;" %
                                   draw.choice((300, 400, 600))),
                       False: plain}, needs=NGINX_NEEDS),
        Fault("nginx: one worker", ["one-server"],
              requests(zipped, 8), requests(zipped, 8), words="nginx",
              prepare={True: nginx(1, "gzip on; gzip_comp_level 4;"),
                       False: nginx(2, "gzip on; gzip_comp_level 4;")},
              needs=NGINX_NEEDS),
        Fault("nginx: a limit of requests", ["outside"],
              requests(draw.choice((40, 60))), requests(many),
              words="timer|nginx",
              prepare={True: nginx(2, "limit_req zone=z burst=100;"),
                       False: plain}, needs=NGINX_NEEDS),
        Fault("nginx: a slow link", ["slow-messages"],
              requests(draw.choice((20, 30))), requests(many),
              prepare={True: plain, False: plain},
              link=draw.choice((20, 30, 50)), needs=NGINX_NEEDS + ("tc",)),
    ]


# ---- PostgreSQL ------------------------------------------------------------

PG_NEEDS = ("initdb", "postgres", "pgbench", "setpriv")
CONF = """
listen_addresses = '127.0.0.1'
fsync = off
shared_buffers = 32MB
max_connections = 20
autovacuum = off
log_min_messages = fatal
"""
made_base = []


def as_postgres():
    return [] if os.geteuid() else ["setpriv", "--reuid=postgres",
                                    "--regid=postgres", "--clear-groups"]


def own(path):
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        for top, _, files in os.walk(path):
            for name in [top] + [os.path.join(top, f) for f in files]:
                os.chown(name, account.pw_uid, account.pw_gid)


def base():
    """A data directory with pgbench's tables, made once."""
    if made_base:
        return made_base[0]
    top = tempfile.mkdtemp(prefix="ips-blind-pg-", dir="/dev/shm")
    os.chmod(top, 0o755)
    os.mkdir(top + "/data")
    os.mkdir(top + "/sock")
    own(top)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
             "cwd": "/"}
    subprocess.run(as_postgres() + [
        PG_BIN + "/initdb", "-D", top + "/data", "-A", "trust", "-U",
        "postgres", "-E", "UTF8", "--no-locale", "-N"], check=True, **quiet)
    with open(top + "/data/postgresql.conf", "a") as f:
        f.write(CONF)
    server = subprocess.Popen(as_postgres() + [
        PG_BIN + "/postgres", "-D", top + "/data", "-c",
        "listen_addresses=", "-k", top + "/sock"], **quiet)
    try:
        while subprocess.call([PG_BIN + "/pg_isready", "-q", "-h",
                               top + "/sock"], **quiet):
            time.sleep(0.05)
        subprocess.run([PG_BIN + "/pgbench", "-h", top + "/sock", "-U",
                        "postgres", "-i", "-q", "postgres"], check=True,
                       **quiet)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
    made_base.append(top)
    return top


def forget_base():
    while made_base:
        shutil.rmtree(made_base.pop(), ignore_errors=True)


def database(script=""):
    def prepare(directory):
        shutil.copytree(base() + "/data", directory + "/data")
        os.mkdir(directory + "/sock")
        own(directory)
        os.chmod(directory + "/data", 0o700)
        with open(directory + "/load.sql", "w") as f:
            f.write(script)
    return prepare


def postgres(load, more="", before=""):
    """Ready when it says so in its own file: no process polls for it."""
    return (f"{before}{' '.join(as_postgres())} {PG_BIN}/postgres -D $PWD/data "
            f"-p %(port)d -k $PWD/sock {more} 2>server.log & server=$!\n"
            "ready() { while read -r x; do case $x in ready*) return 0;; esac; "
            "done <data/postmaster.pid; return 1; }\n"
            "until ready 2>/dev/null; do :; done\n"
            f"{before}pgbench -h $PWD/sock -p %(port)d -U postgres -n {load} "
            "postgres >out 2>&1\nkill -INT $server; wait $server")


def rows(where, work):
    return ("BEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE "
            f"aid = {where};\nSELECT count(*) FROM generate_series(1, {work});\n"
            "COMMIT;\n")


def postgres_faults(draw):
    work = draw.choice((15000, 25000))
    n = draw.choice((40, 60))
    far = rows(":client_id * 1000 + 7", work)
    lock = rows("7", work).replace(
        "BEGIN;\n", "BEGIN;\nLOCK TABLE pgbench_tellers;\n")
    own_script = "-f load.sql"
    # Some hundred rows each: single ones would be small talk, and said to be.
    selects = f"-c 2 -t {draw.choice((300, 500))} {own_script}"
    some = ("\\set aid random(1, 90000)\nSELECT sum(abalance) FROM "
            "pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 4000;\n")
    return [
        Fault("postgresql: a hot row", ["lock-contention"],
              postgres(f"-c 4 -t {n} {own_script}"),
              postgres(f"-c 2 -t {2 * n} {own_script}"), words="postgres",
              prepare={True: database(rows("7", work)), False: database(far)},
              needs=PG_NEEDS),
        Fault("postgresql: a table locked by each", ["lock-contention"],
              postgres(f"-c 3 -t {n} {own_script}"),
              postgres(f"-c 2 -t {2 * n} {own_script}"), words="postgres",
              prepare={True: database(lock), False: database(far)},
              needs=PG_NEEDS),
        Fault("postgresql: a slow disk at every commit", ["outside"],
              postgres("-N -c 1 -t %d" % draw.choice((100, 150)),
                       "-c fsync=on"),
              postgres("-N -c 2 -t 400", "-c fsync=on"), words="disk",
              prepare={True: database(), False: database()}, disk=True,
              needs=PG_NEEDS),
        Fault("postgresql: no index used",
              ["procedure", "late-sender", "spread"],
              postgres(f"-c 2 -t {draw.choice((40, 60))} {own_script}",
                       "-c enable_indexscan=off -c enable_bitmapscan=off "
                       "-c enable_indexonlyscan=off "
                       "-c max_parallel_workers_per_gather=0"),
              postgres(selects), words="postgres",
              prepare={True: database(some), False: database(some)},
              procedures=("heap", "Scan"), needs=PG_NEEDS),
        Fault("postgresql: a core shared with others", ["busy-machine"],
              postgres(selects, before="taskset -c 0 "), postgres(selects),
              prepare={True: database(some), False: database(some)}, hogs=3,
              needs=PG_NEEDS + ("taskset",)),
    ]


# ---- make ------------------------------------------------------------------

MAKE_NEEDS = ("make", "gcc")


def sources(directory):
    """Sixteen sources of equal size, and one ten times as long."""
    body = ["#include <stdio.h>"] + [
        "int f%d(int x){int s=0;for(int i=0;i<x;i++){s+=i*x;s^=s>>3;}"
        "printf(\"%%d\",s);return s;}" % i for i in range(30)]
    for i in range(16):
        text = "\n".join(body).replace("int f", "int f%d_" % i)
        with open(f"{directory}/s{i}.c", "w") as f:
            f.write(text)
    with open(f"{directory}/long.c", "w") as f:
        f.write("\n".join("\n".join(body[1:]).replace("int f", "int g%d_" % i)
                          for i in range(10)).replace("printf", "__builtin_printf"))
    objects = " ".join("s%d.o" % i for i in range(16))
    few = " ".join("s%d.o" % i for i in range(6))
    locked = " ".join("s%d.lo" % i for i in range(16))
    with open(f"{directory}/Makefile", "w") as f:
        f.write(f"all: {objects}\nuneven: {few} long.o\nlocked: {locked}\n"
                f"licence: {objects}\n\tsleep 6\n"
                "%.o: %.c\n\tgcc -O2 -c $< -o $@\n"
                "%.lo: %.c\n\tflock licence gcc -O2 -c $< -o $@\n")


def make_faults(draw):
    def fault(name, kinds, ill, words="", needs=()):
        return Fault(name, kinds, "make -s " + ill, "make -s -j2 all", words,
                     MAKE_NEEDS + needs, {True: sources, False: sources})
    return [
        fault("make: too many jobs", ["too-few-cores"],
              "-j%d all" % draw.choice((12, 16))),
        fault("make: one long job last", ["load-imbalance"], "-j2 uneven"),
        fault("make: waits for a licence", ["outside"], "-j2 licence",
              words="timer|sleep"),
        fault("make: one job at a time", ["serial-section"], "-j1 all",
              words="make"),
        fault("make: jobs that lock each other out", ["lock-contention"],
              "-j%d locked" % draw.choice((2, 3)), needs=("flock",)),
    ]


def faults(draw):
    """All of this machine, their quantities drawn."""
    made = (redis_faults(draw) + nginx_faults(draw) + postgres_faults(draw) +
            make_faults(draw))
    return [f for f in made
            if all(shutil.which(n, path=PATH) for n in f.needs)]
