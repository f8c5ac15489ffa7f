"""The short form of the soak (tests/bench/soak): process churn under resident
daemons, and rest, twice.

Would catch: descriptors, pool or memory that are not given back, a run that
fails, a daemon that ends.
"""
import subprocess

from conftest import ROOT, clean_env


def test_two_rounds(build):
    done = subprocess.run(
        [ROOT / "tests" / "bench" / "soak", "--rounds", "2", "--build",
         build.top], env=clean_env(), capture_output=True, text=True,
        timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GROWS" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].split()[-1] == "runs" and len(lines) > 4, done.stdout
