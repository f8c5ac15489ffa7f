"""Shows that recording does not change stressors of stress-ng: the short form of
tests/bench/guests, which also runs whole test suites; and that its comparison
finds what differs.

Would catch an agent that makes a system call fail, changes an exit status,
leaves files behind or keeps a program from ending; a comparison that passes
whatever it is given.
"""
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, clean_env

sys.path.append(str(ROOT / "tests" / "bench" / "guests.d"))

from guest_compare import PARSERS, Run, compare  # noqa: E402


@pytest.mark.skipif(not shutil.which("stress-ng"), reason="no stress-ng (deploy/deps --bench)")
def test_stressors_are_not_changed(build):
    done = subprocess.run(
        [ROOT / "tests" / "bench" / "guests", "--short", "--build", build.top],
        env=clean_env(), capture_output=True, text=True, timeout=280)
    if "left out: everything" in done.stdout:
        pytest.skip(done.stdout.splitlines()[0])
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.match(r"compared: stressors (\d+); 0 differences",
                        done.stdout.splitlines()[-1])
    assert compared and int(compared[1]) > 0, done.stdout


@pytest.mark.quick
def test_comparison_finds_what_differs():
    """Each kind of difference, and none where two bare runs differ."""
    bare = Run(0, {"a": "PASS", "b": "PASS"}, {"log": "1", "x": "2"})
    again = Run(0, {"a": "PASS", "b": "FAIL"}, {"log": "3", "x": "2"})
    same = Run(0, {"a": "PASS", "b": "SKIP"}, {"log": "4", "x": "2"})
    wavering = {("test", "b"), ("content", "log")}
    assert compare(bare, same, again) == (set(), wavering)
    other = Run(-11, {"a": "FAIL", "c": "PASS"}, {"x": "5", "core": "6"})
    assert compare(bare, other, again) == (
        {("exit status", ""), ("test", "a"), ("test", "c"), ("file", "log"),
         ("file", "core"), ("content", "x")}, wavering)


@pytest.mark.quick
@pytest.mark.parametrize("form, text", [
    ("tap", "1..4\nok 1 - a\n# text\nnot ok 2 - b\nok 3 - c # SKIP no c\n"
     "ok 4 - a\n"),
    ("tinytest", "x/a: [forking] OK\nx/b: \n  FAIL b.c:1: no\n  [b FAILED]\n"
     "x/c: SKIPPED\nx/a: warning\nOK\n1/4 TESTS FAILED.\n"),
    ("redis", "[ok]: a (3 ms)\n\x1b[31m[err]\x1b[0m: b in tests/unit/b.tcl\n"
     "[skip]: c\n[ok]: a (0 ms)\n")])
def test_results_are_read(form, text):
    prefix = "x/" if form == "tinytest" else ""
    assert PARSERS[form](None, text) == {
        prefix + "a": "PASS", prefix + "b": "FAIL", prefix + "c": "SKIP",
        prefix + "a #2": "PASS"}


def test_results_of_automake_are_read(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.trs").write_text(":test-result: XFAIL\n:recheck: no\n")
    (tmp_path / "b.trs").write_text(":test-result: PASS one\n"
                                    ":test-result: FAIL two\n")
    assert PARSERS["automake"](str(tmp_path), "") == {
        "b one": "PASS", "b two": "FAIL", "t/a": "XFAIL"}
