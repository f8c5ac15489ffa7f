"""What the benchmarks share: medians with their intervals, and a place of their
own for pool and state."""
import ctypes
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def interval(values, rounds=2000):
    """Bootstrap 95% interval of the median."""
    medians = sorted(statistics.median(random.choices(values, k=len(values)))
                     for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds) - 1]


def show(name, values, unit):
    low, high = interval(values)
    print(f"{name:<44} {statistics.median(values):>12.2f} {unit:<8} "
          f"[{low:.2f}, {high:.2f}]  n={len(values)}")


class Place:
    """A state directory and a pool of our own, gone afterwards."""

    def __init__(self, build):
        self.bin = os.path.join(build, "bin")
        self.tests = os.path.join(build, "tests")
        self.state = tempfile.mkdtemp(prefix="ips-bench-")
        self.pool = tempfile.mkdtemp(prefix="ips-bench-", dir="/dev/shm")
        if os.geteuid() == 0:
            os.chmod(self.pool, 0o711)  # as ipsrun makes root's
        self.env = dict(os.environ, IPS_STATE=self.state,
                        IPS_POOL_ROOT=self.pool, IPS_LOG="error")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        time.sleep(0.2)
        for pid in daemons_of_ours():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.rmtree(self.pool, ignore_errors=True)

    def ipsrun(self, *command, options=()):
        return [os.path.join(self.bin, "ipsrun"), "--quiet", *options, "--",
                *command]

    def run(self, command, more_env=()):
        return subprocess.run(command, env=dict(self.env, **dict(more_env)),
                              check=True, stdout=subprocess.PIPE,
                              text=True).stdout

    def ipsq(self, *words):
        return self.run([os.path.join(self.bin, "ipsq"), *words])

    def ipsq_any(self, *words):
        """The answer even where it is not complete (status 3)."""
        done = subprocess.run([os.path.join(self.bin, "ipsq"), *words],
                              env=self.env, text=True, stdout=subprocess.PIPE)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"ipsq {words}: status {done.returncode}")
        return done.stdout

    def forget(self):
        """Removes the segments of programs that have ended, where no slave
        does: what a pool holds is memory."""
        for top, _, files in os.walk(self.pool):
            for name in files:
                if name.endswith(".seg"):
                    os.remove(os.path.join(top, name))

    def settle(self, seconds=60):
        """Waits until a slave has taken in everything that is in the pool; its
        private daemons may stay for the next run. Needs adopt()."""
        end = time.monotonic() + seconds
        while any(entry.is_dir() for entry in os.scandir(self.pool)):
            if time.monotonic() > end:
                raise RuntimeError("the slave does not come to an end; see " +
                                   os.path.join(self.state, "slave.log"))
            time.sleep(0.01)

    def runs(self):
        """{name: (bytes of the archive, events)}, as the slave has it."""
        (base,) = [os.path.join(top, "slave.db") for top, _, files
                   in os.walk(self.state) if "slave.db" in files]
        with sqlite3.connect(base) as db:
            return {name: (size, events) for name, size, events in db.execute(
                "SELECT name, archive_bytes, events FROM run")}


def adopt():
    """Daemons that detach themselves become children of ours."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def cpu_of(pid):
    """Seconds of CPU time of a process, all threads that it ever had."""
    return time.clock_gettime(~pid << 3 | 2)  # its CPUCLOCK_SCHED


def daemons_of_ours():
    """{pid: name} of IPS's daemons among our children."""
    found = {}
    with open(f"/proc/self/task/{os.getpid()}/children") as f:
        children = f.read().split()
    for pid in children:
        try:
            with open(f"/proc/{pid}/comm") as f:
                name = f.read().strip()
        except OSError:
            continue
        if name in ("ips-slave", "ips-master"):
            found[int(pid)] = name
    return found
