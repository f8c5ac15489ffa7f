"""`tests/bench/run matrix`: every cell of the table of waits, with all four engines.

tests/system/answers/test_wait_matrix.py, which `tests/run` runs with one engine. Each
cell is recorded --runs times; its path must hold the work of whoever ended the wait, and
be the same by each engine.
"""
import os
import subprocess

from measure import ROOT

ENGINES = ("contract", "central", "cm-sync", "cm-async")


def bench(build, runs):
    for _ in range(runs):
        subprocess.run(
            ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider",
             os.path.join(ROOT, "tests/system/answers/test_wait_matrix.py")],
            env=dict(os.environ, IPS_BUILD=build, IPS_TEST_ENGINES=",".join(ENGINES)),
            check=True)
