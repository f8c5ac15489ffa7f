"""Records real programs in a cluster of one machine (conftest.py): bare runs,
recorded runs and recorded runs under strace are made the same way, so that they
can be compared."""

import json
import os
import subprocess
import sys
import time

from conftest import Cluster, clean_env

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oracle"))

import strace_model  # noqa: E402


class Done:
    """A finished command. cpu_ns: of it and all it waited for."""

    def __init__(self, status, out, err, elapsed_ns, cpu_ns, run=None,
                 model=None):
        self.status, self.out, self.err = status, out, err
        self.elapsed_ns, self.cpu_ns = elapsed_ns, cpu_ns
        self.run, self.model = run, model


def execute(argv, env=None, timeout=360, cwd="/"):
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
    def __init__(self, build):
        self.cluster = Cluster(build, ["m1"])
        self.machine = self.cluster.machines[0]
        # Programs that change user must reach the pool.
        os.chmod(self.cluster.root, 0o711)
        os.chmod(self.machine.pool.parent, 0o711)
        os.chmod(self.machine.pool, 0o711)
        self.env = clean_env()
        self.count = 0

    def close(self):
        self.cluster.close()

    def record(self, argv, name, strace_log=None, timeout=360):
        """`name` begins the run's name. With `strace_log` the same execution is
        observed by strace too."""
        self.count += 1
        run = "%s-%d" % (name, self.count)
        full = self.cluster._ipsrun(argv, run, None, 0, ["--no-daemons"])
        if strace_log:
            full = strace_model.command(strace_log) + full
        done = execute(full, self.env, timeout)
        done.run = run
        if strace_log:
            done.model = strace_model.load(strace_log)
        self.cluster.wait_closed(run)
        return done

    # -- questions

    def ask(self, *words):
        """A JSON answer, complete or (status 3) not."""
        return self.cluster.json(*words, status=(0, 3))

    def graph(self, run):
        return self.cluster.graph(run)

    def path(self, run, engine, *options):
        return self.ask("path", run, "--engine", engine, *options)

    def events(self, run):
        done = self.cluster.ipsq("events", run, "--format", "jsonl")
        assert done.returncode in (0, 3), done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
