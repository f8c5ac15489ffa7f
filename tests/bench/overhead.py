"""`tests/bench/run programs`: what recording costs real programs, with sampling on
(ipsrun's defaults), and whether the certificate says so.

The server is measured, its client is not. The server has core 0, the client core
1, IPS's daemons run where they like (private ones, as a user has them). A parallel
build, which is all measured, has both cores. Loads are of fixed size, found once
bare so that they take about SECONDS; wrk's is of fixed time.

Of each run, bare and under ipsrun in random order:
  elapsed    per request of the load, as the client has it: all that runs is in
             it, the slave's work during the load, too
  CPU        of the measured processes from the server's start to its end, as the
             kernel has it (wait4), per request; what the slave took is apart
  dilation   of the run's certificate, to be compared with CPU
"""
import glob
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from measure import ROOT, Place, cpu_of, daemons_of_ours, show

SECONDS = 1.5
PG_BIN = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [""])[-1]
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
         "stderr": subprocess.DEVNULL, "cwd": "/"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def client(*command):
    """Output of a command on core 1."""
    done = subprocess.run(["taskset", "-c", "1", *map(str, command)], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, cwd="/")
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}")
    return done.stdout


class Server:
    """What there is to know of one: how it starts (argv), ends (stop), whether it
    answers (ready), and a load of `size` requests (load)."""
    needs, stop, group = (), signal.SIGTERM, None

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.size = 1

    def ready(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def load(self):
        """(requests, seconds)"""
        start = time.monotonic()
        client(*self.load_argv())
        return self.size, time.monotonic() - start

    def begin_round(self):
        pass


class Redis(Server):
    needs = ("redis-server", "redis-benchmark")
    group, clients = "Redis", 50

    @property
    def argv(self):
        return ["redis-server", "--port", str(self.port), "--bind",
                "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
                self.directory, "--logfile", "log"]

    def load_argv(self):
        return ["redis-benchmark", "-p", self.port, "-t", "set", "-q", "-c",
                self.clients, "-n", self.size]


class RedisOne(Redis):
    clients = 1


class Nginx(Server):
    """One worker, as one core is all that it has; the log of requests is on."""
    needs, stop, group = ("nginx", "wrk"), signal.SIGQUIT, "nginx"

    def __init__(self, directory):
        super().__init__(directory)
        os.mkdir(directory + "/www")
        with open(directory + "/www/small", "w") as f:
            f.write("x" * 1000 + "\n")
        with open(directory + "/nginx.conf", "w") as f:
            f.write("""
daemon off; worker_processes 1; pid %(d)s/nginx.pid; user www-data;
error_log %(d)s/error.log;
events { worker_connections 256; }
http {
  access_log %(d)s/access.log; sendfile on; keepalive_requests 1000000;
  client_body_temp_path %(d)s/t1; proxy_temp_path %(d)s/t2;
  fastcgi_temp_path %(d)s/t3; uwsgi_temp_path %(d)s/t4; scgi_temp_path %(d)s/t5;
  server { listen 127.0.0.1:%(p)d; root %(d)s/www; }
}
""" % {"d": directory, "p": self.port})
        self.argv = ["nginx", "-p", directory, "-c", "nginx.conf", "-e",
                     "error.log"]

    def load(self):
        said = client("wrk", "-t", 1, "-c", 50, "-d", "%.0f" % (SECONDS + .5),
                      f"http://127.0.0.1:{self.port}/small")
        done = re.search(r"(\d+) requests in ([\d.]+)s", said)
        if not done or "Non-2xx" in said:
            raise RuntimeError(said)
        rate = re.search(r"Requests/sec: +([\d.]+)", said)
        return int(done[1]), int(done[1]) / float(rate[1])

    def begin_round(self):
        if os.path.exists(self.directory + "/access.log"):
            os.truncate(self.directory + "/access.log", 0)


class Postgres(Server):
    """Select-only pgbench, four clients on the unix socket; fsync is off, since
    a disk's moods are not what is measured."""
    needs = (PG_BIN + "/postgres", "pgbench", "setpriv")
    stop, group = signal.SIGINT, "PostgreSQL"
    script, clients = "-S", 4

    def __init__(self, directory):
        super().__init__(directory)
        data, sock = directory + "/data", directory + "/sock"
        user = []
        for path in (data, sock):
            os.mkdir(path)
        if os.geteuid() == 0:
            user = ["setpriv", "--reuid=postgres", "--regid=postgres",
                    "--clear-groups"]
            account = pwd.getpwnam("postgres")
            for path in (data, sock):
                os.chown(path, account.pw_uid, account.pw_gid)
        subprocess.run([*user, PG_BIN + "/initdb", "-D", data, "-A", "trust",
                        "-U", "postgres", "-E", "UTF8", "--no-locale", "-N"],
                       check=True, **QUIET)
        with open(data + "/postgresql.conf", "a") as f:
            f.write(f"""
listen_addresses = ''
port = {self.port}
unix_socket_directories = '{sock}'
fsync = off
shared_buffers = 64MB
autovacuum = off
log_min_messages = fatal
""")
        self.ask = ["-h", sock, "-p", str(self.port), "-U", "postgres"]
        self.argv = [*user, PG_BIN + "/postgres", "-D", data]
        made = subprocess.Popen(self.argv, **QUIET)
        try:
            await_ready(self, made)
            subprocess.run(["pgbench", *self.ask, "-i", "-q", "-s", "2",
                            "postgres"], check=True, **QUIET)
        finally:
            made.send_signal(signal.SIGINT)
            made.wait(30)

    def ready(self):
        return subprocess.call(["pg_isready", "-q", *self.ask], **QUIET) == 0

    def load_argv(self):
        return ["pgbench", *self.ask, "-n", *self.script.split(), "-c",
                self.clients, "-t", max(self.size // self.clients, 1),
                "postgres"]


class PostgresWrites(Postgres):
    script = "-b tpcb-like"


class Build:
    """make -j2 of IPS's own rooms `common` and `analysis`: no server, it is its
    own load."""
    needs, group, size = ("make", "gcc"), "build", 1

    def __init__(self, directory):
        self.directory = directory
        sources = sorted(glob.glob(ROOT + "/common/*.c") +
                         glob.glob(ROOT + "/analysis/*/*.c"))
        objects = [os.path.basename(s)[:-2] + ".o" for s in sources]
        with open(directory + "/Makefile", "w") as f:
            f.write("CFLAGS = -std=c11 -O1 -D_GNU_SOURCE -I %s\n"
                    "all.a: %s\n\tar rcs $@ $^\n" % (ROOT, " ".join(objects)))
            f.writelines("%s: %s\n\t$(CC) $(CFLAGS) -c -o $@ $<\n" % pair
                         for pair in zip(objects, sources))
        self.argv = ["make", "-s", "-j2", "-C", directory]

    def begin_round(self):
        for name in os.listdir(self.directory):
            if name != "Makefile":
                os.unlink(os.path.join(self.directory, name))


PROGRAMS = {"Redis, 50 clients": Redis, "Redis, 1 client": RedisOne,
            "nginx": Nginx, "PostgreSQL, select": Postgres,
            "PostgreSQL, TPC-B": PostgresWrites, "make -j2": Build}


def await_ready(server, proc):
    for _ in range(400):
        if proc.poll() is not None:
            raise RuntimeError(f"{server.argv[0]} ended: {proc.returncode}")
        if server.ready():
            return
        time.sleep(0.025)
    raise RuntimeError(f"{server.argv[0]} does not answer")


def run_once(program, command, env):
    """{elapsed, cpu} per request."""
    program.begin_round()
    start = time.monotonic()
    proc = subprocess.Popen(command, env=env, **QUIET)
    try:
        units, seconds = 1, None
        if isinstance(program, Server):
            await_ready(program, proc)
            units, seconds = program.load()
            proc.send_signal(program.stop)
        _, status, used = os.wait4(proc.pid, 0)
        proc.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if proc.returncode is None:
            proc.kill()
            proc.wait()
    if proc.returncode not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{command} ended with {proc.returncode}")
    seconds = seconds or time.monotonic() - start
    return {"elapsed": seconds / units,
            "CPU": (used.ru_utime + used.ru_stime) / units, "units": units}


def slave_cpu():
    return {pid: cpu_of(pid) for pid, name in daemons_of_ours().items()
            if name == "ips-slave"}


def run_one(program, way, place, name):
    argv = program.argv
    if isinstance(program, Server):
        argv = ["taskset", "-c", "0", *argv]
    if way == "bare":
        return run_once(program, argv, None)
    before = slave_cpu()
    found = run_once(program, place.ipsrun(*argv, options=("--name", name)),
                     place.env)
    place.settle()
    found["slave"] = sum(cpu - before.get(pid, 0) for pid, cpu in
                         slave_cpu().items()) / found["units"]
    return found


def calibrate(program):
    """Bare, twice as long each time; then a size of about SECONDS."""
    if not isinstance(program, Server) or isinstance(program, Nginx):
        return
    program.size = 500
    while True:
        took = run_one(program, "bare", None, None)["elapsed"] * program.size
        if took > SECONDS / 4:
            program.size = max(int(program.size * SECONDS / took), 500)
            return
        program.size *= 4


class Case:
    def __init__(self, name, kind, place):
        self.name, self.place, self.found = name, place, []
        self.directory = tempfile.mkdtemp(prefix="ips-bench-")
        os.chmod(self.directory, 0o755)
        self.program = kind(self.directory)
        calibrate(self.program)

    def round(self, number):
        row = {"run": "%s-%d" % (re.sub(r"\W+", "-", self.name), number)}
        for way in random.sample(("bare", "recorded"), 2):
            row[way] = run_one(self.program, way, self.place, row["run"])
        self.found.append(row)

    def more(self, what):
        """By how much more than bare, in percent, round by round."""
        return [100 * (row["recorded"][what] / row["bare"][what] - 1)
                for row in self.found]

    def ask(self):
        """The certificates, when nothing is measured any more."""
        for row in self.found:
            answer = json.loads(self.place.ipsq_any(
                "metrics", row["run"], "--format", "json"))
            row["certificate"] = answer["certificate"]

    def tell(self):
        def of(key, way):
            return [row[way][key] for row in self.found]

        certs = [row["certificate"] for row in self.found]
        dilation = [100 * (c["dilation"] or 0) for c in certs]
        elapsed = of("elapsed", "bare")
        show(f"{self.name}, bare, elapsed", [1e6 * v for v in elapsed], "us")
        show(f"{self.name}, bare, CPU",
             [1e6 * v for v in of("CPU", "bare")], "us")
        show(f"{self.name}, elapsed, more", self.more("elapsed"), "%")
        show(f"{self.name}, CPU, more", self.more("CPU"), "%")
        show(f"{self.name}, certificate's dilation", dilation, "%")
        show(f"{self.name}, dilation - CPU", [
            d - m for d, m in zip(dilation, self.more("CPU"))], "points")
        show(f"{self.name}, slave's CPU of bare CPU", [
            100 * row["recorded"]["slave"] / row["bare"]["CPU"]
            for row in self.found], "%")
        lost = sum(n["count"] for c in certs for n in c["lost"])
        untraced = sum(c["untraced_processes"] for c in certs)
        print(f"    per run {statistics.median(of('units', 'recorded')):.0f} "
              f"requests, {statistics.median(c['events'] for c in certs):.0f} "
              f"events; lost in all runs: {lost}, processes not "
              f"traced: {untraced}")

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def means(cases, runs):
    """Each of the four programs counts once, however many loads it had."""
    groups = {}
    for case in cases:
        groups.setdefault(case.program.group, []).append(case)
    print("mean over " + ", ".join(groups) + ":")
    for what in ("elapsed", "CPU"):
        show(f"mean, {what}, more", [
            statistics.mean(statistics.mean(c.more(what)[i] for c in group)
                            for group in groups.values())
            for i in range(runs)], "%")


def make_cases(place):
    cases = []
    for name, kind in PROGRAMS.items():
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        missing = [n for n in kind.needs if not shutil.which(n, path=path)]
        try:
            if missing:
                raise RuntimeError(f"not here: {missing} (deploy/deps --bench)")
            cases.append(Case(name, kind, place))
        except (OSError, RuntimeError, subprocess.SubprocessError) as why:
            print(f"{name} is left out: {why}", flush=True)
    return cases


def bench(build, runs):
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    with Place(build) as place:
        place.run(place.ipsrun("true"))  # what is learnt once in a pool
        place.settle()
        cases = make_cases(place)
        try:
            for number in range(runs):
                for case in cases:
                    case.round(number)
                print(f"round {number + 1} of {runs} is done", flush=True)
            for case in cases:
                case.ask()
                case.tell()
            if cases:
                means(cases, runs)
        finally:
            for case in cases:
                case.close()
