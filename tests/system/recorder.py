"""Records real programs: one resident slave and master with a pool and state of
their own, ipsrun in front of a command, and what can be asked afterwards.

Bare runs, recorded runs and recorded runs under strace are made the same way,
so that they can be compared."""

import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "oracle"))

import graph_view  # noqa: E402
import strace_model  # noqa: E402


def build_dir():
    return os.environ.get("IPS_BUILD", os.path.join(ROOT, "build", "dev"))


class Done:
    """A finished command. cpu_ns: of it and all it waited for."""

    def __init__(self, status, out, err, elapsed_ns, cpu_ns, run=None,
                 model=None):
        self.status, self.out, self.err = status, out, err
        self.elapsed_ns, self.cpu_ns = elapsed_ns, cpu_ns
        self.run, self.model = run, model


def execute(argv, env=None, timeout=120, cwd="/"):
    """Runs, with output in files (a pipe to us would be one more channel of the
    program), and measures with wait4."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    names = ["%s/ips-out-%d-%s" % (base, os.getpid(), n) for n in ("o", "e")]
    try:
        with open(names[0], "w") as out, open(names[1], "w") as err:
            start = time.monotonic_ns()
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=err, env=env, cwd=cwd,
                                     start_new_session=True)
            deadline = time.monotonic() + timeout
            while True:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    os.killpg(child.pid, 9)
                    pid, status, usage = os.wait4(child.pid, 0)
                    raise TimeoutError("%s: no end in %d s; %s" % (
                        argv, timeout, open(names[1]).read()[-2000:]))
                time.sleep(0.002)
            elapsed = time.monotonic_ns() - start
            child.returncode = os.waitstatus_to_exitcode(status)
        with open(names[0], errors="replace") as f:
            out = f.read()
        with open(names[1], errors="replace") as f:
            err = f.read()
    finally:
        for name in names:
            if os.path.exists(name):
                os.unlink(name)
    cpu = int((usage.ru_utime + usage.ru_stime) * 1e9 + 0.5)
    return Done(child.returncode, out, err, elapsed, cpu)


class Recorder:
    def __init__(self, directory):
        """`directory` holds state and logs; the pool is below /dev/shm."""
        self.bin = os.path.join(build_dir(), "bin")
        self.directory = str(directory)
        self.pool = "/dev/shm/ips-test-%d-%d" % (os.getpid(),
                                                 time.monotonic_ns())
        self.state = os.path.join(self.directory, "state")
        self.env = dict(os.environ, IPS_POOL_ROOT=self.pool,
                        IPS_STATE=self.state, IPS_MACHINE="m1")
        for name in ("IPS_RUN", "IPS_POOL", "LD_PRELOAD", "IPS_PRELOAD"):
            self.env.pop(name, None)
        self.daemons = []
        self.count = 0

    def program(self, name):
        return os.path.join(self.bin, name)

    def start(self):
        os.makedirs(self.state, exist_ok=True)
        for name in ("ips-master", "ips-slave"):
            log = open(os.path.join(self.directory, name + ".log"), "w")
            self.daemons.append(subprocess.Popen(
                [self.program(name)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=self.env, cwd="/"))
            log.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            status = subprocess.run(
                [self.program("ipsq"), "status", "--format", "json"],
                env=self.env, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True)
            if status.returncode == 0 and "m1" in status.stdout:
                return self
            time.sleep(0.05)
        raise RuntimeError("daemons not ready: " + self.logs())

    def logs(self):
        text = ""
        for name in ("ips-master", "ips-slave"):
            path = os.path.join(self.directory, name + ".log")
            if os.path.exists(path):
                with open(path, errors="replace") as f:
                    text += "\n%s:\n%s" % (name, f.read()[-3000:])
        return text

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.pool, ignore_errors=True)

    def record(self, argv, name, strace_log=None, timeout=120):
        """`name` names the run. With `strace_log` the same execution is
        observed by strace too."""
        self.count += 1
        name = "%s-%d" % (name, self.count)
        full = [self.program("ipsrun"), "--no-daemons", "--name", name, "--"]
        full += argv
        if strace_log:
            full = strace_model.command(strace_log) + full
        done = execute(full, self.env, timeout)
        done.run = name
        if strace_log:
            done.model = strace_model.load(strace_log)
        return done

    # -- questions

    def ask(self, *words, lines=False):
        done = subprocess.run([self.program("ipsq")] + list(words),
                              env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode in (0, 3), \
            "ipsq %s: %d %s %s" % (" ".join(words), done.returncode,
                                   done.stderr, self.logs())
        if lines:
            return [json.loads(line) for line in done.stdout.splitlines()]
        return json.loads(done.stdout)

    def graph(self, run):
        return self.ask("graph", run, "--format", "jsonl", lines=True)

    def path(self, run, engine, *options):
        return self.ask("path", run, "--engine", engine, "--format", "json",
                        *options)

    def events(self, run):
        return self.ask("events", run, "--format", "jsonl", lines=True)
