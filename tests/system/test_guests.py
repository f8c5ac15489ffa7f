"""Shows that recording does not change stressors of stress-ng: the short form of
tests/bench/guests, which also runs whole test suites.

Would catch an agent that makes a system call fail, changes an exit status,
leaves files behind or keeps a program from ending.
"""
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, clean_env


@pytest.mark.skipif(not shutil.which("stress-ng"), reason="no stress-ng")
def test_stressors_are_not_changed(build):
    done = subprocess.run(
        [ROOT / "tests" / "bench" / "guests", "--short", "--build", build.top],
        env=clean_env(), capture_output=True, text=True, timeout=280)
    last = done.stdout.splitlines()[-1]
    if "left out: everything" in done.stdout:
        pytest.skip(done.stdout.splitlines()[0])
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.match(r"compared: stressors (\d+); 0 differences", last)
    assert compared and int(compared[1]) > 0, done.stdout
