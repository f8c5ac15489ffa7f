"""The distributed programs that the experiments measure (tests/programs), not
measured: what they print is right, whatever their sizes and the timing."""
import pathlib
import subprocess

import pytest

import distributed

SIZES = {
    "julia": [{}, {"workers": 3, "lines": 7, "side": 50}],
    "jobs": [{}, {"workers": 5, "window": 3, "work": 20}],
    "search": [{}, {"workers": 3, "chunk": 1000, "rounds": 1, "bytes": 77777}],
    "pipeline": [{}, {"works": (0,), "items": 7, "bytes": 8}],
    "exchange": [{"work": 100}, {"peers": 1, "work": 1},
                 {"peers": 8, "bytes": 300000, "rounds": 2, "work": 1}],
    "matrix": [{}, {"mesh": 1, "side": 7}, {"mesh": 3, "side": 60}],
    "files": [{"clients": "s", "work": 10},
              {"clients": "srrssrs", "blocks": 30, "work": 10}],
    "tsp": [{}, {"servers": 4, "version": "overlap"}, {"version": "cache"}],
    "locks": [{"turns": 20}, {"threads": 1, "locks": 1, "barrier": 0}],
}


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted(distributed.PROGRAMS))
def test_known_answer(build, tmp_path, name):
    """EVIDENCE-OF: DPM-12 DRO-6 (the programs alone). Would catch a program
    whose answer depends on who was first, and - it is the sanitized build - one
    that reads or writes where it must not."""
    checked = pathlib.Path(build.program("checked"))
    for sizes in SIZES[name]:
        distributed.run_here(
            distributed.PROGRAMS[name](checked, tmp_path, **sizes))


@pytest.mark.quick
def test_check_sees_a_wrong_answer(build, tmp_path):
    """Would catch known answers that agree with anything."""
    for name, kind in distributed.PROGRAMS.items():
        program = kind(build.program(""), tmp_path)
        with pytest.raises(AssertionError):
            program.check({label: "listening x\nwrong\n"
                           for label in program.labels})


@pytest.mark.quick
@pytest.mark.parametrize("words", [
    ["julia-master", "--side", "0"], ["jobs-worker"], ["search-master"],
    ["pipeline-stage"], ["exchange", "--known", "3"], ["matrix-node"],
    ["files-client", "--number", "99", "--known"], ["files-disk", "--nosuch"],
    ["locks", "--threads"]])
def test_wrong_usage(build, words):
    done = subprocess.run([build.program(words[0]), *words[1:]],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "usage:" in done.stderr
