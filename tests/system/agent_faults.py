"""Programs that watch what is theirs - files, descriptors, locks, signals, limits, output -
beside an agent whose own system calls fail, are interrupted and come late at random
(tests/support/agent_faults.c). `/usr/bin/python3 tests/system/agent_faults.py SECONDS [SEED]`
for longer than the test does."""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

SHELL = [
    "seq 20000 | sort -n | tail -n 1; echo $?",
    "for i in 1 2 3 4 5 6; do (echo $i; exit $i) | cat; done; echo ${PIPESTATUS[*]}",
    "exec 5>x; echo one >&5; exec 5>&-; cat x; flock x -c 'cat x'; rm x; ls",
    "trap 'echo caught' USR1; kill -USR1 $$; ulimit -n; ulimit -f; umask; exit 7",
    "echo a | (read x; echo $x; yes | head -n 1000 | wc -c); cat <(echo b) - <<< c",
]
PYTHON = """
import os, threading, fcntl, queue
def work(k):
    for i in range(200):
        q.put(k * i)
        with lock:
            seen.append(1)
q, lock, seen = queue.Queue(), threading.Lock(), []
ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
r, w = os.pipe()
if os.fork() == 0:
    for i in range(500):
        os.write(w, b"x" * 100)
    os._exit(3)
os.close(w)
n = 0
while True:
    got = os.read(r, 4096)
    if not got:
        break
    n += len(got)
print(q.qsize(), len(seen), n, os.waitstatus_to_exitcode(os.wait()[1]), sorted(os.listdir(".")),
      sorted(int(f) for f in os.listdir("/proc/self/fd"))[:4])
"""
# Not its storm: where calls come late in a handler, more signals come than end.
GUEST = [["jump", "100"], ["alternate"], ["exit-in-handler"], ["fork-threads"],
         ["thread-exit"], ["abort"], ["close", "closefrom"], ["close", "close_range"],
         ["close", "loop"], ["limit", "fsize-small"], ["limit", "nofile"], ["limit", "as"],
         ["limit", "nproc"], ["surroundings", "umask"], ["surroundings", "environment"]]
TABLE = ["threads", "forks", "range", "accepts", "numbered", "shared", "locks", "much", "execs"]
OPTIONS = [["--on-full=drop"], ["--on-full=block"], ["--on-full=ring"], ["--locks=all"],
           ["--procedures=off"], ["--rate", "2"], ["--quota", "2M"]]


def programs(programs_dir):
    """Command lines; each tells by its output and status whether it was disturbed."""
    return [*(["/bin/bash", "-c", s] for s in SHELL), ["/usr/bin/python3", "-c", PYTHON],
            *([programs_dir / "i_guest", *g] for g in GUEST),
            *([programs_dir / "i_table", t, "."] for t in TABLE)]


class Judge:
    """`build`: a build directory with system_programs."""

    def __init__(self, build, clock):
        self.build = pathlib.Path(build)
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-faults-", dir="/dev/shm"))
        os.chmod(self.top, 0o711)
        (self.top / "bin").mkdir()
        shutil.copy(self.build / "bin" / "ipsrun", self.top / "bin")
        (self.top / "lib").symlink_to(self.build / "tests" / "faults" / "lib")
        self.clock, self.bare, self.count = clock, {}, 0

    def close(self):
        shutil.rmtree(self.top)

    def run(self, argv, **env):
        """Status, output and the files left behind in an empty directory."""
        self.count += 1
        here = self.top / f"d{self.count}"
        here.mkdir()
        clean = {k: v for k, v in os.environ.items() if not k.startswith("IPS_")}
        done = subprocess.run([str(a) for a in argv], cwd=here, env={**clean, **env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)
        files = {f.name: f.read_bytes() for f in here.iterdir() if f.is_file()}
        shutil.rmtree(here)
        out = re.sub(r"^library .*\n", "", done.stdout, flags=re.M)
        said = re.sub(r"^ *\d+ (?=\w)|line \d+: +\d+ ", "", done.stderr, flags=re.M)
        return done.returncode, out, said, files

    def differences(self, argv, options, ppm, seed):
        """[] or [(what, bare, recorded)]."""
        key = tuple(map(str, argv))
        if key not in self.bare:
            self.bare[key] = self.run(argv)
        pool = self.top / f"p{self.count}"
        pool.mkdir(mode=0o711)
        (pool / "clock").write_bytes(self.clock)
        got = self.run([self.top / "bin" / "ipsrun", "--no-daemons", "--quiet", "--pool",
                        pool, "--name", "r", *options, "--", *argv],
                       IPS_TEST_FAULTS=f"{ppm}:{seed}")
        shutil.rmtree(pool)
        return [x for x in zip(("status", "output", "errors", "files"), self.bare[key], got)
                if x[1] != x[2]]


def judge(build, clock, enough, seed):
    """Runs until enough(runs made): how many there were, and [(command line, options, ppm,
    seed, differences)]."""
    drawn, made, bad = random.Random(seed), 0, []
    judge_ = Judge(build, clock)
    try:
        while not enough(made):
            argv = drawn.choice(programs(pathlib.Path(build, "bin", "programs")))
            options = drawn.choice(OPTIONS)
            ppm = drawn.choice([2000, 20000, 100000, 300000])
            number = drawn.randrange(1 << 30)
            found = judge_.differences(argv, options, ppm, number)
            made += 1
            if found:
                bad.append(([str(a)[:60] for a in argv], options, ppm, number, found))
    finally:
        judge_.close()
    return made, bad


def main():
    build = pathlib.Path(os.environ.get("IPS_BUILD", "build/release")).resolve()
    seconds, seed = float(sys.argv[1]), (sys.argv[2:] or [str(time.time_ns())])[0]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as first:
        subprocess.run([build / "bin" / "ipsrun", "--no-daemons", "--quiet", "--pool", first,
                        "true"], check=True)
        clock = pathlib.Path(first, "clock").read_bytes()
    end = time.monotonic() + seconds
    made, bad = judge(build, clock, lambda made: time.monotonic() > end, seed)
    for row in bad:
        print(*row, sep="\n  ")
    print(f"{made} runs, seed {seed}: {len(bad)} disturbed")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
