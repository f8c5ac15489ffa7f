"""`tests/bench/run scale` in short: a synthetic run on four slaves and a master.
Would catch: a slave that does not take in what the generator writes (or the
generator writing what is no run), remote messages joined wrongly between four
slaves, a path other than the one that the walk itself found - asked ahead, from
records, from memory, and from the graphs' files of slaves started anew -, in a
pattern where messages cross between slaves and inside them."""
import subprocess
import sys

from conftest import ROOT


def test_path_of_a_synthetic_run_on_four_slaves(build):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "bench" / "run"), "scale",
         "--events", "60000", "--runs", "1", "--pattern", "stencil", "--build",
         str(build.top)], text=True, timeout=300, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    # Each question's answer was held against the walk's, or it had failed.
    assert done.stdout.count("\npath, ") == 5, done.stdout
