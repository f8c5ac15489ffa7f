#!/usr/bin/python3
"""Every engine on real daemons: a master and slaves on this machine, a
synthetic run (bench_synth) drained by them, and `ipsq path` with each engine,
interleaved.

    tests/bench/engines.py [--build DIR] [--nodes N] [--slaves N]
        [--threads N] [--times N] [--engines A,B] [--relay] [PATTERN...]

Prints, of the fastest of --times answers: the time that the master took, and
what was exchanged for the main lane. --relay: slaves do not reach each other.
Times of a loaded machine are provisional; all engines must give one t_max."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

PATTERNS = ("pingpong", "ring", "master", "random", "all", "stencil",
            "pipeline")
ENGINES = ("contract", "central", "cm-sync", "cm-async", "auto")


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build/release")
    p.add_argument("--nodes", type=int, default=20000)
    p.add_argument("--slaves", type=int, default=4)
    p.add_argument("--threads", type=int, default=64)
    p.add_argument("--times", type=int, default=3)
    p.add_argument("--engines", default=",".join(ENGINES))
    p.add_argument("--relay", action="store_true")
    p.add_argument("patterns", nargs="*", default=PATTERNS)
    return p.parse_args()


class Cluster:
    def __init__(self, o, root, pattern):
        self.bin = pathlib.Path(o.build).resolve()
        self.root = root
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("IPS_")}
        self.address = f"unix:{root}/master.sock"
        subprocess.run([self.bin / "tests" / "bench_synth", pattern,
                        "--nodes", str(o.nodes), "--slaves", str(o.slaves),
                        "--threads", str(o.threads), "--cyclic", "--pool",
                        str(root), "--run", "synth"],
                       check=True, stdout=subprocess.DEVNULL)
        self.daemons = [self.start("ips-master", "--state", root / "state",
                                   "--listen", self.address)]
        for k in range(o.slaves):
            os.chmod(root / str(k), 0o700)
            self.daemons.append(self.start(
                "ips-slave", "--pool", root / str(k), "--state",
                root / f"s{k}", "--machine", f"m{k:03}", "--master",
                self.address, *(["--listen", "none"] if o.relay else [])))

    def start(self, name, *words):
        return subprocess.Popen(
            [self.bin / "bin" / name, *[str(w) for w in words]], env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(self.root / "log", "ab"))

    def ask(self, *words):
        return subprocess.run(
            [self.bin / "bin" / "ipsq", "--master", self.address, "--state",
             self.root / "state", *words, "--format", "json"], env=self.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def wait(self, slaves):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            done = self.ask("runs")
            rows = json.loads(done.stdout)["runs"] if done.stdout else []
            if rows and not rows[0]["open"] and \
                    len(rows[0]["machines"]) == slaves:
                return
            time.sleep(0.1)
        raise SystemExit("the run was not drained: " +
                         (self.root / "log").read_text())

    def stop(self):
        for d in self.daemons:
            d.terminate()
        for d in self.daemons:
            d.wait()


def main():
    o = options()
    print(f"{'pattern':9} {'engine':9} {'ms':>9} {'rounds':>7} {'values':>9} "
          f"{'messages':>9} {'bytes':>11}  certificate")
    for pattern in o.patterns:
        root = pathlib.Path(tempfile.mkdtemp(prefix="ips-bench-",
                                             dir="/dev/shm"))
        c = Cluster(o, root, pattern)
        try:
            c.wait(o.slaves)
            best = {}
            for _ in range(o.times):
                for engine in o.engines.split(","):
                    done = c.ask("path", "synth", "--fresh", "--engine",
                                 engine)
                    if done.returncode not in (0, 3):
                        best.setdefault(engine, {"error": done.stderr})
                        continue
                    a = json.loads(done.stdout)
                    a.pop("segments", None)
                    old = best.get(engine)
                    if not old or "error" in old or \
                            a["took_ns"] < old["took_ns"]:
                        best[engine] = a
            lengths = {a["t_max_ns"] for a in best.values() if "error" not in a}
            assert len(lengths) == 1, lengths
            for engine, a in best.items():
                if "error" in a:
                    print(f"{pattern:9} {engine:9} {a['error'].strip()}")
                    continue
                print(f"{pattern:9} {engine:9} {a['took_ns'] / 1e6:9.1f} "
                      f"{a['cost_rounds']:7} {a['cost_values']:9} "
                      f"{a['cost_messages']:9} {a['cost_bytes']:11}  "
                      f"{a['certificate']['engine']}", flush=True)
        finally:
            c.stop()
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
