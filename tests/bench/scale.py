"""`tests/bench/run scale`: a synthetic run of N events (bench_synth) on four
slaves and a master of this machine: what taking it in costs, and how long the path
takes - kept up (the slaves had the time to build their graphs before anybody
asked), again (the slaves have answered it before), by slaves that were started anew
(graph and joins are in a file), and cold (records to graph and path) -, and what memory each
slave has had. The answer must be the one that the walk itself found."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from measure import cpu_of

SLAVES = 4
# A larger run's pool is drained while it is written: a slave's part is handed
# over when all of it is there, and the next one's is written meanwhile.
WHOLE_EVENTS = 2 * 10 ** 7


class Scale:
    """The daemons, and a directory of their own."""

    def __init__(self, build, where, memory):
        self.build = build
        self.memory_limit = memory
        self.top = tempfile.mkdtemp(prefix="ips-scale-", dir=where)
        self.pools = tempfile.mkdtemp(prefix="ips-scale-", dir="/dev/shm")
        self.address = "unix:" + os.path.join(self.top, "master.sock")
        self.env = dict(os.environ, IPS_LOG="error", IPS_MASTER=self.address,
                        IPS_STATE=self.top, IPS_POOL_ROOT=self.pools)
        # As a slave of that pool would: else ipsq starts one.
        self.lock = open(os.path.join(self.pools, "slave.lock"), "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.slaves, self.master = [], None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop(self.slaves + [self.master] if self.master else self.slaves)
        shutil.rmtree(self.top, ignore_errors=True)
        shutil.rmtree(self.pools, ignore_errors=True)

    @staticmethod
    def stop(daemons):
        for daemon in daemons:
            daemon.send_signal(signal.SIGTERM)
        for daemon in daemons:
            daemon.wait()

    def start(self, name, *options):
        return subprocess.Popen(
            [os.path.join(self.build, "bin", name), *options], env=self.env,
            stdin=subprocess.DEVNULL)

    def start_master(self):
        self.master = self.start("ips-master", "--listen", self.address,
                                 "--state", os.path.join(self.top, "master"))
        self.wait("the master's socket", lambda: os.path.exists(
            self.address.partition(":")[2]), 30)

    def start_slaves(self):
        self.slaves = [
            self.start("ips-slave", "--pool", os.path.join(self.pools, str(k)),
                       "--state", os.path.join(self.top, f"s{k}"), "--machine",
                       f"m{k}", "--master", self.address, "--archive-max", "0",
                       "--memory", self.memory_limit)
            for k in range(SLAVES)]

    def wait(self, what, there, seconds):
        end = time.monotonic() + seconds
        while not there():
            if time.monotonic() > end or any(
                    d.poll() is not None for d in self.slaves + [self.master]):
                raise RuntimeError(f"{what}: not in {seconds:.0f} s")
            time.sleep(0.05)

    def rows(self, command, what):
        return json.loads(self.ipsq(command, "--format", "json"))[what]

    def closed(self):
        """Have all slaves taken in all of the run, and does the master know?"""
        return any(not run["open"] and len(run["machines"]) == SLAVES
                   for run in self.rows("runs", "runs"))

    def asked_ahead(self):
        return self.rows("status", "kept_answers") > 0

    def settle(self):
        """Until no slave has anything to do; their CPU time meanwhile."""
        before = last = [cpu_of(slave.pid) for slave in self.slaves]
        while True:
            time.sleep(1)
            now = [cpu_of(slave.pid) for slave in self.slaves]
            if max(b - a for a, b in zip(last, now)) < 0.05:
                return max(b - a for a, b in zip(before, now))
            last = now

    def forget_graphs(self):
        for top, _, files in os.walk(self.top):
            if "graph" in files:
                os.unlink(os.path.join(top, "graph"))

    def connected(self):
        return sum(slave["connected"] for slave in self.rows("status", "slaves"))

    def restart_slaves(self, forget=False):
        self.stop(self.slaves)
        self.slaves = []
        if forget:
            self.forget_graphs()
        self.wait("the slaves' end", lambda: self.connected() == 0, 30)
        self.start_slaves()
        self.wait("the slaves", lambda: self.connected() == SLAVES, 30)

    def ipsq(self, *words):
        done = subprocess.run(
            [os.path.join(self.build, "bin", "ipsq"), *words], env=self.env,
            stdout=subprocess.PIPE, text=True)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"ipsq {words}: status {done.returncode}")
        return done.stdout

    def path(self, what, t_max, events, *how):
        """Times one question, and holds the answer against the walk's. By default
        it is computed anew."""
        daemons = self.slaves + [self.master]
        before = [cpu_of(d.pid) for d in daemons]
        begin = time.monotonic()
        answer = json.loads(self.ipsq(
            "path", "synth", "--format", "json",
            *(how or ("--mtime", "0", "--top", "5", "--fresh"))))
        took = time.monotonic() - begin
        *cpu, master = [cpu_of(d.pid) - b for d, b in zip(daemons, before)]
        if answer["t_max_ns"] != t_max:
            raise RuntimeError(f"path: {answer['t_max_ns']}, not {t_max}")
        print(f"path, {what}: {took:.2f} s; CPU of the slaves "
              f"{min(cpu):.2f} to {max(cpu):.2f} s, of the master {master:.2f}; "
              f"{events / took / 1e6:.1f} 10^6 events/s; {self.memory()}", flush=True)

    def memory(self):
        """The most that a slave has had, and has now without what is in files."""
        most, now = [], []
        for slave in self.slaves:
            with open(f"/proc/{slave.pid}/status", encoding="ascii") as f:
                status = dict(line.split(":", 1) for line in f)
            most.append(int(status["VmHWM"].split()[0]) / 1024)
            now.append(int(status["RssAnon"].split()[0]) / 1024)
        return f"a slave had at most {max(most):.0f} MB, has {max(now):.0f} MB"


def size_of(directory):
    return sum(os.path.getsize(os.path.join(top, name))
               for top, _, files in os.walk(directory) for name in files)


def bench(build, runs, events, pattern, memory, where=None):
    """Asks for the path again `runs` times. Blocks of threads are on a slave, but
    for ping-pong, where then no message would cross."""
    events = events or 10 ** 7
    with Scale(build, where, memory) as s:
        begin = time.monotonic()
        drained = events > WHOLE_EVENTS
        if drained:
            s.start_master()
            s.start_slaves()
        told = subprocess.run(
            [os.path.join(build, "tests", "bench_synth"), pattern, "--nodes",
             str(events), "--slaves", str(SLAVES), "--threads", "64", "--pool",
             s.pools, *(("--cyclic",) if pattern == "pingpong" else ())], check=True, stdout=subprocess.PIPE, text=True).stdout
        told = dict(word.split("=") for word in told.split())
        t_max, count = int(told["t_max"]), int(told["operations"])
        print(f"{count} sends and receives of \"{pattern}\", written in "
              f"{time.monotonic() - begin:.1f} s", flush=True)
        if not drained:
            s.start_master()
            s.start_slaves()
            begin = time.monotonic()
        s.wait("taking in", s.closed, 180 + events / 1e5)
        took = time.monotonic() - begin
        cpu = sum(cpu_of(slave.pid) for slave in s.slaves)
        with_writing = " with writing" if drained else ""
        print(f"taken in{with_writing}: {took:.1f} s, CPU {cpu:.1f} s, {count / cpu / 1e6:.1f}"
              f" 10^6 events/s and core; archives "
              f"{size_of(s.top) / 1e6:.0f} MB; {s.memory()}", flush=True)
        print(f"made before anybody asked: CPU up to {s.settle():.2f} s a slave",
              flush=True)
        if drained: # each part looks like a whole run: all is not asked ahead
            s.path("asked first", t_max, count, "--top", "10")
        else:
            s.wait("the path that the master asks for ahead", s.asked_ahead,
                   180 + events / 1e5)
        s.path("as it was asked ahead", t_max, count, "--top", "10")
        s.path("kept up", t_max, count)
        for _ in range(runs):
            s.path("again", t_max, count)
        s.restart_slaves()
        s.path("slaves started anew, from the graphs' files", t_max, count)
        s.restart_slaves(forget=True)
        s.path("cold", t_max, count)
