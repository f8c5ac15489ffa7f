"""Whoever asks right after a program ended means that program. With resident
daemons the run was told to the master a tenth of a second later: a question by
name failed, and one without a name was answered for the run before."""
import pytest

pytestmark = pytest.mark.quick


def test_question_right_after_the_run(cluster):
    c = cluster(["m1"])
    for i in range(8):
        c.ipsrun(["true"], name=f"run{i}", check=True)
        assert c.json("path")["run"] == f"run{i}"
        c.ipsrun(["true"], name=f"named{i}", check=True)
        assert c.json("path", f"named{i}")["run"] == f"named{i}"
